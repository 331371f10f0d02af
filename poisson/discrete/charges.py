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
    from poisson.mesh.lattice import Lattice
    from poisson.problem.problem import Problem

Values = NDArray[np.float64]


def charges(
    problem: Problem, surface: Surface, rows: Rows, u: Values, beside: Values, source: Values
) -> dict[str, float]:
    """∮ −a ∂u/∂n over the surface of each body with given values, with the normal out of the body, by its name.

    The flow out of the surface beside a node is the balance of the node: the flows through its whole links, and c and f
    there. Charges, outflow and ∫(f − c u) outside of the bodies add up to the integral of the residual.

    `problem`: with f and c. `rows`: the operator at the nodes beside surfaces, or at those of one process, whose part
    of the charges is returned then. `u`, `source`: u and the source at these nodes. `beside`: u at their neighbours.
    """
    ends = rows.ends
    row = np.searchsorted(rows.nodes, surface.cuts.node[ends])
    out = (rows.links * (u - beside)).sum(axis=0) + rows.rest * u - (source - rows.terms)
    lost = 1.0 - rows.share
    if lost.any():
        f, c = (
            field_at(problem.lattice, f"equation.{name}", given, rows.nodes)
            for name, given in (("f", problem.f), ("c", problem.c))
        )
        out += lost * (f - c * u)
    volumes = surface.lattice.volumes_at(np.unravel_index(rows.nodes, surface.shape))
    volumes = volumes * np.prod([line.spacing for line in problem.lattice.axes]) * problem.lattice.turn
    conductance = surface.conductance[ends]
    each = conductance * (surface.given[ends] - u[row])
    # Where a node has several surfaces each has a part of what is lacking, and none where obstacles close them all.
    size = rows.nodes.size
    total, lacking = np.bincount(row, conductance, size), out - np.bincount(row, each, size)
    each += np.divide(lacking, total, out=np.zeros(size), where=total > 0.0)[row] * conductance
    found = np.bincount(surface.cuts.body[ends] - 1, each * volumes[row], len(problem.bodies))
    return {body.name: float(found[i]) for i, body in enumerate(problem.bodies) if body.kind == "dirichlet"}


def field_at(lattice: Lattice, key: str, given: Any, nodes: NDArray[np.int64]) -> Any:
    """A field at some nodes."""
    if (constant := number(given)) is not None:
        return constant
    if hasattr(given, "read"):
        shape = lattice.array_shape
        numbers = np.unravel_index(nodes, shape)
        # No more than a process has whose nodes these are.
        block = [
            (int(each.min(initial=count - 1)), int(each.max(initial=0)) + 1)
            for each, count in zip(numbers, shape, strict=True)
        ]
        values = np.asarray(stored(given, np, block), dtype=np.float64).reshape([stop - start for start, stop in block])
        return values[tuple(each - start for each, (start, _) in zip(numbers, block, strict=True))]
    return evaluated(key, given, np, coordinates_of(lattice, nodes), ())
