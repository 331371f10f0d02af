# SPDX-License-Identifier: MIT
"""The loops of the Jacobi method: passes of one or of several sweeps, or the four stages one by one."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from types import MappingProxyType

from poisson.backends.base import Array, Operations, Reduction

MOST_SWEEPS_PER_READ = 1000
"""No recorded block is longer."""


def sweep_through(
    operations: Operations,
    source: Array,
    f: Array | None,
    target: Array,
    omegas: Sequence[float],
    depth: int,
    result: Reduction | None = None,
) -> None:
    """One sweep with each weight, back and forth between two arrays in passes of at most `depth` sweeps.

    The result lies in `target` after an odd number of passes. `result` gets the norms that the last sweep computes.
    """
    for first in range(0, len(omegas), depth):
        chunk = omegas[first : first + depth]
        place = result if first + depth >= len(omegas) else None
        if depth == 1:
            operations.sweep(source, f, target, chunk[0], place)
        else:
            operations.sweeps(source, f, target, chunk, place)
        source, target = target, source


def _blocks(count: int) -> Iterator[int]:
    """`count` sweeps in blocks that a graph can hold."""
    while count > 0:
        yield min(count, MOST_SWEEPS_PER_READ)
        count -= MOST_SWEEPS_PER_READ


class Sweeping:
    """Passes over memory from one array to another and back, each of as many sweeps as `depth` allows."""

    def __init__(
        self, operations: Operations, u: Array, work: Array, f: Array | None, omega: float, depth: int = 1
    ) -> None:
        backend = operations.backend
        self.u, self.work = u, work
        self._operations = operations
        self._backend = operations.backend
        self._f = f
        self._omega = omega
        self._depth = depth
        # Two, so that a pass can be under way while the norms of the one before are read.
        self._norms = [backend.reduction(), backend.reduction()]
        self._first, self._first_norms = u, self._norms[0]
        self._recorded: dict[tuple[int, bool, bool], Callable[[], None]] = {}
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
        key = (count, self.u is self._first, norms is self._first_norms)
        if key not in self._recorded:
            arrays, omegas = (self.u, self._f, self.work), (self._omega,) * count
            block = partial(sweep_through, self._operations, *arrays, omegas, self._depth, norms)
            self._recorded[key] = self._backend.capture(block)
        self._recorded[key]()
        self._backend.mark(norms)

    def _turn(self, count: int) -> None:
        if -(-count // self._depth) % 2:
            self.u, self.work = self.work, self.u


def _blocked(operations: Operations, u: Array, work: Array, f: Array | None, omega: float) -> Sweeping:
    return Sweeping(operations, u, work, f, omega, operations.depth())


class Staged:
    """The four stages one by one; u stays where it is."""

    def __init__(self, operations: Operations, u: Array, work: Array, f: Array | None, omega: float) -> None:
        backend, operator = operations.backend, operations.operator
        self.u, self.work = u, work
        self._au = backend.empty(operator.array_shape)
        self._operations = operations
        self._backend = operations.backend
        self._f = f
        self._omega = omega
        self._norms = backend.reduction()
        self._recorded: dict[int, Callable[[], None]] = {}
        self._apply = backend.capture(partial(_apply_operator, operations, u, self._au))
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
                arrays = (self.u, self._f, self._au, self.work)
                rest = partial(_finish_sweeps, self._operations, count, *arrays, self._omega, self._norms)
                self._recorded[count] = self._backend.capture(rest)
            self._recorded[count]()
        self._backend.mark(self._norms)

    def norms(self) -> tuple[float, float]:
        """Wait for the norms that the last sweep before the end of `finish` left."""
        return self._backend.read(self._norms)


def _apply_operator(operations: Operations, u: Array, au: Array) -> None:
    operations.laplacian(u, au)
    operations.boundary_conditions(u, au)


def _finish_sweeps(
    operations: Operations, count: int, u: Array, f: Array | None, au: Array, r: Array, omega: float, norms: Reduction
) -> None:
    """Make so many sweeps, for the first of which A u is given, and compute the norms of the last residual."""
    for sweep in range(count):
        if sweep:
            _apply_operator(operations, u, au)
        operations.update(f, au, r, u, omega)
    operations.norm(r, norms)


Loop = Sweeping | Staged

LOOPS: Mapping[str, Callable[[Operations, Array, Array, Array | None, float], Loop]] = MappingProxyType(
    {"blocked": _blocked, "fused": Sweeping, "staged": Staged}
)
"""The loops by the names that a case file has for them."""

SWEEPS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {"blocked": ("sweep",), "fused": ("sweep",), "staged": ("laplacian", "update")}
)
"""The operations of one sweep of each loop, without the norm, which is read only now and then in the staged loop. Of
the blocked loop it is what a sweep would move alone: the rate at which it seems to stream passes that of the memory."""
