# SPDX-License-Identifier: MIT
"""The kinds of conditions on faces: what each of them is, and that a problem with it is solved."""

import numpy as np
import pytest

from poisson.discrete import reference
from poisson.discrete.discretisation import Discretisation
from poisson.mesh.boundary import CONDITIONS, ONE_CONDITION, TABLES, Kind, Rule
from poisson.problem.exact_data import manufactured_source, manufactured_value
from poisson.problem.expressions import Expression, parse
from poisson.problem.problem import Problem

KINDS = {
    "dirichlet": (Rule.FIXED, False),
    "neumann": (Rule.MIRROR, False),
    "robin": (Rule.MIRROR, True),
    "periodic": (Rule.WRAP, False),
    "open": (Rule.FIXED, False),
    "axis": (Rule.MIRROR, False),
}
"""For each word its rule, and whether alpha stands beside it."""


def test_what_each_kind_is() -> None:
    assert {kind.value: (kind.rule, kind.takes_alpha) for kind in Kind} == KINDS
    assert [kind.value for kind in CONDITIONS] == [word for word in KINDS if word not in ("periodic", "open", "axis")]
    for kind in Kind:
        assert (kind.fixes, kind.wraps) == (kind.rule is Rule.FIXED, kind.rule is Rule.WRAP)
        assert bool(kind.exact) == (kind in CONDITIONS) == kind.has_data


def test_what_a_face_may_hold_is_said_in_words() -> None:
    words = [kind.value for kind in CONDITIONS]
    assert f"one of {', '.join(words[:-1])} and {words[-1]}, and alpha with robin" == ONE_CONDITION
    assert TABLES.startswith("{ dirichlet = ... }, { neumann = ... }")
    assert "{ robin = ..., alpha = ... }" in TABLES


@pytest.mark.parametrize("face", ["x_lower", "y_upper"])
@pytest.mark.parametrize("kind", CONDITIONS, ids=lambda kind: kind.value)
def test_a_quadratic_solution_is_met_exactly(kind: Kind, face: str) -> None:
    """Central differences and the terms of the faces have no error for it."""
    exact = parse("1 + 2*x - y + 3*x**2 + x*y - 2*y**2", 2, {})
    alpha = Expression.constant(0.7) if kind.takes_alpha else None
    number = {"x_lower": 0, "y_upper": 3}[face]
    data = {kind.value: manufactured_value(exact, 1.5, kind, alpha, number)}
    boundary = {"all": {"dirichlet": exact}, face: data if alpha is None else {**data, "alpha": alpha}}
    source = manufactured_source(exact, 1.5, 0.0, 2)
    problem = Problem.on_box((7, 6), f=source, a=1.5, boundary=boundary, upper=(1.0, 2.0))
    u = reference.solve(Discretisation(problem))
    grid = problem.lattice
    x, y = grid.coordinates(0), grid.coordinates(1)[:, None]
    np.testing.assert_allclose(u, 1 + 2 * x - y + 3 * x**2 + x * y - 2 * y**2, rtol=0, atol=1e-12)
