"""The executable specification: every operation in the fewest and plainest lines of NumPy."""

from __future__ import annotations

import math
import os
import platform
from collections.abc import Callable, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from poisson.backends.base import (
    Array,
    Backend,
    DifferenceOperations,
    FastSolver,
    InterpolationOperations,
    Operations,
    Pace,
    Reduction,
    Slab,
    TransferOperations,
)
from poisson.backends.host import host_memory, keep_freed_blocks
from poisson.backends.processors import default_threads
from poisson.backends.transforms import by_scipy
from poisson.discrete.discretisation import Operator
from poisson.discrete.transfer import Interpolation, Transfer
from poisson.mesh.boundary import Rule
from poisson.mesh.differences import Differences
from poisson.mesh.grid import slabs

DEPTH = 4
"""Sweeps that `sweeps` may make; here they come one after the other."""


class NumpyOperations(Operations):
    """The operations of an operator."""

    def __init__(self, backend: Backend, operator: Operator) -> None:
        super().__init__(backend, operator)
        self._real = backend.dtype.type

    def laplacian(self, u: Array, out: Array) -> None:
        inner = (slice(1, -1),) * self.operator.dimension
        out[inner] = self._apply(u)[inner]

    def boundary_conditions(self, u: Array, out: Array) -> None:
        values = _zero_fixed(self.operator, self._apply(u))
        for place in range(self.operator.dimension):
            for end in (0, -1):
                face = (slice(None),) * place + (end,)
                out[face] = values[face]

    def update(self, f: Array | None, au: Array, r: Array, u: Array, omega: float) -> None:
        r[...] = (0.0 if f is None else f) - au
        u[...] = u + self._scale(omega) * r

    def norm(self, r: Array, result: Reduction) -> None:
        values = r.astype(np.float64)
        result[0] = np.sum(values * values)
        result[1] = np.max(np.abs(values))

    def sweep(self, u: Array, f: Array | None, out: Array, omega: float, result: Reduction | None = None) -> None:
        r = np.empty_like(u)
        self.residual(u, f, r, result)
        out[...] = u + self._scale(omega) * r

    def depth(self) -> int:
        return DEPTH

    def sweeps(
        self,
        u: Array,
        f: Array | None,
        out: Array,
        weights: Sequence[float],
        result: Reduction | None = None,
    ) -> None:
        out[...] = u
        for sweep, omega in enumerate(weights, start=1):
            self.sweep(out, f, out, omega, result if sweep == len(weights) else None)

    def color_sweep(self, u: Array, f: Array | None, color: int, omega: float) -> None:
        relaxed = np.empty_like(u)
        self.sweep(u, f, relaxed, omega)
        chosen = np.indices(u.shape).sum(axis=0) % 2 == color
        u[chosen] = relaxed[chosen]

    def residual(self, u: Array, f: Array | None, r: Array, result: Reduction | None = None) -> None:
        r[...] = _zero_fixed(self.operator, (0.0 if f is None else f) - self._apply(u))
        if result is not None:
            self.norm(r, result)

    def dot(self, x: Array, y: Array, result: Reduction) -> None:
        products = x.astype(np.float64) * y
        for face, rule in enumerate(self.operator.rules):
            if rule is Rule.MIRROR:
                products[_face(self.operator, face)] *= 0.5
        result[0] = np.sum(products)
        result[1] = 0.0

    def diagonal_solve(self, r: Array, z: Array, omega: float, result: Reduction | None = None) -> None:
        z[...] = _zero_fixed(self.operator, self._scale(omega) * r)
        if result is not None:
            self.dot(r, z, result)

    def direction(self, z: Array, beta: float, p: Array, out: Array, q: Array, result: Reduction) -> None:
        out[...] = _zero_fixed(self.operator, z + self._real(beta) * p if beta else z.copy())
        q[...] = _zero_fixed(self.operator, self._apply(out))
        self.dot(out, q, result)

    def advance(self, alpha: float, p: Array, q: Array, u: Array, r: Array, result: Reduction) -> None:
        u[...] = u + self._real(alpha) * p
        r[...] = r - self._real(alpha) * q
        self.norm(r, result)

    def defect(self, u: Array, f: Array | None, factor: float, r: Array, result: Reduction | None = None) -> None:
        full = np.empty_like(u)
        self.residual(u, f, full, result)
        r[...] = self._real(factor) * full

    def edges(self, axis: int, a: Array, harmonic: bool, out: Array) -> None:
        place = self.operator.dimension - 1 - axis
        index = np.arange(self.operator.shape[axis])
        if self.operator.axis_rules(axis)[1] is not Rule.WRAP:
            index[-1] = index[-2]
        lower, upper = np.take(a, index, axis=place), np.take(a, (index + 1) % index.size, axis=place)
        # The inverse of the mean of the inverses neither over- nor underflows where a product of both would.
        out[...] = 2 / (1 / lower + 1 / upper) if harmonic else (lower + upper) / 2

    def fast_solver(self) -> FastSolver:
        return by_scipy(self.operator, default_threads())

    def _apply(self, u: Array) -> Array:
        """A u at every node; at fixed nodes without a meaning."""
        reaction = self.operator.reaction
        au = (self._real(self.operator.c) if reaction is None else reaction) * u
        for axis, weight in enumerate(self.operator.weights):
            lower, upper = _neighbours(self.operator, u, axis)
            below, above = _links(self.operator, axis)
            au = au + self._real(weight) * (below * (u - lower) + above * (u - upper))
        return au

    def _scale(self, omega: float) -> Any:
        """omega / diag(A): a number, or an array where it varies."""
        if not self.operator.varies:
            return self._real(omega / self.operator.diagonal)
        diagonal: Any = self._real(self.operator.c) if self.operator.reaction is None else self.operator.reaction
        for axis, weight in enumerate(self.operator.weights):
            below, above = _links(self.operator, axis)
            diagonal = diagonal + self._real(weight) * (below + above)
        return self._real(omega) / diagonal


class NumpyTransfer(TransferOperations):
    """The operations between two grids, by the tables of each axis."""

    def restrict(self, fine: Array, coarse: Array) -> None:
        values = fine
        for axis, table in enumerate(self.transfer.axes):
            values = _gather(values, axis, table.restrict_index, table.restrict_weight)
        coarse[...] = _zero_fixed(self.transfer.coarse, values)

    def prolong_add(self, coarse: Array, fine: Array) -> None:
        values = coarse
        for axis, table in enumerate(self.transfer.axes):
            values = _gather(values, axis, table.prolong_index, table.prolong_weight)
        fine[...] = fine + _zero_fixed(self.transfer.fine, values)

    def coarsen_edges(self, axis: int, fine: Array, coarse: Array) -> None:
        table = self.transfer.axes[axis]
        values = _gather(fine, axis, table.series_index, table.series_weight)
        for other, table in enumerate(self.transfer.axes):
            if other != axis:
                values = _gather(values, other, table.mean_index, table.mean_weight)
        coarse[...] = values


class NumpyInterpolation(InterpolationOperations):
    """Interpolation, by the tables of each axis."""

    def interpolate(self, source: Array, out: Array) -> None:
        values = source
        for axis, (index, weight) in enumerate(self.interpolation.axes):
            values = _gather(values, axis, index, weight)
        chosen = np.ones(out.shape, dtype=bool)
        if not self.interpolation.everywhere:
            _zero_fixed(self.interpolation.target, chosen)
        out[chosen] = values[chosen]


class NumpyDifferences(DifferenceOperations):
    """First derivatives, axis by axis."""

    def derivative(self, axis: int, u: Array, out: Array) -> None:
        place = self.differences.dimension - 1 - axis
        values, slopes = np.moveaxis(u, place, 0), np.moveaxis(out, place, 0)
        terms = enumerate(self.differences.central.astype(self.backend.dtype), start=1)
        total = sum(weight * (np.roll(values, -m, axis=0) - np.roll(values, m, axis=0)) for m, weight in terms)
        if not self.differences.periodic[axis]:
            closure = self.differences.closure.astype(self.backend.dtype)
            for i, weights in enumerate(closure):
                total[i] = _one_sided(weights, values, i)
                total[-1 - i] = -_one_sided(weights, values[::-1], i)
        slopes[...] = self.backend.dtype.type(1.0 / self.differences.spacing[axis]) * total

    def gradient(self, u: Array, outs: Sequence[Array]) -> None:
        for axis, out in enumerate(outs):
            self.derivative(axis, u, out)


class NumpyBackend(Backend):
    """Arrays are NumPy arrays of the grid's shape."""

    name = "numpy"
    on_host = True
    bound = MappingProxyType(
        {
            Operator: NumpyOperations,
            Transfer: NumpyTransfer,
            Interpolation: NumpyInterpolation,
            Differences: NumpyDifferences,
        }
    )
    pace = Pace(cycle=300.0, transforms=60.0, call=1e-4, bandwidth=1e10)

    def __init__(self, dtype: np.dtype[Any] | type[np.floating[Any]]) -> None:
        super().__init__(dtype)
        self.device = f"CPU ({platform.machine()}, {os.cpu_count()} cores), NumPy {np.__version__}"

    def empty(self, array_shape: tuple[int, ...]) -> NDArray[Any]:
        return np.empty(array_shape, dtype=self.dtype)

    def from_host(self, values: NDArray[Any]) -> NDArray[Any]:
        return np.array(values, dtype=self.dtype, order="C")

    def to_host(self, array: NDArray[Any]) -> NDArray[Any]:
        return array.copy()

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

    def stream(self, count: int) -> tuple[Callable[[], None], float]:
        x, y = np.ones(count), np.ones(count)

        def copy() -> None:
            np.copyto(x, y)

        return copy, 16.0 * count

    def arithmetic(self, count: int) -> tuple[Callable[[], None], float]:
        rows = math.ceil(count ** (1 / 3))
        a, b = np.random.default_rng(1).random((2, rows, rows)).astype(self.dtype)
        product = np.empty_like(a)

        def multiply() -> None:
            np.matmul(a, b, out=product)

        return multiply, 2.0 * rows**3

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
    place = values.ndim - 1 - axis
    along = (-1,) + (1,) * axis
    return sum(
        weight[:, n].astype(values.dtype).reshape(along) * np.take(values, index[:, n], axis=place)
        for n in range(index.shape[1])
    )


def _neighbours(operator: Operator, u: Array, axis: int) -> tuple[Array, Array]:
    """The lower and the upper neighbour of every node along an axis."""
    place = operator.dimension - 1 - axis
    index = np.arange(operator.shape[axis])
    lower, upper = index - 1, index + 1
    rules = operator.axis_rules(axis)
    lower[0] = index[-1] if rules[0] is Rule.WRAP else 1
    upper[-1] = 0 if rules[1] is Rule.WRAP else index[-2]
    return np.take(u, lower, axis=place), np.take(u, upper, axis=place)


def _links(operator: Operator, axis: int) -> tuple[Any, Any]:
    """The coefficients of the links below and above every node along an axis; ones where a is constant."""
    if operator.edges is None:
        return 1, 1
    edges = operator.edges[axis]
    index = np.arange(operator.shape[axis])
    lower, upper = index - 1, index.copy()
    rules = operator.axis_rules(axis)
    if rules[0] is not Rule.WRAP:
        lower[0], upper[-1] = 0, index[-2]
    place = operator.dimension - 1 - axis
    return np.take(edges, lower, axis=place), np.take(edges, upper, axis=place)


def _one_sided(weights: NDArray[Any], values: Array, i: int) -> Array:
    """The difference at node i over the nodes from the first on."""
    return sum(weight * (value - values[i]) for weight, value in zip(weights, values, strict=False))


def _face(operator: Operator, face: int) -> tuple[slice | int, ...]:
    """The index of the nodes on a face."""
    place = operator.dimension - 1 - face // 2
    return (slice(None),) * place + (-1 if face % 2 else 0,)


def _zero_fixed(operator: Operator, values: Array) -> Array:
    """The same values with zeros at fixed nodes."""
    for face, rule in enumerate(operator.rules):
        if rule is Rule.FIXED:
            values[_face(operator, face)] = 0.0
    return values
