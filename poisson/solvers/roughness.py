# SPDX-License-Identifier: MIT
"""Whether coefficients slow averaged coarse grids down, told from samples of them: no trial is solved.

A jump between large parts of the box, or between layers across one axis, is nothing to averaged coarse grids and
conjugate gradients. Many jumps along two axes or more are, or along the only one, and links that stick out among their
neighbours; so is any variation along two axes where the links along one axis are much stronger than those along
another. The bounds come from some 150 coefficients at 65² and 129².
"""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from poisson.discrete.clusters import Clusters
from poisson.discrete.full_stencil import countable, divisible
from poisson.errors import GridError

if TYPE_CHECKING:
    from poisson.backends.base import Backend, Operations
    from poisson.discrete.operator import Operator

log = logging.getLogger(__name__)

JUMP = 30.0
"""Neighbouring links that differ by more than this factor are a jump."""

MOST_JUMPS = 3.0
"""More jumps along a grid line are too many, ..."""

MOST_SPIKES = 0.05
"""... and so are more spikes: a jump up and at once one down, or the other way round."""

ANISOTROPY, VARIATION = 20.0, 1.0
"""Where spacings differ by this factor, ln a may vary by so much along a grid line."""

LEAST_RANGE = 10.0
"""Below this factor of the largest a over the smallest there is nothing to look for."""

LINES = {1: 1, 2: 64, 3: 8}
"""How many lines of nodes are looked at along each of the other axes, by the dimension."""


@dataclass(frozen=True)
class Roughness:
    """Jumps that a line of nodes meets on average along the axis where it meets the second most, or the only one.

    `jumps`, `spikes`: `JUMP`, and `MOST_SPIKES`. `variation`: the sum of the changes of ln a.
    """

    jumps: float = 0.0
    spikes: float = 0.0
    variation: float = 0.0

    def reason(self, operator: Operator) -> str:
        """Why products are better coarse grids than averages; empty if they are not."""
        coefficients = operator.coefficients
        if coefficients is None or coefficients.links is None:
            return ""
        if coefficients.cut:
            return "surfaces cut links"
        least, largest = coefficients.a_range
        # Links that are 0 are not in the range.
        if largest <= LEAST_RANGE * least and coefficients.holds is None:
            return ""
        if self.jumps > MOST_JUMPS:
            return f"a jumps {self.jumps:.2g} times along a grid line"
        if self.spikes > MOST_SPIKES:
            return "a has spikes of single nodes"
        couplings = [coupling for coupling in operator.couplings if coupling > 0.0]
        anisotropy = math.sqrt(max(couplings) / min(couplings))
        if anisotropy >= ANISOTROPY and self.variation > VARIATION:
            return f"a varies along two axes, and the spacings by a factor of {anisotropy:.3g}"
        return ""


def roughness_of(links: Sequence[tuple[NDArray[Any], NDArray[np.bool_] | None, int]]) -> Roughness:
    """The roughness of samples of links.

    `links` (sequence of (array, mask, int)): for each axis: links that follow upon each other along the first axis of
    an array; between which of them no node is left out, or None for all; and the nodes of the whole axis.
    """
    found = []
    for values, joined, nodes in links:
        if len(values) < 3:
            continue
        logs = np.log(np.maximum(values, np.finfo(np.float64).tiny))
        change = np.diff(logs, axis=0)
        if joined is not None:
            change[~joined] = 0.0
        big = np.abs(change) > math.log(JUMP)
        spikes = big[1:] & big[:-1] & (change[1:] * change[:-1] < 0.0)
        count = change.size if joined is None else np.count_nonzero(joined) * (change.size // len(change))
        found.append([nodes * float(total) / count for total in (big.sum(), spikes.sum(), np.abs(change).sum())])
    return Roughness(*(sorted(each)[-2:][0] for each in zip(*found, strict=True)))


def roughness(operations: Operations) -> Roughness:
    """The roughness of an operator, from some of its lines of nodes."""
    backend, operator = operations.backend, operations.operator
    if operator.links is None or not Roughness(MOST_JUMPS + 1.0).reason(operator):
        return Roughness()  # the usual case costs nothing
    most, samples = LINES[operator.dimension], []
    shape = operator.lattice.whole.shape
    for axis, array in enumerate(operator.links):
        steps = [max(1, nodes // most) for nodes in shape]
        steps[axis] = 1
        values = backend.sample(array, operator.lattice, tuple(steps)).astype(np.float64)
        samples.append((np.moveaxis(values, operator.lattice.array_axis(axis), 0), None, shape[axis]))
    return roughness_of(samples)


def has_products(backend: Backend, operator: Operator) -> bool:
    """Whether a backend has full stencils, and the nodes are few enough for them and divided so that axes halve."""
    able = divisible(operator.lattice) and countable(operator.lattice) and Clusters in backend.bound
    return backend.begins_evenly(operator.lattice) and able


def kind_of(operations: Operations, coarse: str) -> str:
    """The coarse grids of an operator, ``geometric`` or ``galerkin``, given the setting.

    Raises `GridError` if products are asked for that the backend does not have.
    """
    able = has_products(operations.backend, operations.operator)
    if coarse == "galerkin" and not able:
        raise GridError(
            "this backend, or a grid divided as this one is over processes, has no products as coarse grids yet: "
            "solver.coarse = 'galerkin' cannot be; use 'auto' or 'geometric'"
        )
    if coarse != "auto":
        return coarse
    reason = roughness(operations).reason(operations.operator) if able else ""
    if reason:
        log.info("coarse grids of multigrid: galerkin, as %s", reason)
    return "galerkin" if reason else "geometric"
