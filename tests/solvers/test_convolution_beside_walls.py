# SPDX-License-Identifier: MIT
"""Kernels of higher order where faces are open beside periodic axes and walls, against potentials that are known.

The sources are products: along open axes a Gaussian, with its image in a wall at the other end, and along closed ones a
mode. Heat then spreads along each axis by itself, and the potential is the integral of the product over time.
"""

import math
from typing import Any

import numpy as np
import pytest
from scipy.special import erf
from support.ranks import on_ranks

import poisson
from poisson.backends.numpy import NumpyBackend
from poisson.errors import ResourceError
from poisson.run.memory import LITTLE
from poisson.solvers.convolution import WIDTH

ORDERS = {"hejlesen2": 2, "hejlesen4": 4, "hejlesen6": 6, "hejlesen8": 8}
BREADTH, PLACE, FAR = 0.5, 1.3, 4.2
"""The breadth of the Gaussians, and the distances of their centres from a wall and from an open end."""
LENGTH = 3.9
"""The length of axes without an open end."""
SIGNS = {"D": -1.0, "N": 1.0}
CONDITIONS = {"D": 0.0, "N": {"neumann": 0.0}, "O": "open"}

# Both ends of each axis: Dirichlet, Neumann, Open, Periodic.
FLAT = ["OO PP", "PP OO", "OO DD", "NN OO", "DO PP", "PP ON", "NO OO", "DO OD", "OO DN", "ND OO", "OO OO"]
RISING = ["OO OO", "NO OO"]
"""The mixes of faces in `FLAT` beside which u grows without limit as the box does, unless c > 0."""
SPACE = [
    "OO PP PP",
    "PP OO NN",
    "OO OO PP",
    "OO DD OO",
    "ND OO OO",
    "OD OO PP",
    "NO OD DN",
    "DO OO OO",
    "NO OD NO",
    "OO OO OO",
]


def _length(ends: str) -> float:
    return LENGTH if "O" not in ends else 2.0 * FAR if ends == "OO" else PLACE + FAR


def _heat(ends: str, x: Any, t: Any) -> Any:
    """The solution of the equation of heat along one axis at times t."""
    if "O" not in ends:
        number = {"PP": 2.0, "DD": 2.0, "NN": 1.0, "DN": 0.5, "ND": 1.5}[ends] * math.pi / LENGTH
        return (np.cos if ends[0] == "N" else np.sin)(number * x) * np.exp(-number * number * t)
    wide = BREADTH**2 + 2.0 * t

    def bump(place: Any) -> Any:
        return BREADTH / np.sqrt(wide) * np.exp(-(place**2) / (2.0 * wide))

    if ends == "OO":
        return bump(x - FAR)
    away = x if ends[1] == "O" else PLACE + FAR - x
    return bump(away - PLACE) + SIGNS[ends.strip("O")] * bump(away + PLACE)


def _problem(mix: str, shape: Any, c: float, a: float = 1.0, centring: str = "node") -> poisson.Problem:
    axes = mix.split()
    boundary: dict[str, Any] = {}
    for name, ends in zip("xyz", axes, strict=False):
        if ends == "PP":
            boundary[name] = "periodic"
        else:
            boundary |= {f"{name}_{end}": CONDITIONS[kind] for end, kind in zip(("lower", "upper"), ends, strict=True)}

    def f(*places: Any) -> Any:
        return a * np.prod([_heat(ends, x, 0.0) for ends, x in zip(axes, np.broadcast_arrays(*places), strict=True)], 0)

    return poisson.Problem.on_box(
        shape, upper=[_length(ends) for ends in axes], f=f, a=a, c=a * c, boundary=boundary, centring=centring
    )


def _exact(mix: str, problem: poisson.Problem, c: float, after: float = 0.0) -> Any:
    """∫ e^(−ct) times the heat at t + `after`, by equal steps of ln t."""
    step = 0.1
    t = np.exp(np.arange(-42.0, 90.0, step))[:, np.newaxis]
    found = (step * t * np.exp(-c * t))[:, 0]
    letters, factors = "zyx", []
    for axis, ends in enumerate(mix.split()):
        factors.append(_heat(ends, problem.lattice.coordinates(axis), t + after))
    of_axes = ["t" + letter for letter in letters[-len(factors) :]][::-1]
    return np.einsum(f"t,{','.join(of_axes)}->{letters[-len(factors) :]}", found, *factors, optimize=True)


def _shape(mix: str, h: float, closed: int) -> tuple[int, ...]:
    return tuple(
        round(_length(ends) / h) + 1 if "O" in ends else closed + axis for axis, ends in enumerate(mix.split())
    )


def _solved(problem: poisson.Problem, kernel: str, **options: Any) -> Any:
    solution = poisson.solve(problem, "fft", kernel=kernel, **{"backend": "numpy", **options})
    assert solution.status is poisson.Status.CONVOLVED
    return solution.u


@pytest.mark.parametrize("number", range(len(FLAT)))
def test_the_orders_of_all_kernels_beside_walls(number: int) -> None:
    """In 2D, with c > 0 every other time and of cells every third time."""
    mix = FLAT[number]
    c, centring = 0.7 * (number % 2 or mix in RISING), "cell" if number % 3 else "node"
    solved = []
    for h, closed in ((0.1, 40), (0.05, 80)):
        problem = _problem(mix, _shape(mix, h, closed), c, a=2.0, centring=centring)
        solved.append((problem, _exact(mix, problem, c)))
    for kernel, order in ORDERS.items():
        spread = [max(problem.lattice.spacing) for problem, _ in solved]
        errors = [abs(_solved(problem, kernel) - exact).max() for problem, exact in solved]
        assert math.log(errors[0] / errors[1]) / math.log(spread[0] / spread[1]) == pytest.approx(order, rel=0.08)


@pytest.mark.parametrize("centring", ["node", "cell"])
@pytest.mark.parametrize("mix", FLAT + SPACE)
def test_u_is_that_of_the_transform_of_each_kernel(mix: str, centring: str) -> None:
    """To rounding: the spectral kernel has the exact u, that of second order the field of what heat has spread."""
    c = 1.3 if mix in RISING or centring == "cell" else 0.0
    problem = _problem(mix, _shape(mix, 0.17, 9), c, centring=centring)
    exact = _exact(mix, problem, c)
    np.testing.assert_allclose(_solved(problem, "spectral"), exact, rtol=0.0, atol=2e-13 * abs(exact).max())
    time = (WIDTH * max(problem.lattice.spacing)) ** 2 / 2.0
    later = _exact(mix, problem, c, after=time)
    np.testing.assert_allclose(_solved(problem, "hejlesen2"), later, rtol=0.0, atol=2e-13 * abs(exact).max())


@pytest.mark.parametrize(("c", "nodes"), [(1e-12, 60), (1e-3, 60), (50.0, 60), (1e6, 60)])
def test_c_of_any_size(c: float, nodes: int) -> None:
    """From screening that is not seen in the box to one that a spacing does not resolve."""
    for mix in ("OO OO", "OO OO OO", "OO PP")[: 2 + (c > 1e-9)]:  # on a line 1/2κ is large
        problem = _problem(mix, _shape(mix, 8.4 / nodes, 9), c)
        exact = _exact(mix, problem, c)
        np.testing.assert_allclose(_solved(problem, "spectral"), exact, rtol=0.0, atol=1e-12 * abs(exact).max())


def test_what_is_alike_along_a_closed_axis_is_a_problem_of_one_axis_less() -> None:
    """−|x|/2 on a line, −ln(r)/2π in the plane, and images that cancel what rises without end."""
    x = np.linspace(-4.25, 4.25, 61)
    line = poisson.Problem.on_box((61,), lower=(-4.25,), upper=(4.25,), boundary="open").having(f=np.exp(-2.0 * x * x))
    mass = math.sqrt(math.pi / 2.0)
    exact = -mass / 2.0 * (x * erf(math.sqrt(2.0) * x) + math.sqrt(0.5 / math.pi) * np.exp(-2.0 * x * x))
    np.testing.assert_allclose(_solved(line, "spectral"), exact, rtol=0.0, atol=1e-13)
    for all_else in ("periodic", {"neumann": 0.0}):
        boundary: dict[str, Any] = {"x": "open", "y": all_else} if all_else == "periodic" else {}
        boundary = boundary or {"x": "open", "y_lower": all_else, "y_upper": all_else}
        plane = poisson.Problem.on_box((61, 6), lower=(-4.25, 0.0), upper=(4.25, 3.0), boundary=boundary)
        u = _solved(plane.having(f=np.tile(np.exp(-2.0 * x * x), (6, 1))), "spectral")
        np.testing.assert_allclose(u, np.tile(exact, (6, 1)), rtol=0.0, atol=1e-13)
    wall = poisson.Problem.on_box((31,), upper=(4.25,), boundary={"x_lower": {"neumann": 0.0}, "x_upper": "open"})
    u = _solved(wall.having(f=np.exp(-2.0 * x[30:] ** 2)), "spectral")
    np.testing.assert_allclose(u, exact[30:], rtol=0.0, atol=1e-13)
    held = poisson.Problem.on_box((31,), upper=(4.25,), boundary={"x_lower": 0.0, "x_upper": "open"})
    source = x[30:] * np.exp(-2.0 * x[30:] ** 2)
    # −u″ = x e^(−2x²), u(0) = 0 and u′ = 0 far away.
    np.testing.assert_allclose(
        _solved(held.having(f=source), "spectral"),
        math.sqrt(math.pi / 2.0) / 8.0 * erf(math.sqrt(2.0) * x[30:]),
        rtol=0.0,
        atol=1e-13,
    )


@pytest.mark.parametrize("size", [2, 3])
@pytest.mark.parametrize("mix", ["OO PP", "DO OO", "PP OO", "OO DD OO", "PP NO OD", "OO OO NN"])
def test_ranks_have_the_same_u(mix: str, size: int) -> None:
    problem = _problem(mix, _shape(mix, 0.6, 7), 0.0 if "PP" in mix else 0.4)
    alone = poisson.solve(problem, "fft", kernel="hejlesen4", backend="numpy")
    ranks = (1,) * (problem.lattice.dimension - 1) + (size,)

    def on_a_rank(comm: Any) -> Any:
        solution = poisson.solve(problem, "fft", kernel="hejlesen4", backend="numpy", comm=comm, ranks=ranks)
        return solution.gather(all=True), solution.residual

    for u, residual in on_ranks(size, on_a_rank):
        np.testing.assert_allclose(u, alone.u, rtol=0.0, atol=1e-15)
        assert residual == pytest.approx(alone.residual, rel=1e-9)


@pytest.mark.parametrize(("mix", "arrays"), [("OO OO OO", 10), ("DO OO PP", 13), ("DO ON PP", 19)])
def test_the_table_of_a_kernel_needs_memory(mix: str, arrays: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """An axis with a wall and an open end is four times as long, and others twice."""
    monkeypatch.setattr(NumpyBackend, "memory", lambda backend: (LITTLE, LITTLE))
    with pytest.raises(ResourceError, match=f"needs {arrays} arrays,"):
        poisson.Solver(_problem(mix, (40, 40, 40), 1.0), "fft", "numpy", kernel="spectral")
