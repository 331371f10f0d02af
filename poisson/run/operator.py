# SPDX-License-Identifier: MIT
"""The operator of a solver: its parts on the ranks, and whether two problems have the same one."""

from typing import Any

from poisson.backends.base import Backend
from poisson.discrete.discretisation import Operator
from poisson.mesh.lattice import Lattice
from poisson.problem.expressions import Expression
from poisson.problem.problem import Problem
from poisson.run.request import Request
from poisson.solvers import registry


def divide(request: Request, local: Backend) -> None:
    """Give each rank its part of the grid, with a halo for the method and for the differences of vectors."""
    if request.ranks.size == 1:
        return
    settings, order = request.settings, request.order if request.vectors else 0

    def halo(part: Lattice) -> int:
        return max(registry.halo_of(settings, part.dimension, local.bind(Operator(part)).depth()), order)

    request.ranks.divide(request.problem.lattice.of_arrays, halo, planes=registry.needs_planes(settings))


def numbers_of(operator: Operator) -> tuple[Any, ...]:
    """The numbers of an operator that depend on its coefficients, beside their arrays."""
    found = operator.coefficients
    return operator.a, operator.c, *((found.a_range, found.c_range, found.alpha) if found else ())


def unchanged(problem: Problem, other: Problem) -> frozenset[str]:
    """The names of `a` and `c`, with α of Robin faces, that are certainly the same in two problems with other data."""
    alphas = ((one.alpha, two.alpha) for one, two in zip(problem.faces, other.faces, strict=True))
    pairs: dict[str, list[tuple[Any, Any]]] = {"a": [(problem.a, other.a)], "c": [(problem.c, other.c), *alphas]}
    return frozenset(name for name, values in pairs.items() if all(_alike(*pair) for pair in values))


def _alike(one: Any, two: Any) -> bool:
    return one is two or (isinstance(one, (int, float, Expression)) and bool(one == two))
