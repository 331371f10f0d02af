# SPDX-License-Identifier: MIT
"""Direct solutions for several sources on a device, recorded as one."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from poisson.backends.base import Array, Operations, Reduction
from poisson.backends.inverses import InverseOperations
from poisson.discrete.inverse import Inverse
from poisson.discrete.operator import Operator
from poisson.mesh.axis import Axis
from poisson.mesh.boundary import Rule

Norms = tuple[float, float, float, float]

MOST, MOST_NODES = 16, 1 << 23
"""Sources of one recording, and the nodes of them all, at most; each source has three arrays."""


@dataclass
class _Stack:
    """Arrays of several sources, solutions and work, one behind the other, and places for the norms of each.

    `start`: the values at fixed nodes that the solutions have.
    """

    fs: Array
    us: Array
    work: Array
    sources: Sequence[Reduction]
    left: Sequence[Reduction]
    start: Array | None = None


class Together:
    """Solves for as many sources at once as a power of two.

    `operations`: those of A. `held`: whether fixed nodes have other values than zero.
    """

    def __init__(self, operations: Operations, held: bool) -> None:
        self._operations, self._held = operations, held
        self._recorded: dict[int, tuple[_Stack, Callable[[], None]]] = {}

    def ask(self, fs: Sequence[Array], start: Array, whole: Any) -> Callable[[], tuple[list[Array], list[Norms]]]:
        """Begin with u = A⁻¹ f for sources as of `poisson.solvers.iteration.Method.ask_many`.

        Returns: what waits for the end and gives new arrays, and the norms that `CertifyingInverse.solve_many` gives.
        """
        us: list[Array] = []
        norms: list[Norms] = []
        total, done, count = len(fs if whole is None else whole), 0, 0
        most = min(MOST, max(1, MOST_NODES // self._operations.operator.lattice.nodes))
        while done < total:
            if count:
                norms += self._norms(count)  # before the next solutions have theirs in the same places
            count = 1 << min(most, total - done).bit_length() - 1
            part = slice(done, done + count)
            us.append(self._solve(count, fs[part], start, None if whole is None else whole[part]))
            done += count
        return lambda: ([u for together in us for u in together], norms + self._norms(count))

    def _norms(self, count: int) -> list[Norms]:
        """Wait for so many sources; the norms of each, and those of its residual."""
        stack, _ = self._recorded[count]
        found = self._operations.backend.read_all((*stack.sources, *stack.left))
        return [(*of_f, *of_r) for of_f, of_r in zip(found[:count], found[count:], strict=True)]

    def _solve(self, count: int, fs: Sequence[Array], start: Array, whole: Any) -> Array:
        """Solve for so many sources, without a wait; a new array of the solutions."""
        operations, backend = self._operations, self._operations.backend
        stack, solve = self._recorded.get(count) or self._record(count)
        if self._held and stack.start is not start:
            for u in stack.us:
                backend.axpby(1.0, start, 0.0, u)
            stack.start = start
        if whole is not None:
            backend.view(stack.fs)[...] = whole.reshape(stack.fs.shape)
        else:
            for f, place, result in zip(fs, stack.fs, stack.sources, strict=True):
                operations.take(f, place, result)
        solve()
        us = backend.empty(stack.us.shape)
        backend.axpby(1.0, stack.us, 0.0, us)
        return us

    def _record(self, count: int) -> tuple[_Stack, Callable[[], None]]:
        operations, backend, operator = self._operations, self._operations.backend, self._operations.operator
        fs, us, work = (backend.empty((count, *operator.array_shape)) for _ in range(3))
        for u in us:
            backend.fill(u, 0.0)
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
        # Where the sources came as one, they have values at fixed nodes, and no norms yet.
        operations.take(stack.fs[n], stack.fs[n], stack.sources[n])
    backend.axpby(1.0, stack.fs, 0.0, stack.work)
    if at_once:
        inverse.solve(stack.work, stack.us)
    for n in range(count):
        if not at_once:
            inverse.solve(stack.work[n], stack.us[n])
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
