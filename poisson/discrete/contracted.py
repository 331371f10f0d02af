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

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from scipy.sparse import csr_array

OMEGA = 4.0 / 3.0
"""The damping of a sweep; D⁻¹ G has no eigenvalue above 1."""

DENSE = 48
"""A graph of so many nodes is solved directly."""

STALLED = 0.7
"""If aggregation leaves more than this part of the nodes, the last sweep is all there is."""

ROUNDING = 1e-13
"""Eigenvalues of D^−½ G D^−½ below this are those of parts that nothing holds."""


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

    @staticmethod
    def of(graph: csr_array, excess: NDArray[np.float64]) -> GraphCycle:
        """The cycle for a graph with an excess of at least 0.

        `graph`: the links, symmetric, with an entry for each node itself whose value does not count. They are
        positive, or the matrix is to be positive semidefinite all the same.
        """
        tables: list[tuple[NDArray[Any], ...]] = []
        levels, inverse = [0], None
        while True:
            count, first = excess.size, levels[-1]
            rows = np.repeat(np.arange(count), np.diff(graph.indptr))
            apart = rows != graph.indices
            rows, columns, links = rows[apart], graph.indices[apart], graph.data[apart]
            held = np.bincount(rows, links, count) + excess
            sizes = abs(held) + np.bincount(rows, abs(links), count)
            sweeps = OMEGA / np.where(sizes > 0.0, sizes, np.inf)
            lengths = np.bincount(rows, minlength=count)
            levels.append(first + count)
            if count <= DENSE:
                inverse = _inverse(
                    np.diag(held) - np.bincount(rows * count + columns, links, count**2).reshape(count, count)
                )
            elif (aggregate := _aggregates(graph)).max() < STALLED * count:
                members = np.argsort(aggregate, kind="stable") + first
                tables.append((lengths, columns + first, links, excess, sweeps, np.bincount(aggregate), members))
                excess = np.bincount(aggregate, excess).astype(np.float64)
                graph = with_diagonal(aggregate[rows], aggregate[columns], links, excess.size)
                continue
            none = np.zeros(0, np.int32)
            tables.append((lengths, columns + first, links, excess, sweeps, none, none))
            break
        joined = [np.concatenate(each) for each in zip(*tables, strict=True)]
        starts, groups = (np.append(0, np.cumsum(joined[place])).astype(np.int32) for place in (0, 5))
        ends, within = (joined[place].astype(np.int32) for place in (1, 6))
        single = [joined[place].astype(np.float32) for place in (2, 3, 4)]
        return GraphCycle(tuple(levels), starts, ends, single[0], single[1], single[2], groups, within, inverse)


def with_diagonal(rows: Any, columns: Any, values: Any, count: int) -> csr_array:
    """The matrix of these entries, whose values add up, and one of 0 for each node."""
    from scipy import sparse

    every = np.arange(count)
    places = np.concatenate([rows, every]), np.concatenate([columns, every])
    return sparse.csr_array((np.concatenate([values, np.zeros(count)]), places), shape=(count, count))


def _inverse(graph: NDArray[np.float64]) -> NDArray[np.float64]:
    """The pseudo-inverse, of the graph scaled to a diagonal of 1."""
    root = np.sqrt(graph.diagonal())
    root = np.where(root > 0.0, root, 1.0)
    values, vectors = np.linalg.eigh(graph / np.outer(root, root))
    kept = values > ROUNDING
    found: NDArray[np.float64] = (vectors[:, kept] / values[kept]) @ vectors[:, kept].T / np.outer(root, root)
    return found


def _aggregates(graph: csr_array) -> NDArray[np.int64]:
    """The number of the aggregate of each node: roots have no neighbour in common, and every node joins one near it.

    A node becomes a root if its number, in an order that has nothing to do with the grid, is the largest among those of
    nodes within two links that are still free.
    """
    count, starts, beside = graph.shape[0], graph.indptr[:-1], graph.indices
    mixed = np.arange(count, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    order = np.empty(count, dtype=np.int64)
    order[np.argsort(mixed, kind="stable")] = np.arange(1, count + 1)

    def largest_near(values: NDArray[Any]) -> NDArray[Any]:
        near: NDArray[Any] = np.maximum.reduceat(values[beside], starts)
        return near

    free, roots = np.ones(count, dtype=bool), np.zeros(count, dtype=bool)
    while free.any():
        new = free & (largest_near(largest_near(np.where(free, order, 0))) == order)
        roots |= new
        free &= ~largest_near(largest_near(new))
    number = np.where(roots, np.cumsum(roots), 0)
    joined = largest_near(number)
    # The others have a neighbour that has joined; they follow the strongest link to one.
    left = np.flatnonzero(joined == 0)
    rows = np.repeat(np.arange(count), np.diff(graph.indptr))
    entries = np.flatnonzero((joined[rows] == 0) & (joined[beside] > 0))
    entries = entries[np.lexsort((abs(graph.data[entries]), rows[entries]))]
    last = np.diff(rows[entries], append=-1) != 0
    result = joined.copy()
    result[left] = joined[beside[entries[last]]]
    return result - 1
