# SPDX-License-Identifier: MIT
"""The functions of the OpenMP library and their ctypes signatures; where the library is, and how it is loaded."""

import ctypes
import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from ctypes import POINTER, Structure, c_char_p, c_double, c_int32, c_int64, c_void_p
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from poisson.backends.openmp.levels import LEVELS, levels
from poisson.backends.operations import ALL, OperationSpec, Role
from poisson.backends.processors import run_time_was_loaded, short_waits, waiting_is_set
from poisson.discrete.clusters import Clusters
from poisson.discrete.full_stencil import FullStencil, StencilTransfer
from poisson.discrete.operator import Operator
from poisson.discrete.sparse_rows import SparseRows
from poisson.discrete.transfer import Interpolation, Transfer
from poisson.errors import BackendUnavailable, ResourceError
from poisson.mesh.differences import Differences

ABI_VERSION = 25
LIBRARY_NAME, STUDIES_NAME = "libpoisson.so", "libpoisson_studies.so"
DISTRIBUTION = "poisson-solver"
"""The name of the distribution, by which installed packages are looked for."""
LIBRARY_VARIABLE = "POISSON_LIBRARY"
"""An environment variable that names another build of the library, e.g. one for a GPU."""
MOST_OFFSETS = 13
"""The neighbours to which a full stencil stores links."""


class OperatorStructure(Structure):
    _fields_ = (
        ("dimension", c_int32),
        ("rule", c_int32 * 6),
        ("threads", c_int32),
        ("shape", c_int64 * 3),
        ("pitch", c_int64),
        ("weight", c_double * 3),
        ("c", c_double),
        ("diagonal", c_double),
        ("a", c_void_p * 3),
        ("c_values", c_void_p),
        ("halo", c_int64 * 4),
        ("first", c_int64 * 3),
        ("intervals", c_int64 * 3),
        ("tables", c_void_p),
        ("widths", c_void_p),
        ("masked", c_int32),
    )


class TransferStructure(Structure):
    _fields_ = (("index", c_void_p * 3), ("weight", c_void_p * 3), ("entries", c_int32 * 3), ("paired", c_void_p))


class DifferencesStructure(Structure):
    _fields_ = (
        ("dimension", c_int32),
        ("half", c_int32),
        ("wraps", c_int32 * 3),
        ("threads", c_int32),
        ("shape", c_int64 * 3),
        ("pitch", c_int64),
        ("scale", c_double * 3),
        ("weights", c_void_p),
    )


class StencilStructure(Structure):
    """A full stencil: poisson_stencil."""

    _fields_ = (
        ("lattice", OperatorStructure),
        ("offset", c_int32 * 3 * MOST_OFFSETS),
        ("offsets", c_int32),
        ("single", c_int32),
        ("coefficients", c_void_p),
        ("scales", c_void_p),
    )


class WeightedStructure(Structure):
    """A transfer by weights: poisson_weighted."""

    _fields_ = (
        ("fine", StencilStructure),
        ("coarse", StencilStructure),
        ("halved", c_int32 * 3),
        ("kind", c_int32),
        ("weights", c_void_p),
    )


class StaggeredStructure(Structure):
    """The cells of a staggered grid: poisson_staggered."""

    _fields_ = (
        ("dimension", c_int32),
        ("threads", c_int32),
        ("wraps", c_int32 * 3),
        ("shape", c_int64 * 3),
        ("widths", c_void_p * 3),
        ("slopes", c_void_p * 3),
    )


class ClustersStructure(Structure):
    """Groups of nodes: poisson_clusters."""

    _fields_ = (
        ("lattice", OperatorStructure),
        ("count", c_int64),
        *((name, c_void_p) for name in ("places", "starts", "factors")),
        ("levels", c_int64),
        *((name, c_void_p) for name in ("first", "visits", "entries", "columns", "links", "excess", "sweeps")),
        *((name, c_void_p) for name in ("groups", "members", "inverse", "values")),
        ("strips", c_int64),
        ("height", c_int64),
        *((name, c_void_p) for name in ("labels", "firsts", "guests", "hosts")),
    )


class RowsStructure(Structure):
    """Rows of a sparse matrix at a few nodes: poisson_rows."""

    _fields_ = (
        ("count", c_int64),
        *((name, c_void_p) for name in ("places", "starts", "beside", "weights", "own", "constant", "found")),
        ("threads", c_int32),
    )


class ConvolutionStructure(Structure):
    """A transform of any length: poisson_convolution."""

    _fields_ = (
        ("length", c_int64),
        ("padded", c_int64),
        ("radix", c_int32 * 32),
        ("roots", c_void_p),
        ("chirp", c_void_p),
        ("spectrum", c_void_p),
    )


class LineStructure(Structure):
    """The lines of an array along one axis: poisson_line."""

    _fields_ = (
        ("axis", c_int32),
        ("kind", c_int32),
        ("reversed", c_int32),
        ("radix", c_int32 * 32),
        ("length", c_int64),
        ("room", c_int64),
        ("roots", c_void_p),
        ("turns", c_void_p),
        ("order", c_void_p),
        ("convolution", POINTER(ConvolutionStructure)),
    )


class DirectStructure(Structure):
    """Transforms, and what solves for their modes: poisson_direct."""

    _fields_ = (
        ("lines", c_void_p),
        ("scales", c_void_p),
        ("spectra", c_void_p * 3),
        ("links", c_double * 6),
        ("transforms", c_int32),
        ("tridiagonal", c_int32),
    )


class FacesStructure(Structure):
    """Layers next to the ends of the axes: poisson_faces."""

    _fields_ = (("weights", c_void_p * 4), ("layers", c_void_p * 3), ("pitch", c_int64))


_LINE = POINTER(LineStructure)
_DIRECT = POINTER(DirectStructure)
_FACES = POINTER(FacesStructure)
_DIFFERENCES = POINTER(DifferencesStructure)
_OPERATOR = POINTER(OperatorStructure)
_TRANSFER = (_OPERATOR, _OPERATOR, POINTER(TransferStructure))
_STATUS = c_int32
Signatures = Mapping[str, tuple[Any, tuple[Any, ...]]]
# Name: (type of the result, types of the arguments). The names of operations get the suffix of their real type.
FUNCTIONS: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "abi_version": (c_int32, ()),
    "build": (c_char_p, ()),
    "devices": (c_int32, ()),
    "threads": (c_int32, (c_int32,)),
    "wait_shortly": (None, (c_int32,)),
    "allocate": (_STATUS, (c_int64, c_int64, c_int32, POINTER(c_void_p))),
    "release": (None, (c_void_p,)),
    "upload": (_STATUS, (c_void_p, c_int64, c_void_p, c_int64, c_int64, c_int32)),
    "download": (_STATUS, (c_void_p, c_int64, c_void_p, c_int64, c_int64, c_int32)),
    "result_bytes": (c_int64, ()),
    "solve_many": (_STATUS, (_OPERATOR, _DIRECT, c_int64, *(c_void_p,) * 5)),
    "read": (_STATUS, (c_void_p, c_double * 2)),
    "star": (_STATUS, (_OPERATOR, c_int32, c_int32, c_void_p, c_void_p, c_int32, c_void_p)),
    "find_parts": (_STATUS, (_OPERATOR, c_double, *(c_void_p,) * 3)),
    "round_weights": (_STATUS, (POINTER(WeightedStructure), c_void_p, c_void_p)),
    "find_clusters": (
        _STATUS,
        (POINTER(StencilStructure), *(c_double,) * 3, c_int64, *(c_void_p,) * 3, POINTER(c_int64)),
    ),
    "contract_clusters": (_STATUS, (POINTER(StencilStructure), c_int64, *(c_void_p,) * 6)),
    "aggregate_graph": (_STATUS, (c_int64, *(c_void_p,) * 10, POINTER(c_int64))),
}
OF_HOST = {
    *("solve_many", "transform", "to_modes", "from_modes", "divide", "tridiagonal", "condense", "chains"),
    *("to_faces", "add_faces", "round_weights"),
    *("divergence", "subtract_gradient", "find_clusters", "contract_clusters", "aggregate_graph", "find_parts", "star"),
    *("take", "integrate", "certify"),
}
OF_HOST |= {name for name, spec in ALL.items() if spec.subject in (FullStencil, StencilTransfer, Clusters)}
"""The functions that work on memory of the host, here and in the tables behind: a library for a GPU has none."""
NUMBERS = {"abi_version", "studies_abi_version", "devices", "threads", "depth"}
"""The functions whose integer is no status."""
_SUBJECTS: dict[type | None, tuple[Any, ...]] = {
    Operator: (_OPERATOR,),
    Transfer: _TRANSFER,
    Interpolation: (*_TRANSFER, c_int32),
    Differences: (_DIFFERENCES,),
    FullStencil: (POINTER(StencilStructure),),
    StencilTransfer: (POINTER(WeightedStructure),),
    Clusters: (POINTER(ClustersStructure),),
    SparseRows: (POINTER(RowsStructure),),
    None: (),
}
_ARGUMENTS: dict[Role, tuple[Any, ...]] = {
    **dict.fromkeys((Role.READ, Role.WRITTEN, Role.BOTH, Role.RESULT), (c_void_p,)),
    **dict.fromkeys((Role.AXIS, Role.COLOR, Role.FLAG), (c_int32,)),
    Role.NUMBER: (c_double,),
    Role.OMEGAS: (POINTER(c_double), c_int32),
    Role.OUTPUTS: (POINTER(c_void_p),),
    Role.MATRIX: (c_void_p, c_int64),
    Role.COEFFICIENTS: (c_void_p, c_int32),
    Role.COARSER: (_OPERATOR, POINTER(TransferStructure), c_void_p),
    Role.GIVEN: (c_void_p, c_int64, c_double, c_int32),
    Role.SPARE: (),
}


def signature(spec: OperationSpec) -> tuple[Any, ...]:
    """The types of the arguments of an operation's function: those of its subject, and then its own.

    Structures know the layout of arrays and the threads. Without a subject the array that is written is followed by its
    rows and pitch, and where there is a matrix, by its columns before these; the threads come last.
    """
    types = list(_SUBJECTS[spec.subject])
    plain, matrix = spec.subject is None, any(argument.role is Role.MATRIX for argument in spec.arguments)
    for argument in spec.arguments:
        types += _ARGUMENTS[argument.role]
        if plain and argument.role in (Role.WRITTEN, Role.BOTH):
            types += (c_int64,) * (3 if matrix else 2)
    return (*types, c_int32) if plain else tuple(types)


OPERATION_FUNCTIONS = {name: signature(spec) for name, spec in ALL.items() if spec.subject in _SUBJECTS}
"""The operations, with the suffix of their real type."""
TYPED_FUNCTIONS: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "transform": (_STATUS, (_OPERATOR, _LINE, c_int32, c_double, c_void_p)),
    "to_modes": (_STATUS, (_OPERATOR, _DIRECT, c_void_p, c_int64, c_double, c_void_p, c_void_p)),
    "from_modes": (_STATUS, (_OPERATOR, _DIRECT, c_void_p, c_void_p, c_int64, c_double, c_void_p)),
    "divide": (_STATUS, (_OPERATOR, *(c_void_p,) * 5)),
    "tridiagonal": (_STATUS, (_OPERATOR, *(c_void_p,) * 7)),
    "to_faces": (_STATUS, (_OPERATOR, c_void_p, c_void_p, _FACES, c_void_p)),
    "add_faces": (_STATUS, (_OPERATOR, c_void_p, c_void_p, _FACES, c_void_p)),
    "condense": (_STATUS, (_OPERATOR, *(c_void_p,) * 5)),
    "chains": (_STATUS, (_OPERATOR, c_int32, *(c_void_p,) * 7)),
    "divergence": (
        _STATUS,
        (POINTER(StaggeredStructure), c_double, c_int32, *(c_void_p,) * 4, c_int64, c_int64, c_void_p),
    ),
    "subtract_gradient": (
        _STATUS,
        (
            POINTER(StaggeredStructure),
            c_double,
            c_void_p,
            c_int64,
            c_int64,
            *(c_void_p,) * 6,
            c_int64,
            c_int64,
            c_void_p,
        ),
    ),
    "depth": (c_int32, (_OPERATOR,)),
}
"""Others, with the suffix of their real type."""
SUFFIXES = {np.dtype(np.float32): "f32", np.dtype(np.float64): "f64"}


def check(status: int, function: Any, arguments: tuple[Any, ...]) -> int:
    """Turn a poisson_status into an exception."""
    if status == 0:
        return status
    if status == 1:
        raise ResourceError(
            f"the openmp backend's device has too little memory ({function.__name__}): reduce domain.shape"
        )
    if status == 2:
        raise BackendUnavailable(
            "the OpenMP library was built for a GPU and finds no GPU: check the driver and OMP_TARGET_OFFLOAD, "
            f"or use a build for the host (unset {LIBRARY_VARIABLE}, or pip install again without POISSON_OFFLOAD_ARCH)"
        )
    raise RuntimeError(f"{function.__name__} failed with status {status}")


def library_path() -> Path | None:
    """Where the library is: what `LIBRARY_VARIABLE` names, beside this file, or where this package is installed.

    Of several for different instruction sets it is that of the best set that the processor has.
    """
    if named := os.environ.get(LIBRARY_VARIABLE):
        # As a relative path, ctypes would look for it in the system's folders.
        return Path(named).absolute()
    names = (LIBRARY_NAME, *(of_level(LIBRARY_NAME, level) for level in levels()))
    return next((path for folder in _folders() for name in names if (path := folder / name).exists()), None)


def _folders() -> Iterator[Path]:
    yield Path(__file__).parent
    # `python -m poisson` in a checkout imports the sources of the current folder, not what pip has built.
    from importlib import metadata  # which takes long, as does a look at what is installed

    with suppress(metadata.PackageNotFoundError):
        yield Path(str(metadata.distribution(DISTRIBUTION).locate_file("poisson/backends/openmp")))


def of_level(name: str, level: str) -> str:
    """The name of a library that is built for an instruction set, one of several."""
    return f"{name.removesuffix('.so')}_{level}.so"


def studies_path(library: Path) -> Path:
    """The library of measurements that belongs to a library."""
    beside = (of_level(STUDIES_NAME, level) for level in LEVELS if library.name == of_level(LIBRARY_NAME, level))
    return library.with_name(next(beside, STUDIES_NAME))


@cache
def load_library() -> ctypes.CDLL:
    """The library with the signatures of `FUNCTIONS` and the tables behind it.

    Raises `BackendUnavailable` if it was not built, cannot be loaded, is of another version, lacks functions, or finds
    no device.
    """
    path = library_path()
    if path is None:
        raise BackendUnavailable(
            "the OpenMP library was not built: install a C++ compiler (e.g. g++) and run pip install again"
        )
    too_late = run_time_was_loaded()
    try:
        with short_waits():
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
    operations = {name: (_STATUS, arguments) for name, arguments in OPERATION_FUNCTIONS.items()}
    for of_host in (False, True):
        if not (of_host and library.poisson_build().startswith(b"offload")):
            tables = (FUNCTIONS, operations | TYPED_FUNCTIONS)
            declare(library, path, *({name: of[name] for name in of if (name in OF_HOST) == of_host} for of in tables))
    if library.poisson_devices() < 1:
        check(2, library.poisson_devices, ())
    if not waiting_is_set():
        library.poisson_wait_shortly(too_late)
    return library


@cache
def doubles(count: int) -> type[ctypes.Array[c_double]]:
    """The type of so many numbers; ctypes would make one anew for each call."""
    return c_double * count


def declare(library: ctypes.CDLL, path: Path, plain: Signatures, typed: Signatures) -> None:
    """Tell ctypes the signatures of a library's functions; those of `typed` have the suffix of their real type.

    Raises `BackendUnavailable` if the library lacks one.
    """
    signatures = dict(plain)
    for name, signature in typed.items():
        signatures |= {f"{name}_{suffix}": signature for suffix in SUFFIXES.values()}
    for name, (result, arguments) in signatures.items():
        function = getattr(library, f"poisson_{name}", None)
        if function is None:
            raise BackendUnavailable(
                f"{path} lacks the function poisson_{name} of interface version {ABI_VERSION}: run pip install again"
            )
        function.restype = result
        function.argtypes = arguments
        if result is _STATUS and name.partition("_f")[0] not in NUMBERS:
            function.errcheck = check


@cache
def functions_of(library: ctypes.CDLL, dtype: np.dtype[Any]) -> SimpleNamespace:
    """The functions for a real type, by the names of the operations."""
    names = ((name, f"poisson_{name}_{SUFFIXES[dtype]}") for name in (*OPERATION_FUNCTIONS, *TYPED_FUNCTIONS))
    return SimpleNamespace(**{name: getattr(library, symbol) for name, symbol in names if hasattr(library, symbol)})


def operator_structure(
    operator: Operator, pitch: int, threads: int, tables: tuple[Any, Any] | None = None
) -> OperatorStructure:
    """An operator as the library sees it, for arrays whose rows are `pitch` values apart and so many threads.

    `tables` are those of `poisson.backends.openmp.tables.tables_of`, in the library's memory; they live as long as the
    structure.
    """
    links = [array.pointer for array in operator.links or ()]
    # A 2D region does not look at the z axis, but a target region wants a device address there.
    links += links[-1:] * (3 - len(links))
    axes = operator.lattice.axes
    structure = OperatorStructure(
        dimension=operator.dimension,
        rule=(c_int32 * 6)(*(int(rule) for rule in operator.rules)),
        threads=threads,
        shape=(c_int64 * 3)(*operator.shape, *(1,) * (3 - operator.dimension)),
        pitch=pitch,
        weight=(c_double * 3)(*operator.couplings),
        c=operator.c,
        diagonal=operator.diagonal if operator.has_one_diagonal else 0.0,
        a=(c_void_p * 3)(*links),
        c_values=None if operator.reaction is None else operator.reaction.pointer,
        halo=(c_int64 * 4)(*(width for axis in axes[1:] for width in axis.halo)),
        first=(c_int64 * 3)(*(axis.first for axis in axes)),
        intervals=(c_int64 * 3)(*(0 if axis.whole is None else axis.intervals for axis in axes)),
    )
    if tables:
        structure.tables, structure.widths = (table.pointer for table in tables)
        structure.masked = operator.fixed > 0
        structure.kept = tables
    return structure
