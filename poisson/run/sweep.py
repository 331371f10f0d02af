# SPDX-License-Identifier: MIT
"""A case solved for every combination of the values that some of its keys are to take, each into a file of its own.

What is in the folder already and belongs to the same case is not solved again, so that a sweep which was interrupted,
or has got further values, goes on.
"""

import json
import logging
import math
import os
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from poisson.backends.host import host_memory
from poisson.case import Case, load, toml
from poisson.case.differences import differences
from poisson.case.reading import field_files, parsed
from poisson.case.variations import Variation, variations
from poisson.errors import CaseError, PoissonError
from poisson.output import checkpoint, locks, reading, result
from poisson.output.checkpoint import Saved
from poisson.run import memory, run
from poisson.run.quantities import Point, misfit, quantities
from poisson.run.saved import load as stored_solution
from poisson.run.solution import Solution
from poisson.run.sweep_table import Row
from poisson.solvers.stopping import Observer

REFUSED, FAILED = "refused", "failed"
"""In the place of a status: the values do not go together; the solve could not be carried out."""

BESIDE = ("output.file", "output.checkpoint_every")
"""Keys in which a result may differ from the case that it is taken for."""

_ROUNDED = 1e-2
"""Grids count as refined by the same factor along all axes if it is the same within this."""

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Entry:
    """One combination with its case, or with why it is none."""

    variation: Variation  # The combination.
    file: Path  # Where its result goes.
    case: Case | None  # None where there is a mistake.
    mistake: str = ""  # Why the values do not go together.
    checksum: str = ""  # That of the case file.
    points: tuple[Point, ...] = ()  # Where u is asked for.


def plan(path: str | Path, settings: Sequence[str], folder: Path, points: Sequence[Point] = ()) -> list[Entry]:
    """Plan the solves of a sweep, checked as far as possible before any of them runs.

    `path`: the case file. `settings`: as `poisson.case.variations.variations` takes them. `folder`: where the results
    go. `points`: where u is asked for. Raises `CaseError` if the case is wrong, a value may not stand at its key, no
    combination makes a case, or none has a point in its box.
    """
    entries: list[Entry] = []
    first: CaseError | None = None
    found = variations(path, settings)
    checksum = checksum_of(path)
    for variation in found:
        file = folder / f"{variation.name}.h5"
        try:
            case = load(path, (*variation.overrides, f"output.file={toml.string(str(file))}"))
            entries.append(Entry(variation, file, case, "", checksum, tuple(points)))
        except CaseError as error:
            first = first or error
            entries.append(Entry(variation, file, None, "; ".join(error.mistakes), checksum))
    if first is not None and not any(entry.case for entry in entries):
        raise first
    for point in points:
        reasons = [misfit(entry.case.problem.lattice, point) for entry in entries if entry.case]
        if all(reasons):
            raise CaseError(f"--at {','.join(f'{place:g}' for place in point)}: {reasons[0]}")
    return entries


def checksum_of(path: str | Path) -> str:
    """CRC-32 of what a case file says but for its title, whatever its lines look like."""
    tables = parsed(Path(path).read_text("utf-8"), str(path))
    said = {name: entry for name, entry in tables.items() if name != "title"}
    return f"{zlib.crc32(json.dumps(said, sort_keys=True, default=str).encode()):08x}"


def row_of(entry: Entry, observer: Observer | None = None) -> Row:
    """The row of one entry: from the result in its file, or after it has been solved.

    Failures are rows, too.

    Raises Interrupted if Ctrl-C was pressed once the loop had begun; the last complete iterate is in the file.
    """
    values, case = entry.variation.values, entry.case
    if case is None:
        return Row(values, REFUSED, reason=entry.mistake, checksum=entry.checksum)
    there = finished(case, entry.file)
    if there is not None:
        return row_from(entry, there, kept=True)
    try:
        solution = solve(case, entry.file, observer)
    except (PoissonError, MemoryError) as error:
        reason = "; ".join(str(error).splitlines()) or "not enough memory"
        spacing = case.problem.lattice.spacing
        return Row(values, FAILED, reason=reason, spacing=spacing, checksum=entry.checksum)
    return row_from(entry, solution)


def solve(case: Case, file: Path, observer: Observer | None) -> Solution:
    """Solve a case into a file, going on from a checkpoint of it or from an interrupted result if there is one.

    Of an interrupted solve the last complete iterate is written.
    """
    size = memory.result_bytes(case.problem.lattice, case.run.dtype, case.output.fields)
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


def row_from(entry: Entry, solution: Solution, *, kept: bool = False) -> Row:
    """The row of a result."""
    return Row(
        entry.variation.values,
        solution.status.value,
        entry.file,
        reason="" if solution.status.success else solution.advice,
        method=str(solution.provenance.get("method", "")).partition(" ")[0] or None,
        spacing=solution.problem.lattice.spacing,
        quantities=quantities(solution, entry.points),
        checksum=entry.checksum,
        relative=_relative(entry.case, solution),
        iterations=solution.iterations,
        residual=solution.residual,
        error_rms=solution.error.rms if solution.error else None,
        error_max=solution.error.max if solution.error else None,
        seconds=solution.times.get("solve"),
        setup=solution.times.get("setup"),
        kept=kept,
    )


def _relative(case: Case | None, solution: Solution) -> float | None:
    """The residual over the norm that rtol is relative to, where the target is rtol times that."""
    stopping = None if case is None else case.solver.stopping
    if stopping is None or stopping.rtol == 0.0 or not stopping.atol < solution.target < math.inf:
        return None
    relative = solution.residual / solution.target * stopping.rtol
    return relative if math.isfinite(relative) else None


def finished(case: Case, file: Path) -> Solution | None:
    """The result that is in a file already, if it is that of a case and whole.

    One that was interrupted is not, nor is one that is older than a file which the case reads.
    """
    if not os.path.lexists(file):
        return None
    try:
        stored = reading.read(file, (), free=lambda: host_memory()[0], lazy=True)
        others = differences(stored.case_text, case.text, BESIDE)
        reason = ""
        if stored.edited:
            reason = reading.EDITED
        elif stored.status.exit_code > 1:
            # From there it goes on.
            return None
        elif others:
            reason = f"{', '.join(others)} changed"
        elif newer := _newer_files(case, file):
            reason = f"{', '.join(newer)} is newer"
        if not reason:
            return stored_solution(file, ())
    except PoissonError as error:
        reason = "; ".join(str(error).splitlines())
    log.info("%s will be solved again: %s", file, reason)
    return None


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
