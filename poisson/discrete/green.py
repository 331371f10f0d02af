# SPDX-License-Identifier: MIT
"""The lattice Green's function of the operator with constant coefficients, on axes that go on without end.

Along an open axis the second difference −a δ²/h² has the heat kernel e^(−z) I_n(z) with z = 2 a t / h², and along an
axis with modes e^(−λt). So the inverse of their sum at the distances n, m, l is the integral of the product over t from
0 to ∞, with e^(−ct) (E. N. Economou, "Green's functions in quantum physics", Springer, 2006, chapter 5). It is the
limit of the inverse on ever larger boxes with the same spacings.

The integral is a sum over equal steps in s, t = exp(s − e^(−s)), whose error falls like exp(−π²/step) (H. Takahasi and
M. Mori, "Double exponential formulas for numerical integration", Publ. RIMS 9, 1974). Each term is a product of one
factor for each axis.

Where nothing makes it decay, c + λ = 0, a constant is to be chosen. In the plane the function tends to −ln(r) / 2πa
with r in L, and on a line it is −|x| / 2a, times the areas of the cells.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from poisson.discrete.operator import Operator

Values = NDArray[np.float64]

STEP = 0.25
"""The step of the quadrature in s."""
FIRST = -3.6
"""The s where it begins: t is 1e-18 there."""
TERMS = 14
"""Terms of the asymptotic series of a heat kernel."""
WIDE = 4.0
"""The series is taken from z = WIDE n² on."""
LATE = {2: 1e18, 3: 1e11}
"""Later than so many times the square of the distance only the tail is left of three axes, and nothing of two."""
RADIUS = 8.0
"""The distance in spacings at which the logarithm is subtracted, over long and short times alike."""


def heat_kernels(most: int, z: Values) -> Values:
    """e^(−z) I_n(z) for n = 0, 1, …, `most`, shape ``(z, most + 1)``; z ascends."""
    found = np.empty((z.size, most + 1))
    limit = max(60.0, WIDE * most * most)
    early = int(np.searchsorted(z, limit))
    if early:
        least = 2 * (most + 8 + math.ceil(math.sqrt(80.0 * limit)))
        points = min(odd << math.ceil(math.log2(least / odd)) for odd in (1, 3, 5, 9, 15))
        # The mean of e^(−z (1 − cos θ)) cos nθ by equal steps in θ: nothing but what is aliased is lost.
        sines = np.sin(np.arange(points // 2 + 1) * (math.pi / points)) ** 2
        for row in range(early):
            found[row] = np.fft.irfft(np.exp(-2.0 * z[row] * sines), points)[: most + 1]
    orders, late = 4.0 * np.arange(most + 1.0) ** 2, z[early:, np.newaxis]
    term = 1.0 / np.sqrt(2.0 * math.pi * late) * np.ones(most + 1)
    total = term.copy()
    for k in range(1, TERMS):
        term = term * -(orders - (2 * k - 1) ** 2) / (8.0 * k * late)
        total += term
    found[early:] = total
    return found


@dataclass(frozen=True, eq=False)
class Times:
    """The quadrature.

    `times`, `weights`: with e^(−ct) and what comes after the last time. Where a constant is chosen it is the last
    weight, at the time ∞.
    """

    times: Values
    weights: Values
    _kept: dict[tuple[int, float], Values] = field(default_factory=dict, repr=False)

    @staticmethod
    def of(lines: Sequence[tuple[int, float]], far: Operator, least: float) -> "Times":
        """The times for open axes, given as their largest distances and their weights a/h².

        `far`: the operator. `least`: c with the least eigenvalue of the closed axes.
        """
        if len(lines) < 2:
            return Times(np.array([]), np.array([]))
        scale = 1.0 / (2.0 * max(weight for _, weight in lines) + least)
        end = math.log(LATE[len(lines)] * max(max(1, most) ** 2 / weight for most, weight in lines) / scale)
        s = np.arange(FIRST, end + STEP, STEP)
        times = scale * np.exp(s - np.exp(-s))
        weights = STEP * times * (1.0 + np.exp(-s)) * np.exp(-far.c * times)
        if least == 0.0 and len(lines) == 3:
            weights[-1] /= -math.expm1(-STEP / 2.0)  # the terms fall by the same factor from there on
        some = np.exp(-least * times) > 0.0
        times, weights = times[some], weights[some]
        if least == 0.0 and len(lines) == 2:
            rates = [weight for _, weight in lines]
            times, weights = np.append(times, math.inf), np.append(weights, _level(times, weights, far, rates))
        return Times(times, weights)

    def kernels(self, most: int, weight: float) -> Values:
        """The heat kernels of an open axis by time and distance; 1 at the time ∞, for the constant."""
        if (most, weight) not in self._kept:
            finite = np.isfinite(self.times)
            found = np.ones((self.times.size, most + 1))
            found[finite] = heat_kernels(most, 2.0 * weight * self.times[finite])
            self._kept[most, weight] = found
        return self._kept[most, weight]

    def decay(self, eigenvalues: Values) -> Values:
        """e^(−λt) by time and mode."""
        with np.errstate(invalid="ignore"):
            return np.nan_to_num(np.exp(-np.outer(self.times, eigenvalues)), nan=1.0)


def _level(times: Values, weights: Values, far: Operator, rates: Sequence[float]) -> float:
    """The constant that makes the function of a plane tend to −ln(r) / 2πa, times the area of a cell."""
    a = far.a
    area = math.prod(math.sqrt(a / rate) for rate in rates)
    radius = RADIUS * math.sqrt(area)
    kernel = np.exp(-radius * radius / (4.0 * a * times)) / (4.0 * math.pi * a * times)
    return -area * (float(np.sum(weights * kernel)) + math.log(radius) / (2.0 * math.pi * a))


def on_a_line(rest: Values, weight: float, n: int) -> Values:
    """The function where one axis is open: powers of a number, or −|n| h²/2a where nothing decays.

    `rest`: c with the eigenvalue of each mode. `weight`: a/h². `n`: the distance in spacings.
    """
    rate = 2.0 * np.arcsinh(np.sqrt(rest / weight) / 2.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(rest > 0.0, np.exp(-rate * n) / (2.0 * weight * np.sinh(rate)), -n / (2.0 * weight))
