# SPDX-License-Identifier: MIT
"""The contents of a result file, in lines for people and as data, whatever state the file is in."""

from __future__ import annotations

import math
import os
import sys
import zlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from poisson import apart
from poisson.errors import OutputError
from poisson.output.convergence import log_slope
from poisson.output.hdf5 import DATA_CHECKSUM, RANGE, Damaged
from poisson.output.reading import (
    EDITED,
    NOT_FIELDS,
    WRONG_VALUES,
    damaged,
    edited,
    group,
    one_line,
    opened,
    scales_of,
    values,
)
from poisson.output.record import FIELD_NOTES, Span
from poisson.words import quantity

if TYPE_CHECKING:
    import h5py


_SLAB_VALUES = 1 << 22
MOST_READ = 1 << 28
"""The bytes of a field of which every value is read; of a larger one the range is told that it was written with."""
_SECONDS = "seconds_"
_STEEPEST = 700.0
"""ln of the largest factor, above which it is no number any more."""


def describe_apart(path: str | Path, *, whole: bool = False) -> str:
    """As `describe`, or with `whole` from all values however many there are, in a process of its own: a file that makes
    the HDF5 library crash, hang or fill the memory is damaged, and this process goes on.

    `path`: a file written by `poisson.output.hdf5.write`. Raises `OutputError` as `describe`.
    """
    return str(_asked(path, "describe whole" if whole else "describe"))


def facts_apart(path: str | Path) -> dict[str, Any]:
    """As `facts`, in a process of its own, as `describe_apart`."""
    found: dict[str, Any] = _asked(path, "facts")
    return found


def _asked(path: str | Path, what: str) -> Any:
    try:
        kind, found = apart.call("poisson.output.description:answer", os.fspath(path), what)
    except apart.Lost as lost:
        raise OutputError(f"{path}: {damaged(f'the HDF5 library fails: {lost}')}") from None
    if kind == "error":
        raise OutputError(found)
    return found


def answer(path: str, what: str) -> tuple[str, Any]:
    """The answer of `describe` or `facts`, whose name is given, about a file; or ``error`` and its line."""
    name, _, whole = what.partition(" ")
    most = sys.maxsize if whole else MOST_READ
    try:
        return what, {"describe": describe, "facts": facts}[name](path, apart.alive, most)
    except OutputError as error:
        return "error", str(error)


def describe(path: str | Path, alive: Callable[[], object] = lambda: None, most: int = MOST_READ) -> str:
    """A description of a result file for people.

    `path`: a file written by `poisson.output.hdf5.write`. `alive`: called after each part of a field that was read.
    `most`: fields of more bytes are not read where the file tells their range. Returns: several lines without control
    characters. The fields are read in slabs, so that a file larger than the memory can be described. Raises
    `OutputError` if the file is missing, locked, not an HDF5 file, not one of ours, or damaged.
    """
    path = Path(path)
    with opened(path) as file:
        notes = [(_indented(name), one_line(text)) for name, text in _notes(_facts(file, alive, most))]
        width = max(len(name) for name, _ in notes)
        lines = (f"{name:<{width}}  {text}".rstrip() for name, text in notes)
        return "\n".join([f"{path}: {one_line(file.attrs['title']) or 'untitled'}", *lines])


def facts(path: str | Path, alive: Callable[[], object] = lambda: None, most: int = MOST_READ) -> dict[str, Any]:
    """The same as numbers and texts, of which JSON knows all but those that are not finite.

    Raises `OutputError` as `describe`.
    """
    with opened(Path(path)) as file:
        return _facts(file, alive, most)


_RESULT_ATTRIBUTES = frozenset(
    ("case", "equation", "status", "advice", "iterations", "norm", "residual", "target", "error_rms", "error_max")
)
"""Attributes of the provenance that describe the result and not the machine."""


def _indented(name: str) -> str:
    return one_line(name) if name == name.lstrip() else f"  {one_line(name)}"


def _facts(file: h5py.File, alive: Callable[[], object], most: int) -> dict[str, Any]:
    root, attributes = file.attrs, group(file, "provenance").attrs
    provenance = {name: _plain(attributes[name]) for name in attributes}
    group(file, "convergence")
    axes = scales_of(file)
    shape = tuple(axis.size for axis in reversed(axes.values()))
    found: dict[str, Any] = {
        "title": str(root["title"]),
        "edited": edited(file),
        "equation": str(root["equation"]),
        "status": str(root["status"]),
        "converged": bool(root["converged"]),
        "advice": str(root["advice"]),
        "shape": list(shape[::-1]),
        "axes": {},
    }
    for name, axis in axes.items():
        _span(axis, alive)
        ends = {key: float(axis.attrs[key]) for key in ("lower", "upper", "spacing")}
        found["axes"][name] = ends | {"periodic": bool(axis.attrs["periodic"])}
        if "placement" in axis.attrs:
            found["axes"][name]["placement"] = str(axis.attrs["placement"])
    found |= {name: provenance[name] for name in ("iterations", "residual", "norm", "target")}
    sweeps, norms = (values(file, f"convergence/{name}")[:] for name in ("iteration", "residual"))
    found["rate"] = _rate(sweeps, norms)
    found |= {name: provenance.get(name) for name in ("error_rms", "error_max")}
    found["provenance"] = {
        name: value
        for name, value in provenance.items()
        if name not in _RESULT_ATTRIBUTES and not name.startswith(_SECONDS) and value != ""
    }
    found["seconds"] = {
        name.removeprefix(_SECONDS): float(value) for name, value in provenance.items() if name.startswith(_SECONDS)
    }
    if "performance" in file:
        reached = group(file, "performance").attrs
        found["performance"] = {name: _plain(reached[name]) for name in reached}
    found["fields"] = {}
    for name in file:
        if name not in NOT_FIELDS:
            dataset = values(file, name)
            if dataset.shape[: len(shape)] != shape or dataset.dtype.kind != "f":
                if name in FIELD_NOTES:
                    raise Damaged(f"{name} has the shape {dataset.shape} and the type {dataset.dtype}")
                # Someone else has added it.
                continue
            told = dataset.nbytes > most and RANGE in dataset.attrs
            lowest, highest, bad = (*map(float, dataset.attrs[RANGE]), 0) if told else _span(dataset, alive)
            found["fields"][name] = {
                "long_name": str(dataset.attrs.get("long_name", name)),
                "units": str(dataset.attrs.get("units", "")),
                "type": str(dataset.dtype),
                "least": lowest,
                "largest": highest,
                "not_finite": bad,
                "read": not told,
            }
    return found


def _plain(value: Any) -> Any:
    """An attribute as Python has it."""
    return value.tolist() if isinstance(value, (np.generic, np.ndarray)) else value


def _notes(found: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The name and the text of each line of a description after the title."""
    if found["edited"]:
        yield "warning", EDITED
    yield "equation", found["equation"]
    yield "status", f"{found['status']}: {found['advice']}"
    yield "grid", " x ".join(map(str, found["shape"])) + " nodes"
    for name, axis in found["axes"].items():
        wraps = ", periodic" if axis["periodic"] else ""
        wraps += f" on average, {axis['placement']}" if "placement" in axis else ""
        yield (f"  {name}", f"[{axis['lower']:g}, {axis['upper']:g}], spacing {axis['spacing']:.6g}{wraps}")
    yield "iterations", str(found["iterations"])
    yield "residual", f"{found['residual']:.3e} ({found['norm']}), target {found['target']:.3e}"
    yield "convergence", _rate_for_people(found["rate"])
    if found["error_rms"] is not None:
        yield "error", f"rms {found['error_rms']:.3e}, max {found['error_max']:.3e}"
    for name, value in found["provenance"].items():
        yield name.replace("_", " "), str(value)
    if found["seconds"]:
        yield "time", ", ".join(f"{name} {value:.3g} s" for name, value in found["seconds"].items())
    if "performance" in found:
        yield from _reached(found["performance"])
    yield "fields", ""
    for name, field in found["fields"].items():
        yield f"  {name}", f"{field['long_name']}: {_span_for_people(field)} ({field['type']})"
    if told := [name for name, field in found["fields"].items() if not field["read"]]:
        yield "not read", f"{', '.join(told)}: large, with the range as it was written; 'compare' reads all values"


def _reached(attributes: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The speed that the operations of the loop reached."""
    yield "operations", f"copy {attributes['bandwidth'] / 1e9:.4g} GB/s"
    parts = zip(*(attributes[name] for name in ("operations", "grids", "calls", "seconds", "bytes")), strict=True)
    for name, grid, calls, seconds, moved in parts:
        yield (
            f"  {name}",
            f"{grid}{': ' if grid else ''}{quantity(calls, 'call')}, {seconds:.3g} s, {moved / seconds / 1e9:.4g} GB/s",
        )


def _rate(sweeps: NDArray[np.int64], norms: NDArray[np.float64]) -> float | None:
    """The factor of an iteration over the second half of the history, where the slowest part of the error is left.

    None where there are too few reads of the residual to tell.
    """
    later = slice(len(sweeps) // 2, None)
    slope = log_slope(zip(sweeps[later].tolist(), norms[later].tolist(), strict=True))
    return None if slope is None else math.exp(min(slope, _STEEPEST))


def _rate_for_people(rate: float | None) -> str:
    if rate is None:
        return "too few residual norms to tell"
    if rate >= 1.0:
        return "the residual does not fall"
    digits = f", {math.log(10.0) / -math.log(rate):.4g} iterations per decimal digit" if rate > 0.0 else ""
    return f"a factor of {rate:.8g} per iteration{digits}"


def _span(dataset: h5py.Dataset, alive: Callable[[], object]) -> tuple[float | None, float | None, int]:
    """Smallest and largest finite value of a field, if there is one, and how many values are not finite.

    Raises `Damaged` if the values are in one run of bytes and do not fit their checksum.
    """
    spans, checksum = list[Span](), 0
    rows = max(1, _SLAB_VALUES * len(dataset) // dataset.size)
    for start in range(0, len(dataset), rows):
        slab = dataset[start : start + rows]
        alive()
        checksum = zlib.crc32(slab, checksum)
        spans.append(Span.of(slab))
    if DATA_CHECKSUM in dataset.attrs and int(dataset.attrs[DATA_CHECKSUM]) != checksum:
        raise Damaged(WRONG_VALUES)
    span = Span.joined(spans)
    return (None, None, span.not_finite) if span.not_finite == dataset.size else span


def _span_for_people(field: Mapping[str, Any]) -> str:
    if field["least"] is None:
        return "no finite value"
    bad = field["not_finite"]
    return f"{field['least']:.6g} to {field['largest']:.6g}" + (f", {bad} not finite" if bad else "")
