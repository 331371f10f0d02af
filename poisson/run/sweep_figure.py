# SPDX-License-Identifier: MIT
"""The picture of a sweep: what the results are like, and the time they took, over one of its keys."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from poisson.case import toml
from poisson.run.sweep import Row

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

GRID = "domain.shape"

_LONGEST = 24
_MOST_LINES = 10
"""Lines that a reader can tell apart, and colours that there are."""


def draw(figure: Figure, rows: Sequence[Row]) -> None:
    """Draw a sweep: at the left errors, or residuals where no error is known, at the right seconds.

    The axis is the first key with several values that are numbers or grids, else the first one; every combination of
    the others is a line.
    """
    key = axis_key(rows)
    others = [name for name in (rows[0].values if rows else ()) if name != key and _several(rows, name)]
    lines: dict[str, list[Row]] = {}
    for row in rows:
        if row.file is not None:
            label = ", ".join(f"{name.rpartition('.')[2]} = {_shown(row.values[name])}" for name in others)
            lines.setdefault(label, []).append(row)
    shown = dict(list(lines.items())[:_MOST_LINES])
    known = any(row.error_rms is not None for row in rows)
    quality = ("error_rms", "rms error") if known else ("residual", "residual")
    left, right = figure.subplots(1, 2)
    _panel(left, key, rows, shown, *quality)
    _panel(right, key, rows, shown, "seconds", "time of the solver loop (s)")
    if any(shown):
        handles, labels = left.get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=min(3, len(labels)), fontsize="small")
    if len(lines) > len(shown):
        figure.suptitle(f"the first {len(shown)} of {len(lines)} series", fontsize="small")


def axis_key(rows: Sequence[Row]) -> str:
    """The key that the axis shows."""
    several = [key for key in rows[0].values if _several(rows, key)] or list(rows[0].values)
    return next((key for key in several if all(_number(row, key) is not None for row in rows)), several[0])


def _several(rows: Sequence[Row], key: str) -> bool:
    return any(row.values[key] != rows[0].values[key] for row in rows)


def _number(row: Row, key: str) -> float | None:
    """Where a row stands on the axis; None where its value is no number."""
    value = row.values[key]
    if key == GRID:
        return math.exp(sum(map(math.log, value)) / len(value))
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def _panel(axes: Axes, key: str, rows: Sequence[Row], lines: dict[str, list[Row]], quantity: str, label: str) -> None:
    values = [row.values[key] for row in rows]
    distinct = [value for place, value in enumerate(values) if value not in values[:place]]
    numbers = [_number(row, key) for row in rows]
    numeric = all(number is not None for number in numbers)
    for count, (name, members) in enumerate(lines.items()):
        points = [
            (_number(row, key) if numeric else distinct.index(row.values[key]), getattr(row, quantity))
            for row in members
        ]
        drawn = sorted((x, y) for x, y in points if x is not None and y is not None and 0.0 < y < math.inf)
        # Open signs and broken lines, so that one line shows below another; between words there is nothing.
        style: dict[str, Any] = {
            "linestyle": ("-", "--", ":")[count % 3] if numeric else "none",
            "marker": "os^Dv"[count % 5],
            "fillstyle": "none",
        }
        axes.plot([x for x, _ in drawn], [y for _, y in drawn], label=name or None, linewidth=1.2, **style)
    axes.set_yscale("log")
    axes.set_ylabel(label)
    axes.grid(visible=True, which="major", alpha=0.3)
    if not numeric:
        axes.set_xticks(range(len(distinct)), [_shown(value) for value in distinct])
        axes.set_xlabel(key)
        return
    known = sorted({number for number in numbers if number is not None})
    if known[0] > 0.0 and (key == GRID or known[-1] >= 4.0 * known[0]):
        axes.set_xscale("log")
    if len(distinct) <= 8:
        places = {number: value for number, value in zip(numbers, values, strict=True) if number is not None}
        axes.set_xticks(list(places), [_tick(key, value) for value in places.values()])
        axes.minorticks_off()
    axes.set_xlabel("nodes" if key == GRID else key)


def _tick(key: str, value: Any) -> str:
    return " × ".join(map(str, value)) if key == GRID else _shown(value)


def _shown(value: Any) -> str:
    text = value if isinstance(value, str) else f"{value:g}" if isinstance(value, float) else toml.written(value)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
