# SPDX-License-Identifier: MIT
"""Arrays in the memory of the caller: what a backend reads of them where they lie, and what it gives away.

A backend on the host can do better than what stands here for every one.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from numpy.typing import NDArray

Array = Any


class CallersArray:
    """Values in the memory of the caller: an array for the arguments of operations that may lie there (`Role.GIVEN`).

    `values` (array): of the shape of the backend's arrays. It must not change as long as it is used. `refuse`: called
    when a value may not be finite, to look for it and say so. `exact`: whether operations read the values as they are,
    and do not round them before. `shift`: what is subtracted from every value. `stays`: whether each operation reads
    the values where they lie.
    """

    values: Any
    refuse: Callable[[], object]
    exact = stays = True
    shift = 0.0

    @property
    def shape(self) -> tuple[int, ...]:
        """As of an array."""
        shape: tuple[int, ...] = self.values.shape
        return shape


class CallersArrays(ABC):
    """A backend that takes arrays in the caller's memory."""

    @abstractmethod
    def to_host(self, array: Array) -> NDArray[Any]:
        """A copy of an array as a NumPy array."""

    def copy_to(self, array: Array, out: Any) -> None:
        """Copy an array to one of its shape and type, of NumPy or of `Backend.array_module`."""
        out[...] = self.to_host(array)

    def keeps(self, array_shape: tuple[int, ...]) -> bool:
        """Whether arrays of this shape had better stay where they are from solve to solve, and copies be given away.

        So it is where they are small, and what is done with them is recorded (`Backend.capture`).
        """
        return False

    def give(self, array: Array, back: Callable[[Array], None]) -> Any:
        """The values of an array as one of `Backend.array_module` that keeps their memory; None where it is kept here.

        It is for the user of the program; nothing else may write into the array until `back` is called with it, which
        may be when the user has let go of it, in any thread.
        """
        return None

    def in_place(self, values: Any, refuse: Callable[[], object]) -> CallersArray | None:
        """Values of NumPy or of `Backend.array_module` where they lie; None where this backend cannot read them there.

        A backend of which `Operations.take` returns before it is known whether they are finite does not call `refuse`.
        Where an operation takes arrays of the backend alone, `Operations.settled` makes one.
        """
        return None
