# SPDX-License-Identifier: MIT
"""`python -m poisson bench laplacian`: every way to compute a Laplacian, by the figure of merit of the AMD lab notes.

Effective bandwidth is the least data that must move over the time it takes. What must be read is every node but the 8
corners and 12 edges of the box, which no stencil touches; what must be written is every inner node.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from types import ModuleType
from typing import TYPE_CHECKING, Any

from poisson.backends.base import Array, Backend
from poisson.backends.gpu.backend import GpuBackend
from poisson.backends.gpu.runtime import Resources
from poisson.backends.gpu.shapes import Shape
from poisson.discrete.discretisation import Operator
from poisson.errors import PoissonError
from poisson.mesh.boundary import Rule
from poisson.output.table import Column, Report
from poisson.perf.benchmark.variants import VARIANTS, Variant
from poisson.perf.profiler import ProfilerError, profile
from poisson.perf.timing import copy_bandwidth, measure
from poisson.perf.workload import require_room

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Nodes = tuple[int, int, int]
"""Nodes along x, y and z."""

OURS = "ours"
"""The name of the operation `laplacian` of the backend among the variants."""

STUDY: tuple[Nodes, ...] = (
    (256, 256, 256),
    *(nodes for n in (512, 768, 1024) for nodes in ((n, n - 256, n - 256), (n, n, n - 256), (n, n, n))),
)
"""The scaling study of the AMD lab notes, part 4: x, y and z in turn grow by 256 nodes, from 256 to 1024 each."""

IDENTITY = (
    Column("variant", "variant"),
    Column("parameters", "parameters"),
    Column("nx", "nx"),
    Column("ny", "ny"),
    Column("nz", "nz"),
)
TIMES = (
    Column("milliseconds", "ms", ".4f"),
    Column("spread_percent", "spread %", ".1f"),
    Column("gigabytes_per_second", "GB/s", ".0f"),
    Column("percent_of_copy", "% of copy", ".1f"),
    Column("percent_of_peak", "% of peak", ".1f"),
    Column("registers", "registers"),
    Column("shared_bytes", "shared B"),
    Column("spilled_bytes", "spilled B"),
)
COUNTERS = (
    Column("fetch_gigabytes", "fetch GB", ".3f"),
    Column("write_gigabytes", "write GB", ".3f"),
    Column("fetch_efficiency_percent", "fetch eff. %", ".1f"),
    Column("write_efficiency_percent", "write eff. %", ".1f"),
    Column("l2_hit_percent", "L2 hits %", ".1f"),
)


@dataclass(frozen=True)
class Candidate:
    """A way to compute out = A u on the arrays at hand, with what the table says of it."""

    name: str
    parameters: str
    call: Callable[[], None]
    resources: Resources | None


def fetch_bytes(nodes: Nodes, itemsize: int) -> int:
    """Bytes of u that a Laplacian must read: those of all nodes but the corners and edges of the box."""
    return itemsize * (math.prod(nodes) - 8 - 4 * sum(n - 2 for n in nodes))


def write_bytes(nodes: Nodes, itemsize: int) -> int:
    """Bytes that it must write: those of the inner nodes."""
    return itemsize * math.prod(n - 2 for n in nodes)


def names(backend: Backend) -> tuple[str, ...]:
    """The variants that a backend has."""
    return (*(variant.name for variant in VARIANTS), OURS) if isinstance(backend, GpuBackend) else (OURS,)


def choose(backend: Backend, wanted: Sequence[str]) -> tuple[str, ...]:
    """The variants asked for by name, or by the part of it before a hyphen; all if none is asked for.

    Raises `PoissonError` if there is none of that name.
    """
    there = names(backend)
    for word in wanted:
        if not any(_is_called(name, word) for name in there):
            raise PoissonError(f"--variant {word}: the {backend.name} backend has {', '.join(there)}")
    return tuple(name for name in there if not wanted or any(_is_called(name, word) for word in wanted))


def _is_called(name: str, word: str) -> bool:
    return name == word or name.startswith(f"{word}-")


def bench(backend: Backend, sizes: Sequence[Nodes], wanted: Sequence[str] = (), *, counters: bool = False) -> Report:
    """Time variants on some grids, a row for each; with `counters` each runs once more under the vendor's profiler.

    Raises `PoissonError` if a variant of `wanted` does not exist, or the memory is too small.
    """
    chosen = choose(backend, wanted)
    copy = copy_bandwidth(backend)
    probe = backend.probe()
    peak = probe.peak_bandwidth()
    rows: list[dict[str, Any]] = []
    for nodes in sizes:
        for candidate in _candidates(backend, nodes, chosen):
            timing = measure(backend, candidate.call)
            moved = fetch_bytes(nodes, backend.dtype.itemsize) + write_bytes(nodes, backend.dtype.itemsize)
            bandwidth = moved / timing.median
            taken = candidate.resources
            rows.append(
                _identity(candidate, nodes)
                | {
                    "milliseconds": 1e3 * timing.median,
                    "spread_percent": 1e2 * timing.spread,
                    "gigabytes_per_second": bandwidth / 1e9,
                    "percent_of_copy": 1e2 * bandwidth / copy,
                    "percent_of_peak": 1e2 * bandwidth / peak if peak else None,
                    "registers": taken.registers if taken else None,
                    "shared_bytes": taken.shared_bytes if taken else None,
                    "spilled_bytes": taken.spilled_bytes if taken else None,
                }
            )
    notes = [_limits(backend, copy, peak), *_lowest(rows)]
    if counters:
        notes += _count(backend, rows)
    counted = any(row.get("fetch_gigabytes") is not None for row in rows)
    columns = (*IDENTITY, *TIMES, *(COUNTERS if counted else ()))
    title = f"Laplacian, {backend.dtype}, on {backend.name}: {backend.device}"
    return Report(title, columns, tuple(rows), tuple(notes), partial(_draw, rows, copy / 1e9))


def launch_once(backend: Backend, sizes: Sequence[Nodes], wanted: Sequence[str] = ()) -> Report:
    """Launch each variant once, without timing it: what a profiler looks at. The arguments are those of `bench`."""
    rows = []
    for nodes in sizes:
        for candidate in _candidates(backend, nodes, choose(backend, wanted)):
            candidate.call()
            rows.append(_identity(candidate, nodes))
    backend.synchronize()
    return Report(f"Launched once on {backend.name}: {backend.device}", IDENTITY, tuple(rows))


def _identity(candidate: Candidate, nodes: Nodes) -> dict[str, Any]:
    values = (candidate.name, candidate.parameters, *nodes)
    return dict(zip((column.key for column in IDENTITY), values, strict=True))


def _candidates(backend: Backend, nodes: Nodes, chosen: Sequence[str]) -> list[Candidate]:
    """The variants on arrays of random data."""
    operator = Operator.uniform(nodes, tuple(1.0 / (n - 1) for n in nodes), 0.0, (Rule.FIXED,) * 6)
    what = f"two arrays of {' x '.join(map(str, nodes))} nodes"
    require_room(backend, 2 * math.prod(nodes), what, "a smaller --n, or --precision=float32")
    u = backend.assemble(operator.array_shape, partial(_random, operator.array_shape))
    out = backend.empty(operator.array_shape)
    candidates = []
    if isinstance(backend, GpuBackend):
        candidates = [_candidate(variant, backend, operator, u, out) for variant in VARIANTS if variant.name in chosen]
    if OURS in chosen:
        candidates.append(_ours(backend, operator, u, out))
    return candidates


def _candidate(variant: Variant, backend: GpuBackend, operator: Operator, u: Array, out: Array) -> Candidate:
    call = variant.launcher(backend, operator, u, out)
    return Candidate(variant.name, variant.parameters, call, variant.compiled(backend, operator).resources)


def _ours(backend: Backend, operator: Operator, u: Array, out: Array) -> Candidate:
    call = partial(backend.bind(operator).laplacian, u, out)
    if not isinstance(backend, GpuBackend):
        return Candidate(OURS, "", call, None)
    [(shape, kernel), *_] = backend.kernels_of(call)
    return Candidate(OURS, _shape_text(shape), call, kernel.resources)


def _shape_text(shape: Shape) -> str:
    return f"block {shape.block_x}x{shape.block_y}x1, planes {shape.march}, unroll {shape.unroll}"


def _random(array_shape: tuple[int, ...], xp: ModuleType, start: int, stop: int) -> Any:
    return xp.random.random((stop - start, *array_shape[1:]))


def _limits(backend: Backend, copy: float, peak: float | None) -> str:
    text = f"copy in the same run: {copy / 1e9:.0f} GB/s"
    return f"{text}; the vendor's peak: {peak / 1e9:.0f} GB/s" if peak else text


def _lowest(rows: Sequence[dict[str, Any]]) -> list[str]:
    """The lowest ratio of each variant that was measured on several grids."""
    notes = []
    for name in dict.fromkeys(row["variant"] for row in rows):
        own = [row for row in rows if row["variant"] == name]
        if len(own) > 1:
            low = min(own, key=lambda row: row["percent_of_copy"])
            grid = f"{low['nx']} x {low['ny']} x {low['nz']}"
            notes.append(f"lowest of {name}: {low['percent_of_copy']:.1f}% of the copy, at {grid}")
    return notes


def _count(backend: Backend, rows: Sequence[dict[str, Any]]) -> list[str]:
    """Add the profiler's counters to the rows; what there is to say of it."""
    for row in rows:
        row |= dict.fromkeys(column.key for column in COUNTERS)
    if not isinstance(backend, GpuBackend):
        return [f"no counters: --profile counts on the gpu backend alone, and this is {backend.name}"]
    for row in rows:
        nodes = (row["nx"], row["ny"], row["nz"])
        command = [
            *(sys.executable, "-m", "poisson", "bench", "laplacian", "--once", f"--variant={row['variant']}"),
            *(f"--sizes={'x'.join(map(str, nodes))}", f"--precision={backend.dtype}", f"--backend={backend.name}"),
        ]
        try:
            found = profile(command, backend.architecture)
        except ProfilerError as error:
            return [str(error)]
        row["fetch_gigabytes"] = found.fetched / 1e9
        row["write_gigabytes"] = found.written / 1e9
        row["fetch_efficiency_percent"] = 1e2 * fetch_bytes(nodes, backend.dtype.itemsize) / found.fetched
        row["write_efficiency_percent"] = 1e2 * write_bytes(nodes, backend.dtype.itemsize) / found.written
        row["l2_hit_percent"] = found.l2_hits
    return []


def _draw(rows: Sequence[dict[str, Any]], limit: float, figure: Figure) -> None:
    """Bars of the variants on one grid, or a line for each over the grids."""
    axes = figure.add_subplot()
    variants = list(dict.fromkeys(row["variant"] for row in rows))
    grids = list(dict.fromkeys((row["nx"], row["ny"], row["nz"]) for row in rows))
    if len(grids) == 1:
        axes.barh(variants, [row["gigabytes_per_second"] for row in rows])
        axes.invert_yaxis()
        axes.axvline(limit, color="black", linestyle="--", label="copy")
        axes.set_xlabel("effective bandwidth, GB/s")
        axes.set_title("Laplacian, {} x {} x {} nodes".format(*grids[0]))
        axes.tick_params(axis="y", labelsize=7)
    else:
        for name in variants:
            rates = [row["gigabytes_per_second"] for row in rows if row["variant"] == name]
            axes.plot(["\n".join(map(str, grid)) for grid in grids], rates, marker="o", label=name)
        axes.axhline(limit, color="black", linestyle="--", label="copy")
        axes.set_ylabel("effective bandwidth, GB/s")
        axes.set_xlabel("nodes along x, y, z")
        axes.set_ylim(bottom=0)
    axes.legend(fontsize=7)
