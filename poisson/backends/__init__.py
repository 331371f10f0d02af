# SPDX-License-Identifier: MIT
"""Backends by name. A backend is imported when it is asked for."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from poisson.backends import registry
from poisson.backends.registry import AUTO, NAMES, entry_of
from poisson.errors import BackendFailed, BackendUnavailable, PoissonError, ResourceError

if TYPE_CHECKING:
    import numpy as np

    from poisson.backends.base import Backend

__all__ = ["NAMES", "BackendInfo", "create", "describe", "instead_of", "reported"]

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class BackendInfo:
    """A backend as `describe` reports it.

    `name`: the name in ``[run] backend``. `available`: whether it runs here. `device`: the device it runs on; empty if
    it is not available. `reason`: why it is not available, with what to install; empty if it is.
    """

    name: str
    available: bool
    device: str
    reason: str


def create(name: str, dtype: np.dtype[Any] | type[np.floating[Any]], threads: int = 0) -> Backend:
    """Make a backend.

    `name`: one of `NAMES`, or ``auto``: the first of them that is available. `dtype` (numpy dtype): float32 or float64.
    `threads`: threads of a backend on the CPU; 0 takes `poisson.backends.processors.default_threads`. Raises
    `BackendUnavailable` if there is none of that name, or it does not run here; the line says why and what to install.
    """
    if name == AUTO:
        return instead_of({}, dtype, threads)
    with reported():
        return entry_of(name).create(dtype, threads)


def instead_of(failed: Mapping[str, str], dtype: np.dtype[Any] | type[np.floating[Any]], threads: int = 0) -> Backend:
    """Make the backend that ``auto`` takes where some have failed.

    `failed`: by their names why they are not to be taken, for people. `dtype`, `threads`: as `create` takes them.
    Raises `BackendUnavailable` if there is none left.
    """
    refusals: dict[str, PoissonError] = {}
    for name, entry in registry.BACKENDS.items():
        if name in failed:
            continue
        try:
            with reported():
                backend = entry.create(dtype, threads)
        except (BackendUnavailable, BackendFailed, ResourceError) as error:
            refusals[name] = error
            continue
        log.info("backend %s: %s", name, backend.device)
        # A machine without a package that few have is the usual case and not worth a word. A device that does not work
        # is, and a missing library costs most of the speed.
        said = dict(failed) | {
            refused: str(reason)
            for refused, reason in refusals.items()
            if not (registry.BACKENDS[refused].optional and isinstance(reason.__cause__, ModuleNotFoundError))
        }
        for refused, reason in said.items():
            log.warning("falling back to %s; %s: %s", name, refused, reason)
        backend.instead_of = "; ".join(f"{refused}: {reason}" for refused, reason in said.items())
        return backend
    raise BackendUnavailable("; ".join(f"{name}: {reason}" for name, reason in (dict(failed) | refusals).items()))


def describe(threads: int = 0) -> list[BackendInfo]:
    """Every backend with its device, or with what is missing; with so many threads, as `create` takes them."""
    import numpy as np

    rows = []
    for name in registry.BACKENDS:
        try:
            rows.append(BackendInfo(name, True, create(name, np.float64, threads).device, ""))
        except PoissonError as error:
            rows.append(BackendInfo(name, False, "", str(error)))
    return rows


@contextlib.contextmanager
def reported() -> Iterator[None]:
    """Within, what a device, its driver or a compiler raises becomes an error of one line.

    Raises `BackendFailed` if the device is lost, or a kernel does not compile; `ResourceError` if the device has too
    little memory.
    """
    try:
        yield
    except Exception as error:
        from poisson.backends.gpu.failures import failure

        if (failed := failure(error)) is not None:
            raise failed from error
        raise
