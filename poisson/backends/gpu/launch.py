# SPDX-License-Identifier: MIT
"""Arrays, reductions and launches of the gpu backend: all that its operations have in common."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Hashable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType, ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from poisson import kernels
from poisson.backends.base import Array, Backend, Slab
from poisson.backends.gpu.choice import ShapeChoice
from poisson.backends.gpu.shapes import MAX_BLOCKS, VECTOR_SHAPE, Shape
from poisson.backends.gpu.shared import Key, Shared
from poisson.backends.gpu.tuned import Device, Table
from poisson.backends.recordings import MOST_READS
from poisson.errors import FORKED, BackendUnavailable, ResourceError
from poisson.mesh.boundary import FACE_NAMES, Rule
from poisson.mesh.grid import slabs

if TYPE_CHECKING:
    from poisson.backends.gpu.overlap import Grid
    from poisson.backends.gpu.runtime import Event, Kernel, Runtime
    from poisson.discrete.discretisation import Operator

ROW_BYTES = 256
"""Rows start at multiples of this: 16-byte accesses stay aligned for every size, and rows begin with a cache line."""

SLAB_NODES = 1 << 24
"""The nodes of an array that are filled at a time: enough to fill a device, and little beside its memory."""

ENOUGH_BLOCKS = 256
"""With fewer blocks each of them visits fewer rows: a device has half as many multiprocessors."""

MOST_NODES = (1 << 31) - (1 << 16)
"""Nodes along an axis at most: kernels count them, and those that their last blocks have beyond, in 32 bits."""


ALL_FIXED = (Rule.FIXED,) * 4
"""The rules that a kernel is compiled for which knows nothing of faces."""


@dataclass
class Result:
    """Where a reduction leaves its results: as a kernel argument, as the host sees them, and the mark to wait for."""

    argument: Any
    values: Any
    ready: Event
    marked: bool = False


class RecordedLaunches:
    """A function with its launches, recorded at the first call that launches, or before. Until then its kernels are
    known.

    `backend`: where the operations run. `function`: asks for them.
    """

    def __init__(self, backend: Launcher, function: Callable[[], None]) -> None:
        self._backend = backend
        self._function = function
        self._replay: Callable[[], None] | None = None
        self._partials: tuple[Any, ...] = ()
        # Compiling, loading and allocating are not allowed while a graph is recorded: a first pass does them.
        before, backend.shared.recordable = backend.shared.recordable, True
        with backend.shared.recorded(), backend.shared.without_launches() as self._wanted:
            function()
        self._recordable = backend.shared.recordable
        backend.shared.recordable = self._recordable and before

    def record(self) -> None:
        """Record it, as soon as its kernels are there."""
        shared = self._backend.shared
        with shared.recorded(), shared.kernels.timed():
            shared.kernels.settle(self._wanted)
            self._wanted.clear()
            recordable, function = self._recordable, self._function
            self._replay = self._backend.runtime.capture(function) if recordable else function
        # The addresses of the buffers of its reductions were recorded, and there may be larger ones by the next call.
        self._partials = (*shared.partials,)

    def __call__(self) -> None:
        if not self._backend.launching:
            return
        if self._replay is None:
            self.record()
        assert self._replay is not None
        self._replay()


class Launcher(Backend):
    """Arrays are views of padded device arrays; operations are kernel launches on one stream.

    `dtype` (numpy dtype): float32 or float64. `runtime`: the device. `table`: shapes of kernels that were measured on
    it, as `poisson.backends.gpu.tuned.read` gives them. `shared`: that of the backend of the other type on the same
    device, if there is one.
    """

    name = "gpu"

    def __init__(
        self,
        dtype: np.dtype[Any] | type[np.floating[Any]],
        runtime: Runtime,
        table: Table = MappingProxyType({}),
        shared: Shared | None = None,
    ) -> None:
        super().__init__(dtype)
        self.device = runtime.name
        self.architecture = runtime.architecture
        self.shapes = ShapeChoice(runtime.architecture, self.dtype.name, table)
        self._process = os.getpid()
        self._row_grids: dict[Any, tuple[Grid, tuple[Any, Any, Any]]] = {}
        self.runtime = runtime
        self._table_of_shapes = table
        self.shared = shared or Shared(runtime)
        self.width = 16 // self.dtype.itemsize

    def companion(self, dtype: np.dtype[Any] | type[np.floating[Any]]) -> Backend:
        if np.dtype(dtype) == self.dtype:
            return self
        return type(self)(dtype, self.runtime, self._table_of_shapes, self.shared)

    def in_use(self) -> AbstractContextManager[Any]:
        if os.getpid() != self._process:
            raise BackendUnavailable(FORKED)
        return self.runtime.in_use()

    # ---- memory

    def empty(self, array_shape: tuple[int, ...]) -> Array:
        if max(array_shape) > MOST_NODES:
            raise ResourceError(
                f"the gpu backend takes at most {MOST_NODES} nodes along an axis, not {max(array_shape)}: use "
                "run.backend = 'openmp'"
            )
        padded = (*array_shape[:-1], self.pitch_of(array_shape[-1]))
        flat = self.runtime.allocate(math.prod(padded), self.dtype)
        return flat.reshape(padded)[..., : array_shape[-1]]

    def pitch_of(self, nodes: int) -> int:
        """Values from the start of one row of so many nodes to the next."""
        multiple = ROW_BYTES // self.dtype.itemsize
        return -(-nodes // multiple) * multiple

    def from_host(self, values: NDArray[Any]) -> Array:
        array = self.empty(values.shape)
        self.upload_into(values, array)
        return array

    def upload_into(self, values: NDArray[Any], array: Array) -> None:
        """Copy a NumPy array of real values, of any type and layout, to an array of its shape, or some rows of one.

        It runs in order with the operations; `values` may change once this returns.
        """
        self.runtime.upload(values, array)

    def brought(self, values: NDArray[Any]) -> Any:
        array = self.runtime.allocate(values.size, values.dtype).reshape(values.shape)
        self.upload_into(values, array)
        self.runtime.release()
        return array

    def to_host(self, array: Array) -> NDArray[Any]:
        return self.runtime.download(array)

    def copy_to(self, array: Array, out: Any) -> None:
        if not self.runtime.holds(out):
            self.runtime.download(array, out)
            return
        with self.runtime.in_order():
            out[...] = array

    @property
    def array_module(self) -> ModuleType:
        return self.runtime.xp

    def assemble(self, array_shape: tuple[int, ...], slab: Slab, out: Array | None = None) -> Array:
        array = self.empty(array_shape) if out is None else out
        with self.runtime.in_order():
            for start, stop in slabs(array_shape, limit=SLAB_NODES):
                values, part = slab(self.runtime.xp, start, stop), array[start:stop]
                if isinstance(values, np.ndarray):
                    self.runtime.upload(np.broadcast_to(values, part.shape), part)
                else:
                    part[...] = values
        return array

    def ordered(self) -> AbstractContextManager[Any]:
        self.shared.overlap.join()
        return self.runtime.in_order()

    def beside(self, nodes: int) -> AbstractContextManager[Any]:
        return self.shared.overlap.beside(nodes)

    def exchanging(self) -> AbstractContextManager[Any]:
        return self.shared.overlap.exchanging()

    @property
    def kernel_seconds(self) -> float:
        return self.shared.kernels.seconds

    @property
    def launching(self) -> bool:
        return self.shared.launching

    def synchronize(self) -> None:
        self.runtime.synchronize()

    def watch(self, look: Callable[[], None]) -> None:
        self.runtime.watch(look)

    def memory(self) -> tuple[int, int]:
        return self.runtime.memory()

    def reduction(self) -> Result:
        return Result(*self.runtime.allocate_shared(2), self.runtime.event())

    def mark(self, result: Result) -> None:
        if self.launching:
            result.ready.record()
            result.marked = True

    def read(self, result: Result) -> tuple[float, float]:
        if not self.launching:
            return self.shared.made_up()
        if result.marked:
            result.ready.wait()
        else:
            self.runtime.synchronize()
        result.marked = False
        return float(result.values[0]), float(result.values[1])

    def read_all(self, results: Sequence[Result]) -> list[tuple[float, float]]:
        if not self.launching:
            return super().read_all(results)
        self.runtime.synchronize()
        for result in results:
            result.marked = False
        return [(float(result.values[0]), float(result.values[1])) for result in results]

    def seconds(self, call: Callable[[], None]) -> float:
        start, stop = self.runtime.event(), self.runtime.event()
        start.record()
        call()
        stop.record()
        stop.wait()
        return stop.since(start)

    def prepare(self, *calls: Callable[[], object], reads: int = MOST_READS) -> None:
        with self.shared.without_launches(reads):
            for call in calls:
                call()

    def prepared(self, like: Hashable) -> bool:
        key = self.dtype, like
        before = key in self.runtime.prepared
        self.runtime.prepared.add(key)
        return before

    @property
    def identity(self) -> Device:
        """The device that shapes measured here hold for."""
        return Device.of(self.runtime)

    def capture(self, function: Callable[[], None]) -> Callable[[], None]:
        recording = RecordedLaunches(self, function)
        if self.launching:
            recording.record()
        return recording

    # ---- kernels

    def kernel(
        self,
        source: str,
        name: str,
        shape: Shape,
        operator: Operator | None,
        defines: tuple[str, ...] = (),
        shared_bytes: int = 0,
    ) -> Kernel:
        """A kernel of `poisson.kernels`, compiled for a shape, the faces of an operator and further options.

        A block gets `shared_bytes` of shared memory beside what the kernel declares.
        """
        key = self._key(source, name, shape, operator, defines)
        return self.shared.kernels.get(key, partial(self._compiled, key, shared_bytes))

    def _key(
        self, source: str, name: str, shape: Shape, operator: Operator | None, defines: tuple[str, ...]
    ) -> tuple[str, str, Shape, np.dtype[Any], tuple[Rule, ...], tuple[str, ...]]:
        """All that a kernel is compiled for; the rules of the faces tell its dimension."""
        return source, name, shape, self.dtype, operator.lattice.rules if operator else ALL_FIXED, defines

    def _compiled(self, key: Key, shared_bytes: int) -> Kernel:
        source, name, shape, _, rules, defines = key
        options = (*self.options(shape, len(rules) // 2, rules), *defines)
        return self.runtime.compile(kernels.source(source), options).get_function(f"poisson_{name}", shared_bytes)

    def kernels_of(self, call: Callable[[], None]) -> list[tuple[Shape, Kernel]]:
        """The kernels that `call` would launch, with their shapes. Nothing is launched."""
        with self.shared.without_launches() as wanted:
            call()
        return [(key[2], self.shared.kernels.get(key, compiled)) for key, compiled in wanted.items()]

    def options(self, shape: Shape, dimension: int, rules: Sequence[Rule]) -> tuple[str, ...]:
        """The compiler's options for a module: type, dimension, tile and the rules of the faces."""
        faces = (*rules, *(Rule.FIXED,) * (len(FACE_NAMES) - len(rules)))
        names = ("XL", "XU", "YL", "YU", "ZL", "ZU")
        return (
            kernels.LANGUAGE,
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

    # ---- launches

    def launch(
        self,
        source: str,
        name: str,
        shape: Shape,
        operator: Operator | None,
        grid: tuple[int, int, int],
        arguments: tuple[Any, ...],
        defines: tuple[str, ...] = (),
        shared_bytes: int = 0,
    ) -> None:
        if grid[1] > MAX_BLOCKS or grid[2] > MAX_BLOCKS:
            raise ResourceError(
                f"the gpu backend cannot divide this grid into blocks ({name}: {grid[1]} x {grid[2]} along y and z, at "
                f"most {MAX_BLOCKS} each): make x the longest axis, or use run.backend = 'openmp'"
            )
        shared, key = self.shared, self._key(source, name, shape, operator, defines)
        shared.overlap.join()
        if not shared.launching:
            shared.note(key, partial(self._compiled, key, shared_bytes))
            return
        if (kernel := shared.kernels.ready.get(key)) is None:
            kernel = shared.kernels.get(key, partial(self._compiled, key, shared_bytes))
        kernel(grid, (shape.block_x, shape.block_y, 1), arguments)

    def reduce(
        self,
        source: str,
        name: str,
        shape: Shape,
        operator: Operator | None,
        grid: tuple[int, int, int],
        arguments: tuple[Any, ...],
        result: Result | None,
        defines: tuple[str, ...] = (),
        whole: Grid | None = None,
        shared_bytes: int = 0,
    ) -> None:
        """Launch a kernel; where there is a result, one that reduces, with room for the parts of its blocks.

        Nodes in halos of the operator's lattice do not count. `whole` are all blocks, where this is a part of them.
        """
        if result is not None:
            arguments = (*arguments, self.shared.partial_of(math.prod(whole or grid)), result.argument)
            if operator is not None:
                defines = (*defines, *halos(operator))
        self.launch(source, name, shape, operator, grid, arguments, defines, shared_bytes)

    # ---- arguments

    def real(self, value: float) -> Any:
        return self.dtype.type(value)

    def pitch(self, array: Array) -> Any:
        return np.int64(array.strides[-2] // array.dtype.itemsize)

    def row_grid(self, array: Array, shape: Shape = VECTOR_SHAPE) -> tuple[tuple[int, int, int], tuple[Any, Any, Any]]:
        """The blocks that visit every row, and the arguments nx, rows, pitch."""
        key = array.shape, array.strides[-2], array.itemsize, shape
        if (found := self._row_grids.get(key)) is None:
            nx = array.shape[-1]
            rows, columns, march = array.size // nx, blocks_for(nx, self.width * shape.block_x), shape.march
            while march > 1 and columns * blocks_for(rows, shape.block_y * march) < ENOUGH_BLOCKS:
                march //= 2
            grid = columns, min(blocks_for(rows, shape.block_y * march), MAX_BLOCKS), 1
            found = self._row_grids[key] = grid, (np.int32(nx), np.int64(rows), self.pitch(array))
        return found

    def table(self, values: NDArray[Any]) -> Any:
        """A table of indices or weights on the device."""
        host = np.ascontiguousarray(values.ravel(), dtype=np.int32 if values.dtype.kind == "i" else self.dtype)
        table = self.runtime.allocate(host.size, host.dtype)
        self.runtime.upload(host, table)
        return table


def sizes(operator: Operator) -> tuple[Any, Any, Any]:
    """nx, ny, nz as kernel arguments; nz is 1 in 2D."""
    nx, ny, nz = (*operator.shape, 1)[:3]
    return np.int32(nx), np.int32(ny), np.int32(nz)


def halos(operator: Operator) -> tuple[str, ...]:
    """The macros that tell a reducing kernel which nodes do not count: the widths of the halos along y and z."""
    if not operator.lattice.divided:
        return ()
    widths = (*(width for axis in operator.lattice.axes[1:] for width in axis.halo), 0, 0)[:4]
    return tuple(f"-DHALO_{end}={width}" for end, width in zip(("YL", "YU", "ZL", "ZU"), widths, strict=True))


def given(f: Array | None) -> tuple[str, ...]:
    """The macro that tells a kernel whether there is a source, or another array that it may do without."""
    return ("-DSOURCE=0",) if f is None else ()


def or_null(array: Array | None) -> Any:
    return np.uint64(0) if array is None else array


def blocks_for(items: int, each: int) -> int:
    """How many blocks there are for so many items, where one takes `each`."""
    return -(-items // each)
