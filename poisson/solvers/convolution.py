# SPDX-License-Identifier: MIT
"""u in open space by convolution with a kernel of higher order than the stencil's.

Along an open axis the grid is twice as long; a wall at the other end makes an image of f, of the other sign if it holds
u. Closed axes have their own modes. In these modes u is f times the transform of the kernel
(`poisson.discrete.free_green`): of the Gaussian kernels of the orders m = 2 to 8 the charge is spread over σ = 1.5 h,
and the spectral one is that of a point. Tables of even functions have cosines in the place of exponentials, so that no
more than the values themselves is stored (D. Caprace, T. Gillis, P. Chatelain, "FLUPS", SIAM Journal on Scientific
Computing 43, 2021).

u is no solution of the difference equations, and their residual says how far both discretisations are apart.
"""

import contextlib
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from poisson.backends.base import Operations
from poisson.discrete.free_green import spread, transform
from poisson.mesh.axis import Axis
from poisson.mesh.boundary import Kind
from poisson.solvers.iteration import Method, Task
from poisson.solvers.keys import Settings, word
from poisson.solvers.status import Status
from poisson.solvers.stopping import SolveResult

Values = NDArray[np.float64]

KERNELS = ("lattice", "hejlesen2", "hejlesen4", "hejlesen6", "hejlesen8", "spectral")
WIDTH = 1.5
"""σ over the largest spacing."""
FAR = 9.0
"""The distance in σ from which on the field of a charge that is spread is that of a point."""
AT_ONCE = 1 << 21
"""Modes that are multiplied at once, and that are computed of a kernel."""


@dataclass(frozen=True)
class KernelSettings(Settings):
    """`kernel`: with which f is convolved in open space; that of the lattice solves the difference equations."""

    kernel: str = word(
        KERNELS[0],
        KERNELS,
        "where a face is open: the Green's function, that of the difference equations or one "
        "[of higher order](numerics.md#kernels-of-higher-order)",
        rank=15,
    )


@dataclass(frozen=True)
class Line:
    """The modes along one axis.

    `nodes`, `spacing`: of the axis, the latter in L. `period`: nodes after which f repeats, with its images and zeros.
    `opened`: whether an end is open. `images`: the node that has f at each place of a period, and the sign there;
    None without a wall. `turn`: makes real numbers of the modes of such images. `held`: the nodes that a wall holds.
    """

    nodes: int
    spacing: float
    period: int
    opened: bool = False
    images: tuple[Any, Any] | None = None
    turn: Any = None
    held: tuple[int, ...] = ()

    @classmethod
    def of(cls, axis: Axis, ends: tuple[Kind, Kind], xp: Any) -> "Line":
        """The modes of a whole axis between faces of two kinds; `xp`: the module of the arrays."""
        from scipy import fft

        nodes, spacing, opened = axis.nodes, axis.spacing, Kind.OPEN in ends
        walls = [end for end, kind in enumerate(ends) if kind.has_data]
        if not walls:
            return cls(nodes, spacing, 2 * fft.next_fast_len(nodes, real=True) if opened else nodes, opened)
        # A wall lies on the node next to it, or half a spacing before.
        on_faces = axis.placement is None or axis.placement.on_faces
        middles = [2 * (nodes - on_faces) - (not on_faces) if end else -(not on_faces) for end in walls]
        signs = [-1.0 if ends[end].fixes else 1.0 for end in walls]
        if opened:
            period = 2 * fft.next_fast_len(2 * nodes, real=True)
        else:
            period = (middles[1] - middles[0]) * (1 if signs[0] == signs[1] else 2)
        places, node, sign = np.arange(nodes), np.arange(nodes), np.ones(nodes)
        for middle, factor in zip(middles, signs, strict=True):
            places, node = np.append(places, middle - places), np.append(node, node)
            sign = np.append(sign, factor * sign)
        source, factors = np.zeros(period, dtype=np.intp), np.zeros(period)
        source[places % period], factors[places % period] = node, sign
        held = tuple((nodes - 1) * end for end, factor in zip(walls, signs, strict=True) if on_faces and factor < 0.0)
        factors[np.isin(source, held)] = 0.0
        turn = np.exp(1j * math.pi / period * middles[0] * np.arange(period // 2 + 1)) * (1.0 if signs[0] > 0.0 else 1j)
        return cls(nodes, spacing, period, opened, (xp.asarray(source), xp.asarray(factors)), xp.asarray(turn), held)

    @property
    def half(self) -> int:
        """Half of the period, rounded down: modes have the numbers 0 to that, or its negative."""
        return self.period // 2

    @property
    def numbers(self) -> Values:
        """The numbers of the modes, of which a mode below 0 has the table of its mirror image."""
        count = np.arange(self.half + 1 if self.images else self.period)
        return np.minimum(count, self.period - count)

    def longer(self, end: float) -> int:
        """Half of a period in which the images of a kernel that ends there stay away from the distances of nodes."""
        from scipy import fft

        if not self.opened:
            return self.half
        least = math.ceil((end / self.spacing + self.half) / 2.0) + 1
        return max(self.half, int(fft.next_fast_len(least, real=True)))

    def waves(self, half: int) -> Values:
        """k² of the modes 0 to `half` of a period of twice that, or of the closed axis, in 1/L²."""
        period = 2 * half if self.opened else self.period
        return np.square(2.0 * math.pi / (period * self.spacing) * np.arange(half + 1.0))

    def forward(self, fft: Any, values: Any, axis: int) -> Any:
        """The modes of values at the nodes: real numbers of real ones beside a wall; along the last axis no mirror
        images.
        """
        if self.images is None:
            last = axis == values.ndim - 1
            return (fft.rfft if last else fft.fft)(values, self.period, axis=axis)
        source, factors = self.images
        along = (-1, *(1,) * (values.ndim - 1 - axis))
        modes = fft.rfft(_real(values).take(source, axis=axis) * factors.reshape(along), axis=axis)
        return _like(values, (modes * self.turn.reshape(along)).real)

    def backward(self, fft: Any, modes: Any, axis: int) -> Any:
        """The values at the nodes."""
        nodes = (slice(None),) * axis + (slice(0, self.nodes),)
        if self.images is None:
            return (fft.irfft if axis == modes.ndim - 1 else fft.ifft)(modes, self.period, axis=axis)[nodes]
        turn = self.turn.conj().reshape(-1, *(1,) * (modes.ndim - 1 - axis))
        values = fft.irfft(_real(modes) * turn, self.period, axis=axis)[nodes]
        for node in self.held:
            values[(*nodes[:-1], node)] = 0.0
        return _like(modes, values)


def _real(values: Any) -> Any:
    """The real and the imaginary parts beside each other along the last axis, of complex numbers."""
    return values if values.dtype.kind == "f" else _in_order(values).view(np.float64)


def _like(before: Any, values: Any) -> Any:
    """Complex numbers from their parts, where those before were complex."""
    return values if before.dtype.kind == "f" else _in_order(values).view(np.complex128)


def _in_order(values: Any) -> Any:
    return values if values.flags.c_contiguous else values.copy()


class Convolution(Method):
    """A direct method where a face is open, a and c are constant, and walls have no data.

    `operations`: those of A, of which a, c and the lattice are used. `faces`: the kinds of all faces of the problem,
    none of them a Robin face. `kernel`: one of `KERNELS` but the first. On several processes each has whole planes of
    the slowest axis, and modes along the fastest one.
    """

    def __init__(self, operations: Operations, faces: Sequence[Kind], kernel: str) -> None:
        from scipy import fft

        self._operations, self._backend = operations, operations.backend
        operator, backend, on_host = operations.operator, operations.backend, operations.backend.on_host
        lattice = operator.lattice
        axes = [axis.undivided for axis in lattice.axes]
        kinds = [*faces, *(Kind.PERIODIC,) * (2 * len(axes) - len(faces))]  # in 1D there is an axis of one node more
        ends = zip(kinds[::2], kinds[1::2], strict=True)
        xp: Any = backend.array_module
        with backend.ordered():
            self._lines = [Line.of(axis, pair, xp) for axis, pair in zip(axes, ends, strict=True)][::-1]
            numbers = [line.numbers for line in self._lines[:-1]]
            self._mirrored = tuple(map(xp.asarray, np.ix_(*numbers)))
        self._shares = _shares(self._lines[-1].half + 1, backend.place[1])
        with self._workers():
            table = self._table(kernel, operator.a, operator.c)
        with backend.ordered():
            self._spectrum = table if on_host else xp.asarray(table)
        self._fft: Any = fft if on_host else xp.fft
        self._xp = xp
        self._norms, self._work = backend.reduction(), backend.empty(operator.array_shape)

    def run(self, task: Task) -> SolveResult:
        """Convolve f, which has the charges of open faces (`Method.run`)."""
        u, f, stopping, observer, *_ = task
        backend, owned = self._backend, self._operations.operator.lattice.owned
        with backend.ordered(), self._workers():
            backend.view(u)[owned] = self._convolved(backend.view(f)[owned].astype(np.float64))
        backend.changed(u)
        self._operations.certify(u, f, self._work, self._norms)
        norms = backend.read(self._norms)
        norm = stopping.measure(self._operations.operator, norms)
        if observer:
            observer.start(0.0, "nothing: the kernel is not that of the difference equations", 1)
            observer(1, norm)
        return SolveResult(Status.CONVOLVED, 1, u, self._work, 0.0, ((1, norm),), norms=norms)

    def refresh(self) -> bool:
        return False

    def _workers(self) -> contextlib.AbstractContextManager[None]:
        from scipy import fft

        return fft.set_workers(self._backend.threads)

    def _convolved(self, f: Any) -> Any:
        """f is transformed along the last axis, and of its modes some at a time along the others, there and back.

        On several processes each has planes of f, and then some of these modes on all planes.
        """
        xp, swapped, last = self._xp, self._backend.swapped, self._lines[-1]
        modes = last.forward(self._fft, f, f.ndim - 1)
        if len(self._shares) == 1:
            self._multiply(modes)
        else:
            planes = swapped([modes[..., share] for share in self._shares])
            modes = xp.concatenate(planes)
            self._multiply(modes)
            ends = itertools.accumulate(map(len, planes[:-1]))
            modes = xp.concatenate(swapped(xp.split(modes, list(ends))), axis=-1)
        return last.backward(self._fft, modes, f.ndim - 1)

    def _multiply(self, modes: Any) -> None:
        """Multiply modes along the last axis, in place, by the kernel in the modes along the others."""
        fft, others = self._fft, list(enumerate(self._lines[:-1]))
        step = max(1, AT_ONCE // math.prod(line.period for _, line in others))
        for start in range(0, modes.shape[-1], step):
            some = (..., slice(start, start + step))
            part = modes[some]
            for axis, line in reversed(others):
                part = line.forward(fft, part, axis)
            part = part * self._spectrum[some][self._mirrored]
            for axis, line in others:
                part = line.backward(fft, part, axis)
            modes[some] = part if modes.dtype.kind == "c" else part.real

    def _table(self, kernel: str, a: float, c: float) -> Values:
        """The transform of a kernel in the modes of all axes, of the last one those of this process.

        Along open axes the kernel is summed up at the distances of nodes, from modes of a longer period.
        """
        from scipy import fft

        lines = self._lines
        sigma = WIDTH * max(line.spacing for line in lines if math.isfinite(line.spacing))
        order, fades = (0, 0.0) if kernel == "spectral" else (int(kernel[-1]), FAR * sigma)
        opened = [line for line in lines if line.opened]
        end = math.hypot(*(line.half * line.spacing for line in opened)) + fades
        halves = [line.longer(end + fades) for line in lines]
        waves = [line.waves(half) for line, half in zip(lines, halves, strict=True)]

        def summed(values: Values, axis: int) -> Values:
            """From the modes of the longer period to those of the period."""
            if not lines[axis].opened:
                return values
            values = fft.dct(values, type=1, axis=axis, overwrite_x=True)
            values = fft.dct(values[(slice(None),) * axis + (slice(0, lines[axis].half + 1),)], type=1, axis=axis)
            values /= 2.0 * halves[axis]
            return values

        number, count = self._backend.place
        rows = _shares(len(waves[0]), count)[number]
        found = np.empty((rows.stop - rows.start, *(line.half + 1 for line in lines[1:])))
        step = max(1, AT_ONCE // math.prod(len(each) for each in waves[1:]))
        for start in range(rows.start, rows.stop, step):
            some = slice(start, min(start + step, rows.stop))
            both = np.ix_(waves[0][some], *waves[1:])
            of_open, of_closed = (
                sum((each for each, line in zip(both, lines, strict=True) if line.opened is which), np.zeros(()))
                for which in (True, False)
            )
            values = transform(of_open, of_closed + c / a, len(opened), end)
            if order:
                values = values * spread(sigma * sigma / 2.0 * (of_open + of_closed), order)
            for axis in range(1, len(lines)):
                values = summed(values, axis)
            found[start - rows.start : some.stop - rows.start] = values
        if count > 1:
            found = np.concatenate(self._backend.swapped([found[..., share] for share in self._shares]))
        found = summed(found, 0)
        found /= a
        return found


def _shares(modes: int, count: int) -> list[slice]:
    """Modes dealt out to so many processes."""
    return [slice(*ends) for ends in itertools.pairwise(modes * number // count for number in range(count + 1))]
