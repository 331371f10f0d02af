# SPDX-License-Identifier: MIT
"""The direct solution on a GPU where axes are tabulated: products with the matrices of their eigenvectors.

The products are the vendor's, in float64 whatever the type of the arrays; uniform axes keep their transforms.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from poisson.backends.base import Array
from poisson.backends.gpu.device_transforms import TransformLauncher, axis_transform
from poisson.backends.gpu.launch import Launcher
from poisson.backends.spectra import Line, require_constant
from poisson.backends.transforms import transformed_axes
from poisson.discrete.operator import Operator


class GpuEigenvectors:
    """A direct solution on any axes.

    Raises `ValueError` if the coefficients vary.

    References
    ----------
    R. E. Lynch, J. R. Rice and D. H. Thomas, "Direct solution of partial difference equations by tensor product
    methods", Numerische Mathematik 6, 1964.
    """

    def __init__(self, backend: Launcher, operator: Operator) -> None:
        require_constant(operator)
        self._backend, self._launcher = backend, TransformLauncher(backend, operator)
        lattice, axes = operator.lattice, transformed_axes(operator)
        self._free, self._live = lattice.free, bool(axes)
        self._products: list[tuple[int, Array, Array]] = []
        lines: list[Line] = []
        total = np.full((1,) * lattice.dimension, operator.c)
        for axis in axes:
            line, coupling = lattice.axes[axis], operator.couplings[axis]
            if line.tabulated:
                values, columns, rows = line.eigenvectors
                to_modes, to_nodes = self._on_device(rows[:, line.free]), self._on_device(columns[line.free])
                self._products.append((lattice.array_axis(axis), to_modes, to_nodes))
                values = coupling * values
            else:
                lines.append(Line(operator, axis))
                values = lines[-1].spectrum()[line.free]
            total = total + lattice.along(axis, values)
        total *= math.prod(line.gain for line in lines)
        # A mode without an eigenvalue is left out.
        self._inverse = self._on_device(np.divide(1.0, total, out=np.zeros_like(total), where=total > 0.0))
        self._values, self._other = (self._on_device(np.zeros(total.shape)) for _ in range(2))
        none = self._launcher.table_of(np.zeros(max(operator.shape)))
        tables = (none, none, none, self._launcher.scalar(1.0))
        self._transforms = [axis_transform(self._launcher, line, tables) for line in lines]
        backend.prepare(lambda: self.solve(None, None))

    def solve(self, f: Array, u: Array) -> None:
        """u = A⁻¹ f (`InverseOperations.solve`)."""
        if not self._live:
            return
        self._launcher.take_boundary(f, u)
        for transform in self._transforms:
            transform(f, f, True, False)
        self._solve_modes(f, f if self._transforms else u)
        for transform in reversed(self._transforms):
            transform(f, u if transform is self._transforms[0] else f, False, True)

    def _solve_modes(self, f: Array, out: Array) -> None:
        shared, runtime = self._backend.shared, self._backend.runtime
        if not shared.launching:
            shared.recordable = False  # CuPy refuses to record products
            return
        with runtime.in_order():
            self._values[...] = f[self._free]
            for place, to_modes, _ in self._products:
                self._multiply(to_modes, place)
            runtime.xp.multiply(self._values, self._inverse, out=self._values)
            for place, _, to_nodes in reversed(self._products):
                self._multiply(to_nodes, place)
            out[self._free] = self._values

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
