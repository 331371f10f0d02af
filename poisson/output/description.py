"""What a result file holds, in lines for people, whatever state the file is in."""

from __future__ import annotations

import math
import os
import zlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from poisson import apart
from poisson.errors import OutputError
from poisson.mesh.grid import AXES
from poisson.output.convergence import log_slope
from poisson.output.hdf5 import DATA_CHECKSUM, Damaged
from poisson.output.reading import EDITED, NOT_FIELDS, WRONG_VALUES, damaged, edited, group, one_line, opened, values
from poisson.output.record import FIELD_NOTES

if TYPE_CHECKING:
    import h5py


_SLAB_VALUES = 1 << 22


def describe_apart(path: str | Path, silence: float = apart.LONGEST_SILENCE) -> str:
    """As `describe`, in a process of its own: a file that makes the HDF5 library crash, hang or fill the memory is
    damaged, and this process goes on.

    Parameters
    ----------
    path : str or Path
        A file written by `poisson.output.hdf5.write`.
    silence : float
        Seconds after which reading has come to a halt.

    Raises
    ------
    OutputError
        As `describe`.
    """
    try:
        kind, text = apart.call("poisson.output.description:answer", os.fspath(path), silence=silence)
    except apart.Lost as lost:
        raise OutputError(f"{path}: {damaged(f'the HDF5 library does not survive it: {lost}')}") from None
    if kind != "text":
        raise OutputError(text)
    return str(text)


def answer(path: str) -> tuple[str, str]:
    """What `describe` says of a file: ``text`` and the text, or ``error`` and its line."""
    try:
        return "text", describe(path, apart.alive)
    except OutputError as error:
        return "error", str(error)


def describe(path: str | Path, alive: Callable[[], object] = lambda: None) -> str:
    """A description of a result file for people.

    Parameters
    ----------
    path : str or Path
        A file written by `poisson.output.hdf5.write`.
    alive : callable
        Called after each part of a field that was read.

    Returns
    -------
    str
        Several lines without control characters. The fields are read in slabs, so that a file larger than the memory
        can be described.

    Raises
    ------
    OutputError
        If the file is missing, locked, not an HDF5 file, not one of ours, or damaged.
    """
    path = Path(path)
    with opened(path) as file:
        notes = list(_description(file, alive))
        width = max(len(name) for name, _ in notes)
        lines = (f"{name:<{width}}  {text}".rstrip() for name, text in notes)
        return "\n".join([f"{path}: {one_line(file.attrs['title']) or 'untitled'}", *lines])


_RESULT_ATTRIBUTES = frozenset(
    ("case", "equation", "status", "advice", "iterations", "norm", "residual", "target", "error_rms", "error_max")
)
"""Attributes of the provenance that describe the result and not the machine."""


def _description(file: h5py.File, alive: Callable[[], object]) -> Iterator[tuple[str, str]]:
    """The name and the text of each line of a description after the title, each fit to be shown."""
    for name, text in _notes(file, alive):
        yield one_line(name) if name == name.lstrip() else f"  {one_line(name)}", one_line(text)


def _notes(file: h5py.File, alive: Callable[[], object]) -> Iterator[tuple[str, str]]:
    root, provenance = file.attrs, group(file, "provenance").attrs
    group(file, "convergence")
    axes = [values(file, name) for name in AXES if name in file]
    shape = tuple(axis.size for axis in reversed(axes))
    if edited(file):
        yield "warning", EDITED
    yield "equation", root["equation"]
    yield "status", f"{root['status']}: {root['advice']}"
    yield "grid", " x ".join(str(axis.size) for axis in axes) + " nodes"
    for name, axis in zip(AXES, axes, strict=False):
        ends, wraps = axis.attrs, ", periodic" if axis.attrs["periodic"] else ""
        _span(axis, alive)
        yield f"  {name}", f"[{ends['lower']:g}, {ends['upper']:g}], spacing {ends['spacing']:.6g}{wraps}"
    yield "iterations", str(provenance["iterations"])
    yield "residual", f"{provenance['residual']:.3e} ({provenance['norm']}), target {provenance['target']:.3e}"
    yield "convergence", _rate(*(values(file, f"convergence/{name}")[:] for name in ("iteration", "residual")))
    if "error_rms" in provenance:
        yield "error", f"rms {provenance['error_rms']:.3e}, max {provenance['error_max']:.3e}"
    for name, value in provenance.items():
        if name not in _RESULT_ATTRIBUTES and not name.startswith("seconds_") and value != "":
            yield name.replace("_", " "), str(value)
    seconds = {name: value for name, value in provenance.items() if name.startswith("seconds_")}
    if seconds:
        parts = (f"{name.removeprefix('seconds_')} {value:.3g} s" for name, value in seconds.items())
        yield "time", ", ".join(parts)
    if "performance" in file:
        yield from _reached(group(file, "performance").attrs)
    yield "fields", ""
    for name in file:
        if name not in NOT_FIELDS:
            dataset = values(file, name)
            if dataset.shape[: len(shape)] != shape or dataset.dtype.kind != "f":
                if name in FIELD_NOTES:
                    raise Damaged(f"{name} has the shape {dataset.shape} and the type {dataset.dtype}")
                # Someone else has added it.
                continue
            yield f"  {name}", f"{dataset.attrs.get('long_name', name)}: {_span(dataset, alive)} ({dataset.dtype})"


def _reached(attributes: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """What the operations of the loop reached."""
    yield "operations", f"{attributes['yardstick']} {attributes['bandwidth'] / 1e9:.4g} GB/s"
    parts = zip(*(attributes[name] for name in ("operations", "grids", "calls", "seconds", "bytes")), strict=True)
    for name, grid, calls, seconds, moved in parts:
        yield (
            f"  {name}",
            f"{grid}{': ' if grid else ''}{calls} calls, {seconds:.3g} s, {moved / seconds / 1e9:.4g} GB/s",
        )


def _rate(sweeps: NDArray[np.int64], norms: NDArray[np.float64]) -> str:
    """The convergence over the second half of the history, where the slowest part of the error is left."""
    later = slice(len(sweeps) // 2, None)
    slope = log_slope(zip(sweeps[later].tolist(), norms[later].tolist(), strict=True))
    if slope is None:
        return "too few reads of the residual to tell"
    if slope >= 0.0:
        return "the residual does not fall"
    return f"a factor of {math.exp(slope):.8g} each iteration, {math.log(10.0) / -slope:.4g} iterations a decimal digit"


def _span(dataset: h5py.Dataset, alive: Callable[[], object]) -> str:
    """Smallest and largest finite value of a field, and how many values are not finite.

    Raises
    ------
    Damaged
        If the values are in one run of bytes and do not fit their checksum.
    """
    lowest, highest, bad, checksum = math.inf, -math.inf, 0, 0
    rows = max(1, _SLAB_VALUES * len(dataset) // dataset.size)
    for start in range(0, len(dataset), rows):
        slab = dataset[start : start + rows]
        alive()
        checksum = zlib.crc32(slab, checksum)
        finite = slab[np.isfinite(slab)]
        bad += slab.size - finite.size
        if finite.size:
            lowest, highest = min(lowest, float(finite.min())), max(highest, float(finite.max()))
    if DATA_CHECKSUM in dataset.attrs and int(dataset.attrs[DATA_CHECKSUM]) != checksum:
        raise Damaged(WRONG_VALUES)
    if bad == dataset.size:
        return "no finite value"
    return f"{lowest:.6g} to {highest:.6g}" + (f", {bad} not finite" if bad else "")
