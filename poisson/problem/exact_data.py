# SPDX-License-Identifier: MIT
"""The data of a problem from its exact solution: its source, and the values on its faces, derived symbolically."""

from poisson.mesh.boundary import Kind
from poisson.mesh.grid import AXES
from poisson.mesh.system import ANGLE, RADIUS
from poisson.problem.expressions import Expression, parse

_ZERO = Expression.constant(0.0)


def manufactured_source(
    exact: Expression, a: Expression | float, c: Expression | float, dimension: int, power: int = 0
) -> Expression:
    """f = −∇·(a∇u) + c u of the exact solution u, derived symbolically; `power` as for `divergence`."""
    source = exact * c
    for term in divergence(exact, a, dimension, power):
        source = source - term
    return source


def divergence(exact: Expression, a: Expression | float, dimension: int, power: int) -> list[Expression]:
    """The terms of ∇·(a∇u), with their limits at r = 0.

    `power`: p of the first axis where that is a radius (`poisson.mesh.system`), or 0.
    """
    terms = []
    for name, axis in zip(AXES[:dimension], exact.axes, strict=False):
        flux = exact.derivative(name) * a
        change = flux.derivative(name)
        if axis == ANGLE:
            change = change.over(_radius(exact) * _radius(exact), _ZERO)
        terms.append(change)
        if axis == RADIUS:
            terms.append(power * flux.over(_radius(exact), change))
    return terms


def manufactured_value(
    exact: Expression, a: Expression | float, kind: Kind, alpha: Expression | None, face: int
) -> Expression:
    """Boundary data of the exact solution u on a face: u itself, a ∂u/∂n or a ∂u/∂n + αu, with the outward normal."""
    if kind.fixes:
        return exact
    flux = exact.derivative(AXES[face // 2]) * a
    if exact.axes[face // 2] == ANGLE:
        flux = flux.over(_radius(exact), _ZERO)
    flux = flux if face % 2 else -flux
    return flux if alpha is None else flux + exact * alpha


def _radius(given: Expression) -> Expression:
    return parse(RADIUS, given.axes)
