# SPDX-License-Identifier: MIT
"""The start of the driver and of a GPU, which takes some tenths of a second, while Python does something else.

CuPy is not needed for it, and would take turns with the rest of Python: this waits in the driver alone.
"""

import ctypes
import os
import threading
from importlib.util import find_spec

from poisson.backends import gpu

DRIVER = "libcuda.so.1"
"""NVIDIA's. Where there is none nothing is begun."""

ONE_CONNECTION = ("CUDA_DEVICE_MAX_CONNECTIONS", "1")
"""NVIDIA's variable for how many queues lead to a GPU, unasked 8: to make and to end them takes time, and a process
that is alone has its work in one order."""


def begin() -> None:
    """Begin to start the GPU that CuPy will take, in a thread; what goes wrong, `gpu.create` will say.

    For a process that is alone and is about to use it: one of several takes its GPU when it knows the others'.
    """
    if find_spec("cupy") is not None:
        os.environ.setdefault(*ONE_CONNECTION)
        threading.Thread(target=_start, name="poisson: start of the GPU").start()


def _start() -> None:
    try:
        driver = ctypes.CDLL(DRIVER)
    except OSError:
        return
    device, context = ctypes.c_int(), ctypes.c_void_p()
    if driver.cuInit(0) == 0 and driver.cuDeviceGet(ctypes.byref(device), 0) == 0:
        gpu.used_by(os.getpid())
        # The one that CUDA's run time shares; it is kept to the end of the process.
        driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), device)
