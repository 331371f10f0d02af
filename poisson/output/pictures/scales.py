# SPDX-License-Identifier: MIT
"""Colours and levels for the values of a field."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib import colormaps
from matplotlib.colors import Colormap, Normalize
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from poisson.errors import CaseError

ROUND = (1.0, 2.0, 2.5, 5.0, 10.0)
"""Times powers of ten: the steps of ticks."""

DIVERGING, SEQUENTIAL = "RdBu_r", "viridis"

_TICKS, _BETWEEN = 6, 4
_BOTH_SIGNS = 0.1
"""Of the larger of the two extremes: where the other is smaller, its sign is none that matters."""
_CONSTANT = 1e-12
_BEYOND = 0.02
"""Parts of a step by which values may lie beyond the outermost level: they take its colour."""


@dataclass(frozen=True)
class Scale:
    """How values become colours.

    Parameters
    ----------
    levels : float array
        Between which the colours are; the outermost enclose all values, about.
    ticks : float array
        Those with a number beside the colours and a line in the picture.
    colours : Colormap
        From the lowest to the highest.
    norm : Normalize
        Centred at zero where the values have both signs.
    """

    levels: NDArray[np.float64]
    ticks: NDArray[np.float64]
    colours: Colormap
    norm: Normalize

    def clipped(self, values: NDArray[Any]) -> Any:
        """`values` within the levels, beyond which few are, and not far; what is not finite is masked."""
        return np.ma.masked_invalid(np.clip(values, self.levels[0], self.levels[-1]))


def scale_of(
    values: NDArray[Any], cmap: str | Colormap | None = None, levels: int | Sequence[float] | None = None
) -> Scale:
    """The scale of a field.

    Parameters
    ----------
    values : float array
        Those that are shown. What is not finite does not count.
    cmap : str or Colormap, optional
        By default one that diverges from zero where the values have both signs.
    levels : int or sequence of float, optional
        How many levels, about, or which ones.

    Raises
    ------
    CaseError
        If there is no such colour map, or the levels do not increase.
    """
    finite = values[np.isfinite(values)]
    low, high = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 0.0)
    signed = low < 0.0 < high and min(-low, high) > _BOTH_SIGNS * max(-low, high)
    colours = _colours(cmap if cmap is not None else DIVERGING if signed else SEQUENTIAL)
    if levels is not None and not isinstance(levels, int):
        chosen = _checked(levels)
        ticks = chosen[:: -(-chosen.size // 12)]
    else:
        chosen, ticks = _round(low, high, levels)
    if signed:
        most = float(np.abs(chosen).max())
        return Scale(chosen, ticks, colours, Normalize(-most, most))
    return Scale(chosen, ticks, colours, Normalize(chosen[0], chosen[-1]))


def _round(low: float, high: float, count: int | None) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Levels at round values, and the ticks among them."""
    if count is not None and not (isinstance(count, int) and 2 <= count <= 1000):
        raise CaseError([f"levels: {count}; allowed: from 2 to 1000, or a list of increasing numbers"])
    if high - low <= _CONSTANT * max(abs(low), abs(high)):
        beside = 0.1 * abs(low) or 1.0
        return np.array([low - beside, low + beside]), np.array([low])
    marks = MaxNLocator(nbins=_TICKS, steps=ROUND).tick_values(low, high)
    step = float(marks[1] - marks[0]) / _BETWEEN
    if count is not None:
        marks = MaxNLocator(nbins=count, steps=ROUND).tick_values(low, high)
        step = float(marks[1] - marks[0])
    first, last = np.floor(low / step + _BEYOND), np.ceil(high / step - _BEYOND)
    levels = step * np.arange(first, max(last, first + 1.0) + 1.0)
    every = _BETWEEN if count is None else -(-levels.size // (2 * _TICKS))
    return levels, levels[np.isclose(np.arange(first, first + levels.size) % every, 0.0)]


def _checked(levels: Any) -> NDArray[np.float64]:
    try:
        found = np.asarray(levels, dtype=np.float64)
    except (TypeError, ValueError):
        found = np.empty(0)
    if found.ndim != 1 or found.size < 2 or not np.isfinite(found).all() or not (np.diff(found) > 0.0).all():
        raise CaseError([f"levels: {levels!r}; allowed: a number of levels, or a list of increasing numbers"])
    return found


def _colours(given: str | Colormap) -> Colormap:
    if isinstance(given, Colormap):
        return given
    if given not in colormaps:
        raise CaseError([f"cmap: {given!r}; allowed: the name of a colour map of matplotlib, such as {SEQUENTIAL!r}"])
    return colormaps[given]
