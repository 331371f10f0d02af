# SPDX-License-Identifier: MIT
"""The lattice Green's function of the operator with constant coefficients, on axes that go on without end.

Along an open axis the second difference −a δ²/h² has the heat kernel e^(−z) I_n(z) with z = 2 a t / h², and along an
axis with modes e^(−λt). So the inverse of their sum at the distances n, m, l is the integral of the product over t from
0 to ∞, with e^(−ct) (E. N. Economou, "Green's functions in quantum physics", Springer, 2006, chapter 5). It is the
limit of the inverse on ever larger boxes with the same spacings.

The integral is a sum over equal steps in s, t = exp(s − e^(−s)), whose error falls like exp(−π²/step) (H. Takahasi and
M. Mori, "Double exponential formulas for numerical integration", Publ. RIMS 9, 1974). Each term is a product of one
factor for each axis, so that a table, and its transform as well, are matrix products.

Where nothing makes it decay, c + λ = 0, a constant is to be chosen. In the plane the function tends to −ln(r) / 2πa
with r in L, and on a line it is −|x| / 2a, times the areas of the cells.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import fft

Values = NDArray[np.float64]

STEP = 0.25
"""Of the quadrature in s."""
FIRST = -4.0
"""The s where it begins: t is 1e-25 there."""
TERMS = 14
"""Terms of the asymptotic series of a heat kernel."""
WIDE = 4.0
"""The series is taken from z = WIDE n² on."""
LATE = 1e18
"""Later than so many times the square of the distance nothing but the tail is left to sum."""


@dataclass(frozen=True)
class OpenLine:
    """An axis without end, as convolutions see it: even, and repeated after 2 `half` spacings.

    `half`: the largest distance. `weight`: a/h². `spacing`: h in L.
    """

    half: int
    weight: float
    spacing: float

    def factors(self, times: Values) -> Values:
        """The transforms of the heat kernels at some times, shape ``(times, half + 1)``."""
        return np.asarray(fft.dct(heat_kernels(self.half, 2.0 * self.weight * times), type=1, axis=1))


def heat_kernels(most: int, z: Values) -> Values:
    """e^(−z) I_n(z) for n = 0, 1, …, `most`, shape ``(z, most + 1)``; z ascends."""
    found = np.empty((z.size, most + 1))
    limit = max(60.0, WIDE * most * most)
    early = int(np.searchsorted(z, limit))
    if early:
        points = fft.next_fast_len(2 * (most + 8 + math.ceil(math.sqrt(80.0 * limit))))
        # The mean of e^(−z (1 − cos θ)) cos nθ by equal steps in θ: nothing but what is aliased is lost.
        sines = np.sin(np.arange(points // 2 + 1) * (math.pi / points)) ** 2
        for row in range(early):
            found[row] = fft.irfft(np.exp(-2.0 * z[row] * sines), points)[: most + 1]
    orders, late = 4.0 * np.arange(most + 1.0) ** 2, z[early:, np.newaxis]
    term = 1.0 / np.sqrt(2.0 * math.pi * late) * np.ones(most + 1)
    total = term.copy()
    for k in range(1, TERMS):
        term = term * -(orders - (2 * k - 1) ** 2) / (8.0 * k * late)
        total += term
    found[early:] = total
    return found


def spectrum(lines: Sequence[OpenLine | Values], c: float) -> Values:
    """The transform of the Green's function.

    `lines`: for each axis of an array, the slowest first, an open axis or the eigenvalues of its modes, in 1/L². `c`:
    in 1/L². Returns: the factor for each mode, in L²; the axes in the same order.
    """
    found = [line for line in lines if isinstance(line, OpenLine)]
    if len(found) == 1:
        return _on_a_line(lines, c)
    times, weights = _quadrature(found, c)
    factors = [line.factors(times) if isinstance(line, OpenLine) else np.exp(-np.outer(times, line)) for line in lines]
    first, *others = factors
    table = np.empty([factor.shape[1] for factor in factors])
    if len(others) == 1:
        np.matmul((weights[:, np.newaxis] * first).T, others[0], out=table)
    else:
        left = np.ascontiguousarray((weights[:, np.newaxis] * first).T)
        for place in range(table.shape[1]):
            table[:, place] = left @ (others[0][:, place, np.newaxis] * others[1])
    still = tuple(0 if isinstance(line, OpenLine) else int(np.argmin(line)) for line in lines)
    rest = c + sum(float(line[place]) for line, place in zip(lines, still, strict=True) if isinstance(line, np.ndarray))
    if len(found) == 2 and rest == 0.0:
        table[still] += _constant(found, times, weights)
    return table


def _quadrature(found: Sequence[OpenLine], c: float) -> tuple[Values, Values]:
    """Times and their weights, with e^(−ct), and what comes after the last of them."""
    scale = 1.0 / (2.0 * max(line.weight for line in found))
    end = math.log(LATE * max(max(1, line.half) ** 2 / line.weight for line in found) / scale)
    s = np.arange(FIRST, end + STEP, STEP)
    times = scale * np.exp(s - np.exp(-s))
    weights = STEP * times * (1.0 + np.exp(-s)) * np.exp(-c * times)
    if len(found) == 3 and c == 0.0:
        weights[-1] /= -math.expm1(-STEP / 2.0)  # the terms fall by the same factor from there on
    some = weights > 0.0
    return times[some], weights[some]


def _constant(found: Sequence[OpenLine], times: Values, weights: Values) -> float:
    """What makes the function of a plane tend to −ln(r) / 2πa, as a multiple of the transform of 1."""
    area = math.prod(line.spacing for line in found)
    a = found[0].weight * found[0].spacing ** 2
    radius = 8.0 * math.sqrt(area)
    kernel = np.exp(-radius * radius / (4.0 * a * times)) / (4.0 * math.pi * a * times)
    level = float(np.sum(weights * kernel)) + math.log(radius) / (2.0 * math.pi * a)
    return -area * level * math.prod(2.0 * line.half for line in found)


def _on_a_line(lines: Sequence[OpenLine | Values], c: float) -> Values:
    """The same where one axis is open: powers of a number, or −|n| h²/2a where nothing decays."""
    place = next(number for number, line in enumerate(lines) if isinstance(line, OpenLine))
    line = lines[place]
    assert isinstance(line, OpenLine)
    others = [np.array([0.0]) if number == place else each for number, each in enumerate(lines)]
    rest = c + sum(np.meshgrid(*others, indexing="ij"))
    rate = 2.0 * np.arcsinh(np.sqrt(rest / line.weight) / 2.0)
    n = np.arange(line.half + 1.0).reshape([-1 if number == place else 1 for number in range(len(lines))])
    with np.errstate(divide="ignore", invalid="ignore"):
        table = np.where(rest > 0.0, np.exp(-rate * n) / (2.0 * line.weight * np.sinh(rate)), -n / (2.0 * line.weight))
    return np.asarray(fft.dct(table, type=1, axis=place))
