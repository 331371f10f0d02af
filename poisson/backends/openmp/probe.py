# SPDX-License-Identifier: MIT
"""Measurements of the openmp backend, by a library of their own, which is loaded when it is needed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from poisson.backends.openmp.studies import load_studies, studies_of
from poisson.backends.probe import Pace, Probe

if TYPE_CHECKING:
    from poisson.backends.openmp.backend import OpenmpBackend

ROUNDS = 512
"""Multiply-adds of a chain where the peak of arithmetic is measured."""

HIGHEST_OF_THREAD = 2.1e10
"""Bytes a second of a thread on the host, for `Pace.highest`: arithmetic is the limit where a cache has the arrays."""

PROBE_OF_THREAD = 1 << 17
"""Values of a thread for `Pace.probe`: beyond its own caches, and quickly made."""


class OpenmpProbe(Probe):
    """A copy by the threads, and chains of multiply-adds."""

    backend: OpenmpBackend
    maps_arrays = True
    pace = Pace(cycle=9.0, transforms=9.0, call=4e-6, bandwidth=4e10)

    def __init__(self, backend: OpenmpBackend) -> None:
        super().__init__(backend)
        if not backend.offloads:
            highest, probe = HIGHEST_OF_THREAD * backend.threads, PROBE_OF_THREAD * backend.threads
            self.pace = replace(self.pace, highest=highest, probe=probe)

    def stream(self, count: int) -> tuple[Callable[[], None], float]:
        run, threads = load_studies().poisson_copy, self.backend.threads
        arrays = [self.backend.array((count,), np.dtype(np.float64)) for _ in range(2)]
        pointers = [array.pointer for array in arrays]

        def copy() -> None:
            _ = arrays
            run(*pointers, count, threads)

        return copy, 16.0 * count

    def arithmetic(self, count: int) -> tuple[Callable[[], None], float]:
        functions, threads = studies_of(self.backend.dtype), self.backend.threads
        chains = int(functions.peak_chains())
        bundles = -(-count // (chains * ROUNDS))
        out = self.backend.empty((bundles,))

        def run() -> None:
            functions.multiply_adds(out.pointer, bundles, ROUNDS, 0.5, 1.0, threads)

        return run, 2.0 * chains * ROUNDS * bundles
