# SPDX-License-Identifier: MIT
"""The graph of clusters on the gpu backend: graphs on aggregates of its nodes, and the cycle on them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from poisson.backends.gpu.launch import Launcher, blocks_for, or_null
from poisson.backends.gpu.shapes import WEIGHTS_SHAPE, Shape
from poisson.backends.gpu.tables import on_device, zeros
from poisson.discrete.contracted import DENSE, OMEGA, STALLED, TWICE, Graph, GraphCycle, inverse_of
from poisson.discrete.operator import Operator

THREADS = WEIGHTS_SHAPE.block_x * WEIGHTS_SHAPE.block_y
ROW_TEAM = 4
"""Threads of a node of a graph in the cycle."""
WIDE_TEAM, WIDE = 16, 3.0
"""The same where nodes have more links than the second number, for their mean: some have hundreds."""
TAIL_TEAM = 4
"""The same in the block that has all visits of small graphs."""
TAIL_SHAPE = Shape(32, 32, 1, resident=1)
"""The shape of that block."""
TAIL = 2400
"""A graph of so many nodes or fewer, and those below it, have one launch for all of their visits: one that is solved
directly at least."""
RESTRICT, AGAIN, SWEEP, RETURN = range(4)
"""The steps of a cycle that are launches, as graphs.hip counts them."""
PASSES = 8
"""Passes over a graph in which roots are chosen, before the device is asked whether that was enough."""


@dataclass(frozen=True)
class DeviceGraph:
    """A `poisson.discrete.contracted.Graph` on the device, with the node that each link stands at in `rows`.

    `groups`, `members`: those of `Aggregated`, for the next graph; None without one.
    """

    nodes: int
    starts: Any
    rows: Any
    columns: Any
    links: Any
    excess: Any
    groups: Any = None
    members: Any = None


class Graphs:
    """Launches of the kernels in graphs.hip that make graphs."""

    def __init__(self, backend: Launcher) -> None:
        self._backend = backend

    def rows_of(self, keys: Any, nodes: int) -> tuple[Any, Any, Any]:
        """The starts, rows and columns of a graph from the keys of its links, which are sorted here."""
        sort(self._backend, keys)
        heads, length = self._empty(keys.size, np.int64), zeros(self._backend, 1, np.uint64)
        self._over("heads", keys.size, (keys, np.int64(keys.size), heads, length))
        count = int(self._backend.runtime.download(length)[0])
        sort(self._backend, heads[:count])
        starts, rows, columns = (self._empty(each, np.int32) for each in (nodes + 1, count, count))
        self._over("rows", count + 1, (keys, heads, np.int32(count), np.int32(nodes), starts, rows, columns))
        return starts, rows[:count], columns[:count]

    def cycle_of(self, graph: DeviceGraph) -> GraphCycle:
        """`GraphCycle.of`, with its tables on the device."""
        graphs, inverse = [graph], None
        while True:
            graph = graphs[-1]
            if graph.nodes <= DENSE:
                download = self._backend.runtime.download
                arrays = graph.starts, graph.columns, graph.links, graph.excess
                inverse = inverse_of(Graph(*(download(each) for each in arrays)))
                break
            if (found := self._aggregated(graph)) is None:
                break
            graphs[-1:] = found
        return self._tables(graphs, inverse)

    def _aggregated(self, graph: DeviceGraph) -> tuple[DeviceGraph, DeviceGraph] | None:
        """The graph with its aggregates, and the next one; None where these are too many."""
        nodes, backend = np.int32(graph.nodes), self._backend
        ranks, near = (self._empty(graph.nodes, np.uint64) for _ in range(2))
        roots, own = (self._empty(graph.nodes, np.int32) for _ in range(2))
        beside, largest = self._empty(graph.columns.size, np.int32), self._empty(graph.nodes, np.float64)
        self._over("largest", graph.nodes, (graph.starts, graph.links, nodes, largest))
        entries = np.int32(beside.size)
        self._over("beside", beside.size, (graph.rows, graph.columns, graph.links, largest, entries, beside))
        links, joined = (graph.starts, beside), none(backend, graph.nodes)
        counts, settled, linked = zeros(backend, 3, np.uint64), 0, graph.nodes
        self._over("begin", graph.nodes, (graph.starts, ranks, nodes, counts[2:]))
        while settled < linked:
            for _ in range(PASSES):
                self._over("near", graph.nodes, (ranks, near, *links, nodes))
                self._over("choose", graph.nodes, (ranks, near, *links, nodes, roots, counts))
            found, settled, linked = map(int, backend.runtime.download(counts))
        if found == 0 or found >= STALLED * graph.nodes:
            return None
        sort(self._backend, roots[:found])
        self._over("join", found, (roots, np.int32(found), *links, joined))
        keys = self._empty(graph.nodes, np.int64)
        self._over("follow", graph.nodes, (joined, *links, graph.links, nodes, own, keys))
        sort(self._backend, keys)
        members, groups = self._empty(linked, np.int32), self._empty(found + 1, np.int32)
        self._over("members", linked + 1, (keys, np.int32(linked), members, groups))
        keys = self._empty(graph.columns.size, np.int64)
        self._over("entries", graph.columns.size, (own, graph.rows, graph.columns, np.int32(keys.size), keys))
        starts, rows, columns = self.rows_of(keys, found)
        sums, excess = (self._empty(size, np.float64) for size in (columns.size, found))
        arguments = (*(groups, members, own, graph.starts, graph.columns, graph.links, graph.excess, rows, columns),
                     *(np.int32(columns.size), np.int32(found), sums, excess))  # fmt: skip
        self._over("links", max(found, columns.size), arguments)
        coarse = DeviceGraph(found, starts, rows, columns, sums, excess)
        return replace(graph, groups=groups, members=members), coarse

    def _tables(self, graphs: list[DeviceGraph], inverse: Any) -> GraphCycle:
        """The tables of all graphs, one behind the other."""
        linked = [0 if graph.members is None else graph.members.size for graph in graphs]
        counts = [graph.nodes for graph in graphs], [graph.columns.size for graph in graphs], linked
        levels, entries, members = (np.append(0, np.cumsum(each)) for each in counts)
        nodes, finest = levels[-1], levels[1]
        sizes = {"starts": nodes + 1, "columns": entries[-1], "links": entries[-1], "excess": nodes, "sweeps": nodes,
                 "groups": nodes - finest + 1, "members": members[-1]}  # fmt: skip
        single = "links", "excess", "sweeps"
        tables = {name: self._empty(int(size), np.float32 if name in single else np.int32)
                  for name, size in sizes.items()}  # fmt: skip
        for number, graph in enumerate(graphs):
            of_graph = graph.starts, graph.columns, graph.links, graph.excess, graph.groups, graph.members
            aggregates = 0 if graph.groups is None else graphs[number + 1].nodes
            places = levels[number], entries[number], levels[number + 1] - finest, members[number]
            arguments = (*map(or_null, of_graph), *map(np.int32, (graph.nodes, aggregates, linked[number])))
            arguments += np.float64(OMEGA), *map(np.int32, places), *tables.values()
            self._over("table", graph.nodes + 1, arguments)
        return GraphCycle(tuple(map(int, levels)), **tables, inverse=inverse)

    def _empty(self, count: int, dtype: DTypeLike) -> Any:
        return self._backend.runtime.allocate(max(1, count), np.dtype(dtype))[:count]

    def _over(self, name: str, items: int, arguments: tuple[Any, ...]) -> None:
        if items:
            over_items(self._backend, "graphs", f"graph_{name}", items, arguments)


def over_items(
    backend: Launcher,
    source: str,
    name: str,
    items: int,
    arguments: tuple[Any, ...],
    operator: Operator | None = None,
    defines: tuple[str, ...] = (),
) -> None:
    """Launch a kernel with a thread for each item of a list."""
    backend.launch(source, name, WEIGHTS_SHAPE, operator, (blocks_for(items, THREADS), 1, 1), arguments, defines)


def none(backend: Launcher, count: int) -> Any:
    """Numbers of -1 on the device, so many."""
    numbers = backend.runtime.allocate(max(1, count), np.dtype(np.int32))[:count]
    over_items(backend, "graphs", "graph_none", max(1, count), (numbers, np.int32(count)))
    return numbers


def sort(backend: Launcher, values: Any) -> None:
    """Sort whole numbers: any way to do it leaves the same order."""
    with backend.ordered():
        values.sort()


class DeviceCycle:
    """Launches of the kernels in graphs.hip that are a cycle: `correct` leads from f and x to y."""

    def __init__(self, backend: Launcher, cycle: GraphCycle) -> None:
        self._backend, self._cycle = backend, cycle
        self.f, self.x, self.y = (backend.runtime.allocate(cycle.nodes, np.dtype(np.float64)) for _ in range(3))
        tables = (cycle.starts, cycle.columns, cycle.links, cycle.excess, cycle.sweeps, cycle.groups, cycle.members)
        tables = tuple(on_device(backend, each) for each in tables)
        self.sweeps, groups, members = tables[4:]
        inverse = np.zeros(1) if cycle.inverse is None else cycle.inverse.ravel()
        parents, finest = none(backend, cycle.nodes), np.int32(cycle.levels[1])
        self._levels = on_device(backend, np.array(cycle.levels, np.int32))
        if count := cycle.nodes - cycle.levels[1]:
            over_items(backend, "graphs", "graph_parents", count, (groups, members, np.int32(count), finest, parents))
        self._arguments = self.f, self.x, self.y, *tables, on_device(backend, inverse), parents, finest
        wide = cycle.columns.size > WIDE * cycle.nodes
        self._team = WIDE_TEAM if wide else ROW_TEAM

    def correct(self) -> None:
        """Launch all steps behind the first sweep on the finest graph."""
        self._visit(0)

    def _visit(self, level: int) -> None:
        """All visits of a graph, whose first sweep is done."""
        cycle = self._cycle
        last, visits = len(cycle.levels) - 2, cycle.visits(level)
        if cycle.levels[level + 1] - cycle.levels[level] <= TAIL:
            numbers = last + 1, level, TWICE, int(cycle.inverse is not None)
            arguments = (*self._arguments, self._levels, *map(np.int32, numbers))
            self._launch("visits", TAIL_SHAPE, 1, TAIL_TEAM, arguments)
            return
        for number in range(visits):
            if number:
                self._step(AGAIN, level)
            if level == last:
                self._step(SWEEP, level)
                continue
            self._step(RESTRICT, level + 1)
            self._visit(level + 1)
            self._step(RETURN, level)

    def _step(self, step: int, level: int) -> None:
        first, last = self._cycle.levels[level : level + 2]
        blocks = blocks_for(last - first, THREADS // self._team)
        self._launch("step", WEIGHTS_SHAPE, blocks, self._team, (*self._arguments, *map(np.int32, (step, first, last))))

    def _launch(self, name: str, shape: Shape, blocks: int, team: int, arguments: tuple[Any, ...]) -> None:
        defines = (f"-DROW_TEAM={team}",)
        self._backend.launch("graphs", f"graph_{name}", shape, None, (blocks, 1, 1), arguments, defines)
