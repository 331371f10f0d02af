# SPDX-License-Identifier: MIT
"""Where the nodes of a tabulated axis are, and what its two ends do: the kinds of axes beside the uniform one.

Each has nodes, a control width around every one, and the conductance of the walls: what flows out through an end for a
unit of u at the node next to it, with a = 1. The operator balances, in the control width of a node, what flows through
the links to its neighbours, 1/gap for a unit of difference, and through the walls; so it is symmetric.

Along a radius (`poisson.mesh.system`) a control width is ∫ r^p dr, and what flows has an area r^p, taken where control
widths meet. At r = 0 that is zero: nothing flows there, and there is no face.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from poisson.mesh.boundary import Kind, Rule
from poisson.mesh.grid import MAX_SPACING, MIN_SPACING

Values = NDArray[np.float64]

FREE = (Kind.NEUMANN, Kind.NEUMANN)

PLACEMENTS: dict[str, type[Placement]] = {}
"""The kinds of placements by their words, which each enters for itself."""


class Placement(ABC):
    """Nodes in ascending order along an axis; two are equal that have the same kind, marks and ends.

    `marks`: what places the nodes, in ascending order and in L: the first and the last one are the ends of the axis.
    `kinds`: the conditions at the lower and the upper end; in a problem those of its faces. `alpha`: α of each end that
    has a Robin condition, over the coefficient a, in 1/L; 0 for another. `power`: p of a radius, 0 of another axis.
    `points` (array of shape (n,)): coordinates of the nodes, in L. `widths` (array of shape (n,)): their control
    widths, in L^(1 + p). `rules`: how the operator goes on beyond each end. `walls`: the conductance of each end by
    area, in 1/L. Raises `ValueError` if there are fewer than 3 nodes, the marks do not ascend, are not finite, or lie
    too close or too far apart for float64, only one end is periodic, α is negative, not finite, or that of another kind
    than Robin, or a radius is negative, periodic, or has a condition at r = 0.
    """

    word: str
    """The key of its marks where a user gives an axis."""
    meaning: str
    """The marks, in words."""
    on_faces: bool
    """Whether the nodes next to the ends lie on them."""
    points: Values
    widths: Values
    edges: Values
    """Where control widths meet, with both ends of the axis; of a radius only."""
    rules: tuple[Rule, Rule]
    walls: tuple[float, float]
    even = False
    """Whether a transform makes the operator diagonal, because all cells are alike and no wall is half open."""

    def __init_subclass__(cls) -> None:
        if "word" in vars(cls):
            PLACEMENTS[cls.word] = cls

    def __init__(
        self,
        marks: Sequence[float] | Values,
        kinds: tuple[Kind, Kind] = FREE,
        alpha: tuple[float, float] = (0.0, 0.0),
        power: int = 0,
    ) -> None:
        self.marks = np.array(marks, dtype=np.float64)
        self.kinds, self.alpha, self.power = kinds, alpha, power
        if not np.all(np.isfinite(self.marks)):
            raise ValueError("the places along an axis must be finite")
        for first in np.flatnonzero(np.diff(self.marks) <= 0.0):
            one, other = self.marks[first : first + 2]
            raise ValueError(f"{other:g} after {one:g}; the places along an axis must ascend")
        with np.errstate(over="ignore"):
            gaps = np.diff(self.marks)
        if gaps.size and not (gaps.min() > MIN_SPACING and gaps.max() < MAX_SPACING):
            raise ValueError(
                f"places from {gaps.min():.3g} to {gaps.max():.3g} apart; allowed: more than {MIN_SPACING} and less "
                f"than {MAX_SPACING}"
            )
        if kinds[0].wraps != kinds[1].wraps:
            raise ValueError("an axis is periodic at both ends or at none")
        for kind, value in zip(kinds, alpha, strict=True):
            if not 0.0 <= value < math.inf or (value and not kind.takes_alpha):
                raise ValueError(f"alpha = {value} on a {kind.value} end; allowed: values >= 0 on a robin end")
        if power and ((self.marks.size and self.marks[0] < 0.0) or self.wraps):
            raise ValueError(f"a radius from {self.marks[0]:g}; allowed: from 0 or more, and not periodic")
        if power and self.marks.size and self.marks[0] == 0.0:
            if kinds[0] not in (Kind.AXIS, Kind.NEUMANN):
                raise ValueError(f"{kinds[0].value} at r = 0; allowed: no condition, because there is no face")
            self.kinds = Kind.AXIS, kinds[1]
        elif Kind.AXIS in kinds:
            raise ValueError("no condition at an end; only a radius that begins at 0 needs none there")
        self.points = self._points()
        if self.points.size < 3:
            raise ValueError(f"an axis of {self.points.size} {self.word}; at least 3 are needed")
        self._divide()

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, Placement) or type(other) is not type(self):
            return False
        return (self.kinds, self.alpha, self.power) == (other.kinds, other.alpha, other.power) and np.array_equal(
            self.marks, other.marks
        )

    def __hash__(self) -> int:
        return hash((type(self), self.kinds, self.alpha, self.marks.size, self.ends))

    @property
    def ends(self) -> tuple[float, float]:
        """Where the axis begins and ends, in L."""
        return float(self.marks[0]), float(self.marks[-1])

    @property
    def wraps(self) -> bool:
        return self.kinds[0].wraps

    @property
    def length(self) -> float:
        """The length of the axis, in L: the period if it has one."""
        return float(self.marks[-1] - self.marks[0])

    @property
    def gaps(self) -> Values:
        """From each node to the next, in L; with that across the ends where the axis wraps."""
        gaps = np.diff(self.points, append=self.points[0] + self.length) if self.wraps else np.diff(self.points)
        return np.full_like(gaps, self.widths[0]) if self.even else gaps

    @property
    def areas(self) -> tuple[float, float]:
        """The area of each end, in L^p."""
        return float(self.marks[0]) ** self.power, float(self.marks[-1]) ** self.power

    @property
    def sections(self) -> Values:
        """The area that each link goes through, in L^p, in the order of `gaps`."""
        return self.edges[1:-1] ** self.power if self.power else np.ones_like(self.gaps)

    @property
    def measure(self) -> float:
        """The sum of the control widths, fixed ends halved, in L^(1 + p)."""
        return float(_integral(self.marks[[0]], self.marks[[-1]], self.power)[0]) if self.power else self.length

    def scaled(self, factor: float) -> Placement:
        """The placement with all lengths times a factor, and α over it."""
        lower, upper = self.alpha
        return type(self)(factor * self.marks, self.kinds, (lower / factor, upper / factor), self.power)

    def facing(self, kinds: tuple[Kind, Kind]) -> Placement:
        """The same nodes with other conditions at the ends, and no α."""
        return type(self)(self.marks, kinds, power=self.power)

    def resized(self, nodes: int) -> Placement:
        """Other nodes between the same ends: the marks lie evenly among those of this one, counted, not measured."""
        intervals = nodes if self.wraps or not self.on_faces else nodes - 1
        place = np.linspace(0.0, self.marks.size - 1.0, intervals + 1)
        marks = np.interp(place, np.arange(self.marks.size), self.marks)
        return type(self)(marks, self.kinds, self.alpha, self.power)

    @property
    def regular(self) -> bool:
        """Whether the marks are equally far apart, but for rounding."""
        even = np.linspace(*self.ends, self.marks.size)
        return bool(np.all(np.abs(self.marks - even) <= 4.0 * np.spacing(np.abs(even).max())))

    def extended(self, nodes: int) -> Placement:
        """With so many nodes more above, the marks of regular ones going on, and no condition at the upper end."""
        gap = self.length / (self.marks.size - 1)
        marks = np.concatenate([self.marks, self.marks[-1] + gap * np.arange(1, nodes + 1)])
        return type(self)(marks, (self.kinds[0], Kind.NEUMANN), (self.alpha[0], 0.0), self.power)

    @abstractmethod
    def _points(self) -> Values:
        """The nodes that the marks place."""

    @abstractmethod
    def _divide(self) -> None:
        """Set the control widths, with their edges, the rules and the walls."""

    @abstractmethod
    def beyond(self, points: Values, upper: bool) -> Values:
        """u at points between an end and the node next to it, for a unit of u at that node and no data on the face."""


class Nodes(Placement):
    """Stretched nodes with one on each face, where u is fixed or the control width is halved.

    The marks are the nodes; if the axis is periodic, the last one repeats the first and is no node.
    """

    word, meaning = "nodes", "coordinates"
    on_faces = True

    def _divide(self) -> None:
        gaps = self.gaps
        if self.wraps:
            self.widths = (gaps + np.roll(gaps, 1)) / 2.0
        else:
            self.widths = np.concatenate([gaps[:1], gaps[:-1] + gaps[1:], gaps[-1:]]) / 2.0
            if self.power:
                middles = (self.marks[:-1] + self.marks[1:]) / 2.0
                self.edges = np.concatenate([self.marks[:1], middles, self.marks[-1:]])
                self.widths = _integral(self.edges[:-1], self.edges[1:], self.power)
            for end, kind in zip((0, -1), self.kinds, strict=True):
                if kind.rule is Rule.FIXED:
                    self.widths[end] *= 2.0
        self.rules = self.kinds[0].rule, self.kinds[1].rule
        self.walls = self.alpha

    def _points(self) -> Values:
        return self.marks[:-1] if self.wraps else self.marks

    def beyond(self, points: Values, upper: bool) -> Values:
        return np.ones_like(points)


class Cells(Placement):
    """The centres of cells, so that the faces lie half a cell away from the nodes. At an open end the node is fixed.

    The marks are the boundaries of the cells.
    """

    word, meaning = "cells", "their boundaries"
    on_faces = False

    def _divide(self) -> None:
        self.even, self.edges = self.regular and self.alpha == (0, 0) and not self.power, self.marks
        self.widths = np.full_like(self.points, self.length / self.points.size) if self.even else np.diff(self.marks)
        self.rules = self._rule(0), self._rule(1)
        distances = self.widths[0] / 2.0, self.widths[-1] / 2.0
        self.walls = self._wall(0, float(distances[0])), self._wall(1, float(distances[1]))
        if self.power:
            self.widths = _integral(self.edges[:-1], self.edges[1:], self.power)

    def _points(self) -> Values:
        return np.asarray((self.marks[:-1] + self.marks[1:]) / 2.0)

    def _rule(self, end: int) -> Rule:
        kind = self.kinds[end]
        return Rule.MIRROR if kind.has_data else kind.rule

    def _wall(self, end: int, distance: float) -> float:
        """The half cell and what the face absorbs, one behind the other."""
        if self.rules[end] is Rule.MIRROR and self.kinds[end].fixes:
            return 1.0 / distance
        return self.alpha[end] / (1.0 + self.alpha[end] * distance)

    def beyond(self, points: Values, upper: bool) -> Values:
        end, node = (self.marks[-1], self.points[-1]) if upper else (self.marks[0], self.points[0])
        distances, distance = np.abs(points - end), abs(node - end)
        # u is linear, and at the face a ∂u/∂n = −αu.
        return np.asarray(1.0 + self.walls[upper] * (distances - distance))


def _integral(lower: Values, upper: Values, power: int) -> Values:
    """∫ r^p dr between radii, without cancellation."""
    total = sum((lower**n * upper ** (power - n) for n in range(power + 1)), start=np.zeros_like(lower))
    return np.asarray((upper - lower) * total / (power + 1))
