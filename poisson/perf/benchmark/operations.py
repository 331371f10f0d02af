# SPDX-License-Identifier: MIT
"""Every operation of a backend against the bandwidth of its memory, at given sizes."""

import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from poisson import backends
from poisson.backends.base import Backend
from poisson.backends.ledger import Ledger
from poisson.mesh.lattice import Lattice
from poisson.output.table import Column, Report
from poisson.perf.timing import REPEATS, Timing, in_a_row, stopwatch, stream_values
from poisson.perf.traffic import cost
from poisson.perf.workload import box, every_full_operation, every_operation, require_room, stretched, values_needed

COLUMNS = (
    Column("size", "size"),
    Column("operation", "operation"),
    Column("seconds", "ms", ".4f", 1e3),
    Column("bytes_per_second", "GB/s", ".1f", 1e-9),
    Column("of_yardstick", "of yardstick", ".3f"),
    Column("lowest", "lowest", ".3f"),
    Column("highest", "highest", ".3f"),
    Column("flops_per_second", "GFLOP/s", ".1f", 1e-9),
)


def bench(
    sizes: Sequence[tuple[int, ...]],
    *,
    name: str = "auto",
    precision: str = "float64",
    threads: int = 0,
    tabulated: bool = False,
    full: bool = False,
) -> Report:
    """Time every operation on random data, each time beside the memory bandwidth.

    The bandwidth of a shared machine changes by the second, so it is measured before every single measurement; the
    ratio is the median of the ratios of such pairs. Nodes are equally spaced, or stretched where axes are `tabulated`.
    With `full` the operations are those of full stencils, weights and clusters.

    Raises `PoissonError` if the backend does not run here, a grid has fewer than 9 nodes along an axis, or its arrays
    do not fit.
    """
    backend = backends.create(name, np.dtype(precision), threads)
    stream, moved = backend.probe().stream(stream_values(backend))
    watch = stopwatch(backend, stream)
    bandwidths: list[float] = []

    def measured() -> float:
        bandwidths.append(moved / watch())
        return bandwidths[-1]

    grids = [stretched(shape) if tabulated else box(shape) for shape in sizes]
    for grid in grids:
        arrays = f"the arrays of --sizes {'x'.join(map(str, grid.shape))}"
        require_room(backend, values_needed(grid, full), arrays, "fewer nodes, or --precision=float32")
    rows = [
        row
        for grid in grids
        for row in _rows(backend, grid, measured, every_full_operation if full else every_operation)
    ]
    return Report(
        f"operations of {backend.name}, {precision}{', stretched nodes' * tabulated}{', full stencils' * full}: "
        f"{backend.device}",
        COLUMNS,
        tuple(rows),
        (
            f"the yardstick, a copy: {statistics.median(bandwidths) / 1e9:.1f} GB/s; "
            f"ratios: the median, the lowest and the highest of {REPEATS}, each with the yardstick run just before",
        ),
    )


def _rows(
    backend: Backend, grid: Lattice, measured: Callable[[], float], run: Callable[[Backend, Lattice], Ledger]
) -> list[Mapping[str, Any]]:
    rows: list[Mapping[str, Any]] = []
    for call, invocation in run(backend, grid).samples.items():
        row, count = in_a_row(backend, invocation)
        watch = stopwatch(backend, row)
        pairs = [(measured(), watch() / count) for _ in range(REPEATS)]
        timing, needed = Timing.of([seconds for _, seconds in pairs]), cost(call)
        ratios = sorted(needed.bytes / seconds / bandwidth for bandwidth, seconds in pairs)
        rows.append(
            {
                "size": "x".join(map(str, grid.shape)),
                "operation": call.label,
                "seconds": timing.median,
                "bytes_per_second": needed.bytes / timing.median,
                "of_yardstick": statistics.median(ratios),
                "lowest": ratios[0],
                "highest": ratios[-1],
                "flops_per_second": needed.flops / timing.median,
            }
        )
    return rows
