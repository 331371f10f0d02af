# SPDX-License-Identifier: MIT
"""The forces on bodies: Maxwell's stress a (E E − |E|²/2) through a closed surface around each.

The surface has the nodes in the body and those whose links it cuts within, and goes through the middles of the links
beyond, where differences of u are of second order. As the stress has no divergence where f, c and ∇a are zero, what
goes through it is the force on the body, a conductor or a dielectric.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from poisson.discrete.charges import field_at
from poisson.discrete.one_sided import Ends, one_sided, slopes
from poisson.problem.bodies import DIELECTRIC, DIRICHLET
from poisson.problem.fields import PartField
from poisson.problem.problem import Problem, number

if TYPE_CHECKING:
    from poisson.discrete.surface import Surface

Values = NDArray[np.float64]
Nodes = NDArray[np.int64]

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Enclosure:
    """The faces of closed surfaces around bodies, each across a link.

    `nodes`: those beside bodies. `body`: the number of the body that each face is around, from 1. `axis`: of the link.
    `inner`, `outer`: its nodes. `gap`: its length in L, with the sign of the outward direction. `area`: of the face, in
    L^(d−1). `turn`: the angle phi of the face, 0 without such an axis. `open`: the numbers of the bodies that none goes
    around.
    """

    nodes: Nodes
    body: Nodes
    axis: Nodes
    inner: Nodes
    outer: Nodes
    gap: Values
    area: Values
    turn: Values
    open: frozenset[int]


def enclosure_of(surface: Surface) -> Enclosure:
    """The surfaces around the conductors and the dielectrics of a problem."""
    lattice, shape, every = surface.lattice, surface.shape, [surface.cuts]
    if surface.media:
        every.append(surface.media.cuts)
    within = np.zeros(math.prod(shape), dtype=np.int16)
    for cuts in reversed(every):
        np.copyto(within, cuts.inside.ravel(), where=cuts.inside.ravel() > 0)
    ends, body = (np.concatenate([getattr(cuts, name) for cuts in every]) for name in ("node", "body"))
    owner = within.copy()
    owner[ends] = body
    # What is beside two bodies, or beside one in another, is on neither side.
    shared = (within[ends] > 0) | np.isin(ends, ends[owner[ends] != body])
    failed = {*body[shared].tolist(), *within[ends][shared].tolist()}
    nodes = np.unique(ends)
    numbers = np.unravel_index(nodes, shape)
    radius, angle = _polar(surface, numbers)
    found: list[list[Any]] = []
    for axis, line in enumerate(surface.problem.lattice.axes):
        place = lattice.array_axis(axis)
        across = [other for other in range(surface.problem.lattice.dimension) if other != axis]
        area = math.prod(
            (lattice.axes[other].lengths[numbers[lattice.array_axis(other)]] for other in across),
            start=np.full(nodes.size, lattice.turn),
        )
        unit = radius if axis == lattice.angle else np.ones(nodes.size)
        for side, beside in enumerate(line.neighbours):
            at, other = numbers[place], list(numbers)
            other[place] = beside[at]
            outer = np.ravel_multi_index(tuple(other), shape)
            kept = owner[outer] != owner[nodes]
            if not line.wraps:
                kept &= at != (line.nodes - 1 if side else 0)
            if surface.obstacles:
                other[place] = line.link_numbers[side][at]
                whole = surface.obstacles.links[axis].at(np.ravel_multi_index(tuple(other), shape)) == 1.0
                failed |= set(owner[nodes[kept & ~whole]].tolist())
            link = np.minimum(line.link_numbers[side][at], line.gaps.size - 1)
            gap = line.gaps[link] * (2 * side - 1)
            middle = angle + gap / 2.0 if axis == lattice.angle else angle
            through = area * line.sections[link] / unit
            parts = (owner[nodes], np.full(nodes.size, axis), nodes, outer, gap * unit, through, middle)
            found.append([part[kept] for part in parts])
    body, axes, inner, outer, gap, area, turn = (np.concatenate(column) for column in zip(*found, strict=True))
    return Enclosure(nodes, body.astype(np.int64), axes, inner, outer, gap, area, turn, frozenset(failed))


def _polar(surface: Surface, numbers: Sequence[Nodes]) -> tuple[Values, Values]:
    """r and phi of nodes, by their numbers along the axes of an array; 1 and 0 without an axis phi."""
    lattice = surface.lattice
    if lattice.angle is None:
        return np.ones(numbers[0].size), np.zeros(numbers[0].size)
    places = [lattice.axes[axis].coordinates[numbers[lattice.array_axis(axis)]] for axis in (0, lattice.angle)]
    return places[0], places[1]


def forces(surface: Surface, problem: Problem, u: NDArray[Any]) -> dict[str, tuple[float, ...]]:
    """The components of the force on each conductor and dielectric, by its name, in U²·L^(d−3) times the unit of a.

    With an axis phi they are those along x, where phi = 0, along y, and along z.
    A body is left out where the stress beside it is not known or has a divergence; a line in the log says why. A body
    that reaches a face has the force on its part in the box.

    `surface`: with the bodies. `problem`: with the data that were solved for. `u`: on all nodes, of the shape of the
    backends' arrays.
    """
    faces, a = surface.enclosure, number(problem.a)
    patches = tuple(f"{face}." for face in problem.lattice.faces)
    wanted = {
        position: body.name
        for position, body in enumerate(problem.bodies, start=1)
        if body.kind in (DIRICHLET, DIELECTRIC) and not body.name.startswith(patches)
    }
    if not wanted:
        return {}
    if a is None or any(_made(surface, name, getattr(problem, name), faces.nodes) for name in ("f", "c")):
        log.info("no forces on bodies: %s beside them", "a varies" if a is None else "f or c is not zero")
        return {}
    for position in sorted(faces.open & wanted.keys()):
        log.info("no force on %s: another body is within two links of it", wanted.pop(position))
    slope = gradient_at(surface, u, nodes := np.unique(np.concatenate([faces.inner, faces.outer])))
    inner, outer = (np.searchsorted(nodes, ends) for ends in (faces.inner, faces.outer))
    here = (slope[:, inner] + slope[:, outer]) / 2.0
    along = (u.ravel()[faces.outer].astype(np.float64) - u.ravel()[faces.inner]) / faces.gap
    which = np.arange(along.size)
    here[faces.axis, which] = along
    stress = along * here
    stress[faces.axis, which] -= (here**2).sum(axis=0) / 2.0
    stress *= a * faces.area * np.sign(faces.gap)
    if surface.lattice.angle is not None:
        cosine, sine = np.cos(faces.turn), np.sin(faces.turn)
        stress[:2] = cosine * stress[0] - sine * stress[1], sine * stress[0] + cosine * stress[1]
    sums = [np.bincount(faces.body, part, len(problem.bodies) + 1) for part in stress]
    return {name: tuple(float(part[position]) for part in sums) for position, name in wanted.items()}


def _made(surface: Surface, name: str, given: Any, nodes: Nodes) -> bool:
    """Whether f or c is not zero at some nodes, or not known, as an array of which each process has a part."""
    lattice = surface.problem.lattice
    return isinstance(given, PartField) or bool(np.any(field_at(lattice, f"equation.{name}", given, nodes)))


def gradient_at(surface: Surface, u: NDArray[Any], nodes: Nodes) -> Values:
    """∇u at some nodes outside of bodies, each from its side of a surface, shape ``(d, nodes)``."""
    from poisson.discrete.surface_fields import ends_along, on_surface

    lattice, on = surface.lattice, on_surface(surface)
    found = np.empty((surface.problem.lattice.dimension, nodes.size))
    for axis, values in enumerate(found):
        parts = [part for part in ends_along(surface, axis, u, on) if part[0].size]
        special = np.unique(np.concatenate([part[0] for part in parts])) if parts else nodes[:0]
        plain = nodes[~np.isin(nodes, special)]
        # Any side of a node will do, but for that beyond a face, where there is no slope.
        distance, slope = slopes(lattice, axis, u, plain)
        side = np.isnan(slope[1]).astype(np.int8)
        each = np.arange(plain.size)
        parts.append((plain, side, distance[side, each], slope[side, each]))
        out = np.empty(u.shape)
        one_sided(lattice, axis, u, Ends(*(np.concatenate(column) for column in zip(*parts, strict=True))), out)
        values[:] = out.ravel()[nodes]
        if axis == lattice.angle:
            values /= _polar(surface, np.unravel_index(nodes, u.shape))[0]
    return found
