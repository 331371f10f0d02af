# SPDX-License-Identifier: MIT
"""The error of the discretisation, estimated from the solutions of the same problem on coarser grids."""

from __future__ import annotations

import itertools
import math
import weakref
from collections import deque
from collections.abc import Sequence
from functools import partial

import numpy as np

from poisson.backends.base import Array, Operations, Reduction
from poisson.backends.transfers import InterpolationOperations
from poisson.discrete.operator import Operator
from poisson.discrete.transfer import Interpolation
from poisson.solvers.multigrid.coarser import CoarserProblem, CoarserProblems
from poisson.solvers.multigrid.cycle import Cycle
from poisson.solvers.multigrid.full import FullMultigrid
from poisson.solvers.multigrid.polynomial import PERIOD
from poisson.solvers.multigrid.settings import MultigridSettings
from poisson.solvers.spectrum import remove_mean

ORDER = 2.0
"""The order of the scheme where u is smooth."""

SMOOTH = 1.6
"""An observed order below this says that u is not smooth: where it jumps with a the order is 1, and what two pairs of
grids show depends on how the jump lies to their nodes. It counts as 1 at the most then, ..."""

LEAST_ORDER = 0.5
"""... and as this at the least."""

SAFETY = 1.5
"""The error is taken to be so many times what the differences say, ..."""

SAFETY_AT_JUMPS = 2.5
"""... or so many times where the scheme is of first order: its error depends on how a surface lies to the nodes."""

MOST_BEYOND = 3.0
"""The coarser pair of grids, on which u is resolved less well, may raise the estimate of the finer by this factor."""

LEAST_CONTRACTION = 0.1
"""A cycle is not trusted to reduce the error by more than this factor before it has been seen to."""

MOST_CONTRACTION = 0.9
"""One that seems to reduce it less is taken to have met rounding."""

REDUCTION = 0.02
"""The cycles on a coarser grid go on until they are estimated to leave this part of the error of the start, ..."""

CYCLES = (2, 20)
"""... but make at least and at most so many."""

MOST_ALGEBRAIC = 0.25
"""The algebraic error is to fall to this part of the difference between the grids, which it would hide else, ..."""

OF_ROUGH = 0.02
"""... and where the observed order is below 1, u is not smooth and the start poor, to this part of it and of u."""

ROUNDING = 16.0
"""The error by rounding is taken to be so many times eps max(abs(u))."""


_Arrays = tuple[Array, Array, Array, Array, Array]
"""The iterate of a coarser grid, two spare arrays there, and those of `_Seen`, whose first has the last iterate."""


class Bar:
    """The estimate of the errors of the grid and of the iterations, from differences between grids and iterates.

    `ratios`: of the spacings of each pair of grids. `eps`: of the type of u. `jumps`: whether the scheme is of first
    order, because the surfaces of dielectrics lie between the nodes.
    """

    def __init__(self, ratios: Sequence[float], eps: float, jumps: bool = False) -> None:
        self._ratios, self._eps, self._jumps = ratios, eps, jumps
        # What the solutions on the coarser grids differ by, and what they may lack.
        self.apart: float | None = None
        self.lacking = 0.0
        self._change: float | None = None
        # Of the last cycles; a smoother may go through its sweeps in several.
        self._contractions = deque([LEAST_CONTRACTION], maxlen=PERIOD)

    def begin(self, contraction: float = LEAST_CONTRACTION) -> None:
        """Begin a solve, for which a cycle on coarser grids was seen to leave a part of the error."""
        self._change = None
        self._contractions.clear()
        self._contractions.append(contraction)

    def judge(self, difference: float, change: float, largest: float) -> tuple[float, float, bool]:
        """As `ErrorEstimate.judge`, from the difference to the first coarser grid, the last change of u, and u."""
        if self._change:
            self._contractions.append(change / self._change)
        self._change = change
        contraction = min(max(self._contractions), MOST_CONTRACTION)
        error, order = self._discretisation(difference + self.lacking)
        rounding = ROUNDING * self._eps * largest
        algebraic = contraction / (1.0 - contraction) * change
        goal = min(error, MOST_ALGEBRAIC * difference) if order >= 1.0 else OF_ROUGH * min(difference, largest)
        return error + rounding, algebraic, algebraic <= goal + rounding

    def _discretisation(self, difference: float) -> tuple[float, float]:
        """The largest error by the grid, from the difference to the first coarser one, and the order observed."""
        ratio, safety = self._ratios[0], SAFETY_AT_JUMPS if self._jumps else SAFETY
        if self.apart is None:
            return safety * difference / (ratio - 1.0), 1.0
        if self._jumps:
            order = self._observed(difference)
            error = difference / (ratio ** max(LEAST_ORDER, min(order, 1.0)) - 1.0)
            other = self.apart / ((self._ratios[1] - 1.0) * ratio)
            return safety * max(error, min(other, MOST_BEYOND * error)), order
        error = difference / (ratio**ORDER - 1.0)
        other = self.apart / ((self._ratios[1] ** ORDER - 1.0) * ratio**ORDER)
        if other >= error:
            return safety * min(other, MOST_BEYOND * error), ORDER
        order = self._observed(difference)
        counted = order if order >= SMOOTH else max(LEAST_ORDER, min(order, 1.0))
        return safety * difference / (ratio**counted - 1.0), order

    def _observed(self, difference: float) -> float:
        """The order by which the differences of both pairs of grids fall."""
        if not self.apart or not difference:
            return ORDER if self.apart else -math.inf
        return math.log(self.apart / difference) / math.log(self._ratios[1])


class ErrorEstimate:
    """The estimate of the error on the finest grid from the solutions on coarser grids, which also are its initial
    guess.

    The error of the scheme falls as h^p, so that of a grid is the difference from the next coarser one divided by
    r^p − 1, where r is the least ratio of their spacings (L. F. Richardson). The difference of the coarser pair of
    grids gives another estimate of the same, and the order p that is observed. Where that is 2 or more the larger of
    both estimates counts, and else the difference of the finer pair with the order observed.

    Each grid has its own samples of the coefficients, the source and the boundary data (`CoarserProblems`).

    `operations`: those of A, on the finest grid. `coarser`: the problem on coarser grids; its arrays are filled before
    each solve. `settings`: how to cycle there.
    """

    def __init__(self, operations: Operations, coarser: CoarserProblems, settings: MultigridSettings) -> None:
        backend, operator = operations.backend, operations.operator
        self._backend, self._coarser = backend, coarser
        self._grids = [_Comparison(backend.bind(problem.operator), problem, settings) for problem in coarser.grids]
        operators = [operator, *(grid.operator for grid in self._grids)]
        pairs = list(itertools.pairwise(operators))
        self._bar = Bar([ratio(fine, coarse) for fine, coarse in pairs], float(np.finfo(backend.dtype).eps))
        self._sampled = [backend.bind(Interpolation(fine, coarse, everywhere=True)) for fine, coarse in pairs]
        self._refined = [backend.bind(Interpolation(coarse, fine)) for fine, coarse in pairs]
        self._eps = float(np.finfo(backend.dtype).eps)
        # Of u, of its difference to the coarser solution, of its last change, and of that of the two coarser grids.
        self._size, self._difference, self._change, self._apart = (backend.reduction() for _ in range(4))
        # What the last iterate and this one differ by from the coarser solution, which itself is the last at first.
        self._last, self._now = self._grids[0].spare
        self._first = True
        own = [backend.empty(operators[-1].array_shape) for _ in range(2)]
        beside = zip(self._grids[1:], self._sampled[1:], strict=True)
        self._seen = [*(_Seen(grid, grid.spare, sampled) for grid, sampled in beside), _Seen(self._grids[-1], own)]

    def begin(self) -> None:
        """Ask for the cycles on the coarsest grid, which nothing waits for before `start`."""
        self._grids[-1].begin(self._coarser.loads)
        self._grids[-1].relax(self._seen[-1], starts=True)

    def start(self, u: Array) -> None:
        """After `begin`: solve on the coarser grids, and overwrite u, but for its fixed nodes, by the interpolated
        solution."""
        contraction = LEAST_CONTRACTION
        coarse: _Comparison | None = None
        for index, grid in reversed(list(enumerate(self._grids))):
            seen, target = self._seen[index], u
            if coarse is not None:
                seen.places = coarse.spare
                grid.relax(seen)
            if index:
                finer = self._grids[index - 1]
                finer.begin(self._coarser.loads)
                target = finer.u
            # The device goes on while the host learns whether these cycles are enough, as they mostly are.
            self._refined[index].interpolate(grid.u, target)
            factor, self._bar.lacking, more = grid.finish(self._eps, seen)
            if more:
                self._refined[index].interpolate(grid.u, target)
            contraction = max(contraction, factor)
            if coarse is not None:
                seen.apart(coarse.u, self._apart)
            coarse, grid.holds = grid, self._coarser.loads
        self._bar.begin(contraction)
        self._last, self._now = self._grids[0].spare
        self._first = True

    def judge(self, u: Array) -> tuple[float, float, bool]:
        """After a cycle on the finest grid.

        Returns: `discretisation, algebraic`: the largest errors of u by the grid and by the cycles, estimated, in U.
        `enough`: whether more cycles would not make u better.
        """
        backend, grid = self._backend, self._grids[0]
        self._sampled[0].interpolate(u, self._now)
        grid.norm(self._now, self._size)
        grid.subtract(grid.u, self._now)
        grid.norm(self._now, self._difference)
        asked = [self._size, self._difference]
        if not self._first:
            backend.axpby(-1.0, self._now, 1.0, self._last)
            grid.norm(self._last, self._change)
            asked.append(self._change)
        elif len(self._grids) > 1:
            self._bar.apart = backend.read(self._apart)[1]
        # All are waited for once.
        largest, difference, *changes = (maximum for _, maximum in backend.read_all(asked))
        self._first = False
        self._last, self._now = self._now, self._last
        return self._bar.judge(difference, changes[0] if changes else difference, largest)


class _Comparison:
    """One of the coarser grids, with the cycle on it.

    `u` (Array): the iterate. `spare` (list of Array): two arrays that hold nothing after `finish`. `holds`: of which
    load (`CoarserProblems.loads`) u has the values at fixed nodes.
    """

    def __init__(self, operations: Operations, problem: CoarserProblem, settings: MultigridSettings) -> None:
        self._operations = operations
        self.backend = backend = operations.backend
        self._given = problem
        self.operator = operations.operator
        self._cycle = Cycle(operations, settings)
        self._full = FullMultigrid(self._cycle) if self._cycle.finest.transfer and not self._cycle.galerkin else None
        self.u, *self.spare = (backend.empty(self.operator.array_shape) for _ in range(3))
        self._ones = backend.empty(self.operator.array_shape) if self.operator.singular else None
        # Of the first iterate and of its changes by the least number of cycles, and one for a mean.
        self._norms = [backend.reduction() for _ in range(1 + CYCLES[0])]
        self._place = backend.reduction()
        self.holds: int | None = None

    def begin(self, load: int) -> None:
        """The iterate takes the values at fixed nodes, unless it has them from the solve before."""
        if self.holds != load or self._full is None:
            self.backend.axpby(1.0, self._given.u, 0.0, self.u)
        self.holds = None
        self._remove_mean(self._given.f)

    def relax(self, seen: _Seen, *, starts: bool = False) -> None:
        """Ask for the least number of cycles from u.

        They are recorded as one: to launch them one by one takes the host longer than the device.

        `seen`: where the changes of u are measured, and where u is left. `starts`: whether they begin with an iterate
        from the coarsest grid of the cycle.
        """
        at = self._arrays(seen)
        # A recording that held these objects, which hold it, would keep the memory of all.
        relaxed = partial(_Comparison._relaxed, weakref.proxy(self), weakref.proxy(seen), starts, at)
        self._move(seen, self._cycle.recorded("relax", relaxed, at) if self._ones is None else relaxed())

    def _relaxed(self, seen: _Seen, starts: bool, at: _Arrays) -> _Arrays:
        backend, cycle, f = self.backend, self._cycle, self._given.f
        u, out, work, place, other = at
        if starts and self._full:
            self._full.start(u, f, recorded=False)
        if cycle.finest.transfer is None:
            self._operations.residual(u, f, work)
            backend.dense(cycle.matrix, work, out)
            backend.axpby(1.0, out, 1.0, u)
        elif (swept := cycle.down(u, f, out, work, 0)) is not u:
            u, out = swept, u
        seen.look(u, place, self._norms[0])
        at = u, out, work, place, other
        if cycle.finest.transfer is not None:
            for number in range(CYCLES[0]):
                error = cycle.below.solve(number % cycle.period)
                at = self._turned(seen, number, error, self._norms[number + 1], at)
        return at

    def _turned(self, seen: _Seen, number: int, error: Array, norms: Reduction, at: _Arrays) -> _Arrays:
        """A cycle, whose correction is known, and the norms of the change of u."""
        u, out, work, last, now = at
        turned = self._cycle.turn(u, self._given.f, out, work, number + 1, error)
        if turned is not u:
            u, out = turned, u
        seen.change(u, last, now, norms)
        return u, out, work, now, last

    def _arrays(self, seen: _Seen) -> _Arrays:
        return self.u, self.spare[0], self.spare[1], seen.places[0], seen.places[1]

    def _move(self, seen: _Seen, at: _Arrays) -> None:
        self.u, self.spare, seen.places = at[0], [*at[1:3]], [*at[3:]]

    def finish(self, eps: float, seen: _Seen) -> tuple[float, float, bool]:
        """Further cycles, until u is right but for a part of its error.

        Returns: `contraction, left`: the largest factor by which a cycle was seen to reduce the error, and the largest
        error left, in U. `more`: whether u has changed.
        """
        if self._cycle.finest.transfer is None:
            return 0.0, 0.0, False
        size, *changes = (largest for _, largest in self.backend.read_all(self._norms))
        level, contraction = ROUNDING * eps * size, LEAST_CONTRACTION
        left = contraction / (1.0 - contraction) * changes[0]
        while min(changes) > level:
            contraction = min(max(contraction, changes[-1] / changes[-2]), MOST_CONTRACTION)
            left = contraction / (1.0 - contraction) * changes[-1]
            if left <= REDUCTION * changes[0] or len(changes) == CYCLES[1]:
                break
            done = len(changes)
            error, norms = self._cycle.coarse(done), self._norms[-1]
            self._move(seen, self._turned(seen, done, error, norms, self._arrays(seen)))
            changes.append(self.backend.read(self._norms[-1])[1])
        return contraction, left, len(changes) > CYCLES[0]

    def norm(self, x: Array, place: Reduction) -> None:
        """Ask for the norms of x."""
        self._operations.norm(x, place)

    def subtract(self, x: Array, y: Array) -> None:
        """y −= x, without the mean of the difference where u is determined only up to one."""
        self.backend.axpby(-1.0, x, 1.0, y)
        self._remove_mean(y)

    def _remove_mean(self, x: Array) -> None:
        if self._ones is not None:
            remove_mean(self._operations, x, self._ones, self._place)


class _Seen:
    """The iterates of a grid at the nodes of the next coarser one, as `ErrorEstimate.judge` sees those of the finest.

    `grid`: the coarser one; if there is none, their own. `places`: two arrays there, of which the first holds the last
    iterate. `sampled`: takes them there.
    """

    def __init__(self, grid: _Comparison, places: list[Array], sampled: InterpolationOperations | None = None) -> None:
        self._grid, self.places, self._sampled = grid, places, sampled

    def look(self, u: Array, place: Array, norms: Reduction) -> None:
        """Take an iterate to a place, and ask for its norms."""
        self._take(u, place)
        self._grid.norm(place, norms)

    def change(self, u: Array, last: Array, now: Array, norms: Reduction) -> None:
        """Take the next iterate to a place, and ask for the norms of the change, which stays where the last one was."""
        self._take(u, now)
        self._grid.subtract(now, last)
        self._grid.norm(last, norms)

    def apart(self, other: Array, norms: Reduction) -> None:
        """Ask for the norms of the difference between the last iterate, which is lost, and another array."""
        self._grid.subtract(other, self.places[0])
        self._grid.norm(self.places[0], norms)

    def _take(self, u: Array, place: Array) -> None:
        if self._sampled:
            self._sampled.interpolate(u, place)
        else:
            self._grid.backend.axpby(1.0, u, 0.0, place)


def ratio(fine: Operator, coarse: Operator) -> float:
    """The least ratio of the spacings along the axes that have more than one node."""
    spacings = zip(fine.shape, fine.spacing, coarse.spacing, strict=True)
    return min(wide / narrow for nodes, narrow, wide in spacings if nodes > 1)
