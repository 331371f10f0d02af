# SPDX-License-Identifier: MIT
"""The library of studies through ctypes: what only measurements need, beside the OpenMP library, which it calls."""

import ctypes
from ctypes import POINTER, c_double, c_int32, c_int64, c_void_p
from functools import cache
from types import SimpleNamespace
from typing import Any

import numpy as np

from poisson.backends.openmp.library import (
    ABI_VERSION,
    OPERATION_FUNCTIONS,
    SUFFIXES,
    OperatorStructure,
    Signatures,
    declare,
    library_path,
    load_library,
    studies_path,
)
from poisson.errors import BackendUnavailable

_OPERATOR = POINTER(OperatorStructure)
_STATUS = c_int32
STUDIES: Signatures = {"studies_abi_version": (c_int32, ()), "copy": (_STATUS, (c_void_p, c_void_p, c_int64, c_int32))}
TYPED_STUDIES: Signatures = {
    "peak_chains": (c_int64, ()),
    "multiply_adds": (_STATUS, (c_void_p, c_int64, c_int64, c_double, c_double, c_int32)),
    **{
        f"structured_{name}": (_STATUS, OPERATION_FUNCTIONS[name])
        for name in ("laplacian", "boundary_conditions", "update")
    },
    "structured_norm": (_STATUS, (_OPERATOR, c_void_p, c_double * 2)),
}
"""With the suffix of their real type."""


@cache
def load_studies() -> ctypes.CDLL:
    """The library with the signatures of its functions.

    Raises `BackendUnavailable` if it or the OpenMP library was not built, cannot be loaded, is of another version or
    lacks functions.
    """
    load_library()
    beside = library_path()
    assert beside is not None
    path = studies_path(beside)
    try:
        library = ctypes.CDLL(str(path))
        version = library.poisson_studies_abi_version()
    except (OSError, AttributeError) as error:
        raise BackendUnavailable(
            f"the library of measurements cannot be loaded: {error}; run pip install again, or build all targets"
        ) from error
    if version != ABI_VERSION:
        raise BackendUnavailable(
            f"{path} has interface version {version}, this package needs {ABI_VERSION}: run pip install again"
        )
    declare(library, path, STUDIES, TYPED_STUDIES)
    return library


def studies_of(dtype: np.dtype[Any]) -> SimpleNamespace:
    """The functions for a real type, by their names."""
    library = load_studies()
    return SimpleNamespace(**{name: getattr(library, f"poisson_{name}_{SUFFIXES[dtype]}") for name in TYPED_STUDIES})
