# SPDX-License-Identifier: MIT
"""All operations on one roofline: what each reaches beside what memory and arithmetic allow.

S. Williams, A. Waterman, D. Patterson, "Roofline: an insightful visual performance model for multicore architectures",
Communications of the ACM 52 (2009).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from poisson import backends
from poisson.backends.base import Backend
from poisson.errors import GridError
from poisson.mesh.differences import ORDERS
from poisson.output.table import Column, Report
from poisson.perf.timing import copy_bandwidth, measure, measure_in_a_row
from poisson.perf.traffic import cost
from poisson.perf.workload import box, every_operation, require_room, values_needed

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SHAPES = {"numpy": (1024, 1024)}
"""Nodes by default, where it is not `SHAPE`."""
SHAPE = (4096, 4096)
LEAST_PEAK_SECONDS = 0.01
"""The measurement of the peak of arithmetic grows until it takes so long."""

COLUMNS = (
    Column("operation", "operation"),
    Column("seconds", "ms", ".4f", 1e3),
    Column("spread", "spread", ".3f"),
    Column("flops_per_byte", "flop/byte", ".3f"),
    Column("flops_per_second", "GFLOP/s", ".1f", 1e-9),
    Column("bytes_per_second", "GB/s", ".1f", 1e-9),
    Column("of_bandwidth", "of bandwidth", ".3f"),
    Column("of_attainable", "of attainable", ".3f"),
)


@dataclass(frozen=True)
class Roof:
    """The limits of a device: bytes a second of a copy, and flops a second of arithmetic at its peak."""

    bandwidth: float
    peak: float

    def attainable(self, intensity: float) -> float:
        """Flops a second that an operation of `intensity` flops a byte can reach."""
        return min(self.peak, self.bandwidth * intensity)


def roofline(backend_name: str, precision: str, shape: tuple[int, ...] | None = None) -> Report:
    """Measure the roof and every operation below it.

    Raises `PoissonError` if the backend is not available, the grid is too small, or its arrays do not fit.
    """
    backend = backends.create(backend_name, np.dtype(precision))
    shape = shape or SHAPES.get(backend.name, SHAPE)
    if min(shape) <= ORDERS[-1]:
        raise GridError(
            f"--shape {'x'.join(map(str, shape))}: at least {ORDERS[-1] + 1} nodes along every axis are needed"
        )
    grid = box(shape)
    arrays = f"the arrays of --shape {'x'.join(map(str, shape))}"
    require_room(backend, values_needed(grid), arrays, "fewer nodes, or --precision=float32")
    roof = Roof(copy_bandwidth(backend), peak_flops(backend))
    ledger = every_operation(backend, grid)
    rows = []
    for call, invocation in ledger.samples.items():
        timing, needed = measure_in_a_row(backend, invocation), cost(call)
        reached = needed.flops / timing.median
        rows.append(
            {
                "operation": call.label,
                "seconds": timing.median,
                "spread": timing.spread,
                "flops_per_byte": needed.intensity,
                "flops_per_second": reached,
                "bytes_per_second": needed.bytes / timing.median,
                "of_bandwidth": needed.bytes / timing.median / roof.bandwidth,
                "of_attainable": reached / roof.attainable(needed.intensity) if reached else None,
            }
        )
    title = f"{backend.name}: {backend.device}; {' x '.join(map(str, shape))} nodes, {backend.dtype}"
    notes = (
        "",
        f"copy {roof.bandwidth / 1e9:.1f} GB/s, arithmetic {roof.peak / 1e9:.1f} GFLOP/s; "
        "fill has no arithmetic and is not in the figure",
    )
    return Report(title, COLUMNS, tuple(rows), notes, lambda figure: draw(figure, title, roof, rows))


def peak_flops(backend: Backend) -> float:
    """Flops a second that arithmetic reaches at its peak."""
    count = 1 << 22
    call, flops = backend.probe().arithmetic(count)
    call()
    while min(backend.seconds(call) for _ in range(3)) < LEAST_PEAK_SECONDS:
        count *= 4
        call, flops = backend.probe().arithmetic(count)
        call()
    return flops / measure(backend, call).median


def draw(figure: Figure, title: str, roof: Roof, rows: Sequence[Mapping[str, Any]]) -> None:
    """Flops a second over flops a byte, both logarithmic: the attainable line, and a point for each operation.

    The legend goes from left to right, with the part of the attainable that each reaches; no two points look the same.
    """
    from matplotlib import colormaps

    points = sorted((row for row in rows if row["flops_per_byte"]), key=lambda row: float(row["flops_per_byte"]))
    figure.set_size_inches(9.0, max(4.8, 1.2 + 0.2 * len(points)))
    axes = figure.subplots()
    ridge = roof.peak / roof.bandwidth
    left = min(row["flops_per_byte"] for row in points) / 2
    right = 4 * max(ridge, *(row["flops_per_byte"] for row in points))
    line = np.array([left, ridge, right])
    axes.loglog(line, [roof.attainable(x) / 1e9 for x in line], color="black", linewidth=1.2)
    middle = math.sqrt(ridge * right)
    axes.text(middle, roof.peak / 1e9, f"{roof.peak / 1e9:.0f} GFLOP/s", ha="center", va="bottom", fontsize="small")
    markers = "oD^sv"
    for number, row in enumerate(points):
        reached = row["flops_per_second"] / roof.attainable(row["flops_per_byte"])
        axes.loglog(
            row["flops_per_byte"],
            row["flops_per_second"] / 1e9,
            linestyle="none",
            marker=markers[number % len(markers)],
            color=colormaps["turbo"]((number + 0.5) / len(points)),
            markeredgecolor="black",
            markeredgewidth=0.5,
            markersize=7,
            alpha=0.85,
            label=f"{row['operation']}, {reached:.0%}",
        )
    low, high = axes.get_ylim()
    axes.set_ylim(low, 1.6 * high)
    axes.annotate(
        f"{roof.bandwidth / 1e9:.0f} GB/s",
        (math.sqrt(left * ridge), roof.attainable(math.sqrt(left * ridge)) / 1e9),
        (-6.0, 6.0),
        textcoords="offset points",
        ha="right",
        fontsize="small",
    )
    axes.set_xlabel("flops per byte that must move")
    axes.set_ylabel("GFLOP/s")
    axes.set_title(title, fontsize="small", wrap=True)
    axes.grid(visible=True, linewidth=0.4, alpha=0.6)
    figure.legend(loc="outside right upper", fontsize="x-small", title="% of attainable", title_fontsize="x-small")
