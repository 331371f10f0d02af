# SPDX-License-Identifier: MIT
"""The choice among libraries, one for each instruction set; and the library for a GPU compiles."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from poisson.backends.openmp import library
from poisson.backends.openmp.levels import LEVELS, levels

SMALLEST = "fpu lm sse sse2"
NEHALEM = f"{SMALLEST} cx16 lahf_lm popcnt pni ssse3 sse4_1 sse4_2"
HASWELL = f"{NEHALEM} avx avx2 bmi1 bmi2 f16c fma abm movbe xsave"
SKYLAKE = f"{HASWELL} avx512f avx512bw avx512cd avx512dq avx512vl"
ALL = tuple(LEVELS)
ROOT = Path(__file__).resolve().parents[2]


def table(folder: Path, flags: str) -> Path:
    path = folder / "cpuinfo"
    path.write_text(f"processor\t: 0\nflags\t\t: {flags}\nbugs\t\t: none\n\nprocessor\t: 1\nflags\t\t: lm\n")
    return path


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        (SKYLAKE, ALL),
        (SKYLAKE.replace("avx512dq", ""), ALL[1:]),
        (HASWELL, ALL[1:]),
        (HASWELL.replace(" fma", ""), ALL[2:]),
        (NEHALEM, ALL[2:]),
        (SMALLEST, ALL[3:]),
        ("fpu sse", ()),
    ],
)
def test_the_levels_of_a_processor(tmp_path: Path, flags: str, expected: tuple[str, ...]) -> None:
    assert levels.__wrapped__(table(tmp_path, flags)) == expected


def test_a_processor_that_linux_tells_nothing_of(tmp_path: Path) -> None:
    assert levels.__wrapped__(tmp_path / "missing") == ()
    (tmp_path / "arm").write_text("processor\t: 0\nFeatures\t: fp asimd\n")
    assert levels.__wrapped__(tmp_path / "arm") == ()


def test_the_best_library_is_taken_and_one_for_this_machine_before_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(library.LIBRARY_VARIABLE, raising=False)
    monkeypatch.setattr(library, "__file__", str(tmp_path / "library.py"))
    monkeypatch.setattr(library, "DISTRIBUTION", "no-such-package")
    monkeypatch.setattr(library, "levels", lambda: ("x86-64-v3", "x86-64-v2", "x86-64"))
    assert library.library_path() is None
    for name in ("libpoisson_x86-64-v4.so", "libpoisson_x86-64.so", "libpoisson_x86-64-v3.so", "libpoisson.so"):
        (tmp_path / name).touch()
        expected = None if name.endswith("v4.so") else tmp_path / name
        assert library.library_path() == expected


def test_the_library_of_measurements_is_that_of_the_same_level(tmp_path: Path) -> None:
    for name, expected in (
        ("libpoisson.so", "libpoisson_studies.so"),
        ("libpoisson_x86-64-v3.so", "libpoisson_studies_x86-64-v3.so"),
        ("another.so", "libpoisson_studies.so"),
    ):
        assert library.studies_path(tmp_path / name) == tmp_path / expected


def test_the_sources_of_a_library_for_a_gpu_are_right() -> None:
    """To any compiler of OpenMP; what a target region may do there, those for GPUs alone know."""
    native = ROOT / "native"
    lists = (native / "CMakeLists.txt").read_text()
    of_host = re.findall(
        r"\w+/\w+\.cpp", lists[lists.index("set(of_host") : lists.index("endif()", lists.index("set(of_host"))]
    )
    sources = [path for path in re.findall(r"\w+/\w+\.cpp", lists) if path not in of_host and "studies" not in path]
    assert {"operator/stencil.cpp", "core/memory.cpp"} < set(sources)
    options = ["-std=c++17", "-fopenmp", "-w", f"-I{native}", f"-I{ROOT / 'poisson' / 'kernels'}"]
    options += ["-DPOISSON_OFFLOAD", '-DPOISSON_OFFLOAD_NAME="none"', '-DPOISSON_COMPILER="any"']
    compiler = shutil.which("g++") or pytest.skip("needs g++")
    found = [
        subprocess.run(
            [compiler, "-fsyntax-only", *options, native / path], capture_output=True, text=True, check=False
        )
        for path in dict.fromkeys(sources)
    ]
    assert [each.stderr for each in found if each.returncode] == []
