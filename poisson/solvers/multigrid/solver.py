# SPDX-License-Identifier: MIT
"""The multigrid method: cycles until the residual is small, and one cycle as a preconditioner."""

import math
import weakref
from dataclasses import replace

import numpy as np

from poisson.backends.base import Array, Operations
from poisson.solvers.iteration import Method, Norms, Task, Watch, relax
from poisson.solvers.multigrid.coarser import CoarserProblems
from poisson.solvers.multigrid.cycle import Cycle
from poisson.solvers.multigrid.estimate import ErrorEstimate
from poisson.solvers.multigrid.full import FullMultigrid
from poisson.solvers.multigrid.settings import MultigridSettings
from poisson.solvers.spectrum import ZeroMean
from poisson.solvers.status import Status
from poisson.solvers.stopping import Patience, SolveResult

PATIENCE = Patience(reads=20, factor=2.0)
"""Cycles that reduce the residual by less have stalled."""

STALLED = 0.3
"""A cycle in float32 that leaves more than this part of the residual has met its rounding."""

ROUNDING = 2.0
"""A residual in float32 may be rounding if it is at most so many times what the type and the size of the iterate give.
A correction in float64 is then worth more than a further cycle: a sine at 257³ takes 5 cycles in the place of 6."""


class Multigrid(Method):
    """Multigrid cycles until the residual norm reaches its target, or until the discretisation error outweighs.

    On the finest grid the sweeps at the end of a cycle and those at the start of the next go together in one pass over
    memory, which also leaves the norm of the residual and restricts it.

    `operations`: those of A. `settings`: how to cycle. `coarser`: the problem on coarser grids, needed to stop at the
    discretisation error; loaded before a solve. `reduction`: what `reduce` is good for at once.

    Reference: U. Trottenberg, C. W. Oosterlee, A. Schüller, Multigrid, chapters 2 and 5.
    """

    reduction = 1e-4

    def __init__(
        self,
        operations: Operations,
        settings: MultigridSettings = MultigridSettings(),  # noqa: B008 (frozen)
        coarser: CoarserProblems | None = None,
    ) -> None:
        backend, operator = operations.backend, operations.operator
        self.operations = operations
        self._backend = operations.backend
        settings = replace(settings, few=coarser is not None)
        self.cycle = Cycle(operations, settings)
        self.settings = settings
        shape = operator.array_shape
        self.spare = [backend.empty(shape), backend.empty(shape)]
        self._norms, self._of_source, self._of_guess = (backend.reduction() for _ in range(3))
        self._mean = ZeroMean(operations)
        self._full: FullMultigrid | None = None
        self._estimate = ErrorEstimate(operations, coarser, settings) if coarser else None
        self._made = 0
        # What is recorded looks at the guess in any case.
        starts = settings.full and self.cycle.finest.transfer is not None
        self.reads_guess = not starts or self.cycle.galerkin or self.cycle.records

    def run(self, task: Task) -> SolveResult:
        """Solve A u = f (`Method.run`).

        With full multigrid only the values of u at fixed nodes count. An iterate whose norm is read has had the sweeps
        before the restriction of the next cycle, too.
        """
        operations, backend, norms = self.operations, self._backend, self._norms
        operator = operations.operator
        u, f, stopping = task.u, task.f, task.stopping
        estimate = self._estimate if stopping.stop == "discretisation" else None
        if stopping.stop == "discretisation" and estimate is None:
            raise ValueError("stop = 'discretisation' needs the problem on coarser grids")
        if self.cycle.finest.transfer is None:
            return self._directly(task, estimate)
        watch = Watch(operations, task, norms, patience=PATIENCE)
        at = _At(u, *self.spare)
        full = self.settings.full and not (estimate or self.cycle.galerkin or stopping.begun)
        if full and self._full is None:
            self._full = FullMultigrid(self.cycle)
        guess: Norms | None
        if full and self.cycle.records:
            at.move(self._begun(at, f))
            source, guess, first = backend.read_all((self._of_source, self._of_guess, norms))
            guess = guess if source == (0.0, 0.0) else None
            watch.follow(f)
        else:
            if estimate:
                estimate.begin()
            source, guess = watch.source(f), None
            if task.blank and not ((full or estimate) and source[1]):
                backend.fill(u, 0.0)
            if source == (0.0, 0.0):
                operations.residual(u, None, at.work, norms)
                guess = backend.read(norms)
            if estimate:
                # The solutions on the coarser grids are needed in any case, not what they are interpolated to.
                estimate.start(at.out if stopping.begun else at.u)
            elif full and self._full:
                self._full.start(at.u, f, blank=task.blank)
            at.move(self.cycle.down(at.u, f, at.out, at.work, 0, norms))
            if estimate:
                return self._to_discretisation_error(estimate, watch, at, f, source, guess)
            first = backend.read(norms)
        status = watch.begin(source, first, lambda: at.u, guess)
        done, now = 0, first
        self._mean.begin(watch.norm(first))
        while status is None:
            at.move(self.cycle.coarse_and_turn(at.u, f, at.out, at.work, done, norms))
            done += 1
            now = backend.read(norms)
            if operator.singular:
                self._mean.follow(at.u, watch.norm(now), at.work)
            status = watch.judge(done, now) or watch.limit(done)
        # A mean that was taken out came after the residual.
        return watch.result(status, done, at.u, at.work, None if operator.singular else now)

    def _begun(self, at: "_At", f: Array) -> Array:
        """The start of full multigrid and the sweeps after it, with all norms that are read before the first cycle.

        Recorded as one, as launches and waits would take most of the time; returns the array with the iterate.
        """
        u, out, work = at.u, at.out, at.work
        # A recording that held this object, which holds it, would keep the memory of both.
        this = weakref.proxy(self)

        def begin() -> Array:
            this.operations.norm(f, this._of_source)
            this.operations.residual(u, None, work, this._of_guess)
            this._full.start(u, f, recorded=False)
            return this.cycle.down(u, f, out, work, 0, this._norms)

        return self.cycle.recorded("begin", begin, (u, f, out, work))

    def refresh(self) -> bool:
        """Go over to other coefficients (`Method.refresh`), but not where the problem on coarser grids has them too."""
        return self._estimate is None and self.cycle.refresh()

    def apply(self, r: Array, z: Array) -> None:
        """z = one cycle for A z = r from zero (`Preconditioner.apply`)."""
        if self.cycle.finest.transfer is None:
            self._backend.dense(self.cycle.matrix, r, z)
            return
        self.cycle.from_zero(r, z, self.spare)

    def begin(self) -> None:
        """The next call of `reduce` has a source that does not come from the call before."""
        self._made = 0

    def reduce(self, r: Array, e: Array, norms: Norms, reduction: float, most: int) -> tuple[Array, int]:
        """Cycles for A e = r from zero, until the residual is small enough or falls no longer.

        A call ends with the sweeps before a restriction. The next one, whose source is what this one left, begins with
        that restriction: the cycles go on as if there had been one call.

        `r` (Array): the source, zero at fixed nodes. `e` (Array): a place for the result. `norms`: those of r.
        `reduction`: the part of the norm of r to reach. `most`: limit on cycles, at least 1. Returns: The array with
        the result, which is `e` or one of the solver's own, and the cycles made, at least one.
        """
        transfer = self.cycle.finest.transfer
        if transfer is None:
            self.apply(r, e)
            return e, 1
        at, u = _At(e, *self.spare), None
        if self._made == 0:
            u = self.cycle.down(None, r, at.out, at.work, 0)
            at.move(u)
        else:
            transfer.restrict(r, self.cycle.grids[0].f)
            if self.cycle.galerkin:
                u = e  # which corrections of clusters need
                self._backend.fill(u, 0.0)
        goal, before, begun = reduction * math.sqrt(norms[0]), math.inf, self._made
        while True:
            at.move(self.cycle.coarse_and_turn(u, r, at.out, at.work, self._made, self._norms))
            self._made += 1
            first = self._made == 1
            copies = self._ask_for_size(at.u) if first else 1.0
            left = math.sqrt(self._backend.read(self._norms)[0])
            done = self._made - begun
            if first and left > goal:
                # Later corrections are rougher, and so smaller beside their residuals.
                goal = max(goal, self._rounding(copies))
            if left <= goal or not left < STALLED * before or done == most:
                return at.u, done
            before, u = left, at.u

    def _ask_for_size(self, e: Array) -> float:
        """Ask for the norms of e, or of the coarse correction, which is most of it; returns how often that counts."""
        fine, operations = self.operations.operator, self.operations
        if self.cycle.error is not None:
            operations, e = self.cycle.levels[1].operations, self.cycle.error
        operations.norm(e, self._of_guess)
        return fine.lattice.whole.nodes / operations.operator.lattice.whole.nodes

    def _rounding(self, copies: float) -> float:
        """The norm of a residual of e that rounding may explain, where its norms have been asked for."""
        size = float(np.finfo(self._backend.dtype).eps) * self.operations.operator.eigenvalues()[1]
        return ROUNDING * size * math.sqrt(copies * self._backend.read(self._of_guess)[0])

    def _to_discretisation_error(
        self, estimate: ErrorEstimate, watch: Watch, at: "_At", f: Array, source: Norms, guess: Norms | None
    ) -> SolveResult:
        """Whole cycles until the estimated error of the solution is below that of the discretisation."""
        backend, done, error, left = self._backend, 0, 0.0, self._of_source
        while True:
            at.move(self.cycle.up(at.u, f, at.out, at.work, done, self.cycle.coarse(done), left))
            done += 1
            discretisation, algebraic, enough = estimate.judge(at.u)
            if done == 1:
                # A cycle is made in any case, so nothing has waited for the norms before it.
                watch.begin(source, backend.read(self._norms), lambda: at.u, guess)
            error = discretisation + algebraic
            now = backend.read(left)
            stands = watch.judge(done, now)
            if stands is None and enough:
                stands = Status.CONVERGED
            stands = stands or watch.limit(done)
            if stands is not None:
                break
            at.move(self.cycle.down(at.u, f, at.out, at.work, done))
        # A mean is taken out after the residual.
        norms = None if self.operations.operator.singular else now
        return replace(watch.result(stands, done, at.u, at.work, norms), error=error)

    def _directly(self, task: Task, estimate: ErrorEstimate | None) -> SolveResult:
        """A grid that is its own coarsest: the inverse, and again for what rounding has left."""
        u, f = task.u, task.f
        operations, backend, norms = self.operations, self._backend, self._norms
        if estimate:
            estimate.begin()
            estimate.start(u)
        r, error = self.spare
        watch = Watch(operations, task, norms, patience=PATIENCE)
        source = watch.source(f)

        def residual() -> Norms:
            operations.residual(u, f, r, norms)
            return backend.read(norms)

        def advance(count: int) -> None:
            for _ in range(count):
                backend.dense(self.cycle.matrix, r, error)
                backend.axpby(1.0, error, 1.0, u)

        status = watch.begin(source, residual(), lambda: u)
        status, done = relax(watch, status, advance, residual, 1)
        bar = estimate.judge(u)[0] if estimate else None
        return replace(watch.result(status, done, u, r), error=bar)


class _At:
    """Where the iterate is: one array of three."""

    def __init__(self, u: Array, out: Array, work: Array) -> None:
        self.u, self.out, self.work = u, out, work

    def move(self, result: Array) -> None:
        """The iterate is now in `result`, which is `u` or `out`."""
        if result is not self.u:
            self.u, self.out = result, self.u
