# SPDX-License-Identifier: MIT
"""Finding and wording every mistake of a case file at once."""

import difflib
from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, get_args

from pydantic import Tag, ValidationError

from poisson.backends.registry import nearest
from poisson.case import toml
from poisson.case.schema import CaseFile
from poisson.case.tables import PatchTable, Table
from poisson.mesh.grid import AXES
from poisson.mesh.system import ALL_AXES, CARTESIAN, SYSTEMS, axes_of, faces_of
from poisson.problem import mistakes as problem
from poisson.problem.mistakes import Path
from poisson.problem.user_data import ALPHA
from poisson.solvers.entries import Clash

_BY_AXIS: tuple[Path, ...] = (("boundary",), ("domain",), ("domain", "centring"))
"""The tables with keys for single axes …"""
_OF_AXES = {*ALL_AXES, *faces_of(ALL_AXES)}
"""… which have these names."""

MOST_SHOWN = 40
"""The most mistakes that are shown, and for which suggestions are looked for."""


class Mistakes(problem.Mistakes):
    """The mistakes in a case file so far.

    `overridden`: the keys that overrides gave, with the options that gave them, such as ``--set run.backend`` or
    ``--backend``.
    """

    def __init__(self, overridden: Mapping[Path, str] = MappingProxyType({})) -> None:
        super().__init__()
        self.overridden = overridden
        self._meant: list[Path] = []
        self._suggestions = 0

    def dotted(self, path: Path) -> str:
        return toml.dotted(path)

    def shown(self, item: Any) -> str:
        return toml.shown(item)

    def allowed(self, path: Path) -> str:
        return allowed(path)

    def replacing(self, path: Path, table: Mapping[str, Any] | None) -> str:
        """How to replace the table of a face, where overrides of single keys have added to what the file has."""
        overrides = [each for each in self.overridden if each[:2] == path]
        if table is None:
            return "; override those conditions" if overrides else ""
        found = {each[2]: table[each[2]] for each in overrides if len(each) > 2 and each[2] in table}
        if not set(found) - {ALPHA}:
            return ""
        return f"; to replace the condition: --set {toml.dotted(path)}={toml.shown(found)}"

    def misspelt(self, path: Path, keys: list[str], meant: Path | None) -> None:
        """There is no key `path`, but `keys` in its table; `meant` is the path of the key that may have been meant."""
        near = None
        if meant:
            self._meant.append(meant)
            near = meant[-1] if meant[:-1] == path[:-1] else toml.dotted(meant)
        self.unknown(path, keys, near)

    def missing(self, path: Path) -> None:
        if path not in self._meant:
            super().missing(path)

    def disagree(self, clashes: Iterable[Clash]) -> None:
        """These settings do not go together; a key that is wrong by itself is one mistake."""
        for clash in clashes:
            if not self.touch(clash.path) and not self.touch(("solver", "method")):
                self.wrong(clash.path, clash.item, clash.allowed)

    def keys_in(self, table: str) -> list[str]:
        """The keys directly in a table that have mistakes."""
        return [path[1] for path, _ in self._found if len(path) == 2 and path[0] == table]

    def suggest(self) -> bool:
        """Whether to look for what may have been meant; not in a file that is something else altogether."""
        self._suggestions += 1
        return self._suggestions <= MOST_SHOWN

    def lines(self) -> list[str]:
        """One line each, in the order of the tables; those at a key that an override gave name the override.

        After `MOST_SHOWN` mistakes a line says how many more there are.
        """
        order = {name: position for position, name in enumerate(CaseFile.model_fields)}
        ordered = sorted(self._found, key=lambda mistake: order.get(mistake[0][0], len(order)))
        lines = [
            f"{self.overridden[path]}{line.removeprefix(toml.dotted(path))}"
            if path in self.overridden
            else f"--set {line}"
            if any(_touches(path, given) for given in self.overridden)
            else line
            for path, line in ordered[:MOST_SHOWN]
        ]
        return lines if len(ordered) <= MOST_SHOWN else [*lines, f"and {len(ordered) - MOST_SHOWN} more"]


def _touches(path: Path, given: Path) -> bool:
    """Whether an override gave what stands at a key, or a part of what stands at a key of a table."""
    return path[: len(given)] == given or (len(path) > 1 and given[: len(path)] == path)


def validate(data: dict[str, Any], mistakes: Mistakes) -> CaseFile:
    """Check every key by itself.

    `data`: the case file; whatever is wrong is taken out of it. `mistakes`: receives one mistake for each wrong key.
    Returns: what was right, with defaults in the place of what was wrong.
    """
    for path in _BY_AXIS:
        table: Any = data
        for key in path:
            table = table.get(key) if isinstance(table, dict) else None
        for name in list(table) if isinstance(table, dict) else ():
            if name in _TABLES[path].model_fields and name not in (keys := _keys(path, data)):
                mistakes.misspelt((*path, name), keys, None)
                del table[name]
    while True:
        try:
            return CaseFile.model_validate(data)
        except ValidationError as error:
            details = [(_path(detail["loc"]), detail["type"]) for detail in error.errors(include_url=False)]
        for path, kind in details:
            # A list with two wrong entries is one mistake, and a key taken out below is not a missing one.
            if mistakes.touch(path):
                continue
            if kind == "extra_forbidden":
                _unknown(path, data, mistakes)
            elif kind == "missing":
                mistakes.missing(path)
            else:
                item = _at(data, path)
                mistakes.wrong(path, item, allowed(path), _nearest_value(path, item))
        # A table that lacks a key is of no use, so all of it goes, after the keys in it.
        useless = [path[:-1] if kind == "missing" else path for path, kind in details]
        for path in sorted(set(useless), key=_depth, reverse=True):
            table = _at(data, path[:-1])
            del table[int(path[-1]) - 1 if isinstance(table, list) else path[-1]]


def _depth(path: Path) -> tuple[int, list[int]]:
    """The order in which keys are deleted: the last entry of a list first, so that the others keep their numbers."""
    return len(path), [int(name) if name.isdigit() else 0 for name in path]


def _model(path: Path) -> type[Table] | None:
    """The table at a path, which may be an entry of a list of tables."""
    return None if _LISTS.get(path) == path else _TABLES.get(_entry(path))


def _entry(path: Path) -> Path:
    """A path in an entry of a list of tables as that of every entry."""
    for depth in (1, 2):
        if path[:depth] in _LISTS and len(path) > depth and path[depth].isdigit():
            return (*_LISTS[path[:depth]], *path[depth + 1 :])
    return path


def allowed(path: Path) -> str:
    """The allowed values of a key, in words."""
    table = _model(path[:-1])
    if table is None:
        return "a table" if path[:-1] in _LISTS else "a finite number"
    if path[-1] not in table.model_fields:
        return "a table with where and a condition"
    return str(table.model_fields[path[-1]].description)


def dimension(data: dict[str, Any]) -> int | None:
    """1, 2 or 3, as the lists in ``[domain]`` say, or without them its axes; None where they contradict each other."""
    domain = data.get("domain")
    entries = [domain.get(name) for name in ("lower", "upper", "shape")] if isinstance(domain, dict) else []
    lengths = {len(entry) for entry in entries if isinstance(entry, list)} & {1, 2, 3}
    if not lengths and isinstance(domain, dict):
        systems = SYSTEMS.get(str(domain.get("system", CARTESIAN)), {})
        return next((count for count in (3, 2, 1) if count in systems and {*systems[count].axes} <= {*domain}), None)
    return lengths.pop() if len(lengths) == 1 else None


def system(data: dict[str, Any]) -> str:
    """The system of coordinates, as far as it is a right one of so many axes."""
    domain = data.get("domain")
    found = domain.get("system") if isinstance(domain, dict) else None
    return found if isinstance(found, str) and found in SYSTEMS and axes_of(found, dimension(data)) else CARTESIAN


def _unknown(path: Path, data: dict[str, Any], mistakes: Mistakes) -> None:
    table, name = path[:-1], path[-1]
    keys = _keys(table, data)
    near = difflib.get_close_matches(name.lower(), keys, n=1) if mistakes.suggest() else []
    elsewhere = [place for place, model in _TABLES.items() if len(place) == 1 and name in model.model_fields]
    if near:
        mistakes.misspelt(path, keys, (*table, near[0]))
    elif elsewhere and elsewhere[0] != table:
        mistakes.misspelt(path, keys, (*elsewhere[0], name))
    else:
        mistakes.misspelt(path, keys, None)


def _keys(path: Path, data: dict[str, Any]) -> list[str]:
    table = _model(path)
    keys = list(table.model_fields) if table else []
    if path not in _BY_AXIS:
        return keys
    axes = axes_of(system(data), dimension(data)) or AXES
    return [name for name in keys if name in (*axes, *faces_of(axes)) or name not in _OF_AXES]


def _nearest_value(path: Path, item: Any) -> str | None:
    """The nearest of the words that may stand at a key, for a word that may not."""
    table = _model(path[:-1])
    if table is None or path[-1] not in table.model_fields:
        return None
    choices = [part for part in _parts(table.model_fields[path[-1]].annotation) if isinstance(part, str)]
    found = item if isinstance(item, list) else [item]
    words = [word for word in found if isinstance(word, str) and word not in choices]
    if path == ("run", "backend") and words:
        return nearest(words[0])
    near = difflib.get_close_matches(words[0].lower(), choices, n=1) if words else []
    return near[0] if near else None


def _at(data: Any, path: Path) -> Any:
    for name in path:
        data = data[int(name) - 1 if isinstance(data, list) else name]
    return data


def _path(location: tuple[int | str, ...]) -> Path:
    """The keys in a location of pydantic, which also holds indices in lists and the tags of unions.

    Tables in a list have numbers from 1.
    """
    path: Path = ()
    rest = iter(location)
    for name in rest:
        if isinstance(name, int) and path not in _LISTS:
            break
        path = (*path, str(name + 1) if isinstance(name, int) else name)
        if _entry(path) in _TAGGED:
            next(rest, None)
    return path


def _parts(annotation: Any) -> Iterator[Any]:
    """An annotation and everything it is made of."""
    yield annotation
    for part in get_args(annotation):
        yield from _parts(part)


def _tables(model: type[Table], path: Path = ()) -> Iterator[tuple[Path, type[Table]]]:
    yield path, model
    for name, field in model.model_fields.items():
        for part in _parts(field.annotation):
            if isinstance(part, type) and issubclass(part, Table):
                yield from _tables(part, (*path, name, *("*",) * (part is PatchTable)))


_TABLES = dict(_tables(CaseFile))
_LISTS: dict[Path, Path] = {("body",): ("body",)} | {path[:-1]: path for path in _TABLES if path[-1:] == ("*",)}
"""The lists of tables, with where the tables of their entries are."""
_TAGGED = {
    (*path, name)
    for path, model in _TABLES.items()
    for name, field in model.model_fields.items()
    if any(isinstance(part, Tag) for part in _parts(field.annotation))
}
