# SPDX-License-Identifier: MIT
"""Charges, bodies that float, and capacitances, against exact and published values, and the law of Gauss.

Covers poisson.discrete.charges, poisson.discrete.forces and poisson.cli.capacitances.
"""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import real
from support.places import ROOT

import poisson
from poisson.cli import main
from poisson.problem.given import Form
from poisson.run.conductors import FACES
from poisson.run.memory import Free, Room, needs


def sphere(*center: float, radius: float) -> dict[str, Any]:
    return {"shape": "sphere", "center": center, "radius": radius}


def cylinders(n: int, surface: Form = "shortley_weller") -> poisson.Problem:
    bodies = [
        poisson.Body(sphere(0.25, 0.0, radius=0.3), dirichlet=1.0, name="wire"),
        poisson.Body("hypot(x, y) > 0.9", dirichlet=0.0, name="shell"),
    ]
    return poisson.Problem.on_box((n, n), lower=(-1.0, -1.0), upper=(1.0, 1.0), bodies=bodies, surface=surface)


EXACT = 2.0 * math.pi / math.acosh((0.9**2 + 0.3**2 - 0.25**2) / (2.0 * 0.9 * 0.3))
"""The capacitance of eccentric cylinders, per length, over ε₀."""


PULL = math.pi * 0.25 / (0.9 * 0.3 * EXACT**-2 * 4.0 * math.pi**2 * math.sinh(2.0 * math.pi / EXACT))
"""The force on the inner one, half the derivative of the capacitance by the distance of the axes."""


def test_the_charge_of_eccentric_cylinders_and_their_forces_are_of_second_order() -> None:
    """Three times better than that: what is left in h³ is as large."""
    errors = []
    for n in (33, 65, 129):
        found = poisson.solve(cylinders(n), rtol=1e-10).bodies
        wire, shell = found["wire"], found["shell"]
        assert shell["charge"] == pytest.approx(-wire["charge"], abs=1e-8)
        assert max(abs(each["force_y"]) for each in found.values()) < 1e-9
        errors.append([abs(wire["charge"] / EXACT - 1.0), abs(wire["force_x"] / PULL - 1.0)])
    assert errors[0][0] < 3e-4 and errors[0][1] < 3e-3
    assert np.log2(np.divide(errors[:-1], errors[1:])).min() > 1.85
    assert shell["force_x"] == pytest.approx(-PULL, rel=2e-5)


@pytest.mark.parametrize(
    ("shape", "boundary"), [((33,), {}), ((17, 33), {"x": "periodic"}), ((16, 32), {"x": {"neumann": 0.0}})]
)
def test_the_force_on_a_plate_is_exact(shape: tuple[int, ...], boundary: dict[str, Any]) -> None:
    """E is the same everywhere on both sides: in one dimension, across a periodic axis, and for cells between walls."""
    last = "xy"[len(shape) - 1]
    plate = poisson.Body(f"abs({last} - 0.8) < 0.09", dirichlet=1.0)
    faces = {f"{axis}_{end}": given for axis, given in boundary.items() for end in ("lower", "upper")}
    given = {"boundary": {**(boundary if "periodic" in boundary.values() else faces), "all": 0.0}, "bodies": [plate]}
    centring = "cell" if shape == (16, 32) else "node"
    found = poisson.solve(poisson.Problem.on_box(shape, centring=centring, **given), rtol=1e-12).bodies["body1"]
    assert found[f"force_{last}"] == pytest.approx((0.11**-2 - 0.71**-2) / 2.0, rel=1e-9)
    assert found["force_x"] == pytest.approx(0.0, abs=1e-9) or last == "x"


def test_the_force_on_a_sphere_before_a_plane_is_that_of_its_images() -> None:
    """Faces beside have the potential of the images (J. C. Maxwell, A treatise on electricity, 1873)."""
    radius, charges, places = 0.25, [0.25], [0.45]
    for _ in range(30):
        charges.append(charges[-1] * radius / (0.45 + places[-1]))
        places.append(0.45 - radius**2 / (0.45 + places[-1]))
    q, z = np.array(charges), np.array(places)
    force = -4.0 * math.pi * (np.outer(q, q) / np.add.outer(z, z) ** 2).sum()

    def potential(*at: Any) -> Any:
        images = zip((*q, *-q), (*z, *-z), strict=True)
        return sum(charge / np.sqrt(at[0] ** 2 + at[1] ** 2 + (at[2] - place) ** 2) for charge, place in images)

    box: dict[str, Any] = {"lower": (-0.5, -0.5, 0.0), "upper": (0.5, 0.5, 1.0)}
    boundary, errors = {"z_lower": 0.0, "all": potential}, []
    for n in (25, 49):
        ball = poisson.Body(sphere(0.0, 0.0, 0.45, radius=radius), dirichlet=1.0)
        problem = poisson.Problem.on_box((n,) * 3, boundary=boundary, bodies=[ball], **box)
        found = poisson.solve(problem, backend="openmp").bodies["body1"]
        assert max(abs(found["force_x"]), abs(found["force_y"])) < 1e-6
        errors.append(found["force_z"] / force - 1.0)
    assert np.log2(errors[0] / errors[1]) == pytest.approx(2.0, abs=0.15) and errors[1] < 1e-3
    ball = poisson.Body(sphere(0.0, 0.45, radius=radius), dirichlet=1.0)
    around: dict[str, Any] = {"system": "cylinder", "upper": (0.5, 1.0), "bodies": [ball]}
    boundary = {"z_lower": 0.0, "all": lambda r, z: potential(r, 0.0, z)}
    found = poisson.solve(poisson.Problem.on_box((25, 49), boundary=boundary, **around), backend="openmp").bodies
    assert found["body1"]["force_z"] == pytest.approx(force, rel=1e-3)


def test_a_dielectric_is_pulled_by_a_line_charge_and_others_have_no_force() -> None:
    """A cylinder beside a line charge out of the box, by images; where the stress is no help there is no force."""
    eps, radius, line = 4.0, 0.3, 1.3
    image = (1.0 - eps) / (1.0 + eps)

    def potential(x: Any, y: Any) -> Any:
        return -np.log(np.hypot(x - line, y)) - image * np.log(np.hypot(x - radius**2 / line, y) / np.hypot(x, y))

    box: dict[str, Any] = {"lower": (-1.0, -1.0), "upper": (1.0, 1.0)}
    rod = poisson.Body(sphere(0.0, 0.0, radius=radius), a=eps, name="rod")
    boundary = {"all": potential}
    solution = poisson.solve(poisson.Problem.on_box((65, 65), boundary=boundary, bodies=[rod], **box))
    exact = -2.0 * math.pi * image * (1.0 / (line - radius**2 / line) - 1.0 / line)
    assert solution.bodies["rod"]["force_x"] == pytest.approx(exact, rel=0.02)
    near = poisson.Body("x > 0.36", dirichlet=0.0, name="near")
    far = poisson.Body("x < -0.7", dirichlet=1.0, name="far")
    others: list[tuple[dict[str, Any], set[str]]] = [({}, {"far"}), ({"f": 1.0}, set()), ({"a": "1 + x**2"}, set())]
    for given, named in others:
        found = poisson.solve(poisson.Problem.on_box((33, 33), bodies=[rod, near, far], **given, **box)).bodies
        assert {name for name, values in found.items() if "force_x" in values} == named


@pytest.mark.parametrize("surface", ["shortley_weller", "symmetric"])
def test_charges_and_fluxes_balance_what_is_made_to_rounding(surface: Form) -> None:
    """On stretched nodes, with a that varies, c, two bodies and a face with a flux."""
    axes = ({"nodes": np.linspace(0.0, 1.0, 33) ** 1.2}, {"uniform": (0.0, 1.0, 29)})
    bodies = [
        poisson.Body(sphere(0.31, 0.4, radius=0.11), dirichlet="1 + x", name="one"),
        poisson.Body("abs(x - 0.7) < 0.003 and abs(y - 0.5) < 0.2", dirichlet=-1.0, name="plate"),
    ]
    boundary = {"x_lower": 0.3, "x_upper": {"neumann": 0.4}, "y": "periodic"}
    problem = poisson.Problem.on_lattice(axes, a="1 + x*y", c=0.0, boundary=boundary, bodies=bodies, surface=surface)
    solution = poisson.solve(problem, rtol=1e-13)
    charges = [found["charge"] for found in solution.bodies.values()]
    assert len(charges) == 2 and abs(sum(charges) - sum(solution.fluxes().values())) < 1e-9


def test_a_source_outside_of_a_body_leaves_through_it() -> None:
    """f = 1 around a disc in a box without flow through its faces."""
    problem = poisson.Problem.on_box(
        (65, 65),
        f=1.0,
        boundary={"all": {"neumann": 0.0}},
        bodies=[poisson.Body(sphere(0.5, 0.5, radius=0.2), dirichlet=0.0)],
    )
    assert poisson.solve(problem, rtol=1e-11).bodies["body1"]["charge"] == pytest.approx(
        -(1.0 - math.pi * 0.04), abs=5e-4
    )


def test_a_source_before_a_plate_leaves_through_it_to_rounding() -> None:
    """A plate through the whole box is cut along one axis: what lies between it and the nodes beside counts whole."""
    plate = poisson.Body("x < 0.373", dirichlet=0.0)
    boundary = {"x_upper": 0.0, "all": {"neumann": 0.0}}
    for shape in ((17, 17), (9, 9, 9)):
        problem = poisson.Problem.on_box(shape, f=1.0, boundary=boundary, bodies=[plate])
        charge = poisson.solve(problem, rtol=1e-12).bodies["body1"]["charge"]
        assert charge == pytest.approx(-(1.0 - 0.373) / 2.0, abs=1e-10)


def test_the_capacitance_of_a_square_coaxial_line_is_that_of_bowman() -> None:
    """The side of the outer conductor is twice that of the inner one: 36.81 ohm (F. Bowman, Introduction to elliptic
    functions, 1953, page 99). At the corners the error is of the order 4/3.
    """
    found = []
    for n in (65, 129):
        box = {"shape": "box", "center": (0.0, 0.0), "size": (1.0, 1.0)}
        problem = poisson.Problem.on_box(
            (n, n), lower=(-1.0, -1.0), upper=(1.0, 1.0), bodies=[poisson.Body(box, dirichlet=1.0)]
        )
        result = poisson.capacitance(problem)
        assert result.names == ("body1", FACES) and result.converged
        assert result.matrix[0, 0] == pytest.approx(sum(result.solutions[0].fluxes().values()), rel=1e-8)
        found.append(result.matrix[0, 0])
    limit = found[1] + (found[1] - found[0]) / (2.0 ** (4.0 / 3.0) - 1.0)
    assert 376.730313 / limit == pytest.approx(36.81, abs=0.005)


def test_the_matrix_is_symmetric_and_its_rows_add_up_to_nothing() -> None:
    bodies = [
        poisson.Body(sphere(0.3, 0.3, 0.4, radius=0.15), dirichlet=3.0, name="one"),
        poisson.Body(sphere(0.7, 0.6, 0.5, radius=0.1), floating=True, charge=1.0, name="two"),
        poisson.Body("z < 0.1", dirichlet=0.0, name="floor"),
    ]
    problem = poisson.Problem.on_box((17, 17, 17), f=1.0, boundary={"x": "periodic", "all": 0.0}, bodies=bodies)
    found = poisson.capacitance(problem, backend="openmp", rtol=1e-11)
    assert found.names == ("one", "two", "floor", FACES)
    assert np.array_equal(found.matrix, found.matrix.T)
    assert np.abs(found.matrix.sum(axis=0)).max() < 1e-12 * np.abs(found.matrix).max()
    assert (np.diag(found.matrix) > 0.0).all() and (found.matrix - np.diag(np.diag(found.matrix)) <= 0.0).all()
    for row, solution in enumerate(found.solutions):
        charges = [solution.bodies[name]["charge"] for name in found.names[:3]]
        assert np.abs(charges - found.matrix[row, :3]).max() < 1e-7


def test_capacitances_in_open_space() -> None:
    """4πR of a sphere, to second order, and of two wires π / arccosh(d/2R) between them per length."""
    errors = []
    for n in (17, 33):
        box: dict[str, Any] = {"lower": (-1.0,) * 3, "upper": (1.0,) * 3, "boundary": "open"}
        ball = poisson.Body(sphere(0.0, 0.0, 0.0, radius=0.5), dirichlet=1.0, name="ball")
        found = poisson.capacitance(poisson.Problem.on_box((n,) * 3, bodies=[ball], **box), backend="openmp")
        assert found.names == ("ball",)
        errors.append(1.0 - found.matrix[0, 0] / (2.0 * math.pi))
    assert errors[1] == pytest.approx(1.03e-3, rel=0.01) and math.log2(errors[0] / errors[1]) > 2.0
    wires = [poisson.Body(f"hypot(x - {x}, y) < 0.2", dirichlet=1.0) for x in (-0.5, 0.5)]
    box = {"lower": (-1.0,) * 2, "upper": (1.0,) * 2, "boundary": "open"}
    matrix = poisson.capacitance(poisson.Problem.on_box((65, 65), bodies=wires, **box), backend="openmp").matrix
    potentials = np.linalg.solve(matrix, [1.0, -1.0])
    assert 1.0 / (potentials[0] - potentials[1]) == pytest.approx(math.pi / math.acosh(2.5), rel=1e-3)


def test_spheres_in_spheres() -> None:
    bodies = [
        poisson.Body(sphere(0.0, 0.0, 0.0, radius=0.3), dirichlet=1.0),
        poisson.Body("hypot(hypot(x, y), z) > 0.9", dirichlet=0.0),
    ]
    problem = poisson.Problem.on_box((33, 33, 33), lower=(-1.0,) * 3, upper=(1.0,) * 3, bodies=bodies)
    charge = poisson.solve(problem, backend="openmp").bodies["body1"]["charge"]
    assert charge == pytest.approx(4.0 * math.pi * 0.27 / 0.6, rel=1e-3)


def test_a_body_that_floats_has_its_charge_and_one_potential() -> None:
    """Between eccentric cylinders the charge that is given brings the potential that the capacitance says."""
    bodies = [
        poisson.Body(sphere(0.25, 0.0, radius=0.3), floating=True, charge=2.0, name="wire"),
        poisson.Body("hypot(x, y) > 0.9", dirichlet=0.5, name="shell"),
    ]
    problem = poisson.Problem.on_box((65, 65), lower=(-1.0, -1.0), upper=(1.0, 1.0), bodies=bodies)
    solution = poisson.solve(problem, rtol=1e-10)
    found = solution.bodies["wire"]
    assert found["charge"] == pytest.approx(2.0, abs=1e-7)
    assert found["potential"] == pytest.approx(0.5 + 2.0 / EXACT, rel=2e-4)
    inside = np.hypot(*np.meshgrid(*(problem.lattice.coordinates(axis) - 0.25 * (axis == 0) for axis in (0, 1)))) < 0.29
    assert np.array_equal(solution.u[inside], np.full(np.count_nonzero(inside), found["potential"]))


def test_what_floats_knows_its_potential_from_a_file(tmp_path: Path) -> None:
    case = poisson.load_case(ROOT / "cases" / "electrodes.toml", ["domain.shape = [33, 25]"])
    solution = poisson.solve(case)
    loaded = poisson.load(solution.save(tmp_path / "electrodes.h5"))
    assert loaded.bodies == solution.bodies and set(solution.bodies) == {"anode", "cathode", "rod"}
    assert np.array_equal(loaded.E, solution.E) and loaded.problem.bodies == solution.problem.bodies


def test_the_command_prints_the_matrix(capsys: pytest.CaptureFixture[str]) -> None:
    case = ["capacitance", str(ROOT / "cases" / "electrodes.toml"), "--set", "domain.shape=[33,25]"]
    assert main([*case, "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert record["names"] == ["anode", "cathode", "rod", FACES] and record["converged"]
    assert np.abs(np.sum(record["matrix"], axis=0)).max() < 1e-12
    assert main(case) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == record["names"]
    assert float(lines[0].split()[1]) == pytest.approx(record["matrix"][0][0], rel=1e-5)


@pytest.mark.parametrize(
    ("given", "line"),
    [
        ({"bodies": [poisson.Body("x < 0.3", neumann=0.0)]}, "body: no conductor; allowed: bodies with dirichlet or"),
        ({"bodies": [poisson.Body("x < 0.3", dirichlet=0.0)], "c": 1.0}, "equation.c: c or a robin condition; allowed"),
    ],
)
def test_what_has_no_capacitance_is_refused(given: dict[str, Any], line: str) -> None:
    with pytest.raises(poisson.PoissonError) as error:
        poisson.capacitance(poisson.Problem.on_box((9, 9), **given))
    assert str(error.value).startswith(line) and "\n" not in str(error.value)


def test_potentials_that_nothing_determines_are_refused() -> None:
    body = poisson.Body(sphere(0.5, 0.5, radius=0.2), floating=True)
    with pytest.raises(poisson.PoissonError, match=r"^body: nothing but bodies that float; allowed: a body or a face"):
        poisson.solve(poisson.Problem.on_box((17, 17), boundary={"all": {"neumann": 0.0}}, bodies=[body]))


def test_a_solver_takes_other_data_beside_bodies_and_sets_up_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """What floats has its influence once; other coefficients are another one."""
    from poisson.run import method, solver

    made: list[object] = []
    set_up, solve_for = method.set_up_on, solver.Solver._solve_for

    def counted(*given: Any) -> Any:
        made.append("setup")
        return set_up(*given)

    def solved(*given: Any, **more: Any) -> Any:
        made.append("solve")
        return solve_for(*given, **more)

    monkeypatch.setattr(method, "set_up_on", counted)
    monkeypatch.setattr(solver, "set_up_on", counted)
    monkeypatch.setattr(solver.Solver, "_solve_for", solved)
    bodies = [
        poisson.Body(sphere(0.3, 0.4, radius=0.15), floating=True, charge=1.0, name="one"),
        poisson.Body(sphere(0.7, 0.6, radius=0.1), floating=True, name="two"),
        poisson.Body("y < 0.13", dirichlet="x", name="floor"),
        poisson.Body(sphere(0.75, 0.25, radius=0.08), neumann=0.3, name="heater"),
    ]
    given = {"f": 1.0, "a": "1 + x", "boundary": {"x": "periodic", "all": 0.0}, "bodies": bodies}
    solver_of_all = poisson.Solver(poisson.Problem.on_box((24, 33), **given), rtol=1e-10)  # type: ignore[arg-type]
    for other, steps in (
        ({}, ["setup"] + ["solve"] * 4),
        ({"f": "x*y + 3"}, ["solve"] * 2),
        ({"boundary": {"y_upper": "1 + x"}}, ["solve"] * 2),
        ({"a": "2 + x"}, ["solve", "setup"] + ["solve"] * 3),
        ({"f": 2.0}, ["solve", "setup"] + ["solve"] * 3),
    ):
        found = solver_of_all.solve(**other)  # type: ignore[arg-type]
        assert made == steps
        boundary = {"boundary": given["boundary"] | other["boundary"]} if "boundary" in other else {}  # type: ignore[operator]
        alone = poisson.solve(poisson.Problem.on_box((24, 33), **given | other | boundary), rtol=1e-10)  # type: ignore[arg-type, operator]
        np.testing.assert_allclose(found.u, alone.u, rtol=0.0, atol=1e-9)
        for name, values in alone.bodies.items():
            assert found.bodies[name] == pytest.approx(values, rel=1e-7, abs=1e-8)
        made.clear()
    matrix = poisson.capacitance(poisson.Problem.on_box((24, 33), **given)).matrix  # type: ignore[arg-type]
    assert made == ["setup"] + ["solve"] * 3 and matrix.shape == (4, 4)


@pytest.mark.parametrize("backend", ["numpy", "openmp"])
@pytest.mark.parametrize(
    "options",
    [{}, {"method": "multigrid"}, {"precision": "mixed"}, {"method": "chebyshev"}],
    ids=lambda options: "-".join(options.values()) or "auto",
)
def test_a_later_call_beside_what_floats_takes_one_solve(
    backend: Any, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its iterations are those with all bodies at 0, what was kept adds the rest, and the charges are those given."""
    round_ = [sphere(0.3, 0.4, radius=0.15), sphere(0.7, 0.6, radius=0.1)]
    floor = poisson.Body("y < 0.13", dirichlet="x", name="floor")
    floating, at_zero = (
        [
            *(poisson.Body(inside, name=name, **given) for inside, name, given in zip(round_, "ab", data, strict=True)),
            floor,
        ]
        for data in (({"floating": True, "charge": 1.0}, {"floating": True}), ({"dirichlet": 0.0},) * 2)
    )
    given = {"backend": backend, "rtol": 1e-10, **options}
    solvers = [poisson.Solver(poisson.Problem.on_box((41, 33), bodies=each), **given) for each in (floating, at_zero)]
    made: list[int] = []
    solve_for = poisson.Solver._solve_for

    def solved(*given: Any, **more: Any) -> Any:
        solution = solve_for(*given, **more)
        made.append(solution.iterations)
        return solution

    monkeypatch.setattr(poisson.Solver, "_solve_for", solved)
    for f in (1.0, "x*y + 3"):
        made.clear()
        told: list[int] = []
        found = solvers[0].solve(f=f, observer=lambda number, _, told=told: told.append(number))  # type: ignore[misc]
        assert (len(made), made[-1]) == (4 if f == 1.0 else 2, 0)
        zero = solvers[1].solve(f=f)
        assert found.status.success and found.iterations == zero.iterations == told[-1] == found.history[-1][0]
        assert [found.bodies[name]["charge"] for name in "ab"] == pytest.approx([1.0, 0.0], abs=1e-12)
        numbers = [number for number, _ in found.history]
        assert numbers == sorted(set(numbers)) and found.history[-1][1] <= found.target


def test_what_floats_alone_is_done_with_its_unit_solution() -> None:
    """With no other data the residual of the sum is no measure of them: the target is that of the unit solution."""
    wire = poisson.Body(sphere(0.45, 0.52, radius=0.2), floating=True, charge=3.0, name="wire")
    wall: dict[str, Any] = {"x_lower": {"robin": 0.0, "alpha": 2.0}, "all": {"neumann": 0.0}}
    for form in ("shortley_weller", "symmetric"):
        given: dict[str, Any] = {"boundary": wall, "bodies": [wire], "surface": form}
        solution = poisson.solve(poisson.Problem.on_box((33, 33), **given), rtol=1e-8)
        assert solution.status.success and solution.iterations == 0 and solution.target > 0.0
        assert solution.bodies["wire"]["charge"] == pytest.approx(3.0, abs=1e-12)
        assert solution.face_flux("x_lower") == pytest.approx(3.0, rel=1e-6)


def test_what_is_kept_for_bodies_that_float_is_counted() -> None:
    """An array for each, and one for their sum; none without such a body."""
    ball = poisson.Body(sphere(0.5, 0.5, radius=0.2), floating=True)
    problem = poisson.Problem.on_box((33, 33), bodies=[ball, poisson.Body("x < 0.1", floating=True, charge=1.0)])
    held = poisson.Problem.on_box((33, 33), bodies=[poisson.Body("x < 0.1", dirichlet=1.0)])
    needed = []
    for each in (problem, held):
        solver = poisson.Solver(each, "cg", "numpy")
        local = solver._setup.local
        [_, need] = needs(local, Room.of(solver.request), Free(local))
        needed.append(need.size)
    assert needed[0] - needed[1] == pytest.approx(3 * 8 * 33**2, abs=1)
    assert poisson.capacitance(problem).converged


def test_the_charge_is_that_of_the_source_that_a_solver_was_given() -> None:
    body = poisson.Body(sphere(0.5, 0.5, radius=0.2), dirichlet=1.0)
    solver = poisson.Solver(poisson.Problem.on_box((17, 17), bodies=[body]), rtol=1e-11)
    alone = poisson.solve(poisson.Problem.on_box((17, 17), f="10 + x", bodies=[body]), rtol=1e-11)
    assert solver.solve(f="10 + x").bodies["body1"]["charge"] == pytest.approx(alone.bodies["body1"]["charge"])


@pytest.mark.gpu
@pytest.mark.parametrize("method", ["cg", "multigrid", "chebyshev"])
def test_a_device_finds_the_charges_and_forces_of_the_host(method: str) -> None:
    """With values beside surfaces read in the order of its stream."""
    real("gpu")(np.float64)
    body = poisson.Body("x**2 + y**2 < 0.1", dirichlet="1 + x")
    source = "where(x > 0.6, x*y + 1, 0)"
    problem = poisson.Problem.on_box((65, 57), lower=(-1.0, -1.0), upper=(1.0, 1.0), f=source, bodies=[body])
    device, host = (poisson.solve(problem, method, backend, rtol=1e-11) for backend in ("gpu", "numpy"))
    assert device.status.success and device.iterations == host.iterations
    np.testing.assert_allclose(device.host_u, host.u, rtol=0, atol=1e-9)
    assert host.bodies["body1"].keys() == {"charge", "force_x", "force_y"}
    assert device.bodies["body1"] == pytest.approx(host.bodies["body1"], rel=1e-8, abs=1e-8)
