# SPDX-License-Identifier: MIT
"""What a caller is told of a solve that did not converge, or that was interrupted; observers that are functions.

Covers poisson.run.request.
"""

import os
import pickle
import signal
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.problems import WALLS, make_case
from support.ranks import ThreadCommunicator, on_ranks
from support.results import make_solution

import poisson
from poisson.cli import main
from poisson.errors import CaseError
from poisson.run import concerns
from poisson.run.notices import judged
from poisson.solvers.status import Status

PROBLEM = poisson.Problem.on_box((17, 17), f=1.0)
LINE = "the solve ended as max_iterations after 5 iterations, with the residual .* and the target .*: the limit on "


def solver() -> poisson.Solver:
    return poisson.Solver(PROBLEM, "jacobi", "numpy", max_iterations=5)


def test_a_solve_that_did_not_converge_warns_at_the_line_of_its_caller() -> None:
    for call in (
        lambda: poisson.solve(PROBLEM, "jacobi", "numpy", max_iterations=5),
        lambda: solver().solve(f=2.0),
        lambda: solver().solve_many([3.0])[0],
    ):
        with pytest.warns(poisson.NotConverged, match=LINE) as caught:
            solution = call()
        assert solution.status == "max_iterations"
        [warning] = caught
        assert warning.filename == __file__ and "\n" not in str(warning.message)


def test_strict_makes_an_error_of_it_that_has_the_solution() -> None:
    for call in (
        lambda: poisson.solve(PROBLEM, "jacobi", "numpy", max_iterations=5, strict=True),
        lambda: solver().solve(strict=True),
        lambda: solver().solve_many([1.0], strict=True),
    ):
        with pytest.raises(poisson.NotConverged, match=LINE) as caught:
            call()
        assert caught.value.solution.iterations == 5
        assert isinstance(caught.value, poisson.PoissonError)
        again = pickle.loads(pickle.dumps(caught.value))
        assert str(again) == str(caught.value) and again.solution.iterations == 5


def test_a_success_is_silent() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert poisson.solve(PROBLEM, backend="numpy", strict=True).status == "converged"
        for status in (Status.AT_ROUNDING, Status.CONVERGED):
            judged(make_solution(1, status=status), strict=False, speaks=True)
        # Who ended it knows; and one of several processes speaks for all.
        judged(make_solution(1, status=Status.INTERRUPTED), strict=False, speaks=True)
        judged(make_solution(1, status=Status.DIVERGED), strict=False, speaks=False)
    with pytest.raises(poisson.NotConverged):
        judged(make_solution(1, status=Status.INTERRUPTED), strict=True, speaks=False)


INSIDE = "where(max(abs(x - 0.5), abs(y - 0.5)) < 0.2, 1e9, 0)"
PENALTY = poisson.Problem.on_box((33, 33), f=INSIDE, c=INSIDE)
"""u = 1 in a square, by a c so large that the tolerance says little."""
CONCERN = "^equation.c: the coefficient is as large as 1e.09, and a residual at the tolerance says little"


def test_the_concerns_of_check_are_one_warning_at_the_line_of_the_caller() -> None:
    for call in (
        lambda: poisson.solve(PENALTY, backend="numpy"),
        lambda: poisson.Solver(PENALTY, backend="numpy").solve(),
        lambda: poisson.Solver(PENALTY, backend="numpy").solve_many([INSIDE, INSIDE]),
        lambda: poisson.Solver(poisson.Problem.on_box((33, 33), c=INSIDE), backend="numpy").solve(INSIDE),
        lambda: poisson.solve(penalty_case()),
    ):
        with pytest.warns(poisson.CheckWarning, match=CONCERN) as caught:
            call()
        [warning] = caught
        assert warning.filename == __file__ and "\n" not in str(warning.message)
        assert not isinstance(warning.message, poisson.PoissonError)


def test_several_concerns_are_one_warning() -> None:
    problem = poisson.Problem.on_box((33, 33), f=f"{INSIDE}*cos(32*pi*x)", c=INSIDE)
    with pytest.warns(poisson.CheckWarning) as caught:
        poisson.solve(problem, backend="numpy")
    [warning] = caught
    assert [line.partition(":")[0] for line in str(warning.message).splitlines()] == ["equation.f", "equation.c"]


def test_a_solver_looks_for_concerns_once(monkeypatch: pytest.MonkeyPatch) -> None:
    solver, looked = poisson.Solver(PENALTY, backend="numpy"), []
    monkeypatch.setattr(concerns, "concerns_of", lambda *given: looked.append(given) or ())
    for source in (1.0, 2.0):
        solver.solve(source)
        solver.solve_many([source, source])
    assert len(looked) == 1


def test_one_filter_turns_concerns_off() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", poisson.CheckWarning)
        assert poisson.solve(PENALTY, backend="numpy").status == "converged"


def test_the_first_process_alone_warns() -> None:
    def solve(comm: ThreadCommunicator) -> Status:
        return poisson.solve(PENALTY, backend="numpy", comm=comm).status

    with pytest.warns(poisson.CheckWarning, match=CONCERN) as caught:
        assert on_ranks(2, solve) == [Status.CONVERGED] * 2
    assert len(caught) == 1


def test_where_each_process_has_its_part_of_an_array_nothing_is_known() -> None:
    def solve(comm: ThreadCommunicator) -> Status:
        problem = poisson.Problem.on_box((33, 33), f=np.ones((33, 33)), c=INSIDE) if comm.rank == 0 else None
        return poisson.solve(problem, backend="numpy", comm=comm).status

    with warnings.catch_warnings():
        warnings.simplefilter("error", poisson.CheckWarning)
        assert on_ranks(2, solve) == [Status.CONVERGED] * 2


def test_a_function_that_takes_arrays_of_a_device_alone_is_no_error() -> None:
    def f(x: Any, y: Any) -> Any:
        if solved:
            raise TypeError("Unsupported type <class 'numpy.ndarray'>")
        return x * y

    solved: list[bool] = []
    solver = poisson.Solver(poisson.Problem.on_box((17, 17), f=f), backend="numpy")
    solver.solve(observer=lambda *_: solved.append(True))
    assert solved


def test_the_command_says_concerns_once(tmp_path: Path, capsys: pytest.CaptureFixture[str], recwarn: Any) -> None:
    case = tmp_path / "penalty.toml"
    case.write_text(penalty_case().text)
    assert main(["solve", str(case), "-o", str(tmp_path / "a.h5")]) == 0
    assert capsys.readouterr().err.count("a residual at the tolerance says little") == 1
    assert [warning for warning in recwarn if warning.category is poisson.CheckWarning] == []


def penalty_case() -> poisson.Case:
    return make_case({"f": INSIDE, "c": INSIDE}, WALLS, (33, 33), overrides=("solver.method='auto'",))


def test_the_command_says_it_once(tmp_path: Path, capsys: pytest.CaptureFixture[str], recwarn: Any) -> None:
    command = ["solve", "cases/unit_square.toml", "--quiet", "-o", str(tmp_path / "a.h5")]
    settings = ["--set", "domain.shape=[9,9]", "--set", "solver.method=jacobi", "--set", "solver.max_iterations=5"]
    assert main([*command, *settings]) == 1
    assert capsys.readouterr().err.count("warning: max_iterations: ") == 1
    assert [warning for warning in recwarn if warning.category is poisson.NotConverged] == []


def test_an_observer_may_be_a_function() -> None:
    seen: list[tuple[int, float]] = []
    solution = poisson.solve(PROBLEM, "jacobi", "numpy", rtol=1e-2, observer=lambda k, norm: seen.append((k, norm)))
    assert tuple(seen) == solution.history and len(seen) > 2
    seen.clear()
    solution = poisson.Solver(PROBLEM, "multigrid", "numpy").solve(observer=lambda k, norm: seen.append((k, norm)))
    assert seen and tuple(seen) == solution.history[-len(seen) :]
    with pytest.raises(CaseError, match="observer: an int; allowed: a function of the iteration and the norm of its"):
        poisson.solve(PROBLEM, backend="numpy", observer=3)  # type: ignore[arg-type]


@pytest.fixture
def ctrl_c() -> Any:
    """Ctrl-C as a terminal has it, whatever runs the tests."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield lambda *_: os.kill(os.getpid(), signal.SIGINT)
    signal.signal(signal.SIGINT, before)


def test_ctrl_c_in_a_loop_of_solves_ends_it_and_keeps_the_iterate(ctrl_c: Any) -> None:
    slow = poisson.Solver(PROBLEM, "jacobi", "numpy", rtol=1e-6, check_every=1)
    for solve in (slow.solve, lambda **given: poisson.solve(PROBLEM, "jacobi", "numpy", check_every=1, **given)):
        done = 0
        with pytest.raises(poisson.Interrupted) as caught:
            for _ in range(3):
                solve(observer=ctrl_c)
                done += 1
        assert done == 0
        assert isinstance(caught.value, KeyboardInterrupt)
        assert caught.value.solution.status == "interrupted" and caught.value.solution.iterations <= 2
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert slow.solve().status == "converged"


def test_who_asks_to_be_asked_decides_himself() -> None:
    solution = poisson.Solver(PROBLEM, "jacobi", "numpy").solve(interrupted=lambda: True)
    assert solution.status == "interrupted"
