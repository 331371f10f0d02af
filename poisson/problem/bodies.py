# SPDX-License-Identifier: MIT
"""Bodies in the box: where each is, and the condition at its surface.

Where a body is, a *level* tells: a function that is negative or zero inside. Where bodies overlap, the one that stands
first has the nodes, as of faces; where a body reaches a Dirichlet face, the nodes there have the values of the face.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np

from poisson.errors import CaseError, ExpressionError
from poisson.mesh.grid import AXES
from poisson.mesh.system import ANGLE, CARTESIAN
from poisson.problem.arrays import host, is_array
from poisson.problem.expressions import Expression, parse, parse_inside
from poisson.problem.fields import ArrayField, FieldFile, FunctionField
from poisson.words import article

if TYPE_CHECKING:
    from poisson.mesh.lattice import Lattice
    from poisson.problem.mistakes import Path
    from poisson.problem.user_data import Reader

DIRICHLET, NEUMANN, ROBIN, DIELECTRIC, FLOATING = CONDITIONS = ("dirichlet", "neumann", "robin", "a", "floating")
"""The keys of a body of which it has one: what holds at its surface."""

HELD = (DIRICHLET, FLOATING)
"""The kinds of bodies whose nodes have no equation, because u is given inside."""

SHAPES = {
    "sphere": ("center", "radius"),
    "box": ("center", "size"),
    "cylinder": ("center", "radius", "axis", "length"),
    "half_space": ("center", "normal"),
}
"""The shapes by name, with the keys of each; only the length of a cylinder may be left out: it has no end then."""

ROUND = ("sphere", "cylinder")
"""The shapes that there are beside an angle."""

ALLOWED_AXES = ("x(, y(, z))", "r and z", "r and phi", "r, phi and z")
"""The axes beside which there are bodies."""

_PATCH = re.compile(r"[a-z]+_(lower|upper)\.\d+")
"""The names of bodies that are patches of faces."""

ONE_CONDITION = f"exactly one of {', '.join(CONDITIONS[:-1])} and floating = true"


@dataclass(frozen=True)
class Inside:
    """Where a body is.

    `level`: a function that is negative or zero inside; an array or a file has it at the nodes. `mask`: whether an
    array or a file says no more than which nodes are inside, by values that are not 0. `bounds`: the interval along
    each axis outside of which nothing is inside, where that is known.
    """

    level: Expression | FunctionField | ArrayField | FieldFile
    mask: bool = False
    bounds: tuple[tuple[float, float], ...] | None = None


@dataclass(frozen=True)
class Body:
    """A body in the box.

    Parameters
    ----------
    inside : text, function, array, mapping or Inside
        Where the body is. A condition on the coordinates, such as ``"x**2 + y**2 < 0.1**2"``, whose two sides say where
        the surface cuts a link between nodes. A function of arrays x(, y, z) that is negative inside, or true there. An
        array of the shape of the grid: the signed distance from the surface at the nodes, negative inside, or truth
        values, whose surface is that of the nodes inside (both first order). A mapping as the table of a case file:
        ``{"shape": "sphere", "center": (0.5, 0.5), "radius": 0.1}``, a ``box`` with ``center`` and ``size``, a
        ``cylinder`` with ``center``, ``radius``, ``axis`` and ``length``, a ``half_space`` behind the plane through
        ``center`` with the outward ``normal``.
    dirichlet : number, text or function, optional
        u at the surface and inside, in U.
    neumann, robin, alpha : number, text or function, optional
        a ∂u/∂n = g, or a ∂u/∂n + αu = g, with the normal into the body, as on a face.
    a : number, text or function, optional
        The coefficient inside, in the place of the problem's.
    floating : bool
        Whether the body is a conductor whose potential follows from its `charge`.
    charge : float, optional
        The integral of −a ∂u/∂n over the surface of a floating body, with the normal into the body: in U L in 3D, per
        length in 2D. 0 without it.
    name : str
        A name for people and for results; by default body1, body2 and so on.

    Examples
    --------
    >>> bodies = [poisson.Body("hypot(x - 0.5, y - 0.5) < 0.1", dirichlet=1.0, name="anode")]
    >>> problem = poisson.Problem.on_box((33, 33), bodies=bodies)
    >>> problem.bodies[0].kind, problem.bodies[0].value
    ('dirichlet', Expression('1'))
    """

    inside: Any
    dirichlet: Any = None
    neumann: Any = None
    robin: Any = None
    alpha: Any = None
    a: Any = None
    floating: bool = False
    charge: float | None = None
    name: str = ""

    @property
    def kind(self) -> str:
        """The key of the condition at the surface.

        Examples
        --------
        >>> poisson.Body("x < 0.1", floating=True, charge=2.0).kind
        'floating'
        """
        return next(key for key in CONDITIONS if not _absent(getattr(self, key)))

    @property
    def value(self) -> Any:
        """The data of the condition; True of a floating body.

        Examples
        --------
        >>> poisson.Body("x < 0.1", dirichlet="y").value
        'y'
        """
        return getattr(self, self.kind)


def keys_of(body: Body, number: int) -> tuple[str, str]:
    """The keys of where a body is and of its condition, given its number; a patch of a face has the face's."""
    if _PATCH.fullmatch(body.name):
        return f"boundary.{body.name}.where", f"boundary.{body.name}.{body.kind}"
    return f"body.{number}.inside", f"body.{number}.{body.kind}"


def bodies_of(given: Any, reader: Reader, lattice: Lattice | None) -> tuple[Body, ...]:
    """The bodies with data that can be evaluated, from tables or from what a user gives in Python.

    What is wrong is noted in the mistakes of the reader, with the key: the first body is ``body.1``.
    """
    if not isinstance(given, Sequence) or isinstance(given, str):
        kind = article(type(given).__name__)
        reader.mistakes.add(("body",), f"{kind}; allowed: a list of bodies")
        return ()
    if given and lattice is not None and lattice.system != CARTESIAN:
        named = [str(body.get("name")) for body in given if isinstance(body, Mapping)]
        patches = list(filter(_PATCH.fullmatch, named))
        for name in patches:
            wanted = 'cells along the axis (centring = "cell")'
            reader.mistakes.add(
                ("boundary", *name.split(".")), f"a value beside other conditions, at nodes; allowed: {wanted}"
            )
        around = lattice.dimension > 1
        if len(patches) < len(given) and not around:
            reader.mistakes.add(("body",), f"bodies beside r alone; allowed: none but in {', '.join(ALLOWED_AXES)}")
        if patches or not around:
            return ()
    found, names = [], set()
    for number, body in enumerate(given, start=1):
        path = ("body", str(number))
        read = _body(path, body, reader, lattice)
        if read is None:
            continue
        name = read.name or f"body{number}"
        if name in names:
            reader.mistakes.wrong((*path, "name"), name, "a name that no other body has")
        names.add(name)
        found.append(replace(read, name=name))
    return tuple(found)


def _body(path: Path, given: Any, reader: Reader, lattice: Lattice | None) -> Body | None:
    mistakes, keys = reader.mistakes, [field.name for field in fields(Body)]
    table = {key: getattr(given, key) for key in keys} if isinstance(given, Body) else given
    if not isinstance(table, Mapping):
        mistakes.wrong(path, given, "a poisson.Body, or a table with its keys")
        return None
    table = {key: item for key, item in table.items() if not _absent(item)}
    for key in table:
        if key not in keys:
            mistakes.unknown((*path, key), keys, None)
            return None
    if "inside" not in table:
        mistakes.add(
            (*path, "inside"), "missing; allowed: a condition such as x < 0.5, a shape, a function or an array"
        )
        return None
    kinds = [key for key in CONDITIONS if key in table]
    if len(kinds) != 1:
        mistakes.add(path, f"{' and '.join(kinds) or 'no condition'}; allowed: {ONE_CONDITION}")
        return None
    [kind] = kinds
    for key, of in (("alpha", ROBIN), ("charge", FLOATING)):
        if key in table and kind != of:
            mistakes.wrong((*path, key), table[key], f"only with {of}")
    if kind == ROBIN and "alpha" not in table:
        mistakes.add((*path, "alpha"), "missing; allowed: a number >= 0, an expression or a function")
    if not isinstance(table.get("name", ""), str):
        mistakes.wrong((*path, "name"), table["name"], "a name of one line")
    charge = table.get("charge", 0.0)
    if not mistakes.touch((*path, "charge")) and not (isinstance(charge, Real) and math.isfinite(charge)):
        mistakes.wrong((*path, "charge"), charge, "a finite number")
    inside = _inside((*path, "inside"), table["inside"], reader, lattice)
    data: dict[str, Any] = {"inside": inside, "name": table.get("name", "")}
    for key in (*CONDITIONS[:-1], "alpha"):
        if key not in table or mistakes.touch((*path, key)):
            continue
        field = reader.field((*path, key), table[key])
        if isinstance(field, (ArrayField, FieldFile)):
            mistakes.add((*path, key), "an array; allowed: a number, an expression or a function")
        least = {"alpha": 0.0, DIELECTRIC: np.nextafter(0.0, 1.0)}.get(key)
        if least is not None and isinstance(field, Expression) and field.is_constant and field.value < least:
            mistakes.wrong((*path, key), field.value, "a number >= 0" if key == "alpha" else "a number > 0")
        data[key] = field
    if kind == FLOATING:
        data["floating"] = True
    if mistakes.touch(path) or inside is None:
        return None
    return Body(**data | ({"charge": float(charge)} if kind == FLOATING else {}))


def _absent(item: Any) -> bool:
    return item is None or item is False or (isinstance(item, str) and not item)


def _inside(path: Path, given: Any, reader: Reader, lattice: Lattice | None) -> Inside | None:
    """Where a body is; None of what is a mistake."""
    mistakes = reader.mistakes
    if isinstance(given, Inside) or mistakes.touch(path):
        return given if isinstance(given, Inside) else None
    if isinstance(given, str):
        reader.uses(given)
        try:
            return Inside(parse_inside(given, reader.axes, reader.parameters))
        except ExpressionError as error:
            mistakes.add(path, f"{mistakes.shown(given)}; {error}")
            return None
    if isinstance(given, Mapping) and "file" not in given:
        return _shape(path, given, reader)
    if callable(given) and not is_array(given):
        return Inside(FunctionField(given))
    try:
        if is_array(given):
            values = host(given)
            mask = values.dtype.kind in "biu"
            field: Any = ArrayField(np.where(values, -1.0, 1.0) if mask else values)
        else:
            field, mask = reader.field(path, given), False
            if not isinstance(field, FieldFile):
                raise CaseError(f"{article(type(given).__name__)}; allowed: a condition, a function, an array, a shape")
            mask = field.kind in "biu"
        if lattice is not None:
            masks = {"mask": True} if isinstance(field, FieldFile) else {}
            field.check(lattice.array_shape, axes=lattice.names, **masks)
        return Inside(field, mask)
    except CaseError as error:
        if not mistakes.touch(path):
            mistakes.add(path, str(error))
        return None


def _shape(path: Path, given: Mapping[str, Any], reader: Reader) -> Inside | None:
    """Where a body of a shape by name is."""
    mistakes, dimension, shape = reader.mistakes, reader.dimension or len(AXES), given.get("shape")
    if shape not in SHAPES:
        mistakes.wrong((*path, "shape"), shape, f"{', '.join(SHAPES)}, or a table with the key file")
        return None
    if shape == "cylinder" and dimension != 3:
        mistakes.wrong((*path, "shape"), shape, "only in 3D; in 2D a disc is a sphere")
        return None
    turned = ANGLE in reader.axes
    if turned and (shape not in ROUND or (shape == "cylinder" and given.get("axis") != "z")):
        mistakes.wrong((*path, "shape"), shape, f"sphere, or cylinder along z, beside {ANGLE}; or a condition")
        return None
    for key in given:
        if key not in ("shape", *SHAPES[shape]):
            mistakes.unknown((*path, key), ("shape", *SHAPES[shape]), None)
    found: dict[str, Any] = {}
    for key in SHAPES[shape]:
        item: Any = given.get(key)
        wanted = f"{dimension} numbers, in the order {', '.join(AXES[:dimension])}"
        wanted += ", not all of them 0" if key == "normal" else ""
        try:
            if key in ("radius", "length"):
                wanted = "a number > 0"
                found[key] = np.inf if item is None and key == "length" else float(item)
                right = found[key] > 0.0
            elif key == "axis":
                wanted, found[key] = ", ".join(AXES), AXES.index(item)
                right = True
            else:
                found[key] = tuple(float(entry) for entry in item)
                right = len(found[key]) == dimension and all(map(np.isfinite, found[key]))
                right = right and (key != "size" or min(found[key]) > 0.0) and (key != "normal" or any(found[key]))
        except (TypeError, ValueError):
            right = False
        if not right and not mistakes.touch((*path, key)):
            said = "missing" if item is None else mistakes.shown(item)
            mistakes.add((*path, key), f"{said}; allowed: {wanted}{' > 0' if key == 'size' else ''}")
    return None if mistakes.touch(path) else _level_of(shape, dimension, turned=turned, **found)


def _level_of(
    shape: str,
    dimension: int,
    center: tuple[float, ...],
    radius: float = 0.0,
    size: tuple[float, ...] = (),
    axis: int = 0,
    length: float = np.inf,
    normal: tuple[float, ...] = (),
    turned: bool = False,
) -> Inside:
    """The signed distance from the surface of a shape, but for corners that stick out, and its bounds.

    `turned`: whether the second axis is an angle around the origin, and the first one the distance from there.
    """
    names = AXES[:dimension]
    away = [f"({name} - ({place!r}))" for name, place in zip(names, center, strict=True)]
    if turned:  # x and y here are r and phi
        across = (f"({center[0] * math.cos(center[1])!r})", f"({center[0] * math.sin(center[1])!r})")
        away[:2] = (f"(x*cos(y) - {across[0]})", f"(x*sin(y) - {across[1]})")
    if shape == "half_space":
        norm = float(np.hypot.reduce(normal))
        text = " + ".join(f"({part / norm!r})*{each}" for part, each in zip(normal, away, strict=True))
        return Inside(parse(text, dimension))
    if shape == "box":
        half = [entry / 2.0 for entry in size]
        sides = [f"abs{each} - {width!r}" for each, width in zip(away, half, strict=True)]
    else:
        round_ = [each for number, each in enumerate(away) if shape == "sphere" or number != axis]
        half = [radius if shape == "sphere" or number != axis else length / 2.0 for number in range(dimension)]
        sides = [f"sqrt({' + '.join(f'{each}**2' for each in round_)}) - {radius!r}"]
        sides += [f"abs{away[axis]} - {length / 2.0!r}"] if shape == "cylinder" and length < np.inf else []
    text = sides[0] if len(sides) == 1 else f"max({', '.join(sides)})"
    bounds = tuple((place - width, place + width) for place, width in zip(center, half, strict=True))
    if turned:
        bounds = (bounds[0], (-math.inf, math.inf), *bounds[2:])
    return Inside(parse(text, dimension), bounds=bounds)
