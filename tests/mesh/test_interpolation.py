# SPDX-License-Identifier: MIT
"""Values between the nodes."""

import math

import numpy as np
import pytest

from poisson.errors import GridError
from poisson.mesh import interpolation
from poisson.mesh.axis import plain_rules
from poisson.mesh.interpolation import interpolate
from poisson.mesh.lattice import Lattice

BOX = Lattice.box((0.0, -1.0, 2.0), (1.0, 1.0, 5.0), (5, 6, 4))


def test_cubics_are_exact_for_cubics_everywhere() -> None:
    x, y, z = (BOX.coordinates(axis) for axis in range(3))
    u = x**3 * (y**2)[:, None] * (z - 1.0)[:, None, None] - 2.0
    points = np.random.default_rng(1).uniform(BOX.lower, BOX.upper, (200, 3))
    points[:8] = [[a, b, c] for a in (0.0, 1.0) for b in (-1.0, 1.0) for c in (2.0, 5.0)]
    wanted = points[:, 0] ** 3 * points[:, 1] ** 2 * (points[:, 2] - 1.0) - 2.0
    np.testing.assert_allclose(interpolate(BOX, u, points.T), wanted, rtol=1e-12, atol=1e-12)


def test_at_nodes_the_values_are_those_of_the_nodes() -> None:
    u = np.random.default_rng(2).standard_normal(BOX.array_shape)
    x, y, z = (BOX.coordinates(axis) for axis in range(3))
    found = interpolate(BOX, u, (x, y[:, None], z[:, None, None]))
    np.testing.assert_array_equal(found, u)


@pytest.mark.parametrize("periodic", [False, True])
def test_the_error_is_of_fourth_order(periodic: bool) -> None:
    points = np.random.default_rng(3).uniform(0.0, 1.0, (2, 300))
    errors = []
    for n in (16, 32):
        grid = Lattice.box((0.0, 0.0), (1.0, 1.0), (n, n + 1), plain_rules(periodic, False))
        x, y = grid.coordinates(0), grid.coordinates(1)[:, None]
        found = interpolate(grid, np.sin(2.0 * math.pi * x) * np.exp(y), points)
        errors.append(float(abs(found - np.sin(2.0 * math.pi * points[0]) * np.exp(points[1])).max()))
    assert math.log2(errors[0] / errors[1]) > 3.6


def test_periodic_axes_wrap_around() -> None:
    grid = Lattice.box((1.0,), (3.0,), (8,), plain_rules(True))
    u = np.sin(math.pi * grid.coordinates(0))
    places = np.array([1.05, 2.9, 2.999, 3.0])
    inside = interpolate(grid, u, (places,))
    np.testing.assert_allclose(interpolate(grid, u, (places + 6.0,)), inside, rtol=1e-12)
    np.testing.assert_allclose(interpolate(grid, u, (places - 4.0,)), inside, rtol=1e-12)
    assert inside[3] == u[0]


def test_vectors_scalars_types_and_many_points(monkeypatch: pytest.MonkeyPatch) -> None:
    grid = Lattice.box((0.0, 0.0), (1.0, 1.0), (3, 3))
    x, y = grid.coordinates(0), grid.coordinates(1)[:, None]
    u = np.stack([x**2 + 0.0 * y, y**2 + 0.0 * x], axis=-1).astype(np.float32)
    monkeypatch.setattr(interpolation, "AT_ONCE", 2)
    found = interpolate(grid, u, ([0.3, 0.6, 0.9], [[0.5], [0.25]]))
    assert (found.shape, found.dtype) == ((2, 3, 2), np.float32)
    np.testing.assert_allclose(found[1, :, 0], [0.09, 0.36, 0.81], rtol=1e-6)
    np.testing.assert_allclose(found[:, 2, 1], [0.25, 0.0625], rtol=1e-6)
    assert interpolate(grid, u[..., 0], (0.5, 0.5)).shape == ()


@pytest.mark.parametrize(
    ("points", "reason"),
    [
        ((0.5, 0.5), "coordinates: 2 given; this grid needs x, y, z"),
        ((0.5, 1.5, 3.0), r"y = 1\.5: outside of the box; allowed: within \[-1, 1\]"),
        ((0.5, [0.0, -1.0 - 1e-12], 3.0), r"y = -1: outside of the box"),
        ((math.nan, 0.0, 3.0), "x = nan: outside of the box"),
        (("a", 0.0, 3.0), r"x, y, z: numbers or arrays that broadcast are needed \(could not convert"),
        (([1, 2], [1, 2, 3], 3.0), "numbers or arrays that broadcast are needed"),
    ],
)
def test_points_that_are_none_of_the_box_are_refused(points: tuple[object, ...], reason: str) -> None:
    with pytest.raises(GridError, match=reason):
        interpolate(BOX, np.zeros(BOX.array_shape), points)


def test_on_a_periodic_axis_only_numbers_are_places() -> None:
    grid = Lattice.box((0.0,), (1.0,), (8,), plain_rules(True))
    with pytest.raises(GridError, match="x = inf: outside of the box; allowed: a finite number"):
        interpolate(grid, np.zeros(8), (math.inf,))
