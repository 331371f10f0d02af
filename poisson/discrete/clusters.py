# SPDX-License-Identifier: MIT
"""Strong clusters: groups of nodes that hang together by strong links, and to the rest by weak ones.

Where coefficients jump from node to node, the constant of such a group is neither smoothed, its Rayleigh quotient being
the ratio of the links, nor seen by a coarse grid that has no node for it. Each gets a correction of its own,

    u += 0.7 Z (diag Zᵀ V A Z)⁻¹ Zᵀ V r,

with Z the indicators of the groups and V the control volumes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from poisson.discrete.contracted import Graph, GraphCycle
from poisson.mesh.lattice import Lattice

if TYPE_CHECKING:
    from poisson.discrete.full_stencil import FullStencil

DAMPING = 0.7
"""The part of a correction that is taken: neighbouring groups correct at once."""

LOOSE = 1e-14
"""A group whose sum of rows is below this part of its diagonal is held by rounding alone, and gets no correction."""


@dataclass(frozen=True, eq=False)
class Clusters:
    """Disjoint groups of nodes, and the factor of the correction of each.

    `lattice`: the nodes, fewer than 2³¹; of a part those in its halo belong to none. `nodes` (int32 array, shape
    (members,)): the numbers of the nodes in C order, without padding: one group after the other, in each ascending. A
    backend copies NumPy arrays to where its own are. `starts` (int64 array, shape (groups + 1,)): where each group
    begins in `nodes`, and their end. `factors` (float64 array, shape (groups,)): 0.7 / (Zᵀ V A Z) of each. `across`:
    of a part, the groups that other parts have nodes of. `of_all`: `size`, if it does not follow from the arrays.
    `divided`: what the backend that found them has made of them for their correction. `cycle`: for corrections of all
    groups together, in place of the factors. `large`: what `measured` says of groups of a size, if that was asked for.
    """

    lattice: Lattice
    nodes: Any
    starts: Any
    factors: Any
    across: Across | None = None
    of_all: tuple[int, int, int] | None = None
    divided: Any = None
    cycle: GraphCycle | None = None
    large: tuple[int, int, int] | None = None

    def __post_init__(self) -> None:
        if self.nodes.dtype != np.int32 or self.starts.dtype != np.int64 or self.factors.dtype != np.float64:
            raise ValueError("the nodes of clusters are int32, their starts int64 and their factors float64")

    @property
    def shape(self) -> tuple[int, ...]:
        return self.lattice.shape

    @property
    def count(self) -> int:
        """How many groups there are."""
        return int(self.factors.size)

    @property
    def size(self) -> tuple[int, int, int]:
        """Groups and members on all parts together, and the sum of the squares of the members of each group."""
        if self.of_all:
            return self.of_all
        counts = self.starts[1:] - self.starts[:-1]
        return self.count, int(self.nodes.size), int((counts * counts).sum())

    def of_sizes(self, fewest: int, most: float) -> Clusters:
        """The groups, on the host, of so many members."""
        sizes = np.diff(self.starts)
        kept = (sizes >= fewest) & (sizes <= most)
        starts = np.concatenate([[0], np.cumsum(sizes[kept])])
        return Clusters(self.lattice, self.nodes[np.repeat(kept, sizes)], starts, self.factors[kept])

    def measured(self, fewest: int) -> tuple[int, int, int]:
        """The members of the groups, on the host, that have so many or more, the sum of the squares of these for each
        group, and how many of the nodes beside each member are members of any such group, but for those around an axis.
        """
        groups = self.of_sizes(fewest, math.inf)
        there = np.zeros(self.lattice.array_shape, dtype=bool)
        there.flat[groups.nodes] = True
        along = [there.swapaxes(0, axis) for axis in range(there.ndim)]
        return *groups.size[1:], 2 * sum(int(np.count_nonzero(each[1:] & each[:-1])) for each in along)

    @property
    def apart(self) -> Clusters:
        """Their members, on the host, each as a group of its own."""
        nodes = np.sort(self.nodes)
        return Clusters(self.lattice, nodes, np.arange(nodes.size + 1), np.ones(nodes.size))

    @property
    def without_members(self) -> Clusters:
        """The same for a backend that has copied the members to a place of its own."""
        none = {name: getattr(self, name)[:0].copy() for name in ("nodes", "starts", "factors")}
        return replace(self, **none, of_all=self.size)


@dataclass(frozen=True, eq=False)
class Across:
    """The groups that several parts have nodes of.

    `here`: their nodes on this part, with factors of one. `numbers` (int64 array): the number of each of these among
    the groups of all parts. `factors` (float64 array): those of all, by their numbers.
    """

    here: Clusters
    numbers: NDArray[np.int64]
    factors: NDArray[np.float64]


_Ends = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]


@dataclass(frozen=True)
class _Joined:
    """Groups of nodes that strong links join: link > threshold √(d_i d_j), with d = diag(V A); a fixed node is alone.

    Where the stencil has scales, links count by so much, and d are their sums. `label`: the group of each node.
    `sizes`: how many nodes a group has. `diagonal`, `loose`: the sums of d over each group, and of what holds it: its
    excess and the links that leave it, of which nothing cancels.
    """

    label: NDArray[Any]
    sizes: NDArray[np.int64]
    diagonal: NDArray[np.float64]
    loose: NDArray[np.float64]

    @staticmethod
    def of(stencil: FullStencil, coefficients: NDArray[Any], threshold: float) -> _Joined:
        from scipy import sparse  # 0.1 s
        from scipy.sparse.csgraph import connected_components

        lattice = stencil.lattice
        free = np.zeros(lattice.array_shape, dtype=bool)
        free[lattice.free] = True
        excess = coefficients[0].astype(np.float64).ravel()
        diagonal, links = excess * (not stencil.scales), _links(stencil, coefficients)
        factors = stencil.scales or (1.0,) * len(links)
        scaled = [(here, there, factor * values)
                  for factor, (here, there, values) in zip(factors, links, strict=True)]  # fmt: skip
        for here, there, values in scaled:
            diagonal += np.bincount(here, values, free.size)
            diagonal += np.bincount(there, values, free.size)
        root, held = np.sqrt(np.where(diagonal > 0.0, diagonal, np.inf)), free.ravel()
        ends = [(here[strong], there[strong]) for here, there, values in scaled
                for strong in [(values > threshold * root[here] * root[there]) & held[here] & held[there]]]  # fmt: skip
        one, other = (np.concatenate(part) for part in zip(*ends, strict=True))
        graph = sparse.coo_array((np.ones(one.size, dtype=bool), (one, other)), shape=(free.size, free.size))
        groups, label = connected_components(graph, directed=False)
        loose: Any = np.bincount(label, excess, groups)
        for here, there, values in links:
            leaving = label[here] != label[there]
            for end in (here, there):
                loose += np.bincount(label[end[leaving]], values[leaving], groups)
        of_groups: Any = np.bincount(label, diagonal, groups)
        return _Joined(label, np.bincount(label, minlength=groups), of_groups, loose)

    def groups(self, lattice: Lattice, kept: NDArray[np.bool_], factors: NDArray[np.float64]) -> Clusters:
        """Some of the groups, with their factors."""
        from scipy import sparse

        members = np.flatnonzero(kept[self.label])
        places, shape = (self.label[members], members), (kept.size, self.label.size)
        nodes = sparse.csr_array((np.ones(members.size, dtype=bool), places), shape=shape).indices
        starts = np.concatenate([[0], np.cumsum(self.sizes[kept])])
        return Clusters(lattice, nodes.astype(np.int32), starts.astype(np.int64), factors)


def clusters_of(stencil: FullStencil, coefficients: NDArray[Any], threshold: float, part: float = 1.0) -> Clusters:
    """The components of two nodes or more that strong links join.

    Fixed nodes belong to none, nor do nodes without an equation.

    `stencil`: A. `coefficients` (array of the shape of `FullStencil.stack`): its coefficients on the host. `threshold`:
    between 0 and 1. `part`: of all nodes that a group has at most; larger ones have no correction.
    """
    joined = _Joined.of(stencil, coefficients, threshold)
    kept = (joined.sizes > 1) & (joined.sizes <= part * joined.label.size) & (joined.loose > LOOSE * joined.diagonal)
    return joined.groups(stencil.lattice, kept, DAMPING / joined.loose[kept])


def contracted_clusters(
    stencil: FullStencil, coefficients: NDArray[Any], threshold: float, part: float = 1.0
) -> Clusters:
    """The groups of `clusters_of`, and each other free node as a group of its own, with a cycle for their graph."""
    joined = _Joined.of(stencil, coefficients, threshold)
    free = np.zeros(stencil.array_shape, dtype=bool)
    free[stencil.lattice.free] = True
    kept = (joined.sizes <= part * joined.label.size) & (joined.loose > LOOSE * joined.diagonal)
    kept &= (np.bincount(joined.label, free.ravel(), kept.size) > 0.0) & (joined.diagonal > 0.0)
    return together(stencil, coefficients, joined.groups(stencil.lattice, kept, np.ones(np.count_nonzero(kept))))


def together(stencil: FullStencil, coefficients: NDArray[Any], clusters: Clusters) -> Clusters:
    """The same groups with a cycle for their graph."""
    number, count, links = np.full(clusters.lattice.nodes, -1), clusters.count, _links(stencil, coefficients)
    number[clusters.nodes] = np.repeat(np.arange(count), np.diff(clusters.starts))
    entries = [end for here, there, values in links for end in ((here, there, values), (there, here, values))]
    one, other, values = (np.concatenate(each) for each in zip(*entries, strict=True))
    # Sums go from node to node, and at each from link to link as the offsets are.
    order = np.argsort(one, kind="stable")
    one, other, values = one[order], other[order], values[order]
    own, beyond = number[one], number[other]
    # What leaves a group for another of the graph is no excess, and nothing of that cancels.
    out, across, members = (own >= 0) & (beyond < 0), (own >= 0) & (beyond >= 0), np.flatnonzero(number >= 0)
    alone = coefficients[0].astype(np.float64).ravel() + np.bincount(one[out], values[out], number.size)
    excess = np.bincount(number[members], alone[members], count)
    return replace(clusters, cycle=GraphCycle.of(Graph.of(own[across], beyond[across], values[across], excess)))


def _links(stencil: FullStencil, coefficients: NDArray[Any]) -> list[_Ends]:
    """The nodes at both ends of the links of each offset, and their values; there is none across a face."""
    lattice, links = stencil.lattice, []
    numbers, place = np.arange(lattice.nodes).reshape(lattice.array_shape), tuple(range(lattice.dimension))
    for offset, link in zip(stencil.offsets, coefficients[1:].astype(np.float64), strict=True):
        here = np.flatnonzero(link)
        there = np.roll(numbers, [-step for step in reversed(offset)], place).ravel()[here]
        links.append((here, there, link.ravel()[here]))
    return links
