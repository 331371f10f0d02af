# SPDX-License-Identifier: MIT
"""The works whose time is measured on several ranks, and what a rank has of each: its part of the arrays, and a method.

The nodes are divided as they are for a solve. What stands on a node depends on its place in the whole grid alone, so
that every number of ranks has the same work to do.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType, ModuleType
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from poisson.backends.base import Array, Backend
from poisson.discrete.operator import Operator
from poisson.errors import PoissonError
from poisson.mesh.boundary import Rule
from poisson.mesh.lattice import Lattice
from poisson.parallel.communicator import Communicator
from poisson.parallel.distributed import GATHERED_NODES, DistributedBackend
from poisson.perf.benchmark import fields
from poisson.perf.benchmark.problems import PROBLEMS
from poisson.perf.benchmark.solve import RTOL
from poisson.perf.benchmark.tally import Recorder, Tally
from poisson.perf.workload import require_room
from poisson.run.ranks import Ranks
from poisson.solvers import registry
from poisson.solvers.entries import Given
from poisson.solvers.mixed import in_float32
from poisson.solvers.multigrid.cycle import CoarseGrids
from poisson.solvers.multigrid.hierarchy import coarsened_axes, coarser, levels_of
from poisson.solvers.multigrid.settings import MultigridSettings
from poisson.solvers.registry import arrays_of
from poisson.solvers.settings import SolverSettings
from poisson.solvers.stopping import SolveResult
from poisson.words import quantity

JUMP = 1e3
PHASES = (12.9898, 78.233, 37.719)
"""Steps of the phase of a sine from node to node along x, y, z; its trailing digits are as good as random."""

JACOBI = SolverSettings(method="jacobi")
MULTIGRID = SolverSettings(method="multigrid")
FFT = SolverSettings(method="fft")
CG = SolverSettings(method="cg")


@dataclass(frozen=True)
class WorkKind:
    """A kind of work, on a grid of any size, that grows with the ranks if it is `weak` or is the `largest` that fits.

    It is one of `PROBLEMS`, for so many iterations, or has a smooth source with a random part and is solved to `RTOL`;
    a is `jump` times as large in a block in the middle.
    """

    settings: SolverSettings
    precision: str = "float64"
    published: str = ""
    jump: float = 1.0
    weak: bool = False
    largest: bool = False

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of u."""
        return np.dtype(np.float32 if self.precision == "float32" else np.float64)

    @property
    def cycles(self) -> bool:
        """Whether cycles of multigrid are part of it."""
        return self.settings.method in ("multigrid", "cg")


KINDS: Mapping[str, WorkKind] = MappingProxyType(
    {
        "laplace-fused": WorkKind(JACOBI.having(loop="fused"), "float32", "laplace"),
        "laplace-blocked": WorkKind(JACOBI.having(loop="blocked"), "float32", "laplace"),
        "square-fused": WorkKind(JACOBI.having(loop="fused"), "float64", "heated_square"),
        "multigrid": WorkKind(MULTIGRID, "mixed"),
        "fft": WorkKind(FFT),
        "weak-multigrid": WorkKind(MULTIGRID, "mixed", weak=True),
        "weak-fft": WorkKind(FFT, weak=True),
        "cg": WorkKind(CG, "mixed", jump=JUMP),
        "largest": WorkKind(MULTIGRID, "mixed", largest=True),
    }
)
"""By the name that ``--work`` takes."""


@dataclass(frozen=True)
class Work:
    """A work on a grid: nodes along x, y(, z), as the authors of a published problem count them; of one rank where the
    grid grows with the ranks. Published problems have a number of iterations.
    """

    name: str
    shape: tuple[int, ...]
    iterations: int = 0

    @property
    def kind(self) -> WorkKind:
        return KINDS[self.name]

    def on(self, ranks: int) -> Operator:
        """The operator on the whole grid, which has equal spacings and, but for a published problem, fixed faces."""
        kind = self.kind
        if kind.published:
            return PROBLEMS[kind.published].operator(self.shape[0])
        shape = grown(self.shape, ranks) if kind.weak else self.shape
        spacing = 1.0 / (min(self.shape) - 1)
        dimension = len(shape)
        return Operator.uniform(shape, (spacing,) * dimension, 0.0, (Rule.FIXED,) * (2 * dimension))


def grown(shape: tuple[int, ...], ranks: int) -> tuple[int, ...]:
    """A grid with as many intervals for each of so many ranks as this one: its shortest axes grow, the slowest first.

    So 513³ nodes on four ranks become 513 x 1025 x 1025.
    """
    factors, factor = [], 2
    while ranks > 1:
        if ranks % factor:
            factor += 1
        else:
            ranks //= factor
            factors.append(factor)
    intervals = [nodes - 1 for nodes in shape]
    for factor in reversed(factors):
        shortest = max(range(len(shape)), key=lambda axis: (-intervals[axis], axis))
        intervals[shortest] *= factor
    return tuple(count + 1 for count in intervals)


def largest_cube(memory: float, arrays: float) -> int:
    """Nodes along each side of the largest cube with so many float64 arrays in so many bytes, of all ranks together.

    Its intervals halve often.
    """
    side = (memory / (8.0 * arrays)) ** (1.0 / 3.0)
    if side < 9.0:
        raise PoissonError(f"no cube fits {memory / 1e6:.3g} MB")
    power = max(1, int(math.log2(side)) - 3)
    unit = 1 << power
    return int((side - 1.0) / unit) * unit + 1


class WorkOfRank:
    """The part of a work that one rank has, whose `local` backend has the type of u. All ranks call it together.

    Raises `ResourceError` if the arrays do not fit; `PoissonError` if a solve does not converge.
    """

    def __init__(
        self, work: Work, local: Backend, communicator: Communicator, gathered_nodes: int = GATHERED_NODES
    ) -> None:
        self.work, self.kind = work, work.kind
        self.local = local
        self.tally = Tally(communicator)
        whole = work.on(communicator.size)
        settings = self.kind.settings
        ranks = Ranks(self.tally)
        ranks.divide(
            whole.lattice,
            lambda part: registry.halo_of(settings, part.dimension, local.bind(replace(whole, lattice=part)).depth()),
            planes=registry.needs_planes(settings),
        )
        lattice = ranks.division.lattice if ranks.division else whole.lattice
        self.blocks = ranks.division.counts if ranks.division else (1,) * whole.dimension
        what = f"the arrays of {' x '.join(map(str, whole.shape))} nodes on {quantity(communicator.size, 'rank')}"
        require_room(local, self._arrays * math.prod(lattice.shape), what, "fewer nodes")
        self.backend: Backend = self._divided(gathered_nodes) if ranks.division else local
        plain = replace(whole, lattice=lattice)
        self.operations = self.backend.bind(fields.with_jump(self.backend, plain, self.kind.jump))
        self.operator = self.operations.operator
        self.u = self._start()
        self.f = self.backend.empty(lattice.array_shape)
        if self.kind.published:
            self.backend.fill(self.f, 0.0)
        else:
            self.backend.assemble(lattice.array_shape, lambda xp, *slab: source(lattice, xp, *slab), self.f)
        self.inner = None
        if self.kind.precision == "mixed":
            self.inner = self.backend.companion(np.float32).bind(in_float32(self.operations))
        self._method = registry.make_method(Given(self.operations, settings, self.inner))
        self.stopping = replace(settings.stopping, rtol=RTOL)
        if self.kind.published:
            depth = self.operations.depth() if settings.value("loop") == "blocked" else 1
            # All ranks have backends of one kind, but the depth may depend on the part.
            every = int(min(each for (each,) in communicator.allgather([depth])))
            self.stopping = replace(self.stopping, rtol=0.0, max_iterations=work.iterations, check_every=every)

    def _divided(self, gathered_nodes: int) -> Backend:
        stand_in = cast(Backend, Recorder(self.local, self.tally))
        return DistributedBackend(stand_in, self.tally, gathered_nodes)  # type: ignore[abstract]  # vectors: from entries

    @property
    def _arrays(self) -> float:
        kind = self.kind
        precision = "mixed" if kind.precision == "mixed" else "float64"
        return arrays_of(kind.settings, precision, len(self.work.shape), varies=kind.jump != 1.0)

    def begin(self) -> None:
        """Make u what a solve starts from."""
        if self.kind.published:
            self._start(self.u)
        else:
            self.backend.fill(self.u, 0.0)
        self.backend.synchronize()

    def iterate(self, count: int) -> SolveResult:
        """Make so many iterations, without a look at the residual."""
        return self._method.solve(self.u, self.f, stopping=replace(self.stopping, rtol=0.0, max_iterations=count))

    def solve(self) -> SolveResult:
        """Solve, and wait for the end of it on this rank."""
        result = self._method.solve(self.u, self.f, stopping=self.stopping)
        self.backend.synchronize()
        if not self.kind.published and not result.status.success:
            raise PoissonError(f"{self.work.name}: a solve ended as {result.status.value}: {result.status.advice}")
        return result

    def _start(self, out: Array | None = None) -> Array:
        shape, lattice = self.operator.array_shape, self.operator.lattice
        if not self.kind.published:
            return self.backend.empty(shape) if out is None else out
        problem = PROBLEMS[self.kind.published]
        whole = replace(self.operator, lattice=lattice.whole)

        def slab(xp: ModuleType, start: int, stop: int) -> Any:
            pieces = [problem.values(xp, whole, *ends) for ends in _runs(lattice.axes[-1].index[start:stop])]
            return pieces[0] if len(pieces) == 1 else xp.concatenate(pieces)

        return self.backend.assemble(shape, slab, out)

    def below(self) -> Callable[[], None] | None:
        """A cycle on the grids that are not divided, for this rank alone; None where there are none, or no cycles."""
        if not (self.operator.lattice.divided and self.kind.cycles):
            return None
        operations = self.operations if self.inner is None else self.inner
        backend, operator = operations.backend, operations.operator
        plain = replace(operator, coefficients=None)
        while plain.lattice.divided and (axes := coarsened_axes(plain)):
            plain = coarser(backend, plain, axes)
        if plain.lattice.divided:
            return None
        local = self.local.companion(backend.dtype)
        levels = levels_of(local.bind(plain))
        cycle = self.kind.settings.of(MultigridSettings)
        if self.kind.settings.method == "cg":
            cycle = cycle.self_adjoint()
        # The first of them is here one of those below.
        grids = CoarseGrids((levels[0], *levels), cycle)
        local.fill(grids.grids[0].f, 1.0)

        def run() -> None:
            grids.solve(0)

        return self.local.capture(run)


def _runs(numbers: NDArray[np.int64]) -> list[tuple[int, int]]:
    """The ranges of numbers that follow one upon another; a halo may wrap around the end of an axis."""
    pieces = np.split(numbers, np.flatnonzero(np.diff(numbers) != 1) + 1)
    return [(int(piece[0]), int(piece[-1]) + 1) for piece in pieces]


def source(lattice: Lattice, xp: ModuleType, start: int, stop: int) -> Any:
    """The source at the rows [start, stop) of a part; its rough part depends on a node's place in the whole alone."""
    phase: Any = 0.0
    for (_, numbers), step in zip(fields.places(lattice, xp, start, stop), PHASES, strict=False):
        phase = phase + step * numbers
    rough = xp.sin(phase) * 43758.5453
    rough -= xp.floor(rough)
    return fields.source(lattice, xp, start, stop, 2.0 * rough - 1.0)
