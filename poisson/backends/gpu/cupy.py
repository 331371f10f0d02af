# SPDX-License-Identifier: MIT
"""The runtime of a real GPU, through CuPy: CUDA on NVIDIA, HIP on AMD."""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from copy import copy
from functools import cache
from typing import Any

import cupy as cp
import numpy as np
from numpy.typing import NDArray

from poisson import kernels
from poisson.backends.gpu import kernel_cache
from poisson.backends.gpu.runtime import Event, Kernel, Module, Resources
from poisson.backends.gpu.staging import Piece, Pinned, Ring, Staging

UNASKED_SHARED_BYTES = 48 * 1024
"""A kernel with more shared memory, declared and dynamic together, must say so before its first launch."""

_rings: dict[int, Ring] = {}
"""The pinned memory of each device, kept because pinning costs more than the first copies of a solver."""

LOOK = 1e-3
"""Seconds between two looks of a wait that something may end."""


SHORTER = (12, 4)
"""From this version on NVRTC leaves out on demand what it knows of CUDA's libraries: half of the time that its threads
cannot share."""


class _Streams:
    """The stream for everything, the one for what goes on beside it, and which of them launches go to now."""

    def __init__(self) -> None:
        self.main = self.now = cp.cuda.Stream(non_blocking=True)
        # What is done there is little, and waited for: its blocks come before those that wait for room.
        self.second = cp.cuda.Stream(non_blocking=True, priority=-1)
        self._forked, self._joined = (cp.cuda.Event(disable_timing=True) for _ in range(2))

    def fork(self) -> None:
        self._forked.record(self.main)
        self.second.wait_event(self._forked)

    def join(self) -> None:
        self._joined.record(self.second)
        self.main.wait_event(self._joined)

    @contextmanager
    def apart(self) -> Iterator[None]:
        self.now = self.second
        try:
            with self.second:
                yield
        finally:
            self.now = self.main


_idle: dict[int, list[_Streams]] = {}
"""The streams of each device that no runtime has any more. CuPy keeps the memory of a stream for that stream: with new
ones every solver would ask the driver for its arrays, which takes a device milliseconds, and they would add up."""


def _streams_of(device: int) -> _Streams:
    """Streams that nobody else uses."""
    with suppress(IndexError):
        return _idle.setdefault(device, []).pop()
    return _Streams()


NOTHING = 'extern "C" __global__ void poisson_nothing() {}'

_met: set[tuple[str, ...]] = set()
_meeting = threading.Lock()


def _meet(options: tuple[str, ...]) -> tuple[str, ...]:
    """The options, with our own, once CuPy has met them: threads that meet them together would all do so in turns."""
    if not cp.cuda.runtime.is_hip and cp.cuda.nvrtc.getVersion() >= SHORTER:
        options += ("-minimal",)
    with _meeting:
        if options not in _met:
            _compiled(NOTHING, options, "poisson_nothing")
            _met.add(options)
    return options


def _compiled(code: str, options: tuple[str, ...], name: str) -> Any:
    """A kernel of a source, whether CuPy can keep it in its folder or not, such as on a disk that is full."""
    try:
        return cp.RawModule(code=code, options=options).get_function(name)
    except OSError as error:
        kernel_cache.keep_in_memory(error)
        return cp.RawModule(code=code, options=options).get_function(name)


class _Module:
    """A source whose kernels are compiled apart, as they are asked for."""

    def __init__(self, source: str, options: tuple[str, ...], streams: _Streams) -> None:
        self._source = source
        self._options = options
        self._streams = streams

    def get_function(self, name: str, shared_bytes: int = 0) -> Kernel:
        text, options = kernels.defined(kernels.alone(self._source, name), self._options)
        return _LoadedKernel(_compiled(text, _meet(options), name), self._streams, shared_bytes)


class _LoadedKernel:
    def __init__(self, function: Any, streams: _Streams, shared_bytes: int) -> None:
        # To look for the function on this device at each launch, and to make the stream the current one, takes time.
        self._function = function.kernel
        self._streams = streams
        self._shared_bytes = shared_bytes
        if function.shared_size_bytes + shared_bytes > UNASKED_SHARED_BYTES:
            function.max_dynamic_shared_size_bytes = shared_bytes
        # The driver loads a kernel at its first use; reading an attribute is a use that is allowed before a capture.
        self.resources = Resources(function.num_regs, function.shared_size_bytes, function.local_size_bytes)

    def __call__(self, grid: tuple[int, ...], block: tuple[int, ...], arguments: tuple[Any, ...]) -> None:
        self._function(grid, block, arguments, self._shared_bytes, self._streams.now)

    def on(self, streams: _Streams) -> _LoadedKernel:
        """The same kernel on other streams."""
        kernel = copy(self)
        kernel._streams = streams
        return kernel


_kernels: dict[tuple[int, Any], _LoadedKernel] = {}
"""The kernels that this process has loaded, by the device and their keys: to find one in CuPy's folder again, in a
thread, would take every new solver part of a millisecond."""


_prepared: dict[int, set[Any]] = {}
"""For what the kernels of each device have been prepared in this process (`poisson.backends.base.Backend.prepared`)."""


class _Replay:
    """A recorded graph. It holds addresses, so it keeps the function that refers to the arrays behind them."""

    def __init__(self, graph: Any, stream: Any, function: Callable[[], None]) -> None:
        self._graph = graph
        self._stream = stream
        self._function = function

    def __call__(self) -> None:
        self._graph.launch(self._stream)


class _Waiter:
    """How the host waits for the device: in the driver, or with a look now and then at what may end the wait."""

    def __init__(self) -> None:
        self.look: Callable[[], None] | None = None

    def wait(self, awaited: Any) -> None:
        """Wait for a stream or an event."""
        if self.look is None:
            awaited.synchronize()
            return
        looked = time.monotonic()
        while not awaited.done:
            if time.monotonic() - looked > LOOK:
                self.look()
                looked = time.monotonic()


class _StreamEvent:
    def __init__(self, stream: Any, waiter: _Waiter) -> None:
        self._stream = stream
        self._waiter = waiter
        self._event = cp.cuda.Event()

    def record(self) -> None:
        self._event.record(self._stream)

    def wait(self) -> None:
        self._waiter.wait(self._event)

    def since(self, earlier: _StreamEvent) -> float:
        return float(cp.cuda.get_elapsed_time(earlier._event, self._event)) / 1e3


class _StreamLink:
    """The link of a device, with the copies of its one stream."""

    def __init__(self, device: Any, stream: Any, waiter: _Waiter) -> None:
        self._device = device
        self._stream = stream
        self._waiter = waiter

    def in_use(self) -> AbstractContextManager[Any]:
        return self._device  # type: ignore[no-any-return]  # CuPy has no annotations

    def synchronize(self) -> None:
        self._waiter.wait(self._stream)

    def address(self, array: Any) -> int:
        return int(array.data.ptr)

    def pinned(self, count: int) -> Pinned:
        try:
            # Not from CuPy's pool, which gives memory to others while the device may still copy from it.
            memory = cp.cuda.PinnedMemoryPointer(cp.cuda.PinnedMemory(count), 0)
        except cp.cuda.runtime.CUDARuntimeError:
            values = np.empty(count, np.uint8)  # from which the driver copies as well, only more slowly
            return Pinned(values, values.ctypes.data)
        return Pinned(np.frombuffer(memory, dtype=np.uint8, count=count), int(memory.ptr))

    def push(self, memory: Pinned, address: int, piece: Piece) -> None:
        to, direction = address + piece.offset, cp.cuda.runtime.memcpyHostToDevice
        self._copy((to, piece.pitch), (memory.address, piece.width), piece, direction)

    def pull(self, memory: Pinned, address: int, piece: Piece) -> None:
        start, direction = address + piece.offset, cp.cuda.runtime.memcpyDeviceToHost
        self._copy((memory.address, piece.width), (start, piece.pitch), piece, direction)

    def mark(self) -> Any:
        return cp.cuda.Event(disable_timing=True)

    def record(self, mark: Any) -> None:
        mark.record(self._stream)

    def wait(self, mark: Any, watched: bool) -> None:
        if watched:
            self._waiter.wait(mark)
        else:
            mark.synchronize()

    def _copy(self, target: tuple[int, int], source: tuple[int, int], piece: Piece, direction: int) -> None:
        if piece.width == piece.pitch:
            cp.cuda.runtime.memcpyAsync(target[0], source[0], piece.count, direction, self._stream.ptr)
        else:
            cp.cuda.runtime.memcpy2DAsync(*target, *source, piece.width, piece.rows, direction, self._stream.ptr)


@cache
def _properties(device: int) -> dict[str, Any]:
    """The properties of a device, which take a millisecond to read."""
    return cp.cuda.runtime.getDeviceProperties(device)  # type: ignore[no-any-return]  # CuPy has no annotations


class CupyRuntime:
    """The current CuPy device, with one stream for everything."""

    xp = cp

    def __init__(self) -> None:
        self._device = cp.cuda.Device()
        properties = _properties(self._device.id)
        kind = "HIP" if cp.cuda.runtime.is_hip else "CUDA"
        version = cp.cuda.runtime.runtimeGetVersion()
        self.name = f"{properties['name'].decode()}, {kind} {version}, CuPy {cp.__version__}"
        self.driver = str(cp.cuda.runtime.driverGetVersion())
        hip_name = properties.get("gcnArchName", b"").decode().partition(":")[0]
        self.architecture = hip_name or f"sm_{self._device.compute_capability}"
        most = "MaxSharedMemoryPerBlock" if cp.cuda.runtime.is_hip else "MaxSharedMemoryPerBlockOptin"
        self.shared_bytes = int(self._device.attributes[most])
        self._streams = _streams_of(self._device.id)
        weakref.finalize(self, _idle[self._device.id].append, self._streams).atexit = False
        self._stream = self._streams.main
        self._waiter = _Waiter()
        self._caller, self._released = (cp.cuda.Event(disable_timing=True) for _ in range(2))
        self.in_order()  # what callers still do with memory of these streams that they have let go of comes first
        self.prepared = _prepared.setdefault(self._device.id, set())
        ring = _rings.setdefault(self._device.id, Ring())
        self._staging = Staging(_StreamLink(self._device, self._stream, self._waiter), ring)
        if not _met:
            threading.Thread(target=self._load_compiler, name="poisson: start of the compiler").start()

    def _load_compiler(self) -> None:
        # What goes wrong is said where a kernel is wanted.
        with suppress(Exception), self.in_use():
            _meet((kernels.LANGUAGE,))

    def in_use(self) -> AbstractContextManager[Any]:
        return self._device  # type: ignore[no-any-return]  # CuPy has no annotations

    def compile(self, source: str, options: tuple[str, ...]) -> Module:
        return _Module(source, options, self._streams)

    def keep(self, key: Any, kernel: Kernel) -> None:
        assert isinstance(kernel, _LoadedKernel)
        _kernels[self._device.id, key] = kernel

    def kept(self, key: Any) -> Kernel | None:
        kernel = _kernels.get((self._device.id, key))
        return kernel and kernel.on(self._streams)

    def holds(self, array: Any) -> bool:
        return isinstance(array, cp.ndarray)

    def allocate(self, count: int, dtype: np.dtype[Any]) -> Any:
        with self._stream:
            return cp.empty(count, dtype=dtype)

    def clear(self, array: Any) -> None:
        array.data.memset_async(0, array.nbytes, self._streams.now)

    def allocate_shared(self, count: int) -> tuple[Any, Any]:
        # Pinned memory of the host has one address for both; a read then costs a wait and no copy.
        memory = cp.cuda.alloc_pinned_memory(8 * count)
        return np.uint64(memory.ptr), np.frombuffer(memory, dtype=np.float64, count=count)

    def upload(self, values: NDArray[Any], array: Any) -> None:
        self._staging.upload(values, array)

    def download(self, array: Any, out: NDArray[Any] | None = None) -> NDArray[Any]:
        return self._staging.download(array, out)

    def in_order(self) -> AbstractContextManager[Any]:
        current, now = cp.cuda.get_current_stream(), self._streams.now
        if current.ptr != now.ptr:
            # What fills an array may read arrays of the caller's, which its own stream may still be writing.
            self._caller.record(current)
            now.wait_event(self._caller)
        return now  # type: ignore[no-any-return]  # CuPy has no annotations

    def release(self) -> None:
        current, now = cp.cuda.get_current_stream(), self._streams.now
        if current.ptr != now.ptr:
            self._released.record(now)
            current.wait_event(self._released)

    def fork(self) -> None:
        self._streams.fork()

    def apart(self) -> AbstractContextManager[Any]:
        return self._streams.apart()

    def join(self) -> None:
        self._streams.join()

    def fourier(self, lines: Any) -> Callable[[], None]:
        from cupy.cuda import cufft

        kind = cufft.CUFFT_C2C if lines.dtype == np.complex64 else cufft.CUFFT_Z2Z
        with self._stream:
            plan = cufft.Plan1d(lines.shape[1], kind, lines.shape[0])

        def transform() -> None:
            with self._stream:
                plan.fft(lines, lines, cufft.CUFFT_FORWARD)

        return transform

    def copy(self, source: Any, target: Any) -> None:
        target.data.copy_from_device_async(source.data, source.nbytes, self._stream)

    def synchronize(self) -> None:
        self._waiter.wait(self._stream)

    def watch(self, look: Callable[[], None]) -> None:
        self._waiter.look = look

    def capture(self, function: Callable[[], None]) -> Callable[[], None]:
        if cp.cuda.runtime.is_hip:
            # CuPy has no graphs on ROCm.
            return function
        with self._stream:
            self._stream.begin_capture()
            try:
                function()
            finally:
                graph = self._stream.end_capture()
        return _Replay(graph, self._stream, function)

    def event(self) -> Event:
        return _StreamEvent(self._stream, self._waiter)

    def memory(self) -> tuple[int, int]:
        free, total = cp.cuda.runtime.memGetInfo()
        return int(free) + int(cp.get_default_memory_pool().free_bytes()), int(total)

    def peak_bandwidth(self) -> float | None:
        attributes = self._device.attributes
        kilohertz, bits = (attributes.get(name, 0) for name in ("MemoryClockRate", "GlobalMemoryBusWidth"))
        # HBM makes two transfers a cycle; for other memory CUDA gives a clock with which that holds, and HIP does not.
        unclear = self.architecture.startswith("gfx1")
        return None if unclear or not (kilohertz and bits) else 2e3 * kilohertz * bits / 8
