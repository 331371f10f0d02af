# SPDX-License-Identifier: MIT
"""The speed that the operations of a solve reached: counted in the loop, timed after it."""

import logging
import statistics
from collections.abc import Callable

from poisson.backends.base import Backend
from poisson.backends.ledger import Call, Invocation, Ledger
from poisson.output.record import OperationUse, Performance
from poisson.perf import timing
from poisson.perf.timing import stream_values
from poisson.perf.traffic import cost

BUDGET_SECONDS = 0.05
"""About so long the timing of all operations together takes …"""
LONGEST_SHARE = 0.05
"""… or this part of the loop's time, if that is more."""
REPEATS = 3
MOST_IN_A_ROW = 64
COPY_SECONDS = 0.5
"""The memory bandwidth is measured on arrays as large as those of the benchmarks, if that takes no longer than this."""
FIRST_STREAM = 1 << 22
LEAST_SECONDS = 1e-9
"""No call takes less, whatever a coarse clock says."""

log = logging.getLogger(__name__)


def appraise(backend: Backend, ledger: Ledger, loop_seconds: float) -> Performance | None:
    """Time the operations that a solve used, on its own arrays, and the memory bandwidth beside them.

    The arrays are overwritten. `loop_seconds` is the wall time of the loop.
    None where a few calls of each would take too long beside it.
    """
    counts = {call: count for call, count in ledger.counts.items() if count}
    if not counts:
        return None
    budget = max(BUDGET_SECONDS, LONGEST_SHARE * loop_seconds)
    if len(counts) * loop_seconds / sum(counts.values()) > budget:
        log.info("the operations were not timed: a few calls of each would take longer than the solve")
        return None
    share = budget / len(counts)
    # What takes arrays alone has the grid of the other operations on as many nodes.
    grids = {call.nodes: call.grid for call in counts if call.subject is not None}
    uses = [
        _use(backend, call, count, ledger.samples[call], share, grids.get(call.nodes, call.grid))
        for call, count in counts.items()
    ]
    uses.sort(key=lambda use: -use.seconds)
    bandwidth, array_bytes = bandwidth_of(backend)
    return Performance(tuple(uses), bandwidth, array_bytes)


def _use(backend: Backend, call: Call, count: int, invocation: Invocation, budget: float, grid: str) -> OperationUse:
    seconds = _seconds(backend, invocation, budget)
    needed = cost(call)
    return OperationUse(call.label, count, count * seconds, count * needed.bytes, count * needed.flops, grid)


def bandwidth_of(backend: Backend) -> tuple[float, int]:
    """The memory bandwidth in B/s, measured as for the benchmarks, and the bytes of an array that it is measured on.

    The arrays are those of `stream_values`, which no cache holds, or the largest on which it takes `COPY_SECONDS`.
    """
    most = stream_values(backend)
    count = min(most, FIRST_STREAM)
    if count < most:
        call, _ = backend.probe().stream(count)
        call()
        of_one = max(backend.seconds(call), LEAST_SECONDS) / count
        del call  # with its arrays
        allowed = COPY_SECONDS / (timing.REPEATS + 2) / of_one
        count = max(count, min(most, int(allowed)))
    return timing.copy_bandwidth(backend, count), 8 * count


def _seconds(backend: Backend, call: Callable[[], None], budget: float) -> float:
    """The median time of a call, among others in a row.

    In the loop it was one of a row, too, and part of a graph where the runtime has graphs.
    """
    once = max(backend.seconds(call), LEAST_SECONDS)
    in_a_row = min(MOST_IN_A_ROW, int(budget / (REPEATS + 1) / once))
    if in_a_row < 1:
        return once

    def row() -> None:
        for _ in range(in_a_row):
            call()

    replay = backend.capture(row)
    replay()
    return max(statistics.median(backend.seconds(replay) for _ in range(REPEATS)) / in_a_row, LEAST_SECONDS)
