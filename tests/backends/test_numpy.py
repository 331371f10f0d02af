# SPDX-License-Identifier: MIT
"""The specification on tabulated axes, alone and beside uniform ones: every operation against dense matrices."""

from dataclasses import dataclass
from functools import cached_property, reduce

import numpy as np
import pytest
from numpy.typing import NDArray
from support.axes import ENDS, D, Example, N, P, R, dense, example, fixed_nodes, uniform
from support.operators import random_array

from poisson.backends.numpy import NumpyBackend
from poisson.discrete.inverse import Inverse
from poisson.discrete.operator import Coefficients, Operator
from poisson.discrete.transfer import Interpolation, Transfer
from poisson.mesh.axis import Axis
from poisson.mesh.axis_transfer import Table
from poisson.mesh.lattice import Lattice
from poisson.mesh.placement import Cells, Nodes

BACKEND = NumpyBackend(np.float64)
Values = NDArray[np.float64]

SINGLE = Example("Single", Axis.single(), np.zeros((1, 1)), np.ones(1), lambda links: np.zeros((1, 1)))
LINES = [
    *((example(kind, ends, 6), SINGLE) for kind in (Nodes, Cells) for ends in ENDS),
    *((example(Nodes, ends, 6), example(Cells, ENDS[n - 3], 5)) for n, ends in enumerate(ENDS)),
    *((example(Cells, ends, 5), uniform(ENDS[n - 5], 6)) for n, ends in enumerate(ENDS)),
    *((uniform(ends, 6), example(Nodes, ENDS[n - 1], 5)) for n, ends in enumerate(ENDS)),
    (example(Nodes, (D, N), 5), example(Cells, (D, R), 5), example(Nodes, (P, P), 6)),
    (example(Cells, (P, P), 6), uniform((D, N), 5), example(Cells, (N, R), 5)),
    (uniform((P, P), 6), example(Nodes, (N, R), 5), example(Nodes, (D, D), 6)),
    (example(Nodes, (N, N), 5), example(Cells, (N, N), 5), uniform((N, N), 5)),
    (example(Cells, (D, D), 5), example(Cells, (R, D), 6), example(Cells, (N, N), 5)),
]


@dataclass
class Case:
    """An operator on a product of axes, and its matrix."""

    lines: tuple[Example, ...]
    operator: Operator

    @cached_property
    def matrix(self) -> Values:
        a = self.operator
        c = np.full(a.array_shape, a.c) if a.reaction is None else a.reaction
        return dense(self.lines, c, a.links, a.a)

    @property
    def equations(self) -> NDArray[np.bool_]:
        free = np.ones(self.operator.array_shape, dtype=bool)
        for axis, line in enumerate(self.lines):
            np.moveaxis(free, self.operator.dimension - 1 - axis, 0)[fixed_nodes(line.axis)] = False
        return free

    @cached_property
    def diagonal(self) -> Values:
        values = np.diagonal(self.matrix).reshape(self.operator.array_shape).copy()
        values[~self.equations] = np.inf
        return values

    @cached_property
    def weights(self) -> Values:
        """Of the inner product, over the product of the spacings."""
        parts = [line.widths / (line.axis.spacing if line.axis.nodes > 1 else 1.0) for line in reversed(self.lines)]
        return np.asarray(reduce(np.multiply.outer, parts))

    def times(self, u: Values) -> Values:
        return np.asarray((self.matrix @ u.ravel()).reshape(u.shape))

    def random(self, seed: int) -> Values:
        return random_array(self.operator.array_shape, np.float64, seed)


def case(lines: tuple[Example, ...], kind: str) -> Case:
    """With coefficients that are constant, or vary, or of which one does."""
    lattice = Lattice(tuple(line.axis for line in lines))
    if kind == "constant":
        return Case(lines, Operator(lattice, 0.3, 1.7))
    links = None
    if "a" in kind:
        a = np.exp(random_array(lattice.array_shape, np.float64, 11))
        links = tuple(np.empty_like(a) for _ in lines)
        plain = BACKEND.bind(Operator(lattice))
        for axis, out in enumerate(links):
            plain.links(axis, a, True, out)
    c = np.exp(random_array(lattice.array_shape, np.float64, 12)) if "c" in kind else None
    a_range = (1.7, 1.7) if links is None else (np.exp(-1.0), np.exp(1.0))
    coefficients = Coefficients(links, c, a_range, (0.3, 0.3) if c is None else (np.exp(-1.0), np.exp(1.0)))
    return Case(lines, Operator(lattice, 0.3 if c is None else 0.0, 1.7 if links is None else 1.0, coefficients))


each_case = pytest.mark.parametrize(
    "given",
    [case(lines, kind) for lines in LINES for kind in ("constant", "ac")]
    + [case(lines, kind) for lines in LINES[-3:] for kind in "ac"],
    ids=lambda given: "-".join(line.name for line in given.lines) + ("-varying" if given.operator.varies else ""),
)


def close(found: Values, expected: Values) -> None:
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12 * (1.0 + np.abs(expected).max()))


@each_case
def test_stencils_on_tabulated_axes(given: Case) -> None:
    bound, u, f, out = BACKEND.bind(given.operator), given.random(1), given.random(2), given.random(3)
    expected = given.times(u)
    bound.laplacian(u, out)
    bound.boundary_conditions(u, out)
    close(out, expected)
    norms = BACKEND.reduction()
    residual = np.where(given.equations, f - expected, 0.0)
    bound.residual(u, f, out, norms)
    close(out, residual)
    assert BACKEND.read(norms) == pytest.approx((np.sum(residual**2), np.abs(residual).max()), rel=1e-12)
    bound.residual(u, None, out)
    close(out, np.where(given.equations, -expected, 0.0))
    bound.sweep(u, f, out, 0.8)
    close(out, u + 0.8 * residual / given.diagonal)
    v, r = u.copy(), np.empty_like(u)
    bound.update(f * given.equations, np.where(given.equations, expected, 0.0), r, v, 0.8)
    close(r, residual)
    close(v, u + 0.8 * residual / given.diagonal)
    single = np.empty(u.shape, dtype=np.float32)
    bound.defect(u, f, 4.0, single)
    np.testing.assert_allclose(single, 4.0 * residual, rtol=1e-6, atol=1e-6 * np.abs(residual).max())


@each_case
def test_sweeps_on_tabulated_axes(given: Case) -> None:
    bound, u, f, out = BACKEND.bind(given.operator), given.random(1), given.random(2), given.random(3)
    expected = u.copy()
    for omega in (0.9, 0.6, 1.1):
        residual = np.where(given.equations, f - given.times(expected), 0.0)
        expected = expected + omega * residual / given.diagonal
    norms = BACKEND.reduction()
    bound.sweeps(u, f, out, (0.9, 0.6, 1.1), norms)
    close(out, expected)
    assert BACKEND.read(norms)[0] == pytest.approx(np.sum(residual**2), rel=1e-12)
    if any(line.axis.wraps and line.axis.nodes % 2 for line in given.lines if line.axis.nodes > 1):
        return
    colors = np.indices(u.shape).sum(axis=0) % 2
    for color in (0, 1):
        residual = np.where(given.equations, f - given.times(u), 0.0)
        expected = np.where(colors == color, u + 1.2 * residual / given.diagonal, u)
        bound.color_sweep(u, f, color, 1.2)
        close(u, expected)


@each_case
def test_krylov_operations_on_tabulated_axes(given: Case) -> None:
    bound, x, y, out, q = (BACKEND.bind(given.operator), *(given.random(n) for n in range(1, 5)))
    result = BACKEND.reduction()
    bound.dot(x, y, result)
    assert BACKEND.read(result)[0] == pytest.approx(np.sum(given.weights * x * y), rel=1e-12, abs=1e-12)
    bound.diagonal_solve(x, out, 1.5, result)
    expected = np.where(given.equations, 1.5 * x / given.diagonal, 0.0)
    close(out, expected)
    assert BACKEND.read(result)[0] == pytest.approx(np.sum(given.weights * x * expected), rel=1e-12)
    bound.direction(x, 0.4, y, out, q, result)
    expected = np.where(given.equations, x + 0.4 * y, 0.0)
    close(out, expected)
    close(q, given.times(expected))
    curvature = BACKEND.read(result)[0]
    assert curvature == pytest.approx(np.sum(given.weights * expected * given.times(expected)), rel=1e-11)
    assert curvature > 0.0


@each_case
def test_the_operator_on_tabulated_axes_is_symmetric_and_knows_its_spectrum(given: Case) -> None:
    free = given.equations.ravel()
    weighted = (given.weights.ravel()[:, None] * given.matrix)[np.ix_(free, free)]
    np.testing.assert_allclose(weighted, weighted.T, rtol=0, atol=1e-11 * np.abs(weighted).max())
    values = np.sort(np.linalg.eigvals(given.matrix[np.ix_(free, free)]).real)
    lowest, highest = given.operator.eigenvalues()
    assert np.abs(given.matrix).sum(axis=1).max() <= given.operator.norm * (1 + 1e-12)
    if not given.operator.varies:
        assert (lowest, highest) == pytest.approx((values[0], values[-1]), rel=1e-9)
    else:
        assert lowest <= values[0] * (1 + 1e-9) and values[-1] <= highest * (1 + 1e-9)
    assert not given.operator.has_one_diagonal
    assert given.operator.unknowns == free.sum()


SEPARATED = [case(lines, "constant") for lines in LINES]


@pytest.mark.parametrize("c", [0.0, 0.3])
@pytest.mark.parametrize("given", SEPARATED, ids=lambda given: "-".join(line.name for line in given.lines))
def test_direct_solution_on_tabulated_axes(given: Case, c: float) -> None:
    operator = Operator(given.operator.lattice, c, 1.7)
    plain = Case(given.lines, operator)
    f, u = given.random(5), given.random(6)
    free, weights = given.equations.ravel(), given.weights.ravel()
    inner, right = plain.matrix[np.ix_(free, free)], (f.ravel() - plain.matrix @ (u.ravel() * ~free))[free]
    holds = any(line.axis.holds for line in given.lines)
    assert operator.singular == (c == 0.0 and not holds)
    expected = u.ravel().copy()
    if operator.singular:
        right = right - weights @ right / weights.sum()
        bordered = np.block([[inner, np.ones((right.size, 1))], [weights[None], np.zeros((1, 1))]])
        expected[free] = np.linalg.solve(bordered, np.append(right, 0.0))[:-1]
    else:
        expected[free] = np.linalg.solve(inner, right)
    found = u.copy()
    BACKEND.bind(Inverse(operator)).solve(f.copy(), found)
    np.testing.assert_allclose(found.ravel(), expected, rtol=0, atol=1e-10 * (1 + np.abs(expected).max()))


# ---- between lattices
def matrix_of(tables: list[Table], columns: tuple[int, ...]) -> Values:
    """The Kronecker product of tables of x, y(, z), which tests/mesh compares with matrices in 1D."""
    found = np.ones((1, 1))
    for (index, weight), count in zip(tables, columns, strict=True):
        one = np.zeros((len(index), count))
        np.add.at(one, (np.arange(len(index))[:, None], index), weight)
        found = np.kron(one, found)
    return found


LONGER = [
    (example(Nodes, (D, N), 9), SINGLE),
    (example(Cells, (D, R), 8), example(Nodes, (P, P), 8)),
    (example(Cells, (P, P), 11), uniform((D, N), 9)),
    (uniform((N, N), 8), example(Cells, (N, D), 6)),
    (example(Nodes, (R, N), 6), example(Cells, (D, R), 6), uniform((P, P), 8)),
]


@pytest.mark.parametrize("lines", LONGER, ids=lambda lines: "-".join(line.name for line in lines))
def test_transfers_and_smoothing_on_tabulated_axes(lines: tuple[Example, ...]) -> None:
    given = case(lines, "ac")
    fine = given.operator.lattice
    coarse = Lattice(tuple(axis.coarser or axis for axis in fine.axes))
    transfer = Transfer(given.operator, Operator(coarse))
    fixed_coarse = np.ones(coarse.array_shape, dtype=bool)
    fixed_coarse[coarse.free] = False
    p = given.equations.reshape(-1, 1) * matrix_of([table.prolong for table in transfer.axes], coarse.shape)
    r = ~fixed_coarse.reshape(-1, 1) * matrix_of([table.restrict for table in transfer.axes], fine.shape)
    bound, u, f = BACKEND.bind(transfer), given.random(1), given.random(2)
    on_coarse = random_array(coarse.array_shape, np.float64, 3)
    found = np.empty(coarse.array_shape)
    bound.restrict(u, found)
    close(found.ravel(), r @ u.ravel())
    corrected = u.copy()
    bound.prolong_add(on_coarse, corrected)
    close(corrected.ravel(), u.ravel() + p @ on_coarse.ravel())

    expected, out, work = corrected, np.empty_like(u), np.empty_like(u)
    for omega in (0.7, 0.9):
        expected = expected + omega * np.where(given.equations, f - given.times(expected), 0.0) / given.diagonal
    residual = np.where(given.equations, f - given.times(expected), 0.0)
    BACKEND.bind(given.operator).smooth(u.copy(), f, out, work, (0.7, 0.9), (bound, on_coarse), (bound, found))
    close(out, expected)
    close(found.ravel(), r @ residual.ravel())

    for everywhere in (False, True):
        interpolation = Interpolation(Operator(coarse), given.operator, everywhere)
        target = u.copy()
        BACKEND.bind(interpolation).interpolate(on_coarse, target)
        cubic = (matrix_of(list(interpolation.axes), coarse.shape) @ on_coarse.ravel()).reshape(u.shape)
        close(target, cubic if everywhere else np.where(given.equations, cubic, u))


@pytest.mark.parametrize("lines", LONGER, ids=lambda lines: "-".join(line.name for line in lines))
def test_links_of_tabulated_axes(lines: tuple[Example, ...]) -> None:
    fine = Lattice(tuple(line.axis for line in lines))
    coarse = Lattice(tuple(axis.coarser or axis for axis in fine.axes))
    a = np.exp(random_array(fine.array_shape, np.float64, 4))
    transfer = Transfer(Operator(fine), Operator(coarse))
    for axis, line in enumerate(fine.axes):
        values = np.moveaxis(a, fine.array_axis(axis), 0)
        following = np.roll(values, -1, axis=0)
        for harmonic in (True, False):
            out = np.empty_like(a)
            BACKEND.bind(Operator(fine)).links(axis, a, harmonic, out)
            expected = 2 * values * following / (values + following) if harmonic else (values + following) / 2
            if not line.wraps:
                expected[-1] = expected[-2]
            close(np.moveaxis(out, fine.array_axis(axis), 0), expected)
        tables = [table.series if other == axis else table.mean for other, table in enumerate(transfer.axes)]
        found = np.empty(coarse.array_shape)
        BACKEND.bind(transfer).coarsen_links(axis, a, found)
        close(found.ravel(), matrix_of(tables, fine.shape) @ a.ravel())
