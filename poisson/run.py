"""The one place that puts the parts together: Case -> Solution."""

from __future__ import annotations

import contextlib
import logging
import math
import platform
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
from numpy.typing import NDArray

import poisson
from poisson import backends
from poisson.backends.base import Array, Backend
from poisson.backends.host import host_memory
from poisson.backends.ledger import Ledger, counted
from poisson.case import Case
from poisson.differences import Differences
from poisson.discretisation import Discretisation
from poisson.errors import PoissonError, ResourceError
from poisson.grid import slabs
from poisson.problem import EQUATION
from poisson.solution import ErrorNorms, Performance, Solution
from poisson.solvers.jacobi import jacobi
from poisson.solvers.status import Status
from poisson.solvers.stopping import Observer, SolveResult, Stopping

PRECISIONS: dict[str, type[np.floating[Any]]] = {"float32": np.float32, "float64": np.float64}
ARRAYS_OF_LOOP = {"blocked": 3, "fused": 3, "staged": 4}
RESIDUAL_SLAB = 1 << 24
"""Nodes of a slab in which the residual of a float32 run is recomputed."""

Appraise = Callable[[Backend, Ledger, float], Performance | None]
"""Measures what operations reached, from where they ran, how often each did, and the seconds of the loop."""

log = logging.getLogger(__name__)


def solve(case: Case, observer: Observer | None = None, appraise: Appraise | None = None) -> Solution:
    """Solve a case.

    The residual that is reported is recomputed in float64 from the final u, and so is the verdict whether it converged.
    While the solver loop runs, the first interrupt from the keyboard ends it after the current block of sweeps.

    Parameters
    ----------
    case : Case
        What to solve and how.
    observer : Observer, optional
        Told the target residual at the start and every norm that is read.
    appraise : callable, optional
        Called at the end to measure the operations of the loop, as `poisson.perf.usage.appraise` does.

    Returns
    -------
    Solution
        With u and the fields of ``[output] fields`` on the host.

    Raises
    ------
    PoissonError
        If the backend is not available, memory is short, the data are not finite, or a singular problem has no
        solution.
    """
    times: dict[str, float] = {}
    problem = case.problem
    dtype = PRECISIONS[case.run.precision]
    started = datetime.now(UTC)
    with _timed(times, "setup"), np.errstate(all="ignore"):
        backend = backends.create(case.run.backend, dtype, case.run.threads)
        require_memory(backend, case)
        discretisation = Discretisation(problem).balanced(np)
        differences = Differences.on(problem.grid, case.output.order) if case.output.vectors else None
        arrays = _Arrays.of(backend, discretisation)
    tuning = backend.tuning(discretisation.operator)
    stand_in, ledger = counted(backend)
    with _timed(times, "solve"), np.errstate(all="ignore"), _interrupts() as interrupted:
        result = _relax(stand_in, discretisation, arrays, case, observer, interrupted)
        backend.synchronize()
    with _timed(times, "finish"), np.errstate(all="ignore"):
        if problem.singular:
            _remove_mean(backend, discretisation, result)
        u = backend.to_host(result.u)
        residual, norm = _true_residual(backend, discretisation, arrays, result, u, case)
        vectors = {} if differences is None else _vectors(backend, differences, result, case.output.vectors)
        fields = {
            name: vectors[name] if name in vectors else _field(name, discretisation, u, residual)
            for name in case.output.fields
            if name != "u"
        }
        error = error_norms(discretisation, u) if problem.exact else None
    performance = None
    if appraise:
        with _timed(times, "appraise"), np.errstate(all="ignore"):
            performance = _appraised(appraise, backend, ledger, times["solve"])
    return Solution(
        problem=problem,
        u=u,
        status=_verdict(result, norm),
        iterations=result.iterations,
        norm=case.solver.norm,
        residual=norm,
        target=result.target,
        history=result.history,
        fields=fields,
        error=error,
        times=times,
        provenance=_provenance(backend, case, started) | {"tuning": tuning},
        case_text=case.text,
        performance=performance,
    )


def _appraised(appraise: Appraise, backend: Backend, ledger: Ledger, seconds: float) -> Performance | None:
    """What `appraise` measures; a result is not lost because there is no memory left to measure with."""
    try:
        return appraise(backend, ledger, seconds)
    except (PoissonError, MemoryError) as error:
        log.warning("the operations could not be timed: %s", error)
        return None


def result_bytes(case: Case) -> int:
    """Bytes that the result file of a case takes, about."""
    itemsize = np.dtype(PRECISIONS[case.run.precision]).itemsize
    vectors = len(case.output.vectors)
    others = len(case.output.fields) - 1 - vectors
    values = itemsize * (1 + vectors * case.problem.grid.dimension) + 8 * others
    return case.problem.grid.nodes * values + (1 << 20)


def require_memory(backend: Backend, case: Case) -> None:
    """Refuse a case whose arrays do not fit.

    Raises
    ------
    ResourceError
        If the arrays of the loop need more than the backend has free, or the result more than the host has.
    """
    arrays = ARRAYS_OF_LOOP[case.solver.loop]
    needed = arrays * case.problem.grid.nodes * backend.dtype.itemsize
    smaller = ", or use run.precision = 'float32'" if case.run.precision == "float64" else ""
    for what, size, place, memory in (
        (f"{arrays} arrays", needed, f"the {backend.name} backend", backend.memory()),
        ("room for its result", result_bytes(case), "this machine", host_memory()),
    ):
        if memory is not None and size > memory[0]:
            raise ResourceError(
                f"domain.shape = {list(case.problem.grid.shape)} needs {what}, {size / 2**30:.3g} GiB in "
                f"{case.run.precision}, and {place} has {memory[0] / 2**30:.3g} GiB free: reduce domain.shape{smaller}"
            )


@dataclass
class _Arrays:
    """The arrays that the run made on the device."""

    u: Array
    f: Array

    @staticmethod
    def of(backend: Backend, discretisation: Discretisation) -> _Arrays:
        shape = discretisation.operator.array_shape
        return _Arrays(backend.assemble(shape, discretisation.initial), backend.assemble(shape, discretisation.source))


def _relax(
    backend: Backend,
    discretisation: Discretisation,
    arrays: _Arrays,
    case: Case,
    observer: Observer | None,
    interrupted: Callable[[], bool],
) -> SolveResult:
    settings = case.solver
    stopping = Stopping(settings.rtol, settings.atol, settings.norm, settings.max_iterations, settings.check_every)
    return jacobi(
        *(backend, discretisation.operator, arrays.u, arrays.f),
        omega=settings.omega,
        loop=settings.loop,
        stopping=stopping,
        observer=observer,
        interrupted=interrupted,
    )


def _remove_mean(backend: Backend, discretisation: Discretisation, result: SolveResult) -> None:
    """Subtract the trapezoidal mean from the solution of a singular problem."""
    operator, ones, sums = discretisation.operator, result.work, backend.reduction()
    backend.fill(ones, 1.0)
    backend.dot(operator, result.u, ones, sums)
    total = backend.read(sums)[0]
    backend.dot(operator, ones, ones, sums)
    backend.axpby(-total / backend.read(sums)[0], ones, 1.0, result.u)


def _true_residual(
    backend: Backend,
    discretisation: Discretisation,
    arrays: _Arrays,
    result: SolveResult,
    u: NDArray[Any],
    case: Case,
) -> tuple[NDArray[np.float64] | None, float]:
    """The residual in float64 of the final u, if it is asked for, and its norm."""
    operator = discretisation.operator
    values = np.empty(u.shape) if "residual" in case.output.fields else None
    if backend.dtype == np.float64:
        norms = backend.reduction()
        backend.residual(operator, result.u, arrays.f, result.work, norms)
        total, largest = backend.read(norms)
        if values is not None:
            values = backend.to_host(result.work)
    else:
        total, largest = _residual_by_slabs(
            backends.create(backend.name, np.float64, case.run.threads), discretisation, u, values
        )
    return values, Stopping(norm=case.solver.norm).measure(operator, (total, largest))


def _residual_by_slabs(
    backend: Backend, discretisation: Discretisation, u: NDArray[Any], values: NDArray[np.float64] | None
) -> tuple[float, float]:
    """Compute the residual slab by slab: whole arrays in float64 may not fit where those of the run do.

    `values`, if given, gets the residual. Returns (Σ r², max |r|).
    """
    operator = discretisation.operator
    norms = backend.reduction()
    total = largest = 0.0
    thickness = max(2, RESIDUAL_SLAB // math.prod(u.shape[1:]))
    starts = range(0, u.shape[0] - 1, thickness)
    for start, stop in zip(starts, (*starts[1:], u.shape[0]), strict=True):
        rows, part = operator.part(start, stop)
        before = (start - int(rows[0])) % u.shape[0]
        f = np.zeros(part.array_shape)
        for low, high in slabs((stop - start, *u.shape[1:])):
            f[before + low : before + high] = discretisation.source(np, start + low, start + high)
        r = backend.empty(part.array_shape)
        backend.residual(part, backend.from_host(u[rows]), backend.from_host(f), r, norms)
        squares, maximum = backend.read(norms)
        total, largest = total + squares, max(largest, maximum)
        if values is not None:
            values[start:stop] = backend.to_host(r)[before : before + stop - start]
    return total, largest


def _verdict(result: SolveResult, residual: float) -> Status:
    """How the solve ended, by the recomputed residual: that of the loop has rounding errors of the run's precision."""
    if result.status in (Status.MAX_ITERATIONS, Status.STAGNATED) and residual <= result.target:
        return Status.CONVERGED
    if result.status is Status.CONVERGED and not residual <= result.target:
        return Status.STAGNATED
    return result.status


def _field(
    name: str, discretisation: Discretisation, u: NDArray[Any], residual: NDArray[np.float64] | None
) -> NDArray[np.float64]:
    """A field of the output, as float64 on the host."""
    if name == "residual":
        assert residual is not None
        return residual
    values = np.empty(u.shape)
    offset = _exact_mean(discretisation) if name == "error" else 0.0
    for start, stop in slabs(u.shape):
        if name == "f":
            values[start:stop] = discretisation.f(np, start, stop)
        elif name == "error":
            values[start:stop] = u[start:stop] - (discretisation.exact(np, start, stop) - offset)
        else:
            raise ValueError(f"unknown field {name!r}")
    return values


def _vectors(
    backend: Backend, differences: Differences, result: SolveResult, names: tuple[str, ...]
) -> dict[str, NDArray[Any]]:
    """∇u and −a∇u, those of them that are named, on the host with the components last, in the precision of the run."""
    gradient = np.empty((*differences.array_shape, differences.dimension), dtype=backend.dtype)
    for axis in range(differences.dimension):
        # One component at a time needs no array that the loop has not made.
        backend.derivative(differences, axis, result.u, result.work)
        gradient[..., axis] = backend.to_host(result.work)
    return {name: -gradient if name == "flux" else gradient for name in names}


def error_norms(discretisation: Discretisation, u: NDArray[Any]) -> ErrorNorms:
    """The error of u against the exact solution; for a singular problem, against the exact solution with zero mean.

    The rms is that of the trapezoidal rule, sqrt(∫e² / volume): a plain mean counts the faces by the mesh, which the
    observed order of accuracy would show.
    """
    squares = largest = 0.0
    offset = _exact_mean(discretisation)
    for start, stop in slabs(u.shape):
        error = u[start:stop] - (discretisation.exact(np, start, stop) - offset)
        # Dirichlet faces have weight 1 here, but no error.
        squares += float(np.sum(discretisation.weights(np, start, stop) * error * error))
        largest = max(largest, float(np.max(np.abs(error))))
    return ErrorNorms(math.sqrt(squares / math.prod(discretisation.problem.grid.intervals)), largest)


def _exact_mean(discretisation: Discretisation) -> float:
    """The trapezoidal mean of the exact solution of a singular problem, whose u has zero mean; 0 for any other."""
    if not discretisation.problem.singular:
        return 0.0
    total = volume = 0.0
    for start, stop in slabs(discretisation.operator.array_shape):
        weights = discretisation.weights(np, start, stop)
        total += float(np.sum(weights * discretisation.exact(np, start, stop)))
        volume += float(np.sum(weights))
    return total / volume


@contextlib.contextmanager
def _timed(times: dict[str, float], name: str) -> Iterator[None]:
    start = time.perf_counter()
    try:
        yield
    finally:
        times[name] = time.perf_counter() - start


@contextlib.contextmanager
def _interrupts() -> Iterator[Callable[[], bool]]:
    """Within, the first interrupt only makes the callable true; a second one interrupts as usual."""
    pressed = threading.Event()

    def interrupted() -> bool:
        # Said here and not in the handler, which may have interrupted a write of the log itself.
        if pressed.is_set():
            log.warning("interrupted: the iterate after the last sweep is kept")
        return pressed.is_set()

    if threading.current_thread() is not threading.main_thread():
        yield interrupted
        return

    def note(number: int, frame: FrameType | None) -> None:
        if pressed.is_set():
            raise KeyboardInterrupt
        pressed.set()

    before = signal.signal(signal.SIGINT, note)
    try:
        yield interrupted
    finally:
        signal.signal(signal.SIGINT, before)


def _provenance(backend: Backend, case: Case, started: datetime) -> dict[str, str | int | float]:
    return {
        "version": poisson.__version__,
        "commit": _commit(),
        "equation": EQUATION,
        "host": platform.node(),
        "platform": platform.platform(),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "backend": backend.name,
        "device": backend.device,
        "precision": case.run.precision,
        "loop": case.solver.loop,
        "started": started.isoformat(timespec="seconds"),
    }


def _commit() -> str:
    """The commit of the checkout that this package is imported from; empty where it is not in one."""
    folder = Path(__file__).resolve().parent.parent
    if not (folder / ".git").exists():
        return ""
    command = ["git", "-C", str(folder), "describe", "--always", "--dirty", "--abbrev=40"]
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=5, check=True).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return ""
