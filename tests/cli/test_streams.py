# SPDX-License-Identifier: MIT
"""Standard streams that are closed, full or gone: the result is written all the same, and the exit code tells."""

import os
import subprocess
from pathlib import Path
from shlex import join, quote

import h5py
import pytest
from support.places import ROOT
from test_cli import PYTHON

from poisson.cli.terms import printable

SMALL = "solve cases/unit_square.toml --backend numpy --set domain.shape=[17,17] --set solver.method=jacobi"
COMMAND = f"{join(PYTHON)} {SMALL}"


def shell(line: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["sh", "-c", line], cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)


def complete(path: Path) -> bool:
    with h5py.File(path) as file:
        return bool(file["u"].shape == (17, 17) and file.attrs["status"] == "converged")


UNPRINTABLE = [
    ("> /dev/full", "cannot write to standard output: No space left on device"),
    (">&-", "standard output is closed; redirect it to a file or a terminal"),
    (">&- <&-", "standard output is closed; redirect it to a file or a terminal"),
]


@pytest.mark.parametrize(("where", "message"), UNPRINTABLE)
def test_a_summary_that_cannot_be_printed_loses_nothing(tmp_path: Path, where: str, message: str) -> None:
    path = tmp_path / "a.h5"
    done = shell(f"{COMMAND} --output {quote(str(path))} {where}")
    assert (done.returncode, done.stderr) == (2, f"poisson: error: {message}; the result is in {path}\n")
    assert complete(path)
    assert sorted(os.listdir(tmp_path)) == ["a.h5", "a.xmf"]


@pytest.mark.parametrize("where", ["2>&-", "2> /dev/full", "2>&- <&-"])
def test_nobody_hears_messages_and_the_summary_is_printed(tmp_path: Path, where: str) -> None:
    path = tmp_path / "a.h5"
    done = shell(f"{COMMAND} --output {quote(str(path))} {where}")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("converged: ")
    assert complete(path)


@pytest.mark.parametrize("where", [">&- 2>&-", "<&- >&- 2>&-", "> /dev/full 2> /dev/full"])
def test_no_stream_at_all(tmp_path: Path, where: str) -> None:
    path = tmp_path / "a.h5"
    assert shell(f"{COMMAND} --output {quote(str(path))} {where}").returncode == 2
    assert complete(path)


def test_a_reader_that_has_gone_is_no_error(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    done = shell(f"{{ {COMMAND} --output {quote(str(path))}; echo $? >&2; }} | true")
    assert done.stderr == "0\n"
    assert complete(path)


def test_a_solve_that_has_not_converged_says_so_in_its_code_all_the_same(tmp_path: Path) -> None:
    done = shell(f"{COMMAND} --set solver.max_iterations=3 --output {quote(str(tmp_path / 'a.h5'))} > /dev/full")
    assert done.returncode == 1


@pytest.mark.parametrize("words", ["--help", "info"])
def test_every_command_says_that_it_could_not_print(words: str) -> None:
    done = shell(f"{join(PYTHON)} {words} > /dev/full")
    assert (done.returncode, done.stderr) == (
        2,
        "poisson: error: cannot write to standard output: No space left on device\n",
    )


def test_printable() -> None:
    assert printable("a\x1b[31mb\n\tc\x07\x9b\u202eé°") == "a\\x1b[31mb\n\\tc\\x07\\x9b\\u202eé°"
