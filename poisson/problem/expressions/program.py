# SPDX-License-Identifier: MIT
"""Straight-line programs: how an expression is stored, built and evaluated.

A program is a tuple of steps. Each step is a number, a coordinate, or an operation on earlier steps; the last step is
the result. A common part is one step however often it is used, so differentiation grows a program by a constant factor
instead of exponentially, and comparing, hashing and copying a program are those of a flat tuple.
"""

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

COORDINATES = ("x", "y", "z")
COMPARISONS = ("<", "<=", ">", ">=", "==", "!=")
LOGIC = ("and", "or", "not")
FUNCTIONS = {
    "sin": 1,
    "cos": 1,
    "tan": 1,
    "asin": 1,
    "acos": 1,
    "atan": 1,
    "atan2": 2,
    "sinh": 1,
    "cosh": 1,
    "tanh": 1,
    "exp": 1,
    "log": 1,
    "log10": 1,
    "sqrt": 1,
    "abs": 1,
    "sign": 1,
    "floor": 1,
    "ceil": 1,
    "hypot": 2,
    "where": 3,
    "min": None,
    "max": None,
}
"""The number of arguments of each function; None: two or more."""

_ARRAY_FUNCTIONS = {
    "+": "add",
    "-": "subtract",
    "*": "multiply",
    "/": "divide",
    "neg": "negative",
    "<": "less",
    "<=": "less_equal",
    ">": "greater",
    ">=": "greater_equal",
    "==": "equal",
    "!=": "not_equal",
    "and": "logical_and",
    "or": "logical_or",
    "not": "logical_not",
    "asin": "arcsin",
    "acos": "arccos",
    "atan": "arctan",
    "atan2": "arctan2",
}
"""The name of an operation in NumPy and CuPy, where it differs from ours."""


class Step(NamedTuple):
    """One step: ``number`` (its `value`), a coordinate, or an operation on the steps numbered in `args`."""

    op: str
    args: tuple[int, ...] = ()
    value: float = 0.0


Program = tuple[Step, ...]


def is_condition(op: str) -> bool:
    """Whether an operation gives a truth value instead of a number."""
    return op in COMPARISONS or op in LOGIC


def apply(xp: Any, op: str, args: Sequence[Any]) -> Any:
    """One operation on values of the array module `xp`."""
    if op in ("min", "max"):
        return functools.reduce(xp.minimum if op == "min" else xp.maximum, args)
    if op == "**":
        exponent = args[1]
        return xp.square(args[0]) if isinstance(exponent, np.generic) and exponent == 2.0 else xp.power(*args)
    return getattr(xp, _ARRAY_FUNCTIONS.get(op, op))(*args)


def evaluate(program: Program, xp: Any, coordinates: Sequence[Any]) -> Any:
    """Run a program; `poisson.problem.expressions.Expression.__call__` says on what."""
    # A Python scalar, such as the position of a face, takes the type of the arrays that it stands beside.
    dtypes = [np.dtype(c.dtype) for c in coordinates if hasattr(c, "dtype")]
    dtype = np.result_type(*dtypes) if dtypes else np.dtype(np.float64)
    if dtype.kind != "f":
        dtype = np.dtype(np.float64)
    given = dict(zip(COORDINATES, coordinates, strict=False))

    last_use = {arg: position for position, step in enumerate(program) for arg in step.args}
    values: dict[int, Any] = {}
    with np.errstate(all="ignore"):
        for position, step in enumerate(program):
            if step.op == "number":
                values[position] = dtype.type(step.value)
            elif step.op in COORDINATES:
                if step.op not in given:
                    raise ValueError(f"the expression depends on {step.op}, which is not among the coordinates given")
                values[position] = xp.asarray(given[step.op], dtype=dtype)
            else:
                values[position] = apply(xp, step.op, [values[arg] for arg in step.args])
            for arg in set(step.args):
                if last_use[arg] == position:
                    del values[arg]
    return values[len(program) - 1]


class Builder:
    """Collects steps, each once, and simplifies as it goes.

    Simplification: numbers are folded while the result is finite, and neutral elements disappear. The rules are such
    that a step already in the program is built again from its own arguments unchanged.
    """

    def __init__(self) -> None:
        self.steps: list[Step] = []
        self._positions: dict[Step, int] = {}

    def number(self, value: float) -> int:
        # Adding zero turns -0.0 into 0.0, which is equal to it but would be written differently.
        return self._add(Step("number", (), value + 0.0))

    def coordinate(self, name: str) -> int:
        return self._add(Step(name))

    def copy(self, program: Program) -> list[int]:
        """Add the steps of a program; returns their positions here."""
        positions: list[int] = []
        for step in program:
            positions.append(self._add(step._replace(args=tuple(positions[arg] for arg in step.args))))
        return positions

    def operation(self, op: str, *args: int) -> int:
        """Add an operation on earlier steps, or what it simplifies to."""
        numbers = [self.steps[arg].value if self.steps[arg].op == "number" else None for arg in args]
        if is_condition(op):
            return self._double_negation(op, args)
        if None not in numbers:
            return self._fold(op, args)
        match op, *numbers:
            case ("+", 0.0, _) | ("*", 1.0, _):
                return args[1]
            case ("+" | "-", _, 0.0) | ("*" | "/" | "**", _, 1.0):
                return args[0]
            case ("*", 0.0, _) | ("*", _, 0.0) | ("/", 0.0, _):
                return self.number(0.0)
            case ("**", _, 0.0) | ("**", 1.0, _):
                return self.number(1.0)
            case ("-", 0.0, _) | ("*", -1.0, _):
                return self.operation("neg", args[1])
            case ("*", _, -1.0):
                return self.operation("neg", args[0])
        if op == "where" and args[1] == args[2]:
            return args[1]
        return self._double_negation(op, args)

    def finish(self, result: int) -> Program:
        """The program that ends in `result`: only the steps it needs, in the order in which a reader meets them.

        The order depends on the tree alone, so equal trees give equal programs.
        """
        positions: dict[int, int] = {}
        program: list[Step] = []
        pending = [(result, False)]
        while pending:
            old, arguments_done = pending.pop()
            if old in positions:
                continue
            step = self.steps[old]
            if arguments_done:
                positions[old] = len(program)
                program.append(step._replace(args=tuple(positions[arg] for arg in step.args)))
            else:
                pending.append((old, True))
                pending.extend((arg, False) for arg in reversed(step.args))
        return tuple(program)

    def _add(self, step: Step) -> int:
        position = self._positions.setdefault(step, len(self.steps))
        if position == len(self.steps):
            self.steps.append(step)
        return position

    def _double_negation(self, op: str, args: tuple[int, ...]) -> int:
        if op in ("neg", "not") and self.steps[args[0]].op == op:
            return self.steps[args[0]].args[0]
        return self._add(Step(op, args))

    def _fold(self, op: str, args: tuple[int, ...]) -> int:
        # Through NumPy, so that a folded number is the number an evaluation gives.
        with np.errstate(all="ignore"):
            value = float(apply(np, op, [np.float64(self.steps[arg].value) for arg in args]))
        return self.number(value) if np.isfinite(value) else self._add(Step(op, args))
