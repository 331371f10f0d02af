"""Every kernel that the gpu backend launches, compiled to machine code for NVIDIA and AMD GPUs without one.

The backend runs all its operations on a runtime that only takes notes, so the launches are those that a device would
see, in their shapes, with their options. ``pytest -s tests/test_kernels.py`` prints the registers of each kernel.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import cache
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from poisson import kernels
from poisson.backends import gpu
from poisson.boundary import Rule
from poisson.differences import Differences
from poisson.discretisation import Operator
from poisson.grid import Grid
from poisson.transfer import Transfer
from tests import hip, nvrtc
from tests.operators import name_of, operator

REGISTERS_OF_A_BLOCK = 65536
"""The registers that the threads of a block share, on sm_80 and sm_90."""

MANY_SCALARS = {"poisson_sweeps", "poisson_sweeps_norm"}
"""Kernels whose conditions take more scalar registers than AMD GPUs have; the rest lie in lanes of vector registers."""

MIXED = (Rule.MIRROR, Rule.FIXED, Rule.FIXED, Rule.MIRROR, Rule.WRAP, Rule.WRAP)
RULES = {
    2: ((Rule.FIXED,) * 4, (Rule.WRAP,) * 4, MIXED[:4]),
    3: ((Rule.FIXED,) * 6, (Rule.WRAP,) * 6, MIXED),
}
SIZES = {2: ((65, 33), (1200, 1000)), 3: ((17, 9, 13), (120, 110, 100))}
"""A grid that does not fill a device, and one that does: the backend cuts them up in different ways."""


@dataclass(frozen=True)
class Launch:
    """A kernel, the module it is in, and the threads of its blocks."""

    text: str
    options: tuple[str, ...]
    name: str
    threads: int


@dataclass
class _Module:
    text: str
    options: tuple[str, ...]
    launches: set[Launch]

    def get_function(self, name: str) -> gpu.Kernel:
        def launch(grid: tuple[int, ...], block: tuple[int, ...], arguments: tuple[Any, ...]) -> None:
            self.launches.add(Launch(self.text, self.options, name, block[0] * block[1] * block[2]))

        return launch


class _Event:
    """A mark among launches that take no time."""

    def record(self) -> None:
        return None

    def wait(self) -> None:
        return None

    def since(self, earlier: gpu.Event) -> float:
        return 0.0


@dataclass
class NotingRuntime:
    """A device that runs nothing and notes every launch."""

    xp: ModuleType = np
    name: str = "notes"
    architecture: str = "sm_90"
    driver: str = "none"
    launches: set[Launch] = field(default_factory=set)

    def compile(self, source: str, options: tuple[str, ...]) -> _Module:
        return _Module(source, options, self.launches)

    def allocate(self, count: int, dtype: np.dtype[Any]) -> NDArray[Any]:
        return np.empty(count, dtype=dtype)

    def allocate_shared(self, count: int) -> tuple[NDArray[Any], NDArray[Any]]:
        values = np.zeros(count)
        return values, values

    def upload(self, values: NDArray[Any], array: NDArray[Any]) -> None:
        array[...] = values

    def download(self, array: NDArray[Any]) -> NDArray[Any]:
        return array.copy()

    def in_order(self) -> AbstractContextManager[None]:
        return nullcontext()

    def copy(self, source: NDArray[Any], target: NDArray[Any]) -> None:
        target[...] = source

    def synchronize(self) -> None:
        return None

    def capture(self, function: Callable[[], None]) -> Callable[[], None]:
        return function

    def event(self) -> _Event:
        return _Event()

    def memory(self) -> tuple[int, int]:
        return 1 << 40, 1 << 40

    def peak_bandwidth(self) -> None:
        return None


def run_every_operation(backend: gpu.GpuBackend, fine: Operator) -> None:
    """Launch every kernel there is on the arrays of a grid."""
    u, f, r, au = (backend.empty(fine.array_shape) for _ in range(4))
    result = backend.reduction()
    backend.laplacian(fine, u, au)
    backend.boundary_conditions(fine, u, au)
    for source in (f, None):
        backend.update(fine, source, au, r, u, 1.0)
    backend.norm(fine, r, result)
    for norms in (None, result):
        for source in (f, None):
            backend.sweep(fine, u, source, r, 1.0, norms)
            backend.sweeps(fine, u, source, r, 1.0, backend.depth(fine), norms)
            backend.residual(fine, u, source, r, norms)
    backend.fill(u, 0.0)
    backend.axpby(1.0, u, 1.0, f)
    backend.dot(fine, u, f, result)
    wraps = tuple(fine.axis_rules(axis)[0] is Rule.WRAP for axis in range(fine.dimension))
    box = Grid((0.0,) * fine.dimension, (1.0,) * fine.dimension, fine.shape, wraps)
    transfer = Transfer(fine, operator(box.coarsen().shape, fine.rules))
    coarse = backend.empty(transfer.coarse.array_shape)
    backend.restrict(transfer, u, coarse)
    backend.prolong_add(transfer, coarse, u)
    differences = Differences(fine.shape, fine.spacing, wraps, 8)
    backend.gradient(differences, u, [f, r, au][: fine.dimension])
    for axis in range(fine.dimension):
        for derivative in backend.derivative_variants().values():
            derivative(differences, axis, u, r)


@cache
def launches_of(dtype: str, rules: tuple[Rule, ...], architecture: str = "sm_90") -> frozenset[Launch]:
    """Every launch on a grid that fills a device and, on sm_90 with faces of every kind, on one that does not."""
    runtime = NotingRuntime(architecture=architecture)
    backend = gpu.GpuBackend(np.dtype(dtype), runtime)
    small, large = SIZES[len(rules) // 2]
    run_every_operation(backend, operator(large, rules))
    if rules == RULES[len(rules) // 2][-1] and architecture == "sm_90":
        run_every_operation(backend, operator(small, rules))
    return frozenset(runtime.launches)


def test_every_kernel_is_launched() -> None:
    texts = [kernels.source(name) for name in kernels.SOURCES]
    declared = {name for text in texts for name in re.findall(r"^KERNEL (\w+)\(", text, re.MULTILINE)}
    for dimension, dtype in itertools.product((2, 3), ("float32", "float64")):
        launches = launches_of(dtype, RULES[dimension][0])
        assert {launch.name for launch in launches} == declared
        assert {launch.text for launch in launches} == set(texts)


CASES = [
    pytest.param(dtype, rules, architecture, id=f"{dtype}-{name_of(rules)}-{architecture}")
    for dtype in ("float32", "float64")
    for dimension in (2, 3)
    for rules in RULES[dimension]
    for architecture in ("sm_80", "sm_90")
    if architecture == "sm_90" or rules == RULES[dimension][-1]
]
"""Each takes seconds: for sm_80, whose shapes are those of sm_90, faces of every kind are enough."""


@cache
def cubin_of(text: str, options: tuple[str, ...], arch: str) -> nvrtc.Cubin:
    return nvrtc.compile(text, options, arch)


@pytest.mark.parametrize(("dtype", "rules", "arch"), CASES)
def test_nvidia_code_spills_nothing_and_fits_the_registers(dtype: str, rules: tuple[Rule, ...], arch: str) -> None:
    spilling, too_large = [], []
    for launch in launches_of(dtype, rules, arch):
        used = cubin_of(launch.text, launch.options, arch).kernels[launch.name]
        shown = f"{launch.name} for {arch}: {used.registers} registers x {launch.threads} threads, {launch.options}"
        print(shown)
        if used.spills or used.stack_bytes:
            spilling.append(shown)
        if used.registers * launch.threads > REGISTERS_OF_A_BLOCK:
            too_large.append(shown)
    assert (spilling, too_large) == ([], [])


@pytest.mark.skipif(hip.missing() is not None, reason=str(hip.missing()))
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("dimension", [2, 3])
def test_amd_code_spills_nothing(dtype: str, dimension: int) -> None:
    codes: dict[tuple[str, tuple[str, ...]], hip.CodeObject] = {}
    spilling = []
    for launch in launches_of(dtype, RULES[dimension][-1], "gfx90a"):
        module = (launch.text, launch.options)
        if module not in codes:
            codes[module] = hip.compile(*module, arch="gfx90a")
        used = codes[module].kernels[launch.name]
        shown = f"{launch.name} for gfx90a: {used.vector_registers} vector registers, {launch.options}"
        print(shown)
        if used.spilled_registers or used.scratch_bytes or (used.spilled_scalars and launch.name not in MANY_SCALARS):
            spilling.append(shown)
    assert spilling == []
