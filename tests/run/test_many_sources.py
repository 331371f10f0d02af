# SPDX-License-Identifier: MIT
"""Several sources in one call: the solutions are those of calls for one source each.

Covers poisson.run.batch.
"""

from typing import Any

import numpy as np
import pytest

from poisson.errors import CaseError
from poisson.problem.problem import Problem
from poisson.run.solver import Solver


def source(shape: tuple[int, ...], seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape)


def test_several_sources_come_to_what_each_does() -> None:
    solver = Solver(Problem.on_box((17, 9), boundary="x"), "multigrid", "openmp")
    fs = np.stack([source((9, 17), seed) for seed in range(3)])
    expected = [solver.solve(f) for f in fs]
    for given in (fs, list(fs), iter(fs), fs[:, :, ::-1][:, :, ::-1]):
        found = solver.solve_many(given)
        assert [each.status for each in found] == [each.status for each in expected]
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_array_equal(one.u, other.u)
            assert (one.residual, one.target, one.iterations) == (other.residual, other.target, other.iterations)
    texts = solver.solve_many(["x*y", 2.0, lambda x, y: x - y])
    np.testing.assert_array_equal(texts[1].u, solver.solve(2.0).u)
    assert solver.solve_many([]) == solver.solve_many(np.empty((0, 9, 17))) == []


def test_what_is_not_several_sources_is_refused() -> None:
    solver = Solver(Problem.on_box((17, 9)), "fft", "openmp")
    for given, found in {
        "an array of the shape (9, 17)": np.zeros((9, 17)),
        "a str": "x*y",
        "a float": 1.0,
        "a dict": {"f": 1.0},
    }.items():
        with pytest.raises(CaseError) as refused:
            solver.solve_many(found)
        assert str(refused.value) == f"fs: {given}; allowed: an array of the shape (k, 9, 17), or a sequence of sources"
    bad = np.ones((3, 9, 17))
    bad[1, 2, 3] = np.nan
    with pytest.raises(CaseError, match=r"equation.f: nan at x = 0.1875, y = 0.25"):
        solver.solve_many(bad)
    assert len(solver.solve_many(bad[::2])) == 2


@pytest.mark.parametrize("count", [2, 7])
@pytest.mark.parametrize(
    ("shape", "boundary", "c"),
    [
        ((17, 9), 0.0, 0.0),
        ((16, 9), {"x": "periodic", "all": "sin(2*pi*x)"}, 1.0),
        ((9, 16), {"y": "periodic", "x_lower": 2.0, "x_upper": {"neumann": 0.0}}, 0.0),
        ((9, 7, 5), "x - y*z", 3.0),
        ((33,), {"x_lower": 1.0, "x_upper": 2.0}, 0.0),
    ],
    ids=str,
)
@pytest.mark.parametrize("method", ["auto", "fft"])
def test_sources_that_are_solved_for_at_once(
    method: str, shape: tuple[int, ...], boundary: Any, c: float, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the library, which is asked once, and never by a loop."""
    solver = Solver(Problem.on_box(shape, boundary=boundary, c=c), method, "openmp", threads=2)
    fs = np.stack([source(shape[::-1], seed) for seed in range(count)])
    expected = [solver.solve(f) for f in fs]
    monkeypatch.setattr(Solver, "_solve", lambda *_: pytest.fail("solved for alone"))
    found = solver.solve_many(fs)
    for f, one, other in zip(fs, found, expected, strict=True):
        np.testing.assert_allclose(one.u, other.u, rtol=0, atol=1e-14 * np.abs(other.u).max())
        assert (one.status, one.target, one.iterations) == (other.status, other.target, other.iterations)
        assert one.residual <= one.target
        assert one.problem.f.values is f or np.shares_memory(one.problem.f.values, f)  # type: ignore[union-attr]
        assert one.provenance["method"] == other.provenance["method"]
    kept = [each.u.copy() for each in found]
    solver.solve_many(fs[::-1])
    for one, values in zip(found, kept, strict=True):
        np.testing.assert_array_equal(one.u, values)


def test_a_source_that_one_solution_is_not_enough_for_is_solved_for_alone() -> None:
    """Where its target is below the rounding of transforms; a source of zeros has no target of its own."""
    solver = Solver(Problem.on_box((65, 33), boundary=0.0), "fft", "openmp", rtol=1e-17)
    fs = np.stack([source((33, 65)), np.zeros((33, 65))])
    found = solver.solve_many(fs)
    for f, one in zip(fs, found, strict=True):
        other = solver.solve(f)
        np.testing.assert_array_equal(one.u, other.u)
        assert (one.status, one.iterations, one.history) == (other.status, other.iterations, other.history)
    assert not found[1].u.any()
