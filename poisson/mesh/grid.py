# SPDX-License-Identifier: MIT
"""Names of the axes of a grid, the distances between nodes that float64 has room for, and ranges of its rows."""

from __future__ import annotations

import math
from collections.abc import Iterator

AXES = ("x", "y", "z")

MIN_SPACING, MAX_SPACING = 1e-150, 1e150
"""The squares of these and their inverses are still finite."""


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
