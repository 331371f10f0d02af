"""What the backends on the CPU share."""

from __future__ import annotations

import os


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
