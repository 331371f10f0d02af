# SPDX-License-Identifier: MIT
"""`bench call`: what it tells of a call beside its loop.

Covers poisson.cli.calling.
"""

import itertools
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from poisson.cli import main
from poisson.perf.benchmark import call


def rows_of(capsys: pytest.CaptureFixture[str], *options: str) -> list[dict[str, Any]]:
    assert main(["bench", "call", "--json", "--repeats=3", *options]) == 0
    rows: list[dict[str, Any]] = json.loads(capsys.readouterr().out)
    return rows


def test_every_kind_of_call_has_a_row(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(call, "SHORT", 0.0)
    measured = {"9x9": call.METHODS, "9x9x9": (*call.DEFAULT_METHODS, "projector")}
    rows = []
    for size, methods in measured.items():
        rows += rows_of(capsys, f"--n={size}", f"--method={','.join(methods)}", "--backend=numpy")
    kinds = ["loop", "call", "out", "first", "many"]
    expected = [(size, method, kind) for size in measured for method in measured[size] for kind in kinds]
    expected = [row for row in expected if row[1:] != ("projector", "many")]
    assert [(row["size"], row["method"], row["call"]) for row in rows] == expected
    for row in rows:
        assert 0.0 < row["lowest"] <= row["seconds"] <= row["highest"]
    beside = [(loop, whole) for loop, whole in itertools.pairwise(rows) if loop["call"] == "loop"]
    assert len(beside) == sum(map(len, measured.values()))
    for loop, whole in beside:
        assert loop["of_loop"] == 1.0
        assert whole["lowest"] > loop["lowest"]
        assert whole["of_loop"] == pytest.approx(whole["seconds"] / loop["seconds"])
        assert whole["peak"] is None or whole["peak"] > 1e7


def test_calls_that_are_short_are_many(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """As many as fit into the time by a clock that goes on by a hundredth whenever it is read."""
    now = 0.0

    def clock() -> float:
        nonlocal now
        now += 0.01
        return now

    made: list[Any] = []
    solved = call._Calls._solved
    monkeypatch.setattr(call._Calls, "_solved", lambda *given, **named: made.append(0) or solved(*given, **named))
    monkeypatch.setattr(call, "MOST_OF_MANY", 0)
    monkeypatch.setattr(call, "time", SimpleNamespace(perf_counter=clock))
    rows_of(capsys, "--n=5x5", "--method=fft", "--backend=numpy")
    # The first, those of the rows `call` and `out`, and before each of these one that does not count.
    assert len(made) == 1 + 2 * (1 + 20)


def test_memory_is_what_the_system_says(tmp_path: Path) -> None:
    (tmp_path / "status").write_text("Name:\tpython\nVmHWM:\t   2048 kB\n")
    call.clear_peak(tmp_path)
    assert (tmp_path / "clear_refs").read_text() == "5"
    assert call.peak_bytes(tmp_path) == 2 << 20
    assert call.peak_bytes(tmp_path / "nowhere") is None
    call.clear_peak(tmp_path / "nowhere")
