# SPDX-License-Identifier: MIT
"""The source and the coefficient of the solves that are measured, on a whole lattice or on a part of it."""

import math
from collections.abc import Iterator
from dataclasses import replace
from types import ModuleType
from typing import Any

from poisson.backends.base import Backend
from poisson.discrete.operator import Coefficients, Operator
from poisson.mesh.lattice import Lattice

ROUGHNESS = 0.1
"""How large the random part of the source is next to the smooth one."""
BLOCK = (0.3, 0.62)
"""Where a jumps: between these parts of each axis, which are on the nodes of no coarse grid."""


def places(lattice: Lattice, xp: ModuleType, start: int, stop: int) -> Iterator[tuple[Any, Any]]:
    """The nodes of a slab along each axis: their places on the whole, between 0 and 1, and their numbers there."""
    for axis, line in enumerate(lattice.axes):
        index = line.index[start:stop] if axis == lattice.dimension - 1 else line.index
        numbers = xp.asarray(index).reshape(-1, *(1,) * axis)
        yield numbers / (line.undivided.nodes - 1), numbers


def with_jump(backend: Backend, plain: Operator, jump: float) -> Operator:
    """The operator where a is `jump` in the block in the middle, and 1 elsewhere."""
    if jump == 1.0:
        return plain
    lattice = plain.lattice

    def values(xp: ModuleType, start: int, stop: int) -> Any:
        return in_block((along for along, _ in places(lattice, xp, start, stop)), jump)

    nodes = backend.assemble(lattice.array_shape, values)
    links = tuple(backend.empty(lattice.array_shape) for _ in lattice.axes)
    operations = backend.bind(plain)
    for axis, out in enumerate(links):
        operations.links(axis, nodes, True, out)
    return replace(plain, coefficients=Coefficients(links, None, (min(1.0, jump), max(1.0, jump)), (0.0, 0.0)))


def in_block(along: Iterator[Any], jump: float) -> Any:
    """a at places along each axis."""
    inside: Any = True
    for place in along:
        inside = inside & (place > BLOCK[0]) & (place < BLOCK[1])
    return 1.0 + (jump - 1.0) * inside


def source(lattice: Lattice, xp: ModuleType, start: int, stop: int, rough: Any) -> Any:
    """Sines that grow towards a corner, and `rough`, from -1 to 1, times `ROUGHNESS`; zero on the faces."""
    values: Any = 1.0
    inner: Any = True
    for along, _ in places(lattice, xp, start, stop):
        values = values * xp.sin(2.0 * math.pi * along) * xp.exp(along)
        inner = inner & (along > 0.0) & (along < 1.0)
    return xp.where(inner, values + ROUGHNESS * rough, 0.0)
