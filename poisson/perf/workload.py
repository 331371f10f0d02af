"""Every operation once, on random data: what measurements of all operations run."""

from __future__ import annotations

import math
from types import ModuleType
from typing import Any

import numpy as np

from poisson.backends.base import Array, Backend, Slab
from poisson.backends.ledger import Ledger, counted
from poisson.discrete.discretisation import Operator
from poisson.discrete.transfer import Interpolation, Transfer
from poisson.errors import ResourceError
from poisson.mesh.boundary import Rule
from poisson.mesh.differences import ORDERS, Differences
from poisson.mesh.grid import Grid
from poisson.solvers.multigrid.hierarchy import coarser

ARRAYS = 8
"""Arrays of the grid's size that `every_operation` holds at the most."""
COARSEST = (20, 20)
"""The grid of the product with a matrix: a matrix for all nodes of a larger one would fit no memory."""


def box(shape: tuple[int, ...]) -> Grid:
    """The unit square or cube with nodes on its faces."""
    dimension = len(shape)
    return Grid((0.0,) * dimension, (1.0,) * dimension, shape, (False,) * dimension)


def laplacian_on(grid: Grid, rule: Rule = Rule.FIXED) -> Operator:
    """−∇² with the same rule on all faces."""
    return Operator.uniform(grid.shape, grid.spacing, 0.0, (rule,) * (2 * grid.dimension))


def require_room(backend: Backend, values: float, what: str, fix: str) -> None:
    """Refuse a measurement whose arrays do not fit.

    Parameters
    ----------
    backend : Backend
        Where they would be.
    values : float
        How many values of its type they hold, together.
    what, fix : str
        What they are, and what to choose instead, for the message.

    Raises
    ------
    ResourceError
        If more than the free memory would be needed.
    """
    needed, memory = values * backend.dtype.itemsize, backend.memory()
    if memory is not None and needed > memory[0]:
        raise ResourceError(f"{what} take {needed / 1e9:.3g} GB, and {memory[0] / 1e9:.3g} GB are free: choose {fix}")


def random(backend: Backend, array_shape: tuple[int, ...]) -> Array:
    """An array of random values between 0 and 1."""
    return backend.assemble(array_shape, _random_slab(array_shape))


def _random_slab(array_shape: tuple[int, ...]) -> Slab:
    def slab(xp: ModuleType, start: int, stop: int) -> Any:
        return xp.random.random((stop - start, *array_shape[1:]))

    return slab


def every_operation(backend: Backend, grid: Grid) -> Ledger:
    """Run every operation once, the composites too, and write down how to run it again.

    Parameters
    ----------
    backend : Backend
        Where.
    grid : Grid
        Not periodic, with at least 9 nodes along each axis.
    """
    stand_in, ledger = counted(backend)
    operations = stand_in.bind(laplacian_on(grid))
    operator = operations.operator
    transfer = stand_in.bind(Transfer(operator, coarser(backend, operator, range(grid.dimension))))
    coarse_operator = transfer.transfer.coarse
    differences = stand_in.bind(Differences.on(grid, ORDERS[-1]))
    shape = grid.array_shape
    u, f, r = (random(backend, shape) for _ in range(3))
    outs = [random(backend, shape) for _ in range(grid.dimension)]
    coarse, other = (random(backend, coarse_operator.array_shape) for _ in range(2))
    single, norms = random(backend.companion(np.float32), shape), backend.reduction()
    operations.laplacian(u, r)
    stand_in.bind(laplacian_on(grid, Rule.MIRROR)).boundary_conditions(u, r)
    operations.update(f, outs[0], r, u, 0.0)
    operations.norm(r, norms)
    for result in (None, norms):
        operations.sweep(u, f, r, 1.0, result)
    operations.sweep(u, None, r, 1.0)
    for result in (None, norms):
        operations.sweeps(u, f, r, [1.0] * operations.depth(), result)
    for result in (None, norms):
        operations.residual(u, f, r, result)
    stand_in.fill(r, 0.5)
    stand_in.axpby(0.5, u, 0.5, r)
    operations.dot(u, r, norms)
    transfer.restrict(u, coarse)
    transfer.prolong_add(coarse, r)
    stand_in.bind(Interpolation(coarse_operator, operator)).interpolate(coarse, r)
    operations.color_sweep(u, f, 0, 1.0)
    for result in (None, norms):
        operations.diagonal_solve(f, r, 1.0, result)
    operations.direction(u, 0.5, f, r, outs[0], norms)
    operations.advance(0.5, f, outs[0], outs[1], r, norms)
    for result in (None, norms):
        operations.defect(u, f, 1.0, single, result)
    stand_in.correct(0.5, single, r)
    for axis in range(grid.dimension):
        operations.links(axis, f, True, r)
        transfer.coarsen_links(axis, f, coarse)
    matrix, *vectors = (random(backend, size) for size in ((math.prod(COARSEST),) * 2, COARSEST, COARSEST))
    stand_in.dense(matrix, *vectors)
    operations.smooth(None, f, r, outs[0], [0.5, 0.9], None, (transfer, coarse))
    operations.smooth(u, f, r, outs[0], [0.5], (transfer, coarse))
    operations.smooth(u, f, r, outs[0], [0.5, 0.5, 0.9], (transfer, coarse), (transfer, other), norms)
    for axis in range(grid.dimension):
        differences.derivative(axis, u, r)
    differences.gradient(u, outs)
    return ledger


def values_needed(grid: Grid) -> int:
    """Values that the arrays of `every_operation` hold."""
    return ARRAYS * math.prod(grid.shape) + (math.prod(COARSEST) + 2) * math.prod(COARSEST)
