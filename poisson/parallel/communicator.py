# SPDX-License-Identifier: MIT
"""How the processes that solve one problem together talk: what a communicator must offer, and that of a single one.

Processes are called ranks, and every one of them calls the same methods in the same order. What must have the same bits
at every run is joined in the order of the ranks.
"""

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, Protocol

Array = Any


@dataclass(frozen=True)
class Message:
    """One array that goes from a rank to another, seen from one end.

    `array` (array): contiguous: what is sent, or where what comes is put. Not touched by others until the exchange has
    ended. `peer`: the other rank. `tag`: tells messages between the same two ranks apart. `sends`: whether the array is
    sent.
    """

    array: Array
    peer: int
    tag: int
    sends: bool


class Communicator(Protocol):
    """The ranks that solve one problem together.

    `rank`, `size`: the number of this rank, and how many there are. `on_device`: whether `exchange` takes arrays on the
    device of a backend, in the order of its stream; else NumPy arrays.
    """

    rank: int
    size: int
    on_device: bool

    def exchange(self, messages: Sequence[Message]) -> None:
        """Send and receive; every message has its counterpart in the same call of the other rank."""

    def allgather(self, values: Sequence[float]) -> list[tuple[float, ...]]:
        """A few numbers of every rank, in the order of the ranks."""

    def broadcast(self, value: Any, root: int = 0) -> Any:
        """A Python object of one rank, on every one."""

    def gather(self, value: Any, root: int = 0) -> list[Any] | None:
        """A Python object of every rank, in the order of the ranks, on one of them; None on the others."""

    def barrier(self, *, asleep: bool = False) -> None:
        """Wait until every rank is here; asleep: some ms longer, but without a hold on a processor that others use."""

    def agree(self, flag: bool) -> bool:
        """Whether the flag is set on any rank."""

    def together(self) -> AbstractContextManager[None]:
        """Within, an exception on one rank ends the block on every one. The end of the block is a collective call."""


class Serial:
    """The only rank."""

    rank = 0
    size = 1
    on_device = False

    def exchange(self, messages: Sequence[Message]) -> None:
        """Copy what is sent to where it is received; both ends are here."""
        sent = {message.tag: message.array for message in messages if message.sends}
        for message in messages:
            if not message.sends:
                message.array[...] = sent[message.tag]

    def allgather(self, values: Sequence[float]) -> list[tuple[float, ...]]:
        return [tuple(values)]

    def broadcast(self, value: Any, root: int = 0) -> Any:
        return value

    def gather(self, value: Any, root: int = 0) -> list[Any] | None:
        return [value]

    def barrier(self, *, asleep: bool = False) -> None:
        return

    def agree(self, flag: bool) -> bool:
        return flag

    def together(self) -> AbstractContextManager[None]:
        return nullcontext()
