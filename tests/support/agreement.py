# SPDX-License-Identifier: MIT
"""A backend against the specification, with coefficients of any kind: what the tests of operations share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from poisson.backends.base import Array, Backend
from poisson.backends.numpy import NumpyBackend
from poisson.discrete.operator import FIXED, Coefficients, Operator
from poisson.mesh.axis import Axis
from poisson.mesh.boundary import Rule
from poisson.mesh.lattice import Lattice
from poisson.mesh.placement import Cells, Nodes
from support.axes import ENDS, example, uniform
from support.operators import AXIS_RULES, operator, random_array, rules_of

Results = list[NDArray[Any]]

FEW_RULES = {
    2: [(*AXIS_RULES[n], *AXIS_RULES[(n + 2) % 5]) for n in range(5)],
    3: [(*AXIS_RULES[n], *AXIS_RULES[(n + 1) % 5], *AXIS_RULES[(n + 3) % 5]) for n in range(5)],
}
"""Rules that together put every pair of an axis on every axis. The gpu backend compiles for each, which takes its time;
the other backends run more combinations."""

SHAPES = {1: [(3,), (37,), (70,)], 2: [(3, 3), (7, 5), (37, 18), (70, 41)], 3: [(3, 3, 3), (5, 4, 3), (27, 9, 38)]}


def placed(*axes: tuple[type, int, int]) -> Operator:
    """An operator on axes of these kinds, uniform ones among them, between the ends of a number, with so many nodes."""
    made = {Cells: example, Nodes: example, Axis: lambda _, ends, nodes: uniform(ends, nodes)}
    lines = [made[kind](kind, ENDS[ends], nodes).axis for kind, ends, nodes in axes]
    return Operator(Lattice((*lines, Axis.single()) if len(lines) == 1 else tuple(lines)), 0.7, 1.3)


PLACED = {
    1: [placed((kind, ends, 5 + 13 * ends)) for ends in range(10) for kind in (Nodes, Cells)],
    2: [
        placed((Nodes, 5, 37), (Cells, 3, 18)),
        placed((Cells, 0, 18), (Nodes, 2, 11)),
        placed((Axis, 0, 36), (Nodes, 7, 17)),
        placed((Cells, 6, 70), (Axis, 1, 41)),
        placed((Nodes, 0, 6), (Cells, 0, 6)),
        placed((Nodes, 1, 33), (Cells, 4, 5)),
        placed((Cells, 9, 5), (Nodes, 9, 34)),
        placed((Nodes, 0, 800), (Cells, 0, 9)),
    ],
    3: [
        placed((Nodes, 5, 27), (Cells, 3, 9), (Axis, 0, 16)),
        placed((Cells, 0, 14), (Nodes, 2, 11), (Cells, 7, 20)),
        placed((Axis, 0, 12), (Axis, 2, 9), (Cells, 9, 8)),
        placed((Cells, 4, 8), (Axis, 2, 9), (Axis, 3, 7)),
        placed((Nodes, 0, 12), (Nodes, 1, 9), (Nodes, 0, 13)),
        placed((Cells, 8, 37), (Nodes, 0, 4), (Nodes, 6, 5)),
    ],
}
"""Operators of each dimension with tabulated axes, each kind of which has every pair of ends."""

KINDS = ("none", "a", "c", "both")
"""The coefficients that are arrays."""


def kinds_of(backend: Backend) -> tuple[str, ...]:
    """These, and with nodes of a mask where a backend takes such operators."""
    return (*KINDS, "masked") if backend.masked else KINDS


def rules_for(backend: Backend, dimension: int, kind: str = "both") -> list[tuple[Rule, ...]]:
    """The rules to test a backend with, with coefficients of a kind.

    All of them with both arrays in float64. A sample of the others, whose code differs in the values that it reads and
    not in what it does at a face, has every pair on every axis; on the gpu backend, which compiles for each, every kind
    of face.
    """
    full = kind == "both" and backend.dtype == np.float64
    if backend.name != "gpu":
        return rules_of(dimension)[:: 1 if full or dimension < 3 else 4]
    # The kernels of a line of nodes are those of two dimensions with one row, where every pair is tested.
    few = list(AXIS_RULES[1::3]) if dimension == 1 else FEW_RULES[dimension]
    if kind != "both":
        return [few[KINDS.index(kind) % len(few)]]
    return few if backend.dtype == np.float64 else few[-1:]


def grid_operator(shape: tuple[int, ...], rules: tuple[Rule, ...], c: float = 0.7) -> Operator:
    """The operator on a grid; one of one axis lies in the first of two, as a backend sees it."""
    if len(shape) > 1:
        return operator(shape, rules, c)
    return Operator.uniform((shape[0], 1), (0.1, np.inf), c, (*rules, Rule.WRAP, Rule.WRAP))


def with_coefficients(backend: Backend, a: Operator, kind: str) -> Operator:
    """The operator with arrays of a backend, always of the same values: a from 0.1 to 10, c from 0 to 5.

    With a mask a fifth of the nodes is fixed, and a tenth of the links zero.
    """
    if kind == "none":
        return a
    shape, links, c, fixed = a.array_shape, None, None, 0
    if kind in ("a", "both", "masked"):
        values = [_links(a, axis) for axis in range(a.dimension)]
        for number, link in enumerate(values if kind == "masked" else []):
            link[random_array(shape, np.float64, 40 + number) < -0.8] = 0.0
        links = tuple(map(backend.from_host, values))
    if kind in ("c", "both", "masked"):
        c_values = 2.5 + 2.5 * random_array(shape, np.float64, 30)
        if kind == "masked":
            c_values[random_array(shape, np.float64, 31) < -0.6] = FIXED
            fixed = int(np.count_nonzero(c_values[a.lattice.free] < 0.0))
        c = backend.from_host(c_values)
    coefficients = Coefficients(links, c, (0.1, 10.0), (0.0, 5.0), fixed=fixed)
    return replace(a, c=a.c if c is None else 0.0, coefficients=coefficients)


def _links(a: Operator, axis: int) -> NDArray[np.float64]:
    values = 10.0 ** random_array(a.array_shape, np.float64, 20 + axis)
    if a.lattice.axes[axis].rules[1] is not Rule.WRAP:
        along = np.moveaxis(values, a.dimension - 1 - axis, 0)
        along[-1] = along[-2]
    return values


def agree(
    backend: Backend, a: Operator, operations: Callable[[Backend, Operator, Array, Array], Results], kind: str = "none"
) -> None:
    """Both backends give the same to a few units of rounding, relative to the largest value."""
    both = []
    for candidate in (NumpyBackend(backend.dtype), backend):
        arrays = [random_array(a.array_shape, backend.dtype, seed) for seed in (1, 2)]
        on_candidate = with_coefficients(candidate, a, kind)
        both.append(operations(candidate, on_candidate, *(candidate.from_host(values) for values in arrays)))
    eps = float(np.finfo(backend.dtype).eps)
    for number, (expected, got) in enumerate(zip(*both, strict=True)):
        assert expected.dtype == got.dtype
        # A field's value is a sum of a few terms, a reduction one of thousands.
        units = 8 if expected.ndim > 1 else 64
        tolerance = units * eps * max(1.0, float(np.abs(expected).max()))
        np.testing.assert_allclose(got, expected, rtol=0, atol=tolerance, err_msg=f"result {number}")


def both_products(a: Operator) -> tuple[float, float]:
    """⟨x, A y⟩ and ⟨A x, y⟩ under the trapezoidal weights, of the specification, for x and y zero at fixed nodes."""
    numpy = NumpyBackend(np.float64)
    zero, sums = np.zeros(a.array_shape), numpy.reduction()
    fields = []
    for seed in (1, 2):
        free, applied = np.empty(a.array_shape), np.empty(a.array_shape)
        numpy.bind(a).residual(zero, random_array(a.array_shape, np.float64, seed), free)
        numpy.bind(a).residual(free, zero, applied)
        fields.append((free, applied))
    (x, ax), (y, ay) = fields
    products = []
    for left, right in ((x, ay), (ax, y)):
        numpy.bind(a).dot(left, right, sums)
        products.append(numpy.read(sums)[0])
    return products[0], products[1]
