# SPDX-License-Identifier: MIT
"""The search for the fastest shapes of the kernels on a device, and the file that keeps them.

For each kind of kernel the search starts at the shape that would be taken now and tries the values of one number after
the other (`poisson.perf.candidates`), twice over, each time staying at the fastest. Then the fastest of all and the
start are measured in turns. A shape must give the values of the start, to rounding, before it may win.
"""

import logging
import math
import os
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from poisson import backends
from poisson.backends.base import Array
from poisson.backends.gpu.backend import GpuBackend
from poisson.backends.gpu.shapes import KINDS, Shape
from poisson.backends.gpu.tuned import FOLDER_VARIABLE, Device, Measured, Setting, known, read, write
from poisson.discrete.discretisation import Operator
from poisson.errors import OutputError
from poisson.output.files import check_space, error_number, replacing
from poisson.output.table import Column, Report
from poisson.perf.candidates import coordinates, neighbours
from poisson.perf.timing import copy_bandwidth, measure, stopwatch
from poisson.perf.traffic import operation_bytes
from poisson.perf.workload import box, laplacian_on, random, require_room

SHAPES = ((4096, 4096), (512, 512, 512))
"""Nodes of the grids that are tuned for by default."""
ARRAYS = 5
ROUNDS = 2
FINALISTS = 3
QUICK_REPEATS, FINAL_REPEATS = 3, 7
MARGIN = 0.01
"""A shape must be faster by this part to take the place of the start."""
ROUNDINGS = 1e3
"""Results may differ by so many roundings of the largest value."""
MOST_COMPILERS = 8
LEAST_SPACE = 1 << 16
"""Bytes that must be free for the file."""

KERNELS = {
    "laplacian": ("stencil", "laplacian"),
    "sweep": ("stencil", "sweep"),
    "sweep_norm": ("stencil", "sweep_norm"),
    "sweeps": ("blocked", "sweeps"),
}
"""Source and name of the kernel of each kind."""

COLUMNS = (
    Column("kernel", "kernel"),
    Column("type", "type"),
    Column("dimension", "dimension"),
    Column("size", "size"),
    Column("before", "before"),
    Column("chosen", "chosen"),
    Column("seconds_before", "ms before", ".4f", 1e3),
    Column("seconds", "ms", ".4f", 1e3),
    Column("gain", "gain", ".3f"),
    Column("of_yardstick", "of copy", ".3f"),
    Column("tried", "tried"),
    Column("skipped", "skipped"),
)

log = logging.getLogger(__name__)


@dataclass
class Search:
    """The search for the shape of one kind of kernel, one of `KINDS`, from a shape on."""

    kind: str
    start: Shape
    seconds: dict[Shape, float] = field(default_factory=dict)
    """For a sweep, or a Laplacian, by shape; infinite for a shape that cannot be taken."""
    before: float = math.inf
    after: float = math.inf
    best: Shape | None = None

    @property
    def skipped(self) -> int:
        """Shapes that do not compile, do not launch or give other values."""
        return sum(math.isinf(value) for value in self.seconds.values())


def tune(backend_name: str, precision: str, operators: Sequence[Operator] | None = None) -> Report:
    """Find the fastest shapes of the kernels, by default for −∇² on the grids of `SHAPES`, and keep them.

    Raises `PoissonError` if the backend is not available, arrays do not fit, or the file cannot be written.
    """
    backend = backends.create(backend_name, np.dtype(precision))
    if not isinstance(backend, GpuBackend):
        note = f"nothing to tune: the kernels of the {backend.name} backend have no block shapes to choose"
        return Report(f"{backend.name}: {backend.device}", COLUMNS, (), (note,))
    return tune_device(backend, operators or [laplacian_on(box(shape)) for shape in SHAPES])


def tune_device(backend: GpuBackend, operators: Sequence[Operator]) -> Report:
    """Find the fastest shapes for some operators on a device, and keep them."""
    start = time.perf_counter()
    with _in_cache(backend.identity.path):
        check_space(backend.identity.path, LEAST_SPACE)
    bandwidth = copy_bandwidth(backend)
    rows = []
    for operator in operators:
        searches = tune_operator(backend, operator)
        keep(backend.identity, backend.shapes.setting(operator), searches)
        rows += [_row(backend, operator, search, bandwidth) for search in searches]
    notes = (
        "",
        f"copy {bandwidth / 1e9:.1f} GB/s; {time.perf_counter() - start:.0f} s in all",
        f"written to {backend.identity.path}",
    )
    return Report(f"{backend.name}: {backend.device}", COLUMNS, tuple(rows), notes)


def tune_operator(backend: GpuBackend, operator: Operator) -> list[Search]:
    """Search for the shapes of all kinds of kernels on the grid of an operator.

    Raises `ResourceError` if the arrays do not fit.
    """
    what = f"{ARRAYS} arrays of {' x '.join(map(str, operator.shape))} nodes"
    require_room(backend, ARRAYS * math.prod(operator.shape), what, "a smaller grid with --shape")
    trials = Trials(backend, operator)
    return [trials.search(kind) for kind in KINDS]


class Trials:
    """The arrays and calls with which shapes are tried."""

    def __init__(self, backend: GpuBackend, operator: Operator) -> None:
        self._backend = backend
        self._operator = operator
        self._operations = backend.bind(operator)
        self._u, self._f = (random(backend, operator.array_shape) for _ in range(2))
        self._out, self._expected, self._work = (backend.empty(operator.array_shape) for _ in range(3))
        self._norms, self._check = backend.reduction(), backend.reduction()

    def search(self, kind: str) -> Search:
        """Search for the shape of one kind of kernel."""
        backend = self._backend
        search = Search(kind, backend.shapes.of(kind, self._operator))
        log.info("%s, %dD, %s", kind, self._operator.dimension, " x ".join(map(str, self._operator.shape)))
        self._try(search, [search.start])
        if math.isinf(search.seconds[search.start]):
            raise RuntimeError(f"{kind}: the shape in use, {search.start}, gives wrong values")
        best = search.start
        dimension, width = self._operator.dimension, 16 // backend.dtype.itemsize
        for _ in range(ROUNDS):
            before = best
            for _, values in coordinates(kind, dimension):
                near = neighbours(best, values, kind, dimension, width)
                self._try(search, [shape for shape in near if shape not in search.seconds])
                best = min(search.seconds, key=lambda shape: search.seconds[shape])
            if best == before:
                break
        self._decide(search)
        return search

    def _try(self, search: Search, shapes: Sequence[Shape]) -> None:
        """Measure some shapes. What does not compile, launch or compute the same is noted as infinitely slow."""
        with ThreadPoolExecutor(min(MOST_COMPILERS, os.cpu_count() or 1)) as pool:
            compiled = list(pool.map(lambda shape: self._compiles(search.kind, shape), shapes))
        for shape, ready in zip(shapes, compiled, strict=True):
            search.seconds[shape] = math.inf
            if ready:
                try:
                    search.seconds[shape] = self._measure(search, shape)
                except Exception as error:
                    if shape == search.start:
                        raise
                    log.debug("%s: %s: %s", search.kind, shape, error)

    def _compiles(self, kind: str, shape: Shape) -> bool:
        """Compile the kernel of a shape, unless the compiler refuses it: its errors have a type for each runtime."""
        try:
            self._backend.kernel(*KERNELS[kind], shape, self._operator)
        except Exception as error:
            log.debug("%s: %s: %s", kind, shape, error)
            return False
        return True

    def _measure(self, search: Search, shape: Shape) -> float:
        backend, kind = self._backend, search.kind
        with backend.shapes.trying(kind, shape):
            if not self._agrees(search, shape):
                return math.inf
            return measure(backend, self._call(kind, self._out), QUICK_REPEATS).median / shape.depth

    def _agrees(self, search: Search, shape: Shape) -> bool:
        """Whether a shape, which is on trial, gives what the start gives, to rounding."""
        backend, operations, kind = self._backend, self._operations, search.kind
        backend.fill(self._out, 0.0)
        backend.fill(self._expected, 0.0)
        self._call(kind, self._out)()
        found = backend.read(self._norms) if kind == "sweep_norm" else (0.0, 0.0)
        with backend.shapes.trying(kind, search.start):
            self._reference(kind, shape.depth)
            wanted = backend.read(self._norms) if kind == "sweep_norm" else (0.0, 0.0)
        tolerance = ROUNDINGS * float(np.finfo(backend.dtype).eps)
        operations.norm(self._expected, self._check)
        largest = backend.read(self._check)[1]
        backend.axpby(-1.0, self._expected, 1.0, self._out)
        operations.norm(self._out, self._check)
        total, difference = backend.read(self._check)
        same = all(abs(a - b) <= tolerance * abs(b) for a, b in zip(found, wanted, strict=True))
        # A maximum passes over what is not a number; a sum does not.
        return same and math.isfinite(total) and difference <= tolerance * largest

    def _reference(self, kind: str, depth: int) -> None:
        """Leave in `_expected` what the kernel must give, by single sweeps where it makes several."""
        if kind != "sweeps":
            self._call(kind, self._expected)()
            return
        source, target, other = self._u, self._expected, self._work
        if depth % 2 == 0:
            target, other = other, target
        for _ in range(depth):
            self._operations.sweep(source, self._f, target, 1.0)
            source, target, other = target, other, target

    def _call(self, kind: str, out: Array) -> Callable[[], None]:
        operations, u, f = self._operations, self._u, self._f
        if kind == "laplacian":
            return lambda: operations.laplacian(u, out)
        if kind == "sweeps":
            return lambda: operations.sweeps(u, f, out, [1.0] * operations.depth())
        norms = self._norms if kind == "sweep_norm" else None
        return lambda: operations.sweep(u, f, out, 1.0, norms)

    def _decide(self, search: Search) -> None:
        """Measure the fastest shapes and the start in turns; the start stays unless another is clearly faster."""
        ranked = sorted(search.seconds, key=lambda shape: search.seconds[shape])
        shapes = list(dict.fromkeys([search.start, *ranked[:FINALISTS]]))
        times: dict[Shape, list[float]] = {shape: [] for shape in shapes}
        watches = {}
        for shape in shapes:
            with self._backend.shapes.trying(search.kind, shape):
                watches[shape] = stopwatch(self._backend, self._call(search.kind, self._out))
        for _ in range(FINAL_REPEATS):
            for shape in shapes:
                with self._backend.shapes.trying(search.kind, shape):
                    times[shape].append(watches[shape]() / shape.depth)
        medians = {shape: statistics.median(values) for shape, values in times.items()}
        fastest = min(shapes, key=lambda shape: medians[shape])
        clear = medians[fastest] <= (1.0 - MARGIN) * medians[search.start]
        search.best = fastest if clear else search.start
        search.before, search.after = medians[search.start], medians[search.best]


def keep(device: Device, setting: Setting, searches: Sequence[Search]) -> None:
    """Add what was found to the file of a device; the file is replaced whole or stays as it was.

    Raises `OutputError` if it cannot be written.
    """
    shapes = {search.kind: search.best or search.start for search in searches}
    table = {**read(device), setting: Measured(datetime.now(UTC).date().isoformat(), shapes)}
    with _in_cache(device.path), replacing(device.path) as temporary:
        temporary.write_text(write(table, device), "utf-8")
    known.cache_clear()


@contextmanager
def _in_cache(path: Path) -> Iterator[None]:
    """Make the folder of a file in the cache; what fails from then on is told with the fix that there is for it."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield
    except (OSError, OutputError) as error:
        number = error_number(error)
        reason = str(error) if number is None else os.strerror(number)
        raise OutputError(
            f"{path.parent}: cannot write the measurements there ({reason}); set another folder with {FOLDER_VARIABLE}"
        ) from error


def _row(
    backend: GpuBackend, operator: Operator, search: Search, bandwidth: float
) -> dict[str, str | int | float | None]:
    setting, best = backend.shapes.setting(operator), search.best or search.start
    name = search.kind.removesuffix("_norm")
    moved = operation_bytes(name, math.prod(operator.shape), backend.dtype.itemsize) / best.depth
    return {
        "kernel": search.kind,
        "type": setting.dtype,
        "dimension": setting.dimension,
        "size": setting.size,
        "before": show(search.start),
        "chosen": show(best),
        "seconds_before": search.before,
        "seconds": search.after,
        "gain": search.before / search.after,
        "of_yardstick": moved / search.after / bandwidth,
        "tried": len(search.seconds),
        "skipped": search.skipped,
    }


def show(shape: Shape) -> str:
    """A shape in a few letters: block, march, unroll, resident, and what only passes of several sweeps have."""
    text = f"{shape.block_x}x{shape.block_y} m{shape.march} u{shape.unroll} r{shape.resident}"
    if shape.depth > 1 or shape.rows > 1:
        text += f" d{shape.depth} l{shape.rows}"
    return text + (f" s{shape.strip >> 20}M" if shape.strip else "")
