# SPDX-License-Identifier: MIT
"""The set-up that a solver makes once and keeps between solves."""

from __future__ import annotations

import contextlib
import math
import weakref
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from poisson.backends.base import Array, Backend, Operations, Reduction, Slab
from poisson.backends.ledger import Ledger
from poisson.backends.recordings import MOST_READS
from poisson.discrete.discretisation import Discretisation, Operator
from poisson.discrete.samples import Samples
from poisson.discrete.share import numbers_of, pieces_of
from poisson.mesh.differences import Differences
from poisson.output.record import THEN
from poisson.problem.faces import Face
from poisson.run.result_fields import FEW_NODES
from poisson.solvers import registry
from poisson.solvers.choose import Choice
from poisson.solvers.entries import Given
from poisson.solvers.fallback import ChosenMethod
from poisson.solvers.iteration import Method
from poisson.solvers.mixed import in_float32
from poisson.solvers.multigrid import CoarserProblems
from poisson.solvers.registry import describe
from poisson.solvers.settings import SolverSettings
from poisson.solvers.spectrum import smoothest
from poisson.solvers.stopping import SolveResult, Stopping
from poisson.solvers.surface import SurfaceOperations

if TYPE_CHECKING:
    from poisson.discrete.surface import Surface
    from poisson.problem.bodies import Body


def on_host(slab: Slab) -> Slab:
    """The same values, computed by NumPy."""
    return lambda xp, start, stop: slab(np, start, stop)


class _Returned(list[Array]):
    """Iterates that were handed over, and of which their users have let go."""


@dataclass
class Setup:
    """The set-up that a solver keeps between solves."""

    operations: Operations  # Those of A.
    stand_in: Operations  # The same as the method sees them: they may be counted.
    ledger: Ledger | None  # Where they are counted.
    choice: Choice | None  # What ``method = "auto"`` came to.
    settings: SolverSettings  # With the method that runs.
    precision: str  # In which it runs.
    method: Method  # The method with all that it has set up.
    norms: Reduction  # A place for results.
    local: Backend  # The backend of this process: that of the arrays, but where the grid is divided over ranks.
    discretisation: Discretisation  # Of the problem with its coefficients and boundary values.
    differences: Differences | None = None  # For the fields that are vectors.
    # What the boundary values amount to as a source, and their largest size (`Stopping`).
    data: float = 0.0
    boundary: float = 0.0
    inner: Operations | None = None  # Those of A on the float32 companion of the backend, in mixed precision.
    resuming: Method | None = None  # The method for an initial guess, if it is another one.
    coarser: CoarserProblems | None = None  # The problem on coarser grids, to stop at the discretisation error.
    work: Array | None = None  # For what comes after a solve, where the method leaves no array to it.
    u: Array | None = None  # The iterate; None while there is none, as the one before went to its user (`hand_over`).
    _f: Array | None = None
    _faces: tuple[tuple[Face, ...], tuple[Body, ...]] | None = None
    _held: list[NDArray[np.float64]] = field(default_factory=list)  # What Dirichlet faces hold.
    _returned: _Returned = field(default_factory=lambda: _Returned())
    source: Array | None = None  # What is solved for: `f`, or a source in the memory of the caller.
    # The source in the memory of the caller, where faces add nothing to it, whatever the precision.
    given: Array | None = None
    # What is told of all solutions (`poisson.run.outcome.provenance`).
    origin: dict[str, str | int | float] = field(default_factory=dict)
    samples: Samples | None = None  # The arrays of the coefficients, once they have been given other values.

    @property
    def f(self) -> Array:
        """The source, where it is not read in the memory of the caller."""
        if self._f is None:
            self._f = self.backend.empty(self.operator.array_shape)
        return self._f

    @property
    def reads_in_place(self) -> bool:
        """Whether the method takes a source in the memory of the caller."""
        plain = self.ledger is None and self.backend.dtype == np.float64
        keeps = self.backend.keeps(self.operator.array_shape)  # what is recorded reads the same array at every call
        return plain and not keeps and registry.method_of(self.settings).in_place

    def renew(self) -> Array:
        """The iterate, a new one if the last one was handed over; its values have no meaning."""
        if self.u is None:
            self.u = self._returned.pop() if self._returned else self.backend.empty(self.operator.array_shape)
        return self.u

    def give(self, array: Array) -> Any:
        """The values of an array for the user (`Backend.give`); the next solve may have it when nobody holds them."""
        return self.backend.give(array, partial(_put_back, weakref.ref(self._returned)))

    def hand_over(self, result: SolveResult) -> tuple[Any, SolveResult]:
        """The solution for its user, as an array that no later solve writes into; None where it must be copied.

        Returns `values`: of the shape of the backend's arrays, and of its module. Returns `result`: the result, whose u
        has the same memory.
        """
        values = self.give(self.u)
        if values is None:
            return None, result
        if result.u is not self.u:
            # The method keeps its own arrays.
            self.backend.axpby(1.0, result.u, 0.0, self.u)
            result = replace(result, u=self.u, work=result.u)
        self.u = None
        return values, result

    @cached_property
    def backend(self) -> Backend:
        """Where the arrays are."""
        return self.operations.backend

    @property
    def operator(self) -> Operator:
        """A."""
        return self.operations.operator

    @cached_property
    def described(self) -> str:
        """The method that runs, with its main settings."""
        return describe(self.settings, self.precision)

    def described_with(self, instead: str) -> str:
        """The same with the method that went on, if there is one."""
        return self.described + (THEN + instead if instead else "")

    def method_for(self, *, guess: bool) -> Method:
        """The method for a solve with or without an initial guess, which a start on the coarsest grid would not use."""
        # Where the solve stops at the discretisation error, the solution on a coarser grid is the guess in any case.
        guess &= self.coarser is None
        if not guess or (settings := registry.method_of(self.settings).resuming(self.settings)) == self.settings:
            return self.method
        if self.resuming is None:
            given = Given(self.stand_in, settings, inner=self.inner)
            self.resuming = self.with_others(registry.make_method(given))
        return self.resuming

    def with_others(self, method: Method) -> Method:
        """The method with those that go on where it stalls, if it was chosen, and not asked for as by `stop`."""
        if self.choice is None or self.coarser is not None:
            return method

        return ChosenMethod(self.stand_in, self.settings, method, partial(_method, self.stand_in))

    def rebind(self, operator: Operator) -> None:
        """Go over to an operator whose coefficients lie in the same arrays (`Operations.rebind`)."""
        self.operations.rebind(operator)
        if self.stand_in is not self.operations:
            self.stand_in.rebind(operator)

    def refresh(self) -> bool:
        """Make again what the method has made of the coefficients; false where it must be made anew."""
        if self.inner is not None:
            self.inner.rebind(in_float32(self.operations, self.inner.operator))
        return all(method.refresh() for method in (self.method, self.resuming) if method)

    def make_ready(self) -> None:
        """Have kernels compiled, beside each other, that most solves need: what this one does is gone through."""
        backend, operations, norms = self.backend, self.operations, self.norms
        compares = self.coarser is not None and self.discretisation.surface is not None  # it reads arrays on the way
        if backend.on_host or isinstance(self.stand_in, SurfaceOperations) or compares:
            return
        u, direct = self.renew(), registry.method_of(self.settings).direct
        # Any array will do in the place of the source, and of one in the memory of the caller.
        sources = [u if self.reads_in_place else self.f]
        sources += [given for given in (backend.in_place(u, lambda: None),) if given and self.reads_in_place]
        lattice, arrays = self.operator.lattice, [self.operator.links is None, self.operator.reaction is None]
        like = self.settings, self.precision, lattice.rules, lattice.tabulated, lattice.array_shape, *arrays
        if backend.prepared(like):
            return
        # The first are wanted before the solve begins.
        backend.prepare(
            partial(operations.residual, u, None, u, norms),
            *(
                partial(each.fill, each.empty((1, 1)), 0.0)
                for each in (backend, self.inner and self.inner.backend)
                if each
            ),
            partial(operations.certify, u, u, u, norms),
        )
        with self.ledger.paused() if self.ledger else contextlib.nullcontext():
            # What comes after the first read of a direct method is for what rounding may leave.
            for f in sources:
                solve = partial(self.method.solve, u, f, stopping=self.settings.stopping)
                backend.prepare(solve, reads=1 if direct else MOST_READS)

    def follow_faces(self) -> None:
        """Take the boundary values again where their arrays have others than before; all ranks ask together."""
        if self._faces is None or all(face.lasts for face in self._faces[0]):
            return
        before, self._held = self._held, self.discretisation.boundary_values()
        same = all(map(np.array_equal, before, self._held))
        if self.discretisation.largest(float(not same))[0]:
            self.take_boundary(self.discretisation)

    def take_boundary(self, discretisation: Discretisation) -> None:
        """Set `data` and `boundary`; u loses its values.

        The first is what A does at least to values of half the range of the boundary values, in which 0 counts where A
        sees constants, and no more than they leave beside zeros.
        """
        backend, operator = self.backend, self.operator
        self.discretisation = discretisation
        faces, bodies = discretisation.problem.faces, discretisation.problem.bodies
        if self._faces is None or self._faces[0] is not faces or self._faces[1] is not bodies:
            if surface := discretisation.surface if self._faces else None:
                for operations in {id(each): each for each in (self.operations, self.stand_in)}.values():
                    if isinstance(operations, SurfaceOperations):
                        operations.go_over(surface)
            self._faces, self._held = (faces, bodies), discretisation.boundary_values()  # faces are small
        least, largest = self._range(discretisation)
        boundary, data = max(-least, largest), 0.0
        if not discretisation.absorbs_nowhere:
            least, largest = min(least, 0.0), max(largest, 0.0)
        half = largest / 2.0 - least / 2.0
        if half > 0.0 and isinstance(self.operations, SurfaceOperations):
            data = half * smoothest(operator)  # A has no values at surfaces, which are in the source
        elif half > 0.0:
            with discretisation.agreed():
                few = math.prod(operator.array_shape) <= FEW_NODES
                slab = on_host(discretisation.boundary) if few else discretisation.boundary
                backend.assemble(operator.array_shape, slab, self.renew())
            left = backend.empty(operator.array_shape) if self.reads_in_place else self.f
            self.operations.residual(self.u, None, left, self.norms)
            left = self.settings.stopping.measure(operator, backend.read(self.norms))
            data = min(half * smoothest(operator), left)
        self.data, self.boundary = data, boundary
        self.__dict__.pop("stopping", None)

    def _range(self, discretisation: Discretisation) -> tuple[float, float]:
        """The least and the largest value that Dirichlet faces and bodies hold on any rank; zeros without one."""
        ends = [(float(values.min()), float(values.max())) for values in self._held]
        ends += [discretisation.surface.range] if discretisation.surface else []
        least = min((low for low, _ in ends), default=math.inf)
        largest = max((high for _, high in ends), default=-math.inf)
        least, largest = -discretisation.largest(-least)[0], discretisation.largest(largest)[0]
        return (least, largest) if least <= largest else (0.0, 0.0)

    @cached_property
    def stopping(self) -> Stopping:
        """When a solve ends."""
        return replace(self.settings.stopping, data=self.data, boundary=self.boundary)

    def clear_mask(self, u: Array, surface: Surface | None) -> None:
        """Write what u is at the nodes of the mask: 0, or inside of a body its value; Dirichlet faces keep theirs."""
        backend, lattice = self.backend, self.operator.lattice
        xp = backend.array_module if backend.views else np
        with backend.ordered():
            c, values = (
                backend.view(each) if backend.views else np.array(backend.to_host(each))
                for each in (self.operator.reaction, u)
            )
            values[lattice.free][c[lattice.free] < 0.0] = 0.0
            if surface:
                for block, here in pieces_of(numbers_of(lattice)):
                    surface.held.write(xp, values[here], block)
        if not backend.views:
            backend.assemble(values.shape, lambda _, start, stop: values[start:stop], u)

    def left_over(self, result: SolveResult) -> SolveResult:
        """The result of a solve, with an array that may be overwritten in any case."""
        return result if result.work is not None else replace(result, work=self.workspace())

    def workspace(self) -> Array:
        """An array that may be overwritten between two solves."""
        if self.work is None:
            self.work = self.backend.empty(self.operator.array_shape)
        return self.work


def _put_back(place: weakref.ref[_Returned], array: Array) -> None:
    """Keep one array for the next solve, as long as there is one to come."""
    returned = place()
    if returned is not None and not returned:
        returned.append(array)


def _method(operations: Operations, settings: SolverSettings) -> Method:
    """A method with all that it sets up."""
    return registry.make_method(Given(operations, settings))
