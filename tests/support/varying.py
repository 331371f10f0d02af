# SPDX-License-Identifier: MIT
"""Problems whose coefficients vary in every way, for the tests that need the worst."""

import numpy as np
from numpy.typing import NDArray

from poisson.mesh.boundary import Kind, Rule
from poisson.mesh.lattice import Lattice
from poisson.problem.expressions import Expression, parse
from poisson.problem.faces import Face
from poisson.problem.fields import ArrayField
from poisson.problem.problem import Problem

LOWER, UPPER = (0.0, -1.0, 0.5), (1.0, 1.0, 1.7)


def jumps(shape: tuple[int, ...], seed: int, decades: float = 3.0) -> NDArray[np.float64]:
    """Values that differ from node to node by up to so many powers of ten."""
    return np.asarray(10.0 ** np.random.default_rng(seed).uniform(-decades / 2, decades / 2, shape))


def problem_with(
    rules: tuple[Rule, ...],
    shape: tuple[int, ...],
    *,
    a: bool = True,
    c: bool = True,
    robin: bool = True,
    mean: str = "harmonic",
    seed: int = 0,
) -> Problem:
    """A problem with the rules of its faces, and coefficients and data that have no symmetry.

    Lower mirror faces are Robin faces, upper ones have Neumann data.
    """
    dimension = len(shape)
    terms = " + ".join(f"{k}*{name}**2" for k, name in enumerate("xyz"[:dimension], start=1))
    faces = []
    for face, rule in enumerate(rules):
        value = parse(f"{face + 1} + {terms}", dimension, {})
        if rule is Rule.WRAP:
            faces.append(Face(Kind.PERIODIC))
        elif rule is Rule.FIXED:
            faces.append(Face(Kind.DIRICHLET, value))
        elif robin and face % 2 == 0:
            faces.append(Face(Kind.ROBIN, value, parse(f"0.5 + {terms}", dimension, {})))
        else:
            faces.append(Face(Kind.NEUMANN, value))
    grid = Lattice.box(LOWER[:dimension], UPPER[:dimension], shape, rules)
    return Problem(
        grid,
        tuple(faces),
        parse(f"sin(3*({terms}))", dimension, {}),
        ArrayField(jumps(grid.array_shape, seed + 1) - 0.01) if c else 0.0,
        Expression.constant(0.0),
        None,
        "varying",
        ArrayField(jumps(grid.array_shape, seed + 2)) if a else 1.0,
        mean,
    )
