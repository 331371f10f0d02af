# SPDX-License-Identifier: MIT
"""Finding and wording every mistake of a case file at once."""

import difflib
from collections.abc import Iterable, Mapping, Sequence, Set
from types import MappingProxyType
from typing import Any

from poisson.backends.registry import nearest
from poisson.case import toml
from poisson.case.kinds import Key, Kind, Table, Tables
from poisson.case.schema import CASE
from poisson.mesh.grid import AXES
from poisson.mesh.system import ALL_AXES, CARTESIAN, SYSTEMS, axes_of, faces_of
from poisson.problem import mistakes as problem
from poisson.problem.mistakes import Path
from poisson.problem.user_data import ALPHA
from poisson.solvers.entries import Clash

MOST_SHOWN = 40
"""The most mistakes that are shown, and for which suggestions are looked for."""


class Mistakes(problem.Mistakes):
    """The mistakes in a case file so far.

    `overridden`: the keys that overrides gave, with the options that gave them, such as ``--set run.backend`` or
    ``--backend``. `elsewhere`: names of axes and faces that cases with other axes have.
    """

    def __init__(self, overridden: Mapping[Path, str] = MappingProxyType({})) -> None:
        super().__init__()
        self.overridden = overridden
        self.elsewhere: Set[str] = frozenset()
        self._meant: list[Path] = []
        self._suggestions = 0

    def dotted(self, path: Path) -> str:
        return toml.dotted(path)

    def shown(self, item: Any) -> str:
        return toml.shown(item)

    def allowed(self, path: Path) -> str:
        key = Key(CASE, "", "a table")
        for name in path:
            key = key.kind.within(name)
        return key.allowed

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

    def unknown_key(self, path: Path, keys: list[str]) -> None:
        """There is no key `path` for any axes, but `keys` in its table."""
        table, name = path[:-1], path[-1]
        near = difflib.get_close_matches(name.lower(), keys, n=1) if self.suggest() else []
        other = next((place for place, key in CASE.keys.items() if _has(key.kind, name)), None)
        self.misspelt(path, keys, (*table, near[0]) if near else (other, name) if other else None)

    def refuse_at(self, path: Path, item: Any, key: Key) -> None:
        """`item` may not stand at a key, unless a mistake inside is known already."""
        if not self.touch(path):
            self.wrong(path, item, key.allowed, _nearest(path, item, key.kind.words))

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
        order = {name: position for position, name in enumerate(CASE.keys)}
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


def validate(data: dict[str, Any], mistakes: Mistakes) -> dict[str, Any]:
    """Check every key of a case file by itself.

    `mistakes`: receives one mistake for each wrong key. Returns: the tables with what was right, and with defaults in
    the place of what was wrong or missing, as far as there are any.
    """
    axes = axes_of(system(data), dimension(data)) or AXES
    mistakes.elsewhere = {*ALL_AXES, *faces_of(ALL_AXES)} - {*axes, *faces_of(axes)}
    found: dict[str, Any] = CASE.read(data, (), mistakes)
    return found


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


def _has(kind: Kind, name: str) -> bool:
    """Whether a table, or one of a list of tables, has a key of this name."""
    table = kind.of if isinstance(kind, Tables) else kind
    return isinstance(table, Table) and name in table.keys


def _nearest(path: Path, item: Any, choices: Sequence[str]) -> str | None:
    """The nearest of the words that may stand at a key, for a word that may not."""
    found = item if isinstance(item, list) else [item]
    words = [word for word in found if isinstance(word, str) and word not in choices]
    if path == ("run", "backend") and words:
        return nearest(words[0])
    near = difflib.get_close_matches(words[0].lower(), choices, n=1) if words and choices else []
    return near[0] if near else None
