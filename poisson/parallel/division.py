# SPDX-License-Identifier: MIT
"""How the nodes of a lattice are divided over ranks: blocks along the slowest one or two axes.

Rows along x stay whole: kernels go along them, and what is exchanged would lie scattered in memory. In 2D y is divided,
in 3D z, or z and y. In 1D, and where there are few nodes, every rank has all of them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

from poisson.errors import GridError
from poisson.mesh.axis import Axis
from poisson.mesh.grid import AXES
from poisson.mesh.lattice import Lattice
from poisson.words import quantity

FEWEST_NODES = 1000
"""A lattice of fewer nodes is not divided."""

LEAST_HALO = 2
"""Cubics gather from so many nodes beside the part."""

UNEVEN = 16
"""Parts begin at multiples of a power of two, as far as they differ by at most one in so many nodes by that."""


@dataclass(frozen=True)
class Division:
    """The blocks of a lattice, and that of one rank.

    `whole`: all nodes. `counts`: blocks along x, y(, z); their product is the number of ranks. All ones: the lattice is
    not divided, whatever the number of ranks. `rank`: blocks are numbered along y first. `halo`: nodes beside a block
    that its rank has a copy of, at least `LEAST_HALO`. Raises `GridError` if there are fewer nodes along an axis than
    blocks, or x is divided.
    """

    whole: Lattice
    counts: tuple[int, ...]
    rank: int
    halo: int = 4

    def __post_init__(self) -> None:
        for axis, (count, line) in enumerate(zip(self.counts, self.whole.axes, strict=True)):
            if count > 1 and (axis == 0 or self.whole.dimension == 1):
                raise GridError(f"run.ranks = {list(self.counts)} must begin with 1, because the x axis is not divided")
            if count > line.nodes:
                raise GridError(
                    f"{quantity(count, 'rank')} along {AXES[axis]}, but only {line.nodes} nodes: use fewer ranks"
                )

    @staticmethod
    def of(whole: Lattice, size: int, rank: int, halo: int = 4) -> Division:
        """The division over so many ranks with the least halo; none where there are few nodes."""
        return Division(whole, best_counts(whole, size), rank, halo)

    @property
    def divides(self) -> bool:
        """Whether there is more than one block."""
        return math.prod(self.counts) > 1

    @cached_property
    def place(self) -> tuple[int, ...]:
        """The number of the rank's block along x, y(, z)."""
        places, rest = [], self.rank % math.prod(self.counts)
        for count in self.counts:
            rest, place = divmod(rest, count)
            places.append(place)
        return tuple(places)

    @cached_property
    def ranges(self) -> tuple[tuple[int, int], ...]:
        """The nodes that the rank owns along x, y(, z), as ranges."""
        lines = zip(self.whole.axes, self.counts, self.place, strict=True)
        cuts = ((starts_of(line, count), place) for line, count, place in lines)
        return tuple((starts[place], starts[place + 1]) for starts, place in cuts)

    @cached_property
    def lattice(self) -> Lattice:
        """The rank's part, with its halo; the whole lattice where it is not divided."""
        part = self.whole
        for axis, (start, stop) in enumerate(self.ranges):
            if self.counts[axis] > 1:
                part = part.replaced(axis, part_of(self.whole.axes[axis], start, stop, max(LEAST_HALO, self.halo)))
        return part


def best_counts(whole: Lattice, size: int) -> tuple[int, ...]:
    """Blocks along x, y(, z) whose ranks exchange the least; slabs where it makes no difference."""
    shape = whole.shape
    if math.prod(shape) < FEWEST_NODES or size == 1 or min(shape[1:]) == 1:
        return (1,) * len(shape)
    if len(shape) == 2:
        return (1, size)
    choices = [(1, along_y, size // along_y) for along_y in range(1, size + 1) if size % along_y == 0]
    choices = [counts for counts in choices if all(count <= nodes for count, nodes in zip(counts, shape, strict=True))]
    if not choices:
        raise GridError(f"too many ranks ({size}) for {' x '.join(map(str, shape))} nodes: use fewer ranks")

    def halo(counts: tuple[int, ...]) -> float:
        _, along_y, along_z = counts
        return (along_z > 1) * shape[1] / along_y + (along_y > 1) * shape[2] / along_z

    return min(choices, key=lambda counts: (halo(counts), counts[1]))


def starts_of(line: Axis, count: int) -> list[int]:
    """Where the parts of an axis begin, and where the last one ends.

    They begin at nodes of as many coarser axes as balance allows, so that these divide in the same way.
    """
    unit, intervals = 1, line.intervals
    while intervals % (2 * unit) == 0 and 2 * unit * UNEVEN * count <= line.nodes:
        unit *= 2
    units = line.nodes / unit
    starts = [unit * round(part * units / count) for part in range(count)]
    return [*starts, line.nodes]


def part_of(line: Axis, start: int, stop: int, halo: int) -> Axis:
    """The part of an axis that owns a range of nodes, with a halo of so many nodes or one more on each side.

    Its first and its last node have even numbers on the whole axis, so that where intervals halve they lie on nodes of
    the coarser axis: the part and its coarser one are then to each other as whole axes are.
    """
    return line.part(start, stop, (halo + (start - halo) % 2, halo + (stop + halo + 1) % 2))
