# SPDX-License-Identifier: MIT
"""Fields that are not formulas: in a file, in an array, or a Python function; one real value for each node.

Files are read by rows, so that one may be larger than memory. Arrays may be of any library, and are used where they
are.
"""

from __future__ import annotations

import difflib
import itertools
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from poisson.errors import CaseError, PackageMissing, PoissonError
from poisson.mesh.axis import Axis
from poisson.mesh.axis_transfer import common, cubic
from poisson.mesh.grid import AXES
from poisson.mesh.system import needed_shape
from poisson.plain import NotPlain, datasets, find, nearest, of_library, require_file
from poisson.problem import arrays, images

HDF5_SUFFIXES = (".h5", ".hdf5")
SUFFIXES = (".npy", *HDF5_SUFFIXES, *images.SUFFIXES)

Range = tuple[int, int]
"""Nodes along an axis: from the first, without the last."""

MOST_HEADER = 1 << 16
"""Bytes of the header of a ``.npy`` file."""
MOST_OF_ROW = 1 << 16
"""Nodes along x that are read at once, where a few of them are wanted."""
ONE_AT_A_TIME = threading.RLock()
"""Held while a file is read, as slabs of a grid are evaluated by several threads."""


@dataclass(frozen=True)
class FieldFile:
    """A field in a file, with the ``array_shape`` of the grid, such as ``(nz, ny, nx)``, or of a face.

    `path`: A ``.npy`` or HDF5 file, or what `poisson.problem.images.Pages` takes. `dataset`: the dataset in an HDF5
    file, such as ``f`` or ``group/f``; None for another file. `phases`: the value of each label, where the file has
    labels.
    """

    path: Path
    dataset: str | None = None
    phases: images.Phases | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the array in the file."""
        with self._open() as array:
            return tuple(array.shape or ())

    @property
    def kind(self) -> str:
        """The kind of the array's type, as NumPy has it."""
        with self._open() as array:
            return str(array.dtype.kind)

    def check(
        self, array_shape: tuple[int, ...], place: str = "the grid", axes: Sequence[str] = AXES, *, mask: bool = False
    ) -> None:
        """Make sure that the file can be read as a field on a grid, or on a face of one, without reading its values.

        `array_shape`: what the shape of the array must be. `place`, `axes`: what needs that shape, and the names of the
        first axes there, for the message. `mask`: whether truth values are numbers, too. Raises `CaseError` with one
        line that says what is wrong with the file or its shape or type.
        """
        with self._open() as array:
            if array.shape != array_shape:
                raise CaseError(f"{self} has the shape {array.shape}; {needed_shape(place, array_shape, axes)}")
            if array.dtype.kind not in ("fiub" if self.phases or mask else "fiu"):
                raise CaseError(f"{self} has values of type {array.dtype}; real numbers are needed")

    def read(self, start: int, stop: int, others: Sequence[Range] = ()) -> NDArray[np.float64]:
        """Rows (planes in 3D, nodes in 1D) `start` to `stop`, without `stop`, of the first array axis, as float64.

        Of the other axes `others` has the ranges; those left out count as a whole. Raises CaseError if the file cannot
        be read.
        """
        with self._open(_index(start, stop, others)) as array:
            return self._values(array[_index(start, stop, others)])

    def read_runs(self, runs: Sequence[Sequence[Range]]) -> NDArray[np.float64]:
        """The values at every combination of ranges of nodes along each array axis, as float64.

        Raises CaseError if the file cannot be read.
        """
        *slow, fast = runs
        first, last = fast[0][0], fast[-1][1]
        # Chunks have whole rows: to read each once is faster than to read parts of it often.
        whole = bool(slow) and last - first <= MOST_OF_ROW
        places = np.concatenate([np.arange(*run) for run in fast]) - first
        with self._open() as array:

            def read(block: tuple[Range, ...]) -> NDArray[Any]:
                values: NDArray[Any] = array[tuple(slice(*ends) for ends in block)]
                return values[..., places] if whole else values

            return self._values(joined(np, read, (*slow, ((first, last),)) if whole else runs))

    def _values(self, given: NDArray[Any]) -> NDArray[np.float64]:
        values = images.in_phases(given, self.phases, str(self)) if self.phases else given
        return np.ascontiguousarray(values, dtype=np.float64)

    def __str__(self) -> str:
        return f"{str(self.path)!r}" if self.dataset is None else f"{self.dataset!r} in {str(self.path)!r}"

    @contextmanager
    def _open(self, index: tuple[slice, ...] | None = None) -> Iterator[Any]:
        """The array in the file, not yet read: a memory map or an h5py dataset; `index` is what of it will be read."""
        with ONE_AT_A_TIME, self._opened(index) as array:
            yield array

    @contextmanager
    def _opened(self, index: tuple[slice, ...] | None) -> Iterator[Any]:
        suffix = self.path.suffix.lower()
        name = str(self.path)
        if suffix not in SUFFIXES:
            raise CaseError(f"{name!r} must end in {', '.join(SUFFIXES[:-1])} or {SUFFIXES[-1]}")
        if suffix not in HDF5_SUFFIXES and self.dataset is not None:
            raise CaseError(f"{name!r} is a {suffix} file, which has no datasets; leave 'dataset' out")
        if suffix in HDF5_SUFFIXES and self.dataset is None:
            raise CaseError(f'{name!r} is an HDF5 file; name the dataset, such as dataset = "f"')
        try:
            if suffix in images.SUFFIXES:
                yield images.Pages(self.path)
                return
            require_file(self.path)
            if suffix == ".npy":
                _require_short_header(self.path)
                yield np.lib.format.open_memmap(self.path, mode="r")
            else:
                self._try_apart(index)
                with self._open_dataset() as dataset:
                    yield dataset
        except (CaseError, PackageMissing, MemoryError):
            raise
        except NotPlain as error:
            raise CaseError(f"{name!r} {error}") from None
        except FileNotFoundError:
            raise CaseError(f"no such file: {name!r}{nearest(self.path)}") from None
        except PermissionError:
            raise CaseError(f"no permission to read {name!r}") from None
        except BlockingIOError:
            raise CaseError(f"{name!r} is locked by another program; close the file there") from None
        except Exception as error:  # the readers of a damaged file let through whatever their parsers raise
            kind = "an HDF5" if suffix in HDF5_SUFFIXES else f"a {suffix}"
            raise CaseError(f"{name!r} cannot be read as {kind} file: {_one_line(of_library(error))}") from error

    def _try_apart(self, index: tuple[slice, ...] | None) -> None:
        """Make sure that the HDF5 library survives the file, and that a part of its values can be had from it."""
        from poisson import apart  # on use, as it takes three milliseconds

        ends = None if index is None else [[part.start, part.stop] for part in index]
        try:
            mistake = apart.call("poisson.problem.fields:tried", os.fspath(self.path), self.dataset, ends)
        except apart.Lost as lost:
            mistake = f"the HDF5 library fails: {lost}"
        if mistake:
            raise ValueError(mistake)

    @contextmanager
    def _open_dataset(self) -> Iterator[Any]:
        import h5py

        with h5py.File(self.path, "r") as file:
            try:
                found = find(file, str(self.dataset))
            except NotPlain as error:
                raise CaseError(f"{self} {error}") from None
            if isinstance(found, h5py.Dataset):
                yield found
                return
            if isinstance(found, h5py.Group):
                raise CaseError(f"{self.dataset!r} in {str(self.path)!r} is a group; name a dataset in it")
            near = difflib.get_close_matches(str(self.dataset), datasets(file), n=1)
            suggestion = f"; did you mean {near[0]!r}?" if near else ""
            raise CaseError(f"no dataset {self.dataset!r} in {str(self.path)!r}{suggestion}")


@dataclass(frozen=True, eq=False)
class ArrayField:
    """A field in an array of the grid's ``array_shape``, or the data of a face in one of the face's shape.

    Two are equal where their values are; of arrays on a device only one and the same is equal to itself.

    `values`: of any library, see `poisson.problem.arrays`. What is on the host is kept as an array of NumPy, as a rule
    not a copy. Raises `CaseError` if values are masked, or the array cannot be read.
    """

    values: Any

    def __post_init__(self) -> None:
        if type(self.values) is not np.ndarray and not arrays.on_device(self.values):
            object.__setattr__(self, "values", arrays.host(self.values))

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self) or not isinstance(other, ArrayField):
            return NotImplemented
        if self.values is other.values or self.on_device or other.on_device:
            return self.values is other.values
        return np.array_equal(self.values, other.values)

    def __hash__(self) -> int:
        # The values may change.
        return hash((type(self), self.shape))

    @property
    def on_device(self) -> bool:
        """Whether the values are where NumPy cannot read them."""
        return not isinstance(self.values, np.ndarray)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the array."""
        return arrays.shape_of(self.values)

    def check(self, array_shape: tuple[int, ...], place: str = "the grid", axes: Sequence[str] = AXES) -> None:
        """Make sure that the array can be used as a field on a grid, or on a face of one.

        `array_shape`: what its shape must be. `place`, `axes`: what needs that shape, and the names of the first axes
        there, for the message. Raises `CaseError` with one line that says what is wrong with its shape or type.
        """
        arrays.require_readable(self.values)
        if self.shape != array_shape:
            raise CaseError(f"an array of the shape {self.shape}; {needed_shape(place, array_shape, axes)}")
        interface = getattr(self.values, arrays.CUDA, None) if self.on_device else None
        if interface is not None:
            arrays.require_real(np.dtype(interface["typestr"]))
        elif not self.on_device:
            arrays.require_real(self.values.dtype)

    def read(self, xp: ModuleType, start: int, stop: int, others: Sequence[Range] = ()) -> Any:
        """Rows (planes in 3D) `start` to `stop`, without `stop`, as an array of the module xp; a view if it can be.

        Of the other axes `others` has the ranges; those left out count as a whole.

        Raises CaseError if the values are on a device, and cannot be read from there or are not real.
        """
        index = _index(start, stop, others)
        if xp is np and type(self.values) is np.ndarray:
            part = self.values[index]
        elif xp is np and self.on_device and hasattr(self.values, "__getitem__"):
            part = arrays.host(self.values[index])
        elif self.on_device:
            part = arrays.brought(self.values, xp)[index]
        else:
            part = arrays.brought(self.values[index], xp)
        arrays.require_real(part.dtype)
        return part


class PartField(ArrayField):
    """A field in an array of which only a part is in this process.

    `values`: the part. `firsts`: which nodes of the whole array the first ones of the part are, along each axis; below
    0 where it wraps around. `whole`: the shape of the whole array. `on_devices`: whether every process was given its
    part on a device.
    """

    def __init__(self, values: Any, firsts: Sequence[int], whole: tuple[int, ...], *, on_devices: bool = False) -> None:
        super().__init__(values)
        object.__setattr__(self, "firsts", tuple(firsts))
        object.__setattr__(self, "whole", whole)
        object.__setattr__(self, "on_devices", on_devices)

    firsts: tuple[int, ...]
    whole: tuple[int, ...]
    on_devices: bool

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, PartField):
            return NotImplemented
        return (self.firsts, self.whole) == (other.firsts, other.whole) and super().__eq__(other)

    def __hash__(self) -> int:
        return super().__hash__()

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the whole array."""
        return self.whole

    def read(self, xp: ModuleType, start: int, stop: int, others: Sequence[Range] = ()) -> Any:
        """`ArrayField.read` of what lies in the part.

        Raises CaseError if it is not all there.
        """
        wanted = itertools.zip_longest(((start, stop), *others), self.firsts, self.whole, self.values.shape)
        ranges: list[Range] = []
        for ends, first, nodes, here in wanted:
            low, high = ends or (0, nodes)
            begin = (low - first) % nodes
            if begin + high - low > here:
                raise CaseError("an array of which each process has only a part, where the whole array is needed")
            ranges.append((begin, begin + high - low))
        (start, stop), *others = ranges
        return super().read(xp, start, stop, others)


@dataclass(frozen=True)
class FunctionField:
    """A field by a Python function of the coordinates.

    `function`: called with arrays x, y(, z) that broadcast against each other, of NumPy or of CuPy; its result, a
    number or an array of any library, must broadcast to the shape of them all.
    """

    function: Callable[..., Any]

    def __post_init__(self) -> None:
        # Slabs are evaluated by several threads, and the function by one at a time. It may solve other problems.
        object.__setattr__(self, "turn", threading.RLock())

    def __reduce__(self) -> Any:
        return type(self), (self.function,)

    def __call__(self, xp: ModuleType, *coordinates: Any) -> Any:
        """The values at points, as an array of the module xp.

        Raises CaseError if the function fails, or returns an array with masked values, or one that cannot be
        read.
        """
        try:
            with vars(self)["turn"]:
                values = self.function(*coordinates)
        except (PoissonError, MemoryError):
            raise
        except Exception as error:
            if arrays.of_device(error):
                raise
            kind = type(error).__name__
            said = " ".join(str(error).split())
            raise CaseError(f"the function fails with {kind}{': ' if said else ''}{said}") from error
        if not arrays.is_array(values):
            return xp.asarray(values)
        try:
            return arrays.brought(values, xp)
        except CaseError as error:
            raise CaseError(f"the function returns {error}") from error


@dataclass(frozen=True, eq=False)
class CoarserField:
    """A file or an array on a coarser grid or face: its values at common nodes, cubics between."""

    field: FieldFile | ArrayField | CoarserField  # On the finer grid.
    # The axes of the nodes of the finer and of the coarser array, in the order of an array's axes.
    fine: tuple[Axis, ...]
    coarse: tuple[Axis, ...]
    # Whether a value may not fall below half the least of those that it is made of, as cubics do at a jump: then it
    # takes that one, so that what is positive stays so.
    bounded: bool = False

    def read(self, xp: ModuleType, start: int, stop: int, others: Sequence[Range] = ()) -> Any:
        """Rows (planes in 3D) `start` to `stop`, without `stop`, as a float64 array of the module xp.

        The array is a view of the finer one where the coarser nodes are among the finer ones. `others` has the ranges
        of the other axes; an axis that is left out counts as a whole.
        """
        ranges = itertools.zip_longest(((start, stop), *others), (axis.nodes for axis in self.coarse))
        # Of each axis only the nodes of this block, from only those that they need.
        needed: list[tuple[Range, ...]] = []
        tables: list[tuple[NDArray[Any], NDArray[Any]] | None] = []
        taken: list[slice] = []
        for fine, coarse, (given, count) in zip(self.fine, self.coarse, ranges, strict=True):
            here = slice(*(given or (0, count)))
            if (nodes := common(fine, coarse)) is not None:
                needed.append(((nodes[here][0], nodes[here][-1] + 1),))
                tables.append(None)
                taken.append(slice(None, None, nodes.step))
                continue
            index, weight = (values[here] for values in cubic(fine, coarse))
            runs = _runs(index[weight != 0.0])
            places = np.concatenate([np.arange(*run) for run in runs])
            needed.append(runs)
            tables.append((np.where(weight != 0.0, np.searchsorted(places, index), 0), weight))
            taken.append(slice(None))
        values = joined(xp, lambda ranges: xp.asarray(stored(self.field, xp, ranges), dtype=xp.float64), needed)
        least = values = values[tuple(taken)]
        for axis, table in enumerate(tables):
            if table is not None:
                values, least = _along(xp, axis, *table, values, least if self.bounded else None)
        return xp.where(values < 0.5 * least, least, values) if self.bounded else values


def _runs(numbers: NDArray[Any]) -> tuple[Range, ...]:
    """The ranges of nodes that have these among them, two where they are at both ends of an axis that wraps.

    Every second one is a range, too: what is read in between costs less than reading once more.
    """
    nodes = np.unique(numbers)
    pieces = np.split(nodes, np.flatnonzero(np.diff(nodes) > 2) + 1)
    return tuple((int(piece[0]), int(piece[-1]) + 1) for piece in pieces)


def joined(
    xp: ModuleType,
    function: Callable[[tuple[Range, ...]], Any],
    runs: Sequence[Sequence[Range]],
    block: tuple[Range, ...] = (),
) -> Any:
    """The values of a function of blocks of nodes on every combination of ranges.

    `xp`: of the arrays that it returns. `function`: given a range for each axis. `runs`: the ranges along each axis,
    the slowest first. `block`: those that are chosen already.
    """
    axis = len(block)
    if axis == len(runs):
        return function(block)
    pieces = [joined(xp, function, runs, (*block, run)) for run in runs[axis]]
    return pieces[0] if len(pieces) == 1 else xp.concatenate(pieces, axis=axis)


def _along(
    xp: ModuleType, axis: int, index: NDArray[Any], weight: NDArray[Any], values: Any, least: Any | None
) -> tuple[Any, Any]:
    """Interpolate along an axis; of `least` the least value with any weight."""
    shape = [1] * values.ndim
    shape[axis] = -1
    total: Any = 0.0
    lowest: Any = None
    for column in range(index.shape[1]):
        used = weight[:, column] != 0.0
        if not used.any():
            continue
        # Unused entries repeat the one of the largest weight.
        place = xp.asarray(np.where(used, index[:, column], index[np.arange(len(index)), weight.argmax(axis=1)]))
        total = total + xp.asarray(weight[:, column].reshape(shape)) * xp.take(values, place, axis=axis)
        if least is not None:
            taken = xp.take(least, place, axis=axis)
            lowest = taken if lowest is None else xp.minimum(lowest, taken)
    return total, lowest


Stored = FieldFile | ArrayField | CoarserField
"""A field whose values are kept, and not computed."""


def stored(field: Stored, xp: ModuleType, ranges: Sequence[Range]) -> Any:
    """A block of a field that is no function, as an array of xp; a range for each of its array axes."""
    (start, stop), *others = ranges
    if isinstance(field, FieldFile):
        return xp.asarray(field.read(start, stop, others))
    return field.read(xp, start, stop, others)


def tried(path: str, name: str, ends: Sequence[Range] | None) -> str:
    """Open a data set, and read a part of it if it is not stored as it is; why its values cannot be had, or nothing.

    What is wrong with the file otherwise is for the one who opens it next.
    """
    from poisson import apart

    with suppress(Exception), FieldFile(Path(path), name)._open_dataset() as dataset:
        if ends is None or dataset.chunks is None:
            return ""
        index, rows = tuple(slice(*pair) for pair in ends), dataset.chunks[0]
        try:
            # What is packed is unpacked in the memory of this process first, chunk by chunk.
            for start in range(index[0].start // rows * rows, index[0].stop, rows):
                _ = dataset[(slice(start, start + rows), *index[1:])]
                apart.alive()
        except Exception as error:
            return _one_line(error)
    return ""


def _index(start: int, stop: int, others: Sequence[Range]) -> tuple[slice, ...]:
    return slice(start, stop), *(slice(*ends) for ends in others)


def _require_short_header(path: Path) -> None:
    """Make sure that reading the header of a ``.npy`` file takes no more memory than a header needs."""
    with path.open("rb") as stream:
        major, _ = np.lib.format.read_magic(stream)
        length = int.from_bytes(stream.read(2 if major == 1 else 4), "little")
    if length > MOST_HEADER:
        raise ValueError(f"its header has {length} bytes, more than {MOST_HEADER}")


def _one_line(error: object) -> str:
    return " ".join(str(error).split()) or type(error).__name__
