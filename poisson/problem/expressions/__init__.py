# SPDX-License-Identifier: MIT
"""Texts of a case file as functions of the coordinates.

A closed grammar: numbers, the coordinates, ``pi`` and ``e``, parameters, ``+ - * / **``, brackets, a fixed list of
functions, and comparisons inside the condition of ``where(condition, a, b)``. A text is read by our own parser into a
straight-line program (`program.Step`) that is checked before anything evaluates it, so a text from a stranger can run
no code and read no attribute. Nothing here recurses, so no text can exhaust the stack, and every number is a float, so
no exponent can exhaust the memory.
"""

from poisson.problem.expressions.expression import Expression
from poisson.problem.expressions.parser import parameter_mistake, parse
from poisson.problem.expressions.writer import MAX_TEXT

__all__ = ["MAX_TEXT", "Expression", "parameter_mistake", "parse"]
