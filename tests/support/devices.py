# SPDX-License-Identifier: MIT
"""Arrays on the emulated device, as users have them."""

from collections.abc import Iterator
from typing import Any, Self

import numpy as np


class OnDevice:
    """An array on the emulated device as a library of another module shows it."""

    def __init__(self, runtime: Any, values: np.ndarray, *, wide: int = 0) -> None:
        rows = runtime.allocate(values[..., 0].size * (values.shape[-1] + wide), values.dtype)
        self._show(rows.reshape(*values.shape[:-1], values.shape[-1] + wide)[..., : values.shape[-1]])
        self.there[...] = values

    def _show(self, there: np.ndarray) -> None:
        self.there, self.shape, self.dtype = there, there.shape, there.dtype
        self.__cuda_array_interface__ = {"shape": there.shape, "typestr": there.dtype.str, "version": 3}

    def get(self) -> np.ndarray:
        return self.there

    def __iter__(self) -> Iterator[Self]:
        """Its parts along the first axis, in the same memory."""
        for there in self.there:
            part = object.__new__(type(self))
            part._show(there)
            yield part
