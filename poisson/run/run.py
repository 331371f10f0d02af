# SPDX-License-Identifier: MIT
"""The one place that puts the parts together: Case -> Solver -> Solution."""

import contextlib
import functools
import logging
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Unpack

import numpy as np

from poisson.backends.base import Backend
from poisson.backends.gpu.failures import failure
from poisson.backends.ledger import Ledger
from poisson.case import Case
from poisson.discrete.share import agreed
from poisson.errors import CaseError, PoissonError
from poisson.output import checkpoint, locks
from poisson.output.checkpoint import Saved
from poisson.output.record import AGAIN, SIGNAL, Performance
from poisson.parallel.communicator import Communicator
from poisson.problem.problem import Problem
from poisson.run import interrupts
from poisson.run.checkpoints import Checkpoints
from poisson.run.concerns import warn_of_concerns
from poisson.run.notices import Watching, judged, observer_of
from poisson.run.ranks import communicator_of
from poisson.run.request import Arguments, BackendName, Method, Precision, Request
from poisson.run.saved import load
from poisson.run.solution import Interrupted, Solution
from poisson.run.solver import Solver
from poisson.solvers.stopping import Observer
from poisson.words import article

Appraise = Callable[[Backend, Ledger, float], Performance | None]
"""Measures what operations reached, from where they ran, how often each did, and the seconds of the loop."""

Keep = Callable[[Solution], None]
"""Puts a solution where nothing that follows can lose it."""

MOST_AGAIN = 10.0
"""A loop of no more seconds runs once more to be timed: in the first one kernels are compiled and memory is touched."""

_ONE_ASKS = threading.Lock()

log = logging.getLogger(__name__)


def solve(
    case: Case | Problem | None,
    method: Method | None = None,
    backend: BackendName | None = None,
    precision: Precision | None = None,
    *,
    observer: Watching | None = None,
    comm: Any = None,
    resume: bool = False,
    strict: bool = False,
    **options: Unpack[Arguments],
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
    observer : function or Observer, optional
        Told the iteration and the norm of its residual, whenever that is read; an `Observer` also the target.
    comm : communicator of mpi4py, optional
        The processes; each has a part of the grid and of the solution (`Solution.gather`).
    resume : bool
        For a case: go on from the newest checkpoint beside its ``output.file``, or from that result if its solve ended
        early. One that is complete is loaded; where there is nothing, the solve begins from the beginning.
    strict : bool
        Whether a solve that did not converge is an error; else it is a warning.
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
        problem has no solution; or if what there is to resume belongs to another case.
    Interrupted
        If Ctrl-C was pressed once the loop had begun. It is a KeyboardInterrupt, and its ``solution`` is the last
        complete iterate.
    NotConverged
        If the solve did not converge, and `strict`.

    Examples
    --------
    >>> problem = poisson.Problem.on_box((33, 33), f=lambda x, y: np.exp(-100 * ((x - 0.3) ** 2 + y**2)))
    >>> solution = poisson.solve(problem, "multigrid", rtol=1e-10, fields=("residual",))
    >>> solution.status, float(abs(solution.fields["residual"]).max()) < 1e-8
    (<Status.CONVERGED: 'converged'>, True)
    >>> poisson.solve(poisson.load_case("cases/unit_square.toml")).error.max < 1e-4
    True
    """
    named = {"method": method, "backend": backend, "precision": precision}
    settings: dict[str, Any] = {**options, **{name: value for name, value in named.items() if value is not None}}
    watching = observer_of(observer)
    if isinstance(case, Problem) or (case is None and comm is not None):
        if resume:
            raise CaseError("resume: allowed only with a case, not with a problem")
        solver = Solver(case, comm=comm, **settings)
        solution = _solve(solver, watching, None, None, None, None)
        if solver.ranks.speaks:
            warn_of_concerns(replace(solver.request, problem=solution.problem))
        return judged(solution, strict=strict, speaks=solver.ranks.speaks)
    if not isinstance(case, Case):
        kinds = "a case (poisson.load_case) or a problem (poisson.Problem.on_box)"
        raise CaseError(f"case: {article(type(case).__name__)}; allowed: {kinds}")
    if settings:
        raise CaseError(
            f"{', '.join(settings)}: not allowed with a case, which has its own settings; change the settings "
            "of the case"
        )
    communicator = communicator_of(comm)
    with contextlib.ExitStack() as held:
        if resume or case.output.checkpoint_every is not None:
            with agreed(communicator):
                if communicator.rank == 0:
                    held.enter_context(locks.reserved(case.output.file))
        saved = found(case, communicator) if resume else None
        if saved is not None and saved.complete:
            return load(saved.path)
        solution = go_on(case, saved, observer=watching, comm=communicator)
    if communicator.rank == 0:
        warn_of_concerns(replace(Request.of_case(case, communicator), problem=solution.problem))
    return judged(solution, strict=strict, speaks=communicator.rank == 0)


def found(case: Case, communicator: Communicator) -> Saved | None:
    """The checkpoint of a case that is to be resumed, for which all ranks look together.

    Raises CaseError if it belongs to another case.
    """
    saved = None
    with agreed(communicator):
        if communicator.rank == 0:
            saved = checkpoint.newest(case.output.file, case.text)
    return communicator.broadcast(saved)  # type: ignore[no-any-return]


def go_on(
    case: Case,
    saved: Saved | None,
    *,
    observer: Observer | None = None,
    appraise: Appraise | None = None,
    keep: Keep | None = None,
    comm: Any = None,
) -> Solution:
    """Solve a case from what was `found` of it, or without that from the beginning, without a word of how it ended."""
    with _ONE_ASKS:
        _asked()  # git works while the solver is set up
    solver = Solver.of(case, count=appraise is not None, comm=comm)
    return _solve(solver, observer, appraise, keep, case, Checkpoints(case, saved, {"commit": _commit()}))


def _solve(
    solver: Solver,
    observer: Observer | None,
    appraise: Appraise | None,
    keep: Keep | None,
    case: Case | None,
    checkpoints: Checkpoints | None,
) -> Solution:
    # Asked of git before there is a result, which an interrupt could lose.
    more = {"commit": _commit()} | (checkpoints.origin if checkpoints else {})
    solution: Solution | None = None
    try:
        with interrupts.Noted() as pressed:
            # What goes to a file alone goes there from the device.
            bare = solver.keep_on(checkpoints, observer, pressed, stays=keep is not None and appraise is None)
            times = dict(bare.times)
            times["solve"] += checkpoints.seconds if checkpoints else 0.0
            ended = {SIGNAL: signal.Signals(pressed.number).name} if pressed() else {}
            solution = replace(bare, provenance=dict(bare.provenance) | more | ended, times=times)
            if case is not None:
                solution = replace(solution, case_text=case.text, units=case.output.units)
            if keep is not None:
                _kept(keep, solution)
            if checkpoints is not None and solution.status.success and solver.ranks.speaks:
                checkpoints.remove()
        numbers = [int(number) for (number,) in solver.ranks.communicator.allgather([pressed.number])]
        if any(numbers):
            raise interrupts.EndedBySignal(max(numbers))
        return _measured(solver, solution, appraise, bare.times["solve"], whole=not (checkpoints and checkpoints.begun))
    except KeyboardInterrupt as interrupt:
        if solution is None:
            raise
        raise Interrupted(solution, getattr(interrupt, "number", signal.SIGINT)) from None


def _kept(keep: Keep, solution: Solution) -> None:
    try:
        keep(solution)
    except Exception as error:
        # The values may be read from a device only now.
        if (found := failure(error)) is not None:
            raise found from error
        raise


def _measured(
    solver: Solver, solution: Solution, appraise: Appraise | None, seconds: float, *, whole: bool
) -> Solution:
    """The solution with what its operations reached in so many seconds, and the time of the loop in another solve.

    That one is not made where the first took long, or was not `whole`, as it went on from a checkpoint.
    """
    backend, ledger = solver.local_backend, solver.ledger
    if appraise is None or ledger is None:
        return solution
    times = dict(solution.times)
    try:
        if whole and seconds <= MOST_AGAIN:
            with ledger.paused():
                again = solver.keep_on(None, None, lambda: False)
            if solver.local_backend is backend:
                times[AGAIN] = again.times["solve"]
        start = time.perf_counter()
        with np.errstate(all="ignore"):
            performance = appraise(backend, ledger, times.get(AGAIN, seconds))
        times["appraise"] = time.perf_counter() - start
    except (PoissonError, MemoryError) as error:
        # A result is not lost because there is no memory left to measure with.
        log.warning("the operations could not be timed: %s", error)
        return replace(solution, times=times)
    return replace(solution, times=times, performance=performance)


def _commit() -> str:
    """The commit of the checkout that this package is imported from; empty where it is not in one."""
    with _ONE_ASKS:
        return _told()


@functools.cache
def _told() -> str:
    git = _asked()
    if git is None:
        return ""
    try:
        said, _ = git.communicate(timeout=5)
    except subprocess.SubprocessError:
        git.kill()
        git.communicate()
        return ""
    return said.strip() if git.returncode == 0 else ""


@functools.cache
def _asked() -> subprocess.Popen[str] | None:
    """Git, which is asked for the commit once; None where there is no checkout, or no git."""
    folder = Path(__file__).resolve().parents[2]
    if not (folder / ".git").exists():
        return None
    command = ["git", "-C", str(folder), "describe", "--always", "--dirty", "--abbrev=40"]
    try:
        return subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
    except OSError:
        return None
