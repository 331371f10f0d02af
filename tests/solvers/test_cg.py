# SPDX-License-Identifier: MIT
"""Conjugate gradients: iteration counts with each preconditioner, the true residual, singular problems."""

import math

import numpy as np
import pytest
from support.multigrid import PLAIN, F, M, W, converged, cube, node_values, solver_of, source, with_coefficients, zeros
from support.operators import rules_of

from poisson.backends.numpy import NumpyBackend
from poisson.discrete.operator import Operator
from poisson.mesh.boundary import Rule
from poisson.solvers import registry
from poisson.solvers.cg import ConjugateGradients
from poisson.solvers.iteration import Iterate
from poisson.solvers.status import Status
from poisson.solvers.stopping import Stopping

BACKEND = NumpyBackend(np.float64)


def iterations(a: Operator, preconditioner: str, smoother: str = "chebyshev", rtol: float = 1e-8) -> int:
    """Those of a solve of a random problem, whose true residual is checked."""
    settings = PLAIN.having(method="cg", smoother=smoother, preconditioner=preconditioner)
    return converged(BACKEND, a, solver_of(BACKEND.bind(a), settings), rtol).iterations


@pytest.mark.parametrize("ratio", [1.0, 10.0, 100.0, 1000.0])
@pytest.mark.parametrize("smoother", ["chebyshev", "red-black"])
def test_anisotropy_costs_multigrid_no_iterations(ratio: float, smoother: str) -> None:
    for shape, spacing in (((129, 65), (1.0, ratio)), ((33, 33, 33), (ratio, 1.0, ratio**0.5))):
        assert iterations(cube(shape, spacing=spacing), "multigrid", smoother) <= 8


@pytest.mark.parametrize("shape", [(65, 65), (129, 129), (33, 33, 33)])
@pytest.mark.parametrize("jump", [1e-6, 1e-3, 1.0, 1e3, 1e6])
def test_jumps_cost_multigrid_few_iterations(shape: tuple[int, ...], jump: float) -> None:
    """A box whose coefficient jumps, with faces that lie on no coarse grid."""
    a = cube(shape)
    jumping = with_coefficients(BACKEND, a, node_values(a, "block", jump))
    assert iterations(jumping, "multigrid") <= 16


def test_counts_do_not_grow_with_the_grid_but_without_a_preconditioner_they_do() -> None:
    grids = [cube((nodes, nodes)) for nodes in (33, 65, 129)]
    with_it = [iterations(a, "multigrid") for a in grids]
    assert max(with_it) - min(with_it) <= 1
    without = [iterations(a, "none") for a in grids]
    assert without[2] > 1.7 * without[1] > 2.5 * without[0]


@pytest.mark.parametrize(("seed", "most"), [(0, 4400), (1, 3500)])
def test_a_residual_that_hovers_does_not_end_a_solve_whose_error_falls(seed: int, most: int) -> None:
    """Without a preconditioner it does so for many times the unknowns where the condition is bad."""
    line = Operator.uniform((257, 1), (1 / 256, math.inf), 0.0, (F, F, W, W))
    a = with_coefficients(BACKEND, line, 10.0 ** np.random.default_rng(seed).uniform(0, 5, line.array_shape))
    assert iterations(a, "none") <= most


@pytest.mark.parametrize("rules", rules_of(2))
@pytest.mark.parametrize("preconditioner", registry.preconditioners())
def test_every_mix_of_faces(rules: tuple[Rule, ...], preconditioner: str) -> None:
    assert iterations(cube((24, 30), rules), preconditioner) <= (10 if preconditioner == "multigrid" else 200)


def test_transforms_precondition_varying_coefficients() -> None:
    """As many iterations whatever the grid: the spectra of the operators differ by the range of a."""
    counts = []
    for nodes in (33, 65, 129):
        a = cube((nodes, nodes), (F, F, M, M))
        values = node_values(a, "smooth", 3.0)
        c = np.random.default_rng(5).uniform(0.0, 10.0, a.array_shape)
        counts.append(iterations(with_coefficients(BACKEND, a, values, c), "fft"))
    assert max(counts) <= 30
    assert max(counts) - min(counts) <= 3


def test_transforms_of_the_operator_itself_leave_one_iteration() -> None:
    for a in (cube((33, 20), (M, F, W, W)), cube((9, 10, 11), c=0.5)):
        assert iterations(a, "fft") == 1


def test_the_diagonal_helps_where_it_varies() -> None:
    a = cube((65, 65))
    jumping = with_coefficients(BACKEND, a, node_values(a, "block", 1e3))
    assert iterations(jumping, "jacobi") < 0.5 * iterations(jumping, "none")


def test_a_singular_problem_with_varying_a() -> None:
    for rules in ((M,) * 4, (W,) * 4, (M, M, W, W)):
        a = cube((40, 34), rules)
        varying = with_coefficients(BACKEND, a, node_values(a, "smooth", 5.0))
        for preconditioner, most in (("none", 500), ("jacobi", 200), ("multigrid", 12), ("fft", 60)):
            assert iterations(varying, preconditioner) <= most


@pytest.mark.parametrize("preconditioner", registry.preconditioners())
@pytest.mark.filterwarnings("ignore:overflow")
@pytest.mark.parametrize("exponent", [-1060, -900, -700, 45, 700, 1000])
def test_the_size_of_the_source_does_not_matter(preconditioner: str, exponent: int) -> None:
    """Its squares leave the range of float64: the iterates are those of a source of size 1, times a power of two."""
    a = cube((33, 20), (F, M, W, W))
    settings, size = PLAIN.having(method="cg", preconditioner=preconditioner), math.ldexp(1.0, exponent)
    results = []
    for f in (source(BACKEND, a), size * source(BACKEND, a)):
        kept = f.copy()
        solver = solver_of(BACKEND.bind(a), settings)
        results.append(solver.solve(zeros(BACKEND, a), f, stopping=Stopping(rtol=1e-9, norm="max")))
        np.testing.assert_array_equal(f, kept)
    expected, got = results
    assert got.status is Status.CONVERGED
    if exponent < -1000:  # where the values of f have few digits
        return
    assert got.iterations == expected.iterations
    np.testing.assert_array_equal(got.u, size * expected.u)
    assert got.target == size * expected.target
    assert got.history == tuple((iteration, size * norm) for iteration, norm in expected.history)


@pytest.mark.parametrize("size", [1e-200, 1.0, 1e200])
def test_the_source_keeps_its_values_even_if_a_solve_is_broken_off(size: float) -> None:
    def broken(iterate: Iterate) -> bool:
        raise RuntimeError("broken off")

    a = cube((33, 33))
    f = size * source(BACKEND, a)
    before = f.copy()
    solver = ConjugateGradients(BACKEND.bind(a))
    with np.errstate(all="ignore"):
        with pytest.raises(RuntimeError, match="broken off"):
            solver.solve(zeros(BACKEND, a), f, stopping=Stopping(), interrupted=broken)
        np.testing.assert_array_equal(f, before)
        assert solver.solve(zeros(BACKEND, a), f, stopping=Stopping()).status is Status.CONVERGED
    np.testing.assert_array_equal(f, before)


@pytest.mark.parametrize("preconditioner", registry.preconditioners())
@pytest.mark.parametrize("rules", [(M, M, M, M), (W, W, M, M)])
def test_the_mean_of_a_source_that_has_one_is_left_out(rules: tuple[Rule, ...], preconditioner: str) -> None:
    """A singular A reaches the rest of it: u is that of the source less its mean, which no residual counts."""
    a = Operator.uniform((16, 12), (0.1, 0.17), 0.0, rules)
    weights = np.ones(a.array_shape)
    weights[[0, -1]] *= 0.5
    if rules[0] is M:
        weights[:, [0, -1]] *= 0.5
    without = source(BACKEND, a)
    without -= (weights * without).sum() / weights.sum()
    solver = solver_of(BACKEND.bind(a), PLAIN.having(method="cg", preconditioner=preconditioner))
    expected = solver.solve(zeros(BACKEND, a), without, stopping=Stopping(rtol=1e-10)).u.copy()
    for mean in (1e-3, 1.0):
        result = solver.solve(zeros(BACKEND, a), without + mean, stopping=Stopping(rtol=1e-10))
        assert result.status is Status.CONVERGED
        found = result.u - (weights * (result.u - expected)).sum() / weights.sum()
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-8 * np.abs(expected).max())
