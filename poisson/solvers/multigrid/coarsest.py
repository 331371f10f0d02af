"""The inverse of the operator on the coarsest grid, as a matrix, computed on the host."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from poisson.backends.base import Backend
from poisson.discrete.operator import Operator
from poisson.mesh.boundary import Rule
from poisson.solvers.spectrum import hardly_holds_constants

Matrix = NDArray[np.float64]


def inverse(backend: Backend, operator: Operator) -> Matrix:
    """A⁻¹ on all nodes in C order, with zero rows and columns for fixed ones.

    For a singular A it is the pseudo-inverse in the inner product of the trapezoidal weights: it gives the solution of
    zero mean for a source less its mean.
    """
    if not operator.varies:
        return _separated(operator)
    weights = _weights(operator, 0)
    for axis in range(1, operator.dimension):
        weights = np.outer(_weights(operator, axis), weights).ravel()
    free = np.flatnonzero(weights)
    root = np.sqrt(weights[free])
    symmetric = root[:, None] * _matrix(backend, operator)[np.ix_(free, free)] / root
    symmetric = (symmetric + symmetric.T) / 2.0
    if operator.singular or hardly_holds_constants(operator):
        # Along constants A is given the mean of its diagonal, whose inverse is taken away again.
        null = np.outer(root, root) / (root @ root)
        scale = float(np.trace(symmetric)) / free.size
        part = np.linalg.inv(symmetric + scale * null) - null / scale
        if not operator.singular:
            # Their own eigenvalue, the mean of c, is lost in a matrix.
            c = (
                operator.c
                if operator.reaction is None
                else backend.to_host(operator.reaction).astype(np.float64).ravel()
            )
            part += null / float(np.average(np.broadcast_to(c, weights.shape), weights=weights))
    else:
        part = np.linalg.inv(symmetric)
    result = np.zeros((weights.size, weights.size))
    result[np.ix_(free, free)] = part / root[:, None] * root
    return result


def _weights(operator: Operator, axis: int) -> Matrix:
    """The trapezoidal weights along an axis, and zero for fixed nodes."""
    weights = np.ones(operator.shape[axis])
    for node, rule in zip((0, -1), operator.axis_rules(axis), strict=True):
        weights[node] *= {Rule.FIXED: 0.0, Rule.MIRROR: 0.5, Rule.WRAP: 1.0}[rule]
    return weights


def _neighbours(operator: Operator, axis: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The lower and the upper neighbour of every node along an axis."""
    index = np.arange(operator.shape[axis])
    lower, upper = (index - 1) % index.size, (index + 1) % index.size
    if operator.axis_rules(axis)[0] is not Rule.WRAP:
        lower[0], upper[-1] = index[1], index[-2]
    return lower, upper


def _separated(operator: Operator) -> Matrix:
    """The inverse for constant coefficients, from the eigenvectors of each axis: A is a sum of Kronecker products."""
    values = np.full(1, operator.c)
    vectors: Matrix = np.ones((1, 1))
    inverses: list[Matrix] = []
    for axis in range(operator.dimension):
        eigenvalues, columns, rows = _eigenvectors(operator, axis)
        values = np.add.outer(eigenvalues, values).ravel()
        vectors = np.asarray(np.kron(columns, vectors), dtype=np.float64)
        inverses.append(rows)
    product = vectors * np.divide(1.0, values, out=np.zeros_like(values), where=values != 0.0)
    # V diag(1/λ) times V⁻¹, which is again a Kronecker product: one axis after the other, the slowest first.
    product = product.reshape(len(product), *(len(rows) for rows in reversed(inverses)))
    for rows in reversed(inverses):
        product = np.tensordot(product, rows, axes=(1, 0))
    return np.ascontiguousarray(product.reshape(len(product), -1))


def _eigenvectors(operator: Operator, axis: int) -> tuple[Matrix, Matrix, Matrix]:
    """The eigenvalues of the part of A along an axis, its eigenvectors in columns, and the rows of their inverse."""
    nodes, weight = operator.shape[axis], operator.weights[axis]
    weights = _weights(operator, axis)
    matrix = np.zeros((nodes, nodes))
    if nodes > 1:
        matrix += 2.0 * weight * np.eye(nodes)
        for neighbour in _neighbours(operator, axis):
            np.add.at(matrix, (np.arange(nodes), neighbour), -weight)
    free = np.flatnonzero(weights)
    root = np.sqrt(weights[free])
    symmetric = root[:, None] * matrix[np.ix_(free, free)] / root
    eigenvalues, vectors = np.linalg.eigh((symmetric + symmetric.T) / 2.0)
    if free.size == nodes:
        # Of the constants, with no fixed node. Rounding would hide a small c, or the weakly coupled modes of others.
        eigenvalues[0] = 0.0
    columns, rows = np.zeros((nodes, free.size)), np.zeros((free.size, nodes))
    columns[free], rows[:, free] = vectors / root[:, None], vectors.T * root
    return eigenvalues, columns, rows


def _matrix(backend: Backend, operator: Operator) -> Matrix:
    """A on all nodes in C order; the rows of fixed nodes have no meaning."""
    numbers = np.arange(math.prod(operator.shape)).reshape(operator.array_shape)
    matrix = np.zeros((numbers.size, numbers.size))
    reaction = operator.reaction
    c = operator.c if reaction is None else backend.to_host(reaction).astype(np.float64).ravel()
    matrix[numbers.ravel(), numbers.ravel()] = c
    for axis, weight in enumerate(operator.weights):
        if weight == 0.0 or operator.shape[axis] == 1:
            continue
        place = operator.dimension - 1 - axis
        lower, upper = _neighbours(operator, axis)
        edges = np.ones(operator.array_shape)
        if operator.edges is not None:
            edges = backend.to_host(operator.edges[axis]).astype(np.float64)
        below = lower.copy()
        above = np.arange(operator.shape[axis])
        if operator.axis_rules(axis)[0] is not Rule.WRAP:
            below[0], above[-1] = 0, operator.shape[axis] - 2
        for neighbour, link in ((lower, below), (upper, above)):
            strength = weight * np.take(edges, link, axis=place).ravel()
            others = np.take(numbers, neighbour, axis=place).ravel()
            np.add.at(matrix, (numbers.ravel(), others), -strength)
            matrix[numbers.ravel(), numbers.ravel()] += strength
    return matrix
