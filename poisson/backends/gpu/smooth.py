# SPDX-License-Identifier: MIT
"""Several steps of smoothing in few passes over memory: `sweeps`, `smooth` and its parts between grids that halve.

`poisson.backends.gpu.passes` chooses the passes. What does not fit into passes goes the way of `Operations.smooth`, and
grids that do not halve have their tables (`poisson.backends.gpu.grid_transfer`).
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from poisson.backends.base import Array, Operations, Reduction
from poisson.backends.gpu.launch import Launcher, blocks_for, given, or_null
from poisson.backends.gpu.marches import OperatorLauncher, mask_of, masked, strips
from poisson.backends.gpu.overlap import Cut, Grid
from poisson.backends.gpu.passes import FIRST, FIRST_TWO, RESIDUAL, SWEEP, Pass, fastest_passes, passes
from poisson.backends.gpu.shapes import (
    LANES,
    MAX_BLOCKS,
    MOST_SWEEPS,
    SMALL_GRID,
    SMOOTH_SHAPES,
    SMOOTH_STAGES,
    Shape,
    for_passes,
    march_in_rounds,
    owned_lines,
    shared_bytes,
    with_room,
)
from poisson.backends.transfers import TransferOperations
from poisson.discrete.operator import Operator
from poisson.discrete.transfer import Transfer
from poisson.mesh.boundary import Rule

ENOUGH_BLOCKS = 512
"""With fewer blocks their march is shortened in 2D."""
SHORTEST_MARCH = 2
"""The shortest march of a pass."""

Coarser = tuple[TransferOperations, Array]


def seen_from_fine(between: TransferOperations, coarse: Array) -> tuple[Array, tuple[Any, ...]]:
    """The part of a coarse array that makes a plain pair with the fine grid, and the rows of its planes if it has more.

    Where the grids are not divided this is the array.
    """
    return _windowed(between.transfer, coarse)


def _windowed(transfer: Transfer, coarse: Array) -> tuple[Array, tuple[Any, ...]]:
    if not transfer.fine.lattice.divided:
        return coarse, ()
    window = coarse[transfer.window]
    more = coarse.ndim == 3 and window.shape[1] < coarse.shape[1]
    return window, (np.int32(coarse.shape[1]),) * more


class Plan(NamedTuple):
    """The launch of a pass, whose arrays alone are others each time.

    `between`: the transfers that it was made for. `name`, `shape`, `grid`, `defines`, `cut`: what is launched, and how.
    `behind`: the arguments behind the arrays. `shared_bytes`: of a block.
    """

    between: tuple[Transfer | None, Transfer | None]
    name: str
    shape: Shape
    grid: Grid
    defines: tuple[str, ...]
    cut: Cut
    behind: tuple[Any, ...]
    shared_bytes: int


class PassLauncher(OperatorLauncher):
    """Launches of passes over memory on the grid of an operator."""

    @cached_property
    def plans(self) -> dict[Any, Plan]:
        """The launches by what a pass does: to plan one takes Python several times as long as to launch it."""
        return {}

    def rebind(self, operator: Operator) -> None:
        super().rebind(operator)
        self.plans.clear()

    @property
    def wide(self) -> tuple[str, ...]:
        """The macro that says that a plane has more values than 32 bits count."""
        nx, *lines, _ = self.operator.shape
        return ("-DWIDE_PLANES=1",) * (self.backend.pitch_of(nx) * math.prod(lines) >= 1 << 32)

    def run(
        self,
        step: Pass,
        arrays: tuple[Array | None, Array | None, Array | None],
        omegas: Sequence[float],
        correction: Coarser | None,
        restriction: Coarser | None,
        result: Reduction | None,
        source_weight: float | None = None,
    ) -> None:
        """Launch the kernel of a pass on (u, f, out).

        `source_weight`: what the last sweep multiplies f by, in a pass without a residual; None for a kernel that
        multiplies it by nothing and may take fewer registers.
        """
        u, f, out = arrays
        above, below = (pair and seen_from_fine(*pair) for pair in (correction, restriction))
        between = correction and correction[0].transfer, restriction and restriction[0].transfer
        absent = (each is None for each in (u, correction, restriction, f, result))
        key = (step, *omegas, source_weight, *absent)
        plan = self.plans.get(key)
        if plan is None or plan.between[0] is not between[0] or plan.between[1] is not between[1]:
            coarser, coarse = correction or restriction, above or below
            self.plans[key] = plan = self._plan(step, u, f, omegas, source_weight, between, coarser, coarse, result)
        arguments = (
            *(or_null(u), or_null(f), or_null(out)),
            *(or_null(above and above[0]), or_null(below and below[0])),
            *plan.behind,
        )
        self.reduce(
            "smooth", plan.name, plan.shape, plan.grid, arguments, result, plan.defines, plan.cut, plan.shared_bytes
        )

    def _plan(
        self,
        step: Pass,
        u: Array | None,
        f: Array | None,
        omegas: Sequence[float],
        source_weight: float | None,
        between: tuple[Transfer | None, Transfer | None],
        coarser: Coarser | None,
        seen: tuple[Array, tuple[Any, ...]] | None,
        result: Reduction | None,
    ) -> Plan:
        correction, restriction = between
        halves = (*((coarser[0].transfer.halves if coarser else None) or ()), False, False, False)[:3]
        coarse, rows = seen or (None, ())
        held = mask_of(restriction.coarse) if restriction else ()
        shape = self.smooth_shape(step, halves if restriction else None)
        grid = self.lines_grid(shape, step.stages, halves, restriction is not None)
        weights = coarser[0].weights if coarser else {}  # type: ignore[attr-defined]  # of this backend
        relaxes = step.stages > 0 or step.zero
        defines = (
            *given(f),
            *(self.varying if relaxes else masked(self.operator)),
            f"-DZERO={step.zero:d}",
            *("-DBLANK=1",) * (u is None and step.correct),
            f"-DCORRECT={correction is not None:d}",
            f"-DRESIDUAL={step.residual:d}",
            f"-DRESTRICT={restriction is not None:d}",
            *(f"-DHALVE_{axis}={along:d}" for axis, along in zip("XYZ", halves, strict=True)),
            *self.wide,
            *("-DWEIGHS_SOURCE=1",) * (source_weight is not None),
            *("-DCOARSE_WINDOW=1",) * len(rows),
            *("-DCOARSE_MASKED=1",) * len(held),
            *(f"-DWEIGHTED={sum(1 << axis for axis in weights)}",) * bool(weights),
        )
        behind = (
            *((np.int32(1),) * 3 if coarse is None else map(np.int32, (*coarse.shape[::-1], 1)[:3])),
            np.int64(1) if coarse is None else self.backend.pitch(coarse),
            *rows,
            *(_windowed(restriction, mask)[0] for mask in held if restriction),
            *weights.values(),
            *(self.geometry if relaxes else (*self.constants, *mask_of(self.operator))),
            *self.scales(omegas),
            self.backend.real(source_weight or 0.0),
        )
        name = "smooth" if result is None else "smooth_norm"
        cut = self.cut(shape, step.stages, restriction is not None and halves[1])
        shared, tile = self.tile(shape, step.stages, halves if restriction else None)
        return Plan(between, name, shape, grid, (*defines, *tile), cut, behind, shared)

    def tile(self, shape: Shape, stages: int, restricted: Sequence[bool] | None = None) -> tuple[int, tuple[str, ...]]:
        """Bytes of shared memory that a launch gives a block (`shapes.shared_bytes`), and the macro with them."""
        if self.operator.dimension == 2:
            return 0, ()
        found = shared_bytes(shape, stages, restricted)
        return found, (f"-DSHARED_BYTES={found}",)

    def smooth_shape(self, step: Pass, restricted: Sequence[bool] | None = None) -> Shape:
        """How a pass is cut up: in marches that are long, but leave no part of the device without work.

        `step`: what the pass does. `restricted`: along x, y and z, whether the grid that something is restricted to has
        every other node; None: nothing is.
        """
        kind = "varying " * (self.operator.varies and step.stages > 0) + step.kind
        shapes = SMOOTH_SHAPES[self.operator.dimension, kind]
        images = any(rule in (Rule.MIRROR, Rule.WRAP) for rule in self.operator.lattice.rules[:2])
        shape = shapes[(self.backend.width == 2) + 2 * (images and len(shapes) > 2)]
        if self.operator.lattice.tabulated and (step.stages > 0 or step.zero):
            shape = for_passes(shape, self.operator.dimension)
        elif self.operator.fixed and step.stages == 0:
            shape = replace(shape, resident=max(1, shape.resident - 1))  # a mask takes some registers
        slowest = self.operator.shape[-1]
        shortest = max(SHORTEST_MARCH, blocks_for(slowest, MAX_BLOCKS))

        def blocks(march: int) -> int:
            halves = restricted or (False,) * 3
            return math.prod(self.lines_grid(replace(shape, march=march), step.stages, halves, restricted is not None))

        if self.operator.dimension == 3:
            if step.stages > 1 and shape.rows > 1 and math.prod(self.operator.shape) < SMALL_GRID:
                # Few warps then wait for one another.
                shape = replace(shape, block_y=shape.block_y // 2, resident=2 * shape.resident)
            shape = with_room(shape, step.stages, restricted, self.backend.runtime.shared_bytes)
            march = march_in_rounds(shape, slowest, 2 * step.stages + 2, blocks, shortest)
        else:
            march = max(shape.march, shortest)
            while march > shortest and blocks(march) < ENOUGH_BLOCKS:
                march //= 2
        return replace(shape, march=march + march % 2, depth=step.sweeps)

    def scales(self, omegas: Sequence[float]) -> tuple[Any, ...]:
        """The arguments of kernels for several sweeps, one for each sweep."""
        steps = (*(self.step(omega) for omega in omegas), *(self.backend.real(0.0),) * MOST_SWEEPS)
        return steps[:MOST_SWEEPS]

    def lines_grid(
        self, shape: Shape, stages: int, halves: Sequence[bool] = (False,) * 3, below: bool = False
    ) -> tuple[int, int, int]:
        """The blocks of a pass of so many stages: see kernels/multigrid/passes.h and planes.h.

        `halves`: along which axes a coarser grid has every other node. `below`: whether something is restricted to it,
        for which nodes below those of a block are needed.
        """
        halo = blocks_for(stages + halves[0], self.backend.width) * self.backend.width
        columns = blocks_for(self.operator.shape[0], LANES * self.backend.width - 2 * halo)
        if self.operator.dimension == 2:
            return blocks_for(columns, shape.block_y), blocks_for(self.operator.shape[1], shape.march), 1
        owned = owned_lines(shape, stages, below and halves[1])
        return columns, *strips(self.operator, shape, owned, self.backend.dtype.itemsize)

    def cut(self, shape: Shape, stages: int, halves: bool = False) -> Cut:
        """The nodes that a block owns; between two grids a stage more, and the coarse node beside it, are needed."""
        lines = owned_lines(shape, stages, halves) if self.operator.dimension == 3 else 0
        return Cut(shape.march, lines, stages + 2)


class SmoothOperations(PassLauncher, Operations):
    """Several sweeps in one pass, and half a level of multigrid in few.

    `inverse` (Array or None): one over the diagonal, zero at fixed nodes, where it varies and was asked for.
    """

    backend: Launcher
    inverse: Array | None = None

    def rebind(self, operator: Operator) -> None:
        super().rebind(operator)
        self.inverse = None

    def two_sweeps(self, f: Array, out: Array, omegas: Sequence[float]) -> None:
        """out = u after two sweeps from zero, with `inverse`."""
        arguments = (f, or_null(self.inverse), out, *self.geometry, *map(self.step, omegas))
        self.march("krylov", "two_sweeps", arguments, None)

    def _sweep_from_zero(self, f: Array, out: Array, work: Array, omegas: Sequence[float]) -> int:
        if len(omegas) < 2 or not self._has_inverse(work):
            return super()._sweep_from_zero(f, out, work, omegas)
        self.two_sweeps(f, out, omegas[:2])
        return 2

    def _has_inverse(self, work: Array) -> bool:
        """Whether there is that array. It is made here, in `work` too, but not while launches are recorded."""
        if not self.operator.varies or self.operator.lattice.divided or self.backend.shared.recording:
            return False
        if self.inverse is None:
            inverse = self.backend.empty(self.operator.array_shape)
            self.backend.fill(work, 1.0)
            self.diagonal_solve(work, inverse, 1.0)
            self.inverse = inverse if self.backend.launching else None
        return True

    def depth(self) -> int:
        return 1 if self.operator.varies else self.backend.shapes.of("sweeps", self.operator).depth

    def weighed_sweep(self, u: Array, f: Array | None, out: Array, omega: float, source_weight: float) -> None:
        """A sweep that multiplies f by a weight."""
        arguments = (u, or_null(f), out, *self.geometry, self.step(omega), self.backend.real(source_weight))
        self.march("stencil", "sweep", arguments, None, given(f), in_parts=True)

    def sweeps(
        self, u: Array, f: Array | None, out: Array, omegas: Sequence[float], result: Reduction | None = None
    ) -> None:
        if len(omegas) == 1:
            self.sweep(u, f, out, omegas[0], result)
            return
        shape = replace(self.backend.shapes.of("sweeps", self.operator), depth=len(omegas))
        grid = self.lines_grid(shape, len(omegas))
        name = "sweeps" if result is None else "sweeps_norm"
        arguments = (u, or_null(f), out, *self.geometry, *self.scales(omegas))
        shared, tile = self.tile(shape, len(omegas))
        defines, cut = (*given(f), *self.varying, *self.wide, *tile), self.cut(shape, len(omegas))
        self.reduce("blocked", name, shape, grid, arguments, result, defines, cut, shared)

    def _relax(self, u: Array, f: Array, out: Array, omegas: Sequence[float], short_waves: float) -> None:
        if not short_waves or omegas[-1] == 0.0:
            super()._relax(u, f, out, omegas, short_waves)
            return
        weight, count = _source_weight(omegas, short_waves), len(omegas)
        if count == 1:
            self.weighed_sweep(u, f, out, omegas[0], weight)
        else:
            self.run(Pass(False, False, count, False), (u, f, out), omegas, None, None, None, weight)

    def smooth(
        self,
        u: Array | None,
        f: Array,
        out: Array,
        work: Array,
        omegas: Sequence[float],
        correction: Coarser | None = None,
        restriction: Coarser | None = None,
        result: Reduction | None = None,
        short_waves: float = 0.0,
    ) -> None:
        zero, residual = u is None and correction is None, restriction is not None or result is not None
        transfers = [pair[0].transfer for pair in (correction, restriction) if pair]
        fits = bool(omegas or correction) and all(each.window is not None for each in transfers)
        fits = fits and (len(transfers) < 2 or _alike(*transfers))
        weighs = bool(omegas) and omegas[-1] != 0.0 and not zero and not residual
        fits = fits and (weighs or not short_waves)
        if not fits or (self.operator.varies and self.operator.dimension == 2):
            super().smooth(u, f, out, work, omegas, correction, restriction, result, short_waves)
            return
        work_to_do = (zero, correction is not None, len(omegas), residual)
        if self.operator.dimension == 2:
            todo = tuple(passes(*work_to_do, SMOOTH_STAGES))
        else:
            nodes = math.prod(self.operator.shape)
            todo = fastest_passes(*work_to_do, varies=self.operator.varies, single=self.backend.width == 4, nodes=nodes)
        apart = self.operator.dimension == 3 and math.prod(self.operator.shape) < SMALL_GRID
        apart = apart and not self.operator.lattice.divided
        if todo[:2] == (FIRST, SWEEP) and self._has_inverse(work):
            todo = (FIRST_TWO, *todo[2:])
        left = sum(step.writes for step in todo)
        source, done = u, 0
        for step in todo:
            left -= step.writes
            target = out if left % 2 == 0 else work
            # All that end with a sweep weigh f: some that do not would be further kernels to compile.
            weight = _source_weight(omegas, short_waves) if weighs and not left else None
            if step == SWEEP:
                self.weighed_sweep(source, f, target, omegas[done], 1.0 if weight is None else weight)
            elif step == RESIDUAL and apart:
                # Two kernels whose threads wait for little take less than a march that waits for each plane.
                self.residual(out, f, work, result)
                if restriction:
                    restriction[0].restrict(work, restriction[1])
            elif step == FIRST and (apart or self.operator.varies):
                self.diagonal_solve(f, target, omegas[done])
            elif step == FIRST_TWO and self.operator.varies:
                self.two_sweeps(f, target, omegas[:2])
            else:
                self.run(
                    step,
                    (source, f, target if step.writes else None),
                    omegas[done : done + step.sweeps],
                    correction if step.correct else None,
                    restriction if step.residual else None,
                    result if step.residual else None,
                    weight,
                )
            source, done = target, done + step.sweeps


def _source_weight(omegas: Sequence[float], short_waves: float) -> float:
    """The factor of f in the last sweep: ω (f − A u) + short_waves f is ω (factor f − A u)."""
    return 1.0 + short_waves / omegas[-1] if short_waves else 1.0


def _alike(one: Transfer, other: Transfer) -> bool:
    """Whether a pass can go both ways, which knows one coarse grid."""
    return one is other or (one.halves == other.halves and one.coarse.lattice == other.coarse.lattice)
