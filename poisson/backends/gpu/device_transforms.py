# SPDX-License-Identifier: MIT
"""The direct solution on a GPU: the transforms of each axis in place, by kernels/transforms/transform.hip.

A line is transformed in shared memory, read and written once; the last axis goes to its modes and back in one kernel,
so that a solution is three such passes in 2D and five in 3D. Lines that are too long for shared memory go through the
vendor's library in batches.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from poisson.backends.base import Array
from poisson.backends.gpu.callers import TYPES, GivenArray, distances
from poisson.backends.gpu.launch import Launcher, blocks_for
from poisson.backends.gpu.shapes import LANES, Shape
from poisson.backends.gpu.tridiagonal import Tridiagonal, block_of_systems
from poisson.backends.spectra import (
    RADICES,
    Convolution,
    Line,
    digits_reversed,
    factors_of,
    free,
    require_constant,
    roots_of_unity,
)
from poisson.backends.transforms import links_of_boundary
from poisson.discrete.operator import Operator
from poisson.mesh.boundary import Rule
from poisson.mesh.spectrum import Transform

FACTORS = (*RADICES, 7, 11, 13)
"""The factors of a length that kernels have; other lengths are convolutions."""
VALUES = 8
"""Values of a pair of lines that a thread holds; twice as many if a block would have more than `THREADS` otherwise. A
convolution, whose factors need more registers, has twice as many in blocks of half the threads."""
THREADS = 1024
RESIDENT_THREADS = {2: (1024, 896, 640), 3: (1024, 1024, 640)}
"""Threads that a multiprocessor must be able to hold, by dimension, which leaves 64 to 96 registers to each: where all
factors are 8, for other `RADICES` or cells, and for type IV, other factors and cells where not all are 8. Threads wait
for shared memory and for each other, and more of them hide that better than more registers do, as long as none are
spilled and there are lines enough."""
ROW_THREADS = 128
"""The fewest threads of a block that transforms rows."""
COLUMN_BYTES = {2: 32, 3: 64}
"""The bytes of neighbouring columns in a block, by dimension: memory is read in pieces of so many bytes. In 2D columns
are few, and more blocks share them."""
DECLARED_BYTES = 1024
"""The bytes of shared memory that a kernel declares beside the lines."""

LIBRARY_SHAPE = Shape(LANES, 8, 1)
"""The shape of the steps before and after a transform by the vendor's library."""
BATCH_BYTES = 32 << 20
"""The bytes of the lines that the vendor's library transforms at a time."""

FACE_SHAPE = Shape(256, 1, 1)


@dataclass(frozen=True)
class Block:
    """How the lines along an axis are given to blocks of threads.

    `lanes`: threads of a pair of lines. `pairs`: pairs of lines of a block. `shared_bytes`: their memory. `resident`:
    blocks that a multiprocessor must be able to hold.
    """

    lanes: int
    pairs: int
    shared_bytes: int
    resident: int = 1

    @property
    def shape(self) -> Shape:
        return Shape(self.lanes, self.pairs, 1, resident=self.resident)


def block_of(
    length: int, axis: int, dimension: int, itemsize: int, shared_bytes: int, kind: Transform = Transform.SINE
) -> Block | None:
    """The block for lines in shared memory; None where there is none.

    `length`: intervals of a line. `axis`: the axis of the lines in a grid of so many dimensions; 0 is x. `itemsize`:
    bytes of a real value. `shared_bytes`: bytes that a block can have. `kind`: the transform.
    """
    values, factors = steps_of(length)
    others = values > length or not {*factors} <= {*RADICES} or kind is Transform.CELL_QUARTER
    registers = 2 if others else ({*factors} != {RADICES[0]}) + (kind > Transform.FOURIER)
    of_thread, most = (VALUES, THREADS) if values == length else (2 * VALUES, THREADS // 2)
    pairs = COLUMN_BYTES[dimension] // (2 * itemsize) if axis else max(1, ROW_THREADS // _lanes(values, of_thread))
    while pairs:
        lanes = _lanes(values, of_thread)
        if lanes * pairs > most:
            lanes = _lanes(values, 2 * of_thread)
        together = max(pairs, LANES // lanes)
        needed = 2 * itemsize * together * _line_values(values, together, itemsize)
        if lanes * together <= THREADS and needed + DECLARED_BYTES <= shared_bytes:
            return Block(lanes, together, needed, max(1, RESIDENT_THREADS[dimension][registers] // (lanes * together)))
        pairs //= 2
    return None


@cache
def steps_of(length: int) -> tuple[int, tuple[int, ...]]:
    """PADDED and RADICES of factors.h: the values of a pair of lines in shared memory, and their factors."""
    factors, left = factors_of(length, FACTORS)
    if left == 1:
        return length, factors
    convolution = Convolution(length)
    return convolution.padded, convolution.factors


def tables_of(length: int) -> NDArray[np.complex128]:
    """The tables of factors.h: the roots of unity, and behind them the chirp and the spectrum of a convolution."""
    padded, factors = steps_of(length)
    if padded == length:
        return roots_of_unity(length)
    convolution = Convolution(length)
    spectrum = np.empty(padded, dtype=np.complex128)
    spectrum[digits_reversed(factors)] = convolution.spectrum()
    of_last_factor = spectrum.reshape(-1, factors[-1]).T.ravel()
    return np.concatenate([roots_of_unity(padded), convolution.chirp(), of_last_factor])


def _lanes(length: int, values: int) -> int:
    """Threads for a pair of lines, with so many values each: whole warps, or a power of two from 2 on, one a column."""
    wanted = blocks_for(length, values)
    return blocks_for(wanted, LANES) * LANES if wanted > LANES else max(2, 1 << (wanted - 1).bit_length())


def _line_values(length: int, pairs: int, itemsize: int) -> int:
    """LINE_VALUES of transform.hip."""
    group = 128 // (2 * itemsize)
    spread = group // pairs if pairs < group else 1
    return (length + length // group + group) // group * group + spread


class TransformLauncher:
    """Launches of the kernels in transform.hip on the arrays of an operator.

    `backend`: where the arrays are. `operator`: with constant coefficients.
    """

    def __init__(self, backend: Launcher, operator: Operator) -> None:
        self.backend = backend
        self.operator = operator
        shape = (*operator.shape, 1)[:3]
        inner = [free(operator, axis) for axis in range(operator.dimension)]
        ends = [np.int32(end) for part in (*inner, slice(0, 1))[:3] for end in (part.start, part.stop)]
        # The arguments nx, ny, nz, pitch and the nodes of each axis that are not fixed.
        pitch = backend.pitch_of(shape[0])
        self._layout = (*(np.int32(nodes) for nodes in shape), np.int64(pitch), *ends)
        self._own = np.int64(pitch), np.int64(pitch * shape[1])

    def take_boundary(self, f: Array, u: Array) -> None:
        """f += what the fixed nodes of u contribute to the equations of their neighbours."""
        operator = self.operator
        pitch = self.backend.pitch_of(operator.shape[0])
        strides = (1, pitch, pitch * operator.shape[1])
        inner = [free(operator, axis) for axis in range(operator.dimension)] + [slice(0, 1)]
        for face, (rule, link) in enumerate(links_of_boundary(operator)):
            if rule is not Rule.FIXED:
                continue
            axis, upper = divmod(face, 2)
            first, second = (other for other in range(3) if other != axis and other < len(inner))
            origin = strides[axis] * (operator.shape[axis] - 1) if upper else 0
            beside = []
            for other in (first, second):
                beside += [np.int64(strides[other]), np.int32(inner[other].start), np.int32(inner[other].stop)]
            nodes = math.prod(inner[other].stop - inner[other].start for other in (first, second))
            if nodes == 0:
                continue
            arguments = (
                *(f, u, np.int64(origin), np.int64(-strides[axis] if upper else strides[axis])),
                *(*beside, self.backend.real(link)),
            )
            grid = (blocks_for(nodes, FACE_SHAPE.block_x), 1, 1)
            self.backend.launch("transform", "transform_boundary", FACE_SHAPE, None, grid, arguments, _ANY_LINE)

    def transform(
        self,
        line: Line,
        block: Block,
        source: Array | GivenArray,
        target: Array,
        ways: tuple[bool, bool],
        tables: Sequence[Any],
    ) -> None:
        """Lines of `source` to their modes, back from them, or both with the division between, in shared memory."""
        padded, factors = steps_of(line.length)
        values, given = self._read(source)
        defines = (*_defines(line, ways), f"-DRADICES={','.join(map(str, factors))}", f"-DPADDED={padded}", *given)
        groups = groups_of(line.operator, line.axis, block.pairs)
        arguments = (*values, target, *self._layout, *tables)
        shared = block.shared_bytes
        self.backend.launch("transform", "transform", block.shape, None, (groups, 1, 1), arguments, defines, shared)

    def gather(
        self,
        line: Line,
        source: Array | GivenArray,
        lines: Sequence[Any],
        part: tuple[int, int],
        to_modes: bool,
        turns: Any,
    ) -> None:
        """Gather so many groups of lines from a first one on, ready for the vendor's transform."""
        values, given = self._read(source)
        arguments = (*values, *lines[:2], np.int64(part[0]), *self._layout, turns)
        defines = (*_defines(line, (to_modes, not to_modes)), *given)
        self.backend.launch("transform", "transform_gather", LIBRARY_SHAPE, None, (part[1], 1, 1), arguments, defines)

    def scatter(
        self,
        line: Line,
        lines: Sequence[Any],
        target: Array,
        part: tuple[int, int],
        to_modes: bool,
        divided: bool,
        tables: Sequence[Any],
    ) -> None:
        """The same lines after the transform; the modes divided by the eigenvalues if asked."""
        arguments = (*lines, target, np.int64(part[0]), *self._layout, *tables)
        defines = (*_defines(line, (to_modes, not to_modes)), f"-DDIVIDE={int(divided)}")
        self.backend.launch("transform", "transform_scatter", LIBRARY_SHAPE, None, (part[1], 1, 1), arguments, defines)

    def _read(self, source: Array | GivenArray) -> tuple[tuple[Any, ...], tuple[str, ...]]:
        """The arguments that say where values come from, and their type if they are in the memory of the caller."""
        if isinstance(source, GivenArray):
            values = source.values
            return (values, *distances(values), np.float64(source.shift)), (f"-DGIVEN={TYPES[values.dtype]}",)
        return (source, *self._own, np.float64(0.0)), ()

    def complex_lines(self, count: int, length: int) -> tuple[Sequence[Any], Callable[[], None]]:
        """Memory for lines, for one more value of each and for the lines again; a call that transforms the lines."""
        values = count * length
        lines, ends, spare = (self.backend.runtime.allocate(2 * n, self.backend.dtype) for n in (values, count, values))
        complex_type = np.result_type(self.backend.dtype, np.complex64)
        transform, shared = (
            self.backend.runtime.fourier(lines.view(complex_type).reshape(count, length)),
            self.backend.shared,
        )

        def transform_if_launching() -> None:
            if shared.launching:
                transform()

        return (lines, ends, spare), transform_if_launching

    def block(self, line: Line) -> Block | None:
        """`block_of` on this device."""
        itemsize, room = self.backend.dtype.itemsize, self.backend.runtime.shared_bytes
        return block_of(line.length, line.axis, self.operator.dimension, itemsize, room, line.kind)

    def table_of(self, values: NDArray[Any]) -> Any:
        """Real or complex values on the device, in this backend's type."""
        return self.backend.table(np.ascontiguousarray(values).view(np.float64))

    def scalar(self, value: float) -> Any:
        """An argument of this backend's type."""
        return self.backend.real(value)


_ANY_LINE = ("-DAXIS=0", "-DLENGTH=2", "-DKIND=0", "-DREVERSED=0", "-DFORWARD=1", "-DBACKWARD=0")
"""Options of a kernel that knows nothing of lines."""


def _defines(line: Line, ways: tuple[bool, bool]) -> tuple[str, ...]:
    return (
        f"-DAXIS={line.axis}",
        f"-DLENGTH={line.length}",
        f"-DKIND={int(line.kind)}",
        f"-DREVERSED={int(line.reversed)}",
        f"-DFORWARD={int(ways[0])}",
        f"-DBACKWARD={int(ways[1])}",
    )


def groups_of(operator: Operator, axis: int, pairs: int) -> int:
    """Blocks of so many pairs that have all lines along an axis, as kernels/transforms/transform.hip counts them."""
    nx, ny, nz = (*operator.shape, 1)[:3]
    if axis == 0:
        return blocks_for(blocks_for(ny, 2) * nz, pairs)
    return blocks_for(nx, 2 * pairs) * (nz if axis == 1 else ny)


class _InSharedMemory:
    """The transforms of one axis by the kernels' own."""

    def __init__(self, launcher: TransformLauncher, line: Line, block: Block, tables: Sequence[Any]) -> None:
        self._launcher = launcher
        self._line = line
        self._block = block
        self._tables = (launcher.table_of(tables_of(line.length)), launcher.table_of(line.turns()), *tables)

    def __call__(self, source: Array | GivenArray, target: Array, to_modes: bool, to_nodes: bool) -> None:
        self._launcher.transform(self._line, self._block, source, target, (to_modes, to_nodes), self._tables)


class _ByLibrary:
    """The transforms of one axis by the vendor's library, batch after batch."""

    def __init__(self, launcher: TransformLauncher, line: Line, tables: Sequence[Any]) -> None:
        self._launcher = launcher
        self._line = line
        pairs = LIBRARY_SHAPE.block_y
        self._groups = groups_of(line.operator, line.axis, pairs)
        group_bytes = 2 * pairs * line.length * launcher.backend.dtype.itemsize
        self._batch = min(self._groups, max(1, BATCH_BYTES // group_bytes))
        self._lines, self._transform = launcher.complex_lines(self._batch * pairs, line.length)
        self._turns = launcher.table_of(line.turns())
        self._tables = (self._turns, *tables)

    def __call__(self, source: Array | GivenArray, target: Array, to_modes: bool, to_nodes: bool) -> None:
        if to_modes:
            self._apply(source, target, True, to_nodes)
        if to_nodes:
            self._apply(target if to_modes else source, target, False, False)

    def _apply(self, source: Array, target: Array, to_modes: bool, divided: bool) -> None:
        for first in range(0, self._groups, self._batch):
            part = (first, min(self._batch, self._groups - first))
            self._launcher.gather(self._line, source, self._lines, part, to_modes, self._turns)
            self._transform()
            self._launcher.scatter(self._line, self._lines, target, part, to_modes, divided, self._tables)


AxisTransform = Callable[[Array | GivenArray, Array, bool, bool], None]
"""From one array to another, or in place; whether to the modes, and whether back."""


def axis_transform(launcher: TransformLauncher, line: Line, tables: Sequence[Any]) -> AxisTransform:
    """The transforms of an axis: by kernels of our own where a line has a block, or by the vendor's library.

    `launcher`: of the operator. `line`: the lines. `tables`: the eigenvalues of each axis on the device, and the scale:
    what divides the modes between both ways.
    """
    block = launcher.block(line)
    return _InSharedMemory(launcher, line, block, tables) if block else _ByLibrary(launcher, line, tables)


class GpuTransforms:
    """A direct solution by transforms; what the kernels need is made here, so that a solution is launches alone.

    `held`: as of `Inverse`. Raises `ValueError` if the coefficients vary.
    """

    def __init__(self, backend: Launcher, operator: Operator, held: bool) -> None:
        require_constant(operator)
        self._held = held
        self._launcher = launcher = TransformLauncher(backend, operator)
        lines = [Line(operator, axis) for axis in range(operator.dimension) if operator.couplings[axis]]
        spectra = [np.zeros(nodes) for nodes in (*operator.shape, 1)[:3]]
        for line in lines:
            spectra[line.axis] = line.spectrum()
        spectra[0] += operator.c
        scale = 1.0 / math.prod(line.gain for line in lines)
        tables = (*(launcher.table_of(values) for values in spectra), launcher.scalar(scale))
        block = block_of_systems(operator, lines[-1].axis) if len(lines) > 1 else None
        self._transforms: list[AxisTransform] = []
        if operator.unknowns:
            transformed = lines[:-1] if block else lines
            self._transforms = [axis_transform(launcher, line, tables) for line in transformed]
            self._transforms += [Tridiagonal(backend, operator, transformed, lines[-1].axis, block)] if block else []
        backend.prepare(lambda: self.solve(None, None))

    def solve(self, f: Array, u: Array) -> None:
        """u = A⁻¹ f (`InverseOperations.solve`)."""
        if self._held and self._transforms:
            self._launcher.take_boundary(f, u)
        self.solve_from(f, f, u)

    def solve_from(self, f: Array | GivenArray, work: Array, u: Array) -> bool:
        """The same for zeros at fixed nodes, where f keeps its values; false where nothing is done."""
        if not self._transforms:
            return False
        *others, last = self._transforms
        for transform in others:
            transform(f if transform is others[0] else work, work, True, False)
        last(work if others else f, work if others else u, True, True)
        for transform in reversed(others):
            transform(work, u if transform is others[0] else work, False, True)
        return True
