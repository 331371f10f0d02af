# SPDX-License-Identifier: MIT
"""A problem divided over ranks is solved as the whole one is.

Covers poisson.parallel.operations, poisson.parallel.calls and poisson.parallel.exchanging.
"""

import itertools
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import pytest
from conftest import emulated, real
from support.operators import random_array
from support.parts import put, taken
from support.ranks import ThreadCommunicator, on_ranks

from poisson.backends.base import Backend
from poisson.backends.numpy import NumpyBackend
from poisson.discrete.operator import Coefficients, Operator
from poisson.errors import GridError
from poisson.mesh.boundary import Rule
from poisson.mesh.lattice import Lattice
from poisson.parallel.arrays import EVERYWHERE, DividedArray
from poisson.parallel.distributed import DistributedBackend
from poisson.parallel.division import Division, best_counts
from poisson.parallel.recording import SHORT
from poisson.solvers import registry
from poisson.solvers.entries import Given
from poisson.solvers.loops import sweep_through
from poisson.solvers.mixed import in_float32
from poisson.solvers.settings import SolverSettings

F, M, W = Rule.FIXED, Rule.MIRROR, Rule.WRAP


def varying(operator: Operator, backend: Backend) -> Operator:
    """With a and c that vary."""
    a = np.exp(random_array(operator.array_shape, np.float64, 3))
    c = 0.3 * np.exp(random_array(operator.array_shape, np.float64, 4))
    links = tuple(backend.empty(operator.array_shape) for _ in operator.shape)
    nodes = backend.from_host(a)
    for axis, out in enumerate(links):
        backend.bind(operator).links(axis, nodes, True, out)
    ranges = (float(a.min()), float(a.max())), (float(c.min()), float(c.max()))
    return replace(operator, c=0.0, coefficients=Coefficients(links, backend.from_host(c), *ranges))


def divided(operator: Operator, lattice: Lattice, backend: DistributedBackend, local: Backend) -> Operator:
    """The operator on a part, with the values that it has there."""
    given = operator.coefficients
    if given is None:
        return replace(operator, lattice=lattice)

    def part(values: Any) -> DividedArray:
        return DividedArray(local.from_host(taken(local.to_host(values), lattice)), EVERYWHERE)

    links = None if given.links is None else tuple(part(each) for each in given.links)
    c = None if given.c is None else part(given.c)
    return replace(operator, lattice=lattice, coefficients=replace(given, links=links, c=c))


def solved(
    operator: Operator, settings: SolverSettings, precision: str, backend: Backend, u: Any, f: Any
) -> tuple[Any, Any]:
    operations = backend.bind(operator)
    inner = backend.companion(np.float32).bind(in_float32(operations)) if precision == "mixed" else None
    method = registry.make_method(Given(operations, settings, inner=inner))
    result = method.solve(u, f, stopping=settings.stopping)
    return backend.to_host(result.u), result


def compared(
    operator: Operator,
    counts: tuple[int, ...],
    settings: SolverSettings,
    make: Callable[[], Backend] = lambda: NumpyBackend(np.float64),
    precision: str = "float64",
    halo: int = 4,
    tolerance: float = 1e-10,
    gathered_nodes: int = 400,
) -> tuple[Any, list[Any]]:
    """Solve the whole and the parts; returns how both ended, and checks u."""
    shape = operator.array_shape
    free = np.zeros(shape, dtype=bool)
    free[operator.lattice.free] = True
    u, f = random_array(shape, np.float64, 1), random_array(shape, np.float64, 2)
    if operator.singular:
        volumes = operator.lattice.volumes()
        f = f - np.sum(volumes * f) / np.sum(volumes)
    f = np.where(free, f, 0.0)
    start = np.where(free, 0.0, u)
    backend = make()
    expected, result = solved(operator, settings, precision, backend, backend.from_host(start), backend.from_host(f))
    size = int(np.prod(counts))

    def run(comm: ThreadCommunicator) -> tuple[Any, Any, Lattice]:
        local = make()
        distributed = DistributedBackend(local, comm, gathered_nodes=gathered_nodes)
        part = Division(operator.lattice, counts, comm.rank, halo).lattice
        mine = divided(operator, part, distributed, local)
        arrays = (distributed.from_host(taken(values, part)) for values in (start, f))
        return *solved(mine, settings, precision, distributed, *arrays), part

    found = on_ranks(size, run, delay=0.0)
    gathered = np.full(shape, np.nan)
    for values, _, part in found:
        put(gathered, part, values)
    scale = np.max(np.abs(expected))
    if operator.singular:
        volumes = operator.lattice.volumes()
        expected, gathered = (x - np.sum(volumes * x) / np.sum(volumes) for x in (expected, gathered))
    eps = tolerance if backend.dtype == np.float64 and precision == "float64" else 1e-4
    np.testing.assert_allclose(gathered, expected, rtol=0.0, atol=eps * scale)
    return result, [each[1] for each in found]


PROBLEMS = {
    "2d small": (Operator.uniform((17, 33), (0.1, 0.1), 0.0, (F, M, F, F)), (1, 2)),
    "2d fixed": (Operator.uniform((33, 65), (0.1, 0.1), 0.0, (F, F, F, F)), (1, 3)),
    "2d mixed": (Operator.uniform((33, 50), (0.1, 0.1), 0.1, (F, M, M, F)), (1, 2)),
    "2d flat": (Operator.uniform((65, 33), (0.1, 0.2), 0.0, (F, F, F, F)), (1, 3)),
    "2d periodic": (Operator.uniform((32, 64), (0.1, 0.1), 0.0, (F, F, W, W)), (1, 4)),
    "2d singular": (Operator.uniform((33, 65), (0.1, 0.1), 0.0, (M, M, M, M)), (1, 3)),
    "3d fixed": (Operator.uniform((17, 17, 33), (0.1, 0.1, 0.1), 0.0, (F, F, F, F, F, F)), (1, 1, 3)),
    "3d pencils": (Operator.uniform((9, 18, 33), (0.1, 0.1, 0.1), 0.2, (M, F, W, W, F, M)), (1, 2, 2)),
    "3d flat pencils": (Operator.uniform((9, 33, 33), (0.1, 0.1, 0.3), 0.2, (M, F, F, F, F, M)), (1, 2, 2)),
    "3d singular": (Operator.uniform((9, 16, 33), (0.1, 0.1, 0.1), 0.0, (M, M, W, W, M, M)), (1, 2, 2)),
}

SLABS = [name for name, (_, counts) in PROBLEMS.items() if sum(count > 1 for count in counts) == 1]

SETTINGS: dict[str, Any] = {
    "jacobi": {"method": "jacobi", "max_iterations": 50},
    "jacobi staged": {"method": "jacobi", "loop": "staged", "max_iterations": 20},
    "chebyshev": {"method": "chebyshev", "max_iterations": 100},
    "sor": {"method": "sor", "max_iterations": 50},
    "cg": {"method": "cg", "preconditioner": "none"},
    "cg jacobi": {"method": "cg", "preconditioner": "jacobi"},
    "cg multigrid": {"method": "cg", "preconditioner": "multigrid"},
    "cg fft": {"method": "cg", "preconditioner": "fft"},
    "multigrid": {"method": "multigrid"},
    "multigrid W": {"method": "multigrid", "cycle": "W", "smoother": "red-black"},
    "fmg": {"method": "multigrid", "full": True},
}


MAKERS: dict[str, Callable[[], Backend]] = {
    "numpy": lambda: NumpyBackend(np.float64),
    "openmp": lambda: real("openmp", threads=1)(np.float64),
    "openmp float32": lambda: real("openmp", threads=1)(np.float32),
    "emulated": lambda: emulated(np.float64),
}


ONE_KIND = {"chebyshev": "constant", "sor": "constant", "cg fft": "varying"}
"""Not the start of a Lanczos process, which is that of whole grids; and more than one iteration."""
CASES = [
    # Every method with every problem: coefficients and backends in turn.
    *(
        (name, settings, ONE_KIND.get(settings, ("constant", "varying")[turn % 2]), ("numpy", "openmp")[turn // 2 % 2])
        for (number, name), (place, settings) in itertools.product(enumerate(list(PROBLEMS)[1:]), enumerate(SETTINGS))
        for turn in (number + place,)
        if settings != "cg fft" or name in SLABS
    ),
    *((name, "multigrid", "varying", "openmp float32") for name in list(PROBLEMS)[1:]),
    ("2d small", "fmg", "constant", "emulated"),
]


@pytest.mark.parametrize(("name", "settings", "kind", "backend"), CASES, ids=["-".join(case) for case in CASES])
def test_ranks_solve_as_one(name: str, settings: str, kind: str, backend: str) -> None:
    operator, counts = PROBLEMS[name]
    make = MAKERS[backend]
    if kind == "varying":
        operator = varying(operator, make())
    single = backend == "openmp float32"
    given = SolverSettings().having(rtol=1e-4 if single else 1e-8, **SETTINGS[settings])
    # Conjugate gradients without a good preconditioner amplify rounding errors in their iterates.
    amplifies = settings in ("cg", "cg jacobi")
    whole, parts = compared(operator, counts, given, make, halo=6, tolerance=1e-7 if amplifies else 1e-10)
    for part in parts:
        assert part.history == parts[0].history
        assert part.status is whole.status
        assert abs(part.iterations - whole.iterations) <= amplifies
        norms, expected = (np.array([norm for _, norm in each.history]) for each in (part, whole))
        count = 20 if amplifies else max(len(norms), len(expected))
        if not single:  # there the last norms are near rounding
            np.testing.assert_allclose(norms[:count], expected[:count], rtol=1e-6)


@pytest.mark.parametrize("kind", ["constant", "varying"])
def test_cycles_in_float32_correct_in_float64(kind: str) -> None:
    operator, counts = PROBLEMS["3d pencils"]
    if kind == "varying":
        operator = varying(operator, NumpyBackend(np.float64))
    for method in ("multigrid", "cg"):
        settings = SolverSettings().having(rtol=1e-8, method=method)
        whole, parts = compared(operator, counts, settings, precision="mixed")
        assert all(part.status is whole.status and part.iterations == whole.iterations for part in parts)


def test_transforms_are_a_preconditioner_on_slabs() -> None:
    operator, counts = PROBLEMS["3d fixed"]
    settings = SolverSettings().having(rtol=1e-8, method="cg", preconditioner="fft")
    whole, parts = compared(varying(operator, NumpyBackend(np.float64)), counts, settings, tolerance=1e-7)
    assert all(part.status is whole.status and abs(part.iterations - whole.iterations) <= 1 for part in parts)


@pytest.mark.parametrize("coarse", ["geometric", "galerkin"])
@pytest.mark.parametrize("method", ["multigrid", "cg"])
def test_a_divided_grid_of_few_nodes_is_gathered_on_a_coarser_one(method: str, coarse: str) -> None:
    """Where it is not divided it is solved directly."""
    given = SolverSettings().having(rtol=1e-10, method=method, coarse=coarse)
    rules = (Rule.FIXED, Rule.MIRROR, Rule.FIXED, Rule.FIXED)
    operator = Operator.uniform((23, 13), (1 / 22, 1 / 12), 1.0, rules)
    whole, parts = compared(operator, (1, 2), given, tolerance=1e-8)
    assert whole.iterations == 1 and all(part.status is whole.status for part in parts)
    operator = Operator.uniform((3, 3), (1 / 2, 1 / 2), 1.0, (Rule.FIXED,) * 4)
    with pytest.raises(
        GridError, match=r"^run.ranks: several for 3 x 3 nodes, too few for a coarser grid; allowed with"
    ):
        compared(operator, (1, 2), given)


@pytest.mark.parametrize("name", SLABS)
def test_ranks_solve_directly_as_one(name: str) -> None:
    operator, counts = PROBLEMS[name]
    whole, parts = compared(operator, counts, SolverSettings().having(method="fft", rtol=1e-11), tolerance=1e-12)
    assert [(part.status, part.iterations) for part in parts] == [(whole.status, 1)] * len(parts)


def test_pencils_are_refused_by_direct_solutions() -> None:
    operator, counts = PROBLEMS["3d pencils"]
    with pytest.raises(GridError, match="divide z alone"):
        compared(operator, counts, SolverSettings().having(method="fft"))


@pytest.mark.parametrize("halo", [2, 3, 5, 8])
@pytest.mark.parametrize("settings", ["jacobi", "cg multigrid", "fmg"])
def test_any_halo_will_do(settings: str, halo: int) -> None:
    operator, counts = PROBLEMS["2d mixed"]
    given = SolverSettings().having(rtol=1e-8, **SETTINGS[settings])
    whole, parts = compared(operator, counts, given, halo=halo)
    assert [part.iterations for part in parts] == [whole.iterations] * len(parts)


@pytest.mark.parametrize("name", ["2d mixed", "3d pencils"])
@pytest.mark.parametrize("method", ["multigrid", "cg"])
def test_mixed_precision_on_ranks(name: str, method: str) -> None:
    operator, counts = PROBLEMS[name]
    operator = varying(operator, NumpyBackend(np.float64)) if method == "cg" else operator
    given = SolverSettings().having(rtol=1e-9, method=method, preconditioner="multigrid")
    whole, parts = compared(operator, counts, given, precision="mixed")
    assert [(part.status, part.iterations) for part in parts] == [(whole.status, whole.iterations)] * len(parts)


def test_two_runs_have_the_same_bits() -> None:
    operator, counts = PROBLEMS["3d pencils"]
    given = SolverSettings().having(rtol=1e-8, method="multigrid")
    first, second = (compared(operator, counts, given)[1] for _ in range(2))
    assert [part.history for part in first] == [part.history for part in second]


def test_a_blocked_pass_exchanges_once() -> None:
    """Halos of eight layers last for two passes of four sweeps."""
    operator = PROBLEMS["2d fixed"][0]

    def exchanges(comm: ThreadCommunicator, halo: int) -> int:
        backend = DistributedBackend(NumpyBackend(np.float64), comm)
        part = Division(operator.lattice, (1, 3), comm.rank, halo).lattice
        operations = backend.bind(replace(operator, lattice=part))
        u, f, out = (backend.from_host(random_array(part.array_shape, np.float64, n)) for n in range(3))
        u.valid = 0
        before = comm.exchanges
        for _ in range(4):
            operations.sweeps(u, f, out, [0.8] * 4)
            u, out = out, u
        return comm.exchanges - before

    assert on_ranks(3, lambda comm: exchanges(comm, 4)) == [4] * 3
    assert on_ranks(3, lambda comm: exchanges(comm, 8)) == [2] * 3


def test_the_outermost_diagonal_is_not_known() -> None:
    """So what is divided by it is not right there, whatever is of the residual."""
    operator = PROBLEMS["2d fixed"][0]

    def right(comm: ThreadCommunicator) -> list[int]:
        backend = DistributedBackend(NumpyBackend(np.float64), comm)
        part = Division(operator.lattice, (1, 3), comm.rank, 4).lattice
        operations = backend.bind(replace(operator, lattice=part))
        r, au, z, u = (backend.from_host(random_array(part.array_shape, np.float64, n)) for n in range(4))
        operations.diagonal_solve(r, z, 0.7)
        operations.update(None, au, r, u, 0.7)
        return [array.valid for array in (z, r, u)]

    assert on_ranks(3, right) == [[3, 4, 3]] * 3


def test_parts_begin_where_coarser_axes_have_nodes_too() -> None:
    whole = Operator.uniform((9, 513), (1.0, 1.0), 0.0, (F, F, F, F)).lattice
    ranges = [Division(whole, (1, 4), rank).ranges[1] for rank in range(4)]
    assert ranges == [(0, 128), (128, 256), (256, 384), (384, 513)]
    for rank in range(4):
        part: Any = Division(whole, (1, 4), rank, 4).lattice.axes[1]
        while part is not None and part.undivided.nodes > 33:
            assert part.first % 2 == 0
            assert part.nodes % 2 == 1
            part = part.coarser


def test_blocks_have_the_least_halo() -> None:
    cube = Operator.uniform((129, 129, 129), (1.0,) * 3, 0.0, (F,) * 6).lattice
    assert [best_counts(cube, size) for size in (1, 2, 4, 8, 16)] == [
        (1, 1, 1),
        (1, 1, 2),
        (1, 1, 4),
        (1, 2, 4),
        (1, 4, 4),
    ]
    assert best_counts(Operator.uniform((9, 9), (1.0, 1.0), 0.0, (F,) * 4).lattice, 4) == (1, 1)
    with pytest.raises(GridError, match="too many"):
        best_counts(Operator.uniform((99, 5, 5), (1.0,) * 3, 0.0, (F,) * 6).lattice, 64)
    with pytest.raises(GridError, match="the x axis is not divided"):
        Division(cube, (2, 1, 1), 0)
    with pytest.raises(GridError, match="300 ranks along z, but only 129 nodes"):
        Division(cube, (1, 1, 300), 0)


def test_ranks_with_a_single_row_each() -> None:
    operator = Operator.uniform((129, 8), (0.1, 0.1), 0.3, (F, M, M, F))
    given = SolverSettings().having(method="cg", preconditioner="none", rtol=1e-10)
    whole, parts = compared(operator, (1, 8), given, tolerance=1e-8)
    assert [part.status for part in parts] == [whole.status] * 8


def recorded_sweeps(comm: ThreadCommunicator, operator: Operator, halo: int, blocks: list[int]) -> tuple[Any, int]:
    """Blocks of sweeps on an emulated device that sends its arrays itself; the array of the part, and the exchanges."""
    comm.on_device = True
    backend = DistributedBackend(emulated(np.float64), comm)
    part = Division(operator.lattice, (1, 3), comm.rank, halo).lattice
    operations = backend.bind(replace(operator, lattice=part))
    u, f = (backend.from_host(taken(random_array(operator.array_shape, np.float64, n), part)) for n in range(2))
    out = backend.empty(part.array_shape)

    def block(count: int) -> None:
        sweep_through(operations, u, f, out, [0.8] * count, 1)

    made: dict[int, Callable[[], None]] = {}
    for count in blocks:
        if count not in made:
            made[count] = backend.capture(partial(block, count))
        made[count]()
    exchanges = comm.exchanges
    return backend.to_host(u), exchanges


def test_recordings_exchange_when_they_must() -> None:
    operator = Operator.uniform((17, 33), (0.1, 0.1), 0.0, (F, M, F, F))
    whole = NumpyBackend(np.float64)
    u, f, out = (whole.from_host(random_array(operator.array_shape, np.float64, n)) for n in range(3))
    sweep_through(whole.bind(operator), u, f, out, [0.8] * 12, 1)
    for blocks in ([2] * 6, [12], [4, 8]):

        def sweeps(comm: ThreadCommunicator, blocks: list[int] = blocks) -> tuple[Any, ...]:
            return comm.rank, *recorded_sweeps(comm, operator, 4, blocks)

        found = on_ranks(3, sweeps, delay=0.0)
        gathered = np.empty(operator.array_shape)
        for rank, values, count in found:
            put(gathered, Division(operator.lattice, (1, 3), rank, 4).lattice, values)
            assert count == 2
        np.testing.assert_allclose(gathered, u, rtol=1e-13)


def test_a_long_recording_is_made_once() -> None:
    assert SHORT < 3 * 40
    operator = Operator.uniform((17, 33), (0.1, 0.1), 0.0, (F, M, F, F))
    # Of forty sweeps with a halo of four nine in succession exchange, and the first ones have what they need; so it has
    # to be there again when they are repeated.
    found = on_ranks(3, lambda comm: recorded_sweeps(comm, operator, 4, [40, 40])[1], delay=0.0)
    assert found == [9 + 1 + 9] * 3


def test_recordings_end_with_the_communicator_that_they_exchange_by() -> None:
    def kept(comm: ThreadCommunicator) -> list[int]:
        held: WeakKeyDictionary[Any, dict[Any, Any]] = WeakKeyDictionary()
        comm.on_device = True
        comm.recordings = held  # type: ignore[attr-defined]
        backend = DistributedBackend(emulated(np.float64), comm)
        x = backend.empty((3, 3))
        first, second = (backend.capture(partial(backend.fill, x, value)) for value in (2.0, 3.0))
        first()
        counts = [len(each) for each in held.values()]
        del second
        for each in held.values():
            each.clear()
        first()
        return [*counts, len(held)]

    # Two were made, of which one was dropped, and the other is made anew.
    assert on_ranks(1, kept) == [[1, 1, 1]]


def test_to_make_an_exchange_ready_leaves_halos_as_they_are() -> None:
    """Also where boxes are packed: a recording makes ready what does not run by then."""
    operator, counts = PROBLEMS["3d pencils"]

    def left(comm: ThreadCommunicator) -> bool:
        backend = DistributedBackend(NumpyBackend(np.float64), comm)
        part = Division(operator.lattice, counts, comm.rank).lattice
        halo = backend.halo_of(part)
        assert halo is not None
        x = backend.from_host(taken(random_array(operator.array_shape, np.float64, 1), part))
        before = x.values.copy()
        halo.filling(x)
        return bool(np.array_equal(x.values, before))

    assert on_ranks(4, left) == [True] * 4
