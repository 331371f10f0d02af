# SPDX-License-Identifier: MIT
"""A problem that several ranks solve together has the solution that one process finds.

The ranks are threads that wait a random time before they communicate (support/ranks.py).

Covers poisson.discrete.share.
"""

import copy
import logging
import pickle
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from support.divided import FLUX, PROBLEMS, on_box, raised, solved
from support.ranks import ThreadCommunicator, on_ranks

import poisson
from poisson import Solver, Status
from poisson.backends.numpy import NumpyBackend, NumpyOperations
from poisson.errors import CaseError, GridError, IncompatibleSource, PoissonError, ResourceError
from poisson.parallel.communicator import Serial
from poisson.parallel.distributed import DistributedBackend
from poisson.problem.problem import Problem
from poisson.run import backend as run_backend
from poisson.run.ranks import Ranks, communicator_of
from poisson.run.solution import Solution

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
    ("2D, varying", "multigrid", {"backend": "openmp", "threads": 1}),
    ("3D, mirrors", "cg", {"backend": "openmp", "threads": 1}),
    ("3D", "jacobi", JACOBI | {"backend": "openmp", "threads": 1}),
    ("2D, varying", "multigrid", {"backend": "gpu"}),
]


@pytest.fixture(autouse=True)
def levels_are_divided(monkeypatch: pytest.MonkeyPatch) -> None:
    """Levels are gathered where they are small, and all of those here would be."""
    monkeypatch.setattr(DistributedBackend.__init__, "__defaults__", (400,))


@pytest.mark.parametrize(
    ("name", "method", "options"),
    SOLVES,
    ids=["-".join([name, method, *map(str, options.values())]) for name, method, options in SOLVES],
)
def test_ranks_find_what_one_process_does(
    name: str, method: str, options: dict[str, Any], backends_by_name: None
) -> None:
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
    blocks = options.get("ranks", [1] * (problem.lattice.dimension - 1) + [size])
    assert together.provenance["blocks"] == " x ".join(map(str, blocks))


@pytest.mark.parametrize("precision", ["float64", "float32"])
@pytest.mark.parametrize("name", ["2D, varying", "3D, mirrors"])
def test_fields_are_those_of_one_process(name: str, precision: str) -> None:
    problem, size = PROBLEMS[name]
    names = ["f", "a", "c", "residual", "gradient", "flux", "E"]
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
    size = 2 if problem.lattice.nodes > 1000 else 4
    alone = poisson.solve(problem, backend="numpy")
    caplog.clear()

    def solve(comm: ThreadCommunicator) -> Solution:
        return poisson.solve(problem, backend="numpy", comm=comm)

    whole = problem.lattice.dimension == 1 or problem.lattice.nodes < 1000
    for solution in on_ranks(size, solve):
        assert solution.share is not None
        held = tuple((0, count) for count in problem.lattice.array_shape)
        assert (solution.share.ranges == held) == whole
        if whole:
            np.testing.assert_array_equal(solution.u, alone.u)
    said = [record.message for record in caplog.records if "too small to be divided" in record.message]
    assert said == (
        [f"the problem is too small to be divided: each of {size} processes solves all of it"] if whole else []
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
    line = "equation.f: the function fails with ArithmeticError: no values up here"
    assert {(type(error), str(error)) for error in errors} == {(CaseError, line)}


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
    monkeypatch.setattr("poisson.run.memory.LITTLE", 0)
    monkeypatch.setattr(NumpyBackend, "memory", lambda _: (room, room))
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
        line = f"^run.ranks: {given}; allowed: the number of processes, and there are 2 processes: start"
        with pytest.raises(CaseError, match=line):
            on_ranks(2, lambda comm, it=wanted: Solver(on_box((33, 65)), backend="numpy", ranks=it, comm=comm))
    with pytest.raises(CaseError, match="the number of processes, and there is 1 process: start"):
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
    with pytest.raises(CaseError, match="comm: an int; allowed: a communicator of mpi4py, such"):
        poisson.solve(on_box((9, 9)), comm=3)


def test_ranks_on_different_backends_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    create = run_backend.backends.create

    def created(comm: ThreadCommunicator) -> None:
        def named(*arguments: Any) -> Any:
            backend = create(*arguments)
            backend.name = f"number {names.pop()}"
            return backend

        comm.barrier()
        if comm.rank == 0:
            monkeypatch.setattr(run_backend.backends, "create", named)
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
    with pytest.raises(CaseError, match="the solution has no field 'a'; its fields are u, f"):
        solution.gather("a")


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
