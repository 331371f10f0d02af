# SPDX-License-Identifier: MIT
"""Ranks that are processes of MPI, with messages in the memory of the host.

No wait here is without end when another rank fails: what is waited for is asked for again and again, and now and then a
look at a channel of its own shows whether a rank has said there that it fails.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import pickle
import re
import struct
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

import numpy as np

from poisson.errors import RemoteFailure
from poisson.parallel.communicator import Message
from poisson.parallel.failures import Failure

if TYPE_CHECKING:
    from mpi4py import MPI

_QUERIES = ("MPIX_Query_cuda_support", "MPIX_Query_rocm_support")
"""Functions of some MPIs, beyond the standard, that tell whether they take addresses on a GPU."""

SPINS = 200
"""Looks at a message before anything else is thought of: some 50 µs, in which most have come."""

LOOK = 1e-3
"""Seconds between two looks at whether another rank has failed."""

AWAKE = 0.1
"""Seconds of a wait after which the rank begins to sleep between its looks."""

NAP, LONGEST_NAP = 1e-4, 1e-2
"""Seconds of such a sleep: of a long wait a thousandth part, between these."""

SETTLING = 5.0
"""Seconds in which every rank should learn that one has failed."""

_FAILED, _HERE, _ALL = 1, 2, 3
"""Tags of the channel: a failure; a rank has come to settle; all have, with what failed."""

_TURN = 4
"""Added to them every other time, as a rank that has settled may fail again before another has settled."""


class Attached(Protocol):
    """Objects made for the ranks of a communicator, which cannot be used after a failure."""

    def abort(self) -> None:
        """End what is under way."""


class MpiCommunicator:
    """The ranks of an MPI communicator; one object a communicator (`of`).

    Two duplicates of it are used, so that nothing meets the messages of the caller. Making one is a collective call.

    `comm`: the ranks. `local_rank`, `local_size`: the number of this rank among those of its host, and how many those
    are. `attached`: what has been made for these ranks, until a failure.
    """

    on_device = False

    def __init__(self, comm: MPI.Intracomm) -> None:
        self._mpi = load()
        self.rank = comm.Get_rank()
        self.size = comm.Get_size()
        self._data = _duplicate(self._mpi, comm)
        self._channel = _duplicate(self._mpi, comm)
        neighbours = comm.Split_type(self._mpi.COMM_TYPE_SHARED, self.rank)
        self.local_rank = neighbours.Get_rank()
        self.local_size = neighbours.Get_size()
        processors = set().union(*neighbours.allgather(_processors()))
        neighbours.Free()
        # With more ranks than cores, who spins keeps the one that is waited for from running.
        self._spins = SPINS if self.local_size <= len(processors) else 1
        self._gathers: dict[int, _Gather] = {}
        self._abandoned: list[Any] = []
        self._known: dict[int, Failure] = {}
        self._told: list[MPI.Request] = []
        self._own: Failure | None = None
        self._turn = 0
        self._alone = False
        self._charged = False
        self.attached: Attached | None = None

    @classmethod
    def of(cls, comm: MPI.Intracomm) -> MpiCommunicator:
        """The object of an MPI communicator: made at the first call, which is collective, and kept with it."""
        key = _key(load())
        found = comm.Get_attr(key)
        if not isinstance(found, cls):
            found = cls(comm)
            comm.Set_attr(key, found)
        return found

    def first(self, ranks: int) -> MpiCommunicator | None:
        """The communicator of the first so many ranks; None on the others. All ranks call this."""
        part: Any = self._ready().Split(int(self.rank >= ranks), self.rank)
        if self.rank < ranks:
            return MpiCommunicator(part)
        part.Free()
        return None

    # ---- what every `Communicator` has

    def exchange(self, messages: Sequence[Message]) -> None:
        data = self._ready()
        requests = [data.Irecv(each.array, each.peer, each.tag) for each in messages if not each.sends]
        requests += [data.Isend(each.array, each.peer, each.tag) for each in messages if each.sends]
        self._complete(requests)

    def allgather(self, values: Sequence[float]) -> list[tuple[float, ...]]:
        self._ready()
        count = len(values)
        buffers = self._gathers.get(count) or self._gather_of(count)
        buffers.put(values)
        request = buffers.request
        if request is None:
            request = self._data.Iallgather(buffers.sent, buffers.received)
        else:
            request.Start()
        # Most sums of a solve come so: what can be left out of the way is.
        done = request.Test
        for _ in range(self._spins):
            if done():
                break
        else:
            self._complete([request])
        return buffers.rows()

    def broadcast(self, value: Any, root: int = 0) -> Any:
        data = self._ready()
        payload = pickle.dumps(value, pickle.HIGHEST_PROTOCOL) if self.rank == root else b""
        length = np.array([len(payload)], dtype=np.int64)
        self._complete([data.Ibcast(length, root)])
        if self.rank == root:
            self._complete([data.Ibcast(np.frombuffer(payload, dtype=np.uint8), root)])
            return value
        received = np.empty(int(length[0]), dtype=np.uint8)
        self._complete([data.Ibcast(received, root)])
        return pickle.loads(received.data)

    def gather(self, value: Any, root: int = 0) -> list[Any] | None:
        data = self._ready()
        payload = np.frombuffer(pickle.dumps(value, pickle.HIGHEST_PROTOCOL), dtype=np.uint8)
        lengths = [int(length) for (length,) in self.allgather([payload.size])]
        if self.rank != root:
            self._complete([data.Isend(payload, root, 0)])
            return None
        received = {peer: np.empty(lengths[peer], dtype=np.uint8) for peer in range(self.size) if peer != root}
        self._complete([data.Irecv(each, peer, 0) for peer, each in received.items()])
        return [value if peer == root else pickle.loads(received[peer].data) for peer in range(self.size)]

    def barrier(self, *, asleep: bool = False) -> None:
        self._complete([self._ready().Ibarrier()], asleep=asleep)

    def agree(self, flag: bool) -> bool:
        return any(each for (each,) in self.allgather([flag]))

    # ---- failures

    def look(self) -> None:
        """Raise the failure of another rank, if one is known; for long work between two messages.

        Raises `RemoteFailure` with the text and the exit code of the rank that failed.
        """
        self._hear()
        if self._known:
            raise self._known[min(self._known)].remote

    def fail(self, error: BaseException) -> None:
        """Tell every other rank that this one has failed; it does not wait, and a second call does nothing."""
        if self._own is not None or isinstance(error, RemoteFailure):
            return
        self._own = Failure.of(self.rank, error)
        payload = np.frombuffer(pickle.dumps(self._own), dtype=np.uint8)
        others = (peer for peer in range(self.size) if peer != self.rank)
        self._told = [self._channel.Isend(payload, peer, _FAILED + self._turn) for peer in others]

    def settle(self, seconds: float = SETTLING) -> tuple[list[Failure], bool]:
        """Wait until every rank has come here, because it has failed, knows that another has, or has come to its end.

        Then the communicator is as new. As long as no failure is known, the wait has no end.

        `seconds`: how long a rank waits for others that may still be at work, once a failure is known. Returns:
        `failures`: in the order of the ranks; the same on every rank, if all have come. `everyone`: whether all have
        come in that time; else the communicator is of no use any more.
        """
        here = np.frombuffer(pickle.dumps(self._own), dtype=np.uint8)
        failures: list[Failure] | None
        if self._alone:
            failures = None
        elif self.rank == 0:
            failures = self._collect(seconds)
        else:
            # Rank 0 comes to its end first, as it speaks for all.
            self._told.append(self._channel.Isend(here, 0, _HERE + self._turn))
            failures = self._await_all(1.5 * seconds)
        if failures is None or not self._done_with(failures, seconds):
            self._alone = True
            known = [*self._known.values(), *([self._own] if self._own else [])]
            return sorted(known, key=lambda failure: failure.rank), False
        return failures, True

    @contextlib.contextmanager
    def together(self) -> Iterator[None]:
        """Within, an exception on one rank ends the block on every one: it is raised there, `RemoteFailure` elsewhere.

        Afterwards the communicator can be used again. The end of the block is a collective call. In such a block, or
        where `in_charge` says that someone else sees to it, another one does nothing.
        """
        if self._charged:
            yield
            return
        with self.in_charge():
            try:
                yield
                self.barrier()
            except BaseException as error:
                self.fail(error)
                self.settle()
                raise

    @contextlib.contextmanager
    def in_charge(self) -> Iterator[None]:
        """Within, the caller sees to it that every rank learns of a failure (`fail`, `settle`)."""
        self._charged = True
        try:
            yield
        finally:
            self._charged = False

    def abort(self, code: int) -> NoReturn:
        """End every process at once, whatever it does."""
        self._mpi.COMM_WORLD.Abort(code)
        raise AssertionError("MPI ended the process")

    def _collect(self, seconds: float) -> list[Failure] | None:
        """On rank 0: take note of everyone who comes, and tell all."""
        endings: list[Failure | None] = [None] * self.size
        endings[0] = self._own
        missing = set(range(1, self.size))

        def come() -> bool:
            for peer in sorted(missing):
                if self._channel.Iprobe(peer, _HERE + self._turn):
                    endings[peer] = self._receive(peer, _HERE)
                    missing.discard(peer)
            return not missing

        if not self._poll(come, seconds):
            return None
        failures = [each for each in endings if each is not None]
        payload = np.frombuffer(pickle.dumps(failures), dtype=np.uint8)
        self._told += [self._channel.Isend(payload, peer, _ALL + self._turn) for peer in range(1, self.size)]
        return failures

    def _await_all(self, seconds: float) -> list[Failure] | None:
        if not self._poll(lambda: bool(self._channel.Iprobe(0, _ALL + self._turn)), seconds):
            return None
        failures: list[Failure] = self._receive(0, _ALL)
        return failures

    def _poll(self, done: Callable[[], bool], seconds: float) -> bool:
        """Wait for something; at most so long once a failure is known."""
        end = None
        while not done():
            self._hear()
            if end is None and (self._known or self._own):
                end = time.monotonic() + seconds
            if end is not None and time.monotonic() > end:
                return False
            time.sleep(NAP)
        return True

    def _hear(self) -> None:
        """Take note of the failures that others have told."""
        status = self._mpi.Status()
        while self._channel.Iprobe(self._mpi.ANY_SOURCE, _FAILED + self._turn, status):
            failure: Failure = self._receive(status.Get_source(), _FAILED)
            self._known[failure.rank] = failure

    def _receive(self, peer: int, tag: int) -> Any:
        """A message of the channel that has come."""
        tag += self._turn
        status = self._mpi.Status()
        self._channel.Probe(peer, tag, status)
        received = np.empty(status.Get_count(self._mpi.BYTE), dtype=np.uint8)
        self._channel.Recv(received, peer, tag)
        return pickle.loads(received.data)

    def _done_with(self, failures: Sequence[Failure], seconds: float) -> bool:
        """Leave behind what is still under way, once every rank has come to settle; false if some have left again."""
        failed = {failure.rank for failure in failures} - {self.rank}
        requests = list(self._told)
        if failures:
            # Not of the old one: there some ranks may stand in a collective call that others never came to.
            data, request = self._channel.Idup()
            requests.append(request)

        def left() -> bool:
            # What every failed rank has told every other is on its way; nothing of it may be left to the next time.
            return failed <= set(self._known) and bool(self._mpi.Request.Testall(requests))

        if not self._poll(left, seconds):
            return False
        self._turn = _TURN - self._turn
        self._told = []
        if failures:
            self._abandoned += self._gathers.values()
            self._gathers, self._known, self._own = {}, {}, None
            self._data = data
            if self.attached is not None:
                self.attached.abort()
                self.attached = None
        return True

    # ---- waiting

    def _ready(self) -> MPI.Intracomm:
        """Where data go, if no failure is known."""
        if self._known or self._own:
            self.look()
            raise RuntimeError("a communicator is used after a failure and before it has settled")
        return self._data

    def _complete(self, requests: list[Any], *, asleep: bool = False) -> None:
        """Wait for requests; their buffers stay as long as MPI may write to them."""
        try:
            if len(requests) == 1:
                self._wait(requests[0].Test, asleep=asleep)
            else:
                self._wait(lambda: self._mpi.Request.Testall(requests), asleep=asleep)
        except BaseException:
            self._abandoned += requests
            raise

    def _wait(self, done: Callable[[], bool], *, asleep: bool) -> None:
        if asleep:
            while not done():
                self.look()
                time.sleep(LONGEST_NAP)
            return
        for _ in range(self._spins):
            if done():
                return
        begin = time.monotonic()
        looked = begin
        while not done():
            now = time.monotonic()
            if now - looked >= LOOK:
                self.look()
                looked = now
            if now - begin < AWAKE:
                os.sched_yield()
            else:
                time.sleep(min(LONGEST_NAP, max(NAP, 1e-3 * (now - begin))))

    def _gather_of(self, count: int) -> _Gather:
        """Buffers for so many numbers of each rank, with a request that can be started again where MPI has such."""
        buffers = _Gather(count, self.size)
        with contextlib.suppress(NotImplementedError):
            buffers.request = self._data.Allgather_init(buffers.sent, buffers.received)
        self._gathers[count] = buffers
        return buffers


class _Gather:
    """Buffers for a few numbers of every rank."""

    def __init__(self, count: int, size: int) -> None:
        self.sent = np.empty(count)
        self.received = np.empty(count * size)
        self.request: Any = None
        self._rows = [slice(count * rank, count * (rank + 1)) for rank in range(size)]
        # A tenth of what NumPy takes for so few.
        self._put = struct.Struct(f"{count}d").pack_into
        self._get = struct.Struct(f"{count * size}d").unpack_from

    def put(self, values: Sequence[float]) -> None:
        self._put(self.sent.data, 0, *values)

    def rows(self) -> list[tuple[float, ...]]:
        numbers: tuple[float, ...] = self._get(self.received.data)
        return [numbers[row] for row in self._rows]


def load() -> Any:
    """The module MPI; the first import starts MPI, unless the caller's has."""
    import mpi4py

    if "mpi4py.MPI" not in sys.modules:
        # One thread at a time calls MPI, whichever it is.
        mpi4py.rc.thread_level = "serialized"
    from mpi4py import MPI

    return MPI


_keys: list[int] = []


def _key(mpi: Any) -> int:
    """The key under which a communicator keeps what belongs to it."""
    if not _keys:
        _keys.append(mpi.Comm.Create_keyval())
    return _keys[0]


def _processors() -> set[int]:
    """The processors that this process may run on."""
    return os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set(range(os.cpu_count() or 1))


def _duplicate(mpi: Any, comm: MPI.Intracomm) -> MPI.Intracomm:
    copy = comm.Dup()
    copy.Set_errhandler(mpi.ERRORS_RETURN)
    return copy


def version() -> str:
    """The name and the version of the MPI that is loaded."""
    text: str = load().Get_library_version()
    return text.splitlines()[0].partition(",")[0].strip(" \0")


def takes_device_pointers() -> bool | None:
    """Whether the MPI that is loaded takes addresses on a GPU; None if it does not say."""
    load()
    try:
        text = Path("/proc/self/maps").read_text()
        found = re.search(r"\s(/\S*/libmpi[^/\s]*\.so[^/\s]*)$", text, re.MULTILINE)
        library = ctypes.CDLL(found[1]) if found else None
    except OSError:
        library = None
    answers = [getattr(library, name)() for name in _QUERIES if hasattr(library, name)]
    return any(answers) if answers else None
