# SPDX-License-Identifier: MIT
"""The same discrete operator as a scipy.sparse matrix, and its direct solution: what all else is verified against."""

import math
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from poisson.discrete.discretisation import Discretisation, Operator, Slab
from poisson.errors import ResourceError
from poisson.mesh.axis import Axis
from poisson.mesh.boundary import Rule
from poisson.mesh.grid import slabs

MAX_UNKNOWNS_2D = 1_100_000
MAX_UNKNOWNS_3D = 50_000
"""Above these the factors of a sparse direct solution no longer fit in a few gigabytes or a few minutes."""


def matrix(operator: Operator) -> Any:
    """A on all nodes, x fastest; rows of fixed nodes are zero.

    Where a is constant it is a Kronecker sum; where a varies, each link between two nodes adds what flows through it to
    the balances of both.

    `operator`: coefficients that vary are NumPy arrays, such as `operator_of` makes. Returns: scipy.sparse CSR array,
    shape ``(nodes, nodes)``, float64, in 1/L².
    """
    from scipy import sparse

    reaction = np.full(math.prod(operator.shape), operator.c) if operator.reaction is None else operator.reaction
    terms = [sparse.diags_array(reaction.ravel(), format="csr")] if operator.c or operator.varies else []
    for axis, nodes in enumerate(operator.shape):
        if operator.links is not None or operator.lattice.axes[axis].tabulated:
            constant = np.full(operator.array_shape, operator.a)
            terms.append(_links(operator, axis, constant if operator.links is None else operator.links[axis]))
            continue
        factors = [sparse.eye_array(count, format="csr") for count in operator.shape]
        factors[axis] = operator.couplings[axis] * _second_difference(nodes, operator.lattice.axes[axis].rules)
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


def _links(operator: Operator, axis: int, coefficients: NDArray[np.float64]) -> Any:
    """W⁻¹ (Gᵀ E G + walls) / h² along an axis: G takes differences over links, E has their coefficients over their
    lengths, W the widths of cells.
    """
    from scipy import sparse

    place = operator.dimension - 1 - axis
    numbers = np.moveaxis(np.arange(coefficients.size).reshape(operator.array_shape), place, 0)
    line = operator.lattice.axes[axis]
    rules, (widths, conducts, walls) = line.rules, _geometry(line)
    along = (-1,) + (1,) * (operator.dimension - 1)
    width = np.moveaxis(np.broadcast_to(widths.reshape(along), numbers.shape), 0, place)
    below = numbers if rules[1] is Rule.WRAP else numbers[:-1]
    above = np.roll(numbers, -1, axis=0)[: len(below)]
    links = np.arange(below.size)
    rows, columns = np.concatenate([links, links]), np.concatenate([below.ravel(), above.ravel()])
    signs = np.concatenate([-np.ones(links.size), np.ones(links.size)])
    gradient = sparse.csr_array(sparse.coo_array((signs, (rows, columns)), shape=(links.size, coefficients.size)))
    scale = 1.0 / (line.spacing * line.spacing)
    first = np.moveaxis(coefficients, place, 0)[: len(below)]
    conducts = (first * (scale * conducts.reshape(along))).ravel()
    held = np.zeros(numbers.shape)
    if operator.along(axis)[2].any():
        for node, wall in zip((0, -1), walls, strict=True):
            held[node] += scale * wall * first[node]
    lost = sparse.diags_array(np.moveaxis(held, 0, place).ravel())
    return sparse.diags_array(1.0 / width.ravel()) @ (gradient.T @ sparse.diags_array(conducts) @ gradient + lost)


def _geometry(line: Axis) -> tuple[NDArray[np.float64], NDArray[np.float64], tuple[float, float]]:
    """The widths of the cells along an axis, over its spacing, and what links and walls conduct, times the spacing.

    The cell of a node on a mirror face ends there. Where no node lies on a face it is half a cell behind. Along a
    radius a cell is a part of a disc or a ball over the angle around the axis.
    """
    if line.placement is None:
        widths = np.ones(line.nodes)
        for end, rule in zip((0, -1), line.rules, strict=True):
            widths[end] = 0.5 if rule is Rule.MIRROR else 1.0
        return widths, np.ones(line.nodes if line.wraps else line.nodes - 1), (0.0, 0.0)
    marks, points = line.placement.marks, line.placement.points
    period = marks[-1] - marks[0]
    around = np.concatenate([points[-1:] - period, points, points[:1] + period])
    if line.placement.on_faces:
        around[[0, -1]] = around[[0, -1]] if line.wraps else points[[0, -1]]
        widths = (around[2:] - around[:-2]) / 2.0
    else:
        widths = marks[1:] - marks[:-1]
    power, walls = line.placement.power, []
    halves = widths[[0, -1]] / 2.0
    edges = np.concatenate([marks[:1], points[:-1] + np.diff(points) / 2.0 if line.placement.on_faces else marks[1:-1]])
    if power:
        fixed = [1.0 + (kind.fixes and line.placement.on_faces) for kind in line.placement.kinds]
        widths = np.diff(np.append(edges, marks[-1]) ** (power + 1)) / (power + 1)
        widths[[0, -1]] *= fixed
    for kind, alpha, half, end in zip(line.placement.kinds, line.placement.alpha, halves, marks[[0, -1]], strict=True):
        before = 0.0 if line.placement.on_faces else float(half)
        area = end**power * line.spacing
        if kind.fixes:
            walls.append(area / before if before and kind.has_data else 0.0)
        else:
            walls.append(area / (1.0 / alpha + before) if alpha else 0.0)
    areas = edges[1:] ** power if power else 1.0
    gaps = np.diff(around)[1:] if line.wraps else np.diff(points)
    return widths / line.spacing, areas * line.spacing / gaps, (walls[0], walls[1])


def fixed_nodes(operator: Operator) -> NDArray[np.bool_]:
    """Where nodes are fixed, in the array's shape."""
    fixed = np.zeros(operator.array_shape, dtype=bool)
    for face, rule in enumerate(operator.rules):
        if rule is Rule.FIXED:
            place = operator.dimension - 1 - face // 2
            fixed[(slice(None),) * place + (-1 if face % 2 else 0,)] = True
    return fixed if operator.mask is None else fixed | operator.mask


def assemble(discretisation: Discretisation) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The source with its face terms, and the initial guess with the boundary values: arrays of the backends' shape."""
    shape = discretisation.array_shape
    source, initial = np.empty(shape), np.empty(shape)
    for start, stop in slabs(shape):
        source[start:stop] = discretisation.source(np, start, stop)
        initial[start:stop] = discretisation.initial(np, start, stop)
    return source, initial


class _Host:
    """The maker of the coefficients of `operator_of`: NumPy alone, whatever a backend may do."""

    dtype, views = np.dtype(np.float64), False

    def empty(self, array_shape: tuple[int, ...]) -> NDArray[np.float64]:
        return np.empty(array_shape)

    def assemble(self, array_shape: tuple[int, ...], slab: Slab) -> NDArray[np.float64]:
        return np.concatenate([slab(np, start, stop) for start, stop in slabs(array_shape)])

    def to_host(self, array: NDArray[np.float64]) -> NDArray[np.float64]:
        return array

    from_host = to_host

    def bind(self, operator: Operator) -> "_Links":
        return _Links(operator)


class _Links:
    """The maker of the coefficients of links for `_Host`."""

    def __init__(self, operator: Operator) -> None:
        self._operator = operator

    def links(self, axis: int, a: NDArray[np.float64], harmonic: bool, out: NDArray[np.float64]) -> None:
        operator = self._operator
        place = operator.dimension - 1 - axis
        following = np.roll(a, -1, axis=place)
        smaller, larger = np.minimum(a, following), np.maximum(a, following)
        # Written so that no product or sum leaves the range of float64.
        ratio = smaller / np.where(larger > 0.0, larger, 1.0)
        out[...] = smaller / (0.5 + 0.5 * ratio) if harmonic else 0.5 * smaller + 0.5 * larger
        if operator.lattice.axes[axis].rules[1] is not Rule.WRAP:
            along = np.moveaxis(out, place, 0)
            along[-1] = along[-2]


def operator_of(discretisation: Discretisation) -> Operator:
    """The operator of a problem, with NumPy arrays for coefficients that vary."""
    return discretisation.operator_on(_Host())


def require_size(operator: Operator) -> None:
    """Refuse a grid that is too large for the direct solution.

    Raises `ResourceError` if the grid has more unknowns than the limit of its dimension.
    """
    limit = MAX_UNKNOWNS_2D if operator.dimension == 2 else MAX_UNKNOWNS_3D
    if operator.unknowns > limit:
        raise ResourceError(
            f"the grid has {operator.unknowns:,} unknowns, and the sparse direct reference stops at {limit:,} in "
            f"{operator.dimension}D: verify on a smaller domain.shape"
        )


def solve(discretisation: Discretisation) -> NDArray[np.float64]:
    """Solve the discrete problem directly (`Direct.solution`). Raises `ResourceError` if the grid is too large."""
    return Direct(discretisation).solution()


class Direct:
    """The matrix of a discrete problem, factorised.

    Rows times the trapezoidal weights make it symmetric. Of a singular problem, which must be balanced
    (`poisson.discrete.balance`), one unknown is pinned to zero: the regular system that is left has the same
    solution up to a constant.

    `discretisation`: the problem. Raises `ResourceError` if the grid is too large.
    """

    def __init__(self, discretisation: Discretisation) -> None:
        from scipy import sparse
        from scipy.sparse.linalg import splu

        require_size(discretisation.laplacian)
        self.operator = operator_of(discretisation)
        self._discretisation = discretisation
        self._free = ~fixed_nodes(self.operator).ravel()
        shape = self.operator.array_shape
        volumes = [discretisation.volumes(np, start, stop).ravel() for start, stop in slabs(shape)]
        self._volumes = np.concatenate(volumes)[self._free]
        self._matrix = matrix(self.operator)
        self._inner = sparse.diags_array(self._volumes) @ self._matrix[self._free][:, self._free]
        pinned = self._inner[1:, 1:] if self.operator.singular else self._inner
        # The minimum-degree ordering likes a symmetric matrix, and a definite one needs no pivots.
        self._factors = splu(
            sparse.csc_array(pinned), permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options={"SymmetricMode": True}
        )

    def solution(
        self, source: NDArray[np.float64] | None = None, u: NDArray[np.float64] | None = None
    ) -> NDArray[np.float64]:
        """The solution; that of a singular problem has zero trapezoidal mean.

        `source`, `u`: others than those of the problem (`assemble`), u with values at fixed nodes. Returns: Array of
        the backends' array shape, float64, in U.
        """
        if source is None or u is None:
            source, u = assemble(self._discretisation)
        flat = u.ravel().copy()
        right = (source.ravel() - self._matrix @ (flat * ~self._free))[self._free]
        flat[self._free] = self.solve(right)
        return flat.reshape(u.shape)

    def lowest_eigenvalue(self, steps: int = 30) -> float:
        """The smallest non-zero eigenvalue of A on the unknowns by inverse iteration, from above, in 1/L²."""
        vector = np.random.default_rng(1).random(self._volumes.size)
        value = math.inf
        for _ in range(steps):
            vector = self.solve(vector)
            vector /= math.sqrt(self._volumes @ vector**2)
            before, value = value, float(vector @ (self._inner @ vector))
            if before - value <= 1e-4 * value:
                break
        return value

    def solve(self, right: NDArray[np.float64]) -> NDArray[np.float64]:
        """The solution on the unknowns, orthogonal to constants where they are in the null space."""
        if not self.operator.singular:
            return np.asarray(self._factors.solve(self._volumes * right))
        balanced = self._volumes * (right - self._mean(right))
        solution = np.zeros_like(right)
        solution[1:] = self._factors.solve(balanced[1:])
        return solution - self._mean(solution)

    def _mean(self, values: NDArray[np.float64]) -> float:
        return float(self._volumes @ values / self._volumes.sum())
