# SPDX-License-Identifier: MIT
"""First derivatives on a grid, by differences of order 2, 4, 6 or 8.

At a node with enough nodes on both sides the derivative is the central difference of order p = 2 k over 2 k + 1 nodes,

    ∂u/∂x = Σ_{m=1..k} c_m (u_{i+m} − u_{i−m}) / h.

On a periodic axis every node is such a node. On another axis the k nodes next to each face take the difference over the
p + 1 nodes from the face inwards instead, which is of order p too,

    ∂u/∂x = Σ_{j=0..p} w_ij (u_j − u_i) / h.

Along a tabulated axis every node has weights of its own for the p + 1 nodes around it, or from the face inwards. All
are exact for polynomials up to degree p. The weights are the derivatives of the Lagrange polynomials, computed in
rational arithmetic.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from poisson.errors import GridError
from poisson.mesh.axis import plain_rules
from poisson.mesh.boundary import Rule
from poisson.mesh.grid import AXES
from poisson.mesh.lattice import Lattice, OnLattice

if TYPE_CHECKING:
    from fractions import Fraction

ORDERS = (2, 4, 6, 8)
"""The orders of accuracy that there are."""


@dataclass(frozen=True)
class Differences(OnLattice):
    """First derivatives on the nodes of a grid.

    `lattice`: the nodes, at least ``order + 1`` along each axis; the second axis of a 1D grid has one. Of the ends of
    an axis it counts only whether they wrap. `order`: order of accuracy: 2, 4, 6 or 8. Raises `ValueError` if the order
    is none of these; `GridError` if an axis has too few nodes for the order; or a part of one has too few, in its halo
    or in all where it begins or ends at a face.
    """

    lattice: Lattice
    order: int = 2

    def __post_init__(self) -> None:
        if self.order not in ORDERS:
            raise ValueError(f"the order {self.order} is none of {ORDERS}")
        for name, axis in zip(AXES, self.lattice.axes, strict=False):
            whole = axis.undivided
            if whole.nodes <= self.order and not (whole.nodes == 1 and whole.wraps):
                raise GridError(
                    f"{name}: {whole.nodes} nodes; a difference of order {self.order} needs at least {self.order + 1}: "
                    "take a lower order or more nodes"
                )
            if any(rule is Rule.HALO and count < self.half for rule, count in zip(axis.rules, axis.halo, strict=True)):
                raise GridError(f"{name}: a difference of order {self.order} needs a halo of {self.half} nodes")
            if axis.whole is not None and axis.nodes <= self.order:
                raise GridError(
                    f"{name}: a part of {axis.nodes} nodes; a difference of order {self.order} needs at least "
                    f"{self.order + 1}, with the halo"
                )

    @staticmethod
    def uniform(
        shape: tuple[int, ...], spacing: tuple[float, ...], periodic: tuple[bool, ...], order: int = 2
    ) -> Differences:
        """The differences of an order on equally spaced nodes: `Lattice.uniform`."""
        return Differences(Lattice.uniform(shape, spacing, plain_rules(*periodic)), order)

    @property
    def periodic(self) -> tuple[bool, ...]:
        """Whether each axis is periodic."""
        return tuple(axis.wraps for axis in self.lattice.axes)

    @property
    def tabulated(self) -> tuple[bool, ...]:
        """Whether each axis has weights of its own at every node."""
        return tuple(axis.tabulated for axis in self.lattice.axes)

    def first(self, axis: int) -> NDArray[np.int64]:
        """The first of the p + 1 nodes behind one another that each node along an axis takes; a periodic one wraps."""
        line = self.lattice.axes[axis]
        first = np.arange(line.nodes) - self.half
        return first if line.wraps else np.clip(first, 0, line.nodes - self.order - 1)

    def weights(self, axis: int) -> NDArray[np.float64]:
        """The weights of the nodes from `first` on in the derivative at each node, in 1/L, of shape ``(p + 1, n)``.

        They are those of Lagrange's polynomials in the coordinates. In a halo they have no meaning.
        """
        line = self.lattice.axes[axis]
        whole, taken = line.undivided, self.order + 1
        first = np.arange(whole.nodes) - self.half
        first = first if whole.wraps else np.clip(first, 0, whole.nodes - taken)
        index = first[:, np.newaxis] + np.arange(taken)
        at = whole.coordinates[index % whole.nodes] + index // whole.nodes * (whole.interval[1] - whole.interval[0])
        x, weight = whole.coordinates[:, np.newaxis], np.zeros(index.shape)
        for node in range(taken):
            others = [other for other in range(taken) if other != node]
            for left_out in others:
                factors = [(x[:, 0] - at[:, m]) for m in others if m != left_out]
                weight[:, node] += np.prod(factors, axis=0) if factors else 1.0
            weight[:, node] /= np.prod([at[:, node] - at[:, m] for m in others], axis=0)
        return np.ascontiguousarray(weight[line.index].T)

    @property
    def half(self) -> int:
        """Nodes of the central difference on each side, k."""
        return self.order // 2

    @property
    def central(self) -> NDArray[np.float64]:
        """The weights c_1 … c_k of the central difference, dimensionless, shape ``(k,)``."""
        around = range(-self.half, self.half + 1)
        return np.array([float(weight) for weight in derivative_weights(around)[self.half + 1 :]])

    @property
    def closure(self) -> NDArray[np.float64]:
        """The weights w_ij of node j in the derivative at node i, dimensionless, shape ``(k, p + 1)``.

        At the upper face nodes count from that face inwards, and the derivative changes its sign.
        """
        return np.array(
            [[float(weight) for weight in derivative_weights(range(-i, self.order + 1 - i))] for i in range(self.half)]
        )


@cache
def derivative_weights(offsets: range) -> tuple[Fraction, ...]:
    """The weights with which values at `offsets` give the first derivative at 0, for unit spacing.

    `offsets`: of integers, 0 among them. Returns: the weights, exact for polynomials of a degree below the number of
    offsets.
    """
    from fractions import Fraction  # on use, as it takes two milliseconds

    others = [offset for offset in offsets if offset]
    weights = {
        j: Fraction(math.prod(-k for k in others if k != j), j * math.prod(j - k for k in others if k != j))
        for j in others
    }
    return tuple(weights.get(j, -sum(weights.values(), Fraction(0))) for j in offsets)
