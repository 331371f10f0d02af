# SPDX-License-Identifier: MIT
"""The tables of tabulated axes on a device, as kernels/operator/operator.h reads them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from poisson.backends.gpu.launch import Launcher
from poisson.discrete.operator import Operator
from poisson.mesh.axis import Axis

MARGIN = 160
"""TABLE_MARGIN: nodes on each side beyond an axis, where a pass may look but uses nothing."""


class Tables:
    """The factors of the links along each tabulated axis of an operator, and its control widths.

    Parameters
    ----------
    backend : Launcher
        Where they are.
    operator : Operator
        The operator.

    Attributes
    ----------
    factors, widths : tuple of arrays
        One for each tabulated axis.
    """

    def __init__(self, backend: Launcher, operator: Operator) -> None:
        self._backend = backend
        lines = [line for line in operator.lattice.axes if line.tabulated]
        self.factors = tuple(backend.runtime.allocate(3 * self._stride(line), backend.dtype) for line in lines)
        self.widths = tuple(backend.runtime.allocate(line.nodes, np.dtype(np.float64)) for line in lines)
        for line, values in zip(lines, self.widths, strict=True):
            backend.runtime.upload(line.widths, values)
        self.fill(operator)

    def fill(self, operator: Operator) -> None:
        """Write the factors again, for an operator on the same nodes."""
        axes = zip(operator.lattice.axes, operator.couplings, strict=True)
        tabulated = ((line, coupling) for line, coupling in axes if line.tabulated)
        for (line, coupling), values in zip(tabulated, self.factors, strict=True):
            self._backend.runtime.upload(self._table(line, coupling).astype(self._backend.dtype), values)

    def _table(self, line: Axis, coupling: float) -> NDArray[np.float64]:
        """lower, upper and extra times a/h², with those of the outermost nodes, or around, beyond the ends."""
        index = np.arange(self._stride(line)) - MARGIN
        index = index % line.nodes if line.wraps else np.clip(index, 0, line.nodes - 1)
        return coupling * np.concatenate([values[index] for values in line.couplings])

    def _stride(self, line: Axis) -> int:
        return -(-(line.nodes + 2 * MARGIN) // self._backend.width) * self._backend.width


def tabulated(operator: Operator) -> tuple[str, ...]:
    """The macro that tells a kernel which axes have tables."""
    axes = sum(1 << axis for axis, line in enumerate(operator.lattice.axes) if line.tabulated)
    return (f"-DTABULATED={axes}",) if axes else ()
