# SPDX-License-Identifier: MIT
"""The devices of several processes, and the ways by which their arrays reach each other: for people to read."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from poisson import backends
from poisson.backends import gpu
from poisson.backends.registry import AUTO
from poisson.parallel.communicator import Communicator
from poisson.parallel.mpi import takes_device_pointers, version
from poisson.run.devices import device_of, everyone, look_around, take_place

PEER, NO_PEER, SAME_HOST, NETWORK = "peer access", "no peer access", "same host", "network"


@dataclass(frozen=True)
class Neighbour:
    """The machine and the device of a rank."""

    rank: int  # Which one.
    # Its machine, the backend that ``auto`` takes there, and what that runs on.
    host: str
    backend: str
    device: str
    gpu: str = ""  # What tells its GPU from others, if it has one.
    # Whether that reads the memory of others which the process sees, by what tells them apart.
    peers: dict[str, bool] = field(default_factory=dict)

    def way_to(self, other: "Neighbour") -> str:
        """By what arrays go to another rank."""
        if other.host != self.host:
            return NETWORK
        if not (self.gpu and other.gpu) or other.gpu not in self.peers:
            return SAME_HOST
        return PEER if self.peers[other.gpu] else NO_PEER

    def links(self, all_ranks: "Sequence[Neighbour]") -> str:
        """The ways to all other ranks, with their numbers."""
        ways: dict[str, list[int]] = {}
        for other in all_ranks:
            if other.rank != self.rank:
                ways.setdefault(self.way_to(other), []).append(other.rank)
        return "; ".join(f"{way}: {_ranges(numbers)}" for way, numbers in ways.items())


@dataclass(frozen=True)
class Neighbourhood:
    """All ranks, and their MPI."""

    ranks: Sequence[Neighbour]  # In their order.
    mpi: str  # Its name and version.
    device_pointers: bool | None  # Whether it takes addresses on a GPU; None if it does not say.


def neighbourhood(communicator: Communicator) -> Neighbourhood:
    """The machines and devices of all ranks, which all call this.

    Raises BackendUnavailable if there are fewer GPUs than ranks on a host.
    """
    seen = look_around()
    number = device_of(communicator.rank, everyone(communicator, seen))
    threads = take_place(communicator, AUTO, 0)
    found = next(info for info in backends.describe(threads) if info.available)
    own = "" if number is None else seen.devices[number]
    peers = gpu.peers() if own else {}
    neighbour = Neighbour(communicator.rank, seen.host, found.name, found.device, own, peers)
    return Neighbourhood(everyone(communicator, neighbour), version(), takes_device_pointers())


def _ranges(numbers: Sequence[int]) -> str:
    """Numbers in rising order, with runs of them written as such: ``0, 2-5``."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and runs[-1][-1] == number - 1:
            runs[-1][1:] = [number]
        else:
            runs.append([number])
    return ", ".join("-".join(map(str, run)) for run in runs)
