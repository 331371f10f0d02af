# SPDX-License-Identifier: MIT
"""Output at the terminal: the progress of a solve, and tables.

Tables and the line that is kept up to date are rich's. Ours is what it has nothing for: when to show progress and, off
a terminal, in what lines, as rich's own progress is silent there; the time left, which follows from how the residual
falls and not from a share of the work done; and the words.
"""

from __future__ import annotations

import io
import math
import os
import platform
import re
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Literal, Self, TextIO

from poisson import __version__
from poisson.output.convergence import log_slope
from poisson.words import quantity

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.live import Live

    from poisson.backends import BackendInfo
    from poisson.output.table import Report
    from poisson.run.neighbours import Neighbourhood

_SAMPLE_SECONDS = 0.125
_LIVE_AFTER = 0.5
_LINES_AFTER = 2.0
_LINE_GROWTH = 1.5
_WINDOW = 64
_PACKAGES = ("numpy", "scipy", "h5py", "fire", "rich")
_UNLIMITED = 10**6  # columns
_NUMBER = re.compile(r"[-+]?[0-9.]+(e[-+]?[0-9]+)?|nan|[-+]?inf|-?", re.IGNORECASE)


class Progress:
    """Shows how a solve goes on; an observer of the solver.

    On a terminal it keeps one line up to date, at most eight times a second, and clears it at the end. Elsewhere it
    writes plain lines: the first after two seconds, each later one after half as much time again as has passed.
    Use it as a context manager, so that the line is cleared whatever happens.

    `sweep_bytes`: bytes that one sweep must move, for the effective bandwidth of a method of sweeps; without it
    iterations are counted. `quiet`: whether to show nothing. `stream`: where to write; standard error by default.
    `clock`: gives the time in seconds.
    """

    def __init__(
        self,
        sweep_bytes: float | None = None,
        *,
        quiet: bool = False,
        stream: TextIO | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._sweep_bytes = sweep_bytes
        self._unit = "iteration" if sweep_bytes is None else "sweep"
        chosen = sys.stderr if stream is None else stream
        self._clock = clock
        # There is no standard error where the caller has closed it.
        self._shown = not quiet and chosen is not None
        self._stream = chosen
        self._live_wanted = (
            self._shown and self._stream.isatty() and os.environ.get("TERM", "") not in ("dumb", "unknown")
        )
        self._live: Live | None = None
        self._samples: deque[tuple[float, int, float]] = deque(maxlen=_WINDOW)
        self._target = 0.0
        self._limit = 0
        self._heading = ""
        self._begin = self._next_sample = clock()
        self._next_line = math.inf

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._shown = False
        live, self._live = self._live, None
        if live is not None:
            try:
                live.stop()
            except OSError:
                # The terminal is gone, and its line with it.
                return

    def start(self, target: float, reference: str, max_iterations: int) -> None:
        """Take note of where the solve is to end.

        `target`: the residual norm at which it has converged, in U/L². `reference`: what the target is relative to, in
        words. `max_iterations`: the iteration at which it stops otherwise.
        """
        self._target = target
        self._limit = max_iterations
        self._heading = (
            f"target: residual {target:.3e}, relative to {reference}; at most {max_iterations} {self._unit}s"
        )
        self._begin = self._next_sample = self._clock()
        self._next_line = self._begin + (_LIVE_AFTER if self._live_wanted else _LINES_AFTER)
        self._samples.clear()

    def __call__(self, iteration: int, norm: float) -> None:
        """Take note of the residual norm after so many iterations, and show it if it is time to."""
        if not self._shown:
            return
        now = self._clock()
        if now < self._next_sample:
            return
        self._next_sample = now + _SAMPLE_SECONDS
        self._samples.append((now, iteration, norm))
        if now < self._next_line:
            return
        try:
            if self._heading:
                print(self._heading, file=self._stream, flush=True)
                self._heading = ""
            if self._live_wanted:
                self._refresh(self._state())
            else:
                self._next_line = self._begin + _LINE_GROWTH * (now - self._begin)
                print(self._state(), file=self._stream, flush=True)
        except OSError:
            # A terminal that has gone away is no reason to end the solve.
            self._shown = False

    def _state(self) -> str:
        """One line on the latest sample: iteration, residual, speed, time left."""
        first, (now, iteration, norm) = self._samples[0], self._samples[-1]
        parts = [f"{self._unit} {iteration}", f"residual {norm:.2e}"]
        if now > first[0] and iteration > first[1]:
            rate = (iteration - first[1]) / (now - first[0])
            parts.append(f"{rate_for_people(rate)} {self._unit}s/s")
            if self._sweep_bytes is not None:
                parts.append(f"{rate_for_people(rate * self._sweep_bytes / 1e9)} GB/s")
            parts.append(self._time_left(rate, iteration, norm))
        return ", ".join(parts)

    def _time_left(self, rate: float, iteration: int, norm: float) -> str:
        """The time to the target at the observed convergence, or to the limit if that is sooner."""
        to_limit = max(0, self._limit - iteration)
        slope = log_slope((sweep, value) for _, sweep, value in self._samples)
        if slope is not None and slope < 0.0 < norm < math.inf and self._target > 0.0:
            to_target = max(0.0, math.log(self._target / norm) / slope)
            if to_target <= to_limit:
                return f"{duration(to_target / rate)} left"
        return f"{duration(to_limit / rate)} to the limit"

    def _refresh(self, line: str) -> None:
        from rich.console import Console
        from rich.live import Live
        from rich.text import Text

        text = Text(line, no_wrap=True, overflow="ellipsis")
        if self._live is None:
            console = Console(file=self._stream)
            self._live = Live(text, console=console, auto_refresh=False, transient=True, redirect_stdout=False)
            self._live.start()
        self._live.update(text, refresh=True)


def installation(backends: Iterable[BackendInfo]) -> str:
    """The installation: the backends with what each lacks, and the versions of the packages.

    `backends`: as `poisson.backends.describe` gives them. Returns: two tables.
    """
    rows = [(info.name, "yes" if info.available else "no", info.device or info.reason) for info in backends]
    backends_shown = table(("backend", "available", "device, or what is missing"), rows)
    return f"{backends_shown}\n\n{aligned(versions())}"


def versions() -> list[tuple[str, str]]:
    """The versions of this package, of Python and of the packages that it needs, and the system."""
    from importlib import metadata  # which takes long

    found = [("poisson", __version__), ("Python", platform.python_version())]
    found += [(name, metadata.version(name)) for name in _PACKAGES]
    system = f"{platform.system()} {platform.release()} {platform.machine()}, {quantity(os.cpu_count() or 1, 'CPU')}"
    return [*found, ("system", system)]


def processes(found: Neighbourhood) -> str:
    """Where several processes run, and how they are linked.

    `found`: as `poisson.run.neighbours.neighbourhood` gives it. Returns: a table with a line for each rank, and what
    MPI they use.
    """
    rows = [(each.rank, each.host, each.backend, each.device, each.links(found.ranks)) for each in found.ranks]
    pointers = {True: "takes device pointers", False: "takes no device pointers", None: "may take device pointers"}
    listed = table(("rank", "host", "backend", "device", "links to other ranks"), rows)
    return f"{listed}\n\n{found.mpi}: {pointers[found.device_pointers]}"


def table(headers: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A plain-text table with aligned columns.

    `headers`: one for each column. `rows`: the cells, shown with ``str``; a column of numbers, with gaps or not, is
    aligned to the right. Returns: the header, a rule, and a line for each row, without blanks at the ends of lines.
    Raises `ValueError` if a row has more or fewer cells than there are headers.
    """
    from rich.rule import Rule
    from rich.text import Text

    body = [[str(cell) for cell in row] for row in rows]
    for row in body:
        if len(row) != len(headers):
            raise ValueError(f"a row has {len(row)} cells for {len(headers)} headers")
    columns = [[row[column] for row in body] for column in range(len(headers))]
    numeric = [any(column) and all(_NUMBER.fullmatch(cell) for cell in column) for column in columns]
    rules: list[Rule | Text] = [Rule(characters="-", style="none") for _ in headers]
    if not numeric[-1]:
        # Nothing stands after the last column, so its longest text need not be underlined.
        rules[-1] = Text("-" * len(headers[-1]))
    return _aligned(["right" if right else "left" for right in numeric], [headers, rules, *body])


def told(report: Report) -> str:
    """A report for people."""
    return "\n".join([report.title, "", table(report.headers, report.cells()), *report.notes])


def aligned(notes: Sequence[tuple[str, str]]) -> str:
    """Names and what they are, in two columns."""
    return _aligned(["left", "left"], notes)


def _aligned(columns: Sequence[Literal["left", "right"]], rows: Iterable[Sequence[str | RenderableType]]) -> str:
    """Rows of cells in aligned columns, two blanks apart.

    They are as wide as their texts: wrapped or cut to the width of a terminal, they could not be searched or copied,
    and a terminal wraps lines itself. They have no colours, so that they are the same in a terminal, a pipe and a file.
    """
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    grid = Table.grid(padding=(0, 2, 0, 0))
    for justify in columns:
        grid.add_column(justify=justify, no_wrap=True)
    for row in rows:
        # Made into a Text, a cell with brackets or colons is no markup.
        grid.add_row(*(Text(cell) if isinstance(cell, str) else cell for cell in row))
    written = io.StringIO()
    Console(file=written, width=_UNLIMITED, color_system=None).print(grid)
    return "\n".join(line.rstrip() for line in written.getvalue().splitlines())


def duration(seconds: float) -> str:
    """A time for people: ``8 s``, ``2:05 min``, ``1:02:05 h``; "over 100 days" beyond that."""
    if seconds >= 100 * 86400:
        return "over 100 days"
    whole = math.ceil(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    if minutes < 60:
        return f"{minutes}:{rest:02d} min"
    return f"{minutes // 60}:{minutes % 60:02d}:{rest:02d} h"


def rate_for_people(value: float) -> str:
    """A number with three digits, without an exponent where it is large."""
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"
