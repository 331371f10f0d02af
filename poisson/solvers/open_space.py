# SPDX-License-Identifier: MIT
"""Open faces, for any method: u on them is the field of the charges inside, and the method solves in the box.

Where a and c are constant, the convolution with the Green's function of the stencil gives u everywhere at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from poisson.backends.base import Array, Operations
from poisson.discrete.inverse import OpenInverse
from poisson.solvers.iteration import Interruption, Method, never
from poisson.solvers.stopping import Observer, SolveResult, Stopping

Index = tuple[slice | int, ...]


class OpenSpace:
    """A method in a box with open faces.

    `operations`: those of A, with constant coefficients. `method`: solves with the values at fixed nodes that u has.
    `faces`: whether each face is open. `where`: the nodes of the open faces, as indices of arrays.
    """

    def __init__(self, operations: Operations, method: Method, faces: tuple[bool, ...], where: Sequence[Index]) -> None:
        self._backend = operations.backend
        self._method = method
        self._where = where
        self._inverse = operations.backend.bind(OpenInverse(operations.operator, faces))

    def solve(
        self,
        u: Array,
        f: Array,
        *,
        stopping: Stopping,
        observer: Observer | None = None,
        interrupted: Interruption = never,
    ) -> SolveResult:
        """Solve A u = f (`Method.solve`); f has the charges of open faces, which are zero afterwards."""
        self._inverse.solve(f, u)
        with self._backend.ordered():
            values: Any = self._backend.view(f)
            for where in self._where:
                values[where] = 0.0
        return self._method.solve(
            u, f, stopping=replace(stopping, solved=True), observer=observer, interrupted=interrupted
        )

    def refresh(self) -> bool:
        """Go over to other coefficients (`Method.refresh`): what is set up belongs to the old ones."""
        return False
