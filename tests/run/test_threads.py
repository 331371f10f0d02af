# SPDX-License-Identifier: MIT
"""Solvers and operators in several threads: right answers, whoever shares what, and copies that share nothing.

Covers poisson.run.exclusive.
"""

import copy
import os
import pickle
import signal
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from conftest import real

import poisson
from poisson.errors import PoissonError

WALLS = {"all": 0.0}
CHANNEL = {"x": "periodic", "all": 1.0}
SHAPES = ((96, 65), (120, 49), (32, 17, 18), (64, 129))
METHODS: dict[str, dict[str, Any]] = {
    "multigrid": {"rtol": 1e-7},
    "cg": {"rtol": 1e-5},
    "jacobi": {"max_iterations": 40},
    "fft": {},
}
THREADS = 4


def problem(number: int, method: str = "cg") -> poisson.Problem:
    """One of four problems of different sizes, whose coefficients vary where the method takes that."""
    a = 1.0 if method == "fft" else "1 + x*y"
    boundary = CHANNEL if number % 2 else WALLS
    return poisson.Problem.on_box(SHAPES[number], f="sin(3*x)*cos(2*y) + x", a=a, boundary=boundary)


def at_once(work: Callable[[int], None]) -> None:
    """Call with 0 … 3 in threads that begin together; what one raises is raised here."""
    start, raised = threading.Barrier(THREADS), []

    def run(number: int) -> None:
        try:
            start.wait()
            work(number)
        except BaseException as error:
            raised.append(error)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if raised:
        raise raised[0]


def available(backend: str) -> str:
    return real(backend)(np.float64).name


# ---- several threads
@pytest.mark.parametrize("method", METHODS)
def test_different_solvers_in_different_threads(method: str) -> None:
    """To the last bit as alone, with one thread and with two."""
    backend = available("openmp")
    solvers = [
        poisson.Solver(problem(number, method), method, backend, threads=1 + number % 2, **METHODS[method])
        for number in range(THREADS)
    ]
    alone = [solver.solve().u for solver in solvers]

    def work(number: int) -> None:
        for _ in range(12):
            np.testing.assert_array_equal(solvers[number].solve().u, alone[number])

    at_once(work)


@pytest.mark.parametrize("coarse", ["geometric", "galerkin"])
def test_solvers_made_and_used_in_threads(coarse: str) -> None:
    backend = available("openmp")
    given: dict[str, Any] = {"coarse": coarse, "threads": 2}
    alone = [poisson.Solver(problem(number), "multigrid", backend, **given).solve().u for number in range(THREADS)]

    def work(number: int) -> None:
        for _ in range(3):
            solution = poisson.solve(problem(number), "multigrid", backend, **given)
            np.testing.assert_array_equal(solution.u, alone[number])

    at_once(work)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("backend", ["openmp", "numpy"])
def test_one_solver_in_different_threads(backend: str, method: str) -> None:
    solver = poisson.Solver(problem(1, method), method, available(backend), **METHODS[method])
    sources = [f"sin({number + 1}*x) + y" for number in range(THREADS)]
    alone = [solver.solve(f=source).u for source in sources]

    def work(number: int) -> None:
        for _ in range(4 if backend == "openmp" else 2):
            np.testing.assert_array_equal(solver.solve(f=sources[number]).u, alone[number])

    at_once(work)


@pytest.mark.parametrize("backend", ["openmp", "numpy"])
def test_one_linear_operator_and_its_cycle_in_different_threads(backend: str) -> None:
    operator = poisson.LinearOperator(problem(1), available(backend))
    vectors = [np.sin(np.arange(operator.shape[0]) * (number + 1.0)) for number in range(THREADS)]
    maps = [operator, operator.preconditioner] * 2
    alone = [apply @ x for apply, x in zip(maps, vectors, strict=True)]

    def work(number: int) -> None:
        for _ in range(15):
            np.testing.assert_array_equal(maps[number] @ vectors[number], alone[number])

    at_once(work)


# ---- what belongs to a solve
@pytest.mark.parametrize("backend", ["openmp", "numpy"])
def test_a_solution_keeps_its_values(backend: str) -> None:
    solver = poisson.Solver(problem(0), "multigrid", available(backend), fields=("f", "residual", "gradient", "a"))
    first = solver.solve()
    kept = copy.deepcopy({"u": first.u, **first.fields})
    history = list(first.history)
    second = solver.solve(f=lambda x, y: 100.0 * x)
    assert np.max(np.abs(second.u - first.u)) > 1.0
    for name, values in {"u": first.u, **first.fields}.items():
        np.testing.assert_array_equal(values, kept[name])
    assert list(first.history) == history


def test_a_solve_within_a_solve_is_refused() -> None:
    solver = poisson.Solver(problem(0), "cg", "numpy")
    line = (
        "this Solver is already at work in this thread, and an observer or a function called it again: "
        "use another Solver there"
    )
    with pytest.raises(PoissonError) as caught:
        solver.solve(f=lambda x, y: solver.solve().u)
    assert str(caught.value) == line
    assert solver.solve().status is poisson.Status.CONVERGED


def test_an_interrupt_in_a_solve_leaves_the_solver_to_others() -> None:
    solver = poisson.Solver(problem(0), "cg", "numpy")

    def interrupt() -> bool:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        solver.solve(interrupted=interrupt)
    solutions: list[poisson.Solution] = []
    other = threading.Thread(target=lambda: solutions.append(solver.solve()), daemon=True)
    other.start()
    other.join(30)
    assert [solution.status for solution in solutions] == [poisson.Status.CONVERGED]


def test_an_interrupt_ends_the_wait_for_a_solver() -> None:
    solver = poisson.Solver(problem(0), "cg", "numpy")
    begun, end = threading.Event(), threading.Event()

    def hold() -> bool:
        begun.set()
        return end.wait(30)

    other = threading.Thread(target=lambda: solver.solve(interrupted=hold))
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        other.start()
        assert begun.wait(30)
        press = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT))
        press.start()
        with pytest.raises(KeyboardInterrupt):
            solver.solve()
        press.join()
    finally:
        signal.signal(signal.SIGINT, before)
        end.set()
        other.join()
    assert solver.solve().status is poisson.Status.CONVERGED


# ---- copies
def source(x: Any, y: Any) -> Any:
    return x * y


ARRAY = np.linspace(0.0, 1.0, 96 * 65).reshape(65, 96)
SOURCES: dict[str, Any] = {"text": "sin(x)", "function": source, "array": ARRAY}
COPIES: dict[str, Callable[[Any], Any]] = {
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "pickle": lambda made: pickle.loads(pickle.dumps(made)),
}


@pytest.mark.parametrize("way", COPIES)
@pytest.mark.parametrize("kind", SOURCES)
def test_a_copy_of_a_solver_computes_on_arrays_of_its_own(kind: str, way: str) -> None:
    of = poisson.Problem.on_box((96, 65), f=SOURCES[kind], a="1 + x", boundary=CHANNEL)
    solver = poisson.Solver(of, "auto", precision="mixed", fields=("gradient",), order=4, rtol=1e-9)
    made = COPIES[way](solver)
    assert (made.settings, made.run, made.method) == (solver.settings, solver.run, solver.method)
    first = solver.solve()
    kept = first.u.copy()
    other = made.solve(f=2.0)
    np.testing.assert_array_equal(solver.solve().u, kept)
    np.testing.assert_array_equal(made.solve().u, kept)
    assert not np.array_equal(other.u, kept)
    np.testing.assert_array_equal(made.solve().fields["gradient"], first.fields["gradient"])
    begun = [0]

    def ask() -> bool:
        begun[0] += 1
        made.solve()
        return False

    solver.solve(interrupted=ask)
    assert begun[0] > 0


@pytest.mark.parametrize("way", COPIES)
def test_a_copy_of_a_linear_operator_has_arrays_and_a_cycle_of_its_own(way: str) -> None:
    operator = poisson.LinearOperator(problem(1), threads=2)
    x = np.sin(np.arange(operator.shape[0]))
    made, cycle = COPIES[way]((operator, operator.preconditioner)) if way != "copy" else (copy.copy(operator), None)
    assert made is not operator and made.preconditioner is not operator.preconditioner
    assert cycle is None or cycle is made.preconditioner
    np.testing.assert_array_equal(made.rhs, operator.rhs)
    np.testing.assert_array_equal(made @ x, operator @ x)
    np.testing.assert_array_equal(made.preconditioner @ x, operator.preconditioner @ x)


@pytest.mark.parametrize("way", COPIES)
def test_a_copy_of_a_solution_has_all_that_it_holds(way: str) -> None:
    solution = poisson.solve(problem(0), fields=("residual",))
    made = COPIES[way](solution)
    assert type(made) is poisson.Solution
    assert (made.status, made.residual, made.target, made.iterations) == (
        *(solution.status, solution.residual, solution.target, solution.iterations),
    )
    assert (made.history, dict(made.times), dict(made.provenance)) == (
        *(solution.history, dict(solution.times), dict(solution.provenance)),
    )
    np.testing.assert_array_equal(made.u, solution.u)
    np.testing.assert_array_equal(made.fields["residual"], solution.fields["residual"])


def test_threads_evaluate_formulas_together_and_a_function_of_the_user_one_slab_at_a_time() -> None:
    """With the bits of one thread; such a function may solve another problem."""
    shape, inside, callers = (2100, 1100), [0], set()

    def f(x: Any, y: Any) -> Any:
        inside[0] += 1
        if not callers:
            other = poisson.Problem.on_box(shape, f=lambda x, y: x * y)
            poisson.solve(other, "jacobi", "openmp", threads=2, max_iterations=1)
        callers.add(threading.get_ident())
        time.sleep(0.01)
        assert inside[0] == 1
        inside[0] -= 1
        return np.sin(3.0 * x) * y

    found = []
    for threads in (1, 2):
        problem = poisson.Problem.on_box(shape, f=f, a="1 + x*y", exact="x*y")
        solver = poisson.Solver(problem, "jacobi", "openmp", threads=threads, max_iterations=1, fields=("a", "error"))
        found.append(solver.solve())
    assert len(callers) > 1
    one, two = found
    np.testing.assert_array_equal(one.u, two.u)
    assert one.error == two.error
    for name, values in one.fields.items():
        np.testing.assert_array_equal(values, two.fields[name])
