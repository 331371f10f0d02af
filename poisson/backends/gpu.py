"""HIP kernels compiled at run time, for NVIDIA and AMD from one source.

The backend knows kernels, launch geometry and arrays; a `Runtime` knows how to compile and launch. The runtime of a
real device is `poisson.backends.cupy`; the tests run this same class on an emulation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from poisson import kernels
from poisson.backends import gpu_derivative
from poisson.backends.base import Array, Backend, Derivative, Reduction, Slab
from poisson.backends.choice import ShapeChoice
from poisson.backends.runtime import Event, Kernel, Runtime
from poisson.backends.shapes import MAX_BLOCKS, PEAK_SHAPE, REDUCTION_SHAPE, VECTOR_SHAPE, Shape
from poisson.backends.tuned import Device, Table
from poisson.boundary import FACE_NAMES, Rule
from poisson.differences import Differences
from poisson.discretisation import Operator
from poisson.errors import ResourceError
from poisson.grid import slabs
from poisson.transfer import Transfer

ROW_BYTES = 256
"""Rows start at multiples of this: 16-byte accesses stay aligned for every size, and rows begin with a cache line."""

CHAINS = 8
"""Chains of multiply-adds in a thread of the yardstick of arithmetic, as in peak.hip."""


@dataclass
class Result:
    """Where a reduction leaves its results: as a kernel argument, as the host sees them, and the mark to wait for."""

    argument: Any
    values: Any
    ready: Event
    marked: bool = False


class GpuBackend(Backend):
    """Arrays are views of padded device arrays; operations are kernel launches on one stream.

    Parameters
    ----------
    dtype : numpy dtype
        float32 or float64.
    runtime : Runtime
        The device.
    table : mapping
        Shapes of kernels that were measured on it, as `poisson.backends.tuned.read` gives them.
    """

    name = "gpu"

    def __init__(
        self,
        dtype: np.dtype[Any] | type[np.floating[Any]],
        runtime: Runtime,
        table: Table = MappingProxyType({}),
    ) -> None:
        super().__init__(dtype)
        self.device = runtime.name
        self.architecture = runtime.architecture
        self.shapes = ShapeChoice(runtime.architecture, self.dtype.name, table)
        self._runtime = runtime
        self._width = 16 // self.dtype.itemsize
        self._kernels: dict[tuple[Any, ...], Kernel] = {}
        self._tables: dict[Transfer, tuple[tuple[Any, ...], tuple[Any, ...]]] = {}
        self._partial = self._partial_results(2)
        self._launching = True

    # ---- memory

    def empty(self, array_shape: tuple[int, ...]) -> Array:
        multiple = ROW_BYTES // self.dtype.itemsize
        pitch = -(-array_shape[-1] // multiple) * multiple
        padded = (*array_shape[:-1], pitch)
        flat = self._runtime.allocate(int(np.prod(padded, dtype=np.int64)), self.dtype)
        return flat.reshape(padded)[..., : array_shape[-1]]

    def from_host(self, values: NDArray[Any]) -> Array:
        array = self.empty(values.shape)
        self._runtime.upload(np.ascontiguousarray(values, dtype=self.dtype), array)
        return array

    def to_host(self, array: Array) -> NDArray[Any]:
        return self._runtime.download(array)

    def assemble(self, array_shape: tuple[int, ...], slab: Slab) -> Array:
        array = self.empty(array_shape)
        with self._runtime.in_order():
            for start, stop in slabs(array_shape, limit=1 << 24):
                array[start:stop] = slab(self._runtime.xp, start, stop)
        return array

    def synchronize(self) -> None:
        self._runtime.synchronize()

    def memory(self) -> tuple[int, int]:
        return self._runtime.memory()

    def stream(self, count: int) -> tuple[Callable[[], None], float]:
        x, y = (self._runtime.allocate(count, np.dtype(np.float64)) for _ in range(2))
        with self._runtime.in_order():
            x[...] = 1.0

        def copy() -> None:
            self._runtime.copy(x, y)

        return copy, 16.0 * count

    def arithmetic(self, count: int) -> tuple[Callable[[], None], float]:
        shape = PEAK_SHAPE
        blocks = _blocks(count, CHAINS * shape.march * shape.block_x)
        out = self._runtime.allocate(blocks * shape.block_x, self.dtype)
        arguments = (out, self._real(0.5), self._real(1.0), np.int32(shape.march))

        def multiply_adds() -> None:
            self._launch("peak", "multiply_adds", shape, None, (blocks, 1, 1), arguments)

        return multiply_adds, 2.0 * CHAINS * shape.march * shape.block_x * blocks

    def reduction(self) -> Result:
        return Result(*self._runtime.allocate_shared(2), self._runtime.event())

    def mark(self, result: Result) -> None:
        result.ready.record()
        result.marked = True

    def read(self, result: Result) -> tuple[float, float]:
        if result.marked:
            result.ready.wait()
        else:
            self._runtime.synchronize()
        result.marked = False
        return float(result.values[0]), float(result.values[1])

    def seconds(self, call: Callable[[], None]) -> float:
        start, stop = self._runtime.event(), self._runtime.event()
        start.record()
        call()
        stop.record()
        stop.wait()
        return stop.since(start)

    @property
    def identity(self) -> Device:
        """What shapes measured here hold for."""
        return Device.of(self._runtime)

    def tuning(self, operator: Operator) -> str:
        return self.shapes.origin(operator)

    def capture(self, function: Callable[[], None]) -> Callable[[], None]:
        # Compiling, loading and allocating are not allowed while a graph is recorded: a first pass does them.
        self._launching = False
        try:
            function()
        finally:
            self._launching = True
        replay, partial = self._runtime.capture(function), self._partial

        def replay_with_buffer() -> None:
            _ = partial  # recorded by address: it must outlive a later, larger buffer
            replay()

        return replay_with_buffer

    # ---- stencils

    def laplacian(self, operator: Operator, u: Array, out: Array) -> None:
        shape = self.shapes.of("laplacian", operator)
        grid = self._march_grid(operator, shape)
        self._launch("stencil", "laplacian", shape, operator, grid, (u, out, *self._geometry(operator, u)))

    def boundary_conditions(self, operator: Operator, u: Array, out: Array) -> None:
        shape = VECTOR_SHAPE
        nodes = np.prod(operator.shape, dtype=np.int64) - np.prod([n - 2 for n in operator.shape], dtype=np.int64)
        grid = (_blocks(int(nodes), shape.block_x * shape.block_y), 1, 1)
        self._launch("stencil", "boundary_conditions", shape, operator, grid, (u, out, *self._geometry(operator, u)))

    def residual(
        self, operator: Operator, u: Array, f: Array | None, r: Array, result: Reduction | None = None
    ) -> None:
        self._march("residual", operator, (u, f, r), (), result)

    def sweep(
        self, operator: Operator, u: Array, f: Array | None, out: Array, omega: float, result: Reduction | None = None
    ) -> None:
        self._march("sweep", operator, (u, f, out), (self._real(omega / operator.diagonal),), result)

    def depth(self, operator: Operator) -> int:
        return self.shapes.of("sweeps", operator).depth

    def sweeps(
        self,
        operator: Operator,
        u: Array,
        f: Array | None,
        out: Array,
        omega: float,
        count: int,
        result: Reduction | None = None,
    ) -> None:
        if count == 1:
            self.sweep(operator, u, f, out, omega, result)
            return
        shape = replace(self.shapes.of("sweeps", operator), depth=count)
        grid = self._blocked_grid(operator, shape)
        scalars = (self._real(omega / operator.diagonal),)
        self._stencil("blocked", "sweeps", shape, operator, grid, (u, f, out), scalars, result)

    # ---- vectors

    def update(self, operator: Operator, f: Array | None, au: Array, r: Array, u: Array, omega: float) -> None:
        scale = self._real(omega / operator.diagonal)
        grid, rows = self._row_grid(u)
        arguments = (_or_null(f), au, r, u, *rows, scale)
        self._launch("vectors", "update", VECTOR_SHAPE, None, grid, arguments, _source(f))

    def norm(self, operator: Operator, r: Array, result: Reduction) -> None:
        grid, rows = self._row_grid(r, REDUCTION_SHAPE)
        self._reduce("vectors", "norm", REDUCTION_SHAPE, None, grid, (r, *rows), result)

    def dot(self, operator: Operator, x: Array, y: Array, result: Reduction) -> None:
        grid, (nx, rows, pitch) = self._row_grid(x, REDUCTION_SHAPE)
        arguments = (x, y, nx, np.int32(operator.shape[1]), rows, pitch)
        self._reduce("vectors", "dot", REDUCTION_SHAPE, operator, grid, arguments, result)

    def fill(self, x: Array, value: float) -> None:
        grid, rows = self._row_grid(x)
        self._launch("vectors", "fill", VECTOR_SHAPE, None, grid, (x, *rows, self._real(value)))

    def axpby(self, a: float, x: Array, b: float, y: Array) -> None:
        grid, rows = self._row_grid(y)
        self._launch("vectors", "axpby", VECTOR_SHAPE, None, grid, (self._real(a), x, self._real(b), y, *rows))

    # ---- between grids

    def restrict(self, transfer: Transfer, fine: Array, coarse: Array) -> None:
        coarse_shape = _sizes(transfer.coarse)
        arguments = (
            *(fine, coarse, np.int32(transfer.fine.shape[1]), self._pitch(fine)),
            *(*coarse_shape, self._pitch(coarse), *self._transfer_tables(transfer)[0]),
        )
        self._transfer("restrict", transfer.coarse, arguments)

    def prolong_add(self, transfer: Transfer, coarse: Array, fine: Array) -> None:
        arguments = (
            *(coarse, fine, np.int32(transfer.coarse.shape[1]), self._pitch(coarse)),
            *(*_sizes(transfer.fine), self._pitch(fine), *self._transfer_tables(transfer)[1]),
        )
        self._transfer("prolong_add", transfer.fine, arguments)

    # ---- first derivatives

    def derivative(self, differences: Differences, axis: int, u: Array, out: Array) -> None:
        self._derivative(gpu_derivative.DEFAULTS[axis], differences, axis, u, out)

    def derivative_variants(self) -> Mapping[str, Derivative]:
        return {name: partial(self._derivative, name) for name in gpu_derivative.VARIANTS}

    def gradient(self, differences: Differences, u: Array, outs: Sequence[Array]) -> None:
        plan = gpu_derivative.gradient(differences, int(self._pitch(u)), self.dtype)
        self._launch_plan(plan, (u, *(*outs, outs[-1])[:3]))

    def _derivative(self, variant: str, differences: Differences, axis: int, u: Array, out: Array) -> None:
        plan = gpu_derivative.derivative(differences, axis, variant, int(self._pitch(u)), self.dtype)
        self._launch_plan(plan, (u, out))

    def _launch_plan(self, plan: gpu_derivative.Plan, arrays: tuple[Array, ...]) -> None:
        arguments = (*arrays, *plan.arguments)
        self._launch("derivative", plan.kernel, plan.shape, None, plan.grid, arguments, plan.defines)

    # ---- launching

    def _march(
        self,
        name: str,
        operator: Operator,
        arrays: tuple[Array, Array | None, Array],
        scalars: tuple[Any, ...],
        result: Result | None,
    ) -> None:
        shape = self.shapes.of("sweep" if result is None else "sweep_norm", operator)
        self._stencil("stencil", name, shape, operator, self._march_grid(operator, shape), arrays, scalars, result)

    def _stencil(
        self,
        source: str,
        name: str,
        shape: Shape,
        operator: Operator,
        grid: tuple[int, int, int],
        arrays: tuple[Array, Array | None, Array],
        scalars: tuple[Any, ...],
        result: Result | None,
    ) -> None:
        """Launch a kernel on (u, f, out), the one with a norm if there is a place for its result."""
        u, f, out = arrays
        arguments = (u, _or_null(f), out, *self._geometry(operator, u), *scalars)
        if result is None:
            self._launch(source, name, shape, operator, grid, arguments, _source(f))
        else:
            self._reduce(source, f"{name}_norm", shape, operator, grid, arguments, result, _source(f))

    def _transfer(self, name: str, operator: Operator, arguments: tuple[Any, ...]) -> None:
        shape = VECTOR_SHAPE
        nx, ny, nz = (int(n) for n in _sizes(operator))
        grid = (_blocks(nx, shape.block_x), _blocks(ny, shape.block_y), nz)
        self._launch("transfer", name, shape, operator, grid, arguments)

    def _reduce(
        self,
        source: str,
        name: str,
        shape: Shape,
        operator: Operator | None,
        grid: tuple[int, int, int],
        arguments: tuple[Any, ...],
        result: Result,
        defines: tuple[str, ...] = (),
    ) -> None:
        """Launch a kernel with a reduction, which needs room for a counter and the part of each block."""
        needed = 2 + 2 * grid[0] * grid[1] * grid[2]
        if self._partial.size < needed:
            self._partial = self._partial_results(needed)
        arguments = (*arguments, self._partial, result.argument)
        self._launch(source, name, shape, operator, grid, arguments, defines)

    def _partial_results(self, count: int) -> Any:
        self._runtime.synchronize()
        partial = self._runtime.allocate(count, np.dtype(np.float64))
        self._runtime.upload(np.zeros(count), partial)
        return partial

    def _launch(
        self,
        source: str,
        name: str,
        shape: Shape,
        operator: Operator | None,
        grid: tuple[int, int, int],
        arguments: tuple[Any, ...],
        defines: tuple[str, ...] = (),
    ) -> None:
        if max(grid[1:]) > MAX_BLOCKS:
            raise ResourceError(
                f"the gpu backend cannot cut up this grid ({name}: {grid[1]} x {grid[2]} blocks along y and z, at most "
                f"{MAX_BLOCKS} each): give the longest axis to x, or use run.backend = 'openmp'"
            )
        kernel = self.kernel(source, name, shape, operator, defines)
        if self._launching:
            kernel(grid, (shape.block_x, shape.block_y, 1), arguments)

    def kernel(
        self, source: str, name: str, shape: Shape, operator: Operator | None, defines: tuple[str, ...] = ()
    ) -> Kernel:
        """A kernel of `poisson.kernels`, compiled for a shape, the faces of an operator and further options."""
        dimension = operator.dimension if operator else 2
        rules = operator.rules if operator else (Rule.FIXED,) * 4
        key = (source, name, shape, dimension, rules, defines)
        if key not in self._kernels:
            options = (*self.options(shape, dimension, rules), *defines)
            module = self._runtime.compile(kernels.source(source), options)
            self._kernels[key] = module.get_function(f"poisson_{name}")
        return self._kernels[key]

    def kernels_of(self, call: Callable[[], None]) -> list[tuple[Shape, Kernel]]:
        """The kernels that `call` would launch, with their shapes. Nothing is launched."""
        before, self._kernels, self._launching = self._kernels, {}, False
        try:
            call()
            return [(key[2], kernel) for key, kernel in self._kernels.items()]
        finally:
            self._kernels, self._launching = {**self._kernels, **before}, True

    def stencil_arguments(self, operator: Operator, u: Array, out: Array) -> tuple[Any, ...]:
        """What a kernel from u to out that applies the operator takes: arrays, nodes, pitch, weights and c."""
        return (u, out, *self._geometry(operator, u))

    def peak_bandwidth(self) -> float | None:
        """Bytes a second between chip and memory, by the vendor's figures; None where the driver does not give them."""
        return self._runtime.peak_bandwidth()

    def options(self, shape: Shape, dimension: int, rules: Sequence[Rule]) -> tuple[str, ...]:
        """The compiler's options for a module: type, dimension, tile and the rules of the faces."""
        faces = (*rules, *(Rule.FIXED,) * (len(FACE_NAMES) - len(rules)))
        names = ("XL", "XU", "YL", "YU", "ZL", "ZU")
        return (
            "-std=c++17",
            f"-DREAL={'double' if self.dtype.itemsize == 8 else 'float'}",
            f"-DDIMENSION={dimension}",
            f"-DBLOCK_X={shape.block_x}",
            f"-DBLOCK_Y={shape.block_y}",
            f"-DMARCH={shape.march}",
            f"-DUNROLL={shape.unroll}",
            f"-DRESIDENT={shape.resident}",
            f"-DDEPTH={shape.depth}",
            f"-DROWS={shape.rows}",
            *(f"-DRULE_{name}={int(rule)}" for name, rule in zip(names, faces, strict=True)),
        )

    def _real(self, value: float) -> Any:
        return self.dtype.type(value)

    def _pitch(self, array: Array) -> Any:
        return np.int64(array.strides[-2] // self.dtype.itemsize)

    def _geometry(self, operator: Operator, u: Array) -> tuple[Any, ...]:
        """The arguments nx, ny, nz, pitch, the weights and c of every stencil kernel."""
        weights = (*operator.weights, 0.0)[:3]
        return (*_sizes(operator), self._pitch(u), *(self._real(value) for value in (*weights, operator.c)))

    def _row_grid(self, array: Array, shape: Shape = VECTOR_SHAPE) -> tuple[tuple[int, int, int], tuple[Any, Any, Any]]:
        """The blocks that visit every row, and the arguments nx, rows, pitch."""
        nx = array.shape[-1]
        rows = array.size // nx
        grid = (
            _blocks(nx, self._width * shape.block_x),
            min(_blocks(rows, shape.block_y * shape.march), MAX_BLOCKS),
            1,
        )
        return grid, (np.int32(nx), np.int64(rows), self._pitch(array))

    def _march_grid(self, operator: Operator, shape: Shape) -> tuple[int, int, int]:
        columns = _blocks(operator.shape[0], self._width * shape.block_x)
        if operator.dimension == 2:
            return columns, _blocks(operator.shape[1], shape.block_y * shape.march), 1
        return columns, *_strips(operator, shape, shape.block_y, self.dtype.itemsize)

    def _blocked_grid(self, operator: Operator, shape: Shape) -> tuple[int, int, int]:
        """The blocks of a pass of several sweeps: what a group of lanes owns of its strip, kernels/blocked.hip says."""
        halo = _blocks(shape.depth, self._width) * self._width
        columns = _blocks(operator.shape[0], shape.block_x * self._width - 2 * halo)
        if operator.dimension == 2:
            return _blocks(columns, shape.block_y), _blocks(operator.shape[1], shape.march), 1
        return columns, *_strips(operator, shape, shape.block_y * shape.rows, self.dtype.itemsize)

    def _transfer_tables(self, transfer: Transfer) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        """The tables of (restrict, prolong_add) on the device: index and weight of each axis; z repeats y in 2D."""
        if transfer not in self._tables:
            axes = (*transfer.axes, transfer.axes[-1])[:3]
            self._tables[transfer] = (
                tuple(self._table(t) for axis in axes for t in (axis.restrict_index, axis.restrict_weight)),
                tuple(self._table(t) for axis in axes for t in (axis.prolong_index, axis.prolong_weight)),
            )
        return self._tables[transfer]

    def _table(self, values: NDArray[Any]) -> Any:
        host = np.ascontiguousarray(values.ravel(), dtype=np.int32 if values.dtype.kind == "i" else self.dtype)
        table = self._runtime.allocate(host.size, host.dtype)
        self._runtime.upload(host, table)
        return table


def _sizes(operator: Operator) -> tuple[Any, Any, Any]:
    """nx, ny, nz as kernel arguments; nz is 1 in 2D."""
    nx, ny, nz = (*operator.shape, 1)[:3]
    return np.int32(nx), np.int32(ny), np.int32(nz)


def _source(f: Array | None) -> tuple[str, ...]:
    """What tells a kernel whether there is a source."""
    return ("-DSOURCE=0",) if f is None else ()


def _or_null(array: Array | None) -> Any:
    return np.uint64(0) if array is None else array


def _strips(operator: Operator, shape: Shape, lines: int, itemsize: int) -> tuple[int, int]:
    """Blocks of `lines` lines in a strip along y, and bands along z in all strips together."""
    blocks = _blocks(operator.shape[1], lines)
    line = operator.shape[0] * itemsize
    bands = _blocks(operator.shape[2], shape.march)
    fewest = _blocks(blocks, max(1, MAX_BLOCKS // bands))
    in_strip = min(blocks, max(fewest, shape.strip // (line * lines))) if shape.strip else blocks
    return in_strip, bands * _blocks(blocks, in_strip)


def _blocks(items: int, each: int) -> int:
    return -(-items // each)
