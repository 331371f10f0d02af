# SPDX-License-Identifier: MIT
"""`OPERATIONS` against all that carries its names: methods, ctypes signatures, C prototypes, symbols, kernels.

Covers poisson.backends.openmp.calls.
"""

import ctypes
import inspect
import re
import shutil
import subprocess
from ctypes import POINTER, c_char_p, c_double, c_int32, c_int64, c_void_p
from pathlib import Path
from typing import Any

import pytest
from support.places import ROOT

from poisson import kernels
from poisson.backends.base import Backend, Operations
from poisson.backends.gpu.backend import GpuBackend
from poisson.backends.inverses import DividedInverseOperations, InverseOperations
from poisson.backends.numpy import NumpyBackend
from poisson.backends.openmp import library as openmp_library
from poisson.backends.openmp.backend import OpenmpBackend
from poisson.backends.openmp.library import (
    FUNCTIONS,
    OPERATION_FUNCTIONS,
    SUFFIXES,
    TYPED_FUNCTIONS,
    ClustersStructure,
    ConvolutionStructure,
    DifferencesStructure,
    DirectStructure,
    FacesStructure,
    LineStructure,
    OperatorStructure,
    RowsStructure,
    Signatures,
    StaggeredStructure,
    StencilStructure,
    TransferStructure,
    WeightedStructure,
)
from poisson.backends.openmp.studies import STUDIES, TYPED_STUDIES
from poisson.backends.operations import ALL, DIRECT, OPERATIONS, Role, operations_of
from poisson.backends.rows import RowOperations
from poisson.backends.stencils import ClusterOperations, StencilOperations, StencilTransferOperations
from poisson.backends.transfers import DifferenceOperations, InterpolationOperations, TransferOperations
from poisson.discrete.clusters import Clusters
from poisson.discrete.full_stencil import FullStencil, StencilTransfer
from poisson.discrete.inverse import DividedInverse, Inverse
from poisson.discrete.operator import Operator
from poisson.discrete.sparse_rows import SparseRows
from poisson.discrete.transfer import Interpolation, Transfer
from poisson.mesh.differences import Differences

HEADER = (ROOT / "native" / "poisson.h").read_text("utf-8")
STUDIES_HEADER = (ROOT / "native" / "studies" / "studies.h").read_text("utf-8")

BOUND = {
    Operator: Operations,
    Transfer: TransferOperations,
    Interpolation: InterpolationOperations,
    Differences: DifferenceOperations,
    FullStencil: StencilOperations,
    StencilTransfer: StencilTransferOperations,
    Clusters: ClusterOperations,
    SparseRows: RowOperations,
    Inverse: InverseOperations,
    DividedInverse: DividedInverseOperations,
    None: Backend,
}
"""Where the operations of each subject are declared."""

OTHER_METHODS = {
    Backend: {
        *("empty", "from_host", "to_host", "assemble", "synchronize", "memory", "probe"),
        *("reduction", "read", "companion"),
    },
    Operations: {"depth"},
}
"""The abstract methods that are no operations: memory, what is measured, the results of reductions, other backends;
sweeps in a pass."""
FURTHER_METHODS = {
    Backend: {"capture", "mark", "seconds", "bind", "prepare", "prepared", "brought", "cell"},
    Operations: {"tuning"},
    StencilOperations: {"mean_links", "median_links", "search"},
    ClusterOperations: {"residual"},
}
"""Those that a backend need not have of its own."""

FURTHER_KERNELS = {
    *("sweep_norm", "sweeps_norm", "residual_norm", "defect_norm", "diagonal_solve_dot", "derivative_pencil"),
    *("smooth", "smooth_norm", "two_sweeps", "interpolate_gather", "take", "certify", "residual_at"),
    *("stencil_residual_at", "cell_source", "cell_energies"),
    *("stencil_residual_norm", "stencil_sweep_norm", "stencil_diagonal_solve_dot", "clusters_add", "rows_put"),
    *(
        "clusters_roots",
        "clusters_begin",
        "clusters_join",
        "clusters_label",
        "clusters_collect",
        "clusters_start",
        "clusters_divide",
    ),
    *(
        "clusters_hold",
        "clusters_sum",
        "clusters_spread",
        "links_logarithms",
        "clusters_number",
        "clusters_entries",
        "clusters_links",
        "clusters_excess",
        "clusters_apart",
        "clusters_large",
        "graph_none",
        "graph_heads",
        "graph_rows",
        "graph_largest",
        "graph_beside",
        "graph_begin",
        "graph_near",
        "graph_choose",
        "graph_join",
        "graph_follow",
        "graph_members",
        "graph_entries",
        "graph_links",
        "graph_table",
        "graph_parents",
        "graph_step",
        "graph_visits",
        "links_median",
        "parts_begin",
        "parts_join",
        "parts_settle",
        "parts_hold",
        "parts_mask",
        "star",
        "rough",
    ),
    *("transform", "transform_gather", "transform_scatter", "transform_boundary", "tridiagonal"),
    *("slab_condense", "slab_expand", "along_radius", "divergence", "subtract_gradient"),
    *("face_take", "face_charges", "face_products", "face_fields"),
}
"""Kernels without an operation of their own: passes with a reduction, other variants, half a level, sources, residuals
at some nodes, periodic cells, fast transforms and the systems that they leave, staggered grids, open faces."""


def arguments_of(function: Any) -> tuple[str, ...]:
    return tuple(inspect.signature(function).parameters)


# ---- methods
def kind_of(backend: type[Backend], subject: type | None) -> Any:
    """The class of a backend that has the operations of a subject."""
    return backend if subject is None else backend.bound[subject]


def has(backend: type[Backend], subject: type | None) -> bool:
    """Whether a backend has the operations of a subject."""
    return subject is None or subject in backend.bound


@pytest.mark.parametrize("subject", BOUND)
def test_the_operations_are_the_abstract_methods(subject: type | None) -> None:
    own = {spec.method for spec in (OPERATIONS | DIRECT).values() if spec.subject is subject}
    assert set(BOUND[subject].__abstractmethods__) == own | OTHER_METHODS.get(BOUND[subject], set())


@pytest.mark.parametrize("backend", [None, NumpyBackend, OpenmpBackend, GpuBackend])
def test_every_backend_has_the_operations_with_their_arguments(backend: type[Backend] | None) -> None:
    for subject, declared in BOUND.items():
        if backend is None or has(backend, subject):
            found = declared if backend is None else kind_of(backend, subject)
            for name, spec in operations_of(subject).items():
                assert arguments_of(getattr(found, name))[1:] == spec.names
                assert inspect.getdoc(getattr(declared, name))


@pytest.mark.parametrize("backend", [NumpyBackend, OpenmpBackend, GpuBackend])
def test_the_other_methods_of_the_backends_agree_too(backend: type[Backend]) -> None:
    assert set(backend.bound) | {FullStencil, StencilTransfer, Clusters} >= set(BOUND) - {None}
    for subject, declared in BOUND.items():
        for name in OTHER_METHODS.get(declared, set()) | FURTHER_METHODS.get(declared, set()):
            found = getattr(kind_of(backend, subject), name)
            assert arguments_of(found) == arguments_of(getattr(declared, name)), name


# ---- kernels
def test_every_operation_is_one_kernel() -> None:
    texts = [kernels.source(name) for name in kernels.SOURCES]
    declared = [name for text in texts for name in re.findall(r"^KERNEL poisson_(\w+)\(", text, re.MULTILINE)]
    assert len(declared) == len(set(declared))
    own = {name for name, spec in OPERATIONS.items() if has(GpuBackend, spec.subject)}
    assert set(declared) == own | FURTHER_KERNELS


def test_kernels_that_are_only_measured_are_no_operations() -> None:
    texts = [kernels.source(name) for name in kernels.STUDIES]
    declared = [name for text in texts for name in re.findall(r"^[A-Z]+ poisson_(\w+)\(", text, re.MULTILINE)]
    assert declared and set(declared) & (set(OPERATIONS) | FURTHER_KERNELS) == set()
    assert set(kernels.STUDIES) & set(kernels.SOURCES) == set()


# ---- the C interface
def without_comments(text: str) -> str:
    return re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)


def prototypes(header: str = HEADER) -> dict[str, tuple[str, list[tuple[str, str]]]]:
    """Every prototype of a header: its name without poisson_, its result, the types and names of its arguments."""
    text = without_comments(header)
    macros = list(re.finditer(r"#define POISSON_\w+\(real, suffix\)(.*?[^\\])\n", text, re.DOTALL))
    assert macros
    for macro in macros:
        once = macro[1].replace("\\\n", " ")
        for real, suffix in (("float", "f32"), ("double", "f64")):
            text += once.replace("##suffix", suffix).replace("real", real)
        text = text.replace(macro[0], "")
    found = {}
    for result, name, arguments in re.findall(r"(\w[\w ]*\*? ?)poisson_(\w+)\(([^()]*)\);", text):
        pairs = [re.fullmatch(r"\s*(.+?)\s*(\w+)\s*", item, re.DOTALL) for item in arguments.split(",")]
        pairs = [] if arguments.strip() == "void" else pairs
        found[name] = (result.strip(), [(pair[1], pair[2]) for pair in pairs if pair is not None])
    return found


def with_suffixes(plain: Signatures, typed: Signatures) -> dict[str, tuple[Any, tuple[Any, ...]]]:
    return {**plain, **{f"{name}_{suffix}": typed[name] for name in typed for suffix in SUFFIXES.values()}}


def signatures() -> dict[str, tuple[Any, tuple[Any, ...]]]:
    """What ctypes is told, by the names of the prototypes."""
    operations = {name: (c_int32, arguments) for name, arguments in OPERATION_FUNCTIONS.items()}
    return with_suffixes(FUNCTIONS, operations | TYPED_FUNCTIONS)


LIBRARIES = [
    pytest.param(openmp_library.LIBRARY_NAME, HEADER, signatures(), id="library"),
    pytest.param(openmp_library.STUDIES_NAME, STUDIES_HEADER, with_suffixes(STUDIES, TYPED_STUDIES), id="studies"),
]
"""The libraries: their files, their headers, and what ctypes is told of them."""


RESULTS = {"poisson_status": c_int32, "int32_t": c_int32, "int64_t": c_int64, "const char*": c_char_p, "void": None}
SCALARS = {"int32_t": c_int32, "int64_t": c_int64, "double": c_double}
STRUCTURES: dict[str, type[ctypes.Structure]] = {
    "poisson_operator": OperatorStructure,
    "poisson_transfer": TransferStructure,
    "poisson_differences": DifferencesStructure,
    "poisson_convolution": ConvolutionStructure,
    "poisson_line": LineStructure,
    "poisson_direct": DirectStructure,
    "poisson_faces": FacesStructure,
    "poisson_stencil": StencilStructure,
    "poisson_weighted": WeightedStructure,
    "poisson_clusters": ClustersStructure,
    "poisson_rows": RowsStructure,
    "poisson_staggered": StaggeredStructure,
}


def matches(c_type: str, given: Any) -> bool:
    """Whether a ctypes type passes what C expects."""
    structure = STRUCTURES.get(c_type.removeprefix("const ").removesuffix("*"))
    if structure is not None:
        return given is POINTER(structure)
    if c_type.endswith("*"):
        return given is c_void_p or issubclass(given, (ctypes._Pointer, ctypes.Array))
    return given is SCALARS[c_type]


@pytest.mark.parametrize(("name", "header", "told"), LIBRARIES)
def test_ctypes_and_the_header_agree(name: str, header: str, told: dict[str, Any]) -> None:
    declared = prototypes(header)
    assert set(declared) == set(told)
    for function, (result, arguments) in declared.items():
        assert RESULTS[result] is told[function][0], function
        assert len(arguments) == len(told[function][1]), function
        for (c_type, argument), given in zip(arguments, told[function][1], strict=True):
            assert matches(c_type, given), (function, argument)


OF_SUBJECT = {
    Operator: ["operator_"],
    Transfer: ["fine_operator", "coarse_operator", "tables"],
    Interpolation: ["source_operator", "target_operator", "tables", "everywhere"],
    Differences: ["differences"],
    FullStencil: ["stencil"],
    StencilTransfer: ["transfer"],
    Clusters: ["clusters"],
    SparseRows: ["rows"],
    None: [],
}
"""What the header names before the arguments of an operation."""


def c_arguments(name: str) -> list[tuple[str, str]]:
    """The names of the arguments of an operation as the header has them, with the type of each that is an array."""
    spec = ALL[name]
    real = {Role.OMEGAS: "double", Role.RESULT: "double", Role.GIVEN: "void", Role.COEFFICIENTS: "void"}
    found = [(argument, "") for argument in OF_SUBJECT[spec.subject]]
    for argument in spec.arguments:
        before = [f"{argument.name}_operator", f"{argument.name}_tables"] if argument.role is Role.COARSER else []
        found += [(item, "") for item in before]
        if argument.role is Role.SPARE:
            continue
        found.append((argument.name, real.get(argument.role, "float" if argument.single else "real")))
        more = {Role.OMEGAS: ["count"], Role.MATRIX: [f"{argument.name}_pitch"]}
        more[Role.COEFFICIENTS] = [f"{argument.name}_single"]
        more[Role.GIVEN] = [f"{argument.name}_{part}" for part in ("pitch", "shift", "double")]
        after = more.get(argument.role, [])
        if spec.subject is None and argument.role in (Role.WRITTEN, Role.BOTH):
            after = ["columns"] * ("matrix" in spec.names) + ["rows", "pitch"]
        found += [(item, "") for item in after]
    return [*found, ("threads", "")] if spec.subject is None else found


@pytest.mark.parametrize("name", OPERATION_FUNCTIONS)
def test_the_header_names_the_arguments_of_an_operation(name: str) -> None:
    for suffix, real in (("f32", "float"), ("f64", "double")):
        given = prototypes()[f"{name}_{suffix}"][1]
        assert [argument for _, argument in given] == [argument for argument, _ in c_arguments(name)]
        for (c_type, argument), (_, kind) in zip(given, c_arguments(name), strict=True):
            if c_type.endswith("*") and "poisson_" not in c_type:
                assert kind.replace("real", real) in c_type, argument


def test_the_structured_stages_name_the_arguments_of_the_operations() -> None:
    """They take what the operations take; the norm comes back at once."""
    declared = prototypes(STUDIES_HEADER)
    structured = [name for name in TYPED_STUDIES if name.startswith("structured_")]
    assert {name.removeprefix("structured_") for name in structured} == set(list(OPERATIONS)[:4])
    for name in structured:
        expected = [argument for argument, _ in c_arguments(name.removeprefix("structured_"))]
        for suffix in SUFFIXES.values():
            given = [argument for _, argument in declared[f"{name}_{suffix}"][1]]
            assert given == [item.replace("result", "sum_and_maximum") for item in expected]


def test_the_structures_have_the_fields_of_the_header() -> None:
    text = without_comments(HEADER)
    pointers = ("double*", "const int32_t*", "const double*", "const void*", "const poisson_line* const*")
    further = ("const uint16_t*", "const uint32_t*", "const int64_t*", "const float*")
    scalars = {**SCALARS, **dict.fromkeys((*pointers, *further), c_void_p), **STRUCTURES}
    scalars["const poisson_convolution*"] = ctypes.POINTER(ConvolutionStructure)
    assert set(re.findall(r"\} (\w+);", text)) == {*STRUCTURES, "poisson_status"}
    for name, structure in STRUCTURES.items():
        body = re.search(rf"typedef struct \{{([^{{}}]*)\}} {name};", text)
        assert body is not None
        fields = []
        for c_type, field, counts in re.findall(r"([\w* ]+?)\s+(\w+)((?:\[\d+\])*);", body[1]):
            kind = scalars[c_type.strip()]
            for count in reversed(re.findall(r"\d+", counts)):
                kind = kind * int(count)
            fields.append((field, kind))
        assert tuple(fields) == tuple(structure._fields_)


def test_the_interface_has_one_version() -> None:
    assert re.findall(r"#define POISSON_ABI_VERSION (\d+)", HEADER) == [str(openmp_library.ABI_VERSION)]


# ---- the library
def file_of(name: str) -> Path:
    path = openmp_library.library_path()
    if path is None:
        pytest.skip("the OpenMP library was not built here")
    return path.with_name(name)


@pytest.mark.parametrize(("name", "header", "told"), LIBRARIES)
def test_a_library_exports_its_interface_and_nothing_else(name: str, header: str, told: dict[str, Any]) -> None:
    if shutil.which("nm") is None:
        pytest.skip("there is no nm (Debian: binutils)")
    command = ["nm", "-D", "--defined-only", str(file_of(name))]
    listing = subprocess.run(command, capture_output=True, text=True, check=True)
    symbols = {line.split()[-1] for line in listing.stdout.splitlines()}
    assert {symbol for symbol in symbols if symbol.startswith("poisson_")} == {f"poisson_{key}" for key in told}
    assert {symbol for symbol in symbols if symbol.startswith("_Z")} == set()


@pytest.mark.parametrize(("name", "header", "told"), LIBRARIES)
def test_ctypes_finds_every_function(name: str, header: str, told: dict[str, Any]) -> None:
    loaded = ctypes.CDLL(str(file_of(name)))
    assert [key for key in told if not hasattr(loaded, f"poisson_{key}")] == []
    version = loaded.poisson_studies_abi_version if "studies_abi_version" in told else loaded.poisson_abi_version
    assert version() == openmp_library.ABI_VERSION
