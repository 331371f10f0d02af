# SPDX-License-Identifier: MIT
"""The command `sweep`: a case for every combination of the values of some keys."""

from __future__ import annotations

import logging
import math
import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from poisson.backends.registry import backend_names
from poisson.cli.terms import EXIT_ERROR, EXIT_OFF, EXIT_OK, UsageError, as_json, complain, naming, say, some_of
from poisson.errors import FileChoice, OutputError, PackageMissing
from poisson.words import quantity

if TYPE_CHECKING:
    from poisson.output.table import Column, Report
    from poisson.run.quantities import Point
    from poisson.run.sweep import Entry
    from poisson.run.sweep_table import Row

TABLE, FIGURE = "sweep.csv", "sweep.png"
"""The table and the figure, in the folder of the results."""

WIDTH = 120
"""Letters in a line of the table, where there is no terminal to ask."""

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Sweep:
    case: str
    settings: tuple[str, ...]
    points: tuple[Point, ...]
    folder: str | None
    json: bool
    quiet: bool

    def execute(self) -> int:
        from poisson.output.locks import reserved
        from poisson.run import sweep

        folder = Path(f"{Path(self.case).stem}-sweep" if self.folder is None else self.folder)
        entries = sweep.plan(self.case, self.settings, folder, self.points)
        self._make(folder)
        with naming(_FOLDER), reserved(folder / TABLE, "sweep", shown=folder):
            return self._execute(entries, folder)

    def _execute(self, entries: Sequence[Entry], folder: Path) -> int:
        from poisson.run import sweep, sweep_table
        from poisson.run.interrupts import EndedBySignal

        # What cannot be read cannot be kept.
        sweep_table.read(folder / TABLE)
        rows: list[Row] = []
        interrupted = EXIT_OK
        try:
            for place, entry in enumerate(entries, start=1):
                log.info("%d/%d  %s", place, len(entries), _named(entry.variation.values))
                rows.append(self._row(entry))
        except KeyboardInterrupt as pressed:
            from poisson.parallel.failures import code_of
            from poisson.run.solution import Interrupted

            interrupted = code_of(pressed)
            if isinstance(pressed, Interrupted) and entry.file.exists():
                rows.append(sweep.row_from(entry, pressed.solution))
        if not rows:
            raise EndedBySignal(interrupted - 128, "interrupted before the first solve ended")
        rows = sweep.with_orders(rows)
        written = self._write(rows, folder)
        self._tell(rows, entries, written or [f"results in {folder}{os.sep}"], interrupted=interrupted != EXIT_OK)
        ended = EXIT_OK if all(row.success for row in rows) else EXIT_OFF
        return interrupted or (EXIT_ERROR if written is None else ended)

    def _row(self, entry: Entry) -> Row:
        import numpy as np

        from poisson.cli.terminal import Progress
        from poisson.perf.traffic import sweep_bytes
        from poisson.run import sweep
        from poisson.solvers import registry

        traffic = None
        if entry.case is not None and (operations := registry.sweep_of(entry.case.solver)):
            itemsize = np.dtype(entry.case.run.dtype).itemsize
            traffic = sweep_bytes(entry.case.problem, itemsize, operations)
        with Progress(traffic, quiet=self.quiet) as progress:
            row = sweep.row_of(entry, progress)
        if not row.success and (self.quiet or self.json):
            # Else it is said below the table.
            complain(f"warning: {_named(row.values)}: {row.status}: {row.reason}")
        return row

    def _make(self, folder: Path) -> None:
        """Make the folder, unless it is there, and see whether the table and the figure can be written."""
        from poisson.output.files import cause, check_target

        with naming(_FOLDER):
            try:
                folder.mkdir(parents=True, exist_ok=True)
            except FileExistsError:
                raise OutputError(f"{folder}: a file, not a folder; choose another folder", FileChoice.PLACE) from None
            except OSError as error:
                raise OutputError(f"{folder}: ", *cause(error)) from error
            for name in (TABLE, FIGURE):
                check_target(folder / name)

    def _write(self, rows: Sequence[Row], folder: Path) -> list[str] | None:
        """Write the table and, if it can be had, the figure; None where the disk refuses, which is said.

        What is returned says of them what there is to be said.
        """
        from poisson.output.table import Column, Report
        from poisson.run import sweep_table
        from poisson.run.sweep_figure import draw

        path, figure = folder / TABLE, folder / FIGURE
        said: list[str] = []
        try:
            merged = sweep_table.merged(sweep_table.read(path), rows)
            names = (*merged.table.keys, *merged.table.columns)
            drawn = sweep_table.drawn(rows, merged.earlier, merged.table.keys)
            columns = tuple(Column(name, name) for name in names)
            whole = Report("", columns, merged.table.rows, (), lambda figure: draw(figure, drawn))
            whole.write_csv(str(path))
            if merged.earlier:
                other = f", {merged.changed} of them of the case file before it was changed" if merged.changed else ""
                said.append(f"{path}: {quantity(len(merged.earlier), 'row')} of earlier sweeps kept{other}")
            written = f"this table with more columns in {path}"
            if any(row.file for row in rows):
                whole.write_plot(str(figure))
                written += f", its figure in {figure}"
        except PackageMissing:
            written += "; no figure: matplotlib is not installed (pip install matplotlib)"
        except OutputError as error:
            complain(f"error: {error.worded(_FOLDER)}")
            return None
        return [*said, f"results in {folder}{os.sep}; {written}"]

    def _tell(self, rows: Sequence[Row], entries: Sequence[Entry], said: Sequence[str], *, interrupted: bool) -> None:
        from poisson.cli.terminal import told
        from poisson.run.sweep_table import cells, columns_of

        if self.json:
            for line in said:
                log.info("%s", line)
            names = [*rows[0].values, *columns_of(rows)]
            say(as_json([{name: found.get(name) for name in names} for found in map(cells, rows)]))
        elif not self.quiet:
            shown = report(self.case, rows, shutil.get_terminal_size((WIDTH, 24)).columns)
            kept = sum(row.kept for row in rows)
            notes = [f"{_named(row.values)}: {row.status}: {row.reason}" for row in rows if row.reason]
            if kept:
                notes.append(f"{kept} of {len(rows)} already solved; skipped")
            if interrupted:
                notes.append(
                    f"interrupted: {len(rows)} of {len(entries)} solved; run the same command again to continue"
                )
            say("\n".join([told(shown), *notes, *said]))


_FOLDER = {FileChoice.PLACE: " with --folder"}


def report(case: str, rows: Sequence[Row], width: int) -> Report:
    """The rows for people: the columns that say something, and of these the most important ones that fit."""
    from poisson.case import toml
    from poisson.output.table import Report
    from poisson.run.sweep_table import cells

    keys = list(rows[0].values)
    found = [
        cells(row)
        | {key: value if isinstance(value, str) else toml.written(value) for key, value in row.values.items()}
        for row in rows
    ]
    columns = [column for column in _columns(rows) if any(row.get(column.key) is not None for row in found)]
    if "solver.method" in keys and "auto" not in _values(rows, "solver.method"):
        columns = [column for column in columns if column.key != "method_used"]
    title = f"{Path(case).stem}: {quantity(len(rows), 'combination')} of {', '.join(keys)}"
    every = [{column.key: row.get(column.key) for column in columns} for row in found]

    def made(columns: Sequence[Column]) -> Report:
        return Report(title, tuple(columns), tuple(every))

    # Those that take the same value everywhere say least.
    fixed = [key for key in keys if len(rows) > 1 and len({row[key] for row in found}) == 1]
    for name in (*fixed, *LESS):
        if _width(made(columns)) <= width:
            break
        columns = [column for column in columns if not (column.key == name or column.key.startswith(f"{name}_"))]
    return made(columns)


def _columns(rows: Sequence[Row]) -> list[Column]:
    """The columns that people may see, those of the keys first."""
    from poisson.output.table import Column

    values = list(dict.fromkeys(name for row in rows for name in row.quantities))
    points = [Column(name, name, ".6g") for name in values if name.startswith("u(")]
    fluxes = [Column(name, name.replace("_", " ", 1), ".5g") for name in values if name.startswith("flux_")]
    return [
        *(Column(key, key.rpartition(".")[2]) for key in rows[0].values),
        Column("status", "status"),
        Column("method_used", "method"),
        Column("iterations", "iterations"),
        Column("residual", "residual", ".3e"),
        Column("error_rms", "rms error", ".4e"),
        Column("error_max", "max error", ".4e"),
        Column("order", "order", ".3f"),
        *points,
        Column("u_min", "u min", ".6g"),
        Column("u_max", "u max", ".6g"),
        Column("u_mean", "u mean", ".6g"),
        Column("energy", "energy", ".6g"),
        *fluxes,
        Column("setup_seconds", "setup s", ".3g"),
        Column("seconds", "solve s", ".3g"),
    ]


LESS = ("flux", "setup", "error_max", "residual", "u_mean", "energy", "u_min", "u_max", "method_used")
"""The columns that people miss least, or how their names begin, that of the least first."""


def _width(report: Report) -> int:
    lines = [report.headers, *report.cells()]
    widths = [max(map(len, cells)) for cells in zip(*lines, strict=True)]
    return sum(widths) + 2 * (len(widths) - 1)


def _values(rows: Sequence[Row], key: str) -> list[Any]:
    return [row.values[key] for row in rows]


def _named(values: dict[str, Any]) -> str:
    from poisson.case import toml

    return " ".join(f"{key}={toml.shown(value)}" for key, value in values.items())


def sweep(
    case: str,
    *,
    set: Sequence[str] = (),
    at: Sequence[str] = (),
    folder: str | None = None,
    backend: str | None = None,
    json: bool = False,
    quiet: bool = False,
) -> Sweep:
    """Solve a case for every combination of values of some keys.

    Usage: python -m poisson sweep CASE --set KEY=VALUE,VALUE,... [--set ...] [--at X,Y ...] [--folder FOLDER]
                                        [--backend NAME,...] [--json] [--quiet]

      CASE             the case file (TOML)
      --set KEY=VALUE  a key with one value or several, separated by commas; may be given several
                       times; a comma in brackets or quotes belongs to the value
      --at X,Y         a point, x(,y(,z)), at which the table has u; may be given several times
      --folder FOLDER  the folder of the results, one file for each combination; by default CASE-sweep
      --backend NAME   {backends}, or several, separated by commas; the same as --set run.backend=NAME,NAME
      --json           print the rows as JSON and nothing else
      --quiet          (or -q) show nothing but warnings and errors

    The table and a figure of it are in FOLDER, too: sweep.csv, and sweep.png if matplotlib is installed. The table has
    the least, largest and mean u, the energy and the flux through each face and, where the grid is refined and the case
    gives the exact solution, the observed order of accuracy. It keeps the rows of earlier sweeps into FOLDER. Results
    in FOLDER that belong to the same case are not solved again: after an interruption the same command goes on. Values
    that do not go together, and solves that fail, are rows of the table that say why.

    Examples:
      python -m poisson sweep cases/unit_square.toml --set domain.shape=[65,65],[129,129],[257,257]
      python -m poisson sweep cases/cube.toml --set solver.method=jacobi,multigrid,fft --set solver.rtol=1e-4,1e-8

    Exit codes: 0 all converged, 1 some did not, 2 bad input, before anything runs, 130 interrupted."""
    names = None if backend is None else some_of("backend", backend, backend_names())
    settings = [*set, *([f"run.backend={','.join(names)}"] if names else [])]
    if not settings:
        raise UsageError("sweep needs --set KEY=VALUE,VALUE,... such as --set solver.method=jacobi,multigrid")
    if folder == "":
        raise UsageError("--folder is empty; give the name of a folder")
    for setting in settings:
        if setting.partition("=")[0].strip() in ("output.file", "output"):
            raise UsageError(f"--set {setting}: sweep names the result files; set their folder with --folder")
    return Sweep(case, tuple(settings), tuple(map(_point, at)), folder, json, quiet)


def _point(text: str) -> Point:
    """The coordinates of a point, such as ``0.25,0.6``."""
    try:
        point = tuple(float(part) for part in text.split(","))
    except ValueError:
        point = ()
    if not (1 <= len(point) <= 3 and all(map(math.isfinite, point))):
        raise UsageError(f"--at {text}: the coordinates of a point are needed, such as --at 0.25,0.6")
    return point
