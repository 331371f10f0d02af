# SPDX-License-Identifier: MIT
"""Weighted Jacobi: u ← u + ω (f − A u) / diag(A)."""

import logging
import math
from collections.abc import Iterator
from dataclasses import dataclass

from poisson.backends.base import Array, Operations
from poisson.discrete.operator import Operator
from poisson.solvers.entries import USUAL_HALO, Clash, Given, MethodEntry, Sizes, clash
from poisson.solvers.iteration import Method, Task, Watch, given_source
from poisson.solvers.keys import Settings, word
from poisson.solvers.loops import LOOPS, MOST_SWEEPS_PER_READ, SWEEPS, Loop
from poisson.solvers.settings import Relaxation, SolverSettings
from poisson.solvers.spectrum import ZeroMean, jacobi_bounds, red_black, uniform
from poisson.solvers.status import Status
from poisson.solvers.stopping import SolveResult

READS_PER_E_FOLD = 50
"""With ``check_every = 0`` the norm is read so often while it falls by a factor e …"""
NODES_PER_READ = 1 << 29
"""… and after at most so many node updates, so that a key press is answered and the progress moves, and after at most
`MOST_SWEEPS_PER_READ` sweeps."""

log = logging.getLogger(__name__)


def damping(operations: Operations) -> float:
    """The weight ω that `Jacobi` takes by default.

    It is 1, the plain method, unless the mode that alternates in sign from node to node would then never decay
    (eigenvalue 2 of A/diag(A), which a grid without Dirichlet faces can have). There it is the weight that damps the
    smoothest and the roughest mode alike, ω = 2 / (μ_min + μ_max) with the eigenvalues μ of A/diag(A).
    """
    operator = operations.operator
    if operator.varies and not (operator.singular and red_black(operator)):
        return 1.0
    lowest, highest = jacobi_bounds(operations)
    return 2.0 / (lowest + highest) if highest > 2.0 - 1e-9 else 1.0


def sweeps_per_read(operator: Operator, omega: float) -> int:
    """Sweeps between two reads of the norm, from the problem alone, so that every backend makes the same ones."""
    plain = uniform(operator)
    e_fold = plain.largest_diagonal / (omega * plain.eigenvalues()[0])
    nodes = math.prod(operator.lattice.whole.shape)
    return max(1, min(int(e_fold / READS_PER_E_FOLD), NODES_PER_READ // nodes, MOST_SWEEPS_PER_READ))


@dataclass(frozen=True)
class JacobiSettings(Settings):
    """The settings that only ``jacobi`` has.

    `loop`: one of `LOOPS`.
    """

    loop: str = word(
        "blocked",
        tuple(LOOPS),
        "several sweeps in one pass over memory, one sweep in a pass, or four separate operations",
        rank=2,
    )


class Jacobi(Method):
    """Weighted Jacobi sweeps until the residual norm reaches its target.

    `operations`: those of A, on ``(nz, ny, nx)`` nodes (``(ny, nx)`` in 2D). `omega`: damping, dimensionless, 0 < ω ≤
    1; by default as `damping` says. `loop`: ``blocked``: several sweeps in one pass over memory. ``fused``: one pass a
    sweep. ``staged``: laplacian, boundary_conditions, update and norm, one by one. Raises `ValueError` if `omega` or
    `loop` is out of range.

    Reference: Y. Saad, Iterative Methods for Sparse Linear Systems, 2nd edition, section 4.1; the four stages are those
    of "Jacobi method with HIP and OpenMP offloading", AMD lab notes.
    """

    def __init__(self, operations: Operations, omega: float | None = None, loop: str = JacobiSettings.loop) -> None:
        backend, operator = operations.backend, operations.operator
        if loop not in LOOPS:
            raise ValueError(f"loop = {loop!r}; it must be one of {tuple(LOOPS)}")
        if omega is not None and not 0.0 < omega <= 1.0:
            raise ValueError(f"omega = {omega}; it must be in (0, 1]")
        if operator.singular and omega == 1.0 and (better := damping(operations)) < omega:
            log.warning(
                "solver.omega = 1 does not damp the mode that alternates from node to node on this grid without "
                "Dirichlet faces; %.6g damps every mode",
                better,
            )
        self._operations = operations
        self._backend = operations.backend
        self._given = omega
        self._make = LOOPS[loop]
        self._made: tuple[Array, Array | None, Loop] | None = None
        self._numbers: tuple[object, ...] = ()
        self.refresh()
        self._work = backend.empty(operator.array_shape)
        self._norms = backend.reduction()
        self._mean = ZeroMean(operations)

    def refresh(self) -> bool:
        operator, before = self._operations.operator, self._numbers
        self.omega = damping(self._operations) if self._given is None else self._given
        self._numbers = self.omega, operator.a, operator.c
        if self._numbers != before:
            self._made = None
        return True

    def run(self, task: Task) -> SolveResult:
        """Solve A u = f (`Method.run`).

        A sweep computes the residual of the iterate that it starts from, so a read after sweep k gives the norm of the
        iterate after k − 1 sweeps. Where that has converged, the norm of the last iterate decides, which is what is
        returned: on a grid with mirror faces a sweep can raise the norm a little, because A is symmetric in another
        one.
        """
        operations, backend, norms = self._operations, self._backend, self._norms
        operator = operations.operator
        u, f, stopping = task.u, task.f, task.stopping
        watch = Watch(operations, task, norms, local=True)
        source = watch.source(f)
        given = given_source(source, f)
        loop = self._loop(u, given)
        operations.residual(u, given, loop.work, norms)
        first = backend.read(norms)
        status = watch.begin(source, first, lambda: loop.u)
        self._mean.begin(watch.norm(first))
        done = 0
        every = stopping.check_every or sweeps_per_read(operator, self.omega)
        following = watch.until_read(done, every)
        if status is None:
            loop.begin(following)
        while status is None:
            loop.finish()
            done += following
            # The device goes on with the next sweeps while the host looks at the norm of these.
            following = watch.until_read(done, every)
            if following:
                loop.begin(following)
            now = loop.norms()
            status = watch.judge(done - 1, now)
            moved = self._mean.follow(loop.u, watch.norm(now), loop.work if operator.singular else None)
            if status is Status.CONVERGED:
                operations.residual(loop.u, given, loop.work, norms)
                status = watch.judge(done, backend.read(norms))
                moved = True
            if moved and status is None and following:
                loop.begin(following)  # again: other values took the place of what was begun
            status = status or watch.limit(done)
        return watch.result(status, done, loop.u, loop.work)

    def _loop(self, u: Array, f: Array | None) -> Loop:
        """The loop on these arrays: that of the solve before, with what it has recorded, if they are the same."""
        if self._made is None or self._made[0] is not u or self._made[1] is not f:
            self._made = (u, f, self._make(self._operations, u, self._work, f, self.omega))
        loop = self._made[2]
        loop.u, loop.work = u, self._work
        return loop


def _make(given: Given) -> Jacobi:
    settings = given.settings
    return Jacobi(given.operations, settings.of(Relaxation).omega, settings.of(JacobiSettings).loop)


def _arrays(sizes: Sizes) -> float:
    return (4.0 if sizes.settings.of(JacobiSettings).loop == "staged" else 3.0) + sizes.coefficients


def _wrong(settings: SolverSettings, precision: str) -> Iterator[Clash]:
    omega = settings.of(Relaxation).omega
    if omega is not None and omega > 1.0:
        yield clash("omega", omega, 'a number > 0 and <= 1 with method "jacobi"; "sor" takes less than 2')


def _variants(settings: SolverSettings) -> dict[str, SolverSettings]:
    return {f"jacobi {loop}": settings.having(loop=loop) for loop in LOOPS}


METHOD = MethodEntry(
    name="jacobi",
    rank=3,
    use="comparison with the literature: weighted Jacobi sweeps",
    iteration="a sweep",
    make=_make,
    arrays=_arrays,
    keys=frozenset(("omega", "loop", "check_every")),
    parts=(Relaxation, JacobiSettings),
    wrong=_wrong,
    variants=_variants,
    sweep=lambda settings: SWEEPS[settings.of(JacobiSettings).loop],
    halo=lambda settings, dimension, depth: depth if settings.of(JacobiSettings).loop == "blocked" else USUAL_HALO,
)
