# SPDX-License-Identifier: MIT
"""Whole solves by every method, from arrays in the backend's memory to the solution there."""

import gc
import math
import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType, ModuleType
from typing import Any

import numpy as np

from poisson import backends
from poisson.backends.base import Array, Backend
from poisson.backends.gpu.backend import GpuBackend
from poisson.backends.ledger import counted
from poisson.discrete.discretisation import Discretisation
from poisson.errors import PoissonError
from poisson.mesh.lattice import Lattice
from poisson.output.table import Column, Report
from poisson.perf.benchmark import fields
from poisson.perf.benchmark.problem_kinds import PROBLEMS, require_problem
from poisson.perf.benchmark.sine import SineTransforms
from poisson.perf.timing import Timing, copy_bandwidth
from poisson.perf.traffic import cost
from poisson.perf.workload import box, laplacian_on, require_room
from poisson.problem.problem import Problem
from poisson.solvers import registry
from poisson.solvers.entries import Given
from poisson.solvers.mixed import in_float32
from poisson.solvers.multigrid import CoarserProblems
from poisson.solvers.registry import arrays_of
from poisson.solvers.settings import SolverSettings
from poisson.solvers.stopping import SolveResult
from poisson.words import quantity

REPEATS = 5
WITH_SETUP = 3
"""Solves with the set-up before each."""
ENOUGH_SECONDS = 1.5
"""After so long in all no further solve begins; one is made in any case."""
RTOL = 1e-8

COLUMNS = (
    Column("size", "size"),
    Column("jump", "jump of a", ".3g"),
    Column("method", "method"),
    Column("seconds", "ms", ".3f", 1e3),
    Column("lowest", "lowest", ".3f", 1e3),
    Column("highest", "highest", ".3f", 1e3),
    Column("with_setup", "with set-up", ".1f", 1e3),
    Column("first", "first", ".0f", 1e3),
    Column("iterations", "iterations"),
    Column("residual", "residual", ".1e"),
    Column("unknowns_per_second", "Munknowns/s", ".1f", 1e-6),
    Column("arrays", "arrays", ".2f"),
    Column("of_yardstick", "of yardstick", ".3f"),
)

CYCLES = SolverSettings(method="multigrid")
SINE = "sine"
"""The plain solver by sine transforms that stands beside ours."""
SINE_ARRAYS = 5
"""u and f, its copy of f, its eigenvalues and its spectrum, on the host; on a device transforms take more."""


@dataclass(frozen=True)
class Way:
    """A method to measure: its settings, and whether its cycles are in float32."""

    settings: SolverSettings
    mixed: bool = False


WAYS: Mapping[str, Way] = MappingProxyType(
    {
        "multigrid": Way(CYCLES),
        "mixed": Way(CYCLES, mixed=True),
        "fft": Way(SolverSettings(method="fft")),
        "fmg": Way(CYCLES.having(stop="discretisation")),
        "cg": Way(SolverSettings(method="cg")),
        "cg-mixed": Way(SolverSettings(method="cg"), mixed=True),
    }
)
METHODS = (*WAYS, SINE, *PROBLEMS)
CONSTANT_METHODS = ("multigrid", "mixed", "fft", "fmg", SINE)
VARYING_METHODS = ("cg", "cg-mixed")
"""The methods measured by default, where a is constant and where it jumps."""


@dataclass(frozen=True)
class Box:
    """A box with Dirichlet faces: the nodes along x, y(, z), and by how much a is larger in a block within.

    Without methods to measure it is `CONSTANT_METHODS` or `VARYING_METHODS`.
    """

    shape: tuple[int, ...]
    jump: float = 1.0
    methods: tuple[str, ...] = ()


ON_GPU = (
    Box((4097, 4097)),
    Box((8193, 8193)),
    Box((513, 513, 513)),
    Box((1025, 1025, 1025), methods=("mixed", "fft")),
    Box((257, 257, 257), 1e3),
)
ON_CPU = (Box((1025, 1025)), Box((4097, 4097)), Box((129, 129, 129)), Box((257, 257, 257)), Box((257, 257, 257), 1e3))
STUDY = tuple(Box((n, n), methods=("multigrid",)) for n in (513, 1025, 2049, 4097, 8193))
"""How the time grows with the number of unknowns."""


def bench(
    problems: Sequence[Box] = (),
    methods: Sequence[str] = (),
    *,
    name: str = "auto",
    threads: int = 0,
    repeats: int = REPEATS,
) -> Report:
    """Time solves to a relative residual of 1e-8 in float64, by default of `ON_GPU` or `ON_CPU`.

    `methods`, some of `METHODS`, take the place of those of each problem.

    Raises `PoissonError` if the backend does not run here, the arrays of a problem do not fit, or a method cannot solve
    it.
    """
    backend = backends.create(name, np.float64, threads)
    problems = problems or (ON_GPU if isinstance(backend, GpuBackend) else ON_CPU)
    for problem in problems:
        _require_solvable(problem, methods)
    bandwidth = copy_bandwidth(backend)
    rows = [row for problem in problems for row in _rows(backend, problem, methods, threads, repeats, bandwidth)]
    return Report(
        f"solves on {backend.name}, float64, to a relative residual of {RTOL:g}: {backend.device}",
        COLUMNS,
        tuple(rows),
        (
            f"f: sines that grow towards a corner, and random values {fields.ROUGHNESS:g} times as large; u starts "
            "from zero",
            f"ms: the median of {quantity(repeats, 'solve')}, fewer if long; with set-up: with new levels, "
            "plans and arrays; first: the first solve, with compilation",
            "arrays: memory of a device, u and f included, in arrays of float64; of yardstick: the bytes that the "
            f"operations must move, beside a copy at {bandwidth / 1e9:.0f} GB/s",
        ),
    )


def _rows(
    backend: Backend, problem: Box, methods: Sequence[str], threads: int, repeats: int, bandwidth: float
) -> list[Mapping[str, Any]]:
    """The measurements of all methods on a problem."""
    chosen = _methods(problem, methods)
    arrays = max(_arrays(method, len(problem.shape), problem.jump != 1.0) for method in chosen)
    what = f"the arrays of {' x '.join(map(str, problem.shape))} nodes"
    require_room(backend, arrays * math.prod(problem.shape), what, "fewer nodes with --n")
    solves = _Solves(backend, problem, threads)
    return [solves.row(method, repeats, bandwidth) for method in chosen]


def _methods(problem: Box, methods: Sequence[str]) -> Sequence[str]:
    return methods or problem.methods or (VARYING_METHODS if problem.jump != 1.0 else CONSTANT_METHODS)


def _require_solvable(problem: Box, methods: Sequence[str]) -> None:
    """Raise PoissonError if one of the methods cannot solve the problem, before any is measured."""
    for method in _methods(problem, methods):
        if problem.jump != 1.0 and method in ("fft", SINE, *PROBLEMS):
            reason = "the problem has its own a" if method in PROBLEMS else "transforms need a constant a"
            raise PoissonError(f"--method {method}: {reason}; leave out --jump, or measure cg")
        require_problem(method, problem.shape)


def _arrays(method: str, dimension: int, varies: bool) -> float:
    """Arrays of the grid's size that a method takes at once."""
    if method == SINE:
        return SINE_ARRAYS
    way = WAYS["cg" if method in PROBLEMS else method]
    return arrays_of(way.settings, "mixed" if way.mixed else "float64", dimension, varies=varies)


class _Solves:
    """A problem with its arrays on a backend."""

    def __init__(self, backend: Backend, problem: Box, threads: int) -> None:
        self.backend, self.problem, self.threads = backend, problem, threads
        self.grid = box(problem.shape)
        self.taken = _taken(backend)
        self.operations = backend.bind(fields.with_jump(backend, laplacian_on(self.grid), problem.jump))
        self.operator = self.operations.operator
        self.u = backend.empty(self.grid.array_shape)
        self.f = backend.assemble(self.grid.array_shape, lambda xp, *slab: source(self.grid, xp, *slab))

    def coarser(self) -> CoarserProblems:
        """The problem on coarser grids, with the samples of the source there."""
        jump = self.problem.jump
        a: Any = 1.0 if jump == 1.0 else lambda *along: fields.in_block(iter(along), jump)
        given = Problem.on_box(self.grid.shape, f=self.backend.to_host(self.f), a=a)
        discretisation = Discretisation(given)
        problems = CoarserProblems(self.backend, discretisation)
        problems.load(discretisation)
        return problems

    def row(self, method: str, repeats: int, bandwidth: float) -> Mapping[str, Any]:
        """The measurement of a method."""
        whole: list[float] = []
        run: _Ours | _Plain | _Whole | None = None
        while run is None or (len(whole) < 1 + WITH_SETUP and sum(whole[1:]) < ENOUGH_SECONDS):
            # The arrays of one are given back before the next is set up.
            run = None
            start = time.perf_counter()
            if method in PROBLEMS:
                run = _Whole(self, method)
            else:
                run = _Plain(self) if method == SINE else _Ours(self, WAYS[method])
            iterations = run.solve()
            whole.append(time.perf_counter() - start)
        taken = _taken(self.backend)
        moved, seconds = run.bytes(), list[float]()
        while len(seconds) < repeats and (not seconds or sum(seconds) < ENOUGH_SECONDS):
            start = time.perf_counter()
            run.solve()
            seconds.append(time.perf_counter() - start)
        timing = Timing.of(seconds)
        return {
            "size": "x".join(map(str, self.grid.shape)),
            "jump": self.problem.jump,
            "method": method,
            **timing.cells(),
            "with_setup": statistics.median(whole[1:] or whole),
            "first": whole[0],
            "iterations": iterations,
            "residual": run.residual(),
            "unknowns_per_second": run.unknowns / timing.median,
            "arrays": None if taken is None or self.taken is None else (taken - self.taken) / (8 * self.grid.nodes),
            "of_yardstick": None if moved is None else moved / timing.median / bandwidth,
        }

    def residual(self, u: Array) -> float:
        """The norm of the residual over that of the source."""
        backend, place = self.backend, self.backend.reduction()
        self.operations.residual(u, self.f, backend.empty(self.grid.array_shape), place)
        squares = backend.read(place)[0]
        self.operations.norm(self.f, place)
        return math.sqrt(squares / backend.read(place)[0])


class _Ours:
    """A method of this package."""

    def __init__(self, solves: _Solves, way: Way) -> None:
        self._solves = solves
        self._stopping = replace(way.settings.stopping, rtol=RTOL)
        stand_in, self._ledger = counted(solves.backend)
        inner = stand_in.companion(np.float32).bind(in_float32(solves.operations)) if way.mixed else None
        coarser = solves.coarser() if way.settings.stopping.stop == "discretisation" else None
        operations = stand_in.bind(solves.operator)
        self._method = registry.make_method(Given(operations, way.settings, inner, coarser))
        self.unknowns = solves.operator.unknowns
        self._result: SolveResult | None = None

    def solve(self) -> int | None:
        """Solve from zero and wait; returns the iterations."""
        on = self._solves
        on.backend.fill(on.u, 0.0)
        self._result = self._method.solve(on.u, on.f, stopping=self._stopping)
        on.backend.synchronize()
        if not self._result.status.success:
            raise PoissonError(f"a solve ended as {self._result.status.value}: {self._result.status.advice}")
        return self._result.iterations

    def residual(self) -> float:
        assert self._result is not None
        return self._solves.residual(self._result.u)

    def bytes(self) -> float | None:
        """The bytes that the operations so far must have moved."""
        return math.fsum(cost(call).bytes * count for call, count in self._ledger.counts.items())


class _Plain:
    """The plain solver by sine transforms, on arrays of its own."""

    def __init__(self, solves: _Solves) -> None:
        self._solves = solves
        xp = solves.backend.array_module
        self._solver = SineTransforms(xp, solves.grid, solves.threads)
        self._f = xp.asarray(solves.backend.to_host(solves.f))
        self._u: Any = None
        self.unknowns = solves.operator.unknowns

    def solve(self) -> int | None:
        self._u = None
        self._u = self._solver.solve(self._f)
        return None

    def residual(self) -> float:
        values = self._u if isinstance(self._u, np.ndarray) else self._u.get()
        return self._solves.residual(self._solves.backend.from_host(np.pad(values, 1)))

    def bytes(self) -> float | None:
        return None


class _Whole:
    """A solver of one of `PROBLEMS`."""

    def __init__(self, solves: _Solves, name: str) -> None:
        # Imported on use, as importing it takes much of the package.
        from poisson.run.solver import Solver

        problem = PROBLEMS[name](solves.grid.shape)
        settings: dict[str, Any] = {"backend": solves.backend.name, "threads": solves.threads, "rtol": RTOL}
        self._solver = Solver(problem, **settings)
        self._f = solves.backend.array_module.asarray(solves.backend.to_host(solves.f))
        self.unknowns = problem.lattice.unknowns

    def solve(self) -> int:
        self._solution = self._solver.solve(self._f)
        if not self._solution.status.success:
            raise PoissonError(f"a solve ended as {self._solution.status.value}: {self._solution.advice}")
        return self._solution.iterations

    def residual(self) -> float:
        return RTOL * self._solution.residual / self._solution.target

    def bytes(self) -> float | None:
        return None


def source(grid: Lattice, xp: ModuleType, start: int, stop: int) -> Any:
    """The source, whose random part is the same at every call."""
    rough = xp.random.RandomState(start + 1).uniform(-1.0, 1.0, (stop - start, *grid.array_shape[1:]))
    return fields.source(grid, xp, start, stop, rough)


def _taken(backend: Backend) -> int | None:
    """Bytes of a device's memory that are taken; None on the host, where others take and give back memory, too."""
    gc.collect()
    memory = backend.memory()
    return None if memory is None or backend.array_module is np else memory[1] - memory[0]
