# SPDX-License-Identifier: MIT
"""Whether the arrays of a solve, and its result, fit into memory."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import DTypeLike

from poisson.backends.base import Backend
from poisson.backends.host import host_memory
from poisson.case.settings import VECTORS
from poisson.errors import ResourceError
from poisson.mesh.lattice import Lattice
from poisson.solvers.registry import arrays_of
from poisson.solvers.settings import SolverSettings
from poisson.words import quantity

if TYPE_CHECKING:
    from poisson.run.request import Request

LITTLE = 1 << 22
"""Bytes up to which no room is looked for."""


FACE_MATRICES = 3
"""Arrays of as many values as the nodes of open faces squared: two between these nodes, and one while they are made."""


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


@dataclass(frozen=True)
class Room:
    """The conditions of the memory of a solve, beside where it runs.

    `lattice`: of the whole grid. `varies`: whether the coefficients take arrays, too. `nodes`: those that this process
    has, halo included, where the grid is divided. `beside`: processes that share the memory of this host. `surface`:
    the form beside bodies with given values; empty without any. `of_bodies`: bytes of a node of the whole grid, on the
    host of every process: which body it is in, and a. `kept`: arrays that stay between solves. `half_open`: axes with
    an open end and a wall.
    """

    lattice: Lattice
    settings: SolverSettings
    precision: str
    fields: Sequence[str]
    varies: bool = False
    nodes: int | None = None
    beside: int = 1
    surface: str = ""
    of_bodies: int = 0
    kept: int = 0
    half_open: int = 0

    @classmethod
    def of(cls, request: Request) -> Room:
        """The room of a request whose ranks have their parts."""
        problem, ranks, surface, of_bodies = request.problem, request.ranks, "", 0
        if problem.bodies:
            from poisson.problem.bodies import DIELECTRIC, HELD

            kinds = {body.kind for body in problem.bodies}
            surface, of_bodies = problem.surface if kinds.intersection(HELD) else "", 2 + 10 * (DIELECTRIC in kinds)
        nodes = None if ranks.share is None else math.prod(ranks.share.array_shape)
        asked = request.settings, request.run.precision, request.fields
        space = problem.open_faces
        half_open = sum(lower is not upper for lower, upper in zip(space[::2], space[1::2], strict=True))
        shared = problem.varies, nodes, ranks.beside
        return cls(problem.lattice, *asked, *shared, surface, of_bodies, request.kept, half_open)


class Free:
    """The free memory before a set-up, which is read when it is asked for first: that takes as long as a small solve.

    `backend`: of the arrays.
    """

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    @cached_property
    def of_backend(self) -> tuple[int, int] | None:
        """Bytes free and in all where arrays are; None where the system does not tell."""
        return self._backend.memory()

    @cached_property
    def of_host(self) -> tuple[int, int]:
        """The same on the host."""
        return (self._backend.on_host and self.of_backend) or host_memory()


def needs(backend: Backend, room: Room, free: Free, least: int = 0) -> tuple[Need, ...]:
    """The memory that a solve needs where its arrays are, and on the host for its result; one need if both are the
    host's, and none where it is less than so many bytes.
    """
    lattice, precision = room.lattice, room.precision
    dtype = np.dtype(np.float32 if precision == "float32" else np.float64)
    dimension, half_open = lattice.dimension, room.half_open
    arrays = arrays_of(
        *(room.settings, precision, dimension),
        varies=room.varies,
        surface=room.surface,
        half_open=half_open,
        on_device=not backend.on_host,
    )
    arrays += room.kept
    own = lattice.nodes if room.nodes is None else room.nodes
    needed = int(arrays * own * dtype.itemsize)
    of_result = result_bytes(lattice, dtype, room.fields, own) + room.of_bodies * lattice.nodes
    if needed + of_result < least:
        return ()

    def need(what: str, place: str, size: int, memory: tuple[int, int] | None, users: int) -> Need:
        return Need(what, place, size, None if memory is None else memory[0] // users, users)

    users = room.beside if backend.on_host else 1
    arrays_alone = need(f"{arrays:.3g} arrays", f"the {backend.name} backend", needed, free.of_backend, users)
    if backend.on_host:
        what = f"{arrays:.3g} arrays and room for its result"
        return arrays_alone, need(what, "this process", needed + of_result, free.of_host, room.beside)
    return arrays_alone, need("room for its result", "this process", of_result, free.of_host, room.beside)


def require_memory(backend: Backend, room: Room, free: Free) -> None:
    """Refuse a problem whose arrays, with those of coefficients that vary, do not fit.

    Raises ResourceError if the arrays of the method need more than the backend has free, or the result, with these
    arrays where they are in the host's memory too, more than the host has.
    """
    part = "" if room.nodes is None else f" for a part of {room.nodes} nodes"
    for need in needs(backend, room, free, LITTLE):
        if need.short and need.free is not None:
            shared = "" if need.users == 1 else f" for each of the {quantity(need.users, 'process')} on this host"
            narrow = replace(room, precision="float32")
            fits = room.precision != "float32" and not any(other.short for other in needs(backend, narrow, free))
            smaller = ", or use run.precision = 'float32'" if fits else ""
            raise ResourceError(
                f"domain.shape = {list(room.lattice.shape)} needs {need.what}{part}, {need.size / 2**30:.3g} GiB in "
                f"{room.precision}, and {need.place} has {need.free / 2**30:.3g} GiB free{shared}: reduce "
                f"domain.shape{smaller}"
            )


def require_faces(backend: Backend, nodes: int) -> None:
    """Refuse open faces around an axis or a centre between whose nodes a matrix does not fit.

    Raises ResourceError if the backend or the host has less memory than it needs.
    """
    size = FACE_MATRICES * 8 * nodes * nodes
    if size <= LITTLE:
        return
    for place, memory in ((f"the {backend.name} backend", backend.memory()), ("this process", host_memory())):
        if memory is not None and size > memory[0]:
            needed, free = (f"{each / 2**30:.3g} GiB" for each in (size, memory[0]))
            what = f"matrices between {nodes} nodes on open faces need {needed}, and {place} has {free} free"
            raise ResourceError(f"boundary.r_upper: open; {what}: reduce domain.shape")


def result_bytes(lattice: Lattice, dtype: DTypeLike, fields: Sequence[str], nodes: int | None = None) -> int:
    """Bytes that a result takes on the host and in its file, about; of some of the nodes, if so many are given."""
    itemsize = np.dtype(dtype).itemsize
    vectors = sum(name in VECTORS for name in fields)
    others = len([name for name in fields if name != "u"]) - vectors
    values = itemsize * (1 + vectors * lattice.dimension) + 8 * others
    return (lattice.nodes if nodes is None else nodes) * values + (1 << 20)
