# SPDX-License-Identifier: MIT
"""Rows of a sparse matrix at a few nodes, where what is written is among what is read; others in test_agreement.py.

Covers poisson.backends.rows, poisson.backends.gpu.rows, poisson.backends.openmp.rows and poisson.discrete.sparse_rows.
"""

import numpy as np
import pytest
from support.agreement import rows_on
from support.operators import operator, random_array, rules_of

from poisson.backends.base import Backend


@pytest.mark.parametrize("shape", [(37, 18), (9, 8, 7)], ids=str)
def test_all_is_read_before_anything_is_written(backend: Backend, shape: tuple[int, ...]) -> None:
    lattice = operator(shape, rules_of(len(shape))[0]).lattice
    for rows in rows_on(lattice):
        x, u = (random_array(lattice.array_shape, backend.dtype, seed) for seed in (1, 2))
        matrix = np.zeros((rows.nodes.size, lattice.nodes))
        np.add.at(matrix, (np.repeat(np.arange(rows.nodes.size), np.diff(rows.starts)), rows.beside), rows.weights)
        expected = rows.own * x.ravel()[rows.nodes] + matrix @ u.ravel() + rows.constant
        for written in (x, u):
            arrays = [backend.from_host(values) for values in (x, u)]
            out = arrays[0 if written is x else 1]
            backend.bind(rows).replace_rows(*arrays, out)
            found = backend.to_host(out).ravel()
            unlike = np.setdiff1d(np.arange(lattice.nodes), rows.nodes)
            assert np.array_equal(found[unlike], written.ravel()[unlike])
            np.testing.assert_allclose(found[rows.nodes], expected, atol=16 * np.finfo(backend.dtype).eps)
