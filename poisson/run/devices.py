# SPDX-License-Identifier: MIT
"""Where each of several processes runs: its device, its share of the processors, how its arrays reach the others."""

import logging
import math
import os
import platform
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from poisson.backends import gpu
from poisson.backends.base import Backend
from poisson.backends.control_groups import cpu_quota
from poisson.backends.processors import THREADS_VARIABLE, default_threads
from poisson.backends.registry import AUTO
from poisson.errors import BackendUnavailable
from poisson.parallel.communicator import Communicator
from poisson.words import quantity

Value = TypeVar("Value")

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Seen:
    """The machine as a process sees it."""

    host: str  # Its name.
    devices: tuple[str, ...] = ()  # What tells the GPUs apart that the process may use, in their order.
    processors: frozenset[int] = frozenset()  # Those that it may run on.
    quota: float = math.inf  # Processors' worth of time that it shares with all processes of its control group.


def look_around() -> Seen:
    """The machine as this process sees it."""
    allowed = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else range(os.cpu_count() or 1)
    return Seen(platform.node(), gpu.identities(), frozenset(allowed), cpu_quota())


def device_of(rank: int, all_seen: Sequence[Seen]) -> int | None:
    """The number of the GPU that a rank takes among those that it sees; None if it sees none.

    Launchers may show each process one GPU of its own, which has number 0 for each, or all processes the same ones.

    Raises BackendUnavailable if two ranks would have the same one: for every rank, if for one.
    """
    numbers = [_number(each, all_seen) for each in range(len(all_seen))]
    taken: set[tuple[str, str]] = set()
    for seen, number in zip(all_seen, numbers, strict=True):
        if not seen.devices:
            continue
        here = [each for each in all_seen if each.host == seen.host and each.devices]
        device = seen.devices[number] if number < len(seen.devices) else None
        if device is None or (seen.host, device) in taken:
            there = len({name for each in here for name in each.devices})
            raise BackendUnavailable(
                f"{quantity(len(here), 'process')} on {seen.host} share {quantity(there, 'GPU')}: start one "
                f"process per GPU, with mpirun -n {there} on one host, or choose a backend of the CPU"
            )
        taken.add((seen.host, device))
    return numbers[rank] if all_seen[rank].devices else None


def _number(rank: int, all_seen: Sequence[Seen]) -> int:
    """How many ranks before this one see the same GPUs."""
    own = all_seen[rank]
    return sum((each.host, each.devices) == (own.host, own.devices) for each in all_seen[:rank])


def threads_of(rank: int, all_seen: Sequence[Seen]) -> int:
    """Threads of a rank on a CPU: the processors that it is bound to, of which it has a share with others there."""
    own = all_seen[rank]
    here = [each for each in all_seen if each.host == own.host]
    sharing = sum(bool(each.processors & own.processors) for each in here)
    share = len(own.processors) // max(1, sharing)
    return max(1, int(min(share, own.quota / len(here))))


def everyone(communicator: Communicator, value: Value) -> list[Value]:
    """A value of every rank, in their order, on each."""
    found: list[Value] = communicator.broadcast(communicator.gather(value))
    return found


def take_place(communicator: Communicator, backend: str, threads: int) -> int:
    """Choose the GPU of this rank, which then is the current one, and its number of threads.

    Every rank of several calls this; nothing is chosen for a single one.

    `communicator`: the ranks. `backend`: as in ``[run] backend``. `threads`: those asked for; 0: as many as there are
    processors for the rank, or as the user's environment says. Returns: the threads. Raises `BackendUnavailable` if
    there are fewer GPUs than ranks on a host.
    """
    if communicator.size == 1:
        return threads
    all_seen = everyone(communicator, look_around())
    if backend in (AUTO, "gpu"):
        number = device_of(communicator.rank, all_seen)
        if number is not None:
            gpu.use(number)
    if threads or os.environ.get(THREADS_VARIABLE):
        return threads or default_threads()
    return threads_of(communicator.rank, all_seen)


def communicator_for(communicator: Communicator, backend: Backend) -> Communicator:
    """The communicator for the arrays of a backend: NCCL where every rank has a GPU, or else the given one.

    Every rank calls this with its backend. There is one for all solvers on the same ranks.
    """
    if communicator.size == 1:
        return communicator
    from poisson.parallel.mpi import MpiCommunicator
    from poisson.parallel.nccl import NcclCommunicator

    if not isinstance(communicator, MpiCommunicator):
        return communicator
    modules = gpu.nccl() if backend.name == "gpu" else None
    if communicator.agree(modules is None) or modules is None:
        if backend.name == "gpu":
            log.warning("CuPy finds no NCCL: arrays travel between GPUs through the host, which is slow; install NCCL")
        return communicator
    found = communicator.attached
    if not isinstance(found, NcclCommunicator):
        found = communicator.attached = NcclCommunicator(communicator, *modules)
    backend.watch(found.look)
    return found
