# SPDX-License-Identifier: MIT
"""The grids of multigrid for coefficients of any kind: Galerkin stencils, and interpolation that follows the operator.

The finest level keeps its operator of links. An axis is halved where its links are strong beside the others' (semi-
coarsening); P balances the stencil of each node (J. E. Dendy), and the coarse operator is the product R A P. The groups
of nodes that strong links join at each of `THRESHOLDS` have a correction of their own (`poisson.discrete.clusters`).

References
----------
J. E. Dendy, Black box multigrid, Journal of Computational Physics 48, 1982.
P. M. de Zeeuw, Matrix-dependent prolongations and restrictions in a blackbox multigrid solver, Journal of Computational
and Applied Mathematics 33, 1990.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from poisson.backends.stencils import in_turns
from poisson.discrete.full_stencil import FullStencil, StencilTransfer, star
from poisson.solvers.multigrid.hierarchy import LARGEST, MOST_NODES_DENSE, Level
from poisson.solvers.spectrum import chebyshev_omegas, fill_free, rough_values

if TYPE_CHECKING:
    from poisson.backends.base import Array, Backend, Operations
    from poisson.backends.stencils import ClusterOperations, StencilOperations, Waiting
    from poisson.discrete.clusters import Clusters

Values = NDArray[np.float64]

THRESHOLDS = {2: (0.05, 0.15, 0.35), 3: (0.15, 0.35)}
"""By dimension: a link is strong above this part of the geometric mean of the diagonals that it joins. For jumps of one
size one of them does; where a has values of every size several do, from weak to strong and back. In 3D, where a group
that spans the grid leaves more ways around it, 0.05 saves no iteration at 65³, ..."""

UNEVEN, BELOW = 2.0, (0.01, 0.05)
"""... unless links along one axis, which make the diagonal large, are so many times stronger than others: then these
thresholds too, below which spots of 10⁶ take 25 iterations instead of more than 99 (33³, spacings 1, 1 and 10)."""

ALIKE = 1.2
"""Where links along one axis are so many times stronger than along another, those groups have corrections, too, that
strong links would join if spacings were equal, at all thresholds but the largest: with spacings 1 and 10 spots on half
of 129² nodes take 55 iterations instead of 185, and on 10% of 65³ 24 instead of 72."""

LARGEST_PART = 0.1
"""A group of more than this part of all nodes gets no correction: coarse grids see its constant, and it would take the
memory of a whole grid, and a pass over it each time."""

LARGE = 100
"""Where in 2D the groups of the weakest links on the finest grid have so many nodes, for the mean of their nodes, one
phase nearly percolates, and each coarse grid has a part of the trouble again. Two visits from the next finer one help
(in 3D they save at most one of ten iterations, each of which takes a sixth longer), ..."""

PAYS, LEAST_TWICE = 500_000, {True: 16_000, False: 60_000}
"""... which pays where the finest grid has more nodes than the first number, on grids of more than the second: that of
a host, or of a device, where a small grid takes the time of its launches."""

MANY, COVERED, LEAST_JOINT = 0.02, 0.8, 100_000
"""Where there are so many of these groups for each node, with so large a part of the nodes, on a grid of more nodes
than that, in 2D, all of them and the single nodes between them have one correction together
(`poisson.discrete.contracted`), on each grid, in place of all others."""

MOST_IN_ROW = 65_000
"""More nodes in a row might have more groups than the numbers of two bytes that a backend keeps for them."""

MOST_IN_GRAPH = 350_000_000
"""Graphs have four bytes for the place of a link, of which a node has six in 3D."""

WINDING, FEWEST, CONTRAST, PART, MEAN, BESIDE = {2: 0.24, 3: 0.2}, 30, 9999.0, (0.1, 0.7), 300, (4.6, 2.6)
"""Where, in a medium of such a contrast, the groups at the first threshold, by dimension, that have so many nodes or
more have a part of all nodes between these two, are so large, for the mean of their nodes, and so thin that these have
fewer neighbours of theirs than the last number, one phase percolates along winding paths, which no coarse grid sees.
Then their nodes have a cycle of their own on the finest grid: spots of 10⁶ on 31% of 129³ nodes take 48 iterations
instead of 282, on 59% of 1025² 51 instead of 143. Thicker phases take few iterations without it."""

TANGLED, SPANS = {2: 0.05, 3: 0.031}, 0.05
"""Where, in such a medium, there are so many groups for each node, by dimension, and large ones have so large a part of
all nodes, groups are next to each other everywhere. On the finest grid all at the threshold of winding paths and the
single nodes between them then have one correction together, and the nodes of large groups have their cycle. Spots of
10⁶ on 24% of 129³ nodes take 34 iterations with these alone instead of 107 with a correction for each group. Where
spacings differ, the other corrections are needed beside them. On a device the graph of all of them, of which some have
thousands of links, takes more time than it saves."""

ROUNDED = 1e8
"""Weights may be rounded up to jumps of this size: with 1e9 and 1e12 that took a fifth more iterations and twice as
many."""

WEAK = 4.0
"""An axis keeps its nodes where its median link is so many times weaker than that of the strongest axis, and so is the
geometric mean. Each alone misleads: a mean where few links are strong, a median where half of them are."""

SMOOTHED = 0.25
"""The part of the spectrum of D⁻¹A, from its end down, below which the coarse grid takes over."""

STEPS, SWEEPS, BEYOND = 8, 8, 1.1
"""The largest eigenvalue is what that many steps of the power method say, times the last number, or what they say after
so many sweeps that amplify nothing below it. A few nodes between millions, whose part in rough values is small, may
have an eigenvalue of their own: of two phases of 1 and 1000 on 256³ nodes 3.9 beside 2 of all others."""

SINGULAR = 1e-13
"""A pivot below this part of its diagonal is rounding."""


def galerkin_levels(operations: Operations, before: Sequence[Level] = ()) -> tuple[Level, ...]:
    """The levels from the finest, that of `operations` themselves, to one that is solved directly.

    `before` are levels of other coefficients; where their grids are the same, the new levels take over their arrays.
    """
    backend = operations.backend
    store, thresholds = _store(operations), THRESHOLDS[max(2, operations.operator.dimension)]
    couplings = [coupling for coupling in operations.operator.couplings if coupling > 0.0]
    alike = thresholds[:-1]
    if len(couplings) == 3 and max(couplings) > UNEVEN * min(couplings):
        thresholds = BELOW + thresholds
    stencil = star(backend, operations.operator, store)
    scales = tuple(max(couplings) / operations.operator.couplings[offset.index(1)] for offset in stencil.offsets)
    coefficients = operations.operator.coefficients
    least, most = coefficients.a_range if coefficients else (1.0, 1.0)
    rounds, spreads = most <= ROUNDED * least, _insulates(operations)
    prepared = backend.prepared(("galerkin", stencil.lattice.rules, stencil.array_shape, store.dtype, len(thresholds)))
    grids: list[tuple[StencilOperations, StencilTransfer]] = []
    while True:
        full = backend.bind(stencil)
        prepares = not prepared and len(grids) < 2  # the grids below need no other kernels
        if prepares:
            backend.prepare(partial(full.median_links, (0,)), partial(full.clusters_at, thresholds))
        halved = halved_axes(full)
        if not any(halved):
            break
        plain = StencilTransfer(stencil, halved, gathers=backend.gathers(stencil.lattice, halved))
        arrays = _arrays(before, len(grids), plain)
        transfer, product = _coarsened(
            backend, store, plain, *arrays, rounds=rounds, spreads=spreads, prepares=prepares
        )
        grids.append((full, transfer))
        stencil = replace(transfer.coarse, coefficients=product)
    large = joint = tangled = False
    finest_lattice = operations.operator.lattice
    whole = not finest_lattice.divided and finest_lattice.shape[0] <= MOST_IN_ROW
    whole = whole and finest_lattice.nodes <= MOST_IN_GRAPH
    able = whole and finest_lattice.dimension == 2 and finest_lattice.whole.nodes > LEAST_JOINT
    contrasts = whole and finest_lattice.dimension in WINDING and most >= CONTRAST * least

    def groups(full: StencilOperations, finest: bool) -> Waiting[tuple[ClusterOperations, ...]]:
        """The corrections of strong clusters of a level; those of the finest say how others are found."""
        nonlocal large, joint, tangled
        dimension, nodes = full.stencil.dimension, full.stencil.lattice.whole.nodes
        winds, tangles = finest and contrasts, False
        scaled, fewest = finest and max(scales, default=1.0) > ALIKE, FEWEST if winds else 0
        even = backend.bind(replace(full.stencil, scales=scales)) if scaled else full
        # A device finds groups at all thresholds in little more than the time of one.
        asked = thresholds[:1] if able and finest and backend.on_host else thresholds
        found: list[Clusters] = []
        if not (joint or tangled):
            found = yield from full.search(asked, LARGEST_PART, 0 if scaled else fewest)
        among = (yield from even.search(alike, LARGEST_PART, fewest)) if scaled else found
        if scaled:
            found += among
        if finest:
            count, members, squares = among[0].size
            large = dimension == 2 and squares > LARGE * members
            many = count > MANY * nodes and members > COVERED * nodes
            joint = able and large and many
            tangles = winds and backend.on_host and not joint and _tangle(among[0])
            tangled = tangles and not scaled
            large = large and nodes > PAYS and not (joint or tangled)
        thin = _winding(full, even, among[0], tangles) if winds else None
        if joint:
            found = [even.contracted_clusters(thresholds[0], LARGEST_PART)]
        elif asked != thresholds and not tangled:
            found += full.clusters_at(thresholds[len(asked) :], LARGEST_PART)
        if tangles:
            every = full.contracted_clusters(WINDING[dimension], LARGEST_PART)
            found = [*found, every] if scaled else [every]
        # Groups at a higher threshold are parts of those at a lower one: as many, of as many nodes, are the same.
        # Groups as if spacings were equal that have the three sizes of others are taken for these without a comparison.
        different = {each.size: each for each in found if each.size[0]}
        return tuple(backend.bind(each) for each in (*different.values(), *([thin] if thin else [])))

    # All of these wait for a device several times, and do so together.
    corrections = [groups(full, number == 0) for number, (full, _) in enumerate(grids)]
    powers = [_power_method(full, not prepared and number < 2) for number, (full, _) in enumerate(grids[1:], start=1)]
    # Those of the finest come first where they may say that others have theirs together.
    first: list[Any] = in_turns(corrections[:1] if able or (contrasts and backend.on_host) else [])
    found = [*first, *in_turns([*corrections[len(first) :], *powers])]
    clusters, largest = found[: len(grids)], [LARGEST, *found[len(grids) :]]
    levels: list[Level] = []
    for number, (fine, transfer) in enumerate(grids):
        # The finest stencil is not kept.
        kept = transfer if number else replace(transfer, fine=replace(transfer.fine, coefficients=None))
        bound: Any = fine if number else operations
        between: Any = backend.bind(kept)
        twice = large and number > 0 and transfer.coarse.lattice.whole.nodes > LEAST_TWICE[backend.on_host]
        ends = SMOOTHED * largest[number], largest[number]
        levels.append(Level(bound, between, ends[0], largest=ends[1], clusters=clusters[number], twice=twice))
    bound = full if grids else operations
    levels.append(Level(bound, None, LARGEST, clusters=()))
    return tuple(levels)


def _tangle(found: Clusters) -> bool:
    """Whether groups at the weakest threshold are many, and next to each other."""
    assert found.large is not None
    nodes = found.lattice.nodes
    return found.size[0] > TANGLED[found.lattice.dimension] * nodes and found.large[0] > SPANS * nodes


def _winding(operations: StencilOperations, even: StencilOperations, found: Clusters, tangles: bool) -> Clusters | None:
    """The nodes of large groups with a cycle for their graph, where they are many and wind through the grid.

    `even`: the operations with scales for links, if any. `found`: their groups at the weakest threshold, with others
    between them, which nearly always tell that it is not so. `tangles`: whether they have it in any case.
    """

    def winding(groups: Clusters, most: float) -> bool:
        assert groups.large is not None
        (members, squares, beside), nodes = groups.large, groups.lattice.nodes
        many = PART[0] * nodes < members < PART[1] * nodes
        return many and squares > MEAN * members and beside < most * members

    among, alone = BESIDE
    if not (tangles or winding(found, among)):
        return None
    groups = even.clusters_at((WINDING[operations.stencil.dimension],), 1.0, FEWEST)[0]
    assert groups.large is not None
    chosen = groups.large[0] if tangles else winding(groups, alone)
    return operations.apart_together(groups, FEWEST) if chosen else None


def refresh_galerkin(levels: Sequence[Level]) -> bool:
    """Give levels what follows from other coefficients of the finest, in the same arrays.

    Returns whether the grids are those that `galerkin_levels` would make; otherwise the levels have no meaning.
    """
    made = galerkin_levels(levels[0].operations, levels)
    if [level.operator.array_shape for level in made] != [level.operator.array_shape for level in levels]:
        return False
    for level, new in zip(levels, made, strict=True):
        level.operations, level.transfer, level.lowest = new.operations, new.transfer, new.lowest
        level.largest, level.clusters, level.twice = new.largest, new.clusters, new.twice
    return True


def halved_axes(operations: StencilOperations) -> tuple[bool, ...]:
    """Along which axes a level is halved: where the typical link is next to the strongest; none if solved directly."""
    whole = operations.stencil.lattice.whole
    if whole.nodes <= MOST_NODES_DENSE and not operations.stencil.lattice.divided:
        return (False,) * whole.dimension
    able = tuple(line.nodes >= (4 if line.fixed == 2 else 3) for line in whole.axes)
    halved = (False,) * whole.dimension
    axes = [axis for axis, each in enumerate(able) if each]
    for typical in (operations.median_links, operations.mean_links):
        if halved != able:
            links = dict(zip(axes, typical(axes), strict=True))
            strong = {axis for axis, link in links.items() if WEAK * link >= max(links.values())}
            halved = tuple(before or axis in strong for axis, before in enumerate(halved))
    return halved


def largest_eigenvalue(operations: StencilOperations) -> float:
    """A bound on the eigenvalues of D⁻¹A, nearly always, by the power method.

    Sizes are those in the inner product of V D, in which D⁻¹A is self-adjoint: they grow from step to step by no more
    than the largest eigenvalue, and a node whose diagonal is next to nothing has no part in them. Sweeps whose product
    is the Chebyshev polynomial on [0, b] multiply the part of a mode above 1.25 b by 1,100 and that of any below b by
    less than 1.
    """
    return in_turns([_power_method(operations, prepares=True)])[0]


def _power_method(operations: StencilOperations, prepares: bool) -> Waiting[float]:
    backend, stencil = operations.backend, operations.stencil
    v, r = rough_values(backend, stencil.lattice), backend.empty(stencil.array_shape)
    if prepares:
        backend.prepare(
            partial(operations.residual, v, None, r),
            partial(operations.diagonal_solve, r, v, -1.0),
            partial(operations.sweep, v, None, r, 1.0),
            partial(operations.dot, v, r, backend.reduction()),
        )
    bound = BEYOND * (yield from _growth(operations, v, r, STEPS))
    if bound == 0.0:
        return LARGEST
    for omega in chebyshev_omegas(0.0, bound, SWEEPS):
        operations.sweep(v, None, r, omega)
        v, r = r, v
    return max(bound, (yield from _growth(operations, v, r, 2)))


def _growth(operations: StencilOperations, v: Array, r: Array, steps: int) -> Waiting[float]:
    """By how many times the last of some steps of the power method makes v larger; 0 if nothing of v is left."""
    backend = operations.backend
    places = [backend.reduction() for _ in range(2)]
    for step in range(steps):
        operations.residual(v, None, r)
        operations.diagonal_solve(r, v, -1.0)
        if step >= steps - 2:
            operations.dot(v, r, places[step - steps])
    sizes = [-size for size, _ in (yield partial(backend.read_all, places))]
    return math.sqrt(sizes[1] / sizes[0]) if sizes[0] > 0.0 else 0.0


def galerkin_inverse(operations: Operations, singular: bool) -> Values:
    """A⁻¹ on all nodes in C order, with zero rows and columns for nodes that are fixed or have no equation.

    As far as links are positive, the inverse is made of sums of positive numbers, and keeps its digits whatever the
    jumps are (W. K. Grassmann, M. I. Taksar, D. P. Heyman, Operations Research 33, 1985). On groups of nodes that
    nothing holds the result is the pseudo-inverse.
    """
    backend = operations.backend
    operator: Any = operations.operator
    stencil = operator if isinstance(operator, FullStencil) else star(backend, operator)
    values = backend.to_host(stencil.coefficients).astype(np.float64)
    free = np.zeros(stencil.array_shape, dtype=bool)
    free[stencil.lattice.free] = True
    links, excess = _dense(stencil, values), values[0].ravel().copy()
    total = excess + links.sum(axis=1)
    # Products of links that are 0, and sums of rows that are 0, leave rounding at nodes beside others with large links.
    rounding = SINGULAR * np.maximum(np.where(links != 0.0, total, 0.0).max(axis=1), total)
    kept = free.ravel() & (total > rounding)
    if singular:
        excess[np.abs(excess) <= rounding] = 0.0
    excess = (excess + links[:, ~free.ravel()].sum(axis=1))[kept]
    links = links[np.ix_(kept, kept)]
    found, nulls = _inverse(links, excess, excess + links.sum(axis=1))
    volumes = np.broadcast_to(stencil.lattice.volumes(), free.shape).ravel()[kept]
    for null in nulls:
        weights = volumes * null
        found -= np.outer(null, weights @ found) / weights.sum()
        found -= np.outer(found @ weights, null) / weights.sum()
    result = np.zeros((free.size, free.size))
    result[np.ix_(kept, kept)] = found * volumes
    return result


def _inverse(links: Values, excess: Values, diagonal: Values) -> tuple[Values, list[Values]]:
    """The inverse of diag(excess + the sums of the links) − links, and the groups of nodes that nothing holds.

    Nothing is subtracted: the first half of the nodes is eliminated, whose inverse is positive, and with it the second
    half has positive links and excess again. `diagonal`: that of the whole matrix, with which pivots are compared. The
    last node of a group that nothing holds has no pivot, and a zero row and column. A group is 1 at its nodes.
    """
    if len(excess) < 2:
        held = excess > SINGULAR * diagonal
        return (1.0 / excess[None], []) if held.all() else (np.zeros((1, 1)), [np.ones(1)])
    first, second = slice(len(excess) // 2), slice(len(excess) // 2, None)
    between, whole = links[second, first], np.empty_like(links)
    inverse, nulls = _inverse(links[first, first], excess[first] + between.sum(axis=0), diagonal[first])
    through = between @ inverse
    others = links[second, second] + through @ between.T
    others.flat[:: len(others) + 1] = 0.0
    rest, beyond = _inverse(others, excess[second] + through @ excess[first], diagonal[second])
    corner = rest @ through
    whole[first, first], whole[first, second] = inverse + through.T @ corner, corner.T
    whole[second, first], whole[second, second] = corner, rest
    nulls = [np.append(null, np.zeros(len(rest))) for null in nulls]
    return whole, nulls + [np.append(through.T @ null > 0.5, null) for null in beyond]


def _dense(stencil: FullStencil, values: Values) -> Values:
    """The links between all nodes in C order."""
    numbers = np.arange(math.prod(stencil.shape)).reshape(stencil.array_shape)
    links = np.zeros((numbers.size, numbers.size))
    for offset, link in zip(stencil.offsets, values[1:], strict=True):
        there = np.roll(numbers, [-step for step in reversed(offset)], tuple(range(numbers.ndim))).ravel()
        np.add.at(links, (numbers.ravel(), there), link.ravel())
        np.add.at(links, (there, numbers.ravel()), link.ravel())
    np.fill_diagonal(links, 0.0)
    return links


def _coarsened(
    backend: Backend,
    store: Backend,
    plain: StencilTransfer,
    kept: Array | None,
    product: Array | None,
    *,
    rounds: bool,
    spreads: bool,
    prepares: bool,
) -> tuple[StencilTransfer, Array]:
    """The transfer with its weights, and the coefficients of the product, in the given arrays if there are any.

    They are formed in float64. Where a backend can and a has no larger range (`rounds`), weights are rounded with their
    sums and the product follows from that; otherwise they are stored as `store` does and the product is that of exact
    ones, because in float32 the row sums of P, and with them those of the product, would be lost beside large links.
    """
    exact = backend.companion(np.float64)
    weights = kept if kept is not None and store.dtype == exact.dtype else exact.empty(plain.table.array_shape)
    product = store.empty(plain.product.array_shape) if product is None else product
    between = exact.bind(plain)
    if prepares:
        forming = exact.bind(plain.weighted(weights))
        exact.prepare(partial(between.interpolation, weights, spreads), partial(forming.galerkin, product))
    between.interpolation(weights, spreads)
    single = store.dtype != exact.dtype
    two_bytes = kept is not None and kept.dtype.itemsize == 2
    rounded = between.rounded(weights, kept if two_bytes else None) if single and rounds else None
    exact.bind(plain.weighted(weights if rounded is None else rounded)).galerkin(product)
    if single and rounded is None:
        view = exact.view(weights)
        weights = store.assemble(
            plain.table.array_shape, lambda xp, start, stop: view[start:stop], None if two_bytes else kept
        )
    return plain.weighted(weights if rounded is None else rounded), product


def _insulates(operations: Operations) -> bool:
    """Whether there are nodes of a mask, and no link leads to them: what coarse grids have there does no harm."""
    backend, operator = operations.backend, operations.operator
    if not operator.fixed:
        return False
    masked, r = (backend.empty(operator.array_shape) for _ in range(2))
    place = backend.reduction()
    fill_free(operations, r)
    backend.fill(masked, 1.0)
    backend.axpby(-1.0, r, 1.0, masked)
    operations.residual(masked, None, r, place)
    return backend.read(place)[1] == 0.0


def _arrays(levels: Sequence[Level], number: int, plain: StencilTransfer) -> tuple[Array | None, Array | None]:
    """The arrays of the weights below a level, and of the product there, where they fit."""
    if number + 1 >= len(levels):
        return None, None
    transfer: Any = levels[number].transfer
    coarse: Any = levels[number + 1].operator
    held: StencilTransfer = transfer.transfer
    # The same axes may be halved on a grid of other nodes, if others were on the one above.
    same = held.halved == plain.halved and held.fine.shape == plain.fine.shape
    return (held.weights, coarse.coefficients) if same and held.fine.offsets == plain.fine.offsets else (None, None)


def _store(operations: Operations) -> Backend:
    """The backend of the type that coefficients are stored in: float32, where that has their range."""
    backend, operator = operations.backend, operations.operator
    limits, least = np.finfo(np.float32), min(coupling for coupling in operator.couplings if coupling > 0.0)
    if operator.coefficients and operator.links:
        least *= operator.coefficients.a_range[0]
    fits = operator.norm < 1e-3 * float(limits.max) and (least == 0.0 or least > 1e3 * float(limits.tiny))
    return backend.companion(np.float32) if fits else backend
