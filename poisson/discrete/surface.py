# SPDX-License-Identifier: MIT
"""Bodies in the operator: nodes that are fixed, links that are cut, and what the surfaces add to c and to the source.

Beside a surface with given values g a link is cut where the surface is, at the part θ of it. In the *symmetric* form
(F. Gibou, R. P. Fedkiw, L.-T. Cheng, M. Kang, Journal of Computational Physics 176, 2002) the flow through the rest of
the link, a (u − g) / (θ h), is divided by the control width of the node: the link is 0, c has a / (θ h²) more, and f
has g times that. So the operator is symmetric, and has nothing but coefficients and a mask.

The form of G. H. Shortley and R. Weller (Journal of Applied Physics 9, 1938) divides the difference of the two flows
along an axis by the width that is left between surfaces: a factor at the nodes beside them, for each axis. A method
solves in the symmetric form, and `Rows` has what this leaves of the other one.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from dataclasses import replace
from functools import cached_property
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from poisson.discrete.beside import Sparse, firsts
from poisson.discrete.mask import parts
from poisson.discrete.media import Media, media_of
from poisson.discrete.obstacles import KINDS, Obstacles, obstacles_of
from poisson.discrete.operator import Operator
from poisson.errors import CaseError
from poisson.problem.bodies import FLOATING, keys_of
from poisson.problem.faces import may_absorb
from poisson.problem.fields import stored
from poisson.problem.problem import Problem, number
from poisson.problem.sampling import POSITIVE, Block, Writer, evaluated, limit_of_a, link_mean, nodes, require_values
from poisson.problem.surfaces import Cuts, coordinates_of, cuts_of, places_of

if TYPE_CHECKING:
    from poisson.discrete.discretisation import Maker
    from poisson.discrete.forces import Enclosure
    from poisson.mesh.lattice import Lattice

Values = NDArray[np.float64]
Indices = NDArray[np.int64]


def surface_of(problem: Problem) -> Surface:
    """The surfaces of the bodies of a problem, made once for its coefficients and data."""
    found: Surface | None = problem.__dict__.get("_surface")
    if found is None:
        found = problem.__dict__["_surface"] = Surface(problem)
    return found


class Surface:
    """The changes that the bodies of a problem make to its operator, source and boundary values.

    `problem`: with bodies. Raises `CaseError` if data of a body are not finite; the line names the body and the place.
    """

    def __init__(self, problem: Problem) -> None:
        for position, body in enumerate(problem.bodies, start=1):
            if body.kind == FLOATING:
                raise CaseError(f"body.{position}.{body.kind}: not solved for yet; allowed: dirichlet")
        self.problem = problem
        assert problem.cuts is not None
        self.cuts: Cuts = problem.cuts
        self.lattice = problem.lattice.of_arrays
        self.shape = self.lattice.array_shape
        self._exact: dict[Lattice, list[Values]] = {}

    def carry(self, problem: Problem) -> None:
        """Give the surfaces to a problem that differs in f, and in data of faces and bodies, alone."""
        found = copy.copy(self)
        found.problem = problem
        if problem.bodies is not self.problem.bodies:
            for name in ("given", "terms", "source", "held"):
                found.__dict__.pop(name, None)
            if found.obstacles:
                found.__dict__["obstacles"] = found.obstacles.having(problem.bodies)
        problem.__dict__.update(_surface=found, cuts=found.cuts)

    @property
    def corrects(self) -> bool:
        """Whether the residual is that of Shortley and Weller."""
        return self.problem.surface != "symmetric" and self.holds

    @property
    def holds(self) -> bool:
        """Whether values are given at surfaces."""
        return self.cuts.node.size > 0

    # ---- bodies with a flow through their surfaces, and dielectrics

    @cached_property
    def obstacles(self) -> Obstacles | None:
        """The part that Neumann and Robin bodies leave open; where nothing holds u, the largest part of the box."""
        found, problem = obstacles_of(self.problem.lattice, self.problem.bodies, self._nodes_a), self.problem
        absorbs = number(problem.c) != 0.0 or any(face.absorbs for face in problem.faces)
        absorbs = absorbs or any(may_absorb(body.alpha) for body in problem.bodies)
        if found is None or absorbs or self.cuts.node.size or self.lattice.holds:
            return found
        opened = [each.positive().reshape(self.shape) for each in found.links]
        opened += [np.ones(self.shape, dtype=bool)] * (len(self.shape) - len(opened))
        labels = parts(Operator(self.lattice), opened, ~found.open.volumes.positive().reshape(self.shape))
        if labels.max() > 0:
            largest = np.bincount(labels[labels >= 0]).argmax()
            found = found.without(((labels >= 0) & (labels != largest)).reshape(problem.lattice.array_shape))
        return found

    @cached_property
    def media(self) -> Media | None:
        """a at the nodes and on the links that the surfaces of dielectrics cut."""
        return media_of(self.problem, self._nodes_a)

    def _nodes_a(self) -> Values:
        block = tuple((0, count) for count in self.shape)
        a = self.problem.a
        if isinstance(a, (int, float)):
            return np.full(self.shape, float(a))
        return np.asarray(nodes(self.problem, np, "equation.a", a, block, limit_of_a(self.problem.mean, a)))

    @cached_property
    def enclosure(self) -> Enclosure:
        """Closed surfaces around conductors and dielectrics."""
        from poisson.discrete.forces import enclosure_of

        return enclosure_of(self)

    @cached_property
    def open_links(self) -> Values | float:
        """The part of each cut link that Neumann and Robin bodies leave open."""
        if self.obstacles is None:
            return 1.0
        found = np.empty(self.cuts.node.size)
        for axis, which, side in self._along():
            entries = np.ravel_multi_index(self._entries(axis, which, side), self.shape)
            found[which] = self.obstacles.links[axis].at(entries)
        return found

    def _entries(self, axis: int, which: Indices, side: NDArray[np.bool_]) -> tuple[Indices, ...]:
        """Where `Coefficients.links` has the links of some ends along an axis."""
        line, along = self.lattice.axes[axis], self.lattice.array_axis(axis)
        places = [part[which] for part in self.numbers]
        places[along] = np.where(side, line.link_numbers[1][places[along]], line.link_numbers[0][places[along]])
        return tuple(places)

    @cached_property
    def media_links(self) -> tuple[Values, ...]:
        """a on all links, of the shape of the arrays, for each axis."""
        assert self.media is not None
        ends = [(self.lattice.array_axis(axis), line.link_ends) for axis, line in enumerate(self.lattice.axes)]
        a, mean = self.media.a, self.problem.mean
        found = [link_mean(mean, *(np.take(a, nodes, axis=place) for nodes in both)) for place, both in ends]
        block = tuple((0, count) for count in self.shape)
        for along, on_links in zip(found, self.media.links, strict=False):
            on_links.write(np, along, block)
        return tuple(found)

    @cached_property
    def inside(self) -> Sparse:
        """a at the nodes in dielectrics."""
        assert self.media is not None
        return self._sparse(self.media.a, self.media.cuts.inside > 0)

    @property
    def dielectrics(self) -> Writer | None:
        """A function that writes a inside of dielectrics into values of a at the nodes of a block; None without any."""
        return self.inside.write if self.media else None

    @cached_property
    def volumes(self) -> Sparse:
        """The open part of each control volume that is not open as a whole."""
        assert self.obstacles is not None
        return replace(self.obstacles.open.volumes, shape=self.shape)

    @cached_property
    def within(self) -> NDArray[np.bool_]:
        """Whether each node is in a body that is no dielectric, or cut off by one."""
        found = self.cuts.inside > 0
        if self.obstacles:
            problem = self.problem
            found |= cuts_of(problem.lattice, problem.bodies, KINDS, exact=False).inside > 0
            found |= ~self.volumes.positive()
        return found

    @property
    def closed(self) -> float:
        """The volume of the box that Neumann and Robin bodies close, in L^d."""
        if self.obstacles is None:
            return 0.0
        lattice, volumes = self.problem.lattice, self.obstacles.open.volumes
        at = np.unravel_index(volumes.nodes, volumes.shape)
        lengths = [line.lengths[at[lattice.array_axis(axis)]] for axis, line in enumerate(lattice.axes)]
        return lattice.turn * float(((1.0 - volumes.values) * math.prod(lengths)).sum())

    def open(self, xp: ModuleType, values: Any, block: Block) -> None:
        """Multiply values on a block by the open part of each control volume."""
        if self.obstacles:
            self.volumes.scale(xp, values, block)

    def link_coefficients(self, axis: int) -> Values:
        """a on the links along an axis, of the shape of the arrays, for the open part of each; 0 on cut links."""
        if self.media:
            found = self.media_links[axis].copy()
        else:
            a, place = self._nodes_a(), self.lattice.array_axis(axis)
            ends = self.lattice.axes[axis].link_ends
            found = link_mean(self.problem.mean, *(np.take(a, nodes, axis=place) for nodes in ends))
        self.join(np, axis, found, tuple((0, count) for count in self.shape))
        return np.asarray(found)

    def energy(self, u: NDArray[Any]) -> float:
        """∫ a (∂u/∂x)² between the surfaces with given values and the nodes beside them."""
        volumes = self.lattice.volumes_at(np.unravel_index(self.cuts.node, self.shape))
        jumps = u.ravel()[self.cuts.node] - self.given
        cell = np.prod(self.problem.lattice.spacing) * self.problem.lattice.turn
        return float((volumes * self.conductance * jumps**2).sum() * cell)

    def require(self) -> None:
        """Evaluate all data of the bodies. Raises `CaseError` if some of them are wrong."""
        for _ in (self.media, self.source, self.held):
            pass

    def leave_out(self, xp: ModuleType, values: Any, block: Block) -> None:
        """Write 0 where u is given, or has no meaning, into values on a block."""
        self.held.write(xp, values, block, 0.0)
        if self.obstacles:
            self._shut.write(xp, values, block, 0.0)

    def join(self, xp: ModuleType, axis: int, links: Any, block: Block) -> None:
        """Give the links of a block along an axis a of dielectrics, their open parts, and 0 where they are cut."""
        if self.media:
            self._media[axis].write(xp, links, block)
        if self.obstacles:
            replace(self.obstacles.links[axis], shape=self.shape).scale(xp, links, block)
        self._cut_links[axis].write(xp, links, block)

    @cached_property
    def _media(self) -> tuple[Sparse, ...]:
        """The coefficients of links that dielectrics cut, as the operator has them: a, or a/r² along an angle."""
        assert self.media is not None
        found = list(self.media.links)
        if (angle := self.lattice.angle) is not None:
            numbers = np.unravel_index(found[angle].nodes, self.shape)[-1]
            r = self.lattice.axes[0].coordinates[numbers]
            found[angle] = replace(found[angle], values=found[angle].values / r**2)
        return tuple(found)

    @cached_property
    def _shut(self) -> Sparse:
        nodes = self.volumes.nodes[self.volumes.values == 0.0]
        return Sparse(nodes, np.zeros(nodes.size), self.shape)

    @cached_property
    def absorbed(self) -> Sparse:
        """The term of the surfaces of Robin bodies in c, in 1/L²."""
        assert self.obstacles is not None
        return replace(self.obstacles.reaction, shape=self.shape)

    def _sparse(self, values: Values, which: NDArray[np.bool_]) -> Sparse:
        return Sparse(np.flatnonzero(which), values[which], self.shape)

    def on_face(self, face: int, block: Block) -> Values | float:
        """The open part of a face of the box at the nodes of a block next to it."""
        if self.obstacles is None:
            return 1.0
        place = self.lattice.array_axis(face // 2)
        across = self.shape[:place] + self.shape[place + 1 :]
        found = self.obstacles.open.on_face(self.problem.lattice, face).reshape(across)
        return np.asarray(found[tuple(slice(*ends) for ends in (*block[:place], *block[place + 1 :]))])

    # ---- at the ends of cut links

    @cached_property
    def coefficient(self) -> Values:
        """a on the rest of each cut link: in its middle, to second order."""
        cuts, a = self.cuts, self.problem.a
        constant = number(a)
        if self.media:
            return self.media.a.ravel()[cuts.node]
        if constant is not None or not cuts.node.size:
            return np.full(cuts.node.size, constant or 0.0)
        assert not isinstance(a, (int, float))
        if hasattr(a, "read"):
            every = [(0, count) for count in self.problem.lattice.array_shape]
            values = np.asarray(stored(a, np, every), dtype=np.float64).ravel()  # type: ignore[arg-type]
            here, there = values[cuts.node], values[self.neighbours]
            part = cuts.theta / 2.0
            if self.problem.mean == "harmonic":
                return 1.0 / ((1.0 - part) / here + part / there)
            return (1.0 - part) * here + part * there
        middle = places_of(self.problem.lattice, cuts.node, cuts.axis, cuts.side, cuts.theta / 2.0)
        found = np.broadcast_to(
            np.asarray(evaluated("equation.a", a, np, middle, ()), dtype=np.float64), middle[0].shape
        )
        require_values(np, "equation.a", found, middle, POSITIVE, self.problem.lattice.names)
        return found

    @cached_property
    def numbers(self) -> tuple[Indices, ...]:
        """The number of the node of each end along each axis of an array."""
        return np.unravel_index(self.cuts.node, self.shape)

    @cached_property
    def neighbours(self) -> Indices:
        """The node to which each cut link leads, in C order."""
        found = list(self.numbers)
        for axis, which, side in self._along():
            line, along = self.lattice.axes[axis], self.lattice.array_axis(axis)
            found[along] = found[along].copy()
            at = self.numbers[along][which]
            found[along][which] = np.where(side, line.neighbours[1][at], line.neighbours[0][at])
        return np.ravel_multi_index(tuple(found), self.shape)

    @cached_property
    def link(self) -> Values:
        """1/h² of each cut link with what its control width makes of it: what its a is multiplied by in A, if whole."""
        found = np.empty(self.cuts.node.size)
        for axis, which, side in self._along():
            line = self.lattice.axes[axis]
            at = self.numbers[self.lattice.array_axis(axis)][which]
            found[which] = np.where(side, line.couplings[1][at], line.couplings[0][at]) / line.spacing**2
            if axis == self.lattice.angle:
                found[which] /= self.lattice.axes[0].coordinates[self.numbers[-1][which]] ** 2
            elif line.placement is not None and line.placement.power:
                # What is left of a link along a radius has its middle elsewhere than the whole link.
                ends = (self.cuts.node[which], self.cuts.axis[which], self.cuts.side[which], self.cuts.theta[which])
                middle = places_of(self.problem.lattice, *ends[:3], ends[3] / 2.0)[axis]
                sections = line.sections[np.where(side, line.link_numbers[1][at], line.link_numbers[0][at])]
                found[which] *= middle**line.placement.power / sections
        return found

    @cached_property
    def conductance(self) -> Values:
        """The factor of (u − g) in A at the node of each end, in 1/L²."""
        return self.coefficient * self.link * self.open_links / self.cuts.theta

    @cached_property
    def given(self) -> Values:
        """g at the point of the surface of each end."""
        return self._data(self.cuts.body, self.cuts.places)

    def _along(self) -> list[tuple[int, Indices, NDArray[np.bool_]]]:
        """For each axis the ends of links along it, and whether these lead up."""
        cuts = self.cuts
        each = [(axis, np.flatnonzero(cuts.axis == axis)) for axis in range(self.problem.lattice.dimension)]
        return [(axis, which, cuts.side[which] == 1) for axis, which in each]

    def _data(self, body: NDArray[np.int16], places: tuple[Values, ...] | list[Values]) -> Values:
        """The data of the bodies at points."""
        found = np.zeros(body.size)
        for position, each in enumerate(self.problem.bodies, start=1):
            which = np.flatnonzero(body == position)
            if not which.size:
                continue
            if (constant := number(each.value)) is not None:
                found[which] = constant
                continue
            key, here = keys_of(each, position)[1], [place[which] for place in places]
            values = np.broadcast_to(evaluated(key, each.value, np, here, ()), which.shape)
            require_values(np, key, values, here, None, self.problem.lattice.names)
            found[which] = values
        return found

    @cached_property
    def terms(self) -> Values:
        """The terms of the surfaces with given values in the source, at the nodes beside them, in U/L²."""
        return self.sums(self.conductance * self.given).values

    # ---- on arrays

    @cached_property
    def _cut_links(self) -> tuple[Sparse, ...]:
        """Zeros where `Coefficients.links` of each axis has the links that are cut."""
        found = []
        for axis, which, side in self._along():
            line, place = self.lattice.axes[axis], self.lattice.array_axis(axis)
            where = np.stack(self._entries(axis, which, side))
            if not line.wraps and line.nodes > 1:  # the last entry repeats the one before it
                again = where[:, where[place] == line.nodes - 2]
                again[place] += 1
                where = np.concatenate([where, again], axis=1)
            nodes = np.sort(np.ravel_multi_index(tuple(where), self.shape))
            nodes = nodes[firsts(nodes)]
            found.append(Sparse(nodes, np.zeros(nodes.size), self.shape))
        return tuple(found)

    @cached_property
    def source(self) -> Sparse:
        """The terms of the surfaces in the source at the nodes beside them, in U/L²."""
        found = self.sums(self.conductance * self.given)
        if self.obstacles is None:
            return found
        flow = self.obstacles.source
        nodes, place = np.unique(np.concatenate([flow.nodes, found.nodes]), return_inverse=True)
        values = np.zeros(nodes.size)
        np.add.at(values, place, np.concatenate([flow.values, found.values]))
        return Sparse(nodes, values, self.shape)

    @cached_property
    def held(self) -> Sparse:
        """The values at the nodes inside, in U."""
        free = np.zeros(self.shape, dtype=bool)
        free[self.lattice.free] = True  # the others are those of Dirichlet faces
        nodes = np.flatnonzero((self.cuts.inside > 0) & free)
        values = self._data(self.cuts.inside.ravel()[nodes], coordinates_of(self.problem.lattice, nodes))
        return Sparse(nodes, values, self.shape)

    @property
    def range(self) -> tuple[float, float]:
        """The least and the largest value given at a surface."""
        values = np.concatenate([self.given, self.held.values])
        return (float(values.min()), float(values.max())) if values.size else (np.inf, -np.inf)

    def sums(self, values: Values) -> Sparse:
        nodes, first = self.cuts.node, firsts(self.cuts.node)
        return Sparse(nodes[first], np.add.reduceat(values, first) if nodes.size else values, self.shape)

    def rows(
        self, lattice: Lattice, whole: Operator, operator: Callable[[], Operator], backend: Maker
    ) -> tuple[tuple[Any, ...], Any]:
        """The links and c of some rows of an operator, which the function makes in float64 once, on a backend."""
        if whole.lattice not in self._exact:
            found = operator().coefficients
            assert found is not None and found.links is not None
            self._exact[whole.lattice] = [np.asarray(backend.to_host(each)) for each in (*found.links, found.c)]
        here = whole.lattice.axes[-1]
        index = (lattice.axes[-1].index - here.first) % here.undivided.nodes
        *links, c = (backend.from_host(np.ascontiguousarray(each[index])) for each in self._exact[whole.lattice])
        return tuple(links), c
