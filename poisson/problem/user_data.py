# SPDX-License-Identifier: MIT
"""Fields, the exact solution, axes and the conditions of faces from what users give in Python."""

from __future__ import annotations

import contextlib
import difflib
from collections.abc import Iterator, Mapping, Sequence
from operator import index
from typing import Any

import numpy as np
from numpy.typing import NDArray

from poisson.errors import CaseError, ExpressionError
from poisson.mesh.axis import Axis
from poisson.mesh.boundary import CONDITIONS, FACE_NAMES, ONE_CONDITION, Kind
from poisson.mesh.grid import AXES
from poisson.mesh.lattice import Lattice
from poisson.mesh.placement import Cells, Nodes
from poisson.problem.arrays import REAL, host, is_array
from poisson.problem.expressions import Expression, parse
from poisson.problem.faces import Face, FaceData, require_on_face
from poisson.problem.fields import ArrayField, FieldFile, FunctionField
from poisson.words import article

PERIODIC = Kind.PERIODIC.value
NO_FACE_LEFT = "allowed: nothing, because every face has its own condition"

NodeField = FaceData
"""A function given at every node, as those of faces are: by a text (or a number), a file, an array or a function."""


def node_field(given: Any, lattice: Lattice, name: str) -> NodeField:
    """A field from what a user gives in Python.

    Parameters
    ----------
    given : number, text, function, array or field
        A function takes arrays x(, y, z); an array has the lattice's ``array_shape`` and is not copied.
    lattice : Lattice
        The nodes.
    name : str
        The name of the field, for the message.

    Raises
    ------
    CaseError
        With one line that says what is wrong.
    """
    if type(given) is np.ndarray and given.shape == lattice.array_shape and given.dtype.kind in REAL:
        return ArrayField(given)
    field = _field(given, lattice.dimension, name)
    if isinstance(field, (FieldFile, ArrayField)):
        with _named(name):
            field.check(lattice.array_shape)
    return field


def _field(given: Any, dimension: int, name: str) -> NodeField:
    """A field of any kind, not yet checked against the grid."""
    if isinstance(given, (Expression, FieldFile, FunctionField, ArrayField)):
        return given
    if callable(given) and not getattr(given, "shape", ()):
        return FunctionField(given)
    if isinstance(given, (list, tuple)):
        given = _from_lists(given, name)
    if is_array(given):
        with _named(name):
            array = ArrayField(given)
            if array.shape != ():
                return array
            given = host(given)[()]
    try:
        # NumPy makes a number of a complex one by leaving a part of it out.
        if isinstance(given, np.complexfloating):
            raise TypeError
        return parse(given, dimension, {}) if isinstance(given, str) else Expression.constant(float(given))
    except ExpressionError as error:
        raise CaseError([f"{name}: {given!r}; {error}"]) from None
    except (TypeError, ValueError, OverflowError):
        kind = type(given).__name__
        raise CaseError(
            [f"{name}: {article(kind)}; allowed: a number, an expression, a function of x(, y, z) or an array"]
        ) from None


def _from_lists(given: Sequence[Any], name: str) -> NDArray[Any]:
    """The array that lists of numbers, nested as deep as there are axes, stand for."""
    try:
        return np.asarray(given)
    except ValueError:
        raise CaseError([f"{name}: lists of different lengths; allowed: lists of one length at each depth"]) from None


@contextlib.contextmanager
def _named(name: str) -> Iterator[None]:
    """Within, an error about a value says where that stands."""
    try:
        yield
    except CaseError as error:
        raise CaseError([f"{name}: {error}"]) from error


def exact_solution(given: Any, dimension: int) -> Expression:
    """The exact solution, which derivatives are taken of."""
    field = _field(given, dimension, "exact")
    if isinstance(field, Expression):
        return field
    kind = {FunctionField: "a function", ArrayField: "an array"}.get(type(field), "a file")
    raise CaseError(
        [f"exact: {kind}; allowed: a number or an expression, because derivatives of the exact solution are needed"]
    )


def lattice_of(axes: Any, boundary: Any) -> Lattice:
    """The lattice from what `Problem.on_lattice` is given; of `boundary` which axes are periodic counts.

    Raises
    ------
    CaseError
        With one line that says what is wrong.
    """
    if not isinstance(axes, Sequence) or not 1 <= len(axes) <= 3:
        raise CaseError([f"axes: {_shown(axes)}; allowed: 1, 2 or 3 tables, in the order x(, y(, z))"])
    tables = boundary if isinstance(boundary, Mapping) else {"all": boundary}
    found = []
    for name, table in zip(AXES, axes, strict=False):
        of_all = is_text(tables.get("all"), PERIODIC) and not {f"{name}_lower", f"{name}_upper"} & set(tables)
        kind = Kind.PERIODIC if of_all or is_text(tables.get(name), PERIODIC) else Kind.NEUMANN
        found.append(_axis(name, table, (kind, kind)))
    return Lattice(tuple(found))


def _axis(name: str, table: Any, kinds: tuple[Kind, Kind]) -> Axis:
    if not isinstance(table, Mapping) or len(table) != 1 or not set(table) <= {"nodes", "cells", "uniform"}:
        allowed = '{"nodes": coordinates}, {"cells": their boundaries} or {"uniform": (lower, upper, nodes)}'
        raise CaseError([f"axes: {_shown(table)} along {name}; allowed: {allowed}"])
    [(key, given)] = table.items()
    try:
        if key == "uniform":
            try:
                lower, upper, nodes = given
                ends, count = (float(lower), float(upper)), index(nodes)
            except (TypeError, ValueError):
                raise ValueError(f"{_shown(given)}; allowed: (lower, upper, number of nodes)") from None
            return Lattice.box(ends[:1], ends[1:], (count,), tuple(kind.rule for kind in kinds)).axes[0]
        marks = host(given) if is_array(given) else _from_lists(given, name)
        if marks.ndim != 1 or marks.dtype.kind not in REAL:
            raise ValueError(f"{_shown(given)}; allowed: real numbers in ascending order")
        return Axis.placed({"nodes": Nodes, "cells": Cells}[key](marks, kinds))
    except (CaseError, TypeError, ValueError) as error:
        raise CaseError([f"axes: {key} along {name}: {' '.join(str(error).split())}"]) from error


def box_faces(boundary: Any, nodes: tuple[int, ...]) -> tuple[Face, ...]:
    """The faces from what `Problem.on_box` is given."""
    dimension = len(nodes)
    tables = boundary if isinstance(boundary, Mapping) else {"all": boundary}
    names = FACE_NAMES[: 2 * dimension]
    known = ("all", *AXES[:dimension], *names)
    for name in tables:
        if name not in known:
            near = difflib.get_close_matches(str(name), known, n=1)
            meant = f"; did you mean {near[0]!r}?" if near else ""
            raise CaseError([f"boundary.{name}: unknown key; allowed: {', '.join(known)}{meant}"])
    faces = []
    wraps_all = is_text(tables.get("all"), PERIODIC)
    for face, name in enumerate(names):
        axis = tables.get(name[0])
        if axis is not None and not is_text(axis, PERIODIC):
            raise CaseError([f'boundary.{name[0]}: {_shown(axis)}; allowed: "periodic"'])
        if axis is None and name not in tables and "all" not in tables:
            raise CaseError([f'boundary.{name}: missing; allowed: a condition here, under "all", or a periodic axis'])
        if axis is not None and name in tables:
            raise CaseError(
                [f'boundary.{name}: {_shown(tables[name])}; allowed: nothing together with {name[0]} = "periodic"']
            )
        if axis is not None or (wraps_all and name not in tables):
            faces.append(Face(Kind.PERIODIC))
        else:
            key = name if name in tables else "all"
            faces.append(_box_face(tables[key], nodes, face, f"boundary.{key}"))
    for face, name in enumerate(names):
        if faces[face].kind.wraps and not faces[face ^ 1].kind.wraps:
            reason = f"because {names[face ^ 1]} has one; {AXES[face // 2]} = 'periodic' makes both faces periodic"
            raise CaseError([f"boundary.{name}: 'periodic'; allowed: a condition, {reason}"])
    if names and "all" in tables and all(name in tables or name[0] in tables for name in names):
        raise CaseError([f"boundary.all: {_shown(tables['all'])}; {NO_FACE_LEFT}"])
    return tuple(faces)


def other_faces(lattice: Lattice, before: tuple[Face, ...], boundary: Any) -> tuple[Face, ...]:
    """The faces with other data: their kinds stay, and so do those that a mapping does not name."""
    names = FACE_NAMES[: 2 * lattice.dimension]
    tables = dict(boundary) if isinstance(boundary, Mapping) else {"all": boundary}
    for face, name in enumerate(names):
        if before[face].kind.wraps:
            if name not in tables:
                tables.setdefault(name[0], PERIODIC)
        elif "all" not in tables and name[0] not in tables:
            tables.setdefault(name, before[face])
    faces = box_faces(tables, lattice.shape)
    for name, old, new in zip(names, before, faces, strict=True):
        if new.kind is not old.kind:
            allowed = f"{old.kind.value}, because the kind of a face cannot change"
            raise CaseError([f"boundary.{name}: {new.kind.value}; allowed: {allowed}"])
    return faces


def _shown(given: Any) -> str:
    """A value on one line of a message."""
    text = " ".join(repr(given).split())
    return text if len(text) <= 60 else f"{text[:57]}..."


def is_text(given: Any, text: str) -> bool:
    """Whether it is that text, and no array, which compares with texts value by value."""
    return isinstance(given, str) and given == text


def _box_face(given: Any, nodes: tuple[int, ...], face: int, name: str) -> Face:
    if is_text(given, PERIODIC):
        axis = AXES[face // 2]
        raise CaseError(
            [f'{name}: {_shown(given)}; allowed: a condition; for both {axis} faces at once {axis} = "periodic"']
        )
    if isinstance(given, Face):
        for part, data in {"value": given.value, "alpha": given.alpha}.items():
            with _named(f"{name}.{part}"):
                require_on_face(data, nodes, face)
        return given
    table = dict(given) if isinstance(given, Mapping) else {Kind.DIRICHLET.value: given}
    alpha = table.pop("alpha", None)
    kinds = {kind.value: kind for kind in CONDITIONS}
    wrong = len(table) != 1 or not set(table) <= set(kinds)
    if wrong or any(kinds[kind].takes_alpha != (alpha is not None) for kind in table):
        raise CaseError([f"{name}: {_shown(given)}; allowed: {ONE_CONDITION}"])
    [(kind, value)] = table.items()
    robin = None if alpha is None else _face_data(alpha, nodes, face, f"{name}.alpha")
    return Face(kinds[kind], _face_data(value, nodes, face, f"{name}.{kind}"), robin)


def _face_data(given: Any, nodes: tuple[int, ...], face: int, name: str) -> FaceData:
    field = _field(given, len(nodes), name)
    with _named(name):
        require_on_face(field, nodes, face)
    return field
