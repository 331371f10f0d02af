# SPDX-License-Identifier: MIT
"""A method that ``auto`` has chosen, and others that go on where it stalls."""

import logging
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from poisson.backends.base import Array, Operations
from poisson.backends.inverses import InverseOperations
from poisson.errors import ResourceError
from poisson.solvers.choose import alternatives, patience_with
from poisson.solvers.iteration import Interruption, Iterate, Method, Task
from poisson.solvers.registry import describe
from poisson.solvers.roughness import has_products
from poisson.solvers.settings import SolverSettings
from poisson.solvers.status import Status
from poisson.solvers.stopping import Begun, Later, Patience, SolveResult, Stopping

OF_AVERAGES = Patience(reads=30, factor=1e3)
"""The progress of conjugate gradients with averaged coarse grids, before those with products go on. Where averages do,
30 iterations gain far more."""

OF_PRODUCTS = Patience(reads=400, factor=10.0)
"""The same with products, after which nothing better comes: where they take hundreds D⁻¹ takes thousands."""

log = logging.getLogger(__name__)


class ChosenMethod(Method):
    """A method with those that stand by.

    `operations`: those of A. `settings`: of the method. `method`: the method, with its set-up done. `make`: sets up a
    method by its settings.
    """

    def __init__(
        self, operations: Operations, settings: SolverSettings, method: Method, make: Callable[[SolverSettings], Method]
    ) -> None:
        self._operations = operations
        self._make = make
        self._methods = {settings: method}
        operator = operations.operator
        products = operator.links is not None and has_products(operations.backend, operator)
        self._chain = (settings, *alternatives(settings, products))
        self._first, self._patience_of_first = method, self._patience(settings)

    def run(self, task: Task) -> SolveResult:
        """Solve A u = f (`Method.run`). The methods go on from the iterate of the one before, to the same target."""
        u, f, stopping, observer, interrupted, *_ = task
        first, *others = self._behind(stopping.begun)
        instead = stopping.begun.instead if stopping.begun else ""
        if first is self._chain[0]:
            patience = self._patience_of_first
            result = self._first.run(task._replace(stopping=replace(stopping, patience=patience)) if patience else task)
        else:
            f, patient = self._operations.settled(f), replace(stopping, patience=self._patience(first))
            shown = partial(_named, interrupted, instead)
            result = self._methods[first].run(task._replace(f=f, stopping=patient, interrupted=shown))
        for settings in others:
            if not _stalled(result) or result.iterations >= stopping.max_iterations or not self._stands_by(settings):
                break
            log.info(
                "method %s stalls at a residual of %.2e; continuing with %s",
                *(describe(first, ""), result.history[-1][1], describe(settings, "")),
            )
            f = self._operations.settled(f)
            if result.u is not u:
                self._operations.backend.axpby(1.0, result.u, 0.0, u)
            begun = Begun(result.iterations, result.target, result.history, same=False)
            instead = describe(settings, "")
            patient = replace(stopping, begun=begun, patience=self._patience(settings))
            later, shown = Later(observer, 0) if observer else None, partial(_named, interrupted, instead)
            result = self._methods[settings].run(Task(u, f, patient, later, shown))
            first = settings
        return replace(result, instead=instead) if instead else result

    def refresh(self) -> bool:
        """Go over to other coefficients (`Method.refresh`), with the methods that have gone on so far."""
        return all(method.refresh() for method in self._methods.values())

    @property
    def reads_guess(self) -> bool:  # type: ignore[override]  # of the method that begins
        return self._first.reads_guess

    @property
    def inverse(self) -> InverseOperations | None:
        return self._first.inverse

    @property
    def together(self) -> bool:
        return self._first.together

    def ask_many(
        self, fs: Sequence[Array], start: Array, stopping: Stopping, whole: Any = None
    ) -> Callable[[], list[SolveResult | None]]:
        """By the first method (`Method.ask_many`)."""
        return self._first.ask_many(fs, start, stopping, whole)

    def _behind(self, begun: Begun | None) -> tuple[SolverSettings, ...]:
        """The methods from the one on that had gone on in a solve that is resumed."""
        for place, settings in enumerate(self._chain):
            if begun and begun.instead == describe(settings, "") and self._stands_by(settings):
                return self._chain[place:]
        return self._chain

    def _patience(self, settings: SolverSettings) -> Patience | None:
        """The progress expected of a method: more of it where the next one differs in the coarse grids alone."""
        place = self._chain.index(settings)
        following = self._chain[place + 1 : place + 2]
        if any(each.preconditioner == settings.preconditioner and each.method == settings.method for each in following):
            return OF_AVERAGES
        if following and settings.changed().get("coarse") == "galerkin":
            return OF_PRODUCTS
        return patience_with(settings)

    def _stands_by(self, settings: SolverSettings) -> bool:
        """Whether a method is set up, or can be."""
        if settings not in self._methods:
            try:
                self._methods[settings] = self._make(settings)
            except (ResourceError, MemoryError) as error:
                log.warning("too little memory to continue with %s: %s", describe(settings, ""), error)
                return False
        return True


def _named(interrupted: Interruption, instead: str, iterate: Iterate) -> bool:
    """Show an iterate with the method that makes it."""
    return interrupted(replace(iterate, instead=instead))


def _stalled(result: SolveResult) -> bool:
    """Whether a solve ended where another method may go on."""
    lost = result.status is Status.DIVERGED and math.isfinite(result.history[-1][1])
    return result.error is None and (lost or result.status is Status.STAGNATED)
