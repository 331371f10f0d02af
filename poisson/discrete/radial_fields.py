# SPDX-License-Identifier: MIT
"""The field on open faces where a radius goes on outwards, by a matrix for all charges on them and one spacing beyond.

Its entries are `poisson.discrete.radial_green` between the places of two nodes, times the control width of the charge
along r. If z is closed they come from the modes along it; if it has one open end, a wall at the other makes an image.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from poisson.discrete.face_products import image, multiply
from poisson.discrete.operator import Operator
from poisson.discrete.radial_green import Ladder, waves
from poisson.mesh.axis import Axis

Values = NDArray[np.float64]
Places = NDArray[np.int64]

CHUNK = 448
"""Waves whose chains are in memory at a time, as many as products by tiles take."""


def goes_outwards(far: Operator, faces: Sequence[int]) -> bool:
    """Whether the upper end of a radius is among some open faces."""
    placed = far.lattice.axes[0].placement
    return 1 in faces and placed is not None and placed.power > 0


@dataclass(frozen=True)
class _Rows:
    """The nodes along z, numbered from a closed end; from the lower one if both or none are closed.

    `own`: the numbers of the nodes that no data fix, in their order. `ends`: of each open face. `sign`: of the image in
    the wall at the closed end, 0 without one. `between`: 1 if the wall lies between two nodes. `mirror`: the number of
    the node on another wall that is its own image, -1 without one.
    """

    own: Places
    ends: dict[int, int]
    sign: int
    between: int
    mirror: int = -1

    @staticmethod
    def of(line: Axis, faces: Sequence[int], own: slice) -> "_Rows":
        numbers = np.arange(line.nodes)[own]
        if 2 in faces and 3 in faces:
            return _Rows(numbers, {2: 0, 3: line.nodes - 1}, 0, 0)
        wall, top = 0 if 3 in faces else 1, line.nodes - 1
        return _Rows(top - numbers if wall else numbers, {3 - wall: top}, *image(line, wall))

    def end(self, face: int, beyond: int) -> Places:
        """The number of the nodes on a face, or of those one beyond."""
        return np.array([self.ends[face] + (beyond if self.ends[face] else -beyond)])

    def distances(self, targets: Places, sources: Places) -> tuple[Places, Places]:
        """From each source to each target, and from its image."""
        return np.abs(targets[:, np.newaxis] - sources), targets[:, np.newaxis] + sources + self.between

    def of_ends(self, face: int, other: int, beyond: int) -> tuple[int, int]:
        """The distances to a face from another one, or one spacing beyond that, and from its image; one without."""
        near, far = (int(each.item()) for each in self.distances(self.end(face, 0), self.end(other, beyond)))
        return near, far if self.sign else near

    def between_all(self, table: Values, targets: Places, sources: Places) -> Values:
        """The values of a table by distance, from each source to each target, with its image."""
        near, far = self.distances(targets, sources)
        found = table[..., near]
        if self.sign:
            found += self.sign * table[..., far]
            if not self.between:
                found[..., (sources == 0) | (sources == self.mirror)] /= 2.0
        return found


class RadialFields:
    """The map from charges to the field on open faces, of which the upper end of a radius is one.

    `far`: the operator beyond them, with constant coefficients. `faces`: the open ones. `own`: the nodes along each
    axis that no data fix. `xp`: the module of the arrays. `across`: the weights, over a/h², of the neighbours of the
    last node along r, inside and beyond, in its equation, and its own in that of the latter.
    """

    def __init__(self, far: Operator, faces: Sequence[int], own: Sequence[slice], xp: Any) -> None:
        self._far, self._faces, self._own, self._xp = far, faces, own, xp
        line, placed = far.lattice.axes[0], far.lattice.axes[0].placement
        assert placed is not None
        self._radius = Axis.placed(placed.extended(2))
        self._last = line.nodes - 1
        lower, upper, _ = self._radius.couplings
        self.across = float(lower[self._last]), float(upper[self._last]), float(lower[line.nodes])
        self._matrices: dict[int, Any] = {}
        self._sizes = [own[1 - face // 2].stop - own[1 - face // 2].start for face in faces]

    def __call__(self, charges: Mapping[tuple[int, bool], Any]) -> dict[int, Any]:
        """The field on each open face, on the nodes that no data fix; `charges` as those of `FaceFields`."""
        xp = self._xp
        total = xp.zeros(sum(self._sizes))
        for beyond in sorted({beyond for _, beyond in charges}):
            if beyond not in self._matrices:
                self._matrices[beyond] = xp.asarray(self._matrix(int(beyond)))
            given = [charges.get((face, beyond), xp.zeros(size)) for face, size in self._parts]
            total += self._matrices[beyond] @ xp.concatenate([each.ravel() for each in given])
        found, start = {}, 0
        for face, size in self._parts:
            found[face] = total[start : start + size]
            start += size
        return found

    @property
    def _parts(self) -> list[tuple[int, int]]:
        """The open faces, with their nodes."""
        return list(zip(self._faces, self._sizes, strict=True))

    def _matrix(self, beyond: int) -> Values:
        """From charges on all faces, or one spacing beyond them, to the field on the faces."""
        lengths = self._radius.lengths
        at_end, along = float(lengths[self._last + beyond]), lengths[self._own[0]]
        if len(self._faces) == 1:
            return self._by_modes(beyond) * at_end
        rows, radii = _Rows.of(self._far.lattice.axes[1], self._faces, self._own[1]), self._own[0]
        to_last, to_source, pairs = self._by_waves(rows, beyond)
        stops = np.cumsum(self._sizes)
        place = {face: slice(stop - size, stop) for (face, size), stop in zip(self._parts, stops, strict=True)}
        found = np.empty((stops[-1], stops[-1]))
        found[place[1], place[1]] = at_end * rows.between_all(to_source[self._last], rows.own, rows.own)
        for face in self._faces[1:]:
            here, there = rows.end(face, 0), rows.end(face, beyond)
            found[place[face], place[1]] = at_end * rows.between_all(to_source[radii], here, rows.own)[:, 0]
            found[place[1], place[face]] = rows.between_all(to_last[radii], rows.own, there)[..., 0].T * along
            for other in self._faces[1:]:
                near, far = rows.of_ends(face, other, beyond)
                field = pairs[near] + rows.sign * pairs[far]
                found[place[face], place[other]] = field[radii, radii] * along
        return found

    def _by_modes(self, beyond: int) -> Values:
        """Between the nodes of the upper end along a closed z, or without z, for a unit of flow."""
        line, coupling, own = self._far.lattice.axes[1], self._far.couplings[1], self._own[1]

        def of_modes(values: Values) -> Values:
            ladder = Ladder.of(self._radius, self._far.a, self._far.c + coupling * values)
            return np.asarray(ladder.column(self._last + beyond, self._last)[0])

        if line.transform is None:
            values, columns, rows = line.eigenvectors
            return np.asarray(columns[own] * of_modes(values) @ rows[:, own])
        numbers, top = np.arange(line.nodes)[own], line.nodes - 1
        period, odd, nodes = 2 * line.nodes, 0, _Rows(numbers, {}, 0, 0)
        if not line.wraps:
            (sign, between), (other, _) = image(line, 0), image(line, 1)
            period, odd = 4 * (top + between), int(sign != other)
            nodes = _Rows(numbers, {}, sign, between, top if other > 0 else -1)
        # The waves that fit between the walls, by their turns in each spacing over the double period.
        turns, spread = np.arange(odd, period, 2), np.zeros(period)
        spread[turns] = of_modes(4.0 * np.sin(math.pi / period * turns) ** 2) / turns.size
        return nodes.between_all(np.fft.fft(spread).real, numbers, numbers)

    def _by_waves(self, rows: _Rows, beyond: int) -> tuple[Values, Values, dict[int, Values]]:
        """For a unit of flow at one node: by radius and distance along z, from the last node and from that of charges
        at the upper end; and by the distances of the ends of z, between all radii.
        """
        c, coupling, nodes = self._far.c, self._far.couplings[1], self._last + 1
        ends = [rows.of_ends(face, other, beyond) for face in rows.ends for other in rows.ends]
        wanted = sorted({distance for pair in ends for distance in pair})
        reach = max(*wanted, int(rows.own.max()) + beyond)
        angles, weights = waves(reach, 2.0 * math.asinh(math.sqrt(c / coupling) / 2.0))
        sources = sorted({self._last, self._last + beyond})
        tables = {node: np.zeros((nodes, reach + 1)) for node in sources}
        pairs = np.zeros((len(wanted), nodes, nodes))
        for start in range(0, angles.size, CHUNK):
            some = angles[start : start + CHUNK]
            cosines = np.cos(some[:, np.newaxis] * np.arange(reach + 1))
            cosines *= weights[start : start + CHUNK, np.newaxis]
            ladder = Ladder.of(self._radius, self._far.a, c + coupling * 4.0 * np.sin(some / 2.0) ** 2)
            for node, table in tables.items():
                multiply(ladder.column(node)[:nodes], cosines, part := np.empty_like(table))
                table += part
            pairs += ladder.sums(nodes, cosines[:, wanted].T)
        return tables[sources[0]], tables[sources[-1]], dict(zip(wanted, pairs, strict=True))
