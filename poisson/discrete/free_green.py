# SPDX-License-Identifier: MIT
"""The Green's function of −Δ + κ² without a lattice, by its transform along open axes.

A function that ends where no two points of the box are so far apart does the same there, and its transform is smooth
(F. Vico, L. Greengard, M. Ferrando, "Fast convolution with free-space Green's functions", Journal of Computational
Physics 323, 2016). Along closed axes κ² has the square of the wave number of each mode, beside c/a.

The charge may be spread over σ so that its first m moments but the zeroth vanish: its transform is then the product of
e^(−q) and Σ q^j/j!, j < m/2, with q = σ²k²/2 of all axes (M. M. Hejlesen, J. T. Rasmussen, P. Chatelain, J. H. Walther,
"A high order solver for the unbounded Poisson equation", Journal of Computational Physics 252, 2013; of open and
periodic axes H. J. Spietz, M. M. Hejlesen, J. H. Walther, Journal of Computational Physics 356, 2018).
"""

import math

import numpy as np
from numpy.typing import NDArray

Values = NDArray[np.float64]

NEAR = 0.5
"""Below this κR the two-dimensional function at k = 0 is summed up from its series, as its terms cancel."""
TERMS = 10
"""Terms of that series."""


def spread(squares: Values, order: int) -> Values:
    """The transform of a charge by q = σ²k²/2; 1 at q = 0, and 1 − O(q^(order/2)) beside it."""
    term, total = np.ones_like(squares), np.ones_like(squares)
    for j in range(1, order // 2):
        term = term * squares / j
        total += term
    return np.asarray(np.exp(-squares) * total)


def transform(opened: Values, rest: Values, dimension: int, end: float) -> Values:
    """The transform of the Green's function on 1, 2 or 3 open axes, which is 0 beyond the distance `end`, in L.

    `opened`: k² along the open axes, in 1/L². `rest`: κ², in 1/L²; both broadcast. Where κ = 0 the function is −|x|/2
    on a line, −ln(r)/2π in the plane and 1/4πr in space.
    """
    free, screened = (
        (_on_a_line, _screened_on_a_line),
        (_in_the_plane, _screened_in_the_plane),
        (_in_space, _screened_in_space),
    )[dimension - 1]
    k = np.sqrt(opened)
    nothing = rest == 0.0
    with np.errstate(divide="ignore", invalid="ignore", over="ignore", under="ignore"):
        found = np.asarray(screened(k, np.sqrt(np.where(nothing, 1.0, rest)), end) if not nothing.all() else 0.0)
        return np.where(nothing, free(k, end), found) if nothing.any() else found


def _on_a_line(k: Values, end: float) -> Values:
    return np.where(k == 0.0, -end * end / 2.0, (1.0 - np.cos(end * k)) / k**2 - end * np.sin(end * k) / k)


def _screened_on_a_line(k: Values, kappa: Values, end: float) -> Values:
    left = np.exp(-kappa * end) * (np.cos(end * k) - k / kappa * np.sin(end * k))
    return np.asarray(np.where(k == 0.0, -np.expm1(-kappa * end), 1.0 - left) / (k**2 + kappa**2))


def _in_the_plane(k: Values, end: float) -> Values:
    from scipy.special import j0, j1

    log = math.log(end)
    waves = (1.0 - j0(end * k)) / k**2 - end * log * j1(end * k) / k
    return np.where(k == 0.0, end * end * (0.25 - log / 2.0), waves)


def _screened_in_the_plane(k: Values, kappa: Values, end: float) -> Values:
    from scipy.special import digamma, iv, j0, j1, k0, k1

    far = kappa * end
    waves = (1.0 + end * k * j1(end * k) * k0(far) - j0(end * k) * far * k1(far)) / (k**2 + kappa**2)
    # K₁ by its series, without the 1/x that cancels 1.
    n = np.arange(TERMS).reshape(-1, *(1,) * far.ndim)
    near = np.minimum(far, NEAR)
    powers = (near * near / 4.0) ** n / np.cumprod(np.maximum(n, 1.0), axis=0) / np.cumprod(n + 1.0, axis=0)
    series = ((digamma(n + 1.0) + digamma(n + 2.0)) * powers).sum(axis=0) / 4.0 - np.log(near / 2.0) * iv(
        1, near
    ) / near
    at_zero = np.where(far < NEAR, end * end * series, (1.0 - far * k1(far)) / kappa**2)
    return np.where(k == 0.0, at_zero, waves)


def _in_space(k: Values, end: float) -> Values:
    return np.where(k == 0.0, end * end / 2.0, 2.0 * np.square(np.sin(end / 2.0 * k) / k))


def _screened_in_space(k: Values, kappa: Values, end: float) -> Values:
    from scipy.special import gammainc

    far = kappa * end
    waves = 1.0 - np.exp(-far) * (np.cos(end * k) + kappa / k * np.sin(end * k))
    return np.asarray(np.where(k == 0.0, gammainc(2.0, far), waves) / (k**2 + kappa**2))
