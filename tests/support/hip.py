# SPDX-License-Identifier: MIT
"""Compiles HIP sources to machine code for an AMD GPU without one, where hipcc is installed."""

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from support.kept import kept

# clang's remarks tell the resources of each kernel. hipRTC includes the header by itself, hipcc does not.
_FLAGS = ("-x", "hip", "-O3", "-std=c++17", "--genco", "-include", "hip/hip_runtime.h")
_REMARKS = "-Rpass-analysis=kernel-resource-usage"
_REMARK = re.compile(r"remark: +([\w ]+?)(?: \[[^\]]*\])?: (\w+) \[" + _REMARKS + r"\]")
_MACRO = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)", re.MULTILINE)
_DYNAMIC = re.compile(r"\bextern __shared__ \w+ (\w+)\[")


class HipError(Exception):
    """hipcc is missing, or refuses a source or an option; the text says which."""


@dataclass(frozen=True)
class Resources:
    """The resources of a kernel: registers of a lane and of a wavefront, LDS of a block and scratch of a lane in bytes.

    A vector register is spilled to scratch, which is memory; a scalar register to a lane of a vector register.
    """

    vector_registers: int
    scalar_registers: int
    shared_bytes: int
    scratch_bytes: int
    spilled_registers: int
    spilled_scalars: int


@dataclass(frozen=True)
class CodeObject:
    """Machine code, and the resources of each kernel by its name."""

    image: bytes
    kernels: dict[str, Resources]


def missing() -> str | None:
    """Why HIP sources cannot be compiled here, as the reason of a skip; None if they can."""
    return None if shutil.which("hipcc") else "there is no hipcc (Debian: hipcc libamdhip64-dev rocm-device-libs)"


def compile(source: str, options: tuple[str, ...] = (), arch: str = "gfx90a") -> CodeObject:
    """Compile a HIP source to machine code.

    `source`: the source, as it is given to hipRTC. `options`: options of clang, such as ``-DREAL=double``. `arch`: the
    architecture: ``gfx90a`` is the MI200 series. Returns with the resources that clang reports. Raises `HipError` with
    the compiler's text, if it refuses the source; with the reason, if it is not installed.
    """
    reason = missing()
    if reason is not None:
        raise HipError(reason)
    flags = (*_FLAGS, f"--offload-arch={arch}", _REMARKS, *options)
    image, remarks = kept(lambda: _compiled(source, flags), _version(), *flags, source)
    return CodeObject(image, parse_resources(remarks))


@cache
def _version() -> str:
    return _hipcc("--version").stdout


def _hipcc(*arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "HIP_PLATFORM": "amd"}  # beside a CUDA toolkit hipcc would call nvcc
    return subprocess.run(["hipcc", *arguments], env=environment, capture_output=True, text=True, check=False)


def _compiled(source: str, flags: Sequence[str]) -> tuple[bytes, str]:
    """The machine code and the compiler's remarks."""
    with tempfile.TemporaryDirectory() as name:
        unit, built = Path(name) / "kernels.hip", Path(name) / "kernels.co"
        unit.write_text(source)
        outcome = _hipcc(*flags, str(unit), "-o", str(built))
        if outcome.returncode != 0:
            raise HipError(outcome.stderr)
        return built.read_bytes(), outcome.stderr


def compile_together(
    modules: Sequence[tuple[str, tuple[str, ...]]], kernels: Sequence[Collection[str]], arch: str = "gfx90a"
) -> list[dict[str, Resources]]:
    """The resources of kernels of many sources, compiled at once: hipcc reads its header longer than most of them.

    `modules` (sequence of (str, tuple of str)): sources and options; options that define no macro are the same for all.
    `kernels`: the names of the kernels of each. `arch`: the architecture. Returns the resources of the kernels of each
    module by their names. Raises `HipError` as for `compile`; lines are those of all sources, one behind the other.
    """
    parts, others = [], set()
    for number, ((source, options), names) in enumerate(zip(modules, kernels, strict=True)):
        macros = [option.removeprefix("-D").replace("=", " ", 1) for option in options if option.startswith("-D")]
        others.add(tuple(option for option in options if not option.startswith("-D")))
        # What has no namespace is told apart by its name: kernels, and memory whose size a launch gives.
        macros += [f"{name} {name}_{number}" for name in (*sorted(names), *_DYNAMIC.findall(source))]
        defined = {*(macro.split()[0] for macro in macros), *_MACRO.findall(source)}
        parts += [f"#define {macro}" for macro in macros]
        parts += [f"namespace module_{number} {{", source, "}", *(f"#undef {name}" for name in sorted(defined))]
    (common,) = others
    found = compile("\n".join((*parts, "")), common, arch).kernels
    return [{name: found[f"{name}_{number}"] for name in names} for number, names in enumerate(kernels)]


def parse_resources(remarks: str) -> dict[str, Resources]:
    """The resources of each kernel in clang's remarks."""
    found: dict[str, dict[str, str]] = {}
    for key, value in _REMARK.findall(remarks):
        if key == "Function Name":
            current = found.setdefault(value, {})
        else:
            current[key] = value
    return {
        name: Resources(
            vector_registers=int(values["VGPRs"]),
            scalar_registers=int(values["SGPRs"]),
            shared_bytes=int(values["LDS Size"]),
            scratch_bytes=int(values["ScratchSize"]),
            spilled_registers=int(values["VGPRs Spill"]),
            spilled_scalars=int(values["SGPRs Spill"]),
        )
        for name, values in found.items()
    }
