# SPDX-License-Identifier: MIT
"""A lattice divided over several processes, played by one: parts of arrays, their exchange and summed reductions."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from poisson.discrete.operator import Operator
from poisson.mesh.lattice import Lattice

Cuts = dict[int, tuple[int, ...]]
"""For each axis that is divided, where its parts begin; the first one begins at 0."""

Values = NDArray[Any]


@dataclass(frozen=True)
class Division:
    """An operator and its parts.

    `whole`: on NumPy arrays. `parts`: one for each process.
    """

    whole: Operator
    parts: tuple[Lattice, ...]

    @staticmethod
    def of(whole: Operator, cuts: Cuts, halo: int | tuple[int, int]) -> "Division":
        ranges = [
            [(axis, start, stop) for start, stop in itertools.pairwise((*starts, whole.shape[axis]))]
            for axis, starts in cuts.items()
        ]
        parts = []
        for chosen in itertools.product(*ranges):
            lattice = whole.lattice
            for axis, start, stop in chosen:
                lattice = lattice.part(axis, start, stop, halo)
            parts.append(lattice)
        return Division(whole, tuple(parts))

    def operator(self, part: Lattice) -> Operator:
        """The operator of a part, with its values of coefficients."""
        given = self.whole.coefficients
        if given is None:
            return replace(self.whole, lattice=part)
        links = None if given.links is None else tuple(taken(each, part) for each in given.links)
        c = None if given.c is None else taken(given.c, part)
        return replace(self.whole, lattice=part, coefficients=replace(given, links=links, c=c))

    def gathered(self, locals_: Sequence[Values]) -> Values:
        """The array of which these are the parts, from the nodes that each owns."""
        out = np.full(self.whole.array_shape, np.nan, dtype=locals_[0].dtype)
        for part, values in zip(self.parts, locals_, strict=True):
            put(out, part, values)
        return out

    def exchange(self, locals_: Sequence[Values]) -> None:
        """Give every part the values of the others in its halo."""
        whole = self.gathered(locals_)
        for part, values in zip(self.parts, locals_, strict=True):
            values[...] = taken(whole, part)


def taken(values: Values, part: Lattice) -> Values:
    """The nodes of a part, with its halo."""
    return values[np.ix_(*(axis.index for axis in reversed(part.axes)))]


def put(out: Values, part: Lattice, values: Values) -> None:
    """Write the nodes that a part owns."""
    out[np.ix_(*(axis.index[axis.owned] for axis in reversed(part.axes)))] = values[part.owned]


def valid_within(values: Values, part: Lattice, layers: int) -> Values:
    """The nodes of a part, with NaN in its halo beyond so many layers."""
    found = taken(values, part)
    for place, axis in enumerate(reversed(part.axes)):
        along = np.moveaxis(found, place, 0)
        along[: max(0, axis.halo[0] - layers)] = np.nan
        along[axis.nodes - max(0, axis.halo[1] - layers) :] = np.nan
    return found
