"""The discrete operator and a multigrid cycle as SciPy's linear operators."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.linalg import LinearOperator as ScipyOperator

from poisson import backends
from poisson.backends.base import Array, Backend
from poisson.discretisation import Discretisation
from poisson.problem import Problem, require_problem
from poisson.reference import fixed_nodes
from poisson.solvers.methods import MethodSettings, preconditioner_of

Vector = NDArray[np.float64]


class LinearOperator(ScipyOperator):
    """A u = −∇·(a∇u) + c u on the unknowns of a problem: the nodes that no Dirichlet face holds.

    Vectors have the unknowns in the order of the arrays (C order), each times the root of its trapezoidal weight: one
    half for each Neumann or Robin face that its node lies on. In these coordinates A is symmetric, with the same
    eigenvalues, and positive definite unless the problem is singular; `gather` and `scatter` go from arrays to vectors
    and back. The boundary data are in `rhs`.

    Parameters
    ----------
    problem : Problem
        Such as `Problem.on_box` makes, or that of a case.
    backend : str
        ``auto``, ``gpu``, ``openmp`` or ``numpy``: where A is applied. Vectors are NumPy arrays.
    threads : int
        Of a backend on the CPU; 0 takes all cores.

    Attributes
    ----------
    rhs : float64 vector
        The source with all boundary data: the solution of ``A x = rhs`` is that of the problem.
    preconditioner : LinearOperator of SciPy
        One multigrid cycle, symmetric: M ≈ A⁻¹.

    Examples
    --------
    >>> A = poisson.LinearOperator(problem)                                        # doctest: +SKIP
    >>> x, info = scipy.sparse.linalg.cg(A, A.rhs, M=A.preconditioner, rtol=1e-8)  # doctest: +SKIP
    >>> u = A.scatter(x)                                                           # doctest: +SKIP
    """

    def __init__(self, problem: Problem, backend: str = "auto", *, threads: int = 0) -> None:
        require_problem(problem)
        discretisation = Discretisation(problem).balanced(np)
        shape = discretisation.array_shape
        self._backend: Backend = backends.create(backend, np.float64, threads)
        self._operator = discretisation.operator_on(self._backend)
        self._grid_shape = problem.grid.array_shape
        self._free = ~fixed_nodes(self._operator)
        self._roots = np.sqrt(discretisation.weights(np, 0, shape[0]))[self._free]
        self._given = self._backend.to_host(self._backend.assemble(shape, discretisation.initial))
        self._given[self._free] = 0.0
        self._x, self._y = self._backend.empty(shape), self._backend.empty(shape)
        self._nodes = np.zeros(shape)
        super().__init__(np.dtype(np.float64), (self._roots.size,) * 2)  # type: ignore[call-arg]  # SciPy has no annotations
        f = self._backend.assemble(shape, discretisation.source)
        self._backend.residual(self._operator, self._backend.from_host(self._given), f, self._y)
        self.rhs: Vector = self._take(self._y)
        self.preconditioner: ScipyOperator = _Cycle(self)

    def gather(self, values: NDArray[Any]) -> Vector:
        """The vector of an array of the grid's shape; what is at Dirichlet nodes does not count."""
        vector: Vector = self._roots * np.asarray(values, dtype=np.float64).reshape(self._nodes.shape)[self._free]
        return vector

    def scatter(self, x: NDArray[Any]) -> NDArray[np.float64]:
        """The array of the grid's shape that belongs to a vector, with the boundary values at Dirichlet nodes."""
        values = self._given.copy()
        values[self._free] = np.ravel(x) / self._roots
        return values.reshape(self._grid_shape)

    def _matvec(self, x: NDArray[Any]) -> Vector:
        self._backend.residual(self._operator, self._put(x), None, self._y)
        return -self._take(self._y)

    def _adjoint(self) -> ScipyOperator:
        return self

    def _put(self, x: NDArray[Any]) -> Array:
        """The array on the backend that belongs to a vector, zero at Dirichlet nodes."""
        self._nodes[self._free] = np.ravel(x) / self._roots
        self._backend.axpby(1.0, self._backend.from_host(self._nodes), 0.0, self._x)
        return self._x

    def _take(self, array: Array) -> Vector:
        values: Vector = self._roots * self._backend.to_host(array)[self._free]
        return values


class _Cycle(ScipyOperator):
    """A multigrid cycle for a linear operator, in the same coordinates."""

    def __init__(self, of: LinearOperator) -> None:
        self._of = of
        self._cycle = preconditioner_of(of._backend, of._operator, MethodSettings("cg"))
        super().__init__(np.dtype(np.float64), of.shape)  # type: ignore[call-arg]  # SciPy has no annotations

    def _matvec(self, x: NDArray[Any]) -> Vector:
        assert self._cycle is not None
        self._cycle.apply(self._of._put(x), self._of._y)
        return self._of._take(self._of._y)

    def _adjoint(self) -> ScipyOperator:
        return self
