"""From a problem to the arrays and constants that a backend needs.

The operator is the second-order central difference on nodes,

    (A u)_i = Σ_axes (2 u_i − u_{i−1} − u_{i+1}) / h² + c u_i,

with neighbours across a face by the face's rule. A Neumann condition ∂u/∂n = g puts its ghost value
u_ghost = u_inner + 2 h g into the source once, as 2 g / h, and leaves the mirror rule.

Under the trapezoidal weights (one half for each mirror face that a node lies on) A is symmetric.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from poisson.boundary import FACE_NAMES, Kind, Rule
from poisson.errors import CaseError, IncompatibleSource
from poisson.expressions import Expression
from poisson.grid import AXES, slabs
from poisson.problem import NodeField, Problem

Index = tuple[slice | int, ...]
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Operator:
    """A u = −∇²u + c u on nodes: all that a kernel needs to know.

    Parameters
    ----------
    shape : tuple of int
        Nodes along x, y(, z).
    spacing : tuple of float
        Distance between nodes along each axis, in L.
    c : float
        Reaction coefficient, in 1/L².
    rules : tuple of Rule
        One for each face, in the order of `boundary.FACE_NAMES`.
    """

    shape: tuple[int, ...]
    spacing: tuple[float, ...]
    c: float
    rules: tuple[Rule, ...]

    @property
    def dimension(self) -> int:
        return len(self.shape)

    @property
    def array_shape(self) -> tuple[int, ...]:
        return self.shape[::-1]

    @property
    def weights(self) -> tuple[float, ...]:
        """1/h² for each axis, in 1/L²."""
        return tuple(1.0 / (h * h) for h in self.spacing)

    @property
    def diagonal(self) -> float:
        """The diagonal of A, the same at every node that is not fixed, in 1/L²."""
        return math.fsum(2.0 * weight for weight in self.weights) + self.c

    @property
    def norm(self) -> float:
        """The maximum norm of A, in 1/L²."""
        return math.fsum(4.0 * weight for weight in self.weights) + self.c

    @property
    def unknowns(self) -> int:
        """Nodes that are not fixed."""
        return math.prod(nodes - self.axis_rules(axis).count(Rule.FIXED) for axis, nodes in enumerate(self.shape))

    @property
    def singular(self) -> bool:
        """Whether constants are in the null space of A."""
        return self.c == 0.0 and Rule.FIXED not in self.rules

    def axis_rules(self, axis: int) -> tuple[Rule, Rule]:
        """The rules of the lower and the upper face of `axis`."""
        return self.rules[2 * axis], self.rules[2 * axis + 1]

    def part(self, start: int, stop: int) -> tuple[NDArray[np.int64], Operator]:
        """The operator on the rows (planes in 3D) ``[start, stop)`` of an array, at least two of them.

        Returns
        -------
        rows : int array
            Those rows, with one more on each side where the grid goes on.
        operator : Operator
            A on these rows; the rows added are fixed.
        """
        count = self.array_shape[0]
        lower, upper = self.axis_rules(self.dimension - 1)
        if stop - start == count:
            return np.arange(count), self
        below, above = start > 0 or lower is Rule.WRAP, stop < count or upper is Rule.WRAP
        rows = np.arange(start - below, stop + above) % count
        rules = (*self.rules[:-2], Rule.FIXED if below else lower, Rule.FIXED if above else upper)
        return rows, replace(self, shape=(*self.shape[:-1], rows.size), rules=rules)

    def eigenvalues(self) -> tuple[float, float]:
        """The smallest non-zero and the largest eigenvalue of A on the unknowns, in 1/L².

        The eigenvectors are products of sines and cosines, so both are known in closed form (G. Strang, "The discrete
        cosine transform", SIAM Review 41, 1999, section 2).
        """
        # The second lowest is asked for only where the lowest of every axis is zero.
        lowest, second, highest = 0.0, math.inf, 0.0
        for axis, (nodes, weight) in enumerate(zip(self.shape, self.weights, strict=True)):
            angles = _extreme_angles(nodes, self.axis_rules(axis))
            low, next_low, high = (4.0 * weight * math.sin(angle) ** 2 for angle in angles)
            lowest += low
            second = min(second, next_low)
            highest += high
        lowest += self.c
        return lowest if lowest > 0.0 else second, highest + self.c


def _extreme_angles(nodes: int, rules: tuple[Rule, Rule]) -> tuple[float, float, float]:
    """The angles θ of the lowest, second and highest eigenvalue (4/h²) sin²θ of one axis."""
    lower, upper = rules
    if lower is Rule.WRAP:
        return 0.0, math.pi / nodes, math.pi * (nodes // 2) / nodes
    step = math.pi / (2 * (nodes - 1))
    if lower is Rule.FIXED and upper is Rule.FIXED:
        return step, 2 * step, (nodes - 2) * step
    if lower is Rule.MIRROR and upper is Rule.MIRROR:
        return 0.0, step, math.pi / 2
    return step / 2, 3 * step / 2, (nodes - 1.5) * step


@dataclass(frozen=True)
class Balance:
    """Whether a singular problem has a solution: ∫f + ∮g must vanish.

    Parameters
    ----------
    source, flux : float
        ∫f and ∮g by the trapezoidal rule.
    scale : float
        ∫|f| + ∮|g|.
    tolerance : float
        The relative defect up to which the quadrature error of the grid may be the cause.
    """

    source: float
    flux: float
    scale: float
    tolerance: float

    @property
    def defect(self) -> float:
        """∫f + ∮g."""
        return self.source + self.flux

    @property
    def compatible(self) -> bool:
        return abs(self.defect) <= self.tolerance * self.scale


@dataclass(frozen=True)
class Discretisation:
    """A problem on its grid.

    Parameters
    ----------
    problem : Problem
        What to discretise.
    shift : float
        Subtracted from the source at every node: the defect of a singular problem, spread evenly, in U/L².
    """

    problem: Problem
    shift: float = 0.0

    @property
    def operator(self) -> Operator:
        grid = self.problem.grid
        return Operator(grid.shape, grid.spacing, self.problem.c, tuple(face.kind.rule for face in self.problem.faces))

    def source(self, xp: ModuleType, start: int, stop: int) -> Any:
        """The source with its face terms, zero at fixed nodes, in U/L².

        Parameters
        ----------
        xp : module
            numpy or cupy: where to evaluate.
        start, stop : int
            The range of the first array axis.

        Returns
        -------
        float64 array of the slab's shape.

        Raises
        ------
        CaseError
            If a value is not finite; the line names the key and the place.
        """
        values = self.f(xp, start, stop)
        spacing = self.problem.grid.spacing
        for face, where in self._faces(Kind.NEUMANN, start, stop):
            values[where] += (2.0 / spacing[face // 2]) * self._face_value(xp, face, start, stop)
        for _, where in self._faces(Kind.DIRICHLET, start, stop):
            values[where] = 0.0
        return values

    def f(self, xp: ModuleType, start: int, stop: int) -> Any:
        """The right-hand side of the equation that is solved: f, less `shift`. As `source` otherwise."""
        return self._nodes(xp, "equation.f", self.problem.f, start, stop) - self.shift

    def initial(self, xp: ModuleType, start: int, stop: int) -> Any:
        """The initial guess, with the boundary values at fixed nodes, in U. As `source` otherwise."""
        values = self._nodes(xp, "run.initial", self.problem.initial, start, stop)
        for face, where in reversed(list(self._faces(Kind.DIRICHLET, start, stop))):
            values[where] = self._face_value(xp, face, start, stop)
        return values

    def exact(self, xp: ModuleType, start: int, stop: int) -> Any:
        """The exact solution, in U. As `source` otherwise."""
        assert self.problem.exact is not None
        return self._nodes(xp, "equation.exact", self.problem.exact, start, stop)

    def weights(self, xp: ModuleType, start: int, stop: int) -> Any:
        """The trapezoidal weights: 1, and one half of it for each mirror face. Shape of the slab."""
        values = xp.ones(self._slab_shape(start, stop))
        for _, where in self._faces(Kind.NEUMANN, start, stop):
            values[where] *= 0.5
        return values

    def balance(self, xp: ModuleType) -> Balance:
        """Integrate the source and the boundary data of a singular problem.

        The trapezoidal rule is of second order like the scheme, so a defect of the size of (h/L)² times the data may be
        its error; ten times that is tolerated, and never more than a tenth of the data.
        """
        grid = self.problem.grid
        cell = math.prod(grid.spacing)
        source = flux = scale = 0.0
        for start, stop in slabs(grid.array_shape):
            weights = self.weights(xp, start, stop) * cell
            f = self._nodes(xp, "equation.f", self.problem.f, start, stop)
            source += float((weights * f).sum())
            scale += float((weights * abs(f)).sum())
            for face, where in self._faces(Kind.NEUMANN, start, stop):
                g = (2.0 / grid.spacing[face // 2]) * self._face_value(xp, face, start, stop)
                flux += float((weights[where] * g).sum())
                scale += float((weights[where] * abs(g)).sum())
        coarsest = max(1.0 / count for count in grid.intervals)
        return Balance(source, flux, scale, min(0.1, 10.0 * coarsest**2))

    def balanced(self, xp: ModuleType) -> Discretisation:
        """Remove the defect of a singular problem from its source.

        Raises
        ------
        IncompatibleSource
            If the defect is larger than the discretisation explains: the problem has no solution.
        """
        if not self.problem.singular:
            return self
        balance = self.balance(xp)
        relative = balance.defect / balance.scale if balance.scale else 0.0
        numbers = (
            f"∫f = {balance.source:.6g}, ∮g = {balance.flux:.6g}, ∫f + ∮g = {balance.defect:.3g} "
            f"({abs(relative):.2g} of ∫|f| + ∮|g|)"
        )
        volume = math.prod(self.problem.grid.extent)
        if not balance.compatible:
            raise IncompatibleSource(
                f"no face is dirichlet and c = 0, so ∫f + ∮g must be zero, but {numbers}, and the grid explains at "
                f"most {balance.tolerance:.2g}: subtract {balance.defect / volume:.6g} from equation.f, or correct the "
                "boundary"
            )
        log.info("singular problem (no dirichlet face, c = 0): %s; removed from f, u gets zero mean", numbers)
        return replace(self, shift=balance.defect / volume)

    def _slab_shape(self, start: int, stop: int) -> tuple[int, ...]:
        return (stop - start, *self.problem.grid.array_shape[1:])

    def _coordinates(self, xp: ModuleType, start: int, stop: int) -> list[Any]:
        """x, y(, z) of a slab, each with the shape that broadcasts to the slab's."""
        grid = self.problem.grid
        coordinates = []
        for axis in range(grid.dimension):
            values = grid.coordinates(axis)
            if axis == grid.dimension - 1:
                values = values[start:stop]
            shape = [1] * grid.dimension
            shape[grid.dimension - 1 - axis] = -1
            coordinates.append(xp.asarray(values.reshape(shape)))
        return coordinates

    def _nodes(self, xp: ModuleType, key: str, values: NodeField, start: int, stop: int) -> Any:
        """A new float64 array of the slab's shape."""
        slab = xp.empty(self._slab_shape(start, stop), dtype=xp.float64)
        coordinates = self._coordinates(xp, start, stop)
        slab[...] = values(xp, *coordinates) if isinstance(values, Expression) else xp.asarray(values.read(start, stop))
        _require_finite(xp, key, slab, coordinates)
        return slab

    def _faces(self, kind: Kind, start: int, stop: int) -> Iterator[tuple[int, Index]]:
        """The faces of a kind that touch the slab, in order of precedence, each with its place in the slab."""
        dimension = self.problem.grid.dimension
        end = self.problem.grid.array_shape[0]
        for face, condition in enumerate(self.problem.faces):
            if condition.kind is not kind:
                continue
            upper = face % 2
            place = dimension - 1 - face // 2
            if place == 0 and (stop < end if upper else start > 0):
                continue
            where: list[slice | int] = [slice(None)] * dimension
            where[place] = -1 if upper else 0
            yield face, tuple(where)

    def _face_value(self, xp: ModuleType, face: int, start: int, stop: int) -> Any:
        """The boundary data on the part of a face that lies in the slab, in a shape that broadcasts to it."""
        value = self.problem.faces[face].value
        assert value is not None
        place = self.problem.grid.dimension - 1 - face // 2
        coordinates = self._coordinates(xp, start, stop)
        end = slice(-1, None) if face % 2 else slice(0, 1)
        on_face = list(coordinates)
        on_face[face // 2] = coordinates[face // 2][(slice(None),) * place + (end,)]
        data = xp.asarray(value(xp, *on_face), dtype=xp.float64)
        _require_finite(xp, f"boundary.{FACE_NAMES[face]}", data, on_face)
        return data.reshape(data.shape[:place] + data.shape[place + 1 :]) if data.ndim else data


def _require_finite(xp: ModuleType, key: str, values: Any, coordinates: Sequence[Any]) -> None:
    finite = xp.isfinite(values)
    if bool(finite.all()):
        return
    place = [int(index) for index in xp.argwhere(~finite)[0]]
    names = []
    for axis, name in enumerate(AXES[: len(coordinates)]):
        along = coordinates[axis].ravel()
        index = place[len(coordinates) - 1 - axis] if place else 0
        names.append(f"{name} = {float(along[min(index, along.size - 1)]):.6g}")
    value = float(values[tuple(place)])
    raise CaseError([f"{key}: {value} at {', '.join(names)}; every value must be finite"])
