# SPDX-License-Identifier: MIT
"""Successive over-relaxation with the nodes in red–black order."""

import math
from collections.abc import Callable, Iterator
from functools import partial

from poisson.backends.base import Array, Operations
from poisson.discrete.operator import Operator
from poisson.errors import CaseError
from poisson.mesh.grid import AXES
from poisson.problem.problem import Problem
from poisson.solvers.entries import Clash, MethodEntry, clash, so_many
from poisson.solvers.iteration import Method, Norms, Task, Watch, given_source, relax
from poisson.solvers.jacobi import sweeps_per_read
from poisson.solvers.settings import Relaxation
from poisson.solvers.spectrum import ZeroMean, jacobi_bounds, red_black, uniform
from poisson.solvers.stopping import SolveResult

GROWTH = 1e6
"""With the optimal weight the residual grows before it falls, by a factor of the order of the number of sweeps."""


def optimal_weight(operations: Operations) -> float:
    """The weight 2 / (1 + sqrt(1 − ρ²)) with the spectral radius ρ of the Jacobi matrix I − D⁻¹A, constants apart.

    The spectrum of the Jacobi matrix of two colors is symmetric to zero, so ρ = 1 − μ with the smallest non-zero
    eigenvalue μ of D⁻¹A: known for constant coefficients, computed by a Lanczos process for varying ones.

    Reference: D. M. Young, Iterative Solution of Large Linear Systems, chapter 6.
    """
    lowest, _ = jacobi_bounds(operations)
    # 1 − ρ² = μ (2 − μ) without cancellation.
    return 2.0 / (1.0 + math.sqrt(min(1.0, lowest * (2.0 - lowest))))


def require_colors(operator: Operator) -> None:
    """Refuse a grid on which a link joins two nodes of one color.

    Raises `CaseError` if a periodic axis has an odd number of nodes.
    """
    if not red_black(operator):
        raise CaseError(
            "solver.method = 'sor': red–black order needs an even number of nodes on every periodic axis; change "
            "domain.shape or the method"
        )


class Sor(Method):
    """Sweeps over the red and then the black nodes until the residual norm reaches its target.

    `operations`: those of A. `omega`: the weight, dimensionless, 0 < ω < 2; by default `optimal_weight`. Raises
    `CaseError` if a periodic axis has an odd number of nodes; `ValueError` if `omega` is out of range.
    """

    def __init__(self, operations: Operations, omega: float | None = None) -> None:
        backend, operator = operations.backend, operations.operator
        require_colors(operator)
        if omega is not None and not 0.0 < omega < 2.0:
            raise ValueError(f"omega = {omega}; it must be in (0, 2)")
        self._operations = operations
        self._backend = operations.backend
        self._given = omega
        self._recorded: tuple[Array, Array | None, int, Callable[[], None]] | None = None
        self._numbers: tuple[object, ...] = ()
        self.refresh()
        self._work = backend.empty(operator.array_shape)
        self._norms = backend.reduction()
        self._mean = ZeroMean(operations)

    def refresh(self) -> bool:
        operator, before = self._operations.operator, self._numbers
        self.omega = optimal_weight(self._operations) if self._given is None else self._given
        self._numbers = self.omega, operator.a, operator.c
        if self._numbers != before:
            self._recorded = None
        return True

    def run(self, task: Task) -> SolveResult:
        operations, backend, norms = self._operations, self._backend, self._norms
        operator = operations.operator
        u, f, stopping = task.u, task.f, task.stopping
        watch = Watch(operations, task, norms, GROWTH, local=True)
        source = watch.source(f)
        self._mean.begin()
        given = given_source(source, f)

        def residual() -> Norms:
            operations.residual(u, given, self._work, norms)
            now = backend.read(norms)
            self._mean.follow(u, watch.norm(now), self._work if operator.singular else None)
            return now

        # The error falls with the distance of ω from 2, as the square root of what it does with Jacobi.
        plain = uniform(operator)
        every = stopping.check_every or max(1, math.isqrt(sweeps_per_read(plain, 1.0)))
        status = watch.begin(source, residual(), lambda: u)
        advance = self._advance(u, given, min(every, max(1, watch.most)))
        status, done = relax(watch, status, advance, residual, every)
        return watch.result(status, done, u, self._work)

    def _advance(self, u: Array, f: Array | None, every: int) -> Callable[[int], None]:
        sweeps = partial(_sweep_both_colors, self._operations, u, f, self.omega)
        known = self._recorded
        if known is None or known[0] is not u or known[1] is not f or known[2] != every:
            self._recorded = known = (u, f, every, self._backend.capture(partial(sweeps, every)))
        replay = known[3]

        def advance(count: int) -> None:
            if count == every:
                replay()
            else:
                sweeps(count)

        return advance


def _sweep_both_colors(operations: Operations, u: Array, f: Array | None, omega: float, count: int) -> None:
    for _ in range(count):
        for color in (0, 1):
            operations.color_sweep(u, f, color, omega)


def colors_clash(name: str, item: str, problem: Problem) -> Iterator[Clash]:
    """The clash of a red–black order, the value of a key, with a periodic axis of an odd number of nodes."""
    grid = problem.lattice
    odd = [axis for axis, nodes in enumerate(grid.shape) if grid.periodic[axis] and nodes % 2]
    if odd:
        yield clash(
            name,
            item,
            "another one, because red-black order needs an even number of nodes along a periodic axis, and "
            f"domain.shape has {grid.shape[odd[0]]} along {AXES[odd[0]]}",
        )


METHOD = MethodEntry(
    name="sor",
    rank=5,
    use="comparison with the literature: red–black successive over-relaxation with the optimal weight",
    iteration="a sweep of both colours",
    make=lambda given: Sor(given.operations, given.settings.of(Relaxation).omega),
    arrays=so_many(3.0),
    keys=frozenset(("omega", "check_every")),
    parts=(Relaxation,),
    refused=lambda settings, problem: colors_clash("method", settings.method, problem),
)
