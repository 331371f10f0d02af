# SPDX-License-Identifier: MIT
"""Dielectrics, bodies with a coefficient a of their own: a at the nodes inside, and on the links that a surface cuts.

Where the surface cuts a link between the nodes i and j at the part θ of it, the two parts conduct one behind the other,
as two resistors do: a = 1 / (θ / a_i + (1 − θ) / a_j); a link that is cut twice, between nodes outside, has three. This
is exact where u is linear on both sides and varies along the link alone, at any θ, and of first order where the surface
lies askew to the axes, because the flux along the surface, which has a jump, then counts, too. The mean by area of a
over the face that the link goes through has larger errors.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from poisson.discrete.beside import Sparse
from poisson.problem.bodies import DIELECTRIC
from poisson.problem.problem import Problem
from poisson.problem.sampling import POSITIVE, evaluated, require_values
from poisson.problem.surfaces import Cuts, coordinates_of, cuts_of

Values = NDArray[np.float64]

FLAT = 1e-7
"""The part of a link by which the places of cuts of a surface across an axis may differ, by rounding."""


@dataclass(frozen=True)
class Media:
    """a with the dielectrics of a problem, on the host.

    `cuts`: of their surfaces. `a`: at the nodes, of the shape of the backends' arrays. `links`: for each axis a on the
    links along it that are cut, where `Coefficients.links` has them.
    """

    cuts: Cuts
    a: Values
    links: tuple[Sparse, ...]

    @property
    def tilted(self) -> bool:
        """Whether a dielectric has a surface across one axis, but for a turn by less than a link on all of its length.

        Its flux is then that of a surface across the axis, on finer grids too for a while.
        """
        cuts, shape = self.cuts, self.a.shape
        numbers = np.unravel_index(cuts.node, shape)
        for number in np.unique(cuts.body):
            of_body = cuts.body == number
            if np.unique(axes := cuts.axis[of_body]).size > 1:
                continue
            layers = 2 * numbers[len(shape) - 1 - int(axes[0])][of_body] + cuts.side[of_body]
            least, largest = np.full((2, 2 * max(shape)), np.nan)
            np.fmin.at(least, layers, cuts.theta[of_body])
            np.fmax.at(largest, layers, cuts.theta[of_body])
            if np.nanmax(largest - least) > FLAT:
                return True
        return False


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
    values.ravel()[nodes] = _inside(problem, inside[nodes], coordinates_of(problem.lattice, nodes))
    links = []
    for axis, line in enumerate(problem.lattice.axes):
        place = lattice.array_axis(axis)
        own = cuts.axis == axis
        if not line.wraps:  # the image of a link beyond a mirror is no other one
            at = np.unravel_index(cuts.node, lattice.array_shape)[place]
            own &= at != np.where(cuts.side == 1, line.nodes - 1, 0)
        numbers = np.unravel_index(cuts.node[own], lattice.array_shape)
        beside, where = list(numbers), list(numbers)
        for to, table in ((beside, line.neighbours), (where, line.link_numbers)):
            to[place] = np.where(cuts.side[own] == 1, table[1][numbers[place]], table[0][numbers[place]])
        theta = cuts.theta[own]
        resistance = theta / values[numbers] + (1.0 - theta) / values[tuple(beside)]
        at = np.ravel_multi_index(tuple(where), lattice.array_shape)
        order = np.argsort(at, kind="stable")
        # Between two nodes that are outside: what lies inside, half of it as at either end.
        pairs = np.flatnonzero(np.diff(at[order]) == 0)
        both = np.stack([order[pairs], order[pairs + 1]])
        a_inside = _inside(problem, cuts.body[own][both], [each[own][both] for each in cuts.places])
        within = (1.0 - theta[both].sum(axis=0)) / 2.0 / a_inside
        resistance[both] = (theta[both] / values[numbers][both] + within).sum(axis=0)
        on_link = 1.0 / resistance
        if not line.wraps and line.nodes > 1:  # the last entry repeats the one before it
            last = where[place] == line.nodes - 2
            again = [part[last] for part in where]
            again[place] = again[place] + 1
            where = [np.concatenate(pair) for pair in zip(where, again, strict=True)]
            on_link = np.concatenate([on_link, on_link[last]])
        at, first = np.unique(np.ravel_multi_index(tuple(where), lattice.array_shape), return_index=True)
        links.append(Sparse(at, on_link[first], lattice.array_shape))
    return Media(cuts, values, tuple(links))


def _inside(problem: Problem, body: NDArray[np.int16], places: Sequence[Values]) -> Values:
    """a of dielectrics, by the number of the body at each place; `CaseError` if it is not positive."""
    found = np.empty(body.shape)
    for number in np.unique(body).tolist():
        which = body == number
        key, here = f"body.{number}.{DIELECTRIC}", [each[which] for each in places]
        found[which] = evaluated(key, problem.bodies[number - 1].value, np, here, ())
        require_values(np, key, found[which], here, POSITIVE, problem.lattice.names)
    return found
