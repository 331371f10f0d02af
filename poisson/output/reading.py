# SPDX-License-Identifier: MIT
"""Reading a result file that may come from anyone: what it holds as data, or one line that says why not.

Nothing is believed: the file may be damaged, lead elsewhere, or pretend to hold more than fits into memory.
"""

from __future__ import annotations

import contextlib
import errno
import math
import os
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from poisson.case.settings import Units
from poisson.errors import CaseError, OutputError
from poisson.mesh.grid import AXES
from poisson.mesh.system import ANGLE, CARTESIAN, RADIUS, SYSTEMS
from poisson.output.checksum import checksum_of
from poisson.output.hdf5 import (
    CHECKSUM,
    COMPONENT,
    DATA_CHECKSUM,
    FORMAT,
    FORMAT_VERSION,
    PAGE_BYTES,
    POINTS,
    VTK,
    Damaged,
    require_heaps,
    text_checksum,
)
from poisson.output.record import FIELD_NOTES, ErrorNorms, OperationUse, Performance
from poisson.plain import NotPlain, find, nearest, of_library, require_file
from poisson.solvers.status import Status

if TYPE_CHECKING:
    import h5py

WRONG_VALUES = "the values do not match their checksum"

EDITED = "the attributes do not match their checksum: the file was edited or is damaged"

Placed = tuple[str, NDArray[np.float64]]

NOT_FIELDS = (*AXES, RADIUS, ANGLE, POINTS, COMPONENT, "convergence", "provenance", "performance", VTK)
"""The objects of a result that are no fields."""

_MOST_TEXT = 1000
_MOST_PACKED = 10**6
"""No filter makes values smaller by more than this factor."""

_SECONDS = "seconds_"
_OF_RESULT = frozenset(("case", "equation", "status", "advice", "iterations", "norm", "residual", "target"))
_OF_ERROR = frozenset(("error_bar", "error_rms", "error_max"))


class StoredArray:
    """A field that stays in its file: what is indexed is read, and the file is open only meanwhile.

    NumPy takes it as an array, which reads all of it.

    `path`: the result. `name`: of the field. `shape`: as of an array. `dtype` (dtype): as of an array. `free`: how many
    bytes of memory there are for all of it.

    Examples
    --------
    ``u[40]`` reads one plane of a 3D solution, ``u[:, :, ::4]`` every fourth plane across x.
    """

    def __init__(
        self, path: Path, name: str, shape: tuple[int, ...], dtype: DTypeLike, free: Callable[[], int]
    ) -> None:
        self.path = path.absolute()
        self.name = name
        self.shape = shape
        self.dtype = np.dtype(dtype)
        self._free = free
        self._stamp = _stamp(path)

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def itemsize(self) -> int:
        return self.dtype.itemsize

    @property
    def nbytes(self) -> int:
        return self.size * self.itemsize

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, index: Any) -> NDArray[Any]:
        """The values at an index of integers, slices and ``...``, as h5py takes it.

        Raises `IndexError` if it does not fit; `OutputError` if the file is not the one any more that was loaded, or is
        damaged.
        """
        with self._open() as dataset:
            try:
                return np.asarray(dataset[index])
            except (IndexError, TypeError, ValueError) as error:
                raise _WrongIndex(f"{self.name} of the shape {self.shape}: {one_line(error)}") from None

    def get(self) -> NDArray[Any]:
        """All of it.

        Raises `OutputError` as for an index, or if it does not fit into memory.
        """
        with self._open() as dataset:
            return _whole(self.path, dataset, self._free())

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> NDArray[Any]:
        if copy is False:
            raise ValueError(f"{self.name} is stored in a file: an array of its values is always a copy")
        return self.get().astype(dtype or self.dtype, copy=False)

    def __repr__(self) -> str:
        return f"<{self.name} {self.shape} {self.dtype} in {str(self.path)!r}>"

    @contextlib.contextmanager
    def _open(self) -> Iterator[h5py.Dataset]:
        with opened(self.path) as file:
            if _stamp(self.path) != self._stamp:
                raise OutputError(f"{self.path}: changed since it was loaded; load it again")
            yield values(file, self.name)


class _WrongIndex(IndexError):
    """An index that an array in a file does not take."""


@dataclass(frozen=True)
class Stored:
    """The contents of a result file; `poisson.output.record.Record` says what the parts are.

    `title`, `equation`: of the problem. `lower`, `upper`, `shape`, `periodic`: of the grid, in the order x(, y(, z)).
    `placements`: `placements_of`. `system`: `system_of`. `edited`: whether its texts are others than were written.
    """

    title: str
    equation: str
    lower: tuple[float, ...]
    upper: tuple[float, ...]
    shape: tuple[int, ...]
    periodic: tuple[bool, ...]
    placements: tuple[Placed | None, ...]
    system: str
    edited: bool
    u: Any
    status: Status
    iterations: int
    norm: str
    residual: float
    target: float
    history: tuple[tuple[int, float], ...]
    fields: Mapping[str, Any]
    error: ErrorNorms | None
    times: Mapping[str, float]
    provenance: Mapping[str, str | int | float]
    case_text: str
    performance: Performance | None
    error_bar: float | None
    units: Units
    datasets: frozenset[str]
    """The fields that the file has, those that were not asked for among them."""


def read(
    path: str | Path, fields: Collection[str] | None = None, *, free: Callable[[], int], lazy: bool = False
) -> Stored:
    """Read a result file.

    `path`: a file written by `poisson.output.hdf5.write`. `fields`: those wanted beside u; by default all. `free`: how
    many bytes of memory there are. `lazy`: whether u and the fields stay in the file (`StoredArray`). Raises
    `OutputError` if the file is missing, locked, not an HDF5 file, not one of ours, damaged, or larger than the memory;
    `CaseError` if it has not all of the fields that are asked for.
    """
    path = Path(path)
    with opened(path) as file:
        lower, upper, shape, periodic = grid_of(file)
        there = {name: dataset for name in file if (dataset := field_of(file, name, shape)) is not None}
        if "u" not in there:
            raise Damaged("u is missing")
        wanted = [name for name in there if name != "u"] if fields is None else [name for name in fields if name != "u"]
        for name in wanted:
            if name not in there:
                raise CaseError(f"fields: {name!r}; allowed: the fields in {path}, {', '.join(sorted(there))}")

        def taken(name: str) -> Any:
            dataset = there[name]
            if lazy:
                return StoredArray(path, name, dataset.shape, dataset.dtype.newbyteorder("="), free)
            return _whole(path, dataset, free())

        provenance = dict(group(file, "provenance").attrs)
        convergence = [_whole(path, values(file, f"convergence/{name}"), free()) for name in ("iteration", "residual")]
        if convergence[0].shape != convergence[1].shape or convergence[0].ndim != 1:
            raise Damaged("the history is incomplete")
        errors = [float(provenance[name]) for name in ("error_rms", "error_max") if name in provenance]
        return Stored(
            *(str(file.attrs["title"]), str(file.attrs["equation"]), lower, upper, shape, periodic),
            placements=placements_of(file, free()),
            system=system_of(file),
            edited=edited(file),
            u=taken("u"),
            status=Status(str(file.attrs["status"])),
            iterations=int(provenance["iterations"]),
            norm=str(provenance["norm"]),
            residual=float(provenance["residual"]),
            target=float(provenance["target"]),
            history=tuple((int(sweep), float(norm)) for sweep, norm in zip(*convergence, strict=True)),
            fields={name: taken(name) for name in wanted},
            error=ErrorNorms(*errors) if len(errors) == 2 else None,
            times={
                name.removeprefix(_SECONDS): float(value)
                for name, value in provenance.items()
                if name.startswith(_SECONDS)
            },
            provenance={
                name: _plain(value)
                for name, value in provenance.items()
                if name not in _OF_RESULT | _OF_ERROR and not name.startswith(_SECONDS)
            },
            case_text=str(provenance.get("case", "")),
            performance=_performance(file),
            error_bar=float(provenance["error_bar"]) if "error_bar" in provenance else None,
            units=_units(next(iter(scales_of(file).values())), there["u"]),
            datasets=frozenset(there),
        )


@contextlib.contextmanager
def opened(path: Path) -> Iterator[h5py.File]:
    """A result file, within; whatever goes wrong with it there is an `OutputError` of one line.

    Raises `OutputError` if the file is missing, locked, not an HDF5 file, not one of ours, or damaged.
    """
    import h5py

    with blaming(path):
        _require_file(path)
        if not h5py.is_hdf5(path):
            raise OutputError(f"{path}: not an HDF5 file; give a result of 'poisson solve'")
        require_heaps(path)
        access = h5py.h5p.create(h5py.h5p.FILE_ACCESS)
        access.set_fclose_degree(h5py.h5f.CLOSE_STRONG)
        # Where the disk knows no locks, there are none to wait for.
        access.set_file_locking(True, True)
        # A part of large values is read by itself, where HDF5 would read 64 kB around each of its rows.
        access.set_sieve_buf_size(PAGE_BYTES)
        with h5py.File(h5py.h5f.open(os.fsencode(path), h5py.h5f.ACC_RDONLY, access)) as file:
            _check_format(path, file)
            yield file


@contextlib.contextmanager
def blaming(path: Path) -> Iterator[None]:
    """Whatever goes wrong within is the fault of a file, and an `OutputError` of one line that names it.

    Raises `OutputError` as `opened`.
    """
    try:
        yield
    except (OutputError, CaseError, _WrongIndex):
        raise
    except FileNotFoundError as error:
        raise OutputError(f"{path}: no such file{nearest(path) or '; check the name'}") from error
    except PermissionError as error:
        raise OutputError(f"{path}: no permission to read the file; change its permissions") from error
    except Exception as error:  # the readers of a damaged file let through whatever their parsers raise
        if isinstance(error, OSError) and error.errno in (errno.EAGAIN, errno.EACCES):
            raise OutputError(f"{path}: locked by another program; close the file there") from error
        reason = one_line(of_library(error.args[0] if isinstance(error, KeyError) and error.args else error))
        if "filter returned failure" in reason:
            reason = WRONG_VALUES
        raise OutputError(f"{path}: {damaged(reason or type(error).__name__)}") from error


def damaged(reason: str) -> str:
    """The message about a file that is damaged."""
    return f"the file is damaged ({reason}); solve the case again"


def one_line(text: object) -> str:
    """A text out of a file in one line, of no more than it may have, without what could steer a terminal."""
    whole = text.decode("utf-8", "replace") if isinstance(text, bytes) else str(text)
    shown = "".join(
        character if character.isprintable() else "\N{REPLACEMENT CHARACTER}"
        for character in " ".join(whole[: 2 * _MOST_TEXT].split())
    )
    return shown if len(shown) <= _MOST_TEXT else f"{shown[:_MOST_TEXT]} …"


def edited(file: h5py.File) -> bool:
    """Whether the texts of a result are others than were written."""
    return CHECKSUM in file.attrs and int(file.attrs[CHECKSUM]) != text_checksum(file)


def group(file: h5py.File, name: str) -> h5py.Group:
    """A group of a result.

    Raises `Damaged` if it is not there.
    """
    import h5py

    found = find(file, name)
    if not isinstance(found, h5py.Group):
        raise Damaged(f"{name} is missing")
    return found


def values(file: h5py.File, name: str) -> h5py.Dataset:
    """A data set that holds its values.

    Raises `Damaged` if it is not there, or its values are not.
    """
    import h5py

    try:
        found = find(file, name)
    except NotPlain as error:
        raise Damaged(f"{name} {error}") from error
    if not isinstance(found, h5py.Dataset):
        raise Damaged(f"{name} is missing")
    if found.size * found.dtype.itemsize > _MOST_PACKED * (found.id.get_storage_size() + 1):
        raise Damaged(f"the values of {name} are missing")
    return found


def _stamp(path: Path) -> tuple[int, int, int]:
    """The stamp that tells a file from one that has taken its place."""
    found = os.stat(path)
    return found.st_mtime_ns, found.st_size, found.st_ino


def _require_file(path: Path) -> None:
    try:
        require_file(path)
    except NotPlain as error:
        advice = "; give the name of a file in it" if path.is_dir() else ""
        raise OutputError(f"{path}: it {error}{advice}") from error
    with path.open("rb"):
        pass


def _check_format(path: Path, file: h5py.File) -> None:
    name, _, version = str(file.attrs.get("format", "")).rpartition(" ")
    if name != FORMAT or not version.isdecimal():
        raise OutputError(f"{path}: an HDF5 file, but not a result of 'poisson solve'")
    if int(version) > FORMAT_VERSION:
        raise OutputError(
            f"{path}: written by a newer poisson (format {version}, this one reads {FORMAT_VERSION}); upgrade poisson"
        )


def grid_of(file: h5py.File) -> tuple[tuple[float, ...], tuple[float, ...], tuple[int, ...], tuple[bool, ...]]:
    """The lower and the upper ends of the axes, their nodes, and whether they are periodic."""
    scales = list(scales_of(file).values())
    return (
        tuple(float(scale.attrs["lower"]) for scale in scales),
        tuple(float(scale.attrs["upper"]) for scale in scales),
        tuple(int(scale.size) for scale in scales),
        tuple(bool(scale.attrs["periodic"]) for scale in scales),
    )


def scales_of(file: h5py.File) -> dict[str, h5py.Dataset]:
    """The coordinates of the nodes along each axis, by its name.

    Raises `Damaged` if there are none.
    """
    systems = SYSTEMS.get(system_of(file), {})
    for system in sorted(systems.values(), key=lambda system: -len(system.axes)):
        if all(name in file for name in system.axes):
            return {name: values(file, name) for name in system.axes}
    raise Damaged("the coordinates are missing")


def system_of(file: h5py.File) -> str:
    """The word of the system of coordinates."""
    return str(file.attrs.get("system", CARTESIAN))


def placements_of(file: h5py.File, free: int) -> tuple[Placed | None, ...]:
    """The kind of each axis that is not uniform, ``nodes`` or ``cells``, with the coordinates of its nodes."""
    scales = list(scales_of(file).values())
    kinds = [scale.attrs.get("placement") for scale in scales]
    return tuple(
        None if kind is None else (str(kind), _whole(Path(file.filename), scale, free))
        for kind, scale in zip(kinds, scales, strict=True)
    )


def _units(x: h5py.Dataset, u: h5py.Dataset) -> Units:
    """The names of the units of length and of u."""
    unnamed = Units()
    return Units(
        *(one_line(scale.attrs.get("units", name)) for scale, name in ((x, unnamed.length), (u, unnamed.value)))
    )


def field_of(file: h5py.File, name: str, shape: tuple[int, ...]) -> h5py.Dataset | None:
    """A field of the result; None for what is none, such as what someone else has added."""
    if name in NOT_FIELDS or (name not in FIELD_NOTES and not _is_dataset(file, name)):
        return None
    dataset = values(file, name)
    on_nodes = dataset.shape == shape[::-1] or dataset.shape == (*shape[::-1], len(shape))
    if not on_nodes or dataset.dtype.kind != "f":
        if name in FIELD_NOTES:
            raise Damaged(f"{name} has the shape {dataset.shape} and the type {dataset.dtype}")
        return None
    return dataset


def _is_dataset(file: h5py.File, name: str) -> bool:
    import h5py

    try:
        return isinstance(find(file, name), h5py.Dataset)
    except NotPlain:
        return False


def _whole(path: Path, dataset: h5py.Dataset, free: int) -> NDArray[Any]:
    """All values of a data set, in this machine's order of bytes, if so many bytes of memory are enough for them."""
    if dataset.nbytes > free:
        name, size = dataset.name.lstrip("/"), dataset.nbytes / 2**30
        raise OutputError(
            f"{path}: {name} takes {size:.3g} GiB, and {free / 2**30:.3g} GiB are free; with lazy=True the values "
            "stay in the file and are read in parts"
        )
    found: Any = np.empty(dataset.shape, dataset.dtype)
    if found.size:
        dataset.read_direct(found)
    if DATA_CHECKSUM in dataset.attrs and int(dataset.attrs[DATA_CHECKSUM]) != checksum_of(found):
        raise Damaged(WRONG_VALUES)
    return np.asarray(found, dataset.dtype.newbyteorder("="))


def _plain(value: Any) -> str | int | float:
    """A text or a number of an attribute, as Python's own."""
    found = value.item() if isinstance(value, np.generic) else value
    return found if isinstance(found, (int, float)) else str(found)


def _performance(file: h5py.File) -> Performance | None:
    if "performance" not in file:
        return None
    attributes = group(file, "performance").attrs
    columns = (attributes[name] for name in ("operations", "calls", "seconds", "bytes", "flops", "grids"))
    uses = tuple(
        OperationUse(str(name), int(calls), float(seconds), float(moved), float(flops), str(grid))
        for name, calls, seconds, moved, flops, grid in zip(*columns, strict=True)
    )
    return Performance(uses, float(attributes["bandwidth"]), int(attributes["array_bytes"]))
