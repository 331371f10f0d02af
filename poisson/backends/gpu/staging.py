# SPDX-License-Identifier: MIT
"""Copies between arrays of the caller and arrays on a device, through pinned memory.

A device copies memory of the host by itself, and at the speed of its link, where that is pinned. Pinning costs more
than a copy, so what the caller has is copied through some pinned memory that is kept: in pieces, by several threads,
as one alone reads and writes memory more slowly than the link. The device copies a piece while others are prepared.
"""

from __future__ import annotations

import math
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from poisson.backends.processors import processors

MOST_THREADS = 12
"""The most threads that copy at a time: together they come near to what a link carries, and make pages of new arrays
fast enough."""
THREAD_BYTES = 1 << 22
"""For each thread, about: to start one costs as much as the copy of a megabyte. What is smaller is one piece."""
PIECE_BYTES = 8_000_000
"""At most, but for a row: between two pieces threads wait for one another, as Python runs in one of them at a time."""
LEAST_SLOT_BYTES = 1 << 16
"""The least size of a slot of pinned memory, which then grows a few times at most, to powers of two."""
KEPT_BYTES = 1 << 22
"""From here on the memory of results is kept: the pages of a new array cost as much as what is written to them."""


class Pinned(NamedTuple):
    """Memory of the host that a device copies to and from by itself."""

    values: NDArray[np.uint8]
    address: int


class CopyEngine(Protocol):
    """The device's own copies, in order with its launches, and the memory of the host that they are fast with."""

    def in_use(self) -> AbstractContextManager[Any]:
        """See `poisson.backends.gpu.runtime.Runtime`."""

    def synchronize(self) -> None:
        """See `poisson.backends.gpu.runtime.Runtime`."""

    def address(self, array: Any) -> int:
        """The address of the first value of a device array."""

    def pinned(self, count: int) -> Pinned:
        """Pinned memory of so many bytes, from and to which copies run while the host does something else."""

    def push(self, memory: Pinned, address: int, piece: Piece) -> None:
        """Ask for a copy of a piece to the device array at an address."""

    def pull(self, memory: Pinned, address: int, piece: Piece) -> None:
        """Ask for a copy of a piece from the device array at an address."""

    def mark(self) -> Any:
        """A new mark for the order of copies, also for those of another link to the same device."""

    def record(self, mark: Any) -> None:
        """Set a mark behind all copies so far."""

    def wait(self, mark: Any, watched: bool) -> None:
        """Wait for the copies before a mark that was set; `watched` says whether `Runtime.watch` may end it."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A block of an array, and how it is copied.

    `index`: its nodes. `shape`: how many along each axis. `offset`: bytes from the first value of the device array to
    that of the block. `rows`, `width`: rows that the device copies, and bytes of each; they follow one another in
    pinned memory. `pitch`: bytes from row to row on the device.
    """

    index: tuple[slice, ...]
    shape: tuple[int, ...]
    offset: int
    rows: int
    width: int
    pitch: int

    @property
    def count(self) -> int:
        """Bytes of pinned memory."""
        return self.rows * self.width


def pieces(shape: tuple[int, ...], strides: tuple[int, ...], itemsize: int, most: int) -> list[Piece]:
    """An array cut into blocks of at most so many bytes of values, with rows at one distance."""
    if 0 in shape:
        return []
    each = [itemsize * math.prod(shape[axis + 1 :]) for axis in range(len(shape))]
    alike = next(axis for axis in range(len(shape)) if _pitch(shape[axis:], strides[axis:]) is not None)
    axis = next(axis for axis, count in enumerate(each) if axis >= alike and count <= max(most, itemsize))
    blocks = -(-shape[axis] // max(1, most // each[axis]))
    step = -(-shape[axis] // blocks)
    whole = tuple(slice(0, nodes) for nodes in shape[axis + 1 :])
    return [
        _piece((*(slice(place, place + 1) for place in leading), slice(start, stop), *whole), strides, itemsize)
        for leading in np.ndindex(*shape[:axis])
        for start in range(0, shape[axis], step)
        for stop in (min(start + step, shape[axis]),)
    ]


def _piece(index: tuple[slice, ...], strides: tuple[int, ...], itemsize: int) -> Piece:
    shape = tuple(part.stop - part.start for part in index)
    offset = sum(part.start * stride for part, stride in zip(index, strides, strict=True))
    width = shape[-1] * itemsize
    return Piece(index, shape, offset, math.prod(shape[:-1]), width, _pitch(shape, strides) or width)


def _pitch(shape: tuple[int, ...], strides: tuple[int, ...]) -> int | None:
    """Bytes from row to row, if that is the same between any two that follow one another; of one row its own."""
    pitch = step = 0
    for nodes, stride in zip(shape[-2::-1], strides[-2::-1], strict=True):
        if nodes > 1:
            if pitch and stride != step:
                return None
            pitch, step = pitch or stride, stride * nodes
    return pitch or shape[-1] * strides[-1]


class _Slot:
    """Pinned memory for a piece, and the mark behind the device's copy of it."""

    def __init__(self, mark: Any, watched: bool) -> None:
        self._mark = mark
        self._watched = watched
        self._asked = False
        self._memory = Pinned(np.empty(0, np.uint8), 0)

    def room(self, link: CopyEngine, count: int) -> None:
        """Have memory for so many bytes, which no device uses any more."""
        self.settle(link)
        if self._memory.values.nbytes < count:
            self._memory = link.pinned(1 << max(count - 1, LEAST_SLOT_BYTES - 1).bit_length())

    def push(self, link: CopyEngine, address: int, piece: Piece) -> None:
        """Ask for a copy to the device."""
        self._asked = True
        link.push(self._memory, address, piece)
        link.record(self._mark)

    def pull(self, link: CopyEngine, address: int, piece: Piece) -> None:
        """Ask for a copy from the device."""
        self._asked = True
        link.pull(self._memory, address, piece)
        link.record(self._mark)

    def settle(self, link: CopyEngine) -> None:
        """Wait for the copy that was asked for."""
        if self._asked:
            link.wait(self._mark, self._watched)
            self._asked = False

    def remark(self, link: CopyEngine) -> None:
        """Set the mark behind a copy after which it may not have been set."""
        link.record(self._mark)

    def values(self, piece: Piece, dtype: np.dtype[Any]) -> NDArray[Any]:
        """The memory as a piece of an array."""
        return np.ndarray(piece.shape, dtype, self._memory.values.data)


class Ring:
    """Pinned memory and threads for the copies from and to a device, which all that use it may share.

    A user takes a slot and brings it back: one that ends early, by an error or an interrupt, leaves it to the next, who
    waits for what the device still does with it.

    `threads`: that copy at a time; by default as many as there are processors, at most `MOST_THREADS`.
    """

    def __init__(self, threads: int | None = None) -> None:
        self.threads = threads or min(processors(), MOST_THREADS)
        self._works: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._started: list[threading.Thread] = []
        weakref.finalize(self, self._works.put, None)
        self._spare: dict[bool, deque[_Slot]] = {True: deque(), False: deque()}

    def together(self, work: Callable[[], None], threads: int) -> None:
        """Call a function in this thread, and beside it in so many others as are free, but one; wait for all.

        An error of any of them is raised when all have ended. An interrupt of this one, whenever it comes, is raised
        after the calls that have begun.
        """
        begun: list[None] = []
        ended: list[None] = []
        failed: list[BaseException] = []
        told: SimpleQueue[None] = SimpleQueue()
        over = False
        kept = [work]  # here alone, as a thread that begins too late refers to this function still

        def beside() -> None:
            begun.append(None)
            try:
                if not over:
                    kept[0]()
            except BaseException as error:
                failed.append(error)
            finally:
                ended.append(None)
                told.put(None)

        def wait() -> None:
            # Who begins after this count sees that it is over. Only what ends later has still to tell it.
            while len(ended) < len(begun):
                told.get()

        try:
            for _ in range(threads - 1):
                self._works.put(beside)
            self._start(threads - 1)
            work()
        finally:
            over = True
            try:
                wait()
            except BaseException:
                wait()
                raise
            finally:
                kept.clear()
        if failed:
            raise failed[0]

    def _start(self, threads: int) -> None:
        """Have so many threads."""
        while len(self._started) < threads:
            thread = threading.Thread(target=_serve, args=(self._works,), name="poisson-staging", daemon=True)
            self._started.append(thread)
            thread.start()

    @contextmanager
    def slot(self, link: CopyEngine, watched: bool) -> Iterator[_Slot]:
        """Within, one that nobody else uses; whether its waits are watched."""
        try:
            slot = self._spare[watched].pop()
        except IndexError:
            slot = _Slot(link.mark(), watched)
        try:
            yield slot
        except BaseException:
            slot.remark(link)
            raise
        finally:
            self._spare[watched].append(slot)


Place = tuple[tuple[int, ...], tuple[int, ...], int]
"""Where a device array is: its shape, its strides, and the bytes of a value."""

Move = Callable[[_Slot, Iterable[Piece]], None]


class Staging:
    """Copies between the caller's memory and a device's.

    Several threads may ask for them at a time.

    `link`: to the device. `ring`: with what they are made. `piece_bytes`, `thread_bytes`: pieces of about so many bytes
    at most, and about so many bytes for each thread.
    """

    def __init__(
        self, link: CopyEngine, ring: Ring, piece_bytes: int = PIECE_BYTES, thread_bytes: int = THREAD_BYTES
    ) -> None:
        self._link = link
        self._ring = ring
        self._piece_bytes = piece_bytes
        self._thread_bytes = thread_bytes
        self._results = _Results()

    def upload(self, values: NDArray[Any], array: Any) -> None:
        """See `poisson.backends.gpu.runtime.Runtime`."""
        source, place = _in_rows(values, array)
        link, address = self._link, self._link.address(array)

        def fill(slot: _Slot, share: Iterable[Piece]) -> None:
            with np.errstate(all="ignore"):  # what is not finite in another type is found where it is used
                for piece in share:
                    slot.room(link, piece.count)
                    np.copyto(slot.values(piece, array.dtype), source[piece.index], casting="unsafe")
                    slot.push(link, address, piece)

        self._move(fill, place)

    def download(self, array: Any, out: NDArray[Any] | None = None) -> NDArray[Any]:
        """See `poisson.backends.gpu.runtime.Runtime`."""
        result = self._results.empty(array.shape, array.dtype) if out is None else out
        target, place = _in_rows(result, array)
        link, address = self._link, self._link.address(array)

        def drain(slot: _Slot, share: Iterable[Piece]) -> None:
            for piece in share:
                slot.room(link, piece.count)
                slot.pull(link, address, piece)
                slot.settle(link)
                np.copyto(target[piece.index], slot.values(piece, array.dtype), casting="same_kind")

        self._move(drain, place)
        return result

    def _move(self, move: Move, place: Place) -> None:
        """Have all pieces of an array moved, each by one of the threads; this one is among them."""
        shape, strides, itemsize = place
        count = math.prod(shape) * itemsize
        if count <= self._thread_bytes:
            with self._ring.slot(self._link, watched=True) as slot:
                move(slot, pieces(shape, strides, itemsize, count))
            return
        threads = min(self._ring.threads, -(-count // self._thread_bytes))
        blocks = threads * -(-count // (threads * self._piece_bytes))
        most = -(-shape[0] // blocks) * (count // shape[0]) if shape[0] >= blocks else -(-count // blocks)
        todo = deque(pieces(shape, strides, itemsize, most))
        # From here on every wait is for these copies alone, which nobody needs to interrupt.
        self._link.synchronize()

        def work() -> None:
            try:
                with self._link.in_use(), self._ring.slot(self._link, watched=False) as slot:
                    move(slot, _until_empty(todo))
            finally:
                todo.clear()  # after an error the others end with the piece that they have

        self._ring.together(work, threads)


class _Results:
    """Memory of results: what its users have let go of is there for the next one."""

    def __init__(self) -> None:
        self.kept: deque[NDArray[np.uint8]] = deque(maxlen=1)

    def empty(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any]:
        """A contiguous array whose values are not set."""
        count = math.prod(shape) * dtype.itemsize
        if count < KEPT_BYTES:
            return np.empty(shape, dtype)
        memory: NDArray[np.uint8] | None = None
        with suppress(IndexError):
            memory = self.kept.pop()
        if memory is None or memory.nbytes != count:
            memory = None  # given back before there is another one
            memory = np.empty(count, np.uint8)
        return np.asarray(_Lent(memory, shape, dtype, weakref.ref(self)))


class _Lent:
    """The owner of a result's memory, which tells NumPy its place and layout and lives as long as anything refers to
    it.
    """

    _owner: weakref.ref[_Results] | None = None

    def __init__(
        self, memory: NDArray[np.uint8], shape: tuple[int, ...], dtype: np.dtype[Any], owner: weakref.ref[_Results]
    ) -> None:
        self._memory = memory
        data = (memory.ctypes.data, False)
        self.__array_interface__ = {"version": 3, "shape": shape, "typestr": dtype.str, "data": data}
        self._owner = owner

    def __del__(self) -> None:
        owner = self._owner() if self._owner else None
        if owner is not None:
            owner.kept.append(self._memory)


def _in_rows(values: NDArray[Any], array: Any) -> tuple[NDArray[Any], Place]:
    """Values and their place on the device, of two axes where they can be: then they are cut between any two rows."""
    if values.shape != array.shape:
        raise ValueError(f"values of the shape {values.shape} of an array of the shape {array.shape}")
    itemsize, pitch = array.dtype.itemsize, _pitch(array.shape, array.strides)
    if values.ndim < 3 or not values.flags.c_contiguous or pitch is None:
        return values, (array.shape, array.strides, itemsize)
    rows = values.reshape(-1, values.shape[-1])
    return rows, (rows.shape, (pitch, itemsize), itemsize)


def _until_empty(todo: deque[Piece]) -> Iterator[Piece]:
    """Pieces that nobody else has taken."""
    while True:
        try:
            piece = todo.popleft()
        except IndexError:
            return
        yield piece


def _serve(works: SimpleQueue[Callable[[], None] | None]) -> None:
    """Do what comes, until there is None, which is left to the next thread."""
    while (work := works.get()) is not None:
        work()
        del work  # with the arrays that it refers to, before the wait for the next one
    works.put(None)
