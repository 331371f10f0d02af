"""Between grids on the same box: linear interpolation and its scaled transpose, coefficients, cubics; axis by axis.

Interpolation along an axis is linear between two uniform grids, whatever their sizes. Restriction is
R = W_c⁻¹ Pᵀ W_f h_f/h_c with the trapezoidal weights W, so that it is the adjoint of interpolation in the inner product
that makes A symmetric; where intervals halve, it is the full weighting [1/4, 1/2, 1/4].

An axis without fixed nodes may also collapse to one node, that of the functions that are constant along it: then
restriction is the trapezoidal mean, and the coarse grid has no weight along that axis.

The tables are made once on the host and are the same for every backend.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from poisson.discrete.discretisation import Operator
from poisson.mesh.boundary import Rule
from poisson.mesh.grid import cubics

GATHERED = 4
"""A coarse node gathers from at most this many fine nodes along an axis."""


KEPT = 128
"""Tables that are kept, because axes of one length share them."""


@dataclass(frozen=True, eq=False)
class AxisTransfer:
    """The weights of one axis.

    ``prolong_index`` and ``prolong_weight`` have shape (fine nodes, 2), the others shape (coarse nodes, 4). ``mean`` is
    ``restrict`` with weights that add up to one; ``series`` has the fine links that each coarse link covers, with the
    parts of its length that they cover. Entries that are not needed have weight zero and a valid index.
    """

    prolong_index: NDArray[np.int32]
    prolong_weight: NDArray[np.float64]
    restrict_index: NDArray[np.int32]
    restrict_weight: NDArray[np.float64]
    mean_weight: NDArray[np.float64]
    series_index: NDArray[np.int32]
    series_weight: NDArray[np.float64]

    @property
    def mean_index(self) -> NDArray[np.int32]:
        return self.restrict_index


@dataclass(frozen=True)
class Transfer:
    """Both directions between the nodes of `fine` and of `coarse`, which lie on the same box with the same rules.

    Along an axis where `coarse` has one node and `fine` has more, it need not have the same rules, but none of `fine`
    may be fixed.
    """

    fine: Operator
    coarse: Operator

    def __post_init__(self) -> None:
        _require_same_rules(self.fine, self.coarse)
        for fine, coarse in zip(self.fine.shape, self.coarse.shape, strict=True):
            if not coarse <= fine <= (GATHERED if coarse == 1 else 2 * coarse):
                raise ValueError(f"{fine} nodes do not coarsen to {coarse}")

    @cached_property
    def collapses(self) -> bool:
        """Whether an axis of more nodes has one on the coarse grid."""
        return any(coarse == 1 < fine for fine, coarse in zip(self.fine.shape, self.coarse.shape, strict=True))

    @cached_property
    def axes(self) -> tuple[AxisTransfer, ...]:
        """The tables of x, y(, z)."""
        sizes = zip(self.fine.shape, self.coarse.shape, strict=True)
        return tuple(_tables(fine, coarse, self.fine.axis_rules(axis)) for axis, (fine, coarse) in enumerate(sizes))


@lru_cache(maxsize=KEPT)
def _tables(fine: int, coarse: int, rules: tuple[Rule, Rule]) -> AxisTransfer:
    if coarse == 1:
        return _collapsing(fine, rules)
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
    node, weight = prolong_index.ravel(), prolong_weight.ravel()
    # The entries of the transpose, those of one coarse node behind one another in the order of the fine nodes.
    entry = np.argsort(node, kind="stable")
    entry = entry[weight[entry] != 0.0]
    node, weight, fine_node = node[entry], weight[entry], entry // 2
    place = np.arange(node.size) - np.searchsorted(node, node)
    factor = _trapezoidal(fine, rules)[fine_node] / _trapezoidal(coarse, rules)[node]
    restrict_index[node, place] = fine_node
    restrict_weight[node, place] = ratio * factor * weight
    series_index, series_weight = _series(fine_intervals, coarse_intervals, coarse)
    return AxisTransfer(
        prolong_index.astype(np.int32),
        prolong_weight,
        restrict_index.astype(np.int32),
        restrict_weight,
        restrict_weight / restrict_weight.sum(axis=1, keepdims=True),
        series_index,
        series_weight,
    )


def _collapsing(nodes: int, rules: tuple[Rule, Rule]) -> AxisTransfer:
    """To one node; its link, which has no weight, takes the coefficient of the first one."""
    prolong_index = np.zeros((nodes, 2), dtype=np.int32)
    prolong_weight = np.tile([1.0, 0.0], (nodes, 1))
    index, mean = _mean(nodes, rules)
    first = np.array([[1.0, *(0.0,) * (GATHERED - 1)]])
    return AxisTransfer(prolong_index, prolong_weight, index, mean, mean, np.zeros_like(index), first)


def _mean(nodes: int, rules: tuple[Rule, Rule]) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
    """Indices and weights of the trapezoidal mean over an axis of at most four nodes, both of shape (1, 4)."""
    index = np.minimum(np.arange(GATHERED, dtype=np.int32), nodes - 1)
    weight = np.zeros(GATHERED)
    weight[:nodes] = _trapezoidal(nodes, rules)
    return index[None], weight[None] / weight.sum()


def _series(fine: int, coarse: int, nodes: int) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
    """The fine intervals under each coarse one, and the parts of it that they cover.

    Parameters
    ----------
    fine, coarse : int
        Intervals of the axis.
    nodes : int
        Coarse nodes; a last node without an interval repeats the one before.
    """
    index = np.zeros((nodes, GATHERED), dtype=np.int32)
    weight = np.zeros((nodes, GATHERED))
    # In units of 1/(fine · coarse) of the axis all ends are integers.
    start = np.minimum(np.arange(nodes, dtype=np.int64), coarse - 1) * fine
    first, last = start // coarse, -(-(start + fine) // coarse)
    for n in range(GATHERED):
        i = first + n
        covered = np.minimum((i + 1) * coarse, start + fine) - np.maximum(i * coarse, start)
        index[:, n], weight[:, n] = np.where(i < last, i, 0), np.where(i < last, covered / fine, 0.0)
    return index, weight


@dataclass(frozen=True)
class Interpolation:
    """From the nodes of one grid to those of another on the same box, by cubics through the four nearest nodes.

    Near a face that does not wrap the four nodes lie on one side; an axis of three nodes has parabolas. An axis that
    collapses to one node has the mean; from one node all take its value.

    Parameters
    ----------
    source, target : Operator
        The grids, with the same rules except where one of them has a single node; either may be the finer one.
    everywhere : bool
        Whether the fixed nodes of the target are written too; otherwise they keep their values.
    """

    source: Operator
    target: Operator
    everywhere: bool = False

    def __post_init__(self) -> None:
        _require_same_rules(self.source, self.target)
        for source, target in zip(self.source.shape, self.target.shape, strict=True):
            if target == 1 and source > GATHERED:
                raise ValueError(f"{source} nodes do not collapse to one")

    @cached_property
    def axes(self) -> tuple[tuple[NDArray[np.int32], NDArray[np.float64]], ...]:
        """For x, y(, z): indices into the source and weights, both of shape (target nodes, 4)."""
        sizes = zip(self.source.shape, self.target.shape, strict=True)
        return tuple(
            _cubics(source, target, self.source.axis_rules(axis)) for axis, (source, target) in enumerate(sizes)
        )


def _cubics(source: int, target: int, rules: tuple[Rule, Rule]) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
    return _mean(source, rules) if target == 1 else cubics(source, target, rules[0] is Rule.WRAP)


def _trapezoidal(nodes: int, rules: tuple[Rule, Rule]) -> NDArray[np.float64]:
    weights = np.ones(nodes)
    for end, rule in zip((0, -1), rules, strict=True):
        if rule is Rule.MIRROR:
            weights[end] = 0.5
    return weights


def _require_same_rules(one: Operator, other: Operator) -> None:
    for axis, shape in enumerate(zip(one.shape, other.shape, strict=True)):
        rules = one.axis_rules(axis), other.axis_rules(axis)
        collapses = min(shape) == 1 and not any(Rule.FIXED in pair for pair in rules)
        if rules[0] != rules[1] and not collapses:
            raise ValueError("the grids differ in the rules of their faces")
