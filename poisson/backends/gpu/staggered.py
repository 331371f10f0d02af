# SPDX-License-Identifier: MIT
"""The kernels that pass over staggered grids in the memory of CuPy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from poisson.backends.gpu.launch import blocks_for, or_null
from poisson.backends.gpu.shapes import GATHER_SHAPE, MAX_BLOCKS, Shape
from poisson.mesh.staggered import Staggered, distances

if TYPE_CHECKING:
    from poisson.backends.gpu.launch import Launcher, Result

REDUCING_SHAPE, MOST_BLOCKS = Shape(32, 8, 1, resident=4), 1 << 11
"""The shape of a pass that reduces, and its most blocks: each pays for its part."""


class GpuStaggered:
    """The passes of `poisson.mac` over arrays on the device, of the backend's type."""

    def __init__(self, backend: Launcher, cells: Staggered) -> None:
        self._cells, self._backend = cells, backend
        self._widths, self._slopes = (
            (*map(backend.table, of), backend.table(of[-1]))[:3] for of in (cells.widths, cells.slopes)
        )
        self._kinds = sum(1 << axis for axis, wraps in enumerate(cells.wraps) if wraps)
        self._with_z = f"-DWITH_Z={len(cells.shape) == 3:d}"
        self._unread = backend.reduction()

    def takes(self, cells: Any, velocity: Sequence[Any]) -> bool:
        held = all(map(self._backend.runtime.holds, (cells, *velocity)))
        return held and self._cells.fits(self._backend.dtype, cells, velocity)

    def copies(self, velocity: Sequence[Any]) -> Sequence[Any]:
        """Copies on the device; the arrays themselves, if any of them is there already."""
        if any(map(self._backend.runtime.holds, velocity)):
            return velocity
        return tuple(map(self._backend.brought, velocity))

    def divergence(
        self, factor: float, velocity: Sequence[Any], out: Any, walls: int, result: Result | None = None
    ) -> None:
        """out = factor times the divergence, after zeros on the faces of the box that are bits of `walls`.

        `result` gets the norms of out; without out they are all that is computed.
        """
        rows = (0, 0) if out is None else distances(out)
        arguments = (*(*velocity, velocity[-1])[:3], or_null(out), *map(np.int64, rows), np.int32(walls))
        defines = (f"-DKEPT={out is not None:d}",)
        self._pass("divergence", factor, arguments, self._widths, defines, result or self._unread)

    def subtract_gradient(
        self, factor: float, p: Any, velocity: Sequence[Any], links: Sequence[Any], result: Result | None = None
    ) -> None:
        """velocity −= factor times the gradient of p, times the coefficients of links, if there are any.

        `result` gets the norms of the divergence that is left over −factor.
        """
        coefficients = (*links, *(*links, p)[-1:] * 3)[:3]
        arguments = (p, *map(np.int64, distances(p)), *(*velocity, velocity[-1])[:3])
        arguments += (*coefficients, *map(np.int64, distances(coefficients[0])))
        self._pass("subtract_gradient", factor, arguments, self._slopes, (f"-DLINK_FACTORS={bool(links):d}",))
        if result is not None:
            self.divergence(-1.0 / factor, velocity, None, 0, result)

    def _pass(
        self,
        name: str,
        factor: float,
        arguments: tuple[Any, ...],
        tables: Sequence[Any],
        defines: tuple[str, ...],
        result: Result | None = None,
    ) -> None:
        backend, shape = self._backend, GATHER_SHAPE if result is None else REDUCING_SHAPE
        nx, ny, nz = (*self._cells.shape, 1)[:3]
        columns = blocks_for(nx, shape.block_x)
        most = MAX_BLOCKS if result is None else max(1, MOST_BLOCKS // columns)
        grid = (columns, min(blocks_for(ny * nz, shape.block_y), most), 1)
        arguments += (np.int32(nx), np.int32(ny), np.int64(ny * nz), np.int32(self._kinds))
        arguments += (backend.real(factor), *tables)
        with backend.in_use():
            with backend.ordered():
                backend.reduce("staggered", name, shape, None, grid, arguments, result, (self._with_z, *defines))
            backend.runtime.release()
