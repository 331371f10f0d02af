# SPDX-License-Identifier: MIT
"""The message of a failed rank to the others."""

import signal
import traceback
from dataclasses import dataclass

from poisson.errors import PoissonError, RemoteFailure

MOST_TOLD = 4000
"""Characters of a message that go to the others: more than any mistakes of a case have."""

CODE_DEFECT = 1
CODE_ERROR = 2
CODE_INTERRUPTED = 130


def signal_of(interrupt: KeyboardInterrupt) -> int:
    """The signal of an interrupt, which it carries where that was not Ctrl-C."""
    number: int = getattr(interrupt, "number", signal.SIGINT)
    return number


def code_of(interrupt: KeyboardInterrupt) -> int:
    """The exit code of what was interrupted: 128 and the signal, as of a process that the signal itself has ended.

    By SIGUSR1 launchers hand Ctrl-C on.
    """
    number = signal_of(interrupt)
    return CODE_INTERRUPTED if number == signal.SIGUSR1 else 128 + number


@dataclass(frozen=True)
class Failure:
    """How a rank failed.

    `rank`: which one. `text`: what there is to say, in lines; empty of an interrupt. `code`: the exit code: above 128
    of an interrupt, 2 of what a user can mend, 1 of a defect.
    """

    rank: int
    text: str
    code: int

    @classmethod
    def of(cls, rank: int, error: BaseException) -> "Failure":
        """The failure that an exception is; a defect keeps its traceback."""
        if isinstance(error, KeyboardInterrupt):
            return cls(rank, str(error), code_of(error))
        if isinstance(error, PoissonError):
            return cls(rank, str(error)[:MOST_TOLD], CODE_ERROR)
        if isinstance(error, MemoryError):
            detail = f" ({error})" if str(error) else ""
            return cls(rank, f"not enough memory{detail}; use fewer nodes (domain.shape)", CODE_ERROR)
        return cls(rank, "".join(traceback.format_exception(error))[-MOST_TOLD:], CODE_DEFECT)

    @property
    def interrupt(self) -> bool:
        """Whether it was interrupted, by whatever signal."""
        return self.code > 128

    @property
    def remote(self) -> RemoteFailure:
        """The error that the others raise."""
        return RemoteFailure(self.rank, self.text or "interrupted", self.code)
