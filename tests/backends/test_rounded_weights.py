# SPDX-License-Identifier: MIT
"""Weights of the interpolation between grids in two bytes each, by the library.

Covers poisson.backends.openmp.stencils.
"""

import itertools
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from support.agreement import AXIS_RULES, SHAPES, grid_operator
from support.full_stencils import halvings, stencil_on
from support.operators import random_array

from poisson import backends
from poisson.backends.numpy import NumpyBackend
from poisson.discrete.full_stencil import StencilTransfer
from poisson.mesh.boundary import Rule

WHOLE = 32768
GRIDS = [
    (shape, (*AXIS_RULES[first], *AXIS_RULES[(first + 2) % 5], *AXIS_RULES[(first + 3) % 5])[: 2 * dimension])
    for dimension in (2, 3)
    for shape, first in itertools.product(SHAPES[dimension], range(5))
]
EXACT = NumpyBackend(np.float64)


def weights_of(shape: tuple[int, ...], rules: tuple[Rule, ...], halved: tuple[bool, ...]) -> StencilTransfer:
    stencil = stencil_on(grid_operator(shape, rules).lattice, jump=4.0, holes=-0.8, negative=-0.6)
    plain = StencilTransfer(stencil, halved)
    weights = EXACT.empty(plain.table.array_shape)
    EXACT.bind(plain).interpolation(weights, False)
    return replace(plain, weights=weights)


def rounded(transfer: StencilTransfer, threads: int) -> NDArray[np.uint16]:
    backend = backends.create("openmp", np.float64, threads)
    found = backend.bind(replace(transfer, fine=replace(transfer.fine, coefficients=None), weights=None)).rounded(
        backend.from_host(np.asarray(transfer.weights))
    )
    return backend.to_host(found)


def sums_of(transfer: StencilTransfer, weights: NDArray[Any]) -> NDArray[np.float64]:
    """The row sums of P."""
    ones, sums = np.ones(transfer.coarse.array_shape), np.zeros(transfer.fine.array_shape)
    EXACT.bind(replace(transfer, weights=weights)).prolong_add(ones, sums)
    return sums


@pytest.mark.parametrize(("shape", "rules"), GRIDS)
def test_weights_in_two_bytes_keep_their_sums(shape: tuple[int, ...], rules: tuple[Rule, ...]) -> None:
    """Each is the nearest multiple of 2⁻¹⁵, but for the largest of a node, which takes what the others leave."""
    for halved in halvings(grid_operator(shape, rules).lattice):
        transfer = weights_of(shape, rules, halved)
        exact, found = np.asarray(transfer.weights), rounded(transfer, 1)
        assert found.dtype == np.uint16 and np.array_equal(found, rounded(transfer, 3))
        away = found - WHOLE * exact
        assert np.abs(away).max() <= 0.5 * 2 ** sum(halved)
        assert np.count_nonzero(np.abs(away) > 0.5 + 1e-9) < 0.5 * np.count_nonzero(exact)
        sums = WHOLE * sums_of(transfer, exact)
        assert np.count_nonzero(np.abs(sums - WHOLE) < 1e-6) > 0
        # Halves are rounded up, and rounding of the sum may make one of what is next to it.
        assert np.abs(sums_of(transfer, found / WHOLE) * WHOLE - sums).max() <= 0.5 + 1e-6
        whole = np.abs(sums - WHOLE) < 1e-6
        assert np.all(sums_of(transfer, found / WHOLE)[whole] == 1.0)


@pytest.mark.parametrize(("shape", "rules"), GRIDS[::2])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_the_library_reads_weights_of_two_bytes(shape: tuple[int, ...], rules: tuple[Rule, ...], dtype: Any) -> None:
    """Restriction, interpolation and products with them are those of the specification with these multiples."""
    backend, eps = backends.create("openmp", dtype, 2), float(np.finfo(dtype).eps)
    for halved in halvings(grid_operator(shape, rules).lattice):
        transfer = weights_of(shape, rules, halved)
        exact = backend.companion(np.float64)
        fine = replace(transfer.fine, coefficients=exact.from_host(np.asarray(transfer.fine.coefficients)))
        parts: Any = exact.bind(replace(transfer, fine=fine, weights=None)).rounded(
            exact.from_host(np.asarray(transfer.weights))
        )
        ours = backend.bind(replace(transfer, fine=fine, weights=parts))
        theirs = NumpyBackend(dtype).bind(replace(transfer, weights=backend.to_host(parts) / WHOLE))
        coarse, down = (random_array(transfer.coarse.array_shape, dtype, seed) for seed in (1, 2))
        up, finer = (random_array(transfer.fine.array_shape, dtype, seed) for seed in (3, 4))
        found = [backend.from_host(each) for each in (down, up)]
        ours.restrict(backend.from_host(finer), found[0])
        ours.prolong_add(backend.from_host(coarse), found[1])
        theirs.restrict(finer, down)
        theirs.prolong_add(coarse, up)
        for one, other in zip(found, (down, up), strict=True):
            np.testing.assert_allclose(backend.to_host(one), other, rtol=0, atol=64 * eps * np.abs(other).max())
        product, wanted = exact.empty(transfer.product.array_shape), np.empty(transfer.product.array_shape)
        exact.bind(replace(transfer, fine=fine, weights=parts)).galerkin(product)
        EXACT.bind(replace(transfer, weights=backend.to_host(parts) / WHOLE)).galerkin(wanted)
        np.testing.assert_allclose(exact.to_host(product), wanted, rtol=0, atol=1e-12 * np.abs(wanted).max())
