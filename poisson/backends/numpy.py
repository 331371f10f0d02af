# SPDX-License-Identifier: MIT
"""The executable specification: every operation in the fewest and plainest lines of NumPy."""

import math
import os
import platform
from collections.abc import Callable, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from poisson.backends.base import Array, Backend, Operations, Reduction, Slab
from poisson.backends.host import host_memory, keep_freed_blocks
from poisson.backends.numpy_stencils import NumpyClusters, NumpyStencil, NumpyStencilTransfer
from poisson.backends.probe import Pace, Probe
from poisson.backends.rows import RowOperations
from poisson.backends.slabs import ScipySlab
from poisson.backends.transfers import DifferenceOperations, InterpolationOperations, TransferOperations
from poisson.backends.transforms import ScipyInverse
from poisson.discrete.clusters import Clusters
from poisson.discrete.discretisation import Operator
from poisson.discrete.full_stencil import FullStencil, StencilTransfer
from poisson.discrete.inverse import DividedInverse, Inverse
from poisson.discrete.sparse_rows import SparseRows
from poisson.discrete.transfer import Interpolation, Transfer
from poisson.mesh.axis import array_axis
from poisson.mesh.boundary import Rule
from poisson.mesh.differences import Differences
from poisson.mesh.grid import slabs
from poisson.words import quantity

DEPTH = 4
"""Sweeps that `sweeps` may make; here they come one after the other."""


class NumpyOperations(Operations):
    """The operations of an operator."""

    def __init__(self, backend: Backend, operator: Operator) -> None:
        super().__init__(backend, operator)
        self._real = backend.dtype.type
        self._lattice = operator.lattice

    def laplacian(self, u: Array, out: Array) -> None:
        inner = np.zeros(out.shape, dtype=bool)
        inner[self._lattice.equations] = True
        au = _kept(self.operator, self._lattice.equations, self._apply(u))
        np.copyto(out, au, where=inner & ~self._lattice.on_faces)

    def boundary_conditions(self, u: Array, out: Array) -> None:
        np.copyto(out, _kept(self.operator, self._lattice.equations, self._apply(u)), where=self._lattice.on_faces)

    def update(self, f: Array | None, au: Array, r: Array, u: Array, omega: float) -> None:
        r[...] = (0.0 if f is None else f) - au
        u[...] = u + self._scale(omega) * r

    def norm(self, r: Array, result: Reduction) -> None:
        values = r[self._lattice.owned].astype(np.float64)
        result[0] = np.sum(values * values)
        result[1] = np.max(np.abs(values))

    def sweep(self, u: Array, f: Array | None, out: Array, omega: float, result: Reduction | None = None) -> None:
        r = np.empty_like(u)
        self.residual(u, f, r, result)
        out[...] = u + self._scale(omega) * r

    def depth(self) -> int:
        return DEPTH

    def sweeps(
        self, u: Array, f: Array | None, out: Array, omegas: Sequence[float], result: Reduction | None = None
    ) -> None:
        out[...] = u
        for sweep, omega in enumerate(omegas, start=1):
            self.sweep(out, f, out, omega, result if sweep == len(omegas) else None)

    def color_sweep(self, u: Array, f: Array | None, color: int, omega: float) -> None:
        relaxed = np.empty_like(u)
        self.sweep(u, f, relaxed, omega)
        lines = (np.arange(nodes) for nodes in self._lattice.shape)
        number: Any = sum(self._lattice.along(axis, line) for axis, line in enumerate(lines))
        chosen = np.broadcast_to(number % 2 == color, u.shape)
        u[chosen] = relaxed[chosen]

    def residual(self, u: Array, f: Array | None, r: Array, result: Reduction | None = None) -> None:
        r[...] = _kept(self.operator, self._lattice.equations, (0.0 if f is None else f) - self._apply(u))
        if result is not None:
            self.norm(r, result)

    def dot(self, x: Array, y: Array, result: Reduction) -> None:
        result[0] = np.sum(self._weighted(x[self._lattice.owned].astype(np.float64) * y[self._lattice.owned]))
        result[1] = 0.0

    def integrate(self, f: Array, work: Array | None, result: Reduction) -> None:
        values = self._weighted(f[self._lattice.owned].astype(np.float64))
        result[0] = np.sum(values)
        result[1] = np.sum(np.abs(values))

    def diagonal_solve(self, r: Array, z: Array, omega: float, result: Reduction | None = None) -> None:
        z[...] = _kept(self.operator, self._lattice.free, self._scale(omega) * r)
        if result is not None:
            self.dot(r, z, result)

    def direction(self, z: Array, beta: float, p: Array, out: Array, q: Array, result: Reduction) -> None:
        out[...] = _kept(self.operator, self._lattice.free, z + self._real(beta) * p if beta else z.copy())
        q[...] = _kept(self.operator, self._lattice.equations, self._apply(out))
        self.dot(out, q, result)

    def advance(self, alpha: float, p: Array, q: Array, u: Array, r: Array, result: Reduction) -> None:
        u[...] = u + self._real(alpha) * p
        r[...] = r - self._real(alpha) * q
        self.norm(r, result)

    def defect(self, u: Array, f: Array | None, factor: float, r: Array, result: Reduction | None = None) -> None:
        full = np.empty_like(u)
        self.residual(u, f, full, result)
        r[...] = self._real(factor) * full

    def links(self, axis: int, a: Array, harmonic: bool, out: Array) -> None:
        place = self._lattice.array_axis(axis)
        lower, upper = (np.take(a, ends, axis=place) for ends in self._lattice.axes[axis].link_ends)
        # The inverse of the mean of the inverses neither over- nor underflows where a product of both would.
        out[...] = 2 / (1 / lower + 1 / upper) if harmonic else (lower + upper) / 2

    def _weighted(self, values: Array) -> Array:
        """Values at the nodes that are owned, times the trapezoidal weights."""
        for axis, line in enumerate(self._lattice.axes):
            values *= self._lattice.along(axis, line.widths[line.owned])
        return values

    def _apply(self, u: Array) -> Array:
        """A u at every node; at fixed nodes without a meaning."""
        au = self._reaction() * u
        for axis, (line, coupling) in enumerate(zip(self._lattice.axes, self.operator.couplings, strict=True)):
            place = self._lattice.array_axis(axis)
            # In place: fresh memory for each step takes longer than the step.
            lower, upper = (u.take(nodes, axis=place) for nodes in line.neighbours)
            np.subtract(u, lower, out=lower)
            np.subtract(u, upper, out=upper)
            if self.operator.links is not None or line.tabulated:
                below, above, extra = self._links(axis)
                lower *= below
                upper *= above
            lower += upper
            if line.tabulated:
                lower += extra * u
            lower *= self._real(coupling)
            au += lower
        return au

    def _scale(self, omega: float) -> Any:
        """omega / diag(A): a number, or an array where it varies."""
        if self.operator.has_one_diagonal:
            return self._real(omega / self.operator.diagonal)
        diagonal = self._reaction()
        for axis, coupling in enumerate(self.operator.couplings):
            below, above, extra = self._links(axis)
            diagonal = diagonal + self._real(coupling) * (below + above if extra is None else below + above + extra)
        if (mask := self.operator.mask) is not None:
            diagonal = np.where(mask, self._real(np.inf), diagonal)
        return self._real(omega) / diagonal

    def _reaction(self) -> Any:
        """c: a number, or an array where it varies; 0 at nodes of the mask."""
        reaction = self.operator.reaction
        if reaction is None:
            return self._real(self.operator.c)
        return np.maximum(reaction, 0) if self.operator.fixed else reaction

    def _links(self, axis: int) -> tuple[Any, Any, Any | None]:
        """The weights of the differences to the lower and the upper neighbour along an axis, and that of u itself."""
        line = self._lattice.axes[axis]
        below: Any = 1
        above: Any = 1
        if self.operator.links is not None:
            place = self._lattice.array_axis(axis)
            below, above = (np.take(self.operator.links[axis], links, axis=place) for links in line.link_numbers)
        if not line.tabulated:
            return below, above, None
        lower, upper, extra = (
            self._lattice.along(axis, values.astype(self._real)) for values in self.operator.along(axis)
        )
        return lower * below, upper * above, extra * ((below + above) / 2)


class NumpyTransfer(TransferOperations):
    """The operations between two grids, by the tables of each axis."""

    def restrict(self, fine: Array, coarse: Array) -> None:
        values = fine
        for axis, table in enumerate(self.transfer.axes):
            values = _gather(values, axis, *table.restrict)
        coarse[...] = _kept(self.transfer.coarse, self.transfer.coarse.lattice.free, values)

    def prolong_add(self, coarse: Array, fine: Array) -> None:
        values = coarse
        for axis, table in enumerate(self.transfer.axes):
            values = _gather(values, axis, *table.prolong)
        fine[...] = fine + _kept(self.transfer.fine, self.transfer.fine.lattice.free, values)

    def coarsen_links(self, axis: int, fine: Array, coarse: Array) -> None:
        table = self.transfer.axes[axis]
        values = _gather(fine, axis, *table.series)
        for other, table in enumerate(self.transfer.axes):
            if other != axis:
                values = _gather(values, other, *table.mean)
        coarse[...] = values


class NumpyInterpolation(InterpolationOperations):
    """Interpolation, by the tables of each axis."""

    def interpolate(self, source: Array, out: Array) -> None:
        values = source
        for axis, (index, weight) in enumerate(self.interpolation.axes):
            values = _gather(values, axis, index, weight)
        target = self.interpolation.target.lattice
        chosen = np.ones(out.shape, dtype=bool)
        for axis, (_, weight) in enumerate(self.interpolation.axes):
            # At the edge of a halo a node may gather from what is not here.
            chosen &= target.along(axis, np.any(weight != 0.0, axis=1))
        if not self.interpolation.everywhere:
            _kept(self.interpolation.target, target.free, chosen)
        out[chosen] = values[chosen]


class NumpyDifferences(DifferenceOperations):
    """First derivatives, axis by axis."""

    def derivative(self, axis: int, u: Array, out: Array) -> None:
        place = self.differences.lattice.array_axis(axis)
        values, slopes = np.moveaxis(u, place, 0), np.moveaxis(out, place, 0)
        if self.differences.tabulated[axis]:
            first, weights = self.differences.first(axis), self.differences.weights(axis).astype(self.backend.dtype)
            along = (-1,) + (1,) * (u.ndim - 1)
            slopes[...] = sum(
                weight.reshape(along) * (np.take(values, first + m, axis=0, mode="wrap") - values)
                for m, weight in enumerate(weights)
            )
            return
        terms = enumerate(self.differences.central.astype(self.backend.dtype), start=1)
        total = sum(weight * (np.roll(values, -m, axis=0) - np.roll(values, m, axis=0)) for m, weight in terms)
        lower, upper = (rule not in (Rule.WRAP, Rule.HALO) for rule in self.differences.lattice.axes[axis].rules)
        for i, weights in enumerate(self.differences.closure.astype(self.backend.dtype)):
            if lower:
                total[i] = _one_sided(weights, values, i)
            if upper:
                total[-1 - i] = -_one_sided(weights, values[::-1], i)
        slopes[...] = self.backend.dtype.type(1.0 / self.differences.spacing[axis]) * total

    def gradient(self, u: Array, outs: Sequence[Array]) -> None:
        for axis, out in enumerate(outs):
            self.derivative(axis, u, out)


class NumpyProbe(Probe):
    """Copies, and products of matrices."""

    pace = Pace(cycle=300.0, transforms=60.0, call=1e-4, bandwidth=1e10)

    def stream(self, count: int) -> tuple[Callable[[], None], float]:
        x, y = np.ones(count), np.ones(count)

        def copy() -> None:
            np.copyto(x, y)

        return copy, 16.0 * count

    def arithmetic(self, count: int) -> tuple[Callable[[], None], float]:
        rows = math.ceil(count ** (1 / 3))
        a, b = np.random.default_rng(1).random((2, rows, rows)).astype(self.backend.dtype)
        product = np.empty_like(a)

        def multiply() -> None:
            np.matmul(a, b, out=product)

        return multiply, 2.0 * rows**3


class NumpyRows(RowOperations):
    """Rows of a sparse matrix at a few nodes."""

    def replace_rows(self, x: Array, u: Array, out: Array) -> None:
        rows = self.rows
        found = rows.own * np.take(x, rows.nodes) + rows.constant
        row = np.repeat(np.arange(rows.nodes.size), np.diff(rows.starts))
        np.add.at(found, row, rows.weights * np.take(u, rows.beside))
        np.put(out, rows.nodes, found)


class NumpyBackend(Backend):
    """Arrays are NumPy arrays of the grid's shape."""

    name = "numpy"
    on_host = True
    any_axis = True
    bound = MappingProxyType(
        {
            Operator: NumpyOperations,
            Transfer: NumpyTransfer,
            Interpolation: NumpyInterpolation,
            Differences: NumpyDifferences,
            FullStencil: NumpyStencil,
            StencilTransfer: NumpyStencilTransfer,
            Clusters: NumpyClusters,
            SparseRows: NumpyRows,
            Inverse: ScipyInverse,
            DividedInverse: ScipySlab,
        }
    )

    def __init__(self, dtype: np.dtype[Any] | type[np.floating[Any]]) -> None:
        super().__init__(dtype)
        self.device = f"CPU ({platform.machine()}, {quantity(os.cpu_count() or 1, 'core')}), NumPy {np.__version__}"

    def empty(self, array_shape: tuple[int, ...]) -> NDArray[Any]:
        return np.empty(array_shape, dtype=self.dtype)

    def from_host(self, values: NDArray[Any]) -> NDArray[Any]:
        return np.array(values, dtype=self.dtype, order="C")

    def to_host(self, array: NDArray[Any]) -> NDArray[Any]:
        return array.copy()

    def copy_to(self, array: NDArray[Any], out: NDArray[Any]) -> None:
        out[...] = array

    def give(self, array: NDArray[Any], back: Callable[[Array], None]) -> NDArray[Any]:
        return array

    def assemble(self, array_shape: tuple[int, ...], slab: Slab, out: Array | None = None) -> NDArray[Any]:
        array: NDArray[Any] = self.empty(array_shape) if out is None else out
        keep_freed_blocks()
        for start, stop in slabs(array_shape):
            array[start:stop] = slab(np, start, stop)
        return array

    def synchronize(self) -> None:
        return None

    def memory(self) -> tuple[int, int]:
        return host_memory()

    def probe(self) -> NumpyProbe:
        return NumpyProbe(self)

    def reduction(self) -> NDArray[np.float64]:
        return np.zeros(2)

    def read(self, result: NDArray[np.float64]) -> tuple[float, float]:
        return float(result[0]), float(result[1])

    def fill(self, x: Array, value: float) -> None:
        x[...] = value

    def axpby(self, a: float, x: Array, b: float, y: Array) -> None:
        y[...] = self.dtype.type(a) * x + self.dtype.type(b) * y if b else self.dtype.type(a) * x

    def companion(self, dtype: np.dtype[Any] | type[np.floating[Any]]) -> Backend:
        return self if np.dtype(dtype) == self.dtype else NumpyBackend(dtype)

    def correct(self, factor: float, x: Array, y: Array) -> None:
        y[...] = y + self.dtype.type(factor) * x

    def dense(self, matrix: Array, x: Array, y: Array) -> None:
        y[...] = (matrix @ x.ravel()).reshape(y.shape)


def _gather(values: Array, axis: int, index: NDArray[Any], weight: NDArray[Any]) -> Array:
    """The weighted sums along an axis that a transfer table asks for."""
    place = array_axis(axis, values.ndim)
    along = (-1,) + (1,) * axis
    return sum(
        weight[:, n].astype(values.dtype).reshape(along) * np.take(values, index[:, n], axis=place)
        for n in range(index.shape[1])
    )


def _one_sided(weights: NDArray[Any], values: Array, i: int) -> Array:
    """The difference at node i over the nodes from the first on."""
    return sum(weight * (value - values[i]) for weight, value in zip(weights, values, strict=False))


def _kept(operator: Operator, places: tuple[slice, ...], values: Array) -> Array:
    """The same values with zeros outside of a range along each array axis, and at nodes of the mask."""
    if (mask := operator.mask) is not None:
        values[mask] = 0
    for place, kept in enumerate(places):
        for outside in (slice(0, kept.start), slice(kept.stop, None)):
            values[(slice(None),) * place + (outside,)] = 0
    return values
