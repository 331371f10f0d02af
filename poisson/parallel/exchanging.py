# SPDX-License-Identifier: MIT
"""The exchanges of the operations on a lattice: which layers of a halo are right before and after each."""

from __future__ import annotations

import math
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

from poisson.parallel.arrays import EVERYWHERE, SUMS, DividedArray, DividedResult

if TYPE_CHECKING:
    from poisson.parallel.distributed import DistributedBackend
    from poisson.parallel.exchange import Halo


class Exchanging:
    """The common part of operations on a lattice."""

    backend: DistributedBackend

    def __init__(self, backend: DistributedBackend, halo: Halo | None) -> None:
        self.backend = backend
        self.halo = halo

    @property
    def width(self) -> int:
        """Layers of the halo."""
        return EVERYWHERE if self.halo is None else self.halo.width

    def need(self, array: DividedArray | None, layers: int) -> int:
        """Make so many layers of an array right; returns how many are."""
        if array is None:
            return EVERYWHERE
        self.backend.note(array)
        if self.halo is None:
            return EVERYWHERE
        array.halo = self.halo
        if array.valid < layers:
            if layers > self.halo.width:
                raise ValueError(f"a halo of {self.halo.width} nodes where an operation needs {layers}")
            with self.backend.local.exchanging():
                self.backend.do(self.halo.filling(array))
            array.valid = EVERYWHERE
        return min(array.valid, self.halo.width)

    def beside(self) -> AbstractContextManager[Any]:
        """Within is one operation on the lattice, and before it what it needs; both go on together where they can."""
        if self.halo is None or not self.backend.communicator.on_device:
            return nullcontext()
        return self.backend.local.beside(math.prod(self.halo.lattice.shape))

    def leave(self, array: DividedArray, layers: int) -> None:
        """Note the layers of an array that are valid after an operation has written it."""
        self.backend.note(array)
        array.halo = self.halo
        array.valid = EVERYWHERE if self.halo is None else max(0, layers)

    def result(self, result: DividedResult | None, sums: bool = False) -> object:
        """The place for a reduction over the lattice, to two sums or to a sum and a maximum."""
        if result is None:
            return None
        self.backend.note(result)
        result.divided = 0 if self.halo is None else SUMS if sums else 1
        return result.local
