# SPDX-License-Identifier: MIT
"""The interface between the gpu backend and a device: compiled kernels, launches, events, memory."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from types import ModuleType
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Resources:
    """The resources of a kernel: registers of a thread, bytes of shared memory of a block, spilled bytes of a
    thread.
    """

    registers: int
    shared_bytes: int
    spilled_bytes: int


class Kernel(Protocol):
    """A compiled kernel; a call launches it."""

    def __call__(self, grid: tuple[int, ...], block: tuple[int, ...], arguments: tuple[Any, ...], /) -> None:
        """Launch it in so many blocks of so many threads."""

    @property
    def resources(self) -> Resources | None:
        """The resources that the kernel takes; None where the device cannot tell."""


class Module(Protocol):
    """A compiled source."""

    def get_function(self, name: str, shared_bytes: int = 0) -> Kernel:
        """The kernel of that name; its launches give a block so much shared memory beside what it declares."""


class Event(Protocol):
    """A mark among the launches."""

    def record(self) -> None:
        """Set the mark behind all launches so far."""

    def wait(self) -> None:
        """Wait until the launches before the mark are done."""

    def since(self, earlier: Any) -> float:
        """Seconds on the device from an earlier mark to this one; both must have been reached."""


class Runtime(Protocol):
    """A device as the backend uses it."""

    xp: ModuleType
    """The array module whose functions fill arrays on the device."""
    name: str
    """The device, for people."""
    architecture: str
    """The architecture that kernels are compiled for: sm_NN, or gfx and its number."""
    driver: str
    """The version of the driver."""
    shared_bytes: int
    """The most shared memory that a block can have."""
    prepared: set[Any]
    """For what kernels have been prepared by runtimes of this process on the device."""

    def in_use(self) -> AbstractContextManager[Any]:
        """Within, the calling thread uses this device: which one is current is a thread's own matter."""

    def compile(self, source: str, options: tuple[str, ...]) -> Module:
        """Compile a source with ``-D`` options."""

    def keep(self, key: Any, kernel: Kernel) -> None:
        """Keep a loaded kernel for later runtimes of this process on the device."""

    def kept(self, key: Any) -> Kernel | None:
        """The kernel that is kept under a key, for launches of this runtime."""

    def clear(self, array: Any) -> None:
        """Fill an array that `allocate` has made with zeros, in order with the launches."""

    def holds(self, array: Any) -> bool:
        """Whether an array is one of `xp` in the device's memory."""

    def allocate(self, count: int, dtype: np.dtype[Any]) -> Any:
        """A one-dimensional array of `count` values that are not set."""

    def allocate_shared(self, count: int) -> tuple[Any, Any]:
        """A few float64 values that kernels write and the host reads: as a kernel argument, and as a host array."""

    def upload(self, values: NDArray[Any], array: Any) -> None:
        """Copy a host array of real values to a device array of its shape, in order with the launches.

        The host array may have any type and layout, and may change once this returns.
        """

    def download(self, array: Any, out: NDArray[Any] | None = None) -> NDArray[Any]:
        """A copy of a device array on the host, once all launches before it are done; `out`, if that is given."""

    def in_order(self) -> AbstractContextManager[Any]:
        """Within, functions of `xp` run in order with the launches."""

    def release(self) -> None:
        """Let what the caller asks for from now on, on its own stream, wait for all launches so far."""

    def fork(self) -> None:
        """Let later work on the second stream wait for all work that was asked for so far."""

    def apart(self) -> AbstractContextManager[Any]:
        """Within, launches and functions of `xp` go to the second stream, beside those that come after."""

    def join(self) -> None:
        """Let later work wait for all work on the second stream."""

    def fourier(self, lines: Any) -> Callable[[], None]:
        """A call that replaces the rows of a two-dimensional complex array by their discrete Fourier transforms.

        It runs in order with the launches, and allocates nothing once it is made.
        """

    def copy(self, source: Any, target: Any) -> None:
        """Copy between one-dimensional device arrays, with the vendor's own copy."""

    def synchronize(self) -> None:
        """Wait for all launches."""

    def watch(self, look: Callable[[], None]) -> None:
        """Call this now and then in every wait for launches; what it raises ends the wait."""

    def capture(self, function: Callable[[], None]) -> Callable[[], None]:
        """A callable that repeats the launches of `function`."""

    def event(self) -> Event:
        """A new mark for the order of launches."""

    def memory(self) -> tuple[int, int]:
        """Bytes free and in all."""

    def peak_bandwidth(self) -> float | None:
        """Bytes a second between chip and memory, by the vendor's figures; None where the driver does not give them."""
