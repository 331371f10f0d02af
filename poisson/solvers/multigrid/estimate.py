"""The error of the discretisation, estimated from the difference between the solutions on two grids."""

from __future__ import annotations

import math
from dataclasses import replace

from poisson.backends.base import Array, Backend
from poisson.boundary import Rule
from poisson.errors import GridError
from poisson.operator import Operator
from poisson.solvers.multigrid.cycle import Cycle
from poisson.transfer import Interpolation

ORDERS = (1.0, 2.0)
"""The observed order of accuracy counts within these bounds: the scheme is of second order where u is smooth."""

LEAST_CONTRACTION = 0.1
"""A cycle is not trusted to reduce the error by more than this factor before it has been seen to."""

ROUGH = 0.1
"""A source whose restriction, instead of samples, changes the solution by more than this part of it is not smooth."""


class ErrorEstimate:
    """What the difference between the solutions on two grids says about the error on the finer one.

    The error of the scheme falls as h^p, so that of the finer grid is the difference divided by r^p − 1, where r is the
    least ratio of their spacings and p the order that the next pair of grids shows (L. F. Richardson).

    Full multigrid restricts the source, which smooths it: the coarse solution then has an error more, of second order
    as well. A cycle on the next coarser grid, for the difference between the restricted and the sampled source, finds
    it, unless the source is so rough that samples say nothing about it.

    Parameters
    ----------
    backend : Backend
        Where the arrays are.
    cycle : Cycle
        The levels.

    Raises
    ------
    GridError
        If there are no two grids to compare.
    """

    def __init__(self, backend: Backend, cycle: Cycle) -> None:
        self._backend = backend
        self._cycle = cycle
        operators = [level.operator for level in cycle.levels]
        first = _coarser_everywhere(operators, 0)
        if first is None:
            raise GridError(
                "solver.stop = 'discretisation' compares the solution with that on a grid that is coarser along every "
                f"axis, and for domain.shape = {list(operators[0].shape)} with its spacing there is none: use more "
                "nodes, or solver.stop = 'residual'"
            )
        self._first, self._second = first, _coarser_everywhere(operators, first)
        self._ratio = _ratio(operators[0], operators[first])
        self._operator = operators[first]
        self._sampled = Interpolation(operators[0], self._operator, everywhere=True)
        # Without the faces, on which the source has terms that depend on the spacing.
        walls = tuple(Rule.WRAP if rule is Rule.WRAP else Rule.FIXED for rule in self._operator.rules)
        inner = replace(self._operator, rules=walls)
        self._inner = Interpolation(inner, inner)
        below = operators[first + 1] if first + 1 < len(operators) else self._operator
        self._effect = Interpolation(below, self._operator, everywhere=True)
        # The coarse solution and the sampled source, whose arrays the iterates take later; and what an iterate differs
        # by from that solution without the effect of smoothing.
        self._solution, self._source, self._apart = (backend.empty(self._operator.array_shape) for _ in range(3))
        self._places = backend.reduction(), backend.reduction()
        self._smoothing, self._size = backend.reduction(), backend.reduction()
        self._next: tuple[Operator, Array, Array, Interpolation] | None = None
        if self._second is not None:
            operator = operators[self._second]
            arrays = backend.empty(operator.array_shape), backend.empty(operator.array_shape)
            self._next = (operator, *arrays, Interpolation(self._operator, operator, everywhere=True))
            self._next_ratio = _ratio(self._operator, operator)
            self._next_place = backend.reduction()
        self.begin()

    def sample(self, f: Array) -> None:
        """Take the source of the finest grid, before the coarse grids are solved."""
        self._backend.interpolate(self._sampled, f, self._source)

    def keep(self, index: int, u: Array) -> None:
        """Remember the solution u on the grid with this index among those below the finest, if it is needed."""
        backend = self._backend
        if index + 1 == self._second and self._next:
            backend.axpby(1.0, u, 0.0, self._next[1])
        if index + 1 != self._first:
            return
        if self._next:
            operator, kept, sampled, between = self._next
            backend.interpolate(between, u, sampled)
            backend.axpby(-1.0, kept, 1.0, sampled)
            backend.norm(operator, sampled, self._next_place)
        backend.axpby(1.0, u, 0.0, self._solution)
        backend.norm(self._operator, u, self._size)
        grid, smoothed = self._cycle.grids[index], self._cycle.grids[index].f
        backend.axpby(-1.0 / self._cycle.scale, self._source, 1.0, smoothed)
        if Rule.MIRROR in self._operator.rules:
            backend.axpby(1.0, smoothed, 0.0, self._source)
            backend.fill(smoothed, 0.0)
            backend.interpolate(self._inner, self._source, smoothed)
        if grid.level.transfer is None:
            backend.axpby(1.0, self._cycle.solve(index, 0), 0.0, self._apart)
            backend.axpby(1.0, self._solution, 0.0, u)
        else:
            backend.restrict(grid.level.transfer, smoothed, self._cycle.grids[index + 1].f)
            backend.interpolate(self._effect, self._cycle.solve(index + 1, 0), self._apart)
        backend.norm(self._operator, self._apart, self._smoothing)

    def begin(self) -> None:
        """The iterate is the interpolated coarse solution; cycles on the finest grid begin."""
        self._last, self._now = self._solution, self._source
        self._cycles, self._contraction, self._change = 0, LEAST_CONTRACTION, math.inf
        self._difference, self._rough = 0.0, False

    def judge(self, u: Array) -> tuple[float, float]:
        """After a cycle on the finest grid: the largest errors of its discretisation and of its solution, estimated."""
        backend = self._backend
        backend.interpolate(self._sampled, u, self._now)
        for array, other, place in zip((self._last, self._apart), (self._now, self._last), self._places, strict=True):
            backend.axpby(-1.0, other, 1.0, array)
            backend.norm(self._operator, array, place)
        self._last, self._now = self._now, self._last
        change, apart = (backend.read(place)[1] for place in self._places)
        if self._cycles == 0:
            self._difference = change
            self._rough = backend.read(self._smoothing)[1] > ROUGH * backend.read(self._size)[1]
        elif self._change > 0.0:
            self._contraction = min(0.9, change / self._change)
        self._cycles, self._change = self._cycles + 1, change
        difference = self._difference if self._rough else apart
        order = ORDERS[1]
        if self._next and self._difference > 0.0:
            ratio = max(backend.read(self._next_place)[1], 1e-300) / self._difference
            order = min(max(math.log(ratio) / math.log(self._next_ratio), ORDERS[0]), ORDERS[1])
        return difference / (self._ratio**order - 1.0), self._contraction / (1.0 - self._contraction) * change


def _coarser_everywhere(operators: list[Operator], index: int) -> int | None:
    """The first operator behind `index` that is coarser along every axis that has more than one node.

    Where an axis has collapsed, the difference says how much u varies along it, and nothing of the error.
    """
    fine = operators[index].shape
    for other in range(index + 1, len(operators)):
        if all(1 < coarse < nodes or nodes == 1 for coarse, nodes in zip(operators[other].shape, fine, strict=True)):
            return other
    return None


def _ratio(fine: Operator, coarse: Operator) -> float:
    """The least ratio of the spacings along the axes that have more than one node."""
    spacings = zip(fine.shape, fine.spacing, coarse.spacing, strict=True)
    return min(wide / narrow for nodes, narrow, wide in spacings if nodes > 1)
