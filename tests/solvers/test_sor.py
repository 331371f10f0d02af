# SPDX-License-Identifier: MIT
"""Red–black successive over-relaxation: the optimal weight, its rate, and the grids that it is not for."""

import math

import numpy as np
import pytest
from support.multigrid import F, M, W, converged, cube, node_values, source, with_coefficients, zeros
from support.operators import operator

from poisson.backends.numpy import NumpyBackend
from poisson.discrete import reference
from poisson.errors import PoissonError
from poisson.mesh.boundary import Rule
from poisson.solvers.sor import Sor, optimal_weight
from poisson.solvers.status import Status
from poisson.solvers.stopping import Stopping

BACKEND = NumpyBackend(np.float64)


def spectral_radius(rules: tuple[Rule, ...], omega: float) -> float:
    """Of the error of a sweep, constants apart, on a small grid."""
    a = operator((8, 6), rules, 0.0)
    free = np.flatnonzero(~reference.fixed_nodes(a).ravel())
    matrix = np.empty((free.size, free.size))
    for column, node in enumerate(free):
        u = np.zeros(48)
        u[node] = 1.0
        u = u.reshape(a.array_shape)
        for color in (0, 1):
            BACKEND.bind(a).color_sweep(u, None, color, omega)
        matrix[:, column] = u.ravel()[free]
    sizes = np.sort(np.abs(np.linalg.eigvals(matrix)))[::-1]
    return float(sizes[1] if a.singular else sizes[0])


@pytest.mark.parametrize("rules", [(F,) * 4, (F, M, F, M), (F, F, W, W), (W, W, M, F), (M,) * 4, (W,) * 4])
def test_the_weight_is_optimal(rules: tuple[Rule, ...]) -> None:
    omega = optimal_weight(BACKEND.bind(operator((8, 6), rules, 0.0)))
    # At the optimum the eigenvalues are defective, which costs half of the digits.
    assert spectral_radius(rules, omega) == pytest.approx(omega - 1.0, abs=1e-5)
    for other in (0.97 * omega, min(1.99, 1.03 * omega)):
        assert spectral_radius(rules, other) > spectral_radius(rules, omega)


def test_the_weight_of_the_model_problem() -> None:
    """2 / (1 + sin πh) on a square (D. M. Young)."""
    for nodes in (9, 33, 129):
        step = math.pi / (nodes - 1)
        assert optimal_weight(BACKEND.bind(cube((nodes, nodes)))) == pytest.approx(
            2.0 / (1.0 + math.sin(step)), rel=1e-12
        )


@pytest.mark.parametrize("shape", [(33, 33), (65, 65), (17, 17, 17)])
def test_sweeps_grow_as_the_nodes_of_an_axis(shape: tuple[int, ...]) -> None:
    a = cube(shape)
    assert converged(BACKEND, a, Sor(BACKEND.bind(a))).iterations <= 5.5 * shape[0]


def test_varying_coefficients_and_other_faces() -> None:
    for rules in ((F, M, W, W), (M,) * 4):
        a = cube((32, 30), rules)
        varying = with_coefficients(BACKEND, a, node_values(a, "smooth", 3.0))
        assert converged(BACKEND, varying, Sor(BACKEND.bind(varying))).iterations < 600


def test_sor_refuses_what_it_cannot_do() -> None:
    with pytest.raises(PoissonError, match="even number of nodes on every periodic axis"):
        Sor(BACKEND.bind(cube((9, 8), (W, W, F, F))))
    for omega in (0.0, 2.0, math.nan):
        with pytest.raises(ValueError, match="omega"):
            Sor(BACKEND.bind(cube((9, 8))), omega)


def test_no_sweeps_are_made_beyond_the_limit() -> None:
    """Whatever the sweeps between two reads of the norm, which are recorded together."""
    a, f = cube((20, 17)), source(BACKEND, cube((20, 17)))
    found = []
    for every in (1, 4, 7, 10, 30):
        stopping = Stopping(rtol=1e-12, max_iterations=10, check_every=every)
        result = Sor(BACKEND.bind(a)).solve(zeros(BACKEND, a), f, stopping=stopping)
        assert (result.status, result.iterations) == (Status.MAX_ITERATIONS, 10)
        found.append(result.u.copy())
    for u in found[1:]:
        np.testing.assert_array_equal(u, found[0])
