# SPDX-License-Identifier: MIT
"""Direct solutions for several sources on a device, recorded as one."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from poisson.backends.base import Array, Operations, Reduction
from poisson.backends.inverses import InverseOperations
from poisson.discrete.inverse import Inverse
from poisson.discrete.operator import Operator
from poisson.mesh.axis import Axis
from poisson.mesh.boundary import Rule

MOST, MOST_NODES = 16, 1 << 23
"""Sources of one recording, and the nodes of them all, at most; each source has three arrays."""


@dataclass(frozen=True)
class _Stack:
    """Arrays of several sources, solutions and work, one behind the other, and places for the norms of each."""

    fs: Array
    us: Array
    work: Array
    sources: Sequence[Reduction]
    left: Sequence[Reduction]


class Together:
    """Solves for as many sources at once as a power of two.

    `operations`: those of A. `held`: whether fixed nodes have other values than zero.
    """

    def __init__(self, operations: Operations, held: bool) -> None:
        self._operations, self._held = operations, held
        self._recorded: dict[int, tuple[_Stack, Callable[[], None]]] = {}

    def solve_many(self, fs: Sequence[Array], start: Array, us: Sequence[Array]) -> NDArray[np.float64]:
        """See `poisson.backends.inverses.CertifyingInverse.solve_many`."""
        norms, done = np.empty((len(fs), 4)), 0
        most = min(MOST, max(1, MOST_NODES // self._operations.operator.lattice.nodes))
        while done < len(fs):
            count = 1 << min(most, len(fs) - done).bit_length() - 1
            self._solve(fs[done : done + count], start, us[done : done + count], norms[done : done + count])
            done += count
        return norms

    def _solve(self, fs: Sequence[Array], start: Array, us: Sequence[Array], norms: NDArray[np.float64]) -> None:
        operations, backend = self._operations, self._operations.backend
        stack, solve = self._recorded.get(len(fs)) or self._record(len(fs))
        for n, f in enumerate(fs):
            operations.take(f, stack.fs[n], stack.sources[n])
            if self._held:
                backend.axpby(1.0, start, 0.0, stack.us[n])
        solve()
        for n, u in enumerate(us):
            backend.axpby(1.0, stack.us[n], 0.0, u)
        for n, each in enumerate(norms):
            each[:] = *backend.read(stack.sources[n]), *backend.read(stack.left[n])

    def _record(self, count: int) -> tuple[_Stack, Callable[[], None]]:
        operations, backend, operator = self._operations, self._operations.backend, self._operations.operator
        fs, us, work = (backend.empty((count, *operator.array_shape)) for _ in range(3))
        for n in range(count):
            backend.fill(us[n], 0.0)
        sources, left = ([backend.reduction() for _ in range(count)] for _ in range(2))
        stack = _Stack(fs, us, work, sources, left)
        stacked = _stacked(operator, count)
        inverse = backend.bind(Inverse(stacked or operator, self._held))
        asked = backend.capture(partial(_ask, operations, inverse, stack, stacked is not None))
        self._recorded[count] = stack, asked
        return stack, asked


def _ask(operations: Operations, inverse: InverseOperations, stack: _Stack, at_once: bool) -> None:
    backend, count = operations.backend, len(stack.left)
    for n in range(count):
        backend.axpby(1.0, stack.fs[n], 0.0, stack.work[n])
        if not at_once:
            inverse.solve(stack.work[n], stack.us[n])
    if at_once:
        inverse.solve(stack.work, stack.us)
    for n in range(count):
        operations.certify(stack.us[n], stack.fs[n], stack.work[n], stack.left[n])


def _stacked(operator: Operator, count: int) -> Operator | None:
    """The operator on several planes that no link connects; None where there is no axis left for that.

    Products with matrices of eigenvectors may have other bits where there are more of them.
    """
    lattice = operator.lattice
    if lattice.dimension > 2 or lattice.tabulated:
        return None
    planes = Axis(count, math.inf, (Rule.WRAP, Rule.WRAP))
    return replace(operator, lattice=replace(lattice, axes=(*lattice.axes, planes)))
