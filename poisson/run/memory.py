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
) -> None:
    """Refuse a problem whose arrays do not fit; without `coefficients` those of the operator are there already.

    Raises
    ------
    ResourceError
        If the arrays of the method need more than the backend has free, or the result, with these arrays where they are
        in the host's memory too, more than the host has.
    """
    grid = problem.grid
    arrays = arrays_of(settings, precision, grid.dimension, varies=problem.varies and coefficients)
    needed = int(arrays * grid.nodes * backend.dtype.itemsize)
    room = result_bytes(problem, backend.dtype, fields)
    smaller = ", or use run.precision = 'float32'" if precision == "float64" else ""
    for what, size, place, memory in (
        (f"{arrays:.3g} arrays", needed, f"the {backend.name} backend", backend.memory()),
        (f"{arrays:.3g} arrays and room for its result", needed + room, "this process", host_memory())
        if backend.on_host
        else ("room for its result", room, "this process", host_memory()),
    ):
        if memory is not None and size > memory[0]:
            raise ResourceError(
                f"domain.shape = {list(grid.shape)} needs {what}, {size / 2**30:.3g} GiB in "
                f"{precision}, and {place} has {memory[0] / 2**30:.3g} GiB free: reduce domain.shape{smaller}"
            )


def result_bytes(problem: Problem, dtype: DTypeLike, fields: Sequence[str]) -> int:
    """Bytes that a result takes on the host and in its file, about."""
    itemsize = np.dtype(dtype).itemsize
    vectors = sum(name in VECTORS for name in fields)
    others = len([name for name in fields if name != "u"]) - vectors
    values = itemsize * (1 + vectors * problem.grid.dimension) + 8 * others
    return problem.grid.nodes * values + (1 << 20)
