"""Between a grid and a coarser one on the same box: linear interpolation and its scaled transpose, axis by axis.

Interpolation along an axis is linear between two uniform grids, whatever their sizes. Restriction is
R = W_c⁻¹ Pᵀ W_f h_f/h_c with the trapezoidal weights W, so that it is the adjoint of interpolation in the inner product
that makes A symmetric; where intervals halve, it is the full weighting [1/4, 1/2, 1/4].

The tables are made once on the host and are the same for every backend.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from poisson.boundary import Rule
from poisson.discretisation import Operator

GATHERED = 4
"""A coarse node gathers from at most this many fine nodes along an axis."""


@dataclass(frozen=True, eq=False)
class AxisTransfer:
    """The weights of one axis.

    ``prolong_index`` and ``prolong_weight`` have shape (fine nodes, 2), ``restrict_index`` and ``restrict_weight``
    shape (coarse nodes, 4). Entries that are not needed have weight zero and a valid index.
    """

    prolong_index: NDArray[np.int32]
    prolong_weight: NDArray[np.float64]
    restrict_index: NDArray[np.int32]
    restrict_weight: NDArray[np.float64]


@dataclass(frozen=True)
class Transfer:
    """Both directions between the nodes of `fine` and of `coarse`, which lie on the same box with the same rules."""

    fine: Operator
    coarse: Operator

    def __post_init__(self) -> None:
        if self.fine.rules != self.coarse.rules:
            raise ValueError("the grids differ in the rules of their faces")
        for fine, coarse in zip(self.fine.shape, self.coarse.shape, strict=True):
            if not coarse <= fine <= 2 * coarse:
                raise ValueError(f"{fine} nodes do not coarsen to {coarse}")

    @cached_property
    def axes(self) -> tuple[AxisTransfer, ...]:
        """The tables of x, y(, z)."""
        sizes = zip(self.fine.shape, self.coarse.shape, strict=True)
        return tuple(_tables(fine, coarse, self.fine.axis_rules(axis)) for axis, (fine, coarse) in enumerate(sizes))


def _tables(fine: int, coarse: int, rules: tuple[Rule, Rule]) -> AxisTransfer:
    wraps = rules[0] is Rule.WRAP
    fine_intervals, coarse_intervals = (fine, coarse) if wraps else (fine - 1, coarse - 1)
    # The fine node i lies at i * coarse_intervals / fine_intervals coarse spacings: integers keep that exact.
    position = np.arange(fine, dtype=np.int64) * coarse_intervals
    lower = position // fine_intervals
    fraction = (position % fine_intervals) / fine_intervals
    upper = (lower + 1) % coarse if wraps else np.minimum(lower + 1, coarse - 1)
    prolong_index = np.stack([lower, upper], axis=1)
    prolong_weight = np.stack([1.0 - fraction, fraction], axis=1)

    ratio = coarse_intervals / fine_intervals
    restrict_index = np.zeros((coarse, GATHERED), dtype=np.int64)
    restrict_weight = np.zeros((coarse, GATHERED))
    filled = np.zeros(coarse, dtype=np.int64)
    for i in range(fine):
        for n in range(2):
            node, weight = prolong_index[i, n], prolong_weight[i, n]
            if weight:
                factor = _trapezoidal(i, fine, rules) / _trapezoidal(int(node), coarse, rules)
                restrict_index[node, filled[node]] = i
                restrict_weight[node, filled[node]] = ratio * factor * weight
                filled[node] += 1
    return AxisTransfer(
        prolong_index.astype(np.int32), prolong_weight, restrict_index.astype(np.int32), restrict_weight
    )


def _trapezoidal(node: int, nodes: int, rules: tuple[Rule, Rule]) -> float:
    lower, upper = rules
    at_mirror = (node == 0 and lower is Rule.MIRROR) or (node == nodes - 1 and upper is Rule.MIRROR)
    return 0.5 if at_mirror else 1.0
