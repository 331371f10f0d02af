# SPDX-License-Identifier: MIT
"""Whether the exact solution of a case still is one where overrides have changed the case."""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from poisson.mesh.boundary import Kind
from poisson.mesh.grid import AXES
from poisson.mesh.lattice import Lattice
from poisson.problem.exact_data import divergence, manufactured_value
from poisson.problem.expressions import Expression
from poisson.problem.mistakes import Path
from poisson.problem.problem import Problem

TOLERANCE = 1e-6
"""By so much, relative to its largest term, an equation that a solution fulfils may miss: texts round numbers."""

POINTS = 61
"""Points in the box, and on each face, at which that is tried; not at nodes, nor where a formula is likely to jump."""

Points = list[NDArray[np.float64]]


def changed(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[Path]:
    """The keys that an exact solution depends on at which two case files differ; all but the shape of the grid."""
    keys: list[Path] = [("equation", "f"), ("equation", "a"), ("equation", "c")]
    keys += [("domain", "lower"), ("domain", "upper"), ("domain", "system")]
    for table in ("boundary", "parameters"):
        keys += [(table, name) for name in dict.fromkeys([*_table(before, table), *_table(after, table)])]
    return [key for key in keys if _table(before, key[0]).get(key[1]) != _table(after, key[0]).get(key[1])]


def holds(problem: Problem) -> bool:
    """Whether the exact solution of a problem fulfils the equation and the conditions on the faces, tried at points.

    What is given in a file cannot be tried, so that the answer is no.
    """
    exact = problem.exact
    if exact is None or not all(
        isinstance(each, (int, float, Expression)) for each in (problem.f, problem.a, problem.c)
    ):
        return False
    a, c, f = (_expression(each) for each in (problem.a, problem.c, problem.f))
    inside = _points(problem.lattice, None)
    axes = AXES[: len(inside)]
    with np.errstate(all="ignore"):
        terms = [
            exact * c,
            -f,
            *(-term for term in divergence(exact, a, len(inside), problem.lattice.coordinate_system.power)),
        ]
        values = [_at(term, inside) for term in terms]
        sizes = [
            _largest(_at(function, inside)) for function in (exact, *(exact.derivative(axis) * a for axis in axes))
        ]
        parts = [_at(a * exact.derivative(axis).derivative(axis), inside) for axis in axes]
        return _vanishes(sum(values), max(map(_largest, [*values, *parts]))) and all(_fulfilled(problem, sizes))


def _fulfilled(problem: Problem, sizes: Sequence[float]) -> Iterator[bool]:
    """Whether each face has its condition; `sizes` are those of the exact solution and of its fluxes along the axes."""
    exact, grid = problem.exact, problem.lattice
    assert exact is not None and isinstance(problem.a, (int, float, Expression))
    for face, condition in enumerate(problem.faces):
        axis, points = face // 2, _points(grid, face)
        if condition.kind is Kind.AXIS:
            continue
        if condition.kind.wraps:
            across = _points(grid, face ^ 1)
            flux = exact.derivative(AXES[axis]) * _expression(problem.a)
            for function, size in ((exact, sizes[0]), (flux, sizes[1 + axis])):
                yield _vanishes(_at(function, points) - _at(function, across), size)
            continue
        alpha = condition.alpha
        if not isinstance(condition.value, Expression) or not isinstance(alpha, (Expression, type(None))):
            yield False
            continue
        wanted = _at(manufactured_value(exact, problem.a, condition.kind, alpha, face), points)
        size = sizes[0] if condition.kind.fixes else sizes[1 + axis]
        if alpha is not None:
            size = max(size, sizes[0] * _largest(_at(alpha, points)))
        given = _at(condition.value, points)
        yield _vanishes(wanted - given, max(size, _largest(given)))


def _table(tables: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = tables.get(name)
    return found if isinstance(found, Mapping) else {}


def _points(grid: Lattice, face: int | None) -> Points:
    """Points all over the box, or all over one face of it."""
    points = []
    for axis, (low, high) in enumerate(zip(grid.lower, grid.upper, strict=True)):
        # Multiples of the roots of primes, less their integers, are spread evenly.
        part = (np.arange(1, POINTS + 1) * math.sqrt((2, 3, 5)[axis])) % 1.0
        if face is not None and face // 2 == axis:
            part = np.full(POINTS, float(face % 2))
        points.append(low * (1.0 - part) + high * part)
    return points


def _expression(given: Any) -> Expression:
    return given if isinstance(given, Expression) else Expression.constant(float(given))


def _at(function: Expression, points: Points) -> NDArray[np.float64]:
    return np.broadcast_to(np.asarray(function(np, *points), dtype=np.float64), points[0].shape)


def _largest(values: NDArray[np.float64]) -> float:
    finite = np.abs(values[np.isfinite(values)])
    return float(finite.max()) if finite.size else 0.0


def _vanishes(values: Any, size: float) -> bool:
    """Whether values are zero but for rounding; where they are not finite they say nothing, unless all are so."""
    finite = values[np.isfinite(values)]
    return bool(finite.size) and _largest(finite) <= TOLERANCE * size
