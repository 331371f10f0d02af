# SPDX-License-Identifier: MIT
"""The model of many GPUs in docs/performance-ranks.md: `python scripts/scaling_model.py` prints its table.

What one GPU takes is measured: the times of whole solves and of Jacobi loops in the same document.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from poisson.errors import GridError
from poisson.perf.benchmark.works import Work
from poisson.perf.network import NDR, NVLINK, PER_NODE, Alone, Cluster, Expected, expected

GPUS = (1, 2, 4, 8, 64, 1024, 10000)
CLUSTER = Cluster(NVLINK, NDR, PER_NODE)
DEPTH = 6
"""Sweeps in a pass in 2D."""

CUBES = 513**3, 1025**3
MIXED = Alone.through((CUBES[0], 25.6e-3 / 7), (CUBES[1], 162e-3 / 7))
FFT = Alone.through((CUBES[0], 9.3e-3), (CUBES[1], 83e-3))
SQUARES = 4096**2, 16384**2


@dataclass(frozen=True)
class Row:
    """A work whose time is asked for, with what an iteration takes on one GPU, and how many there are."""

    title: str
    work: Work
    alone: Alone
    iterations: int


ROWS = (
    Row("Laplace 20480², fused", Work("laplace-fused", (20480,) * 2), Alone(4e-6, 0.577e-3 / SQUARES[1]), 1000),
    Row("Laplace 20480², blocked", Work("laplace-blocked", (20480,) * 2), Alone(4e-6, 0.213e-3 / SQUARES[1]), 1000),
    Row("1025³, mixed multigrid", Work("multigrid", (1025,) * 3), MIXED, 7),
    Row("1025³, fft", Work("fft", (1025,) * 3), FFT, 1),
    Row("513³ a GPU, mixed multigrid", Work("weak-multigrid", (513,) * 3), MIXED, 7),
    Row("513³ a GPU, fft", Work("weak-fft", (513,) * 3), FFT, 1),
)


def found(row: Row, gpus: int) -> Expected | None:
    """An iteration on so many GPUs; None where there are too many."""
    kind = row.work.kind
    itemsize = 4 if kind.precision != "float64" else 8
    shape = row.work.on(gpus).shape
    try:
        return expected(kind.settings, shape, itemsize, gpus, row.alone, CLUSTER, depth=DEPTH)
    except GridError:
        return None


def lines() -> Iterator[str]:
    """The table: milliseconds, in brackets the percentage that is exchanged, and blocks along y and z."""
    yield f"| ms | {' | '.join(map(str, GPUS))} |"
    yield f"|{' --- |' * (len(GPUS) + 1)}"
    for row in ROWS:
        cells = []
        for gpus in GPUS:
            each = found(row, gpus)
            if each is None:
                cells.append("–")
                continue
            milliseconds = f"{1e3 * row.iterations * each.seconds:.3g}"
            blocks = "·".join(map(str, each.blocks[1:]))
            cells.append(milliseconds if gpus == 1 else f"{milliseconds} ({100 * each.exchanged:.0f}%, {blocks})")
        yield f"| {row.title} | {' | '.join(cells)} |"


if __name__ == "__main__":
    print("\n".join(lines()))
