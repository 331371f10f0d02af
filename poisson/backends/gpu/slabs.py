# SPDX-License-Identifier: MIT
"""The part of each rank in a direct solution on GPUs where the slowest axis is divided: `poisson.backends.slabs`.

The axes that are whole are transformed as ever. The chains along the divided one are first read as far as the flows
reach that the separators want (kernels/transforms/slab.hip): forty over the angle of a mode, which is some tens of rows
for most. Between the separators they are then solved in registers, as whole axes are (`tridiagonal.py`), so that planes
are read and written once. Longer ones are solved by a thread a mode, which reads and writes them twice.
"""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from poisson.backends.base import Array
from poisson.backends.gpu.device_transforms import TransformLauncher, axis_transform
from poisson.backends.gpu.launch import Launcher, blocks_for, or_null
from poisson.backends.gpu.shapes import Shape
from poisson.backends.gpu.tridiagonal import Tridiagonal, block_of, table_of
from poisson.backends.inverses import DividedInverseOperations
from poisson.backends.slabs import OwnedPlanes, eigenvalues_by_node
from poisson.backends.spectra import Line, free
from poisson.discrete.inverse import DividedInverse
from poisson.errors import GridError
from poisson.mesh.boundary import Rule

SLAB_SHAPE = Shape(128, 1, 1)
"""Threads of a block, with neighbouring modes."""


class GpuSlab(DividedInverseOperations):
    """The part of a rank; what the kernels need is made here.

    Raises `GridError` if an axis is tabulated.
    """

    def __init__(self, backend: Launcher, inverse: DividedInverse) -> None:
        part = inverse.operator
        if part.lattice.tabulated:
            raise GridError(
                "the gpu backend solves directly on several ranks with equally spaced nodes only: use solver.method = "
                "'multigrid' or run.backend = 'openmp'"
            )
        self._run = run = OwnedPlanes(part)
        self._backend = backend
        operator = run.operator
        launcher = TransformLauncher(backend, operator)
        self._faces = TransformLauncher(backend, part)
        lines = [Line(operator, axis) for axis in range(operator.dimension - 1) if operator.couplings[axis]]
        spectra = [np.zeros(nodes) for nodes in (*operator.shape, 1)[:3]]
        for line in lines:
            spectra[line.axis] = line.spectrum()
        spectra[0] += operator.c
        # The kernels of transforms take what would divide the modes, and do not here.
        tables = (*(launcher.table_of(values) for values in spectra), launcher.scalar(1.0))
        self._transforms = [axis_transform(launcher, line, tables) for line in lines]
        block = block_of(run.inner)
        self._systems = Tridiagonal(backend, operator, lines, operator.dimension - 1, block, run) if block else None
        along_y = spectra[1] if operator.dimension == 3 else np.zeros(1)
        self.eigenvalues = eigenvalues_by_node(run, spectra)
        self._arguments = self._constants(spectra[0], along_y, 1.0 / math.prod(line.gain for line in lines))
        nx, *others, _ = operator.shape
        self._grid = (blocks_for(nx, SLAB_SHAPE.block_x) * math.prod(others), 1, 1)
        backend.prepare(self._launch_all)

    def condense(self, f: Array, u: Array, first: Any | None, last: Any | None, line: Any | None) -> None:
        self._faces.take_boundary(f, u)
        own = self._own(f)
        for transform in self._transforms:
            transform(own, own, True, False)
        planes = (or_null(plane) for plane in (first, last, line))
        arguments = (self._unknown(own), *planes, *self._arguments)
        self._backend.launch("slab", "slab_condense", SLAB_SHAPE, None, self._grid, arguments)

    def expand(self, f: Array, u: Array, below: Any | None, above: Any | None, line: Any | None) -> None:
        modes, own = self._own(f), self._own(u)
        if self._systems:
            self._systems.between(modes, own, below, above, line)
        else:
            planes = (or_null(plane) for plane in (below, above, line))
            arguments = (self._unknown(modes), self._unknown(own), *planes, *self._arguments)
            self._backend.launch("slab", "slab_expand", SLAB_SHAPE, None, self._grid, arguments)
        for transform in reversed(self._transforms):
            transform(own, own, False, True)

    def _launch_all(self) -> None:
        none = (None, None, None)
        self.condense(None, None, *none)
        self.expand(None, None, *none)

    def _constants(self, along_x: NDArray[np.float64], along_y: NDArray[np.float64], gain: float) -> tuple[Any, ...]:
        """The arguments SLAB_ARGUMENTS of slab.hip."""
        run, operator = self._run, self._run.operator
        nx, ny = operator.shape[0], along_y.size
        inner = [free(operator, axis) for axis in range(operator.dimension - 1)] + [slice(0, 1)]
        ends = [np.int32(end) for part in inner[:2] for end in (part.start, part.stop)]
        rules = operator.rules[-2:]
        flags = sum(
            flag * bool(chosen)
            for flag, chosen in (
                (1, run.below),
                (2, run.above),
                (4, rules[0] is Rule.MIRROR and not run.below),
                (8, rules[1] is Rule.MIRROR and not run.above),
            )
        )
        pitch = self._backend.pitch_of(nx)
        rows = run.unknowns.stop - run.unknowns.start
        sizes = (np.int32(nx), np.int32(ny), np.int64(pitch), np.int64(pitch * ny))
        spectra = (table_of(self._backend, along_x), table_of(self._backend, along_y))
        return (*sizes, *ends, np.int32(rows), np.int32(flags), *spectra, np.float64(run.coupling), np.float64(gain))

    def _own(self, array: Array) -> Array:
        """The planes that are owned; None where kernels are made ready."""
        return None if array is None else array[self._run.rows]

    def _unknown(self, own: Array) -> Array:
        return None if own is None else own[self._run.unknowns]
