# SPDX-License-Identifier: MIT
"""The places of nodes along an axis from its table in ``[domain]``."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from poisson.errors import CaseError
from poisson.problem.expressions import parse

Values = NDArray[np.float64]

STRETCHES: dict[str, Callable[[Values, float], Values]] = {
    "tanh": lambda s, ratio: 1.0 - np.tanh(math.acosh(math.sqrt(ratio)) * (1.0 - s)) / math.sqrt(1.0 - 1.0 / ratio),
    "geometric": lambda s, ratio: np.expm1(s * math.log(ratio)) / (ratio - 1.0),
}
"""Where s in [0, 1] lies on an axis of length 1: d/ds is `ratio` times as large at the upper end as at the lower."""

_KINDS = ("nodes", "file", "map", "stretch")
_BELONG = {"dataset": "file", "ratio": "stretch", "towards": "stretch"}


def require_one_kind(given: Mapping[str, Any]) -> None:
    """Raise CaseError if a table says not exactly once where the nodes are, or has a key that belongs to another."""
    kinds = [key for key in _KINDS if key in given]
    alone = [key for key, of in _BELONG.items() if key in given and of not in given]
    if len(kinds) != 1:
        raise CaseError(f"{', '.join(kinds) or 'no places'}; allowed: exactly one of {', '.join(_KINDS)}")
    if alone:
        raise CaseError(f"{alone[0]} beside {kinds[0]}; allowed: only beside {_BELONG[alone[0]]}")
    if "stretch" in given and "ratio" not in given:
        raise CaseError("stretch without ratio; allowed: with ratio, how many times the widest spacing is the least")


def marks_between(
    lower: float, upper: float, intervals: int, table: Mapping[str, Any], parameters: Mapping[str, float]
) -> Values:
    """Places from `lower` to `upper` with so many intervals: as a map or a stretch says, or equally spaced.

    Raises CaseError or ExpressionError if a map is no expression of s that grows.
    """
    s = np.linspace(0.0, 1.0, intervals + 1)
    if "map" not in table and "stretch" not in table:
        return np.linspace(lower, upper, intervals + 1)
    if "map" in table:
        given = np.asarray(parse(table["map"], ("s",), parameters)(np, s), dtype=np.float64)
        values = np.broadcast_to(given, s.shape)
        if not np.all(np.isfinite(values)) or not np.all(np.diff(values) > 0.0):
            raise CaseError(f"{table['map']!r}; allowed: an expression that grows with s all the way from 0 to 1")
        s = (values - values[0]) / (values[-1] - values[0])
    else:
        towards, ratio = table.get("towards", "both"), table["ratio"]

        def one_sided(places: Values) -> Values:
            return STRETCHES[table["stretch"]](places, ratio)

        if towards == "both":
            s = np.where(s < 0.5, one_sided(2.0 * s) / 2.0, 1.0 - one_sided(2.0 - 2.0 * s) / 2.0)
        else:
            s = one_sided(s) if towards == "lower" else 1.0 - one_sided(1.0 - s)
    marks = lower * (1.0 - s) + upper * s
    marks[0], marks[-1] = lower, upper
    return np.asarray(marks)
