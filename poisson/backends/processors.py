# SPDX-License-Identifier: MIT
"""The threads of the backends on the CPU: how many they take unasked, and how they wait for one another."""

import ctypes
import math
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from poisson.backends.control_groups import PROCESS, cpu_quota

THREADS_VARIABLE = "OMP_NUM_THREADS"
SPINS_VARIABLE = "GOMP_SPINCOUNT"
WAITING_VARIABLES = ("OMP_WAIT_POLICY", SPINS_VARIABLE, "KMP_BLOCKTIME")
"""Environment variables by which a user says how threads wait."""

LOAD = Path("/proc/loadavg")

SPINS = 1000
"""Looks of a thread that waits, before it sleeps: some ten microseconds. Unasked, GCC's run time makes 300,000, which
on a machine with other work are turns on a core that the threads waited for do not get."""

GCC_RUN_TIME = "libgomp.so.1"


def default_threads() -> int:
    """How many threads are taken where nobody asks for a number.

    That is the number in ``OMP_NUM_THREADS``, the first if it is a list, or as many as there are processors for this
    process.
    """
    text = os.environ.get(THREADS_VARIABLE, "")
    found = re.fullmatch(r"\s*0*([1-9]\d*)\s*(,.*)?", text)
    return int(found[1]) if found else processors()


def processors(process: Path = PROCESS) -> int:
    """Processors that this process may use: by its affinity, and by the quotas of its control groups."""
    try:
        count = len(os.sched_getaffinity(0))
    except (AttributeError, OSError):
        count = os.cpu_count() or 1
    quota = own_quota() if process is PROCESS else cpu_quota(process)
    return count if quota >= count else max(1, math.ceil(quota))


own_quota = cache(cpu_quota)
"""The quota of this process, read once: to read it takes a part of a small solve."""


def crowded(table: Path = LOAD) -> bool:
    """Whether more threads of all programs want a processor at this moment than the machine has.

    False where the system does not tell.
    """
    try:
        running = int(table.read_text().split()[3].partition("/")[0])
    except (OSError, ValueError, IndexError):
        return False
    return running > (os.cpu_count() or 1)


def waiting_is_set() -> bool:
    """Whether the user has said how threads wait."""
    return any(name in os.environ for name in WAITING_VARIABLES)


@cache
def run_time_was_loaded() -> bool:
    """Whether another library had brought GCC's run time when this was first asked; it reads the environment then."""
    try:
        ctypes.CDLL(GCC_RUN_TIME, mode=os.RTLD_NOLOAD | os.RTLD_LAZY)
    except (AttributeError, OSError):
        return False
    return True


@contextmanager
def short_waits() -> Iterator[None]:
    """Within, GCC's run time is loaded such that its threads wait busily for a moment only, unless the user says how.

    What the program starts later has the environment as it was.
    """
    if waiting_is_set():
        yield
        return
    os.environ[SPINS_VARIABLE] = str(SPINS)
    try:
        yield
    finally:
        # Another thread may have been here, too.
        os.environ.pop(SPINS_VARIABLE, None)
