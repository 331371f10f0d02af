# SPDX-License-Identifier: MIT
"""`Solver.solve` with other coefficients: the bits of a new solver, in the arrays of the one that there is.

Covers poisson.discrete.samples and poisson.run.operator.
"""

import itertools
import pickle
import weakref
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from conftest import emulated
from support.ranks import ThreadCommunicator, on_ranks

import poisson
from poisson import backends
from poisson.backends.base import Backend
from poisson.backends.numpy import NumpyBackend, NumpyOperations, NumpyTransfer
from poisson.errors import CaseError, PoissonError
from poisson.parallel.distributed import DistributedBackend
from poisson.problem.problem import Problem
from poisson.run import solver as module
from poisson.run.solver import Solver

pytestmark = [
    pytest.mark.usefixtures("backends_by_name"),
    # Bits are compared after few iterations.
    pytest.mark.filterwarnings("ignore::poisson.NotConverged"),
]

INSULATED = {"all": {"neumann": 0.0}}
ROBIN = {"x_lower": {"robin": 0.2, "alpha": 0.7}, "all": "x"}
METHODS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("multigrid", {}),
    ("multigrid", {"full": True}),
    ("multigrid", {"smoother": "red-black", "cycle": "W"}),
    *(("cg", {"preconditioner": name}) for name in ("multigrid", "fft", "jacobi", "none")),
    ("sor", {}),
    ("chebyshev", {}),
    ("jacobi", {}),
    ("jacobi", {"loop": "staged", "omega": 0.5}),
)
MIXED = {"multigrid", "fft"}
"""What has mixed precision: methods, or preconditioners."""
MULTIGRID = {"multigrid"}


def values(shape: tuple[int, ...], seed: int) -> Any:
    """a between 1 and 2 at every node."""
    return 1.0 + np.random.default_rng(seed).random(shape[::-1])


@pytest.fixture
def set_ups(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What was set up anew for another operator."""
    made: list[Any] = []
    set_up_on: Callable[..., Any] = module.set_up_on  # type: ignore[attr-defined]
    monkeypatch.setattr(module, "set_up_on", lambda *given: made.append(given) or set_up_on(*given))
    return made


def u_of(solver: Solver, **given: Any) -> Any:
    return np.array(solver.solve(**given).u)


# ---- the bits of a new solver
def cases() -> list[Any]:
    found = []
    for (method, options), precision, backend in itertools.product(
        METHODS, ("float64", "float32", "mixed"), ("numpy", "openmp", "gpu")
    ):
        if precision == "mixed" and not {method, options.get("preconditioner")} & MIXED:
            continue
        if backend == "gpu" and (precision == "float32" or options.get("loop") or options.get("cycle")):
            continue  # the emulation takes its time
        words = (method, *map(str, options.values()), precision, backend)
        found.append(pytest.param(method, options, precision, backend, id="-".join(words)))
    return found


@pytest.mark.parametrize(("method", "options", "precision", "backend"), cases())
def test_other_values_give_the_bits_of_a_new_solver(
    method: str, options: dict[str, Any], precision: str, backend: str, set_ups: list[Any]
) -> None:
    """Without another set-up, in one to three dimensions; the old values give their own bits again."""
    problems: list[tuple[tuple[int, ...], Any, Any]] = [
        ((33, 17), INSULATED, 0.0),
        ((9, 10, 11), ROBIN, "y"),
        ((40,), 0.3, 2.0),
        ((17, 33), {"x_lower": 1.0, "all": {"neumann": 0.0}}, 1e-7),
    ]
    if backend == "gpu":
        # The emulation takes its time.
        problems = [((33, 17), INSULATED, 0.0)] if {method, *options.values()} & MULTIGRID else [((9, 8), ROBIN, "y")]
    elif precision != "float64":
        problems = problems[precision == "float32" :][:1]
    elif backend == "openmp":
        problems = problems[:2]
    if "red-black" in options.values():
        problems.append(((32, 17), {"x": "periodic", "all": "y"}, 3.0))
    for shape, boundary, c in problems:
        first, second = values(shape, 1), values(shape, 2)
        problem = Problem.on_box(shape, f="cos(pi*x)", a=first, c=c, boundary=boundary)
        solver, other = (
            Solver(each, method, backend, precision, max_iterations=3, **options)
            for each in (problem, problem.having(a=second))
        )
        own, expected = u_of(solver), u_of(other)
        assert not np.array_equal(own, expected)
        np.testing.assert_array_equal(u_of(solver, a=second), expected)
        np.testing.assert_array_equal(u_of(solver), own)
        np.testing.assert_array_equal(u_of(solver, a=second.copy(), initial=own), u_of(other, initial=own))
    assert set_ups == []


@pytest.mark.parametrize(
    ("method", "backend"),
    [
        (method, name)
        for method in ("fft", "multigrid", "cg", "sor", "chebyshev", "jacobi")
        for name in ("numpy", "openmp", "gpu")
        if name != "gpu" or method in ("fft", "multigrid")
    ],
)
def test_other_numbers_give_the_bits_of_a_new_solver(method: str, backend: str, set_ups: list[Any]) -> None:
    problem = Problem.on_box((33, 17), f="x", boundary="y")
    solver = Solver(problem, method, backend, max_iterations=3)
    own = u_of(solver)
    for given in ({"a": 3.0}, {"a": "2 + 1", "c": 10.0}, {"c": 100.0}, {"a": 1e-3}):
        expected = u_of(Solver(problem.having(**given), method, backend, max_iterations=3))
        np.testing.assert_array_equal(u_of(solver, **given), expected)
    np.testing.assert_array_equal(u_of(solver), own)
    assert set_ups == []


KINDS: tuple[tuple[dict[str, Any], int], ...] = (
    ({"a": "1 + x*y"}, 1),
    ({"a": lambda x, y: 2.0 - x * y}, 0),
    ({"a": values((33, 17), 3), "c": 4.0}, 0),
    ({"a": np.full((17, 33), 2.0, dtype=np.float32), "c": 4.0}, 0),
    ({"a": "1 + y", "c": "x"}, 1),
    ({"a": 5.0, "c": lambda x, y: x + y}, 1),
    ({"a": 6.0, "c": values((33, 17), 4)}, 0),
    ({"a": np.array(7), "c": 4.0}, 1),
    ({}, 0),
)
"""Coefficients of every kind, and whether they need other arrays than those before them."""


@pytest.mark.parametrize(
    ("method", "backend"),
    [(method, name) for method in ("multigrid", "cg", "auto") for name in ("numpy", "openmp")] + [("multigrid", "gpu")],
)
def test_coefficients_of_every_kind_follow_each_other(method: str, backend: str, set_ups: list[Any]) -> None:
    problem = Problem.on_box((33, 17), f="x", boundary="y")
    options: dict[str, Any] = {"max_iterations": 3}
    solver = Solver(problem, method, backend, **options)
    for given, others in KINDS:
        before = len(set_ups)
        found, expected = solver.solve(**given), Solver(problem.having(**given), method, backend, **options).solve()
        np.testing.assert_array_equal(np.array(found.u), np.array(expected.u))
        told = [{name: each.provenance[name] for name in ("method", "reason")} for each in (found, expected)]
        assert told[0] == told[1]
        assert found.target == expected.target
        assert found.problem == problem.having(**given)
        assert solver.problem is problem
        assert len(set_ups) - before == others or method == "auto"


@pytest.mark.parametrize(("method", "precision"), [("multigrid", "float64"), ("multigrid", "mixed"), ("cg", "float64")])
@pytest.mark.parametrize("backend", ["numpy", "openmp"])
def test_a_problem_becomes_singular_and_regular_again(
    method: str, precision: str, backend: str, set_ups: list[Any]
) -> None:
    a, zeros = values((33, 17), 1), np.zeros((17, 33))
    problem = Problem.on_box((33, 17), f="cos(pi*x)", a=a, c=1.0, boundary=INSULATED)
    solver = Solver(problem, method, backend, precision)
    solver.solve()
    tiny = (1e-9, 3e-9)  # nearly singular
    for c in (0.0, *tiny, 2.0, zeros, *(zeros + c for c in tiny), zeros + 1.0, zeros, zeros + 2.0, 0.0):
        given = {"a": values((33, 17), 2), "c": c}
        expected = Solver(problem.having(**given), method, backend, precision).solve()
        found = solver.solve(**given)
        assert found.status is expected.status
        np.testing.assert_array_equal(found.u, expected.u)
    with pytest.raises(PoissonError, match="no face is dirichlet and c = 0, so"):
        solver.solve(f=1.0, c=zeros)
    assert len(set_ups) >= 6


def test_what_auto_chooses_follows_the_values() -> None:
    shape = (33, 33)
    mild, jump = values(shape, 1), np.where(np.arange(33) < 16, 1e4, 1.0) * np.ones((33, 1))
    solver = Solver(Problem.on_box(shape, f=1.0, a=mild), backend="numpy")
    methods = {}
    for name, a in {"mild": mild, "jump": jump, "milder": 0.5 + mild}.items():
        found, expected = solver.solve(a=a), poisson.solve(Problem.on_box(shape, f=1.0, a=a), backend="numpy")
        np.testing.assert_array_equal(found.u, expected.u)
        methods[name] = found.provenance["method"], found.provenance["reason"]
        assert methods[name] == (expected.provenance["method"], expected.provenance["reason"])
    assert methods["mild"][0] == methods["milder"][0] != methods["jump"][0]
    assert methods["mild"][1] != methods["milder"][1]  # which says by how much a varies


@pytest.mark.parametrize("shape", [(65, 33), (33, 17)])
def test_other_grids_of_multigrid_are_set_up(shape: tuple[int, ...], set_ups: list[Any]) -> None:
    """A large c makes all modes alike, and other axes are coarsened then."""
    zeros = np.zeros(shape[::-1])
    problem = Problem.on_box(shape, f=1.0, a=values(shape, 1), c=zeros, upper=(1.0, 3.0))
    solver = Solver(problem, "multigrid", "numpy")
    for c in (zeros + 1e5, zeros, zeros + 1e5):
        np.testing.assert_array_equal(u_of(solver, c=c), u_of(Solver(problem.having(c=c), "multigrid", "numpy")))
    assert len(set_ups) == 3


def test_values_far_from_those_before_in_mixed_precision() -> None:
    """Where float32 takes another factor."""
    a = values((33, 17), 1)
    solver = Solver(Problem.on_box((33, 17), f=1.0, a=a), "multigrid", "numpy", "mixed")
    for factor in (1e-30, 1.0, 1e30):
        new = Solver(Problem.on_box((33, 17), f=1.0, a=factor * a), "multigrid", "numpy", "mixed")
        np.testing.assert_array_equal(u_of(solver, a=factor * a), u_of(new))


def test_the_discretisation_error_is_estimated_with_the_other_values() -> None:
    a = values((33, 33), 1)
    problem = Problem.on_box((33, 33), f=1.0, a=a)
    solver = Solver(problem, "multigrid", "numpy", stop="discretisation")
    found, expected = (
        solver.solve(a=2.0 * a),
        Solver(problem.having(a=2.0 * a), "multigrid", "numpy", stop="discretisation"),
    )
    assert found.error_bar == expected.solve().error_bar


def test_faces_and_fields_have_the_other_values() -> None:
    a = values((17, 9), 1)
    problem = Problem.on_box((17, 9), f="x", boundary=ROBIN)
    options: dict[str, Any] = {"fields": ("a", "c", "flux", "residual"), "max_iterations": 3}
    solver = Solver(problem, "multigrid", "numpy", **options)
    weaker = {"x_lower": {"robin": 0.5, "alpha": "y"}, "y_upper": 2.0}
    for boundary in (None, weaker, {"x_lower": {"robin": 0.5, "alpha": 0.0}}, None):
        given = {"a": a, "c": "1 + x", "boundary": boundary}
        found, expected = (
            solver.solve(**given),
            Solver(problem.having(**given), "multigrid", "numpy", **options).solve(),
        )
        np.testing.assert_array_equal(found.u, expected.u)
        assert found.residual == expected.residual
        for name in options["fields"]:
            np.testing.assert_array_equal(found.fields[name], expected.fields[name])
        assert found.fluxes() == expected.fluxes()


# ---- what it costs
def counting(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often coefficients are made and read on the NumPy backend."""
    counts: Counter[str] = Counter()
    for kind, name in (
        (NumpyOperations, "links"),
        (NumpyTransfer, "coarsen_links"),
        (NumpyBackend, "empty"),
        (NumpyBackend, "bind"),
    ):
        method = getattr(kind, name)

        def counted(*given: Any, _name: str = name, _method: Any = method) -> Any:
            counts[_name] += 1
            return _method(*given)

        monkeypatch.setattr(kind, name, counted)
    return counts


def test_the_same_values_cost_a_look_at_them(monkeypatch: pytest.MonkeyPatch) -> None:
    a, c = values((33, 17), 1), values((33, 17), 2)
    solver = Solver(Problem.on_box((33, 17), f=1.0), "multigrid", "numpy")
    solver.solve(a=a, c=c)
    solver.solve(a=a + 1.0, c=c)
    counts = counting(monkeypatch)
    solutions = [solver.solve(a=a + 1.0, c=c), solver.solve(a=lambda x, y: a + 1.0, c=c)]
    # The solutions keep their arrays.
    assert counts == {"empty": 2}
    a += 1.0  # the caller's array, in place
    solver.solve(a=a, c=c)
    assert set(counts) == {"empty"}
    a[8, 16] += 1.0
    changed = solver.solve(a=a, c=c)
    assert counts["links"] == 2
    assert not np.array_equal(changed.u, solutions[0].u)
    expected = Solver(Problem.on_box((33, 17), f=1.0, a=a, c=c), "multigrid", "numpy")
    np.testing.assert_array_equal(changed.u, u_of(expected))


def test_an_expression_that_is_the_same_is_not_evaluated(monkeypatch: pytest.MonkeyPatch) -> None:
    solver = Solver(Problem.on_box((33, 17), f=1.0), "multigrid", "numpy")
    solver.solve(a="1 + x", c=2.0)
    monkeypatch.setattr(module, "renewed", lambda *_: pytest.fail("looked at"))
    solver.solve(a="1 + x", c=2.0)


@pytest.mark.parametrize("method", ["multigrid", "cg", "sor", "chebyshev", "jacobi"])
def test_many_values_leave_no_more_arrays_than_two(method: str, numpy_arrays: list[weakref.ref[Any]]) -> None:
    def alive() -> int:
        return sum(array() is not None for array in numpy_arrays)

    solver = Solver(Problem.on_box((33, 17), f=1.0, a=values((33, 17), 1)), method, "numpy", max_iterations=2)
    for seed in (2, 3):
        solver.solve(a=values((33, 17), seed))
    before = alive()
    for seed in range(4, 9):
        solver.solve(a=values((33, 17), seed))
    assert alive() == before
    del solver
    assert alive() == 0


@pytest.mark.parametrize(
    ("method", "options"),
    [("multigrid", {}), ("multigrid", {"full": True}), ("cg", {"preconditioner": "multigrid"}), ("jacobi", {})],
)
def test_what_a_gpu_has_recorded_stays(method: str, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is compiled or recorded for other values; another c is a number of the kernels, so it is."""
    made: list[Backend] = []

    def create(name: str, dtype: Any, threads: int = 0) -> Backend:
        made.append(emulated(dtype))
        return made[-1]

    monkeypatch.setattr(backends, "create", create)
    shape = (33, 17)
    solver = Solver(Problem.on_box(shape, f=1.0, a=values(shape, 1)), method, "gpu", max_iterations=2, **options)
    solver.solve()
    solver.solve(a=values(shape, 2))
    runtime: Any = made[0].runtime  # type: ignore[attr-defined]  # a gpu backend
    compiled = runtime.compile
    monkeypatch.setattr(runtime, "compile", lambda *_: pytest.fail("compiled"))
    captures: list[Any] = []
    capture = runtime.capture
    monkeypatch.setattr(runtime, "capture", lambda function: captures.append(function) or capture(function))
    found = u_of(solver, a=values(shape, 3))
    assert captures == []
    monkeypatch.setattr(runtime, "compile", compiled)
    new = Solver(Problem.on_box(shape, f=1.0, a=values(shape, 3)), method, "gpu", max_iterations=2, **options)
    np.testing.assert_array_equal(found, u_of(new))
    given = {"a": values(shape, 3), "c": 300.0}
    other = Solver(Problem.on_box(shape, f=1.0, **given), method, "gpu", max_iterations=2, **options)
    captures.clear()
    found = u_of(solver, **given)
    assert captures
    np.testing.assert_array_equal(found, u_of(other))


# ---- refusals, and what else a solver does
@pytest.mark.parametrize("backend", ["numpy", "openmp", "gpu"])
def test_wrong_values_are_named_and_leave_the_solver_as_it_was(backend: str) -> None:
    shape = (17, 9)
    a = values(shape, 1)
    solver = Solver(Problem.on_box(shape, f=1.0, a=a, c=values(shape, 2)), "multigrid", backend, max_iterations=2)
    own = u_of(solver)

    def with_value(value: float) -> Any:
        found = values(shape, 3)
        found[4, 2] = value
        return found

    place = "at x = 0.125, y = 0.5; every value must be"
    for given, line in (
        ({"a": -1.0}, "a = -1.0; it must be > 0"),
        ({"a": 0}, "a = 0.0; it must be > 0"),
        ({"a": with_value(np.nan)}, f"equation.a: nan {place} finite"),
        ({"a": with_value(np.inf)}, f"equation.a: inf {place} finite"),
        ({"a": with_value(-0.5)}, f"equation.a: -0.5 {place} >= 0"),
        ({"a": with_value(1e-310)}, "equation.a: the values from 1e-310 to "),
        ({"a": "y - 0.5"}, "equation.a: -0.5 at x = 0, y = 0; every value must be > 0"),
        ({"a": np.ones((17, 9))}, "a: an array of the shape (17, 9); the grid needs (9, 17), "),
        ({"a": np.ones((9, 17), dtype=complex)}, "a: an array "),
        ({"a": {}}, "a: a dict; allowed: a number, "),
        ({"a": values(shape, 3), "c": with_value(-1.0)}, f"equation.c: -1.0 {place} >= 0"),
    ):
        with pytest.raises(CaseError) as refused:
            solver.solve(**given)
        assert str(refused.value).startswith(line)
        np.testing.assert_array_equal(u_of(solver), own)


def test_fft_refuses_an_a_that_varies_in_one_line() -> None:
    solver = Solver(Problem.on_box((17, 9), f=1.0), "fft", "numpy")
    own = u_of(solver)
    with pytest.raises(CaseError, match=r"^solver.method: 'fft'; allowed: only with constant equation.a and"):
        solver.solve(a=values((17, 9), 1))
    np.testing.assert_array_equal(u_of(solver), own)
    np.testing.assert_allclose(u_of(solver, a=2.0), own / 2.0, rtol=1e-12)


def test_what_is_broken_off_leaves_the_solver_usable(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C may come when some of the levels have the other values."""
    problem = Problem.on_box((33, 17), f=1.0, a=values((33, 17), 1))
    solver = Solver(problem, "multigrid", "numpy")
    own = u_of(solver)
    coarsen, calls = NumpyTransfer.coarsen_links, []

    def interrupted(*given: Any) -> None:
        calls.append(given)
        if len(calls) == 2:
            raise KeyboardInterrupt
        coarsen(*given)

    monkeypatch.setattr(NumpyTransfer, "coarsen_links", interrupted)
    with pytest.raises(KeyboardInterrupt):
        solver.solve(a=values((33, 17), 2))
    np.testing.assert_array_equal(u_of(solver), own)


def test_other_calls_have_the_coefficients_of_the_problem() -> None:
    problem = Problem.on_box((33, 17), f=1.0, a=values((33, 17), 1))
    solver = Solver(problem, "multigrid", "numpy")
    own, out = u_of(solver), np.empty((17, 33))
    other = solver.solve(a=values((33, 17), 2), out=out)
    assert other.u is out
    np.testing.assert_array_equal(solver.solve_many([1.0, 1.0])[1].u, own)
    solver.solve(a=values((33, 17), 2))
    np.testing.assert_array_equal(u_of(pickle.loads(pickle.dumps(solver))), own)
    assert solver.problem == problem


def test_counted_operations_have_the_other_values(tmp_path: Any) -> None:
    case = poisson.load_case("cases/unit_square.toml", ["domain.shape = [33, 33]", "solver.method = 'multigrid'"])
    counted, plain = Solver.of(case, count=True), Solver.of(case)
    for a in ("1 + x", "2 + x*y"):
        np.testing.assert_array_equal(u_of(counted, a=a), u_of(plain, a=a))
    assert counted.ledger is not None


@pytest.mark.parametrize(
    ("method", "precision", "backend"),
    [
        (*method, name)
        for method in (("multigrid", "mixed"), ("cg", "float64"), ("sor", "float64"))
        for name in ("numpy", "openmp", "gpu")
        if (name != "gpu" or method[0] == "multigrid") and (name, method[0]) != ("numpy", "sor")
    ],
)
def test_other_values_on_ranks(
    method: str, precision: str, backend: str, set_ups: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With coarser grids that are divided, too."""
    monkeypatch.setattr(DistributedBackend.__init__, "__defaults__", (200,))
    shape, size = (17, 65), 2
    first, second = values(shape, 1), values(shape, 2)
    problem = Problem.on_box(shape, f="cos(pi*x)", a=first, c="y", boundary={**INSULATED, "y_upper": 1.0})
    options: dict[str, Any] = {"max_iterations": 3, "ranks": size}

    def solve(comm: ThreadCommunicator) -> list[Any]:
        solver = Solver(problem, method, backend, precision, comm=comm, **options)
        own = solver.solve()
        held = own.share.ranges if own.share else ()
        part = second[tuple(slice(*ends) for ends in held)]
        # All of it on every rank, on the first alone, and of each its own part; the same once more is known on all.
        given = (second, second if comm.rank == 0 else None, first, part, part.copy(), None)
        again = [solver.solve(a=a).gather() for a in given]
        other = Solver(problem.having(a=second), method, backend, precision, comm=comm, **options)
        return [own.gather(), other.solve().gather(), *again]

    own, expected, *found = on_ranks(size, solve)[0]
    assert np.isfinite(own).all()
    for each, wanted in zip(found, (expected, expected, own, expected, expected, own), strict=True):
        np.testing.assert_array_equal(each, wanted)
    assert set_ups == []


@pytest.mark.parametrize("change", [-0.5, 0.5])
def test_a_single_value_that_is_smaller_or_larger_is_noticed(change: float) -> None:
    a = values((9, 8), 1)
    solver = Solver(Problem.on_box((9, 8), a=a, f=1.0), "cg", backend="numpy")
    solver.solve()
    other = a.copy()
    other[5, 4] += change
    for each in (other, a.copy()):
        expected = poisson.solve(Problem.on_box((9, 8), a=each, f=1.0), "cg", backend="numpy").u
        assert np.array_equal(solver.solve(a=each).u, expected)
