# SPDX-License-Identifier: MIT
"""The direct solution on the arrays of the OpenMP library: its own transforms and tridiagonal systems, or scipy's."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from poisson.backends.callers import CallersArray
from poisson.backends.inverses import CertifyingInverse, DividedInverseOperations, InverseOperations, Norms
from poisson.backends.openmp.arrays import given, pitch_of
from poisson.backends.openmp.library import ConvolutionStructure, LineStructure, operator_structure
from poisson.backends.openmp.passes import Passes
from poisson.backends.openmp.tables import tables_of
from poisson.backends.slabs import HostSlab, OwnedPlanes, Plane, RowByRow, ScipySlab, eigenvalues_by_node
from poisson.backends.spectra import (
    Convolution,
    Line,
    digits_reversed,
    factors_of,
    free,
    require_constant,
    roots_of_unity,
)
from poisson.backends.transforms import (
    AxisTransform,
    EigenvectorTransform,
    HostTransforms,
    ScipyInverse,
    transformed_axes,
    transforms_beside,
)
from poisson.discrete.inverse import DividedInverse, FaceValues, Inverse
from poisson.discrete.operator import Operator
from poisson.mesh.boundary import Rule
from poisson.mesh.chain import OfConstants, chain_of

if TYPE_CHECKING:
    from poisson.backends.openmp.arrays import DeviceArray
    from poisson.backends.openmp.backend import GivenArray, OpenmpBackend
    from poisson.backends.openmp.face_layers import FaceLayers


LARGEST_ODD = 127
"""The largest odd factor of a length that is multiplied with; larger ones go through a convolution. Found by timing."""


class TransformsInPlace(CertifyingInverse):
    """On arrays in the host's memory."""

    def __init__(self, backend: OpenmpBackend, inverse: Inverse) -> None:
        operator = inverse.operator
        require_constant(operator)
        pitch, tables = pitch_of(operator.shape[0]), tables_of(backend, operator)
        structure = ctypes.byref(operator_structure(operator, pitch, backend.threads, tables))
        axes, lines = transformed_axes(operator), operator.lattice.axes
        if operator.lattice.angle is not None:
            transforms = [_transform(backend, structure, operator, axis) for axis in axes if axis]
            modes = _Modes(backend, structure, operator, transforms, 0)
            self._steps = HostTransforms(operator, transforms, modes.chains, inverse.held)
            self._passes, self._together = None, False
            return
        # Tridiagonal systems go along the longest axis that no transform makes diagonal, or else the last one.
        last = len(lines) - 1
        chains = [axis for axis in axes if lines[axis].transform is None or axis == last]
        chains = [axis for axis in chains if not lines[axis].wraps and lines[axis].tabulated]
        chain = min(
            chains, key=lambda axis: (lines[axis].transform is not None, -lines[axis].nodes, -axis), default=None
        )
        tridiagonal = chain is None and operator.rules[-1] is not Rule.WRAP and not lines[-1].tabulated
        solved = last if tridiagonal else chain
        transforms = [_transform(backend, structure, operator, axis) for axis in axes if axis != solved]
        modes = _Modes(backend, structure, operator, transforms, chain)
        self._solve_modes = modes.tridiagonal if tridiagonal else modes.divide if chain is None else modes.chains
        self._operator, self._result, self._read = operator, backend.reduction(), backend.read
        self._steps = HostTransforms(operator, transforms, self._solve_modes)
        self._passes = None
        whole = [*range(operator.dimension - (solved == last))][: len(axes)]
        plain = {transform.axis: transform for transform in transforms if isinstance(transform, _LibraryTransform)}
        if plain and len(plain) == len(transforms):
            by_axis = [plain.get(axis) for axis in whole]
            self._passes = Passes(backend, structure, operator, by_axis, modes.spectra, tridiagonal)
        self._layers: FaceLayers | None = None
        self._of_layers = (backend, structure, operator, _transform, modes.spectra)
        self._has_layers = bool(self._passes) and tridiagonal and len(plain) == operator.dimension - 1 > 0
        self._together = bool(self._passes) and backend.dtype == np.float64 and not operator.singular and not tables

    @property
    def together(self) -> bool:
        return self._together

    def solve_many(
        self, fs: Sequence[GivenArray], start: DeviceArray
    ) -> tuple[Sequence[DeviceArray], Sequence[Sequence[float]]]:
        assert self._passes is not None
        return self._passes.solve_many(fs, start)

    def solve_certified(
        self, f: DeviceArray | GivenArray, u: DeviceArray, values: FaceValues | None = None
    ) -> tuple[Norms, Norms] | None:
        if self._passes is None:
            return None
        self._passes.to_modes(f, u, self._result)
        source, array = self._read(self._result), u.on_host
        if isinstance(f, CallersArray) and not math.isfinite(source[0]):
            f.refuse()
        if source[1] == 0.0:
            array[self._operator.lattice.free] = 0.0
            return None
        if values and self._between(values):
            assert self._layers
            self._layers.solve(array, values)
        else:
            self._solve_modes(array, array)
        self._passes.from_modes(u, f, self._result)
        return source, self._read(self._result)

    def _between(self, values: FaceValues) -> bool:
        """Whether there are the layers next to the faces before there is u."""
        if self._has_layers and self._layers is None:
            from poisson.backends.openmp.face_layers import FaceLayers

            if FaceLayers.fit(self._operator, values.faces):
                self._layers = FaceLayers(*self._of_layers, values.faces)
        return self._layers is not None

    def solve(self, f: DeviceArray, u: DeviceArray) -> None:
        values = u.on_host
        if self._passes is None:
            self._steps.solve(f.on_host, values)
            return
        self._passes.to_modes(f, u, None)
        self._solve_modes(values, values)
        self._passes.from_modes(u, f, None)


def _transform(backend: OpenmpBackend, structure: Any, operator: Operator, axis: int) -> AxisTransform:
    if operator.lattice.axes[axis].transform is None:
        return EigenvectorTransform(operator, axis)
    return _LibraryTransform(backend.functions.transform, structure, Line(operator, axis), backend.dtype)


class SlabInPlace(HostSlab):
    """On arrays in the host's memory."""

    def __init__(self, backend: OpenmpBackend, inverse: DividedInverse) -> None:
        run = OwnedPlanes(part := inverse.operator)
        structure = ctypes.byref(operator_structure(run.operator, pitch_of(run.operator.shape[0]), backend.threads))
        if part.lattice.angle is None:
            axes = transformed_axes(run.operator)[:-1]
            transforms = [_transform(backend, structure, run.operator, axis) for axis in axes]
        else:
            transforms = transforms_beside(run.operator, backend.threads)
        if part.lattice.axes[-1].tabulated or part.lattice.angle is not None:
            super().__init__(run, transforms, RowByRow(run, transforms))
        else:
            modes = _Modes(backend, structure, run.operator, transforms)
            super().__init__(run, transforms, _Chains(run, modes))

    def condense(self, f: Any, u: Any, first: Any | None, last: Any | None, line: Any | None) -> None:
        super().condense(given(f), given(u), *map(_view_of, (first, last, line)))

    def expand(self, f: Any, u: Any, below: Any | None, above: Any | None, line: Any | None) -> None:
        super().expand(given(f), given(u), *map(_view_of, (below, above, line)))


class _Modes:
    """Solves for the modes of the axes that are transformed, with the eigenvalues by node."""

    def __init__(
        self,
        backend: OpenmpBackend,
        structure: Any,
        operator: Operator,
        transforms: Sequence[AxisTransform],
        chain: int | None = None,
    ) -> None:
        self._functions = backend.functions
        self._structure = structure
        self._operator = operator
        self.spectra = [np.zeros(nodes) for nodes in (*operator.shape, 1)[:3]]
        for transform in transforms:
            self.spectra[transform.axis][free(operator, transform.axis)] = transform.spectrum
        angle, self._turned = operator.lattice.angle, None
        # Beside an angle, what is not divided by r² is that of the last axis, or of none.
        self.spectra[0 if chain != 0 else 1 if angle is None else 2] += operator.c
        if chain is not None:
            line, coupling = operator.lattice.axes[chain], operator.couplings[chain]
            if angle is not None:
                self._turned = (line.widths / line.coordinates**2)[line.free]
            self._chain = chain, chain_of(line, coupling)
            self._lowest = (0,) * operator.lattice.array_axis(chain) + (slice(None),) + (0,) * chain
            self._of_constants = OfConstants(line, coupling) if operator.singular else None
        self._tables = tuple(values.ctypes.data for values in self.spectra)

    def divide(self, f: NDArray[Any], u: NDArray[Any]) -> None:
        """Where all axes are transformed."""
        self._functions.divide(self._structure, *self._tables, f.ctypes.data, u.ctypes.data)

    def tridiagonal(self, f: NDArray[Any], u: NDArray[Any]) -> None:
        """Where all but the last are."""
        # Where A is singular, the system of the lowest mode of the other axes is.
        lowest = (slice(None),) + (0,) * (self._operator.dimension - 1)
        line = f[lowest].astype(np.float64) if self._operator.singular else None
        self._functions.tridiagonal(self._structure, *self._tables, f.ctypes.data, u.ctypes.data, None, None)
        if line is not None:
            slowest = self._operator.lattice.axes[-1]
            u[lowest] = between_mirrors(line, slowest.widths, self._operator.couplings[-1])

    def chains(self, f: NDArray[Any], u: NDArray[Any]) -> None:
        """Where all but one are that is tabulated, or a radius beside an angle."""
        (axis, chain), constants = self._chain, self._of_constants
        line = None if constants is None else constants.solve(f[self._lowest].astype(np.float64))
        arrays = (chain.ctypes.data, _address(self._turned), f.ctypes.data, u.ctypes.data)
        self._functions.chains(self._structure, axis, *self._tables, *arrays)
        if line is not None:
            u[self._lowest] = line

    def condense(self, f: NDArray[Any], first: Plane | None, last: Plane | None) -> None:
        """Compute the flow into the separators beside the rows."""
        self._functions.condense(self._structure, *self._tables[:2], f.ctypes.data, _address(first), _address(last))

    def tridiagonal_between(self, f: NDArray[Any], u: NDArray[Any], below: Plane | None, above: Plane | None) -> None:
        """Where the values at the separators are known."""
        arrays = (f.ctypes.data, u.ctypes.data, _address(below), _address(above))
        self._functions.tridiagonal(self._structure, *self._tables, *arrays)


class _Chains:
    """`poisson.backends.slabs.Systems` by the library. A plane has values at fixed nodes too."""

    def __init__(self, run: OwnedPlanes, modes: _Modes) -> None:
        self._run = run
        self._modes = modes
        self.eigenvalues = eigenvalues_by_node(run, modes.spectra)

    def condense(self, f: NDArray[Any], first: Plane | None, last: Plane | None, line: Plane | None) -> None:
        self._modes.condense(f, first, last)
        if line is not None:
            line[...] = self._of_constants(f)

    def expand(
        self, f: NDArray[Any], u: NDArray[Any], below: Plane | None, above: Plane | None, line: Plane | None
    ) -> None:
        self._modes.tridiagonal_between(f, u, below, above)
        if line is not None:
            self._of_constants(u)[...] = line[0]

    def _of_constants(self, array: NDArray[Any]) -> NDArray[Any]:
        """The first mode along the run."""
        return array[(self._run.unknowns,) + (0,) * (array.ndim - 1)]


def between_mirrors(f: NDArray[np.float64], widths: NDArray[np.float64], coupling: float) -> NDArray[np.float64]:
    """The solution of zero mean of ``coupling (2 u_i − u_{i−1} − u_{i+1}) = f_i − mean`` between mirror faces."""
    source = widths * (f - widths @ f / widths.sum()) / coupling
    u: NDArray[np.float64] = np.append(0.0, -np.cumsum(np.cumsum(source)[:-1]))
    u -= widths @ u / widths.sum()
    return u


class _LibraryTransform:
    """An `AxisTransform` by the library."""

    def __init__(self, function: Callable[..., None], operator: Any, line: Line, dtype: np.dtype[Any]) -> None:
        self.axis = line.axis
        self.spectrum = line.spectrum()[free(line.operator, line.axis)]
        self._function = function
        self._operator = operator
        self.scale = 1.0 / line.gain
        complex_type = np.result_type(dtype, np.complex64)
        factors, odd, rest = _factors(line.length)
        convolution = Convolution(rest) if rest > 1 else None
        factors += odd + (rest,) * (rest > 1)
        tables = [line.roots().astype(complex_type), line.turns().astype(complex_type), digits_reversed(factors)]
        room = max(odd, default=1) - 1
        pointer = None
        if convolution:
            room = max(room, convolution.padded)
            values = (roots_of_unity(convolution.padded), convolution.chirp(), convolution.spectrum())
            values[2][digits_reversed(convolution.factors)] = values[2].copy()
            kept = [each.astype(complex_type) for each in values]
            pointer = ctypes.pointer(
                ConvolutionStructure(
                    convolution.length,
                    convolution.padded,
                    (ctypes.c_int32 * 32)(*convolution.factors),
                    *(table.ctypes.data for table in kept),
                )
            )
            tables += kept
        self._tables = (pointer, *tables)
        roots, turns, order = (table.ctypes.data for table in tables[:3])
        self.structure = LineStructure(
            axis=line.axis,
            kind=int(line.kind),
            reversed=int(line.reversed),
            radix=(ctypes.c_int32 * 32)(*factors),
            length=line.length,
            room=room,
            roots=roots,
            turns=turns,
            order=order,
            convolution=pointer,
        )
        self._line = ctypes.byref(self.structure)

    def forward(self, array: NDArray[Any]) -> None:
        self._function(self._operator, self._line, 1, 1.0, array.ctypes.data)

    def backward(self, array: NDArray[Any]) -> None:
        self._function(self._operator, self._line, 0, self.scale, array.ctypes.data)


def _factors(length: int) -> tuple[tuple[int, ...], tuple[int, ...], int]:
    """The small factors of a length, the odd ones that the library multiplies with, and what is left of it."""
    small, left = factors_of(length)
    odd, left = factors_of(left, range(7, LARGEST_ODD + 1, 2))
    return small, odd, left


class TransformsOfCopies(InverseOperations):
    """On arrays of a GPU, solved on the host."""

    def __init__(self, backend: OpenmpBackend, inverse: Inverse) -> None:
        self._backend = backend
        self._transforms = ScipyInverse(backend, inverse, backend.threads)

    def solve(self, f: DeviceArray, u: DeviceArray) -> None:
        result = self._backend.to_host(u)
        self._transforms.solve(self._backend.to_host(f), result)
        self._backend.upload(u, result)


class SlabOfCopies(DividedInverseOperations):
    """On arrays of a GPU, whose copies are solved for on the host."""

    def __init__(self, backend: OpenmpBackend, inverse: DividedInverse) -> None:
        self._backend = backend
        self._slab = ScipySlab(backend, inverse, backend.threads)
        self._f = np.empty(0)
        self.eigenvalues = self._slab.eigenvalues

    def condense(self, f: Any, u: Any, first: Any | None, last: Any | None, line: Any | None) -> None:
        self._f = self._backend.to_host(f)
        planes = [None if array is None else np.empty(array.shape, array.dtype) for array in (first, last, line)]
        self._slab.condense(self._f, self._backend.to_host(u), *planes)
        for array, plane in zip((first, last, line), planes, strict=True):
            if array is not None and plane is not None:
                self._backend.upload(array, plane)

    def expand(self, f: Any, u: Any, below: Any | None, above: Any | None, line: Any | None) -> None:
        result = self._backend.to_host(u)
        planes = [None if array is None else self._backend.to_host(array) for array in (below, above, line)]
        self._slab.expand(self._f, result, *planes)
        self._backend.upload(u, result)


def _address(plane: Plane | None) -> int | None:
    return None if plane is None else plane.ctypes.data


def _view_of(array: DeviceArray | None) -> NDArray[Any] | None:
    return None if array is None else given(array)
