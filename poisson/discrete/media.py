# SPDX-License-Identifier: MIT
"""Dielectrics, bodies with a coefficient a of their own: a at the nodes inside, and on the links that a surface cuts.

Where the surface cuts a link between the nodes i and j at the part θ of it, the two parts conduct one behind the other,
as two resistors do: a = 1 / (θ / a_i + (1 − θ) / a_j). Exact where u is linear on both sides and varies along the link
alone, at any θ; of first order where the surface lies askew to the axes, because the flux along the surface, which has
a jump, then counts, too. The mean by area of a over the face that the link goes through has larger errors.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from poisson.discrete.beside import Sparse
from poisson.problem.bodies import DIELECTRIC
from poisson.problem.problem import Problem
from poisson.problem.sampling import POSITIVE, evaluated, require_values
from poisson.problem.surfaces import Cuts, coordinates_of, cuts_of

Values = NDArray[np.float64]


@dataclass(frozen=True)
class Media:
    """a with the dielectrics of a problem, on the host.

    `cuts`: of their surfaces. `a`: at the nodes, of the shape of the backends' arrays. `links`: for each axis a on the
    links along it that are cut, where `Coefficients.links` has them.
    """

    cuts: Cuts
    a: Values
    links: tuple[Sparse, ...]


def media_of(problem: Problem, a: Callable[[], Values]) -> Media | None:
    """The dielectrics of a problem; None without any.

    `a`: at the nodes, outside of the dielectrics. Raises `CaseError` if a is not positive inside.
    """
    if not any(body.kind == DIELECTRIC for body in problem.bodies):
        return None
    cuts = cuts_of(problem.lattice, problem.bodies, (DIELECTRIC,))
    lattice, values = problem.lattice.of_arrays, a()
    inside = cuts.inside.ravel()
    nodes = np.flatnonzero(inside > 0).astype(np.int64)
    nodes = nodes[np.argsort(inside[nodes], kind="stable")]
    ends = np.searchsorted(inside[nodes], np.arange(1, len(problem.bodies) + 2))
    for number, body in enumerate(problem.bodies, start=1):
        which = nodes[ends[number - 1] : ends[number]]
        if which.size:
            key, places = f"body.{number}.{DIELECTRIC}", coordinates_of(problem.lattice, which)
            found = np.broadcast_to(evaluated(key, body.value, np, places, ()), which.shape)
            require_values(np, key, found, places, POSITIVE)
            values.ravel()[which] = found
    links = []
    for axis, line in enumerate(problem.lattice.axes):
        place = lattice.array_axis(axis)
        own = cuts.axis == axis
        numbers = np.unravel_index(cuts.node[own], lattice.array_shape)
        beside, where = list(numbers), list(numbers)
        for to, table in ((beside, line.neighbours), (where, line.link_numbers)):
            to[place] = np.where(cuts.side[own] == 1, table[1][numbers[place]], table[0][numbers[place]])
        theta = cuts.theta[own]
        on_link = 1.0 / (theta / values[numbers] + (1.0 - theta) / values[tuple(beside)])
        if not line.wraps and line.nodes > 1:  # the last entry repeats the one before it
            last = where[place] == line.nodes - 2
            again = [part[last] for part in where]
            again[place] = again[place] + 1
            where = [np.concatenate(pair) for pair in zip(where, again, strict=True)]
            on_link = np.concatenate([on_link, on_link[last]])
        at = np.ravel_multi_index(tuple(where), lattice.array_shape)
        order = np.argsort(at, kind="stable")
        links.append(Sparse(at[order], on_link[order], lattice.array_shape))
    return Media(cuts, values, tuple(links))
