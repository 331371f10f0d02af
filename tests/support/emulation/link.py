# SPDX-License-Identifier: MIT
"""The link to an emulated device: a copy is made as late as it may be, so that what is not waited for shows."""

from __future__ import annotations

import ctypes
from collections import deque
from contextlib import AbstractContextManager, nullcontext
from threading import RLock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from support.emulation.errors import ArgumentError
from support.emulation.memory import Memory


class EmulatedMark:
    """A mark among the copies of a link."""

    def __init__(self, link: EmulatedLink) -> None:
        self._link = link
        self._place = 0

    def record(self) -> None:
        """Set it behind the copies asked for so far."""
        self._place = self._link.asked

    def wait(self) -> None:
        """Make those copies."""
        self._link.make(self._place)

    def since(self, earlier: Any) -> float:
        """There are no times."""
        raise NotImplementedError


class EmulatedLink:
    """Copies that wait until somebody waits for them.

    Parameters
    ----------
    memory : Memory
        Of the device. A copy outside its arrays raises `ArgumentError`.

    Attributes
    ----------
    asked : int
        Copies so far.
    """

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self._lock = RLock()
        self._waiting: deque[tuple[int, int, int, NDArray[np.uint8]]] = deque()
        self._made = 0
        self.asked = 0

    def in_use(self) -> AbstractContextManager[Any]:
        """Any thread may ask."""
        return nullcontext()

    def synchronize(self) -> None:
        """Make all copies."""
        self.make(self.asked)

    def address(self, array: NDArray[Any]) -> int:
        """Of the first value."""
        return array.ctypes.data

    def pinned(self, count: int) -> NDArray[np.uint8]:
        """Memory full of NaN."""
        return np.full(count, 0xFF, np.uint8)

    def push(self, address: int, memory: NDArray[np.uint8], count: int) -> None:
        """Ask for a copy to the device."""
        self._ask(address, memory.ctypes.data, count, address, memory)

    def pull(self, memory: NDArray[np.uint8], address: int, count: int) -> None:
        """Ask for a copy from the device."""
        self._ask(memory.ctypes.data, address, count, address, memory)

    def mark(self, watched: bool) -> EmulatedMark:
        """A new mark."""
        return EmulatedMark(self)

    def make(self, place: int) -> None:
        """Make the copies up to a place."""
        with self._lock:
            while self._made < place:
                target, source, count, _ = self._waiting.popleft()
                ctypes.memmove(target, source, count)
                self._made += 1

    def _ask(self, target: int, source: int, count: int, on_device: int, memory: NDArray[np.uint8]) -> None:
        if count > memory.nbytes or not self._memory.holds(on_device, count):
            raise ArgumentError(f"a copy of {count} bytes that passes the end of an array")
        with self._lock:
            self._waiting.append((target, source, count, memory))
            self.asked += 1
