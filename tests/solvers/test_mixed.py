# SPDX-License-Identifier: MIT
"""Mixed precision: float32 cycles or directions inside corrections in float64 reach what float64 reaches."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from conftest import BACKENDS
from support.composites import composite
from support.multigrid import (
    PLAIN,
    F,
    M,
    W,
    cube,
    node_values,
    relative_residual,
    solver_of,
    source,
    with_coefficients,
    zeros,
)

import poisson
from poisson.backends.base import Backend
from poisson.backends.numpy import NumpyBackend
from poisson.discrete.operator import Operator
from poisson.solvers.iteration import Task
from poisson.solvers.mixed import in_float32
from poisson.solvers.registry import arrays_of
from poisson.solvers.settings import SolverSettings
from poisson.solvers.status import Status
from poisson.solvers.stopping import Stopping

BACKEND = NumpyBackend(np.float64)
CG = PLAIN.having(method="cg")


def backend_of(name: str) -> Backend:
    return BACKEND if name == "numpy" else BACKENDS[name](np.float64)


def solver(backend: Backend, a: Operator, settings: SolverSettings) -> Any:
    operations = backend.bind(a)
    return solver_of(operations, settings, backend.companion(np.float32).bind(in_float32(operations)))


@pytest.mark.parametrize("method", ["multigrid", "cg"])
@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize(
    "a",
    [
        cube((129, 129), spacing=(1 / 128,) * 2),
        cube((50, 64), (F, M, W, W)),
        cube((48, 40), (M,) * 4),
        cube((33, 33, 33)),
        cube((65, 33), spacing=(1.0, 300.0)),
    ],
    ids=["square", "mixed", "singular", "cube", "anisotropic"],
)
def test_the_tolerance_of_float64_is_reached(method: str, full: bool, a: Operator) -> None:
    settings = PLAIN.having(method=method, full=full)
    mixed = solver(BACKEND, a, settings)
    for seed in (1, 2):
        f = source(BACKEND, a, seed)
        result = mixed.solve(zeros(BACKEND, a), f, stopping=Stopping(rtol=1e-12))
        assert result.status is Status.CONVERGED
        assert relative_residual(BACKEND, a, result.u, f) <= 1e-12
    # Float32 alone stops far above it, and float64 alone needs about as many cycles.
    single = NumpyBackend(np.float32)
    alone = solver_of(single.bind(a), settings).solve(
        zeros(single, a), source(single, a), stopping=Stopping(rtol=1e-12)
    )
    assert alone.status is not Status.CONVERGED
    double = solver_of(BACKEND.bind(a), settings).solve(zeros(BACKEND, a), f, stopping=Stopping(rtol=1e-12))
    assert result.iterations <= 1.6 * double.iterations + 2


@pytest.mark.parametrize("method", ["multigrid", "cg"])
@pytest.mark.parametrize("most", [1, 3])
def test_the_limit_on_iterations_is_kept(method: str, most: int) -> None:
    a = cube((65, 65))
    mixed = solver(BACKEND, a, PLAIN.having(method=method))
    result = mixed.solve(zeros(BACKEND, a), source(BACKEND, a), stopping=Stopping(max_iterations=most))
    assert (result.status, result.iterations) == (Status.MAX_ITERATIONS, most)


@pytest.mark.parametrize("shape", [(257, 257), (33, 33, 33)])
def test_the_cycles_go_on_from_one_correction_to_the_next(shape: tuple[int, ...]) -> None:
    """Mixed precision makes the cycles of float64: none is lost where a correction in float64 comes between them."""
    a = cube(shape, spacing=(1 / (shape[0] - 1),) * len(shape))
    for full in (False, True):
        settings = PLAIN.having(method="multigrid", full=full)
        f = source(BACKEND, a)
        double, mixed = solver_of(BACKEND.bind(a), settings), solver(BACKEND, a, settings)
        expected = double.solve(zeros(BACKEND, a), f, stopping=Stopping(rtol=1e-8))
        found = mixed.solve(zeros(BACKEND, a), f, stopping=Stopping(rtol=1e-8))
        assert found.status is expected.status is Status.CONVERGED
        assert found.iterations <= expected.iterations + 1
        # The first residual, and those after few corrections.
        assert len(found.history) <= 4


def test_no_cycle_is_lost_to_rounding() -> None:
    """The error of a start on the coarsest grid is smooth: its first correction has few digits in float32."""
    x = np.linspace(0.0, 1.0, 129)
    problem = poisson.Problem.on_box((129, 129), f=np.outer(np.sin(np.pi * x), np.sin(np.pi * x)))
    double, mixed = (poisson.solve(problem, "multigrid", "numpy", each, rtol=1e-8) for each in ("float64", "mixed"))
    assert mixed.iterations == double.iterations == 3
    assert [iteration for iteration, _ in mixed.history] == [0, 2, 3]


@pytest.mark.parametrize("full", [False, True])
def test_the_last_cycles_in_float32_stop_at_the_target(full: bool) -> None:
    """Neither beyond it, which takes a cycle more than float64, nor before it, which takes a correction more."""
    a, settings = cube((33, 33), spacing=(1 / 32,) * 2), PLAIN.having(method="multigrid", full=full)
    double, mixed, f = solver_of(BACKEND.bind(a), settings), solver(BACKEND, a, settings), source(BACKEND, a)
    for digits in np.arange(2.5, 10.5, 0.5):
        stopping = Stopping(rtol=float(10.0**-digits))
        expected = double.solve(zeros(BACKEND, a), f, stopping=stopping)
        found = mixed.solve(zeros(BACKEND, a), f, stopping=stopping)
        assert found.status is expected.status is Status.CONVERGED
        assert found.iterations <= expected.iterations
        # A correction is good for four digits of the first residual.
        assert len(found.history) - 1 <= math.ceil(math.log10(found.history[0][1] / found.target) / 4.0)


@pytest.mark.parametrize("method", ["multigrid", "cg"])
@pytest.mark.parametrize("size", [1.0, 1e45, 1e90])
def test_a_residual_of_any_size_is_brought_into_the_range_of_float32(method: str, size: float) -> None:
    """Not only the first one: that of the guess, and on the way down to a target that is far below it."""
    a = cube((33, 33), spacing=(1 / 32,) * 2)
    f, u = source(BACKEND, a), size * source(BACKEND, a, 5)
    with np.errstate(over="ignore"):
        result = solver(BACKEND, a, PLAIN.having(method=method)).solve(u, f, stopping=Stopping(rtol=1e-6))
    assert result.status is Status.CONVERGED
    assert relative_residual(BACKEND, a, result.u, f) <= 1e-6 * (1 + 1e-6)


@pytest.mark.parametrize("name", ["numpy", "openmp"])
@pytest.mark.parametrize("jump", [1e-6, 1.0, 1e3, 1e6])
def test_conjugate_gradients_make_no_more_iterations(name: str, jump: float) -> None:
    """Nothing that float32 loses stays: as many iterations as in float64, but for a few where rounding is near."""
    backend = backend_of(name)
    more = {1e-8: 2 if jump == 1e6 else 0, 1e-12: 3}
    in_3d = (cube((24, 33, 17), (F, M, W, W, F, F)),) * (name == "openmp")
    for plain in (cube((65, 50)), cube((65, 33), spacing=(1.0, 100.0)), *in_3d):
        a = with_coefficients(backend, plain, node_values(plain, "block", jump))
        f = source(backend, a)
        double, mixed = solver_of(backend.bind(a), CG), solver(backend, a, CG)
        # With a jump of 10⁶ float64 itself does not reach 1e-12.
        for rtol in (1e-8,) if jump == 1e6 else (1e-8, 1e-12):
            expected = double.solve(zeros(backend, a), f, stopping=Stopping(rtol=rtol))
            found = mixed.solve(zeros(backend, a), f, stopping=Stopping(rtol=rtol))
            assert found.status is expected.status is Status.CONVERGED
            assert abs(found.iterations - expected.iterations) <= more[rtol]
            assert relative_residual(backend, a, found.u, f) <= rtol * (1 + 1e-6)


def defects_of(a: Operator, monkeypatch: pytest.MonkeyPatch) -> tuple[int, int, Status]:
    """The iterations of conjugate gradients on an operator, the residuals computed in float64, and how they ended."""
    operations, f, calls = BACKEND.bind(a), source(BACKEND, a), list[float]()
    mixed = solver_of(operations, CG, BACKEND.companion(np.float32).bind(in_float32(operations)))
    compute = operations.defect
    monkeypatch.setattr(operations, "defect", lambda *given: calls.append(0.0) or compute(*given))
    found = mixed.solve(zeros(BACKEND, a), f, stopping=Stopping(rtol=1e-8))
    assert relative_residual(BACKEND, a, found.u, f) <= 1e-8 * (1 + 1e-6)
    return found.iterations, len(calls), found.status


def test_the_residual_is_carried_in_float32_unless_rounding_is_beside_it(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = cube((65, 50))
    few, many = (with_coefficients(BACKEND, plain, node_values(plain, "block", jump)) for jump in (100.0, 1e6))
    iterations, defects, status = defects_of(few, monkeypatch)
    assert (iterations, defects, status) == (10, 5, Status.CONVERGED)
    iterations, defects, status = defects_of(many, monkeypatch)
    assert (defects, status) == (iterations + 1, Status.CONVERGED)


def smooth_source(jump: float) -> tuple[Operator, Any]:
    """An operator with a jump of a, and a source whose solution is large beside it."""
    a = cube((129, 129), spacing=(1 / 128,) * 2)
    x = np.sin(np.pi * np.linspace(0.0, 1.0, 129))
    return with_coefficients(BACKEND, a, node_values(a, "block", jump)), x * x[:, None]


@pytest.mark.parametrize("jump", [30.0, 1e3])
def test_a_smooth_source_beside_stiff_links_takes_no_more_iterations(
    jump: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rounding of steps in float32 leaves a residual that is large beside that of such a source."""
    a, f = smooth_source(jump)
    operations = BACKEND.bind(a)
    inner, carried = BACKEND.companion(np.float32).bind(in_float32(operations)), list[float]()
    advance = inner.advance
    monkeypatch.setattr(inner, "advance", lambda *given: carried.append(0.0) or advance(*given))
    solvers = solver_of(operations, CG), solver_of(operations, CG, inner)
    double, mixed = (each.solve(zeros(BACKEND, a), f, stopping=Stopping(rtol=1e-8)) for each in solvers)
    assert double.status is mixed.status is Status.CONVERGED
    assert double.iterations <= mixed.iterations <= double.iterations + 1
    assert len(carried) == (1 if jump == 1e3 else mixed.iterations)


def test_a_solve_that_rounding_ends_sees_it_soon() -> None:
    a, f = smooth_source(1e6)
    solvers = solver_of(BACKEND.bind(a), CG), solver(BACKEND, a, CG)
    double, mixed = (each.solve(zeros(BACKEND, a), f, stopping=Stopping(rtol=1e-8)) for each in solvers)
    assert double.status is mixed.status is Status.AT_ROUNDING
    assert mixed.iterations <= double.iterations + 6


@pytest.mark.parametrize(
    ("name", "jump", "smooth", "more"),
    [
        ("checkers 8", 1e6, True, 3),
        ("spots 0.1", 1e8, False, 5),
        ("spots 0.5", 1e8, False, 10),
        ("blobs 0", 1e5, True, 1),
    ],
)
def test_a_target_near_rounding_is_left_soon(name: str, jump: float, smooth: bool, more: int) -> None:
    """Where the target is a part of what rounding leaves, steps that follow upon each other led away from it."""
    plain = cube((129, 129), spacing=(1 / 128,) * 2)
    a = with_coefficients(BACKEND, plain, composite(name, 129, 2, jump))
    x = np.sin(np.pi * np.linspace(0.0, 1.0, 129))
    f, settings = (x * x[:, None] if smooth else source(BACKEND, a)), CG.having(coarse="galerkin")
    solvers = solver_of(BACKEND.bind(a), settings), solver(BACKEND, a, settings)
    double, mixed = (each.solve(zeros(BACKEND, a), f, stopping=Stopping(rtol=1e-8)) for each in solvers)
    assert double.status is mixed.status and mixed.iterations <= double.iterations + more
    np.testing.assert_allclose(mixed.u, double.u, rtol=0, atol=1e-9 * np.abs(double.u).max())


@pytest.mark.parametrize(("decades", "seed", "most"), [(7, 3, 180), (9, 2, 230), (9, 3, 220)])
def test_a_residual_that_grows_for_a_while_is_no_reason_to_begin_anew(decades: int, seed: int, most: int) -> None:
    """With a poor preconditioner it grows by several powers of ten on its way down."""
    plain = cube((17, 5, 4))
    spots = np.random.default_rng(seed).random(plain.array_shape) < 0.5
    a, settings = with_coefficients(BACKEND, plain, np.where(spots, 10.0**-decades, 1.0)), CG
    settings = settings.having(preconditioner="fft")
    f = source(BACKEND, a)
    solvers = solver_of(BACKEND.bind(a), settings), solver(BACKEND, a, settings)
    double, mixed = (each.solve(zeros(BACKEND, a), f, stopping=Stopping(rtol=1e-8)) for each in solvers)
    assert double.status is mixed.status is Status.CONVERGED
    assert mixed.iterations <= most


@pytest.mark.parametrize("seed", [0, 1])
def test_rounding_is_the_end_only_where_soft_modes_are_right(seed: int) -> None:
    """With a poor preconditioner steps pause for long, and the residual is that of rounding before u is."""
    plain, settings = cube((33, 33)), CG.having(preconditioner="fft")
    spots = np.random.default_rng(seed).random(plain.array_shape) < 0.5
    a = with_coefficients(BACKEND, plain, np.where(spots, 1e-6, 1.0))
    f = source(BACKEND, a)
    exact = solver_of(BACKEND.bind(a), settings).solve(zeros(BACKEND, a), f, stopping=Stopping(rtol=0.0)).u.copy()
    found = solver(BACKEND, a, settings).solve(zeros(BACKEND, a), f, stopping=Stopping(rtol=1e-12))
    assert found.status is Status.AT_ROUNDING
    np.testing.assert_allclose(found.u, exact, rtol=0, atol=1e-11 * np.abs(exact).max())


def test_a_solve_without_room_to_look_for_rounding_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> Any:
        raise MemoryError

    a, f = smooth_source(1e6)
    u, mixed = zeros(BACKEND, a), solver(BACKEND, a, CG)
    monkeypatch.setattr(BACKEND, "empty", full)
    found = mixed.solve(u, f, stopping=Stopping(rtol=1e-8, max_iterations=60))
    assert (found.iterations, found.status) == (60, Status.MAX_ITERATIONS)


def test_a_solve_that_ends_early_has_made_all_its_steps() -> None:
    a = with_coefficients(BACKEND, cube((65, 50)), node_values(cube((65, 50)), "block", 100.0))
    f, stopping = source(BACKEND, a), Stopping(rtol=1e-8, max_iterations=4)
    double, mixed = (
        each.solve(zeros(BACKEND, a), f, stopping=stopping)
        for each in (solver_of(BACKEND.bind(a), CG), solver(BACKEND, a, CG))
    )
    assert double.status is mixed.status is Status.MAX_ITERATIONS
    np.testing.assert_allclose(mixed.u, double.u, rtol=0, atol=1e-5 * np.abs(double.u).max())


def test_transforms_precondition_in_float32() -> None:
    a = cube((65, 50), (F, M, W, W))
    varying = with_coefficients(BACKEND, a, node_values(a, "smooth", 3.0))
    settings = PLAIN.having(method="cg", preconditioner="fft")
    f = source(BACKEND, a)
    double, mixed = solver_of(BACKEND.bind(varying), settings), solver(BACKEND, varying, settings)
    counts = [each.solve(zeros(BACKEND, a), f, stopping=Stopping(rtol=1e-12)).iterations for each in (double, mixed)]
    assert abs(counts[1] - counts[0]) <= 2


@pytest.mark.parametrize("method", ["multigrid", "cg"])
def test_the_memory_of_mixed_precision(method: str) -> None:
    """The arrays of a solve, with u and f: about as many of float64 as the estimate says."""
    allocated = 0

    def counting(array: Any) -> Any:
        nonlocal allocated
        allocated += array.nbytes
        return array

    class Counting(NumpyBackend):
        def empty(self, array_shape: tuple[int, ...]) -> Any:
            return counting(super().empty(array_shape))

        def companion(self, dtype: Any) -> Backend:
            return self if np.dtype(dtype) == self.dtype else self._other

        _other: Any

    backend, backend._other = Counting(np.float64), Counting(np.float32)
    backend._other._other = backend
    a = cube((65, 65, 65))
    u, f = counting(zeros(BACKEND, a)), counting(source(BACKEND, a))
    for full in (False, True):
        allocated = u.nbytes + f.nbytes
        mixed = solver(backend, a, PLAIN.having(method=method, full=full))
        assert mixed.solve(u.copy(), f, stopping=Stopping(rtol=1e-8)).status is Status.CONVERGED
        arrays = allocated / u.nbytes
        settings = SolverSettings().having(method=method, full=full)
        # One more, for what comes after the solve.
        assert 5.0 < arrays + 1.0 < (5.5 if method == "multigrid" else 6.5)
        assert abs(arrays_of(settings, "mixed", 3) - (arrays + 1.0)) < 0.02


@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("precision", ["float64", "mixed"])
def test_a_start_on_the_coarsest_grid_needs_no_guess(precision: str, full: bool) -> None:
    """Where u is blank its values do not count, whatever they are, and norms of f that are there are taken."""
    a, stopping = cube((33, 17)), Stopping(rtol=1e-12)
    operations, settings = BACKEND.bind(a), PLAIN.having(method="multigrid", full=full)
    method = solver(BACKEND, a, settings) if precision == "mixed" else solver_of(operations, settings)
    assert method.reads_guess is not full
    for f in (source(BACKEND, a), zeros(BACKEND, a)):
        norms, blank = BACKEND.reduction(), BACKEND.empty(a.array_shape)
        blank[...], blank[a.lattice.on_faces] = np.nan, 0.0
        operations.norm(f, norms)
        expected = method.solve(zeros(BACKEND, a), f, stopping=stopping)
        u, history = expected.u.copy(), expected.history
        found = method.run(Task(blank, f, stopping, blank=True, norms=norms))
        np.testing.assert_array_equal(found.u, u)
        assert found.history == history
        norms[...] *= 1e6
        assert method.run(Task(zeros(BACKEND, a), f, stopping, norms=norms)).target == 1e3 * expected.target


@pytest.mark.parametrize("method", ["multigrid", "cg"])
@pytest.mark.parametrize("scale", [1e-60, 1e-30, 1e30, 1e60])
def test_neither_overflow_nor_underflow(scale: float, method: str) -> None:
    """Values that float32 does not have: the factor brings them into its range."""
    a = cube((65, 64))
    f = source(BACKEND, a)
    results = []
    for factor in (1.0, scale):
        for full in (False, True):
            settings = PLAIN.having(method=method, full=full)
            result = solver(BACKEND, a, settings).solve(zeros(BACKEND, a), factor * f, stopping=Stopping(rtol=1e-12))
            assert result.status is Status.CONVERGED
            results.append(result.u / factor)
    for u in results[1:]:
        np.testing.assert_allclose(u, results[0], rtol=0, atol=1e-10 * np.abs(results[0]).max())


@pytest.mark.parametrize("name", ["numpy", "openmp", "emulated"])
def test_coefficients_are_rounded_to_float32(name: str) -> None:
    """Every entry, those at fixed nodes and those that belong to no link included."""
    backend = backend_of(name)
    random = np.random.default_rng(3)
    line = Operator.uniform((11, 1), (0.1, np.inf), 0.0, (F, M, W, W))
    for plain in (cube((12, 9), (F, M, W, W)), cube((7, 5, 6)), line):
        values, c = random.uniform(1e-3, 1e3, (2, *plain.array_shape))
        a = with_coefficients(backend, plain, values, c)
        inner, single = in_float32(backend.bind(a)), backend.companion(np.float32)
        assert a.coefficients is not None
        assert inner.coefficients is not None
        assert replace(inner, coefficients=None) == plain
        pairs = [*zip(a.links or (), inner.links or (), strict=True), (a.reaction, inner.reaction)]
        assert len(pairs) == plain.dimension + 1
        for double, rounded in pairs:
            found = single.to_host(rounded)
            assert found.dtype == np.float32
            np.testing.assert_array_equal(found, backend.to_host(double).astype(np.float32))
        assert (inner.coefficients.a_range, inner.coefficients.c_range) == (
            a.coefficients.a_range,
            a.coefficients.c_range,
        )
    constant = cube((9, 9))
    assert in_float32(backend.bind(constant)) is constant


def test_boundary_values_enter_a_full_start() -> None:
    a = cube((65, 65), spacing=(1 / 64,) * 2)
    x = np.linspace(0.0, 1.0, 65)
    exact = np.add.outer(-(x**2), x**2) * 1e-3
    u = exact.copy()
    u[1:-1, 1:-1] = 0.0
    settings = PLAIN.having(method="multigrid", full=True)
    result = solver(BACKEND, a, settings).solve(u, zeros(BACKEND, a), stopping=Stopping(rtol=1e-6))
    # The quadratic solves the equations on every grid, so float32 of the coarse grids is all that errs.
    assert result.history[0][1] < 1e-2
    np.testing.assert_allclose(result.u, exact, rtol=0, atol=1e-10)


@pytest.mark.parametrize("method", ["multigrid", "cg"])
def test_a_limit_and_an_interrupt(method: str) -> None:
    a = cube((65, 65))
    mixed = solver(BACKEND, a, PLAIN.having(method=method))
    f = source(BACKEND, a)
    result = mixed.solve(zeros(BACKEND, a), f, stopping=Stopping(rtol=1e-12), interrupted=lambda iterate: True)
    assert (result.status, len(result.history)) == (Status.INTERRUPTED, 2)
    result = mixed.solve(zeros(BACKEND, a), f, stopping=Stopping(rtol=1e-12, max_iterations=1))
    assert result.status is Status.MAX_ITERATIONS


def test_mixed_precision_refuses_what_it_cannot_do() -> None:
    a = cube((9, 9))
    with pytest.raises(ValueError, match="no mixed precision"):
        solver(BACKEND, a, PLAIN.having(method="jacobi"))
    with pytest.raises(ValueError, match="no mixed precision"):
        solver(BACKEND, a, PLAIN.having(method="cg", preconditioner="none"))
    with pytest.raises(ValueError, match="not mixed precision"):
        solver(BACKEND, a, PLAIN.having(method="multigrid")).solve(
            zeros(BACKEND, a), source(BACKEND, a), stopping=Stopping(stop="discretisation")
        )


@pytest.mark.parametrize("name", ["openmp", "emulated"])
def test_other_backends_converge_alike(name: str) -> None:
    backend, a = BACKENDS[name](np.float64), cube((20, 17), (F, M, W, W))
    expected = solver(BACKEND, a, PLAIN.having(method="multigrid")).solve(
        zeros(BACKEND, a), source(BACKEND, a), stopping=Stopping(rtol=1e-11)
    )
    for settings in (*(PLAIN.having(method="multigrid", full=full) for full in (False, True)), CG):
        result = solver(backend, a, settings).solve(
            zeros(backend, a), source(backend, a), stopping=Stopping(rtol=1e-11)
        )
        assert result.status is Status.CONVERGED
        np.testing.assert_allclose(backend.to_host(result.u), expected.u, rtol=0, atol=1e-9 * np.abs(expected.u).max())


@pytest.mark.parametrize("method", ["multigrid", "cg"])
@pytest.mark.parametrize("mixed", [False, True])
@pytest.mark.parametrize("a", [cube((33, 40)), cube((48, 40), (M,) * 4)], ids=["walls", "singular"])
@pytest.mark.parametrize("name", ["numpy", "openmp"])
def test_the_norms_of_a_result_are_those_of_the_residual_of_its_iterate(
    name: str, a: Operator, mixed: bool, method: str
) -> None:
    backend, settings = backend_of(name), PLAIN.having(method=method)
    operations = backend.bind(a)
    maker = solver(backend, a, settings) if mixed else solver_of(operations, settings)
    f = source(backend, a, 1)
    result = maker.solve(zeros(backend, a), f, stopping=Stopping(rtol=1e-9))
    place = backend.reduction()
    operations.certify(result.u, f, backend.empty(a.array_shape), place)
    if mixed or (method == "multigrid" and not a.singular):
        # The residual itself is a difference of numbers 1e9 times as large.
        assert result.norms == pytest.approx(backend.read(place), rel=1e-4)
    else:
        assert result.norms is None
