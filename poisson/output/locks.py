# SPDX-License-Identifier: MIT
"""The lock of an output: as long as one run works on it, no other one does.

It is a lock of the operating system on a hidden file beside the output, so that it ends with its process, however that
ends. On a disk without such locks the file alone says which process holds it, and one that is gone holds nothing.
"""

import contextlib
import hashlib
import json
import logging
import os
import platform
import re
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

try:
    import fcntl
except ImportError:  # a system without such locks
    fcntl = None  # type: ignore[assignment]

from poisson.errors import FileChoice, OutputError
from poisson.output.files import cause, check_target

FREE, HELD, UNKNOWN = "free", "held", "unknown"
"""The states of a lock as the operating system tells them; the last one where the file system has no locks."""

_NAME = ".poisson-{}.lock"
_LEFTOVER = re.compile(re.escape(_NAME).replace(r"\{\}", "[0-9a-f]{16}"))
_MOST_READ = 1 << 12
_PATIENCE, _PAUSE = 0.5, 0.01
"""Seconds in which a process that has taken a lock writes its name into the file, and between two looks at it."""

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Holder:
    """The process that holds a lock.

    `host`: the name of its machine. `process`: its number there. `born`: when that process started, as the system
    counts it: another one may get the same number. Empty where the system does not tell. `since`: when it took the
    lock. `work`: what it does, such as ``solve``.
    """

    host: str
    process: int
    born: str
    since: str
    work: str

    def __str__(self) -> str:
        where = "" if self.host == platform.node() else f" on {self.host}"
        return f"another {self.work} (process {self.process}{where}, since {self.since})"

    @property
    def here(self) -> bool:
        """Whether it is this process."""
        return self.process == os.getpid() and self.host == platform.node()

    @property
    def gone(self) -> bool | None:
        """Whether the process has ended; None where that cannot be known from here."""
        if self.host != platform.node() or os.name != "posix":
            return None
        try:
            os.kill(self.process, 0)
        except ProcessLookupError:
            return True
        except OSError:
            return False
        return self.born != _born(self.process)


@contextlib.contextmanager
def reserved(path: str | Path, work: str = "solve", *, shown: str | Path | None = None) -> Iterator[None]:
    """Hold the lock of an output while the block runs.

    `path`: the output, which need not exist; its folder does. `work`: what is done meanwhile, in the words of a message
    to others. `shown`: what the message calls the output, if not by its path. Raises `OutputError` if another process,
    or another thread of this one, holds it; the line names the process.
    """
    path = Path(path)
    name = _name(check_target(path))
    _clear(name.parent)
    handle = _take(path, name, work, path if shown is None else shown)
    try:
        yield
    finally:
        if handle is not None:
            # Its name goes first: whoever has the file open then finds that it is nobody's lock any more.
            with contextlib.suppress(OSError):
                if _is_at(handle, name):
                    name.unlink()
            with contextlib.suppress(OSError):
                if fcntl is not None:
                    # A process that was forked meanwhile has the file open, too.
                    fcntl.flock(handle, fcntl.LOCK_UN)
            os.close(handle)


def require_free(path: str | Path) -> None:
    """Refuse an output that another process works on.

    Raises `OutputError` as `reserved`.
    """
    name = _name(check_target(Path(path)))
    with contextlib.suppress(OSError):
        handle = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            state, holder = _state(handle), _holder(handle)
            if state == FREE or holder is None or holder.here or (state == UNKNOWN and holder.gone is not False):
                return
        finally:
            os.close(handle)
        raise _refusal(path, holder)


def _take(path: Path, name: Path, work: str, shown: str | Path) -> int | None:
    """The handle of the lock; None where there can be none, which the log says."""
    end = time.monotonic() + _PATIENCE
    while True:
        try:
            handle, made = _open(name)
        except FileNotFoundError:
            # Its holder has ended between two looks.
            continue
        except PermissionError:
            log.warning("%s is not locked, as another user's %s cannot be opened", path, name)
            return None
        except OSError as error:
            raise OutputError(f"{path}: ", *cause(error)) from error
        kept = False
        try:
            state, holder = _state(handle), _holder(handle)
            if (state == FREE and _is_at(handle, name)) or (state == UNKNOWN and made):
                _write(handle, Holder(platform.node(), os.getpid(), _born(os.getpid()), _now(), work))
                kept = True
                return handle
            if state != FREE and (holder is None or (state == HELD and holder.gone)) and time.monotonic() < end:
                # Whoever has just taken it has not written its name yet, or only looks at it.
                time.sleep(_PAUSE)
            elif state == HELD or (state == UNKNOWN and holder is not None and holder.gone is False):
                raise _refusal(shown, holder)
            elif state == UNKNOWN:
                if holder is not None and not holder.gone:
                    log.warning("%s: %s has left %s on a disk without locks; it counts as ended", path, holder, name)
                name.unlink(missing_ok=True)
        finally:
            if not kept:
                os.close(handle)


def _refusal(shown: str | Path, holder: Holder | None) -> OutputError:
    who = "another process" if holder is None else "another thread of this process" if holder.here else str(holder)
    line = f"{shown}: {who} is writing there; wait for its end, or choose another place"
    return OutputError(line, FileChoice.PLACE)


def _name(target: Path) -> Path:
    """Beside the output; without its name, which may have the full length allowed."""
    digest = hashlib.blake2s(os.fsencode(target.name), digest_size=8).hexdigest()
    return target.with_name(_NAME.format(digest))


def _clear(folder: Path) -> None:
    """Remove what killed processes of this machine have left: files that nobody holds a lock on."""
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if _LEFTOVER.fullmatch(entry.name):
                with contextlib.suppress(OSError):
                    handle = os.open(entry.path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
                    try:
                        holder = _holder(handle)
                        if holder is not None and holder.gone and _state(handle) == FREE:
                            os.unlink(entry.path)
                    finally:
                        os.close(handle)


def _open(name: Path) -> tuple[int, bool]:
    """The file of a lock, and whether it was made for this."""
    flags = os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        return os.open(name, os.O_CREAT | os.O_EXCL | os.O_RDWR | flags, 0o666), True
    except FileExistsError:
        pass
    try:
        return os.open(name, os.O_RDWR | flags), False
    except PermissionError:
        # What another user has left can be locked all the same.
        return os.open(name, os.O_RDONLY | flags), False


def _state(handle: int) -> str:
    """Take the lock of an open file, if it is free."""
    if fcntl is None:
        return UNKNOWN
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return HELD
    except OSError:
        return UNKNOWN
    return FREE


def _is_at(handle: int, name: Path) -> bool:
    """Whether an open file still has its name: one who has ended takes it away."""
    try:
        return os.path.samestat(os.fstat(handle), os.stat(name, follow_symlinks=False))
    except FileNotFoundError:
        return False


def _holder(handle: int) -> Holder | None:
    try:
        found: Any = json.loads(os.pread(handle, _MOST_READ, 0))
        return Holder(
            str(found["host"]), int(found["process"]), str(found["born"]), str(found["since"]), str(found["work"])
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _write(handle: int, holder: Holder) -> None:
    # A full disk: the lock holds, and only its holder is not known by name.
    with contextlib.suppress(OSError):
        os.ftruncate(handle, 0)
        os.pwrite(handle, json.dumps(asdict(holder)).encode(), 0)


def _born(process: int) -> str:
    """When a process started, in ticks since the machine did."""
    try:
        # Behind the name of the program, which may have brackets and spaces.
        return Path(f"/proc/{process}/stat").read_text("ascii", "replace").rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return ""


def _now() -> str:
    return datetime.now().isoformat(" ", "seconds")
