# SPDX-License-Identifier: MIT
"""What is recorded, bound or made for a solver ends with it: poisson/solvers/recorded.py, and what backends keep."""

import gc
import tracemalloc
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from conftest import emulated
from support.multigrid import source, with_coefficients, zeros
from support.operators import operator
from support.ranks import ThreadCommunicator, on_ranks

from poisson import backends
from poisson.backends.base import Backend
from poisson.backends.numpy import NumpyBackend
from poisson.backends.openmp.arrays import Memory
from poisson.discrete.operator import Operator
from poisson.mesh.boundary import Rule
from poisson.parallel.distributed import DistributedBackend
from poisson.parallel.division import Division
from poisson.solvers import registry
from poisson.solvers.entries import Given
from poisson.solvers.mixed import in_float32
from poisson.solvers.recorded import Recorded
from poisson.solvers.settings import SolverSettings
from poisson.solvers.stopping import Stopping

F = Rule.FIXED
PLAIN = SolverSettings()
SETTINGS = {
    "multigrid": PLAIN.having(method="multigrid", full=True),
    "red-black": PLAIN.having(method="multigrid", smoother="red-black", full=False),
    "cg": PLAIN.having(method="cg", preconditioner="multigrid"),
    "cg fft": PLAIN.having(method="cg", preconditioner="fft"),
    "fft": PLAIN.having(method="fft"),
    "jacobi": PLAIN.having(method="jacobi"),
    "staged": PLAIN.having(method="jacobi", loop="staged"),
    "chebyshev": PLAIN.having(method="chebyshev"),
    "sor": PLAIN.having(method="sor"),
    "mixed": PLAIN.having(method="multigrid", full=True),
    "mixed cg": PLAIN.having(method="cg", preconditioner="multigrid"),
}
VARYING = ("red-black", "cg", "cg fft", "jacobi", "sor", "mixed cg")
"""Those that get coefficients that vary."""


@pytest.fixture
def no_collector() -> Iterator[None]:
    """Within a test no garbage is collected: what is left over by cycles stays."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def grid_of(backend: Backend, name: str) -> Operator:
    """The operator of a small grid, on the backend where it varies."""
    plain = operator((20, 17), (F,) * 4, c=0.0)
    if name not in VARYING:
        return plain
    return with_coefficients(backend, plain, 1.0 + np.random.default_rng(1).random(plain.array_shape))


def solve(backend: Backend, name: str, a: Operator) -> None:
    """Make a solver, let it make a few iterations, and drop it."""
    operations, inner = backend.bind(a), None
    if name.startswith("mixed"):
        inner = backend.companion(np.float32).bind(in_float32(operations))
    solver = registry.make_method(Given(operations, SETTINGS[name], inner))
    with np.errstate(all="ignore"):
        solver.solve(zeros(backend, a), source(backend, a), stopping=Stopping(rtol=0.0, max_iterations=2))


@pytest.fixture
def in_library(monkeypatch: pytest.MonkeyPatch) -> set[int]:
    """The addresses of all that lives in the OpenMP library's memory from now on."""
    allocate, release, living = Memory.allocate, Memory.release, set[int]()

    def noted(memory: Memory, rows: int, row_bytes: int) -> int:
        living.add(address := allocate(memory, rows, row_bytes))
        return address

    def given_back(memory: Memory, address: int) -> None:
        living.discard(address)
        release(memory, address)

    monkeypatch.setattr(Memory, "allocate", noted)
    monkeypatch.setattr(Memory, "release", given_back)
    return living


def left_by(call: Callable[[], None], count: int, living: set[int]) -> tuple[int, int, int]:
    """What so many calls leave: objects that the collector would look at, bytes of NumPy arrays, and of the library."""
    for _ in range(3):
        call()  # for what is compiled, or kept for all solvers
    tracemalloc.start()
    try:
        before = len(gc.get_objects()), _array_bytes(), len(living)
        for _ in range(count):
            call()
        after = len(gc.get_objects()), _array_bytes(), len(living)
    finally:
        tracemalloc.stop()
    return after[0] - before[0], after[1] - before[1], after[2] - before[2]


def _array_bytes() -> int:
    only_arrays = tracemalloc.DomainFilter(True, np.lib.tracemalloc_domain)
    return sum(trace.size for trace in tracemalloc.take_snapshot().filter_traces([only_arrays]).traces)


@pytest.mark.usefixtures("no_collector")
@pytest.mark.parametrize("name", SETTINGS)
@pytest.mark.parametrize("make", ["numpy", "openmp", "emulated"])
def test_solvers_that_are_dropped_leave_the_memory_where_it_was(make: str, name: str, in_library: set[int]) -> None:
    """Hundreds of them in all; fewer where each launch is emulated."""
    count = 4 if make == "emulated" else 15
    if make == "emulated" and name not in ("multigrid", "fft", "jacobi"):
        pytest.skip("each kernel takes seconds to be compiled for the emulation")
    backend = emulated(np.float64) if make == "emulated" else backends.create(make, np.float64, 1)
    a = grid_of(backend, name)
    objects, arrays, blocks = left_by(lambda: solve(backend, name, a), count, in_library)
    assert (arrays, blocks) == (0, 0)
    assert objects < count  # a few are kept once, whatever the number of solvers


@pytest.mark.usefixtures("no_collector")
@pytest.mark.parametrize("make", ["numpy", "openmp"])
def test_backends_that_are_dropped_do_too(make: str, in_library: set[int]) -> None:
    """With the companion of the other type."""

    def use() -> None:
        backend = backends.create(make, np.float64, 1)
        single = backend.companion(np.float32)
        x, y = single.empty((9, 10)), backend.empty((9, 10))
        single.fill(x, 1.0)
        backend.fill(y, 0.0)
        backend.correct(2.0, x, y)

    objects, arrays, blocks = left_by(use, 20, in_library)
    assert (arrays, blocks) == (0, 0)
    assert objects < 20


def test_a_recording_gives_the_array_of_its_function() -> None:
    backend, made = NumpyBackend(np.float64), list[Any]()

    def add() -> Any:
        made.append(np.zeros(3))
        backend.axpby(1.0, np.ones(3), 1.0, made[-1])
        return made[-1]

    recorded = Recorded(backend, add)
    for _ in range(2):
        found = recorded()
        assert found is made[-1] and found.tolist() == [1.0, 1.0, 1.0]


@pytest.mark.usefixtures("no_collector")
@pytest.mark.parametrize("make", ["openmp", "emulated"])
def test_solvers_on_ranks_that_are_dropped_do_too(make: str, in_library: set[int]) -> None:
    whole = Operator.uniform((17, 33), (0.1, 0.1), 0.0, (Rule.FIXED,) * 4)

    def rank(comm: ThreadCommunicator) -> None:
        local = emulated(np.float64) if make == "emulated" else backends.create(make, np.float64, 1)
        comm.on_device = make == "emulated"
        backend = DistributedBackend(local, comm, gathered_nodes=400)
        a = replace(whole, lattice=Division(whole.lattice, (1, 2), comm.rank).lattice)
        operations, settings = backend.bind(a), SolverSettings().having(method="multigrid", rtol=1e-2)
        single = backend.companion(np.float32).bind(in_float32(operations))
        method = registry.make_method(Given(operations, settings, inner=single))
        u, f = (backend.from_host(np.ones(a.array_shape)) for _ in range(2))
        method.solve(u, f, stopping=settings.stopping)

    def use() -> None:
        on_ranks(2, rank, delay=0.0)

    _, arrays, blocks = left_by(use, 3, in_library)
    assert (arrays, blocks) == (0, 0)
