# SPDX-License-Identifier: MIT
"""Ranks played by the threads of one process, with random delays: nothing may depend on the order of arrivals."""

import copy
import random
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, TypeVar

import numpy as np

from poisson.parallel.communicator import Message

Result = TypeVar("Result")

PATIENCE = 20.0
"""Seconds after which a rank that waits for another has been left alone."""


class Ended(Exception):
    """Another rank has raised an error."""


class _Shared:
    def __init__(self, size: int) -> None:
        self.size = size
        self.condition = threading.Condition()
        self.mail: dict[tuple[Any, ...], Any] = {}
        self.failed = False

    def put(self, key: tuple[Any, ...], value: Any) -> None:
        with self.condition:
            assert key not in self.mail, f"two messages {key} at once"
            self.mail[key] = value
            self.condition.notify_all()

    def take(self, key: tuple[Any, ...]) -> Any:
        with self.condition:
            there = self.condition.wait_for(lambda: key in self.mail or self.failed, PATIENCE)
            if self.failed:
                raise Ended
            assert there, f"no message {key}"
            return self.mail.pop(key)


class ThreadCommunicator:
    """A rank of `on_ranks`."""

    on_device = False

    def __init__(self, shared: _Shared, rank: int, delay: float) -> None:
        self.rank = rank
        self.size = shared.size
        self.exchanges = self.bytes = 0
        self._shared = shared
        self._delay = delay
        self._random = random.Random(rank)
        self._calls = 0

    def exchange(self, messages: Sequence[Message]) -> None:
        number = self._next()
        self.exchanges += 1
        for message in messages:
            assert isinstance(message.array, np.ndarray)
            assert message.array.flags.c_contiguous
            if message.sends:
                self.bytes += message.array.nbytes
                self._shared.put((number, self.rank, message.peer, message.tag), message.array.copy())
        for message in messages:
            if not message.sends:
                found = self._shared.take((number, message.peer, self.rank, message.tag))
                assert (found.shape, found.dtype) == (message.array.shape, message.array.dtype)
                message.array[...] = found

    def allgather(self, values: Sequence[float]) -> list[tuple[float, ...]]:
        return [tuple(each) for each in self._all(tuple(float(value) for value in values))]

    def broadcast(self, value: Any, root: int = 0) -> Any:
        return self._all(value)[root]

    def gather(self, value: Any, root: int = 0) -> list[Any] | None:
        found = self._all(value)
        return found if self.rank == root else None

    def barrier(self, *, asleep: bool = False) -> None:
        self._all(None)

    def agree(self, flag: bool) -> bool:
        return any(self._all(flag))

    def together(self) -> AbstractContextManager[None]:
        # `on_ranks` ends the other ranks.
        return nullcontext()

    def _all(self, value: Any) -> list[Any]:
        number = self._next()
        for peer in range(self.size):
            # A copy, as a message has: what is sent may change, or end, before a peer reads it.
            self._shared.put((number, self.rank, peer, "all"), copy.deepcopy(value))
        return [self._shared.take((number, peer, self.rank, "all")) for peer in range(self.size)]

    def _next(self) -> int:
        if self._delay:
            time.sleep(self._random.random() * self._delay)
        self._calls += 1
        return self._calls


def on_ranks(size: int, function: Callable[[ThreadCommunicator], Result], delay: float = 1e-4) -> list[Result]:
    """Call a function on each of so many ranks, and return the results; the first error of one ends all, and is raised.

    `size`: ranks. `function`: given the communicator of its rank. `delay`: the longest time, in s, that a rank waits
    before it communicates.
    """
    shared = _Shared(size)
    results: list[Any] = [None] * size
    errors: list[BaseException] = []

    def run(rank: int) -> None:
        try:
            results[rank] = function(ThreadCommunicator(shared, rank, delay))
        except Ended:
            pass
        except BaseException as error:
            with shared.condition:
                errors.append(error)
                shared.failed = True
                shared.condition.notify_all()

    threads = [threading.Thread(target=run, args=(rank,)) for rank in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    assert not shared.mail, "messages that nobody took"
    return results
