# SPDX-License-Identifier: MIT
"""Passes beside the exchange of the halos that they need have the bits of those behind it, however late it comes.

Covers poisson.backends.gpu.overlap and poisson.backends.exchanges.
"""

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
from conftest import AllAlike
from support.emulation import EmulatedRuntime
from support.mpi import mpirun
from support.operators import random_array
from support.parts import taken
from support.ranks import ThreadCommunicator, on_ranks

from poisson.backends.gpu import overlap, smooth
from poisson.backends.gpu.backend import GpuBackend
from poisson.backends.gpu.launch import Launcher
from poisson.backends.gpu.overlap import Cut, Part, parts
from poisson.backends.gpu.shapes import Shape
from poisson.discrete.operator import Operator
from poisson.mesh.boundary import Rule
from poisson.parallel.arrays import DividedArray
from poisson.parallel.distributed import DistributedBackend
from poisson.parallel.division import Division
from poisson.parallel.exchange import Transport
from poisson.solvers import registry
from poisson.solvers.entries import Given
from poisson.solvers.multigrid.hierarchy import levels_of
from poisson.solvers.settings import SolverSettings

F, M, W = Rule.FIXED, Rule.MIRROR, Rule.WRAP


# ---- which blocks
def blocks_of(part: Part, operator: Operator) -> Iterator[tuple[int, int]]:
    """The blocks along y, and the bands, that a part of a launch has: as kernels/operator/operator.h counts."""
    bands, launched, first, first_y, blocks_y = (int(number) for number in part.arguments)
    for y, z in itertools.product(range(part.grid[1]), range(part.grid[2])):
        if operator.dimension == 2:
            yield 0, (y + first) % bands
        elif (z // launched * part.grid[1] + y - first_y) % (1 << 32) < blocks_y:
            yield z // launched * part.grid[1] + y, (z % launched + first) % bands


@pytest.mark.parametrize("counts", [(1, 3), (1, 1, 3), (1, 3, 1), (1, 2, 2), (1, 3, 3)], ids=str)
def test_every_block_is_done_once_and_what_comes_first_needs_no_halo(counts: tuple[int, ...]) -> None:
    shape, rules = ((9, 97), (F, F, W, W)) if len(counts) == 2 else ((9, 45, 61), (F, F, M, F, W, W))
    whole = Operator.uniform(shape, (0.1,) * len(shape), 0.0, rules)
    cut_up = 0
    for rank, halo, cut in itertools.product(
        range(math.prod(counts)), (2, 4), [Cut(4, 3, 1), Cut(5, 2, 4), Cut(16, 7, 3), Cut(1, 1, 1)]
    ):
        lattice = Division(whole.lattice, counts, rank, halo).lattice
        operator = replace(whole, lattice=lattice)
        bands = -(-operator.shape[-1] // cut.slowest)
        along_y = -(-operator.shape[1] // cut.along_y)
        # In strips of two blocks along y, of which the last one may have one too many.
        grid = (2, bands, 1) if len(counts) == 2 else (2, 2, bands * -(-along_y // 2))
        found = parts(operator, grid, cut)
        if found is None:
            continue
        cut_up += 1
        first, others = found
        done = [block for part in (first, *others) for block in blocks_of(part, operator)]
        assert len(done) == len(set(done)) == grid[1] * grid[2]
        for block in blocks_of(first, operator):
            for axis, number, each in ((1, block[0], cut.along_y), (-1, block[1], cut.slowest)):
                line = lattice.axes[axis]
                if line.halo != (0, 0) and not (len(counts) == 2 and axis == 1):
                    read = range(number * each - cut.reach, min(number * each + each, line.nodes) + cut.reach)
                    below, above = line.halo
                    assert not below or read[0] >= below
                    assert not above or read[-1] < line.nodes - above
    assert cut_up >= 2 * math.prod(counts)


def test_what_cannot_be_cut_up() -> None:
    whole = Operator.uniform((9, 33), (0.1, 0.1), 0.0, (F, F, F, F))
    assert parts(whole, (1, 9, 1), Cut(4, 0, 1)) is None  # there is no halo
    thin = replace(whole, lattice=Division(whole.lattice, (1, 8), 3, 4).lattice)
    assert parts(thin, (1, 3, 1), Cut(4, 0, 1)) is None  # each block needs one


# ---- operations
class LateBackend(DistributedBackend):
    """What is exchanged apart waits until something waits for it."""

    put_off = False

    def do(self, transport: Transport) -> None:
        if self.launching:
            done: list[None] = []
            runtime(self).submit(lambda: done.append(transport.run()))
            self.put_off |= not done


def runtime(backend: DistributedBackend) -> EmulatedRuntime:
    assert isinstance(backend.local, Launcher)
    found = backend.local.runtime
    assert isinstance(found, EmulatedRuntime)
    return found


def cut_up(backend: DistributedBackend) -> int:
    """Kernels that were launched in parts."""
    assert isinstance(backend.local, Launcher)
    return sum("-DPART=1" in key[-1] for key in backend.local.shared.kernels.ready)


Work = Callable[[DistributedBackend, Operator], list[Any]]
"""Does something with an operator on a part; gives what there is to be compared."""


def found_by(work: Work, whole: Operator, counts: tuple[int, ...], dtype: Any, halo: int = 4) -> tuple[Any, Any, Any]:
    """What all ranks find without overlap, with it, and with it where exchanges come late; and what was cut up."""

    def on_rank(comm: ThreadCommunicator, late: bool) -> tuple[list[Any], int]:
        comm.on_device = True
        backend = LateBackend(GpuBackend(dtype, EmulatedRuntime(late=late), AllAlike()), comm, gathered_nodes=100)
        lattice = Division(whole.lattice, counts, comm.rank, halo).lattice
        found = work(backend, replace(whole, lattice=lattice))
        runtime(backend).check_guards()
        assert backend.put_off is late
        return found, cut_up(backend)

    size = math.prod(counts)
    alone = on_ranks(size, partial(on_rank, late=False))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(overlap, "FEWEST_NODES", 0)
        beside, late = (on_ranks(size, partial(on_rank, late=late)) for late in (False, True))
    assert [count for _, count in alone] == [0] * size
    return alone, beside, late


def same_bits(work: Work, whole: Operator, counts: tuple[int, ...], dtype: Any = np.float32, halo: int = 4) -> int:
    """Compare them; the fewest kernels that a rank has cut up."""
    alone, beside, late = found_by(work, whole, counts, dtype, halo)
    for (expected, _), *others in zip(alone, beside, late, strict=True):
        for found, _ in others:
            assert len(found) == len(expected)
            for one, other in zip(found, expected, strict=True):
                np.testing.assert_array_equal(one, other)
    return min(count for _, count in (*beside, *late))


def random(backend: DistributedBackend, operator: Operator, seed: int) -> DividedArray:
    """An array whose halo has other values than those that belong there."""
    part = operator.lattice
    array = backend.from_host(taken(random_array(part.whole.array_shape, np.float64, seed), part))
    array.values[...] += np.where(owned(part.array_shape, operator), 0, 99).astype(array.dtype)
    array.valid = 0
    return array


def owned(shape: tuple[int, ...], operator: Operator) -> Any:
    mask = np.zeros(shape, dtype=bool)
    mask[operator.lattice.owned] = True
    return mask


def values(array: DividedArray, operator: Operator) -> Any:
    return array.values[operator.lattice.owned].copy()


def sweeps(backend: DistributedBackend, operator: Operator) -> list[Any]:
    """Passes of one sweep and of two, recorded, and a residual, each with its norms."""
    operations, result = backend.bind(operator), backend.reduction()
    u, f, out = (random(backend, operator, seed) for seed in range(3))
    found = []

    def once() -> None:
        operations.sweep(u, f, out, 0.7, result)

    def twice() -> None:
        operations.sweeps(u, f, out, [0.7, 0.8], result)

    for block in (backend.capture(once), backend.capture(twice)):
        for _ in range(3):
            u.valid = 0
            block()
            found += [values(out, operator), backend.read(result)]
            backend.axpby(0.5, out, 0.5, u)
    u.valid = 0
    operations.residual(u, f, out, result)
    return [*found, values(out, operator), backend.read(result)]


@pytest.mark.parametrize("rows", [97, 128])
def test_sweeps(rows: int) -> None:
    rules = (F, M, F, M) if rows % 2 else (F, M, W, W)
    assert same_bits(sweeps, Operator.uniform((9, rows), (0.1, 0.2), 0.3, rules), (1, 2)) == 3


def test_sweeps_of_thin_blocks_wait() -> None:
    assert same_bits(sweeps, Operator.uniform((9, 8), (0.1, 0.2), 0.3, (F, M, F, M)), (1, 4)) == 0


def smoothing(backend: DistributedBackend, operator: Operator) -> list[Any]:
    """Half a level of multigrid, from zero and from an array that is corrected, each with a restriction and norms."""
    level = levels_of(backend.bind(operator))[0]
    assert level.transfer is not None
    coarse, result = level.transfer.transfer.coarse, backend.reduction()
    assert coarse.lattice.divided
    u, f, out, work = (random(backend, operator, seed) for seed in range(4))
    above, below = (random(backend, coarse, seed) for seed in (4, 5))
    found = []
    for start, sweeps in ((None, 2), (u, 1)):
        correction = None if start is None else (level.transfer, above)
        for array in (u, f, above):
            array.valid = 0
        level.operations.smooth(start, f, out, work, [0.8, 0.9][:sweeps], correction, (level.transfer, below), result)
        found += [values(out, operator), values(below, coarse), backend.read(result)]
    return found


@pytest.mark.parametrize("counts", [(1, 1, 2), (1, 2, 2)], ids=str)
def test_smoothing_in_3d(counts: tuple[int, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    few = {kind: (Shape(32, lines, 4),) * 2 for kind, lines in (("correct", 5), ("zero", 5), ("single", 5), ("two", 9))}
    shapes = {**smooth.SMOOTH_SHAPES, **{(3, kind): shape for kind, shape in few.items()}}
    monkeypatch.setattr(smooth, "SMOOTH_SHAPES", shapes)
    whole = Operator.uniform((5, 16 * counts[1] + 1, 33), (0.1, 0.2, 0.1), 0.0, (F, M, M, F, F, F))
    assert same_bits(smoothing, whole, counts, halo=6) == 2


def test_smoothing_in_2d() -> None:
    whole = Operator.uniform((17, 192), (0.1, 0.2), 0.0, (F, M, W, W))
    assert same_bits(smoothing, whole, (1, 2), np.float64, halo=6) == 2


def defects(backend: DistributedBackend, operator: Operator) -> list[Any]:
    """Of float64 in float32, with the norms."""
    operations, result, single = backend.bind(operator), backend.reduction(), backend.companion(np.float32)
    assert isinstance(single, DistributedBackend)
    u, f = (random(backend, operator, seed) for seed in range(2))
    r = single.empty(operator.array_shape)
    operations.defect(u, f, 0.5, r, result)
    return [values(r, operator), backend.read(result)]


def test_defects_of_pencils() -> None:
    whole = Operator.uniform((9, 48, 40), (0.1, 0.2, 0.1), 0.0, (F, M, W, W, M, F))
    assert same_bits(defects, whole, (1, 2, 2), np.float64) == 1


@pytest.mark.parametrize(("method", "rows"), [("multigrid", 129), ("jacobi", 65)])
def test_solutions_and_histories(method: str, rows: int) -> None:
    """Solved in recordings, in which what is exchanged depends on what is right by then."""

    def solved(backend: DistributedBackend, operator: Operator) -> list[Any]:
        u, f = (random(backend, operator, seed) for seed in range(2))
        settings = SolverSettings().having(method=method, rtol=1e-4, max_iterations=4 if method == "multigrid" else 10)
        made = registry.make_method(Given(backend.bind(operator), settings))
        result = made.solve(u, f, stopping=settings.stopping)
        return [values(result.u, operator), result.history]

    whole = Operator.uniform((17, rows), (0.1, 0.2), 0.0, (F, F, F, F))
    assert same_bits(solved, whole, (1, 2), np.float64, halo=6) >= 1


def test_only_what_goes_between_devices_goes_on_beside_passes() -> None:
    """What goes over the host is there when the call returns."""

    def on_rank(comm: ThreadCommunicator) -> int:
        backend = DistributedBackend(GpuBackend(np.float32, EmulatedRuntime()), comm)
        whole = Operator.uniform((9, 97), (0.1, 0.2), 0.3, (F, M, F, M))
        sweeps(backend, replace(whole, lattice=Division(whole.lattice, (1, 2), comm.rank).lattice))
        return cut_up(backend)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(overlap, "FEWEST_NODES", 0)
        assert on_ranks(2, on_rank) == [0, 0]


ON_GPUS = """
import numpy as np
from mpi4py import MPI
import poisson
from poisson.backends.gpu import overlap

problems = [poisson.Problem.on_box((129, 129, 257), f="sin(3*x)*y - z", a=a, boundary="x") for a in (2.0, "1 + x*y")]
found = []
for fewest in (1 << 60, 0):
    overlap.FEWEST_NODES = fewest
    works = ("jacobi", "float32", problems[0]), *(("cg", "mixed", each) for each in problems)
    for method, precision, problem in works:
        solver = poisson.Solver(problem, method, "gpu", precision, comm=MPI.COMM_WORLD, max_iterations=20)
        solution = solver.solve(strict=False)
        found.append((solution.u.tobytes(), solution.history))
        parts = sum("-DPART=1" in key[-1] for key in solver.local_backend.shared.kernels.ready)
        assert (parts > 0) == (fewest == 0), parts
assert found[:3] == found[3:]
print("same")
"""


@pytest.mark.gpu
def test_two_gpus_find_the_same_bits() -> None:
    cupy = pytest.importorskip("cupy")
    if cupy.cuda.runtime.getDeviceCount() < 2:
        pytest.skip("there is one GPU")
    done = mpirun(2, "-W", "ignore", "-c", ON_GPUS)
    assert (done.returncode, done.stdout.split()) == (0, ["same"] * 2), done.stderr
