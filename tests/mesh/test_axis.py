# SPDX-License-Identifier: MIT
"""Axes: their operator, its spectrum, the coarser axis and parts, against matrices and closed forms."""

import itertools
import math
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.axes import ENDS, D, Example, N, P, R, examples, fixed_nodes, marks
from support.operators import AXIS_RULES, name_of

from poisson.discrete import reference
from poisson.mesh import spectrum
from poisson.mesh.axis import Axis, array_axis
from poisson.mesh.boundary import Kind, Rule
from poisson.mesh.placement import Cells, Nodes
from poisson.mesh.spectrum import MOST_NODES_DENSE

F, M, W, H = Rule.FIXED, Rule.MIRROR, Rule.WRAP, Rule.HALO
KINDS = {F: D, M: N, W: P}
EXAMPLES = examples(3, 4, 8, 11)

each_example = pytest.mark.parametrize("given", EXAMPLES, ids=lambda given: given.name)
each_pair = pytest.mark.parametrize("rules", AXIS_RULES, ids=name_of)


def test_the_place_of_an_axis_in_an_array() -> None:
    assert [array_axis(axis, 3) for axis in range(3)] == [2, 1, 0]
    assert array_axis(0, 1) == 0


# ---- uniform axes
def test_the_coordinates_of_the_ends_are_those_given() -> None:
    """Not −0.3 + (0.1 + 0.3), which is another number."""
    assert Axis(9, 0.05, (F, F), (-0.3, 0.1)).coordinates[[0, -1]].tolist() == [-0.3, 0.1]


@each_example
def test_a_fixed_node_is_linked_beyond_its_face_as_within(given: Example) -> None:
    axis = given.axis
    lower, upper, _ = axis.couplings
    for end, (one, other) in zip((0, -1), ((lower, upper), (upper, lower)), strict=True):
        assert axis.rules[end] is not F or one[end] == other[end] > 0


@each_pair
def test_a_uniform_axis_has_the_second_difference(rules: tuple[Rule, Rule]) -> None:
    for nodes in (3, 4, 9, 12):
        axis = Axis(nodes, 0.3, rules)
        expected = reference._second_difference(nodes, rules).toarray()
        np.testing.assert_array_equal(axis.matrix, expected)
        assert (axis.diagonal, axis.norm) == (2.0, 4.0)
        assert (axis.tabulated, axis.wraps, axis.holds) == (False, rules[0] is W, F in rules)
        np.testing.assert_array_equal(axis.widths[1:-1], 1.0)
        assert axis.widths[[0, -1]].tolist() == [0.5 if rule is M else 1.0 for rule in rules]


@each_pair
@pytest.mark.parametrize("nodes", [4, 5, 12, 33])
def test_the_spectrum_of_a_uniform_axis(rules: tuple[Rule, Rule], nodes: int) -> None:
    axis = Axis(nodes, 0.3, rules)
    matrix = axis.matrix[axis.free, axis.free]
    expected = np.sort(np.linalg.eigvals(matrix).real)
    assert axis.modes == expected.size
    np.testing.assert_allclose(np.sort(axis.eigenvalues), expected, rtol=0, atol=1e-13)
    np.testing.assert_allclose(axis.extremes, [*expected[:2], expected[-1]], rtol=1e-10, atol=1e-13)
    if rules[0] is not W:
        assert np.all(np.diff(axis.eigenvalues) > 0.0)
    require_diagonal(axis, axis.matrix)


def test_nodes_and_spacing_of_an_interval() -> None:
    axis = Axis.between(-1.0, 2.0, 7, (W, W))
    assert (axis.spacing, axis.intervals, axis.ends) == (3.0 / 7, 7, (-1.0, 2.0))
    np.testing.assert_allclose(axis.coordinates, [-1 + 3 * n / 7 for n in range(7)], rtol=1e-15)
    axis = Axis.between(0.1, 0.7, 97, (F, M))
    assert (axis.intervals, axis.coordinates[0], axis.coordinates[-1]) == (96, 0.1, 0.7)
    np.testing.assert_array_equal(Axis(5, 0.25, (M, M)).coordinates, [0.0, 0.25, 0.5, 0.75, 1.0])


def test_a_single_node_has_no_coupling() -> None:
    axis = Axis.single()
    assert (axis.nodes, axis.spacing, axis.wraps, axis.holds, axis.modes) == (1, math.inf, True, False, 1)
    assert axis.extremes[0] == 0.0
    assert axis.coarser is None
    np.testing.assert_array_equal(axis.matrix, [[0.0]])


@each_pair
def test_the_coarser_axis_of_a_uniform_one(rules: tuple[Rule, Rule]) -> None:
    sizes = {}
    for nodes in range(3, 14):
        axis = Axis.between(-1.0, 2.0, nodes, rules)
        coarse = axis.coarser
        sizes[nodes] = None if coarse is None else coarse.nodes
        if coarse is not None:
            assert (coarse.rules, coarse.ends) == (rules, (-1.0, 2.0))
            assert coarse.spacing == pytest.approx(3.0 / coarse.intervals, rel=1e-15)
    if rules[0] is W:
        assert sizes == {3: None, 4: None, 5: 3, 6: 3, 7: 4, 8: 4, 9: 5, 10: 5, 11: 6, 12: 6, 13: 7}
    else:
        assert sizes == {3: None, 4: 3, 5: 3, 6: 4, 7: 4, 8: 5, 9: 5, 10: 6, 11: 6, 12: 7, 13: 7}


def test_a_scaled_axis() -> None:
    axis = Axis.between(-1.0, 2.0, 7, (F, M))
    assert axis.scaled(2.0) == Axis(7, 1.0, (F, M), (-2.0, 4.0))
    assert axis.part(2, 4, 1).scaled(2.0) == axis.scaled(2.0).part(2, 4, 1)
    for given in EXAMPLES:
        scaled = given.axis.scaled(4.0)
        for before, after in zip(given.axis.couplings, scaled.couplings, strict=True):
            np.testing.assert_array_equal(after, before)
        np.testing.assert_array_equal(scaled.coordinates, 4.0 * given.axis.coordinates)


@pytest.mark.parametrize("rules", [(M, M), (F, M), (M, F)], ids=name_of)
def test_robin_terms_on_a_uniform_axis(rules: tuple[Rule, Rule]) -> None:
    absorbed = tuple(value if rule is M else 0.0 for value, rule in zip((0.4, 1.5), rules, strict=True))
    axis = Axis(6, 0.2, rules)
    expected = axis.matrix + np.diag([2.0 * absorbed[0], *(0.0,) * 4, 2.0 * absorbed[1]])
    found = axis.absorbing(*absorbed)
    np.testing.assert_allclose(found.matrix[found.free], expected[axis.free], rtol=0, atol=1e-13)
    assert found.extremes[0] == pytest.approx(np.linalg.eigvals(expected[axis.free, axis.free]).real.min(), rel=1e-12)


# ---- tabulated axes
@each_example
def test_a_tabulated_axis_balances_its_control_widths(given: Example) -> None:
    axis = given.axis
    np.testing.assert_allclose(axis.widths * axis.spacing, given.widths, rtol=1e-13)
    matrix = axis.matrix / axis.spacing**2
    matrix[fixed_nodes(axis)] = 0.0
    np.testing.assert_allclose(matrix, given.matrix, rtol=1e-12, atol=1e-12)
    diagonal = np.asarray(axis.diagonal)[axis.free] / axis.spacing**2
    np.testing.assert_allclose(diagonal, np.diagonal(given.matrix)[axis.free], rtol=1e-12)
    assert axis.norm / axis.spacing**2 >= np.abs(given.matrix).sum(axis=1).max() * (1 - 1e-12)
    # Every node has an equation that can be divided by, fixed ones too.
    assert np.all(np.asarray(axis.diagonal) > 0.0)
    assert axis.tabulated
    ones = given.matrix[axis.free] @ np.ones(axis.nodes)
    assert axis.holds == bool(axis.fixed or np.abs(ones).max() > 1e-10)


@each_example
def test_a_tabulated_axis_is_symmetric_in_its_control_widths(given: Example) -> None:
    free = given.axis.free
    weighted = (given.axis.widths[:, None] * given.axis.matrix)[free, free]
    np.testing.assert_allclose(weighted, weighted.T, rtol=0, atol=1e-12)


@pytest.mark.parametrize("kinds", [(D, D), (D, N), (N, N), (P, P)])
def test_the_extremes_of_a_long_axis(kinds: tuple[Kind, Kind], monkeypatch: pytest.MonkeyPatch) -> None:
    """The extremes are those of all eigenvalues, which are not computed for them."""
    axis = Axis.placed(Nodes(np.cumsum(np.random.default_rng(7).uniform(0.2, 1.0, 700)), kinds))
    values = np.sort(axis.eigenvalues)
    found = Axis.placed(axis.placement)
    monkeypatch.setattr(spectrum, "eigenvalues", None)
    np.testing.assert_allclose(found.extremes, values[[0, 1, -1]], rtol=1e-11, atol=1e-14)


def require_diagonal(axis: Axis, matrix: np.ndarray) -> None:
    """That the eigenvectors of an axis make a matrix diagonal, which is that of the axis."""
    values, columns, rows = axis.eigenvectors
    assert columns.shape == (axis.nodes, axis.modes)
    np.testing.assert_allclose(rows @ columns, np.eye(axis.modes), rtol=0, atol=1e-11)
    free = matrix[axis.free, axis.free]
    np.testing.assert_allclose((columns * values)[axis.free] @ rows[:, axis.free], free, rtol=0, atol=1e-10)
    np.testing.assert_array_equal(columns[fixed_nodes(axis)], 0.0)
    np.testing.assert_array_equal(rows[:, fixed_nodes(axis)], 0.0)


@each_example
def test_the_spectrum_of_a_tabulated_axis(given: Example) -> None:
    axis = given.axis
    matrix = given.matrix * axis.spacing**2
    expected = np.sort(np.linalg.eigvals(matrix[axis.free, axis.free]).real)
    np.testing.assert_allclose(axis.eigenvalues, expected, rtol=0, atol=1e-11)
    np.testing.assert_allclose(
        axis.extremes, [expected[0], expected[min(1, expected.size - 1)], expected[-1]], rtol=0, atol=1e-11
    )
    if not axis.holds:
        assert axis.extremes[0] == axis.eigenvectors[0][0] == 0.0
    require_diagonal(axis, matrix)


def test_long_axes_have_tridiagonal_spectra() -> None:
    nodes = MOST_NODES_DENSE + 4
    for axis in (
        Axis(nodes, 1.0, (M, F)),
        Axis(nodes, 1.0, (M, M)),
        Axis.placed(Nodes(np.linspace(0.0, 1.0, nodes) ** 1.2, (N, D))),
        Axis.placed(Cells(np.linspace(0.0, 1.0, nodes + 1) ** 1.2, (D, R), (0.0, 3.0))),
    ):
        require_diagonal(axis, axis.matrix)
        np.testing.assert_allclose(np.sort(axis.eigenvalues), axis.eigenvectors[0], rtol=1e-9, atol=1e-13)


def test_equal_cells_have_the_spectra_of_the_second_transforms() -> None:
    """Sines and cosines of whole and half waves over n cells: k = 1 … n, 0 … n − 1, and odd halves between."""
    for ends, modes in (((D, D), range(1, 9)), ((N, N), range(8)), ((D, N), np.arange(8) + 0.5)):
        axis = Axis.placed(Cells(np.linspace(0.0, 2.0, 9), ends))
        expected = [4.0 * math.sin(k * math.pi / 16) ** 2 for k in modes]
        np.testing.assert_allclose(axis.eigenvalues, expected, rtol=0, atol=1e-13)
        assert axis.spacing == 0.25


@each_pair
def test_nodes_at_equal_distances_are_a_uniform_axis(rules: tuple[Rule, Rule]) -> None:
    kinds = KINDS[rules[0]], KINDS[rules[1]]
    for nodes in (4, 9, 10):
        plain = Axis.between(-0.5, 1.5, nodes, rules)
        tabulated = Axis.placed(Nodes(np.linspace(-0.5, 1.5, plain.intervals + 1), kinds))
        assert tabulated.spacing == pytest.approx(plain.spacing, rel=1e-15)
        np.testing.assert_allclose(tabulated.coordinates, plain.coordinates, rtol=0, atol=1e-15)
        np.testing.assert_allclose(tabulated.widths, plain.widths, rtol=1e-13)
        np.testing.assert_allclose(tabulated.matrix[plain.free], plain.matrix[plain.free], rtol=0, atol=1e-12)
        np.testing.assert_allclose(tabulated.eigenvalues, np.sort(plain.eigenvalues), rtol=0, atol=1e-13)
        coarse, expected = tabulated.coarser, plain.coarser
        assert (coarse is None) == (expected is None)
        if coarse is not None and expected is not None:
            np.testing.assert_allclose(coarse.coordinates, expected.coordinates, rtol=0, atol=1e-15)


@pytest.mark.parametrize("ends", ENDS, ids=lambda ends: "".join(end.name[0] for end in ends))
@pytest.mark.parametrize("kind", [Nodes, Cells])
def test_the_solution_on_smoothly_stretched_nodes_is_of_second_order(
    kind: Callable[..., Any], ends: tuple[Kind, Kind]
) -> None:
    """−u'' + u = f for u = cos 2πx (1 + x(1 − x)²) …, whose boundary data are those that the operator leaves out."""
    errors = []
    for cells in (32, 64):
        place = np.linspace(0.0, 1.0, cells + 1)
        stretched = place + 0.1 * np.sin(2.0 * math.pi * place) / math.pi
        axis = Axis.placed(kind(stretched, ends, tuple(3.0 if end is R else 0.0 for end in ends)))
        x = axis.coordinates
        u, force = exact(ends, x)
        matrix = axis.matrix / axis.spacing**2 + np.eye(axis.nodes)
        free = axis.free
        errors.append(np.abs(np.linalg.solve(matrix[free, free], force[free]) - u[free]).max())
    assert errors[0] / errors[1] > 3.5


def exact(ends: tuple[Kind, Kind], x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """u with zero data at ends of these kinds, and −u'' + u."""
    if ends[0] is P:
        u = np.sin(2 * math.pi * x) + 0.5 * np.cos(4 * math.pi * x)
        return u, 4 * math.pi**2 * np.sin(2 * math.pi * x) + 8 * math.pi**2 * np.cos(4 * math.pi * x) + u
    # A polynomial c0 + c1 x + x³ − … with the two conditions: value, slope, or ∓u' + 3u at each end.
    rows, right = [], []
    for place, end, outward in ((0.0, ends[0], -1.0), (1.0, ends[1], 1.0)):
        part = {D: (1.0, 0.0), N: (0.0, 1.0), R: (3.0, 1.0)}[end]
        basis = np.array([[1.0, 0.0], [place, 1.0], [place**2, 2 * place], [place**4, 4 * place**3]])
        row = basis @ np.array([part[0], outward * part[1]])
        rows.append(row[:3])
        right.append(-row[3])
    a, b, c = np.linalg.lstsq(np.array(rows), np.array(right), rcond=None)[0]
    u = a + b * x + c * x**2 + x**4
    return u, -2 * c - 12 * x**2 + u


@each_example
def test_the_coarser_axis_of_a_tabulated_one(given: Example) -> None:
    axis, coarse = given.axis, given.axis.coarser
    assert axis.placement is not None
    nodes = axis.placement.on_faces
    on_faces = (nodes and not axis.wraps) or axis.fixed == 2
    expected = axis.nodes // 2 + 1 if on_faces else -(-axis.nodes // 2)
    if expected < 3 or expected == axis.nodes:
        assert coarse is None
        return
    assert coarse is not None
    assert (coarse.nodes, coarse.rules) == (expected, axis.rules)
    assert coarse.holds == axis.holds
    if axis.fixed and not nodes:
        fixed = [each.coordinates[fixed_nodes(each)] for each in (axis, coarse)]
        np.testing.assert_allclose(*fixed, rtol=1e-15)
        assert coarse.spacing * coarse.intervals == pytest.approx(axis.spacing * axis.intervals, rel=1e-15)
        return
    assert coarse.ends == axis.ends
    if axis.nodes == 8 and axis.wraps and nodes:
        np.testing.assert_allclose(coarse.coordinates, axis.coordinates[::2], rtol=1e-15)
    if axis.nodes == 8 and not nodes:
        pairs = (axis.widths * axis.spacing).reshape(4, 2).sum(axis=1)
        np.testing.assert_allclose(coarse.widths * coarse.spacing, pairs, rtol=1e-13)
    if axis.nodes == 11 and on_faces:
        np.testing.assert_allclose(coarse.coordinates, axis.coordinates[::2], rtol=1e-15)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Nodes([0.0, 1.0], (D, D)), "an axis of 2 nodes; at least 3 are needed"),
        (lambda: Cells([0.0, 1.0, 2.0], (D, D)), "an axis of 2 cells; at least 3 are needed"),
        (lambda: Nodes([0.0, 1.0, 1.0, 2.0], (D, D)), "1 after 1; the places along an axis must ascend"),
        (lambda: Cells([0.0, 1.0, 3.0, math.inf], (D, D)), "must be finite"),
        (lambda: Nodes(marks(5), (P, N)), "an axis is periodic at both ends or at none"),
        (lambda: Nodes(marks(5), (N, R), (1.0, 1.0)), "alpha = 1.0 on a neumann end; allowed: values >= 0 on a robin"),
        (lambda: Cells(marks(5), (N, R), (0.0, -1.0)), "alpha = -1.0 on a robin end; allowed: values >= 0 on a robin"),
        (lambda: Axis(0, 1.0, (F, F)), "an axis of 0 nodes"),
        (lambda: Axis(5, 1.0, (W, F)), "an axis wraps at both ends or at none"),
    ],
)
def test_wrong_axes(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


# ---- parts
def test_a_part_in_the_middle() -> None:
    whole = Axis.between(0.0, 11.0, 12, (F, M))
    part = whole.part(4, 7, 2)
    assert (part.nodes, part.rules, part.first, part.halo, part.owned) == (7, (H, H), 2, (2, 2), slice(2, 5))
    assert part.whole is part.undivided is whole
    np.testing.assert_array_equal(part.index, [2, 3, 4, 5, 6, 7, 8])
    np.testing.assert_array_equal(part.coordinates, [2, 3, 4, 5, 6, 7, 8])
    np.testing.assert_array_equal(part.widths, [0, 0, 1, 1, 1, 0, 0])
    assert (part.free, part.equations) == (slice(0, 7), slice(1, 6))
    np.testing.assert_array_equal(part.neighbours, [[0, 0, 1, 2, 3, 4, 5], [1, 2, 3, 4, 5, 6, 6]])


def test_parts_at_the_ends_keep_their_rules() -> None:
    whole = Axis.between(0.0, 11.0, 12, (F, M))
    lower, upper = whole.part(0, 5, 3), whole.part(9, 12, 3)
    assert (lower.rules, lower.halo, lower.nodes, lower.equations) == ((F, H), (0, 3), 8, slice(1, 7))
    assert (upper.rules, upper.halo, upper.nodes, upper.equations) == ((H, M), (3, 0), 6, slice(1, 6))
    np.testing.assert_array_equal(upper.widths, [0, 0, 0, 1, 1, 0.5])
    # A halo that reaches the end of the axis ends there, as the axis does.
    near = whole.part(2, 5, 3)
    assert (near.rules, near.halo, near.first, near.free) == ((F, H), (2, 3), 0, slice(1, 8))


def test_the_halo_of_a_periodic_axis_wraps_around() -> None:
    whole = Axis.between(0.0, 6.0, 6, (W, W))
    part = whole.part(0, 3, 2)
    assert (part.rules, part.first, part.halo) == ((H, H), -2, (2, 2))
    np.testing.assert_array_equal(part.index, [4, 5, 0, 1, 2, 3, 4])
    np.testing.assert_array_equal(whole.part(2, 6, 1).index, [1, 2, 3, 4, 5, 0])
    assert not part.wraps


def test_a_halo_of_another_width_on_each_side() -> None:
    whole = Axis.between(0.0, 16.0, 17, (F, M))
    part = whole.part(4, 8, (2, 3))
    assert (part.first, part.nodes, part.halo, part.rules) == (2, 9, (2, 3), (H, H))
    coarse = part.coarser
    assert coarse is not None
    assert (coarse.first, coarse.nodes, coarse.halo, coarse.rules) == (0, 7, (2, 3), (F, H))
    # Towards an end of the axis the halo has what is there; at the end itself it may be asked to have nothing.
    assert whole.part(1, 5, (2, 3)).halo == (1, 3)
    assert whole.part(0, 5, (0, 3)).halo == (0, 3)
    assert whole.part(15, 17, (4, 0)) == whole.part(15, 17, 4)
    assert Axis.between(0.0, 6.0, 6, (W, W)).part(0, 3, (1, 2)).halo == (1, 2)


@each_example
def test_the_parts_of_a_tabulated_axis_have_its_links(given: Example) -> None:
    axis = given.axis
    part = axis.part(1, axis.nodes, 1)
    for whole, own in zip(axis.couplings, part.couplings, strict=True):
        np.testing.assert_array_equal(own, whole[part.index])
    assert part.extremes == axis.extremes
    assert part.eigenvalues is axis.eigenvalues
    assert (part.holds, part.modes, part.norm) == (axis.holds, axis.modes, axis.norm)
    matrix = part.matrix[part.equations, part.owned]
    numbers = part.index[part.equations]
    np.testing.assert_array_equal(matrix, axis.matrix[np.ix_(numbers, part.index[part.owned])])


def test_the_whole_of_an_axis_is_its_own_part() -> None:
    axis = Axis(5, 1.0, (M, M))
    assert axis.part(0, 5, 2) is axis
    assert axis.undivided is axis


@each_pair
def test_the_coarser_parts_own_every_coarse_node_once(rules: tuple[Rule, Rule]) -> None:
    axes = [Axis(nodes, 1.0, rules) for nodes in (12, 13, 17)]
    axes += [Axis.placed(Cells(np.arange(14.0), (KINDS[rules[0]], KINDS[rules[1]])))]
    for axis in axes:
        coarse = axis.coarser
        assert coarse is not None
        for cuts in ([0, 5, axis.nodes], [0, 4, 8, axis.nodes], [0, 3, 6, 9, axis.nodes]):
            owned: list[int] = []
            for start, stop in itertools.pairwise(cuts):
                part = axis.part(start, stop, 2).coarser
                assert part is not None and part.whole == coarse
                numbers = part.index[part.owned]
                owned += numbers.tolist()
                places = numbers * axis.intervals / coarse.intervals
                assert np.all((start <= places) & (places < stop))
            assert owned == list(range(coarse.nodes))


def test_parts_that_are_none() -> None:
    axis = Axis(9, 1.0, (F, F))
    for start, stop, halo in ((3, 3, 1), (-1, 4, 1), (4, 10, 1), (2, 4, 0), (2, 4, (0, 1)), (0, 4, (1, 0))):
        with pytest.raises(
            ValueError, match=re.escape(f"no part [{start}, {stop}) with a halo of {halo} nodes of an axis of 9")
        ):
            axis.part(start, stop, halo)
    with pytest.raises(ValueError, match="a part of an axis is not divided again"):
        axis.part(0, 4, 1).part(0, 2, 1)
