# SPDX-License-Identifier: MIT
"""Direct solution by fast transforms, and as a preconditioner for coefficients that vary."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from poisson.backends.base import Array, Operations, Reduction
from poisson.backends.inverses import CertifyingInverse, InverseOperations
from poisson.discrete.inverse import Inverse
from poisson.discrete.operator import Operator
from poisson.errors import CaseError
from poisson.mesh.system import CARTESIAN
from poisson.problem.problem import Problem, number
from poisson.solvers.convolution import KERNELS, KernelSettings
from poisson.solvers.entries import Clash, MethodEntry, PreconditionerEntry, Sizes, clash
from poisson.solvers.expected import Offer, Question
from poisson.solvers.iteration import Method, Norms, Task, Watch
from poisson.solvers.loops import sweep_through
from poisson.solvers.settings import SolverSettings
from poisson.solvers.spectrum import chebyshev_roots, weighted_mean
from poisson.solvers.status import Status
from poisson.solvers.stopping import SolveResult, Stopping
from poisson.solvers.together import Together

MOST_REFINEMENTS = 3
"""Solves for what rounding left of the residual, at most."""

POLISH = tuple(1.0 / root for root in chebyshev_roots(0.6, 2.0, [3.0, 2.0, 1.0, 0.0], 4))
"""The weights of sweeps before that: the rounding errors of transforms are as large in every mode, so nearly all of
their residual is in the upper part of the spectrum, and these leave a thirtieth of it for a tenth of the time."""


class FastTransform(Method):
    """Solves by fast transforms and certifies the residual; where rounding left too much, improves the solution.

    `operations`: those of A, with constant coefficients. Raises `CaseError` if the coefficients vary.
    """

    reads_guess = False

    def __init__(self, operations: Operations) -> None:
        backend, operator = operations.backend, operations.operator
        if operator.separable is None:
            raise CaseError(
                "solver.method = 'fft' needs constant a and c, and no robin face; use "
                "solver.method = 'cg' with preconditioner = 'fft', or 'auto'"
            )
        self._operations = operations
        self._backend = operations.backend
        self._error: Array | None = None
        self._norms, self._source = backend.reduction(), backend.reduction()
        self._kept: Array | None = None
        self.refresh()

    def refresh(self) -> bool:
        operator = self._operations.operator.separable or self._operations.operator
        self._solver = self._unheld = self._backend.bind(Inverse(operator))
        if not (self._backend.on_host or operator.lattice.divided):
            self._unheld = self._backend.bind(Inverse(operator, held=False))
        self._callers = self._solver if isinstance(self._solver, CertifyingInverse) else None
        self._at_once: _AtOnce | None = None
        self._several: dict[bool, Together] = {}
        # What certifies on its way seldom needs another array.
        if not self._callers:
            self._at_once = _AtOnce(self._operations, self._work, self._norms)
        return True

    def run(self, task: Task) -> SolveResult:
        """Solve A u = f (`Method.run`); one iteration is one solution by transforms."""
        operations, backend, norms = self._operations, self._backend, self._norms
        u, f, stopping, on_faces = task.u, task.f, task.stopping, task.values
        values = stopping.boundary > 0.0
        solver = self._solver if values or stopping.more_held else self._unheld
        watch = Watch(operations, task, norms, growth=math.inf)
        pair: list[Array] = [u, self._kept]

        def other() -> Array:
            if pair[1] is None:
                pair[1] = self._work
            return pair[1]

        def residual() -> Norms:
            operations.certify(pair[0], f, other(), norms)
            return backend.read(norms)

        # The guess is worth a look only where the target is relative to its residual.
        guess, first, copy, found = (0.0, 0.0), None, None, None
        if self._callers and not stopping.begun:
            found = self._callers.solve_certified(f, u, on_faces)
        if on_faces and not on_faces.written:
            if not found:
                operations.take(f, other(), norms)
                solver.solve(other(), u)
            on_faces.write(backend.view(u), None)
            values, solver, on_faces.written = True, self._solver, True
            if found and self._callers:
                found = self._callers.solve_certified(f, u)
        if found:
            source, first = found
            watch.follow(f)
        elif self._at_once and backend.keeps(operations.operator.array_shape):
            self._at_once(solver, u, f, guess=values)
            # The device still solves.
            copy = task.copy and task.copy(u)
            source, guess, first = self._at_once.norms(guess=values)
            watch.follow(f)
        else:
            if solver is self._unheld and solver.solve_from(f, other(), u, self._source, norms):
                source, first = operations.taken(f, self._source), backend.read(norms)
                watch.follow(f)
            else:
                source = watch.source(f, other())
            if not source[1] > 0.0 and not first:
                if task.blank:
                    backend.fill(u, 0.0)
                guess = residual()
        status = watch.begin(source, None if source[1] > 0.0 else guess, lambda: pair[0])
        done, best, now = 0, float("inf"), None
        while status is None:
            if done == 0 and first is None:
                if not source[1] > 0.0:
                    operations.take(f, other(), norms)
                solver.solve(other(), pair[0])
            elif done > 0:
                self._refine(pair, f)
            now = first if done == 0 and first else residual()
            done += 1
            if not watch.reached(now):
                f, pair[1], copy = operations.settled(f), other(), None
                self._polish(pair, f)
                now = residual()
            status = watch.judge(done, now) or watch.limit(done)
            if status is None and (done > MOST_REFINEMENTS or not now[0] < best):
                status = watch.stalled()
            best = min(best, now[0])
        return watch.result(status, done, pair[0], pair[1], now, copy)

    @property
    def _work(self) -> Array:
        if self._kept is None:
            self._kept = self._backend.empty(self._operations.operator.array_shape)
        return self._kept

    @property
    def inverse(self) -> InverseOperations | None:
        return self._unheld

    @property
    def together(self) -> bool:
        if self._callers:
            return self._callers.together
        operator = self._operations.operator
        return self._backend.keeps(operator.array_shape) and not operator.singular

    def ask_many(
        self, fs: Sequence[Array], start: Array, stopping: Stopping, whole: Any = None
    ) -> Callable[[], list[SolveResult | None]]:
        """One solution by transforms for each, if that is enough (`Method.ask_many`)."""
        if self._callers:
            solved = self._callers.solve_many(fs, start)
            return lambda: self._judged(*solved, stopping)
        held = stopping.boundary > 0.0
        if held not in self._several:
            self._several[held] = Together(self._operations, held)
        asked = self._several[held].ask(fs, start, whole)
        return lambda: self._judged(*asked(), stopping)

    def _judged(
        self, us: Sequence[Array], norms: Sequence[Sequence[float]], stopping: Stopping
    ) -> list[SolveResult | None]:
        measure, operator = stopping.measure, self._operations.operator
        found: list[SolveResult | None] = []
        for u, (squares, largest, *residual) in zip(us, norms, strict=True):
            left = residual[0], residual[1]
            reference = max(measure(operator, (squares, largest)), stopping.data)
            target, norm = stopping.target(reference), measure(operator, left)
            solved = 0.0 < reference < math.inf and norm <= target
            result = SolveResult(Status.CONVERGED, 1, u, None, target, ((1, norm),), norms=left)
            found.append(result if solved else None)
        return found

    def _polish(self, pair: list[Array], f: Array) -> None:
        """Sweeps against what rounding left, from the first array to the other and back; the first is the result."""
        operations = self._operations
        depth = min(len(POLISH), operations.depth())
        sweep_through(operations, pair[0], f, pair[1], POLISH, depth)
        if -(-len(POLISH) // depth) % 2:
            pair.reverse()

    def _refine(self, pair: list[Array], f: Array) -> None:
        """u = u + A⁻¹ r with the residual r in the other array, which loses its values."""
        u, r = pair
        self._operations.residual(u, f, r)
        if self._error is None:
            self._error = self._backend.empty(self._operations.operator.array_shape)
        self._backend.fill(self._error, 0.0)
        self._solver.solve(r, self._error)
        self._backend.axpby(1.0, self._error, 1.0, u)


class _AtOnce:
    """A solution with the norms that judge it, recorded: of a small problem launches and waits take most of the time.

    `operations`: those of A. `work` (Array): an array that loses its values. `norms`: a place for results.
    """

    def __init__(self, operations: Operations, work: Array, norms: Reduction) -> None:
        self._operations = operations
        self._work = work
        self._places = (norms, *(operations.backend.reduction() for _ in range(2)))
        self._recorded: tuple[Array, Array, InverseOperations, bool, Callable[[], None]] | None = None

    def __call__(self, solver: InverseOperations, u: Array, f: Array, *, guess: bool) -> None:
        """Solve A u = f, without a wait; `guess`: whether there are boundary values."""
        backend, known = self._operations.backend, self._recorded
        if known is None or known[0] is not u or known[1] is not f or known[2] is not solver or known[3] is not guess:
            # What is recorded knows its parts and not this object, which would keep itself.
            function = partial(_ask, self._operations, solver, self._work, self._places, u, f, guess)
            self._recorded = known = (u, f, solver, guess, backend.capture(function))
        known[-1]()

    def norms(self, *, guess: bool) -> tuple[Norms, Norms, Norms]:
        """Wait for the solution.

        Returns: The norms of f, those of the residual of zeros with the boundary values, and those of the residual of
        the solution. The second are zeros without `guess`.
        """
        left, source, before = self._operations.backend.read_all(self._places)
        return source, before if guess else (0.0, 0.0), left


def _ask(
    operations: Operations,
    solver: InverseOperations,
    work: Array,
    places: Sequence[Reduction],
    u: Array,
    f: Array,
    guess: bool,
) -> None:
    left, source, before = places
    if guess:
        operations.certify(u, f, work, before)
    operations.take(f, work, source)
    solver.solve(work, u)
    operations.certify(u, f, work, left)


class FastPreconditioner:
    """The inverse of the operator with the mean coefficients, by fast transforms.

    `operations`: those of A, with coefficients that may vary.
    """

    def __init__(self, operations: Operations) -> None:
        self._operations, self._backend = operations, operations.backend
        self.spare = [self._backend.empty(operations.operator.array_shape)]
        self.refresh()

    def refresh(self) -> bool:
        """Go over to other coefficients (`Preconditioner.refresh`)."""
        self._solver = self._backend.bind(Inverse(self._mean(self._operations.operator), held=False))
        return True

    def _mean(self, operator: Operator) -> Operator:
        coefficients = operator.coefficients
        if coefficients is None:
            return operator
        plain = replace(operator, coefficients=None)
        backend, ones, a, c = self._backend, self.spare[0], operator.a, operator.c
        of_nodes, place = backend.bind(plain), backend.reduction()
        backend.fill(ones, 1.0)
        if coefficients.links is not None:
            # Of the entries that belong to no link each repeats its neighbour, which hardly matters to a mean.
            # Those along an angle have 1/r² beside a.
            arrays = [links for axis, links in enumerate(coefficients.links) if axis != operator.lattice.angle]
            means = [weighted_mean(of_nodes, links, ones, place) for links in arrays]
            a = sum(means) / len(means)
        if coefficients.c is not None:
            c = weighted_mean(of_nodes, coefficients.c, ones, place)
            if coefficients.walls:  # the plain operator has them itself
                lines = zip(operator.lattice.whole.axes, operator.couplings, strict=True)
                c -= a * sum(each * np.average(line.couplings[2], weights=line.widths) for line, each in lines)
            c = max(c, coefficients.c_range[0])  # with a mask below
        return replace(plain, a=a, c=c)

    def apply(self, r: Array, z: Array) -> None:
        """z = Ā⁻¹ r (`Preconditioner.apply`)."""
        [work] = self.spare
        self._backend.axpby(1.0, r, 0.0, work)
        self._backend.fill(z, 0.0)
        self._solver.solve(work, z)


LEAST_PLANES = 2
"""The fewest planes of a rank that has a face: one of them may be fixed."""

ARRAYS = 3.0
"""u, the source and the work of the transforms."""


def _offer(question: Question) -> Offer | str | None:
    if question.operator.separable is None or question.to_discretisation:
        return None
    if question.no_modes:
        return question.no_modes
    *others, slowest = question.operator.lattice.axes
    few = slowest.whole and len(range(slowest.nodes)[slowest.owned]) < LEAST_PLANES
    if few or any(axis.whole for axis in others):
        return f"transforms need whole planes on every rank, at least {LEAST_PLANES}"
    if not question.fits(ARRAYS):
        return "transforms would need more memory than is free"
    return Offer(
        settings=replace(question.settings, method="fft"),
        precision="float64" if question.precision == "mixed" else question.precision,
        usual=question.usual.transforms,
        seconds=question.measured.transforms,
        noun="transforms",
        because="a and c are constant",
    )


def _arrays(sizes: Sizes) -> float:
    """With the modes of a convolution along one axis, and the table of its kernel, twice while it is made."""
    plain = sizes.settings.of(KernelSettings) == KernelSettings()
    return ARRAYS + sizes.coefficients + (0.0 if plain else 4.0 + 3.0 * 2.0**sizes.half_open)


def _label(settings: SolverSettings) -> str:
    kernel = settings.of(KernelSettings).kernel
    return "fft" if kernel == KERNELS[0] else f"convolution, {kernel}"


def _without_kernel(problem: Problem) -> str:
    """Why a problem has the kernel of the lattice alone; empty where it has others."""
    if not problem.open_faces:
        return "unless a face is open"
    if number(problem.a) is None or number(problem.c) is None or problem.bodies:
        return "unless a and c are constant, and there are no bodies"
    if problem.lattice.system != CARTESIAN:
        return "around an axis or a centre, where waves along r are no lines of modes"
    if any(axis.placement is not None and not axis.placement.even for axis in problem.lattice.axes):
        return "on stretched axes, where sines and cosines are no modes of equally spaced nodes"
    if any(face.value is not None and number(face.value) != 0.0 for face in problem.faces):
        return "unless all walls have the value 0, because data on a wall are a sheet of charges, and not smooth"
    return ""


def _refused(settings: SolverSettings, problem: Problem) -> Iterator[Clash]:
    kernel = settings.of(KernelSettings).kernel
    if kernel != KERNELS[0] and (allowed := _without_kernel(problem)):
        yield clash("kernel", kernel, f'"lattice" {allowed}')
    robin = next((face.kind.value for face in problem.faces if face.kind.takes_alpha), None)
    if problem.bodies:
        yield clash("method", "fft", 'only without bodies; use "auto", or "cg"')
    elif not problem.separable and not robin:
        reason = 'only with constant equation.a and equation.c; use "auto", or "cg" with preconditioner "fft"'
        yield clash("method", "fft", reason)
    elif robin:
        yield clash("method", "fft", f'only without {robin} faces; use "auto", or "cg" with preconditioner "fft"')
    elif problem.guess:
        reason = (
            'only without an initial guess (run.initial), which transforms do not use; "auto" accepts an initial guess'
        )
        yield clash("method", "fft", reason)


METHOD = MethodEntry(
    name="fft",
    rank=2,
    use="constant a and c, no Robin face: a direct solution by the fast transforms that fit the faces",
    iteration="a direct solution, and a few sweeps if rounding left too much; a second iteration refines u",
    make=lambda given: FastTransform(given.operations),
    arrays=_arrays,
    keys=frozenset(("kernel",)),
    parts=(KernelSettings,),
    label=_label,
    refused=_refused,
    offer=_offer,
    direct=True,
    in_place=True,
    planes=lambda settings: True,
)

PRECONDITIONER = PreconditionerEntry(
    name="fft",
    rank=3,
    use="a direct solution with the mean a and the mean c, for coefficients that vary little",
    make=lambda given: FastPreconditioner(given.operations),
    mixed=True,
    planes=True,
)
