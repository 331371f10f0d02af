# SPDX-License-Identifier: MIT
"""How a time is measured: on the device, with the median and the spread, and the copy bandwidth beside it."""

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from poisson.backends.base import Backend

REPEATS = 7
LEAST_SECONDS = 0.02
"""A measurement repeats its call until it takes about so long, so that the clock's own cost does not count."""
MOST_CALLS = 200
SHORT_SECONDS, MOST_IN_A_ROW = 2e-3, 32
"""A call that is shorter is timed in a row of up to so many, which take about so long."""
STREAM_VALUES = 1 << 27
"""Values of float64 in an array that the memory bandwidth is measured on: a gigabyte, which no cache holds."""


@dataclass(frozen=True)
class Timing:
    """The times of one call in several measurements, in seconds: the median, the shortest and the longest."""

    median: float
    low: float
    high: float

    @staticmethod
    def of(seconds: Sequence[float]) -> "Timing":
        """The timing that a list of times amounts to."""
        return Timing(statistics.median(seconds), min(seconds), max(seconds))

    def over(self, count: int) -> "Timing":
        """The timing of one of `count` equal parts."""
        return Timing(self.median / count, self.low / count, self.high / count)

    def cells(self) -> dict[str, float]:
        """The cells of a row of a report."""
        return {"seconds": self.median, "lowest": self.low, "highest": self.high}

    @property
    def spread(self) -> float:
        """The longest less the shortest, over the median."""
        return (self.high - self.low) / self.median


def stopwatch(backend: Backend, call: Callable[[], None]) -> Callable[[], float]:
    """A function that measures a call: seconds of one, from as many in a row as hide the cost of measuring.

    The call runs once before, so that nothing is compiled or allocated while it is measured.
    """
    call()
    once = backend.seconds(call)
    calls = max(1, min(MOST_CALLS, round(LEAST_SECONDS / max(once, 1e-9))))

    def in_a_row() -> None:
        for _ in range(calls):
            call()

    return lambda: backend.seconds(in_a_row) / calls


def measure(backend: Backend, call: Callable[[], None], repeats: int = REPEATS) -> Timing:
    """Time a call that asks a backend for operations without waiting; on a GPU between two events on the device."""
    watch = stopwatch(backend, call)
    return Timing.of([watch() for _ in range(repeats)])


def in_a_row(backend: Backend, call: Callable[[], None]) -> tuple[Callable[[], None], int]:
    """A short call repeated, as one graph where the runtime has graphs, and how often: as it runs in a loop.

    What starting a kernel costs then shows no more than it does in a graph of many.
    """
    call()
    count = max(1, min(MOST_IN_A_ROW, round(SHORT_SECONDS / max(backend.seconds(call), 1e-9))))

    def row() -> None:
        for _ in range(count):
            call()

    return backend.capture(row), count


def measure_in_a_row(backend: Backend, call: Callable[[], None]) -> Timing:
    """Time a call as one of `in_a_row`."""
    row, count = in_a_row(backend, call)
    return measure(backend, row).over(count)


def copy_bandwidth(backend: Backend, values: int | None = None) -> float:
    """Bytes a second, read and written together, that memory allows on arrays of so many values: see `Probe.stream`."""
    call, moved = backend.probe().stream(values or stream_values(backend))
    return moved / measure(backend, call).median


def stream_values(backend: Backend) -> int:
    """Values in an array that the bandwidth is measured on: two of them take a quarter of the memory at the most."""
    memory = backend.memory()
    return STREAM_VALUES if memory is None else max(1 << 20, min(STREAM_VALUES, memory[0] // (4 * 2 * 8)))
