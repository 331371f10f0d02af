# SPDX-License-Identifier: MIT
"""One multigrid cycle on arrays that are made once."""

import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from operator import is_
from typing import Any

from poisson.backends.base import Array, Operations, Reduction
from poisson.discrete.operator import Operator
from poisson.errors import GridError
from poisson.solvers.multigrid.coarsest import Matrix, inverse
from poisson.solvers.multigrid.galerkin import galerkin_inverse, galerkin_levels, refresh_galerkin
from poisson.solvers.multigrid.hierarchy import Level, levels_of, refresh_levels
from poisson.solvers.multigrid.settings import VISITS, MultigridSettings
from poisson.solvers.multigrid.smoothers import Coarser, Phase, Smoother, entry_of, smoother_of
from poisson.solvers.recorded import Recorded
from poisson.solvers.roughness import kind_of

PLACES = 2
"""Recordings of the same operations: two arrays of an iteration change places from time to time."""


SHORT_WHERE_SYMMETRIC = 0.5
"""The part of `SHORT_WAVES` that a self-adjoint cycle takes."""


@dataclass
class CycleLevel:
    """A level below the finest, with its arrays: the source, and three that the iterate moves through."""

    level: Level
    smoother: Smoother | None
    f: Array
    spare: list[Array]

    @property
    def operator(self) -> Operator:
        return self.level.operator


class CoarseGrids:
    """The grids below the finest, and cycles through them.

    `levels`: the finest, and those below it, if there are any. `settings`: how to cycle.
    """

    def __init__(self, levels: tuple[Level, ...], settings: MultigridSettings) -> None:
        self._backend = levels[0].operations.backend
        self._settings = settings
        self._coarsest = levels[-1]
        if self._coarsest.operator.lattice.divided:
            nodes = " x ".join(map(str, self._coarsest.operator.lattice.whole.shape))
            raise GridError(
                f"run.ranks: several for {nodes} nodes, too few for a coarser grid; allowed with multigrid: 1"
            )
        self.grids = [self._grid(level) for level in levels[1:]]
        self._singular = levels[0].operations.operator.singular
        self.matrix = self._backend.from_host(self._inverse())

    def _inverse(self) -> Matrix:
        if self._coarsest.clusters is None:
            return inverse(self._coarsest.operations, self._coarsest.short_waves)
        return galerkin_inverse(self._coarsest.operations, self._singular)

    def _grid(self, level: Level) -> CycleLevel:
        shape = level.operator.array_shape
        spare = [self._backend.empty(shape) for _ in range(3)]
        return CycleLevel(level, self._smoother(level), self._backend.empty(shape), spare)

    def _smoother(self, level: Level) -> Smoother | None:
        return smoother_of(level, self._settings, finest=False) if level.transfer else None

    def refresh(self) -> None:
        """Make the inverse on the coarsest grid again."""
        values = self._inverse()
        self._backend.assemble(values.shape, lambda xp, start, stop: values[start:stop], self.matrix)

    def make_smoothers(self) -> None:
        """Make the smoothers again."""
        for grid in self.grids:
            grid.smoother = self._smoother(grid.level)

    def solve(self, cycle: int) -> Array:
        """Solve for the error on the first of them, from the source that lies there; returns the array with it."""
        return self._descend(0, self._settings.cycle, cycle)

    def _descend(self, index: int, kind: str, cycle: int) -> Array:
        """Solve approximately on a grid below the finest, and add what the transfers will damp (`Level.short_waves`).

        Returns: the array with the solution.
        """
        grid = self.grids[index]
        if grid.smoother is None:
            self._backend.dense(self.matrix, grid.f, grid.spare[0])
            return grid.spare[0]
        transfer = grid.level.transfer
        assert transfer is not None
        u: Array | None = None
        correction: Coarser | None = None
        free = list(grid.spare)
        below = (transfer, self.grids[index + 1].f)
        for next_kind in ("V", "V") if kind == "V" and grid.level.twice else VISITS[kind]:
            u = self._relax(grid, u, free, Phase(cycle, u is not None, True, correction, below))
            correction = (transfer, self._descend(index + 1, next_kind, cycle))
        last = Phase(cycle + 1, up=True, down=False, correction=correction, short_waves=grid.level.short_waves)
        return self._relax(grid, u, free, last)

    def improve(self, index: int, u: Array, cycle: int) -> Array:
        """One cycle on a grid below the finest, from u, which is one of its arrays; returns that with the result."""
        grid = self.grids[index]
        transfer = grid.level.transfer
        assert transfer is not None
        free = [array for array in grid.spare if array is not u]
        below = (transfer, self.grids[index + 1].f)
        u = self._relax(grid, u, free, Phase(cycle, up=False, down=True, restriction=below))
        correction = (transfer, self._descend(index + 1, self._settings.cycle, cycle))
        return self._relax(grid, u, free, Phase(cycle + 1, up=True, down=False, correction=correction))

    @staticmethod
    def _relax(grid: CycleLevel, u: Array | None, free: list[Array], phase: Phase) -> Array:
        """Sweeps on a grid; `free` are its arrays without `u`, before and after."""
        assert grid.smoother is not None
        out, work = free[0], free[1]
        result = grid.smoother.apply(u, grid.f, out, work, phase)
        if u is None:
            del free[0]
        elif result is out:
            free[0] = u
        return result


class Cycle:
    """The levels of an operator, and cycles through those below the finest.

    `operations`: those of A, on the finest grid. `settings`: how to cycle.

    `smoother`: that of the finest level.
    `below`: below the finest.
    `grids`: the levels there; none if the finest is solved directly.
    `matrix` (Array): the inverse of A on the coarsest, with the term of `Level.short_waves` there.
    `period`: cycles after which the sweeps repeat themselves.
    `galerkin`: whether the coarse grids have Galerkin operators.
    `records`: whether what the finest level does is recorded, too.
    `error` (Array): what the last `coarse_and_turn` has corrected by, unless it was recorded.
    """

    def __init__(self, operations: Operations, settings: MultigridSettings) -> None:
        backend, operator = operations.backend, operations.operator
        if settings.pre + settings.post < 1:
            raise ValueError("pre and post are both 0; a cycle needs a smoothing sweep")
        self.backend = backend
        self.settings = settings
        self.galerkin = kind_of(operations, settings.coarse) == "galerkin"
        if self.galerkin:
            self.levels = galerkin_levels(operations)
        else:
            part = SHORT_WHERE_SYMMETRIC if settings.symmetric else entry_of(settings, operator).short_waves
            self.levels = levels_of(operations, part)
        self.finest = self.levels[0]
        self.smoother = smoother_of(self.finest, settings, finest=True)
        self.below = CoarseGrids(self.levels, settings)
        self.grids, self.matrix = self.below.grids, self.below.matrix
        self.period = max([self.smoother.period, *(grid.smoother.period for grid in self.grids if grid.smoother)])
        self.records = backend.keeps(operator.array_shape)
        self.error: Array | None = None
        self._recorded: dict[object, list[tuple[Recorded, tuple[Any, ...]]]] = {}

    def refresh(self) -> bool:
        """See `poisson.solvers.iteration.Method`."""
        if self.galerkin != (kind_of(self.finest.operations, self.settings.coarse) == "galerkin"):
            return False
        # The corrections of clusters are other objects each time.
        before = None if self.galerkin else self._numbers()
        if not (refresh_galerkin if self.galerkin else refresh_levels)(self.levels):
            return False
        self.below.refresh()
        if self.galerkin or self._numbers() != before:
            self.smoother = smoother_of(self.finest, self.settings, finest=True)
            self.below.make_smoothers()
            self._recorded.clear()
        return True

    def _numbers(self) -> list[tuple[float, ...]]:
        """The data of smoothers, and the arguments of operations beside arrays, which are recorded with them."""
        return [(level.lowest, level.operator.a, level.operator.c) for level in self.levels]

    # ---- the finest level, on arrays of the caller

    def down(
        self, u: Array | None, f: Array, out: Array, work: Array, cycle: int, result: Reduction | None = None
    ) -> Array:
        """The sweeps before the restriction on the finest level; returns the array with the iterate."""
        phase = Phase(cycle, up=False, down=True, restriction=self._coarse(self.grids[0].f), result=result)
        return self.smoother.apply(u, f, out, work, phase)

    def turn(
        self,
        u: Array | None,
        f: Array,
        out: Array,
        work: Array,
        cycle: int,
        error: Array,
        result: Reduction | None = None,
    ) -> Array:
        """The correction by `error`, the sweeps after it, and those before the restriction in `cycle`, the next one."""
        phase = Phase(cycle, True, True, self._coarse(error), self._coarse(self.grids[0].f), result)
        return self.smoother.apply(u, f, out, work, phase)

    def up(
        self, u: Array, f: Array, out: Array, work: Array, cycle: int, error: Array, result: Reduction | None = None
    ) -> Array:
        """The correction by `error` and the sweeps after it, at the end of a cycle."""
        phase = Phase(cycle + 1, up=True, down=False, correction=self._coarse(error), result=result)
        return self.smoother.apply(u, f, out, work, phase)

    def _coarse(self, array: Array) -> Coarser:
        assert self.finest.transfer is not None
        return self.finest.transfer, array

    # ---- below it

    def coarse(self, cycle: int) -> Array:
        """Solve for the error on the first coarser grid, from the residual that was restricted there.

        The operations are recorded at the first time; later they are repeated.

        Returns: The array with the error.
        """
        number = self._number(cycle)
        return self.recorded(number, partial(self.below.solve, number))

    def coarse_and_turn(
        self, u: Array | None, f: Array, out: Array, work: Array, cycle: int, result: Reduction
    ) -> Array:
        """`coarse` and the `turn` after it, recorded as one where arrays stay; returns the array with the iterate."""
        if not self.records:
            self.error = self.coarse(cycle)
            return self.turn(u, f, out, work, cycle + 1, self.error, result)
        number = self._number(cycle)
        # A recording that held this object, which holds it, would keep the memory of both.
        this = weakref.proxy(self)

        def both() -> Array:
            return this.turn(u, f, out, work, number + 1, this.below.solve(number), result)

        return self.recorded(("turn", number), both, (u, f, out, work, result))

    def from_zero(self, f: Array, u: Array, spare: Sequence[Array]) -> None:
        """u = one cycle for A u = f from zero, recorded as one where arrays stay; `spare` are two arrays to work in."""
        first, second = spare
        # A smoother that works in place leaves the result where it began; any other moves it once.
        begin, out, work = (u, first, second) if self.smoother.in_place else (first, u, second)
        if not self.records:
            self.up(self.down(None, f, begin, work, 0), f, out, work, 0, self.coarse(0))
            return
        this = weakref.proxy(self)

        def cycle() -> Array:
            swept = this.down(None, f, begin, work, 0)
            return this.up(swept, f, out, work, 0, this.below.solve(0))

        self.recorded("from zero", cycle, (f, begin, out, work))

    def _number(self, cycle: int) -> int:
        """The number of a cycle among those that differ."""
        return cycle % self.period

    def recorded(self, key: object, function: Callable[[], Array], takes: tuple[Any, ...] = ()) -> Array:
        """The array that a function gives; by its key, and the arrays of others that it takes, it is recorded."""
        recordings = self._recorded.setdefault(key, [])
        for recording, taken in recordings:
            if all(map(is_, takes, taken)):
                return recording()
        del recordings[: 1 - PLACES]
        recordings.append((Recorded(self.backend, function), takes))
        return recordings[-1][0]()
