# SPDX-License-Identifier: MIT
"""Cycles of multigrid: how often they visit the grids, what they do there, and how many a source takes.

Covers poisson.solvers.multigrid.cycle.
"""

from dataclasses import replace
from typing import Literal

import numpy as np
import pytest
from support.multigrid import F, M, cube, node_values, source, with_coefficients

import poisson
from poisson.backends.ledger import counted
from poisson.backends.numpy import NumpyBackend
from poisson.solvers.multigrid import MultigridSettings
from poisson.solvers.multigrid.cycle import Cycle
from poisson.solvers.multigrid.polynomial import CHEBYSHEV, JACOBI
from poisson.solvers.multigrid.red_black import SMOOTHER as RED_BLACK

BACKEND = NumpyBackend(np.float64)
SMOOTHERS = [each.name for each in (CHEBYSHEV, RED_BLACK, JACOBI)]


@pytest.mark.parametrize(("cycle", "visits"), [("V", [1, 1, 1]), ("W", [1, 2, 4]), ("F", [1, 2, 3])])
def test_a_cycle_visits_the_coarsest_grid_as_often_as_its_letter_says(
    cycle: Literal["V", "W", "F"], visits: list[int]
) -> None:
    for nodes, expected in zip((33, 65, 129), visits, strict=True):
        stand_in, ledger = counted(BACKEND)
        made = Cycle(stand_in.bind(cube((nodes, nodes))), MultigridSettings(cycle=cycle))
        assert len(made.grids) == 1 + (33, 65, 129).index(nodes)
        made.grids[0].f[...] = 0.0
        made.coarse(0)
        assert sum(count for call, count in ledger.counts.items() if call.name == "dense") == expected


@pytest.mark.parametrize("smoother", [*SMOOTHERS, "post 0"])
@pytest.mark.parametrize("shape", [(33, 33), (65, 65), (9, 9, 9), (17, 17, 17)], ids=str)
def test_a_coarse_solution_gets_the_term_of_short_waves(shape: tuple[int, ...], smoother: str) -> None:
    """On the coarsest grid and on another, with each smoother, where a varies and where it is constant."""
    settings = MultigridSettings(smoother=smoother) if smoother in SMOOTHERS else MultigridSettings(post=0)
    plain = cube(shape, (F, M) * len(shape), (0.1, 0.1, 0.12)[: len(shape)])
    varies = with_coefficients(BACKEND, plain, node_values(plain, "smooth", 2.0))
    for a in (plain, varies):
        found = []
        for factor in (0.0, 1.0):
            made = Cycle(BACKEND.bind(a), replace(settings, coarse="geometric"))
            level = made.grids[0].level
            assert level.short_waves > 0.0
            level.short_waves *= factor
            made.below.refresh()
            made.grids[0].f[...] = source(BACKEND, level.operator)
            found.append(made.coarse(0).copy())
        term = np.empty_like(found[0])
        level.operations.diagonal_solve(made.grids[0].f, term, level.short_waves)
        np.testing.assert_allclose(found[1] - found[0], term, rtol=0, atol=1e-12 * np.abs(found[0]).max())
        assert np.abs(term).max() > 1e-4 * np.abs(found[0]).max()


@pytest.mark.parametrize("smoother", ["chebyshev", "jacobi"])
def test_a_cycle_of_polynomials_has_no_pass_for_short_waves(smoother: str) -> None:
    stand_in, ledger = counted(BACKEND)
    made = Cycle(stand_in.bind(cube((65, 65))), MultigridSettings(smoother=smoother))
    made.grids[0].f[...] = 0.0
    made.coarse(0)
    assert {call.name for call in ledger.counts} == {"smooth", "dense"}


def test_the_sweeps_of_cycles_repeat_themselves_after_a_period(monkeypatch: pytest.MonkeyPatch) -> None:
    made = Cycle(BACKEND.bind(cube((65, 65))), MultigridSettings())
    solved, solve = [], made.below.solve
    monkeypatch.setattr(made.below, "solve", lambda number: solved.append(number) or solve(number))
    made.grids[0].f[...] = 0.0
    for cycle in range(10):
        made.coarse(cycle)
    assert solved == [0, 1, 2, 3, 0, 1, 2, 3, 0, 1]


@pytest.mark.parametrize(
    ("shape", "centring", "cycles"),
    [((129, 129), "node", 4), ((128, 128), "cell", 4), ((33, 33, 33), "node", 6), ((32, 32, 32), "cell", 6)],
)
def test_further_sweeps_where_several_axes_are_coarsened_save_cycles(
    shape: tuple[int, ...], centring: str, cycles: int
) -> None:
    f = np.random.default_rng(0).standard_normal(shape)
    problem = poisson.Problem.on_box(f.shape, f=f, centring=centring)
    assert poisson.solve(problem, "multigrid", "numpy", "mixed", rtol=1e-8).iterations == cycles


@pytest.mark.parametrize(
    ("shape", "centring", "noise", "sines"),
    [((118,) * 2, "node", 5, 4), ((114,) * 2, "cell", 4, 5), ((40,) * 3, "node", 6, 7), ((257,) * 2, "node", 4, 3)],
)
def test_grids_whose_intervals_do_not_halve_take_a_cycle_more_at_most(
    shape: tuple[int, ...], centring: str, noise: int, sines: int
) -> None:
    """They took one or two more before what the transfers damp came back in full, and sines one more on all grids."""
    random, smooth = np.random.default_rng(0).standard_normal(shape), np.ones(shape)
    for axis, waves in zip(range(len(shape)), (5, 7, 9), strict=False):
        x = np.linspace(0.0, 1.0, shape[axis]).reshape([-1 if axis == other else 1 for other in range(len(shape))])
        smooth = smooth * np.sin(waves * np.pi * x)
    solver = poisson.Solver(poisson.Problem.on_box(shape, centring=centring), "multigrid", "numpy", rtol=1e-8)
    assert [solver.solve(f=f).iterations for f in (random, smooth)] == [noise, sines]
