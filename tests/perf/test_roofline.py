# SPDX-License-Identifier: MIT
"""The roofline: the attainable line, every operation below it, and the peak of arithmetic."""

import math
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from conftest import BACKENDS
from support import nvrtc

from poisson import kernels
from poisson.backends.base import Backend
from poisson.backends.gpu.probe import CHAINS
from poisson.backends.gpu.shapes import PEAK_SHAPE
from poisson.backends.numpy import NumpyBackend, NumpyProbe
from poisson.errors import GridError, ResourceError
from poisson.mesh.boundary import Rule
from poisson.perf import roofline
from poisson.perf.roofline import Roof, draw, peak_flops
from poisson.perf.timing import Timing
from poisson.perf.workload import MEASURED


def test_what_is_attainable() -> None:
    roof = Roof(bandwidth=100.0, peak=400.0)
    assert [roof.attainable(intensity) for intensity in (0.5, 4.0, 9.0)] == [50.0, 400.0, 400.0]


@pytest.mark.usefixtures("backends_by_name", "short_measurements")
@pytest.mark.parametrize("name", ["numpy", "openmp", "gpu"])
@pytest.mark.parametrize("shape", [(33, 17), (12, 9, 10)])
def test_every_operation_is_under_the_roof(name: str, shape: tuple[int, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(roofline, "peak_flops", lambda backend: 1e12)
    report = roofline.roofline(name, "float64", shape)
    rows = {row["operation"]: row for row in report.rows}
    assert {label.replace(",", " ").split()[0] for label in rows} == MEASURED
    nodes = math.prod(shape)
    for label, row in rows.items():
        assert row["flops_per_second"] == pytest.approx(row["flops_per_byte"] * row["bytes_per_second"])
        assert (row["of_attainable"] is None) == (label == "fill")
    flops = 11 if len(shape) == 2 else 16
    assert rows["laplacian"]["flops_per_byte"] == flops / 16
    assert rows["laplacian"]["flops_per_second"] * rows["laplacian"]["seconds"] == pytest.approx(flops * nodes)


class Arithmetic(NumpyBackend):
    """Takes a nanosecond for two multiply-adds."""

    def __init__(self) -> None:
        super().__init__(np.float64)
        self.now = 0.0

    def probe(self) -> "ArithmeticProbe":
        return ArithmeticProbe(self)

    def seconds(self, call: Callable[[], None]) -> float:
        before = self.now
        call()
        return self.now - before


class ArithmeticProbe(NumpyProbe):
    backend: Arithmetic

    def arithmetic(self, count: int) -> tuple[Callable[[], None], float]:
        def call() -> None:
            self.backend.now += count * 0.5e-9

        return call, 2.0 * count


def test_the_peak_is_measured_with_calls_that_are_long_enough() -> None:
    backend = Arithmetic()
    assert peak_flops(backend) == pytest.approx(4e9)
    assert backend.now > 7 * roofline.LEAST_PEAK_SECONDS


def test_the_arithmetic_of_a_gpu_is_what_it_says(dtype: Any) -> None:
    backend = BACKENDS["emulated"](dtype)
    threads, rounds = PEAK_SHAPE.block_x, PEAK_SHAPE.march
    call, flops = backend.probe().arithmetic(1)
    assert flops == 2.0 * threads * CHAINS * rounds
    call()
    assert backend.probe().arithmetic(threads * CHAINS * rounds + 1)[1] == 2 * flops


@pytest.mark.parametrize("name", ["openmp", "emulated"])
def test_multiply_adds_converge_to_their_fixed_point(name: str, dtype: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """x = x / 2 + 1 goes to 2, so every chain ends there: nothing was left out, and no thread wrote elsewhere."""
    backend = BACKENDS[name](dtype)
    kept: list[Any] = []
    keep_arrays(backend, kept, monkeypatch)
    call, flops = backend.probe().arithmetic(1)
    call()
    [out] = kept
    chains = flops / 2 / 512 / out.shape[0]
    assert chains == round(chains) >= CHAINS
    assert np.array_equal(backend.to_host(out), np.full(out.shape, 2.0 * chains))


def keep_arrays(backend: Backend, kept: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the arrays that a backend makes from now on be seen."""
    if backend.name == "gpu":
        allocate = backend.runtime.allocate  # type: ignore[attr-defined]
        monkeypatch.setattr(
            backend.runtime,  # type: ignore[attr-defined]
            "allocate",
            lambda *arguments: kept.append(allocate(*arguments)) or kept[-1],
        )
        return
    from poisson.backends.openmp import backend as openmp

    made = openmp.DeviceArray
    monkeypatch.setattr(openmp, "DeviceArray", lambda *arguments: kept.append(made(*arguments)) or kept[-1])


@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
def test_the_chains_stay_in_registers(dtype: Any, arch: str) -> None:
    options = BACKENDS["emulated"](dtype).options(PEAK_SHAPE, 2, (Rule.FIXED,) * 4)  # type: ignore[attr-defined]
    used = nvrtc.compile(kernels.source("peak"), options, arch).kernels["poisson_multiply_adds"]
    assert not used.spills and used.stack_bytes == 0
    # Each chain has registers of its own, one for a float and two for a double.
    assert used.registers >= CHAINS * np.dtype(dtype).itemsize // 4


def test_numpy_multiplies_matrices_of_the_size_asked_for(dtype: Any) -> None:
    call, flops = NumpyBackend(dtype).probe().arithmetic(1000)
    call()
    assert flops == 2000.0
    assert NumpyBackend(dtype).probe().arithmetic(1001)[1] == 2.0 * 11**3


def test_a_grid_that_is_too_small_or_too_large_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(GridError, match=r"--shape 9x8: at least 9 nodes along every axis are needed"):
        roofline.roofline("numpy", "float64", (9, 8))
    backend = NumpyBackend(np.float64)
    needed = 8 * (8 * 10_000 + 402 * 400)
    monkeypatch.setattr(backend, "memory", lambda: (needed - 1, 1 << 40))
    monkeypatch.setattr("poisson.backends.create", lambda *arguments: backend)
    with pytest.raises(
        ResourceError, match=r"--shape 100x100 need 0\.00193 GB, and 0\.00193 GB are free: choose fewer"
    ):
        roofline.roofline("numpy", "float64", (100, 100))


def test_the_figure_has_the_line_and_a_point_for_each_operation() -> None:
    figure_module = pytest.importorskip("matplotlib.figure")
    figure = figure_module.Figure()
    rows = [
        {"operation": "dot", "flops_per_byte": 0.125, "flops_per_second": 10e9},
        {"operation": "sweep", "flops_per_byte": 0.5, "flops_per_second": 40e9},
        {"operation": "fill", "flops_per_byte": 0.0, "flops_per_second": 0.0},
    ]
    draw(figure, "a device", Roof(100e9, 200e9), rows)
    [axes] = figure.axes
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")
    line, *points = axes.get_lines()
    assert list(zip(*line.get_data(), strict=True)) == [(0.0625, 6.25), (2.0, 200.0), (8.0, 200.0)]
    assert {point.get_label(): (point.get_xdata()[0], point.get_ydata()[0]) for point in points} == {
        "dot, 80%": (0.125, 10.0),
        "sweep, 80%": (0.5, 40.0),
    }
    assert {text.get_text() for text in axes.texts} == {"100 GB/s", "200 GFLOP/s"}
    looks = [(point.get_marker(), tuple(point.get_color())) for point in points]
    assert len(set(looks)) == len(looks)


def test_the_default_grid(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []
    monkeypatch.setattr(roofline, "box", lambda shape: asked.append(shape))
    monkeypatch.setattr(roofline, "values_needed", lambda grid: 1 << 80)
    for name in ("numpy", "gpu"):
        stub = SimpleNamespace(name=name, device="", dtype=np.dtype(np.float64), memory=lambda: (1, 1))
        monkeypatch.setattr("poisson.backends.create", lambda *arguments, stub=stub: stub)
        with pytest.raises(ResourceError):
            roofline.roofline(name, "float64")
    assert asked == [(1024, 1024), (4096, 4096)]


def test_a_timing_has_the_median_and_both_ends() -> None:
    timing = Timing.of([3.0, 1.0, 10.0, 2.0, 4.0])
    assert timing == Timing(median=3.0, low=1.0, high=10.0)
    assert timing.over(2) == Timing(1.5, 0.5, 5.0)
    assert timing.spread == 3.0
