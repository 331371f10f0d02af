# SPDX-License-Identifier: MIT
"""A report: a table for people, rows for programs, and a figure."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from poisson.errors import PackageMissing, PoissonError
from poisson.output.files import replacing

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Column:
    """A column of a report: its name in JSON and CSV, its heading in the table, the format of its cells there, and what
    they are multiplied by, where the heading names another unit.
    """

    key: str
    heading: str
    form: str = ""
    scale: float = 1.0


@dataclass(frozen=True)
class Report:
    """The result of a measurement or comparison: its title, and the values by the columns' keys, in SI units.

    A value that is None or left out is an empty cell. `notes` are lines below the table; `draw` draws the figure.
    """

    title: str
    columns: tuple[Column, ...]
    rows: tuple[Mapping[str, Any], ...]
    notes: tuple[str, ...] = ()
    draw: Callable[[Figure], None] | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        rows = tuple({column.key: row.get(column.key) for column in self.columns} for row in self.rows)
        object.__setattr__(self, "rows", rows)

    @property
    def headers(self) -> tuple[str, ...]:
        """The headings."""
        return tuple(column.heading for column in self.columns)

    def cells(self) -> list[tuple[str, ...]]:
        """The cells of the table as text."""
        return [tuple(_cell(row[column.key], column) for column in self.columns) for row in self.rows]

    def json(self) -> str:
        """One list of rows, with the columns' keys."""
        return json.dumps(self.rows, indent=2, allow_nan=False)

    def write_csv(self, path: str) -> None:
        """Write the rows as comma-separated values, under a line of the columns' keys.

        Raises `OutputError` if the file cannot be written.
        """
        text = io.StringIO()
        writer = csv.DictWriter(text, [column.key for column in self.columns], lineterminator="\n")
        writer.writeheader()
        writer.writerows(self.rows)
        with replacing(Path(path)) as temporary:
            temporary.write_text(text.getvalue(), "utf-8")

    def write_plot(self, path: str) -> None:
        """Draw the figure into a PNG file.

        Raises `PackageMissing` if there is no matplotlib; `PoissonError` if there is nothing to draw; `OutputError` if
        the file cannot be written.
        """
        if self.draw is None:
            raise PoissonError("this measurement has no figure")
        try:
            from matplotlib.backends.backend_agg import FigureCanvasAgg
            from matplotlib.figure import Figure
        except ImportError:
            raise PackageMissing("a figure needs matplotlib: pip install matplotlib") from None
        figure = Figure(figsize=(7.0, 4.5), layout="constrained")
        FigureCanvasAgg(figure)
        self.draw(figure)
        with replacing(Path(path)) as temporary:
            figure.savefig(temporary, format="png", dpi=150)


def _cell(value: Any, column: Column) -> str:
    if value is None:
        return ""
    if isinstance(value, tuple):
        return " x ".join(map(str, value))
    return format(value if column.scale == 1.0 else value * column.scale, column.form)
