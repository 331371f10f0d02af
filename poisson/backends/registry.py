# SPDX-License-Identifier: MIT
"""The backends by their names: where each is made, and what can be said of it before it is there.

Nothing is imported here but what Python has: a backend is loaded when it is asked for.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from poisson.errors import BackendUnavailable

if TYPE_CHECKING:
    from poisson.backends.base import Backend

AUTO = "auto"
"""In the place of a backend: the first of them that is available."""


@dataclass(frozen=True)
class BackendEntry:
    """What is known of a backend before it is loaded.

    Parameters
    ----------
    name : str
        The name in ``[run] backend``.
    place : str
        ``module:name`` of what makes it, called with the type of its arrays and, if it is threaded, the number of
        threads: a `Backend`, or `BackendUnavailable`, which says what to install.
    threaded : bool
        Whether it runs on threads of the CPU that can be counted.
    optional : bool
        Whether most machines lack the package that it needs: where ``auto`` goes on without, that is not worth a word.
    """

    name: str
    place: str
    threaded: bool = False
    optional: bool = False

    def create(self, dtype: Any, threads: int) -> Backend:
        """Make the backend (`poisson.backends.create`)."""
        module, _, name = self.place.partition(":")
        make = getattr(import_module(module), name)
        backend: Backend = make(dtype, threads) if self.threaded else make(dtype)
        return backend


BACKENDS: Mapping[str, BackendEntry] = MappingProxyType(
    {
        entry.name: entry
        for entry in (
            BackendEntry("gpu", "poisson.backends.gpu:create", optional=True),
            BackendEntry("openmp", "poisson.backends.openmp.backend:OpenmpBackend", threaded=True),
            BackendEntry("numpy", "poisson.backends.numpy:NumpyBackend"),
        )
    }
)
"""Every backend, the one that ``auto`` prefers first."""

NAMES = tuple(BACKENDS)


def backend_names() -> tuple[str, ...]:
    """What may stand for a backend."""
    return AUTO, *BACKENDS


def entry_of(name: str) -> BackendEntry:
    """The entry of a backend.

    Raises
    ------
    BackendUnavailable
        If there is none of that name.
    """
    if name not in BACKENDS:
        raise BackendUnavailable(f"unknown backend {name!r}; the backends are {', '.join(backend_names())}")
    return BACKENDS[name]


def threaded(name: str) -> bool:
    """Whether a backend runs on threads of the CPU that can be counted, or may.

    Raises
    ------
    BackendUnavailable
        If there is none of that name.
    """
    return name == AUTO or entry_of(name).threaded
