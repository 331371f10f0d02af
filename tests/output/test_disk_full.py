# SPDX-License-Identifier: MIT
"""A disk that fills up at any point of a write: one line, nothing half-written, and no crash when the process ends."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from support.places import ROOT

# Each trial is a process of its own, to its very end: the HDF5 library tries again to write what is open when it ends.
TRIALS = """
import gc, json, os, resource, sys
from pathlib import Path
import h5py
import poisson.output.result
from poisson.cli import main

folder, elsewhere, kind = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
words = ["solve", str(elsewhere / "a.toml"), "--output", str(folder / "a.h5")]
os.environ["TMPDIR"] = str(elsewhere)
poisson.output.result.check_space = lambda path, needed: None

def trial(room):
    if kind == "limit":
        resource.setrlimit(resource.RLIMIT_FSIZE, (room, room))
    else:
        free = os.statvfs(folder).f_bavail * os.statvfs(folder).f_frsize
        (folder / "filler").write_bytes(bytes(free - room))
    sys.exit(main(words))

# All that a solve imports is imported once; git, ended by a limit on files, would leave a lock in the checkout.
with open(os.devnull, "w") as sys.stdout:
    assert main([*words, "--quiet"]) == 0
sys.stdout = sys.__stdout__
for path in folder.iterdir():
    path.unlink()
gc.freeze()  # what is there is not looked through at each end
for room in json.loads(sys.argv[4]):
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.dup2(write, 2)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        trial(room)
    os.close(write)
    with os.fdopen(read) as stream:
        messages = stream.read().splitlines()
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    left = {name: (folder / name).stat().st_size for name in os.listdir(folder) if name != "filler"}
    saved = [str(path) for path in elsewhere.glob("poisson-*/result.h5")]
    results = [name for name in [*left, *saved] if name.endswith(".h5")]
    whole = [name for name in results if h5py.File(folder / name)["u"].shape == (33, 33)]
    print(json.dumps([room, code, messages, sorted(left), saved, whole]), flush=True)
    for name in os.listdir(folder):
        (folder / name).unlink()
    for path in map(Path, saved):
        path.unlink()
"""
CASE = (
    "[equation]\nf = 1\n[domain]\nlower = [0, 0]\nupper = [1, 1]\nshape = [33, 33]\n"
    '[boundary]\nall = { dirichlet = 0 }\n[run]\nbackend = "numpy"\n'
    '[solver]\nmethod = "fft"\n[output]\nfields = ["f", "residual"]\n'
)
FULL = "the disk is full; free some space or choose another place with --output"
LIMIT = (
    "the file is larger than the file system or the shell's limit (ulimit -f) allows; raise the limit or choose "
    "another place with --output"
)


def trials(kind: str, rooms: list[int], folder: Path, elsewhere: Path, prefix: list[str]) -> list[Any]:
    (elsewhere / "a.toml").write_text(CASE)
    command = [*prefix, sys.executable, "-c", TRIALS, str(folder), str(elsewhere), kind, json.dumps(rooms)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert [room for room, *_ in found] == rooms, done.stderr
    return found


def errors(messages: list[str]) -> list[str]:
    """Without the choice of the method, which is no error."""
    return [line for line in messages if line.startswith("poisson: ") or "Traceback" in line]


def test_a_limit_on_the_size_of_files(tmp_path: Path) -> None:
    folder, elsewhere = tmp_path / "there", tmp_path / "elsewhere"
    folder.mkdir()
    elsewhere.mkdir()
    rooms = [0, 1, 2048, 10_000, 30_000, 100_000]
    codes = []
    for room, code, messages, left, saved, whole in trials("limit", rooms, folder, elsewhere, []):
        codes.append(code)
        if code == 2:
            [line] = errors(messages)
            assert line.startswith(f"poisson: error: {folder / 'a.h5'}: {LIMIT}; saving in the temporary folder ")
            assert line.endswith("; the result is lost")
            assert (left, saved) == ([], []), room
        else:
            assert (code, left, whole) == (0, ["a.h5", "a.xmf"], ["a.h5"]), messages
    assert codes == sorted(codes, reverse=True)
    assert set(codes) == {0, 2}


def test_a_disk_that_fills_up(tmp_path: Path) -> None:
    folder = tmp_path / "there"
    folder.mkdir()
    mounted = 'mount -t tmpfs -o size=256k tmpfs "$0" && exec "$@"'
    prefix = ["unshare", "-rm", "sh", "-c", mounted, str(folder)]
    try:
        can = subprocess.run([*prefix, "true"], capture_output=True, timeout=300, check=False).returncode == 0
    except FileNotFoundError:
        can = False
    if not can:
        pytest.skip("no small file system can be mounted here")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    codes = []
    rooms = [4096 * pages for pages in (0, 1, 2, 4, 6, 7, 8, 9, 10, 16, 30)]
    for room, code, messages, left, saved, whole in trials("disk", rooms, folder, elsewhere, prefix):
        codes.append(code)
        faults = errors(messages)
        if code == 0:
            # What may be missing is the second write, with the times of the operations.
            assert (left, whole) == (["a.h5", "a.xmf"], ["a.h5"]), messages
            assert not faults or faults[0].startswith("poisson: warning: the times of the operations are not in ")
            continue
        [line] = faults
        assert code == 2
        if saved:
            assert line == f"poisson: error: {folder / 'a.h5'}: {FULL}; the result is saved as {saved[0]}"
            assert (left, whole) == ([], saved), room
        else:
            assert line == f"poisson: error: {folder / 'a.xmf'}: {FULL}; the result is in {folder / 'a.h5'}"
            assert (left, whole) == (["a.h5"], ["a.h5"]), room
    assert codes == sorted(codes, reverse=True)
    assert set(codes) == {0, 2}
