# SPDX-License-Identifier: MIT
"""Emulated device memory: arrays between guards, and filled with NaN, so that stray accesses show.

The guards hold signalling NaNs that differ from item to item. What a kernel reads there turns its result into NaN, and
what it writes there differs from what stood there, even if it writes back what it read after any arithmetic.
"""

import weakref
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from support.emulation.errors import ArgumentError, GuardError

ALIGNMENT = 256
MIN_GUARD, MAX_GUARD = 1 << 10, 1 << 17
_SIGNALLING_NAN = {4: (np.uint32, 0x7FA00000), 8: (np.uint64, 0x7FF4000000000000)}


@lru_cache(maxsize=64)
def _guard_pattern(items: int, item_size: int) -> NDArray[Any]:
    """Shape ``(items,)``, unsigned integers: signalling NaNs that carry their position."""
    kind, first = _SIGNALLING_NAN[item_size]
    pattern: NDArray[Any] = np.arange(items, dtype=kind) + kind(first)
    return pattern


@dataclass(frozen=True)
class Allocation:
    """One array with its guards; does not keep the memory alive."""

    storage: weakref.ref[NDArray[np.uint8]]
    start: int
    """Byte of the first item in the storage."""
    count: int
    guard: int
    """Items in each guard."""
    dtype: np.dtype[Any]
    address: int
    """The address of the first item."""

    def holds(self, address: int, count: int) -> bool:
        """Whether so many bytes from an address on lie in the array."""
        return self.address <= address and address + count <= self.address + self.count * self.dtype.itemsize

    def check(self, culprit: str) -> None:
        """Raise `GuardError` with `culprit` and the first item written if a guard has changed."""
        storage = self.storage()
        if storage is None:
            return
        size = self.dtype.itemsize
        pattern = _guard_pattern(self.guard, size)
        for begin, first_index in (
            (self.start - self.guard * size, -self.guard),
            (self.start + self.count * size, self.count),
        ):
            found = storage[begin : begin + self.guard * size].view(pattern.dtype)
            if not np.array_equal(found, pattern):
                written = np.flatnonzero(found != pattern)
                raise GuardError(
                    f"{culprit} wrote outside an array of {self.count} items of {self.dtype}: "
                    f"{written.size} items, the first at index {first_index + int(written[0])}"
                )


class Memory:
    """The allocations that are alive."""

    def __init__(self) -> None:
        self._allocations: dict[int, Allocation] = {}
        self._held: list[Allocation] = []

    def allocate(self, count: int, dtype: DTypeLike) -> NDArray[Any]:
        """One-dimensional array of `count` items, aligned to 256 bytes, full of NaN (integers: all bits set)."""
        kind = np.dtype(dtype)
        if count < 1:
            raise ArgumentError(f"an array of {count} items; at least 1 is needed")
        if kind.kind not in "fiu" or kind.itemsize not in _SIGNALLING_NAN:
            raise ArgumentError(f"an array of {kind}; the items are numbers of 4 or 8 bytes")
        size = kind.itemsize
        guard = min(max(count, MIN_GUARD), MAX_GUARD)
        storage = np.full((count + 2 * guard) * size + ALIGNMENT, 0xFF, dtype=np.uint8)
        start = guard * size
        start += -(storage.ctypes.data + start) % ALIGNMENT
        pattern = _guard_pattern(guard, size).view(np.uint8)
        storage[start - guard * size : start] = pattern
        storage[start + count * size : start + (count + guard) * size] = pattern

        key = id(storage)
        reference = weakref.ref(storage, lambda _: self._allocations.pop(key, None))
        self._allocations[key] = Allocation(reference, start, count, guard, kind, storage.ctypes.data + start)
        return storage[start : start + count * size].view(kind)

    def find(self, array: NDArray[Any]) -> Allocation | None:
        """The allocation that `array` is a view of."""
        owner = array
        while isinstance(owner.base, np.ndarray):
            owner = owner.base
        return self._allocations.get(id(owner))

    def holder(self, address: int, count: int) -> NDArray[np.uint8] | None:
        """The owner of the array that contains so many bytes from an address on, if there is one."""
        # Rows of one array are asked for one after the other.
        for allocations in (self._held, tuple(self._allocations.values())):
            for allocation in allocations:
                if allocation.holds(address, count) and (storage := allocation.storage()) is not None:
                    self._held = [allocation]
                    return storage
        return None

    def check_guards(self, culprit: str = "a kernel") -> None:
        """Raise `GuardError` if the guards of any array alive have changed."""
        for allocation in tuple(self._allocations.values()):
            allocation.check(culprit)
