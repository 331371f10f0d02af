# SPDX-License-Identifier: MIT
"""Values between the nodes of a grid, by cubics through the four nearest nodes along each axis.

Near a face the four lie on one side, on a periodic axis they wrap around; three nodes have parabolas. The weights are
Lagrange's in the coordinates themselves, so that the nodes need not be equally spaced. The error is of fourth order
(third with parabolas) where u is smooth; that of the values at the nodes, of second order, remains.
"""

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from poisson.errors import GridError
from poisson.mesh.axis import array_axis
from poisson.mesh.lattice import Lattice

NODES = 4
"""The number of nodes that a cubic goes through."""

AT_ONCE = 1 << 16
"""Points that are interpolated at once, as each takes many temporary values."""


def interpolate(grid: Lattice, values: NDArray[Any], points: Sequence[Any]) -> NDArray[Any]:
    """Values at points between the nodes.

    `grid`: the nodes. `values` (float array): of the grid's ``array_shape``, or with the components of a vector behind
    that; of an array in a file the part around few points is read. `points` (sequence of float array): x(, y(, z)) of
    the points in L, in shapes that broadcast against each other. Returns: an array of the shape that the coordinates
    broadcast to, with the components of a vector behind that; of the type of `values`. Raises `GridError` if there is
    not one coordinate for each axis, their shapes do not fit, one is not finite, or a point lies outside of the box
    along an axis that is not periodic.
    """
    places = places_of(grid, points)
    shape, components = places[0].shape, values.shape[grid.dimension :]
    flat = [place.ravel() for place in places]
    if flat[0].size > AT_ONCE:
        values = np.asarray(values)
    found = np.empty((flat[0].size, *components), dtype=values.dtype)
    for start in range(0, found.shape[0], AT_ONCE):
        part = slice(start, start + AT_ONCE)
        found[part] = _interpolated(grid, values, [place[part] for place in flat])
    return found.reshape((*shape, *components))


def places_of(grid: Lattice, points: Sequence[Any]) -> tuple[NDArray[np.float64], ...]:
    """The coordinates of points in arrays of one shape.

    Raises `GridError` as `interpolate`.
    """
    names = grid.names
    if len(points) != grid.dimension:
        raise GridError(f"coordinates: {len(points)} given; this grid needs {', '.join(names)}")
    try:
        places = np.broadcast_arrays(*(np.asarray(given, dtype=np.float64) for given in points))
    except (TypeError, ValueError) as error:
        raise GridError(
            f"{', '.join(names)}: numbers or arrays that broadcast are needed ({' '.join(str(error).split())})"
        ) from None
    for name, low, high, wraps, place in zip(names, grid.lower, grid.upper, grid.periodic, places, strict=True):
        _require_inside(name, low, high, wraps, place)
    return tuple(places)


def _require_inside(name: str, low: float, high: float, wraps: bool, places: NDArray[np.float64]) -> None:
    wrong = ~np.isfinite(places) if wraps else ~((places >= low) & (places <= high))
    if wrong.any():
        wanted = "a finite number" if wraps else f"within [{low:g}, {high:g}]"
        raise GridError(f"{name} = {places[wrong][0]:.9g}: outside of the box; allowed: {wanted}")


def _interpolated(grid: Lattice, values: NDArray[Any], places: Sequence[NDArray[np.float64]]) -> NDArray[np.float64]:
    periods = [extent if wraps else 0.0 for extent, wraps in zip(grid.extent, grid.periodic, strict=True)]
    along = [nodes_and_weights(grid.coordinates(axis), periods[axis], place) for axis, place in enumerate(places)]
    if not isinstance(values, np.ndarray):
        around = [slice(int(nodes.min()), int(nodes.max()) + 1) for nodes, _ in along]
        values = values[tuple(reversed(around))]
        along = [(nodes - part.start, weights) for part, (nodes, weights) in zip(around, along, strict=True)]
    components = (1,) * (values.ndim - grid.dimension)
    found = np.zeros((places[0].size, *values.shape[grid.dimension :]))
    for entry in itertools.product(*(range(nodes.shape[1]) for nodes, _ in along)):
        index: list[Any] = [None] * grid.dimension
        weight = np.ones(places[0].size)
        for axis, number in enumerate(entry):
            nodes, weights = along[axis]
            index[array_axis(axis, grid.dimension)] = nodes[:, number]
            weight = weight * weights[:, number]
        found += weight.reshape(-1, *components) * values[tuple(index)]
    return found


def nodes_and_weights(
    coordinates: NDArray[np.float64], period: float, places: NDArray[np.float64]
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """The nodes of an axis that each place is interpolated from, and their weights, both of shape (places, 4), or 3.

    `coordinates`: of all nodes. `period`: of the axis, 0 of one that does not wrap.
    """
    count = coordinates.size
    taken = min(NODES, count)
    if period:
        places = coordinates[0] + np.mod(places - coordinates[0], period)
        coordinates = np.concatenate([coordinates + turn * period for turn in (-1, 0, 1)])
    cell = np.searchsorted(coordinates, places, side="right") - 1
    first = np.clip(cell - (taken - 2) // 2 - (taken - 2) % 2, 0, coordinates.size - taken)
    nodes = first[:, np.newaxis] + np.arange(taken)
    at = coordinates[nodes]
    weights = np.ones(nodes.shape)
    for one, other in itertools.permutations(range(taken), 2):
        weights[:, one] *= (places - at[:, other]) / (at[:, one] - at[:, other])
    return nodes % count, weights
