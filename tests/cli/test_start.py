# SPDX-License-Identifier: MIT
"""``python -m poisson`` in a folder with modules of the names that the package imports.

Covers poisson.__main__.
"""

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.places import ROOT

import poisson

NAMES = (
    *("h5py", "numpy", "fire", "rich", "tomli_w", "cupy", "scipy", "secrets", "typing", "logging", "json", "tomllib"),
    *(
        "dataclasses",
        "inspect",
        "difflib",
        "subprocess",
        "tempfile",
        "ctypes",
        "random",
        "string",
        "signal",
        "platform",
        "threading",
        "datetime",
        "array",
    ),
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a case, and modules that say that they have been run."""
    for name in NAMES:
        (tmp_path / f"{name}.py").write_text(f"open('ran', 'a').write('{name} ')\n")
    (tmp_path / "case.toml").write_bytes((ROOT / "cases" / "unit_square.toml").read_bytes())
    return tmp_path


@pytest.mark.parametrize(("start", "checkout"), [(["-m"], False), (["-m"], True), (["-P", "-m"], False)])
def test_modules_of_the_current_folder_are_not_run(folder: Path, start: list[str], checkout: bool) -> None:
    """Neither where the package is installed, nor where it is imported from that folder."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    if checkout:
        (folder / "poisson").symlink_to(ROOT / "poisson", target_is_directory=True)
    else:
        environment["PYTHONPATH"] = str(ROOT)
    command = ["solve", "case.toml", "--set", "domain.shape=[17, 17]", "--backend", "numpy"]
    done = subprocess.run(
        [sys.executable, *start, "poisson", *command],
        capture_output=True,
        text=True,
        timeout=300,
        cwd=folder,
        env=environment,
    )
    assert (done.returncode, (folder / "ran").exists()) == (0, False), done.stderr
    assert (folder / "unit_square.h5").exists()


def test_a_folder_that_has_been_removed(tmp_path: Path) -> None:
    code = 'cd gone && rmdir ../gone && exec "$0" -m poisson --version'
    (tmp_path / "gone").mkdir()
    command = ["/bin/sh", "-c", code, sys.executable]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, cwd=tmp_path, env=environment)
    assert (done.returncode, done.stdout) == (0, f"poisson {poisson.__version__}\n"), done.stderr


def test_the_path_of_a_program_that_imports_the_package_is_not_touched(folder: Path) -> None:
    code = "import sys; before = list(sys.path); import poisson, poisson.__main__; assert sys.path == before"
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    for name in NAMES:
        (folder / f"{name}.py").unlink()
    subprocess.run([sys.executable, "-c", code], timeout=300, cwd=folder, env=environment, check=True)


def test_the_package_itself_imports_nothing() -> None:
    """It runs before `poisson.__main__` has taken the current folder out of the path."""
    body = ast.parse(Path(poisson.__file__).read_text("utf-8")).body
    imports = [item for item in body if isinstance(item, (ast.Import, ast.ImportFrom))]
    assert [getattr(item, "module", "") for item in imports] == ["__future__"]


ENDING = """
import atexit, os, sys, threading, time, types
{before}
class Torn:
    def __del__(self, write=os.write):
        write(1, b"torn down ")
def main():
    atexit.register(print, "registered", end=" ")
    threading.Thread(target=lambda: (time.sleep(0.1), print("thread", end=" "))).start()
    print("said", end=" ")
    return 3
cli = sys.modules["poisson.cli"] = types.ModuleType("poisson.cli")
cli.main, cli.torn = main, Torn()
from poisson.__main__ import command
sys.exit(command())
"""


@pytest.mark.parametrize(
    ("before", "variables", "end"),
    [
        ("", {}, ""),
        ("atexit.register(print, 'first', end=' ')", {}, "first "),
        ("", {"CUDA_INJECTION64_PATH": "tool"}, "torn down "),
        ("sys.modules['mpi4py.MPI'] = sys", {}, "torn down "),
    ],
)
def test_a_command_ends_when_all_that_waits_for_the_end_has_had_its_turn(
    before: str, variables: dict[str, str], end: str
) -> None:
    """And without more, unless a tool or MPI waits for the interpreter's own end."""
    command = [sys.executable, "-S", "-c", ENDING.format(before=before)]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=300, cwd=ROOT, env={**os.environ, **variables}
    )
    assert (done.returncode, sorted(done.stdout.split()), done.stderr) == (
        3,
        sorted(f"said thread registered {end}".split()),
        "",
    )
