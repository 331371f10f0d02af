# SPDX-License-Identifier: MIT
"""Concerns of the gpu backend alone: strips of planes, the order of threads, two types on one device."""

import gc
import itertools
import threading
import weakref
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pytest
from conftest import emulated
from support.agreement import FEW_RULES, agree, calls, grid_operator, with_coefficients
from support.emulation import EmulatedModule, EmulatedRuntime, Order
from support.operators import operator, random_array

from poisson.backends.gpu import choice, launch, shared
from poisson.backends.gpu.backend import GpuBackend
from poisson.backends.gpu.shapes import KINDS, UNTUNED, VARYING, Shape
from poisson.backends.gpu.tuned import Measured, Setting
from poisson.backends.numpy import NumpyBackend
from poisson.backends.operations import ALL
from poisson.discrete.operator import Operator
from poisson.discrete.transfer import Interpolation, Transfer
from poisson.errors import ResourceError

STRIPS = Shape(32, 2, 5, unroll=2, rows=2, strip=1 << 10)
"""Strips of a few lines, and marches that the grid cuts short."""


@dataclass(frozen=True)
class OneShape:
    """A table of measured shapes with one for all kernels that march by themselves."""

    shape: Shape

    def get(self, key: Setting, default: Any = None) -> Measured:
        return Measured("2026-01-01", {kind: self.shape for kind in (*KINDS, *UNTUNED) if kind != "sweeps"})


def backend_with(shape: Shape, dtype: Any = np.float64) -> GpuBackend:
    table: Mapping[Setting, Measured] = OneShape(shape)  # type: ignore[assignment]  # has the one method that is called
    return GpuBackend(dtype, EmulatedRuntime(), table)


def test_a_residual_is_certified_and_not_written(dtype: Any) -> None:
    backend, a = emulated(dtype), grid_operator((27, 21, 9), FEW_RULES[3][2])
    operations, place = backend.bind(a), backend.reduction()
    u, f, work = (backend.from_host(random_array(a.array_shape, dtype, seed)) for seed in range(3))
    before = backend.to_host(work)
    operations.certify(u, f, work, place)
    certified = backend.read(place)
    np.testing.assert_array_equal(backend.to_host(work), before)
    operations.residual(u, f, work, place)
    assert backend.read(place) == certified


STENCILS = ("laplacian", "boundary_conditions", "sweep", "residual")


@pytest.mark.parametrize("names", [STENCILS, ("direction",), ("interpolate",), ("restrict", "prolong_add")])
def test_marches_in_strips_agree_with_the_specification(names: tuple[str, ...]) -> None:
    a = grid_operator((27, 21, 38), FEW_RULES[3][2])
    backend = backend_with(STRIPS)
    assert agree(backend, a, names, "both" if ALL[names[0]].coefficients else "none")
    lines = STRIPS.block_y
    assert STRIPS.strip // (a.shape[0] * backend.dtype.itemsize * lines) * lines < a.shape[1]


@pytest.mark.parametrize("everywhere", [False, True])
@pytest.mark.parametrize("dimension", [2, 3])
def test_from_half_the_intervals_two_planes_are_interpolated_together(
    dimension: int, everywhere: bool, dtype: Any
) -> None:
    """Also where a march has an odd number of them, and on grids of a few nodes, all of which are beside faces."""
    for rules, few in itertools.product(FEW_RULES[dimension], ((4, 5, 4), (9, 3, 6), (3, 4, 3))):
        coarse = operator(few[:dimension], rules)
        fine = operator(tuple(axis.nodes + axis.intervals for axis in coarse.lattice.axes), rules)
        found = []
        for backend in (backend_with(STRIPS, dtype), NumpyBackend(dtype)):
            out = backend.from_host(random_array(fine.array_shape, dtype, 1))
            source = backend.from_host(random_array(coarse.array_shape, dtype, 2))
            backend.bind(Interpolation(coarse, fine, everywhere)).interpolate(source, out)
            found.append(backend.to_host(out))
        np.testing.assert_allclose(*found, atol=8 * np.finfo(dtype).eps)


@pytest.mark.parametrize(
    ("names", "kind"),
    [
        (STENCILS, "none"),
        (("update", "norm", "dot", "axpby", "fill"), "none"),
        (("restrict", "prolong_add"), "none"),
        (("update", "sweeps", "color_sweep", "direction"), "both"),
    ],
)
def test_order_of_threads_does_not_matter(names: tuple[str, ...], kind: str) -> None:
    """A missing barrier or a dependency between blocks would show, also where an array changes in place."""
    a = grid_operator((70, 22), FEW_RULES[2][1])
    orders = (emulated(np.float64, order) for order in (Order.FORWARD, Order.REVERSED, Order.SHUFFLED))
    for found in zip(
        *([left for name in names for _, left in calls(each, name, a, kind)] for each in orders), strict=True
    ):
        for other in found[1:]:
            np.testing.assert_array_equal(other.result, found[0].result)
            for (got, _), (expected, _) in zip(other.arrays, found[0].arrays, strict=True):
                np.testing.assert_array_equal(got, expected)


def limit_blocks(monkeypatch: pytest.MonkeyPatch, limit: int) -> None:
    """Let a launch have at most so many blocks along y and along z."""
    for module in (choice, launch):
        monkeypatch.setattr(module, "MAX_BLOCKS", limit)


@pytest.mark.parametrize("shape", [(9, 70), (5, 6, 41)])
def test_a_long_thin_grid_marches_where_blocks_run_out(shape: tuple[int, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    limit_blocks(monkeypatch, 4)
    backend = emulated(np.float64)
    for rules in FEW_RULES[len(shape)][1:3]:
        agree(backend, operator(shape, rules), (*STENCILS, "update", "norm", "dot", "axpby", "fill"))


def test_a_grid_that_the_device_cannot_cut_up_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    limit_blocks(monkeypatch, 4)
    backend = GpuBackend(np.float64, EmulatedRuntime())
    a = operator((5, 41, 6), FEW_RULES[3][0])
    u, out = backend.empty(a.array_shape), backend.empty(a.array_shape)
    with pytest.raises(
        ResourceError,
        match=r"^the gpu backend cannot divide this grid into blocks .*laplacian: "
        r"6 x 3 along y and z",
    ):
        backend.bind(a).laplacian(u, out)


def test_an_axis_with_more_nodes_than_kernels_count_is_refused() -> None:
    with pytest.raises(
        ResourceError,
        match=r"^the gpu backend takes at most 2147418112 nodes along an axis, "
        r"not 2147483648",
    ):
        emulated(np.float64).empty((1, 1 << 31))


@pytest.mark.parametrize("kind", VARYING)
def test_coefficients_that_vary_have_shapes_of_their_own(kind: str) -> None:
    backend = backend_with(STRIPS)
    constant = grid_operator((7, 5), FEW_RULES[2][0])
    varying = with_coefficients(backend, constant, "c")
    trial = Shape(64, 1, 3)
    with backend.shapes.trying(VARYING[kind], trial):
        assert (backend.shapes.of(kind, varying), backend.shapes.of(kind, constant)) == (trial, STRIPS)
    with backend.shapes.trying(kind, trial):
        assert (backend.shapes.of(kind, varying), backend.shapes.of(kind, constant)) == (STRIPS, trial)


class Recording(EmulatedRuntime):
    """Runs what is captured twice: when it is recorded and when it is repeated."""

    def capture(self, function: Callable[[], None]) -> Callable[[], None]:
        function()
        return function


def test_a_recording_holds_the_operations_of_both_types() -> None:
    """Before it is recorded nothing has run on either, and a larger buffer for reductions is not allocated in it."""
    backend = GpuBackend(np.float64, Recording())
    single = backend.companion(np.float32)
    a = grid_operator((70, 41), FEW_RULES[2][0])
    x, y = single.from_host(np.ones(a.array_shape)), backend.from_host(np.zeros(a.array_shape))
    norms = backend.reduction()

    def add_and_measure() -> None:
        single.axpby(1.0, x, 1.0, x)
        backend.correct(0.5, x, y)
        single.bind(a).norm(x, norms)

    replay = backend.capture(add_and_measure)
    assert (single.to_host(x) == 2.0).all() and (backend.to_host(y) == 1.0).all()
    backend.bind(grid_operator((700, 411), FEW_RULES[2][0])).norm(backend.from_host(np.ones((411, 700))), norms)
    replay()
    assert (single.to_host(x) == 4.0).all() and (backend.to_host(y) == 3.0).all()
    assert backend.read(norms) == (16.0 * 70 * 41, 4.0)


def test_tables_of_transfers_keep_no_coefficients_alive() -> None:
    backend = emulated(np.float64)
    fine = with_coefficients(backend, grid_operator((37, 18), FEW_RULES[2][0]), "both")
    arrays = [backend.from_host(random_array(shape, np.float64, 1)) for shape in (fine.array_shape, (10, 19))]
    coefficients = weakref.ref(fine.coefficients)

    def use(fine: Operator) -> None:
        transfer = Transfer(fine, Operator.uniform((19, 10), (0.2, 0.34), fine.c, fine.rules))
        backend.bind(transfer).restrict(*arrays)
        backend.bind(transfer).prolong_add(*arrays[::-1])

    use(fine)
    del fine
    gc.collect()
    assert coefficients() is None


class TwoAtOnce(EmulatedRuntime):
    """Whose compiler comes to an end only where two of its runs are under way at the same time."""

    def __init__(self) -> None:
        super().__init__()
        self.meeting = threading.Barrier(2, timeout=300.0)

    def compile(self, source: str, options: tuple[str, ...] = ()) -> EmulatedModule:
        self.meeting.wait()
        return super().compile(source, options)


def test_what_is_made_ready_is_compiled_at_the_same_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared, "processors", lambda: 2)
    backend = GpuBackend(np.float64, TwoAtOnce())
    u = backend.from_host(np.ones((5, 6)))
    backend.prepare(partial(backend.fill, u, 2.0), partial(backend.axpby, 1.0, u, 1.0, u))
    assert (backend.to_host(u) == 1.0).all()
    replay = backend.capture(partial(backend.fill, u, 3.0))
    replay()
    assert (backend.to_host(u) == 3.0).all()
