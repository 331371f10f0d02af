# SPDX-License-Identifier: MIT
"""How much memory the methods take."""

from __future__ import annotations

from poisson.backends.registry import AUTO
from poisson.solvers import registry
from poisson.solvers.entries import MethodEntry, Sizes
from poisson.solvers.settings import SolverSettings

OF_GRADIENTS, OF_ROUNDS = 9.0, 2.0
"""Arrays of `BiConjugateGradients` with u and f, the preconditioner's apart, and those that `SurfaceMethod` adds."""


def arrays_of(
    settings: SolverSettings, precision: str, dimension: int, *, varies: bool = False, surface: str = ""
) -> float:
    """Arrays of the grid's size, in the type of u, that a solve takes at once.

    `settings`: of ``method = "auto"`` it is what the method that takes least would take. `precision`: mixed precision
    has the cycles, with a source and a correction, and the directions of ``cg`` in float32. `dimension`: of the grid:
    each coarser one has 2^−dimension of its nodes. `varies`: whether the coefficients vary: they take an array for each
    axis and one more. `surface`: the form beside bodies with given values; empty without any.
    """
    sizes = Sizes(settings, precision, dimension, dimension + 1.0 if varies else 0.0)
    if settings.method == AUTO:
        return min(_arrays(entry, sizes, surface) for entry in registry.methods().values() if entry.offer)
    return _arrays(registry.method_of(settings), sizes, surface)


def _arrays(entry: MethodEntry, sizes: Sizes, surface: str) -> float:
    name = registry.beside_surfaces(entry, sizes.settings)
    if surface in ("", "symmetric") or not name or sizes.precision == "mixed":
        return entry.arrays(sizes) + OF_ROUNDS * bool(surface)
    return OF_GRADIENTS + sizes.coefficients + registry.preconditioners()[name].arrays(sizes)
