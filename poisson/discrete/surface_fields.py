# SPDX-License-Identifier: MIT
"""∇u and −a∇u beside the surfaces of bodies, from the side on which each node lies, and nothing inside."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from poisson.discrete.one_sided import Ends, one_sided
from poisson.problem.sampling import Block
from poisson.problem.surfaces import TINY

if TYPE_CHECKING:
    from poisson.discrete.surface import Surface

Values = NDArray[np.float64]
Nodes = NDArray[np.int64]


def write_beside(
    surface: Surface, u: NDArray[Any], gradient: NDArray[Any], flux: NDArray[Any] | None, a: Any, block: Block
) -> None:
    """Write both where differences across a surface would have no meaning, and zeros inside conductors and obstacles.

    On a surface that goes through a node the derivatives are those of the side outside. Across a dielectric the flux
    along each link is that of the discrete equations.

    `u`: the solution, of the shape of the backends' arrays. `gradient`, `flux`: on a block of the nodes, with one
    component for each axis behind that. `a`: the coefficient at the nodes of the block, or a number.
    """
    here = tuple(slice(*ends) for ends in block)
    beside = np.zeros(u.shape, dtype=bool)
    inside = surface.cuts.inside > 0
    on = on_surface(surface)
    for axis in range(surface.problem.lattice.dimension):
        parts = [part for part in ends_along(surface, axis, u, on) if part[0].size]
        if not parts:
            continue
        # What stands last of an end counts: a closed link before a surface on it.
        ends = Ends(*(np.concatenate(column) for column in zip(*parts, strict=True)))
        out, special = np.empty(u.shape), np.zeros(u.shape, dtype=bool)
        one_sided(surface.lattice, axis, u, ends, out)
        special.ravel()[ends.node] = True
        if axis == surface.lattice.angle:
            out /= surface.lattice.scale(axis, ((0, u.shape[-1]),))
        gradient[special[here], axis] = out[here][special[here]]
        beside |= special
    inside.ravel()[on] = False
    if surface.obstacles:
        inside |= ~surface.volumes.positive()
        for axis in range(surface.problem.lattice.dimension):
            # The coefficient of a link that is open in part is no conductivity.
            for nodes in _link_nodes(surface, axis, surface.obstacles.links[axis].nodes):
                beside.ravel()[nodes] = True
    inside, beside = inside[here], beside[here]
    gradient[inside] = 0.0
    if flux is not None:
        flux[beside] = (
            -(a[beside] if isinstance(a, np.ndarray) else np.full(int(beside.sum()), a))[:, np.newaxis]
            * gradient[beside]
        )
        flux[inside] = 0.0


def on_surface(surface: Surface) -> Nodes:
    """The nodes with given values that the surface goes through, so far as it faces a node outside."""
    return np.unique(surface.neighbours[surface.cuts.theta > 1.0 - 2.0 * TINY])


def ends_along(surface: Surface, axis: int, u: NDArray[Any], on: Nodes) -> Iterator[tuple[Nodes, Any, Values, Values]]:
    """Node, side, distance and slope of the ends of links along an axis that lead to no value at the neighbour."""
    lattice, shape, values = surface.lattice, surface.shape, u.ravel()
    line, place = lattice.axes[axis], lattice.array_axis(axis)

    def gaps(nodes: Nodes, side: Any) -> Values:
        at = np.unravel_index(nodes, shape)[place]
        return line.gaps[np.where(side, line.link_numbers[1][at], line.link_numbers[0][at])]

    if surface.media:
        cuts = surface.media.cuts
        own = cuts.axis == axis
        node, side, theta = cuts.node[own], cuts.side[own], cuts.theta[own]
        other, gap = _beside(surface, axis, node, side), gaps(node, side)
        a = surface.media.a.ravel()
        flow = (values[other] - values[node]) / (theta / a[node] + (1.0 - theta) / a[other]) / gap * (2.0 * side - 1.0)
        yield node, side, theta * gap, flow / a[node]
        yield other, 1 - side, np.maximum(1.0 - theta, TINY) * gap, flow / a[other]
    cuts = surface.cuts
    own = cuts.axis == axis
    node, side = cuts.node[own], cuts.side[own]
    distance = cuts.theta[own] * gaps(node, side)
    yield node, side, distance, (surface.given[own] - values[node]) / distance * (2.0 * side - 1.0)
    for up in (0, 1):
        # On the surface nothing is known of the side inside, if the other one is outside.
        sides = np.full(on.size, up, dtype=np.int8)
        lower, upper = (cuts.inside.ravel()[_beside(surface, axis, on, sides * 0 + way)] > 0 for way in (0, 1))
        these = on[(lower & ~upper) if up == 0 else (upper & ~lower)]
        sides = sides[: these.size]
        yield these, sides, gaps(these, sides), np.full(these.size, np.nan)
    if surface.obstacles:
        links = surface.obstacles.links[axis]
        closed = links.nodes[links.values == 0.0]
        for up, nodes in zip((1, 0), _link_nodes(surface, axis, closed), strict=True):
            these = nodes[surface.volumes.at(nodes) > 0.0]
            sides = np.full(these.size, up, dtype=np.int8)
            yield these, sides, gaps(these, sides), np.full(these.size, np.nan)


def _link_nodes(surface: Surface, axis: int, links: Nodes) -> tuple[Nodes, Nodes]:
    """The nodes at the lower and at the upper ends of some links, given by the places of their entries."""
    line, place = surface.lattice.axes[axis], surface.lattice.array_axis(axis)
    numbers = np.unravel_index(links, surface.shape)
    if not line.wraps:
        real = numbers[place] < line.nodes - 1  # the last entry repeats the one before it
        numbers = tuple(part[real] for part in numbers)
    nodes = np.ravel_multi_index(numbers, surface.shape)
    return nodes, _beside(surface, axis, nodes, np.ones(nodes.size, dtype=np.int8))


def _beside(surface: Surface, axis: int, nodes: Nodes, side: Any) -> Nodes:
    """The neighbours of some nodes along an axis, below or above."""
    line, place = surface.lattice.axes[axis], surface.lattice.array_axis(axis)
    numbers = list(np.unravel_index(nodes, surface.shape))
    numbers[place] = np.where(side == 1, line.neighbours[1][numbers[place]], line.neighbours[0][numbers[place]])
    return np.ravel_multi_index(tuple(numbers), surface.shape)
