# SPDX-License-Identifier: MIT
"""Random full stencils and transfers by weights on any lattice."""

import itertools
from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np

from poisson.backends.base import Backend
from poisson.backends.numpy import NumpyBackend
from poisson.discrete.clusters import Clusters, clusters_of, contracted_clusters
from poisson.discrete.full_stencil import FullStencil, StencilTransfer, offsets_of
from poisson.mesh.lattice import Lattice
from support.operators import AXIS_RULES, random_array

SHAPES: dict[int, list[tuple[int, ...]]] = {1: [(9,), (12,)], 2: [(7, 6), (8, 9)], 3: [(5, 6, 4)]}
GRIDS = [
    (shape, (*AXIS_RULES[first], *AXIS_RULES[(first + 2) % 5], *AXIS_RULES[(first + 3) % 5])[: 2 * dimension])
    for dimension in (1, 2, 3)
    for number, (shape, first) in enumerate(itertools.product(SHAPES[dimension], range(5)))
    if dimension < 3 or number % 2 == 0
]
"""Every pair of rules on every axis, with even and odd numbers of nodes."""


def stencil_on(
    lattice: Lattice, dtype: Any = np.float64, jump: float = 1.0, holes: float = -1.0, negative: float = -1.0
) -> FullStencil:
    """Random links of 10^±jump to all neighbours that there are, and an excess.

    A part of the nodes, the more the larger `holes` is, has no excess and no link at all. A part of the links is
    negative, the more the larger `negative` is, as some of products are where a jumps.
    """
    single = [axis for axis, nodes in enumerate(lattice.shape) if nodes == 1]
    offsets = tuple(o for o in offsets_of(lattice.dimension) if not any(o[axis] for axis in single))
    values = 10.0 ** (jump * random_array((1 + len(offsets), *lattice.array_shape), np.float64, 5))
    values[1:][random_array(values[1:].shape, np.float64, 7) < negative] *= -0.5
    hole = random_array(lattice.array_shape, np.float64, 6) < holes
    values[0][hole] = 0.0
    for offset, link in zip(offsets, values[1:], strict=True):
        link[hole | np.roll(hole, [-step for step in offset[::-1]], axis=range(hole.ndim))] = 0.0
        for axis, (line, step) in enumerate(zip(lattice.axes, offset, strict=True)):
            if step and not line.wraps:
                np.moveaxis(link, lattice.array_axis(axis), 0)[-1 if step > 0 else 0] = 0.0
    return FullStencil(lattice, offsets, values.astype(dtype))


_kept = lru_cache(maxsize=64)(stencil_on)


def along_axes(stencil: FullStencil) -> FullStencil:
    """The same with the links along the axes alone."""
    assert stencil.coefficients is not None
    kept = [number for number, offset in enumerate(stencil.offsets) if sum(map(abs, offset)) == 1]
    coefficients = stencil.coefficients[[0, *(1 + number for number in kept)]]
    return FullStencil(stencil.lattice, tuple(stencil.offsets[number] for number in kept), coefficients)


def halvings(lattice: Lattice) -> list[tuple[bool, ...]]:
    """All axes, and each alone."""
    able = tuple(axis.nodes > 3 for axis in lattice.axes)
    alone = [tuple(axis == chosen for axis in range(len(able))) for chosen in range(len(able)) if able[chosen]]
    return [halved for halved in dict.fromkeys([able, *alone]) if any(halved)]


def stencils_on(backend: Backend, lattice: Lattice) -> Iterator[FullStencil]:
    """Full stencils on a backend, with coefficients of either type."""
    for number, dtype in enumerate((np.float64, np.float32)):
        stencil = _kept(lattice, holes=-0.8)
        yield _on(backend, along_axes(stencil) if number else stencil, dtype)


def weighted_on(backend: Backend, lattice: Lattice, bare: bool) -> Iterator[StencilTransfer]:
    """Transfers on a backend, with the weights of the specification or without any."""
    for number, halved in enumerate(halvings(lattice)):
        stencil = _kept(lattice, holes=-0.8, negative=-0.6)
        stencil = along_axes(stencil) if number == 2 else stencil
        dtype = (np.float64, np.float32)[number % 2]
        plain = StencilTransfer(_on(backend, stencil, dtype), halved)
        if bare:
            yield plain
            continue
        specification = NumpyBackend(np.float64)
        weights = specification.empty(plain.table.array_shape)
        specification.bind(StencilTransfer(stencil, halved)).interpolation(weights, False)
        yield replace(plain, weights=backend.companion(dtype).from_host(weights))


def clusters_on(lattice: Lattice) -> Iterator[Clusters]:
    """Clusters of few nodes and of nearly all of them, and none; and with the graph of all of them, on two levels."""
    stencil = _kept(lattice, jump=3.0, holes=-0.8)
    for threshold in (0.02, 0.4, 1.0):
        yield clusters_of(stencil, np.asarray(stencil.coefficients), threshold)
    yield contracted_clusters(stencil, np.asarray(stencil.coefficients), 0.4)


def _on(backend: Backend, stencil: FullStencil, dtype: Any) -> FullStencil:
    return replace(stencil, coefficients=backend.companion(dtype).from_host(np.asarray(stencil.coefficients)))
