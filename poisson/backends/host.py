"""What the backends on the CPU share."""

from __future__ import annotations

import os

import numpy as np

FREED_BYTES = 1 << 24
"""Blocks up to this size go back to the C library."""


def keep_freed_blocks() -> None:
    """Have the C library keep the memory of temporary arrays for the next ones.

    At the start of a program glibc gives blocks of more than 128 kB back to the system when they are freed. To get
    their pages again, zeroed, takes several times as long as to evaluate most functions on a slab. As soon as a larger
    block has been freed it keeps all that are smaller (mallopt(3), M_MMAP_THRESHOLD). This one is never written, so it
    costs no memory; other C libraries do not mind.
    """
    np.empty(FREED_BYTES, dtype=np.uint8)


def host_memory() -> tuple[int, int]:
    """Bytes of main memory that a program may still take, and bytes in all."""
    page = os.sysconf("SC_PAGE_SIZE")
    total = page * os.sysconf("SC_PHYS_PAGES")
    try:
        with open("/proc/meminfo", encoding="ascii") as file:
            fields = dict(line.split(":", 1) for line in file)
        return int(fields["MemAvailable"].split()[0]) * 1024, total
    except (OSError, KeyError):
        return total, total
