# SPDX-License-Identifier: MIT
"""A result whose arrays are divided over processes, in one file that all of them write.

Rank 0 does all that is done for the result of one process, and asks the others for their parts of the arrays when the
file has a place for them. Each writes its own there, in pieces, so that no process ever holds more than its part.
Whether all went well is asked after each step, and an error of one rank is raised on all of them.
"""

from __future__ import annotations

import contextlib
import errno
import os
import pickle
import platform
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from poisson.backends.processors import processors
from poisson.mesh.grid import over_slabs
from poisson.output.checksum import Contribution, joined
from poisson.output.record import HeldPart, Record, Span
from poisson.output.sink import keeping
from poisson.parallel.communicator import Communicator, Serial
from poisson.problem.arrays import on_device

Value = TypeVar("Value")
Ended = tuple[Value, BaseException | None]
Ranges = tuple[tuple[int, int], ...]

PIECE_BYTES = 1 << 23
"""The bytes that are copied and written at once."""

RUNS_AT_ONCE = 4
"""Pieces, one after the other, that a thread takes."""

LARGE_BYTES = 1 << 25
"""Results of one process whose u takes so many bytes are written in one run, too: chunks take several times as long."""


def together(solution: Record, work: Callable[[Parts | None], Value]) -> Value:
    """Do on rank 0 what writes a solution; every rank that holds a part of it calls this, and writes that when asked.

    `solution`: with the share of this rank. `work`: called on rank 0, with what writes the parts; with None where rank
    0 has the whole. Returns what `work` returns, and raises what it raises, on every rank. An interrupt of any rank
    ends the writing of the parts; one that comes later is raised when the work is done.
    """
    if solution.share is None and solution.u.nbytes < LARGE_BYTES:
        return work(None)
    share = solution.share or _Whole(tuple((0, nodes) for nodes in solution.problem.lattice.array_shape))
    parts = Parts(solution, share)
    with keeping(parts.keep):
        ended: Ended[Value] = parts.lead(work) if share.communicator.rank == 0 else parts.follow()
    value, failure = ended
    if failure is not None:
        raise failure
    return value


@dataclass(frozen=True)
class _Whole:
    """The only rank's part: the whole."""

    ranges: Ranges
    communicator: Communicator = field(default_factory=Serial)


class Parts:
    """One rank's side of writing a solution together.

    `solution`: with the part of the arrays that this rank holds. `share`: that of this rank.
    """

    def __init__(self, solution: Record, share: HeldPart) -> None:
        self._ranges = share.ranges
        self._communicator = share.communicator
        self._whole = solution.problem.lattice.array_shape
        self._arrays = {"u": solution.u, **solution.fields}
        self._kept: BaseException | None = None

    def keep(self, error: BaseException) -> None:
        """Keep what a handler of signals raises until the ranks can agree on it."""
        if self._kept is None:
            self._kept = error

    # ---- the two sides

    def lead(self, work: Callable[[Parts | None], Value]) -> Ended[Value]:
        """On rank 0: do the work, and end the waiting of the others; its value, and the error that all are to raise."""
        divided = any(held != (0, nodes) for held, nodes in zip(self._ranges, self._whole, strict=True))
        value, failure = None, None
        try:
            alone = self._communicator.size == 1 and self._arrays["u"].nbytes >= LARGE_BYTES
            value = work(self if divided or alone else None)
        except BaseException as error:
            failure = error
        self._communicator.broadcast(None)
        return self._ended(value, failure)

    def follow(self) -> Ended[Any]:
        """On the other ranks: write the parts when asked to, until rank 0 has done its work."""
        while (asked := self._communicator.broadcast(None)) is not None:
            with contextlib.suppress(_Failed):
                self._put(*asked)
        return self._ended(None, None)

    def _ended(self, value: Any, failure: BaseException | None) -> Ended[Any]:
        failure = self._first(failure or self._kept)
        return self._communicator.broadcast(value), failure

    # ---- writing

    def put(self, path: Path, places: dict[str, int]) -> dict[str, tuple[int, Span]]:
        """On rank 0: have every rank write its parts into a file that is as long as it will be.

        `path`: the file, by a name that all ranks know it by. `places`: where in it each array begins, in bytes.
        Returns: the CRC-32 and the span of each array. Raises `OSError` if a rank cannot write its part.
        """
        try:
            return self._put(self._communicator.broadcast((path, places))[0], places)
        except _Failed as failed:
            raise failed.error from None

    def _put(self, path: Path, places: dict[str, int]) -> dict[str, tuple[int, Span]]:
        with contextlib.ExitStack() as stack:

            def opened() -> int:
                handle = self._open(path)
                stack.callback(os.close, handle)
                return handle

            handle = self._all(opened)
            found = {name: self._all(partial(self._write, handle, name, place)) for name, place in places.items()}
            # A disk of the network may refuse only now, and another rank's file is not written by rank 0's request.
            if self._communicator.size > 1:
                self._all(partial(os.fsync, handle))
        every = self._communicator.gather(found) or []
        sums = {}
        for name in places if every else ():
            length = self._length(name)
            counts, values, spans = zip(*(run for part in every for run in part[name]), strict=True)
            if sum(counts) != length:
                raise ValueError(f"the parts of {name} do not add up to the whole")
            sums[name] = joined(values, length), Span.joined(spans)
        return sums

    def _open(self, path: Path) -> int:
        try:
            # Only to be written: where a disk of the network keeps pages, no others' bytes get into them.
            return os.open(path, os.O_WRONLY | os.O_CLOEXEC)
        except OSError as error:
            if error.errno not in (errno.ENOENT, errno.ENOTDIR):
                raise
            who = f"rank {self._communicator.rank} on {platform.node()}"
            raise OSError(f"{who} does not see the folder; the folder must be shared by all hosts") from error

    def _write(self, handle: int, name: str, place: int) -> list[tuple[int, int, Span]]:
        """Write this rank's part of an array; returns of some runs the bytes, the part of the checksum, the span."""
        values, shape = self._arrays[name], self.shape(name)
        components = shape[len(self._whole) :]
        ranges = (*self._ranges, *((0, count) for count in components))
        if values.shape != tuple(stop - start for start, stop in ranges):
            raise ValueError(f"{name} has the shape {values.shape} on nodes {self._ranges}")
        runs = list(pieces(shape, ranges, values.dtype.itemsize))

        def put(begin: int, end: int) -> tuple[int, int, Span]:
            contribution, spans = Contribution(), [Span.of(np.empty(0))]
            for start, index in runs[begin:end]:
                if self._kept is not None:
                    raise self._kept
                piece = values[index]
                run = np.ascontiguousarray(piece if isinstance(piece, np.ndarray) else piece.get())
                contribution.add(start, run)
                spans.append(Span.of(run))
                data, written = run.reshape(-1).view(np.uint8).data, 0
                while written < len(data):
                    written += os.pwrite(handle, data[written:], place + start + written)
                _begin_to_store(handle, place + start, written)
            return contribution.bytes, contribution.value(self._length(name)), Span.joined(spans)

        # Ranks are threads enough, and what stays in a file is read by one.
        alone = self._communicator.size == 1 and (isinstance(values, np.ndarray) or on_device(values))
        return over_slabs((len(runs),), put, processors() if alone else 1, RUNS_AT_ONCE)

    def shape(self, name: str) -> tuple[int, ...]:
        """The shape of the whole array of which this rank has a part."""
        return (*self._whole, *self._arrays[name].shape[len(self._whole) :])

    def _length(self, name: str) -> int:
        return int(np.prod(self.shape(name), dtype=np.int64)) * int(self._arrays[name].dtype.itemsize)

    # ---- agreeing

    def _all(self, step: Callable[[], Value]) -> Value:
        """Do a step on every rank; the first error of one is raised on all."""
        value, failure = None, None
        try:
            value = step()
        except BaseException as error:
            failure = error
        if (first := self._first(failure or self._kept)) is not None:
            raise _Failed(first)
        return value  # type: ignore[return-value]

    def _first(self, failure: BaseException | None) -> BaseException | None:
        """The error of the first rank that has one, as an object of this rank's own."""
        every = self._communicator.gather(None if failure is None else _packed(failure))
        found = [(rank, packed) for rank, packed in enumerate(every or ()) if packed is not None]
        first = self._communicator.broadcast(found[0] if found else None)
        if first is None:
            return None
        rank, packed = first
        if rank == self._communicator.rank:
            return failure
        error: BaseException = pickle.loads(packed)
        return error


def _begin_to_store(handle: int, start: int, count: int) -> None:
    """Have a disk begin with bytes that were written, so that it stores them while others are made.

    Linux, told that pages will not be needed, sends those that differ from the disk there, and keeps them until they
    are the same. Otherwise it would wait for `os.fsync`, which says whether all went well in any case.
    """
    if hasattr(os, "posix_fadvise"):
        # A file system may take no advice.
        with contextlib.suppress(OSError):
            os.posix_fadvise(handle, start, count, os.POSIX_FADV_DONTNEED)


class _Failed(Exception):
    """A step failed on some rank; all of them know."""

    def __init__(self, error: BaseException) -> None:
        super().__init__()
        self.error = error


def _packed(error: BaseException) -> bytes:
    """An error as bytes; one that cannot be copied in words."""
    try:
        packed = pickle.dumps(error)
        pickle.loads(packed)
    except Exception:  # whatever the parts of another library's error raise
        packed = pickle.dumps(RuntimeError(f"{type(error).__name__}: {error}"))
    return packed


def pieces(shape: tuple[int, ...], ranges: Ranges, itemsize: int) -> Iterator[tuple[int, tuple[int | slice, ...]]]:
    """The runs of a block of a C-ordered array, in the order in which they stand in it.

    `shape`: of the array. `ranges` (tuple of (int, int)): the nodes of the block along each of its axes. `itemsize`:
    bytes of a value. Yields: `start`: where the run begins in the array, in bytes. `index`: where it stands in the
    block. Of `PIECE_BYTES` at most, or one value.
    """
    strides = [itemsize] * len(shape)
    for axis in reversed(range(1, len(shape))):
        strides[axis - 1] = strides[axis] * shape[axis]
    counts = [stop - start for start, stop in ranges]
    along = len(shape) - 1
    while along > 0 and counts[along] == shape[along] and strides[along - 1] <= PIECE_BYTES:
        along -= 1
    most = max(1, PIECE_BYTES // strides[along])
    first = sum(start * stride for (start, _), stride in zip(ranges, strides, strict=True))
    for outer in np.ndindex(*counts[:along]):
        begin = first + sum(index * stride for index, stride in zip(outer, strides, strict=False))
        for low in range(0, counts[along], most):
            yield begin + low * strides[along], (*outer, slice(low, min(low + most, counts[along])))
