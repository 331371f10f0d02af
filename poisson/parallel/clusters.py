# SPDX-License-Identifier: MIT
"""Strong clusters on ranks: groups are found in each part, and joined over the borders of the parts."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from poisson.backends.base import Array
from poisson.backends.stencils import ClusterOperations
from poisson.discrete.clusters import DAMPING, LOOSE, Across, Clusters
from poisson.discrete.full_stencil import FullStencil
from poisson.parallel.communicator import Communicator
from poisson.parallel.exchange import Parcel, Transport
from poisson.parallel.exchanging import Exchanging

if TYPE_CHECKING:
    from poisson.parallel.distributed import DistributedBackend


class DistributedClusters(ClusterOperations):
    """The correction of strong clusters, of which some have nodes of several ranks."""

    backend: DistributedBackend

    def __init__(self, backend: DistributedBackend, clusters: Clusters) -> None:
        super().__init__(backend, clusters)
        self._lattice = Exchanging(backend, backend.halo_of(clusters.lattice))
        local = backend.local
        self._own = local.bind(replace(clusters, across=None))
        self._across = clusters.across if clusters.across and clusters.across.factors.size else None
        if self._across is None:
            return
        backend.recordable = False
        here, xp = self._across.here, local.array_module
        self._here = local.bind(here)
        self._work = local.empty(clusters.lattice.array_shape)
        first = np.unravel_index(here.nodes[here.starts[:-1]], clusters.lattice.array_shape)
        self._first = tuple(xp.asarray(index) for index in first)
        volumes = clusters.lattice.volumes_at(first)
        self._scales = xp.asarray(self._across.factors[self._across.numbers] / volumes)
        self._numbers = xp.asarray(self._across.numbers)
        rank, size = backend.communicator.rank, backend.communicator.size
        self._sums = xp.zeros((size, self._across.factors.size))
        parcels = [Parcel(self._sums[rank if goes else other], other, 0, goes)
                   for goes in (True, False) for other in range(size) if other != rank]  # fmt: skip
        self._exchange = Transport(local, backend.communicator, [parcels])

    def correct_clusters(self, r: Array, u: Array) -> None:
        self._lattice.need(r, 0)
        self._lattice.need(u, 0)
        if self._across is not None:
            local = self.backend.local
            local.fill(self._work, 0.0)
            self._here.correct_clusters(r.values, self._work)
            self._join(local.view(self._work))
            self._here.correct_clusters(self._work, u.values)
        self._own.correct_clusters(r.values, u.values)
        self._lattice.leave(u, 0)

    def _join(self, work: Any) -> None:
        """Put corrections in the place of the sums of this rank, at the first node that it has of each group."""
        ordered = self.backend.local.ordered
        with ordered():
            self._sums[self.backend.communicator.rank][self._numbers] = work[self._first]
        self._exchange.run()
        with ordered():
            work[...] = 0.0
            work[self._first] = self._scales * self._sums.sum(axis=0)[self._numbers]


def joined(backend: DistributedBackend, stencil: FullStencil, within: Clusters, most: float) -> Clusters:
    """The clusters of all ranks, from those of each part with all nodes of its halo but the outermost.

    A group without nodes in the halo is wholly known. Every other group has a name, the number of its first node on the
    whole lattice, and the names that two ranks have for the group of one node are joined. Groups of more than `most`
    nodes are left out.
    """
    lattice, communicator = stencil.lattice, backend.communicator
    nodes, starts, factors = (np.asarray(_on_host(each)) for each in (within.nodes, within.starts, within.factors))
    owned = np.zeros(lattice.array_shape, dtype=bool)
    owned[lattice.owned] = True
    mine = owned.ravel()
    numbers = np.ones((), dtype=np.int64)
    for line in reversed(lattice.axes):
        numbers = (numbers[..., None] - 1) * line.undivided.nodes + line.index + 1
    names, sizes = np.zeros(owned.size, dtype=np.int64), np.diff(starts)
    names[nodes] = np.repeat(numbers.ravel()[nodes[starts[:-1]]], sizes)
    exact: Any = backend.companion(np.float64)
    array = exact.from_host(names.reshape(owned.shape).astype(np.float64))
    exact.halo_of(lattice).fill(array)
    theirs = exact.to_host(array).ravel().astype(np.int64)
    met = nodes[~mine[nodes]]
    pairs = np.concatenate(_of_all(communicator, np.unique(np.stack([names[met], theirs[met]]), axis=1)), axis=1)
    known, places = np.unique(pairs, return_inverse=True)
    one, other = places.reshape(pairs.shape)
    component, count = _components(one, other, known.size), known.size
    # A node in the halo may be alone here, and not where all of its links are.
    names = np.where(mine, names, theirs)
    label = np.full(owned.size, -1, dtype=np.int64)
    there = np.flatnonzero(np.isin(names, known))
    label[there] = component[np.searchsorted(known, names[there])]
    several = _total(communicator, np.bincount(np.unique(label[there[mine[there]]]), minlength=count)) > 1
    if known.size and known[0] == 0:
        # Who sees all of a group has seen that nothing holds it.
        several[component[0]] = False
    number = np.where(several, np.cumsum(several) - 1, -1)
    label = np.where(label >= 0, number[label], -1) if count else label
    members = np.flatnonzero(mine & (label >= 0))
    count = int(several.sum())
    held = _held(backend, stencil, label, members, count)
    loose, diagonal, counts = _total(communicator, np.vstack([held, np.bincount(label[members], minlength=count)]))
    kept = (loose > LOOSE * diagonal) & (counts <= most)
    members = members[kept[label[members]]]
    members = members[np.argsort(label[members], kind="stable")]
    here, of_here = np.unique(label[members], return_counts=True)
    across = Across(
        Clusters(lattice, members.astype(np.int32), _starts(of_here), np.ones(here.size)),
        (np.cumsum(kept) - 1)[here],
        DAMPING / loose[kept],
    )
    inside = np.logical_and.reduceat(mine[nodes], starts[:-1]) if sizes.size else np.zeros(0, dtype=bool)
    inside &= sizes <= most
    alone = np.repeat(inside, sizes)
    own = sizes[inside]
    sums = np.array([own.size, own.sum() + members.size, (own * own).sum()])
    groups, all_members, squares = (int(each) for each in _total(communicator, sums))
    return Clusters(
        *(lattice, nodes[alone], _starts(sizes[inside]), factors[inside]),
        across=across,
        of_all=(groups + across.factors.size, all_members, squares + int((counts[kept] ** 2).sum())),
    )


def _components(one: NDArray[np.int64], other: NDArray[np.int64], count: int) -> NDArray[np.int64]:
    """The least of the numbers below `count` that pairs join each one with."""
    least = np.arange(count)
    while True:
        ends = np.minimum(least[one], least[other])
        if np.array_equal(ends, least[one]) and np.array_equal(ends, least[other]):
            return least
        for end in (one, other):
            np.minimum.at(least, least[end], ends)
        least = least[least]


def _held(
    backend: DistributedBackend, stencil: FullStencil, label: NDArray[np.int64], members: NDArray[np.int64], count: int
) -> NDArray[np.float64]:
    """The excess of each group and the links that leave it, and its diagonal, as far as its nodes are here."""
    if not members.size:
        return np.zeros((2, count))
    groups, shape = label[members], stencil.array_shape
    coefficients = backend.to_host(stencil.coefficients)  # type: ignore[arg-type]
    places, found = np.unravel_index(members, shape), np.zeros((2, count))
    found += np.bincount(groups, coefficients[0].ravel()[members], count)
    for offset, links in zip(stencil.offsets, coefficients[1:], strict=True):
        for sign in (1, -1):
            # Beyond a face the link is 0, whatever node is taken for the neighbour.
            steps = zip(places, reversed(offset), shape, strict=True)
            there = np.ravel_multi_index([(place + sign * step) % nodes for place, step, nodes in steps], shape)
            values = links.ravel()[members if sign > 0 else there]
            found[0] += np.bincount(groups, values * (label[there] != groups), count)
            found[1] += np.bincount(groups, values, count)
    return found


def _starts(sizes: NDArray[Any]) -> NDArray[np.int64]:
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)


def _on_host(values: Any) -> NDArray[Any]:
    found: NDArray[Any] = values if isinstance(values, np.ndarray) else values.get()
    return found


def _total(communicator: Communicator, values: NDArray[Any]) -> NDArray[Any]:
    """The sums of all ranks, in their order."""
    found: NDArray[Any] = np.sum(_of_all(communicator, values), axis=0)
    return found


def _of_all(communicator: Communicator, values: NDArray[Any]) -> list[NDArray[Any]]:
    """The arrays of all ranks, in their order."""
    found: list[NDArray[Any]] = communicator.broadcast(communicator.gather(values))
    return found
