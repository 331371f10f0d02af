# SPDX-License-Identifier: MIT
"""The log of a solve in a file."""

import json
import logging
import os
from pathlib import Path

import pytest

from poisson.cli import main
from poisson.cli.journal import Journal
from poisson.errors import OutputError

SQUARE = """
title = "Square"

[equation]
f = 1.0

[domain]
lower = [0.0, 0.0]
upper = [1.0, 1.0]
shape = [9, 9]

[boundary]
all = { dirichlet = 0.0 }

[run]
backend = "numpy"
"""


@pytest.fixture
def case(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    Path("square.toml").write_text(SQUARE)
    return "square.toml"


def lines_of(path: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in Path(path).read_text().splitlines()]


def test_a_log_tells_a_solve_from_its_case_to_its_end(case: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["solve", case, "--set", "solver.method=jacobi", "--set", "solver.loop=fused", "--log", "a.log", "-q"]
    assert main(words) == 0
    start, *middle, end = lines_of("a.log")
    assert (start["event"], start["file"], start["process"]) == ("start", case, os.getpid())
    assert start["case"]["domain"]["shape"] == [9, 9]  # type: ignore[index]
    kinds = [line["event"] for line in middle]
    assert kinds[0] == "target" and set(kinds[1:]) == {"norm"}
    norms = [float(line["residual"]) for line in middle[1:]]  # type: ignore[arg-type]
    assert norms[0] > norms[-1] > 0.0 and norms[-1] <= float(middle[0]["target"])  # type: ignore[arg-type]
    times = [float(line["elapsed"]) for line in [start, *middle, end]]  # type: ignore[arg-type]
    assert times == sorted(times)
    assert (end["event"], end["status"], end["iterations"]) == ("end", "converged", middle[-1]["iteration"])
    assert capsys.readouterr() == ("", "")
    # A second run is added.
    assert main(words) == 0
    assert [line["event"] for line in lines_of("a.log")].count("start") == 2


def test_a_log_says_why_a_solve_failed(case: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        main(["solve", case, "--set", "equation.f=1/x", "--set", "boundary.all={neumann=0.0}", "--log", "a.log"]) == 2
    )
    [error] = capsys.readouterr().err.splitlines()[-1:]
    end = lines_of("a.log")[-1]
    assert (end["event"], end["status"]) == ("end", "error")
    assert error == f"poisson: error: {end['text']}"
    # Before there is a case, too.
    assert main(["solve", "none.toml", "--log", "b.log"]) == 2
    begin, end = lines_of("b.log")
    assert (begin["event"], end["event"]) == ("start", "end")
    assert end["text"] == "no case file 'none.toml'"


def test_the_case_comes_first(case: str) -> None:
    Path("exact.toml").write_text(SQUARE.replace("f = 1.0", 'f = 0.0\nexact = "x*y"'))
    assert main(["solve", "exact.toml", "--set", "equation.f=2", "--log", "a.log"]) == 0
    assert [line["event"] for line in lines_of("a.log")][:2] == ["start", "warning"]
    assert main(["solve", case, "--log", "a.log"]) == 0


def test_a_log_has_warnings_and_messages_that_are_not_shown(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_text("")
    with Journal.opened(str(path)) as journal:
        journal.begin({"case": {"long": "x" * 10_000}})
        logger = logging.getLogger("poisson.run.run")
        before = logging.getLogger("poisson").level
        logging.getLogger("poisson").setLevel(logging.INFO)
        logger.info("checkpoint written")
        logger.warning("careful")
        logging.getLogger("poisson").setLevel(before)
        # Readable while it goes on.
        assert [line["event"] for line in lines_of(str(path))] == ["start", "message", "warning"]
    with Journal.opened(str(path)) as journal:
        journal.begin({})
        journal(3, float("nan"))
    [_, message, warning, _, norm] = lines_of(str(path))
    assert (message["text"], warning["text"], norm["iteration"], norm["residual"]) == (
        "checkpoint written",
        "careful",
        3,
        None,
    )
    assert journal not in logging.getLogger("poisson").handlers


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("missing/a.log", "cannot write the log: No such file or directory"),
        (".", "cannot write the log: Is a directory"),
        ("other.txt", "not a log of 'poisson solve'; not overwritten"),
        ("binary", "not a log of 'poisson solve'; not overwritten"),
    ],
)
def test_a_file_that_is_no_log_is_refused_before_the_solve(
    case: str, name: str, reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("other.txt").write_text("dear diary\n")
    Path("binary").write_bytes(b"\xff\xfe\n")
    assert main(["solve", case, "--log", name]) == 2
    assert capsys.readouterr() == ("", f"poisson: error: {name}: {reason}; choose another file with --log\n")
    assert Path("other.txt").read_text() == "dear diary\n" and not Path("square.h5").exists()


def test_the_case_is_no_log(case: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["solve", case, "--log", f"./{case}"]) == 2
    assert capsys.readouterr().err == f"poisson: error: {case}: this is the case file; give another name with --log\n"
    assert Path(case).read_text() == SQUARE


def test_a_disk_that_is_full_ends_the_log_and_not_the_solve(capsys: pytest.CaptureFixture[str]) -> None:
    with open("/dev/full", "w", buffering=1) as full:
        journal = Journal(full, "a.log")
        journal.begin({})
        journal(0, 1.0)
        journal(1, 0.5)
        assert capsys.readouterr().err == (
            "poisson: warning: a.log: the log is incomplete from here on: No space left on device\n"
        )
        with pytest.raises(OSError):
            full.flush()
        # What could not be written is not written at the end either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), full.fileno())


def test_other_errors_come_through(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError), Journal.opened(str(tmp_path / "a.log")):
        raise FileNotFoundError
    with pytest.raises(OutputError):
        Journal.opened(str(tmp_path / "no" / "a.log")).__enter__()
