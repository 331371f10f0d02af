"""From a checked form to a `Case`: what depends on more than one key."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from poisson.boundary import FACE_NAMES, Face, Kind
from poisson.case import toml
from poisson.case.mistakes import Mistakes, dimension, validate
from poisson.case.mistakes import Path as Keys
from poisson.case.schema import CaseFile, FaceTable, FileTable
from poisson.case.settings import Case, OutputSettings, RunSettings, SolverSettings
from poisson.differences import ORDERS
from poisson.errors import CaseError, ExpressionError
from poisson.expressions import Expression, parameter_mistake, parse
from poisson.fields import FieldFile
from poisson.grid import AXES, Grid
from poisson.problem import NodeField, Problem, manufactured_source, manufactured_value

MAX_NODES = 2**60
"""Arrays of more nodes have more bytes than a 64-bit integer counts."""

MIN_SPACING, MAX_SPACING = 1e-150, 1e150
"""The squares of these and their inverses are still finite."""

EXACT = "exact"
"""In the place of a formula: derive it from the exact solution."""


class Condition(NamedTuple):
    """What the case file says about a face: the kind, the number or text, and its expression unless it is "exact"."""

    kind: Kind
    item: float | str
    value: Expression | None


def build(data: dict[str, Any], name: str, folder: Path, overridden: Sequence[Keys]) -> Case:
    """Validate a case file as a whole.

    Parameters
    ----------
    data : dict
        The TOML document, with overrides applied. Wrong keys are taken out of it.
    name : str
        The name of the case, for the title and the output file.
    folder : Path
        Field files are relative to it.
    overridden : sequence of tuple of str
        The keys that overrides gave.

    Raises
    ------
    CaseError
        With one line for each mistake.
    """
    mistakes = Mistakes()
    axes = dimension(data)
    form = validate(data, mistakes)
    checker = _Checker(form, mistakes, axes, folder)
    exact = checker.exact()
    conditions = checker.conditions()
    grid = checker.grid(conditions)
    f = checker.source(grid, exact)
    initial = checker.node_field(("run", "initial"), form.run.initial, grid)
    output = checker.output(name, grid, f, initial)
    if mistakes or grid is None or f is None or initial is None:
        raise CaseError(mistakes.lines(overridden))
    faces = _faces(conditions, exact)
    title = name if form.title is None else form.title
    problem = Problem(grid, faces, f, form.equation.c, initial, exact, title)
    solver = SolverSettings(**form.solver.model_dump())
    run = RunSettings(form.run.backend, form.run.precision, form.run.threads)
    return Case(problem, solver, run, output, _resolved(form, title, conditions, output))


class _Checker:
    """Checks the keys that depend on each other, and turns them into the parts of a problem."""

    def __init__(self, form: CaseFile, mistakes: Mistakes, axes: int | None, folder: Path) -> None:
        self.form = form
        self.mistakes = mistakes
        self.axes = axes
        self.folder = folder
        self.parameters = self._parameters()

    def conditions(self) -> dict[str, Condition]:
        """The condition on each face that has a right one, by the name of the face."""
        boundary, mistakes = self.form.boundary, self.mistakes
        conditions: dict[str, Condition] = {}
        general = self._condition("all", boundary.all)
        for axis in AXES[: self.axes or 3]:
            periodic = getattr(boundary, axis) is not None
            for name in (f"{axis}_lower", f"{axis}_upper"):
                table: FaceTable | None = getattr(boundary, name)
                condition = self._condition(name, table) or general
                path = ("boundary", name)
                if periodic and table:
                    item = table.model_dump(exclude_none=True)
                    mistakes.wrong(path, item, f'nothing, as {axis} = "periodic" gives this face')
                elif periodic:
                    conditions[name] = Condition(Kind.PERIODIC, 0.0, None)
                elif condition:
                    conditions[name] = condition
                elif self.axes and not any(mistakes.touch(("boundary", key)) for key in (axis, "all")):
                    mistakes.missing(path)
        return conditions

    def _condition(self, name: str, table: FaceTable | None) -> Condition | None:
        path = ("boundary", name)
        if table is None or self.mistakes.touch(path):
            return None
        given = table.model_dump(exclude_none=True)
        if len(given) != 1:
            self.mistakes.wrong(path, given, "exactly one of dirichlet and neumann")
            return None
        [(kind, item)] = given.items()
        if item == EXACT:
            self._need_exact((*path, kind), item)
            return Condition(Kind(kind), item, None)
        return Condition(Kind(kind), item, self._formula((*path, kind), item))

    def grid(self, conditions: dict[str, Condition]) -> Grid | None:
        domain, mistakes = self.form.domain, self.mistakes
        for key in ("lower", "upper", "shape"):
            if getattr(domain, key) is None:
                mistakes.missing(("domain", key))
        lower, upper, shape = domain.lower, domain.upper, domain.shape
        if lower is None or upper is None or shape is None:
            return None
        if not len(lower) == len(upper) == len(shape):
            counts = f"{len(lower)}, {len(upper)} and {len(shape)} entries"
            mistakes.add(("domain",), f"lower, upper and shape have {counts}; allowed: 2 in each, or 3 in each")
            return None
        if math.prod(shape) >= MAX_NODES:
            mistakes.wrong(("domain", "shape"), shape, "fewer than 2**60 nodes in all")
            return None
        periodic = tuple(
            f"{axis}_lower" in conditions and conditions[f"{axis}_lower"].kind is Kind.PERIODIC
            for axis in AXES[: len(shape)]
        )
        distinct = [self._interval(*values) for values in zip(AXES, lower, upper, shape, strict=False)]
        if not all(distinct):
            return None
        return Grid(tuple(lower), tuple(upper), tuple(shape), periodic)

    def _interval(self, axis: str, low: float, high: float, nodes: int) -> bool:
        """Whether the nodes along an axis can be told apart."""
        path = ("domain", "upper")
        if not low < high:
            self.mistakes.wrong(path, high, f"more than domain.lower, which is {low} along {axis}")
            return False
        spacing = (high - low) / nodes
        if not MIN_SPACING < spacing < MAX_SPACING:
            limits = f"more than {MIN_SPACING} and less than {MAX_SPACING}"
            self.mistakes.wrong(path, high, f"a spacing of the nodes of {limits} along {axis}")
        elif low + spacing == low or high - spacing == high:
            self.mistakes.wrong(path, high, f"nodes far enough apart to differ in float64 along {axis}")
        else:
            return True
        return False

    def exact(self) -> Expression | None:
        item = self.form.equation.exact
        return None if item is None else self._formula(("equation", "exact"), item)

    def source(self, grid: Grid | None, exact: Expression | None) -> NodeField | None:
        path = ("equation", "f")
        item = self.form.equation.f
        if item is None:
            self.mistakes.missing(path)
            return None
        if item == EXACT:
            self._need_exact(path, item)
            return None if exact is None else manufactured_source(exact, self.form.equation.c, self.axes or 3)
        return self.node_field(path, item, grid)

    def node_field(self, path: Keys, item: float | str | FileTable, grid: Grid | None) -> NodeField | None:
        if not isinstance(item, FileTable):
            return self._formula(path, item)
        field = FieldFile(self.folder / item.file, item.dataset)
        if grid is not None and not self.mistakes.touch(path):
            try:
                field.check(grid.array_shape)
            except CaseError as error:
                self.mistakes.add(path, str(error))
        return field

    def output(self, name: str, grid: Grid | None, *read: NodeField | None) -> OutputSettings:
        output, mistakes = self.form.output, self.mistakes
        file = Path(output.file or f"{name}.h5")
        sources = [os.path.realpath(field.path) for field in read if isinstance(field, FieldFile)]
        if os.path.realpath(file) in sources:
            mistakes.wrong(("output", "file"), str(file), "a file that the case does not read")
        if len(set(output.fields)) != len(output.fields):
            mistakes.wrong(("output", "fields"), output.fields, "each field once")
        if "error" in output.fields:
            self._need_exact(("output", "fields"), "error")
        settings = OutputSettings(file, tuple(dict.fromkeys(["u", *output.fields])), output.order)
        if grid is not None and settings.vectors and min(grid.shape) <= output.order:
            largest = max(order for order in ORDERS if order < min(grid.shape))
            reason = f"as order p needs p + 1 nodes along each axis of domain.shape = {list(grid.shape)}"
            mistakes.wrong(("output", "order"), output.order, f"at most {largest}, {reason}")
        return settings

    def _formula(self, path: Keys, item: float | str) -> Expression | None:
        if not isinstance(item, str):
            return Expression.constant(item)
        try:
            return parse(item, self.axes or 3, self.parameters)
        except ExpressionError as error:
            self.mistakes.add(path, f"{toml.shown(item)}; {error}")
            return None

    def _need_exact(self, path: Keys, item: str) -> None:
        """Report `item` if there is no exact solution."""
        if self.form.equation.exact is None and not self.mistakes.touch(("equation", "exact")):
            self.mistakes.wrong(path, item, "only where equation.exact is given")

    def _parameters(self) -> dict[str, float]:
        parameters = dict(self.form.parameters)
        # A parameter with a wrong value is one mistake, not another one in each text that uses it.
        parameters.update(dict.fromkeys(self.mistakes.keys_in("parameters"), 1.0))
        for name in list(parameters):
            mistake = parameter_mistake(name)
            if mistake:
                del parameters[name]
                self.mistakes.add(("parameters", name), mistake)
        return parameters


def _faces(conditions: dict[str, Condition], exact: Expression | None) -> tuple[Face, ...]:
    faces = []
    for face, name in enumerate(FACE_NAMES):
        if name in conditions:
            kind, item, value = conditions[name]
            if item == EXACT and exact is not None:
                value = manufactured_value(exact, kind, face)
            faces.append(Face(kind, value))
    return tuple(faces)


def _resolved(form: CaseFile, title: str, conditions: dict[str, Condition], output: OutputSettings) -> str:
    """The case as TOML, with every default filled in."""
    boundary: dict[str, Any] = {}
    for name, condition in conditions.items():
        if condition.kind is Kind.PERIODIC:
            boundary[name[0]] = condition.kind.value
        else:
            boundary[name] = {condition.kind.value: condition.item}
    tables = form.model_dump(exclude_none=True)
    tables |= {
        "title": title,
        "boundary": boundary,
        "output": {"file": str(output.file), "fields": output.fields, "order": output.order},
    }
    order = [name for name in CaseFile.model_fields if name != "parameters" or form.parameters]
    return toml.document({name: tables[name] for name in order})
