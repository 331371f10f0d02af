# SPDX-License-Identifier: MIT
"""Memory of the openmp backend: arrays that were released make room for the next ones of their size."""

import ctypes
import itertools
from pathlib import Path

import numpy as np
import pytest
from conftest import BACKENDS
from support.agreement import grid_operator

from poisson.backends.openmp.arrays import DeviceArray
from poisson.backends.openmp.backend import OpenmpBackend
from poisson.mesh.boundary import Rule
from poisson.mesh.differences import Differences

SHAPE = (700, 601)
"""Of rows with padding behind them, and more than two huge pages in all."""


@pytest.fixture
def backend() -> OpenmpBackend:
    made = BACKENDS["openmp"](np.float64)
    assert isinstance(made, OpenmpBackend)
    return made


def whole(array: DeviceArray) -> list[float]:
    """The values of an array, padding and all, as the library sees them."""
    values = (ctypes.c_double * (array.rows * array.pitch)).from_address(array.pointer)
    return list(values)


def test_a_released_array_makes_room_for_one_of_its_size(backend: OpenmpBackend) -> None:
    first, other = backend.empty(SHAPE), backend.empty(SHAPE)
    places = {first.pointer, other.pointer}
    assert len(places) == 2
    del first, other
    smaller = backend.empty((300, 601))
    assert smaller.pointer not in places
    assert {backend.empty(SHAPE).pointer for _ in range(3)} <= places
    kept = [backend.empty(SHAPE) for _ in range(3)]
    assert len({array.pointer for array in kept}) == 3


def test_a_large_one_is_cut_for_smaller_ones_and_becomes_one_again(backend: OpenmpBackend) -> None:
    large = backend.empty((16000, 601))
    first, last = large.pointer, large.pointer + 8 * large.rows * large.pitch
    del large
    parts = [backend.empty((7500, 601)) for _ in range(2)]
    for number, array in enumerate(parts):
        backend.fill(array, float(number))
    assert all(first <= array.pointer < last for array in parts)
    assert [np.ptp(values := backend.to_host(array)) + values[0, 0] for array in parts] == [0.0, 1.0]
    del parts, array
    assert abs(backend.empty((16000, 601)).pointer - first) < 4096


@pytest.mark.parametrize("shape", [SHAPE, (96, 97), (9, 3001)])
def test_padding_in_the_place_of_another_array_is_zero(backend: OpenmpBackend, shape: tuple[int, int]) -> None:
    array = backend.empty(shape)
    place, pitch = array.pointer, array.pitch
    assert pitch > shape[1]
    backend.fill(array, np.nan)
    ctypes.memset(place, 0xFF, 8 * array.rows * pitch)
    assert np.isnan(whole(array)).all()
    del array
    again = backend.empty(shape)
    assert again.pointer == place
    assert not np.reshape(whole(again), (-1, pitch))[:, shape[1] :].any()


def test_what_stands_behind_the_rows_is_not_counted(backend: OpenmpBackend) -> None:
    """Whatever it is: `fill` for one writes whole rows."""
    a = grid_operator((37, 9), (Rule.MIRROR,) * 4)
    ones, r, out, q = (backend.empty((9, 37)) for _ in range(4))
    sums, weighted = backend.reduction(), 36.0 * 8.0
    for array in (ones, r, q):
        backend.fill(array, np.nan)
        backend.assemble((9, 37), lambda xp, start, stop: xp.ones((stop - start, 37)), array)
    backend.bind(a).norm(ones, sums)
    assert backend.read(sums) == (9.0 * 37.0, 1.0)
    backend.bind(a).dot(ones, ones, sums)
    assert backend.read(sums)[0] == weighted
    backend.bind(a).residual(ones, ones, out, sums)
    # With c = 0.7 the residual of ones is 0.3.
    assert backend.read(sums) == pytest.approx((9.0 * 37.0 * 0.09, 0.3), rel=1e-12)
    backend.bind(a).diagonal_solve(ones, out, a.diagonal, sums)
    assert backend.read(sums)[0] == pytest.approx(weighted, rel=1e-12)
    backend.bind(a).direction(ones, 0.0, q, out, r, sums)
    assert backend.read(sums)[0] == pytest.approx(0.7 * weighted, rel=1e-12)
    backend.assemble((9, 37), lambda xp, start, stop: xp.ones((stop - start, 37)), r)
    backend.bind(a).advance(0.5, ones, q, out, r, sums)
    assert backend.read(sums) == (9.0 * 37.0 * 0.25, 0.5)


@pytest.mark.parametrize("axis", [0, 1])
def test_derivatives_leave_zeros_behind_the_rows(backend: OpenmpBackend, axis: int) -> None:
    """Whatever stands there in the array that they are of."""
    u, out = (backend.empty((9, 37)) for _ in range(2))
    backend.fill(u, np.nan)
    backend.assemble((9, 37), lambda xp, start, stop: xp.ones((stop - start, 37)), u)
    assert np.isnan(np.reshape(whole(u), (-1, u.pitch))[:, 37:]).all()
    backend.bind(Differences.uniform((37, 9), (0.1, 0.1), (False, False))).derivative(axis, u, out)
    assert not np.any(whole(out))


def test_small_arrays_are_zero(backend: OpenmpBackend) -> None:
    """Those of tables and of sums."""
    arrays = [backend.empty((1, 8192)) for _ in range(4)]
    assert not any(any(whole(array)) for array in arrays)


@pytest.mark.parametrize(
    ("rows", "row_bytes"), [(0, 8), (-1, 8), (8, 0), (8, -8), (-8, -8), (1 << 40, 1 << 40), (3, 1 << 62), (1 << 62, 4)]
)
def test_no_memory_is_made_for_what_is_no_size(backend: OpenmpBackend, rows: int, row_bytes: int) -> None:
    """Nor for one that a 64-bit integer does not hold, which would be one of a few bytes."""
    memory = ctypes.c_void_p()
    with pytest.raises(RuntimeError, match=r"^poisson_allocate failed with status 3$"):
        backend._library.poisson_allocate(rows, row_bytes, 1, ctypes.byref(memory))
    assert memory.value is None


def test_arrays_of_any_size_do_not_overlap(backend: OpenmpBackend) -> None:
    # Around the size of a huge page, with and without what was released.
    sizes = [2**18 - 1024, 2**18 - 520, 2**18 - 512, 2**18 - 8, 2**18, 2**18 + 16]
    for _ in range(3):
        arrays = [backend.empty((1, size)) for size in sizes + sizes]
        for value, array in enumerate(arrays):
            backend.fill(array, float(value))
        spans = sorted((array.pointer, array.pointer + 8 * array.pitch) for array in arrays)
        assert all(end <= start for (_, end), (start, _) in itertools.pairwise(spans))
        for value, array in enumerate(arrays):
            np.testing.assert_array_equal(backend.to_host(array), float(value))
        del arrays, array


def resident() -> int:
    """Bytes of this process in memory."""
    status = Path("/proc/self/status")
    if not status.exists():
        pytest.skip("there is no /proc")
    line = next(line for line in status.read_text("utf-8").splitlines() if line.startswith("VmRSS"))
    return 1024 * int(line.split()[1])


def test_one_long_row_is_worked_on_in_the_memory_of_one_thread(backend: OpenmpBackend) -> None:
    """Three rows of the direction of conjugate gradients, whatever the threads."""
    a = grid_operator((1 << 19,), (Rule.FIXED, Rule.FIXED))
    z, p, out, q = (backend.from_host(np.ones(a.array_shape)) for _ in range(4))
    sums, many = backend.reduction(), OpenmpBackend(np.float64, threads=16)
    backend.bind(a).residual(z, p, out)
    for array in (out, q):
        backend.fill(array, 1.0)
    before = resident()
    try:
        many.bind(a).direction(z, 0.5, p, out, q, sums)
    finally:
        OpenmpBackend(np.float64, threads=backend.threads)
    assert resident() - before < 8 * a.shape[0] * 8
