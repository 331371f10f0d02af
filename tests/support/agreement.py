# SPDX-License-Identifier: MIT
"""The operations of the table on any backend against the specification, on any grid and with any coefficients."""

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from poisson.backends.base import Backend
from poisson.backends.numpy import NumpyBackend
from poisson.backends.operations import ALL, DIRECT, Argument, OperationSpec, Role
from poisson.discrete.clusters import Clusters
from poisson.discrete.full_stencil import FullStencil, StencilTransfer
from poisson.discrete.operator import FIXED, Coefficients, Operator
from poisson.discrete.sparse_rows import SparseRows
from poisson.discrete.transfer import Interpolation, Transfer
from poisson.mesh.axis import Axis
from poisson.mesh.boundary import Rule
from poisson.mesh.differences import Differences
from poisson.mesh.lattice import Lattice
from poisson.mesh.placement import Cells, Nodes
from poisson.solvers.multigrid.hierarchy import coarser
from poisson.solvers.spectrum import red_black
from support.axes import ENDS, example, radius, uniform
from support.full_stencils import clusters_on, halvings, stencils_on, weighted_on
from support.operators import AXIS_RULES, operator, pairs_of_rules, random_array

Values = NDArray[Any]

FEW_RULES = {
    2: [(*AXIS_RULES[n], *AXIS_RULES[(n + 2) % 5]) for n in range(5)],
    3: [(*AXIS_RULES[n], *AXIS_RULES[(n + 1) % 5], *AXIS_RULES[(n + 3) % 5]) for n in range(5)],
}
"""Rules that together put every pair of an axis on every axis."""

SHAPES = {1: [(3,), (37,), (70,)], 2: [(3, 3), (7, 5), (37, 18), (73, 41)], 3: [(3, 3, 3), (5, 4, 3), (27, 9, 38)]}


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
        Operator(
            Lattice((radius(Cells, 0.0, ENDS[3][1], 18, 1).axis, uniform(ENDS[2], 11).axis), "cylinder"), 0.7, 1.3
        ),
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

KINDS = ("none", "a", "c", "both", "masked")
"""The coefficients that are arrays; with a mask both are, links of zero among them."""


def rules_for(backend: Backend, dimension: int, kind: str = "both") -> list[tuple[Rule, ...]]:
    """The rules to test a backend with, with coefficients of a kind.

    Any two axes have every combination of theirs with both arrays in float64. A sample of the others, whose code
    differs in the values that it reads and not in what it does at a face, has every pair on every axis; on the gpu
    backend every kind of face.
    """
    if backend.name != "gpu":
        full = (kind == "both" and backend.dtype == np.float64) or dimension == 1
        return pairs_of_rules(dimension) if full else FEW_RULES[dimension]
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


def with_arrays(backend: Backend, a: Operator) -> Operator:
    """The operator with its arrays, which are NumPy's, on a backend."""
    given = a.coefficients
    if given is None:
        return a
    links = None if given.links is None else tuple(map(backend.from_host, given.links))
    c = None if given.c is None else backend.from_host(given.c)
    return replace(a, coefficients=replace(given, links=links, c=c))


def with_coefficients(backend: Backend, a: Operator, kind: str) -> Operator:
    """The operator with arrays of a backend, always of the same values: a from 0.1 to 10, c from 0 to 5.

    With a mask a fifth of the nodes is fixed, and a tenth of the links zero.
    """
    if kind == "none":
        return a
    values, c_values = _coefficients(a.lattice, kind)
    links = None if values is None else tuple(map(backend.from_host, values))
    c = None if c_values is None else backend.from_host(c_values)
    fixed = int(np.count_nonzero(c_values[a.lattice.free] < 0.0)) if kind == "masked" and c_values is not None else 0
    coefficients = Coefficients(links, c, (0.1, 10.0), (0.0, 5.0), fixed=fixed)
    return replace(a, c=a.c if c is None else 0.0, coefficients=coefficients)


def zero_where_fixed(backend: Backend, a: Operator, values: Values) -> Values:
    """Values at the nodes with zeros at fixed ones, those of a mask among them, by an operator of a backend."""
    inverse = backend.from_host(np.zeros_like(values))
    backend.bind(a).diagonal_solve(backend.from_host(np.ones_like(values)), inverse, 1.0)
    return np.where(backend.to_host(inverse) == 0.0, np.zeros_like(values), values)


@lru_cache(maxsize=64)
def _coefficients(lattice: Lattice, kind: str) -> tuple[list[Values] | None, Values | None]:
    shape, links, c = lattice.array_shape, None, None
    if kind in ("a", "both", "masked"):
        links = [10.0 ** random_array(shape, np.float64, 20 + axis) for axis in range(lattice.dimension)]
        for axis, link in enumerate(links):
            if lattice.axes[axis].rules[1] is not Rule.WRAP:
                along = np.moveaxis(link, lattice.array_axis(axis), 0)
                along[-1] = along[-2]
            if kind == "masked":
                link[random_array(shape, np.float64, 40 + axis) < -0.8] = 0.0
    if kind in ("c", "both", "masked"):
        c = 2.5 + 2.5 * random_array(shape, np.float64, 30)
        if kind == "masked":
            c[random_array(shape, np.float64, 31) < -0.6] = FIXED
    return links, c


TABLE = tuple(name for name in ALL if name != "smooth" and name not in DIRECT)
"""All but half a level of multigrid and direct solutions, which have tests of their own (test_smooth.py,
test_fast_transforms.py, tests/parallel/test_fast.py)."""
NUMBERS = {"beta": (0.7, 0.0), "b": (0.7, 0.0)}
"""Numbers that are zero as well, since what they multiply is not read then."""
UNREAD = {"beta": "p", "b": "y"}
"""The arrays that a number of zero leaves unread."""
OMEGAS = (0.8, 1.3, 0.6)
NODES_OF_MATRIX = 60


Below = Callable[[Operator, Sequence[int]], Operator]


def subjects(backend: Backend, spec: OperationSpec, a: Operator, below: Below) -> Iterator[Any]:
    """The subjects of an operation on the grid of an operator, and between it and those coarser along some axes."""
    if spec.subject is None:
        yield None
    elif spec.subject is Operator:
        yield a
    elif spec.subject is FullStencil:
        yield from stencils_on(backend, a.lattice)
    elif spec.subject is SparseRows:
        yield from rows_on(a.lattice)
    elif spec.subject is Clusters:
        yield from clusters_on(a.lattice)
    elif spec.subject is StencilTransfer:
        yield from weighted_on(backend, a.lattice, spec.method == "interpolation")
    elif spec.subject is Differences:
        yield Differences(a.lattice, 2)  # of every order in test_derivative.py
    else:
        axes = [axis for axis in range(a.dimension) if a.shape[axis] > 1]
        for along in (axes, axes[:1])[: len(axes)]:
            coarse = below(a, along)
            if spec.subject is Transfer:
                yield Transfer(a, coarse)
            else:
                yield from (Interpolation(coarse, a, everywhere) for everywhere in (False, True))
                yield Interpolation(a, coarse)


def rows_on(lattice: Lattice) -> Iterator[SparseRows]:
    """Rows at no node, at some of them and at all, which look at any nodes; some have no entry."""
    rng = np.random.default_rng(lattice.nodes)
    for part in (0.0, 0.3, 1.0):
        nodes = np.flatnonzero(rng.random(lattice.nodes) < part)
        own, constant = rng.standard_normal((2, nodes.size))
        entries = [(rng.integers(lattice.nodes, size=nodes.size), rng.standard_normal(nodes.size)) for _ in range(3)]
        missing = rng.random((3, nodes.size)) < 0.4
        entries = [(at, np.where(none, 0.0, weights)) for (at, weights), none in zip(entries, missing, strict=True)]
        yield SparseRows.of(lattice, nodes, own, constant, entries)


def choices(spec: OperationSpec, a: Operator, depth: int) -> Iterator[dict[str, Any]]:
    """The values of the arguments, in every combination; of an array whether there is one."""

    def values(argument: Argument) -> Sequence[Any]:
        if argument.role is Role.AXIS:
            return [axis for axis in range(a.dimension) if a.shape[axis] > 1]
        colors = range(2 if spec.subject is Operator else 2**a.dimension)
        fixed = {Role.OMEGAS: (OMEGAS[:depth],), Role.COLOR: colors, Role.FLAG: (False, True)}
        fixed |= {Role.GIVEN: (0.0, 0.3), Role.SPARE: (True,)}
        fixed[Role.NUMBER] = NUMBERS.get(argument.name, (0.7,))
        return fixed.get(argument.role, (True, False) if argument.optional else (True,))

    for chosen in itertools.product(*map(values, spec.arguments)):
        yield dict(zip(spec.names, chosen, strict=True))


@dataclass(frozen=True)
class Left:
    """The arrays and the result that a call leaves.

    `arrays` (list of (array, lattice)): what it has written, and on which nodes, to so many `units` of rounding.
    `result` (array of 2 values, or None): what it has reduced; from `terms` of at most 1 where no array is written.
    """

    arrays: list[tuple[Values, Lattice]]
    result: Values | None
    units: int = 8
    terms: int = 1


Seen = Callable[[Values, Lattice, Argument], Values]


def call(
    backend: Backend, spec: OperationSpec, a: Operator, of: Any, chosen: dict[str, Any], seen: Seen, bound: Any = None
) -> Left:
    """Call an operation with random arrays: `seen` gives what of them is passed, on a lattice or a part of it."""
    single, result = backend.companion(np.float32), backend.reduction()
    unread = {UNREAD[name] for name, value in chosen.items() if name in UNREAD and value == 0.0}
    arguments: list[Any] = []
    written: list[tuple[Backend, Any, Lattice]] = []
    for seed, argument in enumerate(spec.arguments):
        on_grid = getattr(of, argument.grid) if argument.grid else a
        lattice = on_grid.lattice
        shape = on_grid.array_shape[: -lattice.dimension] + lattice.whole.array_shape
        on, value = (single if argument.single else backend), chosen[argument.name]
        if argument.role in (Role.READ, Role.WRITTEN, Role.BOTH) and value:
            values = random_array(shape, on.dtype, seed)
            values = np.full_like(values, np.nan) if argument.name in unread else values
            value = on.from_host(seen(10.0**values if argument.positive else values, lattice, argument))
            if argument.role is not Role.READ:
                written.append((on, value, lattice))
        elif argument.role is Role.COEFFICIENTS:
            on = backend.companion((of.weights if of.weights is not None else of.fine.coefficients).dtype)
            value = on.from_host(random_array(shape, on.dtype, seed))
            written.append((on, value, lattice))
        elif argument.role is Role.GIVEN:
            value = source(on, seen(random_array(shape, np.float64, seed), lattice, argument), value, argument, a)
        elif argument.role is Role.SPARE:
            value = on.empty(a.array_shape)
        elif argument.role is Role.OUTPUTS:
            values = random_array(shape, on.dtype, seed)
            value = [on.from_host(seen(values, lattice, argument)) for _ in range(of.dimension)]
            written += [(on, out, lattice) for out in value]
        elif argument.role is Role.MATRIX:
            value = on.from_host(random_array((int(np.prod(shape)),) * 2, on.dtype, seed))
        elif argument.role is Role.RESULT and value:
            value = result
        arguments.append(None if value is False and argument.optional else value)
    getattr(bound or (backend if of is None else backend.bind(of)), spec.method)(*arguments)
    arrays = [(on.to_host(array), lattice) for on, array, lattice in written]
    # A Galerkin product has sums of hundreds of terms.
    units = 64 if spec.method == "galerkin" else 8
    return Left(arrays, np.array(backend.read(result)) if chosen.get("result") else None, units, math.prod(a.shape))


def source(on: Backend, values: Values, shift: float, argument: Argument, a: Operator) -> Any:
    """A source in rows of the caller's memory where something is subtracted from it and the backend reads it there."""
    rows = np.pad(values, [(0, 0)] * (values.ndim - 1) + [(0, 3)], constant_values=np.nan)[..., : values.shape[-1]]
    if shift and (given := on.in_place(rows, lambda: None)) is not None:
        given.shift = shift
        return given
    values = values - shift
    if argument.grounded:
        inside = np.zeros_like(values)
        inside[a.lattice.free] = values[a.lattice.free]
        values = np.where(on.to_host(a.reaction) < 0.0, 0.0, inside) if a.fixed else inside
    return on.from_host(values)


def everything(values: Values, lattice: Lattice, argument: Argument) -> Values:
    return values


def has(backend: Backend, spec: OperationSpec) -> bool:
    """Whether a backend has the operations of a subject."""
    return spec.subject is None or spec.subject in backend.bound


def applies(spec: OperationSpec, a: Operator) -> bool:
    """Whether the operation is one for a grid: colors need even numbers of nodes, and a matrix few of them."""
    roles = {argument.role for argument in spec.arguments}
    if spec.subject is StencilTransfer and not halvings(a.lattice):
        return False
    return (Role.COLOR not in roles or red_black(a)) and (Role.MATRIX not in roles or a.unknowns <= NODES_OF_MATRIX)


def calls(
    backend: Backend, name: str, a: Operator, kind: str = "none", depth: int = 0, below: Below | None = None
) -> Iterator[tuple[Any, Left]]:
    """All calls of an operation on a grid, with coefficients of a kind: what they are, and what they leave."""
    spec, own = ALL[name], with_coefficients(backend, a, kind)
    below = below or (lambda a, axes: coarser(backend, a, axes))
    for of in subjects(backend, spec, own, below):
        bound = None if of is None else backend.bind(of)
        for chosen in choices(spec, a, depth or backend.bind(own).depth()):
            yield (name, a.lattice, kind, chosen), call(backend, spec, own, of, chosen, everything, bound)


def agree(backend: Backend, a: Operator, names: Sequence[str], kind: str = "none", below: Below | None = None) -> int:
    """Compare all calls of some operations with the specification; how many there were."""
    count, depth = 0, backend.bind(with_coefficients(backend, a, kind)).depth()
    for name in names:
        if applies(ALL[name], a) and has(backend, ALL[name]):
            both = (
                calls(candidate, name, a, kind, depth, below) for candidate in (NumpyBackend(backend.dtype), backend)
            )
            for (what, expected), (_, got) in zip(*both, strict=True):
                compare(expected, got, backend, what)
                count += 1
    return count


def compare(expected: Left, got: Left, backend: Backend, what: Any) -> None:
    """Compare to a few units of rounding: of the largest value of an array, and of the terms of a sum."""
    eps = float(np.finfo(backend.dtype).eps)
    largest = max(1.0, *(float(np.abs(values).max()) for values, _ in expected.arrays)) if expected.arrays else 1.0
    for (wanted, _), (found, _) in zip(expected.arrays, got.arrays, strict=True):
        assert wanted.dtype == found.dtype
        atol = expected.units * max(eps, float(np.finfo(wanted.dtype).eps)) * largest
        if not (np.abs(found - wanted) <= atol).all():
            np.testing.assert_allclose(found, wanted, rtol=0, atol=atol, err_msg=str(what))
    if expected.result is not None and got.result is not None:
        nodes = expected.arrays[0][0].size if expected.arrays else math.sqrt(expected.terms)
        unit = 16 * eps * max(largest, float(expected.result[1]))
        atols = (max(nodes * largest * unit, 64 * eps * abs(float(expected.result[0]))), unit)
        assert (np.abs(got.result - expected.result) <= atols).all(), (what, got.result, expected.result)
        assert (got.result[1] == 0.0) == (expected.result[1] == 0.0), what


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
