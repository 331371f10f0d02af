"""Full multigrid: a start from the coarsest grid up."""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable

from poisson.backends.base import Array
from poisson.discrete.operator import Operator
from poisson.discrete.transfer import Interpolation
from poisson.mesh.boundary import Rule
from poisson.solvers.multigrid.cycle import Cycle


class FullMultigrid:
    """Solves on the coarsest grid, interpolates the solution to the next finer one, improves it by a cycle, and so on.

    The cubic interpolation is of higher order than the scheme, so that a single cycle on each grid leaves an algebraic
    error below that of the discretisation. The grids' sources are restricted from that of the finest, and their
    boundary values sampled from its u.

    Parameters
    ----------
    cycle : Cycle
        The levels, with at least one below the finest.

    References
    ----------
    U. Trottenberg, C. W. Oosterlee, A. Schüller, Multigrid, section 2.6.
    """

    def __init__(self, cycle: Cycle) -> None:
        self._backend = backend = cycle.backend
        self._cycle = cycle
        operators = [level.operator for level in cycle.levels]
        pairs = list(itertools.pairwise(operators))
        self._sampled = [backend.bind(Interpolation(fine, coarse, everywhere=True)) for fine, coarse in pairs]
        self._refined = [backend.bind(Interpolation(coarse, fine)) for fine, coarse in pairs]
        # Below a grid that does not halve, whose own cycles contract less, a second one.
        self._cycles = [1 if _halves(fine, coarse) else 2 for fine, coarse in pairs]
        self._recorded: tuple[Callable[[], None], list[Array]] | None = None

    def start(self, u: Array, f: Array) -> None:
        """Overwrite u, but for its fixed nodes, by the interpolated solution of the next coarser grid."""
        backend, grids = self._backend, self._cycle.grids
        transfer = self._cycle.finest.transfer
        assert transfer is not None
        transfer.restrict(f, grids[0].spare[0])
        backend.axpby(1.0 / self._cycle.scale, grids[0].spare[0], 0.0, grids[0].f)
        self._sampled[0].interpolate(u, grids[0].spare[0])
        self._refined[0].interpolate(self.coarse(), u)

    def coarse(self) -> Array:
        """Solve on the first coarser grid, whose source and boundary values are in place; returns the array."""
        if self._recorded is None:
            place: list[Array] = []
            owner = weakref.proxy(self)

            def ascend() -> None:
                place[:] = [owner._ascend()]

            self._recorded = (self._backend.capture(ascend), place)
        replay, place = self._recorded
        replay()
        return place[0]

    def _ascend(self) -> Array:
        backend, grids = self._backend, self._cycle.grids
        for index, grid in enumerate(grids[:-1]):
            transfer = grid.level.transfer
            assert transfer is not None
            transfer.restrict(grid.f, grids[index + 1].f)
            self._sampled[index + 1].interpolate(grid.spare[0], grids[index + 1].spare[0])
        coarsest = grids[-1]
        u, r, error = coarsest.spare
        coarsest.level.operations.residual(u, coarsest.f, r)
        backend.dense(self._cycle.matrix, r, error)
        backend.axpby(1.0, error, 1.0, u)
        for index in reversed(range(len(grids) - 1)):
            start = grids[index].spare[0]
            self._refined[index + 1].interpolate(u, start)
            u = start
            for number in range(self._cycles[index]):
                u = self._cycle.improve(index, u, number)
        return u


def _halves(fine: Operator, coarse: Operator) -> bool:
    """Whether along each axis every other node, or every node, is one of the coarser grid."""
    for axis, (many, few) in enumerate(zip(fine.shape, coarse.shape, strict=True)):
        wraps = fine.axis_rules(axis)[0] is Rule.WRAP
        if many not in (few, 2 * few if wraps else 2 * few - 1):
            return False
    return True
