"""The errors that a user can cause or meet.

Each carries one line that names the cause and the fix. The command line prints that line and exits with code 2;
anything that is not a `PoissonError` is a defect of this package and keeps its traceback.
"""

from collections.abc import Iterable


class PoissonError(Exception):
    """The parent of every error that a user can act on."""


class ExpressionError(PoissonError):
    """A text in a case file is not in the grammar of `poisson.problem.expressions`."""


class CaseError(PoissonError):
    """A case file is wrong; ``mistakes`` holds one line for each mistake found."""

    def __init__(self, mistakes: Iterable[str]) -> None:
        self.mistakes = tuple(mistakes)
        super().__init__("\n".join(self.mistakes))


class GridError(PoissonError):
    """The grid has too few nodes for what is asked of it."""


class BackendUnavailable(PoissonError):
    """The backend asked for cannot run here: no device, no library, no package."""


FORKED = "a GPU that was used before a fork cannot be used after it: start processes with the method 'spawn'"
"""What `BackendUnavailable` says there."""


class ResourceError(PoissonError):
    """The machine has too little memory or disk for the case."""


class PackageMissing(PoissonError):
    """A package that only this needs is not installed."""


class IncompatibleSource(PoissonError):
    """A singular problem has no solution: the source and the boundary data do not balance."""


class OutputError(PoissonError):
    """A result could not be written or read."""
