# SPDX-License-Identifier: MIT
"""Every writer, and every way in which a write can fail: the file of before stays, and the line names the one meant.

The disk is filled with real limits; the steps of a write that the system can refuse, or that Ctrl-C can meet, fail one
after the other. test_disk_full.py has the HDF5 file on a real full disk.
"""

import ast
import errno
import os
import re
import resource
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from support.places import ROOT
from support.results import make_solution

from poisson.backends.gpu.shapes import VECTOR_SHAPE
from poisson.backends.gpu.tuned import FOLDER_VARIABLE, Device, Setting
from poisson.cli import main
from poisson.errors import OutputError
from poisson.output import result
from poisson.output.table import Column, Report
from poisson.perf import autotune

DEVICE = Device("a device", "1.0", "kernels")


@dataclass(frozen=True)
class Writer:
    """How a file is written, what it is called, and what its error names."""

    write: Callable[[Path, int], object]
    name: str = "a.csv"
    named: Callable[[Path], str] = str


def report(number: int) -> Report:
    rows = tuple({"n": row, "seconds": number / (row + 1)} for row in range(200))
    return Report(
        "A table",
        (Column("n", "n"), Column("seconds", "s")),
        rows,
        draw=lambda figure: setattr(figure, "drawn", bytes([number]) * 5000),
    )


def tune(path: Path, number: int) -> None:
    search = SimpleNamespace(kind="laplacian", best=VECTOR_SHAPE, start=VECTOR_SHAPE)
    autotune.keep(DEVICE, Setting("float64", 2, f"2^{3 * number}"), [search])  # type: ignore[list-item]


WRITERS = {
    "result": Writer(lambda path, number: result.save(path, make_solution(1 + number)), "a.h5"),
    "table": Writer(lambda path, number: report(number).write_csv(str(path))),
    "picture": Writer(lambda path, number: report(number).write_plot(str(path)), "a.png"),
    # Its place is a folder that an environment variable names.
    "tuning": Writer(tune, DEVICE.path.name, lambda path: str(path.parent)),
}

OPENED, REPLACED, SYNCED = "open", "replace", "fsync"


@pytest.fixture(params=WRITERS)
def writer(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Writer:
    if request.param == "picture":
        figure = pytest.importorskip("matplotlib.figure")
        # To draw takes long, and what is drawn is none of this.
        monkeypatch.setattr(figure.Figure, "savefig", lambda self, path, **_: path.write_bytes(self.drawn))
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(elsewhere))
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path / "there"))
    return WRITERS[request.param]


def prepared(writer: Writer, folder: Path) -> tuple[Path, dict[str, bytes]]:
    """The file to be replaced, and what is in its folder."""
    (folder / "there").mkdir()
    path = folder / "there" / writer.name
    writer.write(path, 1)
    return path, contents(path.parent)


def contents(folder: Path) -> dict[str, bytes]:
    return {name: (folder / name).read_bytes() for name in sorted(os.listdir(folder))}


@contextmanager
def limited(size: int) -> Iterator[None]:
    """Within, no file may be longer: the disk is full after so many bytes."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_write_that_comes_to_the_end_of_the_disk_leaves_the_file_of_before(writer: Writer, tmp_path: Path) -> None:
    path, before = prepared(writer, tmp_path)
    whole = len(before[writer.name])
    for room in (0, 1, whole // 3, whole // 2):
        with limited(room), pytest.raises(OutputError) as caught:
            writer.write(path, 2)
        line = str(caught.value)
        assert line.startswith(f"{writer.named(path)}: "), line
        assert "larger than" in line.lower() or "too large" in line.lower(), line
        assert "\n" not in line
        assert contents(path.parent) == before, room
    assert os.listdir(tmp_path / "elsewhere") == []
    writer.write(path, 2)
    assert contents(path.parent)[writer.name] != before[writer.name]


def failing(monkeypatch: pytest.MonkeyPatch, function: str, number: int, error: BaseException) -> list[int]:
    """Let a function of the system fail at its call of that number that concerns the folder; its calls are counted."""
    whole, calls = getattr(os, function), [0]

    def instead(*arguments: Any, **named: Any) -> Any:
        if function != OPENED or arguments[1] & os.O_CREAT:
            calls[0] += 1
            if calls[0] == number:
                raise error
        return whole(*arguments, **named)

    monkeypatch.setattr(os, function, instead)
    return calls


@pytest.mark.parametrize("function", [OPENED, SYNCED, REPLACED])
@pytest.mark.parametrize(
    "error",
    [
        PermissionError(errno.EACCES, "Permission denied"),
        OSError(errno.ENOSPC, "No space left on device"),
        KeyboardInterrupt(),
    ],
    ids=["permission", "full", "interrupt"],
)
def test_whatever_step_fails_a_whole_file_stays(
    writer: Writer, function: str, error: BaseException, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, before = prepared(writer, tmp_path)
    with monkeypatch.context() as patch:
        calls = failing(patch, function, 0, error)
        writer.write(path, 2)
    steps, after = calls[0], contents(path.parent)
    assert steps >= 1
    for number in range(1, steps + 1):
        for name, content in before.items():
            (path.parent / name).write_bytes(content)
        for name in after.keys() - before.keys():
            (path.parent / name).unlink()
        with monkeypatch.context() as patch:
            failing(patch, function, number, error)
            try:
                writer.write(path, 2)
            except OutputError as caught:
                assert isinstance(error, OSError)
                line = str(caught)
                assert line.startswith((f"{writer.named(path)}: ", f"{path.with_suffix('.xmf')}: ")), line
            except KeyboardInterrupt:
                assert isinstance(error, KeyboardInterrupt)
        found = contents(path.parent)
        assert found[writer.name] in (before[writer.name], after[writer.name]), (function, number)
        assert set(found) <= set(before) | set(after), (function, number)
        beside = path.with_suffix(".xmf").name
        if beside in found:
            # It tells of the data that are there.
            same = before if found[writer.name] == before[writer.name] else after
            assert found[beside] == same[beside]


def test_a_new_case_is_whole_or_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the file that it reads, which does not stand there alone."""
    monkeypatch.chdir(tmp_path)
    words = ["new", "mine", "--from", "source_from_file"]
    for function in (OPENED, SYNCED, "link"):
        for number in range(1, 7):
            with monkeypatch.context() as patch:
                calls = failing(patch, function, number, OSError(errno.ENOSPC, "No space left on device"))
                code = main(words)
            found = set(os.listdir(tmp_path))
            if code == 0:
                assert found == {"mine.toml", "source.h5"}
            else:
                assert code == 2 and "mine.toml" not in found
                assert found <= {"source.h5"}
            for name in found:
                os.unlink(name)
            if calls[0] < number:
                break
        else:
            raise AssertionError(function)


WRITERS_OF_FILES = {"write_text", "write_bytes", "savefig", "tofile", "savez", "to_csv"}
ELSEWHERE = {
    "output/files.py:_create": "the drafts themselves",
    "output/files.py:put": "the drafts themselves",
    "output/files.py:add": "the drafts themselves",
    "output/locks.py:_open": "a lock, which holds no data",
    "cli/terms.py:streams": "to nowhere",
    "cli/ranks.py:_heard": "to nowhere",
    "perf/benchmark/call.py:clear_peak": "a word to the system",
    "perf/benchmark/command.py:__init__": "a case for a moment, in a folder that is removed",
    "perf/benchmark/command.py:_disk": "as the above",
    "cli/journal.py:_appended": "a log grows line by line, and ends with a warning: tests/cli/test_journal.py",
}
"""What opens a file to write and is no draft."""


def writes(node: ast.AST) -> bool:
    """Whether it is a call that opens a file to write."""
    if isinstance(node, ast.Attribute):
        return node.attr == "O_CREAT"
    if not isinstance(node, ast.Call):
        return False
    method, name = getattr(node.func, "attr", None), getattr(node.func, "id", None)
    if "open" not in (method, name):
        return method in WRITERS_OF_FILES
    texts = [each.value for each in ast.walk(node) if isinstance(each, ast.Constant) and isinstance(each.value, str)]
    return any(re.fullmatch(r"[wax]b?\+?|rb?\+b?", text) for text in texts) or method in WRITERS_OF_FILES


def test_every_file_is_written_as_a_draft() -> None:
    """Only so is it whole or not there: what else writes is in the list, with the reason."""
    found = set()
    for path in sorted((ROOT / "poisson").rglob("*.py")):
        text = path.read_text("utf-8")
        if not any(word in text for word in ("open", "O_CREAT", *WRITERS_OF_FILES)):
            continue  # to parse all takes seconds
        functions = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef)]
        for function in functions:
            nodes = list(ast.walk(function))
            names = {word for node in nodes for word in (getattr(node, "id", 0), getattr(node, "attr", 0))}
            if not names & {"drafted", "replacing", "BytesIO"} and any(map(writes, nodes)):
                found.add(f"{path.relative_to(ROOT / 'poisson')}:{function.name}")
    assert found == set(ELSEWHERE)
