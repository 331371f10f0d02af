# SPDX-License-Identifier: MIT
"""The tables of tabulated axes on a device, as kernels/operator/operator.h reads them."""

from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from poisson.backends.gpu.launch import Launcher
from poisson.discrete.operator import Operator
from poisson.discrete.transfer import Transfer
from poisson.mesh.axis import Axis

MARGIN = 160
"""TABLE_MARGIN: nodes on each side beyond an axis, where a pass may look but uses nothing."""


class Tables:
    """The factors of the links along each tabulated axis of an operator, and its control widths.

    `backend`: where they are. `factors`, `widths` (tuple of arrays): one for each tabulated axis.
    """

    def __init__(self, backend: Launcher, operator: Operator) -> None:
        self._backend = backend
        lines = [line for line in operator.lattice.axes if line.tabulated]
        self.factors = tuple(backend.runtime.allocate(4 * self._stride(line), backend.dtype) for line in lines)
        self.widths = tuple(backend.runtime.allocate(line.nodes, np.dtype(np.float64)) for line in lines)
        for line, values in zip(lines, self.widths, strict=True):
            backend.runtime.upload(line.widths, values)
        self.fill(operator)

    def fill(self, operator: Operator) -> None:
        """Write the factors again, for an operator on the same nodes."""
        tabulated = [axis for axis, line in enumerate(operator.lattice.axes) if line.tabulated]
        for axis, values in zip(tabulated, self.factors, strict=True):
            self._backend.runtime.upload(self._table(operator, axis).astype(self._backend.dtype), values)

    def _table(self, operator: Operator, axis: int) -> NDArray[np.float64]:
        """lower, upper, extra and their sum times a/h²; beyond the ends those of the outermost nodes, or around."""
        index, _ = _with_margins(operator.lattice.axes[axis], self._backend.width)
        factors = np.stack(operator.along(axis))[:, index]
        return operator.couplings[axis] * np.concatenate([*factors, factors.sum(axis=0)])

    def _stride(self, line: Axis) -> int:
        return _with_margins(line, self._backend.width)[0].size


def weights_between(backend: Launcher, transfer: Transfer) -> dict[int, Any]:
    """By the number of each tabulated axis that halves its weights, as kernels/multigrid/passes.h has them."""
    found = {}
    for axis, line in enumerate(transfer.fine.lattice.axes):
        if line.tabulated and transfer.halves is not None and transfer.halves[axis]:
            index, inside = _with_margins(line, backend.width)
            found[axis] = backend.table(np.where(inside, transfer.weights(axis)[:, index], 0.0))
    return found


def _with_margins(line: Axis, width: int) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """The nodes of a table with its margins, in whole packs, and which of them are nodes or around from them."""
    place = np.arange(-(-(line.nodes + 2 * MARGIN) // width) * width) - MARGIN
    index = place % line.nodes if line.wraps else np.clip(place, 0, line.nodes - 1)
    return index, (place == index) | line.wraps


def tabulated(operator: Operator) -> tuple[str, ...]:
    """The macro that tells a kernel which axes have tables."""
    axes = sum(1 << axis for axis, line in enumerate(operator.lattice.axes) if line.tabulated)
    return (f"-DTABULATED={axes}",) if axes else ()


def zeros(backend: Launcher, count: int, dtype: DTypeLike = np.float64) -> Any:
    """Zeros on the device, so many or one, in order with the launches; nothing is copied from the host."""
    array = backend.runtime.allocate(max(1, count), np.dtype(dtype))
    backend.runtime.clear(array)
    return array


def on_device(backend: Launcher, values: Any) -> Any:
    """Values on the device: where they are, or copied."""
    if not isinstance(values, np.ndarray):
        return values
    array = backend.runtime.allocate(max(1, values.size), values.dtype)
    if values.size:
        backend.runtime.upload(values, array[: values.size])
    return array
