"""The executable specification: every operation in the fewest and plainest lines of NumPy."""

from __future__ import annotations

import math
import os
import platform
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from poisson.backends.base import Array, Backend, FastSolver, Pace, Reduction, Slab
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


class NumpyBackend(Backend):
    """Arrays are NumPy arrays of the grid's shape."""

    name = "numpy"
    on_host = True
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

    def laplacian(self, operator: Operator, u: Array, out: Array) -> None:
        inner = (slice(1, -1),) * operator.dimension
        out[inner] = self._apply(operator, u)[inner]

    def boundary_conditions(self, operator: Operator, u: Array, out: Array) -> None:
        values = _zero_fixed(operator, self._apply(operator, u))
        for place in range(operator.dimension):
            for end in (0, -1):
                face = (slice(None),) * place + (end,)
                out[face] = values[face]

    def update(self, operator: Operator, f: Array | None, au: Array, r: Array, u: Array, omega: float) -> None:
        r[...] = (0.0 if f is None else f) - au
        u[...] = u + self._scale(operator, omega) * r

    def norm(self, operator: Operator, r: Array, result: Reduction) -> None:
        values = r.astype(np.float64)
        result[0] = np.sum(values * values)
        result[1] = np.max(np.abs(values))

    def sweep(
        self, operator: Operator, u: Array, f: Array | None, out: Array, omega: float, result: Reduction | None = None
    ) -> None:
        r = np.empty_like(u)
        self.residual(operator, u, f, r, result)
        out[...] = u + self._scale(operator, omega) * r

    def depth(self, operator: Operator) -> int:
        return DEPTH

    def sweeps(
        self,
        operator: Operator,
        u: Array,
        f: Array | None,
        out: Array,
        weights: Sequence[float],
        result: Reduction | None = None,
    ) -> None:
        out[...] = u
        for sweep, omega in enumerate(weights, start=1):
            self.sweep(operator, out, f, out, omega, result if sweep == len(weights) else None)

    def color_sweep(self, operator: Operator, u: Array, f: Array | None, color: int, omega: float) -> None:
        relaxed = np.empty_like(u)
        self.sweep(operator, u, f, relaxed, omega)
        chosen = np.indices(u.shape).sum(axis=0) % 2 == color
        u[chosen] = relaxed[chosen]

    def residual(
        self, operator: Operator, u: Array, f: Array | None, r: Array, result: Reduction | None = None
    ) -> None:
        r[...] = _zero_fixed(operator, (0.0 if f is None else f) - self._apply(operator, u))
        if result is not None:
            self.norm(operator, r, result)

    def fill(self, x: Array, value: float) -> None:
        x[...] = value

    def axpby(self, a: float, x: Array, b: float, y: Array) -> None:
        y[...] = self.dtype.type(a) * x + self.dtype.type(b) * y if b else self.dtype.type(a) * x

    def dot(self, operator: Operator, x: Array, y: Array, result: Reduction) -> None:
        products = x.astype(np.float64) * y
        for face, rule in enumerate(operator.rules):
            if rule is Rule.MIRROR:
                products[_face(operator, face)] *= 0.5
        result[0] = np.sum(products)
        result[1] = 0.0

    def diagonal_solve(
        self, operator: Operator, r: Array, z: Array, omega: float, result: Reduction | None = None
    ) -> None:
        z[...] = _zero_fixed(operator, self._scale(operator, omega) * r)
        if result is not None:
            self.dot(operator, r, z, result)

    def direction(
        self, operator: Operator, z: Array, beta: float, p: Array, out: Array, q: Array, result: Reduction
    ) -> None:
        out[...] = _zero_fixed(operator, z + self.dtype.type(beta) * p if beta else z.copy())
        q[...] = _zero_fixed(operator, self._apply(operator, out))
        self.dot(operator, out, q, result)

    def advance(
        self, operator: Operator, alpha: float, p: Array, q: Array, u: Array, r: Array, result: Reduction
    ) -> None:
        u[...] = u + self.dtype.type(alpha) * p
        r[...] = r - self.dtype.type(alpha) * q
        self.norm(operator, r, result)

    def companion(self, dtype: np.dtype[Any] | type[np.floating[Any]]) -> Backend:
        return self if np.dtype(dtype) == self.dtype else NumpyBackend(dtype)

    def defect(
        self, operator: Operator, u: Array, f: Array | None, factor: float, r: Array, result: Reduction | None = None
    ) -> None:
        full = np.empty_like(u)
        self.residual(operator, u, f, full, result)
        r[...] = self.dtype.type(factor) * full

    def correct(self, factor: float, x: Array, y: Array) -> None:
        y[...] = y + self.dtype.type(factor) * x

    def restrict(self, transfer: Transfer, fine: Array, coarse: Array) -> None:
        values = fine
        for axis, table in enumerate(transfer.axes):
            values = self._gather(values, axis, table.restrict_index, table.restrict_weight)
        coarse[...] = _zero_fixed(transfer.coarse, values)

    def prolong_add(self, transfer: Transfer, coarse: Array, fine: Array) -> None:
        values = coarse
        for axis, table in enumerate(transfer.axes):
            values = self._gather(values, axis, table.prolong_index, table.prolong_weight)
        fine[...] = fine + _zero_fixed(transfer.fine, values)

    def interpolate(self, interpolation: Interpolation, source: Array, out: Array) -> None:
        values = source
        for axis, (index, weight) in enumerate(interpolation.axes):
            values = self._gather(values, axis, index, weight)
        chosen = np.ones(out.shape, dtype=bool)
        if not interpolation.everywhere:
            _zero_fixed(interpolation.target, chosen)
        out[chosen] = values[chosen]

    def edges(self, operator: Operator, axis: int, a: Array, harmonic: bool, out: Array) -> None:
        place = operator.dimension - 1 - axis
        index = np.arange(operator.shape[axis])
        if operator.axis_rules(axis)[1] is not Rule.WRAP:
            index[-1] = index[-2]
        lower, upper = np.take(a, index, axis=place), np.take(a, (index + 1) % index.size, axis=place)
        # The inverse of the mean of the inverses neither over- nor underflows where a product of both would.
        out[...] = 2 / (1 / lower + 1 / upper) if harmonic else (lower + upper) / 2

    def coarsen_edges(self, transfer: Transfer, axis: int, fine: Array, coarse: Array) -> None:
        table = transfer.axes[axis]
        values = self._gather(fine, axis, table.series_index, table.series_weight)
        for other, table in enumerate(transfer.axes):
            if other != axis:
                values = self._gather(values, other, table.mean_index, table.mean_weight)
        coarse[...] = values

    def dense(self, matrix: Array, x: Array, y: Array) -> None:
        y[...] = (matrix @ x.ravel()).reshape(y.shape)

    def fast_solver(self, operator: Operator) -> FastSolver:
        return by_scipy(operator, default_threads())

    def derivative(self, differences: Differences, axis: int, u: Array, out: Array) -> None:
        place = differences.dimension - 1 - axis
        values, slopes = np.moveaxis(u, place, 0), np.moveaxis(out, place, 0)
        terms = enumerate(differences.central.astype(self.dtype), start=1)
        total = sum(weight * (np.roll(values, -m, axis=0) - np.roll(values, m, axis=0)) for m, weight in terms)
        if not differences.periodic[axis]:
            closure = differences.closure.astype(self.dtype)
            for i, weights in enumerate(closure):
                total[i] = _one_sided(weights, values, i)
                total[-1 - i] = -_one_sided(weights, values[::-1], i)
        slopes[...] = self.dtype.type(1.0 / differences.spacing[axis]) * total

    def gradient(self, differences: Differences, u: Array, outs: Sequence[Array]) -> None:
        for axis, out in enumerate(outs):
            self.derivative(differences, axis, u, out)

    def _apply(self, operator: Operator, u: Array) -> Array:
        """A u at every node; at fixed nodes without a meaning."""
        reaction = operator.reaction
        au = (self.dtype.type(operator.c) if reaction is None else reaction) * u
        for axis, weight in enumerate(operator.weights):
            lower, upper = _neighbours(operator, u, axis)
            below, above = _links(operator, axis)
            au = au + self.dtype.type(weight) * (below * (u - lower) + above * (u - upper))
        return au

    def _scale(self, operator: Operator, omega: float) -> Any:
        """omega / diag(A): a number, or an array where it varies."""
        if not operator.varies:
            return self.dtype.type(omega / operator.diagonal)
        diagonal: Any = self.dtype.type(operator.c) if operator.reaction is None else operator.reaction
        for axis, weight in enumerate(operator.weights):
            below, above = _links(operator, axis)
            diagonal = diagonal + self.dtype.type(weight) * (below + above)
        return self.dtype.type(omega) / diagonal

    def _gather(self, values: Array, axis: int, index: NDArray[Any], weight: NDArray[Any]) -> Array:
        """The weighted sums along an axis that a transfer table asks for."""
        place = values.ndim - 1 - axis
        along = (-1,) + (1,) * axis
        return sum(
            weight[:, n].astype(self.dtype).reshape(along) * np.take(values, index[:, n], axis=place)
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
