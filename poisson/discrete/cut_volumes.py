# SPDX-License-Identifier: MIT
"""Control volumes that the surface of a body cuts: how much of each, and of each of its faces, is open.

A level set, positive outside of the body, is known at the corners of the control volumes. In the simplices between
corners it is linear, and lengths, areas and volumes of what is open there are exact, also with the weight r around an
axis; a square or a cube is divided along each of its diagonals, and the mean of all divisions taken, so that mirror
images have mirrored numbers. The surface in a control volume is what closes its open faces (Gauss's theorem), to
rounding.
"""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from poisson.discrete.beside import Sparse
from poisson.mesh.axis import Axis
from poisson.mesh.grid import slabs, true_at
from poisson.mesh.lattice import Lattice
from poisson.mesh.system import CARTESIAN

Values = NDArray[np.float64]

LEAST = 1e-6
"""The part of a control volume that is open at least; where less is, it counts as closed."""


def corners(axis: Axis) -> Values:
    """Where the control widths of the nodes of a whole axis begin and end, shape ``(n + 1,)``, in L.

    Where the axis wraps, the first one may lie before its start.
    """
    if axis.placement is not None and not axis.placement.on_faces:
        return axis.placement.marks
    points, gaps = axis.coordinates, axis.gaps
    between = points + (np.append(gaps, 0.0)[: points.size] / 2.0)
    return np.concatenate([[points[0] - (gaps[-1] / 2.0 if axis.wraps else 0.0)], between])


SLAB = 1 << 20
"""Nodes whose control volumes are looked at once."""


@dataclass(frozen=True)
class Piece:
    """The level of a body at the corners of some control volumes.

    `first`: the index of the first corner. `values`: of the shape of the corners. `body`: its number.
    """

    first: tuple[int, ...]
    values: Values
    body: int = 1


@dataclass(frozen=True)
class CutVolumes:
    """The open parts of the control volumes of a lattice, in the order of its arrays but for `faces`.

    `volumes`: the open part of each, from 0 to 1. `faces`: for each axis, x first, the open part of the faces across
    it, one more along that axis than nodes. `cut`: the index of the volumes with a piece of the surface. `surface`: its
    area vectors, x first, that point into the body, in L^(d−1); shape ``(cuts, d)``. `centres`: where, in L. `body`:
    the number of the body whose level is the least at a corner.
    """

    volumes: Sparse
    faces: tuple[Sparse, ...]
    cut: tuple[NDArray[np.int64], ...]
    surface: Values
    centres: Values
    body: NDArray[np.int64]

    @property
    def areas(self) -> Values:
        """The areas of the pieces of the surface."""
        return np.asarray(np.sqrt((self.surface**2).sum(axis=1)))

    @property
    def normals(self) -> Values:
        """The directions of the pieces of the surface, into the body."""
        return np.asarray(self.surface / self.areas[:, np.newaxis])

    def links(self, lattice: Lattice, axis: int) -> Sparse:
        """The open part of the faces that the links along an axis go through, as `Coefficients.links` has them."""
        faces, place, line = self.faces[axis], lattice.array_axis(axis), lattice.axes[axis]
        numbers = np.unravel_index(faces.nodes, faces.shape)
        upper = numbers[place] > 0
        last = np.zeros_like(upper)
        if not line.wraps:  # the last link repeats the one before it
            upper &= numbers[place] < line.nodes
            last = upper & (numbers[place] == line.nodes - 1)
        at = [np.concatenate([part[upper] - (axis == place), part[last]]) for axis, part in enumerate(numbers)]
        values = np.concatenate([faces.values[upper], faces.values[last]])
        return Sparse.least(np.ravel_multi_index(tuple(at), lattice.array_shape), values, lattice.array_shape)

    def closing(self, axis: int, faces: tuple[NDArray[np.int64], ...]) -> "CutVolumes":
        """The same with some faces across an axis that are closed, too."""
        before = self.faces[axis]
        nodes = np.ravel_multi_index(faces, before.shape)
        values = np.concatenate([before.values, np.zeros(nodes.size)])
        found = list(self.faces)
        found[axis] = Sparse.least(np.concatenate([before.nodes, nodes]), values, before.shape)
        return replace(self, faces=tuple(found))

    def on_face(self, lattice: Lattice, face: int) -> Values:
        """The open part of a face of the box at each node next to it, without that axis."""
        faces, place = self.faces[face // 2], lattice.array_axis(face // 2)
        end = (0, 1) if face % 2 == 0 else (faces.shape[place] - 1, faces.shape[place])
        block = [(0, count) for count in faces.shape]
        block[place] = end
        return faces.on(tuple(block)).squeeze(place)


def cut_volumes(lattice: Lattice, pieces: Sequence[Piece], closed: NDArray[np.int64] | None = None) -> CutVolumes:
    """The parts of a whole lattice that the set where a level is positive leaves open.

    `pieces`: the level at the `corners`, in the order of an array, with one entry more than nodes along each axis; the
    first and the last are alike where it wraps. Of several the least counts, and where there is none all is open.
    `closed`: nodes whose whole volume is closed beside.
    """
    lines, around = [corners(axis) for axis in lattice.axes], lattice.system != CARTESIAN
    dimension, shape = lattice.dimension, lattice.array_shape
    cut, shut, beside, body = _looked_at(shape, pieces)
    tilts = np.diff(lines[0]) / (lines[0][1:] + lines[0][:-1]) if around else None
    part = _of_cube(beside, None if tilts is None else tilts[cut[-1]])
    inside = part >= LEAST
    if closed is not None:
        inside &= ~np.isin(np.ravel_multi_index(cut, shape), closed)
        shut = tuple(np.concatenate(pair) for pair in zip(shut, np.unravel_index(closed, shape), strict=True))
    lost = tuple(np.concatenate([index[~inside], more]) for index, more in zip(cut, shut, strict=True))
    cut, beside, body, part = tuple(index[inside] for index in cut), beside[inside], body[inside], part[inside]
    every = tuple(np.concatenate(pair) for pair in zip(cut, lost, strict=True))
    none = np.zeros(lost[0].size)
    volumes = Sparse.least(np.ravel_multi_index(every, shape), np.concatenate([part, none]), shape)
    surface, centres = np.empty((cut[0].size, dimension)), np.empty((cut[0].size, dimension))
    middles, faces = _middles(beside), []
    tilt = None if tilts is None else tilts[cut[-1]]
    for axis, line in enumerate(lines):
        place = lattice.array_axis(axis)
        of_upper = (np.arange(beside.shape[1]) >> (dimension - 1 - place)) % 2 == 1
        weighted = tilt if axis and axis != lattice.angle else None  # across r it is the same, across phi there is none
        lower, upper = (_of_cube(beside[:, which], weighted) for which in (~of_upper, of_upper))
        others = [each for each in range(dimension) if each != axis]
        radial = around and axis != lattice.angle
        spans = [np.diff(lines[each] ** 2 / 2.0 if radial and not each else lines[each]) for each in others]
        area = math.prod(span[cut[lattice.array_axis(each)]] for span, each in zip(spans, others, strict=True))
        surface[:, axis] = (lower - upper) * area
        at = cut[place]
        centres[:, axis] = line[at] + middles[:, place] * (line[at + 1] - line[at])
        numbers = [np.concatenate([index, index + (span == place)]) for span, index in enumerate(every)]
        values = np.concatenate([lower, none, upper, none])
        if lattice.axes[axis].wraps:
            end = line.size - 1
            turned = (numbers[place] == 0) | (numbers[place] == end)
            values = np.concatenate([values, values[turned]])
            again = [index[turned] for index in numbers]
            again[place] = end - again[place]
            numbers = [np.concatenate(pair) for pair in zip(numbers, again, strict=True)]
        more = tuple(count + (span == place) for span, count in enumerate(shape))
        faces.append(Sparse.least(np.ravel_multi_index(tuple(numbers), more), values, more))
    if around:
        surface[:, 0] *= centres[:, 0]
    used = (surface != 0.0).any(axis=1)
    cut = tuple(index[used] for index in cut)
    return CutVolumes(volumes, tuple(faces), cut, surface[used], centres[used], body[used])


def _looked_at(shape: tuple[int, ...], pieces: Sequence[Piece]) -> tuple[Any, Any, Values, NDArray[np.int64]]:
    """The control volumes with a part that is not open.

    Returns: `cut`: the index of those of which a part is open. `shut`: of the others. `beside`: the level at the
    corners of the first, shape ``(cuts, 2**axes)``; the first axis is that of the highest bit. `body`: which body has
    the least of these.
    """
    steps = list(np.ndindex(*(2,) * len(shape)))
    found: list[tuple[Any, ...]] = []
    for start, stop in slabs(shape, SLAB):
        level = np.full((stop - start + 1, *(count + 1 for count in shape[1:])), np.inf)
        number = np.zeros(level.shape, dtype=np.int16)
        for piece in pieces:
            low, high = max(piece.first[0], start), min(piece.first[0] + len(piece.values), stop + 1)
            if low < high:
                rest = zip(piece.first[1:], piece.values.shape[1:], strict=True)
                here = (slice(low - start, high - start), *(slice(first, first + count) for first, count in rest))
                values = piece.values[low - piece.first[0] : high - piece.first[0]]
                nearer = values < level[here]
                np.copyto(level[here], values, where=nearer)
                number[here][nearer] = piece.body
        every = some = level > 0.0
        if every.all():
            continue
        for span in range(len(shape)):
            low_, high_ = ((*(slice(None),) * span, each) for each in (slice(-1), slice(1, None)))
            every, some = every[low_] & every[high_], some[low_] | some[high_]
        cut, shut = true_at(some ^ every), true_at(~some)
        places = [tuple(map(np.add, cut, step)) for step in steps]
        beside = np.stack([level[place] for place in places], axis=-1)
        which = np.stack([number[place] for place in places], axis=-1)
        nearest = np.take_along_axis(which, beside.argmin(axis=1)[:, np.newaxis], axis=1)[:, 0]
        found.append(((cut[0] + start, *cut[1:]), (shut[0] + start, *shut[1:]), beside, nearest.astype(np.int64)))
    if not found:
        nothing = (np.zeros(0, dtype=np.int64),) * len(shape)
        return nothing, nothing, np.zeros((0, len(steps))), nothing[0]
    cuts, shuts, levels, bodies = zip(*found, strict=True)
    cut, shut = (tuple(map(np.concatenate, zip(*each, strict=True))) for each in (cuts, shuts))
    return cut, shut, np.concatenate(levels), np.concatenate(bodies)


def _of_cube(values: Values, tilt: Values | None = None) -> Values:
    """The part where a function is positive of lines, squares or cubes, from its values at their corners.

    `tilt`: the weight r along the last axis goes from 1 − tilt to 1 + tilt; without it there is none.
    """
    corner_values = np.ascontiguousarray(values.T)
    count, cubes = corner_values.shape
    dimension = count.bit_length() - 1
    ends = None if tilt is None else (1.0 - tilt, 1.0 + tilt)
    total, divisions = np.zeros(cubes), 0
    for flip in range(max(1, count // 2)):
        for order in itertools.permutations(range(dimension)):
            path = [corner ^ flip for corner in itertools.accumulate((1 << bit for bit in order), initial=0)]
            weights = ends and [ends[corner & 1] for corner in path]
            total += _of_simplex([corner_values[corner] for corner in path], weights)
            divisions += 1
    return np.where((values > 0.0).all(axis=1), 1.0, total / divisions)


EXCHANGES = {1: (), 2: ((0, 1),), 3: ((0, 1), (1, 2), (0, 1)), 4: ((0, 1), (2, 3), (0, 2), (1, 3), (1, 2))}
"""By the number of values: which of them to exchange in turn, where the first is less than the second, to sort them."""


def _of_simplex(values: Sequence[Values], weights: Sequence[Values] | None) -> Values:
    """The part of simplices where a linear function is positive, from its values at their 1 to 4 corners.

    `weights`: those of the corners, between which the weight is linear; without them it is 1.
    """
    corners_, ordered, heavy = len(values), list(values), list(weights or ())
    for one, other in EXCHANGES[corners_]:
        pair = ordered[one], ordered[other]
        if heavy:
            turned, both = pair[0] < pair[1], (heavy[one], heavy[other])
            heavy[one], heavy[other] = np.where(turned, *both[::-1]), np.where(turned, *both)
        ordered[one], ordered[other] = np.maximum(*pair), np.minimum(*pair)
    positive = np.zeros(values[0].size, dtype=np.int8)
    for each in values:
        positive += each > 0.0
    found: Values = (positive == corners_) * (sum(heavy) / corners_ if heavy else 1.0)
    for count in range(1, corners_):
        which = np.flatnonzero(positive == count)
        if not which.size:
            continue
        v, w = ([each[which] for each in many] for many in (ordered, heavy))
        if count == 1:
            found[which] = _tip(v, w, 0)
        elif count == corners_ - 1:
            found[which] = (sum(w) / corners_ if w else 1.0) - _tip(v, w, corners_ - 1)
        else:  # a wedge, of three tetrahedra
            pa, pb, qa, qb = (high / (high - low) for high in v[:2] for low in v[2:])
            sizes = [pa * pb, qa * pb * (1.0 - pa), (1.0 - pb) * qa * qb]
            if w:
                at_pa, at_pb = w[0] + pa * (w[2] - w[0]), w[0] + pb * (w[3] - w[0])
                at_qa, at_qb = w[1] + qa * (w[2] - w[1]), w[1] + qb * (w[3] - w[1])
                shared = w[1] + at_pb  # corners that the three have in common
                rests = w[0] + at_pa, at_pa + at_qa, at_qa + at_qb
                sizes = [size * (shared + rest) / 4.0 for size, rest in zip(sizes, rests, strict=True)]
            found[which] = sizes[0] + sizes[1] + sizes[2]
    return found


def _tip(v: Sequence[Values], w: Sequence[Values], one: int) -> Values:
    """The part of simplices, with its weight, that the surface cuts off at one corner: a simplex, too."""
    rest = [corner for corner in range(len(v)) if corner != one]
    parts = [v[one] / (v[one] - v[corner]) for corner in rest]
    if not w:
        return np.asarray(math.prod(parts))
    more = sum(part * (w[corner] - w[one]) for part, corner in zip(parts, rest, strict=True))
    return np.asarray(math.prod(parts) * (w[one] + more / len(v)))


def _middles(values: Values) -> Values:
    """The mean of the places where the edges of cubes are cut, from 0 to 1 along each axis of an array."""
    count = values.shape[1]
    dimension = count.bit_length() - 1
    total, cuts = np.zeros((len(values), dimension)), np.zeros(len(values))
    for place in range(dimension):
        bit = 1 << (dimension - 1 - place)
        for corner in range(count):
            if corner & bit:
                continue
            one, other = values[:, corner], values[:, corner | bit]
            crossed = (one > 0.0) != (other > 0.0)
            at = np.divide(one, one - other, out=np.zeros_like(one), where=crossed)
            for axis in range(dimension):
                share = at if axis == place else float(bool(corner & (1 << (dimension - 1 - axis))))
                total[:, axis] += np.where(crossed, share, 0.0)
            cuts += crossed
    return total / np.maximum(cuts, 1.0)[:, np.newaxis]
