# SPDX-License-Identifier: MIT
"""The voxels of a periodic cell, in an array of NumPy or CuPy: how many conduct, and which have a path through it."""

import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from poisson.discrete.mask import labelled, pairs_of
from poisson.mesh.grid import SLAB_NODES, Value, over_slabs
from poisson.mesh.staggered import module_of


def over(a: Any, work: Callable[[int, int], Value], threads: int) -> list[Value]:
    """The values of a function for slabs of an array, which on a device is one slab."""
    return over_slabs(a.shape, work, threads, SLAB_NODES if isinstance(a, np.ndarray) else a.size)


def counts_of(a: Any, values: list[float], threads: int) -> dict[float, int]:
    """How many voxels have each value."""
    xp = module_of(a)

    def count(start: int, stop: int) -> list[int]:
        return [int(xp.count_nonzero(a[start:stop] == value)) for value in values]

    return {value: sum(each) for value, each in zip(values, zip(*over(a, count, threads), strict=True), strict=False)}


def conducting_of(a: Any, counts: Mapping[float, int], threads: int) -> tuple[int, float, float]:
    """How many voxels conduct, and their least and their largest a."""
    if counts:
        found = [(value, count) for value, count in counts.items() if value > 0.0 and count]
        values = [value for value, _ in found]
        return sum(count for _, count in found), min(values, default=math.inf), max(values, default=0.0)

    def ends(start: int, stop: int) -> tuple[int, float, float]:
        conducts = (here := a[start:stop])[here > 0.0]
        if not conducts.size:
            return 0, math.inf, 0.0
        return conducts.size, float(conducts.min()), float(conducts.max())

    sizes, least, most = zip(*over(a, ends, threads), strict=True)
    return sum(sizes), min(least), max(most)


def paths_through(a: Any, threads: int) -> Iterator[tuple[Any, list[int], int]]:
    """Where a > 0 forms connected parts with a path through the periodic cell: a there alone, along which axes, and
    its voxels.

    Every pair of labels at a seam leads from one cell to the next one. A part has a path through where two ways to one
    label end in different cells.
    """
    labels, seams = _labelled(a > 0.0, threads)
    steps: dict[int, list[tuple[int, NDArray[np.int64]]]] = defaultdict(list)
    for place, pairs in enumerate(seams):
        step = np.eye(a.ndim, dtype=np.int64)[a.ndim - 1 - place]
        for last, first in pairs.T.tolist():
            steps[last].append((first, step))
            steps[first].append((last, -step))
    cells: dict[int, NDArray[np.int64]] = {}
    for root in steps:
        if root in cells:
            continue
        cells[root] = np.zeros(a.ndim, dtype=np.int64)
        part, axes = [root], np.zeros(a.ndim, dtype=bool)
        for label in part:
            for other, step in steps[label]:
                if other not in cells:
                    cells[other] = cells[label] + step
                    part.append(other)
                axes |= cells[label] + step != cells[other]
        if axes.any():
            found, voxels = _taken(a, labels, part, threads)
            yield found, np.flatnonzero(axes).tolist(), voxels


def _labelled(free: Any, threads: int) -> tuple[Any, list[NDArray[np.int64]]]:
    """As `poisson.discrete.mask.labelled` along all axes; of fewer than 2^31 voxels of CuPy the labels are, too."""
    if isinstance(free, np.ndarray):
        return labelled(free, range(free.ndim), threads)
    from cupyx.scipy.ndimage import label

    labels = label(free)[0]
    ends = ((labels.take(-1, axis=place).get(), labels.take(0, axis=place).get()) for place in range(free.ndim))
    return labels, [pairs_of(*each) for each in ends]


def _taken(a: Any, labels: Any, part: list[int], threads: int) -> tuple[Any, int]:
    """a at the voxels with some labels and 0 elsewhere, and how many these are."""
    xp = module_of(a)
    chosen = np.zeros(int(labels.max()) + 1, dtype=bool)
    chosen[part] = True
    chosen, found = xp.asarray(chosen), xp.zeros_like(a)

    def copy(start: int, stop: int) -> int:
        there = chosen.take(labels[start:stop])
        xp.copyto(found[start:stop], a[start:stop], where=there)
        return int(xp.count_nonzero(there))

    return found, sum(over(a, copy, threads))
