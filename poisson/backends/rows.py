# SPDX-License-Identifier: MIT
"""The operation of rows of a sparse matrix at a few nodes, as `Backend.bind` gives it for `SparseRows`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from poisson.discrete.sparse_rows import SparseRows

if TYPE_CHECKING:
    from poisson.backends.base import Backend

Array = Any


@dataclass(eq=False, repr=False)
class RowOperations(ABC):
    """Values at a few nodes.

    `backend`: where the arrays are. `rows`: the nodes, and what their values are.
    """

    backend: Backend
    rows: SparseRows

    @abstractmethod
    def replace_rows(self, x: Array, u: Array, out: Array) -> None:
        """out_i = own_i x_i + Σ_j weight_ij u_j + constant_i at the nodes i of the rows; the others keep their values.

        Each row is summed in float64, in the order of its entries. All is read before anything is written: `out` may be
        x or u.
        """
