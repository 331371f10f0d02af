# SPDX-License-Identifier: MIT
"""Outlines of bodies in a plane: their surfaces, and a cover over the field where it has no meaning or no change."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.axes import Axes

from poisson.errors import PoissonError
from poisson.mesh.interpolation import interpolate
from poisson.problem.bodies import DIELECTRIC

if TYPE_CHECKING:
    from poisson.output.pictures.samples import FieldSample
    from poisson.problem.problem import Problem

POINTS = 300
"""Points along an axis at which a surface is looked for."""

_COVER = "0.85"


def draw_outlines(axes: Axes, problem: Problem, at: Mapping[int, float], shown: FieldSample) -> None:
    """Draw the surfaces of the bodies of a problem over a plane, and cover what is inside of all but dielectrics.

    `at`: the coordinates of the plane along the axes that it does not go along. `shown`: what is drawn on it.
    """
    if not problem.bodies:
        return
    from poisson.problem.surfaces import Level

    grid = problem.lattice
    x, y = (np.linspace(along[0], along[-1], POINTS) for along in shown.coordinates)
    places = [np.full((POINTS, POINTS), at.get(axis, 0.0)) for axis in range(grid.dimension)]
    places[shown.axes[0]], places[shown.axes[1]] = np.meshgrid(x, y)
    beyond = np.zeros((POINTS, POINTS), dtype=bool)
    if grid.angle is not None and shown.axes == (0, 1):  # r and phi are drawn in x and y
        start, stop = grid.axes[1].interval
        places[0], angle = np.hypot(*places[:2]), np.arctan2(places[1], places[0])
        places[1] = start + np.mod(angle - start, 2.0 * np.pi)
        beyond = (places[0] < grid.lower[0]) | (places[0] > grid.upper[0]) | (places[1] > stop)
    for number, body in enumerate(problem.bodies, start=1):
        try:
            level = Level(problem.lattice, f"body.{number}.inside", body.inside)
        except PoissonError:
            continue  # of a result whose files are gone
        if level.values is None:
            values = np.broadcast_to(level.at(places), places[0].shape)
        else:
            values = interpolate(problem.lattice, level.values.reshape(problem.lattice.array_shape), places)
        values = np.where(beyond, values.max(), values)
        if not values.min() <= 0.0 < values.max():
            continue
        if values.min() == 0.0:  # a part of a face, such as a patch
            on = values == 0.0
            x_on, y_on = (places[axis][on] for axis in shown.axes)
            axes.plot(x_on, y_on, "ks", markersize=2.0, clip_on=False, zorder=3.6)
            continue
        if body.kind != DIELECTRIC:
            axes.contourf(x, y, values, levels=[values.min(), 0.0], colors=[_COVER], zorder=3.5)
        axes.contour(x, y, values, levels=[0.0], colors="black", linewidths=1.0, linestyles="solid", zorder=3.6)
