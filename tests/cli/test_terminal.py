# SPDX-License-Identifier: MIT
"""What the user sees at the terminal: progress, tables."""

import fcntl
import io
import logging
import os
import pty
import re
import struct
import sys
import termios
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest

from poisson.cli.terminal import Progress, duration, table
from poisson.cli.terms import messages


class Clock:
    """A clock that the test moves."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def drive(progress: Progress, clock: Clock, seconds: float) -> None:
    """1024 sweeps a second, with a norm read every 16 sweeps that halves each second."""
    progress.start(0.75 * 2.0**-20, "f", 100_000)
    for step in range(round(seconds * 64) + 1):
        clock.now = step / 64
        progress(step * 16, 2.0 ** (-clock.now))


HEADING = "target: residual 7.153e-07, relative to f; at most 100000 sweeps"


def test_progress_without_a_terminal_thins_out() -> None:
    stream, clock = io.StringIO(), Clock()
    with Progress(2e6, stream=stream, clock=clock) as progress:
        drive(progress, clock, 10.0)
    assert stream.getvalue().splitlines() == [
        HEADING,
        "sweep 2048, residual 2.50e-01, 1024 sweeps/s, 2.05 GB/s, 19 s left",
        "sweep 3072, residual 1.25e-01, 1024 sweeps/s, 2.05 GB/s, 18 s left",
        "sweep 4608, residual 4.42e-02, 1024 sweeps/s, 2.05 GB/s, 16 s left",
        "sweep 6912, residual 9.29e-03, 1024 sweeps/s, 2.05 GB/s, 14 s left",
    ]


@pytest.mark.parametrize("norm", [1.0, float("nan"), float("inf"), 0.0])
def test_progress_that_does_not_converge_tells_the_time_to_the_limit(norm: float) -> None:
    stream, clock = io.StringIO(), Clock()
    progress = Progress(2e6, stream=stream, clock=clock)
    progress.start(1e-8, "", 10_000)
    for second in range(3):
        clock.now = float(second)
        progress(1000 * second, norm)
    assert stream.getvalue().splitlines()[-1].endswith(", 1000 sweeps/s, 2 GB/s, 8 s to the limit")


def test_progress_quiet() -> None:
    stream, clock = io.StringIO(), Clock()
    with Progress(2e6, quiet=True, stream=stream, clock=clock) as progress:
        drive(progress, clock, 10.0)
    assert stream.getvalue() == ""


def test_progress_survives_a_reader_that_goes_away() -> None:
    read, write = os.pipe()
    clock = Clock()
    os.close(read)
    stream = os.fdopen(write, "w")
    with Progress(2e6, stream=stream, clock=clock) as progress:
        drive(progress, clock, 10.0)
    with pytest.raises(BrokenPipeError):
        stream.close()


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[int, Any]]:
    """A pseudo-terminal of 200 columns: the descriptor of the user's side and the program's stream."""
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("COLUMNS", raising=False)
    user, program = pty.openpty()
    fcntl.ioctl(program, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 200, 0, 0))
    with open(program, "w") as stream:
        yield user, stream
    os.close(user)


def shown(user: int) -> str:
    os.set_blocking(user, False)
    pieces = []
    while True:
        try:
            pieces.append(os.read(user, 65536))
        except BlockingIOError:
            return b"".join(pieces).decode()


LAST_LINE = "sweep 1536, residual 3.54e-01, 1024 sweeps/s, 2.05 GB/s, 19 s left"
CLEAR_LINE = "\x1b[2K"


def test_progress_on_a_terminal_is_one_line_that_is_cleared(terminal: tuple[int, Any]) -> None:
    user, stream = terminal
    clock = Clock()
    with Progress(2e6, stream=stream, clock=clock) as progress:
        drive(progress, clock, 1.5)
        stream.flush()
        text = shown(user)
    assert text.startswith(HEADING + "\r\n")
    assert text.count("\r\n") == 1
    assert len(re.findall("sweep [0-9]+, residual", text)) == 9
    assert text.endswith(LAST_LINE)
    assert shown(user).endswith(CLEAR_LINE)


def test_progress_has_no_colours_where_the_user_wants_none(
    terminal: tuple[int, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    user, stream = terminal
    clock = Clock()
    with Progress(2e6, stream=stream, clock=clock) as progress:
        drive(progress, clock, 1.5)
        stream.flush()
        text = shown(user)
    assert LAST_LINE in text
    assert not re.search("\x1b\\[[0-9;]*m", text.replace("\x1b[0m", ""))


def test_progress_clears_its_line_when_the_solve_fails(terminal: tuple[int, Any]) -> None:
    user, stream = terminal
    clock = Clock()
    with pytest.raises(KeyboardInterrupt), Progress(2e6, stream=stream, clock=clock) as progress:
        drive(progress, clock, 1.0)
        shown(user)
        raise KeyboardInterrupt
    assert shown(user).endswith(CLEAR_LINE)


def test_progress_on_a_terminal_shows_nothing_for_a_short_solve(terminal: tuple[int, Any]) -> None:
    user, stream = terminal
    clock = Clock()
    with Progress(2e6, stream=stream, clock=clock) as progress:
        drive(progress, clock, 0.4)
    assert shown(user) == ""


def test_a_log_line_stands_above_the_progress_line(terminal: tuple[int, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    user, stream = terminal
    monkeypatch.setattr(sys, "stderr", stream)
    clock = Clock()
    with messages(quiet=False), Progress(2e6, clock=clock) as progress:
        drive(progress, clock, 1.0)
        shown(user)
        logging.getLogger("poisson.run.run").info("a message")
        text = shown(user)
    assert re.search(r"a message *\r\n.*sweep 1024", text, re.DOTALL)


def test_progress_on_a_terminal_without_control_codes_is_plain(
    terminal: tuple[int, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    user, stream = terminal
    monkeypatch.setenv("TERM", "dumb")
    clock = Clock()
    with Progress(2e6, stream=stream, clock=clock) as progress:
        drive(progress, clock, 2.5)
    assert "\x1b" not in (text := shown(user))
    assert text == HEADING + "\r\nsweep 2048, residual 2.50e-01, 1024 sweeps/s, 2.05 GB/s, 19 s left\r\n"


def test_progress_survives_a_terminal_that_goes_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    user, program = pty.openpty()
    clock = Clock()
    stream, stderr = os.fdopen(program, "w"), sys.stderr
    with Progress(2e6, stream=stream, clock=clock) as progress:
        drive(progress, clock, 0.6)
        os.close(user)
        with pytest.raises(OSError):
            os.write(program, b"x")
        drive(progress, clock, 2.0)
    assert sys.stderr is stderr
    with suppress(OSError):
        stream.close()


def test_table() -> None:
    assert table(("backend", "difference", "order"), [("numpy", "1.5e-16", 2.0), ("openmp", "0", "-")]) == (
        "backend  difference  order\n-------  ----------  -----\nnumpy       1.5e-16    2.0\nopenmp            0      -"
    )
    assert table(("a", "b"), []) == "a  b\n-  -"
    with pytest.raises(ValueError, match="a row has 1 cells for 2 headers"):
        table(("a", "b"), [("1",)])


def test_a_table_is_the_same_on_every_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    reason = f"no [bold]device[/bold] :smile: {'far to the right ' * 20}here"
    expected = f"backend  or what\n-------  -------\ngpu      {reason}"
    for name, value in {"COLUMNS": "20", "TERM": "dumb", "NO_COLOR": "1", "FORCE_COLOR": "1"}.items():
        with monkeypatch.context() as patch:
            patch.setenv(name, value)
            assert table(("backend", "or what"), [("gpu", reason)]) == expected


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0, "0 s"),
        (7.2, "8 s"),
        (59.5, "1:00 min"),
        (125, "2:05 min"),
        (3725, "1:02:05 h"),
        (8.64e6, "over 100 days"),
        (float("inf"), "over 100 days"),
    ],
)
def test_duration(seconds: float, text: str) -> None:
    assert duration(seconds) == text
