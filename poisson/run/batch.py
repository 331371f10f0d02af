# SPDX-License-Identifier: MIT
"""Several sources at once, where the method and the backend take them in the memory of the caller."""

from __future__ import annotations

import time
from collections.abc import Iterable
from datetime import UTC, datetime
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np

from poisson.discrete.discretisation import Discretisation
from poisson.problem.arrays import brought, is_array, on_device, shape_of
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
    setup: Setup, loader: Loader, problem: Problem, ranks: Ranks, sources: Iterable[Any]
) -> list[tuple[Any, Solution | None]]:
    """Solve for what can be solved for at once.

    `setup`: that of the problem. `loader`: of its arrays. `problem`: with all data but the source. `ranks`: a single
    one. `sources`: as `poisson.Solver.solve` takes them, in a list or an array. Returns: each source with its solution,
    or with None if it has to be solved for alone, as one with values that are not finite, of which that tells. Raises
    `CaseError` if one is wrong.
    """
    start, started = time.perf_counter(), datetime.now(UTC)
    in_one, rest = is_array(sources) and on_device(sources), iter(sources)
    # The first part of an array on a device tells what the others are like, which are made while the device solves.
    fs = list(islice(rest, 1 if in_one else None))
    count = shape_of(sources)[0] if in_one else len(fs)
    if count < 2 or problem.lattice.nodes > MOST_NODES:
        return [(f, None) for f in (*fs, *rest)]
    setup.follow_faces()
    method, stopping = setup.method_for(guess=problem.guess), setup.stopping
    backend, shape = setup.backend, problem.lattice.array_shape
    reads = setup.reads_in_place if backend.on_host else setup.ledger is None and backend.dtype == np.float64
    if not (method.together and reads):
        return [(f, None) for f in (*fs, *rest)]
    # What a device is asked for comes behind what the caller has asked of it.
    with np.errstate(all="ignore"), backend.ordered():
        parts = [Discretisation(problem.having(f=f)) for f in fs]
        there, begin = [loader.in_place(part) for part in parts], loader.start(parts[0])
        if begin is None or any(f is None for f in there):
            return [(f, None) for f in (*fs, *rest)]
        asked = method.ask_many(there, begin, stopping, brought(sources, backend.array_module) if in_one else None)
        fs += rest
        problems = [part.problem for part in parts] + [problem.having(f=f) for f in fs[len(parts) :]]
        origin = provenance(setup, ranks, started)
        results = asked()
        backend.synchronize()
    seconds = (time.perf_counter() - start) / count
    found: list[Solution | None] = []
    like: dict[str, Any] = {}
    for part, result in zip(problems, results, strict=True):
        # No fields go with it, and no mean is left to remove: what certified it is what is there.
        if result is None or part.exact is not None:
            found.append(None)
            continue
        u = _given(setup, part, result.u)
        own = {
            "problem": part,
            "u": u if u.shape == shape else u.reshape(shape),
            "status": result.status,
            "iterations": result.iterations,
            "residual": result.history[-1][1],
            "target": result.target,
            "history": result.history,
            "times": {"solve": seconds},
            "provenance": dict(origin),
        }
        if not like:
            like = dict(Solution(norm=stopping.norm, **own).__dict__)
        # Of the others nothing is to be made or checked again.
        solution = object.__new__(Solution)
        solution.__dict__.update(like, **own)
        found.append(solution)
    return list(zip(fs, found, strict=True))


def _given(setup: Setup, problem: Problem, u: Array) -> Any:
    """A solution where its source was, as `poisson.run.outcome.finish` gives it."""
    if setup.backend.on_host:
        return setup.give(u)
    there = isinstance(problem.f, ArrayField) and problem.f.on_device
    return setup.backend.view(u) if there else setup.backend.to_host(u)
