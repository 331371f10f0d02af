# SPDX-License-Identifier: MIT
"""Full stencils and the transfers that follow them: the specification against sparse matrices that share no code.

Covers poisson.backends.numpy_stencils, poisson.discrete.full_stencil and poisson.discrete.clusters.
"""

import itertools
from collections.abc import Callable
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import sparse
from support.agreement import grid_operator, with_coefficients
from support.full_stencils import GRIDS, halvings, stencil_on
from support.operators import random_array

from poisson.backends.numpy import NumpyBackend
from poisson.backends.stencils import Waiting, in_turns, median_of_slabs
from poisson.discrete import reference
from poisson.discrete.full_stencil import FullStencil, StencilTransfer, offsets_of, star
from poisson.discrete.operator import Operator
from poisson.errors import GridError
from poisson.mesh.axis import Axis
from poisson.mesh.boundary import Kind, Rule
from poisson.mesh.lattice import Lattice
from poisson.mesh.placement import Nodes


def neighbour(lattice: Lattice, node: tuple[int, ...], offset: tuple[int, ...]) -> tuple[int, ...] | None:
    """The node in a direction, in the order of the axes."""
    there = [i + step for i, step in zip(node, offset, strict=True)]
    for axis, line in enumerate(lattice.axes):
        if line.rules[0] is Rule.WRAP:
            there[axis] %= line.nodes
        elif not 0 <= there[axis] < line.nodes:
            return None
    return tuple(there)


def number(lattice: Lattice, node: tuple[int, ...]) -> int:
    return int(np.ravel_multi_index(node[::-1], lattice.array_shape))


def matrix_of(stencil: FullStencil) -> Any:
    """V A, node by node."""
    lattice = stencil.lattice
    nodes = int(np.prod(lattice.shape))
    entries: list[tuple[float, int, int]] = []
    assert stencil.coefficients is not None
    values = stencil.coefficients.astype(np.float64)
    for node in itertools.product(*(range(count) for count in lattice.shape)):
        i = number(lattice, node)
        entries.append((values[(0, *node[::-1])], i, i))
        for slot, offset in enumerate(stencil.offsets, start=1):
            there, link = neighbour(lattice, node, offset), values[(slot, *node[::-1])]
            if there is None:
                continue
            j = number(lattice, there)
            entries += [(link, i, i), (-link, i, j), (link, j, j), (-link, j, i)]
    weights, rows, columns = zip(*entries, strict=True)
    return sparse.coo_matrix((weights, (rows, columns)), shape=(nodes, nodes)).tocsr()


def prolongation_of(transfer: StencilTransfer) -> Any:
    """P, coarse node by coarse node."""
    fine, coarse = transfer.fine.lattice, transfer.coarse.lattice
    p = sparse.lil_matrix((int(np.prod(fine.shape)), int(np.prod(coarse.shape))))
    assert transfer.weights is not None
    free = ~reference.fixed_nodes(Operator(coarse))
    for node in itertools.product(*(range(count) for count in coarse.shape)):
        if not free[node[::-1]]:
            continue
        here = tuple(i * (2 if halved else 1) for i, halved in zip(node, transfer.halved, strict=True))
        p[number(fine, here), number(coarse, node)] = 1.0
        for direction, weight in zip(transfer.directions, transfer.weights, strict=True):
            if weight[node[::-1]]:
                there = neighbour(fine, here, direction)
                assert there is not None
                p[number(fine, there), number(coarse, node)] += weight[node[::-1]]
    return p.tocsr()


def dendy(stencil: FullStencil, halved: tuple[bool, ...], spreads: bool) -> Any:
    """P by eliminating what lies between coarse nodes along more and more axes, as a sum of sparse products."""
    lattice = stencil.lattice
    coarse = StencilTransfer(stencil, halved).coarse.lattice
    fixed = reference.fixed_nodes(Operator(lattice)).ravel()
    a = matrix_of(stencil).toarray()
    p = np.zeros((a.shape[0], int(np.prod(coarse.shape))))
    nodes = [node[::-1] for node in np.ndindex(*lattice.array_shape)]
    between = {node: tuple(h and i % 2 == 1 for i, h in zip(node, halved, strict=True)) for node in nodes}
    for count in range(len(halved) + 1):
        for node in nodes:
            i = number(lattice, node)
            if sum(between[node]) != count or fixed[i]:
                continue
            if count == 0:
                place = tuple(k // 2 if h else k for k, h in zip(node, halved, strict=True))
                p[i, number(coarse, place)] = 1.0
                continue
            links, along, holding, taken = 0.0, 0.0, a[i].sum(), np.zeros(p.shape[1])
            for offset in (
                *offsets_of(lattice.dimension),
                *(tuple(-s for s in o) for o in offsets_of(lattice.dimension)),
            ):
                there = neighbour(lattice, node, offset)
                if there is None:
                    continue
                link = link_between(stencil, node, offset)
                if fixed[number(lattice, there)]:
                    holding += link
                    continue
                across = tuple(s if b else 0 for s, b in zip(offset, between[node], strict=True))
                if any(across):
                    links += abs(link)
                    near = neighbour(lattice, node, across)
                    assert near is not None
                    taken += abs(link) * p[number(lattice, near)]
                else:
                    along += abs(link)
            if links == 0.0:
                steps = itertools.product(*((-1, 1) if b else (0,) for b in between[node]))
                corners = [end for step in steps if (end := neighbour(lattice, node, step)) is not None]
                if spreads and not holding > 1e-3 * along:
                    p[i] = np.mean(
                        [p[number(lattice, end)] for end in corners if not fixed[number(lattice, end)]], axis=0
                    )
                continue
            p[i] = taken / (links + (holding if holding > 1e-3 * links else 0.0))
    return p


def link_between(stencil: FullStencil, node: tuple[int, ...], offset: tuple[int, ...]) -> float:
    assert stencil.coefficients is not None
    if offset in stencil.offsets:
        return float(stencil.coefficients[(1 + stencil.offsets.index(offset), *node[::-1])])
    there = neighbour(stencil.lattice, node, offset)
    opposite = tuple(-step for step in offset)
    if there is None or opposite not in stencil.offsets:
        return 0.0
    return float(stencil.coefficients[(1 + stencil.offsets.index(opposite), *there[::-1])])


def applied(stencil: FullStencil, dtype: Any = np.float64) -> tuple[Any, Any, Any, NDArray[Any], NDArray[np.bool_]]:
    """The operations, u, f, diag(A) and the nodes that are not fixed."""
    operations = NumpyBackend(dtype).bind(stencil)
    u, f = (random_array(stencil.array_shape, dtype, seed) for seed in (1, 2))
    diagonal = matrix_of(stencil).diagonal().reshape(u.shape) / stencil.lattice.volumes()
    return operations, u, f, diagonal, ~reference.fixed_nodes(Operator(stencil.lattice))


def residual(stencil: FullStencil, u: Any, f: Any) -> Any:
    au = (matrix_of(stencil) @ u.ravel().astype(np.float64)).reshape(u.shape) / stencil.lattice.volumes()
    return np.where(reference.fixed_nodes(Operator(stencil.lattice)), 0.0, f - au)


def require_the_same_residual(a: Operator, u: Any, f: Any) -> None:
    """An operator of links and its full stencil have the same residual."""
    backend, found, expected = NumpyBackend(np.float64), np.empty_like(u), np.empty_like(u)
    backend.bind(star(backend, a)).residual(u, f, found)
    backend.bind(a).residual(u, f, expected)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-13 * np.abs(expected).max())


GRID = pytest.mark.parametrize(("shape", "rules"), GRIDS)


@GRID
def test_an_operator_of_links_is_a_full_stencil(shape: tuple[int, ...], rules: tuple[Rule, ...]) -> None:
    backend = NumpyBackend(np.float64)
    for kind in ("none", "both"):
        a = with_coefficients(backend, grid_operator(shape, rules), kind)
        require_the_same_residual(a, *(random_array(a.array_shape, np.float64, seed) for seed in (1, 2)))


def test_a_stretched_axis_is_one_too() -> None:
    kinds = (Kind.ROBIN, Kind.DIRICHLET)
    stretched = Axis.placed(Nodes([0.0, 0.1, 0.3, 0.7, 0.9, 1.4], kinds, (0.7, 0.0)))
    lattice = Lattice((stretched, Axis.between(0.0, 1.0, 5, (Rule.MIRROR,) * 2)))
    a = with_coefficients(NumpyBackend(np.float64), Operator(lattice), "both")
    require_the_same_residual(a, *(random_array(a.array_shape, np.float64, seed) for seed in (1, 2)))


def test_nodes_of_a_mask_hold_their_neighbours() -> None:
    backend = NumpyBackend(np.float64)
    a = with_coefficients(backend, grid_operator((7, 6), (Rule.MIRROR, Rule.FIXED, Rule.WRAP, Rule.WRAP)), "both")
    assert a.coefficients is not None
    c = np.array(a.reaction)
    c[2:4, 1:3], c[0, 5] = -1.0, -1.0
    a = replace(a, coefficients=replace(a.coefficients, c=c, fixed=5))
    u, f = (np.where(c < 0, 0.0, random_array(a.array_shape, np.float64, seed)) for seed in (1, 2))
    require_the_same_residual(a, u, f)
    found = np.empty_like(u)
    backend.bind(star(backend, a)).diagonal_solve(f + 1.0, found, 1.0)
    assert np.array_equal(found == 0.0, (c < 0) | reference.fixed_nodes(a))


@GRID
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_operations_of_a_stencil(shape: tuple[int, ...], rules: tuple[Rule, ...], dtype: Any) -> None:
    stencil = stencil_on(grid_operator(shape, rules).lattice, dtype)
    operations, u, f, diagonal, free = applied(stencil, dtype)
    backend, out, q = NumpyBackend(dtype), np.empty_like(u), np.empty_like(u)
    volumes, result = np.broadcast_to(stencil.lattice.volumes(), u.shape), backend.reduction()

    def near(found: Any, wanted: Any) -> None:
        atol = 64 * np.finfo(dtype).eps * np.abs(wanted).max()
        np.testing.assert_allclose(found, wanted, rtol=0, atol=atol)

    r = residual(stencil, u, f)
    operations.residual(u, f, out, result)
    near(out, r)
    near(backend.read(result), [np.sum(r**2), np.abs(r).max()])
    operations.residual(u, None, out)
    near(out, residual(stencil, u, 0.0))
    operations.sweep(u, f, out, 0.7, result)
    near(out, u + 0.7 * r / diagonal)
    near(backend.read(result)[0], np.sum(r**2))
    operations.diagonal_solve(f, out, 0.7, result)
    z = np.where(free, 0.7 * f / diagonal, 0.0)
    near(out, z)
    near(backend.read(result)[0], np.sum(volumes * z * f))
    for beta in (0.0, 0.4):
        p = np.where(free, u + beta * f, 0.0)
        operations.direction(u, beta, f if beta else np.full_like(f, np.nan), out, q, result)
        near(out, p)
        near(q, -residual(stencil, p, 0.0))
        near(backend.read(result)[0], -np.sum(volumes * p * residual(stencil, p, 0.0)))
    if stencil.colored:
        v = u.copy()
        colors = sum(
            (1 << axis) * stencil.lattice.along(axis, np.arange(n) % 2) for axis, n in enumerate(u.shape[::-1])
        )
        for color in range(1 << u.ndim):
            v = np.where(colors == color, v + 0.9 * residual(stencil, v, f) / diagonal, v)
            operations.color_sweep(u, f, color, 0.9)
        near(u, v)


def test_float32_coefficients_keep_the_row_sums_of_large_jumps() -> None:
    """With c = 1 beside links of 10⁶ a constant has the residual f − 1 at every node, in either type."""
    lattice = grid_operator((9, 8), (Rule.MIRROR,) * 4).lattice
    stencil = stencil_on(lattice, np.float32, jump=6.0)
    assert stencil.coefficients is not None
    stencil.coefficients[0] = lattice.volumes()
    r = np.empty(lattice.array_shape)
    NumpyBackend(np.float64).bind(stencil).residual(np.ones_like(r), None, r)
    assert np.array_equal(r, np.full_like(r, -1.0))


@GRID
@pytest.mark.parametrize("kind", ["links", "full", "holes", "spreads"])
def test_weights_and_products_are_those_of_sparse_matrices(
    shape: tuple[int, ...], rules: tuple[Rule, ...], kind: str
) -> None:
    backend = NumpyBackend(np.float64)
    a = with_coefficients(backend, grid_operator(shape, rules), "both")
    spreads = kind == "spreads"
    holes = stencil_on(a.lattice, holes=0.3, negative=-0.6)
    if spreads and holes.coefficients is not None:
        holes.coefficients[0] *= random_array(a.array_shape, np.float64, 8) < 0.0
    stencil = {"links": star(backend, a), "full": stencil_on(a.lattice, negative=-0.6)}.get(kind, holes)
    for halved in halvings(a.lattice):
        plain = StencilTransfer(stencil, halved)
        weights, product = backend.empty(plain.table.array_shape), backend.empty(plain.product.array_shape)
        backend.bind(plain).interpolation(weights, spreads)
        transfer = replace(plain, weights=weights)
        p = prolongation_of(transfer)
        np.testing.assert_allclose(p.toarray(), dendy(stencil, halved, spreads), rtol=0, atol=1e-14)
        operations = backend.bind(transfer)
        operations.galerkin(product)
        found = matrix_of(replace(plain.coarse, coefficients=product))
        expected = plain.scale * p.T @ matrix_of(stencil) @ p
        atol = 1e-13 * abs(expected).max()
        np.testing.assert_allclose(found.toarray(), expected.toarray(), rtol=0, atol=atol)
        fine, coarse = random_array(a.array_shape, np.float64, 1), random_array(plain.coarse.array_shape, np.float64, 2)
        volumes = np.broadcast_to(a.lattice.volumes(), fine.shape), plain.coarse.lattice.volumes()
        r = np.full_like(coarse, np.nan)
        operations.restrict(fine, r)
        wanted = plain.scale * (p.T @ (volumes[0] * fine).ravel()).reshape(r.shape) / volumes[1]
        np.testing.assert_allclose(r, wanted, rtol=0, atol=1e-14)
        u = fine.copy()
        operations.prolong_add(coarse, u)
        np.testing.assert_allclose(u, fine + (p @ coarse.ravel()).reshape(u.shape), rtol=0, atol=1e-14)


def test_without_reaction_and_fixed_nodes_a_product_leaves_constants_alone() -> None:
    """Weights sum to 1 and the row sums of the product are 0 but for rounding, whatever the jumps."""
    backend = NumpyBackend(np.float64)
    stencil = stencil_on(grid_operator((8, 9), (Rule.WRAP, Rule.WRAP, Rule.MIRROR, Rule.MIRROR)).lattice, jump=5.0)
    assert stencil.coefficients is not None
    stencil.coefficients[0] = 0.0
    plain = StencilTransfer(stencil, (True, True))
    weights, product = backend.empty(plain.table.array_shape), backend.empty(plain.product.array_shape)
    backend.bind(plain).interpolation(weights, False)
    transfer = replace(plain, weights=weights)
    u = np.zeros(stencil.array_shape)
    backend.bind(transfer).prolong_add(np.ones(plain.coarse.array_shape), u)
    np.testing.assert_allclose(u, 1.0, rtol=0, atol=4e-16)
    backend.bind(transfer).galerkin(product)
    assert np.abs(product[0]).max() <= 1e-15 * np.abs(product[1:]).max()


@pytest.mark.parametrize("shape", [(8, 9), (6, 7, 8)])
def test_constants_pass_between_pores(shape: tuple[int, ...]) -> None:
    """Weights sum to 1 at every node beside holes, too, if they are spread, and the row sums of the product are 0."""
    backend = NumpyBackend(np.float64)
    rules = (Rule.WRAP, Rule.WRAP) * (len(shape) - 1) + (Rule.MIRROR, Rule.MIRROR)
    stencil = stencil_on(grid_operator(shape, rules).lattice, jump=3.0, holes=0.2)
    assert stencil.coefficients is not None
    stencil.coefficients[0] = 0.0
    plain = StencilTransfer(stencil, (True,) * len(shape))
    product, sums = backend.empty(plain.product.array_shape), {}
    for spreads in (False, True):
        weights, u = backend.empty(plain.table.array_shape), np.zeros(stencil.array_shape)
        backend.bind(plain).interpolation(weights, spreads)
        transfer = backend.bind(replace(plain, weights=weights))
        transfer.prolong_add(np.ones(plain.coarse.array_shape), u)
        transfer.galerkin(product)
        sums[spreads] = u, np.abs(product[0]).max() / np.abs(product[1:]).max()
    np.testing.assert_allclose(sums[True][0], 1.0, rtol=0, atol=4e-16)
    assert sums[True][1] <= 1e-15 < 1e-6 < sums[False][1]


def test_a_node_without_links_takes_from_nobody() -> None:
    backend = NumpyBackend(np.float64)
    stencil = stencil_on(grid_operator((7, 7), (Rule.MIRROR,) * 4).lattice)
    assert stencil.coefficients is not None
    for array in stencil.coefficients:
        array[2:5, 2:5] = 0.0
    plain = StencilTransfer(stencil, (True, True))
    weights = backend.empty(plain.table.array_shape)
    backend.bind(plain).interpolation(weights, False)
    assert np.all(np.isfinite(weights))
    p = prolongation_of(replace(plain, weights=weights)).toarray()
    assert not p[number(stencil.lattice, (3, 3))].any()
    u, r = (random_array(stencil.array_shape, np.float64, seed) for seed in (1, 2))
    out = np.empty_like(u)
    backend.bind(stencil).sweep(u, r, out, 1.0)
    assert np.all(np.isfinite(out)) and out[3, 3] == u[3, 3]


@GRID
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize(("threshold", "scaled"), [(0.05, False), (0.2, False), (0.1, True)])
def test_corrections_of_clusters_are_those_of_sparse_matrices(
    shape: tuple[int, ...], rules: tuple[Rule, ...], dtype: Any, threshold: float, scaled: bool
) -> None:
    """Groups found by relabelling until nothing changes, and Z (diag Zᵀ V A Z)⁻¹ Zᵀ V as a product of matrices.

    The diagonal has the excess of a group and its links to the rest, because Zᵀ V A Z itself would cancel. Scales make
    other groups, and the correction of a group is that of the same matrix.
    """
    stencil = stencil_on(grid_operator(shape, rules).lattice, dtype, jump=4.0)
    backend, a = NumpyBackend(dtype), matrix_of(stencil).toarray()
    compared = a
    if scaled:
        assert stencil.coefficients is not None
        scales = tuple(10.0 ** ((1 + number) % 3) for number in range(len(stencil.offsets)))
        factors = np.array([0.0, *scales]).reshape(-1, *(1,) * (stencil.coefficients.ndim - 1))
        compared = matrix_of(replace(stencil, coefficients=factors * stencil.coefficients.astype(np.float64))).toarray()
        stencil = replace(stencil, scales=scales)
    fixed = reference.fixed_nodes(Operator(stencil.lattice)).ravel()
    d = np.where(fixed | (compared.diagonal() == 0.0), np.inf, compared.diagonal())
    strong = -compared > threshold * np.sqrt(np.outer(d, d))
    label = np.arange(len(a))
    while True:
        least = np.minimum(label, np.where(strong, label, len(a)).min(axis=1))
        if np.array_equal(least, label):
            break
        label = least
    names = [name for name in np.unique(label) if np.sum(label == name) > 1]
    z = (label[:, None] == names).astype(np.float64)
    assert stencil.coefficients is not None
    held = z.T @ stencil.coefficients[0].astype(np.float64).ravel() - np.einsum("ik,ij,jk->k", z, a, 1.0 - z)
    kept = held > 1e-14 * (z.T @ compared.diagonal())
    z, held = z[:, kept], held[kept]
    clusters = backend.bind(stencil).clusters(threshold)
    assert clusters.count == z.shape[1] > 0
    sizes, part = z.sum(axis=0), (np.median(z.sum(axis=0)) + 0.5) / len(a)
    found_sizes = np.diff(backend.bind(stencil).clusters(threshold, part).starts)
    assert np.array_equal(found_sizes, sizes[sizes <= part * len(a)])
    u, r = (random_array(stencil.array_shape, dtype, seed) for seed in (1, 2))
    volumes = np.broadcast_to(stencil.lattice.volumes(), u.shape).ravel()
    wanted = 0.7 * z @ ((z.T @ (volumes * r.ravel())) / held)
    found = u.copy()
    backend.bind(clusters).correct_clusters(r, found)
    atol = 64 * np.finfo(dtype).eps * np.abs(wanted).max(initial=1.0)
    np.testing.assert_allclose(found.ravel(), u.ravel() + wanted, rtol=0, atol=atol)
    assert np.array_equal(found.ravel()[~z.any(axis=1)], u.ravel()[~z.any(axis=1)])


def test_what_waits_in_turns_asks_for_all_before_it_waits() -> None:
    """One that waits for nothing ends before the next one begins."""
    told: list[str] = []

    def waiting(name: str, times: int) -> Waiting[list[str]]:
        given = []
        for number in range(times):
            told.append(f"{name} asks")
            given.append((yield lambda number=number: told.append(f"{name} waits") or f"{name}{number}"))
        told.append(f"{name} ends")
        return given

    found = in_turns([waiting("a", 0), waiting("b", 2), waiting("c", 1)])
    assert found == [[], ["b0", "b1"], ["c0"]] and in_turns([]) == []
    assert told == ["a ends", "b asks", "c asks", "b waits", "c waits", "b asks", "c ends", "b waits", "b ends"]


def test_groups_that_nothing_holds_get_no_correction() -> None:
    """A box of strong links has one; without excess and links to the rest none, nor has a whole singular problem."""
    stencil = stencil_on(grid_operator((9, 8), (Rule.MIRROR,) * 4).lattice)
    assert stencil.coefficients is not None
    stencil.coefficients[...] = 0.0
    stencil.coefficients[1, 2:4, 2:4] = 7.0
    operations = NumpyBackend(np.float64).bind(stencil)
    assert operations.clusters(0.1).count == 0
    stencil.coefficients[0, 2, 2] = 0.5
    found = operations.clusters(0.1)
    assert list(found.nodes) == [20, 21, 22] and list(found.starts) == [0, 3] and list(found.factors) == [1.4]
    stencil.coefficients[0] = 0.0
    stencil.coefficients[1:] = stencil_on(stencil.lattice).coefficients[1:]
    assert operations.clusters(0.01).count == 0


def test_links_that_no_product_has_are_not_stored() -> None:
    cube = FullStencil(grid_operator((9, 9, 9), (Rule.FIXED,) * 6).lattice, ((1, 0, 0), (0, 1, 0), (0, 0, 1)))
    counts = [StencilTransfer(cube, halved).product.count
              for halved in ((True, False, False), (True, True, False), (True, True, True))]  # fmt: skip
    assert counts == [8, 14, 14]
    assert [StencilTransfer(cube, (True,) * n + (False,) * (3 - n)).table.count for n in (1, 2, 3)] == [2, 8, 26]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda lattice: FullStencil(lattice, ((-1, 0),)), "are not some of"),
        (lambda lattice: FullStencil(lattice, ((0, 1), (1, 0))), "in their order"),
        (lambda lattice: FullStencil(Lattice((lattice.axes[0], Axis.single())), ((1, 1),)), "no neighbour"),
        (
            lambda lattice: NumpyBackend(np.float64).bind(FullStencil(lattice.part(1, 1, 4, 1), ((1, 0),))),
            "take `detached`",
        ),
        (
            lambda lattice: FullStencil(Lattice((Axis(1 << 16, 1.0, lattice.axes[0].rules),) * 2), ((1, 0),)),
            r"fewer than 2\^31 nodes",
        ),
        (lambda lattice: StencilTransfer(FullStencil(lattice, ((1, 0),)), (False, False)), "no axis is halved"),
        (lambda lattice: StencilTransfer(FullStencil(lattice, ((1, 0),)), (False, True)), "no free node"),
    ],
)
def test_refusals(make: Callable[[Lattice], Any], message: str) -> None:
    lattice = grid_operator((7, 3 if "free" in message else 6), (Rule.FIXED,) * 4).lattice
    with pytest.raises(ValueError, match=message):
        make(lattice)


def test_another_backend_says_that_it_has_none() -> None:
    class Other(NumpyBackend):
        name, any_axis = "other", False
        bound = MappingProxyType({Operator: NumpyBackend.bound[Operator]})

    stencil = stencil_on(grid_operator((7, 6), (Rule.FIXED,) * 4).lattice)
    for subject in (stencil, NumpyBackend(np.float64).bind(stencil).clusters(0.1)):
        with pytest.raises(
            GridError, match=r"the other backend has no stencils of 9 and 27 points yet: use run.backend"
        ):
            Other(np.float64).bind(subject)


@pytest.mark.parametrize("planes", [40, 41])
@pytest.mark.parametrize("kind", ["one", "two", "few", "random", "ascending", "none"])
def test_medians_of_slabs(kind: str, planes: int) -> None:
    """A sample of planes says where the median lies; where values ascend it may be unlike the rest."""
    rng, shape = np.random.default_rng(5), (planes, 50, 70)
    fields = {
        "one": np.ones(shape),
        "two": np.where(rng.random(shape) < 0.5, 1e6, 1.0),
        "few": np.where(rng.random(shape) < 0.999, -1.0, rng.random(shape)),
        "random": np.exp(4.0 * rng.standard_normal(shape)),
        "ascending": np.where(np.arange(planes) % 3 == 0, 7.0, np.arange(planes))[:, None, None] * np.ones(shape),
        "none": np.zeros(shape),
    }
    positive = [plane[plane > 0.0] for plane in fields[kind]]
    every = np.concatenate(positive)
    found = median_of_slabs(lambda start, stop: np.concatenate(positive[start:stop]), shape, 2)
    assert found == (np.median(every) if every.size else 0.0)
