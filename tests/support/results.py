"""A small result for the tests of what is written and shown."""

from dataclasses import replace
from typing import Any

import numpy as np

from poisson.mesh.boundary import Kind
from poisson.mesh.grid import Grid
from poisson.output.record import ErrorNorms
from poisson.problem.expressions import Expression
from poisson.problem.faces import Face
from poisson.problem.problem import Problem
from poisson.run.solution import Solution
from poisson.solvers.status import Status

WALL = Face(Kind.DIRICHLET, Expression.constant(0.0))
PERIODIC = Face(Kind.PERIODIC)


def make_solution(dimension: int = 3, dtype: str = "float64", **changes: Any) -> Solution:
    """A result on 5 x 4 (x 3) nodes of an uneven box, periodic in y; u counts its nodes."""
    grid = Grid(
        (0.0, -1.0, 2.0)[:dimension],
        (1.0, 1.0, 5.0)[:dimension],
        (5, 4, 3)[:dimension],
        (False, True, False)[:dimension],
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
