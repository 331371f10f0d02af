# SPDX-License-Identifier: MIT
"""Clusters, their graphs and full stencils by the library: the specification's, with any number of threads."""

from dataclasses import fields, replace

import numpy as np
import pytest
from support.agreement import grid_operator
from support.full_stencils import GRIDS, along_axes, stencil_on
from support.operators import random_array

from poisson import backends
from poisson.backends.numpy import NumpyBackend
from poisson.discrete.contracted import GraphCycle
from poisson.discrete.full_stencil import StencilTransfer
from poisson.mesh.boundary import Rule


@pytest.mark.parametrize("threads", [1, 3])
def test_clusters_that_the_library_finds_are_those_of_the_specification(threads: int) -> None:
    """The groups and their members exactly, on every kind of faces, also with a group of most nodes."""
    backend, numpy = backends.create("openmp", np.float64, threads), NumpyBackend(np.float64)
    for shape, rules in [*GRIDS, ((400, 300), (Rule.WRAP, Rule.WRAP, Rule.FIXED, Rule.MIRROR))]:
        full = stencil_on(grid_operator(shape, rules).lattice, np.float32, jump=4.0, holes=-0.8)
        scaled = replace(full, scales=tuple(3.0 ** (number % 3 - 1) for number in range(len(full.offsets))))
        for stencil, dtype in ((full, np.float32), (along_axes(full), np.float64), (scaled, np.float32)):
            arrays = backend.companion(dtype).from_host(np.asarray(stencil.coefficients))
            for threshold, part in ((1e-4, 1.0), (0.05, 0.5), (0.3, 0.01), (1.0, 0.0)):
                expected = numpy.bind(stencil).clusters(threshold, part)
                found = backend.bind(replace(stencil, coefficients=arrays)).clusters(threshold, part)
                assert np.array_equal(found.nodes, expected.nodes) and np.array_equal(found.starts, expected.starts)
                np.testing.assert_allclose(found.factors, expected.factors, rtol=1e-12)
                assert found.size == expected.size


@pytest.mark.parametrize("threads", [1, 3])
def test_graphs_of_clusters_that_the_library_makes_have_the_bits_of_the_specification(threads: int) -> None:
    """With all their aggregates, on every kind of faces, also where nodes without a group are beside others."""
    backend, numpy, graphs = backends.create("openmp", np.float64, threads), NumpyBackend(np.float64), set()
    for shape, rules in [*GRIDS, ((400, 300), (Rule.WRAP, Rule.WRAP, Rule.FIXED, Rule.MIRROR))]:
        full = stencil_on(grid_operator(shape, rules).lattice, np.float32, jump=4.0, holes=-0.8, negative=-0.9)
        links = np.asarray(full.coefficients)[1:]
        links[random_array(links.shape, np.float64, 8) < -0.8] = 0.0
        scaled = replace(full, scales=tuple(3.0 ** (number % 3 - 1) for number in range(len(full.offsets))))
        for stencil, dtype in ((full, np.float32), (along_axes(full), np.float64), (scaled, np.float32)):
            arrays = backend.companion(dtype).from_host(np.asarray(stencil.coefficients))
            for threshold, part in ((0.05, 1.0), (0.05, 0.1), (0.4, 1.0), (1.0, 0.0)):
                expected = numpy.bind(stencil).contracted_clusters(threshold, part)
                found = backend.bind(replace(stencil, coefficients=arrays)).contracted_clusters(threshold, part)
                assert np.array_equal(found.nodes, expected.nodes) and np.array_equal(found.starts, expected.starts)
                assert found.cycle is not None and expected.cycle is not None and found.count == expected.count
                for field in fields(GraphCycle):
                    pair = (getattr(cycle, field.name) for cycle in (found.cycle, expected.cycle))
                    assert np.array_equal(*pair), field.name
                graphs.add(len(found.cycle.levels))
    assert graphs >= {2, 5, 6}


def test_the_library_has_the_same_bits_for_every_number_of_threads() -> None:
    """Sums over nodes, over groups of many blocks and of few nodes, and the products."""
    stencil = stencil_on(grid_operator((400, 300), (Rule.WRAP, Rule.WRAP, Rule.FIXED, Rule.MIRROR)).lattice, jump=3.0)
    results = set()
    for threads in (1, 2, 3, 4):
        backend = backends.create("openmp", np.float64, threads)
        full = replace(stencil, coefficients=backend.from_host(np.asarray(stencil.coefficients)))
        u, f, out = (backend.from_host(random_array(stencil.array_shape, np.float64, seed)) for seed in (1, 2, 3))
        place, found = backend.reduction(), []
        operations = backend.bind(full)
        operations.residual(u, f, out, place)
        found.append(backend.read(place))
        operations.direction(u, 0.3, f, out, backend.empty(stencil.array_shape), place)
        found.append(backend.read(place))
        for threshold in (1e-4, 0.2):
            groups = operations.clusters(threshold)
            assert threshold > 0.1 or np.diff(groups.starts).max() > 3 * 8192
            backend.bind(groups).correct_clusters(f, u)
        plain = StencilTransfer(full, (True, True))
        weights, product = backend.empty(plain.table.array_shape), backend.empty(plain.product.array_shape)
        backend.bind(plain).interpolation(weights, False)
        backend.bind(replace(plain, weights=weights)).galerkin(product)
        found += [backend.to_host(array).tobytes() for array in (u, weights, product)]
        results.add(tuple(found))
    assert len(results) == 1
