# SPDX-License-Identifier: MIT
"""Colours for the values of a field: their range, how they go from one end of it to the other, and the marks on it."""

import copy
import difflib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from matplotlib import colormaps
from matplotlib.colors import Colormap, ListedColormap, LogNorm, Normalize, SymLogNorm
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from poisson.errors import CaseError
from poisson.output.pictures.samples import ROUNDING
from poisson.output.pictures.ticks import Measure, alone, measure_of

ROUND = (1.0, 2.0, 2.5, 5.0, 10.0)
"""Times powers of ten: the steps of ticks."""

DIVERGING, SEQUENTIAL = "RdBu_r", "viridis"

FULL = "full"
"""The range that holds every value."""

_TICKS = 6
_COLOURS = 256
_BOTH_SIGNS = 0.1
"""The part of the larger extreme below which the sign of the other extreme does not matter."""
_BEYOND = 1e-6
"""A value may lie beyond the range by this part of it and still count as inside."""

_TAIL = 2.0
"""Percent of the values at either end that are a tail: they may lie beyond a range that is made for the others."""
_PEAKED = 0.25
"""A field has a peak if its values without the tails span less than this part of the whole range."""
_DOTS = 0.01
"""There is something to be seen beside a peak if the inner half of these values spans at least this part of them."""
_NOISE = 1e-5
"""If they span less than this part of the whole range, they are noise."""


@dataclass(frozen=True)
class Colouring:
    """The colours as the caller wants them.

    `cmap`: by default one that diverges from zero where the values have both signs. `levels`: how many levels, about,
    or which ones: one colour between two of them. By default the colours are smooth. `log`: whether the colours follow
    the logarithm; of values with both signs, that of their size, and the value itself near zero. `range`: the values at
    both ends, also as text ``"LO,HI"``; ``"full"`` for every value. By default a peak of few values lies beyond.
    """

    cmap: str | Colormap | None = None
    levels: int | Sequence[float] | None = None
    log: bool = False
    range: str | Sequence[float] | None = None


@dataclass(frozen=True)
class Scale:
    """How values become colours.

    `norm`: takes the lowest value that has a colour of its own to 0, the highest to 1. `colours`: from the lowest to
    the highest. `ticks` (float array): the values with a number beside the colours and a line in the picture. `bands`
    (float array, optional): the values between which there is one colour; None where the colours are smooth. `below`,
    `above`: the extreme values that lie beyond the range; None where there are none.
    """

    norm: Normalize
    colours: Colormap
    ticks: NDArray[np.float64]
    bands: NDArray[np.float64] | None = None
    below: float | None = None
    above: float | None = None

    @property
    def low(self) -> float:
        """The value at the lower end of the range."""
        assert self.norm.vmin is not None
        return self.norm.vmin

    @property
    def high(self) -> float:
        """The value at the upper end of the range."""
        assert self.norm.vmax is not None
        return self.norm.vmax

    @property
    def extend(self) -> str:
        """The ends of the range beyond which there are values, as matplotlib names them."""
        return {(0, 0): "neither", (1, 0): "min", (0, 1): "max", (1, 1): "both"}[
            self.below is not None, self.above is not None
        ]

    @property
    def signed(self) -> bool:
        """Whether the range has values of both signs, neither of them next to nothing."""
        return self.low < 0.0 < self.high and min(-self.low, self.high) > _BOTH_SIGNS * max(-self.low, self.high)

    @property
    def measure(self) -> Measure:
        """The base and the power of ten of the numbers beside the colours."""
        return measure_of(self.low, self.high, log=isinstance(self.norm, (LogNorm, SymLogNorm)))

    @property
    def beyond(self) -> str:
        """A note on the values that lie beyond the range; empty if none do."""
        if self.below is not None and self.above is not None:
            return f"values from {alone(self.below)} to {alone(self.above)} lie beyond the range"
        if self.below is not None:
            return f"values down to {alone(self.below)} lie beyond the range"
        return "" if self.above is None else f"values up to {alone(self.above)} lie beyond the range"

    def clipped(self, values: NDArray[Any]) -> Any:
        """`values` within the range; what is not finite is masked."""
        return np.ma.masked_invalid(np.clip(values, self.low, self.high))


def scale_of(values: NDArray[Any], wanted: Colouring = Colouring(), rounding: float = ROUNDING) -> Scale:
    """The scale of a field.

    Without a range that is asked for, a field with a peak, of which all but a few percent of the values span less than
    a quarter of the whole, has the range of these.

    `values` (float array): the values that are shown. What is not finite does not count. `wanted`: what is asked for.
    `rounding`: of the largest value: what smaller differences are no differences but rounding. Raises `CaseError` if
    there is no such colour map, the range or the levels do not increase, or a range is given twice.
    """
    asked = limits_of(wanted.range)
    bands = None if wanted.levels is None or isinstance(wanted.levels, int) else _checked(wanted.levels)
    if bands is not None and wanted.range is not None:
        raise CaseError("range: the levels give the range already; leave one of the two out")
    finite = np.asarray(values, dtype=np.float64)
    finite = finite[np.isfinite(finite)]
    low, high = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 0.0)
    largest = max(abs(low), abs(high))
    alike = high - low <= rounding * largest
    if asked is not None:
        first, last = asked
    elif bands is not None:
        first, last = float(bands[0]), float(bands[-1])
    elif alike:
        first, last = low - (0.1 * abs(low) or 1.0), low + (0.1 * abs(low) or 1.0)
    elif wanted.log or wanted.range is not None:
        first, last = low, high
    else:
        first, last = _without_peak(finite, low, high)
    fixed = asked is not None or bands is not None
    if wanted.log and (fixed or not alike):
        norm = _logarithmic(finite, first, last, rounding, fixed=fixed)
    else:
        norm = Normalize(first, last)
    ticks = np.array([low]) if alike and not fixed else _ticks(norm)
    if isinstance(wanted.levels, int):
        bands = _bands(norm, wanted.levels)
        norm.vmin, norm.vmax = float(bands[0]), float(bands[-1])
    if bands is not None:
        ticks = bands[:: -(-bands.size // 12)]
    scale = Scale(norm, colours_of(SEQUENTIAL if wanted.cmap is None else wanted.cmap), ticks, bands)
    if scale.signed:
        scale = replace(
            scale, colours=_centred(scale.colours if wanted.cmap is not None else colours_of(DIVERGING), norm)
        )
    slack = _BEYOND * (scale.high - scale.low)
    below = low if low < scale.low - (0.0 if isinstance(norm, LogNorm) else slack) else None
    return replace(scale, below=below, above=high if high > scale.high + slack else None)


def limits_of(given: str | Sequence[float] | None) -> tuple[float, float] | None:
    """The two ends of a range that somebody has asked for; None for one that the values give.

    Raises `CaseError` if it is not two finite numbers that increase.
    """
    if given is None or (isinstance(given, str) and given.strip() == FULL):
        return None
    try:
        low, high = (float(part) for part in (given.split(",") if isinstance(given, str) else given))
    except (TypeError, ValueError):
        raise CaseError(f"range: {given!r}; allowed: two numbers LO,HI such as 0,1.5, or {FULL!r}") from None
    if not (np.isfinite([low, high]).all() and low < high):
        raise CaseError(f"range: {low:g},{high:g}; allowed: two finite numbers LO,HI with LO less than HI")
    return low, high


def colours_of(given: str | Colormap) -> Colormap:
    """A colour map of matplotlib, by its name.

    Raises `CaseError` if there is none of that name; the line has the ones nearest to it.
    """
    if isinstance(given, Colormap):
        return given
    if given in colormaps:
        return colormaps[given]
    names = {name.lower(): name for name in colormaps}
    near = [names[name] for name in difflib.get_close_matches(str(given).lower(), names, n=3)]
    advice = f"did you mean {_or(near)}?" if near else f"allowed: a colour map of matplotlib, such as {SEQUENTIAL!r}"
    raise CaseError(f"cmap: {given!r}; {advice}")


def _or(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} or {names[-1]}"


def _without_peak(values: NDArray[np.float64], low: float, high: float) -> tuple[float, float]:
    """The range of all values, or of those that are no peak."""
    first, last = (float(found) for found in np.percentile(values, (_TAIL, 100.0 - _TAIL)))
    # An end of the values that lies near the others stays in the range.
    first = low if first - low <= 0.5 * (last - first) else first
    last = high if high - last <= 0.5 * (last - first) else last
    inner = float(np.subtract(*np.percentile(values, (75.0, 25.0))))
    if inner < _DOTS * (last - first) or not _NOISE * (high - low) < last - first < _PEAKED * (high - low):
        return low, high
    spread = last - first
    return (first if first == low else rounded(first, spread)), (last if last == high else rounded(last, spread))


def rounded(value: float, size: float) -> float:
    """A value with two digits of those that a number of this size has."""
    step = 10.0 ** (np.floor(np.log10(size)) - 1.0)
    return float(f"{np.round(value / step) * step:.15g}")


def _logarithmic(values: NDArray[np.float64], first: float, last: float, rounding: float, *, fixed: bool) -> Normalize:
    """Logarithmic between positive ends; else of the size of the values, from what is more than rounding."""
    sizes = np.abs(values)
    sizes = sizes[sizes > rounding * max(abs(first), abs(last))]
    if first > 0.0 and fixed:
        return LogNorm(first, last)
    if not fixed and first >= -rounding * last and sizes.size and sizes.min() < last:
        return LogNorm(float(sizes.min()), last)
    largest = max(abs(first), abs(last))
    least = float(np.percentile(sizes, _TAIL)) if sizes.size else largest
    # The linear part ends at a power of ten, at least one below the largest value.
    least = 10.0 ** min(np.floor(np.log10(least)), np.ceil(np.log10(largest)) - 2.0)
    return SymLogNorm(least, linscale=0.5, vmin=first, vmax=last, base=10.0)


def _ticks(norm: Normalize) -> NDArray[np.float64]:
    """Round values in a range."""
    low, high = float(norm.vmin or 0.0), float(norm.vmax or 0.0)
    if isinstance(norm, LogNorm):
        return _powers(low, high)
    if isinstance(norm, SymLogNorm):
        least = float(norm.linthresh)
        above = _powers(least, high, 4) if high > least else np.empty(0)
        below = -_powers(least, -low, 4)[::-1] if -low > least else np.empty(0)
        return np.concatenate([below, [0.0] if low <= 0.0 <= high else [], above])
    return _even(low, high, _TICKS)


def _powers(low: float, high: float, most: int = 8) -> NDArray[np.float64]:
    """Powers of ten in a range; with their multiples, or even steps, where there are less than three."""
    exponents = np.arange(np.ceil(np.log10(low) - 1e-9), np.floor(np.log10(high) + 1e-9) + 1.0)
    if exponents.size >= 3:
        return 10.0 ** exponents[:: -(-exponents.size // most)]
    decades = 10.0 ** np.arange(np.floor(np.log10(low)), np.ceil(np.log10(high)) + 1.0)
    found = np.unique(np.outer(decades, (1.0, 2.0, 5.0)))
    found = found[(found >= low * (1.0 - 1e-9)) & (found <= high * (1.0 + 1e-9))]
    return found if found.size >= 3 else _even(low, high, most)


def _even(low: float, high: float, most: int) -> NDArray[np.float64]:
    marks = np.asarray(MaxNLocator(nbins=most, steps=ROUND).tick_values(low, high), dtype=np.float64)
    slack = _BEYOND * (high - low)
    inside = marks[(marks >= low - slack) & (marks <= high + slack)]
    # Rounded: a mark at zero is that.
    return np.where(np.abs(inside) < slack, 0.0, inside)


def _bands(norm: Normalize, count: int) -> NDArray[np.float64]:
    """About so many bands: of even steps between round values, or of even steps of the logarithm."""
    if not 2 <= count <= 1000:
        raise CaseError(f"levels: {count}; allowed: from 2 to 1000, or a list of increasing numbers")
    low, high = float(norm.vmin or 0.0), float(norm.vmax or 0.0)
    if type(norm) is not Normalize:
        return np.asarray(norm.inverse(np.linspace(0.0, 1.0, count + 1)), dtype=np.float64)
    return np.asarray(MaxNLocator(nbins=count, steps=ROUND).tick_values(low, high), dtype=np.float64)


def _checked(levels: Any) -> NDArray[np.float64]:
    try:
        found = np.asarray(levels, dtype=np.float64)
    except (TypeError, ValueError):
        found = np.empty(0)
    if found.ndim != 1 or found.size < 2 or not np.isfinite(found).all() or not (np.diff(found) > 0.0).all():
        raise CaseError(f"levels: {levels!r}; allowed: a number of levels, or a list of increasing numbers")
    return found


def _centred(colours: Colormap, norm: Normalize) -> Colormap:
    """The part of a colour map that belongs to a range, where its middle belongs to zero."""
    first, last = float(norm.vmin or 0.0), float(norm.vmax or 0.0)
    whole = copy.copy(norm)
    whole.vmin, whole.vmax = min(first, -last), max(-first, last)
    ends = (float(whole(first)), float(whole(last)))
    return ListedColormap(colours(np.linspace(*ends, _COLOURS)), name=colours.name)
