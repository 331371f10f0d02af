# SPDX-License-Identifier: MIT
"""Neumann and Robin bodies, dielectrics, and the fields beside their surfaces: orders, balances, published values.

Covers poisson.discrete.media and poisson.discrete.surface_fields.
"""

from __future__ import annotations

import itertools
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.places import ROOT

import poisson
from poisson import Body, Problem
from poisson.cli import main
from poisson.discrete.balance import balance_of, balanced
from poisson.discrete.discretisation import Discretisation
from poisson.errors import CaseError
from poisson.run.quantities import quantities

NO_FLOW: dict[str, Any] = {"neumann": 0.0}
CHANNEL = {"x_lower": 1.0, "x_upper": 0.0, "y_lower": NO_FLOW, "y_upper": NO_FLOW}
"""Two potentials, and walls that nothing goes through."""

U, SLOPES = "exp(x)*sin(2*y + 0.3) + x**2", ("(exp(x)*sin(2*y + 0.3) + 2*x)", "2*exp(x)*cos(2*y + 0.3)")
F = "3*exp(x)*sin(2*y + 0.3) - 2"


def outside(problem: Problem, radius: float, centre: tuple[float, ...]) -> tuple[Any, list[Any]]:
    """Which nodes lie outside of a sphere, and the coordinates of all."""
    places = [problem.lattice.along(axis, line.coordinates) for axis, line in enumerate(problem.lattice.axes)]
    return sum((x - c) ** 2 for x, c in zip(places, centre, strict=True)) >= radius**2, places


def disc(alpha: float | None, radius: float = 0.2, centre: tuple[float, float] = (0.5, 0.53)) -> Body:
    """A disc with the flux, or the data of a Robin condition, that U has there."""
    away = [f"({name} - {c})" for name, c in zip("xy", centre, strict=True)]
    flux = "-(" + " + ".join(f"{slope}*{part}/{radius}" for slope, part in zip(SLOPES, away, strict=True)) + ")"
    condition = {"neumann": flux} if alpha is None else {"robin": f"{flux} + {alpha}*({U})", "alpha": alpha}
    return Body(f"{away[0]}**2 + {away[1]}**2 < {radius**2}", **condition)


def error(problem: Problem, exact: str, radius: float, centre: tuple[float, ...], **settings: Any) -> float:
    """The largest error outside of a body; of a singular problem half of its range."""
    out, places = outside(problem, radius, centre)
    u = poisson.solve(problem, rtol=1e-9, **settings).u
    from poisson.problem.expressions import parse

    found = (u - parse(exact, len(places))(np, *places))[out]
    return float(np.ptp(found)) / 2 if Discretisation(problem).singular else float(abs(found).max())


def order(errors: list[float]) -> float:
    """The slope between the coarsest and the finest of grids of doubled intervals."""
    return float(np.log2(errors[0] / errors[-1]) / (len(errors) - 1))


@pytest.mark.parametrize("alpha", [None, 10.0])
def test_discs_with_a_flux_are_of_second_order_in_the_maximum_norm(alpha: float | None) -> None:
    errors = []
    for nodes in (33, 65, 129):
        problem = Problem.on_box((nodes, nodes), f=F, boundary={"all": {"dirichlet": U}}, bodies=[disc(alpha)])
        errors.append(error(problem, U, 0.2, (0.5, 0.53)))
    assert abs(order(errors) - 2.0) < 0.25, errors


def test_a_singular_problem_around_a_body_is_balanced_and_of_second_order() -> None:
    exact, errors = "cos(pi*x)*cos(pi*y)", []
    slope = "(-pi*sin(pi*x)*cos(pi*y)*(x - 0.4) - pi*cos(pi*x)*sin(pi*y)*(y - 0.53))"
    body = Body("hypot(x - 0.4, y - 0.53) < 0.2", neumann=f"-5*{slope}")
    for nodes in (33, 65, 129):
        problem = Problem.on_box((nodes, nodes), f=f"2*pi**2*{exact}", boundary={"all": NO_FLOW}, bodies=[body])
        errors.append(error(problem, exact, 0.2, (0.4, 0.53)))
        known = poisson.solve(replace(problem, exact=poisson.problem.expressions.parse(exact, 2)), rtol=1e-9).error
        assert errors[-1] < known.max < 3.0 * errors[-1], known
        whole = Discretisation(problem)
        source = balanced(whole, np).source(np, 0, nodes) * problem.lattice.volumes()
        assert abs(source.sum()) < 1e-13 * abs(source).sum()
        assert abs(balance_of(whole, np).defect) < 0.02 * 33**2 / nodes**2
    assert abs(order(errors) - 2.0) < 0.25, errors
    with pytest.raises(poisson.errors.IncompatibleSource):
        poisson.solve(Problem.on_box((33, 33), boundary={"all": NO_FLOW}, bodies=[Body("x < 0.3", neumann=1.0)]))


def test_a_sphere_with_a_flux_is_of_second_order_also_in_mixed_precision() -> None:
    exact, errors = "x*z**2 + y", []
    away = "(z**2*(x - 0.5) + (y - 0.47) + 2*x*z*(z - 0.5))"
    body = Body({"shape": "sphere", "center": (0.5, 0.47, 0.5), "radius": 0.25}, neumann=f"-{away}/0.25")
    for nodes in (17, 33):
        problem = Problem.on_box((nodes,) * 3, f="-2*x", boundary={"all": {"dirichlet": exact}}, bodies=[body])
        errors.append(error(problem, exact, 0.25, (0.5, 0.47, 0.5), precision="mixed"))
    assert abs(order(errors) - 2.0) < 0.25, errors


BODIES = [
    Body("hypot(x - 0.5, y - 0.52) < 0.2", neumann=0.7),
    Body("hypot(x, y - 0.5) < 0.2", neumann="1 + y"),
    Body("hypot(x - 0.8, y - 1) < 0.17", a=50.0),
    Body("hypot(x - 0.2, y - 0.8) < 0.1", robin=1.0, alpha=2.0),
    Body("x + y < 0.2", neumann=0.0),
]


@pytest.mark.parametrize("name", ["walls", "faces", "periodic", "cells"])
def test_what_flows_out_is_what_is_made_to_rounding(name: str) -> None:
    """Also where bodies reach faces of every kind, and one another."""
    robin = {"robin": 1.0, "alpha": "1 + x"}
    boundary: dict[str, Any] = {
        "walls": {"all": {"dirichlet": "x*y"}},
        "faces": {"x_lower": 1.0, "x_upper": 0.0, "y_lower": {"neumann": 0.3}, "y_upper": robin},
        "periodic": {"x": "periodic", "y_lower": {"neumann": 0.3}, "y_upper": 0.0},
        "cells": {"x_lower": 1.0, "x_upper": {"neumann": 0.2}, "y_lower": {"neumann": 0.3}, "y_upper": 1.0},
    }[name]
    bodies = [BODIES[0], *BODIES[2:4]] if name == "periodic" else BODIES
    axes = ({"cells": np.linspace(0.0, 1.0, 24) ** 1.1}, {"nodes": np.linspace(0.0, 1.0, 25) ** 0.9})
    cells = name == "cells"
    data: dict[str, Any] = {"f": "1 + y", "c": 2.0, "boundary": boundary, "bodies": bodies}
    problem = Problem.on_lattice(axes, **data) if cells else Problem.on_box((24, 25), **data)
    solution = poisson.solve(problem, rtol=1e-13)
    surface = Discretisation(problem).surface
    assert surface is not None and surface.obstacles is not None
    flows = [found["flux"] for found in solution.bodies.values()]
    assert len(flows) == sum(body.a is None for body in bodies)
    flows += [solution.face_flux(face) for face in poisson.run.derived.faces(solution)]
    lengths = [problem.lattice.along(axis, line.lengths) for axis, line in enumerate(problem.lattice.axes)]
    y = problem.lattice.along(1, problem.lattice.axes[1].coordinates)
    made = lengths[0] * lengths[1] * surface.volumes.on() * (1.0 + y - 2.0 * solution.u)
    assert sum(flows) == pytest.approx(made.sum(), rel=1e-11)


def test_backends_and_precisions_agree_on_bodies_of_every_kind() -> None:
    bodies = [*BODIES[:1], *BODIES[2:4], Body("hypot(x - 0.2, y - 0.2) < 0.1", dirichlet=0.3)]
    problem = Problem.on_box((33, 33), boundary=CHANNEL, bodies=bodies)
    found = {
        (backend, method, precision): poisson.solve(
            problem, backend=backend, method=method, precision=precision, rtol=1e-4 if precision == "float32" else 1e-11
        )
        for backend, method, precision in [
            ("numpy", "cg", "float64"),
            ("numpy", "multigrid", "float32"),
            ("openmp", "multigrid", "float64"),
            ("openmp", "multigrid", "float32"),
            ("openmp", "cg", "mixed"),
            ("openmp", "sor", "float64"),
        ]
    }
    expected = found.pop(("numpy", "cg", "float64")).u
    for (_, _, precision), solution in found.items():
        assert np.abs(solution.u - expected).max() < (1e-4 if precision == "float32" else 1e-9)


SPHERE, TUBE = "1/hypot(r, z)", "log(r)"


@pytest.mark.parametrize(
    ("inside", "u", "condition", "bounds"),
    [
        ("r < 0.3", TUBE, {"neumann": -1.0 / 0.3}, (1.8, 2.2)),
        ("r < 0.3", TUBE, {"robin": f"{-1.0 / 0.3} + 2*log(0.3)", "alpha": 2.0}, (1.8, 2.2)),
        ("hypot(r, z) < 0.4", SPHERE, {"neumann": 6.25}, (1.75, 2.2)),
        ("hypot(r, z) < 0.4", SPHERE, {"robin": 6.25 + 2.5 * 10.0, "alpha": 10.0}, (1.75, 2.2)),
        ("hypot(r, z) < 0.4", "z*(1 + 0.032/hypot(r, z)**3)", {"neumann": 0.0}, (1.6, 2.2)),
    ],
)
def test_around_an_axis_u_is_of_second_order_outside(
    inside: str, u: str, condition: dict[str, Any], bounds: tuple[float, float]
) -> None:
    """A tube, a sphere that sends out or lets through, and an insulating sphere in a uniform field, in r and z."""
    errors = []
    for nodes in (17, 65):
        faces = {name: {"dirichlet": u} for name in ("r_upper", "z_lower", "z_upper")}
        shape, box = (nodes, 2 * nodes - 1), {"lower": (0.0, -1.0), "upper": (1.0, 1.0)}
        if u == TUBE:
            faces |= {"z_lower": NO_FLOW, "z_upper": NO_FLOW}
        bodies = [Body(inside, **condition)]
        problem = Problem.on_box(shape, system="cylinder", boundary=faces, bodies=bodies, **box)
        solution = poisson.solve(problem, rtol=1e-11)
        r, z = (problem.lattice.along(axis, line.coordinates) for axis, line in enumerate(problem.lattice.axes))
        with np.errstate(all="ignore"):
            level, exact = (eval(text, {"hypot": np.hypot, "log": np.log, "r": r, "z": z}) for text in (inside, u))
        errors.append(np.abs(solution.u - exact)[~level | (0.0 * z > 1.0)].max())
        whole = {TUBE: 4.0 * np.pi, SPHERE: -4.0 * np.pi}.get(u, 0.0)
        assert solution.bodies["body1"]["flux"] == pytest.approx(whole, rel=0.02)
        if u == TUBE and "neumann" in condition:  # the area of the tube is exact
            assert solution.bodies["body1"]["flux"] == pytest.approx(whole, rel=1e-13)
    assert bounds[0] < np.log2(errors[0] / errors[1]) / 2.0 < bounds[1], errors


PERRINS = {0.1: 1.222, 0.3: 1.860, 0.5: 3.080, 0.6: 4.342}
"""The conductivity of a square array of perfectly conducting cylinders by the part of the area that they take (W. T.
Perrins, D. R. McKenzie and R. C. McPhedran, Proc. R. Soc. London A 369, 1979, table 1)."""


@pytest.mark.parametrize("part", PERRINS)
def test_square_arrays_of_cylinders_conduct_as_published(part: float) -> None:
    """Insulators as the inverse of perfect conductors (J. B. Keller, J. Math. Phys. 5, 1964); a quarter of a cell."""
    radius = np.sqrt(part / np.pi)
    flux = []
    for body in (Body(f"hypot(x, y) < {2.0 * radius}", neumann=0.0), Body(f"hypot(x, y) < {2.0 * radius}", a=1e9)):
        problem = Problem.on_box((65, 65), boundary=CHANNEL, bodies=[body])
        flux.append(poisson.solve(problem, rtol=1e-9).face_flux("x_upper"))
    assert 1.0 / flux[0] == pytest.approx(PERRINS[part], rel=1e-3)
    assert flux[1] == pytest.approx(PERRINS[part], rel=2e-2)


@pytest.mark.parametrize("place", [0.5, 0.53, 0.41, 0.4001, 0.93])
def test_planes_of_dielectrics_are_exact_at_any_place(place: float) -> None:
    problem = Problem.on_box((11, 11), boundary=CHANNEL, bodies=[Body(f"x < {place}", a=80.0)])
    solution = poisson.solve(problem, rtol=1e-13)
    flux = 1.0 / (place / 80.0 + (1.0 - place))
    x = problem.lattice.coordinates(0)
    expected = np.where(x <= place, 1.0 - flux * x / 80.0, flux * (1.0 - x))
    np.testing.assert_allclose(solution.u, np.broadcast_to(expected, (11, 11)), atol=1e-12)
    np.testing.assert_allclose(solution.flux[..., 0], flux, rtol=1e-9)
    inside = x < place - 1e-9
    np.testing.assert_allclose(solution.E[:, inside, 0], flux / 80.0, rtol=1e-9)
    np.testing.assert_allclose(solution.E[:, x > place + 1e-9, 0], flux, rtol=1e-9)
    assert [solution.face_flux(face) for face in ("x_lower", "x_upper")] == pytest.approx([-flux, flux], rel=1e-10)


@pytest.mark.parametrize("start", [0.02, 0.05, 0.08, 0.13])
@pytest.mark.parametrize("shape", [(11,), (5, 11), (4, 5, 11)])
def test_dielectrics_that_begin_in_the_link_next_to_a_wall_are_exact(shape: tuple[int, ...], start: float) -> None:
    """A slab before a face with a flux: the image of the link that it cuts is not another cut of it."""
    last = "xyz"[len(shape) - 1]
    body = Body(f"abs({last} - {(start + 0.6) / 2}) < {(0.6 - start) / 2}", a=8.0)
    walls: dict[str, Any] = {f"{last}_lower": {"neumann": 1.0}, f"{last}_upper": 0.0}
    walls |= {"all": NO_FLOW} if len(shape) > 1 else {}
    solution = poisson.solve(Problem.on_box(shape, boundary=walls, bodies=[body]), rtol=1e-13)
    along = np.linspace(0.0, 1.0, 11)
    parts = [np.clip(high - along, 0.0, high - low) for low, high in ((0.0, start), (start, 0.6), (0.6, 1.0))]
    expected = parts[0] + parts[1] / 8.0 + parts[2]
    expected = expected.reshape((-1,) + (1,) * (len(shape) - 1))
    np.testing.assert_allclose(solution.u, np.broadcast_to(expected, solution.u.shape), atol=1e-11)


@pytest.mark.parametrize(("dimension", "inner"), [(2, 80.0), (2, 0.1), (3, 5.0)])
def test_dielectric_spheres_in_a_uniform_field_are_of_first_order(dimension: int, inner: float) -> None:
    """In the rms norm: harmonic means on cut links leave out the jump of the flux along a surface askew to the axes."""
    radius, centre = 0.25, (0.5, 0.51, 0.49)[:dimension]
    square = " + ".join(f"({name} - {c})**2" for name, c in zip("xyz", centre, strict=False))
    dipole = (1.0 - inner) / (inner + dimension - 1) * radius**dimension
    within = dimension / (inner + dimension - 1)
    exact = f"where({square} < {radius**2}, {within}*(x - 0.5), (x - 0.5)*(1 + ({dipole})/({square})**{dimension / 2}))"
    errors, field = [], []
    for nodes in (17, 33) if dimension == 3 else (33, 65, 129):
        body = Body(f"{square} < {radius**2}", a=inner)
        problem = Problem.on_box(
            (nodes,) * dimension, boundary={"all": {"dirichlet": exact}}, bodies=[body], exact=exact
        )
        solution = poisson.solve(problem, rtol=1e-9)
        out, _ = outside(problem, radius / 2, centre)
        errors.append(solution.error.rms)
        field.append(abs(solution.E[~out][:, 0] + within).max())
    assert 0.9 < order(errors) < 1.5, errors
    assert 0.8 < order(field) < 1.4, field


def test_flow_around_an_insulating_cylinder_keeps_its_field_at_the_surface() -> None:
    exact, errors = "(x - 0.5)*(1 + 0.04/((x - 0.5)**2 + (y - 0.5)**2))", []
    for nodes in (33, 65, 129):
        body = Body("hypot(x - 0.5, y - 0.5) < 0.2", neumann=0.0)
        problem = Problem.on_box((nodes, nodes), boundary={"all": {"dirichlet": exact}}, bodies=[body])
        solution = poisson.solve(problem, "cg", rtol=1e-8, precision="mixed" if nodes == 65 else "float64")
        assert (
            solution.iterations <= 9
        )  # 8 in the empty box: products as coarse grids, as zero links make averages slow
        out, (x, y) = outside(problem, 0.2, (0.5, 0.5))
        x, y = x - 0.5, y - 0.5
        with np.errstate(all="ignore"):
            square = x**2 + y**2
            field = -np.stack([1.0 + 0.04 / square - 0.08 * x**2 / square**2, -0.08 * x * y / square**2], axis=-1)
        errors.append(max(np.abs(found - field)[out].max() for found in (solution.E, solution.flux)))
        inside, _ = outside(problem, 0.2 - 2.0 / nodes, (0.5, 0.5))
        assert not solution.E[~inside].any() and not solution.flux[~inside].any()
    assert 0.8 < order(errors) < 1.3, errors


@pytest.mark.parametrize("middle", [0.5, 0.52, 0.50001])
def test_fields_beside_electrodes_keep_sign_and_value(middle: float) -> None:
    """Also on a surface that goes through nodes, or nearly does."""
    bodies = [Body(f"abs(x - {middle}) <= 0.125", dirichlet=1.0)]
    boundary = {**CHANNEL, "x_lower": 0.0, "x_upper": 2.0}
    problem = Problem.on_box((17, 17), a=3.0, boundary=boundary, bodies=bodies)
    solution = poisson.solve(problem, rtol=1e-13)
    x = problem.lattice.coordinates(0)
    left, right = 1.0 / (middle - 0.125), 1.0 / (0.875 - middle)
    on = 2e-4 / 16
    expected = np.where(x <= middle - 0.125 + on, -left, np.where(x >= middle + 0.125 - on, -right, 0.0))
    np.testing.assert_allclose(solution.E[..., 0], np.broadcast_to(expected, (17, 17)), atol=2e-3)
    np.testing.assert_allclose(solution.flux, 3.0 * solution.E, atol=1e-12)


def test_cavities_and_islands_are_left_alone(caplog: pytest.LogCaptureFixture) -> None:
    """What bodies cut off keeps the initial guess, where something else is held or larger."""
    ring = Body("abs(hypot(x - 0.5, y - 0.5) - 0.25) < 0.1", neumann=0.0)
    for boundary, f in itertools.product((CHANNEL, {"all": NO_FLOW}), (0.0,)):
        problem = Problem.on_box((33, 33), f=f, boundary=boundary, bodies=[ring], initial=7.0)
        with caplog.at_level("INFO"):
            solution = poisson.solve(problem, rtol=1e-10)
        assert solution.u[16, 16] == pytest.approx(7.0) and "cut off by bodies" in caplog.text


def test_a_mask_of_nodes_insulates_as_its_cells() -> None:
    """A bar of cells in a channel: the rest is a channel that is as much narrower."""
    mask = np.zeros((16, 16), dtype=bool)
    mask[:8] = True
    axes = ({"cells": np.linspace(0.0, 1.0, 17)},) * 2
    problem = Problem.on_lattice(axes, boundary=CHANNEL, bodies=[Body(mask, neumann=0.0)])
    assert poisson.solve(problem, rtol=1e-12).face_flux("x_upper") == pytest.approx(0.5, rel=1e-10)
    distance = np.linspace(-0.5, 0.5, 17)[1:] * np.ones((16, 1)).T
    distance = np.broadcast_to((np.arange(16)[:, np.newaxis] + 0.5) / 16 - 0.4, (16, 16)).copy()
    problem = Problem.on_lattice(axes, boundary=CHANNEL, bodies=[Body(distance, neumann=0.0)])
    assert poisson.solve(problem, rtol=1e-12).face_flux("x_upper") == pytest.approx(0.6, rel=1e-10)
    with pytest.raises(CaseError, match=r"body\.1\.robin: a mask of nodes; allowed: neumann = 0"):
        poisson.solve(Problem.on_lattice(axes, boundary=CHANNEL, bodies=[Body(mask, robin=0.0, alpha=1.0)]))


def test_the_energy_is_half_of_the_charge_and_the_mean_that_of_the_open_part() -> None:
    """To rounding, with bodies that hold the value of a face, insulate and conduct better."""
    bodies = [*BODIES[2:3], Body("hypot(x - 0.2, y - 0.3) < 0.11", dirichlet=1.0), Body("y < 0.2", neumann=0.0)]
    problem = Problem.on_box((33, 33), a="1 + x", boundary=CHANNEL, bodies=bodies, surface="symmetric")
    found = quantities(poisson.solve(problem, rtol=1e-13))
    assert found["energy"] == pytest.approx(found["flux_x_upper"] / 2.0, rel=1e-11)
    bar = Problem.on_box((21, 21), boundary=CHANNEL, bodies=[Body("y < 0.313 and x < 2", neumann=0.0)])
    found = quantities(poisson.solve(bar, rtol=1e-13))
    assert found["u_mean"] == pytest.approx(0.5, rel=1e-12) and found["energy"] == pytest.approx(0.687 / 2, rel=1e-12)


@pytest.mark.parametrize("place", [0.5, 0.51, 0.53125])
def test_plates_that_are_thinner_than_a_cell_insulate(place: float) -> None:
    """Through a node, between a node and the corner of its volume, and through that corner; half of the channel."""
    plate = f"abs(x - {place}) < 0.005"
    # On ever finer grids 0.706 flows through half of the channel.
    for body, flux in ((Body(plate, neumann=0.0), 0.0), (Body(f"{plate} and y < 0.5", neumann=0.0), 0.706)):
        problem = Problem.on_box((17, 17), a="1 + 0*x", boundary=CHANNEL, bodies=[body])
        assert poisson.solve(problem, rtol=1e-10).face_flux("x_upper") == pytest.approx(flux, rel=0.12, abs=1e-9)
    if place != 0.53125:
        with pytest.raises(CaseError, match=r"body\.1: it is thinner than a cell"):
            poisson.solve(Problem.on_box((17, 17), boundary=CHANNEL, bodies=[Body(plate, neumann=1.0)]))


def test_check_shows_bodies_and_their_mistakes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = (ROOT / "cases" / "obstacles.toml").read_text("utf-8")
    (tmp_path / "good.toml").write_text(text, "utf-8")
    (tmp_path / "bad.toml").write_text(text.replace("alpha = 2.0", 'alpha = "y - 1"'), "utf-8")
    found = []
    for name, code in (("good.toml", 0), ("bad.toml", 2)):
        assert main(["check", str(tmp_path / name), "--json"]) == code
        found.append(json.loads(capsys.readouterr().out))
    assert [(each["body"], each["condition"].partition(":")[0], each["value"]) for each in found[0]["bodies"]] == [
        ("insulator", "neumann", "0"),
        ("wedge", "neumann", "0"),
        ("conductor", "a", "conductivity"),
        ("leak", "robin", "0"),
    ]
    assert not found[0]["singular"] and found[0]["method"].startswith("cg with preconditioner multigrid")
    [line] = found[1]["errors"]
    assert line.startswith("body.4.alpha: -") and line.endswith("every value must be >= 0")
    assert main(["check", str(tmp_path / "good.toml")]) == 0
    assert "insulator  neumann: a du/dn = value" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("body", "line"),
    [
        (Body("x < 0.3", neumann="1/(y - y)"), r"body\.1\.neumann: .* every value must be finite"),
        (Body("x < 0.3", robin=1.0, alpha="-y"), r"body\.1\.alpha: .* every value must be >= 0"),
        (Body("x < 0.3", a="y - 0.5"), r"body\.1\.a: .* every value must be > 0"),
        (Body("x < 0.3", neumann=0.0), r"order: 4; allowed: 2 with bodies"),
    ],
)
def test_what_cannot_be_solved_is_refused_in_one_line(body: Body, line: str) -> None:
    with pytest.raises(CaseError, match=line):
        poisson.solve(Problem.on_box((17, 17), boundary=CHANNEL, bodies=[body]), fields=("E",), order=4)
