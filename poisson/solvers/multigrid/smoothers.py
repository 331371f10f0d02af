# SPDX-License-Identifier: MIT
"""Smoothers: half a level of a multigrid cycle each time, in as few passes over memory as the backend has."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol

from poisson.backends.base import Array, Operations, Reduction
from poisson.backends.transfers import TransferOperations
from poisson.discrete.operator import Operator
from poisson.solvers.multigrid.hierarchy import Level
from poisson.solvers.multigrid.settings import MultigridSettings

if TYPE_CHECKING:
    from poisson.backends.stencils import ClusterOperations


Coarser = tuple[TransferOperations, Array]
"""An array of the next coarser grid, and how values go there and back."""


class Smoother(Protocol):
    """The sweeps of one level."""

    period: int
    """Cycles after which the sweeps repeat themselves."""

    in_place: bool
    """Whether the result lies where the sweeps began."""

    def apply(self, u: Array | None, f: Array, out: Array, work: Array, phase: Phase) -> Array:
        """Relax A v = f from v = u (zero without it), as `Operations.smooth` does.

        Returns: The array with the result: `u` or `out`. The other, and `work`, have lost their values.
        """


class Phase(NamedTuple):
    """The sweeps of a cycle: those after a correction (up), those before a restriction (down), or both."""

    cycle: int  # The number of the cycle whose restriction they precede, or would.
    up: bool
    down: bool
    correction: Coarser | None = None  # What is added to u first.
    restriction: Coarser | None = None  # Where the residual goes afterwards.
    result: Reduction | None = None  # Gets the norms of that residual.
    short_waves: float = 0.0  # The factor of f / diag(A) that the last sweep adds.


@dataclass(frozen=True)
class SmootherEntry:
    """A smoother.

    `name`: the name in ``[solver] smoother``.
    `rank`: its place in lists; the first one smooths the levels that another does not take.
    `make`: the smoother of a level, with whether that is the finest.
    `takes`: whether it smooths an operator.
    `colors`: whether it needs two colors of nodes.
    `short_waves`: the part of `hierarchy.SHORT_WAVES` that its cycles take.
    """

    name: str
    rank: int
    make: Callable[[Level, MultigridSettings, bool], Smoother]
    takes: Callable[[Operator], bool] = lambda operator: True
    colors: bool = False
    short_waves: float = 1.0


def entry_of(settings: MultigridSettings, operator: Operator) -> SmootherEntry:
    """The entry of the smoother that settings name, or of the first one where that does not take the operator."""
    from poisson.solvers.registry import smoothers  # which finds the entries, in files that import this one

    entry = smoothers()[settings.smoother]
    return entry if entry.takes(operator) else next(iter(smoothers().values()))


def smoother_of(level: Level, settings: MultigridSettings, finest: bool) -> Smoother:
    """The smoother of a level."""
    smoother = entry_of(settings, level.operator).make(level, settings, finest)
    return smoother if level.clusters is None else WithClusters(level, smoother, settings, finest)


def hand_down(operations: Operations, u: Array, f: Array, work: Array, phase: Phase) -> None:
    """Leave the norms of the residual, and restrict it, where a phase asks for that."""
    if phase.restriction or phase.result is not None:
        operations.residual(u, f, work, phase.result)
    if phase.restriction:
        phase.restriction[0].restrict(work, phase.restriction[1])


class WithClusters:
    """The sweeps of another smoother, between corrections of strong clusters.

    The corrections at the beginning of a cycle and next to the coarse grid go from weak to strong links, and on the way
    back in the opposite order, so that a cycle may be self-adjoint. On the finest grid the weakest links have their
    correction at the beginning and the others next to the coarse grid; on coarser grids, which cost less and where
    products have stiff links of their own making, all have both. In 3D, where this saves nothing, all are next to the
    coarse one, and so is the correction of all groups together.

    `level`: the operator, and the clusters from weak to strong links. `smoother`: the sweeps.
    """

    def __init__(self, level: Level, smoother: Smoother, settings: MultigridSettings, finest: bool) -> None:
        self.period, self.in_place = smoother.period, smoother.in_place
        self._operations, self._sweeps = level.operations, smoother
        groups = level.clusters or ()
        weakest = int(finest and len(groups) > 1)
        self._outer = () if level.operator.dimension == 3 else groups[:weakest] if finest else groups
        self._inner = groups[weakest:] if self._outer else groups
        if groups and groups[0].clusters.cycle:
            self._outer, self._inner = (), groups
        self._ends_where_begun = smoother.in_place or settings.pre % 2 == 0

    def apply(self, u: Array | None, f: Array, out: Array, work: Array, phase: Phase) -> Array:
        down = Phase(phase.cycle, up=False, down=True)
        if phase.correction:
            phase.correction[0].prolong_add(phase.correction[1], u)
            self._correct(self._inner[::-1], u, f, work)
        if phase.up:
            relaxed = self._sweeps.apply(u, f, out, work, Phase(phase.cycle, up=True, down=False))
            u, out = relaxed, (u if relaxed is out else out)
            self._correct(self._outer[::-1], u, f, work)
        if phase.down:
            if u is None and self._outer:
                # Sweeps between two arrays are to end in `out`.
                begin, free = (out, work) if self._ends_where_begun else (work, out)
                self._operations.backend.fill(begin, 0.0)
                self._outer[0].correct_clusters(f, begin)
                self._correct(self._outer[1:], begin, f, free)
                u = self._sweeps.apply(begin, f, free, free, down)
            else:
                self._correct(self._outer, u, f, work)
                u = self._sweeps.apply(u, f, out, work, down)
            self._correct(self._inner, u, f, work)
        hand_down(self._operations, u, f, work, phase)
        return u

    def _correct(self, clusters: Sequence[ClusterOperations], u: Array, f: Array, r: Array) -> None:
        for groups in clusters:
            groups.residual(self._operations, u, f, r)
            groups.correct_clusters(r, u)
