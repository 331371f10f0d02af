# SPDX-License-Identifier: MIT
"""The operations of Krylov methods and of defect correction on every backend against the specification.

Covers poisson.backends.gpu.krylov.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from support.agreement import SHAPES, Results, agree, grid_operator, rules_for, with_coefficients
from support.operators import random_array

from poisson.backends.base import Array, Backend
from poisson.discrete.operator import Operator
from poisson.mesh.boundary import Rule


def scaled(total: float, a: Operator) -> np.ndarray:
    """A sum of products of either sign for comparison: its rounding is relative to the terms."""
    return np.array([total / np.prod(a.shape)])


def directions(backend: Backend, a: Operator, z: Array, p: Array) -> Results:
    """direction with and without an old direction; what is not read is not a number."""
    out, q, sums = backend.empty(a.array_shape), backend.empty(a.array_shape), backend.reduction()
    results = []
    for beta in (0.4, 0.0):
        if beta == 0.0:
            backend.fill(p, np.nan)
        backend.bind(a).direction(z, beta, p, out, q, sums)
        results += [backend.to_host(out), backend.to_host(q), scaled(backend.read(sums)[0] / 1e3, a)]
        assert backend.read(sums)[1] == 0.0
    return results


def advances(backend: Backend, a: Operator, p: Array, q: Array) -> Results:
    u, r = (backend.from_host(random_array(a.array_shape, backend.dtype, seed)) for seed in (3, 4))
    norms = backend.reduction()
    backend.bind(a).advance(0.3, p, q, u, r, norms)
    return [backend.to_host(u), backend.to_host(r), np.array(backend.read(norms))]


def diagonal_solves(backend: Backend, a: Operator, r: Array, z: Array) -> Results:
    sums = backend.reduction()
    backend.bind(a).diagonal_solve(r, z, 0.8)
    results = [backend.to_host(z)]
    backend.fill(z, 9.0)
    backend.bind(a).diagonal_solve(r, z, 1.0, sums)
    assert backend.read(sums)[1] == 0.0
    return [*results, backend.to_host(z), scaled(backend.read(sums)[0], a)]


def corrections(backend: Backend, a: Operator, u: Array, f: Array) -> Results:
    """defect and correct, with arrays of single precision on the other side."""
    single, norms = backend.companion(np.float32), backend.reduction()
    assert single.companion(backend.dtype).dtype == backend.dtype
    r = single.from_host(np.full(a.array_shape, 9.0))
    results = []
    for source in (f, None):
        backend.bind(a).defect(u, source, 0.01, r)
        results.append(single.to_host(r))
        single.fill(r, 9.0)
        backend.bind(a).defect(u, source, 0.01, r, norms)
        results += [single.to_host(r), np.array(backend.read(norms))]
    backend.correct(-0.3, r, u)
    return [*results, backend.to_host(u)]


@pytest.mark.parametrize("operations", [directions, diagonal_solves, corrections])
@pytest.mark.parametrize("kind", ["none", "both"])
@pytest.mark.parametrize("dimension", [1, 2, 3])
def test_krylov_operations_agree_with_the_specification(
    backend: Backend, dimension: int, kind: str, operations: Callable[..., Results]
) -> None:
    """With arrays of a and c at all kinds of faces; one without the other is in test_agreement.py."""
    for rules in rules_for(backend, dimension, kind):
        for shape in SHAPES[dimension]:
            agree(backend, grid_operator(shape, rules), operations, kind)


@pytest.mark.parametrize("dimension", [1, 2, 3])
def test_advance_agrees_with_the_specification(backend: Backend, dimension: int) -> None:
    for shape in SHAPES[dimension]:
        agree(backend, grid_operator(shape, rules_for(backend, dimension)[-1]), advances)


def test_direction_is_the_axpby_and_the_residual_that_it_replaces(backend: Backend) -> None:
    """On more rows and planes than a tile of the library has."""
    eps = float(np.finfo(backend.dtype).eps)
    for shape in ((70, 531), (41, 37, 70)):
        rules = rules_for(backend, len(shape))[0]
        a = with_coefficients(backend, grid_operator(shape, rules), "both")
        z, p = (backend.from_host(random_array(a.array_shape, backend.dtype, seed)) for seed in (1, 2))
        zero, out, q, expected = (backend.from_host(np.zeros(a.array_shape)) for _ in range(4))
        for array in (z, p):
            # The residual of A = 0 + 1 at the nodes that are not fixed: their values.
            backend.bind(grid_operator(shape, rules, c=1.0)).diagonal_solve(array, expected, 1.0)
        sums = backend.reduction()
        backend.bind(a).direction(z, -0.7, p, out, q, sums)
        backend.bind(a).residual(out, zero, expected)
        applied = -backend.to_host(expected)
        np.testing.assert_allclose(backend.to_host(q), applied, rtol=0, atol=8 * eps * np.abs(applied).max())
        total = backend.read(sums)[0]
        backend.bind(a).dot(out, q, sums)
        assert total == pytest.approx(backend.read(sums)[0], rel=64 * eps)


def test_companion_of_the_same_type_is_the_backend_itself(backend: Backend) -> None:
    assert backend.companion(backend.dtype) is backend
    assert backend.companion(np.float32).dtype == np.float32
    assert backend.companion(np.float32).name == backend.name


def test_a_source_is_scaled_before_it_is_rounded(backend: Backend) -> None:
    """A residual below the least float of single precision is not lost where the factor brings it back."""
    if backend.dtype != np.float64:
        pytest.skip("single precision cannot hold the residual")
    a = grid_operator((37, 18), (Rule.MIRROR,) * 4)
    u = backend.from_host(np.zeros(a.array_shape))
    f = backend.from_host(np.full(a.array_shape, 1e-60))
    r = backend.companion(np.float32).empty(a.array_shape)
    backend.bind(a).defect(u, f, 1e60, r)
    np.testing.assert_allclose(backend.companion(np.float32).to_host(r), 1.0, rtol=1e-6)
