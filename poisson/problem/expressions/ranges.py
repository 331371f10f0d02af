# SPDX-License-Identifier: MIT
"""Bounds of an expression over boxes, by the arithmetic of intervals (R. E. Moore, "Interval analysis", 1966)."""

import functools
import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from poisson.problem.expressions.program import COORDINATES, Program, apply

Ends = tuple[Any, Any]

MONOTONE = ("exp", "sinh", "tanh", "asin", "atan", "log", "log10", "sqrt", "sign", "floor", "ceil")
WIDER = 8.0 * float(np.finfo(np.float64).eps)
"""How much wider than the functions of its ends an interval is made, which have rounding errors."""


def bounds(program: Program, low: Sequence[NDArray[Any]], high: Sequence[NDArray[Any]]) -> Ends:
    """The least and the largest value over boxes, or less and more; NaN where the value may be none.

    `low`, `high`: the ends of the boxes along each axis, of shapes that broadcast.
    """
    values: list[Ends] = []
    with np.errstate(all="ignore"):
        for step in program:
            if step.op in COORDINATES:
                axis = COORDINATES.index(step.op)
                values.append((low[axis], high[axis]))
                continue
            if step.op == "number":
                values.append((np.float64(step.value),) * 2)
                continue
            least, most = _of_step(step.op, [values[arg] for arg in step.args])
            unknown = np.isnan(least) | np.isnan(most)
            least, most = (np.where(unknown, np.nan, end) for end in (least, most))
            values.append((least - WIDER * abs(least), most + WIDER * abs(most)))
    return values[-1]


def _of_step(op: str, args: Sequence[Ends]) -> Ends:
    """The ends of one operation on intervals; NaN of those that have no bounds here."""
    (a, b), (c, d) = args[0], args[-1]
    if op in ("+", "min", "max", "hypot", "abs", *MONOTONE):
        if op in ("hypot", "abs"):
            args = [_size(*ends) for ends in args]
        return apply(np, op, [ends[0] for ends in args]), apply(np, op, [ends[1] for ends in args])
    if op == "-":
        return a - d, b - c
    if op in ("neg", "acos"):
        return apply(np, op, [b]), apply(np, op, [a])
    if op == "/":
        c = np.where((c <= 0.0) & (d >= 0.0), np.nan, c)
    if op in ("*", "/"):
        return _least_and_most([apply(np, op, pair) for pair in itertools.product((a, b), (c, d))])
    if op == "**" and np.ndim(c) == 0 and c == d:
        if c == np.floor(c) and c % 2 == 0.0:
            a, b = _size(a, b)
        elif c != np.floor(c):
            a = np.where(a < 0.0, np.nan, a)
        if c < 0.0:
            a = np.where((a <= 0.0) & (b >= 0.0), np.nan, a)
        return _least_and_most([a**c, b**c])
    if op in ("sin", "cos"):
        middle, half = (
            apply(np, op, [(a + b) / 2.0]),
            (b - a) / 2.0 * (1.0 + WIDER) + WIDER * np.maximum(abs(a), abs(b)),
        )
        return np.maximum(middle - half, -1.0), np.minimum(middle + half, 1.0)
    if op == "atan2":  # of y in [a, b] and x in [c, d]
        least, most = _least_and_most([np.arctan2(*pair) for pair in itertools.product((a, b), (c, d))])
        across = (c <= 0.0) & (a <= 0.0) & (b >= 0.0)
        return np.where(across, -np.pi, least), np.where(across, np.pi, most)
    if op == "where":
        return _least_and_most([*args[1], *args[2]])
    return np.nan, np.nan


def _size(low: Any, high: Any) -> Ends:
    """The ends of the absolute value."""
    least = np.maximum(np.maximum(low, -high), 0.0)
    return least, np.maximum(-low, high)


def _least_and_most(values: Sequence[Any]) -> Ends:
    return functools.reduce(np.minimum, values), functools.reduce(np.maximum, values)
