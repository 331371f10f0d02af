"""Pictures of fields on a grid."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from poisson.mesh.axis import array_axis
from poisson.mesh.grid import AXES, Grid

LEVELS = 25
PANEL_INCHES = 4.2


def draw(grid: Grid, values: NDArray[Any], title: str, label: str) -> Figure:
    """Draw a scalar field.

    Parameters
    ----------
    grid : Grid
        Its nodes.
    values : float array
        Of the grid's ``array_shape``.
    title, label : str
        What stands above the picture and beside the colours.

    Returns
    -------
    Figure
        A curve in 1D, filled contours in 2D, the three planes through the middle of the box in 3D.
    """
    if grid.dimension == 1:
        figure = Figure(figsize=(PANEL_INCHES * 1.3, PANEL_INCHES), layout="constrained")
        axes = figure.subplots()
        axes.plot(*_closed(grid, 0, values))
        axes.set(title=title, xlabel="x", ylabel=label)
        axes.grid(alpha=0.3)
        return figure
    planes = [(0, 1)] if grid.dimension == 2 else [(0, 1), (0, 2), (1, 2)]
    figure = Figure(figsize=(PANEL_INCHES * len(planes) + 1.0, PANEL_INCHES), layout="constrained")
    every = np.atleast_1d(figure.subplots(1, len(planes)))
    limits = (float(values.min()), float(values.max()))
    for axes, (across, up) in zip(every, planes, strict=True):
        normal = next((axis for axis in range(grid.dimension) if axis not in (across, up)), None)
        plane, at = values, ""
        if normal is not None:
            middle = grid.shape[normal] // 2
            plane = np.take(values, middle, axis=array_axis(normal, grid.dimension))
            at = f"{AXES[normal]} = {grid.coordinates(normal)[middle]:.3g}"
        filled = _contours(axes, grid, plane, (across, up), limits)
        axes.set(title=title if normal is None else at)
    if grid.dimension == 3:
        figure.suptitle(title)
    figure.colorbar(filled, ax=list(every), label=label)
    return figure


def _contours(axes: Axes, grid: Grid, plane: NDArray[Any], shown: tuple[int, int], limits: tuple[float, float]) -> Any:
    """Filled contours of an array (up, across) over two axes of the grid."""
    across, up = shown
    x, plane = _closed(grid, across, plane)
    y, turned = _closed(grid, up, plane.T)
    low, high = limits
    # Colours of opposite kinds show the sign, where there are both.
    signed = low < 0.0 < high and min(-low, high) > 0.1 * max(-low, high)
    if signed:
        low, high = -max(-low, high), max(-low, high)
    if low == high:
        low, high = low - 0.5, high + 0.5
    colours = "RdBu_r" if signed else "viridis"
    filled = axes.contourf(x, y, turned.T, levels=np.linspace(low, high, LEVELS), cmap=colours)
    axes.set(xlabel=AXES[across], ylabel=AXES[up], aspect="equal")
    return filled


def _closed(grid: Grid, axis: int, values: NDArray[Any]) -> tuple[NDArray[np.float64], NDArray[Any]]:
    """The coordinates along an axis, the last of `values`, and the values, with the node that a period repeats."""
    along = grid.coordinates(axis)
    if not grid.periodic[axis]:
        return along, values
    return np.append(along, grid.upper[axis]), np.concatenate([values, values[..., :1]], axis=-1)
