# SPDX-License-Identifier: MIT
"""Half a level of multigrid in one call, against the composition of the operations in NumPy."""

import itertools
import math
import weakref
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from conftest import BACKENDS
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from support.agreement import FEW_RULES, KINDS, PLACED, placed, with_coefficients, zero_where_fixed
from support.axes import ENDS
from support.operators import AXIS_RULES, name_of, operator, pairs_of_rules, random_array, rules_of

from poisson import backends
from poisson.backends.base import Array, Backend
from poisson.backends.numpy import NumpyBackend
from poisson.discrete.operator import Operator
from poisson.discrete.transfer import Transfer
from poisson.mesh.axis import Axis
from poisson.mesh.boundary import Rule
from poisson.mesh.lattice import Lattice
from poisson.mesh.placement import Cells, Kind, Nodes

OMEGAS = (0.8, 1.3, 0.5, 0.9)
HALVING = {2: [(3, 3), (33, 17), (65, 64)], 3: [(5, 3, 9), (17, 33, 9)]}
OTHERS = {2: [(7, 4), (37, 18), (70, 41)], 3: [(5, 4, 6), (28, 9, 14)]}
# More columns, rows and planes than one tile has, and none of them a multiple of it.
LARGE_PLACED = {
    2: [placed((Nodes, 1, 3101), (Nodes, 0, 250)), placed((Cells, 0, 1000), (Nodes, 5, 200))],
    3: [
        placed((Cells, 3, 60), (Nodes, 5, 51), (Cells, 2, 100)),
        placed((Nodes, 3, 601), (Cells, 0, 150), (Cells, 2, 9)),
    ],
}
HALVING_PLACED = {
    2: [
        (placed((Nodes, 5, 41), (Nodes, 2, 33)), (), True),
        (placed((Nodes, 0, 160), (Nodes, 1, 17)), (), True),
        (PLACED[2][3], (0,), False),
        (placed((Axis, 0, 36), (Nodes, 0, 18)), (), True),
        (PLACED[2][2], (0,), True),
        (placed((Nodes, 7, 33), (Axis, 2, 17)), (), True),
    ],
    3: [
        (placed((Nodes, 5, 17), (Nodes, 3, 13), (Nodes, 0, 12)), (), True),
        (placed((Nodes, 0, 34), (Axis, 5, 9), (Nodes, 8, 17)), (), True),
        (PLACED[3][1], (0,), False),
        (placed((Axis, 0, 12), (Nodes, 4, 17), (Cells, 9, 8)), (0, 1), True),
    ],
}
"""Operators whose axes halve, the axes that coarsen, where not all, and whether kernels go between their grids."""
LARGE = {2: [(3100, 250), (9, 900), (1000, 200)], 3: [(600, 150, 9), (60, 51, 100)]}


@dataclass(frozen=True)
class Call:
    """What a smoothing is asked for beside its sweeps."""

    zero: bool
    correct: bool
    restrict: bool
    norm: bool
    short_waves: float = 0.0


LARGE_CALLS = (
    (Call(False, True, True, True), 3),
    (Call(True, False, True, False), 2),
    (Call(False, False, False, True, 0.6), 1),
)
"""What is called in turn on large grids, and with how many sweeps."""
CALLS = [Call(*flags, 0.6 * (flags[0] == flags[3])) for flags in itertools.product((False, True), repeat=4)]
UP = Call(False, True, False, False, 0.6)
"""The sweeps at the end of a visit."""


def coarsened(a: Operator, axes: tuple[int, ...]) -> Transfer:
    """To about half of the nodes along `axes`, on the same box."""
    shape, spacing = list(a.shape), list(a.spacing)
    for axis in axes:
        wraps = a.lattice.axes[axis].rules[0] is Rule.WRAP
        nodes, ends = a.shape[axis], 0 if wraps else 1
        coarse = -(-(nodes + ends) // 2)
        if coarse >= 3:
            shape[axis], spacing[axis] = coarse, a.spacing[axis] * (nodes - ends) / (coarse - ends)
    return Transfer(a, Operator.uniform(tuple(shape), tuple(spacing), a.c, a.rules))


def smoothed(backend: Backend, transfer: Transfer, call: Call, sweeps: int) -> tuple[NDArray[Any], NDArray[Any], Any]:
    """The result, the restricted residual and the norms that a call leaves."""
    a, dtype = transfer.fine, backend.dtype
    arrays: list[Array] = [backend.from_host(random_array(a.array_shape, dtype, seed)) for seed in range(4)]
    if call.short_waves:
        arrays[1] = backend.from_host(zero_where_fixed(backend, a, backend.to_host(arrays[1])))
    u, f, out, work = arrays
    error, coarse = (backend.from_host(random_array(transfer.coarse.array_shape, dtype, seed)) for seed in (4, 5))
    norms = backend.reduction()
    between = backend.bind(transfer)
    backend.bind(a).smooth(
        *(None if call.zero else u, f, out, work, OMEGAS[:sweeps]),
        correction=(between, error) if call.correct else None,
        restriction=(between, coarse) if call.restrict else None,
        result=norms if call.norm else None,
        short_waves=call.short_waves,
    )
    return backend.to_host(out), backend.to_host(coarse), backend.read(norms) if call.norm else None


def with_arrays(backend: Backend, transfer: Transfer, kind: str) -> Transfer:
    """The transfer from the operator with coefficients of a kind on a backend."""
    coarse = with_coefficients(backend, transfer.coarse, kind) if kind == "masked" else transfer.coarse
    return Transfer(with_coefficients(backend, transfer.fine, kind), coarse)


def agrees(backend: Backend, transfer: Transfer, call: Call, sweeps: int, kind: str = "none") -> None:
    """To some units of rounding for each step; the residual takes those of u times the diagonal of A."""
    expected, got = (
        smoothed(candidate, with_arrays(candidate, transfer, kind), call, sweeps)
        for candidate in (NumpyBackend(backend.dtype), backend)
    )
    case = f"{transfer.fine.shape} to {transfer.coarse.shape}, {name_of(transfer.fine.rules)}, {call}, {sweeps} sweeps"
    case += f", {kind} varies"
    unit = 16 * (1 + sweeps) * float(np.finfo(backend.dtype).eps) * max(1.0, float(np.abs(expected[0]).max()))
    np.testing.assert_allclose(got[0], expected[0], rtol=0, atol=unit, err_msg=case)
    of_residual = unit * (1 + transfer.fine.norm * (1 if kind == "none" else 10))
    np.testing.assert_allclose(got[1], expected[1], rtol=0, atol=of_residual, err_msg=case)
    if call.norm:
        assert got[2] == pytest.approx(expected[2], rel=64 * unit), case


def axes_of(dimension: int) -> list[tuple[int, ...]]:
    """All axes, and each choice of some."""
    return [axes for count in range(dimension, 0, -1) for axes in itertools.combinations(range(dimension), count)]


@pytest.mark.parametrize("coarse", [7, 8, 9, 15, 16, 17, 32, 33])
def test_rows_of_any_number_of_whole_lines_go_between_two_grids(backend: Backend, coarse: int) -> None:
    for pair in AXIS_RULES:
        wraps = pair[0] is Rule.WRAP
        for dimension in (2, 3):
            shape = (2 * coarse - (not wraps), 9, 5)[:dimension]
            rules = (*pair, *(Rule.FIXED, Rule.MIRROR) * (dimension - 1))
            for axes in [(0,), (0, 1)] if dimension == 2 else [(0, 1, 2)]:
                agrees(backend, coarsened(operator(shape, rules), axes), Call(False, True, True, True), 2)
    for ends in range(6):
        a = placed((Cells, ends, 2 * coarse), (Nodes, 0, 9))
        lattice = Lattice(tuple(axis.coarser or axis for axis in a.lattice.axes))
        agrees(backend, Transfer(a, Operator(lattice, a.c, a.a)), Call(False, True, True, True), 2)


@pytest.mark.parametrize("shapes", [HALVING, OTHERS], ids=["halving", "others"])
@pytest.mark.parametrize("dimension", [2, 3])
def test_every_call_with_few_faces(backend: Backend, dimension: int, shapes: dict[int, list[tuple[int, ...]]]) -> None:
    """The emulation is slow: it has a sample here, and the rest in test_smooth_gpu.py."""
    slow = backend.name == "gpu"
    for number, shape in enumerate(shapes[dimension][: 1 if slow else None]):
        for turn, call in enumerate(CALLS[:: 5 if slow else 1]):
            rules = FEW_RULES[dimension][0 if slow else (turn + number) % 5]
            agrees(backend, coarsened(operator(shape, rules), tuple(range(dimension))), call, (turn + 2 * number) % 5)


@pytest.mark.parametrize("rules", rules_of(2) + pairs_of_rules(3), ids=name_of)
def test_every_pair_of_faces(rules: tuple[Rule, ...]) -> None:
    dimension = len(rules) // 2
    backends_in_turn = itertools.cycle([BACKENDS["openmp"](dtype) for dtype in (np.float64, np.float32)])
    shapes = HALVING[dimension][1:] + OTHERS[dimension][1:]
    choices = zip(itertools.cycle(CALLS[1::2]), itertools.product(shapes, axes_of(dimension)), strict=False)
    for number, (call, (shape, axes)) in enumerate(choices):
        agrees(next(backends_in_turn), coarsened(operator(shape, rules), axes), call, number % 5)


@pytest.mark.parametrize("rules", rules_of(2) + pairs_of_rules(3), ids=name_of)
def test_every_pair_of_faces_at_the_end_of_a_visit(rules: tuple[Rule, ...]) -> None:
    dimension = len(rules) // 2
    for turn, shape in enumerate((HALVING[dimension][2 - dimension], OTHERS[dimension][-1])):
        transfer = coarsened(operator(shape, rules), axes_of(dimension)[(turn + sum(rules)) % 3])
        backend = BACKENDS["openmp"]((np.float64, np.float32)[(turn + sum(rules)) % 2])
        agrees(backend, transfer, UP, 1 + turn, KINDS[(sum(rules) + turn) % len(KINDS)])


@pytest.mark.parametrize("sweeps", range(4))
@pytest.mark.parametrize("kind", KINDS)
def test_short_waves_where_the_last_sweep_cannot_add_them(backend: Backend, kind: str, sweeps: int) -> None:
    """There is none, or its weight is zero; or it starts from zero, or has something behind it."""
    omegas = (0.8, 1.2, 0.9)[:sweeps]
    for shape in ((9, 8), (9, 8, 7))[: 1 + (kind in ("none", "masked"))]:
        a = with_coefficients(NumpyBackend(backend.dtype), operator(shape, FEW_RULES[len(shape)][1]), kind)
        u, f, expected = (random_array(a.array_shape, backend.dtype, seed) for seed in range(3))
        specification = NumpyBackend(backend.dtype).bind(a)
        f = zero_where_fixed(NumpyBackend(backend.dtype), a, f)
        specification.smooth(u.copy(), f, expected, np.empty_like(u), omegas)
        term = np.empty_like(u)
        specification.diagonal_solve(f, term, 0.6)
        bound = backend.bind(with_coefficients(backend, operator(shape, FEW_RULES[len(shape)][1]), kind))
        for weights in (omegas, (*omegas, 0.0)):
            arrays = [backend.from_host(values) for values in (u, f, expected, expected)]
            bound.smooth(*arrays, weights, short_waves=0.6)
            tolerance = 64 * float(np.finfo(backend.dtype).eps) * max(1.0, float(np.abs(expected).max()))
            np.testing.assert_allclose(backend.to_host(arrays[2]), expected + term, rtol=0, atol=tolerance)


@pytest.mark.parametrize("rules", rules_of(2) + pairs_of_rules(3), ids=name_of)
def test_coefficients_that_vary(rules: tuple[Rule, ...]) -> None:
    """Each kind in one type, which is the other one for the next kind and for other faces."""
    dimension = len(rules) // 2
    shapes = (*HALVING[dimension][1:], *OTHERS[dimension][::2])
    for turn, kind in enumerate(KINDS[1:], start=sum(rules)):
        if dimension == 3 and turn % 2:
            continue  # the other two kinds have other faces
        backend = BACKENDS["openmp"]((np.float64, np.float32)[turn % 2])
        choices = zip(itertools.cycle(CALLS[1::2]), itertools.product(shapes, axes_of(dimension)[::2]), strict=False)
        for number, (call, (shape, axes)) in enumerate(choices):
            agrees(backend, coarsened(operator(shape, rules), axes), call, number % 5, kind)


@pytest.mark.parametrize("kind", KINDS[1:])
@pytest.mark.parametrize("dimension", [2, 3])
def test_every_call_with_coefficients_that_vary(dimension: int, kind: str) -> None:
    both = [BACKENDS["openmp"](dtype) for dtype in (np.float64, np.float32)]
    for number, (sweeps, call) in enumerate(itertools.product(range(4), CALLS)):
        backend = both[(number + sweeps) % 2]
        transfer = coarsened(operator(HALVING[dimension][-1], FEW_RULES[dimension][sweeps]), axes_of(dimension)[0])
        agrees(backend, transfer, call, sweeps, kind)


@pytest.mark.parametrize("kind", KINDS[1:])
@pytest.mark.parametrize("dimension", [2, 3])
def test_several_tiles_of_coefficients_that_vary(dimension: int, kind: str) -> None:
    for number, shape in enumerate(LARGE[dimension]):
        backend = BACKENDS["openmp"]((np.float64, np.float32)[(KINDS.index(kind) + number) % 2])
        transfer = coarsened(operator(shape, FEW_RULES[dimension][number + 1]), axes_of(dimension)[0])
        agrees(backend, transfer, *LARGE_CALLS[(KINDS.index(kind) // 2 + number) % 2], kind)


@pytest.mark.parametrize("dimension", [2, 3])
@pytest.mark.parametrize("number", range(5))
def test_grids_of_several_tiles(dimension: int, number: int) -> None:
    for turn, shape in enumerate(LARGE[dimension]):
        backend = BACKENDS["openmp"]((np.float64, np.float32)[(number + turn) % 2])
        transfer = coarsened(operator(shape, FEW_RULES[dimension][number]), axes_of(dimension)[number % 2])
        agrees(backend, transfer, *LARGE_CALLS[(number + turn) % 3])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dimension", [1, 2, 3])
def test_smoothing_on_tabulated_axes(dtype: Any, dimension: int, kind: str) -> None:
    backend = BACKENDS["openmp"](dtype)
    every, turn = axes_of(dimension), KINDS.index(kind) + (dtype is np.float32)
    # What several tiles have of their own is their edges: some axes for each kind tell.
    large = [(a, every[(turn + 3 * number) % len(every)]) for number, a in enumerate(LARGE_PLACED.get(dimension, []))]
    choices = enumerate([*itertools.product(PLACED[dimension], every), *large])
    # Half of the choices for each kind, one half of them in each type.
    for number, (a, axes) in itertools.islice(choices, (KINDS.index(kind) + 2 * (dtype is np.float32)) % 4, None, 4):
        lines = (line.coarser if axis in axes else line for axis, line in enumerate(a.lattice.axes))
        coarse = Lattice(tuple(line or old for line, old in zip(lines, a.lattice.axes, strict=True)))
        for call in CALLS[number % 5 :: 5][: 1 if (a, axes) in large else None]:
            agrees(backend, Transfer(a, replace(a, lattice=coarse)), call, (number + call.norm) % 5, kind)


@pytest.mark.parametrize("dimension", [2, 3])
@pytest.mark.parametrize("ends", ENDS, ids=str)
def test_rows_of_equal_cells(dtype: Any, ends: tuple[Kind, Kind], dimension: int) -> None:
    """Tables that are the same in all lines but the first and the last, in rows of one line and of several tiles."""
    backend = BACKENDS["openmp"](dtype)
    for number, nodes in enumerate((14, 47, 48, 70, 3100)):
        axes = [Cells(np.linspace(-0.5, 0.8, count + 1), ends) for count in (nodes, 12, 10)]
        a = Operator(Lattice(tuple(map(Axis.placed, axes[:dimension]))), 0.7, 1.3)
        coarse = Lattice(tuple(line.coarser or line for line in a.lattice.axes))
        for call in CALLS[number::5]:
            kind = KINDS[number % len(KINDS)] if call.norm else "none"
            agrees(backend, Transfer(a, replace(a, lattice=coarse)), call, 3, kind)


@pytest.mark.parametrize("dimension", [2, 3])
def test_smoothing_on_tabulated_axes_of_a_gpu(dtype: Any, dimension: int) -> None:
    """Where cells coarsen the transfers are apart; where other axes do they are part of a pass."""
    number, every = dtype is np.float32, tuple(range(dimension))
    for a, axes, fused in HALVING_PLACED[dimension][number::2]:
        lines = tuple(
            line.coarser or line if axis in (axes or every) else line for axis, line in enumerate(a.lattice.axes)
        )
        transfer = Transfer(a, replace(a, lattice=Lattice(lines)))
        assert (transfer.window is not None) is fused
        agrees(BACKENDS["emulated"](dtype), transfer, Call(True, False, True, True), 3)
        agrees(BACKENDS["emulated"](dtype), transfer, Call(False, True, True, False), 2)
        agrees(BACKENDS["emulated"](dtype), transfer, UP, 2)


@pytest.mark.parametrize("pair", AXIS_RULES, ids=name_of)
def test_smoothing_in_one_dimension(dtype: Any, pair: tuple[Rule, Rule]) -> None:
    backend = BACKENDS["openmp"](dtype)
    for nodes in (3, 9, 10, 300, 5001):
        a = Operator.uniform((nodes, 1), (0.1, math.inf), 0.3, (*pair, Rule.WRAP, Rule.WRAP))
        for number, call in enumerate(CALLS):
            agrees(backend, coarsened(a, (0,)), call, number % 5, KINDS[(number + nodes) % len(KINDS)])


def test_more_sweeps_than_a_cycle_makes(dtype: Any) -> None:
    backend = BACKENDS["openmp"](dtype)
    a = operator((70, 41), FEW_RULES[2][1])
    u, f = (random_array(a.array_shape, dtype, seed) for seed in (1, 2))
    omegas = OMEGAS * 10
    results = []
    for candidate in (NumpyBackend(dtype), backend):
        out, work = candidate.empty(a.array_shape), candidate.empty(a.array_shape)
        candidate.bind(a).smooth(candidate.from_host(u), candidate.from_host(f), out, work, omegas)
        results.append(candidate.to_host(out))
    np.testing.assert_allclose(results[1], results[0], rtol=0, atol=1000 * float(np.finfo(dtype).eps))


@settings(max_examples=60, deadline=None, derandomize=True)
@given(data=st.data())
def test_any_shape_faces_and_call(data: st.DataObject) -> None:
    backend = BACKENDS["openmp"](data.draw(st.sampled_from([np.float64, np.float32])))
    dimension = data.draw(st.sampled_from([2, 3]))
    shape = data.draw(st.tuples(*[st.integers(3, 300 if dimension == 2 else 50)] * dimension))
    a = operator(shape, data.draw(st.sampled_from(rules_of(dimension))), data.draw(st.sampled_from([0.0, 0.3, 50.0])))
    axes = data.draw(st.sampled_from(axes_of(dimension)))
    agrees(backend, coarsened(a, axes), data.draw(st.sampled_from(CALLS)), data.draw(st.integers(0, 4)))


@pytest.mark.parametrize("shape", [(601, 1231), (201, 170, 100)])
def test_smoothing_gives_the_same_bits_for_every_number_of_threads(shape: tuple[int, ...]) -> None:
    transfer = coarsened(operator(shape, FEW_RULES[len(shape)][1]), (0, 1))
    results = set()
    for threads in (1, 2, 3):
        backend = backends.create("openmp", np.float64, threads)
        out, coarse, norms = smoothed(backend, transfer, Call(False, True, True, True), 3)
        results.add((out.tobytes(), coarse.tobytes(), norms))
    assert len(results) == 1


@pytest.mark.parametrize("shape", [(37, 18), (65, 33)])
def test_smoothing_writes_nothing_beyond_the_rows(shape: tuple[int, int]) -> None:
    """The norm and the dot product of a later call may read whole rows, padding and all."""
    backend = BACKENDS["openmp"](np.float64)
    transfer = coarsened(operator(shape, FEW_RULES[2][1]), (0, 1))
    u, f, out, work = (backend.from_host(random_array(shape[::-1], np.float64, seed)) for seed in range(4))
    coarse = backend.empty(transfer.coarse.array_shape)
    for omegas in ((), (0.8,), (0.8, 1.2)):
        backend.bind(transfer.fine).smooth(u, f, out, work, omegas, restriction=(backend.bind(transfer), coarse))
        for array in (u, out, coarse):
            whole = backend.empty((array.rows * array.pitch,))
            whole.pointer, kept = array.pointer, whole.pointer
            padding = backend.to_host(whole).reshape(array.rows, array.pitch)[:, array.shape[1] :]
            whole.pointer = kept
            np.testing.assert_array_equal(padding, 0.0)


def test_coefficients_end_with_what_is_bound_to_them() -> None:
    backend = BACKENDS["openmp"](np.float64)
    plain = coarsened(operator((9, 9), FEW_RULES[2][0]), (0, 1))
    transfer = with_arrays(backend, plain, "both")
    smoothed(backend, transfer, Call(False, False, True, False), 2)
    gone = weakref.ref(transfer.fine.coefficients)
    del transfer
    assert gone() is None


def test_the_result_in_the_place_of_the_start_is_refused() -> None:
    backend = BACKENDS["openmp"](np.float64)
    a = operator((9, 9), FEW_RULES[2][0])
    u, f, work = (backend.empty(a.array_shape) for _ in range(3))
    with pytest.raises(RuntimeError, match="poisson_smooth_f64 failed with status 3"):
        backend.bind(a).smooth(u, f, u, work, (0.8,))
