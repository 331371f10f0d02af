# SPDX-License-Identifier: MIT
"""Integrals of a solution over the box: its mean, and the energy of its field."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from poisson.discrete.discretisation import Discretisation
from poisson.discrete.outflow import areas, plane, prescribed
from poisson.mesh.boundary import Rule
from poisson.mesh.grid import slabs
from poisson.problem import sampling
from poisson.problem.problem import number
from poisson.problem.sampling import Block


def mean(discretisation: Discretisation, u: NDArray[Any]) -> float:
    """The mean of u over the box by the trapezoidal rule, in U.

    `discretisation`: the problem, undivided. `u` (float array): the solution on all nodes, of the grid's
    ``array_shape``.
    """
    total, on_nodes = [], u.reshape(discretisation.array_shape)
    for start, stop in slabs(on_nodes.shape):
        values = np.asarray(on_nodes[start:stop], dtype=np.float64)
        if surface := discretisation.surface:
            values = values.copy()
            surface.open(np, values, _rows_of(discretisation, start, stop))
        total.append(float((values * _volumes(discretisation, start, stop)).sum()))
    closed = discretisation.surface.closed if discretisation.surface else 0.0
    return math.fsum(total) / (discretisation.problem.lattice.volume - closed)


def energy(discretisation: Discretisation, u: NDArray[Any]) -> float:
    """½ ∫ (a |∇u|² + c u²), in U²·L^(d−2) in d dimensions, those of a whole turn counted.

    The first part is that of the links between the nodes, each with the coefficient a that the discrete equations have
    there: where f and c are zero it is half of what leaves through the Dirichlet faces times the values that they hold,
    to rounding. Both are of second order.

    `discretisation`, `u`: as `mean` takes them. Raises `CaseError` if data of the problem cannot be read.
    """
    grid, on_nodes = discretisation.problem.lattice, u.reshape(discretisation.array_shape)
    total: list[float] = []
    for start, stop in slabs(on_nodes.shape):
        values = np.asarray(on_nodes[start:stop], dtype=np.float64)
        if number(discretisation.problem.c) != 0.0:
            reaction = discretisation.c(np, start, stop) * values * values
            if surface := discretisation.surface:
                surface.open(np, reaction, _rows_of(discretisation, start, stop))
            total.append(float((reaction * _volumes(discretisation, start, stop)).sum()))
        total += [_of_links(discretisation, on_nodes, axis, start, stop) for axis in range(grid.dimension)]
    if surface := discretisation.surface:
        total.append(surface.energy(on_nodes))
    total += [_before_face(discretisation, on_nodes, face) for face in range(2 * grid.dimension)]
    return math.fsum(total) / 2.0


def _before_face(discretisation: Discretisation, u: NDArray[Any], face: int) -> float:
    """∫ a (∂u/∂n)² between a face and the nodes next to it, where they do not lie on it: the flow there is constant."""
    problem, place = discretisation.problem, discretisation.whole_lattice.array_axis(face // 2)
    line, end = problem.lattice.axes[face // 2], face % 2
    distance, area = line.offsets[end], line.areas[end]
    if not distance or not area or line.rules[end] is Rule.FIXED:
        return 0.0
    block = plane(discretisation, face, 1)
    surface = discretisation.surface
    a = sampling.a_before(problem, np, face, block, surface.dielectrics if surface else None)
    flow = prescribed(discretisation, u, face, block)
    area_of_a = area / problem.lattice.scale(face // 2, block) ** 2
    over = (
        area_of_a * areas(discretisation, face // 2, block) * (a if isinstance(a, float) else np.expand_dims(a, place))
    )
    return float((distance * flow * flow / over).sum())


def _of_links(discretisation: Discretisation, u: NDArray[Any], axis: int, start: int, stop: int) -> float:
    """∫ a (∂u/∂x)² of the links along an axis that begin in some rows."""
    problem, a = discretisation.problem, number(discretisation.problem.a)
    place = discretisation.whole_lattice.array_axis(axis)

    def along(rows: Callable[[int, int], Any]) -> NDArray[np.float64]:
        """Values with the axis first, and at its end the layer that the last links lead to."""
        values = np.moveaxis(np.asarray(rows(start, stop), dtype=np.float64), place, 0)
        if place == 0 and (stop < u.shape[0] or problem.lattice.periodic[axis]):
            values = np.concatenate([values, rows(stop % u.shape[0], stop % u.shape[0] + 1)])
        elif place != 0 and problem.lattice.periodic[axis]:
            values = np.concatenate([values, values[:1]])
        return values

    line = problem.lattice.axes[axis]
    rows = np.arange(start, stop) if place == 0 else np.arange(line.nodes)
    links, shape = rows[rows < line.gaps.size], (-1,) + (1,) * (u.ndim - 1)
    gaps = line.gaps[links].reshape(shape)
    lengths = line.gaps.copy()
    for end, rule in enumerate(line.rules):
        if rule is Rule.FIXED:
            lengths[-end] += line.offsets[end]  # the slope is the same up to an open face beyond the node
    weights = (lengths * line.sections)[links].reshape(shape)
    density = (np.diff(along(lambda low, high: u[low:high]), axis=0) / gaps) ** 2 * weights
    if surface := discretisation.surface:
        density *= np.moveaxis(surface.link_coefficients(axis)[start:stop], place, 0)[: len(density)]
    elif a is not None:
        density *= a
    else:
        nodes = along(partial(discretisation.a, np))
        density *= sampling.link_mean(problem.mean, nodes[:-1], nodes[1:])
    density = np.moveaxis(density, 0, place) / problem.lattice.scale(axis, ((0, u.shape[-1]),)) ** 2
    return float((density * _volumes(discretisation, start, stop, across=axis)).sum())


def _rows_of(discretisation: Discretisation, start: int, stop: int) -> Block:
    return ((start, stop), *((0, count) for count in discretisation.array_shape[1:]))


def _volumes(discretisation: Discretisation, start: int, stop: int, across: int | None = None) -> NDArray[np.float64]:
    """The volumes of some rows of nodes, in L^d, in a shape that broadcasts; or their areas across an axis."""
    lattice = discretisation.whole_lattice
    found = np.full((1,) * len(discretisation.array_shape), lattice.turn)
    for axis, line in enumerate(discretisation.problem.lattice.axes):
        if axis != across:
            along = line.lengths[start:stop] if lattice.array_axis(axis) == 0 else line.lengths
            found = found * lattice.along(axis, along)
    return found
