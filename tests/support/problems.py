# SPDX-License-Identifier: MIT
"""Cases and discrete problems for the tests of solving and verifying."""

from pathlib import Path
from typing import Any

import numpy as np

from poisson.backends.base import Array, Backend
from poisson.case import Case, from_mapping
from poisson.discrete.balance import balanced
from poisson.discrete.discretisation import Discretisation

WALLS = {"all": {"dirichlet": 0.0}}
SINE = {"f": "exact", "exact": "sin(pi*x)*sin(pi*y)"}


def make_case(
    equation: dict[str, Any],
    boundary: dict[str, Any],
    shape: tuple[int, ...],
    upper: tuple[float, ...] = (1.0, 1.0, 1.0),
    overrides: tuple[str, ...] = (),
    folder: Path = Path(),
) -> Case:
    """A case on a box with its lower corner in the origin, for Jacobi on numpy unless the overrides say otherwise."""
    dimension = len(shape)
    tables = {
        "equation": equation,
        "boundary": boundary,
        "domain": {"lower": [0.0] * dimension, "upper": list(upper[:dimension]), "shape": list(shape)},
        "solver": {"method": "jacobi"},
        "run": {"backend": "numpy"},
        "output": {"file": "case.h5"},
    }
    return from_mapping(tables, name="case", folder=folder, overrides=overrides)


def discretise(case: Case) -> Discretisation:
    return balanced(Discretisation(case.problem), np)


def arrays(backend: Backend, discretisation: Discretisation) -> tuple[Array, Array]:
    """The initial guess and the source with its face terms."""
    shape = discretisation.array_shape
    return backend.assemble(shape, discretisation.initial), backend.assemble(shape, discretisation.source)
