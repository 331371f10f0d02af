# SPDX-License-Identifier: MIT
"""Rows of a sparse matrix at a few nodes of a lattice, which replace those of an operator there."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from poisson.mesh.lattice import Lattice, OnLattice

Indices = NDArray[np.int64]
Values = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class SparseRows(OnLattice):
    """Values at M nodes that follow from an array x there and from another array u: own x + Σ weight u + constant.

    `lattice`: the nodes, of a part with its halo. `nodes` (int64 array, shape (M,)): the numbers of the M nodes in C
    order, without padding, each once. `starts` (int64 array, shape (M + 1,)): where the entries of each row begin, and
    their end. `beside` (int64 array), `weights` (float64 array): of each entry the number of the node of u, which is
    that of the row or next to it, and the weight. `own`, `constant` (float64 arrays, shape (M,)).
    """

    lattice: Lattice
    nodes: Indices
    starts: Indices
    beside: Indices
    weights: Values
    own: Values
    constant: Values

    @staticmethod
    def of(
        lattice: Lattice, nodes: Indices, own: Values, constant: Values, entries: Iterable[tuple[Any, Any]]
    ) -> "SparseRows":
        """The rows with the entries that are not 0, each given as (numbers of nodes, weights) for all M rows."""
        beside, weights = (np.stack(each, axis=1) for each in zip(*entries, strict=True))
        kept = weights != 0.0
        starts = np.concatenate([[0], np.cumsum(kept.sum(axis=1))])
        return SparseRows(lattice, nodes, starts, beside[kept], weights[kept], own, constant)

    def places(self, nodes: Indices, pitch: int) -> Indices:
        """Where some nodes are in an array whose rows have so many values."""
        row, column = np.divmod(nodes, self.shape[0])
        return row * pitch + column
