# SPDX-License-Identifier: MIT
"""Arrays in the memory of the OpenMP library."""

import ctypes
import math
from collections.abc import Callable
from ctypes import byref, c_void_p
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

ROW_ALIGNMENT = 16
"""Rows start at multiples of this many values: a cache line or two, so that SIMD loads are aligned alike on each."""


def pitch_of(values: int) -> int:
    """Values from the start of one row to the next in arrays with rows of `values`."""
    return -(-values // ROW_ALIGNMENT) * ROW_ALIGNMENT


class Memory(NamedTuple):
    """Where arrays are made: in the memory of a library, whose pages so many threads write first."""

    library: ctypes.CDLL
    threads: int

    def allocate(self, rows: int, row_bytes: int) -> int:
        """The address of so many rows, until `release`."""
        memory = c_void_p()
        self.library.poisson_allocate(rows, row_bytes, self.threads, byref(memory))
        return memory.value or 0

    def release(self, address: int) -> None:
        """Give rows back."""
        self.library.poisson_release(address)


class Owned:
    """Rows in the library's memory, which end with this object.

    `pointer`: address on the device.
    """

    pointer = 0

    def __init__(self, memory: Memory, rows: int, row_bytes: int) -> None:
        self._memory = memory
        self.pointer = memory.allocate(rows, row_bytes)

    def __del__(self) -> None:
        if self.pointer:
            self._memory.release(self.pointer)


class DeviceArray(Owned):
    """Rows of values in the library's memory.

    `shape`: as the user sees it. `pitch`: values from the start of one row to the next. `shift`: what the library is to
    subtract from every value of a source: nothing. `double`: whether the values are float64.
    """

    shift = 0.0

    def __init__(self, memory: Memory, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        self.shape = shape
        self.dtype = dtype
        self.rows = math.prod(shape[:-1])
        self.pitch = pitch_of(shape[-1])
        self.double = dtype == np.float64
        super().__init__(memory, self.rows, self.pitch * dtype.itemsize)

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @cached_property
    def on_host(self) -> NDArray[Any]:
        """The values, where the library's memory is the host's: a view that this object must outlive."""
        padded = (*self.shape[:-1], self.pitch)
        memory = (ctypes.c_char * (self.rows * self.pitch * self.dtype.itemsize)).from_address(self.pointer)
        values: NDArray[Any] = np.ndarray(padded, self.dtype, memoryview(memory))
        return values[..., : self.shape[-1]]


def given(array: DeviceArray, back: Callable[[DeviceArray], None] | None = None) -> NDArray[Any]:
    """An array in the host's memory as NumPy sees it, which keeps that; `back` gets it when NumPy needs it no more."""
    return np.asarray(_Given(array, back))


class _Given:
    """The owner of an array's memory, which tells NumPy its place and layout and keeps the array alive."""

    def __init__(self, array: DeviceArray, back: Callable[[DeviceArray], None] | None) -> None:
        itemsize = array.dtype.itemsize
        strides = [itemsize, array.pitch * itemsize]
        for nodes in array.shape[-2:0:-1]:
            strides.append(strides[-1] * nodes)
        self._array = array
        self._back = back
        self.__array_interface__ = {
            "version": 3,
            "shape": array.shape,
            "typestr": array.dtype.str,
            "data": (array.pointer, False),
            "strides": tuple(reversed(strides[: len(array.shape)])),
        }

    def __del__(self) -> None:
        if self._back:
            self._back(self._array)


class DeviceResult(Owned):
    """The result of a reduction in the library's memory."""

    def __init__(self, memory: Memory) -> None:
        super().__init__(memory, 1, memory.library.poisson_result_bytes())

    def put(self, values: NDArray[np.float64]) -> None:
        """Set the two numbers."""
        library, size = self._memory.library, self._memory.library.poisson_result_bytes()
        row = np.zeros(size // values.itemsize)
        row[:2] = values
        library.poisson_upload(self.pointer, size, row.ctypes.data, size, 1, self._memory.threads)
