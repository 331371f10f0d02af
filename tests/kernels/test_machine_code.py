# SPDX-License-Identifier: MIT
"""Machine code that a compiler in use is known to get wrong or slow, beside that of test_kernels.py.

No kernel may depend on an instruction that does not hold what it says; test_kernels.py looks for it in every kernel
that it compiles, and here are other orders of derivatives. Two sweeps on a part of a grid take nearly all registers.
"""

from dataclasses import replace

import numpy as np
import pytest
from support import nvrtc
from support.instructions import has_maximum_of_three
from test_kernels import REGISTERS_OF_A_BLOCK, NotingRuntime, modules_of

from poisson.backends.gpu.backend import GpuBackend
from poisson.discrete.operator import Operator
from poisson.mesh.boundary import Rule
from poisson.mesh.differences import ORDERS, Differences


def image_of(text: str, options: tuple[str, ...]) -> bytes:
    return nvrtc.compile(text, options + nvrtc.shorter(), "sm_90").image


def test_the_instruction_is_recognised() -> None:
    """Otherwise nothing would be found in anything."""
    text = 'extern "C" __global__ void k(int* a, int n) { *a = %s; }'
    for operand, found in (("max(max(a[0], a[1]), n)", True), ("max(a[0], n)", False)):
        assert has_maximum_of_three(image_of(text % operand, ("-std=c++17",))) is found


def test_no_derivative_counts_its_steps_with_a_maximum_of_three() -> None:
    runtime = NotingRuntime()
    backend = GpuBackend(np.dtype(np.float32), runtime)
    for shape in ((33, 2001), (1000, 513), (92, 100, 31), (120, 110, 100)):
        differences = Differences.uniform(shape, (0.1,) * len(shape), (False,) * len(shape), ORDERS[0])
        arrays = [backend.empty(differences.array_shape) for _ in range(len(shape) + 1)]
        backend.bind(differences).gradient(arrays[0], arrays[1:])
        for derivative in backend.probe().derivatives(backend.bind(differences)).values():
            for axis in range(len(shape)):
                derivative(axis, *arrays[:2])
    modules = modules_of(runtime.launches)
    assert [found for text, options, found in modules if has_maximum_of_three(image_of(text, options))] == []


@pytest.mark.parametrize("first", [0, 60, 120])
def test_two_sweeps_of_each_part_of_a_grid_keep_everything_in_registers(first: int) -> None:
    """A part with a halo below took ten registers more than one with a halo above, and a third more time."""
    runtime = NotingRuntime()
    backend = GpuBackend(np.dtype(np.float32), runtime)
    whole = Operator.uniform((129, 129, 180), (1.0,) * 3, 0.0, (Rule.FIXED,) * 6)
    part = replace(whole, lattice=whole.lattice.part(2, first, first + 60, 6))
    u, f, out, work = (backend.empty(part.array_shape) for _ in range(4))
    backend.bind(part).smooth(u, f, out, work, (0.5, 0.6))
    (launch,) = runtime.launches
    (used,) = nvrtc.compile(*next((text, options) for text, options, _ in modules_of([launch]))).kernels.values()
    assert not used.spills
    assert used.registers * launch.threads <= REGISTERS_OF_A_BLOCK


@pytest.fixture(scope="module", autouse=True)
def compiler() -> None:
    """An installed NVRTC is needed."""
    try:
        nvrtc.version()
    except nvrtc.NvrtcMissing as error:
        pytest.skip(str(error))
