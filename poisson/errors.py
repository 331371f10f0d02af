# SPDX-License-Identifier: MIT
"""The errors that a user can cause or meet.

Each carries one line that names the cause and the fix. The command line prints that line and exits with code 2;
anything that is not a `PoissonError` is a defect of this package and keeps its traceback.
"""

from collections.abc import Iterable, Iterator, Mapping
from enum import Enum
from typing import Any


class PoissonError(Exception):
    """The parent of every error that a user can act on; its text is one line, with the cause and the fix.

    Examples
    --------
    >>> poisson.solve(poisson.Problem.on_box((33, 33)), "multigrit")
    Traceback (most recent call last):
    poisson.errors.CaseError: solver.method: "multigrit"; allowed: ...
    """


class ExpressionError(PoissonError):
    """A text in a case file is not in the grammar of `poisson.problem.expressions`."""


class CaseError(PoissonError):
    """A case file, or an argument, is wrong; ``mistakes`` holds a line for each mistake found, be it one or several."""

    def __init__(self, mistakes: str | Iterable[str]) -> None:
        self.mistakes = (mistakes,) if isinstance(mistakes, str) else tuple(mistakes)
        super().__init__("\n".join(self.mistakes))

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.mistakes,)


class GridError(PoissonError):
    """The grid has too few nodes for what is asked of it, or axes that the backend does not take."""


class BackendUnavailable(PoissonError):
    """The backend asked for cannot run here: no device, no library, no package."""


FORKED = "a GPU that was used before a fork cannot be used after it: start processes with the method 'spawn'"
"""The message of `BackendUnavailable` in a forked process."""


class ResourceError(PoissonError):
    """The machine has too little memory or disk for the case."""


class BackendFailed(PoissonError):
    """A backend that was there does not work: the device is lost, a kernel does not compile, a library fails."""


class PackageMissing(PoissonError):
    """A package that only this needs is not installed."""


class IncompatibleSource(PoissonError):
    """A singular problem has no solution: the source and the boundary data do not balance."""


class NotConverged(PoissonError, UserWarning):
    """A solve has ended before u is the solution to the tolerance: a warning, with ``strict=True`` an error.

    Parameters
    ----------
    text : str
        How it ended, in one line.
    solution : Solution, optional
        What there is, where it is an error.

    Examples
    --------
    >>> problem = poisson.Problem.on_box((33, 33), f=1.0)
    >>> try:
    ...     solution = poisson.solve(problem, "jacobi", max_iterations=10, strict=True)
    ... except poisson.NotConverged as error:
    ...     solution = error.solution
    >>> solution.status, solution.iterations
    (<Status.MAX_ITERATIONS: 'max_iterations'>, 10)
    """

    def __init__(self, text: str, solution: Any = None) -> None:
        super().__init__(text)
        self.solution = solution

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (str(self), self.solution)


class CheckWarning(UserWarning):
    """The concerns of ``python -m poisson check`` about a problem that was solved all the same.

    It has one line for each concern, with the key of a case file that it is about, and a way out. A `Solver` warns with
    its first solve. ``warnings.simplefilter("ignore", poisson.CheckWarning)`` turns it off.

    Examples
    --------
    >>> import warnings
    >>> penalty = "where(x < 0.5, 1e9, 0)"
    >>> with warnings.catch_warnings(record=True, action="always") as caught:
    ...     solution = poisson.solve(poisson.Problem.on_box((33, 33), f=penalty, c=penalty))
    >>> print(caught[0].message)
    equation.c: the coefficient is as large as 1e+09, and a residual at the tolerance says little: ...
    """


class FileChoice(Enum):
    """The choices of a user when a file is written, with the words by which Python's callers choose it."""

    PLACE = ""  # a path is an argument, which need not be named
    OVERWRITE = " by overwrite=True"


class OutputError(PoissonError):
    """A file could not be written or read.

    Its text is worded for those who call the package from Python. Whoever lets the user choose in another way, as the
    command line by its options, asks for the text in its own words.

    `*parts`: the line, in pieces; a `FileChoice` stands where the text is to say how to make it, an error for its own
    pieces.
    """

    def __init__(self, *parts: "str | FileChoice | OutputError") -> None:
        self.parts = tuple(_flat(parts))
        super().__init__(self.worded({}))

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), self.parts

    def worded(self, words: Mapping[FileChoice, str]) -> str:
        """The line with other words for the choices, such as ``" with --output"``."""
        return "".join(part if isinstance(part, str) else words.get(part, part.value) for part in self.parts)


def _flat(parts: Iterable[str | FileChoice | OutputError]) -> Iterator[str | FileChoice]:
    for part in parts:
        yield from part.parts if isinstance(part, OutputError) else (part,)


class RemoteFailure(PoissonError):
    """Another of the processes that solve one problem together has failed, and all end.

    `rank`: which of them. `text`: what it said. `code`: the exit code that it ends with.
    """

    def __init__(self, rank: int, text: str, code: int) -> None:
        self.rank = rank
        self.text = text
        self.code = code
        super().__init__(f"process {rank} has failed: {text}")

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.rank, self.text, self.code)
