# SPDX-License-Identifier: MIT
"""Whether this process was started as one of several, by mpirun, mpiexec or srun; and MPI where it was.

Nothing here imports mpi4py, which starts MPI, before it is certain that there are several processes.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from poisson.errors import PackageMissing, PoissonError
from poisson.words import quantity

if TYPE_CHECKING:
    from poisson.parallel.mpi import MpiCommunicator

INSTALL = "in the checkout, pip install '.[mpi]'"


class LaunchError(PoissonError):
    """The processes that were started do not find each other."""


@dataclass(frozen=True)
class Launch:
    """The place of this process among those that were started, by its environment.

    `rank`, `size`: its number, and how many were started.
    """

    rank: int
    size: int


@dataclass(frozen=True)
class _Launcher:
    """The variables of a launcher: size and number of a process, and one of those by which MPI finds the others.

    A variable that was set by mistake, or that a batch script inherits, comes without the latter.
    """

    size: str
    rank: str
    way: tuple[str, ...]


_LAUNCHERS = (
    _Launcher("OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", ("PMIX_NAMESPACE", "PMIX_SERVER_URI2", "PMI_FD")),
    _Launcher("PMI_SIZE", "PMI_RANK", ("PMI_FD", "PMI_PORT", "PMI_JOBID", "PMIX_NAMESPACE", "PALS_APID")),
    _Launcher("SLURM_NTASKS", "SLURM_PROCID", ("PMIX_NAMESPACE", "PMI_FD", "PMI_JOBID", "PMI_RANK", "PMI2_RANK")),
)


def launch(environment: Mapping[str, str] = os.environ) -> Launch | None:
    """How this process was started; None if it is alone."""
    for launcher in _LAUNCHERS:
        size, rank = (_number(environment.get(name, "")) for name in (launcher.size, launcher.rank))
        if size is None or rank is None or not rank < size or not any(name in environment for name in launcher.way):
            continue
        if size > 1:
            return Launch(rank, size)
    return None


def world(launched: Launch) -> MpiCommunicator:
    """The communicator of all processes that were started.

    Raises `PackageMissing` if mpi4py is not installed; `LaunchError` if MPI cannot be loaded, or finds other processes
    than those that were started.
    """
    try:
        from poisson.parallel.mpi import MpiCommunicator, load, version

        mpi = load()
    except ModuleNotFoundError as error:
        raise PackageMissing(
            f"started with {quantity(launched.size, 'process')}, and mpi4py is missing: {INSTALL}"
        ) from error
    except (ImportError, RuntimeError) as error:
        reason = " ".join(str(error).split())
        raise LaunchError(f"mpi4py finds no MPI ({reason}): install an MPI, or load the module of an MPI") from error
    comm = mpi.COMM_WORLD
    if comm.Get_size() != launched.size:
        raise LaunchError(
            f"started with {quantity(launched.size, 'process')}, and MPI sees {comm.Get_size()}: mpi4py uses "
            f"{version()}; take its mpirun, or install mpi4py for the MPI that started them"
        )
    return MpiCommunicator.of(comm)


def _number(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 10 else None
