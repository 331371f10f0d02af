# SPDX-License-Identifier: MIT
"""The ranks that solve one problem together: how it is divided over them, and who speaks."""

import contextlib
import logging
import math
import platform
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from poisson.backends.base import Backend
from poisson.discrete.share import Share, agreed, known_to_all
from poisson.errors import CaseError
from poisson.mesh.lattice import Lattice
from poisson.parallel.communicator import Communicator, Message, Serial
from poisson.parallel.division import Division
from poisson.words import article, quantity

Value = TypeVar("Value")

log = logging.getLogger(__name__)


def communicator_of(comm: Any) -> Communicator:
    """The communicator that a user has given: one of ours, one of mpi4py, or None for a single process.

    Raises CaseError if it is none of them.
    """
    if comm is None:
        return Serial()
    if hasattr(comm, "exchange") and hasattr(comm, "agree"):
        communicator: Communicator = comm
        return communicator
    if not (hasattr(comm, "Get_rank") and hasattr(comm, "Split_type")):
        raise CaseError(
            f"comm: {article(type(comm).__name__)}; allowed: a communicator of mpi4py, such as MPI.COMM_WORLD"
        )
    from poisson.parallel.mpi import MpiCommunicator

    found: Communicator = MpiCommunicator.of(comm)
    return found


@dataclass(frozen=True)
class Held:
    """The part of a solution that this rank has."""

    communicator: Communicator
    # The first node and that after the last one along each axis of an array, the slowest first.
    ranges: tuple[tuple[int, int], ...]
    whole: tuple[int, ...]  # The shape of the whole array.

    @property
    def divided(self) -> bool:
        """Whether other ranks have other parts; else every one has all."""
        return any(ends != (0, count) for ends, count in zip(self.ranges, self.whole, strict=True))

    def gather(self, values: NDArray[Any], *, everywhere: bool = False) -> NDArray[Any] | None:
        """The whole of an array, from the parts of all ranks.

        `values`: the part of this rank; axes that follow those of the grid are whole. `everywhere`: whether every rank
        gets it, or only the first; the others then get None.
        """
        communicator = self.communicator
        wanted = everywhere or communicator.rank == 0
        if not self.divided:
            return values if wanted else None
        flat = [number for ends in self.ranges for number in ends]
        every = [tuple(zip(*[iter(map(int, row))] * 2, strict=True)) for row in communicator.allgather(flat)]
        whole = np.empty((*self.whole, *values.shape[len(self.whole) :]), dtype=values.dtype) if wanted else None
        sent = np.ascontiguousarray(values).reshape(-1)
        # One part after the other, so that no more than one is there twice.
        for source, ranges in enumerate(every):
            if source == communicator.rank:
                targets = range(communicator.size) if everywhere else range(1)
                communicator.exchange([Message(sent, peer, 0, sends=True) for peer in targets if peer != source])
                came = sent
            elif whole is None:
                communicator.exchange([])
                continue
            else:
                came = np.empty(whole[_index(ranges)].size, dtype=values.dtype)
                communicator.exchange([Message(came, source, 0, sends=False)])
            if whole is not None:
                place = whole[_index(ranges)]
                place[...] = came.reshape(place.shape)
        return whole


def _index(ranges: Sequence[tuple[int, int]]) -> tuple[slice, ...]:
    return tuple(slice(*ends) for ends in ranges)


class Ranks:
    """The ranks of a solver.

    `communicator`: the ranks, with arrays on the host; `Serial` has one. `wanted`: how many there must be, or the
    blocks along x, y(, z) that the grid is divided into; by default as few nodes are exchanged as can be. Raises
    `CaseError` if there are more or fewer ranks than there must be. Attributes: `communicator`: the same ranks; in the
    place of the one given, one with arrays on devices may be set. `on_host`: the one given. `division`: the blocks,
    once they are chosen; None where every rank has the whole grid. `share`: the part of the grid that this rank has;
    None where it has all.
    """

    def __init__(self, communicator: Communicator, wanted: int | tuple[int, ...] | None = None) -> None:
        self.communicator = self.on_host = communicator
        self.size = communicator.size
        self.division: Division | None = None
        self.share: Share | None = None
        counts = wanted if isinstance(wanted, tuple) else () if wanted is None else (wanted,)
        if wanted is not None and math.prod(counts) != self.size:
            some = f"{'is' if self.size == 1 else 'are'} {quantity(self.size, 'process')}"
            given = list(wanted) if isinstance(wanted, tuple) else wanted
            allowed = f"the number of processes, and there {some}: start as many, or leave run.ranks out"
            raise CaseError(f"run.ranks: {given}; allowed: {allowed}")
        self._blocks = wanted if isinstance(wanted, tuple) else None

    @property
    def speaks(self) -> bool:
        """Whether this rank says what is said once for all."""
        return self.communicator.rank == 0

    @known_to_all
    def hosts(self) -> tuple[str, ...]:
        """The host of each rank, in their order. The ranks ask for it together."""
        return self.everyone(platform.node())

    @property
    def beside(self) -> int:
        """Ranks on this host, with this one."""
        return 1 if self.size == 1 else self.hosts.count(platform.node())

    def divide(self, lattice: Lattice, halo: Callable[[Lattice], int], *, planes: bool) -> None:
        """Choose the blocks of a grid.

        `lattice`: all nodes. `halo`: how wide a halo is wanted on a part; the widest that any rank wants is taken.
        `planes`: whether each rank must have whole rows, or planes in 3D. Raises `GridError` if there are too few nodes
        for the blocks, or x is to be divided.
        """
        size, rank = self.size, self.communicator.rank
        if size == 1:
            return
        first = Division.of(lattice, size, rank)
        if self._blocks is not None:
            # The second axis of a 1D problem has one node.
            first = Division(lattice, (*self._blocks, 1)[: lattice.dimension], rank)
        elif planes and first.divides:
            first = Division(lattice, (*(1,) * (lattice.dimension - 1), size), rank)
        if not first.divides:
            log.info("the problem is too small to be divided: each of %s solves all of it", quantity(size, "process"))
            return
        width = int(max(each for (each,) in self.communicator.allgather([halo(first.lattice)])))
        self.division = Division(lattice, first.counts, rank, width)
        self.share = Share(self.division.lattice, self.communicator)

    def over(self, local: Backend) -> Backend:
        """The backend of this process, or one that has what it computes on divided over the ranks."""
        if not self.division:
            return local
        from poisson.parallel.distributed import DistributedBackend

        return DistributedBackend(local, self.communicator)  # type: ignore[abstract]  # vectors: from entries

    def everyone(self, value: Value) -> tuple[Value, ...]:
        """A value of every rank, in their order, on each."""
        found: list[Value] = self.communicator.broadcast(self.communicator.gather(value))
        return tuple(found)

    def of_first(self, value: Value) -> Value:
        """The value of the first rank."""
        found: Value = self.communicator.broadcast(value)
        return found

    def agreed(self) -> contextlib.AbstractContextManager[None]:
        """Within, a rank talks to no other; an error on one is raised on all."""
        return agreed(self.communicator) if self.size > 1 else contextlib.nullcontext()

    def interrupted(self, asked: Callable[[], bool]) -> Callable[[], bool]:
        """Whether any rank is to end, which all that have a part ask at the same iteration.

        The first rank says so then, though it may be another one that was asked to end.
        """
        said = False

        def agreed() -> bool:
            nonlocal said
            # Ranks that solve each the whole by themselves share no iterations.
            found = self.communicator.agree(asked()) if self.division else asked()
            if found and not said:
                said = True
                log.warning("interrupted; keeping the last complete iterate")
            return found

        return agreed

    def slowest(self, times: Mapping[str, float]) -> dict[str, float]:
        """The longest time of any rank for each part of a run."""
        if self.size == 1:
            return dict(times)
        rows = self.communicator.allgather(list(times.values()))
        return {name: max(row[at] for row in rows) for at, name in enumerate(times)}

    def held(self, shape: tuple[int, ...]) -> Held | None:
        """The part of an array on the grid that this rank has; None for a single process."""
        if self.size == 1:
            return None
        share = self.share
        ranges = tuple((0, count) for count in shape) if share is None else share.ranges
        return Held(self.on_host, ranges, shape)

    def provenance(self) -> dict[str, str | int | float]:
        """How many ranks there were, and where; nothing of a single process."""
        if self.size == 1:
            return {}
        counts = self.division.counts if self.division else (1,)
        blocks = " x ".join(map(str, counts))
        return {"ranks": self.size, "blocks": blocks, "hosts": ", ".join(dict.fromkeys(self.hosts))}

    def speaking(self) -> contextlib.AbstractContextManager[None]:
        """Within, only the first rank writes to the log."""
        return contextlib.nullcontext() if self.speaks else self._unheard()

    @contextlib.contextmanager
    def _unheard(self) -> Iterator[None]:
        for name in list(logging.root.manager.loggerDict):
            if name.partition(".")[0] == __name__.partition(".")[0]:
                logging.getLogger(name).addFilter(_heard)
        token = _silent.set(True)
        try:
            yield
        finally:
            _silent.reset(token)


_silent: ContextVar[bool] = ContextVar("silent", default=False)


def _heard(record: logging.LogRecord) -> bool:
    """Whether the thread that has written a line of the log speaks for its ranks."""
    return not _silent.get()
