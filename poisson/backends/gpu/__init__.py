# SPDX-License-Identifier: MIT
"""HIP kernels compiled at run time through CuPy, for NVIDIA and AMD GPUs."""

from __future__ import annotations

import os
from collections.abc import Callable
from types import ModuleType
from typing import TYPE_CHECKING, Any

from poisson.backends.gpu import kernel_cache
from poisson.errors import FORKED, BackendUnavailable

if TYPE_CHECKING:
    import numpy as np

    from poisson.backends.base import Backend

_process: int | None = None
"""The process that has used a GPU, or from which this one was forked after that."""


def create(dtype: np.dtype[Any] | type[np.floating[Any]]) -> Backend:
    """The backend on the device that CuPy finds.

    Raises `BackendUnavailable` if CuPy is not installed or finds no device, or another process that has used it was
    forked into this one.
    """
    kernel_cache.prepare()
    try:
        import cupy
    except ModuleNotFoundError as error:
        raise BackendUnavailable(
            "CuPy is not installed: in the checkout, pip install '.[cuda13]' or '.[cuda12]' (NVIDIA) or '.[rocm]' (AMD)"
        ) from error
    except ImportError as error:
        raise BackendUnavailable(f"CuPy cannot be imported ({error}): install it again") from error
    if _process not in (None, os.getpid()):
        raise BackendUnavailable(FORKED)
    try:
        count = cupy.cuda.runtime.getDeviceCount()
    except cupy.cuda.runtime.CUDARuntimeError as error:
        raise BackendUnavailable(f"CuPy finds no GPU ({error}): install or repair the driver") from error
    if count < 1:
        raise BackendUnavailable("CuPy finds no GPU: install or repair the driver")
    from poisson.backends.gpu.backend import GpuBackend
    from poisson.backends.gpu.cupy import CupyRuntime
    from poisson.backends.gpu.tuned import measured_on

    runtime = CupyRuntime()
    used_by(os.getpid())
    return GpuBackend(dtype, runtime, measured_on(runtime))


def used_by(process: int) -> None:
    """Note that a process has used a GPU: no other one that is forked from it can."""
    global _process
    _process = process


def identities() -> tuple[str, ...]:
    """Identifiers of the GPUs that this process sees, the same in every process of the host; empty without CuPy."""
    kernel_cache.prepare()
    try:
        from cupy.cuda import runtime

        count = runtime.getDeviceCount()
    except Exception:  # whatever is wrong, `create` says it
        return ()
    return tuple(_identity(runtime, number) for number in range(count))


def _identity(runtime: Any, number: int) -> str:
    """The place of a GPU on its bus, and its own number, as parts of one GPU share the former."""
    return f"{runtime.deviceGetPCIBusId(number)} {runtime.getDeviceProperties(number).get('uuid')!r}"


def use(number: int) -> None:
    """Make a GPU the one on which `create` makes backends in this thread."""
    import cupy

    cupy.cuda.Device(number).use()


def nccl() -> tuple[ModuleType, Callable[[], int]] | None:
    """The module of NCCL, and what gives the stream that launches go to; None where CuPy finds no library of it."""
    try:
        import cupy
        from cupy.cuda import nccl as module

        module.get_version()
    except Exception:  # of what kind it is depends on the version of CuPy
        return None
    return module, lambda: int(cupy.cuda.get_current_stream().ptr)


def peers() -> dict[str, bool]:
    """Whether the current GPU can read the memory of each other one that this process sees, by `identities`."""
    from cupy.cuda import runtime

    own, names = runtime.getDevice(), identities()
    return {name: bool(runtime.deviceCanAccessPeer(own, number)) for number, name in enumerate(names) if number != own}
