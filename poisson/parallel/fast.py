# SPDX-License-Identifier: MIT
"""Direct solution by fast transforms where the slowest axis is divided over ranks.

Every rank transforms its planes along the other axes, which are whole. For each mode there is then a chain of equations
along the divided axis (`poisson.mesh.chain`), of which every rank has a run. The last plane of each rank that has one
above it is a separator. Without all other planes there is left a chain of the separators alone, in closed form on
equally spaced nodes: of P − 1 unknowns for a mode on P ranks, or a ring of P where the axis wraps. So a rank reads its
planes for what flows into the separators beside it, only planes of that travel, and with the values of the separators
every run is a problem of its own. The idea is H. H. Wang's, "A parallel method for tridiagonal equations", ACM
Transactions on Mathematical Software 7, 1981.

On few ranks, or of small planes, every rank gets all flows and solves all chains: in one exchange a rank sends at most
2 (P − 1) planes. Otherwise each solves those of its share of the modes: in two exchanges it sends 4 (P − 1) / P planes.

Where the problem is singular, every rank solves the chain of the first mode for itself and from all of its source: the
mean that f loses, and that u has not, is that of the whole.
"""

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from poisson.backends.base import Array, Backend
from poisson.discrete.inverse import DividedInverse
from poisson.discrete.operator import Operator
from poisson.errors import GridError
from poisson.mesh.axis import Axis
from poisson.mesh.chain import OfConstants, losses_of, replacement
from poisson.mesh.grid import AXES
from poisson.parallel.communicator import Communicator, Message

GATHERED_BYTES = 1 << 16
"""The bytes by which one exchange of arrays of the host may exceed the two that it replaces: about as many as messages
carry in the time that one takes to begin."""

GATHERED_BYTES_ON_DEVICE = 1 << 22
"""The same of arrays of devices."""

Values = NDArray[np.float64]


class Separators:
    """The chain of the separators, for a share of the modes.

    `axis`: the whole axis. `runs`: the nodes that are not fixed of each rank, as ranges. `shifts` (array): the
    eigenvalue of each mode of the other axes, in a/h² of this one. `asarray`: makes the arrays that are kept, from
    NumPy arrays. `count`: separators.
    """

    def __init__(
        self, axis: Axis, runs: list[tuple[int, int]], shifts: Values, asarray: Callable[[Values], Any] = np.asarray
    ) -> None:
        self.count = len(runs) if axis.wraps else len(runs) - 1
        losses = [losses_of(axis, stop - 1, shifts) for _, stop in runs[: self.count]]
        links = []
        for rank, (start, stop) in enumerate(runs):
            between = replacement(axis, start, stop - (rank < self.count), shifts)
            # Where there is no separator beside a run, but a fixed node, the link is a loss.
            if rank > 0 or axis.wraps:
                losses[rank - 1] += between.below
            else:
                losses[0] += between.link
            if rank < self.count:
                losses[rank] += between.above
            else:
                losses[-1] += between.link
            links.append(between.link)
        self._inverse, self._ahead, self._around = [], [], []
        around = links[0] if axis.wraps else np.zeros_like(shifts)
        for number in range(self.count - 1):
            loss, ahead = losses[number], links[number + 1]
            if number == self.count - 2:
                # The last one is the next one.
                ahead, around = ahead + around, np.zeros_like(shifts)
            total = loss + ahead + around
            losses[number + 1] += ahead * loss / total
            losses[-1] += around * loss / total
            self._inverse.append(asarray(1.0 / total))
            self._ahead.append(asarray(ahead / total))
            self._around.append(asarray(around / total) if axis.wraps and number < self.count - 2 else None)
            around = around * ahead / total
        self._inverse.append(asarray(1.0 / losses[-1]))
        self._product = asarray(np.empty_like(shifts))

    def solve(self, flows: Any) -> None:
        """From what flows into each separator to the values there, in place; shape (separators, modes), float64."""
        last = flows[-1]
        for number, (ahead, around) in enumerate(zip(self._ahead, self._around, strict=True)):
            self._add(flows[number + 1], ahead, flows[number])
            if around is not None:
                self._add(last, around, flows[number])
        last *= self._inverse[-1]
        for number in reversed(range(self.count - 1)):
            flow = flows[number]
            flow *= self._inverse[number]
            self._add(flow, self._ahead[number], flows[number + 1])
            if (around := self._around[number]) is not None:
                self._add(flow, around, last)

    def _add(self, target: Any, factor: Any, source: Any) -> None:
        np.multiply(factor, source, out=self._product)
        target += self._product


class DistributedFastSolver:
    """A direct solution on the part of a rank; all ranks make it, and call it, together.

    What lies in the halos of arrays does not matter.

    `local`: where the arrays of this rank are. `operator`: on the part, with constant coefficients. `communicator`: the
    ranks, in the order of their parts. Raises `GridError` if another axis is divided than the slowest one, or a
    rank has no node there that is not fixed.
    """

    def __init__(self, local: Backend, operator: Operator, communicator: Communicator) -> None:
        slowest = operator.dimension - 1
        if any(line.whole is not None for line in operator.lattice.axes[:slowest]):
            raise GridError(
                f"fast transforms need whole planes on every rank: divide {AXES[slowest]} alone (run.ranks)"
            )
        self._local, self._communicator = local, communicator
        self._slab = local.bind(DividedInverse(operator)) if operator.unknowns else None
        line = operator.lattice.axes[slowest]
        axis, coupling = line.undivided, operator.couplings[slowest]
        rank, size = communicator.rank, communicator.size
        owned = communicator.allgather([line.first + line.owned.start, line.first + line.owned.stop])
        free = range(axis.nodes)[axis.free]
        runs = [(max(int(start), free.start), min(int(stop), free.stop)) for start, stop in owned]
        if any(start >= stop for start, stop in runs):
            raise GridError(
                f"fast transforms need at least one plane of unknowns on every rank: use fewer ranks than {size}"
            )
        if self._slab is None:
            return
        eigenvalues = self._slab.eigenvalues.copy()
        if operator.singular:
            # Its chain is solved apart.
            eigenvalues[0] = coupling
        modes = eigenvalues.size
        self._count = size if axis.wraps else size - 1
        self._gathered = _gathers(size, modes * local.dtype.itemsize, communicator.on_device)
        bounds = [modes * number // size for number in range(size + 1)]
        self._shares = [slice(0, modes) if self._gathered else slice(*ends) for ends in itertools.pairwise(bounds)]
        # Of the planes that flow down and up: which ranks have them, this rank's own, and the values for it.
        self._have = [
            [number > 0 or axis.wraps for number in range(size)],
            [number < self._count for number in range(size)],
        ]
        self._planes = [local.empty((1, modes)) if have[rank] else None for have in self._have]
        self._results = [local.empty((1, modes)) if have[rank] else None for have in self._have]
        self._runs = [slice(start - free.start, stop - free.start) for start, stop in runs]
        self._line = local.empty((1, runs[rank][1] - runs[rank][0])) if operator.singular else None
        with local.ordered():
            xp = local.array_module if communicator.on_device else np
            shifts = eigenvalues[self._shares[rank]] / coupling
            self._separators = Separators(axis, runs, shifts, xp.asarray)
            self._flows = xp.zeros((2, size, shifts.size), local.dtype)
            self._values = xp.zeros((self._count, shifts.size), np.float64)
            self._sent = xp.zeros((self._count, shifts.size), local.dtype)
            self._received = [xp.zeros(modes, local.dtype) for _ in self._have]
            self._source = xp.zeros(len(free), local.dtype)
            self._constants = OfConstants(axis, coupling, xp.asarray) if operator.singular else None
            if communicator.on_device:
                # What is made on first use is made now: a recording may come next.
                self._join()

    def solve(self, f: Array, u: Array) -> None:
        """u = A⁻¹ f at the nodes that the rank owns and that are not fixed."""
        if self._slab is None:
            return
        first, last = self._planes
        self._slab.condense(f, u, first, last, self._line)
        if self._local.launching:
            with self._local.ordered():
                self._join()
        below, above = self._results
        self._slab.expand(f, u, below, above, self._line)

    def _join(self) -> None:
        """From the flows of all ranks to the values at the separators of this one."""
        self._exchange_flows()
        rank, size = self._communicator.rank, self._communicator.size
        down, up = self._flows
        for number in range(self._count):
            below, above = up[number], down[(number + 1) % size]
            np.add(below, above, out=self._values[number], dtype=np.float64)
        self._separators.solve(self._values)
        self._exchange_values()
        if self._constants is not None:
            self._store(self._constants.solve(self._source)[self._runs[rank]], self._line)

    def _exchange_flows(self) -> None:
        rank, size = self._communicator.rank, self._communicator.size
        messages = []
        for tag, (plane, have) in enumerate(zip(self._planes, self._have, strict=True)):
            own = None if plane is None else self._fetched(plane)
            for peer in range(size):
                if own is not None and peer == rank:
                    self._flows[tag][rank] = own[self._shares[rank]]
                elif own is not None:
                    messages.append(Message(own[self._shares[peer]], peer, tag, sends=True))
                if peer != rank and have[peer]:
                    messages.append(Message(self._flows[tag][peer], peer, tag, sends=False))
        if self._line is not None:
            own = self._fetched(self._line)
            self._source[self._runs[rank]] = own
            for peer in range(size):
                if peer != rank:
                    messages.append(Message(own, peer, 2, sends=True))
                    messages.append(Message(self._source[self._runs[peer]], peer, 2, sends=False))
        self._communicator.exchange(messages)

    def _exchange_values(self) -> None:
        """The values at the separator below a rank, and at its own, from the ranks that have solved for them."""
        rank, size = self._communicator.rank, self._communicator.size
        wanted = [[(number + offset) % self._count for number in range(size)] for offset in (-1, 0)]
        if self._gathered:
            for numbers, result in zip(wanted, self._results, strict=True):
                self._store(self._values[numbers[rank]], result)
            return
        self._sent[...] = self._values
        messages = []
        for tag, (numbers, have, mine) in enumerate(zip(wanted, self._have, self._received, strict=True)):
            for peer in range(size):
                if peer == rank and have[rank]:
                    mine[self._shares[rank]] = self._sent[numbers[rank]]
                elif peer != rank:
                    if have[peer]:
                        messages.append(Message(self._sent[numbers[peer]], peer, tag, sends=True))
                    if have[rank]:
                        messages.append(Message(mine[self._shares[peer]], peer, tag, sends=False))
        self._communicator.exchange(messages)
        for result, received in zip(self._results, self._received, strict=True):
            self._store(received, result)

    # ---- between arrays of the backend and those that travel

    def _fetched(self, array: Array) -> Any:
        return array[0] if self._communicator.on_device else self._local.to_host(array)[0]

    def _store(self, values: Any, array: Array | None) -> None:
        if array is None:
            return
        if self._communicator.on_device:
            array[0] = values
            return
        values = values.astype(self._local.dtype).reshape(1, -1)
        self._local.assemble(values.shape, lambda xp, start, stop: xp.asarray(values[start:stop]), array)


def _gathers(size: int, plane_bytes: int, on_device: bool) -> bool:
    """Whether every rank solves the chains of all modes."""
    beyond = 2.0 * (size - 1) * (1.0 - 2.0 / size) * plane_bytes
    return beyond <= (GATHERED_BYTES_ON_DEVICE if on_device else GATHERED_BYTES)
