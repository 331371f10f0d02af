# SPDX-License-Identifier: MIT
"""The operations of a distributed backend: those of the local one, each after the exchange that it needs.

What an operation needs of a halo, and what it leaves right of it, is counted in layers of nodes from the owned ones.
What an operation that looks at neighbours leaves in the outermost layer of a part has no meaning (`Rule.HALO`), so it
leaves one layer fewer than it was given. `poisson.parallel.calls` makes the methods on one lattice from their entries;
here is what no rule gives: passes of several operations, and what goes between two lattices.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from poisson.backends.base import Array, Operations
from poisson.backends.inverses import InverseOperations
from poisson.backends.rows import RowOperations
from poisson.backends.transfers import DifferenceOperations, InterpolationOperations, TransferOperations
from poisson.discrete.inverse import Inverse
from poisson.discrete.operator import Operator
from poisson.discrete.sparse_rows import SparseRows
from poisson.discrete.transfer import Interpolation, Transfer
from poisson.mesh.differences import Differences
from poisson.mesh.lattice import Lattice
from poisson.parallel.arrays import EVERYWHERE, DividedArray, DividedResult
from poisson.parallel.calls import operations_on_ranks
from poisson.parallel.exchanging import Exchanging
from poisson.parallel.fast import DistributedFastSolver

if TYPE_CHECKING:
    from poisson.mesh.axis import Axis
    from poisson.parallel.distributed import DistributedBackend

CUBIC = 2
"""Layers that a cubic gathers from."""


@operations_on_ranks(Operator, "operator")
class DistributedOperations(Operations):
    """The operations of an operator on a part of a lattice, or on a whole one."""

    backend: DistributedBackend

    def __init__(self, backend: DistributedBackend, operator: Operator) -> None:
        super().__init__(backend, operator)
        self._lattice = Exchanging(backend, backend.halo_of(operator.lattice))
        self._exchange_coefficients()
        self._local = backend.local.bind(_local(operator))
        self._first_color = sum(line.first for line in operator.lattice.axes)
        # A pass is as deep on one rank as on any other, whatever is best for its part.
        depth = min(self._local.depth(), self._lattice.width)
        if self._lattice.halo is not None:
            depth = int(min(each for (each,) in backend.communicator.allgather([depth])))
        self._depth = depth
        # Where the diagonal varies it is not known at the outermost nodes, and nothing is solved for there.
        self._with_diagonal = self._lattice.width - (self._lattice.halo is not None and not operator.has_one_diagonal)

    def rebind(self, operator: Operator) -> None:
        super().rebind(operator)
        self._exchange_coefficients()
        self._local.rebind(_local(operator))

    def _exchange_coefficients(self) -> None:
        for array in _coefficients(self.operator):
            self._lattice.need(array, self._lattice.width)

    def _color(self, color: int) -> int:
        """The colors of a part count from its first node."""
        return (color + self._first_color) % 2

    def take(self, f: Array, out: Array, result: DividedResult) -> None:
        lattice = self._lattice
        layers = lattice.need(f, 0)
        self._local.take(f.values, out.values, lattice.result(result))
        lattice.leave(out, layers)

    def certify(self, u: Array, f: Array, work: Array, result: DividedResult) -> None:
        lattice = self._lattice
        with lattice.beside():
            lattice.need(u, 1)
            lattice.need(f, 0)
            self._local.certify(u.values, f.values, work.values, lattice.result(result))
            lattice.leave(work, 0)

    def tuning(self) -> str:
        return self._local.tuning()

    def depth(self) -> int:
        return self._depth

    # ---- half a level of multigrid

    def smooth(
        self,
        u: Array | None,
        f: Array,
        out: Array,
        work: Array,
        omegas: Sequence[float],
        correction: tuple[TransferOperations, Array] | None = None,
        restriction: tuple[TransferOperations, Array] | None = None,
        result: DividedResult | None = None,
        short_waves: float = 0.0,
    ) -> None:
        lattice = self._lattice
        with lattice.beside():
            zero = u is None and correction is None
            sweeps = max(0, len(omegas) - zero)
            stages = sweeps + (restriction is not None or result is not None)
            down, up = (pair and _distributed(pair[0]) for pair in (restriction, correction))
            reach = down.reach if down else 0
            width = self._with_diagonal if zero else lattice.width
            too_narrow = stages + reach > width
            if too_narrow or (up and correction and up.layers(correction[1], stages + reach) < stages + reach):
                if not (restriction or result):
                    super().smooth(u, f, out, work, omegas, correction, short_waves=short_waves)
                    return
                # The residual by itself, so that what comes before may be one pass, which rounds otherwise.
                self.smooth(u, f, out, work, omegas, correction, short_waves=short_waves)
                self.residual(out, f, work, result)
                if restriction:
                    restriction[0].restrict(work, restriction[1])
                return
            # From zero the first sweep makes u of f, layer by layer.
            earlier = 0 if zero else 1
            of_f = lattice.need(f, max(0, stages + reach - earlier)) + earlier
            layers = min(lattice.need(u, stages + reach), of_f, width)
            given = taken = None
            if up and correction:
                given, layers = (up.local, up.coarse_given(correction[1])), min(layers, up.layers(correction[1]))
            if down and restriction:
                taken = down.local, down.coarse_taken(restriction[1])
            local = (None if u is None else u.values, f.values, out.values, work.values, omegas)
            self._local.smooth(*local, given, taken, lattice.result(result), short_waves)
            for array in (u, work):
                if array is not None:
                    lattice.leave(array, 0)
            lattice.leave(out, layers - sweeps)
            if down and restriction:
                down.put_coarse(restriction[1], layers - sweeps - 1)


class DistributedTransfer(TransferOperations):
    """Between two lattices that are divided alike, or from one to a coarse one that every rank has all of."""

    backend: DistributedBackend

    def __init__(self, backend: DistributedBackend, transfer: Transfer) -> None:
        super().__init__(backend, transfer)
        fine, coarse = transfer.fine.lattice, transfer.coarse.lattice
        self._gathers = fine.divided and not coarse.divided
        local = replace(transfer.coarse, lattice=_coarse_part(fine, coarse)) if self._gathers else transfer.coarse
        self._fine = Exchanging(backend, backend.halo_of(fine))
        self._coarse = Exchanging(backend, backend.halo_of(local.lattice))
        self.local = backend.local.bind(
            Transfer(_local(transfer.fine), _local(_plain(local) if self._gathers else local))
        )
        self._halves = transfer.halves is not None
        # Along a divided axis that is not coarsened a layer of the coarse grid is one of the fine grid.
        pairs = zip(fine.axes, coarse.axes, strict=True)
        self._keeps = any(line.whole and line.whole.nodes == kept.undivided.nodes for line, kept in pairs)
        # One that is read and one that is written: a pass may correct and restrict at once.
        self._parts = [backend.empty(local.array_shape) for _ in range(2)] if self._gathers else None

    @property
    def reach(self) -> int:
        """Layers beside the nodes under which coarse ones are owned that restriction gathers from."""
        return 1 if self._halves else 2

    def layers(self, coarse: DividedArray, wanted: int = 0) -> int:
        """Layers of the fine halo that a correction is right on, once the coarse array is right there."""
        right = self._coarse.width if self._gathers else self._coarse.need(coarse, self._needed(wanted))
        return EVERYWHERE if self._fine.halo is None else self._reached(right)

    def _reached(self, right: int) -> int:
        if not self._halves:
            return right - 1
        return min(2 * right - 1, right) if self._keeps else 2 * right - 1

    def _needed(self, wanted: int) -> int:
        """Coarse layers for so many fine ones, or all."""
        if not self._halves:
            return min(self._coarse.width, 1 + wanted)
        return min(self._coarse.width, max(1 + wanted // 2, wanted if self._keeps else 0))

    def restrict(self, fine: Array, coarse: Array) -> None:
        layers = self._fine.need(fine, self.reach)
        self.local.restrict(fine.values, self.coarse_taken(coarse))
        self.put_coarse(coarse, layers)

    def prolong_add(self, coarse: Array, fine: Array) -> None:
        layers = min(self.layers(coarse), self._fine.need(fine, 0))
        self.local.prolong_add(self.coarse_given(coarse), fine.values)
        self._fine.leave(fine, layers)

    def coarsen_links(self, axis: int, fine: Array, coarse: Array) -> None:
        self._fine.need(fine, min(self._fine.width, 2))
        self.local.coarsen_links(axis, fine.values, self.coarse_taken(coarse))
        self.put_coarse(coarse, 0)

    def coarse_given(self, coarse: DividedArray) -> Array:
        """The part of a coarse array that the local operation reads."""
        if self._parts is None:
            return coarse.values
        halo, part = self._coarse.halo, self._parts[0]
        assert halo is not None
        self.backend.note(coarse, part)
        self.backend.do(halo.taking(coarse, part))
        return part.values

    def coarse_taken(self, coarse: DividedArray) -> Array:
        """Where the local operation writes to."""
        return coarse.values if self._parts is None else self._parts[1].values

    def put_coarse(self, coarse: DividedArray, layers: int) -> None:
        """A coarse array has been written, from a fine one with so many right layers."""
        if self._parts is None:
            self._coarse.leave(coarse, (layers - 1) // 2 if self._halves else 0)
            return
        halo, part = self._coarse.halo, self._parts[1]
        assert halo is not None
        self.backend.note(coarse, part)
        self.backend.do(halo.gathering(part, coarse))
        coarse.valid = EVERYWHERE


class DistributedInterpolation(InterpolationOperations):
    """Cubics between two lattices that are divided alike, or one of them and one that every rank has all of."""

    backend: DistributedBackend

    def __init__(self, backend: DistributedBackend, interpolation: Interpolation) -> None:
        super().__init__(backend, interpolation)
        pair = interpolation.source, interpolation.target
        fine = next((each.lattice for each in pair if each.lattice.divided), None)
        parts = [
            each
            if fine is None or each.lattice.divided
            else _plain(replace(each, lattice=_coarse_part(fine, each.lattice)))
            for each in pair
        ]
        self._whole = [part is not each for part, each in zip(parts, pair, strict=True)]
        self._source, self._target = (Exchanging(backend, backend.halo_of(each.lattice)) for each in parts)
        self._local = backend.local.bind(Interpolation(_local(parts[0]), _local(parts[1]), interpolation.everywhere))
        self._part = backend.empty(parts[self._whole.index(True)].array_shape) if any(self._whole) else None

    def interpolate(self, source: Array, out: Array) -> None:
        backend, part = self.backend, self._part
        given, target = source, out
        if part is not None and self._whole[0]:
            assert self._source.halo is not None
            backend.note(source, part)
            backend.do(self._source.halo.taking(source, part))
            given = part
        else:
            self._source.need(source, min(CUBIC, self._source.width))
        if part is not None and self._whole[1]:
            assert self._target.halo is not None
            if not self.interpolation.everywhere:
                backend.do(self._target.halo.taking(out, part))  # fixed nodes keep their values
            target = part
        self._local.interpolate(given.values, target.values)
        if target is out:
            self._target.leave(out, 0)
            return
        assert self._target.halo is not None
        backend.note(out, target)
        backend.do(self._target.halo.gathering(target, out))
        out.valid = EVERYWHERE


@operations_on_ranks(Differences, "differences")
class DistributedDifferences(DifferenceOperations):
    """First derivatives at the nodes that a rank owns."""

    backend: DistributedBackend

    def __init__(self, backend: DistributedBackend, differences: Differences) -> None:
        super().__init__(backend, differences)
        self._lattice = Exchanging(backend, backend.halo_of(differences.lattice))
        self._local = backend.local.bind(differences)


class DistributedInverse(InverseOperations):
    """A direct solution on a part of a lattice, or on a whole one."""

    def __init__(self, backend: DistributedBackend, inverse: Inverse) -> None:
        self._lattice = Exchanging(backend, backend.halo_of(inverse.operator.lattice))
        self._local: InverseOperations | DistributedFastSolver
        if self._lattice.halo is None:
            self._local = backend.local.bind(Inverse(_local(inverse.operator), inverse.held))
        else:
            self._local = DistributedFastSolver(backend.local, _local(inverse.operator), backend.communicator)

    def solve(self, f: DividedArray, u: DividedArray) -> None:
        self._local.solve(f.values, u.values)
        for array in (f, u):
            self._lattice.leave(array, 0)


def _coefficients(operator: Operator) -> list[DividedArray]:
    return [array for array in (*(operator.links or ()), operator.reaction) if array is not None]


def _local(operator: Operator) -> Operator:
    """The operator as the local backend has it."""
    given = operator.coefficients
    if given is None:
        return operator
    links = None if given.links is None else tuple(array.values for array in given.links)
    return replace(operator, coefficients=replace(given, links=links, c=_values(given.c)))


def _plain(operator: Operator) -> Operator:
    """Without coefficients, where only the nodes count."""
    return replace(operator, coefficients=None)


def _coarse_part(fine: Lattice, coarse: Lattice) -> Lattice:
    """The part of a coarse lattice that belongs to one of a finer one."""
    return Lattice(tuple(_coarse_axis(*pair) for pair in zip(fine.axes, coarse.axes, strict=True)))


def _coarse_axis(fine: Axis, coarse: Axis) -> Axis:
    if fine.whole is None:
        return coarse
    if fine.whole.nodes == coarse.nodes:
        return fine
    assert fine.coarser is not None
    assert fine.coarser.undivided.nodes == coarse.nodes
    return fine.coarser


def _values(array: DividedArray | None) -> Array | None:
    return None if array is None else array.values


def _distributed(transfer: TransferOperations) -> DistributedTransfer:
    assert isinstance(transfer, DistributedTransfer)
    return transfer


class DistributedRows(RowOperations):
    """Rows of a sparse matrix at nodes that this process owns: beside those, nothing of what is written is right."""

    backend: DistributedBackend

    def __init__(self, backend: DistributedBackend, rows: SparseRows) -> None:
        super().__init__(backend, rows)
        self._lattice = Exchanging(backend, backend.halo_of(rows.lattice))
        self._local = backend.local.bind(rows)

    def replace_rows(self, x: Array, u: Array, out: Array) -> None:
        self._lattice.need(x, 0)
        self._lattice.need(u, 1)
        self._local.replace_rows(x.values, u.values, out.values)
        self._lattice.leave(out, 0)
