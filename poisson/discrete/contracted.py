# SPDX-License-Identifier: MIT
"""The graph of strong clusters and single nodes, and a cycle of multigrid that solves approximately on it.

Where one phase nearly percolates, clusters reach over many nodes of the coarse grids, and a correction of each on its
own (`poisson.discrete.clusters`) leaves what neighbouring ones have in common. The operator on them is G = Zᵀ V A Z,
with the indicators Z of all groups and single nodes: (G x)_i = e_i x_i + Σ_j g_ij (x_i − x_j), with an excess e_i and
links g_ij. A cycle by aggregation, with a sweep of Jacobi x += ω D⁻¹ (f − G x) before and after each coarse correction,
is about G⁻¹; D are the sums of the sizes of each row of G. On aggregates of nodes the excess is the sum of theirs, and
links are the sums of the links between them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

OMEGA = 4.0 / 3.0
"""The damping of a sweep; D⁻¹ G has no eigenvalue above 1."""

TWICE = 4
"""The last of the graphs that have two visits from the one before them, unless one is solved: aggregates alone correct
too little. Fewer take more iterations, and more save few."""

DENSE = 150
"""A graph of so many nodes is solved directly."""

STRONG = 0.11
"""Aggregates follow links g_ij above this part of √(m_i m_j), with the largest links m of both nodes: where a has three
values or more, groups and single nodes still have links of all strengths between them. Sums in the place of largest
links would leave out those of groups that have hundreds."""

STALLED = 0.7
"""If aggregation leaves more than this part of the nodes, the last sweep is all there is."""

ROUNDING = 1e-13
"""Eigenvalues of D^−½ G D^−½ below this are those of parts that nothing holds."""


class Graph(NamedTuple):
    """Nodes with links between them, each of which stands at both ends, and an excess of at least 0.

    Links are positive, or the matrix is to be positive semidefinite all the same. `starts` (int32 array, shape
    (nodes + 1,)): where the links of each node begin, and their end. `columns` (int32 array, ascending at each node),
    `links` (float64 array): the node at the other end of each, and g. `excess` (float64 array, shape (nodes,)): e.
    """

    starts: NDArray[np.int32]
    columns: NDArray[np.int32]
    links: NDArray[np.float64]
    excess: NDArray[np.float64]

    @staticmethod
    def of(rows: NDArray[Any], columns: NDArray[Any], values: NDArray[np.float64], excess: Any) -> Graph:
        """The graph with these links, of which those between the same two nodes add up, in the order in which they are.

        A node has no link to itself.
        """
        count, apart = excess.size, rows != columns
        places, each = np.unique(rows[apart].astype(np.int64) * count + columns[apart], return_inverse=True)
        starts = np.searchsorted(places, count * np.arange(count + 1)).astype(np.int32)
        links: Any = np.bincount(each, values[apart], places.size)
        return Graph(starts, (places % count).astype(np.int32), links, excess)

    @property
    def rows(self) -> NDArray[np.int64]:
        """The node that each link stands at."""
        return np.repeat(np.arange(self.excess.size), np.diff(self.starts))

    @property
    def held(self) -> NDArray[np.float64]:
        """The diagonal of G."""
        found: NDArray[np.float64] = np.bincount(self.rows, self.links, self.excess.size) + self.excess
        return found


class Aggregated(NamedTuple):
    """A graph on aggregates of the nodes of another.

    `groups`, `members` (int32 arrays): where the members of each aggregate begin, ascending, and their end.
    """

    groups: NDArray[np.int32]
    members: NDArray[np.int32]
    graph: Graph


def aggregates(graph: Graph) -> Aggregated:
    """The graph on aggregates of nodes: roots have no neighbour in common, and each node with links joins one near it.

    A node becomes a root if its number, in an order that has nothing to do with the grid, is the largest among those of
    nodes within two links that are still free. Only strong links count; a node that has others alone is a root.
    """
    count, rows = graph.excess.size, graph.rows
    largest = np.zeros(count)
    np.maximum.at(largest, rows, graph.links)
    strong = graph.links**2 > STRONG**2 * largest[rows] * largest[graph.columns]
    beside = np.where(strong, graph.columns, rows)
    mixed = np.arange(count, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    order = np.empty(count, dtype=np.int64)
    order[np.argsort(mixed, kind="stable")] = np.arange(1, count + 1)

    def largest_near(values: NDArray[Any]) -> NDArray[Any]:
        near = values.copy()
        np.maximum.at(near, rows, values[beside])
        return near

    linked = np.diff(graph.starts) > 0
    free, roots = linked.copy(), np.zeros(count, dtype=bool)
    while free.any():
        new = free & (largest_near(largest_near(np.where(free, order, 0))) == order)
        roots |= new
        free &= ~largest_near(largest_near(new))
    joined = largest_near(np.where(roots, np.cumsum(roots), 0))
    # The others have a neighbour that has joined; they follow the strongest link to one.
    left = np.flatnonzero((joined == 0) & linked)
    entries = np.flatnonzero((joined[rows] == 0) & (joined[beside] > 0))
    entries = entries[np.lexsort((abs(graph.links[entries]), rows[entries]))]
    last = np.diff(rows[entries], append=-1) != 0
    aggregate = joined - 1
    aggregate[left] = joined[beside[entries[last]]] - 1
    of_linked = aggregate[linked]
    groups = np.append(0, np.cumsum(np.bincount(of_linked))).astype(np.int32)
    members = np.flatnonzero(linked)[np.argsort(of_linked, kind="stable")].astype(np.int32)
    excess: Any = np.bincount(of_linked, graph.excess[linked])
    coarse = Graph.of(aggregate[rows], aggregate[graph.columns], graph.links, excess)
    return Aggregated(groups, members, coarse)


@dataclass(frozen=True, eq=False)
class GraphCycle:
    """The graphs of a cycle, from the finest on, whose nodes have numbers one graph after the other.

    `levels`: the first node of each graph, and the number of all nodes. `starts` (int32 array, shape (nodes + 1,)):
    where the links of each node begin, and their end. `columns` (int32 array), `links` (float32 array): the node at the
    other end of each, and g. `excess`, `sweeps` (float32 arrays, shape (nodes,)): e, and ω D⁻¹. `groups` (int32 array,
    shape (nodes behind the finest graph + 1,)): where the members of each aggregate begin among `members` (int32
    array), which are nodes of the graph before, and their end. `inverse` (float64 array, square): on the last graph;
    None where two sweeps stand for it.
    """

    levels: tuple[int, ...]
    starts: Any
    columns: Any
    links: Any
    excess: Any
    sweeps: Any
    groups: Any
    members: Any
    inverse: Any = None

    @property
    def nodes(self) -> int:
        return self.levels[-1]

    def visits(self, level: int) -> int:
        """How often a graph is visited for each visit of the one before it: once where it is solved."""
        solved = level == len(self.levels) - 2 and self.inverse is not None
        return 2 if 0 < level <= TWICE and not solved else 1

    @staticmethod
    def of(graph: Graph, aggregated: Callable[[Graph], Aggregated] = aggregates) -> GraphCycle:
        """The cycle for a graph, with the next graphs as `aggregates` makes them, or a backend."""
        tables: list[tuple[NDArray[Any], ...]] = []
        levels, inverse = [0], None
        while True:
            count, first, rows = graph.excess.size, levels[-1], graph.rows
            held = graph.held
            sizes = abs(held) + np.bincount(rows, abs(graph.links), count)
            sweeps = np.where(np.diff(graph.starts) > 0, OMEGA, 1.0) / np.where(sizes > 0.0, sizes, np.inf)
            levels.append(first + count)
            table = np.diff(graph.starts), graph.columns + first, graph.links, graph.excess, sweeps
            none = np.zeros(0, np.int32)
            if count <= DENSE:
                inverse = inverse_of(graph)
            elif 0 < (coarse := aggregated(graph)).graph.excess.size < STALLED * count:
                tables.append((*table, np.diff(coarse.groups), coarse.members + first))
                graph = coarse.graph
                continue
            tables.append((*table, none, none))
            break
        joined = [np.concatenate(each) for each in zip(*tables, strict=True)]
        starts, groups = (np.append(0, np.cumsum(joined[place])).astype(np.int32) for place in (0, 5))
        ends, within = (joined[place].astype(np.int32) for place in (1, 6))
        single = [joined[place].astype(np.float32) for place in (2, 3, 4)]
        return GraphCycle(tuple(levels), starts, ends, single[0], single[1], single[2], groups, within, inverse)


def inverse_of(graph: Graph) -> NDArray[np.float64]:
    """The pseudo-inverse, of the matrix scaled to a diagonal of 1."""
    count, held = graph.excess.size, graph.held
    links = np.bincount(graph.rows * count + graph.columns, graph.links, count**2).reshape(count, count)
    root = np.sqrt(np.where(held > 0.0, held, 1.0))
    values, vectors = np.linalg.eigh((np.diag(held) - links) / np.outer(root, root))
    kept = values > ROUNDING
    found: NDArray[np.float64] = (vectors[:, kept] / values[kept]) @ vectors[:, kept].T / np.outer(root, root)
    return found
