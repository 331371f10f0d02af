# SPDX-License-Identifier: MIT
"""Preconditioned conjugate gradients."""

import math
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace

import numpy as np

from poisson.backends.base import Array, Operations
from poisson.errors import ResourceError
from poisson.solvers import registry
from poisson.solvers.entries import Clash, Given, MethodEntry, PreconditionerEntry, Sizes, clash
from poisson.solvers.expected import STRONG_ANGLE, Offer, Question
from poisson.solvers.iteration import KRYLOV_GROWTH, Method, Norms, Preconditioner, Task, Watch, factor_for, lend
from poisson.solvers.mixed import MixedConjugateGradients
from poisson.solvers.roughness import has_products
from poisson.solvers.rounding import LEAST_RTOL
from poisson.solvers.settings import SolverSettings
from poisson.solvers.spectrum import DRIFT, MOST_REMOVALS, HeldConstant, remove_mean
from poisson.solvers.status import Status
from poisson.solvers.stopping import Patience, SolveResult

GAIN = 0.5
"""A restart from the true residual is worth another one if it leaves less than this part of it."""

FEWEST_WITHOUT_PROGRESS, MOST_WITHOUT_PROGRESS = 1000, 2
"""After so many iterations, or so many times the unknowns, without a smaller residual the recursion is at its end, if
they have gained less than eps of the squared energy norm of the error: where the condition is bad, the residual may
hover for many times the unknowns while that norm falls."""

PROGRESS = 0.99
"""A residual is smaller if it is below this part of the least so far."""

HARDER = 2.2
"""The cost of conjugate gradients where a jumps, in cycles for constant a."""


GALERKIN = 4.0
"""The same with Galerkin coarse grids and corrections of strong clusters."""


class Diagonal:
    """The preconditioner D⁻¹."""

    def __init__(self, operations: Operations) -> None:
        self._operations = operations
        self.spare: list[Array] = []

    def apply(self, r: Array, z: Array) -> None:
        """z = D⁻¹ r (`Preconditioner.apply`)."""
        self._operations.diagonal_solve(r, z, 1.0)

    def refresh(self) -> bool:
        """Nothing follows from the coefficients but D itself (`Preconditioner.refresh`)."""
        return True


class ConjugateGradients(Method):
    """Conjugate gradients in the inner product of the trapezoidal weights, in which A is symmetric.

    An iteration makes two passes besides the preconditioner: `direction` (the new direction, A times it, their product)
    and `advance` (the new iterate, the new residual, its norms). The norm that is tested is that of the recursion; the
    true residual is recomputed before a solve counts as converged, and the iteration starts again from it if need be.

    `operations`: those of A. `preconditioner`: an approximate inverse of A.

    Reference: Y. Saad, Iterative Methods for Sparse Linear Systems, 2nd edition, section 9.2.
    """

    def __init__(self, operations: Operations, preconditioner: Preconditioner | None = None) -> None:
        backend, operator = operations.backend, operations.operator
        self._operations = operations
        self._backend = operations.backend
        self._preconditioner = preconditioner
        shape = operator.array_shape
        self._r = backend.empty(shape)
        # The direction, the one before, A times it, and the preconditioned residual take turns in these.
        lent = preconditioner.spare if preconditioner else []
        self._spare = [*lent, *(backend.empty(shape) for _ in range((4 if preconditioner else 3) - len(lent)))]
        self._norms, self._product = backend.reduction(), backend.reduction()
        self._weighted = not operator.lattice.has_one_volume
        self._constant = HeldConstant(operations)

    def run(self, task: Task) -> SolveResult:
        """Solve A u = f (`Method.run`).

        Values of f that are smaller than the largest by all of the range of float64 may be lost.
        """
        u, f = task.u, task.f
        watch = Watch(self._operations, task, self._norms, KRYLOV_GROWTH, recursive=True)
        source, residual = watch.source(f), self._residual(u, f)
        factor = factor_for(max(source[1], residual[1]))
        if factor == 1.0:
            status, done = self._iterate(task, watch, source, residual)
            return watch.result(status, done, u, self._r)
        # Products of such residuals may leave the range of float64, those of a multiple by a power of two do not; and
        # the iterates are the same.
        watch.factor = factor
        self._scale(u, factor)
        self._scale(f, factor)
        try:
            source, residual = watch.source(f), self._residual(u, f)
            status, done = self._iterate(task, watch, source, residual)
        finally:
            self._scale(u, 1.0 / factor)
            self._scale(f, 1.0 / factor)
        return watch.result(status, done, u, self._r)

    def refresh(self) -> bool:
        self._constant = HeldConstant(self._operations)
        return self._preconditioner is None or self._preconditioner.refresh()

    def _iterate(self, task: Task, watch: Watch, source: Norms, residual: Norms) -> tuple[Status, int]:
        """How it ended, and the iterations; `source` and `residual` are the norms of f and of the first residual."""
        status, done, u = watch.begin(source, residual, lambda: task.u), 0, task.u
        corrections = 0
        while status is None:
            status, done = self._descend(task, watch, residual, done)
            if status in (Status.AT_ROUNDING, Status.STAGNATED) and corrections < MOST_REMOVALS:
                residual, corrections = self._residual(u, task.f), corrections + 1
                if self._constant.correct(u, self._r, self._spare[0], self._norms):
                    residual, status = self._residual(u, task.f), None
        return status, done

    def _descend(self, task: Task, watch: Watch, residual: Norms, done: int) -> tuple[Status, int]:
        """`_iterate` after so many iterations, from a true residual, whose norms are given."""
        operations, backend, norms = self._operations, self._backend, self._norms
        operator = operations.operator
        u, f, every = task.u, task.f, max(1, task.stopping.check_every)
        status, squares, restart, before = None, residual[0], True, 0.0
        course = _Course(operations, watch, residual)
        p, q, *others = self._spare
        while status is None:
            # After `direction` the old direction is no longer needed, and after `advance` neither are z and q.
            out = others[-1]
            z, rho = self._precondition(others[0] if self._preconditioner else self._r, (q, out), squares)
            curvature = 0.0
            if 0.0 < rho < math.inf:
                operations.direction(z, 0.0 if restart else rho / before, p, out, q, self._product)
                others[-1], p = p, out
                curvature = backend.read(self._product)[0]
            # Without positive products nothing is left in the range of A but rounding, or something is not finite.
            advances = 0.0 < curvature < math.inf
            if advances:
                operations.advance(rho / curvature, p, q, u, self._r, norms)
                before, restart = rho, False
                done += 1
                reduced = backend.read(norms)
                squares = reduced[0]
                if not course.exhausted(reduced, rho / curvature * rho):
                    if operator.singular and course.drifts(reduced):
                        squares = self._project(q)[0]
                    if done % every == 0 or done >= watch.most:
                        status = watch.judge(done, reduced) or watch.limit(done)
                    continue
            if operator.singular:
                remove_mean(operations, u, self._spare[0], norms)
            reduced = self._residual(u, f)
            squares, restart = reduced[0], True
            status = watch.judge(done, reduced)
            if status is None and not (math.isfinite(rho) and math.isfinite(curvature)):
                status = watch.judge(done, (math.inf, math.inf))
            least = task.stopping.rtol < LEAST_RTOL  # There is no end before restarts gain nothing.
            if status is None and not least and course.reached(reduced) and watch.rounded(reduced, (p, q)):
                status = Status.AT_ROUNDING
            if status is None and not course.restarts(reduced, u):
                course.give_best(u)
                status = watch.stalled()
            status = status or watch.limit(done)
        return status, done

    def _project(self, work: Array) -> Norms:
        """Take from r its mean, which the range of a singular A does not have, and return its norms."""
        remove_mean(self._operations, self._r, work, self._norms)
        self._operations.norm(self._r, self._norms)
        return self._backend.read(self._norms)

    def _scale(self, array: Array, factor: float) -> None:
        self._backend.axpby(factor, array, 0.0, self._r)
        self._backend.axpby(1.0, self._r, 0.0, array)

    def _residual(self, u: Array, f: Array) -> Norms:
        """r = f − A u, without its mean where A is singular; and its norms."""
        operations, backend, operator = self._operations, self._backend, self._operations.operator
        operations.residual(u, f, self._r, self._norms)
        return self._project(self._spare[0]) if operator.singular else backend.read(self._norms)

    def _precondition(self, z: Array, free: Sequence[Array], squares: float) -> tuple[Array, float]:
        """The preconditioned residual, and its product with the residual; `free` are two arrays to work in."""
        operations, backend = self._operations, self._backend
        if isinstance(self._preconditioner, Diagonal):
            operations.diagonal_solve(self._r, z, 1.0, self._product)
        elif self._preconditioner is not None:
            lend(free, self._preconditioner)
            self._preconditioner.apply(self._r, z)
            operations.dot(self._r, z, self._product)
        elif self._weighted:
            operations.dot(self._r, self._r, self._product)
        else:
            return self._r, squares
        return z, backend.read(self._product)[0]


class _Course:
    """When conjugate gradients look at the true residual and start again from it, and the best iterate of these times.

    The residual of the recursion falls on when that of u, which rounding separates from it, does not. What is left of
    the true one can be reduced as any other, until a restart no longer gains.

    `operations`: those of A. `watch`: has begun. `residual`: the norms of the first residual.
    """

    def __init__(self, operations: Operations, watch: Watch, residual: Norms) -> None:
        backend, operator = operations.backend, operations.operator
        self._backend, self._operator, self._watch = backend, operator, watch
        self._eps = float(np.finfo(backend.dtype).eps)
        self._patience = max(FEWEST_WITHOUT_PROGRESS, MOST_WITHOUT_PROGRESS * operator.unknowns)
        self._best, self._kept = math.inf, None
        self._energy = 0.0
        self._begin(watch.norm(residual))

    def _begin(self, norm: float) -> None:
        self._now = self._least = self._projected = norm
        self._without, self._recent, self._reached = 0, 0.0, False

    def exhausted(self, reduced: Norms, gained: float) -> bool:
        """Whether the recursion is at its end, given the norms of its residual.

        `gained`: by how much the last step has reduced the squared energy norm of the error.
        """
        norm = self._watch.norm(reduced)
        self._without, self._recent, self._energy = self._without + 1, self._recent + gained, self._energy + gained
        if norm < PROGRESS * self._least:
            self._without, self._recent, self._least = 0, 0.0, norm
        elif self._without > self._patience and self._recent > self._eps * self._energy:
            self._without, self._recent = 0, 0.0
        self._reached = norm <= self._watch.target
        return self._reached or norm <= self._eps * self._now or self._without > self._patience

    def reached(self, reduced: Norms) -> bool:
        """Whether the recursion has reached the target, and the true residual, given its norms, is the least so far."""
        return self._reached and self._watch.norm(reduced) < self._best

    def drifts(self, reduced: Norms) -> bool:
        """Whether the residual has fallen so far that its mean, which rounding makes, may count."""
        norm = self._watch.norm(reduced)
        if norm > DRIFT * self._projected:
            return False
        self._projected = norm
        return True

    def restarts(self, reduced: Norms, u: Array) -> bool:
        """Whether to go on from u, given the norms of its true residual: if it is clearly better than all before."""
        norm = self._watch.norm(reduced)
        if not norm < GAIN * self._best:
            self._now = norm
            return False
        self._begin(norm)
        self._best = norm
        with suppress(ResourceError, MemoryError):
            if self._kept is None:
                self._kept = self._backend.empty(self._operator.array_shape)
            self._backend.axpby(1.0, u, 0.0, self._kept)
        return True

    def give_best(self, u: Array) -> None:
        """Overwrite u by the best iterate, if the last one is clearly worse."""
        if self._kept is not None and not self._now * GAIN <= self._best:
            self._backend.axpby(1.0, self._kept, 0.0, u)


def _make(given: Given) -> Method:
    if given.inner is None:
        return ConjugateGradients(given.operations, registry.make_preconditioner(given))
    preconditioner = None
    if registry.preconditioner_of(given.settings).mixed:
        within = replace(given, operations=given.inner, inner=None)
        preconditioner = registry.make_preconditioner(within)
    if preconditioner is None:
        raise ValueError(f"preconditioner = {given.settings.preconditioner!r} has no mixed precision")
    return MixedConjugateGradients(given.operations, given.inner, preconditioner)


def _arrays(sizes: Sizes) -> float:
    more = registry.preconditioner_of(sizes.settings).arrays(sizes)
    return sizes.mixed(6.0 + more) if more and sizes.precision == "mixed" else 7.0 + sizes.coefficients + more


def _wrong(settings: SolverSettings, precision: str) -> Iterator[Clash]:
    entry = registry.preconditioner_of(settings)
    changed = settings.changed()
    for name in sorted(registry.keys_of_preconditioners() & changed.keys() - entry.keys):
        yield clash(name, changed[name], f'only its default with preconditioner "{entry.name}"')
    yield from entry.wrong(settings, precision)
    if precision == "mixed" and not entry.mixed:
        reason = f'"float64" or "float32" with preconditioner "{entry.name}"'
        yield Clash(("run", "precision"), precision, reason)


def _offer(question: Question) -> Offer | None:
    if not (question.hard or question.rough) or question.to_discretisation:
        return None
    lattice, rough = question.operator.lattice, bool(question.rough)
    # Points and halved grids do not smooth what an angle ties together near r = 0; lines do.
    strong = lattice.angular > STRONG_ANGLE
    lines = strong and not question.no_modes
    if strong and not lines:
        rough = has_products(question.backend, question.operator)
    count = (GALERKIN if rough else HARDER) * question.cycles_to_tolerance()
    preconditioner = "fft" if lines and not rough else "multigrid"
    settings = replace(question.settings, method="cg", preconditioner=preconditioner)
    return Offer(
        settings=settings.having(coarse="galerkin" if rough else "geometric"),
        precision=question.mixed,
        usual=question.usual.cycles(count),
        seconds=question.measured.cycles(count),
        noun="conjugate gradients",
        because=question.rough or question.hard,
    )


METHOD = MethodEntry(
    name="cg",
    rank=1,
    use="strongly varying a: conjugate gradients with a [preconditioner](methods.md#preconditioners)",
    iteration="a step along one direction, with one application of the preconditioner",
    make=_make,
    arrays=_arrays,
    keys=frozenset(("preconditioner",)),
    mixed=True,
    wrong=_wrong,
    refused=lambda settings, problem: registry.preconditioner_of(settings).refused(settings, problem),
    offer=_offer,
    patience=Patience(reads=100, factor=10.0),
    label=lambda settings: f"cg{registry.preconditioner_of(settings).label(settings)}",
    halo=lambda settings, *given: registry.preconditioner_of(settings).halo(settings, *given),
    planes=lambda settings: registry.preconditioner_of(settings).planes,
)

NONE = PreconditionerEntry(
    name="none",
    rank=0,
    use="no preconditioner: plain conjugate gradients",
    make=lambda given: None,
    label=lambda settings: "",
)

DIAGONAL = PreconditionerEntry(
    name="jacobi",
    rank=1,
    use="division by the diagonal of A: little work and little gain",
    make=lambda given: Diagonal(given.operations),
    stands_by=1,
)
