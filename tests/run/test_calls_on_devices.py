# SPDX-License-Identifier: MIT
"""Calls of one solver with arrays on a device, here the emulated one: what is read there, and where u is.

Covers poisson.run.loader and poisson.solvers.together.
"""

import gc
import weakref
from typing import Any

import numpy as np
import pytest
from conftest import emulated
from support.devices import OnDevice
from support.problems import SINE, WALLS, make_case

from poisson import backends
from poisson.errors import BackendFailed, CaseError, IncompatibleSource
from poisson.problem.problem import Problem
from poisson.run import outcome
from poisson.run.run import go_on
from poisson.run.solver import Solver

pytestmark = pytest.mark.usefixtures("backends_by_name")


def source(shape: tuple[int, ...], seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape)


def runtime_of(solver: Solver) -> Any:
    backend: Any = solver.backend
    return backend.runtime


@pytest.mark.parametrize("kept", [True, False], ids=["kept", "handed over"])
@pytest.mark.parametrize("precision", ["float64", "float32"])
@pytest.mark.parametrize(
    ("shape", "method"),
    [((16,), "fft"), ((16, 9), "fft"), ((16, 9, 5), "fft"), ((16, 9), "multigrid"), ((16, 9), "cg")],
    ids=str,
)
def test_arrays_on_a_device_stay_there(
    shape: tuple[int, ...], method: str, precision: str, kept: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the bits of the same arrays on the host; and no u is one that a later solve writes into."""
    monkeypatch.setattr("poisson.backends.gpu.backend.KEPT_NODES", 1 << 21 if kept else 0)
    boundary = {"x": "periodic", "all": {"dirichlet": 1.5}} if len(shape) > 1 else {"x_lower": 0.5, "x_upper": -1.0}
    problem = Problem.on_box(shape, boundary=boundary, c=2.0)
    options: dict[str, Any] = {"rtol": 1e-5} if precision == "float32" else {}
    solver = Solver(problem, method, "gpu", precision, **options)
    runtime = runtime_of(solver)
    sources = [source(shape[::-1], seed) for seed in range(3)]
    expected = [solver.solve(f).u.copy() for f in sources]
    found = [solver.solve(OnDevice(runtime, f, wide=3)).u for f in sources]
    for u, right in zip(found, expected, strict=True):
        assert runtime.holds(u)
        assert u.dtype == precision
        np.testing.assert_array_equal(u, right)
    # A float32 source on the device of a float64 solver, and the other way round.
    other = np.float32 if precision == "float64" else np.float64
    single = sources[0].astype(np.float32)
    close = solver.solve(OnDevice(runtime, single.astype(other))).u
    np.testing.assert_array_equal(close, solver.solve(single.astype(precision)).u)
    place = OnDevice(runtime, np.full(shape[::-1], np.nan, precision), wide=2).there
    assert solver.solve(sources[1], out=place).u is place
    np.testing.assert_array_equal(place, expected[1])


@pytest.mark.parametrize("kept", [True, False], ids=["kept", "handed over"])
@pytest.mark.parametrize("precision", ["float64", "float32"])
def test_u_may_overwrite_its_source_on_a_device(precision: str, kept: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("poisson.backends.gpu.backend.KEPT_NODES", 1 << 21 if kept else 0)
    solver = Solver(Problem.on_box((16, 9)), "fft", "gpu", precision, rtol=1e-5)
    f = source((9, 16)).astype(precision)
    expected = solver.solve(f)
    given = OnDevice(runtime_of(solver), f)
    found = solver.solve(given, out=given.there)
    np.testing.assert_array_equal(given.there, expected.u)
    assert (found.residual, found.status) == (expected.residual, expected.status)


@pytest.mark.parametrize(
    ("method", "kept"),
    [("fft", False), *((each, True) for each in ("fft", "multigrid", "cg", "sor", "chebyshev", "jacobi"))],
)
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_value_on_a_device_that_is_not_finite_is_refused(
    value: float, method: str, kept: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("poisson.backends.gpu.backend.KEPT_NODES", 1 << 21 if kept else 0)
    solver = Solver(Problem.on_box((9, 9)), method, "gpu", max_iterations=30)
    f = source((9, 9))
    for place, given in (((4, 3), "f"), ((0, 3), "f"), ((4, 3), "initial")):
        if given == "initial" and method == "fft":
            continue
        bad = f.copy()
        bad[place] = value
        key = "equation.f" if given == "f" else "run.initial"
        data: Any = {given: OnDevice(runtime_of(solver), bad)}
        with pytest.raises(CaseError, match=rf"{key}: {value} at x = 0.375, y = {place[0] / 8:.6g}; every value"):
            solver.solve(**data)


@pytest.mark.parametrize("value", [np.nan, np.inf, 1e300])
@pytest.mark.parametrize("place", [(8, 8), (7, 7), (0, 3)], ids=str)
def test_a_value_that_coarser_grids_take_from_the_device(
    value: float, place: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A source that is not finite at a node is refused, whether coarser grids have that node or not."""
    monkeypatch.setattr("poisson.backends.gpu.backend.KEPT_NODES", 0)
    solver = Solver(Problem.on_box((33, 17)), "multigrid", "gpu", stop="discretisation")
    values = source((17, 33))
    expected = solver.solve(values)
    found = solver.solve(OnDevice(runtime_of(solver), values))
    np.testing.assert_array_equal(found.u, expected.u)
    assert (found.error_bar, found.residual) == (expected.error_bar, expected.residual)
    wrong = values.copy()
    wrong[place] = value
    if np.isfinite(value):
        solver.solve(OnDevice(runtime_of(solver), wrong))
    else:
        with pytest.raises(CaseError, match="every value must be finite"):
            solver.solve(OnDevice(runtime_of(solver), wrong))
    np.testing.assert_array_equal(solver.solve(OnDevice(runtime_of(solver), values)).u, expected.u)


@pytest.mark.parametrize("boundary", [0.0, 3.0, "x*y", {"all": {"neumann": 0.0}}], ids=str)
@pytest.mark.parametrize("kept", [True, False], ids=["kept", "not kept"])
def test_no_source_at_all(boundary: Any, kept: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Then the first residual, or the boundary values, say what is small."""
    problem = Problem.on_box((17, 9), boundary=boundary)
    expected = Solver(problem, "fft", "numpy").solve(np.zeros((9, 17)))
    monkeypatch.setattr("poisson.backends.gpu.backend.KEPT_NODES", 1 << 21 if kept else 0)
    for data in (np.zeros((9, 17)), 0.0):
        found = Solver(problem, "fft", "gpu").solve(data)
        np.testing.assert_allclose(found.u, expected.u, rtol=0, atol=1e-14 * max(1.0, np.abs(expected.u).max()))
        assert (found.status, found.iterations) == (expected.status, expected.iterations)
        assert found.target == pytest.approx(expected.target, rel=1e-12)


@pytest.mark.parametrize("kept", [True, False], ids=["kept", "handed over"])
def test_a_source_of_a_singular_problem_is_integrated_there(kept: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("poisson.backends.gpu.backend.KEPT_NODES", 1 << 21 if kept else 0)
    solver = Solver(Problem.on_box((16, 12), boundary="periodic"), "fft", "gpu")
    f = source((12, 16))
    f += 1e-3 - f.mean()
    expected = solver.solve(f).u
    np.testing.assert_array_equal(solver.solve(OnDevice(runtime_of(solver), f, wide=1)).u, expected)
    with pytest.raises(IncompatibleSource, match=r"∫f \+ ∮g = 1 \("):
        solver.solve(OnDevice(runtime_of(solver), f + 1.0))
    f[3, 4] = np.nan
    with pytest.raises(CaseError, match=r"equation\.f: nan at x = "):
        solver.solve(OnDevice(runtime_of(solver), f))


def test_what_a_source_has_too_much_is_not_that_of_its_rounding() -> None:
    """A source in float64 on the host, far from zero, of a solve in float32."""
    problem = Problem.on_box((16, 12), boundary="periodic")
    f = 1e3 * source((12, 16))
    f -= f.mean() - 1e-3
    found = Solver(problem, "fft", "gpu", "float32", rtol=1e-5, fields=("f", "residual")).solve(f)
    expected = f - f.mean()
    np.testing.assert_allclose(found.fields["f"], expected, rtol=0, atol=1e-12)
    assert found.residual == pytest.approx(np.sqrt((found.fields["residual"] ** 2).mean()), rel=1e-12)


@pytest.mark.parametrize(
    ("shape", "given"),
    [
        ((16,), {"boundary": {"x_lower": 0.5, "x_upper": -1.0}}),
        ((16, 9), {"boundary": {"x": "periodic", "all": 1.5}}),
        ((9, 7), {"boundary": 0.0}),
        ((9, 7), {"boundary": "x", "x": np.linspace(0.0, 1.0, 9) ** 1.5, "y": np.linspace(0.0, 1.0, 7)}),
        ((9, 7, 5), {"boundary": "x - y*z"}),
    ],
    ids=str,
)
@pytest.mark.parametrize("method", ["fft", "auto"])
def test_sources_on_a_device_are_solved_for_together(
    shape: tuple[int, ...], given: dict[str, Any], method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Seven are four and two and one; each has the bits of a solve of its own, and is where its source was.

    The same holds if all sources are one array.
    """
    solver = Solver(Problem.on_box(None if "x" in given else shape, **given, c=2.0), method, "gpu")
    runtime = runtime_of(solver)
    fs = [source(shape[::-1], seed) for seed in range(7)]
    fs[2] *= given["boundary"] == 0.0  # a target of its own takes a solve of its own
    expected, alone = [solver.solve(f) for f in fs], Solver._solve
    monkeypatch.setattr(Solver, "_solve", lambda *_: pytest.fail("solved for alone"))
    there = [OnDevice(runtime, f.astype(np.float32 if n == 1 else f.dtype), wide=n) for n, f in enumerate(fs)]
    for n, sources in enumerate((fs, there, OnDevice(runtime, np.stack(fs), wide=3), fs[::-1])):
        found = solver.solve_many(sources)[:: -1 if n == 3 else 1]
        for one, other, place in zip(found, expected, range(7), strict=True):
            if not (n == 1 and place == 1):
                np.testing.assert_array_equal(one.u, other.u)
                assert (one.residual, one.target, one.status) == (other.residual, other.target, other.status)
            assert one.provenance["method"] == other.provenance["method"]
            assert runtime.holds(one.u) == (n in (1, 2))
    kept = [each.u.copy() for each in found]
    fs[3][..., 4] = np.nan
    monkeypatch.setattr(Solver, "_solve", alone)
    with pytest.raises(CaseError, match=r"equation\.f: nan at x = "):
        solver.solve_many([OnDevice(runtime, f) for f in fs])
    with pytest.raises(CaseError, match=r"equation\.f: nan at x = "):
        solver.solve_many(OnDevice(runtime, np.stack(fs)))
    for one, values in zip(found, kept, strict=True):
        np.testing.assert_array_equal(one.u, values)


@pytest.mark.parametrize("method", ["fft", "auto"])
def test_how_often_a_call_waits_for_the_device(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once for all norms, and once at the end; so it is with many sources."""
    solver = Solver(Problem.on_box((16, 9)), method, "gpu")
    runtime = runtime_of(solver)
    fs = [OnDevice(runtime, source((9, 16), seed)) for seed in range(4)]
    kept = [solver.solve(f) for f in fs], solver.solve_many(fs)
    waits: list[None] = []
    monkeypatch.setattr(type(runtime), "synchronize", lambda _: waits.append(None))
    again = solver.solve(fs[0])
    assert len(waits) == 2
    solver.solve_many(fs)
    assert len(waits) == 4
    np.testing.assert_array_equal(again.u, kept[0][0].u)


@pytest.mark.parametrize("precision", ["float64", "mixed"])
def test_the_memory_of_a_solver_goes_with_it(precision: str) -> None:
    """At once, and not when Python looks for cycles, though a source that was read where it lies is kept."""
    problem = Problem.on_box((16, 9, 5), a=1.0 + source((5, 9, 16)) ** 2, boundary="periodic")
    gc.collect()
    gc.disable()
    try:
        solver = Solver(problem, "cg", "gpu", precision, preconditioner="multigrid", coarse="galerkin")
        f = source((5, 9, 16))
        kept = solver.solve(OnDevice(runtime_of(solver), f - f.mean())).u
        setup = weakref.ref(solver._setup)
        del solver
        assert setup() is None and kept.shape == (5, 9, 16)
    finally:
        gc.enable()


@pytest.mark.parametrize("method", ["fft", "cg"])
def test_a_large_u_that_goes_to_a_file_alone_stays_on_the_device(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the bits that it has on the host, and the same residual, error and fields; to be timed, it does not."""
    made: list[Any] = []
    monkeypatch.setattr(backends, "create", lambda name, dtype, threads=0: made.append(emulated(dtype)) or made[-1])
    settings = (f"solver.method={method}", "run.backend=gpu", 'output.fields=["error", "residual"]')
    case, kept = make_case(SINE, WALLS, (17, 9), overrides=settings), list[Any]()
    for large in (1 << 25, 1):
        monkeypatch.setattr(outcome, "LARGE_BYTES", large)
        go_on(case, None, keep=kept.append)
    go_on(case, None, keep=kept.append, appraise=lambda *_: None)
    assert [backend.runtime.holds(each.u) for backend, each in zip(made, kept, strict=True)] == [False, True, False]
    first, second, _ = kept
    np.testing.assert_array_equal(second.u, first.u)
    assert (second.residual, second.error) == (first.residual, first.error)
    for name, values in first.fields.items():
        np.testing.assert_array_equal(second.fields[name], values)


def test_a_device_that_fails_while_its_values_are_written_is_one_line() -> None:
    class OutOfOrder(RuntimeError):
        pass

    OutOfOrder.__module__ = "cupy_backends.cuda.api.runtime"

    def keep(solution: Any) -> None:
        raise OutOfOrder("cudaErrorIllegalAddress: an illegal memory access was encountered")

    with pytest.raises(BackendFailed, match=r"the GPU has failed .*cudaErrorIllegalAddress"):
        go_on(make_case(SINE, WALLS, (9, 9)), None, keep=keep)
