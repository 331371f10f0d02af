# SPDX-License-Identifier: MIT
"""Samples of a field for a picture: the values on a line, a plane or the box, on no more nodes than a picture can show.

A field may be as large as its file: it is asked for a few planes and strides, never for all of itself.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from poisson.discrete.discretisation import Discretisation
from poisson.errors import CaseError
from poisson.mesh.grid import AXES
from poisson.mesh.lattice import Lattice
from poisson.mesh.system import ANGLE, RADIUS
from poisson.output.record import Record
from poisson.words import article

ERROR = "error"
"""The field that can be drawn without being there, where the exact solution is known."""

SMALLEST = 1e-100
"""The least value that is not drawn as zero; values above its inverse are drawn as not finite, so that differences do
not
overflow."""

ROUNDING = 1e-12
"""Differences below this part of the largest value are rounding errors in float64."""

_ROUNDING_SINGLE = 1e-6
"""The same in float32."""

CURVED = 501
"""Places along x and y of a picture of a disc."""

_ON_NODE = 1e-6
"""Parts of a spacing by which a plane may miss the nodes and still be theirs."""


@dataclass(frozen=True)
class FieldSample:
    """A field on some nodes of a line, a plane or the box.

    `axes`: those along which it goes, x before y before z. `coordinates` (tuple of float array): of its nodes along
    each of them. On a periodic axis the last node is the first one again. `values` (float array): with the axes in the
    order of the other arrays, x last, and after them the components of a vector. `rounding`: of the largest value: what
    the type of the field rounds to, and somewhat more. `names`: those of the axes.
    """

    axes: tuple[int, ...]
    coordinates: tuple[NDArray[np.float64], ...]
    values: NDArray[Any]
    rounding: float = ROUNDING
    names: tuple[str, ...] = AXES


def names(record: Record) -> list[str]:
    """The fields that can be drawn."""
    there = ["u", *record.fields]
    return [*there, ERROR] if ERROR not in there and _exact_fits(record) else there


def component_names(record: Record) -> list[str]:
    """The components of the vectors among them, such as ``E_x``."""
    dimension, axes = record.problem.lattice.dimension, record.problem.lattice.names
    vectors = [name for name, values in record.fields.items() if values.ndim > dimension]
    return [f"{name}_{axis}" for name in vectors for axis in axes]


def sample(record: Record, name: str, at: Mapping[int, float], most: int) -> FieldSample:
    """Some values of a field.

    `record`: whose arrays are in memory, on a device or in a file. `name`: one of `names` or `component_names`. `at`:
    the coordinates of the line or plane along the axes that it does not go along. Between nodes the values are
    interpolated. `most`: of nodes along an axis, about.
    """
    grid = record.problem.lattice
    shown = tuple(axis for axis in range(grid.dimension) if axis not in at)
    places = [_node(grid, axis, at[axis]) if axis in at else _nodes(grid, axis, most) for axis in range(grid.dimension)]
    runs = [place.runs for place in reversed(places)]
    if name == ERROR and name not in record.fields:
        values = _gathered(record.u, runs) - _exact(record, places)
    else:
        fields = {"u": record.u, **record.fields}
        vector, _, component = name.rpartition("_")
        values = _gathered(fields[vector or name], runs)
        if vector:
            values = values[..., grid.names.index(component)]
    rounding = _ROUNDING_SINGLE if values.dtype == np.float32 else ROUNDING
    for axis in at:
        position = grid.dimension - 1 - axis
        weights = places[axis].weights.reshape([-1 if i == position else 1 for i in range(values.ndim)])
        values = (values * weights).sum(axis=position, keepdims=True)
    kept = tuple(place.coordinates for axis, place in enumerate(places) if axis in shown)
    components = values.shape[grid.dimension :]
    shape = tuple(along.size for along in reversed(kept)) + components
    drawn = np.array(values, dtype=np.float64).reshape(shape)
    drawn[np.abs(drawn) > 1.0 / SMALLEST] = np.nan
    drawn[np.abs(drawn) < SMALLEST] = 0.0
    found = FieldSample(shown, kept, drawn, rounding, tuple(grid.names[axis] for axis in shown))
    return on_plane(found, grid) if found.names == (RADIUS, ANGLE) else found


def on_plane(polar: FieldSample, grid: Lattice) -> FieldSample:
    """A sample along r and φ at places x, y on the plane, bilinear, and not finite beside the disc or the sector."""
    (low, high), (start, stop) = (grid.axes[axis].interval for axis in (0, 1))
    rim = np.linspace(start, stop, CURVED)
    corners = [np.outer((low, high), way(rim)) for way in (np.cos, np.sin)]
    x, y = (np.linspace(corner.min(), corner.max(), CURVED) for corner in corners)
    radius, angle = np.hypot(x, y[:, np.newaxis]), np.arctan2(y[:, np.newaxis], x)
    turned = start + np.mod(angle - start + _ON_NODE, 2.0 * math.pi) - _ON_NODE
    values: Any = 0.0
    (r, in_r), (phi, in_phi) = (_beside(*pair) for pair in zip(polar.coordinates, (radius, turned), strict=True))
    for up, part_up in ((0, 1.0 - in_phi), (1, in_phi)):
        for out, part_out in ((0, 1.0 - in_r), (1, in_r)):
            weight = (part_up * part_out).reshape(angle.shape + (1,) * (polar.values.ndim - 2))
            values = values + weight * polar.values[phi + up, r + out]
    if values.ndim > 2:
        outward, around = values[..., 0].copy(), values[..., 1].copy()
        values[..., 0] = outward * np.cos(angle) - around * np.sin(angle)
        values[..., 1] = outward * np.sin(angle) + around * np.cos(angle)
    slack = _ON_NODE * high
    values[(radius < low - slack) | (radius > high + slack) | (turned > stop + _ON_NODE)] = np.nan
    return FieldSample((0, 1), (x, y), values, polar.rounding)


def _beside(own: NDArray[np.float64], wanted: NDArray[np.float64]) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """The node below each of some coordinates, and the part of the way to the next one; 0 or 1 beyond the nodes."""
    lower = np.clip(np.searchsorted(own, wanted, side="right") - 1, 0, own.size - 2)
    return lower, np.clip((wanted - own[lower]) / (own[lower + 1] - own[lower]), 0.0, 1.0)


def middle(grid: Lattice, axis: int) -> float:
    """The coordinate of the node in the middle of an axis."""
    return float(grid.coordinates(axis)[grid.shape[axis] // 2])


def places_of(given: str | Mapping[str, float], grid: Lattice) -> dict[int, float]:
    """Where a picture cuts through the box, from a text such as ``"z=0.5"`` or a mapping.

    Raises `CaseError` if it names no axis of the grid, a coordinate outside of the box, or leaves no axis to draw
    along.
    """
    axes = grid.names
    example = f"such as {axes[-1]}={middle(grid, grid.dimension - 1):.4g}"
    if isinstance(given, str):
        pairs: list[tuple[Any, Any]] = [(part.partition("=")[0], part.partition("=")[2]) for part in given.split(",")]
    elif isinstance(given, Mapping):
        pairs = list(given.items())
    else:
        raise CaseError(f"slice: {article(type(given).__name__)}; allowed: a string {example}, or a mapping")
    found: dict[int, float] = {}
    for name, value in pairs:
        axis = str(name).strip()
        if axis not in axes:
            raise CaseError(f"slice: {axis!r}; allowed: {', '.join(axes)}, {example}")
        index = axes.index(axis)
        low, high = grid.lower[index], grid.upper[index]
        try:
            place = float(value)
        except (TypeError, ValueError):
            raise CaseError(f"slice: {axis}={value}; allowed: a number, {example}") from None
        if not low <= place <= high:
            raise CaseError(f"slice: {axis}={place:g}; allowed: from {low:g} to {high:g}, where the box is")
        if index in found:
            raise CaseError(f"slice: {axis} is given twice; allowed: each axis once")
        found[index] = place
    if len(found) == grid.dimension:
        raise CaseError(f"slice: {', '.join(axes)} are all given; leave out the one or two axes to draw along")
    return found


def resampled(values: FieldSample, coordinates: tuple[NDArray[np.float64], ...]) -> NDArray[np.float64]:
    """The values at other coordinates, which lie within those of the sample, linearly interpolated."""
    found = values.values
    dimension = len(values.axes)
    for index, (own, wanted) in enumerate(zip(values.coordinates, coordinates, strict=True)):
        position = dimension - 1 - index
        lower, weight = _beside(own, wanted)
        weight = weight.reshape([-1 if i == position else 1 for i in range(found.ndim)])
        found = np.take(found, lower, position) * (1.0 - weight) + np.take(found, lower + 1, position) * weight
    return found


@dataclass(frozen=True)
class _AxisNodes:
    """Nodes along an axis: in which ranges they stand, where they are, and how they are joined to one value."""

    runs: tuple[slice, ...]
    coordinates: NDArray[np.float64]
    weights: NDArray[np.float64]


def _nodes(grid: Lattice, axis: int, most: int) -> _AxisNodes:
    """Equally many nodes apart, with both ends of the axis."""
    count = grid.shape[axis]
    stride = max(1, math.ceil((count - 1) / (most - 1)))
    runs, along = [slice(0, count, stride)], grid.coordinates(axis)
    coordinates = along[::stride]
    if grid.periodic[axis]:
        runs.append(slice(0, 1))
        coordinates = np.append(coordinates, grid.upper[axis])
    elif (count - 1) % stride:
        runs.append(slice(count - 1, count))
        coordinates = np.append(coordinates, along[-1])
    return _AxisNodes(tuple(runs), coordinates, np.ones(coordinates.size))


def _node(grid: Lattice, axis: int, place: float) -> _AxisNodes:
    """The node at a coordinate, or the two beside it."""
    count, along = grid.shape[axis], grid.coordinates(axis)
    if grid.periodic[axis]:
        along = np.append(along, grid.upper[axis])
    lower = int(np.clip(np.searchsorted(along, place, side="right") - 1, 0, along.size - 2))
    part = (place - along[lower]) / (along[lower + 1] - along[lower])
    if min(part, 1.0 - part) < _ON_NODE:
        node = (lower + round(part)) % count
        return _AxisNodes((slice(node, node + 1),), np.array([place]), np.ones(1))
    runs = tuple(slice(node % count, node % count + 1) for node in (lower, lower + 1))
    return _AxisNodes(runs, np.array([place]), np.array([1.0 - part, part]))


def _gathered(values: Any, runs: list[tuple[slice, ...]], index: tuple[slice, ...] = ()) -> NDArray[Any]:
    """The values at all combinations of the ranges along the axes."""
    axis = len(index)
    if axis == len(runs):
        part = values[index]
        return part if isinstance(part, np.ndarray) else np.asarray(part.get())
    return np.concatenate([_gathered(values, runs, (*index, run)) for run in runs[axis]], axis=axis)


def _exact(record: Record, places: list[_AxisNodes]) -> Any:
    grid, exact = record.problem.lattice, record.problem.exact
    assert exact is not None
    points = []
    for axis, place in enumerate(places):
        along = np.concatenate([grid.coordinates(axis)[run] for run in place.runs])
        points.append(along.reshape([-1 if i == grid.dimension - 1 - axis else 1 for i in range(grid.dimension)]))
    return exact(np, *points)


def _exact_fits(record: Record) -> bool:
    """Whether u is to be the exact solution itself, and not that but for a constant."""
    problem = record.problem
    return problem.exact is not None and not Discretisation(problem).singular
