# SPDX-License-Identifier: MIT
"""The operations of full stencils, of the transfers that follow them and of strong clusters, and what each computes.

They have the names and the arguments of those of `poisson.backends.base`, so that a level of multigrid may have either.
A is that of `poisson.discrete.full_stencil`; inner products have the control volumes.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from poisson.discrete.clusters import Clusters, clusters_of, contracted_clusters, together
from poisson.discrete.full_stencil import FullStencil, StencilTransfer
from poisson.discrete.operator import Operator
from poisson.mesh.grid import SLAB_NODES, Value, over_slabs

if TYPE_CHECKING:
    from poisson.backends.base import Backend

Array = Any
Reduction = Any

Waiting = Generator[Callable[[], Any], Any, Value]
"""A generator that needs something of a device now and then: it yields a function that waits, and is sent its value."""


def in_turns(waiting: Sequence[Waiting[Value]]) -> list[Value]:
    """The values that generators return, which ask for all that they need next before they wait, as one, for a device.

    They go on in turns, in their order: one that waits for nothing ends before the next one begins.
    """
    found: dict[int, Value] = {}
    known: dict[int, Any] = dict.fromkeys(range(len(waiting)))
    while known:
        asked = {}
        for number, value in known.items():
            try:
                asked[number] = waiting[number].send(value)
            except StopIteration as end:
                found[number] = end.value
        known = {number: ask() for number, ask in asked.items()}
    return [found[number] for number in range(len(waiting))]


class StencilOperations(ABC):
    """The operations of a full stencil on a backend.

    `backend`: where the arrays are. `stencil`: A, with its coefficients there.
    """

    backend: Backend
    stencil: FullStencil

    def __init__(self, backend: Backend, stencil: FullStencil) -> None:
        _require_whole(stencil)
        self.backend = backend
        self.stencil = stencil
        # What needs no coefficient is the same for every operator on the lattice.
        self._plain = backend.bind(Operator(stencil.lattice))

    @property
    def operator(self) -> FullStencil:
        """A, by the name that it has where operations are those of links."""
        return self.stencil

    def norm(self, r: Array, result: Reduction) -> None:
        """result = (Σ r², max |r|) over all nodes, in float64."""
        self._plain.norm(r, result)

    def dot(self, x: Array, y: Array, result: Reduction) -> None:
        """result = (Σ w x y, 0) with the control volumes w."""
        self._plain.dot(x, y, result)

    def advance(self, alpha: float, p: Array, q: Array, u: Array, r: Array, result: Reduction) -> None:
        """u = u + alpha p, r = r − alpha q; `result` gets the norms of r."""
        self._plain.advance(alpha, p, q, u, r, result)

    @abstractmethod
    def residual(self, u: Array, f: Array | None, r: Array, result: Reduction | None = None) -> None:
        """r = f − A u, zero at fixed nodes and without an equation. `result`, if given, gets the norms of r."""

    @abstractmethod
    def sweep(self, u: Array, f: Array | None, out: Array, omega: float, result: Reduction | None = None) -> None:
        """out = u + omega r / diag(A) with r = f − A u; u where r is zero. `result`, if given, gets the norms of r.

        A Chebyshev smoother is one sweep with each weight in turn.
        """

    @abstractmethod
    def color_sweep(self, u: Array, f: Array | None, color: int, omega: float) -> None:
        """u = u + omega r / diag(A) at the nodes of one color, 0 to 3 in 2D and 0 to 7 in 3D, that are not fixed.

        The color of a node is the sum of 1, 2 and 4 for odd indices along x, y and z (`FullStencil.colored`).
        """

    @abstractmethod
    def diagonal_solve(self, r: Array, z: Array, omega: float, result: Reduction | None = None) -> None:
        """z = omega r / diag(A), zero at fixed nodes and without an equation. `result` gets (Σ w r z, 0)."""

    @abstractmethod
    def direction(self, z: Array, beta: float, p: Array, out: Array, q: Array, result: Reduction) -> None:
        """out = z + beta p, q = A out, both zero at fixed nodes; p is not read where beta is zero.

        `result` gets (Σ w out q, 0). `out` is neither z nor p.
        """

    def median_links(self, axes: Sequence[int]) -> list[float]:
        """The medians of the positive sums of the links that go along each of some axes; 0 without any."""
        return [self._median_link(axis) for axis in axes]

    def _median_link(self, axis: int) -> float:
        backend, shape = self.backend, self.stencil.array_shape
        if backend.array_module is np and math.prod(shape) > SLAB_NODES:
            return median_of_slabs(partial(self._links_along, axis), shape, getattr(backend, "threads", 1))
        positive = self._links_along(axis)
        if backend.array_module is np or not positive.size:
            return _median(positive)
        with backend.ordered():
            return float(backend.array_module.median(positive))

    def mean_links(self, axes: Sequence[int]) -> list[float]:
        """The geometric means of these sums; 0 without any."""
        return [math.exp(total / count) if count else 0.0 for total, count in map(self._logarithms, axes)]

    def _logarithms(self, axis: int) -> tuple[float, int]:
        """The sum of their logarithms, and how many there are; of a part those of its nodes."""
        backend, lattice = self.backend, self.stencil.lattice
        xp = backend.array_module

        def of(*planes: int) -> tuple[float, int]:
            positive = self._links_along(axis, *planes)
            with backend.ordered():
                return float(xp.log(positive).sum()), positive.size

        if lattice.divided or xp is not np:
            return of()
        totals, counts = zip(*over_slabs(lattice.array_shape, of, getattr(backend, "threads", 1)), strict=True)
        return math.fsum(totals), sum(counts)

    def _links_along(self, axis: int, start: int | None = None, stop: int | None = None) -> Any:
        """The positive sums of the links of each node that go along an axis; of a part those of all its nodes.

        `start`, `stop`: of a whole lattice, the range of the first array axis.
        """
        backend, stencil = self.backend, self.stencil
        along = [number for number, offset in enumerate(stencil.offsets, start=1) if offset[axis]]
        planes = stencil.lattice.owned if start is None else (slice(start, stop),)
        with backend.ordered():
            total = backend.view(stencil.coefficients)[(along, *planes)].sum(axis=0, dtype=np.float64)
            return total[total > 0.0]

    def clusters(self, threshold: float, part: float = 1.0) -> Clusters:
        """The groups of nodes that links above a threshold join (`poisson.discrete.clusters`).

        Groups of more than `part` of all nodes are left out.

        They are found on the host; a backend may do so where its arrays are.
        """
        return clusters_of(self.stencil, self.backend.to_host(self.stencil.coefficients), threshold, part)

    def clusters_at(self, thresholds: Sequence[float], part: float = 1.0, large: int = 0) -> list[Clusters]:
        """The groups at each of several thresholds.

        `large`: if given, `Clusters.large` is that of groups of so many nodes or more, those left out among them.
        """
        return in_turns([self.search(thresholds, part, large)])[0]

    def search(self, thresholds: Sequence[float], part: float = 1.0, large: int = 0) -> Waiting[list[Clusters]]:
        """The same, which goes on beside other work where it waits for a device."""
        yield from ()
        if not large:
            return [self.clusters(threshold, part) for threshold in thresholds]
        most = part * self.stencil.lattice.nodes
        every = (self.clusters(threshold) for threshold in thresholds)
        return [replace(each.of_sizes(2, most), large=each.measured(large)) for each in every]

    def contracted_clusters(self, threshold: float, part: float = 1.0) -> Clusters:
        """These groups and all other free nodes, with a cycle for their graph (`poisson.discrete.contracted`)."""
        coefficients = self.backend.to_host(self.stencil.coefficients)
        return contracted_clusters(self.stencil, coefficients, threshold, part)

    def apart_together(self, clusters: Clusters, fewest: int) -> Clusters:
        """Each node of groups of so many or more as a group of its own, with a cycle for their graph."""
        return self.together(clusters.of_sizes(fewest, math.inf).apart)

    def together(self, clusters: Clusters) -> Clusters:
        """The same groups with a cycle for their graph."""
        return together(self.stencil, self.backend.to_host(self.stencil.coefficients), clusters)


class StencilTransferOperations(ABC):
    """The operations between the two grids of a `StencilTransfer`.

    `backend`: where the arrays are. `transfer`: both grids.
    """

    backend: Backend
    transfer: StencilTransfer

    def __init__(self, backend: Backend, transfer: StencilTransfer) -> None:
        _require_whole(transfer.fine)
        self.backend = backend
        self.transfer = transfer

    @abstractmethod
    def restrict(self, fine: Array, coarse: Array) -> None:
        """coarse = R fine, zero at fixed nodes."""

    @abstractmethod
    def prolong_add(self, coarse: Array, fine: Array) -> None:
        """fine = fine + P coarse; fixed nodes keep their values."""

    @abstractmethod
    def interpolation(self, out: Array, spreads: bool) -> None:
        """out = the weights that follow the operator: those of `StencilTransfer.weights`.

        A fine node between coarse ones along some axes balances its own stencil, whose links are summed over the other
        axes (J. E. Dendy, Black box multigrid, Journal of Computational Physics 48, 1982), and so takes from its
        neighbours along the former, which are coarse or have such weights themselves. Of links, which are negative in
        some products, the sizes count. What holds the node, the excess and the links to fixed nodes, counts where it is
        more than `BALANCED` of the links.

        A node between coarse ones to which no link leads and that nothing holds takes nothing; or, with `spreads`, from
        all of them alike, whether these have an equation or not. Without, the row sum of P would be 0 there and not 1,
        and its links along the coarse lines would hold the coarse grid as a wall does.
        """

    def rounded(self, weights: Array, kept: Array | None = None) -> Array | None:
        """The weights that `interpolation` left, in two bytes each, in `kept` if given; None where a backend has none.

        The weights that a node takes from keep their sum where that is 1: what is lost of a constant would be
        multiplied by the largest links.
        """
        return None

    @abstractmethod
    def galerkin(self, out: Array) -> None:
        """out = the coefficients of R A P on `StencilTransfer.coarse`, formed in float64.

        The row sums are those of A applied to the row sums of P, and not sums of what was rounded.
        """


@dataclass(eq=False, repr=False)
class ClusterOperations(ABC):
    """The correction of strong clusters, for any operator on their lattice: of links or a full stencil.

    `backend`: where the arrays are. `clusters`: the groups of nodes.
    """

    backend: Backend
    clusters: Clusters

    def residual(self, operations: Any, u: Array, f: Array, r: Array) -> None:
        """r = f − A u at the nodes of the groups, with A of `operations`; elsewhere r may be anything."""
        operations.residual(u, f, r)

    @abstractmethod
    def correct_clusters(self, r: Array, u: Array) -> None:
        """u = u + factor_k Σ_{i in k} w_i r_i at the nodes of each group k; the others keep their values.

        With a cycle for the graph of the groups its last rows are added instead, which follow from these sums. w are
        the control volumes. The sums are in float64, in an order that is the same on every run.
        """


def median_of_slabs(values: Callable[[int, int], Any], array_shape: tuple[int, ...], threads: int) -> float:
    """The median of what a function of the range of the first array axis has for all slabs; 0 without any.

    A sample says between which values the median lies, and only those are kept.
    """
    planes = array_shape[0]
    sample = np.sort(np.concatenate([values(k, k + 1)[::SAMPLED] for k in range(0, planes, -(-planes // SAMPLED))]))
    if sample.size == 0:
        return _median(values(0, planes))
    low, high = sample[int(0.45 * sample.size)], sample[int(0.55 * sample.size)]

    def sorted_out(start: int, stop: int) -> tuple[list[int], Any]:
        found = values(start, stop)
        counts = [found.size, *(np.count_nonzero(each) for each in (found < low, found == low, found <= high))]
        return counts, found[(found > low) & (found < high)]

    counts, kept = zip(*over_slabs(array_shape, sorted_out, threads, SLAB_NODES // 4), strict=True)
    size, below, at_low, to_high = (sum(each) for each in zip(*counts, strict=True))
    within = np.concatenate(kept)
    ranks = [(size - 1) // 2, size // 2]
    if ranks[0] < below or ranks[1] >= to_high:  # the sample is unlike the rest
        return _median(values(0, planes))
    places = [rank - below - at_low for rank in ranks]
    if within.size:
        within.partition(np.clip(places, 0, within.size - 1))
    both = (low if place < 0 else within[place] if place < within.size else high for place in places)
    return float(sum(both) / 2.0)


def _median(values: Any) -> float:
    """The median of values of which none is a NaN, and which change their places; 0 without any.

    numpy.median, which looks for NaN, imports masked arrays for that.
    """
    if not values.size:
        return 0.0
    ranks = (values.size - 1) // 2, values.size // 2
    values.partition(ranks)
    return float((values[ranks[0]] + values[ranks[1]]) / 2.0)


SAMPLED = 16
"""Planes of a sample, about, and every so many of their values."""


def _require_whole(stencil: FullStencil) -> None:
    if stencil.lattice.divided:
        raise ValueError("a full stencil on a part of a lattice has no operations of its own: take `detached`")


BALANCED = 1e-3
"""Below this part of its links a row sum does not count in the weights, which then sum to one."""
