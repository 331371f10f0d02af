# SPDX-License-Identifier: MIT
"""Rows of a sparse matrix at a few nodes: a structure for the library, which keeps what it uses."""

from __future__ import annotations

from ctypes import byref
from typing import TYPE_CHECKING

import numpy as np

from poisson.backends.openmp.arrays import pitch_of
from poisson.backends.openmp.calls import operations_from_entries
from poisson.backends.openmp.library import RowsStructure
from poisson.backends.rows import RowOperations
from poisson.discrete.sparse_rows import SparseRows

if TYPE_CHECKING:
    from poisson.backends.openmp.backend import OpenmpBackend


@operations_from_entries(SparseRows)
class OpenmpRows(RowOperations):
    """Rows of a sparse matrix at a few nodes."""

    backend: OpenmpBackend

    def __init__(self, backend: OpenmpBackend, rows: SparseRows) -> None:
        super().__init__(backend, rows)
        self.functions = backend.functions
        pitch, structure = pitch_of(rows.shape[0]), RowsStructure(count=rows.nodes.size, threads=backend.threads)
        values = {
            **{"places": rows.places(rows.nodes, pitch), "starts": rows.starts, "found": np.zeros(rows.nodes.size)},
            **{"beside": rows.places(rows.beside, pitch), "weights": rows.weights},
            **{"own": rows.own, "constant": rows.constant},
        }
        structure.kept = {name: backend.table(each, each.dtype) for name, each in values.items() if each.size}
        for name, table in structure.kept.items():
            setattr(structure, name, table.pointer)
        self.structure = byref(structure)
