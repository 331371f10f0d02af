# SPDX-License-Identifier: MIT
"""The compilers of the GPU vendors report errors and spills."""

from pathlib import Path

import pytest
from support import hip, kept, nvrtc

needs_hipcc = pytest.mark.skipif(hip.missing() is not None, reason=str(hip.missing()))

# `spilling` keeps N numbers of each thread over a barrier, in the few registers that 1024 threads leave it.
SOURCE = """
extern "C" __global__ void clean(double* a, const double* b) {
    __shared__ double t[256];
    t[threadIdx.x] = SCALE * b[threadIdx.x];
    __syncthreads();
    a[threadIdx.x] = t[255 - threadIdx.x];
}

extern "C" __global__ void __launch_bounds__(1024) spilling(double* a, const double* b) {
    double r[N];
#pragma unroll
    for (int i = 0; i < N; ++i) r[i] = b[i * 1024 + threadIdx.x];
    __syncthreads();
#pragma unroll
    for (int i = 0; i < N; ++i) a[i * 1024 + threadIdx.x] = r[i] * r[(i * 7 + 5) % N] + r[(i * 11 + 3) % N];
}
"""
OPTIONS = ("-DSCALE=2.0", "-DN=96")


@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
def test_nvrtc_tells_spills_from_none(arch: str) -> None:
    cubin = nvrtc.compile(SOURCE, OPTIONS, arch)
    assert cubin.image.startswith(b"\x7fELF")
    assert set(cubin.kernels) == {"clean", "spilling"}
    clean, spilling = cubin.kernels["clean"], cubin.kernels["spilling"]
    assert 8 <= clean.registers <= 32
    assert (clean.shared_bytes, clean.stack_bytes, clean.spill_store_bytes, clean.spill_load_bytes) == (2048, 0, 0, 0)
    assert not clean.spills
    assert spilling.registers <= 64
    assert spilling.shared_bytes == 0
    assert min(spilling.stack_bytes, spilling.spill_store_bytes, spilling.spill_load_bytes) >= 8
    assert spilling.spills


def test_nvrtc_compiles_for_the_architecture_asked_for() -> None:
    assert nvrtc.compile(SOURCE, OPTIONS, "sm_80").image != nvrtc.compile(SOURCE, OPTIONS, "sm_90").image
    assert nvrtc.version() >= (12, 0)


@pytest.mark.parametrize(
    "options, arch, message",
    [
        (("-DN=96",), "sm_90", 'kernels.*identifier "SCALE" is undefined'),
        ((*OPTIONS, "--no-such-option"), "sm_90", "no-such-option"),
        (OPTIONS, "sm_1", "architecture"),
    ],
)
def test_nvrtc_errors_carry_the_log(options: tuple[str, ...], arch: str, message: str) -> None:
    with pytest.raises(nvrtc.NvrtcError, match=message):
        nvrtc.compile(SOURCE, options, arch)


def test_a_log_without_resources_is_an_error() -> None:
    with pytest.raises(nvrtc.NvrtcError, match="nothing of the kernel k"):
        nvrtc.parse_resources("ptxas info    : Compiling entry function 'k' for 'sm_90'\n")


@needs_hipcc
def test_hipcc_tells_spills_from_none() -> None:
    code = hip.compile(SOURCE, OPTIONS)
    assert set(code.kernels) == {"clean", "spilling"}
    clean, spilling = code.kernels["clean"], code.kernels["spilling"]
    assert 1 <= clean.vector_registers <= 32
    assert (clean.shared_bytes, clean.scratch_bytes) == (2048, 0)
    assert (clean.spilled_registers, clean.spilled_scalars) == (0, 0)
    assert spilling.scratch_bytes >= 8
    assert spilling.spilled_registers >= 1


@needs_hipcc
def test_hipcc_errors_carry_its_text() -> None:
    with pytest.raises(hip.HipError, match="undeclared identifier 'SCALE'"):
        hip.compile(SOURCE, ("-DN=96",))


def test_a_compiler_that_is_missing_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(nvrtc, "PACKAGES", ("nvidia-no-such-package",))
    nvrtc._load.cache_clear()
    with pytest.raises(nvrtc.NvrtcMissing, match="pip install nvidia-no-such-package"):
        nvrtc.version()
    with pytest.raises(hip.HipError, match="there is no hipcc"):
        hip.compile(SOURCE, OPTIONS)


def test_what_a_compiler_has_made_is_kept_for_its_recipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept, "FOLDER", tmp_path / "made" / "here")
    made: list[str] = []

    def make() -> tuple[bytes, str]:
        made.append("")
        return b"\x7fELF", f"made {len(made)} times"

    recipes = (("1.0", "-O3", "source"), ("1.0", "-O2", "source"), ("1.1", "-O3", "source"), ("1.0", "-O3", "source"))
    found = [kept.kept(make, *recipe)[1] for recipe in recipes]
    assert found == ["made 1 times", "made 2 times", "made 3 times", "made 1 times"]
