# SPDX-License-Identifier: MIT
"""Measurements of a work on several ranks, solve by solve, so that several numbers of ranks can take turns."""

from collections.abc import Mapping
from dataclasses import dataclass
from time import perf_counter
from typing import Any

from poisson.backends.base import Backend
from poisson.output.table import Column
from poisson.parallel.communicator import Communicator
from poisson.perf.benchmark.tally import Sent
from poisson.perf.benchmark.works import Work, WorkOfRank
from poisson.perf.network import Expected
from poisson.perf.timing import Timing

LONG = 20.0
"""A work that has taken so many seconds in all is not repeated further, once it was three times."""
BELOW_REPEATS = 7

COLUMNS = (
    Column("work", "work"),
    Column("size", "size"),
    Column("ranks", "ranks"),
    Column("threads", "threads"),
    Column("blocks", "blocks"),
    Column("iterations", "iterations"),
    Column("seconds", "ms", ".4g", 1e3),
    Column("lowest", "lowest", ".4g", 1e3),
    Column("highest", "highest", ".4g", 1e3),
    Column("speedup", "times faster", ".2f"),
    Column("efficiency", "efficiency", ".3f"),
    Column("exchanges", "exchanges"),
    Column("bytes", "MB sent", ".4g", 1e-6),
    Column("below", "% gathered", ".1f", 100.0),
    Column("unknowns_per_second", "Munknowns/s", ".4g", 1e-6),
)
OF_MODEL = (Column("expected", "expected", ".4g", 1e3), Column("expected_exchanged", "% exchanged", ".1f", 100.0))


@dataclass(frozen=True)
class MeasuredWork:
    """A work on so many ranks with so many threads each, and on how many nodes and blocks of them along x, y(, z).

    `timing` is that of a solve, of the slowest rank each time, `sent` what the rank that sends most has sent in one,
    and `below` the part of its time that the grids take that every rank has all of.
    """

    work: Work
    ranks: int
    threads: int
    shape: tuple[int, ...]
    blocks: tuple[int, ...]
    unknowns: int
    iterations: int
    timing: Timing
    sent: Sent
    below: float | None

    def row(self, base: "MeasuredWork", on_host: bool, model: Expected | None) -> Mapping[str, Any]:
        """The row of the report; `base` is the same work on the fewest ranks."""
        rate = self.unknowns / self.timing.median
        speedup = rate / (base.unknowns / base.timing.median)
        if self.work.kind.published:
            rate *= self.iterations
        # On the host more threads are more processors, too.
        workers, of_base = (each.ranks * (each.threads if on_host else 1) for each in (self, base))
        alone = base is self and self.ranks > 1
        return {
            "work": self.work.name,
            "size": "x".join(map(str, self.shape)),
            "ranks": self.ranks,
            "threads": self.threads if on_host else None,
            "blocks": "x".join(map(str, self.blocks)),
            "iterations": self.iterations,
            **self.timing.cells(),
            "speedup": None if alone else speedup,
            "efficiency": None if alone else speedup * of_base / workers,
            "exchanges": self.sent.exchanges,
            "bytes": self.sent.bytes,
            "below": self.below,
            "unknowns_per_second": rate,
            **of_model(model, self.iterations),
        }


def of_model(found: Expected | None, iterations: int) -> dict[str, float]:
    """The cells of what the model expects of so many iterations."""
    if found is None:
        return {}
    return {"expected": iterations * found.seconds, "expected_exchanged": found.exchanged}


class Turns:
    """A work on the ranks of a communicator, solved again and again. All these ranks make it, and call it, together."""

    def __init__(self, work: Work, backend: Backend, communicator: Communicator, threads: int) -> None:
        self._work, self._backend, self._communicator, self._threads = work, backend, communicator, threads
        self._share = WorkOfRank(work, backend, communicator)
        self._seconds: list[float] = []
        self._sent = Sent()
        # The first solve compiles, records and allocates.
        self._share.begin()
        self._iterations = self._share.solve().iterations

    def enough(self, repeats: int) -> bool:
        """Whether there have been so many solves, or fewer that took long."""
        count = len(self._seconds)
        return count >= repeats or (count >= min(3, repeats) and sum(self._seconds) >= LONG)

    def take(self) -> None:
        """Solve once more."""
        share, communicator = self._share, self._communicator
        share.begin()
        communicator.barrier()
        before, start = share.tally.sent, perf_counter()
        self._iterations = share.solve().iterations
        elapsed = perf_counter() - start
        self._sent = share.tally.sent - before
        self._seconds.append(max(each for (each,) in communicator.allgather([elapsed])))

    def measured(self) -> MeasuredWork:
        """The measurements; every rank gets the same numbers."""
        share, communicator, sent = self._share, self._communicator, self._sent
        every = communicator.allgather([sent.exchanges, sent.bytes, sent.sums])
        timing = Timing.of(self._seconds)
        below = None
        if cycle := share.below():
            communicator.barrier()
            cycles = [self._backend.seconds(cycle) for _ in range(BELOW_REPEATS)]
            longest = max(each for (each,) in communicator.allgather([Timing.of(cycles).median]))
            below = longest * self._iterations / timing.median
        return MeasuredWork(
            self._work,
            communicator.size,
            self._threads,
            share.operator.lattice.whole.shape,
            share.blocks,
            share.operator.unknowns,
            self._iterations,
            timing,
            Sent(*(int(max(column)) for column in zip(*every, strict=True))),
            below,
        )


def measure(work: Work, backend: Backend, communicator: Communicator, threads: int, repeats: int) -> MeasuredWork:
    """Time a work on the ranks of a communicator, which all call this; see `Turns`."""
    turns = Turns(work, backend, communicator, threads)
    while not turns.enough(repeats):
        turns.take()
    return turns.measured()
