# SPDX-License-Identifier: MIT
"""SIGTERM and SIGHUP end a command as Ctrl-C does, with exit codes of their own."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import pytest
from support.places import ROOT

from poisson.cli import launcher, main
from poisson.cli.signals import ending
from poisson.parallel.failures import Failure, code_of
from poisson.run import interrupts
from poisson.run.interrupts import EndedBySignal, Ending
from poisson.solvers.status import Status

CODES = {signal.SIGTERM: 143, signal.SIGHUP: 129}

WORDS = [
    *(
        "solve",
        str(ROOT / "cases" / "unit_square.toml"),
        "--backend=numpy",
        "--quiet",
        "--set",
        "domain.shape=[17, 17]",
    ),
    *("--set", "solver.method=jacobi", "--set", "solver.rtol=1e-10", "--set", "output.checkpoint_every=1000000"),
]


@pytest.fixture
def own_handlers(interruptible: None) -> Any:
    """Those of a process that nobody has touched, whatever has started the tests."""
    before = {number: signal.signal(number, signal.SIG_DFL) for number in (*CODES, signal.SIGUSR1)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def press_at(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, *numbers: int) -> None:
    """Send signals to this process when a function is called for the first time."""
    whole: Callable[..., Any] = getattr(owner, name)
    left = list(numbers)

    def pressed(*arguments: Any, **named: Any) -> Any:
        while left:
            os.kill(os.getpid(), left.pop(0))
        return whole(*arguments, **named)

    monkeypatch.setattr(owner, name, pressed)


@pytest.mark.parametrize("number", CODES)
def test_the_iterate_is_written_and_a_checkpoint(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own_handlers: None
) -> None:
    from poisson.cli.terminal import Progress

    press_at(monkeypatch, Progress, "__call__", number)
    file = tmp_path / "a.h5"
    assert main([*WORDS, f"--output={file}"]) == CODES[number]
    names = sorted(path.name for path in tmp_path.iterdir())
    assert [names[0].partition("-")[0], *names[1:]] == ["a.checkpoint", "a.h5", "a.xmf"]
    for name, status in zip(names, (Status.UNFINISHED, Status.INTERRUPTED), strict=False):
        with h5py.File(tmp_path / name) as result:
            assert result.attrs["status"] == status.value
    assert main([*WORDS, f"--output={file}", "--resume"]) == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.h5", "a.xmf"]
    assert main([*WORDS, f"--output={file}", "--resume"]) == 0
    assert [signal.getsignal(each) for each in CODES] == [signal.SIG_DFL] * 2


def test_a_second_one_aborts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own_handlers: None, capsys: pytest.CaptureFixture[str]
) -> None:
    from poisson.cli.terminal import Progress

    press_at(monkeypatch, Progress, "__call__", signal.SIGTERM, signal.SIGTERM)
    assert main([*WORDS, f"--output={tmp_path / 'a.h5'}"]) == 143
    assert list(tmp_path.iterdir()) == []
    assert capsys.readouterr().err == "poisson: interrupted; nothing was written\n"


def test_before_the_loop_nothing_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own_handlers: None, capsys: pytest.CaptureFixture[str]
) -> None:
    from poisson.run import solver

    press_at(monkeypatch, solver, "set_up", signal.SIGHUP)
    assert main([*WORDS, f"--output={tmp_path / 'a.h5'}"]) == 129
    assert list(tmp_path.iterdir()) == []
    assert capsys.readouterr().err == "poisson: interrupted; nothing was written\n"


def test_what_is_ignored_stays_so_and_so_do_handlers_of_others(own_handlers: None) -> None:
    def others(number: int, frame: Any) -> None: ...

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, others)
    with ending(launched=True), interrupts.Noted() as pressed:
        for number in (signal.SIGINT, *CODES):
            signal.raise_signal(number)
        assert not pressed()
        assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGHUP)] == [signal.SIG_IGN] * 2
        assert signal.getsignal(signal.SIGTERM) is others
    with ending(launched=True):
        assert isinstance(signal.getsignal(signal.SIGUSR1), Ending)
    assert signal.getsignal(signal.SIGUSR1) is signal.SIG_DFL


def test_of_a_launcher_s_signals_sigterm_counts_once(own_handlers: None) -> None:
    with ending(launched=True), interrupts.Noted() as pressed:
        for _ in range(3):
            signal.raise_signal(signal.SIGTERM)
        assert pressed() and pressed.number == signal.SIGTERM
        with pytest.raises(EndedBySignal):
            signal.raise_signal(signal.SIGUSR1)
    with ending(launched=True):
        with pytest.raises(EndedBySignal):
            signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGTERM)


def test_another_thread_has_no_handlers() -> None:
    before = [signal.getsignal(number) for number in CODES]
    found: list[Any] = []

    def look() -> None:
        with ending(), interrupts.Noted() as pressed:
            found.extend([pressed(), *(signal.getsignal(number) for number in CODES)])

    thread = threading.Thread(target=look)
    thread.start()
    thread.join()
    assert found == [False, *before]


def test_the_exit_code_is_that_of_the_signal() -> None:
    assert [code_of(EndedBySignal(number)) for number in CODES] == list(CODES.values())
    assert [
        code_of(each) for each in (KeyboardInterrupt(), EndedBySignal(signal.SIGINT), EndedBySignal(signal.SIGUSR1))
    ] == [130] * 3
    failure = Failure.of(1, EndedBySignal(signal.SIGTERM))
    assert (failure.code, failure.interrupt, Failure.of(1, OSError()).interrupt) == (143, True, False)


def test_a_process_ends_with_the_code_of_the_signal(tmp_path: Path) -> None:
    """As a batch system sees it."""
    words = [*WORDS, "--set", "domain.shape=[301, 301]", "--set", "output.checkpoint_every=1"]
    process = subprocess.Popen(
        [sys.executable, "-m", "poisson", *words, f"--output={tmp_path / 'a.h5'}"], stderr=subprocess.PIPE, text=True
    )
    # A checkpoint shows that the loop is under way.
    while not any(path.suffix == ".h5" for path in tmp_path.iterdir()):
        assert process.poll() is None
        time.sleep(0.02)
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=300)
    assert (process.returncode, (tmp_path / "a.h5").exists()) == (143, True), errors


def test_a_command_with_ranks_ends_with_the_code_of_the_signal_that_it_got(capsys: pytest.CaptureFixture[str]) -> None:
    """It hands on each of them as SIGUSR1, which the ranks take for Ctrl-C."""
    for number, code in {signal.SIGINT: 130, **CODES}.items():
        assert launcher._verdict("mpirun", 2, 0, 130, number, "") == code
        assert launcher._verdict("mpirun", 2, 1, None, number, "") == code
        assert launcher._verdict("mpirun", 2, 0, 0, number, "") == 0
    assert launcher._verdict("mpirun", 2, 0, 130, 0, "") == 130
    assert capsys.readouterr().err == "poisson: interrupted\n" * 3
