# SPDX-License-Identifier: MIT
"""Discs, annuli, wedges and cylinders with an axis phi in space: against larger ones, and a known potential.

Covers poisson.discrete.angular_fields.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import exp1
from support.ranks import on_ranks

import poisson
from poisson import Body, Problem
from poisson.case import from_mapping
from poisson.errors import CaseError
from poisson.run.verify import verify

TURN, H, INNER, MORE = 2.0 * math.pi, 0.1, 8, 5
FLAT = {"neumann": 0.0}
ENDS: dict[str, tuple[str, float, dict[str, Any]]] = {
    "disc": ("cell", 0.0, {}),
    "annulus of nodes": ("node", 0.3, {"r_lower": 0.0}),
    "annulus of cells": ("cell", 0.3, {"r_lower": FLAT}),
    "annulus that leaks": ("node", 0.4, {"r_lower": {"robin": 0.0, "alpha": 2.0}}),
}
ANGLES: dict[str, dict[str, Any]] = {
    "whole": {"phi": "periodic"},
    "wedge": {"phi_lower": 0.0, "phi_upper": 0.0},
    "mixed wedge": {"phi_lower": FLAT, "phi_upper": 0.0},
}
HEIGHTS: dict[str, dict[str, Any]] = {
    "flat": {},
    "periodic": {"z": "periodic"},
    "grounded": {"z_lower": 0.0, "z_upper": FLAT},
    "insulated": {"z_lower": FLAT, "z_upper": FLAT},
}


def around(f: NDArray[Any], more: int, ends: str, angle: str, height: str, **given: Any) -> Problem:
    """A problem with so many nodes more along r, and the same charges."""
    centring, start, inner = ENDS[ends]
    nodes = INNER + more
    source = np.zeros((*f.shape[:-1], nodes))
    source[..., :INNER] = f
    if more and centring == "node":
        edges = np.square(start + H * (INNER - 1 + np.array([-0.5, 0.0, 0.5])))
        source[..., INNER - 1] *= (edges[1] - edges[0]) / (edges[2] - edges[0])
    upper = [start + H * (nodes - (centring == "node")), TURN if angle == "whole" else 1.3, 1.1]
    return Problem.on_box(
        (nodes, *f.shape[-2::-1]),
        system="polar" if f.ndim == 2 else "cylinder",
        lower=(start, 0.0, 0.0)[: f.ndim],
        upper=upper[: f.ndim],
        boundary={"r_upper": "open", **inner, **ANGLES[angle], **HEIGHTS[height]},
        centring={"r": centring},
        f=source,
        **given,
    )


def charges(height: str) -> NDArray[Any]:
    shape = (9, INNER) if height == "flat" else (5, 9, INNER)
    return np.random.default_rng(4).standard_normal(shape)


@pytest.mark.parametrize(("method", "backend"), [("fft", "numpy"), ("fft", "openmp"), ("cg", "openmp")])
@pytest.mark.parametrize("ends", ENDS)
@pytest.mark.parametrize("angle", ANGLES)
@pytest.mark.parametrize("height", HEIGHTS)
def test_u_does_not_see_how_long_the_radius_is(method: Any, backend: Any, ends: str, angle: str, height: str) -> None:
    """With c = 0, where some modes do not decay, and with c > 0."""
    if method == "fft" and "leaks" in ends:
        method = "auto"
    for c in (0.0, 1e-7, 2.0)[:: 2 - (backend == "numpy")]:
        small, large = (
            poisson.solve(around(charges(height), more, ends, angle, height, c=c), method, backend, rtol=1e-12)
            for more in (0, MORE)
        )
        there = large.u[..., :INNER]
        tolerance = 1e-12 if method == "fft" else 1e-9
        np.testing.assert_allclose(small.u, there, rtol=0, atol=tolerance * abs(there).max())


def test_a_charge_off_the_centre_is_of_second_order() -> None:
    """A Gaussian in the plane, whose potential tends to −ln(ρ)/2π about its own centre."""
    errors = []
    for n in (24, 48):
        width, away = 0.12, 0.35
        f = f"exp(-(r*r - {2 * away}*r*cos(phi - 0.4) + {away**2})/{2 * width**2})/{TURN * width**2}"
        boundary = {"r_upper": "open", "phi": "periodic"}
        centring: Any = {"r": "cell"}
        ends = {"upper": (1.2, TURN)}
        problem = Problem.on_box((n, 3 * n), system="polar", boundary=boundary, centring=centring, f=f, a=2.0, **ends)
        r, phi = (problem.lattice.along(axis, line.coordinates) for axis, line in enumerate(problem.lattice.axes))
        square = r**2 - 2.0 * away * r * np.cos(phi - 0.4) + away**2
        exact = -(np.log(square) + exp1(square / (2.0 * width**2))) / (4.0 * math.pi) / 2.0
        solution = poisson.solve(problem, "fft")
        errors.append(abs(solution.u - exact).max())
        assert solution.face_flux("r_upper") == pytest.approx(1.0, rel=1e-3)
    assert math.log2(errors[0] / errors[1]) == pytest.approx(2.0, abs=0.15) and errors[1] < 1e-3


@pytest.mark.parametrize(
    "condition", [{"dirichlet": 1.0}, {"a": 5.0}, {"neumann": 0.0}], ids=["conductor", "dielectric", "insulator"]
)
def test_bodies_do_not_see_how_long_the_radius_is(condition: dict[str, Any]) -> None:
    body = Body({"shape": "sphere", "center": (0.4, 1.0), "radius": 0.2}, **condition)
    f = np.zeros((24, INNER))
    f[14:18, 2:4] = 1.0
    small, large = (
        poisson.solve(around(f, more, "disc", "whole", "flat", bodies=[body]), backend="openmp", rtol=1e-11)
        for more in (0, MORE)
    )
    there = large.u[:, :INNER]
    np.testing.assert_allclose(small.u, there, rtol=0, atol=1e-8 * abs(there).max())


@pytest.mark.parametrize("ranks", [(1, 1, 2), (1, 2, 1), (1, 2, 2)])
def test_ranks_have_the_solution_beside_an_angle(ranks: Any) -> None:
    problem = around(charges("grounded"), 0, "annulus of nodes", "whole", "grounded")
    alone = poisson.solve(problem, "cg", "numpy", rtol=1e-11)

    def run(comm: Any) -> Any:
        return poisson.solve(problem, "cg", "numpy", rtol=1e-11, comm=comm, ranks=ranks).gather(all=True)

    for u in on_ranks(math.prod(ranks), run, delay=0.0):
        np.testing.assert_allclose(u, alone.u, rtol=0, atol=1e-9 * abs(alone.u).max())


def _case(boundary: dict[str, Any]) -> Any:
    domain = {"system": "polar", "shape": [8, 12], "upper": [1.0, TURN / 2.0], "lower": [0.2, 0.0]}
    return from_mapping(
        {"domain": domain, "equation": {"f": "r*cos(phi)"}, "boundary": boundary}, name="case", folder=Path()
    )


def test_verify_has_the_values_on_the_open_face() -> None:
    walls = {"r_lower": {"dirichlet": "cos(phi)"}, "phi_lower": {"neumann": 0.0}, "phi_upper": {"dirichlet": 0.0}}
    report = verify(_case({**walls, "r_upper": "open"}))
    assert report.passed, report
    assert max(row["max_difference"] for row in report.rows) < 5e-7


@pytest.mark.parametrize(
    ("boundary", "line"),
    [
        (
            {"r_lower": "open", "all": {"dirichlet": 0.0}},
            'boundary.r_lower: "open"; allowed: another condition, because space ends there',
        ),
        (
            {"phi_lower": "open", "all": {"dirichlet": 0.0}},
            'boundary.phi_lower: "open"; allowed: another condition, because phi is an axis',
        ),
        (
            {"r_upper": "open", "phi_lower": {"robin": 0.0, "alpha": 1.0}, "all": {"dirichlet": 0.0}},
            'boundary.phi_lower: "robin"; allowed: another condition, because a face is open',
        ),
    ],
)
def test_what_may_not_be_open_beside_an_angle(boundary: Any, line: str) -> None:
    with pytest.raises(CaseError) as caught:
        poisson.solve(_case(boundary).problem)
    assert caught.value.mistakes == (line,)
