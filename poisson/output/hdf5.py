# SPDX-License-Identifier: MIT
"""The one layout of a result: an HDF5 file that says what it holds and how it came about.

::

    /                 title, equation, status, advice, converged (1 or 0), format; ``warning`` if not converged;
                      text_checksum
    /u                the solution, (nx,), (ny, nx) or (nz, ny, nx), in the precision of the run
    /f, /residual, …  the further fields asked for; a vector has its components last
    /x, /y, /z        coordinates of the nodes, the dimension scales of the fields
    /component        the names of a vector's components, its last dimension scale, if there is a vector
    /convergence      iteration, residual: the history of the residual norm
    /performance      attributes: what the operations of the loop reached, where it was measured
    /provenance       attributes: the case as TOML, versions, host, device, times, how the solve ended
    /VTKHDF           the same fields again, as links, in the form that VTK reads

Data sets have checksums, so that a reader notices damage; the texts have one of their own. They are in chunks with
``fletcher32``; the fields of large results, and those that several ranks have written, are one run of bytes each, with
the attribute ``crc32``.

netCDF readers see a data set with coordinates, so ``xarray.open_dataset(path, engine="h5netcdf")`` opens it.
"""

from __future__ import annotations

import json
import math
import os
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from poisson.case.stored import text_of
from poisson.errors import OutputError
from poisson.mesh.system import ANGLE, CARTESIAN
from poisson.output.files import NOT_OURS, drafted
from poisson.output.parts import Parts, together
from poisson.output.record import Performance, Record, Span, field_note
from poisson.output.sink import Sink, keeping
from poisson.plain import find

if TYPE_CHECKING:
    import h5py

FORMAT = "poisson result"
FORMAT_VERSION = 2

COMPONENT = "component"
"""The dimension scale of the components of vectors."""

POINTS = "points"
"""The places of nodes along an angle, for readers of XDMF."""

VTK = "VTKHDF"
"""The group that VTK reads the fields from."""

CHECKSUM = "text_checksum"
"""The attribute of the root with the checksum of the texts."""

DATA_CHECKSUM = "crc32"
"""The attribute of a data set in one run with the CRC-32 of its bytes."""

RANGE = "actual_range"
"""The attribute of a data set in one run with the least and the largest value, as the conventions of netCDF have it."""

CHUNK_BYTES = 1 << 20

PAGE_BYTES = 1 << 12
"""Fields of at least so many bytes begin at a multiple of it, where several ranks write them."""

_MOST_HEAD = 1 << 20


class Damaged(Exception):
    """A required part of a result is missing, or is not what it must be."""


def check_replaceable(path: str | Path, *, overwrite: bool = False) -> None:
    """Make sure that what stands at `path` may be replaced by a result: nothing, an older result, or an empty file.

    `path`: where a result is to go. `overwrite`: whether any file may be replaced. Raises `OutputError` if it is a file
    that this package did not write.
    """
    if not overwrite and Path(path).is_file() and not is_result(Path(path)):
        raise OutputError(f"{path}: ", *NOT_OURS)


def is_result(path: Path) -> bool:
    """Whether a file is empty or a result by the attribute at its root."""
    try:
        with path.open("rb") as stream:
            head = stream.read(_MOST_HEAD)
        if not head:
            return True
        # A file of others, damaged or not, is not opened at all.
        return FORMAT.encode() in head and _has_our_format(path)
    except Exception:  # whatever the parsers of a damaged file let through: it cannot be known as ours
        return False


def write(path: str | Path, solution: Record, *, overwrite: bool = False) -> None:
    """Write a result; a crash leaves the old file or the new one.

    Every rank that holds a part of the result calls this.

    `path`: the file to write or replace. `solution`: what to write. `overwrite`: whether a file that is no result may
    be replaced. Raises `OutputError` if the file cannot be written. The file of that name is then as it was before.
    """
    together(solution, lambda parts: replace(path, solution, parts, overwrite=overwrite))


def replace(path: str | Path, solution: Record, parts: Parts | None, *, overwrite: bool = False) -> None:
    """As `write`, on rank 0, which has the others write their parts if there are any."""
    check_replaceable(path, overwrite=overwrite)
    with drafted(Path(path)) as draft:
        fill(draft.temporary, solution, parts)
        draft.put()


def fill(path: Path, solution: Record, parts: Parts | None) -> Span | None:
    """Write a result into an empty file.

    `path`: the file. `solution`: what to write. `parts`: what has every rank write its part of the fields; None where
    this one holds them all. Returns: the span of u, if the parts have told it. Raises `OSError` if the disk refuses.
    """
    import h5py

    sink, span = Sink(path), None
    try:
        # From 1.10 on the format has checksums of its own for everything but the values and the texts.
        form = {"libver": ("v110", "v110"), "alignment_threshold": PAGE_BYTES, "alignment_interval": PAGE_BYTES}
        with keeping(sink.keep), h5py.File(sink, "w", **(form if parts else {"libver": form["libver"]})) as file:
            _write_root(file, solution)
            _write_coordinates(file, solution)
            if parts is not None:
                span = _write_parts(file, path, solution, parts, sink)
            else:
                for name, values in {"u": solution.host_u, **solution.fields}.items():
                    _note(file, name, _dataset(file, name, values), solution)
                    sink.check()
            _write_convergence(file.create_group("convergence"), solution)
            _write_provenance(file.create_group("provenance"), solution)
            if solution.performance is not None:
                _write_performance(file.create_group("performance"), solution.performance)
            _write_vtk(file.create_group(VTK), solution)
            file.attrs[CHECKSUM] = text_checksum(file)
    finally:
        sink.close()
        # An error of the library after one of the disk says less than that.
        sink.check()
    return span


def text_checksum(file: h5py.File) -> int:
    """CRC-32 of the texts among the attributes of a result, which have no checksum in HDF5.

    Raises `NotPlain` if something in the file is elsewhere.
    """
    total = 0
    for name in ("/", *sorted(file)):
        found = find(file, name)
        for key, value in sorted(found.attrs.items()) if found is not None else ():
            texts = value.ravel().tolist() if isinstance(value, np.ndarray) else [value]
            if all(isinstance(text, str) for text in texts):
                total = zlib.crc32(json.dumps([name, key, *texts]).encode(), total)
    return total


def require_heaps(path: Path) -> None:
    """Refuse heaps of texts with an object of no length, in which the HDF5 library goes round for ever.

    They stand before and after the fields, so the ends of the file are looked at.

    Reference: HDF5 File Format Specification, version 3.0, section III.E, "Disk Format: Level 1E - Global Heap".
    """
    with path.open("rb") as stream:
        head = stream.read(_MOST_HEAD)
        stream.seek(max(0, stream.seek(0, os.SEEK_END) - _MOST_HEAD))
        tail = stream.read()
    for part in (head, tail):
        start = part.find(b"GCOL")
        while start >= 0:
            place = start + 16
            end = min(len(part), start + int.from_bytes(part[start + 8 : place], "little")) - 16
            while place < end:
                index, length = (
                    int.from_bytes(part[place + at : place + to], "little") for at, to in ((0, 2), (8, 16))
                )
                if index == 0 and length == 0:
                    raise Damaged("a heap of strings has no end")
                place += length if index == 0 else 16 + -(-length // 8) * 8
            start = part.find(b"GCOL", start + 4)


def _has_our_format(path: Path) -> bool:
    import h5py

    require_heaps(path)
    with h5py.File(path, "r", locking=False) as file:
        return str(file.attrs["format"]).startswith(FORMAT)


def _dataset(group: h5py.Group, name: str, values: NDArray[Any]) -> h5py.Dataset:
    """A data set in chunks with checksums, which every reader checks."""
    if values.size == 0:
        return group.create_dataset(name, data=values)
    return group.create_dataset(name, data=values, chunks=chunk_shape(values.shape, values.itemsize), fletcher32=True)


def chunk_shape(shape: tuple[int, ...], itemsize: int) -> tuple[int, ...]:
    """Whole rows or planes of about a mebibyte, as even as they can be; parts of one where that is larger."""
    chunk = list(shape)
    for axis, count in enumerate(shape):
        most = CHUNK_BYTES // (math.prod(shape[axis + 1 :]) * itemsize)
        if most > 0:
            chunk[axis] = math.ceil(count / math.ceil(count / most))
            break
        chunk[axis] = 1
    return tuple(chunk)


def _write_root(file: h5py.File, solution: Record) -> None:
    converged = solution.status.success
    attributes = file.attrs
    attributes["title"] = _text(solution.problem.title)
    attributes["equation"] = solution.problem.equation
    attributes["status"] = solution.status.value
    attributes["advice"] = solution.advice
    attributes["converged"] = int(converged)
    if not converged:
        attributes["warning"] = f"not converged: {solution.advice}"
    attributes["format"] = f"{FORMAT} {FORMAT_VERSION}"


def _write_coordinates(file: h5py.File, solution: Record) -> None:
    grid = solution.problem.lattice
    if grid.system != CARTESIAN:
        file.attrs["system"] = grid.system
    for axis in range(grid.dimension):
        name = grid.names[axis]
        scale = _dataset(file, name, grid.coordinates(axis))
        scale.make_scale(name)
        scale.attrs["long_name"] = f"{name} of the nodes"
        scale.attrs["units"] = "rad" if name == ANGLE else _text(solution.units.length)
        scale.attrs["lower"] = grid.lower[axis]
        scale.attrs["upper"] = grid.upper[axis]
        scale.attrs["spacing"] = grid.spacing[axis]
        scale.attrs["periodic"] = int(grid.periodic[axis])
        if (placed := grid.axes[axis].placement) is not None:
            scale.attrs["placement"] = "nodes" if placed.on_faces else "cells"
    if grid.angle is not None:
        # Readers of XDMF and VTK know no angles; the latter want three axes.
        r, phi, *z = (grid.along(axis, grid.coordinates(axis)) for axis in range(grid.dimension))
        points = np.broadcast_arrays(r * np.cos(phi), r * np.sin(phi), *z, *(0.0,) * (1 - len(z)))
        values = np.stack(points, axis=-1).reshape(-1, *grid.array_shape[-2:], 3)
        _dataset(file, POINTS, values).attrs["long_name"] = "x, y and z of the nodes"


def _write_parts(file: h5py.File, path: Path, solution: Record, parts: Parts, sink: Sink) -> Span:
    """Make the fields, each one run of bytes that has its place at once, and have every rank write there.

    Returns: the span of u.
    """
    from h5py import h5d, h5p

    one_run = h5p.create(h5p.DATASET_CREATE)
    one_run.set_layout(h5d.CONTIGUOUS)
    one_run.set_alloc_time(h5d.ALLOC_TIME_EARLY)
    one_run.set_fill_time(h5d.FILL_TIME_NEVER)
    datasets = {
        name: file.create_dataset(name, shape=parts.shape(name), dtype=values.dtype, dcpl=one_run)
        for name, values in {"u": solution.u, **solution.fields}.items()
    }
    # Not before all of them have their places: `require_heaps` looks for texts at the ends of the file only.
    for name, dataset in datasets.items():
        _note(file, name, dataset, solution)
    places = {name: dataset.id.get_offset() for name, dataset in datasets.items()}
    # Ranks on other hosts must not take what lies between the others' parts for the end of the file.
    sink.extend(max(places[name] + dataset.nbytes for name, dataset in datasets.items()))
    sink.check()
    found = parts.put(path, places)
    for name, (checksum, span) in found.items():
        datasets[name].attrs[DATA_CHECKSUM] = checksum
        if not span.not_finite:
            datasets[name].attrs[RANGE] = span.least, span.largest
    return found["u"][1]


def _note(file: h5py.File, name: str, dataset: h5py.Dataset, solution: Record) -> None:
    """Say what a field is, and where its nodes are."""
    dimension, names = solution.problem.lattice.dimension, solution.problem.lattice.names
    long_name, units = field_note(name, solution.units)
    dataset.attrs["long_name"], dataset.attrs["units"] = long_name, _text(units)
    for index, axis in enumerate(reversed(names)):
        dataset.dims[index].attach_scale(file[axis])
    if dataset.ndim > dimension:
        if COMPONENT not in file:
            scale = file.create_dataset(COMPONENT, data=names)
            scale.make_scale(COMPONENT)
            scale.attrs["long_name"] = "component of a vector"
        dataset.dims[dimension].attach_scale(file[COMPONENT])


def _write_convergence(group: h5py.Group, solution: Record) -> None:
    sweeps = np.array([sweep for sweep, _ in solution.history], dtype=np.int64)
    norms = np.array([norm for _, norm in solution.history], dtype=np.float64)
    iteration = _dataset(group, "iteration", sweeps)
    iteration.make_scale("iteration")
    iteration.attrs["long_name"] = "number of iterations (sweeps, cycles) up to this iterate"
    residual = _dataset(group, "residual", norms)
    residual.dims[0].attach_scale(iteration)
    residual.attrs["long_name"] = f"{solution.norm} norm of the residual f - A u"
    residual.attrs["units"] = _text(field_note("residual", solution.units)[1])
    group.attrs["norm"] = solution.norm
    group.attrs["target"] = solution.target
    group.attrs["residual"] = (
        f"{solution.norm} norm over the unknowns of f - A u, with u the iterate after so many iterations, in the "
        "precision of the run; the final residual in the provenance is recomputed in float64"
    )


def _write_provenance(group: h5py.Group, solution: Record) -> None:
    attributes = group.attrs
    for name, value in solution.provenance.items():
        attributes[name] = _text(value) if isinstance(value, str) else value
    for part, seconds in solution.times.items():
        attributes[f"seconds_{part}"] = seconds
    attributes["case"] = _text(solution.case_text or text_of(solution.problem))
    attributes["equation"] = solution.problem.equation
    attributes["status"] = solution.status.value
    attributes["advice"] = solution.advice
    attributes["iterations"] = solution.iterations
    attributes["norm"] = solution.norm
    attributes["residual"] = solution.residual
    attributes["target"] = solution.target
    if solution.error_bar is not None:
        attributes["error_bar"] = solution.error_bar
    if solution.error is not None:
        attributes["error_rms"] = solution.error.rms
        attributes["error_max"] = solution.error.max


def _write_performance(group: h5py.Group, performance: Performance) -> None:
    attributes, operations = group.attrs, performance.operations
    attributes["operations"] = [use.operation for use in operations]
    attributes["grids"] = [use.grid for use in operations]
    attributes["calls"] = np.array([use.calls for use in operations], dtype=np.int64)
    attributes["seconds"] = np.array([use.seconds for use in operations])
    attributes["bytes"] = np.array([use.bytes for use in operations])
    attributes["flops"] = np.array([use.flops for use in operations])
    attributes["bandwidth"] = performance.bandwidth
    attributes["array_bytes"] = performance.array_bytes


def _write_vtk(group: h5py.Group, solution: Record) -> None:
    """Say where the fields are and on which nodes, as VTK wants it.

    Reference: VTK File Formats, "VTKHDF File Format", image data, and from version 2.7 on rectilinear and structured
    grids, https://docs.vtk.org/en/latest/vtk_file_formats/vtkhdf_file_format
    """
    import h5py

    grid = solution.problem.lattice
    beside = 3 - grid.dimension
    shape, attributes = (*grid.shape, *(1,) * beside), group.attrs
    attributes["Version"] = (2, 7) if grid.tabulated else (2, 0)
    # VTK takes a text of fixed length only, which is also none of those that people may edit.
    form = "StructuredGrid" if grid.angle is not None else "RectilinearGrid" if grid.tabulated else "ImageData"
    attributes["Type"] = np.bytes_(form)
    if not grid.tabulated:
        attributes["WholeExtent"] = [end for nodes in shape for end in (0, nodes - 1)]
        attributes["Origin"] = (*grid.lower, *(0.0,) * beside)
        attributes["Spacing"] = (*grid.spacing, *(1.0,) * beside)
        attributes["Direction"] = np.eye(3).ravel()
    else:
        attributes["Dimensions"] = np.array(shape, np.int32)
    if grid.angle is not None:
        group["Points"] = h5py.SoftLink(f"/{POINTS}")
    elif grid.tabulated:
        for axis, letter in enumerate("XYZ"):
            there = axis < grid.dimension
            group[f"{letter}Coordinates"] = h5py.SoftLink(f"/{grid.names[axis]}") if there else np.zeros(1)
    points = group.create_group("PointData")
    for name, values in {"u": solution.u, **solution.fields}.items():
        if values.ndim == grid.dimension or grid.angle is None:  # components along r and phi are none along x and y
            points[name] = h5py.SoftLink(f"/{name}")


def _text(text: str) -> str:
    """`text` without what an HDF5 string cannot hold: zero characters and halves of surrogate pairs."""
    return text.replace("\0", "\ufffd").encode("utf-8", "replace").decode("utf-8")
