# SPDX-License-Identifier: MIT
"""Axes of case files and of `Problem.on_box` whose nodes are stretched, listed or the centres of cells."""

import math
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.places import ROOT

import poisson
from poisson.case import Case, from_mapping, load, regrid
from poisson.errors import CaseError
from poisson.problem.problem import Problem
from poisson.run.verify import verify

EXACT = "exp(x)*cosh(2*y)"
BENT = np.linspace(-1.0, 1.0, 65) + 0.2 * (1.0 - np.linspace(-1.0, 1.0, 65) ** 2)
TANH = {"stretch": "tanh", "ratio": 10.0}


def case(tmp_path: Path = Path(), *, boundary: Any = None, method: str = "auto", **domain: Any) -> Case:
    """A case with an exact solution on [0, 1] × [−1, 1]."""
    box: dict[str, Any] = {"lower": [0.0, -1.0], "upper": [1.0, 1.0], "shape": [17, 33]}
    tables = {
        "equation": {"f": "exact", "exact": EXACT},
        "domain": {key: given for key, given in (box | domain).items() if given is not None},
        "boundary": boundary or {"all": {"dirichlet": "exact"}},
        "solver": {"method": method},
        "run": {"backend": "numpy"},
    }
    return from_mapping(tables, name="case", folder=tmp_path)


def nodes(**domain: Any) -> np.ndarray[Any, Any]:
    return case(**domain).problem.lattice.coordinates(1)


@pytest.mark.parametrize("kind", ["tanh", "geometric"])
def test_a_stretch_has_its_ratio_towards_its_end_and_nests(kind: str) -> None:
    for towards in ("lower", "upper", "both"):
        table = {"stretch": kind, "ratio": 30.0, "towards": towards}
        y = nodes(y=table, shape=[3, 4001])
        gaps = np.diff(y)
        least = {"lower": [0], "upper": [-1], "both": [0, -1]}[towards]
        assert gaps.max() / gaps[least] == pytest.approx(30.0, rel=0.02)
        np.testing.assert_allclose(nodes(y=table, shape=[3, 2001]), y[::2], rtol=0.0, atol=1e-14)
        assert (y[0], y[-1]) == (-1.0, 1.0)
    if kind == "geometric":
        lower = np.diff(nodes(y={"stretch": kind, "ratio": 30.0, "towards": "lower"}))
        np.testing.assert_allclose(lower[1:] / lower[:-1], 30.0 ** (1.0 / 32.0), rtol=1e-12)


def test_a_map_is_scaled_onto_its_axis(tmp_path: Path) -> None:
    s = np.linspace(0.0, 1.0, 33)
    np.testing.assert_allclose(
        nodes(y={"map": "1 + tanh(2*s)"}), 2.0 * np.tanh(2.0 * s) / math.tanh(2.0) - 1.0, atol=1e-15
    )
    # The middles of cells, whose faces are mapped.
    walls = np.linspace(-1.0, 1.0, 34)
    np.testing.assert_allclose(nodes(centring={"y": "cell"}), (walls[1:] + walls[:-1]) / 2.0, atol=1e-15)
    periodic = {"x": "periodic", "all": {"dirichlet": 0.0}}
    x = case(boundary=periodic, x={"map": "s + 0.1*sin(2*pi*s)"}).problem.lattice.coordinates(0)
    s = np.arange(17) / 17
    np.testing.assert_allclose(x, s + 0.1 * np.sin(2 * np.pi * s), atol=1e-15)


def test_listed_nodes_say_the_box_and_may_stand_in_a_file(tmp_path: Path) -> None:
    y = np.linspace(-1.0, 1.0, 9) ** 3
    np.save(tmp_path / "y.npy", y)
    tables = {"x": {"nodes": [0.0, 0.3, 1.0]}, "y": {"file": "y.npy"}}
    found = case(tmp_path, lower=None, upper=None, shape=None, **tables)
    assert found.problem.lattice.upper == (1.0, 1.0) and found.problem.lattice.shape == (3, 9)
    assert np.array_equal(found.problem.lattice.coordinates(1), y)
    assert found.problem == Problem.on_box(
        x=[0.0, 0.3, 1.0], y=y, f=found.problem.f, boundary=EXACT, exact=EXACT, title="case"
    )
    assert case(tmp_path, shape=[17, 9], y=tables["y"]).problem.lattice.axes[0].placement is None


@pytest.mark.parametrize(
    ("domain", "line"),
    [
        ({"y": {"stretch": "tanh"}}, "domain.y: stretch without ratio; allowed: with ratio, how many times"),
        ({"y": TANH | {"ratio": 0.5}}, "domain.y.ratio: 0.5; allowed: a number > 1 and <= 1e6"),
        ({"y": TANH | {"stretch": "tan"}}, 'domain.y.stretch: "tan"; allowed: "tanh" or "geometric"; did you mean'),
        ({"y": TANH | {"map": "s"}}, "domain.y: map, stretch; allowed: exactly one of nodes, file, map, stretch"),
        ({"y": {}}, "domain.y: no places; allowed: exactly one of"),
        ({"y": {"map": "s", "dataset": "y"}}, "domain.y: dataset beside map; allowed: only beside file"),
        ({"y": {"map": "s*q"}}, "domain.y.map: unknown name 'q' at column 3"),
        ({"y": {"map": "y"}}, "domain.y.map: unknown name 'y' at column 1"),
        ({"y": {"map": "sin(7*s)"}}, "domain.y.map: 'sin(7*s)'; allowed: an expression that grows with s"),
        ({"y": {"nodes": [-1.0, 1.0, 1.0]}}, "domain.y: 1 after 1; the places along an axis must ascend"),
        ({"y": {"nodes": [-1, 0.5, 1]}}, "domain.shape: 33 along y; allowed: 3, as the nodes along y have"),
        ({"y": {"file": "none.npy"}}, "domain.y: no such file: 'none.npy'"),
        ({"lower": None, "x": {"nodes": [0, 0.3, 1]}}, "domain.lower: missing; allowed: 1, 2 or 3 finite numbers"),
        ({"z": {"map": "s"}}, "domain.z: unknown key; allowed: lower, upper, shape, x, y, centring"),
        ({"centring": "cells"}, 'domain.centring: "cells"; allowed: "node", "cell" or a table'),
        ({"centring": {"z": "cell"}}, "domain.centring.z: unknown key; allowed: x, y"),
    ],
)
def test_every_mistake_of_an_axis_has_its_line(domain: dict[str, Any], line: str) -> None:
    with pytest.raises(CaseError) as error:
        case(**domain)
    assert [each[: len(line)] for each in error.value.mistakes] == [line]


@pytest.mark.parametrize(
    ("given", "line"),
    [
        ({"y": [0, 1, 2]}, "shape: missing; allowed: the number of nodes along x, or x = their places"),
        ({"x": [0, 1, 2], "shape": (4, 4)}, "shape: 4 along x; allowed: 3, as the nodes along x have"),
        ({"x": [0, 1, 2], "y": [0, 1, 2], "shape": (3,)}, "lower, upper and shape have 2, 2, 1 entries; allowed: one"),
        ({"x": [2, 1, 0]}, "x: 1 after 2; the places along an axis must ascend"),
        ({"shape": (9, 9), "centring": "cells"}, 'centring: \'cells\'; allowed: "node", "cell" or a mapping'),
        ({"shape": (9, 9), "centring": {"z": "cell"}}, "centring: {'z': 'cell'}; allowed"),
        ({"shape": (9, 2), "centring": "cell"}, "y: 2 nodes; at least 3 are needed"),
        ({}, "shape: None; allowed: 1, 2 or 3 integers"),
    ],
)
def test_every_mistake_of_an_axis_in_python_has_its_line(given: dict[str, Any], line: str) -> None:
    with pytest.raises(CaseError) as error:
        Problem.on_box(**given)
    assert [each[: len(line)] for each in error.value.mistakes] == [line]


@pytest.mark.parametrize(
    "domain",
    [
        {"y": TANH},
        {"y": TANH, "x": {"map": "exp(s)"}, "centring": "cell", "shape": [32, 64]},
        {"centring": {"x": "cell"}, "shape": [32, 65], "y": {"nodes": BENT.tolist()}},
    ],
)
@pytest.mark.parametrize("face", [{"dirichlet": "exact"}, {"neumann": "exact"}, {"robin": "exact", "alpha": 2.0}])
def test_refinement_observes_the_second_order(domain: dict[str, Any], face: dict[str, Any]) -> None:
    boundary = {"x_upper": face, "y_lower": face, "all": {"dirichlet": "exact"}}
    given = case(boundary=boundary, **{"shape": [33, 65]} | domain)
    found = verify(given, 3)
    assert found.passed and abs(found.rows[-1]["order"] - 2.0) < 0.1, found.notes
    assert found.rows[-1]["shape"] == given.problem.lattice.shape


def test_a_result_knows_its_case(tmp_path: Path) -> None:
    path = tmp_path / "result.h5"
    for domain in ({"y": TANH, "centring": {"x": "cell"}}, {"y": {"nodes": [-1.0, 0.5, 1.0]}, "shape": [17, 3]}):
        given = case(**domain)
        poisson.solve(given).save(path, overwrite=True)
        assert poisson.load(path).problem == given.problem
        assert from_mapping(tomllib.loads(given.text), name="case", folder=".").problem == given.problem
    long = np.linspace(0.0, 1.0, 3500) ** 1.1
    for axes in ({"x": long, "y": [0, 1, 3]}, {"x": long[::100], "shape": (35, 9), "centring": {"y": "cell"}}):
        problem = Problem.on_box(**axes, f=1.0)
        poisson.solve(problem, "jacobi", "numpy", max_iterations=1).save(path, overwrite=True)
        assert poisson.load(path).problem == problem


def test_other_numbers_of_nodes_go_by_the_map_or_between_those_listed() -> None:
    table = {"map": "s**2"}
    np.testing.assert_array_equal(
        regrid(case(y=table), (9, 9)).problem.lattice.coordinates(1), nodes(y=table, shape=[9, 9])
    )
    listed = case(y={"nodes": [-1.0, 0.0, 1.0]}, shape=[5, 3])
    finer = regrid(listed, (9, 5))
    assert finer.problem.lattice.coordinates(1).tolist() == [-1.0, -0.5, 0.0, 0.5, 1.0]
    assert (
        "nodes = [" in finer.text
        and from_mapping(tomllib.loads(finer.text), name="case", folder=".").problem == finer.problem
    )


def test_the_staggered_example_of_fishpack_to_all_digits() -> None:
    """HSTCRT prints a discretisation error of 1.260008E-03 (J. Adams, P. Swarztrauber and R. Sweet, FISHPACK)."""
    found = load(ROOT / "cases" / "staggered.toml", ["run.backend=numpy"])
    solution = poisson.solve(found)
    assert solution.error is not None and solution.error.max == pytest.approx(1.260008e-3, abs=5e-10)
