# SPDX-License-Identifier: MIT
"""Calls in a process of their own, and files that would bring down the one that reads them."""

import os
import signal
from pathlib import Path

import h5py
import numpy as np
import pytest

from poisson import apart
from poisson.errors import CaseError
from poisson.problem.fields import FieldFile


def test_a_process_answers_calls_and_the_same_one_the_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    process = apart.call("os:getpid")
    assert process != os.getpid()
    assert apart.call("os:getpid") == process
    assert apart.call("math:hypot", 3, 4) == 5.0
    # Paths are relative to where this process is, at every call.
    monkeypatch.chdir(tmp_path)
    assert apart.call("os:getcwd") == str(tmp_path)
    assert apart.call("os.path:exists", "a") is False
    (tmp_path / "a").touch()
    assert apart.call("os.path:exists", "a") is True


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (("os:abort",), r"crash, SIGABRT"),
        (("os:_exit", 3), "no answer"),
        (("builtins:bytearray", 6 << 30), "no answer"),
        (("math:sqrt", -1), "no answer"),
        (("time:sleep", 60), "no end"),
    ],
)
def test_what_ends_the_process_is_said_and_the_next_call_is_answered(call: tuple[object, ...], said: str) -> None:
    with pytest.raises(apart.Lost, match=f"^{said}$"):
        apart.call(str(call[0]), *call[1:], silence=1.0)
    assert apart.call("math:hypot", 3, 4) == 5.0


def test_a_process_that_has_ended_since_is_replaced_without_a_word() -> None:
    first = apart.call("os:getpid")
    os.kill(first, signal.SIGTERM)
    assert apart._process is not None
    apart._process.wait(60)
    assert apart.call("os:getpid") != first


def test_an_interrupt_ends_the_process_and_a_late_answer_is_nobodys(monkeypatch: pytest.MonkeyPatch) -> None:
    first = apart.call("os:getpid")

    def interrupt(*arguments: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(apart.select, "select", interrupt)
        with pytest.raises(KeyboardInterrupt):
            apart.call("math:hypot", 5, 12)
    assert apart.call("math:hypot", 3, 4) == 5.0
    assert apart.call("os:getpid") != first


def test_a_forked_process_starts_its_own() -> None:
    first = apart.call("os:getpid")
    if (child := os.fork()) == 0:
        try:
            os._exit(0 if apart.call("os:getpid") != first else 1)
        finally:
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert apart.call("os:getpid") == first


def test_no_module_of_the_current_folder_is_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("json", "h5py", "numpy", "importlib", "poisson"):
        (tmp_path / f"{name}.py").write_text(f"open('{tmp_path / 'run'}', 'w').write(__name__)\n")
    monkeypatch.chdir(tmp_path)
    apart._end()
    assert apart.call("math:hypot", 3, 4) == 5.0
    assert not (tmp_path / "run").exists()


def test_a_file_that_the_library_does_not_survive_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "f.h5"
    with h5py.File(path, "w") as file:
        file["f"] = np.ones((4, 5))

    def crash(*arguments: object) -> None:
        raise apart.Lost("crash, SIGSEGV")

    monkeypatch.setattr(apart, "call", crash)
    with pytest.raises(CaseError) as caught:
        FieldFile(path, "f").check((4, 5))
    assert str(caught.value) == (f"'{path}' cannot be read as an HDF5 file: the HDF5 library fails: crash, SIGSEGV")


def test_a_call_ends_by_itself_where_nobody_waits_for_it_any_more() -> None:
    # What ends it is the system's own clock, which no library that comes to no end can hold up.
    left, repeated = apart.call("signal:getitimer", signal.ITIMER_REAL)
    assert apart.LONGEST_SILENCE < left <= apart.LONGEST_ALONE
    assert repeated == 0.0
    with pytest.raises(apart.Lost, match=r"^crash, SIGALRM$"):
        apart.call("signal:raise_signal", signal.SIGALRM)
