"""The operations of the gpu backend between grids and on the coefficients of links, and the product with a matrix."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from poisson.backends.base import Array
from poisson.backends.gpu.launch import Launcher, blocks_for, sizes
from poisson.backends.gpu.shapes import DENSE_SHAPE, GATHER_SHAPE, VECTOR_SHAPE, Shape
from poisson.discrete.discretisation import Operator
from poisson.discrete.transfer import Interpolation, Transfer
from poisson.mesh.boundary import Rule

Tables = tuple[tuple[NDArray[np.int32], NDArray[np.float64]], ...]
"""Indices and weights of each axis, by which the nodes of one grid gather from those of another."""


class TransferOperations(Launcher):
    """Launches of the kernels in transfer.hip and grids.hip, and of the product with a matrix in vectors.hip."""

    def restrict(self, transfer: Transfer, fine: Array, coarse: Array) -> None:
        arguments = self._gathering(
            "restrict",
            (transfer.fine, fine),
            (transfer.coarse, coarse),
            lambda: tuple((axis.restrict_index, axis.restrict_weight) for axis in transfer.axes),
        )
        shape = self.shapes.of("restrict", transfer.coarse)
        grid = self._march_grid(transfer.coarse, shape, width=1)
        self._launch("transfer", "restrict", shape, transfer.coarse, grid, arguments)

    def prolong_add(self, transfer: Transfer, coarse: Array, fine: Array) -> None:
        arguments = self._gathering(
            "prolong",
            (transfer.coarse, coarse),
            (transfer.fine, fine),
            lambda: tuple((axis.prolong_index, axis.prolong_weight) for axis in transfer.axes),
        )
        shape = self.shapes.of("prolong_add", transfer.fine)
        arguments = (*arguments, sizes(transfer.coarse)[0])
        self._launch("transfer", "prolong_add", shape, transfer.fine, self._march_grid(transfer.fine, shape), arguments)

    def interpolate(self, interpolation: Interpolation, source: Array, out: Array) -> None:
        coarse, target = interpolation.source, interpolation.target
        arguments = self._gathering("interpolate", (coarse, source), (target, out), lambda: interpolation.axes)
        defines: tuple[str, ...] = (f"-DEVERYWHERE={interpolation.everywhere:d}",)
        if any(few > many for few, many in zip(coarse.shape, target.shape, strict=True)):
            self._over_nodes("grids", "interpolate_gather", target, arguments, defines, GATHER_SHAPE)
            return
        defines += tuple(f"-DHALVE_{name}={_halves(interpolation, axis):d}" for axis, name in enumerate("XY"))
        shape = self.shapes.of("interpolate", target)
        lines = shape.rows if target.dimension == 3 else 1
        grid = self._march_grid(target, replace(shape, block_y=shape.block_y * lines))
        self._launch("grids", "interpolate", shape, target, grid, (*arguments, sizes(coarse)[0]), defines)

    def edges(self, operator: Operator, axis: int, a: Array, harmonic: bool, out: Array) -> None:
        grid, (_, rows, pitch) = self._row_grid(a)
        arguments = (a, out, *sizes(operator), rows, pitch)
        defines = (f"-DALONG={axis}", f"-DHARMONIC={harmonic:d}")
        self._launch("grids", "edges", VECTOR_SHAPE, operator, grid, arguments, defines)

    def coarsen_edges(self, transfer: Transfer, axis: int, fine: Array, coarse: Array) -> None:
        def tables() -> Tables:
            return tuple(
                (table.series_index, table.series_weight) if along == axis else (table.mean_index, table.mean_weight)
                for along, table in enumerate(transfer.axes)
            )

        arguments = self._gathering(f"edges {axis}", (transfer.fine, fine), (transfer.coarse, coarse), tables)
        self._over_nodes("grids", "coarsen_edges", transfer.coarse, arguments, (f"-DALONG={axis}",))

    def dense(self, matrix: Array, x: Array, y: Array) -> None:
        nx, nodes = x.shape[-1], x.size
        grid = (blocks_for(nodes, DENSE_SHAPE.block_y), 1, 1)
        arguments = (matrix, x, y, np.int32(nx), np.int32(nodes), self._pitch(matrix), self._pitch(x))
        self._launch("vectors", "dense", DENSE_SHAPE, None, grid, arguments)

    def _gathering(
        self, name: str, source: tuple[Operator, Array], target: tuple[Operator, Array], tables: Callable[[], Tables]
    ) -> tuple[Any, ...]:
        """The arguments of a kernel with which the nodes of one grid gather from those of another by tables."""
        (from_grid, values), (to_grid, out) = source, target
        key = (name, from_grid.shape, to_grid.shape, from_grid.rules)
        if key not in self._tables:
            axes = tables()
            # In 2D kernels have tables along z too, and do not look at them.
            self._tables[key] = tuple(self._table(part) for axis in (*axes, axes[-1])[:3] for part in axis)
        layout = (sizes(from_grid)[1], self._pitch(values), *sizes(to_grid), self._pitch(out))
        return (values, out, *layout, *self._tables[key])

    def _over_nodes(
        self,
        source: str,
        name: str,
        operator: Operator,
        arguments: tuple[Any, ...],
        defines: tuple[str, ...] = (),
        shape: Shape = VECTOR_SHAPE,
    ) -> None:
        """Launch a kernel with one thread for each node."""
        nx, ny, nz = (int(n) for n in sizes(operator))
        grid = (blocks_for(nx, shape.block_x), blocks_for(ny, shape.block_y), nz)
        self._launch(source, name, shape, operator, grid, arguments, defines)


def _halves(interpolation: Interpolation, axis: int) -> bool:
    """Whether the source has half the intervals along an axis."""
    wraps = interpolation.target.axis_rules(axis)[0] is Rule.WRAP
    few, many = interpolation.source.shape[axis], interpolation.target.shape[axis]
    return many == (2 * few if wraps else 2 * few - 1)
