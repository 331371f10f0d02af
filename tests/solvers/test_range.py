# SPDX-License-Identifier: MIT
"""Values beyond the range of their type: whatever overflows, wherever and by whatever method, the solve has diverged.

Covers poisson.run.certificate.
"""

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from support.ranks import ThreadCommunicator, on_ranks

import poisson
from poisson.case.combinations import clashes
from poisson.errors import PoissonError
from poisson.problem.problem import Problem
from poisson.run.certificate import verdict
from poisson.run.solution import Solution
from poisson.solvers import registry
from poisson.solvers.iteration import Watch
from poisson.solvers.settings import PRECISIONS, RunSettings, SolverSettings
from poisson.solvers.status import Status
from poisson.solvers.stopping import Monitor, SolveResult

pytestmark = [pytest.mark.usefixtures("backends_by_name"), pytest.mark.filterwarnings("ignore::poisson.NotConverged")]

SHAPE = (24, 17)
HALVES = np.where(np.arange(24) < 12, 1e3, 1.0) * np.ones((17, 1))
FREE: dict[str, Any] = {"all": {"neumann": 0.0}}
ONE_SIDE: dict[str, Any] = {"y_upper": 0.0, **FREE}
PEAK = np.zeros((17, 24))
PEAK[8, 12] = 1.0

TOO_LARGE: dict[str, dict[str, Any]] = {
    "f": {"f": 1e39},
    "f at a node": {"f": 1e39 * PEAK},
    "u": {"f": 1e30, "upper": (1e5, 1e5), "a": HALVES, "boundary": ONE_SIDE},
    "u of a constant a": {"f": 1e30, "upper": (1e5, 1e5), "boundary": ONE_SIDE},
    "u of a singular problem": {"f": "1e30*cos(pi*x/1e5)", "upper": (1e5, 1e5), "boundary": FREE},
    "u of a nearly singular problem": {"f": 1e30, "c": 1e-10, "boundary": FREE},
    "a": {"f": 1.0, "a": 1e39},
    "a where it varies": {"f": 1.0, "a": 1e39 * HALVES},
    "c": {"f": 1.0, "c": 1e39},
    "a face": {"boundary": "1e39*x"},
    "a corner": {"f": 1.0, "boundary": "where(x + y > 1.999, 1e39, 0)"},
    "a product": {"boundary": "1e37*x"},
    "a term of a face": {"boundary": {"x_lower": 0.0, "all": {"neumann": 1e38}}},
    "the gradient": {"f": 1e9, "a": 1e-31 * HALVES},
}
"""What float32 cannot hold."""
IN_DOUBLE = {
    "f": {"f": 1e300, "upper": (1e6, 1e6)},
    "u": {"f": 1e300, "upper": (1e6, 1e6), "a": HALVES},
    "a product": {"boundary": "1e307*x"},
}
"""And float64."""

FEW = ("fft", "multigrid", "cg multigrid")


def ways() -> Iterator[tuple[str, dict[str, Any]]]:
    """Every method, each in all its loops and with all its preconditioners."""
    yield "auto", {}
    for method, entry in registry.methods().items():
        for name, settings in entry.variants(SolverSettings(method=method)).items():
            loop = settings.value("loop")
            yield name, {"method": method} | ({"loop": loop} if loop != SolverSettings().value("loop") else {})
        for preconditioner in registry.preconditioners() if "preconditioner" in entry.keys else ():
            yield f"{method} {preconditioner}", {"method": method, "preconditioner": preconditioner}
    yield "full", {"method": "multigrid", "full": True}
    yield "error estimate", {"method": "multigrid", "stop": "discretisation"}


WAYS = dict(ways())


def possible(problem: Problem, way: str, precision: str) -> bool:
    return not any(clashes(SolverSettings().having(**WAYS[way]), RunSettings(precision=precision), problem))


def finite(solution: Solution) -> bool:
    values = [solution.u, np.array(solution.residual), *solution.fields.values()]
    return all(bool(np.isfinite(each).all()) for each in values)


def solved(problem: Problem, way: str, backend: str, precision: str, **more: Any) -> Solution | None:
    """The solution with its fields; None where coefficients are refused as they are assembled."""
    settings: dict[str, Any] = {**WAYS[way], "max_iterations": 200, "fields": ("residual", "gradient", "flux")}
    try:
        return poisson.solve(problem, backend=backend, precision=precision, **settings, **more)
    except PoissonError as error:
        if "do not fit into float32; use run.precision = 'float64'" not in str(error):
            raise
        return None


def require_diverged(solution: Solution) -> None:
    assert solution.status is Status.DIVERGED
    kind = solution.u.dtype
    assert f"left the range of {kind}, which ends at {np.finfo(kind).max:.2g}; use " in solution.advice
    assert ("run.precision = 'float64'" in solution.advice) is (kind == np.float32)
    assert "\n" not in solution.advice


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("backend", ["numpy", "openmp"])
def test_what_float32_cannot_hold_has_diverged(backend: str, way: str) -> None:
    found = 0
    for given in TOO_LARGE.values():
        problem = Problem.on_box(SHAPE, **given)
        if possible(problem, way, "float32") and (solution := solved(problem, way, backend, "float32")):
            require_diverged(solution)
            found += 1
    assert found > 5


@pytest.mark.parametrize("precision", [precision for precision in PRECISIONS if precision != "float32"])
def test_float64_holds_it(precision: str) -> None:
    for what, given in TOO_LARGE.items():
        problem = Problem.on_box(SHAPE, **given)
        for way in WAYS:
            if possible(problem, way, precision):
                solution = solved(problem, way, "openmp", precision)
                assert solution is not None and finite(solution) and solution.status is not Status.DIVERGED, (what, way)


@pytest.mark.parametrize("way", FEW)
def test_on_a_gpu_as_well(way: str) -> None:
    for what in ("f", "u", "u of a constant a", "a corner", "the gradient"):
        problem = Problem.on_box(SHAPE, **TOO_LARGE[what])
        if possible(problem, way, "float32") and (solution := solved(problem, way, "gpu", "float32")):
            require_diverged(solution)


@pytest.mark.parametrize("what", IN_DOUBLE)
def test_what_float64_cannot_hold_has_diverged(what: str) -> None:
    problem = Problem.on_box(SHAPE, **IN_DOUBLE[what])
    for way in WAYS:
        if possible(problem, way, "float64"):
            solution = solved(problem, way, "openmp", "float64")
            assert solution is not None
            require_diverged(solution)


@pytest.mark.parametrize("way", FEW)
def test_every_rank_says_so(way: str) -> None:
    for what in ("u", "u of a constant a", "a corner", "the gradient"):
        problem = Problem.on_box(SHAPE, **TOO_LARGE[what])
        if not possible(problem, way, "float32"):
            continue

        def work(communicator: ThreadCommunicator, problem: Problem = problem) -> Solution | None:
            return solved(problem, way, "numpy", "float32", comm=communicator)

        for solution in on_ranks(3, work):
            assert solution is not None and solution.status is Status.DIVERGED, what


@pytest.mark.parametrize("preconditioner", ["none", "fft", "jacobi", "multigrid"])
def test_iterations_end_with_the_first_value_that_is_not_finite(preconditioner: Any) -> None:
    """The residual that conjugate gradients carry along falls on when u has left the range."""
    problem = Problem.on_box(
        (48, 35), **TOO_LARGE["u"] | {"a": np.where(np.arange(48) < 20, 1e3, 1.0) * np.ones((35, 1))}
    )
    solution = poisson.solve(problem, "cg", "numpy", "float32", preconditioner=preconditioner, max_iterations=2000)
    require_diverged(solution)
    assert [math.isfinite(norm) for _, norm in solution.history].count(False) == 1
    assert not math.isfinite(solution.history[-1][1])
    assert solution.iterations < 150


def test_a_method_that_was_chosen_is_not_followed_by_others_there() -> None:
    solution = poisson.solve(Problem.on_box((48, 35), **TOO_LARGE["u of a constant a"]), "auto", "numpy", "float32")
    require_diverged(solution)
    assert ", then " not in str(solution.provenance["method"])


def test_large_values_within_the_range_are_solved() -> None:
    """In units in which they are near the end of the range, u is the same times a power of two."""
    usual = poisson.solve(Problem.on_box(SHAPE, f=1.0, a=HALVES), "cg", "numpy", "float32", rtol=1e-4)
    for exponent in (100, 110, -80):
        problem = Problem.on_box(SHAPE, f=2.0**exponent, a=HALVES)
        solution = poisson.solve(problem, "cg", "numpy", "float32", rtol=1e-4)
        assert solution.status == usual.status and solution.iterations == usual.iterations
        np.testing.assert_array_equal(solution.u, usual.u * np.float32(2.0**exponent))


@pytest.mark.parametrize("way", WAYS)
def test_a_solver_has_nothing_left_of_values_that_were_not_finite(way: str) -> None:
    for given in ({"a": HALVES}, {}):
        problem = Problem.on_box(SHAPE, **given)
        if possible(problem, way, "float32"):
            settings: dict[str, Any] = {**WAYS[way], "backend": "openmp", "precision": "float32", "max_iterations": 100}
            solver = poisson.Solver(problem, **settings)
            assert solver.solve("1e39*cos(pi*x)").status is Status.DIVERGED
            expected = poisson.Solver(problem, **settings).solve("cos(pi*x)").u
            np.testing.assert_array_equal(solver.solve("cos(pi*x)").u, expected)


def test_sources_that_are_solved_for_together() -> None:
    solver = poisson.Solver(Problem.on_box((33, 33), upper=(1e6, 1e6)), "fft", "openmp")
    found = solver.solve_many([np.full((33, 33), value) for value in (1.0, 1e300, 1e200)])
    assert [solution.status.value for solution in found] == ["converged", "diverged", "converged"]
    require_diverged(found[1])


def test_u_is_looked_at_where_it_may_leave_the_range_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pass over u at each iteration is not free."""
    looked: list[bool] = []
    in_range = Watch._in_range
    monkeypatch.setattr(Watch, "_in_range", lambda self: looked.append(self._may_overflow) or in_range(self))
    for given in ({"a": HALVES}, {"c": "where(x > 0.5, 1, 0)", "boundary": FREE}, {"f": "x - 0.5", "boundary": FREE}):
        poisson.solve(Problem.on_box(SHAPE, **{"f": 1e3} | given), "cg", "numpy", "float32", max_iterations=20)
    assert len(looked) > 20 and not any(looked)
    poisson.solve(Problem.on_box(SHAPE, f=1e36, a=HALVES), "cg", "numpy", "float32", max_iterations=20)
    assert any(looked)


def test_a_gradient_that_is_asked_for_later_is_refused() -> None:
    problem = Problem.on_box(SHAPE, **TOO_LARGE["the gradient"])
    solution = poisson.solve(problem, "cg", "numpy", "float32", rtol=1e-3)
    assert solution.status.success
    with pytest.raises(
        PoissonError, match=r"^gradient: .* the range of float32.*: solve with precision='float64', or in"
    ):
        _ = solution.gradient


# ---- where it is decided
@pytest.mark.parametrize("status", [status for status in Status if status is not Status.DIVERGED])
def test_no_other_verdict_goes_with_a_value_that_is_not_finite(status: Status) -> None:
    def asked() -> bool:
        raise AssertionError("rounding has no say in it")

    result = SolveResult(status, 1, None, None, 1.0, ((1, 1.0),))
    for residual in (math.nan, math.inf):
        assert verdict(result, residual, asked, in_range=True) is Status.DIVERGED
    assert verdict(result, 0.5, asked, in_range=False) is Status.DIVERGED
    for error in (math.nan, math.inf):
        bar = SolveResult(status, 1, None, None, 1.0, ((1, 1.0),), error=error)
        assert verdict(bar, 0.5, asked, in_range=True) is Status.DIVERGED


def test_the_history_ends_with_what_was_not_finite() -> None:
    monitor = Monitor(target=0.5, first=1.0, at_rounding=lambda in_norm: False)
    assert monitor.judge(3, 2.0) is None
    assert monitor.judge(3, math.inf) is Status.DIVERGED
    assert monitor.history == [(3, math.inf)]
