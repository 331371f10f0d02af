# SPDX-License-Identifier: MIT
"""Smoothers: half a level of a multigrid cycle each time, in as few passes over memory as the backend has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from poisson.backends.base import Array, Reduction, TransferOperations
from poisson.solvers.multigrid.hierarchy import LARGEST, Level
from poisson.solvers.multigrid.settings import MultigridSettings
from poisson.solvers.spectrum import chebyshev_roots, red_black, stable_order

PERIOD = 4
"""Cycles over which a Chebyshev smoother spreads the roots of one polynomial."""

BELOW_THE_ROUGH = 0.93
"""With a period the interval begins at this part of the rough spectrum: the modes just below are not well represented
on the coarser grid. Found by search, as `OVER_CORRECTION`, on the contraction factors of whole cycles."""

MORE_ON_COARSE_GRIDS = 1
"""Sweeps after the correction that the polynomial smoothers of coarser grids make in addition: they cost little there,
and the finest grid converges as if the one below were solved well."""

BELOW_WITH_JUMPS = 0.5
"""The same for the cycles that precondition, where a varies: smooth modes that end at a jump are rough there."""

MORE_IN_SYMMETRIC_CYCLES = 2
"""Sweeps that the polynomial smoothers of coarser grids make in addition in the cycles that precondition, before the
restriction and after the correction: with a jump of 10³ at 129³ they save one iteration in five."""

MOST_IN_ORDER = 16
"""The roots of so many sweeps may be taken from one end of the interval to the other."""

OVER_RELAXATION = {1: 1.0, 2: 1.05, 3: 1.15}
"""The weight of red–black sweeps for each number of axes; above 1 it smooths better in 3D (I. Yavneh, On red-black SOR
smoothing in multigrid, SIAM Journal on Scientific Computing 17, 1996)."""


class Smoother(Protocol):
    """The sweeps of one level."""

    period: int
    """Cycles after which the sweeps repeat themselves."""

    in_place: bool
    """Whether the result lies where the sweeps began."""

    def apply(
        self,
        u: Array | None,
        f: Array,
        out: Array,
        work: Array,
        phase: Phase,
        correction: tuple[TransferOperations, Array] | None = None,
        restriction: tuple[TransferOperations, Array] | None = None,
        result: Reduction | None = None,
    ) -> Array:
        """Relax A v = f from v = u (zero without it) with the coarse correction, as `Operations.smooth` does.

        Returns
        -------
        The array with the result: `u` or `out`. The other, and `work`, have lost their values.
        """


class Phase:
    """The sweeps of a cycle: those after a correction (up), those before a restriction (down), or both.

    Parameters
    ----------
    cycle : int
        The number of the cycle whose restriction they precede, or would.
    up, down : bool
        Whether there are such sweeps.
    """

    __slots__ = ("cycle", "down", "up")

    def __init__(self, cycle: int, up: bool, down: bool) -> None:
        self.cycle, self.up, self.down = cycle, up, down


class Polynomial:
    """Jacobi sweeps whose weights are the inverse roots of a Chebyshev polynomial on the rough part of the spectrum.

    Between two coarse corrections stand the sweeps after the first and those before the second: together one factor of
    the error. Its polynomial is that of degree pre + post, or, with a period, some of the roots of one of `period`
    times that degree: for the modes that no coarse grid sees, the product over the cycles is what counts.

    Parameters
    ----------
    level : Level
        The grid and its rough spectrum.
    settings : MultigridSettings
        The numbers of sweeps.
    period : int
        Cycles over which the roots are spread.
    finest : bool
        Whether this is the finest level.
    """

    in_place = False

    def __init__(self, level: Level, settings: MultigridSettings, period: int, finest: bool = True) -> None:
        self.period = period
        self._operations = level.operations
        pre, post = settings.pre, settings.post
        lowest = level.lowest * (BELOW_THE_ROUGH if period > 1 else 1.0)
        if settings.symmetric:
            # The same polynomial before and after makes the cycle self-adjoint.
            lowest *= BELOW_WITH_JUMPS if level.operator.links else 1.0
            pre += 0 if finest else MORE_IN_SYMMETRIC_CYCLES
            half = _omegas(chebyshev_roots(lowest, LARGEST, [float(n) for n in range(pre)], pre))
            self._factors = [(half[::-1], half)]
            return
        if not finest:
            post += MORE_ON_COARSE_GRIDS
        degree = pre + post
        self._factors = []
        for cycle in range(period):
            # Every cycle gets one root from each part of the interval, so that it smooths on its own, too.
            numbers = [float(part * period + cycle) for part in reversed(range(degree))]
            roots = chebyshev_roots(lowest, LARGEST, numbers, degree * period)
            omegas = _omegas(roots)
            self._factors.append((omegas[:post], omegas[post:]))

    def omegas(self, phase: Phase) -> Sequence[float]:
        """The weights of the sweeps of a phase, in order."""
        up, down = self._factors[phase.cycle % self.period]
        return (*(up if phase.up else ()), *(down if phase.down else ()))

    def apply(
        self,
        u: Array | None,
        f: Array,
        out: Array,
        work: Array,
        phase: Phase,
        correction: tuple[TransferOperations, Array] | None = None,
        restriction: tuple[TransferOperations, Array] | None = None,
        result: Reduction | None = None,
    ) -> Array:
        omegas = self.omegas(phase)
        self._operations.smooth(u, f, out, work, omegas, correction, restriction, result)
        return out


def _omegas(roots: Sequence[float]) -> tuple[float, ...]:
    """The weights of the sweeps for the roots of a polynomial, in the same order unless there are many."""
    return tuple(1.0 / root for root in (roots if len(roots) <= MOST_IN_ORDER else stable_order(roots)))


class RedBlack:
    """Gauss–Seidel sweeps over the red and then the black nodes, over-relaxed."""

    period = 1
    in_place = True

    def __init__(self, level: Level, settings: MultigridSettings) -> None:
        self._operations = level.operations
        self._settings = settings
        self._omega = OVER_RELAXATION[sum(nodes > 1 for nodes in level.operator.shape)]

    def apply(
        self,
        u: Array | None,
        f: Array,
        out: Array,
        work: Array,
        phase: Phase,
        correction: tuple[TransferOperations, Array] | None = None,
        restriction: tuple[TransferOperations, Array] | None = None,
        result: Reduction | None = None,
    ) -> Array:
        operations, settings = self._operations, self._settings
        if u is None:
            u = out
            operations.backend.fill(u, 0.0)
        if correction:
            correction[0].prolong_add(correction[1], u)
        colors = (1, 0) if settings.symmetric else (0, 1)
        sweeps = [*(colors * settings.post if phase.up else ()), *((0, 1) * settings.pre if phase.down else ())]
        for color in sweeps:
            operations.color_sweep(u, f, color, self._omega)
        if restriction or result is not None:
            operations.residual(u, f, work, result)
        if restriction:
            restriction[0].restrict(work, restriction[1])
        return u


def smoother_of(level: Level, settings: MultigridSettings, finest: bool) -> Smoother:
    """The smoother of a level: where red and black nodes cannot be told apart, the Chebyshev one takes their place."""
    period = 1 if settings.symmetric else PERIOD
    match settings.smoother:
        case "red-black" if red_black(level.operator):
            return RedBlack(level, settings)
        case "chebyshev" | "red-black":
            return Polynomial(level, settings, period, finest)
        case "jacobi":
            return Polynomial(level, settings, 1, finest)
    raise ValueError(f"smoother = {settings.smoother!r} is unknown")
