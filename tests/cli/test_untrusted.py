# SPDX-License-Identifier: MIT
"""What a case, an HDF5 file and a NPY file from anyone can make a solve do: compute, and write what was asked for.

Python reports what it opens, runs, loads and starts to a hook; the HDF5 library opens files by itself, and what it may
be led to is in tests/problem/test_plain.py.
"""

import json
import os
import pickle
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from support.places import ROOT

# A first solve loads all modules and asks for the machine; what the second one does is for its case.
PROGRAM = """
import json, os, sys
from poisson.cli import main

def solve(name, *more):
    return main(["solve", f"{name}/case.toml", "--output", f"out/{name}.h5", "--quiet", *more])

noted, events = False, []
def hook(event, arguments):
    if noted:
        plain = (os.fspath(each) if isinstance(each, os.PathLike) else each for each in arguments)
        events.append([event, *(each if isinstance(each, (str, int)) else repr(each) for each in plain)])

code = solve("first")
sys.addaudithook(hook)
noted = True
codes = [code, *(solve(name) for name in sys.argv[1:])]
noted = False
print(json.dumps([codes, events]))
"""
CASE = """
[equation]
f = { file = "f.npy" }
c = { file = "fields.h5", dataset = "c" }
[domain]
lower = [0, 0]
upper = [1, 1]
shape = [6, 5]
[boundary]
x_lower = { dirichlet = { file = "fields.h5", dataset = "faces/x" } }
all = { dirichlet = "x*y" }
[run]
backend = "numpy"
"""


def prepared(folder: Path) -> None:
    """A folder with a case and its fields, and with modules that would be found if anything looked for them there."""
    folder.mkdir()
    (folder / "case.toml").write_text(CASE)
    np.save(folder / "f.npy", np.ones((5, 6)))
    with h5py.File(folder / "fields.h5", "w") as file:
        file["c"] = np.ones((5, 6))
        file["faces/x"] = np.arange(5.0)
    for name in ("numpy", "h5py", "json", "poisson", "sitecustomize", "secret"):
        (folder / f"{name}.py").write_text(f"open({str(folder / 'run')!r}, 'w')")


class Payload:
    """What runs when it is unpickled."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> tuple[Any, ...]:
        return open, (str(self.marker), "w")


def run(folder: Path, *names: str) -> tuple[list[int], list[list[Any]], str]:
    """The exit codes of solves, the first one's included, and what Python reported of the others."""
    command = [sys.executable, "-P", "-c", PROGRAM, *names]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    codes, events = json.loads(done.stdout)
    return codes, events, done.stderr


def test_a_solve_reads_what_its_case_names_and_writes_its_result_and_runs_nothing(tmp_path: Path) -> None:
    prepared(tmp_path / "first")
    prepared(tmp_path / "second")
    (tmp_path / "out").mkdir()
    for path in (tmp_path / "second").glob("*.py"):
        (tmp_path / path.name).write_text(path.read_text())
    before = set(tmp_path.rglob("*"))
    codes, events, said = run(tmp_path, "second")
    assert codes == [0, 0], said

    out, read, written = str(tmp_path / "out"), set(), set()
    for _, path, _, flags in (each for each in events if each[0] == "open"):
        if isinstance(path, str) and not path.startswith(("/proc/", "/sys/")):
            (written if flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT) else read).add(path)
    # The folder is opened to sync it, and what stands at the output's names to see whether it may be replaced, and its
    # lock to see who holds it.
    assert {"second/case.toml", "second/f.npy"} <= read
    beside = {path for path in read if re.fullmatch(rf"{re.escape(out)}/\.poisson-[0-9a-f]{{16}}\.lock", path)}
    assert read - beside <= {"second/case.toml", "second/f.npy", out, f"{out}/second.xmf", f"{out}/second.h5"}
    assert written and all(path.startswith(f"{out}/.poisson-") for path in written)
    assert set(tmp_path.rglob("*")) - before == {
        tmp_path / "out" / name for name in ("first.h5", "first.xmf", "second.h5", "second.xmf")
    }

    happened = {each[0] for each in events}
    assert "open" in happened
    forbidden = ("exec", "pickle", "marshal", "socket", "os.system", "os.exec", "os.fork", "os.spawn", "ctypes.dlopen")
    forbidden += ("subprocess", "os.posix_spawn", "os.chmod", "os.putenv", "shutil", "urllib", "http", "webbrowser")
    assert [each for each in events if each[0].startswith(forbidden)] == []
    # The header of a .npy file is read as a literal, which compiles it and runs nothing.
    assert [each for each in events if each[0] == "compile" and "exec" in str(each[1:])] == []
    loaded = {str(each[1]).partition(".")[0] for each in events if each[0] == "import"}
    assert loaded <= {"poisson", "h5py", "numpy", *sys.stdlib_module_names}


def test_texts_pickles_and_names_that_would_run_something_are_refused(tmp_path: Path) -> None:
    prepared(tmp_path / "first")
    (tmp_path / "out").mkdir()
    marker = tmp_path / "run"
    texts = [
        "__import__('os').system('touch run')",
        "x.__class__",
        "open('run', 'w')",
        "(lambda: 1)()",
        "[x for x in 'ab']",
        "secret",
    ]
    for number, text in enumerate(texts):
        folder = tmp_path / f"text{number}"
        prepared(folder)
        (folder / "case.toml").write_text(CASE.replace('"x*y"', json.dumps(text)))
    prepared(tmp_path / "pickle")
    np.save(tmp_path / "pickle" / "f.npy", np.array([[Payload(marker)] * 6] * 5, dtype=object), allow_pickle=True)
    prepared(tmp_path / "bare")
    (tmp_path / "bare" / "f.npy").write_bytes(pickle.dumps(Payload(marker)))
    prepared(tmp_path / "names")
    (tmp_path / "names" / "case.toml").write_text(CASE.replace("f.npy", "secret.py"))
    names = sorted(path.name for path in tmp_path.iterdir() if path.name not in ("first", "out"))
    codes, events, said = run(tmp_path, *names)
    assert codes == [0] + [2] * len(names), said
    assert len([line for line in said.splitlines() if line.startswith("poisson: error: ")]) >= len(names)
    assert not marker.exists() and not list(tmp_path.glob("*/run"))
    assert sorted(os.listdir(tmp_path / "out")) == ["first.h5", "first.xmf"]
    assert [each for each in events if each[0].startswith(("exec", "pickle", "os.system", "subprocess"))] == []
