# SPDX-License-Identifier: MIT
"""Problems, what ranks find of them, and what they raise: the ranks are those of support/ranks.py."""

from collections.abc import Callable
from typing import Any

from numpy.typing import NDArray

import poisson
from poisson.problem.problem import Problem
from poisson.run.solution import Solution
from support.ranks import ThreadCommunicator, on_ranks

FLUX = {"neumann": "0.3 + 0 * x"}
ROBIN = {"robin": "x - 0.2", "alpha": "1 + x"}


def on_box(shape: tuple[int, ...], **given: Any) -> Problem:
    return Problem.on_box(shape, **{"f": "sin(3*x) + x", "boundary": 1.0, **given})


PROBLEMS: dict[str, tuple[Problem, int]] = {
    "2D": (on_box((33, 65)), 3),
    "2D, mirrors": (on_box((33, 50), f="x - y", a=2.0, c=0.1, boundary={"all": FLUX, "x_lower": 1.0}), 2),
    "2D, periodic": (on_box((32, 64), f="sin(2*pi*y)", boundary={"y": "periodic", "all": 0.0}), 4),
    "2D, singular": (on_box((33, 65), f="cos(pi*x)*y", boundary={"all": {"neumann": 0.0}}), 3),
    "2D, varying": (on_box((33, 65), a="1 + x*y", c="y", boundary={"all": ROBIN, "y_lower": "x"}), 3),
    "2D, varying, periodic": (on_box((32, 64), a="2 + sin(2*pi*y)", boundary={"y": "periodic", "all": 0.5}), 2),
    "3D": (on_box((9, 17, 33), f="x*y - z"), 3),
    "3D, mirrors": (on_box((17, 9, 32), a="1 + z", c=1.0, boundary={"all": FLUX, "z": "periodic"}), 4),
    "3D, singular": (on_box((9, 16, 20), f="cos(pi*z)", boundary={"all": {"neumann": 0.0}, "y": "periodic"}), 2),
}
"""Problems, each with a number of ranks."""


def solved(problem: Problem, size: int, **options: Any) -> tuple[Solution, NDArray[Any]]:
    """The part of the first rank, after a look at those of the others, and the whole of u."""

    def solve(comm: ThreadCommunicator) -> tuple[Solution, Any]:
        solution = poisson.solve(problem, comm=comm, **options)
        return solution, solution.gather()

    found = on_ranks(size, solve)
    first, whole = found[0]
    assert [each for _, each in found[1:]] == [None] * (size - 1)
    for part, _ in found[1:]:
        assert (part.status, part.iterations, part.history) == (first.status, first.iterations, first.history)
        assert (part.residual, part.error, part.error_bar) == (first.residual, first.error, first.error_bar)
        assert (part.times, part.target) == (first.times, first.target)
    return first, whole


def raised(size: int, call: Callable[[ThreadCommunicator], object]) -> list[Exception]:
    """The error that each rank raises."""

    def caught(comm: ThreadCommunicator) -> Exception:
        try:
            call(comm)
        except Exception as error:
            return error
        raise AssertionError("nothing was raised")

    return on_ranks(size, caught)
