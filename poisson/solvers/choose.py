# SPDX-License-Identifier: MIT
"""``method = "auto"``: which method a problem gets, why, and the time it should take. docs/methods.md has the table."""

from dataclasses import dataclass

from poisson.backends.base import Operations
from poisson.solvers import registry
from poisson.solvers.expected import Offer, Outline, Question
from poisson.solvers.settings import SolverSettings
from poisson.solvers.stopping import Patience


@dataclass(frozen=True)
class Choice:
    """A method for a problem.

    `settings`: with a method other than ``auto``.
    `precision`: ``float64``, ``float32`` or ``mixed``.
    `reason`: why, in a few words.
    `seconds`: the time that a solve should take, without its set-up.
    `steady`: whether nothing else was at work while that was measured.
    `stream`: the bandwidth that was measured in bytes a second, and whether steadily.
    """

    settings: SolverSettings
    precision: str
    reason: str
    seconds: float
    steady: bool = True
    stream: tuple[float, bool] | None = None

    @property
    def line(self) -> str:
        """The choice in one line: the method, the reason, and the expected time."""
        return f"method {registry.describe(self.settings, self.precision)}, as {self.reason}; {self.expectation}"

    @property
    def expectation(self) -> str:
        """The time it should take, which is not known where other programs are at work."""
        if not self.steady:
            return "no time estimate: the machine is busy"
        return f"about {time_for_people(self.seconds)} expected"


def choose(
    operations: Operations | Outline, settings: SolverSettings, precision: str, before: Choice | None = None
) -> Choice:
    """Choose a method: of those that offer to solve the problem the one that should take the least time.

    `operations`: those of A, where it will run; the free memory and the time of a pass over memory count. `settings`:
    with ``method = "auto"``. `precision`: what was asked for; ``float64`` may become ``mixed``, which reaches the same
    residual. `before`: one for another operator on the same grid and backend, whose bandwidth is not measured again.
    """
    question = Question(operations, settings, precision, before.stream if before else None)
    # Where the grid is divided, all ranks find this out together; what follows each finds out for itself.
    _ = question.mixed
    answers = [entry.offer(question) for entry in registry.methods().values() if entry.offer]
    offers = sorted((answer for answer in answers if isinstance(answer, Offer)), key=lambda offer: offer.usual)
    out = [answer for answer in answers if isinstance(answer, str)]
    best, *others = offers
    reasons = [best.because] if best.because else []
    if others:
        reasons.append(f"{others[0].noun} would take {others[0].usual / best.usual:.1f} times as long")
    elif not reasons:
        reasons = out
    reason = ", and ".join(reasons)
    return Choice(best.settings, best.precision, reason, best.seconds, question.steady, question.stream)


def alternatives(settings: SolverSettings, products: bool = False) -> tuple[SolverSettings, ...]:
    """The methods to go on with, one after the other, where a chosen method stalls.

    With `products` they may have Galerkin coarse grids (`has_products`), after those that averages did not help.
    """
    others = []
    for method, name in registry.standing_by():
        others.append(settings.having(method=method, preconditioner=name))
        if products and "coarse" in registry.preconditioner_of(others[-1]).keys:
            others.append(others[-1].having(coarse="galerkin"))
    others = list(dict.fromkeys(others))
    if all(settings.method != other.method for other in others):
        return tuple(others)
    return tuple(others[others.index(settings) + 1 :]) if settings in others else ()


def patience_with(settings: SolverSettings) -> Patience | None:
    """The progress that is expected of a method as long as there are alternatives to it."""
    return registry.method_of(settings).patience if alternatives(settings) else None


def time_for_people(seconds: float) -> str:
    """A time with two digits: ``45 us``, ``3.2 ms``, ``1.5 s``, ``3.4 min``."""
    for unit, factor in (("us", 1e-6), ("ms", 1e-3), ("s", 1.0)):
        value = seconds / factor
        if value < (99.5 if unit == "s" else 995.0):
            return f"{value:.0f} {unit}" if value >= 9.95 else f"{value:.1f} {unit}"
    return f"{seconds / 60.0:.1f} min"
