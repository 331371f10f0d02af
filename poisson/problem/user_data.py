# SPDX-License-Identifier: MIT
"""Fields, axes and the conditions of faces from tables: of a case file, or of what users give in Python."""

from __future__ import annotations

import contextlib
import difflib
from collections.abc import Collection, Iterator, Mapping, Sequence
from operator import index
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from poisson.errors import CaseError, ExpressionError
from poisson.mesh.axis import Axis
from poisson.mesh.boundary import CONDITIONS, ONE_CONDITION, Kind
from poisson.mesh.grid import AXES
from poisson.mesh.lattice import Lattice
from poisson.mesh.placement import PLACEMENTS, Cells, Nodes
from poisson.mesh.system import ANGLE, CARTESIAN, RADIUS, SYSTEMS, SYSTEMS_ALLOWED, axes_of, faces_of
from poisson.problem.arrays import PLAIN, REAL, host, is_array
from poisson.problem.expressions import Expression, parse
from poisson.problem.faces import Face, FaceData, require_on_face
from poisson.problem.fields import ArrayField, FieldFile, FunctionField
from poisson.problem.mistakes import Mistakes, Path, shown
from poisson.words import article, quantity

if TYPE_CHECKING:
    from poisson.problem.bodies import Body

PERIODIC, OPEN, ALPHA = Kind.PERIODIC.value, Kind.OPEN.value, "alpha"
PAIRS = f'"{PERIODIC}" or "{OPEN}"'
"""The words for both faces of an axis."""
KINDS = {kind.value: kind for kind in CONDITIONS}
NO_FACE_LEFT = "nothing, because every face has its own condition"
NO_FACE = "nothing, because r = 0 is no face"

NodeField = FaceData
"""A function given at every node, as those of faces are: by a text (or a number), a file, an array or a function."""


class Condition(NamedTuple):
    """The condition of a face as its table gives it."""

    path: Path  # Where it stands.
    kind: Kind  # Of the face.
    table: Any  # Its keys; of a face in patches a list of tables.
    # g and α; None where they are mistakes, or g is to be derived.
    value: FaceData | None
    alpha: FaceData | None
    key: str  # The name of g there.
    patches: tuple[tuple[str | None, Condition], ...] = ()  # The parts of a face, each with where it is but the last.
    patched: bool = False  # Whether it has parts.


Conditions = Mapping[str, Condition]
"""By the names of the faces."""


class Reader:
    """Makes the parts of a problem of tables, and notes what is wrong with these.

    `mistakes`: receives one for each wrong value. `dimension`: of the grid, where it is known. `parameters`: names that
    expressions may use. `system`: the word of the system of coordinates, which has that dimension.
    """

    def __init__(
        self,
        mistakes: Mistakes,
        dimension: int | None,
        parameters: Mapping[str, float] = MappingProxyType({}),
        system: str = CARTESIAN,
    ) -> None:
        self.mistakes = mistakes
        self.dimension = dimension
        self.parameters = parameters
        self.axes = axes_of(system, dimension) or AXES
        self.faces = faces_of(self.axes)

    def field(self, path: Path, given: Any) -> NodeField | None:
        """A field of any kind, not yet compared with the grid; None of what is a mistake."""
        if isinstance(given, (Expression, FieldFile, FunctionField, ArrayField)):
            return given
        if callable(given) and not getattr(given, "shape", ()):
            return FunctionField(given)
        if isinstance(given, str):
            return self.formula(path, given)
        try:
            if isinstance(given, (list, tuple)):
                given = _from_lists(given)
            if is_array(given):
                array = ArrayField(given)
                if array.shape != ():
                    return array
                given = host(given)[()]
            # NumPy makes a number of a complex one by leaving a part of it out.
            if isinstance(given, np.complexfloating):
                raise TypeError
            return Expression.constant(float(given))
        except (CaseError, ExpressionError) as error:
            self.mistakes.add(path, str(error) if isinstance(error, CaseError) else f"{given!r}; {error}")
        except (TypeError, ValueError, OverflowError):
            kind = article(type(given).__name__)
            self.mistakes.add(path, f"{kind}; allowed: a number, an expression, a function of x(, y, z) or an array")
        return None

    def formula(self, path: Path, text: str) -> Expression | None:
        try:
            return parse(text, self.axes, self.parameters)
        except ExpressionError as error:
            self.mistakes.add(path, f"{self.mistakes.shown(text)}; {error}")
            return None

    def uses(self, text: str) -> None:
        """Note that a text is read, which may have parameters."""

    def on_nodes(self, path: Path, given: Any, lattice: Lattice | None) -> NodeField | None:
        """A field with a value for each node of a lattice, where that is known."""
        field = self.field(path, given)
        if lattice is not None and isinstance(field, (FieldFile, ArrayField)) and not self.mistakes.touch(path):
            with self.mistakes.at(path):
                field.check(lattice.array_shape, axes=lattice.names)
        return field

    def value(self, path: Path, given: Any, kind: Kind, alpha: FaceData | None) -> FaceData | None:
        """g of a face."""
        return self.field(path, given)

    def alpha(self, path: Path, given: Any) -> FaceData | None:
        """α of a face."""
        return self.field(path, given)

    def condition(self, name: str, given: Any, at: Path | None = None) -> Condition | None:
        """The condition under a name of the table of faces, or further down; None where there is none or a mistake."""
        path: Path = at or ("boundary", name)
        if given is None or self.mistakes.touch(path):
            return None
        if isinstance(given, (list, tuple)) and any(isinstance(entry, Mapping) for entry in given):
            from poisson.problem.patches import condition_of

            return condition_of(self, path, given)
        if isinstance(given, Face):
            return Condition(path, given.kind, {}, given.value, given.alpha, "value", patched=given.patched)
        if is_text(given, PERIODIC):
            axis = _axis_of(name)
            self.mistakes.wrong(path, given, f'a condition; for both {axis} faces at once {axis} = "periodic"')
            return None
        if is_text(given, OPEN):
            return Condition(path, Kind.OPEN, {}, None, None, "")
        table = given if isinstance(given, Mapping) else {Kind.DIRICHLET.value: given}
        kinds = [KINDS.get(key) for key in table if key != ALPHA]
        kind = kinds[0] if len(kinds) == 1 else None
        if kind is None or (ALPHA in table and not kind.takes_alpha):
            self.mistakes.wrong(path, given, f"exactly {ONE_CONDITION}{self.mistakes.replacing(path, table)}")
            return None
        if kind.takes_alpha and ALPHA not in table:
            self.mistakes.missing((*path, ALPHA))
            return None
        alpha = self.alpha((*path, ALPHA), table[ALPHA]) if kind.takes_alpha else None
        value = self.value((*path, kind.value), table[kind.value], kind, alpha)
        return Condition(path, kind, table, value, alpha, kind.value)

    def conditions(self, tables: Mapping[str, Any], centred: bool = False) -> dict[str, Condition]:
        """The condition on each face that has a right one, by the name of the face.

        `centred`: whether the first axis is a radius that begins at 0, where there is no face.
        """
        found: dict[str, Condition] = {}
        wraps_all = is_text(tables.get("all"), PERIODIC)
        general = None if wraps_all else self.condition("all", tables.get("all"))
        path: Path = ("boundary", "all")
        names = self.faces[centred:]
        unused = "all" in tables and all(name in tables or _axis_of(name) in tables for name in names)
        if unused and self.dimension and not self.mistakes.touch(path):
            self.mistakes.wrong(path, tables["all"], NO_FACE_LEFT + self.mistakes.replacing(path, None))
        if centred:
            centre = ("boundary", self.faces[0])
            if self.faces[0] in tables and not self.mistakes.touch(centre):
                self.mistakes.wrong(centre, tables[self.faces[0]], NO_FACE)
            found[self.faces[0]] = Condition(centre, Kind.AXIS, {}, None, None, "")
        for name in names:
            axis, path = _axis_of(name), ("boundary", name)
            pair = tables.get(axis, PERIODIC if wraps_all and name not in tables else None)
            condition = self.condition(name, tables.get(name) if pair is None else None) or general
            if pair is not None and name in tables:
                self.mistakes.wrong(path, tables[name], f'nothing, because {axis} = "{pair}" sets both faces')
            elif pair is not None:
                found[name] = Condition(path, Kind(pair), {}, None, None, "")
            elif condition:
                found[name] = condition
            elif self.dimension and not any(self.mistakes.touch(("boundary", key)) for key in (axis, "all")):
                self.mistakes.missing(path)
        return found

    def compare(self, conditions: Conditions, nodes: tuple[int, ...]) -> None:
        """Note the arrays and files on faces that have not one value for each node there."""
        for name, condition in conditions.items():
            for key, data in ((condition.key, condition.value), (ALPHA, condition.alpha)):
                path = (*condition.path, key)
                if isinstance(data, (ArrayField, FieldFile)) and not self.mistakes.touch(path):
                    with self.mistakes.at(path):
                        require_on_face(data, nodes, self.faces.index(name), self.axes)


def node_field(given: Any, lattice: Lattice, name: str) -> NodeField:
    """A field from what a user gives in Python.

    `given`: a function takes arrays x(, y, z); an array has the lattice's ``array_shape`` and is not copied. `lattice`:
    the nodes. `name`: the name of the field, for the message. Raises `CaseError` with one line that says what is wrong.
    """
    if type(given) in PLAIN and given.shape == lattice.array_shape and given.dtype.kind in REAL:
        return ArrayField(given)
    reader = Reader(Mistakes(), lattice.dimension, system=lattice.system)
    field = reader.on_nodes((name,), given, lattice)
    reader.mistakes.refuse()
    assert field is not None
    return field


def exact_solution(given: Any, lattice: Lattice) -> Expression:
    """The exact solution, which derivatives are taken of."""
    reader = Reader(Mistakes(), lattice.dimension, system=lattice.system)
    field = reader.field(("exact",), given)
    reader.mistakes.refuse()
    if isinstance(field, Expression):
        return field
    kind = {FunctionField: "a function", ArrayField: "an array"}.get(type(field), "a file")
    raise CaseError(
        f"exact: {kind}; allowed: a number or an expression, because derivatives of the exact solution are needed"
    )


def given_bodies(given: Any, patches: Sequence[Any], lattice: Lattice) -> tuple[Body, ...]:
    """The bodies from what a user gives in Python, and those of patches.

    Raises CaseError with a line for each mistake.
    """
    from poisson.problem.bodies import bodies_of

    reader = Reader(Mistakes(), lattice.dimension, system=lattice.system)
    listed = isinstance(given, Sequence) and not isinstance(given, str)
    found = bodies_of([*given, *patches] if listed else given, reader, lattice)
    reader.mistakes.refuse()
    return found


def settled(
    conditions: Conditions, lattice: Lattice, reader: Reader | None = None
) -> tuple[dict[str, Condition], list[dict[str, str]]]:
    """The conditions on a lattice, and the tables of the bodies that patches of faces are."""
    if not any(condition.patches for condition in conditions.values()):
        return dict(conditions), []
    from poisson.problem.patches import on_lattice

    return on_lattice(conditions, lattice, reader or Reader(Mistakes(), lattice.dimension, system=lattice.system))


def conditions_of(
    boundary: Any, dimension: int, system: str = CARTESIAN, centred: bool = False
) -> dict[str, Condition]:
    """The conditions of all faces from what a user gives in Python; `centred` as for `Reader.conditions`.

    Raises CaseError with a line for each mistake.
    """
    mistakes = Mistakes()
    tables = boundary if isinstance(boundary, Mapping) else {"all": boundary}
    reader = Reader(mistakes, dimension, system=system)
    axes, names = reader.axes, reader.faces
    known = ("all", *axes, *names)
    for name in tables:
        if name not in known:
            near = difflib.get_close_matches(str(name), known, n=1)
            mistakes.unknown(("boundary", name), known, near[0] if near else None)
    for axis in axes:
        if axis in tables and not (is_text(tables[axis], PERIODIC) or is_text(tables[axis], OPEN)):
            mistakes.wrong(("boundary", axis), tables[axis], PAIRS)
    mistakes.refuse()
    found = reader.conditions(tables, centred)
    for axis, pair in zip(axes, zip(names[::2], names[1::2], strict=True), strict=True):
        wraps = [name for name in pair if name in found and found[name].kind.wraps]
        if len(wraps) == 1 and not mistakes:
            [other] = set(pair) - set(wraps)
            reason = f"because {other} has one; {axis} = 'periodic' makes both faces periodic"
            mistakes.wrong(("boundary", *wraps), PERIODIC, f"a condition, {reason}")
    mistakes.refuse()
    return found


def faces_with(conditions: Conditions, lattice: Lattice) -> tuple[Face, ...]:
    """The faces of a lattice with these conditions.

    Raises CaseError with a line for each array or file that does not fit its face.
    """
    mistakes = Mistakes()
    Reader(mistakes, lattice.dimension, system=lattice.system).compare(conditions, lattice.shape)
    mistakes.refuse()
    return tuple(Face(each.kind, each.value, each.alpha, each.patched) for each in conditions.values())


def other_faces(lattice: Lattice, before: tuple[Face, ...], boundary: Any) -> tuple[Face, ...]:
    """The faces with other data: their kinds stay, and so do those that a mapping does not name."""
    names, centred = lattice.faces, before[0].kind is Kind.AXIS
    tables = dict(boundary) if isinstance(boundary, Mapping) else {"all": boundary}
    for face, name in enumerate(names):
        axis = _axis_of(name)
        if before[face].kind.wraps:
            if name not in tables:
                tables.setdefault(axis, PERIODIC)
        elif "all" not in tables and axis not in tables and before[face].kind is not Kind.AXIS:
            tables.setdefault(name, before[face])
    conditions = conditions_of(tables, lattice.dimension, lattice.system, centred)
    faces = faces_with(conditions, lattice)
    for name, old, new in zip(names, before, faces, strict=True):
        if conditions[name].patches or (old.patched and tables.get(name) is not old):
            raise CaseError(f"boundary.{name}: a face in patches; allowed: other data of whole faces")
        if new.kind is not old.kind:
            allowed = f"{old.kind.value}, because the kind of a face cannot change"
            raise CaseError(f"boundary.{name}: {new.kind.value}; allowed: {allowed}")
    return faces


def require_axes(axes: Any) -> int:
    """How many tables of axes there are: 1, 2 or 3.

    Raises CaseError if there are not.
    """
    if not isinstance(axes, Sequence) or not 1 <= len(axes) <= len(AXES):
        raise CaseError(f"axes: {shown(axes)}; allowed: 1, 2 or 3 tables, in the order x(, y(, z))")
    return len(axes)


def require_system(system: Any, dimension: int) -> None:
    """Raise `CaseError` if there is no system of coordinates of that name with so many axes."""
    if system not in SYSTEMS or dimension not in SYSTEMS[system]:
        raise CaseError(f"system: {shown(system)} with {quantity(dimension, 'axis')}; allowed: {SYSTEMS_ALLOWED}")


def first_of(table: Any, otherwise: Any) -> float | None:
    """The first number of a list, or of the only list of a table; None of what is neither."""
    with contextlib.suppress(TypeError, ValueError, IndexError, StopIteration):
        given = next(iter(table.values())) if isinstance(table, Mapping) else otherwise if table is None else table
        return float(given[0])
    return None


def axes_with(system: str, named: Collection[str], count: int) -> tuple[str, ...]:
    """The names of the axes of a system, so many, or if that is 0 the fewest with these among them.

    Raises CaseError if there is none, or one of the names is none of them.
    """
    systems = [each.axes for _, each in sorted(SYSTEMS.get(system, {}).items())]
    enough = [axes for axes in systems if len(axes) >= count and set(named) <= {*axes}]
    found = enough[0] if enough else next((axes for axes in systems if len(axes) == count), None)
    if found is None:
        axes = quantity(count or len(named), "axis")
        raise CaseError(f"system: {shown(system)} with {axes}; allowed: {SYSTEMS_ALLOWED}")
    for name in named:
        if name not in found:
            raise CaseError(f"{name}: no axis; allowed: {', '.join(found)}")
    return found


def lattice_of(axes: Sequence[Any], kinds: Sequence[Kind], system: str = CARTESIAN) -> Lattice:
    """The lattice from what `Problem.on_lattice` is given, with these kinds of faces.

    Raises CaseError with one line that says what is wrong.
    """
    described = SYSTEMS[system][len(axes)]
    powers = (described.power, 0, 0)
    pairs = zip(kinds[::2], kinds[1::2], strict=True)
    lines = [_axis(*given) for given in zip(described.axes, axes, pairs, powers, strict=False)]
    return fitting(Lattice(tuple(lines), system))


def _axis(name: str, table: Any, kinds: tuple[Kind, Kind], power: int) -> Axis:
    if not isinstance(table, Mapping) or len(table) != 1 or not set(table) <= {*PLACEMENTS, "uniform"}:
        placed = ", ".join(f'{{"{word}": {kind.meaning}}}' for word, kind in PLACEMENTS.items())
        allowed = f'{placed} or {{"uniform": (lower, upper, nodes)}}'
        raise CaseError(f"axes: {shown(table)} along {name}; allowed: {allowed}")
    [(key, given)] = table.items()
    try:
        if key != "uniform":
            return placed_axis(key, given, kinds, power)
        try:
            lower, upper, nodes = given
            ends, count = (float(lower), float(upper)), index(nodes)
        except (TypeError, ValueError):
            raise ValueError(f"{shown(given)}; allowed: (lower, upper, number of nodes)") from None
        axis = Lattice.box(ends[:1], ends[1:], (count,), tuple(kind.rule for kind in kinds)).axes[0]
        return placed_axis(Nodes.word, axis.coordinates, kinds, power) if power else axis
    except (CaseError, ValueError) as error:
        raise CaseError(f"axes: {key} along {name}: {error}") from error


def fitting(lattice: Lattice) -> Lattice:
    """The lattice; CaseError if there is a `Lattice.misfit`."""
    if lattice.misfit:
        raise CaseError(lattice.misfit)
    return lattice


def placed_axis(word: str, given: Any, kinds: tuple[Kind, Kind], power: int = 0) -> Axis:
    """A tabulated axis from the word of its placement and its marks; `power` as in `Placement`.

    Raises CaseError with one line that says what is wrong.
    """
    try:
        marks = host(given) if is_array(given) else _from_lists(given)
        if marks.ndim != 1 or marks.dtype.kind not in REAL:
            raise ValueError(f"{shown(given)}; allowed: real numbers in ascending order")
        return Axis.placed(PLACEMENTS[word](marks, kinds, power=power))
    except (CaseError, TypeError, ValueError) as error:
        raise CaseError(" ".join(str(error).split())) from error


def box_of(
    nodes: Sequence[Any], centring: Any, stated: Sequence[Sequence[Any]], kinds: Sequence[Kind], system: str = CARTESIAN
) -> Lattice:
    """The lattice from what `Problem.on_box` is given.

    `nodes`: the marks of each axis, or None. `centring`: ``"node"``, ``"cell"`` or a mapping of these. `stated`: the
    lower ends, the upper ends and the numbers of nodes, with None for what is not given. `kinds`: those of the faces.
    `system`: the word of the system of coordinates. Raises CaseError with one line that says what is wrong.
    """
    described = SYSTEMS[system][len(nodes)]
    axes, names = [], described.axes
    words = dict.fromkeys(names, centring) if isinstance(centring, str) else centring
    if not isinstance(words, Mapping) or not set(words) <= {*names} or not set(words.values()) <= {"node", "cell"}:
        allowed = f'"node", "cell" or a mapping of these from {", ".join(names)}'
        raise CaseError(f"centring: {shown(centring)}; allowed: {allowed}")
    if any(len(entries) != len(nodes) for entries in stated):
        counts = ", ".join(str(len(entries)) for entries in stated)
        raise CaseError(f"lower, upper and shape have {counts} entries; allowed: one for each of {', '.join(names)}")
    for name, marks, low, high, count, pair in zip(
        names, nodes, *stated, zip(kinds[::2], kinds[1::2], strict=True), strict=True
    ):
        power = described.power * (name == RADIUS)
        word = f"{words.get(name, 'node')}s"
        if centring == "node" and ANGLE in names and pair[0] is Kind.AXIS:
            word = Cells.word
        if marks is None and count is None:
            raise CaseError(f"shape: missing; allowed: the number of nodes along {name}, or {name} = their places")
        try:
            if marks is None:
                ends = (0.0 if low is None else low, 1.0 if high is None else high)
                axis = Lattice.box(ends[:1], ends[1:], (count,), (pair[0].rule, pair[1].rule)).axes[0]
                if word != Nodes.word or power:
                    axis = placed_axis(word, np.linspace(*ends, count + (word != Nodes.word)), pair, power)
            else:
                axis = placed_axis(word, marks, pair, power)
        except (CaseError, ValueError) as error:
            raise CaseError(f"{name}: {str(error).removeprefix('x: ')}") from error
        for key, message in disagreements(name, axis, low, high, count):
            raise CaseError(f"{key}: {message}")
        axes.append(axis)
    return fitting(Lattice(tuple(axes), system))


def disagreements(
    name: str, axis: Axis, low: float | None, high: float | None, nodes: int | None
) -> Iterator[tuple[str, str]]:
    """A key and a message for each of `lower`, `upper` and `shape` that contradicts the nodes of an axis."""
    stated = {"lower": (low, axis.interval[0]), "upper": (high, axis.interval[1]), "shape": (nodes, axis.nodes)}
    for key, (given, found) in stated.items():
        if given is not None and given != found:
            yield key, f"{given} along {name}; allowed: {found}, as the nodes along {name} have"


def _from_lists(given: Any) -> NDArray[Any]:
    """The array that lists of numbers, nested as deep as there are axes, stand for."""
    try:
        return np.asarray(given)
    except ValueError:
        raise CaseError("lists of different lengths; allowed: lists of one length at each depth") from None


def _axis_of(face: str) -> str:
    """The name of the axis that a face is across."""
    return face.rpartition("_")[0]


def is_text(given: Any, text: str) -> bool:
    """Whether it is that text, and no array, which compares with texts value by value."""
    return isinstance(given, str) and given == text
