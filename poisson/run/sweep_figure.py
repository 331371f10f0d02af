# SPDX-License-Identifier: MIT
"""The picture of a sweep: what the results are like, and the time they took, over one of its keys."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

from poisson.case import toml

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

    from poisson.run.sweep_table import Row

GRID = "domain.shape"

_LONGEST = 28
_MOST_LINES = 10
"""Lines that a reader can tell apart, and colours that there are."""
_LETTERS = 34
"""The most letters of labels of ticks that have room below a panel."""
_MOST_LABELS = 24
"""The most labels that have room beside a panel."""


def draw(figure: Figure, rows: Sequence[Row]) -> None:
    """Draw a sweep: at the left errors, or residuals where no error is known, at the right seconds.

    The axis is the first key with several values that are numbers or grids, else the first one; every combination of
    the others is a line. Numbers stand below the panels, and words, which need more room, at their side.
    """
    key = axis_key(rows)
    others = [name for name in (rows[0].values if rows else ()) if name != key and _several(rows, name)]
    lines: dict[str, list[Row]] = {}
    for row in rows:
        if row.file is not None:
            label = ", ".join(f"{name.rpartition('.')[2]} = {_shown(row.values[name])}" for name in others)
            lines.setdefault(label, []).append(row)
    shown = dict(list(lines.items())[:_MOST_LINES])
    words = any(_number(row, key) is None for row in rows)
    left, right = figure.subplots(1, 2, sharey=words)
    for axes, (quantity, label) in ((left, _quality(rows)), (right, ("seconds", "time of the solver loop [s]"))):
        panel = _Panel(axes, key, words, rows)
        for count, members in enumerate(shown.values()):
            panel.draw(members, quantity, count, name=list(shown)[count])
        panel.finish(quantity, label)
    if words:
        right.set_ylabel("")
    handles, labels = left.get_legend_handles_labels()
    if any(labels):
        columns = max(1, min(3, 90 // max(map(len, labels))))
        figure.legend(handles, labels, loc="outside lower center", ncols=columns, fontsize="small")
    if len(lines) > len(shown):
        figure.suptitle(f"the first {len(shown)} of {len(lines)} series", fontsize="small")


def axis_key(rows: Sequence[Row]) -> str:
    """The key that the axis shows."""
    several = [key for key in rows[0].values if _several(rows, key)] or list(rows[0].values)
    return next((key for key in several if all(_number(row, key) is not None for row in rows)), several[0])


def _quality(rows: Sequence[Row]) -> tuple[str, str]:
    """The measure of the quality of the results: the attribute of a row, and its name."""
    if any(row.error_rms is not None for row in rows):
        return "error_rms", "rms error"
    if any(row.relative is not None for row in rows):
        return "relative", "relative residual"
    return "residual", "residual"


def _several(rows: Sequence[Row], key: str) -> bool:
    return any(row.values[key] != rows[0].values[key] for row in rows)


def _number(row: Row, key: str) -> float | None:
    """Where a row stands on the axis; None where its value is no number."""
    value = row.values[key]
    if key == GRID:
        return math.exp(sum(map(math.log, value)) / len(value))
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None


class _Panel:
    """One of the two diagrams: a quantity, on a logarithmic axis, over a key.

    `axes`: where to draw. `words`: whether its values are words, which stand one below the other at the side. `rows`:
    all rows, of which only some may be drawn.
    """

    def __init__(self, axes: Axes, key: str, words: bool, rows: Sequence[Row]) -> None:
        self._axes, self._key, self._words, self._rows = axes, key, words, rows
        values = [row.values[key] for row in rows]
        self._distinct = [value for place, value in enumerate(values) if value not in values[:place]]
        self._found: list[float] = []

    def draw(self, rows: Sequence[Row], quantity: str, count: int, name: str) -> None:
        """Draw a line, or points without one between words."""
        drawn = sorted(
            (place, value, row.success)
            for row in rows
            if (place := self._place(row)) is not None
            and (value := getattr(row, quantity)) is not None
            and 0.0 < value < math.inf
        )
        self._found += [value for _, value, _ in drawn]
        # Open signs and broken lines, so that one line shows below another.
        style: dict[str, Any] = {"linestyle": ("-", "--", ":")[count % 3], "linewidth": 1.2}
        style |= {"marker": "os^Dv"[count % 5], "fillstyle": "none", "color": f"C{count}"}
        if self._words:
            style["linestyle"] = "none"
        self._plot([point[:2] for point in drawn], label=name or None, **style)
        if off := [point[:2] for point in drawn if not point[2]]:
            known = "not converged" in self._axes.get_legend_handles_labels()[1]
            label = None if known else "not converged"
            self._plot(off, label=label, linestyle="none", marker="x", color="black", zorder=3)

    def finish(self, quantity: str, label: str) -> None:
        """Set the scales, the ticks and the names of both axes."""
        of_quantity, of_key = self._ways()
        name = getattr(self._axes, f"set_{of_quantity}label")
        name(label)
        _logarithmic(self._axes, of_quantity, self._found)
        self._axes.grid(visible=True, which="major", alpha=0.3)
        getattr(self._axes, f"set_{of_key}label")("nodes" if self._key == GRID else self._key)
        if self._words:
            self._list_words()
        else:
            self._mark_numbers()

    def _ways(self) -> tuple[Literal["x", "y"], Literal["x", "y"]]:
        """The axes of the quantity and of the key."""
        return ("x", "y") if self._words else ("y", "x")

    def _place(self, row: Row) -> float | None:
        return float(self._distinct.index(row.values[self._key])) if self._words else _number(row, self._key)

    def _plot(self, points: Sequence[tuple[float, float]], **style: Any) -> None:
        places, values = [place for place, _ in points], [value for _, value in points]
        self._axes.plot(*((values, places) if self._words else (places, values)), **style)

    def _list_words(self) -> None:
        count = len(self._distinct)
        every = range(0, count, math.ceil(count / _MOST_LABELS))
        self._axes.set_yticks(list(every), [_shown(self._distinct[place]) for place in every])
        # The first one above.
        self._axes.set_ylim(count - 0.5, -0.5)

    def _mark_numbers(self) -> None:
        from matplotlib.ticker import NullLocator

        places = {
            number: row.values[self._key] for row in self._rows if (number := _number(row, self._key)) is not None
        }
        known = sorted(places)
        scaled = known[0] > 0.0 and (self._key == GRID or known[-1] >= 4.0 * known[0])
        if scaled:
            self._axes.set_xscale("log")
        if len(known) > 8 and self._key != GRID:
            return
        marked = {place: _tick(self._key, places[place]) for place in known}
        self._axes.set_xticks(known, _without_overlaps(marked, scaled=scaled))
        self._axes.xaxis.set_minor_locator(NullLocator())
        if len(known) == 1 and scaled:
            self._axes.set_xlim(known[0] / 2.0, known[0] * 2.0)


def _logarithmic(axes: Axes, way: Literal["x", "y"], values: Sequence[float]) -> None:
    """A logarithmic axis over a decade at least, with ticks that can be read, and few of them."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    getattr(axes, f"set_{way}scale")("log")
    low, high = (min(values), max(values)) if values else (0.1, 1.0)
    ratio = high / low
    room = max(1.3, math.sqrt(10.0 / ratio), ratio**0.05)
    getattr(axes, f"set_{way}lim")(low / room, high * room)
    axis: Axis = getattr(axes, f"{way}axis")
    axis.set_major_locator(LogLocator(numticks=7 if way == "y" else 5))
    narrow = ratio * room * room < (100.0 if way == "y" else 20.0)
    axis.set_minor_locator(LogLocator(subs=(2.0, 5.0), numticks=20) if narrow else NullLocator())
    axis.set_minor_formatter(FuncFormatter(_part_of_a_decade))
    axes.tick_params(axis=way, which="minor", labelsize="small")


def _part_of_a_decade(value: float, _: int | None) -> str:
    decade = math.floor(math.log10(value) + 1e-9)
    return f"${value / 10.0**decade:.0f}\\cdot10^{{{decade}}}$"


def _without_overlaps(labels: dict[float, str], *, scaled: bool) -> list[str]:
    """The labels of ticks, empty where they would run into the one before."""
    where = {place: math.log(place) if scaled else place for place in labels}
    extent = (max(where.values()) - min(where.values())) or 1.0
    found: list[str] = []
    end = -math.inf
    for place, label in labels.items():
        middle = (where[place] - min(where.values())) / extent * _LETTERS
        fits = middle - len(label) / 2.0 >= end
        found.append(label if fits else "")
        if fits:
            end = middle + len(label) / 2.0 + 1.0
    return found


def _tick(key: str, value: Any) -> str:
    if key != GRID:
        return _shown(value)
    if len(value) > 1 and len(set(value)) == 1:
        return f"{value[0]}{'²³'[len(value) - 2]}"
    return "×".join(map(str, value))


def _shown(value: Any) -> str:
    text = value if isinstance(value, str) else f"{value:g}" if isinstance(value, float) else toml.written(value)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
