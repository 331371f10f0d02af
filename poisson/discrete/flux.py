# SPDX-License-Identifier: MIT
"""The flux −a∇u where a varies from node to node.

a and a difference of u that are both taken at a node miss the flux by any factor where a jumps beside it. The flux
through the link between two nodes, −a_{i+½} (u_{i+1} − u_i)/h, is what the discrete equations balance, and across a
jump the normal flux has no jump. A node has the mean of the links on both of its sides; a node on a face that is not
periodic, which has a link on one side only, what the two nearest links extrapolate to. Both are of second order.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from poisson.discrete.operator import Operator
from poisson.mesh.axis import Axis
from poisson.mesh.boundary import Rule
from poisson.mesh.grid import slabs


def link_flux(operator: Operator, axis: int, coefficients: NDArray[Any], u: NDArray[Any], out: NDArray[Any]) -> None:
    """out = −a ∂u/∂x along `axis` (0 is x) at every node, in U/L.

    `operator`: its shape, spacing and rules are used. `axis`: the direction. `coefficients` (array):
    `Coefficients.links` of the axis, on the host. `u`, `out` (array of the same shape): the solution, and the result.
    """
    line = operator.lattice.axes[axis]
    if line.tabulated:
        _between_gaps(
            line,
            np.moveaxis(coefficients, operator.lattice.array_axis(axis), 0),
            *(np.moveaxis(array, operator.lattice.array_axis(axis), 0) for array in (u, out)),
        )
        return
    place, wraps = operator.lattice.array_axis(axis), line.wraps
    for start, stop in slabs(u.shape):
        if place == 0:
            out[start:stop] = _rows(coefficients, u, start, stop, wraps)
        else:
            along, values = (np.moveaxis(array[start:stop], place, 0) for array in (coefficients, u))
            np.moveaxis(out[start:stop], place, 0)[...] = _rows(along, values, 0, len(values), wraps)
    out /= operator.spacing[axis]


def _between_gaps(line: Axis, coefficients: NDArray[Any], u: NDArray[Any], out: NDArray[Any]) -> None:
    """The flux along a tabulated axis, which is the first of the arrays: linear between the middles of the links."""
    whole, numbers = line.undivided, line.index
    gaps = np.append(whole.gaps, whole.gaps[-1:])[: whole.nodes][numbers]
    shape = (-1,) + (1,) * (u.ndim - 1)
    above = coefficients * (u - np.roll(u, -1, axis=0)) / gaps.reshape(shape)
    lower = np.roll(gaps, 1)
    below_part = (gaps / (gaps + lower)).reshape(shape)
    out[...] = below_part * np.roll(above, 1, axis=0) + (1.0 - below_part) * above
    for end, nearest, next_one, gap in ((0, 0, 1, gaps[:2]), (-1, -2, -3, gaps[-2:-4:-1])):
        if line.rules[end] is not Rule.WRAP:
            out[end] = above[nearest] + (above[nearest] - above[next_one]) * (gap[0] / (gap[0] + gap[1]))


def _rows(coefficients: NDArray[Any], u: NDArray[Any], start: int, stop: int, wraps: bool) -> NDArray[Any]:
    """h times the flux along the first array axis, for the rows ``[start, stop)``."""
    count = len(u)

    def through(first: int, last: int) -> NDArray[Any]:
        """Through the links from the rows ``[first, last)`` to the next."""
        rows = np.arange(first, last) % count
        return np.asarray(coefficients[rows] * (u[rows] - u[(rows + 1) % count]))

    links = through(start - 1, stop)
    flux = (links[:-1] + links[1:]) / 2
    if not wraps and start == 0:
        nearest, next_one = through(0, 2)
        flux[0] = (3 * nearest - next_one) / 2
    if not wraps and stop == count:
        next_one, nearest = through(count - 3, count - 1)
        flux[-1] = (3 * nearest - next_one) / 2
    return np.asarray(flux)
