# SPDX-License-Identifier: MIT
"""u in open space by convolution with a kernel of higher order than the stencil's, on a grid twice as long.

The Gaussian kernels of the orders m = 2 to 8 are −Δ⁻¹ of a charge spread over σ = 1.5 h, whose first m moments but the
zeroth vanish (M. M. Hejlesen, J. T. Rasmussen, P. Chatelain, J. H. Walther, "A high order solver for the unbounded
Poisson equation", Journal of Computational Physics 252, 2013); aliasing is below rounding with that σ. The spectral
one is the field of a point that ends where no two nodes are so far apart, known by its transform (F. Vico, L.
Greengard, M. Ferrando, "Fast convolution with free-space Green's functions", Journal of Computational Physics 323,
2016). Tables of even functions have cosines in the place of exponentials, so that no more than the values themselves
is stored (D. Caprace, T. Gillis, P. Chatelain, "FLUPS", SIAM Journal on Scientific Computing 43, 2021).

u is no solution of the difference equations, and their residual says how far both discretisations are apart.
"""

import contextlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from poisson.backends.base import Operations
from poisson.solvers.iteration import Method, Task
from poisson.solvers.keys import Settings, word
from poisson.solvers.status import Status
from poisson.solvers.stopping import SolveResult

Values = NDArray[np.float64]

KERNELS = ("lattice", "hejlesen2", "hejlesen4", "hejlesen6", "hejlesen8", "spectral")
WIDTH = 1.5
"""σ over the largest spacing."""
AT_ONCE = 1 << 21
"""Modes that are multiplied at once, and distances whose kernel is computed."""


@dataclass(frozen=True)
class KernelSettings(Settings):
    """`kernel`: with which u is convolved in open space; that of the lattice solves the difference equations."""

    kernel: str = word(
        KERNELS[0],
        KERNELS,
        "where all faces are open: the Green's function, that of the difference equations or one "
        "[of higher order](numerics.md#kernels-of-higher-order)",
        rank=15,
    )


class Convolution(Method):
    """A direct method where all faces are open, a is constant and c = 0.

    `operations`: those of A, of which a and the spacings are used. `kernel`: one of `KERNELS` but the first.
    """

    def __init__(self, operations: Operations, kernel: str) -> None:
        from scipy import fft

        self._operations, self._backend = operations, operations.backend
        operator = operations.operator
        spacing = operator.spacing[::-1]
        self._halves = [fft.next_fast_len(count, real=True) for count in operator.array_shape]
        on_host = self._backend.on_host
        with self._workers():
            table = spectral(self._halves, spacing) if kernel == "spectral" else gaussian(kernel, self._halves, spacing)
            table = fft.dctn(table, type=1, overwrite_x=True)
        table *= math.prod(spacing) / operator.a
        with self._backend.ordered():
            self._spectrum = table if on_host else self._backend.array_module.asarray(table)
        self._fft: Any = fft if on_host else self._backend.array_module.fft
        self._norms, self._work = self._backend.reduction(), self._backend.empty(operator.array_shape)

    def run(self, task: Task) -> SolveResult:
        """Convolve f, which has the charges of the faces (`Method.run`)."""
        u, f, stopping, observer, *_ = task
        backend = self._backend
        with backend.ordered(), self._workers():
            backend.view(u)[...] = self._convolved(backend.view(f).astype(np.float64))
        self._operations.certify(u, f, self._work, self._norms)
        norms = backend.read(self._norms)
        norm = stopping.measure(self._operations.operator, norms)
        if observer:
            observer.start(0.0, "nothing: the kernel is not that of the difference equations", 1)
            observer(1, norm)
        return SolveResult(Status.CONVOLVED, 1, u, self._work, 0.0, ((1, norm),), norms=norms)

    def refresh(self) -> bool:
        return False

    def _workers(self) -> contextlib.AbstractContextManager[None]:
        from scipy import fft

        return fft.set_workers(self._backend.threads)

    def _convolved(self, f: Any) -> Any:
        """f is transformed along the last axis, and of its modes some at a time along the others, there and back."""
        fft, shape, lengths = self._fft, f.shape, [2 * half for half in self._halves]
        others = range(f.ndim - 1)
        # A mode of the upper half of an axis has the table of its mirror image.
        numbers = [np.arange(lengths[axis]) for axis in others]
        mirrored = np.ix_(*(np.minimum(each, lengths[axis] - each) for axis, each in enumerate(numbers)))
        mirrored = tuple(map(self._backend.array_module.asarray, mirrored))
        modes = fft.rfft(f, lengths[-1], axis=-1)
        step = max(1, AT_ONCE // math.prod(lengths[:-1]))
        for start in range(0, modes.shape[-1], step):
            some = (..., slice(start, start + step))
            part = modes[some]
            for axis in reversed(others):
                part = fft.fft(part, lengths[axis], axis=axis)
            part *= self._spectrum[some][mirrored]
            for axis in others:
                part = fft.ifft(part, axis=axis)[(slice(None),) * axis + (slice(0, shape[axis]),)]
            modes[some] = part
        return fft.irfft(modes, lengths[-1], axis=-1)[..., : shape[-1]]


def _squares(steps: Sequence[Values]) -> Values:
    return np.asarray(sum(np.square(each) for each in np.ix_(*steps)))


def gaussian(kernel: str, halves: Sequence[int], spacing: Sequence[float]) -> Values:
    """A Gaussian kernel at distances up to so many spacings along each axis."""
    from scipy.special import erf, eval_genlaguerre, exp1

    order, dimension = int(kernel[-1]), len(halves)
    sigma = WIDTH * max(spacing)
    found = np.empty([half + 1 for half in halves])
    steps = [h * np.arange(half + 1.0) for half, h in zip(halves, spacing, strict=True)]
    rows = max(1, AT_ONCE // found[0].size)
    for start in range(0, len(found), rows):
        squares = _squares([steps[0][start : start + rows], *steps[1:]]) / (2.0 * sigma * sigma)
        r = sigma * np.sqrt(2.0 * squares)
        with np.errstate(divide="ignore", invalid="ignore"):
            if dimension == 3:
                values = erf(np.sqrt(squares)) / (4.0 * math.pi * r)
                at_zero = math.sqrt(2.0 / math.pi) / (4.0 * math.pi * sigma)
            else:
                values = -(np.log(r) + exp1(squares) / 2.0) / (2.0 * math.pi)
                at_zero = -(math.log(2.0 * sigma * sigma) - np.euler_gamma) / (4.0 * math.pi)
        values[r == 0.0] = at_zero
        near = sum(eval_genlaguerre(j - 1, dimension / 2.0 - 1.0, squares) / j for j in range(1, order // 2))
        spread = sigma * sigma / 2.0 * (2.0 * math.pi * sigma * sigma) ** (-dimension / 2.0)
        found[start : start + rows] = values + spread * near * np.exp(-squares)
    return found


def spectral(halves: Sequence[int], spacing: Sequence[float]) -> Values:
    """The kernel that ends beyond the longest distance, to the highest modes of the grid, at the same distances."""
    from scipy import fft
    from scipy.special import j0, j1

    lengths = [half * h for half, h in zip(halves, spacing, strict=True)]
    end = math.hypot(*lengths)
    longer = [
        max(half, fft.next_fast_len(math.ceil((end + length) / h / 2.0) + 1, real=True))
        for half, length, h in zip(halves, lengths, spacing, strict=True)
    ]
    k = np.sqrt(
        _squares([math.pi / (half * h) * np.arange(half + 1.0) for half, h in zip(longer, spacing, strict=True)])
    )
    with np.errstate(divide="ignore", invalid="ignore"):
        if len(halves) == 3:
            modes, at_zero = 2.0 * np.square(np.sin(end / 2.0 * k) / k), end * end / 2.0
        else:
            modes = (1.0 - j0(end * k)) / np.square(k) - end * math.log(end) * j1(end * k) / k
            at_zero = end * end * (0.25 - math.log(end) / 2.0)
    modes.flat[0] = at_zero
    modes = fft.dctn(modes, type=1, overwrite_x=True)
    period = math.prod(2.0 * half * h for half, h in zip(longer, spacing, strict=True))
    return np.ascontiguousarray(modes[tuple(slice(0, half + 1) for half in halves)]) / period
