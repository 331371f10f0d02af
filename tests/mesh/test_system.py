# SPDX-License-Identifier: MIT
"""Cylinders, discs and balls: orders of accuracy, exact balances, published values, and what is refused."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from conftest import emulated, real
from scipy.special import j0
from support.ranks import on_ranks

import poisson
from poisson.backends.numpy import NumpyBackend
from poisson.case import from_mapping
from poisson.discrete import reference
from poisson.discrete.balance import balanced
from poisson.discrete.discretisation import Discretisation
from poisson.discrete.integrals import energy, mean
from poisson.discrete.inverse import Inverse
from poisson.discrete.outflow import outflow
from poisson.errors import CaseError
from poisson.mesh.boundary import Kind
from poisson.mesh.system import SYSTEMS, faces_of
from poisson.output.pictures.samples import sample
from poisson.problem.exact_data import manufactured_source, manufactured_value
from poisson.problem.expressions import parse
from poisson.problem.problem import Problem
from poisson.run.quantities import quantities

ALPHA = 2.0
CUBES: dict[str, Callable[[int], Any]] = {
    "nodes": lambda n: {"nodes": np.linspace(0.0, 1.0, n) ** 1.2},
    "cells": lambda n: {"cells": np.linspace(0.0, 1.0, n) ** 1.2},
}


def manufactured(
    system: str, exact: str, axes: Any, conditions: Mapping[str, str], a: str = "1", c: float = 0.0
) -> Problem:
    """The problem that a function solves, with the data of the conditions derived from it."""
    described = SYSTEMS[system][len(axes)]
    u, coefficient = parse(exact, described.axes), parse(a, described.axes)
    boundary: dict[str, Any] = {}
    for name, word in conditions.items():
        if word == "periodic":
            boundary[name] = word
            continue
        kind, face = Kind(word), faces_of(described.axes).index(name)
        alpha = parse(str(ALPHA), described.axes) if kind.takes_alpha else None
        boundary[name] = {word: manufactured_value(u, coefficient, kind, alpha, face)}
        boundary[name] |= {} if alpha is None else {"alpha": alpha}
    f = manufactured_source(u, coefficient, c, len(axes), described.power)
    return Problem.on_lattice(axes, f=f, a=coefficient, c=c, boundary=boundary, exact=u, system=system)


def uniform(lower: float, upper: float) -> Callable[[int], Any]:
    return lambda n: {"uniform": (lower, upper, n)}


def turn(n: int) -> Any:
    """As many nodes around a circle as keep the ratio of spacings."""
    return {"uniform": (0.0, 2.0 * math.pi, 2 * (n - 1))}


CASES: dict[str, tuple[Any, ...]] = {
    "r": ("cylinder", "cos(2*r)", (uniform(0.0, 1.0),), {"r_upper": "dirichlet"}),
    "r shell": ("cylinder", "cos(2*r)", (uniform(0.5, 1.0),), {"r_lower": "dirichlet", "r_upper": "neumann"}, "1+r*r"),
    "ball": ("sphere", "cos(2*r)", (uniform(0.0, 1.0),), {"r_upper": "robin"}, "1 + r*r", 0.7),
    "ball of cells": ("sphere", "cos(2*r)", (CUBES["cells"],), {"r_upper": "dirichlet"}),
    "r, z": (
        "cylinder",
        "cos(2*r)*sin(z)",
        (uniform(0.0, 1.0), uniform(0.0, 2.0)),
        {"r_upper": "robin", "z_lower": "neumann", "z_upper": "dirichlet"},
        "1 + r*z",
    ),
    "r, z stretched": (
        "cylinder",
        "cos(2*r)*sin(pi*z)",
        (CUBES["cells"], uniform(0.0, 2.0)),
        {"r_upper": "dirichlet", "z": "periodic"},
    ),
    "disc": (
        "polar",
        "r**2*cos(2*phi) + r*sin(phi) + r**4",
        (CUBES["cells"], turn),
        {"phi": "periodic", "r_upper": "dirichlet"},
    ),
    "sector": (
        "polar",
        "r**3*sin(2*phi)",
        (uniform(0.5, 1.0), lambda n: {"cells": np.linspace(0.3, 1.3, n)}),
        {"r_lower": "robin", "r_upper": "dirichlet", "phi_lower": "robin", "phi_upper": "neumann"},
        "1 + r*phi",
        0.5,
    ),
    "r, phi, z": (
        "cylinder",
        "r**2*cos(2*phi)*sin(z) + r**4",
        (
            lambda n: CUBES["cells"](n // 2 + 1),
            lambda n: turn(n // 2 + 1),
            lambda n: {"uniform": (0.0, 1.0, n // 2 + 1)},
        ),
        {"phi": "periodic", "r_upper": "neumann", "z_lower": "dirichlet", "z_upper": "dirichlet"},
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_the_error_is_of_second_order(name: str) -> None:
    system, exact, axes, conditions, *others = CASES[name]
    errors = []
    for n in (17, 33):
        problem = manufactured(system, exact, [axis(n) for axis in axes], conditions, *others)
        discretisation = Discretisation(problem)
        u = reference.solve(discretisation)
        solution = poisson.solve(problem, rtol=1e-11, backend="numpy" if n < 20 else "openmp")
        np.testing.assert_allclose(solution.u, u.reshape(solution.u.shape), rtol=0, atol=1e-8)
        assert solution.error is not None
        errors.append(solution.error.max)
    assert math.log2(errors[0] / errors[1]) == pytest.approx(2.0, abs=0.15)


def lengths(marks: Any, power: int, cells: bool) -> Any:
    """∫ r^p dr of the control widths along an axis, or their lengths where p is 0."""
    edges = marks if cells else np.concatenate([marks[:1], (marks[1:] + marks[:-1]) / 2.0, marks[-1:]])
    return np.diff(edges ** (power + 1)) / (power + 1)


@pytest.mark.parametrize("name", CASES)
def test_the_flows_balance_with_the_weight_of_the_radius(name: str) -> None:
    """For any u whatever, to rounding."""
    system, exact, axes, conditions, *others = CASES[name]
    tables = [axis(9) for axis in axes]
    problem = manufactured(system, exact, tables, conditions, *others)
    discretisation, backend = Discretisation(problem), NumpyBackend(np.float64)
    shape = discretisation.array_shape
    u, r = np.random.default_rng(5).standard_normal(shape), backend.empty(shape)
    source = backend.assemble(shape, discretisation.source)
    backend.bind(discretisation.operator_on(backend)).residual(u, source, r)
    f, c = (part(np, 0, shape[0]) for part in (discretisation.f, discretisation.c))
    angles = {"cylinder": 2.0 * np.pi, "sphere": 4.0 * np.pi, "polar": 1.0}[system]
    volumes = np.array(1.0 if "phi" in problem.lattice.names else angles)
    for axis, (line, table) in enumerate(zip(problem.lattice.axes, tables, strict=True)):
        marks = table["cells"] if "cells" in table else np.append(line.coordinates, [line.interval[1]] * line.wraps)
        along = lengths(marks, (system == "sphere") + 1 if axis == 0 else 0, "cells" in table)
        if line.wraps:
            along = np.full(line.nodes, line.spacing)
        volumes = volumes * along.reshape(-1, *(1,) * axis)
    assert float(volumes.sum()) == pytest.approx(problem.lattice.volume, rel=1e-14)
    flows = [outflow(discretisation, u, face) for face, given in enumerate(problem.faces) if given.kind.leads_out]
    made = float((volumes * (f - c * u - r)).sum())
    scale = float((volumes * (abs(f) + abs(c * u) + abs(r))).sum()) + sum(map(abs, flows))
    assert abs(sum(flows) - made) < 1e-13 * scale


@pytest.mark.parametrize(
    ("system", "capacitance"), [("cylinder", 2.0 * math.pi / math.log(2.0)), ("sphere", 4.0 * math.pi / (1.0 - 0.5))]
)
@pytest.mark.parametrize("kind", ["nodes", "cells"])
def test_a_capacitor_of_two_shells(system: str, capacitance: float, kind: str) -> None:
    """J. D. Jackson, Classical Electrodynamics, 3rd edition, problem 1.6: of length 1, or of two balls, from 1 to 2."""
    errors = []
    for n in (16, 32):
        axis = {kind: np.linspace(1.0, 2.0, n + 1)}
        problem = Problem.on_lattice([axis], boundary={"r_lower": 1.0, "r_upper": 0.0}, system=system)
        solution = poisson.solve(problem, rtol=1e-12, backend="numpy")
        flows = solution.fluxes()
        assert flows["r_upper"] == pytest.approx(-flows["r_lower"], rel=1e-11)
        assert 2.0 * energy(Discretisation(problem), solution.u) == pytest.approx(flows["r_upper"], rel=1e-11)
        errors.append(abs(flows["r_upper"] - capacitance))
    assert math.log2(errors[0] / errors[1]) == pytest.approx(2.0, abs=0.1)


def test_the_staggered_example_of_fishpack() -> None:
    """The example of HSTCYL, whose documentation has the perturbation and the error.

    J. Adams, P. Swarztrauber and R. Sweet, FISHPACK, version 4.1, 1999, hstcyl.f: −4.43114e-04 and 7.52796e-05.
    """
    problem = Problem.on_lattice(
        ({"cells": np.linspace(0.0, 1.0, 51)}, {"cells": np.linspace(0.0, 1.0, 53)}),
        f="-4*r**2*z**2*(4*z**2 + 3*r**2)",
        boundary={"r_upper": {"neumann": "4*z**4"}, "z_lower": {"neumann": 0.0}, "z_upper": {"neumann": "4*r**4"}},
        system="cylinder",
    )
    discretisation = balanced(Discretisation(problem), np)
    assert discretisation.shift == pytest.approx(4.43114e-04, abs=5e-10)
    solution = poisson.solve(problem, rtol=1e-12, backend="numpy")
    r, z = (problem.lattice.coordinates(axis) for axis in (0, 1))
    difference = solution.u - (r * z[:, None]) ** 4
    assert mean(discretisation, solution.u) == pytest.approx(0.0, abs=1e-12)
    assert np.abs(difference - difference.mean()).max() == pytest.approx(7.52796e-05, abs=5e-11)


@pytest.mark.parametrize("backend", ["numpy", "openmp"])
def test_the_polar_example_of_fishpack(backend: str) -> None:
    """The example of HSTPLR: an error of 1.13038e-03 on a quarter of a disc, 50 times 48 cells."""
    problem = Problem.on_lattice(
        ({"cells": np.linspace(0.0, 1.0, 51)}, {"cells": np.linspace(0.0, math.pi / 2.0, 49)}),
        f="-16*r**2",
        boundary={"r_upper": "1 - cos(4*phi)", "all": {"neumann": 0.0}},
        exact="r**4*(1 - cos(4*phi))",
        system="polar",
    )
    solution = poisson.solve(problem, "fft", backend)
    assert solution.error is not None and solution.error.max == pytest.approx(1.13038e-03, abs=5e-9)
    gradient = np.asarray(solution.gradient)
    r, phi = (problem.lattice.coordinates(axis) for axis in (0, 1))
    slope = 4.0 * r**3 * np.sin(4.0 * phi[:, None])
    assert np.abs(gradient[1:-1, :, 1] - slope[1:-1]).max() < 0.02


@pytest.mark.parametrize("name", ["disc", "r, phi, z"])
def test_lines_along_r_solve_for_every_angle(name: str) -> None:
    """Lines solve what the rows say, where they are singular, too, and where phi ends at faces; on a GPU likewise."""
    system, exact, axes, conditions = CASES[name]
    closed = {key: kind for key, kind in conditions.items() if key != "phi"} | {
        "phi_lower": "dirichlet",
        "phi_upper": "neumann",
    }
    free = {key: kind if kind == "periodic" else "neumann" for key, kind in conditions.items()}
    for given in (conditions, closed, free):
        tables = [axis(17) for axis in axes]
        if given is closed:
            tables[1] = {"uniform": (0.0, 1.0, 9)}
        problem = manufactured(system, exact, tables, given, c=3.0 * (given is closed))
        solution = poisson.solve(problem, "fft", "numpy", rtol=1e-9)
        iterated = poisson.solve(problem, "cg", "numpy", rtol=1e-11)
        np.testing.assert_allclose(solution.u, iterated.u, rtol=0, atol=1e-8)
        found, random, values = [], np.random.default_rng(3), np.empty(0)
        single = [real("openmp")(np.float32)]
        for backend in (NumpyBackend(np.float64), emulated(np.float64), real("openmp")(np.float64), *single):
            operator = Discretisation(problem).operator_on(backend).separable
            assert operator is not None
            values = values if values.size else random.standard_normal((2, *operator.array_shape))
            f, u = map(backend.from_host, values)
            backend.bind(Inverse(operator)).solve(f, u)
            found.append(backend.to_host(u))
        for other, rounding in zip(found[1:], (1e-12, 1e-12, 1e-5), strict=True):
            np.testing.assert_allclose(other, found[0], rtol=0, atol=rounding * np.abs(found[0]).max())


@pytest.mark.parametrize(
    ("inner", "preconditioner", "iterations"), [(0.0, "fft", 46), (0.18, "fft", 49), (0.19, "multigrid", 11)]
)
def test_lines_precondition_only_near_the_axis(inner: float, preconditioner: str, iterations: int) -> None:
    """Lines serve where r = 0 is near; where links along phi vary little with r, cycles need fewer iterations."""
    a = "where(hypot(r*cos(phi) - 0.6, r*sin(phi)) < 0.2, 1000, 1)"
    box: dict[str, Any] = {"system": "polar", "lower": (inner, 0.0), "upper": (1.0, 2 * math.pi)}
    faces: dict[str, Any] = {"r_upper": 0.0, "phi": "periodic"} | ({"r_lower": 0.0} if inner else {})
    problem = Problem.on_box((65, 128), f=1.0, a=a, boundary=faces, **box)
    solution = poisson.solve(problem, "auto", "numpy", rtol=1e-8)
    assert solution.provenance["method"].startswith(f"cg with preconditioner {preconditioner}")
    assert solution.status.success and solution.iterations == pytest.approx(iterations, abs=2)


def test_a_bessel_function_is_an_eigenfunction() -> None:
    """c u − ∇²u = (j² + c) u of u = J₀(j r), whose first zero is j."""
    j = 2.404825557695773
    errors = []
    for n in (33, 65):
        r = np.linspace(0.0, 1.0, n)
        f = (j**2 + 3.0) * j0(j * r)
        problem = Problem.on_box((n,), f=f, c=3.0, boundary={"r_upper": 0.0}, system="cylinder")
        errors.append(np.abs(poisson.solve(problem, rtol=1e-12, backend="numpy").u - j0(j * r)).max())
    assert math.log2(errors[0] / errors[1]) == pytest.approx(2.0, abs=0.05)


CYLINDER = {
    "equation": {"f": 1.0},
    "domain": {"system": "cylinder", "lower": [0.0, 0.0], "upper": [1.0, 2.0], "shape": [9, 17]},
    "boundary": {"r_upper": {"dirichlet": "z"}, "z": "periodic"},
    "run": {"backend": "numpy"},
    "output": {"fields": ["u", "E"]},
}
WRONG = {
    "boundary.r_lower.dirichlet=1.0": "boundary.r_lower: { dirichlet = 1.0 }; allowed: nothing, because r = 0 is no",
    "boundary.x_lower.dirichlet=1.0": "boundary.x_lower: unknown key; allowed: all, z, z_lower, z_upper, r_lower",
    "domain.lower=[-1.0, 0.0]": "domain.r: a radius from -1; allowed: from 0 or more, and not periodic",
    "domain.system='sphere'": 'domain.system: "sphere" with 2 axes; allowed: "cartesian" with x or x, y or x, y, z',
    "equation.f=1 + x": "x at column 5 is not a coordinate of this case, which has r, z",
    "boundary.r_lower='open'": 'boundary.r_lower: "open"; allowed: nothing, because r = 0 is no face',
    "domain={system='polar', lower=[0.0, 0.0], upper=[1.0, 7.0], shape=[9, 9]}": "an angle of at most 2 pi",
    "domain={system='polar', lower=[0.5, 0.0], upper=[1.0, 5.0], shape=[9, 9]}": "or a whole part of it, because phi",
    "domain={system='polar', lower=[0, 0], upper=[1, 6.283185307179586], shape=[9, 9], centring={r='node'}}": (
        "nodes along r from 0; allowed: cells"
    ),
    "parameters.r=1.0": "parameters.r: this is the name of a coordinate; choose another name",
}


@pytest.mark.parametrize("override", WRONG)
def test_a_mistake_is_one_line(override: str) -> None:
    tables = (
        {**CYLINDER, "boundary": {"all": {"dirichlet": 0.0}, "phi": "periodic"}} if "polar" in override else CYLINDER
    )
    with pytest.raises(CaseError) as raised:
        from_mapping(tables, name="a", folder=".", overrides=override.split("; "))
    assert WRONG[override] in str(raised.value)


def test_arrays_of_another_order_are_told_the_order() -> None:
    problem = Problem.on_box((9, 16), system="polar", lower=(0.5, 0.0), upper=(1.0, 2 * math.pi))
    message = r"^a: an array of the shape \(9, 16\); the grid needs \(16, 9\), because arrays are \(nphi, nr\)$"
    with pytest.raises(CaseError, match=message):
        problem.having(a=np.ones((9, 16)))


def test_a_cylinder_through_a_file(tmp_path: Path) -> None:
    """As it was solved, by names of its own in the file and in Python."""
    case = from_mapping(CYLINDER, name="a", folder=".")
    solution = poisson.solve(case)
    path = solution.save(tmp_path / "a.h5")
    loaded = poisson.load(path)
    assert loaded.problem == solution.problem
    assert (loaded.u == solution.u).all()
    assert list(loaded.to_xarray().u.dims) == ["z", "r"]
    assert loaded.at(0.0, 8.0 / 17.0) == pytest.approx(loaded.u[4, 0], rel=1e-12)
    other = Problem.on_box(
        (9, 17), f=1.0, upper=(1.0, 2.0), boundary={"r_upper": "z", "z": "periodic"}, system="cylinder"
    )
    assert (poisson.solve(other, backend="numpy").u == solution.u).all()
    found = quantities(loaded)
    assert found["flux_r_upper"] == pytest.approx(2.0 * math.pi, rel=1e-6)
    assert other.having(boundary={"r_upper": 3.0}).faces[0].kind is Kind.AXIS


def test_a_disc_in_files_and_pictures(tmp_path: Path) -> None:
    """Where its nodes are for readers of XDMF, and on the plane of a picture, with the components of vectors turned."""
    problem = Problem.on_box(
        (12, 24),
        upper=(2.0, 2.0 * math.pi),
        boundary={"phi": "periodic", "r_upper": "r*cos(phi)"},
        exact="r*cos(phi)",
        system="polar",
    )
    solution = poisson.solve(problem, backend="numpy", fields=("E",))
    assert solution.error is not None and solution.error.max < 1e-2
    path = solution.save(tmp_path / "disc.h5")
    loaded = poisson.load(path)
    assert loaded.problem == problem and set(loaded.fields) == {"E"}
    with h5py.File(path) as file:
        (points,) = file["points"][...]
    r, phi = (problem.lattice.coordinates(axis) for axis in (0, 1))
    np.testing.assert_allclose(points[..., 0], r * np.cos(phi[:, None]), rtol=1e-14, atol=1e-14)
    text = path.with_suffix(".xmf").read_text("utf-8")
    assert "3DSMesh" in text and "disc.h5:/points" in text and ":/u<" in text and ":/E<" not in text
    drawn = sample(solution, "u", {}, 100)
    x, y = np.meshgrid(*drawn.coordinates)
    inside = np.hypot(x, y) < 1.9
    assert drawn.names[:2] == ("x", "y") and np.isnan(drawn.values[np.hypot(x, y) > 2.01]).all()
    np.testing.assert_allclose(
        drawn.values[inside & (np.hypot(x, y) > 0.1)], x[inside & (np.hypot(x, y) > 0.1)], atol=0.03
    )
    field = sample(solution, "E", {}, 100).values[inside & (np.hypot(x, y) > 0.1)]
    np.testing.assert_allclose(field, np.broadcast_to([-1.0, 0.0], field.shape), atol=0.06)


def test_discs_and_cylinders_on_ranks() -> None:
    """Directly with an angle, and by conjugate gradients with products, to the same u in few iterations."""
    direct, products = {"method": "fft"}, {"method": "cg", "coarse": "galerkin"}
    for name, iterations, options in (
        ("disc", 1, direct),
        ("r, phi, z", 1, direct),
        ("disc", 12, products),
        ("r, z", 8, {}),
    ):
        system, exact, axes, conditions, *others = CASES[name]
        tables = [axis(17) for axis in axes]
        closed = {key: kind for key, kind in conditions.items() if key != "phi"}
        closed |= {"phi_lower": "dirichlet", "phi_upper": "neumann"}
        free = {key: kind if kind == "periodic" else "neumann" for key, kind in conditions.items()}
        for given in (conditions, closed, free) if iterations == 1 else (conditions,):
            if given is closed:
                tables[1] = {"uniform": (0.0, 1.0, 9)}
            elif given is free:
                tables[1] = turn(7)
            problem = manufactured(system, exact, tables, given, *others)
            alone = poisson.solve(problem, rtol=1e-10, backend="numpy")

            def solve(comm: Any, problem: Problem = problem, options: Any = options) -> tuple[int, Any, Any]:
                # Whole planes, which a problem of this size would not be divided into.
                given = options | ({"ranks": (*(1,) * (len(problem.lattice.shape) - 1), comm.size)} if options else {})
                solution = poisson.solve(problem, rtol=1e-10, backend="openmp", comm=comm, fields=("E",), **given)
                assert not options or (solution.share is not None and solution.u.size < problem.lattice.nodes)
                return solution.iterations, solution.gather(), solution.gather("E")

            (count, u, field), *_ = on_ranks(3 if given is free else 2, solve, delay=0.0)
            assert count <= iterations
            np.testing.assert_allclose(u, alone.u, rtol=0, atol=1e-8 if iterations > 1 else 1e-12)
            np.testing.assert_allclose(field, -np.asarray(alone.gradient), rtol=0, atol=1e-6)


@pytest.mark.parametrize("surface", ["symmetric", "shortley_weller"])
def test_electrodes_around_an_axis_have_the_capacitance_of_spheres(surface: str) -> None:
    inner, outer = 0.31, 0.93
    bodies = [
        {"name": "ball", "inside": f"r**2 + z**2 < {inner}**2", "dirichlet": 1.0},
        {"name": "shell", "inside": f"r**2 + z**2 > {outer}**2", "dirichlet": 0.0},
    ]
    wanted = 4.0 * math.pi / (1.0 / inner - 1.0 / outer)
    errors, defects = [], []
    for nodes in (17, 65):
        box: dict[str, Any] = {
            "system": "cylinder",
            "lower": (0.0, -1.0),
            "upper": (1.0, 1.0),
            "boundary": {"all": 0.0},
        }
        problem = poisson.Problem.on_box((nodes, 2 * nodes - 1), **box, bodies=bodies, surface=surface)
        solution = poisson.solve(problem, "cg", backend="numpy", rtol=1e-10)
        r, z = (problem.lattice.coordinates(axis) for axis in range(2))
        distance = np.clip(np.hypot(r, z[:, np.newaxis]), inner, outer)
        errors.append(abs(solution.u - (1.0 / distance - 1.0 / outer) * wanted / (4.0 * math.pi)).max())
        charges = [solution.bodies[name]["charge"] for name in ("ball", "shell")]
        assert charges[0] == pytest.approx(-charges[1], rel=1e-8) and "force_x" not in solution.bodies["ball"]
        defects.append(abs(charges[0] / wanted - 1.0))
        if nodes == 17:
            floats = {"name": "ball", "inside": bodies[0]["inside"], "floating": True, "charge": charges[0]}
            given = poisson.Problem.on_box((17, 33), **box, bodies=[floats, bodies[1]], surface=surface)
            found = poisson.solve(given, "cg", backend="numpy", rtol=1e-10).bodies["ball"]
            assert found["potential"] == pytest.approx(1.0, rel=1e-8)
    assert math.log2(errors[0] / errors[1]) / 2.0 > 1.5
    assert math.log2(defects[0] / defects[1]) / 2.0 > 1.4


@pytest.mark.parametrize(
    ("condition", "exact", "flow"),
    [
        ({"neumann": 0.0}, "z*(1 + 0.4**3/(2*{}**3))", 0.0),
        ({"neumann": 1.0 / 0.4**2}, "1/{}", -4.0 * math.pi),
        ({"robin": 1.0 / 0.4**2 + 2.0 / 0.4, "alpha": 2.0}, "1/{}", -4.0 * math.pi),
    ],
    ids=["a flow past it", "a flow out of it", "robin"],
)
def test_a_ball_with_a_flow_through_its_surface_is_of_second_order(
    condition: dict[str, float], exact: str, flow: float
) -> None:
    """The flows out of the ball and through the faces balance to rounding, and that out of the ball is as known."""
    errors = []
    for nodes in (17, 33):
        u = exact.format("max(hypot(r, z), 0.1)")
        ball = poisson.Body("r**2 + z**2 < 0.4**2", name="ball", **condition)
        box: dict[str, Any] = {"lower": (0.0, -1.0), "upper": (1.0, 1.0), "boundary": u, "exact": u, "bodies": [ball]}
        problem = Problem.on_box((nodes, 2 * nodes - 1), system="cylinder", **box)
        solution = poisson.solve(problem, "cg", backend="numpy", rtol=1e-11)
        assert problem.exact is not None
        r, z = np.meshgrid(*(problem.lattice.coordinates(axis) for axis in range(2)))
        error = np.where(np.hypot(r, z) > 0.4, solution.u - problem.exact(np, r, z), 0.0)
        errors.append(math.sqrt(float(np.average(error**2, weights=problem.lattice.volumes()))))
        out = solution.bodies["ball"]["flux"]
        assert sum(solution.fluxes().values()) == pytest.approx(-out, abs=1e-7)
    assert math.log2(errors[0] / errors[1]) == pytest.approx(2.0, abs=0.15)
    surface = Discretisation(problem).surface
    assert out == pytest.approx(flow, rel=2e-3)
    assert surface is not None and surface.closed == pytest.approx(4.0 / 3.0 * math.pi * 0.4**3, rel=3.1e-3)


def test_a_dielectric_rod_around_the_axis_is_of_second_order() -> None:
    rod = poisson.Body("r < 0.43", a=5.0)
    exact = "where(r < 0.43, 1 + (1 - 0.43**2)/4 + (0.43**2 - r**2)/20, 1 + (1 - r**2)/4)"
    errors = []
    for cells in (16, 64):
        solution = poisson.solve(
            Problem.on_box(
                (cells, 5),
                system="cylinder",
                centring="cell",
                f=1.0,
                boundary={"r_upper": 1.0, "all": {"neumann": 0.0}},
                exact=exact,
                bodies=[rod],
            ),
            "cg",
            backend="numpy",
            rtol=1e-11,
        )
        assert solution.error is not None and solution.face_flux("r_upper") == pytest.approx(math.pi, rel=1e-9)
        errors.append(solution.error.max)
    assert math.log2(errors[0] / errors[1]) / 2.0 == pytest.approx(2.0, abs=0.05)


def test_a_ball_in_a_tube_has_the_capacitance_that_is_published() -> None:
    """4πR / (1 − 0.87069 R/b): W. R. Smythe, Journal of Applied Physics 31, 1960, 553."""
    case = poisson.load_case("cases/ball_in_tube.toml")
    ball = poisson.solve(case).bodies["ball"]
    assert ball["potential"] == pytest.approx(1.0 - 0.87069 / 4.0, rel=1e-3)
