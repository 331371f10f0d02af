# SPDX-License-Identifier: MIT
"""Passes of the OpenMP library over staggered grids in the memory of NumPy."""

from __future__ import annotations

from collections.abc import Sequence
from ctypes import byref, c_int32, c_int64, c_void_p
from typing import TYPE_CHECKING, Any

import numpy as np

from poisson.backends.openmp.library import StaggeredStructure, functions_of
from poisson.mesh.staggered import Staggered, distances

if TYPE_CHECKING:
    from poisson.backends.openmp.arrays import DeviceResult
    from poisson.backends.openmp.backend import OpenmpBackend


class OpenmpStaggered:
    """The passes of `poisson.mac` over arrays of NumPy of the backend's type."""

    def __init__(self, backend: OpenmpBackend, cells: Staggered) -> None:
        self._cells, self._dtype = cells, backend.dtype
        self._functions = functions_of(backend._library, backend.dtype)
        dimension = len(cells.shape)
        self._tables = [[np.asarray(each, self._dtype) for each in of] for of in (cells.widths, cells.slopes)]
        widths, slopes = ((c_void_p * 3)(*(each.ctypes.data for each in of)) for of in self._tables)
        self._structure = StaggeredStructure(
            dimension=dimension,
            threads=backend.threads,
            wraps=(c_int32 * 3)(*cells.wraps),
            shape=(c_int64 * 3)(*cells.shape, *(1,) * (3 - dimension)),
            widths=widths,
            slopes=slopes,
        )

    def takes(self, cells: Any, velocity: Sequence[Any]) -> bool:
        ours = all(isinstance(each, np.ndarray) and each.flags.writeable for each in (cells, *velocity))
        return ours and self._cells.fits(self._dtype, cells, velocity)

    def divergence(
        self, factor: float, velocity: Sequence[Any], out: Any, walls: int, result: DeviceResult | None = None
    ) -> None:
        """out = factor times the divergence, after zeros on the faces that are bits of `walls`; `result`: its norms."""
        faces = [each.ctypes.data for each in velocity]
        self._functions.divergence(
            byref(self._structure),
            factor,
            walls,
            *(*faces, faces[-1])[:3],
            out.ctypes.data,
            *distances(out),
            None if result is None else result.pointer,
        )

    def subtract_gradient(
        self, factor: float, p: Any, velocity: Sequence[Any], links: Sequence[Any], result: DeviceResult | None = None
    ) -> None:
        """velocity −= factor times the gradient of p; `result` gets the norms of the divergence left over −factor."""
        faces, between = ([each.ctypes.data for each in of] for of in (velocity, links))
        self._functions.subtract_gradient(
            byref(self._structure),
            factor,
            p.ctypes.data,
            *distances(p),
            *(*faces, faces[-1])[:3],
            *(*between, None, None, None)[:3],
            *(distances(links[0]) if links else (0, 0)),
            None if result is None else result.pointer,
        )
