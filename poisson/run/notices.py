# SPDX-License-Identifier: MIT
"""Messages and errors about a solve that has ended."""

import logging
import warnings
from collections.abc import Callable
from typing import cast

from poisson.errors import CaseError, NotConverged
from poisson.run.solution import Solution
from poisson.solvers.status import Status
from poisson.solvers.stopping import Observer
from poisson.words import article, quantity

log = logging.getLogger(__name__)

Watching = Observer | Callable[[int, float], object]
"""An observer, or a function that is told the iteration and the norm of its residual alone."""


def judged(solution: Solution, *, strict: bool, speaks: bool) -> Solution:
    """The solution, after a word about one that has not converged.

    `solution`: what a solve returns. `strict`: whether that is an error, and no warning, which names the line that
    called the caller of this function. `speaks`: whether this rank warns. Raises `NotConverged` with `strict`, if the
    solution has not converged.
    """
    if solution.status.success:
        return solution
    line = (
        f"the solve ended as {solution.status.value} after {quantity(solution.iterations, 'iteration')}, with "
        "the residual "
        f"{solution.residual:.3g} ({solution.norm}) and the target {solution.target:.3g}: {solution.advice}"
    )
    if strict:
        raise NotConverged(line, solution)
    if speaks and solution.status is not Status.INTERRUPTED:
        warnings.warn(NotConverged(line), stacklevel=3)
    return solution


def observer_of(given: Watching | None) -> Observer | None:
    """An observer from what a caller gives.

    Raises CaseError if it is none.
    """
    if given is None:
        return None
    if not callable(given):
        allowed = "a function of the iteration and the norm of its residual"
        raise CaseError(f"observer: {article(type(given).__name__)}; allowed: {allowed}")
    return cast(Observer, given) if hasattr(given, "start") else _Function(given)


class _Function:
    """An observer that knows nothing of the start."""

    def __init__(self, function: Callable[[int, float], object]) -> None:
        self._function = function

    def start(self, target: float, reference: str, max_iterations: int) -> None:
        """A function is not told."""

    def __call__(self, iteration: int, norm: float) -> None:
        self._function(iteration, norm)
