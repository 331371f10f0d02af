# SPDX-License-Identifier: MIT
"""Result files: what they hold, and that a failure never leaves half of one.

Covers poisson.errors and poisson.output.sink.
"""

import errno
import math
import os
import pickle
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import h5py
import numpy as np
import pytest
from support.results import make_solution

from poisson.errors import FileChoice, OutputError
from poisson.output import description, files, hdf5, result, xdmf
from poisson.output.convergence import log_slope
from poisson.problem.problem import EQUATION
from poisson.solvers.status import Status


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """An older result, with nothing beside it."""
    path = tmp_path / "old.h5"
    path.write_bytes(b"the old file")
    return path


def only_old(path: Path) -> bool:
    return path.read_bytes() == b"the old file" and os.listdir(path.parent) == [path.name]


@pytest.mark.parametrize("dimension", [2, 3])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_round_trip(tmp_path: Path, dimension: int, dtype: str) -> None:
    solution = make_solution(dimension, dtype)
    path = tmp_path / "result.h5"
    hdf5.write(path, solution)
    with h5py.File(path) as file:
        assert file["u"].dtype == dtype
        assert file["u"].chunks == solution.u.shape and file["u"].compression is None
        assert all(file[name].fletcher32 for name in ("u", "f", "error", "x", "convergence/residual"))
        assert "component" not in file
        np.testing.assert_array_equal(file["u"], solution.u)
        np.testing.assert_array_equal(file["f"], solution.fields["f"])
        np.testing.assert_array_equal(file["error"], solution.fields["error"])
        for axis, name in enumerate("xyz"[:dimension]):
            np.testing.assert_array_equal(file[name], solution.problem.lattice.coordinates(axis))
            assert file["u"].dims[dimension - 1 - axis][0] == file[name]
        np.testing.assert_array_equal(file["convergence/iteration"], [0, 10, 20, 30, 40])
        assert file["convergence/iteration"].dtype == np.int64
        np.testing.assert_array_equal(file["convergence/residual"], [1.0, 0.5**10, 0.5**20, 0.5**30, 0.5**40])
        assert file["convergence"].attrs["norm"] == "rms"
        assert file["convergence"].attrs["target"] == 1e-8
        assert dict(file.attrs) == {
            "title": "A test",
            "equation": f"{EQUATION}, a = 1",
            "status": "converged",
            "advice": Status.CONVERGED.advice,
            "converged": 1,
            "format": "poisson result 2",
            "text_checksum": hdf5.text_checksum(file),
        }
        assert dict(file["provenance"].attrs) == {
            "backend": "numpy",
            "precision": dtype,
            "threads": 2,
            "device_memory_gb": 1.5,
            "seconds_set_up": 0.5,
            "seconds_solve": 2.0,
            "case": 'title = "A test"\n',
            "equation": f"{EQUATION}, a = 1",
            "status": "converged",
            "advice": Status.CONVERGED.advice,
            "iterations": 40,
            "norm": "rms",
            "residual": 1.25e-9,
            "target": 1e-8,
            "error_rms": 0.25,
            "error_max": 0.5,
        }


@pytest.mark.parametrize("dimension", [2, 3])
def test_opens_in_xarray(tmp_path: Path, dimension: int) -> None:
    xarray = pytest.importorskip("xarray")
    solution = make_solution(dimension, "float32")
    path = tmp_path / "result.h5"
    hdf5.write(path, solution)
    with xarray.open_dataset(path, engine="h5netcdf") as data:
        assert data["u"].dims == ("z", "y", "x")[-dimension:]
        assert set(data.coords) == set("xyz"[:dimension])
        assert set(data.data_vars) == {"u", "f", "error"}
        assert data["u"].dtype == np.float32
        assert data["u"].attrs == {"long_name": "solution u", "units": "U"}
        np.testing.assert_array_equal(data["y"], [-1.0, -0.5, 0.0, 0.5])
        assert float(data["u"].sel(x=0.5, y=-0.5).values.flat[0]) == 7.0
        assert data.attrs["status"] == "converged"
    with xarray.open_dataset(path, engine="h5netcdf", group="convergence") as data:
        assert float(data["residual"].sel(iteration=10)) == 0.5**10


@pytest.mark.parametrize("status", [status for status in Status if not status.success])
def test_a_result_that_has_not_converged_says_so_at_the_root(tmp_path: Path, status: Status) -> None:
    path = tmp_path / "result.h5"
    hdf5.write(path, make_solution(status=status))
    with h5py.File(path) as file:
        assert file.attrs["converged"] == 0
        assert file.attrs["status"] == status.value
        assert file.attrs["warning"] == f"not converged: {status.advice}"


def test_text_that_hdf5_cannot_hold(tmp_path: Path) -> None:
    solution = make_solution(provenance={"host": "a\udc80b"}, case_text="# long\n" * 20_000, history=(), error=None)
    solution = replace(solution, problem=replace(solution.problem, title="zero\0 and é"))
    path = tmp_path / "result.h5"
    hdf5.write(path, solution)
    with h5py.File(path) as file:
        assert file.attrs["title"] == "zero\ufffd and é"
        assert file["provenance"].attrs["host"] == "a?b"
        assert file["provenance"].attrs["case"] == "# long\n" * 20_000
        assert "error_rms" not in file["provenance"].attrs
        assert file["convergence/residual"].shape == (0,)


def test_an_array_that_is_not_contiguous(tmp_path: Path) -> None:
    padded = np.arange(4 * 8, dtype="float64").reshape(4, 8)
    path = tmp_path / "result.h5"
    hdf5.write(path, make_solution(2, u=padded[:, :5], fields={}))
    with h5py.File(path) as file:
        np.testing.assert_array_equal(file["u"], padded[:, :5])


def test_replaces_the_old_file_and_leaves_nothing_beside_it(old: Path) -> None:
    hdf5.write(old, make_solution(), overwrite=True)
    assert os.listdir(old.parent) == ["old.h5"]
    assert h5py.is_hdf5(old)
    umask = os.umask(0o022)
    os.umask(umask)
    assert old.stat().st_mode & 0o777 == 0o666 & ~umask


def test_a_symbolic_link_stays_and_its_file_is_replaced(tmp_path: Path, old: Path) -> None:
    link = tmp_path / "latest.h5"
    link.symlink_to(old)
    hdf5.write(link, make_solution(), overwrite=True)
    assert link.is_symlink()
    assert h5py.is_hdf5(old)


DISK_FULL = "the disk is full; free some space or choose another place"
NO_PERMISSION = "no permission to write there; change the permissions or choose another place"
FAILURES = [
    (OSError(errno.ENOSPC, "No space left on device"), DISK_FULL),
    (OSError("Can't write data (file write failed: errno = 28, error message = 'No space left on device')"), DISK_FULL),
    (OSError("Unable to flush (No space left on device)"), DISK_FULL),
    (RuntimeError("Can't decrement id ref count (unable to extend file properly, errno = 28)"), DISK_FULL),
    (OSError(errno.EDQUOT, "x"), "the disk quota is used up; free some space or choose another place"),
    (PermissionError(errno.EACCES, "x"), NO_PERMISSION),
    (OSError(errno.EROFS, "x"), "the file system is read-only; choose another place"),
    (OSError(errno.EIO, "x"), f"{os.strerror(errno.EIO)}; choose another place"),
    (OSError("Can't do\nthis"), "Can't do this; choose another place"),
]


DEFECTS = (KeyboardInterrupt(), MemoryError(), RuntimeError("a defect"), ValueError("a defect"))
"""Errors that have other causes than the disk, and are raised as they are."""


@pytest.mark.parametrize(("failure", "message"), [*FAILURES, *((defect, None) for defect in DEFECTS)])
def test_a_failed_write_leaves_the_old_file(
    old: Path, monkeypatch: pytest.MonkeyPatch, failure: BaseException, message: str | None
) -> None:
    def fail(*arguments: object) -> None:
        raise failure

    monkeypatch.setattr(hdf5, "_write_provenance", fail)
    with pytest.raises(OutputError if message else type(failure)) as caught:
        hdf5.write(old, make_solution(), overwrite=True)
    assert str(caught.value) == f"{old}: {message}" if message else caught.value is failure
    assert only_old(old)


def run_python(script: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    """Run a script that has `make_solution`, what it is made of, and a `path`."""
    head = (
        f"import os, sys; sys.path.insert(0, {str(Path(__file__).parents[1])!r})\n"
        "from poisson.errors import OutputError; from poisson.output import hdf5; from support.results import *\n"
        "path = sys.argv[1]\n"
    )
    command = [sys.executable, "-c", head + script, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)


def test_a_crash_in_the_middle_leaves_the_old_file(old: Path) -> None:
    done = run_python(
        "hdf5._write_provenance = lambda *arguments: (arguments[0].file.flush(), os.kill(os.getpid(), 9))\n"
        "hdf5.write(path, make_solution(), overwrite=True)\n",
        old,
    )
    assert done.returncode == -9, done.stderr
    assert old.read_bytes() == b"the old file"


LIMITED = """
import resource
resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))
grid = Lattice.box((0.0, 0.0), (1.0, 1.0), (NODES, 100))
problem = Problem(grid, (WALL,) * 4, Expression.constant(1.0))
solution = make_solution(2, problem=problem, u=np.ones(grid.array_shape), fields={}, case_text="x" * TEXT)
"""


@pytest.mark.parametrize(("nodes", "text"), [(1000, 10), (100, 150_000), (240, 5_000)])
def test_a_disk_that_really_refuses(old: Path, nodes: int, text: int) -> None:
    """The limit is met in the data, in the text of the case, and when the file is closed."""
    script = LIMITED.replace("NODES", str(nodes)).replace("TEXT", str(text))
    done = run_python(
        script
        + "try:\n    hdf5.write(path, solution, overwrite=True)\nexcept OutputError as error:\n    print(error)\n",
        old,
    )
    assert done.stdout == (
        f"{old}: the file is larger than the file system or the shell's limit (ulimit -f) allows; "
        "raise the limit or choose another place\n"
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert only_old(old)


def test_a_result_that_cannot_be_written_is_saved_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(result.tempfile, "tempdir", str(tmp_path))
    solution = make_solution()
    wanted = tmp_path / "missing" / "result.h5"
    with pytest.raises(OutputError) as caught:
        result.save(wanted, solution)
    message, _, saved = str(caught.value).partition("; the result is saved as ")
    assert message == f"{wanted}: the folder does not exist; create it or choose another place"
    assert Path(saved).parent.parent == tmp_path
    with h5py.File(saved) as file:
        np.testing.assert_array_equal(file["u"], solution.u)


def test_a_result_that_cannot_be_saved_anywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*arguments: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(result.tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(hdf5, "_write_provenance", fail)
    with pytest.raises(OutputError) as caught:
        result.save(tmp_path / "result.h5", make_solution())
    assert str(caught.value).startswith(f"{tmp_path / 'result.h5'}: the disk is full; ")
    assert str(caught.value).endswith("; the result is lost")
    assert os.listdir(tmp_path) == []
    monkeypatch.setattr(result.tempfile, "tempdir", str(tmp_path / "missing"))
    with pytest.raises(OutputError, match=r"the folder does not exist.*the result is lost"):
        result.save(tmp_path / "result.h5", make_solution())


def test_an_error_names_the_choices_in_the_words_of_who_offers_them() -> None:
    inner = OutputError("a.h5: full; choose another place", FileChoice.PLACE)
    outer = OutputError(inner, "; or replace it", FileChoice.OVERWRITE)
    assert str(outer) == "a.h5: full; choose another place; or replace it by overwrite=True"
    words = {FileChoice.PLACE: " with --csv", FileChoice.OVERWRITE: " with --force"}
    assert outer.worded(words) == "a.h5: full; choose another place with --csv; or replace it with --force"
    assert str(pickle.loads(pickle.dumps(outer))) == str(outer)


def test_check_leaves_no_trace(tmp_path: Path, old: Path) -> None:
    result.check(old, 1000, overwrite=True)
    result.check(tmp_path / "new.h5", 1000)
    assert only_old(old)


def test_check_names_what_is_wrong(tmp_path: Path, old: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def message(path: str | Path, needed: int = 1) -> str:
        with pytest.raises(OutputError) as caught:
            result.check(path, needed, overwrite=True)
        text = str(caught.value)
        assert text.startswith(f"{path}: ")
        return text.removeprefix(f"{path}: ")

    folder = "this is a folder; give the name of a file"
    assert message(tmp_path) == folder
    assert message("/") == folder
    assert message(tmp_path / "missing" / "a.h5") == "the folder does not exist; create it or choose another place"
    assert message(old / "a.h5") == "a part of the path is a file, not a folder; choose another place"
    assert message(tmp_path / ("a" * 300)) == "the name is too long; choose a shorter one"
    assert message(os.devnull) == "not a regular file; not overwritten; give another name"
    assert message("a\0.h5") == "embedded null byte; choose another place"
    loop = tmp_path / "loop.h5"
    loop.symlink_to(loop)
    assert message(loop) == "the symbolic links of the path form a loop; choose another place"
    monkeypatch.setattr(files.shutil, "disk_usage", lambda folder: Usage(free=2_500_000))
    needed = "the result needs 4 GB, and the disk has 2.5 MB free; free some space or choose another place"
    assert message(tmp_path / "a.h5", 4_000_000_000) == needed
    monkeypatch.setattr(files.os, "access", lambda path, mode: False)
    assert message(old) == "the file is write-protected; remove it or give another name"

    def refuse(*arguments: object) -> int:
        raise PermissionError(errno.EACCES, "x")

    monkeypatch.setattr(files.os, "open", refuse)
    assert message(tmp_path / "a.h5") == NO_PERMISSION


class Usage:
    def __init__(self, free: int) -> None:
        self.free = free


def test_write_refuses_what_check_refuses(tmp_path: Path) -> None:
    for path in (tmp_path, Path(os.devnull)):
        with pytest.raises(OutputError):
            hdf5.write(path, make_solution())
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(("count", "text"), [(999, "999 B"), (1500, "1.5 kB"), (2.25e9, "2.25 GB"), (5e15, "5e+03 TB")])
def test_size(count: float, text: str) -> None:
    assert files.size(count) == text


@pytest.mark.parametrize("dimension", [2, 3])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_xdmf_refers_to_the_result(tmp_path: Path, dimension: int, dtype: str) -> None:
    solution = make_solution(dimension, dtype)
    solution = replace(solution, problem=replace(solution.problem, title='<a> & "b" \x01'))
    path = tmp_path / "a result.h5"
    hdf5.write(path, solution)
    assert result.save(str(path), solution) == (path, tmp_path / "a result.xmf", None)
    assert sorted(os.listdir(tmp_path)) == ["a result.h5", "a result.xmf"]
    root = ElementTree.parse(tmp_path / "a result.xmf").getroot()
    assert (root.tag, root.attrib) == ("Xdmf", {"Version": "3.0"})
    grid = root.find("Domain/Grid")
    assert grid is not None
    assert grid.attrib == {"Name": '<a> & "b" \ufffd', "GridType": "Uniform"}
    # A 2D result is one plane of a 3D grid.
    shape = " ".join(map(str, solution.u.shape if dimension == 3 else (1, *solution.u.shape)))
    topology, geometry = grid.find("Topology"), grid.find("Geometry")
    assert topology is not None and geometry is not None
    assert topology.attrib == {"TopologyType": "3DCoRectMesh", "Dimensions": shape}
    assert geometry.attrib == {"GeometryType": "ORIGIN_DXDYDZ"}
    values = [[float(number) for number in (item.text or "").split()] for item in geometry.findall("DataItem")]
    assert values == ([[2.0, -1.0, 0.0], [1.5, 0.5, 0.25]] if dimension == 3 else [[0.0, -1.0, 0.0], [1.0, 0.5, 0.25]])
    attributes = grid.findall("Attribute")
    assert [attribute.get("Name") for attribute in attributes] == ["u", "f", "error"]
    for attribute in attributes:
        item = attribute.find("DataItem")
        assert item is not None and item.text is not None
        name, _, dataset = item.text.partition(":")
        assert (attribute.get("Center"), item.get("Format"), item.get("NumberType")) == ("Node", "HDF", "Float")
        with h5py.File(tmp_path / name) as file:
            assert file[dataset].shape == solution.u.shape
            assert item.get("Dimensions") == shape
            assert item.get("Precision") == str(file[dataset].dtype.itemsize)


def test_the_xdmf_file_never_has_the_name_of_the_result() -> None:
    assert xdmf.path_beside("out/a.h5") == Path("out/a.xmf")
    assert xdmf.path_beside("a.xmf") == Path("a.xmf.xmf")
    assert xdmf.path_beside("v1.2") == Path("v1.2.xmf")
    assert xdmf.path_beside("out/a.hdf5") == Path("out/a.hdf5.xmf")


def test_describe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    solution = make_solution(status=Status.STAGNATED)
    solution.u[1, 2, 3] = math.nan
    solution.u[2, 0, 0] = -7.0
    path = tmp_path / "result.h5"
    hdf5.write(path, solution)
    expected = f"""\
{path}: A test
equation          {EQUATION}, a = 1
status            stagnated: {Status.STAGNATED.advice}
grid              5 x 4 x 3 nodes
  x               [0, 1], spacing 0.25
  y               [-1, 1], spacing 0.5, periodic
  z               [2, 5], spacing 1.5
iterations        40
residual          1.250e-09 (rms), target 1.000e-08
convergence       a factor of 0.5 per iteration, 3.322 iterations per decimal digit
error             rms 2.500e-01, max 5.000e-01
backend           numpy
device memory gb  1.5
precision         float64
threads           2
time              set_up 0.5 s, solve 2 s
fields
  error           u - exact: -0.5 to -0.5 (float64)
  f               source f: 1 to 1 (float64)
  u               solution u: -7 to 59, 1 not finite (float64)"""
    assert description.describe(path) == expected
    monkeypatch.setattr(description, "_SLAB_VALUES", 20)
    assert description.describe(path) == expected


def test_describe_what_is_not_known(tmp_path: Path) -> None:
    solution = make_solution(2, history=(), error=None, times={}, provenance={}, u=np.full((4, 5), math.inf))
    solution = replace(solution, problem=replace(solution.problem, title=""))
    path = tmp_path / "result.h5"
    hdf5.write(path, solution)
    lines = description.describe(path).splitlines()
    assert lines[0] == f"{path}: untitled"
    assert "convergence  too few residual norms to tell" in lines
    assert lines[-1] == "  u          solution u: no finite value (float64)"
    assert not any(line.startswith(("error", "time")) for line in lines)


def test_describe_says_what_is_wrong(tmp_path: Path) -> None:
    def message(path: Path) -> str:
        with pytest.raises(OutputError) as caught:
            description.describe(path)
        assert "\n" not in str(caught.value)
        return str(caught.value).removeprefix(f"{path}: ")

    assert message(tmp_path / "a.h5") == "no such file; check the name"
    assert message(tmp_path) == "it is a directory; give the name of a file in it"
    text = tmp_path / "case.toml"
    text.write_text("title = 1")
    assert message(text) == "not an HDF5 file; give a result of 'poisson solve'"
    path = tmp_path / "other.h5"
    with h5py.File(path, "w") as file:
        file["u"] = np.ones(3)
    assert message(path) == "an HDF5 file, but not a result of 'poisson solve'"
    hdf5.write(path, make_solution(), overwrite=True)
    with h5py.File(path, "a") as file:
        file.attrs["format"] = "poisson result 3"
    assert message(path) == "written by a newer poisson (format 3, this one reads 2); upgrade poisson"
    hdf5.write(path, make_solution())
    with h5py.File(path, "a") as file:
        del file["convergence"]
    assert message(path).startswith("the file is damaged (")
    hdf5.write(path, make_solution())
    os.truncate(path, path.stat().st_size - 100)
    assert message(path).startswith("the file is damaged (")


def test_log_slope() -> None:
    assert log_slope([(10, 1.0), (20, math.e), (30, math.e**2)]) == pytest.approx(0.1, rel=1e-14)
    assert log_slope([(0, 1.0), (1, 0.0), (2, math.nan), (3, math.inf), (4, 16.0)]) == pytest.approx(
        math.log(2.0), rel=1e-14
    )
    assert log_slope([]) is None
    assert log_slope([(3, 1.0), (3, 2.0)]) is None
