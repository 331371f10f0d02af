# SPDX-License-Identifier: MIT
"""Nearly singular problems: no Dirichlet face, and c or α so small that u is a large constant and a small rest."""

from dataclasses import replace
from functools import partial

from poisson.backends.base import Array, Operations
from poisson.solvers.iteration import Iterate, Method, Norms, Task, Watch
from poisson.solvers.spectrum import weighted_mean, without_reaction
from poisson.solvers.status import Status
from poisson.solvers.stopping import SolveResult

MOST_ROUNDS = 10
"""Each reduces the residual to some part of c by the smallest eigenvalue without it."""

GAIN = 0.5
"""A round is worth another one if it leaves less than this part of the residual."""


class BalancedMethod(Method):
    """Solves for the constant by the balance of the whole, and for the rest by a method for the problem with c = 0.

    The differences of A see nothing of a constant, so its part of the residual, ∫f − ∫c u, is known far below the
    rounding of the others. The rest has no mean, which nothing in a singular problem amplifies. What c does to the rest
    is left to the next round.

    `operations`: those of A, which is `nearly_singular`. `method`: for the operator without c. `plain`: those of that
    operator, which `method` works with.
    """

    def __init__(self, operations: Operations, method: Method, plain: Operations) -> None:
        backend, operator = operations.backend, operations.operator
        self._operations = operations
        self._backend = operations.backend
        self.method = method
        self._plain = plain
        self._r, self._e = (backend.empty(operator.array_shape) for _ in range(2))
        self._sum: Array | None = None
        self._place = backend.reduction()
        self._mean_c = self._mean()

    def refresh(self) -> bool:
        """Go over to other coefficients (`Method.refresh`), with which the operator is nearly singular, too."""
        self._plain.rebind(without_reaction(self._operations.operator))
        self._mean_c = self._mean()
        return self.method.refresh()

    def _mean(self) -> float:
        """The mean of c, with the terms of Robin faces."""
        operator = self._operations.operator
        if operator.reaction is None:
            return operator.c
        self._backend.fill(self._e, 1.0)
        return weighted_mean(self._operations, operator.reaction, self._e, self._place)

    def run(self, task: Task) -> SolveResult:
        operations, backend = self._operations, self._backend
        u, f = task.u, operations.settled(task.f)
        watch = Watch(operations, task, self._place)
        source, guess = watch.source(f), self._residual(u, f)
        now = self._balanced(u, f)
        status, done = watch.begin(source, now, lambda: u, guess), 0
        for _ in range(MOST_ROUNDS):
            if status is not None:
                break
            backend.fill(self._e, 0.0)
            part = watch.part(self._e, self._r, GAIN * watch.target, done, partial(self._whole, u))
            result = self.method.run(part)
            backend.axpby(1.0, result.u, 1.0, u)
            done, before = done + result.iterations, now
            if not result.status.success and watch.norm(self._residual(u, f)) > watch.norm(before):
                backend.axpby(-1.0, result.u, 1.0, u)  # a method that has lost its way
            now = self._balanced(u, f)
            status = watch.judge(done, now)
            if status is None and not (result.status.success and watch.norm(now) < GAIN * watch.norm(before)):
                broken_off = result.status in (Status.INTERRUPTED, Status.MAX_ITERATIONS)
                status = result.status if broken_off else watch.stalled()
            status = status or watch.limit(done)
        return watch.result(status or Status.STAGNATED, done, u, self._r)

    def _whole(self, u: Array, part: Iterate) -> Iterate:
        """The sum of u and of an iterate of its correction."""

        def together() -> Array:
            if self._sum is None:
                self._sum = self._backend.empty(self._operations.operator.array_shape)
            self._backend.axpby(1.0, u, 0.0, self._sum)
            self._backend.axpby(1.0 / part.factor, part.u(), 1.0, self._sum)
            return self._sum

        return replace(part, u=together, factor=1.0)

    def _balanced(self, u: Array, f: Array) -> Norms:
        """Add to u the constant for which the residual has no mean, and return the norms of that residual."""
        operations, backend = self._operations, self._backend
        self._residual(u, f)
        backend.fill(self._e, 1.0)
        mean = weighted_mean(operations, self._r, self._e, self._place)
        backend.axpby(mean / self._mean_c, self._e, 1.0, u)
        return self._residual(u, f)

    def _residual(self, u: Array, f: Array) -> Norms:
        self._operations.residual(u, f, self._r, self._place)
        return self._backend.read(self._place)
