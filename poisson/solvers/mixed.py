"""Defect correction: cycles in float32 inside a correction in float64, to the residual that float64 can reach."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Protocol

from poisson.backends.base import Array, Backend
from poisson.boundary import Rule
from poisson.operator import Operator
from poisson.solvers.iteration import Norms, Watch, never
from poisson.solvers.multigrid.full import FullMultigrid
from poisson.solvers.multigrid.solver import Multigrid
from poisson.solvers.stopping import Observer, SolveResult, Stopping
from poisson.transfer import Interpolation

ENOUGH = 0.8
"""The last inner solve aims at this part of the target: in float32 its residual is known to a few digits."""

EXPONENTS = 40
"""A residual whose largest value has a binary exponent within these bounds needs no factor."""


class Inner(Protocol):
    """A solver in float32 that starts from zero."""

    reduction: float
    """The factor by which it reduces a residual at once, if rounding lets it: float32 has 7 digits."""

    def reduce(self, r: Array, e: Array, norms: Norms, reduction: float) -> tuple[Array, int]:
        """Solve A e = r until the residual is below `reduction` times r, or falls no longer.

        Parameters
        ----------
        r : Array
            The source, zero at fixed nodes.
        e : Array
            A place for the result.
        norms : tuple of float
            Those of r.
        reduction : float
            The factor to reach.

        Returns
        -------
        The array with the result, and the iterations made, at least one.
        """


class DefectCorrection:
    """Computes the residual in float64, solves for its correction in float32, and adds that in float64.

    The residual is scaled by a power of two, so that the float32 values neither over- nor underflow. With a full
    multigrid cycle, the start comes from the coarser grids, solved in float32.

    Parameters
    ----------
    backend : Backend
        Where u and f are, in float64.
    operator : Operator
        A, with coefficients on `backend`.
    companion : Backend
        Its companion of float32.
    inner : Inner
        A solver for the same operator on `companion`.

    References
    ----------
    N. J. Higham, Accuracy and Stability of Numerical Algorithms, 2nd edition, chapter 12.
    """

    def __init__(self, backend: Backend, operator: Operator, companion: Backend, inner: Inner) -> None:
        self._backend = backend
        self._operator = operator
        self._inner = inner
        self._r, self._e = companion.empty(operator.array_shape), companion.empty(operator.array_shape)
        self._norms = backend.reduction()
        self._start: _Start | None = None
        if isinstance(inner, Multigrid) and inner.settings.full and inner.cycle.grids:
            self._start = _Start(backend, operator, companion, inner)

    def solve(
        self,
        u: Array,
        f: Array,
        *,
        stopping: Stopping,
        observer: Observer | None = None,
        interrupted: Callable[[], bool] = never,
    ) -> SolveResult:
        """Solve A u = f (`Solver.solve`); the iterations are those of the inner solver.

        Raises
        ------
        ValueError
            If `stopping` asks for the discretisation error, which full multigrid in one precision estimates.
        """
        if stopping.stop != "residual":
            raise ValueError("stop = 'discretisation' is not for mixed precision")
        backend, operator, norms = self._backend, self._operator, self._norms
        watch = Watch(backend, operator, stopping, observer, norms)
        source = watch.source(f)
        if isinstance(self._inner, Multigrid):
            self._inner.begin()
        if self._start:
            self._start.run(u, f, source[1], norms)
        factor = self._factor(source[1])
        now = self._defect(u, f, factor)
        status = watch.begin(source, now, lambda: u)
        done = 0
        while status is None:
            if self._factor(now[1] * factor) != 1.0:
                factor = self._factor(now[1])
                self._defect(u, f, factor)
            scaled = (now[0] * factor * factor, now[1] * factor)
            wanted = ENOUGH * watch.target / watch.norm(now)
            e, made = self._inner.reduce(self._r, self._e, scaled, max(self._inner.reduction, wanted))
            backend.correct(1.0 / factor, e, u)
            done += made
            now = self._defect(u, f, factor)
            status = watch.judge(done, now) or watch.limit(done, interrupted)
        return watch.result(status, done, u, None)

    def _defect(self, u: Array, f: Array, factor: float) -> Norms:
        self._backend.defect(self._operator, u, f, factor, self._r, self._norms)
        return self._backend.read(self._norms)

    @staticmethod
    def _factor(largest: float) -> float:
        """The power of two that brings a largest value near 1, if it is far from it."""
        if not 0.0 < largest < math.inf:
            return 1.0
        exponent = math.frexp(largest)[1]
        return 1.0 if abs(exponent) <= EXPONENTS else math.ldexp(1.0, -exponent)


class _Start:
    """Full multigrid below the finest grid in float32, interpolated to the finest in float64."""

    def __init__(self, backend: Backend, operator: Operator, companion: Backend, inner: Multigrid) -> None:
        self._backend = backend
        self._grid, self._scale = inner.cycle.grids[0], inner.cycle.scale
        self._full = FullMultigrid(companion, inner.cycle)
        transfer = inner.cycle.finest.transfer
        assert transfer is not None
        self._transfer = transfer
        coarse = self._grid.operator
        self._sampled = Interpolation(operator, coarse, everywhere=True)
        self._refined = Interpolation(coarse, operator)
        self._coarse = backend.empty(coarse.array_shape)
        # Of this operator the defect is the source itself: a change of type.
        endless = (math.inf,) * operator.dimension
        self._nothing = Operator(coarse.shape, endless, 0.0, (Rule.WRAP,) * len(operator.rules))

    def run(self, u: Array, f: Array, largest: float, norms: Array) -> None:
        """Overwrite u, but for its fixed nodes; `largest` is that of f."""
        backend, coarse = self._backend, self._coarse
        backend.interpolate(self._sampled, u, coarse)
        backend.norm(self._nothing, coarse, norms)
        factor = DefectCorrection._factor(max(largest, backend.read(norms)[1]))
        self._convert(factor, self._grid.spare[0])
        backend.restrict(self._transfer, f, coarse)
        self._convert(factor / self._scale, self._grid.f)
        solution = self._full.coarse()
        backend.fill(coarse, 0.0)
        backend.correct(1.0 / factor, solution, coarse)
        backend.interpolate(self._refined, coarse, u)

    def _convert(self, factor: float, target: Array) -> None:
        self._backend.defect(self._nothing, self._coarse, self._coarse, factor, target)
