"""Compiles HIP sources to machine code for an AMD GPU without one, where hipcc is installed."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

# clang's remarks tell the resources of each kernel. hipRTC includes the header by itself, hipcc does not.
_FLAGS = ("-x", "hip", "-O3", "-std=c++17", "--genco", "-include", "hip/hip_runtime.h")
_REMARKS = "-Rpass-analysis=kernel-resource-usage"
_REMARK = re.compile(r"remark: +([\w ]+?)(?: \[[^\]]*\])?: (\w+) \[" + _REMARKS + r"\]")


class HipError(Exception):
    """hipcc is missing, or refuses a source or an option; the text says which."""


@dataclass(frozen=True)
class Resources:
    """What a kernel takes: registers of a lane and of a wavefront, LDS of a block and scratch of a lane in bytes.

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

    Parameters
    ----------
    source : str
        The source, as it is given to hipRTC.
    options : tuple of str
        Options of clang, such as ``-DREAL=double``.
    arch : str
        The architecture: ``gfx90a`` is the MI200 series.

    Returns
    -------
    CodeObject
        With the resources that clang reports.

    Raises
    ------
    HipError
        With the compiler's text, if it refuses the source; with the reason, if it is not installed.
    """
    reason = missing()
    if reason is not None:
        raise HipError(reason)
    with tempfile.TemporaryDirectory() as name:
        unit, built = Path(name) / "kernels.hip", Path(name) / "kernels.co"
        unit.write_text(source)
        flags = [*_FLAGS, f"--offload-arch={arch}", _REMARKS, *options]
        outcome = subprocess.run(
            ["hipcc", *flags, str(unit), "-o", str(built)],
            env={**os.environ, "HIP_PLATFORM": "amd"},  # beside a CUDA toolkit hipcc would call nvcc
            capture_output=True,
            text=True,
            check=False,
        )
        if outcome.returncode != 0:
            raise HipError(outcome.stderr)
        return CodeObject(built.read_bytes(), parse_resources(outcome.stderr))


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
