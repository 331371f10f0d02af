# SPDX-License-Identifier: MIT
"""The choice between several builds of the OpenMP library: a wheel has one for each of a few kinds of processors."""

from functools import cache
from pathlib import Path

PROCESSOR = Path("/proc/cpuinfo")

_V2 = frozenset({"cx16", "lahf_lm", "popcnt", "pni", "ssse3", "sse4_1", "sse4_2"})
_V3 = _V2 | {"avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "abm", "movbe", "xsave"}
_V4 = _V3 | {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"}
LEVELS = {"x86-64-v4": _V4, "x86-64-v3": _V3, "x86-64-v2": _V2, "x86-64": frozenset[str]()}
"""The levels of the x86-64 psABI, the best first, by what Linux calls the instructions that each has."""


@cache
def levels(table: Path = PROCESSOR) -> tuple[str, ...]:
    """The instruction sets that the processor has and the system saves, the best first.

    None where the system does not tell, or the processor is of another kind.
    """
    try:
        lines = table.read_text().splitlines()
    except OSError:
        return ()
    flags = next((set(line.partition(":")[2].split()) for line in lines if line.startswith("flags")), None)
    if flags is None or "lm" not in flags:
        return ()
    return tuple(level for level, needed in LEVELS.items() if needed <= flags)
