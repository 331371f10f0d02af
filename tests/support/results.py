# SPDX-License-Identifier: MIT
"""A small result for the tests of what is written and shown."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from poisson.mesh.axis import plain_rules
from poisson.mesh.boundary import Kind
from poisson.mesh.lattice import Lattice
from poisson.output.record import ErrorNorms
from poisson.parallel.communicator import Communicator
from poisson.problem.expressions import Expression, parse
from poisson.problem.faces import Face
from poisson.problem.problem import Problem
from poisson.run.solution import Solution
from poisson.solvers.status import Status

WALL = Face(Kind.DIRICHLET, Expression.constant(0.0))
PERIODIC = Face(Kind.PERIODIC)


def solution_of(
    shape: tuple[int, ...],
    text: str,
    *,
    title: str = "Some title",
    lower: tuple[float, ...] | None = None,
    upper: tuple[float, ...] | None = None,
    **changes: Any,
) -> Solution:
    """A result whose u is a text of the coordinates, and nothing else."""
    problem = Problem.on_box(shape, f=0.0, lower=lower, upper=upper, title=title)
    grid = problem.lattice
    points = np.meshgrid(*(grid.coordinates(axis) for axis in reversed(range(grid.dimension))), indexing="ij")
    u = np.broadcast_to(parse(text, grid.dimension)(np, *reversed(points)), grid.array_shape)
    changes = {"problem": problem, "u": np.array(u, dtype="float64"), "fields": {}, "error": None} | changes
    return replace(make_solution(len(shape)), **changes)


def make_solution(dimension: int = 3, dtype: str = "float64", **changes: Any) -> Solution:
    """A result on 5 x 4 (x 3) nodes of an uneven box, periodic in y; u counts its nodes."""
    grid = Lattice.box(
        (0.0, -1.0, 2.0)[:dimension],
        (1.0, 1.0, 5.0)[:dimension],
        (5, 4, 3)[:dimension],
        plain_rules(*(False, True, False)[:dimension]),
    )
    faces = (WALL, WALL, PERIODIC, PERIODIC, WALL, WALL)[: 2 * dimension]
    problem = Problem(grid, faces, Expression.constant(1.0), title="A test")
    u = np.arange(grid.nodes, dtype=dtype).reshape(grid.array_shape)
    solution = Solution(
        problem=problem,
        u=u,
        status=Status.CONVERGED,
        iterations=40,
        norm="rms",
        residual=1.25e-9,
        target=1e-8,
        history=tuple((sweep, 0.5**sweep) for sweep in range(0, 41, 10)),
        fields={"f": np.ones(grid.array_shape), "error": np.full(grid.array_shape, -0.5)},
        error=ErrorNorms(rms=0.25, max=0.5),
        times={"set_up": 0.5, "solve": 2.0},
        provenance={"backend": "numpy", "precision": dtype, "threads": 2, "device_memory_gb": 1.5},
        case_text='title = "A test"\n',
    )
    return replace(solution, **changes)


@dataclass(frozen=True)
class Part:
    """The part of a solution that a rank holds."""

    communicator: Communicator
    ranges: tuple[tuple[int, int], ...]


def part_of(solution: Solution, communicator: Communicator, blocks: tuple[int, ...]) -> Solution:
    """The part that a rank holds of a solution that is divided into so many blocks along each axis of its arrays.

    Its arrays are the middle of larger ones, as beside them there may be a halo.
    """
    shape = solution.problem.lattice.array_shape
    places = np.unravel_index(communicator.rank, blocks)
    cuts = [np.linspace(0, nodes, count + 1).astype(int).tolist() for nodes, count in zip(shape, blocks, strict=True)]
    ranges = tuple((cut[place], cut[place + 1]) for cut, place in zip(cuts, places, strict=True))
    owned = tuple(slice(start, stop) for start, stop in ranges)

    def taken(values: Any) -> Any:
        middle = (*(slice(1, -1) for _ in shape), *(slice(None) for _ in values.shape[len(shape) :]))
        found = values[owned]
        larger = np.full([count + 2 for count in found.shape[: len(shape)]] + list(found.shape[len(shape) :]), np.nan)
        larger = larger.astype(values.dtype)
        larger[middle] = found
        return larger[middle]

    fields = {name: taken(values) for name, values in solution.fields.items()}
    return replace(solution, u=taken(solution.u), fields=fields, share=Part(communicator, ranges))
