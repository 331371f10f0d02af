# SPDX-License-Identifier: MIT
"""Strong clusters on the gpu backend: how they are found, and their correction."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import suppress
from types import ModuleType
from typing import Any

import numpy as np

from poisson.backends.base import Array
from poisson.backends.gpu.launch import Launcher, blocks_for
from poisson.backends.gpu.marches import OperatorLauncher
from poisson.backends.gpu.shapes import WEIGHTS_SHAPE
from poisson.backends.gpu.tables import on_device, tabulated
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

    `nodes`, `starts`: those of `Clusters`, on the host or on the device.
    """

    def __init__(self, backend: Launcher, nodes: Any, starts: Any) -> None:
        with backend.ordered():
            small, large, counts = _divided(np if isinstance(starts, np.ndarray) else backend.array_module, starts)
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


def find(
    backend: Launcher, lattice: Lattice, links: tuple[Any, ...], define: str, threshold: float, part: float
) -> Clusters:
    """The clusters of `poisson.discrete.clusters.clusters_of`, without leaving the device.

    `links`: the arguments nx, ny, nz, the mask of the slots, the coefficients and their pitch. `define`: the macro with
    the type of the coefficients.
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
    wait(backend.shared.rehearsal)
    with backend.ordered():
        nodes, first, starts = _listed(xp, labels, grouped)
    if not nodes.size:
        return Clusters(lattice, np.zeros(0, np.int32), np.zeros(1, np.int64), np.zeros(0))
    groups = Groups(backend, nodes, starts)
    held = allocate(2 * first.size, np.dtype(np.float64))
    defines = (define, "-DSECOND_SUM=1")
    arguments = (held, labels, *links, *groups.arguments)
    _over_groups(backend, "clusters_held", operator, groups.teams + groups.pieces, arguments, defines)
    with backend.ordered():
        nodes, starts, factors, squares = _held(xp, nodes, first, starts, held, part * lattice.nodes)
        return Clusters(lattice, nodes, starts, factors, of_all=(int(factors.size), int(nodes.size), int(squares)))


def rehearse(backend: Launcher) -> None:
    """Begin to do what `find` asks CuPy for with two nodes, in threads: at the first time CuPy compiles for seconds."""
    if backend.shared.rehearsal:
        return
    labels, ones, starts = np.zeros(2, np.int32), np.ones(2, np.int32), np.array([0, 2])

    def take(part: Callable[..., Any], *values: Any) -> None:
        xp = backend.array_module
        with suppress(Exception), backend.in_use(), backend.ordered():  # what goes wrong, `find` will say
            part(xp, *(xp.asarray(each) if isinstance(each, np.ndarray) else each for each in values))

    pool = ThreadPoolExecutor(3)
    for part, values in (
        (_listed, (labels, ones)),
        (_held, (labels, starts[:1], starts, np.ones(2), 2.0)),
        (_divided, (starts,)),
    ):
        backend.shared.rehearsal.append(pool.submit(take, part, *values))
    pool.shutdown(wait=False)


def _listed(xp: ModuleType, labels: Any, grouped: Any) -> tuple[Any, Any, Any]:
    """The nodes of groups by their groups, the first of each among them, and where each begins and all end."""
    nodes = xp.flatnonzero(grouped)
    if not nodes.size:
        return (nodes,) * 3
    # The numbers of the nodes make the keys unique: any way to sort them leaves the same order.
    keys = xp.sort(labels[nodes].astype(np.int64) << 32 | nodes)
    nodes, roots_of = (keys & 0xFFFFFFFF).astype(np.int32), keys >> 32
    first = xp.flatnonzero(xp.concatenate([xp.ones(1, bool), roots_of[1:] != roots_of[:-1]])[: nodes.size])
    return nodes, first, xp.concatenate([first, xp.full(1, nodes.size)]).astype(np.int64)


def _divided(xp: ModuleType, starts: Any) -> tuple[Any, Any, Any]:
    """The small groups, the others, and how many pieces each of these has."""
    counts = starts[1:] - starts[:-1]
    small, large = xp.flatnonzero(counts <= SMALL), xp.flatnonzero(counts > SMALL)
    return small.astype(np.int32), large, -(-counts[large] // PIECE)


def _held(xp: ModuleType, nodes: Any, first: Any, starts: Any, held: Any, most: float) -> tuple[Any, ...]:
    """Members, starts and factors of the groups of at most so many nodes that something holds, and the squares' sum."""
    loose, diagonal = held[: 2 * first.size].reshape(-1, 2).T
    counts = starts[1:] - starts[:-1]
    kept = (loose > LOOSE * diagonal) & (counts <= most)
    cluster = xp.zeros(nodes.size, dtype=np.int64)
    cluster[first] = 1
    nodes = nodes[kept[xp.cumsum(cluster) - 1]]
    counts = counts[kept]
    starts = xp.concatenate([xp.zeros(1, np.int64), xp.cumsum(counts)])
    return nodes, starts, DAMPING / loose[kept], (counts * counts).sum()


def on_host(backend: Launcher, values: Any) -> Any:
    """Values on the host, when all that was to be done on the device is done."""
    return values if isinstance(values, np.ndarray) else backend.runtime.download(values)


def _over_groups(
    backend: Launcher, name: str, operator: Operator, blocks: int, arguments: tuple[Any, ...], defines: tuple[str, ...]
) -> None:
    """Launch a kernel with a team or a block for each group or piece."""
    defines = (*defines, f"-DTEAM={TEAM}", f"-DPIECE={PIECE}")
    backend.launch("clusters", name, WEIGHTS_SHAPE, operator, (blocks, 1, 1), arguments, defines)
