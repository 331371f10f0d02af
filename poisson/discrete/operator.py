# SPDX-License-Identifier: MIT
"""The discrete operator: all that a kernel needs to know of a problem.

It is the second-order central difference on the nodes of a lattice,

    (A u)_i = Σ_axes (a_{i−½} (u_i − u_{i−1}) + a_{i+½} (u_i − u_{i+1})) / h² + c_i u_i,

with neighbours across a face by the face's rule. a belongs to the links between nodes; across a mirror face the link is
that to the inner neighbour. Along a tabulated axis the two terms have the factors lower_i and upper_i, and there is a
third one, extra_i u_i times the mean of a on both links (`poisson.mesh.axis`). In the inner product of the control
volumes, which are the trapezoidal weights on uniform axes, A is symmetric.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from poisson.mesh.boundary import Rule
from poisson.mesh.lattice import Lattice, OnLattice

if TYPE_CHECKING:
    from poisson.discrete.beside import Rows

Values = NDArray[np.float64]

FIXED = -1.0
"""c at a node of the mask; every negative value says the same."""


@dataclass(frozen=True, eq=False)
class Coefficients:
    """Coefficients that vary from node to node, as arrays of one backend. Compared and hashed by identity.

    `links` (tuple of arrays, optional): one for each axis, of the grid's array shape: at node i the coefficient of the
    link between the nodes i and i + 1 along that axis. The last entry along the axis is the link back to the first node
    where the axis wraps, and repeats the entry before it elsewhere. Without it a is constant.
    `c` (array, optional): the reaction coefficient at the nodes, with the Robin terms, in 1/L². Without it c is
    constant. It carries the mask: a negative value says that u is fixed at the node, as it is on a Dirichlet face, and
    is never a coefficient. So kernels need no further array, and only those that are bound to coefficients with `fixed`
    nodes look at the sign. At such a node residuals are 0, smoothers and corrections leave u, restriction and division
    by the diagonal write 0; its value counts for its neighbours. `norm` and `dot` see the zeros that are there.
    `a_range`, `c_range`: the least and the largest value of each.
    `alpha`: for each face the least α of a Robin condition, whose terms are in c, in 1/L; 0 for another. Without it all
    are.
    `fixed`: nodes of the mask, those on fixed faces not counted. Without any there is no negative value.
    `holds`: whether fixed nodes or c determine every free node; without it the faces and the range of c say so. Links
    may be zero where there is a mask: `poisson.discrete.mask` finds both numbers. A node without an equation, whose
    diagonal would be zero, belongs to the mask: f says nothing there, and u keeps the initial guess.
    `cut`: whether surfaces cut links, or close the faces of control volumes in part.
    `beside`: the rows beside surfaces with given values.
    `walls`: whether c has what Dirichlet faces half a cell before the nodes conduct, with a and the open part of a face
    at each node. Without it, or without an array c, the link beside counts.
    """

    links: tuple[Any, ...] | None
    c: Any | None
    a_range: tuple[float, float]
    c_range: tuple[float, float]
    alpha: tuple[float, ...] = ()
    fixed: int = 0
    holds: bool | None = None
    cut: bool = False
    beside: Rows | None = None
    walls: bool = False


@dataclass(frozen=True)
class Operator(OnLattice):
    """A u = −∇·(a∇u) + c u on nodes: all that a kernel needs to know.

    Where the lattice is a part of another one, the operator's norm, its spectrum and whether it is singular are those
    of the whole.

    `lattice`: the nodes, how they are linked, and how the operator goes on at the faces. `c`: reaction coefficient, in
    1/L²; 0 where `coefficients` has it. `a`: the coefficient a; 1 where `coefficients` has it. `coefficients`: what
    varies from node to node.
    """

    lattice: Lattice
    c: float = 0.0
    a: float = 1.0
    coefficients: Coefficients | None = None

    @staticmethod
    def uniform(
        shape: tuple[int, ...],
        spacing: tuple[float, ...],
        c: float,
        rules: tuple[Rule, ...],
        a: float = 1.0,
        coefficients: Coefficients | None = None,
    ) -> Operator:
        """The operator on equally spaced nodes: `Lattice.uniform`."""
        return Operator(Lattice.uniform(shape, spacing, rules), c, a, coefficients)

    @property
    def rules(self) -> tuple[Rule, ...]:
        """One for each face, in the order of `boundary.FACE_NAMES`."""
        return self.lattice.rules

    @property
    def varies(self) -> bool:
        """Whether a or c varies from node to node."""
        return self.coefficients is not None

    @property
    def links(self) -> tuple[Any, ...] | None:
        """`Coefficients.links`, if a varies."""
        return self.coefficients.links if self.coefficients else None

    @property
    def reaction(self) -> Any | None:
        """`Coefficients.c`, if c varies."""
        return self.coefficients.c if self.coefficients else None

    @cached_property
    def fixed(self) -> int:
        """Nodes of the mask (`Coefficients.fixed`)."""
        return self.coefficients.fixed if self.coefficients else 0

    @property
    def mask(self) -> Any | None:
        """The nodes of the mask, as an array of booleans where the coefficients are; None without it."""
        return self.reaction < 0 if self.fixed and self.reaction is not None else None

    @cached_property
    def couplings(self) -> tuple[float, ...]:
        """a/h² for each axis, in 1/L²; 1/h² where a varies."""
        return tuple(self.a / (h * h) for h in self.spacing)

    def along(self, axis: int) -> tuple[Values, Values, Values]:
        """`Axis.couplings`, without what c has."""
        lower, upper, extra = self.lattice.axes[axis].couplings
        carried = self.coefficients is not None and self.coefficients.walls and self.reaction is not None
        return lower, upper, np.zeros_like(extra) if carried else extra

    @property
    def separable(self) -> Operator | None:
        """The same without arrays, where a and c are constant; its links along an angle lack the factor 1/r².

        None where a or c varies. It is for direct solution.
        """
        found = self.coefficients
        if found is None:
            return self
        if self.lattice.angle is None or found.c is not None or found.fixed or found.a_range[0] != found.a_range[1]:
            return None
        return replace(self, a=found.a_range[0], coefficients=None)

    @property
    def has_one_diagonal(self) -> bool:
        """Whether the diagonal of A is the same at every node that is not fixed."""
        return not self.varies and not self.lattice.tabulated

    @property
    def diagonal(self) -> float:
        """The diagonal of A, the same at every node that is not fixed, in 1/L².

        Raises `ValueError` if it is not: the coefficients vary, or the couplings along an axis do.
        """
        if not self.has_one_diagonal:
            raise ValueError("the diagonal varies from node to node")
        return math.fsum(2.0 * coupling for coupling in self.couplings) + self.c

    @property
    def largest_diagonal(self) -> float:
        """The largest entry of the diagonal of A, in 1/L²; a bound on it where the coefficients vary."""
        a, c = (self.coefficients.a_range[1], self.coefficients.c_range[1]) if self.coefficients else (self.a, self.c)
        axes = zip(self.lattice.whole.axes, self.couplings, self.lattice.conductances, strict=True)
        scale = a if self.links is not None else 1.0
        return math.fsum(scale * ends[1] * float(np.max(axis.diagonal)) * each for axis, each, ends in axes) + c

    @property
    def norm(self) -> float:
        """The maximum norm of A, in 1/L²; a bound on it where the coefficients vary."""
        a, c = self.a, self.c
        if self.coefficients:
            a, c = self.coefficients.a_range[1], self.coefficients.c_range[1]
        axes = zip(self.lattice.axes, self.lattice.conductances, strict=True)
        return math.fsum(most * axis.norm * a / (axis.spacing * axis.spacing) for axis, (_, most) in axes) + c

    @cached_property
    def unknowns(self) -> int:
        """Nodes that are not fixed."""
        return self.lattice.unknowns - self.fixed

    @cached_property
    def singular(self) -> bool:
        """Whether constants on the free nodes are in the null space of A."""
        if self.coefficients and self.coefficients.holds is not None:
            return not self.coefficients.holds
        largest = self.coefficients.c_range[1] if self.coefficients else self.c
        return largest == 0.0 and not self.lattice.holds

    def eigenvalues(self) -> tuple[float, float]:
        """The smallest non-zero and the largest eigenvalue of A on the unknowns, in 1/L².

        The eigenvectors are products of those along the axes, so both are sums of eigenvalues along these.

        Where the coefficients vary these are bounds, one from below and one from above: in the inner product in which A
        is symmetric it lies between the operators with the least and with the largest a and c, so its eigenvalues do
        (Courant and Fischer). The lower bound is 0 where no node is fixed and c, which is not 0 everywhere, is 0
        somewhere.
        """
        return self._eigenvalues

    @cached_property
    def _eigenvalues(self) -> tuple[float, float]:
        # The second lowest is asked for only where the lowest of every axis is zero.
        lowest, second, highest = 0.0, math.inf, 0.0
        for axis, coupling, ends in zip(self.lattice.axes, self.couplings, self.lattice.conductances, strict=True):
            if coupling == 0.0:
                continue  # the second axis of a 1D problem
            low, next_low, high = (coupling * value for value in axis.extremes)
            lowest += ends[0] * low
            second = min(second, ends[0] * next_low)
            highest += ends[1] * high
        if self.coefficients is None:
            lowest += self.c
            return lowest if lowest > 0.0 else second, highest + self.c
        least, largest = self.coefficients.a_range if self.links else (1.0, 1.0)
        c_least, c_largest = self.coefficients.c_range
        bound = second * least if self.singular else lowest * least + c_least
        return bound, highest * largest + c_largest
