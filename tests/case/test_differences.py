"""What two cases differ in.

Covers poisson.case.differences.
"""

from __future__ import annotations

import pytest

from poisson.case.differences import differences
from poisson.case.settings import Interval
from poisson.errors import CaseError

OLD = 'title = "one"\n[equation]\nf = 1.0\n[domain]\nshape = [3, 3]\n[output.units]\nlength = "m"\n'


def test_a_key_with_another_value_is_a_line() -> None:
    new = OLD.replace("f = 1.0", 'f = "sin(x)"').replace("[3, 3]", "[3, 5]").replace("one", "two")
    assert differences(OLD, OLD) == []
    assert differences(OLD, new) == [
        'title: "one" -> "two"',
        'equation.f: 1.0 -> "sin(x)"',
        "domain.shape: [3, 3] -> [3, 5]",
    ]


def test_a_key_that_one_of_them_lacks_is_a_line() -> None:
    new = OLD.replace("f = 1.0", "f = 1.0\nc = 2.0")
    assert differences(OLD, new) == ["equation.c: nothing -> 2.0"]
    assert differences(new, OLD) == ["equation.c: 2.0 -> nothing"]


def test_keys_and_whole_tables_are_left_out() -> None:
    new = OLD.replace("one", "two").replace('"m"', '"cm"').replace("f = 1.0", "f = 2.0")
    assert differences(OLD, new, [("title",), ("output",)]) == ["equation.f: 1.0 -> 2.0"]


def test_what_is_no_case_is_refused() -> None:
    with pytest.raises(CaseError, match="is not TOML"):
        differences("no = = case", OLD)


@pytest.mark.parametrize(
    ("given", "interval"),
    [
        (7, Interval(iterations=7)),
        ("30 s", Interval(seconds=30.0)),
        ("10 min", Interval(seconds=600.0)),
        ("1.5h", Interval(seconds=5400.0)),
    ],
)
def test_an_interval_is_of_iterations_or_of_time(given: int | str, interval: Interval) -> None:
    assert Interval.of(given) == interval


@pytest.mark.parametrize("given", ["", "10", "0 min", "-1 s", "10 days", "1e3 s", "min", "٣ s", "1 s\n"])
def test_what_is_no_interval_is_refused(given: str) -> None:
    with pytest.raises(ValueError, match="no time such as"):
        Interval.of(given)
