# SPDX-License-Identifier: MIT
"""Fluxes out of the box through its faces: the integral of −a ∂u/∂n over each, as the discrete equations balance it.

Each node has its control volume, and the flux through the link between two nodes leaves one and enters the other. On a
Neumann or Robin face the flux is what its data say. A node on a Dirichlet face has no equation; what leaves its volume
through the face is what the links bring there and what f − c u makes in it. So the flows through all faces add up to
the integral of f − c u (by the trapezoidal rule) less that of the residual, whatever u is: to rounding. They are of
second order.

Where faces meet, the node belongs to each of them: the link along an axis counts for the Dirichlet face at that end of
the axis; the other terms are shared evenly by the Dirichlet faces, so that each total stays of second order.
"""

import math
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from poisson.discrete.discretisation import Discretisation
from poisson.mesh.boundary import Rule
from poisson.problem import sampling
from poisson.problem.problem import Problem, number
from poisson.problem.sampling import Block


def outflow(discretisation: Discretisation, u: NDArray[Any], face: int) -> float:
    """∫ −a ∂u/∂n over a face, with the outward normal: what leaves the box there, in U·L^(d−2) in d dimensions.

    `discretisation`: the problem, balanced where it is singular. `u` (float array): the solution on all nodes, of the
    grid's ``array_shape``. `face`: which face, in the order of `poisson.mesh.boundary.FACE_NAMES`; not of a periodic
    axis. Raises `CaseError` if data of the problem cannot be read.
    """
    shape = discretisation.array_shape
    on_nodes = u.reshape(shape)
    rule = discretisation.problem.lattice.rules[face]
    if rule is Rule.WRAP:
        raise ValueError("what leaves through a periodic face enters at the other one")
    if rule is Rule.MIRROR:
        found = float(prescribed(discretisation, on_nodes, face, plane(discretisation, face, 1)).sum())
        return found + _into_patches(discretisation, on_nodes, face)
    return _Wall(discretisation, on_nodes, face).outflow()


def _into_patches(discretisation: Discretisation, u: NDArray[Any], face: int) -> float:
    """The flow out through the parts of a face that hold values: through the links to them, and what is made beside."""
    problem, surface, name = discretisation.problem, discretisation.surface, discretisation.problem.lattice.faces[face]
    numbers = [number for number, body in enumerate(problem.bodies, 1) if body.name.startswith(f"{name}.")]
    if surface is None or not numbers:
        return 0.0
    lattice = discretisation.whole_lattice
    volumes = np.ones(u.shape)
    for axis, line in enumerate(problem.lattice.axes):
        volumes *= lattice.along(axis, line.lengths)
    ends = np.isin(surface.cuts.body, numbers)
    node = surface.cuts.node[ends]
    through = surface.conductance[ends] * (u.ravel()[node] - surface.given[ends]) * volumes.ravel()[node]
    # Nodes that are on Dirichlet faces, too, count there.
    held = np.zeros(u.shape, dtype=bool)
    held[lattice.free] = np.isin(surface.cuts.inside, numbers)[lattice.free]
    block = plane(discretisation, face, 1)
    rest = _Wall(discretisation, u, face).rest()[_cut(held, block) > 0.0]
    return float(through.sum() + rest.sum())


def _place(discretisation: Discretisation, axis: int) -> int:
    """The axis of an array along which an axis of the grid runs."""
    return discretisation.whole_lattice.array_axis(axis)


def plane(discretisation: Discretisation, face: int, layers: int) -> Block:
    """The block of so many layers of nodes at a face."""
    block = [(0, count) for count in discretisation.array_shape]
    place = _place(discretisation, face // 2)
    count = block[place][1]
    block[place] = (count - layers, count) if face % 2 else (0, layers)
    return tuple(block)


def _cut(values: NDArray[Any], block: Block) -> NDArray[np.float64]:
    return np.asarray(values[tuple(slice(*ends) for ends in block)], dtype=np.float64)


def prescribed(discretisation: Discretisation, u: NDArray[Any], face: int, block: Block) -> NDArray[np.float64]:
    """The flow at each node out through a face without fixed nodes, in a block that is one node thick there."""
    place = _place(discretisation, face // 2)
    beside = _cut(u, block)
    surface = discretisation.surface
    inside, next_to = surface.dielectrics if surface else None, beside.squeeze(place)
    flow = sampling.face_outflow(discretisation.problem, np, face, block, inside, next_to)
    flow = np.broadcast_to(np.asarray(flow, dtype=np.float64), next_to.shape)
    if surface:
        flow = flow * surface.on_face(face, block)
    area = discretisation.problem.lattice.axes[face // 2].areas[face % 2]
    long = discretisation.problem.lattice.scale(face // 2, block)
    return np.asarray(np.expand_dims(flow, place) * (area / long) * areas(discretisation, face // 2, block))


def areas(discretisation: Discretisation, normal: int, block: Block) -> NDArray[np.float64]:
    """The area of the control volume of each node of a block across an axis, in a shape that broadcasts to it.

    Across a radius the value is the area over r^p, which differs from link to link (`Axis.sections`). Across an angle
    the value is r times the area, as the links along it have the coefficient a/r².
    """
    lattice = discretisation.whole_lattice
    values = np.full((1,) * len(block), discretisation.problem.lattice.turn)
    for axis, line in enumerate(discretisation.problem.lattice.axes):
        if axis != normal:
            values = values * lattice.along(axis, line.lengths[slice(*block[lattice.array_axis(axis)])])
    return values


class _Wall:
    """A Dirichlet face, with the nodes on it and those next to it."""

    def __init__(self, discretisation: Discretisation, u: NDArray[Any], face: int) -> None:
        self.discretisation, self.u, self.face = discretisation, u, face
        self.problem: Problem = discretisation.problem
        self.grid = self.problem.lattice
        self.axis, self.upper = divmod(face, 2)
        self.place = _place(discretisation, self.axis)
        self.block = plane(discretisation, face, 1)
        self.walls = self._walls()

    def outflow(self) -> float:
        """∫ −a ∂u/∂n."""
        through = self._through_links()
        along = np.zeros(self.walls.shape)
        for axis in range(self.grid.dimension):
            if axis != self.axis:
                along += self._along(axis)
        return math.fsum([float(through.sum()), float(((along + self.rest()) / self.walls).sum())])

    def rest(self) -> NDArray[np.float64]:
        """The source in the control volume of each node, with what flows in through other faces and surfaces."""
        return self._made() - self._through_others() - self._into_bodies()

    def _walls(self) -> NDArray[np.float64]:
        """On how many Dirichlet faces each node lies."""
        found = np.zeros([stop - start for start, stop in self.block])
        for _, where in sampling.faces(self.problem.lattice, Rule.FIXED, self.block):
            found[where] += 1.0
        return found

    def _link(self, axis: int, block: Block) -> Any:
        """a on the links along an axis above the nodes of a block, one layer of them or all, times its open part."""
        surface, a = self.discretisation.surface, number(self.problem.a)
        place = _place(self.discretisation, axis)
        low, high = block[place]
        found: Any = a
        if surface and surface.media:
            found = _cut(surface.media_links[axis], block)
        elif a is None:
            two = block if high > low + 1 else (*block[:place], (low, low + 2), *block[place + 1 :])
            nodes = sampling.nodes(self.problem, np, "equation.a", self.problem.a, two)  # type: ignore[arg-type]
            found = sampling.link_mean(self.problem.mean, nodes, np.roll(nodes, -1, axis=place))
            found = np.take(found, range(high - low), axis=place)
        if surface and surface.obstacles:
            found = found * replace(surface.obstacles.links[axis], shape=surface.shape).on(block)
        return found / self.grid.scale(axis, block) ** 2

    def _through_links(self) -> NDArray[np.float64]:
        """The flux through the links from the next layer."""
        two = plane(self.discretisation, self.face, 2)
        u = np.moveaxis(_cut(self.u, two), self.place, 0)
        wall, inner = (1, 0) if self.upper else (0, 1)
        line, end = self.grid.axes[self.axis], -1 if self.upper else 0
        slope = (u[inner] - u[wall]) * line.sections[end] / line.gaps[end]
        low = two[self.place][0]
        link = self._link(self.axis, (*two[: self.place], (low, low + 1), *two[self.place + 1 :]))
        return np.asarray(np.expand_dims(slope, self.place) * link * areas(self.discretisation, self.axis, self.block))

    def _along(self, axis: int) -> NDArray[np.float64]:
        """The flux through the links along the face into each node, but for links that count for another Dirichlet
        face.
        """
        place, line = _place(self.discretisation, axis), self.grid.axes[axis]
        gaps = line.gaps / line.sections
        gaps = np.append(gaps, gaps[-1:])[: line.nodes].reshape((-1,) + (1,) * (self.walls.ndim - 1))
        u = np.moveaxis(_cut(self.u, self.block), place, 0)
        # Half a cell across the face, and the whole of the third axis.
        area = areas(self.discretisation, axis, self.block) * self._link(axis, self.block)
        area = np.moveaxis(np.broadcast_to(area, self.walls.shape), place, 0)
        upwards = area * (np.roll(u, -1, axis=0) - u) / gaps
        if not line.wraps:
            upwards[-1] = 0.0
        brought = upwards - np.roll(upwards, 1, axis=0)
        for end in (0, 1):
            if line.rules[end] is Rule.FIXED:
                brought[-end] = 0.0
        return np.moveaxis(brought, 0, place)

    def _made(self) -> NDArray[np.float64]:
        """The integral of f − c u over each control volume."""
        f, c, u = self._made_of()
        half_a_cell = float(self.grid.axes[self.axis].lengths[-1 if self.upper else 0])
        volumes: Any = half_a_cell * areas(self.discretisation, self.axis, self.block)
        if (surface := self.discretisation.surface) and surface.obstacles:
            volumes = volumes * surface.volumes.on(self.block)
        return np.asarray(volumes * (f - c * u))

    def _into_bodies(self) -> NDArray[np.float64] | float:
        """The flux through the surfaces of bodies in the control volumes."""
        if not (surface := self.discretisation.surface) or not surface.obstacles:
            return 0.0
        return _cut(surface.obstacles.flows(self.u).reshape(surface.shape), self.block)

    def _made_of(self) -> tuple[Any, Any, NDArray[np.float64]]:
        problem, c = self.problem, number(self.problem.c)
        f = sampling.nodes(problem, np, "equation.f", problem.f, self.block) - self.discretisation.shift
        found = sampling.nodes(problem, np, "equation.c", problem.c, self.block) if c is None else c  # type: ignore[arg-type]
        return f, found, _cut(self.u, self.block)

    def _through_others(self) -> NDArray[np.float64]:
        """The flux through the Neumann and Robin faces that meet this one."""
        found = np.zeros(self.walls.shape)
        for face, where in sampling.faces(self.problem.lattice, Rule.MIRROR, self.block):
            place = _place(self.discretisation, face // 2)
            edge = list(self.block)
            count = self.discretisation.array_shape[place]
            edge[place] = (count - 1, count) if face % 2 else (0, 1)
            flow = prescribed(self.discretisation, self.u, face, tuple(edge))
            found[where] += np.broadcast_to(flow, [stop - start for start, stop in edge]).squeeze(place)
        return found
