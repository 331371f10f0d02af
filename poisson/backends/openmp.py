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
from poisson.differences import Differences
from poisson.discretisation import Operator
from poisson.errors import BackendUnavailable, ResourceError
from poisson.grid import slabs
from poisson.transfer import Transfer

ABI_VERSION = 2
LIBRARY_NAME = "libpoisson.so"
LIBRARY_VARIABLE = "POISSON_LIBRARY"
"""An environment variable that names another build of the library, e.g. one for a GPU."""

ROUNDS = 512
"""Multiply-adds of a chain in the yardstick of arithmetic."""

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


class _Differences(Structure):
    _fields_ = (
        ("dimension", c_int32),
        ("half", c_int32),
        ("wraps", c_int32 * 3),
        ("shape", c_int64 * 3),
        ("pitch", c_int64),
        ("scale", c_double * 3),
        ("weights", c_void_p),
    )


_DIFFERENCES = POINTER(_Differences)
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
    "chains_f32": (c_int64, ()),
    "chains_f64": (c_int64, ()),
    "multiply_adds_f32": (_STATUS, (c_void_p, c_int64, c_int64, c_double, c_double)),
    "multiply_adds_f64": (_STATUS, (c_void_p, c_int64, c_int64, c_double, c_double)),
    "depth_f32": (c_int32, (_OPERATOR,)),
    "depth_f64": (c_int32, (_OPERATOR,)),
}
NUMBERS = {"abi_version", "devices", "set_threads", "depth_f32", "depth_f64"}
"""The functions whose integer is no status."""
OPERATION_FUNCTIONS: dict[str, tuple[Any, ...]] = {
    "laplacian": (_OPERATOR, c_void_p, c_void_p),
    "boundary_conditions": (_OPERATOR, c_void_p, c_void_p),
    "update": (_OPERATOR, c_void_p, c_void_p, c_void_p, c_void_p, c_double),
    "norm": (_OPERATOR, c_void_p, c_void_p),
    "sweep": (_OPERATOR, c_void_p, c_void_p, c_void_p, c_double, c_void_p),
    "sweeps": (_OPERATOR, c_void_p, c_void_p, c_void_p, c_double, c_int32, c_void_p),
    "residual": (_OPERATOR, c_void_p, c_void_p, c_void_p, c_void_p),
    "fill": (c_void_p, c_int64, c_int64, c_double),
    "axpby": (c_double, c_void_p, c_double, c_void_p, c_int64, c_int64),
    "dot": (_OPERATOR, c_void_p, c_void_p, c_void_p),
    "restrict": (_OPERATOR, _OPERATOR, POINTER(_Transfer), c_void_p, c_void_p),
    "prolong_add": (_OPERATOR, _OPERATOR, POINTER(_Transfer), c_void_p, c_void_p),
    "derivative": (_DIFFERENCES, c_int32, c_void_p, c_void_p),
    "gradient": (_DIFFERENCES, c_void_p, POINTER(c_void_p)),
}
STRUCTURED_FUNCTIONS: dict[str, tuple[Any, ...]] = {
    "structured_laplacian": (_OPERATOR, c_void_p, c_void_p),
    "structured_boundary_conditions": (_OPERATOR, c_void_p, c_void_p),
    "structured_update": (_OPERATOR, c_void_p, c_void_p, c_void_p, c_void_p, c_double),
    "structured_norm": (_OPERATOR, c_void_p, c_double * 2),
}
"""For measurements, with the suffix of their real type: `poisson.perf.benchmark.structured` calls them."""
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
    """The library with the signatures of `FUNCTIONS`, `OPERATION_FUNCTIONS` and `STRUCTURED_FUNCTIONS`.

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
    for name, arguments in (OPERATION_FUNCTIONS | STRUCTURED_FUNCTIONS).items():
        signatures |= {f"{name}_{suffix}": (_STATUS, arguments) for suffix in SUFFIXES.values()}
    for name, (result, arguments) in signatures.items():
        function = getattr(library, f"poisson_{name}")
        function.restype = result
        function.argtypes = arguments
        if result is _STATUS and name not in NUMBERS:
            function.errcheck = _check
    if library.poisson_devices() < 1:
        _check(2, library.poisson_devices, ())
    return library


def _pitch(values: int) -> int:
    """Values from the start of one row to the next in arrays with rows of `values`."""
    return -(-values // ROW_ALIGNMENT) * ROW_ALIGNMENT


def operator_structure(operator: Operator, pitch: int) -> _Operator:
    """An operator as the library sees it, for arrays whose rows are `pitch` values apart."""
    return _Operator(
        dimension=operator.dimension,
        rule=(c_int32 * 6)(*(int(rule) for rule in operator.rules)),
        shape=(c_int64 * 3)(*operator.shape, *(1,) * (3 - operator.dimension)),
        pitch=pitch,
        weight=(c_double * 3)(*operator.weights),
        c=operator.c,
        diagonal=operator.diagonal,
    )


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
        self.pitch = _pitch(shape[-1])
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
    yardstick = "triad"

    def __init__(self, dtype: np.dtype[Any] | type[np.floating[Any]], threads: int = 0) -> None:
        super().__init__(dtype)
        self._library = load_library()
        self.threads = int(self._library.poisson_set_threads(threads))
        build = self._library.poisson_build().decode()
        self._offloads = build.startswith("offload")
        self.device = f"OpenMP {build}" if self._offloads else f"CPU, {self.threads} threads, OpenMP {build}"
        suffix = SUFFIXES[self.dtype]
        self._call = {name: getattr(self._library, f"poisson_{name}_{suffix}") for name in OPERATION_FUNCTIONS}
        self._depth = getattr(self._library, f"poisson_depth_{suffix}")
        self._operators: dict[tuple[Operator, int], Any] = {}
        self._tables: dict[Transfer, tuple[_TransferTables, _TransferTables]] = {}
        self._differences: dict[tuple[Differences, int], tuple[DeviceArray, Any]] = {}

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

    def arithmetic(self, count: int) -> tuple[Callable[[], None], float]:
        suffix = SUFFIXES[self.dtype]
        chains = int(getattr(self._library, f"poisson_chains_{suffix}")())
        multiply_adds = getattr(self._library, f"poisson_multiply_adds_{suffix}")
        bundles = -(-count // (chains * ROUNDS))
        out = DeviceArray(self._library, (bundles,), self.dtype)

        def run() -> None:
            multiply_adds(out.pointer, bundles, ROUNDS, 0.5, 1.0)

        return run, 2.0 * chains * ROUNDS * bundles

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

    def update(self, operator: Operator, f: Array | None, au: Array, r: Array, u: Array, omega: float) -> None:
        pointers = (f.pointer if f else None, au.pointer, r.pointer, u.pointer)
        self._call["update"](self._operator(operator, u), *pointers, omega)

    def norm(self, operator: Operator, r: Array, result: Reduction) -> None:
        self._call["norm"](self._operator(operator, r), r.pointer, result.pointer)

    def sweep(
        self, operator: Operator, u: Array, f: Array | None, out: Array, omega: float, result: Reduction | None = None
    ) -> None:
        pointers = (u.pointer, f.pointer if f else None, out.pointer)
        norms = result.pointer if result else None
        self._call["sweep"](self._operator(operator, u), *pointers, omega, norms)

    def depth(self, operator: Operator) -> int:
        return int(self._depth(self._structure(operator, _pitch(operator.shape[0]))))

    def sweeps(
        self,
        operator: Operator,
        u: Array,
        f: Array | None,
        out: Array,
        omega: float,
        count: int,
        result: Reduction | None = None,
    ) -> None:
        pointers = (u.pointer, f.pointer if f else None, out.pointer)
        norms = result.pointer if result else None
        self._call["sweeps"](self._operator(operator, u), *pointers, omega, count, norms)

    def residual(
        self, operator: Operator, u: Array, f: Array | None, r: Array, result: Reduction | None = None
    ) -> None:
        pointers = (u.pointer, f.pointer if f else None, r.pointer)
        norms = result.pointer if result else None
        self._call["residual"](self._operator(operator, u), *pointers, norms)

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
            structure = _Differences(
                dimension=differences.dimension,
                half=differences.half,
                wraps=(c_int32 * 3)(*differences.periodic),
                shape=(c_int64 * 3)(*differences.shape, *(1,) * fill),
                pitch=array.pitch,
                scale=(c_double * 3)(*(1.0 / h for h in differences.spacing)),
                weights=table.pointer,
            )
            self._differences[key] = (table, byref(structure))
        return self._differences[key][1]

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
        return self._structure(operator, array.pitch)

    def _structure(self, operator: Operator, pitch: int) -> Any:
        key = (operator, pitch)
        if key not in self._operators:
            self._operators[key] = byref(operator_structure(operator, pitch))
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
        """A table in the library's memory."""
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
