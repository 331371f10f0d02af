"""Backends by name. A backend is imported when it is asked for."""

from __future__ import annotations

import logging
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from poisson.errors import FORKED, BackendUnavailable

if TYPE_CHECKING:
    from poisson.backends.base import Backend

NAMES = ("gpu", "openmp", "numpy")
"""Every backend, the one that ``auto`` prefers first."""

_gpu_process: int | None = None
"""The process that has used a GPU, or from which this one was forked after that."""

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class BackendInfo:
    """What `describe` says of a backend.

    Parameters
    ----------
    name : str
        The name in ``[run] backend``.
    available : bool
        Whether it runs here.
    device : str
        The device it runs on; empty if it is not available.
    reason : str
        Why it is not available, with what to install; empty if it is.
    """

    name: str
    available: bool
    device: str
    reason: str


def create(name: str, dtype: np.dtype[Any] | type[np.floating[Any]], threads: int = 0) -> Backend:
    """Make a backend.

    Parameters
    ----------
    name : str
        One of `NAMES`, or ``auto``: the first of them that is available.
    dtype : numpy dtype
        float32 or float64.
    threads : int
        Threads of a backend on the CPU; 0 takes `poisson.backends.processors.default_threads`.

    Raises
    ------
    BackendUnavailable
        If there is none of that name, or it does not run here; the line says why and what to install.
    """
    if name == "auto":
        return _first_available(dtype, threads)
    if name == "numpy":
        from poisson.backends.numpy import NumpyBackend

        return NumpyBackend(dtype)
    if name == "openmp":
        from poisson.backends.openmp.backend import OpenmpBackend

        return OpenmpBackend(dtype, threads)
    if name == "gpu":
        return _create_gpu(dtype)
    raise BackendUnavailable(f"unknown backend {name!r}; the backends are auto, {', '.join(NAMES)}")


def describe() -> list[BackendInfo]:
    """Every backend with its device, or with what is missing."""
    rows = []
    for name in NAMES:
        try:
            rows.append(BackendInfo(name, True, create(name, np.float64).device, ""))
        except BackendUnavailable as error:
            rows.append(BackendInfo(name, False, "", str(error)))
    return rows


def _first_available(dtype: np.dtype[Any] | type[np.floating[Any]], threads: int) -> Backend:
    refusals: dict[str, BackendUnavailable] = {}
    for name in NAMES:
        try:
            backend = create(name, dtype, threads)
        except BackendUnavailable as error:
            refusals[name] = error
            continue
        log.info("backend %s: %s", name, backend.device)
        for refused, reason in refusals.items():
            # A machine without CuPy is the usual case and not worth a word. A GPU that does not work is, and a missing
            # library costs most of the speed.
            if not (refused == "gpu" and isinstance(reason.__cause__, ModuleNotFoundError)):
                log.warning("falling back to %s; %s: %s", name, refused, reason)
        return backend
    raise BackendUnavailable("; ".join(f"{name}: {reason}" for name, reason in refusals.items()))


def _create_gpu(dtype: np.dtype[Any] | type[np.floating[Any]]) -> Backend:
    try:
        import cupy
    except ModuleNotFoundError as error:
        raise BackendUnavailable(
            "CuPy is not installed: in the checkout, pip install '.[cuda13]' or '.[cuda12]' (NVIDIA) or '.[rocm]' (AMD)"
        ) from error
    except ImportError as error:
        raise BackendUnavailable(f"CuPy cannot be imported ({error}): install it again") from error
    global _gpu_process
    if _gpu_process not in (None, os.getpid()):
        raise BackendUnavailable(FORKED)
    try:
        count = cupy.cuda.runtime.getDeviceCount()
    except cupy.cuda.runtime.CUDARuntimeError as error:
        raise BackendUnavailable(f"CuPy finds no GPU ({error}): install or repair the driver") from error
    if count < 1:
        raise BackendUnavailable("CuPy finds no GPU: install or repair the driver")
    from poisson.backends.gpu.backend import GpuBackend
    from poisson.backends.gpu.cupy import CupyRuntime
    from poisson.backends.gpu.tuned import Device, read

    runtime = CupyRuntime()
    _gpu_process = os.getpid()
    return GpuBackend(dtype, runtime, read(Device.of(runtime)))
