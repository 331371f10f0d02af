# SPDX-License-Identifier: MIT
"""Systems of coordinates: the names of their axes, the weight of the first one, and the directions without an axis.

Outside of the Cartesian system the first axis is the radius r ≥ 0, and a volume is r^p dr times the lengths along the
other axes. Of r alone, and of r and z, nothing depends on the angles, and integrals are over all of these: 2π around a
cylinder's axis, 4π around a sphere's centre. φ is in radians.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from poisson.mesh.grid import AXES

CARTESIAN = "cartesian"
RADIUS, ANGLE = "r", "phi"
ALL_AXES = (*AXES, RADIUS, ANGLE)
WHOLE = 1e-6
"""By so much, relatively, an angle may miss a whole turn, or a whole part of one: files round it."""


@dataclass(frozen=True)
class System:
    """A system in some dimension.

    `axes`: the names of the axes, in the order of x, y, z. `power`: p. `turn`: the angles that have no axis.
    """

    axes: tuple[str, ...]
    power: int = 0
    turn: float = 1.0


SYSTEMS: dict[str, dict[int, System]] = {
    CARTESIAN: {dimension: System(AXES[:dimension]) for dimension in (1, 2, 3)},
    "cylinder": {
        1: System((RADIUS,), 1, 2.0 * math.pi),
        2: System((RADIUS, "z"), 1, 2.0 * math.pi),
        3: System((RADIUS, ANGLE, "z"), 1),
    },
    "polar": {2: System((RADIUS, ANGLE), 1)},
    "sphere": {1: System((RADIUS,), 2, 4.0 * math.pi)},
}
"""The systems by their words, each in the dimensions that it has."""


SYSTEMS_ALLOWED = "; ".join(
    f'"{word}" with {" or ".join(", ".join(system.axes) for system in systems.values())}'
    for word, systems in SYSTEMS.items()
)
"""The systems with their axes, in words."""


def axes_of(word: str, dimension: int | None) -> tuple[str, ...] | None:
    """The names of the axes of a system; all that it may have where the dimension is not known, None where wrong."""
    systems = SYSTEMS[word]
    if dimension is None:
        return systems[max(systems)].axes
    return systems[dimension].axes if dimension in systems else None


def faces_of(axes: tuple[str, ...]) -> tuple[str, ...]:
    """The names of the faces across some axes, in the order of `poisson.mesh.boundary.FACE_NAMES`."""
    return tuple(f"{axis}_{end}" for axis in axes for end in ("lower", "upper"))


def needed_shape(place: str, array_shape: tuple[int, ...], axes: Sequence[str]) -> str:
    """The end of a message on an array of another shape, with the order of its axes, whose names are `axes`."""
    names = ", ".join(f"n{axis}" for axis in reversed(axes[: len(array_shape)]))
    order = f"({names},)" if len(array_shape) == 1 else f"({names})"
    return f"{place} needs {array_shape}, because arrays are {order}"


def wanted_angle(name: str, lower: float, upper: float, periodic: bool) -> str | None:
    """The length that an angle should have instead, for a message; None if its is fine, or it is another axis."""
    if name != ANGLE:
        return None
    turns = 2.0 * math.pi / (upper - lower)
    if turns < 1.0 - WHOLE:
        return "an angle of at most 2 pi = 6.283185307179586"
    if periodic and abs(turns - round(turns)) > WHOLE * turns:
        return "2 pi = 6.283185307179586, or a whole part of it, because phi is periodic"
    return None
