# SPDX-License-Identifier: MIT
"""The grids of a multigrid method: which axes are coarsened from level to level, and the operator on each."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from poisson.discrete.mask import without_links
from poisson.discrete.operator import FIXED, Coefficients, Operator
from poisson.discrete.share import numbers_of
from poisson.discrete.transfer import Transfer
from poisson.mesh.axis import Axis
from poisson.mesh.lattice import Lattice
from poisson.solvers.multigrid.thinning import is_uneven, thinned
from poisson.solvers.spectrum import chebyshev_rate

if TYPE_CHECKING:
    from poisson.backends.base import Backend, Operations
    from poisson.backends.stencils import ClusterOperations
    from poisson.backends.transfers import TransferOperations

MOST_NODES_DENSE = 300
"""A grid of so many nodes is solved directly."""

CONSTANT = 0.1
"""Along an axis whose lowest eigenvalue of −u'' h² is below this there are modes that are about constant."""

MOST_NODES_TABULATED = 16
"""Along a uniform axis of more nodes the part that a Robin face has in the lowest eigenvalue is left out."""

LEAST_RATE = 0.77
"""ln of the factor by which a sweep reduces the modes that the coarser grid cannot represent, if there is a choice."""

LARGEST = 2.0
"""A bound on the eigenvalues of D⁻¹A."""


SHORT_WAVES, OF_PAIRS, IN_BETWEEN = 0.2, 0.42, 0.3
"""For each axis that was coarsened the solution of A e = f on a coarse grid gets so many times f / diag(A) in addition
before it corrects the next finer grid: the first where the coarse nodes are every other fine one, the second where a
coarse cell is a pair of fine ones, and the third where the coarse nodes lie in other places.

The transfers damp short modes on the ways down and up, more than the coarse A is softer for them: the correction alone
removes 62% of the mode (π/4, π/4). For a mode with the eigenvalue λ of D⁻¹A the second term is λ e: it adds what is
lost of short modes, and next to nothing to long ones. Found by search on the contraction factors of two grids, and the
third on those of cycles.
"""


@dataclass
class Level:
    """A grid, the operator on it, and how it is coarsened.

    `operations`: those of A on this grid.
    `transfer`: those to and from the next coarser grid; None on the coarsest.
    `lowest`: the lowest eigenvalue of D⁻¹A of a mode that the coarser grid cannot represent: smoothing must reduce all
    between it and 2.
    `short_waves`: what `SHORT_WAVES` gives the solution on this grid.
    `chosen_by`: what, beside the lattice, the next coarser grid and `lowest` follow from.
    `largest`: a bound on the eigenvalues of D⁻¹A.
    `clusters`: with Galerkin products (`poisson.solvers.multigrid.galerkin`) the corrections of strong clusters, from
    weak to strong links. The operations below the finest level are then those of a `FullStencil`, by the same names.
    `twice`: whether a V-cycle visits the next coarser grid twice.
    """

    operations: Operations
    transfer: TransferOperations | None
    lowest: float
    short_waves: float = 0.0
    chosen_by: tuple[Any, ...] = ()
    largest: float = LARGEST
    clusters: tuple[ClusterOperations, ...] | None = None
    twice: bool = False

    @property
    def operator(self) -> Operator:
        """A on this grid."""
        return self.operations.operator


def levels_of(operations: Operations, part: float = 1.0) -> tuple[Level, ...]:
    """The levels from the finest, that of `operations` themselves, to one that is solved directly.

    `part`: of `SHORT_WAVES` is taken.
    """
    backend, operator = operations.backend, operations.operator
    levels: list[Level] = []
    short = 0.0
    while found := _coarser_grid(operator):
        lattice, lowest, next_short = found
        transfer = _transfer_to(backend, operator, lattice)
        levels.append(Level(operations, transfer, lowest, short, _choosing(operator)))
        operator, short = transfer.transfer.coarse, part * next_short
        operations = backend.bind(operator)
    levels.append(Level(operations, None, LARGEST, short, _choosing(operator)))
    return tuple(levels)


def refresh_levels(levels: Sequence[Level]) -> bool:
    """Give the levels below the finest the coefficients that follow from those of the finest, which are other ones.

    Returns: whether the grids are those that `levels_of` would make; otherwise the levels have no meaning.
    """
    if not _chosen_again(levels[0], levels[1:2]):
        return False
    for number, (fine, coarse) in enumerate(itertools.pairwise(levels), start=2):
        operator, before = fine.operator, coarse.operator
        assert fine.transfer is not None
        coefficients = _like(operator.coefficients, before.coefficients)
        coefficients = _coarsen(fine.transfer, operator.coefficients, coefficients)
        coarse.operations.rebind(replace(before, c=operator.c, a=operator.a, coefficients=coefficients))
        if not _chosen_again(coarse, levels[number : number + 1]):
            return False
    return True


def _chosen_again(level: Level, below: Sequence[Level]) -> bool:
    """Whether the next coarser grid of a level, if there is one, is that which it has; `lowest` follows anew."""
    operator = level.operator
    chosen_by = _choosing(operator)
    if chosen_by == level.chosen_by:
        return True
    found = _coarser_grid(operator)
    shapes = [found[0].whole.shape] if found else []
    if shapes != [each.operator.lattice.whole.shape for each in below]:
        return False
    level.chosen_by = chosen_by
    if found:
        level.lowest = found[1]
    return True


def grids_of(operator: Operator) -> tuple[tuple[int, ...], ...]:
    """The nodes along x, y(, z) of the grids of `levels_of`, for which the coefficients need no arrays."""
    found = [operator.lattice.whole.shape]
    while next_grid := _coarser_grid(operator):
        operator = replace(operator, lattice=next_grid[0])
        found.append(operator.lattice.whole.shape)
    return tuple(found)


def _coarser_grid(operator: Operator) -> tuple[Lattice, float, float] | None:
    """The next coarser grid, `Level.lowest`, and its `Level.short_waves`; None of a level that is solved directly."""
    # What is divided is gathered on a coarser grid, before it is solved directly.
    if not operator.lattice.divided and operator.lattice.nodes <= MOST_NODES_DENSE:
        return None
    if is_uneven(operator.lattice) and (found := thinned(operator.lattice)):
        return *found, 0.0
    axes = coarsened_axes(operator)
    if not axes:
        return None
    halved = (operator.lattice.whole.axes[axis] for axis in axes if not collapses(operator, axis))
    short = math.fsum(map(_lost, halved))
    return replace(operator.lattice, axes=_coarser_lines(operator, axes)), lowest_rough(operator, axes), short


def _lost(axis: Axis) -> float:
    """The part of `SHORT_WAVES` of a whole axis that can be coarsened."""
    coarse = axis.coarser
    assert coarse is not None
    if has_cells(axis):
        return OF_PAIRS if axis.nodes == 2 * coarse.nodes else IN_BETWEEN
    return SHORT_WAVES if axis.intervals == 2 * coarse.intervals else IN_BETWEEN


def has_cells(axis: Axis) -> bool:
    """Whether the unknowns of an axis stand at the centres of cells."""
    return axis.placement is not None and not axis.placement.on_faces


def coarse_nodes(operator: Operator, axis: int) -> int:
    """Nodes of the next coarser grid along a whole axis; those of this one where it cannot be coarsened."""
    return _coarser_axis(operator, axis).undivided.nodes


def collapses(operator: Operator, axis: int) -> bool:
    """Whether an axis collapses to one node if it is coarsened.

    It does so where it cannot be coarsened otherwise, has no fixed node, and has a stronger coupling than another axis.
    The modes that are constant along it have eigenvalues next to nothing beside those of D, so that no point smoother
    reduces them, however rough they are along the others; on the grid without that axis they are like any others. A
    Robin face with a large α is to the modes as a Dirichlet face is: then none is constant, and none needs this.
    """
    lines = operator.lattice.whole.axes
    if lines[axis].nodes == 1 or lines[axis].holds or lines[axis].coarser is not None:
        return False
    if _smoothest(operator, axis) > CONSTANT:
        return False
    return any(
        line.nodes > 1 and coupling < operator.couplings[axis]
        for line, coupling in zip(lines, operator.couplings, strict=True)
    )


def _coarser_axis(operator: Operator, axis: int) -> Axis:
    """The axis coarsened, collapsed, or as it is where neither can be."""
    line = operator.lattice.axes[axis]
    if line.coarser is not None:
        return line.coarser
    return Axis.single() if collapses(operator, axis) else line


def _coarser_lines(operator: Operator, axes: Sequence[int]) -> tuple[Axis, ...]:
    return tuple(
        _coarser_axis(operator, axis) if axis in axes else line for axis, line in enumerate(operator.lattice.axes)
    )


def coarsened_axes(operator: Operator) -> tuple[int, ...]:
    """The axes to coarsen: those with the strongest coupling, so many that a cycle does most for its work.

    The more axes are coarsened the less work is left for the coarser grids, but the rate of smoothing suffers where
    the coupling along one of them is weak.
    """
    couplings = operator.couplings
    nodes = operator.lattice.whole.shape
    able = [axis for axis in range(operator.dimension) if coarse_nodes(operator, axis) < nodes[axis]]
    able.sort(key=lambda axis: -couplings[axis])

    def rate(count: int) -> float:
        return chebyshev_rate(lowest_rough(operator, able[:count]), LARGEST)

    def gain(count: int) -> float:
        left = math.prod(coarse_nodes(operator, axis) / nodes[axis] for axis in able[:count])
        return rate(count) * (1.0 - left)

    if not able:
        return ()
    best = max(range(1, len(able) + 1), key=lambda count: (rate(count) >= LEAST_RATE, gain(count), count))
    return tuple(sorted(able[:best]))


def lowest_rough(operator: Operator, axes: Sequence[int]) -> float:
    """A bound from below on the eigenvalues of D⁻¹A of the modes that alternate along one of `axes` at the least.

    Such a mode changes its sign within two nodes along that axis, where its eigenvalue is 2 a/h² or more; along the
    others it may be the smoothest that there is. Where the coefficients vary, the largest a and the smallest c count.
    """
    couplings, c = _largest_couplings(operator)
    smoothest = [coupling * _smoothest(operator, axis) for axis, coupling in enumerate(couplings)]
    total = math.fsum(smoothest)
    rough = min(2.0 * couplings[axis] + total - smoothest[axis] for axis in axes)
    return (rough + c) / (2.0 * math.fsum(couplings) + c)


def _largest_couplings(operator: Operator) -> tuple[tuple[float, ...], float]:
    """The couplings with the largest a, and the smallest c; without c, beside which a counts, with a = 1."""
    if operator.coefficients is None:
        return operator.couplings, operator.c
    c = operator.coefficients.c_range[0]
    scale = operator.coefficients.a_range[1] if operator.links and c else 1.0
    return tuple(scale * coupling for coupling in operator.couplings), c


def _choosing(operator: Operator) -> tuple[Any, ...]:
    """The data beside the lattice from which `coarsened_axes`, `collapses` and `lowest_rough` follow."""
    absorbed = (_absorbed(operator, axis) for axis in range(operator.dimension))
    return operator.couplings, *_largest_couplings(operator), *absorbed


def _smoothest(operator: Operator, axis: int) -> float:
    """The lowest eigenvalue of the difference −u'' h² along an axis, with the least α of its Robin faces."""
    line = operator.lattice.axes[axis].undivided
    absorbed = (0.0, 0.0) if line.wraps or line.tabulated else _absorbed(operator, axis)
    if absorbed == (0.0, 0.0) or line.nodes > MOST_NODES_TABULATED:
        # With more nodes it is next to nothing in any case.
        return line.extremes[0]
    return line.absorbing(*absorbed).extremes[0]


def _absorbed(operator: Operator, axis: int) -> tuple[float, float]:
    """The least α h / a of both faces of an axis."""
    coefficients = operator.coefficients
    if coefficients is None or not coefficients.alpha:
        return 0.0, 0.0
    lower, upper = coefficients.alpha[2 * axis : 2 * axis + 2]
    scale = operator.spacing[axis] / (coefficients.a_range[1] if operator.links else operator.a)
    return lower * scale, upper * scale


def coarser(backend: Backend, operator: Operator, axes: Sequence[int]) -> Operator:
    """The operator on the grid with every axis in `axes` coarsened, on the same box.

    An axis that has collapsed has no coupling, and its node is its own neighbour.
    """
    lattice = replace(operator.lattice, axes=_coarser_lines(operator, axes))
    return _transfer_to(backend, operator, lattice).transfer.coarse


def _transfer_to(backend: Backend, operator: Operator, coarse: Lattice) -> TransferOperations:
    """The operations between an operator and that on a coarser grid."""
    lattice = backend.coarse_lattice(coarse)
    plain = Operator(lattice, operator.c, operator.a)
    fine = operator.coefficients
    if fine is None:
        return backend.bind(Transfer(operator, plain))
    shape = plain.array_shape
    links = None if fine.links is None else tuple(backend.empty(shape) for _ in fine.links)
    c = None if fine.c is None else backend.empty(shape)
    coefficients = _like(fine, Coefficients(links, c, fine.a_range, fine.c_range))
    transfer = backend.bind(Transfer(operator, replace(plain, coefficients=coefficients)))
    found = _coarsen(transfer, fine, coefficients)
    if found is coefficients:
        return transfer
    return backend.bind(Transfer(operator, replace(plain, coefficients=found)))


def _like(fine: Coefficients | None, coarse: Coefficients | None) -> Coefficients | None:
    """The arrays of coarse coefficients with the ranges that follow from those of the fine ones."""
    if fine is None or coarse is None:
        return None
    ends = fine.a_range, fine.c_range
    return Coefficients(coarse.links, coarse.c, *ends, fine.alpha, holds=fine.holds, walls=fine.walls)


def _coarsen(
    transfer: TransferOperations, fine: Coefficients | None, coarse: Coefficients | None
) -> Coefficients | None:
    """Fill the arrays of coarse coefficients from those of the fine ones; with the mask that these then have."""
    if fine is None or coarse is None:
        return coarse
    for axis, (finer, coarser) in enumerate(zip(fine.links or (), coarse.links or (), strict=True)):
        transfer.coarsen_links(axis, finer, coarser)
    if fine.fixed:
        return _coarsen_mask(transfer, fine, coarse)
    if fine.c is not None:
        transfer.restrict(fine.c, coarse.c)
    return coarse


def _coarsen_mask(transfer: TransferOperations, fine: Coefficients, coarse: Coefficients) -> Coefficients:
    """Coarsen c with its mask: a node is fixed where half of what it gathers from is, or all of its links are zero.

    Where a grid is divided over processes, each of them has all of its values meanwhile.
    """
    backend, tables = transfer.backend, transfer.transfer
    lattice = tables.coarse.lattice

    def fetched(array: Any, lattice: Lattice) -> NDArray[Any]:
        """The values on the whole grid."""
        return backend.sample(array, lattice, (1,) * lattice.dimension) if lattice.divided else backend.to_host(array)

    if lattice.divided or tables.fine.lattice.divided:
        tables = Transfer(*(replace(each, lattice=each.lattice.whole) for each in (tables.fine, tables.coarse)))
    c = np.asarray(fetched(fine.c, transfer.transfer.fine.lattice), dtype=np.float64)
    part = tables.restricted(np.asarray(c < 0.0, dtype=np.float64))
    whole, found = tables.restricted(np.ones_like(c)), tables.restricted(np.maximum(c, 0.0))
    links = tuple(fetched(array, lattice) for array in coarse.links or ())
    held = part >= 0.5 * whole
    if links:
        held |= without_links(tables.coarse, links) & (found == 0.0)
    own = np.where(held, FIXED, found)[np.ix_(*numbers_of(lattice))]
    backend.axpby(1.0, backend.from_host(own), 0.0, coarse.c)
    return replace(coarse, fixed=int(np.count_nonzero(held[tables.coarse.lattice.free])))
