# SPDX-License-Identifier: MIT
"""Measurements of the gpu backend."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from poisson.backends.gpu.derivative import VARIANTS
from poisson.backends.gpu.device_transforms import block_of
from poisson.backends.gpu.launch import Launcher, blocks_for
from poisson.backends.gpu.shapes import PEAK_SHAPE
from poisson.backends.probe import Derivative, Pace, Probe

CHAINS = 8
"""Chains of multiply-adds in a thread where the peak of arithmetic is measured, as in peak.hip."""

BY_LIBRARY = 4.0
"""The factor by which lines that do not fit in shared memory take longer."""


class GpuProbe(Probe):
    """Copies, chains of multiply-adds, and the forms of a derivative."""

    backend: Launcher
    pace = Pace(cycle=8.0, transforms=21.0, call=8e-6, bandwidth=4e12)

    def stream(self, count: int) -> tuple[Callable[[], None], float]:
        x, y = (self.backend.runtime.allocate(count, np.dtype(np.float64)) for _ in range(2))

        def copy() -> None:
            self.backend.runtime.copy(x, y)

        return copy, 16.0 * count

    def arithmetic(self, count: int) -> tuple[Callable[[], None], float]:
        shape = PEAK_SHAPE
        needed = blocks_for(count, CHAINS * shape.march * shape.block_x)
        out = self.backend.runtime.allocate(needed * shape.block_x, self.backend.dtype)
        arguments = (out, self.backend.real(0.5), self.backend.real(1.0), np.int32(shape.march))

        def multiply_adds() -> None:
            self.backend.launch("peak", "multiply_adds", shape, None, (needed, 1, 1), arguments)

        return multiply_adds, 2.0 * CHAINS * shape.march * shape.block_x * needed

    def slowdown(self, length: int) -> float:
        block = block_of(length, 0, 2, self.backend.dtype.itemsize, self.backend.runtime.shared_bytes)
        return super().slowdown(length) if block else BY_LIBRARY

    def peak_bandwidth(self) -> float | None:
        return self.backend.runtime.peak_bandwidth()

    def derivatives(self, operations: Any) -> Mapping[str, Derivative]:
        return {form: partial(operations.in_form, form) for form in VARIANTS}
