# SPDX-License-Identifier: MIT
"""Galerkin coarse grids on ranks are those of one process, and so are the iterations.

Covers poisson.parallel.clusters.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from conftest import emulated, real
from numpy.typing import NDArray
from support.composites import GALERKIN, KINDS, TINY, composite, operator_of, porous, solved, source_of
from support.operators import random_array
from support.parts import put, taken
from support.ranks import ThreadCommunicator, on_ranks

import poisson
from poisson.backends.base import Backend, Operations
from poisson.backends.numpy import NumpyBackend
from poisson.discrete.full_stencil import FullStencil
from poisson.discrete.operator import Operator
from poisson.errors import GridError
from poisson.mesh.lattice import Lattice
from poisson.parallel.arrays import EVERYWHERE, DividedArray
from poisson.parallel.distributed import DistributedBackend
from poisson.parallel.division import Division
from poisson.parallel.stencils import _median
from poisson.problem.problem import Problem
from poisson.solvers.cg import ConjugateGradients
from poisson.solvers.multigrid import Multigrid
from poisson.solvers.multigrid.galerkin import galerkin_levels
from poisson.solvers.roughness import has_products, kind_of, roughness

GATHERED = 400
"""Levels of fewer nodes are gathered."""

WALLS, MIXED, MIRRORS, WRAPS = (KINDS[kind] for kind in ("walls", "mixed", "mirrors", "wraps"))


@pytest.fixture(autouse=True)
def groups_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """One process alone has groups that are next to each other everywhere corrected together."""
    monkeypatch.setattr("poisson.solvers.multigrid.galerkin.SPANS", 1.0)


def divided(
    operator: Operator, counts: tuple[int, ...], comm: ThreadCommunicator, local: Backend, home: Backend
) -> Operations:
    """The operations of a rank; `home` has the arrays of the whole."""
    part = Division(operator.lattice, counts, comm.rank, 4).lattice
    backend = DistributedBackend(local, comm, gathered_nodes=GATHERED)
    given: Any = operator.coefficients

    def of(values: Any) -> DividedArray | None:
        return None if values is None else backend.from_host(taken(home.to_host(values), part))

    links = tuple(of(each) for each in given.links)
    return backend.bind(replace(operator, lattice=part, coefficients=replace(given, links=links, c=of(given.c))))


CASES: dict[str, tuple[NDArray[np.float64], Any, tuple[int, ...], str, dict[str, Any]]] = {
    "walls": (composite("spots 0.5", 65, 2), WALLS, (1, 2), "numpy", {}),
    "uneven": (composite("spots 0.5", 58, 2), MIXED, (1, 3), "openmp", {}),
    "singular": (composite("normal", 65, 2), MIRRORS, (1, 4), "openmp", {}),
    "wraps": (composite("spots 0.5", 66, 2), WRAPS, (1, 3), "openmp", {}),
    "c": (composite("blobs 0", 65, 2), MIRRORS, (1, 3), "openmp", {"c": random_array((65, 65), np.float64, 1) ** 2}),
    "wide": (composite("box", 65, 2, 1e3), WALLS, (1, 3), "openmp", {"spacing": (1.0, 300.0)}),
    "flat": (composite("spots 0.1", 65, 2, 1e3), WALLS, (1, 2), "openmp", {"spacing": (300.0, 1.0)}),
    "float32": (composite("spots 0.5", 65, 2, 1e3), MIXED, (1, 2), "openmp float32", {}),
    "slabs": (composite("spots 0.5", 17, 3), MIXED, (1, 1, 2), "openmp", {}),
    "pencils": (composite("normal", 17, 3), MIRRORS, (1, 2, 2), "openmp", {}),
    "pores": (composite("normal", 65, 2), MIXED, (1, 3), "openmp", {}),
    "device": (composite("spots 0.5", 49, 2), MIXED, (1, 2), "emulated", {}),
    "around": (composite("spots 0.5", 16, 3), WRAPS, (1, 2, 2), "openmp", {}),
}


SMOOTHERS = {"around": "red-black", "slabs": "jacobi"}


def made(name: str) -> Backend:
    dtype = np.float32 if name.endswith("float32") else np.float64
    if name == "emulated":
        return emulated(dtype)
    return NumpyBackend(dtype) if name == "numpy" else real("openmp", threads=1)(dtype)


@pytest.mark.parametrize("case", CASES)
def test_ranks_take_the_iterations_of_one_process(case: str) -> None:
    """And the same bits at every run."""
    a, rules, counts, name, given = CASES[case]
    home = made(name)
    whole = porous(home) if case == "pores" else operator_of(a, rules, backend=home, **given)
    settings, single = replace(GALERKIN, smoother=SMOOTHERS.get(case, "chebyshev")), home.dtype == np.float32
    stopping = replace(TINY, rtol=1e-2 if name == "emulated" else 1e-4 if single else 1e-8)
    f, operator = source_of(whole.operator), whole.operator

    def solve(comm: ThreadCommunicator) -> tuple[Any, Any, Lattice]:
        comm.on_device = name == "emulated"
        operations = divided(operator, counts, comm, made(name), home)
        lattice, backend = operations.operator.lattice, operations.backend
        method = ConjugateGradients(operations, Multigrid(operations, settings.self_adjoint()))
        arrays = (backend.from_host(taken(values, lattice)) for values in (np.zeros_like(f), f))
        result = method.solve(*arrays, stopping=stopping)
        return backend.to_host(result.u), result, lattice

    expected, size = solved(whole, settings, stopping), int(np.prod(counts))
    found = on_ranks(size, solve, delay=0.0)
    assert [result.iterations for _, result, _ in found] == [expected.iterations] * size
    u, wanted = np.empty(f.shape), home.to_host(expected.u).astype(np.float64)
    for values, _, lattice in found:
        put(u, lattice, values)
    if operator.singular:
        volumes = operator.lattice.volumes()
        u, wanted = (each - np.sum(volumes * each) / np.sum(volumes * np.ones_like(f)) for each in (u, wanted))
    assert np.abs(u - wanted).max() <= (1e-5 if single else 1e-9) * np.abs(wanted).max()
    if case == "uneven":
        again = on_ranks(size, solve)
        assert [each.tobytes() for each, _, _ in again] == [each.tobytes() for each, _, _ in found]


@pytest.mark.parametrize("case", ["uneven", "around", "wide", "slabs", "pencils"])
def test_levels_are_those_of_one_process(case: str) -> None:
    """Coefficients, weights, clusters, and every operation, to rounding."""
    a, rules, counts, name, given = CASES[case]
    home = made(name)
    whole = operator_of(a, rules, backend=home, **given)
    wanted = galerkin_levels(whole)

    def levels(comm: ThreadCommunicator) -> None:
        operations = divided(whole.operator, counts, comm, made(name), home)
        backend: Any = operations.backend
        found = galerkin_levels(operations)
        assert len(found) == len(wanted) and sum(each.operator.lattice.divided for each in found) >= 2
        for one, other in zip(found, wanted, strict=True):
            lattice, shape = one.operator.lattice, other.operator.array_shape
            assert lattice.whole.array_shape == shape

            def compare(values: Any, expected: Any, lattice: Lattice = lattice) -> None:
                """Of a vector also the layers of the halo that are said to be right."""
                parts, layers = [(home.to_host(expected), backend.local.to_host(values.values))], values.valid
                if parts[0][0].ndim > lattice.dimension:
                    parts, layers = list(zip(*parts[0], strict=True)), 0
                right = tuple(
                    slice(max(0, line.halo[0] - layers), line.nodes - max(0, line.halo[1] - layers))
                    for line in reversed(lattice.axes)
                )
                for there, here in parts:
                    there = taken(there, lattice)[right]
                    assert np.abs(here[right] - there).max() <= 1e-6 * max(1.0, np.abs(there).max())

            if one is not found[0]:
                compare(one.operator.coefficients, other.operator.coefficients)
            if one.transfer is None:
                continue
            across, expected = one.transfer.transfer, other.transfer.transfer  # type: ignore[union-attr]
            compare(across.weights, expected.weights, across.under)
            assert one.lowest == pytest.approx(other.lowest, rel=1e-6)
            assert [each.clusters.size for each in one.clusters] == [each.clusters.size for each in other.clusters]
            v, w, coarse = (
                random_array(each, np.float64, 5) for each in (shape, shape, across.coarse.lattice.whole.array_shape)
            )

            def both(values: Any, lattice: Lattice = lattice) -> tuple[Any, Any]:
                part = DividedArray(backend.local.from_host(taken(values, lattice)), EVERYWHERE)
                return part, home.from_host(values)

            def check(method: str, of: tuple[Any, Any], *arguments: Any, out: int = -1, on: Lattice = lattice) -> None:
                """The same operation on the rank and on the whole."""
                pairs = [both(each, at) if isinstance(each, np.ndarray) else (each, each) for each, at in arguments]
                for side in (0, 1):
                    getattr(of[side], method)(*(pair[side] for pair in pairs))
                compare(*pairs[out], on)

            here, below = lattice, across.coarse.lattice
            sides = one.operations, other.operations
            check("residual", sides, (v, here), (w, here), (v * 0, here))
            check("diagonal_solve", sides, (v, here), (w, here), (0.7, here), out=1)
            if one is not found[0]:
                check("sweep", sides, (v, here), (w, here), (v * 0, here), (0.7, here), out=2)
                products: tuple[Any, Any] = sides
                means = [each.mean_links(range(v.ndim)) for each in products]
                assert means[0] == pytest.approx(means[1], rel=1e-12)
                for color in (1, 2):
                    check("color_sweep", sides, (v, here), (w, here), (color, here), (0.7, here), out=0)
            between = one.transfer, other.transfer
            check("restrict", between, (v, here), (coarse, below), on=below)
            check("prolong_add", between, (coarse, below), (v, here))
            for pair in zip(one.clusters, other.clusters, strict=True):
                check("correct_clusters", pair, (v, here), (w, here))

    on_ranks(int(np.prod(counts)), levels, delay=0.0)


def test_the_median_of_all_ranks_is_that_of_numpy() -> None:
    for count in (1, 2, 7, 100, 101):
        values = np.exp(10.0 * random_array((count,), np.float64, count))
        parts = np.array_split(values, [count // 5, count // 2])
        assert on_ranks(3, lambda comm, parts=parts: _median(comm, parts[comm.rank])) == [np.median(values)] * 3


def test_groups_that_nothing_holds_are_left_out_across_borders() -> None:
    """Islands over the borders of three parts: one rank sees all of the small one, and none all of the large one."""
    home, lattice = NumpyBackend(np.float64), Lattice.uniform((16, 48), (1.0, 1.0), (*WALLS, *WALLS))
    island = np.zeros((48, 16), dtype=bool)
    island[10:18, 3:6] = island[8:40, 8:12] = True
    stacked = [np.zeros((48, 16))]
    for place in (1, 0):
        link = np.where(
            island & np.roll(island, -1, place), 1e3, np.where(island ^ np.roll(island, -1, place), 0.0, 1.0)
        )
        link[(slice(None), -1) if place else -1] = 0.0
        stacked.append(link)
    for least, part_of_all, groups in ((0.0, 1.0, 0), (1.0, 1.0, 2), (1.0, 0.1, 1)):
        stacked[0][island] = least
        stencil = FullStencil(lattice, ((1, 0), (0, 1)), np.stack(stacked))
        expected = home.bind(stencil).clusters(0.25, part_of_all)
        strong = [island.ravel()[expected.nodes[start]] for start in expected.starts[:-1]]

        def found(comm: ThreadCommunicator, stencil: Any = stencil, most: float = part_of_all) -> tuple[int, int]:
            backend = DistributedBackend(NumpyBackend(np.float64), comm)
            part = Division(stencil.lattice, (1, 3), comm.rank, 2).lattice
            values = DividedArray(np.stack([taken(each, part) for each in stencil.coefficients]), EVERYWHERE)  # type: ignore[union-attr]
            return backend.bind(replace(stencil, lattice=part, coefficients=values)).clusters(0.25, most).size

        assert np.count_nonzero(strong) == groups
        assert on_ranks(3, found) == [expected.size] * 3


HOLE = np.pad(np.zeros((9, 9)), 28, constant_values=1.0)
FLOWS = {"x_lower": 0.0, "x_upper": 1.0, "all": {"neumann": 0.0}}


@pytest.mark.parametrize(
    ("options", "a", "reason"),
    [
        ({"backend": "openmp", "threads": 1}, composite("spots 0.5", 65, 2, 1e4), "as a jumps"),
        (
            {"backend": "openmp", "precision": "mixed", "method": "cg", "threads": 1},
            composite("normal", 65, 2),
            "as a jumps",
        ),
        ({"backend": "openmp", "method": "multigrid", "threads": 1}, composite("spots 0.1", 65, 2), "as a has spikes"),
        ({"backend": "openmp", "threads": 1}, HOLE * composite("spots 0.5", 65, 2, 1e4), "as a jumps"),
    ],
)
def test_auto_decides_as_in_one_process(
    options: dict[str, Any],
    a: NDArray[np.float64],
    reason: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(DistributedBackend.__init__, "__defaults__", (GATHERED,))
    real("openmp", threads=1)(np.float64)
    problem = Problem.on_box((65, 65), a=a, f=1.0, boundary=FLOWS)

    def solve(comm: Any) -> tuple[Any, ...]:
        solution = poisson.solve(problem, comm=comm, **options)
        return solution.status, solution.iterations, solution.gather()

    with caplog.at_level(logging.INFO):
        alone = solve(None)
        for ranks in (2, 3):
            *found, u = on_ranks(ranks, solve)[0]
            assert found == list(alone[:2])
            assert np.abs(u - alone[2]).max() <= 1e-9 * np.abs(u).max()
    lines = [line for line in caplog.messages if "galerkin" in line]
    assert len(lines) == 3 and all(reason in line for line in lines)


DISC = poisson.Body("hypot(x - 0.45, y - 0.52) < 0.23", dirichlet=1.0)
HOLES: dict[str, Any] = {
    "a = 0": {"a": HOLE, "boundary": FLOWS},
    "conductor": {"bodies": [DISC]},
    "symmetric": {"bodies": [DISC], "surface": "symmetric"},
    "insulator": {"bodies": [poisson.Body(DISC.inside, neumann=0.0)]},
    "periodic, of odd nodes": {"bodies": [DISC], "boundary": {"y": "periodic", "all": 0.0}},
}


@pytest.mark.parametrize("coarse", ["auto", "geometric"])
@pytest.mark.parametrize("given", HOLES)
def test_holes_have_the_coarse_grids_of_one_process(given: str, coarse: Any) -> None:
    """Products as well as averages, with the same iterations."""
    problem = Problem.on_box((65, 65), f=1.0, **HOLES[given])

    def solve(comm: Any) -> Any:
        solution = poisson.solve(problem, "cg", "numpy", comm=comm, rtol=1e-9, coarse=coarse)
        return solution.iterations, solution.u if comm is None else solution.gather()

    iterations, wanted = solve(None)
    for ranks in (2, 3):
        found, u = on_ranks(ranks, solve)[0]
        products = coarse == "auto" and given != "periodic, of odd nodes"
        assert found == iterations or (coarse == "auto" and not products)
        assert np.abs(u - wanted).max() <= 1e-7 * np.abs(wanted).max()


def test_odd_numbers_of_nodes_that_an_axis_wraps_around_keep_averages() -> None:
    whole = operator_of(composite("spots 0.5", 65, 2), WRAPS)

    def refused(comm: ThreadCommunicator) -> str:
        operations = divided(whole.operator, (1, 2), comm, NumpyBackend(np.float64), whole.backend)
        assert roughness(operations) == roughness(whole)
        assert kind_of(operations, "auto") == "geometric"
        with pytest.raises(GridError, match="divided as this one is") as caught:
            kind_of(operations, "galerkin")
        return str(caught.value)

    assert len(set(on_ranks(2, refused))) == 1


@pytest.mark.parametrize(("second", "able"), [(33, False), (34, True)])
def test_ranks_agree_on_products_where_one_part_begins_at_an_odd_node(second: int, able: bool) -> None:
    """As those of the grids that solutions are compared with may; else some ranks would wait for others for ever."""
    whole = Lattice.uniform((65, 99), (1.0, 1.0), (*WALLS, *WALLS))
    starts = [0, second, 66, 99]

    def run(comm: ThreadCommunicator) -> bool:
        line = whole.axes[1].part(starts[comm.rank], starts[comm.rank + 1], (2, 2))
        backend = DistributedBackend(NumpyBackend(np.float64), comm)
        return has_products(backend, Operator(whole.replaced(1, line)))

    assert on_ranks(3, run) == [able] * 3
