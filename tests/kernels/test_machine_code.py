# SPDX-License-Identifier: MIT
"""Machine code that a compiler in use is known to get wrong: no kernel may depend on it."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator

import numpy as np
import pytest
from support import nvrtc
from support.operators import operator
from test_kernels import RULES, SAMPLE, SIZES, Launch, NotingRuntime, modules_of, smooth_between_grids_that_halve

from poisson.backends.gpu.backend import GpuBackend
from poisson.mesh.differences import ORDERS, Differences

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


def has_maximum_of_three(text: str, options: tuple[str, ...]) -> bool:
    image = nvrtc.compile(text, options + nvrtc.shorter(), "sm_90").image
    return any(word & 0x1FF == MAXIMUM_OF_THREE for word in instructions(image))


def with_maximum_of_three(noted: set[Launch]) -> list[list[Launch]]:
    """What is launched of the modules with the instruction."""
    return [found for text, options, found in modules_of(noted) if has_maximum_of_three(text, options)]


def launches(dtype: str, call: Callable[[GpuBackend], None]) -> set[Launch]:
    runtime = NotingRuntime()
    call(GpuBackend(np.dtype(dtype), runtime))
    return runtime.launches


def test_the_instruction_is_recognised() -> None:
    """Otherwise the test below would find nothing in anything."""
    text = 'extern "C" __global__ void k(int* a, int n) { *a = %s; }'
    for operand, found in (("max(max(a[0], a[1]), n)", True), ("max(a[0], n)", False)):
        assert has_maximum_of_three(text % operand, ("-std=c++17",)) is found


@pytest.mark.parametrize(("dtype", "order"), [("float32", ORDERS[0]), ("float64", ORDERS[-1])])
def test_no_march_counts_its_steps_with_a_maximum_of_three(dtype: str, order: int) -> None:
    """CUDA 13.0 loses a sign when it makes one of max(max(a, -n), -n - 1): a march then ran past its end."""

    def every_derivative(backend: GpuBackend) -> None:
        for shape in ((33, 2001), (1000, 513), (92, 100, 31), (120, 110, 100)):
            differences = Differences.uniform(shape, (0.1,) * len(shape), (False,) * len(shape), order)
            arrays = [backend.empty(differences.array_shape) for _ in range(len(shape) + 1)]
            backend.bind(differences).gradient(arrays[0], arrays[1:])
            for derivative in backend.probe().derivatives(backend.bind(differences)).values():
                for axis in range(len(shape)):
                    derivative(axis, *arrays[:2])

    assert with_maximum_of_three(launches(dtype, every_derivative)) == []


@pytest.mark.parametrize(("dtype", "dimension"), SAMPLE)
def test_nor_does_a_march_between_grids(dtype: str, dimension: int) -> None:
    like = operator(SIZES[dimension][1], RULES[dimension][0])
    noted = launches(dtype, lambda backend: smooth_between_grids_that_halve(backend, like))
    assert with_maximum_of_three(noted) == []


@pytest.fixture(scope="module", autouse=True)
def compiler() -> None:
    """An installed NVRTC is needed."""
    try:
        nvrtc.version()
    except nvrtc.NvrtcMissing as error:
        pytest.skip(str(error))
