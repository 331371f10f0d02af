# SPDX-License-Identifier: MIT
"""The expression that the rest of the package holds."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from poisson.errors import ExpressionError
from poisson.problem.expressions.calculus import differentiate
from poisson.problem.expressions.program import COORDINATES, Builder, Program, evaluate
from poisson.problem.expressions.writer import write


@dataclass(frozen=True, repr=False)
class Expression:
    """A real function of the coordinates x, y(, z), which the program has as these whatever their names are.

    Made by `parse`, by `Expression.constant`, by `derivative` and by ``+``, ``-`` and ``*``. Two expressions are equal
    if they are the same tree after simplification.
    """

    program: Program  # The steps that compute it; see `poisson.problem.expressions.program`.
    axes: tuple[str, ...] = COORDINATES  # What texts call x, y(, z).

    @staticmethod
    def constant(value: float) -> Expression:
        """The expression that is `value` everywhere.

        Raises ExpressionError if `value` is not finite.
        """
        if not math.isfinite(value):
            raise ExpressionError(f"{value} is not a finite number")
        builder = Builder()
        return Expression(builder.finish(builder.number(float(value))))

    def __call__(self, xp: Any, *coordinates: Any) -> Any:
        """Evaluate at points.

        `xp`: the array module that computes: ``numpy`` or ``cupy``. `coordinates`: x, y(, z), of shapes that broadcast
        against each other. Float arrays keep their type; Python scalars take the type of the arrays beside them, and
        integers become float64. Returns: values of the shape of the coordinates that the expression depends on,
        broadcast: a scalar for a constant. Where the expression has no finite value the result is not finite; no
        warning is given. Both branches of a ``where`` are evaluated. Raises `ValueError` if the expression depends on a
        coordinate that is not given.
        """
        return evaluate(self.program, xp, coordinates)

    def derivative(self, name: str) -> Expression:
        """The partial derivative by the coordinate `name` (``x``, ``y`` or ``z``), found symbolically.

        ``sign``, ``floor`` and ``ceil`` have the derivative 0; ``abs``, ``min``, ``max`` and ``where`` are taken piece
        by piece. Jumps between the pieces do not count.
        """
        if name not in COORDINATES:
            raise ValueError(f"{name!r} is not a coordinate")
        return Expression(differentiate(self.program, name), self.axes)

    @property
    def text(self) -> str:
        """The canonical text, with every name but the coordinates replaced by its number. `parse` reads it back.

        Raises ExpressionError if it is longer than `MAX_TEXT`, as the text of a derivative can be.
        """
        return write(self.program, self.axes)

    @property
    def names(self) -> frozenset[str]:
        """The coordinates that it depends on."""
        return frozenset(step.op for step in self.program if step.op in COORDINATES)

    @property
    def is_constant(self) -> bool:
        """Whether no coordinate occurs in it."""
        return not self.names

    @property
    def value(self) -> float:
        """The value of a constant expression; ValueError for any other."""
        return float(self(np))

    def __repr__(self) -> str:
        try:
            return f"Expression({self.text!r})"
        except ExpressionError:
            return f"Expression(<{len(self.program)} steps>)"

    def __neg__(self) -> Expression:
        builder = Builder()
        return Expression(builder.finish(builder.operation("neg", builder.copy(self.program)[-1])), self.axes)

    def __add__(self, other: Expression | float) -> Expression:
        return _combine("+", self, other)

    def __radd__(self, other: float) -> Expression:
        return _combine("+", other, self)

    def __sub__(self, other: Expression | float) -> Expression:
        return _combine("-", self, other)

    def __rsub__(self, other: float) -> Expression:
        return _combine("-", other, self)

    def __mul__(self, other: Expression | float) -> Expression:
        return _combine("*", self, other)

    def __rmul__(self, other: float) -> Expression:
        return _combine("*", other, self)

    def over(self, other: Expression, limit: Expression) -> Expression:
        """The quotient, and at a zero of `other` the limit."""
        return _combine("where", _combine("==", other, 0.0), limit, _combine("/", self, other))


def _combine(op: str, *sides: Expression | float) -> Expression:
    builder = Builder()
    parts = [side if isinstance(side, Expression) else Expression.constant(side) for side in sides]
    axes = next((part.axes for part in parts if part.axes != COORDINATES), COORDINATES)
    positions = [builder.copy(part.program)[-1] for part in parts]
    return Expression(builder.finish(builder.operation(op, *positions)), axes)
