# SPDX-License-Identifier: MIT
"""Control volumes that the surface of a body cuts: how much of each, and of each of its faces, is open.

A level set, positive outside of the body, is known at the corners of the control volumes. In the simplices between
corners it is linear, and lengths, areas and volumes of what is open there are exact; a square or a cube is divided
along each of its diagonals, and the mean of all divisions taken, so that mirror images have mirrored numbers. The
surface in a control volume is what closes its open faces (Gauss's theorem), to rounding.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from poisson.mesh.axis import Axis
from poisson.mesh.lattice import Lattice

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


@dataclass(frozen=True)
class CutVolumes:
    """The open parts of the control volumes of a lattice, in the order of its arrays but for `faces`.

    `volumes`: the open part of each, from 0 to 1. `faces`: for each axis, x first, the open part of the faces across
    it, one more along that axis than nodes. `cut`: the index of the volumes with a piece of the surface. `surface`: its
    area vectors, x first, that point into the body, in L^(d−1); shape ``(cuts, d)``. `centres`: where, in L.
    """

    volumes: Values
    faces: tuple[Values, ...]
    cut: tuple[NDArray[np.int64], ...]
    surface: Values
    centres: Values

    @property
    def areas(self) -> Values:
        """The areas of the pieces of the surface."""
        return np.asarray(np.sqrt((self.surface**2).sum(axis=1)))

    @property
    def normals(self) -> Values:
        """The directions of the pieces of the surface, into the body."""
        return np.asarray(self.surface / self.areas[:, np.newaxis])

    def links(self, lattice: Lattice, axis: int) -> Values:
        """The open part of the faces that the links along an axis go through, as `Coefficients.links` has them."""
        place = lattice.array_axis(axis)
        upper = np.moveaxis(self.faces[axis], place, 0)[1:].copy()
        if not lattice.axes[axis].wraps:
            upper[-1] = upper[-2]
        return np.moveaxis(upper, 0, place)

    def on_face(self, lattice: Lattice, face: int) -> Values:
        """The open part of a face of the box at each node next to it, without that axis."""
        return np.asarray(np.take(self.faces[face // 2], -(face % 2), axis=lattice.array_axis(face // 2)))


def cut_volumes(lattice: Lattice, level: Values, closed: NDArray[np.bool_] | None = None) -> CutVolumes:
    """The parts of a whole lattice that the set where a level is positive leaves open.

    `level`: at the `corners`, in the order of an array, with one entry more than nodes along each axis; the first
    and the last are alike where it wraps. `closed`: nodes whose whole volume is closed beside.
    """
    lines = [corners(axis) for axis in lattice.axes]
    dimension = lattice.dimension
    spans = range(dimension)
    volumes, cut, beside = _open(level, spans)
    inside = volumes[cut] >= LEAST
    lost = tuple(index[~inside] for index in cut)
    if closed is not None:
        inside &= ~closed[cut]
        lost = tuple(np.concatenate(pair) for pair in zip(lost, np.nonzero(closed), strict=True))
    volumes[lost] = 0.0
    cut, beside = tuple(index[inside] for index in cut), beside[inside]
    surface, centres = np.empty((inside.sum(), dimension)), np.empty((inside.sum(), dimension))
    middles, faces = _middles(beside), []
    for axis, line in enumerate(lines):
        place = lattice.array_axis(axis)
        face = _open(level, [span for span in spans if span != place])[0]
        upper = tuple(index + (span == place) for span, index in enumerate(cut))
        others = [each for each in spans if each != axis]
        area = math.prod(np.diff(lines[each])[cut[lattice.array_axis(each)]] for each in others)
        surface[:, axis] = (face[cut] - face[upper]) * area
        at = cut[place]
        centres[:, axis] = line[at] + middles[:, place] * (line[at + 1] - line[at])
        face[lost] = face[tuple(index + (span == place) for span, index in enumerate(lost))] = 0.0
        if lattice.axes[axis].wraps:
            part = np.moveaxis(face, place, 0)
            part[0] = part[-1] = np.minimum(part[0], part[-1])
        faces.append(face)
    used = (surface != 0.0).any(axis=1)
    return CutVolumes(volumes, tuple(faces), tuple(index[used] for index in cut), surface[used], centres[used])


def _open(level: Values, spans: Sequence[int]) -> tuple[Values, tuple[NDArray[np.int64], ...], Values]:
    """The part that is open of the cells between the entries along some axes of an array.

    Returns: `part`. `cut`: the index of the cells of which a part is open and another is not. `beside`: the values at
    their corners, shape ``(cuts, 2**axes)``; the first axis is that of the highest bit.
    """
    every = some = level > 0.0
    for span in spans:
        low, high = (
            tuple(slice(up, up - 1 or None) if axis == span else slice(None) for axis in range(level.ndim))
            for up in (0, 1)
        )
        every, some = every[low] & every[high], some[low] | some[high]
    cut = np.nonzero(some ^ every)
    part = every.astype(np.float64)
    steps = itertools.product(*((0, 1) if axis in spans else (0,) for axis in range(level.ndim)))
    beside = np.stack([level[tuple(map(np.add, cut, step))] for step in steps], axis=-1)
    part[cut] = _of_cube(beside)
    return part, cut, beside


def _of_cube(values: Values) -> Values:
    """The part where a function is positive of lines, squares or cubes, from its values at their corners."""
    count = values.shape[1]
    dimension = count.bit_length() - 1
    total, divisions = np.zeros(len(values)), 0
    for flip in range(max(1, count // 2)):
        for order in itertools.permutations(range(dimension)):
            path = itertools.accumulate((1 << bit for bit in order), initial=0)
            total += _of_simplex(values[:, [corner ^ flip for corner in path]])
            divisions += 1
    return total / divisions


def _of_simplex(values: Values) -> Values:
    """The part of simplices where a linear function is positive, from its values at their 1 to 4 corners."""
    ordered = np.sort(values, axis=1)[:, ::-1]
    corners_ = values.shape[1]
    positive = (values > 0.0).sum(axis=1)
    found: Values = (positive == corners_).astype(np.float64)

    def along(high: Values, low: Values) -> Values:
        """The part of edges that is positive, from their positive end."""
        return np.asarray(high / (high - low))

    for count in range(1, corners_):
        which = positive == count
        if not which.any():
            continue
        v = ordered[which].T
        if count == 1:
            found[which] = math.prod(along(v[0], low) for low in v[1:])
        elif count == corners_ - 1:
            found[which] = 1.0 - math.prod(along(v[-1], high) for high in v[:-1])
        else:  # a wedge, of three tetrahedra
            pa, pb, qa, qb = (along(high, low) for high in v[:2] for low in v[2:])
            found[which] = pa * pb + qa * pb * (1.0 - pa) + (1.0 - pb) * qa * qb
    return found


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
