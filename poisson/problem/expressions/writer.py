# SPDX-License-Identifier: MIT
"""The canonical text of a program: what the parser reads back to an equal program."""

from poisson.errors import ExpressionError
from poisson.problem.expressions.program import COMPARISONS, COORDINATES, FUNCTIONS, Program

MAX_TEXT = 4096
"""The longest text that is read or written, in characters."""

PRECEDENCE = (
    {"or": 1, "and": 2, "not": 3} | dict.fromkeys(COMPARISONS, 4) | {"+": 5, "-": 5, "*": 6, "/": 6, "neg": 7, "**": 8}
)
"""How tightly each operator binds; the order is Python's."""

_ATOM = 9


def write(program: Program, axes: tuple[str, ...] = COORDINATES) -> str:
    """The text of a program, with these names of its coordinates.

    Raises ExpressionError if the text would be longer than `MAX_TEXT`, as that of a derivative can be.
    """
    written: list[tuple[str, int]] = []
    for step in program:
        args = [written[arg] for arg in step.args]
        if step.op == "number":
            text = repr(step.value).removesuffix(".0")
            level = PRECEDENCE["neg"] if step.value < 0.0 else _ATOM
        elif step.op in COORDINATES:
            text, level = axes[COORDINATES.index(step.op)], _ATOM
        elif step.op in FUNCTIONS:
            text, level = f"{step.op}({', '.join(arg for arg, _ in args)})", _ATOM
        else:
            text, level = _operator(step.op, args), PRECEDENCE[step.op]
        if len(text) > MAX_TEXT:
            raise ExpressionError(f"the derived expression is longer than {MAX_TEXT} characters")
        written.append((text, level))
    return written[-1][0]


def _operator(op: str, args: list[tuple[str, int]]) -> str:
    level = PRECEDENCE[op]
    if op == "neg":
        return "-" + _bracketed(args[0], level)
    if op == "not":
        return "not " + _bracketed(args[0], level)
    if op == "**":
        return f"{_bracketed(args[0], _ATOM)}**{_bracketed(args[1], PRECEDENCE['neg'])}"
    sign = op if op in ("*", "/") else f" {op} "
    # Operators of one level group from the left; comparisons do not group at all.
    left = level + 1 if op in COMPARISONS else level
    return f"{_bracketed(args[0], left)}{sign}{_bracketed(args[1], level + 1)}"


def _bracketed(arg: tuple[str, int], at_least: int) -> str:
    text, level = arg
    return text if level >= at_least else f"({text})"
