# SPDX-License-Identifier: MIT
"""The report of a measurement: a table for people, rows for programs, and a figure."""

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
    """A column of a report.

    Parameters
    ----------
    key : str
        Its name in JSON and CSV.
    heading : str
        What stands above it in the table.
    form : str
        The format of its cells in the table, as in `format`; a cell that is None stays empty.
    scale : float
        What a number is multiplied by for the table, where its heading names another unit.
    """

    key: str
    heading: str
    form: str = ""
    scale: float = 1.0


@dataclass(frozen=True)
class Report:
    """The result of a measurement.

    Parameters
    ----------
    title : str
        One line: what was measured, and where.
    columns : tuple of Column
        The columns, in order.
    rows : tuple of mappings
        The values by the columns' keys: numbers in SI units, texts, or None.
    notes : tuple of str
        Lines below the table.
    draw : callable, optional
        Draws the figure.
    """

    title: str
    columns: tuple[Column, ...]
    rows: tuple[Mapping[str, Any], ...]
    notes: tuple[str, ...] = ()
    draw: Callable[[Figure], None] | None = field(default=None, compare=False)

    def cells(self) -> list[list[str]]:
        """The cells of the table as text."""
        return [[_cell(row[column.key], column) for column in self.columns] for row in self.rows]

    def json(self) -> str:
        """One list of rows, with the columns' keys."""
        rows = [{column.key: row[column.key] for column in self.columns} for row in self.rows]
        return json.dumps(rows, indent=2, allow_nan=False)

    def write_csv(self, path: str) -> None:
        """Write the rows as comma-separated values, under a line of the columns' keys.

        Raises
        ------
        OutputError
            If the file cannot be written.
        """
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow([column.key for column in self.columns])
        writer.writerows([[row[column.key] for column in self.columns] for row in self.rows])
        with replacing(Path(path)) as temporary:
            temporary.write_text(text.getvalue(), "utf-8")

    def write_plot(self, path: str) -> None:
        """Draw the figure into a PNG file.

        Raises
        ------
        PackageMissing
            If there is no matplotlib.
        PoissonError
            If there is nothing to draw.
        OutputError
            If the file cannot be written.
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
    return format(value if column.scale == 1.0 else value * column.scale, column.form)
