# SPDX-License-Identifier: MIT
"""The sample of a problem's functions at few of its nodes, whatever the size of the grid."""

import itertools
import math
from pathlib import Path

import numpy as np
import pytest

from poisson.errors import CaseError
from poisson.problem.expressions import parse
from poisson.problem.problem import Problem
from poisson.problem.sampling import POSITIVE
from poisson.run.sample import MOST_NODES, Sample

HUGE = 10**11


def sample_of(shape: tuple[int, ...], **given: object) -> Sample:
    return Sample(Problem.on_box(shape, **given))  # type: ignore[arg-type]


def test_a_small_grid_is_its_own_sample() -> None:
    sample = sample_of((5, 4), f="x + 10*y", lower=(1.0, 0.0), upper=(2.0, 3.0))
    assert sample.complete and sample.shape == (5, 4)
    x, y = np.linspace(1.0, 2.0, 5), np.linspace(0.0, 3.0, 4)
    assert np.array_equal(sample.nodes("f", sample.problem.f), x + 10.0 * y[:, np.newaxis])
    assert np.array_equal(sample.nodes("c", 2.0), np.full((4, 5), 2.0))


@pytest.mark.parametrize("shape", [(HUGE,), (HUGE, 7), (10**5, 10**6), (10**4, HUGE, 10**5)])
def test_a_sample_has_few_nodes_of_the_grid_from_end_to_end(shape: tuple[int, ...]) -> None:
    sample = sample_of(shape, f="x")
    assert not sample.complete and math.prod(sample.shape) <= MOST_NODES
    for nodes, runs in zip(shape, sample.runs, strict=True):
        assert runs[0][0] == 0 and runs[-1][1] == nodes
        assert all(before[1] <= after[0] for before, after in itertools.pairwise(runs))
    for runs, inner in zip(sample.runs, sample.neighbours, strict=True):
        assert inner.sum() == sum(stop - start - 2 for start, stop in runs)
    values = sample.nodes("f", sample.problem.f)
    assert values.shape == sample.shape[::-1]
    line = values.reshape(-1, sample.shape[0])[0]
    # The very nodes of the grid, some of them next to each other.
    assert (line[0], line[-1]) == (0.0, 1.0)
    assert line[1] == 1.0 / (shape[0] - 1)


def test_files_and_arrays_are_read_in_the_same_places(tmp_path: Path) -> None:
    shape = (900, 700)
    x, y = np.linspace(0.0, 1.0, shape[0]), np.linspace(0.0, 1.0, shape[1])[:, np.newaxis]
    array = x + 7.0 * y
    np.save(tmp_path / "f.npy", array)
    from poisson.problem.fields import FieldFile

    sample = sample_of(shape, f=array, boundary={"all": array[0, 0], "x_upper": {"neumann": np.linspace(0, 1, 700)}})
    assert not sample.complete
    wanted = sample.nodes("f", parse("x + 7*y", 2, {}))
    assert np.allclose(sample.nodes("f", sample.problem.f), wanted, rtol=0.0, atol=1e-12)
    assert np.allclose(sample.nodes("f", FieldFile(tmp_path / "f.npy")), wanted, rtol=0.0, atol=1e-12)
    value = sample.problem.faces[1].value
    assert value is not None
    along = sample.face(1, "g", value)
    assert np.allclose(along, sample.face(1, "g", parse("y", 2, {})), atol=1e-12) and along.shape == (sample.shape[1],)
    assert sample.face(1, "g", value, at={1: (699, 700)}) == pytest.approx(1.0)


def test_the_places_on_faces_and_edges() -> None:
    sample = sample_of((3, 4, 5), f=0.0)
    function = parse("x + 10*y + 100*z", 3, {})
    assert sample.face(2, "g", function).shape == (5, 3)
    assert sample.face(3, "g", function)[0].tolist() == [10.0, 10.5, 11.0]
    edge = sample.face(3, "g", function, at={2: (4, 5)})
    assert edge.reshape(-1).tolist() == [110.0, 110.5, 111.0]


def test_a_value_that_is_wrong_is_told_with_its_place() -> None:
    sample = sample_of((5, 5), f=0.0)
    with pytest.raises(CaseError, match=r"equation\.a: -0\.25 at x = 0\.25, y = 0; every value must be > 0"):
        sample.nodes("equation.a", parse("1 - 5*x", 2, {}), POSITIVE)
    with pytest.raises(CaseError, match=r"boundary\.x_upper: inf at x = 1, y = 0; every value must be finite"):
        sample.face(1, "boundary.x_upper", parse("1/y", 2, {}))


def test_an_end_of_an_axis_that_is_no_node() -> None:
    sample = sample_of((4, 3), f=0.0, boundary={"x": "periodic", "all": 0.0}, upper=(2.0, 1.0))
    function = parse("x + 10*y", 2, {})
    assert sample.end(0, False, function).reshape(-1).tolist() == [0.0, 5.0, 10.0]
    assert sample.end(0, True, function).reshape(-1).tolist() == [2.0, 7.0, 12.0]
    assert sample.end(0, True, function, 3).reshape(-1).tolist() == [12.0]


@pytest.mark.parametrize(
    ("text", "least", "most"),
    [
        ("3", 0.0, 0.0),
        ("x + y", 0.0, 0.0),
        ("sin(2*pi*x)*sin(3*pi*y)", 0.0, 0.01),
        ("where(hypot(x - 0.5, y - 0.5) < 0.3, 1, 0)", 0.0, 0.05),
        ("exp(-((x - 0.5)**2 + (y - 0.5)**2)*32**2)", 0.2, 0.5),
        ("exp(-((x - 0.5)**2 + (y - 0.5)**2)*8**2)", 0.0, 0.05),
        ("sin(32*pi*x)", 0.9, 1.1),
        ("where(abs(x - 0.5) < 0.01, 1, 0)", 0.9, 1.1),
    ],
)
def test_what_goes_up_and_down_from_node_to_node_is_rough(text: str, least: float, most: float) -> None:
    """On 33² nodes: a step is not, a bell of the width of a spacing and a wave of four nodes are."""
    sample = sample_of((65 if "32*pi" in text else 33, 33), f=text)
    assert least <= sample.roughness(sample.nodes("f", sample.problem.f)) <= most


def test_what_a_small_grid_does_not_resolve_a_large_one_does() -> None:
    for text in ("exp(-((x - 0.5)**2 + (y - 0.5)**2)*32**2)", "sin(32*pi*x)"):
        sample = sample_of((3000, 3000), f=text)
        assert sample.roughness(sample.nodes("f", sample.problem.f)) < 0.01


def test_the_wavenumber_of_a_wave() -> None:
    sample = sample_of((257, 65), f="sin(6*pi*x)*sin(2*pi*y)")
    found = sample.wavenumber(sample.nodes("f", sample.problem.f))
    assert math.isclose(found, math.pi**2 * (6**2 + 2**2), rel_tol=0.03)
    assert sample.wavenumber(np.zeros((65, 257))) == 0.0


def test_a_peak_between_nodes_is_found() -> None:
    width, text = 1 / 200, "5*exp(-((x - 0.512)**2 + (y - 0.483)**2)/w**2)"
    sample = sample_of((17, 17), f=0.0)
    narrow = parse(text, 2, {"w": width})
    values = sample.nodes("f", narrow)
    assert values.max() < 2.0 < 4.5 < sample.peak(narrow, values) <= 5.0
    wide = parse(text, 2, {"w": 0.3})
    values = sample.nodes("f", wide)
    assert math.isclose(sample.peak(wide, values), values.max(), rel_tol=0.02)
    pole = parse("1/hypot(x - 0.53125, y - 0.5)", 2, {})
    assert sample.peak(pole, sample.nodes("f", pole)) == math.inf
