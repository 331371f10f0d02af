# SPDX-License-Identifier: MIT
"""The backends by their names: where each is made, and what can be said of it before it is there.

Nothing is imported here but what Python has: a backend is loaded when it is asked for.
"""

from __future__ import annotations

import difflib
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
    """A backend as it is known before it is loaded.

    `name`: the name in ``[run] backend``. `place`: ``module:name`` of what makes it, called with the type of its arrays
    and, if it is threaded, the number of threads: a `Backend`, or `BackendUnavailable`, which says what to install.
    `threaded`: whether it runs on threads of the CPU that can be counted. `optional`: whether most machines lack the
    package that it needs: where ``auto`` goes on without, that is not worth a word. `early`: ``module:name`` of what
    may be begun, if anything, as soon as it is certain that the backend will be made.
    """

    name: str
    place: str
    threaded: bool = False
    optional: bool = False
    early: str = ""

    def create(self, dtype: Any, threads: int) -> Backend:
        """Make the backend (`poisson.backends.create`)."""
        make = _found(self.place)
        backend: Backend = make(dtype, threads) if self.threaded else make(dtype)
        return backend


def _found(place: str) -> Any:
    module, _, name = place.partition(":")
    return getattr(import_module(module), name)


BACKENDS: Mapping[str, BackendEntry] = MappingProxyType(
    {
        entry.name: entry
        for entry in (
            BackendEntry("gpu", "poisson.backends.gpu:create", optional=True, early="poisson.backends.gpu.early:begin"),
            BackendEntry("openmp", "poisson.backends.openmp.backend:OpenmpBackend", threaded=True),
            BackendEntry("numpy", "poisson.backends.numpy:NumpyBackend"),
        )
    }
)
"""Every backend, the one that ``auto`` prefers first."""

NAMES = tuple(BACKENDS)

OTHER_NAMES = {
    **dict.fromkeys(("cuda", "hip", "rocm", "cupy", "nvidia", "amd", "device"), "gpu"),
    **dict.fromkeys(("cpu", "omp", "threads", "host", "c++"), "openmp"),
}
"""The backends that are meant by names which other programs use."""


def backend_names() -> tuple[str, ...]:
    """The names that a case may give for a backend."""
    return AUTO, *BACKENDS


def nearest(name: str) -> str | None:
    """The backend that a wrong name probably means, if any."""
    lower = name.lower()
    found = [OTHER_NAMES[lower]] if lower in OTHER_NAMES else difflib.get_close_matches(lower, backend_names(), n=1)
    return found[0] if found else None


def entry_of(name: str) -> BackendEntry:
    """The entry of a backend.

    Raises `BackendUnavailable` if there is none of that name.
    """
    if name not in BACKENDS:
        meant = f"; did you mean {nearest(name)!r}?" if nearest(name) else ""
        raise BackendUnavailable(f"unknown backend {name!r}; the backends are {', '.join(backend_names())}{meant}")
    return BACKENDS[name]


def begin(name: str) -> None:
    """Begin what a backend, or the first that ``auto`` tries, can do before it is made; nothing for unknown names.

    Only for a process that is alone, and is going to make the backend.
    """
    entry = next(iter(BACKENDS.values())) if name == AUTO else BACKENDS.get(name)
    if entry is not None and entry.early:
        _found(entry.early)()


def threaded(name: str) -> bool:
    """Whether a backend runs on threads of the CPU that can be counted, or may.

    Raises `BackendUnavailable` if there is none of that name.
    """
    return name == AUTO or entry_of(name).threaded
