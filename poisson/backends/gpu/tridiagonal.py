# SPDX-License-Identifier: MIT
"""Tridiagonal systems along the last axis of a direct solution on a GPU: kernels/transforms/tridiagonal.hip."""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from poisson.backends.base import Array
from poisson.backends.gpu.launch import Launcher, blocks_for
from poisson.backends.gpu.shapes import Shape
from poisson.backends.spectra import Line, free
from poisson.discrete.operator import Operator
from poisson.mesh.boundary import Rule

ROWS = 32
"""Rows of a system that a thread holds in registers."""
THREADS = 512
"""The most threads of a block: their rows fill the registers of half a multiprocessor."""
MODES = (32, 16, 8, 4)
"""Neighbouring modes of a block: as many as there are threads for, or else there are transforms."""


class Tridiagonal:
    """The way from the modes of f to those of u, where the last axis is not transformed.

    `backend`: where the arrays are. `operator`: with constant coefficients. `lines`: those of the axes that are
    transformed. `axis`: the last axis, y or z, one end of which is fixed. `block`: as `block_of_systems` gives it.
    """

    def __init__(self, backend: Launcher, operator: Operator, lines: Sequence[Line], axis: int, block: Shape) -> None:
        self._backend, self._shape = backend, block
        shape = (*operator.shape, 1)[:3]
        strides = (1, backend.pitch_of(shape[0]), backend.pitch_of(shape[0]) * shape[1])
        other = 3 - axis
        spectra = [np.zeros(nodes) for nodes in shape]
        for line in lines:
            spectra[line.axis] = line.spectrum()
        spectra[0] += operator.c
        inner = [free(operator, of) for of in range(operator.dimension)] + [slice(0, 1)]
        rows, stride, rules = inner[axis], strides[axis], operator.rules[2 * axis : 2 * axis + 2]
        # A mirror above is one below where the rows are counted from above.
        mirror, backwards = Rule.MIRROR in rules, rules[1] is Rule.MIRROR
        first = (rows.stop - 1 if backwards else rows.start) * stride
        self._arguments = (
            *(np.int32(shape[0]), np.int64(strides[other])),
            *(np.int64(first), np.int64(-stride if backwards else stride)),
            *(np.int32(end) for part in (inner[0], inner[other]) for end in (part.start, part.stop)),
            *(np.int32(rows.stop - rows.start), np.int32(mirror), *map(self._table, (spectra[0], spectra[other]))),
            *(np.float64(operator.couplings[axis]), np.float64(1.0 / math.prod(line.gain for line in lines))),
        )
        self._grid = (blocks_for(shape[0], block.block_x) * shape[other], 1, 1)

    def __call__(self, source: Array, target: Array, to_modes: bool, to_nodes: bool) -> None:
        assert to_modes and to_nodes  # a system is solved at once
        arguments = (source, target, *self._arguments)
        self._backend.launch("tridiagonal", "tridiagonal", self._shape, None, self._grid, arguments)

    def _table(self, values: NDArray[np.float64]) -> Array:
        """Values on the device in float64, whatever the type of the arrays."""
        table = self._backend.runtime.allocate(values.size, values.dtype)
        self._backend.runtime.upload(values, table)
        return table


def block_of_systems(operator: Operator, last: int) -> Shape | None:
    """The threads of the modes that a block has; None where the last axis is transformed as the others.

    That axis is transformed where none of its ends is fixed, as then one mode may have no solution, and where a system
    has too many rows for the registers of a block.
    """
    axis, rules = operator.lattice.axes[last], operator.rules[2 * last : 2 * last + 2]
    if last == 0 or axis.tabulated or Rule.FIXED not in rules:
        return None
    threads = blocks_for(len(range(axis.nodes)[axis.free]), ROWS)
    modes = next((modes for modes in MODES if modes * threads <= THREADS), None)
    return Shape(modes, threads, 1, rows=ROWS) if modes and threads else None
