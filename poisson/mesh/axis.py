# SPDX-License-Identifier: MIT
"""One axis of a lattice of nodes: all that is separable about the operator, the grids and their division.

Along an axis the operator takes, at node i and in units of a/h² with the spacing h,

    lower_i (u_i − u_{i−1}) + upper_i (u_i − u_{i+1}) + extra_i u_i,

with the neighbours across the two ends by their rules, and it is symmetric in the inner product of the control widths.
On a *uniform* axis the nodes are equally spaced, those at the ends lie on the faces, lower and upper are one, and the
eigenvalues are known in closed form: kernels have it as constants. Every other axis is *tabulated*:
`poisson.mesh.placement` has the kinds, from which the three arrays follow.

An axis may be a *part* of another one: the nodes that a process owns, and a halo beside them. What belongs to a problem
as a whole, such as its spectrum, is that of the `Axis.whole`.

All of this is one-dimensional, and made once for an axis.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from poisson.mesh import spectrum
from poisson.mesh.boundary import Kind, Rule
from poisson.mesh.placement import Nodes, Placement
from poisson.mesh.spectrum import Transform

MIN_NODES = 3
"""Fewest nodes of an axis, unless it has collapsed to one."""

Values = NDArray[np.float64]
Indices = NDArray[np.int64]


def array_axis(axis: int, dimension: int) -> int:
    """The axis of an array along which x (0), y (1) or z (2) runs: x is the last one."""
    return dimension - 1 - axis


@dataclass(frozen=True)
class Axis:
    """Nodes along one axis, and the part of the operator along it.

    `nodes`: nodes of an array along this axis, with the halo of a part.
    `spacing`: distance h between neighbouring nodes, in L; the mean one where nodes are placed otherwise. An infinite
    one leaves no coupling along the axis.
    `rules`: those of the lower and the upper end.
    `ends`: where the axis begins and ends, in L; without it from 0. On an axis that wraps the last node lies one
    spacing before its end.
    `placement`: where the nodes are if they are not equally spaced with a node on each face.
    `whole`: the axis that this one is a part of; `part` sets it, and the two that follow.
    `first`: the number that the first node has on the whole axis; below 0 where the halo wraps around its start.
    `halo`: nodes below and above that belong to others.

    Raises `ValueError` if only one end wraps, there is no node, or the placement has others.
    """

    nodes: int
    spacing: float
    rules: tuple[Rule, Rule]
    ends: tuple[float, float] | None = None
    placement: Placement | None = None
    whole: Axis | None = None
    first: int = 0
    halo: tuple[int, int] = (0, 0)

    def __post_init__(self) -> None:
        if self.nodes < 1:
            raise ValueError(f"an axis of {self.nodes} nodes")
        if (self.rules[0] is Rule.WRAP) != (self.rules[1] is Rule.WRAP):
            raise ValueError("an axis wraps at both ends or at none")

    @staticmethod
    def between(lower: float, upper: float, nodes: int, rules: tuple[Rule, Rule]) -> Axis:
        """A uniform axis on an interval; where it wraps, its last node is that before the upper end."""
        return Axis(nodes, (upper - lower) / intervals_of(nodes, rules), rules, (lower, upper))

    @staticmethod
    def placed(placement: Placement) -> Axis:
        """A tabulated axis."""
        nodes, rules = placement.points.size, placement.rules
        intervals = intervals_of(nodes, rules) if placement.on_faces else nodes
        return Axis(nodes, placement.length / intervals, rules, placement.ends, placement)

    @staticmethod
    def single() -> Axis:
        """An axis of one node, its own neighbour, without a coupling: that of functions which are constant along it."""
        return Axis(1, math.inf, (Rule.WRAP, Rule.WRAP))

    # ---- nodes

    @property
    def wraps(self) -> bool:
        """Whether the node at one end is the neighbour of that at the other."""
        return self.rules[0] is Rule.WRAP

    @property
    def tabulated(self) -> bool:
        """Whether the weights of the links differ from node to node."""
        return self.placement is not None

    @property
    def fixed(self) -> int:
        """How many of the two ends are fixed."""
        return self.rules.count(Rule.FIXED)

    @property
    def holds(self) -> bool:
        """Whether the part of A along the whole axis makes something of constants: by a fixed end, or by `extra`."""
        whole = self.undivided
        return whole.fixed > 0 or (whole.placement is not None and any(whole.placement.walls))

    @property
    def intervals(self) -> int:
        """Spacings from one end of the whole axis to the other: one fewer than nodes where both lie on the faces."""
        whole = self.undivided
        return intervals_of(whole.nodes, whole.rules) if whole._on_faces or whole.fixed == 2 else whole.nodes

    @property
    def interval(self) -> tuple[float, float]:
        """Where the whole axis begins and ends, in L."""
        return self.ends or (0.0, self.spacing * self.intervals)

    @cached_property
    def coordinates(self) -> Values:
        """The coordinates of the nodes, shape ``(n,)``, in L; the ends are exact."""
        return self.undivided.places(self.index)

    def places(self, numbers: Indices) -> Values:
        """The coordinates of some nodes of a whole axis, by their numbers."""
        if self.placement is not None:
            return self.placement.points[numbers]
        lower, upper = self.interval
        place = numbers / max(1, self.intervals)
        return lower * (1.0 - place) + upper * place

    @cached_property
    def widths(self) -> Values:
        """Control widths in units of the spacing, shape ``(n,)``: the weights of the inner product; 0 in a halo.

        On a uniform axis they are those of the trapezoidal rule, one half at each mirror.
        """
        if self.whole is not None:
            widths = np.zeros(self.nodes)
            widths[self.owned] = self.whole.widths[self.index[self.owned]]
            return widths
        if self.placement is not None:
            return self.placement.widths / self.spacing
        widths = np.ones(self.nodes)
        widths[[0, -1]] = [0.5 if rule is Rule.MIRROR else 1.0 for rule in self.rules]
        return widths

    @cached_property
    def lengths(self) -> Values:
        """The control widths in L, half as wide at nodes that are fixed on faces: those of a whole axis add up to the
        length or ∫ r^p.
        """
        lengths = self.spacing * self.widths
        if self._on_faces:
            lengths[[0, -1]] *= [0.5 if rule is Rule.FIXED else 1.0 for rule in self.rules]
        return lengths

    @cached_property
    def gaps(self) -> Values:
        """The lengths of the links above the nodes of a whole axis, in L, as many as there are."""
        if self.placement is not None:
            return self.placement.gaps
        return np.full(intervals_of(self.nodes, self.rules), self.spacing)

    @property
    def sections(self) -> Values:
        """The area that each link of a whole axis goes through, in the order of `gaps`: 1 but along a radius."""
        return np.ones_like(self.gaps) if self.placement is None else self.placement.sections

    @property
    def areas(self) -> tuple[float, float]:
        """The areas of the ends: 1 but along a radius."""
        return (1.0, 1.0) if self.placement is None else self.placement.areas

    @property
    def offsets(self) -> tuple[float, float]:
        """The distances of the faces from the nodes next to them, in L: 0 where nodes lie on them."""
        if self._on_faces or self.wraps:
            return 0.0, 0.0
        points = self.undivided.coordinates
        return float(points[0]) - self.interval[0], self.interval[1] - float(points[-1])

    @property
    def walls(self) -> tuple[float, float]:
        """The conductance of each end that `couplings` has, in 1/L, with a = 1; see `poisson.mesh.placement`."""
        return (0.0, 0.0) if self.placement is None else self.placement.walls

    @property
    def inside(self) -> tuple[float, float]:
        """The part of the control volume of the node next to each open end that lies inside, as the nodes go on beyond:
        a half of those on faces, but along a radius, and the whole of cells.
        """
        if not self._on_faces:
            return 1.0, 1.0
        if self.placement is None or not self.placement.power:
            return 0.5, 0.5
        return 0.5, float(self.lengths[-1] / self.placement.extended(1).widths[self.nodes - 1])

    @property
    def inflow(self) -> tuple[float, float]:
        """The source that a unit of flow by area through each end is to the node next to it, in 1/L."""
        if (placed := self.placement) is not None:
            return placed.areas[0] / float(placed.widths[0]), placed.areas[1] / float(placed.widths[-1])
        lower, upper = ((2.0 if rule is Rule.MIRROR else 1.0) / self.spacing for rule in self.undivided.rules)
        return lower, upper

    # ---- the operator along the axis

    @cached_property
    def couplings(self) -> tuple[Values, Values, Values]:
        """(lower, upper, extra): what the difference to each neighbour, and u itself, is multiplied by, in a/h²."""
        if self.whole is not None:
            lower, upper, extra = self.whole.couplings
            return lower[self.index], upper[self.index], extra[self.index]
        if self.placement is None:
            return np.ones(self.nodes), np.ones(self.nodes), np.zeros(self.nodes)
        upper = np.append(self.placement.sections / self.placement.gaps, 0.0)[: self.nodes]
        lower = np.roll(upper, 1)
        for end, inside, rule in ((lower, upper, self.rules[0]), (upper[::-1], lower[::-1], self.rules[1])):
            if rule is Rule.FIXED:
                end[0] = inside[0]
        extra = np.zeros(self.nodes)
        for node, wall, area in zip((0, -1), self.placement.walls, self.placement.areas, strict=True):
            extra[node] += wall * area
        scale = self.spacing / self.widths
        return scale * lower, scale * upper, scale * extra

    @cached_property
    def neighbours(self) -> tuple[Indices, Indices]:
        """The lower and the upper neighbour of every node; the outermost ones of a halo have themselves beyond."""
        index = np.arange(self.nodes)
        lower, upper = index - 1, index + 1
        lower[0] = self._image(self.rules[0], 0)
        upper[-1] = self._image(self.rules[1], self.nodes - 1)
        return lower, upper

    @cached_property
    def link_numbers(self) -> tuple[Indices, Indices]:
        """Where the coefficients of the links below and above every node stand in `Coefficients.links`."""
        index = np.arange(self.nodes)
        lower, upper = index - 1, index.copy()
        if self.wraps:
            lower[0] = self.nodes - 1
        else:
            lower[0], upper[-1] = 0, max(0, self.nodes - 2)
        return lower, upper

    @cached_property
    def link_ends(self) -> tuple[Indices, Indices]:
        """The nodes at the ends of each entry of `Coefficients.links`; the last repeats that before it, or wraps."""
        lower = self.link_numbers[1]
        return lower, (lower + 1) % self.nodes

    @property
    def diagonal(self) -> Values | float:
        """The diagonal of the part of A along the axis, in a/h²: 2, or values at the nodes."""
        return sum(self.couplings[1:], self.couplings[0]) if self.tabulated else 2.0

    @property
    def norm(self) -> float:
        """The maximum norm of the part of A along the whole axis, in a/h²."""
        lower, upper, extra = self.undivided.couplings if self.tabulated else (1.0, 1.0, 0.0)
        return float(np.max(2.0 * (lower + upper) + extra))

    # ---- its spectrum

    @property
    def modes(self) -> int:
        """Nodes of the whole axis that are not fixed."""
        return self.undivided.nodes - self.undivided.fixed

    @property
    def transform(self) -> Transform | None:
        """The transform that makes the part of A along the whole axis diagonal; None where only `eigenvectors` do."""
        whole = self.undivided
        if whole.placement is not None and not whole.placement.even:
            return None
        if whole.wraps:
            return Transform.FOURIER
        if whole._on_faces or whole.fixed == 2:
            return (Transform.COSINE, Transform.QUARTER, Transform.SINE)[whole.fixed]
        between_walls = Transform.CELL_COSINE, Transform.CELL_QUARTER, Transform.CELL_SINE
        return None if whole.fixed else between_walls[spectrum.walls_that_hold(whole)]

    @cached_property
    def extremes(self) -> tuple[float, float, float]:
        """The lowest, the second and the highest eigenvalue of the part of A along the whole axis, in a/h²."""
        if self.whole is not None:
            return self.whole.extremes
        return spectrum.extremes(self)

    @cached_property
    def eigenvalues(self) -> Values:
        """The eigenvalues of the part of A along the whole axis, in the order of its modes, in a/h².

        They ascend, but of n equally spaced nodes that wrap the modes k and n − k have the same one.
        """
        return spectrum.eigenvalues(self) if self.whole is None else self.whole.eigenvalues

    @cached_property
    def eigenvectors(self) -> tuple[Values, Values, Values]:
        """The eigenvectors of the part of A along the whole axis, on the nodes that are not fixed.

        Returns: `values`: the eigenvalues in ascending order, in a/h². `columns`: the eigenvectors; zero at fixed
        nodes. `rows`: of the inverse of that matrix.
        """
        return spectrum.eigenvectors(self.undivided)

    # ---- the coarser axis

    @cached_property
    def coarser(self) -> Axis | None:
        """The axis of half the intervals, rounded up, between the same ends; None if it had fewer than 3 nodes.

        That of a part is a part of the coarser whole, with a halo as wide on each side: it owns the nodes that lie on
        or next above its own.
        """
        if self.whole is not None:
            coarse = self.whole.coarser
            return None if coarse is None else self._coarser_part(self.whole, coarse)
        nodes = -(-self.nodes // 2) if self.wraps or not (self._on_faces or self.fixed == 2) else self.nodes // 2 + 1
        if nodes < MIN_NODES or nodes == self.nodes:
            return None
        if self.placement is not None:
            return self._between_fixed(nodes) if self.fixed and not self._on_faces else self.resized(nodes)
        # One after the other: the levels of a cycle have always been these numbers to the bit.
        spacing = self.spacing * (self.intervals / intervals_of(nodes, self.rules))
        return Axis(nodes, spacing, self.rules, self.ends)

    def _between_fixed(self, nodes: int) -> Axis:
        """A coarser axis of cells with the same fixed nodes."""
        assert self.placement is not None
        points, upper = self.placement.points, self.rules[1] is Rule.FIXED
        if self.fixed == 2:
            return Axis.between(float(points[0]), float(points[-1]), nodes, self.rules)
        coarse = self.placement.resized(nodes)
        marks = coarse.marks
        marks[-upper] = 2.0 * points[-upper] - marks[-2 if upper else 1]
        found = Axis.placed(type(coarse)(marks, coarse.kinds, coarse.alpha, coarse.power))
        return replace(found, spacing=self.spacing * self.nodes / nodes)

    def resized(self, nodes: int) -> Axis:
        """The whole axis with so many nodes between the same ends; `ValueError` if they are fewer than 3."""
        if nodes < MIN_NODES:
            raise ValueError(f"{nodes} nodes; at least {MIN_NODES} are needed")
        if self.placement is not None:
            return Axis.placed(self.placement.resized(nodes))
        return Axis.between(*self.interval, nodes, self.rules)

    def scaled(self, factor: float) -> Axis:
        """The axis with all lengths times a factor, and α over it."""
        ends = self.ends and (factor * self.ends[0], factor * self.ends[1])
        whole = self.whole and self.whole.scaled(factor)
        placed = self.placement and (whole.placement if whole else self.placement.scaled(factor))
        return replace(self, spacing=factor * self.spacing, ends=ends, whole=whole, placement=placed)

    def facing(self, kinds: Sequence[Kind]) -> Axis:
        """The whole axis with conditions of these kinds at its ends, without the α of a placement."""
        lower, upper = kinds
        if self.placement is not None:
            same = self.placement.kinds == (lower, upper) and self.placement.alpha == (0.0, 0.0)
            return self if same else Axis.placed(self.placement.facing((lower, upper)))
        rules = lower.rule, upper.rule
        if self.wraps is not lower.wraps:
            return Axis.between(*self.interval, self.nodes, rules)
        return self if self.rules == rules else replace(self, rules=rules)

    def absorbing(self, lower: float, upper: float) -> Axis:
        """A uniform axis with Robin terms at its mirrors: α h / a at each end, 0 at a fixed one."""
        kinds = {Rule.FIXED: Kind.DIRICHLET, Rule.MIRROR: Kind.ROBIN}
        alpha = lower / self.spacing, upper / self.spacing
        return Axis.placed(Nodes(self.coordinates, (kinds[self.rules[0]], kinds[self.rules[1]]), alpha))

    # ---- its parts

    def part(self, start: int, stop: int, halo: int | tuple[int, int]) -> Axis:
        """The part of one process: it owns the nodes ``[start, stop)`` and has so many beside them as a halo.

        The halo has as many as there are; it wraps around where the axis does. Its ends that are no ends of the axis
        have the rule `Rule.HALO`.

        Raises `ValueError` if this is a part, the range is empty or not on the axis, or the halo has no node where the
        axis goes on.
        """
        if self.whole is not None:
            raise ValueError("a part of an axis is not divided again")
        widths = (halo, halo) if isinstance(halo, int) else halo
        beside = (widths[0], start), (widths[1], self.nodes - stop)
        narrow = any(width < 1 and (self.wraps or nodes) for width, nodes in beside)
        if not 0 <= start < stop <= self.nodes or narrow:
            raise ValueError(f"no part [{start}, {stop}) with a halo of {halo} nodes of an axis of {self.nodes}")
        return self._range(start, stop, widths)

    def _range(self, start: int, stop: int, widths: tuple[int, int]) -> Axis:
        """`part`, which may own no node: that of a coarser axis, where the finer one has few."""
        if (start, stop) == (0, self.nodes):
            return self
        beside = (widths[0], start), (widths[1], self.nodes - stop)
        below, above = widths if self.wraps else (min(pair) for pair in beside)
        first, last = start - below, stop + above
        rules = (
            Rule.HALO if first > 0 or self.wraps else self.rules[0],
            Rule.HALO if last < self.nodes or self.wraps else self.rules[1],
        )
        return Axis(last - first, self.spacing, rules, self.ends, self.placement, self, first, (below, above))

    @property
    def undivided(self) -> Axis:
        """The axis that this is a part of, or this one."""
        return self if self.whole is None else self.whole

    @property
    def owned(self) -> slice:
        """The nodes that are not in the halo."""
        return slice(self.halo[0], self.nodes - self.halo[1])

    @cached_property
    def index(self) -> Indices:
        """The number that each node has on the whole axis."""
        return np.arange(self.first, self.first + self.nodes) % self.undivided.nodes

    @cached_property
    def on_faces(self) -> NDArray[np.bool_]:
        """Whether each node is the first or the last one of the whole axis."""
        return np.isin(self.index, (0, self.undivided.nodes - 1))

    @property
    def free(self) -> slice:
        """The nodes that are not fixed."""
        return slice(int(self.rules[0] is Rule.FIXED), self.nodes - int(self.rules[1] is Rule.FIXED))

    @property
    def equations(self) -> slice:
        """The nodes whose equation can be computed: not fixed, and with both neighbours here."""
        without = (Rule.FIXED, Rule.HALO)
        return slice(int(self.rules[0] in without), self.nodes - int(self.rules[1] in without))

    # ---- helpers

    @property
    def _on_faces(self) -> bool:
        return self.placement is None or self.placement.on_faces

    def _image(self, rule: Rule, node: int) -> int:
        """The neighbour beyond an end, by its rule."""
        if rule is Rule.WRAP:
            return self.nodes - 1 - node
        if rule is Rule.HALO:
            return node
        return min(1, self.nodes - 1) if node == 0 else max(0, self.nodes - 2)

    @property
    def matrix(self) -> Values:
        """The part of A along the axis on all of its nodes, in a/h²; rows of `equations` alone have a meaning."""
        lower, upper, extra = self.couplings
        matrix = np.diag(lower + upper + extra)
        for weights, neighbour in zip((lower, upper), self.neighbours, strict=True):
            np.add.at(matrix, (np.arange(self.nodes), neighbour), -weights)
        return matrix

    def _coarser_part(self, whole: Axis, coarse: Axis) -> Axis:
        start, stop = self.first + self.halo[0], self.first + self.nodes - self.halo[1]
        # The coarse node j lies at j · many / few fine spacings.
        few, many = coarse.intervals, whole.intervals
        first, last = -(-start * few // many), -(-stop * few // many)
        return coarse._range(first, last, self.halo)


def plain_rules(*periodic: bool) -> tuple[Rule, ...]:
    """The rules of both ends of each axis where only the places of the nodes count."""
    return tuple(Rule.WRAP if wraps else Rule.MIRROR for wraps in periodic for _ in range(2))


def intervals_of(nodes: int, rules: tuple[Rule, Rule]) -> int:
    """Links between so many nodes: one fewer, or as many where the last one is linked to the first."""
    return nodes if rules[0] is Rule.WRAP else nodes - 1
