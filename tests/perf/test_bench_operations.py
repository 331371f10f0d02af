# SPDX-License-Identifier: MIT
"""`bench operations`: every operation is measured, by the bytes that it must move."""

import itertools
import math
from typing import Any

import pytest

from poisson.backends.base import Backend
from poisson.backends.operations import ALL
from poisson.discrete.clusters import Clusters
from poisson.discrete.full_stencil import FullStencil, StencilTransfer
from poisson.discrete.sparse_rows import SparseRows
from poisson.perf.benchmark import operations
from poisson.perf.benchmark.operations import COLUMNS, bench
from poisson.perf.workload import MEASURED

FULL = {name for name, spec in ALL.items() if spec.subject in (FullStencil, StencilTransfer, Clusters, SparseRows)}

pytestmark = pytest.mark.usefixtures("short_measurements")


@pytest.mark.usefixtures("backends_by_name")
@pytest.mark.parametrize(("name", "shape"), [("numpy", (12, 9, 10)), ("openmp", (19, 12)), ("gpu", (19, 12))])
def test_every_operation_is_measured(name: str, shape: tuple[int, ...]) -> None:
    report = bench([shape], name=name)
    assert all(list(row) == [column.key for column in COLUMNS] for row in report.rows)
    measured = {row["operation"]: row for row in report.rows}
    assert {label.replace(",", " ").split()[0] for label in measured} == MEASURED
    assert len(measured) == len(report.rows)
    nodes = math.prod(shape)
    arrays = {"sweep": 3, "sweep + norm": 3, "sweep, no source": 2, "update": 5, "derivative y": 2, "dot": 2}
    arrays["gradient"] = 1 + len(shape)
    for label, count in arrays.items():
        row = measured[label]
        assert math.isclose(row["bytes_per_second"] * row["seconds"], 8 * count * nodes, rel_tol=1e-12), label
    if name != "gpu":
        labels = {row["operation"] for row in bench([shape], name=name, tabulated=True).rows}
        assert labels == set(measured)
    if name == "gpu":
        full = bench([shape], name=name, full=True)
        assert {row["operation"].split()[0] for row in full.rows} == FULL
    for row in report.rows:
        assert row["size"] == "x".join(map(str, shape))
        assert row["seconds"] > 0.0
        assert 0.0 < row["lowest"] <= row["of_yardstick"] <= row["highest"]


def test_the_bandwidth_is_measured_before_every_operation(monkeypatch: pytest.MonkeyPatch) -> None:
    """A ratio is that of a pair; the median of three pairs is neither the first nor the last."""
    times = {"bandwidth": itertools.cycle([1.0, 2.0, 4.0]), "operation": itertools.repeat(1.0)}
    order = []

    def fake(backend: Backend, call: Any) -> Any:
        name = "operation" if order or call.__qualname__.startswith("in_a_row") else "bandwidth"
        order.append(name)

        def watch() -> float:
            order.append(name)
            return next(times[name])

        return watch

    monkeypatch.setattr(operations, "stopwatch", fake)
    monkeypatch.setattr(operations, "REPEATS", 3)
    monkeypatch.setattr(operations, "in_a_row", lambda backend, call: (call, 1))
    monkeypatch.setattr(operations, "stream_values", lambda backend: 100)
    row = next(iter(bench([(10, 10)], name="numpy").rows))
    assert order[:8] == ["bandwidth", "operation", *("bandwidth", "operation") * 3]
    # A laplacian moves 2 x 100 values of 8 bytes in one second, the copy 1600 bytes in 1, 2 and 4 seconds.
    assert (row["operation"], row["lowest"], row["of_yardstick"], row["highest"]) == ("laplacian", 1.0, 2.0, 4.0)
