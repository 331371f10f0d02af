"""What a result file holds, in lines for people, whatever state the file is in."""

from __future__ import annotations

import errno
import json
import math
import os
import select
import signal
import subprocess
import sys
import zlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

import poisson
from poisson.errors import OutputError
from poisson.mesh.grid import AXES
from poisson.output.convergence import log_slope
from poisson.output.hdf5 import (
    CHECKSUM,
    COMPONENT,
    DATA_CHECKSUM,
    FORMAT,
    FORMAT_VERSION,
    Damaged,
    require_heaps,
    text_checksum,
)
from poisson.output.record import FIELD_NOTES
from poisson.plain import NotPlain, find, require_file

if TYPE_CHECKING:
    import h5py

LONGEST_SILENCE = 30.0
"""Seconds after which reading has come to a halt: a slab of a field takes less from any disk."""

MEMORY = 4 << 30
"""Bytes of addresses that reading may take beside those of the modules it loads."""

WRONG_VALUES = "values do not fit their checksum"

_SLAB_VALUES = 1 << 22
_MOST_TEXT = 1000
_MOST_PACKED = 10**6
"""No filter makes values smaller by more than this factor."""

# This package may have been found in a folder that is no longer in the path, or stand in the path twice.
_CHILD = """
import importlib.util, json, os, sys
sys.path[:], place = json.loads(sys.argv[1])
spec = importlib.util.spec_from_file_location("poisson", place, submodule_search_locations=[os.path.dirname(place)])
sys.modules["poisson"] = importlib.util.module_from_spec(spec)
spec.loader.exec_module(sys.modules["poisson"])
from poisson.output import description
description.child()
"""


def describe_apart(path: str | Path, silence: float = LONGEST_SILENCE) -> str:
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
    command = [sys.executable, "-c", _CHILD, json.dumps([sys.path, poisson.__file__]), os.fspath(path)]
    answer = b""
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as process:
        assert process.stdout is not None
        try:
            # The first dot comes when all modules are loaded, however long that takes.
            while select.select([process.stdout], [], [], silence if answer else None)[0]:
                part = os.read(process.stdout.fileno(), 1 << 16)
                if not part:
                    process.wait(silence)
                    break
                answer += part
            else:
                raise OutputError(f"{path}: {_damaged('reading it comes to no end')}")
        finally:
            process.kill()
    # The start and each slab that was read are dots before the answer.
    try:
        kind, text = json.loads(answer.lstrip(b"."))
    except ValueError:
        name = signal.Signals(-process.returncode).name if process.returncode < 0 else "no answer"
        raise OutputError(f"{path}: {_damaged(f'the HDF5 library cannot read it: {name}')}") from None
    if kind != "text":
        raise OutputError(text)
    return str(text)


def child() -> None:
    """Describe the file of the command line for `describe_apart`, which reads this from the standard output."""
    import resource

    import h5py  # noqa: F401 - the limit is for what comes after it

    loaded = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (loaded + MEMORY, resource.RLIM_INFINITY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    place = os.dup(1)
    os.dup2(2, 1)
    os.write(place, b".")
    try:
        answer = ("text", describe(sys.argv[2], lambda: os.write(place, b".")))
    except OutputError as error:
        answer = ("error", str(error))
    with os.fdopen(place, "w") as stream:
        json.dump(answer, stream)


def _damaged(reason: str) -> str:
    return f"the file is damaged ({reason}); solve the case again"


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
    import h5py

    path = Path(path)
    try:
        _require_file(path)
        if not h5py.is_hdf5(path):
            raise OutputError(f"{path}: not an HDF5 file; give a result of 'poisson solve'")
        require_heaps(path)
        # Where the disk knows no locks, there are none to wait for.
        with h5py.File(path, "r", locking="best-effort") as file:
            _check_format(path, file)
            notes = list(_description(file, alive))
            width = max(len(name) for name, _ in notes)
            lines = (f"{name:<{width}}  {text}".rstrip() for name, text in notes)
            return "\n".join([f"{path}: {_one_line(file.attrs['title']) or 'untitled'}", *lines])
    except OutputError:
        raise
    except FileNotFoundError as error:
        raise OutputError(f"{path}: no such file; check the name") from error
    except PermissionError as error:
        raise OutputError(f"{path}: no permission to read it; change the permissions of the file") from error
    except Exception as error:  # the readers of a damaged file let through whatever their parsers raise
        if isinstance(error, OSError) and error.errno in (errno.EAGAIN, errno.EACCES):
            raise OutputError(f"{path}: locked by another program that has it open; close it there") from error
        reason = _one_line(error.args[0] if isinstance(error, KeyError) and error.args else error)
        if "filter returned failure" in reason:
            reason = WRONG_VALUES
        raise OutputError(f"{path}: {_damaged(reason or type(error).__name__)}") from error


def _require_file(path: Path) -> None:
    try:
        require_file(path)
    except NotPlain as error:
        advice = "; give the name of a file in it" if path.is_dir() else ""
        raise OutputError(f"{path}: it {error}{advice}") from error
    with path.open("rb"):
        pass


def _one_line(text: object) -> str:
    """A text out of a file in one line, of no more than it may have, without what could steer a terminal."""
    whole = text.decode("utf-8", "replace") if isinstance(text, bytes) else str(text)
    shown = "".join(
        character if character.isprintable() else "\N{REPLACEMENT CHARACTER}"
        for character in " ".join(whole[: 2 * _MOST_TEXT].split())
    )
    return shown if len(shown) <= _MOST_TEXT else f"{shown[:_MOST_TEXT]} …"


_RESULT_ATTRIBUTES = frozenset(
    ("case", "equation", "status", "advice", "iterations", "norm", "residual", "target", "error_rms", "error_max")
)
"""Attributes of the provenance that describe the result and not the machine."""


def _check_format(path: Path, file: h5py.File) -> None:
    name, _, version = str(file.attrs.get("format", "")).rpartition(" ")
    if name != FORMAT or not version.isdecimal():
        raise OutputError(f"{path}: an HDF5 file, but not a result of 'poisson solve'")
    if int(version) > FORMAT_VERSION:
        raise OutputError(
            f"{path}: written by a newer poisson (format {version}, this one reads {FORMAT_VERSION}); upgrade poisson"
        )


def _description(file: h5py.File, alive: Callable[[], object]) -> Iterator[tuple[str, str]]:
    """The name and the text of each line of a description after the title, each fit to be shown."""
    for name, text in _notes(file, alive):
        yield _one_line(name) if name == name.lstrip() else f"  {_one_line(name)}", _one_line(text)


def _notes(file: h5py.File, alive: Callable[[], object]) -> Iterator[tuple[str, str]]:
    root, provenance = file.attrs, _group(file, "provenance").attrs
    _group(file, "convergence")
    axes = [_values(file, name) for name in AXES if name in file]
    shape = tuple(axis.size for axis in reversed(axes))
    if CHECKSUM in root and int(root[CHECKSUM]) != text_checksum(file):
        yield "warning", "the texts are not those that were written: the file was edited, or is damaged"
    yield "equation", root["equation"]
    yield "status", f"{root['status']}: {root['advice']}"
    yield "grid", " x ".join(str(axis.size) for axis in axes) + " nodes"
    for name, axis in zip(AXES, axes, strict=False):
        ends, wraps = axis.attrs, ", periodic" if axis.attrs["periodic"] else ""
        _span(axis, alive)
        yield f"  {name}", f"[{ends['lower']:g}, {ends['upper']:g}], spacing {ends['spacing']:.6g}{wraps}"
    yield "iterations", str(provenance["iterations"])
    yield "residual", f"{provenance['residual']:.3e} ({provenance['norm']}), target {provenance['target']:.3e}"
    yield "convergence", _rate(*(_values(file, f"convergence/{name}")[:] for name in ("iteration", "residual")))
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
        yield from _reached(_group(file, "performance").attrs)
    yield "fields", ""
    for name in file:
        if name not in (*AXES, COMPONENT, "convergence", "provenance", "performance"):
            dataset = _values(file, name)
            if dataset.shape[: len(shape)] != shape or dataset.dtype.kind != "f":
                if name in FIELD_NOTES:
                    raise Damaged(f"{name} has the shape {dataset.shape} and the type {dataset.dtype}")
                # Someone else has added it.
                continue
            yield f"  {name}", f"{dataset.attrs.get('long_name', name)}: {_span(dataset, alive)} ({dataset.dtype})"


def _group(file: h5py.File, name: str) -> h5py.Group:
    import h5py

    found = find(file, name)
    if not isinstance(found, h5py.Group):
        raise Damaged(f"{name} is not there")
    return found


def _values(file: h5py.File, name: str) -> h5py.Dataset:
    """A data set that holds its values."""
    import h5py

    try:
        found = find(file, name)
    except NotPlain as error:
        raise Damaged(f"{name} {error}") from error
    if not isinstance(found, h5py.Dataset):
        raise Damaged(f"{name} is not there")
    if found.size * found.dtype.itemsize > _MOST_PACKED * (found.id.get_storage_size() + 1):
        raise Damaged(f"the values of {name} are missing")
    return found


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
