# SPDX-License-Identifier: MIT
"""Operators of 9 and 27 points, and interpolation whose weights differ from node to node: Galerkin coarse grids.

The operator is stored as differences. With the control volumes V of the nodes (`Lattice.volumes`, over the product of
the spacings),

    (V A u)_i = excess_i u_i + Σ_o link_{i,o} (u_i − u_{i+o}),

so that V A is symmetric, and the link between two nodes is stored once: at the node that comes first in memory. The
diagonal is no array, because in float32 it would lose the row sum, which is the excess: of links of 10⁶ a float32
diagonal leaves no c. Across a face there is no neighbour and the link is 0; along an axis that wraps the node at the
other end is one. Links to nodes on fixed faces count like others. A node without excess and links has no equation: its
residual is 0, and smoothers leave u there.
"""

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial
from types import ModuleType
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from poisson.discrete.operator import Operator
from poisson.mesh.axis import Axis
from poisson.mesh.boundary import Rule
from poisson.mesh.grid import over_slabs
from poisson.mesh.lattice import Lattice, OnLattice

PLANES = 1 << 16
"""Nodes of an operator of links that one step makes a full stencil of: its arrays stay in the caches."""

Offset = tuple[int, ...]
"""From a node to a neighbour, along x, y(, z)."""


HALO = 2
"""Nodes at least beside those that a process owns: the weights at the next ones follow from links beyond them."""


def divisible(lattice: Lattice) -> bool:
    """Whether the axes of a part can be halved as those of the whole.

    The part begins at an even node (`poisson.parallel.division.part_of`); an axis with other weights at each node is
    not divided, nor one that wraps around an odd number of nodes.
    """
    parts = [(axis, axis.whole) for axis in lattice.axes if axis.whole]
    return not any(axis.tabulated or axis.first % 2 or (whole.wraps and whole.nodes % 2) for axis, whole in parts)


def countable(lattice: Lattice) -> bool:
    """Whether 32 bits count the nodes, with up to 64 values more at the end of each row of x."""
    nx, *others = lattice.shape
    return (nx + 64) * math.prod(others) < 1 << 31


@cache
def offsets_of(dimension: int) -> tuple[Offset, ...]:
    """The half of the neighbours that lie behind a node in memory: 4 in 2D, 13 in 3D."""
    around = [offset[::-1] for offset in itertools.product((-1, 0, 1), repeat=dimension)]
    return tuple(around[len(around) // 2 + 1 :])


@dataclass(frozen=True)
class Stack:
    """Several arrays of a lattice behind one another, as one array."""

    count: int
    lattice: Lattice

    @property
    def shape(self) -> tuple[int, ...]:
        return *self.lattice.shape, self.count

    @property
    def array_shape(self) -> tuple[int, ...]:
        return self.count, *self.lattice.array_shape


@dataclass(frozen=True, eq=False)
class FullStencil(OnLattice):
    """A symmetric operator with up to 9 points in 2D and 27 in 3D; the module has its formula.

    `lattice`: the nodes; their rules say which are fixed and which axes wrap. `offsets`: the neighbours with links, of
    `offsets_of` and in its order; none along an axis of one node. `coefficients` (array, optional): the
    excess and the links to each offset, in 1/L², as an array of a backend in the shape of `stack`: float64, or float32
    whatever the type of the vectors. A subject without coefficients describes the layout alone. `scales`: by how much
    the links to each offset count where strong ones are looked for, and the excess for nothing; as they are without.
    """

    lattice: Lattice
    offsets: tuple[Offset, ...]
    coefficients: Any | None = None
    scales: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        if not countable(self.lattice):
            raise ValueError(f"a full stencil has fewer than 2^31 nodes, not {self.shape}")
        if [offset for offset in offsets_of(self.dimension) if offset in self.offsets] != list(self.offsets):
            raise ValueError(f"the offsets {self.offsets} are not some of {offsets_of(self.dimension)}, in their order")
        if any(step and nodes == 1 for offset in self.offsets for step, nodes in zip(offset, self.shape, strict=True)):
            raise ValueError("the node of an axis of one node has no neighbour along it")

    @property
    def stack(self) -> Stack:
        """The arrays of the coefficients."""
        return Stack(1 + len(self.offsets), self.lattice)

    @property
    def colored(self) -> bool:
        """Whether no two neighbours have indices of the same parities: an axis that wraps is even, or one node."""
        return all(not axis.wraps or axis.nodes % 2 == 0 or axis.nodes == 1 for axis in self.lattice.whole.axes)

    def detached(self, ends: Rule = Rule.MIRROR) -> "FullStencil":
        """The nodes of a part as a lattice of their own, with a rule for its ends in a halo.

        Values that operations give the nodes in a halo have no meaning. Fixed nodes belong to no cluster.
        """
        lines = (axis if axis.whole is None else _detached(axis, ends) for axis in self.lattice.axes)
        return replace(self, lattice=Lattice(tuple(lines))) if self.lattice.divided else self


@dataclass(frozen=True, eq=False)
class StencilTransfer:
    """Interpolation by the weights of each node from every other node along some axes, and restriction.

    The coarse nodes are those of even indices; behind the last of them a fixed upper face has a node of its own, which
    stands for the fine one there. R = V_c⁻¹ Pᵀ V_f in the inner products of the control volumes.

    `fine`: the operator that the weights follow; restriction and interpolation do not read its coefficients. `halved`:
    along which axes. `weights` (array, optional): the weight of a coarse node at the fine node in each of `directions`,
    as an array of a backend in the shape of `table` and the type of the coefficients; 0 where there is no such node or
    either is fixed. `gathers`: whether each process that has a part of the fine nodes has all coarse ones. Raises
    `ValueError` if no axis is halved, or one that has no free coarse node.
    """

    fine: FullStencil
    halved: tuple[bool, ...]
    weights: Any | None = None
    gathers: bool = False

    def __post_init__(self) -> None:
        if not any(self.halved):
            raise ValueError("no axis is halved")
        for axis, halved in zip(self.fine.lattice.whole.axes, self.halved, strict=True):
            if halved and (axis.nodes < (4 if axis.fixed == 2 else 3)):
                raise ValueError(f"an axis of {axis.nodes} nodes leaves no free node when it is halved")

    @property
    def shape(self) -> tuple[int, ...]:
        return self.fine.shape

    @property
    def dimension(self) -> int:
        return self.fine.dimension

    @cached_property
    def coarse(self) -> FullStencil:
        """The coarse nodes, and where the Galerkin product has links.

        The axes count as uniform: any control volumes would do, R and the product are made for them.
        """
        axes = zip((self.fine.lattice.whole if self.gathers else self.fine.lattice).axes, self.halved, strict=True)
        lattice = Lattice(tuple(_halved(axis) if halved else axis for axis, halved in axes))
        kept = [axis for axis, halved in enumerate(self.halved) if not halved]
        around = {(0,) * self.dimension, *self.fine.offsets, *(_opposite(offset) for offset in self.fine.offsets)}
        across = {tuple(offset[axis] for axis in kept) for offset in around}
        found = (o for o in offsets_of(self.dimension) if tuple(o[axis] for axis in kept) in across)
        return FullStencil(lattice, tuple(found))

    @cached_property
    def under(self) -> Lattice:
        """The coarse nodes at fine ones: where the fine lattice is a part, a part with as wide a halo."""
        axes = zip(self.fine.lattice.axes, self.halved, strict=True)
        return Lattice(tuple(_under(axis) if halved else axis for axis, halved in axes))

    @property
    def detached(self) -> "StencilTransfer":
        """Between nodes of a part and those `under` it, as lattices of their own."""
        return replace(self, fine=self.fine.detached(), gathers=False) if self.fine.lattice.divided else self

    @cached_property
    def directions(self) -> tuple[Offset, ...]:
        """From a coarse node to the fine nodes that take from it, itself left out."""
        steps = [(-1, 0, 1) if halved else (0,) for halved in reversed(self.halved)]
        return tuple(offset[::-1] for offset in itertools.product(*steps) if any(offset))

    def weighted(self, weights: Any) -> "StencilTransfer":
        """The same with weights; the coarse nodes, which do not depend on them, are not found again."""
        found = replace(self, weights=weights)
        vars(found).update((name, vars(self)[name]) for name in ("coarse", "under") if name in vars(self))
        return found

    @property
    def table(self) -> Stack:
        """The arrays of the weights: 2, 8 or 26 for one, two or three axes."""
        return Stack(len(self.directions), self.under)

    @property
    def product(self) -> Stack:
        """The arrays of the Galerkin product."""
        return self.coarse.stack

    @property
    def scale(self) -> float:
        """The spacings of the fine lattice over those of the coarse one."""
        return 0.5 ** sum(self.halved)


class Maker(Protocol):
    """The part of a backend that makes and shows arrays."""

    dtype: np.dtype[Any]

    @property
    def array_module(self) -> ModuleType: ...

    def empty(self, array_shape: tuple[int, ...], /) -> Any: ...

    def assemble(self, array_shape: tuple[int, ...], slab: Any, /) -> Any: ...

    def view(self, array: Any, /) -> Any: ...

    def star(self, operator: Operator, out: Any, /) -> bool: ...


@dataclass(frozen=True)
class StarTables:
    """The factors of an operator's links along an axis that do not depend on the other axes.

    `flows`, `widths`, `walls` (arrays, shape (nodes,)): of the links to the next nodes, of the control volumes, and of
    the links to walls beside cells. `numbers` (int array, shape (2, nodes)): the links whose mean leads to a wall;
    None on an axis without a table, which has no such walls.
    """

    flows: NDArray[np.float64]
    widths: NDArray[np.float64]
    walls: NDArray[np.float64]
    numbers: NDArray[np.int32] | None

    @staticmethod
    def of(operator: Operator, axis: int) -> "StarTables":
        """The tables of an axis of an operator."""
        line, coupling = operator.lattice.axes[axis], operator.couplings[axis]
        widths, (_, to_next, to_wall) = _widths(line), operator.along(axis)
        # Across a mirror half a width has the link twice.
        flows = to_next * widths if line.tabulated else np.ones(line.nodes)
        if not line.wraps:
            flows[-1] = 0.0
        numbers = np.stack(line.link_numbers).astype(np.int32) if line.tabulated else None
        return StarTables(coupling * flows, widths, coupling * (to_wall * widths), numbers)


def star(backend: Maker, operator: Operator, into: Maker | None = None) -> FullStencil:
    """An operator of links as a full stencil; 3 arrays in 2D, 4 in 3D.

    A node of a mask has no equation, and the links to it belong to the excess of its neighbours: what such a stencil
    is applied to must be zero there.

    On a part the outermost nodes of a halo lack a link.

    `backend`: where the coefficients are. `operator`: A. `into`: the backend of the type of the new arrays,
    on the same device; without it the same.
    """
    lattice, dimension, shape = operator.lattice, operator.dimension, operator.array_shape
    offsets = tuple(tuple(int(other == axis) for other in range(dimension)) for axis in range(dimension))
    kept = tuple(offset for offset, axis in zip(offsets, lattice.axes, strict=True) if axis.nodes > 1)
    into = into or backend
    links = None if operator.links is None else [backend.view(array) for array in operator.links]
    reaction = None if operator.reaction is None else backend.view(operator.reaction)

    def fill(xp: ModuleType, found: Any, numbers: range, first: int, last: int) -> None:
        planes = _Planes(xp, operator, links, reaction, first, last)
        for place, number in enumerate(numbers):
            found[place, first:last] = planes.link(kept[number - 1].index(1)) if number else planes.excess

    def over_planes(xp: ModuleType, found: Any, numbers: range) -> Any:
        threads, nodes = (getattr(backend, "threads", 1), PLANES) if xp is np else (1, found.size)
        over_slabs(shape, partial(fill, xp, found, numbers), threads, nodes)
        return found

    def slab(xp: ModuleType, start: int, stop: int) -> Any:
        return over_planes(xp, xp.empty((stop - start, *shape), dtype=into.dtype), range(start, stop))

    stack = 1 + len(kept), *shape
    if not lattice.divided:
        coefficients = into.empty(stack)
        if backend.star(operator, coefficients):
            return FullStencil(lattice, kept, coefficients)
    if lattice.divided or into.array_module is not np:
        return FullStencil(lattice, kept, into.assemble(stack, slab))
    over_planes(np, into.view(coefficients), range(stack[0]))
    return FullStencil(lattice, kept, coefficients)


class _Planes:
    """The full stencil of some planes of an operator of links, or rows in 2D: ``[first, last)``."""

    def __init__(self, xp: ModuleType, operator: Operator, links: Any, reaction: Any, first: int, last: int) -> None:
        self.xp, self.operator, self.links, self.reaction = xp, operator, links, reaction
        self.first, self.last = first, last
        self.fixed: Any = None
        if operator.fixed and reaction is not None:
            count = len(reaction)
            ends = [((first - 1) % count, (first - 1) % count + 1), (first, last), (last % count, last % count + 1)]
            fixed = xp.concatenate([reaction[start:stop] < 0 for start, stop in ends])  # with a plane beside at both
            self.fixed = fixed if xp is not np or fixed.any() else None  # to look takes a device longer

    def link(self, axis: int) -> Any:
        """The links along an axis times the volumes of the other axes."""
        flow = self._flow(axis)
        if self.fixed is not None:
            flow *= ~(self.fixed[1:-1] | self._beside(axis)[1])
        return flow

    @property
    def excess(self) -> Any:
        operator, xp = self.operator, self.xp
        *others, slowest = range(operator.dimension)
        c = operator.c if self.reaction is None else xp.maximum(self.reaction[self.first : self.last], 0.0)
        excess = self._of(_product(operator.lattice, [slowest])) * self._of(_product(operator.lattice, others)) * c
        for axis, line in enumerate(operator.lattice.axes):
            if not line.tabulated and self.fixed is None:
                continue
            rest: Any = self._walls(axis) if line.tabulated else 0.0
            if self.fixed is not None:
                below, above = self._beside(axis)
                flow = self._flow(axis)
                rest = rest + flow * above
                if axis == slowest:
                    rest[1:] += (flow * self.fixed[1:-1])[:-1]
                    rest[:1] += self._flow(axis, (self.first - 1) % len(self.reaction), 1) * below[:1]
                else:
                    rest += xp.roll(flow * self.fixed[1:-1], 1, axis=operator.lattice.array_axis(axis))
            excess = excess + rest
        return excess if self.fixed is None else xp.where(self.fixed[1:-1], 0.0, excess)

    def _beside(self, axis: int) -> tuple[Any, Any]:
        """Whether the nodes below and above along an axis are those of a mask."""
        if axis == self.operator.dimension - 1:
            return self.fixed[:-2], self.fixed[2:]
        place = self.operator.lattice.array_axis(axis)
        return tuple(self.xp.roll(self.fixed[1:-1], step, axis=place) for step in (1, -1))

    def _flow(self, axis: int, first: int | None = None, count: int = 0) -> Any:
        """The links along an axis, to nodes of a mask too; of so many planes, or these."""
        along = self.operator.lattice.along(axis, StarTables.of(self.operator, axis).flows)
        first, last = (self.first, self.last) if first is None else (first, first + count)
        flow = self._of(along, first, last) * self._of(self._others(axis), first, last)
        if self.links is not None:
            flow *= self.links[axis][first:last]
        return flow

    def _walls(self, axis: int) -> Any:
        """The terms of the excess that an axis with tables adds."""
        lattice, xp, tables = self.operator.lattice, self.xp, StarTables.of(self.operator, axis)
        place = lattice.array_axis(axis)
        a: Any = 1.0
        if self.links is not None:
            # Products of the size of the grid are formed where the coefficients are.
            assert tables.numbers is not None
            numbers = [each[self.first : self.last] if place == 0 else each for each in tables.numbers]
            own = self.links[axis] if place == 0 else self.links[axis][self.first : self.last]
            below, above = (xp.take(own, xp.asarray(each), axis=place).astype(np.float64) for each in numbers)
            a = (below + above) / 2.0
        return self._of(lattice.along(axis, tables.walls)) * self._of(self._others(axis)) * a

    def _others(self, axis: int) -> Any:
        return _product(self.operator.lattice, (other for other in range(self.operator.dimension) if other != axis))

    def _of(self, values: Any, first: int | None = None, last: int | None = None) -> Any:
        """The values of a table that broadcasts, on these planes, or others."""
        every = self.xp.broadcast_to(self.xp.asarray(values), self.operator.array_shape)
        return every[self.first if first is None else first : self.last if last is None else last]


def _product(lattice: Lattice, axes: Iterable[int]) -> Any:
    """The product of the control widths along some axes, in a shape that broadcasts."""
    return math.prod((lattice.along(axis, _widths(lattice.axes[axis])) for axis in axes), start=1.0)


def _widths(axis: Axis) -> NDArray[np.float64]:
    """The control widths, in a halo too."""
    return axis.undivided.widths[axis.index]


def _opposite(offset: Sequence[int]) -> Offset:
    return tuple(-step for step in offset)


def _halved(axis: Axis) -> Axis:
    """The axis of every other node; of a part those at nodes that it owns, with a halo that begins and ends even."""
    if axis.whole is not None:
        coarse, (start, stop) = _halved(axis.whole), _owned(axis)
        return coarse.part(start, stop, (HALO + (start - HALO) % 2, HALO + (stop + HALO + 1) % 2))
    nodes = axis.nodes // 2 + 1 if axis.rules[1] is Rule.FIXED else -(-axis.nodes // 2)
    return Axis(nodes, 2.0 * axis.spacing, axis.rules)


def _owned(axis: Axis) -> tuple[int, int]:
    """The nodes that a part owns of the axis of every other node."""
    start, stop = axis.first + axis.halo[0], axis.first + axis.nodes - axis.halo[1]
    whole = axis.undivided
    return -(-start // 2), _halved(whole).nodes if stop == whole.nodes else -(-stop // 2)


def _under(axis: Axis) -> Axis:
    """The nodes of the axis of every other node that lie at those of an axis, or a part, which begins even."""
    if axis.whole is None:
        return _halved(axis)
    nodes, first, (start, stop) = _halved(_detached(axis)).nodes, axis.first // 2, _owned(axis)
    halo = start - first, first + nodes - stop
    return Axis(nodes, 2.0 * axis.spacing, axis.rules, whole=_halved(axis.whole), first=first, halo=halo)


def _detached(axis: Axis, ends: Rule = Rule.MIRROR) -> Axis:
    lower, upper = (ends if rule is Rule.HALO else rule for rule in axis.rules)
    return Axis(axis.nodes, axis.spacing, (lower, upper))
