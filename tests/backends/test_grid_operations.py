# SPDX-License-Identifier: MIT
"""Operations between grids, on links and with dense matrices, on every backend against the specification.

Covers poisson.backends.gpu.grid_transfer.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from support.agreement import SHAPES, Results, agree, grid_operator, rules_for
from support.operators import random_array

from poisson.backends.base import Array, Backend
from poisson.backends.numpy import NumpyBackend
from poisson.discrete.operator import Operator
from poisson.discrete.transfer import Interpolation, Transfer
from poisson.mesh.boundary import Rule


def coarser(a: Operator, axes: tuple[int, ...] = (0, 1, 2)) -> Operator:
    """The operator on the grid with half the intervals along some axes, where there are enough; spacing is not used."""
    shape = []
    for axis, nodes in enumerate(a.shape):
        wraps = a.lattice.axes[axis].rules[0] is Rule.WRAP
        coarse = -(-nodes // 2) if wraps else -(-(nodes + 1) // 2)
        shape.append(coarse if axis in axes and coarse >= 3 else nodes)
    return Operator.uniform(tuple(shape), a.spacing, a.c, a.rules)


def positive(backend: Backend, a: Operator, seed: int) -> Array:
    return backend.from_host(10.0 ** random_array(a.array_shape, np.float64, seed))


def interpolations(backend: Backend, a: Operator, u: Array, f: Array) -> Results:
    """To a finer grid and to a coarser one, with the fixed nodes and without."""
    coarse = coarser(a)
    v = backend.from_host(random_array(coarse.array_shape, backend.dtype, 7))
    results = []
    for everywhere in (False, True):
        backend.bind(Interpolation(coarse, a, everywhere)).interpolate(v, u)
        results.append(backend.to_host(u))
        target = backend.from_host(random_array(coarse.array_shape, backend.dtype, 8))
        backend.bind(Interpolation(a, coarse, everywhere)).interpolate(f, target)
        results.append(backend.to_host(target))
    return results


def links(backend: Backend, a: Operator, u: Array, f: Array) -> Results:
    """links and coarsen_links along every axis, coarsened along all of the axes and along one."""
    nodes = positive(backend, a, 3)
    results = []
    for axis in range(sum(n > 1 for n in a.shape)):
        for harmonic in (True, False):
            backend.bind(a).links(axis, nodes, harmonic, u)
            results.append(backend.to_host(u))
        for coarse in (coarser(a), coarser(a, (axis,)), coarser(a, (0,))):
            out = backend.empty(coarse.array_shape)
            backend.bind(Transfer(a, coarse)).coarsen_links(axis, positive(backend, a, 4 + axis), out)
            results.append(backend.to_host(out))
    return results


@pytest.mark.parametrize("operations", [interpolations, links])
@pytest.mark.parametrize("dimension", [1, 2, 3])
def test_operations_between_grids_agree_with_the_specification(
    backend: Backend, dimension: int, operations: Callable[..., Results]
) -> None:
    faces = rules_for(backend, dimension)
    if operations is links and backend.name == "gpu":
        # A module for each axis and mean is compiled; all that these kernels ask of the faces is which axes wrap.
        faces = list({tuple(rule is Rule.WRAP for rule in rules): rules for rules in faces}.values())
    for number, rules in enumerate(faces):
        # Nor does any more than the faces and which axes halve decide what is compiled: half of the shapes with each.
        half = operations is interpolations and backend.name == "gpu"
        for shape in SHAPES[dimension][number % 2 :: 2] if half else SHAPES[dimension]:
            agree(backend, grid_operator(shape, rules), operations)


def test_interpolation_to_a_grid_of_half_the_spacing(backend: Backend) -> None:
    """With nodes far from the faces, and lines that lie on those of the coarser grid and between."""
    for shape in ((41, 9), (41, 9, 7)):
        rules = (Rule.FIXED, Rule.MIRROR, Rule.MIRROR, Rule.FIXED, Rule.MIRROR, Rule.MIRROR)[: 2 * len(shape)]
        agree(backend, grid_operator(shape, rules), interpolations)


@pytest.mark.parametrize("shape", [(37,), (7, 5), (24, 25), (9, 8, 7)])
def test_dense_is_the_product_of_a_matrix(backend: Backend, shape: tuple[int, ...]) -> None:
    a = grid_operator(shape, (Rule.FIXED,) * (2 * len(shape)))
    nodes = int(np.prod(shape))
    matrix = random_array((nodes, nodes), backend.dtype, 1)
    x = random_array(a.array_shape, backend.dtype, 2)
    y = backend.empty(a.array_shape)
    backend.dense(backend.from_host(matrix), backend.from_host(x), y)
    expected = (matrix.astype(np.float64) @ x.ravel()).reshape(x.shape)
    atol = 16 * np.sqrt(nodes) * float(np.finfo(backend.dtype).eps)
    np.testing.assert_allclose(backend.to_host(y), expected, rtol=0, atol=atol)


@pytest.mark.parametrize("rule", [Rule.FIXED, Rule.MIRROR, Rule.WRAP])
def test_links_keep_their_mean(rule: Rule) -> None:
    """In 1D the integral of a is the same on every grid, whatever its nodes."""
    numpy = NumpyBackend(np.float64)
    for nodes in (17, 20, 33):
        fine = grid_operator((nodes,), (rule, rule))
        a = 10.0 ** random_array(fine.array_shape, np.float64, nodes)
        coarse = coarser(fine)
        out = np.empty(coarse.array_shape)
        numpy.bind(Transfer(fine, coarse)).coarsen_links(0, a, out)
        unused = 0 if rule is Rule.WRAP else 1
        means = [np.mean(links[0, : links.size - unused]) for links in (a, out)]
        assert means[0] == pytest.approx(means[1], rel=1e-13)
