# SPDX-License-Identifier: MIT
"""What holds of the operations themselves, beside their agreement: symmetry, adjoints, means, rows, rounding, bits."""

import numpy as np
import pytest
from support.agreement import both_products, grid_operator, with_coefficients
from support.operators import name_of, operator, pairs_of_rules, random_array, rules_of
from test_smooth import coarsened

from poisson import backends
from poisson.backends.base import Backend
from poisson.backends.numpy import NumpyBackend
from poisson.discrete.operator import Operator
from poisson.discrete.transfer import Transfer
from poisson.mesh.boundary import Rule


@pytest.mark.parametrize("kind", ["none", "both"])
def test_the_operator_is_symmetric_in_the_inner_product_of_control_volumes(kind: str) -> None:
    """Links across a mirror face count once for each half of it, so that A stays symmetric whatever a is."""
    for rules in rules_of(2) + pairs_of_rules(3):
        a = with_coefficients(NumpyBackend(np.float64), grid_operator((6, 5, 4)[: len(rules) // 2], rules), kind)
        left, right = both_products(a)
        assert left == pytest.approx(right, rel=1e-12), name_of(rules)


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


@pytest.mark.parametrize("rule", [Rule.FIXED, Rule.MIRROR, Rule.WRAP])
def test_links_keep_their_mean(rule: Rule) -> None:
    """In 1D the integral of a is the same on every grid, whatever its nodes."""
    numpy = NumpyBackend(np.float64)
    for nodes in (17, 20, 33):
        fine = grid_operator((nodes,), (rule, rule))
        a = 10.0 ** random_array(fine.array_shape, np.float64, nodes)
        coarse_nodes = coarsened(grid_operator((nodes, 9), (rule,) * 4), (0, 1)).coarse.shape[0]
        coarse = Operator.uniform((coarse_nodes, 1), fine.spacing, 0.7, fine.rules)
        out = np.empty(coarse.array_shape)
        numpy.bind(Transfer(fine, coarse)).coarsen_links(0, a, out)
        unused = 0 if rule is Rule.WRAP else 1
        means = [np.mean(links[0, : links.size - unused]) for links in (a, out)]
        assert means[0] == pytest.approx(means[1], rel=1e-13)


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
