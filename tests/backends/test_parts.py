# SPDX-License-Identifier: MIT
"""Operations on parts of a lattice with halos: on the nodes that a part owns they give what the whole has.

Beyond the layers of a halo that an operation needs there is NaN, which must reach neither a node that is owned nor a
sum.

Covers poisson.backends.subjects.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from support.agreement import (
    OMEGAS,
    TABLE,
    Left,
    applies,
    call,
    choices,
    compare,
    everything,
    placed,
    subjects,
    with_arrays,
)
from support.axes import D, N, P, R, example
from support.operators import AXIS_RULES, name_of, operator, random_array
from support.parts import Cuts, Division, Values, put, taken, valid_within

from poisson.backends.base import Backend
from poisson.backends.gpu.grid_transfer import GpuTransfer
from poisson.backends.numpy import NumpyBackend
from poisson.backends.operations import ALL, Argument, Role
from poisson.discrete.inverse import Inverse
from poisson.discrete.operator import FIXED, Coefficients, Operator
from poisson.discrete.transfer import Interpolation, Transfer
from poisson.errors import GridError
from poisson.mesh.axis import Axis
from poisson.mesh.boundary import Kind, Rule
from poisson.mesh.differences import ORDERS, Differences
from poisson.mesh.lattice import Lattice
from poisson.mesh.placement import Cells, Nodes, Placement
from poisson.solvers.multigrid.hierarchy import levels_of

BACKEND = NumpyBackend(np.float64)
WALLS, FREE = (Rule.FIXED, Rule.FIXED), (Rule.MIRROR, Rule.MIRROR)
LOOP, LEFT = (Rule.WRAP, Rule.WRAP), (Rule.MIRROR, Rule.FIXED)
LINE = Axis.single()

DIVISIONS: list[tuple[str, Lattice, Cuts]] = [
    *((name_of(rules), Lattice((Axis(13, 0.1, rules), LINE)), {0: (0, 6)}) for rules in AXIS_RULES),
    *((name_of(rules), operator((7, 13), (*WALLS, *rules)).lattice, {1: (0, 4, 9)}) for rules in AXIS_RULES),
    *((name_of(rules), operator((16, 12), (*rules, *FREE)).lattice, {0: (0, 8), 1: (0, 6)}) for rules in AXIS_RULES),
    *(
        (name_of(rules), operator((5, 12, 13), (*FREE, *pair, *rules)).lattice, {2: (0, 3, 6, 9), 1: (0, 6)})
        for rules, pair in zip(AXIS_RULES, (*AXIS_RULES[2:], *AXIS_RULES[:2]), strict=True)
    ),
    ("free", operator((9, 8, 17), FREE * 3).lattice, {2: (0, 5, 12)}),
    ("cells", Lattice((example(Cells, (D, R), 8).axis, example(Nodes, (P, P), 12).axis)), {0: (0, 4), 1: (0, 6)}),
    ("placed", Lattice((example(Nodes, (R, D), 13).axis, example(Cells, (N, N), 12).axis)), {1: (0, 4, 8)}),
    ("open", Lattice((example(Cells, (N, N), 8).axis, example(Nodes, (N, N), 13).axis)), {0: (0, 4), 1: (0, 6)}),
]


def varying(lattice: Lattice, c: float = 0.0) -> Operator:
    """With a that jumps, and c that varies if it is not zero."""
    a = np.exp(2.0 * random_array(lattice.array_shape, np.float64, 21))
    coefficients = tuple(np.empty_like(a) for _ in lattice.axes)
    plain = BACKEND.bind(Operator(lattice))
    for axis, out in enumerate(coefficients):
        plain.links(axis, a, True, out)
    reaction = c * np.exp(random_array(lattice.array_shape, np.float64, 22)) if c else None
    ends = (float(reaction.min()), float(reaction.max())) if reaction is not None else (0.0, 0.0)
    return Operator(lattice, 0.0, 1.0, Coefficients(coefficients, reaction, (float(a.min()), float(a.max())), ends))


WHOLE = [
    (make(lattice), cuts)
    for number, (_, lattice, cuts) in enumerate(DIVISIONS)
    for make in (
        lambda lattice: Operator(lattice, 0.0, 1.7),
        lambda lattice: Operator(lattice, 0.3, 1.7),
        lambda lattice: varying(lattice, 0.4),
        varying,
    )[number % 2 :: 2]
]
"""For the specification: with c and without it in turn."""

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
    """Operators and where they are cut; a sample in float32, and for the gpu backend a small one."""
    if backend.name != "gpu":
        every = WHOLE if isinstance(backend, NumpyBackend) else COMPILED + PLACED
        return every[:: 1 if backend.dtype == np.float64 else 3]
    # Cells beside stretched nodes, and all kinds of axes with coefficients that vary; both types read tables alike.
    return [*EMULATED, PLACED[1], PLACED[-2]] if backend.dtype == np.float64 else EMULATED[:1]


# ---- by the table

STAGES = ("laplacian", "boundary_conditions")
"""Together they write all nodes: which of them writes a node depends on the part."""
ON_PARTS = [name for name in TABLE if ALL[name].subject in (Operator, Transfer, Interpolation) and name not in STAGES]


def coarser(lattice: Lattice) -> Lattice:
    return Lattice(tuple(axis.coarser or axis for axis in lattice.axes))


def below(own: Operator, axes: Sequence[int]) -> Operator:
    return Operator(Lattice(tuple((n in axes and line.coarser) or line for n, line in enumerate(own.lattice.axes))))


def agree_on_parts(backend: Backend, name: str, whole: Operator, cuts: Cuts) -> int:
    """Compare all calls of an operation on the parts with those on the whole; how many there were."""
    spec, numpy, count = ALL[name], NumpyBackend(backend.dtype), 0
    # Between two grids the layers are those of a coarser and of a finer one.
    layers = (
        3 if spec.subject is not Operator else spec.radius_of(whole) * (len(OMEGAS) if "omegas" in spec.names else 1)
    )
    division = Division.of(whole, cuts, layers + 1)
    undivided, owns = (
        with_arrays(numpy, whole),
        [with_arrays(backend, division.operator(part)) for part in division.parts],
    )

    join = np.add if any(argument.sums for argument in spec.arguments) else max

    def seen(values: Values, lattice: Lattice, argument: Argument) -> Values:
        return taken(values, lattice) if argument.role is Role.WRITTEN else valid_within(values, lattice, layers)

    depth = min(backend.bind(own).depth() for own in owns)
    of_parts = (list(subjects(backend, spec, own, below)) for own in owns)
    for of, *each in zip(subjects(numpy, spec, undivided, below), *of_parts, strict=True):
        for chosen in choices(spec, whole, depth):
            expected = call(numpy, spec, undivided, of, chosen, everything)
            arrays = [(np.full_like(values, np.nan), lattice) for values, lattice in expected.arrays]
            result = None if expected.result is None else np.zeros(2)
            for own, of_part in zip(owns, each, strict=True):
                local = dict(chosen)
                if "color" in chosen:
                    # Colors count the indices of the part, and those of the whole are meant.
                    local["color"] = (chosen["color"] - sum(axis.first for axis in own.lattice.axes)) % 2
                found = call(backend, spec, own, of_part, local, seen)
                for (out, _), (values, lattice) in zip(arrays, found.arrays, strict=True):
                    put(out, lattice, values)
                if result is not None and found.result is not None:
                    result = np.array([result[0] + found.result[0], join(result[1], found.result[1])])
            compare(expected, Left(arrays, result), backend, f"{name}, {whole.shape}, {name_of(whole.rules)}, {chosen}")
            count += 1
    return count


@pytest.mark.parametrize("name", ON_PARTS)
def test_parts_agree_with_the_whole_on_the_specification(name: str) -> None:
    assert sum(agree_on_parts(BACKEND, name, *each) for each in WHOLE if applies(ALL[name], each[0]))


@pytest.mark.parametrize("name", ON_PARTS)
def test_parts_agree_with_the_whole(backend: Backend, name: str) -> None:
    assert sum(agree_on_parts(backend, name, *each) for each in divisions(backend) if applies(ALL[name], each[0]))


def test_both_stages_of_the_operator_on_parts(backend: Backend) -> None:
    for on in (BACKEND, backend):
        for whole, cuts in divisions(on):
            numpy, division = NumpyBackend(on.dtype), Division.of(whole, cuts, 2)
            u, found = random_array(whole.array_shape, on.dtype, 1), []
            for own, values, place in (
                (with_arrays(numpy, whole), u, numpy),
                *((with_arrays(on, division.operator(part)), valid_within(u, part, 1), on) for part in division.parts),
            ):
                given, out = place.from_host(values), place.from_host(np.full(values.shape, np.nan))
                for name in STAGES:
                    getattr(place.bind(own), name)(given, out)
                found.append(place.to_host(out))
            expected = found.pop(0)
            close(division.gathered(found), expected, on.dtype)


@pytest.mark.parametrize(("whole", "cuts"), WHOLE)
def test_what_a_part_knows_of_the_whole(whole: Operator, cuts: Cuts) -> None:
    division = Division.of(whole, cuts, 2)
    assert 2 <= len(division.parts) <= 8
    counts = np.zeros(whole.array_shape)
    for part in division.parts:
        own = division.operator(part)
        assert (own.singular, own.norm, own.unknowns) == (whole.singular, whole.norm, whole.unknowns)
        assert own.eigenvalues() == whole.eigenvalues()
        assert own.has_one_diagonal == whole.has_one_diagonal
        mine = np.zeros(whole.array_shape)
        put(mine, part, np.ones(part.array_shape))
        counts += mine
    np.testing.assert_array_equal(counts, 1.0)


@pytest.mark.parametrize("lattice", [lattice for _, lattice, _ in DIVISIONS], ids=[name for name, *_ in DIVISIONS])
def test_the_levels_of_a_part_are_parts_of_those_of_the_whole(lattice: Lattice) -> None:
    """Down to that on which the whole is solved directly, and parts are not."""
    rules = tuple(rule for line in lattice.axes for rule in line.rules)
    shape = [32 if line.wraps else 33 for line in lattice.axes]
    alike = Lattice.uniform(tuple(shape), (0.1, 0.03, 0.07)[: len(shape)], rules)
    large = Lattice.uniform((33, 33), (0.1, 0.03), (*FREE, *WALLS))
    for whole, last in ((Operator(alike, 0.1), len(shape) - 1), (Operator(large), 1)):
        expected = levels_of(BACKEND.bind(whole), True)
        assert len(expected) > 1
        for part in Division.of(whole, {last: (0, 12, 20)}, 3).parts:
            levels = levels_of(BACKEND.bind(Operator(part, whole.c)), True)[: len(expected)]
            assert [level.lowest for level in levels[:-1]] == [level.lowest for level in expected[:-1]]
            for level, of_whole in zip(levels, expected, strict=True):
                assert level.operations.operator.lattice.whole == of_whole.operations.operator.lattice


def test_a_part_has_no_direct_solution_of_its_own() -> None:
    part = operator((9, 9), WALLS * 2).lattice.part(1, 0, 4, 1)
    with pytest.raises(ValueError, match="fast transforms need the whole of every axis"):
        BACKEND.bind(Inverse(Operator(part)))


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


def close(found: Values, expected: Values, dtype: Any, units: float = 64.0) -> None:
    largest = max(1.0, float(np.abs(expected).max()))
    np.testing.assert_allclose(found, expected, rtol=0, atol=units * float(np.finfo(dtype).eps) * largest)


def smooth_on_parts(
    backend: Backend, whole: Operator, cuts: Cuts, count: int, zero: bool, halo: tuple[int, int]
) -> bool:
    """Sweeps between a correction and a restriction; whether all parts make plain pairs with their coarser ones."""
    dtype = backend.dtype
    of_coarse = coarser(whole.lattice)
    u, f = (random_array(whole.array_shape, dtype, seed) for seed in (1, 2))
    on_coarse = random_array(of_coarse.array_shape, dtype, 3)
    layers = min(halo)

    def run(where: Backend, own: Operator, *arrays: Values) -> tuple[Values, Values, tuple[float, float], bool]:
        values, source, correction = map(where.from_host, arrays)
        out, work = (where.from_host(np.full(own.array_shape, np.nan)) for _ in range(2))
        restricted = where.from_host(np.full(correction.shape, np.nan))
        between = where.bind(Transfer(own, Operator(coarser(own.lattice))))
        result = where.reduction()
        pair = None if zero else (between, correction)
        where.bind(own).smooth(
            None if zero else values, source, out, work, (*OMEGAS, 0.7)[:count], pair, (between, restricted), result
        )
        plain = between.transfer.window is not None
        return where.to_host(out), where.to_host(restricted), where.read(result), plain

    specification = NumpyBackend(dtype)
    expected = run(specification, with_arrays(specification, whole), u, f, on_coarse)
    division = Division.of(whole, cuts, halo)
    restricted = np.full(of_coarse.array_shape, np.nan)
    outs, sums, plain = [], (0.0, 0.0), True
    for part in division.parts:
        below = coarser(part)
        arrays = (*(valid_within(values, part, layers) for values in (u, f)),)
        correction = valid_within(on_coarse, below, layers // 2 + 1)
        out, found, result, fits = run(backend, with_arrays(backend, division.operator(part)), *arrays, correction)
        outs.append(out)
        put(restricted, below, found)
        sums, plain = (sums[0] + result[0], max(sums[1], result[1])), plain and fits
    close(division.gathered(outs), expected[0], dtype)
    close(restricted, expected[1], dtype, 256.0)
    assert sums == pytest.approx(expected[2], rel=256 * float(np.finfo(dtype).eps))
    return plain


@pytest.mark.parametrize(("count", "zero"), [(1, False), (2, False), (2, True)])
def test_smoothing_between_parts_on_the_specification(count: int, zero: bool) -> None:
    """Sweeps, the residual and its restriction: a stage each, and one more where the nodes are not nested."""
    for whole, cuts in WHOLE:
        nested = all(axis.intervals % 2 == 0 for axis in whole.lattice.axes if axis.nodes > 1)
        smooth_on_parts(BACKEND, whole, cuts, count, zero, (count + 2 + (not nested),) * 2)


def test_smoothing_between_parts_that_halve(backend: Backend, monkeypatch: pytest.MonkeyPatch) -> None:
    """A halo that begins and ends on nodes of the coarser grid: the passes are those of undivided grids."""
    gpu = backend.name == "gpu"
    if gpu:
        monkeypatch.setattr(GpuTransfer, "restrict", None)  # what grids that make no plain pair take
    for whole, cuts in EMULATED_HALVING if gpu else HALVING:
        for count, zero in ((1, False), (2, True)):
            assert smooth_on_parts(backend, whole, cuts, count, zero, (6, 7))


def test_sweeps_from_zero_are_right_on_all_layers_but_one_for_each_after_the_first(backend: Backend) -> None:
    """The first sweep needs f alone, and where the diagonal is one number knows it at the outermost nodes, too."""
    for whole in (operator((9, 30), (*WALLS, *LEFT)), operator((9, 7, 30), (*FREE, *LOOP, *WALLS))):
        part = replace(whole, lattice=whole.lattice.part(whole.dimension - 1, 10, 18, 6))
        f = np.zeros(whole.array_shape)
        f[whole.lattice.free] = random_array(whole.array_shape, np.float64, 3)[whole.lattice.free]
        for count in (1, 2, 3):
            swept = []
            for own, values in ((whole, f), (part, f[4:24])):
                out, work = (backend.from_host(np.full(own.array_shape, np.nan)) for _ in range(2))
                backend.bind(own).smooth(None, backend.from_host(values), out, work, (*OMEGAS, 0.7)[:count])
                swept.append(backend.to_host(out))
            right = slice(count - 1, 20 - (count - 1))
            eps = float(np.finfo(backend.dtype).eps)
            np.testing.assert_allclose(swept[1][right], swept[0][4:24][right], rtol=0, atol=16 * eps * np.abs(f).max())


def test_smoothing_between_other_parts(backend: Backend) -> None:
    """Grids that do not halve, and halos that begin between two coarse nodes."""
    if backend.name == "gpu":
        assert not smooth_on_parts(backend, *EMULATED_HALVING[0], 1, False, (5, 5))
        return
    for number, (whole, cuts) in enumerate((*divisions(backend), *HALVING)):
        for count, zero in ((0, False), (1, False), (2, True))[number % 2 :: 2]:
            smooth_on_parts(backend, whole, cuts, count, zero, ((5, 5), (6, 6))[(number // 2 + count) % 2])


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


# ---- what other backends refuse
def test_other_backends_refuse_parts_along_x(backend: Backend) -> None:
    whole = operator((9, 12), (*FREE, Rule.WRAP, Rule.WRAP))
    part = whole.lattice.part(0, 3, 7, 1)
    line = f"the {backend.name} backend takes no grid that is divided along x: use run.backend = 'numpy'"
    for subject in (Operator(part), Interpolation(Operator(coarser(part)), Operator(part)), Differences(part)):
        with pytest.raises(GridError) as caught:
            backend.bind(subject)
        assert str(caught.value) == line


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


@pytest.mark.parametrize("order", [2, 4, 8])
@pytest.mark.parametrize("rules", AXIS_RULES, ids=name_of)
def test_derivatives_on_parts(rules: tuple[Rule, Rule], order: int) -> None:
    lattice = operator((14, 9, 19), (*rules, *FREE, *rules)).lattice
    division = Division.of(Operator(lattice), {2: (0, 5, 12), 0: (0, 6)}, order // 2)
    u = random_array(lattice.array_shape, np.float64, 1)
    expected = tuple(np.empty_like(u) for _ in range(3))
    BACKEND.bind(Differences(lattice, order)).gradient(u, expected)
    found: list[list[Values]] = [[] for _ in expected]
    for part in division.parts:
        bound, outs = BACKEND.bind(Differences(part, order)), tuple(np.empty(part.array_shape) for _ in range(3))
        bound.gradient(taken(u, part), outs)
        for kept, out in zip(found, outs, strict=True):
            kept.append(out)
    for parts, of_whole in zip(found, expected, strict=True):
        np.testing.assert_allclose(division.gathered(parts), of_whole, rtol=0, atol=1e-12)
    if order > 2:
        with pytest.raises(GridError, match=f"z: a difference of order {order} needs a halo of {order // 2} nodes"):
            Differences(lattice.part(2, 5, 12, 1), order)
    if rules[0] is not Rule.WRAP:
        line = f"z: a part of {order} nodes; a difference of order {order} needs at least {order + 1}, with the halo"
        with pytest.raises(GridError, match=line):
            Differences(lattice.part(2, 0, order // 2, order // 2), order)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("ends", [(P, P), (D, N), (R, R)], ids=str)
@pytest.mark.parametrize("kind", [Nodes, Cells])
def test_differences_on_tabulated_axes(kind: type[Placement], ends: tuple[Kind, Kind], order: int) -> None:
    """They are exact for polynomials of their order, at faces and between parts as well."""
    lattice = Lattice((Axis(9, 0.1, WALLS), example(kind, ends, 14).axis))
    backend, y = NumpyBackend(np.float64), lattice.axes[1].coordinates[:, None]
    inside = slice(order // 2, -(order // 2)) if ends[0] is P else slice(None)
    u = np.broadcast_to(y**order, lattice.array_shape).copy()
    slope = np.empty_like(u)
    backend.bind(Differences(lattice, order)).derivative(1, u, slope)
    expected = np.broadcast_to(order * y ** (order - 1), u.shape)
    np.testing.assert_allclose(slope[inside], expected[inside], rtol=0, atol=1e-10)
    part = lattice.part(1, 4, 10, order)
    along, here = np.empty(part.array_shape), part.axes[1]
    backend.bind(Differences(part, order)).derivative(1, u[here.index].copy(), along)
    np.testing.assert_allclose(along[here.owned], slope[4:10], rtol=0, atol=1e-12)
