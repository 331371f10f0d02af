# SPDX-License-Identifier: MIT
"""Strong clusters on the gpu backend: how they are found, and their correction."""

from __future__ import annotations

from typing import Any

import numpy as np

from poisson.backends.base import Array
from poisson.backends.gpu.launch import Launcher, blocks_for
from poisson.backends.gpu.marches import OperatorLauncher
from poisson.backends.gpu.shapes import WEIGHTS_SHAPE
from poisson.backends.gpu.tables import tabulated
from poisson.backends.stencils import ClusterOperations
from poisson.discrete.clusters import DAMPING, LOOSE, Clusters
from poisson.discrete.operator import Operator
from poisson.mesh.lattice import Lattice

TEAM = 8
"""Threads of a small cluster."""
SMALL = 64
"""The most nodes of a small cluster."""
PIECE = 4096
"""The nodes of a piece of a large cluster, which a block takes."""


class Groups:
    """Groups of nodes, as the kernels in clusters.hip read them.

    Parameters
    ----------
    backend : Launcher
        Where the arrays are.
    nodes, starts : array
        The arrays `nodes` and `starts` of `Clusters`, on the host or on the device.
    """

    def __init__(self, backend: Launcher, nodes: Any, starts: Any) -> None:
        xp = np if isinstance(starts, np.ndarray) else backend.array_module
        with backend.ordered():
            counts = starts[1:] - starts[:-1]
            small, large = xp.flatnonzero(counts <= SMALL), xp.flatnonzero(counts > SMALL)
            counts, small = -(-counts[large] // PIECE), small.astype(np.int32)
        clusters, counts = (on_host(backend, values) for values in (large, counts))
        parts = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
        self.pieces = parts.size
        self.several = bool(np.any(counts > 1))
        self.teams = blocks_for(small.size, WEIGHTS_SHAPE.block_x * WEIGHTS_SHAPE.block_y // TEAM)
        tables = (nodes, starts, *(values.astype(np.int32) for values in (np.repeat(clusters, counts), parts)), small)
        room = np.zeros(2 * parts.size), np.zeros(parts.size, np.uint32)
        self.arguments = (
            *(on_device(backend, values) for values in tables),
            *(np.int32(small.size), np.int32(self.teams)),
            *(on_device(backend, values) for values in room),
        )


class GpuClusters(ClusterOperations):
    """Launches of the kernels in clusters.hip: one, or where a cluster has several pieces two."""

    backend: Launcher

    def __init__(self, backend: Launcher, clusters: Clusters) -> None:
        super().__init__(backend, clusters)
        nodes = OperatorLauncher(backend, Operator(clusters.lattice))
        self._operator = nodes.operator
        self._groups = Groups(backend, clusters.nodes, clusters.starts)
        self._factors = on_device(backend, clusters.factors)
        self._corrections = on_device(backend, np.zeros(self._groups.pieces))
        self._geometry = (*nodes.constants[:4], *self._groups.arguments, *nodes.widths)

    def correct_clusters(self, r: Array, u: Array) -> None:
        groups = self._groups
        if groups.teams + groups.pieces:
            arguments = (r, u, self._factors, self._corrections, *self._geometry)
            self._launch("correct_clusters", groups.teams + groups.pieces, arguments)
        if groups.several:
            arguments = (u, self._corrections, *self._geometry)
            self._launch("clusters_add", groups.pieces, arguments)

    def _launch(self, name: str, blocks: int, arguments: tuple[Any, ...]) -> None:
        _over_groups(self.backend, name, self._operator, blocks, arguments, tabulated(self._operator))


def find(backend: Launcher, lattice: Lattice, links: tuple[Any, ...], define: str, threshold: float) -> Clusters:
    """The clusters of `poisson.discrete.clusters.clusters_of`, without leaving the device.

    Parameters
    ----------
    backend : Launcher
        Where the arrays are.
    lattice : Lattice
        The nodes.
    links : tuple
        The arguments nx, ny, nz, the mask of the slots, the coefficients and their pitch.
    define : str
        The macro with the type of the coefficients.
    threshold : float
        As there.
    """
    operator, shape, xp = Operator(lattice), WEIGHTS_SHAPE, backend.array_module
    nx, ny, nz = map(int, links[:3])
    grid = (blocks_for(nx, shape.block_x), blocks_for(ny, shape.block_y), nz)
    allocate = backend.runtime.allocate
    roots = allocate(lattice.nodes, np.dtype(np.float64))
    labels, grouped = (allocate(lattice.nodes, np.dtype(np.int32)) for _ in range(2))
    for name, arguments in (
        ("begin", (roots, labels, grouped, *links)),
        ("join", (roots, labels, *links, np.float64(threshold))),
        ("label", (labels, grouped, *links[:3])),
    ):
        backend.launch("clusters", f"clusters_{name}", shape, operator, grid, arguments, (define,))
    with backend.ordered():
        nodes = xp.flatnonzero(grouped)
        # The numbers of the nodes make the keys unique: any way to sort them leaves the same order.
        keys = xp.sort(labels[nodes].astype(np.int64) << 32 | nodes)
        nodes, roots_of = (keys & 0xFFFFFFFF).astype(np.int32), keys >> 32
        first = xp.flatnonzero(xp.concatenate([xp.ones(1, bool), roots_of[1:] != roots_of[:-1]])[: nodes.size])
        starts = xp.concatenate([first, xp.full(1, nodes.size)]).astype(np.int64)
    groups = Groups(backend, nodes, starts)
    held = allocate(max(2, 2 * first.size), np.dtype(np.float64))
    if first.size:
        defines = (define, "-DSECOND_SUM=1")
        arguments = (held, labels, *links, *groups.arguments)
        _over_groups(backend, "clusters_held", operator, groups.teams + groups.pieces, arguments, defines)
    with backend.ordered():
        loose, diagonal = held[: 2 * first.size].reshape(-1, 2).T
        kept = loose > LOOSE * diagonal
        cluster = xp.zeros(nodes.size, dtype=np.int64)
        cluster[first] = 1
        nodes = nodes[kept[xp.cumsum(cluster) - 1]]
        counts = (starts[1:] - starts[:-1])[kept]
        starts = xp.concatenate([xp.zeros(1, np.int64), xp.cumsum(counts)])
        return Clusters(lattice, nodes, starts, DAMPING / loose[kept])


def on_device(backend: Launcher, values: Any) -> Any:
    """Values on the device: where they are, or copied."""
    if not isinstance(values, np.ndarray):
        return values
    array = backend.runtime.allocate(max(1, values.size), values.dtype)
    if values.size:
        backend.runtime.upload(values, array[: values.size])
    return array


def on_host(backend: Launcher, values: Any) -> Any:
    """Values on the host, when all that was to be done on the device is done."""
    return values if isinstance(values, np.ndarray) else backend.runtime.download(values)


def _over_groups(
    backend: Launcher, name: str, operator: Operator, blocks: int, arguments: tuple[Any, ...], defines: tuple[str, ...]
) -> None:
    """Launch a kernel with a team or a block for each group or piece."""
    defines = (*defines, f"-DTEAM={TEAM}", f"-DPIECE={PIECE}")
    backend.launch("clusters", name, WEIGHTS_SHAPE, operator, (blocks, 1, 1), arguments, defines)
