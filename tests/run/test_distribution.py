# SPDX-License-Identifier: MIT
"""Data of problems that several ranks solve: whole arrays and files, parts of arrays, and what one rank alone has."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.devices import OnDevice
from support.divided import FLUX, PROBLEMS, on_box, raised, solved
from support.ranks import ThreadCommunicator, on_ranks

import poisson
from poisson import Solver
from poisson.problem.problem import Problem


def test_arrays_of_the_whole_grid_and_files_are_read_by_parts(tmp_path: Path) -> None:
    random = np.random.default_rng(1)
    shape = (32, 17, 9)
    np.save(tmp_path / "f.npy", random.random(shape))
    f = np.load(tmp_path / "f.npy", mmap_mode="r")
    boundary: Any = {"z": "periodic", "all": FLUX, "x_lower": {"dirichlet": random.random((32, 17))}}
    boundary["y_upper"] = {"robin": random.random((32, 9)), "alpha": 1.0 + random.random((32, 9))}
    problem = Problem.on_box(shape[::-1], f=f, a=1.0 + random.random(shape), boundary=boundary)
    given: dict[str, Any] = {"method": "multigrid", "backend": "numpy"}
    alone = poisson.solve(problem, **given)
    for ranks in ([1, 1, 4], [1, 2, 2]):
        together, u = solved(problem, 4, ranks=ranks, **given)
        assert together.iterations == alone.iterations
        np.testing.assert_allclose(u, alone.u, rtol=0.0, atol=1e-12)
    estimated = poisson.solve(problem, stop="discretisation", **given)
    together, u = solved(problem, 4, stop="discretisation", **given)
    assert together.error_bar == pytest.approx(estimated.error_bar, rel=1e-9)
    np.testing.assert_allclose(u, estimated.u, rtol=0.0, atol=1e-12)


def test_an_array_of_the_first_rank_on_a_grid_that_is_not_divided() -> None:
    """Every rank has all of it then, and gets all of the array."""
    problem, f = Problem.on_box((9, 8)), np.random.default_rng(1).random((8, 9))

    def solve(comm: ThreadCommunicator) -> Any:
        solver = Solver(problem, "multigrid", "numpy", comm=comm)
        assert solver.ranks.share is None
        return solver.solve(f=f if comm.rank == 0 else None).u

    expected = Solver(problem, "multigrid", "numpy").solve(f=f).u
    for u in on_ranks(2, solve):
        np.testing.assert_array_equal(u, expected)


@pytest.mark.parametrize("name", ["2D", "3D, mirrors"])
def test_arrays_of_a_part_and_of_the_first_rank(name: str) -> None:
    problem, size = PROBLEMS[name]
    f, initial = np.random.default_rng(2).random((2, *problem.lattice.array_shape))
    given: dict[str, Any] = {"method": "multigrid", "backend": "numpy"}
    alone = Solver(problem, **given).solve(f=f, initial=initial)

    def solve(comm: ThreadCommunicator) -> list[Any]:
        solver = Solver(problem, comm=comm, **given)
        share = solver.solve(f=f, initial=initial).share
        assert share is not None
        own = tuple(slice(*ends) for ends in share.ranges)
        first = comm.rank == 0
        return [
            solver.solve(f=f[own].copy(), initial=initial[own].astype(np.float32)).gather(),
            solver.solve(f=f if first else None, initial=initial).gather(),
        ]

    rounded = Solver(problem, **given).solve(f=f, initial=initial.astype(np.float32))
    by_parts, by_first = on_ranks(size, solve)[0]
    np.testing.assert_allclose(by_parts, rounded.u, rtol=0.0, atol=1e-12 * np.abs(alone.u).max())
    np.testing.assert_allclose(by_first, alone.u, rtol=0.0, atol=1e-12 * np.abs(alone.u).max())


def test_parts_on_devices_stay_there(backends_by_name: None) -> None:
    """And so does u; where one rank has its part on the host, all get u there."""
    problem, size = PROBLEMS["2D"]
    f = np.random.default_rng(2).random(problem.lattice.array_shape)
    alone = Solver(problem, "jacobi", "gpu", max_iterations=2).solve(f=f)

    def solve(comm: ThreadCommunicator) -> list[Any]:
        solver = Solver(problem, "jacobi", "gpu", max_iterations=2, comm=comm)
        local: Any = solver.local_backend
        runtime = local.runtime
        share = solver.solve(f=f).share
        assert share is not None
        part = f[tuple(slice(*ends) for ends in share.ranges)].copy()
        there = OnDevice(runtime, part)
        found = [solver.solve(f=given) for given in (there, part, there if comm.rank else part)]
        held = [runtime.holds(each.u) for each in found]
        assert found[0].u.shape == part.shape
        np.testing.assert_array_equal(found[0].u, found[1].u)
        return [held, *(each.gather() for each in found)]

    held, *whole = on_ranks(size, solve)[0]
    assert held == [True, False, False]
    for u in whole:
        np.testing.assert_allclose(u, alone.u, rtol=0.0, atol=1e-12 * np.abs(alone.u).max())


@pytest.mark.parametrize("size", [3, 1])
def test_a_problem_of_the_first_rank_is_sent_to_the_others(size: int) -> None:
    """With the parts of its arrays; where it is not divided, with all of them."""
    for shape in ((33, 65), (9, 9)):
        random = np.random.default_rng(3)
        nodes = shape[::-1]
        boundary: Any = {"x_lower": random.random(nodes[0]), "all": "x"}
        problem = on_box(shape, f=random.random(nodes), a=1.0 + random.random(nodes), c="y", boundary=boundary)
        alone = poisson.solve(problem, "multigrid", "numpy", fields=["a"])

        def solve(comm: ThreadCommunicator, given: Problem = problem) -> list[Any]:
            mine = given if comm.rank == 0 else None
            solution = poisson.solve(mine, "multigrid", "numpy", fields=["a"], comm=comm)
            assert solution.problem.lattice == given.lattice
            return [solution.gather(), solution.gather("a")]

        u, a = on_ranks(size, solve)[0]
        np.testing.assert_allclose(u, alone.u, rtol=0.0, atol=1e-12)
        np.testing.assert_array_equal(a, alone.fields["a"])


def test_a_problem_that_cannot_be_sent_is_refused() -> None:
    problem = on_box((33, 65), f=lambda x, y: x)

    def solve(comm: ThreadCommunicator, have: tuple[int, ...]) -> None:
        Solver(problem if comm.rank in have else None, backend="numpy", comm=comm)

    for error in raised(2, lambda comm: solve(comm, (0,))):
        assert str(error).startswith("problem: functions of the problem cannot be sent to the other processes (")
        assert str(error).endswith("); make the problem on each process")
    for error in raised(3, lambda comm: solve(comm, (0, 2))):
        assert str(error).startswith("problem: given on only some processes; allowed: on all, or on the first ")
    for error in raised(2, lambda comm: solve(comm, ())):
        assert str(error).startswith("problem: a NoneType; allowed: a poisson.Problem")


def test_arrays_that_do_not_go_together_are_refused() -> None:
    problem = on_box((33, 65))

    def solve(comm: ThreadCommunicator, f: Any) -> None:
        Solver(problem, "multigrid", "numpy", comm=comm).solve(f=f)

    for error in raised(3, lambda comm: solve(comm, "x" if comm.rank == 1 else None)):
        assert str(error).startswith("f: given on only some processes; allowed: on all, or an array of the whole grid")
    for error in raised(2, lambda comm: solve(comm, np.ones((65, 33)) if comm.rank else np.ones((7, 33)))):
        assert str(error) == "f: an array of the shape (7, 33); the grid needs (65, 33), because arrays are (ny, nx)"


def test_an_estimate_of_the_error_needs_the_whole_of_an_array() -> None:
    problem = on_box((33, 65))

    def solve(comm: ThreadCommunicator) -> None:
        solver = Solver(problem, "multigrid", "numpy", comm=comm, stop="discretisation")
        f = np.ones((65, 33)) if comm.rank == 0 else None
        solver.solve(f=f)

    for error in raised(3, solve):
        assert "an array of which each process has only a part, where the whole array is needed" in str(error)
