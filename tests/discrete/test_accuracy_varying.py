# SPDX-License-Identifier: MIT
"""Variable coefficients, Robin faces and one dimension: order of accuracy, and solutions that are met exactly."""

import math
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from conftest import BACKENDS
from numpy.typing import NDArray
from support.problems import discretise, make_case

from poisson.case import Case
from poisson.discrete import reference
from poisson.discrete.flux import link_flux
from poisson.run import run
from poisson.run.result_fields import Evaluation, error_of
from poisson.solvers.status import Status

DIRICHLET, NEUMANN = {"dirichlet": "exact"}, {"neumann": "exact"}
ROBIN = {"robin": "exact", "alpha": 2.5}
ROBIN_X, ROBIN_Y = {"robin": "exact", "alpha": "1 + y**2"}, {"robin": "exact", "alpha": "exp(x)"}
UPPER = (1.0, 1.3, 0.8)

SMOOTH: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "1d dirichlet": ({"a": "1 + x**2", "exact": "exp(x)*sin(3*x)"}, {"all": DIRICHLET}),
    "1d neumann": ({"a": "exp(x)", "exact": "cos(3*x)"}, {"x_lower": DIRICHLET, "x_upper": NEUMANN}),
    "1d robin": ({"a": "2 - x", "c": "x", "exact": "exp(2*x)"}, {"all": ROBIN}),
    "1d robin, nothing else": ({"exact": "exp(2*x)"}, {"all": ROBIN}),
    "1d periodic": ({"a": "2 + sin(2*pi*x)", "exact": "cos(2*pi*x)"}, {"x": "periodic"}),
    "1d all neumann": ({"a": "2 + sin(3*x)", "exact": "cos(3*x)"}, {"all": NEUMANN}),
    "2d dirichlet": ({"a": "1 + x*y", "c": "3*x", "exact": "exp(x)*sin(2*y)"}, {"all": DIRICHLET}),
    "2d all neumann": ({"a": "exp(x - y)", "exact": "cos(3*x)*exp(y)"}, {"all": NEUMANN}),
    "2d robin": (
        {"a": "2 + cos(3*x + y)", "exact": "exp(x)*sin(2*y)"},
        {"x_lower": ROBIN_X, "x_upper": ROBIN_X, "y_lower": ROBIN_Y, "y_upper": ROBIN},
    ),
    "2d mixed": (
        {"a": "1 + x**2 + y", "c": "1 + x", "exact": "cos(2*x + y)"},
        {"x_lower": ROBIN_X, "x_upper": DIRICHLET, "y_lower": NEUMANN, "y_upper": ROBIN_Y},
    ),
    "2d periodic and robin": (
        {"a": "(2 + sin(2*pi*x))*exp(y)", "exact": "sin(2*pi*x)*exp(y)"},
        {"x": "periodic", "y_lower": ROBIN, "y_upper": NEUMANN},
    ),
    "3d every kind": (
        {"a": "(2 + sin(2*pi*x))*(1 + z)", "c": "y", "exact": "sin(2*pi*x)*exp(y)*cos(2*z)"},
        {"x": "periodic", "y_lower": ROBIN, "y_upper": DIRICHLET, "z_lower": NEUMANN, "z_upper": ROBIN_Y},
    ),
}
INTERVALS = {1: ((24,), (48,)), 2: ((16, 20), (32, 40)), 3: ((8, 10, 6), (16, 20, 12))}


def errors_on_two_grids(equation: dict[str, Any], boundary: dict[str, Any], dimension: int) -> list[float]:
    """The rms errors of direct solutions on a grid and on one with half the spacing."""
    errors = []
    for intervals in INTERVALS[dimension]:
        shape = tuple(n + (axis not in boundary) for axis, n in zip("xyz", intervals, strict=False))
        discretisation = discretise(make_case({"f": "exact", **equation}, boundary, shape, UPPER))
        errors.append(error_of(discretisation, reference.solve(discretisation), Evaluation(np))[0].rms)
    return errors


@pytest.mark.parametrize("mean", ["harmonic", "arithmetic"])
@pytest.mark.parametrize("name", SMOOTH)
def test_the_order_is_two_where_the_coefficients_are_smooth(name: str, mean: str) -> None:
    equation, boundary = SMOOTH[name]
    if "a" in equation:
        equation = {**equation, "mean": mean}
    coarse, fine = errors_on_two_grids(equation, boundary, int(name[0]))
    # From 16 to 32 intervals or fewer the next term of the error still shows in 3D.
    assert math.log2(coarse / fine) == pytest.approx(2.0, abs=0.1)


# ---- jumps: u is linear on both sides of x = 1/2, which lies in the middle between two nodes, or of y = 1/2

EXACT = "where({x} < 1/2, {x}, 1/2 + ({x} - 1/2)/k)"
COEFFICIENT = "where({x} < 1/2, 1, k)"
JUMPS = (1e-6, 0.1, 10.0, 1e3, 1e6)


def jump_case(x: str, k: float, boundary: dict[str, Any], shape: tuple[int, ...], **equation: Any) -> Case:
    """a jumps from 1 to k at x = 1/2, and the flux along x is −1 everywhere."""
    texts = {key: text.format(x=x).replace("k", repr(k)) for key, text in (("a", COEFFICIENT), ("exact", EXACT))}
    return make_case({"f": 0.0, **texts, **equation}, boundary, shape)


def along(x: str, lower: Any, upper: Any, dimension: int) -> dict[str, Any]:
    """The conditions at the ends of an axis, and no flux through the other faces."""
    others = {"all": {"neumann": 0.0}} if dimension > 1 else {}
    return {**others, f"{x}_lower": lower, f"{x}_upper": upper}


ENDS = {
    "dirichlet": (DIRICHLET, DIRICHLET),
    "neumann": (DIRICHLET, {"neumann": 1.0}),
    "robin": ({"robin": "exact", "alpha": 3.0}, DIRICHLET),
    "robin and neumann": ({"robin": -1.0, "alpha": 3.0}, {"neumann": 1.0}),
}


@pytest.mark.parametrize("k", JUMPS)
@pytest.mark.parametrize("ends", ENDS)
@pytest.mark.parametrize(("x", "shape"), [("x", (10,)), ("x", (10, 5)), ("y", (5, 10)), ("z", (4, 3, 10))])
def test_a_jump_between_two_nodes_is_met_exactly_by_the_harmonic_mean(
    x: str, shape: tuple[int, ...], ends: str, k: float
) -> None:
    discretisation = discretise(jump_case(x, k, along(x, *ENDS[ends], len(shape)), shape))
    direct = reference.solve(discretisation)
    exact = discretisation.exact(np, 0, direct.shape[0])
    rounding = 1e-14 * max(1e3, k) * float(np.abs(exact).max())
    np.testing.assert_allclose(direct, exact, rtol=0, atol=rounding)


def test_the_arithmetic_mean_misses_a_jump() -> None:
    errors = []
    for nodes in (10, 20, 40):
        case = jump_case("x", 10.0, along("x", DIRICHLET, {"neumann": 1.0}, 1), (nodes,), mean="arithmetic")
        discretisation = discretise(case)
        errors.append(error_of(discretisation, reference.solve(discretisation), Evaluation(np))[0].max)
    # The link across the jump conducts 5.5 in the place of 20/11, over one spacing.
    assert errors == pytest.approx([(11 / 20 - 2 / 11) / n for n in (9, 19, 39)], rel=1e-9)


# ---- the flux
def flux_of(case: Case) -> NDArray[np.float64]:
    """The flux at the nodes of the direct solution, components last."""
    discretisation = discretise(case)
    direct, operator = reference.solve(discretisation), reference.operator_of(discretisation)
    assert operator.links is not None
    dimension = case.problem.lattice.dimension
    flux = np.empty((*direct.shape, dimension))
    for axis in range(dimension):
        link_flux(operator, axis, operator.links[axis], direct, flux[..., axis])
    return flux


@pytest.mark.parametrize("k", JUMPS)
@pytest.mark.parametrize(("x", "shape"), [("x", (10,)), ("y", (5, 10)), ("z", (4, 3, 10))])
def test_the_flux_has_no_jump_where_a_has_one(x: str, shape: tuple[int, ...], k: float) -> None:
    flux = flux_of(jump_case(x, k, along(x, DIRICHLET, {"neumann": 1.0}, len(shape)), shape))
    expected = np.zeros_like(flux)
    expected[..., "xyz".index(x)] = -1.0
    np.testing.assert_allclose(flux, expected, rtol=0, atol=1e-9 * max(1.0, k))


@pytest.mark.parametrize("boundary", [{"all": DIRICHLET}, {"x": "periodic", "y_lower": ROBIN, "y_upper": NEUMANN}])
def test_the_flux_is_of_second_order_at_every_node(boundary: dict[str, Any]) -> None:
    worst = []
    for n in (16, 32):
        shape = (n + ("x" not in boundary), n + 1)
        equation = {"f": "exact", "a": "(2 + sin(2*pi*x))*exp(y)", "exact": "sin(2*pi*x)*exp(y)"}
        case = make_case(equation, boundary, shape)
        x, y = np.meshgrid(case.problem.lattice.coordinates(0), case.problem.lattice.coordinates(1))
        a = (2 + np.sin(2 * np.pi * x)) * np.exp(y)
        gradient = (2 * np.pi * np.cos(2 * np.pi * x) * np.exp(y), np.sin(2 * np.pi * x) * np.exp(y))
        flux = flux_of(case)
        worst.append([float(np.abs(flux[..., axis] + a * gradient[axis]).max()) for axis in (0, 1)])
    orders = [math.log2(coarse / fine) for coarse, fine in zip(*worst, strict=True)]
    assert min(orders) > 1.8


def test_the_flux_does_not_depend_on_the_slabs(monkeypatch: pytest.MonkeyPatch) -> None:
    from poisson.discrete import flux as module
    from poisson.mesh.grid import slabs

    case = make_case(
        {"f": 1.0, "a": "1 + x + y*z"}, {"all": DIRICHLET | {"dirichlet": 0.0}, "y": "periodic"}, (5, 6, 7)
    )
    whole = flux_of(case)
    monkeypatch.setattr(module, "slabs", lambda shape: slabs(shape, 1))
    np.testing.assert_array_equal(flux_of(case), whole)


# ---- from the case to the file

TIGHT = "solver.rtol=1e-11"


@pytest.mark.parametrize("name", ["numpy", "openmp", pytest.param("gpu", marks=pytest.mark.gpu)])
@pytest.mark.parametrize("loop", ["blocked", "fused", "staged"])
@pytest.mark.parametrize("problem", ["1d robin", "2d mixed", "3d every kind"])
def test_jacobi_reaches_the_direct_solution(problem: str, loop: str, name: str) -> None:
    if name != "numpy":
        BACKENDS[name](np.float64)
    equation, boundary = SMOOTH[problem]
    shape = tuple((9, 8, 7)[: int(problem[0])])
    overrides = (TIGHT, f"solver.loop={loop}", f"run.backend={name}", f"run.threads={2 if name == 'openmp' else 0}")
    case = make_case({"f": "exact", **equation}, boundary, shape, UPPER, overrides)
    solution = run.solve(case)
    assert solution.status is Status.CONVERGED
    assert solution.u.shape == case.problem.lattice.array_shape
    direct = reference.solve(discretise(case)).reshape(solution.u.shape)
    np.testing.assert_allclose(solution.u, direct, rtol=0, atol=1e-8 * np.abs(direct).max())


def test_the_residual_of_a_float32_run_is_that_of_the_problem() -> None:
    """It is recomputed in float64 with the coefficients of the problem, not with those rounded to float32."""
    equation, boundary = SMOOTH["2d mixed"]
    overrides = ("run.precision=float32", "solver.max_iterations=30", "solver.norm=max")
    case = make_case({"f": "exact", **equation}, boundary, (12, 11), UPPER, overrides)
    solution = run.solve(case)
    discretisation = discretise(case)
    operator = reference.operator_of(discretisation)
    source, _ = reference.assemble(discretisation)
    residual = source.ravel() - reference.matrix(operator) @ solution.u.astype(np.float64).ravel()
    free = ~reference.fixed_nodes(operator).ravel()
    assert solution.residual == pytest.approx(np.abs(residual[free]).max(), rel=1e-12)


def test_a_1d_result_has_one_axis_from_end_to_end(tmp_path: Path) -> None:
    from poisson.output import description, result, xdmf

    fields = 'output.fields=["u", "f", "a", "c", "residual", "error", "gradient", "flux"]'
    equation = {"f": "exact", "a": "1 + x", "c": "x", "exact": "x**2"}
    case = make_case(equation, {"x_lower": DIRICHLET, "x_upper": ROBIN}, (9,), (2.0,), (TIGHT, fields))
    solution = run.solve(case)
    x = np.linspace(0.0, 2.0, 9)
    np.testing.assert_allclose(solution.fields["a"], 1 + x, rtol=1e-15)
    np.testing.assert_array_equal(solution.fields["c"], x)
    np.testing.assert_allclose(solution.fields["error"], solution.u - x**2, atol=1e-15)
    # The equations are exact for this u, but for the means between the nodes, which differ from 1 + x a little.
    np.testing.assert_allclose(solution.u, x**2, rtol=0, atol=0.02)
    np.testing.assert_allclose(solution.fields["flux"][:, 0], -(1 + x) * 2 * x, rtol=0, atol=0.4)
    path, *_ = result.save(tmp_path / "line.h5", solution)
    with h5py.File(path) as file:
        assert {name: file[name].shape for name in ("u", "a", "error", "x")} == dict.fromkeys(
            ("u", "a", "error", "x"), (9,)
        )
        assert (file["gradient"].shape, file["flux"].shape) == ((9, 1), (9, 1))
        assert "y" not in file
        assert file.attrs["equation"] == "-div(a grad u) + c u = f, a = a(x), harmonic mean between nodes"
        assert file["a"].attrs["long_name"] == "coefficient a"
    assert "9 nodes" in description.describe(path)
    text = xdmf.content(path, solution).decode()
    assert 'Dimensions="1 1 9"' in text
    assert text.count('AttributeType="Scalar"') == 8


def test_the_flux_of_a_case_is_that_through_the_links() -> None:
    overrides = ('output.fields=["flux", "gradient"]', TIGHT)
    texts = {"a": COEFFICIENT.format(x="y").replace("k", "4"), "f": 0.0}
    boundary = along("y", {"dirichlet": 0.0}, {"neumann": 1.0}, 2)
    solution = run.solve(make_case(texts, boundary, (5, 10), overrides=overrides))
    np.testing.assert_allclose(solution.fields["flux"][..., 1], -1.0, rtol=0, atol=1e-6)
    np.testing.assert_allclose(solution.fields["flux"][..., 0], 0.0, rtol=0, atol=1e-6)
    gradient = solution.fields["gradient"][:, 0, 1]
    np.testing.assert_allclose(gradient[[1, 2, -3, -2]], [1.0, 1.0, 0.25, 0.25], rtol=1e-6)
    smooth = run.solve(make_case(texts, boundary, (5, 10), overrides=(*overrides, "output.order=4")))
    np.testing.assert_allclose(
        smooth.fields["flux"][:5, :, 1], -smooth.fields["gradient"][:5, :, 1], rtol=1e-14, atol=1e-14
    )
