# SPDX-License-Identifier: MIT
"""Between an axis and a coarser one on the same interval: linear interpolation, its scaled transpose, links and cubics.

Interpolation is linear between the nodes, whatever their numbers; between a face and the node next to it u goes on as
the operator has it. Restriction is R = W_c⁻¹ Pᵀ W_f with the control widths W, so that it is the adjoint of
interpolation in the inner product that makes A symmetric; where the intervals of a uniform axis halve, it is the full
weighting [1/4, 1/2, 1/4].

An axis that makes nothing of constants may also collapse to one node, that of the functions that are constant along it:
then restriction is the mean under the control widths, and the coarse axis has no coupling.

The tables are made once on the host and are the same for every backend. Between parts of two axes they are those of the
whole axes, with the nodes counted from the first one of each part; a node that gathers from one that is not here has
weights of zero.
"""

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from poisson.mesh.axis import Axis
from poisson.mesh.boundary import Rule

GATHERED = 4
"""A coarse node of a uniform axis gathers from at most this many fine nodes, and a cubic goes through so many."""

KEPT = 128
"""Tables that are kept, because lattices share axes."""

Table = tuple[NDArray[np.int32], NDArray[np.float64]]
"""For each node of the target: indices of nodes of the source, and weights, both of shape (target nodes, k). Entries
that are not needed have weight zero and a valid index."""


@dataclass(frozen=True, eq=False)
class AxisTransfer:
    """The tables between an axis and a coarser one.

    `fine`, `coarse`: on the same interval and of one kind, both divided in the same way or not at all.
    """

    fine: Axis
    coarse: Axis

    @cached_property
    def prolong(self) -> Table:
        """Linear interpolation, with two entries for each fine node."""
        return on_parts(_linear(self.fine.undivided, self.coarse.undivided), self.coarse, self.fine)

    @cached_property
    def restrict(self) -> Table:
        """From fine nodes to coarse ones."""
        return on_parts(_transposed(self.fine.undivided, self.coarse.undivided), self.fine, self.coarse)

    @cached_property
    def mean(self) -> Table:
        """As `restrict`, with weights that add up to one."""
        index, weight = _transposed(self.fine.undivided, self.coarse.undivided)
        return on_parts((index, weight / weight.sum(axis=1, keepdims=True)), self.fine, self.coarse)

    @cached_property
    def series(self) -> Table:
        """From the fine links that a coarse link covers, with the parts of its length that they cover."""
        return on_parts(_covered(self.fine.undivided, self.coarse.undivided), self.fine, self.coarse, links=True)


@lru_cache(maxsize=KEPT)
def axis_transfer(fine: Axis, coarse: Axis) -> AxisTransfer:
    """The tables between an axis and a coarser one."""
    return AxisTransfer(fine, coarse)


@lru_cache(maxsize=KEPT)
def cubic(source: Axis, target: Axis) -> Table:
    """From the nodes of one axis to those of another on the same interval, by cubics through the four nearest.

    Near an end that does not wrap the four lie on one side; an axis of three nodes has parabolas. An axis that
    collapses to one node has the mean; from one node all take its value.
    """
    return on_parts(_cubic(source.undivided, target.undivided), source, target)


@lru_cache(maxsize=KEPT)
def common(source: Axis, target: Axis) -> range | None:
    """The nodes of one axis on which those of another lie, at one distance; None where they do not."""
    index, weight = cubic(source, target)
    nodes = index[weight == 1.0]
    step = int(nodes[1] - nodes[0]) if nodes.size > 1 else 1
    if nodes.size < target.nodes or step < 1 or np.any(np.diff(nodes) != step):
        return None
    return range(int(nodes[0]), int(nodes[-1]) + 1, step)


def _placed(source: Axis, target: Axis) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """For each target node the source node at or below it, and what of the way to the next one is left, from 0 to 1.

    Beyond the outermost nodes of cells the way is outside of [0, 1].
    """
    if not source.tabulated and not target.tabulated:
        # The target node i lies at i · source.intervals / target.intervals spacings: integers keep that exact.
        place = np.arange(target.nodes, dtype=np.int64) * source.intervals
        return place // target.intervals, (place % target.intervals) / target.intervals
    points, x = _extended(source), target.coordinates
    cell = np.searchsorted(points, x, side="right") - 1
    cell = cell if source.wraps else np.clip(cell, 0, points.size - 2)
    way = (x - points[cell]) / (points[cell + 1] - points[cell])
    return cell - (source.nodes if source.wraps else 0), way


def _extended(axis: Axis) -> NDArray[np.float64]:
    """The nodes of an axis, three times behind one another if it wraps."""
    points = axis.coordinates
    if not axis.wraps:
        return points
    period = axis.spacing * axis.intervals
    return np.concatenate([points - period, points, points + period])


def _linear(fine: Axis, coarse: Axis) -> Table:
    if coarse.nodes == 1:
        return np.zeros((fine.nodes, 2), dtype=np.int32), np.tile([1.0, 0.0], (fine.nodes, 1))
    lower, way = _placed(coarse, fine)
    if coarse.wraps:
        lower, upper = lower % coarse.nodes, (lower + 1) % coarse.nodes
    else:
        upper = np.minimum(lower + 1, coarse.nodes - 1)
    weight = np.stack([1.0 - way, way], axis=1)
    if coarse.placement is not None and not coarse.wraps:
        for node, beyond in ((0, way < 0.0), (1, way > 1.0)):
            weight[beyond] = 0.0
            weight[beyond, node] = coarse.placement.beyond(fine.coordinates[beyond], bool(node))
    return np.stack([lower, upper], axis=1).astype(np.int32), weight


@lru_cache(maxsize=KEPT)
def _transposed(fine: Axis, coarse: Axis) -> Table:
    if coarse.nodes == 1:
        return _mean(fine)
    index, weight = _linear(fine, coarse)
    ratio = coarse.intervals / fine.intervals
    node, part = index.ravel(), weight.ravel()
    # The entries of the transpose, those of one coarse node behind one another in the order of the fine nodes.
    entry = np.argsort(node, kind="stable")
    entry = entry[part[entry] != 0.0]
    node, part, fine_node = node[entry], part[entry], entry // 2
    place = np.arange(node.size) - np.searchsorted(node, node)
    factor = fine.widths[fine_node] / coarse.widths[node]
    gathered = np.zeros((coarse.nodes, max(GATHERED, int(place.max()) + 1)), dtype=np.int32)
    weights = np.zeros(gathered.shape)
    gathered[node, place] = fine_node
    weights[node, place] = ratio * factor * part
    return gathered, weights


def _mean(axis: Axis) -> Table:
    """The mean over an axis of at most four nodes, both of shape (1, 4)."""
    index = np.minimum(np.arange(GATHERED, dtype=np.int32), axis.nodes - 1)
    weight = np.zeros(GATHERED)
    weight[: axis.nodes] = axis.widths
    return index[None], weight[None] / weight.sum()


def _covered(fine: Axis, coarse: Axis) -> Table:
    """The fine links under each coarse one; the last one repeats that before it where the axis does not wrap."""
    nodes = coarse.nodes
    if nodes == 1:
        # The link of a collapsed axis, which has no weight, takes the coefficient of the first one.
        return np.zeros((1, GATHERED), dtype=np.int32), np.eye(1, GATHERED)
    if coarse.tabulated:
        return _covered_by_coordinates(fine, coarse)
    index = np.zeros((nodes, GATHERED), dtype=np.int32)
    weight = np.zeros((nodes, GATHERED))
    # In units of 1/(fine · coarse) of the axis all ends are integers.
    start = np.minimum(np.arange(nodes, dtype=np.int64), coarse.intervals - 1) * fine.intervals
    first, last = start // coarse.intervals, -(-(start + fine.intervals) // coarse.intervals)
    for n in range(GATHERED):
        i = first + n
        covered = np.minimum((i + 1) * coarse.intervals, start + fine.intervals)
        covered -= np.maximum(i * coarse.intervals, start)
        index[:, n], weight[:, n] = np.where(i < last, i, 0), np.where(i < last, covered / fine.intervals, 0.0)
    return index, weight


def _covered_by_coordinates(fine: Axis, coarse: Axis) -> Table:
    points, own = _extended(fine), coarse.coordinates
    start, stop = (
        (own, np.append(own[1:], own[0] + coarse.spacing * coarse.intervals))
        if coarse.wraps
        else (np.append(own[:-1], own[-2]), np.append(own[1:], own[-1]))
    )
    first = np.searchsorted(points, start, side="right") - 1
    count = max(GATHERED, int((np.searchsorted(points, stop, side="left") - first).max()))
    index = np.zeros((coarse.nodes, count), dtype=np.int32)
    weight = np.zeros((coarse.nodes, count))
    for n in range(count):
        i = np.minimum(first + n, points.size - 2)
        covered = np.minimum(points[i + 1], stop) - np.maximum(points[i], start)
        covered = np.where(first + n < points.size - 1, np.maximum(covered, 0.0), 0.0)
        index[:, n], weight[:, n] = np.where(covered > 0.0, i % fine.nodes, 0), covered / (stop - start)
    return index, weight


def _cubic(source: Axis, target: Axis) -> Table:
    if target.nodes == 1:
        return _mean(source)
    index = np.zeros((target.nodes, GATHERED), dtype=np.int32)
    weight = np.zeros((target.nodes, GATHERED))
    if source.nodes == 1:
        weight[:, 0] = 1.0
        return index, weight
    points = min(GATHERED, source.nodes)
    cell, way = _placed(source, target)
    first = cell - 1 if source.wraps else np.clip(cell - 1, 0, source.nodes - points)
    for n in range(points):
        index[:, n] = (first + n) % source.nodes
    if not source.tabulated:
        position = cell - first + way
        for n in range(points):
            weight[:, n] = math.prod((position - m) / (n - m) for m in range(points) if m != n)
        return index, weight
    nodes = _extended(source)
    at = [nodes[first + n + (source.nodes if source.wraps else 0)] for n in range(points)]
    x = target.coordinates
    for n in range(points):
        weight[:, n] = math.prod((x - at[m]) / (at[n] - at[m]) for m in range(points) if m != n)
    return index, weight


def on_parts(table: Table, source: Axis, target: Axis, links: bool = False) -> Table:
    """The table of two whole axes as that of a part of each.

    Raises `ValueError` if only one of the axes is divided, or a node that the target's part owns gathers from one that
    the source's part does not have.
    """
    if source.whole is None and target.whole is None:
        return table
    if source.whole is None or target.whole is None:
        raise ValueError("one of the axes is divided and the other is not")
    index, weight = (values[target.index] for values in table)
    # Of a node that is here twice, that which lies nearer: the layers at the edge of a halo may be behind the others.
    count, here = source.whole.nodes, source.nodes - (links and source.rules[1] is Rule.HALO)
    place = (index.astype(np.int64) - source.first) % count
    position = (target.first + np.arange(target.nodes)) * (source.intervals / target.intervals) - source.first
    turns = np.rint((position[:, np.newaxis] - place) / count).astype(np.int64)
    place += count * np.clip(turns, 0, np.maximum(0, (here - 1 - place) // count))
    known = np.all((place < here) | (weight == 0.0), axis=1)
    if not np.all(known[target.owned]):
        raise ValueError(f"a halo of {max(source.halo)} nodes is too narrow for the nodes beside it to gather from")
    kept = known[:, np.newaxis] & (weight != 0.0)
    # An entry that is not needed keeps its place where an owned node needs that, for a march that goes on by one place,
    # or takes the place of one that is needed: elsewhere in a halo there may be anything, even NaN.
    safe = kept | np.isin(place, place[target.owned][kept[target.owned]])
    needed = np.take_along_axis(place, np.argmax(kept, axis=1)[:, np.newaxis], axis=1)
    place = np.where(safe, place, np.where(np.any(kept, axis=1, keepdims=True), needed, 0))
    return place.astype(np.int32), np.where(kept, weight, 0.0)
