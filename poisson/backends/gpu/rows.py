# SPDX-License-Identifier: MIT
"""Rows of a sparse matrix at a few nodes on the gpu backend: kernels/operator/rows.hip."""

from __future__ import annotations

import numpy as np

from poisson.backends.base import Array
from poisson.backends.gpu.launch import Launcher, blocks_for, or_null
from poisson.backends.gpu.shapes import Shape
from poisson.backends.gpu.tables import on_device
from poisson.backends.rows import RowOperations
from poisson.discrete.sparse_rows import SparseRows

SHAPE = Shape(128, 1, 1)


class GpuRows(RowOperations):
    """A launch, or two where the array that is written is the one that the entries are read from."""

    backend: Launcher

    def __init__(self, backend: Launcher, rows: SparseRows) -> None:
        super().__init__(backend, rows)
        pitch = backend.pitch_of(rows.shape[0])
        self._count, self._blocks = np.int32(rows.nodes.size), blocks_for(rows.nodes.size, SHAPE.block_x)
        self._places, self._beside = (on_device(backend, rows.places(at, pitch)) for at in (rows.nodes, rows.beside))
        tables = (rows.starts, rows.weights, rows.own, rows.constant)
        self._starts, *self._numbers = (on_device(backend, values) for values in tables)
        self._found = backend.runtime.allocate(max(1, rows.nodes.size), np.dtype(np.float64))

    def replace_rows(self, x: Array, u: Array, out: Array) -> None:
        if not self._blocks:
            return
        tables = (self._places, self._starts, self._beside, *self._numbers, self._count)
        self._launch("replace_rows", (x, u, out, self._found if u is out else or_null(None), *tables))
        if u is out:
            self._launch("rows_put", (self._found, out, self._places, self._count))

    def _launch(self, name: str, arguments: tuple[object, ...]) -> None:
        self.backend.launch("rows", name, SHAPE, None, (self._blocks, 1, 1), arguments)
