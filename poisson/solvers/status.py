"""How a solve ended, with advice."""

from __future__ import annotations

from enum import Enum


class Status(Enum):
    """How a solve ended. The value is the name that stands in output files."""

    CONVERGED = "converged"
    MAX_ITERATIONS = "max_iterations"
    STAGNATED = "stagnated"
    DIVERGED = "diverged"
    INTERRUPTED = "interrupted"

    @property
    def advice(self) -> str:
        """What it means and what to do about it, in one line."""
        return _ADVICE[self]

    @property
    def exit_code(self) -> int:
        """Exit code of the command: 0 converged, 130 interrupted, 1 otherwise."""
        return {Status.CONVERGED: 0, Status.INTERRUPTED: 130}.get(self, 1)


_ADVICE = {
    Status.CONVERGED: "the residual, recomputed in float64, is below the tolerance",
    Status.MAX_ITERATIONS: "the limit on iterations was reached first; raise solver.max_iterations or solver.rtol",
    Status.STAGNATED: "the residual is at its rounding level, above the tolerance; raise solver.rtol, or use float64",
    Status.DIVERGED: "the residual grew or is not finite; check the size of f, c and the boundary data",
    Status.INTERRUPTED: "stopped by the user; u is the last complete iterate",
}
