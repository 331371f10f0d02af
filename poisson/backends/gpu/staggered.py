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
        self._kinds += 8 if len(cells.shape) == 3 else 0

    def takes(self, cells: Any, velocity: Sequence[Any]) -> bool:
        held = all(map(self._backend.runtime.holds, (cells, *velocity)))
        return held and self._cells.fits(self._backend.dtype, cells, velocity)

    def divergence(self, factor: float, velocity: Sequence[Any], out: Any) -> None:
        arguments = (*(*velocity, velocity[-1])[:3], out, *map(np.int64, distances(out)))
        self._launch("divergence", factor, arguments, self._widths)

    def subtract_gradient(self, factor: float, p: Any, velocity: Sequence[Any], links: Sequence[Any]) -> None:
        coefficients = (*links, *(*links, p)[-1:] * 3)[:3]
        arguments = (p, *map(np.int64, distances(p)), *(*velocity, velocity[-1])[:3])
        arguments += (*coefficients, *map(np.int64, distances(coefficients[0])))
        self._launch("subtract_gradient", factor, arguments, self._slopes, 16 if links else 0)

    def _launch(
        self, name: str, factor: float, arguments: tuple[Any, ...], tables: Sequence[Any], kind: int = 0
    ) -> None:
        nx, ny, nz = (*self._cells.shape, 1)[:3]
        shape = WEIGHTS_SHAPE
        grid = (blocks_for(nx, shape.block_x), min(blocks_for(ny * nz, shape.block_y), MAX_BLOCKS), 1)
        arguments += (np.int32(nx), np.int32(ny), np.int64(ny * nz), np.int32(self._kinds + kind))
        arguments += (self._backend.real(factor), *tables)
        with self._backend.in_use(), self._backend.ordered():
            self._backend.launch("staggered", name, shape, None, grid, arguments)
            self._backend.synchronize()  # the stream of the caller does not wait for this one
