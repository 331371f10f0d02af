# SPDX-License-Identifier: MIT
"""The graph of clusters and single nodes, and the cycle on it, compared with dense matrices."""

import itertools

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import sparse
from support.agreement import grid_operator
from support.full_stencils import stencil_on
from support.operators import random_array

from poisson.backends.numpy import NumpyBackend
from poisson.discrete.clusters import Clusters
from poisson.discrete.contracted import DENSE, Graph, GraphCycle, aggregates
from poisson.mesh.boundary import Rule

F, M, W = Rule.FIXED, Rule.MIRROR, Rule.WRAP


def matrix_of(cycle: GraphCycle) -> NDArray[np.float64]:
    """The cycle as a matrix, by what it makes of each unit vector."""
    lattice = grid_operator((cycle.levels[1], 3), (W,) * 4).lattice
    nodes, starts = np.arange(cycle.levels[1], dtype=np.int32), np.arange(cycle.levels[1] + 1)
    clusters = Clusters(lattice, nodes, starts, np.ones(nodes.size), cycle=cycle)
    operations, columns = NumpyBackend(np.float64).bind(clusters), []
    for r in np.eye(nodes.size):
        u = np.zeros(lattice.array_shape)
        operations.correct_clusters(np.stack([r, 0.0 * r, 0.0 * r]), u)
        columns.append(u[0])
    return np.stack(columns, axis=1)


def graph_of(nodes: int, jump: float, excess: float | NDArray[np.float64]) -> Graph:
    """Random links of 10^±jump on a square of nodes, and a hub that has a link to one node in four."""
    numbers = np.arange(nodes * nodes).reshape(nodes, nodes)
    pairs = [(numbers[1:], numbers[:-1]), (numbers[:, 1:], numbers[:, :-1]), (numbers[::2, ::2], 0 * numbers[::2, ::2])]
    one, other = (np.concatenate([pair[end].ravel() for pair in pairs]) for end in (0, 1))
    one, other = one[one != other], other[one != other]
    values = 10.0 ** (jump * random_array((one.size,), np.float64, 1))
    places = np.append(one, other), np.append(other, one)
    return Graph.of(*places, np.append(values, values), np.zeros(numbers.size) + excess)


def links_of(graph: Graph) -> NDArray[np.float64]:
    return sparse.csr_array((graph.links, graph.columns, graph.starts)).toarray()


def dense_of(graph: Graph) -> NDArray[np.float64]:
    links = links_of(graph)
    return np.diag(links.sum(axis=1) + graph.excess) - links


@pytest.mark.parametrize("excess", [1.0, 0.0])
def test_a_small_graph_is_solved_directly(excess: float) -> None:
    """With no excess by the pseudo-inverse of the matrix scaled to a diagonal of 1."""
    graph = graph_of(6, 1.0, excess)
    assert graph.excess.size <= DENSE
    dense, cycle = dense_of(graph), matrix_of(GraphCycle.of(graph))
    np.testing.assert_allclose(dense @ cycle @ dense, dense, rtol=0, atol=1e-5 * dense.max())


@pytest.mark.parametrize(("nodes", "least"), [(13, 0.25), (40, 0.2)])
def test_the_cycle_is_a_symmetric_part_of_the_inverse(nodes: int, least: float) -> None:
    """As any cycle with products as coarse operators, it takes from 0 to all of an error, and here at least so much."""
    graph = graph_of(nodes, 0.0, 1e-3)
    cycle = GraphCycle.of(graph)
    assert len(cycle.levels) - 1 >= 2
    found, dense = matrix_of(cycle), dense_of(graph)
    np.testing.assert_allclose(found, found.T, rtol=0, atol=1e-6 * np.abs(found).max())
    root = np.linalg.cholesky(dense)
    values = np.linalg.eigvalsh(root.T @ found @ root)
    assert least < values.min() < least + 0.01
    assert values.max() < 1.0 + 1e-4


def test_nodes_without_links_are_solved_by_a_sweep() -> None:
    """Aggregation joins none of them, alone or beside others, which then are few enough for a direct solution."""
    none, excess = np.zeros(0, dtype=int), np.arange(1.0, 2.0 * DENSE)
    alone = GraphCycle.of(Graph.of(none, none, np.zeros(0), excess))
    assert alone.levels == (0, excess.size) and alone.inverse is None
    np.testing.assert_allclose(matrix_of(alone), np.diag(1.0 / excess), rtol=1e-6, atol=1e-7)
    pair = np.array([0, 1])
    beside = GraphCycle.of(Graph.of(pair, pair[::-1], np.full(2, 5.0), excess))
    assert np.diff(beside.levels).tolist() == [excess.size, 1] and beside.inverse is not None
    np.testing.assert_allclose(matrix_of(beside)[2:, 2:], np.diag(1.0 / excess[2:]), rtol=1e-6, atol=1e-7)


def test_coarse_graphs_are_products_with_the_indicators_of_aggregates() -> None:
    """Tᵀ G T, whose excess is the sum of that of the members; each node has one aggregate, with few others."""
    excess = np.arange(1.0, 170.0)
    graph = graph_of(13, 1.0, excess)
    cycle = GraphCycle.of(graph)
    first, second = (slice(*ends) for ends in itertools.pairwise(cycle.levels[:3]))
    ends = cycle.groups[: second.stop - second.start + 1]
    assert np.array_equal(np.sort(cycle.members[: ends[-1]]), np.arange(169)) and np.diff(ends).min() >= 1
    tie = np.zeros((169, ends.size - 1))
    tie[cycle.members[: ends[-1]], np.repeat(np.arange(ends.size - 1), np.diff(ends))] = 1.0
    links = tie.T @ links_of(graph) @ tie
    np.fill_diagonal(links, 0.0)
    found = np.zeros_like(links)
    entries = slice(cycle.starts[second.start], cycle.starts[second.stop])
    rows = np.repeat(np.arange(ends.size - 1), np.diff(cycle.starts[second.start : second.stop + 1]))
    found[rows, cycle.columns[entries] - second.start] = cycle.links[entries]
    np.testing.assert_allclose(found, links, rtol=1e-6)
    np.testing.assert_allclose(cycle.excess[first], excess, rtol=1e-6)
    np.testing.assert_allclose(cycle.excess[second], tie.T @ excess, rtol=1e-6)
    np.testing.assert_allclose(cycle.sweeps[second], 4.0 / 3.0 / (2.0 * links.sum(axis=1) + tie.T @ excess), rtol=1e-6)


def test_aggregates_do_not_reach_over_weak_links() -> None:
    """A chain of pieces of five nodes, with links of 1, 10⁻² or 10⁻⁴ within; another node has weak links alone."""
    piece = np.arange(300) // 5
    links = np.where(piece[1:] == piece[:-1], 0.01 ** (piece[1:] % 3), 1e-6)
    here, there = np.append(np.arange(299), [0, 14]), np.append(np.arange(1, 300), [300, 300])
    entries = np.append(here, there), np.append(there, here), np.tile(np.append(links, [1e-7, 1e-7]), 2)
    found = aggregates(Graph.of(*entries, np.zeros(301)))
    sets = np.split(found.members, found.groups[1:-1])
    assert sum(map(len, sets)) == 301
    assert {len(np.unique(np.append(piece, 60)[members])) for members in sets} == {1}


@pytest.mark.parametrize("rules", [(F, F, M, M), (M, M, M, M)])
def test_a_correction_of_few_groups_solves_on_them(rules: tuple[Rule, ...]) -> None:
    """u + Z (Zᵀ V A Z)⁻¹ Zᵀ V r, with all free nodes that have an equation in Z."""
    stencil = stencil_on(grid_operator((6, 5), rules).lattice, jump=4.0)
    operations = NumpyBackend(np.float64).bind(stencil)
    groups = operations.contracted_clusters(0.01)
    assert 2 <= groups.count <= DENSE
    u, r = (random_array(stencil.array_shape, np.float64, seed) for seed in (1, 2))
    unknowns = np.zeros(stencil.array_shape, dtype=bool)
    unknowns[stencil.lattice.free] = True
    assert np.array_equal(np.sort(groups.nodes), np.flatnonzero(unknowns))
    z = np.zeros((u.size, groups.count))
    z[groups.nodes, np.repeat(np.arange(groups.count), np.diff(groups.starts))] = 1.0
    volumes = np.broadcast_to(stencil.lattice.volumes(), u.shape)

    def flows(column: NDArray[np.float64]) -> NDArray[np.float64]:
        out = np.empty_like(u)
        operations.residual(column.reshape(u.shape), None, out)
        return -(volumes * out).ravel()

    energies = z.T @ np.stack([flows(column) for column in z.T], axis=1)
    wanted = u.ravel() + z @ np.linalg.solve(energies, z.T @ (volumes * r).ravel())
    operations.backend.bind(groups).correct_clusters(r, u)
    np.testing.assert_allclose(u.ravel(), wanted, rtol=0, atol=1e-5 * np.abs(wanted).max())


def test_a_group_of_too_many_nodes_is_left_out() -> None:
    stencil = stencil_on(grid_operator((12, 11), (M,) * 4).lattice, jump=4.0)
    every, fewer = (NumpyBackend(np.float64).bind(stencil).contracted_clusters(0.05, part) for part in (1.0, 0.1))
    sizes = np.diff(every.starts)
    assert sizes.max() > 13
    assert np.array_equal(np.diff(fewer.starts), sizes[sizes <= 13])
