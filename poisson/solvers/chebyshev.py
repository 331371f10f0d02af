# SPDX-License-Identifier: MIT
"""Jacobi sweeps accelerated by Chebyshev polynomials."""

import math
from collections.abc import Callable
from functools import partial

from poisson.backends.base import Array, Operations
from poisson.solvers.entries import MethodEntry, so_many
from poisson.solvers.iteration import Method, Norms, Task, Watch, given_source, relax
from poisson.solvers.loops import MOST_SWEEPS_PER_READ, sweep_through
from poisson.solvers.spectrum import ZeroMean, chebyshev_omegas, chebyshev_rate, jacobi_bounds
from poisson.solvers.stopping import SolveResult

E_FOLDS = 4.0
"""A polynomial reduces the error at least by so many factors of e, so that few sweeps go to its start."""

MOST_DEGREE = 1 << 18
"""The largest degree of a polynomial, whose sweeps are made before the norm is read."""

INTERMEDIATE_GROWTH = 1e12
"""Within a polynomial, and in another norm than that of the theory, the residual may grow before it falls."""


class Chebyshev(Method):
    """Jacobi sweeps with the weights of Chebyshev polynomials, until the residual norm reaches its target.

    The bounds of the spectrum are known in closed form for constant coefficients and computed by a Lanczos process for
    varying ones. A polynomial is done whole before the norm is read.

    `operations`: those of A.

    Reference: A. A. Samarskii and E. S. Nikolaev, Numerical Methods for Grid Equations, volume 2, section 6.2.
    """

    def __init__(self, operations: Operations) -> None:
        backend, operator = operations.backend, operations.operator
        self._operations = operations
        self._backend = operations.backend
        self._recorded: dict[tuple[int, int, bool], Callable[[], None]] = {}
        self._numbers: tuple[object, ...] = ()
        self.refresh()
        self._work = backend.empty(operator.array_shape)
        self._norms = backend.reduction()
        self._mean = ZeroMean(operations)
        self._depth = operations.depth()
        self._f: Array | None = None
        self._pair: tuple[Array, Array] | None = None

    def refresh(self) -> bool:
        operator, before = self._operations.operator, self._numbers
        self.bounds = jacobi_bounds(self._operations)
        # Bounds that coincide, up to rounding, are those of a single eigenvalue: one sweep solves.
        rate = min(chebyshev_rate(*self.bounds), E_FOLDS)
        self.degree = min(1 << math.ceil(math.log2(E_FOLDS / rate)), MOST_DEGREE)
        self._numbers = self.bounds, operator.a, operator.c
        if self._numbers != before:
            self._recorded.clear()
        return True

    def run(self, task: Task) -> SolveResult:
        operations, backend, norms = self._operations, self._backend, self._norms
        operator = operations.operator
        u, f, stopping = task.u, task.f, task.stopping
        watch = Watch(operations, task, norms, INTERMEDIATE_GROWTH, local=True)
        source = watch.source(f)
        self._mean.begin()
        given = given_source(source, f)
        pair = [u, self._work]
        if self._pair is None or self._pair[0] is not u or self._f is not given:
            self._recorded.clear()
            self._pair, self._f = (u, self._work), given

        def residual() -> Norms:
            operations.residual(pair[0], given, pair[1], norms)
            now = backend.read(norms)
            self._mean.follow(pair[0], watch.norm(now), pair[1] if operator.singular else None)
            return now

        def advance(count: int) -> None:
            for degree in _powers(count, self.degree):
                self._polynomial(degree, pair)

        status = watch.begin(source, residual(), lambda: pair[0])
        every = -(-max(stopping.check_every, 1) // self.degree) * self.degree
        status, done = relax(watch, status, advance, residual, every)
        return watch.result(status, done, *pair)

    def _polynomial(self, degree: int, pair: list[Array]) -> None:
        """The sweeps of one polynomial; afterwards the first of `pair` is the new iterate."""
        omegas = chebyshev_omegas(*self.bounds, degree)
        longest = MOST_SWEEPS_PER_READ // self._depth * self._depth
        for first in range(0, degree, longest):
            chunk = omegas[first : first + longest]
            key = (degree, first, pair[1] is self._work)
            if key not in self._recorded:
                block = partial(sweep_through, self._operations, pair[0], self._f, pair[1], chunk, self._depth)
                self._recorded[key] = self._backend.capture(block)
            self._recorded[key]()
            if -(-len(chunk) // self._depth) % 2:
                pair.reverse()


def _powers(count: int, largest: int) -> list[int]:
    """Powers of two, none above `largest`, itself one, that add up to `count`: the largest first."""
    powers = []
    while count:
        power = min(largest, 1 << (count.bit_length() - 1))
        powers.append(power)
        count -= power
    return powers


METHOD = MethodEntry(
    name="chebyshev",
    rank=4,
    use="comparison with the literature: Jacobi sweeps with weights from Chebyshev polynomials",
    iteration="a sweep",
    make=lambda given: Chebyshev(given.operations),
    arrays=so_many(3.0),
    keys=frozenset(("check_every",)),
    halo=lambda settings, dimension, depth: depth,
)
