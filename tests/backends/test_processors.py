# SPDX-License-Identifier: MIT
"""The processors and the memory that a process may use, by control groups that are faked here, and by limits."""

import math
import os
import resource
from pathlib import Path

import pytest

from poisson.backends import host, processors
from poisson.backends.control_groups import cpu_quota, memory_limits

MEGABYTE = 1 << 20
UNLIMITED = "9223372036854771712"


def write(folder: Path, **files: str) -> None:
    """Files whose names have a dot for the first underscore."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name.replace("_", ".", 1)).write_text(f"{text}\n")


def process(tmp_path: Path, groups: str, *mounts: str) -> Path:
    """A folder as in /proc for a process in these groups; a mount is its root, its folder, its type and its options."""
    folder = tmp_path / "proc"
    folder.mkdir()
    (folder / "cgroup").write_text(groups)
    lines = ["22 27 0:21 / /proc rw,relatime shared:5 - proc proc rw"]
    for number, mount in enumerate(mounts):
        root, place, kind, options = mount.split()
        lines.append(f"{30 + number} 23 0:28 {root} {tmp_path}/{place} rw,relatime shared:9 - {kind} none rw,{options}")
    (folder / "mountinfo").write_text("\n".join(lines) + "\n")
    (folder / "statm").write_text("1000 500 100 10 0 200 0\n")
    return folder


# ---- memory
def test_the_second_version_of_control_groups(tmp_path: Path) -> None:
    """The nearest limit is high, the parent's is lower still, and the cache of files does not count."""
    write(tmp_path / "sys", memory_stat="inactive_file 1")
    write(
        tmp_path / "sys" / "outer",
        memory_max=str(300 * MEGABYTE),
        memory_high="max",
        memory_current=str(250 * MEGABYTE),
        memory_stat=f"anon 5\ninactive_file {50 * MEGABYTE}",
    )
    write(
        tmp_path / "sys" / "outer" / "inner",
        memory_max="max",
        memory_high=str(400 * MEGABYTE),
        memory_current=str(100 * MEGABYTE),
        memory_stat="inactive_file 0",
    )
    proc = process(tmp_path, "0::/outer/inner\n", "/ sys cgroup2 nsdelegate")
    assert list(memory_limits(proc)) == [(300 * MEGABYTE, 400 * MEGABYTE), (100 * MEGABYTE, 300 * MEGABYTE)]
    free, total = host.host_memory(proc)
    assert (free, total) == (100 * MEGABYTE, 300 * MEGABYTE)


def test_the_first_version_of_control_groups(tmp_path: Path) -> None:
    write(tmp_path / "memory", **{"memory_limit_in_bytes": UNLIMITED})
    folder = tmp_path / "memory" / "outer" / "inner"
    (tmp_path / "memory" / "outer").mkdir()
    (tmp_path / "memory" / "outer" / "memory.limit_in_bytes").write_text(UNLIMITED)
    folder.mkdir()
    (folder / "memory.limit_in_bytes").write_text(f"{300 * MEGABYTE}\n")
    (folder / "memory.usage_in_bytes").write_text(f"{120 * MEGABYTE}\n")
    (folder / "memory.stat").write_text(f"inactive_file 4\ntotal_inactive_file {20 * MEGABYTE}\n")
    proc = process(tmp_path, "5:cpu,cpuacct:/other\n4:memory:/outer/inner\n0::/\n", "/ memory cgroup memory")
    assert host.host_memory(proc) == (200 * MEGABYTE, 300 * MEGABYTE)


def test_a_container_that_sees_its_group_as_the_root(tmp_path: Path) -> None:
    """The path is that outside, the mount begins with the group: either with its path as the root, or with another."""
    write(tmp_path / "sys", memory_max=str(64 * MEGABYTE), memory_current=str(MEGABYTE))
    named = process(tmp_path, "0::/docker/1234\n", "/docker/1234 sys cgroup2 nsdelegate")
    assert host.host_memory(named) == (63 * MEGABYTE, 64 * MEGABYTE)
    (named / "cgroup").write_text("0::/../../elsewhere\n")
    assert host.host_memory(named) == (63 * MEGABYTE, 64 * MEGABYTE)


def test_what_is_over_the_limit_leaves_nothing(tmp_path: Path) -> None:
    write(tmp_path / "sys", memory_high=str(64 * MEGABYTE), memory_current=str(65 * MEGABYTE))
    assert host.host_memory(process(tmp_path, "0::/\n", "/ sys cgroup2 x"))[0] == 0


def test_without_control_groups_the_machine_counts(tmp_path: Path) -> None:
    free, total = host.host_memory(tmp_path)
    assert 0 < free <= total == os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


@pytest.mark.parametrize(("limit", "used"), [(resource.RLIMIT_AS, 1000), (resource.RLIMIT_DATA, 200)])
def test_limits_of_the_process(limit: int, used: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bytes_allowed = 100 * MEGABYTE
    unlimited = (resource.RLIM_INFINITY,) * 2
    monkeypatch.setattr(resource, "getrlimit", lambda which: (bytes_allowed, -1) if which == limit else unlimited)
    proc = process(tmp_path, "", "/ sys cgroup2 x")
    page = resource.getpagesize()
    assert host.host_memory(proc) == (bytes_allowed - used * page, bytes_allowed)


# ---- processors
@pytest.mark.parametrize(
    ("text", "threads"),
    [("3", 3), (" 3 ", 3), ("4,2", 4), ("06", 6), ("", None), ("0", None), ("-2", None), ("two", None), ("3x", None)],
)
def test_the_number_in_the_environment(text: str, threads: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", text)
    assert processors.default_threads() == (processors.processors() if threads is None else threads)


@pytest.mark.parametrize(("quota", "count"), [("max", 8), ("150000", 2), ("50000", 1), ("800000", 8), ("9900000", 8)])
def test_processors_by_affinity_and_by_quota(
    quota: str, count: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(8)), raising=False)
    write(tmp_path / "sys" / "outer", cpu_max=f"{quota} 100000")
    write(tmp_path / "sys" / "outer" / "inner", cpu_max="max 100000")
    assert processors.processors(process(tmp_path, "0::/outer/inner\n", "/ sys cgroup2 x")) == count


def test_the_quota_of_the_first_version(tmp_path: Path) -> None:
    write(tmp_path / "cpu" / "group", **{"cpu_cfs_quota_us": "250000", "cpu_cfs_period_us": "100000"})
    write(tmp_path / "cpu", **{"cpu_cfs_quota_us": "-1", "cpu_cfs_period_us": "100000"})
    assert cpu_quota(process(tmp_path, "3:cpu,cpuacct:/group\n", "/ cpu cgroup cpu,cpuacct")) == 2.5


def test_no_quota(tmp_path: Path) -> None:
    assert cpu_quota(tmp_path) == math.inf


def test_a_machine_is_crowded_where_more_threads_want_to_run_than_it_has_processors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 4)
    table = tmp_path / "loadavg"
    for text, expected in (("0.5 0.4 0.3 4/512 1\n", False), ("0.5 0.4 0.3 5/512 1\n", True), ("what\n", False)):
        table.write_text(text)
        assert processors.crowded(table) is expected
    assert not processors.crowded(tmp_path / "nothing")
