# SPDX-License-Identifier: MIT
"""The open parts of control volumes that a surface cuts, and derivatives on one side of it, against geometry."""

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from poisson.discrete.cut_volumes import LEAST, CutVolumes, Piece, corners, cut_volumes
from poisson.discrete.one_sided import Ends, one_sided
from poisson.mesh.axis import Axis
from poisson.mesh.boundary import Kind, Rule
from poisson.mesh.lattice import Lattice
from poisson.mesh.placement import Cells, Nodes

PERIODIC = (Kind.PERIODIC, Kind.PERIODIC)
LINES = {
    "uniform": Axis.between(-1.0, 1.0, 9, (Rule.FIXED, Rule.MIRROR)),
    "stretched": Axis.placed(Nodes(np.array([-1.0, -0.7, -0.5, -0.1, 0.2, 0.25, 0.6, 1.0]))),
    "cells": Axis.placed(Cells(np.array([-1.0, -0.7, -0.5, -0.1, 0.2, 0.25, 0.6, 1.0]))),
    "periodic": Axis.between(-1.0, 1.0, 8, (Rule.WRAP, Rule.WRAP)),
    "periodic nodes": Axis.placed(Nodes(np.array([-1.0, -0.7, -0.5, -0.1, 0.2, 0.25, 0.6, 1.0]), PERIODIC)),
    "periodic cells": Axis.placed(Cells(np.array([-1.0, -0.7, -0.5, -0.1, 0.2, 0.25, 0.6, 1.0]), PERIODIC)),
}


def of(lattice: Lattice, level: NDArray[Any], closed: NDArray[Any] | None = None) -> CutVolumes:
    return cut_volumes(lattice, [Piece((0,) * level.ndim, level)], closed)


def cut(lattice: Lattice, level: Callable[..., Any]) -> CutVolumes:
    places = [lattice.along(axis, corners(line)) for axis, line in enumerate(lattice.axes)]
    return of(lattice, np.asarray(level(*places)) + 0.0 * sum(places))


def cells(lattice: Lattice) -> np.ndarray:
    return math.prod(lattice.along(axis, np.diff(corners(line))) for axis, line in enumerate(lattice.axes))


@pytest.mark.parametrize("name", LINES)
def test_corners_are_the_ends_of_the_control_widths(name: str) -> None:
    line = LINES[name]
    np.testing.assert_allclose(np.diff(corners(line)), line.lengths, rtol=1e-14)
    if not line.wraps:
        assert (corners(line)[0], corners(line)[-1]) == (-1.0, 1.0)


@pytest.mark.parametrize("names", [("uniform",), ("stretched", "cells"), ("uniform", "cells", "stretched")])
def test_what_a_plane_cuts_off_is_exact(names: tuple[str, ...]) -> None:
    """Below x + y/2 + z/3 = p lies the volume that inclusion and exclusion of the corners of the box gives."""
    lattice = Lattice(tuple(LINES[name] for name in names))
    dimension, normal = len(names), 1.0 / np.arange(1, len(names) + 1)
    place = 0.3 - normal.sum()
    found = cut(lattice, lambda *x: place - sum(n * along for n, along in zip(normal, x, strict=True)))

    def below(power: int) -> float:
        """Σ ± max(0, p − n·corner)^power / power!: the volume times ∏n, and its derivative by p."""
        ends = itertools.product((0.0, 2.0), repeat=dimension)
        signed = ((-1.0) ** np.count_nonzero(end) * max(0.0, 0.3 - normal @ end) ** power for end in ends)
        return sum(signed) / math.factorial(power)

    area = below(dimension - 1) / np.prod(normal) * np.sqrt((normal**2).sum()) if dimension > 1 else 1.0
    assert (found.volumes.on() * cells(lattice)).sum() == pytest.approx(below(dimension) / np.prod(normal), rel=1e-13)
    assert found.areas.sum() == pytest.approx(area, rel=1e-13)
    np.testing.assert_allclose(found.normals, np.broadcast_to(normal / np.linalg.norm(normal), found.normals.shape))
    np.testing.assert_allclose(found.centres @ normal, place, atol=1e-14)


@pytest.mark.parametrize("dimension", [2, 3])
def test_a_sphere_is_closed_its_image_mirrored_and_its_measures_of_second_order(dimension: int) -> None:
    radius, error = 0.61, []
    exact = {
        2: (math.pi * radius**2, 2.0 * math.pi * radius),
        3: (4 / 3 * math.pi * radius**3, 4 * math.pi * radius**2),
    }
    for nodes in (17, 33):
        lattice = Lattice.box((-1.0,) * dimension, (1.0,) * dimension, (nodes,) * dimension)
        found = cut(lattice, lambda *x: np.sqrt(sum(along**2 for along in x)) - radius)
        volumes = found.volumes.on()
        inside = 2.0**dimension - (volumes * cells(lattice)).sum()
        error.append([abs(inside - exact[dimension][0]), abs(found.areas.sum() - exact[dimension][1])])
        np.testing.assert_allclose(found.surface.sum(axis=0), 0.0, atol=1e-13)
        for axis in range(dimension):
            np.testing.assert_allclose(np.flip(volumes, axis), volumes, atol=1e-12)
        np.testing.assert_allclose(np.swapaxes(volumes, 0, 1), volumes, atol=1e-12)
    order = np.log2(np.divide(*error))
    assert np.all((order > 1.75) & (order < 2.4)), order


@pytest.mark.parametrize(("slope", "height"), [(0.0, 0.0), (0.0, 1.0), (0.6, 0.4), (-0.4, 0.9)])
@pytest.mark.parametrize("line", ["uniform", "stretched", "cells"])
def test_cones_cylinders_and_planes_around_an_axis_are_exact(line: str, slope: float, height: float) -> None:
    """The solid of revolution below r = radius + slope z, or below a plane across the axis: its volume, its surface."""
    radius = Axis.placed(Nodes(np.array([0.0, 0.21, 0.3, 0.55, 0.6, 0.93, 1.3, 2.0]), power=1))
    lattice = Lattice((radius, LINES[line]), "cylinder")
    tip, angle = 0.57 + height * 0.21, math.hypot(1.0, slope)
    if height == 1.0:  # a plane across the axis
        found = cut(lattice, lambda r, z: z - 0.37 + 0.0 * r)
        volume, area = 2.0 * math.pi * 2.0 * 1.37, 2.0 * math.pi * 2.0
        np.testing.assert_allclose(found.centres[:, 1], 0.37, atol=1e-14)
    else:
        found = cut(lattice, lambda r, z: (r - tip - slope * z) / angle)
        volume, area = math.pi * 2.0 * (tip**2 + slope**2 / 3.0), 4.0 * math.pi * tip * angle
        np.testing.assert_allclose(found.centres[:, 0] - slope * found.centres[:, 1], tip, atol=1e-14)
        np.testing.assert_allclose(found.normals, np.broadcast_to([-1.0 / angle, slope / angle], (len(found.body), 2)))
    widths = [np.diff(corners(radius) ** 2 / 2.0), np.diff(corners(LINES[line]))]
    closed = (1.0 - found.volumes.on()) * np.outer(widths[1], widths[0])
    assert 2.0 * math.pi * closed.sum() == pytest.approx(volume, rel=1e-13)
    assert 2.0 * math.pi * found.areas.sum() == pytest.approx(area, rel=1e-13)


def test_a_plane_in_r_phi_and_z_cuts_off_what_the_corners_of_the_box_say() -> None:
    """Volumes and faces across z have the weight r; those across phi have none. Inclusion and exclusion, as above."""
    ends = (np.array([0.2, 0.7, 1.0, 1.4]), np.array([0.0, 0.3, 0.7, 1.1]), np.array([-0.4, 0.1, 0.5, 0.9]))
    lines = [Axis.placed(Cells(marks, power=int(axis == 0))) for axis, marks in enumerate(ends)]
    lattice, slopes, place = Lattice(tuple(lines), "cylinder"), np.array([0.9, 0.7, 0.6]), 1.3
    found = cut(lattice, lambda r, phi, z: slopes[0] * r + slopes[1] * phi + slopes[2] * z - place)

    def below(axes: tuple[int, ...], at: float, weighted: bool) -> float:
        total, power = 0.0, len(axes)
        for corner in itertools.product((0, -1), repeat=power):
            x = [ends[axis][end] for axis, end in zip(axes, corner, strict=True)]
            left = max(0.0, place - at - float(slopes[list(axes)] @ x))
            value = left**power / math.factorial(power)
            if weighted:
                value = x[0] * value + left ** (power + 1) / math.factorial(power + 1) / slopes[0]
            total += (-1.0) ** corner.count(-1) * value / float(np.prod(slopes[list(axes)]))
        return total

    of_r, of_phi, of_z = np.diff(ends[0] ** 2 / 2.0), np.diff(ends[1]), np.diff(ends[2])
    closed, through_phi, through_z = (1.0 - each.on() for each in (found.volumes, found.faces[1], found.faces[2]))
    volumes = of_z[:, np.newaxis, np.newaxis] * of_phi[:, np.newaxis] * of_r
    assert (closed * volumes).sum() == pytest.approx(below((0, 1, 2), 0.0, True), rel=1e-13)
    area = (through_z[0] * of_phi[:, np.newaxis] * of_r).sum()
    assert area == pytest.approx(below((0, 1), slopes[2] * ends[2][0], True), rel=1e-13)
    area = (through_phi[:, 0] * of_z[:, np.newaxis] * np.diff(ends[0])).sum()
    assert area == pytest.approx(below((0, 2), 0.0, False), rel=1e-13)
    np.testing.assert_allclose(found.centres @ slopes, place, atol=1e-14)


def test_faces_are_shared_and_slivers_closed() -> None:
    lattice = Lattice((LINES["periodic"], LINES["uniform"]))
    found = cut(lattice, lambda x, y: np.cos(np.pi * (x - 0.13)) + 0.2 + 0.0 * y)
    faces = [each.on() for each in found.faces]
    np.testing.assert_array_equal(faces[0][:, 0], faces[0][:, -1])
    np.testing.assert_array_equal(found.links(lattice, 0).on()[:, -1], faces[0][:, 0])
    askew = cut(lattice, lambda x, y: 0.9 - y + 0.1 * np.cos(np.pi * x)).links(lattice, 1).on()
    assert askew[-2].any()
    np.testing.assert_array_equal(askew[-1], askew[-2])
    np.testing.assert_array_equal(found.on_face(lattice, 3), faces[1][-1])
    sliver = cut(lattice, lambda x, y: y - (0.875 - 0.125 * LEAST) + 0.0 * x)
    assert not sliver.volumes.on()[:-1].any() and not sliver.faces[1].on()[:-1].any()
    assert not of(lattice, np.ones((10, 9)), np.arange(72)).faces[0].on().any()


def test_derivatives_beside_surfaces_are_exact_for_parabolas() -> None:
    """A surface at a part of a link, and nothing beyond a link, on equally spaced and on stretched nodes."""
    for name in ("uniform", "stretched", "periodic"):
        line = LINES[name]
        lattice = Lattice((line, LINES["uniform"]))
        x = line.coordinates
        u = (x**2 + 0.5 * x) * np.ones((9, 1))
        gap, row = line.gaps[4], 3 * line.nodes
        slope = 2.0 * x + 0.5
        cases = {
            # to the surface, whose slope is that in the middle, and to nothing
            row + 4: (1, 0.3 * gap, slope[4] + 0.3 * gap, slope[4]),
            2 * row + 4: (1, gap, np.nan, slope[4]),
            2 * row + 5: (0, gap, np.nan, slope[5]),
        }
        ends = [np.array(column) for column in zip(*((node, *case[:3]) for node, case in cases.items()), strict=True)]
        out = np.zeros_like(u)
        one_sided(lattice, 0, u, Ends(*ends), out)
        for node, (*_, expected) in cases.items():
            assert out.ravel()[node] == pytest.approx(expected, rel=1e-12), (name, node)
            out.ravel()[node] = 0.0
        assert not out.any()
        both = Ends(np.array([4, 4]), np.array([0, 1]), np.array([gap, gap]), np.array([np.nan, np.nan]))
        out[0, 4] = 7.0
        one_sided(lattice, 0, u, both, out)
        assert out[0, 4] == 0.0
