# SPDX-License-Identifier: MIT
"""What leaves through the faces: all of it to rounding, and through each to second order."""

import math

import numpy as np
import pytest
from numpy.typing import NDArray
from support.operators import AXIS_RULES, name_of, rules_of
from support.varying import problem_with
from test_conservation import widths

import poisson
from poisson.backends.numpy import NumpyBackend
from poisson.case import from_mapping
from poisson.discrete.discretisation import Discretisation
from poisson.discrete.outflow import outflow
from poisson.mesh.boundary import FACE_NAMES, Kind, Rule

SHAPES = {1: (6,), 2: (5, 4), 3: (4, 3, 5)}
RULES = [*AXIS_RULES, *rules_of(2), *rules_of(3)[::5]]


def integral(discretisation: Discretisation, values: NDArray[np.float64]) -> float:
    """By the trapezoidal rule, for which a node on a face has half a cell whatever its condition is."""
    problem = discretisation.problem
    for axis in range(problem.lattice.dimension):
        values = values * widths(problem, axis).reshape(-1, *(1,) * axis)
    return float(values.sum())


@pytest.mark.parametrize("rules", RULES, ids=name_of)
def test_the_flows_through_all_faces_are_what_is_made_less_the_residual(rules: tuple[Rule, ...]) -> None:
    """For any u whatever, to rounding."""
    for mean, c in (("harmonic", True), ("arithmetic", False)):
        problem = problem_with(rules, SHAPES[len(rules) // 2], mean=mean, c=c)
        discretisation, backend = Discretisation(problem), NumpyBackend(np.float64)
        shape = discretisation.array_shape
        u = np.random.default_rng(5).standard_normal(shape)
        r = backend.empty(shape)
        source = backend.assemble(shape, discretisation.source)
        backend.bind(discretisation.operator_on(backend)).residual(u, source, r)
        f, c_nodes = (part(np, 0, shape[0]) for part in (discretisation.f, discretisation.c))
        flows = [outflow(discretisation, u, face) for face, given in enumerate(problem.faces) if not given.kind.wraps]
        made = integral(discretisation, f - c_nodes * u - r)
        scale = integral(discretisation, abs(f) + abs(c_nodes * u) + abs(r)) + sum(map(abs, flows))
        assert abs(sum(flows) - made) < 1e-13 * scale


EXACT = {
    # −∂u/∂n of exp(x) sin(y + 1/2) (1 + z²) on the unit cube, with a = 1 + x y, integrated by hand
    "x_lower": math.cos(0.5) - math.cos(1.5),
    "y_lower": math.cos(0.5) * (math.e - 1.0),
}


@pytest.mark.parametrize("kinds", [("dirichlet",), ("dirichlet", "neumann"), ("robin", "dirichlet")])
@pytest.mark.parametrize("dimension", [2, 3])
def test_the_flow_through_each_face_is_of_second_order(kinds: tuple[str, ...], dimension: int) -> None:
    exact = "exp(x)*sin(y + 0.5)*(1 + z*z)" if dimension == 3 else "exp(x)*sin(y + 0.5)"
    along_z = 4.0 / 3.0 if dimension == 3 else 1.0
    wanted = {
        "x_lower": EXACT["x_lower"] * along_z,
        "x_upper": -math.e
        * along_z
        * ((math.cos(0.5) - math.cos(1.5)) + (math.sin(1.5) - math.cos(1.5) - math.sin(0.5))),
        "y_lower": EXACT["y_lower"] * along_z,
        "y_upper": -math.cos(1.5) * along_z * math.e,
    }
    errors = []
    for n in (8, 16):
        names = FACE_NAMES[: 2 * dimension]
        kind = {name: kinds[face % len(kinds)] for face, name in enumerate(names)}
        tables = {
            "equation": {"f": "exact", "exact": exact, "a": "1 + x*y"},
            "domain": {
                **{"lower": [0.0] * dimension, "upper": [1.0] * dimension},
                "shape": [n + 1, 2 * n + 1, n + 1][:dimension],
            },
            "boundary": {
                name: {kind[name]: "exact"} | ({"alpha": 1.5} if kind[name] == "robin" else {}) for name in names
            },
        }
        problem = from_mapping(tables, name="a", folder=".").problem
        u = poisson.solve(problem, "multigrid", "numpy", rtol=1e-11).u
        flows = {name: outflow(Discretisation(problem), u, FACE_NAMES.index(name)) for name in wanted}
        errors.append({name: abs(flows[name] - value) for name, value in wanted.items()})
    coarse, fine = errors
    for name in wanted:
        # One that is small by chance is no measure.
        assert fine[name] < coarse[name] / 3.6 + 0.02 * max(fine.values()), (name, errors)


def test_a_periodic_face_has_no_flow_of_its_own() -> None:
    problem = poisson.Problem.on_box((5, 4), boundary={"x": "periodic", "all": 0.0})
    assert problem.faces[0].kind is Kind.PERIODIC
    with pytest.raises(ValueError, match="enters at the other"):
        outflow(Discretisation(problem), np.zeros((4, 5)), 0)
