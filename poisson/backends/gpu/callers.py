# SPDX-License-Identifier: MIT
"""Arrays in the memory of the caller, on the host or on the device, as the kernels read them."""

from collections.abc import Callable
from typing import Any

import numpy as np

from poisson.backends.callers import CallersArray

TYPES = {np.dtype(np.float32): "float", np.dtype(np.float64): "double"}
"""The types of the caller's values that kernels read, by the NumPy type."""


class GivenArray(CallersArray):
    """Values in the memory of the caller, on the device as `lies_in_rows` takes them, or of NumPy.

    `on_device`: where they are. `exact`: whether they are on the device, or come there in their own type.
    """

    def __init__(self, values: Any, refuse: Callable[[], object], on_device: bool, exact: bool) -> None:
        self.values, self.refuse = values, refuse
        self.on_device = self.stays = on_device
        self.exact = on_device or exact


def lies_in_rows(values: Any) -> bool:
    """Whether an array has rows of values of one of the `TYPES`, each of them one behind the other."""
    if values.dtype not in TYPES or not values.size:
        return False
    return bool(values.strides[-1] == values.itemsize or values.shape[-1] == 1)


def distances(values: Any) -> tuple[Any, Any]:
    """Values from the start of one row to the next, and of one plane, as arguments of a kernel."""
    row, plane = values.strides[-2] // values.itemsize, values.strides[0] // values.itemsize
    return np.int64(row), np.int64(plane)
