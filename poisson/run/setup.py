"""What a solver sets up once, and keeps between solves."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

from poisson.backends.base import Array, Backend, Operations, Reduction
from poisson.backends.ledger import Ledger
from poisson.discrete.discretisation import Discretisation, Operator
from poisson.mesh.differences import Differences
from poisson.solvers import registry
from poisson.solvers.choose import Choice, describe
from poisson.solvers.entries import Given
from poisson.solvers.fallback import ChosenMethod
from poisson.solvers.iteration import Method
from poisson.solvers.multigrid import CoarserProblems
from poisson.solvers.settings import SolverSettings
from poisson.solvers.spectrum import smoothest
from poisson.solvers.stopping import SolveResult, Stopping


@dataclass
class Setup:
    """What a solver keeps between solves.

    Parameters
    ----------
    operations : Operations
        Those of A.
    stand_in : Operations
        The same as the method sees them: they may be counted.
    ledger : Ledger or None
        Where they are counted.
    choice : Choice or None
        What ``method = "auto"`` came to.
    settings : SolverSettings
        With the method that runs.
    precision : str
        In which it runs.
    method : Method
        The method with all that it has set up.
    u, f : Array
        The iterate and the source.
    norms : Reduction
        A place for results.
    local : Backend
        The backend of this process: that of the arrays, but where the grid is divided over ranks.
    differences : Differences, optional
        For the fields that are vectors.
    data, boundary : float
        What the boundary values amount to as a source, and their largest size (`Stopping`).
    inner : Operations, optional
        Those of A on the float32 companion of the backend, in mixed precision.
    resuming : Method, optional
        The method for an initial guess, if it is another one.
    coarser : CoarserProblems, optional
        The problem on coarser grids, to stop at the discretisation error.
    work : Array, optional
        For what comes after a solve, where the method leaves no array to it.
    """

    operations: Operations
    stand_in: Operations
    ledger: Ledger | None
    choice: Choice | None
    settings: SolverSettings
    precision: str
    method: Method
    u: Array
    f: Array
    norms: Reduction
    local: Backend
    differences: Differences | None = None
    data: float = 0.0
    boundary: float = 0.0
    inner: Operations | None = None
    resuming: Method | None = None
    coarser: CoarserProblems | None = None
    work: Array | None = None

    @property
    def backend(self) -> Backend:
        """Where the arrays are."""
        return self.operations.backend

    @property
    def operator(self) -> Operator:
        """A."""
        return self.operations.operator

    @property
    def described(self) -> str:
        """The method that runs, with its main settings."""
        return describe(self.settings, self.precision)

    def method_for(self, *, guess: bool) -> Method:
        """The method for a solve with or without an initial guess, which a start on the coarsest grid would not use."""
        settings = registry.method_of(self.settings).resuming(self.settings)
        if not guess or settings == self.settings:
            return self.method
        if self.resuming is None:
            given = Given(self.stand_in, settings, inner=self.inner)
            self.resuming = self.with_others(registry.make_method(given))
        return self.resuming

    def with_others(self, method: Method) -> Method:
        """The method with those that go on where it stalls, if it was not asked for but chosen."""
        if self.choice is None:
            return method

        return ChosenMethod(self.backend, self.settings, method, partial(_method, self.stand_in))

    def make_ready(self) -> None:
        """Have kernels compiled, beside each other, with which most solves begin and end."""
        operations, u, f, norms = self.operations, self.u, self.f, self.norms
        calls = [
            partial(operations.norm, f, norms),
            partial(operations.residual, u, None, f, norms),
            partial(operations.residual, u, f, u, norms),
        ]
        if self.inner:
            rounded = self.inner.backend.empty((1, 1))  # in the place of an array on the grid: nothing is written
            calls.append(partial(operations.defect, u, f, 1.0, rounded, norms))
            calls.append(partial(self.backend.fill, u, 0.0))
        self.backend.prepare(*calls)

    def take_boundary(self, discretisation: Discretisation) -> None:
        """Set `data` and `boundary`; u and f lose their values.

        The first is what A does at least to values of half the range of the boundary values, in which 0 counts where A
        sees constants, and no more than they leave beside zeros.
        """
        backend, operator = self.backend, self.operator
        least, largest = discretisation.boundary_range(backend.array_module)
        self.boundary = max(-least, largest)
        if not discretisation.absorbs_nowhere:
            least, largest = min(least, 0.0), max(largest, 0.0)
        half = largest / 2.0 - least / 2.0
        if half > 0.0:
            with discretisation.agreed():
                backend.assemble(operator.array_shape, discretisation.boundary, self.u)
            self.operations.residual(self.u, None, self.f, self.norms)
            left = self.stopping.measure(operator, backend.read(self.norms))
            self.data = min(half * smoothest(operator), left)

    @property
    def stopping(self) -> Stopping:
        """When a solve ends."""
        return replace(self.settings.stopping, data=self.data, boundary=self.boundary)

    def left_over(self, result: SolveResult) -> SolveResult:
        """What a solve left, with an array that may be overwritten in any case."""
        return result if result.work is not None else replace(result, work=self.workspace())

    def workspace(self) -> Array:
        """An array that may be overwritten between two solves."""
        if self.work is None:
            self.work = self.backend.empty(self.operator.array_shape)
        return self.work


def _method(operations: Operations, settings: SolverSettings) -> Method:
    """A method with all that it sets up."""
    return registry.make_method(Given(operations, settings))
