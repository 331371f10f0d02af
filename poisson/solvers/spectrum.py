"""The spectrum of D⁻¹A, the Jacobi matrix taken from the identity, and polynomials that are small on it.

Every row of A has a positive diagonal that is at least the sum of the sizes of its other entries (discretisation.py),
so the eigenvalues μ of D⁻¹A lie between 0 and 2 whatever the coefficients are.
"""

from __future__ import annotations

import logging
import math
from dataclasses import replace
from types import ModuleType
from typing import Any

import numpy as np

from poisson.backends.base import Array, Backend
from poisson.boundary import Rule
from poisson.operator import Operator

LANCZOS_STEPS = 500
"""Most steps of a Lanczos process …"""
LANCZOS_CHECK = 10
"""… which ends when the lowest Ritz value has changed by less than this part of it …"""
LANCZOS_CHANGE = 1e-3
"""… in so many steps."""

log = logging.getLogger(__name__)


def uniform(operator: Operator) -> Operator:
    """The operator with a = 1 and c = 0 where the coefficients vary: a measure of how many sweeps a problem needs."""
    return replace(operator, coefficients=None) if operator.varies else operator


def jacobi_bounds(backend: Backend, operator: Operator) -> tuple[float, float]:
    """The smallest non-zero and the largest eigenvalue of D⁻¹A on the unknowns.

    In closed form where the coefficients are constant; otherwise the lowest by a Lanczos process, and for the highest
    the bound 2.
    """
    if not operator.varies:
        lowest, highest = operator.eigenvalues()
        return lowest / operator.diagonal, highest / operator.diagonal
    return lowest_ritz_value(backend, operator), 2.0


def lowest_ritz_value(backend: Backend, operator: Operator) -> float:
    """The smallest non-zero eigenvalue of D⁻¹A, by a Lanczos process in the inner product in which it is self-adjoint.

    The process is that of conjugate gradients with the diagonal as preconditioner: α and β of its steps are the
    elements of the tridiagonal matrix.

    References
    ----------
    Y. Saad, Iterative Methods for Sparse Linear Systems, 2nd edition, section 6.7.3.
    """
    shape, places = operator.array_shape, (backend.reduction(), backend.reduction())
    r, z, p, q, spare, u = (backend.empty(shape) for _ in range(6))
    backend.diagonal_solve(operator, backend.assemble(shape, lambda *slab: _rough(shape, *slab)), p, 1.0)
    backend.fill(u, 0.0)
    # A start in the range of A has no part in its null space.
    backend.direction(operator, p, 0.0, p, spare, r, places[0])
    diagonal: list[float] = []
    off: list[float] = []
    lowest = before = math.inf
    alpha, beta, rho, first = 1.0, 0.0, 0.0, 0.0
    for step in range(min(LANCZOS_STEPS, operator.unknowns - operator.singular)):
        backend.diagonal_solve(operator, r, z, 1.0, places[0])
        rho, last = backend.read(places[0])[0], rho
        first = first or rho
        if rho <= 1e-24 * first:
            break
        beta = rho / last if step else 0.0
        backend.direction(operator, z, beta, p, spare, q, places[1])
        p, spare = spare, p
        previous, alpha = alpha, rho / backend.read(places[1])[0]
        diagonal.append(1.0 / alpha + (beta / previous if step else 0.0))
        off.append(math.sqrt(beta) / previous)
        backend.advance(operator, alpha, p, q, u, r, places[1])
        if step % LANCZOS_CHECK == LANCZOS_CHECK - 1:
            lowest, before = _lowest(diagonal, off), lowest
            if before - lowest < LANCZOS_CHANGE * lowest:
                break
    return _lowest(diagonal, off) if diagonal else 1.0


def _lowest(diagonal: list[float], off: list[float]) -> float:
    matrix = np.diag(diagonal) + np.diag(off[1:], 1) + np.diag(off[1:], -1)
    return float(np.linalg.eigvalsh(matrix)[0])


def _rough(shape: tuple[int, ...], xp: ModuleType, start: int, stop: int) -> Any:
    """Values in which no mode is missing, the same on every backend: fractional parts of multiples of a rational."""
    inner = math.prod(shape[1:])
    number = xp.arange(start * inner, stop * inner, dtype=xp.int64)
    return (number * 7919 % 10007 / 10007.0 - 0.3).reshape(stop - start, *shape[1:])


def red_black(operator: Operator) -> bool:
    """Whether every link joins nodes of two colors: an axis that wraps must have an even number of nodes."""
    return all(
        operator.shape[axis] % 2 == 0 or operator.shape[axis] == 1 or operator.axis_rules(axis)[0] is not Rule.WRAP
        for axis in range(operator.dimension)
    )


def chebyshev_weights(lowest: float, highest: float, degree: int) -> tuple[float, ...]:
    """The weights of sweeps whose error polynomial is the Chebyshev polynomial on [lowest, highest], stably ordered.

    Parameters
    ----------
    lowest, highest : float
        The interval of eigenvalues of D⁻¹A.
    degree : int
        Number of sweeps, a power of two.

    Notes
    -----
    The weights are the inverses of the roots. In the order of V. I. Lebedev and S. A. Finogenov (On the order of choice
    of the iteration parameters in the Chebyshev cyclic iteration method, 1971) small ones follow upon large ones, so
    that the products of the first factors stay small on the interval.
    """
    order = [1]
    while len(order) < degree:
        order = [item for number in order for item in (number, 4 * len(order) - number)]
    if len(order) != degree:
        raise ValueError(f"degree = {degree}; it must be a power of two")
    return tuple(
        1.0 / root for root in chebyshev_roots(lowest, highest, [number / 2 - 0.5 for number in order], degree)
    )


def chebyshev_roots(lowest: float, highest: float, numbers: list[float], degree: int) -> list[float]:
    """The roots with the given numbers, from 0 for the lowest, of the Chebyshev polynomial on [lowest, highest]."""
    centre, half = (highest + lowest) / 2.0, (highest - lowest) / 2.0
    return [centre - half * math.cos(math.pi * (number + 0.5) / degree) for number in numbers]


def chebyshev_rate(lowest: float, highest: float) -> float:
    """ln of the factor by which a sweep of a long Chebyshev iteration reduces the error."""
    return math.acosh((highest + lowest) / (highest - lowest)) if lowest < highest else math.inf


def weighted_mean(backend: Backend, operator: Operator, x: Array, ones: Array) -> float:
    """The mean of x under the trapezoidal weights; `ones` is an array of ones."""
    place = backend.reduction()
    backend.dot(operator, x, ones, place)
    total = backend.read(place)[0]
    backend.dot(operator, ones, ones, place)
    return total / backend.read(place)[0]
