# SPDX-License-Identifier: MIT
"""The mean of a solution and the energy of its field: their order, and what they must be to rounding."""

import math
from typing import Any

import numpy as np
import pytest

import poisson
from poisson.discrete.discretisation import Discretisation
from poisson.discrete.integrals import energy, mean
from poisson.mesh.grid import slabs


@pytest.fixture(autouse=True, params=[1, 1 << 18])
def _limit(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Row by row, and all at once."""
    monkeypatch.setattr("poisson.discrete.integrals.slabs", lambda shape: slabs(shape, request.param))


def on_nodes(problem: poisson.Problem, function: Any) -> Any:
    grid = problem.lattice
    points = np.meshgrid(*(grid.coordinates(axis) for axis in reversed(range(grid.dimension))), indexing="ij")
    return np.broadcast_to(function(*points[::-1]), grid.array_shape)


@pytest.mark.parametrize("a", [2.0, "1 + x*x"])
@pytest.mark.parametrize("mean_of_a", ["harmonic", "arithmetic"])
@pytest.mark.parametrize("dimension", [1, 2, 3])
def test_the_energy_is_half_of_the_charge_times_the_voltage(dimension: int, mean_of_a: str, a: Any) -> None:
    """Of a capacitor, to rounding, whatever the coefficient: the energy and the fluxes are of the same links."""
    boundary: dict[str, Any] = {"x_lower": -1.0, "x_upper": 3.0}
    boundary |= {} if dimension < 2 else {"y": "periodic"}
    boundary |= {} if dimension < 3 else {"z_lower": {"neumann": 0.0}, "z_upper": {"neumann": 0.0}}
    varying = {} if isinstance(a, float) else {"mean": mean_of_a}
    problem = poisson.Problem.on_box((9, 8, 7)[:dimension], f=0.0, a=a, boundary=boundary, **varying)
    solution = poisson.solve(problem, "cg", "numpy", rtol=1e-13)
    charge = -solution.face_flux("x_upper")
    assert energy(Discretisation(problem), solution.u) == pytest.approx(0.5 * charge * 4.0, rel=1e-12)


@pytest.mark.parametrize("axis", ["x", "y", "z"])
def test_the_energy_and_the_mean_of_a_wave_around_the_box(axis: str) -> None:
    """Along an axis that is periodic, of which the last node has a link to the first."""
    errors = []
    for n in (16, 32):
        boundary: dict[str, Any] = {axis: "periodic", "all": {"neumann": 0.0}}
        problem = poisson.Problem.on_box((n, n, n), f=0.0, c=3.0, boundary=boundary)
        u = on_nodes(problem, lambda *points: 2.0 + np.sin(2 * np.pi * points["xyz".index(axis)]))
        assert mean(Discretisation(problem), u) == pytest.approx(2.0, rel=1e-12)
        expected = 0.5 * (2 * math.pi**2 + 3.0 * 4.5)
        errors.append(abs(energy(Discretisation(problem), u) - expected))
    assert math.log2(errors[0] / errors[1]) == pytest.approx(2.0, abs=0.1)


@pytest.mark.parametrize("boundary", [{"centring": "node"}, {"centring": "cell", "boundary": "open"}])
def test_both_are_of_second_order(boundary: Any) -> None:
    errors = []
    for n in (33, 65):
        problem = poisson.Problem.on_box((n, 2 * n - 1), f=0.0, a="1 + x", c="y", upper=(1.0, 2.0), **boundary)
        u = on_nodes(problem, lambda x, y: x * x * y)
        found = Discretisation(problem)
        # ½ ∫ (1 + x)(4x²y² + x⁴) + y x⁴y² and ¼ ∫ x² y · 2
        of_energy = 0.5 * (4 * (1 / 3 + 1 / 4) * 8 / 3 + (1 / 5 + 1 / 6) * 2 + 4 / 5)
        errors.append((abs(energy(found, u) - of_energy), abs(mean(found, u) - 1 / 3)))
    orders = np.log2(np.array(errors[0]) / np.array(errors[1]))
    np.testing.assert_allclose(orders, 2.0, atol=0.1)


def test_values_in_float32_are_summed_in_float64() -> None:
    problem = poisson.Problem.on_box((65, 65), f=0.0, boundary=0.0)
    u = np.full((65, 65), 0.1, dtype=np.float32)
    assert mean(Discretisation(problem), u) == pytest.approx(float(np.float32(0.1)), rel=1e-14)
