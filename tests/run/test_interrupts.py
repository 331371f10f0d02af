# SPDX-License-Identifier: MIT
"""Ctrl-C at every stage of a solve: what is written, what is said, and what a caller in Python gets.

Covers poisson.run.outcome.
"""

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import h5py
import numpy as np
import pytest
from support.forked import Forks
from support.places import ROOT
from support.problems import SINE, WALLS, make_case

import poisson
from poisson.run import run
from poisson.solvers.status import Status

pytestmark = pytest.mark.usefixtures("interruptible")

HEAD = """
import os, signal, sys
def press():
    os.kill(os.getpid(), signal.SIGINT)
def at(owner, name, times=1):
    whole, left = getattr(owner, name), [times]
    def pressed(*arguments, **named):
        if left[0]:
            left[0] -= 1
            press()
        return whole(*arguments, **named)
    setattr(owner, name, pressed)
"""
SOLVE = """
import poisson.case, poisson.run.solver, poisson.run.certificate, poisson.run.run, poisson.cli.terminal
import poisson.cli.summary
import poisson.output.result, poisson.perf.timing, poisson.perf.usage
from poisson.cli import main
poisson.perf.timing.STREAM_VALUES, poisson.perf.timing.LEAST_SECONDS = 1 << 12, 1e-4
poisson.perf.timing.SHORT_SECONDS = 1e-5
STAGE
sys.exit(main(["solve", "cases/unit_square.toml", "--profile", "--backend=numpy", "--output", sys.argv[1], "--set",
    "domain.shape=[17, 17]", "--set", "solver.method=jacobi", "--set", "solver.rtol=1e-6",
    "--set", "output.fields=['f']"]))
"""


PRODUCTS = "import poisson.solvers.multigrid.galerkin\nat(poisson.solvers.multigrid.galerkin, '_power_method')"


def interrupted(forked: Forks, stage: str, path: Path) -> subprocess.CompletedProcess[str]:
    solve = SOLVE.replace("STAGE", stage)
    if stage is PRODUCTS:
        solve = solve.replace("[17, 17]", "[41, 41]").replace("=jacobi", "=multigrid")
        solve = solve.replace("solver.rtol=1e-6", "solver.coarse=galerkin")
    return forked.run(HEAD + solve, str(path))


BEFORE = [
    'at(poisson.case, "load")',
    'at(poisson.output.result, "check")',
    'at(poisson.run.solver, "set_up")',
    'at(poisson.run.run, "_told")',
    PRODUCTS,
]


@pytest.mark.parametrize("stage", BEFORE)
def test_ctrl_c_before_there_is_an_iterate_writes_nothing_and_says_so(
    forked: Forks, tmp_path: Path, stage: str
) -> None:
    done = interrupted(forked, stage, tmp_path / "a.h5")
    assert (done.returncode, done.stdout) == (130, "")
    assert done.stderr.splitlines()[-1] == "poisson: interrupted; nothing was written"
    assert "Traceback" not in done.stderr
    assert os.listdir(tmp_path) == []


AFTER = [
    ('at(poisson.run.loader.Loader, "fill")', "interrupted"),
    ('at(poisson.cli.terminal.Progress, "start")', "interrupted"),
    ('at(poisson.run.solver, "finish")', "converged"),
    ('at(poisson.output.hdf5, "_dataset")', "converged"),
    ('at(poisson.output.xdmf, "content")', "converged"),
    ('at(poisson.perf.usage, "bandwidth_of")', "converged"),
    ('at(poisson.perf.usage, "_seconds")', "converged"),
]


@pytest.mark.parametrize(("stage", "status"), AFTER)
def test_ctrl_c_once_there_is_an_iterate_writes_it(forked: Forks, tmp_path: Path, stage: str, status: str) -> None:
    path = tmp_path / "a.h5"
    done = interrupted(forked, stage, path)
    assert (done.returncode, "Traceback" in done.stderr) == (130, False)
    assert done.stdout.startswith(f"{status}: ")
    assert sorted(os.listdir(tmp_path)) == ["a.h5", "a.xmf"]
    with h5py.File(path) as file:
        assert file.attrs["status"] == status
        assert file["provenance"].attrs["case"].startswith("title = ")
        assert np.isfinite(file["u"][...]).all()
    complete = "poisson: warning: interrupted after the end of the solve; the result is complete"
    assert (complete in done.stderr.splitlines()) == (status == "converged")


LATE = [
    'at(poisson.cli.summary.Ended, "lines")',
    # In the second write, which adds the times of the operations.
    'at(poisson.output.hdf5, "_write_performance")',
]


@pytest.mark.parametrize("stage", LATE)
def test_ctrl_c_after_the_result_is_written_leaves_it(forked: Forks, tmp_path: Path, stage: str) -> None:
    path = tmp_path / "a.h5"
    done = interrupted(forked, stage, path)
    assert (done.returncode, done.stdout) == (130, "")
    assert done.stderr.splitlines()[-1] == f"poisson: interrupted; the result is in {path}"
    assert sorted(os.listdir(tmp_path)) == ["a.h5", "a.xmf"]
    with h5py.File(path) as file:
        assert file.attrs["status"] == "converged"


def test_a_second_ctrl_c_aborts_the_write_and_leaves_no_part_of_it(forked: Forks, tmp_path: Path) -> None:
    done = interrupted(forked, 'at(poisson.output.hdf5, "_dataset", 2)', tmp_path / "a.h5")
    assert (done.returncode, done.stdout) == (130, "")
    assert done.stderr.splitlines()[-1] == "poisson: interrupted; nothing was written"
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(("name", "call"), [("seek", 0), ("seek", 6), ("write", 0), ("write", 6)])
def test_ctrl_c_within_the_library_that_writes_is_neither_lost_nor_an_error(
    forked: Forks, tmp_path: Path, name: str, call: int
) -> None:
    """A `save` in Python: the library calls back, and an exception from there would be a failed write to it."""
    script = f"""
sys.path.insert(0, "tests")
from support.results import make_solution
from poisson.output.sink import Sink
whole, calls = Sink.{name}, []
def pressed(*arguments):
    calls.append(1)
    if len(calls) == {call} + 1:
        press()
    return whole(*arguments)
Sink.{name} = pressed
try:
    make_solution().save(sys.argv[1])
    print("saved")
except KeyboardInterrupt:
    print("interrupted")
print(signal.getsignal(signal.SIGINT) is signal.default_int_handler)
"""
    done = forked.run(HEAD + script, str(tmp_path / "a.h5"))
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "interrupted\nTrue\n"
    assert os.listdir(tmp_path) == []


def test_ctrl_c_while_modules_are_loaded_or_after_the_command_says_nothing(tmp_path: Path) -> None:
    script = (
        "import signal, sys, types\nsys.modules['poisson.cli'] = types.ModuleType('poisson.cli')\n"
        "def stop():\n    raise KeyboardInterrupt\nsys.modules['poisson.cli'].main = stop\n"
        "from poisson.__main__ import main\ncode = main()\npress()\nsys.exit(code)\n"
    )
    command = [sys.executable, "-c", HEAD + script]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


def test_a_loop_of_solves_in_python_ends_with_the_solve_that_is_interrupted(forked: Forks) -> None:
    script = """
import numpy as np, poisson
class Presses:
    def start(self, *arguments): pass
    def __call__(self, iteration, norm):
        if solves == 2 and iteration: press()
problem = poisson.Problem.on_box((17, 17), f=1.0)
solves = 0
try:
    for _ in range(10):
        solves += 1
        poisson.solve(problem, "jacobi", backend="numpy", observer=Presses(), check_every=5)
except KeyboardInterrupt as error:
    found = error.solution
    print(solves, type(error).__name__, found.status.value, found.iterations, bool(abs(found.u).max() > 0.0))
print(signal.getsignal(signal.SIGINT) is signal.default_int_handler)
"""
    done = forked.run(HEAD + script)
    assert done.stdout == "2 Interrupted interrupted 5 True\nTrue\n"
    assert done.returncode == 0


class Presses:
    """An observer that interrupts like a keyboard, so many times at a chosen read of the norm."""

    def __init__(self, read: int = 1, times: int = 1) -> None:
        self._left, self._times = read, times

    def start(self, target: float, reference: str, max_iterations: int) -> None:
        assert max_iterations == 200_000

    def __call__(self, iteration: int, norm: float) -> None:
        self._left -= 1
        if self._left == 0:
            for _ in range(self._times):
                signal.raise_signal(signal.SIGINT)


def test_the_first_interrupt_ends_the_solve_and_the_second_the_run() -> None:
    case = make_case(SINE, WALLS, (17, 17), overrides=("solver.rtol=0.0", "solver.check_every=5"))
    with pytest.raises(poisson.Interrupted) as caught:
        run.solve(case, observer=Presses(3))
    solution = caught.value.solution
    assert (solution.status, solution.iterations, solution.case_text) == (Status.INTERRUPTED, 15, case.text)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    with pytest.raises(KeyboardInterrupt) as at_once:
        run.solve(case, observer=Presses(5, 2))
    assert not isinstance(at_once.value, poisson.Interrupted)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_handler_of_the_callers_own_is_called() -> None:
    calls = []
    signal.signal(signal.SIGINT, lambda number, frame: calls.append(number))
    solution = poisson.solve(poisson.Problem.on_box((9, 9), f=1.0), "fft", backend="numpy", observer=Presses())
    assert solution.status is Status.CONVERGED
    assert calls and set(calls) == {signal.SIGINT}


def test_a_solve_in_another_thread_leaves_signals_alone() -> None:
    found = []

    def work() -> None:
        found.append(poisson.solve(poisson.Problem.on_box((9, 9), f=1.0), backend="numpy").status)
        found.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert found == [Status.CONVERGED, signal.default_int_handler]
