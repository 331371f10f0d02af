# SPDX-License-Identifier: MIT
"""Pictures can be read: nothing is cut off or unseen on dark colours, and no line says what is not there."""

import re
from functools import partial
from typing import Any

import numpy as np
import pytest
from support import results
from support.results import make_solution

import poisson
from poisson.case.settings import Units
from poisson.problem.problem import Problem
from poisson.run.solution import Solution

pytest.importorskip("matplotlib")

from matplotlib.collections import LineCollection
from matplotlib.image import AxesImage
from matplotlib.patches import FancyArrowPatch
from matplotlib.patheffects import withStroke
from matplotlib.quiver import Quiver

from poisson.output.pictures import planes
from poisson.output.pictures.figures import thumbnail
from poisson.output.pictures.picture import Picture

SI = Units("m", "V")
PEAK = "1/((x - 0.4)**2 + (y - 0.6)**2 + 1e-4)"
LONG = "A title that somebody has made so long that no picture is wide enough to have it in a single line above it"


solution_of = partial(results.solution_of, units=SI)


def lines_of(axes: Any) -> list[Any]:
    """The field lines: arrays of points."""
    haloed = [item for item in axes.collections if isinstance(item, LineCollection) and item.get_path_effects()]
    return [np.asarray(segment) for item in haloed for segment in item.get_segments()]


def has_halo(artist: Any) -> bool:
    return any(isinstance(effect, withStroke) for effect in artist.get_path_effects())


# ---- colours
def test_colours_are_smooth_and_linear_between_the_nodes() -> None:
    axes = solution_of((3, 3), "x + y").plot().axes[0]
    [image] = [item for item in axes.get_images() if isinstance(item, AxesImage)]
    values = np.asarray(image.get_array())
    assert min(values.shape) > 300 and (values.min(), values.max()) == (0.0, 2.0)
    np.testing.assert_allclose(np.diff(values, axis=1), 1.0 / (values.shape[1] - 1), rtol=1e-9)
    # A value stands in the middle of its dot, the first one on the border of the box.
    left, right, bottom, top = image.get_extent()
    step = 1.0 / (values.shape[1] - 1)
    np.testing.assert_allclose([left, right, bottom, top], [-step / 2, 1 + step / 2] * 2, atol=1e-12)
    assert axes.get_xlim() == (0.0, 1.0) and solution_of((3, 3), "x").plot(levels=4).axes[0].get_images() == []


def test_no_line_of_one_value_is_drawn_beside_an_extreme() -> None:
    axes = solution_of((33, 33), "1.005 - (x - 0.47)**2 - (y - 0.53)**2").plot().axes[0]
    [lines] = [item for item in axes.collections if hasattr(item, "levels")]
    assert 0.9 in lines.levels and 1.0 not in lines.levels and 1.0 in axes.child_axes[0].get_yticks()


def test_values_beyond_the_range_are_marked_on_the_bar_and_named() -> None:
    solution = solution_of((65, 65), PEAK)
    picture = solution.plot()
    axes = picture.axes[0]
    assert [text.get_text() for text in axes.texts] == ["values up to 5614 lie beyond the range"]
    assert axes.get_images()[0].get_clim()[1] < 500.0 and len(axes.child_axes[0].patches) >= 1
    whole = solution.plot(range="full").axes[0]
    assert not whole.texts and whole.get_images()[0].get_clim()[1] > 5000.0
    log = solution.plot(log=True).axes[0]
    assert not log.texts and log.child_axes[0].get_yscale() != "linear"
    cube = solution_of((33, 33, 33), PEAK.replace("1e-4", "(z - 0.5)**2 + 1e-4"))
    assert re.search(r"\nvalues up to \d+ lie beyond the range$", cube.plot().get_suptitle())


def test_a_curve_has_a_range_and_a_logarithmic_axis() -> None:
    solution = solution_of((65,), "exp(-20*x)")
    axes = solution.plot(range="0,0.2").axes[0]
    assert axes.get_ylim() == (0.0, 0.2)
    assert [text.get_text() for text in axes.texts] == ["values up to 1 lie beyond the range"]
    log = solution.plot(log=True).axes[0]
    assert log.get_yscale() == "log" and log.get_ylim() == (np.exp(-20.0), 1.0)
    assert solution_of((65,), "x - 0.5").plot(log=True).axes[0].get_yscale() == "symlog"


# ---- names and numbers
@pytest.mark.parametrize(
    ("expression", "label", "last"),
    [
        ("1.23 + 1e-5*x", "u [V]", "1.230010"),
        ("1.23 + 1e-9*x", "u − 1.23 [10⁻⁹ V]", "1.0"),
        ("1e-12*x", "u [10⁻¹² V]", "1.0"),
        ("1e12*x", "u [10¹² V]", "1.0"),
        ("40000*x", "u [V]", "40000"),
    ],
)
def test_a_bar_has_whole_numbers_and_no_offset(expression: str, label: str, last: str) -> None:
    solution = solution_of((9, 9), expression)
    picture = solution.plot()
    picture.draw_without_rendering()
    bar = picture.axes[0].child_axes[0]
    assert bar.get_ylabel() == label and bar.yaxis.get_offset_text().get_text() == ""
    assert [tick.get_text() for tick in bar.get_yticklabels()][-1] == last
    curve = solution.plot(slice="y=0.5")
    curve.draw_without_rendering()
    assert curve.axes[0].get_ylabel() == label and curve.axes[0].yaxis.get_offset_text().get_text() == ""


def test_small_boxes_and_boxes_far_away_have_short_numbers() -> None:
    picture = solution_of((9, 9), "x", lower=(1e-9, 1e6), upper=(2e-9, 1e6 + 1.0)).plot()
    axes = picture.axes[0]
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("x [10⁻⁹ m]", "y − 1000000 [m]")
    picture.draw_without_rendering()
    labels = [tick.get_text() for tick in (*axes.get_xticklabels(), *axes.get_yticklabels())]
    assert max(map(len, labels)) <= 4


def test_axes_in_3d_have_units_and_slices_have_names() -> None:
    solution = solution_of((9, 9, 9), "x*y*z")
    *cuts, solid, _ = solution.plot().axes
    assert (solid.get_xlabel(), solid.get_ylabel(), solid.get_zlabel()) == ("x [m]", "y [m]", "z [m]")
    assert [axes.get_title() for axes in cuts] == ["plane z = 0.75 m", "plane y = 0.75 m", "plane x = 0.75 m"]
    field = solution_of((9, 9, 9), "x", fields={"E": np.arange(9**3 * 3.0).reshape(9, 9, 9, 3)}).plot("E")
    assert field.axes[3].get_title().startswith("surfaces |E| = ")
    line = solution.plot(slice="z=0.5,x=0.25").axes[0]
    assert [text.get_text() for text in line.texts] == ["line x = 0.25 m, z = 0.5 m"]
    long = solution_of((33, 5, 5), "x", upper=(50.0, 1.0, 1.0)).plot()
    assert long.get_suptitle() == "Some title\naxes not to scale"


@pytest.mark.parametrize(
    ("solution", "options"),
    [
        (solution_of((33, 33), "1.23 + 1e-5*x"), {}),
        (solution_of((33, 33), PEAK, title=LONG), {"vectors": True, "length": "millimetre", "value": "kilovolt"}),
        (solution_of((33, 33), "x*y", title=LONG), {"range": "0.2,0.3", "lines": True, "slice": None}),
        (solution_of((201, 5), "sin(x)*y", upper=(50.0, 1.0)), {"vectors": True}),
        (solution_of((5, 201), "sin(y)*x", upper=(1.0, 50.0)), {"lines": True}),
        (solution_of((9, 9), "x", lower=(1e-9, 1e6), upper=(2e-9, 1e6 + 1.0)), {}),
        (solution_of((3, 3), "-1e-12*x*y"), {"log": True}),
        (solution_of((33,), "1e12*x", title=LONG), {}),
        (solution_of((9, 9, 9), "x*y*z"), {"lines": True}),
        (solution_of((33, 5, 5), "x*z", upper=(50.0, 1.0, 1.0)), {}),
    ],
)
def test_nothing_lies_outside_of_a_picture(solution: Solution, options: dict[str, Any]) -> None:
    picture = solution.plot(**options)
    picture.draw_without_rendering()
    width, height = picture.get_size_inches()
    box = picture.get_tightbbox()
    assert box.x0 > -0.02 and box.y0 > -0.02 and box.x1 < width + 0.02 and box.y1 < height + 0.02
    assert width < 12.0 and height < 10.0


# ---- arrows and lines
def test_arrows_and_lines_have_a_halo() -> None:
    solution = solution_of((33, 33), "-exp(x)")
    [arrows] = [item for item in solution.plot(vectors=True).axes[0].collections if isinstance(item, Quiver)]
    assert has_halo(arrows)
    axes = solution.plot(lines=True).axes[0]
    heads = [item for item in axes.patches if isinstance(item, FancyArrowPatch)]
    assert len(lines_of(axes)) == len(heads) > 5 and all(map(has_halo, heads))


@pytest.mark.parametrize(
    ("coefficients", "fields"),
    [
        ({"c": "where((x-0.5)**2 + (y-0.5)**2 < 0.04, 1e8, 0)"}, ()),
        ({"c": "where((x-0.5)**2 + (y-0.5)**2 < 0.04, 1e8, 0)"}, ("flux",)),
        ({"a": "where((x-0.5)**2 + (y-0.5)**2 < 0.04, 1e6, 1)"}, ()),
        ({"a": "where((x-0.5)**2 + (y-0.5)**2 < 0.04, 1e6, 1)"}, ("E",)),
        ({"a": "where((x-0.5)**2 + (y-0.5)**2 < 0.04, 1e6, 1)"}, ("flux",)),
    ],
)
def test_no_line_and_no_arrow_is_in_a_conductor(coefficients: dict[str, str], fields: tuple[str, ...]) -> None:
    walls = {"x_lower": 0.0, "x_upper": 1.0, "y_lower": {"neumann": 0.0}, "y_upper": {"neumann": 0.0}}
    problem = Problem.on_box((65, 65), f=0.0, boundary=walls, **coefficients)
    axes = poisson.solve(problem, fields=fields, rtol=1e-10).plot(lines=True, vectors=True).axes[0]
    points = np.concatenate(lines_of(axes))
    [arrows] = [item for item in axes.collections if isinstance(item, Quiver)]
    for x, y in (points.T, (arrows.X, arrows.Y)):
        inside = (x - 0.5) ** 2 + (y - 0.5) ** 2 < (0.2 - 1.5 / 64) ** 2
        assert len(x) > 50 and not inside.any()
    assert points[:, 0].min() < 0.01 and points[:, 0].max() > 0.99


def test_lines_go_through_a_dielectric() -> None:
    walls = {"x_lower": 0.0, "x_upper": 1.0, "y_lower": {"neumann": 0.0}, "y_upper": {"neumann": 0.0}}
    problem = Problem.on_box((65, 65), f=0.0, boundary=walls, a="where((x-0.5)**2 + (y-0.5)**2 < 0.04, 80, 1)")
    points = np.concatenate(lines_of(poisson.solve(problem).plot(lines=True).axes[0]))
    assert ((points[:, 0] - 0.5) ** 2 + (points[:, 1] - 0.5) ** 2 < 0.01).any()


def test_no_line_runs_on_the_border() -> None:
    axes = solution_of((33, 33), "y").plot(lines=True).axes[0]
    places = [line[:, 0].mean() for line in lines_of(axes)]
    within = [place for place in places if 0.0 <= place <= 1.0]
    assert len(within) > 5 and min(within) > 0.005 and max(within) < 0.995


def test_lines_that_run_beside_one_another_are_drawn_once() -> None:
    # Between two charges of one sign the lines of both turn to the plane of symmetry, and run there together.
    near = "-log((x - 0.3)**2 + (y - 0.1)**2 + 1e-3) - log((x - 0.7)**2 + (y - 0.1)**2 + 1e-3)"
    axes = solution_of((65, 65), near).plot(lines=True).axes[0]
    lines = lines_of(axes)
    assert len(lines) == sum(isinstance(item, FancyArrowPatch) for item in axes.patches) > 20
    box = planes.FieldSample((0, 1), (np.array([0.0, 1.0]), np.array([0.0, 1.0])), np.zeros((2, 2)))
    x = np.linspace(-0.5, 1.5, 9)
    level, beside, apart, outside = (np.stack([x, np.full(9, y)], axis=1) for y in (0.5, 0.502, 0.55, 1.2))
    assert planes._apart([level, beside, apart, outside], box, (4.0, 4.0)) == [True, False, True, False]
    assert all(planes._apart(lines, box, (4.4, 4.4)))


# ---- history and thumbnail
def test_a_history_of_one_read_is_given_in_words() -> None:
    axes = make_solution(2, history=((1, 2e-12),), iterations=1).plot_history().axes[0]
    assert axes.get_lines() == [] and [text.get_text() for text in axes.texts] == [
        "rms norm of the residual after 1 iteration:\n2e-12, target 1e-08",
        "converged after 1 iteration",
    ]


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    ("solution", "names", "title"),
    [
        (solution_of((9,), "x"), ["x [m]", "u [V]"], ""),
        (solution_of((9, 5), "x"), ["x [m]", "y [m]", "u [V]"], ""),
        (solution_of((9, 5), "x", upper=(20.0, 1.0)), ["x [m]", "y [m]", "u [V]"], ""),
        (solution_of((5, 5, 5), "1e-9*x"), ["x [m]", "y [m]", "u [10⁻⁹ V]"], "plane z = 0.5 m"),
    ],
)
def test_a_thumbnail_has_names(
    solution: Solution, names: list[str], title: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[Picture] = []
    written = Picture.png

    def kept(self: Picture, dots: float) -> bytes:
        drawn.append(self)
        return written(self, dots)

    monkeypatch.setattr(Picture, "png", kept)
    thumbnail(solution)
    [figure] = drawn
    axes = figure.axes[0]
    found = [axes.get_xlabel(), axes.get_ylabel()]
    found += [bar.get_ylabel() or bar.get_xlabel() for bar in axes.child_axes]
    assert found == names and axes.get_title() == title and max(figure.get_size_inches()) < 3.0
