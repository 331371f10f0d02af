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


@dataclass(frozen=True)
class Inverse(_OfOperator):
    """The inverse of an operator with constant coefficients.

    `held`: whether fixed nodes may have other values than zero.
    """

    held: bool = True


class DividedInverse(_OfOperator):
    """The part of a rank in the inverse of such an operator; of the axes the slowest alone is divided."""
