# SPDX-License-Identifier: MIT
"""The spectrum of the operator along each axis, for direct solution by fast transforms.

Where a and c are constant, A is a sum of second differences along the axes, and each of them is diagonal in sines,
cosines, quarter-wave sines or cosines, or complex exponentials, by the rules of its two faces: `Axis.transform` (G.
Strang, "The discrete cosine transform", SIAM Review 41, 1999; P. N. Swarztrauber, "The methods of cyclic reduction,
Fourier analysis and the FACR algorithm for the discrete solution of Poisson's equation on a rectangle", SIAM Review 19,
1977). The eigenvalues are those of the differences, so the result solves the same equations as any other method.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from poisson.discrete.operator import Operator
from poisson.mesh.axis import Transform
from poisson.mesh.boundary import Rule

RADICES = (8, 5, 4, 3, 2)
"""The factors of a length that our own transforms have."""


def require_constant(operator: Operator) -> None:
    """Refuse an operator that no transform makes diagonal.

    Raises
    ------
    ValueError
        If its coefficients vary, or it is that of a part of the nodes.
    """
    if operator.varies:
        raise ValueError("fast transforms need constant coefficients")
    if operator.lattice.divided:
        raise ValueError("fast transforms need the whole of every axis, and this is a part of one")


def free(operator: Operator, axis: int) -> slice:
    """The nodes along an axis that its faces do not fix."""
    return operator.lattice.axes[axis].free


@dataclass(frozen=True)
class Line:
    """The lines of an array along one axis, as our own transforms see them.

    Parameters
    ----------
    operator : Operator
        The operator on the array.
    axis : int
        The axis; 0 is x.
    """

    operator: Operator
    axis: int

    @property
    def kind(self) -> Transform:
        """The number of the transform, as kernels/transforms/transform.hip and native/transforms/line_work.h know it.

        Raises
        ------
        ValueError
            If there is none for the axis.
        """
        kind = self.operator.lattice.axes[self.axis].transform
        if kind is None:
            raise ValueError("no fast transform makes a tabulated axis diagonal")
        return kind

    @property
    def reversed(self) -> bool:
        """Whether the first position is the last node: quarter waves have a mirror below and a fixed node above."""
        return self.operator.lattice.axes[self.axis].rules == (Rule.FIXED, Rule.MIRROR)

    @property
    def length(self) -> int:
        """Intervals: values of the complex transform."""
        return self.operator.lattice.axes[self.axis].intervals

    @cached_property
    def factors(self) -> tuple[int, ...]:
        """The length as a product of `RADICES`; empty if it is none. Of powers of two only 2 has a factor of two."""
        found, left = [], self.length
        for radix in RADICES:
            while left % radix == 0 and not (radix == 8 and left % 32 == 16):
                found.append(radix)
                left //= radix
        return tuple(found) if left == 1 else ()

    @property
    def gain(self) -> float:
        """The factor by which the way to the modes and back multiplies."""
        return self.length / (2.0 if self.kind in (Transform.SINE, Transform.COSINE) else 1.0)

    def turns(self) -> NDArray[np.complex128]:
        """The factors before and after the complex transform."""
        return _unit_circle(np.arange(self.length) / ((4 if self.kind is Transform.QUARTER else 2) * self.length))

    def roots(self) -> NDArray[np.complex128]:
        """The factors within the complex transform."""
        return _unit_circle(np.arange(self.length) / self.length)

    def spectrum(self) -> NDArray[np.float64]:
        """The eigenvalues at the nodes where our own transforms leave the modes; zero at fixed nodes."""
        values = self.operator.couplings[self.axis] * self.operator.lattice.axes[self.axis].eigenvalues
        if self.kind is Transform.QUARTER:
            position = np.arange(self.length)
            values = values[np.where(2 * position < self.length, 2 * position, 2 * (self.length - position) - 1)]
        spectrum = np.zeros(self.operator.shape[self.axis])
        spectrum[free(self.operator, self.axis)] = values[::-1] if self.reversed else values
        return spectrum


def _unit_circle(turn: NDArray[np.float64]) -> NDArray[np.complex128]:
    """exp(−2πi turn), exact where it is real or imaginary; 0 <= turn < 1."""
    # Within an eighth of a turn the functions lose nothing to the reduction of their argument.
    quadrant = np.rint(4.0 * turn)
    angle = 2.0 * math.pi * (turn - quadrant / 4.0)
    whole = np.array([1, -1j, -1, 1j, 1])[quadrant.astype(int)]
    circle: NDArray[np.complex128] = (np.cos(angle) - 1j * np.sin(angle)) * whole
    return circle
