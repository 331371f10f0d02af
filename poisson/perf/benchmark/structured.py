# SPDX-License-Identifier: MIT
"""The Jacobi method as target regions that each map their arrays to the device and back: what not to do.

This is the first form of the OpenMP port in "Jacobi method with HIP and OpenMP offloading" (AMD lab notes), there 46
times slower than arrays that stay on the device.
"""

from collections.abc import Callable
from ctypes import byref, c_double
from typing import Any

import numpy as np
from numpy.typing import NDArray

from poisson.backends.openmp.library import load_library, operator_structure
from poisson.backends.openmp.studies import studies_of
from poisson.discrete.discretisation import Operator


class StructuredMapping:
    """Jacobi iterations on arrays in the host's memory; in a build for the host's threads nothing is mapped.

    The grid has two dimensions; u, which is overwritten, and f are of one type and in C order. `norms` are the sum of
    squares and the maximum of the last residual.

    Raises `BackendUnavailable` if there is no OpenMP library.
    """

    def __init__(self, operator: Operator, u: NDArray[Any], f: NDArray[Any], threads: int = 0) -> None:
        self._u, self._f = u, f
        self._au, self._r = np.zeros_like(u), np.zeros_like(u)
        self._operator = byref(operator_structure(operator, u.shape[-1], threads))
        self.norms = (c_double * 2)()
        self._functions = studies_of(u.dtype)

    @property
    def maps(self) -> bool:
        """Whether the library was built for a device, so that there is something to map."""
        return bool(load_library().poisson_build().startswith(b"offload"))

    def stages(self) -> dict[str, Callable[[], None]]:
        """The four stages of an iteration, in order, by the names of the operations."""
        u, f, au, r = (array.ctypes.data for array in (self._u, self._f, self._au, self._r))
        return {
            "laplacian": lambda: self._functions.structured_laplacian(self._operator, u, au),
            "boundary_conditions": lambda: self._functions.structured_boundary_conditions(self._operator, u, au),
            "update": lambda: self._functions.structured_update(self._operator, f, au, r, u, 1.0),
            "norm": lambda: self._functions.structured_norm(self._operator, r, self.norms),
        }
