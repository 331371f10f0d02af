# SPDX-License-Identifier: MIT
"""The balance of a singular problem: whether ∫f and ∮g cancel, and the source without what is left of them."""

from __future__ import annotations

import logging
import math
from dataclasses import dataclass, replace
from types import ModuleType
from typing import TYPE_CHECKING

from poisson.errors import IncompatibleSource
from poisson.mesh.boundary import Rule
from poisson.problem import sampling
from poisson.problem.problem import number

if TYPE_CHECKING:
    from poisson.discrete.discretisation import Discretisation

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Balance:
    """Whether a singular problem has a solution: ∫f + ∮g must vanish.

    `source`, `flux`: ∫f and ∮g by the trapezoidal rule. `scale`: ∫|f| + ∮|g|. `tolerance`: the relative defect up to
    which the quadrature error of the grid may be the cause.
    """

    source: float
    flux: float
    scale: float
    tolerance: float

    @property
    def defect(self) -> float:
        """∫f + ∮g."""
        return self.source + self.flux

    @property
    def compatible(self) -> bool:
        return abs(self.defect) <= self.tolerance * self.scale


def balance_of(discretisation: Discretisation, xp: ModuleType, of_f: tuple[float, float] | None = None) -> Balance:
    """Integrate the source and the boundary data of a singular problem.

    The trapezoidal rule is of second order like the scheme, so a defect of the size of (h/L)² times the data may be
    its error; ten times that is tolerated, and never more than a tenth of the data.

    `xp`: numpy or cupy: where to evaluate. `of_f`: the sums of f and of abs(f) under the trapezoidal weights, where
    they are known.
    """
    grid = discretisation.problem.lattice
    cell = grid.turn * math.prod(grid.spacing)
    obstacles = surface.obstacles if (surface := discretisation.surface) else None
    with discretisation.agreed():
        source, scale = (cell * value for value in (None if obstacles else of_f) or _sums_of_f(discretisation, xp))
        flux, size = _flux(discretisation, xp)
        if obstacles and (discretisation.share is None or discretisation.share.communicator.rank == 0):
            flux, size = flux + float(obstacles.g.sum()), size + float(abs(obstacles.g).sum())
    source, flux, scale = discretisation.total(source, flux, scale + size)
    return Balance(source, flux, scale, grid.tolerance)


def balanced(discretisation: Discretisation, xp: ModuleType, of_f: tuple[float, float] | None = None) -> Discretisation:
    """Remove the defect of a singular problem from its source; the arguments are those of `balance_of`.

    Raises `IncompatibleSource` if the defect is larger than the discretisation explains: the problem has no
    solution.
    """
    if not discretisation.singular:
        return discretisation
    found = balance_of(discretisation, xp, of_f)
    relative = found.defect / found.scale if found.scale else 0.0
    numbers = (
        f"∫f = {found.source:.6g}, ∮g = {found.flux:.6g}, ∫f + ∮g = {found.defect:.3g} "
        f"({abs(relative):.2g} of ∫|f| + ∮|g|)"
    )
    volume = discretisation.problem.lattice.volume - (discretisation.surface.closed if discretisation.surface else 0.0)
    if not found.compatible:
        raise IncompatibleSource(
            f"no face is dirichlet and c = 0, so ∫f + ∮g must be zero, but {numbers}, and the grid explains at "
            f"most {found.tolerance:.2g}: subtract {found.defect / volume:.6g} from equation.f, or correct the boundary"
        )
    log.info(
        "singular problem (no dirichlet face, c = 0): %s; subtracted from f, and the mean of u is set to zero", numbers
    )
    return replace(discretisation, shift=found.defect / volume)


def _sums_of_f(discretisation: Discretisation, xp: ModuleType) -> tuple[float, float]:
    """The sums of f and of abs(f) under the trapezoidal weights, over this process's own nodes."""
    problem, lattice, total, size = discretisation.problem, discretisation.whole_lattice, 0.0, 0.0
    for block in discretisation.blocks():
        volumes = lattice.volumes_in(block, xp)
        f = sampling.nodes(problem, xp, "equation.f", problem.f, block)
        if surface := discretisation.surface:
            surface.open(xp, f, block)
        total += float((volumes * f).sum())
        size += float((volumes * abs(f)).sum())
    return total, size


def _flux(discretisation: Discretisation, xp: ModuleType) -> tuple[float, float]:
    """The integrals of the data of the faces and of their sizes, over this process's own nodes."""
    grid, lattice, own = discretisation.problem.lattice, discretisation.whole_lattice, discretisation.ranges
    flux = scale = 0.0
    for face, where in sampling.faces(grid, Rule.MIRROR, own):
        value = discretisation.problem.faces[face].value
        if value is not None and number(value) == 0.0:
            continue  # what so many faces have is not worth a dozen small calls of a device's module
        g = discretisation.through(xp, face, own, sampling.face_source)
        on_it = zip(own, where, strict=True)
        block = tuple(
            (a, b) if isinstance(place, slice) else (b - 1, b) if place else (a, a + 1) for (a, b), place in on_it
        )
        volumes = lattice.volumes_in(block, xp).reshape(
            *(b - a for (a, b), w in zip(own, where, strict=True) if isinstance(w, slice))
        )
        flux += float((volumes * g).sum())
        scale += float((volumes * abs(g)).sum())
    cell = grid.turn * math.prod(grid.spacing)
    return cell * flux, cell * scale
