# SPDX-License-Identifier: MIT
"""The use that every iterative solve makes of the norms that it reads: the target, the verdict, the history."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol

import numpy as np

from poisson.backends.base import Array, Operations, Reduction
from poisson.backends.inverses import InverseOperations
from poisson.discrete.inverse import FaceValues
from poisson.errors import ResourceError
from poisson.solvers.rounding import (
    LOCAL_ERROR,
    NEAR_ROUNDING,
    OUT_OF_REACH,
    at_rounding,
    at_rounding_in_norm,
    largest_correction,
    norms_of_rounding,
)
from poisson.solvers.status import Status
from poisson.solvers.stopping import GROWTH, Later, Monitor, Observer, Patience, SolveResult, Stopping

Norms = tuple[float, float]
"""(Σ r², max |r|) as `Backend.read` gives them."""

KRYLOV_GROWTH = 1e8
"""Conjugate gradients reduce the energy norm of the error; the residual may grow meanwhile, with the condition of A."""

PLAUSIBLE = 1e3
"""Values of u that are so many times larger than the data explain are an error, whose rounding does not count."""

EXPONENTS = 40
"""A residual whose largest value has a binary exponent within these bounds needs no factor."""
MOST_EXPONENT = 1000
"""With these bounds on the binary exponent of a factor, it and its inverse are numbers of full precision."""


@dataclass(frozen=True)
class Iterate:
    """A complete iterate of a solve that is going on.

    `iterations`: that made it, with those that the solve had behind it (`Begun`).
    `u`: gives the array, which keeps its values until the call that shows the iterate has returned.
    `factor`: what u is multiplied by there, a power of two.
    `target`: the residual norm to reach, in U/L².
    `history` (sequence of (int, float)): the residual norms that were read so far. The solve appends to it.
    `instead`: the method that went on, for people, where the one that was chosen stalled.
    """

    iterations: int
    u: Callable[[], Array]
    factor: float
    target: float
    history: Sequence[tuple[int, float]]
    instead: str = ""


Interruption = Callable[[Iterate], bool]
"""Shown a complete iterate, between two iterations; true ends the solve."""


def never(iterate: Iterate) -> bool:
    """Nobody interrupts."""
    return False


class Task(NamedTuple):
    """A system A u = f to be solved, and what ends its solution.

    `u` (Array, shape of the grid): initial guess in U, with the Dirichlet values at fixed nodes. Overwritten. `f`
    (Array, shape and dtype of `u`): source with the face terms, in U/L², zero at fixed nodes. Keeps its values.
    `stopping`: tolerances, the norm they are measured in, the limit on iterations, and what the solve has behind it.
    `observer`: told the target at the start and every norm read. `interrupted`: shown the complete iterate now and
    then; true ends the solve. `copy`: copies u for its user; a method that is about to wait for u may call it before.
    `values`: on faces, which the method may write on its way; then it says so. `blank`: whether u is zero at fixed
    nodes and has no guess: whatever it holds elsewhere, that stands for zeros. `norms`: a place that gets those of f,
    if they have been asked for.
    """

    u: Array
    f: Array
    stopping: Stopping
    observer: Observer | None = None
    interrupted: Interruption = never
    copy: Callable[[Array], Array] | None = None
    values: FaceValues | None = None
    blank: bool = False
    norms: Reduction | None = None


Shown = Callable[[Iterate], Iterate]
"""The iterate of a whole solve, from one of a system that is solved on the way."""


class Method(ABC):
    """A method with its set-up done: it solves for many right-hand sides.

    `reads_guess`: whether it needs an initial guess, be it zero; else u may be blank (`Task`).
    """

    reads_guess = True

    def solve(
        self,
        u: Array,
        f: Array,
        *,
        stopping: Stopping,
        observer: Observer | None = None,
        interrupted: Interruption = never,
    ) -> SolveResult:
        """Solve A u = f, as `run` does."""
        return self.run(Task(u, f, stopping, observer, interrupted))

    @abstractmethod
    def run(self, task: Task) -> SolveResult:
        """Solve A u = f.

        Returns: how it ended, the last iterate, and the history of the residual norm in U/L². The arrays in it may be
        `u` or the solver's own, which its next solve overwrites.
        """

    def refresh(self) -> bool:
        """Make again what follows from the coefficients: the operations have gone over to others (`rebind`).

        A solve is then as one by a method that is made anew. Arrays stay where they are, and what is recorded is kept
        where it has no number that is another one now.

        Returns: whether it could; otherwise the method must be made anew.
        """
        return False

    @property
    def inverse(self) -> InverseOperations | None:
        """The direct solution by which it solves, if it is direct."""
        return None

    @property
    def together(self) -> bool:
        """Whether `ask_many` solves for anything."""
        return False

    def ask_many(
        self, fs: Sequence[Array], start: Array, stopping: Stopping, whole: Any = None
    ) -> Callable[[], list[SolveResult | None]]:
        """Begin to solve A u = f for each of the sources, which are in the memory of the caller (`Backend.in_place`).

        `fs` (sequence of Array): the sources, without terms of faces; of those in `whole` the first is enough. `start`
        (Array): the boundary values at fixed nodes, and zeros. `stopping`: as for `solve`. `whole` (array of
        `Backend.array_module`): all sources, one behind the other, if they are so. Returns: what waits for the end and
        gives None for what `run` has to solve, and results with arrays of their own.
        """
        return lambda: [None] * len(fs if whole is None else whole)


class Preconditioner(Protocol):
    """An approximate inverse of A, self-adjoint in the inner product of the trapezoidal weights."""

    spare: list[Array]
    """Arrays of the grid that hold nothing between two calls of `apply`. Others may be put in their places."""

    def apply(self, r: Array, z: Array) -> None:
        """z ≈ A⁻¹ r, zero at fixed nodes; r keeps its values and is zero at fixed nodes."""

    def refresh(self) -> bool:
        """Make again what follows from the coefficients, as `Method.refresh`."""


def lend(free: Sequence[Array], preconditioner: Preconditioner) -> None:
    """Let the preconditioner work in arrays that are free now, as many as it needs, at most so many."""
    preconditioner.spare[:] = free[: len(preconditioner.spare)]


class Watch:
    """Follows one solve.

    `operations`: those of A.
    `task`: what is solved.
    `result`: a place for the norms that the watch asks for itself.
    `growth`: a residual that has grown by this factor diverges.
    `patience`: with less progress the solve has stalled, unless `stopping` has its own.
    `local`: whether the method changes a node by the values next to it only. Rounding can keep it from going on far
    from the solution.
    `recursive`: whether the norms are those of a residual that the method carries along, which does not show that u has
    left the range of its type.

    `factor`: what the iterate, the source and all norms that the watch gets are multiplied by; what it tells is not.
    `before`: the iterations that the solve has behind it, without which it counts its own.
    """

    def __init__(
        self,
        operations: Operations,
        task: Task,
        result: Reduction,
        growth: float = GROWTH,
        patience: Patience | None = None,
        local: bool = False,
        recursive: bool = False,
    ) -> None:
        self._operations = operations
        self._backend, self._operator = operations.backend, operations.operator
        self._recursive = recursive
        self._may_overflow = False
        self._stopping = stopping = task.stopping
        self._observer, self._interrupted = task.observer, task.interrupted
        self._result = result
        self._known = (task.f, task.norms)
        self._growth = growth
        self._patience = stopping.patience or patience
        self._stuck = Status.STAGNATED if local and _ill_conditioned(operations) else Status.AT_ROUNDING
        self._f: Array | None = None
        self._monitor: Monitor | None = None
        self._iterate: Callable[[], Array] | None = None
        self._begun = stopping.begun
        self.before = self._begun.iterations if self._begun else 0
        self.factor = 1.0

    def source(self, f: Array, copy: Array | None = None) -> Norms:
        """The norms of the source, which the residuals of the solve belong to; with `copy` it is copied there, too.

        Then it may be one in the memory of the caller (`Backend.in_place`).
        """
        self.follow(f)
        (known, norms), self._known = self._known, (None, None)
        if copy is None and f is known and norms is not None:
            return self._backend.read(norms)
        if copy is None:
            self._operations.norm(f, self._result)
        else:
            self._operations.take(f, copy, self._result)
        return self._operations.taken(f, self._result)

    def follow(self, f: Array) -> None:
        """Take the source whose norms are known otherwise, in the place of `source`."""
        self._f = f

    def before_begin(self, source: Norms, u: Array) -> Interruption:
        """The interruption of what is solved for a start: the iterate of this solve is still its initial guess."""
        reference = max(self.norm(source), self._stopping.data)
        target = self._begun.target if self._begun else self._stopping.target(reference)
        whole = Iterate(self.before, lambda: u, self.factor, target, self._begun.history if self._begun else ())
        return lambda _: self._interrupted(whole)

    def begin(
        self, source: Norms, first: Norms | None, iterate: Callable[[], Array], guess: Norms | None = None
    ) -> Status | None:
        """Set the target from the norms of the source and of the first residual; a status if nothing is to be done.

        Without a first residual, which only a source of zero needs, the history begins after the first iteration.
        `iterate` gives the array of the current iterate, whose size says how small rounding lets the residual be.
        `guess` has the norms of the residual of the initial guess, where `first` is that of a later iterate, such as a
        start that a method finds for itself: that may be exact but for rounding, and nothing is small beside rounding.
        """
        stopping, operator = self._stopping, self._operator
        reference = self.norm(source)
        norm, before = self.norm(first) if first else reference, self.norm(guess) if guess else reference
        data = stopping.data
        relative_to = "the boundary values" if data > reference else "f with its face terms"
        relative_to = relative_to if max(reference, data) > 0.0 else "the first residual"
        begun = self._begun
        target = begun.target if begun else stopping.target(max(reference, data) or before or norm)
        largest = max(norm, reference, before, data, *(norm for _, norm in (begun.history[:1] if begun else ())))
        lowest, highest = operator.eigenvalues()
        explained = largest / lowest + stopping.boundary if lowest > 0.0 else math.inf
        plausible = PLAUSIBLE * self.factor * explained
        if self._recursive:
            # No method solves for a mode whose eigenvalue is nothing beside the largest.
            softest = lowest or float(np.finfo(self._backend.dtype).eps) * highest
            reachable = PLAUSIBLE * (math.sqrt(operator.unknowns) * largest / softest + stopping.boundary)
            self._may_overflow = not reachable < _largest_number(self._backend.dtype)
        rounded = _Rounding(self._operations, stopping, self._f, self._result, iterate, plausible)
        self._monitor = Monitor(target, largest, rounded, self._growth, self._patience, self._stuck)
        self._iterate = iterate
        if self._observer:
            self._observer.start(target, relative_to, stopping.max_iterations)
        if begun:
            self._monitor.resume(begun)
            if self.most < 1:
                return Status.MAX_ITERATIONS
            if begun.same:
                # An unbroken solve would not look at this residual, and end with the iterate of another read.
                return None
        return None if first is None else self._monitor.judge(self.before, norm)

    def judge(self, done: int, norms: Norms) -> Status | None:
        """Note the norms of the residual after so many iterations; a status if the solve must end."""
        norm = self.norm(norms) if self._in_range() else math.inf
        if self._observer:
            self._observer(self.before + done, norm)
        return self.monitor.judge(self.before + done, norm)

    def _in_range(self) -> bool:
        """Whether u is in the range of its type; looked at only where the norms do not show it and u may be large."""
        if not self._may_overflow:
            return True
        assert self._iterate is not None
        self._operations.norm(self._iterate(), self._result)
        squares, largest = self._backend.read(self._result)
        # Of a NaN only the sum tells.
        return not math.isnan(squares) and largest / self.factor <= _largest_number(self._backend.dtype)

    def reached(self, norms: Norms) -> bool:
        """Whether norms are at the target."""
        return self.norm(norms) <= self.target

    def norm(self, norms: Norms) -> float:
        """The norm that is tested, in U/L²."""
        squares, largest = norms
        return self._stopping.measure(self._operator, (squares / self.factor / self.factor, largest / self.factor))

    def rounded(self, norms: Norms, work: Sequence[Array], reach: float = OUT_OF_REACH) -> bool:
        """Whether rounding keeps norms, of the residual of the iterate, above the target, and little else is in them.

        `work`: two arrays, which are overwritten. `reach`: the part of `norms_of_rounding` that the target is below.
        """
        assert self._iterate is not None
        rounding = self.norm(norms_of_rounding(self._operations, self._iterate(), work, self._result))
        near = self.target < reach * rounding and self.norm(norms) <= NEAR_ROUNDING * rounding
        return near and self.monitor.at_rounding(True)

    def stalled(self) -> Status:
        """How a solve ends that makes no progress any more."""
        return self.monitor.stalled()

    def limit(self, done: int) -> Status | None:
        """A status if the solve must end although nothing is wrong; asked where there is a complete iterate."""
        assert self._iterate is not None
        history = self.monitor.history
        if self._interrupted(Iterate(self.before + done, self._iterate, self.factor, self.target, history)):
            return Status.INTERRUPTED
        return Status.MAX_ITERATIONS if done >= self.most else None

    def part(self, u: Array, f: Array, atol: float, done: int, shown: Shown | None = None) -> Task:
        """A system that is solved on the way, after so many iterations, down to a residual norm.

        `shown`: gets iterates of this system with the iterations, target and history of the whole solve.
        """
        left = self.most - done
        stopping = replace(self._stopping, rtol=0.0, atol=atol, data=0.0, max_iterations=left, begun=None)
        before = self.before + done

        def interrupted(it: Iterate) -> bool:
            history = self.monitor.history
            whole = replace(it, iterations=before + it.iterations, target=self.target, history=history)
            return self._interrupted(shown(whole) if shown else whole)

        return Task(u, f, stopping, Later(self._observer, before) if self._observer else None, interrupted)

    def result(
        self, status: Status, done: int, u: Array, work: Array, norms: Norms | None = None, copy: Array | None = None
    ) -> SolveResult:
        """The result of the solve."""
        history = tuple(self.monitor.history)
        return SolveResult(status, self.before + done, u, work, self.target, history, norms=norms, copy=copy)

    def until_read(self, done: int, every: int) -> int:
        """The iterations to the next read of the norm, of which one is made after every so many of all.

        So a solve that goes on reads where one would that was not broken off. None are left at the limit.
        """
        passed = self.before if self._begun and self._begun.same else 0
        return min(every - (passed + done) % every, self.most - done)

    @property
    def most(self) -> int:
        """The limit on iterations, less those that the solve has behind it."""
        return self._stopping.max_iterations - self.before

    @property
    def monitor(self) -> Monitor:
        assert self._monitor is not None
        return self._monitor

    @property
    def target(self) -> float:
        """The residual norm to reach, in U/L²."""
        return self.monitor.target


@dataclass
class _Rounding:
    """Tells whether the residual of the iterate is what rounding makes it.

    `operations`: those of A.
    `stopping`: with the norm.
    `f` (Array or None): the source.
    `place`: for results.
    `iterate`: gives the array of the current iterate.
    `plausible`: larger values of u do not count.
    """

    operations: Operations
    stopping: Stopping
    f: Array | None
    place: Reduction
    iterate: Callable[[], Array]
    plausible: float

    def __call__(self, in_norm: bool) -> bool:
        """With `in_norm` by the norm of the residual, or else by the corrections that it would make."""
        operations, place = self.operations, self.place
        backend, operator = operations.backend, operations.operator
        u = self.iterate()
        try:
            r, z = backend.empty(operator.array_shape), backend.empty(operator.array_shape)
        except (ResourceError, MemoryError):
            return False  # the solve goes on, up to its limit
        operations.residual(u, operations.settled(self.f), r, place)
        norm = self.stopping.measure(operator, backend.read(place))
        if not math.isfinite(norm):
            return False
        correction = largest_correction(operations, r, z, place)
        operations.norm(u, place)
        sizes = correction, min(backend.read(place)[1], self.plausible), backend.dtype
        return at_rounding_in_norm(norm, *sizes, operator) if in_norm else at_rounding(*sizes)


def _largest_number(dtype: np.dtype[Any]) -> float:
    return float(np.finfo(dtype).max)


def _ill_conditioned(operations: Operations) -> bool:
    """Whether what rounding can keep a method of sweeps from may be a good part of the solution."""
    backend, operator = operations.backend, operations.operator
    lowest, highest = operator.eigenvalues()
    return float(np.finfo(backend.dtype).eps) * highest > LOCAL_ERROR * lowest


def factor_for(largest: float) -> float:
    """The power of two that brings a largest value near 1, if it is far from it."""
    if not 0.0 < largest < math.inf:
        return 1.0
    exponent = math.frexp(largest)[1]
    if abs(exponent) <= EXPONENTS:
        return 1.0
    return math.ldexp(1.0, min(max(-exponent, -MOST_EXPONENT), MOST_EXPONENT))


def given_source(source: Norms, f: Array) -> Array | None:
    """`f`, or None if it is zero and need not be read. Of a NaN only the sum tells, of tiny squares the maximum."""
    return None if source == (0.0, 0.0) else f


def relax(
    watch: Watch, status: Status | None, advance: Callable[[int], None], norms: Callable[[], Norms], every: int
) -> tuple[Status, int]:
    """Advance by `every` iterations at a time, reading the norms after each, until the solve must end.

    `watch`: has begun.
    `status`: what it said then.
    `advance`: does so many iterations.
    `norms`: the norms of the residual of the current iterate.
    `every`: iterations between two reads.

    Returns: How it ended, and the iterations done.
    """
    done = 0
    while status is None:
        count = watch.until_read(done, every)
        advance(count)
        done += count
        status = watch.judge(done, norms()) or watch.limit(done)
    return status, done
