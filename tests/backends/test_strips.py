# SPDX-License-Identifier: MIT
"""Clusters corrected together on processors: strips of rows, and groups that reach over several of them.

Covers poisson.backends.openmp.stencils.
"""

from typing import Any

import numpy as np
import pytest
from support.agreement import grid_operator
from support.full_stencils import stencil_on
from support.operators import random_array

from poisson import backends
from poisson.backends.numpy import NumpyBackend
from poisson.backends.openmp import stencils
from poisson.discrete.clusters import contracted_clusters
from poisson.errors import GridError
from poisson.mesh.boundary import Rule

F, M, W = Rule.FIXED, Rule.MIRROR, Rule.WRAP


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("rules", [(F, F, W, W), (W, W, F, M), (M, M, M, M)])
@pytest.mark.parametrize("rows", [1, 3, 8, 50])
def test_groups_across_strips_are_corrected_as_whole_ones(
    rows: int, rules: tuple[Rule, ...], dtype: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the specification does, with the same bits for every number of threads; of 41 rows and large groups."""
    monkeypatch.setattr(stencils, "STRIP", 70 * rows)
    stencil = stencil_on(grid_operator((70, 41), rules).lattice, jump=3.0, holes=-0.8)
    found = set()
    for threshold in (0.1, 0.4):
        clusters = contracted_clusters(stencil, np.asarray(stencil.coefficients), threshold, 0.5)
        assert threshold == 0.4 or np.diff(clusters.starts).max() > 100
        r, u = (random_array(stencil.array_shape, dtype, seed) for seed in (1, 2))
        wanted = u.copy()
        NumpyBackend(dtype).bind(clusters).correct_clusters(r, wanted)
        for threads in (1, 3):
            backend = backends.create("openmp", dtype, threads)
            out = backend.from_host(u)
            backend.bind(clusters).correct_clusters(backend.from_host(r), out)
            change = np.abs(wanted - u).max()
            room = 64 * np.finfo(dtype).eps * max(1.0, change)
            np.testing.assert_allclose(backend.to_host(out), wanted, rtol=0, atol=room)
            found.add((threshold, backend.to_host(out).tobytes()))
    assert len(found) == 2


def test_a_row_of_too_many_groups_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    stencil = stencil_on(grid_operator((257, 300), (F,) * 4).lattice)
    clusters = contracted_clusters(stencil, np.asarray(stencil.coefficients), 0.99)
    monkeypatch.setattr(stencils, "STRIP", 257 * 300)
    with pytest.raises(GridError, match="rows of fewer than 65536 nodes"):
        backends.create("openmp", np.float64).bind(clusters)
