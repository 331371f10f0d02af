# SPDX-License-Identifier: MIT
"""Calls in a process of their own, which may crash, halt or ask for too much memory: this one goes on.

Files of others are read with libraries that a damaged file can bring down. The process is started with the first call
and serves the next ones; when nobody calls for a moment it ends.
"""

import atexit
import json
import os
import select
import signal
import subprocess
import sys
import threading
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

import poisson

LONGEST_SILENCE = 30.0
"""Seconds after which a call has come to a halt: reading a part of a file takes less from any disk."""

MEMORY = 4 << 30
"""Bytes of addresses that the process may take beside those of the modules it loads."""

LONGEST_ALONE = 2.0 * LONGEST_SILENCE
"""Seconds without a sign of life after which the process ends by itself: who waited for it may have been killed."""

IDLE = 10.0
"""Seconds without a call after which the process ends."""

# This package may have been found in a folder that is no longer in the path, or stand in the path twice.
_CHILD = """
import importlib.util, json, os, sys
sys.path[:], place = json.loads(sys.argv[1])
spec = importlib.util.spec_from_file_location("poisson", place, submodule_search_locations=[os.path.dirname(place)])
sys.modules["poisson"] = importlib.util.module_from_spec(spec)
spec.loader.exec_module(sys.modules["poisson"])
from poisson import apart
apart.serve()
"""


class Lost(Exception):
    """The process has ended without an answer, or was ended; the text says how, as in "crash, SIGSEGV"."""


_lock = threading.Lock()
_process: subprocess.Popen[bytes] | None = None
_answers = -1
"""In the process itself: where its answers go."""


def call(function: str, *arguments: Any, silence: float = LONGEST_SILENCE) -> Any:
    """Call a function in the other process, and return its result.

    `function`: its module and name, such as ``poisson.plain:find``. It handles its errors itself. `*arguments`: its
    arguments, and what it returns, are what JSON can hold. `silence`: seconds without a sign of life (`alive`) after
    which the call has come to a halt. Raises `Lost` if there is no answer.
    """
    request = json.dumps([_folder(), function, *arguments]).encode() + b"\n"
    with _lock:
        try:
            answer = _asked(request, silence) or _asked(request, silence)
        except BaseException:
            # What is under way in it is of no more use.
            _end()
            raise
    if answer is None:
        raise Lost("no answer")
    return json.loads(answer)


def alive() -> None:
    """Let the process that waits know that work goes on; does nothing where none waits."""
    if _answers >= 0:
        os.write(_answers, b".")
        # What comes is not handled, so that it ends a library that reads without an end, too.
        signal.setitimer(signal.ITIMER_REAL, LONGEST_ALONE)


def serve() -> None:
    """Answer calls as long as they come: what the process does that `call` starts."""
    import resource

    import h5py  # noqa: F401 - the limit is for what comes after it

    global _answers
    # An interrupt is for the one who waits.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    loaded = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    bounds = resource.getrlimit(resource.RLIMIT_AS)
    least = min(loaded + MEMORY, *(bound for bound in bounds if bound != resource.RLIM_INFINITY), sys.maxsize)
    resource.setrlimit(resource.RLIMIT_AS, (least, bounds[1]))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    # What a library prints is no answer.
    _answers = os.dup(1)
    os.dup2(2, 1)
    while select.select([0], [], [], IDLE)[0] and (request := sys.stdin.buffer.readline()):
        alive()
        folder, function, *arguments = json.loads(request)
        # Paths are relative to where the caller is.
        os.chdir(folder)
        answer = json.dumps(resolve_name(function)(*arguments)).encode() + b"\n"
        with os.fdopen(os.dup(_answers), "wb") as stream:
            stream.write(answer)
        signal.setitimer(signal.ITIMER_REAL, 0.0)


def _folder() -> str:
    """Where this process is; the root where that folder is gone."""
    try:
        return os.getcwd()
    except OSError:
        return os.sep


def _asked(request: bytes, silence: float) -> bytes | None:
    """The answer to a request; None if the process had just ended because nobody called."""
    process = _started()
    assert process.stdin is not None and process.stdout is not None
    try:
        process.stdin.write(request)
        process.stdin.flush()
    except BrokenPipeError:
        _gone(process)
        return None
    answer = b""
    # The first sign of life comes when all modules are loaded, however long that takes.
    while select.select([process.stdout], [], [], silence if answer else None)[0]:
        part = os.read(process.stdout.fileno(), 1 << 16)
        if not part:
            _gone(process)
            return None
        answer += part
        if answer.endswith(b"\n"):
            return answer.lstrip(b".")
    raise Lost("no end")


def _gone(process: subprocess.Popen[bytes]) -> None:
    """Forget a process that has ended.

    Raises `Lost` if that was not because nobody called.
    """
    code = process.wait()
    _end()
    if code < 0:
        raise Lost(f"crash, {signal.Signals(-code).name}")
    if code > 0:
        raise Lost("no answer")


def _started() -> subprocess.Popen[bytes]:
    global _process
    if _process is None or _process.poll() is not None:
        _end()
        # Without -P a module of the current folder could take the place of one of Python's.
        command = [sys.executable, "-P", "-c", _CHILD, json.dumps([sys.path, poisson.__file__])]
        pipe, nowhere = subprocess.PIPE, subprocess.DEVNULL
        _process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=nowhere)
    return _process


def _end() -> None:
    """End the process, if there is one."""
    global _process
    process, _process = _process, None
    if process is not None:
        process.kill()
        process.wait()
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                stream.close()


def _forked() -> None:
    """Leave the process to the parent."""
    global _lock, _process
    _lock = threading.Lock()
    if _process is not None:
        _process.returncode = 0  # not our child: nobody waits for it here
    _process = None


atexit.register(_end)
os.register_at_fork(after_in_child=_forked)
