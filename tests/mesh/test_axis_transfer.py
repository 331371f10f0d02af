# SPDX-License-Identifier: MIT
"""The tables that take values between a grid and a coarser one."""

import itertools

import numpy as np
import pytest
from support.axes import ALPHA, D, Example, N, R, examples, fixed_nodes
from support.operators import AXIS_RULES, name_of, operator

from poisson.discrete.operator import Operator
from poisson.discrete.transfer import Interpolation, Transfer
from poisson.mesh.axis import Axis
from poisson.mesh.axis_transfer import AxisTransfer, Table, axis_transfer, cubic
from poisson.mesh.boundary import Kind, Rule
from poisson.mesh.lattice import Lattice
from poisson.mesh.placement import Cells

Pair = tuple[Rule, Rule]


def tables(fine: int, coarse: int, rules: Pair) -> AxisTransfer:
    both = (*rules, *rules)
    return Transfer(operator((fine, fine), both), operator((coarse, coarse), both)).axes[0]


def as_matrix(table: Table, columns: int) -> np.ndarray:
    index, weight = table
    matrix = np.zeros((len(index), columns))
    for row, (nodes, parts) in enumerate(zip(index, weight, strict=True)):
        np.add.at(matrix[row], nodes, parts)
    return matrix


def both_ways(fine: int, coarse: int, rules: Pair) -> tuple[np.ndarray, np.ndarray]:
    """P and R."""
    table = tables(fine, coarse, rules)
    return as_matrix(table.prolong, coarse), as_matrix(table.restrict, fine)


def widths(nodes: int, rules: Pair) -> np.ndarray:
    values = np.ones(nodes)
    values[[0, -1]] = [0.5 if rule is Rule.MIRROR else 1.0 for rule in rules]
    return values


@pytest.mark.parametrize("rules", AXIS_RULES, ids=name_of)
def test_every_pair_of_sizes(rules: Pair) -> None:
    wraps = rules[0] is Rule.WRAP
    for coarse in range(3, 20):
        for fine in range(coarse, 2 * coarse + 1):
            p, r = both_ways(fine, coarse, rules)
            ends = 0 if wraps else 1
            x_fine, x_coarse = np.arange(fine) / (fine - ends), np.arange(coarse) / (coarse - ends)
            # A linear function is kept, but for the jump across a period.
            inside = x_fine <= x_coarse[-1]
            np.testing.assert_allclose((p @ x_coarse)[inside], x_fine[inside], rtol=0, atol=1e-14)
            np.testing.assert_allclose(p.sum(axis=1), 1.0, rtol=1e-14)
            ratio = (coarse - ends) / (fine - ends)
            adjoint = ratio * (widths(fine, rules)[:, np.newaxis] * p).T / widths(coarse, rules)[:, np.newaxis]
            np.testing.assert_allclose(r, adjoint, rtol=0, atol=1e-14)
            # Coefficients that are the same everywhere stay so: means of links beside and behind one another.
            table = tables(fine, coarse, rules)
            for means in (table.mean[1], table.series[1]):
                np.testing.assert_allclose(means.sum(axis=1), 1.0, rtol=1e-14)


def test_where_the_intervals_halve_restriction_is_full_weighting() -> None:
    _, r = both_ways(9, 5, (Rule.MIRROR, Rule.MIRROR))
    np.testing.assert_array_equal(r[2], [0, 0, 0, 0.25, 0.5, 0.25, 0, 0, 0])
    np.testing.assert_array_equal(r[0], [0.5, 0.5, 0, 0, 0, 0, 0, 0, 0])
    _, r = both_ways(8, 4, (Rule.WRAP, Rule.WRAP))
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


# ---- tabulated axes

COARSENED = [given for given in examples(8, 11, 12) if given.axis.coarser is not None]
each_example = pytest.mark.parametrize("given", COARSENED, ids=lambda given: given.name)


def coarse_of(given: Example) -> Axis:
    assert given.axis.coarser is not None
    return given.axis.coarser


@each_example
def test_interpolation_between_tabulated_axes_is_linear_in_place(given: Example) -> None:
    fine, coarse = given.axis, coarse_of(given)
    p = as_matrix(axis_transfer(fine, coarse).prolong, coarse.nodes)
    x, own = fine.coordinates, coarse.coordinates
    period = fine.spacing * fine.intervals if fine.wraps else None
    inside = np.full(fine.nodes, True) if fine.wraps else (own[0] <= x) & (x <= own[-1])
    for column in range(coarse.nodes):
        hat = np.eye(coarse.nodes)[column]
        np.testing.assert_allclose(p[inside, column], np.interp(x, own, hat, period=period)[inside], rtol=0, atol=1e-13)
    if fine.fixed == 0 and not fine.holds:
        np.testing.assert_allclose(p.sum(axis=1), 1.0, rtol=1e-13)


@pytest.mark.parametrize(
    ("end", "beyond"), [(D, 0.5), (N, 1.0), (R, (1.0 + ALPHA[0] / 16) / (1.0 + ALPHA[0] / 8))], ids=["D", "N", "R"]
)
def test_beside_a_wall_u_goes_on_as_its_condition_says(end: Kind, beyond: float) -> None:
    """Cells of 1/8: their first centre lies at 1/16, that of the coarser axis at 1/8, and u is linear from the wall."""
    fine = Axis.placed(Cells(np.linspace(0.0, 1.0, 9), (end, N), (ALPHA[0] if end is R else 0.0, 0.0)))
    assert fine.coarser is not None
    p = as_matrix(axis_transfer(fine, fine.coarser).prolong, 4)
    assert p[0, 0] == pytest.approx(beyond, rel=1e-13)
    np.testing.assert_array_equal(p[0, 1:], 0.0)
    np.testing.assert_allclose(p[1, :2], [0.75, 0.25], rtol=1e-13)
    assert p[7, 3] == 1.0


@each_example
def test_restriction_is_the_adjoint_in_the_control_widths(given: Example) -> None:
    fine, coarse = given.axis, coarse_of(given)
    tables = axis_transfer(fine, coarse)
    p, r = as_matrix(tables.prolong, coarse.nodes), as_matrix(tables.restrict, fine.nodes)
    widths = coarse.widths * coarse.spacing
    np.testing.assert_allclose(widths[:, None] * r, (given.widths[:, None] * p).T, rtol=0, atol=1e-14)
    mean, series = as_matrix(tables.mean, fine.nodes), as_matrix(tables.series, fine.nodes)
    np.testing.assert_allclose(mean.sum(axis=1), 1.0, rtol=1e-13)
    np.testing.assert_allclose(series.sum(axis=1), 1.0, rtol=1e-13)


@each_example
def test_links_keep_the_integral_between_the_coarse_nodes(given: Example) -> None:
    fine, coarse = given.axis, coarse_of(given)
    links = np.random.default_rng(1).uniform(1.0, 2.0, fine.nodes)
    found = as_matrix(axis_transfer(fine, coarse).series, fine.nodes) @ links
    x, own = fine.coordinates, coarse.coordinates
    period = fine.spacing * fine.intervals
    if fine.wraps:
        total = float(found @ np.diff(own, append=own[0] + period))
        expected = float(links @ np.diff(x, append=x[0] + period))
        assert total == pytest.approx(expected, rel=1e-12)
        return
    assert found[-1] == found[-2]
    antiderivative = np.concatenate([[0.0], np.cumsum(links[:-1] * np.diff(x))])
    expected_links = np.diff(np.interp(own, x, antiderivative)) / np.diff(own)
    np.testing.assert_allclose(found[:-1], expected_links, rtol=1e-12)


@each_example
def test_cubics_between_tabulated_axes_are_exact(given: Example) -> None:
    """And where the axis wraps they are near a wave, on stretched nodes too."""
    fine, coarse = given.axis, coarse_of(given)
    for source, target in ((fine, coarse), (coarse, fine)):
        matrix = as_matrix(cubic(source, target), source.nodes)
        np.testing.assert_allclose(matrix.sum(axis=1), 1.0, rtol=1e-12)
        degree = min(3, source.nodes - 1)
        if not source.wraps:
            for power in range(1, degree + 1):
                found = matrix @ source.coordinates**power
                np.testing.assert_allclose(found, target.coordinates**power, rtol=0, atol=1e-11)
            continue
        wave = 2 * np.pi / (source.spacing * source.intervals)
        error = matrix @ np.sin(wave * source.coordinates) - np.sin(wave * target.coordinates)
        assert np.abs(error).max() < (0.25 if source.nodes < 6 else 0.06)


@each_example
def test_a_coarse_correction_takes_away_the_lowest_mode(given: Example) -> None:
    """1 − P A_c⁻¹ R A on the mode of the lowest eigenvalue that is not zero: the axes of a cycle belong together."""
    fine, coarse = given.axis, coarse_of(given)
    if fine.nodes < 11 or coarse.modes < 4:
        return
    tables = axis_transfer(fine, coarse)
    p, r = as_matrix(tables.prolong, coarse.nodes), as_matrix(tables.restrict, fine.nodes)
    values, columns, rows = coarse.eigenvectors
    inverse = columns @ np.diag([1.0 / value if value else 0.0 for value in values]) @ rows * coarse.spacing**2
    values, columns, _ = fine.eigenvectors
    number = int(values[0] == 0.0)
    mode, lowest = columns[:, number], values[number] / fine.spacing**2
    left = mode - p @ inverse @ (r @ (lowest * mode))
    left[fixed_nodes(fine)] = 0.0
    left -= (fine.widths @ left / fine.widths.sum()) if number else 0.0
    assert np.abs(left).max() < 0.3 * np.abs(mode).max()


# ---- parts

WHOLE = [given.axis for given in examples(12, 13)] + [Axis(n, 1.0, rules) for n in (12, 13) for rules in AXIS_RULES]


@pytest.mark.parametrize("halo", [2, 3, 4])
@pytest.mark.parametrize("cuts", [(0, 6), (0, 4, 8), (0, 3, 6, 9)])
def test_the_tables_of_parts_are_those_of_the_whole(cuts: tuple[int, ...], halo: int) -> None:
    random = np.random.default_rng(4)
    for fine in WHOLE:
        coarse = fine.coarser
        assert coarse is not None
        if halo == 2 and fine.intervals % 2:
            continue  # where intervals do not halve, a coarse node gathers from farther away
        on_fine, on_coarse = random.uniform(-1, 1, fine.nodes), random.uniform(-1, 1, coarse.nodes)
        for start, stop in itertools.pairwise((*cuts, fine.nodes)):
            part = fine.part(start, stop, halo)
            coarse_part = part.coarser
            assert coarse_part is not None
            own, whole = axis_transfer(part, coarse_part), axis_transfer(fine, coarse)
            for table, expected, source, target, values in (
                (own.prolong, whole.prolong, coarse_part, part, on_coarse),
                (own.restrict, whole.restrict, part, coarse_part, on_fine),
                (own.mean, whole.mean, part, coarse_part, on_fine),
                *(((cubic(coarse_part, part), cubic(coarse, fine), coarse_part, part, on_coarse),) if halo > 2 else ()),
                *(((own.series, whole.series, part, coarse_part, on_fine),) if halo > 2 + fine.intervals % 2 else ()),
            ):
                found = np.sum(table[1] * values[source.index][table[0]], axis=1)
                of_whole = np.sum(expected[1] * values[expected[0]], axis=1)[target.index]
                np.testing.assert_allclose(found[target.owned], of_whole[target.owned], rtol=0, atol=1e-14)
                known = np.any(table[1] != 0.0, axis=1)
                np.testing.assert_allclose(found[known], of_whole[known], rtol=0, atol=1e-14)
                needed = set(table[0][target.owned][table[1][target.owned] != 0.0])
                for index, weight in zip(table[0][known], table[1][known], strict=True):
                    # Elsewhere there may be NaN.
                    assert set(index[weight == 0.0]) <= needed | set(index[weight != 0.0])


def test_a_march_through_a_part_goes_on_by_one_place() -> None:
    """The entries without a weight of a node that both grids have are those of its neighbours."""
    part = Axis(65, 1.0, (Rule.FIXED, Rule.FIXED)).part(16, 48, 6)
    assert part.coarser is not None
    index = cubic(part.coarser, part)[0][part.owned][2:-2]
    assert np.all(np.diff(index, axis=0) == np.diff(index[:, 0])[:, np.newaxis])
    assert set(np.diff(index[:, 0])) == {0, 1}


def test_a_halo_that_is_too_narrow_is_refused() -> None:
    fine = Axis(20, 1.0, (Rule.FIXED, Rule.FIXED))
    part = fine.part(5, 10, 1)
    assert fine.coarser is not None and part.coarser is not None
    with pytest.raises(ValueError, match="a halo of 1 nodes is too narrow"):
        _ = axis_transfer(part, part.coarser).restrict
    with pytest.raises(ValueError, match="one of the axes is divided and the other is not"):
        _ = axis_transfer(part, fine.coarser).restrict


def test_an_axis_that_collapses_does_not_halve() -> None:
    """From a mirrored axis of two intervals to one node, whose one interval wraps; two nodes that wrap do halve."""
    found = []
    for fine in (Axis(3, 0.5, (Rule.MIRROR, Rule.MIRROR)), Axis(2, 0.5, (Rule.WRAP, Rule.WRAP))):
        beside = Axis(9, 0.1, (Rule.FIXED, Rule.FIXED)), Axis(5, 0.2, (Rule.FIXED, Rule.FIXED))
        grids = (Operator(Lattice((axis, line))) for axis, line in zip((fine, Axis.single()), beside, strict=True))
        found.append(Transfer(*grids).halves)
    assert found == [None, (True, True)]


@pytest.mark.parametrize("rules", AXIS_RULES, ids=name_of)
def test_cubics_go_through_the_four_nearest_nodes(rules: Pair) -> None:
    """Two on each side; near a face that does not wrap as many as there are."""
    wraps = rules[0] is Rule.WRAP
    source, target = 9, 18 if wraps else 17
    index, weight = cubic(Axis(source, 0.2, rules), Axis(target, 0.1, rules))
    for node in range(target):
        below = min(node // 2, source - 1 if wraps else source - 2)
        first = below - 1 if wraps else min(max(below - 1, 0), source - 4)
        assert index[node].tolist() == [(first + n) % source for n in range(4)]
    np.testing.assert_allclose(weight.sum(axis=1), 1.0, rtol=1e-14)
