# SPDX-License-Identifier: MIT
"""Rows that the library computes together, and nodes whose entries of a table it takes together.

In 3D four planes lie together where none of them is on a face; in a transfer along x between grids that do not halve, a
line of nodes does. Lengths around those are compared with the specification.

Covers poisson.backends.openmp.operations and poisson.backends.openmp.tables.
"""

import itertools
from typing import Any

import numpy as np
import pytest
from conftest import BACKENDS
from support.agreement import agree
from support.operators import AXIS_RULES, name_of, operator, pairs_of_rules, random_array

from poisson import backends
from poisson.backends.numpy import NumpyBackend
from poisson.discrete.operator import Operator
from poisson.discrete.transfer import Interpolation, Transfer
from poisson.mesh.boundary import Rule

DTYPES = [np.float64, np.float32]
PASSES = ("residual", "defect", "sweep", "laplacian", "certify")


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("rules", pairs_of_rules(3), ids=name_of)
def test_planes_that_lie_together(rules: tuple[Rule, ...], dtype: Any) -> None:
    """Rows of less than a pack, of whole packs and of one more; one group of planes and two, and planes beside them."""
    backend = BACKENDS["openmp"](dtype)
    for number, nodes in enumerate((3, 4, 7, 8, 9, 15, 16, 17, 33)):
        for planes in (6 + number % 3, 10 + number % 4):
            agree(backend, operator((nodes, 3 + number % 2, planes), rules), PASSES)


@pytest.mark.parametrize("dtype", DTYPES)
def test_planes_of_more_memory_than_a_cache(dtype: Any) -> None:
    """`defect` goes around the cache from 8 MB of u on."""
    backend = backends.create("openmp", dtype, 2)
    for rules in pairs_of_rules(3)[::12]:
        agree(backend, operator((130, 128, 129), rules), ("defect", "certify"))


def below(a: Operator, nodes: int) -> Operator:
    """A grid on the same box with another number of nodes along x."""
    ends = 0 if a.lattice.axes[0].rules[0] is Rule.WRAP else 1
    spacing = (a.spacing[0] * (a.shape[0] - ends) / (nodes - ends), *a.spacing[1:])
    return Operator.uniform((nodes, *a.shape[1:]), spacing, a.c, a.rules)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("pair", AXIS_RULES, ids=name_of)
def test_lines_of_nodes_by_tables(pair: tuple[Rule, Rule], dtype: Any) -> None:
    """Restriction and both interpolations along x, where few nodes are left behind whole lines, and many."""
    backend, numpy = BACKENDS["openmp"](dtype), NumpyBackend(dtype)
    eps = float(np.finfo(dtype).eps)
    for nodes, others in itertools.product((48, 50, 62, 64, 66, 80, 96, 98, 100, 127, 200), AXIS_RULES[::2]):
        fine = operator((nodes, 5), (*pair, *others))
        for coarse in {-(-(nodes + 1) // 2), nodes // 2 + 1, nodes // 2 + 2} - {nodes // 2}:
            grids = (fine, below(fine, coarse))
            up, down = (random_array(a.array_shape, dtype, seed) for seed, a in enumerate(grids))
            for make, name, source, target in (
                (Transfer(*grids), "restrict", up, down),
                (Transfer(*grids), "prolong_add", down, up),
                (Interpolation(grids[1], grids[0]), "interpolate", down, up),
                (Interpolation(*grids), "interpolate", up, down),
            ):
                found, expected = backend.from_host(target), target.copy()
                getattr(backend.bind(make), name)(backend.from_host(source), found)
                getattr(numpy.bind(make), name)(source, expected)
                np.testing.assert_allclose(backend.to_host(found), expected, rtol=0, atol=32 * eps)
