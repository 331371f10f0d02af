# SPDX-License-Identifier: MIT
"""The charges of bodies: the flows out of their surfaces, which Gauss's law balances to rounding."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from poisson.problem.fields import stored
from poisson.problem.problem import number
from poisson.problem.sampling import evaluated
from poisson.problem.surfaces import coordinates_of

if TYPE_CHECKING:
    from poisson.discrete.beside import Rows
    from poisson.discrete.surface import Surface

Values = NDArray[np.float64]


def charges(surface: Surface, rows: Rows, u: Values, beside: Values, source: Values) -> dict[str, float]:
    """∮ −a ∂u/∂n over the surface of each body with given values, with the normal out of the body, by its name.

    The flow out of the surface beside a node is the balance of the node: the flows through its whole links, and c and f
    there. Charges, outflow and ∫(f − c u) outside of the bodies add up to the integral of the residual.

    `rows`: the operator at the nodes beside surfaces. `u`, `source`: u and the source at these nodes. `beside`: u at
    their neighbours.
    """
    problem, cuts = surface.problem, surface.cuts
    nodes = np.unique(cuts.node)
    row = np.searchsorted(nodes, cuts.node)
    out = (rows.links * (u - beside)).sum(axis=0) + rows.rest * u - (source - surface.terms)
    lost = 1.0 - rows.share
    if lost.any():
        f, c = (_at(surface, f"equation.{name}", given, nodes) for name, given in (("f", problem.f), ("c", problem.c)))
        out += lost * (f - c * u)
    volumes = np.broadcast_to(surface.lattice.volumes(), surface.shape)[rows.index]
    volumes = volumes * np.prod([line.spacing for line in problem.lattice.axes])
    each = surface.conductance * (surface.given - u[row])
    # Where a node has several surfaces each has a part of what is lacking.
    total = np.bincount(row, surface.conductance)
    each += ((out - np.bincount(row, each)) / total)[row] * surface.conductance
    found = np.bincount(cuts.body - 1, each * volumes[row], len(problem.bodies))
    return {body.name: float(found[i]) for i, body in enumerate(problem.bodies) if body.kind == "dirichlet"}


def _at(surface: Surface, key: str, given: Any, nodes: NDArray[np.int64]) -> Any:
    """A field at some nodes."""
    if (constant := number(given)) is not None:
        return constant
    if hasattr(given, "read"):
        every = [(0, count) for count in surface.problem.lattice.array_shape]
        return np.asarray(stored(given, np, every), dtype=np.float64).ravel()[nodes]
    return evaluated(key, given, np, coordinates_of(surface.problem.lattice, nodes), ())
