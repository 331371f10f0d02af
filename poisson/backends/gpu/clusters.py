# SPDX-License-Identifier: MIT
"""Strong clusters on the gpu backend: how they are found, and their correction."""

from collections.abc import Generator, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from poisson.backends.base import Array
from poisson.backends.gpu.launch import Launcher, blocks_for
from poisson.backends.gpu.marches import Gathering, OperatorLauncher
from poisson.backends.gpu.overlap import Grid
from poisson.backends.gpu.shapes import WEIGHTS_SHAPE
from poisson.backends.gpu.tables import on_device, tabulated, zeros
from poisson.backends.stencils import ClusterOperations, Waiting
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
FEW = 16
"""Where the nodes of groups are so small a part of all nodes, the residual is computed at these alone: one between
others that are not wanted reads many times the memory that it shares in a pass, by count and not by measurement."""
ROW_TEAM = 16
"""Threads of a node of a graph."""
BEGIN, RESTRICT, SOLVE, SWEEP, SPREAD = range(5)
"""The steps of a cycle, as clusters.hip counts them."""
THREADS = WEIGHTS_SHAPE.block_x * WEIGHTS_SHAPE.block_y
SIZES = (f"-DTEAM={TEAM}", f"-DSMALL={SMALL}", f"-DPIECE={PIECE}", f"-DROW_TEAM={ROW_TEAM}")


class Lists:
    """Lists of groups that a launch begins: the small ones, and the pieces of the others.

    `operator`: one on their lattice. `nodes`, `starts`: those of `Clusters`, on the host or on the device. `counts`:
    zeros of the device, which get the lengths of the lists, and more.
    """

    def __init__(self, backend: Launcher, operator: Operator, nodes: Any, starts: Any, counts: Any) -> None:
        self.count, self.members = int(starts.size) - 1, int(nodes.size)
        self.nodes, self.starts = (on_device(backend, values) for values in (nodes, starts))
        self.small = backend.runtime.allocate(max(1, self.count), np.dtype(np.int32))
        most = self.members // SMALL + self.members // PIECE + 1
        self.pieces = backend.runtime.allocate(most, np.dtype(np.int64))
        arguments = (self.starts, np.int32(self.count), self.small, self.pieces, counts)
        _over_items(backend, "divide", operator, max(1, self.count), arguments)


class Groups:
    """Groups of nodes, as the kernels in clusters.hip read them.

    `lists`: of the groups. `counts`: what these left, on the host. `count`, `members`, `squares`: how many groups and
    members there are, and the sum of the squares of the members of each.
    """

    def __init__(self, backend: Launcher, lists: Lists, counts: NDArray[np.uint64]) -> None:
        self.count, self.members, self.nodes, self.starts = lists.count, lists.members, lists.nodes, lists.starts
        few, self.pieces, several, self.squares = map(int, counts[:4])
        _sort(backend, lists.small[:few])
        _sort(backend, lists.pieces[: self.pieces])
        self.several = several > 0
        self.teams = blocks_for(few, THREADS // TEAM)
        arguments = self.nodes, self.starts, lists.pieces, lists.small, np.int32(few), np.int32(self.teams)
        self.arguments = *arguments, zeros(backend, 2 * self.pieces), zeros(backend, self.pieces, np.uint32)


class GpuClusters(ClusterOperations):
    """Launches of the kernels in clusters.hip: one, or where a cluster has several pieces two; several with a cycle."""

    backend: Launcher

    def __init__(self, backend: Launcher, clusters: Clusters) -> None:
        super().__init__(backend, clusters)
        nodes = OperatorLauncher(backend, Operator(clusters.lattice))
        self._operator = nodes.operator
        self._groups: Groups = clusters.divided or _divided(backend, self._operator, clusters)
        self._factors = on_device(backend, clusters.factors)
        self._corrections = zeros(backend, self._groups.pieces)
        self._geometry = (*nodes.constants[:4], *self._groups.arguments, *nodes.widths)
        if cycle := clusters.cycle:
            self._values = [backend.runtime.allocate(cycle.nodes, np.dtype(np.float64)) for _ in range(3)]
            inverse = np.zeros(1) if cycle.inverse is None else cycle.inverse.ravel()
            graphs = (cycle.starts, cycle.columns, cycle.links, cycle.excess, cycle.sweeps, cycle.groups, cycle.members)
            self._tables = tuple(on_device(backend, each) for each in (*graphs, inverse))

    def residual(self, operations: Any, u: Array, f: Array, r: Array) -> None:
        members = self._groups.members
        if isinstance(operations, Gathering) and 0 < FEW * members <= self.clusters.lattice.nodes:
            operations.residual_at(self._groups.nodes, u, f, r)
        else:
            super().residual(operations, u, f, r)

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
        f, x, found = self._values

        def run(step: int, level: int, before: Any = x, after: Any = found) -> None:
            ends = cycle.levels[level : level + 2]
            arguments = (f, before, after, *self._tables, *map(np.int32, (cycle.levels[1], step, *ends)))
            self._launch("clusters_cycle", blocks_for(ends[1] - ends[0], THREADS // ROW_TEAM), arguments)

        def visit(level: int, again: bool) -> None:
            if level == last and cycle.inverse is not None:
                run(SOLVE, level)
                return
            if again:
                run(SWEEP, level, found, x)
            else:
                run(BEGIN, level)
            if level < last:
                run(RESTRICT, level + 1)
                for number in range(cycle.visits(level + 1)):
                    visit(level + 1, number > 0)
                run(SPREAD, level + 1)
            run(SWEEP, level)

        self._launch("clusters_sum", blocks, (r, f, *self._geometry))
        visit(0, False)
        self._launch("clusters_spread", blocks, (u, found, *self._geometry))

    def _launch(self, name: str, blocks: int, arguments: tuple[Any, ...]) -> None:
        defines = (*tabulated(self._operator), *SIZES)
        self.backend.launch("clusters", name, WEIGHTS_SHAPE, self._operator, (blocks, 1, 1), arguments, defines)


def _divided(backend: Launcher, operator: Operator, clusters: Clusters) -> Groups:
    """The groups of clusters that were found elsewhere."""
    counts = zeros(backend, 4, np.uint64)
    lists = Lists(backend, operator, clusters.nodes, clusters.starts, counts)
    return Groups(backend, lists, backend.runtime.download(counts))


COUNTS = 16
"""Numbers of the device that a search for clusters reads, twice seven of them."""

Search = Generator[None, NDArray[np.uint64], Clusters]
"""A search for clusters. Whenever it needs a number of the device it is sent those of all searches."""


def find(
    backend: Launcher, lattice: Lattice, links: tuple[Any, ...], define: str, thresholds: Sequence[float], part: float
) -> Waiting[list[Clusters]]:
    """The clusters of `poisson.discrete.clusters.clusters_of` at each threshold, without leaving the device.

    `links`: the arguments nx, ny, nz, the mask of the slots, the coefficients and their pitch. `define`: the macro with
    the type of the coefficients.
    """
    operator, shape, nodes = Operator(lattice), WEIGHTS_SHAPE, lattice.nodes
    nx, ny, nz = map(int, links[:3])
    grid = (blocks_for(nx, shape.block_x), blocks_for(ny, shape.block_y), nz)
    defines = define, "-DSECOND_SUM=1", *SIZES

    def launch(name: str, arguments: tuple[Any, ...] = (), blocks: Grid = grid) -> None:
        backend.launch("clusters", f"clusters_{name}", shape, operator, blocks, arguments, defines)

    none = Clusters(lattice, np.zeros(0, np.int32), np.zeros(1, np.int64), np.zeros(0))
    if not backend.launching:
        for name in ("roots", "begin", "join", "label", "hold"):
            launch(name)
        for name in ("collect", "start", "divide"):
            _over_items(backend, name, operator, 1, ())
        return [none] * len(thresholds)
    roots = backend.runtime.allocate(nodes, np.dtype(np.float64))
    launch("roots", (roots, *links))

    def search(threshold: float, first: int) -> Search:
        labels, sizes = (backend.runtime.allocate(nodes, np.dtype(each)) for each in (np.int32, np.uint32))
        launch("begin", (roots, labels, sizes, *links, np.float64(threshold)))
        launch("join", (roots, labels, *links, np.float64(threshold)))
        launch("label", (labels, sizes, *links[:3]))
        for place in (first, first + COUNTS // 2):  # what is left out changes no other group
            of_groups = labels, sizes, np.float64(part * nodes)
            groups = yield from _listed(backend, operator, of_groups, counts, place)
            if groups is None:
                break
            factors = backend.runtime.allocate(groups.count, np.dtype(np.float64))
            limits = counts[place + 6 :], np.float64(DAMPING), np.float64(LOOSE)
            arguments = (factors, labels, sizes, *limits, *links, *groups.arguments)
            launch("hold", arguments, (groups.teams + groups.pieces, 1, 1))
            if place > first or not (yield)[place + 6]:
                of_all = groups.count, groups.members, groups.squares
                return Clusters(lattice, groups.nodes, groups.starts, factors, of_all=of_all, divided=groups)
        return none

    counts = zeros(backend, len(thresholds) * COUNTS, np.uint64)
    searches = {number: search(threshold, COUNTS * number) for number, threshold in enumerate(thresholds)}
    found, known = {}, None
    while searches:
        for number, each in list(searches.items()):
            try:
                each.send(known)  # type: ignore[arg-type]  # None begins it
            except StopIteration as end:
                found[number] = end.value
                del searches[number]
        known = (yield partial(backend.runtime.download, counts)) if searches else None
    return [found[number] for number in range(len(thresholds))]


def _listed(
    backend: Launcher, operator: Operator, of_groups: tuple[Any, ...], counts: Any, place: int
) -> Generator[None, NDArray[np.uint64], Groups | None]:
    """The groups that are not left out, each by its nodes; None without any.

    `of_groups`: the labels of nodes, the sizes of groups and the largest one.
    """
    allocate, (labels, sizes, most) = backend.runtime.allocate, of_groups
    keys = allocate(labels.size, np.dtype(np.int64))
    arguments = (labels, sizes, keys, counts[place:], np.int32(labels.size), most)
    _over_items(backend, "collect", operator, labels.size, arguments)
    count = int((yield)[place])
    if count == 0:
        return None
    _sort(backend, keys[:count])
    # Each group has two nodes or more.
    nodes, starts = allocate(count, np.dtype(np.int32)), allocate(count // 2 + 1, np.dtype(np.int64))
    lists = keys, np.int32(count), nodes, starts, counts[place + 1 :]
    _over_items(backend, "start", operator, count + 1, lists)
    starts = starts[: int((yield)[place + 1])]
    _sort(backend, starts)
    kept = allocate(starts.size, starts.dtype)
    backend.runtime.copy(starts, kept)
    divided = Lists(backend, operator, nodes, kept, counts[place + 2 :])
    return Groups(backend, divided, (yield)[place + 2 :])


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
