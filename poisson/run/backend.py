# SPDX-License-Identifier: MIT
"""The backend of a solver: which one, on which device, and the next one where that fails."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from poisson import backends
from poisson.backends import registry as backend_registry
from poisson.backends.base import Backend
from poisson.backends.registry import AUTO
from poisson.errors import BackendFailed, BackendUnavailable, ResourceError
from poisson.run.devices import communicator_for, take_place
from poisson.run.request import Request

DTYPES: Mapping[str, type[np.floating[Any]]] = {"float32": np.float32, "float64": np.float64}


class NextBackend(Exception):
    """The backend that ``auto`` has taken has failed.

    `name`: the backend. `reason`: by what it failed. Not the error, which would hold the memory of the device.
    """

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(f"{name}: {reason}")
        self.name = name
        self.reason = reason


def next_backend(error: Exception, local: Backend, request: Request) -> NextBackend:
    """The failure of a backend that ``auto`` has taken, from what it has raised, where there is another one to try.

    Several ranks have one backend, and end with the error: not all of them may have failed. Where memory is short on
    the host, no other backend of the host has more.

    Raises the error, in one line, if there is no other backend, or the error is none of a backend.
    """
    from poisson.backends.gpu.failures import failure

    found = failure(error) or error
    short = isinstance(found, (ResourceError, MemoryError))
    if (
        not (short or isinstance(found, (BackendFailed, BackendUnavailable)))
        or (short and local.on_host)
        or request.run.backend != AUTO
        or request.ranks.size > 1
        or local.name == tuple(backend_registry.BACKENDS)[-1]
    ):
        if found is error:
            raise error
        raise found from error
    return NextBackend(local.name, str(found) or "too little memory")


def local_backend(request: Request, failed: Mapping[str, str] = MappingProxyType({})) -> Backend:
    """The backend of this process; all ranks have the same one. Those that have `failed` are not tried again."""
    run, ranks = request.run, request.ranks
    threads = take_place(ranks.communicator, run.backend, run.threads)
    with ranks.agreed():
        dtype = DTYPES[run.dtype]
        local = backends.instead_of(failed, dtype, threads) if failed else backends.create(run.backend, dtype, threads)
    names = ranks.everyone(local.name)
    if len(set(names)) > 1:
        places = dict(zip(names, ranks.hosts, strict=True))
        found = ", ".join(f"{name} on {host}" for name, host in places.items())
        raise BackendUnavailable(f"the processes would run on different backends ({found}): set run.backend")
    ranks.communicator = communicator_for(ranks.communicator, local)
    return local
