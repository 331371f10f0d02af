# SPDX-License-Identifier: MIT
"""The smoothers of Jacobi sweeps: a Chebyshev polynomial in each cycle, or one that is spread over some cycles."""

from collections.abc import Sequence

from poisson.backends.base import Array
from poisson.discrete.full_stencil import FullStencil
from poisson.mesh.lattice import Lattice
from poisson.solvers.multigrid.hierarchy import LARGEST, Level, has_cells
from poisson.solvers.multigrid.settings import MultigridSettings
from poisson.solvers.multigrid.smoothers import Phase, SmootherEntry
from poisson.solvers.multigrid.thinning import is_uneven
from poisson.solvers.spectrum import chebyshev_roots, stable_order

PERIOD = 4
"""Cycles over which a Chebyshev smoother spreads the roots of one polynomial."""

ABOVE_THE_ROUGH = 1.15
"""With a period the interval begins at this part of the rough spectrum, as the coarser grid represents the modes just
above well enough. Found by search, as all such numbers here, on the residuals that cycles leave."""

BELOW_IN_BETWEEN = 0.9
"""The same where the coarse nodes are no fine ones and fewer than three axes are coarsened."""

ABOVE_WHERE_UNEVEN = 1.1
"""The same where nodes are left out (`poisson.solvers.multigrid.thinning`): the bound is that of the closest nodes."""

MORE_ON_COARSE_GRIDS, MORE_OF_FEW = 2, 1
"""Sweeps after the correction that the polynomial smoothers of coarser grids make in addition, and so many where a
cycle or two are enough: they cost little there, and the finest grid converges as if the one below were solved well.
With the second sweep a product of sines of 5 and 7 half waves takes 3 cycles in the place of 4 on 513² nodes."""

BELOW_WITH_JUMPS = 0.5
"""The interval of the cycles that precondition begins at this part of the rough spectrum where a varies: smooth modes
that end at a jump are rough there."""

MORE_IN_SYMMETRIC_CYCLES = 2
"""Sweeps that the polynomial smoothers of coarser grids make in addition in the cycles that precondition, before the
restriction and after the correction: with a jump of 10³ at 129³ they save one iteration in five."""

MORE_ON_THE_FINEST = 0, 0, 2, 1
"""Sweeps before the restriction that a smoother with a period makes in addition on the finest grid, by the number of
axes that are coarsened. 1025² nodes take 4 cycles in the place of 6 for a random source, and 64³ cells 6 in the place
of 7; one more in 3D would save a cycle of 6 and no time. Before the restriction on coarser grids such sweeps would gain
nothing, and where a cycle or two are enough they do so for cells alone."""

MOST_IN_ORDER = 16
"""The roots of so many sweeps may be taken from one end of the interval to the other."""


class Polynomial:
    """Jacobi sweeps whose weights are the inverse roots of a Chebyshev polynomial on the rough part of the spectrum.

    Between two coarse corrections stand the sweeps after the first and those before the second: together one factor of
    the error. Its polynomial is that of degree pre + post, or, with a period, some of the roots of one of `period`
    times that degree: for the modes that no coarse grid sees, the product over the cycles is what counts.

    `level`: the grid and its rough spectrum. `settings`: the numbers of sweeps. `period`: cycles over which the roots
    are spread. `finest`: whether this is the finest level.
    """

    in_place = False

    def __init__(self, level: Level, settings: MultigridSettings, period: int, finest: bool = True) -> None:
        self.period = period
        self._operations = level.operations
        self._full = isinstance(level.operator, FullStencil)
        pre, post = settings.pre, settings.post
        if level.clusters is not None:
            self.period = 1
            ends = level.lowest, level.largest
            self._factors = [tuple(_omegas(chebyshev_roots(*ends, list(range(n)), n)) for n in (post, pre))]
            return
        lattice = level.operator.lattice
        uneven = is_uneven(lattice)
        lowest = level.lowest
        if period > 1:
            lowest *= ABOVE_WHERE_UNEVEN if uneven else _beginning(level)
        if settings.symmetric:
            # The same polynomial before and after makes the cycle self-adjoint, in whatever order its sweeps come.
            lowest *= BELOW_WITH_JUMPS if level.operator.links else 1.0
            pre += 0 if finest else MORE_IN_SYMMETRIC_CYCLES
            half = _omegas(chebyshev_roots(lowest, LARGEST, [float(n) for n in range(pre)], pre))
            self._factors = [(half, half)]
            return
        if not finest:
            post += MORE_OF_FEW if settings.few else MORE_ON_COARSE_GRIDS
        elif period > 1 and not uneven and (not settings.few or _has_cells(lattice)):
            pre += MORE_ON_THE_FINEST[_coarsened_axes(level)]
        degree = pre + post
        self._factors = []
        for cycle in range(period):
            # Every cycle gets one root from each part of the interval, so that it smooths on its own, too.
            numbers = [float(part * period + cycle) for part in reversed(range(degree))]
            roots = chebyshev_roots(lowest, LARGEST, numbers, degree * period)
            if uneven:
                # The grids share few modes: what sweeps on one side of a correction amplify, other grids would see.
                before = [(n + 1) * pre // degree > n * pre // degree for n in range(degree)]
                shares = (
                    [root for root, first in zip(roots, before, strict=True) if first is side] for side in (False, True)
                )
                self._factors.append(tuple(_omegas(share) for share in shares))
                continue
            omegas = _omegas(roots)
            self._factors.append((omegas[:post], omegas[post:]))

    def omegas(self, phase: Phase) -> Sequence[float]:
        """The weights of the sweeps of a phase, in order."""
        up, down = self._factors[phase.cycle % self.period]
        return (*(up if phase.up else ()), *(down if phase.down else ()))

    def apply(self, u: Array | None, f: Array, out: Array, work: Array, phase: Phase) -> Array:
        omegas = self.omegas(phase)
        if self._full or out is work:
            return self._sweep(u, f, out, work, omegas)
        partners = phase.correction, phase.restriction, phase.result
        self._operations.smooth(u, f, out, work, omegas, *partners, phase.short_waves)
        return out

    def _sweep(self, u: Array | None, f: Array, out: Array, work: Array, omegas: Sequence[float]) -> Array:
        """Sweeps one by one between two arrays; they end in `out` without u, and else in u or `out`."""
        if u is None:
            u, out = (out, work) if len(omegas) % 2 else (work, out)
            if omegas:
                self._operations.diagonal_solve(f, u, omegas[0])
            else:
                u = out
                self._operations.backend.fill(u, 0.0)
            omegas = omegas[1:]
        for omega in omegas:
            self._operations.sweep(u, f, out, omega)
            u, out = out, u
        return u


def _beginning(level: Level) -> float:
    """Where the interval of a smoother with a period begins, over the lowest eigenvalue of rough modes."""
    transfer = level.transfer.transfer if level.transfer else None
    in_between = _has_cells(level.operator.lattice) or (transfer is not None and transfer.halves is None)
    return BELOW_IN_BETWEEN if in_between and _coarsened_axes(level) < 3 else ABOVE_THE_ROUGH


def _has_cells(lattice: Lattice) -> bool:
    """Whether an axis has cells."""
    return any(map(has_cells, lattice.axes))


def _coarsened_axes(level: Level) -> int:
    """Along how many axes the next coarser grid has fewer nodes."""
    if level.transfer is None:
        return 0
    coarse, fine = level.transfer.transfer.coarse.lattice.whole.shape, level.operator.lattice.whole.shape
    return sum(n < m for n, m in zip(coarse, fine, strict=True))


def _omegas(roots: Sequence[float]) -> tuple[float, ...]:
    """The weights of the sweeps for the roots of a polynomial, in the same order unless there are many."""
    return tuple(1.0 / root for root in (roots if len(roots) <= MOST_IN_ORDER else stable_order(roots)))


def _spread(level: Level, settings: MultigridSettings, finest: bool) -> Polynomial:
    return Polynomial(level, settings, 1 if settings.symmetric else PERIOD, finest)


CHEBYSHEV = SmootherEntry(name="chebyshev", rank=0, make=_spread)
JACOBI = SmootherEntry(
    name="jacobi", rank=1, make=lambda level, settings, finest: Polynomial(level, settings, 1, finest)
)
