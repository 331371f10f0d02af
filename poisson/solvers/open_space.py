# SPDX-License-Identifier: MIT
"""Open faces, for any method: u on them is the field of the charges inside, and the method solves in the box.

Where a and c are constant, the convolution with the Green's function of the stencil gives u everywhere at once. Where
they vary, or there are bodies, the charges of the constant operator in the place of A, those of polarised matter and of
conductors included, make the values on the open faces, and these the charges: an equation for the values on the faces,
u = T u + b, whose solution extrapolates the last few rounds (D. G. Anderson, Journal of the ACM 12, 1965; H. F. Walker
and P. Ni, SIAM Journal on Numerical Analysis 49, 2011). One round more would be the method of R. A. James (Journal of
Computational Physics 25, 1977) if nothing inside answered to the values on the faces.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from poisson.backends.base import Array, Operations
from poisson.discrete.inverse import OpenInverse
from poisson.discrete.operator import Operator
from poisson.solvers.iteration import Interruption, Method, never
from poisson.solvers.status import Status
from poisson.solvers.stopping import Later, Observer, SolveResult, Stopping

Index = tuple[slice | int, ...]

ROUNDS = 40
"""Rounds at most."""
WINDOW = 10
"""Rounds that are extrapolated."""
SETTLED, NOISE = 1e-10, 30.0
"""The values on open faces have settled when they change by no more of the largest, or by so many times the tolerance,
up to which each solution in the box is uncertain."""

log = logging.getLogger(__name__)


class OpenSpace:
    """A method in a box with open faces.

    `operations`: those of A. `method`: solves with the values at fixed nodes that u has. `far`: the operator beyond the
    open faces. `faces`: whether each face is open. `where`: the nodes of the open faces, as indices of arrays.
    """

    def __init__(
        self, operations: Operations, method: Method, far: Operator, faces: tuple[bool, ...], where: Sequence[Index]
    ) -> None:
        self._operations, self._backend = operations, operations.backend
        self._method = method
        self._where = where
        self._inverse = self._backend.bind(OpenInverse(far, faces))
        self._far = self._backend.bind(far) if operations.operator.varies else None
        self._work: list[Array] = []

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
        if self._far is None:
            self._inverse.solve(f, u)
            self._write(f, None)
            solved = replace(stopping, solved=True)
            return self._method.solve(u, f, stopping=solved, observer=observer, interrupted=interrupted)
        if not self._work:
            self._work = [self._backend.empty(self._operations.operator.array_shape) for _ in range(2)]
        charges, v = self._work
        on_faces = self._values(f)
        self._copy(f, charges)
        # The surfaces of conductors are large terms in f, and no charges.
        conductors = self._operations.operator.fixed > 0
        values = self._values(u) if conductors else self._potential(u, charges, v)
        self._write(f, None)
        rounds, result, done = _Rounds(), None, 0
        tolerance = max(SETTLED, NOISE * max(stopping.rtol, float(np.finfo(self._backend.dtype).eps)))
        for number in range(1, ROUNDS + 1):
            self._write(u, values)
            last, result = (
                result,
                self._method.solve(
                    *(u, f),
                    stopping=replace(stopping, max_iterations=max(1, stopping.max_iterations - done)),
                    observer=observer if done == 0 or observer is None else Later(observer, done),
                    interrupted=interrupted,
                ),
            )
            result = replace(
                result,
                iterations=done + result.iterations,
                history=(*last.history, *((done + n, norm) for n, norm in result.history if n))
                if last
                else result.history,
            )
            done = result.iterations
            if result.u is not u:
                self._copy(result.u, u)
                result = replace(result, u=u, work=result.u)
            if not result.status.success:
                break
            self._far.residual(u, None, charges)
            self._backend.axpby(-1.0, charges, 0.0, v)
            self._copy(v, charges)
            self._write(charges, on_faces)
            found = self._potential(u, charges, v)
            change, size = float(np.abs(found - values).max()), float(np.abs(found).max())
            log.debug("open faces, round %d: u changes by %.2e of %.2e", number, change, size)
            if change <= tolerance * size:
                log.info("u on open faces settled to %.1e of %.3g in %d rounds", change, size, number)
                return result
            values = rounds.next(values, found)
        assert result is not None
        return replace(result, status=Status.STAGNATED) if result.status.success else result

    def refresh(self) -> bool:
        """Go over to other coefficients (`Method.refresh`): what is set up belongs to the old ones."""
        return False

    def _potential(self, u: Array, charges: Array, v: Array) -> NDArray[np.float64]:
        """u on open faces, as the charges make it; v loses its values."""
        self._copy(u, v)
        self._inverse.solve(charges, v)
        return self._values(v)

    def _copy(self, array: Array, out: Array) -> None:
        self._backend.axpby(1.0, array, 0.0, out)

    def _values(self, array: Array) -> NDArray[np.float64]:
        """The values of an array on the open faces, one face after the other."""
        with self._backend.ordered():
            values: Any = self._backend.view(array)
            parts = [values[where].ravel() for where in self._where]
            parts = [part if isinstance(part, np.ndarray) else part.get() for part in parts]
        return np.concatenate(parts).astype(np.float64)

    def _write(self, array: Array, found: NDArray[np.float64] | None) -> None:
        """Write values, or zeros, to the open faces of an array."""
        with self._backend.ordered():
            values: Any = self._backend.view(array)
            start = 0
            for where in self._where:
                part = values[where]
                if found is None:
                    values[where] = 0.0
                    continue
                given = found[start : start + part.size].reshape(part.shape).astype(part.dtype)
                values[where] = self._backend.array_module.asarray(given)
                start += math.prod(part.shape)


class _Rounds:
    """The last rounds, and the extrapolation from them."""

    def __init__(self) -> None:
        self._tried: list[NDArray[np.float64]] = []
        self._changes: list[NDArray[np.float64]] = []

    def next(self, values: NDArray[np.float64], found: NDArray[np.float64]) -> NDArray[np.float64]:
        """What to try next, when `values` have led to `found`."""
        self._tried = [*self._tried, values][-WINDOW:]
        self._changes = [*self._changes, found - values][-WINDOW:]
        steps = np.diff(np.array(self._tried), axis=0).T
        slopes = np.diff(np.array(self._changes), axis=0).T
        if not steps.size:
            return found
        weights = np.linalg.lstsq(slopes, self._changes[-1], rcond=1e-12)[0]
        return found - (steps + slopes) @ weights
