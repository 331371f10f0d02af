# SPDX-License-Identifier: MIT
"""Solving beside bodies until the discretisation error outweighs, by comparison with coarser grids."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from poisson.backends.base import Array, Operations
from poisson.discrete.transfer import Interpolation
from poisson.solvers.iteration import Method, Norms, Task, Watch
from poisson.solvers.multigrid.estimate import Bar, ratio
from poisson.solvers.status import Status
from poisson.solvers.stopping import SolveResult
from poisson.solvers.surface import SurfaceOperations

if TYPE_CHECKING:
    from poisson.discrete.discretisation import Discretisation
    from poisson.solvers.multigrid.coarser import CoarserProblem, CoarserProblems

log = logging.getLogger(__name__)

Values = NDArray[np.float64]

REDUCTION = 0.1
"""The part of the residual that a round leaves."""

SETTLED = 0.25
"""The part of the difference between the grids that the last change of u may be."""

OF_COARSE = 1e-6
"""The tolerance on coarser grids, relative to the norm that `Stopping.rtol` is relative to."""


class Compared(Method):
    """Rounds of a method on the finest grid, between which u is compared with the solutions on coarser grids.

    The nodes of these are every second one, so that nothing is interpolated across a surface but for the start; nodes
    inside bodies do not count.

    `operations`: those of A. `coarser`: the problem on coarser grids, loaded before a solve. `make`: the method for the
    operations of a grid, which begins at an initial guess.
    """

    def __init__(self, operations: Operations, coarser: CoarserProblems, make: Callable[[Operations], Method]) -> None:
        self._operations, self._backend, self._method = operations, operations.backend, make(operations)
        self._coarser, backend = coarser, operations.backend
        self._grids = [
            _Grid.of(given, problem, backend, make)
            for given, problem in zip(coarser.grids, coarser.problems, strict=True)
        ]
        operators = [operations.operator, *(grid.given.operator for grid in self._grids)]
        pairs = list(itertools.pairwise(operators))
        self._refined = [backend.bind(Interpolation(coarse, fine)) for fine, coarse in pairs]
        ratios, eps = [ratio(fine, coarse) for fine, coarse in pairs], float(np.finfo(backend.dtype).eps)
        media = [each.surface.media for each in coarser.problems if each.surface and each.surface.media]
        self._bar = Bar(ratios, eps, jumps=bool(media))
        self._comparable = not any(each.tilted for each in media)
        if not self._comparable:
            log.info(
                "no error bar: the grids do not resolve how a dielectric is turned; the residual says when to stop"
            )
        self._work, self._place = backend.empty(operations.operator.array_shape), backend.reduction()

    def run(self, task: Task) -> SolveResult:
        """Solve A u = f (`Method.run`); the iterations are those of the method on the finest grid."""
        operations, backend, bar = self._operations, self._backend, self._bar
        task = task._replace(stopping=replace(task.stopping, stop="residual"))
        u, f = task.u, operations.settled(task.f)
        watch = Watch(operations, task, self._place)
        reference = self._norms_without_surfaces(f, watch)
        first, interrupted = self._solve_on_coarser_grids(task._replace(interrupted=watch.before_begin(reference, u)))
        if not (task.stopping.begun or interrupted):
            self._refined[0].interpolate(self._grids[0].u, u)
            if isinstance(operations, SurfaceOperations):
                operations.hold(u)
        now = self._residual(u, f)
        status, done, error = watch.begin(reference, now, lambda: u), 0, 0.0
        status = Status.INTERRUPTED if interrupted else status
        bar.begin()
        solution = first.values()
        before = first.sampled(u, operations.operator.lattice)
        while status is None:
            result = self._method.run(watch.part(u, f, REDUCTION * watch.norm(now), done))
            if result.u is not u:
                backend.axpby(1.0, result.u, 0.0, u)
            done += result.iterations
            now = self._residual(u, f)
            status = watch.judge(done, now)
            values = first.sampled(u, operations.operator.lattice)
            difference, change = first.largest(solution - values), first.largest(values - before)
            grid, algebraic, enough = bar.judge(difference, change, first.largest(values))
            error, before = grid + algebraic, values
            if status is None and not result.status.success:
                status = result.status
            # What a start across surfaces has wrong would hide the difference between the grids.
            if status is None and enough and self._known and change <= SETTLED * difference:
                status = Status.CONVERGED
            status = status or watch.limit(done)
        return replace(watch.result(status, done, u, self._work), error=error if self._known else None)

    def _solve_on_coarser_grids(self, task: Task) -> tuple[_Grid, bool]:
        """Solve there, from the coarsest grid up, and note what the solutions differ by.

        Where one of them is no solution, or a dielectric is turned too little, the error is not known, and the residual
        alone says when to stop. Returns: the finest of these grids, and whether someone has interrupted.
        """
        below: _Grid | None = None
        self._known, interrupted = self._comparable, False
        for grid, problem, refined in reversed(
            list(zip(self._grids, self._coarser.problems, [*self._refined[1:], None], strict=True))
        ):
            grid.begin(problem)
            if below is not None and refined is not None:
                refined.interpolate(below.u, grid.u)
            status = grid.solve(task) if not interrupted else Status.INTERRUPTED
            self._known &= status.success
            interrupted = status is Status.INTERRUPTED
            if below is not None:
                values = below.sampled(grid.u, grid.given.operator.lattice)
                self._bar.apart = below.largest(below.values() - values)
            below = grid
        assert below is not None
        return below, interrupted

    def _norms_without_surfaces(self, f: Array, watch: Watch) -> Norms:
        """The norms of the source without the terms of surfaces with given values, which are no measure of it."""
        if not isinstance(self._operations, SurfaceOperations):
            return watch.source(f)
        rows, backend = self._operations.rows, self._backend
        xp = backend.array_module if backend.views else np

        def less(array: Any, _: Callable[[Array], Any]) -> None:
            array[rows.index] -= xp.asarray(rows.terms)

        backend.axpby(1.0, f, 0.0, self._work)
        self._operations.change(self._work, less)
        norms = watch.source(self._work)
        watch.follow(f)
        return norms

    def _residual(self, u: Array, f: Array) -> Norms:
        self._operations.residual(u, f, self._work, self._place)
        return self._backend.read(self._place)


@dataclass
class _Grid:
    """One of the coarser grids.

    `given`: the problem there. `problem`: its discretisation. `operations`: those of its A. `method`: solves there. `u`
    (Array): the iterate.
    """

    given: CoarserProblem
    problem: Discretisation
    operations: Operations
    method: Method
    u: Array

    @classmethod
    def of(
        cls, given: CoarserProblem, problem: Discretisation, backend: Any, make: Callable[[Operations], Method]
    ) -> _Grid:
        """The grid of a coarser problem."""
        surface, operations = problem.surface, backend.bind(given.operator)
        if surface and surface.holds:
            operations = SurfaceOperations.of(operations, surface)
        return cls(given, problem, operations, make(operations), backend.empty(given.operator.array_shape))

    def begin(self, problem: Discretisation) -> None:
        """Take the data of a problem; the iterate has the values at fixed nodes."""
        surface = problem.surface
        if isinstance(self.operations, SurfaceOperations) and surface is not self.problem.surface:
            assert surface is not None
            self.operations.go_over(surface)
        self.problem = problem
        self.operations.backend.axpby(1.0, self.given.u, 0.0, self.u)

    def solve(self, task: Task) -> Status:
        """Solve from the iterate."""
        stopping = replace(task.stopping, rtol=OF_COARSE, stop="residual", begun=None)
        if isinstance(self.operations, SurfaceOperations):
            self.operations.hold(self.u)
        result = self.method.run(Task(self.u, self.given.f, stopping, interrupted=task.interrupted))
        if result.u is not self.u:
            self.operations.backend.axpby(1.0, result.u, 0.0, self.u)
        return result.status

    def values(self) -> Values:
        """The solution on all nodes, on the host."""
        return self._sample(self.u, self.given.operator.lattice, (1,) * self.given.operator.dimension)

    def sampled(self, u: Array, lattice: Any) -> Values:
        """The values of an array of the next finer grid at the nodes of this one."""
        return self._sample(u, lattice, tuple(2 - (nodes == 1) for nodes in lattice.whole.shape))

    def _sample(self, u: Array, lattice: Any, steps: tuple[int, ...]) -> Values:
        return np.array(self.operations.backend.sample(u, lattice, steps), dtype=np.float64)  # views change with u

    def largest(self, values: Values) -> float:
        """The largest of some values outside of bodies, less their mean where u is determined only up to one."""
        if self.given.operator.singular:
            values = values - np.average(values, weights=self._weights)
        return float(np.abs(values[self._weights > 0.0]).max(initial=0.0))

    @cached_property
    def _weights(self) -> Values:
        """The control volumes of the nodes outside of bodies, over the product of the spacings; 0 of the others."""
        lattice = self.given.operator.lattice.whole
        weights = np.broadcast_to(lattice.volumes(), lattice.array_shape).copy()
        assert self.problem.surface is not None
        weights[self.problem.surface.within] = 0.0
        return weights
