"""The operations of the gpu backend that Krylov methods, smoothing by colors and mixed precision need."""

from __future__ import annotations

import numpy as np

from poisson.backends.base import Array, Reduction
from poisson.backends.gpu.launch import Launcher, given, or_null
from poisson.backends.gpu.shapes import REDUCTION_SHAPE, VECTOR_SHAPE
from poisson.discrete.discretisation import Operator


class KrylovOperations(Launcher):
    """Launches of the kernels in krylov.hip, and of those in vectors.hip that go with them."""

    def diagonal_solve(
        self, operator: Operator, r: Array, z: Array, omega: float, result: Reduction | None = None
    ) -> None:
        name = "diagonal_solve" if result is None else "diagonal_solve_dot"
        arguments = (r, z, *self._geometry(operator, r), self._step(operator, omega))
        self._march("krylov", name, operator, arguments, result)

    def direction(
        self, operator: Operator, z: Array, beta: float, p: Array, out: Array, q: Array, result: Reduction
    ) -> None:
        before = p if beta else None
        arguments = (z, or_null(before), out, q, *self._geometry(operator, z), self._real(beta))
        self._march("krylov", "direction", operator, arguments, result, given(before), kind="direction")

    def advance(
        self, operator: Operator, alpha: float, p: Array, q: Array, u: Array, r: Array, result: Reduction
    ) -> None:
        grid, rows = self._row_grid(u, REDUCTION_SHAPE)
        arguments = (self._real(alpha), p, q, u, r, *rows)
        self._reduce("vectors", "advance", REDUCTION_SHAPE, None, grid, arguments, result)

    def color_sweep(self, operator: Operator, u: Array, f: Array | None, color: int, omega: float) -> None:
        arguments = (u, or_null(f), *self._geometry(operator, u), self._step(operator, omega), np.int32(color))
        self._march("krylov", "color_sweep", operator, arguments, None, given(f))

    def defect(
        self, operator: Operator, u: Array, f: Array | None, factor: float, r: Array, result: Reduction | None = None
    ) -> None:
        name = "defect" if result is None else "defect_norm"
        arguments = (u, or_null(f), r, *self._geometry(operator, u), self._pitch(r), self._real(factor))
        self._march("krylov", name, operator, arguments, result, given(f))

    def correct(self, factor: float, x: Array, y: Array) -> None:
        grid, rows = self._row_grid(y)
        arguments = (self._real(factor), x, y, *rows, self._pitch(x))
        self._launch("vectors", "correct", VECTOR_SHAPE, None, grid, arguments)
