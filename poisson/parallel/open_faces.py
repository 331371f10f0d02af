# SPDX-License-Identifier: MIT
"""Open faces where the grid is divided: what is on the faces is gathered, and the first rank computes the whole field.

The nodes of a face are few beside those of the box, and the products of matrices take little time. All ranks have the
same bits of it, by which rounds end.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from poisson.discrete.face_fields import FaceFields
from poisson.discrete.inverse import Layers
from poisson.discrete.operator import Operator
from poisson.mesh.lattice import Lattice

if TYPE_CHECKING:
    from poisson.parallel.distributed import DistributedBackend


class DividedFaces(FaceFields):
    """The field on the open faces of arrays of which a rank has the part on a lattice."""

    def __init__(self, backend: DistributedBackend, far: Operator, faces: Sequence[bool], lattice: Lattice) -> None:
        super().__init__(far, faces, np)
        self._communicator, self._device = backend.communicator, backend.array_module
        self._axes = lattice.axes[::-1]

    def take(self, u: Any, f: Any, empty: bool) -> bool:
        given = self._whole(f, (0,))
        self._given = {face: given[face, 0] for face in self._faces}
        for face in self._faces:
            self._put(f, face, np.zeros_like(given[face, 0]), self._everywhere(face))
            if empty:
                self.write(u, face, np.zeros(self.shape_of(face)))
        values = self._whole(u, (0,))
        return empty or not any(values[face, 0][self.own_of(face)].any() for face in self._faces)

    def changes(self, u: Any) -> tuple[dict[int, Any], dict[int, Any]]:
        whole, first = self._whole(u, (0, 1)), self._communicator.rank == 0
        found: tuple[dict[int, Any], dict[int, Any]]
        found = self._communicator.broadcast(super().changes(whole) if first else None)
        return found

    def write(self, u: Any, face: int, values: Any) -> None:
        whole = np.zeros([axis.undivided.nodes for axis in self._beside(face)])
        whole[self.own_of(face)] = values if isinstance(values, np.ndarray) else values.get()
        self._put(u, face, whole, self.own_of(face))

    def _beside(self, face: int) -> list[Any]:
        """The axes along a face, in the order of arrays."""
        return [axis for place, axis in enumerate(self._axes) if place != len(self._axes) - 1 - face // 2]

    def _everywhere(self, face: int) -> tuple[slice, ...]:
        return tuple(slice(0, axis.undivided.nodes) for axis in self._beside(face))

    def _places(self, face: int, inner: int, owned: bool) -> NDArray[np.intp]:
        """Where the rank has the nodes of a layer along the axis across it."""
        axis = self._axes[len(self._axes) - 1 - face // 2]
        number = axis.undivided.nodes - 1 - inner if face % 2 else inner
        found = np.flatnonzero(axis.index == number)
        return found[(found >= axis.owned.start) & (found < axis.owned.stop)] if owned else found

    def _whole(self, values: Any, layers: Sequence[int]) -> Layers:
        """Layers at the open faces, of what all ranks have."""
        parts = []
        for face in self._faces:
            for inner in layers:
                for place in self._places(face, inner, owned=True):
                    across = len(self._axes) - 1 - face // 2
                    here = tuple(place if n == across else axis.owned for n, axis in enumerate(self._axes))
                    part = values[here]
                    numbers = np.ix_(*(axis.index[axis.owned] for axis in self._beside(face)))
                    parts.append((face, inner, numbers, part.copy() if isinstance(part, np.ndarray) else part.get()))
        gathered = self._communicator.broadcast(self._communicator.gather(parts))
        found = {
            (face, inner): np.zeros([axis.undivided.nodes for axis in self._beside(face)])
            for face in self._faces
            for inner in layers
        }
        for face, inner, numbers, part in (each for some in gathered for each in some):
            found[face, inner][numbers] = part
        return found

    def _put(self, values: Any, face: int, whole: NDArray[np.float64], own: tuple[slice, ...]) -> None:
        """Write a part of a layer on a face to all that the rank has of it, halos too."""
        for place in self._places(face, 0, owned=False):
            across = len(self._axes) - 1 - face // 2
            spans = []
            for axis, some in zip(self._beside(face), own, strict=True):
                live = np.flatnonzero((axis.index >= some.start) & (axis.index < some.stop))
                spans.append((live, axis.index[live]))
            part = whole[np.ix_(*(numbers for _, numbers in spans))]
            here: list[Any] = [live for live, _ in spans]
            here.insert(across, np.array([place]))
            grid = tuple(self._device.asarray(each) for each in np.ix_(*here))
            values[grid] = self._device.asarray(np.expand_dims(part, across))
