# SPDX-License-Identifier: MIT
"""The transforms of Green's functions that end, against the integrals that they are."""

import math

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import j0, k0

from poisson.discrete.free_green import spread, transform

END = 1.7

WAVES = {
    1: lambda k, r: 2.0 * np.cos(k * r),
    2: lambda k, r: 2.0 * math.pi * r * j0(k * r),
    3: lambda k, r: 4.0 * math.pi * r * r * np.sinc(k * r / math.pi),
}
FREE = {1: lambda r: -r / 2.0, 2: lambda r: -math.log(r) / (2.0 * math.pi), 3: lambda r: 1.0 / (4.0 * math.pi * r)}
SCREENED = {
    1: lambda kappa, r: math.exp(-kappa * r) / (2.0 * kappa),
    2: lambda kappa, r: k0(kappa * r) / (2.0 * math.pi),
    3: lambda kappa, r: math.exp(-kappa * r) / (4.0 * math.pi * r),
}


@pytest.mark.parametrize("dimension", [1, 2, 3])
def test_the_transform_is_the_integral_up_to_the_end(dimension: int) -> None:
    """Without screening, with little of it, where a series takes the place of K₁, and with much; also at k = 0."""
    k, kappas = np.array([0.0, 0.3, 2.0, 9.0]), np.array([0.0, 1e-6, 0.05, 0.29, 0.3, 2.0, 30.0])
    found = transform(k[:, np.newaxis] ** 2, kappas**2, dimension, END)
    assert found.shape == (4, 7)
    for row, number in zip(found, k, strict=True):
        for value, kappa in zip(row, kappas, strict=True):

            def function(r: float, number: float = number, kappa: float = kappa) -> float:
                green = FREE[dimension](r) if kappa == 0.0 else SCREENED[dimension](kappa, r)
                return float(WAVES[dimension](number, r)) * float(green)

            expected = quad(function, 0.0, END, epsabs=1e-13, epsrel=1e-12, limit=200)[0]
            assert value == pytest.approx(expected, rel=2e-9, abs=1e-12)


def test_nothing_is_lost_where_screening_is_weak() -> None:
    """At k = 0 terms of the size of 1/κ² cancel."""
    kappa = 1e-9
    plane = END**2 * (0.25 - (math.log(kappa * END / 2.0) + np.euler_gamma) / 2.0)
    assert float(transform(np.zeros(1), np.array([kappa**2]), 2, END)[0]) == pytest.approx(plane, rel=1e-13)
    assert float(transform(np.zeros(1), np.array([kappa**2]), 3, END)[0]) == pytest.approx(END**2 / 2.0, rel=1e-8)
    line = END / kappa - END**2 / 2.0
    assert float(transform(np.zeros(1), np.array([kappa**2]), 1, END)[0]) == pytest.approx(line, rel=1e-13)


@pytest.mark.parametrize("order", [2, 4, 6, 8])
def test_a_charge_that_is_spread_has_no_moments_below_the_order(order: int) -> None:
    q = np.array([0.0, 1e-2, 2e-2])
    moments = 1.0 - spread(q, order)
    assert moments[0] == 0.0
    assert np.log2(moments[2] / moments[1]) == pytest.approx(order / 2, abs=0.02)
    assert moments[1] == pytest.approx(q[1] ** (order // 2) / math.factorial(order // 2), rel=0.02)
