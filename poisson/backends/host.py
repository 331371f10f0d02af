# SPDX-License-Identifier: MIT
"""Functions that the backends on the CPU share."""

import os
import resource
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import numpy as np

from poisson.backends.control_groups import PROCESS, memory_limits

FREED_BYTES = 1 << 24
"""Blocks up to this size go back to the C library."""


def keep_freed_blocks() -> None:
    """Have the C library keep the memory of temporary arrays for the next ones.

    At the start of a program glibc gives blocks of more than 128 kB back to the system when they are freed. To get
    their pages again, zeroed, takes several times as long as to evaluate most functions on a slab. As soon as a larger
    block has been freed it keeps all that are smaller (mallopt(3), M_MMAP_THRESHOLD). This one is never written, so it
    costs no memory; other C libraries do not mind. Where there is no room for it, it is left out.
    """
    with suppress(MemoryError):
        np.empty(FREED_BYTES, dtype=np.uint8)


def host_memory(process: Path = PROCESS) -> tuple[int, int]:
    """Bytes of main memory that this process may still take, and bytes in all.

    The least of what the machine has, what the control groups of the process allow, and what ``ulimit`` does.

    `process`: the folder of the process in /proc.
    """
    limits = [_machine(), *memory_limits(process), *_limits_of_process(process)]
    return max(0, min(free for free, _ in limits)), min(total for _, total in limits)


def _machine() -> tuple[int, int]:
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    try:
        with open("/proc/meminfo", encoding="ascii") as file:
            fields = dict(line.split(":", 1) for line in file)
        return int(fields["MemAvailable"].split()[0]) * 1024, total
    except (OSError, KeyError):
        return total, total


def _limits_of_process(process: Path) -> Iterator[tuple[int, int]]:
    """The bytes that ``ulimit -v`` and ``ulimit -d`` leave, of addresses and of private memory."""
    try:
        pages = [int(number) for number in (process / "statm").read_text().split()]
    except (OSError, ValueError):
        pages = [0] * 7
    for limit, used in ((resource.RLIMIT_AS, pages[0]), (resource.RLIMIT_DATA, pages[5])):
        allowed = resource.getrlimit(limit)[0]
        if allowed != resource.RLIM_INFINITY:
            yield allowed - used * resource.getpagesize(), allowed
