"""What every command shares: exit codes, what a command is, and how it speaks."""

from __future__ import annotations

import contextlib
import logging
import os
import sys
from collections.abc import Iterator
from typing import Protocol, TextIO

from poisson.errors import PoissonError

EXIT_OK = 0
EXIT_OFF = 1
EXIT_ERROR = 2
EXIT_INTERRUPTED = 130


class UsageError(PoissonError):
    """The command line is not one of those in the help."""


class Request(Protocol):
    """A command with its arguments, ready to be carried out."""

    def execute(self) -> int:
        """Carry it out and return the exit code."""


@contextlib.contextmanager
def messages(*, quiet: bool) -> Iterator[None]:
    """Show the package's log on standard error while the block runs; only warnings and errors if `quiet`."""
    logger = logging.getLogger("poisson")
    handler = _Messages()
    before = logger.level, logger.propagate
    logger.addHandler(handler)
    logger.setLevel(logging.WARNING if quiet else logging.INFO)
    logger.propagate = False
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.level, logger.propagate = before


class _Messages(logging.Handler):
    """Writes to what is standard error at the moment: the progress line puts its own in place while it stands."""

    def emit(self, record: logging.LogRecord) -> None:
        text = self.format(record)
        # A message from a signal handler can meet a write that is under way; the stream then refuses it.
        with contextlib.suppress(RuntimeError):
            if record.levelno < logging.WARNING:
                _print(text, sys.stderr)
            else:
                complain(f"{record.levelname.lower()}: {text}")


def say(text: str) -> None:
    _print(text, sys.stdout)


def complain(text: str) -> None:
    _print(f"poisson: {text}", sys.stderr)


def _print(text: str, stream: TextIO) -> None:
    try:
        print(text, file=stream, flush=True)
    except BrokenPipeError:
        # The reader has gone, as `head` does: nobody waits for the rest, and the exit code stays what it is.
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
