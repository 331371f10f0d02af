# SPDX-License-Identifier: MIT
"""The field on the open end of a radius beside an angle: a number for each mode of the angle, and of a closed z.

Each mode has a chain of nodes along r that goes on without end (`poisson.discrete.radial_green`), where the angle leaks
by its eigenvalue over r².
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from poisson.discrete.operator import Operator
from poisson.discrete.radial_green import Ladder
from poisson.mesh.axis import Axis

Values = NDArray[np.float64]

CHUNK = 4096
"""Modes whose chains are in memory at a time."""
NOTHING = 1e-12
"""An eigenvalue below this part of the largest is 0 but for rounding."""


class AngularFields:
    """The map from charges at the upper end of a radius to the field there.

    `far`, `own`, `xp`, `across`: as of `poisson.discrete.radial_fields.RadialFields`.
    """

    def __init__(self, far: Operator, own: Sequence[slice], xp: Any) -> None:
        self._far, self._xp = far, xp
        lattice, placed = far.lattice, far.lattice.axes[0].placement
        assert placed is not None
        self._radius = Axis.placed(placed.extended(2))
        self._last = lattice.axes[0].nodes - 1
        lower, upper, _ = self._radius.couplings
        self.across = float(lower[self._last]), float(upper[self._last]), float(lower[self._last + 1])
        self._to_modes, self._from_modes, spectra = [], [], []
        for axis in reversed(range(1, lattice.dimension)):  # in the order of the axes of a face's array
            values, columns, rows = lattice.axes[axis].eigenvectors
            self._to_modes.append(xp.asarray(np.ascontiguousarray(rows[:, own[axis]])))
            self._from_modes.append(xp.asarray(np.ascontiguousarray(columns[own[axis]])))
            spectra.append(far.couplings[axis] * np.where(values > NOTHING * values.max(), values, 0.0))
        rest = spectra[0] if len(spectra) == 2 else np.zeros(1)
        grid = np.broadcast_arrays(far.c + rest[:, np.newaxis], spectra[-1])
        self._rest, self._of_angle = (each.ravel() for each in grid)
        self._shape = tuple(spectrum.size for spectrum in spectra)
        self._numbers: dict[bool, Any] = {}

    def __call__(self, charges: Mapping[tuple[int, bool], Any]) -> dict[int, Any]:
        """The field on the face, on the nodes that no data fix; `charges` as those of `FaceFields`."""
        total = 0.0
        for (_, beyond), values in charges.items():
            if beyond not in self._numbers:
                self._numbers[beyond] = self._xp.asarray(self._of_modes(beyond))
            total = total + self._numbers[beyond] * self._along(self._to_modes, values)
        return {1: self._along(self._from_modes, total)}

    def _along(self, matrices: Sequence[Any], values: Any) -> Any:
        for axis, matrix in enumerate(matrices):
            values = self._xp.moveaxis(self._xp.tensordot(matrix, values, axes=(1, axis)), 0, axis)
        return values

    def _of_modes(self, beyond: bool) -> Values:
        """u of each mode at the last node for a charge there, or at the next node."""
        found = np.empty_like(self._rest)
        for start in range(0, found.size, CHUNK):
            some = slice(start, start + CHUNK)
            ladder = Ladder.of(self._radius, self._far.a, self._rest[some], self._of_angle[some])
            found[some] = ladder.column(self._last + beyond, self._last)[0]
        return found.reshape(self._shape) * float(self._radius.lengths[self._last + beyond])
