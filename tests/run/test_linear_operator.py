# SPDX-License-Identifier: MIT
"""`poisson.LinearOperator` against the assembled matrix, and in SciPy's own solvers.

Covers poisson.run.scipy_operator.
"""

from typing import Any

import numpy as np
import pytest
from conftest import BACKENDS
from scipy.sparse.linalg import LinearOperator as ScipyOperator
from scipy.sparse.linalg import cg, eigsh, gmres

import poisson
from poisson.discrete import reference
from poisson.discrete.balance import balanced
from poisson.discrete.discretisation import Discretisation
from poisson.errors import PoissonError
from poisson.problem.problem import Problem

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
    return reference.solve(balanced(Discretisation(problem), np)).reshape(problem.lattice.array_shape)


def columns(operator: ScipyOperator) -> Any:
    return np.stack([operator.matvec(row) for row in np.eye(operator.shape[0])], axis=1)


@pytest.mark.parametrize("name", ["numpy", "openmp", pytest.param("gpu", marks=pytest.mark.gpu)])
@pytest.mark.parametrize("problem", list(PROBLEMS))
def test_it_is_symmetric_and_its_solution_that_of_the_problem(problem: str, name: str) -> None:
    if name != "numpy":
        BACKENDS[name](np.float64)
    operator = poisson.LinearOperator(PROBLEMS[problem], name, threads=2 if name == "openmp" else 0)
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


@pytest.mark.parametrize("of", ["operator", "cycle"])
def test_complex_vectors_by_their_parts(of: str) -> None:
    operator: Any = poisson.LinearOperator(MIXED, "numpy")
    given = operator if of == "operator" else operator.preconditioner
    matrix = columns(given)
    rng = np.random.default_rng(6)
    real, imaginary = rng.normal(size=(2, operator.shape[0], 3))
    block = real + 1j * imaginary
    near = {"rtol": 0, "atol": 1e-12 * np.abs(matrix).max()}
    for applied in (given @ block, given.matmat(block), given.H @ block, given.T @ block):
        assert applied.dtype == np.complex128
        np.testing.assert_allclose(applied, matrix @ block, **near)
    for x in (block[:, 0], block[:, :1]):
        for applied in (given @ x, given.dot(x), given.matvec(x), given.rmatvec(x)):
            assert (applied.dtype, applied.shape) == (np.complex128, x.shape)
            np.testing.assert_allclose(applied, matrix @ x, **near)
    np.testing.assert_allclose(2j * given @ real[:, 0], 2j * (matrix @ real[:, 0]), **near)
    single = block[:, 0].astype(np.complex64)
    np.testing.assert_allclose(given @ single, matrix @ single.astype(np.complex128), **near)


@pytest.mark.parametrize("dtype", ["f4", "i4", "u1", "?", "f8"])
def test_real_vectors_of_every_type(dtype: str) -> None:
    operator: Any = poisson.LinearOperator(MIXED, "numpy")
    x = np.arange(operator.shape[0]).astype(dtype)
    for given in (operator, operator.preconditioner):
        applied = given @ x
        assert applied.dtype == np.float64
        np.testing.assert_array_equal(applied, given @ x.astype(np.float64))


def test_arrays_of_complex_values_and_back() -> None:
    operator = poisson.LinearOperator(MIXED, "numpy")
    array = np.random.default_rng(7).normal(size=(12, 15)) * (1 + 2j)
    vector = operator.gather(array)
    np.testing.assert_array_equal(vector, operator.gather(array.real) + 1j * operator.gather(array.imag))
    back = operator.scatter(vector)
    free = operator.scatter(np.ones(operator.shape[0])) != operator.scatter(np.zeros(operator.shape[0]))
    np.testing.assert_allclose(back[free], array[free], rtol=1e-15)
    np.testing.assert_array_equal(back[~free], operator.scatter(np.zeros(operator.shape[0]))[~free])


def test_what_is_no_vector_is_named() -> None:
    operator: Any = poisson.LinearOperator(MIXED, "numpy")
    size = operator.shape[0]
    masked = np.ma.masked_array(np.ones(size), [True] + [False] * (size - 1))
    calls = (operator.dot, operator.matvec, operator.preconditioner.dot, operator.scatter)
    for call in calls:
        with pytest.raises(
            PoissonError, match=r"^an array with masked values; fill them, for example with numpy.ma.filled"
        ):
            call(masked)
        with pytest.raises(PoissonError, match=r"^values of type object; allowed: real or complex numbers$"):
            call(np.ones(size).astype(object))
    with pytest.raises(PoissonError, match=r"^an array of the shape \(15, 12\); the grid needs \(12, 15\)$"):
        operator.gather(np.ones((15, 12)))
    with pytest.raises(PoissonError, match=rf"^a vector of 1 values; the problem has {size} unknowns$"):
        operator.scatter(1.0)


def test_eigsh_finds_the_eigenvalues_of_the_linear_operator() -> None:
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
