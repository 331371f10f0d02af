"""Weighted Jacobi: u ← u + ω (f − A u) / diag(A)."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterator, Mapping

import numpy as np

from poisson.backends.base import Array, Backend
from poisson.discretisation import Operator
from poisson.solvers.status import Status
from poisson.solvers.stopping import ROUNDING_FACTOR, Monitor, Observer, SolveResult, Stopping

LOOPS = ("blocked", "fused", "staged")

READS_PER_E_FOLD = 50
"""With ``check_every = 0`` the norm is read so often while it falls by a factor e …"""
NODES_PER_READ = 1 << 29
"""… and after at most so many node updates, so that a key press is answered and the progress moves …"""
MOST_SWEEPS_PER_READ = 1000
"""… and after at most so many sweeps. No recorded block is longer either."""

log = logging.getLogger(__name__)


def damping(operator: Operator) -> float:
    """The weight ω that `jacobi` takes by default.

    It is 1, the plain method, unless the mode that alternates in sign from node to node would then never decay
    (eigenvalue 2 of A/diag(A), which a grid without Dirichlet faces can have). There it is the weight that damps the
    smoothest and the roughest mode alike, ω = 2 / (μ_min + μ_max) with the eigenvalues μ of A/diag(A).
    """
    lowest, highest = (value / operator.diagonal for value in operator.eigenvalues())
    return 2.0 / (lowest + highest) if highest > 2.0 - 1e-9 else 1.0


def sweeps_per_read(operator: Operator, omega: float) -> int:
    """Sweeps between two reads of the norm, from the problem alone, so that every backend makes the same ones."""
    e_fold = operator.diagonal / (omega * operator.eigenvalues()[0])
    nodes = math.prod(operator.shape)
    return max(1, min(int(e_fold / READS_PER_E_FOLD), NODES_PER_READ // nodes, MOST_SWEEPS_PER_READ))


def jacobi(
    backend: Backend,
    operator: Operator,
    u: Array,
    f: Array,
    *,
    omega: float | None = None,
    loop: str = "blocked",
    stopping: Stopping = Stopping(),  # noqa: B008 (frozen)
    observer: Observer | None = None,
    interrupted: Callable[[], bool] = lambda: False,
) -> SolveResult:
    """Relax −∇²u + c u = f by weighted Jacobi sweeps until the residual norm reaches its target.

    A sweep computes the residual of the iterate that it starts from, so a read after sweep k gives the norm of the
    iterate after k − 1 sweeps. Where that has converged, the norm of the last iterate decides, which is what is
    returned: on a grid with mirror faces a sweep can raise the norm a little, because A is symmetric in another one.

    Parameters
    ----------
    backend : Backend
        Where the arrays are.
    operator : Operator
        A, on ``(nz, ny, nx)`` nodes (``(ny, nx)`` in 2D).
    u : Array, shape of the grid
        Initial guess in U, with the Dirichlet values at fixed nodes. Overwritten.
    f : Array, shape and dtype of `u`
        Source with the face terms, in U/L², zero at fixed nodes.
    omega : float, optional
        Damping, dimensionless, 0 < ω ≤ 1; by default as `damping` says.
    loop : str
        ``blocked``: several sweeps in one pass over memory. ``fused``: one pass a sweep. ``staged``: laplacian,
        boundary_conditions, update and norm, one by one.
    stopping : Stopping
        Tolerances, the norm they are measured in, and how many sweeps go between two reads of it.
    observer : Observer, optional
        Told the target at the start and every norm read.
    interrupted : callable
        Asked between blocks of sweeps; true ends the solve.

    Returns
    -------
    SolveResult
        How it ended, the last iterate, and the history of the residual norm in U/L².

    Raises
    ------
    ValueError
        If `omega` or `loop` is out of range.

    References
    ----------
    Y. Saad, Iterative Methods for Sparse Linear Systems, 2nd edition, section 4.1; the four stages are those of "Jacobi
    method with HIP and OpenMP offloading", AMD lab notes.
    """
    if loop not in LOOPS:
        raise ValueError(f"loop = {loop!r}; it must be one of {LOOPS}")
    omega = damping(operator) if omega is None else omega
    if not 0.0 < omega <= 1.0:
        raise ValueError(f"omega = {omega}; it must be in (0, 1]")
    if omega * operator.eigenvalues()[1] > (2.0 - 1e-9) * operator.diagonal:
        log.warning(
            "solver.omega = %g leaves the mode that alternates from node to node undamped on this grid without "
            "Dirichlet faces; %.6g damps every mode",
            *(omega, damping(operator)),
        )
    norms = backend.reduction()
    backend.norm(operator, f, norms)
    source_norms = backend.read(norms)
    source = stopping.measure(operator, source_norms)
    # A source that is zero need not be read. Of a NaN only the sum tells, of squares too small for it the maximum.
    given = None if source_norms == (0.0, 0.0) else f
    iteration = _LOOPS[loop](backend, operator, u, given, omega)
    backend.residual(operator, u, given, iteration.work, norms)
    first = stopping.measure(operator, backend.read(norms))
    relative_to = "f with its face terms" if source > 0.0 else "the first residual"
    target = stopping.target(source or first)

    def rounding_level() -> float:
        backend.norm(operator, iteration.u, norms)
        largest = backend.read(norms)[1]
        return ROUNDING_FACTOR * float(np.finfo(backend.dtype).eps) * operator.norm * largest

    def judge(iterate: int, result: tuple[float, float]) -> Status | None:
        norm = stopping.measure(operator, result)
        if observer:
            observer(iterate, norm)
        return monitor.judge(iterate, norm)

    monitor = Monitor(target, max(first, source), rounding_level)
    if observer:
        observer.start(target, relative_to, stopping.max_iterations)
    status = monitor.judge(0, first)
    done = 0
    every = stopping.check_every or sweeps_per_read(operator, omega)
    if status is None:
        iteration.begin(min(every, stopping.max_iterations))
    while status is None:
        iteration.finish()
        done += min(every, stopping.max_iterations - done)
        # The device goes on with the next sweeps while the host looks at the norm of these.
        following = min(every, stopping.max_iterations - done)
        if following:
            iteration.begin(following)
        status = judge(done - 1, iteration.norms())
        if status is Status.CONVERGED:
            backend.residual(operator, iteration.u, given, iteration.work, norms)
            status = judge(done, backend.read(norms))
            if status is None and following:
                iteration.begin(following)  # again: the residual took the place of what was begun
        if status is None and interrupted():
            status = Status.INTERRUPTED
        if status is None and done >= stopping.max_iterations:
            status = Status.MAX_ITERATIONS
    return SolveResult(status, done, iteration.u, iteration.work, target, tuple(monitor.history))


def _blocks(count: int) -> Iterator[int]:
    """`count` sweeps in blocks that a graph can hold."""
    while count > 0:
        yield min(count, MOST_SWEEPS_PER_READ)
        count -= MOST_SWEEPS_PER_READ


class _Sweeping:
    """Passes over memory from one array to another and back, each of as many sweeps as `depth` allows."""

    def __init__(
        self, backend: Backend, operator: Operator, u: Array, f: Array | None, omega: float, depth: int = 1
    ) -> None:
        self.u, self.work = u, backend.empty(operator.array_shape)
        self._backend = backend
        self._operator = operator
        self._f = f
        self._omega = omega
        self._depth = depth
        # Two, so that a pass can be under way while the norms of the one before are read.
        self._norms = [backend.reduction(), backend.reduction()]
        self._recorded: dict[tuple[int, int, int], Callable[[], None]] = {}
        self._count = 0
        self._begun = False

    def begin(self, count: int) -> None:
        """Ask for what can be done of the next `count` sweeps while `u` stays as it is: all, if one pass does it."""
        self._count = count
        self._begun = count <= self._depth
        if self._begun:
            self._run(count)

    def finish(self) -> None:
        """Ask for the rest; afterwards `u` is the new iterate."""
        if self._begun:
            self._turn(self._count)
        else:
            for count in _blocks(self._count):
                self._run(count)
                self._turn(count)
        self._norms.reverse()

    def norms(self) -> tuple[float, float]:
        """Wait for the norms that the last sweep before the end of `finish` left."""
        return self._backend.read(self._norms[1])

    def _run(self, count: int) -> None:
        norms = self._norms[0]
        key = (count, id(self.u), id(norms))
        if key not in self._recorded:
            self._recorded[key] = self._backend.capture(self._block(count, self.u, self.work, norms))
        self._recorded[key]()
        self._backend.mark(norms)

    def _turn(self, count: int) -> None:
        if -(-count // self._depth) % 2:
            self.u, self.work = self.work, self.u

    def _block(self, count: int, u: Array, work: Array, norms: Array) -> Callable[[], None]:
        def block() -> None:
            source, target, left = u, work, count
            while left:
                sweeps = min(left, self._depth)
                left -= sweeps
                place = None if left else norms
                if self._depth == 1:
                    self._backend.sweep(self._operator, source, self._f, target, self._omega, place)
                else:
                    self._backend.sweeps(self._operator, source, self._f, target, self._omega, sweeps, place)
                source, target = target, source

        return block


def _blocked(backend: Backend, operator: Operator, u: Array, f: Array | None, omega: float) -> _Sweeping:
    return _Sweeping(backend, operator, u, f, omega, backend.depth(operator))


class _Staged:
    """The four stages one by one; u stays where it is."""

    def __init__(self, backend: Backend, operator: Operator, u: Array, f: Array | None, omega: float) -> None:
        self.u, self.work = u, backend.empty(operator.array_shape)
        self._au = backend.empty(operator.array_shape)
        self._backend = backend
        self._operator = operator
        self._f = f
        self._omega = omega
        self._norms = backend.reduction()
        self._recorded: dict[int, Callable[[], None]] = {}
        self._apply = backend.capture(self._apply_operator)
        self._count = 0

    def begin(self, count: int) -> None:
        """Ask for what can be done of the next `count` sweeps while `u` stays as it is: the first A u."""
        self._count = count
        self._apply()

    def finish(self) -> None:
        """Ask for the rest; afterwards `u` is the new iterate."""
        for number, count in enumerate(_blocks(self._count)):
            if number:
                self._apply()
            if count not in self._recorded:
                self._recorded[count] = self._backend.capture(self._rest(count))
            self._recorded[count]()
        self._backend.mark(self._norms)

    def norms(self) -> tuple[float, float]:
        """Wait for the norms that the last sweep before the end of `finish` left."""
        return self._backend.read(self._norms)

    def _apply_operator(self) -> None:
        self._backend.laplacian(self._operator, self.u, self._au)
        self._backend.boundary_conditions(self._operator, self.u, self._au)

    def _rest(self, count: int) -> Callable[[], None]:
        def rest() -> None:
            for sweep in range(count):
                if sweep:
                    self._apply_operator()
                self._backend.update(self._operator, self._f, self._au, self.work, self.u, self._omega)
            self._backend.norm(self._operator, self.work, self._norms)

        return rest


_LOOPS: Mapping[str, Callable[[Backend, Operator, Array, Array | None, float], _Sweeping | _Staged]] = {
    "blocked": _blocked,
    "fused": _Sweeping,
    "staged": _Staged,
}
