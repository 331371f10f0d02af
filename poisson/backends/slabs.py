# SPDX-License-Identifier: MIT
"""The part of each rank in a direct solution where the slowest axis is divided, on the host.

`poisson.parallel.fast` puts it together. Along the other axes lines are whole and are transformed; along the slowest
one every mode leaves a chain of equations (`poisson.mesh.chain`), of which a rank has a run. The last row of a run with
another above it is a *separator*. Between separators a run is a problem of its own once their values are known; and
what is needed for these is only how the solution with zeros at the separators would flow into them.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from poisson.backends.inverses import DividedInverseOperations
from poisson.backends.processors import default_threads
from poisson.backends.spectra import require_constant
from poisson.backends.transforms import AxisTransform, take_boundary, transforms_beside
from poisson.discrete.inverse import DividedInverse
from poisson.discrete.operator import Operator
from poisson.mesh.axis import Axis
from poisson.mesh.boundary import Rule

Plane = NDArray[Any]
"""The values of all modes on one plane, of shape (1, values)."""


class OwnedPlanes:
    """The planes that a rank owns of a lattice whose slowest axis is divided.

    `part`: on the planes with their halo. `rows`: the planes that are owned, among those of an array. `operator`: on
    these alone, as if the axis ended there: a cut is a mirror, at which nothing is fixed. `below`, `above`: whether
    there is a separator below the run, and whether its last row is one. Raises `ValueError` if the coefficients vary,
    or another axis is divided.
    """

    def __init__(self, part: Operator) -> None:
        line = part.lattice.axes[-1]
        self.part = part
        self.rows = line.owned
        self.below, self.above = (width > 0 for width in line.halo)
        rules = tuple(Rule.MIRROR if width else rule for width, rule in zip(line.halo, line.rules, strict=True))
        owned = Axis(self.rows.stop - self.rows.start, line.spacing, (rules[0], rules[1]))
        self.operator = replace(part, lattice=part.lattice.replaced(part.dimension - 1, owned))
        require_constant(self.operator)

    @cached_property
    def unknowns(self) -> slice:
        """The rows that are not fixed, among those that are owned."""
        return self.operator.lattice.axes[-1].free

    @property
    def inner(self) -> int:
        """Unknown rows that are no separator."""
        return len(range(self.operator.shape[-1])[self.unknowns]) - self.above

    @property
    def coupling(self) -> float:
        """a/h² along the slowest axis."""
        return self.operator.couplings[-1]

    @property
    def singular(self) -> bool:
        """Whether the whole problem is: the first mode of the other axes then has a line of its own."""
        return self.part.singular

    @cached_property
    def links(self) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
        """(lower, upper, extra, widths) of the unknown rows, with 0 for a neighbour that a mirror has replaced."""
        line = self.part.lattice.axes[-1]
        rows = slice(self.rows.start + self.unknowns.start, self.rows.start + self.unknowns.stop)
        lower, upper, extra, widths = (values[rows].copy() for values in (*line.couplings, line.widths))
        if not line.tabulated:
            if line.rules[0] is Rule.MIRROR and not self.below:
                lower[0], upper[0] = 0.0, lower[0] + upper[0]
            if line.rules[1] is Rule.MIRROR and not self.above:
                lower[-1], upper[-1] = lower[-1] + upper[-1], 0.0
        return lower, upper, extra, widths


class Systems(Protocol):
    """Solves for the modes of the whole axes along a run: `DividedInverseOperations`, on the planes that are owned."""

    eigenvalues: NDArray[np.float64]

    def condense(self, f: NDArray[Any], first: Plane | None, last: Plane | None, line: Plane | None) -> None:
        """From the modes of f to the flows."""

    def expand(
        self, f: NDArray[Any], u: NDArray[Any], below: Plane | None, above: Plane | None, line: Plane | None
    ) -> None:
        """From the modes of f and the values at the separators to the modes of u."""


class HostSlab(DividedInverseOperations):
    """The part of a rank on NumPy arrays.

    `run`: the planes. `transforms`: along the axes that are whole. `systems`: along the divided one.
    """

    def __init__(self, run: OwnedPlanes, transforms: Sequence[AxisTransform], systems: Systems) -> None:
        self._run = run
        self._transforms = transforms
        self._systems = systems
        self.eigenvalues = systems.eigenvalues

    def condense(
        self, f: NDArray[Any], u: NDArray[Any], first: Plane | None, last: Plane | None, line: Plane | None
    ) -> None:
        take_boundary(self._run.part, f, u)
        own = f[self._run.rows]
        for transform in self._transforms:
            transform.forward(own)
        self._systems.condense(own, first, last, line)

    def expand(
        self, f: NDArray[Any], u: NDArray[Any], below: Plane | None, above: Plane | None, line: Plane | None
    ) -> None:
        own = u[self._run.rows]
        self._systems.expand(f[self._run.rows], own, below, above, line)
        for transform in reversed(self._transforms):
            transform.backward(own)


class RowByRow:
    """`Systems` in NumPy, for any spacing: by elimination, as `poisson.mesh.chain` says, without a subtraction.

    Planes have the modes alone, without fixed nodes.
    """

    def __init__(self, run: OwnedPlanes, transforms: Sequence[AxisTransform]) -> None:
        lattice = run.operator.lattice
        total = np.full([len(range(axis.nodes)[axis.free]) for axis in lattice.axes[-2::-1]], run.operator.c)
        for transform in transforms:
            spectrum = transform.spectrum
            total = total + (spectrum if spectrum.ndim > 1 else lattice.along(transform.axis, spectrum))
        self.eigenvalues = total.ravel()
        self._run = run
        self._shifts = total / run.coupling

    def condense(self, f: NDArray[Any], first: Plane | None, last: Plane | None, line: Plane | None) -> None:
        modes = f[self._run.operator.lattice.free]
        lower, _, _, widths = self._run.links
        x: Any = np.zeros_like(self._shifts)
        weight, flow = np.ones_like(x), np.zeros_like(x)
        for row, pivot, following in self._pivots():
            x = (modes[row] / self._run.coupling + lower[row] * x) / pivot
            flow += weight * x
            weight *= following
        if first is not None:
            # What would flow into a separator below: with zeros at both, x of the first row is the sum.
            first[...] = (widths[0] * lower[0] * flow).ravel()
        if last is not None:
            last[...] = (widths[-1] * (modes[-1] / self._run.coupling + lower[-1] * x)).ravel()
        if line is not None:
            line[...] = modes[(slice(None),) + (0,) * self._shifts.ndim]

    def expand(
        self, f: NDArray[Any], u: NDArray[Any], below: Plane | None, above: Plane | None, line: Plane | None
    ) -> None:
        modes, out = (values[self._run.operator.lattice.free] for values in (f, u))
        lower, shape = self._run.links[0], self._shifts.shape
        x: Any = np.zeros(shape) if below is None else below.reshape(shape).astype(np.float64)
        steps = []
        for row, pivot, following in self._pivots():
            x = (modes[row] / self._run.coupling + (lower[row] if row or below is not None else 0.0) * x) / pivot
            steps.append((x, following))
        x = np.zeros(shape) if above is None else above.reshape(shape).astype(np.float64)
        if above is not None:
            out[-1] = x
        for row, (step, following) in reversed(list(enumerate(steps))):
            x = step + following * x
            out[row] = x
        if line is not None:
            out[(slice(None),) + (0,) * self._shifts.ndim] = line

    def _pivots(self) -> Any:
        """Every row that is no separator: its number, its pivot, and the factor by which the next row's value enters
        it.
        """
        lower, upper, extra, _ = self._run.links
        lost: Any = 1.0
        for row in range(self._run.inner):
            loss = self._shifts + extra[row] + lower[row] * lost
            pivot = upper[row] + loss
            lost = loss / pivot
            yield row, pivot, upper[row] / pivot


def eigenvalues_by_node(run: OwnedPlanes, spectra: Sequence[NDArray[np.float64]]) -> NDArray[np.float64]:
    """`DividedInverseOperations.eigenvalues` where planes have values at fixed nodes too.

    `run`: the planes. `spectra` (sequence of arrays): the eigenvalues along x(, y) at the nodes, those of x with c
    added.
    """
    axes = run.operator.lattice.axes[:-1]
    total: Any = sum(run.operator.lattice.along(axis, values) for axis, values in enumerate(spectra[: len(axes)]))
    modes = np.zeros(total.shape, bool)
    modes[tuple(axis.free for axis in reversed(axes))] = True
    total[~modes] = run.coupling
    return np.asarray(total.ravel())


class ScipySlab(HostSlab):
    """A slab in NumPy, with the transforms of scipy."""

    def __init__(self, backend: object, inverse: DividedInverse, workers: int = 0) -> None:
        run = OwnedPlanes(inverse.operator)
        transforms = transforms_beside(run.operator, workers or default_threads())
        super().__init__(run, transforms, RowByRow(run, transforms))
