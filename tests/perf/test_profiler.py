# SPDX-License-Identifier: MIT
"""The profilers' files and failures; the samples have the form of the vendors' documentation."""

import os
import stat
from pathlib import Path

import pytest

from poisson.perf import profiler
from poisson.perf.profiler import NCU, ROCPROF, Counters, ProfilerError, parse, profile

NCU_HEADINGS = (
    '"ID","Process ID","Process Name","Host Name","Kernel Name","Context","Stream","Block Size","Grid Size","Device",'
    '"CC","Section Name","Metric Name","Metric Unit","Metric Value"\n'
)


def ncu_row(launch: int, kernel: str, metric: str, unit: str, value: str) -> str:
    return (
        f'"{launch}","42","python3","127.0.0.1","{kernel}","1","7","(256, 1, 1)","(2, 64, 510)","0","9.0",'
        f'"Command line profiler metrics","{metric}","{unit}","{value}"\n'
    )


NCU_FILE = (
    "==PROF== Connected to process 42 (/usr/bin/python3)\n"
    '==PROF== Profiling "poisson_tiled" - 0: 0%....50%....100% - 2 passes\n'
    "==PROF== Disconnected from process 42\n"
    + NCU_HEADINGS
    + ncu_row(0, "poisson_tiled", "dram__bytes_read.sum", "byte", "1,073,741,824")
    + ncu_row(0, "poisson_tiled", "dram__bytes_write.sum", "byte", "500")
    + ncu_row(0, "poisson_tiled", "lts__t_sector_hit_rate.pct", "%", "60.5")
    + ncu_row(1, "cupy_random", "dram__bytes_read.sum", "byte", "77")
    + ncu_row(2, "poisson_tiled", "dram__bytes_read.sum", "Kbyte", "2.5")
    + ncu_row(2, "poisson_tiled", "dram__bytes_write.sum", "byte", "n/a")
    + ncu_row(2, "poisson_tiled", "lts__t_sector_hit_rate.pct", "%", "70.5")
)

ROCPROF_HEADINGS = (
    '"Correlation_Id","Dispatch_Id","Agent_Id","Queue_Id","Process_Id","Thread_Id","Grid_Size","Kernel_Id",'
    '"Kernel_Name","Workgroup_Size","LDS_Block_Size","Scratch_Size","VGPR_Count","Accum_VGPR_Count","SGPR_Count",'
    '"Counter_Name","Counter_Value","Start_Timestamp","End_Timestamp"\n'
)


def rocprof_file(counter: str, *values: float) -> str:
    rows = (
        f'{n},{n},"Agent 4",1,42,42,67108864,9,"poisson_tiled",256,0,0,64,0,32,"{counter}",{value:f},100,200\n'
        for n, value in enumerate(values)
    )
    return ROCPROF_HEADINGS + "".join(rows)


def test_the_file_of_ncu() -> None:
    assert parse(NCU, [NCU_FILE]) == Counters(1073741824.0 + 2500.0, 500.0, 65.5)


def test_the_files_of_rocprofv3_count_kilobytes() -> None:
    files = [
        rocprof_file("FETCH_SIZE", 1000.0, 2000.0),
        rocprof_file("L2CacheHit", 50.0, 60.0),
        rocprof_file("WRITE_SIZE", 4.0, 5.0),
        "a file of something else\n",
    ]
    assert parse(ROCPROF, files) == Counters(3000.0 * 1024, 9.0 * 1024, 55.0)


@pytest.mark.parametrize("text", ["", "==ERROR== nothing\n", NCU_HEADINGS, NCU_FILE.replace("poisson_", "other_")])
def test_a_file_without_counters_is_an_error(text: str) -> None:
    with pytest.raises(ProfilerError, match=r"^no counters: ncu gave no dram__bytes_read\.sum; "):
        parse(NCU, [text])


# ---- running one: programs that stand in for the profilers
@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder where programs are found; nothing is in it."""
    monkeypatch.setenv("PATH", str(tmp_path))
    return tmp_path


def install(folder: Path, name: str, script: str) -> None:
    path = folder / name
    path.write_text(f"#!/bin/sh\nPATH={os.defpath}\n{script}")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


def test_ncu_runs_the_command_and_its_file_is_read(program: Path) -> None:
    (program / "sample").write_text(NCU_FILE)
    install(
        program,
        "ncu",
        f'echo "$@" > {program}/line\n'
        f'for word; do [ "$last" = --log-file ] && cp {program}/sample "$word"; last=$word; done\nexit 0\n',
    )
    assert profile(["python", "-m", "poisson", "--once"], "sm_90").fetched == 1073744324.0
    line = (program / "line").read_text().split()
    assert line[-4:] == ["python", "-m", "poisson", "--once"]
    assert "--clock-control none" in " ".join(line)
    assert "dram__bytes_read.sum,dram__bytes_write.sum,lts__t_sector_hit_rate.pct" in line


def test_rocprofv3_runs_once_for_each_counter(program: Path) -> None:
    for counter, value in (("FETCH_SIZE", 3.0), ("WRITE_SIZE", 2.0), ("L2CacheHit", 66.0)):
        (program / counter).write_text(rocprof_file(counter, value))
    install(
        program,
        "rocprofv3",
        f'echo "$@" >> {program}/lines\nwhile [ "$1" != -- ]; do [ "$1" = --pmc ] && counter=$2; '
        f'[ "$1" = -d ] && folder=$2; shift; done\nmkdir -p "$folder/host"\n'
        f'cp "{program}/$counter" "$folder/host/${{counter}}_counter_collection.csv"\n',
    )
    assert profile(["run", "it"], "gfx90a") == Counters(3.0 * 1024, 2.0 * 1024, 66.0)
    lines = (program / "lines").read_text().splitlines()
    assert [line.split()[:2] for line in lines] == [["--pmc", name] for name in ROCPROF.counters.values()]
    assert all(line.endswith("-- run it") for line in lines)


def test_without_a_profiler_one_line_says_so(program: Path) -> None:
    with pytest.raises(ProfilerError) as caught:
        profile(["run"], "sm_80")
    assert str(caught.value) == (
        "no counters: ncu is not on PATH; install Nsight Compute, which is part of the CUDA toolkit"
    )
    with pytest.raises(ProfilerError, match=r"^no counters: rocprofv3 is not on PATH; "):
        profile(["run"], "gfx1100")


def test_a_profiler_that_fails_is_quoted_in_one_line(program: Path) -> None:
    install(program, "ncu", "echo ==PROF== Connected\necho '==ERROR== ERR_NVGPUCTRPERM: no permission' \nexit 1\n")
    with pytest.raises(ProfilerError) as caught:
        profile(["run"], "sm_90")
    assert str(caught.value) == "no counters: ncu failed: ==ERROR== ERR_NVGPUCTRPERM: no permission"
    install(program, "ncu", "exit 3\n")
    with pytest.raises(ProfilerError, match=r"^no counters: ncu failed: exit code 3$"):
        profile(["run"], "sm_90")


def test_a_profiler_that_hangs_is_left(program: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(program, "ncu", "exec sleep 60\n")
    monkeypatch.setattr(profiler, "TIMEOUT_SECONDS", 0.2)
    with pytest.raises(ProfilerError, match=r"^no counters: ncu took more than 0 s$"):
        profile(["run"], "sm_90")
