# SPDX-License-Identifier: MIT
"""Right case files, the words of the messages about wrong ones, and ways to make the one from the other."""

import tomllib
from pathlib import Path
from typing import Any

import pytest

from poisson.backends.registry import backend_names
from poisson.case import Case, from_mapping
from poisson.errors import CaseError
from poisson.mesh.boundary import TABLES
from poisson.solvers import registry
from poisson.solvers.keys import either

GOOD = """
title = "Good"

[equation]
f = "x*y"
exact = "x + y"

[parameters]
k = 3.0

[domain]
lower = [0.0, 0.0]
upper = [1.0, 2.0]
shape = [9, 17]

[boundary]
x_lower = { dirichlet = 0.0 }
x_upper = { neumann = "k*y" }
y = "periodic"
"""

GOOD_3D = """
equation = { f = 1.0 }
domain = { lower = [0, 0, 0], upper = [1, 1, 1], shape = [3, 4, 5] }
boundary = { all = { dirichlet = "z" } }
"""

CONDITION = f'"open" or {TABLES}, with finite numbers, expressions or files'
EQUATION_KEYS = "f, a, c, mean, surface, exact"
FIELDS = 'a list with entries from "u", "f", "a", "c", "residual", "error", "gradient", "flux" and "E"'
NODES = "1, 2 or 3 integers >= 3, in the order x(, y(, z))"
NUMBERS = "1, 2 or 3 finite numbers, in the order x(, y(, z))"
FACE_KEYS = "all, x, y, x_lower, x_upper, y_lower, y_upper"
SECTIONS = "title, equation, parameters, domain, boundary, body, solver, run, output"
BACKENDS = either(backend_names())
METHODS = either(("auto", *registry.methods()))
SOLVER_KEYS = ", ".join(registry.solver_keys())
DATA = 'a finite number, an expression, "exact" or a table such as { file = "f.npy" }'
FACE_DATA = (
    'a finite number, an expression or a table such as { file = "g.npy" }; "exact" takes the value of equation.exact'
)
A_DATA = 'a finite number > 0, an expression or a table such as { file = "a.npy" }'
INITIAL_DATA = 'a finite number, an expression or a table such as { file = "u.npy" }'
C_DATA = 'a finite number >= 0, an expression or a table such as { file = "c.npy" }'
ALPHA_DATA = 'a finite number >= 0, an expression or a table such as { file = "alpha.npy" }'


def case_of(text: str, folder: Path = Path(), overrides: tuple[str, ...] = ()) -> Case:
    return from_mapping(tomllib.loads(text), name="case", folder=folder, overrides=overrides)


def mistakes_of(text: str, folder: Path = Path(), overrides: tuple[str, ...] = ()) -> tuple[str, ...]:
    with pytest.raises(CaseError) as caught:
        case_of(text, folder, overrides)
    return caught.value.mistakes


def edited(path: str, value: str | None, base: str = GOOD) -> dict[str, Any]:
    """The good case with one value, written as TOML, put at a path, or taken away."""
    tables = tomllib.loads(base)
    *outer, last = path.split(".")
    table = tables
    for name in outer:
        table = table.setdefault(name, {})
    if value is None:
        del table[last]
    else:
        table[last] = tomllib.loads(f"value = {value}")["value"]
    return tables
