# SPDX-License-Identifier: MIT
"""Every operation on every backend against the specification: random data, odd sizes, every kind of face.

Covers poisson.backends.numpy and poisson.backends.openmp.backend.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from conftest import BACKENDS, emulated
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.agreement import FEW_RULES, Results, agree, both_products, rules_for
from support.operators import AXIS_RULES, name_of, operator, random_array, rules_of

from poisson import backends
from poisson.backends.base import Array, Backend
from poisson.backends.gpu import choice, launch
from poisson.backends.numpy import NumpyBackend
from poisson.discrete.discretisation import Operator
from poisson.discrete.transfer import Transfer
from poisson.errors import ResourceError
from poisson.mesh.boundary import Rule

SHAPES = {2: [(3, 3), (7, 5), (37, 18), (70, 41)], 3: [(3, 3, 3), (5, 4, 3), (27, 9, 38), (19, 37, 6)]}


def stencils(backend: Backend, a: Operator, u: Array, f: Array) -> Results:
    """laplacian, boundary_conditions, sweep and residual, with and without norms and a source."""
    out, norms = backend.from_host(random_array(a.array_shape, backend.dtype, 5)), backend.reduction()
    results = []
    backend.bind(a).laplacian(u, out)
    results.append(backend.to_host(out))
    backend.bind(a).boundary_conditions(u, out)
    results.append(backend.to_host(out))
    for operation in (
        lambda norms: backend.bind(a).sweep(u, f, out, 0.8, norms),
        lambda norms: backend.bind(a).residual(u, f, out, norms),
        lambda norms: backend.bind(a).sweep(u, None, out, 0.8, norms),
        lambda norms: backend.bind(a).residual(u, None, out, norms),
    ):
        operation(None)
        results.append(backend.to_host(out))
        backend.fill(out, 9.0)
        operation(norms)
        results += [backend.to_host(out), np.array(backend.read(norms))]
    return results


def vectors(backend: Backend, a: Operator, u: Array, f: Array) -> Results:
    """update, norm, dot, axpby and fill."""
    r, norms = backend.empty(a.array_shape), backend.reduction()
    v = backend.from_host(random_array(a.array_shape, backend.dtype, 6))
    results = []
    for source in (f, None):
        backend.bind(a).update(source, u, r, v, 0.7)
        results += [backend.to_host(r), backend.to_host(v)]
    backend.bind(a).norm(r, norms)
    results.append(np.array(backend.read(norms)))
    backend.bind(a).dot(u, f, norms)
    # The sum of random signs is small beside its terms: rounding is relative to these.
    results.append(np.array(backend.read(norms)) / np.prod(a.shape))
    backend.axpby(0.3, u, -1.7, v)
    results.append(backend.to_host(v))
    backend.fill(v, np.nan)
    backend.axpby(0.3, u, 0.0, v)
    results.append(backend.to_host(v))
    backend.fill(v, 2.5)
    results.append(backend.to_host(v))
    return results


def transfers(backend: Backend, a: Operator, u: Array, f: Array) -> Results:
    """restrict and prolong_add, to and from the next coarser grid."""
    transfer = Transfer(a, coarser(a))
    coarse = backend.from_host(random_array(transfer.coarse.array_shape, backend.dtype, 7))
    fine = backend.from_host(random_array(a.array_shape, backend.dtype, 8))
    backend.bind(transfer).prolong_add(coarse, fine)
    results = [backend.to_host(fine)]
    backend.bind(transfer).restrict(u, coarse)
    return [*results, backend.to_host(coarse)]


def coarser(a: Operator) -> Operator:
    """The operator on the grid that `Grid.coarsen` gives, on the same box."""
    shape, spacing = [], []
    for axis, (nodes, h) in enumerate(zip(a.shape, a.spacing, strict=True)):
        wraps = a.lattice.axes[axis].rules[0] is Rule.WRAP
        coarse = -(-nodes // 2) if wraps else -(-(nodes + 1) // 2)
        coarse = coarse if coarse >= 3 else nodes
        shape.append(coarse)
        spacing.append(h * nodes / coarse if wraps else h * (nodes - 1) / (coarse - 1))
    return Operator.uniform(tuple(shape), tuple(spacing), a.c, a.rules)


@pytest.mark.parametrize("operations", [stencils, vectors, transfers])
@pytest.mark.parametrize("dimension", [2, 3])
def test_operations_agree_with_the_specification(
    backend: Backend, dimension: int, operations: Callable[..., Results]
) -> None:
    for rules in rules_for(backend, dimension):
        for shape in SHAPES[dimension]:
            agree(backend, operator(shape, rules), operations)


def test_few_rules_hold_every_pair_on_every_axis() -> None:
    for dimension, combinations in FEW_RULES.items():
        for axis in range(dimension):
            assert {rules[2 * axis : 2 * axis + 2] for rules in combinations} == set(AXIS_RULES)
            assert {rules[2 * axis : 2 * axis + 2] for rules in rules_of(dimension)[::4]} == set(AXIS_RULES)
        assert set(combinations[-1]) == {Rule.FIXED, Rule.MIRROR, Rule.WRAP}


@settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_agrees_on_any_shape_and_faces(data: st.DataObject) -> None:
    dtype = data.draw(st.sampled_from([np.float64, np.float32]))
    dimension = data.draw(st.sampled_from([2, 3]))
    shape = data.draw(st.tuples(*[st.integers(3, 200 if dimension == 2 else 40)] * dimension))
    rules = data.draw(st.sampled_from(rules_of(dimension)))
    operations = data.draw(st.sampled_from([stencils, vectors, transfers]))
    c = data.draw(st.sampled_from([0.0, 0.3, 50.0]))
    agree(BACKENDS["openmp"](dtype), operator(shape, rules, c), operations)


@pytest.mark.parametrize("rules", rules_of(2), ids=name_of)
def test_restriction_is_the_adjoint_of_prolongation(rules: tuple[Rule, ...]) -> None:
    """⟨P e, r⟩ h^d = ⟨e, R r⟩ H^d in the trapezoidal inner products, for e and r that vanish at fixed nodes."""
    numpy = NumpyBackend(np.float64)
    for shape in [(9, 17), (8, 15), (12, 9), (21, 6)]:
        fine = operator(shape, rules)
        coarse = coarser(fine)
        e, r = (random_array(a.array_shape, np.float64, seed) for a, seed in ((coarse, 1), (fine, 2)))
        zero = np.zeros(fine.array_shape)
        numpy.bind(fine).residual(zero, r.copy(), r)
        zero_coarse = np.zeros(coarse.array_shape)
        numpy.bind(coarse).residual(zero_coarse, e.copy(), e)
        prolonged, restricted = np.zeros(fine.array_shape), np.empty(coarse.array_shape)
        transfer = Transfer(fine, coarse)
        numpy.bind(transfer).prolong_add(e, prolonged)
        numpy.bind(transfer).restrict(r, restricted)
        sums = numpy.reduction()
        numpy.bind(fine).dot(prolonged, r, sums)
        left = numpy.read(sums)[0] * np.prod(fine.spacing)
        numpy.bind(coarse).dot(e, restricted, sums)
        right = numpy.read(sums)[0] * np.prod(coarse.spacing)
        assert left == pytest.approx(right, rel=1e-12)


@pytest.mark.parametrize("rules", rules_of(2) + rules_of(3), ids=name_of)
def test_the_operator_is_symmetric_in_the_inner_product_of_control_volumes(rules: tuple[Rule, ...]) -> None:
    left, right = both_products(operator((6, 5, 4)[: len(rules) // 2], rules))
    assert left == pytest.approx(right, rel=1e-12)


def test_reduction_has_the_same_bits_for_every_number_of_threads() -> None:
    a = operator((301, 40, 37), rules_of(3)[6])
    results = set()
    for threads in (1, 2, 3, 4):
        backend = backends.create("openmp", np.float64, threads)
        u, f = (backend.from_host(random_array(a.array_shape, np.float64, seed)) for seed in (1, 2))
        out, norms = backend.empty(a.array_shape), backend.reduction()
        backend.bind(a).sweep(u, f, out, 1.0, norms)
        results.add(backend.read(norms))
        backend.bind(a).dot(u, f, norms)
        results.add(backend.read(norms))
    assert len(results) == 2


def limit_blocks(monkeypatch: pytest.MonkeyPatch, limit: int) -> None:
    """Let a launch have at most so many blocks along y and along z."""
    for module in (choice, launch):
        monkeypatch.setattr(module, "MAX_BLOCKS", limit)


@pytest.mark.parametrize("shape", [(9, 70), (5, 6, 41)])
def test_a_long_thin_grid_marches_where_blocks_run_out(shape: tuple[int, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    limit_blocks(monkeypatch, 4)
    backend = emulated(np.float64)
    for rules in FEW_RULES[len(shape)][1:3]:
        agree(backend, operator(shape, rules), stencils)
        agree(backend, operator(shape, rules), vectors)


def test_a_grid_that_the_device_cannot_cut_up_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    limit_blocks(monkeypatch, 4)
    backend = emulated(np.float64)
    a = operator((5, 41, 6), FEW_RULES[3][0])
    u, out = backend.empty(a.array_shape), backend.empty(a.array_shape)
    with pytest.raises(
        ResourceError,
        match=r"^the gpu backend cannot divide this grid into blocks .*laplacian: "
        r"6 x 3 along y and z",
    ):
        backend.bind(a).laplacian(u, out)


def test_an_axis_with_more_nodes_than_kernels_count_is_refused() -> None:
    with pytest.raises(
        ResourceError,
        match=r"^the gpu backend takes at most 2147418112 nodes along an axis, "
        r"not 2147483648",
    ):
        emulated(np.float64).empty((1, 1 << 31))
