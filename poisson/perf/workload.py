# SPDX-License-Identifier: MIT
"""Calls of every operation on random data, made from the entries: what measurements of all operations run."""

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cached_property, partial
from itertools import count, product
from types import ModuleType
from typing import Any

import numpy as np

from poisson.backends.base import Array, Backend, Slab
from poisson.backends.ledger import Ledger, counted
from poisson.backends.operations import ALL, ARRAYS, DIRECT, Argument, OperationSpec, Role
from poisson.discrete.clusters import Clusters
from poisson.discrete.discretisation import Operator
from poisson.discrete.full_stencil import FullStencil, StencilTransfer, offsets_of
from poisson.discrete.sparse_rows import SparseRows
from poisson.discrete.transfer import Interpolation, Transfer
from poisson.errors import ResourceError
from poisson.mesh.axis import Axis
from poisson.mesh.boundary import Kind
from poisson.mesh.differences import ORDERS, Differences
from poisson.mesh.lattice import Lattice
from poisson.mesh.placement import Nodes
from poisson.solvers.multigrid.hierarchy import coarser

MOST_ARRAYS = 8
"""Arrays of the grid's size that `every_operation` holds at the most."""
MEASURED = frozenset(
    name
    for name, spec in ALL.items()
    if name not in DIRECT and spec.subject not in (FullStencil, StencilTransfer, Clusters, SparseRows)
)
"""The operations that `every_operation` runs: not those of full stencils, whose coefficients take many arrays, nor of
what goes with these, nor direct solutions, which `poisson.perf.benchmark.solve` measures."""
FULL_ARRAYS = 16
"""Arrays of the grid's size that `every_full_operation` holds at the most, half of them of float32 coefficients."""
STRONG = 0.06
"""The threshold of its clusters: few of its links, and those of small groups, are above it."""
COARSEST = (20, 20)
"""The grid of the product with a matrix: a matrix for all nodes of a larger one would fit no memory."""


def box(shape: tuple[int, ...]) -> Lattice:
    """The unit square or cube with nodes on its faces."""
    dimension = len(shape)
    return Lattice.box((0.0,) * dimension, (1.0,) * dimension, shape)


def stretched(shape: tuple[int, ...]) -> Lattice:
    """Nodes on the faces of the unit square or cube, closer together near them: the axes are tabulated."""
    ends = Kind.DIRICHLET, Kind.DIRICHLET
    lines = (np.tanh(np.linspace(-1.0, 1.0, nodes)) / math.tanh(1.0) for nodes in shape)
    return Lattice(tuple(Axis.placed(Nodes((1.0 + line) / 2.0, ends)) for line in lines))


def laplacian_on(grid: Lattice, kind: Kind = Kind.DIRICHLET) -> Operator:
    """−∇² with the same kind of condition on all faces."""
    return Operator(grid.facing((kind,) * (2 * grid.dimension)))


def require_room(backend: Backend, values: float, what: str, fix: str) -> None:
    """Refuse a measurement whose arrays of so many values together do not fit, and say what they are and the fix.

    Raises `ResourceError` if more than the free memory would be needed.
    """
    needed, memory = values * backend.dtype.itemsize, backend.memory()
    if memory is not None and needed > memory[0]:
        raise ResourceError(f"{what} need {needed / 1e9:.3g} GB, and {memory[0] / 1e9:.3g} GB are free: choose {fix}")


def random(backend: Backend, array_shape: tuple[int, ...]) -> Array:
    """An array of random values between 0 and 1."""
    return backend.assemble(array_shape, _random_slab(array_shape))


def _random_slab(array_shape: tuple[int, ...]) -> Slab:
    def slab(xp: ModuleType, start: int, stop: int) -> Any:
        return xp.random.random((stop - start, *array_shape[1:]))

    return slab


class Workload:
    """Calls of operations on random data, put together from what the entries say of their arguments.

    An array that is only read is never one that an operation writes, so its values stay between 0 and 1. The grid of
    the operator has at least 9 nodes along each axis; operations between grids go to the next coarser one and back.
    """

    def __init__(self, backend: Backend, operator: Operator) -> None:
        self._backend = backend
        self._single = backend.companion(np.float32)
        self._operator = operator
        self._arrays: dict[tuple[Any, ...], Array] = {}
        self._result = backend.reduction()

    def on(self, operator: Operator) -> "Workload":
        """The same arrays with another operator of the grid."""
        other = Workload(self._backend, operator)
        other._arrays = self._arrays
        return other

    def calls(self, name: str, *, without: bool = False) -> Iterator[Callable[..., None]]:
        """Calls of an operation that differ in what is measured apart: the axis, and whether there is a result.

        `name`: one of `MEASURED`, but ``smooth``. `without`: whether there are to be calls without the arrays that are
        optional, too. Returns: each makes its call; arguments that it is given by name take the place of its own.
        """
        spec = ALL[name]
        operation = getattr(self._backend if spec.subject is None else self.bound(spec.subject), spec.method)
        read, written = count(), count()
        choices = [
            self._choices(spec, argument, next(read if argument.role is Role.READ else written), without)
            for argument in spec.arguments
        ]
        for values in product(*choices):
            yield partial(operation, **dict(zip(spec.names, values, strict=True)))

    def bound(self, kind: type) -> Any:
        """The operations of a subject of a kind on this grid."""
        return self._backend.bind(self._subject(kind))

    def _subject(self, kind: type) -> Any:
        operator = self._operator
        if kind is Operator:
            return operator
        if kind is Differences:
            return Differences(operator.lattice, ORDERS[-1])
        return Transfer(operator, self._coarse) if kind is Transfer else Interpolation(self._coarse, operator)

    @cached_property
    def _coarse(self) -> Operator:
        return coarser(self._backend, self._operator, range(self._operator.dimension))

    def _choices(self, spec: OperationSpec, argument: Argument, number: int, without: bool) -> tuple[Any, ...]:
        """The choices for an argument; arrays of one kind on one grid have different numbers."""
        role, dimension = argument.role, self._operator.dimension
        subject = None if spec.subject is None else self._subject(spec.subject)
        shape = getattr(subject, argument.grid).array_shape if argument.grid else self._operator.array_shape
        if any(other.role is Role.MATRIX for other in spec.arguments):
            shape = COARSEST
        if role is Role.OUTPUTS:
            return ([self.array(shape, role, axis) for axis in range(dimension)],)
        if role is Role.SPARE:
            return (None,) if argument.optional else (self.array(shape, Role.WRITTEN),)
        if role in ARRAYS:
            array = self.array(shape, role, number, single=argument.single)
            return (array, None) if argument.optional and without else (array,)
        if role is Role.RESULT:
            return (None, self._result) if argument.optional else (self._result,)
        values: dict[Role, tuple[Any, ...]] = {
            Role.AXIS: tuple(range(dimension)),
            Role.NUMBER: (0.5,),
            Role.COLOR: (0,),
            Role.FLAG: (True,),
        }
        if role is Role.MATRIX:
            return (self.array((math.prod(COARSEST),) * 2, Role.READ),)
        return values[role] if role in values else ((1.0,) * self.bound(Operator).depth(),)

    def array(self, shape: tuple[int, ...], role: Role = Role.READ, number: int = 0, *, single: bool = False) -> Array:
        """An array of random values of this grid, one of those that are read or one of those that are written."""
        key = (shape, role is Role.READ, number, single)
        if key not in self._arrays:
            self._arrays[key] = random(self._single if single else self._backend, shape)
        return self._arrays[key]


def every_operation(backend: Backend, grid: Lattice) -> Ledger:
    """Run every operation once, the composites too, and write down how to run it again.

    The grid is not periodic and has at least 9 nodes along each axis.
    """
    stand_in, ledger = counted(backend)
    workload = Workload(stand_in, laplacian_on(grid))
    # Nodes that are fixed have conditions that read nothing.
    mirrored = workload.on(laplacian_on(grid, Kind.NEUMANN))
    for name in (name for name in ALL if name in MEASURED and name != "smooth"):
        for call in (mirrored if name == "boundary_conditions" else workload).calls(name):
            call()
    next(workload.calls("sweep"))(f=None)
    operations, transfer = workload.bound(Operator), workload.bound(Transfer)
    f, (u, out, work) = (
        workload.array(grid.array_shape),
        (workload.array(grid.array_shape, Role.WRITTEN, number) for number in range(3)),
    )
    coarse_shape = transfer.transfer.coarse.array_shape
    above, below = (transfer, workload.array(coarse_shape)), (transfer, workload.array(coarse_shape, Role.WRITTEN))
    operations.smooth(None, f, out, work, [0.5, 0.9], None, below)
    operations.smooth(u, f, out, work, [0.5], above)
    operations.smooth(u, f, out, work, [0.5, 0.5, 0.9], above, below, backend.reduction())
    return ledger


def every_full_operation(backend: Backend, grid: Lattice) -> Ledger:
    """The same with the operations of a full stencil, of weights along all axes, of clusters and of sparse rows.

    Coefficients and weights are float32.
    """
    stand_in, ledger = counted(backend)
    single, lattice, result = backend.companion(np.float32), laplacian_on(grid).lattice, backend.reduction()
    stencil = random_stencil(single, lattice)
    transfer = StencilTransfer(stencil, (True,) * lattice.dimension)
    transfer = replace(transfer, weights=single.empty(transfer.table.array_shape))
    operations, between = stand_in.bind(stencil), stand_in.bind(transfer)
    u, f, out, q = (random(backend, lattice.array_shape) for _ in range(4))
    coarse = random(backend, transfer.coarse.array_shape)
    for norms in (None, result):
        operations.residual(u, f, out, norms)
        operations.sweep(u, f, out, 0.5, norms)
        operations.diagonal_solve(f, out, 0.5, norms)
    operations.color_sweep(out, f, 0, 0.5)
    operations.direction(u, 0.5, f, out, q, result)
    between.interpolation(transfer.weights, False)
    between.galerkin(single.empty(transfer.product.array_shape))
    between.restrict(f, coarse)
    between.prolong_add(coarse, out)
    stand_in.bind(operations.clusters(STRONG)).correct_clusters(f, out)
    stand_in.bind(some_rows(lattice)).replace_rows(f, u, out)
    return ledger


def some_rows(lattice: Lattice) -> SparseRows:
    """Rows at one of fifty nodes, which look at the next one."""
    nodes = np.arange(0, lattice.nodes - 1, 50)
    ones = np.ones(nodes.size)
    return SparseRows.of(lattice, nodes, 0.5 * ones, 0.0 * ones, [(nodes + 1, 0.5 * ones)])


def random_stencil(backend: Backend, lattice: Lattice) -> FullStencil:
    """A full stencil with all links; their values are between 0 and 1, as is the excess."""
    plain = FullStencil(lattice, offsets_of(lattice.dimension))

    def slab(xp: ModuleType, start: int, stop: int) -> Any:
        values = xp.random.random((stop - start, *lattice.array_shape))
        for array, offset in zip(values, ((), *plain.offsets)[start:stop], strict=True):
            for axis, step in enumerate(offset):
                if step and not lattice.axes[axis].wraps:
                    array[lattice.face(2 * axis + (step > 0))] = 0.0
        return values

    return replace(plain, coefficients=backend.assemble(plain.stack.array_shape, slab))


def values_needed(grid: Lattice, full: bool = False) -> int:
    """Values that the arrays of `every_operation` hold, or of `every_full_operation`."""
    if full:
        return FULL_ARRAYS * math.prod(grid.shape)
    return MOST_ARRAYS * math.prod(grid.shape) + (math.prod(COARSEST) + 2) * math.prod(COARSEST)
