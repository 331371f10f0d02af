"""Backends by name. A backend is imported when it is asked for."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from poisson.backends import registry
from poisson.backends.registry import AUTO, NAMES, entry_of
from poisson.errors import BackendUnavailable

if TYPE_CHECKING:
    import numpy as np

    from poisson.backends.base import Backend

__all__ = ["NAMES", "BackendInfo", "create", "describe"]

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class BackendInfo:
    """What `describe` says of a backend.

    Parameters
    ----------
    name : str
        The name in ``[run] backend``.
    available : bool
        Whether it runs here.
    device : str
        The device it runs on; empty if it is not available.
    reason : str
        Why it is not available, with what to install; empty if it is.
    """

    name: str
    available: bool
    device: str
    reason: str


def create(name: str, dtype: np.dtype[Any] | type[np.floating[Any]], threads: int = 0) -> Backend:
    """Make a backend.

    Parameters
    ----------
    name : str
        One of `NAMES`, or ``auto``: the first of them that is available.
    dtype : numpy dtype
        float32 or float64.
    threads : int
        Threads of a backend on the CPU; 0 takes `poisson.backends.processors.default_threads`.

    Raises
    ------
    BackendUnavailable
        If there is none of that name, or it does not run here; the line says why and what to install.
    """
    return _first_available(dtype, threads) if name == AUTO else entry_of(name).create(dtype, threads)


def describe(threads: int = 0) -> list[BackendInfo]:
    """Every backend with its device, or with what is missing; with so many threads, as `create` takes them."""
    import numpy as np

    rows = []
    for name in registry.BACKENDS:
        try:
            rows.append(BackendInfo(name, True, create(name, np.float64, threads).device, ""))
        except BackendUnavailable as error:
            rows.append(BackendInfo(name, False, "", str(error)))
    return rows


def _first_available(dtype: np.dtype[Any] | type[np.floating[Any]], threads: int) -> Backend:
    refusals: dict[str, BackendUnavailable] = {}
    for name, entry in registry.BACKENDS.items():
        try:
            backend = entry.create(dtype, threads)
        except BackendUnavailable as error:
            refusals[name] = error
            continue
        log.info("backend %s: %s", name, backend.device)
        for refused, reason in refusals.items():
            # A machine without a package that few have is the usual case and not worth a word. A device that does not
            # work is, and a missing library costs most of the speed.
            if not (registry.BACKENDS[refused].optional and isinstance(reason.__cause__, ModuleNotFoundError)):
                log.warning("falling back to %s; %s: %s", name, refused, reason)
        return backend
    raise BackendUnavailable("; ".join(f"{name}: {reason}" for name, reason in refusals.items()))
