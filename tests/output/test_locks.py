# SPDX-License-Identifier: MIT
"""The lock of an output: who gets it, who is refused, and what killed processes leave."""

import contextlib
import errno
import json
import logging
import os
import platform
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.case_texts import GOOD, case_of
from support.places import ROOT
from support.ranks import on_ranks
from support.results import make_solution

import poisson
from poisson.cli import main
from poisson.errors import OutputError
from poisson.output import locks
from poisson.output.locks import Holder, require_free, reserved

HOLD = """
import sys
from poisson.output.locks import reserved
with reserved(sys.argv[1]):
    print("held", flush=True)
    sys.stdin.read()
"""
REFUSED = r"another solve \(process {}, since [\d :-]+\) is writing there; wait for its end, or choose another place"


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a.toml").write_text(GOOD + '\n[run]\nbackend = "numpy"\n', "utf-8")


def without_locks(monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    """A disk, or a system, that has no locks."""

    class Fcntl:
        LOCK_EX = LOCK_NB = LOCK_UN = 0

        @staticmethod
        def flock(handle: int, how: int) -> None:
            raise OSError(errno.ENOLCK, "no locks")

    if kind != "locks":
        monkeypatch.setattr(locks, "fcntl", None if kind == "system" else Fcntl)


@contextlib.contextmanager
def holding(path: str) -> Iterator[subprocess.Popen[str]]:
    """Another process that holds the lock of an output."""
    command = [sys.executable, "-c", HOLD, path]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    with subprocess.Popen(command, stdin=-1, stdout=-1, text=True, env=environment) as process:
        assert process.stdout is not None and process.stdout.readline() == "held\n"
        try:
            yield process
        finally:
            process.kill()


def left() -> list[str]:
    return [name for name in os.listdir() if name.endswith(".lock")]


def left_by(host: str, process: int, born: str = "") -> Path:
    """The file of a lock whose process has ended without taking it away."""
    with reserved("a.h5"):
        [name] = left()
    path = Path(name)
    path.write_text(json.dumps(vars(Holder(host, process, born, "2026-01-01 00:00:00", "solve"))), "utf-8")
    return path


def test_a_second_solve_of_an_output_is_refused_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["solve", "a.toml", "-o", "a.h5", "-q"]) == 0
    before = Path("a.h5").read_bytes()
    with holding("a.h5") as other:
        for words in ([], ["--resume"], ["--overwrite"]):
            capsys.readouterr()
            assert main(["solve", "a.toml", "-o", "a.h5", *words]) == 2
            [line] = capsys.readouterr().err.splitlines()
            assert line.startswith(f"poisson: error: a.h5: another solve (process {other.pid}, since 20")
            assert line.endswith(") is writing there; wait for its end, or choose another place with --output")
        assert Path("a.h5").read_bytes() == before
        assert main(["solve", "a.toml", "-o", "b.h5", "-q"]) == 0
    assert main(["solve", "a.toml", "-o", "a.h5", "-q"]) == 0
    assert left() == []


def test_the_lock_of_a_killed_process_holds_nothing() -> None:
    with holding("a.h5") as other:
        other.send_signal(signal.SIGKILL)
        other.wait()
        assert len(left()) == 1
        assert main(["solve", "a.toml", "-o", "a.h5", "-q"]) == 0
    assert left() == []


def test_what_killed_processes_have_left_is_removed_by_the_next_in_the_folder() -> None:
    with holding("a.h5") as other, holding("b.h5") as alive:
        other.kill()
        other.wait()
        assert len(left()) == 2
        with reserved("c.h5"):
            assert len(left()) == 2
        with pytest.raises(OutputError, match=REFUSED.format(alive.pid)), reserved("b.h5"):
            pass


def test_a_result_is_not_saved_over_one_that_is_being_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    solution = make_solution()
    solution.save("a.h5")
    before = Path("a.h5").read_bytes()
    with holding("a.h5") as other:
        with pytest.raises(OutputError, match=REFUSED.format(other.pid) + "; the result is saved as .*result.h5$"):
            solution.save("a.h5")
        assert Path("a.h5").read_bytes() == before
        [elsewhere] = tmp_path.glob("poisson-*/result.h5")
        assert poisson.load(elsewhere).u.shape == solution.u.shape
    solution.save("a.h5")


@pytest.mark.parametrize("words", [("output.checkpoint_every=5",), ()])
def test_python_holds_the_lock_where_it_keeps_checkpoints_or_resumes(words: tuple[str, ...]) -> None:
    case = case_of(GOOD, overrides=('run.backend="numpy"', 'output.file="a.h5"', *words))
    seen: list[bool] = []

    def watch(iteration: int, norm: float) -> None:
        seen.append(len(left()) == 1)

    poisson.solve(case, observer=watch, resume=not words)
    assert seen and all(seen) and left() == []
    with holding("a.h5") as other, pytest.raises(OutputError, match=REFUSED.format(other.pid)):
        poisson.solve(case, resume=not words)


def test_every_rank_ends_where_the_first_is_refused() -> None:
    case = case_of(GOOD, overrides=('run.backend="numpy"', 'output.file="a.h5"', "output.checkpoint_every=5"))

    def refused(comm: Any) -> str:
        with pytest.raises(OutputError) as caught:
            poisson.solve(case, comm=comm)
        return str(caught.value)

    with holding("a.h5") as other:
        lines = on_ranks(2, refused)
    assert len(set(lines)) == 1 and f"process {other.pid}" in lines[0]


@pytest.mark.parametrize("kind", ["disk", "system"])
def test_without_locks_the_process_is_looked_for(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    without_locks(monkeypatch, kind)
    with holding("a.h5") as other:
        with pytest.raises(OutputError, match=REFUSED.format(other.pid)), reserved("a.h5"):
            pass
        with pytest.raises(OutputError, match=REFUSED.format(other.pid)):
            require_free("a.h5")
        other.kill()
        other.wait()
        require_free("a.h5")
        with reserved("a.h5"):
            require_free("a.h5")
            assert len(left()) == 1
    assert left() == []


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="the system does not tell when a process started")
def test_another_process_of_the_same_number_holds_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    without_locks(monkeypatch, "disk")
    left_by(platform.node(), os.getppid(), "1")
    with reserved("a.h5"):
        assert json.loads(Path(left()[0]).read_text("utf-8"))["process"] == os.getpid()


def test_what_cannot_be_known_of_another_machine_is_said(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    path = left_by("elsewhere", 17)
    with reserved("a.h5"), caplog.at_level(logging.WARNING, "poisson"):
        pass
    assert caplog.records == []
    path = left_by("elsewhere", 17)
    without_locks(monkeypatch, "disk")
    with reserved("a.h5"):
        pass
    line = f"a.h5: another solve (process 17 on elsewhere, since 2026-01-01 00:00:00) has left {path.absolute()} on a"
    assert [record.getMessage() for record in caplog.records] == [f"{line} disk without locks; it counts as ended"]


@pytest.mark.parametrize("kind", ["locks", "disk"])
def test_a_lock_is_one_threads_at_a_time(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    without_locks(monkeypatch, kind)
    inside, most, had = 0, 0, 0
    count = threading.Lock()

    def work() -> None:
        nonlocal inside, most, had
        for _ in range(30):
            with contextlib.suppress(OutputError), reserved("a.h5"):
                with count:
                    inside, had = inside + 1, had + 1
                    most = max(most, inside)
                with count:
                    inside -= 1

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == 1 and had > 0 and left() == []


def test_a_lock_held_by_this_process_is_said_so() -> None:
    with (
        reserved("a.h5"),
        pytest.raises(OutputError, match=r"^a.h5: another thread of this process is writing there"),
        reserved("a.h5"),
    ):
        pass


def test_names_of_full_length_and_links_have_locks(tmp_path: Path) -> None:
    name = "x" * 252 + ".h5"
    Path("link.h5").symlink_to(name)
    with reserved(name), pytest.raises(OutputError), reserved("link.h5"):
        pass
    with pytest.raises(OutputError, match="folder does not exist"), reserved("no/a.h5"):
        pass
