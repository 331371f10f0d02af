# SPDX-License-Identifier: MIT
"""The method `fft`: what it asks of a backend, and what it makes of the rounding errors of transforms."""

import math
from dataclasses import replace
from types import MappingProxyType

import numpy as np
import pytest
from support.multigrid import F, M, W, cube, relative_residual, source, zeros

from poisson.backends.base import Array, Backend
from poisson.backends.ledger import counted
from poisson.backends.numpy import NumpyBackend
from poisson.backends.transforms import ScipyInverse
from poisson.discrete.inverse import Inverse
from poisson.discrete.operator import Coefficients, Operator
from poisson.errors import CaseError
from poisson.solvers.fast import FastPreconditioner, FastTransform
from poisson.solvers.iteration import Task
from poisson.solvers.status import Status
from poisson.solvers.stopping import Stopping

BACKEND = NumpyBackend(np.float64)


def calls(
    a: Operator, rtol: float, f: Array | None = None, backend: Backend = BACKEND
) -> tuple[dict[str, int], Status, int]:
    """How often each operation ran in a solve, how it ended and after how many iterations."""
    stand_in, ledger = counted(backend)
    solver = FastTransform(stand_in.bind(a))
    f = source(BACKEND, a) if f is None else f
    result = solver.solve(zeros(BACKEND, a), f, stopping=Stopping(rtol=rtol))
    assert relative_residual(BACKEND, a, result.u, f) <= rtol or result.status is not Status.CONVERGED
    return {call.name: count for call, count in ledger.counts.items()}, result.status, result.iterations


def test_a_solution_costs_the_transforms_and_one_residual() -> None:
    for a in (cube((65, 40)), cube((12, 10, 11), (F, M, W, W, F, F))):
        assert calls(a, 1e-8) == ({"take": 1, "fast_solve": 1, "certify": 1}, Status.CONVERGED, 1)


class RoughTransforms(ScipyInverse):
    def __init__(self, backend: "Rough", inverse: Inverse) -> None:
        super().__init__(backend, inverse)
        self.backend = backend

    def solve(self, f: Array, u: Array) -> None:
        super().solve(f, u)
        u *= 1.0 + self.backend.error * np.random.default_rng(1).standard_normal(u.shape)


class Rough(NumpyBackend):
    """Its transforms err by some units in the twelfth digit, or a larger one, differently at each node."""

    bound = MappingProxyType({**NumpyBackend.bound, Inverse: RoughTransforms})
    error = 1e-12


def test_what_rounding_left_is_swept_away() -> None:
    """The residual that errors of transforms leave is all but gone after four sweeps: there is no second solution."""
    a = cube((129, 129), spacing=(1 / 128,) * 2)
    along = np.sin(math.pi * np.arange(129) / 128)
    f, alone = zeros(BACKEND, a), zeros(BACKEND, a)
    f[1:-1, 1:-1] = np.outer(along, along)[1:-1, 1:-1]
    rough = Rough(np.float64)
    rough.bind(Inverse(a)).solve(f.copy(), alone)
    before = relative_residual(BACKEND, a, alone, f)
    assert before > 1e-9
    found, status, iterations = calls(a, before / 20, f, rough)
    assert (status, iterations, found["certify"]) == (Status.CONVERGED, 1, 2)
    assert (found["sweeps"], found["fast_solve"]) == (1, 1)


def test_what_sweeps_leave_is_solved_for_again() -> None:
    """Each further solution, for the residual, takes the error down by what the transforms are good for."""
    a, rough = cube((33, 20), (M, F, W, W)), Rough(np.float64)
    rough.error = 1e-4
    residuals = []
    for rtol in (1e-3, 1e-6, 1e-9):
        _, status, iterations = calls(a, rtol, backend=rough)
        assert status is Status.CONVERGED
        residuals.append(iterations)
    assert residuals == [1, 2, 3]


class Keeping(Rough):
    """Its arrays stay where they are, as those of small grids on a device."""

    def keeps(self, array_shape: tuple[int, ...]) -> bool:
        return True


def test_a_copy_is_made_before_the_wait_and_forgotten_where_u_changes_after_it() -> None:
    a = cube((12, 10, 11))
    f, copies = source(BACKEND, a), list[Array]()

    def copy(u: Array) -> Array:
        copies.append(u.copy())
        return copies[-1]

    for error, kept in ((0.0, True), (Rough.error, False)):
        backend = Keeping(np.float64)
        backend.error = error
        task = Task(zeros(BACKEND, a), f, Stopping(rtol=1e-13), copy=copy)
        result = FastTransform(backend.bind(a)).run(task)
        assert (result.copy is copies[-1], np.array_equal(copies[-1], result.u)) == (kept, kept)
    assert len(copies) == 2


def test_the_preconditioner_has_the_mean_coefficients() -> None:
    plain = Operator.uniform((20, 17), (0.1, 0.17), 0.7, (F, M, W, W), 3.0)
    links = tuple(np.full(plain.array_shape, value) for value in (2.0, 4.0))
    c = np.tile([0.6, 0.8], (17, 10))
    coefficients = Coefficients(links, c, (2.0, 4.0), (0.6, 0.8))
    f, z, expected = source(BACKEND, plain), zeros(BACKEND, plain), zeros(BACKEND, plain)
    FastPreconditioner(BACKEND.bind(replace(plain, a=1.0, c=0.0, coefficients=coefficients))).apply(f, z)
    FastPreconditioner(BACKEND.bind(plain)).apply(f, expected)
    # The means count a mirror face by half, so that of c is not quite that of the two values.
    np.testing.assert_allclose(z, expected, rtol=0, atol=1e-2 * np.abs(expected).max())


def test_a_tolerance_beyond_rounding_is_not_claimed() -> None:
    a = cube((33, 20), (M, F, W, W))
    _, status, iterations = calls(a, 1e-18)
    assert status is Status.AT_ROUNDING
    assert 1 < iterations <= 4


def test_a_source_of_zero_takes_its_target_from_the_first_residual() -> None:
    a = cube((33, 33))
    u = zeros(BACKEND, a)
    u[0] = 1.0
    result = FastTransform(BACKEND.bind(a)).solve(u, zeros(BACKEND, a), stopping=Stopping(rtol=1e-10))
    assert (result.status, [iteration for iteration, _ in result.history]) == (Status.CONVERGED, [0, 1])
    assert result.history[1][1] <= 1e-10 * result.history[0][1]
    nothing = FastTransform(BACKEND.bind(a)).solve(zeros(BACKEND, a), zeros(BACKEND, a), stopping=Stopping())
    assert (nothing.status, nothing.iterations) == (Status.CONVERGED, 0)


def test_values_that_are_not_finite_diverge() -> None:
    a = cube((17, 17))
    f = source(BACKEND, a)
    f[3, 4] = np.nan
    assert FastTransform(BACKEND.bind(a)).solve(zeros(BACKEND, a), f, stopping=Stopping()).status is Status.DIVERGED


def test_the_method_refuses_varying_coefficients() -> None:
    ones = np.ones((9, 9))
    c = Coefficients(None, ones, (1, 1), (1, 1))
    operator = Operator.uniform((9, 9), (1.0, 1.0), 0.0, (F,) * 4, coefficients=c)
    with pytest.raises(CaseError, match=r"solver.method = 'fft' needs constant a and c"):
        FastTransform(BACKEND.bind(operator))
