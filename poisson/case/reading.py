# SPDX-License-Identifier: MIT
"""Reading a case: from a file, from a mapping, with overrides."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import tomli_w

from poisson import plain
from poisson.case import toml
from poisson.case.axes import marks_between
from poisson.case.toml import ByOption
from poisson.errors import CaseError
from poisson.mesh.axis import Axis
from poisson.problem.fields import FieldFile

if TYPE_CHECKING:
    from poisson.case.settings import Case
    from poisson.problem.problem import Problem

MAX_FILE = 2**18
"""The longest case file that is read, in bytes."""

MAX_DEPTH = 8
"""Tables and lists inside each other; a right case has at most 3."""


_HDF5 = b"\x89HDF\r\n\x1a\n"
"""The first bytes of an HDF5 file."""

TOO_DEEP = f"tables or lists are nested more than {MAX_DEPTH} deep"

_TOKENS = re.compile(
    r"""
    (?P<comment> \#[^\n]*)
  | (?P<string> "{3}(?:[^"\\]|\\.|"{1,2}(?!"))*"{3,5} | '{3}(?:[^']|'{1,2}(?!'))*'{3,5}
              | (?!"{3})"(?:[^"\\\n]|\\.)*" | (?!'{3})'[^'\n]*')
  | (?P<unclosed> ["'])
  | (?P<word> [^\s"'\[\]{}.,=\#]+)
  | (?P<space> [^\S\n]+)
  | (?P<sign> .)
    """,
    re.VERBOSE | re.DOTALL,
)


def load(path: str | Path, overrides: Sequence[str] = ()) -> Case:
    """Read a case file.

    Parameters
    ----------
    path : str or Path
        A TOML file in UTF-8. Field files are relative to its folder; its name without the suffix is the default title
        and the default name of the output.
    overrides : sequence of str
        Such as ``solver.rtol=1e-6``: the path to a key and a TOML value. A value that is not TOML is taken as a text.

    Returns
    -------
    Case
        Validated, with every default filled in.

    Raises
    ------
    CaseError
        With one line for each mistake in the file and in the overrides.

    Examples
    --------
    >>> case = poisson.load_case("cases/unit_square.toml", ["domain.shape = [33, 33]", "solver.rtol = 1e-6"])
    >>> poisson.solve(case).u.shape
    (33, 33)
    """
    path = Path(path)
    return from_mapping(_read(path), name=path.stem, folder=path.parent, overrides=overrides)


def from_mapping(data: Mapping[str, Any], *, name: str, folder: str | Path, overrides: Sequence[str] = ()) -> Case:
    """Make a case from what a case file would hold.

    `data`: the tables of the case file, by name. Not changed. `name`: the default title, and the default name of the
    output file without its suffix. `folder`: field files are relative to it. `overrides`: as for `load`. Returns:
    validated, with every default filled in. Raises `CaseError` with one line for each mistake.
    """
    # Imported on use: what reads results only, or reads the text of a case, makes none.
    from poisson.case.build import build
    from poisson.case.exact import changed

    if isinstance(overrides, str):
        raise CaseError(f"overrides: {overrides!r}; allowed: a list of strings, such as [{overrides!r}]")
    tables = _copy(data, 0)
    overridden = dict(_override(tables, override) for override in overrides)
    printable = "".join(character if character.isprintable() else "_" for character in name)
    changes = changed(_copy(data, 0), tables) if overridden else []
    return build(tables, printable, Path(folder), overridden, changes)


def check_keys(path: str | Path, overrides: Sequence[str] = ()) -> None:
    """Make sure that every key of a case file has a value that may stand there, whatever the others are.

    Raises CaseError with one line for each that has not, or if the file cannot be read.
    """
    from poisson.case.mistakes import Mistakes, validate

    tables = _copy(_read(Path(path)), 0)
    overridden = dict(_override(tables, override) for override in overrides)
    mistakes = Mistakes(overridden)
    validate(tables, mistakes)
    mistakes.refuse()


def field_files(problem: Problem) -> dict[str, FieldFile]:
    """The files that a problem reads, by the keys of a case that name them."""
    given: dict[str, Any] = {"equation.f": problem.f, "equation.a": problem.a, "equation.c": problem.c}
    given["run.initial"] = problem.initial
    for name, face in zip(problem.lattice.faces, problem.faces, strict=True):
        given |= {f"boundary.{name}.{face.kind.value}": face.value, f"boundary.{name}.alpha": face.alpha}
    return {path: field for path, field in given.items() if isinstance(field, FieldFile)}


def regrid(case: Case, shape: Sequence[int]) -> Case:
    """The same case on another number of nodes, in the order x, y(, z); nodes that are listed go by `Axis.resized`.

    Raises CaseError if a field comes from a file, which has values on one grid only, and ValueError if `shape` does not
    fit the dimension, or has fewer than 3 nodes on an axis.
    """
    problem = case.problem
    for path, field in field_files(problem).items():
        raise CaseError(f"{path}: {field}; allowed on another grid: a number or an expression")
    tables = tomllib.loads(case.text)
    domain, parameters = tables["domain"], tables.get("parameters", {})
    domain["shape"] = list(shape)
    axes = []
    for name, line, nodes in zip(problem.lattice.names, problem.lattice.axes, shape, strict=True):
        axis, table = line.resized(nodes), domain.get(name, {})
        if (placed := axis.placement) is not None:
            if "map" in table or "stretch" in table:
                marks = marks_between(*line.interval, placed.marks.size - 1, table, parameters)
                axis = Axis.placed(type(placed)(marks, placed.kinds, power=placed.power))
            elif table:
                domain[name] = {"nodes": placed.marks.tolist()}
        axes.append(axis)
    lattice = replace(problem.lattice, axes=tuple(axes))
    return replace(case, problem=replace(problem, lattice=lattice), text=tomli_w.dumps(tables))


def _read(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as file:
            content = file.read(MAX_FILE + 1)
    except FileNotFoundError:
        raise CaseError(f"no case file {str(path)!r}{plain.nearest(path)}") from None
    except IsADirectoryError:
        raise CaseError(f"{str(path)!r} is a directory; name a case file in it") from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise CaseError(f"{str(path)!r} cannot be read: {reason}") from error
    if content.startswith(_HDF5):
        raise CaseError(f"{str(path)!r} is an HDF5 file; a case file is TOML")
    if len(content) > MAX_FILE:
        raise CaseError(f"{str(path)!r} is longer than {MAX_FILE} bytes; a case file is short")
    try:
        # Some editors begin a file with a byte order mark.
        return parsed(content.decode("utf-8-sig"), repr(str(path)))
    except UnicodeDecodeError as error:
        raise CaseError(f"{str(path)!r} is not UTF-8: byte {error.start} is invalid") from error


def parsed(text: str, what: str) -> dict[str, Any]:
    """The tables of a text in TOML, which may be anyone's.

    `text`: of at most `MAX_FILE` characters. `what`: the name of the value, for the message. Raises `CaseError` if it
    is no TOML, or too long or too deep to be parsed.
    """
    if len(text) > MAX_FILE:
        raise CaseError(f"{what} is longer than {MAX_FILE} characters")
    if _too_deep(text):
        raise CaseError(f"{what}: {TOO_DEEP}")
    try:
        return tomllib.loads(text)
    except ValueError as error:
        raise CaseError(f"{what} is not TOML: {' '.join(str(error).split())}") from error


def _too_deep(text: str) -> bool:
    """Whether a text nests tables or lists too deep to be parsed, which takes time and memory by the depth.

    What counts are the dots in one key and the brackets that are open. A string that has no end is for the parser.
    """
    brackets = dots = 0
    for token in _TOKENS.finditer(text):
        kind, found = token.lastgroup, token.group()
        if kind == "unclosed":
            return False
        if kind == "sign":
            dots = dots + 1 if found == "." else 0
            brackets = max(0, brackets + (found in "[{") - (found in "]}"))
        if max(brackets, dots) > MAX_DEPTH:
            return True
    return False


def _copy(item: Any, depth: int) -> Any:
    """A copy made of dictionaries and lists, that overrides and the checks may change."""
    if depth > MAX_DEPTH:
        raise CaseError(TOO_DEEP)
    if isinstance(item, Mapping):
        return {str(name): _copy(entry, depth + 1) for name, entry in item.items()}
    if isinstance(item, (list, tuple)):
        return [_copy(entry, depth + 1) for entry in item]
    return item


def _override(tables: dict[str, Any], override: str) -> tuple[tuple[str, ...], str]:
    """Set the key that an override names; returns the path of the key, and the option that gave the override."""
    left, sign, right = override.partition("=")
    path = tuple(left.strip().split("."))
    if not sign or not all(re.fullmatch(r"[A-Za-z0-9_-]+", name) for name in path):
        raise CaseError(f"--set {toml.shown(override)}; allowed: KEY=VALUE, as in solver.rtol=1e-6")
    if len(path) > MAX_DEPTH or _too_deep(right):
        raise CaseError(f"--set {toml.shown(override)}: {TOO_DEEP}")
    table, said = tables, toml.dotted(path)
    for depth in range(1, len(path)):
        inner = table.setdefault(path[depth - 1], {})
        if isinstance(inner, list) and depth < len(path) - 1:
            number = _entry(inner, path[: depth + 1], said)
            path = (*path[:depth], number, *path[depth + 1 :])
            inner = {number: inner[int(number) - 1]}
        if not isinstance(inner, dict):
            raise CaseError(f"--set {said}: {toml.dotted(path[:depth])} is not a table")
        table = inner
    table[path[-1]] = _copy(value_of(right.strip()), len(path))
    return path, override.option if isinstance(override, ByOption) else f"--set {said}"


def _entry(entries: list[Any], path: tuple[str, ...], said: str) -> str:
    """The number of a table in a list, from 1, given by the end of a path: that number, or the name of the table."""
    names = [entry.get("name") if isinstance(entry, Mapping) else None for entry in entries]
    if path[-1] in names:
        return str(names.index(path[-1]) + 1)
    numbers = [str(number) for number in range(1, len(entries) + 1)]
    if path[-1] not in numbers:
        known = ", ".join([*numbers, *(name for name in names if isinstance(name, str))])
        raise CaseError(f"--set {said}: there is no {toml.dotted(path)}; allowed: {known}")
    return path[-1]


def value_of(text: str) -> Any:
    """The value that a text of an override stands for: what TOML makes of it, or the text itself."""
    try:
        read = tomllib.loads(f"value = {text}")
    except ValueError:
        return text
    # A line break in the text could begin further keys.
    return read["value"] if len(read) == 1 else text
