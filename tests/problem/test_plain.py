# SPDX-License-Identifier: MIT
"""Input files that are not plain: refused at once, in one line that names what they are; nothing of them is read."""

import os
import resource
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import h5py
import numpy as np
import pytest
from support.places import ROOT
from support.refusals import mistake_of

from poisson.problem.fields import FieldFile

VALUES = np.arange(20.0).reshape(4, 5)
COPY = 'copy the values into a plain data set, in h5py as new["f"] = old["f"][...]'


def refusal(field: FieldFile, shape: tuple[int, ...] = (4, 5)) -> str:
    return mistake_of(field.check, shape)


def make_pipe(path: Path) -> None:
    os.mkfifo(path)


def make_socket(path: Path) -> None:
    here = os.getcwd()
    os.chdir(path.parent)  # the path of a socket is short
    try:
        socket.socket(socket.AF_UNIX).bind(path.name)
    finally:
        os.chdir(here)


def make_device(path: Path) -> None:
    path.symlink_to("/dev/zero")


@pytest.mark.parametrize(("make", "kind"), [(make_pipe, "pipe"), (make_socket, "socket"), (make_device, "device")])
@pytest.mark.parametrize("suffix", [".npy", ".h5"])
@pytest.mark.parametrize("linked", [False, True])
def test_what_is_no_file(tmp_path: Path, make: Callable[[Path], None], kind: str, suffix: str, linked: bool) -> None:
    path = tmp_path / f"f{suffix}"
    make(path)
    if linked:
        link = tmp_path / f"link{suffix}"
        link.symlink_to(path)
        path = link
    field = FieldFile(path, None if suffix == ".npy" else "f")
    assert refusal(field) == f"'{path}' is a {kind}, not a file; copy the data into one"


def virtual(path: Path, source: str, name: str = "f") -> None:
    layout = h5py.VirtualLayout((4, 5), "f8")
    layout[...] = h5py.VirtualSource(source, name, (4, 5))
    with h5py.File(path, "w") as file:
        file.create_virtual_dataset("f", layout)


def test_values_in_other_files_are_not_read(tmp_path: Path) -> None:
    """A pipe behind each reference would wait for ever; values that are there are refused alike."""
    pipe, good = tmp_path / "pipe", tmp_path / "good.h5"
    os.mkfifo(pipe)
    with h5py.File(good, "w") as file:
        file["f"] = VALUES
    path = tmp_path / "f.h5"
    field = FieldFile(path, "f")
    whole = f"'f' in '{path}'"
    for source in (str(pipe), str(good), "missing.h5", "."):
        virtual(path, source)
        assert refusal(field) == f"{whole} is a virtual data set, whose values are in other files; {COPY}"
    for target in (pipe, good):
        with h5py.File(path, "w") as file:
            file["f"] = h5py.ExternalLink(str(target), "/f")
            file["group"] = h5py.ExternalLink(str(target), "/")
            file["soft"] = h5py.SoftLink("/f")
        link = f"is a link to another file, '{target}'; name that file"
        assert refusal(field) == f"{whole} {link}"
        assert refusal(FieldFile(path, "group/f")) == f"'group/f' in '{path}' {link}"
        assert refusal(FieldFile(path, "soft")) == f"'soft' in '{path}' {link}"
        assert refusal(FieldFile(path, "g")) == f"no dataset 'g' in '{path}'"
    for storage in (pipe, "/etc/passwd"):
        with h5py.File(path, "w") as file:
            file.create_dataset("f", shape=(4, 5), dtype="f8", external=[(str(storage), 0, 160)])
        assert refusal(field) == f"{whole} has its values in another file, as external storage; {COPY}"


def test_symbolic_links_within_a_file_are_followed(tmp_path: Path) -> None:
    path = tmp_path / "f.h5"
    with h5py.File(path, "w") as file:
        file["group/f"] = VALUES
        file["group/same"] = h5py.SoftLink("f")
        file["latest"] = h5py.SoftLink("/group/same")
        file["folder"] = h5py.SoftLink("group")
        file["circle"] = h5py.SoftLink("/circle")
        file["nowhere"] = h5py.SoftLink("/no/such")
    for name in ("group/f", "/group/./same", "latest", "folder/same"):
        field = FieldFile(path, name)
        field.check((4, 5))
        np.testing.assert_array_equal(field.read(1, 3), VALUES[1:3])
    assert refusal(FieldFile(path, "circle")) == f"'circle' in '{path}' is a loop of links"
    assert refusal(FieldFile(path, "nowhere")).startswith(f"no dataset 'nowhere' in '{path}'")
    assert refusal(FieldFile(path, "group/f/x")).startswith(f"no dataset 'group/f/x' in '{path}'")


def test_chunks_that_memory_would_have_to_hold(tmp_path: Path) -> None:
    path = tmp_path / "f.h5"
    field = FieldFile(path, "f")
    for shape, chunks, size in (((4, 5), (20000, 20000), "3052"), ((8192, 8192), (8192, 8192), "512")):
        with h5py.File(path, "w") as file:
            file.create_dataset("f", shape, "f8", chunks=chunks, maxshape=(None, None), compression="gzip")
        assert refusal(field, shape) == (
            f"'f' in '{path}' is stored in chunks of {size} MiB, and a chunk is read as a whole; write the data "
            "set with smaller chunks"
        )
    with h5py.File(path, "w") as file:
        file.create_dataset("f", data=VALUES, chunks=(1000, 1000), maxshape=(None, None), compression="gzip")
    field.check((4, 5))
    np.testing.assert_array_equal(field.read(0, 4), VALUES)


def test_a_filter_that_is_not_installed_is_named(tmp_path: Path) -> None:
    path = tmp_path / "f.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("f", data=VALUES, chunks=(4, 5), compression="gzip")
    content = path.read_bytes()
    # Message of the filter pipeline, version 1: filter 1 becomes one that nobody has.
    found = content.index(b"deflate")
    start = content.rindex(b"\x01\x00\x08\x00\x01\x00\x01\x00", 0, found)
    path.write_bytes(content[:start] + b"\xf0\x7f" + content[start + 2 :])
    assert refusal(FieldFile(path, "f")) == (
        f"'f' in '{path}' needs the HDF5 filter 32752 (deflate), which is not installed; write it with gzip or none"
    )


def test_a_header_that_memory_would_have_to_hold(tmp_path: Path) -> None:
    path = tmp_path / "f.npy"
    path.write_bytes(b"\x93NUMPY\x02\x00" + (2**31).to_bytes(4, "little") + b"{")
    os.truncate(path, 2**31 + 12)
    assert refusal(FieldFile(path)) == (
        f"'{path}' cannot be read as a .npy file: its header has 2147483648 bytes, more than 65536"
    )


def test_a_file_that_another_program_writes_is_locked_and_not_damaged(tmp_path: Path) -> None:
    path = tmp_path / "f.h5"
    with h5py.File(path, "w", locking=True) as file:
        file["f"] = VALUES
        file.flush()
        script = (
            "import sys; from pathlib import Path; from poisson.problem.fields import FieldFile\n"
            "FieldFile(Path(sys.argv[1]), 'f').check((4, 5))"
        )
        done = subprocess.run(
            [sys.executable, "-c", script, path], cwd=ROOT, capture_output=True, text=True, timeout=300, check=False
        )
    assert done.stderr.splitlines()[-1].endswith(f"'{path}' is locked by another program; close the file there")


def test_a_case_with_such_a_file_ends_in_one_line(tmp_path: Path) -> None:
    """One that refers to itself would end the process; there is little memory, and nothing hangs."""
    (tmp_path / "a.toml").write_text(
        '[equation]\nf = { file = "f.h5", dataset = "f" }\n[domain]\nlower = [0, 0]\nupper = [1, 1]\nshape = [5, 4]\n'
        "[boundary]\nall = { dirichlet = 0 }\n"
    )
    virtual(tmp_path / "f.h5", "f.h5")
    done = subprocess.run(
        [sys.executable, "-m", "poisson", "solve", "a.toml"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CORE, (0, 0)),
    )
    assert (done.returncode, done.stdout, done.stderr) == (
        2,
        "",
        f"poisson: error: equation.f: 'f' in 'f.h5' is a virtual data set, whose values are in other files; {COPY}\n",
    )
    assert sorted(os.listdir(tmp_path)) == ["a.toml", "f.h5"]
