# SPDX-License-Identifier: MIT
"""What may be replaced and what becomes of it, what killed runs leave, and that the two files of a result agree."""

import os
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import h5py
import numpy as np
import pytest
from support.places import ROOT
from support.results import make_solution

from poisson.cli import main
from poisson.errors import OutputError
from poisson.output import files, hdf5, result, xdmf

FOREIGN = (
    "already exists and is not a result of poisson; not overwritten; give another name with --output, or "
    "replace it with "
    "--overwrite"
)
CASE = (
    "[equation]\nf = 1\n[domain]\nlower = [0, 0]\nupper = [1, 1]\nshape = [5, 5]\n[boundary]\nall = { dirichlet = 0 }\n"
    '[run]\nbackend = "numpy"\n'
)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.toml").write_text(CASE)
    return tmp_path


def foreign_hdf5(path: Path) -> None:
    with h5py.File(path, "w") as file:
        file["u"] = np.ones(3)
        # A result that was copied into a file of others does not make it ours.
        file.create_group("copy").attrs["format"] = "poisson result 1"


@pytest.mark.parametrize("kind", ["text", "hdf5", "truncated", "case"])
def test_a_file_of_others_is_refused_before_the_solve(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    path = here / "a.h5"
    if kind == "hdf5":
        foreign_hdf5(path)
    elif kind == "truncated":
        hdf5.write(path, make_solution())
        os.truncate(path, 3000)
    else:
        path.write_text(CASE)
    before = path.read_bytes()
    case = "a.h5" if kind == "case" else "a.toml"
    with monkeypatch.context() as patch:
        patch.setattr("poisson.run.run.solve", lambda *arguments, **named: pytest.fail("solved"))
        assert main(["solve", case, "--quiet"]) == 2
    reason = "this is the case file; give another name with --output" if kind == "case" else FOREIGN
    assert capsys.readouterr() == ("", f"poisson: error: a.h5: {reason}\n")
    assert path.read_bytes() == before
    assert sorted(os.listdir(here)) == ["a.h5", "a.toml"]
    if kind == "case":
        assert main(["solve", case, "--quiet", "--overwrite"]) == 2
        assert path.read_bytes() == before
    else:
        assert main(["solve", case, "--quiet", "--overwrite"]) == 0
        assert hdf5.is_result(path)


def test_a_file_beside_it_that_is_of_others_is_refused_before_the_solve(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    beside = here / "a.xmf"
    beside.write_text('<?xml version="1.0"?><Xdmf Version="3.0"><DataItem>other.h5:/u</DataItem></Xdmf>')
    before = beside.read_bytes()
    assert main(["solve", "a.toml", "--quiet"]) == 2
    assert capsys.readouterr().err == f"poisson: error: a.xmf: {FOREIGN}\n"
    assert beside.read_bytes() == before
    assert sorted(os.listdir(here)) == ["a.toml", "a.xmf"]
    # It names the result: earlier versions left no other sign.
    beside.write_text(before.decode().replace("other", "a"))
    assert main(["solve", "a.toml", "--quiet"]) == 0
    assert main(["solve", "a.toml", "--quiet"]) == 0
    beside.unlink()
    beside.mkdir()
    assert main(["solve", "a.toml", "--quiet", "--overwrite"]) == 2
    assert capsys.readouterr().err == "poisson: error: a.xmf: this is a folder; give the name of a file with --output\n"


def test_an_empty_file_is_nobodys_and_python_has_its_own_word(here: Path) -> None:
    path = here / "a.h5"
    path.touch()
    assert make_solution().save(path) == path
    path.write_text("mine")
    with pytest.raises(OutputError) as caught:
        make_solution().save(path)
    assert str(caught.value).startswith(
        f"{path}: already exists and is not a result of poisson; not overwritten; give another name, or replace it by "
        "overwrite=True; the result is saved as "
    )
    assert path.read_text() == "mine"
    assert make_solution().save(path, overwrite=True) == path


def test_each_of_two_results_of_one_name_has_its_own_file_for_paraview(here: Path) -> None:
    for name, beside in (("a.h5", "a.xmf"), ("a.hdf5", "a.hdf5.xmf")):
        assert result.save(here / name, make_solution(2))[1] == here / beside
    assert f">{'a.hdf5'}:/u<" in (here / "a.hdf5.xmf").read_text()
    assert ">a.h5:/u<" in (here / "a.xmf").read_text()


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture
def umask() -> Iterator[None]:
    before = os.umask(0o027)
    yield
    os.umask(before)


def test_permissions_stay_and_new_files_follow_the_umask(here: Path, umask: None) -> None:
    path, beside, _ = result.save(here / "a.h5", make_solution())
    assert (mode(path), mode(beside)) == (0o640, 0o640)
    for wanted in (0o600, 0o664):
        path.chmod(wanted)
        result.save(path, make_solution(2))
        assert mode(path) == wanted


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give a file away")
def test_the_owner_stays_where_that_is_allowed(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, *_ = result.save(here / "a.h5", make_solution())
    os.chown(path, 12345, 23456)
    path.chmod(0o660)
    result.save(path, make_solution(2))
    found = path.stat()
    assert (found.st_uid, found.st_gid, mode(path)) == (12345, 23456, 0o660)

    def refuse(*arguments: object) -> None:
        raise PermissionError

    # Our own group must not get what was given to another.
    monkeypatch.setattr(files.os, "fchown", refuse)
    result.save(path, make_solution(3))
    assert (path.stat().st_gid, mode(path)) == (os.getegid(), 0o600)


KILLED = """
import os, sys; sys.path.insert(0, sys.argv[2])
from support.results import make_solution
from poisson.output import hdf5
def stop(*arguments):
    print("there", flush=True)
    sys.stdin.read()
hdf5._write_provenance = stop
hdf5.write(sys.argv[1], make_solution())
"""


def test_what_a_killed_run_leaves_is_removed_and_what_a_live_one_writes_is_not(here: Path) -> None:
    (here / "a.toml").unlink()

    def started(name: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-c", KILLED, str(here / name), str(ROOT / "tests")]
        process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None and process.stdout.readline() == "there\n"
        return process

    killed, alive = started("killed.h5"), started("alive.h5")
    assert len(os.listdir(here)) == 2
    killed.send_signal(signal.SIGKILL)
    killed.communicate(timeout=300)
    other = here / ".poisson-00000000-0123456789abcdef.tmp"  # of another host
    other.touch()
    hdf5.write(here / "b.h5", make_solution())
    left = set(os.listdir(here)) - {"b.h5", other.name}
    assert len(left) == 1
    alive.send_signal(signal.SIGKILL)
    alive.communicate(timeout=300)
    hdf5.write(here / "b.h5", make_solution())
    assert set(os.listdir(here)) == {"b.h5", other.name}


def test_a_run_killed_between_the_two_renames_leaves_no_wrong_file_for_paraview(here: Path) -> None:
    (here / "a.toml").unlink()
    path, beside, _ = result.save(here / "a.h5", make_solution(2))
    # The same grid: the file beside it stays as it is, and there is no moment without it.
    written = beside.stat().st_ino
    result.save(path, replace(make_solution(2), iterations=7))
    assert beside.stat().st_ino == written
    script = """
import os, sys; sys.path.insert(0, sys.argv[2])
from support.results import make_solution
from poisson.output import files, result
whole, calls = os.replace, []
def once(source, target):
    whole(source, target)
    os.kill(os.getpid(), 9)
files.os.replace = once
result.save(sys.argv[1], make_solution(3))
"""
    command = [sys.executable, "-c", script, str(path), str(ROOT / "tests")]
    assert subprocess.run(command, cwd=ROOT, timeout=300, check=False).returncode == -9
    with h5py.File(path) as file:
        assert file["u"].ndim == 3
    assert not beside.exists()
    result.save(path, make_solution(3))
    assert sorted(os.listdir(here)) == ["a.h5", "a.xmf"]
    assert beside.read_bytes() == xdmf.content(path, make_solution(3))


def test_a_result_is_there_even_if_the_file_beside_it_cannot_be(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (here / "a.toml").unlink()
    path, beside, _ = result.save(here / "a.h5", make_solution(2))

    def full(*arguments: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(OutputError) as caught:
        result.save(path, make_solution(3))
    monkeypatch.undo()
    assert str(caught.value) == (
        f"{beside}: the disk is full; free some space or choose another place; the result is in {path}"
    )
    with h5py.File(path) as file:
        assert file["u"].ndim == 3
    assert os.listdir(here) == ["a.h5"]


@pytest.mark.parametrize(
    ("shape", "itemsize", "chunk"),
    [
        ((5,), 8, (5,)),
        ((129, 129), 8, (129, 129)),
        ((4097, 4097), 8, (31, 4097)),
        ((1025, 1025, 1025), 4, (1, 205, 1025)),
        ((129, 129, 129, 3), 8, (2, 129, 129, 3)),
        ((10**7,), 8, (129871,)),
    ],
)
def test_chunks_are_whole_rows_of_about_a_mebibyte(
    shape: tuple[int, ...], itemsize: int, chunk: tuple[int, ...]
) -> None:
    assert hdf5.chunk_shape(shape, itemsize) == chunk
