# SPDX-License-Identifier: MIT
"""One file from the parts of several ranks: equal to that of one, and on a failure of any rank as it was before."""

import errno
import itertools
import math
import os
import signal
import threading
import zlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from support.ranks import ThreadCommunicator, _Shared, on_ranks
from support.results import WALL, make_solution, part_of

import poisson
from poisson.errors import CaseError, OutputError
from poisson.mesh.lattice import Lattice
from poisson.output import description, hdf5, parts, result, xdmf
from poisson.output.checksum import Contribution, joined
from poisson.output.record import Span
from poisson.problem.expressions import Expression
from poisson.problem.problem import Problem
from poisson.run.solution import Solution

BLOCKS = [
    ((9, 7), (2, 1)),
    ((9, 7), (3, 1)),
    ((7, 8, 9), (2, 1, 1)),
    ((7, 8, 9), (3, 1, 1)),
    ((7, 9, 5), (1, 2, 1)),
    ((7, 9, 5), (2, 2, 1)),
    ((7, 9, 5), (2, 1, 2)),
]
"""Nodes and blocks along the axes of an array; the last ones divide what is never divided."""


def large(shape: tuple[int, ...], dtype: str = "float64", seed: int = 3) -> Solution:
    """A result with a scalar and vectors, all of different values."""
    draw = np.random.default_rng(seed)
    dimension = len(shape)
    grid = Lattice.box((0.0,) * dimension, (1.0,) * dimension, shape[::-1])
    problem = Problem(grid, (WALL,) * (2 * dimension), Expression.constant(1.0), title="A test")
    fields = {"f": draw.random(shape), "gradient": draw.random((*shape, dimension)).astype(dtype)}
    return make_solution(problem=problem, u=draw.random(shape).astype(dtype), fields=fields)


here = threading.local()


def each_rank(size: int, function: Callable[[ThreadCommunicator], Any]) -> list[Any]:
    """What a function gives or raises on each rank; `here.rank` is that of the thread."""

    def run(communicator: ThreadCommunicator) -> Any:
        here.rank = communicator.rank
        try:
            return function(communicator)
        except BaseException as error:
            return error

    return on_ranks(size, run)


def write_parts(path: Path, solution: Solution, blocks: tuple[int, ...]) -> list[Any]:
    """The calls in which each rank writes its part of a result: their values, or the errors that they raise."""
    size = math.prod(blocks)
    return each_rank(size, lambda communicator: hdf5.write(path, part_of(solution, communicator, blocks)))


def contents(path: Path) -> dict[str, Any]:
    """All that a file holds, but how it is stored."""
    found: dict[str, Any] = {}

    def plain(value: Any) -> Any:
        return value.tolist() if isinstance(value, (np.ndarray, np.generic)) else value

    def visit(name: str, item: Any) -> None:
        references = ("DIMENSION_LIST", "REFERENCE_LIST", "crc32", "actual_range")
        found[f"{name} attributes"] = {key: plain(item.attrs[key]) for key in item.attrs if key not in references}
        if isinstance(item, h5py.Dataset):
            found[name] = (item.shape, item.dtype, item[...].tobytes() if item.dtype.kind == "f" else plain(item[...]))
            found[f"{name} scales"] = [[scale.name for scale in each.values()] for each in item.dims]

    with h5py.File(path) as file:
        found["/"] = {key: plain(value) for key, value in file.attrs.items()}
        file.visititems(visit)
    return found


# ---- the checksum
def test_the_checksum_of_runs_is_that_of_the_whole() -> None:
    draw = np.random.default_rng(1)
    data = draw.bytes(5000)
    for count in (0, 1, 5, 60):
        cuts = [0, *sorted(draw.integers(0, len(data), count).tolist()), len(data)]
        owners = [Contribution() for _ in range(3)]
        for start, stop in itertools.pairwise(cuts):
            owners[draw.integers(3)].add(start, data[start:stop])
        assert sum(owner.bytes for owner in owners) == len(data)
        assert joined((owner.value(len(data)) for owner in owners), len(data)) == zlib.crc32(data)
    assert joined([], 0) == zlib.crc32(b"")
    assert joined([Contribution().value(7)], 7) == zlib.crc32(bytes(7))


@pytest.mark.parametrize(("shape", "blocks"), BLOCKS)
@pytest.mark.parametrize("most", [1, 8, 50, 300, 1 << 20])
def test_pieces_are_the_bytes_of_a_block(
    shape: tuple[int, ...], blocks: tuple[int, ...], most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parts, "PIECE_BYTES", most)
    whole = np.random.default_rng(2).random(shape)
    rebuilt = bytearray(b"\xff" * whole.nbytes)
    ranges = [
        [(k * nodes // count, (k + 1) * nodes // count) for k in range(count)]
        for nodes, count in zip(shape, blocks, strict=True)
    ]
    for number in np.ndindex(*blocks):
        block = tuple(each[k] for each, k in zip(ranges, number, strict=True))
        values = whole[tuple(slice(*each) for each in block)]
        end = 0
        for start, index in parts.pieces(shape, block, 8):
            run = values[index].tobytes()
            assert start >= end and 0 < len(run) <= max(8, most)
            end = start + len(run)
            rebuilt[start:end] = run
    assert bytes(rebuilt) == whole.tobytes()


# ---- the file
@pytest.mark.parametrize(("shape", "blocks"), BLOCKS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_file_of_several_ranks_is_that_of_one(
    tmp_path: Path, shape: tuple[int, ...], blocks: tuple[int, ...], dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the system writes less at a time than it is given."""
    write = os.pwrite
    monkeypatch.setattr(parts, "PIECE_BYTES", 200)
    monkeypatch.setattr(os, "pwrite", lambda handle, data, place: write(handle, data[:150], place))
    solution = large(shape, dtype)
    one, several = tmp_path / "one.h5", tmp_path / "several.h5"
    result.save(one, solution)
    size = int(np.prod(blocks))
    found = each_rank(size, lambda communicator: result.save(several, part_of(solution, communicator, blocks)))
    assert found == [(several, tmp_path / "several.xmf", Span.of(solution.u))] * size
    assert contents(several) == contents(one)
    assert sorted(os.listdir(tmp_path)) == ["one.h5", "one.xmf", "several.h5", "several.xmf"]
    assert (tmp_path / "several.xmf").read_bytes() == xdmf.content(several, solution)
    text = description.describe(several)
    assert text.partition("\n")[2] == description.describe(one).partition("\n")[2]
    with h5py.File(several) as file:
        for name, values in {"u": solution.u, **solution.fields}.items():
            assert file[name].chunks is None
            assert file[name].attrs["crc32"] == zlib.crc32(values)
        assert file["x"].fletcher32 and file["convergence/residual"].fletcher32


@pytest.mark.parametrize("fails", [None, OSError(errno.ENOSPC, "No space left on device"), KeyboardInterrupt()])
def test_a_large_result_of_one_process_is_written_in_runs_by_threads(
    old: Path, monkeypatch: pytest.MonkeyPatch, fails: BaseException | None
) -> None:
    solution, small = large((20, 30, 40)), old.with_name("small.h5")
    result.save(small, solution)
    before, write, written, pieces, begun = old.read_bytes(), os.pwrite, [], [], []

    def noted(handle: int, data: Any, place: int) -> int:
        written.append(threading.get_ident())
        if written[-1] != threading.main_thread().ident:  # which writes all but the fields
            pieces.append((place, len(data)))
        if fails and len(written) == 90:
            raise fails
        return write(handle, data, place)

    # A file system that takes no advice is no reason to fail; there is no file -1.
    monkeypatch.setattr(os, "posix_fadvise", lambda _, *run: begun.append(run[:2]) or os.close(-1), raising=False)
    for name, value in {"LARGE_BYTES": 1, "PIECE_BYTES": 999, "processors": lambda: 3}.items():
        monkeypatch.setattr(parts, name, value)
    monkeypatch.setattr(os, "pwrite", noted)
    if fails is None:
        result.save(old, solution)
        assert contents(old) == contents(small) and len(set(written)) > 1 and sorted(begun) == sorted(pieces)
        with h5py.File(old) as file:
            for name, values in {"u": solution.u, **solution.fields}.items():
                assert file[name].chunks is None and file[name].attrs["crc32"] == zlib.crc32(values)
        return
    with pytest.raises(KeyboardInterrupt if isinstance(fails, KeyboardInterrupt) else OutputError) as caught:
        result.save(old, solution)
    assert FULL in str(caught.value) or not str(caught.value)
    assert old.read_bytes() == before
    assert sorted(os.listdir(old.parent)) == ["old.h5", "small.h5", "small.xmf"]


def test_a_solve_on_several_ranks_has_the_file_of_one(tmp_path: Path) -> None:
    problem = Problem.on_box((17, 12, 9), f="x*y - z", a="1 + z", exact="x + y*z", boundary=0.0, title="A test")
    asked: dict[str, Any] = {"backend": "numpy", "fields": ["f", "a", "residual", "error", "gradient", "flux", "E"]}
    one, several = tmp_path / "one.h5", tmp_path / "several.h5"
    poisson.solve(problem, "multigrid", **asked).save(one)
    found = each_rank(3, lambda comm: poisson.solve(problem, "multigrid", comm=comm, **asked).save(several))
    assert found == [several] * 3
    expected, written = contents(one), contents(several)
    of_the_run = {name for name in written if name.startswith(("provenance", "convergence"))}
    assert set(written) == set(expected)
    # That of the texts, among which are those of the run.
    assert written["/"].pop("text_checksum") != expected["/"].pop("text_checksum")
    for name in set(written) - of_the_run:
        if isinstance(written[name], tuple) and written[name][1].kind == "f":
            assert written[name][:2] == expected[name][:2]
            values = [np.frombuffer(each[2], dtype=each[1]) for each in (written[name], expected[name])]
            np.testing.assert_allclose(*values, rtol=0.0, atol=1e-11)
        else:
            assert written[name] == expected[name], name
    with h5py.File(several) as file, h5py.File(one) as other:
        assert file["provenance"].attrs["ranks"] == 3
        assert file["u"].attrs["crc32"] == zlib.crc32(file["u"][...])
        np.testing.assert_array_equal(file["convergence/iteration"], other["convergence/iteration"])


def test_xarray_opens_the_file_of_several_ranks_and_joins_their_parts(tmp_path: Path) -> None:
    xarray = pytest.importorskip("xarray")
    solution, path, blocks = large((7, 9, 5)), tmp_path / "a.h5", (2, 2, 1)
    write_parts(path, solution, blocks)
    with xarray.open_dataset(path, engine="h5netcdf") as data:
        assert data["gradient"].dims == ("z", "y", "x", "component")
        np.testing.assert_array_equal(data["u"], solution.u)
    own = each_rank(4, lambda communicator: part_of(solution, communicator, blocks).to_xarray())
    assert [part.sizes["z"] for part in own] == [3, 3, 4, 4]
    assert xarray.combine_by_coords(own).equals(solution.to_xarray())


def test_the_texts_of_a_large_file_are_at_its_ends(tmp_path: Path) -> None:
    """Where it is looked for what makes it a result, and for damage that the library does not survive."""
    many = {f"key{number}": "text" * 20 for number in range(60)}
    solution = replace(large((60, 110, 100)), case_text="# long\n" * 20_000, provenance=many)
    path = tmp_path / "a.h5"
    write_parts(path, solution, (3, 1, 1))
    content = path.read_bytes()
    most = hdf5._MOST_HEAD
    assert len(content) > 20 * most
    assert content.count(b"GCOL") == content[:most].count(b"GCOL") + content[-most:].count(b"GCOL") == 3
    assert hdf5.is_result(path)
    hdf5.write(path, make_solution(2))


@pytest.mark.parametrize("size", [1, 3])
def test_ranks_that_all_hold_the_whole_write_the_file_of_one(tmp_path: Path, size: int) -> None:
    solution = large((9, 7))
    hdf5.write(tmp_path / "one.h5", solution)
    path = tmp_path / "several.h5"

    def write(communicator: ThreadCommunicator) -> None:
        share = replace(part_of(solution, communicator, (size, 1)).share, ranges=((0, 9), (0, 7)))  # type: ignore[type-var]
        hdf5.write(path, replace(solution, share=share))

    assert each_rank(size, write) == [None] * size
    assert path.read_bytes() == (tmp_path / "one.h5").read_bytes()


class Away:
    """An array on a device."""

    def __init__(self, values: Any) -> None:
        self._values = values
        self.shape, self.dtype, self.ndim = values.shape, values.dtype, values.ndim
        self.fetched: list[int] = []

    def __getitem__(self, index: Any) -> Any:
        found = Away(self._values[index])
        found.fetched = self.fetched
        return found

    def get(self) -> Any:
        self.fetched.append(self._values.nbytes)
        return self._values.copy()


def test_no_rank_holds_more_than_a_piece_beside_its_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "PIECE_BYTES", 1000)
    solution, path = large((30, 20, 10)), tmp_path / "a.h5"
    solution = replace(solution, fields={})
    fetched: list[list[int]] = []
    by_library: list[int] = []
    write = hdf5.Sink.write

    def noted(self: hdf5.Sink, data: memoryview) -> int:
        by_library.append(len(data))
        return write(self, data)

    def save(communicator: ThreadCommunicator) -> None:
        part = part_of(solution, communicator, (3, 1, 1))
        away = Away(part.u)
        fetched.append(away.fetched)
        replace(part, u=away).save(path)

    monkeypatch.setattr(hdf5.Sink, "write", noted)
    assert each_rank(3, save) == [None] * 3
    assert [sum(each) for each in fetched] == [solution.u.nbytes // 3] * 3
    assert max(max(each) for each in fetched) <= 1000
    assert sum(by_library) < solution.u.nbytes / 2
    with h5py.File(path) as file:
        np.testing.assert_array_equal(file["u"], solution.u)
        assert file["u"].id.get_offset() % hdf5.PAGE_BYTES == 0


@pytest.mark.parametrize("name", ["u", "f", "gradient"])
def test_one_changed_bit_of_what_several_ranks_wrote_is_damage(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where all is read; of a large field `info` tells the range that it was written with."""
    solution, path = large((7, 8, 9)), tmp_path / "a.h5"
    write_parts(path, solution, (2, 1, 1))
    text = description.describe(path)
    with h5py.File(path) as file:
        place = file[name].id.get_offset() + file[name].nbytes - 5
    content = bytearray(path.read_bytes())
    content[place] ^= 1
    path.write_bytes(content)
    with pytest.raises(OutputError, match=r"a\.h5: the file is damaged \(the values do not match their checksum\); "):
        description.describe(path)
    monkeypatch.setattr(description, "MOST_READ", 0)
    assert description.answer(str(path), "describe whole")[0] == "error"
    *lines, last = description.answer(str(path), "describe")[1].splitlines()
    assert (lines, last.split(":")[0].split()) == (text.splitlines(), ["not", "read", "f,", "gradient,", "u"])
    solution.fields[name if name != "u" else "f"][0] = np.nan
    write_parts(path, solution, (2, 1, 1))
    assert "not finite" in description.describe(path, most=0)


@pytest.mark.parametrize("ranges", [((0, 4), (0, 7)), ((4, 8), (0, 7))])
def test_parts_that_do_not_make_up_the_whole_are_no_result(tmp_path: Path, ranges: Any) -> None:
    solution, path = large((9, 7)), tmp_path / "a.h5"

    def write(communicator: ThreadCommunicator) -> None:
        part = part_of(solution, communicator, (2, 1))
        if communicator.rank == 1:
            rows = slice(*ranges[0])
            own = {name: values[rows] for name, values in solution.fields.items()}
            share = replace(part.share, ranges=ranges)  # type: ignore[type-var]
            part = replace(part, u=solution.u[rows], fields=own, share=share)
        hdf5.write(path, part)

    for error in each_rank(2, write):
        assert isinstance(error, ValueError) and str(error) == "the parts of u do not add up to the whole"
    assert os.listdir(tmp_path) == []


# ---- failures
@pytest.fixture
def old(tmp_path: Path) -> Path:
    """An older result, with nothing beside it."""
    folder = tmp_path / "there"
    folder.mkdir()
    path = folder / "old.h5"
    hdf5.write(path, make_solution(2))
    return path


FULL = "the disk is full; free some space or choose another place"
REFUSED = "no permission to write there; change the permissions or choose another place"
WRONG: list[tuple[str, BaseException, str | None]] = [
    ("open", PermissionError(errno.EACCES, "Permission denied"), REFUSED),
    ("open", FileNotFoundError(errno.ENOENT, "No such file or directory"), "rank {rank} on {host} does not see the "
     "folder; the folder must be shared by all hosts; choose another place"),
    ("pwrite", OSError(errno.ENOSPC, "No space left on device"), FULL),
    ("fsync", OSError(errno.EDQUOT, "x"), "the disk quota is used up; free some space or choose another place"),
    ("pwrite", KeyboardInterrupt(), None),
    ("open", MemoryError(), None),
]  # fmt: skip


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., None]]:
    """Makes a call of the system fail on a rank where it writes its part, the first times that it is made."""

    def fail(rank: int, call: str, error: BaseException, times: int = 1) -> None:
        real, left = getattr(os, call), [times]

        def once(*arguments: Any, **named: Any) -> Any:
            own = call != "open" or arguments[1] == os.O_WRONLY | os.O_CLOEXEC
            if own and left[0] and getattr(here, "rank", None) == rank:
                left[0] -= 1
                raise error
            return real(*arguments, **named)

        monkeypatch.setattr(os, call, once)

    yield fail
    monkeypatch.undo()


@pytest.mark.parametrize(("call", "error", "line"), WRONG)
@pytest.mark.parametrize("rank", [0, 1, 2])
def test_a_failure_on_any_rank_is_one_error_on_all_and_leaves_the_old_file(
    old: Path, rank: int, call: str, error: BaseException, line: str | None, failing: Callable[..., None]
) -> None:
    before = old.read_bytes()
    failing(rank, call, error)
    solution = large((7, 8, 9))
    found = write_parts(old, solution, (3, 1, 1))
    for raised in found:
        if line is None:
            assert type(raised) is type(error)
        else:
            assert isinstance(raised, OutputError)
            assert str(raised) == f"{old}: {line.format(rank=rank, host=os.uname().nodename)}"
    assert old.read_bytes() == before
    assert os.listdir(old.parent) == ["old.h5"]
    assert write_parts(old, solution, (3, 1, 1)) == [None] * 3
    assert contents(old)["u"][0] == (7, 8, 9)


@pytest.mark.parametrize("rank", [0, 2])
def test_a_result_of_several_ranks_that_cannot_be_written_is_saved_elsewhere(
    old: Path, rank: int, failing: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(result.tempfile, "tempdir", str(old.parent.parent))
    before, solution = old.read_bytes(), large((7, 8, 9))
    full = OSError(errno.ENOSPC, "No space left on device")

    def save(times: int) -> set[str]:
        failing(rank, "pwrite", full, times)
        found = each_rank(3, lambda communicator: part_of(solution, communicator, (3, 1, 1)).save(old))
        assert all(isinstance(error, OutputError) for error in found)
        return {str(error) for error in found}

    [line] = save(1)
    message, _, saved = line.partition("; the result is saved as ")
    assert message == f"{old}: {FULL}"
    with h5py.File(saved) as file:
        np.testing.assert_array_equal(file["u"], solution.u)
    [line] = save(2)
    assert line.startswith(f"{old}: {FULL}; saving in the temporary folder failed, too (")
    assert line.endswith("); the result is lost")
    assert old.read_bytes() == before
    assert os.listdir(old.parent) == ["old.h5"]


class Odd(Exception):
    """An error that no other process can have."""

    def __reduce__(self) -> Any:
        raise TypeError("it stays here")


def test_an_error_that_cannot_be_copied_is_told_in_words(old: Path, failing: Callable[..., None]) -> None:
    failing(1, "fsync", Odd("so odd"))
    solution = large((9, 7))
    found = write_parts(old, solution, (2, 1))
    assert [type(error) for error in found] == [RuntimeError, RuntimeError]
    assert {str(error) for error in found} == {"Odd: so odd"}
    assert os.listdir(old.parent) == ["old.h5"]


@pytest.mark.parametrize(("rank", "call"), [(0, "pwrite"), (1, "pwrite"), (1, "replace")])
def test_ctrl_c_on_one_rank_ends_all_when_they_can_agree(
    old: Path, rank: int, call: str, monkeypatch: pytest.MonkeyPatch, interruptible: None
) -> None:
    """A signal interrupts the rank in the main thread while its part is written, or when the file is complete."""
    before, solution = old.read_bytes(), large((7, 8, 9))
    shared = _Shared(2)
    real = getattr(os, call)
    main = threading.current_thread()

    def pressed(*arguments: Any) -> Any:
        if call == "replace" or threading.current_thread() is main:
            signal.pthread_kill(main.ident or 0, signal.SIGINT)
        return real(*arguments)

    found: list[BaseException] = []

    def write(number: int) -> None:
        try:
            hdf5.write(old, part_of(solution, ThreadCommunicator(shared, number, 0.0), (2, 1, 1)))
        except BaseException as error:
            found.append(error)

    monkeypatch.setattr(os, call, pressed)
    other = threading.Thread(target=write, args=(1 - rank,))
    handler = signal.getsignal(signal.SIGINT)
    other.start()
    write(rank)
    other.join()
    assert signal.getsignal(signal.SIGINT) is handler
    assert [type(error) for error in found] == [KeyboardInterrupt] * 2
    assert os.listdir(old.parent) == ["old.h5"]
    assert (old.read_bytes() == before) is (call == "pwrite")


def test_a_part_is_not_drawn(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    solution = large((9, 7))
    for error in each_rank(2, lambda communicator: part_of(solution, communicator, (2, 1)).plot()):
        assert isinstance(error, CaseError)
        assert str(error) == (
            "plot: this rank has only a part of the solution; save the solution and plot the file on one rank"
        )
