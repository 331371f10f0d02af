# SPDX-License-Identifier: MIT
"""The operator with bodies in the box, on the whole grid or on the part of one process.

Every process knows the surfaces on the whole grid, and writes what they make of links and of c on its part.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from poisson.discrete.beside import Rows, firsts
from poisson.discrete.mask import by_parts, masked
from poisson.discrete.operator import FIXED, Coefficients, Operator
from poisson.discrete.share import numbers_of, pieces_of

if TYPE_CHECKING:
    from poisson.discrete.surface import Surface
    from poisson.mesh.lattice import Lattice

Values = NDArray[np.float64]
Indices = NDArray[np.int64]


def with_bodies(
    surface: Surface, operator: Operator, backend: Any, largest: Callable[..., tuple[float, ...]]
) -> Operator:
    """The operator with the bodies, given that of the problem without them, on a backend.

    `largest`: the largest of each value on any part of the grid.
    """
    lattice, shape, cuts = operator.lattice, operator.array_shape, surface.cuts
    before = operator.coefficients or Coefficients(None, None, (operator.a, operator.a), (operator.c, operator.c))
    views = getattr(backend, "views", False)
    if before.links is None and before.c is None and views and not surface.media:
        return _plain(surface, operator, before, backend)
    if before.links is not None and views and not (surface.holds or surface.obstacles or cuts.inside.any()):
        # Dielectrics change links alone, and these where they are.
        with backend.ordered():
            for block, here in pieces_of(numbers_of(lattice)):
                for axis in range(surface.problem.lattice.dimension):
                    surface.join(backend.array_module, axis, backend.view(before.links[axis])[here], block)
        return operator
    if before.links is None:
        links = [np.full(shape, operator.a, dtype=backend.dtype) for _ in operator.shape]
    else:
        links = [np.array(backend.to_host(each)) for each in before.links]
    c = np.full(shape, operator.c) if before.c is None else np.array(backend.to_host(before.c), dtype=np.float64)
    for block, here in pieces_of(numbers_of(lattice)):
        for axis in range(surface.problem.lattice.dimension):
            surface.join(np, axis, links[axis][here], block)
        if before.c is None and operator.c:
            surface.open(np, c[here], block)
    rows = _rows(surface, lattice, links, c)
    sums = surface.sums(surface.conductance)
    for block, here in pieces_of(numbers_of(lattice)):
        sums.add(np, c[here], block)
    arrays = tuple(backend.from_host(each) for each in links)
    found = replace(before, links=arrays, c=c, cut=surface.holds, beside=rows)
    if surface.obstacles:
        marked = backend.from_host(np.where(_part(lattice, cuts.inside) > 0, FIXED, c))
        return _parted(surface, replace(operator, coefficients=found), marked, lambda: (links, c), backend)
    free = np.zeros(surface.shape, dtype=bool)
    free[surface.lattice.free] = cuts.inside[surface.lattice.free] == 0
    fixed = int(np.prod([line.modes for line in surface.lattice.axes])) - int(np.count_nonzero(free))
    among = c[_part(lattice, free)]
    below, most = largest(*((-float(among.min()), float(among.max())) if among.size else (-np.inf, -np.inf)))
    ends = (-below, most) if free.any() else (0.0, 0.0)
    # Nodes beside a surface hold those that links connect with them, and what no surface cuts off is the whole.
    holds = surface.holds or surface.lattice.holds or ends[1] > 0.0
    c[_part(lattice, cuts.inside) > 0] = FIXED
    found = replace(found, c=backend.from_host(c), c_range=ends, fixed=fixed, holds=holds)
    return replace(operator, a=1.0, c=0.0, coefficients=found)


def _plain(surface: Surface, operator: Operator, before: Coefficients, backend: Any) -> Operator:
    """The same for constant a and c, without an array of the grid on the host: on a large one these take long."""
    xp, lattice, shape, cuts = backend.array_module, operator.lattice, operator.array_shape, surface.cuts
    a, c, sums = operator.a, operator.c, surface.sums(surface.conductance)
    arrays = [backend.empty(shape) for _ in range(len(shape) + 1)]
    with backend.ordered():
        *links, reaction = map(backend.view, arrays)
        for each in links:
            each[...] = a
        reaction[...] = c
        in_type = replace(sums, values=sums.values.astype(backend.dtype))
        for block, here in pieces_of(numbers_of(lattice)):
            for axis in range(surface.problem.lattice.dimension):
                surface.join(xp, axis, links[axis][here], block)
            surface.open(xp, reaction[here], block)
            in_type.add(xp, reaction[here], block)
        reaction[xp.asarray(_part(lattice, cuts.inside) > 0)] = FIXED
    rows = _rows(surface, lattice, [np.broadcast_to(a, shape)] * len(shape), c, True)
    found = replace(before, links=tuple(arrays[:-1]), cut=surface.holds, beside=rows)
    if surface.obstacles:

        def on_host() -> tuple[list[Any], Any]:
            with backend.ordered():  # nothing but which links are open, and c
                here = [*(xp.greater(each, 0.0) for each in links), reaction]
                *opened, found_c = (each if xp is np else each.get() for each in here)
            return opened, np.maximum(found_c, 0.0)

        return _parted(surface, replace(operator, coefficients=found), arrays[-1], on_host, backend)
    free = int(np.count_nonzero(cuts.inside[surface.lattice.free] == 0))
    values = np.append(sums.values + c, [c] if free > sums.nodes.size else [])
    ends = (float(values.min()), float(values.max())) if values.size else (0.0, 0.0)
    fixed = int(np.prod([line.modes for line in surface.lattice.axes])) - free
    held = surface.holds or surface.lattice.holds or ends[1] > 0.0
    found = replace(found, c=arrays[-1], c_range=ends, fixed=fixed, holds=held)
    return replace(operator, a=1.0, c=0.0, coefficients=found)


def _parted(
    surface: Surface,
    operator: Operator,
    c: Any,
    on_host: Callable[[], tuple[Sequence[Any], NDArray[Any]]],
    backend: Any,
) -> Operator:
    """The operator beside obstacles: not every node that is left has links, and not all of them are one part.

    `operator`: with its links. `c`: an array of the backend with the mask of the bodies. `on_host`: gives the links and
    c there. On a part of the grid those of the whole are gathered.
    """
    before, lattice, every = operator.coefficients, operator.lattice, (1,) * operator.dimension
    assert before is not None
    inside = surface.cuts.inside > 0
    operator = replace(operator, lattice=lattice.whole, a=1.0, c=0.0, coefficients=replace(before, cut=True))
    if not lattice.divided and getattr(backend, "views", False):
        given = int(np.count_nonzero(inside[lattice.free]))
        if (found := by_parts(operator, c, backend, given)) is not None:
            return found[0]
    links, c = on_host()
    if lattice.divided:
        links = [backend.sample(each, lattice, every) for each in before.links or ()]
        c = backend.sample(backend.from_host(c), lattice, every)
    whole = masked(
        replace(operator, coefficients=replace(before, links=tuple(links), c=c, cut=True)),
        inside,
        np.asarray,
        lambda values: backend.from_host(_part(lattice, values)),
        True,
    )
    assert whole.coefficients is not None
    return replace(whole, lattice=lattice, coefficients=replace(whole.coefficients, links=before.links))


def _rows(
    surface: Surface, lattice: Lattice, links: Sequence[NDArray[Any]], c: Values | float, plain: bool = False
) -> Rows | None:
    """The rows of Shortley and Weller, given the links that are left and c, without the terms of the surfaces.

    `lattice`: of the links: the whole, or a part, whose own nodes count. `plain`: whether links and c are those without
    what obstacles leave open.
    """
    if not surface.holds:
        return None
    cuts, shape, dimension = surface.cuts, surface.shape, surface.problem.lattice.dimension
    every = cuts.node[firsts(cuts.node)]
    place = np.flatnonzero(_within(lattice, np.unravel_index(every, shape)))
    nodes = every[place]
    ends = np.flatnonzero(np.isin(cuts.node, nodes)) if lattice.divided else np.arange(cuts.node.size)
    axes, sides, theta = (part[ends] for part in (cuts.axis, cuts.side, cuts.theta))
    size, index = nodes.size, np.unravel_index(nodes, shape)
    row = np.searchsorted(nodes, cuts.node[ends])
    # Of each side of each axis: what the difference is multiplied by, how far it is, and what is there.
    strength, length = np.zeros((2, dimension, 2, size))
    beside = np.empty((dimension, 2, size), dtype=np.int64)
    inner = np.ones((dimension, size), dtype=bool)
    for axis, line in enumerate(surface.problem.lattice.axes):
        at = index[surface.lattice.array_axis(axis)]
        inner[axis] = (at > 0) & (at < line.nodes - 1) if not line.wraps else True
        for side in (0, 1):
            there = list(index)
            there[surface.lattice.array_axis(axis)] = line.link_numbers[side][at]
            link = links[axis][_here(lattice, there)]
            if plain and surface.obstacles:
                link = link * surface.obstacles.links[axis].at(np.ravel_multi_index(tuple(there), shape))
            strength[axis, side] = link * line.couplings[side][at] / line.spacing**2
            length[axis, side] = line.gaps[np.minimum(line.link_numbers[side][at], line.gaps.size - 1)]
            there[surface.lattice.array_axis(axis)] = line.neighbours[side][at]
            beside[axis, side] = np.ravel_multi_index(_here(lattice, there), lattice.array_shape)
    if surface.obstacles:
        # Where these cut control volumes, the symmetric form stays.
        inner &= surface.volumes.at(nodes) == 1.0
    whole, gaps = length.sum(axis=1), length.copy()
    strength[axes, sides, row] = surface.conductance[ends]
    length[axes, sides, row] *= theta
    factor = np.where(inner, whole / length.sum(axis=1), 1.0)
    here = _here(lattice, index)
    rest = c[here] if isinstance(c, np.ndarray) else np.full(size, c)
    if plain and surface.obstacles:
        rest *= surface.volumes.at(nodes)
    before, after = strength.sum(axis=(0, 1)) + rest, (factor * strength.sum(axis=1)).sum(axis=0) + rest
    extra = (factor - 1.0)[:, np.newaxis] * strength
    # What is left of a line of nodes ends at the surface, and not half a link beyond the last node.
    share, left = np.ones(size), np.zeros(ends.size)
    for axis, line in enumerate(surface.problem.lattice.axes):
        which = np.flatnonzero(axes == axis)
        at, gap = index[surface.lattice.array_axis(axis)][row[which]], gaps[axis, sides[which], row[which]]
        more = (theta[which] - 0.5) * gap
        if line.placement is not None and line.placement.power:  # with the weight in the middle of what is left
            middle = line.coordinates[at] + (2.0 * sides[which] - 1.0) * (theta[which] / 2.0 + 0.25) * gap
            more *= middle**line.placement.power
        left[which] = more / line.lengths[at]
    # Along each axis that a body is cut along, this is the whole of what lies beside it.
    along = np.zeros((int(cuts.body.max(initial=0)) + 1, dimension), dtype=bool)
    along[cuts.body, cuts.axis] = True
    np.add.at(share, row, left / along.sum(axis=1)[cuts.body[ends]])
    of_g, constant = extra[axes, sides, row], np.zeros(size)
    np.add.at(constant, row, -of_g * surface.given[ends])
    weights, links_left = extra.copy(), strength.copy()
    for each in (weights, links_left):
        each[axes, sides, row] = 0.0
    # Obstacles may leave a node nothing.
    scale = np.divide(before, after, out=np.ones(size), where=after > 0.0)
    give = np.divide(1.0, before, out=np.zeros(size), where=before > 0.0)
    weights, links_left = (each.reshape(2 * dimension, size) for each in (weights, links_left))
    return Rows(
        index=here,
        beside=np.unravel_index(beside.reshape(2 * dimension, size), lattice.array_shape),
        scale=scale,
        diagonal=extra.sum(axis=(0, 1)),
        weights=weights,
        constant=constant,
        terms=surface.terms[place],
        links=links_left,
        rest=rest,
        pull=scale * give * (links_left + weights),
        give=give,
        share=share,
        nodes=nodes,
        place=place,
        size=every.size,
        ends=ends,
        extra=of_g,
    )


def _here(lattice: Lattice, index: Sequence[Indices]) -> tuple[Indices, ...]:
    """The places of some nodes, by their numbers on the whole grid, in the arrays of a part that has them."""
    lines = zip(index, reversed(lattice.axes), strict=True)
    return tuple(
        numbers if line.whole is None else (numbers - line.first) % line.whole.nodes for numbers, line in lines
    )


def _within(lattice: Lattice, index: Sequence[Indices]) -> NDArray[np.bool_]:
    """Whether a part owns each of some nodes, by their numbers on the whole grid."""
    found = np.ones(index[0].size, dtype=bool)
    for numbers, line in zip(index, reversed(lattice.axes), strict=True):
        found &= (numbers >= line.first + line.owned.start) & (numbers < line.first + line.owned.stop)
    return found


def _part(lattice: Lattice, values: NDArray[Any]) -> NDArray[Any]:
    """The values that a part has of an array on the whole grid."""
    return values[np.ix_(*numbers_of(lattice))] if lattice.divided else values
