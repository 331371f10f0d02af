# SPDX-License-Identifier: MIT
"""A backend whose arrays are divided over ranks: that of one process, with exchanges where they are needed.

Every rank runs the same solver. An operation computes on the part of the rank with its halo, as far into the halo as it
can; a sweep so uses up a layer of it, and the halo is exchanged when an operation needs more layers than are right. A
pass of several sweeps so exchanges once. Sums are of the nodes that a rank owns, and are joined when they are read, in
the order of the ranks. On lattices that are not divided, such as the coarsest of multigrid, every rank does all.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from types import MappingProxyType, ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from poisson.backends.base import Backend, Slab
from poisson.backends.probe import Probe
from poisson.discrete.clusters import Clusters
from poisson.discrete.full_stencil import FullStencil, StencilTransfer
from poisson.discrete.inverse import Inverse
from poisson.discrete.operator import Operator
from poisson.discrete.share import agreed
from poisson.discrete.sparse_rows import SparseRows
from poisson.discrete.transfer import Interpolation, Transfer
from poisson.mesh.differences import Differences
from poisson.mesh.lattice import Lattice
from poisson.parallel.arrays import EVERYWHERE, SUMS, DividedArray, DividedResult
from poisson.parallel.calls import operations_on_ranks
from poisson.parallel.clusters import DistributedClusters
from poisson.parallel.communicator import Communicator
from poisson.parallel.exchange import Halo, Transport, swapped
from poisson.parallel.operations import (
    DistributedDifferences,
    DistributedInterpolation,
    DistributedInverse,
    DistributedOperations,
    DistributedRows,
    DistributedTransfer,
)
from poisson.parallel.recording import Noting, Recording
from poisson.parallel.stencils import DistributedStencil, DistributedStencilTransfer

if TYPE_CHECKING:
    from poisson.discrete.face_fields import FaceFields

GATHERED_NODES = 1 << 17
"""Grids of fewer nodes are gathered: every rank computes on all of them, which takes less than to exchange halos."""

FEWEST_OWNED = 4
"""Grids of which a rank would own fewer nodes along a divided axis are gathered too."""


@operations_on_ranks(None)
class DistributedBackend(Backend):
    """The backend of a rank, on parts of lattices (`poisson.parallel.division`) and on whole ones.

    `local`: the backend of this process. `communicator`: the ranks. `gathered_nodes`: grids of fewer nodes are not
    divided.
    """

    bound: Mapping[type, Callable[[Any, Any], Any]] = MappingProxyType(
        {
            Operator: DistributedOperations,
            Transfer: DistributedTransfer,
            Interpolation: DistributedInterpolation,
            Differences: DistributedDifferences,
            Inverse: DistributedInverse,
            FullStencil: DistributedStencil,
            StencilTransfer: DistributedStencilTransfer,
            Clusters: DistributedClusters,
            SparseRows: DistributedRows,
        }
    )
    any_axis = True

    def __init__(self, local: Backend, communicator: Communicator, gathered_nodes: int = GATHERED_NODES) -> None:
        super().__init__(local.dtype)
        self.local = local
        self.communicator = communicator
        self.place = communicator.rank, communicator.size
        self.name = local.name
        self.device = local.device
        self.threads = local.threads
        self.on_host = local.on_host
        self.views = local.views
        self.bound = {subject: made for subject, made in type(self).bound.items() if subject in local.bound}
        # What is allocated between operations cannot be part of a graph: clusters of several ranks say so.
        self.recordable = communicator.on_device
        self._gathered_nodes = gathered_nodes
        # These two are shared with companions, which do not know each other: what does is not freed by itself.
        self._halos: dict[tuple[np.dtype[Any], Lattice, Lattice | None], Halo] = {}
        self._noting = Noting()

    def in_use(self) -> AbstractContextManager[Any]:
        return self.local.in_use()

    # ---- memory

    def empty(self, array_shape: tuple[int, ...]) -> DividedArray:
        # A method may do without an array for which there is no room: then on every rank.
        with agreed(self.communicator):
            values = self.local.empty(array_shape)
            # What has never been exchanged must not be anything that arithmetic stumbles over.
            self.local.fill(values, 0.0)
        return DividedArray(values, 0)

    def from_host(self, values: NDArray[Any]) -> DividedArray:
        return DividedArray(self.local.from_host(values), EVERYWHERE)

    def to_host(self, array: DividedArray) -> NDArray[Any]:
        if array.halo is not None and array.valid < array.halo.width:
            array.halo.fill(array)
            array.valid = EVERYWHERE
        return self.local.to_host(array.values)

    def synchronize(self) -> None:
        self.local.synchronize()

    def memory(self) -> tuple[int, int] | None:
        return self.local.memory()

    def assemble(self, array_shape: tuple[int, ...], slab: Slab, out: DividedArray | None = None) -> DividedArray:
        values = self.local.assemble(array_shape, slab, None if out is None else out.values)
        if out is None:
            return DividedArray(values, EVERYWHERE)
        out.valid = EVERYWHERE
        return out

    def view(self, array: DividedArray) -> Any:
        return self.local.view(array.values)

    @property
    def array_module(self) -> ModuleType:
        return self.local.array_module

    def ordered(self) -> AbstractContextManager[Any]:
        return self.local.ordered()

    def face_fields(self, far: Operator, faces: Sequence[bool], lattice: Lattice) -> FaceFields:
        from poisson.parallel.open_faces import DividedFaces

        if not lattice.divided:
            return self.local.face_fields(far, faces, lattice)
        return DividedFaces(self, far, faces, lattice)

    @property
    def launching(self) -> bool:
        return self.local.launching

    # ---- reductions

    def reduction(self) -> DividedResult:
        return DividedResult(self.local.reduction())

    def read(self, result: DividedResult) -> tuple[float, float]:
        own = self.local.read(result.local)
        if not result.divided:
            return own
        parts = self.communicator.allgather(own)
        return sum(part[0] for part in parts), (sum if result.divided == SUMS else max)(part[1] for part in parts)

    def mark(self, result: DividedResult) -> None:
        self.local.mark(result.local)

    # ---- time

    def probe(self) -> Probe:
        return self.local.probe()

    def seconds(self, call: Callable[[], None]) -> float:
        return self.local.seconds(call)

    # ---- lattices

    def halo_of(self, lattice: Lattice, under: Lattice | None = None) -> Halo | None:
        """The halo of a lattice; None if it is not divided. The ranks ask for it together.

        Of the one `under` the nodes of another it is apart from that of the coarse lattice, which has the same nodes on
        some ranks.
        """
        if not lattice.divided:
            return None
        key = self.dtype, lattice, under
        if key not in self._halos:
            self._halos[key] = Halo(self.local, self.communicator, lattice)
        return self._halos[key]

    def coarse_lattice(self, lattice: Lattice) -> Lattice:
        if not lattice.divided:
            return lattice
        halo = self.halo_of(lattice)
        assert halo is not None
        few = math.prod(lattice.whole.shape) < self._gathered_nodes or halo.fewest < FEWEST_OWNED
        return lattice.whole if few else lattice

    def begins_evenly(self, lattice: Lattice) -> bool:
        halo = self.halo_of(lattice)
        return halo is None or halo.begins_evenly

    def gathers(self, lattice: Lattice, halved: Sequence[bool]) -> bool:
        halo = self.halo_of(lattice)
        if halo is None:
            return False
        pairs = zip(lattice.whole.shape, halved, strict=True)
        nodes = math.prod(-(-count // 2) if half else count for count, half in pairs)
        lines = [line.whole for line, half in zip(lattice.axes, halved, strict=True) if half and line.whole]
        # A coarse axis that wraps around an odd number of nodes is not halved in parts.
        odd = any(line.wraps and line.nodes % 4 for line in lines)
        return nodes < self._gathered_nodes or odd or halo.fewest < FEWEST_OWNED * (2 if lines else 1)

    def sample(self, array: DividedArray, lattice: Lattice, steps: Sequence[int]) -> NDArray[Any]:
        if not lattice.divided:
            return super().sample(array, lattice, steps)
        places, index, shape = [], [], []
        for line, step in zip(reversed(lattice.axes), reversed(steps), strict=True):
            every = np.arange((step - 1) // 2, line.undivided.nodes, step)
            own = slice(*np.searchsorted(every, (line.first + line.halo[0], line.first + line.nodes - line.halo[1])))
            places.append(own)
            index.append(slice((every[own] - line.first).min(initial=line.nodes), line.nodes - line.halo[1], step))
            shape.append(every.size)
        with self.ordered():
            values = self.view(array)[tuple(index)]
            values = values if isinstance(values, np.ndarray) else values.get()
        found = np.empty(shape, dtype=values.dtype)
        for there, part in self.communicator.broadcast(self.communicator.gather((tuple(places), values))):
            found[there] = part
        return found

    def around(self, array: DividedArray, lattice: Lattice) -> Any:
        halo = self.halo_of(lattice)
        if halo is not None and array.valid < 1:
            halo.fill(array)
            array.valid = EVERYWHERE
        return self.local.around(array.values, lattice)

    def changed(self, array: DividedArray) -> None:
        array.valid = 0

    def joined(self, values: NDArray[Any], places: NDArray[np.int64], size: int) -> NDArray[Any]:
        found = np.empty(size, dtype=values.dtype)
        for there, part in self.communicator.broadcast(self.communicator.gather((places, values))):
            found[there] = part
        return found

    def swapped(self, parts: Sequence[Any]) -> list[Any]:
        return swapped(self.communicator, self.array_module, parts)

    # ---- recording

    def capture(self, function: Callable[[], None]) -> Callable[[], None]:
        if not self.recordable:
            # What goes over the host cannot be part of a graph.
            return function
        # Of a communicator whose messages are recorded, which may have to end what was.
        return Recording(self.local, function, self._noting, getattr(self.communicator, "recordings", {}))

    def note(self, *touched: DividedArray | DividedResult) -> None:
        """Note the arrays that an operation reads or writes, before it does so."""
        self._noting.note(*touched)

    def do(self, transport: Transport) -> None:
        """Carry out what is ready, unless operations are only made ready themselves."""
        if self.launching:
            transport.run()

    # ---- another precision

    def companion(self, dtype: np.dtype[Any] | type[np.floating[Any]]) -> Backend:
        if np.dtype(dtype) == self.dtype:
            return self
        other = type(self)(self.local.companion(dtype), self.communicator, self._gathered_nodes)
        other._halos, other._noting = self._halos, self._noting
        return other
