# SPDX-License-Identifier: MIT
"""Stencils with a and c that vary from node to node, on every backend, in one to three dimensions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from support.agreement import SHAPES, Results, agree, both_products, grid_operator, rules_for, with_coefficients
from support.operators import name_of, random_array, rules_of
from test_operations import stencils

from poisson.backends.base import Array, Backend
from poisson.backends.numpy import NumpyBackend
from poisson.discrete.operator import Coefficients, Operator
from poisson.mesh.boundary import Rule


def relaxations(backend: Backend, a: Operator, u: Array, f: Array) -> Results:
    """update, sweeps of different weights, and color_sweep, with and without a source."""
    r, out = backend.empty(a.array_shape), backend.empty(a.array_shape)
    v = backend.from_host(random_array(a.array_shape, backend.dtype, 6))
    norms = backend.reduction()
    results = []
    for source in (f, None):
        backend.bind(a).update(source, u, r, v, 0.7)
        results += [backend.to_host(r), backend.to_host(v)]
        omegas = (0.6, 1.3)[: backend.bind(a).depth()]
        start = u
        for first in range(0, 2, len(omegas)):
            backend.bind(a).sweeps(start, source, out, (0.6, 1.3)[first : first + len(omegas)], norms)
            start, out = out, backend.empty(a.array_shape)
        results += [backend.to_host(start), np.array(backend.read(norms))]
        if all(n == 1 or n % 2 == 0 or rule is not Rule.WRAP for n, rule in zip(a.shape, a.rules[::2], strict=True)):
            for color in (0, 1):
                backend.bind(a).color_sweep(v, source, color, 1.2)
                results.append(backend.to_host(v))
    return results


@pytest.mark.parametrize(
    ("operations", "dimension", "kind"),
    [
        (operations, dimension, kind)
        for operations in (stencils, relaxations)
        for dimension in (1, 2, 3)
        # One array without the other is in test_agreement.py, with a sample of the faces.
        for kind in ("none", "both")
        # Those of constants in 2D and 3D are in test_operations.py, with all faces.
        if (operations, kind) != (stencils, "none") or dimension == 1
    ],
)
def test_varying_stencils_agree_with_the_specification(
    backend: Backend, dimension: int, kind: str, operations: Callable[..., Results]
) -> None:
    for rules in rules_for(backend, dimension, kind):
        for shape in SHAPES[dimension]:
            agree(backend, grid_operator(shape, rules), operations, kind)


@pytest.mark.parametrize("dimension", [2, 3])
def test_color_sweep_on_axes_that_wrap(backend: Backend, dimension: int) -> None:
    """Wrapped axes need an even number of nodes, which few of the other shapes have."""
    for rules in rules_for(backend, dimension):
        agree(backend, grid_operator((38, 18, 6)[:dimension], rules), relaxations, "both")


def test_constant_arrays_are_the_constant_operator(backend: Backend) -> None:
    """Arrays of ones and of c give what the numbers give, on a grid of every face rule."""
    for rules in rules_for(backend, 2):
        a = grid_operator((37, 18), rules)
        values = random_array(a.array_shape, backend.dtype, 1)
        results = []
        for operator in (a, constant_arrays(backend, a)):
            u, out = backend.from_host(values), backend.empty(a.array_shape)
            backend.bind(operator).sweep(u, None, out, 0.8)
            results.append(backend.to_host(out))
        np.testing.assert_allclose(results[0], results[1], rtol=0, atol=8 * np.finfo(backend.dtype).eps)


def constant_arrays(backend: Backend, a: Operator) -> Operator:
    one = backend.from_host(np.ones(a.array_shape))
    c = backend.from_host(np.full(a.array_shape, a.c))
    return replace(a, c=0.0, coefficients=Coefficients((one,) * a.dimension, c, (1.0, 1.0), (a.c, a.c)))


@pytest.mark.parametrize("rules", rules_of(2) + rules_of(3), ids=name_of)
def test_a_varying_operator_is_symmetric_in_the_inner_product_of_control_volumes(rules: tuple[Rule, ...]) -> None:
    """Links across a mirror face count once for each half of it, so that A stays symmetric whatever a is."""
    a = with_coefficients(NumpyBackend(np.float64), grid_operator((6, 5, 4)[: len(rules) // 2], rules), "both")
    left, right = both_products(a)
    assert left == pytest.approx(right, rel=1e-12)


def test_boundary_conditions_of_one_row_are_the_whole_operator(backend: Backend) -> None:
    """In 1D the nodes all lie on a face of the second axis: `laplacian` has none, and each is written once."""
    a = grid_operator((37,), (Rule.FIXED, Rule.MIRROR))
    u = backend.from_host(random_array(a.array_shape, backend.dtype, 1))
    out = backend.from_host(np.full(a.array_shape, 9.0))
    backend.bind(a).laplacian(u, out)
    np.testing.assert_array_equal(backend.to_host(out), 9.0)
    backend.bind(a).boundary_conditions(u, out)
    r = backend.empty(a.array_shape)
    backend.bind(a).residual(u, None, r)
    np.testing.assert_array_equal(backend.to_host(out), -backend.to_host(r))
