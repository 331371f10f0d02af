# SPDX-License-Identifier: MIT
"""The direct solution on a GPU where an axis has no transform: products with the matrix of its eigenvectors.

The products are the vendor's, in float64 whatever the type of the arrays; other axes keep their transforms. Along one
axis tridiagonal systems take the place of products (kernels/transforms/radius.hip): beside an angle along r, where its
modes differ, and on large grids along the longest axis without a transform, of axes as long the slowest.
"""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from poisson.backends.base import Array
from poisson.backends.gpu.callers import GivenArray
from poisson.backends.gpu.device_transforms import TransformLauncher, axis_transform
from poisson.backends.gpu.launch import Launcher, blocks_for
from poisson.backends.gpu.slabs import SLAB_SHAPE
from poisson.backends.spectra import Line, require_constant
from poisson.backends.transforms import take_boundary, transformed_axes
from poisson.discrete.operator import Operator

LEAST_CHAINS = 1 << 13
"""Tridiagonal systems, a thread each, from which on they take less time than products with eigenvectors."""


def _chain(operator: Operator, axes: Sequence[int]) -> int | None:
    """The axis along which tridiagonal systems are solved: the radius beside an angle, or the longest without a
    transform.
    """
    lattice = operator.lattice
    if lattice.angle is not None:
        return axes[0] if axes else None
    able = [axis for axis in axes if lattice.axes[axis].transform is None and not lattice.axes[axis].wraps]
    longest = max(able, key=lambda axis: (lattice.axes[axis].modes, axis), default=None)
    if longest is None or operator.unknowns < LEAST_CHAINS * lattice.axes[longest].modes:
        return None
    return longest


class GpuEigenvectors:
    """A direct solution on any axes; `held` as of `Inverse`.

    Raises `ValueError` if the coefficients vary.

    Reference: R. E. Lynch, J. R. Rice and D. H. Thomas, "Direct solution of partial difference equations by tensor
    product methods", Numerische Mathematik 6, 1964.
    """

    def __init__(self, backend: Launcher, operator: Operator, held: bool) -> None:
        require_constant(operator)
        self._backend, self._launcher, self._held = backend, TransformLauncher(backend, operator), held
        lattice, axes = operator.lattice, transformed_axes(operator)
        self._operator, self._free, self._live = operator, lattice.free, bool(axes)
        self._radial, self._chain = lattice.angle is not None, _chain(operator, axes)
        self._products: list[tuple[int, Array, Array]] = []
        lines: list[Line] = []
        total = np.full((1,) * lattice.dimension, operator.c)
        of_angle = np.zeros_like(total)
        for axis in axes:
            if axis == self._chain:
                continue
            line, coupling = lattice.axes[axis], operator.couplings[axis]
            if line.transform is None:
                values, columns, rows = line.eigenvectors
                to_modes, to_nodes = self._on_device(rows[:, line.free]), self._on_device(columns[line.free])
                self._products.append((lattice.array_axis(axis), to_modes, to_nodes))
                values = coupling * values
            else:
                lines.append(Line(operator, axis))
                values = lines[-1].spectrum()[line.free]
            if axis == lattice.angle:
                of_angle = of_angle + lattice.along(axis, values)
            else:
                total = total + lattice.along(axis, values)
        gain = math.prod(line.gain for line in lines)
        # Systems are solved where f and u are, if nothing else wants their values in an array of their own.
        self._in_place = self._chain is not None and not self._products and backend.dtype == np.float64
        if self._chain is not None:
            self._along_chains(self._chain, total, of_angle, gain)
        else:
            total *= gain
            # A mode without an eigenvalue is left out.
            self._inverse = self._on_device(np.divide(1.0, total, out=np.zeros_like(total), where=total > 0.0))
        if not self._in_place:
            shape = [line.modes for line in reversed(lattice.axes)]
            self._values, self._other = (self._on_device(np.zeros(shape)) for _ in range(2))
        none = self._launcher.table_of(np.zeros(max(operator.shape)))
        tables = (none, none, none, self._launcher.scalar(1.0))
        self._transforms = [axis_transform(self._launcher, line, tables) for line in lines]
        backend.prepare(lambda: self.solve(None, None))

    def solve(self, f: Array, u: Array) -> None:
        """u = A⁻¹ f (`InverseOperations.solve`)."""
        if not self._live:
            return
        if not self._radial:
            self._launcher.take_boundary(f, u)
        elif self._backend.shared.launching:
            with self._backend.runtime.in_order():
                take_boundary(self._operator, f, u, self._backend.runtime.xp.asarray)
        if not self.solve_from(f, f, u):
            self._solve_modes(f, u)

    def solve_from(self, f: Array | GivenArray, work: Array, u: Array) -> bool:
        """The same for zeros at fixed nodes, where f keeps its values; false where no axis has a transform."""
        if not self._transforms or not self._live:
            return False
        for transform in self._transforms:
            transform(f if transform is self._transforms[0] else work, work, True, False)
        self._solve_modes(work, work)
        for transform in reversed(self._transforms):
            transform(work, u if transform is self._transforms[0] else work, False, True)
        return True

    def _solve_modes(self, f: Array, out: Array) -> None:
        shared, runtime = self._backend.shared, self._backend.runtime
        if self._radial or not self._in_place:
            shared.recordable = False  # CuPy refuses to record products
        if self._in_place:
            self._solve_chains(f, out, self._other)
            return
        if not shared.launching:
            if self._chain is not None:
                self._solve_chains(None, None, None)
            return
        with runtime.in_order():
            self._values[...] = f[self._free]
            for place, to_modes, _ in self._products:
                self._multiply(to_modes, place)
            if self._chain is not None:
                self._solve_chains(self._values, self._values, self._other)
            else:
                runtime.xp.multiply(self._values, self._inverse, out=self._values)
            for place, _, to_nodes in reversed(self._products):
                self._multiply(to_nodes, place)
            out[self._free] = self._values

    def _along_chains(self, axis: int, others: NDArray[np.float64], of_angle: NDArray[np.float64], gain: float) -> None:
        """Make the arguments of the kernel behind the arrays: `poisson.backends.transforms.along_radius`."""
        operator, line, coupling = self._operator, self._operator.lattice.axes[axis], self._operator.couplings[axis]
        widths = line.widths / line.widths[line.free].sum()
        by_angle = line.coordinates**-2.0 if self._radial else np.zeros(line.nodes)
        rows = np.stack([*line.couplings, by_angle, widths], axis=1)[line.free]
        modes = np.broadcast_shapes(others.shape, of_angle.shape)
        tables = (rows, *(np.broadcast_to(values, modes) / coupling for values in (others, of_angle)))
        count, scale = math.prod(modes), np.float64(1.0 / (coupling * gain))
        if self._in_place:
            nodes, starts = operator.shape, tuple(free.start for free in reversed(operator.lattice.free))
            strides = (1, pitch := self._backend.pitch_of(nodes[0]), pitch * nodes[1])
            self._other = self._backend.runtime.allocate(count * len(rows), np.dtype(np.float64))
        else:
            nodes, starts = tuple(each.modes for each in operator.lattice.axes), (0, 0, 0)
            strides = (1, nodes[0], math.prod(nodes[:2]))
        begin = sum(start * stride for start, stride in zip(starts, strides, strict=False))
        beside, behind = (other for other in range(3) if other != axis)
        inner = modes[operator.lattice.array_axis(beside)] if beside < len(nodes) else 1
        places = (np.int64(begin), np.int32(inner), *(np.int64(strides[other]) for other in (beside, behind, axis)))
        sizes = (np.int32(len(rows)), np.int64(count), *places, scale, np.int32(operator.singular))
        self._chains = (*map(self._on_device, tables), *sizes)
        self._across = (f"-DACROSS={int(axis == 0)}",)
        self._blocks = blocks_for(count, SLAB_SHAPE.block_x)

    def _solve_chains(self, f: Array, out: Array, shares: Array) -> None:
        arguments = (f, out, shares, *self._chains)
        self._backend.launch("radius", "along_radius", SLAB_SHAPE, None, (self._blocks, 1, 1), arguments, self._across)

    def _multiply(self, matrix: Array, place: int) -> None:
        """The values times a matrix along an array axis."""
        matmul, values, product = self._backend.runtime.xp.matmul, self._values, self._other
        last = values.ndim - 1
        if place == last:
            matmul(values.reshape(-1, values.shape[last]), matrix.T, out=product.reshape(-1, values.shape[last]))
        elif place == 0:
            matmul(matrix, values.reshape(len(values), -1), out=product.reshape(len(values), -1))
        else:
            matmul(matrix, values, out=product)
        self._values, self._other = product, values

    def _on_device(self, values: NDArray[np.float64]) -> Array:
        runtime = self._backend.runtime
        array = runtime.allocate(values.size, np.dtype(np.float64)).reshape(values.shape)
        runtime.upload(np.ascontiguousarray(values), array)
        return array
