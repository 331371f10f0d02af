# SPDX-License-Identifier: MIT
"""Multigrid: contraction factors for every size, mix of faces and ratio of spacings; its levels; its coarsest grid.

Covers poisson.solvers.multigrid.settings, poisson.solvers.multigrid.smoothers, poisson.solvers.multigrid.polynomial,
poisson.solvers.multigrid.red_black and poisson.solvers.multigrid.solver.
"""

import itertools
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from conftest import BACKENDS
from numpy.typing import NDArray
from support.multigrid import (
    PLAIN,
    F,
    M,
    W,
    contraction,
    converged,
    cube,
    error_contraction,
    node_values,
    relative_residual,
    solver_of,
    source,
    with_coefficients,
    zeros,
)
from support.operators import AXIS_RULES, operator, rules_of
from support.problems import make_case

from poisson.backends.base import Backend
from poisson.backends.numpy import NumpyBackend
from poisson.discrete import reference
from poisson.discrete.discretisation import Discretisation
from poisson.discrete.operator import Coefficients, Operator
from poisson.mesh.boundary import Rule
from poisson.run import run
from poisson.solvers.multigrid import Multigrid, MultigridSettings
from poisson.solvers.multigrid.coarsest import _inverse, _matrix, inverse
from poisson.solvers.multigrid.hierarchy import MOST_NODES_DENSE, _smoothest, coarse_nodes, coarsened_axes, levels_of
from poisson.solvers.spectrum import chebyshev_roots, stable_order
from poisson.solvers.status import Status
from poisson.solvers.stopping import Stopping

LIMITS = {"chebyshev": 0.1, "red-black": 0.1, "jacobi": 0.15}
"""The contraction factor that a V(2,1) cycle with each smoother stays below, with constant coefficients."""

BACKEND = NumpyBackend(np.float64)


# ---- contraction
@pytest.mark.parametrize("smoother", LIMITS)
@pytest.mark.parametrize("shape", [*((n, n) for n in (33, 65, 129, 257)), *((n, n, n) for n in (17, 33))], ids=str)
def test_contraction_does_not_depend_on_the_grid(smoother: str, shape: tuple[int, ...]) -> None:
    assert contraction(cube(shape), MultigridSettings(smoother=smoother)) < LIMITS[smoother]


@pytest.mark.parametrize("smoother", LIMITS)
@pytest.mark.parametrize("shape", [(1025, 1025), (129, 129, 129)], ids=str)
def test_contraction_on_large_grids(smoother: str, shape: tuple[int, ...]) -> None:
    """The specification would take minutes. The larger the grid, the earlier rounding ends the contraction."""
    backend = BACKENDS["openmp"](np.float64)
    assert contraction(cube(shape), MultigridSettings(smoother=smoother), 1e-9, backend) < LIMITS[smoother]


@pytest.mark.parametrize("nodes", [301, 400, 1000])
def test_contraction_in_1d(nodes: int) -> None:
    a = Operator.uniform((nodes, 1), (1.0 / 16, math.inf), 0.0, (F, F, W, W))
    # In 1D the residual meets its rounding level early: it grows with the square of the nodes.
    assert contraction(a, MultigridSettings(), rtol=1e-7) < (0.1 if nodes % 2 else 0.2)


@pytest.mark.parametrize("smoother", LIMITS)
@pytest.mark.parametrize(("pre", "post"), [(64, 64), (0, 64)])
def test_many_sweeps_keep_rounding_small(smoother: str, pre: int, post: int) -> None:
    """In the order of their size the roots of 64 sweeps and more would make a cycle diverge."""
    assert contraction(cube((65, 65)), MultigridSettings(smoother=smoother, pre=pre, post=post)) < 0.1


def test_a_stable_order_has_small_products() -> None:
    """On [0.5, 2] the polynomial of degree 128 reaches 2 / 3^128, and no product of its first factors more than 3."""
    roots = chebyshev_roots(0.5, 2.0, [float(number) for number in range(128)], 128)
    ordered = stable_order(roots)
    assert sorted(ordered) == sorted(roots)
    x = np.linspace(0.5, 2.0, 1000)[:, None]
    products = np.abs(np.cumprod(1.0 - x / np.array(ordered), axis=1))
    assert products.max() < 3.0
    assert products[:, -1].max() < 3.0 * 3.0**-128


@pytest.mark.parametrize("cycle", ["W", "F"])
def test_other_cycles_contract_no_less(cycle: str) -> None:
    for shape in ((129, 129), (33, 33, 33)):
        assert contraction(cube(shape), MultigridSettings(cycle=cycle)) < 0.1


@pytest.mark.parametrize("shape", [(34, 40), (50, 64), (99, 35), (100, 101), (30, 41, 36), (18, 19, 20)])
@pytest.mark.parametrize("smoother", LIMITS)
def test_contraction_on_sizes_that_do_not_halve(shape: tuple[int, ...], smoother: str) -> None:
    assert contraction(cube(shape), MultigridSettings(smoother=smoother)) < 0.2


@pytest.mark.parametrize("rules", rules_of(2) + rules_of(3)[::11])
@pytest.mark.parametrize("smoother", LIMITS)
def test_contraction_with_every_mix_of_faces(rules: tuple[Rule, ...], smoother: str) -> None:
    for shape in ((64, 50), (33, 49)) if len(rules) == 4 else ((20, 17, 26),):
        assert contraction(cube(shape, rules), MultigridSettings(smoother=smoother)) < 0.2


@pytest.mark.parametrize("ratio", [1.5, 3.0, 10.0, 100.0, 1000.0])
@pytest.mark.parametrize("smoother", ["chebyshev", "red-black"])
def test_contraction_with_anisotropic_spacing(ratio: float, smoother: str) -> None:
    grids = ((129, 65), (1.0, ratio)), ((33, 33, 33), (1.0, ratio**0.5, ratio)), ((64, 50), (ratio, 1.0))
    for shape, spacing in grids:
        assert contraction(cube(shape, spacing=spacing), MultigridSettings(smoother=smoother)) < 0.2


RATIOS = (1.5, 10.0, 30.0, 1000.0)


@pytest.mark.parametrize("ratio", RATIOS)
@pytest.mark.parametrize("smoother", ["chebyshev", "red-black"])
def test_contraction_with_anisotropic_spacing_and_every_mix_of_faces(ratio: float, smoother: str) -> None:
    """Where no node is fixed along the strongly coupled axis, too, and for the modes that are constant along it.

    Each smoother has half of the mixes with a ratio, and the other half with the next.
    """
    backend, settings = BACKENDS["openmp"](np.float64), MultigridSettings(smoother=smoother)
    first = (RATIOS.index(ratio) + (smoother == "red-black")) % 2
    grids = ((33, 129), (1.0, ratio)), ((110, 36), (ratio, 1.0))
    for number, rules in enumerate(rules_of(2)[first::2], RATIOS.index(ratio) // 2):  # and with another the other grid
        shape, spacing = grids[number % 2]
        assert error_contraction(cube(shape, rules, spacing), settings, backend) < 0.2
    for rules in rules_of(3)[9 * first :: 18]:
        for shape, spacing in (((24, 31, 20), (1.0, ratio, 1000.0)), ((17, 33, 28), (ratio, 1.0, 1.0))):
            assert error_contraction(cube(shape, rules, spacing), settings, backend) < 0.2


# α h of each face, None where it is no Robin face.
ROBIN: list[tuple[tuple[int, ...], tuple[float, ...], tuple[Rule, ...], tuple[float | None, ...]]] = [
    ((76, 107), (1.0, 44.0), (M, M, F, F), (None, 2.0, None, None)),
    ((76, 107), (1.0, 44.0), (M, M, F, F), (None, 1e-4, None, None)),
    ((76, 107), (1.0, 44.0), (M, M, F, F), (3e-4, 1e4, None, None)),
    ((16, 16, 21), (1.0, 27.0, 3.9), (M, M, M, M, F, F), (290.0, None, 1e-4, None, None, None)),
    ((9, 27, 28), (73.0, 1.0, 630.0), (M, M, M, M, M, F), (3e-3, 180.0, 1500.0, None, 4e-4, None)),
    ((28, 9, 9), (2.5, 24.0, 1.0), (F, M, M, M, M, M), (None, 0.02, None, None, 18.0, None)),
    ((33, 14, 33), (1.0, 2.5, 1.0), (F, F, M, M, M, M), (None, None, None, 1.0, 0.3, None)),
]


def with_robin_faces(backend: Backend, a: Operator, absorbed: tuple[float | None, ...]) -> Operator:
    """The operator with Robin conditions on some of its mirror faces."""
    reaction, alphas = np.zeros(a.array_shape), []
    for face, value in enumerate(absorbed):
        spacing = a.spacing[face // 2]
        place = [slice(None)] * a.dimension
        place[a.dimension - 1 - face // 2] = slice(-1, None) if face % 2 else slice(1)
        reaction[tuple(place)] += 2.0 * (value or 0.0) / spacing**2
        alphas.append((value or 0.0) / spacing)
    c_range = float(reaction.min()), float(reaction.max())
    return replace(a, coefficients=Coefficients(None, backend.from_host(reaction), (1.0, 1.0), c_range, tuple(alphas)))


@pytest.mark.parametrize("case", ROBIN)
@pytest.mark.parametrize("smoother", ["chebyshev", "red-black"])
def test_contraction_with_robin_faces(case: Any, smoother: str) -> None:
    """A large α is to the modes of an axis as a Dirichlet face is, a small one as a Neumann face."""
    backend, (shape, spacing, rules, absorbed) = BACKENDS["openmp"](np.float64), case
    operator = with_robin_faces(backend, cube(shape, rules, spacing), absorbed)
    assert error_contraction(operator, MultigridSettings(smoother=smoother), backend) < 0.2


@pytest.mark.parametrize(("absorbed", "nodes"), [(1e-3, 1), (0.03, 1), (0.3, 3), (1e4, 3)])
def test_an_axis_collapses_only_where_its_robin_faces_absorb_little(absorbed: float, nodes: int) -> None:
    """α h on the finest of three grids along the axis; on the last h is four times as large."""
    operator = with_robin_faces(BACKEND, cube((9, 301), (M, M, F, F), (1.0, 1e3)), (absorbed, None, None, None))
    shapes = [level.operator.shape for level in levels_of(BACKEND.bind(operator))]
    assert shapes[:3] == [(9, 301), (5, 301), (3, 301)]
    assert shapes[3][0] == nodes


@pytest.mark.parametrize("nodes", [3, 4, 9, 16])
@pytest.mark.parametrize("lower", [0.01, 0.3, 50.0])
@pytest.mark.parametrize("upper", [F, M])
def test_the_lowest_eigenvalue_along_an_axis(nodes: int, lower: float, upper: Rule) -> None:
    """With α h on the lower face it is that of A on a box whose other axis has one node."""
    absorbed = (lower, 0.2 if upper is M else None, None, None)
    plain = Operator.uniform((nodes, 1), (1.0, math.inf), 0.0, (M, upper, W, W))
    operator = with_robin_faces(BACKEND, plain, absorbed)
    matrix = _matrix(BACKEND.bind(operator))[: nodes - (upper is F), : nodes - (upper is F)]
    assert _smoothest(operator, 0) == pytest.approx(np.linalg.eigvals(matrix).real.min(), rel=1e-9)


def test_the_least_alpha_of_a_face_counts() -> None:
    robin = {"robin": 0.0, "alpha": "1 + 10*abs(y - 0.5)"}
    faces = {"x_lower": robin, "y_lower": {"robin": 0.0, "alpha": 2.5}, "all": {"neumann": 0.0}}
    problem = make_case({"f": 0.0, "a": 2.0}, faces, (5, 65)).problem
    coefficients = Discretisation(problem).operator_on(BACKEND).coefficients
    assert coefficients is not None
    assert coefficients.alpha == (1.0, 0.0, 2.5, 0.0)


@pytest.mark.parametrize("c", [1e-3, 10.0, 1e5])
def test_contraction_with_a_reaction_term(c: float) -> None:
    for rules in ((F,) * 4, (M,) * 4):
        assert error_contraction(cube((65, 65), rules, c=c), MultigridSettings()) < 0.1


@pytest.mark.parametrize("jump", [2.0, 10.0, 1e3])
def test_contraction_where_a_varies_smoothly(jump: float) -> None:
    for shape in ((129, 129), (33, 33, 33)):
        a = cube(shape)
        varying = with_coefficients(BACKEND, a, node_values(a, "smooth", jump))
        assert contraction(varying, MultigridSettings()) < 0.2


# ---- levels
@pytest.mark.parametrize("axes", list(itertools.combinations(range(3), 2)))
def test_strongly_coupled_axes_are_coarsened_first(axes: tuple[int, ...]) -> None:
    spacing = [1.0, 1.0, 1.0]
    for axis in axes:
        spacing[axis] = 0.01
    assert coarsened_axes(cube((65, 65, 65), spacing=tuple(spacing))) == axes
    assert coarsened_axes(cube((65, 65, 65))) == (0, 1, 2)


@pytest.mark.parametrize(
    ("shape", "rules", "spacing", "expected"),
    [
        ((9, 301), (M, M, F, F), (1.0, 1e3), [(9, 301), (5, 301), (3, 301), (1, 301), (1, 151)]),
        ((301, 8), (F, M, W, W), (1e3, 1.0), [(301, 8), (301, 4), (301, 1), (151, 1)]),
        ((7, 301), (W, W, F, M), (1.0, 1e3), [(7, 301), (4, 301), (1, 301), (1, 151)]),
        ((9, 301), (F, F, F, F), (1.0, 1e3), [(9, 301), (5, 301), (3, 301), (3, 151), (3, 76)]),
        ((5, 80, 7), (M, M, F, F, W, W), (1.0, 1e3, 30.0), [(n, 80, 7) for n in (5, 3, 1)] + [(1, 80, 4), (1, 80, 1)]),
        ((3, 301), (M, M, F, F), (1e3, 1.0), [(3, 301), (3, 151), (3, 76)]),
    ],
)
def test_a_strongly_coupled_axis_without_fixed_nodes_collapses(
    shape: tuple[int, ...], rules: tuple[Rule, ...], spacing: tuple[float, ...], expected: list[tuple[int, ...]]
) -> None:
    levels = levels_of(BACKEND.bind(cube(shape, rules, spacing)))
    assert [level.operator.shape for level in levels] == expected
    for axis, nodes in enumerate(levels[-1].operator.shape):
        assert (levels[-1].operator.couplings[axis] == 0.0) == (nodes == 1)


@pytest.mark.parametrize("smoother", ["chebyshev", "red-black"])
@pytest.mark.parametrize("ratio", [30.0, 1000.0])
def test_full_multigrid_and_conjugate_gradients_where_an_axis_collapses(ratio: float, smoother: str) -> None:
    """A smooth source: the start leaves little of it, and CG takes as few iterations as with other spacings."""
    backend = BACKENDS["openmp"](np.float64)
    for rules in itertools.product((F, M, W), repeat=2):
        a = cube((65, 129), tuple(rule for rule in rules for _ in range(2)), (1.0, ratio))
        along = [np.linspace(0.0, 1.0, n, endpoint=rule is not W) for n, rule in zip(a.shape, rules, strict=True)]
        values = np.outer(*(_mode(rule, place) for rule, place in zip(rules[::-1], along[::-1], strict=True)))
        f = backend.from_host(values)
        full = MultigridSettings(smoother=smoother, full=True)
        result = Multigrid(backend.bind(a), full).solve(zeros(backend, a), f, stopping=Stopping(rtol=1e-6))
        assert result.status is Status.CONVERGED
        assert result.iterations <= 4
        assert result.history[0][1] < 3e-3
        settings = PLAIN.having(method="cg", smoother=smoother, preconditioner="multigrid")
        result = solver_of(backend.bind(a), settings).solve(zeros(backend, a), f, stopping=Stopping(rtol=1e-8))
        assert result.status is Status.CONVERGED
        assert result.iterations <= 8


def _mode(rule: Rule, place: NDArray[np.float64]) -> NDArray[np.float64]:
    """A smooth function of zero mean, or zero at both ends."""
    angle = {F: np.pi, M: np.pi, W: 2.0 * np.pi}[rule] * place
    return np.sin(angle) if rule is F else np.cos(angle)


def test_an_axis_has_about_half_the_nodes_on_the_next_grid() -> None:
    cases = {(F, M): {9: 5, 10: 6, 5: 3, 4: 3, 3: 3}, (W, W): {9: 5, 8: 4, 5: 3, 4: 4}}
    for rules, pairs in cases.items():
        for nodes, coarse in pairs.items():
            assert coarse_nodes(Operator.uniform((nodes, 9), (1.0, 1.0), 0.0, (*rules, F, F)), 0) == coarse


def test_a_coarse_operator_has_the_constants_of_the_fine_one() -> None:
    """With coefficients that are arrays of one value it is the operator that has the value."""
    plain = Operator.uniform((65, 65), (1 / 64, 1 / 64), 0.7, (F, M, M, M))
    arrays = Coefficients(None, np.full(plain.array_shape, 0.7), (1.0, 1.0), (0.7, 0.7))
    expected = levels_of(BACKEND.bind(plain))[1].operator
    found = levels_of(BACKEND.bind(replace(plain, c=0.0, coefficients=arrays)))[1].operator
    assert (expected.a, expected.c) == (1.0, 0.7)
    assert found.a == expected.a
    assert found.coefficients is not None
    assert found.coefficients.c_range == (expected.c, expected.c)
    free = ~reference.fixed_nodes(found)
    np.testing.assert_allclose(found.reaction[free], expected.c, rtol=1e-14)


def test_levels_end_where_a_grid_is_solved_directly() -> None:
    for a in (
        cube((100, 37)),
        cube((33, 33, 33)),
        cube((1000, 5), spacing=(1.0, 50.0)),
        operator((90, 4), (W, W, M, M)),
    ):
        levels = levels_of(BACKEND.bind(a))
        assert levels[0].operator is a
        assert math.prod(levels[-1].operator.shape) <= MOST_NODES_DENSE < math.prod(levels[-2].operator.shape)
        for fine, coarse in itertools.pairwise(levels):
            assert fine.transfer is not None
            assert fine.transfer.transfer.coarse is coarse.operator
            assert 0.0 < fine.lowest < 2.0
        assert levels[-1].transfer is None
        extents = [
            [(n - (lower is not W)) * h for n, h, lower in zip(o.shape, o.spacing, o.rules[::2], strict=True)]
            for o in (a, levels[-1].operator)
        ]
        np.testing.assert_allclose(extents[0], extents[1], rtol=1e-12)


@pytest.mark.parametrize("varying", [False, True])
@pytest.mark.parametrize("shape", [(5, 4), (4, 3, 5), (6, 1)])
def test_the_coarsest_grid_is_solved_exactly(shape: tuple[int, ...], varying: bool) -> None:
    for rules in itertools.product(AXIS_RULES, repeat=len(shape)):
        flat = tuple(itertools.chain(*rules))
        a = operator(shape, flat, 0.0)
        if shape[-1] == 1:
            a = Operator.uniform(shape, (0.1, math.inf), 0.0, (*flat[:2], W, W))
        if varying:
            values = np.random.default_rng(1).uniform(0.5, 2.0, a.array_shape)
            a = with_coefficients(BACKEND, a, values)
        f, u = source(BACKEND, a, 3), zeros(BACKEND, a)
        BACKEND.dense(inverse(BACKEND.bind(a)), f, u)
        assert relative_residual(BACKEND, a, u, f) < 1e-12
        assert not np.any(u[reference.fixed_nodes(a)])
        if a.singular:
            place = BACKEND.reduction()
            BACKEND.bind(a).dot(u, np.ones_like(u), place)
            assert BACKEND.read(place)[0] == pytest.approx(0.0, abs=1e-12)
            # The constants, which A has no inverse for, become nothing; with a tiny c their part of u is f / c.
            BACKEND.dense(inverse(BACKEND.bind(a)), np.ones_like(u), u)
            np.testing.assert_allclose(u, 0.0, rtol=0, atol=1e-12)
            if a.coefficients is not None:
                tiny = replace(a.coefficients, c=np.full(a.array_shape, 1e-13), c_range=(1e-13, 1e-13))
                BACKEND.dense(inverse(BACKEND.bind(replace(a, coefficients=tiny))), np.ones_like(u), u)
                np.testing.assert_allclose(u, 1e13, rtol=1e-12)


@pytest.mark.parametrize(("size", "bandwidth"), [(1, 1), (31, 1), (64, 1), (65, 1), (225, 15), (216, 36), (90, 100)])
def test_a_matrix_is_inverted_block_by_block(size: int, bandwidth: int) -> None:
    """Also where the last block is shorter, there is one block alone, or the band is the whole matrix."""
    rows = np.arange(size)
    distance = np.abs(rows[:, None] - rows)
    matrix = np.random.default_rng(1).uniform(-1.0, 1.0, (size, size)) * (distance <= bandwidth)
    matrix = matrix + matrix.T + 4.0 * (bandwidth + 1) * np.eye(size)
    np.testing.assert_allclose(_inverse(matrix, bandwidth) @ matrix, np.eye(size), rtol=0, atol=1e-13)


@pytest.mark.parametrize("rules", [(F, M, M, F), (M, M, M, M), (W, W, M, M), (M, M, W, W), (W, W, W, W)])
@pytest.mark.parametrize("shape", [(17, 15), (3, 80), (80, 3)])
def test_a_coarsest_grid_of_many_nodes_is_solved_exactly(shape: tuple[int, ...], rules: tuple[Rule, ...]) -> None:
    a = operator(shape, rules, 0.0)
    a = with_coefficients(BACKEND, a, np.random.default_rng(1).uniform(0.1, 10.0, a.array_shape))
    f, u = source(BACKEND, a, 3), zeros(BACKEND, a)
    BACKEND.dense(inverse(BACKEND.bind(a)), f, u)
    assert relative_residual(BACKEND, a, u, f) < 1e-11


@pytest.mark.parametrize("c", [0.0, 1e-12])
def test_the_coarsest_grid_keeps_modes_that_are_next_to_those_of_eigenvalue_zero(c: float) -> None:
    """Modes along an axis of weak coupling have eigenvalues of 1e-11 of the largest, and so has a small c."""
    a = Operator.uniform((3, 90), (1e-4, 1.0), c, (M,) * 4)
    exact = np.cos(np.pi * np.arange(90.0) / 89.0)[:, None] * np.ones((1, 3))
    f, u = np.empty_like(exact), np.empty_like(exact)
    BACKEND.bind(a).residual(-exact, None, f)
    BACKEND.dense(inverse(BACKEND.bind(a)), f, u)
    assert np.abs(u - u.mean() - exact).max() < 1e-6
    if c:
        constant = np.ones_like(exact)
        BACKEND.dense(inverse(BACKEND.bind(a)), c * constant, u)
        np.testing.assert_allclose(u, constant, rtol=1e-6)


# ---- the solver
@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("mixed", [False, True])
def test_without_a_source_the_tolerance_is_relative_to_the_residual_of_the_guess(full: bool, mixed: bool) -> None:
    """Interpolation is exact for this harmonic polynomial: relative to what full multigrid leaves nothing is small."""
    case = make_case({"f": 0.0}, {"all": {"dirichlet": "x**2 - y**2"}}, (65, 65))
    settings = case.solver.having(method="multigrid", full=full)
    machine = replace(case.run, precision="mixed" if mixed else "float64")
    solution = run.solve(replace(case, solver=settings, run=machine))
    assert solution.status is Status.CONVERGED
    assert solution.target == pytest.approx(run.solve(replace(case, solver=replace(settings, method="fft"))).target)
    direct = reference.solve(Discretisation(case.problem))
    np.testing.assert_allclose(solution.u, direct, rtol=0, atol=1e-7)


def test_a_solver_is_used_many_times_and_gives_the_same_again() -> None:
    a = cube((65, 50), (F, M, W, W))
    for settings in (MultigridSettings(full=False), MultigridSettings(cycle="F", smoother="red-black")):
        solver = Multigrid(BACKEND.bind(a), settings)
        results = []
        for seed in (1, 2, 1):
            f, u = source(BACKEND, a, seed), zeros(BACKEND, a)
            result = solver.solve(u, f, stopping=Stopping(rtol=1e-10))
            assert result.status is Status.CONVERGED
            assert relative_residual(BACKEND, a, result.u, f) < 1e-10
            results.append(result.u.copy())
        np.testing.assert_array_equal(results[0], results[2])
        assert np.abs(results[0] - results[1]).max() > 0.0


def test_a_small_grid_is_solved_at_once() -> None:
    a = cube((9, 8), (F, M, F, F))
    assert converged(BACKEND, a, Multigrid(BACKEND.bind(a)), 1e-12).iterations == 1


@pytest.mark.parametrize("smoother", ["chebyshev", "jacobi", "red-black"])
def test_a_symmetric_cycle_is_self_adjoint(smoother: str) -> None:
    for a in (cube((40, 33), (F, M, M, M)), cube((12, 10, 11), (M, F, F, F, W, W))):
        settings = MultigridSettings(smoother=smoother, pre=2, post=2, symmetric=True)
        solver = Multigrid(BACKEND.bind(a), settings)
        place = BACKEND.reduction()
        x, y = source(BACKEND, a, 1), source(BACKEND, a, 2)
        mx, my = zeros(BACKEND, a), zeros(BACKEND, a)
        solver.apply(x, mx)
        solver.apply(y, my)
        products = []
        for left, right in ((x, my), (y, mx), (x, mx)):
            BACKEND.bind(a).dot(left, right, place)
            products.append(BACKEND.read(place)[0])
        assert products[0] == pytest.approx(products[1], rel=1e-11)
        assert products[2] > 0.0


def test_a_self_adjoint_cycle_is_symmetric_and_any_cycle_needs_a_sweep() -> None:
    with pytest.raises(ValueError, match="self-adjoint"):
        MultigridSettings(symmetric=True)
    with pytest.raises(ValueError, match="pre and post are both 0"):
        Multigrid(BACKEND.bind(cube((33, 33))), MultigridSettings(pre=0, post=0))
