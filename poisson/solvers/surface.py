# SPDX-License-Identifier: MIT
"""Methods beside the surfaces of bodies, where rows of Shortley and Weller make A unsymmetric."""

from __future__ import annotations

import math
from abc import update_abstractmethods
from collections.abc import Callable
from dataclasses import replace
from operator import attrgetter
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from poisson.backends.base import Array, Operations, Reduction
from poisson.discrete.share import numbers_of, pieces_of
from poisson.solvers.iteration import KRYLOV_GROWTH, Method, Norms, Preconditioner, Task, Watch
from poisson.solvers.status import Status
from poisson.solvers.stopping import SolveResult

if TYPE_CHECKING:
    from poisson.discrete.surface import Surface
    from poisson.problem.problem import Problem

Values = NDArray[np.float64]
Form = TypeVar("Form", bound=Operations)

GAIN = 0.01
"""The part of the residual that a solve with the symmetric form may leave, after the first one."""

DEPTH = 8
"""How many rounds the next one learns from."""


def _symmetric_otherwise(cls: type[Form]) -> type[Form]:
    """The class with all that it lacks of `Operations` taken from its symmetric form."""
    for name in (vars(Operations).keys() | Operations.__annotations__.keys()) - vars(cls).keys():
        if not name.startswith("_"):
            setattr(cls, name, property(attrgetter(f"symmetric.{name}")))
    update_abstractmethods(cls)
    return cls


@_symmetric_otherwise
class SurfaceOperations(Operations):
    """The operations of an operator in the symmetric form, but for the residual, which is that of another form.

    `symmetric`: those of the symmetric form, which has all others. `surface`: with the rows in which the residual
    differs; without `corrects` it does not.
    """

    def __init__(self, symmetric: Operations, surface: Surface) -> None:
        self.symmetric, self.corrects, self._surface = symmetric, surface.corrects, surface
        backend, coefficients = symmetric.backend, symmetric.operator.coefficients
        assert coefficients is not None and coefficients.beside is not None
        self.rows, lattice = coefficients.beside, symmetric.operator.lattice
        self._residual = backend.bind(self.rows.of_residual(lattice))

    @classmethod
    def of(cls, symmetric: Operations, surface: Surface) -> SurfaceOperations:
        """These of a symmetric form and a surface."""
        return cls(symmetric, surface)

    def residual(self, u: Array, f: Array | None, r: Array, result: Reduction | None = None) -> None:
        """r = f − A u (`Operations.residual`)."""
        if not self.corrects:
            self.symmetric.residual(u, f, r, result)
            return
        self.symmetric.residual(u, f, r)
        self._residual.replace_rows(r, u, r)
        if result is not None:
            self.symmetric.norm(r, result)

    def certify(self, u: Array, f: Array, work: Array, result: Reduction) -> None:
        """The norms of f − A u (`Operations.certify`)."""
        self.residual(u, self.symmetric.settled(f), work, result)

    def change(self, array: Array, changed: Callable[[Any, Callable[[Array], Any]], None]) -> None:
        """Change some values of an array, by a function of it and of what gives the values of others."""
        backend, lattice = self.symmetric.backend, self.symmetric.operator.lattice
        if backend.views:
            with backend.ordered():
                changed(backend.view(array), lambda other: backend.around(other, lattice))
        else:
            values = np.array(backend.to_host(array))
            changed(values, lambda other: backend.around(other, lattice))
            backend.assemble(values.shape, lambda _, start, stop: values[start:stop], array)
        backend.changed(array)

    def hold(self, u: Array) -> None:
        """Write the values at the nodes inside."""
        xp = self.symmetric.backend.array_module if self.symmetric.backend.views else np

        def write(values: Any, _: Callable[[Array], Any]) -> None:
            for block, here in pieces_of(numbers_of(self.symmetric.operator.lattice)):
                self._surface.held.write(xp, values[here], block)

        self.change(u, write)

    def at_surfaces(self, array: Array) -> Values:
        """The values at the nodes beside surfaces, on the host."""
        return self._at(array, self.rows.index)

    def go_over(self, surface: Surface) -> None:
        """Go over to surfaces with other values."""
        rows = self.rows
        row, constant = np.searchsorted(rows.nodes, surface.cuts.node[rows.ends]), np.zeros(rows.nodes.size)
        np.add.at(constant, row, -rows.extra * surface.given[rows.ends])
        self._surface, self.rows = surface, replace(rows, constant=constant, terms=surface.terms[rows.place])
        self._residual = self.symmetric.backend.bind(self.rows.of_residual(self.symmetric.operator.lattice))

    def charges(self, u: Array, f: Array, problem: Problem) -> dict[str, float]:
        """The charges of the bodies (`poisson.discrete.charges`), or the part of them that this process has."""
        from poisson.discrete.charges import charges

        f = self.symmetric.settled(f)
        values = self.at_surfaces(u), self._at(u, self.rows.beside), self.at_surfaces(f)
        return charges(problem, self._surface, self.rows, *values)

    def _at(self, array: Array, index: Any) -> Values:
        backend = self.symmetric.backend
        values = backend.around(array, self.symmetric.operator.lattice)
        if not backend.views:
            return np.asarray(values[index], dtype=np.float64)
        with backend.ordered():
            values = values[index]
            return np.asarray(values if isinstance(values, np.ndarray) else values.get(), dtype=np.float64)


class _Beside(Method):
    """The beginning of a solve beside surfaces.

    What these add to f is no measure of the data, as it grows with the number of nodes: the target follows from f
    without it and from the values given, as on a face.
    """

    def __init__(self, operations: SurfaceOperations) -> None:
        self._operations = operations
        self._backend = operations.symmetric.backend
        self._r, self._work = (self._backend.empty(operations.symmetric.operator.array_shape) for _ in range(2))
        self._place = self._backend.reduction()

    def _begin(self, u: Array, f: Array, watch: Watch) -> tuple[Status | None, Norms]:
        """The status, and the norms of the residual; `_work` is f then."""
        self._backend.axpby(1.0, f, 0.0, self._work)
        self._add(-self._operations.rows.terms)
        source = watch.source(self._work)
        self._backend.axpby(1.0, f, 0.0, self._work)
        watch.follow(f)
        now = self._residual(u, f)
        return watch.begin(source, now, lambda: u), now

    def _residual(self, u: Array, f: Array) -> Norms:
        self._operations.residual(u, f, self._r, self._place)
        return self._backend.read(self._place)

    def _add(self, values: Any) -> None:
        """Add values at the nodes beside surfaces to `_work`."""
        rows = self._operations.rows
        xp = self._backend.array_module if self._backend.views else np

        def changed(array: Any, at: Callable[[Array], Any]) -> None:
            array[rows.index] += xp.asarray(values)

        self._operations.change(self._work, changed)


class BiConjugateGradients(_Beside):
    """Stabilised biconjugate gradients with a preconditioner that is made for the symmetric form.

    An iteration has one application of the preconditioner, and one of A: half of a step as it is usually counted.

    `operations`: those of A, which is not symmetric. `preconditioner`: an approximate inverse of the symmetric form.

    Reference: H. A. van der Vorst, SIAM Journal on Scientific and Statistical Computing 13, 1992.
    """

    def __init__(self, operations: SurfaceOperations, preconditioner: Preconditioner | None) -> None:
        super().__init__(operations)
        self._preconditioner = preconditioner
        shape = operations.symmetric.operator.array_shape
        self._shadow, self._p, self._v, self._z = (self._backend.empty(shape) for _ in range(4))
        self._copy = self._backend.empty(shape)
        rows, lattice = operations.rows, operations.symmetric.operator.lattice
        self._relaxation = self._backend.bind(rows.of_relaxation(lattice))
        self._rows = self._backend.bind(rows.of_product(lattice))

    def run(self, task: Task) -> SolveResult:
        operations, backend = self._operations, self._backend
        u, f = task.u, operations.settled(task.f)
        watch = Watch(operations, task, self._place, KRYLOV_GROWTH, recursive=True)
        status, now = self._begin(u, f, watch)
        done, best = 0, math.inf
        while status is None:
            # From the true residual, until the recursion says that the target is reached, or breaks down.
            backend.axpby(1.0, self._r, 0.0, self._shadow)
            backend.axpby(1.0, self._r, 0.0, self._p)
            rho = self._product(self._shadow, self._r)
            while status is None and math.isfinite(rho) and rho != 0.0:
                self._apply(self._p, self._v)
                among = self._product(self._shadow, self._v)
                if among == 0.0 or not math.isfinite(among):
                    break
                alpha = rho / among
                operations.advance(alpha, self._copy, self._v, u, self._r, self._place)
                done, now = done + 1, backend.read(self._place)
                if watch.reached(now) or done >= watch.most:
                    break
                self._apply(self._r, self._work)
                squares, among = self._product(self._work, self._work), self._product(self._work, self._r)
                if not (0.0 < squares < math.inf) or among == 0.0:
                    break
                omega = among / squares
                operations.advance(omega, self._copy, self._work, u, self._r, self._place)
                done, now = done + 1, backend.read(self._place)
                if watch.reached(now) or done >= watch.most:
                    break
                before, rho = rho, self._product(self._shadow, self._r)
                beta = rho / before * alpha / omega
                backend.axpby(-omega, self._v, 1.0, self._p)
                backend.axpby(1.0, self._r, beta, self._p)
                status = watch.judge(done, now) or watch.limit(done)
            if status is not None:
                break
            now = self._residual(u, f)
            status = watch.judge(done, now)
            if status is None and not watch.norm(now) < 0.5 * best:
                status = watch.stalled()
            best = min(best, watch.norm(now))
            status = status or watch.limit(done)
        return watch.result(status, done, u, self._r)

    def _apply(self, r: Array, out: Array) -> None:
        """`_copy` = the preconditioned r, out = A times that.

        The preconditioner knows the symmetric form; a sweep over the rows that differ from it saves one or two
        iterations.
        """
        z = self._z
        if self._preconditioner is None:
            z = r
        else:
            self._preconditioner.apply(r, z)
            self._relaxation.replace_rows(r, z, z)
        self._operations.symmetric.direction(z, 0.0, z, self._copy, out, self._place)
        self._rows.replace_rows(out, self._copy, out)

    def _product(self, x: Array, y: Array) -> float:
        self._operations.symmetric.dot(x, y, self._place)
        return self._backend.read(self._place)[0]


class SurfaceMethod(_Beside):
    """Solves with the residual of Shortley and Weller's form by a method for the symmetric one.

    With terms q beside the source, at the nodes beside surfaces, the solution of the symmetric form is that of the
    other one. A round solves for the q of the round before; then the residual at these nodes is what q lacks. As it is
    a function of few values, the next q is found by Anderson's method: the combination of the last rounds whose lack
    would be least (D. G. Anderson, Journal of the ACM 12, 1965).
    """

    def __init__(self, operations: SurfaceOperations, method: Method) -> None:
        super().__init__(operations)
        self._method = method

    def run(self, task: Task) -> SolveResult:
        """Solve A u = f (`Method.run`); the iterations are those of the method."""
        operations, backend = self._operations, self._backend
        u, f = task.u, operations.settled(task.f)
        watch = Watch(operations, task, self._place)
        status, now = self._begin(u, f, watch)
        rows = operations.rows
        done, q, history, part = 0, np.zeros(rows.size), _Anderson(DEPTH), 0.0
        while status is None:
            if part:
                lack = backend.joined(operations.at_surfaces(self._r), rows.place, rows.size)
                step = history.next(q, lack) - q
                q = q + step
                self._add(step[rows.place])
            aim, part = watch.target, GAIN
            if operations.corrects:
                aim = max(0.5 * aim, GAIN * watch.norm(now)) if history.begun else 0.5 * aim
            result = self._method.run(watch.part(u, self._work, aim, done))
            if result.u is not u:
                backend.axpby(1.0, result.u, 0.0, u)
            done, before = done + result.iterations, now
            now = self._residual(u, f)
            status = watch.judge(done, now)
            if status is None and not result.status.success:
                status = result.status
            if status is None and not watch.norm(now) < watch.norm(before) and result.iterations == 0:
                status = watch.stalled()
            status = status or watch.limit(done)
        operations.hold(u)  # grids of products leave rounding at nodes without an equation
        return watch.result(status, done, u, self._r)


class _Anderson:
    """Anderson's method for q = q + lack(q)."""

    def __init__(self, depth: int) -> None:
        self._depth = depth
        self._points: list[tuple[Values, Values]] = []

    @property
    def begun(self) -> bool:
        return bool(self._points)

    def next(self, q: Values, lack: Values) -> Values:
        """The next point, given the lack of this one."""
        self._points = [*self._points, (q, lack)][-self._depth :]
        if len(self._points) == 1:
            return q + lack
        points, lacks = (np.stack(values, axis=1) for values in zip(*self._points, strict=True))
        steps, changes = np.diff(points, axis=1), np.diff(lacks, axis=1)
        weights = np.linalg.lstsq(changes, lack, rcond=1e-12)[0]
        found: Values = q + lack - (steps + changes) @ weights
        return found
