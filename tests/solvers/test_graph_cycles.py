# SPDX-License-Identifier: MIT
"""Galerkin coarse grids with cycles on graphs: of groups together, and of the nodes of winding paths."""

import math

import numpy as np
import pytest
from support.composites import composite, operator_of, solved

from poisson import backends
from poisson.backends.numpy import NumpyBackend
from poisson.solvers.multigrid.galerkin import galerkin_levels


def test_large_groups_that_are_many_are_corrected_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clusters of spots on half of the nodes are, with the same bits at every run; the few clusters of blobs not."""
    library = backends.create("openmp", np.float64, 2)
    cases = [operator_of(composite(name, 257, 2, 1e6), backend=library) for name in ("spots 0.5", "blobs 0", "layers")]
    apart = [solved(operations).iterations for operations in cases]
    monkeypatch.setattr("poisson.solvers.multigrid.galerkin.LEAST_JOINT", 60_000)
    levels = [galerkin_levels(operations)[:-1] for operations in cases]
    joint = [[bool(level.clusters and level.clusters[0].clusters.cycle) for level in each] for each in levels]
    assert all(joint[0]) and not any(joint[1]) and not any(joint[2])
    together = [solved(operations) for operations in (*cases, cases[0])]
    assert [apart, [each.iterations for each in together]] == [[26, 15, 7], [29, 15, 7, 29]]
    assert together[0].history == together[3].history


@pytest.mark.parametrize(
    ("name", "nodes", "jump", "cycles", "alone", "count"),
    [
        ("spots 0.4", 41, 1e6, 1, 28, 15),
        ("spots 0.33", 41, 100.0, 0, 14, 14),
        ("spots 0.24", 41, 1e6, 2, 39, 22),
        ("phases 0.1", 41, 1e6, 2, 99, 25),
        ("spots 0.5", 41, 1e6, 0, 16, 16),
        ("checkers 2", 41, 1e6, 0, 8, 8),
        ("blobs 0", 41, 1e6, 0, 11, 11),
        ("spots 0.7", 129, 1e6, 2, 18, 13),
        ("phases 0.2", 129, 1e6, 2, 61, 19),
        ("checkers 3", 129, 1e6, 0, 8, 8),
        ("blobs 0", 129, 1e6, 0, 10, 10),
    ],
)
def test_paths_that_wind_and_groups_that_tangle_have_cycles_of_their_own(
    monkeypatch: pytest.MonkeyPatch, name: str, nodes: int, jump: float, cycles: int, alone: int, count: int
) -> None:
    """With the same bits at every run; thick or compact phases and small jumps take few iterations without."""
    library = backends.create("openmp", np.float64, 2)
    operations = operator_of(composite(name, nodes, 3 if nodes < 50 else 2, jump), backend=library)
    levels = galerkin_levels(operations)[:-1]
    assert [sum(bool(each.clusters.cycle) for each in level.clusters) for level in levels] == [
        cycles,
        *[0] * len(levels[1:]),
    ]
    found = [solved(operations) for _ in range(2)]
    assert found[0].history == found[1].history
    monkeypatch.setattr("poisson.solvers.multigrid.galerkin.CONTRAST", math.inf)
    assert [solved(operations).iterations, found[0].iterations] == [alone, count]


@pytest.mark.parametrize(
    ("name", "nodes", "spacing", "alone", "count"),
    [
        ("spots 0.6", 129, (1.0, 10.0), 99, 22),
        ("spots 0.6", 129, (3.0, 1.0), 99, 17),
        ("spots 0.5", 129, (1.0, 10.0), 99, 16),
        ("spots 0.33", 33, (1.0, 1.0, 2.0), 45, 15),
    ],
)
def test_groups_are_looked_for_as_if_spacings_were_equal(
    monkeypatch: pytest.MonkeyPatch, name: str, nodes: int, spacing: tuple[float, ...], alone: int, count: int
) -> None:
    """Links that the spacing alone makes weak join groups, too, and winding paths are found in them."""
    library = backends.create("openmp", np.float64, 1)
    operations = operator_of(composite(name, nodes, len(spacing), 1e6), spacing=spacing, backend=library)
    found = solved(operations).iterations
    monkeypatch.setattr("poisson.solvers.multigrid.galerkin.ALIKE", math.inf)
    assert [solved(operations).iterations, found] == [alone, count]


def test_grids_with_too_many_links_for_a_graph_have_none(monkeypatch: pytest.MonkeyPatch) -> None:
    operations = operator_of(composite("spots 0.24", 21, 3, 1e6), backend=backends.create("openmp", np.float64, 1))
    counts = []
    for most in (21**3, 21**3 - 1):
        monkeypatch.setattr("poisson.solvers.multigrid.galerkin.MOST_IN_GRAPH", most)
        counts.append(sum(bool(each.clusters.cycle) for each in galerkin_levels(operations)[0].clusters))
    assert counts == [2, 0]


def test_backends_find_the_same_winding_paths() -> None:
    a, found = composite("spots 0.33", 21, 3, 1e6), []
    for backend in (NumpyBackend(np.float64), backends.create("openmp", np.float64, 2)):
        operations = operator_of(a, backend=backend)
        graph = galerkin_levels(operations)[0].clusters[-1].clusters.cycle
        assert graph is not None
        found.append((graph.levels, solved(operations).iterations))
    assert found[0] == found[1]
