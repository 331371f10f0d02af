# SPDX-License-Identifier: MIT
"""Faces in patches: the same discrete problem as by hand, the order at an edge, flows, mistakes."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.special import ellipk

import poisson
from poisson.case import from_mapping
from poisson.errors import CaseError

ROOT_OF_Z = "sqrt((sqrt(x*x + y*y) - x)/2)"
"""The imaginary part of the root of x + iy: 0 for x > 0 at y = 0, and ∂u/∂y = 0 for x < 0."""


def half_plane(n: int, centring: Any, **more: Any) -> poisson.Problem:
    nodes = centring == "node"
    sides = {"y_lower": [{"where": "x > 0", "dirichlet": 0.0}, {"neumann": 0.0}], "all": ROOT_OF_Z}
    given: dict[str, Any] = {"boundary": sides, "lower": (-1.0, 0.0), "upper": (1.0, 1.0), "centring": centring}
    return poisson.Problem.on_box((2 * n + nodes, n + nodes), **given | more)


def error_of(solution: poisson.Solution) -> np.ndarray:
    x, y = (solution.problem.lattice.coordinates(axis) for axis in range(2))
    return np.asarray(solution.u - np.sqrt((np.hypot(x, y[:, None]) - x) / 2.0))


@pytest.mark.parametrize("centring", ["node", "cell"])
def test_the_error_at_the_edge_of_a_patch_is_of_first_order(centring: str) -> None:
    rms, largest, flow = [], [], []
    for n in (16, 32, 64):
        solution = poisson.solve(half_plane(n, centring), rtol=1e-11)
        error = error_of(solution)
        rms.append(np.sqrt(np.mean(error**2)))
        largest.append(abs(error).max())
        flow.append(abs(solution.fluxes()["y_lower"] - 1.0))  # the real part of the root, from the edge to x = 1
    for errors, order in ((rms, 1.0), (largest, 0.5), (flow, 1.0)):
        np.testing.assert_allclose(-np.diff(np.log2(errors)), order, atol=0.05)


def test_a_strip_in_an_insulated_wall_has_the_capacitance_of_elliptic_integrals() -> None:
    """The strip |x| < w of the wall y = 1 above a plate at y = 0; half of it, x > 0, to where the field has vanished.

    cosh πz maps it to a half plane, whose capacitance is K(k)/K(k') with k = tanh(πw/2); far from the edge of a wide
    strip that is w + 2 ln 2/π, as J. C. Maxwell has it (A Treatise on Electricity and Magnetism, 1873, article 196).
    """
    w, found = 0.5, []
    sides = {"y_upper": [{"where": f"x < {w}", "dirichlet": 1.0}, {"neumann": 0.0}], "y_lower": 0.0}
    for n in (16, 32, 64):
        problem = poisson.Problem.on_box((4 * n + 1, n + 1), upper=(4, 1), boundary={"all": {"neumann": 0.0}, **sides})
        found.append(-poisson.solve(problem, rtol=1e-11).fluxes()["y_upper"])
    k = np.tanh(np.pi * w / 2.0)
    error = np.array(found) - ellipk(k**2) / ellipk(1.0 - k**2)
    np.testing.assert_allclose(-np.diff(np.log2(abs(error))), 1.0, atol=0.05)
    assert abs(2.0 * error[2] - error[1]) < 1e-4


def test_patches_of_flows_are_a_robin_face() -> None:
    parts = [{"where": "x < 0.3", "robin": "1 + x", "alpha": 2.0}, {"where": "x > 0.6", "neumann": "x"}, {"neumann": 0}]
    one = {"robin": "where(x < 0.3, 1 + x, where(x > 0.6, x, 0))", "alpha": "where(x < 0.3, 2, 0)"}
    for centring in ("node", "cell"):
        given: dict[str, Any] = {"centring": centring, "f": "y"}
        first, second = (
            poisson.solve(poisson.Problem.on_box((20, 17), boundary={"y_upper": each, "all": 0.0}, **given)).u
            for each in (parts, one)
        )
        np.testing.assert_array_equal(first, second)


def test_patches_of_values_are_a_dirichlet_face() -> None:
    sides = {"x_lower": [{"where": "y < 0.4", "dirichlet": "y"}, {"dirichlet": 0.4}], "all": {"neumann": 0.0}}
    problem = poisson.Problem.on_box((9, 11, 7), boundary=sides)
    y = np.minimum(problem.lattice.coordinates(1), 0.4)
    np.testing.assert_array_equal(poisson.solve(problem).u[:, :, 0], np.broadcast_to(y, (7, 11)))


@pytest.mark.parametrize("centring", ["node", "cell"])
def test_the_first_part_counts_and_flows_add_up(centring: str) -> None:
    parts = [
        {"where": "x < 0.25", "neumann": 0.5},
        {"where": "x < 0.55 and z > 0.3", "dirichlet": "1 + x"},
        {"where": "y > 0.6", "robin": 0.2, "alpha": 1.5},
        {"dirichlet": 0.25},
    ]
    sides = {"z_upper": parts, "x": "periodic", "all": {"neumann": "y"}}
    for precision in ("float64", "float32"):
        given: Any = {"f": "x", "c": 0.5, "a": "2 + y"}
        if centring == "node":
            given["surface"] = "symmetric"  # whose flows are balanced
        problem = poisson.Problem.on_box((10, 12, 9), boundary=sides, centring=centring, **given)
        solution = poisson.solve(problem, rtol=1e-12 if precision == "float64" else 1e-5, precision=precision)
        axes = problem.lattice.axes
        volumes = axes[2].lengths[:, None, None] * axes[1].lengths[:, None] * axes[0].lengths
        made = (volumes * (problem.lattice.coordinates(0) - 0.5 * solution.u)).sum()
        tight = 1e-10 if precision == "float64" else 2e-4
        np.testing.assert_allclose(sum(solution.fluxes().values()), made, rtol=0, atol=tight)
    if centring == "node":
        x, y = np.meshgrid(problem.lattice.coordinates(0), problem.lattice.coordinates(1))
        held = np.where(x < 0.25, np.nan, np.where(x < 0.55, 1.0 + x, np.where(y > 0.6, np.nan, 0.25)))
        known = ~np.isnan(held)
        np.testing.assert_allclose(solution.u[-1][known], held[known], rtol=1e-7)
        assert (abs(solution.u[-1] - 0.25)[~known] > 1e-3).all()


def test_a_result_has_the_patches_of_its_problem(tmp_path: Path) -> None:
    parts = [{"where": "x > 0.3", "dirichlet": 1.0}, {"where": "x > 0.1", "robin": 0.5, "alpha": 2.0}, {"neumann": 0.0}]
    for centring in ("node", "cell"):
        given: Any = {"boundary": {"y_lower": parts, "all": 0.0}, "centring": centring}
        solution = poisson.solve(poisson.Problem.on_box((17, 13), **given))
        solution.save(tmp_path / "u.h5", overwrite=True)
        loaded = poisson.load(tmp_path / "u.h5")
        assert loaded.fluxes() == solution.fluxes() and loaded.problem.faces == solution.problem.faces


def test_a_case_has_the_patches_of_python() -> None:
    parts = [
        {"where": "abs(x) < w", "dirichlet": 1.0},
        {"where": "x > 0.5", "robin": 1.0, "alpha": 2.0},
        {"neumann": 0.0},
    ]
    tables: dict[str, Any] = {
        "equation": {"f": 0.0},
        "parameters": {"w": 0.2},
        "domain": {"lower": [-1.0, 0.0], "upper": [1.0, 1.0], "shape": [33, 17]},
        "boundary": {"y_upper": parts, "all": {"dirichlet": 0.0}},
    }
    case = from_mapping(tables, name="strip", folder=".")
    parts[0]["where"] = "abs(x) < 0.2"
    python = poisson.Problem.on_box((33, 17), lower=(-1, 0), upper=(1, 1), boundary={"y_upper": parts, "all": 0.0})
    np.testing.assert_array_equal(poisson.solve(case).u, poisson.solve(python).u)
    solver = poisson.Solver(python)
    for other in ({"y_upper": {"neumann": 1.0}}, {"y_upper": parts}):
        with pytest.raises(
            CaseError, match=r"boundary\.y_upper: a face in patches; allowed: other data of whole faces"
        ):
            solver.solve(boundary=other)  # type: ignore[arg-type]
    held = solver.solve(boundary={"x_lower": 1.0}).u
    assert (held[1:-1, 0] == 1.0).all() and held[-1, 16] == 1.0


@pytest.mark.parametrize(
    ("parts", "line"),
    [
        ([{"where": 2, "dirichlet": 1}, {"neumann": 0}], "y_upper.1.where: 2; allowed: a condition"),
        ([{"dirichlet": 1}, {"neumann": 0}], "y_upper.1.where: missing; allowed: a condition such as abs(x) < 0.2"),
        ([{"where": "x <", "dirichlet": 1}, {"neumann": 0}], "y_upper.1.where: 'x <'; the expression ends after '<'"),
        ([{"where": "x < 1", "dirichlet": 1}, 3], "y_upper.2: 3; allowed: a table with where and one of dirichlet"),
        (
            [{"where": "x < 1", "neumann": 1, "alpha": 1}, {"neumann": 0}],
            "y_upper.1: {'neumann': 1, 'alpha': 1}; allowed",
        ),
        (
            [{"where": "x < 1", "dirichlet": [1, 2]}, {"neumann": 0}],
            "y_upper.1.dirichlet: [1, 2]; allowed: a number or",
        ),
        (
            [{"where": "x < 1", "neumann": 1}],
            "y_upper.1.where: 'x < 1'; allowed: nothing in the last table, which is for",
        ),
    ],
)
def test_mistakes_name_the_part(parts: Any, line: str) -> None:
    with pytest.raises(CaseError) as caught:
        poisson.Problem.on_box((9, 9), boundary={"y_upper": parts, "all": 0.0})
    assert str(caught.value).startswith(f"boundary.{line}")
    with pytest.raises(CaseError, match="only a single face has patches"):
        poisson.Problem.on_box((9, 9), boundary={"all": [{"where": "x < 1", "neumann": 1.0}, {"neumann": 0.0}]})
