# SPDX-License-Identifier: MIT
"""Every command that measures: what it prints, the same rows as JSON and as comma-separated values, and its figure."""

import csv
import json
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from poisson.cli import main
from poisson.output.table import Column
from poisson.perf import roofline
from poisson.perf.benchmark import derivative, jacobi, laplacian, operations, solve, turns


class Command(NamedTuple):
    """A command: its words, the columns of its table, the first entries of one of them, and words that it prints."""

    words: str
    columns: tuple[Column, ...]
    key: str
    entries: list[str]
    printed: str
    drawn: bool = True


OF_LAPLACIAN = (*laplacian.IDENTITY, *laplacian.TIMES)
COMMANDS = [
    Command("bench laplacian --n=12", OF_LAPLACIAN, "variant", ["ours"], "\ncopy in the same run: "),
    Command(
        "bench laplacian --sizes=12,9x8x7,20", OF_LAPLACIAN, "nx", ["12", "9", "20"], "Laplacian, float64, on numpy"
    ),
    Command(
        "bench derivative --n=12x11 --order=4", derivative.COLUMNS, "axis", ["x", "y", "all"], "\ncopy in the same"
    ),
    Command(
        "bench jacobi --n=10 --iterations 6 --loop=fused,staged",
        *(jacobi.COLUMNS, "loop", ["fused"] * 2 + ["staged"] * 5),
        "GFLOP/s at 17: with 17 flops a node and iteration",
    ),
    Command(
        "bench operations --sizes=9x10,9x9x9 --precision=float32",
        *(operations.COLUMNS, "operation", ["laplacian"], "operations of numpy, float32", False),
    ),
    Command(
        "bench solve --n=33x33,33x33x33 --method=fft,sine --repeats=1",
        *(solve.COLUMNS, "method", ["fft", "sine"] * 2, "solves on numpy, float64", False),
    ),
    Command(
        "bench scaling --n=33x33 --work=multigrid,fft --repeats=1",
        *(turns.COLUMNS, "work", ["multigrid", "fft"], "scaling: numpy"),
    ),
    Command(
        "roofline --shape=17x9",
        *(roofline.COLUMNS, "operation", ["laplacian", "boundary_conditions", "update"]),
        "17 x 9 nodes, float64",
    ),
]


@pytest.mark.usefixtures("short_measurements")
@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.words)
def test_a_measurement_is_printed_written_and_drawn(
    command: Command, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("matplotlib")
    monkeypatch.setattr(roofline, "peak_flops", lambda backend: 1e12)
    words, table, figure = [*command.words.split(), "--backend=numpy"], tmp_path / "a.csv", tmp_path / "a.png"
    plot = [f"--plot={figure}"] if command.drawn else []
    assert main([*words, "--json", f"--csv={table}", *plot]) == 0
    rows: list[dict[str, Any]] = json.loads(capsys.readouterr().out)
    assert [list(row) for row in rows] == [[column.key for column in command.columns]] * len(rows)
    with table.open() as file:
        written = list(csv.DictReader(file))
    assert written == [{key: "" if item is None else str(item) for key, item in row.items()} for row in rows]
    assert [row[command.key] for row in written][: len(command.entries)] == command.entries
    assert not command.drawn or figure.read_bytes().startswith(b"\x89PNG")
    assert main(words) == 0
    out, err = capsys.readouterr()
    assert command.printed in out and err == ""
