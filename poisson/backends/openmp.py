"""The OpenMP library through ctypes: the host's threads, or a GPU where it was built with an offloading compiler."""

from __future__ import annotations

import ctypes
import os
import weakref
from collections.abc import Callable, Sequence
from contextlib import suppress
from ctypes import POINTER, Structure, byref, c_char_p, c_double, c_int32, c_int64, c_void_p
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from poisson.backends.base import Array, Backend, Reduction, Slab
from poisson.backends.host import host_memory
from poisson.discretisation import Operator
from poisson.errors import BackendUnavailable, ResourceError
from poisson.grid import slabs
from poisson.transfer import Transfer

ABI_VERSION = 1
LIBRARY_NAME = "libpoisson.so"
LIBRARY_VARIABLE = "POISSON_LIBRARY"
"""An environment variable that names another build of the library, e.g. one for a GPU."""

ROW_ALIGNMENT = 16
"""Rows start at multiples of this many values: a cache line or two, so that SIMD loads are aligned alike on each."""


class _Operator(Structure):
    _fields_ = (
        ("dimension", c_int32),
        ("rule", c_int32 * 6),
        ("shape", c_int64 * 3),
        ("pitch", c_int64),
        ("weight", c_double * 3),
        ("c", c_double),
        ("diagonal", c_double),
    )


class _Transfer(Structure):
    _fields_ = (("index", c_void_p * 3), ("weight", c_void_p * 3))


_OPERATOR = POINTER(_Operator)
_STATUS = c_int32
# Name: (type of the result, types of the arguments). The names of operations get the suffix of their real type.
FUNCTIONS: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "abi_version": (c_int32, ()),
    "build": (c_char_p, ()),
    "devices": (c_int32, ()),
    "set_threads": (c_int32, (c_int32,)),
    "allocate": (_STATUS, (c_int64, c_int64, POINTER(c_void_p))),
    "release": (None, (c_void_p,)),
    "upload": (_STATUS, (c_void_p, c_int64, c_void_p, c_int64, c_int64)),
    "download": (_STATUS, (c_void_p, c_int64, c_void_p, c_int64, c_int64)),
    "result_bytes": (c_int64, ()),
    "read": (_STATUS, (c_void_p, c_double * 2)),
    "triad": (_STATUS, (c_void_p, c_void_p, c_void_p, c_double, c_int64)),
}
OPERATION_FUNCTIONS: dict[str, tuple[Any, ...]] = {
    "laplacian": (_OPERATOR, c_void_p, c_void_p),
    "boundary_conditions": (_OPERATOR, c_void_p, c_void_p),
    "update": (_OPERATOR, c_void_p, c_void_p, c_void_p, c_void_p, c_double),
    "norm": (_OPERATOR, c_void_p, c_void_p),
    "sweep": (_OPERATOR, c_void_p, c_void_p, c_void_p, c_double, c_void_p),
    "residual": (_OPERATOR, c_void_p, c_void_p, c_void_p, c_void_p),
    "fill": (c_void_p, c_int64, c_int64, c_double),
    "axpby": (c_double, c_void_p, c_double, c_void_p, c_int64, c_int64),
    "dot": (_OPERATOR, c_void_p, c_void_p, c_void_p),
    "restrict": (_OPERATOR, _OPERATOR, POINTER(_Transfer), c_void_p, c_void_p),
    "prolong_add": (_OPERATOR, _OPERATOR, POINTER(_Transfer), c_void_p, c_void_p),
}
SUFFIXES = {np.dtype(np.float32): "f32", np.dtype(np.float64): "f64"}


def _check(status: int, function: Any, arguments: tuple[Any, ...]) -> int:
    """Turn a poisson_status into an exception."""
    if status == 0:
        return status
    if status == 1:
        raise ResourceError(
            f"the openmp backend's device has too little memory ({function.__name__}): reduce domain.shape, or use "
            "run.precision = 'float32'"
        )
    if status == 2:
        raise BackendUnavailable(
            "the OpenMP library was built for a GPU and finds none: check the driver and OMP_TARGET_OFFLOAD, or use a "
            f"build for the host (unset {LIBRARY_VARIABLE}, or pip install again without POISSON_OFFLOAD_ARCH)"
        )
    raise RuntimeError(f"{function.__name__} failed with status {status}")


def library_path() -> Path | None:
    """Where the library is: what `LIBRARY_VARIABLE` names, beside this file, or where this package is installed."""
    if named := os.environ.get(LIBRARY_VARIABLE):
        return Path(named)
    places = [Path(__file__).with_name(LIBRARY_NAME)]
    with suppress(metadata.PackageNotFoundError):
        # `python -m poisson` in a checkout imports the sources of the current folder, not what pip has built.
        places.append(Path(str(metadata.distribution("poisson").locate_file(f"poisson/backends/{LIBRARY_NAME}"))))
    return next((place for place in places if place.exists()), None)


@cache
def load_library() -> ctypes.CDLL:
    """The library with the signatures of `FUNCTIONS` and `OPERATION_FUNCTIONS`.

    Raises
    ------
    BackendUnavailable
        If it was not built, cannot be loaded, is of another version, or finds no device.
    """
    path = library_path()
    if path is None:
        raise BackendUnavailable(
            "the OpenMP library was not built: install a C++ compiler (e.g. g++) and run pip install again"
        )
    try:
        library = ctypes.CDLL(str(path))
    except OSError as error:
        raise BackendUnavailable(f"the OpenMP library cannot be loaded: {error}") from error
    try:
        version = library.poisson_abi_version()
    except AttributeError:
        version = None
    if version != ABI_VERSION:
        raise BackendUnavailable(
            f"{path} has interface version {version}, this package needs {ABI_VERSION}: run pip install again"
        )
    signatures = dict(FUNCTIONS)
    for name, arguments in OPERATION_FUNCTIONS.items():
        signatures |= {f"{name}_{suffix}": (_STATUS, arguments) for suffix in SUFFIXES.values()}
    for name, (result, arguments) in signatures.items():
        function = getattr(library, f"poisson_{name}")
        function.restype = result
        function.argtypes = arguments
        if result is _STATUS and name not in ("abi_version", "devices", "set_threads"):
            function.errcheck = _check
    if library.poisson_devices() < 1:
        _check(2, library.poisson_devices, ())
    return library


class DeviceArray:
    """Rows of values in the library's memory, released with this object.

    Attributes
    ----------
    shape : tuple of int
        As the user sees it.
    pitch : int
        Values from the start of one row to the next.
    pointer : int
        Address on the device.
    """

    def __init__(self, library: ctypes.CDLL, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        self.shape = shape
        self.dtype = dtype
        self.rows = int(np.prod(shape[:-1], dtype=np.int64))
        self.pitch = -(-shape[-1] // ROW_ALIGNMENT) * ROW_ALIGNMENT
        self.pointer = _allocate(self, library, self.rows, self.pitch * dtype.itemsize)


class DeviceResult:
    """The result of a reduction in the library's memory, released with this object."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self.pointer = _allocate(self, library, 1, library.poisson_result_bytes())


def _allocate(owner: object, library: ctypes.CDLL, rows: int, row_bytes: int) -> int:
    memory = c_void_p()
    library.poisson_allocate(rows, row_bytes, byref(memory))
    weakref.finalize(owner, library.poisson_release, memory.value)
    return memory.value or 0


class OpenmpBackend(Backend):
    """Arrays are `DeviceArray`; operations are calls of the library, which return when they are done.

    Parameters
    ----------
    dtype : numpy dtype
        float32 or float64.
    threads : int
        Threads on the host; 0 takes all cores.
    """

    name = "openmp"

    def __init__(self, dtype: np.dtype[Any] | type[np.floating[Any]], threads: int = 0) -> None:
        super().__init__(dtype)
        self._library = load_library()
        self.threads = int(self._library.poisson_set_threads(threads))
        build = self._library.poisson_build().decode()
        self._offloads = build.startswith("offload")
        self.device = f"OpenMP {build}" if self._offloads else f"CPU, {self.threads} threads, OpenMP {build}"
        suffix = SUFFIXES[self.dtype]
        self._call = {name: getattr(self._library, f"poisson_{name}_{suffix}") for name in OPERATION_FUNCTIONS}
        self._operators: dict[tuple[Operator, int], Any] = {}
        self._tables: dict[Transfer, tuple[_TransferTables, _TransferTables]] = {}

    def empty(self, array_shape: tuple[int, ...]) -> DeviceArray:
        return DeviceArray(self._library, array_shape, self.dtype)

    def from_host(self, values: NDArray[Any]) -> DeviceArray:
        array = DeviceArray(self._library, values.shape, self.dtype)
        self._upload(array, values)
        return array

    def assemble(self, array_shape: tuple[int, ...], slab: Slab) -> DeviceArray:
        array = DeviceArray(self._library, array_shape, self.dtype)
        for start, stop in slabs(array_shape):
            self._upload(array, slab(np, start, stop), start)
        return array

    def to_host(self, array: DeviceArray) -> NDArray[Any]:
        values = np.empty(array.shape, dtype=array.dtype)
        row_bytes = array.shape[-1] * array.dtype.itemsize
        pitch_bytes = array.pitch * array.dtype.itemsize
        self._library.poisson_download(values.ctypes.data, row_bytes, array.pointer, pitch_bytes, array.rows)
        return values

    def synchronize(self) -> None:
        return None

    def memory(self) -> tuple[int, int] | None:
        return None if self._offloads else host_memory()

    def stream(self, count: int) -> tuple[Callable[[], None], float]:
        arrays = [DeviceArray(self._library, (count,), np.dtype(np.float64)) for _ in range(3)]
        pointers = [array.pointer for array in arrays]

        def triad() -> None:
            _ = arrays
            self._library.poisson_triad(*pointers, 0.5, count)

        return triad, 24.0 * count

    def reduction(self) -> DeviceResult:
        return DeviceResult(self._library)

    def read(self, result: DeviceResult) -> tuple[float, float]:
        values = (c_double * 2)()
        self._library.poisson_read(result.pointer, values)
        return values[0], values[1]

    def laplacian(self, operator: Operator, u: Array, out: Array) -> None:
        self._call["laplacian"](self._operator(operator, u), u.pointer, out.pointer)

    def boundary_conditions(self, operator: Operator, u: Array, out: Array) -> None:
        self._call["boundary_conditions"](self._operator(operator, u), u.pointer, out.pointer)

    def update(self, operator: Operator, f: Array, au: Array, r: Array, u: Array, omega: float) -> None:
        self._call["update"](self._operator(operator, u), f.pointer, au.pointer, r.pointer, u.pointer, omega)

    def norm(self, operator: Operator, r: Array, result: Reduction) -> None:
        self._call["norm"](self._operator(operator, r), r.pointer, result.pointer)

    def sweep(
        self, operator: Operator, u: Array, f: Array, out: Array, omega: float, result: Reduction | None = None
    ) -> None:
        norms = result.pointer if result else None
        self._call["sweep"](self._operator(operator, u), u.pointer, f.pointer, out.pointer, omega, norms)

    def residual(self, operator: Operator, u: Array, f: Array, r: Array, result: Reduction | None = None) -> None:
        norms = result.pointer if result else None
        self._call["residual"](self._operator(operator, u), u.pointer, f.pointer, r.pointer, norms)

    def fill(self, x: Array, value: float) -> None:
        self._call["fill"](x.pointer, x.rows, x.pitch, value)

    def axpby(self, a: float, x: Array, b: float, y: Array) -> None:
        self._call["axpby"](a, x.pointer, b, y.pointer, y.rows, y.pitch)

    def dot(self, operator: Operator, x: Array, y: Array, result: Reduction) -> None:
        self._call["dot"](self._operator(operator, x), x.pointer, y.pointer, result.pointer)

    def restrict(self, transfer: Transfer, fine: Array, coarse: Array) -> None:
        self._transfer("restrict", transfer, fine, coarse, fine, coarse)

    def prolong_add(self, transfer: Transfer, coarse: Array, fine: Array) -> None:
        self._transfer("prolong_add", transfer, fine, coarse, coarse, fine)

    def _transfer(self, name: str, transfer: Transfer, fine: Array, coarse: Array, source: Array, out: Array) -> None:
        if transfer not in self._tables:
            self._tables[transfer] = (
                _TransferTables(self, [(axis.restrict_index, axis.restrict_weight) for axis in transfer.axes]),
                _TransferTables(self, [(axis.prolong_index, axis.prolong_weight) for axis in transfer.axes]),
            )
        operators = (self._operator(transfer.fine, fine), self._operator(transfer.coarse, coarse))
        tables = self._tables[transfer][0 if name == "restrict" else 1].structure
        self._call[name](*operators, byref(tables), source.pointer, out.pointer)

    def _operator(self, operator: Operator, array: DeviceArray) -> Any:
        """A pointer to the operator as the library sees it, for arrays with the pitch of `array`."""
        key = (operator, array.pitch)
        if key not in self._operators:
            structure = _Operator(
                dimension=operator.dimension,
                rule=(c_int32 * 6)(*(int(rule) for rule in operator.rules)),
                shape=(c_int64 * 3)(*operator.shape, *(1,) * (3 - operator.dimension)),
                pitch=array.pitch,
                weight=(c_double * 3)(*operator.weights),
                c=operator.c,
                diagonal=operator.diagonal,
            )
            self._operators[key] = byref(structure)
        return self._operators[key]

    def _upload(self, array: DeviceArray, values: NDArray[Any], start: int = 0) -> None:
        """Copy values into an array, from index `start` of its first axis on."""
        rows = np.ascontiguousarray(values, dtype=array.dtype)
        row_bytes = array.shape[-1] * array.dtype.itemsize
        pitch_bytes = array.pitch * array.dtype.itemsize
        rows_each = array.rows // array.shape[0] if len(array.shape) > 1 else 1
        target = array.pointer + start * rows_each * pitch_bytes
        self._library.poisson_upload(target, pitch_bytes, rows.ctypes.data, row_bytes, rows.size // array.shape[-1])

    def table(self, values: NDArray[Any], dtype: np.dtype[Any]) -> DeviceArray:
        """A transfer table in the library's memory."""
        array = DeviceArray(self._library, (values.size,), dtype)
        self._upload(array, values.ravel())
        return array


class _TransferTables:
    """The tables of one direction in the library's memory, and the structure that points to them."""

    def __init__(self, backend: OpenmpBackend, axes: Sequence[tuple[NDArray[Any], NDArray[Any]]]) -> None:
        self._index = [backend.table(index, np.dtype(np.int32)) for index, _ in axes]
        self._weight = [backend.table(weight, np.dtype(np.float64)) for _, weight in axes]
        # A 2D region does not look at the z axis, but a target region wants a device address there.
        index = [table.pointer for table in (*self._index, self._index[-1])][:3]
        weight = [table.pointer for table in (*self._weight, self._weight[-1])][:3]
        self.structure = _Transfer(index=(c_void_p * 3)(*index), weight=(c_void_p * 3)(*weight))
