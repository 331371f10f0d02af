# SPDX-License-Identifier: MIT
"""Between the nodes of two lattices on the same box, axis by axis: `poisson.mesh.axis_transfer` has the tables."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from poisson.discrete.operator import Operator
from poisson.mesh.axis import Axis, array_axis
from poisson.mesh.axis_transfer import GATHERED, AxisTransfer, Table, axis_transfer, cubic
from poisson.mesh.lattice import Lattice


@dataclass(frozen=True)
class Transfer:
    """Both directions between the nodes of `fine` and of `coarse`, which lie on the same box with the same rules.

    Along an axis where `coarse` has one node and `fine` has more, it need not have the same rules, but none of `fine`
    may be fixed. Where the lattices are parts, all of this is true of the whole ones.
    """

    fine: Operator
    coarse: Operator

    def __post_init__(self) -> None:
        _require_same_rules(self.fine.lattice.whole, self.coarse.lattice.whole)
        for fine, coarse in zip(self.fine.lattice.whole.shape, self.coarse.lattice.whole.shape, strict=True):
            if not coarse <= fine <= (GATHERED if coarse == 1 else 2 * coarse):
                raise ValueError(f"{fine} nodes do not coarsen to {coarse}")

    @cached_property
    def collapses(self) -> bool:
        """Whether an axis of more nodes has one on the coarse grid."""
        return any(coarse == 1 < fine for fine, coarse in zip(self.fine.shape, self.coarse.shape, strict=True))

    @cached_property
    def halves(self) -> tuple[bool, ...] | None:
        """Along which axes `coarse` has every other node; None if it is neither so nor the same along some axis.

        Of parts of lattices this is what the whole ones have: `window` says whether the parts go together.
        """
        found = []
        for fine, coarse in zip(self.fine.lattice.whole.axes, self.coarse.lattice.whole.axes, strict=True):
            # An axis that collapses to a single node, which wraps, need not wrap itself: it then has no image to halve.
            if fine.nodes != coarse.nodes and (fine.wraps != coarse.wraps or fine.intervals != 2 * coarse.intervals):
                return None
            found.append(fine.nodes != coarse.nodes)
        return tuple(found)

    @cached_property
    def window(self) -> tuple[slice, ...] | None:
        """The index of the nodes of `coarse` that make a plain pair with those of `fine`, where there is one.

        To kernels the two are grids of their own, whose axes begin and end together. None if they have no such pair:
        `halves` is None, the nodes of a coarser axis lie between those of the finer one, as cells have them, or a part
        of `fine` begins or ends between two nodes of the coarse axis, or on one that the part of `coarse` has not.
        """
        if self.halves is None:
            return None
        axes = zip(self.fine.lattice.axes, self.coarse.lattice.axes, self.halves, strict=True)
        found = [_window(*of_axis) for of_axis in axes]
        return None if None in found else tuple(each for each in reversed(found) if each is not None)

    @cached_property
    def axes(self) -> tuple[AxisTransfer, ...]:
        """The tables of x, y(, z)."""
        return tuple(map(axis_transfer, self.fine.lattice.axes, self.coarse.lattice.axes))

    def weights(self, axis: int) -> NDArray[np.float64]:
        """The parts that a fine node takes from the coarse nodes below and above it along an axis, and gives to them.

        There must be a `window`, and the axis halves: an even node has a coarse one in its place, which counts as that
        below. The shape is ``(4, n)``.
        """
        fine, table = self.fine.lattice.axes[axis], self.axes[axis]
        window = (self.window or ())[self.fine.lattice.array_axis(axis)]
        number, found = np.arange(fine.nodes), np.zeros((4, fine.nodes))
        found[0], found[1] = np.where(number % 2 == 0, 1.0, table.prolong[1].T)
        found[1, ::2] = 0.0
        index, given = (values[window] for values in table.restrict)
        ahead = index - 2 * np.arange(len(index))[:, np.newaxis]
        ahead = (ahead + fine.nodes // 2) % fine.nodes - fine.nodes // 2 if fine.wraps else ahead
        for row, places in ((2, ahead >= 0), (3, ahead < 0)):
            chosen = places & (given != 0.0)
            found[row, index[chosen]] = given[chosen]
        return found

    def restricted(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Values at all nodes of the fine lattice restricted to all of the coarse one, by the tables, on the host."""
        for axis, table in enumerate(self.axes):
            (index, weight), place = table.restrict, array_axis(axis, values.ndim)
            along = (-1,) + (1,) * axis
            terms = (weight[:, n].reshape(along) * np.take(values, index[:, n], place) for n in range(index.shape[1]))
            values = np.asarray(sum(terms))
        return values


@dataclass(frozen=True)
class Interpolation:
    """From the nodes of one grid to those of another on the same box, by cubics through the four nearest nodes.

    Near a face that does not wrap the four nodes lie on one side; an axis of three nodes has parabolas. An axis that
    collapses to one node has the mean; from one node all take its value.

    `source`, `target`: the grids, with the same rules except where one of them has a single node; either may be the
    finer one. `everywhere`: whether the fixed nodes of the target are written too; otherwise they keep their values.
    """

    source: Operator
    target: Operator
    everywhere: bool = False

    def __post_init__(self) -> None:
        _require_same_rules(self.source.lattice.whole, self.target.lattice.whole)
        for source, target in zip(self.source.lattice.whole.shape, self.target.lattice.whole.shape, strict=True):
            if target == 1 and source > GATHERED:
                raise ValueError(f"{source} nodes do not collapse to one")

    @cached_property
    def axes(self) -> tuple[Table, ...]:
        """For x, y(, z): indices into the source and weights, both of shape (target nodes, 4)."""
        return tuple(map(cubic, self.source.lattice.axes, self.target.lattice.axes))


def _window(fine: Axis, coarse: Axis, halves: bool) -> slice | None:
    if halves and fine.tabulated and not np.array_equal(fine.undivided.coordinates[::2], coarse.undivided.coordinates):
        return None
    if fine.whole is None or coarse.whole is None:
        return slice(0, coarse.nodes) if fine.whole is coarse.whole else None
    step = 2 if halves else 1
    first, last = fine.first, fine.first + fine.nodes - 1
    start, stop = first // step - coarse.first, last // step + 1 - coarse.first
    return slice(start, stop) if first % step == last % step == 0 <= start and stop <= coarse.nodes else None


def _require_same_rules(one: Lattice, other: Lattice) -> None:
    for first, second in zip(one.axes, other.axes, strict=True):
        collapses = min(first.nodes, second.nodes) == 1 and not (first.holds or second.holds)
        if first.rules != second.rules and not collapses:
            raise ValueError("the grids differ in the rules of their faces")
