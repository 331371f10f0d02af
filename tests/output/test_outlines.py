# SPDX-License-Identifier: MIT
"""Outlines of bodies in pictures: where they are, and what they cover."""

from typing import Any

import numpy as np
import pytest

import poisson
from poisson import Body, Problem

DISC = "hypot(x - 0.4, y - 0.5) < 0.2"
x, y = np.meshgrid(*(np.linspace(0.0, 1.0, 17),) * 2)
SURFACES = {"condition": DISC, "distance": np.hypot(x - 0.4, y - 0.5) - 0.2}


CONDITIONS: dict[str, Any] = {"dirichlet": 1.0, "a": 5.0, "neumann": 0.0}


@pytest.mark.parametrize(("surface", "kinds"), [("condition", ["dirichlet", "a", "neumann"]), ("distance", ["a"])])
def test_a_surface_is_drawn_where_it_is(surface: str, kinds: list[str]) -> None:
    """And all but dielectrics are covered; a body that does not reach the plane is not drawn."""
    found = {}
    for kind in kinds:
        bodies = [Body(SURFACES[surface], **{kind: CONDITIONS[kind]}), Body("x > 2", dirichlet=0.0)]
        picture = poisson.solve(Problem.on_box((17, 17), f=1.0, bodies=bodies)).plot(lines=True)
        found[kind] = [each for each in picture.axes[0].collections if 3.4 < each.get_zorder() < 3.7]
    assert {kind: len(drawn) for kind, drawn in found.items()} == {kind: 1 if kind == "a" else 2 for kind in kinds}
    for drawn in found.values():
        points = np.concatenate([path.vertices for path in drawn[-1].get_paths()])
        distance = np.hypot(*(points - (0.4, 0.5)).T)
        assert np.abs(distance - 0.2).max() < (1e-3 if surface == "condition" else 1e-2)


def test_a_patch_of_a_face_is_drawn_along_it() -> None:
    patches = [{"where": "abs(x - 0.5) < 0.2", "dirichlet": 1.0}, {"neumann": 0.0}]
    problem = Problem.on_box((17, 9), boundary={"y_upper": patches, "all": {"dirichlet": 0.0}})
    [drawn] = [each for each in poisson.solve(problem).plot().axes[0].lines if each.get_zorder() == 3.6]
    along, height = drawn.get_data()
    np.testing.assert_allclose([along.min(), along.max()], [0.3, 0.7], atol=1 / 299)
    assert set(height) == {1.0}


def test_planes_of_a_box_show_the_bodies_that_they_cut() -> None:
    bodies = [Body({"shape": "sphere", "center": (0.5, 0.5, 0.5), "radius": 0.25}, dirichlet=1.0)]
    solution = poisson.solve(Problem.on_box((9, 9, 9), bodies=bodies))
    drawn = [
        [each for each in axes.collections if each.get_zorder() == 3.6]
        for axes in solution.plot(slice="z=0.4").axes[:1]
    ]
    points = np.concatenate([path.vertices for path in drawn[0][0].get_paths()])
    assert np.abs(np.hypot(*(points - 0.5).T) - np.sqrt(0.25**2 - 0.1**2)).max() < 1e-3
    assert not any(each.get_zorder() == 3.6 for each in solution.plot(slice="z=0.9").axes[0].collections)
    assert sum(any(each.get_zorder() == 3.6 for each in axes.collections) for axes in solution.plot().axes) == 3


def test_a_disc_of_r_and_phi_shows_its_bodies_in_x_and_y() -> None:
    disc = Body({"shape": "sphere", "center": (0.5, 0.7), "radius": 0.2}, dirichlet=1.0)
    box: dict[str, Any] = {"upper": (1.0, 2.0 * np.pi), "boundary": {"r_upper": 0.0, "phi": "periodic"}}
    picture = poisson.solve(Problem.on_box((16, 48), system="polar", bodies=[disc], **box)).plot()
    [drawn] = [each for each in picture.axes[0].collections if each.get_zorder() == 3.6]
    points = np.concatenate([path.vertices for path in drawn.get_paths()])
    assert np.abs(np.hypot(*(points - 0.5 * np.array([np.cos(0.7), np.sin(0.7)])).T) - 0.2).max() < 1e-3
