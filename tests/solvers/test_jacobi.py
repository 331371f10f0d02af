# SPDX-License-Identifier: MIT
"""The Jacobi solver: how it ends, what it reads, and that neither the backend nor the loop changes the iterates."""

import math
from collections.abc import Callable
from pathlib import Path
from types import MappingProxyType
from typing import Any

import h5py
import numpy as np
import pytest
from conftest import BACKENDS
from numpy.typing import NDArray
from support.operators import operator, random_array, rules_of
from support.problems import SINE, WALLS, arrays, discretise, make_case

from poisson.backends.base import Array, Backend
from poisson.backends.numpy import NumpyBackend, NumpyOperations
from poisson.cli import main
from poisson.discrete import reference
from poisson.discrete.discretisation import Discretisation, Operator
from poisson.mesh.boundary import Rule
from poisson.run import certificate, run
from poisson.run.solution import Solution
from poisson.solvers.jacobi import Jacobi, sweeps_per_read
from poisson.solvers.loops import LOOPS, MOST_SWEEPS_PER_READ
from poisson.solvers.status import Status
from poisson.solvers.stopping import GROWTH, WINDOW, Monitor, Patience, SolveResult, Stopping

F, M, W = Rule.FIXED, Rule.MIRROR, Rule.WRAP

MIXED = {
    "x_lower": {"dirichlet": "y"},
    "x_upper": {"neumann": "sin(3*y)"},
    "y_lower": {"neumann": 1.0},
    "y_upper": {"dirichlet": "cos(x)"},
}
MIXED_3D = {"x": "periodic", "y_lower": {"neumann": "z"}, "y_upper": {"dirichlet": 1.0}, "z_lower": {"dirichlet": "x"}}
MIXED_3D["z_upper"] = {"neumann": 0.5}

STOPPING = Stopping()


def relax(
    backend: Backend,
    discretisation: Discretisation,
    loop: str = "blocked",
    stopping: Stopping = STOPPING,
    **options: Any,
) -> SolveResult:
    solver = Jacobi(backend.bind(discretisation.operator), loop=loop)
    return solver.solve(*arrays(backend, discretisation), stopping=stopping, **options)


def solve(*overrides: str, shape: tuple[int, ...] = (17, 17), **tables: Any) -> Solution:
    equation, boundary = tables.get("equation", SINE), tables.get("boundary", WALLS)
    return run.solve(make_case(equation, boundary, shape, overrides=overrides))


def residual_by_matrix(discretisation: Discretisation, u: NDArray[Any]) -> NDArray[np.float64]:
    source, _ = reference.assemble(discretisation)
    product = reference.matrix(discretisation.operator) @ u.astype(np.float64).ravel()
    return source - product.reshape(u.shape)


# ---- how a solve ends

CASE = """
equation = { f = %s }
domain = { lower = [0, 0], upper = [%s, %s], shape = [17, 17] }
boundary = { all = { dirichlet = 0.0 } }
run = { backend = "numpy", precision = "%s" }
solver = { method = "jacobi"%s }
"""
ENDINGS = [
    ("1.0", 1, "float64", "", Status.CONVERGED, 0),
    ("0.0", 1, "float64", "", Status.CONVERGED, 0),
    ("1.0", 1, "float64", "max_iterations = 100", Status.MAX_ITERATIONS, 1),
    ("1.0", 1, "float64", "rtol = 1e-17", Status.AT_ROUNDING, 0),
    ("1.0", 1, "float64", "rtol = 0.0, norm = 'max', loop = 'staged'", Status.AT_ROUNDING, 0),
    ("1.0", 1, "float32", "rtol = 1e-8", Status.AT_ROUNDING, 0),
    ("1e38", 100, "float32", "", Status.DIVERGED, 1),
    ("1e38", 100, "float32", "norm = 'max', loop = 'staged'", Status.DIVERGED, 1),
    ("1e39", 1, "float32", "", Status.DIVERGED, 1),
]


@pytest.mark.parametrize(("f", "length", "precision", "solver", "status", "code"), ENDINGS)
def test_every_ending_is_reached_and_written(
    tmp_path: Path, f: str, length: int, precision: str, solver: str, status: Status, code: int
) -> None:
    path, result = tmp_path / "case.toml", tmp_path / "case.h5"
    path.write_text(CASE % (f, length, length, precision, solver and ", " + solver))
    assert main(["solve", str(path), "--output", str(result), "--quiet"]) == code
    with h5py.File(result) as file:
        assert (file.attrs["status"], file.attrs["converged"]) == (status.value, int(code == 0))
        assert file["u"].shape == (17, 17)


def test_a_limit_that_is_reached_with_the_target_counts_as_converged() -> None:
    sweeps = solve("solver.check_every=1").iterations
    solution = solve("solver.check_every=1", f"solver.max_iterations={sweeps}")
    assert (solution.status, solution.iterations) == (Status.CONVERGED, sweeps)
    solution = solve("solver.check_every=1", f"solver.max_iterations={sweeps - 1}")
    # The norm read last is that of the iterate before; only the recomputed one shows that the target is reached.
    assert (solution.status, solution.iterations) == (Status.CONVERGED, sweeps - 1)
    solution = solve("solver.check_every=1", f"solver.max_iterations={sweeps - 2}")
    assert (solution.status, solution.iterations) == (Status.MAX_ITERATIONS, sweeps - 2)


def test_a_solved_problem_needs_no_sweep() -> None:
    solution = solve("run.initial=1.5", equation={"f": 0.0}, boundary={"all": {"dirichlet": 1.5}})
    assert (solution.status, solution.iterations, solution.history) == (Status.CONVERGED, 0, ((0, 0.0),))
    np.testing.assert_array_equal(solution.u, 1.5)


@pytest.mark.parametrize("name", ["numpy", "openmp"])
@pytest.mark.parametrize("f", [1e200, 1e-200])
def test_squares_beyond_the_range_of_float64(name: str, f: float) -> None:
    """The rms norm of such a source overflows or vanishes; a solve must not take that for convergence."""
    one, scaled = (solve(f"run.backend={name}", equation={"f": value}) for value in (1.0, f))
    assert scaled.status is Status.CONVERGED
    np.testing.assert_allclose(scaled.u / f, one.u, rtol=0, atol=1e-8)


@pytest.mark.parametrize("loop", LOOPS)
def test_interrupted(loop: str) -> None:
    answers = iter([False, False, True])
    discretisation = discretise(make_case(SINE, WALLS, (17, 17)))
    stopping = Stopping(check_every=7)
    result = relax(
        NumpyBackend(np.float64), discretisation, loop=loop, stopping=stopping, interrupted=lambda it: next(answers)
    )
    assert (result.status, result.iterations) == (Status.INTERRUPTED, 21)
    assert [iteration for iteration, _ in result.history] == [0, 6, 13, 20]
    result = relax(
        NumpyBackend(np.float64), discretisation, loop=loop, stopping=Stopping(rtol=0.5), interrupted=lambda it: True
    )
    # The first block has not converged yet, so nothing but the interrupt ends it.
    assert (result.status, result.iterations) == (Status.INTERRUPTED, 1)


def test_what_has_converged_is_not_interrupted() -> None:
    discretisation = discretise(make_case(SINE, WALLS, (5, 5)))
    stopping = Stopping(rtol=0.5, check_every=100)
    result = relax(NumpyBackend(np.float64), discretisation, stopping=stopping, interrupted=lambda iterate: True)
    assert (result.status, result.iterations) == (Status.CONVERGED, 100)


def never(in_norm: bool) -> bool:
    raise AssertionError("whether the residual is at rounding was asked for")


def test_growth_is_divergence() -> None:
    monitor = Monitor(target=1e-3, first=2.0, at_rounding=lambda in_norm: False)
    assert monitor.judge(0, 2.0) is None
    assert monitor.judge(1, GROWTH * 2.0) is None
    assert monitor.judge(2, GROWTH * 2.1) is Status.DIVERGED
    assert monitor.history == [(0, 2.0), (1, 2000.0), (2, 2100.0)]


def test_growth_of_rounding_errors_or_below_the_target_is_none() -> None:
    """A source that nearly vanishes beside large boundary values leaves a residual far above itself."""
    assert Monitor(target=1e-3, first=1e-12, at_rounding=lambda in_norm: True).judge(0, 1e-8) is Status.CONVERGED
    assert Monitor(target=1e-12, first=1e-12, at_rounding=lambda in_norm: True).judge(0, 1e-8) is None
    assert Monitor(target=1e-12, first=1e-12, at_rounding=lambda in_norm: False).judge(0, 1e-8) is Status.DIVERGED


@pytest.mark.parametrize("norm", [math.nan, math.inf])
def test_a_norm_that_is_not_finite_is_divergence_whatever_the_target(norm: float) -> None:
    for target in (1e-3, math.inf, math.nan):
        assert Monitor(target, 1.0, never).judge(0, norm) is Status.DIVERGED


def test_rounding_ends_a_solve_after_a_window_without_progress() -> None:
    asked: list[bool] = [False, False, True]
    monitor = Monitor(target=1e-9, first=1.0, at_rounding=lambda in_norm: asked.pop(0))
    norms = [1.0, 2e-6] + [3e-6] * (2 * WINDOW) + [0.9e-6] + [0.95e-6] * (WINDOW - 1)
    assert [monitor.judge(n, norm) for n, norm in enumerate(norms)] == [None] * len(norms)
    assert asked == [True]  # after one and after two windows it was not so
    assert monitor.judge(len(norms), 0.95e-6) is Status.AT_ROUNDING


def test_no_progress_above_rounding_is_looked_at_ever_more_rarely() -> None:
    asked = []
    monitor = Monitor(target=1e-9, first=1.0, at_rounding=lambda in_norm: bool(asked.append(None)))
    assert {monitor.judge(n, 1.0) for n in range(1 + 100 * WINDOW)} == {None}
    assert len(asked) == 7  # 1, 2, 4, …, 64 windows


@pytest.mark.parametrize(("rounded", "status"), [(False, Status.STAGNATED), (True, Status.AT_ROUNDING)])
def test_a_solve_stalls_that_makes_less_progress_than_is_expected(rounded: bool, status: Status) -> None:
    monitor = Monitor(1e-9, 1.0, lambda in_norm: rounded, patience=Patience(reads=4, factor=2.0))
    norms = [1.0, 0.9, 0.8, 0.7, 0.49, 0.4, 0.39, 0.34]
    assert [monitor.judge(n, norm) for n, norm in enumerate(norms)] == [None] * len(norms)
    assert monitor.judge(len(norms), 0.25) is status  # 0.49 / 2 would have done


def test_an_iterate_stands_in_the_history_once() -> None:
    monitor = Monitor(target=0.5, first=1.0, at_rounding=never)
    assert monitor.judge(0, 1.0) is None
    assert monitor.judge(0, 1.0) is None
    assert monitor.judge(1, 0.5) is Status.CONVERGED
    assert monitor.history == [(0, 1.0), (1, 0.5)]


@pytest.mark.parametrize("loop", LOOPS)
def test_the_iterate_that_is_returned_has_converged(loop: str) -> None:
    """With mirror faces the rms norm alternates: the sweep that reveals convergence may leave a larger residual."""
    rules = (F, M, M, M)
    a = Operator.uniform((9, 9), (0.125, 0.125), 0.0, rules)
    backend = NumpyBackend(np.float64)
    revealed_too_early = []
    for seed in (0, 18, 30, 36):
        f = random_array(a.array_shape, np.float64, seed)
        f[:, 0] = 0.0
        stopping = Stopping(rtol=1e-4, check_every=1)
        result = Jacobi(backend.bind(a), loop=loop).solve(np.zeros_like(f), f.copy(), stopping=stopping)
        assert result.status is Status.CONVERGED
        (last, residual), (_, norm_before) = result.history[-1], result.history[-2]
        assert last == result.iterations
        assert residual <= result.target
        r, norms = np.empty_like(f), backend.reduction()
        backend.bind(a).residual(result.u, f, r, norms)
        assert residual == math.sqrt(backend.read(norms)[0] / a.unknowns)
        below = [norm <= result.target for _, norm in result.history]
        if below.index(True) < len(below) - 2:
            revealed_too_early.append(seed)
        assert norm_before > 0.0
    assert revealed_too_early == [18, 30, 36]


# ---- what is read, and when
def test_the_norm_is_read_as_often_as_asked() -> None:
    solution = solve("solver.check_every=10", "solver.max_iterations=35", "solver.rtol=0.0")
    assert [iteration for iteration, _ in solution.history] == [0, 9, 19, 29, 34]
    solution = solve("solver.check_every=1", "solver.max_iterations=4", "solver.rtol=0.0")
    assert [iteration for iteration, _ in solution.history] == [0, 1, 2, 3]


class CountingOperations(NumpyOperations):
    """Counts norms and sweeps, also those that another operation is put together from."""

    backend: "Counting"

    def norm(self, r: Array, result: Array) -> None:
        self.backend.norms += 1
        super().norm(r, result)

    def sweep(self, u: Array, f: Array, out: Array, omega: float, result: Array | None = None) -> None:
        self.backend.calls += 1
        self.backend.calls_with_norm += result is not None
        super().sweep(u, f, out, omega, result)


class Counting(NumpyBackend):
    """Counts what a solver asks for."""

    bound = MappingProxyType({**NumpyBackend.bound, Operator: CountingOperations})

    def __init__(self) -> None:
        super().__init__(np.float64)
        self.reads = self.calls = self.calls_with_norm = self.norms = 0

    def read(self, result: NDArray[np.float64]) -> tuple[float, float]:
        self.reads += 1
        return super().read(result)


@pytest.mark.parametrize("loop", LOOPS)
def test_nothing_is_computed_or_read_that_is_not_asked_for(loop: str) -> None:
    backend = Counting()
    discretisation = discretise(make_case(SINE, WALLS, (9, 9)))
    stopping = Stopping(rtol=0.0, check_every=10, max_iterations=40)
    result = relax(backend, discretisation, loop=loop, stopping=stopping)
    assert result.iterations == 40
    # Two norms come first: those of f and of the first residual.
    assert (backend.reads, backend.norms) == (2 + 4, 2 + 4)
    assert (backend.calls, backend.calls_with_norm) == {"staged": (0, 0)}.get(loop, (40, 4))


def test_sweeps_between_reads_depend_on_the_problem_alone() -> None:
    def square(nodes: int) -> Operator:
        return Operator.uniform((nodes, nodes), (1.0 / (nodes - 1),) * 2, 0.0, (F,) * 4)

    sweeps = {3: 1, 9: 1, 33: 4, 129: 66, 513: MOST_SWEEPS_PER_READ, 2049: 127, 40_001: 1}
    assert {nodes: sweeps_per_read(square(nodes), 1.0) for nodes in sweeps} == sweeps
    assert sweeps_per_read(square(129), 0.5) == 132
    assert sweeps_per_read(Operator.uniform((513, 513), (1.0, 1.0), 0.0, (W,) * 4), 1.0) == 533
    assert sweeps_per_read(Operator.uniform((513, 513), (1.0, 1.0), 1e-9, (M,) * 4), 1.0) == MOST_SWEEPS_PER_READ


@pytest.mark.parametrize("backend_name", ["numpy", "openmp"])
@pytest.mark.parametrize("value", [math.nan, 1e-200])
def test_a_source_that_only_one_of_its_norms_shows_is_not_taken_for_zero(backend_name: str, value: float) -> None:
    """The maximum may pass over a NaN, and the squares of small numbers leave no sum."""
    make: Callable[[Any], Backend] = {"numpy": NumpyBackend, **BACKENDS}[backend_name]
    backend, a = make(np.float64), operator((9, 8), (F,) * 4)
    source = np.zeros(a.array_shape)
    source[3, 3] = value
    u, f = backend.from_host(np.zeros(a.array_shape)), backend.from_host(source)
    result = Jacobi(backend.bind(a)).solve(u, f, stopping=Stopping(rtol=0.0, max_iterations=1))
    assert result.status is (Status.DIVERGED if math.isnan(value) else Status.MAX_ITERATIONS)
    assert math.isnan(value) or backend.to_host(result.u)[3, 3] == pytest.approx(value / a.diagonal, rel=1e-12)


# ---- the iterates
@pytest.mark.parametrize("backend_name", ["numpy", "openmp"])
@pytest.mark.parametrize("check_every", [1, 4])
def test_all_loops_give_the_same_iterates(backend_name: str, check_every: int, dtype: Any) -> None:
    make: Callable[[Any], Backend] = {"numpy": NumpyBackend, **BACKENDS}[backend_name]
    eps = float(np.finfo(dtype).eps)
    for rules in rules_of(2) + rules_of(3)[::7]:
        a = operator((9, 8, 7)[: len(rules) // 2], rules)
        backend, results = make(dtype), []
        source = random_array(a.array_shape, dtype, 2)
        source[reference.fixed_nodes(a)] = 0.0
        for loop in LOOPS:
            u, f = backend.from_host(random_array(a.array_shape, dtype, 1)), backend.from_host(source)
            stopping = Stopping(rtol=0.0, max_iterations=7, check_every=check_every)
            result = Jacobi(backend.bind(a), 0.9, loop).solve(u, f, stopping=stopping)
            results.append((backend.to_host(result.u), np.array(result.history)))
        (first, first_history), *others = results
        for iterate, history in others:
            np.testing.assert_allclose(iterate, first, rtol=0, atol=50 * eps)
            np.testing.assert_allclose(history, first_history, rtol=50 * eps)


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("boundary", [MIXED, MIXED_3D], ids=["2d", "3d"])
def test_the_history_does_not_depend_on_the_backend(loop: str, boundary: dict[str, Any], dtype: Any) -> None:
    """Over some hundred iterations: the emulation takes its time, and more of them go the same way."""
    shape = (12, 9) if boundary is MIXED else (8, 7, 6)
    discretisation = discretise(make_case({"f": "exp(x)*y", "c": 0.3}, boundary, shape))
    stopping = Stopping(rtol=0.1)
    histories = []
    emulated = (BACKENDS["emulated"],) * ((boundary is MIXED_3D) == (dtype is np.float64))
    for make in (NumpyBackend, BACKENDS["openmp"], *emulated):
        backend = make(dtype)
        result = relax(backend, discretisation, loop=loop, stopping=stopping)
        assert result.status is Status.CONVERGED
        histories.append(np.array(result.history))
    assert len(histories[0]) > 100
    for history in histories[1:]:
        np.testing.assert_array_equal(history[:, 0], histories[0][:, 0])
        # The residual has rounding errors of the size of eps ‖A‖ |u|.
        noise = 10 * float(np.finfo(dtype).eps) * discretisation.operator.norm
        np.testing.assert_allclose(history[:, 1], histories[0][:, 1], rtol=0, atol=noise)


# ---- the residual that is reported
@pytest.mark.parametrize("slab", [1, 30, 1 << 24])
@pytest.mark.parametrize("precision", ["float64", "float32"])
@pytest.mark.parametrize(("boundary", "shape"), [(MIXED, (9, 12)), (MIXED_3D, (6, 5, 7)), (MIXED_3D, (4, 6, 3))])
def test_the_residual_is_that_of_the_final_u_in_float64(
    boundary: dict[str, Any], shape: tuple[int, ...], precision: str, slab: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(certificate, "RESIDUAL_SLAB", slab)
    for norm in ("rms", "max"):
        settings = (f"run.precision={precision}", f"solver.norm={norm}", "solver.rtol=1e-3")
        overrides = (*settings, 'output.fields=["residual", "u"]')
        case = make_case({"f": "exp(x)*y", "c": 0.3}, boundary, shape, (1.0, 1.3, 0.8), overrides)
        solution = run.solve(case)
        assert solution.u.dtype == np.dtype(precision)
        discretisation = discretise(case)
        expected = residual_by_matrix(discretisation, solution.u)
        np.testing.assert_allclose(solution.fields["residual"], expected, rtol=0, atol=1e-11)
        unknowns = discretisation.operator.unknowns
        value = np.abs(expected).max() if norm == "max" else math.sqrt(float(np.sum(expected**2)) / unknowns)
        assert solution.residual == pytest.approx(value, rel=1e-9)
        assert solution.residual <= solution.target
        assert (solution.status, solution.norm) == (Status.CONVERGED, norm)


def test_a_residual_in_float32_does_not_decide() -> None:
    """The residual of the loop vanishes here with the nearest number to a third; that of a third does not."""
    equation, boundary = {"f": 1 / 3, "c": 1e6}, {"all": {"neumann": 0.0}}
    solution = solve("run.precision=float32", "solver.rtol=1e-9", equation=equation, boundary=boundary)
    assert solution.history[-1][1] == 0.0
    assert solution.status is Status.AT_ROUNDING
    assert solution.residual > solution.target
    assert Status.CONVERGED is solve("solver.rtol=1e-9", equation=equation, boundary=boundary).status


# ---- what the tolerance is relative to
def target_of(*overrides: str, equation: dict[str, Any], boundary: dict[str, Any]) -> float:
    return solve("solver.max_iterations=1", *overrides, equation=equation, boundary=boundary, shape=(5, 5)).target


def test_the_tolerance_is_relative_to_f_with_its_face_terms() -> None:
    boundary = {"all": {"dirichlet": 7.0}, "x_lower": {"neumann": 2.0}}
    # h = 1/4: the face term is 2 * 2 / h = 16 on 3 of the 12 unknowns; Dirichlet data do not count.
    rms = math.sqrt((9 * 3.0**2 + 3 * 19.0**2) / 12)
    assert target_of("solver.rtol=0.1", equation={"f": 3.0}, boundary=boundary) == pytest.approx(0.1 * rms, rel=1e-14)
    assert target_of("solver.rtol=0.1", "solver.norm=max", equation={"f": 3.0}, boundary=boundary) == 0.1 * 19.0


@pytest.mark.parametrize(
    ("lower", "upper", "c", "size"), [(2.0, 0.0, 0.0, 1.0), (300.0, 302.0, 0.0, 1.0), (300.0, 302.0, 9.0, 151.0)]
)
def test_the_tolerance_is_relative_to_boundary_values_that_outweigh_the_source(
    lower: float, upper: float, c: float, size: float
) -> None:
    """Half of their range, which a constant does not change unless c sees it, times the lowest eigenvalue."""
    boundary = {"all": {"dirichlet": lower}, "x_upper": {"dirichlet": upper}}
    lowest = 2 * 4 * 16 * math.sin(math.pi / 8) ** 2 + c
    for norm in ("rms", "max"):
        for f in (0.0, 1e-3):
            target = target_of("solver.rtol=0.1", f"solver.norm={norm}", equation={"f": f, "c": c}, boundary=boundary)
            assert target == pytest.approx(0.1 * size * lowest, rel=1e-14)


def test_the_tolerance_is_relative_to_the_first_residual_where_there_are_no_other_data() -> None:
    # That of u = 2 on the faces beside zeros: 2 / h² from each of them.
    equation, boundary = {"f": 0.0}, {"all": {"dirichlet": 2.0}}
    expected = 32.0 * math.sqrt((4 * 2.0**2 + 4 * 1.0**2) / 9)
    assert target_of("solver.rtol=0.1", equation=equation, boundary=boundary) == pytest.approx(0.1 * expected)
    assert target_of("solver.rtol=0.1", "solver.norm=max", equation=equation, boundary=boundary) == 0.1 * 64.0


def test_the_absolute_tolerance_counts_where_it_is_larger() -> None:
    tolerances = ("solver.rtol=0.1", "solver.atol=0.25", "solver.norm=max")
    assert target_of(*tolerances, equation={"f": 1.0}, boundary=WALLS) == 0.25
    assert target_of(*tolerances, equation={"f": 10.0}, boundary=WALLS) == 1.0
    solution = solve("solver.atol=1e-3", "solver.rtol=0.0")
    assert solution.status is Status.CONVERGED
    assert 0.9e-3 < solution.residual <= 1e-3


# ---- refusal
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"omega": 0.0}, r"omega = 0.0; it must be in \(0, 1\]"),
        ({"omega": 1.1}, r"omega = 1.1; it must be in \(0, 1\]"),
        ({"omega": math.nan}, r"omega = nan; it must be in \(0, 1\]"),
        ({"loop": "unrolled"}, r"loop = 'unrolled'; it must be one of \('blocked', 'fused', 'staged'\)"),
    ],
)
def test_wrong_arguments(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Jacobi(NumpyBackend(np.float64).bind(operator((5, 5), (F,) * 4)), **options)
