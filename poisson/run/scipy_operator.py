# SPDX-License-Identifier: MIT
"""The discrete operator and a multigrid cycle as SciPy's linear operators."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.linalg import LinearOperator as ScipyOperator

from poisson import backends
from poisson.backends.base import Array, Backend
from poisson.backends.registry import threaded
from poisson.discrete.balance import balanced
from poisson.discrete.discretisation import Discretisation
from poisson.discrete.reference import fixed_nodes
from poisson.errors import CaseError
from poisson.problem.arrays import host, is_array
from poisson.problem.problem import Problem, no_problem
from poisson.run.exclusive import Exclusive
from poisson.run.request import BackendName
from poisson.solvers import registry
from poisson.solvers.entries import Given
from poisson.solvers.settings import SolverSettings

Vector = NDArray[np.float64]
AnyVector = NDArray[np.float64] | NDArray[np.complex128]


class _RealMap(ScipyOperator):
    """A symmetric real map of vectors, applied to the real and to the imaginary part of what is complex."""

    def __init__(self, size: int) -> None:
        super().__init__(np.dtype(np.float64), (size, size))  # type: ignore[call-arg]  # SciPy has no annotations

    def dot(self, x: Any) -> Any:
        """As SciPy's, for vectors and columns in arrays of any library; SciPy would drop the mask of one.

        Examples
        --------
        >>> A = poisson.LinearOperator(poisson.Problem.on_box((3,), upper=[2.0]))
        >>> A.dot([1.0])
        array([2.])
        """
        return super().dot(host(x) if is_array(x) and not np.isscalar(x) else x)

    def _matvec(self, x: Any) -> AnyVector:
        vector = _numbers(x).ravel()
        if vector.dtype != np.complex128:
            return self._apply(vector)
        image = np.empty_like(vector)
        image.real, image.imag = self._apply(vector.real), self._apply(vector.imag)
        return image

    def _apply(self, x: Vector) -> Vector:
        """The image of a real vector."""
        raise NotImplementedError

    def _adjoint(self) -> ScipyOperator:
        return self


class LinearOperator(_RealMap):
    """A u = −∇·(a∇u) + c u on the unknowns of a problem: the nodes that no Dirichlet face holds.

    Vectors have the unknowns in the order of the arrays (C order), each times the root of its trapezoidal weight: one
    half for each Neumann or Robin face that its node lies on. In these coordinates A is symmetric, with the same
    eigenvalues, and positive definite unless the problem is singular; `gather` and `scatter` go from arrays to vectors
    and back. The boundary data are in `rhs`. Several threads may use one operator and its cycle: they take turns.

    A is real: it, its cycle, `gather` and `scatter` take the real and the imaginary part of what is complex one by one,
    and give complex128 then; all else gives float64.

    Parameters
    ----------
    problem : Problem
        Such as `Problem.on_box` makes, or that of a case.
    backend : str
        ``auto``, or one of `poisson.backends.NAMES`: where A is applied. Vectors are NumPy arrays.
    threads : int
        Of a backend on the CPU; 0 takes ``OMP_NUM_THREADS``, or else all processors that the process may use.

    Attributes
    ----------
    rhs : float64 vector
        The source with all boundary data: the solution of ``A x = rhs`` is that of the problem.
    preconditioner : LinearOperator of SciPy
        One multigrid cycle, symmetric: M ≈ A⁻¹.

    Examples
    --------
    >>> import scipy.sparse.linalg
    >>> A = poisson.LinearOperator(poisson.Problem.on_box((33, 33), f=1.0, a="1 + x"))
    >>> x, info = scipy.sparse.linalg.cg(A, A.rhs, M=A.preconditioner, rtol=1e-8)
    >>> A.shape, info, A.scatter(x).shape
    ((961, 961), 0, (33, 33))
    """

    def __init__(self, problem: Problem, backend: BackendName = "auto", *, threads: int = 0) -> None:
        if not isinstance(problem, Problem):
            raise no_problem(problem)
        if threads and not threaded(backend):
            raise CaseError(f"threads: {threads}; allowed: 0 with backend {backend!r}, which has no number of threads")
        self._made_of = problem, backend, threads
        self._exclusive = Exclusive("LinearOperator")
        discretisation = balanced(Discretisation(problem), np)
        shape = discretisation.array_shape
        self._backend: Backend = backends.create(backend, np.float64, threads)
        operator = discretisation.operator_on(self._backend)
        self._operations = self._backend.bind(operator)
        self._grid_shape = problem.lattice.array_shape
        self._free = ~fixed_nodes(operator)
        self._roots = np.sqrt(discretisation.volumes(np, 0, shape[0]))[self._free]
        self._given = self._backend.to_host(self._backend.assemble(shape, discretisation.initial))
        self._given[self._free] = 0.0
        self._x, self._y = self._backend.empty(shape), self._backend.empty(shape)
        self._nodes = np.zeros(shape)
        super().__init__(self._roots.size)
        f = self._backend.assemble(shape, discretisation.source)
        self._operations.residual(self._backend.from_host(self._given), f, self._y)
        self.rhs: Vector = self._take(self._y)
        self.preconditioner: ScipyOperator = _Cycle(self)

    def gather(self, values: Any) -> AnyVector:
        """The vector of an array of the grid's shape; what is at Dirichlet nodes does not count.

        Raises
        ------
        CaseError
            If it has another shape, masked values, or no numbers.

        Examples
        --------
        >>> A = poisson.LinearOperator(poisson.Problem.on_box((5, 5)))
        >>> A.gather(np.ones((5, 5))).shape
        (9,)
        """
        found = _numbers(values)
        if found.shape != self._grid_shape:
            raise CaseError(f"an array of the shape {found.shape}; the grid needs {self._grid_shape}")
        vector: AnyVector = self._roots * found.reshape(self._nodes.shape)[self._free]
        return vector

    def scatter(self, x: Any) -> NDArray[Any]:
        """The array of the grid's shape that belongs to a vector, with the boundary values at Dirichlet nodes.

        Raises
        ------
        CaseError
            If it has not one number for each unknown.

        Examples
        --------
        >>> A = poisson.LinearOperator(poisson.Problem.on_box((4, 4), boundary=7.0))
        >>> A.scatter([1.0, 2.0, 3.0, 4.0])
        array([[7., 7., 7., 7.],
               [7., 1., 2., 7.],
               [7., 3., 4., 7.],
               [7., 7., 7., 7.]])
        """
        found = _numbers(x)
        if found.size != self._roots.size:
            raise CaseError(f"a vector of {found.size} values; the problem has {self._roots.size} unknowns")
        values = self._given.astype(found.dtype)
        values[self._free] = found.ravel() / self._roots
        return values.reshape(self._grid_shape)

    def __reduce__(self) -> tuple[Any, ...]:
        problem, backend, threads = self._made_of
        return partial(type(self), threads=threads), (problem, backend)

    def _apply(self, x: Vector) -> Vector:
        with self._in_use():
            self._operations.residual(self._put(x), None, self._y)
            return -self._take(self._y)

    @contextmanager
    def _in_use(self) -> Iterator[None]:
        """Within, the arrays are the calling thread's alone."""
        with self._exclusive.use(), self._backend.in_use():
            yield

    def _put(self, x: Vector) -> Array:
        """The array on the backend that belongs to a vector, zero at Dirichlet nodes."""
        self._nodes[self._free] = x / self._roots
        self._backend.axpby(1.0, self._backend.from_host(self._nodes), 0.0, self._x)
        return self._x

    def _take(self, array: Array) -> Vector:
        values: Vector = self._roots * self._backend.to_host(array)[self._free]
        return values


class _Cycle(_RealMap):
    """A multigrid cycle for a linear operator, in the same coordinates."""

    def __init__(self, of: LinearOperator) -> None:
        self._of = of
        self._cycle = registry.make_preconditioner(Given(of._operations, SolverSettings(method="cg")))
        super().__init__(of.shape[0])

    def _apply(self, x: Vector) -> Vector:
        assert self._cycle is not None
        with self._of._in_use():
            self._cycle.apply(self._of._put(x), self._of._y)
            return self._of._take(self._of._y)

    def __reduce__(self) -> tuple[Any, ...]:
        return getattr, (self._of, "preconditioner")


def _numbers(given: Any) -> NDArray[Any]:
    """An array of any library, or a list, in float64, or in complex128 where it is complex."""
    values = host(given) if is_array(given) else np.asarray(given)
    if values.dtype.kind not in "fiubc":
        raise CaseError(f"values of type {values.dtype}; allowed: real or complex numbers")
    return values.astype(np.complex128 if values.dtype.kind == "c" else np.float64, copy=False)
