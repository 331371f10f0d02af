# SPDX-License-Identifier: MIT
"""The error bar beside bodies: the largest error of u outside lies below it, and few iterations lead there.

Covers poisson.solvers.comparison.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.divided import solved

import poisson
from poisson import Body, Problem
from poisson.errors import CaseError
from poisson.parallel.distributed import DistributedBackend
from poisson.problem.given import Form
from poisson.solvers import comparison
from poisson.solvers.iteration import Task

STOP: dict[str, Any] = {"stop": "discretisation"}
WAVE = "sin({0}*x + {2})*sin({1}*y + {3})"


def random_problem(seed: int, kind: str, nodes: int, surface: Form) -> tuple[Problem, Any, Any]:
    """A wave outside of a disc anywhere, with data of its own at the surface; u, and where it counts."""
    rng = np.random.default_rng(seed)
    centre, radius = rng.uniform(-0.3, 0.3, 2).tolist(), rng.uniform(0.2, 0.55)
    numbers = (*rng.uniform(1.0, 4.0, 2).tolist(), *rng.uniform(0.0, 6.0, 2).tolist())
    u = WAVE.format(*numbers)
    along = [f"{k}*{u.replace(f'sin({k}*{x}', f'cos({k}*{x}')}" for k, x in zip(numbers, "xy", strict=False)]
    away = [f"({x} - ({place}))" for x, place in zip("xy", centre, strict=True)]
    flux = "-(" + " + ".join(f"{slope}*{part}" for slope, part in zip(along, away, strict=True)) + f")/{radius}"
    data = {
        "dirichlet": {"dirichlet": u},
        "neumann": {"neumann": flux},
        "robin": {"robin": f"{flux} + 3*{u}", "alpha": 3.0},
    }
    inside = f"{away[0]}**2 + {away[1]}**2 < {radius**2}"
    problem = Problem.on_box(
        (nodes, nodes),
        lower=(-1.0, -1.0),
        upper=(1.0, 1.0),
        f=f"{numbers[0] ** 2 + numbers[1] ** 2}*{u}",
        boundary={"all": {"dirichlet": u}},
        bodies=[Body(inside, **data[kind])],
        surface=surface,
    )
    x, y = (problem.lattice.along(axis, line.coordinates) for axis, line in enumerate(problem.lattice.axes))
    exact = eval(u, {"sin": np.sin, "x": x, "y": y})
    return problem, exact, (x - centre[0]) ** 2 + (y - centre[1]) ** 2 >= radius**2


@pytest.mark.parametrize(
    ("kind", "surface", "most"),
    [
        ("dirichlet", "shortley_weller", 5),
        ("dirichlet", "symmetric", 4),
        ("neumann", "shortley_weller", 7),
        ("robin", "shortley_weller", 8),
    ],
)
@pytest.mark.parametrize("nodes", [33, 65, 129])
def test_the_bar_is_above_the_error_which_is_that_of_the_discretisation(
    kind: str, surface: Form, most: int, nodes: int
) -> None:
    ratios = []
    for seed in range(12):
        problem, exact, out = random_problem(seed, kind, nodes, surface)
        solution = poisson.solve(problem, **STOP)
        error = np.abs(solution.u - exact)[out].max()
        best = np.abs(poisson.solve(problem, "cg", rtol=1e-10).u - exact)[out].max()
        assert solution.status.success and solution.iterations <= most, (seed, solution.iterations)
        assert error < 1.25 * best and solution.error_bar is not None, (seed, error, best)
        ratios.append(solution.error_bar / error)
    assert min(ratios) > 1.0 and np.median(ratios) < 3.5, ratios


def dielectric(seed: int, nodes: int) -> tuple[Problem, Any]:
    """A cylinder anywhere in a field of any direction, with an a of its own from 1/80 to 80; u."""
    rng = np.random.default_rng(seed)
    a, (x0, y0) = float(80.0 ** rng.uniform(-1.0, 1.0)), rng.uniform(-0.3, 0.3, 2).tolist()
    radius, angle = float(rng.uniform(0.2, 0.6)), float(rng.uniform(0.0, 6.0))
    squares = f"((x - ({x0}))**2 + (y - ({y0}))**2)"
    along = f"((x - ({x0}))*({np.cos(angle)}) + (y - ({y0}))*({np.sin(angle)}))"
    outside = f"{along}*(1 + ({(1 - a) / (1 + a) * radius**2})/max({squares}, 1e-9))"
    inside = f"{squares} < {radius**2}"
    u = f"where({inside}, {2 / (1 + a)}*{along}, {outside})"
    ends: dict[str, Any] = {"lower": (-1.0, -1.0), "upper": (1.0, 1.0)}
    problem = Problem.on_box((nodes, nodes), boundary={"all": {"dirichlet": u}}, bodies=[Body(inside, a=a)], **ends)
    x, y = (problem.lattice.along(axis, line.coordinates) for axis, line in enumerate(problem.lattice.axes))
    return problem, eval(u, {"where": np.where, "max": np.maximum, "x": x, "y": y})


@pytest.mark.parametrize("nodes", [33, 65])
def test_the_bar_beside_dielectrics_is_that_of_first_order(nodes: int) -> None:
    """The formula of second order would have some bars that are too short."""
    ratios = []
    for seed in range(60):
        problem, exact = dielectric(seed, nodes)
        solution = poisson.solve(problem, **STOP)
        error = np.abs(solution.u - exact).max()
        if seed < 10:
            assert error < 1.05 * np.abs(poisson.solve(problem, "cg", rtol=1e-10).u - exact).max()
        assert solution.status.success and solution.error_bar is not None
        ratios.append(solution.error_bar / error)
    assert min(ratios) > 1.5 and np.median(ratios) < 6.0 and max(ratios) < 20.0, ratios


def test_layers_have_a_bar_and_surfaces_that_are_turned_by_less_than_a_link_have_none() -> None:
    """All grids agree there on what is missing: the residual says when to stop."""
    for inside, known in (("x < 0.37", True), ("abs(y - 0.5) < 0.13", True), ("x + 0.001*y < 0.37", False)):
        problem = Problem.on_box((33, 33), f=1.0, bodies=[Body(inside, a=7.0)])
        solution = poisson.solve(problem, **STOP)
        assert (solution.error_bar is not None, solution.status) == (known, poisson.Status.CONVERGED)
        if known:
            fine = poisson.solve(Problem.on_box((257, 257), f=1.0, bodies=[Body(inside, a=7.0)]), "cg").u[::8, ::8]
            assert 1.5 < solution.error_bar / np.abs(solution.u - fine).max() < 10.0
        else:
            assert solution.residual <= solution.target


def test_three_dimensions_an_axis_and_a_constant_that_is_free() -> None:
    """Around a sphere, in x, y and z and in r and z, and a singular problem around an insulator."""
    ball = Body({"shape": "sphere", "center": (0.0, 0.0, 0.0), "radius": 0.4}, dirichlet=2.5)
    u = "1/max(hypot(hypot(x, y), z), 0.1)"
    box: dict[str, Any] = {"lower": (-1.0,) * 3, "upper": (1.0,) * 3, "boundary": {"all": {"dirichlet": u}}}
    problem = Problem.on_box((33,) * 3, bodies=[ball], **box)
    around = {"lower": (0.0, -1.0), "upper": (1.0, 1.0), "boundary": {"all": {"dirichlet": "1/hypot(r, z)"}}}
    half = Problem.on_box(
        (33, 65),
        system="cylinder",
        bodies=[Body("hypot(r, z) < 0.4", dirichlet=2.5)],
        **around,  # type: ignore[arg-type]
    )
    for each in (problem, half):
        places = [each.lattice.along(axis, line.coordinates) for axis, line in enumerate(each.lattice.axes)]
        distance = np.sqrt(sum(place**2 for place in places))
        solution = poisson.solve(each, **STOP)
        error = np.abs(solution.u - 1.0 / np.maximum(distance, 0.1))[distance >= 0.4].max()
        assert solution.error_bar is not None and error < solution.error_bar < 5.0 * error
    # The wave has no flux through the walls, and the disc lets pass what it brings.
    slopes = [f"-pi*{one}*{rest}" for one, rest in (("sin(pi*x)", "cos(pi*y)"), ("sin(pi*y)", "cos(pi*x)"))]
    flux = f"-(({slopes[0]})*(x - 0.45) + ({slopes[1]})*(y - 0.5))/0.2"
    disc = Body("hypot(x - 0.45, y - 0.5) < 0.2", neumann=flux)
    given = {"f": "2*pi**2*cos(pi*x)*cos(pi*y)", "boundary": {"all": {"neumann": 0.0}}, "bodies": [disc]}
    problem = Problem.on_box((65, 65), **given)  # type: ignore[arg-type]
    x, y = (problem.lattice.along(axis, line.coordinates) for axis, line in enumerate(problem.lattice.axes))
    solution, out = poisson.solve(problem, **STOP), np.hypot(x - 0.45, y - 0.5) >= 0.2
    error = (solution.u - np.cos(np.pi * x) * np.cos(np.pi * y))[out]
    assert solution.error_bar is not None
    assert 0.4 * np.ptp(error) < solution.error_bar < 4.0 * np.ptp(error)


def test_a_solver_compares_the_data_of_each_call() -> None:
    disc = Body("hypot(x - 0.45, y - 0.5) < 0.2", dirichlet="y")
    problem = Problem.on_box((33, 33), f=1.0, bodies=[disc])
    solver = poisson.Solver(problem, **STOP)
    for given in ({}, {"f": "x*y"}, {"boundary": {"x_upper": "y"}}, {"f": 2.0}):
        found = solver.solve(**given)  # type: ignore[arg-type]
        alone = poisson.solve(problem.having(**given), **STOP)  # type: ignore[arg-type]
        np.testing.assert_allclose(found.u, alone.u, atol=1e-12)
        assert found.error_bar == pytest.approx(alone.error_bar, rel=1e-9)
    # A charge, with no other data, and data of a face.
    ball = Body("hypot(x - 0.4, y - 0.5) < 0.2", floating=True, charge=1.0)
    for surface in ("shortley_weller", "symmetric"):
        charged = poisson.solve(Problem.on_box((33, 33), bodies=[ball], surface=surface), **STOP)  # type: ignore[arg-type]
        assert charged.status.success and charged.bodies["body1"]["charge"] == pytest.approx(1.0, abs=2e-2)
        held = [Body(ball.inside, dirichlet=charged.bodies["body1"]["potential"])]
        alone = poisson.solve(Problem.on_box((33, 33), bodies=held, surface=surface), **STOP)  # type: ignore[arg-type]
        assert charged.error_bar == pytest.approx(alone.error_bar, rel=1e-3)
    floating = poisson.Solver(
        Problem.on_box((33, 33), bodies=[Body("hypot(x - 0.4, y - 0.5) < 0.2", floating=True)]), **STOP
    )
    assert floating.solve(boundary={"x_upper": "y"}).status.success


@pytest.mark.parametrize("backend", ["numpy", "openmp"])
def test_every_backend_and_ranks_find_the_same_bar(backend: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(DistributedBackend.__init__, "__defaults__", (400,))
    for kind in ("dirichlet", "neumann", "a"):
        problem = dielectric(3, 65)[0] if kind == "a" else random_problem(3, kind, 65, "shortley_weller")[0]
        alone = poisson.solve(problem, backend="numpy", **STOP)
        found = poisson.solve(problem, backend=backend, **STOP)
        assert found.error_bar == pytest.approx(alone.error_bar, rel=1e-4) and found.iterations == alone.iterations
        if backend == "numpy":
            parts, _ = solved(problem, 2, method="multigrid", backend=backend, **STOP)
            assert parts.error_bar == pytest.approx(alone.error_bar, rel=0.05)


@pytest.mark.parametrize(
    ("body", "shape", "why"),
    [
        (Body(np.ones((33, 33)), dirichlet=1.0), (33, 33), "bodies from arrays or files"),
        (
            Body("x < 0.3", dirichlet=1.0),
            (33, 35),
            "bodies on other nodes than 4 k \\+ 1 along each axis, or 4 k where",
        ),
    ],
)
def test_what_is_not_compared_is_refused_in_one_line(body: Body, shape: tuple[int, int], why: str) -> None:
    with pytest.raises(CaseError, match=f'^solver.stop: "discretisation"; allowed: "residual" with {why}'):
        poisson.solve(Problem.on_box(shape, bodies=[body]), **STOP)


def test_a_solve_on_a_coarser_grid_that_fails_leaves_the_residual_to_say_when(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the solution there no difference of grids tells of the error, so there is no error bar."""
    solve = comparison._Grid.solve
    ball = Body({"shape": "sphere", "center": (0.5, 0.5), "radius": 0.2}, dirichlet=1.0)
    problem = Problem.on_box((33, 33), f=1.0, bodies=[ball])
    known = poisson.solve(problem, **STOP)
    assert known.error_bar is not None
    assert known.residual > known.target
    monkeypatch.setattr(comparison._Grid, "solve", lambda grid, task: solve(grid, task) and poisson.Status.STAGNATED)
    found = poisson.solve(problem, **STOP)
    assert (found.error_bar, found.status) == (None, poisson.Status.CONVERGED)
    assert found.residual <= found.target


def test_an_interruption_while_coarser_grids_are_solved() -> None:
    """The guess is still the iterate of the whole solve, with its target, and nothing is known of the error."""
    problem, *_ = random_problem(0, "dirichlet", 65, "shortley_weller")
    solver = poisson.Solver(problem, **STOP)
    whole = solver.solve()
    for count in (1, 2):
        asked = iter([False] * (count - 1))
        solution = solver.keep_on(None, None, lambda asked=asked: next(asked, True))
        assert (solution.status, solution.iterations) == (poisson.Status.INTERRUPTED, 0)
        assert solution.history == ((0, solution.residual),)
        assert solution.error_bar is None and solution.target == whole.target
        interior = solution.u[1:-1, 1:-1]
        assert not interior[solver.problem.cuts.inside.reshape(65, 65)[1:-1, 1:-1] == 0].any()
    setup, seen = solver._setup, list[Any]()
    u = setup.backend.assemble(setup.operator.array_shape, setup.discretisation.initial)
    setup.method.run(Task(u, setup.f, setup.stopping, interrupted=lambda iterate: bool(seen.append(iterate))))
    first, *_, last = seen
    assert first.u() is u and last.u() is u
    assert (first.iterations, tuple(first.history), first.target) == (0, (), whole.target) and last.iterations > 0
