# SPDX-License-Identifier: MIT
"""Parts of a lattice on the backends of compiled kernels: on the nodes that a part owns they give what the whole has.

Beyond the layers of a halo that an operation needs there is NaN, which must reach neither a node that is owned nor a
sum.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from support.agreement import placed
from support.operators import AXIS_RULES, name_of, operator, random_array
from support.parts import Cuts, Division, Values, put, taken, valid_within
from test_parts import FREE, WALLS, coarser, varying

from poisson.backends.base import Array, Backend, Operations, Reduction
from poisson.backends.gpu.grid_transfer import GpuTransfer
from poisson.backends.numpy import NumpyBackend
from poisson.discrete.operator import FIXED, Operator
from poisson.discrete.transfer import Interpolation, Transfer
from poisson.mesh.axis import Axis
from poisson.mesh.boundary import Rule
from poisson.mesh.differences import Differences
from poisson.mesh.lattice import Lattice
from poisson.mesh.placement import Cells, Nodes

LOOP = (Rule.WRAP, Rule.WRAP)
LEFT = (Rule.MIRROR, Rule.FIXED)
OMEGAS = (0.9, 0.6, 1.2, 0.7)

EMULATED: list[tuple[Operator, Cuts]] = [
    (Operator(operator((9, 12), (*LEFT, *LOOP)).lattice, 0.3, 1.7), {1: (0, 6)}),
    (varying(operator((9, 12, 11), (*FREE, *LOOP, *LEFT)).lattice, 0.4), {2: (0, 5), 1: (0, 6)}),
]
"""Few, as their kernels are compiled for each part that has other neighbours."""

COMPILED: list[tuple[Operator, Cuts]] = [
    *((Operator(operator((7, 13), (*WALLS, *rules)).lattice, 0.0, 1.7), {1: (0, 4, 9)}) for rules in AXIS_RULES),
    *((varying(operator((37, 18), (*rules, *FREE)).lattice), {1: (0, 9)}) for rules in AXIS_RULES),
    *(
        (make(operator((19, 12, 13), (*FREE, *pair, *rules)).lattice, 0.4), {2: (0, 3, 6, 9), 1: (0, 6)})
        for rules, pair in zip(AXIS_RULES, (*AXIS_RULES[2:], *AXIS_RULES[:2]), strict=True)
        for make in (Operator, varying)
    ),
]


def masked(lattice: Lattice, c: float) -> Operator:
    """As `varying`, with nodes that are fixed."""
    whole = varying(lattice, c)
    assert whole.coefficients is not None
    values = np.where(random_array(lattice.array_shape, np.float64, 23) < -0.6, FIXED, whole.coefficients.c)
    return replace(
        whole, coefficients=replace(whole.coefficients, c=values, fixed=int((values[lattice.free] < 0).sum()))
    )


PLACED: list[tuple[Operator, Cuts]] = [
    *(
        (placed((Cells, ends - 3, 19), (kind, ends, 16)), {1: (0, 4, 9)})
        for ends in range(10)
        for kind in (Nodes, Cells)
    ),
    *(
        (varying(placed((Nodes, ends, 17), (kind, ends, 18)).lattice), {1: (0, 9)})
        for ends in (0, 1, 6)
        for kind in (Axis, Cells)
    ),
    *(
        (
            make(placed((Axis, 5, 19), (Cells, ends, 12), (Nodes, ends - 5, 13)).lattice, 0.4),
            {2: (0, 3, 6, 9), 1: (0, 6)},
        )
        for ends in (0, 3, 5)
        for make in (Operator, varying, masked)
    ),
]


def divisions(backend: Backend) -> list[tuple[Operator, Cuts]]:
    """Operators and where they are cut; a sample for the gpu backend, in float32 one."""
    if backend.name != "gpu":
        return COMPILED + PLACED * backend.tabulated
    return EMULATED[: 2 if backend.dtype == np.float64 else 1]


def on(backend: Backend, own: Operator) -> Operator:
    """The operator with its arrays on a backend."""
    given = own.coefficients
    if given is None:
        return own
    links = None if given.links is None else tuple(map(backend.from_host, given.links))
    c = None if given.c is None else backend.from_host(given.c)
    return replace(own, coefficients=replace(given, links=links, c=c))


def close(found: Values, expected: Values, dtype: Any, units: float = 64.0) -> None:
    largest = max(1.0, float(np.abs(expected).max()))
    np.testing.assert_allclose(found, expected, rtol=0, atol=units * float(np.finfo(dtype).eps) * largest)


Run = Callable[..., Sequence[Array]]


def compare(backend: Backend, whole: Operator, cuts: Cuts, layers: int, run: Run, arrays: int) -> None:
    """`run` gets bound operations, arrays and a place for results, and returns arrays."""
    specification = NumpyBackend(backend.dtype)
    given = [random_array(whole.array_shape, backend.dtype, seed) for seed in range(1, arrays + 1)]
    result = specification.reduction()
    expected = run(specification.bind(on(specification, whole)), *(values.copy() for values in given), result)
    # A layer more than is needed, so that there is one with NaN.
    division = Division.of(whole, cuts, layers + 1)
    found: list[list[Values]] = [[] for _ in expected]
    total, largest = 0.0, 0.0
    for part in division.parts:
        own = backend.reduction()
        values = [backend.from_host(valid_within(each, part, layers)) for each in given]
        outs = run(backend.bind(on(backend, division.operator(part))), *values, own)
        for kept, out in zip(found, outs, strict=True):
            kept.append(backend.to_host(out))
        of_part = backend.read(own)
        total, largest = total + of_part[0], max(largest, of_part[1])
    for parts, of_whole in zip(found, expected, strict=True):
        close(division.gathered(parts), of_whole, backend.dtype)
    eps = float(np.finfo(backend.dtype).eps)
    of_whole = specification.read(result)
    assert (total, largest) == pytest.approx(of_whole, rel=64 * eps, abs=64 * eps * abs(of_whole[1]))


def empty(bound: Operations, count: int = 1) -> list[Array]:
    backend, shape = bound.backend, bound.operator.array_shape
    return [backend.from_host(np.full(shape, np.nan)) for _ in range(count)]


def test_stencils_on_parts(backend: Backend) -> None:
    def stages(bound: Operations, u: Array, f: Array, result: Reduction) -> Sequence[Array]:
        out, r = empty(bound, 2)
        bound.laplacian(u, out)
        bound.boundary_conditions(u, out)
        bound.update(f, out, r, u, 0.7)
        bound.norm(r, result)
        return r, u

    def residual(bound: Operations, u: Array, f: Array, result: Reduction) -> Sequence[Array]:
        [out] = empty(bound)
        bound.residual(u, f, out, result)
        return (out,)

    def sweep(bound: Operations, u: Array, f: Array, result: Reduction) -> Sequence[Array]:
        [out] = empty(bound)
        bound.sweep(u, f, out, 0.8, result)
        return (out,)

    def defect(bound: Operations, u: Array, f: Array, result: Reduction) -> Sequence[Array]:
        single = bound.backend.companion(np.float32).empty(bound.operator.array_shape)
        bound.defect(u, f, 8.0, single, result)
        # Rounded from float64 the values may differ in their last bit.
        return (single,) if bound.backend.dtype == np.float32 else ()

    def direction(bound: Operations, z: Array, p: Array, result: Reduction) -> Sequence[Array]:
        out, q = empty(bound, 2)
        bound.direction(z, 0.4, p, out, q, result)
        return out, q

    for whole, cuts in divisions(backend):
        for run in (stages, residual, sweep, defect, direction):
            compare(backend, whole, cuts, 1, run, 2)


def test_vectors_and_links_on_parts(backend: Backend) -> None:
    def dot(bound: Operations, u: Array, f: Array, result: Reduction) -> Sequence[Array]:
        bound.dot(u, f, result)
        return ()

    def diagonal_solve(bound: Operations, r: Array, _: Array, result: Reduction) -> Sequence[Array]:
        [z] = empty(bound)
        bound.diagonal_solve(r, z, 0.9, result)
        return (z,)

    def advance(bound: Operations, p: Array, q: Array, result: Reduction) -> Sequence[Array]:
        u, r = (bound.backend.from_host(bound.backend.to_host(values)) for values in (p, q))
        bound.advance(0.3, p, q, u, r, result)
        return u, r

    def links(bound: Operations, a: Array, _: Array, result: Reduction) -> Sequence[Array]:
        outs = empty(bound, bound.operator.dimension)
        for axis, out in enumerate(outs):
            bound.links(axis, a, False, out)
        bound.norm(a, result)
        return outs

    for whole, cuts in divisions(backend):
        for run in (dot, diagonal_solve, advance):
            compare(backend, whole, cuts, 0, run, 2)
        compare(backend, whole, cuts, 1, links, 2)


def test_passes_of_several_sweeps_on_parts(backend: Backend) -> None:
    for whole, cuts in divisions(backend):
        for count in (2,) if backend.name == "gpu" else (2, 3, 4):
            if count <= backend.bind(on(backend, whole)).depth():

                def sweeps(bound: Operations, u: Array, f: Array, result: Reduction, count: int = count) -> Any:
                    [out] = empty(bound)
                    bound.sweeps(u, f, out, OMEGAS[:count], result)
                    return (out,)

                compare(backend, whole, cuts, count, sweeps, 2)


def test_colors_count_the_indices_of_a_part(backend: Backend) -> None:
    def colors(bound: Operations, u: Array, f: Array, result: Reduction) -> Sequence[Array]:
        first = sum(axis.first for axis in bound.operator.lattice.axes)
        for color in (0, 1):
            bound.color_sweep(u, f, (color - first) % 2, 1.3)
        bound.norm(u, result)
        return (u,)

    for whole, cuts in divisions(backend)[: 1 if backend.name == "gpu" else None]:
        if all(axis.nodes % 2 == 0 for axis in whole.lattice.axes if axis.wraps):
            compare(backend, whole, cuts, 2, colors, 2)


# ---- between grids


def nested(rules: tuple[Rule, ...], shape: tuple[int, ...], make: Callable[[Lattice], Operator]) -> Operator:
    """An operator on axes of even numbers of intervals."""
    wraps = [rule is Rule.WRAP for rule in rules[::2]]
    return make(operator(tuple(n - along for n, along in zip(shape, wraps, strict=True)), rules).lattice)


HALVING: list[tuple[Operator, Cuts]] = [
    (nested((*LEFT, *rules), (37, 33), Operator), {1: (0, 10, 20)}) for rules in AXIS_RULES
] + [
    (nested((*FREE, *pair, *rules), (9, 17, 33), make), {2: (0, 10, 20), 1: (0, 8)})
    for rules, pair in zip(AXIS_RULES, (*AXIS_RULES[2:], *AXIS_RULES[:2]), strict=True)
    for make in (Operator, varying)
]
EMULATED_HALVING: list[tuple[Operator, Cuts]] = [
    (nested((*LEFT, *LOOP), (17, 25), Operator), {1: (0, 8)}),
    (nested((*FREE, *LOOP, *LEFT), (9, 17, 17), Operator), {2: (0, 8), 1: (0, 8)}),
]


def smooth_on_parts(
    backend: Backend, whole: Operator, cuts: Cuts, count: int, zero: bool, halo: tuple[int, int]
) -> bool:
    """Sweeps between a correction and a restriction; whether all parts make plain pairs with their coarser ones."""
    dtype = backend.dtype
    of_coarse = coarser(whole.lattice)
    u, f = (random_array(whole.array_shape, dtype, seed) for seed in (1, 2))
    on_coarse = random_array(of_coarse.array_shape, dtype, 3)
    layers = min(halo)
    assert layers >= count + 3

    def run(where: Backend, own: Operator, *arrays: Values) -> tuple[Values, Values, tuple[float, float], bool]:
        values, source, correction = map(where.from_host, arrays)
        out, work = (where.from_host(np.full(own.array_shape, np.nan)) for _ in range(2))
        restricted = where.from_host(np.full(correction.shape, np.nan))
        between = where.bind(Transfer(own, Operator(coarser(own.lattice))))
        result = where.reduction()
        pair = None if zero else (between, correction)
        where.bind(own).smooth(
            None if zero else values, source, out, work, OMEGAS[:count], pair, (between, restricted), result
        )
        plain = between.transfer.window is not None
        return where.to_host(out), where.to_host(restricted), where.read(result), plain

    specification = NumpyBackend(dtype)
    expected = run(specification, on(specification, whole), u, f, on_coarse)
    division = Division.of(whole, cuts, halo)
    restricted = np.full(of_coarse.array_shape, np.nan)
    outs, sums, plain = [], (0.0, 0.0), True
    for part in division.parts:
        below = coarser(part)
        arrays = (*(valid_within(values, part, layers) for values in (u, f)),)
        correction = valid_within(on_coarse, below, layers // 2 + 1)
        out, found, result, fits = run(backend, on(backend, division.operator(part)), *arrays, correction)
        outs.append(out)
        put(restricted, below, found)
        sums, plain = (sums[0] + result[0], max(sums[1], result[1])), plain and fits
    close(division.gathered(outs), expected[0], dtype)
    close(restricted, expected[1], dtype, 256.0)
    assert sums == pytest.approx(expected[2], rel=256 * float(np.finfo(dtype).eps))
    return plain


def test_smoothing_between_parts_that_halve(backend: Backend, monkeypatch: pytest.MonkeyPatch) -> None:
    """A halo that begins and ends on nodes of the coarser grid: the passes are those of undivided grids."""
    gpu = backend.name == "gpu"
    if gpu:
        monkeypatch.setattr(GpuTransfer, "restrict", None)  # what grids that make no plain pair take
    for whole, cuts in EMULATED_HALVING if gpu else HALVING:
        for count, zero in ((1, False), (2, True)):
            assert smooth_on_parts(backend, whole, cuts, count, zero, (6, 7))


def test_smoothing_between_other_parts(backend: Backend) -> None:
    """Grids that do not halve, and halos that begin between two coarse nodes."""
    if backend.name == "gpu":
        assert not smooth_on_parts(backend, *EMULATED_HALVING[0], 1, False, (5, 5))
        return
    for whole, cuts in (*divisions(backend), *HALVING):
        for count, zero in ((0, False), (1, False), (2, True)):
            for halo in ((5, 5), (6, 6)):
                smooth_on_parts(backend, whole, cuts, count, zero, halo)


def test_the_tables_of_parts(backend: Backend) -> None:
    dtype = backend.dtype

    def run(where: Backend, own: Operator, *arrays: Values) -> list[Values]:
        values, u, a = map(where.from_host, arrays)
        coarse = Operator(coarser(own.lattice))
        between, found = where.bind(Transfer(own, coarse)), [where.from_host(arrays[1])]
        where.bind(Interpolation(coarse, own)).interpolate(values, u)
        between.prolong_add(values, found[0])
        outs = [where.from_host(np.full(coarse.array_shape, np.nan)) for _ in range(own.dimension + 1)]
        between.restrict(a, outs[0])
        for axis, out in enumerate(outs[1:]):
            between.coarsen_links(axis, a, out)
        return [where.to_host(array) for array in (u, *found, *outs)]

    specification = NumpyBackend(dtype)
    for whole, cuts in divisions(backend):
        plain = replace(whole, coefficients=None)
        of_coarse = coarser(plain.lattice)
        given = [random_array(shape, dtype, 5) for shape in (of_coarse.array_shape, *(plain.array_shape,) * 2)]
        given[2] = np.exp(given[2])
        expected = run(specification, plain, *given)
        division = Division.of(plain, cuts, 4)
        fine: list[list[Values]] = [[], []]
        coarse = [np.full(of_coarse.array_shape, np.nan) for _ in expected[2:]]
        for part in division.parts:
            below = coarser(part)
            arrays = valid_within(given[0], below, 3), taken(given[1], part), valid_within(given[2], part, 3)
            found = run(backend, replace(plain, lattice=part), *arrays)
            for kept, out in zip(fine, found[:2], strict=True):
                kept.append(out)
            for each, out in zip(coarse, found[2:], strict=True):
                put(each, below, out)
        for parts, of_whole in zip(fine, expected[:2], strict=True):
            close(division.gathered(parts), of_whole, dtype)
        for each, of_whole in zip(coarse, expected[2:], strict=True):
            close(each, of_whole, dtype)


# ---- first derivatives


@pytest.mark.parametrize("order", [2, 6])
def test_derivatives_next_to_a_halo(backend: Backend, order: int) -> None:
    specification = NumpyBackend(backend.dtype)
    gpu = backend.name == "gpu"
    for rules in (LEFT,) if gpu else AXIS_RULES:
        lattice = operator((14, 18, 19), (*rules, *FREE, *rules)).lattice
        u = random_array(lattice.array_shape, backend.dtype, 1)
        expected = [np.empty_like(u) for _ in range(3)]
        specification.bind(Differences(lattice, order)).gradient(u, expected)
        division = Division.of(Operator(lattice), {2: (0, 9), 1: (0, 5, 11)}, order // 2 + 1)
        found: list[list[Values]] = [[] for _ in expected]
        for part in division.parts:
            outs = [backend.from_host(np.full(part.array_shape, np.nan)) for _ in expected]
            values = backend.from_host(valid_within(u, part, order // 2))
            bound = backend.bind(Differences(part, order))
            bound.gradient(values, outs)
            if not gpu:
                for axis, out in enumerate(outs):
                    bound.derivative(axis, values, out)
            for kept, out in zip(found, outs, strict=True):
                kept.append(backend.to_host(out))
        for parts, of_whole in zip(found, expected, strict=True):
            close(division.gathered(parts), of_whole, backend.dtype)


@pytest.mark.parametrize(
    ("start", "stop", "halo", "window"),
    [
        (8, 16, (4, 5), slice(2, 11)),
        (8, 16, (4, 4), None),
        (8, 16, (3, 5), None),
        (0, 8, (4, 5), slice(0, 7)),
        (16, 33, (4, 5), slice(2, 13)),
        (10, 20, (2, 1), slice(1, 8)),
    ],
)
def test_which_parts_make_plain_pairs(start: int, stop: int, halo: tuple[int, int], window: slice | None) -> None:
    fine = Operator(operator((9, 33), FREE * 2).lattice.part(1, start, stop, halo))
    coarse = Operator(coarser(fine.lattice))
    assert name_of(fine.rules[:2]) == "MM"
    assert Transfer(fine, coarse).halves == (True, True)
    assert Transfer(fine, coarse).window == (None if window is None else (window, slice(0, 5)))
