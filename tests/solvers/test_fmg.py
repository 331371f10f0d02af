# SPDX-License-Identifier: MIT
"""Full multigrid: it reaches the discretisation error, and says how large that is.

Covers poisson.solvers.multigrid.coarser.
"""

import itertools
from typing import Any

import numpy as np
import pytest
from conftest import BACKENDS
from support.multigrid import F, M, W, converged, cube, node_values, source, with_coefficients, zeros
from support.problems import make_case

from poisson.backends.base import Backend
from poisson.backends.numpy import NumpyBackend
from poisson.discrete.balance import balanced
from poisson.discrete.discretisation import Discretisation
from poisson.discrete.operator import Operator
from poisson.problem.problem import Problem
from poisson.run.solver import Solver
from poisson.solvers.multigrid import CoarserProblems, Multigrid, MultigridSettings
from poisson.solvers.multigrid.cycle import Cycle
from poisson.solvers.multigrid.estimate import ErrorEstimate
from poisson.solvers.multigrid.full import FullMultigrid
from poisson.solvers.status import Status
from poisson.solvers.stopping import SolveResult, Stopping

BACKEND = NumpyBackend(np.float64)

EXACT = {2: "exp(x)*sin(2*y) + x*y**2*cos(3*x)", 3: "exp(x)*sin(2*y)*cos(z) + x*y*z"}
FACES: dict[str, dict[str, Any]] = {
    "dirichlet": {"all": {"dirichlet": "exact"}},
    "mixed": {"x_upper": {"neumann": "exact"}, "y_lower": {"neumann": "exact"}, "all": {"dirichlet": "exact"}},
}


def smooth_problem(shape: tuple[int, ...], faces: str = "dirichlet", upper: tuple[float, ...] = (1.0, 1.0, 1.0)) -> Any:
    """A discretisation whose solution is known, smooth, and not zero on the faces."""
    exact = EXACT[len(shape)]
    equation = {"f": "exact", "exact": exact}
    return balanced(Discretisation(make_case(equation, FACES[faces], shape, upper).problem), np)


def coarser_of(discretisation: Any, backend: Backend = BACKEND) -> CoarserProblems:
    """The problem on coarser grids, with its arrays filled."""
    coarser = CoarserProblems(backend, discretisation)
    coarser.load(discretisation)
    return coarser


def solve(
    discretisation: Any, settings: MultigridSettings, stopping: Stopping, backend: Backend = BACKEND
) -> tuple[SolveResult, float]:
    """A solve, and the largest error of its u."""
    operator: Operator = discretisation.operator_on(backend)
    u = backend.assemble(operator.array_shape, discretisation.initial)
    f = backend.assemble(operator.array_shape, discretisation.source)
    coarser = coarser_of(discretisation, backend) if stopping.stop == "discretisation" else None
    result = Multigrid(backend.bind(operator), settings, coarser).solve(u, f, stopping=stopping)
    exact = discretisation.exact(np, 0, operator.array_shape[0])
    return result, float(np.abs(backend.to_host(result.u) - exact).max())


BY_ERROR = Stopping(stop="discretisation", rtol=0.0)


def reached(problem: Discretisation, settings: MultigridSettings, least: float) -> int:
    """The iterations to the discretisation error, of which `least` is left; the error bar is a little above it."""
    result, error = solve(problem, settings, BY_ERROR)
    assert result.status is Status.CONVERGED
    assert error < 1.3 * least
    assert result.error is not None
    assert error < result.error < 3.5 * error
    return result.iterations


@pytest.mark.parametrize(
    ("shape", "smoother"),
    [
        *itertools.product([(65, 65), (129, 129), (17, 17, 17), (33, 33, 33)], ["chebyshev", "red-black", "jacobi"]),
        *(((257, 257), "chebyshev"), ((65, 65, 65), "chebyshev")),
    ],
)
@pytest.mark.parametrize("faces", FACES)
def test_one_cycle_a_grid_reaches_the_discretisation_error(shape: tuple[int, ...], smoother: str, faces: str) -> None:
    problem = smooth_problem(shape, faces)
    settings = MultigridSettings(smoother=smoother, full=True)
    exact, least = solve(problem, settings, Stopping(rtol=1e-11))
    assert exact.status is Status.CONVERGED
    assert reached(problem, settings, least) == 1


@pytest.mark.parametrize("shape", [(100, 77), (64, 64), (30, 41, 36)])
def test_sizes_that_do_not_halve(shape: tuple[int, ...]) -> None:
    problem = smooth_problem(shape, "mixed")
    _, least = solve(problem, MultigridSettings(full=True), Stopping(rtol=1e-11))
    assert reached(problem, MultigridSettings(), least) <= 2


def test_two_cycles_on_each_grid_below_one_that_does_not_halve_make_a_better_start() -> None:
    """The start has 3.6 times the least error of its own grid; one cycle would leave it 4.1 times that."""
    problem = smooth_problem((66, 66), "mixed")
    operator = problem.operator_on(BACKEND)
    u = BACKEND.assemble(operator.array_shape, problem.initial)
    f = BACKEND.assemble(operator.array_shape, problem.source)
    FullMultigrid(Multigrid(BACKEND.bind(operator)).cycle).start(u, f)
    _, least = solve(problem, MultigridSettings(full=True), Stopping(rtol=1e-11))
    assert float(np.abs(u - problem.exact(np, 0, operator.array_shape[0])).max()) < 3.85 * least


def test_anisotropic_spacing() -> None:
    problem = smooth_problem((129, 129), upper=(1.0, 0.2, 1.0))
    _, least = solve(problem, MultigridSettings(full=True), Stopping(rtol=1e-9))
    reached(problem, MultigridSettings(), least)


def test_a_start_on_the_coarsest_grid_saves_cycles_and_ignores_the_guess() -> None:
    problem = smooth_problem((129, 129))
    counts = {}
    for full in (False, True):
        result, _ = solve(problem, MultigridSettings(full=full), Stopping(rtol=1e-9))
        assert result.status is Status.CONVERGED
        counts[full] = result.iterations
    assert counts[True] <= counts[False] - 3
    operator = problem.operator_on(BACKEND)
    f = BACKEND.assemble(operator.array_shape, problem.source)
    results = []
    for filling in (0.0, 1e3):
        u = BACKEND.assemble(operator.array_shape, problem.initial)
        u[1:-1, 1:-1] = filling
        solver = Multigrid(BACKEND.bind(operator), MultigridSettings(full=True), coarser_of(problem))
        results.append(solver.solve(u, f, stopping=BY_ERROR).u)
    np.testing.assert_allclose(results[0], results[1], rtol=0, atol=1e-12)


def test_coarse_grids_see_varying_coefficients_and_the_robin_terms_in_c() -> None:
    """The start is as good as without them: a cycle or two from it reach a residual that takes more from zero."""
    for jump, c in ((5.0, None), (5.0, 30.0)):
        a = cube((65, 65), (F, M, M, F))
        reaction = None
        if c is not None:
            reaction = np.zeros(a.array_shape)
            reaction[:, -1] = 2.0 * c / a.spacing[0]
        varying = with_coefficients(BACKEND, a, node_values(a, "smooth", jump), reaction)
        f = np.ones(a.array_shape)
        f[:, 0] = f[-1] = 0.0
        counts = []
        for full in (False, True):
            solver = Multigrid(BACKEND.bind(varying), MultigridSettings(full=full))
            result = solver.solve(zeros(BACKEND, a), f, stopping=Stopping(rtol=1e-8))
            assert result.status is Status.CONVERGED
            counts.append(result.iterations)
        assert counts[1] <= counts[0] - 1


def test_full_multigrid_solves_a_singular_problem() -> None:
    a = cube((65, 64), (M, M, W, W))
    converged(BACKEND, a, Multigrid(BACKEND.bind(a), MultigridSettings(full=True)), 1e-10)


def test_the_discretisation_error_needs_the_problem_on_coarser_grids() -> None:
    a = cube((33, 33))
    with pytest.raises(ValueError, match="needs the problem on coarser grids"):
        Multigrid(BACKEND.bind(a)).solve(zeros(BACKEND, a), source(BACKEND, a), stopping=BY_ERROR)


@pytest.mark.parametrize("width", [0.05, 0.001])
def test_an_axis_that_collapses_is_compared_on_grids_where_it_does_not(width: float) -> None:
    """A grid on which it has collapsed would show how much u varies along that axis."""
    exact = {"f": "exact", "exact": f"cos({1.0 / width}*x) * sin(3*y)"}
    faces = {"x_lower": {"neumann": "exact"}, "x_upper": {"neumann": "exact"}, "all": {"dirichlet": "exact"}}
    problem = balanced(Discretisation(make_case(exact, faces, (129, 129), (width, 1.0)).problem), np)
    result, error = solve(problem, MultigridSettings(), BY_ERROR)
    assert result.status is Status.CONVERGED
    assert result.error is not None
    assert error < result.error < 5.0 * error


@pytest.mark.parametrize("name", ["openmp", "emulated"])
def test_full_multigrid_gives_the_same_on_every_backend(name: str) -> None:
    problem = smooth_problem((20, 33), "mixed")
    expected, _ = solve(problem, MultigridSettings(), BY_ERROR)
    backend = BACKENDS[name](np.float64)
    result, _ = solve(problem, MultigridSettings(), BY_ERROR, backend)
    assert result.iterations == expected.iterations
    assert result.error == pytest.approx(expected.error, rel=1e-9)
    np.testing.assert_allclose(backend.to_host(result.u), expected.u, rtol=0, atol=1e-12 * np.abs(expected.u).max())


@pytest.mark.parametrize("nodes", [33, 65])
@pytest.mark.parametrize(("a", "most"), [(1.0, 100.0), ("where(x < 0.5, 1, 1000)", 4.0)])
def test_a_single_cycle_is_not_taken_to_leave_no_error(
    nodes: int, a: float | str, most: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There is nothing yet to compare its change with: it may leave a part of that, more than where a is constant."""
    seen, judge = [], ErrorEstimate.judge

    def noted(estimate: ErrorEstimate, u: Any) -> Any:
        found = judge(estimate, u)
        seen.append((found[1], u.reshape(nodes, nodes).copy()))
        return found

    monkeypatch.setattr(ErrorEstimate, "judge", noted)
    problem = Problem.on_box((nodes, nodes), f="2*pi**2*sin(pi*x)*sin(pi*y)", a=a)
    Solver(problem, "multigrid", "numpy", stop="discretisation").solve()
    algebraic, u = seen[0]
    left = float(np.abs(u - Solver(problem, "cg", "numpy", rtol=1e-12).solve().u).max())
    assert left <= algebraic <= most * left


def test_what_is_asked_for_together_is_waited_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The size of the first iterate and two changes on each of two coarser grids, and the two of the finest."""
    waits, read_all = [], Backend.read_all

    def noted(backend: Backend, results: Any) -> Any:
        waits.append(len(results))
        return read_all(backend, results)

    monkeypatch.setattr(Backend, "read_all", noted)
    solver = Solver(Problem.on_box((129, 129)), "multigrid", "numpy", stop="discretisation")
    x = np.sin(np.pi * np.linspace(0.0, 1.0, 129))
    for f in (x[:, None] * x, np.zeros((129, 129))):
        waits.clear()
        assert solver.solve(f).iterations == 1
        assert waits == [3, 3, 2]


@pytest.mark.parametrize("backend", ["numpy", "openmp"])
@pytest.mark.parametrize("precision", ["float64", "mixed"])
def test_a_start_on_the_coarsest_grid_costs_no_cycle_for_a_rough_source(backend: Any, precision: Any) -> None:
    """Coarser grids see little of noise; of a smooth source, of which they see all, the start saves a cycle."""
    shape = (65, 65, 65)
    x = np.sin(np.pi * np.linspace(0.0, 1.0, 65))
    noise, smooth = np.random.default_rng(0).standard_normal(shape), x[:, None, None] * x[:, None] * x
    problem = Problem.on_box(shape)
    with_start, without = (Solver(problem, "multigrid", backend, precision, full=full) for full in (True, False))
    for f, saved in ((noise, 0), (smooth, 1)):
        one, other = with_start.solve(f), without.solve(f)
        assert one.status is other.status is Status.CONVERGED
        assert one.iterations <= min(6, other.iterations - saved)
        np.testing.assert_allclose(one.u, other.u, rtol=0, atol=1e-7 * np.abs(other.u).max())


@pytest.mark.parametrize("rules", [(F, M, M, F), (M, M, M, M)], ids=["fixed", "singular"])
def test_the_coarsest_grid_is_solved_without_the_term_of_a_correction(rules: Any) -> None:
    cycle = Cycle(BACKEND.bind(cube((33, 33), rules)), MultigridSettings())
    coarsest = cycle.grids[0].level
    assert coarsest.transfer is None and coarsest.short_waves > 0.0
    f = cycle.grids[0].f[...] = source(BACKEND, coarsest.operator)
    cycle.grids[0].spare[0][...] = 0.0
    r = np.empty_like(f)
    coarsest.operations.residual(FullMultigrid(cycle).coarse(), f, r)
    assert np.abs(r).max() < 1e-11 * np.abs(f).max()
