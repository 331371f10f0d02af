"""The tables that take values between a grid and a coarser one.

Covers poisson.discrete.transfer.
"""

from __future__ import annotations

import numpy as np
import pytest
from support.operators import AXIS_RULES, name_of, operator

from poisson.discrete.transfer import Interpolation, Transfer
from poisson.mesh.boundary import Rule
from poisson.mesh.transfer import AxisTransfer

Pair = tuple[Rule, Rule]


def tables(fine: int, coarse: int, rules: Pair) -> AxisTransfer:
    both = (*rules, *rules)
    return Transfer(operator((fine, fine), both), operator((coarse, coarse), both)).axes[0]


def dense(table: AxisTransfer, fine: int, coarse: int) -> tuple[np.ndarray, np.ndarray]:
    """P and R as matrices."""
    p, r = np.zeros((fine, coarse)), np.zeros((coarse, fine))
    for row in range(fine):
        np.add.at(p[row], table.prolong_index[row], table.prolong_weight[row])
    for row in range(coarse):
        np.add.at(r[row], table.restrict_index[row], table.restrict_weight[row])
    return p, r


def weights(nodes: int, rules: Pair) -> np.ndarray:
    values = np.ones(nodes)
    values[[0, -1]] = [0.5 if rule is Rule.MIRROR else 1.0 for rule in rules]
    return values


@pytest.mark.parametrize("rules", AXIS_RULES, ids=name_of)
def test_every_pair_of_sizes(rules: Pair) -> None:
    wraps = rules[0] is Rule.WRAP
    for coarse in range(3, 20):
        for fine in range(coarse, 2 * coarse + 1):
            p, r = dense(tables(fine, coarse, rules), fine, coarse)
            ends = 0 if wraps else 1
            x_fine, x_coarse = np.arange(fine) / (fine - ends), np.arange(coarse) / (coarse - ends)
            # A linear function is kept, but for the jump across a period.
            inside = x_fine <= x_coarse[-1]
            np.testing.assert_allclose((p @ x_coarse)[inside], x_fine[inside], rtol=0, atol=1e-14)
            np.testing.assert_allclose(p.sum(axis=1), 1.0, rtol=1e-14)
            ratio = (coarse - ends) / (fine - ends)
            adjoint = ratio * (weights(fine, rules)[:, np.newaxis] * p).T / weights(coarse, rules)[:, np.newaxis]
            np.testing.assert_allclose(r, adjoint, rtol=0, atol=1e-14)
            # Coefficients that are the same everywhere stay so: means of links beside and behind one another.
            table = tables(fine, coarse, rules)
            for means in (table.mean_weight, table.series_weight):
                np.testing.assert_allclose(means.sum(axis=1), 1.0, rtol=1e-14)


def test_where_the_intervals_halve_restriction_is_full_weighting() -> None:
    _, r = dense(tables(9, 5, (Rule.MIRROR, Rule.MIRROR)), 9, 5)
    np.testing.assert_array_equal(r[2], [0, 0, 0, 0.25, 0.5, 0.25, 0, 0, 0])
    np.testing.assert_array_equal(r[0], [0.5, 0.5, 0, 0, 0, 0, 0, 0, 0])
    _, r = dense(tables(8, 4, (Rule.WRAP, Rule.WRAP)), 8, 4)
    np.testing.assert_array_equal(r[0], [0.5, 0.25, 0, 0, 0, 0, 0, 0.25])


def test_grids_that_do_not_belong_together() -> None:
    walls, mirrors = (Rule.FIXED,) * 4, (Rule.MIRROR,) * 4
    with pytest.raises(ValueError, match="the grids differ in the rules of their faces"):
        Transfer(operator((9, 9), walls), operator((5, 5), mirrors))
    with pytest.raises(ValueError, match="11 nodes do not coarsen to 5"):
        Transfer(operator((9, 11), walls), operator((5, 5), walls))
    with pytest.raises(ValueError, match="5 nodes do not coarsen to 9"):
        Transfer(operator((5, 5), walls), operator((9, 5), walls))
    with pytest.raises(ValueError, match="5 nodes do not collapse to one"):
        Interpolation(operator((5, 5), mirrors), operator((1, 5), mirrors))
