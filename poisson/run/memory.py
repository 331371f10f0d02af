"""Whether the arrays of a solve, and its result, fit into memory."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import DTypeLike

from poisson.backends.base import Backend
from poisson.backends.host import host_memory
from poisson.errors import ResourceError
from poisson.problem.problem import Problem
from poisson.solvers.memory import arrays_of
from poisson.solvers.settings import SolverSettings

VECTORS = ("gradient", "flux")


def require_memory(
    backend: Backend,
    problem: Problem,
    settings: SolverSettings,
    precision: str,
    fields: Sequence[str],
    *,
    coefficients: bool = True,
    nodes: int | None = None,
    beside: int = 1,
) -> None:
    """Refuse a problem whose arrays do not fit; without `coefficients` those of the operator are there already.

    Where the grid is divided, `nodes` is how many of it this process has, halo included, and `beside` how many
    processes share the memory of this host.

    Raises
    ------
    ResourceError
        If the arrays of the method need more than the backend has free, or the result, with these arrays where they are
        in the host's memory too, more than the host has.
    """
    grid = problem.grid
    arrays = arrays_of(settings, precision, grid.dimension, varies=problem.varies and coefficients)
    own = grid.nodes if nodes is None else nodes
    needed = int(arrays * own * backend.dtype.itemsize)
    room = result_bytes(problem, backend.dtype, fields, own)
    part = "" if nodes is None else f" for a part of {nodes} nodes"
    smaller = ", or use run.precision = 'float32'" if precision == "float64" else ""
    of_backend, of_host = backend.memory(), host_memory()
    for what, size, place, memory, users in (
        (f"{arrays:.3g} arrays", needed, f"the {backend.name} backend", of_backend, beside if backend.on_host else 1),
        (f"{arrays:.3g} arrays and room for its result", needed + room, "this process", of_host, beside)
        if backend.on_host
        else ("room for its result", room, "this process", of_host, beside),
    ):
        if memory is not None and size > memory[0] // users:
            shared = "" if users == 1 else f" for each of the {users} processes on this host"
            raise ResourceError(
                f"domain.shape = {list(grid.shape)} needs {what}{part}, {size / 2**30:.3g} GiB in {precision}, and "
                f"{place} has {memory[0] // users / 2**30:.3g} GiB free{shared}: reduce domain.shape{smaller}"
            )


def result_bytes(problem: Problem, dtype: DTypeLike, fields: Sequence[str], nodes: int | None = None) -> int:
    """Bytes that a result takes on the host and in its file, about; of some of the nodes, if so many are given."""
    itemsize = np.dtype(dtype).itemsize
    vectors = sum(name in VECTORS for name in fields)
    others = len([name for name in fields if name != "u"]) - vectors
    values = itemsize * (1 + vectors * problem.grid.dimension) + 8 * others
    return (problem.grid.nodes if nodes is None else nodes) * values + (1 << 20)
