# SPDX-License-Identifier: MIT
"""Copies between arrays of the caller and arrays on a device, through pinned memory.

A device copies memory of the host by itself, and at the speed of its link, where that is pinned. Pinning costs more
than a copy, so what the caller has is copied through some pinned memory that is kept: in pieces, by several threads,
as one alone reads and writes memory more slowly than the link. The device copies a piece while others are prepared.
"""

from __future__ import annotations

import itertools
import math
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from poisson.backends.processors import processors

MOST_THREADS = 8
"""That copy at a time: together they pass what a link carries."""
THREAD_BYTES = 1 << 20
"""For each thread at least: to start one costs as much as the copy of some 100 kB. What is smaller is one piece."""
PIECE_BYTES = 1 << 22
"""At most: those of all threads together stay in the last cache between the copies of the host and of the device."""
LEAST_PIECE_BYTES = 1 << 18
"""Of an array that is cut up."""
LEAST_SLOT_BYTES = 1 << 16
"""Of the memory for small arrays, which then grows a few times at most."""
SLOTS = 2
"""Pieces that a thread has under way: it copies one while the device copies another."""
KEPT_BYTES = 1 << 22
"""From here on the memory of results is kept: the pages of a new array cost as much as what is written to them."""


class Link(Protocol):
    """The device's own copies, in order with its launches, and the memory of the host that they are fast with."""

    def in_use(self) -> AbstractContextManager[Any]:
        """See `poisson.backends.gpu.runtime.Runtime`."""

    def synchronize(self) -> None:
        """See `poisson.backends.gpu.runtime.Runtime`."""

    def address(self, array: Any) -> int:
        """Of the first value of a device array."""

    def pinned(self, count: int) -> NDArray[np.uint8]:
        """So many bytes of memory that copies run from and to while the host does something else."""

    def push(self, address: int, memory: NDArray[np.uint8], count: int) -> None:
        """Ask for a copy of the first bytes of pinned memory to the device."""

    def pull(self, memory: NDArray[np.uint8], address: int, count: int) -> None:
        """Ask for a copy of bytes of the device to the beginning of pinned memory."""

    def mark(self) -> Any:
        """A new mark for the order of copies, also for those of another link to the same device."""

    def record(self, mark: Any) -> None:
        """Set a mark behind all copies so far."""

    def wait(self, mark: Any, watched: bool) -> None:
        """Wait for the copies before a mark that was set; `watched` says whether `Runtime.watch` may end it."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A block of an array, with what lies between its rows."""

    index: tuple[slice, ...]
    """Its nodes."""
    shape: tuple[int, ...]
    offset: int
    """Bytes from the first value of the array to that of the block."""
    count: int
    """Bytes from its first value to behind its last."""


def pieces(shape: tuple[int, ...], strides: tuple[int, ...], itemsize: int, most: int) -> list[Piece]:
    """An array cut into blocks of at most so many bytes, which follow one another in memory."""
    count = _span(shape, strides, itemsize)
    if count <= most:
        return [Piece(tuple(slice(0, nodes) for nodes in shape), shape, 0, count)]
    axis = next(axis for axis, stride in enumerate(strides) if stride <= max(most, itemsize))
    blocks = -(-shape[axis] // max(1, most // strides[axis]))
    step = -(-shape[axis] // blocks)
    cut: list[Piece] = []
    whole = tuple(slice(0, nodes) for nodes in shape[axis + 1 :])
    for leading in np.ndindex(*shape[:axis]):
        before = sum(place * stride for place, stride in zip(leading, strides, strict=False))
        for start in range(0, shape[axis], step):
            stop = min(start + step, shape[axis])
            index = (*(slice(place, place + 1) for place in leading), slice(start, stop), *whole)
            block = (*(1,) * axis, stop - start, *shape[axis + 1 :])
            cut.append(Piece(index, block, before + start * strides[axis], _span(block, strides, itemsize)))
    return cut


class _Slot:
    """Pinned memory for a piece, and the mark behind the device's copy of it."""

    def __init__(self, mark: Any, watched: bool) -> None:
        self._mark = mark
        self._watched = watched
        self._asked = False
        self._memory: NDArray[np.uint8] = np.empty(0, np.uint8)

    def room(self, link: Link, count: int) -> None:
        """Have memory for so many bytes, which no device uses any more."""
        self.settle(link)
        if self._memory.nbytes < count:
            self._memory = link.pinned(1 << max(count - 1, LEAST_SLOT_BYTES - 1).bit_length())

    def push(self, link: Link, address: int, piece: Piece) -> None:
        """Ask for a copy to the device."""
        self._asked = True
        link.push(address + piece.offset, self._memory, piece.count)
        link.record(self._mark)

    def pull(self, link: Link, address: int, piece: Piece) -> None:
        """Ask for a copy from the device."""
        self._asked = True
        link.pull(self._memory, address + piece.offset, piece.count)
        link.record(self._mark)

    def settle(self, link: Link) -> None:
        """Wait for the copy that was asked for."""
        if self._asked:
            link.wait(self._mark, self._watched)
            self._asked = False

    def remark(self, link: Link) -> None:
        """Set the mark behind a copy after which it may not have been set."""
        link.record(self._mark)

    def values(self, piece: Piece, array: Any) -> NDArray[Any]:
        """The memory as a piece of an array, with the same steps from value to value."""
        return np.ndarray(piece.shape, array.dtype, self._memory.data, strides=array.strides)


class Ring:
    """Pinned memory and threads for the copies from and to a device, which all that use it may share.

    A user takes slots and brings them back: one that ends early, by an error or an interrupt, leaves them to the next,
    who waits for what the device still does with them.

    Parameters
    ----------
    threads : int, optional
        That copy at a time; by default as many as there are processors, at most `MOST_THREADS`.
    """

    def __init__(self, threads: int | None = None) -> None:
        self.threads = threads or min(processors(), MOST_THREADS)
        self._works: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._started: list[threading.Thread] = []
        weakref.finalize(self, self._works.put, None)
        self._spare: dict[bool, deque[Sequence[_Slot]]] = {True: deque(), False: deque()}

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
    def slots(self, link: Link, single: bool) -> Iterator[Sequence[_Slot]]:
        """Within, slots that nobody else uses: one whose waits are watched, or those of a thread."""
        try:
            slots = self._spare[single].pop()
        except IndexError:
            slots = [_Slot(link.mark(), watched=single) for _ in range(1 if single else SLOTS)]
        try:
            yield slots
        except BaseException:
            for slot in slots:
                slot.remark(link)
            raise
        finally:
            self._spare[single].append(slots)


Move = Callable[[Sequence[_Slot], Iterable[Piece]], None]


class Staging:
    """Copies between the caller's memory and a device's.

    Several threads may ask for them at a time.

    Parameters
    ----------
    link : Link
        To the device.
    ring : Ring
        With what they are made.
    piece_bytes, thread_bytes : int, optional
        Pieces of at most so many bytes, at least so many bytes for each thread.
    """

    def __init__(
        self, link: Link, ring: Ring, piece_bytes: int = PIECE_BYTES, thread_bytes: int = THREAD_BYTES
    ) -> None:
        self._link = link
        self._ring = ring
        self._piece_bytes = piece_bytes
        self._thread_bytes = thread_bytes
        self._results = _Results()

    def upload(self, values: NDArray[Any], array: Any) -> None:
        """See `poisson.backends.gpu.runtime.Runtime`."""
        _require_shape(values, array)
        link, address = self._link, self._link.address(array)

        def fill(slots: Sequence[_Slot], share: Iterable[Piece]) -> None:
            with np.errstate(all="ignore"):  # what is not finite in another type is found where it is used
                for piece, slot in zip(share, itertools.cycle(slots), strict=False):
                    slot.room(link, piece.count)
                    np.copyto(slot.values(piece, array), values[piece.index], casting="unsafe")
                    slot.push(link, address, piece)

        self._move(fill, array)

    def download(self, array: Any, out: NDArray[Any] | None = None) -> NDArray[Any]:
        """See `poisson.backends.gpu.runtime.Runtime`."""
        target = self._results.empty(array.shape, array.dtype) if out is None else out
        _require_shape(target, array)
        link, address = self._link, self._link.address(array)

        def take(slot: _Slot, piece: Piece) -> None:
            slot.settle(link)
            np.copyto(target[piece.index], slot.values(piece, array), casting="same_kind")

        def drain(slots: Sequence[_Slot], share: Iterable[Piece]) -> None:
            asked: deque[tuple[_Slot, Piece]] = deque()
            for piece, slot in zip(share, itertools.cycle(slots), strict=False):
                if len(asked) == len(slots):
                    take(*asked.popleft())
                slot.room(link, piece.count)
                slot.pull(link, address, piece)
                asked.append((slot, piece))
            while asked:
                take(*asked.popleft())

        self._move(drain, array)
        return target

    def _move(self, move: Move, array: Any) -> None:
        """Have all pieces of an array moved, each by one of the threads; this one is among them."""
        shape, strides, itemsize = array.shape, array.strides, array.dtype.itemsize
        count = _span(shape, strides, itemsize)
        threads = min(self._ring.threads, count // self._thread_bytes)
        if threads < 1:
            with self._ring.slots(self._link, single=True) as slots:
                move(slots, pieces(shape, strides, itemsize, count))
            return
        most = 1 << (count // (threads * SLOTS)).bit_length() - 1
        most = min(max(most, LEAST_PIECE_BYTES), self._piece_bytes)
        todo = deque(pieces(shape, strides, itemsize, most))
        # From here on every wait is for these copies alone, which nobody needs to interrupt.
        self._link.synchronize()

        def work() -> None:
            try:
                with self._link.in_use(), self._ring.slots(self._link, single=False) as slots:
                    move(slots, _until_empty(todo))
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
    """What NumPy asks for the place and the layout of a result, and keeps as long as anything refers to its values."""

    def __init__(
        self, memory: NDArray[np.uint8], shape: tuple[int, ...], dtype: np.dtype[Any], owner: weakref.ref[_Results]
    ) -> None:
        self._memory = memory
        self._owner = owner
        data = (memory.ctypes.data, False)
        self.__array_interface__ = {"version": 3, "shape": shape, "typestr": dtype.str, "data": data}

    def __del__(self) -> None:
        owner = self._owner()
        if owner is not None:
            owner.kept.append(self._memory)


def _require_shape(values: NDArray[Any], array: Any) -> None:
    if values.shape != array.shape:
        raise ValueError(f"values of the shape {values.shape} of an array of the shape {array.shape}")


def _span(shape: tuple[int, ...], strides: tuple[int, ...], itemsize: int) -> int:
    """Bytes from the first value of an array to behind its last."""
    return sum((nodes - 1) * stride for nodes, stride in zip(shape, strides, strict=True)) + itemsize


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
