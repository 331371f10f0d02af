# SPDX-License-Identifier: MIT
"""Full stencils, transfers by weights and strong clusters on ranks.

A part is to the local backend a lattice of its own, whose cut ends have no neighbours (`FullStencil.detached`): what
its outermost nodes get has no meaning, as everywhere on ranks.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from poisson.backends.base import Array
from poisson.backends.stencils import StencilOperations, StencilTransferOperations
from poisson.discrete.clusters import Clusters
from poisson.discrete.full_stencil import FullStencil, Offset, StencilTransfer
from poisson.discrete.operator import Operator
from poisson.mesh.boundary import Rule
from poisson.mesh.lattice import Lattice
from poisson.parallel.arrays import EVERYWHERE, DividedArray
from poisson.parallel.calls import operations_on_ranks
from poisson.parallel.clusters import joined
from poisson.parallel.communicator import Communicator
from poisson.parallel.exchanging import Exchanging

if TYPE_CHECKING:
    from poisson.parallel.distributed import DistributedBackend

PIVOTS = 255
"""Values that a search among those of all ranks compares with at once."""


@operations_on_ranks(FullStencil, "stencil")
class DistributedStencil(StencilOperations):
    """The operations of a full stencil on a part of a lattice, or on a whole one."""

    backend: DistributedBackend

    def __init__(self, backend: DistributedBackend, stencil: FullStencil) -> None:
        self.backend, self.stencil = backend, stencil
        self._plain = backend.bind(Operator(stencil.lattice))
        self._lattice = Exchanging(backend, backend.halo_of(stencil.lattice))
        values = None if stencil.coefficients is None else stencil.coefficients.values
        self._local = backend.local.bind(replace(stencil.detached(), coefficients=values))

    def _color(self, color: int) -> int:
        """The same color as on the whole lattice: all parts begin at even nodes."""
        return color

    def _median_link(self, axis: int) -> float:
        if self._lattice.halo is None:
            return super()._median_link(axis)
        positive = self._links_along(axis)
        return _median(self.backend.communicator, positive if isinstance(positive, np.ndarray) else positive.get())

    def _logarithms(self, axis: int) -> tuple[float, int]:
        total, count = super()._logarithms(axis)
        if self._lattice.halo is None:
            return total, count
        totals, counts = zip(*self.backend.communicator.allgather([total, float(count)]), strict=True)
        return math.fsum(totals), int(sum(counts))

    def clusters(self, threshold: float, part: float = 1.0) -> Clusters:
        if self._lattice.halo is None:
            return self._local.clusters(threshold, part)
        stencil: Any = self.stencil
        values = stencil.coefficients.values
        # Of the outermost nodes not all links are here: as fixed ones they belong to no group.
        within = self.backend.local.bind(replace(stencil.detached(Rule.FIXED), coefficients=values)).clusters(threshold)
        return joined(self.backend, stencil, within, part * stencil.lattice.whole.nodes)


class DistributedStencilTransfer(StencilTransferOperations):
    """Between two lattices that are divided alike, or from one to a coarse one that every rank has all of.

    The local operation has the coarse nodes `under` the part; where the part on the coarse lattice has other halos, or
    every rank all of it, they are copied.
    """

    backend: DistributedBackend

    def __init__(self, backend: DistributedBackend, transfer: StencilTransfer) -> None:
        self.backend, self.transfer = backend, transfer
        fine, under, coarse = transfer.fine, transfer.under, transfer.coarse
        # On all ranks alike, though on some both may have the same nodes.
        divided = [half for line, half in zip(fine.lattice.axes, transfer.halved, strict=True) if line.whole]
        same = not (transfer.gathers or any(divided))
        self._keeps = not all(divided)
        self._fine, self._coarse = (Exchanging(backend, backend.halo_of(each.lattice)) for each in (fine, coarse))
        self._under = self._coarse if same else Exchanging(backend, backend.halo_of(under, fine.lattice))
        weights, values = (array and array.values for array in (transfer.weights, fine.coefficients))
        local = transfer.detached
        self._local = backend.local.bind(replace(local, fine=replace(local.fine, coefficients=values), weights=weights))
        # What is read, and what is written.
        self._parts = None if same else [backend.empty(under.array_shape) for _ in range(2)]
        if not (same or transfer.gathers):
            self._read = _common(coarse.lattice, under)
            self._owned = under.owned, coarse.lattice.owned

    def restrict(self, fine: Array, coarse: Array) -> None:
        self._fine.need(fine, min(1, self._fine.width))
        if self._parts is None:
            self._local.restrict(fine.values, coarse.values)
            self._coarse.leave(coarse, 0)
            return
        part = self._parts[1]
        self._local.restrict(fine.values, part.values)
        self._put(part, coarse)

    def rounded(self, weights: Array, kept: Array | None = None) -> Array | None:
        # Behind the outermost nodes of a halo others may be missing, but nothing that a process owns takes from there.
        found = self._local.rounded(weights.values, None if kept is None else kept.values)
        return None if found is None else DividedArray(found, EVERYWHERE)

    def prolong_add(self, coarse: Array, fine: Array) -> None:
        layers = self._fine.need(fine, 0)
        given = coarse
        if self._parts is None:
            layers = min(layers, self._coarse.need(coarse, min(1, self._coarse.width)))
        else:
            given = self._parts[0]
            if self.transfer.gathers:
                assert self._under.halo is not None
                self.backend.note(coarse, given)
                self.backend.do(self._under.halo.taking(coarse, given))
            else:
                # Right fine layers are those between right coarse ones, and no more along an axis that is not halved.
                right = self._coarse.need(coarse, self._coarse.width)
                layers = min(layers, right if self._keeps else 2 * right - 1)
                _copy(self.backend, coarse, given, self._read)
        self._local.prolong_add(given.values, fine.values)
        self._fine.leave(fine, layers)

    def interpolation(self, out: Array, spreads: bool) -> None:
        self._local.interpolation(out.values, spreads)
        self._fill(self._under, out, (self.transfer.under, self.transfer.directions))

    def galerkin(self, out: Array) -> None:
        part = out
        if self._parts is not None:
            shape = out.shape[0], *self.transfer.under.array_shape
            part = self.backend.companion(out.dtype).empty(shape)
        self._local.galerkin(part.values)
        if part is not out:
            self._put(part, out)
        coarse = self.transfer.coarse
        self._fill(self._coarse, out, (coarse.lattice, ((0,) * coarse.dimension, *coarse.offsets)))

    def _fill(self, exchanging: Exchanging, stack: DividedArray, steps: tuple[Lattice, Sequence[Offset]]) -> None:
        """Give the halo of several arrays what their owners have there, but zeros for what goes beyond it."""
        lattice, offsets = steps
        if exchanging.halo is not None:
            exchanging.halo.filling(stack).run()
            with self.backend.ordered():
                values = self.backend.view(stack)
                for axis, line in enumerate(lattice.axes):
                    for step, rule, node in zip((-1, 1), line.rules, (0, -1), strict=True):
                        beyond = [number for number, offset in enumerate(offsets) if offset[axis] == step]
                        for number in beyond if rule is Rule.HALO else ():
                            values[(number, ..., node, *(slice(None),) * axis)] = 0.0
        stack.valid = EVERYWHERE
        stack.plans.clear()

    def _put(self, part: DividedArray, coarse: DividedArray) -> None:
        """Give a coarse array, or several, the nodes that are owned under the part."""
        if not self.transfer.gathers:
            _copy(self.backend, part, coarse, self._owned)
            self._coarse.leave(coarse, 0)
            return
        assert self._under.halo is not None
        self.backend.note(coarse, part)
        self.backend.do(self._under.halo.gathering(part, coarse))
        coarse.valid = EVERYWHERE


def _median(communicator: Communicator, positive: NDArray[np.float64]) -> float:
    """The median of positive numbers of all ranks, as NumPy has it; 0 without any."""
    bits = np.sort(positive).view(np.int64)  # which are in the order of the numbers
    count = int(sum(each for (each,) in communicator.allgather([bits.size])))
    if not count:
        return 0.0
    middle = []
    for place in {(count - 1) // 2, count // 2}:
        low, high = 0, 1 << 63
        while high - low > 1:
            pivots = sorted({low + (high - low) * each // (PIVOTS + 1) for each in range(1, PIVOTS + 1)} - {low})
            below = np.searchsorted(bits, np.array(pivots, dtype=np.int64))
            for pivot, total in zip(pivots, np.sum(communicator.allgather(below.tolist()), axis=0), strict=True):
                # The number is at or above the last pivot below which there are as many as are below it, or fewer.
                if total <= place:
                    low = pivot
                else:
                    high = pivot
                    break
        middle.append(float(np.int64(low).view(np.float64)))
    return sum(middle) / len(middle)


Box = tuple[tuple[slice, ...], tuple[slice, ...]]
"""The same nodes in two arrays."""


def _common(one: Lattice, other: Lattice) -> Box:
    """The nodes that two parts of a lattice have."""
    ends = [(max(a.first, b.first), min(a.first + a.nodes, b.first + b.nodes))
            for a, b in zip(one.axes, other.axes, strict=True)]  # fmt: skip

    def index(lattice: Lattice) -> tuple[slice, ...]:
        lines = zip(lattice.axes, ends, strict=True)
        return tuple(slice(start - line.first, stop - line.first) for line, (start, stop) in lines)[::-1]

    return index(one), index(other)


def _copy(backend: DistributedBackend, source: DividedArray, target: DividedArray, box: Box) -> None:
    backend.note(source, target)
    with backend.ordered():
        backend.view(target)[(..., *box[1])] = backend.view(source)[(..., *box[0])]
