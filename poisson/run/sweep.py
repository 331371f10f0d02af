# SPDX-License-Identifier: MIT
"""A case solved for every combination of the values that some of its keys are to take, each into a file of its own.

What is in the folder already and belongs to the same case is not solved again, so that a sweep which was interrupted,
or has got further values, goes on.
"""

from __future__ import annotations

import logging
import math
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from poisson.backends.host import host_memory
from poisson.case import Case, load, toml
from poisson.case.differences import differences
from poisson.case.reading import field_files
from poisson.case.variations import Variation, variations
from poisson.errors import CaseError, OutputError, PoissonError
from poisson.output import checkpoint, locks, reading, result
from poisson.output.checkpoint import Saved
from poisson.output.reading import Stored
from poisson.output.record import Record
from poisson.run import memory, run
from poisson.run.solution import Solution
from poisson.solvers.stopping import Observer

REFUSED, FAILED = "refused", "failed"
"""In the place of a status: the values do not go together; the solve could not be carried out."""

BESIDE = ("output.file", "output.checkpoint_every")
"""Keys in which a result may differ from the case that it is taken for."""

_ROUNDED = 1e-2
"""Grids count as refined by the same factor along all axes if it is the same within this."""

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Row:
    """What became of one combination.

    Parameters
    ----------
    values : dict
        What the keys were set to.
    status : str
        How the solve ended, or `REFUSED` or `FAILED`.
    file : Path, optional
        The result, if there is one.
    reason : str
        Why there is none, or what to do about how it ended; empty after a success.
    method : str, optional
        What solved it.
    spacing : tuple of float
        Of the nodes along x(, y(, z)).
    iterations, residual, error_rms, error_max, seconds, setup : number, optional
        As in the result; of the seconds those of the solver loop and of what comes before it.
    kept : bool
        Whether the result was there before.
    order : float, optional
        The observed order of accuracy, from the next coarser grid with the same other values.
    """

    values: dict[str, Any]
    status: str
    file: Path | None = None
    reason: str = ""
    method: str | None = None
    spacing: tuple[float, ...] = ()
    iterations: int | None = None
    residual: float | None = None
    error_rms: float | None = None
    error_max: float | None = None
    seconds: float | None = None
    setup: float | None = None
    kept: bool = False
    order: float | None = None

    @property
    def success(self) -> bool:
        """Whether u is there, and is the solution."""
        return self.status in ("converged", "at_rounding")


@dataclass(frozen=True)
class Entry:
    """One combination with its case, or with why it is none."""

    variation: Variation
    file: Path
    case: Case | None
    mistake: str = ""


def plan(path: str | Path, settings: Sequence[str], folder: Path) -> list[Entry]:
    """What is to be solved, checked as far as that goes before anything runs.

    Parameters
    ----------
    path : str or Path
        The case file.
    settings : sequence of str
        As `poisson.case.variations.variations` takes them.
    folder : Path
        Where the results go.

    Raises
    ------
    CaseError
        If the case is wrong, a value may not stand at its key, or no combination makes a case.
    """
    entries: list[Entry] = []
    first: CaseError | None = None
    for variation in variations(path, settings):
        file = folder / f"{variation.name}.h5"
        try:
            case = load(path, (*variation.overrides, f"output.file={toml.string(str(file))}"))
            entries.append(Entry(variation, file, case))
        except CaseError as error:
            first = first or error
            entries.append(Entry(variation, file, None, "; ".join(error.mistakes)))
    if first is not None and not any(entry.case for entry in entries):
        raise first
    return entries


def row_of(entry: Entry, observer: Observer | None = None) -> Row:
    """What becomes of one entry: its result as it is in its file, or after it has been solved.

    Failures are rows, too.

    Raises
    ------
    Interrupted
        If Ctrl-C was pressed once the loop had begun; the last complete iterate is in the file.
    KeyboardInterrupt
        If it was pressed before.
    """
    values, case = entry.variation.values, entry.case
    if case is None:
        return Row(values, REFUSED, reason=entry.mistake)
    there = finished(case, entry.file)
    if there is not None:
        return row_from(values, entry.file, there, kept=True)
    try:
        solution = solve(case, entry.file, observer)
    except (PoissonError, MemoryError) as error:
        reason = "; ".join(str(error).splitlines()) or "not enough memory"
        return Row(values, FAILED, reason=reason, spacing=case.problem.grid.spacing)
    return row_from(values, entry.file, solution)


def solve(case: Case, file: Path, observer: Observer | None) -> Solution:
    """Solve a case into a file, going on from a checkpoint of it or from an interrupted result if there is one.

    Of an interrupted solve the last complete iterate is written.
    """
    size = memory.result_bytes(case.problem, case.run.dtype, case.output.fields)
    result.check(file, size)

    def keep(solution: Solution) -> None:
        result.save(file, solution)

    with locks.reserved(file):
        return run.go_on(case, _begun(case, file), observer=observer, keep=keep)


def _begun(case: Case, file: Path) -> Saved | None:
    """From where a case can be resumed."""
    there = [path for path in (file, *checkpoint.beside(file)) if path.exists()]
    if not there or any(_newer_files(case, path) for path in there):
        return None
    try:
        saved = checkpoint.newest(file, case.text)
    except CaseError as error:
        log.info("%s", error.mistakes[0])
        return None
    return saved if saved is not None and not saved.complete else None


def row_from(values: dict[str, Any], file: Path, record: Record | Stored, *, kept: bool = False) -> Row:
    """The row of a result."""
    if isinstance(record, Stored):
        spans = zip(record.lower, record.upper, record.shape, record.periodic, strict=True)
        spacing = tuple((high - low) / (nodes - (not wraps)) for low, high, nodes, wraps in spans)
    else:
        spacing = record.problem.grid.spacing
    return Row(
        values,
        record.status.value,
        file,
        reason="" if record.status.success else record.status.advice,
        method=str(record.provenance.get("method", "")).partition(" ")[0] or None,
        spacing=spacing,
        iterations=record.iterations,
        residual=record.residual,
        error_rms=record.error.rms if record.error else None,
        error_max=record.error.max if record.error else None,
        seconds=record.times.get("solve"),
        setup=record.times.get("setup"),
        kept=kept,
    )


def finished(case: Case, file: Path) -> Stored | None:
    """The result that is in a file already, if it is that of a case and whole.

    One that was interrupted is not, nor is one that is older than a file which the case reads.
    """
    if not os.path.lexists(file):
        return None
    try:
        stored = reading.read(file, (), free=lambda: host_memory()[0], lazy=True)
        others = differences(stored.case_text, case.text, BESIDE)
    except (OutputError, CaseError) as error:
        log.info("%s is solved again: %s", file, error)
        return None
    reason = ""
    if stored.edited:
        reason = reading.EDITED
    elif stored.status.exit_code > 1:
        # From there it goes on.
        return None
    elif others:
        reason = f"it is of another {', '.join(others)}"
    elif newer := _newer_files(case, file):
        reason = f"{', '.join(newer)} is newer"
    if reason:
        log.info("%s is solved again: %s", file, reason)
        return None
    return stored


def _newer_files(case: Case, file: Path) -> list[str]:
    made = file.stat().st_mtime_ns
    paths = {field.path for field in field_files(case.problem).values()}
    return sorted(str(path) for path in paths if path.exists() and path.stat().st_mtime_ns > made)


def with_orders(rows: Sequence[Row]) -> list[Row]:
    """The rows with the observed order of accuracy where there is a coarser grid with the same other values.

    That grid has all spacings larger by the same factor; the finest such one counts.
    """
    return [replace(row, order=_order(row, rows)) for row in rows]


def _order(row: Row, rows: Sequence[Row]) -> float | None:
    if not (row.success and row.error_rms):
        return None
    found: tuple[float, float] | None = None
    for other in rows:
        if not (other.success and other.error_rms) or _beside_grid(other) != _beside_grid(row):
            continue
        factors = [large / small for large, small in zip(other.spacing, row.spacing, strict=True)]
        if min(factors) > 1.0 + _ROUNDED and max(factors) / min(factors) < 1.0 + _ROUNDED:
            mean = math.prod(factors) ** (1.0 / len(factors))
            if found is None or mean < found[0]:
                found = mean, other.error_rms
    if found is None or not all(0.0 < error < math.inf for error in (found[1], row.error_rms)):
        return None
    return math.log(found[1] / row.error_rms) / math.log(found[0])


def _beside_grid(row: Row) -> dict[str, Any]:
    return {key: value for key, value in row.values.items() if key != "domain.shape"}
