# SPDX-License-Identifier: MIT
"""Tables of axes as the library reads them: what native/poisson.h says of poisson_operator and poisson_transfer."""

from __future__ import annotations

from collections.abc import Sequence
from ctypes import byref, c_int32, c_void_p
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from poisson.backends.openmp.arrays import pitch_of
from poisson.backends.openmp.library import TransferStructure
from poisson.discrete.operator import Operator
from poisson.errors import GridError
from poisson.mesh.axis import Axis
from poisson.mesh.axis_transfer import Table

if TYPE_CHECKING:
    from poisson.backends.openmp.backend import OpenmpBackend

TABLE_PAD = 64
"""Values of a row of a table before the first node, and behind the last one."""

MOST_ENTRIES = 8
"""Nodes of an axis from which one of another may gather."""


def tables_of(backend: OpenmpBackend, operator: Operator) -> tuple[Any, Any] | None:
    """The couplings of all axes times a/h², and their control widths, if there is a tabulated one or a mask."""
    if not (operator.lattice.tabulated or operator.fixed):
        return None
    rows: list[NDArray[np.float64]] = []
    widths = []
    for number, (axis, coupling) in enumerate(zip(operator.lattice.axes, operator.couplings, strict=True)):
        index = np.arange(-TABLE_PAD, pitch_of(axis.nodes) + TABLE_PAD)
        index = index % axis.nodes if axis.wraps else np.clip(index, 0, axis.nodes - 1)
        rows += [coupling * values[index] for values in operator.along(number)]
        widths.append(axis.widths[index])
    return backend.table(np.concatenate(rows), backend.dtype), backend.table(np.concatenate(widths), np.dtype("f8"))


class AxisTables:
    """Indices and weights for each axis in the library's memory, and a pointer to the structure that has them.

    `backend`: whose memory it is. `tables`: index and weight for each axis. `pairs`: the axes between which the tables
    are, that which is gathered from first. `neighbours`: whether the nodes that one gathers from are neighbours, as in
    restriction. `cubics`: whether the tables are those of cubics. Raises `GridError` if a node of a tabulated axis
    gathers from too many.
    """

    def __init__(
        self,
        backend: OpenmpBackend,
        tables: Sequence[Table],
        pairs: Sequence[tuple[Axis, Axis]],
        neighbours: bool = False,
        cubics: bool = False,
    ) -> None:
        tabulated = [source != target and (source.tabulated or target.tabulated) for source, target in pairs]
        if any(tabulated) and max(len(weight[0]) for _, weight in tables) > MOST_ENTRIES:
            raise GridError(
                f"the {backend.name} backend lets a node gather from {MOST_ENTRIES} along an axis at most: use "
                "run.backend = 'numpy'"
            )
        if neighbours and not backend.offloads:
            tables = [
                _neighbours(*table, *pair) if apart else table
                for table, pair, apart in zip(tables, pairs, tabulated, strict=True)
            ]
        self._index = [backend.table(index, np.dtype(np.int32)) for index, _ in tables]
        self._weight = [backend.table(weight, np.dtype(np.float64)) for _, weight in tables]
        # A 2D region does not look at the z axis, but a target region wants a device address there.
        index = [table.pointer for table in (*self._index, self._index[-1])][:3]
        weight = [table.pointer for table in (*self._weight, self._weight[-1])][:3]
        entries = [len(weight[0]) if apart else 0 for (_, weight), apart in zip(tables, tabulated, strict=True)]
        pair = _paired_cubics if cubics else _paired
        paired = pair(*tables[0], *pairs[0]) if tabulated[0] and not backend.offloads else None
        self._paired = None if paired is None else backend.table(paired, backend.dtype)
        self.pointer = byref(
            TransferStructure(
                index=(c_void_p * 3)(*index),
                weight=(c_void_p * 3)(*weight),
                entries=(c_int32 * 3)(*entries),
                paired=self._paired and self._paired.pointer,
            )
        )


def _neighbours(index: NDArray[np.int32], weight: NDArray[np.float64], source: Axis, target: Axis) -> Table:
    """The table with entry n of a node n nodes behind its entry 0, which may be an image where the axis wraps."""
    near = (target.first + np.arange(target.nodes)) * (source.intervals / target.intervals) - source.first
    place = index.astype(np.int64)
    if source.wraps:
        place += source.nodes * np.rint((near[:, np.newaxis] - place) / source.nodes).astype(np.int64)
    first = np.where(weight != 0.0, place, place.max(initial=0)).min(axis=1)
    # A node of a halo whose sources are not here, or here but on another turn around the axis, or on two, is left out:
    # those of no node begin before those of the one before it.
    known = (weight != 0.0).any(axis=1)
    if target.whole is not None:
        last = np.where(weight != 0.0, place, place.min(initial=0)).max(axis=1)
        known &= (np.abs(first - near) <= MOST_ENTRIES) & (last - first < MOST_ENTRIES)
    first[~known] = np.interp(np.flatnonzero(~known), np.flatnonzero(known), first[known])
    weight = np.where(known[:, np.newaxis], weight, 0.0)
    behind = np.where(weight != 0.0, place - first[:, np.newaxis], 0)
    found = np.zeros((len(index), int(behind.max()) + 1))
    np.add.at(found, (np.arange(len(index))[:, np.newaxis], behind), weight)
    return (first[:, np.newaxis] + np.arange(found.shape[1])).astype(np.int32), found


def _paired(index: NDArray[np.int32], weight: NDArray[np.float64], source: Axis, target: Axis) -> Any | None:
    """The weights where a coarse node comes to every two fine ones, in the rows that native/poisson.h names, if so."""
    down, nodes = target.nodes < source.nodes, np.arange(target.nodes)
    # The source of the first row.
    first = 2 * nodes - 1 if down else (nodes + 1) // 2 - 1
    place = index - first[:, np.newaxis]
    if source.wraps:
        place %= source.nodes
    needed = weight != 0.0
    if not np.all((place[needed] >= 0) & (place[needed] < (4 if down else 2))):
        return None
    found = np.zeros((4, pitch_of(target.nodes if down else (target.nodes + 1) // 2)))
    rows, columns = (place, nodes) if down else (place + 2 * (nodes % 2)[:, np.newaxis], nodes // 2)
    np.add.at(found, (np.where(needed, rows, 0), np.broadcast_to(columns[:, np.newaxis], rows.shape)), weight)
    return found


def _paired_cubics(index: NDArray[np.int32], weight: NDArray[np.float64], source: Axis, target: Axis) -> Any | None:
    """The same of cubics, away from the ends."""
    few, many = sorted((source.nodes, target.nodes))
    down = target.nodes < source.nodes
    # Target nodes to a coarse one, sources to step on, the sources of the first weights, and the nodes at either end.
    each, step, firsts, ends = (1, 2, (-1,), 1) if down else (2, 1, (-2, -1), 2)
    if few <= 2 * ends or abs(many - 2 * few) > 1:
        return None
    found = np.zeros((4 * each, pitch_of(-(-target.nodes // each))))
    nodes = np.arange(ends, few - ends)
    for part, first in enumerate(firsts):
        place = index[each * nodes + part] - (step * nodes + first)[:, np.newaxis]
        values = weight[each * nodes + part]
        needed = values != 0.0
        if not np.all((place[needed] >= 0) & (place[needed] < 4)):
            return None
        np.add.at(
            found, (4 * part + np.where(needed, place, 0), np.broadcast_to(nodes[:, np.newaxis], place.shape)), values
        )
    return found
