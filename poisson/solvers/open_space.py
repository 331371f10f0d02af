# SPDX-License-Identifier: MIT
"""Open faces, for any method: u on them is the field of the charges inside, and the method solves in the box.

With values v on the open faces, and zeros beyond them, the solution in the box belongs to f and to further charges on
these faces and one spacing beyond. With the opposite field added the values on the faces are those in open space. Where
a and c are constant that holds whatever v is: a solution with zeros, the field of the charges on the faces, and a
second solution with that field (R. A. James, "The solution of Poisson's equation for isolated source distributions",
Journal of Computational Physics 25, 1977). Where they vary, or there are bodies, what is inside answers to v: an
equation for v, solved by extrapolation from the last few rounds (D. G. Anderson, Journal of the ACM 12, 1965; H. F.
Walker and P. Ni, SIAM Journal on Numerical Analysis 49, 2011).
"""

import logging
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from poisson.backends.base import Array, Operations
from poisson.discrete.inverse import FaceValues, Layers
from poisson.discrete.operator import Operator
from poisson.solvers.iteration import Method, Task
from poisson.solvers.status import Status
from poisson.solvers.stopping import Later, Observer, SolveResult

ROUNDS = 40
"""Rounds at most."""
WINDOW = 10
"""Rounds that are extrapolated."""
SETTLED, NOISE = 1e-10, 30.0
"""The values on open faces have settled when they change by no more of the largest, or by so many times the tolerance,
up to which each solution in the box is uncertain."""

log = logging.getLogger(__name__)


class OpenSpace(Method):
    """A method in a box with open faces.

    `operations`: those of A. `method`: solves with the values at fixed nodes that u has. `far`: the operator beyond the
    open faces. `faces`: whether each face is open. `direct`: whether the method makes nothing of a guess. `varies`:
    whether a or c differs in the box from that of `far`, or there are bodies.
    """

    def __init__(
        self, operations: Operations, method: Method, far: Operator, faces: Sequence[bool], direct: bool, varies: bool
    ) -> None:
        self._operations, self._backend = operations, operations.backend
        self._method, self._direct, self._varies = method, direct, varies
        with self._backend.ordered():
            self._fields = self._backend.face_fields(far, faces, operations.operator.lattice)
        self._faces = [face for face, is_open in enumerate(faces) if is_open]

    def run(self, task: Task) -> SolveResult:
        """Solve A u = f (`Method.run`); f has the charges of open faces, which are zero afterwards."""
        u, f, stopping, observer, *_ = task
        varies = self._varies
        with self._backend.ordered():
            # Zeros on the faces have no charges beyond them.
            bare = self._fields.take(self._backend.view(u), self._backend.view(f), self._direct and not varies)
        rounds, result, done = _Rounds(), None, 0
        tolerance = max(SETTLED, NOISE * max(stopping.rtol, float(np.finfo(self._backend.dtype).eps)))
        for number in range(1, ROUNDS + 1):
            # A direct method writes the values, and goes on.
            on_way = FaceValues(self._faces, self._correct) if self._direct and not varies and number == 1 else None
            most = max(1, stopping.max_iterations - done)
            left = replace(stopping, max_iterations=most, more_held=on_way is None)
            later = observer
            if observer and (on_way or done):
                later = _Both(observer, on_way) if on_way else Later(observer, done)
            part = task._replace(stopping=left, observer=later, copy=task.copy if on_way else None, values=on_way)
            last, result = result, self._method.run(part)
            if on_way and on_way.written:
                history = tuple((n + (n > 0), norm) for n, norm in result.history)
                return replace(result, iterations=result.iterations + (result.iterations > 0), history=history)
            result = replace(
                result,
                iterations=done + result.iterations,
                history=(*last.history, *((done + n, norm) for n, norm in result.history if n))
                if last
                else result.history,
            )
            done = result.iterations
            if result.u is not u:
                self._backend.axpby(1.0, result.u, 0.0, u)
                result = replace(result, u=u, work=result.u)
            if not result.status.success or (number == 2 and not varies):
                return result
            if bare and not varies:
                self._correct(self._backend.view(u), None)
                continue
            values, change = self._changes(u)
            largest, size = float(np.abs(change).max()), float(np.abs(values + change).max())
            log.debug("open faces, round %d: u changes by %.2e of %.2e", number, largest, size)
            if largest <= tolerance * size:
                log.info("u on open faces settled to %.1e of %.3g in %d rounds", largest, size, number)
                return result
            self._write(u, rounds.next(values, change))
        assert result is not None
        return replace(result, status=Status.STAGNATED)

    def refresh(self) -> bool:
        """Go over to other coefficients (`Method.refresh`): what is set up belongs to the old ones."""
        return False

    def _correct(self, u: Any, layers: Layers | None) -> None:
        with self._backend.ordered():
            if layers is None:
                self._fields.correct(u)
            else:
                self._fields.correct_from(u, layers)

    def _changes(self, u: Array) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """The values on the open faces, one face after the other, and by how much they differ from the field there."""
        with self._backend.ordered():
            parts = self._fields.changes(self._backend.view(u))
            xp = self._fields.array_module
            here, change = (xp.concatenate([part[face].ravel() for face in self._faces]) for part in parts)
            return (here, change) if isinstance(here, np.ndarray) else (here.get(), change.get())

    def _write(self, u: Array, values: NDArray[np.float64]) -> None:
        """Write values to the open faces of an array."""
        with self._backend.ordered():
            start = 0
            for face in self._faces:
                shape = self._fields.shape_of(face)
                part = values[start : start + math.prod(shape)].reshape(shape)
                self._fields.write(self._backend.view(u), face, self._backend.array_module.asarray(part))
                start += part.size


class _Both(Later):
    """Tells an observer of two solutions where the second was made on the way of the first."""

    def __init__(self, observer: Observer, values: FaceValues) -> None:
        super().__init__(observer, 0)
        self.start, self._values = observer.start, values  # type: ignore[method-assign]

    def __call__(self, iteration: int, norm: float) -> None:
        self._observer(iteration + (iteration > 0 and self._values.written), norm)


class _Rounds:
    """The last rounds, and the extrapolation from them."""

    def __init__(self) -> None:
        self._tried: list[NDArray[np.float64]] = []
        self._changes: list[NDArray[np.float64]] = []

    def next(self, values: NDArray[np.float64], change: NDArray[np.float64]) -> NDArray[np.float64]:
        """The values to try after some that differed by `change` from what they led to."""
        self._tried = [*self._tried, values][-WINDOW:]
        self._changes = [*self._changes, change][-WINDOW:]
        steps = np.diff(np.array(self._tried), axis=0).T
        slopes = np.diff(np.array(self._changes), axis=0).T
        if not steps.size:
            return values + change
        weights = np.linalg.lstsq(slopes, change, rcond=1e-12)[0]
        return np.asarray(values + change - (steps + slopes) @ weights)
