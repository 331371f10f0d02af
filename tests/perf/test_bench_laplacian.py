# SPDX-License-Identifier: MIT
"""`bench laplacian`: the sizes, the figure of merit, the rows, the notes and the figure."""

import itertools
from typing import Any

import numpy as np
import pytest
from support.emulation import EmulatedRuntime

from poisson.backends.base import Backend
from poisson.backends.gpu.backend import GpuBackend
from poisson.backends.gpu.runtime import Resources
from poisson.backends.numpy import NumpyBackend
from poisson.cli import main
from poisson.cli.measuring import Measurement, bench_laplacian
from poisson.errors import PoissonError, ResourceError
from poisson.perf.benchmark import laplacian
from poisson.perf.benchmark.laplacian import COUNTERS, IDENTITY, OURS, STUDY, TIMES, bench, launch_once
from poisson.perf.benchmark.variants import VARIANTS
from poisson.perf.profiler import Counters, ProfilerError
from poisson.perf.timing import Timing


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """A clock by which every call takes 2 ms, and a copy that moves 100 GB/s."""
    monkeypatch.setattr(laplacian, "copy_bandwidth", lambda backend: 1e11)

    def measure(backend: Backend, call: Any) -> Timing:
        call()
        return Timing(2e-3, 1.9e-3, 2.2e-3)

    monkeypatch.setattr(laplacian, "measure", measure)


class KnownRuntime(EmulatedRuntime):
    """An emulated device of 200 GB/s at the peak."""

    def peak_bandwidth(self) -> float:  # type: ignore[override]
        return 2e11


def emulated() -> GpuBackend:
    return GpuBackend(np.float64, KnownRuntime())


def test_the_bytes_are_those_of_the_lab_notes() -> None:
    # Their table at 512 cubed: 1.074 and 1.061 GB.
    assert laplacian.fetch_bytes((512, 512, 512), 8) == 8 * (512**3 - 8 - 12 * 510) == 1073692800
    assert laplacian.write_bytes((512, 512, 512), 8) == 8 * 510**3 == 1061208000
    assert laplacian.fetch_bytes((3, 4, 5), 4) == 4 * (60 - 8 - 4 - 8 - 12)
    assert laplacian.write_bytes((3, 4, 5), 4) == 4 * 6


def test_the_study_grows_along_x_y_and_z_in_turn() -> None:
    assert len(STUDY) == 10
    assert STUDY[:4] == ((256, 256, 256), (512, 256, 256), (512, 512, 256), (512, 512, 512))
    assert STUDY[-1] == (1024, 1024, 1024)
    grown = [[b - a for a, b in zip(*pair, strict=True)] for pair in itertools.pairwise(STUDY)]
    assert grown == [[256, 0, 0], [0, 256, 0], [0, 0, 256]] * 3


@pytest.mark.usefixtures("clock")
def test_the_rows_of_the_gpu_backend() -> None:
    report = bench(emulated(), [(9, 6, 5)], ["baseline", "subdomains", OURS])
    assert [row["variant"] for row in report.rows] == ["baseline", "subdomains-2", "subdomains-4", "subdomains-8", OURS]
    row = report.rows[0]
    assert set(row) == {column.key for column in report.columns} == {column.key for column in (*IDENTITY, *TIMES)}
    moved = 8 * (9 * 6 * 5 - 8 - 4 * (7 + 4 + 3)) + 8 * 7 * 4 * 3
    assert row["gigabytes_per_second"] == pytest.approx(moved / 2e-3 / 1e9)
    assert row["percent_of_copy"] == pytest.approx(100 * moved / 2e-3 / 1e11)
    assert row["percent_of_peak"] == pytest.approx(row["percent_of_copy"] / 2)
    assert (row["milliseconds"], row["spread_percent"]) == (pytest.approx(2.0), pytest.approx(15.0))
    assert row["registers"] is None  # an emulated kernel has none
    assert "block 256x1x1" in row["parameters"] and report.rows[-1]["parameters"].startswith("block ")
    assert report.notes == ("copy in the same run: 100 GB/s; the vendor's peak: 200 GB/s",)


@pytest.mark.usefixtures("clock")
def test_the_resources_of_a_kernel_are_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("support.emulation.kernels.EmulatedKernel.resources", Resources(40, 2048, 16))
    for row in bench(emulated(), [(9, 6, 5)], ["registers", OURS]).rows:
        assert (row["registers"], row["shared_bytes"], row["spilled_bytes"]) == (40, 2048, 16)


@pytest.mark.usefixtures("clock")
def test_a_backend_on_the_cpu_has_the_operation_alone() -> None:
    [row] = bench(NumpyBackend(np.float32), [(9, 6, 5)]).rows
    assert (row["variant"], row["parameters"], row["percent_of_peak"], row["registers"]) == (OURS, "", None, None)
    with pytest.raises(PoissonError, match=r"^--variant baseline: the numpy backend has ours$"):
        bench(NumpyBackend(np.float32), [(9, 6, 5)], ["baseline"])


def test_every_variant_can_be_asked_for() -> None:
    backend = emulated()
    there = laplacian.names(backend)
    assert there == (*(variant.name for variant in VARIANTS), OURS)
    assert laplacian.choose(backend, ()) == there
    assert laplacian.choose(backend, ["ours", "shared"]) == ("shared-8x8x8", "shared-32x4x8", "ours")
    for word in ("", "tile", "baseline-"):
        with pytest.raises(PoissonError, match=f"^--variant {word}: the gpu backend has baseline, tiled-2, "):
            laplacian.choose(backend, [word])


@pytest.mark.usefixtures("clock")
def test_the_lowest_ratio_over_several_sizes_is_stated() -> None:
    notes = bench(NumpyBackend(np.float64), [(30, 30, 30), (20, 10, 5), (25, 25, 25)]).notes
    moved = 8 * (1000 - 8 - 4 * 29 + 18 * 8 * 3)
    assert notes[1:] == (f"lowest of ours: {100 * moved / 2e-3 / 1e11:.1f}% of the copy, at 20 x 10 x 5",)


def test_too_little_memory_is_refused_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    backend = NumpyBackend(np.float64)
    monkeypatch.setattr(backend, "memory", lambda: (10**9, 10**9))
    with pytest.raises(ResourceError, match=r"^two arrays of 500 x 500 x 500 nodes need 2 GB, and 1 GB are free: "):
        launch_once(backend, [(500, 500, 500)])


# ---- counters
@pytest.mark.usefixtures("clock")
def test_the_profiler_runs_the_same_command_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def profile(command: list[str], architecture: str) -> Counters:
        asked.append((command[1:], architecture))
        return Counters(fetched=4e3, written=1e3, l2_hits=61.0)

    monkeypatch.setattr(laplacian, "profile", profile)
    report = bench(emulated(), [(9, 6, 5)], [OURS], counters=True)
    assert {column.key for column in COUNTERS} <= set(report.rows[0])
    fetch, write = laplacian.fetch_bytes((9, 6, 5), 8), laplacian.write_bytes((9, 6, 5), 8)
    assert [report.rows[0][column.key] for column in COUNTERS] == [4e-6, 1e-6, fetch / 40, write / 10, 61.0]
    [(words, architecture)] = asked
    assert architecture == "emulated"
    assert words[:4] == ["-m", "poisson", "bench", "laplacian"]
    options = dict(word.removeprefix("--").partition("=")[::2] for word in words[4:])
    assert options == {"once": "", "variant": OURS, "sizes": "9x6x5", "precision": "float64", "backend": "gpu"}
    request = bench_laplacian(**{**options, "once": True})
    assert isinstance(request, Measurement)


@pytest.mark.usefixtures("clock")
def test_without_a_profiler_the_table_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    def profile(command: list[str], architecture: str) -> Counters:
        raise ProfilerError("no counters: none")

    monkeypatch.setattr(laplacian, "profile", profile)
    report = bench(emulated(), [(9, 6, 5)], ["baseline", OURS], counters=True)
    assert report.notes[1:] == ("no counters: none",)
    assert not {column.key for column in report.columns} & {column.key for column in COUNTERS}
    assert report.rows[1]["milliseconds"] == 2.0
    plain = bench(NumpyBackend(np.float64), [(9, 6, 5)], counters=True)
    assert plain.notes[1:] == ("no counters: --profile counts on the gpu backend alone, and this is numpy",)
    assert not {column.key for column in plain.columns} & {column.key for column in COUNTERS}


# ---- the command


LINE = ["bench", "laplacian", "--backend=numpy"]


def test_once_times_nothing(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(laplacian, "measure", lambda *_: pytest.fail("timed"))
    assert main([*LINE, "--n=9", "--once"]) == 0
    assert capsys.readouterr().out.splitlines()[-1].split() == ["ours", "9", "9", "9"]


def test_once_launches_each_variant_once(monkeypatch: pytest.MonkeyPatch) -> None:
    launched = []
    monkeypatch.setattr(
        "support.emulation.kernels.EmulatedKernel.__call__", lambda self, *_: launched.append(self.name)
    )
    report = launch_once(emulated(), [(9, 9, 9)], ["tiled-4", "subdomains-2", OURS])
    assert [row["variant"] for row in report.rows] == ["tiled-4", "subdomains-2", OURS]
    assert launched == ["poisson_tiled"] * 3 + ["poisson_laplacian"]


def test_the_study_is_the_default_of_nothing() -> None:
    """--study replaces the sizes; without it the default is one cube of 512 nodes along each axis."""
    seen: list[Any] = []

    def bench(device: Backend, sizes: Any, wanted: Any, *, counters: bool) -> Any:
        seen.append(tuple(sizes))

    patch = pytest.MonkeyPatch()
    with patch.context() as context:
        context.setattr(laplacian, "bench", bench)
        for options in ({}, {"study": True}, {"n": "9x8x7"}, {"sizes": "4,5"}):
            bench_laplacian(backend="numpy", **options).work()  # type: ignore[arg-type]
    assert seen == [((512, 512, 512),), STUDY, ((9, 8, 7),), ((4, 4, 4), (5, 5, 5))]
