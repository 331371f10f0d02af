# SPDX-License-Identifier: MIT
"""Where the surfaces of bodies cut the links between nodes, and which nodes are inside.

Levels are evaluated once at the nodes. A link is cut where the sign of a level changes along it, and also between two
nodes outside where the level falls below zero between them, as that of a thin plate does; the places are found to
rounding where the level is a function, and by linear interpolation where it is an array.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from poisson.mesh.axis import array_axis
from poisson.mesh.grid import slabs, true_at
from poisson.problem.bodies import DIELECTRIC, HELD, keys_of
from poisson.problem.expressions import Expression
from poisson.problem.fields import ArrayField, FieldFile, stored
from poisson.problem.sampling import evaluated, require_values

if TYPE_CHECKING:
    from poisson.mesh.lattice import Lattice
    from poisson.problem.bodies import Body, Inside

TINY = 1e-4
"""A node that is nearer to a surface than this part of a link is on it: the coefficient of a shorter link would be so
much larger than the others that rounding shows, and the error, this part of a link, is below that of the differences.
"""

SLAB = 1 << 21
"""Nodes at which a level is evaluated at once."""

MANY = 1 << 15
"""Nodes of a lattice of which a formula is bounded in parts before it is evaluated at each."""

PARTS = 8
"""Parts along each axis in which it is."""

STEPS = 80
"""More halvings than an interval of float64 has digits."""

EPS = float(np.finfo(np.float64).eps)
GOLDEN = 0.6180339887498949

Values = NDArray[np.float64]
Indices = NDArray[np.int64]
Ends = tuple[NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any]]
"""Ends of links: (node, axis, side, theta, body)."""
Along = Callable[[Indices, Values], Values]
"""The level at places on links, given their positions among those that are looked at, and the part of each."""


@dataclass(frozen=True)
class Cuts:
    """The ends of links that a surface cuts, as their nodes outside of all bodies see them, in the order of the nodes.

    `inside`: of the shape of the backends' arrays: the number of the body that each node is in or on, from 1; 0
    outside. `node`: the node of each end, in C order. `axis`, `side`: the axis of the link, and whether it leads down
    (0) or up (1). `theta`: where the surface is, as a part of the link: `TINY` to 1. `body`: the number of the body,
    from 1. `places`: the coordinates of the points of the surface, one array for each axis of the problem.
    """

    inside: NDArray[np.int16]
    node: Indices
    axis: NDArray[np.int8]
    side: NDArray[np.int8]
    theta: Values
    body: NDArray[np.int16]
    places: tuple[Values, ...]


def cuts_of(lattice: Lattice, bodies: Sequence[Body], kinds: Sequence[str] = HELD, *, exact: bool = True) -> Cuts:
    """The cuts of the links of a whole lattice by the bodies of some kinds, whose numbers are those among all.

    `exact`: whether places where a level changes its sign are wanted, and not only that it does. Raises `CaseError` if
    a level is not finite at a node, or cannot be evaluated; the line names the body and the place.
    """
    arrays = lattice.of_arrays
    inside = np.zeros(arrays.array_shape, dtype=np.int16)
    families: dict[Any, Family] = {}
    for number, body in enumerate(bodies, start=1):
        if body.kind not in kinds:
            continue
        level = Level(lattice, keys_of(body, number)[0], body.inside)
        level.exact = exact
        families.setdefault(level.kin, Family()).join(level, inside, number)
    found = [ends for family in families.values() for ends in family.ends()]
    node, axis, side, theta, body_of = (
        np.concatenate([part[column] for part in found] or [np.zeros(0)]).astype(kind)
        for column, kind in enumerate((np.int64, np.int8, np.int8, np.float64, np.int16))
    )
    kept, numbers = inside.ravel()[node] == 0, np.unravel_index(node, inside.shape)
    for along, line in enumerate(lattice.axes):
        at, fixed = numbers[arrays.array_axis(along)], np.ones(line.nodes, dtype=bool)
        fixed[line.free] = False
        # A node on a Dirichlet face has no equation, but a dielectric counts on its links inside.
        kept &= ~(fixed[at] & ((axis == along) & (side == (at > 0)) if DIELECTRIC in kinds else True))
    order = np.lexsort((body_of, theta, side, axis, node))
    order = order[kept[order]]
    # Of several surfaces on a link the nearest counts.
    first = np.ones(order.size, dtype=bool)
    ends = np.stack([node, axis, side])[:, order]
    first[1:] = (ends[:, 1:] != ends[:, :-1]).any(axis=0)
    node, axis, side, theta, body_of = (values[order[first]] for values in (node, axis, side, theta, body_of))
    theta = np.maximum(theta, TINY)
    return Cuts(inside, node, axis, side, theta, body_of, places_of(lattice, node, axis, side, theta))


def coordinates_of(lattice: Lattice, nodes: Indices) -> list[Values]:
    """The coordinates of some nodes, given by their places in C order, along each axis."""
    arrays = lattice.of_arrays
    numbers = np.unravel_index(nodes, arrays.array_shape)
    return [line.coordinates[numbers[arrays.array_axis(axis)]] for axis, line in enumerate(lattice.axes)]


def places_of(lattice: Lattice, node: Indices, axis: Any, side: Any, theta: Values) -> tuple[Values, ...]:
    """The coordinates at parts θ of links, counted from some nodes."""
    found = coordinates_of(lattice, node)
    numbers = np.unravel_index(node, lattice.of_arrays.array_shape)
    for number, line in enumerate(lattice.axes):
        these = np.flatnonzero(axis == number)
        up, at = side[these] == 1, numbers[lattice.of_arrays.array_axis(number)][these]
        gaps = line.gaps[np.where(up, line.link_numbers[1][at], line.link_numbers[0][at])]
        place = found[number][these] + np.where(up, theta[these], -theta[these]) * gaps
        if line.wraps:
            low, high = line.interval
            place = np.where(place < low, place + (high - low), place)
        else:  # beyond a mirror is what is before it
            low, high = line.coordinates[0], line.coordinates[-1]
            place = high - abs(high - (low + abs(place - low)))
        found[number][these] = place
    return tuple(found)


class Level:
    """The level of a body on a lattice."""

    def __init__(self, lattice: Lattice, key: str, inside: Inside) -> None:
        self.lattice, self.arrays, self.key, self.inside = lattice, lattice.of_arrays, key, inside
        self.values: Values | None = None
        self.exact = True
        if isinstance(inside.level, (ArrayField, FieldFile)):
            every = [(0, count) for count in lattice.array_shape]
            values = np.asarray(stored(inside.level, np, every), dtype=np.float64).reshape(self.arrays.array_shape)
            masked = inside.mask and isinstance(inside.level, FieldFile)
            self.values = np.where(values, -1.0, 1.0) if masked else values
        # The images of a shape on a periodic axis are inside, too.
        self.shifts = []
        self.ranges = []
        for axis, line in enumerate(lattice.axes):
            low, high = line.interval
            bounds = inside.bounds[axis] if inside.bounds else (-np.inf, np.inf)
            beyond = line.wraps and inside.bounds is not None and (bounds[0] <= low or bounds[1] >= high)
            self.shifts.append((-1.0, 0.0, 1.0) if beyond else (0.0,))
            at = line.coordinates
            start, stop = (int(place) + more for place, more in zip(np.searchsorted(at, bounds), (-2, 2), strict=True))
            whole = line.wraps and (start <= 0 or stop >= line.nodes)
            self.ranges.append((0, line.nodes) if whole else (max(0, start), min(line.nodes, stop)))
        self.ranges += [(0, 1)] * (self.arrays.dimension - lattice.dimension)
        if isinstance(inside.level, Expression) and inside.bounds is None and self.arrays.nodes > MANY:
            self._narrow(inside.level)

    def _narrow(self, level: Expression) -> None:
        """Make the ranges those of the nodes near which the level may be no more than zero."""
        from poisson.problem.expressions.ranges import bounds

        lines = self.lattice.axes
        while True:
            starts, low, high = [], [], []
            for axis, (line, (start, stop)) in enumerate(zip(lines, self.ranges, strict=False)):
                edges = np.unique(np.linspace(start, stop, PARTS + 1).astype(int))
                starts.append(edges)
                gap = float(line.gaps.max(initial=0.0))
                low.append(self.lattice.along(axis, line.coordinates[edges[:-1]] - gap))
                high.append(self.lattice.along(axis, line.coordinates[edges[1:] - 1] + gap))
            least, most = bounds(level.program, low, high)
            near = np.broadcast_to(~((least > 0.0) & (most < np.inf)), [edges.size - 1 for edges in starts[::-1]])
            before, self.ranges = self.ranges, list(self.ranges)
            for axis, (line, edges) in enumerate(zip(lines, starts, strict=True)):
                others = tuple(place for place in range(near.ndim) if place != self.lattice.array_axis(axis))
                these = np.flatnonzero(near.any(axis=others))
                start, stop = (edges[these[0]] - 2, edges[these[-1] + 1] + 2) if these.size else (0, 0)
                whole = line.wraps and these.size and (start <= 0 or stop >= line.nodes)
                self.ranges[axis] = (0, line.nodes) if whole else (max(0, int(start)), min(line.nodes, int(stop)))
            nodes = [math.prod(stop - start for start, stop in ranges) for ranges in (before, self.ranges)]
            if nodes[1] > 0.7 * nodes[0] or nodes[1] <= MANY // 8:
                break

    def blocks(self) -> Iterator[list[tuple[int, int]]]:
        """Ranges of nodes along each axis of an array: those that may be inside, and the ones beside them."""
        ranges = self.ranges[::-1]
        if any(start >= stop for start, stop in ranges):
            return
        shape = tuple(stop - start for start, stop in ranges)
        for start, stop in slabs(shape, SLAB):
            yield [(ranges[0][0] + start, ranges[0][0] + stop), *ranges[1:]]

    @property
    def kin(self) -> Any:
        """A key that levels have in common if they are one formula but for its numbers."""
        formula = self.inside.level
        if not isinstance(formula, Expression):
            return id(self)
        return tuple(self.shifts), tuple(step[:2] for step in formula.program)

    def at(self, places: Sequence[Any], formula: Any = None) -> Values:
        """The level at points; truth values are −1 inside and 1 outside. `formula`: in the place of its own."""
        least: Any = None
        for shift in np.ndindex(*map(len, self.shifts)):
            moved = [
                place + self.shifts[axis][number] * (line.interval[1] - line.interval[0])
                for axis, (place, number, line) in enumerate(zip(places, shift, self.lattice.axes, strict=True))
            ]
            values = evaluated(self.key, formula or self.inside.level, np, moved, ())
            if getattr(values, "dtype", None) == np.bool_:
                values = np.where(values, -1.0, 1.0)
            least = values if least is None else np.minimum(least, values)
        found: Values = np.asarray(least, dtype=np.float64)
        return found

    def nodes(self, block: Sequence[tuple[int, int]]) -> Values:
        """The level at the nodes of a block, with one more at the end of each axis where there is one, or it wraps."""
        places, numbers = [], []
        for axis, (line, (start, stop)) in enumerate(zip(self.arrays.axes, block[::-1], strict=True)):
            more = stop < line.nodes or (line.wraps and line.nodes > 1)
            index = np.arange(start, stop + more) % line.nodes
            numbers.append(index)
            if axis < self.lattice.dimension:
                shape = [1] * len(block)
                shape[array_axis(axis, len(block))] = -1
                places.append(line.coordinates[index].reshape(shape))
        if self.values is not None:
            values = self.values[np.ix_(*numbers[::-1])]
        else:
            values = np.empty([index.size for index in numbers[::-1]])
            values[...] = self.at(places)
        require_values(np, self.key, values, places, None, self.lattice.names)
        return values


class Family:
    """Levels that are one formula but for its numbers, as those of many spheres are, and the links that they may cut.

    The links of all are looked at together: a formula takes as long for few points as for many.
    """

    def __init__(self) -> None:
        self.levels: list[Level] = []
        self.bodies: list[int] = []
        self.parts: tuple[list[list[Any]], list[list[Any]]] = ([], [])

    def join(self, level: Level, inside: NDArray[np.int16], number: int) -> None:
        """Mark the nodes inside a level, that of the body of a number, and note the links that it may cut."""
        for block in level.blocks():
            g = level.nodes(block)
            own = tuple(slice(0, stop - start) for start, stop in block)
            if not level.inside.mask:
                _ground(g)
            free = inside[tuple(slice(*ends) for ends in block)]
            free[(g[own] <= 0.0) & (free == 0)] = number
            for axis in range(level.lattice.dimension):
                along = level.arrays.array_axis(axis)
                links = min(own[along].stop, g.shape[along] - 1)
                low, high = (g[(*own[:along], slice(first, first + links), *own[along + 1 :])] for first in (0, 1))
                cut = true_at((low <= 0.0) != (high <= 0.0))
                thin = _suspects(low, high, along) if level.values is None else tuple(part[:0] for part in cut)
                for these, index in zip(self.parts, (cut, thin), strict=True):
                    of = np.full(index[0].size, len(self.levels))
                    numbers = [part + start for part, (start, _) in zip(index, block, strict=True)]
                    these.append([of, np.full(of.size, axis), low[index], high[index], *numbers])
        self.levels.append(level)
        self.bodies.append(number)

    @cached_property
    def varied(self) -> dict[int, Any]:
        """The numbers in which the formulas differ, for each level, by the steps of the program."""
        if len(self.levels) == 1:
            return {}
        steps = zip(*(level.inside.level.program for level in self.levels), strict=True)  # type: ignore[union-attr]
        values = {position: np.array([step.value for step in each]) for position, each in enumerate(steps)}
        return {position: each for position, each in values.items() if np.ptp(each) > 0.0}

    def at(self, of: NDArray[Any], places: Sequence[Values]) -> Values:
        """The level of the given number in the family at each of some points."""
        first = self.levels[0]
        if not self.varied:
            return first.at(places)
        assert isinstance(first.inside.level, Expression)
        steps = [
            step._replace(value=self.varied[position][of]) if position in self.varied else step
            for position, step in enumerate(first.inside.level.program)
        ]
        return first.at(places, Expression(tuple(steps)))

    def ends(self) -> Iterator[Ends]:
        """The cut ends of the links."""
        for these, thin in zip(self.parts, (False, True), strict=True):
            if not these:
                continue
            of, axes, low, high, *numbers = (np.concatenate(parts) for parts in zip(*these, strict=True))
            links = _Links(self, of, axes, numbers)
            if thin:
                for down, theta, chosen in links.thin(low, high):
                    yield from links.chosen(chosen).ends(down, theta)
            elif low.size:
                theta, down = links.roots(low, high), low <= 0.0
                yield from links.ends(down, np.where(down, 1.0 - theta, theta))


def _ground(g: Values) -> None:
    """Set the level of the nodes that are on the surface, but for `TINY`, to zero."""
    scale = max((float(np.abs(np.diff(g, axis=axis)).max(initial=0.0)) for axis in range(g.ndim)), default=0.0)
    near = true_at((g > 0.0) & (g <= TINY * scale))
    local = np.zeros(near[0].size)
    for axis, count in enumerate(g.shape):
        for step in (-1, 1):
            beside = list(near)
            beside[axis] = np.clip(near[axis] + step, 0, count - 1)
            local = np.maximum(local, np.abs(g[tuple(beside)] - g[near]))
    on = g[near] <= TINY * local
    g[tuple(part[on] for part in near)] = 0.0


def _suspects(low: Values, high: Values, along: int) -> tuple[NDArray[Any], ...]:
    """The links between nodes outside that are so near to a surface that it may pass between them."""
    change = np.abs(high - low)
    both = low + high
    most = float(change.max(initial=0.0))
    found = true_at((low > 0.0) & (high > 0.0) & (both <= 1.01 * most))
    steepest = np.zeros(found[0].size)
    for step in (-1, 0, 1):
        beside = list(found)
        beside[along] = np.clip(found[along] + step, 0, low.shape[along] - 1)
        steepest = np.maximum(steepest, change[tuple(beside)])
    near = both[found] <= 1.01 * steepest
    return tuple(part[near] for part in found)


class _Links:
    """Some links, given by the numbers of their levels in a family, their axes, and those of their lower nodes."""

    def __init__(self, family: Family, of: NDArray[Any], axes: NDArray[Any], numbers: Sequence[NDArray[Any]]) -> None:
        self.family, self.level, self.of, self.axes, self.numbers = family, family.levels[0], of, axes, numbers
        self.places, self.gaps = [], []
        for axis, line in enumerate(self.level.lattice.axes):
            at = numbers[self.level.arrays.array_axis(axis)]
            self.places.append(line.coordinates[at])
            self.gaps.append(np.where(axes == axis, line.gaps[np.minimum(at, line.gaps.size - 1)], 0.0))

    @property
    def fine(self) -> Values:
        """The part of each link that rounding of the coordinates is."""
        largest = max(float(np.abs(line.interval).max()) for line in self.level.lattice.axes)
        return np.asarray(2.0 * EPS * np.maximum(1.0, largest / np.add.reduce(self.gaps)))

    def chosen(self, which: NDArray[Any]) -> _Links:
        """Some of them."""
        return _Links(self.family, self.of[which], self.axes[which], [part[which] for part in self.numbers])

    def at(self, which: Indices, part: Values) -> Values:
        """The level at a part of some of them."""
        places = [place[which] + part * gap[which] for place, gap in zip(self.places, self.gaps, strict=True)]
        found: Values = self.family.at(self.of[which], places) * np.ones(part.shape)
        return found

    def roots(self, low: Values, high: Values) -> Values:
        """The part of each link at which the level changes its sign, given that at the ends."""
        if self.level.inside.mask:
            return np.asarray(low > 0.0, dtype=np.float64)
        if self.level.values is not None or not self.level.exact:
            return np.asarray(low / (low - high))
        return root(self.at, np.zeros(low.size), np.ones(low.size), low, high, self.fine)

    def thin(self, low: Values, high: Values) -> Iterator[tuple[Any, Values, Indices]]:
        """The ends of the links between whose nodes, both outside, the level falls below zero."""
        if not low.size:
            return
        within, where = _dips(self.at, low, high)
        if within.size:
            below = self.at(within, where)
            for down, start, ends in ((False, np.zeros(within.size), low), (True, np.ones(within.size), high)):
                at = partial(self._within, within)
                part = root(at, start, where, ends[within], below, self.fine[within])
                yield np.full(within.size, down), 1.0 - part if down else part, within

    def _within(self, within: Indices, which: Indices, part: Values) -> Values:
        return self.at(within[which], part)

    def ends(self, down: NDArray[np.bool_], theta: Values) -> Iterator[Ends]:
        """The ends, as (node, axis, side, theta, body), axis by axis: those whose node is the upper one lead down."""
        arrays, bodies = self.level.arrays, np.array(self.family.bodies)[self.of]
        for axis, line in enumerate(self.level.lattice.axes):
            which, along = np.flatnonzero(self.axes == axis), arrays.array_axis(axis)
            numbers, low = [part[which] for part in self.numbers], down[which]
            numbers[along] = np.where(low, (numbers[along] + 1) % line.nodes, numbers[along])
            node = np.ravel_multi_index(tuple(numbers), arrays.array_shape)
            # The link of a node on a mirror leads both ways.
            mirrored = np.zeros(node.size, dtype=bool)
            if not line.wraps and line.nodes > 1:
                lower, upper = line.couplings[:2]
                other = np.where(low, upper[numbers[along]], lower[numbers[along]])
                mirrored = (numbers[along] == np.where(low, line.nodes - 1, 0)) & (other > 0.0)
            side = np.where(low, 0, 1)
            body, part = bodies[which], theta[which]
            node, side, part, body = (
                np.concatenate([each, more])
                for each, more in (
                    (node, node[mirrored]),
                    (side, 1 - side[mirrored]),
                    (part, part[mirrored]),
                    (body, body[mirrored]),
                )
            )
            yield node, np.full(node.size, axis), side, part, body


def root(at: Along, start: Values, stop: Values, first: Values, last: Values, fine: Values) -> Values:
    """The places between two ends, at which a function has opposite signs, where it changes its sign, as `fine` so.

    Steps of inverse quadratic interpolation where these are safe, and of halving elsewhere (T. R. Chandrupatla, "A new
    hybrid quadratic/bisection algorithm for finding the zero of a nonlinear function without using derivatives",
    Advances in Engineering Software 28, 1997).
    """
    a, b, fa, fb = stop.copy(), start.copy(), last.copy(), first.copy()
    c, fc = a.copy(), fa.copy()
    found = np.where(np.abs(fa) < np.abs(fb), a, b)
    step: Any = np.clip(fa / (fa - fb), 0.01, 0.99)  # where the function would change its sign if it were linear
    left: Any = np.arange(a.size)
    for _ in range(STEPS):
        if not left.size:
            break
        place = a + step * (b - a)
        value = at(left, place)
        same = (value <= 0.0) == (fa <= 0.0)
        c, fc = np.where(same, a, b), np.where(same, fa, fb)
        b, fb = np.where(same, b, a), np.where(same, fb, fa)
        a, fa = place, value
        found[left] = np.where(np.abs(fa) < np.abs(fb), a, b)
        limit = fine / np.maximum(np.abs(b - a), EPS)
        go = (limit <= 0.5) & (value != 0.0)
        with np.errstate(all="ignore"):
            xi, phi = (a - b) / (c - b), (fa - fb) / (fc - fb)
            safe = (phi**2 < xi) & ((1.0 - phi) ** 2 < 1.0 - xi)
            inverse = fa / (fb - fa) * fc / (fb - fc) + (c - a) / (b - a) * fa / (fc - fa) * fb / (fc - fb)
        limit = np.minimum(limit, 0.5)
        step = np.clip(np.where(safe & np.isfinite(inverse), inverse, 0.5), limit, 1.0 - limit)
        left, step, a, b, c, fa, fb, fc, fine = (values[go] for values in (left, step, a, b, c, fa, fb, fc, fine))
    return found


def _dips(at: Along, low: Values, high: Values) -> tuple[Any, Any]:
    """The links along which a level that is positive at both ends falls below zero, and where: golden sections."""
    start: Any = np.zeros(low.size)
    stop: Any = np.ones(low.size)
    left: Any = np.arange(low.size)
    slope = 1.5 * (low + high)  # a level that falls this fast on both sides would just reach zero
    one, two = stop - GOLDEN, start + GOLDEN
    first, second = at(left, one), at(left, two)
    found: list[tuple[Indices, Values]] = []
    for _ in range(STEPS // 2):
        for place, value in ((one, first), (two, second)):
            found.append((left[value <= 0.0], place[value <= 0.0]))
        # What cannot fall so far on the interval that is left is given up.
        go = (np.minimum(first, second) > 0.0) & (np.minimum(first, second) <= slope[left] * (stop - start))
        left, start, stop, one, two, first, second = (
            values[go] for values in (left, start, stop, one, two, first, second)
        )
        if not left.size:
            break
        lower = first < second
        stop, start = np.where(lower, two, stop), np.where(lower, start, one)
        new = np.where(lower, stop - GOLDEN * (stop - start), start + GOLDEN * (stop - start))
        value = at(left, new)
        one, two = np.where(lower, new, two), np.where(lower, one, new)
        first, second = np.where(lower, value, second), np.where(lower, first, value)
    which, where = (np.concatenate(values) for values in zip(*found, strict=True))
    which, place = np.unique(which, return_index=True)
    return which, where[place]
