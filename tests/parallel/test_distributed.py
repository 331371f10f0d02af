"""A problem divided over ranks is solved as the whole one is.

Covers poisson.parallel.distributed, poisson.parallel.operations, poisson.parallel.exchange, poisson.parallel.arrays
and poisson.parallel.division.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
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
from poisson.parallel.division import Division
from poisson.solvers import registry
from poisson.solvers.entries import Given
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
    "2d fixed": (Operator.uniform((33, 65), (0.1, 0.1), 0.0, (F, F, F, F)), (1, 3)),
    "2d mixed": (Operator.uniform((33, 50), (0.1, 0.1), 0.1, (F, M, M, F)), (1, 2)),
    "2d periodic": (Operator.uniform((32, 64), (0.1, 0.1), 0.0, (F, F, W, W)), (1, 4)),
    "2d singular": (Operator.uniform((33, 65), (0.1, 0.1), 0.0, (M, M, M, M)), (1, 3)),
    "3d fixed": (Operator.uniform((17, 17, 33), (0.1, 0.1, 0.1), 0.0, (F, F, F, F, F, F)), (1, 1, 3)),
    "3d pencils": (Operator.uniform((9, 18, 33), (0.1, 0.1, 0.1), 0.2, (M, F, W, W, F, M)), (1, 2, 2)),
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


@pytest.mark.parametrize("name", PROBLEMS)
@pytest.mark.parametrize("settings", SETTINGS)
@pytest.mark.parametrize("kind", ["constant", "varying"])
def test_ranks_solve_as_one(name: str, settings: str, kind: str) -> None:
    operator, counts = PROBLEMS[name]
    if kind == "varying" and settings in ("chebyshev", "sor"):
        pytest.skip("the start of the Lanczos process is that of the whole grid only")
    if settings == "cg fft" and (kind == "constant" or name not in SLABS):
        pytest.skip("one iteration, whose residual is rounding, or no slabs")
    if kind == "varying":
        operator = varying(operator, NumpyBackend(np.float64))
    given = SolverSettings().having(rtol=1e-8, **SETTINGS[settings])
    # Conjugate gradients without a good preconditioner amplify rounding errors in their iterates.
    amplifies = settings in ("cg", "cg jacobi")
    whole, parts = compared(operator, counts, given, tolerance=1e-7 if amplifies else 1e-10)
    for part in parts:
        assert part.history == parts[0].history
        assert part.status is whole.status
        assert abs(part.iterations - whole.iterations) <= amplifies
        norms, expected = (np.array([norm for _, norm in each.history]) for each in (part, whole))
        count = 20 if amplifies else max(len(norms), len(expected))
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


@pytest.mark.parametrize("name", SLABS)
def test_ranks_solve_directly_as_one(name: str) -> None:
    operator, counts = PROBLEMS[name]
    whole, parts = compared(operator, counts, SolverSettings().having(method="fft", rtol=1e-11), tolerance=1e-12)
    assert [(part.status, part.iterations) for part in parts] == [(whole.status, 1)] * len(parts)


def test_pencils_are_refused_by_direct_solutions() -> None:
    operator, counts = PROBLEMS["3d pencils"]
    with pytest.raises(GridError, match="divide z alone"):
        compared(operator, counts, SolverSettings().having(method="fft"))
