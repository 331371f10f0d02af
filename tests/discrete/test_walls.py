# SPDX-License-Identifier: MIT
"""Faces half a cell before the nodes, where a varies: each half cell has the a of its own cell."""

from typing import Any

import numpy as np
import pytest
from conftest import real
from scipy import sparse
from scipy.ndimage import label
from scipy.sparse.linalg import spsolve
from support.divided import solved

import poisson
from poisson.errors import CaseError
from poisson.problem.problem import Problem

BACKENDS = ["numpy", "openmp", pytest.param("gpu", marks=pytest.mark.gpu)]
SIDES: dict[str, Any] = {"all": {"neumann": 0.0}, "x_lower": 0.0, "x_upper": 1.0}


def single_cells(seed: int, *shape: int) -> Any:
    """a from 0.01 to 100, another one in each cell."""
    return 10.0 ** np.random.default_rng(seed).uniform(-2.0, 2.0, shape)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("method", ["cg", "multigrid"])
@pytest.mark.parametrize("alpha", [0.0, 0.4])
def test_the_flow_through_a_chain_of_cells_is_that_of_its_resistances(method: Any, backend: Any, alpha: float) -> None:
    """With a resistance 1/α between the last cell and the value there."""
    real(backend)(np.float64)
    a, width = single_cells(1, 17), 1.0 / 17.0
    upper: Any = {"robin": alpha, "alpha": alpha} if alpha else 1.0
    problem = Problem.on_box((17,), centring="cell", a=a, boundary={"x_lower": 0.0, "x_upper": upper})
    solution = poisson.solve(problem, method, backend, rtol=1e-13)
    through = 1.0 / (np.sum(width / a) + (1.0 / alpha if alpha else 0.0))
    assert solution.fluxes()["x_lower"] == pytest.approx(through, rel=1e-10)
    np.testing.assert_allclose(solution.u, through * (np.cumsum(width / a) - width / a / 2.0), rtol=1e-10)


@pytest.mark.parametrize("coarse", ["geometric", "galerkin"])
@pytest.mark.parametrize("upper", [1.0, {"robin": 1.0, "alpha": 3.0}])
def test_a_dielectric_at_a_wall_is_the_same_a_there(upper: Any, coarse: Any) -> None:
    inside = poisson.Body("x > 0.5", a=80.0)
    found = []
    for given in ({"bodies": [inside]}, {"a": "where(x > 0.5, 80, 1)"}):
        problem = Problem.on_box((16, 8), centring="cell", boundary={**SIDES, "x_upper": upper}, **given)
        found.append(poisson.solve(problem, "multigrid", "openmp", rtol=1e-12, coarse=coarse))
    np.testing.assert_allclose(found[0].u, found[1].u, rtol=1e-9)
    through = 1.0 / (0.5 + 0.5 / 80.0 + (0.0 if upper == 1.0 else 1.0 / 3.0))
    for solution in found:
        assert solution.fluxes()["x_lower"] == pytest.approx(through / (1.0 if upper == 1.0 else 3.0), rel=1e-9)


@pytest.mark.parametrize("backend", BACKENDS)
def test_pores_between_walls_have_the_flow_of_the_network_of_their_cells(backend: Any) -> None:
    """a is 0 in a third of the cells, also in those at the walls."""
    real(backend)(np.float64)
    pores = np.random.default_rng(5).random((24, 32)) < 0.67
    numbers, _ = label(pores)
    pores &= np.isin(numbers, np.intersect1d(numbers[:, 0], numbers[:, -1]))
    cells = np.full(pores.shape, -1)
    cells[pores] = np.arange(pores.sum())
    # All cells are squares: a conductance of 1 between their centres, of 2 to a wall.
    pairs = [np.stack([cells[:, :-1], cells[:, 1:]]), np.stack([cells[:-1], cells[1:]])]
    joined = np.concatenate([each.reshape(2, -1) for each in pairs], axis=1)
    one, other = joined[:, (joined >= 0).all(axis=0)]
    links = sparse.coo_array((np.ones(one.size), (one, other)), shape=(pores.sum(),) * 2).tocsr()
    links = links + links.T
    first, last = (column[column >= 0] for column in (cells[:, 0], cells[:, -1]))
    walls, source = np.zeros(pores.sum()), np.zeros(pores.sum())
    walls[first] = walls[last] = source[last] = 2.0
    u = spsolve(sparse.csc_array(sparse.diags_array(links.sum(axis=1) + walls) - links), source)
    problem = Problem.on_box((32, 24), centring="cell", a=pores.astype(float), upper=(4.0, 3.0), boundary=SIDES)
    solution = poisson.solve(problem, "auto", backend, rtol=1e-12)
    np.testing.assert_allclose(solution.u[pores], u, atol=1e-9)
    through = 2.0 * u[first].sum()
    assert solution.fluxes()["x_lower"] == pytest.approx(through, rel=1e-8)
    assert solution.fluxes()["x_upper"] == pytest.approx(-through, rel=1e-8)


@pytest.mark.parametrize("method", ["multigrid", "cg"])
@pytest.mark.parametrize("upper", [{"robin": 1.0, "alpha": 3.0}, 1.0])
def test_other_values_of_a_reach_the_walls(upper: Any, method: Any) -> None:
    boundary = {"x_lower": {"neumann": 0.2}, "x_upper": upper, "y": "periodic"}
    problem = Problem.on_box((17, 12), centring="cell", a=single_cells(1, 12, 17), boundary=boundary)
    solver, a = poisson.Solver(problem, method, "openmp", rtol=1e-9), single_cells(2, 12, 17)
    solver.solve()
    assert np.array_equal(solver.solve(a=a).u, poisson.solve(problem.having(a=a), method, "openmp", rtol=1e-9).u)


@pytest.mark.parametrize("coarse", ["geometric", "galerkin"])
def test_parts_of_ranks_have_the_walls_of_the_whole(coarse: Any) -> None:
    a = np.exp(0.3 * np.log(single_cells(3, 48, 20)))
    problem = Problem.on_box((20, 48), centring="cell", a=a, f=1.0, c="y", boundary={"all": 0.5})
    options: Any = {"method": "cg", "coarse": coarse, "backend": "numpy", "rtol": 1e-12}
    alone, (_, whole) = poisson.solve(problem, **options), solved(problem, 3, **options)
    np.testing.assert_allclose(whole, alone.u, rtol=0.0, atol=1e-10)


@pytest.mark.parametrize("shape", [(64, 64), (40, 33, 28)])
@pytest.mark.parametrize("c", [0.0, "1 + x"])
def test_iterations_do_not_depend_on_where_the_conductance_of_walls_stands(shape: tuple[int, ...], c: Any) -> None:
    """A constant a has it in the operator's tables, one that nearly is in c, which coarser grids restrict."""
    f = np.random.default_rng(1).standard_normal(shape[::-1])
    taken = [
        poisson.solve(
            Problem.on_box(shape, centring="cell", a=a, c=c, f=f), "multigrid", "openmp", rtol=1e-8
        ).iterations
        for a in (1.0, "1 + 1e-9*x")
    ]
    assert taken[1] == taken[0] == {2: 4, 3: 5}[len(shape)]


def test_obstacles_reach_walls_at_any_angle() -> None:
    """A linear u to rounding beside an insulator along its flow; second order at a circle with a given flow."""
    for name, value, flow, inside in (
        ("straight", "x + y", "0", "y - x > 0.313"),
        ("round", "exp(x)*sin(y)", "-exp(x)*((x - 1.05)*sin(y) + (y - 0.43)*cos(y))/hypot(x - 1.05, y - 0.43)", ""),
    ):
        body, errors = poisson.Body(inside or "hypot(x - 1.05, y - 0.43) < 0.31", neumann=flow), []
        for cells in (32, 128):
            boundary = {"all": {"dirichlet": value}}
            problem = Problem.on_box((cells, cells), centring="cell", boundary=boundary, exact=value, bodies=[body])
            solution = poisson.solve(problem, backend="openmp", rtol=1e-12)
            assert solution.error is not None
            errors.append(solution.error.rms)
        if name == "straight":
            assert max(errors) < 1e-11
        else:
            assert np.log2(errors[0] / errors[1]) == pytest.approx(4.0, abs=0.3)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("beside", [1.0, 5.0])
def test_a_film_between_two_nodes_has_the_resistance_of_its_thickness(backend: Any, beside: float) -> None:
    real(backend)(np.float64)
    a = np.where(np.linspace(0.0, 1.0, 17) < 0.4, 1.0, beside) * np.ones((9, 1))
    film = poisson.Body("abs(x - 0.4) < 0.01", a=0.02)
    problem = Problem.on_box((17, 9), a=a, boundary=SIDES, bodies=[film])
    solution = poisson.solve(problem, backend=backend, rtol=1e-12)
    through = 1.0 / (0.39 + 0.02 / 0.02 + 0.59 / beside)
    assert solution.fluxes()["x_lower"] == pytest.approx(through, rel=1e-9)
    np.testing.assert_allclose(solution.u[4, :7], through * np.arange(7) / 16, rtol=1e-8, atol=1e-12)


@pytest.mark.parametrize(
    ("body", "line"),
    [
        (poisson.Body("abs(z - 0.4) < 0.01", a="r - 0.5"), r"body\.1\.a: -0\.5 at r = 0, z = 0.39; every value"),
        (poisson.Body("log(r - 0.5) < z", dirichlet=0.0), r"body\.1\.inside: nan at r = 0, z = 0; every value must be"),
        (poisson.Body("r < 0.3", neumann="log(z - 2)"), r"body\.1\.neumann: nan at r = 0\.3, z = .*; every value"),
        (poisson.Body("r < 0.3", dirichlet="log(z - 0.5)"), r"body\.1\.dirichlet: nan at r = 0.3, z = 0.0625; every"),
    ],
)
def test_a_wrong_value_of_a_body_around_an_axis_is_at_r_and_z(body: poisson.Body, line: str) -> None:
    problem = Problem.on_box((17, 17), system="cylinder", boundary={"all": 0.0}, bodies=[body])
    with pytest.raises(CaseError, match=line):
        poisson.solve(problem, backend="numpy")
