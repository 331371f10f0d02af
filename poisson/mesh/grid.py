# SPDX-License-Identifier: MIT
"""A uniform grid of nodes on a box.

Tuples run in the order x(, y(, z)). Arrays are C-ordered with x contiguous, so their shape is the reverse: ``(nx,)``,
``(ny, nx)`` or ``(nz, ny, nx)``. On a periodic axis the last node repeats the first and is not stored.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from poisson.mesh.axis import MIN_NODES, Axis, plain_rules
from poisson.mesh.boundary import Rule
from poisson.mesh.lattice import Lattice

AXES = ("x", "y", "z")

MIN_SPACING, MAX_SPACING = 1e-150, 1e150
"""The squares of these and their inverses are still finite."""


@dataclass(frozen=True)
class Grid:
    """Nodes on the box ``[lower, upper]``, equally spaced along each axis.

    Parameters
    ----------
    lower, upper : tuple of float
        Corners of the box in the order x(, y(, z)), in L (any unit of length).
    shape : tuple of int
        Stored nodes along each axis, at least 3. On a periodic axis the last node of the interval is not counted.
    periodic : tuple of bool
        Whether each axis is periodic.

    Raises
    ------
    ValueError
        If the lengths of the tuples differ, the box is empty or not finite, or an axis has fewer than 3 nodes, or nodes
        too close or too far apart for float64.
    """

    lower: tuple[float, ...]
    upper: tuple[float, ...]
    shape: tuple[int, ...]
    periodic: tuple[bool, ...]

    def __post_init__(self) -> None:
        if len(self.shape) not in (1, 2, 3):
            raise ValueError(f"a grid has 1, 2 or 3 axes, not {len(self.shape)}")
        if not len(self.lower) == len(self.upper) == len(self.periodic) == len(self.shape):
            raise ValueError("lower, upper, shape and periodic differ in length")
        for name, low, high, nodes in zip(AXES, self.lower, self.upper, self.shape, strict=False):
            if not (math.isfinite(low) and math.isfinite(high) and math.isfinite(high - low) and low < high):
                raise ValueError(f"{name}: the interval [{low}, {high}] is empty or not finite")
            if nodes < MIN_NODES:
                raise ValueError(f"{name}: {nodes} nodes; at least {MIN_NODES} are needed")
            if wanted := wanted_spacing(low, high, nodes):
                raise ValueError(f"{name}: {nodes} nodes on [{low}, {high}]; allowed: {wanted}")

    @property
    def dimension(self) -> int:
        return len(self.shape)

    @property
    def nodes(self) -> int:
        return math.prod(self.shape)

    @property
    def intervals(self) -> tuple[int, ...]:
        """Intervals along each axis: one fewer than the nodes, or as many on a periodic axis."""
        return tuple(axis.intervals for axis in self.axes)

    @property
    def extent(self) -> tuple[float, ...]:
        """Length of the box along each axis, in L."""
        return tuple(high - low for low, high in zip(self.lower, self.upper, strict=True))

    @property
    def spacing(self) -> tuple[float, ...]:
        """Distance between neighbouring nodes along each axis, in L."""
        return tuple(axis.spacing for axis in self.axes)

    @property
    def array_shape(self) -> tuple[int, ...]:
        """Shape of an array on this grid: ``(nx,)``, ``(ny, nx)`` or ``(nz, ny, nx)``."""
        return self.shape[::-1]

    @cached_property
    def axes(self) -> tuple[Axis, ...]:
        """Where the nodes are along x(, y(, z)); of the faces the axes know only which are periodic."""
        return self.lattice(tuple(rule for wraps in self.periodic for rule in plain_rules(wraps))).axes

    def lattice(self, rules: tuple[Rule, ...]) -> Lattice:
        """The nodes with the rules of the faces, in the order of `boundary.FACE_NAMES`."""
        ends = zip(self.lower, self.upper, self.shape, rules[::2], rules[1::2], strict=True)
        return Lattice(tuple(Axis.between(low, high, nodes, (one, other)) for low, high, nodes, one, other in ends))

    def coarser(self) -> Grid | None:
        """The grid of the coarser axes on the same box; None where one has none, as it would have too few nodes."""
        axes = [axis.coarser for axis in self.axes]
        if any(axis is None for axis in axes):
            return None
        return replace(self, shape=tuple(axis.nodes for axis in axes if axis is not None))

    def coordinates(self, axis: int) -> NDArray[np.float64]:
        """Coordinates of the nodes along `axis` (0 is x), shape ``(n,)``, in L; the ends are exact."""
        return self.axes[axis].coordinates.copy()


def wanted_spacing(low: float, high: float, nodes: int) -> str | None:
    """The spacing that so many nodes on an interval should have instead, for a message; None if theirs is fine."""
    spacing = (high - low) / nodes
    if not MIN_SPACING < spacing < MAX_SPACING:
        return f"a spacing of the nodes of more than {MIN_SPACING} and less than {MAX_SPACING}"
    if low + spacing == low or high - spacing == high:
        return "nodes far enough apart to differ in float64"
    return None


def slabs(array_shape: tuple[int, ...], limit: int = 1 << 18) -> Iterator[tuple[int, int]]:
    """Ranges ``[start, stop)`` of the first array axis, each of about `limit` nodes and at least one row or plane.

    Functions of the coordinates are evaluated slab by slab, so that no temporary array is as large as the grid.
    """
    thickness = max(1, limit // math.prod(array_shape[1:]))
    for start in range(0, array_shape[0], thickness):
        yield start, min(start + thickness, array_shape[0])
