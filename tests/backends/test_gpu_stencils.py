# SPDX-License-Identifier: MIT
"""Full stencils and clusters where the table of operations is not enough: pieces, large grids, stencils of links."""

import itertools
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
from conftest import BACKENDS, MAKES, emulated
from support.agreement import FEW_RULES, KINDS, PLACED, TABLE, agree, grid_operator, with_coefficients
from support.emulation import Order
from support.full_stencils import along_axes, stencil_on
from support.operators import AXIS_RULES, random_array

from poisson.backends.gpu.clusters import FEW, PIECE, SMALL, on_host
from poisson.backends.numpy import NumpyBackend
from poisson.backends.operations import ALL
from poisson.discrete.clusters import Clusters
from poisson.discrete.full_stencil import FullStencil, StencilTransfer, star
from poisson.discrete.operator import Operator

SHAPES = [((7, 5), FEW_RULES[2]), ((41, 38), FEW_RULES[2]), ((5, 4, 3), FEW_RULES[3]), ((37, 5, 6), FEW_RULES[3])]
"""Small grids, each with all faces."""

SIZES = (2, 3, SMALL, SMALL + 1, PIECE, PIECE + 1, 8, 2 * PIECE + 700)
"""Nodes of clusters that a team takes, of those that a block takes, and of those that have several pieces."""


def scattered(shape: tuple[int, int]) -> Clusters:
    """Clusters of these sizes, of nodes anywhere on a grid with mirrors and fixed nodes."""
    lattice = grid_operator(shape, (*AXIS_RULES[1], *AXIS_RULES[3])).lattice
    order = np.random.default_rng(0).permutation(lattice.nodes)
    starts = np.cumsum([0, *SIZES])
    nodes = [np.sort(order[first:last]) for first, last in itertools.pairwise(starts)]
    factors = 0.5 + random_array((len(SIZES),), np.float64, 1) ** 2
    return Clusters(lattice, np.concatenate(nodes).astype(np.int32), starts, factors)


def test_large_clusters_are_corrected_with_the_same_bits_in_every_order_of_blocks(dtype: Any) -> None:
    clusters = scattered((130, 140))
    r, other, u = (random_array(clusters.lattice.array_shape, dtype, seed) for seed in (1, 2, 3))
    expected, found = u.copy(), []
    NumpyBackend(dtype).bind(clusters).correct_clusters(r, expected)
    for order in Order:
        backend = emulated(dtype, order)
        operations = backend.bind(clusters)
        for values in (other, r):  # the counters of the first are zero again
            out = backend.from_host(u)
            operations.correct_clusters(backend.from_host(values), out)
        found.append(backend.to_host(out))
    assert all(np.array_equal(out, found[0]) for out in found)
    atol = 16 * np.finfo(dtype).eps * np.abs(expected).max()
    np.testing.assert_allclose(found[0], expected, rtol=0, atol=atol)


@pytest.mark.parametrize("make", [emulated, pytest.param(BACKENDS["gpu"], marks=pytest.mark.gpu)])
@pytest.mark.parametrize(("shape", "dtype"), [((37, 18), np.float32), ((27, 9, 16), np.float64)])
def test_residuals_at_the_nodes_of_few_groups_are_those_of_all_nodes(
    make: Callable[[Any], Any], shape: tuple[int, ...], dtype: Any
) -> None:
    """The operators have links with any coefficients, tables or full stencils, and all faces.

    Nodes in no group keep their values.
    """
    backend = make(dtype)
    grids = [*(grid_operator(shape, rules) for rules in FEW_RULES[len(shape)]), *PLACED[len(shape)]]
    for number, a in enumerate(grids):
        lattice, nodes = a.lattice, np.random.default_rng(number).permutation(a.lattice.nodes)[: a.lattice.nodes // FEW]
        clusters = Clusters(lattice, nodes.astype(np.int32), np.array([0, nodes.size]), np.ones(1))
        groups, full = backend.bind(clusters), stencil_on(lattice, np.float32, jump=4.0, holes=-0.8)
        there = backend.companion(np.float32).from_host(np.asarray(full.coefficients))
        u, f, before = (random_array(lattice.array_shape, dtype, seed) for seed in (1, 2, 3))
        kinds = [with_coefficients(backend, a, KINDS[each % len(KINDS)]) for each in (number, number + 2)]
        for subject in (*kinds, replace(full, coefficients=there)):
            operations, (v, source, r, wanted) = backend.bind(subject), map(backend.from_host, (u, f, before, before))
            for given in (source, None):
                operations.residual(v, given, wanted)
                groups.residual(operations, v, given, r)
                expected, found = before.copy(), backend.to_host(r)
                expected.flat[nodes] = backend.to_host(wanted).flat[nodes]
                np.testing.assert_allclose(found, expected, rtol=0, atol=64 * np.finfo(dtype).eps * abs(expected).max())
                away = np.isin(np.arange(lattice.nodes), nodes, invert=True).reshape(found.shape)
                assert np.array_equal(found[away], before[away])


@pytest.mark.parametrize("make", MAKES)
def test_residuals_at_the_nodes_of_many_groups_are_those_of_all_nodes(make: Any, dtype: Any) -> None:
    """On any backend, also where it has a way of its own for few."""
    backend, clusters = make(dtype), scattered((130, 140))
    u, f = (random_array(clusters.lattice.array_shape, dtype, seed) for seed in (1, 2))
    operations, (v, source, r, wanted) = backend.bind(Operator(clusters.lattice)), map(backend.from_host, (u, f, u, u))
    backend.bind(clusters).residual(operations, v, source, r)
    operations.residual(v, source, wanted)
    assert np.array_equal(*(backend.to_host(each).flat[clusters.nodes] for each in (r, wanted)))


@pytest.mark.parametrize(
    ("makes", "large"),
    [
        ([partial(emulated, order=order) for order in Order], (70, 130)),
        pytest.param([BACKENDS["gpu"]], (700, 1001), marks=pytest.mark.gpu),
    ],
)
def test_clusters_found_on_the_device_are_those_found_on_the_host(
    makes: list[Callable[[Any], Any]], large: tuple[int, ...]
) -> None:
    """Nodes and starts exactly, in which labels are those of the smallest nodes; on all faces, with large clusters.

    Large ones in every order of threads, and small grids in each in turn.
    """
    backends, host, largest = [make(np.float64) for make in makes], NumpyBackend(np.float64), 0
    grids = [*[(large, FEW_RULES[2][0])] * len(makes), *((shape, rules) for shape, few in SHAPES for rules in few)]
    grids.append(((9, 7), (*AXIS_RULES[3], *AXIS_RULES[4])))
    for backend, (shape, rules) in zip(itertools.cycle(backends), grids, strict=False):
        full = stencil_on(grid_operator(shape, rules).lattice, np.float32, jump=4.0, holes=-0.8)
        alone = np.array(full.coefficients)
        alone[0] = 0.0  # groups that nothing holds are left out
        scaled = replace(full, scales=tuple(3.0 ** (number % 3 - 1) for number in range(len(full.offsets))))
        few = along_axes(full)
        axes = replace(few, scales=tuple(100.0 ** (1 - number) for number in range(len(few.offsets))))
        for stencil in (full, few, replace(full, coefficients=alone), scaled, axes):
            there = backend.companion(np.float32).from_host(np.asarray(stencil.coefficients))
            operations = backend.bind(replace(stencil, coefficients=there))
            for asked in ((1e-4,), (0.05, 0.5), (0.3, 0.01), (1.0,))[:: 2 if stencil.scales else 1]:
                expected, found = host.bind(stencil).clusters(*asked), operations.clusters(*asked)
                assert np.array_equal(on_host(backend, found.nodes), expected.nodes)
                assert np.array_equal(on_host(backend, found.starts), expected.starts)
                np.testing.assert_allclose(on_host(backend, found.factors), expected.factors, rtol=1e-12)
                assert found.size == expected.size
                largest = max(largest, *np.diff(expected.starts), 0)
    assert largest > PIECE


@pytest.mark.parametrize("make", [emulated, pytest.param(BACKENDS["gpu"], marks=pytest.mark.gpu)])
@pytest.mark.parametrize("shape", [(41, 38), (7, 5, 6), (9, 11, 13)])
def test_medians_that_are_selected_are_those_of_sorted_links(
    make: Callable[[Any], Any], dtype: Any, shape: tuple[int, ...]
) -> None:
    """Exactly: the mean of the two in the middle, of values of any size, of some or of none, with one link or many."""
    backend, rng = make(dtype), np.random.default_rng(5)
    full = stencil_on(grid_operator(shape, FEW_RULES[len(shape)][0]).lattice, dtype, jump=4.0, holes=-0.8)
    given = np.asarray(full.coefficients)
    for stencil, scale in itertools.product(
        (full, along_axes(full)),
        (
            np.ones(given.shape),
            np.where(rng.random(given.shape) < 0.5, 1e12, 1e-12),
            np.exp(9.0 * rng.standard_normal(given.shape)),
            np.where(np.arange(given.size).reshape(given.shape) == given.size // 2, 1.0, -1.0),
            np.zeros(given.shape),
        ),
    ):
        coefficients = (np.asarray(stencil.coefficients) * scale[: 1 + len(stencil.offsets)]).astype(dtype)
        operations = backend.bind(replace(stencil, coefficients=backend.from_host(coefficients)))
        positive = []
        for axis in range(len(shape)):
            along = [number for number, offset in enumerate(stencil.offsets, start=1) if offset[axis]]
            sums = coefficients[along].astype(np.float64).sum(axis=0)
            positive.append(sums[sums > 0.0])
        medians = [float(np.median(each)) if each.size else 0.0 for each in positive]
        means = [float(np.exp(np.log(each).mean())) if each.size else 0.0 for each in positive]
        for axes in (range(len(shape)), (1,)):
            assert operations.median_links(axes) == [medians[axis] for axis in axes]
            assert operations.mean_links(axes) == pytest.approx([means[axis] for axis in axes], rel=1e-12)


@pytest.mark.parametrize("make", MAKES)
@pytest.mark.parametrize("dimension", [1, 2, 3])
def test_backends_write_the_stencil_that_numpy_writes(make: Any, dtype: Any, dimension: int) -> None:
    """On all faces, axes and coefficients, from either type to either."""
    backend, plain = make(dtype), NumpyBackend(dtype)
    sizes = {1: [(37,)], 2: [(7, 5), (37, 18)], 3: [(5, 4, 3), (27, 9, 18)]}[dimension]
    grids = [grid_operator(shape, rules) for shape in sizes for rules in FEW_RULES.get(dimension, AXIS_RULES)]
    grids += [a for a in PLACED[dimension] if not any(axis.halo != (0, 0) for axis in a.lattice.axes)]
    for number, a in enumerate(grids):
        for kind in KINDS if backend.on_host else (KINDS[number % len(KINDS)], "masked"):
            for other in (np.float64, np.float32):
                into = backend.companion(other)
                found = star(backend, with_coefficients(backend, a, kind), into)
                expected = star(plain, with_coefficients(plain, a, kind), NumpyBackend(other))
                assert found.offsets == expected.offsets
                values, wanted = into.to_host(found.coefficients), expected.coefficients
                assert values.dtype == wanted.dtype
                eps = np.finfo(dtype).eps + np.finfo(other).eps
                np.testing.assert_allclose(values, wanted, rtol=8 * eps, atol=0)


@pytest.mark.gpu
@pytest.mark.parametrize("shape", [(1030, 1022), (130, 102, 90)])
@pytest.mark.parametrize("name", [name for name in TABLE if ALL[name].subject is FullStencil])
def test_grids_that_fill_a_device(dtype: Any, name: str, shape: tuple[int, ...]) -> None:
    """A thread marches through several planes there, which it does not on the grids of the table's tests."""
    assert agree(BACKENDS["gpu"](dtype), grid_operator(shape, FEW_RULES[len(shape)][-1]), [name])


@pytest.mark.gpu
@pytest.mark.parametrize("shape", [(18, 17), (18, 17, 16)])
@pytest.mark.parametrize("rules", AXIS_RULES)
def test_transfers_between_faces_of_one_kind(dtype: Any, rules: tuple[Any, Any], shape: tuple[int, ...]) -> None:
    """With fixed faces alone a compiler made wrong weights of right sources, which no other faces showed."""
    names = [name for name in TABLE if ALL[name].subject is StencilTransfer]
    assert agree(BACKENDS["gpu"](dtype), grid_operator(shape, rules * len(shape)), names)
