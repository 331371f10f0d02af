# SPDX-License-Identifier: MIT
"""Several sources at once, where the method and the backend take them in the memory of the caller."""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import numpy as np

from poisson.discrete.discretisation import Discretisation
from poisson.problem.arrays import brought, is_array, on_device
from poisson.problem.fields import ArrayField
from poisson.run.outcome import provenance
from poisson.run.solution import Solution

if TYPE_CHECKING:
    from poisson.backends.base import Array
    from poisson.problem.problem import Problem
    from poisson.run.loader import Loader
    from poisson.run.ranks import Ranks
    from poisson.run.setup import Setup

MOST_NODES = 1 << 20
"""The most nodes of a grid on which several sources are solved for at once, each by one thread."""


def solve_together(
    setup: Setup, loader: Loader, problem: Problem, ranks: Ranks, sources: Sequence[Any], whole: Any
) -> list[Solution | None]:
    """Solve for what can be solved for at once.

    `setup`: that of the problem. `loader`: of its arrays. `problem`: with all data but the source. `ranks`: a single
    one. `sources`: as `poisson.Solver.solve` takes them. `whole`: what they are the parts of, as the user gave it.
    Returns: None for a source that has to be solved for alone, as for one with values that are not finite, of which
    that tells. Raises `CaseError` if one is wrong.
    """
    found: list[Solution | None] = [None] * len(sources)
    if len(sources) < 2 or problem.lattice.nodes > MOST_NODES:
        return found
    start, started = time.perf_counter(), datetime.now(UTC)
    setup.follow_faces()
    method, stopping = setup.method_for(guess=problem.guess), setup.stopping
    backend, shape = setup.backend, problem.lattice.array_shape
    reads = setup.reads_in_place if backend.on_host else setup.ledger is None and backend.dtype == np.float64
    if not (method.together and reads):
        return found
    # What a device is asked for comes behind what the caller has asked of it.
    with np.errstate(all="ignore"), backend.ordered():
        parts = [Discretisation(problem.having(f=f)) for f in sources]
        fs, begin = [loader.in_place(part) for part in parts], loader.start(parts[0])
        if begin is None or any(f is None for f in fs):
            return found
        there = brought(whole, backend.array_module) if is_array(whole) and on_device(whole) else None
        results = method.solve_many(fs, begin, stopping, there)
        backend.synchronize()
        seconds = (time.perf_counter() - start) / len(fs)
        origin = provenance(setup, ranks, started)
        for n, (part, result) in enumerate(zip(parts, results, strict=True)):
            # No fields go with it, and no mean is left to remove: what certified it is what is there.
            if result is not None and part.problem.exact is None:
                u = _given(setup, part.problem, result.u)
                found[n] = Solution(
                    problem=part.problem,
                    u=u if u.shape == shape else u.reshape(shape),
                    status=result.status,
                    iterations=result.iterations,
                    norm=stopping.norm,
                    residual=result.history[-1][1],
                    target=result.target,
                    history=result.history,
                    times={"solve": seconds},
                    provenance=dict(origin),
                )
    return found


def _given(setup: Setup, problem: Problem, u: Array) -> Any:
    """A solution where its source was, as `poisson.run.outcome.finish` gives it."""
    if setup.backend.on_host:
        return setup.give(u)
    there = isinstance(problem.f, ArrayField) and problem.f.on_device
    return setup.backend.view(u) if there else setup.backend.to_host(u)
