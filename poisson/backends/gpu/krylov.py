# SPDX-License-Identifier: MIT
"""The operations of the gpu backend that Krylov methods, smoothing by colors and mixed precision need."""

import numpy as np

from poisson.backends.base import Array, Operations, Reduction
from poisson.backends.gpu.launch import Launcher, given, or_null
from poisson.backends.gpu.marches import OperatorLauncher


class KrylovOperations(OperatorLauncher, Operations):
    """Launches of the kernels in krylov.hip, and of those in vectors.hip that go with them."""

    backend: Launcher

    def diagonal_solve(self, r: Array, z: Array, omega: float, result: Reduction | None = None) -> None:
        name = "diagonal_solve" if result is None else "diagonal_solve_dot"
        arguments = (r, z, *self.geometry, self.step(omega))
        self.march("krylov", name, arguments, result)

    def direction(self, z: Array, beta: float, p: Array, out: Array, q: Array, result: Reduction) -> None:
        before = p if beta else None
        arguments = (z, or_null(before), out, q, *self.geometry, self.backend.real(beta))
        self.march("krylov", "direction", arguments, result, given(before), kind="direction")

    def advance(self, alpha: float, p: Array, q: Array, u: Array, r: Array, result: Reduction) -> None:
        self.reduce_rows("advance", (self.backend.real(alpha), p, q, u, r), u, result)

    def color_sweep(self, u: Array, f: Array | None, color: int, omega: float) -> None:
        arguments = (u, or_null(f), *self.geometry, self.step(omega), np.int32(color))
        self.march("krylov", "color_sweep", arguments, None, given(f))

    def defect(self, u: Array, f: Array | None, factor: float, r: Array, result: Reduction | None = None) -> None:
        name = "defect" if result is None else "defect_norm"
        arguments = (u, or_null(f), r, *self.geometry, self.backend.pitch(r), self.backend.real(factor))
        self.march("krylov", name, arguments, result, given(f), in_parts=True)
