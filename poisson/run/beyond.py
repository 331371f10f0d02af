# SPDX-License-Identifier: MIT
"""u and its gradient beyond a box all of whose faces are open: the field of the charges on its faces.

Each of the nodes around a point has the lattice Green's function of every charge. As the heat kernels are products of
one factor for each axis, so is their interpolation between nodes, by cubics as within the box. Around an axis the field
at the nodes is a sum of waves (`poisson.discrete.radial_beyond`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from poisson.discrete.discretisation import Discretisation
from poisson.discrete.face_fields import FaceFields
from poisson.discrete.green import Times
from poisson.discrete.radial_beyond import field_beyond
from poisson.errors import GridError
from poisson.mesh.interpolation import interpolate
from poisson.mesh.system import CARTESIAN
from poisson.run.open_space import beyond

if TYPE_CHECKING:
    from poisson.run.solution import Solution

Values = NDArray[np.float64]

AROUND = np.arange(-1, 3)
"""The nodes that a cubic goes through, from that below a point."""
FARTHEST = 20_000
"""Spacings to the farthest point: a table has so many distances, for some 200 times."""
FARTHEST_AROUND = 4_000
"""The same around an axis: of three times as many waves each has a chain of so many nodes."""


class Beyond:
    """The field beyond the box of a solution.

    Raises `GridError` if not all faces are open, the grid has one axis, or these are others than x, y, z, or r and z.
    """

    def __init__(self, solution: Solution) -> None:
        problem = solution.problem
        self.lattice = problem.lattice
        self._radial = self.lattice.system != CARTESIAN
        outer = problem.open_faces[self._radial :]
        if not outer or not all(outer) or self.lattice.dimension < 2:
            raise GridError(
                "a point lies outside of the box; allowed: points inside, unless all faces are open in x, y, z, or all "
                "but the inner end of r in r, z"
            )
        discretisation = Discretisation(problem)
        faces = range(self._radial, 2 * self.lattice.dimension)
        self.far = beyond(discretisation, list(faces))
        self.u = np.asarray(solution.host_u, dtype=np.float64)
        fields = FaceFields(self.far, problem.open_faces, np)
        source = discretisation.source(np, 0, self.u.shape[0])
        fields.take(self.u, source, False)
        self.charges, self._own = fields.charges(self.u)[1], fields.own

    def at(self, points: Values) -> tuple[Values, Values]:
        """u at points, shape ``(n, axes)``, and its gradient there, of the same shape."""
        lattice = self.lattice
        first = [axis.coordinates[0] for axis in lattice.axes]
        places = (points - first) / np.array(lattice.spacing)
        around = np.floor(places).astype(np.int64)[..., np.newaxis] + AROUND
        if self._radial:
            if (below := points[:, 0] < lattice.lower[0]).any():
                raise GridError(f"r = {points[below][0, 0]:g}; allowed: from {lattice.lower[0]:g} on")
            around[:, 0] -= np.minimum(around[:, 0, :1], 0)
        farthest = int((np.abs(around).max(axis=(0, 2)) + lattice.shape).max()) + 1
        limit = FARTHEST_AROUND if self._radial else FARTHEST
        if farthest > limit:
            raise GridError(f"a point {farthest} spacings away; allowed: at most {limit}")
        if self._radial:
            return self._around_an_axis(places, around)
        found = [self._of_charges(*each) for each in zip(places, around, strict=True)]
        return np.array([u for u, _ in found]), np.array([gradient for _, gradient in found])

    def _around_an_axis(self, places: Values, around: Any) -> tuple[Values, Values]:
        values = field_beyond(self.far, self.charges, self._own, around[:, 0], around[:, 1])
        radii, heights = np.broadcast_arrays(around[:, 0, :, np.newaxis], around[:, 1, np.newaxis])
        inside = (radii < self.lattice.shape[0]) & (heights >= 0) & (heights < self.lattice.shape[1])
        values[inside] += self.u[heights[inside], radii[inside]]
        found, (h, k) = np.empty((len(places), 3)), self.lattice.spacing
        for point, (place, nodes, of_nodes) in enumerate(zip(places, around, values, strict=True)):
            (by_r, slope_r), (by_z, slope_z) = (_cubic(*each) for each in zip(place, nodes, strict=True))
            found[point] = by_r @ of_nodes @ by_z, slope_r @ of_nodes @ by_z / h, by_r @ of_nodes @ slope_z / k
        return found[:, 0], found[:, 1:]

    def _of_charges(self, place: Values, around: Any) -> tuple[float, Values]:
        """u at a point, and its gradient; `place`, `around`: its place in spacings, and the nodes around it."""
        lattice, around = self.lattice, list(around)
        farthest = max(int(np.abs(nodes).max()) + count + 1 for nodes, count in zip(around, lattice.shape, strict=True))
        lines = [(farthest, coupling) for coupling in self.far.couplings]
        times = Times.of(lines, self.far, self.far.c)
        kernels = [times.kernels(farthest, coupling) for coupling in self.far.couplings]
        weights = [_cubic(p, nodes) for p, nodes in zip(place.tolist(), around, strict=True)]
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
    bounds = list(zip(lattice.lower, lattice.upper, strict=True))
    given = np.stack([place.ravel() for place in places], axis=-1)
    inside = np.array([all(low <= x <= high for x, (low, high) in zip(point, bounds, strict=True)) for point in given])
    found = np.empty((len(given), *values.shape[lattice.dimension :]), dtype=values.dtype)
    found[inside] = interpolate(lattice, values, tuple(given[inside].T))
    u, gradient = Beyond(solution).at(given[~inside])
    found[~inside] = u if field == "u" else -gradient if field == "E" else gradient
    return found.reshape((*places[0].shape, *values.shape[lattice.dimension :]))


def _cubic(place: float, nodes: Any) -> tuple[Values, Values]:
    """The weights of nodes for the value and for the slope of the cubic through them."""
    vandermonde = np.vander(nodes - place, 4, increasing=True).T
    return np.linalg.solve(vandermonde, np.array([1.0, 0, 0, 0])), np.linalg.solve(
        vandermonde, np.array([0, 1.0, 0, 0])
    )
