# SPDX-License-Identifier: MIT
"""Staggered grids: pressures at the centres of cells, and each component of a velocity on the faces it goes through.

This is the arrangement of Harlow and Welch (Physics of Fluids 8, 1965). Arrays are C-ordered with x as the last axis.
The component along an axis has one more face than cells along that axis, or as many where it is periodic: face i lies
below cell i. The operator of the pressure is minus the divergence of the gradient of this module, to the last
coefficient, so that a projected velocity has a divergence of rounding.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from operator import index
from types import ModuleType
from typing import TYPE_CHECKING, Any, Literal, Unpack

import numpy as np

from poisson.errors import CaseError, IncompatibleSource
from poisson.mesh.boundary import FACE_NAMES
from poisson.mesh.grid import AXES
from poisson.mesh.staggered import Cells, Staggered, at, integral, module_of, neighbours
from poisson.problem.arrays import brought, is_array
from poisson.problem.problem import Problem
from poisson.run.exclusive import Exclusive
from poisson.run.solver import Solver

if TYPE_CHECKING:
    from poisson.parallel.staggered import Borders
    from poisson.run.ranks import Held
    from poisson.run.request import BackendName, Method, Options, Precision
    from poisson.run.solution import Solution

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

TO_ROUNDING = 1e-15
"""The tolerance of iterative methods, which they do not reach."""

ROUNDING = 1e4
"""The difference of inflow and outflow, in units of rounding, up to which they balance."""


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
                raise CaseError([f"boundary.{name}: {word!r}; allowed: {', '.join(_PRESSURE)}"])
        conditions: Any = {name: _PRESSURE[word] for name, word in tables.items()}
        try:
            corners = ((None,) * len(shape) if each is None else each for each in (lower, upper))
            cells = [_cells(*axis) for axis in zip(shape, *corners, strict=True)]
            counts, low, high, edges = zip(*cells, strict=True)
        except (TypeError, ValueError, IndexError):
            allowed = "for each axis x(, y(, z)) a number of cells or their boundaries, and two ends"
            raise CaseError([f"shape, lower, upper: {shape!r}, {lower!r}, {upper!r}; allowed: {allowed}"]) from None
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
            raise CaseError([f"p: an array of the shape {p.shape}; allowed: {self.shape}"])
        found = tuple(module_of(p).zeros(shape, p.dtype) for shape in self.shapes)
        self._correct(found, p, -1.0)
        return found

    def _place(self, axis: int) -> int:
        return self.problem.lattice.array_axis(axis)

    def _require(self, velocity: Sequence[Any]) -> None:
        shapes = tuple(getattr(each, "shape", None) for each in velocity)
        if shapes != self.shapes:
            raise CaseError([f"velocity: arrays of the shapes {shapes}; allowed: {self.shapes}"])
        kinds = {each.dtype for each in velocity}
        if len(kinds) > 1 or velocity[0].dtype.kind != "f":
            raise CaseError(
                [f"velocity: values of {', '.join(sorted(map(str, kinds)))}; allowed: one type of float for all"]
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


class Projector(Grid):
    """Removes the divergence of velocities by the gradient of a pressure.

    For a velocity v* it solves −∇·((Δt/ρ)∇p) = −∇·v* and subtracts (Δt/ρ)∇p. All that does not depend on the velocity
    is set up once, here.

    Parameters
    ----------
    shape, boundary, lower, upper
        As of `Grid`.
    method, backend, precision, threads, comm, ranks, **options
        As of `poisson.Solver`. On several processes arrays have the cells of one, `ranges` along the axes of an array,
        and all faces of these: those between two processes are on both. With a density that varies the method is
        iterative, and leaves `rtol` times the rms divergence; by default it ends at rounding.

    Raises
    ------
    PoissonError
        With one line that says what is wrong.

    Examples
    --------
    >>> from poisson import mac
    >>> projector = mac.Projector((32, 16), {"x_lower": "inflow", "x_upper": "outflow", "all": "wall"})
    >>> u, v = projector.velocity()
    >>> u[:, 0] = 1.0
    >>> pressure = projector.project((u, v)).u
    >>> bool(abs(projector.divergence(u, v)).max() < 1e-11), pressure.shape
    (True, (16, 32))
    """

    def __init__(
        self,
        shape: Sequence[Any],
        boundary: Side | Mapping[str, Side] = "wall",
        *,
        lower: Sequence[float] | None = None,
        upper: Sequence[float] | None = None,
        method: Method = "auto",
        backend: BackendName = "auto",
        precision: Precision = "float64",
        threads: int = 0,
        comm: Any = None,
        ranks: int | Sequence[int] | None = None,
        **options: Unpack[Options],
    ) -> None:
        super().__init__(shape, boundary, lower=lower, upper=upper)
        self._blocks = ranks
        self._rtol = options.pop("rtol", None)
        self._set_up = partial(
            Solver, method=method, backend=backend, precision=precision, threads=threads, comm=comm, **options
        )
        self.solver = self._solver(self.problem)
        self._inflow, held = "inflow" in self.sides, self.solver.ranks.held(self.shape)
        self.ranges = tuple((0, count) for count in self.shape) if held is None else held.ranges
        self._borders: Borders | None = None
        self._between: dict[tuple[int, int], Any] = {}
        if held is not None and held.divided:
            self._divided(held)
        self._varying: Solver | None = None
        self._exclusive = Exclusive("Projector")
        self._passes = self.solver.local_backend.staggered(self._staggered()) if len(self.shape) > 1 else None
        self._source: Any = None

    def _divided(self, held: Held) -> None:
        """Have the cells of this rank alone, and know who has those beside them."""
        from poisson.parallel.staggered import Borders

        shape, division = self.shape, self.solver.ranks.division
        self._take(held.ranges)
        if not self.solver.backend.on_host or held.communicator.agree(min(self.shape) < 2):
            allowed = "a backend on processors, and two cells along each axis on every rank"
            raise CaseError([f"comm, ranks: {self.solver.backend.name}, {self.shape} cells here; allowed: {allowed}"])
        self._held, self._blocks = held, list(division.counts) if division else None
        cut = [[gap > 0.0 for gap in line.beyond] for line in reversed(self._axes)]
        self._borders = Borders(held.communicator, held.ranges, shape, cut)

    def project(
        self,
        velocity: Sequence[Any],
        *,
        density: Any = 1.0,
        step: float = 1.0,
        initial: Any = None,
        out: Any = None,
        strict: bool = False,
    ) -> Solution:
        """Remove the divergence of a velocity, in place.

        Parameters
        ----------
        velocity : sequence of arrays
            u, v(, w), of NumPy or CuPy; overwritten. Their normal component is set to zero at walls, kept at inflow.
        density : number or array
            ρ, or its values at the centres of the cells; that of a face is the arithmetic mean of both sides, and at
            outflow that of the next face inside.
        step : float
            Δt: the pressure is in the units of ρ times velocity times L over those of the step.
        initial, out, strict
            The initial guess for the pressure, and the others as of `poisson.Solver.solve`.

        Returns
        -------
        Solution
            u of it is the pressure; its mean is zero where no face is an outflow.

        Raises
        ------
        PoissonError
            If the shapes do not fit, or more flows in than out and no face is an outflow.
        """
        varies = is_array(density) and density.ndim > 0
        with self.solver.ranks.agreed():
            self._require(velocity)
            if not all(getattr(each.flags, "writeable", True) for each in velocity):
                raise CaseError(
                    ["velocity: a read-only array; allowed: arrays that may be changed in place, such as copies"]
                )
            if varies and density.shape != self.shape:
                raise CaseError([f"density: an array of the shape {density.shape}; allowed: {self.shape}"])
        xp, given = module_of(velocity[0]), {}
        if varies:
            with np.errstate(divide="ignore"):
                given["a"] = 1.0 / density
            if self._borders:
                given["a"] = self._held.gather(given["a"], everywhere=True)
            density = 1.0
        try:
            factor = float(step) / float(density)
            inverse = -1.0 / factor
        except (TypeError, ValueError, ZeroDivisionError):
            inverse = 0.0
        if not 0.0 < -inverse < math.inf:
            raise CaseError(
                [f"step: {step!r}, density: {density!r}; allowed: numbers above 0, or an array of densities"]
            )
        with self._exclusive.use():
            self._close_walls(velocity)
            if self.solver.operator.singular and self._inflow:
                self._require_balance(velocity)
            if type(self._source) is not type(velocity[0]) or self._source.dtype != velocity[0].dtype:
                self._source = xp.empty(self.shape, velocity[0].dtype)
            self._divide(velocity, self._source, inverse)
            try:
                solver = self.solver
                if given:
                    solver = self._varying = self._varying or self._solver(self.problem.having(**given))
                solve = partial(solver.solve, self._source, initial, out=out, strict=strict, **given)
                try:
                    solution = solve()
                except IncompatibleSource:
                    # As much flows out as in, so the mean is rounding, beside a divergence that is hardly more.
                    (total,) = self._over_ranks(float(integral(self._source, self._axes)))
                    self._source -= total / math.prod(self.problem.lattice.extent)
                    solution = solve()
            except CaseError as error:
                said = str(error).replace("equation.a:", "1/density:").replace("equation.f:", "divergence/step:")
                raise CaseError([said]) from error
            self._correct(velocity, brought(solution.u, xp), factor, self._links(xp, solver) if given else None)
        return solution

    def _divide(self, velocity: Sequence[Any], out: Any, factor: float) -> None:
        if self._passes is not None and self._passes.takes(out, velocity):
            self._passes.divergence(factor, velocity, out)
        else:
            super()._divide(velocity, out, factor)

    def _correct(self, velocity: Sequence[Any], p: Any, factor: float, links: Sequence[Any] | None = None) -> None:
        if self._passes is not None and self._passes.takes(p, velocity):
            self._passes.subtract_gradient(factor, p, velocity, links or ())
        else:
            super()._correct(velocity, p, factor, links)
        if self._borders is None:
            return
        for (place, end), other in self._borders.beyond(p).items():
            axis, layer = self._place(place), at(place, -end)
            rise = other - p[layer] if end else p[layer] - other
            rise *= p.dtype.type(factor / self._axes[axis].beyond[end])
            velocity[axis][layer] -= rise if links is None else rise * self._between[place, end]

    def _over_ranks(self, *values: float) -> tuple[float, ...]:
        """Each value, summed over the ranks."""
        return tuple(map(math.fsum, zip(*self.solver.ranks.on_host.allgather(values), strict=True)))

    def _solver(self, problem: Problem) -> Solver:
        """A solver that ends at rounding, unless something else is asked for."""
        if self._rtol is not None:
            solver = self._set_up(problem, ranks=self._blocks, rtol=self._rtol)
        elif problem is self.problem and (found := self._set_up(problem, ranks=self._blocks)).direct:
            solver = found
        else:
            solver = self._set_up(problem, ranks=self._blocks, rtol=TO_ROUNDING)
        solver.solve()  # of a velocity of zero: it has its say of the problem, and none of a velocity between two steps
        return solver

    def _close_walls(self, velocity: Sequence[Any]) -> None:
        for axis, faces in enumerate(velocity):
            for end in (0, 1):
                if self.sides[2 * axis + end] == "wall":
                    faces[at(self._place(axis), -end)] = 0.0

    def _require_balance(self, velocity: Sequence[Any]) -> None:
        """Refuse a flow into the box that has no way out: nothing could remove that divergence."""
        flows = []
        for axis, faces in enumerate(velocity):
            others = [line for line in self._axes if line is not self._axes[axis]]
            for end, sign in enumerate((1.0, -1.0)):
                if self.sides[2 * axis + end] == "inflow":
                    flows.append(sign * float(integral(faces[at(self._place(axis), -end)], others)))
        more, scale = self._over_ranks(math.fsum(flows), math.fsum(map(abs, flows)))
        if abs(more) > ROUNDING * float(np.finfo(velocity[0].dtype).eps) * scale:
            raise CaseError(
                [
                    f"velocity: {more:.6g} more flows in through inflow faces than out, and no face is an "
                    "outflow; make them balance, or one of them an outflow"
                ]
            )

    def _links(self, xp: ModuleType, solver: Solver) -> list[Any]:
        """1/ρ on the faces above the cells."""
        backend = solver.backend
        seen = backend.view if backend.on_host or xp is not np else backend.to_host
        found = [brought(seen(each), xp) for each in solver.operator.links or ()]
        if self._borders is None:
            return found
        owned = [line.owned for line in reversed(solver.operator.lattice.axes)]
        for place, ends in enumerate(owned):
            links = found[self._place(place)]
            for end, number in enumerate((ends.start - 1, ends.stop - 1)):
                self._between[place, end] = links[*owned[:place], number, *owned[place + 1 :]]
        return [links[tuple(owned)] for links in found]


def _cells(given: Any, lower: Any, upper: Any) -> tuple[int, float, float, Any]:
    """How many cells an axis has, its ends, and the boundaries of the cells where they are given."""
    if (is_array(given) and np.ndim(given)) or isinstance(given, Sequence):
        return len(given) - 1, float(given[0]), float(given[-1]), given
    return index(given), 0.0 if lower is None else float(lower), 1.0 if upper is None else float(upper), None
