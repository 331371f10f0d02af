# SPDX-License-Identifier: MIT
"""The instructions in NVIDIA's machine code."""

import struct
from collections.abc import Iterator

MAXIMUM_OF_THREE = 0x00F
"""The low nine bits of the instruction VIMNMX3, whatever its operands are."""


def instructions(image: bytes) -> Iterator[int]:
    """The first eight bytes of each instruction of a 64-bit ELF file for sm_70 or later, which have sixteen."""
    [sections_at] = struct.unpack_from("<Q", image, 0x28)
    size, count = struct.unpack_from("<HH", image, 0x3A)
    for number in range(count):
        _, kind, flags, _, offset, length = struct.unpack_from("<IIQQQQ", image, sections_at + size * number)
        if kind == 1 and flags & 4:  # a program's bits that are executed
            yield from (word for word, _ in struct.iter_unpack("<QQ", image[offset : offset + length]))


def has_maximum_of_three(image: bytes) -> bool:
    """Whether machine code for sm_90 has the instruction, of which CUDA 13.0 makes a wrong use.

    It loses a sign when it makes one of max(max(a, -n), -n - 1): a march then ran past its end.
    """
    return any(word & 0x1FF == MAXIMUM_OF_THREE for word in instructions(image))
