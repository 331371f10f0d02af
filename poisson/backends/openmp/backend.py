"""The OpenMP library through ctypes: the host's threads, or a GPU where it was built with an offloading compiler."""

from __future__ import annotations

import logging
import os
import weakref
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from ctypes import byref, c_double, c_int32, c_int64, c_void_p
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from poisson.backends.base import Array, Backend, FastSolver, Pace, Reduction, Slab
from poisson.backends.host import host_memory, keep_freed_blocks
from poisson.backends.openmp.arrays import DeviceArray, DeviceResult, Memory, pitch_of
from poisson.backends.openmp.library import (
    COMPOSITE_FUNCTIONS,
    OPERATION_FUNCTIONS,
    SUFFIXES,
    DifferencesStructure,
    TransferStructure,
    load_library,
    operator_structure,
)
from poisson.backends.openmp.transforms import TransformsInPlace, TransformsOfCopies
from poisson.backends.processors import default_threads
from poisson.discrete.operator import Coefficients, Operator
from poisson.discrete.transfer import Interpolation, Transfer
from poisson.errors import FORKED, BackendUnavailable
from poisson.mesh.differences import Differences
from poisson.mesh.grid import slabs

MOST_THREADS = 4096
"""Of a team; the library has no larger ones."""

LOADED_BY = os.getpid()
"""The process that loaded this module; others have it by a fork."""

ROUNDS = 512
"""Multiply-adds of a chain in the yardstick of arithmetic."""

HIGHEST_OF_THREAD = 2.1e10
"""Bytes a second of a thread on the host, for `Pace.highest`: arithmetic is the limit where a cache has the arrays."""

PROBE_OF_THREAD = 1 << 17
"""Values of a thread for `Pace.probe`: beyond its own caches, and quickly made."""

SMOOTHINGS = 512
"""Kinds of smoothing whose arguments are kept."""

log = logging.getLogger(__name__)


def _pointer(array: DeviceArray | DeviceResult | None) -> int | None:
    return array.pointer if array else None


class OpenmpBackend(Backend):
    """Arrays are `DeviceArray`; operations are calls of the library, which return when they are done.

    Parameters
    ----------
    dtype : numpy dtype
        float32 or float64.
    threads : int
        Threads on the host, at most 4096; 0 takes `poisson.backends.processors.default_threads`.
    """

    name = "openmp"
    yardstick = "triad"
    structured = True
    pace = Pace(cycle=9.0, transforms=9.0, call=4e-6, bandwidth=4e10)

    def __init__(self, dtype: np.dtype[Any] | type[np.floating[Any]], threads: int = 0) -> None:
        super().__init__(dtype)
        self._library = load_library()
        self.threads = self._threads_here(threads or default_threads())
        self._memory = Memory(self._library, self.threads)
        self._process = os.getpid()
        build = self._library.poisson_build().decode()
        self._offloads = build.startswith("offload")
        self.on_host = not self._offloads
        if not self._offloads:
            highest, probe = HIGHEST_OF_THREAD * self.threads, PROBE_OF_THREAD * self.threads
            self.pace = replace(self.pace, highest=highest, probe=probe)
        self._build = build
        self.device = self._described(self.threads)
        suffix = SUFFIXES[self.dtype]
        names = (*OPERATION_FUNCTIONS, *COMPOSITE_FUNCTIONS)
        self._call = {name: getattr(self._library, f"poisson_{name}_{suffix}") for name in names}
        self._depth = getattr(self._library, f"poisson_depth_{suffix}")
        # By what the library needs to know, not by the operators: these would keep their arrays alive.
        self._operators: dict[tuple[Any, ...], Any] = {}
        self._varying: weakref.WeakKeyDictionary[Coefficients, dict[tuple[Any, ...], Any]] = weakref.WeakKeyDictionary()
        self._tables: dict[tuple[Any, ...], _TransferTables] = {}
        self._smoothings: dict[tuple[Any, ...], _Smoothing] = {}
        self._companions: dict[np.dtype[Any], OpenmpBackend] = {self.dtype: self}
        self._differences: dict[tuple[Differences, int], tuple[DeviceArray, Any]] = {}

    def in_use(self) -> AbstractContextManager[Any]:
        if os.getpid() != self._process:
            if self._offloads:
                raise BackendUnavailable(FORKED)
            self._process = os.getpid()
            self.device = self._described(self._threads_here(self.threads))
        return super().in_use()

    def _described(self, threads: int) -> str:
        return f"OpenMP {self._build}" if self._offloads else f"CPU, {threads} threads, OpenMP {self._build}"

    def _threads_here(self, wanted: int) -> int:
        """How many of so many threads the calling thread can have."""
        threads = int(self._library.poisson_threads(wanted))
        if threads < min(wanted, MOST_THREADS):
            why = (
                "this process was forked from one that had solved; start it by 'spawn' for all threads"
                if os.getpid() != LOADED_BY
                else "OMP_THREAD_LIMIT, OMP_STACKSIZE, 'ulimit -u' or another limit leaves no room for more"
            )
            log.warning("the openmp backend runs on %d of %d threads: %s", threads, wanted, why)
        return threads

    def empty(self, array_shape: tuple[int, ...]) -> DeviceArray:
        return DeviceArray(self._memory, array_shape, self.dtype)

    def from_host(self, values: NDArray[Any]) -> DeviceArray:
        array = DeviceArray(self._memory, values.shape, self.dtype)
        self._upload(array, values)
        return array

    def assemble(self, array_shape: tuple[int, ...], slab: Slab, out: DeviceArray | None = None) -> DeviceArray:
        array = DeviceArray(self._memory, array_shape, self.dtype) if out is None else out
        keep_freed_blocks()
        for start, stop in slabs(array_shape):
            self._upload(array, slab(np, start, stop), start)
        return array

    def to_host(self, array: DeviceArray) -> NDArray[Any]:
        values = np.empty(array.shape, dtype=array.dtype)
        row_bytes = array.shape[-1] * array.dtype.itemsize
        pitch_bytes = array.pitch * array.dtype.itemsize
        self._library.poisson_download(
            values.ctypes.data, row_bytes, array.pointer, pitch_bytes, array.rows, self.threads
        )
        return values

    def synchronize(self) -> None:
        return None

    def memory(self) -> tuple[int, int] | None:
        return None if self._offloads else host_memory()

    def stream(self, count: int) -> tuple[Callable[[], None], float]:
        arrays = [DeviceArray(self._memory, (count,), np.dtype(np.float64)) for _ in range(3)]
        pointers = [array.pointer for array in arrays]

        def triad() -> None:
            _ = arrays
            self._library.poisson_triad(*pointers, 0.5, count, self.threads)

        return triad, 24.0 * count

    def arithmetic(self, count: int) -> tuple[Callable[[], None], float]:
        suffix = SUFFIXES[self.dtype]
        chains = int(getattr(self._library, f"poisson_chains_{suffix}")())
        multiply_adds = getattr(self._library, f"poisson_multiply_adds_{suffix}")
        bundles = -(-count // (chains * ROUNDS))
        out = DeviceArray(self._memory, (bundles,), self.dtype)

        def run() -> None:
            multiply_adds(out.pointer, bundles, ROUNDS, 0.5, 1.0, self.threads)

        return run, 2.0 * chains * ROUNDS * bundles

    def reduction(self) -> DeviceResult:
        return DeviceResult(self._memory)

    def read(self, result: DeviceResult) -> tuple[float, float]:
        values = (c_double * 2)()
        self._library.poisson_read(result.pointer, values)
        return values[0], values[1]

    def laplacian(self, operator: Operator, u: Array, out: Array) -> None:
        self._call["laplacian"](self._operator(operator, u), u.pointer, out.pointer)

    def boundary_conditions(self, operator: Operator, u: Array, out: Array) -> None:
        self._call["boundary_conditions"](self._operator(operator, u), u.pointer, out.pointer)

    def update(self, operator: Operator, f: Array | None, au: Array, r: Array, u: Array, omega: float) -> None:
        self._call["update"](self._operator(operator, u), _pointer(f), au.pointer, r.pointer, u.pointer, omega)

    def norm(self, operator: Operator, r: Array, result: Reduction) -> None:
        self._call["norm"](self._operator(operator, r), r.pointer, result.pointer)

    def sweep(
        self, operator: Operator, u: Array, f: Array | None, out: Array, omega: float, result: Reduction | None = None
    ) -> None:
        pointers = (u.pointer, _pointer(f), out.pointer)
        self._call["sweep"](self._operator(operator, u), *pointers, omega, _pointer(result))

    def depth(self, operator: Operator) -> int:
        return int(self._depth(self._structure(operator, pitch_of(operator.shape[0]))))

    def sweeps(
        self,
        operator: Operator,
        u: Array,
        f: Array | None,
        out: Array,
        weights: Sequence[float],
        result: Reduction | None = None,
    ) -> None:
        pointers = (u.pointer, _pointer(f), out.pointer)
        omegas = (c_double * len(weights))(*weights)
        self._call["sweeps"](self._operator(operator, u), *pointers, omegas, len(weights), _pointer(result))

    def color_sweep(self, operator: Operator, u: Array, f: Array | None, color: int, omega: float) -> None:
        self._call["color_sweep"](self._operator(operator, u), u.pointer, _pointer(f), color, omega)

    def residual(
        self, operator: Operator, u: Array, f: Array | None, r: Array, result: Reduction | None = None
    ) -> None:
        pointers = (u.pointer, _pointer(f), r.pointer)
        self._call["residual"](self._operator(operator, u), *pointers, _pointer(result))

    def fill(self, x: Array, value: float) -> None:
        self._call["fill"](x.pointer, x.rows, x.pitch, value, self.threads)

    def axpby(self, a: float, x: Array, b: float, y: Array) -> None:
        self._call["axpby"](a, x.pointer, b, y.pointer, y.rows, y.pitch, self.threads)

    def dot(self, operator: Operator, x: Array, y: Array, result: Reduction) -> None:
        self._call["dot"](self._operator(operator, x), x.pointer, y.pointer, result.pointer)

    def diagonal_solve(
        self, operator: Operator, r: Array, z: Array, omega: float, result: Reduction | None = None
    ) -> None:
        self._call["diagonal_solve"](self._operator(operator, r), r.pointer, z.pointer, omega, _pointer(result))

    def direction(
        self, operator: Operator, z: Array, beta: float, p: Array, out: Array, q: Array, result: Reduction
    ) -> None:
        pointers = (p.pointer, out.pointer, q.pointer, result.pointer)
        self._call["direction"](self._operator(operator, z), z.pointer, beta, *pointers)

    def advance(
        self, operator: Operator, alpha: float, p: Array, q: Array, u: Array, r: Array, result: Reduction
    ) -> None:
        pointers = (p.pointer, q.pointer, u.pointer, r.pointer, result.pointer)
        self._call["advance"](self._operator(operator, u), alpha, *pointers)

    def companion(self, dtype: np.dtype[Any] | type[np.floating[Any]]) -> Backend:
        wanted = np.dtype(dtype)
        if wanted not in self._companions:
            other = self._companions[wanted] = OpenmpBackend(wanted, self.threads)
            other._companions[self.dtype] = self
        return self._companions[wanted]

    def defect(
        self, operator: Operator, u: Array, f: Array | None, factor: float, r: Array, result: Reduction | None = None
    ) -> None:
        pointers = (u.pointer, _pointer(f))
        self._call["defect"](self._operator(operator, u), *pointers, factor, r.pointer, _pointer(result))

    def correct(self, factor: float, x: Array, y: Array) -> None:
        self._call["correct"](factor, x.pointer, y.pointer, y.rows, y.pitch, self.threads)

    def restrict(self, transfer: Transfer, fine: Array, coarse: Array) -> None:
        tables = self._transfer_tables("restrict", transfer)
        operators = (self._operator(transfer.fine, fine), self._operator(transfer.coarse, coarse))
        self._call["restrict"](*operators, tables, fine.pointer, coarse.pointer)

    def prolong_add(self, transfer: Transfer, coarse: Array, fine: Array) -> None:
        tables = self._transfer_tables("prolong", transfer)
        operators = (self._operator(transfer.fine, fine), self._operator(transfer.coarse, coarse))
        self._call["prolong_add"](*operators, tables, coarse.pointer, fine.pointer)

    def interpolate(self, interpolation: Interpolation, source: Array, out: Array) -> None:
        operators = (self._operator(interpolation.source, source), self._operator(interpolation.target, out))
        key = ("cubic", interpolation.source.shape, interpolation.target.shape, interpolation.source.rules)
        tables = self._axis_tables(key, lambda: interpolation.axes)
        self._call["interpolate"](*operators, tables, interpolation.everywhere, source.pointer, out.pointer)

    def edges(self, operator: Operator, axis: int, a: Array, harmonic: bool, out: Array) -> None:
        self._call["edges"](self._operator(operator, a), axis, a.pointer, harmonic, out.pointer)

    def coarsen_edges(self, transfer: Transfer, axis: int, fine: Array, coarse: Array) -> None:
        tables = self._transfer_tables("links", transfer, axis)
        operators = (self._operator(transfer.fine, fine), self._operator(transfer.coarse, coarse))
        self._call["coarsen_edges"](*operators, tables, axis, fine.pointer, coarse.pointer)

    def dense(self, matrix: Array, x: Array, y: Array) -> None:
        layout = (y.shape[-1], y.rows, y.pitch)
        self._call["dense"](matrix.pointer, matrix.pitch, x.pointer, y.pointer, *layout, self.threads)

    def smooth(
        self,
        operator: Operator,
        u: Array | None,
        f: Array,
        out: Array,
        work: Array,
        weights: Sequence[float],
        correction: tuple[Transfer, Array] | None = None,
        restriction: tuple[Transfer, Array] | None = None,
        result: Reduction | None = None,
    ) -> None:
        transfers = [partner[0] if partner else None for partner in (correction, restriction)]
        if any(transfer and transfer.collapses for transfer in transfers):
            super().smooth(operator, u, f, out, work, weights, correction, restriction, result)
            return
        # On a small grid it would take longer to put the arguments together than to compute.
        key = (id(operator), *map(id, transfers), *weights)
        known = self._smoothings.get(key)
        if known is None or not known.belongs(operator, *transfers):
            if len(self._smoothings) >= SMOOTHINGS:
                self._smoothings.clear()
            known = self._smoothings[key] = self._smoothing(operator, f, weights, transfers)
        self._call["smooth"](
            known.operator,
            *(_pointer(u), f.pointer, out.pointer, work.pointer),
            *(known.weights, len(weights)),
            *(*known.correction, correction[1].pointer if correction else None),
            *(*known.restriction, restriction[1].pointer if restriction else None),
            _pointer(result),
        )

    def _smoothing(
        self, operator: Operator, f: Array, weights: Sequence[float], transfers: Sequence[Transfer | None]
    ) -> _Smoothing:
        tables = [
            (
                self._structure(transfer.coarse, pitch_of(transfer.coarse.shape[0])),
                self._transfer_tables(name, transfer),
            )
            if transfer
            else (None, None)
            for name, transfer in zip(("prolong", "restrict"), transfers, strict=True)
        ]
        omegas = (c_double * len(weights))(*weights)
        owners = tuple(weakref.ref(owner) if owner else None for owner in (operator, *transfers))
        return _Smoothing(owners, self._operator(operator, f), omegas, tables[0], tables[1])

    def fast_solver(self, operator: Operator) -> FastSolver:
        if self._offloads:
            return TransformsOfCopies(self, operator, self._upload)
        return TransformsInPlace(self._library, operator, self.dtype, pitch_of(operator.shape[0]), self.threads)

    def derivative(self, differences: Differences, axis: int, u: Array, out: Array) -> None:
        self._call["derivative"](self._on_nodes(differences, u), axis, u.pointer, out.pointer)

    def gradient(self, differences: Differences, u: Array, outs: Sequence[Array]) -> None:
        pointers = (c_void_p * len(outs))(*(out.pointer for out in outs))
        self._call["gradient"](self._on_nodes(differences, u), u.pointer, pointers)

    def _on_nodes(self, differences: Differences, array: DeviceArray) -> Any:
        """A pointer to the differences as the library sees them, for arrays with the pitch of `array`."""
        key = (differences, array.pitch)
        if key not in self._differences:
            fill = 3 - differences.dimension
            weights = np.concatenate([differences.central, differences.closure.ravel()])
            table = self.table(weights, np.dtype(np.float64))
            structure = DifferencesStructure(
                dimension=differences.dimension,
                half=differences.half,
                wraps=(c_int32 * 3)(*differences.periodic),
                threads=self.threads,
                shape=(c_int64 * 3)(*differences.shape, *(1,) * fill),
                pitch=array.pitch,
                scale=(c_double * 3)(*(1.0 / h for h in differences.spacing)),
                weights=table.pointer,
            )
            self._differences[key] = (table, byref(structure))
        return self._differences[key][1]

    def _transfer_tables(self, name: str, transfer: Transfer, links_along: int | None = None) -> Any:
        """A pointer to the tables `name` of a transfer; those of links run along one axis in series."""
        key = (name, transfer.fine.shape, transfer.coarse.shape, transfer.fine.rules, links_along)

        def pairs() -> list[tuple[NDArray[Any], NDArray[Any]]]:
            kinds = [name if name != "links" else "series" if n == links_along else "mean" for n in range(3)]
            return [
                (getattr(axis, f"{kind}_index"), getattr(axis, f"{kind}_weight"))
                for kind, axis in zip(kinds, transfer.axes, strict=False)
            ]

        return self._axis_tables(key, pairs)

    def _axis_tables(self, key: tuple[Any, ...], pairs: Callable[[], Sequence[tuple[NDArray[Any], ...]]]) -> Any:
        if key not in self._tables:
            self._tables[key] = _TransferTables(self, pairs())
        return self._tables[key].pointer

    def _operator(self, operator: Operator, array: DeviceArray) -> Any:
        """A pointer to the operator as the library sees it, for arrays with the pitch of `array`."""
        return self._structure(operator, array.pitch)

    def _structure(self, operator: Operator, pitch: int) -> Any:
        known = self._operators
        if operator.coefficients:
            known = self._varying.setdefault(operator.coefficients, {})
        key = (operator.shape, operator.spacing, operator.a, operator.c, operator.rules, pitch)
        if key not in known:
            known[key] = byref(operator_structure(operator, pitch, self.threads))
        return known[key]

    def _upload(self, array: DeviceArray, values: NDArray[Any], start: int = 0) -> None:
        """Copy values into an array, from index `start` of its first axis on."""
        rows = np.ascontiguousarray(values, dtype=array.dtype)
        row_bytes = array.shape[-1] * array.dtype.itemsize
        pitch_bytes = array.pitch * array.dtype.itemsize
        rows_each = array.rows // array.shape[0] if len(array.shape) > 1 else 1
        target = array.pointer + start * rows_each * pitch_bytes
        count = rows.size // array.shape[-1]
        self._library.poisson_upload(target, pitch_bytes, rows.ctypes.data, row_bytes, count, self.threads)

    def table(self, values: NDArray[Any], dtype: np.dtype[Any]) -> DeviceArray:
        """A table in the library's memory."""
        array = DeviceArray(self._memory, (values.size,), dtype)
        self._upload(array, values.ravel())
        return array


class _Smoothing(NamedTuple):
    """The arguments of a smoothing that are the same for every array.

    Attributes
    ----------
    owners : tuple
        References to the operator and the transfers by whose identity this is known; they do not keep them alive.
    operator, weights : object
        A pointer to the operator, and the weights, as the library takes them.
    correction, restriction : tuple
        Pointers to the coarse operator and to the tables; of None where there are none.
    """

    owners: tuple[weakref.ref[Any] | None, ...]
    operator: Any
    weights: Any
    correction: tuple[Any, Any]
    restriction: tuple[Any, Any]

    def belongs(self, *owners: object) -> bool:
        """Whether these are the owners: another object may have the identity of one that is gone."""
        return all(known() is owner for known, owner in zip(self.owners, owners, strict=True) if known)


class _TransferTables:
    """Indices and weights for each axis in the library's memory, and a pointer to the structure that has them."""

    def __init__(self, backend: OpenmpBackend, axes: Sequence[tuple[NDArray[Any], ...]]) -> None:
        self._index = [backend.table(index, np.dtype(np.int32)) for index, _ in axes]
        self._weight = [backend.table(weight, np.dtype(np.float64)) for _, weight in axes]
        # A 2D region does not look at the z axis, but a target region wants a device address there.
        index = [table.pointer for table in (*self._index, self._index[-1])][:3]
        weight = [table.pointer for table in (*self._weight, self._weight[-1])][:3]
        self.pointer = byref(TransferStructure(index=(c_void_p * 3)(*index), weight=(c_void_p * 3)(*weight)))
