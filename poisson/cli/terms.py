"""What every command shares: exit codes, what a command is, and how it speaks."""

from __future__ import annotations

import contextlib
import io
import logging
import os
import sys
from collections.abc import Iterator, Mapping
from typing import Protocol, TextIO, runtime_checkable

from poisson.errors import Choice, OutputError, PoissonError
from poisson.parallel.communicator import Communicator

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


@runtime_checkable
class SharedRequest(Protocol):
    """A command that several processes can carry out together."""

    @property
    def ranks(self) -> int | None:
        """How many processes are asked for."""

    def execute(self, communicator: Communicator) -> int:
        """Carry it out on the ranks of a communicator and return the exit code."""


@contextlib.contextmanager
def naming(options: Mapping[Choice, str]) -> Iterator[None]:
    """Let what is said of a file that cannot be written name the options that it came from."""
    try:
        yield
    except OutputError as error:
        raise OutputError(error.worded(options)) from error


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
                murmur(text)
            else:
                complain(f"{record.levelname.lower()}: {text}")


def say(text: str) -> None:
    """Print to standard output what the command was called for.

    Raises
    ------
    OutputError
        If that cannot be written. A reader that has gone away, as `head` does, waits for nothing: that is no error.
    """
    if sys.stdout is None:
        raise OutputError("standard output is closed; send it to a file or a terminal")
    try:
        print(printable(text), file=sys.stdout, flush=True)
    except BrokenPipeError:
        discard(sys.stdout)
    except (OSError, ValueError) as error:
        discard(sys.stdout)
        reason = error.strerror if isinstance(error, OSError) else error
        raise OutputError(f"standard output cannot be written: {reason}") from error


def complain(text: str) -> None:
    """Print a message to standard error; where nobody can read it, it is dropped."""
    murmur(f"poisson: {text}")


def murmur(text: str) -> None:
    """Print text to standard error as it is; where nobody can read it, it is dropped."""
    try:
        print(printable(text), file=sys.stderr, flush=True)
    except (OSError, ValueError):
        discard(sys.stderr)


def printable(text: str) -> str:
    """`text` in lines, with whatever could steer a terminal written as an escape sequence of Python."""
    return "".join(
        character if character.isprintable() or character == "\n" else character.encode("unicode_escape").decode()
        for character in text
    )


def discard(stream: TextIO) -> None:
    """Let what still waits to be written to a stream, and all that follows, go nowhere."""
    with contextlib.suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)


@contextlib.contextmanager
def streams() -> Iterator[None]:
    """Make the standard streams fit to be used, whatever the caller has left of them, while the block runs.

    A file opened in the place of one that is closed would receive what is printed; so those places are taken.
    """
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115 - it stays open as long as the process lives
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # A title that the terminal's encoding lacks must not end a run.
            stream.reconfigure(errors="backslashreplace")
    try:
        yield
    finally:
        for stream in (sys.stdout, sys.stderr):
            # What is left at the end of the process would be complained about by the interpreter.
            try:
                if stream is not None:
                    stream.flush()
            except (OSError, ValueError):
                discard(stream)
