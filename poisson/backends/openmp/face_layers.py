# SPDX-License-Identifier: MIT
"""Values on faces that follow from u next to them, in one direct solution: native/transforms/tridiagonal.cpp.

From the modes of f come the layers of u next to the faces, without u elsewhere. The values that follow from these add
to the equations in the same layers, so that their modes are added to those of f. That is one more look at the modes in
the place of a second solution.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from poisson.backends.openmp.arrays import pitch_of
from poisson.backends.openmp.library import FacesStructure, operator_structure
from poisson.backends.transforms import AxisTransform, links_of_boundary
from poisson.discrete.inverse import FaceValues
from poisson.discrete.operator import Operator
from poisson.mesh.axis import Axis
from poisson.mesh.boundary import Rule
from poisson.mesh.lattice import Lattice
from poisson.mesh.spectrum import Transform

if TYPE_CHECKING:
    from poisson.backends.openmp.backend import OpenmpBackend

Values = NDArray[np.float64]


class FaceLayers:
    """The layers of nodes next to some faces.

    `backend`: on the host. `structure`: to the operator as the library sees it. `operator`: with transforms along all
    axes but the last. `transform`: makes one of an axis. `spectra`: the eigenvalues by node. `faces`: those whose nodes
    are fixed, and have the values.
    """

    def __init__(
        self,
        backend: OpenmpBackend,
        structure: Any,
        operator: Operator,
        transform: Callable[[OpenmpBackend, Any, Operator, int], AxisTransform],
        spectra: Sequence[Values],
        faces: Sequence[int],
    ) -> None:
        self._functions, self._structure, self._faces = backend.functions, structure, faces
        self._spectra = [each.ctypes.data for each in spectra[:2]]
        self._axes, self._links = operator.lattice.axes, [link for _, link in links_of_boundary(operator)]
        lines, last = self._axes[:-1], self._axes[-1].free
        doubles: Any = backend.companion(np.float64)
        rows = last.stop - last.start
        both, ends = _beside(2 * rows), _beside(2)

        def transforms(*axes: Axis) -> list[AxisTransform]:
            small = Operator(Lattice(axes), 0.0)
            here = ctypes.byref(operator_structure(small, pitch_of(small.shape[0]), backend.threads))
            return [transform(doubles, here, small, n) for n, axis in enumerate(axes) if math.isfinite(axis.spacing)]

        (nx, ny), pitch = (*(line.nodes for line in lines), 1)[:2], pitch_of(2 * rows)
        self._layers = [np.zeros(shape) for shape in ((ny, pitch), (rows, 2, pitch_of(nx)), (2, ny, pitch_of(nx)))]
        self._transforms = [transforms(both, *lines[1:]), transforms(lines[0], both), transforms(*lines, ends)]
        # An equation next to a face in the modes of the axis across, and back.
        to_modes = [np.zeros((2, pitch_of(nx))), np.zeros((2, pitch_of(ny)))]
        for face in faces:
            axis, end = divmod(face, 2)
            if axis < len(lines):
                to_modes[axis][end, lines[axis].free.stop - 1 if end else lines[axis].free.start] = 1.0
        for line, weights in zip(lines, to_modes, strict=False):
            transforms(line, ends)[0].forward(weights)
        # Of sines all waves have the same norm.
        to_nodes = [each / np.maximum((each**2).sum(axis=1, keepdims=True), 1e-300) for each in to_modes]
        self._tables = to_modes, to_nodes
        self._to_modes, self._to_nodes = (
            FacesStructure(
                weights=(ctypes.c_void_p * 4)(*(row.ctypes.data for each in tables for row in each)),
                layers=(ctypes.c_void_p * 3)(*(each.ctypes.data for each in self._layers)),
                pitch=pitch,
            )
            for tables in self._tables
        )

    @staticmethod
    def fit(operator: Operator, faces: Sequence[int]) -> bool:
        """Whether the axes across the faces, but for the last one, have sines for their modes."""
        lines = {operator.lattice.axes[face // 2] for face in faces if face // 2 < operator.dimension - 1}
        return all(line.transform in (Transform.SINE, Transform.QUARTER) for line in lines)

    def solve(self, u: NDArray[Any], values: FaceValues) -> None:
        """Turn the modes of f in u into those of u along all axes but the last, and write the values on the faces."""
        self._functions.to_faces(self._structure, *self._spectra, ctypes.byref(self._to_nodes), u.ctypes.data)
        used = {self._place(face) for face in self._faces}
        for place in used:
            for transform in reversed(self._transforms[place]):
                transform.backward(self._layers[place])
        layers = {}
        for face in self._faces:
            layers[face, 0], inner = self._layer(u, face, 0), self._layer(u, face, 1).astype(np.float64)
            inner[self._own(face)] = self._part(face)
            layers[face, 1] = inner
        values.write(u, layers)
        values.written = True
        for place in used:
            self._layers[place][...] = 0.0
        for face in self._faces:
            self._part(face)[...] = self._links[face] * self._layer(u, face, 0)[self._own(face)]
        for place in used:
            for transform in self._transforms[place]:
                transform.forward(self._layers[place])
        for face in self._faces:
            if self._place(face) == 2:
                self._layer(u, face, 1)[self._own(face)] += self._part(face)
        self._functions.add_faces(self._structure, *self._spectra, ctypes.byref(self._to_modes), u.ctypes.data)

    def _place(self, face: int) -> int:
        """The number of the array of layers that has that of a face."""
        return 2 if face // 2 == len(self._axes) - 1 else face // 2

    def _own(self, face: int) -> tuple[slice, ...]:
        """The nodes of a layer that are not fixed."""
        return tuple(line.free for axis, line in reversed([*enumerate(self._axes)]) if axis != face // 2)

    def _part(self, face: int) -> Values:
        """The same nodes in the array of layers."""
        place, end, of_x = self._place(face), face % 2, self._axes[0].free
        of_y = self._axes[1].free if len(self._axes) == 3 else 0
        if place == 0:
            rows = self._layers[1].shape[0]
            return self._layers[0][of_y, end : 2 * rows : 2].T
        return self._layers[1][:, end, of_x] if place == 1 else self._layers[2][end, of_y, of_x]

    def _layer(self, u: NDArray[Any], face: int, inner: int) -> NDArray[Any]:
        found: NDArray[Any] = np.moveaxis(u, len(self._axes) - 1 - face // 2, 0)[-1 - inner if face % 2 else inner]
        return found


def _beside(nodes: int) -> Axis:
    """An axis along which nothing is coupled."""
    return Axis(nodes, math.inf, (Rule.MIRROR, Rule.MIRROR))
