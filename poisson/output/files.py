"""Files that appear whole or not at all, and the disk's refusals in words."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import secrets
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path

from poisson.errors import OutputError

_ELSEWHERE = "or choose another place with --output"

_CAUSES = {
    errno.ENOSPC: "the disk is full; free some space " + _ELSEWHERE,
    errno.EDQUOT: "the disk quota is used up; free some space " + _ELSEWHERE,
    errno.EFBIG: "the file is larger than the file system or the shell's limit (ulimit -f) allows; raise the limit "
    + _ELSEWHERE,
    errno.EACCES: "no permission to write there; change the permissions " + _ELSEWHERE,
    errno.EPERM: "no permission to write there; change the permissions " + _ELSEWHERE,
    errno.EROFS: "the file system is read-only; choose another place with --output",
    errno.ENOENT: "the folder does not exist; create it " + _ELSEWHERE,
    errno.ENOTDIR: "a part of the path is a file, not a folder; choose another place with --output",
    errno.EISDIR: "it is a folder; give the name of a file with --output",
    errno.ENAMETOOLONG: "the name is too long; choose a shorter one with --output",
    errno.ELOOP: "the path is a circle of symbolic links; choose another place with --output",
}


def error_number(error: BaseException) -> int | None:
    """The system's error number behind an exception, or None.

    HDF5 hides it in its text, and an error on closing the file hides the one that led to it; so the texts and the
    whole chain of exceptions are searched.
    """
    link: BaseException | None = error
    while link is not None:
        if isinstance(link, OSError) and link.errno is not None:
            return link.errno
        found = re.search(r"errno = (\d+)", str(link))
        if found:
            return int(found[1])
        if "No space left" in str(link):
            return errno.ENOSPC
        link = link.__cause__ or link.__context__
    return None


def cause(error: BaseException) -> str:
    """One line that names the cause of a failed write and the fix."""
    number = error_number(error)
    if number in _CAUSES:
        return _CAUSES[number]
    if number is not None:
        return f"{os.strerror(number)}; choose another place with --output"
    return f"{' '.join(str(error).split())}; choose another place with --output"


def check_target(path: Path) -> Path:
    """The file that a write to `path` would replace: its folder exists, and it is a plain file or nothing yet.

    Symbolic links are followed, so that the file they point to is the one replaced.

    Raises
    ------
    OutputError
        If `path` cannot be written for a reason that shows without writing.
    """
    mode = None
    try:
        target = Path(os.path.realpath(path))
        folder_mode = target.parent.stat().st_mode
        with contextlib.suppress(FileNotFoundError):
            mode = target.stat().st_mode
    except (OSError, ValueError) as error:
        raise OutputError(f"{path}: {cause(error)}") from error
    if not stat.S_ISDIR(folder_mode):
        raise OutputError(f"{path}: {_CAUSES[errno.ENOTDIR]}")
    if mode is None:
        return target
    if stat.S_ISDIR(mode):
        raise OutputError(f"{path}: {_CAUSES[errno.EISDIR]}")
    if not stat.S_ISREG(mode):
        raise OutputError(f"{path}: not a plain file, so it will not be replaced; give another name with --output")
    if not os.access(target, os.W_OK):
        raise OutputError(f"{path}: the file is write-protected; remove it or give another name with --output")
    return target


def check_space(path: Path, bytes_needed: int) -> None:
    """Check that a file of `bytes_needed` bytes can be written at `path`.

    The folder is tried with an empty file that is removed at once: permissions alone do not tell on a network disk.

    Raises
    ------
    OutputError
        If the folder refuses a new file, or its disk has less room than `bytes_needed`.
    """
    target = check_target(path)
    probe = _temporary(target)
    try:
        os.close(os.open(probe, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
        probe.unlink()
        free = shutil.disk_usage(target.parent).free
    except OSError as error:
        raise OutputError(f"{path}: {cause(error)}") from error
    if free < bytes_needed:
        raise OutputError(
            f"{path}: {size(bytes_needed)} are needed and the disk has {size(free)} free; free some space {_ELSEWHERE}"
        )


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Give the block a temporary name in the folder of `path`; rename that file to `path` when the block has ended.

    A crash at any moment leaves the old file or the new one. If the block fails, for whatever reason, the temporary
    file is removed and `path` is as it was.

    Raises
    ------
    OutputError
        If the disk refuses: the system's error, or an HDF5 error that carries one.
    """
    target = check_target(path)
    temporary = _temporary(target)
    try:
        yield temporary
        with open(temporary, "r+b") as stream:
            os.fsync(stream.fileno())
        os.replace(temporary, target)
        _sync_folder(target.parent)
    except (OSError, RuntimeError) as error:
        # h5py reports a failed flush or close as a RuntimeError; one without an error number is not the disk's.
        if isinstance(error, RuntimeError) and error_number(error) is None:
            raise
        raise OutputError(f"{path}: {cause(error)}") from error
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)


def size(count: float) -> str:
    """A number of bytes for people, in decimal units."""
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} TB"


def _temporary(target: Path) -> Path:
    """A new name beside `target`; it does not contain the target's, which may have the full length allowed."""
    return target.with_name(f".poisson-{secrets.token_hex(8)}.tmp")


def _sync_folder(folder: Path) -> None:
    """Make the rename last through a loss of power, on the systems that can sync a folder."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
