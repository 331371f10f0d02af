# SPDX-License-Identifier: MIT
"""The field on open faces of charges on them and one spacing beyond, by the lattice Green's function.

The heat kernels of `poisson.discrete.green` are products of one factor for each axis. So the field on a face across
another axis is a sum over the times of outer products: two products of matrices. Between faces across one axis it is a
convolution in their plane, by transforms of twice the length (R. W. Hockney and J. W. Eastwood, "Computer simulation
using particles", 1988, section 6.5). Where an axis has a wall at one end, the image of the charges behind it is added.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import fft

from poisson.discrete.green import Times, on_a_line
from poisson.discrete.operator import Operator
from poisson.mesh.axis import Axis, array_axis
from poisson.mesh.boundary import Rule

Values = NDArray[np.float64]


@dataclass(frozen=True)
class Closed:
    """An axis with modes: the matrices to them and back, and their eigenvalues, in 1/L²."""

    rows: Any
    columns: Any
    eigenvalues: Values

    def factors(self, times: Times) -> Values:
        """The factor of each mode after each time."""
        return times.decay(self.eigenvalues)

    def to_modes(self, xp: Any, values: Any, place: int) -> Any:
        return xp.moveaxis(xp.tensordot(self.rows, values, axes=(1, place)), 0, place)

    def from_modes(self, xp: Any, modes: Any, place: int) -> Any:
        return xp.moveaxis(xp.tensordot(self.columns, modes, axes=(1, place)), 0, place)


@dataclass(frozen=True)
class Open:
    """An axis with an open end, or two.

    `nodes`: of the axis. `own`: those but for a fixed one at a wall. `wall`: the rule at the one end that is closed.
    `upper`: whether that is the upper one. `weight`: a/h². `half`: half of the length of transforms.
    """

    nodes: int
    own: slice
    wall: Rule | None
    upper: bool
    weight: float
    half: int

    def kernels(self, times: Times) -> Values:
        """The heat kernels by time and distance."""
        return times.kernels(self.half, self.weight)

    def factors(self, times: Times) -> Values:
        return np.asarray(fft.dct(self.kernels(times), type=1, axis=1))

    def between(self, kernels: Values, nodes: Any, plane: int) -> Values:
        """The kernels from a plane to nodes, with those from its image: columns for the nodes."""
        found = kernels[:, np.abs(nodes - plane)]
        if self.wall is None:
            return found
        image = kernels[:, (2 * (self.nodes - 1) - nodes - plane) if self.upper else nodes + plane]
        return found - image if self.wall is Rule.FIXED else found + image

    @property
    def once(self) -> Values:
        """The part of the charges of each node that has an image: a half where it is its own."""
        found = np.ones(self.own.stop - self.own.start)
        if self.wall is Rule.MIRROR:
            found[-1 if self.upper else 0] = 0.5
        return found

    def to_modes(self, xp: Any, values: Any, place: int) -> Any:
        along = xp.moveaxis(values, place, 0)
        along = along[::-1] if self.upper else along
        found = xp.zeros((2 * self.half, *along.shape[1:]), dtype=along.dtype)
        count, first = along.shape[0], 1 if self.wall is Rule.FIXED else 0
        found[first : first + count] = along
        if self.wall is Rule.FIXED:
            found[-count:] = -along[::-1]
        elif self.wall is Rule.MIRROR:
            found[1 - count :] = along[:0:-1]
        way = xp.fft.fft if along.dtype.kind == "c" else xp.fft.rfft
        return xp.ascontiguousarray(xp.moveaxis(way(found, axis=0), 0, place))

    def from_modes(self, xp: Any, modes: Any, place: int) -> Any:
        along = xp.moveaxis(modes, place, 0)
        whole = along.shape[0] == 2 * self.half
        found = xp.fft.ifft(along, axis=0) if whole else xp.fft.irfft(along, 2 * self.half, axis=0)
        first = 1 if self.wall is Rule.FIXED else 0
        found = found[first : first + self.own.stop - self.own.start]
        return xp.moveaxis(found[::-1] if self.upper else found, 0, place)


class FaceFields:
    """The field on the open faces.

    `far`: the operator beyond them, with constant coefficients. `faces`: whether each face is open. `xp`: the module of
    the arrays.
    """

    def __init__(self, far: Operator, faces: Sequence[bool], xp: Any) -> None:
        self._xp, self._far = xp, far
        lattice = far.lattice
        self._faces = [face for face, is_open in enumerate(faces) if is_open]
        self._ends = {
            axis: tuple(face for face in self._faces if face // 2 == axis) for axis in range(lattice.dimension)
        }
        self.lines = [
            _line(far, axis, [face % 2 == 1 for face in self._ends[axis]], xp) for axis in range(lattice.dimension)
        ]
        found = {axis: line for axis, line in enumerate(self.lines) if isinstance(line, Open)}
        self.own = tuple(found[axis].own if axis in found else line.free for axis, line in enumerate(lattice.axes))
        self._times = times = Times.of([(line.half, line.weight) for line in found.values()], far, self._rest())
        self._factors = [line.factors(times) for line in self.lines]
        weights = times.weights[:, np.newaxis]
        self._weighted = [xp.asarray(weights * each) for each in (*self._factors, np.ones((1, 1)))]
        self._columns: dict[tuple[int, int], Any] = {}
        self._rows: dict[tuple[int, int], Any] = {}
        self._tables: dict[tuple[int, int, int], Any] = {}
        for axis, line in found.items():
            kernels = line.kernels(times)
            nodes = np.arange(line.nodes)[line.own]
            ends = [(line.nodes - 1) * (face % 2) for face in self._ends[axis]]
            for plane in (place for end in ends for place in (end, end + (1 if end else -1))):
                between = line.between(kernels, nodes, plane)
                self._rows[axis, plane] = xp.asarray(between * line.once)
                self._columns[axis, plane] = xp.asarray(np.ascontiguousarray(between.T))
                for end in ends:
                    weights = line.between(kernels, np.array([end]), plane)[:, 0]
                    self._tables[axis, plane, end] = xp.asarray(self._table(axis, plane, end, weights))

    def _rest(self) -> float:
        """The least eigenvalue of the closed axes together, with c."""
        return self._far.c + sum(float(line.eigenvalues.min()) for line in self.lines if isinstance(line, Closed))

    def _table(self, axis: int, plane: int, end: int, weights: Values) -> Values:
        """The factors of the modes of charges in a plane, for the field in the plane of an end."""
        others = self._along(axis)
        line = self.lines[axis]
        assert isinstance(line, Open)
        if sum(isinstance(other, Open) for other in self.lines) == 1:
            rest = np.full((1,) * len(others), self._far.c)
            for place, other in enumerate(others):
                closed = self.lines[other]
                assert isinstance(closed, Closed)
                rest = rest + np.expand_dims(closed.eigenvalues, [each for each in range(len(others)) if each != place])
            distances = on_a_line(rest, line.weight, abs(plane - end))
            if line.wall is None:
                return distances
            image = on_a_line(rest, line.weight, (2 * (line.nodes - 1) - plane - end) if line.upper else plane + end)
            return distances - image if line.wall is Rule.FIXED else distances + image
        weighted = weights * self._times.weights
        if len(others) == 1:
            return np.asarray(weighted @ self._factors[others[0]])
        first, second = (self._factors[other] for other in others)
        if isinstance(self.lines[others[0]], Open) and isinstance(self.lines[others[1]], Open):
            first = np.concatenate([first, first[:, -2:0:-1]], axis=1)  # of the whole period
        return np.asarray((first.T * weighted) @ second)

    def _along(self, axis: int) -> list[int]:
        """The axes along a face, in the order of those of its arrays."""
        return [other for other in reversed(range(self._far.dimension)) if other != axis]

    def __call__(self, charges: Mapping[tuple[int, bool], Any]) -> dict[int, Any]:
        """The field on each open face, on the nodes that no data fix.

        `charges`: by the face, and whether they are one spacing beyond it.
        """
        xp = self._xp
        modes: dict[int, dict[int, Any]] = {face: {} for face in self._faces}  # by the axis that is transformed
        found: dict[int, Any] = {}
        for (face, beyond), values in charges.items():
            axis, upper = divmod(face, 2)
            line = self.lines[axis]
            assert isinstance(line, Open)
            end = (line.nodes - 1) * upper
            plane = end + beyond * (1 if upper else -1)
            along = self._along(axis)
            whole = self._to_all(values, along)
            for target in self._ends[axis]:
                table = self._tables[axis, plane, (line.nodes - 1) * (target % 2)]
                part = self._from_all(whole * table, along)
                found[target] = part + found[target] if target in found else part
            for other in along:
                if not self._ends[other]:
                    continue
                third = [each for each in along if each != other]
                turned = xp.moveaxis(values, along.index(other), 0)
                turned = self.lines[third[0]].to_modes(xp, turned, 1) if third else turned[:, None]
                for target in self._ends[other]:
                    there = self.lines[other]
                    assert isinstance(there, Open)
                    across = self._rows[other, (there.nodes - 1) * (target % 2)]
                    inner = _product(across, turned) * self._weighted[third[0] if third else -1]
                    part = _product(self._columns[axis, plane], inner)
                    modes[target][axis] = part + modes[target][axis] if axis in modes[target] else part
        for target, parts in modes.items():
            for axis, part in parts.items():
                along = self._along(target // 2)
                third = [each for each in along if each != axis]
                values = self.lines[third[0]].from_modes(xp, part, 1) if third else part[:, 0]
                values = xp.moveaxis(values, 0, along.index(axis))
                found[target] = found[target] + values
        return found

    def layer(self, values: Any, face: int, inner: int = 0) -> Any:
        """The nodes of an array on a face, or so many layers inside of it."""
        place = array_axis(face // 2, values.ndim)
        return self._xp.moveaxis(values, place, 0)[-1 - inner if face % 2 else inner]

    def own_of(self, face: int) -> tuple[slice, ...]:
        """The nodes of an array on a face that no data fix."""
        return tuple(self.own[axis] for axis in reversed(range(self._far.dimension)) if axis != face // 2)

    def charges(self, view: Any, given: Mapping[int, Any]) -> tuple[dict[int, Any], dict[tuple[int, bool], Any]]:
        """The values on the open faces, and the charges that u in the box, continued by zeros, has too few there.

        `view`: u, as an array of the module. `given`: the charges on each open face.
        """
        values = {face: self.layer(view, face).astype(np.float64) for face in self._faces}
        charges: dict[tuple[int, bool], Any] = {}
        for face in self._faces:
            charges[face, False] = (given[face] - self._applied(view, face, values[face]))[self.own_of(face)]
            self._once(charges[face, False], face)
            values[face] = values[face][self.own_of(face)]
            if bool(values[face].any()):
                charges[face, True] = self._xp.ascontiguousarray(self._far.couplings[face // 2] * values[face])
        return values, charges

    def _applied(self, view: Any, face: int, values: Any) -> Any:
        """The constant operator on a face, of u that is zero beyond."""
        far, axis = self._far, face // 2
        found = (far.c + 2.0 * far.couplings[axis]) * values - far.couplings[axis] * self.layer(view, face, 1)
        for place, other in enumerate(self._along(axis)):
            line, coupling = far.lattice.axes[other], far.couplings[other]
            turned, out = (self._xp.moveaxis(each, place, 0) for each in (values, found))
            weights = [self._xp.asarray(each).reshape(-1, *(1,) * (values.ndim - 1)) for each in line.couplings]
            for end, nodes in enumerate(line.neighbours):
                neighbours = turned[self._xp.asarray(nodes)]
                if 2 * other + end in self._faces:
                    neighbours[-end] = 0.0
                out += coupling * weights[end] * (turned - neighbours)
            out += coupling * weights[2] * turned
        return found

    def _once(self, charges: Any, face: int) -> None:
        """Leave out the nodes of a face that lie on one before it too."""
        along = self._along(face // 2)
        for before in self._faces:
            if before < face and before // 2 != face // 2:
                self._xp.moveaxis(charges, along.index(before // 2), 0)[-(before % 2)] = 0.0

    def _to_all(self, values: Any, along: Sequence[int]) -> Any:
        for place in reversed(range(len(along))):
            values = self.lines[along[place]].to_modes(self._xp, values, place)
        return values

    def _from_all(self, modes: Any, along: Sequence[int]) -> Any:
        for place in range(len(along)):
            modes = self.lines[along[place]].from_modes(self._xp, modes, place)
        return modes


def _line(far: Operator, axis: int, ends: Sequence[bool], xp: Any) -> Closed | Open:
    line, coupling = far.lattice.axes[axis], far.couplings[axis]
    if not ends:
        if not coupling:
            return Closed(xp.ones((1, 1)), xp.ones((1, 1)), np.zeros(1))
        values, columns, rows = line.eigenvectors
        return Closed(xp.asarray(rows[:, line.free]), xp.asarray(columns[line.free]), coupling * values)
    wall = None if len(ends) == 2 else line.rules[0 if ends[0] else 1]
    free = _free(line, ends)
    half = fft.next_fast_len(line.nodes if wall is None else 2 * line.nodes)
    return Open(line.nodes, free, wall, wall is not None and not ends[0], coupling, half)


def _free(line: Axis, ends: Sequence[bool]) -> slice:
    """The nodes of an axis that no data fix; `ends` are those that are open, upper or not."""
    lower, upper = (Rule.MIRROR if end in ends else rule for end, rule in zip((False, True), line.rules, strict=True))
    return replace(line, rules=(lower, upper)).free


def _product(matrix: Any, values: Any) -> Any:
    """The product of a real matrix with values that may be complex."""
    if values.dtype.kind != "c":
        return matrix @ values
    return (matrix @ values.view(matrix.dtype)).view(values.dtype)
