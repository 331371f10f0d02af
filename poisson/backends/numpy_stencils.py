# SPDX-License-Identifier: MIT
"""The executable specification of full stencils: every operation in the fewest and plainest lines of NumPy."""

import itertools
from collections.abc import Iterator
from functools import cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from poisson.backends.stencils import (
    BALANCED,
    Array,
    ClusterOperations,
    Reduction,
    StencilOperations,
    StencilTransferOperations,
)
from poisson.discrete.contracted import GraphCycle
from poisson.discrete.full_stencil import FullStencil, Offset, StencilTransfer
from poisson.mesh.lattice import Lattice


def shifted(lattice: Lattice, values: Array, offset: Offset) -> Array:
    """The values at the neighbours of all nodes; zero where there is none."""
    for axis, (line, step) in enumerate(zip(lattice.axes, offset, strict=True)):
        if step:
            place = lattice.array_axis(axis)
            values = np.take(values, (np.arange(line.nodes) + step) % line.nodes, axis=place)
            if not line.wraps:
                beyond = slice(-step, None) if step > 0 else slice(-step)
                values[(slice(None),) * place + (beyond,)] = 0
    return values


def links_of(stencil: FullStencil, dtype: Any) -> Iterator[tuple[Offset, Array]]:
    """The links of all nodes to each neighbour, before and behind them."""
    assert stencil.coefficients is not None
    for offset, link in zip(stencil.offsets, stencil.coefficients[1:].astype(dtype), strict=True):
        opposite = tuple(-step for step in offset)
        yield offset, link
        yield opposite, shifted(stencil.lattice, link, opposite)


def _free(lattice: Lattice) -> NDArray[np.bool_]:
    free = np.zeros(lattice.array_shape, dtype=bool)
    free[lattice.free] = True
    return free


class NumpyStencil(StencilOperations):
    """The operations of a full stencil."""

    def __init__(self, backend: Any, stencil: FullStencil) -> None:
        super().__init__(backend, stencil)
        self._real = backend.dtype.type
        self._volumes = stencil.lattice.volumes().astype(backend.dtype)

    def residual(self, u: Array, f: Array | None, r: Array, result: Reduction | None = None) -> None:
        r[...] = np.where(self._equations, (self._real(0) if f is None else f) - self._apply(u), self._real(0))
        if result is not None:
            self.norm(r, result)

    def sweep(self, u: Array, f: Array | None, out: Array, omega: float, result: Reduction | None = None) -> None:
        r = np.empty_like(u)
        self.residual(u, f, r, result)
        out[...] = u + self._scale(omega) * r

    def color_sweep(self, u: Array, f: Array | None, color: int, omega: float) -> None:
        lattice, relaxed, number = self.stencil.lattice, np.empty_like(u), np.zeros(u.shape, dtype=int)
        for axis, nodes in enumerate(lattice.shape):
            number += (1 << axis) * lattice.along(axis, np.arange(nodes) % 2)
        self.sweep(u, f, relaxed, omega)
        u[number == color] = relaxed[number == color]

    def diagonal_solve(self, r: Array, z: Array, omega: float, result: Reduction | None = None) -> None:
        z[...] = np.where(self._equations, self._scale(omega) * r, self._real(0))
        if result is not None:
            self.dot(r, z, result)

    def direction(self, z: Array, beta: float, p: Array, out: Array, q: Array, result: Reduction) -> None:
        out[...] = np.where(_free(self.stencil.lattice), z + self._real(beta) * p if beta else z, self._real(0))
        q[...] = np.where(self._equations, self._apply(out), self._real(0))
        self.dot(out, q, result)

    def _apply(self, u: Array) -> Array:
        """A u at every node; at fixed nodes without a meaning."""
        assert self.stencil.coefficients is not None
        total = self.stencil.coefficients[0].astype(u.dtype) * u
        for offset, link in links_of(self.stencil, u.dtype):
            total += link * (u - shifted(self.stencil.lattice, u, offset))
        return total / self._volumes

    @property
    def _diagonal(self) -> Array:
        """The diagonal of V A."""
        assert self.stencil.coefficients is not None
        excess = self.stencil.coefficients[0].astype(self._real)
        return sum((link for _, link in links_of(self.stencil, self._real)), excess)

    @property
    def _equations(self) -> NDArray[np.bool_]:
        """The nodes that are not fixed and have an equation."""
        return np.asarray(_free(self.stencil.lattice) & (self._diagonal > 0))

    def _scale(self, omega: float) -> Array:
        """omega / diag(A)."""
        diagonal = self._diagonal
        return self._real(omega) * self._volumes / np.where(diagonal > 0, diagonal, self._real(1))


class NumpyStencilTransfer(StencilTransferOperations):
    """The operations between a lattice and every other node of it."""

    def __init__(self, backend: Any, transfer: StencilTransfer) -> None:
        super().__init__(backend, transfer)
        self._lattice, self._coarse = transfer.fine.lattice, transfer.coarse.lattice
        self._here = (0,) * transfer.dimension
        self._taking: dict[Offset, tuple[tuple[Array, ...], NDArray[np.bool_]]] = {}

    def restrict(self, fine: Array, coarse: Array) -> None:
        total = self._restricted(self._lattice.volumes().astype(fine.dtype) * fine)
        coarse[...] = np.where(_free(self._coarse), total / self._coarse.volumes().astype(fine.dtype), 0)

    def prolong_add(self, coarse: Array, fine: Array) -> None:
        fine += self._prolonged(coarse)

    def interpolation(self, out: Array, spreads: bool) -> None:
        stencil, directions = self.transfer.fine, self.transfer.directions
        assert stencil.coefficients is not None
        free, holding, links = _free(self._lattice), stencil.coefficients[0].astype(np.float64), []
        for offset, link in links_of(stencil, np.float64):
            inner = np.where(shifted(self._lattice, free, offset), link, 0.0)
            holding = holding + (link - inner)
            links.append((offset, inner))
        weights = {self._here: _free(self._coarse).astype(np.float64)}
        for direction in sorted(directions, key=lambda steps: sum(map(abs, steps))):
            # The node that takes lies at `direction` of a coarse one; its links are summed over the other axes.
            summed: dict[Offset, Any] = {}
            for offset, link in links:
                across = tuple(step * abs(along) for step, along in zip(offset, direction, strict=True))
                if any(across):
                    summed[across] = summed.get(across, 0.0) + np.abs(link)
            balance = sum(summed.values(), np.zeros(free.shape))
            linked = sum((np.abs(link) for _, link in links), np.zeros(free.shape))
            centre = balance + np.where(holding > BALANCED * balance, holding, 0.0)
            has = free & (balance > 0.0)
            weights[direction] = np.zeros(self._coarse.array_shape)
            if spreads:
                alone = free & (balance == 0.0) & ~(holding > BALANCED * linked)
                weights[direction] = self._taken(alone, direction) * weights[self._here] / self._corners(direction)
            for across, link in summed.items():
                nearer = tuple(there + step for there, step in zip(direction, across, strict=True))
                if nearer in weights:
                    part = np.where(has, link / np.where(has, centre, 1.0), 0.0)
                    weights[direction] += self._taken(part, direction) * weights[nearer]
            out[directions.index(direction)] = weights[direction]

    def galerkin(self, out: Array) -> None:
        stencil, coarse, scale = self.transfer.fine, self.transfer.coarse, self.transfer.scale
        assert stencil.coefficients is not None
        excess, links = stencil.coefficients[0].astype(np.float64), list(links_of(stencil, np.float64))
        rows, weights = self._prolonged(np.ones(self._coarse.array_shape)), self._weights()
        out[0] = self._restricted(
            sum((link * (rows - shifted(self._lattice, rows, offset)) for offset, link in links), excess * rows)
        )
        for number, offset in enumerate(coarse.offsets, start=1):
            total, beside = np.zeros(self._coarse.array_shape), cache(partial(self._beside, weights, offset))
            for direction, weight in weights.items():
                there = beside(direction)
                flow = self._taken(excess, direction) * there
                for step, link in links:
                    end = beside(tuple(map(sum, zip(direction, step, strict=True))))
                    flow += self._taken(link, direction) * (there - end)
                total += weight * flow
            out[number] = -scale * total

    def _weights(self) -> dict[Offset, Array]:
        """P of the fine nodes around all coarse ones, and of those that are coarse."""
        assert self.transfer.weights is not None
        weights = dict(zip(self.transfer.directions, self.transfer.weights.astype(np.float64), strict=True))
        return weights | {self._here: _free(self._coarse).astype(np.float64)}

    def _taken(self, values: Array, direction: Offset) -> Array:
        """Values at the fine nodes in a direction of all coarse nodes; zero where there is none between coarse ones."""
        if direction not in self._taking:
            self._taking[direction] = self._nodes(direction)
        where, there = self._taking[direction]
        return np.where(there, values[where], values.dtype.type(0))

    def _nodes(self, direction: Offset) -> tuple[tuple[Array, ...], NDArray[np.bool_]]:
        """The fine nodes in a direction of all coarse nodes, by axis, and where there is one between coarse ones."""
        where, there = [], np.ones(self._coarse.array_shape, dtype=bool)
        for axis, (line, fine) in enumerate(zip(self._coarse.axes, self._lattice.axes, strict=True)):
            index, step = np.arange(line.nodes), direction[axis]
            halved, seam = self.transfer.halved[axis], self._seam(axis)
            index = (np.minimum(2 * index, fine.nodes - 1) if halved else index) + step
            inside = (index >= 0) & (index < fine.nodes) | fine.wraps
            inside[-1] &= not (halved and (2 * (line.nodes - 1) >= fine.nodes or (seam and step > 0)))
            inside[0] &= not (seam and step < 0)
            where.append(index % fine.nodes)
            there &= self._coarse.along(axis, inside)
        return np.ix_(*reversed(where)), there

    def _corners(self, direction: Offset) -> Array:
        """How many free coarse nodes the fine nodes in a direction of all coarse nodes lie between, these counted."""
        count = np.ones(self._coarse.array_shape)
        for axis, (line, step) in enumerate(zip(self._coarse.axes, direction, strict=True)):
            if step:
                other = np.arange(line.nodes) + step
                inside = line.wraps | ((other >= line.free.start) & (other < line.free.stop))
                count *= self._coarse.along(axis, 1.0 + inside)
        return count

    def _seam(self, axis: int) -> bool:
        """Whether the first and the last coarse node are neighbours on the fine axis."""
        line = self._lattice.axes[axis]
        return line.wraps and self.transfer.halved[axis] and line.nodes % 2 == 1

    def _beside(self, weights: dict[Offset, Array], offset: Offset, direction: Offset) -> Array:
        """P of the fine nodes in a direction of all coarse nodes from the coarse neighbours of these."""
        found = np.zeros(self._coarse.array_shape)
        seams = [(False, True) if step and self._seam(axis) else (False,) for axis, step in enumerate(offset)]
        for crossed in itertools.product(*seams):
            # A coarse neighbour lies two fine nodes away where an axis is halved, and one across a seam.
            away = (step * (2 - seam if halved else 1)
                    for step, seam, halved in zip(offset, crossed, self.transfer.halved, strict=True))  # fmt: skip
            weight = weights.get(tuple(there - gone for there, gone in zip(direction, away, strict=True)))
            if weight is None:
                continue
            where = np.ones(self._coarse.array_shape, dtype=bool)
            for axis, seam in enumerate(crossed):
                if offset[axis] and self._seam(axis):
                    ends = np.zeros(self._coarse.shape[axis], dtype=bool)
                    ends[-1 if offset[axis] > 0 else 0] = True
                    where &= self._coarse.along(axis, ends == seam)
            found = np.where(where, shifted(self._coarse, weight, offset), found)
        return found

    def _restricted(self, values: Array) -> Array:
        """Pᵀ of values, times the fine over the coarse spacings."""
        terms = (weight.astype(values.dtype) * self._taken(values, to) for to, weight in self._weights().items())
        return values.dtype.type(self.transfer.scale) * sum(terms)

    def _prolonged(self, coarse: Array) -> Array:
        """P of coarse values on the fine lattice."""
        fine = np.zeros(self._lattice.array_shape, dtype=coarse.dtype)
        for direction, weight in self._weights().items():
            places = []
            for axis, (line, halved) in enumerate(zip(self._coarse.axes, self.transfer.halved, strict=True)):
                index = (2 if halved else 1) * np.arange(line.nodes) + direction[axis]
                places.append(index % self._lattice.shape[axis])
            # No two coarse nodes have one fine node in the same direction, and weights are zero where there is none.
            np.add.at(fine, np.ix_(*reversed(places)), weight.astype(coarse.dtype) * coarse)
        return fine


class NumpyClusters(ClusterOperations):
    """The correction of strong clusters."""

    def correct_clusters(self, r: Array, u: Array) -> None:
        clusters = self.clusters
        if not clusters.count:
            return
        volumes = np.broadcast_to(clusters.lattice.volumes(), r.shape)
        weighted = volumes.ravel()[clusters.nodes] * r.ravel()[clusters.nodes].astype(np.float64)
        sums = np.add.reduceat(weighted, clusters.starts[:-1])
        corrections = clusters.factors * sums if clusters.cycle is None else _cycled(clusters.cycle, sums)
        places = np.unravel_index(clusters.nodes, u.shape)
        u[places] += np.repeat(corrections, np.diff(clusters.starts)).astype(u.dtype)


def _cycled(cycle: GraphCycle, sums: NDArray[np.float64]) -> NDArray[np.float64]:
    """The corrections of groups from their sums."""
    f, x = np.append(sums, np.zeros(cycle.nodes - sums.size)), np.zeros(cycle.nodes)
    excess, sweeps, finest = cycle.excess.astype(np.float64), cycle.sweeps.astype(np.float64), cycle.levels[1]
    rows = np.repeat(np.arange(cycle.nodes), np.diff(cycle.starts))
    of_aggregate = np.repeat(np.arange(finest, cycle.nodes), np.diff(cycle.groups))
    levels = list(itertools.pairwise(cycle.levels))

    def left(first: int, last: int) -> NDArray[np.float64]:
        """f − G x."""
        entries = slice(cycle.starts[first], cycle.starts[last])
        one, other = rows[entries], cycle.columns[entries]
        flows = cycle.links[entries].astype(np.float64) * (x[one] - x[other])
        rest: NDArray[np.float64] = (f - excess * x)[first:last] - np.bincount(one - first, flows, last - first)
        return rest

    def visit(level: int, *, again: bool) -> None:
        first, last = levels[level]
        if level == len(levels) - 1 and cycle.inverse is not None:
            x[first:last] = cycle.inverse @ f[first:last]
            return
        if again:
            x[first:last] += sweeps[first:last] * left(first, last)
        else:
            x[first:last] = (sweeps * f)[first:last]
        if level < len(levels) - 1:
            _, end = levels[level + 1]
            members = slice(cycle.groups[last - finest], cycle.groups[end - finest])
            values = left(first, last)[cycle.members[members] - first]
            f[last:end] = np.bincount(of_aggregate[members] - last, values, end - last)
            for number in range(cycle.visits(level + 1)):
                visit(level + 1, again=number > 0)
            x[cycle.members[members]] += x[of_aggregate[members]]
        x[first:last] += sweeps[first:last] * left(first, last)

    visit(0, again=False)
    return x[: sums.size]
