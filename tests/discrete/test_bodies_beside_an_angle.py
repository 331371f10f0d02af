# SPDX-License-Identifier: MIT
"""Bodies in discs and cylinders with an axis phi: exact potentials, charges, flows, and another matrix."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.linalg import spsolve
from support.divided import solved

import poisson
from poisson import Body, Problem
from poisson.errors import CaseError, PoissonError
from poisson.problem.given import Form

TURN = 2.0 * math.pi
RADIUS, AWAY = 0.3, 0.25
EXACT = TURN / math.acosh((RADIUS**2 + 1.0 - AWAY**2) / (2.0 * RADIUS))
"""The capacitance of an electrode off the centre of a disc of radius 1, per length."""


def order(errors: list[float]) -> float:
    return math.log2(errors[0] / errors[-1]) / (len(errors) - 1)


def electrode(phi: float = 0.0, **condition: Any) -> Body:
    given = condition or {"dirichlet": 1.0}
    return Body({"shape": "sphere", "center": (AWAY, phi), "radius": RADIUS}, name="wire", **given)


def disc(n: int, body: Body, **given: Any) -> Problem:
    boundary = {"r_upper": 0.0, "phi": "periodic"}
    return Problem.on_box((n, 4 * n), system="polar", upper=(1.0, TURN), boundary=boundary, bodies=[body], **given)


def bipolar(r: Any, phi: Any) -> Any:
    """The potential between the electrode at 1 and the rim at 0, of two line charges at the inverse points."""
    near, far = sorted(np.roots([1.0, -(1.0 + AWAY**2 - RADIUS**2) / AWAY, 1.0]).real)

    def ratio(x: Any, y: Any) -> Any:
        return np.log(((x - near) ** 2 + y**2) / ((x - far) ** 2 + y**2)) / 2.0

    rim = ratio(1.0, 0.0)
    return (ratio(r * np.cos(phi), r * np.sin(phi)) - rim) / (ratio(AWAY + RADIUS, 0.0) - rim)


def places(problem: Problem) -> list[NDArray[Any]]:
    return [problem.lattice.along(axis, line.coordinates) for axis, line in enumerate(problem.lattice.axes)]


@pytest.mark.parametrize("turn", [0.0, 0.7])
def test_an_electrode_off_the_centre_of_a_disc_is_of_second_order(turn: float) -> None:
    """u, E and the charge, wherever phi begins; the charges and the flux through the rim balance to rounding."""
    errors: list[list[float]] = []
    for n in (16, 32, 64):
        problem = disc(n, electrode(turn))
        solution = poisson.solve(problem, rtol=1e-11, fields=("E",))
        r, phi = places(problem)
        phi = phi - turn
        out = (r * np.cos(phi) - AWAY) ** 2 + (r * np.sin(phi)) ** 2 >= RADIUS**2
        step = 1e-5
        field = [
            (bipolar(r - step, phi) - bipolar(r + step, phi)) / (2.0 * step),
            (bipolar(r, phi - step) - bipolar(r, phi + step)) / (2.0 * step) / r,
        ]
        charge = solution.bodies["wire"]["charge"]
        assert charge == pytest.approx(sum(solution.fluxes().values()), abs=1e-7)
        errors.append(
            [
                np.abs(solution.u - bipolar(r, phi))[out].max(),
                abs(charge / EXACT - 1.0),
                math.sqrt(sum(float((((solution.E[..., i] - field[i]) ** 2)[out]).mean()) for i in (0, 1))),
            ]
        )
        assert np.array_equal(solution.u[~out], np.ones(np.count_nonzero(~out))) and not solution.E[~out].any()
    orders = [order(list(each)) for each in zip(*errors, strict=True)]
    assert all(1.8 < each < 2.3 for each in orders), (orders, errors)
    assert errors[-1][0] < 6e-5 and errors[-1][1] < 5e-5


def reference(problem: Problem, away: float, radius: float, form: Form) -> NDArray[Any]:
    """u on a disc or an annulus of cells beside a circle at 1, by a matrix that is written down here."""
    (r, phi), spread = (line.coordinates for line in problem.lattice.axes), problem.lattice.spacing
    h, turn, n, m = *spread, problem.lattice.shape[0], problem.lattice.shape[1]
    inside = r**2 - 2.0 * r * away * np.cos(phi[:, np.newaxis]) + away**2 <= radius**2
    entries: list[tuple[int, int, float]] = []
    right = np.zeros(n * m)
    for j in range(m):
        for i in range(n):
            node = j * n + i
            if inside[j, i]:
                entries.append((node, node, 1.0))
                right[node] = 1.0
                continue
            right[node] = 1.0  # f
            for axis in (0, 1):
                parts = []
                for step in (-1, 1):
                    beside = (j, i + step) if axis == 0 else ((j + step) % m, i)
                    parts_to: list[float] = []
                    if axis == 0 and (square := radius**2 - (away * math.sin(phi[j])) ** 2) >= 0.0:
                        ends = [away * math.cos(phi[j]) + sign * math.sqrt(square) for sign in (-1.0, 1.0)]
                        parts_to = [(end - r[i]) * step / h for end in ends]
                    cosine = (r[i] ** 2 + away**2 - radius**2) / (2.0 * r[i] * away)
                    if axis == 1 and abs(cosine) <= 1.0:
                        ends = [sign * math.acos(cosine) for sign in (-1.0, 1.0)]
                        parts_to = [(end - phi[j]) * step % TURN / turn for end in ends]
                    theta = min([part for part in parts_to if 0.0 < part < 1.0], default=1.0)
                    if axis == 0:
                        wall = not 0 <= beside[1] < n
                        length = theta * (h / 2.0 if wall else h)
                        middle = r[i] + step * (h / 2.0 if wall else length / 2.0)
                        conducts = max(middle, 0.0) / length / (r[i] * h)
                    else:
                        wall, conducts = False, 1.0 / (theta * turn**2 * r[i] ** 2)
                    parts.append((theta, wall, beside, conducts))
                whole = form == "symmetric" or (axis == 0 and i in (0, n - 1))
                factor = 1.0 if whole else 2.0 / sum(theta for theta, *_ in parts)
                for theta, wall, there, conducts in parts:
                    entries.append((node, node, factor * conducts))
                    if theta < 1.0:
                        right[node] += factor * conducts
                    elif not wall:
                        entries.append((node, there[0] * n + there[1], -factor * conducts))
    rows, columns, values = zip(*entries, strict=True)
    return np.asarray(spsolve(csr_array((values, (rows, columns)), shape=(n * m, n * m)), right)).reshape(m, n)


@pytest.mark.parametrize("form", ["shortley_weller", "symmetric"])
@pytest.mark.parametrize("lower", [0.0, 0.3])
def test_random_electrodes_agree_with_another_matrix(form: Form, lower: float) -> None:
    rng = np.random.default_rng(11)
    for _ in range(6):
        shape = int(rng.integers(9, 16)), int(rng.integers(18, 40))
        radius = rng.uniform(0.1, 0.22)
        away = rng.uniform(0.57, 0.68)
        boundary = {"r_upper": 0.0, "phi": "periodic"} | ({"r_lower": 0.0} if lower else {})
        inside = f"r**2 - 2*r*{away}*cos(phi) + {away**2} < {radius**2}"
        problem = Problem.on_box(
            shape,
            f=1.0,
            system="polar",
            lower=(lower, 0.0),
            upper=(1.0, TURN),
            centring="cell",
            boundary=boundary,
            bodies=[Body(inside, dirichlet=1.0)],
            surface=form,
        )
        found = poisson.solve(problem, "cg", "numpy", rtol=1e-13).u
        np.testing.assert_allclose(found, reference(problem, away, radius, form), rtol=0.0, atol=1e-9)


def test_a_ball_off_the_axis_of_a_cylinder_is_of_second_order() -> None:
    """u = 1/ρ around it, in r, phi and z, with the charge 4π."""
    errors, charges = [], []
    u = "1/sqrt(max(r**2 - 0.8*r*cos(phi - 1) + 0.16 + z**2, 0.04))"
    for n in (9, 17):
        ball = Body({"shape": "sphere", "center": (0.4, 1.0, 0.0), "radius": 0.25}, dirichlet=4.0, name="ball")
        problem = Problem.on_box(
            (n - 1, 2 * n - 2, 2 * n - 1),
            system="cylinder",
            lower=(0.0, 0.0, -1.0),
            upper=(1.0, TURN, 1.0),
            boundary={"phi": "periodic", "all": {"dirichlet": u}},
            bodies=[ball],
            exact=u,
        )
        solution = poisson.solve(problem, backend="openmp", rtol=1e-9)
        r, phi, z = places(problem)
        square = r**2 - 0.8 * r * np.cos(phi - 1.0) + 0.16 + z**2
        error = np.abs(solution.u - 1.0 / np.sqrt(np.maximum(square, 0.04)))
        errors.append(float(error[square >= 0.25**2].max()))
        charges.append(abs(solution.bodies["ball"]["charge"] / (4.0 * math.pi) - 1.0))
    assert 1.6 < order(errors) < 2.6, errors
    assert order(charges) > 1.8 and charges[-1] < 5e-4, charges


@pytest.mark.parametrize("axes", ["r and phi", "r and z"])
def test_the_charge_beside_a_source_balances_it_to_rounding(axes: str) -> None:
    """f = 1 between two coaxial cylinders at 0: what lies between a surface and half a link has the weight r."""
    inner, errors = 0.37, []
    exact = TURN * (inner**2 / 2.0 + (1.0 - inner**2) / (4.0 * math.log(inner)))  # of (1 - r²)/4 and a logarithm
    for n in (16, 32, 64):
        polar = axes == "r and phi"
        problem = Problem.on_box(
            (n, 9),
            f=1.0,
            system="polar" if polar else "cylinder",
            upper=(1.0, TURN if polar else 1.0),
            centring="cell",
            boundary={"r_upper": 0.0, "phi" if polar else "z": "periodic"},
            bodies=[Body(f"r < {inner}", dirichlet=0.0, name="rod")],
        )
        solution = poisson.solve(problem, rtol=1e-12)
        charge, made = solution.bodies["rod"]["charge"], math.pi * (1.0 - inner**2)
        assert sum(solution.fluxes().values()) - charge == pytest.approx(made, abs=1e-10)
        errors.append(abs(charge - exact))
    assert order(errors) == pytest.approx(2.0, abs=0.05), errors


X, Y = "(r*cos(phi))", "(r*sin(phi))"
WAVE, SLOPES = f"exp({X})*sin({Y} + 0.3)", (f"exp({X})*sin({Y} + 0.3)", f"exp({X})*cos({Y} + 0.3)")
FLOW = f"-({SLOPES[0]}*({X} - 0.35) + {SLOPES[1]}*({Y} - 0.2))/0.25"


@pytest.mark.parametrize("lower", [0.0, 0.05])
@pytest.mark.parametrize("condition", [{"neumann": FLOW}, {"robin": f"{FLOW} + 4*{WAVE}", "alpha": 4.0}])
def test_obstacles_in_a_disc_and_an_annulus_are_of_second_order(condition: dict[str, Any], lower: float) -> None:
    """The flow out of the disc leaves through the faces, to rounding."""
    errors = []
    for n in (16, 64):
        problem = Problem.on_box(
            (n, 4 * n),
            system="polar",
            lower=(lower, 0.0),
            upper=(1.0, TURN),
            boundary={"phi": "periodic", "all": {"dirichlet": WAVE}},
            bodies=[Body(f"hypot({X} - 0.35, {Y} - 0.2) < 0.25", name="hole", **condition)],
        )
        solution = poisson.solve(problem, rtol=1e-11)
        r, phi = places(problem)
        x, y = r * np.cos(phi), r * np.sin(phi)
        error = np.abs(solution.u - np.exp(x) * np.sin(y + 0.3))[np.hypot(x - 0.35, y - 0.2) >= 0.25]
        errors.append(float(error.max()))
        assert solution.bodies["hole"]["flux"] == pytest.approx(-sum(solution.fluxes().values()), abs=1e-8)
    assert 1.8 < math.log2(errors[0] / errors[1]) / 2.0 < 2.3, errors


def test_an_insulating_ball_off_the_axis_in_a_uniform_field_is_of_second_order() -> None:
    """z (1 + R³ / 2ρ³) in r, phi and z, in the rms norm."""
    errors = []
    u = "z*(1 + 0.015625/(2*max(r**2 - 0.8*r*cos(phi - 1) + 0.16 + z**2, 0.02)**1.5))"
    for n in (8, 16):
        problem = Problem.on_box(
            (n, 2 * n, 2 * n + 1),
            system="cylinder",
            lower=(0.0, 0.0, -1.0),
            upper=(1.0, TURN, 1.0),
            boundary={"phi": "periodic", "all": {"dirichlet": u}},
            bodies=[Body({"shape": "sphere", "center": (0.4, 1.0, 0.0), "radius": 0.25}, neumann=0.0)],
        )
        solution = poisson.solve(problem, backend="openmp", rtol=1e-9)
        r, phi, z = places(problem)
        square = r**2 - 0.8 * r * np.cos(phi - 1.0) + 0.16 + z**2
        exact = z * (1.0 + 0.015625 / (2.0 * np.maximum(square, 0.02) ** 1.5))
        errors.append(math.sqrt(float(((solution.u - exact)[square >= 0.0625] ** 2).mean())))
    assert order(errors) == pytest.approx(2.0, abs=0.15), errors


@pytest.mark.parametrize("place", [0.5, 0.53, 0.7001])
def test_planes_of_dielectrics_across_phi_are_exact_at_any_place(place: float) -> None:
    boundary = {"phi_lower": 1.0, "phi_upper": 0.0, "all": {"neumann": 0.0}}
    box: dict[str, Any] = {"system": "polar", "lower": (0.4, 0.0), "upper": (1.0, 1.0), "boundary": boundary}
    problem = Problem.on_box((9, 11), bodies=[Body(f"phi < {place}", a=80.0)], **box)
    solution = poisson.solve(problem, rtol=1e-13, fields=("E",))
    slope = 1.0 / (place / 80.0 + 1.0 - place)
    r, phi = places(problem)
    u = np.where(phi <= place, 1.0 - slope * phi / 80.0, slope * (1.0 - phi)) + 0.0 * r
    np.testing.assert_allclose(solution.u, u, atol=1e-11)
    field = np.where(phi <= place, slope / 80.0, slope) / r
    np.testing.assert_allclose(solution.E[..., 1], field, rtol=1e-8)


@pytest.mark.parametrize("inner", [80.0, 0.1])
def test_a_dielectric_off_the_centre_of_a_disc_is_of_first_order(inner: float) -> None:
    """A cylinder in a uniform field, in the rms norm, as in x and y."""
    dipole, within = (1.0 - inner) / (inner + 1.0) * 0.0625, 2.0 / (inner + 1.0)
    square = f"(({X} - 0.35)**2 + ({Y} - 0.2)**2)"
    u = f"where({square} < 0.0625, {within}*({X} - 0.35), ({X} - 0.35)*(1 + ({dipole})/{square}))"
    boundary = {"phi": "periodic", "all": {"dirichlet": u}}
    errors = []
    for n in (16, 64):
        bodies = [Body(f"{square} < 0.0625", a=inner)]
        box: dict[str, Any] = {"system": "polar", "upper": (1.0, TURN), "boundary": boundary, "exact": u}
        solution = poisson.solve(Problem.on_box((n, 4 * n), bodies=bodies, **box), rtol=1e-9)
        assert solution.error is not None
        errors.append(solution.error.rms)
    assert 0.85 < math.log2(errors[0] / errors[1]) / 2.0 < 1.6, errors


def test_what_floats_and_capacitances() -> None:
    """The electrode at the potential that its charge brings, and the matrix of two of them in an annular sector."""
    solution = poisson.solve(disc(32, electrode(floating=True, charge=2.0)), rtol=1e-10)
    assert solution.bodies["wire"]["potential"] == pytest.approx(2.0 / EXACT, rel=3e-4)
    assert solution.bodies["wire"]["charge"] == pytest.approx(2.0, abs=1e-9)
    found = poisson.capacitance(disc(32, electrode()))
    assert found.names == ("wire", "faces") and found.matrix[0, 0] == pytest.approx(EXACT, rel=1e-3)
    bodies = [
        Body({"shape": "sphere", "center": (0.7, 0.5), "radius": 0.1}, dirichlet=1.0, name="one"),
        Body("abs(r - 0.65) < 0.05 and abs(phi - 1.2) < 0.1", dirichlet=0.0, name="two"),
    ]
    sector = Problem.on_box((33, 49), system="polar", lower=(0.4, 0.0), upper=(1.0, 1.6), bodies=bodies)
    matrix = poisson.capacitance(sector).matrix
    assert np.abs(matrix.sum(axis=0)).max() < 1e-9 and np.array_equal(matrix, matrix.T)
    assert (np.diag(matrix) > 0.0).all() and (matrix - np.diag(np.diag(matrix)) <= 1e-12).all()


@pytest.mark.parametrize(
    ("backend", "options"),
    [
        ("openmp", {}),
        ("openmp", {"precision": "mixed"}),
        ("numpy", {"method": "sor"}),
        ("openmp", {"method": "jacobi"}),
    ],
)
def test_methods_and_backends_agree(backend: Any, options: dict[str, Any]) -> None:
    problem = disc(12, electrode(0.4), a="2 + r*cos(phi)", c=1.0, f="r")
    expected = poisson.solve(problem, "cg", "numpy", rtol=1e-12)
    found = poisson.solve(problem, backend=backend, rtol=1e-11, **options)
    np.testing.assert_allclose(found.u, expected.u, rtol=0.0, atol=1e-8)
    assert found.bodies["wire"] == pytest.approx(expected.bodies["wire"], rel=1e-6)


def test_ranks_find_what_one_process_finds() -> None:
    problem = disc(16, electrode(0.4), f="r")
    alone = poisson.solve(problem, "cg", "numpy", preconditioner="jacobi", rtol=1e-11)
    part, whole = solved(problem, 3, method="cg", backend="numpy", preconditioner="jacobi", rtol=1e-11)
    np.testing.assert_allclose(whole, alone.u, rtol=0.0, atol=1e-9)
    assert part.bodies["wire"] == pytest.approx(alone.bodies["wire"], rel=1e-8)


@pytest.mark.parametrize(
    ("body", "line"),
    [
        (
            Body({"shape": "cylinder", "center": (0.5, 1.0), "radius": 0.1, "axis": "z"}, dirichlet=1.0),
            "body.1.inside.shape: 'cylinder'; allowed: only in 3D; in 2D a disc is a sphere",
        ),
        (
            Body({"shape": "box", "center": (0.5, 1.0), "size": (0.1, 0.1)}, dirichlet=1.0),
            "body.1.inside.shape: 'box'; allowed: sphere, or cylinder along z, beside phi; or a condition",
        ),
    ],
)
def test_what_is_not_there_beside_an_angle_is_refused_in_one_line(body: Body, line: str) -> None:
    with pytest.raises(CaseError) as caught:
        disc(9, body)
    assert str(caught.value) == line


def test_the_force_on_an_electrode_has_the_direction_in_the_plane() -> None:
    """Half the derivative of the capacitance, along x and y wherever the electrode is; the rim has the opposite."""

    def capacitance(away: float) -> float:
        return TURN / math.acosh((RADIUS**2 + 1.0 - away**2) / (2.0 * RADIUS))

    pull = (capacitance(AWAY + 1e-5) - capacitance(AWAY - 1e-5)) / 4e-5
    for phi in (0.0, 0.7):
        errors = []
        for n in (16, 32, 64):
            found = poisson.solve(disc(n, electrode(phi))).bodies["wire"]
            assert set(found) == {"charge", "force_x", "force_y"}
            along = found["force_x"] * math.cos(phi) + found["force_y"] * math.sin(phi)
            across = found["force_y"] * math.cos(phi) - found["force_x"] * math.sin(phi)
            assert abs(across) < 0.1 * abs(along / pull - 1.0) * pull if phi else abs(across) < 1e-9
            errors.append(abs(along / pull - 1.0))
        assert order(errors) > 1.7 and errors[-1] < 3e-3, errors


def test_the_force_on_a_ball_off_the_axis_before_a_plane_is_that_of_its_images() -> None:
    """Along z, the axis phi being between it and r; faces have the potential of the images."""
    radius, charges, heights = 0.25, [0.25], [0.45]
    for _ in range(30):
        charges.append(charges[-1] * radius / (0.45 + heights[-1]))
        heights.append(0.45 - radius**2 / (0.45 + heights[-1]))
    q, heights_ = np.array(charges), np.array(heights)
    force = -4.0 * math.pi * (np.outer(q, q) / np.add.outer(heights_, heights_) ** 2).sum()

    def potential(r: Any, phi: Any, z: Any) -> Any:
        square = r**2 - 0.6 * r * np.cos(phi - 1.0) + 0.09
        images = zip((*q, *-q), (*heights_, *-heights_), strict=True)
        return sum(charge / np.sqrt(square + (z - place) ** 2) for charge, place in images)

    errors = []
    for n in (16, 32):
        problem = Problem.on_box(
            (n, 2 * n, n + 1),
            system="cylinder",
            upper=(0.8, TURN, 1.0),
            boundary={"phi": "periodic", "z_lower": 0.0, "all": potential},
            bodies=[
                Body({"shape": "sphere", "center": (0.3, 1.0, 0.45), "radius": radius}, dirichlet=1.0, name="ball")
            ],
        )
        found = poisson.solve(problem, backend="openmp").bodies["ball"]
        errors.append(abs(found["force_z"] / force - 1.0))
        assert max(abs(found["force_x"]), abs(found["force_y"])) < 0.02 * abs(force)
    assert errors[1] < 0.4 * errors[0] and errors[1] < 0.01, errors


def test_bodies_beside_r_alone_are_refused() -> None:
    with pytest.raises(PoissonError, match=r"^body: bodies beside r alone; allowed: none but in x"):
        Problem.on_box((9,), system="sphere", bodies=[Body("r < 0.5", dirichlet=1.0)])
