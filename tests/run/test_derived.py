# SPDX-License-Identifier: MIT
"""What follows from a solution: E, gradients and fluxes that nobody asked for before, points, faces."""

import math
import pickle
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from support.results import make_solution, part_of

import poisson
from poisson.errors import BackendUnavailable, CaseError, GridError
from poisson.mesh import interpolation
from poisson.output.reading import StoredArray
from poisson.parallel.communicator import Serial
from poisson.run import derived

PROBLEM = poisson.Problem.on_box(
    (17, 13),
    f="sin(x)",
    a="1 + x*y",
    c=0.5,
    upper=(2.0, 1.0),
    boundary={"x_lower": 1.0, "x_upper": {"robin": 0.3, "alpha": 2.0}, "y": "periodic"},
)


@pytest.mark.parametrize("backend", ["openmp", "numpy"])
@pytest.mark.parametrize("a", ["1 + x*y", 2.0])
def test_derivatives_are_those_that_a_solve_is_asked_for(monkeypatch: pytest.MonkeyPatch, backend: str, a: Any) -> None:
    create, asked = derived.backends.create, []

    def made(name: str, dtype: Any) -> Any:
        asked.append(name)
        if name != backend and backend == "numpy":
            raise BackendUnavailable("not here")
        return create(name, dtype)

    monkeypatch.setattr(derived, "backends", SimpleNamespace(create=made))
    problem = poisson.Problem.on_box((9, 8), f="exp(x)", a=a, boundary={"y": "periodic", "all": "y"})
    wanted = poisson.solve(problem, "multigrid", "numpy", fields=("gradient", "flux"))
    bare = poisson.solve(problem, "multigrid", "numpy")
    np.testing.assert_allclose(bare.gradient, wanted.fields["gradient"], rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(bare.flux, wanted.fields["flux"], rtol=1e-12, atol=1e-13)
    assert asked[-1] == backend
    assert bare.gradient is bare.gradient and wanted.flux is wanted.fields["flux"]
    np.testing.assert_array_equal(bare.E, -bare.gradient)
    assert pickle.loads(pickle.dumps(bare)).E.shape == (8, 9, 2)
    single = poisson.solve(problem, "multigrid", "numpy", "float32", rtol=1e-3)
    assert single.E.dtype == np.float32


@pytest.mark.parametrize("precision", ["float64", "float32"])
@pytest.mark.parametrize("shape", [(9,), (9, 8), (9, 8, 7)])
def test_the_field_strength_of_a_file_is_that_of_the_solution(
    tmp_path: Path, shape: tuple[int, ...], precision: str
) -> None:
    problem = poisson.Problem.on_box(shape, f="exp(x)", a="2 + x", boundary={"all": "x*x"})
    given = {"method": "multigrid", "backend": "numpy", "precision": precision, "rtol": 1e-4}
    bare, asked = poisson.solve(problem, **given), poisson.solve(problem, fields=("E",), **given)
    both = poisson.solve(problem, fields=("E", "gradient", "flux"), **given)
    assert list(asked.fields) == ["E"] and asked.fields["E"].dtype == np.dtype(precision)
    assert asked.fields["E"].shape == (*bare.u.shape, len(shape))
    np.testing.assert_array_equal(asked.fields["E"], bare.E)
    np.testing.assert_array_equal(both.fields["E"], bare.E)
    np.testing.assert_array_equal(both.fields["gradient"], bare.gradient)
    assert asked.E is asked.fields["E"]
    loaded = poisson.load(asked.save(tmp_path / "a.h5"), lazy=True)
    np.testing.assert_array_equal(loaded.E, bare.E)
    np.testing.assert_array_equal(loaded.gradient, bare.gradient)


def test_the_gradient_beside_a_field_strength_of_higher_order_has_that_order() -> None:
    problem = poisson.Problem.on_box((17, 17), f=0.0, boundary="exp(x)*sin(y)")
    wanted = {name: poisson.solve(problem, "fft", "numpy", fields=(name,), order=6) for name in ("E", "gradient")}
    np.testing.assert_array_equal(wanted["E"].gradient, wanted["gradient"].gradient)
    np.testing.assert_array_equal(wanted["E"].E, wanted["gradient"].E)


def test_points_of_u_and_of_vectors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    boundary = {"y_upper": "sin(pi*x)", "all": 0.0}
    problem = poisson.Problem.on_box((33, 33), f="pi*pi*sin(pi*x)*y", boundary=boundary)
    solution = poisson.solve(problem, "fft", "numpy")
    assert isinstance(solution.at(0.3, 0.6), float)
    assert solution.at(0.3, 0.6) == pytest.approx(math.sin(0.3 * math.pi) * 0.6, abs=1e-3)
    field = solution.at([0.3, 0.4], 0.6, field="E")
    assert field.shape == (2, 2)
    np.testing.assert_allclose(
        field[0], [-math.pi * math.cos(0.3 * math.pi) * 0.6, -math.sin(0.3 * math.pi)], atol=5e-3
    )
    loaded = poisson.load(solution.save(tmp_path / "a.h5"), lazy=True)
    assert loaded.at(0.3, 0.6) == solution.at(0.3, 0.6)
    with monkeypatch.context() as patched:
        patched.delattr(StoredArray, "get")  # of few points only the part around them is read
        np.testing.assert_array_equal(loaded.at([0.3, 0.4], 0.6), solution.at([0.3, 0.4], 0.6))
        patched.setattr(interpolation, "AT_ONCE", 1)
        with pytest.raises(AttributeError):
            loaded.at([0.3, 0.4], 0.6)
    np.testing.assert_array_equal(loaded.E, solution.E)
    with pytest.raises(CaseError, match="the solution has no field 'q'; its fields are u, gradient, flux, E"):
        solution.at(0.3, 0.6, field="q")
    with pytest.raises(GridError, match="coordinates: 1 given; this grid needs x, y"):
        solution.at(0.3)


def test_the_flows_through_the_faces_balance_the_source(tmp_path: Path) -> None:
    solution = poisson.solve(PROBLEM, "multigrid", "numpy", rtol=1e-13, fields=("residual",))
    flows = solution.fluxes()
    assert list(flows) == ["x_lower", "x_upper"]
    assert solution.face_flux("x_upper") == flows["x_upper"]
    grid = PROBLEM.lattice
    weights = np.full(grid.array_shape, math.prod(grid.spacing))
    weights[:, [0, -1]] *= 0.5
    f = np.sin(grid.coordinates(0))
    made = float((weights * (f - 0.5 * solution.u - solution.fields["residual"])).sum())
    assert math.fsum(flows.values()) == pytest.approx(made, rel=1e-12)
    loaded = poisson.load(solution.save(tmp_path / "a.h5"))
    assert loaded.fluxes() == flows


def test_a_face_that_nothing_leaves_through_is_refused() -> None:
    solution = poisson.solve(PROBLEM, "multigrid", "numpy")
    for face in ("y_lower", "z_upper", "left"):
        with pytest.raises(CaseError, match=f"face: '{face}'; allowed: x_lower, x_upper"):
            solution.face_flux(face)
    periodic = poisson.solve(poisson.Problem.on_box((8,), c=1.0, boundary="periodic"), backend="numpy")
    assert periodic.fluxes() == {}
    with pytest.raises(CaseError, match="allowed: none, because every axis is periodic"):
        periodic.face_flux("x_lower")


def test_a_singular_problem_is_balanced_before() -> None:
    problem = poisson.Problem.on_box((17,), f="cos(pi*x) + 1e-3", boundary={"all": {"neumann": 0.0}})
    assert poisson.solve(problem, backend="numpy").fluxes() == {"x_lower": 0.0, "x_upper": 0.0}


def test_a_part_of_a_solution_is_refused_in_one_line() -> None:
    part = part_of(make_solution(2), Serial(), (1, 1))
    assert part.gradient.shape == (4, 5, 2)
    parts = make_solution(2, u=make_solution(2).u[:2])
    for ask in (lambda: parts.E, lambda: parts.at(0.1, 0.1), lambda: parts.face_flux("x_lower"), parts.fluxes):
        with pytest.raises(CaseError, match="each process has a part of u; "):
            ask()
