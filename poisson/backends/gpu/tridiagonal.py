# SPDX-License-Identifier: MIT
"""Tridiagonal systems along the last axis of a direct solution on a GPU: kernels/transforms/tridiagonal.hip."""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from poisson.backends.base import Array
from poisson.backends.gpu.launch import Launcher, blocks_for, or_null
from poisson.backends.gpu.shapes import Shape
from poisson.backends.slabs import OwnedPlanes
from poisson.backends.spectra import Line, free
from poisson.discrete.operator import Operator
from poisson.mesh.boundary import Rule

ROWS = 32
"""Rows of a system that a thread holds in registers."""
THREADS = 512
"""The most threads of a block: their rows fill the registers of half a multiprocessor."""
MODES = (32, 16, 8, 4)
"""Neighbouring modes of a block: as many as there are threads for, or else there are transforms."""

MIRROR, STORED = 1, 2
"""The flags of the kernel: what is at the ends."""


class Tridiagonal:
    """The way from the modes of f to those of u, where the last axis is not transformed.

    `backend`: where the arrays are. `operator`: with constant coefficients. `lines`: those of the axes that are
    transformed. `axis`: the last axis, y or z, one end of which is known. `block`: as `block_of_systems` gives it.
    `run`: where the axis is divided, the planes of this rank, between separators that are known.
    """

    def __init__(
        self,
        backend: Launcher,
        operator: Operator,
        lines: Sequence[Line],
        axis: int,
        block: Shape,
        run: OwnedPlanes | None = None,
    ) -> None:
        self._backend, self._shape = backend, block
        self._defines = ("-DENDS=1",) if run else ()
        shape = (*operator.shape, 1)[:3]
        strides = (1, backend.pitch_of(shape[0]), backend.pitch_of(shape[0]) * shape[1])
        other = 3 - axis
        spectra = [np.zeros(nodes) for nodes in shape]
        for line in lines:
            spectra[line.axis] = line.spectrum()
        spectra[0] += operator.c
        inner = [free(operator, of) for of in range(operator.dimension)] + [slice(0, 1)]
        rows, stride = inner[axis], strides[axis]
        separators = (run.below, run.above) if run else (False, False)
        count = rows.stop - rows.start - separators[1]
        # A mirror above is one below where the rows are counted from above.
        lower, self._backwards = (
            rule is Rule.MIRROR and not separator
            for rule, separator in zip(operator.rules[2 * axis : 2 * axis + 2], separators, strict=True)
        )
        first = (rows.start + count - 1 if self._backwards else rows.start) * stride
        flags = MIRROR * (lower or self._backwards) + STORED * separators[1]
        self._arguments = (
            *(np.int32(shape[0]), np.int64(strides[other])),
            *(np.int64(first), np.int64(-stride if self._backwards else stride)),
            *(np.int32(end) for part in (inner[0], inner[other]) for end in (part.start, part.stop)),
            *(np.int32(count), np.int32(flags), *(table_of(backend, spectra[of]) for of in (0, other))),
            *(np.float64(operator.couplings[axis]), np.float64(1.0 / math.prod(line.gain for line in lines))),
        )
        self._grid = (blocks_for(shape[0], block.block_x) * shape[other], 1, 1)

    def __call__(self, source: Array, target: Array, to_modes: bool, to_nodes: bool) -> None:
        assert to_modes and to_nodes  # a system is solved at once
        self.between(source, target, None, None, None)

    def between(
        self, source: Array, target: Array, below: Array | None, above: Array | None, line: Array | None
    ) -> None:
        """The same with the values of the modes at the separator below and at the run's own.

        `line`: those of the first mode along the run, if it has a solution of its own.
        """
        ends = (above, below) if self._backwards else (below, above)
        given = (or_null(each) for each in (*ends, line))
        arguments = (source, target, *given, *self._arguments)
        self._backend.launch("tridiagonal", "tridiagonal", self._shape, None, self._grid, arguments, self._defines)


def table_of(backend: Launcher, values: NDArray[np.float64]) -> Array:
    """Values on the device in float64, whatever the type of the arrays."""
    table = backend.runtime.allocate(values.size, values.dtype)
    backend.runtime.upload(values, table)
    return table


def block_of_systems(operator: Operator, last: int) -> Shape | None:
    """The threads of the modes that a block has; None where the last axis is transformed as the others.

    That axis is transformed where none of its ends is fixed, as then one mode may have no solution, and where a system
    has too many rows for the registers of a block.
    """
    axis, rules = operator.lattice.axes[last], operator.rules[2 * last : 2 * last + 2]
    if last == 0 or axis.tabulated or Rule.FIXED not in rules:
        return None
    return block_of(len(range(axis.nodes)[axis.free]))


def block_of(rows: int) -> Shape | None:
    """The threads of a block for systems of so many rows; None where there are too many."""
    threads = max(blocks_for(rows, ROWS), 1)
    modes = next((modes for modes in MODES if modes * threads <= THREADS), None)
    return Shape(modes, threads, 1, rows=ROWS) if modes else None
