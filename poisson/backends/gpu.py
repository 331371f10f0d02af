"""HIP kernels compiled at run time, for NVIDIA and AMD from one source.

The backend knows kernels, launch geometry and arrays; a `Runtime` knows how to compile and launch. The runtime of a
real device is `poisson.backends.cupy`; the tests run this same class on an emulation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from types import ModuleType
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from poisson import kernels
from poisson.backends.base import Array, Backend, Reduction, Slab
from poisson.boundary import FACE_NAMES, Rule
from poisson.discretisation import Operator
from poisson.errors import ResourceError
from poisson.grid import slabs
from poisson.transfer import Transfer

Kernel = Callable[[tuple[int, ...], tuple[int, ...], tuple[Any, ...]], None]

ROW_ALIGNMENT = 16
"""Rows start at multiples of this many values, so that 16-byte accesses stay aligned for every size."""


class Module(Protocol):
    """A compiled source."""

    def get_function(self, name: str) -> Kernel:
        """The kernel of that name: ``kernel(grid, block, arguments)`` launches it."""


class Runtime(Protocol):
    """What the backend needs from a device."""

    xp: ModuleType
    """The array module whose functions fill arrays on the device."""
    name: str
    """The device, for people."""

    def compile(self, source: str, options: tuple[str, ...]) -> Module:
        """Compile a source with ``-D`` options."""

    def allocate(self, count: int, dtype: np.dtype[Any]) -> Any:
        """A one-dimensional array of `count` values that are not set."""

    def allocate_shared(self, count: int) -> tuple[Any, Any]:
        """A few float64 values that kernels write and the host reads: as a kernel argument, and as a host array."""

    def upload(self, values: NDArray[Any], array: Any) -> None:
        """Copy a host array of the same shape and type to a device array."""

    def download(self, array: Any) -> NDArray[Any]:
        """A copy of a device array on the host, once all launches before it are done."""

    def in_order(self) -> AbstractContextManager[Any]:
        """Within, functions of `xp` run in order with the launches."""

    def copy(self, source: Any, target: Any) -> None:
        """Copy between one-dimensional device arrays, with the vendor's own copy."""

    def synchronize(self) -> None:
        """Wait for all launches."""

    def capture(self, function: Callable[[], None]) -> Callable[[], None]:
        """A callable that repeats the launches of `function`."""

    def memory(self) -> tuple[int, int]:
        """Bytes free and in all."""


@dataclass(frozen=True)
class Shape:
    """How a kernel is cut up.

    Parameters
    ----------
    block_x, block_y : int
        Threads of a block along x and y.
    march : int
        Nodes that a thread visits along the slowest axis.
    unroll : int
        How many of them the compiler takes together.
    resident : int
        Blocks that a multiprocessor must be able to hold at once, which bounds the registers of a thread.
    """

    block_x: int
    block_y: int
    march: int
    unroll: int = 1
    resident: int = 1


STENCIL_SHAPES = {
    ("laplacian", 2): Shape(64, 2, 4, 4),
    ("laplacian", 3): Shape(32, 4, 16, 1),
    ("sweep", 2): Shape(64, 2, 4, 4),
    ("sweep", 3): Shape(32, 4, 16, 4, 5),
    ("sweep_norm", 2): Shape(128, 2, 32, 2, 4),
    ("sweep_norm", 3): Shape(32, 4, 32, 1),
}
"""The fastest shapes found on an H200, by kind of kernel and dimension; docs/performance.md has the numbers."""

VECTOR_SHAPE = Shape(32, 8, 8)
REDUCE_SHAPE = Shape(32, 32, 1)
"""The one block that joins the partial results of a reduction."""

SMALL_GRID = 1 << 20
"""With fewer unknowns a device would not be full: a thread then visits one node along the slowest axis."""


MAX_BLOCKS = 65535
"""The most blocks that a launch may have along y and along z; along x it is 2³¹ - 1."""


@dataclass(frozen=True)
class Result:
    """Where a reduction leaves its results: as a kernel argument, and as the host sees them after waiting."""

    argument: Any
    values: Any


class GpuBackend(Backend):
    """Arrays are views of padded device arrays; operations are kernel launches on one stream.

    Parameters
    ----------
    dtype : numpy dtype
        float32 or float64.
    runtime : Runtime
        The device.
    """

    name = "gpu"

    def __init__(self, dtype: np.dtype[Any] | type[np.floating[Any]], runtime: Runtime) -> None:
        super().__init__(dtype)
        self.device = runtime.name
        self._runtime = runtime
        self._width = 16 // self.dtype.itemsize
        self._kernels: dict[tuple[Any, ...], Kernel] = {}
        self._tables: dict[Transfer, tuple[tuple[Any, ...], tuple[Any, ...]]] = {}
        self._partial = runtime.allocate(2, np.dtype(np.float64))
        self._launching = True

    # ---- memory

    def empty(self, array_shape: tuple[int, ...]) -> Array:
        pitch = -(-array_shape[-1] // ROW_ALIGNMENT) * ROW_ALIGNMENT
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

    def reduction(self) -> Result:
        return Result(*self._runtime.allocate_shared(2))

    def read(self, result: Result) -> tuple[float, float]:
        self._runtime.synchronize()
        return float(result.values[0]), float(result.values[1])

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
        shape = self._stencil_shape("laplacian", operator)
        grid = self._march_grid(operator, shape)
        self._launch("stencil", "laplacian", shape, operator, grid, (u, out, *self._geometry(operator, u)))

    def boundary_conditions(self, operator: Operator, u: Array, out: Array) -> None:
        shape = VECTOR_SHAPE
        nodes = np.prod(operator.shape, dtype=np.int64) - np.prod([n - 2 for n in operator.shape], dtype=np.int64)
        grid = (_blocks(int(nodes), shape.block_x * shape.block_y), 1, 1)
        self._launch("stencil", "boundary_conditions", shape, operator, grid, (u, out, *self._geometry(operator, u)))

    def residual(self, operator: Operator, u: Array, f: Array, r: Array, result: Reduction | None = None) -> None:
        self._march("residual", operator, (u, f, r), (), result)

    def sweep(
        self, operator: Operator, u: Array, f: Array, out: Array, omega: float, result: Reduction | None = None
    ) -> None:
        self._march("sweep", operator, (u, f, out), (self._real(omega / operator.diagonal),), result)

    # ---- vectors

    def update(self, operator: Operator, f: Array, au: Array, r: Array, u: Array, omega: float) -> None:
        scale = self._real(omega / operator.diagonal)
        grid, rows = self._row_grid(u)
        self._launch("vectors", "update", VECTOR_SHAPE, None, grid, (f, au, r, u, *rows, scale))

    def norm(self, operator: Operator, r: Array, result: Reduction) -> None:
        grid, rows = self._row_grid(r)
        self._reduce("vectors", "norm", VECTOR_SHAPE, None, grid, (r, *rows), result)

    def dot(self, operator: Operator, x: Array, y: Array, result: Reduction) -> None:
        grid, (nx, rows, pitch) = self._row_grid(x)
        arguments = (x, y, nx, np.int32(operator.shape[1]), rows, pitch)
        self._reduce("vectors", "dot", VECTOR_SHAPE, operator, grid, arguments, result)

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

    # ---- launching

    def _march(
        self, name: str, operator: Operator, arrays: Sequence[Array], scalars: Sequence[Any], result: Reduction | None
    ) -> None:
        shape = self._stencil_shape("sweep" if result is None else "sweep_norm", operator)
        grid = self._march_grid(operator, shape)
        arguments = (*arrays, *self._geometry(operator, arrays[0]), *scalars)
        if result is None:
            self._launch("stencil", name, shape, operator, grid, arguments)
        else:
            self._reduce("stencil", f"{name}_norm", shape, operator, grid, arguments, result)

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
    ) -> None:
        """Launch a kernel that leaves partial results, and the one that joins them."""
        count = grid[0] * grid[1] * grid[2]
        if self._partial.size < 2 * count:
            self._runtime.synchronize()
            self._partial = self._runtime.allocate(2 * count, np.dtype(np.float64))
        self._launch(source, name, shape, operator, grid, (*arguments, self._partial))
        arguments = (self._partial, np.int64(count), result.argument)
        self._launch("vectors", "reduce", REDUCE_SHAPE, None, (1, 1, 1), arguments)

    def _launch(
        self,
        source: str,
        name: str,
        shape: Shape,
        operator: Operator | None,
        grid: tuple[int, int, int],
        arguments: tuple[Any, ...],
    ) -> None:
        if max(grid[1:]) > MAX_BLOCKS:
            raise ResourceError(
                f"the gpu backend cannot cut up this grid ({name}: {grid[1]} x {grid[2]} blocks along y and z, at most "
                f"{MAX_BLOCKS} each): give the longest axis to x, or use run.backend = 'openmp'"
            )
        dimension = operator.dimension if operator else 2
        rules = operator.rules if operator else (Rule.FIXED,) * 4
        key = (source, name, shape, dimension, rules)
        if key not in self._kernels:
            module = self._runtime.compile(kernels.source(source), self.options(shape, dimension, rules))
            self._kernels[key] = module.get_function(f"poisson_{name}")
        if self._launching:
            self._kernels[key](grid, (shape.block_x, shape.block_y, 1), arguments)

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

    def _row_grid(self, array: Array) -> tuple[tuple[int, int, int], tuple[Any, Any, Any]]:
        """The blocks that visit every row, and the arguments nx, rows, pitch."""
        nx = array.shape[-1]
        rows = array.size // nx
        shape = VECTOR_SHAPE
        grid = (
            _blocks(nx, self._width * shape.block_x),
            min(_blocks(rows, shape.block_y * shape.march), MAX_BLOCKS),
            1,
        )
        return grid, (np.int32(nx), np.int64(rows), self._pitch(array))

    def _stencil_shape(self, kind: str, operator: Operator) -> Shape:
        shape = STENCIL_SHAPES[kind, operator.dimension]
        if operator.unknowns < SMALL_GRID:
            shape = replace(shape, march=1, unroll=1, resident=1)
        # On a long, thin grid the longest march that the device's limit on blocks asks for.
        least = _blocks(operator.shape[-1], MAX_BLOCKS * (shape.block_y if operator.dimension == 2 else 1))
        return replace(shape, march=max(shape.march, least))

    def _march_grid(self, operator: Operator, shape: Shape) -> tuple[int, int, int]:
        columns = _blocks(operator.shape[0], self._width * shape.block_x)
        if operator.dimension == 2:
            return columns, _blocks(operator.shape[1], shape.block_y * shape.march), 1
        return columns, _blocks(operator.shape[1], shape.block_y), _blocks(operator.shape[2], shape.march)

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


def _blocks(items: int, each: int) -> int:
    return -(-items // each)
