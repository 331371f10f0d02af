# SPDX-License-Identifier: MIT
"""The inverse of the operator on the coarsest grid, as a matrix, computed on the host."""

import math

import numpy as np
from numpy.typing import NDArray

from poisson.backends.base import Operations
from poisson.discrete.operator import Operator
from poisson.solvers.spectrum import nearly_singular

Matrix = NDArray[np.float64]

BLOCK = 32
"""Rows of a block of a matrix that is inverted, about."""


def inverse(operations: Operations, short_waves: float = 0.0) -> Matrix:
    """A⁻¹ + `short_waves` / diag(A) on all nodes in C order, with zero rows and columns for fixed ones.

    For a singular A it is the pseudo-inverse in the inner product of the trapezoidal weights: it gives the solution of
    zero mean for a source less its mean.
    """
    backend, operator = operations.backend, operations.operator
    numbers = np.arange(math.prod(operator.shape)).reshape(operator.array_shape)
    free = numbers[operator.lattice.free].ravel()
    if not operator.varies:
        result = _separated(operator)
        if short_waves:
            result[free, free] += short_waves / _diagonal(operator)[free]
        return result
    volumes = operator.lattice.volumes().ravel()
    if operator.fixed:
        free = free[backend.to_host(operator.reaction).ravel()[free] >= 0.0]
    if not free.size:
        return np.zeros((volumes.size, volumes.size))
    root = np.sqrt(volumes[free])
    symmetric = root[:, None] * _matrix(operations)[np.ix_(free, free)] / root
    symmetric = (symmetric + symmetric.T) / 2.0
    bandwidth, diagonal = _bandwidth(operator), symmetric.diagonal().copy()
    if operator.singular or nearly_singular(operator):
        # Where one node is pinned, A has an inverse; what that has along constants is taken away.
        pinned = int(symmetric.diagonal().argmax())
        symmetric[pinned, pinned] *= 2.0
        part, unit = _inverse(symmetric, bandwidth), root / np.linalg.norm(root)
        # A product of this size would be one for the threads of BLAS.
        along = (part * unit).sum(axis=1)
        along -= (along @ unit / 2.0) * unit
        removed = np.outer(along, unit)
        part -= removed + removed.T
        if not operator.singular:
            # Their own eigenvalue, the mean of c, is lost in a matrix.
            c = (
                operator.c
                if operator.reaction is None
                else backend.to_host(operator.reaction).astype(np.float64).ravel()
            )
            part += np.outer(unit, unit) / float(np.average(np.broadcast_to(c, volumes.shape), weights=volumes))
    else:
        part = _inverse(symmetric, bandwidth)
    if short_waves:
        part[np.diag_indices_from(part)] += short_waves / diagonal
    result = np.zeros((volumes.size, volumes.size))
    result[np.ix_(free, free)] = part / root[:, None] * root
    return result


def _bandwidth(operator: Operator) -> int:
    """How far from the diagonal A has entries in C order, without fixed nodes."""
    free = [len(range(axis.nodes)[axis.free]) for axis in operator.lattice.axes]
    slowest = max((axis for axis, nodes in enumerate(operator.shape) if nodes > 1), default=0)
    wraps = operator.lattice.axes[slowest].wraps
    return math.prod(free if wraps else free[:slowest])


def _inverse(matrix: Matrix, bandwidth: int) -> Matrix:
    """The inverse of a symmetric positive definite matrix, block by block.

    The blocks are at least as long as the band is wide, so that the matrix has nothing beyond those next to its
    diagonal. That takes less than a general inverse, and products so small that BLAS leaves them to one thread.
    """
    size = len(matrix)
    step = bandwidth * max(1, BLOCK // bandwidth)
    starts = range(0, size, step)
    pivots, factors = [np.linalg.inv(matrix[:step, :step])], []
    for start in starts[1:]:
        here, before = slice(start, start + step), slice(start - step, start)
        factors.append(matrix[here, before] @ pivots[-1])
        pivots.append(np.linalg.inv(matrix[here, here] - factors[-1] @ matrix[before, here]))
    result = np.zeros_like(matrix)
    result[starts[-1] :, starts[-1] :] = pivots.pop()
    for start, factor, pivot in zip(starts[-2::-1], factors[::-1], pivots[::-1], strict=True):
        here, next_one, rest = (
            slice(start, start + step),
            slice(start + step, start + 2 * step),
            slice(start + step, size),
        )
        result[here, rest] = -(factor.T @ result[next_one, rest])
        result[rest, here] = result[here, rest].T
        result[here, here] = pivot - factor.T @ result[next_one, here]
    return result


def _separated(operator: Operator) -> Matrix:
    """The inverse for constant coefficients, from the eigenvectors of each axis: A is a sum of Kronecker products."""
    values = np.full(1, operator.c)
    vectors: Matrix = np.ones((1, 1))
    inverses: list[Matrix] = []
    for axis, coupling in zip(operator.lattice.axes, operator.couplings, strict=True):
        eigenvalues, columns, rows = axis.eigenvectors
        values = np.add.outer(coupling * eigenvalues, values).ravel()
        vectors = np.asarray(np.kron(columns, vectors), dtype=np.float64)
        inverses.append(rows)
    product = vectors * np.divide(1.0, values, out=np.zeros_like(values), where=values != 0.0)
    # V diag(1/λ) times V⁻¹, which is again a Kronecker product: one axis after the other, the slowest first.
    product = product.reshape(len(product), *(len(rows) for rows in reversed(inverses)))
    for rows in reversed(inverses):
        product = np.tensordot(product, rows, axes=(1, 0))
    return np.ascontiguousarray(product.reshape(len(product), -1))


def _diagonal(operator: Operator) -> NDArray[np.float64]:
    """The diagonal of A for constant coefficients, on all nodes in C order."""
    values = np.full(1, operator.c)
    for axis, coupling in enumerate(operator.couplings):
        values = np.add.outer(coupling * np.sum(operator.along(axis), axis=0), values).ravel()
    return values


def _matrix(operations: Operations) -> Matrix:
    """A on all nodes in C order; the rows of fixed nodes have no meaning."""
    backend, operator = operations.backend, operations.operator
    numbers = np.arange(math.prod(operator.shape)).reshape(operator.array_shape)
    matrix = np.zeros((numbers.size, numbers.size))
    reaction = operator.reaction
    c = operator.c if reaction is None else backend.to_host(reaction).astype(np.float64).ravel()
    matrix[numbers.ravel(), numbers.ravel()] = c
    for axis, (line, coupling) in enumerate(zip(operator.lattice.axes, operator.couplings, strict=True)):
        if coupling == 0.0:
            continue
        place = operator.lattice.array_axis(axis)
        links = np.ones(operator.array_shape)
        if operator.links is not None:
            links = backend.to_host(operator.links[axis]).astype(np.float64)
        *beside, extra = (operator.lattice.along(axis, coupling * values) for values in operator.along(axis))
        on_walls = np.zeros(operator.array_shape)
        for neighbour, link, part in zip(line.neighbours, line.link_numbers, beside, strict=True):
            through = np.take(links, link, axis=place)
            strength = (part * through).ravel()
            others = np.take(numbers, neighbour, axis=place).ravel()
            np.add.at(matrix, (numbers.ravel(), others), -strength)
            matrix[numbers.ravel(), numbers.ravel()] += strength
            on_walls = on_walls + through / 2.0
        matrix[numbers.ravel(), numbers.ravel()] += (extra * on_walls).ravel()
    return matrix
