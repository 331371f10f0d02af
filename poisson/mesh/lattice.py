# SPDX-License-Identifier: MIT
"""The nodes of a problem: its axes in one order, and where each of them lies in an array.

Axes run in the order x(, y(, z)), and so do tuples. Arrays are C-ordered with x contiguous, so that their shape is the
reverse. On an axis that wraps the node at its end, which is that at its start, is not stored.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from poisson.mesh.axis import MIN_NODES, Axis, array_axis
from poisson.mesh.boundary import Kind, Rule
from poisson.mesh.grid import AXES, wanted_spacing
from poisson.mesh.system import ANGLE, CARTESIAN, SYSTEMS, System, faces_of, wanted_angle

Index = tuple[slice | int, ...]


@dataclass(frozen=True)
class Lattice:
    """Nodes on a box: the product of the nodes along its axes.

    `axes`: x, y(, z), or those of the system. `system`: the word of the system of coordinates.
    """

    axes: tuple[Axis, ...]
    system: str = CARTESIAN

    @staticmethod
    def box(
        lower: Sequence[float], upper: Sequence[float], shape: Sequence[int], rules: tuple[Rule, ...] | None = None
    ) -> Lattice:
        """Equally spaced nodes between the corners of a box, with a rule for each face; without any all are mirrors.

        Raises `ValueError` if there are not 1, 2 or 3 axes, the lengths differ, the box is empty or not finite, or an
        axis has fewer than 3 nodes, or nodes too close or too far apart for float64.
        """
        rules = (Rule.MIRROR,) * (2 * len(shape)) if rules is None else rules
        if len(shape) not in (1, 2, 3):
            raise ValueError(f"a grid has 1, 2 or 3 axes, not {len(shape)}")
        if not len(lower) == len(upper) == len(shape) == len(rules) / 2:
            raise ValueError("lower, upper, shape and the pairs of rules differ in length")
        for name, low, high, nodes in zip(AXES, lower, upper, shape, strict=False):
            if not (math.isfinite(low) and math.isfinite(high) and math.isfinite(high - low) and low < high):
                raise ValueError(f"{name}: the interval [{low}, {high}] is empty or not finite")
            if nodes < MIN_NODES:
                raise ValueError(f"{name}: {nodes} nodes; at least {MIN_NODES} are needed")
            if wanted := wanted_spacing(low, high, nodes):
                raise ValueError(f"{name}: {nodes} nodes on [{low}, {high}]; allowed: {wanted}")
        pairs = zip(rules[::2], rules[1::2], strict=True)
        return Lattice(tuple(map(Axis.between, lower, upper, shape, pairs)))

    @staticmethod
    def uniform(shape: tuple[int, ...], spacing: tuple[float, ...], rules: tuple[Rule, ...]) -> Lattice:
        """Uniform axes with so many nodes along x, y(, z), so far apart, and a rule for each face."""
        axes = zip(shape, spacing, rules[::2], rules[1::2], strict=True)
        return Lattice(tuple(Axis(nodes, h, (lower, upper)) for nodes, h, lower, upper in axes))

    @property
    def dimension(self) -> int:
        return len(self.axes)

    @property
    def coordinate_system(self) -> System:
        """The system of coordinates; that of the arrays of a 1D problem has fewer axes than these."""
        systems = SYSTEMS[self.system]
        return systems.get(self.dimension) or systems[1]

    @property
    def centred(self) -> bool:
        """Whether the first axis is a radius that begins at 0, where there is no face."""
        return self.system != CARTESIAN and self.lower[0] == 0.0

    @property
    def misfit(self) -> str:
        """Mistakes of an angle, or a radius beside it, and what is allowed; empty if nothing is."""
        for name, axis in zip(self.names, self.axes, strict=True):
            if wanted := wanted_angle(name, *axis.interval, axis.wraps):
                return f"{name} from {axis.interval[0]:g} to {axis.interval[1]:g}; allowed: {wanted}"
        if self.centred and ANGLE in self.names and not any(self.axes[0].offsets):
            return "nodes along r from 0; allowed: cells, because at r = 0 there is one u for all phi"
        return ""

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The names of the axes."""
        return self.coordinate_system.axes

    @property
    def faces(self) -> tuple[str, ...]:
        """The names of the faces."""
        return faces_of(self.names)

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """Nodes along x, y(, z)."""
        return tuple(axis.nodes for axis in self.axes)

    @property
    def array_shape(self) -> tuple[int, ...]:
        """Shape of an array: ``(ny, nx)`` or ``(nz, ny, nx)``."""
        return self.shape[::-1]

    @cached_property
    def nodes(self) -> int:
        """Nodes in all."""
        return math.prod(self.shape)

    @cached_property
    def spacing(self) -> tuple[float, ...]:
        """The spacing of the nodes along each axis, in L; the mean one where they are placed otherwise."""
        return tuple(axis.spacing for axis in self.axes)

    @property
    def intervals(self) -> tuple[int, ...]:
        """`Axis.intervals` of each axis."""
        return tuple(axis.intervals for axis in self.axes)

    @cached_property
    def lower(self) -> tuple[float, ...]:
        """The lower corner of the box, in L."""
        return tuple(axis.interval[0] for axis in self.axes)

    @cached_property
    def upper(self) -> tuple[float, ...]:
        """The upper corner of the box, in L."""
        return tuple(axis.interval[1] for axis in self.axes)

    @property
    def extent(self) -> tuple[float, ...]:
        """Length of the box along each axis, in L."""
        return tuple(high - low for low, high in zip(self.lower, self.upper, strict=True))

    @property
    def volume(self) -> float:
        """The volume of the box, of a whole turn where an angle has no axis."""
        placed = ((axis.undivided.placement, axis.interval) for axis in self.axes)
        return self.turn * math.prod(where.measure if where else ends[1] - ends[0] for where, ends in placed)

    @property
    def turn(self) -> float:
        """The factor of integrals over the axes: the angles that have none."""
        return self.coordinate_system.turn

    @property
    def periodic(self) -> tuple[bool, ...]:
        """Whether each axis is periodic."""
        return tuple(axis.wraps for axis in self.axes)

    def coordinates(self, axis: int) -> NDArray[np.float64]:
        """Coordinates of the nodes along `axis` (0 is x), shape ``(n,)``, in L; a copy."""
        return self.axes[axis].coordinates.copy()

    @cached_property
    def rules(self) -> tuple[Rule, ...]:
        """One for each face, in the order of `boundary.FACE_NAMES`."""
        return tuple(rule for axis in self.axes for rule in axis.rules)

    # ---- places in an array

    def array_axis(self, axis: int) -> int:
        """The axis of an array along which x (0), y (1) or z (2) runs."""
        return array_axis(axis, self.dimension)

    def along(self, axis: int, values: NDArray[Any]) -> NDArray[Any]:
        """Values at the nodes of one axis, in a shape that broadcasts to that of an array."""
        return values.reshape((-1,) + (1,) * axis)

    def face(self, face: int) -> Index:
        """The index of the nodes at one end of an axis of an array."""
        return (slice(None),) * self.array_axis(face // 2) + (-1 if face % 2 else 0,)

    @cached_property
    def free(self) -> tuple[slice, ...]:
        """The index of the nodes that are not fixed."""
        return tuple(axis.free for axis in reversed(self.axes))

    @cached_property
    def equations(self) -> tuple[slice, ...]:
        """The index of the nodes whose equation can be computed: not fixed, and with all neighbours here."""
        return tuple(axis.equations for axis in reversed(self.axes))

    @property
    def on_faces(self) -> NDArray[np.bool_]:
        """Whether each node lies on a face of the whole lattice, or at an end of an axis that wraps."""
        found = np.zeros(self.array_shape, dtype=bool)
        for axis, line in enumerate(self.axes):
            found |= self.along(axis, line.on_faces)
        return found

    @property
    def owned(self) -> tuple[slice, ...]:
        """The index of the nodes that are not in a halo."""
        return tuple(axis.owned for axis in reversed(self.axes))

    def volumes(self, start: int = 0, stop: int | None = None) -> NDArray[np.float64]:
        """Control volumes over the product of the spacings, for the rows ``[start, stop)``; zero in halos.

        On uniform axes they are the trapezoidal weights: one half for each mirror that a node lies on.
        """
        values = np.ones((1,) * self.dimension)
        for axis, line in enumerate(self.axes):
            slowest = axis == self.dimension - 1
            values = self.along(axis, line.widths[start:stop] if slowest else line.widths) * values
        return values

    def volumes_at(self, index: Sequence[NDArray[Any]]) -> NDArray[np.float64]:
        """`volumes` at some nodes, by their numbers along each axis of an array, the slowest first."""
        values = np.ones(index[0].shape)
        for line, numbers in zip(self.axes, reversed(index), strict=True):
            values = line.widths[numbers] * values
        return values

    def volumes_in(self, block: Sequence[tuple[int, int]], xp: ModuleType = np) -> Any:
        """`volumes` in a range of nodes along each axis of an array, the slowest first, as an array of xp."""
        values = xp.ones((1,) * self.dimension)
        for axis, (line, ends) in enumerate(zip(self.axes, reversed(block), strict=True)):
            values = xp.multiply(xp.asarray(self.along(axis, line.widths[slice(*ends)])), values)
        return values

    # ---- the problem as a whole

    @property
    def has_one_volume(self) -> bool:
        """Whether the control volumes of all nodes are alike, but for fixed ones."""
        return all(bool(np.all(axis.widths == 1.0)) for axis in self.whole.axes)

    @property
    def tolerance(self) -> float:
        """The part of an integral that the error of the trapezoidal rule may be."""
        coarsest = max(float(axis.widths.max()) / axis.intervals for axis in self.axes)
        return min(0.1, 10.0 * coarsest**2)

    @cached_property
    def tabulated(self) -> bool:
        """Whether there is an axis whose links have other weights from node to node."""
        return any(axis.tabulated for axis in self.axes)

    @cached_property
    def divided(self) -> bool:
        """Whether this is a part of another lattice."""
        return any(axis.whole is not None for axis in self.axes)

    @property
    def whole(self) -> Lattice:
        """The lattice that this is a part of, or this one."""
        return replace(self, axes=tuple(axis.undivided for axis in self.axes)) if self.divided else self

    @cached_property
    def holds(self) -> bool:
        """Whether −∇² of a constant is not zero everywhere, on the whole lattice."""
        return any(axis.holds for axis in self.axes)

    @cached_property
    def unknowns(self) -> int:
        """Nodes of the whole lattice that are not fixed."""
        return math.prod(axis.modes for axis in self.axes)

    @property
    def angle(self) -> int | None:
        """The number of the axis of an angle, whose unit is r long."""
        return self.names.index(ANGLE) if ANGLE in self.names else None

    def scale(self, axis: int, block: Sequence[tuple[int, int]]) -> NDArray[np.float64] | float:
        """The length of a unit along an axis in a range of nodes along each axis of an array, the slowest first.

        The length is 1, or r along an angle, in a shape that broadcasts to that of the range.
        """
        return self.axes[0].coordinates[slice(*block[-1])] if axis == self.angle else 1.0

    @cached_property
    def conductances(self) -> tuple[tuple[float, float], ...]:
        """The least and the largest factor of links along each axis, over their weights: 1, or 1/r² along an angle."""
        found = [(1.0, 1.0)] * self.dimension
        if self.angle:
            inner, outer = self.axes[0].undivided.coordinates[[0, -1]]
            found[self.angle] = (outer**-2.0, inner**-2.0)
        return tuple(found)

    @property
    def angular(self) -> float:
        """The factor by which links along an angle vary with r; 1 without one."""
        return max(most / least for least, most in self.conductances)

    # ---- other lattices

    @cached_property
    def of_arrays(self) -> Lattice:
        """The lattice of the backends' arrays, which have two axes at least: in 1D the second one has a single node."""
        return replace(self, axes=(*self.axes, Axis.single())) if self.dimension == 1 else self

    def facing(self, kinds: Sequence[Kind]) -> Lattice:
        """The same nodes with conditions of other kinds at the faces: `Axis.facing`."""
        axes = tuple(axis.facing(pair) for axis, *pair in zip(self.axes, kinds[::2], kinds[1::2], strict=True))
        return self if axes == self.axes else replace(self, axes=axes)

    @cached_property
    def coarser(self) -> Lattice | None:
        """The lattice of the coarser axes on the same box; None where one has none."""
        axes = tuple(axis.coarser for axis in self.axes if axis.coarser is not None)
        return replace(self, axes=axes) if len(axes) == self.dimension else None

    def resized(self, shape: Sequence[int]) -> Lattice:
        """The lattice on the same box with so many nodes along x, y(, z): `Axis.resized`."""
        return replace(self, axes=tuple(map(Axis.resized, self.axes, shape)))

    def replaced(self, axis: int, by: Axis) -> Lattice:
        """The lattice with another axis in one place."""
        return replace(self, axes=(*self.axes[:axis], by, *self.axes[axis + 1 :]))

    def part(self, axis: int, start: int, stop: int, halo: int | tuple[int, int]) -> Lattice:
        """The part of a process that owns the nodes ``[start, stop)`` of an axis: see `Axis.part`."""
        return self.replaced(axis, self.axes[axis].part(start, stop, halo))

    def scaled(self, factor: float) -> Lattice:
        """The lattice with all lengths times a factor."""
        return replace(self, axes=tuple(axis.scaled(factor) for axis in self.axes))


class OnLattice:
    """The numbers of a lattice, as those of what stands on it."""

    lattice: Lattice

    @property
    def dimension(self) -> int:
        return self.lattice.dimension

    @property
    def shape(self) -> tuple[int, ...]:
        """Nodes along x, y(, z)."""
        return self.lattice.shape

    @property
    def array_shape(self) -> tuple[int, ...]:
        """Shape of an array on the nodes: ``(ny, nx)`` or ``(nz, ny, nx)``."""
        return self.lattice.array_shape

    @property
    def spacing(self) -> tuple[float, ...]:
        """Distance between nodes along each axis, in L."""
        return self.lattice.spacing
