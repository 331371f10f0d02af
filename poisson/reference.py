"""The same discrete operator as a scipy.sparse matrix, and its direct solution: what all else is verified against."""

from __future__ import annotations

import math
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from poisson.boundary import Rule
from poisson.discretisation import Discretisation, Operator
from poisson.errors import ResourceError
from poisson.grid import slabs

MAX_UNKNOWNS_2D = 1_100_000
MAX_UNKNOWNS_3D = 50_000
"""Above these the factors of a sparse direct solution no longer fit in a few gigabytes or a few minutes."""


def matrix(operator: Operator) -> Any:
    """A on all nodes, x fastest; rows of fixed nodes are zero.

    Returns
    -------
    scipy.sparse CSR array, shape ``(nodes, nodes)``, float64, in 1/L².
    """
    from scipy import sparse

    terms = [operator.c * sparse.eye_array(math.prod(operator.shape), format="csr")] if operator.c else []
    for axis, nodes in enumerate(operator.shape):
        factors = [sparse.eye_array(count, format="csr") for count in operator.shape]
        factors[axis] = operator.weights[axis] * _second_difference(nodes, operator.axis_rules(axis))
        terms.append(reduce(lambda left, right: sparse.kron(right, left, format="csr"), factors))
    a = sum(terms[1:], terms[0])
    free = sparse.diags_array((~fixed_nodes(operator)).ravel().astype(np.float64))
    return sparse.csr_array(free @ a)


def _second_difference(nodes: int, rules: tuple[Rule, Rule]) -> Any:
    """Rows of (2, −1, −1) along one axis, with the neighbours across the faces by their rules."""
    from scipy import sparse

    index = np.arange(nodes)
    lower, upper = index - 1, index + 1
    lower[0] = nodes - 1 if rules[0] is Rule.WRAP else 1
    upper[-1] = 0 if rules[1] is Rule.WRAP else nodes - 2
    rows = np.concatenate([index, index, index])
    columns = np.concatenate([index, lower, upper])
    values = np.concatenate([np.full(nodes, 2.0), np.full(2 * nodes, -1.0)])
    return sparse.csr_array(sparse.coo_array((values, (rows, columns)), shape=(nodes, nodes)))


def fixed_nodes(operator: Operator) -> NDArray[np.bool_]:
    """Where nodes are fixed, in the array's shape."""
    fixed = np.zeros(operator.array_shape, dtype=bool)
    for face, rule in enumerate(operator.rules):
        if rule is Rule.FIXED:
            place = operator.dimension - 1 - face // 2
            fixed[(slice(None),) * place + (-1 if face % 2 else 0,)] = True
    return fixed


def assemble(discretisation: Discretisation) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The source with its face terms, and the initial guess with the boundary values: arrays of the grid's shape."""
    shape = discretisation.operator.array_shape
    source, initial = np.empty(shape), np.empty(shape)
    for start, stop in slabs(shape):
        source[start:stop] = discretisation.source(np, start, stop)
        initial[start:stop] = discretisation.initial(np, start, stop)
    return source, initial


def require_size(operator: Operator) -> None:
    """Refuse a grid that is too large for the direct solution.

    Raises
    ------
    ResourceError
        If the grid has more unknowns than the limit of its dimension.
    """
    limit = MAX_UNKNOWNS_2D if operator.dimension == 2 else MAX_UNKNOWNS_3D
    if operator.unknowns > limit:
        raise ResourceError(
            f"the grid has {operator.unknowns:,} unknowns, and the sparse direct reference stops at {limit:,} in "
            f"{operator.dimension}D: verify on a smaller domain.shape"
        )


def solve(discretisation: Discretisation) -> NDArray[np.float64]:
    """Solve the discrete problem directly.

    A singular problem must be balanced (`Discretisation.balanced`); its solution has zero trapezoidal mean.

    Returns
    -------
    Array of the grid's shape, float64, in U.

    Raises
    ------
    ResourceError
        If the grid is too large.
    """
    from scipy import sparse
    from scipy.sparse.linalg import spsolve

    operator = discretisation.operator
    require_size(operator)
    source, u = assemble(discretisation)
    free = ~fixed_nodes(operator).ravel()
    a = matrix(operator)
    inner = a[free][:, free]
    # Rows times the trapezoidal weights make the matrix symmetric, which the minimum-degree ordering likes.
    weights = np.concatenate(
        [discretisation.weights(np, start, stop).ravel() for start, stop in slabs(operator.array_shape)]
    )[free]
    right = weights * (source.ravel() - a @ (u.ravel() * ~free))[free]
    inner = sparse.diags_array(weights) @ inner
    if operator.singular:
        # One unknown pinned to zero leaves a regular system with the same solution up to a constant.
        solution = np.zeros(right.size)
        solution[1:] = spsolve(sparse.csc_array(inner[1:, 1:]), right[1:], permc_spec="MMD_AT_PLUS_A")
        solution -= (weights * solution).sum() / weights.sum()
    else:
        solution = spsolve(sparse.csc_array(inner), right, permc_spec="MMD_AT_PLUS_A")
    flat = u.ravel()
    flat[free] = solution
    return flat.reshape(operator.array_shape)
