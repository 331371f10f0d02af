# SPDX-License-Identifier: MIT
"""Strong clusters on the gpu backend: how they are found, and their correction."""

from functools import partial
from typing import Any

import numpy as np

from poisson.backends.base import Array
from poisson.backends.gpu.launch import Launcher, blocks_for
from poisson.backends.gpu.marches import OperatorLauncher
from poisson.backends.gpu.overlap import Grid
from poisson.backends.gpu.shapes import WEIGHTS_SHAPE
from poisson.backends.gpu.tables import on_device, tabulated, zeros
from poisson.backends.stencils import ClusterOperations
from poisson.discrete.clusters import DAMPING, LOOSE, Clusters
from poisson.discrete.contracted import GraphCycle
from poisson.discrete.operator import Operator
from poisson.mesh.lattice import Lattice

TEAM = 8
"""Threads of a small cluster."""
SMALL = 64
"""The most nodes of a small cluster."""
PIECE = 4096
"""The nodes of a piece of a large cluster, which a block takes."""
ROW_TEAM = 16
"""Threads of a node of a graph."""
BEGIN, RESTRICT, SOLVE, END, SPREAD = range(5)
"""The steps of a cycle, as clusters.hip counts them."""
THREADS = WEIGHTS_SHAPE.block_x * WEIGHTS_SHAPE.block_y
SIZES = (f"-DTEAM={TEAM}", f"-DSMALL={SMALL}", f"-DPIECE={PIECE}", f"-DROW_TEAM={ROW_TEAM}")


class Groups:
    """Groups of nodes, as the kernels in clusters.hip read them.

    `operator`: one on their lattice. `nodes`, `starts`: those of `Clusters`, on the host or on the device. `count`,
    `members`, `squares`: how many groups and members there are, and the sum of the squares of the members of each.
    """

    def __init__(self, backend: Launcher, operator: Operator, nodes: Any, starts: Any) -> None:
        self.count, self.members = int(starts.size) - 1, int(nodes.size)
        self.nodes, self.starts = (on_device(backend, values) for values in (nodes, starts))
        small = backend.runtime.allocate(max(1, self.count), np.dtype(np.int32))
        most = self.members // SMALL + self.members // PIECE + 1
        pieces = backend.runtime.allocate(most, np.dtype(np.int64))
        counts = zeros(backend, 4, np.uint64)
        arguments = (self.starts, np.int32(self.count), small, pieces, counts)
        _over_items(backend, "divide", operator, max(1, self.count), arguments)
        few, self.pieces, several, self.squares = map(int, backend.runtime.download(counts))
        _sort(backend, small[:few])
        _sort(backend, pieces[: self.pieces])
        self.several = several > 0
        self.teams = blocks_for(few, THREADS // TEAM)
        lists = self.nodes, self.starts, pieces, small, np.int32(few), np.int32(self.teams)
        self.arguments = *lists, zeros(backend, 2 * self.pieces), zeros(backend, self.pieces, np.uint32)


class GpuClusters(ClusterOperations):
    """Launches of the kernels in clusters.hip: one, or where a cluster has several pieces two; several with a cycle."""

    backend: Launcher

    def __init__(self, backend: Launcher, clusters: Clusters) -> None:
        super().__init__(backend, clusters)
        nodes = OperatorLauncher(backend, Operator(clusters.lattice))
        self._operator = nodes.operator
        self._groups: Groups = clusters.divided or Groups(backend, self._operator, clusters.nodes, clusters.starts)
        self._factors = on_device(backend, clusters.factors)
        self._corrections = zeros(backend, self._groups.pieces)
        self._geometry = (*nodes.constants[:4], *self._groups.arguments, *nodes.widths)
        if cycle := clusters.cycle:
            self._sums, self._x = (backend.runtime.allocate(cycle.nodes, np.dtype(np.float64)) for _ in range(2))
            inverse = np.zeros(1) if cycle.inverse is None else cycle.inverse.ravel()
            graphs = (cycle.starts, cycle.columns, cycle.links, cycle.excess, cycle.sweeps, cycle.groups, cycle.members)
            self._tables = tuple(on_device(backend, each) for each in (*graphs, inverse))

    def correct_clusters(self, r: Array, u: Array) -> None:
        groups = self._groups
        if self.clusters.cycle is not None:
            self._correct_together(self.clusters.cycle, r, u)
            return
        if groups.teams + groups.pieces:
            arguments = (r, u, self._factors, self._corrections, *self._geometry)
            self._launch("correct_clusters", groups.teams + groups.pieces, arguments)
        if groups.several:
            arguments = (u, self._corrections, *self._geometry)
            self._launch("clusters_add", groups.pieces, arguments)

    def _correct_together(self, cycle: GraphCycle, r: Array, u: Array) -> None:
        blocks, last = self._groups.teams + self._groups.pieces, len(cycle.levels) - 2

        def run(step: int, level: int) -> None:
            ends = cycle.levels[level : level + 2]
            arguments = (self._sums, self._x, *self._tables, *map(np.int32, (cycle.levels[1], step, *ends)))
            self._launch("clusters_cycle", blocks_for(ends[1] - ends[0], THREADS // ROW_TEAM), arguments)

        self._launch("clusters_sum", blocks, (r, self._sums, *self._geometry))
        for level in range(last):
            run(BEGIN, level)
            run(RESTRICT, level + 1)
        if cycle.inverse is None:
            run(BEGIN, last)
            run(END, last)
        else:
            run(SOLVE, last)
            self.backend.runtime.copy(self._x[cycle.levels[last] :], self._sums[cycle.levels[last] :])
        for level in reversed(range(last)):
            run(SPREAD, level + 1)
            run(END, level)
        self._launch("clusters_spread", blocks, (u, self._sums, *self._geometry))

    def _launch(self, name: str, blocks: int, arguments: tuple[Any, ...]) -> None:
        defines = (*tabulated(self._operator), *SIZES)
        self.backend.launch("clusters", name, WEIGHTS_SHAPE, self._operator, (blocks, 1, 1), arguments, defines)


def find(
    backend: Launcher, lattice: Lattice, links: tuple[Any, ...], define: str, threshold: float, part: float
) -> Clusters:
    """The clusters of `poisson.discrete.clusters.clusters_of`, without leaving the device.

    `links`: the arguments nx, ny, nz, the mask of the slots, the coefficients and their pitch. `define`: the macro with
    the type of the coefficients.
    """
    operator, shape, nodes = Operator(lattice), WEIGHTS_SHAPE, lattice.nodes
    nx, ny, nz = map(int, links[:3])
    grid = (blocks_for(nx, shape.block_x), blocks_for(ny, shape.block_y), nz)
    allocate = backend.runtime.allocate
    roots = allocate(nodes, np.dtype(np.float64))
    labels, grouped = (allocate(nodes, np.dtype(np.int32)) for _ in range(2))
    defines = define, "-DSECOND_SUM=1", *SIZES

    def launch(name: str, arguments: tuple[Any, ...] = (), blocks: Grid = grid) -> None:
        backend.launch("clusters", f"clusters_{name}", shape, operator, blocks, arguments, defines)

    backend.prepare(
        *(partial(launch, name) for name in ("begin", "join", "label", "hold")),
        *(partial(_over_items, backend, name, operator, 1, ()) for name in ("collect", "start", "divide")),
    )
    launch("begin", (roots, labels, grouped, *links))
    launch("join", (roots, labels, *links, np.float64(threshold)))
    launch("label", (labels, grouped, *links[:3]))
    keys, most = roots.view(np.int64), np.float64(part * nodes)
    for last in (False, True):  # what is left out changes no other group
        groups = _listed(backend, operator, labels, grouped, keys)
        if groups is None:
            return Clusters(lattice, np.zeros(0, np.int32), np.zeros(1, np.int64), np.zeros(0))
        factors = allocate(groups.count, np.dtype(np.float64))
        left_out = zeros(backend, 1, np.uint64)
        limits = np.float64(DAMPING), np.float64(LOOSE), most
        arguments = (factors, labels, grouped, left_out, *limits, *links, *groups.arguments)
        launch("hold", arguments, (groups.teams + groups.pieces, 1, 1))
        if last or not backend.runtime.download(left_out)[0]:
            break
    assert groups is not None
    of_all = groups.count, groups.members, groups.squares
    return Clusters(lattice, groups.nodes, groups.starts, factors, of_all=of_all, divided=groups)


def _listed(backend: Launcher, operator: Operator, labels: Any, grouped: Any, keys: Any) -> Groups | None:
    """The groups that are not left out, each by its nodes; None without any. `keys`: room for one of each node."""
    runtime, allocate = backend.runtime, backend.runtime.allocate
    lengths = zeros(backend, 2, np.uint64)
    arguments = (labels, grouped, keys, lengths[:1], np.int32(labels.size))
    _over_items(backend, "collect", operator, labels.size, arguments)
    count = int(runtime.download(lengths)[0])
    if count == 0:
        return None
    _sort(backend, keys[:count])
    # Each group has two nodes or more.
    nodes, starts = allocate(count, np.dtype(np.int32)), allocate(count // 2 + 1, np.dtype(np.int64))
    arguments = (keys, np.int32(count), nodes, starts, lengths[1:])
    _over_items(backend, "start", operator, count + 1, arguments)
    starts = starts[: int(runtime.download(lengths)[1])]
    _sort(backend, starts)
    kept = allocate(starts.size, starts.dtype)
    runtime.copy(starts, kept)
    return Groups(backend, operator, nodes, kept)


def _sort(backend: Launcher, values: Any) -> None:
    """Sort numbers of which no two are the same, so that any way to do it leaves the same order."""
    with backend.ordered():
        values.sort()


def on_host(backend: Launcher, values: Any) -> Any:
    """Values on the host, when all that was to be done on the device is done."""
    return values if isinstance(values, np.ndarray) else backend.runtime.download(values)


def _over_items(backend: Launcher, name: str, operator: Operator, items: int, arguments: tuple[Any, ...]) -> None:
    """Launch a kernel with a thread for each item of a list."""
    grid = blocks_for(items, THREADS), 1, 1
    backend.launch("clusters", f"clusters_{name}", WEIGHTS_SHAPE, operator, grid, arguments, SIZES)
