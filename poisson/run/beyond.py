# SPDX-License-Identifier: MIT
"""u and its gradient beyond a box all of whose faces are open: the field of the charges on its faces.

Each of the nodes around a point has the lattice Green's function of every charge. As the heat kernels are products of
one factor for each axis, so is their interpolation between nodes, by cubics as within the box.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from poisson.discrete.discretisation import Discretisation
from poisson.discrete.face_fields import FaceFields
from poisson.discrete.green import Times
from poisson.errors import GridError
from poisson.mesh.interpolation import interpolate
from poisson.run.open_space import beyond

if TYPE_CHECKING:
    from poisson.run.solution import Solution

Values = NDArray[np.float64]

AROUND = np.arange(-1, 3)
"""The nodes that a cubic goes through, from that below a point."""
FARTHEST = 20_000
"""Spacings to the farthest point: a table has so many distances, for some 200 times."""


class Beyond:
    """The field beyond the box of a solution.

    Raises `GridError` if not all faces are open, the grid has one axis, or these are others than x, y and z.
    """

    def __init__(self, solution: Solution) -> None:
        problem = solution.problem
        self.lattice = problem.lattice
        if not problem.open_faces or not all(problem.open_faces) or self.lattice.dimension < 2:
            raise GridError(
                "a point lies outside of the box; allowed: points inside, unless all faces are open in x, y, z"
            )
        discretisation = Discretisation(problem)
        faces = range(2 * self.lattice.dimension)
        self.far = beyond(discretisation, list(faces))
        self.u = np.asarray(solution.host_u, dtype=np.float64)
        fields = FaceFields(self.far, problem.open_faces, np)
        source = discretisation.source(np, 0, self.u.shape[0])
        fields.take(self.u, source, False)
        self.charges = fields.charges(self.u)[1]

    def at(self, point: tuple[float, ...]) -> tuple[float, Values]:
        """u at a point, and its gradient."""
        lattice = self.lattice
        first = [axis.coordinates[0] for axis in lattice.axes]
        place = [(x - low) / h for x, low, h in zip(point, first, lattice.spacing, strict=True)]
        around = [int(np.floor(p)) + AROUND for p in place]
        farthest = max(int(np.abs(nodes).max()) + count + 1 for nodes, count in zip(around, lattice.shape, strict=True))
        if farthest > FARTHEST:
            raise GridError(f"a point {farthest} spacings away; allowed: at most {FARTHEST}")
        lines = [(farthest, coupling) for coupling in self.far.couplings]
        times = Times.of(lines, self.far, self.far.c)
        kernels = [times.kernels(farthest, coupling) for coupling in self.far.couplings]
        weights = [_cubic(p, nodes) for p, nodes in zip(place, around, strict=True)]
        values = [self._value(times, kernels, around, [each[0] for each in weights])]
        for axis, h in enumerate(lattice.spacing):
            slopes = [each[1] / h if other == axis else each[0] for other, each in enumerate(weights)]
            values.append(self._value(times, kernels, around, slopes))
        return values[0], np.array(values[1:])

    def _value(self, times: Times, kernels: list[Values], around: list[Any], weights: list[Values]) -> float:
        """The value of u at a point by the weights of the nodes around it."""
        lattice, total = self.lattice, 0.0

        def of(axis: int, nodes: Any) -> Values:
            distances = np.abs(around[axis][:, np.newaxis] - nodes)
            return np.asarray(np.einsum("m,tmn->tn", weights[axis], kernels[axis][:, distances]))

        columns = [of(axis, np.arange(count)) for axis, count in enumerate(lattice.shape)]
        for (face, is_beyond), charges in self.charges.items():
            axis, upper = divmod(face, 2)
            end = (lattice.shape[axis] - 1) * upper
            across = of(axis, np.array([end + is_beyond * (1 if upper else -1)]))[:, 0] * times.weights
            first, *others = (columns[other] for other in reversed(range(lattice.dimension)) if other != axis)
            along = first @ charges
            total += float(across @ ((along * others[0]).sum(axis=1) if others else along))
        # Of the nodes around that are in the box the charges have nothing.
        inside = [(nodes >= 0) & (nodes < count) for nodes, count in zip(around, lattice.shape, strict=True)]
        if all(some.any() for some in inside):
            part = self.u[np.ix_(*(nodes[some] for nodes, some in zip(around[::-1], inside[::-1], strict=True)))]
            for weight, some in zip(weights[::-1], inside[::-1], strict=True):
                part = np.tensordot(weight[some], part, axes=(0, 0))
            total += float(part)
        return total


def at_points(solution: Solution, points: Sequence[Any], values: NDArray[Any], field: str) -> NDArray[Any]:
    """A field at points of which some lie beyond the box: ``u``, ``gradient`` or ``E``, given at the nodes.

    Raises `GridError` as `interpolate` and `Beyond` do.
    """
    lattice = solution.problem.lattice
    try:
        places = list(np.broadcast_arrays(*(np.asarray(given, dtype=np.float64) for given in points)))
    except (TypeError, ValueError):
        places = []
    if len(places) != lattice.dimension or not all(np.isfinite(place).all() for place in places):
        return interpolate(lattice, values, points)  # which says what is wrong
    outside, found = Beyond(solution), []
    bounds = list(zip(lattice.lower, lattice.upper, strict=True))
    for point in zip(*(place.ravel().tolist() for place in places), strict=True):
        if all(low <= x <= high for x, (low, high) in zip(point, bounds, strict=True)):
            found.append(interpolate(lattice, values, point))
            continue
        u, gradient = outside.at(point)
        found.append(np.asarray(u if field == "u" else -gradient if field == "E" else gradient))
    return np.asarray(found, dtype=values.dtype).reshape((*places[0].shape, *values.shape[lattice.dimension :]))


def _cubic(place: float, nodes: Any) -> tuple[Values, Values]:
    """The weights of nodes for the value and for the slope of the cubic through them."""
    vandermonde = np.vander(nodes - place, 4, increasing=True).T
    return np.linalg.solve(vandermonde, np.array([1.0, 0, 0, 0])), np.linalg.solve(
        vandermonde, np.array([0, 1.0, 0, 0])
    )
