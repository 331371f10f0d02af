# SPDX-License-Identifier: MIT
"""The processors and the memory that Linux's control groups grant this process, by both versions of their interface."""

import math
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

PROCESS = Path("/proc/self")


def groups(controller: str, process: Path = PROCESS) -> Iterator[Path]:
    """The folders of the groups that limit this process, from its own to the outermost that it sees.

    `controller`: ``memory`` or ``cpu``. `process`: the folder of the process in /proc.
    """
    try:
        own = [line.split(":", 2) for line in (process / "cgroup").read_text().splitlines()]
        mounts = [line.split() for line in (process / "mountinfo").read_text().splitlines()]
    except OSError:
        return
    for mount in mounts:
        kind, _, options = mount[mount.index("-") + 1 :][:3]
        if kind == "cgroup2":
            paths = [path for number, _, path in own if number == "0"]
        elif kind == "cgroup" and controller in options.split(","):
            paths = [path for _, controllers, path in own if controller in controllers.split(",")]
        else:
            continue
        root, folder = Path(mount[3]), Path(mount[4])
        for path in map(Path, paths):
            # A container may be shown the path that its group has outside, under a mount that begins with the group.
            inner = path.relative_to(root) if path.is_relative_to(root) and ".." not in path.parts else Path()
            yield from (folder / part for part in (inner, *inner.parents))


def number(path: Path) -> float | None:
    """The number in a file, infinite for ``max``; None where there is none."""
    with suppress(OSError, ValueError):
        text = path.read_text().strip()
        return math.inf if text == "max" else float(text)
    return None


def memory_limits(process: Path = PROCESS) -> Iterator[tuple[int, int]]:
    """Bytes that may still be taken, and bytes in all, in each group that limits memory.

    The cache of files that were not read lately does not count as taken: the system gives it up first.
    """
    for group in groups("memory", process):
        names = ("memory.max", "memory.high", "memory.limit_in_bytes")
        limit = min((found for name in names if (found := number(group / name)) is not None), default=math.inf)
        if limit == math.inf:
            continue
        used = number(group / "memory.current") or number(group / "memory.usage_in_bytes") or 0.0
        with suppress(OSError, ValueError):
            numbers = dict(line.split(None, 1) for line in (group / "memory.stat").read_text().splitlines())
            used -= int(numbers.get("total_inactive_file", numbers.get("inactive_file", "0")))
        yield int(limit - max(used, 0.0)), int(limit)


def cpu_quota(process: Path = PROCESS) -> float:
    """Processors' worth of time that the groups give this process; infinite where they do not limit it."""
    quota = math.inf
    for group in groups("cpu", process):
        with suppress(OSError, ValueError):
            given, period = (group / "cpu.max").read_text().split()
            if given != "max":
                quota = min(quota, float(given) / float(period))
        given_us, period_us = number(group / "cpu.cfs_quota_us"), number(group / "cpu.cfs_period_us")
        if given_us and period_us and given_us > 0:
            quota = min(quota, given_us / period_us)
    return quota
