# SPDX-License-Identifier: MIT
"""The spectrum of the operator along each axis, for direct solution by fast transforms.

Where a and c are constant, A is a sum of second differences along the axes, and each of them is diagonal in sines,
cosines, quarter-wave sines or cosines, or complex exponentials, by the rules of its two faces: `Axis.transform` (G.
Strang, "The discrete cosine transform", SIAM Review 41, 1999; P. N. Swarztrauber, "The methods of cyclic reduction,
Fourier analysis and the FACR algorithm for the discrete solution of Poisson's equation on a rectangle", SIAM Review 19,
1977). The eigenvalues are those of the differences, so the result solves the same equations as any other method.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product

import numpy as np
from numpy.typing import NDArray

from poisson.discrete.operator import Operator
from poisson.mesh.boundary import Rule
from poisson.mesh.spectrum import Transform

RADICES = (8, 5, 4, 3, 2)
"""The factors of a length that all our transforms have."""
PASSES = {8: 1.5, 5: 1.3, 4: 1.0, 3: 0.8, 2: 0.6}
"""The cost of a factor for each value, beside that of 4; found by timing on a CPU."""


def require_constant(operator: Operator) -> None:
    """Refuse an operator that no transform makes diagonal.

    Raises `ValueError` if its coefficients vary, or it is that of a part of the nodes.
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

    `operator`: the operator on the array. `axis`: the axis; 0 is x.
    """

    operator: Operator
    axis: int

    @property
    def kind(self) -> Transform:
        """The number of the transform, as kernels/transforms/transform.hip and native/transforms/line_work.h know it.

        Raises `ValueError` if there is none for the axis.
        """
        kind = self.operator.lattice.axes[self.axis].transform
        if kind is None:
            raise ValueError("no fast transform makes a tabulated axis diagonal")
        return kind

    @property
    def reversed(self) -> bool:
        """Whether the first position is the last node: quarter waves have a mirror below and a fixed end above."""
        axis = self.operator.lattice.axes[self.axis]
        held = [rule is Rule.FIXED or wall > 0.0 for rule, wall in zip(axis.rules, axis.walls, strict=True)]
        return not axis.wraps and held == [True, False]

    @property
    def length(self) -> int:
        """Intervals: values of the complex transform."""
        return self.operator.lattice.axes[self.axis].intervals

    @property
    def gain(self) -> float:
        """The factor by which the way to the modes and back multiplies."""
        return self.length / (2.0 if self.kind in (Transform.SINE, Transform.COSINE, Transform.CELL_QUARTER) else 1.0)

    def turns(self) -> NDArray[np.complex128]:
        """The factors before and after the complex transform.

        Behind them those of a quarter wave of cells, at the positions of the cells (native/transforms/line_work.h).
        """
        quarter = self.kind not in (Transform.SINE, Transform.COSINE, Transform.FOURIER)
        turns = _unit_circle(np.arange(self.length) / ((4 if quarter else 2) * self.length))
        if self.kind is not Transform.CELL_QUARTER:
            return turns
        return np.append(turns, _unit_circle((self._evens_first() + 0.5) / (4 * self.length)))

    def _evens_first(self) -> NDArray[np.int64]:
        """The even numbers below the length, and then the odd ones backwards."""
        position = np.arange(self.length)
        return np.where(2 * position < self.length, 2 * position, 2 * (self.length - position) - 1)

    def roots(self) -> NDArray[np.complex128]:
        """The factors within the complex transform."""
        return roots_of_unity(self.length)

    def spectrum(self) -> NDArray[np.float64]:
        """The eigenvalues at the nodes where our own transforms leave the modes; zero at fixed nodes."""
        values = self.operator.couplings[self.axis] * self.operator.lattice.axes[self.axis].eigenvalues
        if self.kind is Transform.QUARTER:
            values = values[self._evens_first()]
        spectrum = np.zeros(self.operator.shape[self.axis])
        backwards = self.kind is Transform.CELL_SINE or (self.kind is Transform.QUARTER and self.reversed)
        spectrum[free(self.operator, self.axis)] = values[::-1] if backwards else values
        return spectrum


def factors_of(length: int, radices: Sequence[int] = RADICES) -> tuple[tuple[int, ...], int]:
    """The radices whose product a length is, and what is left of it: 1 if it is their product.

    Of powers of two only 2 itself has a factor of two.
    """
    found, left = [], length
    for radix in radices:
        while left % radix == 0 and not (radix == 8 and left % 32 == 16):
            found.append(radix)
            left //= radix
    return tuple(found), left


def largest_prime_factor(length: int) -> int:
    """The largest prime factor of a length; 1 of 1."""
    largest, left, factor = 1, length, 2
    while factor * factor <= left:
        if left % factor:
            factor += 1
        else:
            left //= factor
            largest = factor
    return max(largest, left)


def digits_reversed(factors: Sequence[int]) -> NDArray[np.int32]:
    """Where each frequency lies after a transform in place, factor by factor."""
    order, left = np.zeros(1, dtype=np.int64), math.prod(factors)
    for radix in factors:
        left //= radix
        order = np.concatenate([order + digit * left for digit in range(radix)])
    return order.astype(np.int32)


def roots_of_unity(length: int) -> NDArray[np.complex128]:
    """exp(−2πi n / length) for n = 0, 1, …, length − 1."""
    return _unit_circle(np.arange(length) / length)


@dataclass(frozen=True)
class Convolution:
    """A complex transform of any length as a convolution with a chirp, in a longer transform.

    `length`: values of the transform, 5 or more.

    Reference: L. I. Bluestein, "A linear filtering approach to the computation of discrete Fourier transform", IEEE
    Transactions on Audio and Electroacoustics 18, 1970.
    """

    length: int

    @cached_property
    def padded(self) -> int:
        """Values of the longer transform: of the products of `RADICES` that are long enough the cheapest one."""
        least = 2 * self.length - 1
        powers: list[list[int]] = [[base**n for n in range(int(math.log(2 * least, base)) + 1)] for base in (2, 3, 5)]
        lengths = (math.prod(each) for each in product(*powers))
        enough = (length for length in lengths if least <= length < 2 * least)
        return min(enough, key=lambda length: length * sum(PASSES[radix] for radix in factors_of(length)[0]))

    @property
    def factors(self) -> tuple[int, ...]:
        """The length of the longer transform as a product of `RADICES`, two of them at least."""
        return factors_of(self.padded)[0]

    def chirp(self) -> NDArray[np.complex128]:
        """exp(−πi n² / length) for n = 0, 1, …, length − 1."""
        return _unit_circle(np.arange(self.length, dtype=np.int64) ** 2 % (2 * self.length) / (2 * self.length))

    def spectrum(self) -> NDArray[np.complex128]:
        """The transform of the opposite chirp on both sides of zero, divided by the length of the longer transform."""
        values = np.zeros(self.padded, dtype=np.complex128)
        values[: self.length] = self.chirp().conj()
        values[self.padded - self.length + 1 :] = values[self.length - 1 : 0 : -1]
        return np.fft.fft(values) / self.padded


def _unit_circle(turn: NDArray[np.float64]) -> NDArray[np.complex128]:
    """exp(−2πi turn), exact where it is real or imaginary; 0 <= turn < 1."""
    # Within an eighth of a turn the functions lose nothing to the reduction of their argument.
    quadrant = np.rint(4.0 * turn)
    angle = 2.0 * math.pi * (turn - quadrant / 4.0)
    whole = np.array([1, -1j, -1, 1j, 1])[quadrant.astype(int)]
    circle: NDArray[np.complex128] = (np.cos(angle) - 1j * np.sin(angle)) * whole
    return circle
