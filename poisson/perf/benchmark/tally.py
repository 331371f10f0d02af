# SPDX-License-Identifier: MIT
"""The exchanges of ranks, counted without slowing them: messages that are recorded in a graph count with its
replays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from poisson.backends.base import Backend
from poisson.parallel.communicator import Communicator, Message


@dataclass
class Sent:
    """The messages that a rank has sent: steps with a message to or from another rank, the bytes of them, and small
    numbers that were joined, such as those of a norm.
    """

    exchanges: int = 0
    bytes: int = 0
    sums: int = 0

    def __add__(self, other: Sent) -> Sent:
        return Sent(self.exchanges + other.exchanges, self.bytes + other.bytes, self.sums + other.sums)

    def __sub__(self, other: Sent) -> Sent:
        return Sent(self.exchanges - other.exchanges, self.bytes - other.bytes, self.sums - other.sums)


class Tally:
    """A communicator that counts in `sent` what goes through another one."""

    def __init__(self, communicator: Communicator) -> None:
        self.rank, self.size = communicator.rank, communicator.size
        self.on_device = communicator.on_device
        self.sent = Sent()
        self._communicator = communicator

    def __getattr__(self, name: str) -> Any:
        return getattr(self._communicator, name)

    def exchange(self, messages: Sequence[Message]) -> None:
        away = [message for message in messages if message.peer != self.rank]
        self.sent += Sent(bool(away), sum(message.array.nbytes for message in away if message.sends))
        self._communicator.exchange(messages)

    def allgather(self, values: Sequence[float]) -> list[tuple[float, ...]]:
        self.sent += Sent(sums=1)
        return self._communicator.allgather(values)


class Recorder:
    """A stand-in for the backend of a rank: exchanges in its recordings count as often as they are replayed."""

    def __init__(self, backend: Backend, tally: Tally) -> None:
        self._backend = backend
        self._tally = tally

    def __getattr__(self, name: str) -> Any:
        return getattr(self._backend, name)

    def capture(self, function: Callable[[], None]) -> Callable[[], None]:
        tally = self._tally
        before = tally.sent
        replay = self._backend.capture(function)
        recorded = tally.sent - before
        tally.sent = before

        def counted() -> None:
            tally.sent += recorded
            replay()

        return counted

    def companion(self, dtype: np.dtype[Any] | type[np.floating[Any]]) -> Recorder:
        return Recorder(self._backend.companion(dtype), self._tally)
