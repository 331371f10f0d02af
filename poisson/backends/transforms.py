# SPDX-License-Identifier: MIT
"""Direct solution by fast transforms on the host; `poisson.backends.spectra` has the mathematics."""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from poisson.backends.inverses import InverseOperations
from poisson.backends.processors import default_threads
from poisson.backends.spectra import largest_prime_factor, require_constant
from poisson.discrete.inverse import Inverse
from poisson.discrete.operator import Operator
from poisson.mesh.axis import Axis
from poisson.mesh.boundary import Rule
from poisson.mesh.grid import slabs
from poisson.mesh.spectrum import Transform

SCIPY_FACTOR = 80
"""Where the length of a transform has a larger prime factor, scipy's takes some ten times as long as others, ..."""
MOST_MODES = 512
"""... and a product with the matrix of the eigenvectors takes less, up to so many modes. Both were found by timing."""

_KINDS = {
    Transform.SINE: 1,
    Transform.COSINE: 1,
    Transform.QUARTER: 3,
    Transform.CELL_COSINE: 2,
    Transform.CELL_QUARTER: 4,
    Transform.CELL_SINE: 2,
}
"""The types of sine and cosine transforms."""

SolveModes = Callable[[NDArray[Any], NDArray[Any]], None]
"""From the modes of f to those of u."""


class AxisTransform(Protocol):
    """The transform of an array along one axis, in place: at the nodes that are not fixed, to as many modes."""

    axis: int
    spectrum: NDArray[np.float64]
    """The eigenvalues of the modes."""

    def forward(self, array: NDArray[Any]) -> None:
        """Transform to the modes."""

    def backward(self, array: NDArray[Any]) -> None:
        """Transform back to the nodes."""


def links_of_boundary(operator: Operator) -> Iterator[tuple[Rule, float]]:
    """The rule of each face, and what the value of a node that it fixes counts in the equation of its neighbour."""
    for line, coupling in zip(operator.lattice.axes, operator.couplings, strict=True):
        lower, upper, _ = line.couplings
        yield line.rules[0], coupling * lower[min(1, line.nodes - 1)]
        yield line.rules[1], coupling * upper[line.free.stop - 1]


def take_boundary(operator: Operator, f: Any, u: Any, asarray: Callable[[Any], Any] = np.asarray) -> None:
    """Add to f what the fixed nodes of u contribute to the equations of their neighbours; both are as of `asarray`."""
    inner = operator.lattice.free
    for face, (rule, link) in enumerate(links_of_boundary(operator)):
        if rule is Rule.FIXED:
            source: list[slice | int] = list(inner)
            target: list[slice | int] = list(inner)
            place, axis = operator.lattice.array_axis(face // 2), operator.lattice.axes[face // 2]
            source[place], target[place] = (-1, axis.free.stop - 1) if face % 2 else (0, 1)
            ends = [ends.indices(count)[:2] for ends, count in zip(inner, f.shape, strict=True)]
            squared = asarray(operator.lattice.scale(face // 2, ends)) ** 2
            f[tuple(target)] += f.dtype.type(link) * u[tuple(source)] / squared


class ScipyTransform:
    """An `AxisTransform` by scipy.

    `operator`: the operator on the arrays. `axis`: the axis; 0 is x. `workers`: threads.
    """

    def __init__(self, operator: Operator, axis: int, workers: int) -> None:
        from scipy import fft, fftpack

        line = operator.lattice.axes[axis]
        self.axis = axis
        self.spectrum = operator.couplings[axis] * line.eigenvalues
        self._inner = operator.lattice.free
        self._place = operator.lattice.array_axis(axis)
        self._workers = workers
        self._set_workers = fft.set_workers
        self._ways: tuple[Callable[..., NDArray[Any]], Callable[..., NDArray[Any]]]
        if line.transform is Transform.FOURIER:
            # Real arrays of the same shape, in which sines and cosines alternate.
            self._ways = fftpack.rfft, fftpack.irfft
            self.spectrum = self.spectrum[(np.arange(self.spectrum.size) + 1) // 2]
        else:
            assert line.transform is not None
            kind = _KINDS[line.transform]
            holds = line.rules[0] is Rule.FIXED or line.walls[0] > 0.0
            pair = (fft.dst, fft.idst) if holds else (fft.dct, fft.idct)
            self._ways = partial(pair[0], type=kind), partial(pair[1], type=kind)

    def forward(self, array: NDArray[Any]) -> None:
        self._apply(self._ways[0], array)

    def backward(self, array: NDArray[Any]) -> None:
        self._apply(self._ways[1], array)

    def _apply(self, way: Callable[..., NDArray[Any]], array: NDArray[Any]) -> None:
        values = array[self._inner]
        try:
            with self._set_workers(self._workers):
                transformed = way(values, axis=self._place, overwrite_x=True)
        except RuntimeError:
            # No thread could be started, by a limit of the system. Nothing was transformed yet.
            self._workers = 1
            with self._set_workers(1):
                transformed = way(values, axis=self._place, overwrite_x=True)
        if transformed is not values:
            values[...] = transformed


class EigenvectorTransform:
    """An `AxisTransform` by the eigenvectors of the operator along an axis: matrix products, for any axis.

    `operator`: the operator on the arrays. `axis`: the axis; 0 is x.

    Reference: R. E. Lynch, J. R. Rice and D. H. Thomas, "Direct solution of partial difference equations by tensor
    product methods", Numerische Mathematik 6, 1964.
    """

    def __init__(self, operator: Operator, axis: int) -> None:
        line = operator.lattice.axes[axis]
        self.axis = axis
        self._ways: Sequence[Any]
        self._halves = _even_and_odd(line)
        if self._halves:
            values, self._ways = self._halves
        else:
            values, columns, rows = line.eigenvectors
            self._ways = [rows[:, line.free], columns[line.free]]
        self.spectrum = operator.couplings[axis] * values
        self._inner = operator.lattice.free
        self._place = operator.lattice.array_axis(axis)

    def forward(self, array: NDArray[Any]) -> None:
        for values in self._planes(array):
            if not self._halves:
                values[...] = self._ways[0] @ values
                continue
            half = len(values) // 2
            one, other = values[: len(values) - half].astype(np.float64), values[::-1][:half]
            odd = one[:half] - other
            one[:half] += other
            values[::2], values[1::2] = self._ways[0] @ one, self._ways[1] @ odd

    def backward(self, array: NDArray[Any]) -> None:
        for values in self._planes(array):
            if not self._halves:
                values[...] = self._ways[1] @ values
                continue
            # Strided operands would not go to BLAS.
            even, odd = (part @ values[n::2].copy() for n, part in enumerate(self._ways[2:]))
            values[: len(even)], values[len(even) :] = even, (even[: len(odd)] - odd)[::-1]
            values[: len(odd)] = even[: len(odd)] + odd

    def _planes(self, array: NDArray[Any]) -> Iterator[NDArray[Any]]:
        """Views of the nodes that are not fixed, this axis the first of two, so that what is multiplied stays in a
        cache.
        """
        values = array[self._inner]
        if values.ndim == 1:
            yield values[:, np.newaxis]
        elif values.ndim == 2:
            yield np.moveaxis(values, self._place, 0)
        else:
            beside = 1 if self._place == 0 else 0
            for plane in np.moveaxis(values, beside, 0):
                yield plane if self._place < 2 else plane.T


class RadialTransform:
    """An `AxisTransform` along r beside an angle, where another axis is to have chains: by eigenvectors.

    The transform of the angle, if that is whole, comes first, and r has eigenvectors for each of its modes. Where
    chains go along the angle itself, the equations are multiplied by r², without which they differ along r.

    `operator`: the operator on the arrays. `turn`: the transform of the angle.
    """

    axis = 0

    def __init__(self, operator: Operator, turn: AxisTransform | None) -> None:
        line, coupling = operator.lattice.axes[0], operator.couplings[0]
        free, squared = line.free, line.coordinates[line.free] ** 2.0
        # Sines and cosines share their eigenvalues.
        of_angle, number = np.unique([0.0] if turn is None else turn.spectrum, return_inverse=True)
        scale = squared if turn is None else np.ones_like(squared)
        root = np.sqrt(line.widths[free] / scale)
        shift = operator.c * squared if turn is None else of_angle[:, np.newaxis] / squared
        matrices = scale[:, np.newaxis] * coupling * line.matrix[free, free]
        matrices = root[:, np.newaxis] * matrices / root + np.eye(len(root)) * np.atleast_2d(shift)[:, np.newaxis]
        values, vectors = np.linalg.eigh(matrices)
        if not line.holds and (turn is not None or operator.c == 0.0):
            values[of_angle == 0.0, 0] = 0.0  # but for rounding
        self.spectrum = values[0] - operator.c if turn is None else values[number]
        self._to_modes = np.swapaxes(vectors, 1, 2)[number] * (root * scale)
        self._to_nodes = vectors[number] / root[:, np.newaxis]
        self._turn, self._inner = turn, operator.lattice.free

    def forward(self, array: NDArray[Any]) -> None:
        if self._turn:
            self._turn.forward(array)
        self._multiply(array, self._to_modes)

    def backward(self, array: NDArray[Any]) -> None:
        self._multiply(array, self._to_nodes)
        if self._turn:
            self._turn.backward(array)

    def _multiply(self, array: NDArray[Any], matrices: NDArray[np.float64]) -> None:
        values = array[self._inner]
        lines = values.swapaxes(0, 1) if self._turn else values[np.newaxis]
        lines[...] = lines @ matrices.swapaxes(1, 2)


def _even_and_odd(line: Axis) -> tuple[NDArray[np.float64], list[NDArray[np.float64]]] | None:
    """The eigenvalues of a symmetric axis, those of even modes and of odd ones in turn, and the matrices from the
    halves of lines to these modes and back: half the work. None of another axis.

    Both kinds are computed apart: where nodes crowd at both ends, their eigenvalues differ by less than rounding.
    """
    free = line.free
    root, matrix = np.sqrt(line.widths[free]), line.matrix[free, free]
    symmetric = root[:, np.newaxis] * matrix / root
    if line.wraps or not np.allclose(symmetric, symmetric[::-1, ::-1], rtol=1e-12, atol=0.0):
        return None
    half = len(root) // 2
    less = len(root) - half
    values = np.empty(len(root))
    ways: list[NDArray[np.float64]] = [np.empty(0)] * 4
    for odd, count in enumerate((less, half)):
        folded, scale = symmetric[:count, :count].copy(), np.full((count, 1), math.sqrt(0.5))
        folded[:half, :half] += (1 - 2 * odd) * symmetric[:half, less:][:, ::-1]
        if count > half:
            folded[half] *= math.sqrt(2.0)
            folded[:, half] *= math.sqrt(2.0)
            folded[half, half], scale[half] = symmetric[half, half], 1.0
        values[odd::2], vectors = np.linalg.eigh(folded)
        ways[odd] = np.ascontiguousarray((vectors * scale * root[:count, np.newaxis]).T)
        ways[2 + odd] = np.ascontiguousarray(vectors * scale / root[:count, np.newaxis])
    if not line.holds:
        values[0] = 0.0  # but for rounding
    return values, ways


class HostTransforms(InverseOperations):
    """A direct solution on NumPy arrays, in place.

    `operator`: with constant coefficients. `transforms`: along the axes that are transformed. `solve_modes`: solves for
    the modes of those axes, from all nodes of f to those of u that are not fixed. `held`: as of `Inverse`. Raises
    `ValueError` if the coefficients vary.
    """

    def __init__(
        self, operator: Operator, transforms: Sequence[AxisTransform], solve_modes: SolveModes, held: bool = True
    ) -> None:
        require_constant(operator)
        self._operator = operator
        self._held = held
        self._transforms = transforms
        self._solve_modes = solve_modes

    def solve(self, f: NDArray[Any], u: NDArray[Any]) -> None:
        if not self._operator.unknowns:
            return
        if self._held:
            take_boundary(self._operator, f, u)
        for transform in self._transforms:
            transform.forward(f)
        self._solve_modes(f, u)
        for transform in reversed(self._transforms):
            transform.backward(u)


class ScipyInverse(HostTransforms):
    """Scipy's transforms along uniform axes, and eigenvectors along others."""

    def __init__(self, backend: object, inverse: Inverse, workers: int = 0) -> None:
        operator = inverse.operator
        require_constant(operator)
        radial = operator.lattice.angle is not None
        transforms = transforms_of(operator, range(radial, operator.dimension), workers or default_threads())
        solve_modes = partial(along_radius if radial else divide, operator, transforms)
        super().__init__(operator, transforms, solve_modes, inverse.held)


def transforms_of(operator: Operator, axes: Iterable[int], workers: int) -> list[AxisTransform]:
    """The transforms along those of the axes that have modes."""
    return [
        EigenvectorTransform(operator, axis)
        if _by_eigenvectors(operator.lattice.axes[axis])
        else ScipyTransform(operator, axis, workers)
        for axis in transformed_axes(operator)
        if axis in axes
    ]


def transforms_beside(operator: Operator, workers: int) -> list[AxisTransform]:
    """The transforms along all axes but the slowest, which is divided."""
    angle, last = operator.lattice.angle, operator.dimension - 1
    if angle is None or not transformed_axes(operator):
        return transforms_of(operator, range(last), workers)
    return [RadialTransform(operator, None if angle == last else transforms_of(operator, [angle], workers)[0])]


def _by_eigenvectors(line: Axis) -> bool:
    awkward = largest_prime_factor(line.intervals) > SCIPY_FACTOR and line.modes <= MOST_MODES
    return line.transform is None or awkward


def transformed_axes(operator: Operator) -> list[int]:
    """The axes along which there are modes; none where all nodes are fixed."""
    return [axis for axis in range(operator.dimension) if operator.couplings[axis]] if operator.unknowns else []


def along_radius(operator: Operator, transforms: Sequence[AxisTransform], f: NDArray[Any], u: NDArray[Any]) -> None:
    """Solve the tridiagonal system along r of each mode of the other axes, to which an angle adds λ/r².

    Elimination has no subtraction, as in `poisson.mesh.chain`.
    """
    lattice, line, coupling = operator.lattice, operator.lattice.axes[0], operator.couplings[0]
    lower, upper, extra = (values[line.free] for values in line.couplings)
    r, widths = line.coordinates[line.free], line.widths[line.free]
    modes, out = (np.moveaxis(values[lattice.free], -1, 0) for values in (f, u))
    of_angle = others = np.zeros(modes.shape[1:])
    for transform in transforms:
        spectrum = lattice.along(transform.axis, transform.spectrum)[..., 0]
        if transform.axis == lattice.angle:
            of_angle = of_angle + spectrum
        else:
            others = others + spectrum
    lowest = (slice(None),) + (0,) * (modes.ndim - 1)
    if operator.singular:
        modes[lowest] -= widths @ modes[lowest] / widths.sum()
    following = np.empty(modes.shape)
    x: Any = 0.0
    lost: Any = 1.0
    for row, radius in enumerate(r):
        loss = (operator.c + others + of_angle / radius**2) / coupling + extra[row] + lower[row] * lost
        pivot = upper[row] + loss
        if operator.singular and row == len(r) - 1:
            pivot[lowest[1:]] = math.inf
        x = (modes[row] / coupling + lower[row] * x) / pivot
        out[row], following[row], lost = x, upper[row] / pivot, loss / pivot
    for row in range(len(r) - 2, -1, -1):
        x = out[row] + following[row] * x
        out[row] = x
    if operator.singular:
        out[lowest] -= widths @ out[lowest] / widths.sum()


def divide(operator: Operator, transforms: Sequence[AxisTransform], f: NDArray[Any], u: NDArray[Any]) -> None:
    """u = f / eigenvalues at the nodes that are not fixed, and zero where the eigenvalue is."""
    inner = operator.lattice.free
    modes, out = f[inner], u[inner]
    for start, stop in slabs(modes.shape):
        total = np.full((1,) * modes.ndim, operator.c)
        for transform in transforms:
            slowest = transform.axis == modes.ndim - 1
            values = transform.spectrum[start:stop] if slowest else transform.spectrum
            total = total + operator.lattice.along(transform.axis, values)
        total[total == 0.0] = math.inf
        out[start:stop] = modes[start:stop] / total
