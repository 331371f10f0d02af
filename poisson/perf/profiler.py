# SPDX-License-Identifier: MIT
"""Counters of the memory system from the vendors' profilers: ncu of NVIDIA and rocprofv3 of AMD.

A profiler runs a command of its own, which launches the kernels of this package that are to be looked at; it leaves a
file of comma-separated values with one row for each launch and counter.
"""

import csv
import shutil
import subprocess
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from poisson.errors import PoissonError

TIMEOUT_SECONDS = 300.0

_BYTES = MappingProxyType({"byte": 1.0, "Kbyte": 1e3, "Mbyte": 1e6, "Gbyte": 1e9, "Tbyte": 1e12})


class ProfilerError(PoissonError):
    """There is no profiler here, or it gives no counters."""


@dataclass(frozen=True)
class Counters:
    """The memory traffic of the launches of a command: bytes from and to the device's memory, and the mean over the
    launches of the accesses that the L2 cache served, in percent.
    """

    fetched: float
    written: float
    l2_hits: float


@dataclass(frozen=True)
class _Tool:
    """A profiler: its program, the counters for the fields of `Counters`, and the columns of its file."""

    program: str
    install: str
    counters: Mapping[str, str]
    kernel: str
    counter: str
    unit: str | None
    value: str


NCU = _Tool(
    program="ncu",
    install="install Nsight Compute, which is part of the CUDA toolkit",
    counters={
        "fetched": "dram__bytes_read.sum",
        "written": "dram__bytes_write.sum",
        "l2_hits": "lts__t_sector_hit_rate.pct",
    },
    kernel="Kernel Name",
    counter="Metric Name",
    unit="Metric Unit",
    value="Metric Value",
)
ROCPROF = _Tool(
    program="rocprofv3",
    install="install rocprofiler-sdk, which is part of ROCm",
    counters={"fetched": "FETCH_SIZE", "written": "WRITE_SIZE", "l2_hits": "L2CacheHit"},
    kernel="Kernel_Name",
    counter="Counter_Name",
    unit=None,
    value="Counter_Value",
)
_ROCPROF_BYTES = 1024.0
"""FETCH_SIZE and WRITE_SIZE count kilobytes."""


def profile(command: Sequence[str], architecture: str) -> Counters:
    """Run a command that launches the kernels to be looked at once under the profiler of a device's vendor.

    Raises `ProfilerError` if there is no profiler, it fails, or its file lacks the counters; one line says why.
    """
    tool = ROCPROF if architecture.startswith("gfx") else NCU
    if shutil.which(tool.program) is None:
        raise ProfilerError(f"no counters: {tool.program} is not on PATH; {tool.install}")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for line in _lines(tool, command, folder):
            _run(tool, line, folder)
        texts = [path.read_text("utf-8", "replace") for path in sorted(folder.rglob("*.csv"))]
    return parse(tool, texts)


def _lines(tool: _Tool, command: Sequence[str], folder: Path) -> Iterator[list[str]]:
    """The command lines of the profiler."""
    if tool is NCU:
        yield [
            *(tool.program, "--csv", "--print-units", "base", "--clock-control", "none", "--target-processes", "all"),
            *("--kernel-name-base", "function", "--kernel-name", "regex:^poisson_"),
            *("--metrics", ",".join(tool.counters.values()), "--log-file", str(folder / "counters.csv"), *command),
        ]
        return
    for counter in tool.counters.values():
        # A run each, because the counters need not fit into one pass of the hardware.
        yield [
            *(tool.program, "--pmc", counter, "--kernel-include-regex", "poisson_", "--output-format", "csv"),
            *("-d", str(folder), "-o", counter, "--", *command),
        ]


def _run(tool: _Tool, line: Sequence[str], folder: Path) -> None:
    try:
        done = subprocess.run(line, capture_output=True, text=True, timeout=TIMEOUT_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        raise ProfilerError(f"no counters: {tool.program} took more than {TIMEOUT_SECONDS:.0f} s") from None
    except OSError as error:
        raise ProfilerError(f"no counters: {tool.program} does not start ({error})") from error
    if done.returncode != 0:
        logs = [path.read_text("utf-8", "replace") for path in sorted(folder.rglob("*.csv"))]
        said = [text.strip() for text in "\n".join([done.stderr, done.stdout, *logs]).splitlines() if text.strip()]
        wrong = [text for text in said if "error" in text.lower()] or said[-1:] or [f"exit code {done.returncode}"]
        raise ProfilerError(f"no counters: {tool.program} failed: {wrong[0]}")


def parse(tool: _Tool, texts: Sequence[str]) -> Counters:
    """The counters in the files of a profiler.

    Each file may begin with other lines; the table begins with the one that names its columns.

    Raises `ProfilerError` if a counter is missing.
    """
    found: dict[str, list[float]] = defaultdict(list)
    for text in texts:
        for row in _rows(tool, text):
            value = _number(row[tool.value])
            if (row[tool.kernel] or "").startswith("poisson_") and value is not None:
                unit = row[tool.unit] if tool.unit else ""
                found[row[tool.counter]].append(value * _BYTES.get(unit, 1.0))
    missing = [counter for counter in tool.counters.values() if not found[counter]]
    if missing:
        raise ProfilerError(
            f"no counters: {tool.program} gave no {missing[0]}; it may need permission to read counters"
        )
    scale = 1.0 if tool is NCU else _ROCPROF_BYTES
    fetched, written, hits = (found[tool.counters[field]] for field in ("fetched", "written", "l2_hits"))
    return Counters(scale * sum(fetched), scale * sum(written), sum(hits) / len(hits))


def _rows(tool: _Tool, text: str) -> Iterator[dict[str, str]]:
    lines = text.splitlines()
    columns = {tool.kernel, tool.counter, tool.value} | ({tool.unit} if tool.unit else set())
    for number, line in enumerate(lines):
        if columns <= set(next(csv.reader([line]), [])):
            rest = csv.DictReader(lines[number:], restval="")
            yield from (row for row in rest if row[tool.value])
            return


def _number(text: str) -> float | None:
    """A number that may group its digits by commas; None for what is none, such as ``n/a``."""
    try:
        return float(text.replace(",", ""))
    except ValueError:
        return None
