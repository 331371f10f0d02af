# SPDX-License-Identifier: MIT
"""Bodies in the operator: against assembled matrices, exact solutions and orders.

Covers poisson.discrete.beside and poisson.solvers.surface.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import poisson
from poisson.discrete.surface import surface_of
from poisson.problem.given import Form


@pytest.mark.parametrize("backend", ["openmp", "numpy"])
def test_a_linear_function_is_exact_beside_any_surface(backend: str) -> None:
    """On stretched nodes, with a that varies along the other axis, and links cut at both ends."""
    exact = "1 + 2*x"
    bodies = [
        poisson.Body("hypot(x - 0.4, y - 0.5) < 0.21", dirichlet=exact),
        poisson.Body("abs(x - 0.713) < 0.001", dirichlet=exact),
    ]
    axes = ({"nodes": np.linspace(0.0, 1.0, 19) ** 1.3}, {"uniform": (0.0, 1.0, 17)})
    problem = poisson.Problem.on_lattice(
        axes,
        a="1 + y",
        boundary={"x_lower": 1.0, "x_upper": 3.0, "y_lower": {"neumann": 0.0}, "y_upper": {"neumann": 0.0}},
        bodies=bodies,
    )
    solution = poisson.solve(problem, backend=backend, rtol=1e-12)
    x = problem.lattice.coordinates(0)
    assert np.abs(solution.u - (1.0 + 2.0 * x)).max() < 1e-10


EXACT = "hypot(x, y)*(x**3 - 3*x*y**2)"  # r⁴ cos 3θ
OUTSIDE = "hypot(x - 0.02, y - 0.03) > 0.7 + 0.2*cos(5*atan2(y - 0.03, x - 0.02))"


def star(n: int, surface: Form = "shortley_weller", **given: Any) -> poisson.Problem:
    return poisson.Problem.on_box(
        (n + 1, n + 1),
        lower=(-1.0, -1.0),
        upper=(1.0, 1.0),
        f="-7*(x**3 - 3*x*y**2)/max(hypot(x, y), 1e-30)",
        boundary=EXACT,
        exact=EXACT,
        bodies=[poisson.Body(OUTSIDE, dirichlet=EXACT)],
        surface=surface,
        **given,
    )


def largest(solution: poisson.Solution) -> float:
    assert solution.error is not None
    return solution.error.max


def test_the_order_in_a_star_is_two_in_the_maximum_norm() -> None:
    """The symmetric form has errors more than ten times as large."""
    solutions = [poisson.solve(star(n), backend="openmp") for n in (40, 80, 160)]
    errors = [largest(solution) for solution in solutions]
    assert np.log2(np.divide(errors[:-1], errors[1:])) == pytest.approx(2.0, abs=0.15)
    assert errors[-1] == pytest.approx(7.64e-6, rel=1e-2)
    assert max(solution.iterations for solution in solutions) <= 8
    symmetric = poisson.solve(star(160, "symmetric"), backend="openmp")
    assert largest(symmetric) == pytest.approx(1.71e-4, rel=1e-2) and symmetric.iterations <= 8

    def slope(x: Any, y: Any) -> tuple[Any, Any]:
        r, cubic = np.maximum(np.hypot(x, y), 1e-30), x**3 - 3.0 * x * y * y
        return x / r * cubic + 3.0 * r * (x * x - y * y), y / r * cubic - 6.0 * r * x * y

    assert orders_of_e(solutions, slope) == pytest.approx(2.0, abs=0.15)


def test_another_program_has_the_errors_of_both_forms_in_a_smaller_star() -> None:
    """Their star lies a little differently in the unit square: by a third at most, of errors 20 times apart."""
    r, center = f"hypot(x - {(at := 0.02236)}, y - {at})", f"atan2(y - {at}, x - {at})"
    given: dict[str, Any] = {"f": "-7*(x**3 - 3*x*y**2)/max(hypot(x, y), 1e-30)", "boundary": EXACT, "exact": EXACT}
    bodies = [poisson.Body(f"{r} > 0.25 + 0.1*cos(5*{center})", dirichlet=EXACT)]
    known: dict[Form, list[float]] = {
        "shortley_weller": [3.7e-6, 9.6e-7, 2.5e-7, 6.5e-8],
        "symmetric": [5.3e-5, 2.1e-5, 6.2e-6, 2.0e-6],
    }
    for surface, errors in known.items():
        for n, error in zip((40, 80, 160, 320), errors, strict=True):
            box = poisson.Problem.on_box(
                (n + 2, n + 2), lower=(-0.5, -0.5), upper=(0.5, 0.5), bodies=bodies, surface=surface, **given
            )
            assert largest(poisson.solve(box, backend="openmp")) == pytest.approx(error, rel=0.31)


def orders_of_e(solutions: list[poisson.Solution], slope: Any) -> Any:
    """The orders of E outside of the bodies, at their surfaces too, in the maximum norm and in the rms norm."""
    norms = []
    for solution in solutions:
        problem = solution.problem
        assert problem.cuts is not None
        x, y = np.meshgrid(problem.lattice.coordinates(0), problem.lattice.coordinates(1))
        errors = np.abs(solution.E + np.stack(slope(x, y), axis=-1)).max(axis=-1)[problem.cuts.inside == 0]
        norms.append([errors.max(), np.sqrt((errors**2).mean())])
    return np.log2(np.divide(norms[:-1], norms[1:]))


def test_e_is_of_second_order_beside_the_surfaces_of_an_annulus() -> None:
    exact, base = "log(max(hypot(x, y), 1e-3)/0.3)", np.log(3.0)
    bodies = [poisson.Body("hypot(x, y) < 0.3", dirichlet=0.0), poisson.Body("hypot(x, y) > 0.9", dirichlet=base)]
    box: dict[str, Any] = {"lower": (-1.0, -1.0), "upper": (1.0, 1.0), "boundary": exact, "bodies": bodies}
    solutions = [poisson.solve(poisson.Problem.on_box((n + 1, n + 1), **box), backend="openmp") for n in (80, 160)]

    def slope(x: Any, y: Any) -> tuple[Any, Any]:
        return x / np.maximum(x * x + y * y, 1e-6), y / np.maximum(x * x + y * y, 1e-6)

    assert orders_of_e(solutions, slope) == pytest.approx(2.0, abs=0.15)


@pytest.mark.parametrize(
    ("method", "given"),
    [
        ("cg", {"coarse": "geometric"}),
        ("multigrid", {"precision": "mixed"}),
        ("cg", {"precision": "mixed"}),
        ("cg", {"precision": "float32", "rtol": 1e-5}),
        ("chebyshev", {}),
        ("sor", {"backend": "numpy"}),
    ],
)
def test_every_method_and_precision_comes_to_the_same_solution(method: Any, given: dict[str, Any]) -> None:
    one, other = poisson.solve(star(40), "cg", rtol=1e-11), poisson.solve(star(40), method, **given)
    assert other.status.success and np.abs(one.u - other.u).max() < (1e-5 if "float32" in given.values() else 1e-8)


def test_the_residual_is_that_of_shortley_and_weller() -> None:
    """Against their formula at each node, and the share of a control volume that the rows are scaled by."""
    problem, h = star(20), 0.1
    solution = poisson.solve(problem, backend="numpy", rtol=1e-13, fields=["residual"])
    cuts, u = problem.cuts, solution.u.ravel()
    assert cuts is not None
    x, y = (place.ravel() for place in np.meshgrid(*(problem.lattice.coordinates(axis) for axis in (0, 1))))
    exact, f = problem.exact, -7.0 * (x**3 - 3.0 * x * y * y) / np.maximum(np.hypot(x, y), 1e-30)
    assert exact is not None
    for node in np.flatnonzero(cuts.inside.ravel() == 0):
        au = 0.0
        for axis, step in enumerate((1, 21)):
            ends = []
            for side, other in enumerate((node - step, node + step)):
                [where] = np.nonzero((cuts.node == node) & (cuts.axis == axis) & (cuts.side == side))
                at = [place[where[0]] for place in cuts.places] if where.size else None
                ends.append((cuts.theta[where[0]] * h, float(exact(np, *at))) if at else (h, u[other]))
            (left, low), (right, high) = ends
            au += 2.0 / (left + right) * ((u[node] - low) / left + (u[node] - high) / right)
        assert abs(f[node] - au) < 1e-8 * np.abs(f).max()
    assert np.abs(solution.fields["residual"]).max() < 1e-10


def test_other_sources_and_values_need_no_new_solver() -> None:
    problem = star(20)
    solver = poisson.Solver(problem, backend="numpy")
    first = solver.solve()
    other = solver.solve(f=0.0, boundary=0.0, initial=first.u)
    again = solver.solve()
    assert np.array_equal(first.u, again.u)
    assert other.status.success and np.abs(other.u - first.u).max() > 0.01


def test_three_dimensions_stretched_and_periodic() -> None:
    """u = x y z beside a sphere that reaches over the periodic face, where it is what it is at the other one."""
    exact = "x*(y - 0.5)*(1 + 0*z)"
    axes = (
        {"nodes": np.linspace(0.0, 1.0, 17) ** 1.2},
        {"nodes": np.linspace(0.0, 1.0, 15) ** 1.1},
        {"uniform": (0.0, 1.0, 14)},
    )
    sphere = {"shape": "sphere", "center": (0.5, 0.5, 0.0), "radius": 0.23}
    problem = poisson.Problem.on_lattice(
        axes, boundary={"z": "periodic", "all": exact}, bodies=[poisson.Body(sphere, dirichlet=exact)], exact=exact
    )
    solution = poisson.solve(problem, backend="openmp", rtol=1e-12)
    assert largest(solution) < 1e-10


@pytest.mark.parametrize(("given", "line"), [({"surface": "sharp"}, "surface = 'sharp'; it must be one of")])
def test_what_cannot_be_is_refused_in_one_line(given: dict[str, Any], line: str) -> None:
    with pytest.raises(poisson.PoissonError) as error:
        poisson.solve(poisson.Problem.on_box((9, 9), **given))
    assert str(error.value).startswith(line) and "\n" not in str(error.value)


def test_a_on_a_link_that_wraps_is_that_between_its_node_and_the_surface() -> None:
    problem = poisson.Problem.on_box(
        (16, 3),
        a="2 + sin(2*pi*x)",
        boundary={"x": "periodic", "all": 0.0},
        bodies=[poisson.Body("abs(x - 0.95) < 0.02", dirichlet=0.0)],
    )
    assert problem.cuts is not None and problem.cuts.node.tolist() == [16, 30]
    expected = 2.0 + np.sin(2.0 * np.pi * np.array([-0.015, 0.9025]))
    np.testing.assert_allclose(surface_of(problem).coefficient, expected, rtol=1e-12)
