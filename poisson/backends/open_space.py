# SPDX-License-Identifier: MIT
"""Direct solution where axes go on without end: the convolution with the Green's function, by transforms.

Open axes are padded with zeros up to twice their length, so that what a transform repeats is out of reach (R. W.
Hockney and J. W. Eastwood, "Computer simulation using particles", 1988, section 6.5); where there is a wall at one end,
the image of the charges behind it is added. No axis is padded before it is transformed itself, and all but the rows are
padded for few columns at a time, so that nothing of the padded size is ever there. `poisson.discrete.green` has the
function.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from poisson.backends.inverses import OpenInverseOperations
from poisson.backends.processors import default_threads
from poisson.backends.spectra import require_constant
from poisson.backends.transforms import AxisTransform, EigenvectorTransform, take_boundary, transforms_of
from poisson.discrete.inverse import OpenInverse
from poisson.discrete.operator import Operator
from poisson.mesh.boundary import Rule

if TYPE_CHECKING:
    from poisson.backends.base import Array, Backend
    from poisson.discrete.green import OpenLine

VALUES = 1 << 16, 1 << 24
"""Padded values that a thread of the host, and a device, transform at a time."""


@dataclass(frozen=True)
class _Padding:
    """How an axis is padded.

    `place`: of the axis in an array. `half`: half of the padded length. `own`: the nodes, but for a fixed one at a
    wall. `wall`: the rule at the one end that is closed. `upper`: whether that is the upper one.
    """

    place: int
    half: int
    own: slice
    wall: Rule | None
    upper: bool

    def padded(self, xp: Any, values: Any) -> Any:
        """Values at the nodes, with zeros behind them and the image beyond a wall."""
        shape = list(values.shape)
        shape[self.place] = 2 * self.half
        found = xp.zeros(shape, dtype=values.dtype)
        along, nodes = (np.moveaxis(each, self.place, 0) for each in (found, values))
        count, first = nodes.shape[0], 1 if self.wall is Rule.FIXED else 0
        nodes = nodes[::-1] if self.upper else nodes
        along[first : first + count] = nodes
        if self.wall is Rule.FIXED:
            along[-count:] = -nodes[::-1]
        elif self.wall is Rule.MIRROR:
            along[1 - count :] = nodes[:0:-1]
        return found

    def cropped(self, values: Any) -> Any:
        """The values at the nodes."""
        along = np.moveaxis(values, self.place, 0)
        count, first = self.own.stop - self.own.start, 1 if self.wall is Rule.FIXED else 0
        along = along[first : first + count]
        return np.moveaxis(along[::-1] if self.upper else along, 0, self.place)


class OpenConvolution(OpenInverseOperations):
    """The convolution, on arrays that have a module, of the host or of a device."""

    def __init__(self, backend: Backend, inverse: OpenInverse) -> None:
        require_constant(inverse.operator)
        self._backend = backend
        self._operator = closed = _with_ends(inverse)
        lattice = closed.lattice
        self._free = lattice.free
        self._xp, self._fft = backend.array_module, _module(backend)
        self._threads = default_threads() if backend.on_host and backend.threads < 2 else backend.threads
        self._paddings: dict[int, _Padding] = {}
        lines: list[OpenLine | NDArray[np.float64]] = [np.zeros(1)] * lattice.dimension
        closed_axes = [axis for axis in range(lattice.dimension) if not inverse.open_at(axis)]
        self._transforms = _transforms(backend, closed, closed_axes)
        for transform in self._transforms:
            lines[lattice.array_axis(transform.axis)] = transform.spectrum
        from scipy.fft import next_fast_len

        from poisson.discrete.green import OpenLine, spectrum

        for axis, line in enumerate(lattice.axes):
            if not (ends := inverse.open_at(axis)):
                continue
            if line.tabulated:
                raise ValueError("open faces need equally spaced nodes along their axis")
            wall = None if all(ends) else line.rules[0 if ends[1] else 1]
            half = next_fast_len(line.nodes if wall is None else 2 * line.nodes - 2)
            place = lattice.array_axis(axis)
            self._paddings[place] = _Padding(place, half, line.free, wall, wall is not None and ends[0])
            lines[place] = OpenLine(half, closed.couplings[axis], line.spacing)
        self._table = self._xp.asarray(spectrum(lines, closed.c).astype(backend.dtype))

    def solve(self, f: Array, u: Array) -> None:
        with self._backend.ordered():
            self._solve(self._backend.view(f), self._backend.view(u))

    def _solve(self, f: Any, u: Any) -> None:
        work = f.copy()
        take_boundary(self._operator, work, u)
        for transform in self._transforms:
            transform.forward(work)
        values = work[self._free]
        last = values.ndim - 1
        rows, most = self._paddings.get(last), VALUES[not self._backend.on_host]
        if rows is not None:
            modes = self._xp.empty(
                (*values.shape[:-1], rows.half + 1), dtype=np.result_type(values.dtype, np.complex64)
            )
            self._each(0, values.shape[0], 1 + most // values[0].size, partial(self._along_rows, rows, values, modes))
        else:
            modes = values
        plane = math.prod(2 * padding.half for place, padding in self._paddings.items() if place != last)
        self._each(last, modes.shape[-1], 1 + 4 * most // plane, partial(self._convolve, modes))
        if rows is not None:
            self._each(
                0, values.shape[0], 1 + most // values[0].size, partial(self._back_along_rows, rows, modes, values)
            )
        for transform in reversed(self._transforms):
            transform.backward(work)
        u[self._free] = values

    def _each(self, place: int, count: int, width: int, work: Callable[[tuple[slice, ...]], None]) -> None:
        """Do a work for all parts of an axis, on the threads of the host."""
        before = (slice(None),) * place
        parts = [(*before, slice(start, start + width)) for start in range(0, count, width)]
        if self._threads < 2 or not self._backend.on_host:
            for part in parts:
                work(part)
            return
        with ThreadPoolExecutor(self._threads) as pool:
            list(pool.map(work, parts))

    def _along_rows(self, rows: _Padding, values: Any, modes: Any, part: tuple[slice, ...]) -> None:
        modes[part] = self._forward(rows, values[part])

    def _back_along_rows(self, rows: _Padding, modes: Any, values: Any, part: tuple[slice, ...]) -> None:
        values[part] = rows.cropped(self._fft.irfft(modes[part], 2 * rows.half, axis=rows.place))

    def _forward(self, padding: _Padding, values: Any) -> Any:
        """The transform along an axis: half of it where the values are real."""
        way = self._fft.fft if values.dtype.kind == "c" else self._fft.rfft
        if padding.wall is None:
            return way(values, 2 * padding.half, axis=padding.place)
        return way(padding.padded(self._xp, values), axis=padding.place)

    def _convolve(self, modes: Any, part: tuple[slice, ...]) -> None:
        """Along all axes but the last, for some columns."""
        values, passed = modes[part], list[tuple[_Padding, bool]]()
        for place in reversed(range(modes.ndim - 1)):
            if padding := self._paddings.get(place):
                passed.append((padding, values.dtype.kind == "c"))
                values = self._forward(padding, values)
        table = self._table[part]
        for padding, whole in passed:
            if whole:
                table = self._mirrored(table, padding)
        values = values * table
        for padding, whole in reversed(passed):
            way = self._fft.ifft if whole else self._fft.irfft
            values = padding.cropped(way(values, 2 * padding.half, axis=padding.place))
        modes[part] = values

    def _mirrored(self, table: Any, padding: _Padding) -> Any:
        """Even values on a whole period from those on the half."""
        half = np.moveaxis(table, padding.place, 0)
        return np.moveaxis(self._xp.concatenate([half, half[-2:0:-1]]), 0, padding.place)


def _with_ends(inverse: OpenInverse) -> Operator:
    """The operator, for which the open ends have no rule but that nothing is fixed there."""
    operator = inverse.operator
    axes = list(operator.lattice.axes)
    for axis, line in enumerate(axes):
        if ends := inverse.open_at(axis):
            lower, upper = (Rule.MIRROR if end else rule for end, rule in zip(ends, line.rules, strict=True))
            axes[axis] = replace(line, rules=(lower, upper))
    return replace(operator, lattice=replace(operator.lattice, axes=tuple(axes)))


def _transforms(backend: Backend, operator: Operator, axes: Iterable[int]) -> list[AxisTransform]:
    """The transforms along the closed axes; on a device products with matrices."""
    if backend.on_host:
        return transforms_of(operator, axes, max(1, backend.threads))
    return [_OnDevice(backend, operator, axis) for axis in axes if operator.couplings[axis]]


class _OnDevice(EigenvectorTransform):
    """By the eigenvectors, as arrays of a device."""

    def __init__(self, backend: Backend, operator: Operator, axis: int) -> None:
        super().__init__(operator, axis, halves=False)
        self._ways = [backend.array_module.asarray(each.astype(backend.dtype)) for each in self._ways]

    def _planes(self, array: Any) -> Iterator[Any]:
        """All at once, with this axis the last but one."""
        values = array[self._inner]
        yield values.swapaxes(self._place, -2) if self._place < values.ndim - 1 else values.swapaxes(-1, -2)


def _module(backend: Backend) -> Any:
    """The transforms for the arrays of a backend."""
    if backend.on_host:
        from scipy import fft

        return fft
    return backend.array_module.fft
