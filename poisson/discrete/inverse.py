# SPDX-License-Identifier: MIT
"""The inverse of an operator with constant coefficients, as the subject of a direct solution."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

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


Layers = dict[tuple[int, int], NDArray[Any]]
"""By the face, and by how many layers inside of it: whole layers of nodes."""


@dataclass
class FaceValues:
    """Values on faces that follow from u in the layers next to them, when it has zeros on these faces.

    `faces`: those that have such values. `write`: writes them to an array, from the layers 0 and 1, without any from
    those of the array. `written`: whether that was done.
    """

    faces: Sequence[int]
    write: Callable[[Any, Layers | None], None]
    written: bool = False
