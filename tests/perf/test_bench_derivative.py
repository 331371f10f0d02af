# SPDX-License-Identifier: MIT
"""`bench derivative`: every form along every axis, with errors that are known."""

import json
import math
from typing import Any

import numpy as np
import pytest
from conftest import emulated

from poisson.backends.base import Backend
from poisson.backends.gpu.derivative import VARIANTS
from poisson.backends.numpy import NumpyBackend
from poisson.errors import ResourceError
from poisson.mesh.differences import Differences
from poisson.perf.benchmark import derivative

COPY = 1e10


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """No gigabytes for the memory bandwidth, and short measurements."""
    monkeypatch.setattr(derivative, "copy_bandwidth", lambda backend: COPY)
    monkeypatch.setattr("poisson.perf.timing.LEAST_SECONDS", 0.0)
    monkeypatch.setattr("poisson.perf.timing.SHORT_SECONDS", 0.0)


def error_of_a_wave(nodes: int, order: int) -> float:
    """The largest error for one sine wave on a unit interval: its wave number less the one of the difference."""
    h = 1.0 / nodes
    central = Differences.uniform((nodes, nodes), (h, h), (True, True), order).central
    terms = (2.0 * weight * math.sin(2.0 * math.pi * m * h) / h for m, weight in enumerate(central, start=1))
    return 2.0 * math.pi - math.fsum(terms)


def rows_of(backend: Backend, shape: tuple[int, ...], order: int) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads(derivative.bench(backend, shape, order).json())
    return rows


@pytest.mark.parametrize(("shape", "order"), [((16, 20, 24), 2), ((24, 20), 8)])
def test_the_errors_are_those_of_the_wave_number(shape: tuple[int, ...], order: int) -> None:
    rows = rows_of(NumpyBackend(np.float64), shape, order)
    assert [(row["axis"], row["variant"]) for row in rows] == [
        *((name, "numpy") for name in "xyz"[: len(shape)]),
        ("all", "gradient"),
    ]
    for row, nodes in zip(rows, (*shape, shape[-1]), strict=True):
        error = error_of_a_wave(nodes, order)
        # All of these numbers of nodes are multiples of four, so that the largest slope lies on a node.
        assert row["max_error"] == pytest.approx(error, rel=1e-5, abs=1e-12)
        assert row["rms_error"] == pytest.approx(error / math.sqrt(2.0), rel=1e-5, abs=1e-12)


def test_bandwidth_is_two_values_a_node_over_the_time() -> None:
    rows = rows_of(NumpyBackend(np.float32), (12, 10, 9), 8)
    for row in rows:
        arrays = 4 if row["variant"] == "gradient" else 2
        assert row["bytes_per_second"] * row["seconds"] == pytest.approx(arrays * 4 * 12 * 10 * 9)
        assert row["of_copy"] == row["bytes_per_second"] / COPY


def test_the_kernels_have_every_form_with_its_tile() -> None:
    rows = rows_of(emulated(np.float64), (12, 10), 8)
    assert [(row["axis"], row["variant"]) for row in rows] == [
        *((axis, variant) for axis in "xy" for variant in VARIANTS),
        ("all", "gradient"),
    ]
    assert rows[1]["parameters"] == "block 32x4, nodes of a thread 1"
    errors = {row["axis"]: row["max_error"] for row in rows if row["variant"] == "march"}
    for row in rows:
        if row["axis"] in errors:
            assert row["max_error"] == pytest.approx(errors[row["axis"]], rel=1e-9)


def test_arrays_that_do_not_fit_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    backend = NumpyBackend(np.float64)
    monkeypatch.setattr(backend, "memory", lambda: (1000, 1000))
    line = r"^4 arrays of 9 x 9 x 9 nodes need 2.33e-05 GB, and 1e-06 GB are free: choose a smaller --n"
    with pytest.raises(ResourceError, match=line):
        derivative.bench(backend, (9, 9, 9), 8)
