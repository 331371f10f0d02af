# SPDX-License-Identifier: MIT
"""The values of coefficients as they are sampled: their range, and the arrays that values of other ones may take."""

import math
import threading
from collections.abc import Callable
from types import ModuleType
from typing import Any, Protocol

import numpy as np

from poisson.discrete.operator import Coefficients, Operator
from poisson.errors import CaseError

Slab = Callable[[ModuleType, int, int], Any]


class Range:
    """The least and the largest value of a function, noted as it is evaluated slab by slab.

    `value`: the value of a function that is the same everywhere. `ends`: the least and the largest value. `changed`:
    whether a value differs from that in the array that it was compared with.
    """

    def __init__(self, value: float | None = None) -> None:
        self.ends = (math.inf, -math.inf) if value is None else (value, value)
        self.changed = False
        self._lock = threading.Lock()  # slabs come from several threads

    def noted(self, function: Slab, before: Any = None) -> Slab:
        """The function, whose values are noted and compared with those of an array, where there is one."""

        def slab(xp: ModuleType, start: int, stop: int) -> Any:
            values = function(xp, start, stop)
            least, largest = float(values.min()), float(values.max())
            changed = self.changed or before is None or _differ(before[start:stop], values)
            with self._lock:
                self.ends = min(self.ends[0], least), max(self.ends[1], largest)
                self.changed = self.changed or changed
            return values

        return slab

    def join(self, largest: Callable[..., tuple[float, ...]]) -> None:
        """Take in the values on the other ranks, given what makes largest values those of all."""
        low, high, changed = largest(-self.ends[0], self.ends[1], float(self.changed))
        self.ends, self.changed = (-low, high), changed > 0.0

    def require_fit(self, dtype: np.dtype[Any], key: str, *, from_zero: bool) -> None:
        """Refuse values that a type cannot hold, or whose inverses it cannot."""
        limits = np.finfo(dtype)
        least, largest = self.ends
        if largest > float(limits.max) or (least < float(limits.tiny) and not from_zero):
            wanted = "scale the equation" if dtype == np.float64 else "use run.precision = 'float64'"
            raise CaseError(f"{key}: the values from {least:g} to {largest:g} do not fit into {dtype.name}; {wanted}")


def _differ(before: Any, values: Any) -> bool:
    """Whether values differ from those of an array in the type of that. Most that do differ in the first row.

    On a device the least and the largest of float64 are known already; another reduction would be compiled for seconds.
    """
    for rows in (slice(0, 1), slice(None)) if len(values) > 1 else (slice(None),):
        differences = before[rows] - values[rows].astype(before.dtype, copy=False)
        differences = differences.astype(np.float64, copy=False)
        if float(differences.min()) or float(differences.max()):
            return True
    return False


class Filler(Protocol):
    """A backend, as far as it fills arrays and has views of them."""

    @property
    def views(self) -> bool: ...

    def assemble(self, array_shape: tuple[int, ...], slab: Slab, out: Any = None) -> Any: ...

    def view(self, array: Any) -> Any: ...


class Samples:
    """The arrays of an operator's coefficients, which take the values of other coefficients on the same nodes.

    `backend`: the backend of the arrays. `operator`: the operator with the arrays. `coefficients`: the arrays, with the
    ranges of the values that are in them. `nodes` (Array or None): a at the nodes; None until it has been sampled here.
    `changed`: whether the arrays have got other values since it was set to False.
    """

    def __init__(self, backend: Filler, operator: Operator) -> None:
        self._backend = backend
        self.coefficients = operator.coefficients
        self.nodes: Any = None
        self.changed = False

    def assemble(self, array_shape: tuple[int, ...], slab: Slab, out: Any) -> Any:
        """Fill an array, a new one without `out`."""
        return self._backend.assemble(array_shape, slab, out)

    def values(self, array: Any) -> Any:
        """The values in an array, to compare others with; None if there is none, or its values are out of reach."""
        return self._backend.view(array) if array is not None and self._backend.views else None

    def fit(self, varying: tuple[bool, bool]) -> bool:
        """Whether an operator needs just these arrays, given for a and for c whether it has an array."""
        kept = self.coefficients or Coefficients(None, None, (1.0, 1.0), (0.0, 0.0))
        return varying == (kept.links is not None, kept.c is not None)
