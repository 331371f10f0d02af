"""Arrays in the memory of the OpenMP library."""

from __future__ import annotations

import ctypes
import math
import weakref
from ctypes import byref, c_void_p
from typing import Any, NamedTuple

import numpy as np

ROW_ALIGNMENT = 16
"""Rows start at multiples of this many values: a cache line or two, so that SIMD loads are aligned alike on each."""


def pitch_of(values: int) -> int:
    """Values from the start of one row to the next in arrays with rows of `values`."""
    return -(-values // ROW_ALIGNMENT) * ROW_ALIGNMENT


class Memory(NamedTuple):
    """Where arrays are made: in the memory of a library, whose pages so many threads write first."""

    library: ctypes.CDLL
    threads: int

    def of(self, owner: object, rows: int, row_bytes: int) -> int:
        """The address of so many rows, which are released with their owner."""
        memory = c_void_p()
        self.library.poisson_allocate(rows, row_bytes, self.threads, byref(memory))
        weakref.finalize(owner, self.library.poisson_release, memory.value)
        return memory.value or 0


class DeviceArray:
    """Rows of values in the library's memory, released with this object.

    Attributes
    ----------
    shape : tuple of int
        As the user sees it.
    pitch : int
        Values from the start of one row to the next.
    pointer : int
        Address on the device.
    """

    def __init__(self, memory: Memory, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        self.shape = shape
        self.dtype = dtype
        self.rows = math.prod(shape[:-1])
        self.pitch = pitch_of(shape[-1])
        self.pointer = memory.of(self, self.rows, self.pitch * dtype.itemsize)


class DeviceResult:
    """The result of a reduction in the library's memory, released with this object."""

    def __init__(self, memory: Memory) -> None:
        self.pointer = memory.of(self, 1, memory.library.poisson_result_bytes())
