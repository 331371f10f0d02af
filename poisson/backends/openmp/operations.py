# SPDX-License-Identifier: MIT
"""The operations of the openmp backend: calls of the library, with the structures and tables that it reads.

A structure has addresses of arrays, so an object here keeps what it points to, and everything ends with it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from ctypes import byref, c_double, c_int32, c_int64
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from poisson.backends.base import Array, Operations, Reduction
from poisson.backends.callers import CallersArray
from poisson.backends.openmp.arrays import DeviceArray, DeviceResult, pitch_of
from poisson.backends.openmp.calls import operations_from_entries
from poisson.backends.openmp.library import DifferencesStructure, doubles, operator_structure
from poisson.backends.openmp.tables import AxisTables, tables_of
from poisson.backends.transfers import DifferenceOperations, InterpolationOperations, TransferOperations
from poisson.discrete.operator import Operator
from poisson.discrete.transfer import Interpolation, Transfer
from poisson.mesh.differences import Differences

if TYPE_CHECKING:
    from poisson.backends.openmp.backend import GivenArray, OpenmpBackend

Coarser = tuple[TransferOperations, Array]
Partner = tuple[Any, Any, int | None]
"""A pointer to the coarse operator, one to the tables, and the address of the array there."""
_NO_PARTNER: Partner | None = (None, None, None)


def _pointer(array: DeviceArray | DeviceResult | None) -> int | None:
    return array.pointer if array else None


def _structure(backend: OpenmpBackend, operator: Operator) -> Any:
    """A pointer to an operator as the library sees it."""
    pitch, tables = pitch_of(operator.shape[0]), tables_of(backend, operator)
    return byref(operator_structure(operator, pitch, backend.threads, tables))


@operations_from_entries(Operator)
class _Calls(Operations):
    """The operations of an operator, each a call of the library."""

    backend: OpenmpBackend

    def __init__(self, backend: OpenmpBackend, operator: Operator) -> None:
        super().__init__(backend, operator)
        self.functions = backend.functions
        self.structure = _structure(backend, operator)

    def rebind(self, operator: Operator) -> None:
        super().rebind(operator)
        self.structure = _structure(self.backend, operator)

    def depth(self) -> int:
        return int(self.functions.depth(self.structure))

    def smooth(
        self,
        u: Array | None,
        f: Array,
        out: Array,
        work: Array,
        omegas: Sequence[float],
        correction: Coarser | None = None,
        restriction: Coarser | None = None,
        result: Reduction | None = None,
        short_waves: float = 0.0,
    ) -> None:
        # On a small grid it would take longer to put the arguments together than to compute.
        above = below = _NO_PARTNER
        if correction:
            above = correction[0].prolonged(correction[1])  # type: ignore[attr-defined]  # of this backend
        if restriction:
            below = restriction[0].restricted(restriction[1])  # type: ignore[attr-defined]
        added = bool(short_waves) and not any(omegas[-1:])
        if above is None or below is None or added:
            super().smooth(u, f, out, work, omegas, correction, restriction, result, short_waves)
            return
        weights = doubles(len(omegas))(*omegas)
        self.functions.smooth(
            self.structure,
            *(_pointer(u), f.pointer, out.pointer, work.pointer),
            *(weights, len(omegas), *above, *below, _pointer(result), short_waves),
        )


class OpenmpOperations(_Calls):
    """The operations of an operator on the host."""

    def take(self, f: DeviceArray | GivenArray, out: DeviceArray, result: DeviceResult) -> None:
        super().take(f, out, result)
        if isinstance(f, CallersArray) and not math.isfinite(self.backend.read(result)[0]):
            f.refuse()

    def certify(self, u: DeviceArray, f: DeviceArray | GivenArray, work: DeviceArray, result: DeviceResult) -> None:
        if self.operator.has_one_diagonal:
            super().certify(u, f, work, result)
        else:
            Operations.certify(self, u, f, work, result)

    @property
    def widens(self) -> bool:
        return self.operator.has_one_diagonal


class OffloadedOperations(OpenmpOperations):
    """The operations of a library for a GPU, which has no functions for the memory of the host."""

    take, certify, widens = Operations.take, Operations.certify, Operations.widens

    def integrate(self, f: DeviceArray, work: DeviceArray | None, result: DeviceResult) -> None:
        from poisson.backends.numpy import NumpyOperations

        sums = np.zeros(2)
        NumpyOperations(self.backend, self.operator).integrate(self.backend.to_host(f), None, sums)
        result.put(sums)


class OpenmpTransfer(TransferOperations):
    """The operations between two grids; a table is made when it is needed first.

    `coarse`: a pointer to the coarse operator as the library sees it.
    """

    backend: OpenmpBackend

    def __init__(self, backend: OpenmpBackend, transfer: Transfer) -> None:
        super().__init__(backend, transfer)
        self.coarse = _structure(backend, transfer.coarse)
        self._operators = (_structure(backend, transfer.fine), self.coarse)
        self._collapses = transfer.collapses
        self._links: dict[int, AxisTables] = {}
        fine, coarse = transfer.fine.lattice.axes, transfer.coarse.lattice.axes
        self._down, self._up = list(zip(fine, coarse, strict=True)), list(zip(coarse, fine, strict=True))

    @cached_property
    def restriction(self) -> AxisTables:
        """By which coarse nodes gather from fine ones."""
        return AxisTables(self.backend, [axis.restrict for axis in self.transfer.axes], self._down, neighbours=True)

    @cached_property
    def prolongation(self) -> AxisTables:
        """By which fine nodes gather from coarse ones."""
        return AxisTables(self.backend, [axis.prolong for axis in self.transfer.axes], self._up)

    def prolonged(self, coarse: Array) -> Partner | None:
        """The argument by which a smoothing takes a correction from this array; None if it cannot."""
        return None if self._collapses else (self.coarse, self.prolongation.pointer, coarse.pointer)

    def restricted(self, coarse: Array) -> Partner | None:
        """The argument by which a smoothing restricts to this array; None if it cannot."""
        return None if self._collapses else (self.coarse, self.restriction.pointer, coarse.pointer)

    def restrict(self, fine: Array, coarse: Array) -> None:
        tables = self.restriction.pointer
        self.backend.functions.restrict(*self._operators, tables, fine.pointer, coarse.pointer)

    def prolong_add(self, coarse: Array, fine: Array) -> None:
        tables = self.prolongation.pointer
        self.backend.functions.prolong_add(*self._operators, tables, coarse.pointer, fine.pointer)

    def coarsen_links(self, axis: int, fine: Array, coarse: Array) -> None:
        if axis not in self._links:
            self._links[axis] = AxisTables(
                self.backend,
                [table.series if along == axis else table.mean for along, table in enumerate(self.transfer.axes)],
                self._down,
            )
        tables = self._links[axis].pointer
        self.backend.functions.coarsen_links(*self._operators, tables, axis, fine.pointer, coarse.pointer)


class OpenmpInterpolation(InterpolationOperations):
    """Interpolation by the tables of each axis."""

    backend: OpenmpBackend

    def __init__(self, backend: OpenmpBackend, interpolation: Interpolation) -> None:
        super().__init__(backend, interpolation)
        self._operators = (_structure(backend, interpolation.source), _structure(backend, interpolation.target))
        axes = interpolation.source.lattice.axes, interpolation.target.lattice.axes
        self._tables = AxisTables(backend, interpolation.axes, list(zip(*axes, strict=True)), cubics=True)

    def interpolate(self, source: Array, out: Array) -> None:
        operators, everywhere = self._operators, self.interpolation.everywhere
        self.backend.functions.interpolate(*operators, self._tables.pointer, everywhere, source.pointer, out.pointer)


@operations_from_entries(Differences)
class OpenmpDifferences(DifferenceOperations):
    """First derivatives with the weights in the library's memory."""

    backend: OpenmpBackend

    def __init__(self, backend: OpenmpBackend, differences: Differences) -> None:
        super().__init__(backend, differences)
        self.functions = backend.functions
        tables = (differences.weights(axis) for axis, has in enumerate(differences.tabulated) if has)
        flags = [wraps + 2 * has for wraps, has in zip(differences.periodic, differences.tabulated, strict=True)]
        plain = np.concatenate([differences.central, differences.closure.ravel()])
        rows = (np.pad(table, ((0, 0), (0, -table.shape[1] % 8))).ravel() for table in (plain[np.newaxis], *tables))
        weights = np.concatenate(list(rows))
        self._weights = backend.table(weights, np.dtype(np.float64))
        self.structure = byref(
            DifferencesStructure(
                dimension=differences.dimension,
                half=differences.half,
                wraps=(c_int32 * 3)(*flags),
                threads=backend.threads,
                shape=(c_int64 * 3)(*differences.shape, *(1,) * (3 - differences.dimension)),
                pitch=pitch_of(differences.shape[0]),
                scale=(c_double * 3)(*(1.0 / h for h in differences.spacing)),
                weights=self._weights.pointer,
            )
        )
