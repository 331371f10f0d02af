# SPDX-License-Identifier: MIT
"""Colours and numbers of pictures: the range of a scale, its ticks and their labels, and what is refused."""

import math
from typing import Any

import numpy as np
import pytest
from support.refusals import mistake_of

from poisson.cli.pictures import COLOUR_MAPS

pytest.importorskip("matplotlib")

from matplotlib import colormaps
from matplotlib.colors import LogNorm, SymLogNorm

from poisson.output.pictures.scales import Colouring, limits_of, scale_of
from poisson.output.pictures.surfaces import levels_of
from poisson.output.pictures.ticks import Measure, Numbers, alone, measure_of, texts

WHITE = colormaps["RdBu_r"](0.5)


def spike(core: float) -> Any:
    """The values of 1/(r² + core) on a square."""
    x = np.linspace(0.0, 1.0, 101)
    return 1.0 / ((x - 0.4) ** 2 + (x[:, None] - 0.6) ** 2 + core)


# ---- ranges
def test_a_scale_goes_from_the_lowest_to_the_highest_value_with_round_ticks() -> None:
    scale = scale_of(np.array([0.013, 0.94]))
    assert (scale.low, scale.high, scale.extend, scale.beyond) == (0.013, 0.94, "neither", "")
    np.testing.assert_allclose(scale.ticks, [0.2, 0.4, 0.6, 0.8], atol=1e-12)
    assert scale.colours.name == "viridis" and scale.bands is None


@pytest.mark.parametrize("log", [False, True])
def test_zero_is_white_where_the_values_have_both_signs(log: bool) -> None:
    scale = scale_of(np.array([-0.3, -0.01, 0.0, 0.01, 1.0]), Colouring(log=log))
    assert scale.signed and scale.colours.name == "RdBu_r" and 0.0 in scale.ticks
    np.testing.assert_allclose(scale.colours(float(scale.norm(0.0))), WHITE, atol=0.03)
    # The colours of one size are equally far from white on both sides.
    assert (scale.low, scale.high) == (-0.3, 1.0)
    assert scale.colours(1.0) == colormaps["RdBu_r"](1.0) and scale.colours(0.0) != colormaps["RdBu_r"](0.0)
    assert scale_of(np.array([-0.01, 1.0])).colours.name == "viridis"


def test_a_peak_lies_beyond_the_colours_of_the_rest() -> None:
    values = spike(1e-5)
    scale = scale_of(values)
    assert scale.low == values.min() and 0.9 * np.percentile(values, 98) < scale.high < 1.1 * np.percentile(values, 98)
    assert scale.extend == "max" and scale.beyond == "values up to 100000 lie beyond the range"
    both = scale_of(np.stack([values, -values]))
    assert both.extend == "both" and both.beyond == "values from −100000 to 100000 lie beyond the range"
    full = scale_of(values, Colouring(range="full"))
    assert (full.low, full.high, full.beyond) == (values.min(), values.max(), "")


@pytest.mark.parametrize(
    "values",
    [
        np.linspace(0.0, 1.0, 1000),
        np.exp(-400.0 / spike(1e-12)),  # a bump with nothing beside it
        np.where(np.arange(1000) == 7, 1.0, 0.0),
        np.where(np.arange(1000) == 7, 1.0, 1e-9 * np.sin(np.arange(1000.0))),  # noise beside it
    ],
    ids=["no peak", "a bump", "a dot", "a dot in noise"],
)
def test_all_values_are_in_the_range_where_the_rest_has_nothing_to_show(values: Any) -> None:
    scale = scale_of(values)
    assert (scale.low, scale.high, scale.beyond) == (values.min(), values.max(), "")


def test_a_range_that_is_asked_for() -> None:
    values = np.linspace(0.0, 2.0, 50)
    for given in ((0.5, 3), "0.5,3", [0.5, 3.0]):
        scale = scale_of(values, Colouring(range=given))
        assert (scale.low, scale.high, scale.extend) == (0.5, 3.0, "min")
        assert scale.beyond == "values down to 0 lie beyond the range"
    within = scale_of(values + 1e-9, Colouring(range=(0.0, 2.0)))
    assert within.beyond == ""
    constant = scale_of(np.full(3, 5.0), Colouring(range=(0.0, 10.0)))
    assert (constant.low, constant.high) == (0.0, 10.0)
    assert limits_of("full") is None and limits_of(None) is None


def test_a_constant_stands_in_the_middle_of_its_range() -> None:
    constant = scale_of(np.full(3, 5.0))
    assert constant.low < 5.0 < constant.high and constant.ticks.tolist() == [5.0]
    single = np.float32(5.0) + np.float32(5e-7) * np.arange(3)
    assert scale_of(single, rounding=1e-6).ticks.tolist() == [5.0] and scale_of(single).ticks.size > 1
    for values in (np.full(3, math.nan), np.zeros(3)):
        for log in (False, True):
            scale = scale_of(values, Colouring(log=log))
            assert np.isfinite([scale.low, scale.high]).all() and scale.low < scale.high


# ---- logarithmic scales
def test_positive_values_have_a_logarithmic_scale_and_zeros_lie_below_it() -> None:
    scale = scale_of(np.geomspace(1e-6, 20.0, 40), Colouring(log=True))
    assert isinstance(scale.norm, LogNorm) and math.isclose(scale.low, 1e-6) and scale.beyond == ""
    np.testing.assert_allclose(scale.ticks, 10.0 ** np.arange(-6, 2), rtol=1e-12)
    zeros = scale_of(np.array([0.0, -1e-17, 0.01, 0.1, 1.0]), Colouring(log=True))
    assert isinstance(zeros.norm, LogNorm) and zeros.low == 0.01 and zeros.extend == "min"
    assert np.ma.count_masked(zeros.clipped(np.array([0.0, 1.0, math.nan]))) == 1
    narrow = scale_of(np.array([2.0, 3.0]), Colouring(log=True))
    assert narrow.ticks.size >= 3


@pytest.mark.parametrize("values", [[-3.0, -1e-5, 0.0, 1e-4, 8.0], [-5.0, -0.1, -1e-3]])
def test_values_of_both_signs_have_a_logarithmic_scale_of_their_size(values: list[float]) -> None:
    scale = scale_of(np.array(values), Colouring(log=True))
    assert isinstance(scale.norm, SymLogNorm) and (scale.low, scale.high) == (values[0], values[-1])
    assert 0.0 < scale.norm.linthresh <= 0.1 * max(map(abs, values))
    places = scale.norm(np.array(values))
    assert (np.diff(places) > 0.02).all() and (np.diff(scale.ticks) > 0.0).all()


def test_a_logarithmic_range_that_is_asked_for() -> None:
    values = np.array([0.0, 1.0, 100.0])
    above = scale_of(values, Colouring(log=True, range=(0.1, 10.0)))
    assert isinstance(above.norm, LogNorm) and (above.low, above.high, above.extend) == (0.1, 10.0, "both")
    assert isinstance(scale_of(values, Colouring(log=True, range=(-1.0, 10.0))).norm, SymLogNorm)


# ---- bands and colours
def test_bands_that_are_asked_for() -> None:
    ten = np.array([0.0, 10.0])
    asked = scale_of(ten, Colouring("magma", [0.0, 1.0, 4.0, 9.0]))
    assert asked.colours.name == "magma" and asked.bands is not None
    assert asked.bands.tolist() == asked.ticks.tolist() == [0.0, 1.0, 4.0, 9.0]
    assert (asked.low, asked.high, asked.extend) == (0.0, 9.0, "max")
    even = scale_of(ten, Colouring(levels=5))
    assert even.bands is not None and even.bands.tolist() == [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]
    log = scale_of(np.geomspace(1.0, 1e4, 9), Colouring(levels=4, log=True))
    assert log.bands is not None
    np.testing.assert_allclose(log.bands, 10.0 ** np.arange(5), rtol=1e-12)


@pytest.mark.parametrize(
    ("wanted", "line"),
    [
        (Colouring(range="1,0"), "range: 1,0; allowed: two finite numbers LO,HI with LO less than HI"),
        (Colouring(range=(1, 1)), "range: 1,1; allowed: two finite numbers LO,HI with LO less than HI"),
        (Colouring(range="0,inf"), "range: 0,inf; allowed: two finite numbers LO,HI with LO less than HI"),
        (Colouring(range="1"), "range: '1'; allowed: two numbers LO,HI such as 0,1.5, or 'full'"),
        (Colouring(range=(1, 2, 3)), "range: (1, 2, 3); allowed: two numbers LO,HI such as 0,1.5, or 'full'"),
        (Colouring(range="a,b"), "range: 'a,b'; allowed: two numbers LO,HI such as 0,1.5, or 'full'"),
        (Colouring(range=3.0), "range: 3.0; allowed: two numbers LO,HI such as 0,1.5, or 'full'"),  # type: ignore[arg-type]
        (Colouring(range="0,1", levels=[1, 2]), "range: the levels give the range already; leave one of the two out"),
        (Colouring(cmap="virdis"), "cmap: 'virdis'; did you mean viridis, viridis_r or cividis?"),
        (Colouring(cmap="rdbu"), "cmap: 'rdbu'; did you mean RdBu"),
        (Colouring(cmap="qqqq"), "cmap: 'qqqq'; allowed: a colour map of matplotlib, such as 'viridis'"),
        (Colouring(levels=1), "levels: 1; allowed: from 2 to 1000, or a list of increasing numbers"),
        (Colouring(levels=[2, 1]), "levels: [2, 1]; allowed: a number of levels, or a list of increasing numbers"),
    ],
)
def test_a_wrong_scale_is_one_line(wanted: Colouring, line: str) -> None:
    assert mistake_of(scale_of, np.array([0.0, 1.0]), wanted).startswith(line)


def test_the_colour_maps_that_a_shell_completes_exist() -> None:
    assert set(COLOUR_MAPS) <= set(colormaps)


def test_the_values_of_surfaces_lie_within_those_of_the_field() -> None:
    one = np.linspace(0.0, 1.0, 50) ** 4
    assert sorted(levels_of(scale_of(one), one)) == [0.3, 0.65]
    # The outer surface comes first: the one whose value is nearer to those on the border.
    bump = 1.0 - np.linspace(-1.0, 1.0, 51) ** 2
    assert levels_of(scale_of(bump), bump) == [0.3, 0.65] and levels_of(scale_of(-bump), -bump) == [-0.35, -0.7]
    both = np.linspace(-1.0, 0.8, 50)
    assert sorted(levels_of(scale_of(both), both)) == [-0.4, 0.32]
    near = 1.23 + 1e-9 * bump
    assert all(1.23 < level < 1.23 + 1e-9 for level in levels_of(scale_of(near), near))
    log = np.geomspace(1e-6, 1.0, 50)
    assert all(1e-6 < level < 0.1 for level in levels_of(scale_of(log, Colouring(log=True)), log))
    assert levels_of(scale_of(np.ones(3)), np.ones(3)) == []


# ---- numbers
@pytest.mark.parametrize(
    ("numbers", "wanted"),
    [
        ([0.0, 0.25, 0.5], ["0.00", "0.25", "0.50"]),
        ([-0.2, -0.1, 1e-17, 0.1], ["−0.2", "−0.1", "0.0", "0.1"]),
        ([1.23, 1.23001, 1.23002], ["1.23000", "1.23001", "1.23002"]),
        ([0.0, 20000.0, 40000.0], ["0", "20000", "40000"]),
        ([1e-11, 1e-9, 1e-3, 1.0, 1e3, 1e6], ["10⁻¹¹", "10⁻⁹", "0.001", "1", "1000", "10⁶"]),
        ([-1e-4, 0.0, 2.5e-4, 1.0], ["−10⁻⁴", "0", "2.5×10⁻⁴", "1"]),
        ([5.0], ["5"]),
        ([], []),
    ],
)
def test_numbers_have_the_decimals_that_tell_them_apart(numbers: list[float], wanted: list[str]) -> None:
    assert texts(numbers) == wanted


def test_one_number() -> None:
    found = [alone(number) for number in (0.0, 0.2935, 1 / 3, 9994.4, 10000.0, 1e5, -8.854e-12, -1e-7)]
    assert found == ["0", "0.2935", "0.3333", "9994", "10000", "10⁵", "−8.854×10⁻¹²", "−10⁻⁷"]


@pytest.mark.parametrize(
    ("low", "high", "measure"),
    [
        (0.0, 1.0, Measure()),
        (0.0, 0.002, Measure()),
        (0.0, 4e-12, Measure(power=-12)),
        (1e-9, 2e-9, Measure(power=-9)),
        (-2e11, 8e11, Measure(power=9)),
        (1.23, 1.23001, Measure()),
        (1.23, 1.23 + 1e-9, Measure(1.23, -9)),
        (-1e6 - 0.5, -1e6, Measure(-1e6)),
        (2.0, 2.0, Measure()),
    ],
)
def test_numbers_are_counted_from_a_base_and_in_a_power_of_ten(low: float, high: float, measure: Measure) -> None:
    assert measure_of(low, high) == measure
    labels = Numbers(measure).format_ticks(np.linspace(low, high, 6))
    assert max(map(len, labels)) <= 9
    assert low == high or len(set(labels)) == 6


def test_a_logarithmic_axis_has_no_power_of_its_own() -> None:
    assert measure_of(1e-12, 1e-3, log=True) == Measure() and Numbers(Measure())(1e-12) == "10⁻¹²"
