# SPDX-License-Identifier: MIT
"""`bench command`: the parts of whole commands add up, and what ends a command is told in its words."""

import json
import runpy
from pathlib import Path

import pytest
from support.places import ROOT

from poisson.cli import main
from poisson.errors import PoissonError
from poisson.perf.benchmark import command

PARTS = ("start", "setup", "kernels", "solve", "finish", "file", "exit")


def test_the_parts_of_commands_add_up(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = ["--n=9x8x7", "--repeats=1", "--backend=numpy", "--fields=u", f"--folder={tmp_path}", "--json"]
    assert main(["bench", "command", *given]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [(row["size"], row["run"]) for row in rows] == [("9x8x7", "first"), ("9x8x7", "later")]
    for row in rows:
        assert {part for part in (*PARTS, "disk") if not row[part] > 0.0} == {"kernels"}, row
        assert sum(row[part] for part in PARTS) == pytest.approx(row["seconds"])
        assert row["bytes"] > 8 * 9 * 8 * 7
    assert list(tmp_path.iterdir()) == []


def test_asv_follows_each_part_of_the_first_and_later_commands() -> None:
    _, parts, runs = runpy.run_path(str(ROOT / "scripts/asv/benchmarks/rows.py"))["Commands"].params
    assert set(parts) == {"seconds", *PARTS, "disk"} - {"kernels"} and runs == ["first", "later"]


def test_a_command_that_fails_says_why(tmp_path: Path) -> None:
    with pytest.raises(PoissonError, match=r"^a command ended with 2: poisson: error: --backend: .abacus.; allowed: "):
        command.bench(((9, 9),), ("u",), tmp_path, name="abacus", repeats=1)
    assert list(tmp_path.iterdir()) == []
