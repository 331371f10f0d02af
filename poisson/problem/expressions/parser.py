# SPDX-License-Identifier: MIT
"""From a text to an expression: a tokenizer and an operator-precedence parser that keeps its own stacks."""

import difflib
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple, NoReturn

import numpy as np

from poisson.errors import ExpressionError
from poisson.mesh.system import ALL_AXES, RADIUS
from poisson.problem.expressions.expression import Expression
from poisson.problem.expressions.program import COMPARISONS, COORDINATES, FUNCTIONS, LOGIC, Builder, apply, is_condition
from poisson.problem.expressions.writer import MAX_TEXT, PRECEDENCE
from poisson.words import quantity

_CONSTANTS = {"pi": math.pi, "e": math.e}
_TOKENS = re.compile(
    r"(?P<number>(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)"
    r"|(?P<name>[A-Za-z_][A-Za-z_0-9]*)"
    r"|(?P<sign>\*\*|<=|>=|==|!=|[-+*/<>(),&|])"
    r"|(?P<space>[ \t\r\n]+)"
    r"|(?P<other>.)",
    re.DOTALL,
)
_SPELLINGS = {"&": "and", "|": "or"}
_CHOICE = dict.fromkeys(("if", "else", "?"), "write where(condition, a, b) for a choice")
_ADVICE = {
    "^": "write '**' for a power",
    "=": "write '==' to compare",
    "!": "write 'not'",
    "~": "write 'not'",
    **_CHOICE,
}
_LEVELS = {"and": "max", "or": "min", "not": "neg"}
_SYNONYMS = {"ln": "log", "pow": "**"}


class _Token(NamedTuple):
    kind: str
    text: str
    column: int


class _Operand(NamedTuple):
    position: int
    condition: bool
    column: int


@dataclass
class _Pending:
    """An operator that waits for its right side, or an open bracket (``(``, or the name of a function)."""

    symbol: str
    column: int
    arguments: int = 0

    @property
    def bracket(self) -> bool:
        return self.symbol == "(" or self.symbol in FUNCTIONS


def parse(text: str, axes: int | tuple[str, ...], parameters: Mapping[str, float] | None = None) -> Expression:
    """Read an expression.

    `text`: in the grammar that `poisson.problem.expressions` describes, at most `MAX_TEXT` characters. Operators bind
    as in Python (``-x**2`` is ``-(x**2)``, ``**`` groups from the right); ``&`` and ``|`` are spellings of ``and`` and
    ``or``. `axes`: the names of the coordinates, or how many of x, y, z. `parameters`: further names, replaced by their
    numbers. Returns: the expression with every part that has no coordinate folded into a number. Raises
    `ExpressionError` with one line that says what is wrong and at which column, counted from 1.
    """
    return _read(text, axes, parameters).parse()


def _read(text: str, axes: int | tuple[str, ...], parameters: Mapping[str, float] | None) -> "_Parser":
    parameters = parameters or {}
    axes = COORDINATES[:axes] if isinstance(axes, int) else axes
    for name, value in parameters.items():
        mistake = parameter_mistake(name, axes)
        if mistake:
            raise ExpressionError(f"parameter {name!r}: {mistake}")
        if not math.isfinite(value):
            raise ExpressionError(f"parameter {name!r} is not a finite number")
    if len(text) > MAX_TEXT:
        raise ExpressionError(f"the expression has {len(text)} characters; at most {MAX_TEXT} are allowed")
    return _Parser(_tokenize(text), axes, parameters)


def parse_inside(text: str, axes: int | tuple[str, ...], parameters: Mapping[str, float] | None = None) -> Expression:
    """Read a condition as a level set: a function that is negative, or zero, where the condition holds.

    That of a comparison is the difference of its sides, of ``and`` the larger of two, of ``or`` the smaller, of ``not``
    the opposite. The arguments, and what is raised, are those of `parse`; ``==`` and ``!=`` have no inside.
    """
    program = _read(text, axes, parameters).parse(condition=True).program
    builder = Builder()
    plain = builder.copy(program)
    levels: dict[int, int] = {}
    wanted = {len(program) - 1}
    for position in range(len(program) - 1, -1, -1):
        if position in wanted and program[position].op in LOGIC:
            wanted.update(program[position].args)
    for position in sorted(wanted):
        step = program[position]
        if step.op in ("==", "!="):
            raise ExpressionError(f"{step.op!r} has no inside; compare by '<' or '>'")
        if step.op in COMPARISONS:
            low, high = (plain[arg] for arg in (step.args if step.op[0] == "<" else step.args[::-1]))
            levels[position] = builder.operation("-", low, high)
        else:
            levels[position] = builder.operation(_LEVELS[step.op], *(levels[arg] for arg in step.args))
    return Expression(builder.finish(levels[len(program) - 1]))


def parameter_mistake(name: str, axes: tuple[str, ...] = COORDINATES) -> str | None:
    """Why `name` cannot be the name of a parameter beside axes of these names, or None if it can."""
    if not re.fullmatch(r"[A-Za-z_][A-Za-z_0-9]*", name):
        return "a name has only letters, digits and '_', and does not begin with a digit"
    if name in COORDINATES or name in axes:
        return "this is the name of a coordinate; choose another name"
    if name in _CONSTANTS:
        return "this is the name of a constant; choose another name"
    if name in FUNCTIONS:
        return "this is the name of a function; choose another name"
    if name in LOGIC:
        return "this is a keyword of expressions; choose another name"
    return None


def _tokenize(text: str) -> list[_Token]:
    tokens = []
    for match in _TOKENS.finditer(text):
        kind, found, column = str(match.lastgroup), match.group(), match.start() + 1
        if kind == "other":
            advice = f"; {_ADVICE[found]}" if found in _ADVICE else ""
            raise ExpressionError(f"unexpected {found!a} at column {column}{advice}")
        if kind == "name" and found in LOGIC:
            kind = "sign"
        if kind != "space":
            tokens.append(_Token(kind, _SPELLINGS.get(found, found), column))
    return tokens


class _Parser:
    def __init__(self, tokens: list[_Token], axes: tuple[str, ...], parameters: Mapping[str, float]) -> None:
        self.tokens = tokens
        self.coordinates = axes
        self.numbers = {**_CONSTANTS, **parameters}
        self.builder = Builder()
        self.operands: list[_Operand] = []
        self.pending: list[_Pending] = []

    def parse(self, *, condition: bool = False) -> Expression:
        if not self.tokens:
            raise ExpressionError("the expression is empty")
        after_operand = False
        for index, token in enumerate(self.tokens):
            after_operand = self._operator(token) if after_operand else self._operand(token, index)
        if not after_operand:
            raise ExpressionError(f"the expression ends after {self.tokens[-1].text!r}; a number or a name must follow")
        self._reduce(0)
        if self.pending:
            raise ExpressionError(f"the bracket at column {self._bracket_column(self.pending[-1])} is not closed")
        result = self.operands.pop()
        if condition:
            self._need_condition(result)
        else:
            self._need_number(result)
        cartesian = self.coordinates == COORDINATES[: len(self.coordinates)]
        return Expression(self.builder.finish(result.position), COORDINATES if cartesian else self.coordinates)

    def _operand(self, token: _Token, index: int) -> bool:
        """Read a token where an operand must begin; whether the operand is complete."""
        opening = index > 0 and self.tokens[index - 1].text == "("
        if token.kind == "number":
            value = float(token.text)
            if not math.isfinite(value):
                _fail(f"the number at column {token.column} is too large")
            self._push(self.builder.number(value), token.column)
            return True
        if token.kind == "name":
            return self._name(token, index)
        if token.text == "(":
            # The bracket of a call stands on the stack already, under the name of the function.
            if not (index > 0 and self.tokens[index - 1].kind == "name"):
                self.pending.append(_Pending("(", token.column))
            return False
        if token.text in ("-", "+", "not"):
            if token.text != "+":
                self.pending.append(_Pending("neg" if token.text == "-" else "not", token.column))
            return False
        if token.text == ")" and opening and self.pending[-1].symbol in FUNCTIONS:
            self._arity(self.pending[-1], 0)
        raise ExpressionError(
            f"unexpected {token.text!r} at column {token.column}; a number, a name or '(' is needed here"
        )

    def _name(self, token: _Token, index: int) -> bool:
        name, column = token.text, token.column
        called = index + 1 < len(self.tokens) and self.tokens[index + 1].text == "("
        if name in FUNCTIONS:
            if not called:
                _fail(f"{name!r} at column {column} is a function; its arguments must follow in brackets")
            self.pending.append(_Pending(name, column))
            return False
        if name in self.coordinates:
            position = self.builder.coordinate(COORDINATES[self.coordinates.index(name)])
        elif name in self.numbers:
            position = self.builder.number(self.numbers[name])
        elif name in COORDINATES and self.coordinates[0] in COORDINATES:
            _fail(f"{name} at column {column} is not a coordinate of a {len(self.coordinates)}D case")
        elif name in ALL_AXES and self.coordinates[0] == RADIUS:
            _fail(
                f"{name} at column {column} is not a coordinate of this case, which has {', '.join(self.coordinates)}"
            )
        else:
            self._unknown(name, column)
        if called:
            _fail(f"{name!r} at column {column} is not a function; write '*' to multiply")
        self._push(position, column)
        return True

    def _unknown(self, name: str, column: int) -> NoReturn:
        known = [*self.coordinates, *self.numbers, *FUNCTIONS]
        if name in _CHOICE:
            _fail(f"unexpected {name!r} at column {column}; {_CHOICE[name]}")
        near = difflib.get_close_matches(name.lower(), known, n=1)
        suggestion = _SYNONYMS.get(name) or (near[0] if near else None)
        _fail(
            f"unknown name {_shortened(name)!r} at column {column}"
            + (f"; did you mean {suggestion!r}?" if suggestion else "")
        )

    def _operator(self, token: _Token) -> bool:
        """Read a token that follows an operand; whether an operand is complete after it."""
        symbol, column = token.text, token.column
        if token.kind != "sign" or symbol in ("(", "not"):
            advice = _CHOICE.get(symbol, "an operator is missing before it")
            _fail(f"unexpected {_shortened(symbol)!r} at column {column}; {advice}")
        if symbol == ")":
            self._reduce(0)
            if not self.pending:
                _fail(f"the bracket at column {column} was not opened")
            bracket = self.pending.pop()
            if bracket.symbol != "(":
                self._arity(bracket, bracket.arguments + 1)
                self._apply(bracket.symbol, bracket.column, bracket.arguments + 1)
            return True
        if symbol == ",":
            self._reduce(0)
            if not self.pending or self.pending[-1].symbol == "(":
                _fail(f"unexpected ',' at column {column}; a comma may only separate the arguments of a function")
            self.pending[-1].arguments += 1
            return False
        level = PRECEDENCE[symbol]
        # The left side of '**' is what stands directly before it; everything else groups from the left.
        self._reduce(level + 1 if symbol == "**" else level, comparing=column if symbol in COMPARISONS else None)
        self.pending.append(_Pending(symbol, column))
        return False

    def _reduce(self, level: int, comparing: int | None = None) -> None:
        """Apply the operators that wait, down to the next open bracket, as long as they bind at `level` or more."""
        while self.pending and not self.pending[-1].bracket and PRECEDENCE[self.pending[-1].symbol] >= level:
            waiting = self.pending.pop()
            if comparing is not None and waiting.symbol in COMPARISONS:
                _fail(f"a second comparison at column {comparing}; join the two comparisons with 'and'")
            self._apply(waiting.symbol, waiting.column, 1 if waiting.symbol in ("neg", "not") else 2)

    def _apply(self, symbol: str, column: int, count: int) -> None:
        operands = self.operands[-count:]
        del self.operands[-count:]
        for index, operand in enumerate(operands):
            if symbol in LOGIC or (symbol == "where" and index == 0):
                self._need_condition(operand)
            else:
                self._need_number(operand)
        position = self.builder.operation(symbol, *(operand.position for operand in operands))
        steps = [self.builder.steps[operand.position] for operand in operands]
        if (
            not is_condition(symbol)
            and self.builder.steps[position].op != "number"
            and all(step.op == "number" for step in steps)
        ):
            with np.errstate(all="ignore"):
                value = float(apply(np, symbol, [np.float64(step.value) for step in steps]))
            _fail(f"{symbol!r} at column {column} gives {value}, which is not a finite number")
        first = column if symbol in FUNCTIONS or symbol in ("neg", "not") else operands[0].column
        self.operands.append(_Operand(position, is_condition(symbol), first))

    def _push(self, position: int, column: int) -> None:
        self.operands.append(_Operand(position, False, column))

    def _arity(self, call: _Pending, given: int) -> None:
        wanted = FUNCTIONS[call.symbol]
        if given == wanted or (wanted is None and given >= 2):
            return
        needs = "2 or more arguments" if wanted is None else _arguments(wanted)
        _fail(f"{call.symbol!r} at column {call.column} takes {needs}, not {given}")

    def _need_number(self, operand: _Operand) -> None:
        if operand.condition:
            _fail(
                f"a condition at column {operand.column}, where a number is needed; "
                "a condition may only be the first argument of where(condition, a, b)"
            )

    def _need_condition(self, operand: _Operand) -> None:
        if not operand.condition:
            _fail(f"a number at column {operand.column}, where a condition such as x < 0.5 is needed")

    def _bracket_column(self, bracket: _Pending) -> int:
        """The column of the bracket itself, which follows the name in a call."""
        return next(t.column for t in self.tokens if t.text == "(" and t.column >= bracket.column)


def _arguments(count: int) -> str:
    return quantity(count, "argument")


def _shortened(name: str) -> str:
    return name if len(name) <= 40 else name[:37] + "..."


def _fail(message: str) -> NoReturn:
    raise ExpressionError(message)
