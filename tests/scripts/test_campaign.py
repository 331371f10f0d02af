# SPDX-License-Identifier: MIT
"""Random problems against a reference that shares no code with the package; and their judge, who must see defects."""

import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from campaign import campaign, main
from campaign_judge import DEFECTS, Limit, judge
from campaign_problems import KINDS, TURNS, Solve, Trial, draw
from campaign_reference import Box, Reference, Side

import poisson
from poisson import Status, backends
from poisson.errors import BackendUnavailable

BLOCK = 20


@pytest.mark.parametrize("backend, first", [("openmp" if k < 140 else "numpy", k) for k in range(0, 200, BLOCK)])
def test_random_problems_show_no_defect(backend: str, first: int) -> None:
    try:
        backends.create(backend, np.float64)
    except BackendUnavailable as error:
        pytest.skip(str(error))
    verdicts = campaign(range(first, first + BLOCK), backend)
    assert len(verdicts) == BLOCK and all(found for _, found in verdicts)
    assert [(seed, verdict) for seed, found in verdicts for verdict in found if verdict.bad] == []


def test_a_seed_is_one_problem() -> None:
    first, again = draw(7), draw(7)
    assert (first.kind, first.options, first.box.shape) == (again.kind, again.options, again.box.shape)
    assert np.array_equal(first.box.values(first.solves[0].f), again.box.values(again.solves[0].f))
    assert {draw(seed).kind for seed in range(len(TURNS))} == set(KINDS)


def test_the_command_counts_and_names_the_seeds(capsys: pytest.CaptureFixture[str]) -> None:
    found = main("18:20", backend="numpy", verbose=True)
    assert sum(map(len, found.values())) >= 2
    shown = capsys.readouterr().out
    assert "trial = campaign_problems.draw(19)" in shown and "2 problems" in shown


# ---- the reference
def test_the_reference_is_the_balance_of_half_cells() -> None:
    # Three nodes, h = 1/2: a Neumann face with g = 2, a Robin face with g = 1 and alpha = 3; c = 1 and a = 1, 1, 3.
    box = Box((3,), (0.0,), (1.0,), (Side("neumann", 2.0), Side("robin", 1.0, 3.0)), np.array([1.0, 1.0, 3.0]), 1.0)
    reference = Reference(box)
    b = reference.source(np.ones(3))
    # a between the last two is 2 / (1/1 + 1/3) = 3/2.
    matrix = np.array([[8.0 + 1, -8, 0], [-4, 4 + 6 + 1, -6], [0, -12, 12 + 12 + 1]])
    right = np.array([1.0 + 2 * 2 / 0.5, 1, 1 + 2 * 1 / 0.5])
    u = np.array([1.0, -2.0, 0.5])
    np.testing.assert_allclose(np.asarray(reference.residual(u, b), dtype=float), right - matrix @ u, rtol=1e-14)
    np.testing.assert_allclose(np.asarray(reference.solve(b), dtype=float), np.linalg.solve(matrix, right), rtol=1e-14)
    assert not reference.singular


def test_the_reference_knows_a_constant_that_next_to_nothing_holds() -> None:
    """u = 3, by g = 3 α with α = 1e-16 against links of 1e5, beside which the factors lose α."""
    a = np.where(np.random.default_rng(5).random((12, 17)) < 0.5, 1.0, 1e-6)
    sides = (Side("robin", 3e-16, 1e-16), Side("neumann"), Side("periodic"), Side("periodic"))
    reference = Reference(Box((17, 12), (0.0, 0.0), (0.04, 300.0), sides, a))
    np.testing.assert_allclose(reference.solve(reference.source(np.zeros((12, 17)))).astype(float), 3.0, rtol=1e-6)


def test_the_reference_wraps_and_eliminates() -> None:
    sides = (Side("dirichlet", 5.0), Side("dirichlet", 7.0), Side("periodic"), Side("periodic"))
    reference = Reference(Box((3, 3), (0.0, 0.0), (1.0, 3.0), sides))
    b = reference.source(np.zeros((3, 3)))
    u = reference.fixed.copy()
    u[:, 1] = (1.0, 2.0, 4.0)
    # h = 1/2 across, 1 along: each inner node has the two walls and the two others of its column.
    expected = [4 * (12 - 2 * v) + (7 - 3 * v) for v in (1.0, 2.0, 4.0)]
    np.testing.assert_allclose(np.asarray(reference.residual(u, b)[:, 1], dtype=float), expected, rtol=1e-14)
    assert not reference.residual(u, b)[:, ::2].any()
    assert (reference.fixed[:, 0] == 5.0).all() and (reference.fixed[:, 2] == 7.0).all()


# ---- the judge


PLAIN = Trial(
    *(0, "smooth", Box((9, 9), (0.0, 0.0), (1.0, 1.0), (Side("dirichlet"),) * 4)),
    *((Solve("sin(pi*x)"),), {"threads": 1}),
)
CLOSED = replace(
    PLAIN, box=replace(PLAIN.box, sides=(Side("neumann"),) * 4), solves=(Solve("cos(pi*x)"), Solve("cos(pi*y)"))
)
NEAR = replace(PLAIN, solves=(Solve("sin(pi*x)", "near"),))


def _unlike(solution: Any, **changes: Any) -> Any:
    return replace(solution, **changes)


SPOILED: dict[str, tuple[Trial, Callable[[Any, int], Any]]] = {
    "wrong": (PLAIN, lambda s, _: _unlike(s, u=s.u * (1 + 1e-6))),
    "false-stagnated": (PLAIN, lambda s, _: _unlike(s, u=0 * s.u, residual=0.7071, status=Status.STAGNATED)),
    "false-diverged": (PLAIN, lambda s, _: _unlike(s, status=Status.DIVERGED)),
    "early": (PLAIN, lambda s, _: _unlike(s, u=s.u * (1 + 1e-9), target=1e-20, status=Status.STAGNATED)),
    "destroyed": (NEAR, lambda s, _: _unlike(s, u=1e3 * s.u, status=Status.STAGNATED)),
    "slow": (PLAIN, lambda s, _: _unlike(s, status=Status.MAX_ITERATIONS, u=0 * s.u)),
    "reuse": (CLOSED, lambda s, number: _unlike(s, u=s.u * (1 + 1e-15 * (number == 2)))),
    "nullspace": (CLOSED, lambda s, _: _unlike(s, u=s.u + 1e-12)),
}


@pytest.mark.parametrize("name", SPOILED)
def test_the_judge_sees_a_spoiled_solution(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    trial, spoil = SPOILED[name]
    assert [verdict.name for verdict in judge(trial, "numpy")] == ["converged"] * len(trial.solves)
    solve, calls = poisson.Solver.solve, []

    def spoiled(self: Any, *given: Any, **named: Any) -> Any:
        calls.append(1)
        return spoil(solve(self, *given, **named), len(calls))

    monkeypatch.setattr(poisson.Solver, "solve", spoiled)
    assert name in [verdict.name for verdict in judge(trial, "numpy")]


def test_the_judge_sees_a_success_with_values_beyond_the_range(monkeypatch: pytest.MonkeyPatch) -> None:
    large = replace(PLAIN, solves=(Solve("1e39*sin(pi*x)"),), options={"precision": "float32", "method": "cg"})
    assert [verdict.name for verdict in judge(large, "numpy")] == ["out-of-range"]
    solve = poisson.Solver.solve

    def spoiled(self: Any, *given: Any, **named: Any) -> Any:
        return _unlike(solve(self, *given, **named), status=Status.AT_ROUNDING, residual=np.nan)

    monkeypatch.setattr(poisson.Solver, "solve", spoiled)
    assert [verdict.name for verdict in judge(large, "numpy")] == ["wrong"]


def test_the_judge_sees_exceptions(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(self: Any, *given: Any, **named: Any) -> Any:
        raise ZeroDivisionError("float division by zero")

    monkeypatch.setattr(poisson.Solver, "solve", fails)
    assert [(it.name, it.detail) for it in judge(PLAIN, "numpy")] == [
        ("crash", "ZeroDivisionError: float division by zero")
    ]


WARNINGS = [
    (poisson.Solver.__init__.__code__.co_filename, ["nan"]),
    (np.__file__, ["nan"]),
    # The clone may be in a folder called poisson, and so may an environment.
    ("/home/a/poisson/scripts/campaign_judge.py", []),
    ("/home/a/numpy/poisson/lib/scipy/fft.py", []),
]


@pytest.mark.parametrize("place, more", WARNINGS, ids=["poisson", "numpy", "clone", "environment"])
def test_warnings_of_files_of_the_packages_are_defects(
    place: str, more: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    solve = poisson.Solver.solve

    def warns(self: Any, *given: Any, **named: Any) -> Any:
        warnings.warn_explicit("overflow encountered in multiply", RuntimeWarning, place, 1)
        return solve(self, *given, **named)

    monkeypatch.setattr(poisson.Solver, "solve", warns)
    assert [verdict.name for verdict in judge(PLAIN, "numpy")] == ["converged", *more]


def test_the_judge_sees_a_problem_without_a_solution(monkeypatch: pytest.MonkeyPatch) -> None:
    one_sided = replace(CLOSED, kind="refused", solves=(Solve(1.0),))
    assert [verdict.name for verdict in judge(one_sided, "numpy")] == ["refused"]
    monkeypatch.setattr("poisson.discrete.balance.Balance.compatible", True)
    assert [verdict.name for verdict in judge(one_sided, "numpy")] == ["wrong"]


def test_the_judge_sees_a_target_that_is_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    solve = poisson.Solver.solve
    monkeypatch.setattr(poisson.Solver, "solve", lambda *given, **named: replace(solve(*given, **named), target=1e-3))
    assert "wrong" in [verdict.name for verdict in judge(PLAIN, "numpy")]


def test_a_solve_that_takes_too_long_is_ended_and_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("campaign_judge.SECONDS", -1.0)
    assert Limit()()
    jacobi = replace(PLAIN, options={"method": "jacobi"})
    assert [verdict.name for verdict in judge(jacobi, "numpy")] == ["slow"]
    assert [verdict.name for verdict in judge(replace(jacobi, through="solve"), "numpy")] == ["slow"]
    assert set(SPOILED) | {"crash", "nan"} == set(DEFECTS)
