# SPDX-License-Identifier: MIT
"""The axes of a staggered grid, as passes over it need them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class Staggered:
    """The cells of a staggered grid (`poisson.mac`), in tuples for x, y(, z).

    `shape`: cells. `wraps`: whether the axis is periodic; otherwise it has one more face than cells. `widths`: 1 over
    the width of every cell. `slopes`: for every face, what a difference of pressures is multiplied by; 0 where the
    velocity is kept.
    """

    shape: tuple[int, ...]
    wraps: tuple[bool, ...]
    widths: tuple[NDArray[np.float64], ...]
    slopes: tuple[NDArray[np.float64], ...]

    def fits(self, dtype: np.dtype[Any], cells: Any, velocity: Sequence[Any]) -> bool:
        """Whether all are arrays of one type, those of faces without gaps, and that of cells in rows without gaps."""
        return (
            all(each.dtype == dtype and each.flags.c_contiguous for each in velocity)
            and (cells.shape, cells.dtype) == (self.shape[::-1], dtype)
            and cells.strides[-1] == dtype.itemsize
        )


def distances(cells: Any) -> tuple[int, int]:
    """Values from one row of an array of cells to the next, and from one plane to the next."""
    return cells.strides[-2] // cells.itemsize, cells.strides[0] // cells.itemsize
