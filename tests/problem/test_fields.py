# SPDX-License-Identifier: MIT
"""Fields in files: what is accepted, what is refused with which line, and that rows are read alone."""

from pathlib import Path

import h5py
import numpy as np
import pytest
from support.refusals import mistake_of

from poisson.errors import CaseError
from poisson.problem.fields import FieldFile

VALUES = np.random.default_rng(3).normal(size=(4, 5, 6))


def message(field: FieldFile, shape: tuple[int, ...] = (4, 5, 6)) -> str:
    return mistake_of(field.check, shape)


@pytest.fixture
def store(tmp_path: Path) -> Path:
    path = tmp_path / "fields.h5"
    with h5py.File(path, "w") as file:
        file["source"] = VALUES
        file["inner/initial"] = VALUES
        file["complex"] = VALUES + 1j
        file["text"] = "hello"
        file["flags"] = VALUES > 0
        file["empty"] = h5py.Empty("f8")
    return path


@pytest.mark.parametrize("dtype", ["<f8", ">f8", "f4", "f2", "i4", "u1", "<i8"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_npy(tmp_path: Path, dtype: str, order: str) -> None:
    values = np.array((VALUES * 10).astype(dtype), order=order)
    path = tmp_path / "f.npy"
    np.save(path, values)
    field = FieldFile(path)
    field.check((4, 5, 6))
    rows = field.read(1, 3)
    assert rows.dtype == np.float64
    assert rows.flags.c_contiguous
    assert type(rows) is np.ndarray
    np.testing.assert_array_equal(rows, values[1:3].astype(np.float64))


@pytest.mark.parametrize("name", ["source", "/source", "inner/initial"])
def test_hdf5(store: Path, name: str) -> None:
    field = FieldFile(store, name)
    field.check((4, 5, 6))
    np.testing.assert_array_equal(field.read(0, 4), VALUES)
    np.testing.assert_array_equal(field.read(2, 3), VALUES[2:3])


def test_only_the_rows_asked_for_are_read(tmp_path: Path) -> None:
    """A sparse file of 8 TiB passes the check and gives its last row."""
    path = tmp_path / "large.h5"
    with h5py.File(path, "w") as file:
        large = file.create_dataset("f", shape=(2**20, 2**20), dtype="f8", chunks=(1, 2**10))
        large[2**20 - 1, 5] = 7.0
    field = FieldFile(path, "f")
    field.check((2**20, 2**20))
    row = field.read(2**20 - 1, 2**20)
    assert row.shape == (1, 2**20)
    assert (row[0, 5], row.sum()) == (7.0, 7.0)


def test_missing_file(tmp_path: Path) -> None:
    for name, dataset in (("no.npy", None), ("no.h5", "f")):
        path = tmp_path / name
        assert message(FieldFile(path, dataset)) == f"no such file: '{path}'"


def test_directory(tmp_path: Path) -> None:
    path = tmp_path / "folder.npy"
    path.mkdir()
    assert message(FieldFile(path)) == f"'{path}' is a directory"


def test_unknown_suffix(tmp_path: Path) -> None:
    path = tmp_path / "f.csv"
    assert message(FieldFile(path)) == f"'{path}' must end in .npy, .h5, .hdf5, .png, .tif or .tiff"


def test_dataset_given_or_not(tmp_path: Path, store: Path) -> None:
    path = tmp_path / "f.npy"
    assert message(FieldFile(path, "f")) == f"'{path}' is a .npy file, which has no datasets; leave 'dataset' out"
    assert message(FieldFile(store)) == f"'{store}' is an HDF5 file; name the dataset, such as dataset = \"f\""


def test_missing_dataset(store: Path) -> None:
    wrong = "no dataset"
    assert message(FieldFile(store, "sourc")) == f"{wrong} 'sourc' in '{store}'; did you mean 'source'?"
    assert message(FieldFile(store, "initial")) == f"{wrong} 'initial' in '{store}'; did you mean 'inner/initial'?"
    assert message(FieldFile(store, "q")) == f"{wrong} 'q' in '{store}'"
    assert message(FieldFile(store, "inner")) == f"'inner' in '{store}' is a group; name a dataset in it"


def test_wrong_shape(tmp_path: Path, store: Path) -> None:
    field = FieldFile(store, "source")
    assert message(field, (6, 5, 4)) == (
        f"'source' in '{store}' has the shape (4, 5, 6); the grid needs (6, 5, 4), because arrays are (nz, ny, nx)"
    )
    path = tmp_path / "f.npy"
    np.save(path, VALUES[0])
    assert message(FieldFile(path), (6, 5)) == (
        f"'{path}' has the shape (5, 6); the grid needs (6, 5), because arrays are (ny, nx)"
    )
    assert message(FieldFile(store, "empty")).startswith(f"'empty' in '{store}' has the shape None;")


def test_wrong_type(tmp_path: Path, store: Path) -> None:
    needed = "real numbers are needed"
    assert message(FieldFile(store, "complex")) == f"'complex' in '{store}' has values of type complex128; {needed}"
    assert message(FieldFile(store, "flags")) == f"'flags' in '{store}' has values of type bool; {needed}"
    assert message(FieldFile(store, "text"), ()) == f"'text' in '{store}' has values of type object; {needed}"
    path = tmp_path / "c.npy"
    np.save(path, VALUES.astype(np.complex64))
    assert message(FieldFile(path)) == f"'{path}' has values of type complex64; {needed}"


def test_pickled_objects_are_not_loaded(tmp_path: Path) -> None:
    path = tmp_path / "f.npy"
    np.save(path, np.array([{"a": 1}, None], dtype=object), allow_pickle=True)
    assert message(FieldFile(path)).startswith(f"'{path}' cannot be read as a .npy file: ")


@pytest.mark.parametrize(
    "content", [b"", b"x", b"\x93NUMPY", b"\x93NUMPY\x01\x00\x10\x00{'descr': }", b"PK\x03\x04zip"]
)
def test_corrupt_files(tmp_path: Path, content: bytes) -> None:
    for name, dataset, kind in (("f.npy", None, "a .npy"), ("f.h5", "f", "an HDF5")):
        path = tmp_path / name
        path.write_bytes(content)
        assert message(FieldFile(path, dataset)).startswith(f"'{path}' cannot be read as {kind} file: ")


def test_truncated_files(tmp_path: Path, store: Path) -> None:
    path = tmp_path / "f.npy"
    np.save(path, VALUES)
    path.write_bytes(path.read_bytes()[:-8])
    assert message(FieldFile(path)).startswith(f"'{path}' cannot be read as a .npy file: ")
    store.write_bytes(store.read_bytes()[:-100])
    assert message(FieldFile(store, "source")).startswith(f"'{store}' cannot be read as an HDF5 file: ")


def test_a_damaged_header_is_always_one_line(tmp_path: Path) -> None:
    """Whatever one byte of the header is changed to, the check passes or raises a CaseError."""
    path = tmp_path / "f.npy"
    np.save(path, VALUES)
    good = path.read_bytes()
    rng = np.random.default_rng(5)
    refused = []
    for position in range(128):
        content = bytearray(good)
        content[position] = rng.integers(256)
        path.write_bytes(content)
        try:
            FieldFile(path).check((4, 5, 6))
        except CaseError as error:
            refused.append(str(error))
    assert len(refused) > 40
    assert all(len(line.splitlines()) == 1 for line in refused)


def test_a_chunk_that_cannot_be_read(tmp_path: Path) -> None:
    path = tmp_path / "f.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("f", data=VALUES, chunks=(4, 5, 6), compression="gzip")
        offset = file["f"].id.get_chunk_info(0).byte_offset
    content = bytearray(path.read_bytes())
    content[offset : offset + 8] = bytes(8)
    path.write_bytes(content)
    field = FieldFile(path, "f")
    field.check((4, 5, 6))
    with pytest.raises(CaseError, match="cannot be read as an HDF5 file: "):
        field.read(0, 1)
