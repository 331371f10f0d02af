"""HIP kernels compiled at run time, for NVIDIA and AMD from one source.

The backend knows kernels, launch geometry and arrays; a `Runtime` knows how to compile and launch. The runtime of a
real device is `poisson.backends.gpu.cupy`; the tests run this same class on an emulation. What all launches have in
common is in `poisson.backends.gpu.launch`; the operations of Krylov methods and those between grids have modules of
their own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from poisson.backends.base import Array, Derivative, Reduction
from poisson.backends.gpu import derivative as derivatives
from poisson.backends.gpu.krylov import KrylovOperations
from poisson.backends.gpu.launch import blocks_for, given, or_null, sizes, varying
from poisson.backends.gpu.shapes import REDUCTION_SHAPE, VECTOR_SHAPE
from poisson.backends.gpu.smooth import SmoothOperations
from poisson.backends.gpu.transfer import TransferOperations
from poisson.backends.gpu.transforms import TransformOperations
from poisson.discrete.discretisation import Operator
from poisson.mesh.differences import Differences


class GpuBackend(KrylovOperations, SmoothOperations, TransferOperations, TransformOperations):
    """Every operation as a launch of a kernel. The parameters are those of `poisson.backends.gpu.launch.Launcher`."""

    # ---- stencils

    def laplacian(self, operator: Operator, u: Array, out: Array) -> None:
        arguments = self.stencil_arguments(operator, u, out)
        self._march("stencil", "laplacian", operator, arguments, None, kind="laplacian")

    def boundary_conditions(self, operator: Operator, u: Array, out: Array) -> None:
        shape = VECTOR_SHAPE
        nx, ny, nz = (*operator.shape, 1)[:3]
        if operator.dimension == 2:
            nodes = min(ny, 2) * nx + 2 * max(ny - 2, 0)
        else:
            between = max(nz - 2, 0)
            nodes = min(nz, 2) * nx * ny + min(ny, 2) * nx * between + 2 * max(ny - 2, 0) * between
        grid = (blocks_for(nodes, shape.block_x * shape.block_y), 1, 1)
        arguments = self.stencil_arguments(operator, u, out)
        self._launch("stencil", "boundary_conditions", shape, operator, grid, arguments, varying(operator))

    def residual(
        self, operator: Operator, u: Array, f: Array | None, r: Array, result: Reduction | None = None
    ) -> None:
        name = "residual" if result is None else "residual_norm"
        arguments = (u, or_null(f), r, *self._geometry(operator, u))
        self._march("stencil", name, operator, arguments, result, given(f))

    def sweep(
        self, operator: Operator, u: Array, f: Array | None, out: Array, omega: float, result: Reduction | None = None
    ) -> None:
        name = "sweep" if result is None else "sweep_norm"
        arguments = (u, or_null(f), out, *self._geometry(operator, u), self._step(operator, omega))
        self._march("stencil", name, operator, arguments, result, given(f))

    # ---- vectors

    def update(self, operator: Operator, f: Array | None, au: Array, r: Array, u: Array, omega: float) -> None:
        grid, (nx, rows, pitch) = self._row_grid(u)
        arguments = (or_null(f), au, r, u, nx, rows, pitch, self._step(operator, omega))
        if not operator.varies:
            self._launch("vectors", "update", VECTOR_SHAPE, None, grid, arguments, given(f))
            return
        _, ny, nz, _, *others = self._geometry(operator, u)
        defines = (*given(f), *varying(operator))
        self._launch("vectors", "update", VECTOR_SHAPE, operator, grid, (*arguments, ny, nz, *others), defines)

    def norm(self, operator: Operator, r: Array, result: Reduction) -> None:
        grid, rows = self._row_grid(r, REDUCTION_SHAPE)
        self._reduce("vectors", "norm", REDUCTION_SHAPE, None, grid, (r, *rows), result)

    def dot(self, operator: Operator, x: Array, y: Array, result: Reduction) -> None:
        grid, (nx, rows, pitch) = self._row_grid(x, REDUCTION_SHAPE)
        arguments = (x, y, nx, sizes(operator)[1], rows, pitch)
        self._reduce("vectors", "dot", REDUCTION_SHAPE, operator, grid, arguments, result)

    def fill(self, x: Array, value: float) -> None:
        grid, rows = self._row_grid(x)
        self._launch("vectors", "fill", VECTOR_SHAPE, None, grid, (x, *rows, self._real(value)))

    def axpby(self, a: float, x: Array, b: float, y: Array) -> None:
        grid, rows = self._row_grid(y)
        self._launch("vectors", "axpby", VECTOR_SHAPE, None, grid, (self._real(a), x, self._real(b), y, *rows))

    # ---- first derivatives

    def derivative(self, differences: Differences, axis: int, u: Array, out: Array) -> None:
        self._derivative(derivatives.DEFAULTS[axis], differences, axis, u, out)

    def derivative_variants(self) -> Mapping[str, Derivative]:
        return {name: partial(self._derivative, name) for name in derivatives.VARIANTS}

    def gradient(self, differences: Differences, u: Array, outs: Sequence[Array]) -> None:
        plan = derivatives.gradient(differences, int(self._pitch(u)), self.dtype)
        self._launch_plan(plan, (u, *(*outs, outs[-1])[:3]))

    def _derivative(self, variant: str, differences: Differences, axis: int, u: Array, out: Array) -> None:
        plan = derivatives.derivative(differences, axis, variant, int(self._pitch(u)), self.dtype)
        self._launch_plan(plan, (u, out))

    def _launch_plan(self, plan: derivatives.Plan, arrays: tuple[Array, ...]) -> None:
        arguments = (*arrays, *plan.arguments)
        self._launch("derivative", plan.kernel, plan.shape, None, plan.grid, arguments, plan.defines)
