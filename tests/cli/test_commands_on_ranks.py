# SPDX-License-Identifier: MIT
"""A command on several processes: it speaks once, and a failure anywhere ends all with one message and one code.

Covers poisson.cli.ranks.
"""

import re
import selectors
import signal
from pathlib import Path

import pytest
from support.mpi import command, mpirun

from poisson.cli import main
from poisson.cli.launcher import LauncherFailed, find_launcher, start

ENDING = """
from poisson.cli import ranks
from poisson.parallel.launched import launch

class End(Exception):
    pass

def end(communicator, code, *, everyone):
    communicator.barrier()
    raise End(code, everyone)

ranks._end = end
own = launch().rank
"""
"""The beginning of a program whose ranks raise `End` where they would end."""

SPOKEN = """
import sys
import warnings
from poisson.cli.terms import complain, say
from poisson.errors import BackendUnavailable, CaseError, OutputError

def stage(name, failing, error):
    def work(communicator):
        for each in ("parse", "set up", "loop", "write", "say"):
            communicator.allgather([1.0])
            if each == name and communicator.rank in failing:
                raise error
            warnings.warn(each, stacklevel=1)
        complain("all is well")
        say("a result")
        return 1
    try:
        code = ranks.carry_out(launch(), work)
    except End as found:
        code, everyone = found.args
        assert everyone
    if own == 0:
        print(f"{name} {sorted(failing)}: {code}", file=sys.stderr, flush=True)

warnings.simplefilter("ignore")
for each in ({0}, {1}, {0, 1}):
    stage("parse", each, CaseError(["one", "two"]))
    stage("set up", each, BackendUnavailable("no device"))
    stage("set up", each, MemoryError("12 GB"))
    stage("loop", each, KeyboardInterrupt("interrupted; nothing was written"))
    stage("write", each, OutputError("the disk is full"))
stage("loop", {1}, ZeroDivisionError("a defect"))
warnings.simplefilter("always")
warnings.formatwarning = lambda message, *rest, **named: f"warning: {message}\\n"
stage("", {}, None)
"""


def expected(place: str) -> list[str]:
    """What is said where an error is from this place."""
    return [
        f"poisson: error: {place}one",
        f"poisson: error: {place}two",
        "parse",
        f"poisson: error: {place}no device",
        "set up",
        f"poisson: error: {place}not enough memory (12 GB); use fewer nodes (domain.shape)",
        "set up",
        "poisson: interrupted; nothing was written",
        "loop",
        f"poisson: error: {place}the disk is full",
        "write",
    ]


def test_a_failure_at_any_stage_on_any_rank_is_said_once_and_gives_all_one_code() -> None:
    done = mpirun(2, "-c", ENDING + SPOKEN)
    assert (done.returncode, done.stdout) == (0, "a result\n"), done.stderr
    lines = done.stderr.splitlines()
    codes = {"parse": 2, "set up": 2, "loop": 130, "write": 2}
    wanted = []
    for failing, place in (([0], ""), ([1], "process 1 of 2: "), ([0, 1], "")):
        wanted += [f"{line} {failing}: {codes[line]}" if line in codes else line for line in expected(place)]
    assert lines[: len(wanted)] == wanted
    defect, rest = lines[len(wanted) : -8], lines[-8:]
    assert defect[0] == "process 1 of 2: Traceback (most recent call last):"
    assert [line for line in defect if "Traceback" in line] == defect[:1]
    assert defect[-1] == "ZeroDivisionError: a defect"
    warnings = [f"warning: {each}" for each in ("parse", "set up", "loop", "write", "say")]
    assert rest == ["loop [1]: 1", *warnings, "poisson: all is well", " []: 1"]


ALONE = """
import sys, time
from poisson.cli import ranks
from poisson.errors import CaseError
from poisson.parallel import mpi
from poisson.parallel.launched import launch

mpi.MpiCommunicator.settle.__defaults__ = (0.5,)

def work(communicator):
    if communicator.rank == 1:
        raise CaseError(["one"])
    time.sleep(1000.0)

ranks.carry_out(launch(), work)
"""


def test_a_rank_that_never_comes_to_its_end_is_ended_by_the_one_that_failed() -> None:
    done = mpirun(2, "-c", ALONE)
    assert (done.returncode, done.stdout) == (2, "")
    # Under load prterun leaves a zero byte between its own message about the abort and what follows.
    lines = done.stderr.replace("\0", "").splitlines()
    assert [line for line in lines if "poisson" in line] == ["poisson: error: process 1 of 2: one"]


def test_the_same_mistake_on_all_ranks_is_said_once(tmp_path: Path) -> None:
    done = mpirun(2, "-m", "poisson", "solve", "no_such_case.toml", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    lines = [line for line in done.stderr.splitlines() if line.startswith("poisson")]
    assert lines == ["poisson: error: no case file 'no_such_case.toml'"]


def test_info_shows_where_every_process_runs(tmp_path: Path) -> None:
    done = mpirun(2, "-m", "poisson", "info", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[0].split(maxsplit=4) == ["rank", "host", "backend", "device", "links to other ranks"]
    assert [line.split()[0] for line in lines[2:4]] == ["0", "1"]
    assert re.fullmatch(
        r".+: takes no device pointers|.+: may take device pointers|.+: takes device pointers", lines[-1]
    )


REFUSED = """
import sys
from poisson.cli import main, ranks

def end(communicator, code, *, everyone):
    communicator.barrier()
    raise SystemExit(code)

ranks._end = end
for words in (["tune"], ["info", "--ranks", "3"]):
    try:
        main(words)
    except SystemExit as ended:
        assert ended.code == 2
"""


def test_what_one_process_does_is_refused_on_several(tmp_path: Path) -> None:
    done = mpirun(2, "-c", REFUSED, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr.splitlines() == [
        "poisson: error: tune runs in one process; start tune without mpirun",
        "poisson: error: --ranks 3: started with 2 processes already; leave --ranks out",
    ]


@pytest.mark.parametrize(
    ("found", "line"),
    [
        (None, "mpi4py: in the checkout, pip install '.[mpi]'"),
        ("mpi4py", "mpirun: in the checkout, pip install '.[mpi]', or load the module of an MPI"),
    ],
)
def test_what_ranks_need_is_one_line(
    found: str | None, line: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: found)
    monkeypatch.setattr("shutil.which", lambda *_, **__: None)
    assert main(["info", "--ranks", "2"]) == 2
    assert capsys.readouterr() == ("", f"poisson: error: --ranks needs {line}\n")


def test_one_process_needs_no_launcher(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert main(["info", "--ranks", "1"]) == 0
    assert capsys.readouterr().out.startswith("backend")


FAKE = """#!/bin/sh
case "$1" in --version) echo "some launcher";; *) {};; esac
"""


@pytest.mark.parametrize(
    ("does", "said"),
    [
        ("kill -9 $$", "one of the 3 processes was ended by SIGKILL; possibly out of memory: use fewer nodes"),
        ("exit 139", "one of the 3 processes was ended by SIGSEGV"),
        ("echo ------; echo 'no slots'; echo; echo 'left'; exit 1", "{} could not run 3 processes: no slots left"),
        ("exit 7", "{} could not run 3 processes: exit code 7"),
    ],
)
def test_a_launcher_that_fails_is_said_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, does: str, said: str
) -> None:
    launcher = tmp_path / "mpirun"
    launcher.write_text(FAKE.format(does))
    launcher.chmod(0o755)
    monkeypatch.setattr("poisson.cli.launcher.find_launcher", lambda: str(launcher))
    with pytest.raises(LauncherFailed) as failed:
        start(["info"], 3)
    assert str(failed.value) == said.format(launcher)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_the_launcher_leaves_signals_ignored_that_were(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A shell has Ctrl-C ignored for a command in the background."""
    launcher = tmp_path / "mpirun"
    launcher.write_text(FAKE.format("exit 7"))
    launcher.chmod(0o755)
    monkeypatch.setattr("poisson.cli.launcher.find_launcher", lambda: str(launcher))

    class Selector(selectors.DefaultSelector):
        def __init__(self) -> None:
            signal.raise_signal(number)
            super().__init__()

    monkeypatch.setattr(selectors, "DefaultSelector", Selector)
    for handler in (signal.SIG_IGN, lambda *_: None):
        before = signal.signal(number, handler)
        try:
            if handler is signal.SIG_IGN:
                with pytest.raises(LauncherFailed, match="exit code 7"):
                    start(["info"], 3)
            else:
                assert start(["info"], 3) == 128 + number
            assert signal.getsignal(number) is handler
        finally:
            signal.signal(number, before)
    assert capsys.readouterr().err == "poisson: interrupted\n"


def test_the_launcher_is_that_of_the_mpi_that_is_loaded() -> None:
    loaded = command(1)[0]
    assert find_launcher() == loaded
