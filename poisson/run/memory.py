# SPDX-License-Identifier: MIT
"""Whether the arrays of a solve, and its result, fit into memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike

from poisson.backends.base import Backend
from poisson.backends.host import host_memory
from poisson.case.settings import VECTORS
from poisson.errors import ResourceError
from poisson.mesh.lattice import Lattice
from poisson.solvers.memory import arrays_of
from poisson.solvers.settings import SolverSettings
from poisson.words import quantity

if TYPE_CHECKING:
    from poisson.problem.problem import Problem

LITTLE = 1 << 22
"""Bytes up to which no room is looked for: to read what control groups leave takes as long as a small solve."""


@dataclass(frozen=True)
class Need:
    """Memory that a solve needs in one place."""

    # What for, and where, in words.
    what: str
    place: str
    size: int  # Bytes.
    free: int | None  # Bytes that there are for this process; None where the system does not tell.
    users: int  # Processes that share them.

    @property
    def short(self) -> bool:
        """Whether there is too little."""
        return self.free is not None and self.size > self.free


class OfBodies(NamedTuple):
    """The part of bodies in the memory that a solve needs."""

    surface: str  # The form beside those with given values; empty without any.
    bytes_of_a_node: int  # Of the whole grid, on the host of every process: which body it is in, and a.

    @classmethod
    def of(cls, problem: Problem) -> OfBodies:
        if not problem.bodies:
            return NO_BODIES
        from poisson.problem.bodies import DIELECTRIC, HELD

        kinds = {body.kind for body in problem.bodies}
        return cls(problem.surface if kinds.intersection(HELD) else "", 2 + 10 * (DIELECTRIC in kinds))


NO_BODIES = OfBodies("", 0)


def needs(
    backend: Backend,
    lattice: Lattice,
    settings: SolverSettings,
    precision: str,
    fields: Sequence[str],
    *,
    varies: bool,
    nodes: int | None = None,
    beside: int = 1,
    bodies: OfBodies = NO_BODIES,
    dtype: DTypeLike | None = None,
    least: int = 0,
) -> tuple[Need, ...]:
    """The memory that a solve needs where its arrays are, and on the host for its result; one need if both are the
    host's.

    The arguments are those of `require_memory`, the type of the arrays, where it is not that of the backend, and how
    many bytes a need has at least: without more there is none.
    """
    dtype = np.dtype(backend.dtype if dtype is None else dtype)
    arrays = arrays_of(settings, precision, lattice.dimension, varies=varies, surface=bodies.surface)
    own = lattice.nodes if nodes is None else nodes
    needed = int(arrays * own * dtype.itemsize)
    room = result_bytes(lattice, dtype, fields, own) + bodies.bytes_of_a_node * lattice.nodes
    if needed + room < least:
        return ()
    of_backend, of_host = backend.memory(), host_memory()

    def need(what: str, place: str, size: int, memory: tuple[int, int] | None, users: int) -> Need:
        return Need(what, place, size, None if memory is None else memory[0] // users, users)

    users = beside if backend.on_host else 1
    arrays_alone = need(f"{arrays:.3g} arrays", f"the {backend.name} backend", needed, of_backend, users)
    if backend.on_host:
        what = f"{arrays:.3g} arrays and room for its result"
        return arrays_alone, need(what, "this process", needed + room, of_host, beside)
    return arrays_alone, need("room for its result", "this process", room, of_host, beside)


def require_memory(
    backend: Backend,
    lattice: Lattice,
    settings: SolverSettings,
    precision: str,
    fields: Sequence[str],
    *,
    varies: bool,
    nodes: int | None = None,
    beside: int = 1,
    bodies: OfBodies = NO_BODIES,
) -> None:
    """Refuse a problem whose arrays, with those of coefficients that vary, do not fit.

    Where the grid is divided, `nodes` is how many of it this process has, halo included, and `beside` how many
    processes share the memory of this host.

    Raises ResourceError if the arrays of the method need more than the backend has free, or the result, with these
    arrays where they are in the host's memory too, more than the host has.
    """
    part = "" if nodes is None else f" for a part of {nodes} nodes"
    wanted = partial(needs, backend, lattice, settings)
    given: dict[str, Any] = {"varies": varies, "nodes": nodes, "beside": beside, "bodies": bodies}
    for need in wanted(precision, fields, least=LITTLE, **given):
        if need.short and need.free is not None:
            shared = "" if need.users == 1 else f" for each of the {quantity(need.users, 'process')} on this host"
            smaller = ""
            if precision != "float32" and not any(
                other.short for other in wanted("float32", fields, dtype=np.float32, **given)
            ):
                smaller = ", or use run.precision = 'float32'"
            raise ResourceError(
                f"domain.shape = {list(lattice.shape)} needs {need.what}{part}, {need.size / 2**30:.3g} GiB in "
                f"{precision}, and {need.place} has {need.free / 2**30:.3g} GiB free{shared}: reduce "
                f"domain.shape{smaller}"
            )


def result_bytes(lattice: Lattice, dtype: DTypeLike, fields: Sequence[str], nodes: int | None = None) -> int:
    """Bytes that a result takes on the host and in its file, about; of some of the nodes, if so many are given."""
    itemsize = np.dtype(dtype).itemsize
    vectors = sum(name in VECTORS for name in fields)
    others = len([name for name in fields if name != "u"]) - vectors
    values = itemsize * (1 + vectors * lattice.dimension) + 8 * others
    return (lattice.nodes if nodes is None else nodes) * values + (1 << 20)
