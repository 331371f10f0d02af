# SPDX-License-Identifier: MIT
"""The functions of a problem at few of its nodes, and what follows from them, whatever the size of the grid.

Along each axis a sample has runs of neighbouring nodes, from one end to the other: within a run it shows what the grid
resolves, and all runs together what there is.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from poisson.discrete.operator import Coefficients, Operator
from poisson.errors import CaseError
from poisson.problem.bodies import DIELECTRIC, HELD
from poisson.problem.expressions import Expression
from poisson.problem.faces import FaceData, may_absorb
from poisson.problem.fields import ArrayField, FieldFile, FunctionField, Range, joined
from poisson.problem.problem import Coefficient, Problem, number
from poisson.problem.sampling import NOT_NEGATIVE, Limit, constant_of, limit_of_a, require_values
from poisson.solvers.roughness import Roughness, roughness_of

MOST_NODES = 1 << 16
"""A grid of no more nodes is its own sample."""

RUNS = {1: (64, 1024), 2: (16, 16), 3: (5, 8)}
"""Runs along each axis of a larger one, and the nodes of each, by the dimension."""

SOFTEST = 1e-300
"""No eigenvalue is called smaller, as it is divided by."""

ZOOMS, ZOOM_POINTS = 6, 9
"""How often a peak between nodes is looked at closer, and at how many points along each axis."""

Values = NDArray[np.float64]
Runs = tuple[Range, ...]


class Sample:
    """A sample of a problem.

    `problem`: whose functions. Attributes: `complete`: whether it has all nodes. `runs`: the nodes along x(, y(, z)).
    `f`, `a`, `c`: at the nodes of the sample; ones in the place of what could not be evaluated, and the least a > 0
    where it is 0. `insulated`: nodes of the sample where a is 0. `value`, `alpha`: g and α on the sample of each face
    that has them, by its number. `mistakes`: what cannot be solved, a line each.
    """

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        grid = problem.lattice
        self.complete = grid.nodes <= MOST_NODES
        count, length = RUNS[grid.dimension]
        self.runs = tuple(
            ((0, nodes),) if self.complete or nodes <= count * length else _spread(nodes, count, length)
            for nodes in grid.shape
        )
        mistakes: list[str] = []

        def tried(evaluated: Callable[..., Values], *given: Any) -> Values:
            try:
                return evaluated(*given)
            except CaseError as error:
                mistakes.extend(error.mistakes)
                return np.ones(self.shape[::-1] if evaluated == self.nodes else ())

        self.f = tried(self.nodes, "equation.f", problem.f)
        a = tried(self.nodes, "equation.a", problem.a, limit_of_a(problem.mean, problem.a))
        self.insulated = a.size - int(np.count_nonzero(a))
        self.a = np.maximum(a, np.min(a, initial=np.inf, where=a > 0.0)) if a.any() else np.ones_like(a)
        self.c = tried(self.nodes, "equation.c", problem.c, NOT_NEGATIVE)
        self.value: dict[int, Values] = {}
        self.alpha: dict[int, Values] = {}
        for face, condition in enumerate(problem.faces):
            key = f"boundary.{problem.lattice.faces[face]}"
            if condition.value is not None:
                self.value[face] = tried(self.face, face, key, condition.value)
            if condition.alpha is not None and condition.absorbs:
                alpha = tried(self.face, face, f"{key}.alpha", condition.alpha, NOT_NEGATIVE)
                # Of a face at a distance from the nodes what acts at these, on the whole.
                passed = 1.0 / (1.0 + problem.lattice.axes[face // 2].offsets[face % 2] * alpha / float(self.a.mean()))
                self.alpha[face], self.value[face] = alpha * passed, self.value[face] * passed
        if problem.guess:
            tried(self.nodes, "run.initial", problem.initial)
        self.mistakes = tuple(mistakes)

    @property
    def shape(self) -> tuple[int, ...]:
        """Nodes of the sample along x(, y(, z))."""
        return tuple(sum(stop - start for start, stop in runs) for runs in self.runs)

    def nodes(self, key: str, function: Coefficient, limit: Limit | None = None) -> Values:
        """A function at the nodes of the sample, x last.

        `key`: where it stands in a case. `function`: the function. `limit`: what every value must be, beside finite.
        Raises `CaseError` if a value is not that, or cannot be read; the line names the key and the place.
        """
        if isinstance(function, (int, float)):
            return np.full(self.shape[::-1], float(function))
        return self._values(key, function, self.runs, None, limit)

    def face(
        self, face: int, key: str, function: FaceData, limit: Limit | None = None, at: dict[int, Range] | None = None
    ) -> Values:
        """A function of a face at the nodes of the sample there, without the axis of the face.

        `at` has, for some of the other axes, a range of nodes in the place of those of the sample. As `nodes`
        otherwise.
        """
        runs = [((at or {}).get(axis),) if axis in (at or {}) else each for axis, each in enumerate(self.runs)]
        nodes = self.problem.lattice.shape[face // 2]
        runs[face // 2] = ((nodes - 1, nodes) if face % 2 else (0, 1),)
        return self._values(key, function, runs, face // 2, limit)  # type: ignore[arg-type]

    def end(self, axis: int, upper: bool, function: Expression, face: int | None = None) -> Values:
        """A formula where an axis begins or ends, which is no node at the upper end of a periodic one.

        For data of a face only there.
        """
        grid, places = self.problem.lattice, self._places(self.runs)
        places[axis] = np.full_like(places[axis].reshape(-1)[:1], (grid.upper if upper else grid.lower)[axis])
        if face is not None:
            places[face // 2] = np.asarray((grid.upper if face % 2 else grid.lower)[face // 2])
        with np.errstate(all="ignore"):
            values = np.asarray(function(np, *places), dtype=np.float64)
        return np.broadcast_to(values, np.broadcast_shapes(values.shape, *(place.shape for place in places)))

    @cached_property
    def neighbours(self) -> tuple[NDArray[np.bool_], ...]:
        """Along x(, y(, z)): which nodes of the sample have their two neighbours in it, but for the first and last."""
        found = []
        for runs in self.runs:
            numbers = np.concatenate([np.arange(*run) for run in runs])
            found.append((numbers[2:] - numbers[:-2]) == 2)
        return tuple(found)

    @cached_property
    def fixed(self) -> tuple[float, float] | None:
        """The least and the largest value that a Dirichlet face, or a number a body, holds, in U; None without one."""
        held = [each for face, each in self.value.items() if self.problem.faces[face].kind.fixes]
        numbers = [number(body.dirichlet) for body in self.problem.bodies if body.dirichlet is not None]
        held += [np.array(value) for value in numbers if value is not None]
        if not held:
            return None
        return min(float(each.min()) for each in held), max(float(each.max()) for each in held)

    @property
    def laplacian(self) -> Operator:
        """−∇² with the rules of the faces."""
        return Operator(self.problem.lattice.of_arrays)

    @property
    def operator(self) -> Operator:
        """A with the ranges of its coefficients, and without their arrays where they vary."""
        problem, laplacian = self.problem, self.laplacian
        a, c = number(problem.a), number(problem.c)
        if not problem.varies:
            return replace(laplacian, a=1.0 if a is None else a, c=0.0 if c is None else c)
        absorbs = any(face.absorbs for face in problem.faces)
        alpha = [float(self.alpha[face].min()) if face in self.alpha else 0.0 for face in range(len(problem.faces))]
        axes, largest = problem.lattice.axes, float(self.c.max())
        robin = (float(each.max()) * axes[face // 2].inflow[face % 2] for face, each in self.alpha.items())
        coefficients = Coefficients(
            links=None if problem.even else (None,) * laplacian.dimension,
            c=self.c if c is None or absorbs else None,
            a_range=(float(self.a.min()), float(self.a.max())),
            c_range=(float(self.c.min()), largest + max(robin, default=0.0)),
            alpha=(*alpha, *(0.0,) * (2 * laplacian.dimension - len(alpha))),
            fixed=self.insulated,
        )
        if problem.bodies:
            kinds = {body.kind for body in problem.bodies}
            holds = bool(kinds.intersection(HELD)) or any(may_absorb(body.alpha) for body in problem.bodies)
            coefficients = replace(
                coefficients,
                links=(None,) * laplacian.dimension,
                c=self.c,
                fixed=max(self.insulated, int(kinds != {DIELECTRIC})),
                holds=True if holds else None,
                cut=kinds != {DIELECTRIC},
            )
            return replace(laplacian, coefficients=coefficients)
        constant = 0.0 if c is None or absorbs else c
        return replace(laplacian, a=a if a is not None and problem.even else 1.0, c=constant, coefficients=coefficients)

    @property
    def mean_reaction(self) -> float:
        """The mean of c with the terms of Robin faces over the box, in 1/L²."""
        extent = self.problem.lattice.extent
        return float(self.c.mean()) + sum(float(each.mean()) / extent[face // 2] for face, each in self.alpha.items())

    @property
    def roughness_of_links(self) -> Roughness:
        """The roughness of a between neighbouring links, by which ``auto`` chooses the coarse grids of multigrid."""
        samples = []
        for axis, (inner, nodes) in enumerate(zip(self.neighbours, self.problem.lattice.shape, strict=True)):
            along = np.moveaxis(self.a, -1 - axis, 0)
            with np.errstate(divide="ignore"):  # of phases of a = 0
                samples.append((2.0 / (1.0 / along[:-1] + 1.0 / along[1:]), inner, nodes))
        return roughness_of(samples)

    @property
    def softest(self) -> float:
        """About the smallest non-zero eigenvalue of −∇·(a∇u) + c u, in 1/L²; with jumps a bound from below.

        That of −a u'' along each axis, with an end that is fixed, absorbs more or less, or is free.
        """
        problem, a = self.problem, float(self.a.min())
        total, free = float(self.c.min()), []
        for axis, extent in enumerate(problem.lattice.extent):
            held = 0.0
            for face in (2 * axis, 2 * axis + 1):
                if problem.faces[face].kind.fixes:
                    held += 1.0
                elif face in self.alpha:
                    absorbed = float(self.alpha[face].mean()) * extent / a
                    held += absorbed / (absorbed + 2.0)
            total += a * (math.pi * held / (2.0 * extent)) ** 2
            free.append(a * (math.pi / extent) ** 2)
        return max(total if total > 0.0 else min(free), SOFTEST)

    def roughness(self, values: Values) -> float:
        """How much of a function goes up and down from node to node, along the axis where it does so most: 0 to 1 or 2.

        That is by how much values lie outside those of both neighbours, over their distance from the usual one: next to
        nothing of smooth functions, and of steps, which are as sharp on every grid; 1 of a function at a single node.
        """
        if float(np.ptp(values)) == 0.0:
            return 0.0
        distance = np.abs(values - np.partition(values, values.size // 2, axis=None)[values.size // 2])
        found = [0.0]
        for axis, inner in enumerate(self.neighbours):
            along = np.moveaxis(values, -1 - axis, 0)
            below, here, above = along[:-2][inner], along[1:-1][inner], along[2:][inner]
            total = float(np.moveaxis(distance, -1 - axis, 0)[1:-1][inner].sum())
            if total > 0.0 and math.isfinite(total):
                outside = np.maximum(here - np.maximum(below, above), 0.0)
                outside += np.maximum(np.minimum(below, above) - here, 0.0)
                found.append(float(outside.sum()) / total)
        return max(found)

    def wavenumber(self, values: Values) -> float:
        """The mean square of the slope over that of the values, in 1/L²: k² of a wave."""
        total = 0.0
        size = float((values * values).mean())
        for axis, inner in enumerate(self.neighbours):
            along = np.moveaxis(values, -1 - axis, 0)
            slope = (along[2:][inner] - along[:-2][inner]) / (2.0 * self.problem.lattice.spacing[axis])
            total += float((slope * slope).mean()) if slope.size else 0.0
        return total / size if size > 0.0 else 0.0

    def peak(self, function: Expression, values: Values) -> float:
        """The largest size of a formula near the node where it is largest; infinite where it is not finite."""
        grid, places = self.problem.lattice, self._places(self.runs)
        index = np.unravel_index(int(np.argmax(np.abs(values))), values.shape)[::-1]
        centre = [float(place.reshape(-1)[number]) for place, number in zip(places, index, strict=True)]
        width, largest = list(grid.spacing), float(np.max(np.abs(values)))
        for _ in range(ZOOMS):
            lines = [
                np.clip(np.linspace(middle - reach, middle + reach, ZOOM_POINTS), low, high)
                for middle, reach, low, high in zip(centre, width, grid.lower, grid.upper, strict=True)
            ]
            mesh = np.meshgrid(*lines, indexing="ij")
            with np.errstate(all="ignore"):
                found = np.abs(np.broadcast_to(np.asarray(function(np, *mesh), dtype=np.float64), mesh[0].shape))
            if not np.isfinite(found).all():
                return math.inf
            best = np.unravel_index(int(np.argmax(found)), found.shape)
            if found[best] >= largest:
                largest = float(found[best])
                centre = [float(line[number]) for line, number in zip(lines, best, strict=True)]
            width = [reach / (ZOOM_POINTS // 2) * 1.5 for reach in width]
        return largest

    def _places(self, runs: Sequence[Runs]) -> list[Any]:
        """x(, y(, z)) of the nodes in runs, each in a shape that broadcasts to theirs."""
        grid, found = self.problem.lattice, []
        for axis, each in enumerate(runs):
            numbers = np.concatenate([np.arange(*run) for run in each])
            found.append(grid.axes[axis].places(numbers).reshape((-1,) + (1,) * axis))
        return found

    def _values(
        self, key: str, function: FaceData, runs: Sequence[Runs], left_out: int | None, limit: Limit | None
    ) -> Values:
        axes = [axis for axis in reversed(range(len(runs))) if axis != left_out]
        if isinstance(function, Expression) and (constant := constant_of(function, limit)) is not None:
            return np.full([sum(stop - start for start, stop in runs[axis]) for axis in axes], constant)
        places = self._places(runs)
        counts = tuple(place.size for place in reversed(places))
        if isinstance(function, FieldFile):
            values = function.read_runs([runs[axis] for axis in axes]).reshape(counts)
        elif isinstance(function, (Expression, FunctionField)):
            with np.errstate(all="ignore"):
                found = np.asarray(function(np, *places), dtype=np.float64)
            values = np.broadcast_to(found, counts)
        else:
            stored: ArrayField = function  # type: ignore[assignment]

            def read(block: tuple[Range, ...]) -> Any:
                return np.asarray(stored.read(np, *block[0], block[1:]), dtype=np.float64)

            values = joined(np, read, [runs[axis] for axis in axes]).reshape(counts)
        require_values(np, key, values, [place.reshape(-1) for place in places], limit, self.problem.lattice.names)
        kept = [place for place, axis in enumerate(reversed(range(len(runs)))) if axis != left_out]
        return values.reshape(tuple(counts[place] for place in kept))


def _spread(nodes: int, count: int, length: int) -> Runs:
    """Runs of nodes from the first to the last."""
    starts = np.linspace(0, nodes - length, count).astype(np.int64)
    return tuple((int(start), int(start) + length) for start in starts)
