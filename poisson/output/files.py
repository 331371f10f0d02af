# SPDX-License-Identifier: MIT
"""Files that appear whole or not at all, and the disk's refusals in words."""

import contextlib
import errno
import hashlib
import os
import platform
import re
import secrets
import shutil
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

try:
    import fcntl
except ImportError:  # a system without such locks: what a killed run leaves then stays
    fcntl = None  # type: ignore[assignment]

from poisson.errors import FileChoice, OutputError

_ELSEWHERE = ("choose another place", FileChoice.PLACE)
_OR_ELSEWHERE = ("or ", *_ELSEWHERE)

NOT_OURS = (
    "already exists and is not a result of poisson; not overwritten; give another name",
    FileChoice.PLACE,
    ", or replace it",
    FileChoice.OVERWRITE,
)
"""Why a file stays, as parts of an `OutputError`."""

EXISTS = ("already exists; not overwritten; give another name", FileChoice.PLACE)
"""Why nothing is written, as parts of an `OutputError`."""

_CAUSES: dict[int, tuple[str | FileChoice, ...]] = {
    errno.ENOSPC: ("the disk is full; free some space ", *_OR_ELSEWHERE),
    errno.EDQUOT: ("the disk quota is used up; free some space ", *_OR_ELSEWHERE),
    errno.EFBIG: (
        "the file is larger than the file system or the shell's limit (ulimit -f) allows; raise the limit ",
        *_OR_ELSEWHERE,
    ),
    errno.EACCES: ("no permission to write there; change the permissions ", *_OR_ELSEWHERE),
    errno.EPERM: ("no permission to write there; change the permissions ", *_OR_ELSEWHERE),
    errno.EROFS: ("the file system is read-only; ", *_ELSEWHERE),
    errno.ENOENT: ("the folder does not exist; create it ", *_OR_ELSEWHERE),
    errno.ENOTDIR: ("a part of the path is a file, not a folder; ", *_ELSEWHERE),
    errno.EISDIR: ("this is a folder; give the name of a file", FileChoice.PLACE),
    errno.ENAMETOOLONG: ("the name is too long; choose a shorter one", FileChoice.PLACE),
    errno.ELOOP: ("the symbolic links of the path form a loop; ", *_ELSEWHERE),
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


def cause(error: BaseException) -> tuple[str | FileChoice, ...]:
    """The cause of a failed write, and the fix, as parts of an `OutputError`."""
    number = error_number(error)
    if number in _CAUSES:
        return _CAUSES[number]
    reason = " ".join(str(error).split()) if number is None else os.strerror(number)
    return (f"{reason}; ", *_ELSEWHERE)


def refusal(error: BaseException, folder: Path) -> tuple[str | FileChoice, ...]:
    """As `cause`, of a new file in a folder: one that is there and takes none, as ``/proc``, is not called missing."""
    if error_number(error) == errno.ENOENT and folder.is_dir():
        return ("the folder takes no new files; ", *_ELSEWHERE)
    return cause(error)


def check_target(path: Path) -> Path:
    """The file that a write to `path` would replace: its folder exists, and it is a plain file or nothing yet.

    Symbolic links are followed, so that the file they point to is the one replaced.

    Raises `OutputError` if `path` cannot be written for a reason that shows without writing.
    """
    mode = None
    try:
        target = Path(os.path.realpath(path))
        folder_mode = target.parent.stat().st_mode
        with contextlib.suppress(FileNotFoundError):
            mode = target.stat().st_mode
    except (OSError, ValueError) as error:
        raise OutputError(f"{path}: ", *cause(error)) from error
    if not stat.S_ISDIR(folder_mode):
        raise OutputError(f"{path}: ", *_CAUSES[errno.ENOTDIR])
    if mode is None:
        return target
    if stat.S_ISDIR(mode):
        raise OutputError(f"{path}: ", *_CAUSES[errno.EISDIR])
    if not stat.S_ISREG(mode):
        raise OutputError(f"{path}: not a regular file; not overwritten; give another name", FileChoice.PLACE)
    if not os.access(target, os.W_OK):
        raise OutputError(f"{path}: the file is write-protected; remove it or give another name", FileChoice.PLACE)
    return target


def check_space(path: Path, bytes_needed: int) -> None:
    """Check that a file of `bytes_needed` bytes can be written at `path`.

    The folder is tried with an empty file that is removed at once: permissions alone do not tell on a network disk.

    Raises `OutputError` if the folder refuses a new file, or its disk has less room than `bytes_needed`.
    """
    target = check_target(path)
    try:
        handle, probe = _create(target)
        os.close(handle)
        probe.unlink()
        free = shutil.disk_usage(target.parent).free
    except OSError as error:
        raise OutputError(f"{path}: ", *refusal(error, target.parent)) from error
    if free < bytes_needed:
        raise OutputError(
            f"{path}: the result needs {size(bytes_needed)}, and the disk has {size(free)} free; free some space ",
            *_OR_ELSEWHERE,
        )


@dataclass(frozen=True)
class Draft:
    """A file that is being written under a temporary name.

    `target`: the file that it is to replace. `temporary`: its name until then, in the same folder.
    """

    target: Path
    temporary: Path

    def put(self) -> None:
        """Give it the name of the target: a crash at any moment leaves the old file or this one."""
        with open(self.temporary, "r+b") as stream:
            os.fsync(stream.fileno())
        os.replace(self.temporary, self.target)
        _sync_folder(self.target.parent)

    def add(self) -> None:
        """Give it the name of the target, which nothing may have yet.

        Raises `OutputError` if there is a file of that name by now.
        """
        with open(self.temporary, "r+b") as stream:
            os.fsync(stream.fileno())
        try:
            # As a second name it cannot take the place of a file.
            os.link(self.temporary, self.target)
        except FileExistsError:
            raise OutputError(f"{self.target}: ", *EXISTS) from None
        except OSError:
            # A disk without second names.
            if os.path.lexists(self.target):
                raise OutputError(f"{self.target}: ", *EXISTS) from None
            os.replace(self.temporary, self.target)
        _sync_folder(self.target.parent)


@contextlib.contextmanager
def drafted(path: Path) -> Iterator[Draft]:
    """Give the block an empty file under a temporary name, to be filled and put in the place of `path`.

    It has the permissions, and where the system allows it the owner, of the file it is to replace. Whatever the block
    has not put in its place is removed, and so are such files that killed runs have left in the folder.

    Raises `OutputError` if the disk refuses: the system's error, or an HDF5 error that carries one.
    """
    target = check_target(path)
    handle = None
    try:
        clear_leftovers(target.parent)
        handle, temporary = _create(target)
        try:
            yield Draft(target, temporary)
        finally:
            with contextlib.suppress(OSError):
                temporary.unlink(missing_ok=True)
    except (OSError, RuntimeError) as error:
        # h5py reports a failed flush or close as a RuntimeError; one without an error number is not the disk's.
        if isinstance(error, RuntimeError) and error_number(error) is None:
            raise
        raise OutputError(f"{path}: ", *refusal(error, target.parent)) from error
    finally:
        # The lock goes with it, so it is closed last.
        if handle is not None:
            os.close(handle)


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Give the block a temporary name in the folder of `path`; rename that file to `path` when the block has ended.

    If the block fails, for whatever reason, the temporary file is removed and `path` is as it was.

    Raises `OutputError` as `drafted`.
    """
    with drafted(path) as draft:
        yield draft.temporary
        draft.put()


def clear_leftovers(folder: Path) -> None:
    """Remove the temporary files of this host in a folder whose writers are gone.

    A writer holds a lock on its file as long as it lives. Files of other hosts stay: not every network disk tells one
    host about the locks of another.
    """
    if fcntl is None:
        return
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if _LEFTOVER.fullmatch(entry.name):
                with contextlib.suppress(OSError):
                    _remove_if_free(entry.path)


def _remove_if_free(path: str) -> None:
    handle = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.unlink(path)
    finally:
        os.close(handle)


def size(count: float) -> str:
    """A number of bytes for people, in decimal units."""
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} TB"


_HOST = hashlib.blake2s(platform.node().encode("utf-8", "replace"), digest_size=4).hexdigest()
_LEFTOVER = re.compile(rf"\.poisson-{_HOST}-[0-9a-f]{{16}}\.tmp")


def _create(target: Path) -> tuple[int, Path]:
    """A new file beside `target`, locked, with its permissions; its handle and its name.

    The name does not contain the target's, which may have the full length allowed.
    """
    try:
        old = target.stat()
    except FileNotFoundError:
        old = None
    while True:
        temporary = target.with_name(f".poisson-{_HOST}-{secrets.token_hex(8)}.tmp")
        # What replaces a file is never more open than that, not even for a moment.
        mode = 0o666 if old is None else 0o600
        handle = os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, mode)
        if _lock(handle) and temporary.exists():
            break
        # Another run has taken it for a leftover before the lock was there.
        os.close(handle)
    if old is not None:
        _take_over(handle, target, old)
    return handle, temporary


def _lock(handle: int) -> bool:
    """Lock a file that was just made; false where another run looks at it at this moment."""
    if fcntl is not None:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError:
            # A disk without locks, where nothing is taken for a leftover either.
            return True
    return True


def _take_over(handle: int, target: Path, old: os.stat_result) -> None:
    """Give a new file the owner, the permissions and the access list of the one it is to replace."""
    mode, new = stat.S_IMODE(old.st_mode), os.fstat(handle)
    if (old.st_uid, old.st_gid) != (new.st_uid, new.st_gid):
        try:
            os.fchown(handle, old.st_uid, old.st_gid)
        except OSError:
            with contextlib.suppress(OSError):
                os.fchown(handle, -1, old.st_gid)
    if os.fstat(handle).st_gid != old.st_gid:
        # Another group gets no more than everyone.
        mode = mode & ~0o070 | (mode & 0o007) << 3
    # Not every disk knows permissions and access lists.
    with contextlib.suppress(OSError):
        os.fchmod(handle, mode & 0o777)
    with contextlib.suppress(OSError, AttributeError):
        os.setxattr(handle, _ACCESS_LIST, os.getxattr(target, _ACCESS_LIST))


_ACCESS_LIST = "system.posix_acl_access"


def _sync_folder(folder: Path) -> None:
    """Make the rename last through a loss of power, on the systems that can sync a folder."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
