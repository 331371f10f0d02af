# SPDX-License-Identifier: MIT
"""How often checkpoints are written, by what a case file says."""

import pytest

from poisson.case.settings import Interval


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
