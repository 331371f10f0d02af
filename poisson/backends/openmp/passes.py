# SPDX-License-Identifier: MIT
"""The library's direct solutions in few passes over memory: native/transforms/direct.cpp."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from poisson.backends.openmp.library import DirectStructure, LineStructure
from poisson.backends.transforms import links_of_boundary
from poisson.discrete.operator import Operator
from poisson.mesh.boundary import Rule

if TYPE_CHECKING:
    from poisson.backends.openmp.arrays import DeviceArray, DeviceResult
    from poisson.backends.openmp.backend import GivenArray, OpenmpBackend


class LibraryTransform(Protocol):
    """A transform by the library."""

    structure: LineStructure
    scale: float


class Passes:
    """From sources to modes and back, for one operator.

    `backend`: on the host.
    `structure`: to the operator as the library sees it.
    `operator`: with constant coefficients.
    `transforms`: along all axes from the first on, or all but the last; None for one that is not transformed.
    `spectra` (sequence of arrays): the eigenvalues along each axis.
    `tridiagonal`: whether the last axis is not transformed.
    """

    def __init__(
        self,
        backend: OpenmpBackend,
        structure: Any,
        operator: Operator,
        transforms: Sequence[LibraryTransform | None],
        spectra: Sequence[NDArray[np.float64]],
        tridiagonal: bool,
    ) -> None:
        self._backend, self._structure = backend, structure
        count = len(transforms)
        lines = (ctypes.c_void_p * count)(*(ctypes.addressof(each.structure) if each else None for each in transforms))
        scales = (ctypes.c_double * count)(*(each.scale if each else 1.0 for each in transforms))
        links = [link if rule is Rule.FIXED else 0.0 for rule, link in links_of_boundary(operator)]
        self._kept = (transforms, spectra, lines, scales)
        self._direct = ctypes.byref(
            DirectStructure(
                lines=ctypes.addressof(lines),
                scales=ctypes.addressof(scales),
                spectra=(ctypes.c_void_p * 3)(*(values.ctypes.data for values in spectra)),
                links=(ctypes.c_double * 6)(*links),
                transforms=count,
                tridiagonal=tridiagonal,
            )
        )

    def to_modes(self, f: DeviceArray | GivenArray, u: DeviceArray, result: DeviceResult | None) -> None:
        """u gets the modes of f, with what its fixed nodes add, and `result` the norms of f."""
        place = None if result is None else result.pointer
        self._backend.functions.to_modes(self._structure, self._direct, f.pointer, f.pitch, f.shift, u.pointer, place)

    def from_modes(self, u: DeviceArray, f: DeviceArray | GivenArray, result: DeviceResult | None) -> None:
        """u from its modes; `result` gets the norms of f − A u."""
        place = None if result is None else result.pointer
        self._backend.functions.from_modes(self._structure, self._direct, u.pointer, f.pointer, f.pitch, f.shift, place)

    def solve_many(
        self, fs: Sequence[GivenArray], start: DeviceArray
    ) -> tuple[Sequence[DeviceArray], Sequence[Sequence[float]]]:
        """See `CertifyingInverse`; each by one thread."""
        count, norms = len(fs), np.empty((len(fs), 4))
        us = [self._backend.empty(start.shape) for _ in fs]
        self._backend._library.poisson_solve_many(
            *(self._structure, self._direct, count),
            (ctypes.c_void_p * count)(*[f.pointer for f in fs]),
            (ctypes.c_int64 * count)(*[f.pitch for f in fs]),
            start.pointer,
            (ctypes.c_void_p * count)(*[u.pointer for u in us]),
            norms.ctypes.data,
        )
        return us, norms.tolist()
