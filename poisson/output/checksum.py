# SPDX-License-Identifier: MIT
"""CRC-32 of bytes of which each process has only some.

The checksum is that of `zlib.crc32`, and does not depend on who has which bytes. It is a remainder of polynomials over
the field of two elements: a sum (exclusive or) of what every run of bytes gives alone, with zeros in the place of all
others, and of what its customary start and end (all bits set) give. Zeros before a run give nothing; those after it are
a factor xⁿ for n bits.
"""

import zlib
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from poisson.backends.processors import processors
from poisson.mesh.grid import over_slabs

CHUNK = 1 << 24
"""Bytes that a thread takes at once: to shift a checksum by the bytes behind them costs as much as some hundred kB."""

_ONES = 0xFFFFFFFF
_POLYNOMIAL = 0xEDB88320
"""Without its highest power; the highest bit of a number is the coefficient of x⁰."""
_ONE, _X = 0x80000000, 0x40000000


class Contribution:
    """The contribution of some runs of bytes to the checksum of all of them."""

    def __init__(self) -> None:
        self._remainder = 0
        self._place = 0
        self.bytes = 0

    def add(self, place: int, run: Any) -> None:
        """Add a run of bytes that begins so many bytes from the first of all; runs come in the order of their places.

        `place`: not before the end of the last run. `run`: contiguous.
        """
        length = memoryview(run).nbytes
        self._remainder = zlib.crc32(run, self.value(place) ^ _ONES) ^ _ONES
        self._place = place + length
        self.bytes += length

    def value(self, end: int) -> int:
        """The contribution of the runs so far to the checksum of `end` bytes."""
        return _followed_by_zeros(self._remainder, end - self._place)


def checksum_of(values: NDArray[Any]) -> int:
    """The checksum of a contiguous array, by all threads of this process."""
    data = values.reshape(-1).view(np.uint8)

    def part(start: int, stop: int) -> int:
        contribution = Contribution()
        contribution.add(start, data[start:stop].data)
        return contribution.value(data.size)

    return joined(over_slabs((data.size,), part, processors(), limit=CHUNK), data.size)


def joined(values: Iterable[int], length: int) -> int:
    """The checksum of `length` bytes from what their runs contribute, in any order."""
    total = _followed_by_zeros(_ONES, length) ^ _ONES
    for value in values:
        total ^= value
    return total


def _followed_by_zeros(remainder: int, count: int) -> int:
    """The remainder of bytes that so many zero bytes follow."""
    return _product(remainder, _power(8 * count)) if count else remainder


def _product(first: int, second: int) -> int:
    total = 0
    while first:
        if first & _ONE:
            total ^= second
        first = (first << 1) & _ONES
        second = (second >> 1) ^ (_POLYNOMIAL if second & 1 else 0)
    return total


@lru_cache(maxsize=1024)
def _power(exponent: int) -> int:
    """The remainder of xⁿ."""
    if exponent == 0:
        return _ONE
    half = _power(exponent // 2)
    square = _product(half, half)
    return _product(square, _X) if exponent % 2 else square
