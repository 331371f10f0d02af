# SPDX-License-Identifier: MIT
"""The Jacobi loops on published problems: each kernel of an iteration, and the whole loop, on every backend."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from poisson import backends
from poisson.backends.base import Backend
from poisson.backends.ledger import Call, counted
from poisson.discrete.discretisation import Operator
from poisson.errors import GridError, PoissonError
from poisson.output.table import Column, Report
from poisson.perf.benchmark.problems import PROBLEMS, JacobiProblem
from poisson.perf.benchmark.structured import StructuredMapping
from poisson.perf.timing import Timing, copy_bandwidth, measure_in_a_row
from poisson.perf.traffic import cost
from poisson.perf.workload import require_room
from poisson.solvers.jacobi import Jacobi
from poisson.solvers.registry import arrays_of
from poisson.solvers.settings import SolverSettings
from poisson.solvers.stopping import SolveResult, Stopping
from poisson.words import quantity

if TYPE_CHECKING:
    from matplotlib.figure import Figure

STRUCTURED = "structured"
"""Not a loop of the solver: the staged loop with its arrays mapped at every region."""
ALL_LOOPS = ("staged", STRUCTURED, "fused", "blocked")

DOCUMENT_FLOPS = 17
"""The flops that the authors of the Jacobi article count for each node and iteration, with 12 values moved."""
STRUCTURED_SHARE = 100
"""One iteration in so many is made with structured mapping."""
SLOW_UPDATES = 1e8
"""The specification, which takes a second for thirty million node updates, joins on its own up to so many."""

RUNS = 3
LONG_RUN = 10.0
"""A loop that takes longer than so many seconds runs once."""

COLUMNS = (
    Column("loop", "loop"),
    Column("kernel", "kernel"),
    Column("backend", "backend"),
    Column("calls", "calls", ".3g"),
    Column("seconds", "ms", ".4f", 1e3),
    Column("spread", "spread %", ".1f", 100.0),
    Column("share", "share %", ".1f", 100.0),
    Column("bytes_per_second", "GB/s", ".1f", 1e-9),
    Column("of_yardstick", "% of yardstick", ".1f", 100.0),
    Column("iterations", "iterations"),
    Column("wall_seconds", "wall s", ".4f"),
    Column("updates_per_second", "Mupdates/s", ".0f", 1e-6),
    Column("flops_per_second", "GFLOP/s", ".1f", 1e-9),
    Column("document_flops_per_second", "GFLOP/s at 17", ".1f", 1e-9),
    Column("norm", "last norm", ".6e"),
)
ITERATION = "whole iteration"
"""The entry in the column of kernels in the row of a whole loop."""


@dataclass(frozen=True)
class LoopKernel:
    """An operation in a loop: how often it runs in an iteration, and the seconds of one call."""

    call: Call
    calls: float
    timing: Timing

    @property
    def seconds(self) -> float:
        """Its part of an iteration, in seconds."""
        return self.calls * self.timing.median


@dataclass(frozen=True)
class Loop:
    """A loop on a backend: the kernels of an iteration, and the wall time of those made, which is scaled to all.

    `bandwidth` is that of the memory in B/s, `norm` the last residual norm that was read in U/L²; the arrays of a loop
    that is `mapped` were mapped to a device at every region.
    """

    loop: str
    backend: str
    kernels: Sequence[LoopKernel]
    wall: Timing
    made: int
    iterations: int
    unknowns: int
    bandwidth: float
    norm: float
    mapped: bool = False

    @property
    def wall_seconds(self) -> float:
        """Wall time of all iterations, in seconds."""
        return self.wall.median / self.made * self.iterations

    def rows(self) -> list[dict[str, Any]]:
        """The rows of the report: one for each kernel, and one for the loop."""
        total = sum(kernel.seconds for kernel in self.kernels)
        costs = [(kernel.calls, cost(kernel.call)) for kernel in self.kernels]
        rows = [
            {
                "kernel": kernel.call.label,
                "calls": kernel.calls,
                "share": kernel.seconds / total,
                **self._rates(kernel.timing, needed.bytes, needed.flops),
            }
            for kernel, (_, needed) in zip(self.kernels, costs, strict=True)
        ]
        iteration = self.wall.over(self.made)
        updates = self.unknowns / iteration.median
        moved, flops = (sum(calls * getattr(needed, what) for calls, needed in costs) for what in ("bytes", "flops"))
        rows.append(
            {
                "kernel": ITERATION,
                **self._rates(iteration, moved, flops),
                "iterations": self.made,
                "wall_seconds": self.wall_seconds,
                "updates_per_second": updates,
                "document_flops_per_second": DOCUMENT_FLOPS * updates,
                "norm": self.norm,
            }
        )
        return [{"loop": self.loop, "backend": self.backend} | row for row in rows]

    def _rates(self, timing: Timing, moved: float, flops: float) -> dict[str, float | None]:
        rate = moved / timing.median
        return {
            "seconds": timing.median,
            # A single run has none.
            "spread": timing.spread or None,
            "bytes_per_second": rate,
            "of_yardstick": rate / self.bandwidth,
            "flops_per_second": flops / timing.median,
        }


def bench(
    problem: str = "heated_square",
    *,
    n: int | None = None,
    iterations: int = 1000,
    names: Sequence[str] = (),
    precision: str | None = None,
    loops: Sequence[str] = ALL_LOOPS,
    check_every: int | None = None,
    threads: int = 0,
) -> Report:
    """Time the loops of the Jacobi method, kernel by kernel and as a whole, with a tolerance of zero.

    The size and the real type of a problem are by default those of its authors; the backends `names` all that are
    available, the specification only where it does not take long; `check_every`, the iterations between two reads of
    the norm, 1, and in the blocked loop one block.

    Raises `PoissonError` if a backend does not run here or has none of the loops, `n` is too small, or the arrays do
    not fit.
    """
    published = PROBLEMS[problem]
    n = published.n if n is None else n
    if n < published.least:
        raise GridError(f"n = {n}: the problem {problem} needs at least {published.least}")
    dtype = np.dtype(precision or published.precision)
    operator = published.operator(n)
    arrays = arrays_of(SolverSettings(method="jacobi").having(loop="staged"), "float64", operator.dimension)
    runs: list[Loop] = []
    devices = []
    for backend in _backends(names, dtype, threads, operator.unknowns * iterations):
        require_room(backend, arrays * math.prod(operator.shape), f"the arrays of n = {n}", "a smaller --n")
        bandwidth = copy_bandwidth(backend)
        devices.append(f"{backend.name}: {backend.device}; copy {bandwidth / 1e9:.1f} GB/s")
        for loop in loops:
            if loop == STRUCTURED:
                if backend.probe().maps_arrays:
                    runs.append(_structured(backend, published, operator, iterations, bandwidth))
            else:
                every = check_every or (backend.bind(operator).depth() if loop == "blocked" else 1)
                stopping = Stopping(rtol=0.0, max_iterations=iterations, check_every=every)
                runs.append(_loop(backend, published, operator, loop, stopping, bandwidth))
    if not runs:
        raise PoissonError("only the openmp backend has the loop structured: add --backend=openmp, or another loop")
    return Report(
        f"Jacobi, {published.title}: n = {n}, {dtype}, {quantity(iterations, 'iteration')}",
        COLUMNS,
        tuple(_side_by_side(runs)),
        (*devices, *_notes(runs)),
        lambda figure: _draw(figure, runs),
    )


def _backends(names: Sequence[str], dtype: np.dtype[Any], threads: int, updates: float) -> Iterable[Backend]:
    """The backends one after the other, so that the arrays of one are released before the next."""
    if not names:
        available = [info.name for info in backends.describe() if info.available]
        fast = [name for name in available if name != "numpy" or updates <= SLOW_UPDATES]
        names = fast or available
    for name in names:
        yield backends.create(name, dtype, threads)


def _loop(
    backend: Backend, problem: JacobiProblem, operator: Operator, loop: str, stopping: Stopping, bandwidth: float
) -> Loop:
    f = backend.empty(operator.array_shape)
    backend.fill(f, 0.0)

    def solve(on: Backend, limit: int) -> tuple[float, SolveResult]:
        u = problem.start(backend, operator)
        until = Stopping(rtol=0.0, max_iterations=limit, check_every=stopping.check_every)
        backend.synchronize()
        start = time.perf_counter()
        result = Jacobi(on.bind(operator), 1.0, loop).solve(u, f, stopping=until)
        backend.synchronize()
        return time.perf_counter() - start, result

    # The first of these compiles and allocates, too.
    kernels = _kernels(backend, stopping.check_every, solve)
    times: list[float] = []
    while len(times) < RUNS and sum(times) < LONG_RUN:
        seconds, result = solve(backend, stopping.max_iterations)
        times.append(seconds)
    made, norm = result.iterations, result.history[-1][1]
    unknowns = operator.unknowns
    return Loop(loop, backend.name, kernels, Timing.of(times), made, made, unknowns, bandwidth, norm)


def _kernels(
    backend: Backend, period: int, solve: Callable[[Backend, int], tuple[float, SolveResult]]
) -> list[LoopKernel]:
    """The kernels between two reads of the norm: those that a loop of three such periods runs beyond a loop of two."""
    counts = []
    for periods in (2, 3):
        counting, ledger = counted(backend)
        solve(counting, periods * period)
        counts.append(ledger.counts)
    between = counts[1] - counts[0]
    kernels = [
        LoopKernel(call, count / period, measure_in_a_row(backend, ledger.samples[call]))
        for call, count in between.items()
    ]
    return sorted(kernels, key=lambda kernel: -kernel.seconds)


def _structured(
    backend: Backend, problem: JacobiProblem, operator: Operator, iterations: int, bandwidth: float
) -> Loop:
    u = np.ascontiguousarray(problem.values(np, operator, 0, operator.array_shape[0]), dtype=backend.dtype)
    mapping = StructuredMapping(operator, u, np.zeros_like(u), backend.threads)
    made = max(1, iterations // STRUCTURED_SHARE)
    stages = mapping.stages()
    for stage in stages.values():
        stage()
    u[...] = problem.values(np, operator, 0, operator.array_shape[0])
    seconds: dict[str, list[float]] = {name: [] for name in stages}
    for _ in range(made):
        for name, stage in stages.items():
            start = time.perf_counter()
            stage()
            seconds[name].append(time.perf_counter() - start)
    calls = {name: Call(name, operator, u.size, u.itemsize) for name in stages}
    kernels = [LoopKernel(calls[name], 1.0, Timing.of(times)) for name, times in seconds.items()]
    kernels.sort(key=lambda kernel: -kernel.seconds)
    wall = Timing.of([sum(sum(times) for times in seconds.values())])
    norm = Stopping().measure(operator, (mapping.norms[0], mapping.norms[1]))
    name = f"{STRUCTURED} mapping"
    unknowns = operator.unknowns
    return Loop(name, backend.name, kernels, wall, made, iterations, unknowns, bandwidth, norm, mapping.maps)


def _side_by_side(runs: Sequence[Loop]) -> Iterable[Mapping[str, Any]]:
    """The rows of all runs: the same kernel of the same loop on one backend below the other."""
    rows = [row for run in runs for row in run.rows()]
    loops = list(dict.fromkeys(row["loop"] for row in rows))
    kernels = list(dict.fromkeys(row["kernel"] for row in rows))
    # The whole iteration stands behind the kernels of its loop.
    kernels.sort(key=lambda kernel: kernel == ITERATION)
    return sorted(rows, key=lambda row: (loops.index(row["loop"]), kernels.index(row["kernel"])))


def _notes(runs: Sequence[Loop]) -> list[str]:
    notes = [
        "ms: median of a call (for the whole loop: of an iteration); share: of the kernels' time in an "
        "iteration; bytes and flops as in poisson/perf/traffic.py",
        f"GFLOP/s at {DOCUMENT_FLOPS}: with {DOCUMENT_FLOPS} flops a node and iteration, as the Jacobi article counts",
    ]
    staged = {run.backend: run.wall_seconds for run in runs if run.loop == "staged"}
    for run in runs:
        if run.made != run.iterations:
            notes.append(
                f"{run.loop}: {run.made} of {quantity(run.iterations, 'iteration')} made; the wall "
                "time is scaled to all"
            )
        if run.loop.startswith(STRUCTURED) and run.backend in staged:
            ratio = run.wall_seconds / staged[run.backend]
            what = "the article: 46" if run.mapped else "threads of the host map no arrays, as a device would"
            notes.append(f"{run.loop}: {ratio:.3g} times the wall time of the staged loop ({what})")
    return notes


def _draw(figure: Figure, runs: Sequence[Loop]) -> None:
    """The time of an iteration: the kernels of each loop in a bar, the whole loop as a mark.

    Structured mapping on a device would leave no room for the others.
    """
    axes = figure.add_subplot()
    shown = [run for run in runs if not run.mapped] or runs
    left = [0.0] * len(shown)
    for label in dict.fromkeys(kernel.call.label for run in shown for kernel in run.kernels):
        widths = [1e3 * sum(kernel.seconds for kernel in run.kernels if kernel.call.label == label) for run in shown]
        axes.barh(range(len(shown)), widths, left=left, label=label)
        left = [start + width for start, width in zip(left, widths, strict=True)]
    wall = [1e3 * run.wall.median / run.made for run in shown]
    axes.plot(wall, range(len(shown)), "k|", markersize=14, label="wall time")
    axes.set_yticks(range(len(shown)), [f"{run.loop}\n{run.backend}" for run in shown])
    axes.invert_yaxis()
    axes.set_xlabel("ms per iteration")
    axes.legend(fontsize="small")
