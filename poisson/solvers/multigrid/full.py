# SPDX-License-Identifier: MIT
"""Full multigrid: a start from the coarsest grid up."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from poisson.discrete.transfer import Interpolation

if TYPE_CHECKING:
    from poisson.backends.base import Array, Backend
    from poisson.backends.transfers import InterpolationOperations
    from poisson.discrete.operator import Operator
    from poisson.solvers.multigrid.cycle import CoarseGrids, Cycle
    from poisson.solvers.multigrid.hierarchy import Level


def has_fixed_nodes(operator: Operator) -> bool:
    """Whether u is held at nodes, by faces or by a mask."""
    return operator.unknowns < operator.lattice.whole.nodes


def sampling(backend: Backend, fine: Operator, coarse: Operator) -> InterpolationOperations | None:
    """The interpolation of the values at fixed nodes to a coarser grid; None where there are none."""
    return backend.bind(Interpolation(fine, coarse, everywhere=True)) if has_fixed_nodes(fine) else None


class FullMultigrid:
    """Solves on the coarsest grid, interpolates the solution to the next finer one, improves it by a cycle, and so on.

    The cubic interpolation is of higher order than the scheme, so that a single cycle on each grid leaves an algebraic
    error below that of the discretisation. The grids' sources are restricted from that of the finest, and their
    boundary values sampled from its u.

    `cycle`: the levels, with at least one below the finest.

    Reference: U. Trottenberg, C. W. Oosterlee, A. Schüller, Multigrid, section 2.6.
    """

    def __init__(self, cycle: Cycle) -> None:
        backend = cycle.backend
        fine, coarse = (level.operator for level in cycle.levels[:2])
        self._backend = backend
        self._cycle = cycle
        self._sampled = sampling(backend, fine, coarse)
        self._refined = backend.bind(Interpolation(coarse, fine))
        self._ascent = _Ascent(cycle.levels, cycle.below)

    def start(self, u: Array, f: Array, *, recorded: bool = True, blank: bool = False) -> None:
        """Overwrite u, but for its fixed nodes, by the interpolated solution of the next coarser grid.

        `recorded`: whether what is below the finest grid is recorded; not where all of this is. `blank`: whether the
        fixed nodes are zero.
        """
        backend, grids = self._backend, self._cycle.grids
        transfer = self._cycle.finest.transfer
        assert transfer is not None
        transfer.restrict(f, grids[0].f)
        if blank:
            backend.fill(grids[0].spare[0], 0.0)
        elif self._sampled:
            self._sampled.interpolate(u, grids[0].spare[0])
        self._refined.interpolate(self.coarse() if recorded else self._ascent.run(), u)

    def coarse(self) -> Array:
        """Solve on the first coarser grid, whose source and boundary values are in place; returns the array."""
        return self._cycle.recorded("ascent", self._ascent.run)


class _Ascent:
    """From the coarsest grid to the first below the finest."""

    def __init__(self, levels: tuple[Level, ...], below: CoarseGrids) -> None:
        self._backend = backend = levels[0].operations.backend
        self._below = below
        pairs = list(itertools.pairwise(level.operator for level in levels[1:]))
        self._sampled = [sampling(backend, fine, coarse) for fine, coarse in pairs]
        self._refined = [backend.bind(Interpolation(coarse, fine)) for fine, coarse in pairs]

    def run(self) -> Array:
        """Solve; returns the array with the result."""
        backend, grids = self._backend, self._below.grids
        for index, grid in enumerate(grids[:-1]):
            transfer = grid.level.transfer
            assert transfer is not None
            transfer.restrict(grid.f, grids[index + 1].f)
            if sampled := self._sampled[index]:
                sampled.interpolate(grid.spare[0], grids[index + 1].spare[0])
        coarsest = grids[-1]
        u, r, error = coarsest.spare
        if not has_fixed_nodes(coarsest.operator):
            backend.fill(u, 0.0)
        coarsest.level.operations.residual(u, coarsest.f, r)
        backend.dense(self._below.matrix, r, error)
        backend.axpby(1.0, error, 1.0, u)
        if coarsest.level.short_waves:
            # The matrix has the term of a correction, which a solution has not.
            coarsest.level.operations.update(None, r, error, u, coarsest.level.short_waves)
        for index in reversed(range(len(grids) - 1)):
            start = grids[index].spare[0]
            self._refined[index].interpolate(u, start)
            u = self._below.improve(index, start, 0)
        return u
