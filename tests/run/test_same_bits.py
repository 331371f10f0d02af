# SPDX-License-Identifier: MIT
"""A case that is solved again on one backend gives the same bits of u: every method, precision and kind of problem.

Whichever thread comes first, wherever the arrays lie in memory, and whatever the solver has solved before.
"""

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from conftest import real
from support.ranks import ThreadCommunicator, on_ranks

import poisson
from poisson.case.combinations import clashes
from poisson.parallel.distributed import DistributedBackend
from poisson.problem.problem import Problem
from poisson.run.solution import Solution
from poisson.solvers import registry
from poisson.solvers.settings import PRECISIONS, RunSettings, SolverSettings

# A few sweeps do not converge, and are not meant to.
pytestmark = pytest.mark.filterwarnings("ignore::poisson.NotConverged")

SINGULAR: dict[str, Any] = {"f": "cos(pi*x) + (x - 0.5)*y", "boundary": {"all": {"neumann": "x - y"}}}
PERIODIC: dict[str, Any] = {"f": "exp(x)*sin(y)", "c": 0.5, "boundary": {"x": "periodic", "all": "x + 0.25*y"}}
VARYING: dict[str, Any] = {
    "f": "exp(x)*sin(5*y)",
    "a": "where(x > y, 10, 1)",
    "c": "x",
    "boundary": {"x_lower": {"robin": 1.0, "alpha": "1 + y"}, "y_upper": {"neumann": "x"}, "all": 0.5},
}
THREADS: dict[str, list[dict[str, int]]] = {"numpy": [{}], "openmp": [{"threads": 2}, {"threads": 3}]}
KINDS = {"singular": SINGULAR, "varying": VARYING, "periodic": PERIODIC}

SIZES: dict[str, dict[str, tuple[int, ...]]] = {
    "numpy": {"singular": (19, 14), "varying": (12, 17), "periodic": (8, 7, 6)},
    # From 2^15 nodes on the threads of the library share the work.
    "openmp": {"singular": (225, 161), "varying": (149, 226), "periodic": (32, 33, 36)},
}


def ways() -> Iterator[tuple[str, dict[str, Any]]]:
    """Every method, each in all its loops and with all its preconditioners, by a name for people."""
    for method, entry in registry.methods().items():
        for name, settings in entry.variants(SolverSettings(method=method)).items():
            given: dict[str, Any] = {"method": method}
            if settings.value("loop") != SolverSettings().value("loop"):
                given["loop"] = settings.value("loop")
            yield name, given
        if "preconditioner" in entry.keys:
            default = SolverSettings(method=method).value("preconditioner")
            for preconditioner in registry.preconditioners():
                if preconditioner != default:
                    yield f"{method} {preconditioner}", {"method": method, "preconditioner": preconditioner}


WAYS = dict(ways())
SWEEPS = 11


def bits(solution: Solution) -> tuple[bytes, Any, float]:
    return solution.host_u.tobytes(), solution.history, solution.residual


def allowed(way: str, kind: str, precision: str, backend: str) -> bool:
    """Whether the method takes such a problem; asked of its settings, so that no error of a solve is taken for it."""
    settings = SolverSettings().having(**WAYS[way])
    problem = Problem.on_box(SIZES[backend][kind], **KINDS[kind])
    return not any(clashes(settings, RunSettings(backend, precision), problem))


def combinations() -> Iterator[tuple[str, str, str]]:
    for backend, way, precision in itertools.product(SIZES, WAYS, PRECISIONS):
        if precision != "mixed" or registry.methods()[WAYS[way]["method"]].mixed:
            yield backend, way, precision


def test_every_method_takes_two_kinds_of_problems() -> None:
    for way in WAYS:
        assert sum(allowed(way, kind, "float64", "numpy") for kind in KINDS) >= 2, way
    assert {given["method"] for given in WAYS.values()} == set(registry.methods())


@pytest.mark.parametrize(("backend", "way", "precision"), list(combinations()))
def test_a_second_solve_gives_the_same_bits(backend: str, way: str, precision: str) -> None:
    real(backend)(np.float64)
    # Some methods take thousands of sweeps, of which a few say as much; an odd number leaves a part of a pass.
    options = {**WAYS[way], "backend": backend, "precision": precision, "rtol": 1e-4, "max_iterations": SWEEPS}
    kinds = [kind for kind in KINDS if allowed(way, kind, precision, backend)]
    for kind in kinds if precision == "float64" else kinds[-1:]:
        given = KINDS[kind]
        problem = Problem.on_box(SIZES[backend][kind], **given)
        solver = poisson.Solver(problem, **options, **THREADS[backend][0])
        first = bits(solver.solve())
        for threads in THREADS[backend]:
            # What is made in between moves the arrays of the next solver to other places in memory.
            between = np.ones(12_345)
            other = poisson.Solver(Problem.on_box(SIZES[backend][kind], **given), **options, **threads)
            assert bits(other.solve()) == first, (kind, threads)
            del between
        assert bits(solver.solve()) == first, kind


@pytest.mark.parametrize("way", WAYS)
def test_a_second_solve_on_two_ranks_gives_the_same_bits(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The ranks are threads that wait a random time before they communicate."""
    # Levels are gathered where they are small, and all of those here would be.
    monkeypatch.setattr(DistributedBackend.__init__, "__defaults__", (400,))
    options = {**WAYS[way], "backend": "numpy", "rtol": 1e-4, "max_iterations": SWEEPS}
    kind = next(kind for kind in KINDS if allowed(way, kind, "float64", "numpy"))
    problem = Problem.on_box(SIZES["numpy"][kind], **KINDS[kind])

    def solve(comm: ThreadCommunicator) -> tuple[bytes, Any, float]:
        solution = poisson.solve(problem, comm=comm, **options)
        assert solution.provenance["ranks"] == 2
        return bits(solution)

    assert on_ranks(2, solve) == on_ranks(2, solve)


TO_ROUNDING = ("cg", "fft")
"""The first multiplies by sums, which are made in the order of the ranks; the second eliminates in another order."""


def same_on_ranks() -> Iterator[tuple[str, str, str, str]]:
    for backend, way, precision in combinations():
        for kind in KINDS:
            # The mean of a singular problem is such a sum, too.
            same = WAYS[way]["method"] not in TO_ROUNDING and kind != "singular" and precision != "float32"
            if same and allowed(way, kind, precision, backend):
                yield backend, way, kind, precision


@pytest.mark.parametrize(("backend", "way", "kind", "precision"), list(same_on_ranks()))
def test_u_has_the_same_bits_on_any_number_of_ranks(
    backend: str, way: str, kind: str, precision: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    real(backend)(np.float64)
    monkeypatch.setattr(DistributedBackend.__init__, "__defaults__", (400,))
    options = {**WAYS[way], "backend": backend, "precision": precision, "rtol": 1e-4, "max_iterations": SWEEPS}
    problem = Problem.on_box(SIZES[backend][kind], **KINDS[kind])

    def solve(comm: ThreadCommunicator) -> tuple[Any, list[float]]:
        solution = poisson.solve(problem, comm=comm, threads=1 if backend == "openmp" else 0, **options)
        return solution.gather(), [norm for _, norm in solution.history]

    [(alone, history)] = on_ranks(1, solve, delay=0.0)
    for ranks in (2, 3):
        u, norms = on_ranks(ranks, solve, delay=0.0)[0]
        assert u.tobytes() == alone.tobytes()
        assert norms == pytest.approx(history, rel=1e-12)
