# SPDX-License-Identifier: MIT
"""Copies between the caller's memory and a device's: every value, whatever the layout, and whatever goes wrong."""

import gc
import os
import threading
import warnings
import weakref
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from support.emulation import EmulatedRuntime
from support.emulation.link import EmulatedLink, EmulatedMark
from support.emulation.memory import Memory

from poisson import Problem, Solver, backends
from poisson.backends.gpu import staging
from poisson.backends.gpu.backend import GpuBackend
from poisson.backends.gpu.staging import Piece, Pinned, Ring, Staging, pieces
from poisson.errors import BackendUnavailable

Values = NDArray[Any]


class Device:
    """Arrays with padded rows, and copies in pieces of little more than a row."""

    def __init__(
        self, link: type[EmulatedLink] = EmulatedLink, ring: Ring | None = None, piece_bytes: int = 1 << 11
    ) -> None:
        self.memory = Memory()
        self.link = link(self.memory)
        self.staging = Staging(self.link, ring or Ring(3), piece_bytes, thread_bytes=1 << 12)

    def array(self, shape: tuple[int, ...], dtype: Any = np.float64) -> Values:
        itemsize = np.dtype(dtype).itemsize
        pitch = -(-shape[-1] * itemsize // 256) * 256 // itemsize
        flat = self.memory.allocate(int(np.prod(shape[:-1])) * pitch, dtype)
        return flat.reshape(*shape[:-1], pitch)[..., : shape[-1]]

    def sent(self, values: Values, dtype: Any = np.float64) -> Values:
        """A device array with the values, once all copies are made."""
        array = self.array(values.shape, dtype)
        self.staging.upload(values, array)
        self.link.synchronize()
        self.memory.check_guards("a copy")
        return array


def random(shape: tuple[int, ...], seed: int = 0) -> Values:
    return np.random.default_rng(seed).standard_normal(shape)


SHAPES = st.one_of(
    st.tuples(st.integers(1, 3000)),
    st.tuples(st.integers(1, 70), st.integers(1, 70)),
    st.tuples(st.just(1), st.integers(1, 5000)),
    st.tuples(st.integers(1, 12), st.integers(1, 12), st.integers(1, 70)),
)


@settings(max_examples=150, deadline=None)
@given(SHAPES, st.sampled_from([np.float32, np.float64]), st.integers(1, 5000))
def test_pieces_have_every_node_once_and_fit(shape: tuple[int, ...], dtype: Any, most: int) -> None:
    array = Device().array(shape, dtype)
    seen = np.zeros(shape, np.int64)
    behind = 0
    for piece in pieces(array.shape, array.strides, array.itemsize, most):
        block = array[piece.index]
        seen[piece.index] += 1
        assert block.shape == piece.shape
        assert block.ctypes.data - array.ctypes.data == piece.offset >= behind
        assert piece.count <= max(most, array.itemsize)
        assert piece.width <= piece.pitch
        assert piece.width == block.shape[-1] * array.itemsize
        behind = piece.offset + (piece.rows - 1) * piece.pitch + piece.width
    assert (seen == 1).all()
    assert behind == np.lib.array_utils.byte_bounds(array)[1] - array.ctypes.data


def test_an_array_without_values_has_no_pieces() -> None:
    assert pieces((0,), (0,), 8, 4096) == pieces((0, 3), (32, 8), 8, 4096) == []


def layouts(values: Values) -> list[Values]:
    """The same values as callers may have them: by columns, backwards, between others, of another order of bytes."""
    wide = np.zeros((*values.shape[:-1], 2 * values.shape[-1] + 1))
    wide[..., 1::2] = values
    return [
        values,
        np.asfortranarray(values),
        np.ascontiguousarray(values[::-1])[::-1],
        np.ascontiguousarray(values[..., ::-1])[..., ::-1],
        wide[..., 1::2],
        values.astype(">f8"),
    ]


@settings(max_examples=30, deadline=None)
@given(SHAPES, st.integers(0, 5), st.integers(0, 5), st.integers(1, 4), st.sampled_from([1 << 8, 1 << 10, 1 << 13]))
def test_values_come_and_go_in_every_layout(
    shape: tuple[int, ...], given: int, wanted: int, threads: int, piece_bytes: int
) -> None:
    values = random(shape)
    device = Device(ring=Ring(threads), piece_bytes=piece_bytes)
    array = device.sent(layouts(values)[given])
    np.testing.assert_array_equal(array, values)
    out = layouts(np.full(shape, np.nan))[wanted]
    assert device.staging.download(array, out) is out
    np.testing.assert_array_equal(out, values)
    np.testing.assert_array_equal(device.staging.download(array, np.empty(shape, np.float32)), values.astype("f4"))
    fresh = device.staging.download(array)
    assert fresh.flags.c_contiguous and fresh.flags.writeable
    np.testing.assert_array_equal(fresh, values)


@pytest.mark.parametrize("kind", ["f4", "i4", "u2", "i8"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_other_types_are_converted_on_the_way(kind: str, dtype: Any) -> None:
    values = (100 * np.abs(random((60, 61)))).astype(kind)
    array = Device().sent(values, dtype)
    assert array.dtype == dtype
    np.testing.assert_array_equal(array, values)


def test_what_float32_cannot_hold_becomes_infinite_without_a_word() -> None:
    values = np.full((60, 61), 1e300)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert np.isinf(Device().sent(values, np.float32)).all()


def test_rows_of_an_array_are_filled_alone() -> None:
    device = Device()
    array = device.sent(random((50, 40)))
    before, rows = array.copy(), random((9, 40), 1)
    device.staging.upload(rows, array[20:29])
    device.link.synchronize()
    before[20:29] = rows
    np.testing.assert_array_equal(array, before)


@pytest.mark.parametrize("shape", [(6, 9, 40), (2, 3, 300), (40, 3, 3)])
def test_what_lies_around_a_block_stays(shape: tuple[int, ...]) -> None:
    """As the halo of a part does."""
    device = Device()
    array = device.sent(random((shape[0] + 2, shape[1] + 4, shape[2])))
    right, values = array.copy(), random(shape, 1)
    block = array[1:-1, 1:-3]
    device.staging.upload(values, block)
    device.link.synchronize()
    right[1:-1, 1:-3] = values
    np.testing.assert_array_equal(array, right)
    np.testing.assert_array_equal(device.staging.download(block), values)


def test_the_callers_values_may_change_once_they_were_taken() -> None:
    """The device copies them later than they are overwritten here."""
    device, values = Device(), random((90, 65))
    array, kept = device.array(values.shape), values.copy()
    device.staging.upload(values, array)
    values[...] = np.nan
    device.link.synchronize()
    np.testing.assert_array_equal(array, kept)


class Failing(EmulatedLink):
    """Raises something at one of its calls."""

    left = -1
    error: BaseException = RuntimeError("the link is cut")
    in_main = False

    def _count(self) -> None:
        if self.in_main and threading.current_thread() is not threading.main_thread():
            return
        self.left -= 1
        if self.left == 0:
            raise self.error

    def push(self, memory: Pinned, address: int, piece: Piece) -> None:
        self._count()
        super().push(memory, address, piece)

    def pull(self, memory: Pinned, address: int, piece: Piece) -> None:
        self._count()
        super().pull(memory, address, piece)

    def record(self, mark: EmulatedMark) -> None:
        self._count()
        super().record(mark)

    def pinned(self, count: int) -> Pinned:
        self._count()
        return super().pinned(count)


@pytest.mark.parametrize("call", range(1, 12))
@pytest.mark.parametrize("shape", [(5, 6), (90, 65)])
@pytest.mark.parametrize("error", [RuntimeError("the link is cut"), KeyboardInterrupt()])
def test_a_copy_that_fails_leaves_all_ready_for_the_next(call: int, shape: tuple[int, ...], error: Any) -> None:
    device, values = Device(Failing), random(shape)
    link: Any = device.link
    link.error, link.in_main = error, isinstance(error, KeyboardInterrupt)
    array = device.sent(values)
    for copy in (lambda: device.staging.upload(-values, array), lambda: device.staging.download(array)):
        link.left = call
        try:
            copy()
        except type(error):
            assert link.left <= 0
        link.left = -1
        for factor in (2.0, 3.0):
            device.staging.upload(factor * values, array)
            np.testing.assert_array_equal(device.staging.download(array), factor * values)
    device.memory.check_guards("a copy")


def test_an_error_in_another_thread_is_told() -> None:
    class InOthers(EmulatedLink):
        fails = True

        def pinned(self, count: int) -> Pinned:
            if self.fails and threading.current_thread() is not threading.main_thread():
                others.set()
                raise RuntimeError("no memory to pin")
            if self.fails:
                others.wait(60.0)  # which have pieces left to fail with
            return super().pinned(count)

    others = threading.Event()
    device, values = Device(InOthers), random((90, 65))
    link: Any = device.link
    with pytest.raises(RuntimeError, match="no memory to pin"):
        device.staging.upload(values, device.array(values.shape))
    link.fails = False
    np.testing.assert_array_equal(device.sent(values), values)


def test_what_does_not_fit_is_refused() -> None:
    device = Device()
    for values in (random((90, 64)), random((91, 65)), random((1, 65))):
        array = device.array((90, 65))
        with pytest.raises(ValueError, match="of an array of the shape"):
            device.staging.upload(values, array)
        with pytest.raises(ValueError, match="of an array of the shape"):
            device.staging.download(array, values)


def test_threads_of_the_caller_do_not_meet() -> None:
    device = Device(ring=Ring(2))
    wrong: list[int] = []

    def work(seed: int) -> None:
        for turn in range(6):
            values = random((40 + seed, 65), 100 * seed + turn)
            array = device.array(values.shape)
            device.staging.upload(values, array)
            if not np.array_equal(device.staging.download(array), values):
                wrong.append(seed)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_pinned_memory_is_kept_for_all_that_use_a_device() -> None:
    class Counting(EmulatedLink):
        pinned_bytes = 0

        def pinned(self, count: int) -> Pinned:
            self.pinned_bytes += count
            return super().pinned(count)

    ring, values, most = Ring(3), random((90, 65)), 3 * staging.LEAST_SLOT_BYTES
    devices = [Device(Counting, ring) for _ in range(4)]
    links: list[Any] = [device.link for device in devices]
    for device in devices:
        np.testing.assert_array_equal(device.staging.download(device.sent(values)), values)
    assert 0 < sum(link.pinned_bytes for link in links) <= most


def test_threads_end_with_the_last_that_uses_them() -> None:
    device = Device()
    device.sent(random((90, 65)))
    threads = device.staging._ring._started
    assert len(threads) == 2 and all(thread.is_alive() for thread in threads)
    del device
    for thread in threads:
        thread.join(60.0)
        assert not thread.is_alive()


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> Device:
    """One that keeps the memory of small results, too."""
    monkeypatch.setattr(staging, "KEPT_BYTES", 1)
    return Device()


def place(values: Values) -> int:
    return values.ctypes.data


def test_the_memory_of_a_result_comes_back_when_nothing_refers_to_it(device: Device) -> None:
    arrays = [device.sent(random((90, 65), seed)) for seed in range(4)]
    u = device.staging.download(arrays[0])
    first, part = place(u), u[3:, ::2].T
    kept = part.copy()
    del u
    other = device.staging.download(arrays[1])
    assert place(other) != first
    np.testing.assert_array_equal(part, kept)
    del part
    again = device.staging.download(arrays[2])
    assert place(again) == first
    del other, again
    third, fourth = (device.staging.download(array) for array in arrays[2:])
    for values, array in ((third, arrays[2]), (fourth, arrays[3])):
        np.testing.assert_array_equal(values, array)
    assert place(third) != place(fourth)


def test_the_memory_of_one_result_is_kept_and_of_another_size_given_back(device: Device) -> None:
    held = [device.staging.download(device.sent(random((90, 65)))) for _ in range(3)]
    results: Any = device.staging._results
    del held[:]
    assert len(results.kept) == 1
    small = device.staging.download(device.sent(random((9, 6))))
    assert not results.kept
    lent: Any = small.base
    assert lent.__array_interface__["data"][0] == place(small)
    assert lent._memory.nbytes == small.nbytes


def test_results_outlive_what_made_them(device: Device) -> None:
    values = random((90, 65))
    u = device.staging.download(device.sent(values))
    ended = weakref.ref(device.staging)
    del device.staging
    gc.collect()
    assert ended() is None
    np.testing.assert_array_equal(u, values)
    del u


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no forks")
def test_a_result_is_another_process_own_after_a_fork(device: Device) -> None:
    values = random((90, 65))
    u = device.staging.download(device.sent(values))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # threads exist, and are not used
        child = os.fork()
    if child == 0:
        same = np.array_equal(u, values)
        u[...] = 0.0
        del u
        os._exit(0 if same else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    np.testing.assert_array_equal(u, values)


def test_solvers_in_threads_stage_their_arrays_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was returned stays as it is, whatever is solved after it, and an array of the caller's is written alone."""
    monkeypatch.setattr(staging, "KEPT_BYTES", 1)

    ring = Ring(3)

    def create(name: str, dtype: Any, threads: int = 0) -> GpuBackend:
        runtime = EmulatedRuntime()
        runtime._staging = Staging(runtime._link, ring, 1 << 11, 1 << 11)
        return GpuBackend(dtype, runtime)

    fs = [random((33, 41), seed) for seed in range(4)]
    problem = Problem.on_box((41, 33))
    expected = [Solver(problem, "fft", "numpy").solve(f=f).u for f in fs]
    monkeypatch.setattr(backends, "create", create)
    found: dict[int, list[Values]] = {}

    def work(thread: int) -> None:
        solver, out = Solver(problem, "fft", "gpu"), np.full((33, 82), np.nan)[:, ::2]
        us = [np.array(solver.solve(f=fs[0]).u)]
        us += [solver.solve(f=f).u for f in fs[1:]]
        assert solver.solve(f=fs[3], out=out).u is out
        found[thread] = [*us, out]

    threads = [threading.Thread(target=work, args=(thread,)) for thread in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 2
    for us in found.values():
        for u, right in zip(us, [*expected, expected[3]], strict=True):
            np.testing.assert_allclose(u, right, rtol=0, atol=1e-8 * np.abs(right).max())


@pytest.mark.gpu
@pytest.mark.parametrize("shape", [(129, 129), (1025, 1023), (3, 1030, 1027), (1, 3_000_001), (200_001, 3)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_values_come_and_go_on_a_real_device(shape: tuple[int, ...], dtype: Any) -> None:
    try:
        backend = backends.create("gpu", dtype)
    except BackendUnavailable as error:
        pytest.skip(str(error))
    values = random(shape).astype(dtype)
    for layout in layouts(values):
        array = backend.from_host(layout)
        np.testing.assert_array_equal(backend.to_host(array), values)
        out = np.asfortranarray(np.zeros(shape, dtype))
        backend.copy_to(array, out)
        np.testing.assert_array_equal(out, values)


def test_the_emulation_makes_copies_late() -> None:
    """Without a wait there is nothing yet: otherwise these tests would not see a wait that is missing."""
    device, values = Device(), random((90, 65))
    array = device.array(values.shape)
    device.staging.upload(values, array)
    assert np.isnan(array[-1]).any()
    device.link.synchronize()
    np.testing.assert_array_equal(array, values)
