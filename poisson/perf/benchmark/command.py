# SPDX-License-Identifier: MIT
"""Whole commands, from the start of the process to its end, beside the speed of the disk."""

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import poisson
from poisson.backends.processors import processors
from poisson.errors import OutputError, PoissonError
from poisson.mesh.grid import over_slabs
from poisson.output.files import cause
from poisson.output.table import Column, Report
from poisson.perf.timing import Timing
from poisson.words import quantity

SIZES = ((129, 129), (1025, 1025), (4097, 4097), (257, 257, 257))
FIELDS = ("u", "error")
PIECE_BYTES = 1 << 23
"""The bytes that the disk is given at once."""
CACHE = "CUPY_CACHE_DIR"
"""The folder of compiled kernels, which is empty for the first command of a size."""

COLUMNS = (
    Column("size", "size"),
    Column("run", "run"),
    Column("seconds", "s", ".3f"),
    Column("lowest", "lowest", ".3f"),
    Column("highest", "highest", ".3f"),
    *(Column(part, part, ".3f") for part in ("start", "setup", "kernels", "solve", "finish", "file", "exit", "disk")),
    Column("bytes", "MB", ".1f", 1e-6),
)

DONE = re.compile(r"^done ([\d.]+)$", re.MULTILINE)
"""The line in which the command below tells when it has ended but for Python."""

PROGRAM = """
import sys, time
from poisson.__main__ import command
code = command()
print("done", time.time(), file=sys.stderr, flush=True)
sys.exit(code)
"""


def bench(
    sizes: Sequence[tuple[int, ...]], fields: Sequence[str], folder: Path, *, name: str = "auto", repeats: int = 5
) -> Report:
    """Time ``poisson solve`` of the sine on the unit square or cube, and a plain write of as many bytes.

    The commands take turns with the disk; the result of one is removed before the next. Of `repeats` commands with the
    kernels compiled the medians count.

    Raises `PoissonError` if a command fails, or the folder cannot be written.
    """
    rows: list[Mapping[str, Any]] = []
    device = ""
    try:
        with tempfile.TemporaryDirectory(dir=folder, prefix="poisson-") as place:
            for nodes in sizes:
                command = _Command(nodes, fields, Path(place).resolve(), name)
                rows.append(command.row("first", [command.measured()]))
                warm = [command.measured() for _ in range(repeats)]
                rows.append(command.row("later", warm))
                device = command.device
    except OSError as error:
        raise OutputError(f"{folder}: ", *cause(error)) from error
    return Report(
        f"whole commands on {device}",
        COLUMNS,
        tuple(rows),
        (
            "first: with no kernel compiled before; start: Python, imports, reading and checking; kernels: awaited by",
            "the solve; file, disk: with the sync; exit: after the last word; disk: a plain write of as many bytes",
            f"by as many threads; medians of {quantity(repeats, 'run')}",
        ),
    )


class _Command:
    """A command, run anew each time."""

    def __init__(self, nodes: tuple[int, ...], fields: Sequence[str], folder: Path, name: str) -> None:
        self._nodes, self._folder = nodes, folder
        self._file, self.device = folder / "result.h5", ""
        axes = "xyz"[: len(nodes)]
        wave = "*".join(f"sin(pi*{axis})" for axis in axes)
        case = folder / "case.toml"
        lines = (
            *("[equation]", f'f = "{len(axes)}*pi**2*{wave}"', f'exact = "{wave}"'),
            *("[domain]", f"shape = {list(nodes)}", f"lower = {[0.0] * len(axes)}", f"upper = {[1.0] * len(axes)}"),
            *("[boundary]", "all = { dirichlet = 0.0 }"),
            *("[output]", f'file = "{self._file.name}"', f"fields = {json.dumps(list(fields))}"),
        )
        case.write_text("\n".join(lines))
        here, path = str(Path(poisson.__file__).parents[1]), os.environ.get("PYTHONPATH")
        # One and the same for all runs of a size, and new for each size.
        self._environment = {**os.environ, CACHE: tempfile.mkdtemp(dir=folder)}
        self._environment["PYTHONPATH"] = f"{here}{os.pathsep}{path}" if path else here
        self._arguments = [sys.executable, "-c", PROGRAM, "solve", str(case), "--json", f"--backend={name}"]

    def measured(self) -> dict[str, float]:
        """The seconds of each part of one command, and of the disk after it."""
        self._file.unlink(missing_ok=True)
        start = time.time()
        done = subprocess.run(
            self._arguments, capture_output=True, text=True, env=self._environment, cwd=self._folder, check=False
        )
        end = time.time()
        if done.returncode != 0:
            lines = [line for line in done.stderr.splitlines() if not DONE.fullmatch(line)]
            raise PoissonError(f"a command ended with {done.returncode}: {lines[-1] if lines else 'without a word'}")
        said = json.loads(done.stdout)
        self.device = f"{said['backend']}: {said['device']}"
        parts = {"kernels": 0.0, **said["seconds"], "exit": end - float(DONE.findall(done.stderr)[-1])}
        count = self._file.stat().st_size
        start_up = end - start - sum(parts.values())
        return {"seconds": end - start, "start": start_up, **parts, "disk": self._disk(count), "bytes": count}

    def row(self, run: str, found: Sequence[Mapping[str, float]]) -> Mapping[str, Any]:
        """The medians of some runs."""
        keys = [column.key for column in COLUMNS[5:]]
        medians = {key: Timing.of([each[key] for each in found]).median for key in keys}
        timing = Timing.of([each["seconds"] for each in found])
        return {"size": "x".join(map(str, self._nodes)), "run": run, **timing.cells(), **medians}

    def _disk(self, count: int) -> float:
        """Seconds to write and sync as many bytes, by as many threads as write a large result."""
        piece, path = os.urandom(min(count, PIECE_BYTES)), self._folder / "plain"
        start = time.perf_counter()
        with path.open("wb", buffering=0) as file:

            def put(begin: int, end: int) -> None:
                os.pwrite(file.fileno(), piece[: end - begin], begin)

            over_slabs((count,), put, processors(), PIECE_BYTES)
            os.fsync(file.fileno())
        seconds = time.perf_counter() - start
        path.unlink()
        return seconds
