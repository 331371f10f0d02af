# SPDX-License-Identifier: MIT
"""Ways of its own that a backend may have where its arrays are; without one NumPy, or its like there, serves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

if TYPE_CHECKING:
    from poisson.backends.base import Array
    from poisson.discrete.mask import Parts
    from poisson.discrete.operator import Operator
    from poisson.mesh.staggered import Staggered


class OwnWays:
    """The part of `poisson.backends.base.Backend` that says that there is no such way."""

    def brought(self, values: NDArray[Any]) -> Any:
        """The values of a NumPy array of any type as an array of `array_module`."""
        return values

    def staggered(self, cells: Staggered) -> Any:
        """Its own passes over a staggered grid in the memory of the caller, `takes`, `divergence` and
        `subtract_gradient`; None: those of `poisson.mac` serve."""
        return None

    def parts(self, operator: Operator, c: Array) -> Parts | None:
        """The parts that links of more than 0 join; None from a backend that has no way of its own to find them.

        `operator`: with links on a whole lattice without walls beside cells. `c` (float64 array): negative at the
        nodes of a mask, to which those of fixed faces are added, and those without a link where c is 0.
        """
        return None

    def star(self, operator: Operator, out: Array) -> bool:
        """Write the full stencil of an operator of links on a whole lattice; false, and nothing, where NumPy is to.

        `out`: its coefficients, on this device, in either type (`poisson.discrete.full_stencil.star`).
        """
        return False

    def rough(self, array_shape: tuple[int, ...]) -> Array | None:
        """A new array of `poisson.solvers.spectrum.rough_values`; None where NumPy's functions are to make it."""
        return None

    def cell(self, a: Any, harmonic: bool, spacing: tuple[float, ...]) -> Any:
        """The sources and energies of a periodic cell, by the methods of `poisson.run.effective.HostCell`; None where
        that serves.

        `a` (float64 array of `array_module`): at the nodes. `harmonic`: which mean of a a link has.
        """
        return None
