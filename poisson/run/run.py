"""The one place that puts the parts together: Case -> Solver -> Solution."""

from __future__ import annotations

import contextlib
import functools
import logging
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np

from poisson.backends.base import Backend
from poisson.backends.ledger import Ledger
from poisson.case import Case
from poisson.errors import CaseError, PoissonError
from poisson.output.record import Performance
from poisson.problem.problem import Problem
from poisson.run.solution import Interrupted, Solution
from poisson.run.solver import Solver
from poisson.solvers.stopping import Observer

Appraise = Callable[[Backend, Ledger, float], Performance | None]
"""Measures what operations reached, from where they ran, how often each did, and the seconds of the loop."""

Keep = Callable[[Solution], None]
"""Puts a solution where nothing that follows can lose it."""

log = logging.getLogger(__name__)


def solve(
    case: Case | Problem | None,
    method: str | None = None,
    backend: str | None = None,
    precision: str | None = None,
    *,
    observer: Observer | None = None,
    appraise: Appraise | None = None,
    keep: Keep | None = None,
    comm: Any = None,
    **options: Any,
) -> Solution:
    """Solve a case or a problem, in this process or, given a communicator, in several, which all call this.

    The residual that is reported is recomputed in float64 from the final u, and so is the verdict whether it converged.
    While the solver loop runs, the first interrupt from the keyboard ends it after the current iteration; what there is
    by then comes with the exception. A second one interrupts at once. A handler that the caller has set stays in place.

    Parameters
    ----------
    case : Case or Problem
        What to solve; a case says how, too.
    method, backend, precision : str, optional
        For a problem, as `poisson.Solver` takes them, with its defaults.
    observer : Observer, optional
        Told the target residual at the start and every norm that is read.
    appraise : callable, optional
        For a case: called at the end to measure the operations of the loop, as `poisson.perf.usage.appraise` does.
    keep : callable, optional
        For a case: given the solution when it is complete, before operations are measured. Meanwhile the first
        interrupt is only noted.
    comm : communicator of mpi4py, optional
        The processes; each has a part of the grid and of the solution (`Solution.gather`).
    **options
        For a problem, the further arguments of `poisson.Solver`.

    Returns
    -------
    Solution
        With u and the fields of ``[output] fields``.

    Raises
    ------
    PoissonError
        If a setting does not fit, the backend is not available, memory is short, the data are not finite, or a singular
        problem has no solution.
    Interrupted
        If Ctrl-C was pressed once the loop had begun. It is a KeyboardInterrupt, and its ``solution`` is the last
        complete iterate.
    """
    named = {"method": method, "backend": backend, "precision": precision}
    options |= {name: value for name, value in named.items() if value is not None}
    if isinstance(case, Problem) or (case is None and comm is not None):
        for name, given in {"appraise": appraise, "keep": keep}.items():
            if given is not None:
                raise CaseError([f"{name}: given beside a problem; allowed: only beside a case"])
        return _solve(Solver(case, comm=comm, **options), observer, None, None, None)
    if not isinstance(case, Case):
        kinds = "a case (poisson.load_case) or a problem (poisson.Problem.on_box)"
        raise CaseError([f"case: a {type(case).__name__}; allowed: {kinds}"])
    if options:
        raise CaseError(
            [f"{', '.join(options)}: given beside a case, which has its own settings; change those instead"]
        )
    return _solve(Solver.of(case, count=appraise is not None, comm=comm), observer, appraise, keep, case)


def _solve(
    solver: Solver, observer: Observer | None, appraise: Appraise | None, keep: Keep | None, case: Case | None
) -> Solution:
    # Asked of git before there is a result, which an interrupt could lose.
    commit = {"commit": _commit()}
    solution: Solution | None = None
    try:
        with _interrupts() as (interrupted, pressed):
            bare = solver.solve(observer=observer, interrupted=interrupted)
            solution = replace(bare, provenance=dict(bare.provenance) | commit)
            if case is not None:
                solution = replace(solution, case_text=case.text, units=case.output.units)
            if keep is not None:
                keep(solution)
        if solver.ranks.communicator.agree(pressed.is_set()):
            raise KeyboardInterrupt
        return _measured(solver, solution, appraise)
    except KeyboardInterrupt:
        if solution is None:
            raise
        raise Interrupted(solution) from None


def _measured(solver: Solver, solution: Solution, appraise: Appraise | None) -> Solution:
    """The solution with what its operations reached."""
    if appraise is None or solver.ledger is None:
        return solution
    times, start = dict(solution.times), time.perf_counter()
    with np.errstate(all="ignore"):
        performance = _appraised(appraise, solver.local_backend, solver.ledger, times["solve"])
    times["appraise"] = time.perf_counter() - start
    return replace(solution, times=times, performance=performance)


def _appraised(appraise: Appraise, backend: Backend, ledger: Ledger, seconds: float) -> Performance | None:
    """What `appraise` measures; a result is not lost because there is no memory left to measure with."""
    try:
        return appraise(backend, ledger, seconds)
    except (PoissonError, MemoryError) as error:
        log.warning("the operations could not be timed: %s", error)
        return None


@contextlib.contextmanager
def _interrupts() -> Iterator[tuple[Callable[[], bool], threading.Event]]:
    """Within, the first interrupt only sets the event, which the callable reads; a second one interrupts as usual."""
    pressed = threading.Event()

    # Nothing is said here, where a write of the log itself may have been interrupted.
    def note(number: int, frame: FrameType | None) -> None:
        if pressed.is_set():
            raise KeyboardInterrupt
        pressed.set()

    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or before is not signal.default_int_handler:
        # Someone else decides what an interrupt does; a shell has it ignored for a command in the background.
        yield pressed.is_set, pressed
        return
    signal.signal(signal.SIGINT, note)
    try:
        yield pressed.is_set, pressed
    finally:
        signal.signal(signal.SIGINT, before)


@functools.cache
def _commit() -> str:
    """The commit of the checkout that this package is imported from; empty where it is not in one."""
    folder = Path(__file__).resolve().parents[2]
    if not (folder / ".git").exists():
        return ""
    command = ["git", "-C", str(folder), "describe", "--always", "--dirty", "--abbrev=40"]
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=5, check=True).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return ""
