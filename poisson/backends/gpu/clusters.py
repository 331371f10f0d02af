# SPDX-License-Identifier: MIT
"""The correction of strong clusters on the gpu backend."""

from __future__ import annotations

from typing import Any

import numpy as np

from poisson.backends.base import Array
from poisson.backends.gpu.launch import Launcher, blocks_for
from poisson.backends.gpu.marches import OperatorLauncher
from poisson.backends.gpu.shapes import WEIGHTS_SHAPE
from poisson.backends.gpu.tables import tabulated
from poisson.backends.stencils import ClusterOperations
from poisson.discrete.clusters import Clusters
from poisson.discrete.operator import Operator

TEAM = 8
"""Threads of a small cluster."""
SMALL = 64
"""The most nodes of a small cluster."""
PIECE = 4096
"""The nodes of a piece of a large cluster, which a block takes."""


class GpuClusters(ClusterOperations):
    """Launches of the kernels in clusters.hip: one, or where a cluster has several pieces two."""

    backend: Launcher

    def __init__(self, backend: Launcher, clusters: Clusters) -> None:
        super().__init__(backend, clusters)
        nodes = OperatorLauncher(backend, Operator(clusters.lattice))
        self._operator, self._widths = nodes.operator, nodes.widths
        starts, xp = clusters.starts, backend.array_module
        if isinstance(starts, np.ndarray):
            xp = np
        with backend.ordered():
            sizes = starts[1:] - starts[:-1]
            small, large = xp.flatnonzero(sizes <= SMALL), xp.flatnonzero(sizes > SMALL)
        of_large = [self._on_host(values) for values in (large, sizes[large])]
        counts = -(-of_large[1] // PIECE)
        pieces = np.repeat(of_large[0], counts)
        parts = np.arange(pieces.size) - np.repeat(np.cumsum(counts) - counts, counts)
        self._few, self._pieces = small.size, pieces.size
        self._several = bool(np.any(counts > 1))
        members, starts, self._factors, self._small, pieces, parts = map(
            self._there,
            (clusters.nodes, starts, clusters.factors, *(v.astype(np.int32) for v in (small, pieces, parts))),
        )
        self._geometry = (*nodes.constants[:4], members, starts, pieces, parts)
        room = max(1, self._pieces)
        self._sums, self._corrections, self._counters = (
            self._there(np.zeros(count, dtype))
            for count, dtype in ((2 * room, np.float64), (room, np.float64), (room, np.uint32))
        )

    def correct_clusters(self, r: Array, u: Array) -> None:
        shape = WEIGHTS_SHAPE
        blocks = blocks_for(self._few, shape.block_x * shape.block_y // TEAM)
        teams = (self._factors, self._small, np.int32(self._few), np.int32(blocks))
        if blocks + self._pieces:
            arguments = (r, u, *self._geometry, *teams, self._sums, self._corrections, self._counters)
            self._launch("correct_clusters", blocks + self._pieces, arguments)
        if self._several:
            self._launch("correct_clusters_add", self._pieces, (u, *self._geometry, self._corrections))

    def _launch(self, name: str, blocks: int, arguments: tuple[Any, ...]) -> None:
        defines = (f"-DTEAM={TEAM}", f"-DPIECE={PIECE}", *tabulated(self._operator))
        shape, operator = WEIGHTS_SHAPE, self._operator
        self.backend.launch("clusters", name, shape, operator, (blocks, 1, 1), (*arguments, *self._widths), defines)

    def _on_host(self, values: Any) -> Any:
        return values if isinstance(values, np.ndarray) else self.backend.runtime.download(values)

    def _there(self, values: Any) -> Any:
        """Values on the device: where they are, or copied."""
        runtime = self.backend.runtime
        if not isinstance(values, np.ndarray):
            return values
        array = runtime.allocate(max(1, values.size), values.dtype)
        if values.size:
            runtime.upload(values, array[: values.size])
        return array
