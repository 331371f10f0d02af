# SPDX-License-Identifier: MIT
"""Checkpoints: what a solve had reached when it was broken off, in files of the layout of a result beside the result.

The name of each says after how many iterations it was written. A file appears whole or not at all, and each new one is
there before the oldest goes, so that at any moment at least one stands that can be read.
"""

import contextlib
import logging
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from poisson.case.differences import differences
from poisson.errors import CaseError, OutputError
from poisson.output.description import describe_apart
from poisson.output.hdf5 import is_result
from poisson.output.reading import EDITED, damaged, read
from poisson.output.record import THEN
from poisson.solvers.status import Status
from poisson.words import quantity

MOST_KEPT = 2
"""The last ones: the one before stands until the next is whole, and where a disk damages one there is another."""

MACHINE = ("solver.max_iterations", "run.backend", "run.threads", "run.ranks")

FREE = ("title", "run.precision", *MACHINE)
"""The keys of a case that may be others when it is resumed, with those of ``[output]``: no iterate depends on them, but
for rounding."""

FREE_AT_THE_END = ("output.file", "output.checkpoint_every", *MACHINE)
"""The keys that may differ where the result is already there."""

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Saved:
    """How far a solve has come by what is on disk.

    `path`: the file: a checkpoint or a result.
    `status`: how the solve has ended, if it has.
    `iterations`: that have made its u.
    `target`: the residual norm to reach, in U/L².
    `history` (tuple of (int, float)): the norms that were read.
    `seconds`: of the solver loop.
    `backend`, `precision`: where and in which type it was computed.
    `instead`: the method that had gone on, where the one that was chosen stalled.
    `case_text`: the case.
    """

    path: Path
    status: Status
    iterations: int
    target: float
    history: tuple[tuple[int, float], ...]
    seconds: float
    backend: str
    precision: str
    instead: str
    case_text: str

    @property
    def complete(self) -> bool:
        """Whether the solve has ended by itself, so that there is nothing to go on with."""
        return not self.status.goes_on


def path_of(file: Path, iterations: int) -> Path:
    """The checkpoint of a result after so many iterations."""
    return file.with_name(f"{file.stem}.checkpoint-{iterations}{file.suffix}")


def beside(file: Path) -> list[Path]:
    """The checkpoints that there are of a result, that of the most iterations first."""
    name = re.compile(rf"{re.escape(file.stem)}\.checkpoint-(\d{{1,18}}){re.escape(file.suffix)}")
    found: list[tuple[int, Path]] = []
    with contextlib.suppress(OSError):
        found = [(int(match[1]), path) for path in file.parent.iterdir() if (match := name.fullmatch(path.name))]
    return [path for _, path in sorted(found, reverse=True)]


def remove(file: Path, *, but_for: tuple[Path, ...] = ()) -> None:
    """Remove the checkpoints of a result; files of other origin stay."""
    for path in beside(file):
        if path not in but_for and is_result(path):
            with contextlib.suppress(OSError):
                path.unlink()


def newest(file: Path, case_text: str) -> Saved | None:
    """From where a case can be resumed: the newest whole checkpoint of a result, or the result itself.

    A result whose solve ended early is as good as a checkpoint. One that is complete counts before all checkpoints.

    `file`: the result. `case_text`: the case, as TOML with every default filled in. Returns: None where there is
    nothing, which the log says. Raises `CaseError` if what there is belongs to another case. The lines have the keys
    that differ.
    """
    others: dict[Path, list[str]] = {}
    for saved in _found(file):
        changed = _changed(saved, case_text)
        if not changed:
            if saved.complete:
                _clear(file, case_text)
            else:
                log.info("resumed from %s after %s", saved.path, quantity(saved.iterations, "iteration"))
            return saved
        if saved.complete:
            log.info("%s holds the result of another case (%s); it will be replaced", saved.path, "; ".join(changed))
        else:
            others[saved.path] = changed
    if others:
        path, changed = next(iter(others.items()))
        raise CaseError(
            [
                f"{path}: the checkpoint belongs to another case; remove it, or start from scratch without resuming",
                *changed,
            ]
        )
    log.info("no checkpoint for %s; starting from scratch", file)
    return None


def _clear(file: Path, case_text: str) -> None:
    """Remove the checkpoints of a case that is complete: a run that was killed in its last moment leaves them."""
    for path in beside(file):
        with contextlib.suppress(OutputError):
            if not _changed(_read(path), case_text):
                path.unlink(missing_ok=True)


def _found(file: Path) -> Iterator[Saved]:
    """The checkpoints that exist, the most useful first; the log names damaged files."""
    result = None
    if file.exists():
        result = _whole(file)
        if result is not None and result.complete:
            yield result
            result = None
    for path in beside(file):
        if (saved := _whole(path)) is None:
            continue
        if result is not None and result.iterations > saved.iterations:
            yield result
            result = None
        yield saved
    if result is not None:
        yield result


def _whole(path: Path) -> Saved | None:
    try:
        return load(path)
    except OutputError as error:
        log.warning("%s", error)
        return None


def load(path: Path) -> Saved:
    """The state of a solve in a checkpoint or a result, after all its values were found to be whole.

    Raises `OutputError` if it cannot be read, or is damaged.
    """
    describe_apart(path, whole=True)
    return _read(path)


def _read(path: Path) -> Saved:
    stored = read(path, (), free=lambda: 1 << 62, lazy=True)
    if stored.edited:
        raise OutputError(f"{path}: {damaged(EDITED)}")
    provenance = stored.provenance
    return Saved(
        path=path,
        status=stored.status,
        iterations=stored.iterations,
        target=stored.target,
        history=stored.history,
        seconds=stored.times.get("solve", 0.0),
        backend=str(provenance.get("backend", "")),
        precision=str(provenance.get("precision", "")),
        instead=str(provenance.get("method", "")).partition(THEN)[2],
        case_text=stored.case_text,
    )


def _changed(saved: Saved, case_text: str) -> list[str]:
    """A line for each key that keeps a solve from going on from what is saved, or that from being its result."""
    free = FREE_AT_THE_END if saved.complete else FREE
    try:
        found = differences(saved.case_text, case_text, free)
    except CaseError as error:
        return list(error.mistakes)
    return [
        f"{key}: {' -> '.join(end or 'not set' for end in ends)}"
        for key, ends in found.items()
        if saved.complete or not key.startswith("output.")
    ]
