# SPDX-License-Identifier: MIT
"""The words of messages: plurals and articles that follow from the noun, and words that no message has.

Covers poisson.words.
"""

from __future__ import annotations

import pytest

from poisson.words import article, plural, quantity


@pytest.mark.parametrize(
    ("number", "noun", "text"),
    [
        (1, "thread", "1 thread"),
        (2, "thread", "2 threads"),
        (0, "iteration", "0 iterations"),
        (3, "process", "3 processes"),
        (2, "axis", "2 axes"),
        (4, "entry", "4 entries"),
        (2, "array", "2 arrays"),
        (1, "GPU", "1 GPU"),
    ],
)
def test_a_number_has_its_noun(number: int, noun: str, text: str) -> None:
    assert quantity(number, noun) == text
    assert number == 1 or text.endswith(plural(noun))


@pytest.mark.parametrize(
    ("noun", "text"),
    [
        ("int", "an int"),
        ("float", "a float"),
        ("str", "a str"),
        ("Expression", "an Expression"),
        ("ndarray", "an ndarray"),
        ("uint8", "a uint8"),
        ("ufunc", "a ufunc"),
        ("object", "an object"),
        ("NoneType", "a NoneType"),
    ],
)
def test_a_noun_has_its_article(noun: str, text: str) -> None:
    assert article(noun) == text
