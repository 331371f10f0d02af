# SPDX-License-Identifier: MIT
"""The axes of a staggered grid, as passes over it need them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from poisson.mesh.axis import Axis


@dataclass(frozen=True, eq=False)
class Cells:
    """The cells of a process along one axis, all of them or a run.

    `lengths`: of the cells. `gaps`: between their centres. `walls`: 1 over the distance of a face where p is given from
    the centre next to it. `beyond`: the gaps to the cells of other processes below and above, 0 where there are none.
    """

    nodes: int
    wraps: bool
    lengths: NDArray[np.float64]
    gaps: NDArray[np.float64]
    walls: tuple[float, float]
    beyond: tuple[float, float]

    @classmethod
    def of(cls, axis: Axis, start: int, stop: int) -> Cells:
        """The cells from `start` to `stop` of a whole axis."""
        whole, gaps = stop - start == axis.nodes, axis.gaps
        cut = [not whole and (axis.wraps or inside) for inside in (start > 0, stop < axis.nodes)]
        return cls(
            stop - start,
            axis.wraps and whole,
            axis.lengths[start:stop],
            gaps if whole else gaps[start : stop - 1],
            (0.0 if cut[0] else axis.walls[0], 0.0 if cut[1] else axis.walls[1]),
            (float(gaps[start - 1]) if cut[0] else 0.0, float(gaps[stop - 1]) if cut[1] else 0.0),
        )


@dataclass(frozen=True, eq=False)
class Staggered:
    """The cells of a staggered grid (`poisson.mac`), in tuples for x, y(, z).

    `shape`: cells. `wraps`: whether the axis is periodic; otherwise it has one more face than cells. `widths`: 1 over
    the width of every cell. `slopes`: for every face, what a difference of pressures is multiplied by; 0 where the
    velocity is kept.
    """

    shape: tuple[int, ...]
    wraps: tuple[bool, ...]
    widths: tuple[NDArray[np.float64], ...]
    slopes: tuple[NDArray[np.float64], ...]

    def fits(self, dtype: np.dtype[Any], cells: Any, velocity: Sequence[Any]) -> bool:
        """Whether all are arrays of one type, those of faces without gaps, and that of cells in rows without gaps."""
        return (
            all(each.dtype == dtype and each.flags.c_contiguous for each in velocity)
            and (cells.shape, cells.dtype) == (self.shape[::-1], dtype)
            and cells.strides[-1] == dtype.itemsize
        )


def distances(cells: Any) -> tuple[int, int]:
    """Values from one row of an array of cells to the next, and from one plane to the next."""
    return cells.strides[-2] // cells.itemsize, cells.strides[0] // cells.itemsize


def module_of(array: Any) -> ModuleType:
    """The module of an array."""
    if isinstance(array, np.ndarray):
        return np
    return import_module("cupy")


def at(place: int, what: slice | int) -> tuple[slice | int, ...]:
    """The index of entries along one axis of an array."""
    return (*(slice(None),) * place, what)


def close_walls(walls: int, velocity: Sequence[Any]) -> None:
    """Write zeros on the faces of the box that are bits of `walls`: the lower and the upper one along x, and so on."""
    for axis, faces in enumerate(velocity):
        for end in (0, 1):
            if walls >> (2 * axis + end) & 1:
                faces[at(len(velocity) - 1 - axis, -end)] = 0.0


def neighbours(count: int, rows: tuple[int, int], *, wraps: bool, upwards: bool) -> Iterator[tuple[slice, slice]]:
    """Upper and lower neighbours among so many along an axis, of which these are the lower ones, or the upper ones."""
    first, last = rows
    if upwards:
        inside = last - int(wraps and last == count)
        yield slice(first + 1, inside + 1), slice(first, inside)
        if inside < last:
            yield slice(0, 1), slice(inside, last)
        return
    yield slice(max(1, first), last), slice(max(1, first) - 1, last - 1)
    if wraps and first == 0:
        yield slice(0, 1), slice(count - 1, count)


def integral(values: Any, axes: Sequence[Cells]) -> Any:
    """The integral of values along axes, of which the first is the last one of the array."""
    for line in axes:
        values = values @ module_of(values).asarray(line.lengths, dtype=values.dtype)
    return values
