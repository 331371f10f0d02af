"""The one layout of a result: an HDF5 file that says what it holds and how it came about.

::

    /                 title, equation, status, advice, converged (1 or 0), format; ``warning`` if not converged
    /u                the solution, (nx,), (ny, nx) or (nz, ny, nx), in the precision of the run
    /f, /residual, …  the further fields asked for; a vector has its components last
    /x, /y, /z        coordinates of the nodes, the dimension scales of the fields
    /component        the names of a vector's components, its last dimension scale, if there is a vector
    /convergence      iteration, residual: the history of the residual norm
    /performance      attributes: what the operations of the loop reached, where it was measured
    /provenance       attributes: the case as TOML, versions, host, device, times, how the solve ended

netCDF readers see a data set with coordinates, so ``xarray.open_dataset(path, engine="h5netcdf")`` opens it.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from poisson.errors import OutputError
from poisson.grid import AXES
from poisson.output.convergence import log_slope
from poisson.output.files import cause, check_space, replacing
from poisson.record import FIELD_NOTES, Performance, Record
from poisson.solvers.status import Status

if TYPE_CHECKING:
    import h5py

FORMAT = "poisson result"
FORMAT_VERSION = 1

COMPONENT = "component"
"""The dimension scale of the components of vectors."""

_SLAB_VALUES = 1 << 22


def check_writable(path: str | Path, bytes_needed: int) -> None:
    """Check before a solve that its result can be written.

    Parameters
    ----------
    path : str or Path
        Where the result will go.
    bytes_needed : int
        The size of the result. An older file of the same name stays until the new one is complete, so its room does
        not count.

    Raises
    ------
    OutputError
        If the folder is missing or refuses a new file, `path` is a folder or not to be replaced, or the disk is too
        full.
    """
    check_space(Path(path), bytes_needed)


def write(path: str | Path, solution: Record) -> None:
    """Write a result; a crash leaves the old file or the new one.

    Parameters
    ----------
    path : str or Path
        The file to write or replace.
    solution : Record
        What to write.

    Raises
    ------
    OutputError
        If the file cannot be written. The file of that name is then as it was before.
    """
    import h5py

    # No one else knows the temporary name, and some network disks refuse locks.
    with replacing(Path(path)) as temporary, h5py.File(temporary, "x", locking=False) as file:
        _write_root(file, solution)
        _write_coordinates(file, solution)
        dimension = solution.problem.grid.dimension
        for name, values in {"u": solution.host_u, **solution.fields}.items():
            _write_field(file, name, values, dimension)
        _write_convergence(file.create_group("convergence"), solution)
        _write_provenance(file.create_group("provenance"), solution)
        if solution.performance is not None:
            _write_performance(file.create_group("performance"), solution.performance)
        # An error on flushing names its cause; one on closing does not.
        file.flush()


def write_safely(path: str | Path, solution: Record) -> Path:
    """Write a result; if that fails, save it in the system's temporary folder.

    Parameters
    ----------
    path : str or Path
        The file to write or replace.
    solution : Record
        What to write.

    Returns
    -------
    Path
        The file written: `path`.

    Raises
    ------
    OutputError
        If the file could not be written where it was wanted. Its line says where the result was saved instead.
    """
    try:
        write(path, solution)
    except OutputError as error:
        raise OutputError(f"{error}; {_save_elsewhere(solution)}") from error
    return Path(path)


def describe(path: str | Path) -> str:
    """A description of a result file for people.

    Parameters
    ----------
    path : str or Path
        A file written by `write`.

    Returns
    -------
    str
        Several lines. The fields are read in slabs, so that a file larger than the memory can be described.

    Raises
    ------
    OutputError
        If the file is missing, is not an HDF5 file, is not one of ours, or is damaged.
    """
    import h5py

    path = Path(path)
    if not path.is_file():
        reason = "it is a folder; give the name of a file in it" if path.is_dir() else "no such file; check the name"
        raise OutputError(f"{path}: {reason}")
    try:
        if not h5py.is_hdf5(path):
            # is_hdf5 answers no for a file that it may not read, too.
            path.open("rb").close()
            raise OutputError(f"{path}: not an HDF5 file; give a result of 'poisson solve'")
        with h5py.File(path, "r") as file:
            _check_format(path, file)
            notes = list(_description(file))
            width = max(len(name) for name, _ in notes)
            lines = (f"{name:<{width}}  {text}".rstrip() for name, text in notes)
            return "\n".join([f"{path}: {file.attrs['title'] or 'untitled'}", *lines])
    except PermissionError as error:
        raise OutputError(f"{path}: no permission to read it; change the permissions of the file") from error
    except (OSError, KeyError) as error:
        reason = " ".join(str(error.args[0] if isinstance(error, KeyError) else error).split())
        raise OutputError(f"{path}: the file is damaged ({reason}); solve the case again") from error


def _write_root(file: h5py.File, solution: Record) -> None:
    converged = solution.status is Status.CONVERGED
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
    grid = solution.problem.grid
    for axis in range(grid.dimension):
        name = AXES[axis]
        scale = file.create_dataset(name, data=grid.coordinates(axis))
        scale.make_scale(name)
        scale.attrs["long_name"] = f"{name} of the nodes"
        scale.attrs["units"] = "L"
        scale.attrs["lower"] = grid.lower[axis]
        scale.attrs["upper"] = grid.upper[axis]
        scale.attrs["spacing"] = grid.spacing[axis]
        scale.attrs["periodic"] = int(grid.periodic[axis])


def _write_field(file: h5py.File, name: str, values: NDArray[Any], dimension: int) -> None:
    dataset = file.create_dataset(name, data=values)
    dataset.attrs["long_name"], dataset.attrs["units"] = FIELD_NOTES.get(name, (name, "1"))
    for index, axis in enumerate(reversed(AXES[:dimension])):
        dataset.dims[index].attach_scale(file[axis])
    if values.ndim > dimension:
        if COMPONENT not in file:
            scale = file.create_dataset(COMPONENT, data=AXES[:dimension])
            scale.make_scale(COMPONENT)
            scale.attrs["long_name"] = "component of a vector"
        dataset.dims[dimension].attach_scale(file[COMPONENT])


def _write_convergence(group: h5py.Group, solution: Record) -> None:
    sweeps = np.array([sweep for sweep, _ in solution.history], dtype=np.int64)
    norms = np.array([norm for _, norm in solution.history], dtype=np.float64)
    iteration = group.create_dataset("iteration", data=sweeps)
    iteration.make_scale("iteration")
    iteration.attrs["long_name"] = "iterations (sweeps, cycles) done to reach the iterate"
    residual = group.create_dataset("residual", data=norms)
    residual.dims[0].attach_scale(iteration)
    residual.attrs["long_name"] = f"{solution.norm} norm of the residual f - A u"
    residual.attrs["units"] = "U/L2"
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
    attributes["case"] = _text(solution.case_text)
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
    attributes["yardstick"] = performance.yardstick
    attributes["array_bytes"] = performance.array_bytes


_RESULT_ATTRIBUTES = frozenset(
    ("case", "equation", "status", "advice", "iterations", "norm", "residual", "target", "error_rms", "error_max")
)
"""Attributes of the provenance that describe the result and not the machine."""


def _text(text: str) -> str:
    """`text` without what an HDF5 string cannot hold: zero characters and halves of surrogate pairs."""
    return text.replace("\0", "\ufffd").encode("utf-8", "replace").decode("utf-8")


def _save_elsewhere(solution: Record) -> str:
    """Write the result to the temporary folder; say where it is, or that it is lost."""
    try:
        # A folder of our own: others can write to the temporary folder, too.
        folder = Path(tempfile.mkdtemp(prefix="poisson-"))
    except OSError as error:
        return f"it could not be saved in the temporary folder either ({cause(error)}), so the result is lost"
    fallback = folder / "result.h5"
    try:
        write(fallback, solution)
    except OutputError as error:
        folder.rmdir()
        return f"it could not be saved in the temporary folder either ({error}), so the result is lost"
    return f"the result is saved as {fallback}"


def _check_format(path: Path, file: h5py.File) -> None:
    name, _, version = str(file.attrs.get("format", "")).rpartition(" ")
    if name != FORMAT or not version.isdecimal():
        raise OutputError(f"{path}: an HDF5 file, but not a result of 'poisson solve'")
    if int(version) > FORMAT_VERSION:
        raise OutputError(
            f"{path}: written by a newer poisson (format {version}, this one reads {FORMAT_VERSION}); upgrade poisson"
        )


def _description(file: h5py.File) -> Iterator[tuple[str, str]]:
    """The name and the text of each line of a description after the title."""
    root, convergence, provenance = file.attrs, file["convergence"], file["provenance"].attrs
    axes = [file[name] for name in AXES if name in file]
    yield "equation", root["equation"]
    yield "status", f"{root['status']}: {root['advice']}"
    yield "grid", " x ".join(str(axis.size) for axis in axes) + " nodes"
    for name, axis in zip(AXES, axes, strict=False):
        ends, wraps = axis.attrs, ", periodic" if axis.attrs["periodic"] else ""
        yield f"  {name}", f"[{ends['lower']:g}, {ends['upper']:g}], spacing {ends['spacing']:.6g}{wraps}"
    yield "iterations", str(provenance["iterations"])
    yield "residual", f"{provenance['residual']:.3e} ({provenance['norm']}), target {provenance['target']:.3e}"
    yield "convergence", _rate(convergence["iteration"][:], convergence["residual"][:])
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
        yield from _reached(file["performance"].attrs)
    yield "fields", ""
    for name, dataset in file.items():
        if name not in (*AXES, COMPONENT) and hasattr(dataset, "dtype"):
            yield f"  {name}", f"{dataset.attrs['long_name']}: {_span(dataset)} ({dataset.dtype})"


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


def _span(dataset: h5py.Dataset) -> str:
    """Smallest and largest finite value of a field, and how many values are not finite."""
    lowest, highest, bad = math.inf, -math.inf, 0
    rows = max(1, _SLAB_VALUES * len(dataset) // dataset.size)
    for start in range(0, len(dataset), rows):
        slab = dataset[start : start + rows]
        finite = slab[np.isfinite(slab)]
        bad += slab.size - finite.size
        if finite.size:
            lowest, highest = min(lowest, float(finite.min())), max(highest, float(finite.max()))
    if bad == dataset.size:
        return "no finite value"
    return f"{lowest:.6g} to {highest:.6g}" + (f", {bad} not finite" if bad else "")
