# SPDX-License-Identifier: MIT
"""The functions of a problem on blocks of its nodes, in the layout of the backends' arrays.

A backend's arrays have at least two axes: a 1D problem has one row, of shape ``(1, nx)``.
"""

import contextlib
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np

from poisson.errors import CaseError
from poisson.mesh.axis import array_axis
from poisson.mesh.boundary import Rule
from poisson.mesh.grid import AXES
from poisson.mesh.lattice import Lattice
from poisson.problem.faces import FaceData
from poisson.problem.fields import FieldFile, FunctionField, Range, Stored, stored
from poisson.problem.problem import MEANS, Coefficient, Problem, number
from poisson.problem.user_data import NodeField

Index = tuple[slice | int, ...]

Block = tuple[Range, ...]
"""Nodes of a grid: a range for each axis of a backend's array, the slowest first."""

Writer = Callable[[ModuleType, Any, Block], None]
"""Writes into the values of a function at the nodes of a block."""


def coordinates(lattice: Lattice, xp: ModuleType, block: Block) -> list[Any]:
    """x(, y(, z)) of a block, each in a shape that broadcasts to its."""
    found = []
    for axis, line in enumerate(lattice.axes):
        place = array_axis(axis, len(block))
        shape = [1] * len(block)
        shape[place] = -1
        # Of an array that a function or an argument of xp may write into: a copy.
        found.append(xp.array(line.coordinates[slice(*block[place])].reshape(shape)))
    return found


@dataclass(frozen=True)
class Limit:
    """The condition on every value: finite, or also within an interval that begins at zero."""

    wanted: str
    holds: Callable[[Any], Any]


POSITIVE = Limit("> 0", lambda values: values > 0.0)
NOT_NEGATIVE = Limit(">= 0", lambda values: values >= 0.0)


def limit_of_a(mean: str, a: Coefficient) -> Limit:
    """The limit of a: in an array or a file, whose harmonic means are 0 where it is, it may be 0, and nothing flows.

    A formula is 0 at some nodes by mistake, as a radius is on an axis.
    """
    return NOT_NEGATIVE if mean == MEANS[0] and isinstance(a, Stored) else POSITIVE


def nodes(
    problem: Problem, xp: ModuleType, key: str, values: NodeField, block: Block, limit: Limit | None = None
) -> Any:
    """A function at the nodes of a block.

    `problem`: on whose grid. `xp`: numpy or cupy: where to evaluate. `key`: where the function stands in the case file.
    `values`: the function. `block`: which nodes. `limit`: what every value must be, beside finite. Returns: a new
    float64 array of the block's shape. Raises `CaseError` if a value is not finite, or not within the limit, or a
    Python function returns no such array; the line names the key and the place.
    """
    found = xp.empty(shape_of(block), dtype=xp.float64)
    places = coordinates(problem.lattice, xp, block)
    # The one row of a 1D problem is the whole of a file or an array.
    found[...] = evaluated(key, values, xp, places, block[-problem.lattice.dimension :])
    require_values(xp, key, found, places, limit, problem.lattice.names)
    return found


def faces(lattice: Lattice, rule: Rule, block: Block) -> Iterator[tuple[int, Index]]:
    """The faces with a rule that touch a block, in order of precedence, each with its place in the block.

    The end r = 0 of a radius, which has no area, is none.
    """
    shape = lattice.of_arrays.array_shape
    for face, its_rule in enumerate(lattice.rules):
        upper = face % 2
        if its_rule is not rule or not lattice.axes[face // 2].areas[upper]:
            continue
        place = _place(lattice, face)
        start, stop = block[place]
        if stop < shape[place] if upper else start > 0:
            continue
        where: list[slice | int] = [slice(None)] * len(shape)
        where[place] = -1 if upper else 0
        yield face, tuple(where)


def held_faces(problem: Problem, block: Block) -> Iterator[tuple[int, Index]]:
    """The faces on which data fix u, as `faces` gives them."""
    return (each for each in faces(problem.lattice, Rule.FIXED, block) if problem.faces[each[0]].kind.has_data)


def open_faces(problem: Problem, block: Block) -> Iterator[tuple[int, Index]]:
    """The open faces, as `faces` gives them."""
    return (each for each in faces(problem.lattice, Rule.FIXED, block) if not problem.faces[each[0]].kind.has_data)


def face_value(problem: Problem, xp: ModuleType, face: int, block: Block) -> Any:
    """The boundary data on the part of a face that lies in a block, in a shape that broadcasts to it.

    Raises CaseError if a value is not finite; the line names the key and the place.
    """
    function = problem.faces[face].value
    assert function is not None
    return _on_face(problem.lattice, xp, f"boundary.{problem.lattice.faces[face]}", face, function, block)


def face_alpha(problem: Problem, xp: ModuleType, face: int, block: Block) -> Any:
    """α on the part of a Robin face that lies in a block, as `face_value`; no value may be negative."""
    function = problem.faces[face].alpha
    assert function is not None
    return _on_face(
        problem.lattice, xp, f"boundary.{problem.lattice.faces[face]}.alpha", face, function, block, NOT_NEGATIVE
    )


def face_source(problem: Problem, xp: ModuleType, face: int, block: Block, dielectrics: Writer | None) -> Any:
    """The term of the data of a face without fixed nodes in the source, in U/L²: the flow in over the control width."""
    kind, axis, end = problem.faces[face].kind, problem.lattice.axes[face // 2], face % 2
    long = _scale(problem.lattice, xp, face, block)
    g = axis.inflow[end] / long * face_value(problem, xp, face, block)
    if kind.fixes:
        return g * (axis.walls[end] / long * a_before(problem, xp, face, block, dielectrics))
    return g * _passed(problem, xp, face, block, dielectrics) if kind.takes_alpha and axis.offsets[end] else g


def face_outflow(problem: Problem, xp: ModuleType, face: int, block: Block, dielectrics: Writer | None, u: Any) -> Any:
    """The flow by area out through such a face, in U/L, for u at the nodes next to it."""
    kind, axis, end = problem.faces[face].kind, problem.lattice.axes[face // 2], face % 2
    g = face_value(problem, xp, face, block)
    if kind.fixes:
        conductance = axis.walls[end] / _scale(problem.lattice, xp, face, block)
        return conductance * a_before(problem, xp, face, block, dielectrics) * (u - g)
    if not kind.takes_alpha:
        return -g
    flow = face_alpha(problem, xp, face, block) * u - g
    return flow * _passed(problem, xp, face, block, dielectrics) if axis.offsets[end] else flow


def face_reaction(problem: Problem, xp: ModuleType, face: int, block: Block, dielectrics: Writer | None) -> Any:
    """The term of a Robin face, or of a Dirichlet face half a cell away, in c at the nodes next to it, in 1/L²."""
    axis, end = problem.lattice.axes[face // 2], face % 2
    long = _scale(problem.lattice, xp, face, block)
    if problem.faces[face].kind.fixes:
        return axis.inflow[end] / long * (axis.walls[end] / long * a_before(problem, xp, face, block, dielectrics))
    alpha = axis.inflow[end] / long * face_alpha(problem, xp, face, block)
    return alpha * _passed(problem, xp, face, block, dielectrics) if axis.offsets[end] else alpha


def a_before(problem: Problem, xp: ModuleType, face: int, block: Block, dielectrics: Writer | None) -> Any:
    """a in the half cells before a face, that of the cells themselves; a number where it is constant.

    `dielectrics`: writes a at the nodes inside of them into those of a block.
    """
    constant, a, end = number(problem.a), problem.a, _end(problem, face, block)
    if constant is not None and dielectrics is None:
        return constant
    if isinstance(a, (int, float)):
        values = xp.full(shape_of(end), float(a))
    else:
        values = nodes(problem, xp, "equation.a", a, end, limit_of_a(problem.mean, a))
    if dielectrics is not None:
        dielectrics(xp, values, end)
    return values.squeeze(_place(problem.lattice, face))


def link_mean(mean: str, one: Any, other: Any) -> Any:
    """a on the link between two nodes, from its values there."""
    return 2.0 / (1.0 / one + 1.0 / other) if mean == MEANS[0] else (one + other) / 2.0


def _passed(problem: Problem, xp: ModuleType, face: int, block: Block, dielectrics: Writer | None) -> Any:
    """The part of a flow at a Robin face half a cell away that is left at the nodes: 1 / (1 + α d / a), 0 for a = 0."""
    a = a_before(problem, xp, face, block, dielectrics)
    distance = problem.lattice.axes[face // 2].offsets[face % 2] * _scale(problem.lattice, xp, face, block)
    over: Any = a if isinstance(a, float) else xp.where(a > 0.0, a, 1.0)
    return 1.0 / (1.0 + distance * face_alpha(problem, xp, face, block) / over) * (a > 0.0)


def _scale(lattice: Lattice, xp: ModuleType, face: int, block: Block) -> Any:
    """The length of a unit across a face, in a shape that broadcasts to that of the face."""
    found = lattice.scale(face // 2, block)
    return found if isinstance(found, float) else xp.asarray(found)


def _end(problem: Problem, face: int, block: Block) -> Block:
    """The layer of a block that is next to a face."""
    place = _place(problem.lattice, face)
    start, stop = block[place]
    return (*block[:place], (stop - 1, stop) if face % 2 else (start, start + 1), *block[place + 1 :])


def _on_face(
    lattice: Lattice, xp: ModuleType, key: str, face: int, function: FaceData, block: Block, limit: Limit | None = None
) -> Any:
    """A function on the part of a face that lies in a block."""
    if (constant := constant_of(function, limit)) is not None:
        return xp.asarray(constant)
    places = coordinates(lattice, xp, block)
    place = _place(lattice, face)
    places[face // 2] = xp.full((1,) * len(block), lattice.axes[face // 2].interval[face % 2])
    along = block[:place] + block[place + 1 :]
    values = xp.asarray(evaluated(key, function, xp, places, along), dtype=xp.float64)
    if isinstance(function, Stored):
        values = xp.expand_dims(values, place)
    require_values(xp, key, values, places, limit, lattice.names)
    return values.reshape(values.shape[:place] + values.shape[place + 1 :]) if values.ndim else values


def constant_of(function: FaceData, limit: Limit | None) -> float | None:
    """The value of a formula without coordinates, if it is one that may be; else None."""
    value = number(function)
    right = value is not None and math.isfinite(value) and (limit is None or limit.holds(value))
    return value if right else None


def shape_of(block: Block) -> tuple[int, ...]:
    """Nodes of a block along each axis of an array."""
    return tuple(stop - start for start, stop in block)


def _place(lattice: Lattice, face: int) -> int:
    """The array axis that a face is at an end of."""
    return array_axis(face // 2, lattice.of_arrays.dimension)


def evaluated(key: str, given: NodeField, xp: ModuleType, places: Sequence[Any], ranges: Sequence[Range]) -> Any:
    """The values at some points, or those that an array or a file has for them in a range along each of its axes.

    Raises CaseError if they cannot be read, or a Python function returns no real numbers, or an array whose shape
    does not broadcast to that of the points.
    """
    try:
        values = stored(given, xp, ranges) if isinstance(given, Stored) else given(xp, *places)
    except CaseError as error:
        if isinstance(given, FieldFile):
            raise
        raise CaseError(f"{key}: {error}") from error
    if not isinstance(given, FunctionField):
        return values
    if values.dtype.kind not in "fiub":
        raise CaseError(f"{key}: the function returns values of type {values.dtype}; allowed: real numbers")
    points = np.broadcast_shapes(*(place.shape for place in places))
    with contextlib.suppress(ValueError):
        if np.broadcast_shapes(values.shape, points) == points:
            return values
    shapes = f"an array of the shape {values.shape} for points of the shape {points}"
    raise CaseError(
        f"{key}: the function returns {shapes}; allowed: a number, or an array that broadcasts to that shape"
    )


def require_values(
    xp: ModuleType, key: str, values: Any, places: Sequence[Any], limit: Limit | None, axes: Sequence[str] = AXES
) -> None:
    """Refuse values that are not finite, or not within a limit.

    Raises CaseError with the key, the first such value and its place.
    """
    # What holds for the least and the largest value holds for all of them; a NaN is both. They are looked at on the
    # host: each function of a device that is not asked for need not be compiled.
    ends = np.array([float(values.min()), float(values.max())])
    if np.isfinite(ends).all() and (limit is None or limit.holds(ends).all()):
        return
    limits = [Limit("finite", xp.isfinite), *([limit] if limit else [])]
    wrong = next(each for each in limits if not bool(each.holds(values).all()))
    first = [int(index) for index in xp.argwhere(~wrong.holds(values))[0]]
    names = []
    for axis, name in enumerate(axes[: len(places)]):
        along = places[axis].ravel()
        index = first[array_axis(axis, len(first))] if first else 0
        names.append(f"{name} = {float(along[min(index, along.size - 1)]):.6g}")
    raise CaseError(f"{key}: {float(values[tuple(first)])} at {', '.join(names)}; every value must be {wrong.wanted}")
