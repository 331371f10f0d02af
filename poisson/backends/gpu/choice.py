# SPDX-License-Identifier: MIT
"""The choice of a kernel's shape: the one on trial, the one measured on the device, or the architecture's default."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from poisson.backends.gpu.shapes import (
    DEFAULTS,
    ENOUGH_BLOCKS,
    FEW_ROUNDS,
    MAX_BLOCKS,
    SHORTEST_MARCH,
    SMALL_GRID,
    VARYING,
    Shape,
    for_passes,
    for_tables,
    march_in_rounds,
    nearest,
    with_registers,
)
from poisson.backends.gpu.tuned import Setting, Table

if TYPE_CHECKING:
    from poisson.discrete.discretisation import Operator

BETWEEN_GRIDS = ("interpolate", "interpolate_half", "prolong_add", "restrict")
"""Kinds of kernels that have tables on any axes."""
REDUCING = ("sweep_norm", "certify", "varying_norm", "direction", "varying_direction")
"""Kinds of kernels whose blocks join their sums at the end."""
REDUCTION_STEPS = 8
"""The time that such joining takes, in steps of a march."""


class ShapeChoice:
    """The shapes of the kernels on one device.

    `architecture`: what kernels are compiled for, as in `poisson.backends.gpu.runtime.Runtime`. `dtype`: ``float32`` or
    ``float64``. `table`: what was measured on the device. `trial`: a kind of kernel, and the shape that it has for now.
    """

    def __init__(self, architecture: str, dtype: str, table: Table) -> None:
        self._architecture = architecture
        self._dtype = dtype
        self._table = table
        self.trial: tuple[str, Shape] | None = None

    def of(self, kind: str, operator: Operator) -> Shape:
        """The shape of a kind of kernel, one of `shapes.KINDS` or another, on the grid of an operator."""
        if operator.varies:
            wanted = VARYING.get(kind, kind)
        else:  # a Laplacian with tables marches as a sweep does
            wanted = "sweep" if kind == "laplacian" and operator.lattice.tabulated else kind
        shape = self._wanted(wanted, operator)
        if (operator.lattice.tabulated or operator.fixed) and kind not in BETWEEN_GRIDS:
            alone = not operator.fixed
            if kind == "sweeps" and alone:
                shape = for_passes(shape, operator.dimension)
            else:
                shape = for_tables(shape, operator.dimension) if wanted == "sweep" and alone else with_registers(shape)
        # On a long, thin grid the longest march that the device's limit on blocks asks for.
        lines = MAX_BLOCKS * (shape.block_y if operator.dimension == 2 and kind != "sweeps" else 1)
        return replace(shape, march=max(shape.march, -(-operator.shape[-1] // lines)))

    def default(self, kind: str, operator: Operator) -> Shape:
        """The built-in shape for the architecture and the size of the grid."""
        shape = DEFAULTS[nearest(self._architecture)][kind, operator.dimension]
        if kind in REDUCING:
            # Where coefficients vary, a solve at 257³ took 2.5% longer with whole rounds than with long marches.
            return self._in_rounds(shape, operator, FEW_ROUNDS if kind in VARYING else 1)
        if operator.unknowns >= SMALL_GRID:
            return self._filling(shape, operator) if kind in ("laplacian", "sweep", "varying") else shape
        if kind == "sweeps":
            # A pass of several sweeps would repeat too much of its work on a shorter march.
            return replace(shape, march=min(shape.march, 16))
        return replace(shape, march=1, unroll=1, resident=1)

    def _filling(self, shape: Shape, operator: Operator) -> Shape:
        """A shape of so many blocks that their last round, which leaves much of the device idle, matters little."""
        width = 16 // np.dtype(self._dtype).itemsize
        nodes = shape.block_x * shape.block_y * width
        march = shape.march
        while march > SHORTEST_MARCH and operator.unknowns < ENOUGH_BLOCKS * nodes * march:
            march //= 2
        return replace(shape, march=march)

    def _in_rounds(self, shape: Shape, operator: Operator, rounds: int) -> Shape:
        """A shape of so many blocks as a device holds at once, or a few times as many: each one has its price."""
        width = 16 // np.dtype(self._dtype).itemsize
        columns = -(-operator.shape[0] // (shape.block_x * width))
        rows, slowest = operator.shape[1:-1], operator.shape[-1]

        def blocks(march: int) -> int:
            lines = (*rows, -(-slowest // march))
            return columns * -(-lines[0] // shape.block_y) * math.prod(lines[1:])

        return replace(shape, march=march_in_rounds(shape, slowest, REDUCTION_STEPS, blocks, 2, rounds))

    def origin(self, operator: Operator) -> str:
        """Where the shapes for an operator come from, in words."""
        choice = self._table.get(self.setting(operator))
        if choice is not None:
            return f"measured on {choice.date}"
        known = nearest(self._architecture)
        return f"defaults for {known}" + ("" if known == self._architecture else f", none for {self._architecture}")

    def setting(self, operator: Operator) -> Setting:
        """The setting that shapes measured with an operator hold for."""
        return Setting.of(self._dtype, operator.dimension, math.prod(operator.shape))

    @contextmanager
    def trying(self, kind: str, shape: Shape) -> Iterator[None]:
        """Within, a kind of kernel takes this shape."""
        before, self.trial = self.trial, (kind, shape)
        try:
            yield
        finally:
            self.trial = before

    def _wanted(self, kind: str, operator: Operator) -> Shape:
        if self.trial is not None and self.trial[0] == kind:
            return self.trial[1]
        choice = self._table.get(self.setting(operator))
        measured = None if choice is None else choice.shapes.get(kind)
        return self.default(kind, operator) if measured is None else measured
