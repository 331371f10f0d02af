# SPDX-License-Identifier: MIT
"""Terms that all commands share: exit codes, the class of commands, their output, and the values of options."""

import contextlib
import difflib
import gc
import io
import json
import logging
import math
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol, TextIO, runtime_checkable

from poisson.backends.registry import NAMES, nearest, threaded
from poisson.errors import FileChoice, OutputError, PoissonError
from poisson.parallel.communicator import Communicator

EXIT_OK = 0
EXIT_OFF = 1
EXIT_ERROR = 2
EXIT_INTERRUPTED = 130


class UsageError(PoissonError):
    """The command line is not one of those in the help."""


class Invocation(Protocol):
    """A command with its arguments, ready to be carried out."""

    def execute(self) -> int:
        """Carry it out and return the exit code."""


@runtime_checkable
class SharedInvocation(Protocol):
    """A command that several processes can carry out together."""

    @property
    def ranks(self) -> int | None:
        """How many processes are asked for."""

    def execute(self, communicator: Communicator) -> int:
        """Carry it out on the ranks of a communicator and return the exit code."""


@contextlib.contextmanager
def naming(options: Mapping[FileChoice, str]) -> Iterator[None]:
    """Let what is said of a file that cannot be written name the options that it came from."""
    try:
        yield
    except OutputError as error:
        raise OutputError(error.worded(options)) from error


@contextlib.contextmanager
def messages(*, quiet: bool) -> Iterator[None]:
    """Show the package's log on standard error while the block runs; only warnings and errors if `quiet`."""
    logger = logging.getLogger("poisson")
    handler = _Messages(logging.WARNING if quiet else logging.INFO)
    before = logger.level, logger.propagate
    logger.addHandler(handler)
    # A log in a file has all of them.
    logger.setLevel(logging.INFO)
    logger.propagate = False
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.propagate = before[1]
        logger.setLevel(before[0])  # to assign it would leave the loggers below with what they remember


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


def search_for_garbage() -> None:
    """Turn on what `poisson.__main__` has turned off, for what comes: the first searches would go through all that was
    loaded, a tenth of a small command."""
    if not gc.isenabled():
        gc.freeze()
        gc.enable()


def say(text: str) -> None:
    """Print to standard output what the command was called for.

    Raises OutputError if that cannot be written. A reader that has gone away, as `head` does, waits for nothing:
    that is no error.
    """
    if sys.stdout is None:
        raise OutputError("standard output is closed; redirect it to a file or a terminal")
    try:
        print(printable(text), file=sys.stdout, flush=True)
    except BrokenPipeError:
        discard(sys.stdout)
    except (OSError, ValueError) as error:
        discard(sys.stdout)
        reason = error.strerror if isinstance(error, OSError) else error
        raise OutputError(f"cannot write to standard output: {reason}") from error


def as_json(found: object) -> str:
    """One JSON text for programs: what is not finite is null, NumPy's numbers are numbers, and paths are texts."""
    return json.dumps(_plain(found), allow_nan=False)


def _plain(found: Any) -> Any:
    if isinstance(found, Mapping):
        return {str(key): _plain(value) for key, value in found.items()}
    if isinstance(found, (list, tuple)):
        return [_plain(value) for value in found]
    if hasattr(found, "item"):
        found = found.item()
    if isinstance(found, float):
        return found if math.isfinite(found) else None
    return found if isinstance(found, (bool, int, str, type(None))) else str(found)


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


# ---- the values of options


def whole_number(name: str, text: str, least: int = 1) -> int:
    """The value of an option that takes a whole number."""
    if not (text.isascii() and text.isdecimal() and len(text) < 10 and int(text) >= least):
        raise UsageError(f"--{name} {text}; allowed: a whole number, at least {least}")
    return int(text)


def one_of(name: str, text: str, words: Sequence[str]) -> str:
    """The value of an option that takes one of a few words."""
    if text not in words:
        near = nearest(text) if name == "backend" else next(iter(difflib.get_close_matches(text, words, n=1)), None)
        meant = f"; did you mean {near!r}?" if near else ""
        raise UsageError(f"--{name} {text}; allowed: {', '.join(words)}{meant}")
    return text


def some_of(name: str, text: str, words: Sequence[str]) -> tuple[str, ...]:
    """The value of an option that takes some of a few words, separated by commas, each once."""
    given = tuple(one_of(name, part.strip(), words) for part in text.split(","))
    return tuple(dict.fromkeys(given))


def thread_count(text: str, backends: Sequence[str]) -> int:
    """The value of ``--threads``, for backends of which one has threads to count, or may have."""
    count = whole_number("threads", text, 0)
    if count and backends and not any(threaded(name) for name in backends):
        countable = " or ".join(name for name in NAMES if threaded(name))
        raise UsageError(f"--threads {count}: only the {countable} backend has a number of threads")
    return count


def positive(name: str, text: str) -> float:
    """The value of an option that takes a positive number."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0.0 < value < float("inf"):
        raise UsageError(f"--{name} {text}; allowed: a finite number > 0")
    return value


def grid_shape(name: str, text: str, least: int) -> tuple[int, ...]:
    """Nodes along x, y(, z), joined by x."""
    numbers = tuple(whole_number(name, part, least) for part in text.split("x"))
    if len(numbers) not in (2, 3):
        raise UsageError(f"--{name} {text}; allowed: NXxNY or NXxNYxNZ")
    return numbers


def box(name: str, text: str, least: int) -> tuple[int, int, int]:
    """Nodes along x, y and z: one number for all, or three joined by x."""
    numbers = [whole_number(name, part.strip(), least) for part in text.split("x")]
    if len(numbers) not in (1, 3):
        raise UsageError(f"--{name} {text}; allowed: one number for a cube, or NXxNYxNZ")
    nx, ny, nz = numbers * (3 // len(numbers))
    return nx, ny, nz


def overrides(pairs: Sequence[str], *, output: str | None = None, backend: str | None = None) -> tuple[str, ...]:
    """The overrides for the case file; the options come last, so that they win."""
    for pair in pairs:
        key, equals, _ = pair.partition("=")
        if not (key.strip() and equals):
            raise UsageError(f"--set {pair}; allowed: KEY=VALUE, such as --set solver.rtol=1e-6")
    named = {("output.file", "--output"): output, ("run.backend", "--backend"): backend}
    given = {option: value for option, value in named.items() if value is not None}
    if not given:
        return tuple(pairs)
    from poisson.case import toml

    return (*pairs, *(toml.ByOption(f"{key}={toml.string(value)}", option) for (key, option), value in given.items()))


def rank_count(text: str | None) -> int | None:
    """The value of ``--ranks``: how many processes, if it is given."""
    return None if text is None else whole_number("ranks", text)
