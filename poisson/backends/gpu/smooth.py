"""Several steps of smoothing in few passes over memory: `sweeps`, `smooth` and its parts between grids that halve.

`poisson.backends.gpu.passes` chooses the passes. What does not fit into passes goes the way of `Backend.smooth`, and
grids that do not halve have their tables (`poisson.backends.gpu.transfer`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from poisson.backends.base import Array, Reduction
from poisson.backends.gpu.launch import blocks_for, given, or_null, sizes, strips, varying
from poisson.backends.gpu.passes import Pass, fastest_passes, passes
from poisson.backends.gpu.shapes import (
    LANES,
    MAX_BLOCKS,
    MOST_SWEEPS,
    SMOOTH_SHAPES,
    SMOOTH_STAGES,
    Shape,
    owned_lines,
    with_room,
)
from poisson.backends.gpu.transfer import TransferOperations
from poisson.discrete.operator import Operator
from poisson.discrete.transfer import Transfer
from poisson.mesh.boundary import Rule

ENOUGH_BLOCKS = 512
"""With fewer blocks their march is shortened …"""
SHORTEST_MARCH = {2: 8, 3: 4}
"""… but not below this."""


def halved(transfer: Transfer) -> tuple[bool, ...] | None:
    """Along which axes the coarser grid has every other node; None if it is neither so nor the same along some axis."""
    found = []
    for axis, (fine, coarse) in enumerate(zip(transfer.fine.shape, transfer.coarse.shape, strict=True)):
        wraps = transfer.fine.axis_rules(axis)[0] is Rule.WRAP
        if fine != coarse and fine != (2 * coarse if wraps else 2 * coarse - 1):
            return None
        found.append(fine != coarse)
    return tuple(found)


class SmoothOperations(TransferOperations):
    """Launches of the kernels in blocked.hip and smooth.hip."""

    def restrict(self, transfer: Transfer, fine: Array, coarse: Array) -> None:
        if halved(transfer) is None:
            super().restrict(transfer, fine, coarse)
        else:
            step = Pass(zero=False, correct=False, sweeps=0, residual=False)
            self._pass(transfer.fine, step, (fine, None, None), (), None, (transfer, coarse), None)

    def prolong_add(self, transfer: Transfer, coarse: Array, fine: Array) -> None:
        if halved(transfer) is None:
            super().prolong_add(transfer, coarse, fine)
        else:
            step = Pass(zero=False, correct=True, sweeps=0, residual=False)
            self._pass(transfer.fine, step, (fine, None, fine), (), (transfer, coarse), None, None)

    def depth(self, operator: Operator) -> int:
        return 1 if operator.varies else self.shapes.of("sweeps", operator).depth

    def sweeps(
        self,
        operator: Operator,
        u: Array,
        f: Array | None,
        out: Array,
        weights: Sequence[float],
        result: Reduction | None = None,
    ) -> None:
        if len(weights) == 1:
            self.sweep(operator, u, f, out, weights[0], result)
            return
        shape = replace(self.shapes.of("sweeps", operator), depth=len(weights))
        grid = self._lines_grid(operator, shape, len(weights))
        name = "sweeps" if result is None else "sweeps_norm"
        arguments = (u, or_null(f), out, *self._geometry(operator, u), *self._scales(operator, weights))
        self._reduce("blocked", name, shape, operator, grid, arguments, result, given(f))

    def smooth(
        self,
        operator: Operator,
        u: Array | None,
        f: Array,
        out: Array,
        work: Array,
        weights: Sequence[float],
        correction: tuple[Transfer, Array] | None = None,
        restriction: tuple[Transfer, Array] | None = None,
        result: Reduction | None = None,
    ) -> None:
        fits = bool(weights) if u is None else bool(weights or correction)
        halvings = {halved(pair[0]) for pair in (correction, restriction) if pair}
        fits = fits and not (u is None and correction) and len(halvings) <= 1 and None not in halvings
        if not fits or (operator.varies and operator.dimension == 2):
            super().smooth(operator, u, f, out, work, weights, correction, restriction, result)
            return
        work_to_do = (u is None, correction is not None, len(weights), restriction is not None or result is not None)
        if operator.dimension == 2:
            todo = tuple(passes(*work_to_do, SMOOTH_STAGES))
        else:
            nodes = math.prod(operator.shape)
            todo = fastest_passes(*work_to_do, varies=operator.varies, single=self._width == 4, nodes=nodes)
        left = sum(step.writes for step in todo)
        source, done = u, 0
        for step in todo:
            left -= step.writes
            target = out if left % 2 == 0 else work
            if step == Pass(zero=False, correct=False, sweeps=1, residual=False):
                self.sweep(operator, source, f, target, weights[done])
            elif operator.varies and step.zero:
                self.diagonal_solve(operator, f, target, weights[done])
            else:
                self._pass(
                    operator,
                    step,
                    (source, f, target if step.writes else None),
                    weights[done : done + step.sweeps],
                    correction if step.correct else None,
                    restriction if step.residual else None,
                    result if step.residual else None,
                )
            source, done = target, done + step.sweeps

    def _pass(
        self,
        operator: Operator,
        step: Pass,
        arrays: tuple[Array | None, Array | None, Array | None],
        weights: Sequence[float],
        correction: tuple[Transfer, Array] | None,
        restriction: tuple[Transfer, Array] | None,
        result: Reduction | None,
    ) -> None:
        """Launch the kernel of a pass on (u, f, out)."""
        u, f, out = arrays
        coarser = correction or restriction
        halves = (*((halved(coarser[0]) if coarser else None) or ()), False, False, False)[:3]
        shape = self.smooth_shape(operator, step, halves if restriction else None)
        grid = self._lines_grid(operator, shape, step.stages, halves, restriction is not None)
        defines = (
            *given(f),
            *varying(operator) * (step.stages > 0),
            f"-DZERO={step.zero:d}",
            f"-DCORRECT={correction is not None:d}",
            f"-DRESIDUAL={step.residual:d}",
            f"-DRESTRICT={restriction is not None:d}",
            *(f"-DHALVE_{axis}={along:d}" for axis, along in zip("XYZ", halves, strict=True)),
        )
        arguments = (
            *(or_null(u), or_null(f), or_null(out)),
            *(or_null(correction and correction[1]), or_null(restriction and restriction[1])),
            *(sizes(coarser[0].coarse) if coarser else (np.int32(1),) * 3),
            self._pitch(coarser[1]) if coarser else np.int64(1),
            *self._geometry(operator if step.stages else replace(operator, coefficients=None), f if u is None else u),
            *self._scales(operator, weights),
        )
        name = "smooth" if result is None else "smooth_norm"
        self._reduce("smooth", name, shape, operator, grid, arguments, result, defines)

    def smooth_shape(self, operator: Operator, step: Pass, restricted: Sequence[bool] | None = None) -> Shape:
        """How a pass is cut up: in marches that are long, but leave no part of the device without work.

        Parameters
        ----------
        operator : Operator
            What is smoothed.
        step : Pass
            What the pass does.
        restricted : sequence of bool, optional
            Along x, y and z, whether the grid that something is restricted to has every other node; None: nothing is.
        """
        kind = "varying " * (operator.varies and step.stages > 0) + step.kind
        shape = SMOOTH_SHAPES[operator.dimension, kind][self._width == 2]
        march, shortest, slowest = shape.march, SHORTEST_MARCH[operator.dimension], operator.shape[-1]
        columns = blocks_for(operator.shape[0], LANES * self._width)
        if operator.dimension == 2:
            beside = blocks_for(columns, shape.block_y)
        else:
            shape = with_room(shape, step.stages, restricted)
            beside = columns * blocks_for(operator.shape[1], owned_lines(shape, step.stages, False))
        while march > shortest and beside * blocks_for(slowest, march) < ENOUGH_BLOCKS:
            march //= 2
        march = max(march, blocks_for(slowest, MAX_BLOCKS))
        return replace(shape, march=march + march % 2, depth=step.sweeps)

    def _scales(self, operator: Operator, weights: Sequence[float]) -> tuple[Any, ...]:
        """What kernels of several sweeps take for them, each as an argument of its own."""
        steps = (*(self._step(operator, omega) for omega in weights), *(self._real(0.0),) * MOST_SWEEPS)
        return steps[:MOST_SWEEPS]

    def _lines_grid(
        self, operator: Operator, shape: Shape, stages: int, halves: Sequence[bool] = (False,) * 3, below: bool = False
    ) -> tuple[int, int, int]:
        """The blocks of a pass of so many stages: see kernels/multigrid/passes.h and planes.h.

        Parameters
        ----------
        halves : sequence of bool
            Along which axes a coarser grid has every other node.
        below : bool
            Whether something is restricted to it, for which nodes below those of a block are needed.
        """
        halo = blocks_for(stages + halves[0], self._width) * self._width
        columns = blocks_for(operator.shape[0], LANES * self._width - 2 * halo)
        if operator.dimension == 2:
            return blocks_for(columns, shape.block_y), blocks_for(operator.shape[1], shape.march), 1
        return columns, *strips(operator, shape, owned_lines(shape, stages, below and halves[1]), self.dtype.itemsize)
