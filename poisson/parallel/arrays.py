# SPDX-License-Identifier: MIT
"""Arrays and results of a divided problem."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from poisson.backends.base import Array, Reduction

EVERYWHERE = 1 << 30
"""The number of valid layers of a halo whose layers are all valid."""


class DividedArray:
    """The part of an array that a rank has, and how much of its halo is right.

    `values` (Array): of the local backend: the nodes that the rank owns, and the halo. `valid`: layers of the halo,
    counted from the owned nodes, whose values are those of the ranks that own them.
    """

    __slots__ = ("halo", "plans", "valid", "values")

    def __init__(self, values: Array, valid: int) -> None:
        self.values = values
        self.valid = valid
        self.halo: Any = None
        self.plans: dict[Any, Any] = {}

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.values.shape)

    @property
    def size(self) -> int:
        return int(self.values.size)

    @property
    def dtype(self) -> np.dtype[Any]:
        dtype: np.dtype[Any] = self.values.dtype
        return dtype


SUMS = 2


@dataclass(eq=False)
class DividedResult:
    """A place for the results of a reduction.

    `local`: of the local backend. `divided`: 1 where it has the part of one rank, which `DistributedBackend.read` joins
    with the others; `SUMS` where that is two sums, and not a sum and a maximum.
    """

    local: Reduction
    divided: int = 0
