# SPDX-License-Identifier: MIT
"""Multigrid on axes whose spacings differ much."""

from typing import Any

import numpy as np
import pytest
from conftest import BACKENDS

import poisson
from poisson.backends.base import Backend
from poisson.backends.numpy import NumpyBackend
from poisson.case.axes import STRETCHES
from poisson.discrete.operator import Operator
from poisson.discrete.transfer import Transfer
from poisson.mesh.lattice import Lattice
from poisson.problem.problem import Problem
from poisson.solvers.multigrid.hierarchy import levels_of
from poisson.solvers.multigrid.thinning import is_uneven, thinned


def geometric(nodes: int, ratio: float) -> np.ndarray[Any, Any]:
    return STRETCHES["geometric"](np.linspace(0.0, 1.0, nodes), ratio)


def crowded(nodes: int, ratio: float) -> np.ndarray[Any, Any]:
    """Close together at both ends."""
    half = STRETCHES["tanh"](np.linspace(0.0, 1.0, nodes // 2 + 1), ratio) / 2.0
    return np.append(half, 1.0 - half[-2::-1])


TANH = np.tanh(2.0 * np.linspace(0.0, 1.0, 129))
PERIODIC = {"x": "periodic", "all": 0.0}
LONG = {"y": crowded(1025, 100.0), "z": crowded(65, 20.0), "boundary": PERIODIC}
WALLS = {"x_lower": 0.0, "all": {"neumann": 0.0}}
PROBLEMS: dict[str, dict[str, Any]] = {
    "tanh": {"x": TANH, "y": TANH},
    "geometric": {"x": geometric(97, 100.0), "y": geometric(97, 100.0)},
    "one axis": {"shape": (65, 97), "y": crowded(97, 100.0)},
    "channel": {"shape": (16, 65, 17), "y": crowded(65, 100.0), "z": crowded(17, 5.0), "boundary": PERIODIC},
    "cells": {"x": geometric(97, 50.0), "y": crowded(65, 50.0), "centring": "cell", "boundary": WALLS},
    "even cells": {"shape": (96, 64), "centring": "cell", "boundary": WALLS},
    "box": {axis: geometric(33, 50.0) for axis in "xyz"},
    "varying": {"x": geometric(97, 50.0), "y": crowded(65, 50.0), "a": "1 + 10*x*y"},
}


@pytest.mark.parametrize("name", PROBLEMS)
def test_cycles_contract_however_nodes_are_stretched(name: str) -> None:
    plain = Problem.on_box(**PROBLEMS[name])
    f = np.random.default_rng(1).normal(size=plain.lattice.array_shape)
    problem = plain.having(f=f)
    for pre, post, last, factor in ((2, 1, 7, {"box": 0.19}.get(name, 0.15)), (4, 4, 4, 0.08)):
        solution = poisson.solve(problem, "multigrid", backend="openmp", rtol=1e-9, pre=pre, post=post)
        history = [norm for _, norm in solution.history]
        assert (history[-1] / history[-1 - last]) ** (1 / last) < factor
    assert poisson.solve(problem, "cg", backend="openmp", rtol=1e-8).iterations <= 9


@pytest.mark.parametrize(("given", "most"), [(PROBLEMS["geometric"], 5.5), ({"shape": (64, 1025, 65), **LONG}, 4.5)])
def test_each_grid_leaves_out_nodes_where_they_are_closest(given: dict[str, Any], most: float) -> None:
    lattice = Problem.on_box(**given).lattice
    grids = [lattice]
    while (found := thinned(grids[-1])) is not None:
        coarse, lowest = found
        for line, coarser in zip(grids[-1].axes, coarse.axes, strict=True):
            assert set(coarser.coordinates) < set(line.coordinates) or coarser is line or line.wraps
            assert coarser.interval == line.interval and line.nodes <= 2 * coarser.nodes
            if lattice.dimension == 2:
                assert coarser.gaps.min() > 1.4 * line.gaps.min() or coarser.nodes < 9
        assert (0.3 if lattice.dimension == 2 else 0.17) < lowest <= 1.0
        grids.append(coarse)
    assert 3 <= max(grids[-1].shape) <= 10
    # Work on all grids together: a few times that on the finest.
    assert sum(grid.nodes for grid in grids) < most * lattice.nodes


def test_what_is_coarsened_as_a_whole() -> None:
    for given in ({"shape": (9, 9)}, {"shape": (9, 9), "centring": "cell"}, {"x": geometric(9, 1.9)}):
        assert not is_uneven(Problem.on_box(**given).lattice)
    whole = Problem.on_box(**PROBLEMS["one axis"]).lattice
    assert is_uneven(whole) and not is_uneven(whole.part(1, 0, 40, 2))


@pytest.mark.parametrize("name", ["openmp", "emulated"])
def test_transfers_to_thinned_axes_agree_with_the_specification(name: str) -> None:
    rng = np.random.default_rng(2)
    backends: list[Backend] = [NumpyBackend(np.float64), BACKENDS[name](np.float64)]
    for chosen in ("geometric", "cells"):
        axes = Problem.on_box(**PROBLEMS[chosen]).lattice.axes
        fine = Lattice(tuple(axis.resized(n) for axis, n in zip(axes, (21, 12), strict=True)))
        found = thinned(fine)
        assert found is not None
        tables = Transfer(Operator(fine), Operator(found[0]))
        values, coarse = rng.normal(size=fine.array_shape), rng.normal(size=found[0].array_shape)
        results = []
        for backend in backends:
            bound = backend.bind(tables)
            down, up = backend.from_host(np.zeros_like(coarse)), backend.from_host(values.copy())
            bound.restrict(backend.from_host(values.copy()), down)
            bound.prolong_add(backend.from_host(coarse.copy()), up)
            results.append((backend.to_host(down), backend.to_host(up)))
        for one, other in zip(*results, strict=True):
            np.testing.assert_allclose(other, one, rtol=0, atol=1e-13)


def test_other_coefficients_keep_the_grids() -> None:
    problem = Problem.on_box(**PROBLEMS["varying"], f=1.0)
    solver = poisson.Solver(problem, "multigrid", backend="numpy", rtol=1e-8)
    before = solver.solve().iterations
    assert solver.solve(f=2.0, a="2 + 20*x*y").iterations == before
    levels = levels_of(NumpyBackend(np.float64).bind(Operator(problem.lattice)))
    assert [level.short_waves for level in levels] == [0.0] * len(levels) and len(levels) > 8
