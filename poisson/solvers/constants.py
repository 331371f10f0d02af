"""Problems that hardly hold constants: no Dirichlet face, and c or α so small that u is a large constant and a rest."""

from __future__ import annotations

from collections.abc import Callable

from poisson.backends.base import Array, Backend
from poisson.operator import Operator
from poisson.solvers.iteration import Solver, never
from poisson.solvers.spectrum import weighted_mean
from poisson.solvers.stopping import Observer, SolveResult, Stopping


class BalancedSolver:
    """A method for such a problem, before and after which u gets the constant that balances the problem as a whole.

    The differences of A see nothing of a constant, so its part of the residual is known far below the rounding of the
    others; and no iteration that the rest is reduced by comes near the eigenvalue of constants, ∫c by the volume.

    Parameters
    ----------
    backend : Backend
        Where the arrays are.
    operator : Operator
        A, for which `hardly_holds_constants`.
    method : Solver
        Reduces the rest.
    """

    def __init__(self, backend: Backend, operator: Operator, method: Solver) -> None:
        self._backend = backend
        self._operator = operator
        self.method = method
        self._r, self._ones = (backend.empty(operator.array_shape) for _ in range(2))
        self._place = backend.reduction()
        self._mean_c = operator.c
        if operator.reaction is not None:
            backend.fill(self._ones, 1.0)
            self._mean_c = weighted_mean(backend, operator, operator.reaction, self._ones, self._place)

    def solve(
        self,
        u: Array,
        f: Array,
        *,
        stopping: Stopping,
        observer: Observer | None = None,
        interrupted: Callable[[], bool] = never,
    ) -> SolveResult:
        """Solve A u = f (`Solver.solve`)."""
        self._balance(u, f)
        result = self.method.solve(u, f, stopping=stopping, observer=observer, interrupted=interrupted)
        self._balance(result.u, f)
        return result

    def _balance(self, u: Array, f: Array) -> None:
        """Add to u the constant for which the residual has no mean: ∫f = ∫c u."""
        backend, operator = self._backend, self._operator
        backend.residual(operator, u, f, self._r)
        backend.fill(self._ones, 1.0)
        mean = weighted_mean(backend, operator, self._r, self._ones, self._place)
        backend.axpby(mean / self._mean_c, self._ones, 1.0, u)
