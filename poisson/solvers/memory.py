"""How much memory the methods take."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from poisson.solvers.settings import SolverSettings

ARRAYS: Mapping[str, float] = MappingProxyType(
    {"fft": 3.0, "jacobi": 3.0, "staged": 4.0, "chebyshev": 3.0, "sor": 3.0, "cg": 7.0, "multigrid": 4.0}
)
"""Arrays of the grid's size that a method takes with u and the source, the coarse grids of multigrid apart."""

OF_COMPARISON = 6.0
"""Arrays of each of the two coarser grids on which ``stop = "discretisation"`` solves as well, their levels apart."""

COARSE_ARRAYS = 4.25
"""Arrays of every coarser grid: four, on grids with a little more than 2^−dimension of the nodes."""

OF_CORRECTION = 3.0
"""Arrays in float64 of mixed precision: u, the source, and one that is needed after the solve."""

OF_FLOAT32: Mapping[str, float] = MappingProxyType({"multigrid": 4.0, "cg": 5.0})
"""Its arrays in float32, the coarse grids apart."""


def arrays_of(settings: SolverSettings, precision: str, dimension: int, *, varies: bool = False) -> float:
    """Arrays of the grid's size, in the type of u, that a solve takes at once.

    Parameters
    ----------
    settings : SolverSettings
        Of ``method = "auto"`` it is what the method that takes least would take.
    precision : str
        Mixed precision has the cycles, with a source and a correction, and the directions of ``cg`` in float32.
    dimension : int
        Of the grid: each coarser one has 2^−dimension of its nodes.
    varies : bool
        Whether the coefficients vary: they take an array for each axis and one more.
    """
    method = settings.method
    cycles = method == "multigrid" or (method == "cg" and settings.preconditioner == "multigrid")
    coarse = 1.0 / (2.0**dimension - 1.0)
    coefficients = dimension + 1.0 if varies else 0.0
    if method == "auto":
        return ARRAYS["fft"] + coefficients
    if method == "jacobi" and settings.loop == "staged":
        return ARRAYS["staged"] + coefficients
    if not cycles:
        return ARRAYS[method] + coefficients
    of_levels = (COARSE_ARRAYS + coefficients) * coarse
    if settings.stop == "discretisation":
        compared = 2.0**-dimension + 4.0**-dimension
        return ARRAYS[method] + (1.0 + compared) * (coefficients + of_levels) + OF_COMPARISON * compared
    if precision != "mixed":
        return ARRAYS[method] + coefficients + of_levels
    start = 2.0**-dimension if method == "multigrid" and settings.full else 0.0
    return OF_CORRECTION + start + coefficients + 0.5 * (OF_FLOAT32[method] + coefficients + of_levels)
