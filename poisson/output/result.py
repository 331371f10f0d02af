# SPDX-License-Identifier: MIT
"""A result on disk: the HDF5 file and the XDMF file beside it, which belong together at every moment."""

import contextlib
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from poisson.errors import FileChoice, OutputError
from poisson.output import hdf5, locks, xdmf
from poisson.output.files import NOT_OURS, Draft, cause, check_space, check_target, drafted
from poisson.output.parts import Parts, together
from poisson.output.record import Record, Span


class Written(NamedTuple):
    """The files of a result, and the span of u where writing has found it."""

    path: Path
    beside: Path
    span: Span | None


NOR_THERE, LOST = "saving in the temporary folder failed, too (", "); the result is lost"


def check(path: str | Path, bytes_needed: int, *, overwrite: bool = False) -> None:
    """Check before a solve that its result can be written.

    `path`: where the result will go. `bytes_needed`: the size of the result. An older file of the same name stays until
    the new one is complete, so its room does not count. `overwrite`: whether files that are no results may be replaced.
    Raises `OutputError` if the folder is missing or refuses a new file, `path` or the XDMF file beside it is a folder
    or not to be replaced, or the disk is too full.
    """
    path = Path(path)
    check_space(path, bytes_needed)
    check_target(xdmf.path_beside(path))
    _check_replaceable(path, overwrite=overwrite)


def save(path: str | Path, solution: Record, *, overwrite: bool = False) -> Written:
    """Write a result; if that fails, save it in the system's temporary folder.

    Every rank that holds a part of the result calls this.

    `path`: the HDF5 file to write or replace. `solution`: what to write. `overwrite`: whether files that are no results
    may be replaced. Returns: the files written: `path`, and the XDMF file. Raises `OutputError` if a file could not be
    written where it was wanted. Its line says where the result is instead.
    """
    return together(solution, lambda parts: _save(Path(path), solution, parts, overwrite=overwrite))


def _save(path: Path, solution: Record, parts: Parts | None, *, overwrite: bool) -> Written:
    beside = xdmf.path_beside(path)
    placed = False
    try:
        _check_replaceable(path, overwrite=overwrite)
        locks.require_free(path)
        with drafted(path) as data:
            span = hdf5.fill(data.temporary, solution, parts)
            try:
                with _mesh(beside, xdmf.content(path, solution)) as mesh:
                    data.put()
                    placed = True
                    if mesh is not None:
                        mesh.put()
            except OutputError:
                if not placed:
                    # No file is better than one that tells of other data.
                    with contextlib.suppress(OSError):
                        beside.unlink(missing_ok=True)
                    data.put()
                    placed = True
                raise
    except OutputError as error:
        where = (f"the result is in {path}",) if placed else _save_elsewhere(solution, parts)
        raise OutputError(error, "; ", *where) from error
    return Written(path, beside, span)


@contextlib.contextmanager
def _mesh(beside: Path, content: bytes) -> Iterator[Draft | None]:
    """The XDMF file, ready to be put in its place; None where it is there already.

    One that tells of other data is gone when the block begins: were the run killed in the block, the new data would be
    read by the old description.
    """
    target = check_target(beside)
    with contextlib.suppress(OSError):
        if target.read_bytes() == content:
            yield None
            return
    with drafted(beside) as draft:
        draft.temporary.write_bytes(content)
        target.unlink(missing_ok=True)
        yield draft


def _check_replaceable(path: Path, *, overwrite: bool) -> None:
    hdf5.check_replaceable(path, overwrite=overwrite)
    beside = xdmf.path_beside(path)
    if overwrite:
        return
    try:
        ours = not beside.exists() or xdmf.is_ours(beside, path.name)
    except OSError as error:
        raise OutputError(f"{beside}: ", *cause(error)) from error
    if not ours:
        raise OutputError(f"{beside}: ", *NOT_OURS)


def _save_elsewhere(solution: Record, parts: Parts | None) -> tuple[str | FileChoice | OutputError, ...]:
    """Write the result to the temporary folder; say where it is, or that it is lost, as parts of an error."""
    try:
        # A folder of our own: others can write to the temporary folder, too.
        folder = Path(tempfile.mkdtemp(prefix="poisson-"))
    except OSError as error:
        return (NOR_THERE, *cause(error), LOST)
    fallback = folder / "result.h5"
    try:
        hdf5.replace(fallback, solution, parts)
    except OutputError as error:
        folder.rmdir()
        return (NOR_THERE, error, LOST)
    return (f"the result is saved as {fallback}",)
