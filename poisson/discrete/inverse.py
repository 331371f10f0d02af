# SPDX-License-Identifier: MIT
"""The inverse of an operator with constant coefficients, as the subject of a direct solution."""

from __future__ import annotations

from dataclasses import dataclass

from poisson.discrete.operator import Operator


@dataclass(frozen=True)
class _OfOperator:
    operator: Operator

    @property
    def shape(self) -> tuple[int, ...]:
        """The nodes along x, y(, z)."""
        return self.operator.shape


class Inverse(_OfOperator):
    """The inverse of an operator with constant coefficients."""


@dataclass(frozen=True)
class OpenInverse(_OfOperator):
    """The inverse where some faces are open, and all nodes beyond them are unknowns too.

    `faces`: whether each is open, in the order of `boundary.FACE_NAMES`.
    """

    faces: tuple[bool, ...]

    def open_at(self, axis: int) -> tuple[bool, ...]:
        """Which ends of an axis are open; nothing where none is."""
        ends = self.faces[2 * axis : 2 * axis + 2]
        return ends if any(ends) else ()


class DividedInverse(_OfOperator):
    """The part of a rank in the inverse of such an operator; of the axes the slowest alone is divided."""
