# SPDX-License-Identifier: MIT
"""Bodies in a box that several ranks solve together: the iterations, u, charges and fields of one process.

Covers poisson.discrete.surface_operator, poisson.discrete.charges and poisson.solvers.surface.
"""

from typing import Any

import numpy as np
import pytest
from support.divided import raised
from support.ranks import ThreadCommunicator, on_ranks

import poisson
from poisson import Body
from poisson.parallel.distributed import DistributedBackend


@pytest.fixture(autouse=True)
def levels_are_divided(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(DistributedBackend.__init__, "__defaults__", (400,))


def sphere(*center: float, radius: float) -> dict[str, Any]:
    return {"shape": "sphere", "center": center, "radius": radius}


def on_box(shape: tuple[int, ...], **given: Any) -> poisson.Problem:
    return poisson.Problem.on_box(shape, **{"f": "x - y", **given})


THROUGH = Body(sphere(0.4, 0.48, radius=0.23), dirichlet="1 + x", name="through")
PLATE = Body("abs(y - 0.328) < 0.003 and abs(x - 0.75) < 0.15", dirichlet=-1.0, name="plate")
"""Between two nodes that are of two ranks."""
WALL = Body("y > 0.72", dirichlet=2.0, name="wall")
"""All nodes of the last of four ranks are inside."""

PROBLEMS: dict[str, tuple[poisson.Problem, int]] = {
    "dirichlet": (on_box((17, 61), bodies=[THROUGH, PLATE, WALL]), 4),
    "symmetric": (on_box((17, 61), surface="symmetric", c="y", bodies=[THROUGH]), 2),
    "periodic": (
        on_box(
            (16, 64),
            a="2 + sin(2*pi*y)*x",
            f="cos(2*pi*y)",
            boundary={"y": "periodic", "x_lower": 1.0, "x_upper": {"robin": 0.3, "alpha": 1.0}},
            bodies=[Body(sphere(0.5, 0.0, radius=0.2), dirichlet=2.0), Body(sphere(0.5, 0.6, radius=0.1), a="3 + y")],
        ),
        3,
    ),
    "floating": (on_box((17, 61), bodies=[Body(sphere(0.4, 0.48, radius=0.23), floating=True, charge=1.0), PLATE]), 2),
    "robin": (
        on_box((17, 61), c=0.5, bodies=[Body(sphere(0.4, 0.48, radius=0.23), robin="x", alpha="1 + y"), PLATE]),
        3,
    ),
    "singular": (
        on_box(
            (17, 61),
            f="cos(pi*x) - 0.52",
            boundary={"all": {"neumann": 0.0}},
            bodies=[Body(sphere(0.5, 0.5, radius=0.23), neumann=0.3), Body("y < 0.1", a=9.0)],
        ),
        3,
    ),
    "3D": (
        on_box(
            (9, 10, 16),
            boundary={"z": "periodic", "all": 0.0},
            bodies=[
                Body(sphere(0.4, 0.5, 0.0, radius=0.23), neumann="x", name="flow"),
                Body(sphere(0.6, 0.5, 0.5, radius=0.23), dirichlet=1.0, name="held"),
            ],
        ),
        4,
    ),
}

SOLVES: list[tuple[str, dict[str, Any]]] = [
    *((name, {}) for name in PROBLEMS if name not in ("3D", "symmetric")),
    ("3D", {"ranks": [1, 2, 2]}),
    ("symmetric", {"method": "multigrid", "precision": "mixed"}),
    ("periodic", {"method": "multigrid", "precision": "mixed"}),
    ("dirichlet", {"backend": "openmp", "threads": 1}),
]


@pytest.mark.parametrize(("name", "options"), SOLVES, ids=["-".join([n, *map(str, o.values())]) for n, o in SOLVES])
def test_bodies_are_on_ranks_what_they_are_on_one_process(name: str, options: dict[str, Any]) -> None:
    problem, size = PROBLEMS[name]
    given: dict[str, Any] = {"backend": "numpy", "rtol": 1e-4, "fields": ("E", "flux", "residual"), **options}
    alone = poisson.solve(problem, **{key: value for key, value in given.items() if key != "ranks"})

    def solve(comm: ThreadCommunicator) -> tuple[Any, ...]:
        solution = poisson.solve(problem, comm=comm, **given)
        return solution.status, solution.iterations, solution.bodies, *map(solution.gather, ("u", "E", "flux"))

    (status, iterations, bodies, *fields), *others = on_ranks(size, solve)
    assert all(other[:3] == (status, iterations, bodies) for other in others)
    assert (status, iterations) == (alone.status, alone.iterations) and status.success
    rounding = 1e-7 if "precision" in options else 1e-11  # of a cycle in float32
    for found, field in zip(fields, (alone.u, alone.E, alone.fields["flux"]), strict=True):
        np.testing.assert_allclose(found, field, rtol=0.0, atol=rounding * np.abs(field).max())
    for body, values in alone.bodies.items():
        assert bodies[body] == pytest.approx(values, rel=10.0 * rounding, abs=1e-12)


def test_arrays_of_the_first_rank_alone_and_of_each_part() -> None:
    """a is on every rank then, f only where it belongs."""
    x, y = np.meshgrid(np.linspace(0.0, 1.0, 17), np.linspace(0.0, 1.0, 61))
    bodies = [THROUGH, Body(sphere(0.7, 0.85, radius=0.1), robin=1.0, alpha=2.0)]
    problem = on_box((17, 61), a=1.0 + x * y, f=x - y, c=x, bodies=bodies)
    alone = poisson.Solver(problem, backend="numpy", rtol=1e-4)
    first, second = alone.solve(), alone.solve(f=x * y)

    def solve(comm: ThreadCommunicator) -> list[Any]:
        solver = poisson.Solver(problem if comm.rank == 0 else None, backend="numpy", comm=comm, rtol=1e-4)
        before = solver.solve()
        rows = slice(*before.share.ranges[0])  # type: ignore[union-attr]
        after = solver.solve(f=(x * y)[rows])
        return [before.gather(all=True), before.bodies, after.gather(all=True), after.bodies]

    for found in on_ranks(2, solve):
        for u, bodies_of, expected in zip(found[::2], found[1::2], (first, second), strict=True):
            np.testing.assert_allclose(u, expected.u, rtol=0.0, atol=1e-12)
            for name, values in expected.bodies.items():
                assert bodies_of[name] == pytest.approx(values, rel=1e-11)

    def refused(comm: ThreadCommunicator) -> None:
        solver = poisson.Solver(problem, backend="numpy", comm=comm, rtol=1e-2)
        solver.solve(a=np.ones(solver.solve().u.shape))

    line = "a: an array of a part of the grid; allowed with bodies: the whole on every process"
    assert [str(error) for error in raised(2, refused)] == [line] * 2
