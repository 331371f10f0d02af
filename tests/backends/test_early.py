# SPDX-License-Identifier: MIT
"""A GPU that starts while Python is loaded: when, and what it needs."""

import ctypes
import os
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest
from support.places import ROOT
from support.ranks import on_ranks

from poisson.backends import gpu, registry
from poisson.backends.gpu import early
from poisson.cli import main, solving
from poisson.errors import CaseError


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What a driver is asked for, which has one GPU; with a CuPy. No process has used a GPU afterwards."""
    found: list[str] = []
    monkeypatch.setattr(gpu, "_process", None)
    monkeypatch.setattr(early, "find_spec", lambda name: name)
    monkeypatch.setattr(os, "environ", dict(os.environ))

    def asks(name: str, status: int = 0) -> object:
        return lambda *arguments: found.append(name) or status

    names = ("cuInit", "cuDeviceGet", "cuDevicePrimaryCtxRetain")
    driver = SimpleNamespace(**{name: asks(name) for name in names})
    monkeypatch.setattr(early, "ctypes", SimpleNamespace(**vars(ctypes) | {"CDLL": lambda name: driver}))
    return found


def begun() -> None:
    """Begin, and wait for the end."""
    registry.begin("gpu")
    for thread in threading.enumerate():
        if thread.name == "poisson: start of the GPU":
            thread.join()


def test_the_driver_starts_and_the_first_gpu(asked: list[str]) -> None:
    begun()
    assert asked == ["cuInit", "cuDeviceGet", "cuDevicePrimaryCtxRetain"]
    assert gpu._process == os.getpid()


@pytest.mark.parametrize(("given", "expected"), [(None, "1"), ("4", "4")])
def test_one_queue_leads_to_the_gpu_unless_the_user_says_how_many(
    asked: list[str], monkeypatch: pytest.MonkeyPatch, given: str | None, expected: str
) -> None:
    """Before the driver looks."""
    name, found = "CUDA_DEVICE_MAX_CONNECTIONS", list[str | None]()
    os.environ.pop(name, None)
    os.environ |= {name: given} if given else {}
    monkeypatch.setattr(early.ctypes.CDLL(""), "cuInit", lambda flags: found.append(os.environ.get(name)) or 0)
    begun()
    assert found == [expected]


def test_nothing_is_begun_without_cupy(asked: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(early, "find_spec", lambda name: None)
    begun()
    assert asked == []


def test_without_a_driver_or_a_gpu_nobody_has_used_one(asked: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(early.ctypes.CDLL(""), "cuInit", lambda flags: 100)
    begun()

    def missing(name: str) -> None:
        raise OSError(name)

    monkeypatch.setattr(early.ctypes, "CDLL", missing)
    begun()
    assert asked == []
    assert gpu._process is None


@pytest.mark.parametrize(("name", "count"), [("auto", 1), ("gpu", 1), ("openmp", 0), ("numpy", 0), ("other", 0)])
def test_only_a_backend_that_has_something_to_begin_does(
    name: str, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[None] = []
    monkeypatch.setattr(early, "begin", lambda: calls.append(None))
    registry.begin(name)
    assert len(calls) == count


@pytest.mark.parametrize(
    ("words", "text", "expected"),
    [
        ((), "", ["auto"]),
        (("--backend", "numpy"), "", ["numpy"]),
        (("--set", "run.backend=openmp", "--set", 'run.backend = "numpy"'), "", ["numpy"]),
        ((), '[run]\nbackend = "numpy"\n', ["numpy"]),
        (("--backend", "numpy"), '[run]\nbackend = "gpu"\n', ["numpy"]),
        ((), "[run\n", []),
        ((), "run = 3\n", []),
        ((), "[run]\nbackend = 3\n", []),
    ],
)
def test_solve_begins_with_the_backend_of_the_case(
    words: tuple[str, ...], text: str, expected: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[str] = []
    monkeypatch.setattr(solving, "begin", found.append)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "case.toml").write_text(text)
    assert main(["solve", "case.toml", *words]) == 2  # it says nothing of an equation
    assert main(["check", "case.toml"]) == 2
    assert main(["solve", "missing.toml", *words]) == 2
    assert found == expected


def test_one_of_several_processes_begins_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Which GPU is its own it finds out later."""
    found: list[str] = []
    monkeypatch.setattr(solving, "begin", found.append)
    (tmp_path / "case.toml").write_text("")
    with pytest.raises(CaseError):
        on_ranks(2, lambda communicator: solving.solve(str(tmp_path / "case.toml")).execute(communicator))
    assert found == []


BEFORE = """
import sys
from poisson.cli import main, solving
def begin(name):
    print(name, "numpy" in sys.modules)
solving.begin = begin
main(["solve", "nothing.toml", "--set=domain.shape=[9, 9]", "--backend=gpu", "--output=u.h5"])
"""


def test_a_command_begins_before_numpy_is_loaded(tmp_path: Path) -> None:
    (tmp_path / "nothing.toml").touch()
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", BEFORE]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, cwd=tmp_path, env=environment)
    assert done.stdout == "gpu False\n", done.stderr
