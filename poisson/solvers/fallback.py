"""A method that ``auto`` has chosen, and others that go on where it stalls."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from dataclasses import replace

from poisson.backends.base import Array, Backend
from poisson.errors import ResourceError
from poisson.solvers.choose import alternatives, describe, patience_with
from poisson.solvers.iteration import Method, never
from poisson.solvers.settings import SolverSettings
from poisson.solvers.status import Status
from poisson.solvers.stopping import Later, Observer, SolveResult, Stopping

log = logging.getLogger(__name__)


class ChosenMethod:
    """A method with those that stand by.

    Parameters
    ----------
    backend : Backend
        Where the arrays are.
    settings : SolverSettings
        Of the method.
    method : Method
        The method, with its set-up done.
    make : callable
        Sets up a method by its settings.
    """

    def __init__(
        self, backend: Backend, settings: SolverSettings, method: Method, make: Callable[[SolverSettings], Method]
    ) -> None:
        self._backend = backend
        self._make = make
        self._methods = {settings: method}
        self._chain = (settings, *alternatives(settings))

    def solve(
        self,
        u: Array,
        f: Array,
        *,
        stopping: Stopping,
        observer: Observer | None = None,
        interrupted: Callable[[], bool] = never,
    ) -> SolveResult:
        """Solve A u = f (`Method.solve`). The methods go on from the iterate of the one before, to the same target."""
        first, *others = self._chain
        begun = replace(stopping, patience=patience_with(first))
        result = self._methods[first].solve(u, f, stopping=begun, observer=observer, interrupted=interrupted)
        for settings in others:
            left = stopping.max_iterations - result.iterations
            if not _stalled(result) or left < 1 or not self._stands_by(settings):
                break
            log.info(
                "method %s stalls at a residual of %.2e; %s goes on",
                *(describe(first, ""), result.history[-1][1], describe(settings, "")),
            )
            if result.u is not u:
                self._backend.axpby(1.0, result.u, 0.0, u)
            rest = self._methods[settings].solve(
                *(u, f),
                stopping=replace(
                    stopping, rtol=0.0, atol=result.target, max_iterations=left, patience=patience_with(settings)
                ),
                observer=Later(observer, result.iterations) if observer else None,
                interrupted=interrupted,
            )
            history = (*result.history, *((done + result.iterations, norm) for done, norm in rest.history if done))
            done = result.iterations + rest.iterations
            result = replace(rest, iterations=done, history=history, instead=describe(settings, ""))
            first = settings
        return result

    def _stands_by(self, settings: SolverSettings) -> bool:
        """Whether a method is set up, or can be."""
        if settings not in self._methods:
            try:
                self._methods[settings] = self._make(settings)
            except (ResourceError, MemoryError) as error:
                log.warning("there is no memory to go on with %s: %s", describe(settings, ""), error)
                return False
        return True


def _stalled(result: SolveResult) -> bool:
    """Whether a solve ended where another method may go on."""
    lost = result.status is Status.DIVERGED and math.isfinite(result.history[-1][1])
    return result.error is None and (lost or result.status is Status.STAGNATED)
