# SPDX-License-Identifier: MIT
"""Where bodies are, and where their surfaces cut links: against the points of surfaces that are known."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.places import ROOT

import poisson
from poisson.problem.expressions import parse_inside
from poisson.problem.fields import FieldFile
from poisson.problem.surfaces import TINY, Cuts

R = 0.3
X, Y = np.linspace(-1.0, 1.0, 41)[np.newaxis], np.linspace(-1.0, 1.0, 33)[:, np.newaxis]
EPS = float(np.finfo(np.float64).eps)


def problem(*insides: Any, shape: tuple[int, ...] = (41, 33), **given: Any) -> poisson.Problem:
    bodies = [poisson.Body(inside, dirichlet=1.0) for inside in insides]
    corners = {"lower": (-1.0,) * len(shape), "upper": (1.0,) * len(shape)}
    return poisson.Problem.on_box(shape, bodies=bodies, **corners, **given)


def cuts(*insides: Any, **given: Any) -> Cuts:
    found = problem(*insides, **given).cuts
    assert found is not None
    return found


@pytest.mark.parametrize(
    "inside",
    [
        f"x**2 + y**2 < {R}**2",
        f"hypot(x, y) <= {R}",
        f"not (hypot(x, y) > {R} or x > 7)",
        lambda x, y: np.hypot(x, y) - R,
        lambda x, y: x * x + y * y < R * R,
        {"shape": "sphere", "center": (0.0, 0.0), "radius": R},
    ],
)
def test_surfaces_are_found_to_rounding_whatever_a_body_is_given_by(inside: Any) -> None:
    found = cuts(inside)
    assert np.array_equal(found.inside > 0, np.hypot(X, Y) <= R * (1.0 + 4.0 * EPS)) or callable(inside)
    assert np.abs(np.hypot(*found.places) - R).max() <= max(4.0 * EPS, TINY * 0.05 * callable(inside))
    assert found.node.size == (40 if callable(inside) and found.theta.min() == TINY else 44)


def test_arrays_know_surfaces_to_first_order_and_masks_have_theirs_at_their_nodes() -> None:
    found = cuts(np.hypot(X, Y) - R)
    assert 1e-4 < np.abs(np.hypot(*found.places) - R).max() < 0.02
    masked = cuts(np.hypot(X, Y) <= R)
    assert np.array_equal(masked.theta, np.ones(42))


def test_files_have_distances_and_masks(tmp_path: Path) -> None:
    for name, values in (("distance", np.hypot(X, Y) - R), ("mask", (np.hypot(X, Y) <= R).astype(int))):
        np.save(tmp_path / f"{name}.npy", values)
        by_file = cuts(poisson.problem.fields.FieldFile(tmp_path / f"{name}.npy"))
        by_array = cuts(values)
        assert np.array_equal(by_file.theta, by_array.theta) and np.array_equal(by_file.inside, by_array.inside)


def test_a_plate_between_two_nodes_cuts_both_ends_of_a_link() -> None:
    found = cuts("abs(x - 0.013) < 1e-7")
    assert np.count_nonzero(found.inside) == 0 and found.node.size == 2 * 31
    assert np.abs(np.abs(found.places[0] - 0.013) - 1e-7).max() < 2.0 * EPS
    assert np.array_equal(found.side[:4], [1, 0, 1, 0]) and found.theta[0] == pytest.approx(0.26 - 2e-6, abs=1e-12)


def test_nodes_on_a_surface_are_on_it_at_edges_too() -> None:
    """The plane x = 0.2 is no number of float64, and some of its nodes lie before it."""
    found = cuts({"shape": "box", "center": (0.0, 0.0), "size": (0.4, 0.5)})
    assert np.array_equal(found.inside > 0, (np.abs(X) < 0.2001) & (np.abs(Y) < 0.2501))
    assert found.node.size == 2 * (9 + 9) and np.abs(found.theta - 1.0).max() < 1e-12


def test_of_two_surfaces_on_a_link_the_nearer_counts_and_of_two_bodies_the_first() -> None:
    found = cuts("x > 0.26", "abs(x - 0.22) < 0.01", "x > 0.1", shape=(21, 3))
    # From x = 0 towards 0.1: the third body; between the nodes 0.2 and 0.3, both inside, nothing is asked.
    assert found.inside[1].tolist() == [0] * 11 + [3] * 2 + [1] * 8
    found = cuts("x > 0.26", "abs(x - 0.22) < 0.01", shape=(21, 3))
    assert found.body.tolist() == [2] and found.theta == pytest.approx([0.1], abs=1e-12)


def test_shapes_go_on_across_a_periodic_face() -> None:
    whole = cuts(
        {"shape": "sphere", "center": (0.0, 0.0), "radius": R}, shape=(40, 33), boundary={"x": "periodic", "all": 0.0}
    )
    moved = cuts(
        {"shape": "sphere", "center": (1.0, 0.0), "radius": R}, shape=(40, 33), boundary={"x": "periodic", "all": 0.0}
    )
    assert np.array_equal(np.roll(whole.inside, 20, axis=1), moved.inside)
    assert np.allclose(np.sort(whole.theta), np.sort(moved.theta), rtol=0.0, atol=1e-13)


def test_links_across_a_mirror_are_cut_on_both_sides() -> None:
    found = cuts("abs(x + 0.975) < 0.01", boundary={"all": {"neumann": 0.0}}, shape=(41, 3))
    at_the_face = found.node % 41 == 0
    assert found.side[at_the_face].tolist() == [0, 1] * 3
    assert np.allclose(found.theta[at_the_face], 0.3) and np.allclose(found.places[0][at_the_face], -0.985)


@pytest.mark.parametrize(
    ("shape", "level"),
    [
        (
            {"shape": "box", "center": (0.1, 0.0, 0.2), "size": (0.4, 0.5, 0.6)},
            ("abs(x - 0.1) < 0.2 and abs(y) < 0.25 and abs(z - 0.2) < 0.3"),
        ),
        ({"shape": "cylinder", "center": (0.1, 0.0, 0.2), "radius": 0.4, "axis": "y"}, "hypot(x - 0.1, z - 0.2) < 0.4"),
        (
            {"shape": "cylinder", "center": (0.1, 0.0, 0.2), "radius": 0.4, "axis": "z", "length": 1.0},
            "hypot(x - 0.1, y) < 0.4 and abs(z - 0.2) < 0.5",
        ),
        ({"shape": "half_space", "center": (0.1, 0.0, 0.0), "normal": (3.0, 4.0, 0.0)}, "0.6*(x - 0.1) + 0.8*y < 0"),
    ],
)
def test_shapes_are_what_their_conditions_say(shape: Any, level: str) -> None:
    one, other = cuts(shape, shape=(15, 16, 17)), cuts(level, shape=(15, 16, 17))
    assert np.array_equal(one.inside, other.inside) and np.array_equal(one.node, other.node)
    assert np.allclose(one.theta, other.theta, rtol=0.0, atol=1e-12)


def test_conditions_are_joined_as_sets() -> None:
    level = parse_inside("x < 1 and not (y > 2 or x >= where(y == 0, 1, 3))", 2)
    assert level.text == "max(x - 1, -min(2 - y, where(y == 0, 1, 3) - x))"


@pytest.mark.parametrize(
    ("body", "line"),
    [
        ({"dirichlet": 0.0}, "body.1.inside: missing; allowed: a condition such as x < 0.5"),
        ({"inside": "x + y", "dirichlet": 0.0}, "body.1.inside: 'x + y'; a number at column 1"),
        ({"inside": "x == y", "dirichlet": 0.0}, "body.1.inside: 'x == y'; '==' has no inside; compare by '<' or '>'"),
        (
            {"inside": "x < 0"},
            "body.1: no condition; allowed: exactly one of dirichlet, neumann, robin, a and floating",
        ),
        ({"inside": "x < 0", "a": 1.0, "robin": 0.0}, "body.1: robin and a; allowed: exactly one of"),
        ({"inside": "x < 0", "robin": 0.0}, "body.1.alpha: missing; allowed: a number >= 0"),
        ({"inside": "x < 0", "a": -1.0}, "body.1.a: -1.0; allowed: a number > 0"),
        ({"inside": "x < 0", "dirichlet": 0.0, "charge": 1.0}, "body.1.charge: 1.0; allowed: only with floating"),
        ({"inside": "x < 0", "dirichlet": "q"}, "body.1.dirichlet: 'q'; unknown name 'q' at column 1"),
        ({"inside": "x < 0", "dirichlet": np.ones((33, 41))}, "body.1.dirichlet: an array; allowed: a number"),
        ({"inside": np.ones((3, 3)), "dirichlet": 0.0}, "body.1.inside: an array of the shape (3, 3); the grid needs"),
        ({"inside": {"shape": "ball"}, "dirichlet": 0.0}, "body.1.inside.shape: 'ball'; allowed: sphere, box"),
        (
            {"inside": {"shape": "sphere", "center": (0.0,), "radius": 1.0}, "neumann": 0.0},
            "body.1.inside.center: (0.0,)",
        ),
        ({"inside": {"shape": "cylinder"}, "neumann": 0.0}, "body.1.inside.shape: 'cylinder'; allowed: only in 3D"),
        ({"inside": 7, "neumann": 0.0}, "body.1.inside: an int; allowed: a condition, a function, an array, a shape"),
        ({"insid": "x < 0", "neumann": 0.0}, "body.1.insid: unknown key; allowed: inside"),
        ({"inside": "x < 0", "floating": 1, "charge": np.nan}, "body.1.charge: nan; allowed: a finite number"),
        ({"inside": "x < 0", "floating": True, "charge": "q"}, "body.1.charge: 'q'; allowed: a finite number"),
        ({"inside": "x < 0", "neumann": 0.0, "name": 3}, "body.1.name: 3; allowed: a name of one line"),
        (7, "body.1: 7; allowed: a poisson.Body"),
    ],
)
def test_a_mistake_in_a_body_is_one_line(body: Any, line: str) -> None:
    with pytest.raises(poisson.PoissonError) as error:
        poisson.Problem.on_box((41, 33), bodies=[body])
    assert str(error.value).startswith(line) and "\n" not in str(error.value)


def test_bodies_are_a_list() -> None:
    for given, kind in ((poisson.Body("x < 0", dirichlet=1.0), "a Body"), ("x < 0", "a str")):
        with pytest.raises(poisson.PoissonError, match=rf"^body: {kind}; allowed: a list of bodies$"):
            poisson.Problem.on_box((5, 5), bodies=given)


def test_a_file_has_a_mask_of_integers_or_truth_values(tmp_path: Path) -> None:
    inside = np.hypot(*np.meshgrid(np.linspace(-1, 1, 41), np.linspace(-1, 1, 33))) < 0.5
    expected = cuts(inside)
    for name, values in (("bool", inside), ("int", inside.astype("i2"))):
        np.save(tmp_path / f"{name}.npy", values)
        found = cuts(FieldFile(tmp_path / f"{name}.npy"))
        assert np.array_equal(found.inside, expected.inside) and np.array_equal(found.theta, expected.theta)


def test_a_level_that_is_not_finite_is_named() -> None:
    with pytest.raises(
        poisson.PoissonError, match=r"^body\.1\.inside: nan at x = -1, y = -1; every value must be finite"
    ):
        cuts("sqrt(x) < 0.5")


def test_an_override_takes_the_number_or_the_name_of_a_body() -> None:
    case, named = ROOT / "cases" / "electrodes.toml", ["body.rod.charge = 2", "body.cathode.inside.center = [0.5, 0.0]"]
    by_name, by_number = (
        poisson.load_case(case, given).problem.bodies
        for given in (named, [text.replace("rod", "3").replace("cathode", "2") for text in named])
    )
    assert by_name == by_number and [body.charge for body in by_name] == [None, None, 2.0]
    for wrong in ("4", "0", "wire"):
        with pytest.raises(poisson.PoissonError) as error:
            poisson.load_case(case, [f"body.{wrong}.dirichlet = 2"])
        line = f"--set body.{wrong}.dirichlet: there is no body.{wrong}; allowed: 1, 2, 3, anode, cathode, rod"
        assert str(error.value) == line
