# SPDX-License-Identifier: MIT
"""Values at few nodes of an array, and the rows of the operator beside surfaces."""

from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from poisson.discrete.sparse_rows import SparseRows
from poisson.mesh.lattice import Lattice
from poisson.problem.sampling import Block

Values = NDArray[np.float64]
Indices = NDArray[np.int64]


def firsts(nodes: Indices) -> Indices:
    """Where each of some nodes is first, given them in ascending order."""
    return np.flatnonzero(np.diff(nodes, prepend=-1))


@dataclass(frozen=True)
class Sparse:
    """Values at some nodes of an array, by their places in C order, which ascend."""

    nodes: Indices
    values: Values
    shape: tuple[int, ...]

    @staticmethod
    def least(nodes: Indices, values: Values, shape: tuple[int, ...]) -> "Sparse":
        """The least of the values that are given at a node, in any order, where it is not 1."""
        order = np.argsort(nodes, kind="stable")
        nodes, values = nodes[order], values[order]
        first = firsts(nodes)
        values = np.minimum.reduceat(values, first) if first.size else values
        kept = values != 1.0
        return Sparse(nodes[first][kept], values[kept], shape)

    def at(self, nodes: Indices) -> Values:
        """The values at some nodes, 1 at others than these."""
        if not self.nodes.size:
            return np.ones(nodes.shape)
        place = np.minimum(np.searchsorted(self.nodes, nodes), self.nodes.size - 1)
        return np.where(self.nodes[place] == nodes, self.values[place], 1.0)

    def on(self, block: Block | None = None) -> Values:
        """The values on a block, or all, 1 at other nodes than these."""
        block = block or tuple((0, count) for count in self.shape)
        found = np.ones([stop - start for start, stop in block])
        self.write(np, found, block)
        return found

    def positive(self) -> NDArray[np.bool_]:
        """Whether the values, 1 at other nodes than these, are positive."""
        found = np.ones(self.shape, dtype=bool)
        found.ravel()[self.nodes[self.values <= 0.0]] = False
        return found

    def within(self, block: Block) -> tuple[tuple[Indices, ...], Values]:
        """The index in a block of the array of those that lie in it, and their values."""
        among, _ = self._rows(block)
        numbers, values = np.unravel_index(self.nodes[among], self.shape), self.values[among]
        if not self._has_whole_rows(block):
            here = np.ones(values.size, dtype=bool)
            for places, (start, stop) in zip(numbers[1:], block[1:], strict=True):
                here &= (places >= start) & (places < stop)
            numbers, values = tuple(places[here] for places in numbers), values[here]
        return tuple(places - start for places, (start, _) in zip(numbers, block, strict=True)), values

    def _rows(self, block: Block) -> tuple[slice, int]:
        """The values that lie in the rows of a block along the first axis, and the place of the first node there."""
        row = int(np.prod(self.shape[1:]))
        first, last = np.searchsorted(self.nodes, (block[0][0] * row, block[0][1] * row))
        return slice(int(first), int(last)), block[0][0] * row

    def _has_whole_rows(self, block: Block) -> bool:
        return all(ends == (0, count) for ends, count in zip(block[1:], self.shape[1:], strict=True))

    def _placed(self, xp: ModuleType, array: Any, block: Block) -> tuple[Any, Any, Values]:
        """An array of the module xp on a block, or a view of it in one axis; its index of the values there; and these.

        One number for each place is found, and brought to a device, in a fraction of the time that one for each axis
        takes.
        """
        if self._has_whole_rows(block) and array.flags.c_contiguous:
            among, before = self._rows(block)
            return array.reshape(-1), xp.asarray(self.nodes[among] - before), self.values[among]
        where, values = self.within(block)
        return array, tuple(map(xp.asarray, where)), values

    def add(self, xp: ModuleType, array: Any, block: Block) -> None:
        """Add the values to those of an array of the module xp on a block."""
        array, where, values = self._placed(xp, array, block)
        array[where] += xp.asarray(values)

    def scale(self, xp: ModuleType, array: Any, block: Block) -> None:
        """Multiply those of such an array by the values."""
        array, where, values = self._placed(xp, array, block)
        array[where] *= xp.asarray(values)

    def write(self, xp: ModuleType, array: Any, block: Block, value: float | None = None) -> None:
        """Write the values, or one for all, into such an array."""
        array, where, values = self._placed(xp, array, block)
        array[where] = xp.asarray(values) if value is None else value


@dataclass(frozen=True)
class Rows:
    """The rows in which A of Shortley and Weller differs from the symmetric one, at the M nodes beside surfaces.

    With r = f − A u of the symmetric form the residual there is scale · (r − diagonal u + Σ weight u(beside) −
    constant). The scale makes the diagonal that of the symmetric form, as the part of a control volume would that is
    left outside of the bodies.

    `index`: of the M nodes in an array. `beside`: of their neighbours, for each side of each axis, shape ``(K, M)``.
    `weights`: of the shape of `beside`; 0 for what is inside. `terms`: what the surfaces add to f there. `links`: the
    part of the diagonal that each whole link has, of the shape of `beside`. `rest`: c without the terms of the
    surfaces. `pull`, `give`: what u of the neighbours and r are multiplied by in the u that leaves a row without a
    residual. `share`: the part of the control volume outside of the bodies. `nodes`: their places on the whole grid in
    C order. `place`: their numbers among the nodes of all processes beside surfaces, of which there are `size`. `ends`:
    their ends of cut links among all of `Cuts`. `extra`: what g of each is multiplied by in `constant`.
    """

    index: tuple[Indices, ...]
    beside: tuple[Indices, ...]
    scale: Values
    diagonal: Values
    weights: Values
    constant: Values
    terms: Values
    links: Values
    rest: Values
    pull: Values
    give: Values
    share: Values
    nodes: Indices
    place: Indices
    size: int
    ends: Indices
    extra: Values

    def of_residual(self, lattice: Lattice) -> SparseRows:
        """The rows that make r = f − A u of the symmetric form that of this one."""
        return self._rows(lattice, -1.0, -self.scale * self.constant)

    def of_product(self, lattice: Lattice) -> SparseRows:
        """The rows that make A u of the symmetric form that of this one."""
        return self._rows(lattice, 1.0, np.zeros(self.scale.size))

    def of_relaxation(self, lattice: Lattice) -> SparseRows:
        """The values that leave these rows of r = A u without a residual, given r and u of their neighbours."""
        nodes, beside = self._numbers(lattice)
        return SparseRows.of(lattice, nodes, self.give, np.zeros(nodes.size), zip(beside, self.pull, strict=True))

    def _rows(self, lattice: Lattice, sign: float, constant: Values) -> SparseRows:
        nodes, beside = self._numbers(lattice)
        weights = sign * self.scale * np.vstack([self.diagonal, -self.weights])
        entries = zip((nodes, *beside), weights, strict=True)
        return SparseRows.of(lattice, nodes, self.scale, constant, entries)

    def _numbers(self, lattice: Lattice) -> tuple[Indices, Indices]:
        """The numbers of the nodes of these rows, and of their neighbours, in an array."""
        nodes, beside = (np.ravel_multi_index(at, lattice.array_shape) for at in (self.index, self.beside))
        return nodes, beside
