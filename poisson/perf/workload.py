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
    operator = laplacian_on(grid)
    transfer = Transfer(operator, coarser(backend, operator, range(grid.dimension)))
    differences = Differences.on(grid, ORDERS[-1])
    shape = grid.array_shape
    u, f, r = (random(backend, shape) for _ in range(3))
    outs = [random(backend, shape) for _ in range(grid.dimension)]
    coarse, other = (random(backend, transfer.coarse.array_shape) for _ in range(2))
    single, norms = random(backend.companion(np.float32), shape), backend.reduction()
    stand_in.laplacian(operator, u, r)
    stand_in.boundary_conditions(laplacian_on(grid, Rule.MIRROR), u, r)
    stand_in.update(operator, f, outs[0], r, u, 0.0)
    stand_in.norm(operator, r, norms)
    for result in (None, norms):
        stand_in.sweep(operator, u, f, r, 1.0, result)
    stand_in.sweep(operator, u, None, r, 1.0)
    for result in (None, norms):
        stand_in.sweeps(operator, u, f, r, [1.0] * backend.depth(operator), result)
    for result in (None, norms):
        stand_in.residual(operator, u, f, r, result)
    stand_in.fill(r, 0.5)
    stand_in.axpby(0.5, u, 0.5, r)
    stand_in.dot(operator, u, r, norms)
    stand_in.restrict(transfer, u, coarse)
    stand_in.prolong_add(transfer, coarse, r)
    stand_in.interpolate(Interpolation(transfer.coarse, operator), coarse, r)
    stand_in.color_sweep(operator, u, f, 0, 1.0)
    for result in (None, norms):
        stand_in.diagonal_solve(operator, f, r, 1.0, result)
    stand_in.direction(operator, u, 0.5, f, r, outs[0], norms)
    stand_in.advance(operator, 0.5, f, outs[0], outs[1], r, norms)
    for result in (None, norms):
        stand_in.defect(operator, u, f, 1.0, single, result)
    stand_in.correct(0.5, single, r)
    for axis in range(grid.dimension):
        stand_in.edges(operator, axis, f, True, r)
        stand_in.coarsen_edges(transfer, axis, f, coarse)
    matrix, *vectors = (random(backend, size) for size in ((math.prod(COARSEST),) * 2, COARSEST, COARSEST))
    stand_in.dense(matrix, *vectors)
    stand_in.smooth(operator, None, f, r, outs[0], [0.5, 0.9], None, (transfer, coarse))
    stand_in.smooth(operator, u, f, r, outs[0], [0.5], (transfer, coarse))
    stand_in.smooth(operator, u, f, r, outs[0], [0.5, 0.5, 0.9], (transfer, coarse), (transfer, other), norms)
    for axis in range(grid.dimension):
        stand_in.derivative(differences, axis, u, r)
    stand_in.gradient(differences, u, outs)
    return ledger


def values_needed(grid: Grid) -> int:
    """Values that the arrays of `every_operation` hold."""
    return ARRAYS * math.prod(grid.shape) + (math.prod(COARSEST) + 2) * math.prod(COARSEST)
