# SPDX-License-Identifier: MIT
"""``--log FILE``: what happens in a solve, as JSON, an object a line, readable while it goes on."""

import contextlib
import json
import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TextIO

from poisson.cli.terms import as_json, complain
from poisson.errors import OutputError
from poisson.solvers.stopping import Observer

EVENT = "event"
"""The key that every object has, with what it tells of."""

_FIRST_BYTES = 4096


class Journal(logging.Handler):
    """A log of one solve: an observer of it, and of what the package says meanwhile.

    `stream`: where to write; a line is there as soon as it is written. `name`: of the file, for messages. `clock`:
    gives the time in seconds.
    """

    def __init__(self, stream: TextIO, name: str, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(logging.INFO)
        self._stream: TextIO | None = stream
        self._name = name
        self._clock = clock
        self._begin = clock()
        self._before: list[tuple[str, Mapping[str, Any]]] | None = []
        """Events from before the case is known, which the first line has to name."""

    @classmethod
    @contextlib.contextmanager
    def opened(cls, path: str) -> "Iterator[Journal]":
        """A log in a file, to which it is added; within, it hears what the package says.

        Raises OutputError if the file cannot be written, or is none of these logs.
        """
        with _appended(Path(path)) as stream:
            journal = cls(stream, path)
            logger = logging.getLogger("poisson")
            logger.addHandler(journal)
            try:
                yield journal
            finally:
                logger.removeHandler(journal)

    def note(self, event: str, found: Mapping[str, Any]) -> None:
        """Write a line, after that of `begin`."""
        if self._stream is None:
            return
        if self._before is not None:
            self._before.append((event, found))
            return
        line = as_json({EVENT: event, "elapsed": self._clock() - self._begin, **found})
        try:
            self._stream.write(f"{line}\n")
        except OSError as error:
            # A solve of hours is not to be lost for its log.
            self._stream = None
            complain(f"warning: {self._name}: the log is incomplete from here on: {error.strerror}")

    def begin(self, found: Mapping[str, Any]) -> None:
        """Write the first line of a solve."""
        before, self._before = self._before, None
        self.note("start", {"time": datetime.now(UTC).isoformat(timespec="seconds"), **found})
        for event, told in before or ():
            self.note(event, told)

    def end(self, found: Mapping[str, Any]) -> None:
        """Write the last line."""
        if self._before is not None:
            self.begin({})
        self.note("end", found)

    def start(self, target: float, reference: str, max_iterations: int) -> None:
        """As of `poisson.solvers.stopping.Observer`."""
        self.note("target", {"target": target, "relative_to": reference, "max_iterations": max_iterations})

    def __call__(self, iteration: int, norm: float) -> None:
        """As of `poisson.solvers.stopping.Observer`."""
        self.note("norm", {"iteration": iteration, "residual": norm})

    def emit(self, record: logging.LogRecord) -> None:
        """Write what the package says."""
        event = "message" if record.levelno < logging.WARNING else "warning"
        self.note(event, {"text": record.getMessage()})


class Observers:
    """Several observers of one solve."""

    def __init__(self, observers: Sequence[Observer]) -> None:
        self._observers = observers

    def start(self, target: float, reference: str, max_iterations: int) -> None:
        """As of `poisson.solvers.stopping.Observer`."""
        for observer in self._observers:
            observer.start(target, reference, max_iterations)

    def __call__(self, iteration: int, norm: float) -> None:
        """As of `poisson.solvers.stopping.Observer`."""
        for observer in self._observers:
            observer(iteration, norm)


@contextlib.contextmanager
def _appended(path: Path) -> Iterator[TextIO]:
    place = "; choose another file with --log"
    try:
        stream = path.open("a+", buffering=1, encoding="utf-8")
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise OutputError(f"{path}: cannot write the log: {reason}{place}") from error
    try:
        stream.seek(0)
        try:
            ours = _is_a_log(stream.readline(_FIRST_BYTES))
        except ValueError:
            ours = False
        if not ours:
            raise OutputError(f"{path}: not a log of 'poisson solve'; not overwritten{place}")
        yield stream
    finally:
        with contextlib.suppress(OSError):
            stream.close()


def _is_a_log(first: str) -> bool:
    """Whether a file with this first line is empty or one of ours; a long first line, which has the case, is cut."""
    return not first or first.startswith(json.dumps({EVENT: "start"})[:-1])
