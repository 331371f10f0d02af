# SPDX-License-Identifier: MIT
"""Kinds of values in a case file: what each takes, as what, and what it refuses."""

import math
from typing import Any

import pytest

from poisson.case.kinds import ABSENT, Either, Flag, Key, Kind, List, Number, Numbers, Table, Tables, Text, Word
from poisson.case.mistakes import Mistakes
from poisson.problem.mistakes import Path


class Noted(Mistakes):
    """Mistakes at keys that no case file has."""

    def allowed(self, path: Path) -> str:
        return "a number"


def path_of(text: str) -> None:
    if "/" not in text:
        raise ValueError


def even(numbers: Any) -> None:
    if len(numbers) % 2:
        raise ValueError


INNER = Table({"need": Key(Number(), "", "a number", ABSENT), "more": Key(Flag(), "", "true or false")})
EVERYTHING: tuple[Any, ...] = (True, False, 0, 1, -1, 10**400, 0.5, math.inf, math.nan, "", "a", [], {}, [1.0])


def taken(kind: Kind, *items: Any) -> list[Any]:
    """The values that a kind takes, of some that are given, each with what the kind makes of it."""
    found = []
    for item in items:
        try:
            found.append(kind.read(item, ("key",), Noted()))
        except (ValueError, OverflowError):
            continue
    return found


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (Number(), [0.0, 1.0, -1.0, 0.5]),
        (Number(gt=0.0, le=1.0), [1.0, 0.5]),
        (Number(ge=0.5, lt=1.0), [0.5]),
        (Number(int), [0, 1, -1, 10**400]),
        (Number(int, ge=0, le=2**53), [0, 1]),
        (Flag(), [True, False]),
        (Word("b", "a"), ["a"]),
        (Word(2, 1), [1]),
        (Text(), ["", "a"]),
        (Text(path_of), []),
        (List(Number()), [[], [1.0]]),
        (List(Number(), 1, 2), [[1.0]]),
        (List(Number(), check=even), [[]]),
        (Numbers(), [{}]),
        (Tables(INNER, "a table"), [[], []]),
        (Tables(INNER, "a table", 1), []),
        (INNER, []),
        (Table({"key": Key(Number(), "", "", 2)}), [{"key": 2.0}]),
        (Either(Number(int, ge=1), Word("a"), List(Number())), [1, 10**400, "a", [], [1.0]]),
    ],
)
def test_what_a_kind_takes(kind: Kind, expected: list[Any]) -> None:
    found = taken(kind, *EVERYTHING)
    assert found == expected and [*map(type, found)] == [*map(type, expected)]


def test_lists_and_tables_have_the_values_of_their_kinds() -> None:
    assert taken(List(Number(), 2, 3), [1, 2], (1, 2, 3), [1], [1] * 4, [1, "x"]) == [[1.0, 2.0], [1.0, 2.0, 3.0]]
    assert taken(Numbers(even), {"a": 1, "b": 2.5}, {"a": 1}) == [{"a": 1.0, "b": 2.5}]
    assert taken(INNER, {"need": 1}, {"more": True}, {"need": 1, "more": None}) == [{"need": 1.0}, {"need": 1.0}]
    assert taken(Tables(INNER, "a table", 1), [{"need": 1}, {}, 3]) == [[{"need": 1.0}]]


def test_what_is_wrong_inside_is_noted_there_once() -> None:
    mistakes = Noted()
    table = Table(
        {
            "none": Key(Number(), "", ""),
            "list": Key(Tables(INNER, "a table", 1), "", "tables"),
            "numbers": Key(Numbers(even), "", "numbers"),
        }
    )
    data = {"none": None, "list": [{"more": 1}, 3], "numbers": {"a": "x", "b": 1}}
    assert table.read(data, ("at",), mistakes) == {}
    assert mistakes.lines() == [
        "at.list.1.need: missing; allowed: a number",
        "at.list.1.more: 1; allowed: true or false",
        "at.list.2: 3; allowed: a table",
        'at.numbers.a: "x"; allowed: a finite number',
    ]
