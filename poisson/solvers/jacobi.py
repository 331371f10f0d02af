"""Weighted Jacobi: u ← u + ω (f − A u) / diag(A)."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterator

import numpy as np

from poisson.backends.base import Array, Backend
from poisson.discretisation import Operator
from poisson.solvers.status import Status
from poisson.solvers.stopping import ROUNDING_FACTOR, Monitor, Observer, SolveResult, Stopping

LOOPS = ("fused", "staged")

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
    loop: str = "fused",
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
        ``fused``: one pass over memory a sweep. ``staged``: laplacian, boundary_conditions, update and norm, one by
        one.
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
    iteration = _Fused(backend, operator, u, f, omega) if loop == "fused" else _Staged(backend, operator, u, f, omega)

    norms = backend.reduction()
    backend.norm(operator, f, norms)
    source = stopping.measure(operator, backend.read(norms))
    backend.residual(operator, u, f, iteration.work, norms)
    first = stopping.measure(operator, backend.read(norms))
    relative_to = "f with its face terms" if source > 0.0 else "the first residual"
    target = stopping.target(source or first)

    def rounding_level() -> float:
        backend.norm(operator, iteration.u, norms)
        largest = backend.read(norms)[1]
        return ROUNDING_FACTOR * float(np.finfo(backend.dtype).eps) * operator.norm * largest

    def read_and_judge(iterate: int) -> Status | None:
        norm = stopping.measure(operator, backend.read(norms))
        if observer:
            observer(iterate, norm)
        return monitor.judge(iterate, norm)

    monitor = Monitor(target, max(first, source), rounding_level)
    if observer:
        observer.start(target, relative_to, stopping.max_iterations)
    status = monitor.judge(0, first)
    done = 0
    every = stopping.check_every or sweeps_per_read(operator, omega)
    while status is None:
        count = min(every, stopping.max_iterations - done)
        for block in _blocks(count):
            iteration.run(block, norms)
        done += count
        status = read_and_judge(done - 1)
        if status is Status.CONVERGED:
            backend.residual(operator, iteration.u, f, iteration.work, norms)
            status = read_and_judge(done)
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


class _Fused:
    """Sweeps from one array to another and back."""

    def __init__(self, backend: Backend, operator: Operator, u: Array, f: Array, omega: float) -> None:
        self.u, self.work = u, backend.empty(operator.array_shape)
        self._backend = backend
        self._operator = operator
        self._f = f
        self._omega = omega
        self._blocks: dict[tuple[int, int], Callable[[], None]] = {}

    def run(self, count: int, norms: Array) -> None:
        """Make `count` sweeps; the last one leaves its norms."""
        key = (count, id(self.u))
        if key not in self._blocks:
            self._blocks[key] = self._backend.capture(self._block(count, self.u, self.work, norms))
        self._blocks[key]()
        if count % 2:
            self.u, self.work = self.work, self.u

    def _block(self, count: int, u: Array, work: Array, norms: Array) -> Callable[[], None]:
        def block() -> None:
            source, target = u, work
            for sweep in range(count):
                last = sweep == count - 1
                self._backend.sweep(self._operator, source, self._f, target, self._omega, norms if last else None)
                source, target = target, source

        return block


class _Staged:
    """The four stages one by one; u stays where it is."""

    def __init__(self, backend: Backend, operator: Operator, u: Array, f: Array, omega: float) -> None:
        self.u, self.work = u, backend.empty(operator.array_shape)
        self._au = backend.empty(operator.array_shape)
        self._backend = backend
        self._operator = operator
        self._f = f
        self._omega = omega
        self._blocks: dict[int, Callable[[], None]] = {}

    def run(self, count: int, norms: Array) -> None:
        """Make `count` sweeps; the norms are those of the last one."""
        if count not in self._blocks:
            self._blocks[count] = self._backend.capture(self._block(count, norms))
        self._blocks[count]()

    def _block(self, count: int, norms: Array) -> Callable[[], None]:
        def block() -> None:
            for _ in range(count):
                self._backend.laplacian(self._operator, self.u, self._au)
                self._backend.boundary_conditions(self._operator, self.u, self._au)
                self._backend.update(self._operator, self._f, self._au, self.work, self.u, self._omega)
            self._backend.norm(self._operator, self.work, norms)

        return block
