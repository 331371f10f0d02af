# SPDX-License-Identifier: MIT
"""The link to an emulated device: a copy is made as late as it may be, so that what is not waited for shows."""

import ctypes
from collections import deque
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from threading import RLock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from poisson.backends.gpu.staging import Piece, Pinned
from support.emulation.errors import ArgumentError
from support.emulation.memory import Memory


@dataclass
class EmulatedMark:
    """A mark among the copies of a link."""

    link: "EmulatedLink"
    place: int = 0


class EmulatedLink:
    """Copies that wait until somebody waits for them.

    `memory`: of the device. A copy outside its arrays raises `ArgumentError`. `asked`: copies so far.
    """

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self._lock = RLock()
        self._waiting: deque[tuple[int, NDArray[np.uint8], NDArray[np.uint8], Any]] = deque()
        self.asked = 0

    def in_use(self) -> AbstractContextManager[Any]:
        """Any thread may ask."""
        return nullcontext()

    def synchronize(self) -> None:
        """Make all copies."""
        self.make(self.asked)

    def address(self, array: NDArray[Any]) -> int:
        """The address of the first value."""
        return array.ctypes.data

    def pinned(self, count: int) -> Pinned:
        """Memory full of NaN."""
        values = np.full(count, 0xFF, np.uint8)
        return Pinned(values, values.ctypes.data)

    def push(self, memory: Pinned, address: int, piece: Piece) -> None:
        """Ask for a copy to the device."""
        self._ask(memory, address, piece, to_device=True)

    def pull(self, memory: Pinned, address: int, piece: Piece) -> None:
        """Ask for a copy from the device."""
        self._ask(memory, address, piece, to_device=False)

    def mark(self) -> EmulatedMark:
        """A new mark."""
        return EmulatedMark(self)

    def record(self, mark: EmulatedMark) -> None:
        """Set a mark behind the copies asked for so far."""
        mark.link, mark.place = self, self.asked

    def wait(self, mark: EmulatedMark, watched: bool) -> None:
        """Make the copies before a mark, on whatever link."""
        mark.link.make(mark.place)

    def make(self, place: int) -> None:
        """Make the copies up to a place."""
        with self._lock:
            while self._waiting and self._waiting[0][0] <= place:
                _, target, source, _ = self._waiting[0]
                target[...] = source
                self._waiting.popleft()

    def _ask(self, memory: Pinned, address: int, piece: Piece, to_device: bool) -> None:
        start = address + piece.offset
        holder = self._memory.holder(start, (piece.rows - 1) * piece.pitch + piece.width)
        if piece.count > memory.values.nbytes or holder is None:
            raise ArgumentError(f"a copy of {piece.width} bytes that passes the end of an array")
        on_host, on_device = _rows(memory.address, piece, piece.width), _rows(start, piece, piece.pitch)
        with self._lock:
            self.asked += 1
            ends = (on_device, on_host) if to_device else (on_host, on_device)
            self._waiting.append((self.asked, *ends, (memory, holder)))


def _rows(address: int, piece: Piece, pitch: int) -> NDArray[np.uint8]:
    """The bytes of a piece from an address on, which does not keep them."""
    memory = (ctypes.c_uint8 * ((piece.rows - 1) * pitch + piece.width)).from_address(address)
    return np.ndarray((piece.rows, piece.width), np.uint8, memory, strides=(pitch, 1))
