# SPDX-License-Identifier: MIT
"""Measurements of a backend, and code that is there to be measured; `poisson.backends.base` has a solver's
operations."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from poisson.backends.processors import crowded
from poisson.backends.spectra import largest_prime_factor

if TYPE_CHECKING:
    from poisson.backends.base import Backend
    from poisson.backends.transfers import DifferenceOperations

Derivative = Callable[[int, Any, Any], None]
"""As `DifferenceOperations.derivative`."""

LARGEST_FACTOR = 13
"""Transforms are fast where the intervals of every axis have no larger prime factor; else a solution takes ..."""
CONVOLVED = 1.8
"""... at most about so many times as long."""


@dataclass(frozen=True)
class Pace:
    """The costs of the methods on a backend: measured, and used to choose one and to say how long it should take.

    `cycle`, `transforms`: the time of a V(2,1) cycle on a large grid and of a fast solution, in passes at the memory
    bandwidth, each of which reads an array and writes one. `call`: seconds from one operation on a small grid to the
    next. `bandwidth`: the memory bandwidth of a usual device, in bytes a second: for the choice, which must not depend
    on the hour. `highest`: bytes a second that the methods reach at best, where arithmetic limits them and not memory.
    `probe`: values of the arrays that the memory bandwidth is measured on for it, if the grid has as many.
    """

    cycle: float
    transforms: float
    call: float
    bandwidth: float
    highest: float = math.inf
    probe: int = 1 << 21


class Probe(ABC):
    """How fast a backend is, and other ways to compute what it computes.

    `pace`: what the methods take here, for their choice. `maps_arrays`: whether its library has the regions of
    `poisson.perf.benchmark.structured`, which map arrays of the host.
    """

    pace: Pace
    maps_arrays: bool = False

    def __init__(self, backend: Backend) -> None:
        self.backend = backend

    @abstractmethod
    def stream(self, count: int) -> tuple[Callable[[], None], float]:
        """The measurement of bandwidth: a call that copies `count` float64 values, and the bytes that it moves.

        Each value counts twice, as it is read and written. On the threads of a CPU the stores of large arrays go
        around the caches, as those of operations do, so that nothing else is moved.
        """

    @abstractmethod
    def arithmetic(self, count: int) -> tuple[Callable[[], None], float]:
        """The measurement of arithmetic: a call of at least `count` multiply-adds in this type, and its flops.

        Each counts as two flops. On a GPU and on the threads of a CPU these are independent chains in registers; NumPy
        multiplies matrices.
        """

    def crowded(self) -> bool:
        """Whether other programs want the processors that the operations run on, at this moment."""
        return self.backend.on_host and crowded()

    def slowdown(self, length: int) -> float:
        """How many times as long transforms of so many intervals take as those of a number with small factors."""
        return CONVOLVED if largest_prime_factor(length) > LARGEST_FACTOR else 1.0

    def peak_bandwidth(self) -> float | None:
        """Bytes a second between chip and memory, by the vendor's figures; None where nobody gives them."""
        return None

    def derivatives(self, operations: DifferenceOperations) -> Mapping[str, Derivative]:
        """The ways to compute `derivative` that there are, by name."""
        return {self.backend.name: operations.derivative}
