# SPDX-License-Identifier: MIT
"""A direct solution in the array of its source, certified by what its user makes of it."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from poisson.problem.fields import ArrayField
from poisson.run.outcome import provenance
from poisson.run.solution import Solution
from poisson.solvers.status import Status

if TYPE_CHECKING:
    from poisson.backends.base import Reduction
    from poisson.run.solver import Solver


class SourceOf(ArrayField):
    """The source of a solution, computed from that when it is asked for: nothing kept it.

    `compute`: gives A u.
    """

    _compute: Callable[[], NDArray[Any]]

    def __init__(self, compute: Callable[[], NDArray[Any]]) -> None:
        object.__setattr__(self, "_compute", compute)

    @cached_property
    def values(self) -> NDArray[Any]:
        return self._compute()

    def __reduce__(self) -> tuple[Any, ...]:
        return ArrayField, (self.values,)


def solve_in_place(
    solver: Solver,
    fill: Callable[[Any, Reduction], bool],
    take: Callable[[Any, Reduction], None],
    undo: Callable[[Any], None],
    apply: Callable[[Any], NDArray[Any]],
) -> Solution | None:
    """Solve for a source in the place of u, by a solver of one process whose problem has no fixed nodes.

    `fill`: writes the source into an array, if it can, and leaves its norms. `take`: uses u, and leaves the norms of a
    residual that this shows. `undo`: takes that back. `apply`: gives A u.
    Returns: None where no direct solution goes so, or that residual is above the target; then nothing has changed.
    """
    with solver._exclusive.use(), solver._setup.backend.in_use(), np.errstate(all="ignore"):
        started, began = datetime.now(UTC), time.perf_counter()
        solver._take_operator(solver.problem)
        setup = solver._setup
        backend, operator, stopping, inverse = setup.backend, setup.operator, setup.stopping, setup.method.inverse
        if inverse is None:
            return None
        kept, norms = backend.keeps(operator.array_shape), setup.norms
        array = backend.empty(operator.array_shape) if kept else setup.renew()
        u = backend.view(array)
        if not fill(u, norms):
            return None
        # A device solves while the host waits for the source alone.
        backend.mark(norms)
        inverse.solve(array, array)
        source = backend.read(norms)
        if not (source[1] > 0.0 and math.isfinite(source[0])):
            return None
        take(u, norms)
        norm = stopping.measure(operator, backend.read(norms))
        target = stopping.target(stopping.measure(operator, source))
        if not norm <= target:
            undo(u)
            return None
        values = u
        if not kept:
            setup.u = None
            values = setup.give(array)
        return Solution(
            problem=replace(solver.problem, f=SourceOf(lambda: apply(values))),
            u=values,
            status=Status.CONVERGED,
            iterations=1,
            norm=stopping.norm,
            residual=norm,
            target=target,
            history=((1, norm),),
            times={"solve": time.perf_counter() - began},
            provenance=provenance(setup, solver.ranks, started),
        )
