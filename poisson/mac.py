# SPDX-License-Identifier: MIT
"""Staggered grids: pressures at the centres of cells, and each component of a velocity on the faces it goes through.

This is the arrangement of Harlow and Welch (Physics of Fluids 8, 1965). Arrays are C-ordered with x as the last axis.
The component along an axis has one more face than cells along that axis, or as many where it is periodic: face i lies
below cell i. The operator of the pressure is minus the divergence of the gradient of this module, to the last
coefficient, so that a projected velocity has a divergence of rounding.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from types import ModuleType
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np

from poisson.errors import CaseError, IncompatibleSource, ResourceError
from poisson.mesh.staggered import at, close_walls, integral, module_of
from poisson.problem.arrays import brought, is_array
from poisson.problem.staggered import Grid, Side
from poisson.run.exclusive import Exclusive
from poisson.run.in_place import SourceOf, solve_in_place
from poisson.run.solver import Solver

if TYPE_CHECKING:
    from poisson.backends.base import Reduction
    from poisson.parallel.staggered import Borders
    from poisson.problem.problem import Problem
    from poisson.run.ranks import Held
    from poisson.run.request import BackendName, Method, Options, Precision
    from poisson.run.solution import Solution

__all__ = ["Grid", "Projector"]

TO_ROUNDING = 1e-15
"""The tolerance of iterative methods, which they do not reach."""

ROUNDING = 1e4
"""The difference of inflow and outflow, in units of rounding, up to which they balance."""

PAUSE = 15
"""Projections that have a source of their own after one whose velocity was left with too much rounding to certify."""


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
        self._walls = sum(1 << face for face, side in enumerate(self.sides) if side == "wall")
        self._source: Any = None
        self._pause = 0

    def _divided(self, held: Held) -> None:
        """Have the cells of this rank alone, and know who has those beside them."""
        from poisson.parallel.staggered import Borders

        shape, division = self.shape, self.solver.ranks.division
        self._take(held.ranges)
        if not self.solver.backend.on_host or held.communicator.agree(min(self.shape) < 2):
            allowed = "a backend on processors, and two cells along each axis on every rank"
            raise CaseError(f"comm, ranks: {self.solver.backend.name}, {self.shape} cells here; allowed: {allowed}")
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
            outflow that of the cell before it.
        step : float
            Δt: the pressure is in the units of ρ times velocity times L over those of the step.
        initial, out, strict
            The initial guess for the pressure, and the others as of `poisson.Solver.solve`.

        Returns
        -------
        Solution
            u of it is the pressure; its mean is zero where no face is an outflow. Its residual is the divergence that
            is left times ρ/Δt for float64 arrays, one density and a direct solution; else, or where that is above the
            target, it is computed from the pressure.

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
                    "velocity: a read-only array; allowed: arrays that may be changed in place, such as copies"
                )
            if varies and density.shape != self.shape:
                raise CaseError(f"density: an array of the shape {density.shape}; allowed: {self.shape}")
        xp, given, light = module_of(velocity[0]), {}, None
        if varies:
            with np.errstate(divide="ignore"):
                light = given["a"] = 1.0 / density
            if self._borders:
                given["a"] = self._held.gather(light, everywhere=True)
            density = 1.0
        try:
            factor = float(step) / float(density)
            inverse = -1.0 / factor
        except (TypeError, ValueError, ZeroDivisionError):
            inverse = 0.0
        if not 0.0 < -inverse < math.inf:
            raise CaseError(f"step: {step!r}, density: {density!r}; allowed: numbers above 0, or an array of densities")
        with self._exclusive.use():
            if self.solver.operator.singular and self._inflow:
                self._require_balance(velocity)
            if not (given or out is not None or initial is not None) and (found := self._at_once(velocity, factor)):
                return found
            if type(self._source) is not type(velocity[0]) or self._source.dtype != velocity[0].dtype:
                self._source = xp.empty(self.shape, velocity[0].dtype)
            self._divide(velocity, self._source, inverse, self._walls)
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
                raise CaseError(said) from error
            p, links = brought(solution.u, xp), self._links(xp, solver) if given else None
            self._correct(velocity, p, factor, links)
            if links is not None:
                self._let_out(velocity, p, factor, links, brought(light, xp))
        return solution

    def _at_once(self, velocity: Sequence[Any], factor: float) -> Solution | None:
        """A projection whose source nothing keeps: its residual is that of the velocity, as far as it is small enough.

        A velocity has more rounding than a pressure where there is little to remove. For a device one of the host goes
        there and back.
        """
        passes, backend, there = self._passes, self.solver.local_backend, velocity
        if self._pause:
            self._pause -= 1
            return None
        if passes is None or self.solver.ranks.size > 1 or velocity[0].dtype != np.float64:
            return None

        def fill(p: Any, source: Reduction) -> bool:
            nonlocal there
            if not backend.on_host:
                with suppress(ResourceError, MemoryError):
                    there = passes.copies(velocity)
            if fits := bool(passes.takes(p, there)):
                passes.divergence(-1.0 / factor, there, p, self._walls, source)
            return fits

        def take(p: Any, left: Reduction) -> None:
            passes.subtract_gradient(factor, p, there, (), left)

        def undo(p: Any) -> None:
            passes.subtract_gradient(-factor, p, there, ())
            self._pause = PAUSE

        def apply(p: Any) -> Any:
            return -self.divergence(*self.gradient(p))

        found = solve_in_place(self.solver, fill, take, undo, apply)
        if found is None or there is velocity:
            return found
        with backend.in_use():
            for copy, faces in zip(there, velocity, strict=True):
                backend.copy_to(copy, faces)
            p = backend.to_host(found.u)
        return replace(found, u=p, problem=replace(found.problem, f=SourceOf(partial(apply, p))))

    def _let_out(self, velocity: Sequence[Any], p: Any, factor: float, links: Sequence[Any], light: Any) -> None:
        """At outflow the half cell has its own 1/ρ, in the place of that of the next link, which a pass has taken."""
        for axis, line in enumerate(self._axes):
            for end, (side, wall) in enumerate(zip(self.sides[2 * axis :], line.walls, strict=False)):
                if side == "outflow" and wall:
                    layer, link = (at(self._place(axis), number) for number in ((-1, -2) if end else (0, 0)))
                    more = light[layer] - links[axis][link]
                    velocity[axis][layer] -= (-factor if end else factor) * wall * p[layer] * more

    def _divide(self, velocity: Sequence[Any], out: Any, factor: float, walls: int = 0) -> None:
        """out = factor times the divergence, after zeros on the faces of the box that are bits of `walls`."""
        if self._passes is not None and self._passes.takes(out, velocity):
            self._passes.divergence(factor, velocity, out, walls)
        else:
            close_walls(walls, velocity)
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
                f"velocity: {more:.6g} more flows in through inflow faces than out, and no face is an "
                "outflow; make them balance, or one of them an outflow"
            )

    def _links(self, xp: ModuleType, solver: Solver) -> list[Any]:
        """1/ρ on the faces above the cells."""
        backend = solver.backend
        seen = backend.view if backend.on_host or xp is not np else backend.to_host
        dimension = len(self.shape)
        found = [brought(seen(each), xp) for each in (solver.operator.links or ())[:dimension]]
        if dimension == 1:
            found[0] = found[0][0]
        if self._borders is None:
            return found
        owned = [line.owned for line in reversed(solver.operator.lattice.axes[:dimension])]
        for place, ends in enumerate(owned):
            links = found[self._place(place)]
            for end, number in enumerate((ends.start - 1, ends.stop - 1)):
                self._between[place, end] = links[*owned[:place], number, *owned[place + 1 :]]
        return [links[tuple(owned)] for links in found]
