# SPDX-License-Identifier: MIT
"""A problem as the text that stands in a result, and back.

What has no text, an array or a Python function, stands there as a table that names the file `NOWHERE`. A problem that
is read back looks for it there when the values are needed, and says that there is none.
"""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import tomli_w

from poisson.case.reading import from_mapping, parsed
from poisson.errors import ExpressionError, PoissonError
from poisson.mesh.boundary import Kind
from poisson.mesh.lattice import Lattice
from poisson.mesh.system import CARTESIAN
from poisson.problem.bodies import Body, Inside
from poisson.problem.expressions import Expression
from poisson.problem.fields import FieldFile
from poisson.problem.images import phases_of
from poisson.problem.problem import Problem

NOWHERE = "given-in-python.h5"

MOST_LISTED = 3000
"""Nodes of an axis that stand in the text; of longer axes the result has them."""

_VARIES = "2 + sin(x)"
"""Stands for a file while the rest of a case is checked: a positive function that is no number."""

_TABLES = ("title", "equation", "parameters", "domain", "boundary", "body")


def text_of(problem: Problem) -> str:
    """The tables of a case file that say what a problem is, as TOML."""
    grid = problem.lattice
    equation = {name: _written(name, getattr(problem, name)) for name in ("f", "a", "c")} | {"mean": problem.mean}
    if problem.exact is not None:
        exact = _written("exact", problem.exact)
        equation |= {} if isinstance(exact, dict) else {"exact": exact}
    boundary: dict[str, Any] = {}
    for name, face in zip(grid.faces, problem.faces, strict=True):
        if face.kind.wraps:
            boundary[name.rpartition("_")[0]] = face.kind.value
        elif not face.kind.has_data:
            boundary |= {} if face.kind is Kind.AXIS else {name: face.kind.value}
        else:
            given = {face.kind.value: face.value} | ({} if face.alpha is None else {"alpha": face.alpha})
            boundary[name] = {key: _written(f"{name}.{key}", data) for key, data in given.items()}
    tables: dict[str, Any] = {
        "equation": equation,
        "domain": {"lower": list(grid.lower), "upper": list(grid.upper), "shape": list(grid.shape)},
        "boundary": boundary,
    }
    if grid.tabulated:
        tables["domain"] |= _axes_of(grid)
    if problem.bodies:
        tables["body"] = [_body(f"body.{number}", body) for number, body in enumerate(problem.bodies, start=1)]
    if grid.system != CARTESIAN:
        tables["domain"]["system"] = grid.system
    if problem.guess:
        tables["run"] = {"initial": _written("initial", problem.initial)}
    return tomli_w.dumps(tables)


def _body(name: str, body: Body) -> dict[str, Any]:
    level = body.inside.level
    inside = _written(f"{name}.inside", level)
    found = {"name": body.name, "inside": inside if isinstance(inside, dict) else f"{inside} <= 0"}
    if body.floating:
        return found | {"floating": True, "charge": body.charge}
    data = {body.kind: body.value} | ({} if body.alpha is None else {"alpha": body.alpha})
    return found | {key: _written(f"{name}.{key}", given) for key, given in data.items()}


def _axes_of(grid: Lattice) -> dict[str, Any]:
    """The keys of ``[domain]`` that say where nodes are which do not lie on the faces equally spaced."""
    found: dict[str, Any] = {"centring": {}}
    for name, axis in zip(grid.names, grid.axes, strict=True):
        if (placed := axis.placement) is not None:
            found["centring"][name] = placed.word.removesuffix("s")
            if (placed.on_faces and not placed.power) or not np.array_equal(
                placed.marks, np.linspace(*placed.ends, placed.marks.size)
            ):
                many = placed.marks.size > MOST_LISTED
                found[name] = {"file": NOWHERE, "dataset": name} if many else {"nodes": placed.marks.tolist()}
    return found


def _written(name: str, given: Any) -> float | str | dict[str, Any]:
    if isinstance(given, FieldFile):
        path = str(given.path.absolute())
        phases = {str(label): value for label, value in given.phases or ()}
        return {
            "file": path,
            **({"dataset": given.dataset} if given.dataset is not None else {}),
            **({"phases": phases} if phases else {}),
        }
    if not isinstance(given, Expression):
        return float(given) if isinstance(given, (int, float)) else {"file": NOWHERE, "dataset": name}
    try:
        return given.value if given.is_constant else given.text
    except ExpressionError:
        return {"file": NOWHERE, "dataset": name}


def problem_of(
    text: str, title: str, folder: Path, instead: Mapping[str, FieldFile], grid: Lattice | None = None
) -> Problem:
    """The problem of a case that stands in a result.

    Field files are not looked at before their values are needed: they may be gone.

    `text`: the case as TOML. `title`: its title. `folder`: field files are relative to it. `instead`: what is taken in
    the place of the files of ``f``, ``a`` and ``c``. `grid`: has the nodes of axes whose files may be gone. Raises
    `CaseError` if the text is no case.
    """
    whole = parsed(text, "the case")
    tables = {name: whole[name] for name in _TABLES if name in whole}
    for name, axis in zip(grid.names, grid.axes, strict=True) if grid else ():
        domain = tables.get("domain")
        table = domain.get(name) if isinstance(domain, dict) else None
        if isinstance(table, dict) and "file" in table and axis.placement is not None:
            tables["domain"] |= {name: {"nodes": axis.placement.marks.tolist()}}
    run = whole.get("run")
    if isinstance(run, dict) and "initial" in run:
        tables["run"] = {"initial": run["initial"]}
    files: dict[tuple[str, ...], FieldFile] = {}
    problem = from_mapping(_without_files(tables, folder, (), files), name="result", folder=folder).problem
    equation = {
        name: instead.get(name, files[path]) for name in ("f", "a", "c") if (path := ("equation", name)) in files
    }
    if ("run", "initial") in files:
        equation["initial"] = files["run", "initial"]
    boundary = tables.get("boundary", {})
    faces = []
    for name, face in zip(problem.lattice.faces, problem.faces, strict=True):
        key = name if name in boundary else "all"
        data = {"value": ("boundary", key, face.kind.value), "alpha": ("boundary", key, "alpha")}
        changes: dict[str, Any] = {part: files[path] for part, path in data.items() if path in files}
        faces.append(replace(face, **changes))
    bodies = []
    for number, body in enumerate(problem.bodies, start=1):
        absent: dict[str, Any] = {path[2]: file for path, file in files.items() if path[:2] == ("body", str(number))}
        inside = absent.pop("inside", None)
        if inside is not None:
            mask = False
            with suppress(PoissonError):
                mask = inside.kind in "biu"
            body = replace(body, inside=Inside(inside, mask))
        bodies.append(replace(body, **absent))
    given: dict[str, Any] = equation
    return replace(problem, **given, faces=tuple(faces), title=title, bodies=tuple(bodies))


def _without_files(
    item: Any, folder: Path, path: tuple[str, ...], files: dict[tuple[str, ...], FieldFile]
) -> dict[str, Any]:
    """A copy of tables with `_VARIES` in the place of those that name files, which are collected."""
    found: dict[str, Any] = {}
    for key, entry in item.items():
        below = (*path, key)
        if (
            isinstance(entry, dict)
            and isinstance(entry.get("file"), str)
            and set(entry) <= {"file", "dataset", "phases"}
        ):
            dataset, phases = entry.get("dataset"), entry.get("phases")
            name = None if dataset is None else str(dataset)
            files[below] = FieldFile(folder / entry["file"], name, phases_of(phases) if phases else None)
            found[key] = "x < 0" if key == "inside" else _VARIES
        elif key == "body" and isinstance(entry, list):
            numbers = enumerate(entry, start=1)
            found[key] = [_without_files(each, folder, (*below, str(number)), files) for number, each in numbers]
        else:
            found[key] = _without_files(entry, folder, below, files) if isinstance(entry, dict) else entry
    return found
