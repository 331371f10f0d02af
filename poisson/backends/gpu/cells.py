# SPDX-License-Identifier: MIT
"""Periodic cells for their effective conductivity: sources and energies, each in one pass over memory."""

from collections.abc import Mapping
from itertools import combinations_with_replacement
from typing import Any

import numpy as np

from poisson.backends.gpu.launch import Launcher, blocks_for, or_null
from poisson.backends.gpu.shapes import WEIGHTS_SHAPE
from poisson.backends.gpu.tables import zeros
from poisson.mesh.grid import AXES

MOST_BLOCKS = 2048
"""The most blocks, each of which leaves a part of each sum."""


class GpuCell:
    """Launches of the kernels in cells.hip.

    `backend`: that of float64. The others are those of `poisson.backends.base.Backend.cell`.
    """

    def __init__(self, backend: Launcher, a: Any, harmonic: bool, spacing: tuple[float, ...]) -> None:
        self._backend, self._a, self._spacing = backend, a, spacing
        self._nodes = (*a.shape[::-1], 1)[:3]
        self._cell = a, backend.pitch(a), *map(np.int32, self._nodes)
        self._define = f"-DHARMONIC={harmonic:d}"

    def source(self, axis: int) -> Any:
        """The source of χ along an axis."""
        f, h = self._backend.empty(self._a.shape), np.float64(self._spacing[axis])
        self._launch("source", (f, self._backend.pitch(f), *self._cell, np.int32(axis), h))
        return f

    def energies(self, potentials: Mapping[int, Any]) -> dict[tuple[int, int], float]:
        """The sums of a ∇(χ_j + x_j) · ∇(χ_k + x_k), by j and k."""
        backend, fields = self._backend, [potentials.get(axis) for axis in range(len(AXES))]
        (pitch,) = {backend.pitch(each) for each in potentials.values()}
        widths = (np.float64(h) for h in (*self._spacing, 1.0)[: len(AXES)])
        results = [backend.reduction() for _ in fields]
        partials = (zeros(backend, 2 + 2 * self._blocks) for _ in fields)
        arguments = (*map(or_null, fields), pitch, *self._cell, *widths, *partials)
        self._launch("energies", (*arguments, *(result.argument for result in results)))
        sums = [value for pair in backend.read_all(results) for value in pair]
        found = dict(zip(combinations_with_replacement(range(len(AXES)), 2), sums, strict=True))
        return {pair: found[pair] for pair in combinations_with_replacement(sorted(potentials), 2)}

    @property
    def _blocks(self) -> int:
        return min(blocks_for(self._nodes[1] * self._nodes[2], WEIGHTS_SHAPE.block_y), MOST_BLOCKS)

    def _launch(self, name: str, arguments: tuple[Any, ...]) -> None:
        grid, defines = (1, self._blocks, 1), (self._define, "-DSECOND_SUM=1")
        with self._backend.ordered():
            self._backend.launch("cells", f"cell_{name}", WEIGHTS_SHAPE, None, grid, arguments, defines)
