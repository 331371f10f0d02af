# SPDX-License-Identifier: MIT
"""Axes that have collapsed to one node, on coarse grids: smoothing, and what goes to and from one node.

Such an axis wraps and has an infinite spacing, as the second axis of a 1D problem; here it may be any, or two of three.
"""

import itertools
import math
from typing import Any

import numpy as np
import pytest
from conftest import BACKENDS
from numpy.typing import NDArray
from support.agreement import KINDS, agree, with_coefficients
from support.operators import AXIS_RULES, name_of, operator, random_array, rules_of
from test_smooth import CALLS, Call, agrees, coarsened, smoothed

from poisson.backends.base import Backend
from poisson.backends.numpy import NumpyBackend
from poisson.discrete import reference
from poisson.discrete.discretisation import Operator
from poisson.discrete.transfer import Interpolation, Transfer
from poisson.mesh.boundary import Rule
from poisson.solvers.multigrid.hierarchy import coarser

LENGTHS = {2: [(37, 18), (70, 5)], 3: [(28, 9, 14), (5, 4, 38)]}
FREE = (AXIS_RULES[3], AXIS_RULES[4])
"""The rules of an axis that can collapse."""


def single(a: Operator, axes: tuple[int, ...]) -> Operator:
    """The operator with one node along some axes."""
    shape, spacing, rules = list(a.shape), list(a.spacing), list(a.rules)
    for axis in axes:
        shape[axis], spacing[axis], rules[2 * axis : 2 * axis + 2] = 1, math.inf, (Rule.WRAP, Rule.WRAP)
    return Operator.uniform(tuple(shape), tuple(spacing), a.c, tuple(rules))


def choices(dimension: int) -> list[tuple[int, ...]]:
    """The axes that may have one node, at least one of the others having more; in 2D the first one only, as the other
    one is that of the tests in one dimension."""
    if dimension == 2:
        return [(0,)]
    return [axes for count in (1, 2) for axes in itertools.combinations(range(3), count)]


def grids(backend: Backend, dimension: int) -> list[Operator]:
    """Every choice of axes with several faces on the others, or a sample."""
    found: list[Operator] = []
    for number, axes in enumerate(choices(dimension)):
        for turn in range(5):
            rules = tuple(itertools.chain(*(AXIS_RULES[(turn + 2 * axis) % 5] for axis in range(dimension))))
            found.append(single(operator(LENGTHS[dimension][(turn + number) % 2], rules), axes))
    return sample(backend, found)


def sample(backend: Backend, found: list[Any]) -> list[Any]:
    """All; of the gpu backend, which compiles for each, two in float64 and one in float32."""
    if backend.name != "gpu":
        return found
    return found[1::5][-2:] if backend.dtype == np.float64 else found[3:4]


@pytest.mark.parametrize("dimension", [2, 3])
def test_smoothing_agrees_with_the_specification(backend: Backend, dimension: int) -> None:
    """Between grids that have one node along the same axes."""
    for number, a in enumerate(grids(backend, dimension)):
        calls = CALLS[number % 5 :: 5]
        for sweeps, call in enumerate(calls, start=number):
            transfer = coarsened(a, tuple(range(number % 2, dimension)))
            agrees(backend, transfer, call, sweeps % 4, KINDS[(sweeps + number) % len(KINDS)])


def collapsing(a: Operator, axes: tuple[int, ...], others: bool) -> Transfer:
    """To one node along some axes, and to about half the nodes along the others if these are coarsened too."""
    coarse = coarsened(a, tuple(range(a.dimension))).coarse if others else a
    return Transfer(a, single(coarse, axes))


def thin(backend: Backend, dimension: int) -> list[Transfer]:
    """Every choice of axes to collapse, from 3 and 4 nodes, with several faces on the others, or a sample."""
    found: list[Transfer] = []
    for number, axes in enumerate([*choices(dimension), *([(1,)] if dimension == 2 else [])]):
        for turn in range(5):
            shape, rules = list(LENGTHS[dimension][turn % 2]), []
            for axis in range(dimension):
                pair = FREE[(turn + axis) % 2] if axis in axes else AXIS_RULES[(turn + 2 * axis) % 5]
                rules += pair
                if axis in axes:
                    shape[axis] = 3 + (turn + number + axis) % 2
            found.append(collapsing(operator(tuple(shape), tuple(rules)), axes, others=turn % 2 == 1))
    return sample(backend, found)


@pytest.mark.parametrize("dimension", [2, 3])
def test_transfers_to_one_node_agree_with_the_specification(backend: Backend, dimension: int) -> None:
    for transfer in thin(backend, dimension):
        names = ("restrict", "prolong_add", "interpolate", "coarsen_links")
        assert agree(backend, transfer.fine, names, below=lambda a, axes, coarse=transfer.coarse: coarse)


@pytest.mark.parametrize("dimension", [2, 3])
def test_smoothing_above_a_grid_with_one_node_agrees_with_the_specification(backend: Backend, dimension: int) -> None:
    for number, transfer in enumerate(thin(backend, dimension)):
        for sweeps, call in enumerate(CALLS[number % 5 :: 5], start=number):
            agrees(backend, transfer, call, sweeps % 4, KINDS[(sweeps + number) % len(KINDS)])


def test_the_library_smooths_above_no_grid_with_one_node(monkeypatch: pytest.MonkeyPatch) -> None:
    """The backend puts that together from the operations."""
    backend = BACKENDS["openmp"](np.float64)
    transfer = thin(backend, 2)[0]
    monkeypatch.setattr(Transfer, "collapses", False)
    with pytest.raises(RuntimeError, match="poisson_smooth_f64 failed with status 3"):
        smoothed(backend, transfer, Call(False, True, False, False), 2)


@pytest.mark.parametrize("dimension", [2, 3])
def test_restriction_is_the_adjoint_of_prolongation(dimension: int) -> None:
    """In the trapezoidal inner products, for arrays that vanish at fixed nodes; to one node and to half of them."""
    numpy, shapes = NumpyBackend(np.float64), [(9, 17), (8, 15), (12, 9), (21, 6)] if dimension == 2 else []
    usual = [coarsened(operator(shape, rules), (0, 1)) for shape in shapes for rules in rules_of(2)]
    for transfer in thin(numpy, dimension) + usual:
        x, y = (random_array(a.array_shape, np.float64, 1) for a in (transfer.fine, transfer.coarse))
        x, y = (_zero_at_fixed(a, values) for a, values in ((transfer.fine, x), (transfer.coarse, y)))
        up, down = np.zeros_like(x), np.empty_like(y)
        numpy.bind(transfer).prolong_add(y, up)
        numpy.bind(transfer).restrict(x, down)
        means = []
        for a, left, right in ((transfer.fine, x, up), (transfer.coarse, down, y)):
            place = numpy.reduction()
            numpy.bind(a).dot(left, right, place)
            cells = [n if a.lattice.axes[axis].rules[0] is Rule.WRAP else n - 1 for axis, n in enumerate(a.shape)]
            means.append(numpy.read(place)[0] / math.prod(cells))
        assert means[0] == pytest.approx(means[1], rel=1e-12)


def _zero_at_fixed(a: Operator, values: NDArray[np.float64]) -> NDArray[np.float64]:
    values[reference.fixed_nodes(a)] = 0.0
    return values


@pytest.mark.parametrize("kind", KINDS[:-1])
@pytest.mark.parametrize("pair", FREE, ids=name_of)
def test_a_grid_whose_axes_only_collapse_has_the_galerkin_operator(pair: tuple[Rule, Rule], kind: str) -> None:
    """R A P, exactly, whatever the coefficients."""
    numpy = NumpyBackend(np.float64)
    few = 4 if pair[0] is Rule.WRAP else 3
    for shape, axes in (((3, 20), (0,)), ((20, few), (1,)), ((few, 9, 3), (0, 2)), ((9, 3, 8), (1,))):
        for others in AXIS_RULES:
            rules = itertools.chain(*(pair if axis in axes else others for axis in range(len(shape))))
            spacing = tuple(0.01 if axis in axes else 0.3 for axis in range(len(shape)))
            a = with_coefficients(numpy, Operator.uniform(shape, spacing, 0.7, tuple(rules)), kind)
            coarse = coarser(numpy, a, axes)
            assert [coarse.shape[axis] for axis in axes] == [1] * len(axes)
            y = _zero_at_fixed(coarse, random_array(coarse.array_shape, np.float64, 1))
            up, applied, expected = np.zeros(a.array_shape), np.empty(a.array_shape), np.empty_like(y)
            numpy.bind(Transfer(a, coarse)).prolong_add(y, up)
            numpy.bind(a).residual(up, None, applied)
            numpy.bind(Transfer(a, coarse)).restrict(applied, expected)
            got = np.empty_like(y)
            numpy.bind(coarse).residual(y, None, got)
            np.testing.assert_allclose(got, expected, rtol=0, atol=1e-11 * np.abs(applied).max())


def test_what_cannot_collapse_is_refused() -> None:
    wrapped = operator((5, 9), (Rule.WRAP,) * 4)
    fixed = operator((3, 9), (Rule.FIXED,) * 4)
    with pytest.raises(ValueError, match="5 nodes do not coarsen to 1"):
        Transfer(wrapped, single(wrapped, (0,)))
    with pytest.raises(ValueError, match="5 nodes do not collapse to one"):
        Interpolation(wrapped, single(wrapped, (0,)))
    for make in (Transfer, Interpolation):
        with pytest.raises(ValueError, match="differ in the rules"):
            make(fixed, single(fixed, (0,)))
