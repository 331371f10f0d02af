# SPDX-License-Identifier: MIT
"""The operations of the gpu backend between grids."""

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from poisson.backends.base import Array
from poisson.backends.gpu.launch import Launcher, blocks_for, sizes
from poisson.backends.gpu.marches import OperatorLauncher, mask_of, masked
from poisson.backends.gpu.passes import Pass
from poisson.backends.gpu.shapes import GATHER_SHAPE, VECTOR_SHAPE, Shape
from poisson.backends.gpu.smooth import PassLauncher
from poisson.backends.gpu.tables import weights_between
from poisson.backends.transfers import InterpolationOperations, TransferOperations
from poisson.discrete.discretisation import Operator
from poisson.discrete.transfer import Interpolation, Transfer
from poisson.mesh.axis_transfer import GATHERED

Tables = Sequence[tuple[NDArray[np.int32], NDArray[np.float64]]]
"""Indices and weights of each axis, by which the nodes of one grid gather from those of another."""

RESTRICT = Pass(zero=False, correct=False, sweeps=0, residual=False)
CORRECT = Pass(zero=False, correct=True, sweeps=0, residual=False)


class GpuTransfer(TransferOperations):
    """The operations between two grids: between grids that halve they are passes of a smoothing without sweeps."""

    backend: Launcher

    def __init__(self, backend: Launcher, transfer: Transfer) -> None:
        super().__init__(backend, transfer)
        self._fine, self._coarse = PassLauncher(backend, transfer.fine), OperatorLauncher(backend, transfer.coarse)
        self._links: dict[int, _Gathering] = {}

    def restrict(self, fine: Array, coarse: Array) -> None:
        if self.transfer.window is not None:
            self._fine.run(RESTRICT, (fine, None, None), (), None, (self, coarse), None)
            return
        target = self.transfer.coarse
        shape = self.backend.shapes.of("restrict", target)
        grid = self._coarse.march_grid(shape, width=1)
        self.backend.launch(
            "transfer",
            "restrict",
            shape,
            target,
            grid,
            (*self._restriction.arguments(fine, coarse), *mask_of(target)),
            (*self._restriction.defines("RESTRICTED"), *masked(target)),
        )

    def prolong_add(self, coarse: Array, fine: Array) -> None:
        if self.transfer.window is not None:
            self._fine.run(CORRECT, (fine, None, fine), (), (self, coarse), None, None)
            return
        target = self.transfer.fine
        if target.lattice.divided:
            arguments = (*self._prolongation.arguments(coarse, fine), *mask_of(target))
            defines = ("-DADD=1", *masked(target))
            _over_nodes(self.backend, "interpolate_gather", target, arguments, defines, GATHER_SHAPE)
            return
        shape = self.backend.shapes.of("prolong_add", target)
        grid = self._fine.march_grid(shape)
        arguments = (*self._prolongation.arguments(coarse, fine), sizes(self.transfer.coarse)[0], *mask_of(target))
        self.backend.launch("transfer", "prolong_add", shape, target, grid, arguments, masked(target))

    def coarsen_links(self, axis: int, fine: Array, coarse: Array) -> None:
        transfer = self.transfer
        if axis not in self._links:
            tables = [table.series if along == axis else table.mean for along, table in enumerate(transfer.axes)]
            self._links[axis] = _Gathering(self.backend, transfer.fine, transfer.coarse, tables)
        arguments = self._links[axis].arguments(fine, coarse)
        defines = (f"-DALONG={axis}", *self._links[axis].defines("ENTRIES"))
        _over_nodes(self.backend, "coarsen_links", transfer.coarse, arguments, defines)

    @cached_property
    def weights(self) -> dict[int, Any]:
        """The tables of weights of tabulated axes that halve, as the passes read them."""
        return weights_between(self.backend, self.transfer)

    @cached_property
    def _restriction(self) -> "_Gathering":
        tables = [axis.restrict for axis in self.transfer.axes]
        return _Gathering(self.backend, self.transfer.fine, self.transfer.coarse, tables)

    @cached_property
    def _prolongation(self) -> "_Gathering":
        tables = [axis.prolong for axis in self.transfer.axes]
        if self.transfer.fine.lattice.divided:
            # The march of prolong_add takes entries that lie side by side; a part has them where they are here.
            tables = [_padded(*table, GATHERED) for table in tables]
        return _Gathering(self.backend, self.transfer.coarse, self.transfer.fine, tables)


class GpuInterpolation(InterpolationOperations):
    """Interpolation by the tables of each axis."""

    backend: Launcher

    def __init__(self, backend: Launcher, interpolation: Interpolation) -> None:
        super().__init__(backend, interpolation)
        coarse, target = interpolation.source, interpolation.target
        self._target = OperatorLauncher(backend, target)
        finer = any(few > many for few, many in zip(coarse.shape, target.shape, strict=True))
        # The march takes any entries along the slowest axis, but along the others those that lie side by side.
        self._gathers = finer or any(axis.whole is not None for axis in target.lattice.axes[:-1])
        tables = [_needed(*table) for table in interpolation.axes] if self._gathers else interpolation.axes
        self._gathering = _Gathering(backend, coarse, target, tables)

    def interpolate(self, source: Array, out: Array) -> None:
        interpolation = self.interpolation
        coarse, target = interpolation.source, interpolation.target
        arguments = self._gathering.arguments(source, out)
        mask = () if interpolation.everywhere else mask_of(target)
        defines = (f"-DEVERYWHERE={interpolation.everywhere:d}", *masked(target) * len(mask))
        if self._gathers:
            defines += self._gathering.defines("ENTRIES")
            _over_nodes(self.backend, "interpolate_gather", target, (*arguments, *mask), defines, GATHER_SHAPE)
            return
        halves = [_halves(interpolation, axis) for axis in range(target.dimension)]
        defines += tuple(f"-DHALVE_{name}={halved:d}" for name, halved in zip("XYZ", halves, strict=False))
        shape = self.backend.shapes.of("interpolate_half" if all(halves) else "interpolate", target)
        shape = replace(shape, march=shape.march + shape.march % 2 * halves[-1])
        lines = shape.rows if target.dimension == 3 else 1
        grid = self._target.march_grid(replace(shape, block_y=shape.block_y * lines))
        arguments = (*arguments, sizes(coarse)[0], *mask)
        self.backend.launch("grids", "interpolate", shape, target, grid, arguments, defines)


class _Gathering:
    """Tables on the device, by which the nodes of one grid gather from those of another."""

    def __init__(self, backend: Launcher, source: Operator, target: Operator, axes: Tables) -> None:
        self._backend = backend
        self._rows, self._sizes = sizes(source)[1], sizes(target)
        self._entries = max(index.shape[1] for index, _ in axes)
        axes = [_padded(*table, self._entries) for table in axes]
        # In 2D kernels have tables along z too, and do not look at them.
        self._tables = tuple(backend.table(part) for axis in (*axes, axes[-1])[:3] for part in axis)

    def defines(self, name: str) -> tuple[str, ...]:
        """The macro with the number of entries of each node, where it is not that of uniform axes."""
        return () if self._entries == GATHERED else (f"-D{name}={self._entries}",)

    def arguments(self, values: Array, out: Array) -> tuple[Any, ...]:
        """The arguments of a kernel that gathers from one array to the other."""
        pitch = self._backend.pitch
        return (values, out, self._rows, pitch(values), *self._sizes, pitch(out), *self._tables)


def _over_nodes(
    backend: Launcher,
    name: str,
    operator: Operator,
    arguments: tuple[Any, ...],
    defines: tuple[str, ...] = (),
    shape: Shape = VECTOR_SHAPE,
) -> None:
    """Launch a kernel of grids.hip with one thread for each node."""
    nx, ny, nz = (int(n) for n in sizes(operator))
    grid = (blocks_for(nx, shape.block_x), blocks_for(ny, shape.block_y), nz)
    backend.launch("grids", name, shape, operator, grid, arguments, defines)


def _padded(
    index: NDArray[np.int32], weight: NDArray[np.float64], entries: int
) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
    """A table of so many entries of each node."""
    missing = ((0, 0), (0, entries - index.shape[1]))
    return np.pad(index, missing, mode="edge"), np.pad(weight, missing)


def _needed(index: NDArray[np.int32], weight: NDArray[np.float64]) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
    """A table without entries that no node needs: where nodes lie on some of the source, one of each is left."""
    entries = max(1, int(np.count_nonzero(weight, axis=1).max()))
    kept = np.argsort(weight == 0.0, axis=1, kind="stable")[:, :entries]
    return np.take_along_axis(index, kept, axis=1), np.take_along_axis(weight, kept, axis=1)


def _halves(interpolation: Interpolation, axis: int) -> bool:
    """Whether the source has half the intervals along an axis, and enough nodes for a cubic."""
    few, many = (operator.lattice.axes[axis] for operator in (interpolation.source, interpolation.target))
    plain = not few.tabulated and few.whole is None and few.nodes >= GATHERED
    return plain and many.intervals == 2 * few.intervals
