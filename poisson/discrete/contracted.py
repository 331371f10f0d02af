# SPDX-License-Identifier: MIT
"""The graph of strong clusters and single nodes, and an approximate solution on it in a few sparse products.

Where one phase nearly percolates, clusters reach over many nodes of the coarse grids, and a correction of each on its
own (`poisson.discrete.clusters`) leaves what neighbouring ones have in common. The operator on them is G = Zᵀ V A Z,
with the indicators Z of all groups and single nodes. A cycle of multigrid by aggregation, with a sweep of Jacobi before
and after each coarse correction, is about G⁻¹. Its sweeps and transfers are multiplied out, so that a level takes two
products: with D the sums of the sizes of each row of G, J = I − ω D⁻¹ G, and T the indicators of the aggregates,

    f' = (J T)ᵀ f,    x = (2 ω D⁻¹ − ω² D⁻¹ G D⁻¹) f + J T x',    G' = Tᵀ G T.
"""

from __future__ import annotations

from collections.abc import Sequence
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
    """The cycle as rows of a sparse matrix, stage by stage, on a vector that grows.

    The vector begins with the sums of the groups. Each row adds a value, the sum of weight times value over its
    entries, all of which come before its stage; the last rows are the corrections of the groups.

    `starts` (int32 array, shape (rows + 1,)): where the entries of each row begin, and their end. `columns` (int32
    array), `weights` (float32 array): the number in the vector and the weight of each entry. `stages`: the first row of
    each stage, and the number of rows.
    """

    starts: Any
    columns: Any
    weights: Any
    stages: tuple[int, ...]

    @property
    def rows(self) -> int:
        return self.stages[-1]

    @staticmethod
    def of(graph: csr_array) -> GraphCycle:
        """The cycle for a symmetric positive semidefinite matrix."""
        from scipy import sparse

        down: list[Any] = []
        up: list[tuple[Any, Any]] = []
        while True:
            count = graph.shape[0]
            if count <= DENSE:
                up.append((sparse.csr_array(_inverse(graph.toarray())), None))
                break
            relaxed = sparse.diags_array(OMEGA / abs(graph).sum(axis=1))
            aggregate = _aggregates(graph)
            tie = sparse.csr_array((np.ones(count), (np.arange(count), aggregate)))
            sweep = sparse.csr_array(2.0 * relaxed - relaxed @ graph @ relaxed)
            if tie.shape[1] > STALLED * count:
                up.append((sweep, None))
                break
            across = sparse.csr_array(tie - relaxed @ (graph @ tie))
            down.append(sparse.csr_array(across.T))
            up.append((sweep, across))
            graph = sparse.csr_array(tie.T @ graph @ tie)
        return _stages(down, up)


def _stages(down: Sequence[Any], up: Sequence[tuple[Any, Any]]) -> GraphCycle:
    """Restrictions from the finest level on, then from the coarsest one on what is added to each iterate."""
    counts = [own.shape[0] for own, _ in up]
    sources = np.concatenate([[0], np.cumsum(counts)])
    blocks: list[tuple[Any, Any, Any, Any]] = [(matrix, sources[level], None, 0) for level, matrix in enumerate(down)]
    place = sources[-1]
    for level in reversed(range(len(up))):
        own, across = up[level]
        blocks.append((own, sources[level], across, place - across.shape[1] if across is not None else 0))
        place += own.shape[0]
    lengths, columns, weights, stages = [], [], [], [0]
    for own, at, across, coarse in blocks:
        parts = [(own, at)] if across is None else [(own, at), (across, coarse)]
        numbers = [np.repeat(np.arange(part.shape[0]), np.diff(part.indptr)) for part, _ in parts]
        order = np.argsort(np.concatenate(numbers), kind="stable")
        lengths.append(sum(np.diff(part.indptr) for part, _ in parts))
        columns.append(np.concatenate([part.indices + first for part, first in parts])[order])
        weights.append(np.concatenate([part.data for part, _ in parts])[order])
        stages.append(stages[-1] + own.shape[0])
    starts = np.concatenate([[0], np.cumsum(np.concatenate(lengths))])
    tables = starts.astype(np.int32), np.concatenate(columns).astype(np.int32), np.concatenate(weights)
    return GraphCycle(*tables[:2], tables[2].astype(np.float32), tuple(stages))


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
