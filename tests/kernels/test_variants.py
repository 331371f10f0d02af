# SPDX-License-Identifier: MIT
"""Every variant of the Laplacian that is measured: its values on the emulation, its code for NVIDIA and AMD GPUs."""

import itertools
import re
from functools import cache
from typing import Any

import numpy as np
import pytest
from conftest import real
from numpy.typing import NDArray
from support import hip, nvrtc
from support.emulation import EmulatedRuntime, Order
from support.operators import operator, random_array
from support.places import ROOT
from test_kernels import NotingRuntime

from poisson import kernels
from poisson.backends.gpu.backend import GpuBackend
from poisson.backends.gpu.runtime import Kernel
from poisson.backends.numpy import NumpyBackend
from poisson.discrete.discretisation import Operator
from poisson.errors import ResourceError
from poisson.mesh.boundary import Rule
from poisson.perf.benchmark.variants import ANY_BLOCK, VARIANTS, Variant

NAMED = {variant.name: variant for variant in VARIANTS}
SAMPLE = ("baseline", "nontemporal", "grid-yzx", "shared-32x4x8", "coarsened", "registers")
"""Each kernel, and what its macros change most."""
IN_BOTH_TYPES = [(name, "float64") for name in NAMED] + [(name, "float32") for name in SAMPLE]
"""The type is one macro of all kernels, and one to a compilation each."""
SHAPES = [(3, 3, 3), (5, 4, 3), (35, 20, 13), (259, 7, 5), (9, 34, 33)]
"""One node inside; fewer nodes than a block or a tile; a little more than one of each."""


def fixed(shape: tuple[int, ...]) -> Operator:
    return operator(shape, (Rule.FIXED,) * 6)


def laplacian(backend: Any, a: Operator, apply: Any) -> NDArray[Any]:
    """What a call leaves in an array that was full of nines."""
    u = backend.from_host(random_array(a.array_shape, backend.dtype, 1))
    out = backend.from_host(np.full(a.array_shape, 9.0))
    apply(u, out)
    return backend.to_host(out)


@cache
def expected(shape: tuple[int, ...], dtype: str) -> NDArray[Any]:
    backend, a = NumpyBackend(np.dtype(dtype)), fixed(shape)
    return laplacian(backend, a, lambda u, out: backend.bind(a).laplacian(u, out))


def agrees(variant: Variant, backend: GpuBackend, shape: tuple[int, ...]) -> bool:
    a = fixed(shape)
    got = laplacian(backend, a, lambda u, out: variant.launcher(backend, a, u, out)())
    values = expected(shape, backend.dtype.name)
    return bool(np.abs(got - values).max() <= 8 * np.finfo(backend.dtype).eps * np.abs(values).max())


@pytest.mark.parametrize(("name", "dtype"), IN_BOTH_TYPES)
def test_a_variant_is_the_laplacian(name: str, dtype: str) -> None:
    for number, shape in enumerate(SHAPES):
        # Each order of threads finds barriers that are missing; all of them on all grids would take long.
        runtime = EmulatedRuntime(list(Order)[number % 3], seed=number)
        assert agrees(NAMED[name], GpuBackend(np.dtype(dtype), runtime), shape), shape
        runtime.check_guards()


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [np.float64, np.float32], ids=["float64", "float32"])
def test_a_variant_is_the_laplacian_on_a_gpu_too(dtype: Any) -> None:
    backend: Any = real("gpu")(dtype)
    assert [variant.name for variant in VARIANTS if not agrees(variant, backend, (259, 67, 35))] == []
    resources = NAMED["coarsened"].compiled(backend, fixed((9, 9, 9))).resources
    assert resources.registers > 0 and resources.spilled_bytes == 0
    assert resources.shared_bytes == 3 * 32 * 32 * backend.dtype.itemsize
    assert backend.probe().peak_bandwidth() is None or 1e11 < backend.probe().peak_bandwidth() < 1e14


def test_the_kernels_of_a_call_are_told_without_a_launch(monkeypatch: pytest.MonkeyPatch) -> None:
    backend, a = GpuBackend(np.dtype(np.float64), EmulatedRuntime()), fixed((9, 8, 7))
    u, out = (backend.from_host(np.full(a.array_shape, 9.0)) for _ in range(2))
    [(shape, kernel)] = backend.kernels_of(lambda: backend.bind(a).laplacian(u, out))
    assert (kernel.name, shape.march) == ("poisson_laplacian", 1)  # type: ignore[attr-defined]
    assert np.array_equal(backend.to_host(out), np.full(a.array_shape, 9.0))
    backend.bind(a).laplacian(u, out)
    assert backend.to_host(out)[1, 1, 1] == pytest.approx(0.7 * 9.0)


def test_what_lies_on_a_face_is_left_alone() -> None:
    got = expected((5, 4, 3), "float64")
    inner = np.zeros(got.shape, bool)
    inner[1:-1, 1:-1, 1:-1] = True
    assert np.array_equal(got == 9.0, ~inner)


def test_the_names_are_apart_and_every_kernel_is_a_variant() -> None:
    assert len(NAMED) == len(VARIANTS)
    assert len({(variant.parameters, variant.kernel) for variant in VARIANTS}) == len(VARIANTS)
    declared = re.findall(r"^VARIANT poisson_(\w+)\(", kernels.source("variants"), re.MULTILINE)
    assert set(declared) == {variant.kernel for variant in VARIANTS}


def test_every_variant_is_explained() -> None:
    text = (ROOT / "docs" / "kernels.md").read_text("utf-8")
    [section] = re.findall(r"^## The Laplacian$.*?(?=^## )", text, re.MULTILINE | re.DOTALL)
    explained = set(re.findall(r"^`([a-z]+)(?:-[\w-]+)?`: ", section, re.MULTILINE))
    assert explained == {name.partition("-")[0] for name in NAMED}


def test_each_step_adds_one_idea() -> None:
    """The kernels 1 to 7 of the AMD lab notes."""
    steps = ["baseline", "tiled-8", "reordered", "launch-bounds", "nontemporal", "grid-yzx"]
    values = [{**vars(NAMED[name]), "name": ""} for name in steps]
    changed = [{key for key in after if after[key] != before[key]} for before, after in itertools.pairwise(values)]
    assert changed == [{"tile"}, {"ascending"}, {"bound"}, {"streaming"}, {"order"}]
    assert {**vars(NAMED["subdomains-4"]), "name": "", "parts": 1} == values[4]


def test_the_parameters_tell_a_variant_apart() -> None:
    assert NAMED["baseline"].parameters == "block 256x1x1"
    assert NAMED["subdomains-4"].parameters == "block 256x1x1, m 8, ascending, bound 256, nontemporal, parts 4"
    assert NAMED["grid-yzx"].parameters == "block 256x1x1, m 8, ascending, bound 256, nontemporal, blocks yzx"
    assert NAMED["registers"].parameters == "block 32x32x1, planes 30"


class Recorded:
    """A backend that notes the launches of a variant."""

    def __init__(self) -> None:
        self.launches: list[tuple[Any, ...]] = []

    def kernel(self, *arguments: Any) -> Kernel:
        return lambda grid, block, values: self.launches.append((grid, block, values))  # type: ignore[return-value]

    def pitch_of(self, nodes: int) -> int:
        return nodes

    def real(self, value: float) -> float:
        return value


def launches(name: str, shape: tuple[int, int, int]) -> list[tuple[Any, ...]]:
    backend: Any = Recorded()
    NAMED[name].launcher(backend, fixed(shape), "u", "out")()
    return backend.launches


def test_the_parts_cover_the_rows_once() -> None:
    parts = launches("subdomains-4", (300, 512, 64))
    assert [(*values[:4], *values[-2:]) for _, _, values in parts] == [
        ("u", "out", 300, 512, 1, 129),
        ("u", "out", 300, 512, 129, 257),
        ("u", "out", 300, 512, 257, 385),
        ("u", "out", 300, 512, 385, 511),
    ]
    assert {grid for grid, _, _ in parts} == {(2, 16, 62)}
    assert len(launches("subdomains-8", (300, 5, 64))) == 3


def test_the_grid_of_blocks_advances_in_the_order_of_the_variant() -> None:
    assert launches("nontemporal", (512, 512, 512))[0][:2] == ((2, 64, 510), (256, 1, 1))
    assert launches("grid-yzx", (512, 512, 512))[0][:2] == ((64, 510, 2), (256, 1, 1))
    assert launches("grid-zxy", (512, 512, 512))[0][0] == (510, 2, 64)
    assert launches("coarsened", (512, 512, 512))[0][0] == (17, 17, 17)
    assert launches("shared-8x8x8", (512, 512, 512))[0][0] == (85, 85, 85)


def test_a_grid_that_cannot_be_cut_up_is_refused() -> None:
    with pytest.raises(
        ResourceError, match="the variant baseline divides this grid into 3 x 69998 blocks along y and z"
    ):
        launches("baseline", (5, 5, 70000))
    assert launches("grid-zxy", (5, 5, 70000))[0][0] == (69998, 1, 1)


# ---- machine code
def source_of(variant: Variant, dtype: str) -> tuple[str, tuple[str, ...]]:
    runtime = NotingRuntime()
    variant.compiled(GpuBackend(np.dtype(dtype), runtime), fixed((9, 9, 9)))((1,), (1, 1, 1), ())
    [launch] = runtime.launches
    return launch.text, launch.options


@pytest.mark.parametrize(("name", "dtype"), IN_BOTH_TYPES)
def test_nvidia_code_of_a_variant_spills_nothing_and_fits_the_registers(name: str, dtype: str) -> None:
    """For sm_80 in the type that takes more registers."""
    variant, arch = NAMED[name], "sm_80" if dtype == "float64" else "sm_90"
    text, options = source_of(variant, dtype)
    used = nvrtc.compile(text, options + nvrtc.shorter(), arch).kernels[f"poisson_{variant.kernel}"]
    print(f"{variant.name} {dtype} for {arch}: {used.registers} registers, {used.shared_bytes} bytes shared")
    assert not used.spills
    assert used.registers * variant.bound <= 65536
    assert np.prod(variant.block) <= variant.bound <= ANY_BLOCK
    assert (used.shared_bytes > 0) == (variant.kernel != "tiled")


@pytest.mark.skipif(hip.missing() is not None, reason=str(hip.missing()))
@pytest.mark.parametrize("name", SAMPLE)
def test_amd_code_of_a_variant_spills_nothing(name: str) -> None:
    used = hip.compile(*source_of(NAMED[name], "float64"), arch="gfx90a").kernels[f"poisson_{NAMED[name].kernel}"]
    assert (used.spilled_registers, used.spilled_scalars, used.scratch_bytes) == (0, 0, 0)
