# SPDX-License-Identifier: MIT
"""Kinds of the values in a case file, and the keys that they stand at.

`read` of a kind gives a value as the package uses it, such as 1.0 for 1, and raises ValueError where it may not stand.
Tables note the mistakes at their keys, and leave out the keys with wrong values.
"""

from __future__ import annotations

import math
import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from poisson.case.mistakes import Mistakes
    from poisson.problem.mistakes import Path

ABSENT: Any = ...
"""In the place of a value: there is none. In the place of a default: there has to be a value."""

_COMPARISONS = {"gt": operator.gt, "ge": operator.ge, "lt": operator.lt, "le": operator.le}


class Kind(ABC):
    """A kind of values: of those of `types` it may take some. `words`: what a text may be, of words only."""

    types: tuple[type, ...] = ()
    words: tuple[str, ...] = ()

    @abstractmethod
    def read(self, item: Any, path: Path, mistakes: Mistakes) -> Any:
        """The value as the package uses it."""

    def within(self, name: str) -> Key:
        """The key of a name in a value of this kind."""
        raise KeyError(name)


class Key:
    """A key of a table.

    `kind`: of its values. `meaning`: what it is, in Markdown. `allowed`: what may stand there, in words. `default`:
    None where it may be left out, `ABSENT` where it may not.
    """

    def __init__(self, kind: Kind, meaning: str, allowed: str, default: Any = None) -> None:
        self.kind = kind
        self.meaning = meaning
        self.allowed = allowed
        self.default = default

    def read(self, item: Any, path: Path, mistakes: Mistakes) -> Any:
        """The value at the key; its default in the place of none, and of a wrong one, which becomes a mistake."""
        if item is ABSENT:
            if self.default is ABSENT:
                mistakes.missing(path)
        elif item is not None or self.default is not None:
            try:
                return self.kind.read(item, path, mistakes)
            except (ValueError, OverflowError):
                mistakes.refuse_at(path, item, self)
        return self.default if self.default in (None, ABSENT) else self.kind.read(self.default, path, mistakes)


class Number(Kind):
    """A finite number, an integer if `of` is int, within bounds: ``gt``, ``ge``, ``lt`` and ``le``."""

    types = (int, float)

    def __init__(self, of: type = float, **bounds: float) -> None:
        self.of = of
        self.bounds = bounds

    def read(self, item: Any, path: Path, mistakes: Mistakes) -> Any:
        if isinstance(item, bool) or not isinstance(item, (int, self.of)):
            raise ValueError
        value = self.of(item)
        if not all(_COMPARISONS[name](value, bound) for name, bound in self.bounds.items()):
            raise ValueError
        if not -math.inf < value < math.inf:
            raise ValueError
        return value


class Flag(Kind):
    """True or false."""

    types = (bool,)

    def read(self, item: Any, path: Path, mistakes: Mistakes) -> Any:
        if not isinstance(item, bool):
            raise ValueError
        return item


class Word(Kind):
    """One of a few words, or of a few integers."""

    def __init__(self, *choices: Any) -> None:
        self.choices = choices
        self.types = (type(choices[0]),)
        self.words = tuple(choice for choice in choices if isinstance(choice, str))

    def read(self, item: Any, path: Path, mistakes: Mistakes) -> Any:
        if isinstance(item, bool) or not isinstance(item, self.types):
            raise ValueError
        return self.choices[self.choices.index(item)]


class Text(Kind):
    """A text. `check` raises ValueError for one that may not stand there."""

    types = (str,)

    def __init__(self, check: Callable[[str], object] = len) -> None:
        self.check = check

    def read(self, item: Any, path: Path, mistakes: Mistakes) -> Any:
        if not isinstance(item, str):
            raise ValueError
        self.check(item)
        return item


class List(Kind):
    """A list of so many values of one kind, which are right or wrong together."""

    types = (list, tuple)

    def __init__(
        self, of: Kind, least: int = 0, most: int | None = None, check: Callable[[list[Any]], object] = len
    ) -> None:
        self.of = of
        self.least = least
        self.most = most
        self.check = check
        self.words = of.words

    def read(self, item: Any, path: Path, mistakes: Mistakes) -> Any:
        if not isinstance(item, self.types) or not self.least <= len(item) <= (self.most or len(item)):
            raise ValueError
        found = [self.of.read(entry, path, mistakes) for entry in item]
        self.check(found)
        return found


class Table(Kind):
    """A table with its keys."""

    types = (Mapping,)

    def __init__(self, keys: Mapping[str, Key]) -> None:
        self.keys = keys

    def read(self, item: Any, path: Path, mistakes: Mistakes) -> Any:
        if not isinstance(item, Mapping):
            raise ValueError
        names = [name for name in self.keys if name not in mistakes.elsewhere]
        for name in item:
            if name in self.keys and name not in names:
                mistakes.misspelt((*path, name), names, None)
        found = {name: self.keys[name].read(item.get(name, ABSENT), (*path, name), mistakes) for name in names}
        for name in item:
            if name not in self.keys:
                mistakes.unknown_key((*path, name), names)
        if any(value is ABSENT for value in found.values()):
            raise ValueError  # A table that lacks a key is of no use.
        return {name: value for name, value in found.items() if value is not None}

    def within(self, name: str) -> Key:
        return self.keys[name]


class Tables(Kind):
    """A list of tables, which have numbers from 1. `allowed`: what an entry may be, in words."""

    types = (list, tuple)

    def __init__(self, of: Table, allowed: str, least: int = 0) -> None:
        self.of = of
        self.entry = Key(of, "", allowed, ABSENT)
        self.least = least

    def read(self, item: Any, path: Path, mistakes: Mistakes) -> Any:
        if not isinstance(item, self.types):
            raise ValueError
        found = [self.entry.read(entry, (*path, str(number)), mistakes) for number, entry in enumerate(item, 1)]
        kept = [entry for entry in found if entry is not ABSENT]
        if len(kept) < self.least:
            raise ValueError
        return kept

    def within(self, name: str) -> Key:
        return self.entry


class Numbers(Kind):
    """Finite numbers by any names. `check` raises ValueError for those that may not stand there together."""

    types = (Mapping,)
    entry = Key(Number(), "", "a finite number", ABSENT)

    def __init__(self, check: Callable[[dict[str, float]], object] = len) -> None:
        self.check = check

    def read(self, item: Any, path: Path, mistakes: Mistakes) -> Any:
        if not isinstance(item, Mapping):
            raise ValueError
        found = {name: self.entry.read(value, (*path, name), mistakes) for name, value in item.items()}
        kept = {name: value for name, value in found.items() if value is not ABSENT}
        self.check(kept)
        return kept

    def within(self, name: str) -> Key:
        return self.entry


class Either(Kind):
    """One of several kinds, by the type of the value."""

    def __init__(self, *kinds: Kind) -> None:
        self.kinds = kinds
        self.words = tuple(word for kind in kinds for word in kind.words)

    def read(self, item: Any, path: Path, mistakes: Mistakes) -> Any:
        # What is of no kind is refused by any.
        kind = next((kind for kind in self.kinds if isinstance(item, kind.types)), self.kinds[0])
        return kind.read(item, path, mistakes)

    def within(self, name: str) -> Key:
        of = Tables if name.isdecimal() else Table
        return next(kind for kind in self.kinds if isinstance(kind, of)).within(name)
