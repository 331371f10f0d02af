# SPDX-License-Identifier: MIT
"""Texts of a case file as functions of the coordinates.

A closed grammar: numbers, the coordinates, ``pi`` and ``e``, parameters, ``+ - * / **``, brackets, a fixed list of
functions, and comparisons inside a condition: of ``where(condition, a, b)``, or of where a body is. A text is read by
our own parser into a straight-line program (`program.Step`) that is checked before anything evaluates it, so a text
from a stranger can run no code and read no attribute. Nothing here recurses, so no text can exhaust the stack, and
every number is a float, so no exponent can exhaust the memory.
"""

from poisson.problem.expressions.expression import Expression
from poisson.problem.expressions.parser import parameter_mistake, parse, parse_inside
from poisson.problem.expressions.writer import MAX_TEXT

__all__ = ["MAX_TEXT", "Expression", "parameter_mistake", "parse", "parse_inside"]
