# SPDX-License-Identifier: MIT
"""Passes beside the exchange of the halos that they need: first the blocks that need none of it, the others after it.

What is exchanged, and the blocks that wait for it, go to a second stream of the device. The blocks are those that one
launch would have, and each leaves its part of a norm in the same place: the results have the same bits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from poisson.backends.gpu.runtime import Runtime
from poisson.discrete.operator import Operator

FEWEST_NODES = 1 << 25
"""Over fewer the launches and waits that cutting up adds cost more than it gains, as measured on two H200
(docs/performance.md)."""

Grid = tuple[int, int, int]

Launch = Callable[[Grid, tuple[Any, ...], tuple[str, ...]], None]
"""Launches a kernel in so many blocks, with further arguments and options of the compiler."""

IN_PARTS = ("-DPART=1",)
"""The option of kernels whose blocks are a part of those of a grid."""

EVERYWHERE = 0, (1 << 32) - 1
"""As blocks along y: the first one, and how many."""


class Overlap:
    """The second stream of a device, and what goes on there.

    `runtime`: the device. `under_way`: whether launches have to wait for something there.
    """

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._allowed = False
        self.under_way = False

    @contextmanager
    def beside(self, nodes: int) -> Iterator[None]:
        """Within, what is `exchanging` may go on beside the pass over so many nodes that comes next."""
        before, self._allowed = self._allowed, nodes >= FEWEST_NODES
        try:
            yield
        finally:
            self._allowed = before
            self.join()

    @contextmanager
    def exchanging(self) -> Iterator[None]:
        """Within, what is asked for goes to the second stream, if it may."""
        if not self._allowed:
            yield
            return
        self.under_way = False  # what is asked for within need not wait for it
        self._runtime.fork()
        try:
            with self._runtime.apart():
                yield
        finally:
            self.under_way = True

    def launch(self, operator: Operator, grid: Grid, cut: Cut, launch: Launch) -> None:
        """Launch a pass through the grid of an operator: first what need not wait for what is under way."""
        found = parts(operator, grid, cut) if self.under_way else None
        if found is None:
            launch(grid, (), ())
            return
        first, others = found
        self.under_way = False
        launch(first.grid, first.arguments, IN_PARTS)
        with self._runtime.apart():
            for part in others:
                launch(part.grid, part.arguments, IN_PARTS)
        self._runtime.join()

    def join(self) -> None:
        """Let what comes wait for what is under way."""
        if self.under_way:
            self.under_way = False
            self._runtime.join()


@dataclass(frozen=True)
class Cut:
    """How a pass is cut up into blocks.

    `slowest`: nodes along the slowest axis that a block owns. `along_y`: in 3D, lines of nodes along y that a block
    owns. `reach`: how far beside them what it computes depends on nodes.
    """

    slowest: int
    along_y: int
    reach: int


@dataclass(frozen=True)
class Part:
    """A part of the blocks of a launch.

    `grid`: the blocks that are launched. `arguments`: what tells kernels with ``PART`` which ones they are.
    """

    grid: Grid
    arguments: tuple[Any, ...]


def parts(operator: Operator, grid: Grid, cut: Cut) -> tuple[Part, list[Part]] | None:
    """The blocks of a grid that need no halo, and all others; None if there are no such blocks, or no others."""
    axes = operator.lattice.axes
    bands = -(-operator.shape[-1] // cut.slowest)
    first, stop = _inside(axes[-1].nodes, axes[-1].halo, cut.slowest, cut.reach, bands)
    y = EVERYWHERE
    if operator.dimension == 3 and max(axes[1].halo) > 0:
        lines = -(-operator.shape[1] // cut.along_y)
        first_y, stop_y = _inside(axes[1].nodes, axes[1].halo, cut.along_y, cut.reach, lines)
        y = first_y, stop_y - first_y
    if stop <= first or y[1] <= 0:
        return None

    def part(first: int, count: int, y: tuple[int, int]) -> Part:
        size = (grid[0], count, 1) if operator.dimension == 2 else (*grid[:2], grid[2] // bands * count)
        numbers = (np.int32(bands), np.int32(count), np.int32(first), *map(np.uint32, y))
        return Part(size, numbers)

    others = [part(stop, bands - stop + first, EVERYWHERE)] if stop - first < bands else []
    if y != EVERYWHERE:
        # The difference goes around: from the block behind those inside to that before them.
        others.append(part(first, stop - first, (sum(y), (1 << 32) - y[1])))
    return (part(first, stop - first, y), others) if others else None


def _inside(nodes: int, halo: tuple[int, int], each: int, reach: int, blocks: int) -> tuple[int, int]:
    """The first block along an axis that needs no halo, and the one behind the last, for blocks of so many nodes."""
    below, above = halo
    first = -(-(below + reach) // each) if below else 0
    stop = (nodes - above - reach) // each if above else blocks
    return first, min(max(stop, first), blocks)
