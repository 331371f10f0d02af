# SPDX-License-Identifier: MIT
"""Multigrid with Galerkin coarse grids: iterations whatever the jumps of a, and when ``auto`` takes them."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.ndimage import gaussian_filter, label
from support.composites import (
    EXACT,
    GALERKIN,
    KINDS,
    TINY,
    composite,
    free_nodes,
    operator_of,
    porous,
    solved,
    source_of,
)
from support.full_stencils import stencil_on

import poisson
from poisson import backends
from poisson.backends.base import Backend
from poisson.backends.numpy import NumpyBackend
from poisson.discrete.clusters import Clusters
from poisson.discrete.full_stencil import FullStencil, offsets_of
from poisson.discrete.operator import Operator
from poisson.errors import GridError
from poisson.mesh.boundary import Rule
from poisson.mesh.lattice import Lattice
from poisson.solvers.choose import choose
from poisson.solvers.mixed import MixedConjugateGradients, in_float32
from poisson.solvers.multigrid import Multigrid, MultigridSettings
from poisson.solvers.multigrid.galerkin import (
    BEYOND,
    galerkin_inverse,
    galerkin_levels,
    halved_axes,
    largest_eigenvalue,
)
from poisson.solvers.multigrid.hierarchy import MOST_NODES_DENSE
from poisson.solvers.roughness import Roughness, has_products, kind_of, roughness
from poisson.solvers.settings import SolverSettings
from poisson.solvers.spectrum import rough_values
from poisson.solvers.status import Status


@pytest.mark.parametrize(
    ("name", "nodes", "jump", "count"),
    [
        ("constant", 65, 1.0, 6),
        ("spots 0.1", 65, 1e6, 7),
        ("spots 0.1", 50, 1e6, 7),
        ("spots 0.5", 65, 1e6, 13),
        ("spots 0.5", 129, 1e6, 19),
        ("normal", 65, 1.0, 13),
        ("normal", 129, 1.0, 17),
        ("network", 65, 1e6, 7),
        ("checkers 1", 65, 1e6, 6),
        ("checkers 2", 65, 1e6, 8),
        ("checkers 3", 65, 1e6, 8),
        ("checkers 8", 65, 1e6, 7),
        ("box", 65, 1e6, 6),
        ("blobs 0", 65, 1e4, 8),
        ("blobs 0.15", 65, 1e-6, 8),
    ],
)
def test_iterations_whatever_the_jumps(name: str, nodes: int, jump: float, count: int) -> None:
    assert solved(operator_of(composite(name, nodes, 2, jump))).iterations == count


@pytest.mark.parametrize(("name", "count"), [("normal", 13), ("spots 0.5", 11)])
def test_iterations_in_3d(name: str, count: int) -> None:
    assert solved(operator_of(composite(name, 13, 3))).iterations == count


def test_coarse_grids_are_visited_twice_where_groups_are_large(monkeypatch: pytest.MonkeyPatch) -> None:
    """The W-cycle of large grids; the groups of spots and of exp(4N) are small."""
    sizes = {"blobs 0": 257, "spots 0.1": 129, "normal": 129}
    library = backends.create("openmp", np.float64, 1)
    cases = [operator_of(composite(name, nodes, 2, 1e4), backend=library) for name, nodes in sizes.items()]
    once = [solved(operations).iterations for operations in cases]
    assert not any(level.twice for level in galerkin_levels(cases[0]))
    monkeypatch.setattr("poisson.solvers.multigrid.galerkin.PAYS", 16_640)
    monkeypatch.setattr("poisson.solvers.multigrid.galerkin.LEAST_TWICE", {True: 1_000})
    assert [level.twice for level in galerkin_levels(cases[0])] == [False, True, True, False, False]
    assert [once, [solved(operations).iterations for operations in cases]] == [[14, 9, 17], [10, 9, 17]]


def test_weights_are_rounded_up_to_jumps_for_which_that_costs_nothing() -> None:
    """Also when a solver goes over to another a, and back; the bits are those of a new solver."""
    problems = [poisson.Problem.on_box((65, 65), f=1.0, a=composite("spots 0.5", 65, 2, jump)) for jump in (1e6, 1e9)]
    fresh = [
        poisson.solve(problem, "cg", "openmp", preconditioner="multigrid", coarse="galerkin") for problem in problems
    ]
    solver = poisson.Solver(problems[0], "cg", "openmp", preconditioner="multigrid", coarse="galerkin")
    for which in (0, 1, 0):
        assert np.array_equal(solver.solve(a=problems[which].a).u, fresh[which].u)
    backend = backends.create("openmp", np.float64)
    kinds = [
        galerkin_levels(operator_of(composite("spots 0.5", 65, 2, jump), backend=backend))[
            0
        ].transfer.transfer.weights.dtype  # type: ignore[union-attr]
        for jump in (1e6, 1e9)
    ]
    assert kinds == [np.uint16, np.float32]


def test_iterations_up_to_jumps_of_ten_to_the_tenth() -> None:
    counts = [solved(operator_of(composite("spots 0.5", 65, 2, 10.0**k))).iterations for k in (3, 6, 8, 10)]
    assert counts == [16, 13, 15, 15]


@pytest.mark.parametrize("rules", KINDS.values(), ids=KINDS)
def test_iterations_with_all_kinds_of_faces(rules: tuple[Rule, ...]) -> None:
    """Also with c that varies, in singular problems, and around axes with an odd number of nodes."""
    for nodes in (32, 41):
        a = composite("spots 0.5", nodes, 2)
        assert solved(operator_of(a, rules)).iterations <= 18
    c = np.random.default_rng(1).random(a.shape)
    for factor in (1e-2, 1.0, 1e4):
        assert solved(operator_of(a, rules, c=factor * c)).iterations <= 25


@pytest.mark.parametrize("aspect", [10.0, 300.0, 1000.0])
def test_iterations_where_links_along_one_axis_are_stronger(aspect: float) -> None:
    for number, (name, most) in enumerate(
        (("box", 7), ("strip", 8), ("spots 0.1", 9), ("normal", 13)), int(aspect == 300.0)
    ):
        spacing = (1.0, aspect)[:: 1 - 2 * (number % 2)]  # each along both axes, with one aspect or another
        assert solved(operator_of(composite(name, 41, 2, 1e3), spacing=spacing)).iterations <= most


def test_iterations_of_spots_where_links_along_one_axis_are_stronger_in_3d() -> None:
    library = backends.create("openmp", np.float64, 1)
    for spacing, counts in {(1.0, 1.0, 10.0): (19, 18), (10.0, 10.0, 1.0): (13, 14)}.items():
        for part, count in zip((0.1, 0.5), counts, strict=True):
            operations = operator_of(composite(f"spots {part}", 33, 3), spacing=spacing, backend=library)
            assert solved(operations).iterations == count


def test_iterations_with_nodes_that_have_no_links() -> None:
    """Pores of a = 0: nodes without an equation keep their value, and the others are solved."""
    operations = porous(EXACT)
    result = solved(operations)
    assert result.status is Status.CONVERGED and result.iterations <= 14
    assert not result.u[operations.operator.reaction < 0].any()  # type: ignore[operator]
    choice = choose(operations, SolverSettings(), "float64")
    assert choice.settings.method == "cg" and choice.reason.startswith("a jumps")


def test_pores_in_a_periodic_cell_take_the_iterations_of_float64_in_mixed_precision() -> None:
    """A coarse node between pores has links of rounding, of which float32 would make large numbers."""
    a = np.where(composite("blobs 0.6", 64, 2, 0.0) == 0.0, 0.0, composite("spots 0.5", 64, 2, 1e4))
    pieces = label(a > 0.0)[0]
    a[pieces != np.bincount(pieces[a > 0.0]).argmax()] = 0.0
    f = np.where(a > 0.0, np.random.default_rng(0).standard_normal(a.shape), 0.0)
    f[a > 0.0] -= f[a > 0.0].mean()
    problem = poisson.Problem.on_box((64, 64), a=a, f=f, boundary="periodic")
    given: dict[str, Any] = {"preconditioner": "multigrid", "coarse": "galerkin", "rtol": 1e-8}
    found = [poisson.solve(problem, "cg", "numpy", precision, **given) for precision in ("float64", "mixed")]
    assert [(each.status, each.iterations) for each in found] == [(Status.CONVERGED, 11)] * 2


@pytest.mark.parametrize(("shape", "smooth", "alone", "count"), [((128, 128), 1.5, 18, 10), ((32, 32, 32), 2.0, 18, 9)])
def test_pores_near_percolation_take_no_more_iterations_than_two_phases(
    shape: tuple[int, ...], smooth: float, alone: int, count: int
) -> None:
    """Nodes between coarse ones that no link leads to held these grids like walls: 41 iterations in 2D, 14 in 3D."""
    noise = gaussian_filter(np.random.default_rng(1).standard_normal(shape), smooth, mode="wrap")
    for method, wanted in (("multigrid", alone), ("cg", count)):
        given: dict[str, Any] = {"rtol": 1e-8, "coarse": "galerkin"}
        given |= {"preconditioner": "multigrid"} if method == "cg" else {}
        found = poisson.effective(noise > -0.15 * noise.std(), {0: 0.0, 1: 1.0}, method, "openmp", **given)
        assert found.converged and found.iterations["x"] == wanted


def test_the_inverse_of_a_singular_problem_keeps_what_holds_its_coarsest_grid() -> None:
    """Constants lie outside of the range of P where nodes take nothing, and the product is not singular then."""
    stencil = stencil_on(Lattice.uniform((5, 4), (1.0, 1.0), (Rule.MIRROR,) * 4))
    assert stencil.coefficients is not None
    for held in (1.0, 0.0):
        stencil.coefficients[0] = held * (np.indices((4, 5)).sum(0) % 4 == 3)
        operations = EXACT.bind(stencil)
        a, unit, r = np.empty((20, 20)), np.zeros((4, 5)), np.empty((4, 5))
        for number in range(20):
            unit.flat[number] = -1.0
            operations.residual(unit, None, r)
            unit.flat[number] = 0.0
            a[:, number] = r.ravel()
        assert np.linalg.matrix_rank(a) == 19 + held
        np.testing.assert_allclose(a @ galerkin_inverse(operations, True) @ a, a, rtol=0, atol=1e-11 * np.abs(a).max())


@pytest.mark.parametrize(("smoother", "cycle"), [("chebyshev", "F"), ("jacobi", "V"), ("red-black", "F")])
def test_each_smoother_and_each_cycle(smoother: str, cycle: Any) -> None:
    operations = operator_of(composite("normal", 41, 2))
    settings = replace(GALERKIN, smoother=smoother, cycle=cycle)
    assert solved(operations, settings).iterations <= 17
    f = source_of(operations.operator)
    alone = Multigrid(operations, settings).solve(np.zeros_like(f), f, stopping=TINY)
    assert alone.status is Status.CONVERGED and alone.iterations <= 60


@pytest.mark.parametrize("name", ["spots 0.5", "normal", "constant"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_cycle_is_self_adjoint_and_positive(name: str, kind: str) -> None:
    operations = operator_of(composite(name, 41, 2), KINDS[kind])
    cycle = Multigrid(operations, GALERKIN.self_adjoint())
    volumes = np.broadcast_to(operations.operator.lattice.volumes(), (41, 41))
    x, y = (
        np.where(free_nodes(operations.operator), np.random.default_rng(k).standard_normal((41, 41)), 0) for k in (1, 2)
    )
    mx, my = np.empty_like(x), np.empty_like(y)
    for r, z in ((x, mx), (y, my)):
        if operations.operator.singular:
            r -= np.sum(volumes * r) / volumes.sum()
        cycle.apply(r.copy(), z)
    product = np.sum(volumes * mx * y)
    assert abs(product - np.sum(volumes * x * my)) <= 1e-5 * np.sum(volumes * mx * x)
    assert min(np.sum(volumes * mx * x), np.sum(volumes * my * y)) > 0.0


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("jump", [1.0, 1e6, 1e10])
def test_the_inverse_on_the_coarsest_grid_solves(kind: str, jump: float) -> None:
    """To all digits of the solution of the sparse matrix, and of zero mean in a singular problem."""
    operations = operator_of(composite("spots 0.5", 12, 2, jump), KINDS[kind])
    operator = operations.operator
    f, r = source_of(operator), np.empty((12, 12))
    u = (galerkin_inverse(operations, operator.singular) @ f.ravel()).reshape(f.shape)
    if operator.singular:
        assert abs(np.sum(operator.lattice.volumes() * u)) <= 1e-12 * np.abs(u).max() * u.size
        constant = galerkin_inverse(operations, True) @ np.ones(f.size)
        assert np.abs(constant).max() <= 1e-11 * np.abs(u).max()
    operations.residual(u, f, r)
    assert np.abs(r).max() <= 1e-12 * max(jump * np.abs(u).max(), np.abs(f).max())
    assert not u[~free_nodes(operator)].any()


def test_precisions_take_the_same_iterations() -> None:
    """In float32, and in mixed precision to the residual of float64, coefficients being stored in float32 in all."""
    a = composite("spots 0.1", 65, 2, 1e3)
    exact = operator_of(a)
    f = source_of(exact.operator)
    wanted = solved(exact).iterations
    assert (
        abs(
            solved(operator_of(a, backend=NumpyBackend(np.float32)), stopping=replace(TINY, rtol=1e-4)).iterations
            - wanted / 2
        )
        <= 1
    )
    inner = exact.backend.companion(np.float32).bind(in_float32(exact))
    mixed = MixedConjugateGradients(exact, inner, Multigrid(inner, GALERKIN.self_adjoint()))
    result = mixed.solve(np.zeros_like(f), f.copy(), stopping=TINY)
    assert result.status is Status.CONVERGED and result.iterations == wanted


def test_other_coefficients_in_the_same_arrays_give_the_same_bits_as_new_ones() -> None:
    a, other = composite("spots 0.5", 65, 2), composite("checkers 3", 65, 2)
    operations, new = operator_of(a), operator_of(other)
    method = Multigrid(operations, GALERKIN.self_adjoint())
    weights = method.cycle.levels[0].transfer.transfer.weights  # type: ignore[union-attr]
    for array, values in zip(operations.operator.links or (), new.operator.links or (), strict=True):
        array[...] = values
    assert method.refresh()
    assert method.cycle.levels[0].transfer.transfer.weights is weights  # type: ignore[union-attr]
    r = source_of(new.operator)
    z, fresh = np.empty_like(r), np.empty_like(r)
    method.apply(r, z)
    Multigrid(new, GALERKIN.self_adjoint()).apply(r, fresh)
    assert np.array_equal(z, fresh)
    # Links that now are stronger along one axis ask for other grids.
    assert operations.operator.links is not None
    operations.operator.links[0][...] *= 1e4
    assert not method.refresh()
    # From the second grid on both axes are halved as before, on other nodes.
    operations.operator.links[0][...] *= 8e-4
    assert not method.refresh()


def test_levels_coarsen_the_axes_with_strong_links() -> None:
    shapes = [
        level.operator.array_shape for level in galerkin_levels(operator_of(np.ones((65, 65)), spacing=(1.0, 9.0)))
    ]
    assert shapes[:3] == [(65, 65), (65, 33), (65, 17)]
    levels = galerkin_levels(operator_of(np.ones((33, 33))))
    assert [level.operator.array_shape for level in levels] == [(33, 33), (17, 17)]
    assert levels[-1].transfer is None and np.prod(levels[-1].operator.array_shape) <= MOST_NODES_DENSE


@pytest.mark.parametrize(
    ("name", "jump", "reason"),
    [
        ("constant", 1.0, ""),
        ("box", 1e6, ""),
        ("layers", 1e6, ""),
        ("shell", 1e4, ""),
        ("strip", 1e4, ""),
        ("spots 0.5", 5.0, ""),
        ("spots 0.1", 1e6, "a has spikes of single nodes"),
        ("spots 0.5", 1e3, "a jumps "),
        ("normal", 1.0, "a jumps "),
        ("checkers 8", 1e2, "a jumps 7.6 times along a grid line"),
        ("network", 1e6, "a jumps "),
        ("blobs 0", 1e4, "a jumps "),
    ],
)
def test_jumps_along_grid_lines_decide(name: str, jump: float, reason: str, caplog: pytest.LogCaptureFixture) -> None:
    operations = operator_of(composite(name, 65, 2, jump))
    found = roughness(operations).reason(operations.operator)
    assert found.startswith(reason) and bool(found) == bool(reason)
    choice = choose(operations, SolverSettings(), "float64")
    cycle = choice.settings.of(MultigridSettings)
    assert cycle.coarse == ("galerkin" if reason else "auto" if choice.settings.method == "multigrid" else "geometric")
    if reason:
        assert choice.settings.method == "cg" and f"galerkin), as {found}; " in choice.line
    with caplog.at_level(logging.INFO):
        assert kind_of(operations, "auto") == ("galerkin" if reason else "geometric")
    assert [record.getMessage() for record in caplog.records] == (
        [f"coarse grids of multigrid: galerkin, as {found}"] if reason else []
    )
    assert kind_of(operations, "geometric") == "geometric" and kind_of(operations, "galerkin") == "galerkin"


@pytest.mark.parametrize(
    ("name", "jump", "reason"),
    [
        ("box", 1e3, "a varies along two axes, and the spacings by a factor of 300"),
        ("box", 8.0, ""),
        ("layers", 1e3, ""),
    ],
)
def test_anisotropy_counts_where_a_varies_along_two_axes(name: str, jump: float, reason: str) -> None:
    for aspect, wanted in ((300.0, reason), (10.0, "")):
        operations = operator_of(composite(name, 65, 2, jump), spacing=(1.0, aspect))
        found = roughness(operations).reason(operations.operator)
        assert found.startswith(wanted) and bool(found) == bool(wanted)


def test_the_only_axis_decides_in_one_dimension() -> None:
    """Of spots of 10⁴ on half of the nodes; averages take fifteen times as many iterations."""
    a = np.where(np.random.default_rng(3).random(1025) < 0.5, 1e4, 1.0)
    spots = poisson.Problem.on_box((1025,), f="sin(9*x)", a=a)
    counts = {
        coarse: poisson.solve(spots, "cg", "openmp", preconditioner="multigrid", coarse=coarse).iterations
        for coarse in ("geometric", "galerkin")
    }
    found = poisson.solve(spots, backend="openmp")
    assert found.iterations == counts["galerkin"] <= 10 and counts["geometric"] > 100
    assert found.status is Status.CONVERGED and "a jumps " in str(found.provenance["reason"])
    halves = poisson.Problem.on_box((1025,), f=1.0, a="where(x > 0.4, 1e6, 1)")
    assert "galerkin" not in str(poisson.solve(halves, backend="openmp").provenance["method"])


def test_a_grid_that_is_not_divided_at_even_nodes_has_no_products() -> None:
    operator = operator_of(np.ones((9, 9))).operator
    part = replace(operator, lattice=operator.lattice.part(1, 2, 4, 1), coefficients=None)
    assert not has_products(NumpyBackend(np.float64), part)

    class Divided:
        backend, operator = NumpyBackend(np.float64), part

    with pytest.raises(GridError, match="has no products as coarse grids yet"):
        kind_of(Divided(), "galerkin")  # type: ignore[arg-type]
    assert kind_of(Divided(), "auto") == "geometric"  # type: ignore[arg-type]
    assert Roughness(10.0).reason(part) == ""


def test_products_in_float32_keep_the_row_sums_of_large_jumps() -> None:
    """Without c and fixed nodes they are zero, but for rounding in float64."""
    stencil: Any = galerkin_levels(operator_of(composite("spots 0.5", 65, 2), KINDS["mirrors"]))[1].operator
    assert stencil.coefficients.dtype == np.float32
    assert np.abs(stencil.coefficients[0]).max() <= 1e-14 * np.abs(stencil.coefficients[1:]).max()


def test_a_node_with_next_to_no_diagonal_hides_no_eigenvalue() -> None:
    """Two pairs of nodes have the eigenvalues 1 ± 0.9 and 1 ± 0.5 of D⁻¹A, and such a node is in the second pair."""
    diagonal, links = np.array([1.0, 1e3, 1e3, 1.0, 1e-8, 1.0]), np.array([0.0, 0.9e3, 0.0, 0.5e-4, 0.0, 0.0])
    coefficients = np.array([diagonal - links - np.roll(links, 1), links])
    lattice = Lattice.box((0.0,), (5.0,), (6,), (Rule.FIXED, Rule.FIXED))
    operations = NumpyBackend(np.float64).bind(FullStencil(lattice, offsets_of(1), coefficients))
    assert largest_eigenvalue(operations) == pytest.approx(BEYOND * 1.9, rel=1e-5)


def test_four_nodes_between_many_hide_no_eigenvalue() -> None:
    """D⁻¹A is 1 − cos θ along lines, up to 2; and 3 where four nodes have couplings of 2/3 of their diagonals."""
    lattice = Lattice.box((0.0, 0.0), (256.0, 256.0), (257, 257), (Rule.MIRROR,) * 4)
    offsets = offsets_of(2)
    links, diagonal = np.zeros((len(offsets), 257, 257)), np.ones((257, 257))
    links[offsets.index((1, 0)), :, :-1] = 0.5
    four = {(0, 0), (1, 0), (0, 1), (1, 1)}
    for place, offset in enumerate(offsets):
        for x, y in four:
            links[place, 100 + y, 100 + x] = -2.0 / 3.0 if (x + offset[0], y + offset[1]) in four else 0.0
            links[place, 100 + y - offset[1], 100 + x - offset[0]] *= (x - offset[0], y - offset[1]) in four
    sums = sum(
        link + np.roll(link, (offset[1], offset[0]), (0, 1)) for offset, link in zip(offsets, links, strict=True)
    )
    operations = NumpyBackend(np.float64).bind(FullStencil(lattice, offsets, np.array([diagonal - sums, *links])))
    assert largest_eigenvalue(operations) == pytest.approx(3.0, rel=1e-2)


@pytest.mark.parametrize(("weaker", "halved"), [(1.0, (True, True)), (1 / 32, (True, False))])
def test_half_of_the_links_strong_is_no_direction(weaker: float, halved: tuple[bool, bool]) -> None:
    """The median is of the strong links along x and of the weak ones along y, and the geometric means are 36 and 28."""
    lattice = Lattice.box((0.0, 0.0), (199.0, 199.0), (200, 200), (Rule.FIXED,) * 4)
    strong = np.random.default_rng(1).random((2, 200, 200)) < np.array([0.52, 0.48])[:, None, None]
    links = np.where(strong, 1e3, 1.0) * np.array([1.0, weaker])[:, None, None]
    stencil = FullStencil(lattice, ((1, 0), (0, 1)), np.array([np.zeros((200, 200)), *links]))
    for name in ("numpy", "openmp"):
        operations = backends.create(name, np.float64, 2).bind(
            replace(stencil, coefficients=backends.create(name, np.float64, 2).from_host(stencil.coefficients))
        )
        assert operations.median_links((0, 1)) == [1e3, weaker]
        assert halved_axes(operations) == halved


def test_the_finest_level_keeps_its_links_alone() -> None:
    operations = operator_of(composite("normal", 65, 2))
    levels = galerkin_levels(operations)
    assert levels[0].operations is operations
    assert levels[0].transfer.transfer.fine.coefficients is None  # type: ignore[union-attr]


@pytest.mark.parametrize("shape", [(41, 38), (7, 5, 6), (37, 1)])
def test_rough_values_are_the_same_on_every_backend(backend: Backend, shape: tuple[int, ...]) -> None:
    lattice = Operator.uniform(shape, (1.0,) * len(shape), 0.0, (Rule.WRAP,) * (2 * len(shape))).lattice
    number = np.arange(lattice.nodes).reshape(lattice.array_shape)
    expected = (number * 7919 % 10007 / 10007.0 - 0.3).astype(backend.dtype)
    assert np.array_equal(backend.to_host(rough_values(backend, lattice)), expected)


def test_backends_take_the_same_iterations(backend: Backend) -> None:
    if Clusters not in backend.bound:
        pytest.skip(f"the {backend.name} backend has no full stencils yet")
    single = backend.dtype == np.float32
    for a in (composite("spots 0.5", 33, 2, 1e3), composite("normal", 9, 3)):
        result, expected = (
            solved(operator_of(a, backend=each), stopping=replace(TINY, rtol=1e-3 if single else 1e-8))
            for each in (backend, NumpyBackend(backend.dtype))
        )
        assert result.status is expected.status is Status.CONVERGED
        assert result.iterations == expected.iterations


def test_the_discretisation_error_ends_a_solve_with_products() -> None:
    """Averages take more; the error bar holds for the solution on four times the intervals."""
    inclusions = "where(cos(8*pi*x) > 0, where(cos(8*pi*y) > 0, 1000, 1), 1)"
    found = {}
    for nodes, stop in ((65, "discretisation"), (257, "residual")):
        problem = poisson.Problem.on_box((nodes, nodes), a=inclusions, f=1.0)
        found[stop] = poisson.solve(problem, "multigrid", "openmp", threads=1, stop=stop)
    coarse, fine = found.values()
    assert coarse.status is Status.CONVERGED and coarse.iterations == 2
    assert np.abs(coarse.u - fine.u[::4, ::4]).max() < coarse.error_bar < 0.5 * fine.u.max()
