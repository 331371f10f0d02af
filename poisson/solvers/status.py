# SPDX-License-Identifier: MIT
"""How a solve ended, with advice."""

from enum import StrEnum


class Status(StrEnum):
    """How a solve ended: a text, the name that stands in output files.

    Examples
    --------
    >>> solution = poisson.solve(poisson.Problem.on_box((33, 33), f=1.0))
    >>> solution.status
    <Status.CONVERGED: 'converged'>
    >>> solution.status == "converged", solution.status.success
    (True, True)
    """

    CONVERGED = "converged"
    AT_ROUNDING = "at_rounding"
    CONVOLVED = "convolved"
    MAX_ITERATIONS = "max_iterations"
    STAGNATED = "stagnated"
    DIVERGED = "diverged"
    INTERRUPTED = "interrupted"
    UNFINISHED = "unfinished"

    @property
    def advice(self) -> str:
        """The meaning of the status and the remedy, in one line.

        Examples
        --------
        >>> poisson.Status.INTERRUPTED.advice
        'stopped before the end; u is the last complete iterate'
        """
        return _ADVICE[self]

    @property
    def exit_code(self) -> int:
        """Exit code of the command: 0 for a success, 130 interrupted, 1 otherwise.

        Examples
        --------
        >>> poisson.Status.DIVERGED.exit_code
        1
        """
        return 0 if self.success else 130 if self is Status.INTERRUPTED else 1

    @property
    def goes_on(self) -> bool:
        """Whether more iterations may reach the solution: nothing was wrong when there were no more.

        Examples
        --------
        >>> poisson.Status.MAX_ITERATIONS.goes_on, poisson.Status.DIVERGED.goes_on
        (True, False)
        """
        return self in (Status.UNFINISHED, Status.INTERRUPTED, Status.MAX_ITERATIONS)

    @property
    def success(self) -> bool:
        """Whether u is the solution: to the tolerance, or to rounding where the tolerance asks for more than that; or
        the convolution that was asked for, which no residual certifies.

        Examples
        --------
        >>> [status.value for status in poisson.Status if status.success]
        ['converged', 'at_rounding', 'convolved']
        """
        return self in (Status.CONVERGED, Status.AT_ROUNDING, Status.CONVOLVED)


_ADVICE = {
    Status.CONVERGED: "the residual, recomputed in float64, is below the tolerance",
    Status.MAX_ITERATIONS: "the limit on iterations was reached first; raise solver.max_iterations or solver.rtol",
    Status.AT_ROUNDING: "the residual is as small as rounding allows in this precision; the target is smaller",
    Status.CONVOLVED: "u is the convolution of f with solver.kernel; the residual is that of the difference equations, "
    "which u does not solve",
    Status.STAGNATED: "the residual stopped falling or falls too slowly; use another solver.method or preconditioner",
    Status.DIVERGED: "the residual grew or is not finite; check the size of f, c and the boundary data",
    Status.INTERRUPTED: "stopped before the end; u is the last complete iterate",
    Status.UNFINISHED: "a checkpoint of an unfinished solve, which can be resumed",
}
