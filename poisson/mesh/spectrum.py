# SPDX-License-Identifier: MIT
"""The eigenvalues and eigenvectors of the part of the operator along a whole axis."""

from __future__ import annotations

import math
from enum import IntEnum
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from poisson.mesh.boundary import Rule

if TYPE_CHECKING:
    from poisson.mesh.axis import Axis

Values = NDArray[np.float64]

MOST_NODES_DENSE = 300
"""Eigenvalues of so many nodes are computed from the full matrix."""


class Transform(IntEnum):
    """The transform that makes the operator along an axis of equal spacings diagonal. The values are part of the
    kernels' interface; those of cells are of type II, and IV between a wall that holds u and one that does not.
    """

    SINE = 0
    COSINE = 1
    QUARTER = 2
    FOURIER = 3
    CELL_COSINE = 4
    CELL_QUARTER = 5
    CELL_SINE = 6


def extremes(axis: Axis) -> tuple[float, float, float]:
    """The lowest, the second and the highest eigenvalue, in a/h²."""
    if axis.tabulated and (axis.transform is not None or axis.modes <= MOST_NODES_DENSE):
        values = np.sort(axis.eigenvalues)
        return float(values[0]), float(values[min(1, values.size - 1)]), float(values[-1])
    if axis.tabulated:
        low, second, high = _periodic_extremes(axis) if axis.wraps else _extremes_of(*_tridiagonal(axis))
        return low if axis.holds else 0.0, second, high
    low, second, high = (4.0 * math.sin(angle) ** 2 for angle in _extreme_angles(axis))
    return low, second, high


def eigenvalues(axis: Axis) -> Values:
    """The eigenvalues in the order of the modes, in a/h²; those of equally spaced nodes are 4 sin² θ.

    G. Strang, "The discrete cosine transform", SIAM Review 41, 1999, section 2.
    """
    if axis.transform is not None:
        return np.asarray(4.0 * np.sin(_angles(axis)) ** 2)
    if axis.modes <= MOST_NODES_DENSE or axis.wraps:
        values = np.linalg.eigvalsh(_symmetric(axis))
    else:
        from scipy.linalg import eigvalsh_tridiagonal

        values = eigvalsh_tridiagonal(*_tridiagonal(axis))
    if not axis.holds:
        values[0] = 0.0  # of the constants, but for rounding
    return np.asarray(values)


def eigenvectors(axis: Axis) -> tuple[Values, Values, Values]:
    """The eigenvalues in ascending order, the eigenvectors as columns, and the rows of the inverse of that matrix."""
    if axis.modes <= MOST_NODES_DENSE or axis.wraps:
        values, vectors = np.linalg.eigh(_symmetric(axis))
    else:
        from scipy.linalg import eigh_tridiagonal

        values, vectors = eigh_tridiagonal(*_tridiagonal(axis))
    if not axis.holds:
        # Rounding would hide a small c, or the weakly coupled modes of other axes.
        values[0] = 0.0
    root = np.sqrt(axis.widths[axis.free])[:, np.newaxis]
    columns, rows = np.zeros((axis.nodes, axis.modes)), np.zeros((axis.modes, axis.nodes))
    columns[axis.free], rows[:, axis.free] = vectors / root, (vectors * root).T
    return values, columns, rows


def walls_that_hold(axis: Axis) -> int:
    """How many of the two walls of an axis of cells hold u."""
    return sum(wall > 0.0 for wall in axis.walls)


def _angles(axis: Axis) -> Values:
    """θ of the eigenvalues 4 sin² θ of equally spaced nodes."""
    if axis.wraps:
        mode = np.arange(axis.nodes)
        return math.pi * np.minimum(mode, axis.nodes - mode) / axis.nodes
    if axis.placement is not None and not axis.fixed:
        return np.asarray(math.pi * (np.arange(axis.nodes) + walls_that_hold(axis) / 2) / (2 * axis.nodes))
    return np.asarray(math.pi * (np.arange(axis.modes) + axis.fixed / 2) / (2 * (axis.nodes - 1)))


def _extreme_angles(axis: Axis) -> tuple[float, float, float]:
    if axis.wraps:
        return 0.0, math.pi / axis.nodes, math.pi * (axis.nodes // 2) / axis.nodes
    step = math.pi / (2 * (axis.nodes - 1))
    if axis.fixed == 2:
        return step, 2 * step, (axis.nodes - 2) * step
    if axis.fixed == 0:
        return 0.0, step, math.pi / 2
    return step / 2, 3 * step / 2, (axis.nodes - 1.5) * step


def _extremes_of(diagonal: Values, beside: Values) -> tuple[float, float, float]:
    """The two lowest and the highest eigenvalue of a symmetric tridiagonal matrix, by bisection."""
    from scipy.linalg import eigvalsh_tridiagonal

    last = diagonal.size - 1
    lowest, (high,) = (
        eigvalsh_tridiagonal(diagonal, beside, select="i", select_range=wanted) for wanted in ((0, 1), (last, last))
    )
    return float(lowest[0]), float(lowest[1]), float(high)


def _periodic_extremes(axis: Axis) -> tuple[float, float, float]:
    """The two lowest and the highest eigenvalue on an axis that wraps, the lowest being that of the constants.

    Without the last node the matrix is tridiagonal, and its eigenvalues part those of the whole: below σ the whole has
    as many as the rest, and one more where what the last node keeps when the others are eliminated is negative.
    """
    from scipy.linalg import solve_banded

    lower, upper, extra = axis.couplings
    diagonal, beside = lower + upper + extra, -np.sqrt(upper * np.roll(lower, -1))
    lowest, next_lowest, highest = _extremes_of(diagonal[:-1], beside[:-2])
    to_last = np.zeros(diagonal.size - 1)
    to_last[[0, -1]] = beside[-1], beside[-2]
    bands = np.zeros((3, to_last.size))
    bands[0, 1:] = bands[2, :-1] = beside[:-2]

    def between(low: float, high: float) -> float:
        while low < (middle := (low + high) / 2) < high:
            bands[1] = diagonal[:-1] - middle
            kept = diagonal[-1] - middle - to_last @ solve_banded((1, 1), bands, to_last)
            low, high = (low, middle) if kept < 0 else (middle, high)
        return high

    return 0.0, between(lowest, next_lowest), between(highest, axis.norm)


def _symmetric(axis: Axis) -> Values:
    """W^½ A W^−½ on the nodes that are not fixed, with the control widths W."""
    root = np.sqrt(axis.widths[axis.free])
    symmetric = root[:, None] * axis.matrix[axis.free, axis.free] / root
    return np.asarray((symmetric + symmetric.T) / 2.0)


def _tridiagonal(axis: Axis) -> tuple[Values, Values]:
    """The diagonal of that matrix and the one beside it, where the axis does not wrap."""
    lower, upper, extra = (values[axis.free] for values in axis.couplings)
    off = -np.sqrt(upper[:-1] * lower[1:])
    for end, rule in zip((0, -1), axis.rules, strict=True):
        if rule is Rule.MIRROR and not axis.tabulated:
            off[end] *= math.sqrt(2.0)
    return lower + upper + extra, off
