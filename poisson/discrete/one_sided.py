# SPDX-License-Identifier: MIT
"""First derivatives at nodes beside surfaces, each from the side of the surface on which the node lies.

On each side of a node u has a slope over some distance: to the neighbour, or to the surface before it. With both, the
derivative is that of the parabola through the three values; with one, because the neighbour on the other side is
nothing to the node, it is extrapolated from the slopes to the next two values. Both are of second order.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from poisson.mesh.lattice import Lattice

Values = NDArray[np.float64]
Nodes = NDArray[np.int64]


@dataclass(frozen=True)
class Ends:
    """Ends of links along one axis that do not lead to a value of u at the neighbour.

    `node`: in C order, with `side` 0 for the link down and 1 for that up. `distance`: to where the slope ends, in L.
    `slope`: ∂u/∂x there, in U/L; NaN where nothing is known.
    """

    node: Nodes
    side: NDArray[np.int8]
    distance: Values
    slope: Values


def one_sided(lattice: Lattice, axis: int, u: NDArray[Any], ends: Ends, out: NDArray[Any]) -> None:
    """Write ∂u/∂x along an axis at the nodes that have some ends; 0 where no slope is known on either side.

    `lattice`: that of the arrays, undivided. `u`, `out` (arrays of its shape).
    """
    place, line, shape = lattice.array_axis(axis), lattice.axes[axis], lattice.array_shape
    nodes = np.unique(ends.node)
    numbers = list(np.unravel_index(nodes, shape))
    at = numbers[place]
    around = [nodes]
    for beside in line.neighbours:
        numbers[place] = beside[at]
        around.append(np.ravel_multi_index(tuple(numbers), shape))
    known = np.unique(np.concatenate(around))
    distance, slope = slopes(lattice, axis, u, known)
    where = np.searchsorted(known, ends.node)
    distance[ends.side, where], slope[ends.side, where] = ends.distance, ends.slope
    special = np.zeros(slope.shape, dtype=bool)
    special[ends.side, where] = True
    here = np.searchsorted(known, nodes)
    low, high = slope[:, here]
    to_low, to_high = distance[:, here]
    with np.errstate(invalid="ignore"):
        found = (to_high * low + to_low * high) / (to_low + to_high)
        for side, own, length in ((0, low, to_low), (1, high, to_high)):
            there = np.searchsorted(known, around[1 + side])
            following = np.where(special[side, here], np.nan, slope[side, there])
            bend = (own - following) * (length / (length + distance[side, there]))
            alone = np.where(np.isnan(following), own, own + bend)
            found = np.where(np.isnan(slope[1 - side, here]), alone, found)
    out.reshape(-1)[nodes] = np.nan_to_num(found)


def slopes(lattice: Lattice, axis: int, u: NDArray[Any], nodes: Nodes) -> tuple[Values, Values]:
    """The distances of the neighbours of some nodes below and above, and the slopes to them; NaN beyond a face."""
    place, line, shape = lattice.array_axis(axis), lattice.axes[axis], lattice.array_shape
    numbers = list(np.unravel_index(nodes, shape))
    at, values = numbers[place], u.reshape(-1)
    distance, slope = np.empty((2, nodes.size)), np.empty((2, nodes.size))
    for side in (0, 1):
        numbers[place] = line.neighbours[side][at]
        beside = np.ravel_multi_index(tuple(numbers), shape)
        distance[side] = line.gaps[line.link_numbers[side][at]]
        difference = (values[beside].astype(np.float64) - values[nodes]) * (2 * side - 1)
        slope[side] = difference / distance[side]
        if not line.wraps:
            slope[side][at == (line.nodes - 1 if side else 0)] = np.nan
    return distance, slope
