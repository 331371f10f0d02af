# SPDX-License-Identifier: MIT
"""How much memory the methods take."""

from __future__ import annotations

from poisson.backends.registry import AUTO
from poisson.solvers import registry
from poisson.solvers.entries import Sizes
from poisson.solvers.settings import SolverSettings


def arrays_of(settings: SolverSettings, precision: str, dimension: int, *, varies: bool = False) -> float:
    """Arrays of the grid's size, in the type of u, that a solve takes at once.

    `settings`: of ``method = "auto"`` it is what the method that takes least would take. `precision`: mixed precision
    has the cycles, with a source and a correction, and the directions of ``cg`` in float32. `dimension`: of the grid:
    each coarser one has 2^−dimension of its nodes. `varies`: whether the coefficients vary: they take an array for each
    axis and one more.
    """
    sizes = Sizes(settings, precision, dimension, dimension + 1.0 if varies else 0.0)
    if settings.method == AUTO:
        return min(entry.arrays(sizes) for entry in registry.methods().values() if entry.offer)
    return registry.method_of(settings).arrays(sizes)
