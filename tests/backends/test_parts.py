# SPDX-License-Identifier: MIT
"""Operations on parts of a lattice with halos: on the nodes that a part owns they are those of the whole.

Covers poisson.backends.numpy and poisson.backends.subjects.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.axes import D, N, P, R, example
from support.operators import AXIS_RULES, name_of, operator, random_array
from support.parts import Cuts, Division, Values, put, taken

from poisson.backends.base import Backend, Operations, Reduction
from poisson.backends.numpy import NumpyBackend
from poisson.discrete.operator import Coefficients, Operator
from poisson.discrete.transfer import Interpolation, Transfer
from poisson.errors import GridError
from poisson.mesh.axis import Axis
from poisson.mesh.boundary import Kind, Rule
from poisson.mesh.differences import ORDERS, Differences
from poisson.mesh.lattice import Lattice
from poisson.mesh.placement import Cells, Nodes, Placement
from poisson.solvers.multigrid.hierarchy import levels_of

BACKEND = NumpyBackend(np.float64)
WALLS, FREE = (Rule.FIXED, Rule.FIXED), (Rule.MIRROR, Rule.MIRROR)
LINE = Axis.single()

DIVISIONS: list[tuple[str, Lattice, Cuts]] = [
    *((name_of(rules), Lattice((Axis(13, 0.1, rules), LINE)), {0: (0, 6)}) for rules in AXIS_RULES),
    *((name_of(rules), operator((7, 13), (*WALLS, *rules)).lattice, {1: (0, 4, 9)}) for rules in AXIS_RULES),
    *((name_of(rules), operator((16, 12), (*rules, *FREE)).lattice, {0: (0, 8), 1: (0, 6)}) for rules in AXIS_RULES),
    *(
        (name_of(rules), operator((5, 12, 13), (*FREE, *pair, *rules)).lattice, {2: (0, 3, 6, 9), 1: (0, 6)})
        for rules, pair in zip(AXIS_RULES, (*AXIS_RULES[2:], *AXIS_RULES[:2]), strict=True)
    ),
    ("free", operator((9, 8, 17), FREE * 3).lattice, {2: (0, 5, 12)}),
    ("cells", Lattice((example(Cells, (D, R), 8).axis, example(Nodes, (P, P), 12).axis)), {0: (0, 4), 1: (0, 6)}),
    ("placed", Lattice((example(Nodes, (R, D), 13).axis, example(Cells, (N, N), 12).axis)), {1: (0, 4, 8)}),
    ("open", Lattice((example(Cells, (N, N), 8).axis, example(Nodes, (N, N), 13).axis)), {0: (0, 4), 1: (0, 6)}),
]


def varying(lattice: Lattice, c: float = 0.0) -> Operator:
    """With a that jumps, and c that varies if it is not zero."""
    a = np.exp(2.0 * random_array(lattice.array_shape, np.float64, 21))
    coefficients = tuple(np.empty_like(a) for _ in lattice.axes)
    plain = BACKEND.bind(Operator(lattice))
    for axis, out in enumerate(coefficients):
        plain.links(axis, a, True, out)
    reaction = c * np.exp(random_array(lattice.array_shape, np.float64, 22)) if c else None
    ends = (float(reaction.min()), float(reaction.max())) if reaction is not None else (0.0, 0.0)
    return Operator(lattice, 0.0, 1.0, Coefficients(coefficients, reaction, (float(a.min()), float(a.max())), ends))


CASES = [
    (f"{number}-{name}-{kind}", make(lattice), cuts)
    for number, (name, lattice, cuts) in enumerate(DIVISIONS)
    for kind, make in (
        ("free", lambda lattice: Operator(lattice, 0.0, 1.7)),
        ("constant", lambda lattice: Operator(lattice, 0.3, 1.7)),
        ("varying", lambda lattice: varying(lattice, 0.4)),
        ("varying-free", varying),
    )
]
each_division = pytest.mark.parametrize(
    ("whole", "cuts"), [case[1:] for case in CASES], ids=[case[0] for case in CASES]
)


class Compared:
    """Runs operations on the whole and on every part, and compares what the parts own and the sums."""

    def __init__(self, whole: Operator, cuts: Cuts, halo: int) -> None:
        self.division = Division.of(whole, cuts, halo)
        self.bound = [BACKEND.bind(self.division.operator(part)) for part in self.division.parts]
        self.of_whole = BACKEND.bind(whole)
        self.shape = whole.array_shape

    def random(self, seed: int) -> Values:
        return random_array(self.shape, np.float64, seed)

    def check(self, run: Callable[..., Any], *arrays: Values, sums: bool = True) -> None:
        """`run` gets the bound operations, copies of the arrays, and a place for results; it returns arrays."""
        result = BACKEND.reduction()
        expected = run(self.of_whole, *(array.copy() for array in arrays), result)
        found: list[list[Values]] = [[] for _ in expected]
        total, largest = 0.0, 0.0
        for part, bound in zip(self.division.parts, self.bound, strict=True):
            own = BACKEND.reduction()
            outs = run(bound, *(taken(array, part) for array in arrays), own)
            for kept, out in zip(found, outs, strict=True):
                kept.append(out)
            total, largest = total + own[0], max(largest, own[1])
        for parts, of_whole in zip(found, expected, strict=True):
            np.testing.assert_allclose(self.division.gathered(parts), of_whole, rtol=1e-13, atol=1e-13)
        if sums:
            assert (total, largest) == pytest.approx(tuple(result), rel=1e-11, abs=1e-12)


@each_division
def test_what_a_part_knows_of_the_whole(whole: Operator, cuts: Cuts) -> None:
    division = Division.of(whole, cuts, 2)
    assert 2 <= len(division.parts) <= 8
    counts = np.zeros(whole.array_shape)
    for part in division.parts:
        own = division.operator(part)
        assert (own.singular, own.norm, own.unknowns) == (whole.singular, whole.norm, whole.unknowns)
        assert own.eigenvalues() == whole.eigenvalues()
        assert own.has_one_diagonal == whole.has_one_diagonal
        mine = np.zeros(whole.array_shape)
        put(mine, part, np.ones(part.array_shape))
        counts += mine
    np.testing.assert_array_equal(counts, 1.0)


@each_division
def test_stencils_and_vectors_on_parts(whole: Operator, cuts: Cuts) -> None:
    compared = Compared(whole, cuts, 1)
    u, f, v = (compared.random(seed) for seed in (1, 2, 3))

    def stages(bound: Operations, u: Values, f: Values, out: Values, result: Reduction) -> tuple[Values, ...]:
        bound.laplacian(u, out)
        inner = out.copy()
        bound.boundary_conditions(u, out)
        r = np.empty_like(u)
        bound.update(f, out, r, u, 0.7)
        bound.norm(r, result)
        return inner, out, r, u

    def residual(bound: Operations, u: Values, f: Values, out: Values, result: Reduction) -> tuple[Values, ...]:
        bound.residual(u, f, out, result)
        return (out,)

    def sweep(bound: Operations, u: Values, f: Values, out: Values, result: Reduction) -> tuple[Values, ...]:
        bound.sweep(u, f, out, 0.8, result)
        return (out,)

    def dot(bound: Operations, u: Values, f: Values, out: Values, result: Reduction) -> tuple[Values, ...]:
        bound.dot(u, f, result)
        return ()

    def diagonal(bound: Operations, u: Values, f: Values, out: Values, result: Reduction) -> tuple[Values, ...]:
        bound.diagonal_solve(f, out, 0.9, result)
        return (out,)

    def direction(bound: Operations, z: Values, p: Values, out: Values, result: Reduction) -> tuple[Values, ...]:
        q = np.empty_like(z)
        bound.direction(z, 0.4, p, out, q, result)
        return out, q

    def advance(bound: Operations, p: Values, q: Values, u: Values, result: Reduction) -> tuple[Values, ...]:
        r = p + q
        bound.advance(0.3, p, q, u, r, result)
        return u, r

    def defect(bound: Operations, u: Values, f: Values, out: Values, result: Reduction) -> tuple[Values, ...]:
        single = np.empty(u.shape, dtype=np.float32)
        bound.defect(u, f, 8.0, single, result)
        return (single,)

    def links(bound: Operations, a: Values, f: Values, out: Values, result: Reduction) -> tuple[Values, ...]:
        found = []
        for axis in range(a.ndim):
            bound.links(axis, np.exp(a), True, out)
            found.append(out.copy())
        return tuple(found)

    for run in (stages, residual, sweep, dot, diagonal, direction, advance, defect, links):
        compared.check(run, u, f, v)


@each_division
@pytest.mark.parametrize("count", [1, 2, 3, 4])
def test_a_pass_of_several_sweeps_on_parts(whole: Operator, cuts: Cuts, count: int) -> None:
    compared = Compared(whole, cuts, count)

    def sweeps(bound: Operations, u: Values, f: Values, out: Values, result: Reduction) -> tuple[Values, ...]:
        bound.sweeps(u, f, out, (0.9, 0.6, 1.2, 0.7)[:count], result)
        return (out,)

    compared.check(sweeps, *(compared.random(seed) for seed in (1, 2, 3)))


@each_division
def test_a_sweep_of_both_colors_on_parts(whole: Operator, cuts: Cuts) -> None:
    compared = Compared(whole, cuts, 2)

    def colors(bound: Operations, u: Values, f: Values, result: Reduction) -> tuple[Values, ...]:
        # Colors count the indices of the part, and here those of the whole are meant.
        first = sum(axis.first for axis in bound.operator.lattice.axes)
        for color in (0, 1):
            bound.color_sweep(u, f, (color - first) % 2, 1.3)
        return (u,)

    if all(axis.nodes % 2 == 0 for axis in whole.lattice.axes if axis.wraps and axis.nodes > 1):
        compared.check(colors, compared.random(1), compared.random(2))


def coarser(lattice: Lattice) -> Lattice:
    return Lattice(tuple(axis.coarser or axis for axis in lattice.axes))


@each_division
@pytest.mark.parametrize(("count", "zero"), [(1, False), (2, False), (2, True)])
def test_a_smoothing_with_correction_and_restriction_on_parts(
    whole: Operator, cuts: Cuts, count: int, zero: bool
) -> None:
    """Sweeps, the residual and its restriction: a stage each, and one more where the nodes are not nested."""
    nested = all(axis.intervals % 2 == 0 for axis in whole.lattice.axes if axis.nodes > 1)
    compared = Compared(whole, cuts, count + 2 + (not nested))
    u, f = compared.random(1), compared.random(2)
    on_coarse = random_array(coarser(whole.lattice).array_shape, np.float64, 3)
    coarse = Division.of(Operator(coarser(whole.lattice)), {}, 1).whole

    def run(own: Operator, u: Values, f: Values, values: Values) -> tuple[Values, Values, Reduction]:
        transfer = BACKEND.bind(Transfer(own, Operator(coarser(own.lattice))))
        out, work, restricted = np.empty_like(u), np.empty_like(u), np.empty_like(values)
        result = BACKEND.reduction()
        start = None if zero else u
        correction = None if zero else (transfer, values)
        omegas = (0.7, 0.9)[:count]
        BACKEND.bind(own).smooth(start, f, out, work, omegas, correction, (transfer, restricted), result)
        return out, restricted, result

    expected = run(whole, u.copy(), f, on_coarse)
    restricted = np.full(coarse.array_shape, np.nan)
    outs, sums = [], np.zeros(2)
    for part in compared.division.parts:
        own = compared.division.operator(part)
        below = coarser(part)
        out, found, result = run(own, taken(u, part), taken(f, part), taken(on_coarse, below))
        outs.append(out)
        put(restricted, below, found)
        sums = np.array([sums[0] + result[0], max(sums[1], result[1])])
    np.testing.assert_allclose(compared.division.gathered(outs), expected[0], rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(restricted, expected[1], rtol=1e-11, atol=1e-11 * np.abs(expected[1]).max())
    np.testing.assert_allclose(sums, expected[2], rtol=1e-11)


@each_division
def test_interpolation_and_links_between_parts(whole: Operator, cuts: Cuts) -> None:
    division = Division.of(whole, cuts, 4)
    below = coarser(whole.lattice)
    values = random_array(below.array_shape, np.float64, 5)
    u = random_array(whole.array_shape, np.float64, 6)
    coefficients = np.exp(u)

    def run(own: Operator, values: Values, u: Values, coefficients: Values) -> tuple[Values, list[Values]]:
        coarse = coarser(own.lattice)
        BACKEND.bind(Interpolation(Operator(coarse), own)).interpolate(values, u)
        transfer, links = BACKEND.bind(Transfer(own, Operator(coarse))), []
        for axis in range(own.dimension):
            links.append(np.empty(coarse.array_shape))
            transfer.coarsen_links(axis, coefficients, links[-1])
        return u, links

    expected, of_links = run(whole, values, u.copy(), coefficients)
    outs = []
    found_links = [np.full(below.array_shape, np.nan) for _ in of_links]
    for part in division.parts:
        coarse = coarser(part)
        out, links = run(division.operator(part), taken(values, coarse), taken(u, part), taken(coefficients, part))
        outs.append(out)
        for found, own in zip(found_links, links, strict=True):
            put(found, coarse, own)
    np.testing.assert_allclose(division.gathered(outs), expected, rtol=0, atol=1e-13)
    for found, link in zip(found_links, of_links, strict=True):
        np.testing.assert_allclose(found, link, rtol=1e-13)


@pytest.mark.parametrize(("name", "lattice", "cuts"), DIVISIONS)
def test_the_levels_of_a_part_are_parts_of_those_of_the_whole(name: str, lattice: Lattice, cuts: Cuts) -> None:
    large = Lattice.uniform((33, 33), (0.1, 0.03), (*FREE, *WALLS))
    for whole, where in ((Operator(lattice, 0.1), cuts), (Operator(large), {1: (0, 12, 20)})):
        expected = levels_of(BACKEND.bind(whole), True)
        for part in Division.of(whole, where, 3).parts:
            levels = levels_of(BACKEND.bind(Operator(part, whole.c)), True)
            assert [level.lowest for level in levels] == [level.lowest for level in expected]
            for level, of_whole in zip(levels, expected, strict=True):
                assert level.operations.operator.lattice.whole == of_whole.operations.operator.lattice


def test_a_part_has_no_direct_solution_of_its_own() -> None:
    part = operator((9, 9), WALLS * 2).lattice.part(1, 0, 4, 1)
    with pytest.raises(ValueError, match="fast transforms need the whole of every axis"):
        BACKEND.bind(Operator(part)).fast_solver()


# ---- whole iterations


@pytest.mark.parametrize("rules", [FREE * 2, (*FREE, Rule.WRAP, Rule.WRAP), (*WALLS, *FREE)], ids=name_of)
def test_jacobi_with_one_exchange_a_pass(rules: tuple[Rule, ...]) -> None:
    whole = varying(operator((12, 14), rules).lattice)
    division = Division.of(whole, {0: (0, 5), 1: (0, 7)}, 4)
    u, f = (random_array(whole.array_shape, np.float64, seed) for seed in (1, 2))
    parts = [taken(u, part) for part in division.parts]
    for _ in range(5):
        omegas, out = (0.9, 0.7, 1.1, 0.8), np.empty_like(u)
        BACKEND.bind(whole).sweeps(u, f, out, omegas)
        u = out
        division.exchange(parts)
        for number, part in enumerate(division.parts):
            swept = np.empty_like(parts[number])
            BACKEND.bind(division.operator(part)).sweeps(parts[number], taken(f, part), swept, omegas)
            parts[number] = swept
    np.testing.assert_allclose(division.gathered(parts), u, rtol=0, atol=1e-13)


def test_conjugate_gradients_on_four_parts_of_a_singular_problem() -> None:
    """All faces Neumann: the residuals are those of the undivided iteration, and u is the solution of zero mean."""
    whole = varying(operator((12, 14), FREE * 2).lattice)
    assert whole.singular
    volumes = whole.lattice.volumes()
    f = random_array(whole.array_shape, np.float64, 2)
    f -= np.sum(volumes * f) / np.sum(volumes)
    histories = []
    for cuts in ({}, {0: (0, 5), 1: (0, 7)}):
        division = Division.of(whole, cuts, 1)
        bound = [BACKEND.bind(division.operator(part)) for part in division.parts]
        r = [taken(f, part) for part in division.parts]
        u, z, p, new, q = ([np.zeros_like(values) for values in r] for _ in range(5))
        beta, rho, history = 0.0, 1.0, []

        def summed(results: list[Values]) -> float:
            return float(sum(result[0] for result in results))

        for _ in range(80):
            sums = [BACKEND.reduction() for _ in bound]
            for n, own in enumerate(bound):
                own.diagonal_solve(r[n], z[n], 1.0, sums[n])
            last, rho = rho, summed(sums)
            beta = rho / last if history else 0.0
            division.exchange(z)
            division.exchange(p)
            for n, own in enumerate(bound):
                own.direction(z[n], beta, p[n], new[n], q[n], sums[n])
            p, new = new, p
            alpha = rho / summed(sums)
            for n, own in enumerate(bound):
                own.advance(alpha, p[n], q[n], u[n], r[n], sums[n])
            history.append(summed(sums))
        histories.append(history)
        solution = division.gathered(u)
        left = np.empty_like(f)
        BACKEND.bind(whole).residual(solution, f, left)
        assert np.abs(left).max() < 1e-8
    np.testing.assert_allclose(histories[1][:40], histories[0][:40], rtol=1e-6)


# ---- what other backends refuse


def test_other_backends_refuse_tabulated_axes(backend: Backend) -> None:
    if backend.tabulated:
        return
    lattice = Lattice((example(Cells, (D, N), 8).axis, Axis(9, 0.1, WALLS)))
    coarse = coarser(lattice)
    line = f"the {backend.name} backend takes equally spaced nodes only: use run.backend = 'numpy'"
    for subject in (Operator(lattice), Transfer(Operator(lattice), Operator(coarse))):
        with pytest.raises(GridError) as caught:
            backend.bind(subject)
        assert str(caught.value) == line


def test_other_backends_refuse_parts_along_x(backend: Backend) -> None:
    whole = operator((9, 12), (*FREE, Rule.WRAP, Rule.WRAP))
    part = whole.lattice.part(0, 3, 7, 1)
    line = f"the {backend.name} backend takes no grid that is divided along x: use run.backend = 'numpy'"
    for subject in (Operator(part), Interpolation(Operator(coarser(part)), Operator(part)), Differences(part)):
        with pytest.raises(GridError) as caught:
            backend.bind(subject)
        assert str(caught.value) == line


# ---- first derivatives


@pytest.mark.parametrize("order", [2, 4, 8])
@pytest.mark.parametrize("rules", AXIS_RULES, ids=name_of)
def test_derivatives_on_parts(rules: tuple[Rule, Rule], order: int) -> None:
    lattice = operator((14, 9, 19), (*rules, *FREE, *rules)).lattice
    division = Division.of(Operator(lattice), {2: (0, 5, 12), 0: (0, 6)}, order // 2)
    u = random_array(lattice.array_shape, np.float64, 1)
    expected = tuple(np.empty_like(u) for _ in range(3))
    BACKEND.bind(Differences(lattice, order)).gradient(u, expected)
    found: list[list[Values]] = [[] for _ in expected]
    for part in division.parts:
        bound, outs = BACKEND.bind(Differences(part, order)), tuple(np.empty(part.array_shape) for _ in range(3))
        bound.gradient(taken(u, part), outs)
        for kept, out in zip(found, outs, strict=True):
            kept.append(out)
    for parts, of_whole in zip(found, expected, strict=True):
        np.testing.assert_allclose(division.gathered(parts), of_whole, rtol=0, atol=1e-12)
    if order > 2:
        with pytest.raises(GridError, match=f"z: a difference of order {order} needs a halo of {order // 2} nodes"):
            Differences(lattice.part(2, 5, 12, 1), order)
    if rules[0] is not Rule.WRAP:
        line = f"z: a part of {order} nodes; a difference of order {order} needs at least {order + 1}, with the halo"
        with pytest.raises(GridError, match=line):
            Differences(lattice.part(2, 0, order // 2, order // 2), order)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("ends", [(P, P), (D, N), (R, R)], ids=str)
@pytest.mark.parametrize("kind", [Nodes, Cells])
def test_differences_on_tabulated_axes(kind: type[Placement], ends: tuple[Kind, Kind], order: int) -> None:
    """They are exact for polynomials of their order, at faces and between parts as well."""
    lattice = Lattice((Axis(9, 0.1, WALLS), example(kind, ends, 14).axis))
    backend, y = NumpyBackend(np.float64), lattice.axes[1].coordinates[:, None]
    inside = slice(order // 2, -(order // 2)) if ends[0] is P else slice(None)
    u = np.broadcast_to(y**order, lattice.array_shape).copy()
    slope = np.empty_like(u)
    backend.bind(Differences(lattice, order)).derivative(1, u, slope)
    expected = np.broadcast_to(order * y ** (order - 1), u.shape)
    np.testing.assert_allclose(slope[inside], expected[inside], rtol=0, atol=1e-10)
    part = lattice.part(1, 4, 10, order)
    along, here = np.empty(part.array_shape), part.axes[1]
    backend.bind(Differences(part, order)).derivative(1, u[here.index].copy(), along)
    np.testing.assert_allclose(along[here.owned], slope[4:10], rtol=0, atol=1e-12)


def test_kernels_of_differences_know_equally_spaced_nodes() -> None:
    class Other(NumpyBackend):
        name, any_axis, tabulated = "other", False, True

    lattice = Lattice((Axis(9, 0.1, WALLS), example(Cells, (D, N), 8).axis))
    with pytest.raises(GridError, match=r"^the other backend takes equally spaced nodes only"):
        Other(np.float64).bind(Differences(lattice))
