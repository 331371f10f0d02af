# SPDX-License-Identifier: MIT
"""Pictures: what of a field is drawn, in which colours, where the surfaces and arrows are, and what is refused."""

import base64
import math
import re
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from support.refusals import mistake_of
from support.results import make_solution, solution_of

import poisson
from poisson.case.settings import Units
from poisson.errors import CaseError, OutputError
from poisson.problem.expressions import parse
from poisson.problem.problem import Problem

pytest.importorskip("matplotlib")

from matplotlib.figure import Figure
from matplotlib.quiver import Quiver

from poisson.output.pictures import labels, planes
from poisson.output.pictures.figures import draw, thumbnail
from poisson.output.pictures.picture import Picture
from poisson.output.pictures.samples import FieldSample, names, places_of, resampled, sample
from poisson.output.pictures.surfaces import surface


class Counted:
    """An array that counts the values taken from it."""

    def __init__(self, values: Any) -> None:
        self.values, self.taken = values, 0
        self.shape = values.shape

    def __getitem__(self, index: Any) -> Any:
        part = self.values[index]
        self.taken += part.size
        return part


# ---- samples
def test_a_sample_has_the_ends_of_the_box_and_few_nodes_between() -> None:
    solution = solution_of((1001, 101), "x + 2*y")
    found = sample(solution, "u", {}, 40)
    x, y = found.coordinates
    assert (x[0], x[-1], y[0], y[-1]) == (0.0, 1.0, 0.0, 1.0)
    assert max(x.size, y.size) <= 41
    np.testing.assert_allclose(found.values, x + 2.0 * y[:, None], rtol=1e-14)


def test_a_sample_ends_a_period_with_its_first_node() -> None:
    solution = make_solution(2)  # periodic in y
    found = sample(solution, "u", {}, 100)
    np.testing.assert_array_equal(found.coordinates[1], [-1.0, -0.5, 0.0, 0.5, 1.0])
    np.testing.assert_array_equal(found.values, np.vstack([solution.u, solution.u[:1]]))


@pytest.mark.parametrize(("place", "wanted"), [(0.5, 0.5), (0.52, 0.52), (0.0, 0.0), (1.0, 1.0)])
def test_a_plane_between_nodes_is_interpolated(place: float, wanted: float) -> None:
    found = sample(solution_of((5, 6, 11), "x + 2*y + 10*z"), "u", {2: place}, 100)
    x, y = found.coordinates
    assert found.axes == (0, 1)
    np.testing.assert_allclose(found.values, x + 2.0 * y[:, None] + 10.0 * wanted, rtol=1e-14)


def test_a_plane_beyond_the_last_node_of_a_period() -> None:
    solution = make_solution(3)
    found = sample(solution, "u", {1: 0.75}, 100)
    np.testing.assert_allclose(found.values, (solution.u[:, 3] + solution.u[:, 0]) / 2)


def test_a_picture_reads_little_of_a_large_field() -> None:
    problem = Problem.on_box((401, 601, 801), f=0.0)
    counted = Counted(np.broadcast_to(np.linspace(0.0, 1.0, 401), (801, 601, 401)))
    draw(replace(make_solution(3), problem=problem, u=counted, fields={}))
    assert 0 < counted.taken < 0.001 * problem.lattice.nodes


def test_a_picture_of_a_file_that_stays_there(tmp_path: Path) -> None:
    solution = make_solution(3, fields={"gradient": np.ones((3, 4, 5, 3))})
    solution.save(tmp_path / "a.h5")
    stored = poisson.load(tmp_path / "a.h5", lazy=True)
    for name in ("u", "gradient"):
        np.testing.assert_array_equal(
            sample(stored, name, {2: 3.0}, 50).values, sample(solution, name, {2: 3.0}, 50).values
        )


def test_the_error_is_drawn_where_the_exact_solution_is_known() -> None:
    solution = solution_of((9, 9), "x*y + 0.25")
    assert names(solution) == ["u"]
    known = replace(solution, problem=replace(solution.problem, exact=parse("x*y", 2)))
    assert names(known) == ["u", "error"]
    np.testing.assert_allclose(sample(known, "error", {0: 0.3}, 50).values, 0.25, rtol=1e-14)
    free = Problem.on_box((9, 9), f=0.0, boundary={"all": {"neumann": 0.0}}, exact="x*0")
    assert names(replace(solution, problem=free)) == ["u"]  # u is that but for a constant


def test_resampling_is_exact_for_a_linear_field() -> None:
    given = FieldSample(
        (0, 1), (np.array([0.0, 0.1, 1.0]), np.array([0.0, 2.0])), np.array([[0.0, 0.1, 1.0], [6.0, 6.1, 7.0]])
    )
    found = resampled(given, (np.array([0.05, 0.55, 1.0]), np.array([0.0, 1.0])))
    np.testing.assert_allclose(found, [[0.05, 0.55, 1.0], [3.05, 3.55, 4.0]], rtol=1e-14)


def test_where_to_cut() -> None:
    grid = make_solution(3).problem.lattice
    assert places_of("z=3", grid) == places_of({"z": 3.0}, grid) == {2: 3.0}
    assert places_of(" x = 0.5, y=-1", grid) == {0: 0.5, 1: -1.0}


@pytest.mark.parametrize(
    ("given", "line"),
    [
        ("w=1", "slice: 'w'; allowed: x, y, z, such as z=3.5"),
        ("z", "slice: z=; allowed: a number, such as z=3.5"),
        ("z=a", "slice: z=a; allowed: a number, such as z=3.5"),
        ("z=9", "slice: z=9; allowed: from 2 to 5, where the box is"),
        ("z=nan", "slice: z=nan; allowed: from 2 to 5, where the box is"),
        ("z=3,z=4", "slice: z is given twice; allowed: each axis once"),
        ("x=0,y=0,z=3", "slice: x, y, z are all given; leave out the one or two axes to draw along"),
        (0.5, "slice: a float; allowed: a string such as z=3.5, or a mapping"),
    ],
)
def test_a_wrong_cut_is_one_line(given: Any, line: str) -> None:
    assert mistake_of(places_of, given, make_solution(3).problem.lattice) == line


# ---- surfaces
def test_a_surface_of_one_value_is_a_sphere() -> None:
    solution = solution_of((25, 29, 27), "(x - 0.5)^2 + (y - 0.5)^2 + (z - 0.5)^2".replace("^", "**"))
    whole = sample(solution, "u", {}, 100)
    triangles = surface(whole.values, whole.coordinates, 0.16)
    points, normals = triangles[..., :3] - 0.5, triangles[..., 3:]
    np.testing.assert_allclose(np.linalg.norm(points, axis=-1), 0.4, atol=2e-3)
    assert (np.sum(points * normals, axis=-1) > 0.0).all()
    sides = np.cross(points[:, 1] - points[:, 0], points[:, 2] - points[:, 0])
    assert math.isclose(0.5 * np.linalg.norm(sides, axis=1).sum(), 4.0 * math.pi * 0.16, rel_tol=0.01)


def test_a_surface_leaves_out_what_is_not_finite() -> None:
    values = np.arange(27.0).reshape(3, 3, 3)
    axes = (np.arange(3.0),) * 3
    assert len(surface(values, axes, 12.5)) > 0
    assert len(surface(np.full((3, 3, 3), math.nan), axes, 12.5)) == 0
    assert len(surface(values, axes, 99.0)) == 0


# ---- planes
def test_a_picture_of_a_plane_says_what_it_shows() -> None:
    figure = solution_of((9, 17), "x - 0.5").plot(length="m", value="kV")
    axes, bar = figure.axes[0], figure.axes[0].child_axes[0]
    assert (axes.get_title(), axes.get_xlabel(), axes.get_ylabel()) == ("Some title", "x [m]", "y [m]")
    assert bar.get_ylabel() == "u [kV]"
    assert axes.get_aspect() == 1.0
    figure.draw_without_rendering()
    box, colours = axes.get_position(), bar.get_position()
    assert math.isclose(box.height * 4.4 / box.width, box.width * 4.4 / box.width, rel_tol=0.2)
    assert math.isclose(box.y0, colours.y0, abs_tol=1e-3) and math.isclose(box.y1, colours.y1, abs_tol=1e-3)


@pytest.mark.parametrize(
    ("upper", "aspect", "note"),
    [((10.0, 1.0), 1.0, ""), ((32.0, 1.0), 8.0, "y stretched 8 times"), ((1.0, 40.0), 0.1, "x stretched 10 times")],
)
def test_thin_boxes(upper: tuple[float, ...], aspect: float, note: str) -> None:
    figure = solution_of((33, 9), "x", upper=upper).plot()
    axes = figure.axes[0]
    assert axes.get_aspect() == aspect
    assert [text.get_text() for text in axes.texts] == ([note] if note else [])
    figure.draw_without_rendering()
    width, height = figure.get_size_inches()
    place, bar = axes.get_position(), axes.child_axes[0].get_position()
    assert min(place.width * width, place.height * height) > 0.4
    assert min(bar.y0, bar.x0) >= 0.0 and max(bar.x1, bar.y1, place.x1, place.y1) <= 1.0


def arrows_of(axes: Any) -> Quiver:
    [found] = [item for item in axes.collections if isinstance(item, Quiver)]
    return found


def test_arrows_go_down_the_gradient() -> None:
    figure = solution_of((17, 17), "3*x + 4*y").plot(vectors=True)
    arrows = arrows_of(figure.axes[0])
    np.testing.assert_allclose(arrows.U, -0.6, rtol=1e-9)
    np.testing.assert_allclose(arrows.V, -0.8, rtol=1e-9)
    assert [text.get_text() for text in figure.axes[0].texts] == ["arrows along −∇u"]


@pytest.mark.parametrize(
    ("fields", "field", "wanted", "note"),
    [
        (("gradient",), "u", (-0.6, -0.8), "arrows along −∇u"),
        (("gradient",), "gradient", (0.6, 0.8), "|∇u|; arrows along ∇u"),
        (("gradient", "flux"), "u", (0.8, 0.6), "arrows along −a∇u"),
        (("flux",), "flux", (0.8, 0.6), "|a∇u|; arrows along −a∇u"),
        (("E",), "E", (-0.6, -0.8), "|E|; arrows along E"),
        (("gradient", "E"), "u", (-0.6, -0.8), "arrows along −∇u"),
        (("E", "flux"), "u", (0.8, 0.6), "arrows along −a∇u"),
    ],
)
def test_arrows_along_a_field(fields: tuple[str, ...], field: str, wanted: tuple[float, float], note: str) -> None:
    vectors = {"gradient": (3.0, 4.0), "flux": (8.0, 6.0), "E": (-3.0, -4.0)}
    solution = solution_of((9, 9), "y", fields={name: np.tile(vectors[name], (9, 9, 1)) for name in fields})
    axes = solution.plot(field, vectors=True).axes[0]
    arrows = arrows_of(axes)
    np.testing.assert_allclose([arrows.U, arrows.V], [[wanted[0]] * arrows.U.size, [wanted[1]] * arrows.U.size])
    assert [text.get_text() for text in axes.texts] == [note]


@pytest.mark.parametrize(
    ("name", "label", "value"),
    [
        ("E", "|E| [V/m]", 5.0),
        ("E_x", "E_x [V/m]", -3.0),
        ("E_y", "E_y [V/m]", 4.0),
        ("gradient_y", "∂u/∂y [V/m]", -4.0),
    ],
)
def test_the_length_and_the_components_of_a_vector(name: str, label: str, value: float) -> None:
    field = np.linspace(1.0, 2.0, 9)[:, np.newaxis, np.newaxis] * np.tile((-3.0, 4.0), (9, 9, 1))
    solution = solution_of((9, 9), "y", fields={"E": field, "gradient": -field}, units=Units("m", "V"))
    figure = solution.plot(name)
    assert figure.axes[0].child_axes[0].get_ylabel() == label
    line = solution.plot(name, slice="y=0.3").axes[0]
    np.testing.assert_allclose(line.lines[0].get_ydata(), 1.3 * value, rtol=1e-12)
    assert line.get_ylabel() == label
    with pytest.raises(CaseError, match="'E_z'; its fields are u, E, gradient, E_x, E_y, gradient_x"):
        solution.plot("E_z")


def test_a_vector_on_a_line_is_its_component() -> None:
    solution = poisson.solve(poisson.Problem.on_box((9,), f=0.0, boundary="3*x"), backend="numpy", fields=("E",))
    axes = solution.plot("E").axes[0]
    np.testing.assert_allclose(axes.lines[0].get_ydata(), -3.0, rtol=1e-12)
    assert axes.get_ylabel() == "E_x" and [text.get_text() for text in axes.texts] == ["E_x"]


def test_field_lines_go_along_the_field() -> None:
    axes = solution_of((33, 33), "x").plot(lines=True).axes[0]
    lines = max(
        (item for item in axes.collections if hasattr(item, "get_segments")), key=lambda i: len(i.get_segments())
    )
    assert len(lines.get_segments()) > 5
    assert max(np.ptp(np.asarray(piece)[:, 1]) for piece in lines.get_segments()) < 1e-12


def test_nothing_has_neither_arrows_nor_lines() -> None:
    axes = solution_of((9, 9), "2.0").plot(vectors=True, lines=True).axes[0]
    assert not [item for item in axes.collections if isinstance(item, Quiver)]


# ---- whole pictures
def test_a_picture_of_a_box_has_three_planes_and_surfaces() -> None:
    solution = solution_of((13, 13, 13), "exp(-20*((x - 0.5)**2 + (y - 0.75)**2 + (z - 0.5)**2))")
    figure = solution.plot(vectors=True)
    *every, solid, bar = figure.axes
    assert [item.get_title() for item in every] == ["plane z = 0.5", "plane y = 0.75", "plane x = 0.5"]
    assert [(item.get_xlabel(), item.get_ylabel()) for item in every] == [("x", "y"), ("x", "z"), ("y", "z")]
    assert solid.get_title() == "surfaces u = 0.3 and 0.65" and bar.get_ylabel() == "u"
    assert figure.get_suptitle() == "Some title\narrows along −∇u"
    cut = solution.plot(slice="z=0.5").axes[0]
    assert cut.get_xlabel() == "x" and [text.get_text() for text in cut.texts] == ["plane z = 0.5"]


def test_planes_go_through_a_bump_that_fills_the_box() -> None:
    figure = solution_of((33, 33, 33), "sin(pi*x)*sin(pi*y)*sin(pi*z)").plot()
    titles = [item.get_title() for item in figure.axes]
    assert {"plane x = 0.5", "plane y = 0.5", "plane z = 0.5"} <= set(titles)


def test_a_curve() -> None:
    solution = solution_of((9,), "x**2", units=Units("m", "V"))
    axes = solution.plot().axes[0]
    [curve] = axes.get_lines()
    np.testing.assert_allclose(curve.get_ydata(), np.linspace(0.0, 1.0, 9) ** 2)
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("x [m]", "u [V]")
    along = solution_of((5, 6, 7), "10*x + y").plot(slice={"x": 0.5, "z": 1.0}).axes[0]
    np.testing.assert_allclose(along.get_lines()[0].get_ydata(), 5.0 + np.linspace(0.0, 1.0, 6))


def test_the_history_falls_to_its_target() -> None:
    solution = make_solution(2)
    axes = solution.plot_history().axes[0]
    residual, target = axes.get_lines()
    assert residual.get_ydata().tolist() == [0.5**sweep for sweep in range(0, 41, 10)]
    assert set(target.get_ydata()) == {1e-8} and axes.get_yscale() == "log"
    assert axes.get_ylabel() == "rms norm of f − Au"
    assert [text.get_text() for text in axes.texts] == ["converged after 40 iterations"]
    assert make_solution(2, history=()).plot_history().axes[0].texts[0].get_text() == "no residual norm was computed"


def test_axes_of_the_user_are_drawn_on() -> None:
    figure = Figure(layout="constrained")
    left, right = figure.subplots(1, 2)
    solution = solution_of((9, 9), "x")
    assert solution.plot(ax=left, cmap="magma", levels=7) is left
    assert solution.plot_history(ax=right) is right
    assert left.collections and right.get_lines()


def test_a_picture_is_shown_in_a_notebook_once(monkeypatch: pytest.MonkeyPatch) -> None:
    pyplot = pytest.importorskip("matplotlib.pyplot")
    figure = solution_of((5, 5), "x").plot()
    assert figure._repr_png_().startswith(b"\x89PNG") and pyplot.get_fignums() == []
    shown: list[Any] = []
    shell = SimpleNamespace(get_ipython=lambda: SimpleNamespace(kernel=1))
    monkeypatch.setitem(sys.modules, "IPython", shell)
    monkeypatch.setitem(sys.modules, "IPython.display", SimpleNamespace(display=shown.append))
    figure.show()
    assert shown == [figure]


def test_a_picture_is_shown_in_a_window_or_says_that_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    pyplot = pytest.importorskip("matplotlib.pyplot")
    monkeypatch.setitem(sys.modules, "IPython", None)
    monkeypatch.delitem(sys.modules, "IPython")
    pyplot.switch_backend("agg")
    figure = solution_of((5, 5), "x").plot()
    with pytest.raises(OutputError, match=r'^no display .*; savefig\("u.png"\) writes the picture to a file$'):
        figure.show()
    assert pyplot.get_fignums() == []
    opened: list[list[int]] = []
    monkeypatch.setattr("matplotlib.backends.backend_agg.FigureCanvasAgg.required_interactive_framework", "some")
    monkeypatch.setattr(pyplot, "show", lambda: opened.append(pyplot.get_fignums()))
    figure.show()
    figure.show()
    assert opened == [[1], [1]] and pyplot.figure(1) is figure
    pyplot.close("all")


def test_titles_are_no_formulas_and_values_need_not_be_finite() -> None:
    solution = solution_of((5, 5), "x", units=Units("$", "$x^"))
    broken = replace(solution, problem=replace(solution.problem, title="costs $5 \\frac{"), u=np.full((5, 5), math.nan))
    assert broken.plot(lines=True, vectors=True).png().startswith(b"\x89PNG")
    assert solution.plot().png().startswith(b"\x89PNG")


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("size", [1.7e308, 1e-315, math.inf])
def test_values_near_the_ends_of_float64_are_drawn(size: float) -> None:
    solution = solution_of((4, 5, 6), "x - 0.5")
    wild = replace(solution, u=np.where(solution.u > 0.0, size, -1e-320))
    assert wild.plot(vectors=True, lines=True).png().startswith(b"\x89PNG")
    drawn = sample(wild, "u", {}, 9).values
    assert np.isnan(drawn).any() == (size > 1.0) and (drawn[np.isfinite(drawn)] == 0.0).all()


def test_a_thumbnail_is_an_image_in_itself() -> None:
    for dimension in (1, 2, 3):
        found = re.fullmatch(r'<img alt="u" src="data:image/png;base64,([^"]+)">', thumbnail(make_solution(dimension)))
        assert found is not None
        content = base64.b64decode(found[1])
        assert content.startswith(b"\x89PNG") and len(content) < 20_000


@pytest.mark.parametrize(
    ("shape", "options", "line"),
    [
        ((5, 5), {"field": "v"}, "the solution has no field 'v'; its fields are u"),
        ((5, 5, 5), {"range": "1,0"}, "range: 1,0; allowed: two finite numbers LO,HI with LO less than HI"),
        ((5,), {"range": "0"}, "range: '0'; allowed: two numbers LO,HI such as 0,1.5, or 'full'"),
        ((5,), {"cmap": "magma"}, "cmap: not possible for a curve; leave cmap out"),
        ((5, 5), {"levels": "a"}, "levels: 'a'; allowed: a number of levels, or a list of increasing numbers"),
        ((5,), {"levels": 5}, "levels: not possible for a curve; leave levels out"),
        ((5,), {"vectors": True}, "vectors: not possible for a curve; leave vectors out"),
        ((5, 5), {"lines": True, "slice": "x=0.5"}, "lines: not possible for a curve; leave lines out"),
        (
            (5, 5, 5),
            {"ax": Figure().subplots()},
            "ax: a picture of a 3D field has several axes; give a slice as well, such as slice='z=0.5'",
        ),
    ],
)
def test_what_cannot_be_drawn_is_one_line(shape: tuple[int, ...], options: dict[str, Any], line: str) -> None:
    assert mistake_of(solution_of(shape, "x").plot, **options) == line


def test_a_wrong_unit_is_one_line() -> None:
    with pytest.raises(CaseError, match=r'^length: 3; allowed: the name of a unit, such as "m"'):
        solution_of((5, 5), "x").plot(length=3)  # type: ignore[call-overload]


def test_names_beside_the_axes() -> None:
    assert labels.of_field("f", Units("m", "V")) == "f [V/m²]"
    assert labels.of_field("f", Units("m", "U")) == labels.of_field("f", Units()) == "f"
    assert labels.of_field("a", Units("m", "V")) == "a"
    assert (labels.of_axis("x", Units("m")), labels.of_axis("x", Units())) == ("x [m]", "x")


def test_a_plane_is_drawn_as_large_as_it_may_be() -> None:
    flat = FieldSample((0, 1), (np.array([0.0, 2.0]), np.array([0.0, 1.0])), np.zeros((2, 2)))
    assert planes.box_inches(flat) == (6.0, 3.0)
    assert planes.box_inches(flat, 6.0, 1.0) == (2.0, 1.0)
    assert isinstance(Picture(1.0, 1.0), Figure)
