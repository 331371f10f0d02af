# SPDX-License-Identifier: MIT
"""The discrete operator is the one that was meant: exactly, in its spectrum, and in its order of accuracy."""

import math
from typing import Any

import numpy as np
import pytest
from conftest import BACKENDS, MakeBackend
from numpy.typing import NDArray
from scipy import sparse
from support.operators import name_of, operator, pairs_of_rules, rules_of
from support.problems import discretise, make_case

from poisson.backends.base import Backend
from poisson.backends.numpy import NumpyBackend
from poisson.discrete import reference
from poisson.discrete.discretisation import Operator
from poisson.mesh.boundary import Rule
from poisson.run.result_fields import Evaluation, error_of
from poisson.solvers.jacobi import Jacobi
from poisson.solvers.loops import LOOPS
from poisson.solvers.stopping import Stopping

# ---- the order of accuracy

PERIODIC = "periodic"
DIRICHLET = {"dirichlet": "exact"}
NEUMANN = {"neumann": "exact"}


def faces(**kinds: Any) -> dict[str, Any]:
    return {"all": DIRICHLET} | kinds


PROBLEMS_2D: dict[str, tuple[str, dict[str, Any]]] = {
    "dirichlet": ("exp(x)*sin(2*y)", {"all": DIRICHLET}),
    "neumann": ("cos(3*x)*exp(y)", {"all": NEUMANN}),
    "periodic": ("sin(2*pi*x)*cos(2*pi*y/1.3)", {"x": PERIODIC, "y": PERIODIC}),
    "periodic and dirichlet": ("sin(2*pi*x)*exp(y)", faces(x=PERIODIC)),
    "periodic and neumann": ("sin(2*pi*x)*exp(y)", {"x": PERIODIC, "y_lower": NEUMANN, "y_upper": NEUMANN}),
    "mixed": ("exp(x)*sin(2*y) + x**2*y", faces(x_lower=NEUMANN, y_upper=NEUMANN)),
    "mixed on every axis": ("cos(2*x + y)", faces(x_upper=NEUMANN, y_lower=NEUMANN)),
    "one dirichlet face": ("exp(x)*cos(2*y)", {"all": NEUMANN} | {"x_lower": DIRICHLET}),
}
PROBLEMS_3D: dict[str, tuple[str, dict[str, Any]]] = {
    "dirichlet": ("exp(x)*sin(2*y)*cos(z)", {"all": DIRICHLET}),
    "neumann": ("cos(2*x)*exp(y)*sin(z)", {"all": NEUMANN}),
    "periodic": ("sin(2*pi*x)*cos(2*pi*y/1.3)*sin(2*pi*z/0.8)", {"x": PERIODIC, "y": PERIODIC, "z": PERIODIC}),
    "every kind": ("sin(2*pi*x)*exp(y)*cos(2*z)", faces(x=PERIODIC, y_lower=NEUMANN, z_upper=NEUMANN)),
}
UPPER = (1.0, 1.3, 0.8)


def observed_order(exact: str, boundary: dict[str, Any], c: float, counts: list[tuple[int, ...]]) -> float:
    """The order seen between the last two grids, of direct solutions. `counts` are intervals along each axis."""
    errors = []
    for intervals in counts:
        axes = zip("xyz", intervals, strict=False)
        shape = tuple(n if boundary.get(axis) == PERIODIC else n + 1 for axis, n in axes)
        discretisation = discretise(make_case({"f": "exact", "exact": exact, "c": c}, boundary, shape, UPPER))
        errors.append(error_of(discretisation, reference.solve(discretisation), Evaluation(np))[0].rms)
    return math.log2(errors[-2] / errors[-1])


@pytest.mark.parametrize("c", [0.0, 2.5])
@pytest.mark.parametrize("name", PROBLEMS_2D)
def test_order_in_2d(name: str, c: float) -> None:
    exact, boundary = PROBLEMS_2D[name]
    assert observed_order(exact, boundary, c, [(32, 24), (64, 48)]) == pytest.approx(2.0, abs=0.1)


@pytest.mark.parametrize("c", [0.0, 2.5])
@pytest.mark.parametrize("name", PROBLEMS_3D)
def test_order_in_3d(name: str, c: float) -> None:
    exact, boundary = PROBLEMS_3D[name]
    assert observed_order(exact, boundary, c, [(8, 10, 6), (16, 20, 12)]) == pytest.approx(2.0, abs=0.1)


# ---- the spectrum
def mode(operator: Operator) -> NDArray[np.float64]:
    """The eigenvector of the smallest non-zero eigenvalue, if x has the widest spacing.

    It is constant along an axis without a fixed face, unless no axis has one: then it varies along x.
    """
    factors = []
    for axis, nodes in enumerate(operator.shape):
        lower, upper = operator.lattice.axes[axis].rules
        t = np.arange(nodes) / (nodes - 1)
        if lower is Rule.WRAP:
            factors.append(np.cos(2.0 * np.pi * np.arange(nodes) / nodes))
        elif lower is Rule.MIRROR and upper is Rule.MIRROR:
            factors.append(np.cos(np.pi * t))
        elif lower is Rule.MIRROR:
            factors.append(np.cos(0.5 * np.pi * t))
        else:
            factors.append(np.sin((0.5 if upper is Rule.MIRROR else 1.0) * np.pi * t))
        if Rule.FIXED not in (lower, upper) and (axis > 0 or Rule.FIXED in operator.rules):
            factors[-1] = np.ones(nodes)
    values = factors[0]
    for factor in factors[1:]:
        values = factor.reshape(-1, *(1,) * values.ndim) * values
    # The sine of pi is not quite zero, and no sweep would change it at a fixed node.
    values[reference.fixed_nodes(operator)] = 0.0
    return values


def contraction(backend: Backend, operator: Operator, loop: str, omega: float) -> NDArray[np.float64]:
    """The factor of one Jacobi sweep on the lowest mode, at every node where this is not small."""
    before = mode(operator)
    u, f = backend.from_host(before), backend.from_host(np.zeros_like(before))
    stopping = Stopping(rtol=0.0, max_iterations=1)
    after = backend.to_host(Jacobi(backend.bind(operator), omega, loop).solve(u, f, stopping=stopping).u)
    large = np.abs(before) > 0.1
    return after[large] / before[large]


def make(name: str) -> Backend:
    factory: MakeBackend = {"numpy": NumpyBackend, **BACKENDS}[name]
    return factory(np.float64)


ON = pytest.mark.parametrize("name", ["numpy", "openmp", "emulated", pytest.param("gpu", marks=pytest.mark.gpu)])


@ON
@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("shape", [(17, 17), (33, 33), (9, 9, 9)])
def test_contraction_on_the_sine_mode_is_cos_pi_h(name: str, loop: str, shape: tuple[int, ...]) -> None:
    h = 1.0 / (shape[0] - 1)
    a = Operator.uniform(shape, (h,) * len(shape), 0.0, (Rule.FIXED,) * 2 * len(shape))
    factors = contraction(make(name), a, loop, 1.0)
    np.testing.assert_allclose(factors, math.cos(math.pi * h), rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", ["numpy", "openmp"])
@pytest.mark.parametrize("rules", rules_of(2) + pairs_of_rules(3), ids=name_of)
def test_contraction_on_the_lowest_mode_is_that_of_its_eigenvalue(name: str, rules: tuple[Rule, ...]) -> None:
    dimension = len(rules) // 2
    # With c > 0 and no fixed face the lowest mode is the constant.
    c = 0.7 if Rule.FIXED in rules else 0.0
    a = Operator.uniform((9, 7, 6)[:dimension], (0.5, 0.2, 0.1)[:dimension], c, rules)
    expected = 1.0 - 0.8 * a.eigenvalues()[0] / a.diagonal
    np.testing.assert_allclose(contraction(make(name), a, "fused", 0.8), expected, rtol=0, atol=1e-13)


@pytest.mark.parametrize("c", [0.0, 0.7])
@pytest.mark.parametrize("rules", rules_of(2) + pairs_of_rules(3), ids=name_of)
def test_the_eigenvalues_are_those_of_the_matrix(rules: tuple[Rule, ...], c: float) -> None:
    for shape in [(3, 3), (6, 5), (4, 7)] if len(rules) == 4 else [(3, 3, 3), (4, 3, 5)]:
        a = operator(shape, rules, c)
        free = ~reference.fixed_nodes(a).ravel()
        values = np.sort(np.linalg.eigvals(reference.matrix(a).toarray()[np.ix_(free, free)]).real)
        lowest, highest = a.eigenvalues()
        zero = 1e-10 * values[-1]
        assert highest == pytest.approx(values[-1], rel=1e-10)
        assert lowest == pytest.approx(values[values > zero][0], rel=1e-8)
        assert a.singular == (abs(values[0]) < zero)


# ---- the operator itself
def columns(backend: Backend, a: Operator) -> NDArray[np.float64]:
    """A as a dense matrix on all nodes, x fastest, by applying `residual` to unit vectors."""
    count = math.prod(a.shape)
    zero, r = backend.from_host(np.zeros(a.array_shape)), backend.empty(a.array_shape)
    matrix = np.empty((count, count))
    for column, unit in enumerate(np.eye(count)):
        backend.bind(a).residual(backend.from_host(unit.reshape(a.array_shape)), zero, r)
        matrix[:, column] = -backend.to_host(r).ravel()
    return matrix


def staged_columns(backend: Backend, a: Operator) -> NDArray[np.float64]:
    """The same by `laplacian` and `boundary_conditions`."""
    count = math.prod(a.shape)
    out = backend.empty(a.array_shape)
    matrix = np.empty((count, count))
    for column, unit in enumerate(np.eye(count)):
        u = backend.from_host(unit.reshape(a.array_shape))
        backend.bind(a).laplacian(u, out)
        backend.bind(a).boundary_conditions(u, out)
        matrix[:, column] = backend.to_host(out).ravel()
    return matrix


@ON
@pytest.mark.parametrize("shape", [(7, 5), (5, 4, 6)])
def test_the_operator_is_the_kronecker_sum(name: str, shape: tuple[int, ...]) -> None:
    a = operator(shape, (Rule.FIXED,) * 2 * len(shape), c=0.0)
    axes = [
        sparse.diags_array([-1.0, 2.0, -1.0], offsets=[-1, 0, 1], shape=(nodes - 2, nodes - 2)) * coupling
        for nodes, coupling in zip(shape, a.couplings, strict=True)
    ]
    total = sparse.kronsum(axes[0], axes[1])
    for axis in axes[2:]:
        total = sparse.kronsum(total, axis)
    expected = total.toarray()
    free = ~reference.fixed_nodes(a).ravel()
    inner = np.ix_(free, free)
    np.testing.assert_array_equal(reference.matrix(a).toarray()[inner], expected)
    backend = make(name)
    np.testing.assert_array_equal(columns(backend, a)[inner], expected)
    np.testing.assert_array_equal(staged_columns(backend, a)[inner], expected)


@pytest.mark.parametrize("c", [0.0, 0.7])
@pytest.mark.parametrize("rules", rules_of(2) + pairs_of_rules(3), ids=name_of)
def test_the_operator_is_the_reference_matrix(rules: tuple[Rule, ...], c: float) -> None:
    for shape in [(3, 4), (6, 3)] if len(rules) == 4 else [(3, 4, 3)]:
        a = operator(shape, rules, c)
        expected = reference.matrix(a).toarray()
        numpy = NumpyBackend(np.float64)
        np.testing.assert_array_equal(columns(numpy, a), expected)
        np.testing.assert_array_equal(staged_columns(numpy, a), expected)
        fixed = reference.fixed_nodes(a).ravel()
        assert a.unknowns == np.count_nonzero(~fixed)
        assert not expected[fixed].any()
        assert (np.diag(expected)[~fixed] == pytest.approx(a.diagonal, rel=1e-15)) and np.all(
            np.abs(expected).sum(axis=1) <= a.norm * (1 + 1e-15)
        )
