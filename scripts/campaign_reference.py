# SPDX-License-Identifier: MIT
"""The discrete problem of docs/numerics.md once more, from its definition: nothing here is imported from the package.

The equations are balances of the nodes' control volumes, which a Neumann or a Robin face halves. A node i with the
volume w_i (in cells) exchanges k_ij (u_i − u_j) with each neighbour, loses w_i c_i u_i and wins w_i f_i and what enters
through the face. Written so, the matrix is symmetric; its residuals divided by w are those that the package reports.
Residuals are computed in extended precision where the platform has it, and so is the solution, by refinement.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.sparse.linalg import splu

Array = NDArray[Any]
LONG = np.longdouble
AXES = ("x", "y", "z")
REFINEMENTS = 4
NAMES = {"pi": np.pi, "sin": np.sin, "cos": np.cos, "exp": np.exp}


@dataclass(frozen=True)
class Side:
    """The condition on one face: its kind, and g and α as a number, a text or a function of the coordinates."""

    kind: str
    value: Any = 0.0
    alpha: Any = None


@dataclass(frozen=True)
class Box:
    """The discrete problem but for f: axes in the order x(, y(, z)), arrays with x last.

    Parameters
    ----------
    shape : tuple of int
        Nodes along each axis.
    lower, upper : tuple of float
        The corners, in L.
    sides : tuple of Side
        x lower, x upper, y lower, …
    a, c : number, text, function or array
        The coefficients.
    mean : str
        ``harmonic`` or ``arithmetic``: a on a link from a at its two nodes.
    """

    shape: tuple[int, ...]
    lower: tuple[float, ...]
    upper: tuple[float, ...]
    sides: tuple[Side, ...]
    a: Any = 1.0
    c: Any = 0.0
    mean: str = "harmonic"

    @property
    def periodic(self) -> tuple[bool, ...]:
        return tuple(side.kind == "periodic" for side in self.sides[::2])

    @property
    def extent(self) -> tuple[float, ...]:
        return tuple(high - low for low, high in zip(self.lower, self.upper, strict=True))

    @property
    def intervals(self) -> tuple[int, ...]:
        return tuple(n if wraps else n - 1 for n, wraps in zip(self.shape, self.periodic, strict=True))

    @property
    def spacing(self) -> tuple[float, ...]:
        return tuple(length / count for length, count in zip(self.extent, self.intervals, strict=True))

    def values(self, given: Any, place: int | None = None, index: int = 0) -> Array:
        """A function at all nodes, or on the face at `index` of the array axis `place`."""
        if isinstance(given, np.ndarray):
            return np.asarray(given, dtype=np.float64)
        points, shape = [], list(self.shape[::-1])
        for axis, count in enumerate(self.intervals):
            t = np.arange(self.shape[axis]) / count
            along = self.lower[axis] * (1.0 - t) + self.upper[axis] * t
            where = len(shape) - 1 - axis
            points.append(along.reshape([-1 if k == where else 1 for k in range(len(shape))]))
        if place is not None:
            axis = len(shape) - 1 - place
            points[axis] = np.take(points[axis], [index], axis=place)
            shape[place] = 1
        if callable(given):
            values = given(*points)
        elif isinstance(given, str):
            values = eval(given, {"__builtins__": {}}, NAMES | dict(zip(AXES, points, strict=False)))
        else:
            values = given
        values = np.broadcast_to(np.asarray(values, dtype=np.float64), shape)
        return np.array(values if place is None else np.take(values, 0, axis=place))


class Reference:
    """The equations of a `Box`, S u = w f + boundary terms, with S symmetric.

    Attributes
    ----------
    free : array of bool
        The nodes that are not on a Dirichlet face.
    singular : bool
        Whether constants are in the null space.
    """

    def __init__(self, box: Box) -> None:
        self.box = box
        shape = box.shape[::-1]
        dimension = len(shape)
        self.weights = np.ones(shape)
        self.free = np.ones(shape, dtype=bool)
        self.fixed = np.zeros(shape)
        sides = [(side, dimension - 1 - face // 2, -(face % 2)) for face, side in enumerate(box.sides)]
        for side, place, index in reversed(sides):
            where = (slice(None),) * place + (index,)
            if side.kind == "dirichlet":
                self.fixed[where] = box.values(side.value, place, index)
                self.free[where] = False
            elif side.kind != "periodic":
                self.weights[where] *= 0.5
        a = box.values(box.a).astype(LONG)
        self.links = [self._conductance(a, place) for place in range(dimension)]
        reaction = box.values(box.c).astype(LONG) * self.weights
        self.entering = np.zeros(shape, dtype=LONG)
        self.entering_size = np.zeros(shape, dtype=LONG)
        for side, place, index in sides:
            where = (slice(None),) * place + (index,)
            if side.kind in ("neumann", "robin"):
                # The face of the control volume, by the volume of a whole cell: w counts the half along this axis too.
                area = 2 * self.weights[where] / LONG(box.spacing[dimension - 1 - place])
                g = area * box.values(side.value, place, index)
                self.entering[where] += g
                self.entering_size[where] += abs(g)
                if side.kind == "robin":
                    reaction[where] += area * box.values(side.alpha, place, index)
        self.reaction = reaction
        self.singular = bool(self.free.all()) and not bool((reaction > 0).any())
        self._columns = np.flatnonzero(self.free.ravel())
        self._factors: Any = None

    def _conductance(self, a: Array, place: int) -> Array:
        """k of the links along an array axis, from each node to the next; a link that wraps stands last."""
        axis = a.ndim - 1 - place
        wraps = self.box.periodic[axis]
        here = np.moveaxis(a, place, 0)
        low, high = (here, np.roll(here, -1, axis=0)) if wraps else (here[:-1], here[1:])
        both = 2 / (1 / low + 1 / high) if self.box.mean == "harmonic" else (low + high) / 2
        # The cross section: the weights of the other axes only.
        weights = self.weights.copy()
        if not wraps:
            for face, index in ((2 * axis, 0), (2 * axis + 1, -1)):
                if self.box.sides[face].kind != "dirichlet":
                    weights[(slice(None),) * place + (index,)] *= 2.0
        across = np.moveaxis(weights, place, 0)
        # A node on a Dirichlet face of another axis has no balance, so that its weight does not matter.
        across = across if wraps else across[:-1]
        return both * across / LONG(self.box.spacing[axis]) ** 2

    @cached_property
    def matrix(self) -> sp.csc_matrix:
        """S on the free nodes, in float64."""
        count = self.free.size
        numbers = np.arange(count).reshape(self.free.shape)
        diagonal = self.reaction.astype(np.float64).ravel()
        rows, columns, entries = [numbers.ravel()], [numbers.ravel()], [diagonal]
        for place, k in enumerate(self.links):
            along = np.moveaxis(numbers, place, 0)
            low, high = along[: len(k)], np.roll(along, -1, axis=0)[: len(k)]
            i, j, values = low.ravel(), high.ravel(), k.astype(np.float64).ravel()
            rows += [i, j, i, j]
            columns += [i, j, j, i]
            entries += [values, values, -values, -values]
        full = sp.csr_matrix(
            (np.concatenate(entries), (np.concatenate(rows), np.concatenate(columns))), shape=(count, count)
        )
        return full[self._columns][:, self._columns].tocsc()

    def apply(self, u: Array, *, size: bool = False) -> Array:
        """S u in extended precision; with `size` the sum of the sizes of its terms instead."""
        u = u.astype(LONG)
        if size:
            u = abs(u)
        result = self.reaction * u
        sign = -1 if size else 1
        for place, k in enumerate(self.links):
            along, out = np.moveaxis(u, place, 0), np.moveaxis(result, place, 0)
            after = np.roll(along, -1, axis=0)[: len(k)]
            flux = k * (along[: len(k)] - sign * after)
            if len(k) == len(along):
                out += flux - sign * np.roll(flux, 1, axis=0)
            else:
                out[:-1] += flux
                out[1:] -= sign * flux
        return np.where(self.free, result, 0)

    def source(self, f: Array, *, shift: Any = 0.0) -> Array:
        """w f with what enters through the faces, zero at fixed nodes."""
        return np.where(self.free, self.weights * (f.astype(LONG) - shift) + self.entering, 0)

    def boundary_scale(self, kind: str) -> float:
        """The norm of the source to which the Dirichlet values amount.

        Half their range times the lowest eigenvalue, and no more than the residual that they leave beside zeros.
        """
        box, lowest, values = self.box, 0.0, []
        for axis, h in enumerate(box.spacing):
            pair = box.sides[2 * axis : 2 * axis + 2]
            for end, side in enumerate(pair):
                if side.kind == "dirichlet":
                    values += [box.values(side.value, len(box.shape) - 1 - axis, -end)]
            walls = sum(side.kind == "dirichlet" for side in pair)
            lowest += (2 / h * np.sin(walls * np.pi / 4 / box.intervals[axis])) ** 2
        if not values:
            return 0.0
        alphas = [side.alpha for side in box.sides if side.kind == "robin"]
        numbers = not isinstance(box.c, (str, np.ndarray))
        ends = [] if numbers and box.c == 0.0 and not any(alphas) else [0.0]
        ends += [float(end(it)) for it in values for end in (np.min, np.max)]
        a = box.values(box.a)
        least = float((self.reaction / self.weights).min())
        left = self.norm(self.apply(np.where(self.free, 0.0, self.fixed)) / self.weights, kind)
        half = max(ends) / 2 - min(ends) / 2
        return min(half * (np.sqrt(a.min()) * np.sqrt(a.max()) * lowest + least), float(left) if half else 0.0)

    def defect(self, f: Array) -> tuple[Any, float]:
        """The excess of f at every node of a singular problem, and its defect relative to the size of the data."""
        total, size = self.source(f).sum(), (self.weights * abs(f) + self.entering_size).sum()
        return total / self.weights.sum(), float(abs(total) / size) if size else 0.0

    def residual(self, u: Array, b: Array) -> Array:
        """(b − S u)/w, in U/L²."""
        return (b - self.apply(u)) / self.weights

    def rounding(self, u: Array, b: Array) -> Array:
        """|A||u| + |b|/w, node by node: times eps it is what rounding of u and of the data changes a residual by."""
        return (self.apply(u, size=True) + abs(b)) / self.weights

    def norm(self, r: Array, kind: str) -> Any:
        """The norm over the free nodes, ``rms`` or ``max``."""
        inside = abs(r[self.free])
        return np.sqrt((inside**2).mean()) if kind == "rms" else inside.max()

    def full(self, x: Array) -> Array:
        """An array of the grid from the values at the free nodes, with the boundary values."""
        u = self.fixed.astype(LONG)
        u.ravel()[self._columns] = x
        return u - (self.weights * u).sum() / self.weights.sum() if self.singular else u

    def inside(self, values: Array) -> Array:
        """The values at the free nodes."""
        return values.ravel()[self._columns]

    def solve(self, b: Array) -> Array:
        """The solution in extended precision, by refinement; not finite without sparse factors."""
        u = self.full(np.zeros(len(self._columns), dtype=LONG))
        for _ in range(1 + REFINEMENTS):
            step = self.correction(b - self.apply(u))
            u = self.full(self.inside(u) + step)
            if self.free.all() and not self.singular:
                # What holds a constant may be less than the rounding of the factors; fluxes cancel in the sum.
                u += (b - self.apply(u)).sum() / self.reaction.sum()
        return u

    def correction(self, r: Array, dtype: Any = np.float64) -> Array:
        """S⁻¹ r at the free nodes, with factors in a precision; of a singular S with zero at the last node."""
        scale = 1.0 / np.sqrt(self.matrix.diagonal())
        if self._factors is None or dtype != np.float64:
            scaled = sp.diags_array(scale) @ self.matrix @ sp.diags_array(scale)
            last = scaled.shape[0] - 1 if self.singular else scaled.shape[0]
            try:
                factors = splu(sp.csc_matrix(scaled[:last, :last], dtype=dtype))
            except RuntimeError:  # exactly singular in this precision
                return np.full(len(self._columns), np.nan, dtype=LONG)
            if dtype == np.float64:
                self._factors = factors
        else:
            factors = self._factors
        values = self.inside(r)
        largest = abs(values).max(initial=0)
        if not largest > 0:
            return np.zeros(len(values), dtype=LONG)
        right = (values / largest).astype(np.float64) * scale
        x = np.zeros(len(values))
        x[: factors.shape[0]] = factors.solve(right[: factors.shape[0]].astype(dtype))
        return (x * scale).astype(LONG) * largest

    def condition(self) -> float:
        """The approximate condition number of D⁻¹A: 2 by the lowest eigenvalue, but for the constants of a singular
        problem.
        """
        diagonal = self.matrix.diagonal()
        x = np.random.default_rng(0).standard_normal(len(diagonal))
        size = 1.0
        for _ in range(10):
            values = np.zeros(self.free.shape)
            values[self.free] = diagonal * x
            if self.singular:
                values -= self.weights * (values.sum() / self.weights.sum())
            x = self.inside(self.full(self.correction(values))).astype(np.float64)
            size = float(np.sqrt(x @ (diagonal * x)))
            x /= size
        return 2.0 * size

    def rounded_solution(self, b: Array, dtype: Any) -> Array:
        """The solution by a direct solver in this precision."""
        zero = self.full(np.zeros(len(self._columns), dtype=LONG))
        return self.full(self.inside(zero) + self.correction(b - self.apply(zero), dtype)).astype(dtype)

    def conjugate_gradients(self, b: Array, guess: Array, goal: Any, kind: str, dtype: Any, limit: int) -> int | None:
        """Textbook conjugate gradients with the diagonal in a precision: iterations to a true residual, or None."""
        scale = 1.0 / np.sqrt(self.matrix.diagonal())
        matrix = sp.csr_matrix(sp.diags_array(scale) @ self.matrix @ sp.diags_array(scale), dtype=dtype)
        u, done = guess.astype(LONG), 0
        goal_inside = goal * (np.sqrt(np.float64(len(self._columns))) if kind == "rms" else 1.0)
        for _ in range(6):
            rest = b - self.apply(u)
            if self.singular:
                rest = rest - self.weights * (rest.sum() / self.weights.sum())
            if self.norm(rest / self.weights, kind) <= goal:
                return done
            largest = abs(rest).max()
            r = ((self.inside(rest) / largest).astype(np.float64) * scale).astype(dtype)
            back = (self.inside(1 / self.weights) / scale).astype(dtype)
            stop = float(0.5 * goal_inside / largest)
            x, p, rho = np.zeros_like(r), r.copy(), float(r @ r)
            order = 2 if kind == "rms" else np.inf
            while done < limit and np.linalg.norm(back * r, order) > stop and rho > 0:
                q = matrix @ p
                curvature = float(p @ q)
                if not curvature > 0:
                    break
                alpha = dtype(rho / curvature)
                x += alpha * p
                r -= alpha * q
                before, rho = rho, float(r @ r)
                p = r + dtype(rho / before) * p
                done += 1
            u = self.full(self.inside(u) + (x * scale).astype(LONG) * largest).astype(dtype).astype(LONG)
            if done >= limit:
                break
        return done if self.norm(self.residual(u, b), kind) <= goal else None
