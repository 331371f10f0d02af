# SPDX-License-Identifier: MIT
"""The file that HDF5 writes to: it takes everything, and remembers what the disk refused."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any


class Sink:
    """A file for `h5py.File` that never refuses.

    The library cannot close a file that a disk refuses to write. It tries again when the process ends, with what has
    been freed by then, and crashes. So every write succeeds for it; the first error is kept, and nothing is written
    after it.

    `path`: an empty file. `failure`: the first error, or an interrupt from the keyboard.
    """

    def __init__(self, path: Path) -> None:
        self._handle = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        self._place = self._end = 0
        self._lost: dict[int, bytes] = {}
        self.failure: BaseException | None = None

    def check(self) -> None:
        """Raise the first error, if there was one."""
        if self.failure is not None:
            raise self.failure

    def keep(self, error: BaseException) -> None:
        """Note an error, if it is the first one: nothing is written after it.

        What a handler of signals raises goes here, too: raised in a call of the library it would be an error of that.
        So Ctrl-C ends the write at the next `check`.
        """
        if self.failure is None:
            # Its frames hold handles of the library, which must not outlive the interpreter.
            self.failure = error.with_traceback(None)

    def close(self) -> None:
        """Give the file back to the system."""
        os.close(self._handle)

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Move to a place."""
        self._place = offset + {os.SEEK_SET: 0, os.SEEK_CUR: self._place, os.SEEK_END: self._end}[whence]
        return self._place

    def tell(self) -> int:
        """The place of the next write."""
        return self._place

    def write(self, data: memoryview) -> int:
        """Write at the place, if nothing has failed yet."""
        start, length = self._place, len(data)
        if self.failure is None:
            try:
                written = 0
                while written < length:
                    written += os.pwrite(self._handle, data[written:], start + written)
            except BaseException as error:
                self.keep(error)
        if self.failure is not None and length <= _SMALL:
            # The library reads its own tables again, and would take others for damage.
            self._lost[start] = bytes(data)
        self._place += length
        self._end = max(self._end, self._place)
        return length

    def readinto(self, buffer: memoryview) -> int:
        """Read at the place; zeros where nothing has been written."""
        start, length = self._place, len(buffer)
        found = self._lost.get(start, b"")[:length] or os.pread(self._handle, length, start)
        buffer[: len(found)] = found
        buffer[len(found) :] = bytes(length - len(found))
        self._place += length
        return length

    def read(self, length: int = -1) -> bytes:
        """Read at the place; h5py knows a file by this."""
        buffer = bytearray(max(0, self._end - self._place if length < 0 else length))
        self.readinto(memoryview(buffer))
        return bytes(buffer)

    def truncate(self, length: int) -> int:
        """Make the file so long."""
        if self.failure is None:
            try:
                os.ftruncate(self._handle, length)
            except BaseException as error:
                self.keep(error)
        self._end = length
        return length

    def extend(self, length: int) -> None:
        """Make the file at least so long."""
        self.truncate(max(length, self._end))

    def flush(self) -> None:
        """Nothing waits."""


_SMALL = 1 << 16


@contextlib.contextmanager
def keeping(keep: Callable[[BaseException], None]) -> Iterator[None]:
    """Within, what the handlers of signals raise is not raised where it happens, but given to `keep`.

    In another thread than the main one there are no handlers.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    handlers = {number: signal.getsignal(number) for number in signal.valid_signals()}
    changed = {number: handler for number, handler in handlers.items() if callable(handler)}
    for number, handler in changed.items():
        signal.signal(number, _keeping(handler, keep))
    try:
        yield
    finally:
        for number, handler in changed.items():
            signal.signal(number, handler)


def _keeping(
    handler: Callable[[int, FrameType | None], Any], keep: Callable[[BaseException], None]
) -> Callable[[int, FrameType | None], None]:
    def handle(number: int, frame: FrameType | None) -> None:
        try:
            handler(number, frame)
        except BaseException as error:
            keep(error)

    return handle
