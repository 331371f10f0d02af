# SPDX-License-Identifier: MIT
"""The signals that end a solve after the current iteration: Ctrl-C, and what a command counts as that."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator, Sequence
from importlib import import_module
from types import FrameType
from typing import Any

SIGNALS = import_module("_signal")
"""The functions of `signal` without its enums, which take 15 µs of a small solve."""

MAY_END = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1)
"""The signals that may count as Ctrl-C: looking at every signal would take as long as a small solve."""


class EndedBySignal(KeyboardInterrupt):
    """A signal has ended what was under way, as Ctrl-C does.

    `number`: which one. `text`: what there is to say.
    """

    def __init__(self, number: int, text: str = "interrupted") -> None:
        super().__init__(text)
        self.number = number
        self.text = text

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.number, self.text)


class Ending:
    """The handler of a signal that counts as Ctrl-C; a solve that is under way notes the signal instead.

    `once`: whether the signal counts once only: launchers send SIGTERM several times.
    """

    def __init__(self, *, once: bool = False) -> None:
        self._once = once
        self._came = False

    def counts(self) -> bool:
        """Whether the signal, which has come, counts."""
        counts = not (self._once and self._came)
        self._came = True
        return counts

    def __call__(self, number: int, frame: FrameType | None) -> None:
        if self.counts():
            raise EndedBySignal(number)


class Pressed:
    """The signals that have come so far.

    `number`: the first signal, or 0.
    """

    def __init__(self) -> None:
        self.number = 0

    def __call__(self) -> bool:
        return self.number != 0


@contextlib.contextmanager
def noted(numbers: Sequence[signal.Signals] = MAY_END) -> Iterator[Pressed]:
    """Within, the first interrupt by one of these signals is only noted; a second one interrupts as usual.

    Of signals with a handler of someone else's, that decides what they do; a shell has Ctrl-C ignored for a command in
    the background.
    """
    pressed = Pressed()

    # Nothing is said here, where a write of the log itself may have been interrupted.
    def note(number: int, frame: FrameType | None) -> None:
        handler = ours[number]
        if isinstance(handler, Ending) and not handler.counts():
            return
        if pressed():
            raise EndedBySignal(number)
        pressed.number = number

    if threading.current_thread() is not threading.main_thread():
        yield pressed
        return
    before = {number: SIGNALS.getsignal(number) for number in numbers}
    ours: dict[int, Any] = {
        number: handler
        for number, handler in before.items()
        if isinstance(handler, Ending) or handler is signal.default_int_handler
    }
    for number in ours:
        SIGNALS.signal(number, note)
    try:
        yield pressed
    finally:
        for number, handler in ours.items():
            SIGNALS.signal(number, handler)
