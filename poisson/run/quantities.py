# SPDX-License-Identifier: MIT
"""A solution in a few numbers: the range and mean of u, its energy, the fluxes, values at points."""

import logging
import math
from collections.abc import Sequence

import numpy as np

from poisson.discrete.discretisation import Discretisation
from poisson.discrete.integrals import energy, mean
from poisson.discrete.outflow import outflow
from poisson.errors import GridError, PoissonError
from poisson.mesh.boundary import FACE_NAMES
from poisson.mesh.interpolation import places_of
from poisson.mesh.lattice import Lattice
from poisson.output.record import extent
from poisson.run.solution import Solution

Point = tuple[float, ...]

LEAST, LARGEST, MEAN, ENERGY = "u_min", "u_max", "u_mean", "energy"
FLUXES = tuple(f"flux_{face}" for face in FACE_NAMES)

log = logging.getLogger(__name__)


def at_name(point: Point) -> str:
    """The name of u at a point, such as ``u(0.25,0.6)``."""
    return f"u({','.join(f'{place:.15g}' for place in point)})"


def quantities(solution: Solution, points: Sequence[Point] = ()) -> dict[str, float | None]:
    """Numbers that a solution comes to, by name.

    `solution`: the whole, not a part of it. `points`: x(, y(, z)) in L. Returns: ``u_min``, ``u_max`` and ``u_mean`` in
    U; ``energy``, ½ ∫ (a |∇u|² + c u²), in U²·L^(d−2); ``flux_x_lower`` and so on, ∫ −a ∂u/∂n over each face that is
    not periodic, in U·L^(d−2); ``u(X,Y)`` at each point. None where a number is not known: a point outside of the box,
    or what follows from values of u that are not finite, or from data of the problem that cannot be read any more.
    """
    u, (low, high) = solution.host_u, extent(solution)
    found: dict[str, float | None] = {LEAST: low, LARGEST: high}
    discretisation = Discretisation(solution.problem)
    with np.errstate(all="ignore"):
        found[MEAN] = mean(discretisation, u)
        try:
            found[ENERGY] = energy(discretisation, u)
            found |= {
                f"flux_{name}": outflow(discretisation, u, face)
                for face, name in enumerate(solution.problem.lattice.faces)
                if solution.problem.faces[face].kind.leads_out
            }
        except PoissonError as error:
            log.info("no energy and no fluxes: %s", "; ".join(str(error).splitlines()))
        for point in points:
            found[at_name(point)] = None if misfit(solution.problem.lattice, point) else solution.at(*point)
    return {name: value if value is not None and math.isfinite(value) else None for name, value in found.items()}


def misfit(grid: Lattice, point: Point) -> str:
    """Why a point is none of a grid's box; empty where it is one."""
    try:
        places_of(grid, point)
    except GridError as error:
        return str(error)
    return ""
