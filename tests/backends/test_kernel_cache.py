# SPDX-License-Identifier: MIT
"""A folder for compiled kernels that cannot be written is no failure: what CuPy is told then, and what the user is."""

import importlib
import logging
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from poisson import backends
from poisson.backends import gpu
from poisson.backends.gpu.kernel_cache import FOLDER_VARIABLE, MEMORY_VARIABLE
from poisson.errors import BackendUnavailable

CUPY = """
import os
folder = os.environ.get("CUPY_CACHE_DIR", os.path.expanduser("~/.cupy/kernel_cache"))
if not os.path.isdir(folder):
    os.makedirs(folder, exist_ok=True)
from cupy import cuda
"""
"""What CuPy does when it is imported, as far as its cache goes."""
RUNTIME = """
class CUDARuntimeError(RuntimeError): pass
def getDeviceCount(): return 0
"""


@pytest.fixture(autouse=True)
def installed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """A CuPy that finds no device, which is not imported yet; a home of its own."""
    for name, text in {
        "__init__": CUPY,
        "cuda/__init__": "from cupy.cuda import runtime",
        "cuda/runtime": RUNTIME,
    }.items():
        path = tmp_path / "packages" / "cupy" / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    of_cupy = [name for name in sys.modules if name.partition(".")[0] == "cupy"]
    for name in of_cupy:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.syspath_prepend(tmp_path / "packages")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    # Set and deleted, so that what a test sets is undone.
    for name in (FOLDER_VARIABLE, MEMORY_VARIABLE):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    yield
    for name in [name for name in sys.modules if name.partition(".")[0] == "cupy"]:
        del sys.modules[name]


def asked_for() -> str:
    with pytest.raises(BackendUnavailable) as caught:
        backends.create("gpu", "float64")
    return str(caught.value)


def warnings_of(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


def a_file(folder: Path) -> Path:
    (folder / "file").write_text("")
    return folder / "file" / "cache"


UNWRITABLE: dict[str, Callable[[Path], Path]] = {
    "cannot be made": a_file,
    # Not even root can write there.
    "is read-only": lambda folder: Path("/proc"),
}


@pytest.mark.parametrize("where", UNWRITABLE)
@pytest.mark.parametrize("asks", [asked_for, gpu.identities])
def test_a_folder_that_cannot_be_written_is_told_in_one_line(
    where: str,
    asks: Callable[[], Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    folder = UNWRITABLE[where](tmp_path)
    monkeypatch.setenv(FOLDER_VARIABLE, str(folder))
    found = asks()
    assert found in ("CuPy finds no GPU: install or repair the driver", ())
    assert os.environ[MEMORY_VARIABLE] == "1"
    assert os.path.isdir(os.environ[FOLDER_VARIABLE])
    [line] = warnings_of(caplog)
    assert line.startswith(f"CuPy cannot write compiled kernels to {folder} (")
    assert line.endswith(": set CUPY_CACHE_DIR to a folder that can be written")
    asked_for()
    assert len(warnings_of(caplog)) == 1


def test_a_home_that_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("HOME", str(a_file(tmp_path)))
    assert asked_for() == "CuPy finds no GPU: install or repair the driver"
    [line] = warnings_of(caplog)
    assert line.startswith(f"CuPy cannot write compiled kernels to {tmp_path / 'file' / 'cache' / '.cupy'}")


def test_a_folder_that_can_be_written_is_left_to_cupy(caplog: pytest.LogCaptureFixture, tmp_path: Path) -> None:
    asked_for()
    assert warnings_of(caplog) == []
    assert MEMORY_VARIABLE not in os.environ and FOLDER_VARIABLE not in os.environ
    assert list((tmp_path / "home" / ".cupy" / "kernel_cache").iterdir()) == []


def test_without_cupy_no_folder_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cupy", None)
    assert asked_for().startswith("CuPy is not installed")
    assert not (tmp_path / "home").exists()


def test_who_keeps_kernels_in_memory_is_told_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv(MEMORY_VARIABLE, "1")
    monkeypatch.setenv(FOLDER_VARIABLE, "")
    assert asked_for() == "CuPy finds no GPU: install or repair the driver"
    assert warnings_of(caplog) == []


def test_a_disk_that_fills_up_later_is_no_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """CuPy writes a kernel when it has compiled it."""

    class RawModule:
        def __init__(self, code: str, options: tuple[str, ...]) -> None:
            self.code = code

        def get_function(self, name: str) -> str:
            if MEMORY_VARIABLE not in os.environ:
                raise OSError(28, "No space left on device")
            return f"{name} of {self.code}"

    cupy: Any = ModuleType("cupy")
    cupy.RawModule, cupy.cuda = RawModule, SimpleNamespace()
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    monkeypatch.delitem(sys.modules, "poisson.backends.gpu.cupy", raising=False)
    module = importlib.import_module("poisson.backends.gpu.cupy")
    try:
        assert module._compiled("text", (), "sweep") == module._compiled("text", (), "sweep") == "sweep of text"
    finally:
        del sys.modules["poisson.backends.gpu.cupy"]
    folder = tmp_path / "home" / ".cupy" / "kernel_cache"
    assert warnings_of(caplog) == [
        f"CuPy cannot write compiled kernels to {folder} (No space left on device), so that every process compiles "
        "them again: set CUPY_CACHE_DIR to a folder that can be written"
    ]
