# SPDX-License-Identifier: MIT
"""Keys of ``[solver]``: the default of a setting, what may stand there and what it means, all in one place.

A record of settings is a frozen dataclass that derives from `Settings`. Its fields made by `word`, `real`, `whole` or
`flag` are keys; the schema that checks them, the messages and the tables of the documentation are made from them.
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

MAX_COUNT = 2**53
"""Integers up to here are floating-point numbers, too."""

_SIGNS = {"gt": ">", "ge": ">=", "lt": "<", "le": "<="}


@dataclass(frozen=True)
class Key:
    """The properties of a key beside its default.

    `kind`: ``str``, ``float``, ``int`` or ``bool``.
    `doc`: what it means, in Markdown.
    `rank`: its place among all keys in lists; keys of one rank stand in the order of their names.
    `words`: the words that a text may be.
    `bounds`: ``gt``, ``ge``, ``lt`` and ``le`` of a number.
    `note`: what is added where it is said what may stand there.
    """

    kind: type
    doc: str
    rank: float
    words: Callable[[], Sequence[str]] = tuple
    bounds: Mapping[str, float] = dataclasses.field(default_factory=dict)
    note: str = ""

    @property
    def allowed(self) -> str:
        """The allowed values, in words."""
        if self.kind is str:
            return either(self.words())
        if self.kind is bool:
            return "true or false"
        bounds = " and ".join(f"{_SIGNS[name]} {_number(bound)}" for name, bound in self.bounds.items())
        kind = (
            "an integer" if self.kind is int else "a number" if {"lt", "le"} & set(self.bounds) else "a finite number"
        )
        return f"{kind} {bounds}{self.note}"


@dataclass(frozen=True)
class Settings:
    """Settings that belong together; `poisson.case` has checked the values of their keys."""


def keys_of(kind: type[Settings]) -> dict[str, Key]:
    """The keys among the fields of a record of settings."""
    return {field.name: field.metadata["key"] for field in dataclasses.fields(kind) if "key" in field.metadata}


def word(
    default: str, words: Sequence[str] | Callable[[], Sequence[str]], doc: str, *, rank: float = float("inf")
) -> Any:
    """A key that is one of a few words, or of those that a function gives."""
    return _field(default, Key(str, doc, rank, words if callable(words) else lambda: words))


def real(default: float | None, doc: str, *, rank: float = float("inf"), **bounds: float) -> Any:
    """A key that is a number within bounds (``gt``, ``ge``, ``lt``, ``le``), or may be left out."""
    return _field(default, Key(float, doc, rank, bounds=bounds))


def whole(
    default: int, doc: str, *, rank: float = float("inf"), ge: int = 0, le: int = MAX_COUNT, note: str = ""
) -> Any:
    """A key that is an integer within bounds."""
    return _field(default, Key(int, doc, rank, bounds={"ge": ge, "le": le}, note=note))


def flag(default: bool, doc: str, *, rank: float = float("inf")) -> Any:
    """A key that is true or false."""
    return _field(default, Key(bool, doc, rank))


def either(words: Sequence[str]) -> str:
    """Words in quotes, as a sentence lists them: ``"V", "W" or "F"``."""
    quoted = [f'"{word}"' for word in words]
    return f"{', '.join(quoted[:-1])} or {quoted[-1]}" if len(quoted) > 1 else quoted[0]


def _field(default: Any, key: Key) -> Any:
    return dataclasses.field(default=default, metadata={"key": key})


def _number(bound: float) -> str:
    return "2**53" if bound == MAX_COUNT else f"{bound:g}"
