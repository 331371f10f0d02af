# SPDX-License-Identifier: MIT
"""Every method has the same iterates on every backend, and obeys limits, reads of the norm and interrupts."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from conftest import BACKENDS
from support.multigrid import PLAIN, F, M, W, cube, node_values, solver_of, source, with_coefficients, zeros

from poisson.backends.numpy import NumpyBackend
from poisson.mesh.boundary import Rule
from poisson.solvers.status import Status
from poisson.solvers.stopping import Stopping

BACKEND = NumpyBackend(np.float64)
MIXED = cube((20, 17), (F, M, W, W))

# The settings, A, what a is at the nodes (None: constant), rtol, the largest difference of u by its size, and by how
# many the iterations may differ. The tolerance of fft is beyond what transforms reach, so that all of the method runs.
ON_BACKENDS: dict[str, tuple[dict[str, Any], Any, tuple[str, float] | None, float, float, int]] = {
    "cg": ({"method": "cg", "preconditioner": "none"}, MIXED, None, 1e-6, 1e-5, 1),
    "cg jacobi": ({"method": "cg", "preconditioner": "jacobi"}, MIXED, ("block", 5.0), 1e-6, 1e-5, 1),
    "cg multigrid": ({"method": "cg", "preconditioner": "multigrid"}, MIXED, ("block", 5.0), 1e-6, 1e-5, 1),
    "chebyshev": ({"method": "chebyshev"}, MIXED, None, 1e-4, 1e-11, 0),
    "sor": ({"method": "sor"}, cube((10, 9), (W, W, F, M)), None, 1e-8, 1e-11, 0),
    "fft": ({"method": "fft"}, MIXED, None, 1e-18, 1e-12, 3),
    "an axis collapses": (
        {"method": "multigrid", "smoother": "red-black", "full": True},
        *(cube((9, 101), (M, M, F, F), (1.0, 1e3)), ("smooth", 2.0), 1e-7, 1e-6, 0),
    ),
}


@pytest.mark.parametrize("name", ["openmp", "emulated"])
@pytest.mark.parametrize("way", ON_BACKENDS)
def test_every_backend_makes_the_same_iterates(way: str, name: str) -> None:
    settings, plain, varies, rtol, tolerance, more = ON_BACKENDS[way]
    found = []
    for backend in (BACKEND, BACKENDS[name](np.float64)):
        a = plain
        if varies:
            c = np.full(a.array_shape, 1e-8) if way == "an axis collapses" else None
            a = with_coefficients(backend, plain, node_values(plain, *varies), c)
        f = backend.from_host(source(BACKEND, plain))
        result = solver_of(backend.bind(a), PLAIN.having(**settings)).solve(
            zeros(backend, a), f, stopping=Stopping(rtol=rtol)
        )
        assert result.status is (Status.AT_ROUNDING if way == "fft" else Status.CONVERGED)
        found.append((backend.to_host(result.u), result.iterations))
    (expected, count), (u, other) = found
    assert abs(count - other) <= more
    np.testing.assert_allclose(u, expected, rtol=0, atol=tolerance * np.abs(expected).max())


LIMITS: list[tuple[dict[str, Any], int, dict[str, int], list[int]]] = [
    ({"method": "cg"}, 33, {"check_every": 10, "max_iterations": 35}, [0, 10, 20, 30, 35]),
    ({"method": "sor", "omega": 1.5}, 33, {"check_every": 4, "max_iterations": 10}, [0, 4, 8, 10]),
    ({"method": "multigrid"}, 65, {"max_iterations": 3}, [0, 1, 2, 3]),
]


@pytest.mark.parametrize(("settings", "nodes", "stopping", "reads"), LIMITS)
def test_the_norm_is_read_as_asked_and_the_limit_is_kept(
    settings: dict[str, Any], nodes: int, stopping: dict[str, int], reads: list[int]
) -> None:
    a = cube((nodes, nodes))
    method = solver_of(BACKEND.bind(a), PLAIN.having(preconditioner="none", **settings))
    for _ in range(2):
        result = method.solve(zeros(BACKEND, a), source(BACKEND, a), stopping=replace(Stopping(), **stopping))
        assert (result.status, result.iterations) == (Status.MAX_ITERATIONS, reads[-1])
        assert [iteration for iteration, _ in result.history] == reads


# On a small grid multigrid is a direct solution, which ends at rounding alone.
@pytest.mark.parametrize(
    ("method", "shape", "rules", "answers"),
    [
        ("cg", (33, 33), (F,) * 4, [True]),
        ("multigrid", (65, 65), (F,) * 4, [False, True]),
        ("multigrid", (9, 8), (F, M, F, F), [True]),
    ],
)
def test_an_interrupt_ends_a_solve_after_its_iteration(
    method: str, shape: tuple[int, ...], rules: tuple[Rule, ...], answers: list[bool]
) -> None:
    a, asked = cube(shape, rules), iter(answers)
    result = solver_of(BACKEND.bind(a), PLAIN.having(method=method, preconditioner="none")).solve(
        *(zeros(BACKEND, a), source(BACKEND, a)), stopping=Stopping(rtol=1e-30), interrupted=lambda iterate: next(asked)
    )
    assert (result.status, result.iterations) == (Status.INTERRUPTED, len(answers))
