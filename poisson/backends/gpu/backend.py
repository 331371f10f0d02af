# SPDX-License-Identifier: MIT
"""HIP kernels compiled at run time, for NVIDIA and AMD from one source.

The backend knows kernels, launch geometry and arrays; a `Runtime` knows how to compile and launch. The runtime of a
real device is `poisson.backends.gpu.cupy`; the tests run this same class on an emulation. What all launches have in
common is in `poisson.backends.gpu.launch`, and those for an operator in `poisson.backends.gpu.marches`; the operations
of Krylov methods and those between grids have modules of their own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property, partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from poisson.backends.base import Array, Reduction
from poisson.backends.gpu import derivative as derivatives
from poisson.backends.gpu.callers import TYPES, GivenArray, distances, lies_in_rows
from poisson.backends.gpu.cells import GpuCell
from poisson.backends.gpu.clusters import GpuClusters
from poisson.backends.gpu.device_transforms import GpuTransforms
from poisson.backends.gpu.eigenvectors import GpuEigenvectors
from poisson.backends.gpu.grid_transfer import GpuInterpolation, GpuTransfer
from poisson.backends.gpu.krylov import KrylovOperations
from poisson.backends.gpu.launch import Launcher, Result, blocks_for, given, or_null, sizes
from poisson.backends.gpu.marches import Gathering, mask_of, masked
from poisson.backends.gpu.parts import find
from poisson.backends.gpu.probe import GpuProbe
from poisson.backends.gpu.rows import GpuRows
from poisson.backends.gpu.shapes import DENSE_SHAPE, REDUCTION_SHAPE, VECTOR_SHAPE, WEIGHTS_SHAPE
from poisson.backends.gpu.slabs import GpuSlab
from poisson.backends.gpu.smooth import SmoothOperations
from poisson.backends.gpu.stencils import GpuStencil, GpuStencilTransfer, write_star
from poisson.backends.gpu.tables import tabulated
from poisson.backends.inverses import InverseOperations
from poisson.backends.transfers import DifferenceOperations
from poisson.discrete.clusters import Clusters
from poisson.discrete.discretisation import Operator
from poisson.discrete.full_stencil import FullStencil, StencilTransfer
from poisson.discrete.inverse import DividedInverse, Inverse
from poisson.discrete.sparse_rows import SparseRows
from poisson.discrete.transfer import Interpolation, Transfer
from poisson.mesh.differences import Differences

if TYPE_CHECKING:
    from poisson.discrete.face_fields import FaceFields
    from poisson.discrete.mask import Parts
    from poisson.mesh.lattice import Lattice
    from poisson.mesh.staggered import Staggered

KEPT_NODES = 1 << 21
"""The most nodes of an array that stays where it is from solve to solve: copying it takes less time than some launches,
and a recording that uses it need not be made again."""


class GpuOperations(KrylovOperations, SmoothOperations, Gathering):
    """The operations of an operator."""

    backend: Launcher

    # ---- stencils

    def laplacian(self, u: Array, out: Array) -> None:
        arguments = (u, out, *self.geometry)
        self.march("stencil", "laplacian", arguments, None, kind="laplacian")

    def boundary_conditions(self, u: Array, out: Array) -> None:
        shape = VECTOR_SHAPE
        nx, ny, nz = (*self.operator.shape, 1)[:3]
        if self.operator.dimension == 2:
            nodes = min(ny, 2) * nx + 2 * max(ny - 2, 0)
        else:
            between = max(nz - 2, 0)
            nodes = min(nz, 2) * nx * ny + min(ny, 2) * nx * between + 2 * max(ny - 2, 0) * between
        grid = (blocks_for(nodes, shape.block_x * shape.block_y), 1, 1)
        arguments = (u, out, *self.geometry)
        self.backend.launch("stencil", "boundary_conditions", shape, self.operator, grid, arguments, self.varying)

    def residual(self, u: Array, f: Array | None, r: Array, result: Reduction | None = None) -> None:
        name = "residual" if result is None else "residual_norm"
        arguments = (u, or_null(f), r, *self.geometry)
        self.march("stencil", name, arguments, result, given(f), in_parts=True)

    def residual_at(self, nodes: Any, u: Array, f: Array | None, r: Array) -> None:
        shape, defines = WEIGHTS_SHAPE, (*given(f), *self.varying)
        grid = blocks_for(nodes.size, shape.block_x * shape.block_y), 1, 1
        arguments = (u, or_null(f), r, nodes, np.int32(nodes.size), *self.geometry)
        self.backend.launch("stencil", "residual_at", shape, self.operator, grid, arguments, defines)

    def sweep(self, u: Array, f: Array | None, out: Array, omega: float, result: Reduction | None = None) -> None:
        if result is None:
            self.weighed_sweep(u, f, out, omega, 1.0)
            return
        arguments = (u, or_null(f), out, *self.geometry, self.step(omega))
        self.march("stencil", "sweep_norm", arguments, result, given(f), in_parts=True)

    def certify(self, u: Array, f: Array, work: Array, result: Reduction) -> None:
        if isinstance(f, GivenArray) and f.stays:
            self.certify_given(u, f, None, result)
            return
        arguments, defines = (u, self.settled(f), work, *self.geometry), ("-DKEPT=0",)
        self.march("stencil", "residual_norm", arguments, result, defines, in_parts=True)

    def certify_given(self, u: Array, f: GivenArray, source: Result | None, left: Result) -> None:
        """The norms of f − A u, and with a `source` those of f, which lies in the memory of the caller."""
        blocks = math.prod(self.marched("certify")[1])
        place = (None, None) if source is None else (self.backend.shared.partial_of(blocks, 1), source.argument)
        values = (f.values, *distances(f.values), np.float64(f.shift))
        defines = ("-DKEPT=0", f"-DGIVEN={TYPES[f.values.dtype]}")
        arguments = (u, *values, *self.geometry, *map(or_null, place))
        self.march("stencil", "certify", arguments, left, defines, kind="certify")

    # ---- vectors

    def update(self, f: Array | None, au: Array, r: Array, u: Array, omega: float) -> None:
        grid, (nx, rows, pitch) = self.backend.row_grid(u)
        arguments = (or_null(f), au, r, u, nx, rows, pitch, self.step(omega))
        if self.operator.has_one_diagonal:
            self.backend.launch("vectors", "update", VECTOR_SHAPE, None, grid, arguments, given(f))
            return
        _, ny, nz, _, *others = self.geometry
        defines = (*given(f), *self.varying)
        self.backend.launch(
            "vectors", "update", VECTOR_SHAPE, self.operator, grid, (*arguments, ny, nz, *others), defines
        )

    def norm(self, r: Array, result: Reduction) -> None:
        self.reduce_rows("norm", (r,), r, result)

    def dot(self, x: Array, y: Array, result: Reduction) -> None:
        grid, (nx, rows, pitch) = self.backend.row_grid(x, REDUCTION_SHAPE)
        arguments = (x, y, nx, self.constants[1], rows, pitch, *self.widths)
        defines = tabulated(self.operator)
        self.backend.reduce("vectors", "dot", REDUCTION_SHAPE, self.operator, grid, arguments, result, defines)

    # ---- sources in the memory of the caller

    def take(self, f: Array | GivenArray, out: Array, result: Reduction) -> None:
        values, shift = (self._there(f, out), f.shift) if isinstance(f, GivenArray) else (f, 0.0)
        grid, (nx, rows, pitch) = self.backend.row_grid(out, REDUCTION_SHAPE)
        source = (values, *distances(values), np.float64(shift))
        arguments = (*source, out, nx, self.constants[1], rows, pitch, *mask_of(self.operator))
        defines = (f"-DGIVEN={TYPES[values.dtype]}", *masked(self.operator))
        self.backend.reduce("vectors", "take", REDUCTION_SHAPE, self.operator, grid, arguments, result, defines)

    def integrate(self, f: Array | GivenArray, work: Array | None, result: Reduction) -> None:
        values, shift = (self._there(f, work), f.shift) if isinstance(f, GivenArray) else (f, 0.0)
        grid, (nx, rows, _) = self.backend.row_grid(values, REDUCTION_SHAPE)
        arguments = (values, *distances(values), np.float64(shift), nx, self.constants[1], rows, *self.widths)
        defines = (f"-DGIVEN={TYPES[values.dtype]}", "-DSECOND_SUM=1", *tabulated(self.operator))
        self.backend.reduce("vectors", "integrate", REDUCTION_SHAPE, self.operator, grid, arguments, result, defines)

    def _there(self, f: GivenArray, out: Array | None) -> Array:
        """Values of the caller on the device: where they are, or in `out`, where they are from then on."""
        if not f.on_device:
            self.backend.upload_into(f.values, out)
            f.values, f.on_device = out, True
        return f.values

    def links(self, axis: int, a: Array, harmonic: bool, out: Array) -> None:
        grid, (_, rows, pitch) = self.backend.row_grid(a)
        arguments = (a, out, *sizes(self.operator), rows, pitch)

        def launch(along: int) -> None:
            defines = (f"-DALONG={along}", f"-DHARMONIC={harmonic:d}")
            self.backend.launch("grids", "links", VECTOR_SHAPE, self.operator, grid, arguments, defines)

        self.backend.prepare(*(partial(launch, along) for along in range(self.operator.dimension)))
        launch(axis)


class GpuInverse(InverseOperations):
    """A direct solution by transforms, or by eigenvectors where an axis has no transform."""

    def __init__(self, backend: Launcher, inverse: Inverse) -> None:
        lattice = inverse.operator.lattice
        transformed = lattice.angle is None and all(axis.transform is not None for axis in lattice.axes)
        made = GpuTransforms if transformed else GpuEigenvectors
        self._way = made(backend, inverse.operator, inverse.held)
        self._backend, self._operator = backend, inverse.operator

    def solve(self, f: Array, u: Array) -> None:
        self._way.solve(f, u)

    def solve_from(self, f: Array | GivenArray, work: Array, u: Array, source: Result, left: Result) -> bool:
        if not (isinstance(f, GivenArray) and f.stays and self._way.solve_from(f, work, u)):
            return False
        self._operations.certify_given(u, f, source, left)
        return True

    @cached_property
    def _operations(self) -> GpuOperations:
        operations = self._backend.bind(self._operator)
        assert isinstance(operations, GpuOperations)
        return operations


class GpuDifferences(DifferenceOperations):
    """First derivatives, each a launch that was planned before."""

    backend: Launcher

    def derivative(self, axis: int, u: Array, out: Array) -> None:
        self.in_form(derivatives.DEFAULTS[axis], axis, u, out)

    def in_form(self, form: str, axis: int, u: Array, out: Array) -> None:
        """`derivative` in one of the forms of `poisson.backends.gpu.derivative.VARIANTS`."""
        plan = derivatives.derivative(self.differences, axis, form, self._pitch, self.backend.dtype)
        self._launch(plan, (u, out), [axis])

    def gradient(self, u: Array, outs: Sequence[Array]) -> None:
        plan = derivatives.gradient(self.differences, self._pitch, self.backend.dtype)
        self._launch(plan, (u, *(*outs, outs[-1])[:3]), range(self.differences.dimension))

    @cached_property
    def _tables(self) -> dict[int, Any]:
        """The weights of each tabulated axis on the device, in rows of whole packs."""
        found = {}
        for axis, has in enumerate(self.differences.tabulated):
            if has:
                weights = self.differences.weights(axis)
                found[axis] = self.backend.table(np.pad(weights, ((0, 0), (0, -weights.shape[1] % self.backend.width))))
        return found

    @property
    def _pitch(self) -> int:
        return self.backend.pitch_of(self.differences.shape[0])

    def _launch(self, plan: derivatives.Launch, arrays: tuple[Array, ...], axes: Iterable[int]) -> None:
        tables = (self._tables[axis] for axis in axes if self.differences.tabulated[axis])
        arguments = (*arrays, *plan.arguments, *tables)
        self.backend.launch("derivative", plan.kernel, plan.shape, None, plan.grid, arguments, plan.defines)


class GpuBackend(Launcher):
    """Every operation as a launch of a kernel. The parameters are those of `poisson.backends.gpu.launch.Launcher`."""

    bound = MappingProxyType(
        {
            Operator: GpuOperations,
            Transfer: GpuTransfer,
            Interpolation: GpuInterpolation,
            Differences: GpuDifferences,
            FullStencil: GpuStencil,
            StencilTransfer: GpuStencilTransfer,
            Clusters: GpuClusters,
            SparseRows: GpuRows,
            Inverse: GpuInverse,
            DividedInverse: GpuSlab,
        }
    )

    def probe(self) -> GpuProbe:
        return GpuProbe(self)

    def face_fields(self, far: Operator, faces: Sequence[bool], lattice: Lattice) -> FaceFields:
        from poisson.backends.gpu.faces import GpuFaces
        from poisson.discrete.radial_fields import goes_outwards

        if goes_outwards(far, [face for face, is_open in enumerate(faces) if is_open]):
            return super().face_fields(far, faces, lattice)
        return GpuFaces(self, far, faces)

    def parts(self, operator: Operator, c: Array) -> Parts:
        return find(self, operator, c)

    def star(self, operator: Operator, out: Array) -> bool:
        return write_star(self, operator, out)

    def cell(self, a: Any, harmonic: bool, spacing: tuple[float, ...]) -> GpuCell:
        exact: Any = self.companion(np.float64)
        return GpuCell(exact, a, harmonic, spacing)

    def staggered(self, cells: Staggered) -> Any:
        from poisson.backends.gpu.staggered import GpuStaggered

        return GpuStaggered(self, cells)

    def keeps(self, array_shape: tuple[int, ...]) -> bool:
        return math.prod(array_shape) <= KEPT_NODES

    def give(self, array: Array, back: Callable[[Array], None]) -> Array | None:
        # The memory goes back to CuPy's pool, which the next array comes from.
        return None if self.keeps(array.shape) else array

    def in_place(self, values: Any, refuse: Callable[[], object]) -> GivenArray | None:
        if (on_device := self.runtime.holds(values)) and not lies_in_rows(values):
            return None
        return GivenArray(values, refuse, on_device, values.dtype == self.dtype)

    def fill(self, x: Array, value: float) -> None:
        grid, rows = self.row_grid(x)
        self.launch("vectors", "fill", VECTOR_SHAPE, None, grid, (x, *rows, self.real(value)))

    def rough(self, array_shape: tuple[int, ...]) -> Array:
        grid, rows = self.row_grid(x := self.empty(array_shape))
        self.launch("vectors", "rough", VECTOR_SHAPE, None, grid, (x, *rows))
        return x

    def axpby(self, a: float, x: Array, b: float, y: Array) -> None:
        grid, rows = self.row_grid(y)
        self.launch("vectors", "axpby", VECTOR_SHAPE, None, grid, (self.real(a), x, self.real(b), y, *rows))

    def correct(self, factor: float, x: Array, y: Array) -> None:
        grid, rows = self.row_grid(y)
        arguments = (self.real(factor), x, y, *rows, self.pitch(x))
        self.launch("vectors", "correct", VECTOR_SHAPE, None, grid, arguments)

    def dense(self, matrix: Array, x: Array, y: Array) -> None:
        nx, nodes = x.shape[-1], x.size
        grid = (blocks_for(nodes, DENSE_SHAPE.block_y), 1, 1)
        arguments = (matrix, x, y, np.int32(nx), np.int32(nodes), self.pitch(matrix), self.pitch(x))
        self.launch("vectors", "dense", DENSE_SHAPE, None, grid, arguments)
