# SPDX-License-Identifier: MIT
"""The differences of two results: their fields node by node, the keys of their cases, and where they come from."""

from __future__ import annotations

import contextlib
import math
import os
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from poisson import apart
from poisson.case.differences import differences
from poisson.errors import CaseError, OutputError
from poisson.mesh.interpolation import nodes_and_weights
from poisson.output.hdf5 import DATA_CHECKSUM
from poisson.output.reading import (
    EDITED,
    WRONG_VALUES,
    Placed,
    blaming,
    damaged,
    edited,
    field_of,
    grid_of,
    group,
    one_line,
    opened,
    placements_of,
    scales_of,
)

if TYPE_CHECKING:
    import h5py

RTOL = 1e-8
"""The relative difference up to which results agree, if no other is asked for."""

UNCOUNTED = ("residual",)
"""Fields that count only where they are asked for: what a solve leaves over differs from one to the next."""

SCALED_BY_U = ("error",)
"""Fields in the unit of u that are small beside it, so that u is what their differences are relative to."""

BESIDE = ("output.file",)
"""Keys of a case that say nothing about its solution."""

_UNSAID = frozenset(("case", "equation", "advice", "status", "started", "error_rms", "error_max"))
"""Attributes of the provenance that stand elsewhere, or differ always."""

_SLAB_VALUES = 1 << 21
_SAME_CORNER = 1e-12
"""By so much of the length of an axis its ends may differ."""

Grid = tuple[tuple[float, ...], tuple[float, ...], tuple[int, ...], tuple[bool, ...]]

Reader = Callable[[str, int], Iterator[NDArray[np.float64]]]
"""The values of a field at the nodes that are compared, in parts of so many rows."""


@dataclass(frozen=True)
class FieldDifference:
    """The difference of a field in two results, over the nodes that are compared.

    `name`: of the field. `max`, `rms`: of the differences at the nodes, those of vectors component by component, in the
    unit of the field. `largest`: the largest absolute value in the first result that the difference is relative to: of
    the field, or of u. `unknown`: values that are not finite in one of the results or in both: no differences are known
    there. `counts`: whether the verdict rests on it.
    """

    name: str
    max: float
    rms: float
    largest: float
    unknown: int
    counts: bool

    @property
    def relative(self) -> float:
        """max over largest; NaN where a value is not finite, as nothing is known there."""
        if self.unknown:
            return math.nan
        if self.max == 0.0:
            return 0.0
        return self.max / self.largest if self.largest > 0.0 else math.inf


@dataclass(frozen=True)
class Comparison:
    """The differences of two results.

    `fields`: the fields that both have.
    `shapes`: nodes along x(, y(, z)) of the first and of the second.
    `interpolated`: the number of the result that is interpolated at the nodes of the other; None where both have them.
    `alone`: the fields that only the first has, and those that only the second has.
    `keys`, `provenance`: the keys of the case, and the attributes of the provenance, with what stands there in each;
    None where nothing does.
    `statuses`: how each solve ended.
    `notes`: what else is to be said of the files, a line each.
    """

    fields: tuple[FieldDifference, ...]
    shapes: tuple[tuple[int, ...], tuple[int, ...]]
    interpolated: int | None
    alone: tuple[tuple[str, ...], tuple[str, ...]]
    keys: dict[str, tuple[str | None, str | None]]
    provenance: dict[str, tuple[str | None, str | None]]
    statuses: tuple[str, str]
    notes: tuple[str, ...]

    def beyond(self, rtol: float) -> list[FieldDifference]:
        """The fields that count and do not agree within a relative difference."""
        return [field for field in self.fields if field.counts and not field.relative <= rtol]


def compare_apart(first: str | Path, second: str | Path, fields: Collection[str] = ()) -> Comparison:
    """As `compare`, in a process of its own: a file that makes the HDF5 library crash, hang or fill the memory is
    damaged, and this process goes on."""
    try:
        kind, found = apart.call(
            "poisson.output.comparison:answer", os.fspath(first), os.fspath(second), sorted(set(fields))
        )
    except apart.Lost as lost:
        lines = damaged(f"the HDF5 library fails: {lost}")
        raise OutputError(f"{first} or {second}: {lines}") from None
    if kind == "case":
        raise CaseError(found)
    if kind != "comparison":
        raise OutputError(found)
    return Comparison(
        fields=tuple(FieldDifference(**field) for field in found["fields"]),
        shapes=(tuple(found["shapes"][0]), tuple(found["shapes"][1])),
        interpolated=found["interpolated"],
        alone=(tuple(found["alone"][0]), tuple(found["alone"][1])),
        keys={key: (one, other) for key, (one, other) in found["keys"].items()},
        provenance={key: (one, other) for key, (one, other) in found["provenance"].items()},
        statuses=(found["statuses"][0], found["statuses"][1]),
        notes=tuple(found["notes"]),
    )


def answer(first: str, second: str, fields: list[str]) -> tuple[str, Any]:
    """The answer of `compare`, as data: ``comparison`` and its parts, ``case`` or ``error`` and what is wrong."""
    try:
        return "comparison", asdict(compare(first, second, fields))
    except CaseError as error:
        return "case", list(error.mistakes)
    except OutputError as error:
        return "error", str(error)


def compare(first: str | Path, second: str | Path, fields: Collection[str] = ()) -> Comparison:
    """Compare two results, reading both in slabs.

    Where the grids differ, the nodes of the coarser are compared, at which the finer is interpolated by cubics if it
    lacks them.

    `first`, `second`: files written by `poisson.output.hdf5.write`. `fields`: the fields to compare; by default all
    that both have, of which those in `UNCOUNTED` do not count. Raises `OutputError` if a file is missing, locked, not a
    result, or damaged; `CaseError` if a field is not in both, or a vector in one only, or the grids have different
    axes or boxes.
    """
    with _held(Path(first)) as one, _held(Path(second)) as other:
        _require_one_box(one, other)
        readers, interpolated = _readers(one, other)
        both = one.fields.keys() & other.fields.keys()
        for name in fields:
            if name not in both:
                raise CaseError(
                    f"no field {one_line(name)!r} in both results; common fields: {', '.join(sorted(both))}"
                )
        chosen = sorted((name for name in both if not fields or name in fields), key=lambda name: (name != "u", name))
        for name in chosen:
            if one.fields[name].ndim != other.fields[name].ndim:
                raise CaseError(f"{one_line(name)} is a vector in only one of {first} and {second}")
        of_u = 0.0
        if both.intersection(SCALED_BY_U, chosen):
            of_u = max(map(_largest, readers[0]("u", max(1, _SLAB_VALUES // one.row_size("u")))), default=0.0)
        compared = []
        for name in chosen:
            rows = max(1, _SLAB_VALUES // max(result.row_size(name) for result in (one, other)))
            pairs = zip(*(reader(name, rows) for reader in readers), strict=True)
            compared.append(_difference(name, pairs, of_u if name in SCALED_BY_U else None, bool(fields)))
        notes = [f"{each.path}: {EDITED}" for each in (one, other) if each.edited]
        try:
            keys = differences(one.case, other.case, BESIDE)
        except CaseError as error:
            keys = {}
            notes.append(f"the cases cannot be compared: {one_line(error.mistakes[0])}")
        return Comparison(
            tuple(compared),
            (one.grid[2], other.grid[2]),
            interpolated,
            (tuple(sorted(one.fields.keys() - both)), tuple(sorted(other.fields.keys() - both))),
            {one_line(key): (_line(values[0]), _line(values[1])) for key, values in keys.items()},
            _provenance(one.provenance, other.provenance),
            (one.status, other.status),
            tuple(notes),
        )


_MOST_COORDINATES = 1 << 30
"""Bytes of the coordinates along an axis that are read."""


@dataclass(frozen=True)
class _Held:
    """A result that is open, and what is known of it."""

    path: Path
    grid: Grid
    placements: tuple[Placed | None, ...]
    names: tuple[str, ...]
    fields: dict[str, h5py.Dataset]
    provenance: dict[str, Any]
    case: str
    status: str
    edited: bool

    @property
    def coordinates(self) -> list[NDArray[np.float64]]:
        """Coordinates of the nodes along x(, y(, z))."""
        return [
            np.linspace(lower, upper, nodes, endpoint=not wraps) if placed is None else placed[1]
            for lower, upper, nodes, wraps, placed in zip(*self.grid, self.placements, strict=True)
        ]

    def slabs(self, stride: Sequence[int], name: str, rows: int) -> Iterator[NDArray[np.float64]]:
        """Every so many nodes of a field, in the order x(, y(, z)), so many rows of them at once."""
        dataset, steps = self.fields[name], stride[::-1]
        inner = tuple(slice(None, None, step) for step in steps[1:])
        checksum = zlib.crc32(b"")
        for start in range(0, len(dataset), rows * steps[0]):
            with blaming(self.path):
                found: Any = np.ascontiguousarray(dataset[start : start + rows * steps[0] : steps[0]])
            apart.alive()
            checksum = zlib.crc32(found, checksum)
            yield found[(slice(None), *inner)].astype(np.float64)
        written = dataset.attrs.get(DATA_CHECKSUM)
        # Of every value only.
        if steps[0] == 1 and written is not None and int(written) != checksum:
            raise OutputError(f"{self.path}: {damaged(WRONG_VALUES)}")

    def between(self, places: Sequence[NDArray[np.float64]], name: str, rows: int) -> Iterator[NDArray[np.float64]]:
        """A field at other places along x(, y(, z)), by cubics, so many rows of them at once."""
        for _ in self.slabs((1,) * len(places), name, rows):
            pass  # the checksum
        lower, upper, _, periodic = self.grid
        tables = [
            nodes_and_weights(points, (high - low) * wraps, at)
            for points, low, high, wraps, at in zip(self.coordinates, lower, upper, periodic, places, strict=True)
        ][::-1]
        for start in range(0, len(places[-1]), rows):
            nodes, weights = (table[start : start + rows] for table in tables[0])
            needed, position = np.unique(nodes, return_inverse=True)
            runs = np.split(needed, np.flatnonzero(np.diff(needed) > 1) + 1)
            with blaming(self.path):
                values = np.concatenate([self.fields[name][run[0] : run[-1] + 1] for run in runs], dtype=np.float64)
            apart.alive()
            here = (position.reshape(nodes.shape), weights)
            for axis, (numbers, shares) in enumerate((here, *tables[1:])):
                values = np.moveaxis(values, axis, -1)
                values = sum(values[..., number] * share for number, share in zip(numbers.T, shares.T, strict=True))
                values = np.moveaxis(values, -1, axis)
            yield values

    def row_size(self, name: str) -> int:
        """Values in a row of a field, or a plane in 3D."""
        return math.prod(self.fields[name].shape[1:])


@contextlib.contextmanager
def _held(path: Path) -> Iterator[_Held]:
    with opened(path) as file:
        with blaming(path):
            grid = grid_of(file)
            provenance = dict(group(file, "provenance").attrs)
            held = _Held(
                path,
                grid,
                placements_of(file, _MOST_COORDINATES),
                tuple(scales_of(file)),
                {name: field for name in file if (field := field_of(file, name, grid[2])) is not None},
                provenance,
                str(provenance.get("case", "")),
                one_line(file.attrs["status"]),
                edited(file),
            )
        yield held


def _line(text: str | None) -> str | None:
    return None if text is None else one_line(text)


def _require_one_box(one: _Held, other: _Held) -> None:
    """Raises `CaseError` if the grids have other axes, boxes or periods."""
    (lower, upper, shape, periodic), (others_lower, others_upper, others_shape, others_periodic) = one.grid, other.grid
    where = f"{one.path} and {other.path}"
    if len(shape) != len(others_shape):
        raise CaseError(f"{where} have grids in {len(shape)}D and {len(others_shape)}D: nothing to compare")
    if one.names != other.names:
        names = " and ".join(", ".join(each.names) for each in (one, other))
        raise CaseError(f"{where} have axes {names}: nothing to compare")
    for axis, ends in enumerate(zip(lower, upper, others_lower, others_upper, strict=True)):
        slack = _SAME_CORNER * max(abs(end) for end in (*ends, ends[1] - ends[0]))
        if not (abs(ends[0] - ends[2]) <= slack and abs(ends[1] - ends[3]) <= slack):
            spans = f"[{ends[0]:.10g}, {ends[1]:.10g}] and [{ends[2]:.10g}, {ends[3]:.10g}]"
            raise CaseError(f"{where} have different boxes, {spans} along {one.names[axis]}: nothing to compare")
    if periodic != others_periodic:
        axis = next(axis for axis in range(len(shape)) if periodic[axis] != others_periodic[axis])
        raise CaseError(f"{where}: only one of the grids is periodic along {one.names[axis]}: nothing to compare")


def _readers(one: _Held, other: _Held) -> tuple[tuple[Reader, Reader], int | None]:
    """How each result is read at the nodes that are compared, and the number of the one that is interpolated there.

    The nodes are common ones where every node of the coarser is one of the finer, those of the coarser otherwise.
    """
    shapes, periodic = (one.grid[2], other.grid[2]), one.grid[3]
    alone = (1,) * len(periodic)
    if all(
        first is second or bool(first and second and np.array_equal(first[1], second[1]))
        for first, second in zip(one.placements, other.placements, strict=True)
    ):
        cells = [[nodes - (not wraps) for nodes, wraps in zip(shape, periodic, strict=True)] for shape in shapes]
        for coarse, fine in ((0, 1), (1, 0)):
            if all(few > 0 and many % few == 0 for few, many in zip(cells[coarse], cells[fine], strict=True)):
                factors = tuple(many // few for few, many in zip(cells[coarse], cells[fine], strict=True))
                strides = (alone, factors) if fine else (factors, alone)
                return (partial(one.slabs, strides[0]), partial(other.slabs, strides[1])), None
    if math.prod(shapes[0]) <= math.prod(shapes[1]):
        return (partial(one.slabs, alone), partial(other.between, one.coordinates)), 1
    return (partial(one.between, other.coordinates), partial(other.slabs, alone)), 0


def _difference(
    name: str, pairs: Iterable[tuple[NDArray[np.float64], NDArray[np.float64]]], largest: float | None, asked_for: bool
) -> FieldDifference:
    """The difference of a field; `largest` is what it is relative to, if that is not the largest value of the first."""
    most = squares = own = 0.0
    known = unknown = 0
    for one, other in pairs:
        finite = np.isfinite(one) & np.isfinite(other)
        unknown += finite.size - int(np.count_nonzero(finite))
        with np.errstate(over="ignore"):
            off = np.abs(one[finite] - other[finite])
            if off.size:
                most = max(most, float(off.max()))
                squares += float(np.sum(off**2))
                known += off.size
        own = max(own, _largest(one))
    rms = min(math.sqrt(squares / known), most) if known else 0.0
    counts = asked_for or name not in UNCOUNTED
    return FieldDifference(name, most, rms, own if largest is None else largest, unknown, counts)


def _largest(values: NDArray[np.float64]) -> float:
    finite = values[np.isfinite(values)]
    return float(np.abs(finite).max()) if finite.size else 0.0


def _provenance(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, tuple[str | None, str | None]]:
    """The attributes that differ, but for times and what stands elsewhere."""
    names = [
        name
        for name in dict.fromkeys((*one, *other))
        if name not in _UNSAID and not name.startswith("seconds_") and str(one.get(name)) != str(other.get(name))
    ]
    return {one_line(name): (_said(one, name), _said(other, name)) for name in names}


def _said(attributes: Mapping[str, Any], name: str) -> str | None:
    if name not in attributes:
        return None
    value = attributes[name]
    return f"{float(value):.6g}" if isinstance(value, (float, np.floating)) else one_line(value)
