# SPDX-License-Identifier: MIT
"""The numbers beside axes and colours: short ones, as a power of ten that they share stands in the name beside them."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.ticker import Formatter

_MINUS, _SUPERSCRIPTS = "−", str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
_LEAST, _LARGEST = 1e-3, 1e5
"""Numbers between these need no power of ten."""
_ALIKE = 1e-6
"""Numbers that differ by less than this part of their size would be long; what they share goes into the name."""
_APART = 25.0
"""Numbers of which one is so many times another have decimals of their own."""


@dataclass(frozen=True)
class Measure:
    """The base and the power of ten of the numbers of an axis, which are ``(value - base) / 10**power``."""

    base: float = 0.0
    power: int = 0

    @property
    def factor(self) -> str:
        """The power of ten as a name has it; empty for 1."""
        return f"10{str(self.power).translate(_SUPERSCRIPTS)}" if self.power else ""


class Numbers(Formatter):
    """The labels of ticks: numbers such as ``0.25``, with as many decimals as it takes to tell them apart."""

    def __init__(self, measure: Measure) -> None:
        self.measure = measure

    def __call__(self, x: float, pos: int | None = None) -> str:
        return self.format_ticks([x])[0]

    def format_ticks(self, values: Any) -> list[str]:
        numbers = np.asarray(values, dtype=np.float64) - self.measure.base
        return texts(numbers / 10.0**self.measure.power)


def measure_of(low: float, high: float, *, log: bool = False) -> Measure:
    """The base and the power of ten that make the numbers of a range short.

    `low`, `high`: the ends of the range. `log`: whether it is logarithmic, so that every number has a power of its own.
    """
    largest = max(abs(low), abs(high))
    if log or not 0.0 < high - low < math.inf:
        return Measure()
    base = 0.0
    if high - low < _ALIKE * largest:
        step = 10.0 ** (math.ceil(math.log10(high - low)) + 1.0)
        base = float(f"{round(low / step) * step:.15g}")
        largest = max(abs(low - base), abs(high - base))
    return Measure(base, 0 if _LEAST <= largest < _LARGEST else 3 * math.floor(math.log10(largest) / 3.0 + 1e-9))


def texts(values: Iterable[float]) -> list[str]:
    """Numbers as words: each alone where they differ by orders, else all with the same decimals."""
    numbers = np.asarray(list(values), dtype=np.float64)
    step = float(np.diff(np.unique(numbers)).min(initial=math.inf))
    if step < math.inf:
        # What is left of a difference of two numbers near each other is zero.
        numbers = np.where(np.abs(numbers) <= 1e-6 * step, 0.0, numbers)
    sizes = np.abs(numbers[numbers != 0.0])
    if numbers.size < 2 or not sizes.size or sizes.max() > _APART * sizes.min():
        return [alone(float(number)) for number in numbers]
    enough = (count for count in range(15) if np.all(np.abs(np.round(numbers, count) - numbers) <= 0.01 * step))
    decimals = next(enough, 15)
    return [_signed(f"{number:.{decimals}f}") for number in numbers]


def alone(number: float) -> str:
    """One number to four digits, such as ``0.25``, ``12000`` or ``2.5×10⁻¹²``."""
    if number == 0.0 or _LEAST <= abs(number) < _LARGEST:
        text = f"{number:.4g}"
        return _signed(f"{number:.0f}" if "e" in text else text)
    mantissa, _, power = f"{number:.3e}".partition("e")
    mantissa = _signed(f"{float(mantissa):g}")
    sign = {"1": "", f"{_MINUS}1": _MINUS}.get(mantissa, f"{mantissa}×")
    return sign + Measure(power=int(power)).factor


def _signed(text: str) -> str:
    return text.replace("-", _MINUS) if float(text) else text.lstrip("-")
