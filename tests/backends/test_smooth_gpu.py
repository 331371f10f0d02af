# SPDX-License-Identifier: MIT
"""Smoothing in few passes on the gpu backend, on the emulation: every face and combination of halved axes and steps."""

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from support.agreement import FEW_RULES, with_coefficients, zero_where_fixed
from support.emulation import EmulatedRuntime, Order
from support.operators import operator, random_array
from test_blocked import OMEGAS

from poisson.backends.base import Backend
from poisson.backends.gpu import passes as gpu_passes
from poisson.backends.gpu import smooth as gpu_smooth
from poisson.backends.gpu.backend import GpuBackend
from poisson.backends.gpu.passes import (
    LATENCIES,
    RESIDUAL,
    SWEEP,
    TIMED,
    TIMES,
    VARYING_TIMES,
    Pass,
    fastest_passes,
    passes,
)
from poisson.backends.gpu.shapes import (
    MOST_SHARED,
    MULTIPROCESSORS,
    SMOOTH_SHAPES,
    Shape,
    fits,
    owned_lines,
    shared_bytes,
    with_room,
)
from poisson.backends.gpu.smooth import PassLauncher
from poisson.backends.numpy import NumpyBackend
from poisson.discrete.operator import Operator
from poisson.discrete.transfer import Transfer
from poisson.mesh.boundary import Rule

CORRECT = Pass(False, True, 0, False)
F, M, W = Rule.FIXED, Rule.MIRROR, Rule.WRAP
Axes = tuple[bool, ...]

CALLS = {
    "from zero, down": (True, False, 2, True, False),
    "up": (False, True, 1, False, False),
    "up and down": (False, True, 3, True, True),
    "down": (False, False, 2, True, False),
    "two norms": (False, False, 2, False, True),
    "correction alone": (False, True, 0, False, False),
    "correction and residual": (False, True, 0, True, True),
    "from zero, alone": (True, False, 1, False, False),
    "many sweeps": (True, False, 7, True, True),
    "from a correction": (True, True, 3, True, True),
    "from a correction, alone": (True, True, 0, False, False),
    "up in two": (False, True, 2, False, False),
    "sweeps": (False, False, 7, False, False),
}
"""Zero start, correction, sweeps, restriction, norm."""
LAST_SWEEPS = ("up", "correction alone", "up in two", "sweeps")
"""The calls that may end with the term of short waves. Each has the same kernels with and without the term, unless it
has no sweep."""
WIDE = ((65505, 65535, 5), (65536, 65536, 5), (65536, 70000))
"""Planes of less than 2³² values and of as many; in 2D there are none."""
SIZES = {2: [(5, 5), (81, 37), (161, 25)], 3: [(5, 5, 5), (17, 9, 13), (141, 13, 17)]}
"""Fewer nodes than a group has lanes, and more strips, blocks of lines and marches than one."""
FEW_LINES = {
    **{(3, kind): (Shape(32, 3, 4, rows=3),) * 2 for kind in ("single", "sweeps")},
    (3, "varying single"): (Shape(32, 4, 4, rows=2),) * 2,
    **{(3, kind): (Shape(32, 5, 4),) * 2 for kind in ("zero", "correct", "varying correct")},
    **{(3, kind): (Shape(32, 3, 4),) * 2 for kind in ("correction", "restriction")},
    (3, "two"): (Shape(32, 5, 8, rows=2),) * 2,
}
"""Shapes in 3D whose blocks have few lines, for grids that need several."""


@pytest.fixture
def few_lines(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Blocks of few lines, and on small grids the passes of several stages that are for larger ones."""
    monkeypatch.setattr(gpu_smooth, "SMOOTH_SHAPES", {**SMOOTH_SHAPES, **FEW_LINES})
    monkeypatch.setattr(gpu_smooth, "SMALL_GRID", 0)
    monkeypatch.setattr(gpu_passes, "LATENCIES", dict.fromkeys(LATENCIES, 8.0))
    fastest_passes.cache_clear()
    yield
    fastest_passes.cache_clear()


def transfer_between(fine: tuple[int, ...], rules: tuple[Rule, ...], axes: Axes) -> Transfer:
    """To the grid of every other node along `axes`; where an axis wraps, of one node less than `fine` says."""
    shape = tuple(n - 1 if rules[2 * axis] is W else n for axis, n in enumerate(fine))
    a = operator(shape, rules)
    nodes = tuple((n + 1) // 2 if along else n for n, along in zip(shape, axes, strict=True))
    spacing = tuple(2.0 * h if along else h for h, along in zip(a.spacing, axes, strict=True))
    return Transfer(a, Operator.uniform(nodes, spacing, a.c, rules))


def smoothed(
    backend: Backend,
    of: Transfer,
    call: tuple[bool, bool, int, bool, bool],
    kind: str = "none",
    short_waves: float = 0.0,
) -> list[NDArray[Any]]:
    """What `smooth` leaves: out, the restriction and the norms."""
    zero, correct, sweeps, restrict, norm = call
    a, dtype = with_coefficients(backend, of.fine, kind), backend.dtype
    transfer = Transfer(a, with_coefficients(backend, of.coarse, kind) if kind == "masked" else of.coarse)
    u = None if zero else backend.from_host(random_array(a.array_shape, dtype, 1))
    values = 100.0 * random_array(a.array_shape, dtype, 2)
    if short_waves:
        plain = NumpyBackend(dtype)
        values = zero_where_fixed(plain, with_coefficients(plain, of.fine, kind), values)
    f = backend.from_host(values)
    out, work = (backend.from_host(np.full(a.array_shape, np.nan)) for _ in range(2))
    coarse = backend.from_host(random_array(transfer.coarse.array_shape, dtype, 3))
    restricted = backend.from_host(np.zeros(transfer.coarse.array_shape))
    result = backend.reduction()
    between = backend.bind(transfer)
    backend.bind(a).smooth(
        *(u, f, out, work, OMEGAS[:sweeps]),
        (between, coarse) if correct else None,
        (between, restricted) if restrict else None,
        result if norm else None,
        short_waves,
    )
    norms = np.array(backend.read(result)) if norm else np.zeros(2)
    return [backend.to_host(out), backend.to_host(restricted), norms]


def agree(found: list[NDArray[Any]], expected: list[NDArray[Any]]) -> None:
    for got, wanted in zip(found, expected, strict=True):
        tolerance = 256 * np.finfo(found[0].dtype).eps * max(1.0, np.abs(wanted).max())
        np.testing.assert_allclose(got, wanted, rtol=0, atol=tolerance)


def agrees(backend: Backend, transfer: Transfer, name: str, kind: str = "none") -> None:
    """Compare a call with the specification, also with short waves where it may end with them."""
    for short_waves in (0.0, 0.4)[: 1 + (name in LAST_SWEEPS)]:
        expected = smoothed(NumpyBackend(backend.dtype), transfer, CALLS[name], kind, short_waves)
        agree(smoothed(backend, transfer, CALLS[name], kind, short_waves), expected)


def halvings(dimension: int) -> list[Axes]:
    return [axes for axes in itertools.product((True, False), repeat=dimension) if any(axes)]


CASES = [
    pytest.param(dimension, number, name, id=f"{dimension}D-{number}-{name}")
    for dimension in (2, 3)
    for number, name in itertools.product(range(5), CALLS)
    if dimension == 2 or (number + list(CALLS).index(name)) % 3 == 0
]


@pytest.mark.usefixtures("few_lines")
@pytest.mark.parametrize(("dimension", "number", "name"), CASES)
def test_smooth_is_the_composition_of_its_parts(dimension: int, number: int, name: str) -> None:
    """Each call is compiled for both types, with other axes that are halved, and has the faces in turn."""
    which = number % 2 + list(CALLS).index(name)
    dtype = (np.float64, np.float32)[which % 2]
    axes = halvings(dimension)[which % len(halvings(dimension)) if which % 4 else 0]
    runtime = EmulatedRuntime(Order.SHUFFLED, seed=which)
    backend = GpuBackend(dtype, runtime)
    for size in SIZES[dimension]:
        agrees(backend, transfer_between(size, FEW_RULES[dimension][number], axes), name)
    runtime.check_guards()


@pytest.mark.usefixtures("few_lines")
@pytest.mark.parametrize("number", range(5))
def test_smooth_where_coefficients_vary(number: int) -> None:
    runtime = EmulatedRuntime(Order.SHUFFLED, seed=number)
    for single in (False, True):
        dtype, kind = (np.float64, np.float32)[single], ("a", "both", "c", "masked")[(number + 3 * single) % 4]
        name = ("from zero, down", "up and down", "up", "correction and residual")[(number + single) % 4]
        axes = halvings(3)[number if single else 0]
        for size in SIZES[3]:
            agrees(GpuBackend(dtype, runtime), transfer_between(size, FEW_RULES[3][number], axes), name, kind)
    runtime.check_guards()


@pytest.mark.parametrize("shape", [(9, 8), (9, 8, 7)])
def test_two_sweeps_from_zero_share_a_pass_where_the_diagonal_varies_but_not_in_a_recording(shape: Any) -> None:
    """With the diagonal of the coefficients that there are; a recording has none, and makes the sweeps one by one."""
    backend, found = GpuBackend(np.float64, EmulatedRuntime()), []
    a = with_coefficients(backend, operator(shape, (F, F, M, M, W, W)[: 2 * len(shape)]), "masked")
    operations = backend.bind(a)
    f, out, work = (backend.from_host(random_array(a.array_shape, np.float64, seed)) for seed in (1, 2, 3))

    def swept() -> None:
        operations.smooth(None, f, out, work, (0.7, 0.9))

    for factor in (1.0, 3.0):
        for links in a.links or ():
            links *= factor
        operations.rebind(a)
        with backend.shared.recorded():
            swept()
            found.append(backend.to_host(out))
            assert operations.inverse is None
        for _ in range(2):
            with backend.shared.without_launches() as noted:
                swept()
            assert [key[1] for key in noted][-1] == "two_sweeps"
            swept()
            agree([backend.to_host(out)], [found[-1]])
    assert np.abs(found[0] - found[1]).max() > 0.1 * np.abs(found[0]).max()


def test_smooth_with_the_shapes_and_passes_of_a_device() -> None:
    """On a grid that needs several blocks."""
    transfer = transfer_between((33, 37, 9), (M, F, F, M, W, W), (True, True, True))
    backend = GpuBackend(np.float64, EmulatedRuntime())
    for name in ("up", "up in two", "from zero, down", "up and down", "correction and residual", "from zero, alone"):
        agrees(backend, transfer, name)


def test_places_in_a_plane_of_any_size_have_enough_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    wide = [PassLauncher(GpuBackend(np.float32, EmulatedRuntime()), operator(n, (F, F) * len(n))).wide for n in WIDE]
    assert list(map(bool, wide)) == [False, True, False]
    transfer = transfer_between((33, 37, 9), (F,) * 6, (True, True, True))
    plain = smoothed(GpuBackend(np.float64, EmulatedRuntime()), transfer, CALLS["up and down"])
    monkeypatch.setattr(PassLauncher, "wide", wide[1])
    for got, expected in zip(
        smoothed(GpuBackend(np.float64, EmulatedRuntime()), transfer, CALLS["up and down"]), plain, strict=True
    ):
        np.testing.assert_array_equal(got, expected)


@pytest.mark.usefixtures("few_lines")
@pytest.mark.parametrize("number", range(5))
@pytest.mark.parametrize("dimension", [2, 3])
def test_between_grids_that_halve_along_any_axes(dimension: int, number: int) -> None:
    dtype = (np.float64, np.float32)[number % 3 % 2]  # each choice of axes is compiled for one type
    runtime = EmulatedRuntime()
    backends = (NumpyBackend(dtype), GpuBackend(dtype, runtime))
    # Each pair of faces on axes that are halved and not: a choice of axes, the others, and at times all.
    some = halvings(dimension)[1 + number % (2 ** (dimension - 1) - 1)]
    others = tuple(not along for along in some)
    for axes in (some, others, (True,) * dimension)[: 2 + (number == dimension)]:
        transfer = transfer_between(SIZES[dimension][-1], FEW_RULES[dimension][number], axes)
        assert transfer.halves == axes
        results = []
        for backend in backends:
            fine = backend.from_host(random_array(transfer.fine.array_shape, dtype, 1))
            coarse = backend.from_host(random_array(transfer.coarse.array_shape, dtype, 2))
            restricted = backend.empty(transfer.coarse.array_shape)
            backend.bind(transfer).restrict(fine, restricted)
            backend.bind(transfer).prolong_add(coarse, fine)
            results.append([backend.to_host(fine), backend.to_host(restricted)])
        agree(*results)
    runtime.check_guards()


def test_grids_that_do_not_halve_take_the_tables() -> None:
    fine = operator((12, 9), (F, F, M, M))
    assert Transfer(fine, operator((7, 5), fine.rules)).halves is None
    assert Transfer(operator((8, 8), (W,) * 4), operator((4, 8), (W,) * 4)).halves == (True, False)
    assert Transfer(operator((8, 1), (F, F, W, W)), operator((8, 1), (F, F, W, W))).halves == (False, False)
    transfer = Transfer(fine, operator((7, 5), fine.rules))
    for name in ("up and down", "from zero, down", "up", "up in two"):
        agrees(GpuBackend(np.float64, EmulatedRuntime()), transfer, name)


def test_without_sweeps_and_correction_u_is_copied() -> None:
    transfer = transfer_between((17, 9), (F,) * 4, (True, True))
    call = (False, False, 0, True, True)
    backend = GpuBackend(np.float64, EmulatedRuntime())
    found = smoothed(backend, transfer, call)
    agree(found, smoothed(NumpyBackend(np.float64), transfer, call))
    np.testing.assert_array_equal(found[0], random_array((9, 17), np.float64, 1))


# ---- the choice of passes
def test_passes() -> None:
    assert list(passes(True, False, 2, True, 2)) == [Pass(True, False, 2, True)]
    assert list(passes(False, True, 3, True, 5)) == [Pass(False, True, 3, True)]
    assert list(passes(False, True, 3, True, 2)) == [Pass(False, True, 2, False), Pass(False, False, 1, True)]
    assert list(passes(False, True, 2, True, 2)) == [Pass(False, True, 2, False), Pass(False, False, 0, True)]
    assert list(passes(False, True, 0, False, 2)) == [Pass(False, True, 0, False)]


def require_every_step(found: Sequence[Pass], zero: bool, correct: bool, sweeps: int, residual: bool) -> None:
    """Passes hold each of the steps once: a start or a correction first, and the residual last."""
    others = (False,) * (len(found) - 1)
    assert sum(step.sweeps for step in found) == sweeps
    assert [step.zero for step in found] == [zero, *others]
    assert [step.correct for step in found] == [correct, *others]
    assert [step.residual for step in found] == [*others, residual]


@pytest.mark.parametrize("most", [1, 2, 5])
def test_passes_hold_every_step_once(most: int) -> None:
    for zero, correct, residual in itertools.product((False, True), repeat=3):
        for sweeps in range(1, 9):
            found = list(passes(zero, correct, sweeps, residual, most))
            assert all(step.stages <= most for step in found)
            require_every_step(found, zero, correct, sweeps, residual)


def test_in_3d_the_size_decides() -> None:
    """On a small grid the fewest passes are the fastest; on a large one not."""
    small, large = 33**3, 513**3
    down, both = (True, False, 2, True), (False, True, 3, True)
    for single in (False, True):
        assert fastest_passes(*down, False, single, small) == (Pass(*down),)
        assert fastest_passes(*down, False, single, large) == (Pass(*down),)
        assert fastest_passes(*both, False, single, small) == (CORRECT, SWEEP, SWEEP, SWEEP, RESIDUAL)
        assert fastest_passes(*both, False, single, large) == (
            *(Pass(False, True, 2, False), Pass(False, False, 1, True)),
        )
        assert fastest_passes(False, True, 1, False, True, single, small) == (CORRECT, SWEEP)
    assert fastest_passes(False, True, 1, False, True, True, large) == (
        *(Pass(False, True, 0, False), Pass(False, False, 1, False)),
    )


@pytest.mark.parametrize("nodes", [125, 129**3, TIMED])
@pytest.mark.parametrize("varies", [False, True])
def test_the_fastest_passes_hold_every_step_once(varies: bool, nodes: int) -> None:
    starts = ((False, False), (False, True), (True, False))
    for (zero, correct), residual, single in itertools.product(starts, (False, True), (False, True)):
        for sweeps in range(1 if zero or not residual else 0, 9):
            found = fastest_passes(zero, correct, sweeps, residual, varies, single, nodes)
            assert set(found) <= set(VARYING_TIMES if varies else TIMES)
            require_every_step(found, zero, correct, sweeps, residual)


def test_more_sweeps_than_calls_can_nest_have_their_passes() -> None:
    found = fastest_passes(False, True, 1000, True, False, False, TIMED)
    assert sum(step.sweeps for step in found) == 1000
    assert (found[0].correct, found[-1].residual) == (True, True)


# ---- shapes
def test_a_march_is_even_and_leaves_no_part_of_a_device_idle() -> None:
    backend = GpuBackend(np.float64, EmulatedRuntime())
    step = Pass(False, True, 1, False)
    marches = {}
    for n in (33, 257, 4097):
        a = Operator.uniform((n, n), (1.0, 1.0), 0.0, (F,) * 4)
        marches[n] = PassLauncher(backend, a).smooth_shape(step).march
    assert marches == {33: 2, 257: 2, 4097: SMOOTH_SHAPES[2, "correct"][1].march}
    assert all(shape.march % 2 == 0 for shapes in SMOOTH_SHAPES.values() for shape in shapes)


@pytest.mark.parametrize(("n", "march"), [(65, 4), (129, 20), (513, 128)])
def test_in_3d_as_few_steps_as_can_be_follow_one_another(n: int, march: int) -> None:
    """At 129³ seven bands of three times 6 blocks are all that a device holds: another band would wait for them."""
    a = Operator.uniform((n,) * 3, (1.0,) * 3, 0.0, (F,) * 6)
    step, halves = Pass(True, False, 2, True), (True,) * 3
    launcher = PassLauncher(GpuBackend(np.float64, EmulatedRuntime()), a)
    shape = launcher.smooth_shape(step, halves)
    assert shape.march == march
    at_once = MULTIPROCESSORS * shape.resident
    assert (math.prod(launcher.lines_grid(shape, step.stages, halves, below=True)) <= at_once) == (n < 513)


def test_every_pass_has_a_shape() -> None:
    planes = {*(step.kind for step in TIMES), "restriction"}
    kinds = {kind for dimension, kind in SMOOTH_SHAPES if dimension == 3}
    marching = {f"varying {step.kind}" for step in VARYING_TIMES if step.stages and step.writes == step.correct}
    assert kinds == planes | marching
    starts = ((False, False), (False, True), (True, False))
    lines = {
        step.kind
        for (zero, correct), residual in itertools.product(starts, (False, True))
        for sweeps in range(not residual, 8)
        for step in passes(zero, correct, sweeps, residual, 5)
    }
    assert {kind for dimension, kind in SMOOTH_SHAPES if dimension == 2} == lines | {"restriction"}


H200, MI200 = 227 << 10, 64 << 10
"""Bytes of shared memory that a block can have."""
STEPS = (*TIMES, *VARYING_TIMES, Pass(False, False, 0, False))


@pytest.mark.parametrize("step", STEPS, ids=str)
def test_no_pass_needs_more_shared_memory_than_a_block_has(step: Pass) -> None:
    """Whichever axes halve: the more nodes the coarser grid has, the more a restriction gathers."""
    for varies, which in itertools.product(("", "varying "), (0, 1)):
        for shapes in (SMOOTH_SHAPES.get((3, varies + step.kind), ()), FEW_LINES.get((3, varies + step.kind), ())):
            for restricted in (None, *itertools.product((False, True), repeat=3)) if shapes else ():
                if restricted and not (step.residual or step.kind == "restriction"):
                    continue
                shape = with_room(shapes[which], step.stages, restricted, H200)
                assert shared_bytes(shape, step.stages, restricted) <= MOST_SHARED
                assert owned_lines(shape, step.stages, bool(restricted and restricted[1])) > 0
                if restricted in (None, (True, True, True)):
                    assert shape == shapes[which]


def test_shared_memory_decides_whether_a_shape_fits() -> None:
    """Two sweeps in 32 lines take 2 x 32 x 2 packs of 16 bytes for 32 lanes; a lane of three shows the outermost two.

    A coarser grid would have a KB beside them.
    """
    assert shared_bytes(Shape(32, 32, 32), 2) == shared_bytes(Shape(32, 16, 32, rows=3), 2) == 65 << 10
    assert with_room(Shape(32, 32, 32), 2, None, H200).block_y == 32
    assert with_room(Shape(32, 32, 32), 2, None, MI200).block_y == 31
    found = [lines for lines in range(1, 33) if fits(Shape(32, lines, 32, depth=2), "sweeps", 3, 2)]
    assert found == list(range(5, 33))
    assert not fits(Shape(32, 32, 32, depth=4, rows=2), "sweeps", 3, 2)
