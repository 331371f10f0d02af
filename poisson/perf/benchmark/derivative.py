# SPDX-License-Identifier: MIT
"""`python -m poisson bench derivative`: the error, the time and the bandwidth of every form of a first derivative.

The test is that of the finite-difference tutorial for CUDA that the kernels come from: the function is a sine along the
axis of the derivative, one wave on a periodic unit interval, so the exact derivative is known at every node.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from poisson.backends.base import Array, Backend
from poisson.backends.gpu.backend import GpuBackend
from poisson.backends.ledger import Call
from poisson.mesh.differences import Differences
from poisson.mesh.grid import AXES, slabs
from poisson.output.table import Column, Report
from poisson.perf.timing import copy_bandwidth, measure_in_a_row
from poisson.perf.traffic import cost
from poisson.perf.workload import require_room

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLUMNS = (
    Column("axis", "axis"),
    Column("variant", "variant"),
    Column("parameters", "parameters"),
    Column("rms_error", "rms error", ".3e"),
    Column("max_error", "max error", ".3e"),
    Column("seconds", "ms", ".4f", 1e3),
    Column("spread", "spread", ".3f"),
    Column("bytes_per_second", "GB/s", ".1f", 1e-9),
    Column("of_copy", "of copy", ".3f"),
)

WAVE = 2.0 * math.pi
"""The wave number of the test function."""


def bench(backend: Backend, shape: Sequence[int], order: int = 8) -> Report:
    """Measure the derivatives along each axis in every form that a backend has, and the gradient.

    `shape` is the nodes along x, y(, z), more than `order` each; `order` is 2, 4, 6 or 8. A row for each axis and form,
    and one for the gradient.

    Raises `PoissonError` if an axis has too few nodes, or the memory is too small.
    """
    spacing = tuple(1.0 / n for n in shape)
    differences = Differences.uniform(tuple(shape), spacing, (True,) * len(shape), order)
    arrays = 1 + len(shape)
    what = f"{arrays} arrays of {' x '.join(map(str, shape))} nodes"
    require_room(backend, arrays * math.prod(shape), what, "a smaller --n, or --precision=float32")
    copy = copy_bandwidth(backend)
    rows = []
    operations = backend.bind(differences)
    outs = [backend.empty(differences.array_shape) for _ in shape]
    one, all_axes = (
        Call(name, differences, math.prod(shape), backend.dtype.itemsize) for name in ("derivative", "gradient")
    )
    for axis, name in enumerate(AXES[: len(shape)]):
        u = backend.assemble(differences.array_shape, partial(_wave, differences, axis))
        for variant, derivative in backend.probe().derivatives(operations).items():
            backend.fill(outs[0], math.nan)
            call = partial(derivative, axis, u, outs[0])
            row = _row(backend, name, variant, call, cost(one).bytes, copy)
            rows.append(row | _errors(backend, differences, axis, outs[0]))
    row = _row(backend, "all", "gradient", partial(operations.gradient, u, outs), cost(all_axes).bytes, copy)
    rows.append(row | _errors(backend, differences, axis, outs[axis]))
    size = " x ".join(map(str, shape))
    title = f"First derivatives of order {order} on {size} nodes, {backend.dtype}, on {backend.name}: {backend.device}"
    notes = (f"copy in the same run: {copy / 1e9:.0f} GB/s",)
    return Report(title, COLUMNS, tuple(rows), notes, partial(_draw, rows, copy))


def _row(
    backend: Backend, axis: str, variant: str, call: Callable[[], None], moved: float, copy: float
) -> dict[str, Any]:
    timing = measure_in_a_row(backend, call)
    bandwidth = moved / timing.median
    return {
        "axis": axis,
        "variant": variant,
        "parameters": _parameters(backend, call),
        "seconds": timing.median,
        "spread": timing.spread,
        "bytes_per_second": bandwidth,
        "of_copy": bandwidth / copy,
    }


def _parameters(backend: Backend, call: Callable[[], None]) -> str:
    if not isinstance(backend, GpuBackend):
        return ""
    [(shape, _)] = backend.kernels_of(call)
    return f"block {shape.block_x}x{shape.block_y}, nodes of a thread {shape.march}"


def _wave(differences: Differences, axis: int, xp: ModuleType, start: int, stop: int) -> Any:
    """The test function on the rows or planes [start, stop)."""
    line = xp.sin(WAVE / differences.shape[axis] * xp.arange(differences.shape[axis]))
    values = xp.empty((stop - start, *differences.array_shape[1:]))
    place = differences.lattice.array_axis(axis)
    values[...] = (line[start:stop] if place == 0 else line).reshape((-1,) + (1,) * axis)
    return values


def _errors(backend: Backend, differences: Differences, axis: int, out: Array) -> dict[str, float]:
    """The error of the derivative along an axis against the exact one."""
    got: NDArray[Any] = backend.to_host(out)
    exact = WAVE * np.cos(WAVE / differences.shape[axis] * np.arange(differences.shape[axis]))
    place = differences.lattice.array_axis(axis)
    squares = largest = 0.0
    for start, stop in slabs(got.shape):
        error = got[start:stop] - (exact[start:stop] if place == 0 else exact).reshape((-1,) + (1,) * axis)
        squares += float(np.sum(error * error))
        largest = max(largest, float(np.max(np.abs(error))))
    return {"rms_error": math.sqrt(squares / got.size), "max_error": largest}


def _draw(rows: Sequence[dict[str, Any]], copy: float, figure: Figure) -> None:
    axes = figure.add_subplot()
    names = list(dict.fromkeys(row["axis"] for row in rows))
    variants = list(dict.fromkeys(row["variant"] for row in rows))
    width = 0.8 / len(variants)
    for number, variant in enumerate(variants):
        own = [row for row in rows if row["variant"] == variant]
        places = [names.index(row["axis"]) + (number - (len(variants) - 1) / 2) * width for row in own]
        axes.bar(places, [row["bytes_per_second"] / 1e9 for row in own], width, label=variant)
    axes.axhline(copy / 1e9, color="black", linestyle="--", label="copy")
    axes.set_xticks(range(len(names)), names)
    axes.set_xlabel("axis of the derivative")
    axes.set_ylabel("GB/s")
    axes.legend()
