# SPDX-License-Identifier: MIT
"""Mixed precision: work in float32 inside corrections in float64, to the residual that float64 can reach."""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import replace

import numpy as np

from poisson.backends.base import Array, Backend, Operations
from poisson.discrete.operator import Operator
from poisson.discrete.transfer import Interpolation
from poisson.errors import ResourceError
from poisson.mesh.axis import Axis
from poisson.mesh.boundary import Rule
from poisson.mesh.lattice import Lattice
from poisson.solvers.iteration import KRYLOV_GROWTH, Method, Norms, Preconditioner, Task, Watch, factor_for, lend
from poisson.solvers.multigrid.full import FullMultigrid, sampling
from poisson.solvers.multigrid.solver import Multigrid
from poisson.solvers.spectrum import ZeroMean, nearly_singular, without_reaction
from poisson.solvers.stopping import SMALLEST_SUM, Patience, SolveResult

PATIENCE = Patience(reads=20, factor=2.0)
"""Cycles that reduce the residual by less have stalled."""

PROGRESS, WITHOUT_PROGRESS = 0.99, 1000
"""A step of conjugate gradients makes progress if the norm of its residual r, or the energy √(r · M r) with the
preconditioner M, is below this part of the least so far: beside stiff links the norm is that of rounding before soft
modes are right, which the energy shows. After many steps that make none they begin anew, and after as many more they
have stalled."""

FEW, IN_REACH, GAIN = 16, 1.0, 0.5
"""After a step without progress, or a sixteenth of all steps so far, they look whether little but rounding is left, and
the target is below this part of `norms_of_rounding`. Then they begin anew, which leaves a quarter of these norms at
best, and end unless as many steps again bring the norm or the energy below the last part of the least so far."""

RENEWED, MOST_CARRIED, MOST_ROUNDING = 1e-2, 8, 0.1
"""A residual that is carried along is computed anew from u when it has fallen to this part, or to what rounding of the
steps in float32 may leave, and after so many steps. If that is more than the last part of it, it is computed in every
step from then on."""


class DefectCorrection(Method):
    """Computes the residual in float64, solves for its correction in float32, and adds that in float64.

    The residual is scaled by a power of two, so that the float32 values neither over- nor underflow. With a full
    multigrid cycle, the start comes from the coarser grids, solved in float32.

    `operations`: those of A, where u and f are, in float64. `inner`: cycles for the same operator on the companion of
    float32.

    Reference: N. J. Higham, Accuracy and Stability of Numerical Algorithms, 2nd edition, chapter 12.
    """

    def __init__(self, operations: Operations, inner: Multigrid) -> None:
        backend, operator = operations.backend, operations.operator
        self._operations = operations
        self._backend = operations.backend
        self._inner = inner
        self._companion = companion = inner.operations.backend
        self._unit = factor_for(operator.norm)
        self._r, self._e = companion.empty(operator.array_shape), companion.empty(operator.array_shape)
        self._norms = backend.reduction()
        self._mean = ZeroMean(operations)
        self._work = backend.empty(operator.array_shape) if operator.singular else None
        self._start: _Start | None = None
        if inner.settings.full and not inner.cycle.galerkin and inner.cycle.grids:
            self._start = _Start(operations, inner)
        self.reads_guess = self._start is None

    def run(self, task: Task) -> SolveResult:
        """Solve A u = f (`Method.run`); the iterations are cycles.

        Raises `ValueError` if `stopping` asks for the discretisation error, which full multigrid in one precision
        estimates.
        """
        u, f, stopping = task.u, task.f, task.stopping
        if stopping.stop != "residual":
            raise ValueError("stop = 'discretisation' needs float64 or float32, not mixed precision")
        backend, norms = self._backend, self._norms
        watch = Watch(self._operations, task, norms, patience=PATIENCE)
        source, guess = watch.source(f), None
        self._inner.begin()
        self._mean.begin()
        starts, blank = self._start if not stopping.begun else None, task.blank
        if blank and (not starts or source == (0.0, 0.0)):
            backend.fill(u, 0.0)
        if starts:
            if source == (0.0, 0.0):
                guess = self._defect(u, f, 1.0)
            starts.run(u, f, source[1], norms, blank)
        factor = factor_for(source[1])
        now = self._defect(u, f, factor)
        status = watch.begin(source, now, lambda: u, guess)
        done = 0
        while status is None:
            if factor_for(now[1] * factor) != 1.0:
                factor = factor_for(now[1])
                self._defect(u, f, factor)
            scaled = (now[0] * factor * factor, now[1] * factor)
            if not SMALLEST_SUM <= scaled[0] < math.inf:
                self._inner.operations.norm(self._r, norms)
                scaled = self._companion.read(norms)
            wanted = watch.target / watch.norm(now)
            aim = max(self._inner.reduction, wanted)
            e, made = self._inner.reduce(self._r, self._e, scaled, aim, watch.most - done)
            backend.correct(self._unit / factor, e, u)
            self._mean.follow(u, watch.norm(now), self._work)
            done += made
            now = self._defect(u, f, factor)
            status = watch.judge(done, now) or watch.limit(done)
        return watch.result(status, done, u, None, now)

    def refresh(self) -> bool:
        """Go over to other coefficients (`Method.refresh`), if those in float32 have the same factor."""
        return factor_for(self._operations.operator.norm) == self._unit and self._inner.refresh()

    def _defect(self, u: Array, f: Array, factor: float) -> Norms:
        self._operations.defect(u, f, factor, self._r, self._norms)
        return self._backend.read(self._norms)


class MixedConjugateGradients(Method):
    """Preconditioned conjugate gradients in float32 whose iterate and residual are in float64.

    An iteration makes the preconditioned residual, the direction and the step along it in float32. For some steps the
    residual is carried along in float32, and so is their sum. Then that is added to u in float64, and the residual
    computed from this u, in float64 with the operator of float64, is rounded to float32, by a power of two in its
    range. So nothing that float32 loses stays in the residual: its rounding only disturbs the direction a little,
    as a preconditioner would that is not quite the same from step to step, and the iterations are as many as in
    float64. Where the residual that was carried turns out to be another one, each step is added to u from then on.

    `operations`: those of A, where u and f are, in float64. `inner`: those of A on the companion of float32.
    `preconditioner`: an approximate inverse of A there.

    Reference: G. H. Golub, Q. Ye, Inexact preconditioned conjugate gradient method with inner-outer iteration, SIAM
    Journal on Scientific Computing 21, 1999; H. A. van der Vorst, Q. Ye, Residual replacement strategies for Krylov
    subspace iterative methods for the convergence of true residuals, SIAM Journal on Scientific Computing 22, 2000.
    """

    def __init__(self, operations: Operations, inner: Operations, preconditioner: Preconditioner) -> None:
        backend, operator = operations.backend, operations.operator
        self._operations = operations
        self._backend = operations.backend
        self._inner = inner
        self._companion = companion = inner.backend
        self._preconditioner = preconditioner
        self._unit = factor_for(operator.norm)
        self._mean = ZeroMean(operations)
        self._work = backend.empty(operator.array_shape) if operator.singular else None
        shape, lent = operator.array_shape, preconditioner.spare
        self._r, self._steps = companion.empty(shape), _Steps(backend, companion, companion.empty(shape))
        # The preconditioned residual, the direction, the one before, and A times it take turns in these.
        self._spare = [*lent, *(companion.empty(shape) for _ in range(4 - len(lent)))]
        self._norms, self._product = backend.reduction(), companion.reduction()

    def run(self, task: Task) -> SolveResult:
        backend, companion, inner = self._backend, self._companion, self._inner
        u, f = task.u, task.f
        watch = Watch(self._operations, task, self._norms, KRYLOV_GROWTH)
        source = watch.source(f)
        factor = factor_for(source[1])
        now = self._defect(u, f, factor)
        steps = self._steps
        steps.begin(u)
        status = watch.begin(source, now, steps.complete)
        # Steps without progress, the least norm and energy so far, and whether a restart has gained nothing yet.
        done, without, least, smallest, in_vain = 0, 0, math.inf, math.inf, False
        # How many steps without progress are one too many, and whether the directions have begun anew near rounding.
        norm, limit, near = watch.norm(now), 1, False
        # The product of the step before, which is near 1 whatever the sizes of f and A, and the factor of its residual.
        before, scale, restart = math.inf, factor, True
        # Whether r is carried along, for how many steps it was, the norm that it had when it was computed, and that of
        # what rounding of the steps leaves.
        carries, carried, begun, rounding = True, 0, watch.norm(now), 0.0
        z, p, out, q = self._spare
        self._mean.begin()
        while status is None:
            if factor_for(now[1] * factor) != 1.0:
                steps.complete()
                factor, carried = factor_for(now[1]), 0
                begun = watch.norm(self._defect(u, f, factor))
            lend((q, out), self._preconditioner)
            self._preconditioner.apply(self._r, z)
            inner.dot(self._r, z, self._product)
            rho = companion.read(self._product)[0]
            curvature = 0.0
            if 0.0 < rho < math.inf:
                few, part, energy = 1 + done // FEW, GAIN if near else PROGRESS, math.sqrt(rho) / factor
                without += 1
                if norm < part * least or energy < part * smallest:
                    without, limit, near, in_vain = 0, few, False, False
                    least, smallest = min(norm, least), min(energy, smallest)
                elif without == limit and near:
                    status = watch.stalled()
                    continue
                elif without == limit:
                    near = self._near_rounding(watch, now)
                    restart, limit = restart or near, without + (few if near else without)
                beta = 0.0 if restart else rho / before * (scale / factor)
                inner.direction(z, beta, p, out, q, self._product)
                p, out = out, p
                curvature = companion.read(self._product)[0]
            if not 0.0 < curvature < math.inf or without >= WITHOUT_PROGRESS:
                # Nothing is left in the range of A but rounding, or the directions have lost each other.
                if not (math.isfinite(rho) and math.isfinite(curvature)):
                    status = watch.judge(done, (math.inf, math.inf))
                elif restart or in_vain:
                    status = watch.stalled()
                restart, in_vain, without = True, True, 0
                continue
            before, scale, restart = rho, factor, False
            done += 1
            step, unit = rho / curvature, self._unit / factor
            if carries:
                inner.advance(step, p, q, steps.array(unit), self._r, self._product)
                squares, largest = companion.read(self._product)
                now, carried = (squares / factor / factor, largest / factor), carried + 1
                if carried == 1:
                    rounding = watch.norm(self._rounding(unit))
                    carries = rounding <= MOST_ROUNDING * begun
            else:
                backend.correct(step * unit, p, u)
            norm, anew = watch.norm(now), carried > 0 and not carries
            if not carries or carried == MOST_CARRIED or not norm > max(RENEWED * begun, watch.target, rounding):
                self._mean.follow(steps.complete(), begun, self._work)
                now = self._defect(u, f, factor)
                norm, begun, carried = watch.norm(now), watch.norm(now), 0
            restart, status = anew, watch.judge(done, now) or watch.limit(done)
        if carried:
            steps.complete()
            now = self._defect(u, f, factor)
        return watch.result(status, done, u, None, now)

    def refresh(self) -> bool:
        """Go over to other coefficients (`Method.refresh`), if those in float32 have the same factor."""
        return factor_for(self._operations.operator.norm) == self._unit and self._preconditioner.refresh()

    def _defect(self, u: Array, f: Array, factor: float) -> Norms:
        self._operations.defect(u, f, factor, self._r, self._norms)
        return self._backend.read(self._norms)

    def _near_rounding(self, watch: Watch, now: Norms) -> bool:
        """Whether the residual, whose norms are given, is about what rounding of u leaves, which may be the end."""
        # Two arrays more, for a moment at the end of a few solves, which go on where there is no room.
        with suppress(ResourceError, MemoryError):
            work = [self._backend.empty(self._operations.operator.array_shape) for _ in range(2)]
            return watch.rounded(now, work, IN_REACH)
        return False

    def _rounding(self, unit: float) -> Norms:
        """The norms of the residual that rounding of the steps so far, in float32 and this unit, leaves at most."""
        self._inner.norm(self._steps.array(unit), self._product)
        squares, largest = self._companion.read(self._product)
        size = float(np.finfo(self._companion.dtype).eps) * self._operations.operator.eigenvalues()[1] * unit
        return squares * size * size, largest * size


class _Steps:
    """The sum of steps in float32 that an iterate in float64 does not have yet.

    `backend`, `companion`: those of float64 and of float32. `place` (Array): where the sum is.
    """

    def __init__(self, backend: Backend, companion: Backend, place: Array) -> None:
        self._backend, self._companion, self._place = backend, companion, place
        self._u: Array | None = None
        self._unit: float | None = None

    def begin(self, u: Array) -> None:
        """There are no steps from u yet."""
        self._u, self._unit = u, None

    def array(self, unit: float) -> Array:
        """Where the next step is to be added, in this unit, which is that of all steps until `complete`."""
        if self._unit is None:
            self._companion.fill(self._place, 0.0)
        self._unit = unit
        return self._place

    def complete(self) -> Array:
        """The iterate with all steps."""
        if self._unit is not None:
            self._backend.correct(self._unit, self._place, self._u)
            self._unit = None
        return self._u


def in_float32(operations: Operations, before: Operator | None = None) -> Operator:
    """The operator for the companion of float32: times the power of two that brings it near 1, if it is far from it.

    Its coefficients, where they vary, are rounded to arrays of the companion. Where it is `nearly_singular`, c is
    left out: next to their eigenvalue, float32 would know little else.

    `operations`: those of A. `before`: what this gave for other coefficients in the same arrays of A: the arrays that
    it has get the new values.
    """
    operator, companion = operations.operator, operations.backend.companion(np.float32)
    if nearly_singular(operator):
        operator = without_reaction(operator)
    unit = factor_for(operator.norm)  # of what the method works with, too
    coefficients = operator.coefficients
    if coefficients is None:
        return operator if unit == 1.0 else replace(operator, a=unit * operator.a, c=unit * operator.c)
    nothing = operations.backend.bind(_nothing(operator))

    def rounded(array: Array, into: Array | None, factor: float) -> Array:
        single = companion.empty(nothing.operator.array_shape) if into is None else into
        nothing.defect(array, array, factor, single)
        return single

    def scaled(ends: tuple[float, float], factor: float) -> tuple[float, float]:
        return factor * ends[0], factor * ends[1]

    c = None if coefficients.c is None else rounded(coefficients.c, before and before.reaction, unit)
    a, a_range = None, scaled(coefficients.a_range, unit)
    if coefficients.links is None:
        operator = replace(operator, a=unit * operator.a)
    else:
        # Links and 1/h² are apart: each must be in the range of float32.
        half = math.frexp(factor_for(max(operator.couplings)))[1] // 2
        operator = replace(operator, lattice=operator.lattice.scaled(math.ldexp(1.0, -half)))
        of_links = math.ldexp(unit, -2 * half)
        kept = (before and before.links) or (None,) * len(coefficients.links)
        a = tuple(rounded(*pair, of_links) for pair in zip(coefficients.links, kept, strict=True))
        a_range = scaled(coefficients.a_range, of_links)
    ends = scaled(coefficients.c_range, unit)
    single = replace(coefficients, links=a, c=c, a_range=a_range, c_range=ends, alpha=())
    return replace(operator, c=unit * operator.c, coefficients=single)


def _nothing(operator: Operator) -> Operator:
    """The operator that is zero on the same grid: its defect is the source itself, in another type."""
    return Operator(Lattice(tuple(map(_uncoupled, operator.lattice.axes))))


def _uncoupled(axis: Axis) -> Axis:
    """The same nodes, none of them fixed, without a coupling."""
    if axis.whole is None:
        return Axis(axis.nodes, math.inf, (Rule.WRAP, Rule.WRAP))
    end = Rule.WRAP if axis.whole.wraps else Rule.MIRROR
    whole = Axis(axis.whole.nodes, math.inf, (end, end))
    return whole.part(axis.first + axis.owned.start, axis.first + axis.owned.stop, axis.halo)


class _Start:
    """Full multigrid below the finest grid in float32, interpolated to the finest in float64."""

    def __init__(self, operations: Operations, inner: Multigrid) -> None:
        backend, operator = operations.backend, operations.operator
        self._backend = backend
        self._cycle, self._grid = inner.cycle, inner.cycle.grids[0]
        self._unit = factor_for(operator.norm)
        self._full = FullMultigrid(inner.cycle)
        transfer = inner.cycle.finest.transfer
        assert transfer is not None
        self._transfer = backend.bind(transfer.transfer)
        coarse = self._grid.operator
        self._sampled = sampling(backend, operator, coarse)
        self._refined = backend.bind(Interpolation(coarse, operator))
        self._coarse = backend.empty(coarse.array_shape)
        self._nothing = backend.bind(_nothing(coarse))

    def run(self, u: Array, f: Array, largest: float, norms: Array, blank: bool) -> None:
        """Overwrite u, but for its fixed nodes, which are zero if it is `blank`; `largest` is that of f."""
        backend, coarse = self._backend, self._coarse
        factor = factor_for(self._unit * largest)
        if blank:
            self._cycle.backend.fill(self._grid.spare[0], 0.0)
        elif self._sampled:
            self._sampled.interpolate(u, coarse)
            self._nothing.norm(coarse, norms)
            factor = factor_for(max(self._unit * largest, backend.read(norms)[1]))
            self._convert(factor, self._grid.spare[0])
        self._transfer.restrict(f, coarse)
        self._convert(factor * self._unit, self._grid.f)
        solution = self._full.coarse()
        backend.fill(coarse, 0.0)
        backend.correct(1.0 / factor, solution, coarse)
        self._refined.interpolate(coarse, u)

    def _convert(self, factor: float, target: Array) -> None:
        self._nothing.defect(self._coarse, self._coarse, factor, target)
