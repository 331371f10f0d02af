# SPDX-License-Identifier: MIT
"""Surfaces on which a field in three dimensions has one value."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import numpy as np
from mpl_toolkits.mplot3d import Axes3D
from mpl_toolkits.mplot3d.art3d import Poly3DCollection
from numpy.typing import NDArray

from poisson.output.pictures.samples import FieldSample
from poisson.output.pictures.scales import Scale, rounded

_LIGHT = np.array([-0.35, -0.75, 0.55])
_FLATTEST = 0.4
"""The least part of the longest side of a box as which the others are drawn."""


def surface(
    values: NDArray[np.float64], coordinates: tuple[NDArray[np.float64], ...], level: float
) -> NDArray[np.float64]:
    """Triangles of the surface on which a field has a value.

    Each cell is cut into six tetrahedra around its diagonal, in which the field is taken as linear: the surface cuts a
    tetrahedron in a triangle, or in a quadrangle of two.

    `values` (float array, (nz, ny, nx)): the field; cells where it is not finite are left out. `coordinates` (tuple of
    float array): of the nodes along x, y, z. `level`: the value. Returns: shape (triangles, 3, 6): of each
    corner x, y, z and the gradient of the field.

    Reference: A. Doi and A. Koide, "An efficient method of triangulating equi-valued surfaces by using tetrahedral
    cells", IEICE Transactions E74, 1991.
    """
    x, y, z = coordinates
    slopes: list[NDArray[Any]] = list(np.gradient(values, z, y, x))
    points = np.stack(np.meshgrid(z, y, x, indexing="ij"), axis=-1)[..., ::-1]
    nodes = np.concatenate([points, np.stack(slopes[::-1], axis=-1)], axis=-1).reshape(-1, 6)
    flat = values.ravel()
    steps = np.array([1, values.shape[2], values.shape[1] * values.shape[2]])
    cells = np.arange(values.size).reshape(values.shape)[:-1, :-1, :-1].ravel()
    triangles = []
    for order in permutations(steps):
        tetrahedra = cells[:, None] + np.concatenate([[0], np.cumsum(order)])
        inside = flat[tetrahedra]
        cut = np.isfinite(inside).all(axis=1) & (inside.min(axis=1) < level) & (inside.max(axis=1) >= level)
        tetrahedra = np.take_along_axis(tetrahedra[cut], np.argsort(inside[cut], axis=1), axis=1)
        below = (flat[tetrahedra] < level).sum(axis=1)

        def corner(rows: NDArray[Any], one: int, other: int, tetrahedra: NDArray[Any] = tetrahedra) -> Any:
            first, last = tetrahedra[rows, one], tetrahedra[rows, other]
            part = (level - flat[first]) / (flat[last] - flat[first])
            return nodes[first] + part[:, None] * (nodes[last] - nodes[first])

        for count, edges in (
            (1, ((0, 1), (0, 2), (0, 3))),
            (3, ((0, 3), (1, 3), (2, 3))),
            (2, ((0, 2), (0, 3), (1, 3))),
            (2, ((0, 2), (1, 2), (1, 3))),
        ):
            rows = below == count
            triangles.append(np.stack([corner(rows, *edge) for edge in edges], axis=1))
    return np.concatenate(triangles)


def levels_of(scale: Scale, values: NDArray[np.float64]) -> list[float]:
    """Round values that show most of a field as surfaces: one of each sign, or two of one sign, the outer one first."""
    finite = values[np.isfinite(values)]
    low, high = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 0.0)
    zero = float(scale.norm(0.0)) if scale.signed else 0.0
    places = (0.6 * zero, zero + 0.4 * (1.0 - zero)) if scale.signed else (0.3, 0.65)
    wanted = [float(scale.norm.inverse(place)) for place in places]
    found = [rounded(level, min(abs(level), high - low)) for level in wanted if level and high > low]
    found = [level for level in found if low < level < high]
    # The outer surface is the one whose value is nearer to those on the border.
    border = np.concatenate([np.take(values, end, axis).ravel() for axis in range(values.ndim) for end in (0, -1)])
    outside = float(scale.norm(np.median(scale.clipped(border).compressed()))) if found else 0.0
    return sorted(dict.fromkeys(found), key=lambda level: abs(float(scale.norm(level)) - outside))


def draw_surfaces(axes: Axes3D, sample: FieldSample, scale: Scale, levels: list[float]) -> None:
    """The surfaces, lit from one side; the outer of two of one sign is cut open."""
    every, colours = [], []
    extent = np.array([np.ptp(along) for along in sample.coordinates])
    box = np.maximum(extent, _FLATTEST * extent.max())
    for level in levels:
        triangles = surface(sample.values, sample.coordinates, level)
        normals = triangles[..., 3:].mean(axis=1) * (extent / box)
        length = np.linalg.norm(normals, axis=1)
        lit = np.abs(normals @ (_LIGHT / np.linalg.norm(_LIGHT))) / np.where(length > 0.0, length, 1.0)
        colour = np.array(scale.colours(scale.norm(level)))
        shaded = np.empty((len(triangles), 4))
        shaded[:, :3] = np.clip(colour[:3] * (0.55 + 0.5 * lit[:, None]) + 0.15 * lit[:, None] ** 6, 0.0, 1.0)
        shaded[:, 3] = 1.0
        every.append(triangles[..., :3])
        colours.append(shaded)
    if len(every) > 1 and levels[0] * levels[1] >= 0.0:
        # The outer one of two is cut open on the side of the viewer.
        place, cut = every[0].mean(axis=1), every[1].mean(axis=(0, 1)) if len(every[1]) else np.zeros(3)
        kept = (place[:, 0] < cut[0]) | (place[:, 1] > cut[1])
        every[0], colours[0] = every[0][kept], colours[0][kept]
    if every:
        faces = Poly3DCollection(
            np.concatenate(every),
            facecolors=np.concatenate(colours),
            edgecolors=np.concatenate(colours),
            linewidths=0.2,
        )
        axes.add_collection3d(faces)
    for name, along in zip("xyz", sample.coordinates, strict=True):
        getattr(axes, f"set_{name}lim")(along[0], along[-1])
    axes.set_box_aspect(box, zoom=1.05)
    axes.view_init(elev=22.0, azim=-60.0)
