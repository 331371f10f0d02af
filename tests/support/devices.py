# SPDX-License-Identifier: MIT
"""Arrays on the emulated device, as users have them."""

from typing import Any

import numpy as np


class OnDevice:
    """An array on the emulated device as a library of another module shows it."""

    def __init__(self, runtime: Any, values: np.ndarray, *, wide: int = 0) -> None:
        rows = runtime.allocate(values[..., 0].size * (values.shape[-1] + wide), values.dtype)
        self.there = rows.reshape(*values.shape[:-1], values.shape[-1] + wide)[..., : values.shape[-1]]
        self.there[...] = values
        self.shape, self.dtype = values.shape, values.dtype
        self.__cuda_array_interface__ = {"shape": values.shape, "typestr": values.dtype.str, "version": 3}

    def get(self) -> np.ndarray:
        return self.there
