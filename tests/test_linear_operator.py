"""`poisson.LinearOperator` against the assembled matrix, and in SciPy's own solvers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from conftest import BACKENDS
from scipy.sparse.linalg import LinearOperator as ScipyOperator
from scipy.sparse.linalg import cg, eigsh, gmres

import poisson
from poisson import reference
from poisson.discretisation import Discretisation
from poisson.problem import Problem

FACES: dict[str, Any] = {
    "x_lower": {"neumann": "y"},
    "x_upper": {"dirichlet": "x + y"},
    "y_lower": {"robin": 1.0, "alpha": 2.0},
    "y_upper": {"dirichlet": "x*y"},
}
MIXED = Problem.on_box((15, 12), f="exp(x)", a="1 + x*y", c="y", boundary=FACES)
PERIODIC_3D = Problem.on_box((8, 7, 6), f="x*z", boundary={"x": "periodic", "y_lower": {"neumann": 1.0}, "all": "z"})
PROBLEMS = {"mixed": MIXED, "periodic 3d": PERIODIC_3D, "1d": Problem.on_box((9,), f="x", boundary={"all": "x"})}


def direct(problem: Problem) -> Any:
    return reference.solve(Discretisation(problem).balanced(np)).reshape(problem.grid.array_shape)


def columns(operator: ScipyOperator) -> Any:
    return np.stack([operator.matvec(row) for row in np.eye(operator.shape[0])], axis=1)


@pytest.mark.parametrize("name", ["numpy", "openmp", pytest.param("gpu", marks=pytest.mark.gpu)])
@pytest.mark.parametrize("problem", list(PROBLEMS))
def test_it_is_symmetric_and_its_solution_that_of_the_problem(problem: str, name: str) -> None:
    if name != "numpy":
        BACKENDS[name](np.float64)
    operator = poisson.LinearOperator(PROBLEMS[problem], name, threads=2)
    matrix = columns(operator)
    np.testing.assert_allclose(matrix, matrix.T, rtol=0, atol=1e-12 * np.abs(matrix).max())
    x = np.linalg.solve(matrix, operator.rhs)
    expected = direct(PROBLEMS[problem])
    np.testing.assert_allclose(operator.scatter(x), expected, rtol=0, atol=1e-11)
    np.testing.assert_allclose(operator.gather(expected), x, rtol=0, atol=1e-11)
    lowest = np.linalg.eigvalsh(matrix)[0]
    assert lowest > 0.0


@pytest.mark.parametrize("problem", list(PROBLEMS))
def test_the_cycle_is_symmetric_and_near_the_inverse(problem: str) -> None:
    operator = poisson.LinearOperator(PROBLEMS[problem], "numpy")
    cycle = columns(operator.preconditioner)
    np.testing.assert_allclose(cycle, cycle.T, rtol=0, atol=1e-12 * np.abs(cycle).max())
    eigenvalues = np.linalg.eigvals(cycle @ columns(operator)).real
    assert 0.8 < eigenvalues.min() <= eigenvalues.max() < 1.2


@pytest.mark.parametrize("method", [cg, gmres])
def test_scipys_krylov_solvers_take_both(method: Any) -> None:
    problem = Problem.on_box((49, 33), f="exp(x)*y", a="1 + 9*x", boundary=FACES)
    operator = poisson.LinearOperator(problem, "numpy")
    counts = {}
    for name, preconditioner in (("none", None), ("cycle", operator.preconditioner)):
        norms: list[Any] = []
        options = {"callback_type": "pr_norm", "restart": 400, "maxiter": 2} if method is gmres else {}
        x, info = method(operator, operator.rhs, rtol=1e-10, M=preconditioner, callback=norms.append, **options)
        assert info == 0
        counts[name] = len(norms)
        np.testing.assert_allclose(operator.scatter(x), direct(problem), rtol=0, atol=1e-6)
    assert counts["cycle"] <= 10
    assert counts["none"] > 10 * counts["cycle"]


def test_eigenvalues() -> None:
    problem = Problem.on_box((33, 17), boundary=0.0)
    operator = poisson.LinearOperator(problem, "numpy")

    def solve(b: Any) -> Any:
        return cg(operator, b, rtol=1e-13, M=operator.preconditioner)[0]

    inverse = ScipyOperator(operator.shape, matvec=solve, dtype=np.float64)
    found = np.sort(eigsh(operator, 3, sigma=0.0, OPinv=inverse, which="LM", return_eigenvectors=False))
    across, up = (4.0 * n**2 * np.sin(np.arange(1, 4) * np.pi / (2 * n)) ** 2 for n in (32, 16))
    expected = np.sort(np.add.outer(across, up).ravel())[:3]
    np.testing.assert_allclose(found, expected, rtol=1e-10)


def test_vectors_of_a_singular_problem() -> None:
    problem = Problem.on_box((9, 8), f="cos(pi*x)", boundary={"all": {"neumann": 0.0}})
    operator = poisson.LinearOperator(problem, "numpy")
    constant = operator.gather(np.ones((8, 9)))
    np.testing.assert_allclose(operator @ constant, 0.0, atol=1e-11)
    assert abs(float(operator.rhs @ constant)) < 1e-12
    np.testing.assert_array_equal(operator.scatter(constant), np.ones((8, 9)))
