# SPDX-License-Identifier: MIT
"""The command `sweep`: a case for every combination of the values of some keys."""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from poisson.cli.terms import (
    EXIT_ERROR,
    EXIT_OFF,
    EXIT_OK,
    UsageError,
    as_json,
    complain,
    naming,
    say,
)
from poisson.errors import Choice, OutputError, PackageMissing
from poisson.words import quantity

if TYPE_CHECKING:
    from poisson.perf.report import Column, Report
    from poisson.run.sweep import Entry, Row

TABLE, FIGURE = "sweep.csv", "sweep.png"
"""What stands in the folder beside the results."""

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Sweep:
    case: str
    settings: tuple[str, ...]
    folder: str | None
    json: bool
    quiet: bool

    def execute(self) -> int:
        from poisson.output.locks import reserved
        from poisson.run import sweep

        folder = Path(f"{Path(self.case).stem}-sweep" if self.folder is None else self.folder)
        entries = sweep.plan(self.case, self.settings, folder)
        self._make(folder)
        with naming(_FOLDER), reserved(folder / TABLE, "sweep", shown=folder):
            return self._execute(entries, folder)

    def _execute(self, entries: Sequence[Entry], folder: Path) -> int:
        from poisson.run import sweep
        from poisson.run.interrupts import Ended

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
                rows.append(sweep.row_from(entry.variation.values, entry.file, pressed.solution))
        if not rows:
            raise Ended(interrupted - 128, "interrupted before the first solve ended")
        rows = sweep.with_orders(rows)
        written = self._write(rows, folder)
        self._tell(rows, entries, folder, written, interrupted=interrupted != EXIT_OK)
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
                raise OutputError(f"{folder}: a file, not a folder; choose another folder", Choice.PLACE) from None
            except OSError as error:
                raise OutputError(f"{folder}: ", *cause(error)) from error
            for name in (TABLE, FIGURE):
                check_target(folder / name)

    def _write(self, rows: Sequence[Row], folder: Path) -> list[Path] | None:
        """Write the table and, if it can be had, the figure; None where the disk refuses, which is said."""
        whole, table, figure = report(self.case, rows, whole=True), folder / TABLE, folder / FIGURE
        written = [table]
        try:
            whole.write_csv(str(table))
            if any(row.file for row in rows):
                whole.write_plot(str(figure))
                written.append(figure)
        except PackageMissing:
            log.info("no figure: matplotlib is not installed (pip install matplotlib)")
        except OutputError as error:
            complain(f"error: {error.worded(_FOLDER)}")
            return None
        return written

    def _tell(
        self,
        rows: Sequence[Row],
        entries: Sequence[Entry],
        folder: Path,
        written: Sequence[Path] | None,
        *,
        interrupted: bool,
    ) -> None:
        from poisson.cli.terminal import table

        if self.json:
            say(as_json([dict(row) for row in report(self.case, rows, whole=True).rows]))
        elif not self.quiet:
            shown = report(self.case, rows, whole=False)
            kept = sum(row.kept for row in rows)
            notes = [f"{_named(row.values)}: {row.status}: {row.reason}" for row in rows if row.reason]
            if kept:
                notes.append(f"{kept} of {len(rows)} already solved; skipped")
            if interrupted:
                notes.append(
                    f"interrupted: {len(rows)} of {len(entries)} solved; run the same command again to continue"
                )
            beside = "".join(
                f"{what} in {path}" for what, path in zip(("; this table", ", its figure"), written or (), strict=False)
            )
            notes.append(f"results in {folder}{os.sep}{beside}")
            headings = [column.heading for column in shown.columns]
            say("\n".join([shown.title, "", table(headings, shown.cells()), *notes]))


_FOLDER = {Choice.PLACE: " with --folder"}


def report(case: str, rows: Sequence[Row], *, whole: bool) -> Report:
    """The rows as a table: with every column, for programs, or with those that say something, for people."""
    from poisson.case import toml
    from poisson.perf.report import Column, Report
    from poisson.run.sweep_figure import draw

    keys = list(rows[0].values) if rows else []
    columns: list[Column] = [Column(key, key.rpartition(".")[2]) for key in keys]
    columns += [
        Column("status", "status"),
        Column("method_used", "method"),
        Column("iterations", "iterations"),
        Column("residual", "residual", ".3e"),
        Column("error_rms", "rms error", ".4e"),
        Column("error_max", "max error", ".4e"),
        Column("order", "order", ".3f"),
        Column("setup_seconds", "setup s", ".3g"),
        Column("seconds", "solve s", ".3g"),
    ]
    found: list[dict[str, Any]] = []
    for row in rows:
        given = {
            key: value if whole or isinstance(value, str) else toml.written(value) for key, value in row.values.items()
        }
        found.append(
            given
            | {
                "status": row.status,
                "method_used": row.method,
                "iterations": row.iterations,
                "residual": row.residual,
                "error_rms": row.error_rms,
                "error_max": row.error_max,
                "order": row.order,
                "setup_seconds": row.setup,
                "seconds": row.seconds,
                "file": None if row.file is None else str(row.file),
                "kept": row.kept,
                "reason": row.reason or None,
            }
        )
    if whole:
        columns += [Column(key, key) for key in ("file", "kept", "reason")]
    else:
        swept = {"method_used"} if "solver.method" in keys and "auto" not in _values(rows, "solver.method") else set()
        columns = [
            column
            for column in columns
            if column.key in keys or (column.key not in swept and any(row[column.key] is not None for row in found))
        ]
    title = f"{Path(case).stem}: {quantity(len(rows), 'combination')} of {', '.join(keys)}"
    return Report(title, tuple(columns), tuple(found), (), lambda figure: draw(figure, rows))


def _values(rows: Sequence[Row], key: str) -> list[Any]:
    return [row.values[key] for row in rows]


def _named(values: dict[str, Any]) -> str:
    from poisson.case import toml

    return " ".join(f"{key}={toml.shown(value)}" for key, value in values.items())


def sweep(
    case: str,
    *,
    set: Sequence[str] = (),
    folder: str | None = None,
    backend: str | None = None,
    json: bool = False,
    quiet: bool = False,
) -> Sweep:
    """Solve a case for every combination of values of some of its keys.

    Usage: python -m poisson sweep CASE --set KEY=VALUE,VALUE,... [--set ...] [--folder FOLDER] [--backend NAME,...]
                                        [--json] [--quiet]

      CASE             the case file (TOML)
      --set KEY=VALUE  a key with the values that it is to take, separated by commas, or with one; may be given several
                       times; a comma in brackets or quotes belongs to the value
      --folder FOLDER  where the results go, one file for each combination; by default CASE-sweep
      --backend NAME   {backends}, or several, separated by commas; the same as --set run.backend=NAME,NAME
      --json           print the rows as JSON and nothing else
      --quiet          (or -q) show nothing but warnings and errors

    The table and a figure of it are in FOLDER, too: sweep.csv, and sweep.png if matplotlib is installed. Where the grid
    is refined and the case gives the exact solution, the table has the observed order of accuracy. What is in FOLDER
    already and belongs to the same case is not solved again: after an interruption the same command goes on. Values
    that do not go together, and solves that fail, are rows of the table that say why.

    Examples:
      python -m poisson sweep cases/unit_square.toml --set domain.shape=[65,65],[129,129],[257,257]
      python -m poisson sweep cases/cube.toml --set solver.method=jacobi,multigrid,fft --set solver.rtol=1e-4,1e-8

    Exit codes: 0 all converged, 1 some did not, 2 bad input, before anything runs, 130 interrupted."""
    settings = [*set, *([f"run.backend={backend}"] if backend is not None else [])]
    if not settings:
        raise UsageError("sweep needs --set KEY=VALUE,VALUE,... such as --set solver.method=jacobi,multigrid")
    if folder == "":
        raise UsageError("--folder is empty; give the name of a folder")
    for setting in settings:
        if setting.partition("=")[0].strip() in ("output.file", "output"):
            raise UsageError(f"--set {setting}: sweep names the result files; set their folder with --folder")
    return Sweep(case, tuple(settings), folder, json, quiet)
