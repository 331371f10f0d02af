"""A problem that several ranks solve together has the solution that one process finds.

The ranks are threads that wait a random time before they communicate (support/ranks.py).

Covers poisson.run.ranks, poisson.run.spread and poisson.discrete.share.
"""

from __future__ import annotations

import copy
import logging
import pickle
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from support.ranks import ThreadCommunicator, on_ranks

import poisson
from poisson import Solver, Status
from poisson.backends.numpy import NumpyBackend, NumpyOperations
from poisson.errors import CaseError, GridError, IncompatibleSource, PoissonError, RemoteFailure, ResourceError
from poisson.parallel.communicator import Serial
from poisson.parallel.distributed import DistributedBackend
from poisson.problem.problem import Problem
from poisson.run import solver as solver_module
from poisson.run.ranks import Ranks, communicator_of
from poisson.run.solution import Solution

FLUX = {"neumann": "0.3 + 0 * x"}
ROBIN = {"robin": "x - 0.2", "alpha": "1 + x"}
INSULATED = {"all": {"neumann": 0.0}}


def on_box(shape: tuple[int, ...], **given: Any) -> Problem:
    return Problem.on_box(shape, **{"f": "sin(3*x) + x", "boundary": 1.0, **given})


PROBLEMS: dict[str, tuple[Problem, int]] = {
    "2D": (on_box((33, 65)), 3),
    "2D, mirrors": (on_box((33, 50), f="x - y", a=2.0, c=0.1, boundary={"all": FLUX, "x_lower": 1.0}), 2),
    "2D, periodic": (on_box((32, 64), f="sin(2*pi*y)", boundary={"y": "periodic", "all": 0.0}), 4),
    "2D, singular": (on_box((33, 65), f="cos(pi*x)*y", boundary={"all": {"neumann": 0.0}}), 3),
    "2D, varying": (on_box((33, 65), a="1 + x*y", c="y", boundary={"all": ROBIN, "y_lower": "x"}), 3),
    "2D, varying, periodic": (on_box((32, 64), a="2 + sin(2*pi*y)", boundary={"y": "periodic", "all": 0.5}), 2),
    "3D": (on_box((9, 17, 33), f="x*y - z"), 3),
    "3D, mirrors": (on_box((17, 9, 32), a="1 + z", c=1.0, boundary={"all": FLUX, "z": "periodic"}), 4),
    "3D, singular": (on_box((9, 16, 20), f="cos(pi*z)", boundary={"all": {"neumann": 0.0}, "y": "periodic"}), 2),
}
"""Problems, each with a number of ranks."""

JACOBI = {"max_iterations": 60}
SOLVES: list[tuple[str, str, dict[str, Any]]] = [
    *((name, "multigrid", {}) for name in PROBLEMS),
    *((name, "cg", {}) for name in PROBLEMS if "varying" in name or name == "3D, mirrors"),
    *((name, "fft", {}) for name in ("2D", "2D, periodic", "2D, singular", "3D, singular")),
    ("2D", "jacobi", JACOBI),
    ("2D, varying, periodic", "jacobi", JACOBI | {"loop": "staged"}),
    ("3D, mirrors", "jacobi", JACOBI | {"loop": "fused", "norm": "max"}),
    ("2D, varying", "chebyshev", {"max_iterations": 130}),
    ("3D, singular", "chebyshev", {"max_iterations": 130}),
    ("2D, mirrors", "sor", {"max_iterations": 50}),
    ("3D, singular", "sor", {"max_iterations": 50}),
    ("3D", "cg", {"preconditioner": "none"}),
    ("2D, mirrors", "cg", {"preconditioner": "jacobi"}),
    ("2D, varying, periodic", "cg", {"preconditioner": "fft"}),
    ("2D", "multigrid", {"cycle": "W", "full": False, "smoother": "red-black"}),
    ("2D, varying", "auto", {}),
    ("2D, periodic", "auto", {}),
    ("3D, mirrors", "multigrid", {"ranks": [1, 2, 2]}),
    ("3D", "cg", {"ranks": [1, 3, 1]}),
    ("3D, singular", "multigrid", {"ranks": [1, 1, 2], "stop": "discretisation"}),
    ("2D, varying", "multigrid", {"stop": "discretisation"}),
    ("2D, mirrors", "multigrid", {"precision": "mixed"}),
    ("3D, mirrors", "multigrid", {"precision": "mixed"}),
    ("2D, varying", "cg", {"precision": "mixed"}),
    ("2D, singular", "cg", {"precision": "mixed"}),
    ("2D, varying", "multigrid", {"precision": "float32"}),
    ("3D", "jacobi", JACOBI | {"precision": "float32"}),
    ("3D, mirrors", "jacobi", JACOBI | {"precision": "float32", "ranks": [1, 2, 2]}),
]


@pytest.fixture(autouse=True)
def levels_are_divided(monkeypatch: pytest.MonkeyPatch) -> None:
    """Levels are gathered where they are small, and all of those here would be."""
    monkeypatch.setattr(DistributedBackend.__init__, "__defaults__", (400,))


def solved(problem: Problem, size: int, **options: Any) -> tuple[Solution, NDArray[Any]]:
    """The part of the first rank, after a look at those of the others, and the whole of u."""

    def solve(comm: ThreadCommunicator) -> tuple[Solution, Any]:
        solution = poisson.solve(problem, comm=comm, **options)
        return solution, solution.gather()

    found = on_ranks(size, solve)
    first, whole = found[0]
    assert [each for _, each in found[1:]] == [None] * (size - 1)
    for part, _ in found[1:]:
        assert (part.status, part.iterations, part.history) == (first.status, first.iterations, first.history)
        assert (part.residual, part.error, part.error_bar) == (first.residual, first.error, first.error_bar)
        assert (part.times, part.target) == (first.times, first.target)
    return first, whole


@pytest.mark.parametrize(
    ("name", "method", "options"),
    SOLVES,
    ids=["-".join([name, method, *map(str, options.values())]) for name, method, options in SOLVES],
)
def test_ranks_find_what_one_process_does(name: str, method: str, options: dict[str, Any]) -> None:
    """The same iterations; only sums over the nodes are rounded otherwise, as they are joined from parts."""
    problem, size = PROBLEMS[name]
    given = {"method": method, "backend": "numpy", **options}
    alone = poisson.solve(problem, **{key: value for key, value in given.items() if key != "ranks"})
    together, u = solved(problem, size, **given)
    assert (together.status, together.iterations) == (alone.status, alone.iterations)
    np.testing.assert_allclose(u, alone.u, rtol=0.0, atol=1e-12 * np.abs(alone.u).max())
    # Far below the target there is nothing but rounding.
    np.testing.assert_allclose(together.history, alone.history, rtol=1e-4, atol=1e-3 * alone.target)
    assert together.residual == pytest.approx(alone.residual, rel=1e-3, abs=1e-3 * alone.target)
    assert (together.error_bar is None) == (alone.error_bar is None)
    if alone.error_bar is not None:
        assert together.error_bar == pytest.approx(alone.error_bar, rel=1e-9)
    assert together.provenance["ranks"] == size
    blocks = options.get("ranks", [1] * (problem.grid.dimension - 1) + [size])
    assert together.provenance["blocks"] == " x ".join(map(str, blocks))


@pytest.mark.parametrize(
    ("name", "method", "backend"),
    [
        ("2D, varying", "multigrid", "openmp"),
        ("3D, mirrors", "cg", "openmp"),
        ("3D", "jacobi", "openmp"),
        pytest.param("2D, varying", "multigrid", "gpu", id="emulated"),
    ],
)
def test_compiled_ranks_find_what_one_process_does(
    name: str, method: str, backend: str, backends_by_name: None
) -> None:
    problem, size = PROBLEMS[name]
    given: dict[str, Any] = {"method": method, "backend": backend, "max_iterations": 60}
    if backend == "openmp":
        given["threads"] = 1
    alone = poisson.solve(problem, **given)
    together, u = solved(problem, size, **given)
    assert (together.status, together.iterations) == (alone.status, alone.iterations)
    np.testing.assert_allclose(u, alone.u, rtol=0.0, atol=1e-12 * np.abs(alone.u).max())


@pytest.mark.parametrize("precision", ["float64", "float32"])
@pytest.mark.parametrize("name", ["2D, varying", "3D, mirrors"])
def test_fields_are_those_of_one_process(name: str, precision: str) -> None:
    problem, size = PROBLEMS[name]
    names = ["f", "a", "c", "residual", "gradient", "flux"]
    ranks = {"ranks": [1, 2, 2]} if size == 4 else {}
    given: dict[str, Any] = {"method": "jacobi", "backend": "numpy", "max_iterations": 9, "precision": precision}
    alone = poisson.solve(problem, fields=names, order=4, **given)

    def solve(comm: ThreadCommunicator) -> dict[str, Any]:
        solution = poisson.solve(problem, fields=names, order=4, comm=comm, **given, **ranks)
        assert solution.fields["gradient"].shape[:-1] == solution.u.shape
        return {field: solution.gather(field, all=True) for field in names}

    for fields in on_ranks(size, solve):
        for field, values in fields.items():
            assert values.dtype == alone.fields[field].dtype
            largest = np.abs(alone.fields[field]).max()
            np.testing.assert_allclose(values, alone.fields[field], rtol=0.0, atol=1e-12 * largest, err_msg=field)


@pytest.mark.parametrize(
    ("exact", "boundary"), [("sin(pi*x)*y", "sin(pi*x)*y"), ("3 + cos(pi*x)*cos(pi*y)", {"all": {"neumann": 0.0}})]
)
def test_errors_are_those_of_one_process(exact: str, boundary: Any) -> None:
    source = "pi**2*sin(pi*x)*y" if boundary == exact else "2*pi**2*cos(pi*x)*cos(pi*y)"
    problem = on_box((33, 50), f=source, exact=exact, boundary=boundary)
    given: dict[str, Any] = {"method": "multigrid", "backend": "numpy", "fields": ["error"], "rtol": 1e-11}
    alone = poisson.solve(problem, **given)
    together, _ = solved(problem, 3, **given)
    assert alone.error is not None
    assert together.error is not None
    assert together.error.rms == pytest.approx(alone.error.rms, rel=1e-9)
    assert together.error.max == pytest.approx(alone.error.max, rel=1e-9)


def test_runs_on_as_many_ranks_have_the_same_bits() -> None:
    problem, size = PROBLEMS["3D, mirrors"]
    first, second = (solved(problem, size, method="cg", backend="numpy") for _ in range(2))
    np.testing.assert_array_equal(first[1], second[1])
    assert first[0].history == second[0].history
    assert first[0].residual == second[0].residual


def test_a_solver_of_ranks_solves_for_many_sources() -> None:
    problem, _ = PROBLEMS["2D, mirrors"]
    sources: list[Any] = [None, "x*y", lambda x, y: np.cos(x + y)]
    alone = Solver(problem, "multigrid", "numpy", rtol=1e-10)
    expected = [alone.solve(f=f, initial="x") for f in sources]

    def solve(comm: ThreadCommunicator) -> list[Any]:
        solver = Solver(problem, "multigrid", "numpy", rtol=1e-10, comm=comm)
        return [solver.solve(f=f, initial="x").gather() for f in sources]

    for values, solution in zip(on_ranks(3, solve)[0], expected, strict=True):
        np.testing.assert_allclose(values, solution.u, rtol=0.0, atol=1e-12)


def test_a_pass_is_as_deep_on_every_rank(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is best for the part of one."""
    monkeypatch.setattr(NumpyOperations, "depth", lambda self: 2 + (self.operator.lattice.axes[-1].first > 0))
    problem, size = PROBLEMS["2D, varying"]
    given: dict[str, Any] = {"backend": "numpy", "method": "jacobi", "max_iterations": 25}
    alone = poisson.solve(problem, **given)
    together, u = solved(problem, size, **given)
    assert together.iterations == alone.iterations
    np.testing.assert_allclose(u, alone.u, rtol=0.0, atol=1e-12)


# ---- few nodes


@pytest.mark.parametrize("problem", [on_box((2001,)), on_box((9, 9)), on_box((400, 3), f="x", a="1 + y")])
def test_what_is_not_divided_every_rank_solves(problem: Problem, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "poisson")
    size = 2 if problem.grid.nodes > 1000 else 4
    alone = poisson.solve(problem, backend="numpy")
    caplog.clear()

    def solve(comm: ThreadCommunicator) -> Solution:
        return poisson.solve(problem, backend="numpy", comm=comm)

    whole = problem.grid.dimension == 1 or problem.grid.nodes < 1000
    for solution in on_ranks(size, solve):
        assert solution.share is not None
        held = tuple((0, count) for count in problem.grid.array_shape)
        assert (solution.share.ranges == held) == whole
        if whole:
            np.testing.assert_array_equal(solution.u, alone.u)
    said = [record.message for record in caplog.records if "too small to be divided" in record.message]
    assert said == (
        [f"the problem is too small to be divided: each of the {size} processes solves it"] if whole else []
    )


@pytest.mark.parametrize("method", ["multigrid", "cg", "jacobi", "sor"])
def test_parts_of_one_plane(method: str) -> None:
    problem = on_box((16, 17, 4), f="x", a="1 + z", boundary={"all": FLUX, "x_lower": 0.0})
    given: dict[str, Any] = {"method": method, "backend": "numpy", "max_iterations": 30, "precision": "float32"}
    alone = poisson.solve(problem, fields=["residual"], **given)
    together, u = solved(problem, 4, ranks=[1, 1, 4], fields=["residual"], **given)
    assert (together.status, together.iterations) == (alone.status, alone.iterations)
    np.testing.assert_allclose(u, alone.u, rtol=0.0, atol=1e-6)
    assert together.residual == pytest.approx(alone.residual, rel=1e-5)


def test_fewer_planes_than_ranks_are_refused() -> None:
    with pytest.raises(GridError, match="4 ranks along y, but only 3 nodes: use fewer ranks"):
        on_ranks(4, lambda comm: poisson.solve(on_box((400, 3)), backend="numpy", comm=comm))


# ---- what cannot be


def raised(size: int, call: Callable[[ThreadCommunicator], object]) -> list[Exception]:
    """The error that each rank raises."""

    def caught(comm: ThreadCommunicator) -> Exception:
        try:
            call(comm)
        except Exception as error:
            return error
        raise AssertionError("nothing was raised")

    return on_ranks(size, caught)


def test_a_value_that_is_not_finite_on_one_rank_is_told_by_all() -> None:
    for equation, line in (
        ({"f": "1 / (y - 0.75)"}, "equation.f: inf at x = 0, y = 0.75; every value must be finite"),
        ({"a": "y - 0.01"}, "equation.a: -0.01 at x = 0, y = 0; every value must be > 0"),
        ({"c": "0.5 - y"}, "equation.c: -0.015625 at x = 0, y = 0.515625; every value must be >= 0"),
        ({"boundary": {"all": 0.0, "y_upper": "1 / (x - x)"}}, "boundary.y_upper: inf at x = 0, y = 1; every value"),
    ):
        problem = on_box((33, 65), **equation)
        for error in raised(3, lambda comm, it=problem: poisson.solve(it, backend="numpy", comm=comm)):
            assert isinstance(error, CaseError)
            assert str(error).startswith(line)


def test_an_error_of_a_function_ends_all_ranks() -> None:
    def source(x: Any, y: Any) -> Any:
        if float(y.max()) == 1.0:
            raise ArithmeticError("no values up here")
        return x

    errors = raised(3, lambda comm: poisson.solve(on_box((33, 65), f=source), backend="numpy", comm=comm))
    assert [type(error) for error in errors] == [RemoteFailure, RemoteFailure, ArithmeticError]
    assert str(errors[0]) == "process 2 has failed: ArithmeticError: no values up here"


def test_a_problem_without_a_solution_is_refused_by_all() -> None:
    problem = on_box((33, 65), f="1 + cos(pi*x)", boundary={"all": {"neumann": 0.0}})
    errors = raised(2, lambda comm: poisson.solve(problem, backend="numpy", comm=comm))
    assert {type(error) for error in errors} == {IncompatibleSource}
    assert len({str(error) for error in errors}) == 1
    with pytest.raises(IncompatibleSource) as alone:
        poisson.solve(problem, backend="numpy")
    assert str(alone.value) == str(errors[0])


def test_memory_is_that_of_a_part(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the memory of the host each rank there has a share."""
    problem, room = on_box((33, 65)), 3 << 20
    monkeypatch.setattr("poisson.run.memory.host_memory", lambda: (room, room))
    poisson.solve(problem, "jacobi", "numpy", max_iterations=1)
    assert solved(problem, 2, method="jacobi", backend="numpy", max_iterations=1)[0].iterations == 1
    for error in raised(3, lambda comm: poisson.solve(problem, "jacobi", "numpy", comm=comm)):
        assert isinstance(error, ResourceError)
        for words in ("for a part of", "in float64", "for each of the 3 processes on this host: reduce domain.shape"):
            assert words in str(error)


def test_an_array_that_one_rank_has_no_room_for_none_has() -> None:
    """A method that can do without it does so on every rank."""

    def made(comm: ThreadCommunicator) -> None:
        local = NumpyBackend(np.float64)
        if comm.rank == 1:

            def full(array_shape: tuple[int, ...]) -> Any:
                raise MemoryError("none left")

            local.empty = full  # type: ignore[method-assign]
        DistributedBackend(local, comm).empty((9, 9))

    for error in raised(3, made):
        assert isinstance(error, MemoryError)
        assert str(error) == "none left"


def test_ranks_are_as_many_as_the_case_says() -> None:
    for wanted, given in ((4, "4"), ([1, 3], r"\[1, 3\]")):
        line = f"^run.ranks: {given}; allowed: as many as there are processes, and there are 2 processes: start"
        with pytest.raises(CaseError, match=line):
            on_ranks(2, lambda comm, it=wanted: Solver(on_box((33, 65)), backend="numpy", ranks=it, comm=comm))
    with pytest.raises(CaseError, match="as many as there are processes, and there is 1 process: start"):
        Solver(on_box((33, 65)), ranks=2)
    assert Solver(on_box((33, 65)), backend="numpy", ranks=[1, 1]).ranks.size == 1


def test_a_solver_of_ranks_is_not_copied() -> None:
    def copied(comm: ThreadCommunicator) -> None:
        solver = Solver(on_box((33, 65)), "jacobi", "numpy", comm=comm)
        for attempt in (copy.copy, pickle.dumps):
            with pytest.raises(PoissonError, match="on several processes cannot be copied or pickled: make one on"):
                attempt(solver)

    on_ranks(2, copied)


def test_a_communicator_is_one_of_mpi_or_ours() -> None:
    assert isinstance(communicator_of(None), Serial)
    with pytest.raises(CaseError, match="comm: a int; allowed: a communicator of mpi4py, such"):
        poisson.solve(on_box((9, 9)), comm=3)


def test_ranks_on_different_backends_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    create = solver_module.backends.create

    def created(comm: ThreadCommunicator) -> None:
        def named(*arguments: Any) -> Any:
            backend = create(*arguments)
            backend.name = f"number {names.pop()}"
            return backend

        comm.barrier()
        if comm.rank == 0:
            monkeypatch.setattr(solver_module.backends, "create", named)
        comm.barrier()
        Solver(on_box((33, 65)), backend="numpy", comm=comm)

    names = [1, 2]
    with pytest.raises(PoissonError, match="the processes would run on different backends"):
        on_ranks(2, created)


# ---- what is said, and when it ends


def test_what_is_said_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "poisson")
    problem, size = PROBLEMS["2D, singular"]
    together, _ = solved(problem, size, backend="numpy")
    messages = [record.message for record in caplog.records]
    assert len([line for line in messages if line.startswith("singular problem (no dirichlet face")]) == 1
    assert len([line for line in messages if line.startswith("method ")]) == 1
    poisson.solve(problem, backend="numpy")
    assert len(caplog.records) == 2 * len(messages)
    assert together.provenance["method"]


def test_an_interrupt_of_one_rank_ends_all_at_the_same_iteration() -> None:
    problem, size = PROBLEMS["2D, varying"]

    def solve(comm: ThreadCommunicator) -> Solution:
        asked: Iterator[bool] = iter([False, False, comm.rank == 1])
        solver = Solver(problem, "jacobi", "numpy", comm=comm, check_every=5)
        return solver.solve(interrupted=lambda: next(asked))

    for part in on_ranks(size, solve):
        assert (part.status, part.iterations) == (Status.INTERRUPTED, 15)


def test_a_single_process_has_no_share() -> None:
    solution = poisson.solve(on_box((9, 9)), backend="numpy", fields=["f"])
    assert solution.share is None
    assert solution.gather() is solution.u
    assert solution.gather("f", all=True) is solution.fields["f"]
    assert "ranks" not in solution.provenance
    with pytest.raises(CaseError, match="there is no field 'a' in this solution; there is u, f"):
        solution.gather("a")


# ---- arrays


def test_arrays_of_the_whole_grid_and_files_are_read_by_parts(tmp_path: Path) -> None:
    random = np.random.default_rng(1)
    shape = (32, 17, 9)
    np.save(tmp_path / "f.npy", random.random(shape))
    f = np.load(tmp_path / "f.npy", mmap_mode="r")
    boundary: Any = {"z": "periodic", "all": FLUX, "x_lower": {"dirichlet": random.random((32, 17))}}
    boundary["y_upper"] = {"robin": random.random((32, 9)), "alpha": 1.0 + random.random((32, 9))}
    problem = Problem.on_box(shape[::-1], f=f, a=1.0 + random.random(shape), boundary=boundary)
    given: dict[str, Any] = {"method": "multigrid", "backend": "numpy"}
    alone = poisson.solve(problem, **given)
    for ranks in ([1, 1, 4], [1, 2, 2]):
        together, u = solved(problem, 4, ranks=ranks, **given)
        assert together.iterations == alone.iterations
        np.testing.assert_allclose(u, alone.u, rtol=0.0, atol=1e-12)
    estimated = poisson.solve(problem, stop="discretisation", **given)
    together, u = solved(problem, 4, stop="discretisation", **given)
    assert together.error_bar == pytest.approx(estimated.error_bar, rel=1e-9)
    np.testing.assert_allclose(u, estimated.u, rtol=0.0, atol=1e-12)


@pytest.mark.parametrize("name", ["2D", "3D, mirrors"])
def test_arrays_of_a_part_and_of_the_first_rank(name: str) -> None:
    problem, size = PROBLEMS[name]
    f, initial = np.random.default_rng(2).random((2, *problem.grid.array_shape))
    given: dict[str, Any] = {"method": "multigrid", "backend": "numpy"}
    alone = Solver(problem, **given).solve(f=f, initial=initial)

    def solve(comm: ThreadCommunicator) -> list[Any]:
        solver = Solver(problem, comm=comm, **given)
        share = solver.solve(f=f, initial=initial).share
        assert share is not None
        own = tuple(slice(*ends) for ends in share.ranges)
        first = comm.rank == 0
        return [
            solver.solve(f=f[own].copy(), initial=initial[own].astype(np.float32)).gather(),
            solver.solve(f=f if first else None, initial=initial).gather(),
        ]

    rounded = Solver(problem, **given).solve(f=f, initial=initial.astype(np.float32))
    by_parts, by_first = on_ranks(size, solve)[0]
    np.testing.assert_allclose(by_parts, rounded.u, rtol=0.0, atol=1e-12 * np.abs(alone.u).max())
    np.testing.assert_allclose(by_first, alone.u, rtol=0.0, atol=1e-12 * np.abs(alone.u).max())


@pytest.mark.parametrize("size", [3, 1])
def test_a_problem_of_the_first_rank_is_sent_to_the_others(size: int) -> None:
    """With the parts of its arrays; where it is not divided, with all of them."""
    for shape in ((33, 65), (9, 9)):
        random = np.random.default_rng(3)
        nodes = shape[::-1]
        boundary: Any = {"x_lower": random.random(nodes[0]), "all": "x"}
        problem = on_box(shape, f=random.random(nodes), a=1.0 + random.random(nodes), c="y", boundary=boundary)
        alone = poisson.solve(problem, "multigrid", "numpy", fields=["a"])

        def solve(comm: ThreadCommunicator, given: Problem = problem) -> list[Any]:
            mine = given if comm.rank == 0 else None
            solution = poisson.solve(mine, "multigrid", "numpy", fields=["a"], comm=comm)
            assert solution.problem.grid == given.grid
            return [solution.gather(), solution.gather("a")]

        u, a = on_ranks(size, solve)[0]
        np.testing.assert_allclose(u, alone.u, rtol=0.0, atol=1e-12)
        np.testing.assert_array_equal(a, alone.fields["a"])


def test_a_problem_that_cannot_be_sent_is_refused() -> None:
    problem = on_box((33, 65), f=lambda x, y: x)

    def solve(comm: ThreadCommunicator, have: tuple[int, ...]) -> None:
        Solver(problem if comm.rank in have else None, backend="numpy", comm=comm)

    for error in raised(2, lambda comm: solve(comm, (0,))):
        assert str(error).startswith("problem: its functions cannot be sent to the other processes (")
        assert str(error).endswith("); make it on each of them")
    for error in raised(3, lambda comm: solve(comm, (0, 2))):
        assert str(error).startswith("problem: given on some processes only; allowed: on all, or on the first alone")
    for error in raised(2, lambda comm: solve(comm, ())):
        assert str(error).startswith("problem: a NoneType; allowed: a poisson.Problem")


def test_arrays_that_do_not_go_together_are_refused() -> None:
    problem = on_box((33, 65))

    def solve(comm: ThreadCommunicator, f: Any) -> None:
        Solver(problem, "multigrid", "numpy", comm=comm).solve(f=f)

    for error in raised(3, lambda comm: solve(comm, "x" if comm.rank == 1 else None)):
        assert str(error).startswith("f: given on some processes only; allowed: on all, or an array of the whole grid")
    for error in raised(2, lambda comm: solve(comm, np.ones((65, 33)) if comm.rank else np.ones((7, 33)))):
        assert str(error) == "f: an array of the shape (7, 33); the grid needs (65, 33), as x is the last axis"


def test_an_estimate_of_the_error_needs_the_whole_of_an_array() -> None:
    problem = on_box((33, 65))

    def solve(comm: ThreadCommunicator) -> None:
        solver = Solver(problem, "multigrid", "numpy", comm=comm, stop="discretisation")
        f = np.ones((65, 33)) if comm.rank == 0 else None
        solver.solve(f=f)

    for error in raised(3, solve):
        assert "an array of which each process has a part only; this needs the whole array" in str(error)


def test_blocks_are_chosen_for_the_method() -> None:
    def counts(comm: ThreadCommunicator) -> Any:
        ranks = Ranks(comm)
        lattice = Solver(on_box((9, 65, 33)), "jacobi", "numpy").operator.lattice
        found = []
        for planes in (False, True):
            ranks.divide(lattice, lambda part: 4, planes=planes)
            assert ranks.division is not None
            found.append(ranks.division.counts)
        return found

    assert on_ranks(4, counts)[0] == [(1, 4, 1), (1, 1, 4)]
