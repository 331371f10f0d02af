# SPDX-License-Identifier: MIT
"""Full stencils, transfers by weights and strong clusters: structures for the library, which keep what they use."""

from __future__ import annotations

from collections.abc import Iterator
from ctypes import byref, c_int32, c_int64, c_void_p, cast
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from poisson.backends.openmp.arrays import DeviceArray, pitch_of
from poisson.backends.openmp.calls import operations_from_entries
from poisson.backends.openmp.library import (
    MOST_OFFSETS,
    ClustersStructure,
    OperatorStructure,
    StencilStructure,
    WeightedStructure,
    doubles,
    operator_structure,
)
from poisson.backends.openmp.tables import tables_of
from poisson.backends.stencils import ClusterOperations, StencilOperations, StencilTransferOperations
from poisson.discrete.clusters import DAMPING, LOOSE, Clusters
from poisson.discrete.contracted import Aggregated, Graph, GraphCycle
from poisson.discrete.full_stencil import FullStencil, StencilTransfer
from poisson.discrete.operator import Operator
from poisson.errors import GridError
from poisson.mesh.lattice import Lattice

if TYPE_CHECKING:
    from poisson.backends.openmp.backend import OpenmpBackend

MOST_PLACES = 1 << 32

KINDS = [np.dtype(kind) for kind in (np.float64, np.float32, np.uint16)]
"""The types of weights, in the order in which the library counts them; the last one has parts of 2¹⁵."""

STRIP = 16384
"""Nodes of a strip, about, whose sums one thread adds up."""

PACK = 4
"""Links of a node of a graph that the library works on together: most nodes have no more."""


def _lattice(backend: OpenmpBackend, lattice: Lattice) -> OperatorStructure:
    operator = Operator(lattice)
    return operator_structure(operator, pitch_of(lattice.shape[0]), backend.threads, tables_of(backend, operator))


def _stencil(backend: OpenmpBackend, stencil: FullStencil) -> StencilStructure:
    lattice, array = _lattice(backend, stencil.lattice), stencil.coefficients
    steps = [(*offset, *(0,) * (3 - len(offset))) for offset in stencil.offsets]
    scales = doubles(len(stencil.scales))(*stencil.scales)
    structure = StencilStructure(
        lattice=lattice,
        offset=(c_int32 * 3 * MOST_OFFSETS)(*((c_int32 * 3)(*step) for step in steps)),
        offsets=len(steps),
        single=array is not None and array.dtype == np.float32,
        coefficients=None if array is None else array.pointer,
        scales=cast(scales, c_void_p) if stencil.scales else None,
    )
    structure.kept = lattice, array, scales
    return structure


@operations_from_entries(FullStencil)
class OpenmpStencil(StencilOperations):
    """The operations of a full stencil."""

    backend: OpenmpBackend

    def __init__(self, backend: OpenmpBackend, stencil: FullStencil) -> None:
        super().__init__(backend, stencil)
        self.functions = backend.functions
        self.structure = byref(_stencil(backend, stencil))

    def clusters(self, threshold: float, part: float = 1.0) -> Clusters:
        return self._groups(2, threshold, part)

    def contracted_clusters(self, threshold: float, part: float = 1.0) -> Clusters:
        return self.together(self._groups(1, threshold, part))

    def together(self, clusters: Clusters) -> Clusters:
        graph = _room(clusters.count, 2 * len(self.stencil.offsets) * clusters.nodes.size)
        library, members = self.backend._library, _places(clusters.nodes, clusters.starts)
        library.poisson_contract_clusters(self.structure, clusters.count, *members, *_places(*graph))
        return replace(clusters, cycle=GraphCycle.of(_used(graph, clusters.count), partial(_aggregates, library)))

    def _groups(self, fewest: int, threshold: float, part: float) -> Clusters:
        """The groups of so many nodes or more."""
        lattice = self.stencil.lattice
        count = c_int64(int(part * lattice.nodes))  # at first the most members of a group
        nodes, factors = np.empty(lattice.nodes, np.int32), np.empty(lattice.nodes // fewest)
        starts = np.empty(factors.size + 1, np.int64)
        find = self.backend._library.poisson_find_clusters
        find(self.structure, threshold, DAMPING, LOOSE, fewest, *_places(nodes, starts, factors), byref(count))
        starts = starts[: count.value + 1].copy()
        return Clusters(lattice, nodes[: starts[-1]].copy(), starts, factors[: count.value].copy())


@operations_from_entries(StencilTransfer)
class OpenmpStencilTransfer(StencilTransferOperations):
    """The operations between a lattice and every other node of it."""

    backend: OpenmpBackend

    def __init__(self, backend: OpenmpBackend, transfer: StencilTransfer) -> None:
        super().__init__(backend, transfer)
        self.functions = backend.functions
        fine, coarse, weights = _stencil(backend, transfer.fine), _stencil(backend, transfer.coarse), transfer.weights
        structure = WeightedStructure(
            fine=fine,
            coarse=coarse,
            halved=(c_int32 * 3)(*transfer.halved),
            kind=0 if weights is None else KINDS.index(weights.dtype),
            weights=None if weights is None else weights.pointer,
        )
        structure.kept = fine, coarse, weights
        self.structure = byref(structure)

    def rounded(self, weights: DeviceArray, kept: DeviceArray | None = None) -> DeviceArray:
        out = DeviceArray(self.backend._memory, weights.shape, KINDS[2]) if kept is None else kept
        self.backend._library.poisson_round_weights(self.structure, weights.pointer, out.pointer)
        return out


@operations_from_entries(Clusters)
class OpenmpClusters(ClusterOperations):
    """The correction of strong clusters."""

    backend: OpenmpBackend

    def __init__(self, backend: OpenmpBackend, clusters: Clusters) -> None:
        super().__init__(backend, clusters.without_members)
        self.functions = backend.functions
        lattice = _lattice(backend, clusters.lattice)
        if clusters.lattice.nodes // clusters.shape[0] * lattice.pitch > MOST_PLACES:
            raise GridError(f"the {backend.name} backend has strong clusters on arrays of {MOST_PLACES} values at most")
        structure = ClustersStructure(lattice=lattice, count=clusters.count)
        tables: list[DeviceArray] = []
        arrays = self._groups(clusters, lattice.pitch) if clusters.cycle is None else _cycle(clusters, structure)
        for field, values in arrays.items():
            if values.size:
                tables.append(backend.table(values, values.dtype))
                setattr(structure, field, tables[-1].pointer)
        structure.kept = lattice, tables
        self.structure = byref(structure)

    @staticmethod
    def _groups(clusters: Clusters, pitch: int) -> dict[str, NDArray[Any]]:
        """The tables of groups that each have a correction of their own."""
        rows, columns = np.divmod(clusters.nodes, np.int32(clusters.shape[0]))
        places = rows.astype(np.uint32) * np.uint32(pitch) + columns.astype(np.uint32)
        return {"places": places, "starts": clusters.starts.astype(np.int32), "factors": clusters.factors}


def _places(*arrays: NDArray[Any]) -> Iterator[int]:
    """The addresses of arrays."""
    return (array.ctypes.data for array in arrays)


def _room(nodes: int, links: int) -> Graph:
    """A graph that the library can write."""
    return Graph(np.empty(nodes + 1, np.int32), np.empty(links, np.int32), np.empty(links), np.empty(nodes))


def _used(graph: Graph, nodes: int) -> Graph:
    """The part of such a graph that the library has written."""
    links = graph.starts[nodes]
    return Graph(graph.starts[: nodes + 1], graph.columns[:links], graph.links[:links], graph.excess[:nodes])


def _aggregates(library: Any, graph: Graph) -> Aggregated:
    """`poisson.discrete.contracted.aggregates` by the library."""
    nodes, count = graph.excess.size, c_int64()
    groups, members, coarse = np.empty(nodes + 1, np.int32), np.empty(nodes, np.int32), _room(nodes, graph.links.size)
    library.poisson_aggregate_graph(nodes, *_places(*graph, groups, members, *coarse), byref(count))
    groups = groups[: count.value + 1]
    return Aggregated(groups, members[: groups[-1]], _used(coarse, count.value))


def _cycle(clusters: Clusters, structure: ClustersStructure) -> dict[str, NDArray[Any]]:
    """The tables of groups with a cycle; their first nodes ascend."""
    cycle, nodes, starts = clusters.cycle, clusters.nodes, clusters.starts
    assert cycle is not None
    rows = clusters.lattice.nodes // clusters.shape[0]
    structure.levels, structure.height = len(cycle.levels) - 1, max(1, STRIP // clusters.shape[0])
    structure.strips = -(-rows // structure.height)
    strip = nodes // np.int32(structure.height * clusters.shape[0])
    first = strip[starts[:-1]]
    # A run of the nodes of a group that are in one strip is its own, or a guest there.
    begins = np.append(True, strip[1:] != strip[:-1])
    begins[starts[:-1]] = True
    group = np.repeat(np.arange(clusters.count, dtype=np.int32), np.diff(starts))
    run = np.flatnonzero(begins)
    guest = np.flatnonzero(strip[run] != first[group[run]])
    order = np.argsort(strip[run[guest]], kind="stable")
    of_strip = np.bincount(strip[run[guest]], minlength=structure.strips)
    guests = np.concatenate([[0], np.cumsum(of_strip + 1)])
    place = np.empty(guest.size, dtype=np.int64)
    place[order] = np.arange(guest.size) + 1 + strip[run[guest[order]]]
    hosts = np.full(guests[-1], -1, dtype=np.int32)
    hosts[place] = group[run[guest]]
    firsts = np.searchsorted(first, np.arange(structure.strips + 1))
    own, of_run = np.diff(firsts), group[run] - firsts[strip[run]]
    there = strip[run[guest]]
    of_run[guest] = own[there] + place - guests[there]
    none = own[np.arange(rows) // structure.height]
    if of_run.max() > np.iinfo(np.uint16).max:
        raise GridError("strong clusters that are corrected together need rows of fewer than 65536 nodes")
    labels = np.repeat(none.astype(np.uint16), clusters.shape[0])
    labels[nodes] = np.repeat(of_run.astype(np.uint16), np.diff(run, append=nodes.size))
    return {
        "first": np.array(cycle.levels, np.int32),
        "visits": np.array([cycle.visits(level) for level in range(len(cycle.levels) - 1)], np.int32),
        **_packed(cycle),
        **{name: getattr(cycle, name) for name in ("excess", "sweeps", "groups", "members")},
        "inverse": np.zeros(0) if cycle.inverse is None else cycle.inverse.ravel(),
        "values": np.empty(cycle.nodes + max(2 * cycle.nodes, clusters.count + hosts.size)),
        "labels": labels,
        "firsts": firsts.astype(np.int32),
        "guests": guests.astype(np.int32),
        "hosts": hosts,
    }


def _packed(cycle: GraphCycle) -> dict[str, NDArray[Any]]:
    """The links of each node in packs, the last of which is filled up by zeros."""
    packs = -(-np.diff(cycle.starts) // PACK)
    entries = np.append(0, np.cumsum(packs)).astype(np.int32)
    columns = np.repeat(np.arange(cycle.nodes, dtype=np.int32), PACK * packs)
    links = np.zeros(columns.size, dtype=np.float32)
    places = np.arange(cycle.columns.size) + np.repeat(PACK * entries[:-1] - cycle.starts[:-1], np.diff(cycle.starts))
    columns[places], links[places] = cycle.columns, cycle.links
    return {"entries": entries, "columns": columns, "links": links}
