# SPDX-License-Identifier: MIT
"""Messages and errors about a solve that has ended."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable
from typing import cast

import numpy as np

from poisson.errors import CaseError, CheckWarning, NotConverged
from poisson.problem.fields import FunctionField, PartField
from poisson.problem.problem import Problem
from poisson.run.concerns import concerns_of
from poisson.run.sample import Sample
from poisson.run.solution import Solution
from poisson.solvers.settings import RunSettings, SolverSettings
from poisson.solvers.status import Status
from poisson.solvers.stopping import Observer
from poisson.words import article, quantity

log = logging.getLogger(__name__)

Watching = Observer | Callable[[int, float], object]
"""An observer, or a function that is told the iteration and the norm of its residual alone."""


def judged(solution: Solution, *, strict: bool, speaks: bool) -> Solution:
    """The solution, after a word about one that has not converged.

    Parameters
    ----------
    solution : Solution
        What a solve returns.
    strict : bool
        Whether that is an error, and no warning, which names the line that called the caller of this function.
    speaks : bool
        Whether this rank warns.

    Raises
    ------
    NotConverged
        With `strict`, if the solution has not converged.
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


def warn_of_concerns(problem: Problem, settings: SolverSettings, run: RunSettings) -> None:
    """One warning of all that `check` is concerned about, which names the line that called the caller of this function.

    Where a process has its own part of an array alone, nothing is known.

    Parameters
    ----------
    problem : Problem
        What was solved.
    settings, run : SolverSettings, RunSettings
        How, and where.
    """
    of_faces = (data for face in problem.faces for data in (face.value, face.alpha))
    given = (problem.f, problem.a, problem.c, problem.initial, *of_faces)
    if any(isinstance(field, PartField) for field in given):
        return
    try:
        with np.errstate(all="ignore"):
            concerns = concerns_of(Sample(problem), settings, run)
    except Exception as error:
        if not any(isinstance(field, FunctionField) for field in given):
            raise
        # A user's function may take the arrays of a device alone.
        log.debug("the problem was not checked: %s", error)
        return
    if concerns:
        warnings.warn(CheckWarning("\n".join(concern.line for concern in concerns)), stacklevel=3)


def observer_of(given: Watching | None) -> Observer | None:
    """An observer from what a caller gives.

    Raises CaseError if it is none.
    """
    if given is None:
        return None
    if not callable(given):
        allowed = "a function of the iteration and the norm of its residual"
        raise CaseError([f"observer: {article(type(given).__name__)}; allowed: {allowed}"])
    return cast(Observer, given) if hasattr(given, "start") else _Function(given)


class _Function:
    """An observer that knows nothing of the start."""

    def __init__(self, function: Callable[[int, float], object]) -> None:
        self._function = function

    def start(self, target: float, reference: str, max_iterations: int) -> None:
        """A function is not told."""

    def __call__(self, iteration: int, norm: float) -> None:
        self._function(iteration, norm)
