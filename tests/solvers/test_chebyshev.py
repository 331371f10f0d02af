# SPDX-License-Identifier: MIT
"""Chebyshev acceleration: bounds, weights, their order, and the sweeps that a solve takes."""

import math
from dataclasses import replace

import numpy as np
import pytest
from conftest import BACKENDS
from support.multigrid import F, M, W, converged, cube, node_values, relative_residual, source, with_coefficients, zeros
from support.operators import operator, rules_of

from poisson.backends.numpy import NumpyBackend
from poisson.discrete import reference
from poisson.discrete.operator import Coefficients, Operator
from poisson.mesh.boundary import Rule
from poisson.solvers.chebyshev import Chebyshev, _powers
from poisson.solvers.spectrum import chebyshev_omegas, chebyshev_rate, jacobi_bounds, lowest_ritz_value
from poisson.solvers.status import Status
from poisson.solvers.stopping import Stopping

BACKEND = NumpyBackend(np.float64)


@pytest.mark.parametrize("rules", rules_of(2) + rules_of(3)[::31])
@pytest.mark.parametrize("c", [0.0, 0.7])
def test_bounds_of_constant_coefficients_are_the_extreme_eigenvalues(rules: tuple[Rule, ...], c: float) -> None:
    a = operator((8, 7, 5)[: len(rules) // 2], rules, c)
    free = ~reference.fixed_nodes(a).ravel()
    eigenvalues = np.linalg.eigvals(reference.matrix(a).toarray()[np.ix_(free, free)]).real / a.diagonal
    eigenvalues = eigenvalues[eigenvalues > 1e-12]
    assert jacobi_bounds(BACKEND.bind(a)) == pytest.approx((eigenvalues.min(), eigenvalues.max()), rel=1e-11)


@pytest.mark.parametrize("rules", [*rules_of(2)[::3], (M,) * 4, (W,) * 4, (F, M, W, W, M, M)])
def test_the_lanczos_process_finds_the_lowest_eigenvalue(rules: tuple[Rule, ...]) -> None:
    a = operator((30, 24, 9)[: len(rules) // 2], rules, 0.0)
    assert lowest_ritz_value(BACKEND.bind(a)) == pytest.approx(a.eigenvalues()[0] / a.diagonal, rel=5e-3)


@pytest.mark.parametrize("rules", [(F,) * 4, (M,) * 4, (F, M, W, W)])
@pytest.mark.parametrize("kind", ["block", "c"])
def test_the_lanczos_process_finds_a_lowest_eigenvalue_far_below_the_others(rules: tuple[Rule, ...], kind: str) -> None:
    """That of a block of large a, or of a small c without fixed nodes: A times a vector has little of its mode."""
    a = cube((30, 24), rules)
    values = np.full(a.array_shape, 1e-4)
    if kind == "block":
        varying = with_coefficients(BACKEND, a, node_values(a, "block", 1e6))
    else:
        coefficients = Coefficients(None, values, (1.0, 1.0), (1e-4, 1e-4))
        varying = replace(a, coefficients=coefficients)
    free = ~reference.fixed_nodes(a).ravel()
    matrix = reference.matrix(varying).toarray()[np.ix_(free, free)]
    scaled = matrix / np.diag(matrix)[:, None]
    # Similar to a symmetric matrix, whose entries these are: its eigenvalues are found much faster.
    exact = np.linalg.eigvalsh(np.sign(scaled) * np.sqrt(scaled * scaled.T))[1 if varying.singular else 0]
    assert lowest_ritz_value(BACKEND.bind(varying)) == pytest.approx(exact, rel=0.05)


@pytest.mark.parametrize("shape", [(3, 3), (3, 3, 3), (3, 1)])
def test_a_single_unknown_takes_one_sweep(shape: tuple[int, ...]) -> None:
    a = (
        cube(shape, (F,) * 2 * len(shape))
        if shape[-1] > 1
        else Operator.uniform(shape, (0.1, math.inf), 0.0, (F, F, W, W))
    )
    f = source(BACKEND, a)
    result = Chebyshev(BACKEND.bind(a)).solve(zeros(BACKEND, a), f, stopping=Stopping(rtol=1e-12))
    assert (result.status, result.iterations) == (Status.CONVERGED, 1)


@pytest.mark.parametrize("degree", [1, 2, 8, 64, 1024])
def test_the_weights_make_a_chebyshev_polynomial_in_a_stable_order(degree: int) -> None:
    lowest, highest = 1e-3, 2.0
    omegas = chebyshev_omegas(lowest, highest, degree)
    mu = np.linspace(lowest, highest, 4001)
    factors = 1.0 - np.outer(omegas, mu)
    # T_n of the affine map is ±1 at the ends of the interval, and nowhere larger between them.
    scale = 1.0 / math.cosh(degree * chebyshev_rate(lowest, highest))
    assert np.abs(np.prod(factors, axis=0)).max() == pytest.approx(scale, rel=1e-6)
    # An error that rounding makes in some sweep is not enlarged by those behind it.
    behind = np.cumprod(factors[::-1], axis=0)
    assert np.abs(behind).max() <= 1.0
    with pytest.raises(ValueError, match="power of two"):
        chebyshev_omegas(lowest, highest, 6)


def test_polynomials_that_add_up_to_a_limit() -> None:
    assert _powers(100, 64) == [64, 32, 4]
    assert _powers(300, 64) == [64, 64, 64, 64, 32, 8, 4]


@pytest.mark.parametrize("rules", [(F,) * 4, (F, M, W, W), (M,) * 4, (F, F, M, M, W, W)])
@pytest.mark.parametrize("rtol", [1e-6, 1e-10])
def test_sweeps_are_those_of_the_theory(rules: tuple[Rule, ...], rtol: float) -> None:
    a = cube((48, 40) if len(rules) == 4 else (16, 17, 18), rules)
    solver = Chebyshev(BACKEND.bind(a))
    result = converged(BACKEND, a, solver, rtol)
    # A polynomial of degree n reduces the error by cosh(n rate); with mirror faces the norm differs by up to 2.
    gain = math.log(math.cosh(solver.degree * chebyshev_rate(*solver.bounds)))
    assert result.iterations % solver.degree == 0
    assert result.iterations <= solver.degree * math.ceil(math.log(4.0 / rtol) / gain)
    plain_sweeps = math.log(1.0 / rtol) / (a.eigenvalues()[0] / a.diagonal)
    assert result.iterations < 0.2 * plain_sweeps


def test_varying_coefficients() -> None:
    a = cube((40, 33), (F, M, W, W))
    varying = with_coefficients(BACKEND, a, node_values(a, "block", 20.0))
    solver = Chebyshev(BACKEND.bind(varying))
    assert converged(BACKEND, varying, solver).iterations <= 12 * solver.degree


def test_a_limit_is_kept_by_shorter_polynomials() -> None:
    a = cube((65, 65))
    solver = Chebyshev(BACKEND.bind(a))
    result = solver.solve(zeros(BACKEND, a), source(BACKEND, a), stopping=Stopping(max_iterations=200))
    assert (result.status, result.iterations) == (Status.MAX_ITERATIONS, 200)
    assert solver.degree > 100
    assert result.history[-1][1] < result.history[0][1]


def test_an_eigenvalue_that_rounding_leaves_below_zero_has_no_rate() -> None:
    assert chebyshev_rate(-1e-20, 2.0) == chebyshev_rate(0.0, 2.0) == 0.0


@pytest.mark.parametrize("name", ["numpy", "openmp"])
@pytest.mark.parametrize(("c", "degree"), [(0.0, 32), (100.0, 8), (300.0, 4), (1000.0, 2), (1e6, 1)])
def test_the_iterate_is_found_after_any_number_of_passes(name: str, c: float, degree: int) -> None:
    """After an odd one it lies in the other array, and the next polynomial begins there."""
    backend = BACKEND if name == "numpy" else BACKENDS[name](np.float64)
    a = operator((17, 12), (F,) * 4, c)
    solver, f = Chebyshev(backend.bind(a)), source(backend, a)
    assert solver.degree == degree
    for most in (1000, 3 * degree, 1000):
        result = solver.solve(zeros(backend, a), f, stopping=Stopping(rtol=1e-12, max_iterations=most))
        assert result.iterations <= most
        if most == 1000:
            assert result.status is Status.CONVERGED
            assert relative_residual(backend, a, result.u, f) <= 1e-12
