"""Kernel source -> shared library for the CPU, kept under a digest of all that it depends on."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path

from tests.emulation.errors import CompilationError

HEADER = Path(__file__).with_name("emulation.h")

_COMMON = ("-std=c++17", "-DPOISSON_EMULATION", "-U_FORTIFY_SOURCE")
# Fortified longjmp forbids jumps between stacks. No contraction: results are NumPy's, bit for bit, for the same order
# of operations. A frame fits the stack of a fiber. The handler of -fsanitize=bounds is in the header, so no libubsan.
# Without weak symbols, the shared arrays of inline functions may lie in one section with those of kernels.
# To compile takes longer than to run, so the compiler takes its least pains.
_COMPILE = (
    *("-Og", "-fPIC", "-fvisibility=hidden", "-fno-weak", "-ffp-contract=off"),
    *("-fsanitize=bounds", "-Wno-attributes", "-Werror=frame-larger-than=16384"),
)
_LINK = ("-shared", "-Wl,-Bsymbolic", "-nodefaultlibs", "-lm", "-lgcc", "-lc")

# What the marks of emulation.h look like once preprocessed.
_BOUND = (
    r"__attribute__\s*\(\(\s*emulation_bounds\s*\("
    r"(?P<{name}>(?:(?!emulation_bounds).)*)"
    r"\)\s*,\s*emulation_bounds_end\s*\)\)"
)
_KERNEL = re.compile(
    r'__attribute__\s*\(\(\s*emulation_kernel\s*,\s*visibility\s*\(\s*"default"\s*\)\s*\)\)\s*'
    rf"(?:{_BOUND.format(name='before')})?\s*\bvoid\s*(?:{_BOUND.format(name='after')})?\s*"
    r"(?P<kernel>[A-Za-z_]\w*)\s*\(",
    re.DOTALL,
)


@cache
def _compiler() -> tuple[str, str]:
    """Path and version of g++."""
    path = shutil.which("g++")
    if path is None:
        raise CompilationError("there is no g++; install one to run the kernels on the CPU")
    return path, subprocess.run([path, "--version"], capture_output=True, text=True, check=True).stdout


def _run(arguments: list[str]) -> str:
    outcome = subprocess.run(arguments, capture_output=True, text=True, check=False)
    if outcome.returncode != 0:
        raise CompilationError(outcome.stderr)
    return outcome.stdout


def build(source: str, defines: tuple[str, ...], folder: Path) -> Path:
    """Compile a kernel source to a shared library in `folder`, or find it there.

    Parameters
    ----------
    source : str
        Kernels: functions ``extern "C" __global__ void`` of pointers to numbers and of numbers.
    defines : tuple of str
        Options ``-DNAME=VALUE``.
    folder : Path
        Made if it does not exist. Processes may share it.

    Returns
    -------
    Path
        The library, named by a digest of the source, the header, the options and the compiler.

    Raises
    ------
    CompilationError
        With the compiler's text; lines are those of `source`.
    """
    compiler, version = _compiler()
    macros = "".join(_macro(option) for option in defines)
    unit_text = f'#include "{HEADER.name}"\n{macros}#line 1 "kernels"\n{source}\n'
    library = folder / f"{_digest(unit_text, *_LINK, version, _KERNEL.pattern)}.so"
    if library.exists():
        return library
    folder.mkdir(parents=True, exist_ok=True)
    compile_unit = [compiler, *_COMMON, f"-I{_header(folder)}"]
    with tempfile.TemporaryDirectory(dir=folder) as name:
        unit, built = Path(name) / "unit.cpp", Path(name) / "unit.so"
        unit.write_text(unit_text)
        preprocessed = _run([*compile_unit, "-E", str(unit)])
        kernels = {match["kernel"]: match for match in _KERNEL.finditer(preprocessed)}
        unit.write_text(unit_text + "".join(_entry(match) for match in kernels.values()))
        _run([*compile_unit, *_COMPILE, str(unit), *_LINK, "-o", str(built)])
        os.replace(built, library)
    return library


def _digest(*parts: str) -> str:
    """Of the header, the options that it is compiled with, and what else there is."""
    recipe = "\0".join((HEADER.read_text(), *_COMMON, *_COMPILE, *parts))
    return hashlib.sha256(recipe.encode()).hexdigest()[:32]


def _header(folder: Path) -> Path:
    """A folder with the header and, beside it, what the compiler made of it: to read it takes as long as a kernel."""
    compiler, version = _compiler()
    there = folder / _digest(version)
    if not there.exists():
        with tempfile.TemporaryDirectory(dir=folder) as name:
            made = Path(name) / "header"
            made.mkdir()
            header = shutil.copy(HEADER, made)
            _run([compiler, *_COMMON, *_COMPILE, "-x", "c++-header", header, "-o", f"{header}.gch"])
            with contextlib.suppress(OSError):  # another process was faster
                made.rename(there)
    return there


def _macro(option: str) -> str:
    """``-DNAME=VALUE`` as a line behind the header, whose own names it then leaves alone."""
    name, equals, value = option.removeprefix("-D").partition("=")
    return f"#define {name} {value if equals else 1}\n"


def _entry(kernel: re.Match[str]) -> str:
    return f"EMULATION_ENTRY({kernel['kernel']}, ({kernel['before'] or kernel['after'] or 0}))\n"
