# SPDX-License-Identifier: MIT
"""The rows of a sweep, and the table of all sweeps into a folder.

A sweep adds its rows to the table, and replaces rows of the same combinations.
"""

import csv
import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from poisson.case.reading import value_of
from poisson.errors import FileChoice, OutputError
from poisson.output.files import cause
from poisson.run.quantities import ENERGY, FLUXES, LARGEST, LEAST, MEAN

STATUS, FILE, CHECKSUM = "status", "file", "case_checksum"

_FIRST = (STATUS, "method_used", "iterations", "residual", "relative_residual", "error_rms", "error_max", "order")
_QUANTITIES = (LEAST, LARGEST, MEAN, ENERGY, *FLUXES)
_LAST = ("setup_seconds", "seconds", FILE, "kept", "reason", CHECKSUM)


@dataclass(frozen=True)
class Row:
    """The outcome of one combination."""

    values: dict[str, Any]  # What the keys were set to.
    status: str  # How the solve ended, or ``refused`` or ``failed``.
    file: Path | None = None  # The result, if there is one.
    reason: str = ""  # Why there is none, or what to do about how it ended; empty after a success.
    method: str | None = None  # What solved it.
    spacing: tuple[float, ...] = ()  # Of the nodes along x(, y(, z)).
    # What the solution comes to, as `poisson.run.quantities.quantities` gives it.
    quantities: Mapping[str, float | None] = field(default_factory=dict)
    checksum: str = ""  # That of the case file.
    relative: float | None = None  # The residual over what ``solver.rtol`` is relative to, where that is known.
    # As in the result; of the seconds those of the solver loop and of what comes before it.
    iterations: int | None = None
    residual: float | None = None
    error_rms: float | None = None
    error_max: float | None = None
    seconds: float | None = None
    setup: float | None = None
    kept: bool = False  # Whether the result was there before.
    order: float | None = None  # The observed order of accuracy, from the next coarser grid with the same other values.

    @property
    def success(self) -> bool:
        """Whether u is there, and is the solution."""
        return self.status in ("converged", "at_rounding", "convolved")


@dataclass(frozen=True)
class SweepTable:
    """Rows of text cells."""

    keys: tuple[str, ...]  # The keys of cases that sweeps have set; the first columns.
    columns: tuple[str, ...]  # The others.
    # By the names of both, the cells; an empty one where a key was not set, or nothing is known.
    rows: tuple[Mapping[str, str], ...]


@dataclass(frozen=True)
class Merged:
    """A table with the rows of a sweep in it."""

    table: SweepTable  # All rows: those of earlier sweeps in their places, new combinations behind them.
    earlier: tuple[Mapping[str, str], ...]  # The rows of earlier sweeps that stay.
    changed: int  # How many of these are of the case file as it was before it was changed.


def cells(row: Row) -> dict[str, Any]:
    """The cells of a row, by the names of the columns: numbers in the units of the case, strings, or None."""
    own = {
        STATUS: row.status,
        "method_used": row.method,
        "iterations": row.iterations,
        "residual": row.residual,
        "relative_residual": row.relative,
        "error_rms": row.error_rms,
        "error_max": row.error_max,
        "order": row.order,
        "setup_seconds": row.setup,
        "seconds": row.seconds,
        FILE: None if row.file is None else str(row.file),
        "kept": row.kept,
        "reason": row.reason or None,
        CHECKSUM: row.checksum,
    }
    return {**row.values, **{name: own.get(name, row.quantities.get(name)) for name in columns_of([row])}}


def columns_of(rows: Sequence[Row]) -> list[str]:
    """The columns behind those of the keys that rows have."""
    return _ordered(dict.fromkeys(name for row in rows for name in row.quantities))


def read(path: Path) -> SweepTable | None:
    """The table in a file; None where there is no file, or an empty one.

    Raises OutputError if it cannot be read, or is no table of a sweep.
    """
    try:
        lines = list(csv.reader(io.StringIO(path.read_text("utf-8"), newline=""), strict=True))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise OutputError(f"{path}: ", *cause(error)) from error
    except (ValueError, csv.Error):
        lines = [[""]]
    if not lines:
        return None
    names = lines[0]
    if STATUS not in names or len(set(names)) < len(names) or any(len(line) != len(names) for line in lines):
        line = (
            f"{path}: already exists and is not the table of a sweep; not overwritten; move the file away, "
            "or choose another place"
        )
        raise OutputError(line, FileChoice.PLACE)
    place = names.index(STATUS)
    rows = tuple(dict(zip(names, line, strict=True)) for line in lines[1:])
    return SweepTable(tuple(names[:place]), tuple(names[place:]), rows)


def merged(table: SweepTable | None, rows: Sequence[Row]) -> Merged:
    """A table with the rows of a sweep: one of a combination that it has takes the place of the old one."""
    old = SweepTable((), (), ()) if table is None else table
    keys = tuple(dict.fromkeys((*old.keys, *(key for row in rows for key in row.values))))
    columns = tuple(_ordered(dict.fromkeys((*old.columns, *columns_of(rows)))))
    new: dict[frozenset[tuple[str, str]], tuple[bool, dict[str, str]]] = {}
    for row in rows:
        own = {name: "" if cell is None else str(cell) for name, cell in cells(row).items()}
        new[_combination(own, keys)] = row.kept, own
    found: list[Mapping[str, str]] = []
    earlier: list[Mapping[str, str]] = []
    for texts in old.rows:
        kept, replaced = new.pop(_combination(texts, old.keys), (False, None))
        if replaced is None:
            earlier.append(texts)
        elif kept:
            # Of the same result the values at other points hold, too.
            replaced = {**texts, **{name: text for name, text in replaced.items() if text}}
        found.append(replaced or texts)
    everything = (*found, *(own for _, own in new.values()))
    whole = tuple({name: texts.get(name, "") for name in (*keys, *columns)} for texts in everything)
    changed = len(earlier) - sum(_alike(texts, rows) for texts in earlier)
    return Merged(SweepTable(keys, columns, whole), tuple(earlier), changed)


def drawn(rows: Sequence[Row], earlier: Sequence[Mapping[str, str]], keys: Sequence[str]) -> list[Row]:
    """The rows that a figure shows: those of a sweep, and the earlier ones that set the same keys of the same case
    file.
    """
    own = set(rows[0].values)
    found = [_row(texts, keys) for texts in earlier if _alike(texts, rows)]
    return [*rows, *(row for row in found if row.values.keys() == own)]


def _alike(texts: Mapping[str, str], rows: Sequence[Row]) -> bool:
    """Whether an earlier row is of the same case file, as far as it is known."""
    return texts.get(CHECKSUM, "") in ("", *(row.checksum for row in rows))


def _row(texts: Mapping[str, str], keys: Sequence[str]) -> Row:
    """A row as far as a figure needs it."""
    return Row(
        {key: value_of(texts[key]) for key in keys if texts.get(key)},
        texts[STATUS],
        Path(texts[FILE]) if texts.get(FILE) else None,
        residual=_number(texts, "residual"),
        relative=_number(texts, "relative_residual"),
        error_rms=_number(texts, "error_rms"),
        seconds=_number(texts, "seconds"),
    )


def _number(texts: Mapping[str, str], name: str) -> float | None:
    try:
        number = float(texts.get(name, ""))
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def _ordered(names: Mapping[str, None]) -> list[str]:
    """The names of columns in their order; fluxes only where a row has them, what is not known here at the end."""
    quantities = [name for name in _QUANTITIES if name in names or name not in FLUXES]
    points = [name for name in names if name.startswith("u(")]
    known = [*_FIRST, *quantities, *points, *_LAST]
    return [*known, *(name for name in names if name not in known)]


def _combination(texts: Mapping[str, str], keys: Sequence[str]) -> frozenset[tuple[str, str]]:
    """The values of the keys, however they are written."""
    return frozenset((key, repr(value_of(texts[key]))) for key in keys if texts.get(key))
