# SPDX-License-Identifier: MIT
"""The operations between two grids, and those of first derivatives, as `Backend.bind` gives them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from poisson.backends.base import Backend
    from poisson.discrete.transfer import Interpolation, Transfer
    from poisson.mesh.differences import Differences

Array = Any


@dataclass(eq=False, repr=False)
class TransferOperations(ABC):
    """The operations between the two grids of a transfer."""

    backend: Backend
    transfer: Transfer

    @abstractmethod
    def restrict(self, fine: Array, coarse: Array) -> None:
        """coarse = R fine, zero at fixed nodes."""

    @abstractmethod
    def prolong_add(self, coarse: Array, fine: Array) -> None:
        """fine = fine + P coarse; fixed nodes keep their values."""

    @abstractmethod
    def coarsen_links(self, axis: int, fine: Array, coarse: Array) -> None:
        """coarse = the coefficients of the coarse links along `axis`, from those of the fine ones.

        A coarse link has the mean over the parts of the fine links that it covers, and the weighted mean of these along
        the other axes: with it a coarse grid is about as stiff as linear interpolation makes it (Pᵀ A P). The harmonic
        mean, which links in series have, lets corrections across a jump overshoot by the size of the jump.
        """


@dataclass(eq=False, repr=False)
class InterpolationOperations(ABC):
    """Cubic interpolation from one grid to another."""

    backend: Backend
    interpolation: Interpolation

    @abstractmethod
    def interpolate(self, source: Array, out: Array) -> None:
        """out = the cubic interpolant of `source`; fixed nodes keep their values unless `interpolation.everywhere`."""


@dataclass(eq=False, repr=False)
class DifferenceOperations(ABC):
    """First derivatives on the nodes of a grid, of some order."""

    backend: Backend
    differences: Differences

    @abstractmethod
    def derivative(self, axis: int, u: Array, out: Array) -> None:
        """out = ∂u/∂x along `axis` (0 is x) at every node."""

    @abstractmethod
    def gradient(self, u: Array, outs: Sequence[Array]) -> None:
        """outs = ∇u: one array for each of x, y(, z)."""
