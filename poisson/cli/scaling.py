# SPDX-License-Identifier: MIT
"""The command `bench scaling`: the one measurement that several processes carry out together."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from poisson.backends.registry import backend_names
from poisson.cli.measuring import Measurement
from poisson.cli.terms import EXIT_OK, UsageError, grid_shape, one_of, some_of, whole_number
from poisson.parallel.communicator import Communicator

if TYPE_CHECKING:
    from poisson.output.table import Report


@dataclass(frozen=True)
class SharedMeasurement:
    """A measurement on several ranks, of which the first tells the report.

    `work`: called with the communicator of all ranks on every one. `counts`: numbers of ranks; empty: as many as were
    started. `json`, `csv`, `plot`: as of `Measurement`.
    """

    work: Callable[[Communicator], Report]
    counts: tuple[int, ...]
    json: bool
    csv: str | None
    plot: str | None

    @property
    def ranks(self) -> int | None:
        """How many processes are needed."""
        return max(self.counts, default=None)

    def execute(self, communicator: Communicator) -> int:
        told = Measurement(lambda: self.work(communicator), self.json, self.csv, self.plot)
        if communicator.rank == 0:
            return told.execute()
        self.work(communicator)
        return EXIT_OK


def bench_scaling(
    *,
    ranks: str | None = None,
    work: str | None = None,
    n: str | None = None,
    weak: str | None = None,
    jacobi: str | None = None,
    iterations: str | None = None,
    largest: str | None = None,
    backend: str = "auto",
    threads: str = "1",
    repeats: str = "5",
    model: bool = False,
    json: bool = False,
    csv: str | None = None,
    plot: str | None = None,
) -> SharedMeasurement:
    """Time tasks on several numbers of processes, with their exchanges.

    Usage: python -m poisson bench scaling [--ranks N,...] [--work NAME,...] [--n SIZE,...] [--backend NAME] ...

      --ranks N,...     numbers of processes, started on this machine; within mpirun some of those that it has started,
                        the last one all; by default all that were started
      --work NAMES      of laplace-fused, laplace-blocked (1000 Jacobi iterations in float32, a norm each or each pass),
                        square-fused (the same in float64), multigrid (mixed precision), fft, weak-multigrid and
                        weak-fft (a grid of equal size for each process), cg (with multigrid, mixed; a jumps by 1000),
                        largest (multigrid, the largest cube that fits); by default all, largest on a GPU only
      --n SIZES         grids of multigrid, fft and cg, separated by commas: NXxNY or NXxNYxNZ; by default 1025 x 1025 x
                        1025 nodes and 513 x 513 x 513 for cg on a GPU, else 4097x4097 and 257x257x257, 129x129x129 for
                        cg
      --weak SIZES      of weak-multigrid and weak-fft, of one process: 513x513x513, on a CPU 129x129x129
      --jacobi N        of laplace (n x n, by default 20480) and square (16384), on a CPU 4096 both
      --iterations N    of these: 1000, on a CPU 100
      --largest N       nodes along each side of the largest cube; by default as many as fit
      --backend NAME    {backends}
      --threads N,...   threads of each process on a CPU, one number for all or one for each of --ranks; 1 by default
      --repeats N       solves of each kind, 5 by default; the median counts
      --model           add the prediction of a model, for the numbers measured and for 8, 64, 1024 and 10000 processes
      --json            print the rows as JSON and nothing else
      --csv FILE        write the rows as comma-separated values
      --plot FILE       draw unknowns per second over the processes (PNG); needs matplotlib

    docs/parallel.md explains the table, docs/performance.md the model.

    Examples:
      python -m poisson bench scaling --ranks=1,2,4 --json
      python -m poisson bench scaling --ranks=1,2 --threads=2,1 --work=multigrid,fft --n=257x257x257
      mpirun -n 4 python -m poisson bench scaling --work=weak-multigrid --plot=weak.png

    Exit codes: 0 measured, 2 bad input or nothing to measure on, 130 interrupted."""
    from poisson.perf.benchmark import scaling
    from poisson.perf.benchmark.works import KINDS

    counts = _ascending("ranks", ranks)
    works = some_of("work", work, tuple(KINDS)) if work else ()
    each = tuple(whole_number("threads", part.strip()) for part in threads.split(","))
    if len(each) not in (1, len(counts)):
        raise UsageError(f"--threads {threads}; allowed: one number, or one for each entry of --ranks")
    one_of("backend", backend, backend_names())
    wanted = scaling.Wanted(
        _shapes("n", n),
        _shapes("weak", weak),
        None if jacobi is None else whole_number("jacobi", jacobi, 16),
        None if iterations is None else whole_number("iterations", iterations),
        None if largest is None else whole_number("largest", largest, 17),
    )
    solves = whole_number("repeats", repeats)

    def measure(communicator: Communicator) -> Report:
        numbers = counts or (communicator.size,)
        series = scaling.Series(
            communicator,
            wanted,
            works,
            numbers,
            each * (len(numbers) if len(each) == 1 else 1),
            backend,
            solves,
            model=model,
        )
        return series.report()

    return SharedMeasurement(measure, counts, json, csv, plot)


def _ascending(name: str, text: str | None) -> tuple[int, ...]:
    if text is None:
        return ()
    numbers = tuple(whole_number(name, part.strip()) for part in text.split(","))
    if list(numbers) != sorted(set(numbers)):
        raise UsageError(f"--{name} {text}; allowed: increasing numbers, such as 1,2,4")
    return numbers


def _shapes(name: str, text: str | None) -> tuple[tuple[int, ...], ...]:
    return tuple(grid_shape(name, part.strip(), 17) for part in text.split(",")) if text else ()
