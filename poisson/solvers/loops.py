"""The loops of the Jacobi method: passes of one or of several sweeps, or the four stages one by one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from types import MappingProxyType

from poisson.backends.base import Array, Backend, Reduction
from poisson.discrete.operator import Operator

MOST_SWEEPS_PER_READ = 1000
"""No recorded block is longer."""


def sweep_through(
    backend: Backend,
    operator: Operator,
    source: Array,
    f: Array | None,
    target: Array,
    weights: Sequence[float],
    depth: int,
    result: Reduction | None = None,
) -> None:
    """One sweep with each weight, back and forth between two arrays in passes of at most `depth` sweeps.

    The result lies in `target` after an odd number of passes. `result` gets the norms that the last sweep computes.
    """
    for first in range(0, len(weights), depth):
        chunk = weights[first : first + depth]
        place = result if first + depth >= len(weights) else None
        if depth == 1:
            backend.sweep(operator, source, f, target, chunk[0], place)
        else:
            backend.sweeps(operator, source, f, target, chunk, place)
        source, target = target, source


def _blocks(count: int) -> Iterator[int]:
    """`count` sweeps in blocks that a graph can hold."""
    while count > 0:
        yield min(count, MOST_SWEEPS_PER_READ)
        count -= MOST_SWEEPS_PER_READ


class Sweeping:
    """Passes over memory from one array to another and back, each of as many sweeps as `depth` allows."""

    def __init__(
        self,
        backend: Backend,
        operator: Operator,
        u: Array,
        work: Array,
        f: Array | None,
        omega: float,
        depth: int = 1,
    ) -> None:
        self.u, self.work = u, work
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
        # What is recorded holds no reference to the loop, which would keep its arrays until garbage is collected.
        backend, operator, f, depth = self._backend, self._operator, self._f, self._depth
        weights = (self._omega,) * count

        def block() -> None:
            sweep_through(backend, operator, u, f, work, weights, depth, norms)

        return block


def _blocked(backend: Backend, operator: Operator, u: Array, work: Array, f: Array | None, omega: float) -> Sweeping:
    return Sweeping(backend, operator, u, work, f, omega, backend.depth(operator))


class Staged:
    """The four stages one by one; u stays where it is."""

    def __init__(
        self, backend: Backend, operator: Operator, u: Array, work: Array, f: Array | None, omega: float
    ) -> None:
        self.u, self.work = u, work
        self._au = backend.empty(operator.array_shape)
        self._backend = backend
        self._operator = operator
        self._f = f
        self._omega = omega
        self._norms = backend.reduction()
        self._recorded: dict[int, Callable[[], None]] = {}
        self._apply = backend.capture(partial(_apply_operator, backend, operator, u, self._au))
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

    def _rest(self, count: int) -> Callable[[], None]:
        backend, operator, f, omega, norms = self._backend, self._operator, self._f, self._omega, self._norms
        u, au, r = self.u, self._au, self.work

        def rest() -> None:
            for sweep in range(count):
                if sweep:
                    _apply_operator(backend, operator, u, au)
                backend.update(operator, f, au, r, u, omega)
            backend.norm(operator, r, norms)

        return rest


def _apply_operator(backend: Backend, operator: Operator, u: Array, au: Array) -> None:
    backend.laplacian(operator, u, au)
    backend.boundary_conditions(operator, u, au)


Loop = Sweeping | Staged

LOOPS: Mapping[str, Callable[[Backend, Operator, Array, Array, Array | None, float], Loop]] = MappingProxyType(
    {"blocked": _blocked, "fused": Sweeping, "staged": Staged}
)
"""The loops by the names that a case file has for them."""
