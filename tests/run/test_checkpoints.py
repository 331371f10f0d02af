# SPDX-License-Identifier: MIT
"""Checkpoints: what is written while a solve goes on, and that a solve which goes on from one ends as if unbroken."""

import errno
import logging
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.problems import SINE, WALLS, make_case
from support.ranks import ThreadCommunicator, on_ranks

import poisson
from poisson.backends.numpy import NumpyBackend
from poisson.case import Case
from poisson.discrete.operator import Operator
from poisson.errors import CaseError
from poisson.mesh.boundary import Rule
from poisson.output import checkpoint
from poisson.output.description import describe
from poisson.parallel.communicator import Serial
from poisson.run.checkpoints import Checkpoints
from poisson.run.ranks import Ranks
from poisson.solvers.fallback import ChosenMethod
from poisson.solvers.iteration import Iterate
from poisson.solvers.settings import SolverSettings
from poisson.solvers.status import Status
from poisson.solvers.stopping import Begun


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing waits for the disk, and files are read in this process: tests/output/test_checkpoint.py has both."""
    monkeypatch.setattr(os, "fsync", lambda handle: None)
    monkeypatch.setattr(checkpoint, "describe_apart", lambda path, *, whole: whole and describe(path))


class Broken(Exception):
    """A solve is broken off."""


class BrokenAt:
    """An observer by which a solve is broken off at an iteration."""

    def __init__(self, iteration: int) -> None:
        self.iteration = iteration
        self.target = 0.0

    def start(self, target: float, reference: str, max_iterations: int) -> None:
        self.target = target

    def __call__(self, iteration: int, norm: float) -> None:
        if iteration > self.iteration:
            raise Broken


def case_of(folder: Path, *overrides: str, every: int | str = 40, problem: Any = SINE, boundary: Any = WALLS) -> Case:
    value = every if isinstance(every, int) else f"'{every}'"
    settings = (
        "solver.rtol=1e-5",
        f"output.file='{folder / 'a.h5'}'",
        f"output.checkpoint_every={value}",
        "run.backend='numpy'",
    )
    return make_case(problem, boundary, (11, 9), overrides=(*settings, *overrides))


def files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def broken(case: Case, iteration: int) -> None:
    with pytest.raises(Broken):
        poisson.solve(case, observer=BrokenAt(iteration))


def without(case: Case) -> Case:
    return replace(case, output=replace(case.output, checkpoint_every=None))


# ---- one solve, broken off
@pytest.mark.parametrize("loop", ["blocked", "fused", "staged"])
@pytest.mark.parametrize("precision", ["float64", "float32"])
def test_jacobi_has_the_same_bits_as_if_it_had_not_been_broken_off(tmp_path: Path, loop: str, precision: str) -> None:
    """In float32 it ends at rounding, which it knows by the norms that were read before, too."""
    case = case_of(
        tmp_path, "solver.method='jacobi'", f"solver.loop='{loop}'", f"run.precision='{precision}'", every=30
    )
    whole = poisson.solve(without(case))
    assert files(tmp_path) == []
    broken(case, whole.iterations // 2)
    assert len(files(tmp_path)) == checkpoint.MOST_KEPT
    solution = poisson.solve(case, resume=True)
    assert solution.u.tobytes() == whole.u.tobytes()
    assert (solution.status, solution.iterations) == (whole.status, whole.iterations)
    assert (solution.history, solution.target) == (whole.history, whole.target)
    assert str(solution.provenance["resumed"]).startswith("a.checkpoint-")
    assert files(tmp_path) == []


METHODS = {
    "cg": ("solver.method='cg'", "solver.preconditioner='none'"),
    "cg in mixed precision": ("solver.method='cg'", "run.precision='mixed'"),
    "multigrid": ("solver.method='multigrid'",),
    "multigrid in mixed precision": ("solver.method='multigrid'", "run.precision='mixed'", "solver.rtol=1e-13"),
    "chebyshev": ("solver.method='chebyshev'",),
    "sor": ("solver.method='sor'",),
}


@pytest.mark.parametrize("method", METHODS)
def test_every_method_ends_with_the_same_solution(tmp_path: Path, method: str) -> None:
    case = case_of(
        *(tmp_path, *METHODS[method], "domain.shape=[25, 17]", "solver.rtol=1e-10"),
        every=10 if method in ("sor", "cg") else 1,
        problem={"f": "exp(x)*(1 + y)"},
    )
    whole = poisson.solve(case)
    assert whole.status.success
    reached = whole.history[len(whole.history) // 2][0]
    broken(case, reached)
    solution = poisson.solve(case, resume=True)
    assert solution.status.success
    assert solution.target == whole.target
    behind = [each for each in whole.history if each[0] <= reached // 2]
    assert solution.history[: len(behind)] == tuple(behind)
    assert [sweep for sweep, _ in solution.history] == sorted({sweep for sweep, _ in solution.history})
    assert solution.iterations == solution.history[-1][0] > reached
    # Sweeps go on as if there had been no break; what has a memory of its own, such as directions, begins it anew.
    most = 0.0 if method in ("chebyshev", "sor") else 1e-6
    assert np.abs(solution.u - whole.u).max() <= most * np.abs(whole.u).max()


@pytest.mark.parametrize(("faces", "preconditioner"), [("walls", "jacobi"), ("open", "multigrid")])
def test_bodies_and_open_faces_go_on_from_a_checkpoint(tmp_path: Path, faces: str, preconditioner: str) -> None:
    """Potentials that follow from charges, and the values on open faces, are found again."""
    floating, held = (
        "inside = 'hypot(x - 0.6, y - 0.6) < 0.2'",
        "inside = 'hypot(x - 0.25, y - 0.3) < 0.12', dirichlet = 1.0",
    )
    bodies = f"body = [{{ {floating}, floating = true, charge = 1.0 }}, {{ {held} }}]"
    settings = ("solver.method='cg'", f"solver.preconditioner='{preconditioner}'", "solver.rtol=1e-8", bodies)
    boundary = WALLS if faces == "walls" else {"all": "open"}
    case = case_of(tmp_path, *settings, "domain.shape=[17, 15]", every=2, problem={"f": 1.0}, boundary=boundary)
    whole = poisson.solve(without(case))
    broken(case, whole.iterations // 2)
    assert files(tmp_path) != []
    solution = poisson.solve(case, resume=True)
    assert solution.status.success and str(solution.provenance["resumed"]).startswith("a.checkpoint-")
    assert solution.iterations > whole.iterations // 2
    assert np.abs(solution.u - whole.u).max() <= 1e-6 * np.abs(whole.u).max()
    for name, values in whole.bodies.items():
        assert solution.bodies[name] == pytest.approx(values, rel=1e-5, abs=1e-5)


@pytest.mark.parametrize("method", ["jacobi", "cg", "multigrid"])
def test_to_write_checkpoints_changes_nothing(tmp_path: Path, method: str) -> None:
    case = case_of(tmp_path, f"solver.method='{method}'", every=30 if method == "jacobi" else 1)
    alone, beside = poisson.solve(without(case)), poisson.solve(case)
    assert alone.u.tobytes() == beside.u.tobytes()
    assert alone.history == beside.history


def test_a_singular_problem_keeps_the_mean_that_its_iterates_have(tmp_path: Path) -> None:
    problem = {"f": "cos(2*pi*x)*cos(4*pi*y)"}
    boundary = dict.fromkeys(("x", "y"), "periodic")
    case = case_of(tmp_path, "solver.method='jacobi'", every=20, problem=problem, boundary=boundary)
    whole = poisson.solve(without(case))
    broken(case, whole.iterations // 2)
    assert poisson.solve(case, resume=True).u.tobytes() == whole.u.tobytes()


def test_a_nearly_singular_problem_goes_on_from_the_sum_of_its_parts(tmp_path: Path) -> None:
    problem = {"f": "1 + cos(2*pi*x)", "c": 1e-13}
    boundary = dict.fromkeys(("x", "y"), "periodic")
    settings = ("solver.method='cg'", "solver.preconditioner='none'", "solver.rtol=1e-8")
    case = case_of(tmp_path, *settings, every=1, problem=problem, boundary=boundary)
    whole = poisson.solve(without(case))
    broken(case, 1)
    first = next(tmp_path.iterdir())
    assert abs(poisson.load(first).u.mean() / whole.u.mean() - 1.0) < 1e-10
    solution = poisson.solve(case, resume=True)
    assert solution.status.success
    assert np.abs(solution.u - whole.u).max() < 1e-10 * np.abs(whole.u).max()


def test_a_tiny_solution_is_kept_without_the_factor_of_the_loop(tmp_path: Path) -> None:
    settings = ("solver.method='cg'", "solver.preconditioner='none'", "solver.rtol=1e-8")
    case = case_of(tmp_path, *settings, every=1, problem={"f": "1e-200*x*y"})
    whole = poisson.solve(without(case))
    broken(case, whole.iterations - 2)
    kept = poisson.load(checkpoint.beside(case.output.file)[0]).u
    assert 0.9 < np.abs(kept).max() / np.abs(whole.u).max() < 1.1
    assert np.abs(poisson.solve(case, resume=True).u - whole.u).max() < 1e-6 * np.abs(whole.u).max()


def test_the_discretisation_error_is_reached_from_a_checkpoint(tmp_path: Path) -> None:
    case = case_of(tmp_path, "solver.method='multigrid'", "solver.stop='discretisation'", every=1)
    whole = poisson.solve(without(case))
    saved = saved_after(case, whole.u + 1e-3)
    solution = poisson.solve(case, resume=True)
    assert solution.status is Status.CONVERGED and solution.error_bar is not None
    assert solution.iterations > saved
    assert solution.error is not None and solution.error.max <= solution.error_bar


def saved_after(case: Case, u: Any) -> int:
    """Write a checkpoint of the first iteration with these values; the number of the iteration."""
    checkpoints, ranks = Checkpoints(case), Ranks(Serial())
    solution = poisson.solve(without(case))

    def made(iterate: Iterate) -> poisson.Solution:
        return replace(solution, u=u, status=Status.UNFINISHED, iterations=1, history=((0, 1.0), (1, 0.5)))

    show = checkpoints.between(ranks, lambda: False, made)
    assert show(Iterate(1, lambda: u, 1.0, solution.target, ((0, 1.0), (1, 0.5)))) is False
    return 1


@pytest.mark.parametrize(
    "changed", ["run.precision='float32'", "run.backend='openmp'", "solver.max_iterations=100000", "title='other'"]
)
def test_another_machine_or_precision_can_go_on(tmp_path: Path, changed: str) -> None:
    settings = ("solver.method='jacobi'", "solver.rtol=1e-5")
    case = case_of(tmp_path, *settings, every=50)
    whole = poisson.solve(without(case))
    broken(case, whole.iterations // 2)
    solution = poisson.solve(case_of(tmp_path, *settings, changed, every="1 h"), resume=True)
    assert solution.status is Status.CONVERGED
    assert abs(solution.iterations - whole.iterations) <= 2
    assert np.abs(solution.u - whole.u).max() < 1e-4 * np.abs(whole.u).max()
    if "float32" in changed:
        assert solution.u.dtype == np.float32
    assert files(tmp_path) == []


def test_a_dirichlet_value_keeps_the_digits_that_a_checkpoint_in_float32_lacks(tmp_path: Path) -> None:
    boundary = {"all": {"dirichlet": 0.1}}
    settings = ("solver.method='jacobi'", "solver.rtol=1e-3")
    broken(case_of(tmp_path, *settings, "run.precision='float32'", every=20, boundary=boundary), 40)
    solution = poisson.solve(case_of(tmp_path, *settings, every=20, boundary=boundary), resume=True)
    assert solution.u[0, 0] == 0.1


# ---- a method that goes on where another one stalls
def test_the_method_that_had_gone_on_goes_on() -> None:
    settings = SolverSettings(method="multigrid")
    operations = NumpyBackend(np.float64).bind(Operator.uniform((5, 5), (1.0, 1.0), 0.0, (Rule.FIXED,) * 4))
    chosen = ChosenMethod(operations, settings, None, lambda settings: settings)  # type: ignore[arg-type, return-value]
    names = [chosen._behind(Begun(1, 1.0, (), instead=name))[0] for name in ("", "cg with preconditioner jacobi")]
    assert [each.method for each in names] == ["multigrid", "cg"]


# ---- when one is written
def test_by_the_clock_the_first_iterate_after_the_interval_is_written(tmp_path: Path) -> None:
    case = case_of(tmp_path, every="10 s")
    times = iter([0.0, 0.0, 4.0, 12.0, 12.0, 12.5, 15.0, 21.0, 23.0, 23.0, 23.0])
    checkpoints = Checkpoints(case, clock=lambda: next(times))
    solution = replace(poisson.solve(without(case)), status=Status.UNFINISHED)
    show = checkpoints.between(Ranks(Serial()), lambda: False, lambda iterate: solution)
    found = []
    for iteration in range(1, 6):
        show(Iterate(iteration, lambda: solution.u, 1.0, 1.0, ()))
        found.append(files(tmp_path))
    assert found == [
        [], ["a.checkpoint-2.h5"], ["a.checkpoint-2.h5"], ["a.checkpoint-2.h5"],
        ["a.checkpoint-2.h5", "a.checkpoint-5.h5"],
    ]  # fmt: skip


def test_a_solve_that_is_interrupted_leaves_a_checkpoint_of_its_last_iterate(tmp_path: Path) -> None:
    case = case_of(tmp_path, every="1 h")
    solution = replace(poisson.solve(without(case)), status=Status.UNFINISHED)
    show = Checkpoints(case).between(Ranks(Serial()), lambda: True, lambda iterate: solution)
    assert show(Iterate(7, lambda: solution.u, 1.0, 1.0, ())) is True
    assert files(tmp_path) == ["a.checkpoint-7.h5"]


def test_those_of_a_solve_before_go_when_the_first_new_one_is_there(tmp_path: Path) -> None:
    settings = ("solver.method='jacobi'",)
    broken(case_of(tmp_path, *settings, every=40), 100)
    old = files(tmp_path)
    (tmp_path / "a.checkpoint-77.h5").write_text("somebody's own")
    broken(case_of(tmp_path, *settings, every=10), 20)
    assert set(files(tmp_path)).isdisjoint(old)
    assert "a.checkpoint-77.h5" in files(tmp_path)


# ---- where there is none, or another
def test_without_a_checkpoint_the_solve_begins_from_the_beginning_and_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    case = case_of(tmp_path, "solver.method='jacobi'")
    with caplog.at_level(logging.INFO, "poisson"):
        solution = poisson.solve(case, resume=True)
    assert solution.u.tobytes() == poisson.solve(case).u.tobytes()
    assert any("starting from scratch" in record.getMessage() for record in caplog.records)
    assert "resumed" not in solution.provenance


def test_a_checkpoint_of_another_case_is_refused_with_the_keys_that_differ(tmp_path: Path) -> None:
    broken(case_of(tmp_path, "solver.method='jacobi'", every=30), 100)
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    other = case_of(tmp_path, "solver.method='jacobi'", "solver.rtol=1e-3", "equation.c=2.0")
    with pytest.raises(CaseError) as caught:
        poisson.solve(other, resume=True)
    first, *keys = caught.value.mistakes
    assert "belongs to another case" in first and "a.checkpoint-" in first
    assert keys == ["equation.c: 0.0 -> 2.0", "solver.rtol: 1e-05 -> 0.001"]
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_a_result_that_is_complete_is_loaded_and_left(tmp_path: Path) -> None:
    case = case_of(tmp_path, "solver.method='jacobi'")
    poisson.solve(case).save(case.output.file)
    before = case.output.file.read_bytes()
    solution = poisson.solve(case, resume=True)
    assert (solution.status, case.output.file.read_bytes()) == (Status.CONVERGED, before)
    # Of another precision it is not this case's.
    other = case_of(tmp_path, "solver.method='jacobi'", "run.precision='float32'")
    assert poisson.solve(other, resume=True).u.dtype == np.float32


def test_a_result_that_ended_early_is_as_good_as_a_checkpoint(tmp_path: Path) -> None:
    """The limit lies between two reads of the norm; those that follow are where they would have been."""
    settings = ("solver.method='jacobi'", "solver.check_every=7")
    whole = poisson.solve(without(case_of(tmp_path, *settings)))
    case = without(case_of(tmp_path, *settings, "solver.max_iterations=33"))
    with pytest.warns(poisson.NotConverged):
        poisson.solve(case).save(case.output.file)
    solution = poisson.solve(without(case_of(tmp_path, *settings)), resume=True)
    assert solution.u.tobytes() == whole.u.tobytes()
    assert solution.provenance["resumed"] == "a.h5 after 33 iterations (numpy, float64)"


def test_an_iterate_that_nobody_has_looked_at_does_not_end_the_solve(tmp_path: Path) -> None:
    """The norm that was read belongs to the sweep before, and was too large; the next is read a block later."""
    norms = dict(poisson.solve(without(case_of(tmp_path, "solver.method='jacobi'", "solver.check_every=1"))).history)
    target = f"solver.atol={(norms[19] + norms[20]) / 2.0}"
    case = case_of(tmp_path, "solver.method='jacobi'", "solver.check_every=20", "solver.rtol=0.0", target, every=20)
    whole = poisson.solve(without(case))
    assert whole.iterations == 40
    broken(case, 19)
    assert files(tmp_path) == ["a.checkpoint-20.h5"]
    assert poisson.solve(case, resume=True).u.tobytes() == whole.u.tobytes()


def test_beside_a_problem_there_is_nothing_to_resume() -> None:
    problem = poisson.Problem.on_box((9, 9), f=1.0, boundary={"all": {"dirichlet": 0.0}})
    with pytest.raises(CaseError, match="resume: allowed only with a case"):
        poisson.solve(problem, resume=True)


# ---- on several ranks
@pytest.mark.parametrize(("writing", "reading"), [(2, 2), (2, 1), (1, 2)])
def test_what_some_ranks_have_written_others_go_on_from(tmp_path: Path, writing: int, reading: int) -> None:
    settings = ("solver.method='jacobi'", "domain.shape=[9, 25]")
    case = case_of(tmp_path, *settings, every=50)
    whole = poisson.solve(without(case))

    def solve(comm: ThreadCommunicator) -> None:
        with pytest.raises(Broken):
            poisson.solve(case, comm=comm, observer=BrokenAt(whole.iterations // 2))

    on_ranks(writing, solve)
    assert len(files(tmp_path)) == checkpoint.MOST_KEPT

    def resumed(comm: ThreadCommunicator) -> Any:
        solution = poisson.solve(case, comm=comm, resume=True)
        return solution.gather(), solution.iterations, solution.history

    u, iterations, history = on_ranks(reading, resumed)[0]
    assert u.tobytes() == whole.u.tobytes()
    assert (iterations, len(history)) == (whole.iterations, len(whole.history))
    assert files(tmp_path) == []


def test_ranks_that_solve_each_the_whole_write_it_once(tmp_path: Path) -> None:
    case = case_of(tmp_path, "solver.method='jacobi'", "domain.shape=[5, 5]", every=4)
    whole = poisson.solve(without(case))

    def solve(comm: ThreadCommunicator) -> Any:
        with pytest.raises(Broken):
            poisson.solve(case, comm=comm, observer=BrokenAt(whole.iterations // 2))
        comm.barrier()
        return poisson.solve(case, comm=comm, resume=True).u

    assert all(u.tobytes() == whole.u.tobytes() for u in on_ranks(2, solve))


# ---- a disk that refuses

REFUSALS = {
    "full": OSError(errno.ENOSPC, "No space left on device"),
    "forbidden": PermissionError(errno.EACCES, "Permission denied"),
    "interrupted": InterruptedError(errno.EINTR, "Interrupted system call"),
}


STEPS = [("full", "pwrite"), *((name, call) for call in ("open", "ftruncate", "fsync", "replace") for name in REFUSALS)]


@pytest.mark.parametrize(("refusal", "call"), STEPS)
def test_a_checkpoint_that_cannot_be_written_leaves_the_one_before(
    tmp_path: Path, call: str, refusal: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """At every call of the system that a write makes, one after the other, until one comes that it does not make."""
    case = case_of(tmp_path, "solver.method='jacobi'", every=1)
    solution = replace(poisson.solve(without(case)), status=Status.UNFINISHED)
    system: Callable[..., Any] = getattr(os, call)
    failing, count = -1, 0

    def refuse(*arguments: Any, **named: Any) -> Any:
        nonlocal count
        count += 1
        if count - 1 == failing:
            raise REFUSALS[refusal]
        return system(*arguments, **named)

    show = Checkpoints(case).between(Ranks(Serial()), lambda: False, lambda iterate: solution)
    show(Iterate(1, lambda: solution.u, 1.0, 1.0, ()))
    before = (tmp_path / "a.checkpoint-1.h5").read_bytes()
    monkeypatch.setattr(os, call, refuse)
    for failing in range(200):
        count = 0
        caplog.clear()
        show(Iterate(2 + failing, lambda: solution.u, 1.0, 1.0, ()))
        path = tmp_path / f"a.checkpoint-{2 + failing}.h5"
        if count <= failing:
            break
        warnings = [record.getMessage() for record in caplog.records]
        if not path.exists():
            assert (tmp_path / "a.checkpoint-1.h5").read_bytes() == before
            [warning] = warnings
            assert warning.startswith(f"no checkpoint at iteration {2 + failing} (the solve continues): {path}: ")
        else:
            # Of some refusals nothing depends on what they keep from being done.
            assert poisson.load(path).u.tobytes() == solution.u.tobytes()
            path.unlink()
            show = Checkpoints(case).between(Ranks(Serial()), lambda: False, lambda iterate: solution)
            (tmp_path / "a.checkpoint-1.h5").write_bytes(before)
    assert failing > 0
    assert not [name for name in files(tmp_path) if name.endswith(".tmp")]


def test_what_the_system_writes_in_pieces_is_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    case = case_of(tmp_path, "solver.method='jacobi'", every=40)
    system = os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda handle, data, place: system(handle, data[: max(1, len(data) // 3)], place))
    broken(case, 100)
    for path in checkpoint.beside(case.output.file):
        assert checkpoint.load(path).status is Status.UNFINISHED


def test_a_solve_outlives_a_disk_that_is_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    case = case_of(tmp_path, "solver.method='jacobi'", every=20)
    whole = poisson.solve(without(case))

    def full(handle: int, data: bytes, place: int) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "pwrite", full)
    assert poisson.solve(case).u.tobytes() == whole.u.tobytes()
    lines = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert lines and all("the disk is full" in line for line in lines)
