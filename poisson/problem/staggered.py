# SPDX-License-Identifier: MIT
"""The cells of a staggered grid and the passes over them (`poisson.mac`)."""

from collections.abc import Callable, Mapping, Sequence
from operator import index
from types import ModuleType
from typing import Any, Literal

import numpy as np

from poisson.errors import CaseError
from poisson.mesh.boundary import FACE_NAMES
from poisson.mesh.grid import AXES
from poisson.mesh.staggered import Cells, Staggered, at, module_of, neighbours
from poisson.problem.arrays import is_array
from poisson.problem.problem import Problem

Side = Literal["wall", "inflow", "outflow", "periodic"]

_PRESSURE: Mapping[str, Any] = {
    "wall": {"neumann": 0.0},
    "inflow": {"neumann": 0.0},
    "outflow": {"dirichlet": 0.0},
    "periodic": "periodic",
}
"""The condition of the pressure."""

FEW = 1 << 15
"""Cells of a slab: its arrays stay in the cache between the steps of a pass."""

CUT = "cut"
"""The side of cells beyond which those of another process lie."""


class Grid:
    """The cells of a box, with the divergence from their faces to their centres, and the gradient back.

    Parameters
    ----------
    shape : sequence of int or array
        For each axis x, y(, z) the number of cells, which are equally wide, or the boundaries of the cells, in L.
    boundary : text or mapping
        The faces of the box, by the names in `Problem.on_box`, or all: ``"wall"``, where the normal velocity is zero;
        ``"inflow"``, where it is given; ``"outflow"``, where p = 0; ``"periodic"``.
    lower, upper : sequence of float, optional
        The corners of the box, in L, along axes of equally wide cells; by default the unit box.

    Raises
    ------
    PoissonError
        With one line that says what is wrong.

    Examples
    --------
    >>> from poisson import mac
    >>> grid = mac.Grid((8, 4), {"x": "periodic", "all": "wall"})
    >>> u, v = grid.velocity()
    >>> u.shape, v.shape, grid.divergence(u, v).shape
    ((4, 8), (5, 8), (4, 8))
    """

    def __init__(
        self,
        shape: Sequence[Any],
        boundary: Side | Mapping[str, Side] = "wall",
        *,
        lower: Sequence[float] | None = None,
        upper: Sequence[float] | None = None,
    ) -> None:
        tables = boundary if isinstance(boundary, Mapping) else {"all": boundary}
        for name, word in tables.items():
            if not isinstance(word, str) or word not in _PRESSURE:
                raise CaseError(f"boundary.{name}: {word!r}; allowed: {', '.join(_PRESSURE)}")
        conditions: Any = {name: _PRESSURE[word] for name, word in tables.items()}
        try:
            corners = ((None,) * len(shape) if each is None else each for each in (lower, upper))
            cells = [_cells(*axis) for axis in zip(shape, *corners, strict=True)]
            counts, low, high, edges = zip(*cells, strict=True)
        except (TypeError, ValueError, IndexError):
            allowed = "for each axis x(, y(, z)) a number of cells or their boundaries, and two ends"
            raise CaseError(f"shape, lower, upper: {shape!r}, {lower!r}, {upper!r}; allowed: {allowed}") from None
        self.problem = Problem.on_box(
            counts,
            **dict(zip(AXES, edges, strict=False)),
            centring="cell",
            boundary=conditions,
            lower=low,
            upper=high,
            title="pressure",
        )
        names = FACE_NAMES[: 2 * len(counts)]
        self.sides: tuple[str, ...] = tuple(tables.get(name) or tables.get(name[0]) or tables["all"] for name in names)
        self._take([(0, line.nodes) for line in reversed(self.problem.lattice.axes)])

    def _take(self, ranges: Sequence[tuple[int, int]]) -> None:
        """Have the cells in these ranges of the axes of an array: all, or those of a process."""
        axes = self.problem.lattice.axes
        self.shape = tuple(stop - start for start, stop in ranges)
        self._axes = [Cells.of(line, *ends) for line, ends in zip(axes, reversed(ranges), strict=True)]
        cuts = [gap > 0.0 for line in self._axes for gap in line.beyond]
        self.sides = tuple(CUT if cut else side for cut, side in zip(cuts, self.sides, strict=True))
        self.shapes = tuple(
            tuple(count + (not line.wraps and place == self._place(axis)) for place, count in enumerate(self.shape))
            for axis, line in enumerate(self._axes)
        )

        self._per_width = [self._inverse(axis, line.lengths) for axis, line in enumerate(self._axes)]
        self._per_gap = [self._inverse(axis, line.gaps) for axis, line in enumerate(self._axes)]

    def _inverse(self, axis: int, lengths: Any) -> Any:
        """1 over lengths along an axis: a number where they are alike, else an array beside others."""
        if (lengths == lengths[:1]).all():
            return float(1.0 / lengths[0]) if lengths.size else 0.0
        return 1.0 / self.problem.lattice.along(axis, lengths)

    def velocity(self, dtype: Any = np.float64) -> tuple[Any, ...]:
        """Components u, v(, w) of zeros, arrays of NumPy."""
        return tuple(np.zeros(shape, dtype) for shape in self.shapes)

    def divergence(self, *velocity: Any, out: Any = None) -> Any:
        """The divergence at the centres of the cells.

        Parameters
        ----------
        *velocity : arrays
            u, v(, w), of NumPy or CuPy.
        out : array, optional
            Where it is written.

        Examples
        --------
        >>> from poisson import mac
        >>> grid = mac.Grid((8, 4))
        >>> u, v = grid.velocity()
        >>> u[:] = np.linspace(0.0, 1.0, 9)
        >>> bool(np.all(grid.divergence(u, v) == 1.0))
        True
        """
        self._require(velocity)
        out = module_of(velocity[0]).empty(self.shape, velocity[0].dtype) if out is None else out
        self._divide(velocity, out, 1.0)
        return out

    def gradient(self, p: Any) -> tuple[Any, ...]:
        """The gradient on the faces, zero where a projection leaves the normal velocity: at walls and at inflow.

        Parameters
        ----------
        p : array
            At the centres of the cells, of NumPy or CuPy.

        Examples
        --------
        >>> from poisson import mac
        >>> grid = mac.Grid((4, 3))
        >>> grid.gradient(np.ones((3, 1)) * [0.0, 1.0, 2.0, 3.0])[0][0]
        array([0., 4., 4., 4., 0.])
        """
        if p.shape != self.shape:
            raise CaseError(f"p: an array of the shape {p.shape}; allowed: {self.shape}")
        found = tuple(module_of(p).zeros(shape, p.dtype) for shape in self.shapes)
        self._correct(found, p, -1.0)
        return found

    def _place(self, axis: int) -> int:
        return self.problem.lattice.array_axis(axis)

    def _require(self, velocity: Sequence[Any]) -> None:
        shapes = tuple(getattr(each, "shape", None) for each in velocity)
        if shapes != self.shapes:
            raise CaseError(f"velocity: arrays of the shapes {shapes}; allowed: {self.shapes}")
        kinds = {each.dtype for each in velocity}
        if len(kinds) > 1 or velocity[0].dtype.kind != "f":
            raise CaseError(
                f"velocity: values of {', '.join(sorted(map(str, kinds)))}; allowed: one type of float for all"
            )

    def _staggered(self) -> Staggered:
        """The axes as the passes of a backend have them."""
        slopes = []
        for line, sides in zip(self._axes, zip(self.sides[::2], self.sides[1::2], strict=True), strict=True):
            ends = [wall if side == "outflow" else 0.0 for side, wall in zip(sides, line.walls, strict=True)]
            inside = 1.0 / line.gaps
            slopes.append(np.roll(inside, 1) if line.wraps else np.concatenate([ends[:1], inside, ends[1:]]))
        widths = tuple(1.0 / line.lengths for line in self._axes)
        return Staggered(self.shape[::-1], tuple(line.wraps for line in self._axes), widths, tuple(slopes))

    def _weights(self, xp: ModuleType, inverse: Sequence[Any], factor: float) -> list[Any]:
        """Factors of the differences along each axis: a number, or an array where the cells are not alike."""
        return [factor * each if isinstance(each, float) else xp.asarray(factor * each) for each in inverse]

    # ---- passes, some rows at a time, so that what lies between two steps of one stays in the cache

    def _divide(self, velocity: Sequence[Any], out: Any, factor: float) -> None:
        """out = factor times the divergence."""
        xp = module_of(out)
        weights = self._weights(xp, self._per_width, factor)
        alike = all(isinstance(each, float) and each == weights[0] for each in weights)

        def divided(start: int, stop: int, work: Any) -> None:
            total = out[start:stop]
            for axis, line in enumerate(self._axes):
                part = work if axis else total
                place = self._place(axis)
                rows = (start, stop) if place == 0 else (0, line.nodes)
                faces = velocity[axis] if place == 0 else velocity[axis][start:stop]
                for upper, lower in neighbours(line.nodes, rows, wraps=line.wraps, upwards=True):
                    cells = at(place, slice(lower.start - rows[0], lower.stop - rows[0]))
                    xp.subtract(faces[at(place, upper)], faces[at(place, lower)], out=part[cells])
                if not alike:
                    part *= weights[axis] if isinstance(weights[axis], float) or place else weights[axis][start:stop]
                if axis:
                    total += part
            if alike:
                total *= weights[0]

        self._over(out, divided)

    def _correct(self, velocity: Sequence[Any], p: Any, factor: float, links: Sequence[Any] | None = None) -> None:
        """velocity −= factor times the gradient of p, times the coefficients of the links where they vary."""
        xp = module_of(p)
        weights = self._weights(xp, self._per_gap, factor)

        def corrected(start: int, stop: int, work: Any) -> None:
            for axis, line in enumerate(self._axes):
                place = self._place(axis)
                rows = (start, stop) if place == 0 else (0, line.nodes)
                slab = slice(None) if place == 0 else slice(start, stop)
                for upper, lower in neighbours(line.nodes, rows, wraps=line.wraps, upwards=False):
                    above, below = (p[slab][at(place, each)] for each in (upper, lower))
                    part = work[tuple(slice(count) for count in above.shape)]
                    xp.subtract(above, below, out=part)
                    part *= weights[axis] if isinstance(weights[axis], float) else weights[axis][lower]
                    if links is not None:
                        part *= links[axis][slab][at(place, lower)]
                    faces = velocity[axis][slab][at(place, upper)]
                    faces -= part

        self._over(p, corrected)
        for axis, line in enumerate(self._axes):
            place = self._place(axis)
            for end, (side, wall) in enumerate(zip(self.sides[2 * axis :], line.walls, strict=False)):
                layer = at(place, -1 if end else 0)
                if side == "wall":
                    velocity[axis][layer] = 0.0
                elif side == "outflow":
                    flow = (-factor if end else factor) * wall * p[layer]
                    velocity[axis][layer] -= flow if links is None else links[axis][at(place, -2 if end else 0)] * flow

    def _over(self, like: Any, work: Callable[[int, int, Any], None]) -> None:
        """Call a function for the slabs of arrays like one, with a spare array."""
        layers = len(like)
        rows = max(1, FEW * layers // like.size) if isinstance(like, np.ndarray) else layers
        spare = module_of(like).empty_like(like[:rows])
        for start in range(0, layers, rows):
            stop = min(start + rows, layers)
            work(start, stop, spare[: stop - start])


def _cells(given: Any, lower: Any, upper: Any) -> tuple[int, float, float, Any]:
    """How many cells an axis has, its ends, and the boundaries of the cells where they are given."""
    if (is_array(given) and np.ndim(given)) or isinstance(given, Sequence):
        return len(given) - 1, float(given[0]), float(given[-1]), given
    return index(given), 0.0 if lower is None else float(lower), 1.0 if upper is None else float(upper), None
