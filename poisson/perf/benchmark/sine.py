# SPDX-License-Identifier: MIT
"""The plain solver by sine transforms that anyone would write first, to compare ours with."""

import math
import os
from types import ModuleType
from typing import Any

import numpy as np

from poisson.mesh.boundary import Kind
from poisson.mesh.lattice import Lattice


class SineTransforms:
    """Solves −∇²u = f with u = 0 on the faces: transform, divide by the eigenvalues, transform back.

    On the host it is `scipy.fft.dstn`. CuPy has no sine transform of the first kind: it is the imaginary part of a
    Fourier transform of twice the length, one axis after the other. `xp` is numpy or cupy, where the arrays are; 0
    `threads` of scipy are all cores.
    """

    def __init__(self, xp: ModuleType, grid: Lattice, threads: int = 0) -> None:
        self._xp = xp
        self._workers = threads or len(os.sched_getaffinity(0))
        self._eigenvalues: Any = 0.0
        for axis, line in enumerate(grid.facing((Kind.DIRICHLET,) * (2 * grid.dimension)).axes):
            along = grid.along(axis, line.eigenvalues / line.spacing**2)
            self._eigenvalues = self._eigenvalues + xp.asarray(along)

    def solve(self, f: Any) -> Any:
        """Solve for a source at all nodes that is zero on the faces, and wait for u at the inner nodes."""
        inner = (slice(1, -1),) * f.ndim
        if self._xp is np:
            from scipy import fft

            spectrum = fft.dstn(f[inner], type=1, workers=self._workers)
            spectrum /= self._eigenvalues
            return fft.idstn(spectrum, type=1, workers=self._workers, overwrite_x=True)
        spectrum = self._transform(f[inner])
        spectrum /= self._eigenvalues
        values = self._transform(spectrum)
        values *= math.prod(2.0 / (nodes - 1) for nodes in f.shape)
        self._xp.cuda.Device().synchronize()
        return values

    def _transform(self, values: Any) -> Any:
        """The sums of the values times sin(π j k / n) along every axis."""
        for axis, nodes in enumerate(values.shape):
            front = [(0, 0)] * values.ndim
            front[axis] = (1, 0)
            spectrum = self._xp.fft.rfft(self._xp.pad(values, front), 2 * (nodes + 1), axis)
            kept = [slice(None)] * values.ndim
            kept[axis] = slice(1, nodes + 1)
            values = -spectrum[tuple(kept)].imag
        return values
