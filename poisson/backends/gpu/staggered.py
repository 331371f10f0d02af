# SPDX-License-Identifier: MIT
"""The kernels that pass over staggered grids in the memory of CuPy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from poisson.backends.gpu.launch import blocks_for
from poisson.backends.gpu.shapes import MAX_BLOCKS, WEIGHTS_SHAPE
from poisson.mesh.staggered import Staggered, distances

if TYPE_CHECKING:
    from poisson.backends.gpu.launch import Launcher


class GpuStaggered:
    """The passes of `poisson.mac` over arrays on the device, of the backend's type."""

    def __init__(self, backend: Launcher, cells: Staggered) -> None:
        self._cells, self._backend = cells, backend
        self._widths, self._slopes = (
            (*map(backend.table, of), backend.table(of[-1]))[:3] for of in (cells.widths, cells.slopes)
        )
        self._kinds = sum(1 << axis for axis, wraps in enumerate(cells.wraps) if wraps)
        self._with_z = f"-DWITH_Z={len(cells.shape) == 3:d}"

    def takes(self, cells: Any, velocity: Sequence[Any]) -> bool:
        held = all(map(self._backend.runtime.holds, (cells, *velocity)))
        return held and self._cells.fits(self._backend.dtype, cells, velocity)

    def _close_walls(self, walls: int, velocity: Sequence[Any]) -> None:
        nx, ny, nz = (*self._cells.shape, 1)[:3]
        sizes = (np.int32(nx), np.int32(ny), np.int32(nz), np.int32(self._kinds))
        shape, along, across = WEIGHTS_SHAPE, max(nx, ny), max(ny, nz)
        grid = (blocks_for(along, shape.block_x), blocks_for(across, shape.block_y), 2 * len(velocity))
        self._launch("close_walls", grid, (*(*velocity, velocity[-1])[:3], *sizes, np.int32(walls)), False)

    def divergence(self, factor: float, velocity: Sequence[Any], out: Any, walls: int) -> None:
        if walls:
            self._close_walls(walls, velocity)
        arguments = (*(*velocity, velocity[-1])[:3], out, *map(np.int64, distances(out)))
        self._pass("divergence", factor, arguments, self._widths, False)

    def subtract_gradient(self, factor: float, p: Any, velocity: Sequence[Any], links: Sequence[Any]) -> None:
        coefficients = (*links, *(*links, p)[-1:] * 3)[:3]
        arguments = (p, *map(np.int64, distances(p)), *(*velocity, velocity[-1])[:3])
        arguments += (*coefficients, *map(np.int64, distances(coefficients[0])))
        self._pass("subtract_gradient", factor, arguments, self._slopes, bool(links))

    def _pass(self, name: str, factor: float, arguments: tuple[Any, ...], tables: Sequence[Any], linked: bool) -> None:
        nx, ny, nz = (*self._cells.shape, 1)[:3]
        shape = WEIGHTS_SHAPE
        grid = (blocks_for(nx, shape.block_x), min(blocks_for(ny * nz, shape.block_y), MAX_BLOCKS), 1)
        arguments += (np.int32(nx), np.int32(ny), np.int64(ny * nz), np.int32(self._kinds))
        arguments += (self._backend.real(factor), *tables)
        self._launch(name, grid, arguments, linked)

    def _launch(self, name: str, grid: tuple[int, int, int], arguments: tuple[Any, ...], linked: bool) -> None:
        defines = (self._with_z, f"-DLINK_FACTORS={linked:d}")
        with self._backend.in_use():
            with self._backend.ordered():
                self._backend.launch("staggered", name, WEIGHTS_SHAPE, None, grid, arguments, defines)
            self._backend.runtime.release()
