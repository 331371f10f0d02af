# SPDX-License-Identifier: MIT
"""Derivatives of programs, one rule for each operation."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from poisson.problem.expressions.program import COORDINATES, Builder, Program, is_condition


@dataclass(frozen=True)
class _Term:
    """A step of a builder, with the operators, so that the rules below read as formulas."""

    builder: Builder
    position: int

    def __add__(self, other: _Term) -> _Term:
        return self.apply("+", other)

    def __sub__(self, other: _Term) -> _Term:
        return self.apply("-", other)

    def __mul__(self, other: _Term | float) -> _Term:
        return self.apply("*", other)

    def __truediv__(self, other: _Term) -> _Term:
        return self.apply("/", other)

    def __pow__(self, other: _Term | float) -> _Term:
        return self.apply("**", other)

    def __neg__(self) -> _Term:
        return self.apply("neg")

    def __rsub__(self, other: float) -> _Term:
        return self.constant(other) - self

    def __radd__(self, other: float) -> _Term:
        return self.constant(other) + self

    def __rmul__(self, other: float) -> _Term:
        return self.constant(other) * self

    def constant(self, value: float) -> _Term:
        return _Term(self.builder, self.builder.number(value))

    def apply(self, op: str, *others: _Term | float) -> _Term:
        terms = [other if isinstance(other, _Term) else self.constant(other) for other in others]
        position = self.builder.operation(op, self.position, *(term.position for term in terms))
        return _Term(self.builder, position)

    @property
    def number(self) -> float | None:
        """Its value, where it is a plain number."""
        step = self.builder.steps[self.position]
        return step.value if step.op == "number" else None


def _power(u: _Term, v: _Term, du: _Term, dv: _Term) -> _Term:
    exponent = v.number
    # With a constant exponent the logarithm must not appear: it is not real where u <= 0.
    if exponent is not None:
        return exponent * u ** (exponent - 1.0) * du
    if u.number is not None:
        return u**v * u.apply("log") * dv
    return u**v * (dv * u.apply("log") + v * du / u)


def _extremum(op: str, comparison: str, terms: list[_Term], derivatives: list[_Term]) -> _Term:
    best, slope = terms[0], derivatives[0]
    for term, derivative in zip(terms[1:], derivatives[1:], strict=True):
        slope = best.apply(comparison, term).apply("where", slope, derivative)
        best = best.apply(op, term)
    return slope


_UNARY: dict[str, Callable[[_Term, _Term], _Term]] = {
    "neg": lambda u, du: -du,
    "sin": lambda u, du: u.apply("cos") * du,
    "cos": lambda u, du: -(u.apply("sin") * du),
    "tan": lambda u, du: du / u.apply("cos") ** 2.0,
    "asin": lambda u, du: du / (1.0 - u**2.0).apply("sqrt"),
    "acos": lambda u, du: -(du / (1.0 - u**2.0).apply("sqrt")),
    "atan": lambda u, du: du / (1.0 + u**2.0),
    "sinh": lambda u, du: u.apply("cosh") * du,
    "cosh": lambda u, du: u.apply("sinh") * du,
    "tanh": lambda u, du: (1.0 - u.apply("tanh") ** 2.0) * du,
    "exp": lambda u, du: u.apply("exp") * du,
    "log": lambda u, du: du / u,
    "log10": lambda u, du: du / (math.log(10.0) * u),
    "sqrt": lambda u, du: du / (2.0 * u.apply("sqrt")),
    "abs": lambda u, du: u.apply("sign") * du,
    "sign": lambda u, du: u.constant(0.0),
    "floor": lambda u, du: u.constant(0.0),
    "ceil": lambda u, du: u.constant(0.0),
}

_BINARY: dict[str, Callable[[_Term, _Term, _Term, _Term], _Term]] = {
    "+": lambda u, v, du, dv: du + dv,
    "-": lambda u, v, du, dv: du - dv,
    "*": lambda u, v, du, dv: du * v + u * dv,
    "/": lambda u, v, du, dv: du / v - u * dv / v**2.0,
    "**": _power,
    "atan2": lambda u, v, du, dv: (du * v - u * dv) / (u**2.0 + v**2.0),
    "hypot": lambda u, v, du, dv: (u * du + v * dv) / u.apply("hypot", v),
}


def differentiate(program: Program, name: str) -> Program:
    """The derivative of a program by a coordinate, taken piece by piece where the program has pieces."""
    builder = Builder()
    terms = [_Term(builder, position) for position in builder.copy(program)]
    slopes: list[_Term] = []
    for step, term in zip(program, terms, strict=True):
        args = [terms[arg] for arg in step.args]
        darg = [slopes[arg] for arg in step.args]
        if step.op == "number" or step.op in COORDINATES or is_condition(step.op):
            slope = term.constant(1.0 if step.op == name else 0.0)
        elif step.op == "where":
            slope = args[0].apply("where", darg[1], darg[2])
        elif step.op in ("min", "max"):
            slope = _extremum(step.op, "<=" if step.op == "min" else ">=", args, darg)
        elif len(args) == 1:
            slope = _UNARY[step.op](args[0], darg[0])
        else:
            slope = _BINARY[step.op](args[0], args[1], darg[0], darg[1])
        slopes.append(slope)
    return builder.finish(slopes[-1].position)
