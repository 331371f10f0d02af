# SPDX-License-Identifier: MIT
"""`bench solve`: whole solves by every method, beside a plain solver by sine transforms."""

import json
import math
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from poisson.backends.numpy import NumpyBackend
from poisson.cli import main
from poisson.errors import PoissonError
from poisson.output.table import Report
from poisson.perf.benchmark import call, solve
from poisson.perf.benchmark.fields import with_jump
from poisson.perf.benchmark.problem_kinds import PROBLEMS
from poisson.perf.benchmark.sine import SineTransforms
from poisson.perf.benchmark.solve import COLUMNS, Box, bench
from poisson.perf.workload import box, laplacian_on

pytestmark = pytest.mark.usefixtures("short_measurements")


@pytest.mark.usefixtures("backends_by_name")
@pytest.mark.parametrize("name", ["numpy", "openmp", "gpu"])
def test_every_method_solves_to_the_tolerance(name: str) -> None:
    # On the emulation repeats and nodes take their time.
    repeats, boxes = (1, ((17, 19), (17, 18))) if name == "gpu" else (2, ((33, 35), (33, 34)))
    report = bench((Box(boxes[0]), Box(boxes[1], 1e3)), name=name, repeats=repeats)
    sizes = ["x".join(map(str, shape)) for shape in boxes]
    assert all(list(row) == [column.key for column in COLUMNS] for row in report.rows)
    found = [(row["size"], row["jump"], row["method"]) for row in report.rows]
    constant = [(sizes[0], 1.0, method) for method in ("multigrid", "mixed", "fft", "fmg", "sine")]
    assert found == [*constant, *((sizes[1], 1e3, method) for method in ("cg", "cg-mixed"))]
    for row in report.rows:
        nodes = [int(part) - 2 for part in row["size"].split("x")]
        assert math.isclose(row["unknowns_per_second"] * row["seconds"], math.prod(nodes), rel_tol=1e-12)
        assert 0.0 < row["lowest"] <= row["seconds"] <= row["highest"]
        assert row["with_setup"] > 0.0 < row["first"]
        # Full multigrid ends at the discretisation error, far above.
        assert 1e-8 < row["residual"] < 0.1 if row["method"] == "fmg" else row["residual"] <= 1.001e-8
    iterations = {row["method"]: row["iterations"] for row in report.rows}
    assert (iterations["fft"], iterations["sine"]) == (1, None)
    assert iterations["fmg"] <= 2 < iterations["multigrid"] < iterations["cg"]


def test_other_problems_are_solved_by_the_method_that_auto_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(solve, "WITH_SETUP", 0)
    rows = bench((Box((17, 18)),), tuple(PROBLEMS), name="numpy", repeats=1).rows
    rows += bench((Box((6, 7, 8)),), ("stretched", "cells", "cylinder"), name="numpy", repeats=1).rows
    iterations: dict[str, list[int]] = {}
    for row in rows:
        assert row["residual"] <= 1.001e-8 and row["seconds"] > 0.0 and row["of_yardstick"] is None
        iterations.setdefault(row["method"], []).append(row["iterations"])
    assert {name: min(counts) for name, counts in iterations.items() if max(counts) < 3} == {
        **dict.fromkeys(("stretched", "cells", "cylinder", "polar"), 1),
        "open": 2,
    }
    with pytest.raises(PoissonError, match=r"^--method cells: the problem has its own a;"):
        bench((Box((33, 33), 2.0),), ("cells",), name="numpy")


def test_the_solvers_that_are_measured_log_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "solve", "--n=33x33", "--method=open", "--backend=numpy", "--repeats=1"]) == 0
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    "measure",
    [lambda: bench((Box((9, 9)), Box((9, 9, 9))), ("polar",)), lambda: call.bench(((9, 9), (9, 9, 9)), ("polar",))],
)
def test_a_grid_without_such_a_problem_is_refused_before_anything_is_measured(
    measure: Callable[[], Report], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(solve, "_rows", lambda *given: pytest.fail("something is measured"))
    monkeypatch.setattr(call, "_Calls", lambda *given: pytest.fail("something is measured"))
    with pytest.raises(PoissonError, match=r"^--method polar: .*'polar' with 3 axes"):
        measure()


def test_the_plain_solver_is_right_on_the_host_and_with_fourier_transforms() -> None:
    """What CuPy gets is checked with NumPy in its place."""

    class Device:
        def synchronize(self) -> None:
            pass

    stand_in: Any = SimpleNamespace(asarray=np.asarray, pad=np.pad, fft=np.fft, cuda=SimpleNamespace(Device=Device))
    for shape in ((17, 12), (9, 8, 12)):
        grid = box(shape)
        operator = laplacian_on(grid)
        f = solve.source(grid, np, 0, grid.array_shape[0])
        for xp in (np, stand_in):
            u = np.pad(SineTransforms(xp, grid, 1).solve(f), 1)
            r = np.empty_like(u)
            NumpyBackend(np.float64).bind(operator).residual(u, f, r)
            assert np.abs(r).max() < 1e-12 * np.abs(f).max()


def test_the_source_is_the_same_again_and_has_both_parts() -> None:
    grid = box((65, 33))
    f = solve.source(grid, np, 0, 33)
    np.testing.assert_array_equal(f, solve.source(grid, np, 0, 33))
    edge = np.concatenate([f[0], f[-1], f[:, 0], f[:, -1]])
    assert not edge.any()
    differences = np.abs(np.diff(f[1:-1, 1:-1], axis=1)).mean()
    assert 0.02 < differences < 0.5
    assert np.abs(f).max() > 2.0


def test_a_jump_lies_in_the_block() -> None:
    operator = with_jump(NumpyBackend(np.float64), laplacian_on(box((33, 33))), 1e3)
    assert operator.links is not None
    along = operator.links[0][16]
    # From 0.3 to 0.62 are the nodes 10 to 19; the links at both ends have the harmonic mean.
    np.testing.assert_allclose(along[8:21], [1.0, 2000 / 1001, *(1e3,) * 9, 2000 / 1001, 1.0])


def test_the_study_and_the_lists(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(solve, "STUDY", (Box((33, 33), methods=("multigrid",)),))
    assert main(["bench", "solve", "--study", "--backend=numpy", "--repeats=1", "--json"]) == 0
    assert [row["method"] for row in json.loads(capsys.readouterr().out)] == ["multigrid"]
    monkeypatch.setattr(solve, "ON_CPU", (Box((33, 33), methods=("fft",)),))
    assert [row["method"] for row in bench(name="numpy", repeats=1).rows] == ["fft"]


def test_few_solves_where_they_take_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(solve, "ENOUGH_SECONDS", 0.0)
    calls = []

    class Counting(SineTransforms):
        def solve(self, f: Any) -> Any:
            calls.append(f)
            return super().solve(f)

    monkeypatch.setattr(solve, "SineTransforms", Counting)
    bench((Box((33, 33)),), ("sine",), name="numpy", repeats=7)
    assert len(calls) == 2


def test_a_grid_too_large_to_measure_on_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["solve", "--n=99999x99999"], ["operations", "--sizes=99999x99999"], ["jacobi", "--n=99997"]):
        assert main(["bench", *words, "--backend=numpy"]) == 2
        line = capsys.readouterr().err
        assert line.startswith("poisson: error: the arrays of ") and " GB are free: choose " in line, line
