# SPDX-License-Identifier: MIT
"""The Green's function of a lattice of r and z that goes on without end, against functions that are known.

Covers poisson.discrete.radial_green.
"""

import math

import numpy as np
import pytest

from poisson.discrete.radial_green import Ladder, waves
from poisson.mesh.axis import Axis
from poisson.mesh.boundary import Kind
from poisson.mesh.placement import Cells, Nodes

A, H = 1.7, 0.3
FREE = (Kind.NEUMANN, Kind.NEUMANN)


@pytest.mark.parametrize("cells", [4, 40])
@pytest.mark.parametrize("mu", [1e-12, 1e-4, 0.3, 5.0, 400.0])
def test_cells_around_an_axis_have_legendre_functions(cells: int, mu: float) -> None:
    """u in cell i, for a unit of flow by angle into cell j >= i, is P_i(x) Q_j(x) / a with x = 1 + mu/2."""
    from scipy.special import eval_legendre, lqn

    ladder = Ladder.of(Axis.placed(Cells(H * np.arange(cells + 1), FREE, power=1)), A, np.array([mu * A / H**2]))
    x, few = 1.0 + mu / 2.0, 4
    # By recurrence upwards Q loses all digits; its first values do not.
    q = (np.log1p(2.0 / (mu / 2.0)) / 2.0, 0.0) if mu < 1e-3 else lqn(few, x)[0]
    p = eval_legendre(np.arange(few), x)
    np.testing.assert_allclose(ladder.column(0)[:, 0], p[:1] * q[0] / A, rtol=1e-12)
    if mu >= 1e-3:
        for j in range(min(few, cells - 1)):
            np.testing.assert_allclose(ladder.column(j)[:, 0], p[: j + 1] * q[j] / A, rtol=1e-11 * max(1.0, mu**j))


@pytest.mark.parametrize("start", [0.0, 0.7])
def test_a_radius_from_which_nothing_decays_has_the_logarithm(start: float) -> None:
    """Differences by the resistance of links, and far away -ln(r) / a."""
    marks = start + H * np.arange(400.0)
    ladder = Ladder.of(Axis.placed(Nodes(marks, FREE, power=1)), A, np.zeros(1))
    alone = ladder.alone[:, 0]
    np.testing.assert_allclose(alone[:-1] - alone[1:], H / (A * (marks[:-2] + H / 2.0)), rtol=1e-11)
    # ψ(ρ + ½) is ln ρ + 1/24ρ² + O(ρ⁻⁴)
    rho = marks[-2] / H
    assert alone[-1] == pytest.approx(-(math.log(marks[-2]) + 1.0 / (24.0 * rho**2)) / A, abs=1.0 / rho**4)
    assert (ladder.passed[:-1] == 1.0).all()


def test_a_ball_has_the_resistance_of_the_space_around_it() -> None:
    """π² / 2 over a h, of the links at the odd halves of spacings; with a decay a continued fraction."""
    ladder = Ladder.of(Axis.placed(Nodes(H * np.arange(9.0), FREE, power=2)), A, np.zeros(1))
    assert ladder.alone[0, 0] == pytest.approx(math.pi**2 / (2.0 * A * H), rel=1e-12)
    c, found = 0.2, 0.0
    ladder = Ladder.of(Axis.placed(Nodes(H * np.arange(9.0), FREE, power=2)), A, np.array([c]))
    for node in range(3000, 0, -1):
        found += c * H**3 * (node * node + 1.0 / 12.0)
        link = A * H * (node - 0.5) ** 2
        found *= link / (found + link)
    assert 1.0 / ladder.alone[0, 0] == pytest.approx(found + c * H**3 / 24.0, rel=1e-13)


def test_sums_are_those_of_columns() -> None:
    rest = np.geomspace(1e-6, 1e3, 30)
    ladder = Ladder.of(Axis.placed(Nodes(0.2 + H * np.arange(81.0), FREE, power=1)), A, rest)
    weights = np.random.default_rng(3).standard_normal((2, rest.size))
    found = ladder.sums(79, weights)
    np.testing.assert_array_equal(found, found.swapaxes(1, 2))
    for node in (0, 23, 24, 50, 78):
        expected = np.einsum("sq,nq->sn", weights, ladder.column(node))
        np.testing.assert_allclose(found[:, : node + 1, node], expected, rtol=1e-12)


@pytest.mark.parametrize("reach", [5, 300])
def test_waves_integrate_a_logarithm_for_all_distances(reach: int) -> None:
    """The mean of −ln(2 sin(θ/2)) cos nθ is 1/2n, and 0 for n = 0; without a logarithm that of 1/(cosh s − cos θ)."""
    n = np.arange(reach + 1)
    angles, weights = waves(reach, 0.0)
    found = (weights * -np.log(2.0 * np.sin(angles / 2.0))) @ np.cos(np.outer(angles, n))
    np.testing.assert_allclose(found, np.append(0.0, 0.5 / n[1:]), rtol=0, atol=1e-14)
    for near in (1e-3, 0.5, 6.0):
        angles, weights = waves(reach, near)
        smooth = math.sinh(near) / (2.0 * math.sinh(near / 2.0) ** 2 + 2.0 * np.sin(angles / 2.0) ** 2)
        np.testing.assert_allclose(
            (weights * smooth) @ np.cos(np.outer(angles, n)), np.exp(-near * n), rtol=0, atol=1e-13
        )
