# SPDX-License-Identifier: MIT
"""The runtime of the gpu backend with NumPy in the place of CuPy, and kernels that run on the CPU."""

import math
import os
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from poisson.backends.gpu.staging import Ring, Staging
from support.emulation.build import Unit, chosen
from support.emulation.errors import ArgumentError
from support.emulation.kernels import EmulatedModule, Order
from support.emulation.link import EmulatedLink
from support.emulation.memory import Memory


class EmulatedEvent:
    """A mark: launches end before their calls do, so it only takes the time."""

    def __init__(self) -> None:
        self.time = math.nan

    def record(self) -> None:
        """Take the time."""
        self.time = time.perf_counter()

    def wait(self) -> None:
        """Return at once."""

    def since(self, earlier: "EmulatedEvent") -> float:
        """Seconds since an earlier mark."""
        return self.time - earlier.time


class EmulatedRuntime:
    """An emulated device.

    `order`: the order in which threads and blocks run. A correct kernel gives the same result in each. `seed`: for
    `Order.SHUFFLED`. `cache`: where compiled kernels are kept; by default ``build/emulation`` in the repository.
    `late`: whether what goes to the second stream is done as late as it may be, and not at once.

    Notes
    -----
    A launch raises `ArgumentError` where it does not fit the kernel, `LaunchError` where the kernel fails, and
    `GuardError` where it writes outside one of the arrays that it is given. `check_guards` checks all other arrays too.
    """

    xp: ModuleType = np
    name = "emulated GPU"
    architecture = "emulated"
    driver = "none"
    shared_bytes = 1 << 16

    def __init__(
        self, order: Order = Order.FORWARD, seed: int = 0, cache: Path | None = None, late: bool = False
    ) -> None:
        self.order = order
        self.seed = seed
        self._cache = cache or Path(__file__).parents[3] / "build" / "emulation"
        self._memory = Memory()
        self._link = EmulatedLink(self._memory)
        self._staging = Staging(self._link, Ring())
        self.late = late
        self.prepared: set[Any] = set()
        self._is_apart = False
        self._put_off: list[Callable[[], None]] = []

    def keep(self, key: Any, kernel: Any) -> None:
        """Nothing is kept: a kernel refers to the runtime."""

    def kept(self, key: Any) -> Any:
        """None."""

    def compile(self, source: str, options: tuple[str, ...] = ()) -> EmulatedModule:
        """A kernel source; of the options, those that define a macro (``-DNAME=VALUE``) count.

        Raises `CompilationError` with the compiler's text, if it refuses a line for the preprocessor.
        """
        defines = tuple(option for option in options if option.startswith("-D"))
        unit = Unit(source, defines, self._cache)
        return EmulatedModule(unit, chosen(defines), self._memory, lambda: (self.order, self.seed), self.submit)

    def watch(self, look: Callable[[], None]) -> None:
        """Nothing waits here."""

    def holds(self, array: Any) -> bool:
        """Whether an array is device memory."""
        return self._memory.find(array) is not None

    def allocate(self, count: int, dtype: DTypeLike) -> NDArray[Any]:
        """Shape ``(count,)``, aligned to 256 bytes, full of NaN (integers: all bits set), with guards on both sides."""
        return self._memory.allocate(count, dtype)

    def clear(self, array: NDArray[Any]) -> None:
        """Fill an array with zeros."""
        array.fill(0)

    def allocate_shared(self, count: int) -> tuple[NDArray[Any], NDArray[Any]]:
        """Values that the host sees as the kernels write them."""
        values = self.allocate(count, np.float64)
        return values, values

    def upload(self, host_array: NDArray[Any], device_array: NDArray[Any]) -> None:
        """Copy a host array into a device array of its shape.

        Raises `ArgumentError` if the shapes differ, or the target is not device memory.
        """
        self._require_device(device_array)
        if host_array.shape != device_array.shape:
            raise ArgumentError(f"upload of {host_array.shape} to {device_array.shape}")
        self._staging.upload(host_array, device_array)
        self._link.synchronize()  # kernels run as they are launched

    def download(self, device_array: NDArray[Any], out: NDArray[Any] | None = None) -> NDArray[Any]:
        """A contiguous copy on the host, or `out` with the values.

        Raises `ArgumentError` if the array is not device memory.
        """
        self._require_device(device_array)
        return self._staging.download(device_array, out)

    def in_order(self) -> AbstractContextManager[None]:
        """NumPy and the emulated kernels run in order by themselves."""
        return nullcontext()

    def release(self) -> None:
        """The caller has no stream of its own."""

    def fork(self) -> None:
        """Everything before is done already."""

    @contextmanager
    def apart(self) -> Iterator[None]:
        """Within, `submit` puts off, where things are done late."""
        self._is_apart = True
        try:
            yield
        finally:
            self._is_apart = False

    def submit(self, work: Callable[[], None]) -> None:
        """Do something in the order of the stream that is asked now."""
        if self.late and self._is_apart:
            self._put_off.append(work)
        else:
            work()

    def join(self) -> None:
        """Do what was put off."""
        while self._put_off:
            self._put_off.pop(0)()

    def fourier(self, lines: NDArray[Any]) -> Callable[[], None]:
        """In place, in the precision of the lines."""

        def transform() -> None:
            lines[...] = np.fft.fft(lines, axis=-1)

        return transform

    def copy(self, source: NDArray[Any], target: NDArray[Any]) -> None:
        """Copy between device arrays."""
        target[...] = source

    def synchronize(self) -> None:
        """Return at once: a launch ends before its call does."""

    def capture(self, function: Callable[[], None]) -> Callable[[], None]:
        """`function` itself: there are no graphs here."""
        return function

    def event(self) -> EmulatedEvent:
        """A mark among the launches."""
        return EmulatedEvent()

    def in_use(self) -> AbstractContextManager[Any]:
        return nullcontext()

    def memory(self) -> tuple[int, int]:
        """Free and total bytes of the machine."""
        page = os.sysconf("SC_PAGE_SIZE")
        return page * os.sysconf("SC_AVPHYS_PAGES"), page * os.sysconf("SC_PHYS_PAGES")

    def peak_bandwidth(self) -> None:
        """There is no vendor."""

    def check_guards(self) -> None:
        """Raise `GuardError` if anything was written before or behind any array that is alive."""
        self._memory.check_guards()

    def _require_device(self, array: NDArray[Any]) -> None:
        if self._memory.find(array) is None:
            raise ArgumentError("the array is host memory: the runtime did not allocate it")
