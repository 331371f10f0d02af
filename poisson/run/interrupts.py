# SPDX-License-Identifier: MIT
"""The signals that end a solve after the current iteration: Ctrl-C, and what a command counts as that."""

from __future__ import annotations

import signal
import threading
from collections.abc import Sequence
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


class Noted:
    """Within, the first interrupt by one of these signals is only noted; a second one interrupts as usual.

    A handler of someone else's for a signal still decides what that does; a shell has Ctrl-C ignored for a command in
    the background. A call says whether a signal has come. `number`: the first signal, or 0.
    """

    def __init__(self, numbers: Sequence[signal.Signals] = MAY_END) -> None:
        self.number = 0
        self._numbers = numbers
        self._ours: dict[int, Any] = {}

    def __call__(self) -> bool:
        return self.number != 0

    def __enter__(self) -> Noted:
        if threading.current_thread() is threading.main_thread():
            for number in self._numbers:
                handler = SIGNALS.getsignal(number)
                if isinstance(handler, Ending) or handler is signal.default_int_handler:
                    self._ours[number] = handler
                    SIGNALS.signal(number, self._note)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._ours.items():
            SIGNALS.signal(number, handler)

    def _note(self, number: int, frame: FrameType | None) -> None:
        # Nothing is said here, where a write of the log itself may have been interrupted.
        handler = self._ours[number]
        if isinstance(handler, Ending) and not handler.counts():
            return
        if self.number:
            raise EndedBySignal(number)
        self.number = number
