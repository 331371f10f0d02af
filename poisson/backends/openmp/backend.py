# SPDX-License-Identifier: MIT
"""The OpenMP library through ctypes: the host's threads, or a GPU where it was built with an offloading compiler."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from ctypes import c_double, c_int64, c_void_p
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from poisson.backends.base import Array, Backend, Slab
from poisson.backends.callers import CallersArray
from poisson.backends.host import host_memory, keep_freed_blocks
from poisson.backends.openmp.arrays import DeviceArray, DeviceResult, Memory, given, pitch_of
from poisson.backends.openmp.calls import operations_from_entries
from poisson.backends.openmp.library import functions_of, load_library, operator_structure
from poisson.backends.openmp.library_transforms import SlabInPlace, SlabOfCopies, TransformsInPlace, TransformsOfCopies
from poisson.backends.openmp.operations import (
    OffloadedOperations,
    OpenmpDifferences,
    OpenmpInterpolation,
    OpenmpOperations,
    OpenmpTransfer,
)
from poisson.backends.openmp.probe import OpenmpProbe
from poisson.backends.openmp.rows import OpenmpRows
from poisson.backends.openmp.stencils import OpenmpClusters, OpenmpStencil, OpenmpStencilTransfer
from poisson.backends.processors import default_threads
from poisson.discrete.clusters import Clusters
from poisson.discrete.full_stencil import FullStencil, StarTables, StencilTransfer
from poisson.discrete.inverse import DividedInverse, Inverse
from poisson.discrete.mask import Parts
from poisson.discrete.operator import FIXED, Operator
from poisson.discrete.sparse_rows import SparseRows
from poisson.discrete.transfer import Interpolation, Transfer
from poisson.errors import FORKED, BackendUnavailable
from poisson.mesh.differences import Differences
from poisson.mesh.grid import over_slabs
from poisson.words import quantity

if TYPE_CHECKING:
    from poisson.mesh.staggered import Staggered

MOST_THREADS = 4096
"""The most threads of a team; the library has no larger ones."""

LOADED_BY = os.getpid()
"""The process that loaded this module; others have it by a fork."""

log = logging.getLogger(__name__)


@operations_from_entries(None)
class OpenmpBackend(Backend):
    """Arrays are `DeviceArray`; operations are calls of the library, which return when they are done.

    `dtype` (numpy dtype): float32 or float64. `threads`: threads on the host, at most 4096; 0 takes
    `poisson.backends.processors.default_threads`.
    """

    name = "openmp"
    bound: Mapping[type, Callable[[Any, Any], Any]] = MappingProxyType(
        {
            Operator: OpenmpOperations,
            Transfer: OpenmpTransfer,
            Interpolation: OpenmpInterpolation,
            Differences: OpenmpDifferences,
            Inverse: TransformsInPlace,
            DividedInverse: SlabInPlace,
            FullStencil: OpenmpStencil,
            StencilTransfer: OpenmpStencilTransfer,
            Clusters: OpenmpClusters,
            SparseRows: OpenmpRows,
        }
    )

    def __init__(self, dtype: np.dtype[Any] | type[np.floating[Any]], threads: int = 0) -> None:
        super().__init__(dtype)
        self._library = load_library()
        self.threads = self._threads_here(threads or default_threads())
        self._memory = Memory(self._library, self.threads)
        self._process = os.getpid()
        build = self._library.poisson_build().decode()
        self.offloads = build.startswith("offload")
        self.on_host = self.views = not self.offloads
        if self.offloads:
            self.bound = OFFLOADED
        self._build = build
        self.device = self._described(self.threads)
        self.functions = functions_of(self._library, self.dtype)

    def in_use(self) -> AbstractContextManager[Any]:
        if os.getpid() != self._process:
            if self.offloads:
                raise BackendUnavailable(FORKED)
            self._process = os.getpid()
            self.device = self._described(self._threads_here(self.threads))
        return super().in_use()

    def _described(self, threads: int) -> str:
        return f"OpenMP {self._build}" if self.offloads else f"CPU, {quantity(threads, 'thread')}, OpenMP {self._build}"

    def _threads_here(self, wanted: int) -> int:
        """How many of so many threads the calling thread can have."""
        threads = int(self._library.poisson_threads(wanted))
        if threads < min(wanted, MOST_THREADS):
            why = (
                "this process was forked after a solve; start processes with the method 'spawn' to use all threads"
                if os.getpid() != LOADED_BY
                else "OMP_THREAD_LIMIT, OMP_STACKSIZE, 'ulimit -u' or another limit allows no more threads"
            )
            log.warning("the openmp backend runs on %d of %s: %s", threads, quantity(wanted, "thread"), why)
        return threads

    def empty(self, array_shape: tuple[int, ...]) -> DeviceArray:
        return self.array(array_shape, self.dtype)

    def array(self, array_shape: tuple[int, ...], dtype: np.dtype[Any]) -> DeviceArray:
        """An array of a type that need not be the backend's, whose values are not set."""
        return DeviceArray(self._memory, array_shape, dtype)

    def from_host(self, values: NDArray[Any]) -> DeviceArray:
        array = DeviceArray(self._memory, values.shape, self.dtype)
        self.upload(array, values)
        return array

    def assemble(self, array_shape: tuple[int, ...], slab: Slab, out: DeviceArray | None = None) -> DeviceArray:
        array = DeviceArray(self._memory, array_shape, self.dtype) if out is None else out
        keep_freed_blocks()

        def fill(start: int, stop: int) -> None:
            self.upload(array, slab(np, start, stop), start, threads=0 if self.offloads else 1)

        over_slabs(array_shape, fill, 1 if self.offloads else self.threads)
        return array

    def to_host(self, array: DeviceArray) -> NDArray[Any]:
        values = np.empty(array.shape, dtype=array.dtype)
        self.copy_to(array, values)
        return values

    def copy_to(self, array: DeviceArray, out: NDArray[Any]) -> None:
        if not out.flags.c_contiguous:
            out[...] = self.to_host(array) if self.offloads else given(array)
            return
        row_bytes = array.shape[-1] * array.dtype.itemsize
        pitch_bytes = array.pitch * array.dtype.itemsize
        self._library.poisson_download(out.ctypes.data, row_bytes, array.pointer, pitch_bytes, array.rows, self.threads)

    def view(self, array: DeviceArray) -> NDArray[Any]:
        if self.offloads:
            raise BackendUnavailable(
                "the openmp backend on a GPU does not solve on several ranks: use run.backend = 'gpu', or a library "
                "for the threads of the CPU"
            )
        return array.on_host

    def in_place(self, values: NDArray[Any], refuse: Callable[[], object]) -> GivenArray | None:
        pitch = 0 if self.offloads else pitch_in(values)
        return GivenArray(values, refuse, pitch) if pitch else None

    def give(self, array: DeviceArray, back: Callable[[Array], None]) -> NDArray[Any] | None:
        return None if self.offloads else given(array, back)

    def synchronize(self) -> None:
        return None

    def memory(self) -> tuple[int, int] | None:
        return None if self.offloads else host_memory()

    def probe(self) -> OpenmpProbe:
        return OpenmpProbe(self)

    def reduction(self) -> DeviceResult:
        return DeviceResult(self._memory)

    def read(self, result: DeviceResult) -> tuple[float, float]:
        values = (c_double * 2)()
        self._library.poisson_read(result.pointer, values)
        return values[0], values[1]

    def companion(self, dtype: np.dtype[Any] | type[np.floating[Any]]) -> Backend:
        return self if np.dtype(dtype) == self.dtype else type(self)(dtype, self.threads)

    def upload(self, array: DeviceArray, values: NDArray[Any], start: int = 0, threads: int = 0) -> None:
        """Copy values into an array, from index `start` of its first axis on, by the backend's threads or so many."""
        rows = np.ascontiguousarray(values, dtype=array.dtype)
        row_bytes = array.shape[-1] * array.dtype.itemsize
        pitch_bytes = array.pitch * array.dtype.itemsize
        rows_each = array.rows // array.shape[0] if len(array.shape) > 1 else 1
        target = array.pointer + start * rows_each * pitch_bytes
        count = rows.size // array.shape[-1]
        self._library.poisson_upload(target, pitch_bytes, rows.ctypes.data, row_bytes, count, threads or self.threads)

    def parts(self, operator: Operator, c: DeviceArray) -> Parts | None:
        if self.offloads:
            return None
        counts, ends = (c_int64 * 3)(), (c_double * 3)()
        assert operator.coefficients is not None
        links = replace(operator, coefficients=replace(operator.coefficients, c=None))
        structure = operator_structure(links, c.pitch, self.threads)
        self._library.poisson_find_parts(structure, FIXED, c.pointer, counts, ends)
        alone, loose, held = counts
        return Parts(alone, loose, held, ends[0], (ends[1], ends[2]))

    def star(self, operator: Operator, out: DeviceArray) -> bool:
        if self.offloads:
            return False
        structure = operator_structure(operator, pitch_of(operator.shape[0]), self.threads)
        tables = [StarTables.of(operator, axis) for axis in range(operator.dimension)]
        rows = [np.concatenate([each.flows, each.widths, each.walls]) for each in tables]
        numbers = [each.numbers for each in tables]
        places = (c_void_p * 3)(*(each.ctypes.data for each in rows))
        links = (c_void_p * 3)(*(None if each is None else each.ctypes.data for each in numbers))
        single = self.dtype == np.float32, operator.fixed > 0
        self._library.poisson_star(structure, *single, places, links, out.dtype == np.float32, out.pointer)
        return True

    def staggered(self, cells: Staggered) -> Any:
        from poisson.backends.openmp.staggered import OpenmpStaggered

        return None if self.offloads else OpenmpStaggered(self, cells)

    def table(self, values: NDArray[Any], dtype: np.dtype[Any]) -> DeviceArray:
        """A table in the library's memory."""
        array = DeviceArray(self._memory, (values.size,), dtype)
        self.upload(array, values.ravel())
        return array


class GivenArray(CallersArray):
    """Values in the memory of the caller, with the pitch that `pitch_in` finds.

    `pointer`: address of the first value. `pitch`, `double`: as of `DeviceArray`.
    """

    double = True

    def __init__(self, values: NDArray[np.float64], refuse: Callable[[], object], pitch: int) -> None:
        self.values, self.refuse = values, refuse
        self.pointer, self.pitch = values.ctypes.data, pitch


def pitch_in(values: NDArray[Any]) -> int:
    """Values from the start of one row to the next, of an array of float64 rows one distance apart; 0 of any other."""
    plain = values.dtype == np.float64 and values.dtype.isnative and values.flags.aligned and values.size > 0
    if not plain or values.strides[-1] != values.itemsize:
        return 0
    if values.flags.c_contiguous:
        return int(values.shape[-1])
    strides = [stride for nodes, stride in zip(values.shape[:-1], values.strides[:-1], strict=True) if nodes > 1]
    pitch = strides[-1] // values.itemsize if strides else values.shape[-1]
    if pitch < values.shape[-1]:
        return 0
    step = values.itemsize * pitch
    for nodes, stride in zip(values.shape[-2::-1], values.strides[-2::-1], strict=True):
        if nodes > 1 and stride != step:
            return 0
        step *= nodes
    return int(pitch)


OF_HOST = (FullStencil, StencilTransfer, Clusters)
OFFLOADED: Mapping[type, Callable[[Any, Any], Any]] = MappingProxyType(
    {
        **{kind: made for kind, made in OpenmpBackend.bound.items() if kind not in OF_HOST},
        Operator: OffloadedOperations,
        Inverse: TransformsOfCopies,
        DividedInverse: SlabOfCopies,
    }
)
"""The operations of a library for a GPU, by their subjects."""
