# SPDX-License-Identifier: MIT
"""The operations of a distributed backend: those of the local one, each after the exchange that it needs.

What an operation needs of a halo, and what it leaves right of it, is counted in layers of nodes from the owned ones.
What an operation that looks at neighbours leaves in the outermost layer of a part has no meaning (`Rule.HALO`), so it
leaves one layer fewer than it was given.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar, cast

from poisson.backends.base import (
    Array,
    DifferenceOperations,
    FastSolver,
    InterpolationOperations,
    Operations,
    TransferOperations,
)
from poisson.discrete.transfer import Interpolation, Transfer
from poisson.mesh.lattice import Lattice
from poisson.parallel.arrays import EVERYWHERE, DividedArray, DividedResult
from poisson.parallel.fast import DistributedFastSolver

if TYPE_CHECKING:
    from poisson.backends.base import SlabSolver
    from poisson.discrete.operator import Operator
    from poisson.mesh.axis import Axis
    from poisson.mesh.differences import Differences
    from poisson.parallel.distributed import DistributedBackend
    from poisson.parallel.exchange import Halo

CUBIC = 2
"""Layers that a cubic gathers from."""


class _Exchanging:
    """The common part of operations on a lattice."""

    backend: DistributedBackend

    def __init__(self, backend: DistributedBackend, halo: Halo | None) -> None:
        self.backend = backend
        self.halo = halo

    @property
    def width(self) -> int:
        """Layers of the halo."""
        return EVERYWHERE if self.halo is None else self.halo.width

    def need(self, array: DividedArray | None, layers: int) -> int:
        """Make so many layers of an array right; returns how many are."""
        if array is None:
            return EVERYWHERE
        self.backend.note(array)
        if self.halo is None:
            return EVERYWHERE
        array.halo = self.halo
        if array.valid < layers:
            if layers > self.halo.width:
                raise ValueError(f"a halo of {self.halo.width} nodes where an operation needs {layers}")
            with self.backend.local.exchanging():
                self.backend.do(self.halo.filling(array))
            array.valid = EVERYWHERE
        return min(array.valid, self.halo.width)

    def beside(self) -> AbstractContextManager[Any]:
        """Within is one operation on the lattice, and before it what it needs; both go on together where they can."""
        if self.halo is None or not self.backend.communicator.on_device:
            return nullcontext()
        return self.backend.local.beside(math.prod(self.halo.lattice.shape))

    def leave(self, array: DividedArray, layers: int) -> None:
        """Note the layers of an array that are valid after an operation has written it."""
        self.backend.note(array)
        array.halo = self.halo
        array.valid = EVERYWHERE if self.halo is None else max(0, layers)

    def result(self, result: DividedResult | None) -> object:
        """The place for a reduction over the lattice."""
        if result is None:
            return None
        self.backend.note(result)
        result.divided = self.halo is not None
        return result.local


Operation = TypeVar("Operation", bound=Callable[..., None])


def _beside_exchanges(operation: Operation) -> Operation:
    """The operation of `DistributedOperations`, whose exchanges go on beside it."""

    @wraps(operation)
    def beside(self: DistributedOperations, *given: Any, **named: Any) -> None:
        with self._lattice.beside():
            operation(self, *given, **named)

    return cast(Operation, beside)


class DistributedOperations(Operations):
    """The operations of an operator on a part of a lattice, or on a whole one."""

    backend: DistributedBackend

    def __init__(self, backend: DistributedBackend, operator: Operator) -> None:
        super().__init__(backend, operator)
        self._lattice = _Exchanging(backend, backend.halo_of(operator.lattice))
        self._exchange_coefficients()
        self._local = backend.local.bind(_local(operator))
        # A pass is as deep on one rank as on any other, whatever is best for its part.
        depth = min(self._local.depth(), self._lattice.width)
        if self._lattice.halo is not None:
            depth = int(min(each for (each,) in backend.communicator.allgather([depth])))
        self._depth = depth
        # As at fixed nodes, nothing is solved for at the outermost ones: where a varies, their diagonal is not known.
        self._with_diagonal = self._lattice.width - (self._lattice.halo is not None)

    def rebind(self, operator: Operator) -> None:
        super().rebind(operator)
        self._exchange_coefficients()
        self._local.rebind(_local(operator))

    def _exchange_coefficients(self) -> None:
        for array in _coefficients(self.operator):
            self._lattice.need(array, self._lattice.width)

    def tuning(self) -> str:
        return self._local.tuning()

    # ---- the four stages

    def laplacian(self, u: Array, out: Array) -> None:
        self._local.laplacian(u.values, self._stencil(out, u))

    def boundary_conditions(self, u: Array, out: Array) -> None:
        # The other nodes are those of `laplacian`, with as many layers.
        layers = self._lattice.need(u, 1) - 1
        self._local.boundary_conditions(u.values, out.values)
        self._lattice.leave(out, layers)

    def update(self, f: Array | None, au: Array, r: Array, u: Array, omega: float) -> None:
        layers = min(*(self._lattice.need(array, 0) for array in (f, au, u)), self._with_diagonal)
        self._local.update(_values(f), au.values, r.values, u.values, omega)
        self._lattice.leave(r, layers)
        self._lattice.leave(u, layers)

    def norm(self, r: Array, result: DividedResult) -> None:
        self._lattice.need(r, 0)
        self._local.norm(r.values, self._lattice.result(result))

    # ---- in one pass

    @_beside_exchanges
    def sweep(self, u: Array, f: Array | None, out: Array, omega: float, result: DividedResult | None = None) -> None:
        self._local.sweep(u.values, _values(f), self._stencil(out, u, f), omega, self._lattice.result(result))

    def depth(self) -> int:
        return self._depth

    @_beside_exchanges
    def sweeps(
        self,
        u: Array,
        f: Array | None,
        out: Array,
        omegas: Sequence[float],
        result: DividedResult | None = None,
    ) -> None:
        target = self._stencil(out, u, f, stages=len(omegas))
        self._local.sweeps(u.values, _values(f), target, omegas, self._lattice.result(result))

    def color_sweep(self, u: Array, f: Array | None, color: int, omega: float) -> None:
        layers = min(self._lattice.need(u, 1), self._lattice.need(f, 0) + 1)
        # The local colours count from the first node of the part.
        first = sum(line.first for line in self.operator.lattice.axes)
        self._local.color_sweep(u.values, _values(f), (color + first) % 2, omega)
        self._lattice.leave(u, layers - 1)

    @_beside_exchanges
    def residual(self, u: Array, f: Array | None, r: Array, result: DividedResult | None = None) -> None:
        self._local.residual(u.values, _values(f), self._stencil(r, u, f), self._lattice.result(result))

    def dot(self, x: Array, y: Array, result: DividedResult) -> None:
        self._lattice.need(x, 0)
        self._lattice.need(y, 0)
        self._local.dot(x.values, y.values, self._lattice.result(result))

    # ---- of Krylov methods

    def diagonal_solve(self, r: Array, z: Array, omega: float, result: DividedResult | None = None) -> None:
        layers = min(self._lattice.need(r, 0), self._with_diagonal)
        self._local.diagonal_solve(r.values, z.values, omega, self._lattice.result(result))
        self._lattice.leave(z, layers)

    def direction(self, z: Array, beta: float, p: Array, out: Array, q: Array, result: DividedResult) -> None:
        before = self._lattice.need(p, 1) if beta else EVERYWHERE
        layers = min(self._lattice.need(z, 1), before)
        self._local.direction(z.values, beta, p.values, out.values, q.values, self._lattice.result(result))
        self._lattice.leave(out, layers)
        self._lattice.leave(q, layers - 1)

    def advance(self, alpha: float, p: Array, q: Array, u: Array, r: Array, result: DividedResult) -> None:
        of_u, of_r = (min(self._lattice.need(x, 0) for x in pair) for pair in ((p, u), (q, r)))
        arrays = (p.values, q.values, u.values, r.values)
        self._local.advance(alpha, *arrays, self._lattice.result(result))
        self._lattice.leave(u, of_u)
        self._lattice.leave(r, of_r)

    # ---- between precisions, and coefficients

    @_beside_exchanges
    def defect(self, u: Array, f: Array | None, factor: float, r: Array, result: DividedResult | None = None) -> None:
        self._local.defect(u.values, _values(f), factor, self._stencil(r, u, f), self._lattice.result(result))

    def links(self, axis: int, a: Array, harmonic: bool, out: Array) -> None:
        self._lattice.need(a, 1)
        self._local.links(axis, a.values, harmonic, out.values)
        self._lattice.leave(out, 0)

    # ---- half a level of multigrid

    @_beside_exchanges
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
    ) -> None:
        lattice = self._lattice
        sweeps = max(0, len(omegas) - (u is None))
        stages = sweeps + (restriction is not None or result is not None)
        down, up = (pair and _distributed(pair[0]) for pair in (restriction, correction))
        reach = down.reach if down else 0
        width = lattice.width if u is not None else self._with_diagonal
        too_narrow = stages + reach > width
        if too_narrow or (up and correction and up.layers(correction[1], stages + reach) < stages + reach):
            if not (restriction or result):
                super().smooth(u, f, out, work, omegas, correction)
                return
            # The residual by itself, so that what comes before may be one pass, which rounds otherwise than its parts.
            self.smooth(u, f, out, work, omegas, correction)
            self.residual(out, f, work, result)
            if restriction:
                restriction[0].restrict(work, restriction[1])
            return
        # Without u, the first sweep makes one of f, layer by layer.
        earlier = 0 if u is None else 1
        of_f = lattice.need(f, max(0, stages + reach - earlier)) + earlier
        layers = min(lattice.need(u, stages + reach), of_f, width)
        given = taken = None
        if up and correction:
            given, layers = (up.local, up.coarse_given(correction[1])), min(layers, up.layers(correction[1]))
        if down and restriction:
            taken = down.local, down.coarse_taken(restriction[1])
        local = (None if u is None else u.values, f.values, out.values, work.values, omegas)
        self._local.smooth(*local, given, taken, lattice.result(result))
        for array in (u, work):
            if array is not None:
                lattice.leave(array, 0)
        lattice.leave(out, layers - sweeps)
        if down and restriction:
            down.put_coarse(restriction[1], layers - sweeps - 1)

    def fast_solver(self) -> FastSolver:
        if self._lattice.halo is None:
            return _Divided(self._lattice, self._local.fast_solver())
        backend = self.backend
        return _Divided(self._lattice, DistributedFastSolver(backend.local, self._local.operator, backend.communicator))

    def slab_solver(self) -> SlabSolver:
        return self._local.slab_solver()

    def _stencil(self, out: DividedArray, u: DividedArray, f: DividedArray | None = None, stages: int = 1) -> Array:
        """Run an operation that reads neighbours so many times, once the halos that it reads are valid."""
        lattice = self._lattice
        layers = min(lattice.need(u, stages), lattice.need(f, stages - 1) + 1, lattice.width)
        lattice.leave(out, layers - stages)
        return out.values


class DistributedTransfer(TransferOperations):
    """Between two lattices that are divided alike, or from one to a coarse one that every rank has all of."""

    backend: DistributedBackend

    def __init__(self, backend: DistributedBackend, transfer: Transfer) -> None:
        super().__init__(backend, transfer)
        fine, coarse = transfer.fine.lattice, transfer.coarse.lattice
        self._gathers = fine.divided and not coarse.divided
        local = replace(transfer.coarse, lattice=_coarse_part(fine, coarse)) if self._gathers else transfer.coarse
        self._fine = _Exchanging(backend, backend.halo_of(fine))
        self._coarse = _Exchanging(backend, backend.halo_of(local.lattice))
        self.local = backend.local.bind(
            Transfer(_local(transfer.fine), _local(_plain(local) if self._gathers else local))
        )
        self._halves = transfer.halves is not None
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
        return 2 * right - 1 if self._halves else right - 1

    def _needed(self, wanted: int) -> int:
        """Coarse layers for so many fine ones, or all."""
        return min(self._coarse.width, 1 + (wanted // 2 if self._halves else wanted))

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
        self._source, self._target = (_Exchanging(backend, backend.halo_of(each.lattice)) for each in parts)
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


class DistributedDifferences(DifferenceOperations):
    """First derivatives at the nodes that a rank owns."""

    backend: DistributedBackend

    def __init__(self, backend: DistributedBackend, differences: Differences) -> None:
        super().__init__(backend, differences)
        self._lattice = _Exchanging(backend, backend.halo_of(differences.lattice))
        self._local = backend.local.bind(differences)

    def derivative(self, axis: int, u: Array, out: Array) -> None:
        self._lattice.need(u, min(self.differences.half, self._lattice.width))
        self._local.derivative(axis, u.values, out.values)
        self._lattice.leave(out, 0)

    def gradient(self, u: Array, outs: Sequence[Array]) -> None:
        self._lattice.need(u, min(self.differences.half, self._lattice.width))
        self._local.gradient(u.values, [out.values for out in outs])
        for out in outs:
            self._lattice.leave(out, 0)


class _Divided:
    """A direct solver on the arrays of ranks."""

    def __init__(self, lattice: _Exchanging, local: FastSolver) -> None:
        self._lattice = lattice
        self._local = local

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
