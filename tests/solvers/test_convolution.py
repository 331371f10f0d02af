# SPDX-License-Identifier: MIT
"""Convolution in open space with kernels of higher order, against potentials that are known."""

import math
from typing import Any

import numpy as np
import pytest
from scipy.special import exp1

import poisson
from poisson.errors import CaseError
from poisson.solvers.convolution import WIDTH

ORDERS = {"hejlesen2": 2, "hejlesen4": 4, "hejlesen6": 6, "hejlesen8": 8}


def _ball(dimension: int) -> Any:
    """A Gaussian of width and charge 1 about the origin."""

    def f(*x: Any) -> Any:
        return np.exp(-sum(each * each for each in x) / 2.0) / (2.0 * np.pi) ** (dimension / 2.0)

    return f


def _solved(shape: tuple[int, ...], half: float, kernel: str, **options: Any) -> tuple[Any, Any]:
    """The solution, and the distances of the nodes from the origin."""
    options = {"backend": "numpy", "a": 1.0, "centring": "cell", **options}
    given = {name: options.pop(name) for name in ("a", "centring")}
    ends = {"lower": (-half,) * len(shape), "upper": (half,) * len(shape)}
    problem = poisson.Problem.on_box(shape, f=_ball(len(shape)), boundary="open", **given, **ends)
    solution = poisson.solve(problem, "fft", kernel=kernel, **options)
    assert solution.status is poisson.Status.CONVOLVED and solution.status.success
    assert solution.residual > solution.target == 0.0  # that of other equations
    grid = problem.lattice
    return solution, np.sqrt(sum(grid.along(axis, grid.coordinates(axis)) ** 2 for axis in range(len(shape))))


def _in_plane(r: Any) -> Any:
    return -(np.log(r) + exp1(r * r / 2.0) / 2.0) / (2.0 * np.pi)


@pytest.mark.parametrize("kernel", ORDERS)
def test_the_order_of_each_kernel(kernel: str) -> None:
    """In the plane, with unequal spacings, and a = 2."""
    errors = []
    for nodes in (96, 192):
        solution, r = _solved((nodes, 3 * nodes // 4), 9.0, kernel, a=2.0)
        errors.append(abs(solution.u - _in_plane(r) / 2.0).max())
    assert np.log2(errors[0] / errors[1]) == pytest.approx(ORDERS[kernel], rel=0.07)


@pytest.mark.parametrize("kernel", ORDERS)
def test_a_kernel_has_the_transform_of_its_order(kernel: str) -> None:
    """In space: the field of a charge that is spread by the transform exp(−s²/2) Σ (s²/2)^j / j!, s = σk."""
    solution, r = _solved((22, 20, 18), 6.0, kernel, centring="node")
    sigma = WIDTH * 12.0 / 17.0
    k = np.linspace(0.0, 12.0, 1201)[1:]
    squares = (sigma * k) ** 2 / 2.0
    terms = sum(squares**j / np.prod(np.arange(1.0, j + 1.0)) for j in range(ORDERS[kernel] // 2))
    waves = np.exp(-squares - k * k / 2.0) * terms * np.sinc(np.outer(r[9, 10], k) / np.pi)
    expected = (waves.sum(axis=1) + 0.5) * (k[0] / (2.0 * np.pi**2))  # with the half of k = 0
    np.testing.assert_allclose(solution.u[9, 10], expected, rtol=1e-5)


@pytest.mark.usefixtures("backends_by_name")
@pytest.mark.parametrize("backend", ["numpy", "openmp", "gpu"])
def test_the_spectral_kernel_leaves_rounding(backend: str) -> None:
    solution, r = _solved((64, 80), 9.0, "spectral", backend=backend)
    np.testing.assert_allclose(solution.u, _in_plane(r), rtol=0, atol=1e-14)
    solution, r = _solved((16, 18, 15), 6.0, "spectral", backend=backend, precision="float32")
    exact = np.vectorize(math.erf)(r / np.sqrt(2.0)) / (4.0 * np.pi * r)
    assert solution.u.dtype == np.float32
    np.testing.assert_allclose(solution.u, exact, rtol=0, atol=2e-4)


def test_a_solver_convolves_one_source_after_another() -> None:
    problem = poisson.Problem.on_box((12, 9), boundary="open")
    solver = poisson.Solver(problem, "fft", kernel="hejlesen4")
    sources = np.random.default_rng(3).standard_normal((2, 9, 12))
    one, other = (solution.u for solution in solver.solve_many(sources))
    both = solver.solve(sources.sum(axis=0)).u
    np.testing.assert_allclose(one + other, both, rtol=0, atol=1e-14)
    assert "convolution, hejlesen4" in solver.method


def test_what_has_the_kernel_of_the_lattice_alone() -> None:
    problem = poisson.Problem.on_box((6, 5), boundary="open")
    charged = poisson.Problem.on_box((6, 5), boundary={"x": "open", "y_lower": 0.0, "y_upper": {"neumann": 1.0}})
    disc = {"inside": "hypot(x - 0.5, y - 0.5) < 0.2", "dirichlet": 0.0}
    body = poisson.Problem.on_box((6, 5), boundary="open", bodies=[disc])
    channel = poisson.Problem.on_box(
        x=np.linspace(0.0, 1.0, 6), y=[0.0, 0.2, 0.6, 1.0], boundary={"x": "open", "all": 0.0}
    )
    refused = {
        "unless a face is open": poisson.Problem.on_box((6, 5)),
        "unless a and c are constant, and there are no bodies": body,
        "on stretched axes, where sines and cosines are no modes": channel,
        "unless all walls have the value 0, because data on a wall are a sheet of charges": charged,
    }
    for reason, other in refused.items():
        with pytest.raises(CaseError, match=reason):
            poisson.solve(other, "fft", kernel="spectral")
    with pytest.raises(CaseError, match="the key belongs to fft"):
        poisson.solve(problem, kernel="spectral")
    walls = poisson.Problem.on_box((6, 5), boundary={"x": "open", "all": 0.0})
    solver = poisson.Solver(walls, "fft", kernel="spectral")
    with pytest.raises(CaseError, match="unless all walls have the value 0"):
        solver.solve(boundary={"x": "open", "all": 1.0})
