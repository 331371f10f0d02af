# SPDX-License-Identifier: MIT
"""From a checked form to a `Case`: what depends on more than one key."""

import contextlib
import difflib
import logging
import math
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import tomli_w

from poisson.case import toml
from poisson.case.axes import marks_between, require_one_kind
from poisson.case.combinations import clashes, settings_of
from poisson.case.exact import holds
from poisson.case.mistakes import Mistakes, dimension, system, validate
from poisson.case.schema import CASE
from poisson.case.settings import WITHOUT_VECTORS, Case, Interval, OutputSettings, Units
from poisson.errors import CaseError, ExpressionError, PoissonError
from poisson.mesh.axis import Axis
from poisson.mesh.boundary import Kind
from poisson.mesh.differences import ORDERS
from poisson.mesh.grid import wanted_spacing
from poisson.mesh.lattice import Lattice
from poisson.mesh.placement import Cells, Nodes
from poisson.mesh.system import ANGLE, CARTESIAN, RADIUS, SYSTEMS, SYSTEMS_ALLOWED
from poisson.problem.bodies import bodies_of
from poisson.problem.exact_data import manufactured_source, manufactured_value
from poisson.problem.expressions import Expression, parameter_mistake
from poisson.problem.faces import Face, FaceData
from poisson.problem.fields import FieldFile
from poisson.problem.images import phases_of
from poisson.problem.mistakes import Path as Keys
from poisson.problem.problem import Coefficient, Problem
from poisson.problem.user_data import Conditions, NodeField, Reader, disagreements, first_of, placed_axis, settled
from poisson.words import quantity

MAX_NODES = 2**60
"""Arrays of more nodes have more bytes than a 64-bit integer counts."""

EXACT = "exact"
"""In the place of a formula: derive it from the exact solution."""


log = logging.getLogger(__name__)


def build(
    data: dict[str, Any], name: str, folder: Path, overridden: Mapping[Keys, str], changes: Sequence[Keys] = ()
) -> Case:
    """Validate a case file as a whole.

    `data`: the TOML document, with overrides applied. `name`: the name of the case, for
    the title and the output file. `folder`: field files are relative to it. `overridden`: the keys that overrides gave,
    with the options that gave them. `changes`: those of them that an exact solution depends on, as far as the file says
    something else. Raises `CaseError` with one line for each mistake.
    """
    mistakes = Mistakes(overridden)
    axes = dimension(data)
    tables = validate(data, mistakes)
    reader = _Reader(tables, mistakes, axes, folder, system(tables))
    exact = reader.exact()
    conditions = reader.conditions(tables["boundary"], reader.centred)
    lattice = reader.lattice(conditions)
    a, c = reader.coefficient("a", lattice), reader.coefficient("c", lattice)
    f = reader.source(lattice, exact, a, c)
    initial = reader.on_nodes(("run", "initial"), tables["run"]["initial"], lattice)
    on_faces = [data for each in conditions.values() for data in (each.value, each.alpha)] if lattice else []
    if lattice:
        reader.compare(conditions, lattice.shape)
    conditions, patches = settled(conditions, lattice, reader) if lattice else (conditions, [])
    bodies = bodies_of([*tables["body"], *patches], reader, lattice)
    output = reader.output(name, lattice, f, a, c, initial, *on_faces, *(body.inside.level for body in bodies))
    if bodies and output.order != ORDERS[0]:
        mistakes.wrong(("output", "order"), output.order, f"{ORDERS[0]} with bodies in the box")
    reader.need_used_parameters()
    solver, run = settings_of(tables)
    if mistakes or lattice is None or f is None or initial is None or a is None or c is None:
        mistakes.disagree(clashes(solver, run, None))
        raise CaseError(mistakes.lines())
    faces = _faces(conditions, exact, a, lattice)
    title = tables.get("title", name)
    mean, surface = tables["equation"]["mean"], tables["equation"]["surface"]
    problem = Problem(lattice, faces, f, c, initial, exact, title, a, mean, bodies, surface)
    mistakes.disagree(clashes(solver, run, problem))
    tables = _resolved(tables, title, lattice, conditions, output)
    if changes and not _gives_exact(overridden) and exact is not None and not holds(problem):
        problem, output = _without_exact(mistakes, problem, output, tables, changes)
    mistakes.refuse()
    return Case(problem, solver, run, output, tomli_w.dumps(tables))


class _Reader(Reader):
    """Reads the keys that depend on each other, and has what only a case file has: parameters, files, ``exact``."""

    def __init__(self, tables: dict[str, Any], mistakes: Mistakes, axes: int | None, folder: Path, system: str) -> None:
        super().__init__(mistakes, axes, system=system)
        self.tables = tables
        self.domain = tables["domain"]
        self.equation = tables["equation"]
        self.mistakes: Mistakes = mistakes
        self.folder = folder
        self.system = system
        self.centred = system != CARTESIAN and self._begins() == 0.0
        self.parameters = self._parameters()
        self._words: set[str] = set()

    def _begins(self) -> float | None:
        """Where a radius begins, as far as that is known before its axis is made."""
        if "lower" in self.domain:
            return float(self.domain["lower"][0])
        table = self.domain.get(RADIUS, {})
        with contextlib.suppress(PoissonError):
            return first_of(table.get("nodes"), self._file(table).read(0, 1) if "file" in table else None)
        return None

    def field(self, path: Keys, given: Any) -> NodeField | None:
        return self._file(given) if isinstance(given, Mapping) else super().field(path, given)

    def uses(self, text: str) -> None:
        self._words.update(re.findall(r"\w+", text))

    def formula(self, path: Keys, text: str) -> Expression | None:
        self.uses(text)
        return super().formula(path, text)

    def value(self, path: Keys, given: Any, kind: Kind, alpha: FaceData | None) -> FaceData | None:
        if given != EXACT:
            return self.field(path, given)
        self._need_exact(path, EXACT)
        if isinstance(alpha, FieldFile):
            self.mistakes.wrong(path, EXACT, "only if alpha is a number or an expression")
        if not kind.fixes:
            self._need_formulas(path, "a")
        return None

    def alpha(self, path: Keys, given: Any) -> FaceData | None:
        return self._least(path, given)

    def lattice(self, conditions: Conditions) -> Lattice | None:
        mistakes = self.mistakes
        names = self.axes if self.dimension else ()
        kinds = [self._pair(name, conditions) for name in names]
        placed = {name: axis for name, pair in zip(names, kinds, strict=True) if (axis := self._explicit(name, pair))}
        lower, upper, shape = map(self.domain.get, ("lower", "upper", "shape"))
        if names and len(placed) == len(names):
            whole = Lattice(tuple(placed.values()), self.system)
            lower, upper, shape = lower or [*whole.lower], upper or [*whole.upper], shape or [*whole.shape]
        for key, entries in (("lower", lower), ("upper", upper), ("shape", shape)):
            if entries is None and not any(mistakes.touch(("domain", name)) for name in names):
                mistakes.missing(("domain", key))
        if lower is None or upper is None or shape is None:
            return None
        if not len(lower) == len(upper) == len(shape):
            counts = f"{len(lower)}, {len(upper)} and {len(shape)} entries"
            mistakes.add(
                ("domain",),
                f"lower, upper and shape have {counts}; allowed: 1, 2 or 3 entries, the same number in each",
            )
            return None
        if math.prod(shape) >= MAX_NODES:
            mistakes.wrong(("domain", "shape"), shape, "fewer than 2**60 nodes in all")
            return None
        if self.system != (word := self.domain.get("system", CARTESIAN)):
            item = f"{mistakes.shown(word)} with {quantity(len(shape), 'axis')}"
            mistakes.add(("domain", "system"), f"{item}; allowed: {SYSTEMS_ALLOWED}")
            return None
        axes: list[Axis | None] = []
        for name, pair, low, high, nodes in zip(names, kinds, lower, upper, shape, strict=True):
            if name in placed:
                axes.append(placed[name])
                for key, message in disagreements(name, placed[name], low, high, nodes):
                    mistakes.add(("domain", key), message)
            else:
                fits = self._interval(name, low, high, nodes)
                axes.append(self._axis(name, low, high, nodes, pair) if fits else None)
        if mistakes or None in axes:
            return None
        lattice = Lattice(tuple(filter(None, axes)), self.system)
        if lattice.misfit:
            mistakes.add(("domain",), lattice.misfit)
        return lattice

    def _pair(self, axis: str, conditions: Conditions) -> tuple[Kind, Kind]:
        """The kinds of both faces of an axis, Neumann where they are not known."""
        lower, upper = (
            conditions[name].kind if name in conditions else Kind.NEUMANN for name in (f"{axis}_lower", f"{axis}_upper")
        )
        # That only one of a pair wraps is a mistake that is noted elsewhere.
        return (lower, upper) if lower.wraps is upper.wraps else (Kind.NEUMANN, Kind.NEUMANN)

    def _word(self, axis: str) -> str:
        """The word of the placement along an axis."""
        centring = self.domain["centring"]
        if centring == "node" and axis == RADIUS and ANGLE in self.axes and self.centred:
            return Cells.word
        word = centring if isinstance(centring, str) else centring.get(axis, "node")
        return f"{word}s"

    def _explicit(self, name: str, kinds: tuple[Kind, Kind]) -> Axis | None:
        """The axis of nodes that are listed or in a file; None where there are none or they are wrong."""
        table, path = self.domain.get(name), ("domain", name)
        if table is None or self.mistakes.touch(path):
            return None
        with self.mistakes.at(path):
            require_one_kind(table)
            if "nodes" in table:
                return placed_axis(self._word(name), table["nodes"], kinds, self._power(name))
            if "file" in table:
                file = self._file(table)
                if len(file.shape) != 1:
                    raise CaseError(f"{file} has the shape {file.shape}; the nodes of an axis have (n,)")
                file.check(file.shape)
                return placed_axis(self._word(name), file.read(0, *file.shape), kinds, self._power(name))
        return None

    def _power(self, name: str) -> int:
        """`Placement.power` of an axis."""
        return SYSTEMS[self.system][len(self.axes)].power * (name == RADIUS)

    def _axis(self, name: str, low: float, high: float, nodes: int, kinds: tuple[Kind, Kind]) -> Axis | None:
        """The axis of nodes that are spaced equally, by a map or by a stretch."""
        table, word, path = self.domain.get(name, {}), self._word(name), ("domain", name)
        if self.mistakes.touch(path):
            return None
        power = self._power(name)
        if not table and word == Nodes.word and not power:
            return Axis.between(low, high, nodes, (kinds[0].rule, kinds[1].rule))
        self._words.update(re.findall(r"\w+", table.get("map", "")))
        try:
            intervals = nodes - (word == Nodes.word and not kinds[0].wraps)
            return placed_axis(word, marks_between(low, high, intervals, table, self.parameters), kinds, power)
        except (CaseError, ExpressionError) as error:
            self.mistakes.add((*path, "map") if "map" in table else path, str(error))
            return None

    def _interval(self, axis: str, low: float, high: float, nodes: int) -> bool:
        """Whether the nodes along an axis can be told apart."""
        path = ("domain", "upper")
        if not low < high:
            self.mistakes.wrong(path, high, f"more than domain.lower, which is {low} along {axis}")
            return False
        if wanted := wanted_spacing(low, high, nodes):
            self.mistakes.wrong(path, high, f"{wanted} along {axis}")
            return False
        return True

    def exact(self) -> Expression | None:
        item = self.equation.get(EXACT)
        return None if item is None else self._formula(("equation", EXACT), item)

    def coefficient(self, name: str, lattice: Lattice | None) -> Coefficient | None:
        """a or c: the number that it is, or else the field."""
        path = ("equation", name)
        item = self.equation[name]
        if isinstance(item, Mapping):
            return self.on_nodes(path, item, lattice)
        formula = self._least(path, item, positive=name == "a")
        return formula.value if isinstance(formula, Expression) and formula.is_constant else formula

    def source(
        self, lattice: Lattice | None, exact: Expression | None, a: Coefficient | None, c: Coefficient | None
    ) -> NodeField | None:
        path = ("equation", "f")
        item = self.equation.get("f")
        if item is None:
            self.mistakes.missing(path)
            return None
        if item != EXACT:
            return self.on_nodes(path, item, lattice)
        self._need_exact(path, item)
        self._need_formulas(path, "a", "c")
        if exact is None or not isinstance(a, (float, Expression)) or not isinstance(c, (float, Expression)):
            return None
        systems = SYSTEMS[self.system]
        dimension = self.dimension or max(systems)
        return manufactured_source(exact, a, c, dimension, systems[dimension].power)

    def output(self, name: str, lattice: Lattice | None, *read: Coefficient | None) -> OutputSettings:
        output, mistakes = self.tables["output"], self.mistakes
        file, given, order = Path(output.get("file", f"{name}.h5")), output["fields"], output["order"]
        sources = [os.path.realpath(field.path) for field in read if isinstance(field, FieldFile)]
        if os.path.realpath(file) in sources:
            mistakes.wrong(("output", "file"), str(file), "a file other than those that the case reads")
        if len(set(given)) != len(given):
            mistakes.wrong(("output", "fields"), given, "every field at most once")
        if "error" in given:
            self._need_exact(("output", "fields"), "error")
        fields = tuple(dict.fromkeys(["u", *given]))
        every = Interval.of(output["checkpoint_every"]) if "checkpoint_every" in output else None
        settings = OutputSettings(file, fields, order, Units(**output["units"]), every)
        if not settings.vectors and order != ORDERS[0]:
            mistakes.wrong(("output", "order"), order, WITHOUT_VECTORS.format("output.fields"))
        if lattice is not None and settings.vectors and min(lattice.shape) <= order:
            largest = max(each for each in ORDERS if each < min(lattice.shape))
            reason = f"because order p needs p + 1 nodes along every axis of domain.shape = {list(lattice.shape)}"
            mistakes.wrong(("output", "order"), order, f"at most {largest}, {reason}")
        return settings

    def need_used_parameters(self) -> None:
        """Report an override of a parameter that no text uses; in a file there may be such a one."""
        for path in self.mistakes.overridden:
            if path[0] != "parameters" or len(path) != 2 or path[1] in self._words or self.mistakes.touch(path):
                continue
            used = sorted(self._words & set(self.tables["parameters"]))
            near = difflib.get_close_matches(path[1], used, n=1)
            wanted = f"a parameter used by an expression of the case{': ' if used else ''}{', '.join(used)}"
            self.mistakes.wrong(path, self.tables["parameters"][path[1]], wanted, near[0] if near else None)

    def _formula(self, path: Keys, item: float | str) -> Expression | None:
        return self.formula(path, item) if isinstance(item, str) else Expression.constant(item)

    def _least(self, path: Keys, item: Any, *, positive: bool = False) -> Expression | FieldFile | None:
        """Refuse values that must not be negative, or zero; only those of a formula that is constant are known yet."""
        if isinstance(item, Mapping):
            return self._file(item)
        formula = self._formula(path, item)
        if formula is None or not formula.is_constant:
            return formula
        if formula.value > 0.0 or (formula.value == 0.0 and not positive):
            return formula
        if not self.mistakes.touch(path):
            self.mistakes.wrong(path, item, self.mistakes.allowed(path))
        return None

    def _file(self, table: Mapping[str, Any]) -> FieldFile:
        phases = table.get("phases")
        return FieldFile(self.folder / table["file"], table.get("dataset"), phases_of(phases) if phases else None)

    def _need_formulas(self, path: Keys, *names: str) -> None:
        """Report "exact" where a coefficient stands in a file, so that no derivative of it is known."""
        for name in names:
            if isinstance(self.equation[name], Mapping) and not self.mistakes.touch(path):
                self.mistakes.wrong(path, EXACT, f"only if equation.{name} is a number or an expression")

    def _need_exact(self, path: Keys, item: str) -> None:
        """Report `item` if there is no exact solution."""
        if EXACT not in self.equation and not self.mistakes.touch(("equation", "exact")):
            self.mistakes.wrong(path, item, "only if equation.exact is given")

    def _parameters(self) -> dict[str, float]:
        parameters = dict(self.tables["parameters"])
        # A parameter with a wrong value is one mistake, not another one in each text that uses it.
        parameters.update(dict.fromkeys(self.mistakes.keys_in("parameters"), 1.0))
        for name in list(parameters):
            mistake = parameter_mistake(name, self.axes)
            if mistake:
                del parameters[name]
                self.mistakes.add(("parameters", name), mistake)
        return parameters


def _faces(conditions: Conditions, exact: Expression | None, a: Coefficient, lattice: Lattice) -> tuple[Face, ...]:
    faces = []
    for face, name in enumerate(lattice.faces):
        if name in conditions:
            _, kind, table, value, alpha, _, patches, patched = conditions[name]
            derived = not patches and table.get(kind.value) == EXACT
            if derived and exact is not None and isinstance(alpha, (Expression, type(None))):
                # Where a is no formula only Dirichlet data, which need no a, are derived.
                formula = a if isinstance(a, (float, Expression)) else 1.0
                value = manufactured_value(exact, formula, kind, alpha, face)
            faces.append(Face(kind, value, alpha, patched))
    return tuple(faces)


def _gives_exact(overridden: Mapping[Keys, str]) -> bool:
    """Whether an override gives the exact solution, or the table that it stands in."""
    return any(path in (("equation",), ("equation", EXACT)) for path in overridden)


def _without_exact(
    mistakes: Mistakes, problem: Problem, output: OutputSettings, tables: dict[str, Any], changes: Sequence[Keys]
) -> tuple[Problem, OutputSettings]:
    """The problem and the output of a case whose exact solution is none any more; `tables` lose it as well.

    What was derived from it stays as it is, written as a formula.
    """
    keys = ", ".join(map(toml.dotted, changes))
    if "error" in output.fields and ("output", "fields") in mistakes.overridden:
        reason = f"only if equation.exact solves the case; override equation.exact together with {keys}"
        mistakes.wrong(("output", "fields"), "error", reason)
    output = replace(output, fields=tuple(name for name in output.fields if name != "error"))
    tables["output"] = {**tables["output"], "fields": output.fields}
    equation = {key: item for key, item in tables["equation"].items() if key != EXACT}
    boundary = dict(tables["boundary"])
    path: Keys = ("equation", "f")
    try:
        if equation["f"] == EXACT and isinstance(problem.f, Expression):
            equation["f"] = problem.f.text
        for name, face in zip(problem.lattice.faces, problem.faces, strict=True):
            path = ("boundary", name)
            given = boundary.get(name)
            if isinstance(given, Mapping) and isinstance(face.value, Expression) and EXACT in given.values():
                boundary[name] = {**given, face.kind.value: face.value.text}
    except ExpressionError as error:
        mistakes.wrong(
            path, EXACT, f"an expression, because equation.exact does not solve the case with {keys}, and {error}"
        )
    tables |= {"equation": equation, "boundary": boundary}
    log.warning(
        "equation.exact is ignored, because it does not solve the case with %s; override "
        "equation.exact, too, to have errors",
        keys,
    )
    return replace(problem, exact=None), output


def _resolved(
    tables: dict[str, Any], title: str, lattice: Lattice, conditions: Conditions, output: OutputSettings
) -> dict[str, Any]:
    """The tables of the case, with every default filled in."""
    boundary: dict[str, Any] = {}
    for name, condition in conditions.items():
        if condition.kind.wraps:
            boundary[name.rpartition("_")[0]] = condition.kind.value
        elif condition.kind is not Kind.AXIS:
            boundary[name] = condition.table if condition.kind.has_data else condition.kind.value
    box = {"lower": list(lattice.lower), "upper": list(lattice.upper), "shape": list(lattice.shape)}
    tables |= {
        "title": title,
        "domain": box | tables["domain"],
        "boundary": boundary,
        "output": {
            "file": str(output.file),
            "fields": output.fields,
            "order": output.order,
            "units": {"length": output.units.length, "value": output.units.value},
        }
        | {name: item for name, item in tables["output"].items() if name == "checkpoint_every"},
    }
    if not tables["body"]:
        tables["equation"] = {name: item for name, item in tables["equation"].items() if name != "surface"}
    order = [name for name in CASE.keys if name not in ("parameters", "body") or tables[name]]
    return {name: tables[name] for name in order}
