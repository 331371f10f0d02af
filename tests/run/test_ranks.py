"""A problem that several ranks solve together has the solution that one process finds.

The ranks are threads that wait a random time before they communicate (support/ranks.py).

Covers poisson.run.ranks and poisson.discrete.share.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.ranks import ThreadCommunicator, on_ranks

import poisson
from poisson.problem.problem import Problem
from poisson.run.solution import Solution

NEUMANN = {"neumann": "0.3 + 0 * x"}
ROBIN = {"robin": "x - 0.2", "alpha": "1 + x"}


def on_box(shape: tuple[int, ...], **given: Any) -> Problem:
    return Problem.on_box(shape, **{"f": "sin(3*x) + x", "boundary": 1.0, **given})


PROBLEMS: dict[str, tuple[Problem, int]] = {
    "2D": (on_box((33, 65)), 3),
    "2D, mirrors": (on_box((33, 50), f="x - y", a=2.0, c=0.1, boundary={"all": NEUMANN, "x_lower": 1.0}), 2),
    "2D, periodic": (on_box((32, 64), f="sin(2*pi*y)", boundary={"y": "periodic", "all": 0.0}), 4),
    "2D, singular": (on_box((33, 65), f="cos(pi*x)", boundary={"all": {"neumann": 0.0}}), 3),
    "2D, varying": (on_box((33, 65), a="1 + x*y", c="y", boundary={"all": ROBIN, "y_lower": "x"}), 3),
    "2D, varying, periodic": (on_box((32, 64), a="2 + sin(2*pi*y)", boundary={"y": "periodic", "all": 0.5}), 2),
    "3D": (on_box((9, 17, 33), f="x*y - z"), 3),
    "3D, mirrors": (on_box((17, 9, 32), a="1 + z", c=1.0, boundary={"all": NEUMANN, "z": "periodic"}), 4),
}
"""Problems, each with a number of ranks."""


def solved(problem: Problem, size: int, **options: Any) -> tuple[Solution, np.ndarray[Any, Any]]:
    """The part of the first rank, after a look at those of the others, and the whole of u."""

    def solve(comm: ThreadCommunicator) -> tuple[Solution, Any]:
        solution = poisson.solve(problem, comm=comm, **options)
        return solution, solution.gather()

    found = on_ranks(size, solve)
    first, whole = found[0]
    assert [each for _, each in found[1:]] == [None] * (size - 1)
    for part, _ in found[1:]:
        assert (part.status, part.iterations, part.history) == (first.status, first.iterations, first.history)
        assert (part.residual, part.error, part.times) == (first.residual, first.error, first.times)
    return first, whole


@pytest.mark.parametrize("name", PROBLEMS)
@pytest.mark.parametrize("method", ["multigrid", "cg", "jacobi"])
def test_ranks_find_what_one_process_does(name: str, method: str) -> None:
    problem, size = PROBLEMS[name]
    options: dict[str, Any] = {"method": method, "backend": "numpy"}
    if method == "jacobi":
        options["max_iterations"] = 60
    alone = poisson.solve(problem, **options)
    together, u = solved(problem, size, **options)
    assert (together.status, together.iterations) == (alone.status, alone.iterations)
    np.testing.assert_allclose(u, alone.u, rtol=0.0, atol=1e-12 * np.abs(alone.u).max())
    np.testing.assert_allclose(together.history, alone.history, rtol=1e-6, atol=1e-14 * alone.history[0][1])
    assert together.residual == pytest.approx(alone.residual, rel=1e-3)
    assert together.provenance["ranks"] == size
