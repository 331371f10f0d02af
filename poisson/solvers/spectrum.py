# SPDX-License-Identifier: MIT
"""The spectrum of D⁻¹A, the Jacobi matrix taken from the identity, and polynomials that are small on it.

Every row of A has a positive diagonal that is at least the sum of the sizes of its other entries (discretisation.py),
so the eigenvalues μ of D⁻¹A lie between 0 and 2 whatever the coefficients are.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

from poisson.discrete.share import numbers_of, on_blocks

if TYPE_CHECKING:
    from poisson.backends.base import Array, Backend, Operations, Reduction
    from poisson.discrete.operator import Operator
    from poisson.mesh.lattice import Lattice
    from poisson.problem.sampling import Block

LANCZOS_STEPS = 500
"""Most steps of a Lanczos process …"""
LANCZOS_CHECK = 10
"""… which ends when the lowest Ritz value has changed by less than this part of it …"""
LANCZOS_CHANGE = 1e-3
"""… in so many steps, as often in succession as …"""
LANCZOS_STEADY = 3
"""… this: with jumps the value may rest for a while before the mode of the lowest eigenvalue comes through."""

DIGITS = 6
"""The digits in which the value is given: more than are right."""

WEAK = 1e-4
"""c and Robin terms below this part of the smallest eigenvalue of the differences make a problem nearly singular."""

DRIFT = 1e-4
"""The mean of a singular problem's residual, or of its iterate, is removed whenever the residual has fallen so far."""

LARGE_MEAN, MOST_REMOVALS = 10.0, 3
"""A mean so many times larger than what is left without it is removed again, and so often in all."""

NEARLY_FREE = 1e-12
"""A constant that is held by so small a part of the largest eigenvalue is lost in rounding of the residual."""

LEAST_GAP = 1e-300
"""Between two roots, so that it has a logarithm."""

log = logging.getLogger(__name__)


def uniform(operator: Operator) -> Operator:
    """The operator with a = 1 and c = 0 where the coefficients vary: a measure of how many sweeps a problem needs."""
    return replace(operator, coefficients=None) if operator.varies else operator


def smoothest(operator: Operator) -> float:
    """The smallest non-zero eigenvalue of A with typical coefficients, in 1/L²: what A does to a value of u, at least.

    Where a varies, the geometric mean of its least and its largest value is typical; of c the least value counts.
    """
    if operator.coefficients is None:
        return operator.eigenvalues()[0]
    least, largest = operator.coefficients.a_range
    a = math.sqrt(least) * math.sqrt(largest) if operator.links else operator.a
    plain = replace(operator, a=a, c=operator.coefficients.c_range[0], coefficients=None)
    return plain.eigenvalues()[0]


def nearly_singular(operator: Operator) -> bool:
    """Whether A is nearly, but not quite, singular: no node is fixed, and c is tiny beside the differences."""
    if operator.singular or operator.lattice.holds or operator.fixed:
        return False
    largest = operator.coefficients.c_range[1] if operator.coefficients else operator.c
    return largest <= WEAK * without_reaction(operator).eigenvalues()[0]


def without_reaction(operator: Operator) -> Operator:
    """The operator with c = 0 and without Robin terms."""
    if operator.coefficients is None or operator.links is None:
        return replace(operator, c=0.0, coefficients=None)
    return replace(operator, c=0.0, coefficients=replace(operator.coefficients, c=None, c_range=(0.0, 0.0)))


def jacobi_bounds(operations: Operations) -> tuple[float, float]:
    """The smallest non-zero and the largest eigenvalue of D⁻¹A on the unknowns.

    From the spectra of the axes where the diagonal is the same at every node; otherwise the lowest by a Lanczos
    process, and for the highest the bound 2.
    """
    backend, operator = operations.backend, operations.operator
    if operator.has_one_diagonal:
        lowest, highest = operator.eigenvalues()
        return lowest / operator.diagonal, highest / operator.diagonal
    # Rounding may leave the value of an ill-conditioned problem at zero, or below.
    least = max(operator.eigenvalues()[0] / operator.norm, float(np.finfo(backend.dtype).eps) / 8.0)
    return max(lowest_ritz_value(operations), least), 2.0


def lowest_ritz_value(operations: Operations) -> float:
    """The smallest non-zero eigenvalue of D⁻¹A, by a Lanczos process in the inner product in which it is self-adjoint.

    The process is that of conjugate gradients with the diagonal as preconditioner: α and β of its steps are the
    elements of the tridiagonal matrix.

    Reference: Y. Saad, Iterative Methods for Sparse Linear Systems, 2nd edition, section 6.7.3.
    """
    backend, operator = operations.backend, operations.operator
    shape, places = operator.array_shape, (backend.reduction(), backend.reduction())
    z, p, q, spare, u = (backend.empty(shape) for _ in range(5))
    # Not A times something, which would have next to nothing of the mode of the lowest eigenvalue.
    r = rough_values(backend, operator.lattice)
    if operator.singular:
        # A start in the range of A has no part in its null space.
        remove_mean(operations, r, z, places[0])
    backend.fill(u, 0.0)
    diagonal: list[float] = []
    off: list[float] = []
    lowest = before = math.inf
    alpha, beta, rho, first, steady = 1.0, 0.0, 0.0, 0.0, 0
    for step in range(min(LANCZOS_STEPS, operator.unknowns - operator.singular)):
        operations.diagonal_solve(r, z, 1.0, places[0])
        rho, last = backend.read(places[0])[0], rho
        first = first or rho
        if rho <= 1e-24 * first:
            break
        beta = rho / last if step else 0.0
        operations.direction(z, beta, p, spare, q, places[1])
        p, spare = spare, p
        curvature = backend.read(places[1])[0]
        if not curvature > 0.0:
            break  # nothing is left but rounding
        previous, alpha = alpha, rho / curvature
        diagonal.append(1.0 / alpha + (beta / previous if step else 0.0))
        off.append(math.sqrt(beta) / previous)
        operations.advance(alpha, p, q, u, r, places[1])
        if step % LANCZOS_CHECK == LANCZOS_CHECK - 1:
            lowest, before = _lowest(diagonal, off), lowest
            steady = steady + 1 if before - lowest < LANCZOS_CHANGE * lowest else 0
            if steady == LANCZOS_STEADY:
                break
    # Without the digits that depend on the order of sums, and so on the number of ranks: weights of sweeps follow.
    return float(f"{_lowest(diagonal, off):.{DIGITS}g}") if diagonal else 1.0


def _lowest(diagonal: list[float], off: list[float]) -> float:
    from scipy.linalg import eigvalsh_tridiagonal

    return float(eigvalsh_tridiagonal(diagonal, off[1:], select="i", select_range=(0, 0))[0])


def rough_values(backend: Backend, lattice: Lattice) -> Array:
    """An array in which no mode is missing, the same on every backend: fractional parts of multiples of a rational."""
    if not lattice.divided and (made := backend.rough(lattice.array_shape)) is not None:
        return made
    return backend.assemble(lattice.array_shape, on_blocks(numbers_of(lattice), partial(_rough, lattice.whole)))


def _rough(whole: Lattice, xp: ModuleType, block: Block) -> Any:
    number = xp.zeros((), dtype=xp.int64)
    for (start, stop), count in zip(block, whole.array_shape, strict=True):
        number = number[..., None] * count + xp.arange(start, stop, dtype=xp.int64)
    return number * 7919 % 10007 / 10007.0 - 0.3


def red_black(operator: Operator) -> bool:
    """Whether every link joins nodes of two colors: an axis that wraps must have an even number of nodes."""
    return all(not axis.wraps or axis.nodes % 2 == 0 or axis.nodes == 1 for axis in operator.lattice.whole.axes)


def chebyshev_omegas(lowest: float, highest: float, degree: int) -> tuple[float, ...]:
    """The weights of sweeps whose error polynomial is the Chebyshev polynomial on [lowest, highest], stably ordered.

    `lowest`, `highest`: the interval of eigenvalues of D⁻¹A. `degree`: number of sweeps, a power of two.

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


def stable_order(roots: Sequence[float]) -> list[float]:
    """Roots in an order in which the products of the first factors stay small on the interval that they lie in.

    Each next one is that at which the polynomial of those before it is largest. From one end of the interval to the
    other some 64 sweeps amplify rounding errors without bound.

    Reference: L. Reichel, Newton interpolation at Leja points, BIT 30, 1990.
    """
    left = sorted(roots, reverse=True)
    ordered, size = left[:1], [0.0] * len(left)
    del left[:1], size[:1]
    while left:
        gaps = (max(abs(root - ordered[-1]), LEAST_GAP) for root in left)
        size = [before + math.log(gap) for before, gap in zip(size, gaps, strict=True)]
        at = max(range(len(left)), key=size.__getitem__)
        ordered.append(left.pop(at))
        del size[at]
    return ordered


def chebyshev_rate(lowest: float, highest: float) -> float:
    """ln of the factor by which a sweep of a long Chebyshev iteration reduces the error."""
    # Rounding may leave an eigenvalue of next to nothing below zero.
    return math.acosh(max(1.0, (highest + lowest) / (highest - lowest))) if lowest < highest else math.inf


def remove_mean(operations: Operations, x: Array, work: Array, place: Reduction) -> bool:
    """Subtract from x its mean under the trapezoidal weights: what it has of the null space of a singular operator.

    A mean that is much larger than what it is taken from leaves rounding errors with a mean of their own, which goes,
    too. One that rounding would leave need not go. `work` loses its values, and so does `place`, which is one for
    results.

    Returns: whether x has changed.
    """
    backend = operations.backend
    operations.integrate(x, None, place)
    total, size = backend.read(place)
    if abs(total) <= float(np.finfo(backend.dtype).eps) * size:
        return False
    fill_free(operations, work)
    mean = weighted_mean(operations, x, work, place)
    for _ in range(MOST_REMOVALS):
        backend.axpby(-mean, work, 1.0, x)
        operations.norm(x, place)
        if not abs(mean) > LARGE_MEAN * backend.read(place)[1]:
            break
        mean = weighted_mean(operations, x, work, place)
    return True


class ZeroMean:
    """Keeps the iterates of a singular problem near zero mean: corrections have one, and rounding would be that of it.

    `operations`: those of A.
    """

    def __init__(self, operations: Operations) -> None:
        self._operations = operations
        self._last = math.inf

    def begin(self, norm: float = math.inf) -> None:
        """Another solve begins, with a residual of this norm if it is known by now."""
        self._last = norm

    def follow(self, u: Array, norm: float, work: Array | None) -> bool:
        """Remove the mean of u if the norm of its residual has fallen so far since the last time that it may count.

        `work` loses its values; None if A is not singular. Returns: whether it has lost them.
        """
        if work is None or norm > DRIFT * self._last:
            return False
        removed = self._last < math.inf
        if removed:
            remove_mean(self._operations, u, work, self._operations.backend.reduction())
        self._last = norm
        return removed


class HeldConstant:
    """The constant of u where no node is fixed, and only a c or Robin terms of next to nothing hold it.

    The rounding of a residual beside stiff links is much more than these terms, and moves a constant far away, which no
    sweep and no recursion sees. The mean of A u against that of f says where it belongs: the fluxes between nodes
    cancel in it.

    `operations`: those of A.
    """

    def __init__(self, operations: Operations) -> None:
        backend, operator = operations.backend, operations.operator
        lowest, highest = operator.eigenvalues()
        self._operations, self._held = operations, 0.0
        walls = operator.fixed or any(axis.fixed for axis in operator.lattice.whole.axes)
        if operator.singular or walls or lowest > NEARLY_FREE * highest:
            return
        ones, r = (backend.empty(operator.array_shape) for _ in range(2))
        place = backend.reduction()
        fill_free(operations, ones)
        operations.residual(ones, None, r)
        operations.integrate(r, None, place)
        held = -backend.read(place)[0]
        operations.dot(ones, ones, place)
        if 0.0 < held <= NEARLY_FREE * highest * backend.read(place)[0]:
            self._held = held

    def correct(self, u: Array, r: Array, work: Array, place: Reduction) -> bool:
        """Add to u the constant after which its residual, which is r before, has no mean, if u loses digits without.

        `work` loses its values, and so does `place`, which is one for results. Returns: whether u has changed.
        """
        if not self._held:
            return False
        operations, backend = self._operations, self._operations.backend
        operations.integrate(r, None, place)
        constant = backend.read(place)[0] / self._held
        operations.norm(u, place)
        if not math.sqrt(np.finfo(backend.dtype).eps) * backend.read(place)[1] < abs(constant) < math.inf:
            return False
        fill_free(operations, work)
        backend.axpby(constant, work, 1.0, u)
        return True


def fill_free(operations: Operations, ones: Array) -> None:
    """Fill an array with ones, and with zeros at the nodes of the mask."""
    backend, operator = operations.backend, operations.operator
    if operator.fixed:
        c = backend.view(operator.reaction) if backend.views else backend.to_host(operator.reaction)
        if isinstance(c, np.ndarray) or operator.lattice.divided:
            backend.assemble(
                operator.array_shape, lambda xp, start, stop: xp.asarray(c[start:stop] >= 0.0, float), ones
            )
            return
        with backend.ordered():  # in one pass over memory
            backend.array_module.greater_equal(c, 0.0, out=backend.view(ones))
    else:
        backend.fill(ones, 1.0)


def weighted_mean(operations: Operations, x: Array, ones: Array, place: Reduction) -> float:
    """The mean of x under the trapezoidal weights; `ones` is an array of ones, `place` one for results."""
    backend = operations.backend
    operations.dot(x, ones, place)
    total = backend.read(place)[0]
    operations.dot(ones, ones, place)
    return total / backend.read(place)[0]
