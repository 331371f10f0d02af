# SPDX-License-Identifier: MIT
"""Coefficients that vary: the operator they make, its parts and bounds, and what is refused."""

import itertools
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from conftest import BACKENDS
from numpy.typing import NDArray
from support.operators import AXIS_RULES, name_of, random_array, rules_of
from support.problems import make_case
from support.refusals import mistake_of
from support.varying import problem_with

from poisson.backends.base import Backend
from poisson.backends.numpy import NumpyBackend
from poisson.discrete import reference
from poisson.discrete.discretisation import Discretisation, Operator
from poisson.mesh.boundary import Rule

SHAPES = {1: (5,), 2: (5, 4), 3: (4, 3, 5)}
RULES = [*AXIS_RULES, *rules_of(2), *rules_of(3)[::5]]
EVERY_RULE = pytest.mark.parametrize("rules", RULES, ids=name_of)
WALLS = {"all": {"dirichlet": 0.0}}


def varying(rules: tuple[Rule, ...], **options: Any) -> Discretisation:
    dimension = len(rules) // 2
    return Discretisation(problem_with(rules, SHAPES[dimension], **options))


# ---- the operator
@EVERY_RULE
def test_the_varying_operator_is_the_reference_matrix(rules: tuple[Rule, ...]) -> None:
    """On random values, for which wrong entries of a row do not make up for each other."""
    backend = NumpyBackend(np.float64)
    for (a, mean), c, robin in itertools.product(
        ((False, "harmonic"), (True, "harmonic"), (True, "arithmetic")), (False, True), (False, True)
    ):
        discretisation = varying(rules, a=a, c=c, robin=robin, mean=mean)
        operator = discretisation.operator_on(backend)
        matrix = reference.matrix(reference.operator_of(discretisation))
        values, r = random_array(operator.array_shape, np.float64, 7), backend.empty(operator.array_shape)
        backend.bind(operator).residual(values, None, r)
        norm = abs(matrix).sum(axis=1).max()
        np.testing.assert_allclose(-r.ravel(), matrix @ values.ravel(), rtol=0, atol=1e-14 * norm)
        assert operator.varies == discretisation.problem.varies
        assert norm <= operator.norm * (1 + 1e-14)


@EVERY_RULE
def test_the_matrix_is_symmetric_under_the_weights_and_its_rows_add_up_to_c(rules: tuple[Rule, ...]) -> None:
    discretisation = varying(rules)
    count = discretisation.array_shape[0]
    matrix = reference.matrix(reference.operator_of(discretisation)).toarray()
    volumes = discretisation.volumes(np, 0, count).ravel()
    free = ~reference.fixed_nodes(discretisation.laplacian).ravel()
    inner = (volumes[:, np.newaxis] * matrix)[np.ix_(free, free)]
    scale = np.abs(inner).max()
    np.testing.assert_allclose(inner, inner.T, rtol=0, atol=1e-13 * scale)
    reaction = discretisation.reaction(np, 0, count).ravel()
    np.testing.assert_allclose(matrix.sum(axis=1)[free], reaction[free], rtol=0, atol=1e-13 * scale)
    assert np.linalg.eigvalsh(inner).min() > 0.0


@pytest.mark.parametrize("name", ["numpy", "openmp", "emulated", pytest.param("gpu", marks=pytest.mark.gpu)])
def test_the_links_of_every_backend(name: str, dtype: Any) -> None:
    make: Any = {"numpy": NumpyBackend, **BACKENDS}[name]
    backend: Backend = make(dtype)
    tolerance = 8 * float(np.finfo(dtype).eps)
    # The emulated device compiles for each of the rules.
    few = RULES[4::21] if name == "emulated" else RULES[::4]
    for rules, mean in itertools.product(few, ("harmonic", "arithmetic")):
        discretisation = varying(rules, mean=mean)
        operator, expected = discretisation.operator_on(backend), reference.operator_of(discretisation)
        assert operator.links is not None
        assert expected.links is not None
        assert len(operator.links) == operator.dimension
        for links, right in zip(operator.links, expected.links, strict=True):
            np.testing.assert_allclose(backend.to_host(links), right, rtol=tolerance)
        np.testing.assert_allclose(backend.to_host(operator.reaction), expected.reaction, rtol=tolerance)


def test_the_links_in_numbers() -> None:
    values = np.array([1.0, 3.0, 0.5, 2.0])
    for mean, between in (("harmonic", [1.5, 6.0 / 7.0, 0.8, 4.0 / 3.0]), ("arithmetic", [2.0, 1.75, 1.25, 1.5])):
        for rules in ((Rule.WRAP, Rule.WRAP), (Rule.MIRROR, Rule.FIXED)):
            problem = replace(problem_with(rules, (4,)), mean=mean)
            values_of(problem)[:] = values
            links = reference.operator_of(Discretisation(problem)).links
            assert links is not None
            expected = between if rules[0] is Rule.WRAP else [*between[:3], between[2]]
            np.testing.assert_allclose(links[0][0], expected, rtol=1e-15)
            np.testing.assert_allclose(links[1][0], values, rtol=1e-15)


def values_of(problem: Any) -> NDArray[np.float64]:
    return np.asarray(problem.a.values)


def test_a_mean_between_the_largest_and_the_smallest_numbers() -> None:
    problem = problem_with((Rule.FIXED, Rule.FIXED), (3,))
    values_of(problem)[:] = [1e300, 1e-300, 1e300]
    for mean, link in (("harmonic", 2e-300), ("arithmetic", 5e299)):
        discretisation = Discretisation(replace(problem, mean=mean))
        for operator in (reference.operator_of(discretisation), discretisation.operator_on(NumpyBackend(np.float64))):
            assert operator.links is not None
            np.testing.assert_allclose(operator.links[0], link, rtol=1e-15)


@pytest.mark.parametrize("name", ["numpy", *BACKENDS])
def test_the_mean_of_every_backend_neither_over_nor_underflows(name: str, dtype: Any) -> None:
    make: Any = {"numpy": NumpyBackend, **BACKENDS}[name]
    backend: Backend = make(dtype)
    largest, smallest = (1e300, 1e-300) if dtype == np.float64 else (1e37, 1e-37)
    for operator, axis in (
        (Operator.uniform((19, 1), (0.1, math.inf), 0.0, (Rule.FIXED,) * 2 + (Rule.WRAP,) * 2), 0),
        (Operator.uniform((3, 19), (0.1, 0.1), 0.0, (Rule.FIXED,) * 4), 1),
    ):
        along = np.tile([largest, largest, smallest, smallest], 5)[:19]
        # The last entry, of no link, repeats the one before.
        ends = along[[*range(18), 17]], along[[*range(1, 19), 18]]
        for harmonic in (True, False):
            means = [2.0 / (1.0 / a + 1.0 / b) if harmonic else (a + b) / 2.0 for a, b in zip(*ends, strict=True)]
            shape = operator.array_shape
            spread = np.broadcast_to(along if axis == 0 else along[:, np.newaxis], shape)
            out = backend.empty(shape)
            backend.bind(operator).links(axis, backend.from_host(spread.astype(dtype)), harmonic, out)
            expected = np.broadcast_to(means if axis == 0 else np.reshape(means, (-1, 1)), shape)
            np.testing.assert_allclose(backend.to_host(out), expected, rtol=4 * float(np.finfo(dtype).eps))


def test_what_robin_faces_add_in_numbers() -> None:
    boundary = {
        "x_lower": {"robin": 3.0, "alpha": 0.5},
        "x_upper": {"neumann": 7.0},
        "y_lower": {"robin": "1 + x", "alpha": "2*x"},
        "y_upper": {"dirichlet": 9.0},
    }
    discretisation = Discretisation(make_case({"f": 1.0, "c": 10.0}, boundary, (3, 3), (1.0, 2.0)).problem)
    # 2/h is 4 along x and 2 along y.
    source = discretisation.source(np, 0, 3)
    np.testing.assert_array_equal(source[0], [1 + 12 + 2, 1 + 3, 1 + 28 + 4])
    np.testing.assert_array_equal(source[1], [1 + 12, 1, 1 + 28])
    np.testing.assert_array_equal(source[2], 0.0)
    reaction = discretisation.reaction(np, 0, 3)
    np.testing.assert_array_equal(reaction[0], [10 + 2, 10 + 2, 10 + 4])
    np.testing.assert_array_equal(reaction[1], [10 + 2, 10, 10])
    np.testing.assert_array_equal(discretisation.c(np, 0, 3), 10.0)
    operator = discretisation.operator_on(NumpyBackend(np.float64))
    assert operator.coefficients is not None
    assert (operator.a, operator.c, operator.links) == (1.0, 0.0, None)
    assert (operator.coefficients.a_range, operator.coefficients.c_range) == ((1.0, 1.0), (10.0, 14.0))


def test_constant_coefficients_need_no_arrays() -> None:
    boundary = {"all": {"robin": 1.0, "alpha": 0.0}, "x_lower": {"dirichlet": 0.0}}
    discretisation = Discretisation(make_case({"f": 1.0, "a": "2*3", "c": 5.0}, boundary, (4, 5)).problem)
    operator = discretisation.operator_on(NumpyBackend(np.float64))
    assert operator == discretisation.operator
    assert (operator.a, operator.c, operator.varies) == (6.0, 5.0, False)
    h = 1.0 / 3.0
    assert operator.couplings == pytest.approx((6.0 / h**2, 6.0 * 16.0), rel=1e-14)
    with pytest.raises(ValueError, match="the coefficients vary"):
        _ = varying((Rule.FIXED, Rule.FIXED)).operator


# ---- parts of it
@EVERY_RULE
def test_a_part_has_the_rows_of_the_whole(rules: tuple[Rule, ...]) -> None:
    backend = NumpyBackend(np.float64)
    for options in ({}, {"a": False}, {"c": False, "robin": False}, {"a": False, "c": False, "robin": False}):
        discretisation = varying(rules, **options)
        whole = discretisation.operator_on(backend)
        u = random_array(whole.array_shape, np.float64, 3)
        expected = np.empty_like(u)
        backend.bind(whole).residual(u, None, expected)
        count = whole.array_shape[0]
        for start, stop in itertools.combinations(range(count + 1), 2):
            if stop - start == 1 and count > 1:
                continue
            part = discretisation.part_on(backend, whole, start, stop)
            assert (part.singular, part.norm, part.eigenvalues()) == (whole.singular, whole.norm, whole.eigenvalues())
            rows, r = part.lattice.axes[-1], np.empty(part.array_shape)
            backend.bind(part).residual(u[rows.index], None, r)
            np.testing.assert_array_equal(r[rows.owned], expected[start:stop])


# ---- bounds and the null space
@EVERY_RULE
def test_the_eigenvalues_lie_between_their_bounds(rules: tuple[Rule, ...]) -> None:
    for options in ({}, {"a": False}, {"c": False, "robin": False}):
        discretisation = varying(rules, **options)
        operator = reference.operator_of(discretisation)
        free = ~reference.fixed_nodes(operator).ravel()
        values = np.sort(np.linalg.eigvals(reference.matrix(operator).toarray()[np.ix_(free, free)]).real)
        assert operator.unknowns == np.count_nonzero(free)
        lowest, highest = operator.eigenvalues()
        zero = 1e-9 * values[-1]
        assert operator.singular == discretisation.singular == (values[0] < zero)
        actual = values[1] if operator.singular else values[0]
        assert lowest <= actual * (1 + 1e-9)
        assert highest >= values[-1] * (1 - 1e-12)
        assert (lowest > 0.0) == (options != {"a": False} or Rule.FIXED in rules or discretisation.problem.c != 0.0)
        found = reference.Direct(discretisation).lowest_eigenvalue(200)
        assert found == pytest.approx(actual, rel=1e-2)


@pytest.mark.parametrize("rules", RULES[:30], ids=name_of)
def test_the_bounds_of_coefficients_that_do_not_vary_are_the_eigenvalues(rules: tuple[Rule, ...]) -> None:
    discretisation = varying(rules, robin=False)
    problem = discretisation.problem
    shape = problem.lattice.array_shape
    arrays = {name: type(problem.a)(np.full(shape, value)) for name, value in (("a", 3.0), ("c", 0.25))}
    same = reference.operator_of(Discretisation(replace(problem, **arrays)))
    plain = Discretisation(replace(problem, a=3.0, c=0.25)).operator
    assert same.eigenvalues() == pytest.approx(plain.eigenvalues(), rel=1e-14)
    assert same.norm == pytest.approx(plain.norm, rel=1e-14)


@pytest.mark.parametrize(
    ("equation", "alpha", "expected"),
    [
        ({"c": 0.0}, 0.0, True),
        ({"c": "x - x"}, "where(x < -1, 1, 0)", True),
        ({"c": "where(x > 2, 1, 0)"}, 0.0, True),
        ({"c": "where(x > 2, 1, 0)"}, "where(x < 0.2, 1, 0)", False),
        ({"c": "where(x > 0.9, 1, 0)"}, 0.0, False),
        ({"c": 0.0}, 1e-300, False),
        ({"c": 0.5}, 0.0, False),
        ({"a": "1 + x", "c": 0.0}, 0.0, True),
    ],
)
def test_a_problem_is_singular_where_nothing_holds_u(
    equation: dict[str, Any], alpha: float | str, expected: bool
) -> None:
    boundary = {"all": {"neumann": 0.0}, "y_lower": {"robin": 0.0, "alpha": alpha}}
    for held in (False, True):
        faces = boundary | ({"x_upper": {"dirichlet": 0.0}} if held else {})
        discretisation = Discretisation(make_case({"f": 0.0, **equation}, faces, (6, 5)).problem)
        assert discretisation.singular == (expected and not held)
        assert discretisation.operator_on(NumpyBackend(np.float64)).singular == discretisation.singular


# ---- what is refused

REFUSED: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    ({"a": "x - 0.5"}, {}, "equation.a: -0.5 at x = 0, y = 0; every value must be > 0"),
    ({"a": "abs(x - 0.5)"}, {}, "equation.a: 0.0 at x = 0.5, y = 0; every value must be > 0"),
    ({"a": "1/y"}, {}, "equation.a: inf at x = 0, y = 0; every value must be finite"),
    ({"c": "0.6 - y"}, {}, f"equation.c: {0.6 - 0.75} at x = 0, y = 0.75; every value must be >= 0"),
    ({"c": "log(x)"}, {}, "equation.c: -inf at x = 0, y = 0; every value must be finite"),
    (
        {},
        {"x_upper": {"robin": 0.0, "alpha": "y - 0.5"}},
        "boundary.x_upper.alpha: -0.5 at x = 1, y = 0; every value must be >= 0",
    ),
    (
        {},
        {"y_lower": {"robin": 0.0, "alpha": "1/(x - 0.5)**2"}},
        "boundary.y_lower.alpha: inf at x = 0.5, y = 0; every value must be finite",
    ),
]


@pytest.mark.parametrize(("equation", "boundary", "message"), REFUSED, ids=[row[2] for row in REFUSED])
def test_a_wrong_value_is_named_with_its_place(
    equation: dict[str, Any], boundary: dict[str, Any], message: str
) -> None:
    discretisation = Discretisation(make_case({"f": 0.0, **equation}, WALLS | boundary, (5, 5)).problem)
    assert mistake_of(discretisation.operator_on, NumpyBackend(np.float64)) == message


def test_values_that_a_type_cannot_hold() -> None:
    for equation, key, least, largest in (
        ({"a": "10**(-50*x)"}, "equation.a", "1e-50", "1"),
        ({"a": "10**(50*x)"}, "equation.a", "1", "1e+50"),
        ({"c": "10**(50*x)"}, "equation.c with the robin terms", "1", "1e+50"),
    ):
        discretisation = Discretisation(make_case({"f": 0.0, **equation}, WALLS, (5, 5)).problem)
        discretisation.operator_on(NumpyBackend(np.float64))
        line = f"{key}: the values from {least} to {largest} do not fit into float32; use run.precision = 'float64'"
        assert mistake_of(discretisation.operator_on, NumpyBackend(np.float32)) == line
    small = Discretisation(make_case({"f": 0.0, "c": "1e-60*x"}, WALLS, (5, 5)).problem)
    assert small.operator_on(NumpyBackend(np.float32)).varies
