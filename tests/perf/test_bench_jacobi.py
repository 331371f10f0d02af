# SPDX-License-Identifier: MIT
"""`bench jacobi`: the published problems, the arithmetic of its table, structured mapping, runs on every backend."""

import re
from math import isclose, pi, sin, sqrt
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from support.operators import AXIS_RULES, operator, random_array

from poisson import backends
from poisson.backends.ledger import Call
from poisson.backends.numpy import NumpyBackend
from poisson.backends.openmp.library import library_path
from poisson.mesh.boundary import Rule
from poisson.perf.benchmark import jacobi
from poisson.perf.benchmark.jacobi import ALL_LOOPS, COLUMNS, ITERATION, Loop, LoopKernel, bench
from poisson.perf.benchmark.problems import PROBLEMS
from poisson.perf.benchmark.structured import StructuredMapping
from poisson.perf.timing import Timing
from poisson.solvers.iteration import Task
from poisson.solvers.jacobi import Jacobi
from poisson.solvers.loops import LOOPS
from poisson.solvers.stopping import SolveResult

pytestmark = pytest.mark.usefixtures("short_measurements")


# ---- the problems
def whole(name: str, n: int) -> NDArray[Any]:
    problem = PROBLEMS[name]
    on = problem.operator(n)
    return np.asarray(problem.values(np, on, 0, on.array_shape[0]))


def test_the_heated_square_has_half_a_wave_on_each_side() -> None:
    on = PROBLEMS["heated_square"].operator(5)
    assert (on.shape, on.spacing, on.c, on.rules) == ((7, 7), (1 / 6, 1 / 6), 0.0, (Rule.FIXED,) * 4)
    u = whole("heated_square", 5)
    wave = [sin(pi * k / 6) for k in range(7)]
    for side in (u[0], u[-1], u[:, 0], u[:, -1]):
        np.testing.assert_allclose(side, wave, rtol=0, atol=1e-15)
    assert u[0, 3] == 1.0
    assert not u[1:-1, 1:-1].any()


def test_the_laplace_problem_has_one_wave_on_two_sides_and_wraps_the_others() -> None:
    on = PROBLEMS["laplace"].operator(9)
    assert (on.shape, on.rules) == ((9, 7), (Rule.FIXED, Rule.FIXED, Rule.WRAP, Rule.WRAP))
    assert on.spacing == (1 / 8, 1 / 8)
    u = whole("laplace", 9)
    np.testing.assert_allclose(u[:, 0], [sin(2 * pi * k / 8) for k in range(1, 8)], rtol=0, atol=1e-15)
    assert np.array_equal(u[:, 0], u[:, -1])
    assert u[1, 0] == 1.0
    assert not u[:, 1:-1].any()


@pytest.mark.parametrize("name", list(PROBLEMS))
def test_the_start_is_the_same_slab_by_slab(name: str) -> None:
    problem, on = PROBLEMS[name], PROBLEMS[name].operator(6)
    parts = [problem.values(np, on, row, row + 1) for row in range(on.array_shape[0])]
    assert np.array_equal(np.concatenate(parts), whole(name, 6))
    backend = NumpyBackend(np.float32)
    assert np.array_equal(problem.start(backend, on), whole(name, 6).astype(np.float32))


# Each node beside a side has the side's value over h² as its residual. Half a wave squared sums to (n + 1)/2 over a
# side, and the corner nodes see two sides; a whole wave sums to (n - 1)/2.
FIRST_SUMS = {
    "heated_square": lambda n: 4 * (n + 1) / 2 + 8 * sin(pi / (n + 1)) ** 2,
    "laplace": lambda n: 2 * (n - 1) / 2,
}


@pytest.mark.parametrize("name", list(PROBLEMS))
def test_the_first_residual_is_known(name: str) -> None:
    n, backend = 11, NumpyBackend(np.float64)
    on = PROBLEMS[name].operator(n)
    u, norms = PROBLEMS[name].start(backend, on), backend.reduction()
    backend.bind(on).residual(u, None, backend.empty(on.array_shape), norms)
    total = backend.read(norms)[0] * on.spacing[0] ** 4
    assert isclose(total, FIRST_SUMS[name](n), rel_tol=1e-13)


# ---- the arithmetic of the table
def a_run(loop: str = "staged", backend: str = "numpy", **changed: Any) -> Loop:
    """3 x 4 = 12 nodes with 2 unknowns: an update of 5 arrays, and a norm of 1 array every second iteration."""
    on = operator((3, 4), (Rule.FIXED,) * 4)
    kernels = [
        LoopKernel(Call("update", on, 12, 8), 1.0, Timing(3.0, 2.0, 4.0)),
        LoopKernel(Call("norm", on, 12, 8), 0.5, Timing(2.0, 2.0, 2.5)),
    ]
    values: dict[str, Any] = {"wall": Timing(50.0, 45.0, 55.0), "made": 10, "iterations": 10, "bandwidth": 200.0}
    return Loop(loop, backend, kernels, unknowns=2, norm=0.25, **(values | changed))


def test_the_table_adds_up() -> None:
    update, norm, loop = a_run().rows()
    assert all(set(row) < {column.key for column in COLUMNS} for row in (update, norm, loop))
    assert (update["kernel"], norm["kernel"], loop["kernel"]) == ("update", "norm", ITERATION)
    assert (update["share"], norm["share"], "share" in loop) == (0.75, 0.25, False)
    assert (update["seconds"], update["spread"], update["calls"]) == (3.0, 2 / 3, 1.0)
    assert update["bytes_per_second"] == 5 * 12 * 8 / 3.0
    assert update["of_yardstick"] == 5 * 12 * 8 / 3.0 / 200.0
    assert update["flops_per_second"] == 3 * 12 / 3.0
    assert (loop["seconds"], loop["spread"], loop["wall_seconds"], loop["iterations"]) == (5.0, 0.2, 50.0, 10)
    assert loop["updates_per_second"] == 2 / 5.0
    assert isclose(loop["document_flops_per_second"], 17 * 2 / 5.0, rel_tol=1e-15)
    assert isclose(loop["bytes_per_second"], (5 + 0.5) * 12 * 8 / 5.0, rel_tol=1e-15)
    assert isclose(loop["flops_per_second"], (3 + 0.5 * 2) * 12 / 5.0, rel_tol=1e-15)
    assert loop["norm"] == 0.25
    assert {"wall_seconds", "updates_per_second", "norm"}.isdisjoint(update)


def test_fewer_iterations_are_scaled_and_said() -> None:
    wall = Timing(800.0, 800.0, 800.0)
    fewer = a_run("structured mapping", "openmp", iterations=1000, made=10, wall=wall, mapped=True)
    assert fewer.wall_seconds == 80000.0
    loop = fewer.rows()[-1]
    assert (loop["iterations"], loop["wall_seconds"], loop["spread"]) == (10, 80000.0, None)
    assert loop["updates_per_second"] == 2 / 80.0
    notes = jacobi._notes([a_run(backend="openmp", iterations=1000, made=1000), a_run(), fewer])
    assert "structured mapping: 10 of 1000 iterations made; the wall time is scaled to all" in notes
    assert "structured mapping: 1.6e+03 times the wall time of the staged loop (the article: 46)" in notes


def test_the_loops_are_those_of_the_solver_and_structured_mapping() -> None:
    assert sorted(ALL_LOOPS) == sorted((*LOOPS, "structured"))


def test_the_same_kernel_stands_below_itself_on_another_backend() -> None:
    runs = [a_run(backend="gpu"), a_run("fused", "gpu"), a_run(backend="openmp"), a_run("fused", "openmp")]
    rows = [(row["loop"], row["kernel"], row["backend"]) for row in jacobi._side_by_side(runs)]
    assert rows == [
        (loop, kernel, backend)
        for loop in ("staged", "fused")
        for kernel in ("update", "norm", ITERATION)
        for backend in ("gpu", "openmp")
    ]


# ---- structured mapping
@pytest.fixture
def _library() -> None:
    if library_path() is None:
        pytest.skip("the OpenMP library was not built here")


@pytest.mark.usefixtures("_library")
@pytest.mark.parametrize("rules", [(x, y) for x in AXIS_RULES for y in AXIS_RULES[::2]])
def test_structured_mapping_agrees_with_the_staged_loop(rules: Any, dtype: Any) -> None:
    on = operator((21, 14), (*rules[0], *rules[1]))
    specification = NumpyBackend(dtype)
    u, f = random_array(on.array_shape, dtype, 1), random_array(on.array_shape, dtype, 2)
    for face in (0, -1):
        # The source is zero at fixed nodes, as the backends expect it.
        f[:, face] *= rules[0][face] is not Rule.FIXED
        f[face] *= rules[1][face] is not Rule.FIXED
    expected, norms = u.copy(), specification.reduction()
    au, r = np.empty_like(u), np.empty_like(u)
    mapping = StructuredMapping(on, u, f)
    for _ in range(5):
        for stage in mapping.stages().values():
            stage()
        specification.bind(on).laplacian(expected, au)
        specification.bind(on).boundary_conditions(expected, au)
        specification.bind(on).update(f, au, r, expected, 1.0)
        specification.bind(on).norm(r, norms)
    eps = float(np.finfo(dtype).eps)
    np.testing.assert_allclose(u, expected, rtol=0, atol=40 * eps)
    total, maximum = specification.read(norms)
    assert isclose(mapping.norms[0], total, rel_tol=200 * eps)
    assert isclose(mapping.norms[1], maximum, rel_tol=200 * eps)


@pytest.mark.usefixtures("_library")
def test_structured_mapping_refuses_three_dimensions() -> None:
    on = operator((4, 4, 4), (Rule.FIXED,) * 6)
    u = np.zeros(on.array_shape)
    with pytest.raises(RuntimeError, match="poisson_structured_laplacian_f64 failed with status 3"):
        StructuredMapping(on, u, u).stages()["laplacian"]()


# ---- runs

STAGES = {"laplacian", "boundary_conditions", "update", "norm"}


@pytest.mark.usefixtures("backends_by_name")
@pytest.mark.parametrize("name", ["numpy", "openmp", "gpu"])
def test_every_loop_is_measured(name: str) -> None:
    report = bench(n=12, iterations=20, names=(name,), check_every=5)
    runs: dict[str, list[Any]] = {}
    for row in report.rows:
        assert row["backend"] == name
        runs.setdefault(row["loop"].split()[0], []).append(row)
    assert set(runs) == set(ALL_LOOPS) - ({"structured"} if name != "openmp" else set())
    for loop, rows in runs.items():
        *kernels, total = rows
        assert total["kernel"] == ITERATION
        assert isclose(sum(row["share"] for row in kernels), 1.0, rel_tol=1e-12)
        assert all(row["seconds"] > 0.0 and row["of_yardstick"] > 0.0 for row in rows)
        assert isclose(total["updates_per_second"] * total["wall_seconds"], 144 * 20, rel_tol=1e-12)
        assert isclose(total["document_flops_per_second"], 17 * total["updates_per_second"], rel_tol=1e-12)
        calls = {row["kernel"]: row["calls"] for row in kernels}
        if loop == "staged":
            assert calls == {"laplacian": 1.0, "boundary_conditions": 1.0, "update, no source": 1.0, "norm": 0.2}
        elif loop == "structured":
            assert calls == dict.fromkeys(STAGES, 1.0)
        elif loop == "fused":
            assert calls == {"sweep, no source": 0.8, "sweep + norm, no source": 0.2}
        elif loop == "blocked":
            # "sweeps x4 + norm, no source": so many sweeps a call.
            sweeps = [int((re.match(r"sweeps x(\d+)", label) or [1, 1])[1]) for label in calls]
            assert isclose(
                sum(count * made for count, made in zip(calls.values(), sweeps, strict=True)), 1.0, rel_tol=1e-12
            )
        if loop != "structured":
            assert (total["iterations"], total["wall_seconds"] > 0.0) == (20, True)
            assert isclose(total["norm"], runs["staged"][-1]["norm"], rel_tol=1e-12)


def test_the_norm_is_read_every_iteration_and_the_precision_is_the_authors(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    class Watched(Jacobi):
        def __init__(self, operations: Any, omega: float, loop: str) -> None:
            super().__init__(operations, omega, loop)
            self.asked_for = loop

        def run(self, task: Task) -> SolveResult:
            asked.append((self.asked_for, task.stopping.check_every, task.stopping.max_iterations))
            return super().run(task)

    monkeypatch.setattr(jacobi, "Jacobi", Watched)
    report = bench("laplace", n=12, iterations=7, names=("numpy",), loops=("staged", "fused"))
    assert "n = 12, float32, 7 iterations" in report.title
    assert asked == [(loop, 1, count) for loop in ("staged", "fused") for count in (2, 3, 7, 7, 7)]
    [sweep] = [row for row in report.rows if row["loop"] == "fused" and row["kernel"] != ITERATION]
    assert (sweep["kernel"], sweep["calls"]) == ("sweep + norm, no source", 1.0)
    # Without a source two arrays are moved: 12 x 10 values of float32 each.
    assert isclose(sweep["bytes_per_second"] * sweep["seconds"], 2 * 120 * 4, rel_tol=1e-12)


def test_the_specification_joins_a_short_measurement_only(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [backends.BackendInfo(name, name != "gpu", "", "") for name in ("gpu", "openmp", "numpy")]
    monkeypatch.setattr(backends, "describe", lambda: rows)
    monkeypatch.setattr(backends, "create", lambda name, dtype, threads: name)
    chosen = [list(jacobi._backends((), np.dtype(np.float64), 0, updates)) for updates in (1e8, 2e8)]
    assert chosen == [["openmp", "numpy"], ["openmp"]]
    monkeypatch.setattr(backends, "describe", lambda: rows[2:])
    assert list(jacobi._backends((), np.dtype(np.float64), 0, 2e8)) == ["numpy"]
    assert list(jacobi._backends(("numpy", "openmp"), np.dtype(np.float64), 0, 1.0)) == ["numpy", "openmp"]


def test_the_published_norm_has_its_root() -> None:
    """The example of NVIDIA prints sqrt of the sum of squared changes, first sqrt((n - 1) / 16)."""
    n, backend = 33, NumpyBackend(np.float64)
    on = PROBLEMS["laplace"].operator(n)
    u, out = PROBLEMS["laplace"].start(backend, on), backend.empty(on.array_shape)
    backend.bind(on).sweep(u, None, out, 1.0)
    assert isclose(float(np.linalg.norm(out - u)), sqrt((n - 1) / 16), rel_tol=1e-13)
