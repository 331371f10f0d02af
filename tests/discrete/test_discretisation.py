# SPDX-License-Identifier: MIT
"""From a problem to its arrays: source, initial guess and exact solution, node by node."""

import itertools
from functools import partial
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from conftest import BACKENDS
from numpy.typing import NDArray
from support.operators import random_array
from support.problems import arrays, make_case
from support.refusals import mistake_of

from poisson.backends import numpy as numpy_backend
from poisson.backends.base import Backend
from poisson.backends.gpu import launch
from poisson.backends.numpy import NumpyBackend
from poisson.backends.openmp import backend as openmp
from poisson.discrete import reference
from poisson.discrete.discretisation import Discretisation
from poisson.errors import CaseError
from poisson.mesh.axis import plain_rules
from poisson.mesh.boundary import FACE_NAMES, Kind
from poisson.mesh.grid import over_slabs, slabs
from poisson.mesh.lattice import Lattice
from poisson.problem.expressions import Expression
from poisson.problem.faces import Face
from poisson.problem.problem import Problem

# Data that differ from face to face, so that the wrong face gives a wrong value.
DATA = {
    "x_lower": "10 + y + z",
    "x_upper": "20 - y*z",
    "y_lower": "30 + x",
    "y_upper": "40 + x*z",
    "z_lower": "50 + x - y",
    "z_upper": "60 + x*y",
}
F, INITIAL, EXACT = "1 + x + 2*y + 4*z", "x*y + z", "x - y*z"
UPPER = (1.0, 1.5, 0.7)
SHAPES = {1: (6,), 2: (5, 4), 3: (4, 3, 5)}


def formula(text: str, dimension: int) -> str:
    for name in "xyz"[dimension:]:
        text = text.replace(name, "0.5")
    return text


def boundary_of(kinds: tuple[tuple[str, str], ...]) -> dict[str, Any]:
    boundary: dict[str, Any] = {}
    for axis, (lower, upper) in zip("xyz", kinds, strict=False):
        if lower == "periodic":
            boundary[axis] = "periodic"
        else:
            for name, kind in ((f"{axis}_lower", lower), (f"{axis}_upper", upper)):
                boundary[name] = {kind: formula(DATA[name], len(kinds))} | ({"alpha": 0.5} if kind == "robin" else {})
    return boundary


AXIS_KINDS = (
    ("dirichlet", "dirichlet"),
    ("dirichlet", "neumann"),
    ("neumann", "dirichlet"),
    ("neumann", "neumann"),
    ("periodic", "periodic"),
    ("robin", "dirichlet"),
    ("neumann", "robin"),
)
ALL_KINDS = [
    *itertools.product(AXIS_KINDS),
    *itertools.product(AXIS_KINDS, repeat=2),
    *list(itertools.product(AXIS_KINDS, repeat=3))[::2],
]


def problem_of(kinds: tuple[tuple[str, str], ...]) -> Problem:
    dimension = len(kinds)
    equation = {"f": formula(F, dimension), "exact": formula(EXACT, dimension)}
    overrides = (f'run.initial="{formula(INITIAL, dimension)}"',)
    return make_case(equation, boundary_of(kinds), SHAPES[dimension], UPPER, overrides).problem


def value(text: str, point: tuple[float, ...]) -> float:
    x, y, z = (*point, 0.5, 0.5)[:3]
    return float(eval(text, {"x": x, "y": y, "z": z}))


def by_definition(problem: Problem) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Source, initial guess and exact solution, one node after the other."""
    grid = problem.lattice
    source, initial, exact = (np.empty(grid.array_shape) for _ in range(3))
    for node in itertools.product(*(range(count) for count in grid.shape)):
        point = tuple(index * h for index, h in zip(node, grid.spacing, strict=True))
        place = node[::-1]
        on = [
            face
            for face in range(2 * grid.dimension)
            if node[face // 2] == (grid.shape[face // 2] - 1 if face % 2 else 0)
        ]
        dirichlet = [face for face in on if problem.faces[face].kind is Kind.DIRICHLET]
        fluxes = [face for face in on if problem.faces[face].kind in (Kind.NEUMANN, Kind.ROBIN)]
        exact[place] = value(EXACT, point)
        if dirichlet:
            source[place], initial[place] = 0.0, value(DATA[FACE_NAMES[min(dirichlet)]], point)
        else:
            terms = sum(2.0 / grid.spacing[face // 2] * value(DATA[FACE_NAMES[face]], point) for face in fluxes)
            source[place], initial[place] = value(F, point) + terms, value(INITIAL, point)
    return source, initial, exact


def test_source_initial_and_exact_by_definition() -> None:
    for kinds in ALL_KINDS:
        problem = problem_of(kinds)
        discretisation, expected = Discretisation(problem), by_definition(problem)
        for limit in (1, 8, 1 << 20):
            for function, values in zip(
                (discretisation.source, discretisation.initial, discretisation.exact), expected, strict=True
            ):
                parts = [function(np, start, stop) for start, stop in slabs(discretisation.array_shape, limit)]
                made = np.concatenate(parts).reshape(problem.lattice.array_shape)
                np.testing.assert_allclose(made, values, rtol=1e-14, atol=1e-15, err_msg=str(kinds))


def test_the_slab_makes_no_difference() -> None:
    for kinds in ALL_KINDS[::3]:
        discretisation = Discretisation(problem_of(kinds), shift=0.125)
        count = discretisation.array_shape[0]
        for function in (
            *(discretisation.source, discretisation.f, discretisation.initial),
            *(discretisation.exact, discretisation.volumes, discretisation.reaction),
        ):
            whole = function(np, 0, count)
            assert whole.shape == discretisation.array_shape
            for start, stop in itertools.combinations(range(count + 1), 2):
                np.testing.assert_array_equal(function(np, start, stop), whole[start:stop])


@pytest.mark.parametrize("name", ["numpy", "openmp", "emulated", pytest.param("gpu", marks=pytest.mark.gpu)])
def test_the_arrays_are_the_same_on_every_backend(name: str, dtype: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    backend: Backend = {"numpy": NumpyBackend, **BACKENDS}[name](dtype)
    for limit in (1, 1 << 20):
        for module in (numpy_backend, launch):
            monkeypatch.setattr(module, "slabs", lambda shape, limit=limit: slabs(shape, limit))
        monkeypatch.setattr(openmp, "over_slabs", partial(over_slabs, limit=limit))
        for kinds in ALL_KINDS[::6]:
            problem = problem_of(kinds)
            source, initial = reference.assemble(Discretisation(problem))
            got_initial, got_source = arrays(backend, Discretisation(problem))
            np.testing.assert_array_equal(backend.to_host(got_source), source.astype(dtype))
            np.testing.assert_array_equal(backend.to_host(got_initial), initial.astype(dtype))


def corner(boundary: dict[str, Any]) -> tuple[float, float]:
    """Source and initial guess at the corner in the origin of a 3 x 3 x 3 grid with spacing 1/2, f = 1, initial = 9."""
    everywhere = {"all": {"dirichlet": 0.0}}
    case = make_case({"f": 1.0}, everywhere | boundary, (3, 3, 3), overrides=("run.initial=9.0",))
    source, initial = reference.assemble(Discretisation(case.problem))
    return float(source[0, 0, 0]), float(initial[0, 0, 0])


def test_precedence_at_a_corner() -> None:
    x, y, z = ({f"{axis}_lower": {"dirichlet": value}} for axis, value in zip("xyz", (1.0, 2.0, 3.0), strict=True))
    gx, gy, gz = ({f"{axis}_lower": {"neumann": value}} for axis, value in zip("xyz", (1.0, 2.0, 4.0), strict=True))
    assert corner(x | y | z) == (0.0, 1.0)
    assert corner(gx | y | z) == (0.0, 2.0)
    assert corner(x | gy | z) == (0.0, 1.0)
    assert corner(gx | gy | z) == (0.0, 3.0)
    # Each Neumann face adds 2 g / h.
    assert corner(gx | gy | gz) == (1.0 + 4.0 * (1.0 + 2.0 + 4.0), 9.0)
    assert corner({"x": "periodic"} | gy | gz) == (1.0 + 4.0 * (2.0 + 4.0), 9.0)
    assert corner({"x": "periodic", "y": "periodic"} | z) == (0.0, 3.0)


def test_a_lower_face_precedes_an_upper_one() -> None:
    """Two faces of one axis share no node, so the order shows only between axes: x_upper before y_lower."""
    boundary = {"all": {"dirichlet": 0.0}, "x_upper": {"dirichlet": 1.0}, "y_lower": {"dirichlet": 2.0}}
    _, initial = reference.assemble(Discretisation(make_case({"f": 0.0}, boundary, (3, 3)).problem))
    np.testing.assert_array_equal(initial[0], [0.0, 2.0, 1.0])
    np.testing.assert_array_equal(initial[:, 2], [1.0, 1.0, 1.0])


# ---- values that are not finite

BAD_2D: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    ({"f": "1/(x - 0.5)"}, {}, "equation.f: inf at x = 0.5, y = 0; every value must be finite"),
    ({"f": "log(0.7 - y)"}, {}, "equation.f: nan at x = 0, y = 0.75; every value must be finite"),
    ({"f": "1/(x*y - 0.375)"}, {}, "equation.f: inf at x = 0.75, y = 0.5; every value must be finite"),
    ({"f": 0.0}, {"x_upper": {"dirichlet": "1/(y - 0.5)"}}, "boundary.x_upper: inf at x = 1, y = 0.5"),
    ({"f": 0.0}, {"y_lower": {"neumann": "sqrt(x - 0.5)"}}, "boundary.y_lower: nan at x = 0, y = 0"),
    ({"f": 0.0}, {"y_upper": {"neumann": "-1/(1 - x)"}}, "boundary.y_upper: -inf at x = 1, y = 1"),
    ({"f": 0.0}, {"x_lower": {"dirichlet": "1/x"}}, "boundary.x_lower: inf at x = 0, y = 0"),
]
REST = "; every value must be finite"


@pytest.mark.parametrize("limit", [1, 1 << 20])
@pytest.mark.parametrize(("equation", "boundary", "message"), BAD_2D, ids=[row[2] for row in BAD_2D])
def test_a_value_that_is_not_finite_is_named_with_its_place(
    equation: dict[str, Any], boundary: dict[str, Any], message: str, limit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reference, "slabs", partial(slabs, limit=limit))
    problem = make_case(equation, {"all": {"dirichlet": 0.0}} | boundary, (5, 5)).problem
    assert mistake_of(reference.assemble, Discretisation(problem)) == message.removesuffix(REST) + REST


def test_a_value_that_is_not_finite_in_3d() -> None:
    boundary = {"all": {"dirichlet": 0.0}, "z_upper": {"neumann": "1/(x - 0.5)"}}
    discretisation = Discretisation(make_case({"f": 0.0, "exact": "1/(z - 0.5)"}, boundary, (5, 4, 3)).problem)
    with pytest.raises(CaseError, match=r"^boundary\.z_upper: inf at x = 0\.5, y = 0, z = 1; every"):
        discretisation.source(np, 2, 3)
    discretisation.source(np, 0, 2)
    with pytest.raises(CaseError, match=r"^equation\.exact: inf at x = 0, y = 0, z = 0\.5; every"):
        discretisation.exact(np, 1, 3)
    discretisation.exact(np, 2, 3)
    problem = make_case({"f": 0.0}, boundary, (5, 4, 3), overrides=('run.initial="sqrt(x - 0.5)"',)).problem
    with pytest.raises(CaseError, match=r"^run\.initial: nan at x = 0, y = 0, z = 0; every"):
        Discretisation(problem).initial(np, 0, 1)


# ---- fields from files
@pytest.mark.parametrize("limit", [1, 1 << 20])
@pytest.mark.parametrize("shape", [(5, 7), (4, 3, 6)])
def test_fields_from_files(tmp_path: Path, shape: tuple[int, ...], limit: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reference, "slabs", partial(slabs, limit=limit))
    f, initial = (random_array(shape[::-1], np.float32, seed) for seed in (1, 2))
    np.save(tmp_path / "u.npy", initial)
    with h5py.File(tmp_path / "f.h5", "w") as file:
        file["group/f"] = f
    case = make_case(
        {"f": {"file": "f.h5", "dataset": "group/f"}},
        {"all": {"neumann": 0.0}, "x_lower": {"dirichlet": 5.0}},
        shape,
        folder=tmp_path,
        overrides=('run.initial={file = "u.npy"}',),
    )
    source, guess = reference.assemble(Discretisation(case.problem))
    expected_f, expected_guess = f.astype(np.float64), initial.astype(np.float64)
    expected_f[..., 0], expected_guess[..., 0] = 0.0, 5.0
    np.testing.assert_array_equal(source, expected_f)
    np.testing.assert_array_equal(guess, expected_guess)


def test_a_file_with_a_value_that_is_not_finite(tmp_path: Path) -> None:
    f = np.zeros((4, 5))
    f[2, 3] = np.nan
    np.save(tmp_path / "f.npy", f)
    case = make_case({"f": {"file": "f.npy"}}, {"all": {"dirichlet": 0.0}}, (5, 4), folder=tmp_path)
    with pytest.raises(CaseError, match=r"^equation\.f: nan at x = 0\.75, y = 0\.666667; every value must be finite$"):
        reference.assemble(Discretisation(case.problem))


# ---- what a problem is made of
def test_a_problem_checks_itself() -> None:
    zero = Expression.constant(0.0)
    wall, periodic = Face(Kind.DIRICHLET, zero), Face(Kind.PERIODIC)
    grid = Lattice.box((0.0, 0.0), (1.0, 1.0), (3, 3), plain_rules(True, False))
    Problem(grid, (periodic, periodic, wall, wall), zero)
    with pytest.raises(ValueError, match="4 faces are needed, 3 are given"):
        Problem(grid, (periodic, periodic, wall), zero)
    for c in (-1.0, float("nan")):
        with pytest.raises(ValueError, match="it must be >= 0"):
            Problem(grid, (periodic, periodic, wall, wall), zero, c)
    for faces in ((wall,) * 4, (periodic, wall, wall, wall), (periodic,) * 4):
        with pytest.raises(ValueError, match="do not agree on whether the axis is periodic"):
            Problem(grid, faces, zero)
    with pytest.raises(ValueError, match="needs a value"):
        Face(Kind.NEUMANN)
    with pytest.raises(ValueError, match="unless it is periodic, open or the axis; then it has none"):
        Face(Kind.PERIODIC, zero)
    for face in ((Kind.ROBIN, zero), (Kind.NEUMANN, zero, zero), (Kind.PERIODIC, None, zero)):
        with pytest.raises(ValueError, match="a Robin face needs alpha, and no other has one"):
            Face(*face)
    for a in (0.0, -1.0, float("nan")):
        with pytest.raises(ValueError, match="it must be > 0"):
            Problem(grid, (periodic, periodic, wall, wall), zero, a=a)
    with pytest.raises(ValueError, match="mean = 'geometric'"):
        Problem(grid, (periodic, periodic, wall, wall), zero, mean="geometric")
