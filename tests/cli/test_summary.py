# SPDX-License-Identifier: MIT
"""What is told of a solve at its end."""

import json
import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.places import ROOT
from support.results import make_solution

from poisson.cli import main
from poisson.cli.summary import Ended
from poisson.cli.terms import as_json
from poisson.output import parts, record
from poisson.output.record import AGAIN, OperationUse, Performance, Span
from poisson.solvers.status import Status

FILES = (Path("a.h5"), Path("a.xmf"))
SOLUTION = make_solution(2, provenance={"method": "fft", "reason": "a and c are constant", "tuning": "defaults"})
USES = tuple(OperationUse(f"operation {number}", 3, 0.5, 1e9, 2e9, "5x4") for number in range(14))
PERFORMANCE = Performance(USES, 4e9, 1000)


def test_the_lines_for_people() -> None:
    assert Ended(SOLUTION, (0.0, 19.0), FILES, 480.0).lines() == (
        f"converged: {Status.CONVERGED.advice}\n"
        "method      fft, as a and c are constant\n"
        "residual    1.250e-09 (rms), target 1.000e-08, after 40 iterations\n"
        "error       2.500e-01 (rms), 5.000e-01 (max)\n"
        "u           0 to 19\n"
        "time        2.5 s: set_up 0.5 s, solve 2 s\n"
        "output      a.h5 (ParaView: a.xmf)"
    )
    written = Ended(SOLUTION, (0.0, 19.0), FILES, 480.0, 0.25)
    assert "\ntime        2.75 s: set_up 0.5 s, solve 2 s, file 0.25 s\n" in written.lines()
    assert written.record(0)["seconds"] == {**SOLUTION.times, "file": 0.25}
    bare = replace(SOLUTION, error=None, times={}, provenance={}, iterations=1, error_bar=0.125)
    assert Ended(bare, (math.nan, math.nan), FILES).lines() == (
        f"converged: {bare.advice}\n"
        "residual    1.250e-09 (rms), target 1.000e-08, after 1 iteration\n"
        "error bar   1.250e-01 (max), estimated from coarser grids\n"
        "u           nan to nan\n"
        "output      a.h5 (ParaView: a.xmf)"
    )
    asked = replace(SOLUTION, provenance={"method": "sor", "reason": "asked for"})
    assert "\nmethod      sor, asked for\n" in Ended(asked, (0.0, 1.0), FILES).lines()


@pytest.mark.parametrize(
    ("sweep_bytes", "speed"), [(480.0, "400 node updates/s, 9.6e-06 GB/s"), (None, "10 unknowns/s")]
)
def test_a_profile_adds_the_speed_and_the_operations(sweep_bytes: float | None, speed: str) -> None:
    plain = Ended(SOLUTION, (0.0, 1.0), FILES, sweep_bytes).lines().splitlines()
    lines = Ended(SOLUTION, (0.0, 1.0), FILES, sweep_bytes, profile=True).lines().splitlines()
    of = "in the first solve, warm-up included"
    assert lines == [*plain[:-1], "kernels     defaults", f"speed       {speed} {of}", plain[-1]]
    timed = replace(SOLUTION, performance=PERFORMANCE)
    table = Ended(timed, (0.0, 1.0), FILES, sweep_bytes, profile=True).lines().splitlines()[len(lines) :]
    assert table[0].split() == ["operation", "calls", "time", "s", "GB/s", "%", "of", "copy"]
    assert table[2].split() == ["operation", "0", "3", "0.5", "2", "50"]
    assert table[14:] == [
        "2 more            6       1",
        "total 7 s, from calls timed after the loop; the loop took 2 s",
        "copy of arrays of 1 kB: 4 GB/s",
        "",
        plain[-1],
    ]


def test_the_speed_is_that_of_a_loop_without_warm_up_where_it_is_known() -> None:
    faster = tuple(replace(use, seconds=0.125) for use in USES[:2])
    times = {"setup": 0.5, "solve": 2.0, AGAIN: 0.01}
    timed = replace(SOLUTION, times=times, performance=replace(PERFORMANCE, operations=faster))
    lines = Ended(timed, (0.0, 1.0), FILES, profile=True).lines().splitlines()
    expected = "2e+03 unknowns/s in a second solve: its loop took 0.01 s, the first one with its warm-up 2 s"
    assert f"speed       {expected}" in lines
    assert "total 0.25 s, from calls timed after the loop; the loop took 0.01 s" in lines
    assert "above 100%: more is read than written, or arrays stay in a cache" in lines


def test_every_key_for_programs_is_documented() -> None:
    text = (ROOT / "docs" / "running.md").read_text("utf-8").partition("| key of `solve --json` |")[2]
    table = text.partition("\n\n")[0]
    assert set(Ended(replace(SOLUTION, performance=PERFORMANCE), (0.0, 1.0), FILES).record(0)) <= set(
        re.findall(r"`(\w+)`", table)
    )


def test_the_record_for_programs() -> None:
    warnings = [{"key": "solver.rtol", "text": "too small", "fix": "1e-6"}]
    solution = replace(SOLUTION, residual=math.inf, performance=PERFORMANCE, status=Status.DIVERGED)
    found = json.loads(as_json(Ended(solution, (np.float32(0.5), 1.0), FILES, warnings=warnings).record(1)))
    assert found["operations"][0] == {
        "operation": "operation 0",
        "grid": "5x4",
        "calls": 3,
        "seconds": 0.5,
        "bytes": 1e9,
        "flops": 2e9,
    }
    assert (found["residual"], found["target"], found["u_min"], found["u_max"]) == (None, 1e-8, 0.5, 1.0)
    assert (found["status"], found["converged"], found["exit_code"]) == ("diverged", False, 1)
    assert (found["file"], found["seconds"], found["shape"]) == ("a.h5", {"set_up": 0.5, "solve": 2.0}, [5, 4])
    assert (found["warnings"], found["backend"], found["memory_bandwidth"]) == (warnings, None, 4e9)
    assert "operations" not in Ended(SOLUTION, (0.0, 1.0), FILES).record(0)


@pytest.mark.parametrize(("not_finite", "asked"), [(0, 0), (1, 1)])
def test_u_is_not_read_again_for_its_ends_where_it_was_written_in_runs(
    not_finite: int, asked: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    calls: list[Any] = []
    monkeypatch.setattr(parts, "LARGE_BYTES", 1)
    monkeypatch.setattr(record, "extent", lambda solution: calls.append(solution) or (0.0, 2.0))
    joined = Span.joined
    monkeypatch.setattr(Span, "joined", lambda spans: joined(spans)._replace(not_finite=not_finite))
    case = ROOT / "cases" / "unit_square.toml"
    assert main(["solve", str(case), "--backend=numpy", f"--output={tmp_path}/u.h5"]) == 0
    assert len(calls) == asked
    assert f"\nu           0 to {2 if asked else 1.00005}\n" in capsys.readouterr().out
