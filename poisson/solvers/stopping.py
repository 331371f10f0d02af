# SPDX-License-Identifier: MIT
"""When a solve ends, and how it ended."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from poisson.discrete.operator import Operator
from poisson.solvers.keys import Settings, real, whole, word
from poisson.solvers.status import Status

WINDOW = 10
"""After so many reads of the norm without a new minimum, and twice as many, and so on, rounding may be the cause."""

VANISHED = 1e-100
"""A residual that has fallen to this part of the first one, where nothing else says how small it should be, is zero."""

SMALLEST_SUM = 1e-280
"""Below this, squares that underflow may be missing in a sum of squares."""

GROWTH = 1e3
"""A residual that has grown by this factor diverges: no Jacobi sweep with 0 < ω ≤ 1 does that to our operators."""


class Observer(Protocol):
    """Something that watches a solve, such as a progress line."""

    def start(self, target: float, reference: str, max_iterations: int) -> None:
        """The solve begins: the residual norm to reach, what it is relative to, and the limit on sweeps."""

    def __call__(self, iteration: int, norm: float) -> None:
        """The residual norm of the iterate after `iteration` sweeps has been read."""


class Later:
    """Tells an observer of iterations that follow upon those of another method."""

    def __init__(self, observer: Observer, before: int) -> None:
        self._observer = observer
        self._before = before

    def start(self, target: float, reference: str, max_iterations: int) -> None:
        """The target is what it was."""

    def __call__(self, iteration: int, norm: float) -> None:
        if iteration:
            self._observer(self._before + iteration, norm)


@dataclass(frozen=True)
class Begun:
    """The part of a resumed solve that an earlier one has done.

    `iterations`: that made the iterate. `target`: the residual norm to reach, in U/L², as that solve had it. `history`
    (tuple of (int, float)): the norms that it read. `same`: whether the method is the same, so that its progress goes
    on as well. `instead`: the method that had gone on, for people, where the one that was chosen stalled
    (`SolveResult`).
    """

    iterations: int
    target: float
    history: tuple[tuple[int, float], ...]
    same: bool = True
    instead: str = ""


@dataclass(frozen=True)
class Patience:
    """The progress that is expected at least: that so many reads of the norm reduce it by such a factor."""

    reads: int
    factor: float


@dataclass(frozen=True)
class Stopping(Settings):
    """Tolerances and limits, and what `data`, `boundary`, `patience` and `begun` say of one solve.

    `rtol`: tolerance relative to the norm of f with its face terms or to `data`, whichever is larger; where both are
    zero, to the first residual.
    `atol`: tolerance on the residual norm itself, in U/L².
    `norm`: ``rms`` = sqrt(mean r²) over the unknowns, or ``max`` = max |r|.
    `max_iterations`: limit on sweeps.
    `check_every`: sweeps between two reads of the norm; 0 lets the solver choose.
    `stop`: ``residual``: at these tolerances. ``discretisation``: when the algebraic error is estimated to be below
    that of the discretisation, which full multigrid can do.
    `data`: what the boundary values amount to as a source, in U/L².
    `boundary`: the largest size of a boundary value, in U.
    `more_held`: whether fixed nodes hold other values than those, too.
    `patience`: a solve that makes less progress has stalled.
    `begun`: what the initial guess comes from, where the solve goes on from there; the limit on iterations holds for
    all.
    """

    rtol: float = real(
        1e-8,
        "the tolerance relative to the [norm of f or of the boundary values](numerics.md#norms-and-stopping)",
        rank=3,
        ge=0.0,
        lt=1.0,
    )
    atol: float = real(
        0.0,
        "the tolerance on the residual norm itself, in U/L²; the larger of the two tolerances counts",
        rank=4,
        ge=0.0,
    )
    norm: str = word(
        "rms", ("rms", "max"), "the norm of residuals: sqrt(mean r²) over the unknowns, or max abs(r)", rank=5
    )
    max_iterations: int = whole(200_000, "the limit on iterations", rank=6, ge=1)
    check_every: int = whole(
        0,
        "the number of sweeps between two reads of the norm; 0 lets the solver choose",
        rank=7,
        note="; 0 lets the solver choose",
    )
    stop: str = word(
        "residual",
        ("residual", "discretisation"),
        "end at the tolerances, or when the algebraic error is below the discretisation error "
        "([methods](methods.md#stopping-at-the-discretisation-error))",
        rank=14,
    )
    data: float = 0.0
    boundary: float = 0.0
    more_held: bool = False
    patience: Patience | None = None
    begun: Begun | None = None

    def measure(self, operator: Operator, reduction: tuple[float, float]) -> float:
        """The norm, from the sum of squares and the maximum that a backend gives.

        Where the squares leave the range of float64, the maximum stands for the rms norm, which it bounds from above.
        """
        total, maximum = reduction
        if math.isnan(total):
            # The maximum does not see a NaN; the sum does.
            return total
        if self.norm == "max" or not SMALLEST_SUM <= total < math.inf:
            return maximum
        return math.sqrt(total / operator.unknowns)

    def target(self, reference: float) -> float:
        """The residual norm to reach, in U/L², for the norm that `rtol` is relative to."""
        return max(self.atol, self.rtol * reference)


@dataclass
class Monitor:
    """Judges a solve by the norms that it reads.

    `target`: the norm to reach.
    `first`: the larger of the first residual norm and the norm of the source: growth is measured from it.
    `at_rounding`: says whether the residual is what rounding makes it, node by node or, given true, in norm; asked only
    when there has been no progress.
    `growth`: a residual that has grown by this factor diverges, unless it is at rounding.
    `patience`: with less progress the solve has stalled.
    `stuck`: how a solve ends that rounding keeps from going on.
    """

    target: float
    first: float
    at_rounding: Callable[[bool], bool]
    growth: float = GROWTH
    patience: Patience | None = None
    stuck: Status = Status.AT_ROUNDING
    history: list[tuple[int, float]] = field(default_factory=list)
    _norms: list[float] = field(default_factory=list)
    _best: float = math.inf
    _reads_since_best: int = 0

    def resume(self, begun: Begun) -> None:
        """Go on after the norms of another solve."""
        self.history.extend(begun.history)
        for _, norm in begun.history if begun.same else ():
            self._note(norm)

    def judge(self, iteration: int, norm: float) -> Status | None:
        """Note a norm; a status if the solve must end."""
        if not self.history or iteration > self.history[-1][0]:
            self.history.append((iteration, norm))
        elif not math.isfinite(norm):
            self.history[-1] = iteration, norm
        # A norm of f that is infinite makes the target infinite too.
        if not (math.isfinite(norm) and math.isfinite(self.target)):
            return Status.DIVERGED
        if norm <= self.target:
            return Status.CONVERGED
        if norm <= VANISHED * self.first:
            return Status.AT_ROUNDING
        if norm > self.growth * self.first and not self.at_rounding(True):
            return Status.DIVERGED
        self._note(norm)
        windows, rest = divmod(self._reads_since_best, WINDOW)
        if windows and rest == 0 and windows & (windows - 1) == 0 and self.at_rounding(False):
            return self.stuck
        return self.stalled() if self._without_progress() else None

    def _note(self, norm: float) -> None:
        self._norms.append(norm)
        self._reads_since_best = 0 if norm < self._best else self._reads_since_best + 1
        self._best = min(norm, self._best)

    def stalled(self) -> Status:
        """How a solve ends that makes no progress any more."""
        if self.history and self.history[-1][1] <= VANISHED * self.first:
            return Status.AT_ROUNDING
        return self.stuck if self.at_rounding(True) else Status.STAGNATED

    def _without_progress(self) -> bool:
        patience = self.patience
        if patience is None or len(self._norms) <= patience.reads:
            return False
        return patience.factor * self._norms[-1] > self._norms[-1 - patience.reads]


@dataclass(frozen=True)
class SolveResult:
    """How a solver left its arrays.

    `status`: how it ended, by the norms read in the loop.
    `iterations`: sweeps done to reach `u`.
    `u` (Array): the last iterate.
    `work` (Array or None): an array of the same shape that the solver no longer needs, if it has one.
    `target`: the residual norm that counts as converged, in U/L².
    `history` (tuple of (int, float)): the residual norm, in U/L², of the iterate after so many iterations, at each
    read; an iterate stands there once.
    `error`: with ``stop = "discretisation"``, the estimate of the largest error of u against the exact solution, in U.
    `instead`: the method that went on, for people, where the one that was chosen stalled.
    `norms`: (Σ r², max |r|) of the residual r = f − A u, where the last thing that the method did was to compute it.
    `copy` (Array or None): what `Task.copy` made of u, if the method has called it.
    """

    status: Status
    iterations: int
    u: Any
    work: Any
    target: float
    history: tuple[tuple[int, float], ...]
    error: float | None = None
    instead: str = ""
    norms: tuple[float, float] | None = None
    copy: Any = None
