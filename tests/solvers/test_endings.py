# SPDX-License-Identifier: MIT
"""How solves end: right answers are not called wrong, no ending comes too early, and what cannot go on says so.

Covers poisson.solvers.rounding.
"""

import logging
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import poisson
from poisson import Problem, Solver, Status
from poisson.backends.numpy import NumpyBackend
from poisson.discrete.balance import balanced
from poisson.discrete.discretisation import Discretisation
from poisson.discrete.operator import Operator
from poisson.discrete.reference import Direct
from poisson.errors import ResourceError
from poisson.mesh.boundary import Rule
from poisson.solvers.fallback import ChosenMethod
from poisson.solvers.iteration import Method, Task, factor_for
from poisson.solvers.mixed import in_float32
from poisson.solvers.rounding import norms_of_rounding
from poisson.solvers.settings import SolverSettings
from poisson.solvers.spectrum import HeldConstant, nearly_singular
from poisson.solvers.stopping import Begun, SolveResult, Stopping

B = Problem.on_box
WALLS: dict[str, Any] = {"all": 0.0}
TORUS: dict[str, Any] = {"x": "periodic", "y": "periodic"}
PLATES: dict[str, Any] = {"x_lower": 100.0, "x_upper": 0.0, "all": {"neumann": 0.0}}
"""100 on one side and 0 on the other: u = 100 (1 − x) where f = 0."""


def waves(n: int) -> NDArray[np.float64]:
    x = np.arange(n) / n
    return np.cos(2 * np.pi * x) * np.cos(2 * np.pi * x)[:, None]


def halves(n: int, jump: float) -> NDArray[np.float64]:
    return np.where(np.arange(n) < n // 2, jump, 1.0) * np.ones((n, 1))


def blocks(shape: tuple[int, int], size: int, jump: float) -> NDArray[np.float64]:
    return np.where((np.indices(shape) // size).sum(0) % 2, jump, 1.0)


def error(problem: Problem, u: Any) -> float:
    """The largest error against the direct solution, relative to the largest value."""
    direct = Direct(balanced(Discretisation(problem), np)).solution().reshape(u.shape)
    return float(abs(u - direct).max() / abs(direct).max())


# ---- targets
@pytest.mark.parametrize("nodes", [65, 129, 257])
def test_without_a_source_the_target_does_not_depend_on_the_mesh(nodes: int) -> None:
    """Half the range of u, 50, times the lowest eigenvalue of −∂²/∂x², (2/h sin(πh/2))², so π² but for the scheme."""
    solution = poisson.solve(B((nodes, nodes), boundary=PLATES), backend="numpy")
    assert solution.target == pytest.approx(1e-8 * 50.0 * np.pi**2, rel=3.0 / nodes**2)
    assert solution.status is Status.CONVERGED


@pytest.mark.parametrize("f", [0.0, 1e-12, 1e-3])
@pytest.mark.parametrize("method", ["fft", "multigrid", "cg"])
def test_a_small_source_beside_large_boundary_values_is_solved(method: str, f: float) -> None:
    problem = B((65, 65), f=f, boundary=PLATES)
    # Whoever names fft can give no guess; to auto, which takes it here, one may be given.
    solver = Solver(problem, "auto" if method == "fft" else method, "numpy")
    assert solver.method.startswith(method)
    first = solver.solve()
    assert first.status is Status.CONVERGED
    assert error(problem, first.u) < 1e-9
    again = solver.solve(initial=first.u)
    assert again.status is Status.CONVERGED


@pytest.mark.parametrize("method", ["fft", "multigrid", "cg", "jacobi"])
def test_a_residual_far_above_a_tiny_source_is_no_divergence(method: str) -> None:
    """Rounding of u = x leaves a residual of 1e-10, a hundred times f, and both are below the tolerance."""
    problem = B((129, 129), f=1e-12, boundary={"all": {"dirichlet": "x"}})
    solution = Solver(problem, method, "numpy", atol=1.0, rtol=0.0).solve()
    assert solution.status is Status.CONVERGED


@pytest.mark.parametrize("method", ["fft", "multigrid", "cg"])
def test_a_tolerance_below_rounding_is_named_and_is_no_failure(method: str) -> None:
    problem = B((20001,), f=1.0, boundary=WALLS)
    solution = Solver(problem, method, "numpy", rtol=1e-11).solve()
    assert solution.status is Status.AT_ROUNDING
    assert solution.status.exit_code == 0
    assert solution.residual > solution.target
    x = np.arange(20001) / 20000
    np.testing.assert_allclose(solution.u, x * (1.0 - x) / 2.0, rtol=0.0, atol=1e-15)  # exact at the nodes
    assert solution.advice == (
        f"the residual {solution.residual:.1e} is as small as rounding of u in float64 allows, and the target "
        "1.0e-11 is below that"
    )


def test_in_float32_a_smaller_residual_is_one_of_float64() -> None:
    solution = Solver(B((65, 65), f=1.0, boundary=WALLS), precision="float32", backend="numpy").solve()
    assert solution.status is Status.AT_ROUNDING
    assert solution.advice.endswith("; run.precision = 'float64' reaches a smaller residual")


def test_sweeps_that_rounding_keeps_from_going_on_far_from_the_solution_have_stagnated() -> None:
    """u = 50, and from 100 a sweep in float32 goes nowhere: its correction is 5e-9 of that."""
    problem = B((1024,), f=1.0, c=0.02, boundary={"x": "periodic"})
    solution = Solver(problem, "jacobi", "numpy", "float32").solve(initial=100.0)
    assert (solution.status, solution.status.exit_code) == (Status.STAGNATED, 1)
    assert (solution.u == 100.0).all()
    assert Solver(problem, "multigrid", "numpy", "float32").solve(initial=100.0).status is Status.CONVERGED


# ---- conjugate gradients
def test_a_plateau_of_cg_is_not_its_end() -> None:
    """ln a varies by 4 from node to node; at step 544 the residual has not fallen for ten steps."""
    rng = np.random.default_rng(0)
    a = np.exp(4.0 * rng.standard_normal((129, 129)))
    problem = B((129, 129), f=rng.standard_normal((129, 129)), a=a, boundary=WALLS)
    solution = Solver(problem, "cg", preconditioner="jacobi").solve()
    assert solution.status is Status.CONVERGED
    assert solution.iterations == pytest.approx(3220, rel=0.02)  # SciPy's count; rounding moves it a little
    assert error(problem, solution.u) < 1e-9


@pytest.mark.parametrize("preconditioner", ["jacobi", "multigrid"])
def test_rounding_where_a_is_large_does_not_hide_what_is_to_do_where_it_is_small(preconditioner: Any) -> None:
    """In float32, u of the stiff half carries rounding errors whose residual is 10⁴ times f."""
    problem = B((64, 64), f=1.0, a=halves(64, 1e6), boundary=WALLS)
    solver = Solver(problem, "cg", "numpy", "float32", rtol=1e-3, preconditioner=preconditioner)
    solution = solver.solve()
    assert solution.status.success
    assert error(problem, solution.u) < 1e-5


@pytest.mark.parametrize("preconditioner", ["none", "jacobi", "multigrid", "fft"])
def test_cg_follows_a_singular_problem_that_settles(preconditioner: Any) -> None:
    """Sources that get 10⁵ times smaller from solve to solve, each from the solution before."""
    problem = B((64, 64), f=0.0, a=halves(64, 1e3), boundary=TORUS)
    solver, f, u = Solver(problem, "cg", preconditioner=preconditioner), waves(64), None
    for scale in (1.0, 1e-5, 1e-10):
        solution = solver.solve(scale * f, u)
        assert solution.status is Status.CONVERGED
        u = solution.u
        assert error(Problem.on_box((64, 64), f=scale * f, a=halves(64, 1e3), boundary=TORUS), u) < 1e-6
        assert abs(u.mean()) < 1e-15 * abs(u).max()


@pytest.mark.parametrize("preconditioner", ["none", "jacobi", "multigrid", "fft"])
@pytest.mark.parametrize("precision", ["float64", "float32"])
def test_cg_past_rounding_keeps_its_solution(preconditioner: Any, precision: str) -> None:
    problem = B((8, 8), f=waves(8), a=halves(8, 100.0), boundary=TORUS)
    solution = Solver(problem, "cg", "numpy", precision, rtol=0.0, preconditioner=preconditioner).solve()
    assert solution.status is Status.AT_ROUNDING
    assert error(problem, solution.u) < 20.0 * np.finfo(precision).eps


@pytest.mark.parametrize("exponent", [-290, -150, -30, 30, 150, 290])
@pytest.mark.parametrize("preconditioner", ["none", "multigrid"])
def test_what_is_at_rounding_does_not_depend_on_the_units(preconditioner: Any, exponent: int) -> None:
    """Residuals far from 1 are worked on times a power of two, and so is u, whose size says what rounding is."""
    problem = B((17, 12), f=float(f"1e{exponent}"), a=1.0 + np.arange(204.0).reshape(12, 17) % 5, boundary=WALLS)
    solution = Solver(problem, "cg", "numpy", rtol=0.0, preconditioner=preconditioner).solve()
    assert solution.status is Status.AT_ROUNDING


def test_a_guess_far_away_leaves_no_rounding_errors_of_its_size() -> None:
    """Those of the guess are 1e6 · 1e-16 · κ; a restart from the true residual removes them."""
    rng = np.random.default_rng(1)
    problem = B((33, 17), f=1.0, a=np.exp(rng.standard_normal((17, 33))), boundary=WALLS)
    for preconditioner in ("none", "jacobi", "multigrid"):
        solver = Solver(problem, "cg", rtol=1e-12, preconditioner=preconditioner)
        solution = solver.solve(initial=1e6 * rng.standard_normal((17, 33)))
        assert solution.status is Status.CONVERGED


@pytest.mark.parametrize(("jump", "iterations"), [(1e4, 14), (1e8, 15), (1e12, 18)])
def test_a_recursion_at_the_target_ends_a_solve_that_rounding_keeps_above_it(jump: float, iterations: int) -> None:
    """A restart reaches the target if that is possible; otherwise iterations hardly grow with what rounding leaves."""
    a = np.where(np.random.default_rng(0).random((65, 65)) < 0.5, jump, 1.0)
    problem = B((65, 65), f=1.0, a=a, boundary=WALLS)
    solver = Solver(problem, "cg", "openmp", preconditioner="multigrid", coarse="galerkin")
    found, further = solver.solve(), poisson.solve(problem, backend="openmp", rtol=0.0)
    assert found.iterations == iterations < further.iterations
    assert found.status is (Status.CONVERGED if jump == 1e4 else Status.AT_ROUNDING)
    assert abs(found.u - further.u).max() < 1e-10 * found.u.max()


def test_a_tolerance_of_rounding_asks_for_the_restarts_too() -> None:
    """Each begins with the true residual, which falls from 6.9e-3 to 2.0e-3 by them."""
    a = np.where(np.random.default_rng(0).random((65, 65)) < 0.5, 1e12, 1.0)
    problem = B((65, 65), f=1.0, a=a, boundary=WALLS)
    usual, least = (
        Solver(problem, "cg", "openmp", preconditioner="multigrid", coarse="galerkin", rtol=rtol).solve()
        for rtol in (1e-8, 1e-15)
    )
    assert usual.status is least.status is Status.AT_ROUNDING
    assert usual.iterations == 18 < least.iterations and least.residual < 0.5 * usual.residual


def test_the_residual_of_a_rounding_is_measured() -> None:
    """eps D u at the free nodes: D is 2 (1/h² + 1/k²), and the wall of u = 1 does not count."""
    problem = B((5, 5), f=0.0, boundary={"all": 1.0}, upper=(1.0, 2.0))
    operations = NumpyBackend(np.float64).bind(Discretisation(problem).operator)
    u, place = np.ones((5, 5)), operations.backend.reduction()
    u[1, 2] = -3.0
    squares, largest = norms_of_rounding(operations, u, (np.empty((5, 5)), np.empty((5, 5))), place)
    eps, diagonal = np.finfo(np.float64).eps, 2.0 * (16.0 + 4.0)
    assert largest == 3.0 * eps * diagonal
    assert squares == pytest.approx((8.0 + 9.0) * (eps * diagonal) ** 2, rel=1e-14)


# ---- nearly singular
@pytest.mark.parametrize("precision", ["float64", "mixed"])
@pytest.mark.parametrize("method", ["multigrid", "cg", "fft", "chebyshev", "sor", "jacobi"])
@pytest.mark.parametrize("c", [1e-6, 1e-12])
def test_constants_that_next_to_nothing_holds(method: str, precision: str, c: float) -> None:
    """u is 1/c and the solution of the singular problem: the constant from the balance, the rest from the method."""
    if precision == "mixed" and method not in ("multigrid", "cg"):
        pytest.skip("no mixed precision")
    f, boundary = "1+cos(pi*x)*cos(2*pi*y)", {"all": {"neumann": 0.0}}
    solution = Solver(B((33, 17), f=f, c=c, boundary=boundary), method, "numpy", precision).solve()
    assert solution.status.success
    rest = Solver(B((33, 17), f="cos(pi*x)*cos(2*pi*y)", boundary=boundary), "fft", "numpy").solve().u
    np.testing.assert_allclose(c * solution.u, 1.0 + c * rest, rtol=2e-15 / min(1.0, 1e6 * c))


@pytest.mark.parametrize(
    ("preconditioner", "size"), [("none", 1.0), ("jacobi", 1.0), ("multigrid", 1.0), ("multigrid", 1e6)]
)
def test_a_constant_that_rounding_moves_far_away_is_set_right(preconditioner: Any, size: float) -> None:
    """u = 3, which α = 1e-16 of one face holds, against links of 1e5; without the balance u is off by 3 to 27,000."""
    rng = np.random.default_rng(5)
    a, guess = np.where(rng.random((12, 17)) < 0.5, 1.0, 1e-6), rng.standard_normal((12, 17))
    boundary = {"x_lower": {"robin": 3e-16, "alpha": 1e-16}, "x_upper": {"neumann": 0.0}, "y": "periodic"}
    problem = B((17, 12), upper=(0.04, 300.0), a=a, f=0.0, boundary=boundary, initial=size * guess)
    solution = poisson.solve(problem, "cg", preconditioner=preconditioner)
    assert solution.status.success
    np.testing.assert_allclose(solution.u, 3.0, rtol=1e-6)


@pytest.mark.parametrize("walls", [False, True])
def test_the_balance_says_where_a_constant_belongs(walls: bool) -> None:
    """From u and a constant it finds u; where a wall or a c of the size of A holds u, it leaves all as it is."""
    for c, corrects in ((1e-9, not walls), (1.0, False)):
        problem = B(
            (9, 8), c=c, f=2.0 * c, boundary={"all": 0.0} if walls else {"all": {"neumann": 0.0}}, upper=(1e-3, 1.0)
        )
        operations = NumpyBackend(np.float64).bind(Discretisation(problem).operator)
        u, r, work = np.full((8, 9), 5e8), np.empty((8, 9)), np.empty((8, 9))
        operations.residual(u, np.full((8, 9), 2.0 * c), r)
        place = operations.backend.reduction()
        assert HeldConstant(operations).correct(u, r, work, place) == corrects
        np.testing.assert_allclose(u, 2.0 if corrects else 5e8, rtol=1e-6)


@pytest.mark.parametrize("method", ["chebyshev", "sor"])
def test_bounds_of_a_spectrum_whose_lowest_eigenvalue_is_lost_in_rounding(method: str) -> None:
    problem = B((64,), f="1+sin(2*pi*x)", a="2+cos(2*pi*x)", c=1e-12, boundary={"x": "periodic"})
    solution = Solver(problem, method, "numpy").solve()
    assert solution.status.success
    np.testing.assert_allclose(1e-12 * solution.u, 1.0, rtol=1e-6)  # f less its oscillation, by c


def test_the_coarsest_matrix_next_to_singular_is_inverted() -> None:
    problem = B((3,), f="x", a="1+x", c=1.5e-11, boundary={"all": {"neumann": 0.0}})
    for precision in ("float32", "float64"):
        solution = Solver(problem, "multigrid", "numpy", precision).solve()
        np.testing.assert_allclose(1.5e-11 * solution.u, 0.5, rtol=1e-6)  # ∫f by ∫c


# ---- mixed precision
@pytest.mark.parametrize("exponent", [-250, -155, 0, 155, 250])
@pytest.mark.parametrize("length", [1e-60, 1.0, 1e60])
@pytest.mark.parametrize("preconditioner", ["multigrid", "fft"])
def test_mixed_precision_at_any_scale(preconditioner: Any, length: float, exponent: int) -> None:
    """Nothing but the units differs, so neither does the number of iterations, in a norm without squares."""
    f = 2.0 ** round(exponent * np.log2(10.0))
    side = 2.0 ** round(np.log2(length))
    problem = B((33, 33), f=f, a=blocks((33, 33), 16, 100.0), boundary=WALLS, upper=(side, side))
    if not 1e-290 < f * side**2 / 1e4 < 1e290:
        pytest.skip("u itself leaves the range of float64")
    solution = Solver(problem, "cg", "numpy", "mixed", norm="max", preconditioner=preconditioner).solve()
    assert solution.status is Status.CONVERGED
    assert solution.iterations == {"multigrid": 12, "fft": 52}[preconditioner]


def test_both_precisions_count_in_the_same_unit_where_c_is_left_out_of_one() -> None:
    """The norm of A is at a power of two with c, and just below it without: the unit is that of A without c."""
    h = 2.0**-25
    free = Operator.uniform((9, 9), (h, h), 0.0, (Rule.MIRROR,) * 4, np.nextafter(1.0, 0.0))
    held = replace(free, c=1.0 + free.norm * 2e-16)
    assert nearly_singular(held)
    assert factor_for(held.norm) == factor_for(free.norm) / 2.0
    assert in_float32(NumpyBackend(np.float64).bind(held)).norm == factor_for(free.norm) * free.norm


# ---- stalls
def test_cycles_that_stall_say_so_and_auto_takes_what_works() -> None:
    """Where four blocks meet, coarse grids see nothing of the jump."""
    problem = B((64, 64), f=1.0, a=blocks((64, 64), 8, 1e4), boundary=WALLS)
    for precision in ("float64", "mixed"):
        cycles = Solver(problem, "multigrid", "numpy", precision, coarse="geometric").solve()
        assert cycles.status is Status.STAGNATED
        assert 20 <= cycles.iterations <= 50
        assert "use another solver.method or preconditioner" in cycles.advice
    solution = Solver(problem, backend="numpy").solve()
    assert solution.status is Status.CONVERGED
    assert str(solution.provenance["method"]).startswith("cg with preconditioner multigrid")


class Scripted(Method):
    """A method that ends as it is told, and leaves its number of solves in u."""

    def __init__(self, *endings: tuple[Status, int, float]) -> None:
        self.endings = list(endings)
        self.asked: list[Stopping] = []

    def run(self, task: Task) -> SolveResult:
        u, _, stopping, observer, *_ = task
        self.asked.append(stopping)
        begun = stopping.begun or Begun(0, 1e-8, ((0, 1.0),))
        status, iterations, norm = self.endings.pop(0)
        iterations += begun.iterations
        if observer:
            observer.start(begun.target, "f", stopping.max_iterations)
            observer(iterations, norm)
        return SolveResult(status, iterations, u + 1.0, u, begun.target, (*begun.history, (iterations, norm)))


class Heard:
    def __init__(self) -> None:
        self.starts: list[float] = []
        self.norms: list[tuple[int, float]] = []

    def start(self, target: float, reference: str, max_iterations: int) -> None:
        self.starts.append(target)

    def __call__(self, iteration: int, norm: float) -> None:
        self.norms.append((iteration, norm))


def test_methods_stand_by_for_one_that_was_chosen(caplog: pytest.LogCaptureFixture) -> None:
    operations = Solver(B((9, 9), f=1.0, boundary=WALLS), backend="numpy")._setup.operations
    first = Scripted((Status.STAGNATED, 8, 0.5))
    others = {"multigrid": Scripted((Status.DIVERGED, 100, 0.25)), "jacobi": Scripted((Status.CONVERGED, 30, 1e-9))}
    chosen = ChosenMethod(
        operations, SolverSettings(method="multigrid"), first, lambda settings: others[settings.preconditioner]
    )
    u, heard = np.zeros((9, 9)), Heard()
    with caplog.at_level(logging.INFO, logger="poisson"):
        result = chosen.solve(u, u, stopping=Stopping(max_iterations=500), observer=heard)
    assert (result.status, result.iterations) == (Status.CONVERGED, 138)
    assert result.history == ((0, 1.0), *heard_norms(heard)) == ((0, 1.0), (8, 0.5), (108, 0.25), (138, 1e-9))
    assert result.instead == "cg with preconditioner jacobi"
    assert (result.u == 3.0).all()  # each went on from the iterate before
    assert heard.starts == [1e-8]
    asked = [first.asked[0], others["multigrid"].asked[0], others["jacobi"].asked[0]]
    assert [it.begun for it in asked] == [
        None,
        Begun(8, 1e-8, ((0, 1.0), (8, 0.5)), same=False),
        Begun(108, 1e-8, ((0, 1.0), (8, 0.5), (108, 0.25)), same=False),
    ]
    assert [it.patience is None for it in asked] == [False, False, True]
    assert [record.getMessage() for record in caplog.records] == [
        "method multigrid (V(2,1), chebyshev) stalls at a residual of 5.00e-01; "
        "continuing with cg with preconditioner multigrid (V(2,1), chebyshev)",
        "method cg with preconditioner multigrid (V(2,1), chebyshev) stalls at a residual of 2.50e-01; "
        "continuing with cg with preconditioner jacobi",
    ]


def test_products_stand_by_behind_averages_where_a_varies() -> None:
    for a, wanted in ((1.0, "jacobi"), (blocks((9, 9), 3, 4.0), "multigrid (V(2,1), chebyshev, galerkin)")):
        operations = Solver(B((9, 9), f=1.0, a=a, boundary=WALLS), backend="numpy")._setup.operations
        settings = SolverSettings(method="cg").having(coarse="geometric")
        later = Scripted((Status.CONVERGED, 1, 1e-9))
        chosen = ChosenMethod(operations, settings, Scripted((Status.STAGNATED, 100, 0.5)), lambda settings: later)  # noqa: B023
        result = chosen.solve(np.zeros((9, 9)), np.zeros((9, 9)), stopping=Stopping())
        assert result.instead == f"cg with preconditioner {wanted}"


def test_products_have_time_where_nothing_better_comes() -> None:
    """Jumps of 3·10⁹ and links along z that are 10⁴ times those along y; with D⁻¹ it takes thousands of iterations."""
    a = np.where(np.random.default_rng(1).random((17, 9, 11)) < 0.2, 3e9, 1.0)
    sides = {"x": "periodic", "z": "periodic", "y_lower": 0.0, "y_upper": 0.0}
    problem = B((11, 9, 17), upper=(0.77, 16.7, 0.063), a=a, f="sin(4*x)", mean="arithmetic", boundary=sides)
    found = poisson.solve(problem, backend="openmp")
    assert found.status.success and found.iterations < 400 and "jacobi" not in str(found.provenance["method"])


def heard_norms(heard: Heard) -> tuple[tuple[int, float], ...]:
    return tuple(heard.norms)


def test_a_stall_stays_one_where_there_is_no_memory_for_another_method() -> None:
    def refuse(settings: SolverSettings) -> Any:
        raise ResourceError("too little memory")

    operations = Solver(B((9, 9), f=1.0, boundary=WALLS), backend="numpy")._setup.operations
    chosen = ChosenMethod(operations, SolverSettings(method="cg"), Scripted((Status.STAGNATED, 100, 0.5)), refuse)
    result = chosen.solve(np.zeros((9, 9)), np.zeros((9, 9)), stopping=Stopping())
    assert (result.status, result.iterations, result.instead) == (Status.STAGNATED, 100, "")


# ---- means
@pytest.mark.parametrize("method", ["multigrid", "cg", "jacobi", "fft"])
@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_a_guess_far_from_zero_mean_leaves_none(method: str, precision: str) -> None:
    rng = np.random.default_rng(2)
    problem = B((22, 8), f="cos(2*pi*x)*cos(2*pi*y)", boundary=TORUS)
    guess = {} if method == "fft" else {"initial": 1e6 + rng.standard_normal((8, 22))}
    solution = Solver(problem, method, "numpy", precision, rtol=1e-4).solve(**guess)
    assert solution.status is Status.CONVERGED
    eps = float(np.finfo(precision).eps)
    assert abs(float(solution.u.astype(np.float64).mean())) < eps * abs(solution.u).max()


@pytest.mark.parametrize("precision", ["float64", "mixed"])
@pytest.mark.parametrize("method", ["multigrid", "cg"])
def test_corrections_of_a_guess_far_away_leave_no_mean_to_round(method: str, precision: str) -> None:
    """They have a mean of their own, whose rounding errors would be far above the target."""
    rng = np.random.default_rng(3)
    a = 5.0 + 3.0 * np.sin(2.0 * np.pi * np.arange(3130) / 3130)
    problem = B((3130,), f="sin(2*pi*x)", a=a, boundary={"x": "periodic"})
    guess = 1e7 * rng.standard_normal(3130)
    solution = Solver(problem, method, precision=precision).solve(initial=guess)
    assert solution.status is Status.CONVERGED


# ---- the choice
def test_the_choice_is_the_same_whatever_the_hour(monkeypatch: pytest.MonkeyPatch) -> None:
    """300 x 330 nodes took one method or the other by how busy the machine was."""
    from poisson.solvers import expected

    found = set()
    for bandwidth in (1e7, 1e9, 1e11, 1e13):
        monkeypatch.setattr(expected, "_bandwidth", lambda backend, values, it=bandwidth: (it, True))
        solver = Solver(B((300, 330), f=1.0, boundary=WALLS))
        found.add((solver.method, solver.solve().provenance["reason"]))
    assert len(found) == 1


@pytest.mark.parametrize("method", ["auto", "multigrid", "cg", "jacobi", "sor", "chebyshev"])
def test_a_grid_inside_a_body_has_its_value_and_nothing_to_solve(method: str) -> None:
    body = poisson.Body("x < 9", dirichlet=1.5)
    solution = poisson.solve(poisson.Problem.on_box((41, 9), f=1.0, bodies=[body]), method, "openmp")
    assert (solution.status, solution.iterations, solution.residual) == (Status.CONVERGED, 0, 0.0)
    assert (solution.u[1:-1, 1:-1] == 1.5).all()
