# SPDX-License-Identifier: MIT
"""The cost of a call of a solver beside its loop: from the caller's arrays to the caller's arrays."""

import statistics
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from poisson.errors import CheckWarning, PoissonError
from poisson.mac import Projector
from poisson.output.table import Column, Report
from poisson.perf.benchmark.problem_kinds import PROBLEMS, require_problem
from poisson.perf.timing import Timing
from poisson.problem.problem import Problem
from poisson.run.solver import Solver
from poisson.words import quantity

METHODS = ("fft", "multigrid", *PROBLEMS, "projector")
"""The last is a projection of velocities on as many cells, whose solve is `fft`."""
DEFAULT_METHODS = METHODS[:2]
SIZES = ((129, 129), (1025, 1025), (4097, 4097), (257, 257, 257))
MANY = 16
"""Sources that are solved for together."""
MOST_OF_MANY = 1 << 18
"""Nodes of a grid, at most, on which many sources are."""
SHORT = 0.2
"""Short calls are repeated for so many seconds, ..."""
MOST_CALLS = 1000
"""... but not more often than this."""

COLUMNS = (
    Column("size", "size"),
    Column("method", "method"),
    Column("call", "call"),
    Column("seconds", "ms", ".3f", 1e3),
    Column("lowest", "lowest", ".3f", 1e3),
    Column("highest", "highest", ".3f", 1e3),
    Column("of_loop", "of loop", ".2f"),
    Column("peak", "peak MB", ".0f", 1e-6),
)


def bench(
    sizes: Sequence[tuple[int, ...]], methods: Sequence[str], *, name: str = "auto", threads: int = 0, repeats: int = 7
) -> Report:
    """Time calls with sources that are arrays of NumPy, and on a GPU also of CuPy: of each kind at least `repeats`.

    Raises `PoissonError` if the backend does not run here, a grid has no such problem, its arrays do not fit, or a
    solve does not converge.
    """
    rows: list[Mapping[str, Any]] = []
    device = ""
    for nodes, method in product(sizes, methods):
        require_problem(method, nodes)
    for nodes, method in product(sizes, methods):
        calls = _Calls(nodes, method, name, threads, repeats)
        rows += calls.rows()
        device = f"{calls.solver.backend.name}: {calls.solver.backend.device}"
    return Report(
        f"calls of a solver on {device}",
        COLUMNS,
        tuple(rows),
        (
            "first: a new solver's set-up and first call; loop: the solver's loop within a call; call: solve(f); "
            "out: solve(f, out=u);",
            f"many: solve_many of {MANY} sources; peak: the largest memory of the process, f and u included; "
            f"medians of {quantity(repeats, 'call')} or more",
        ),
    )


class _Calls:
    """A solver with a source for it."""

    def __init__(self, nodes: tuple[int, ...], method: str, name: str, threads: int, repeats: int) -> None:
        self._nodes, self._method, self._repeats = nodes, method, repeats
        self._velocity: tuple[Any, ...] = ()
        self._f = np.random.default_rng(1).standard_normal(nodes[::-1])
        start = time.perf_counter()
        self._projector = None
        settings: dict[str, Any] = {"backend": name, "threads": threads}
        if method == "projector":
            self._projector = Projector(nodes, {"x_upper": "outflow", "all": "wall"}, method="fft", **settings)
            self._velocity = self._projector.velocity()
            self.solver = self._projector.solver
        else:
            if method not in PROBLEMS:
                settings["method"] = method
            problem = PROBLEMS.get(method, Problem.on_box)(nodes)
            self.solver = Solver(problem, **settings)
        with warnings.catch_warnings():
            # The source is noise, which no grid resolves.
            warnings.simplefilter("ignore", CheckWarning)
            self._solved()
        self._first = time.perf_counter() - start

    def rows(self) -> Iterator[Mapping[str, Any]]:
        """The measurements."""
        clear_peak()
        loops: list[float] = []
        calls = self._times(lambda: loops.append(self._solved()))
        peak = peak_bytes()
        loop = statistics.median(loops)
        yield self._row("loop", loops, loop, None)
        yield self._row("call", calls, loop, peak)
        out = np.empty(self._nodes[::-1])
        yield self._row("out", self._times(lambda: self._solved(out=out)), loop, None)
        yield self._row("first", [self._first], loop, None)
        xp = self.solver.backend.array_module
        if xp is not np:
            there = xp.asarray(self._f)
            self._velocity = tuple(map(xp.asarray, self._velocity))
            yield self._row("on the device", self._times(lambda: self._solved(there)), loop, None)
        if self._f.size <= MOST_OF_MANY and self._projector is None:
            sources = np.stack([self._f] * MANY)
            yield self._row("many", self._times(lambda: self.solver.solve_many(sources)), loop, None)

    def _solved(self, f: Any = None, out: Any = None) -> float:
        """Solve; returns the time of the loop."""
        if self._projector is not None:
            self._velocity[0][(0,) * (self._f.ndim - 1)][1] += 1.0  # between two cells
            solution = self._projector.project(self._velocity, out=out)
        else:
            solution = self.solver.solve(self._f if f is None else f, out=out)
        if not solution.status.success:
            raise PoissonError(f"a solve ended as {solution.status.value}: {solution.advice}")
        return solution.times["solve"]

    def _times(self, call: Callable[[], object]) -> list[float]:
        seconds: list[float] = []
        call()
        while len(seconds) < self._repeats or (sum(seconds) < SHORT and len(seconds) < MOST_CALLS):
            start = time.perf_counter()
            call()
            seconds.append(time.perf_counter() - start)
        return seconds

    def _row(self, call: str, seconds: Sequence[float], loop: float, peak: int | None) -> Mapping[str, Any]:
        timing, size = Timing.of(seconds), "x".join(map(str, self._nodes))
        of_loop = timing.median / loop
        return {"size": size, "method": self._method, "call": call, **timing.cells(), "of_loop": of_loop, "peak": peak}


def clear_peak(process: Path = Path("/proc/self")) -> None:
    """Have the system forget the largest memory that this process had, where it can."""
    with suppress(OSError):
        (process / "clear_refs").write_text("5")


def peak_bytes(process: Path = Path("/proc/self")) -> int | None:
    """The largest memory that this process had, since `clear_peak` if that works; None if nothing tells it."""
    try:
        lines = (process / "status").read_text().splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:")), None)
