# SPDX-License-Identifier: MIT
"""Voxel images: the pages of image files as an array, and what a has in each phase."""

import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from poisson.errors import CaseError, PackageMissing
from poisson.mesh.grid import SLAB_NODES, over_slabs
from poisson.mesh.staggered import module_of
from poisson.plain import require_file

SUFFIXES = (".png", ".tif", ".tiff")

Phases = tuple[tuple[int, float], ...]
"""The labels of the phases in ascending order, each with its value."""

FEW = 8
"""The most phases that are looked for one after the other."""

NO_PHASES = "the label of every phase with a finite value >= 0, one of them > 0, such as { 0 = 0.0, 255 = 2.5 }"


def phases_of(given: Mapping[Any, float]) -> Phases:
    """The phases that a mapping from labels, which may be texts, to values stands for.

    Raises ValueError if a label is no integer or occurs twice, a value is negative or not finite, or none is
    positive.
    """
    found = {int(str(label)): float(value) for label, value in given.items()}
    if len(found) < len(given) or not all(0.0 <= value < math.inf for value in found.values()):
        raise ValueError(NO_PHASES)
    if not any(found.values()):
        raise ValueError(NO_PHASES)
    return tuple(sorted(found.items()))


def in_phases(labels: Any, phases: Phases, name: str, threads: int = 1) -> Any:
    """The value of the phase of every voxel, as float64.

    `labels`: an array of NumPy or CuPy. `threads`: that may look for a few phases at a time, in different slabs.
    Raises CaseError if a label is not among the phases.
    """
    xp = module_of(labels)
    known, values = (xp.asarray(each) for each in zip(*phases, strict=True))
    if known.size <= FEW:
        found = xp.empty(labels.shape)

        def fill(start: int, stop: int) -> int:
            there = 0
            for label, value in phases:
                xp.copyto(found[start:stop], value, where=(here := labels[start:stop] == label))
                there += int(xp.count_nonzero(here))
            return there

        limit = SLAB_NODES if xp is np else labels.size
        if sum(over_slabs(labels.shape, fill, threads, limit)) == labels.size:
            return found
    place = xp.minimum(xp.searchsorted(known, labels), known.size - 1)
    if (wrong := known[place] != labels).any():
        listed = ", ".join(map(str, known))
        raise CaseError(f"{name} has the value {float(labels[wrong][0]):g}, which is no phase; the phases are {listed}")
    return values[place].astype(float, copy=False)


class Pages:
    """The pages of images as an array, read when they are asked for: ``(ny, nx)`` of one, ``(nz, ny, nx)`` of more.

    `path`: a file, whose pages count, or a pattern such as ``slices/*.png``, whose files are the pages, in the order of
    the numbers in their names. Raises `FileNotFoundError` if there is no such file; `NotPlain`, `OSError`,
    `PackageMissing` if it cannot be read.
    """

    def __init__(self, path: Path) -> None:
        names = [path] if path.exists() else sorted(path.parent.glob(path.name), key=_in_order)
        if not names:
            raise FileNotFoundError
        count = 1
        if len(names) == 1:
            with _opened(names[0]) as image:
                count = getattr(image, "n_frames", 1)
        self._pages = [(name, page) for name in names for page in range(count)]
        first = self._page(0)
        self.dtype = first.dtype
        self._shape = first.shape
        self.shape = first.shape if len(self._pages) == 1 else (len(self._pages), *first.shape)

    def __getitem__(self, index: tuple[slice, ...]) -> NDArray[Any]:
        if len(self.shape) == 2:
            return self._page(0)[index]
        return np.stack([self._page(number)[index[1:]] for number in range(len(self._pages))[index[0]]])

    def _page(self, number: int) -> NDArray[Any]:
        name, page = self._pages[number]
        with _opened(name) as image:
            image.seek(page)
            values = np.asarray(image)
        if values.ndim != 2:
            raise CaseError(f"{str(name)!r} is in colours; save the image in shades of grey")
        if number and values.shape != self._shape:
            raise CaseError(f"{str(name)!r} has the shape {values.shape}, and the first page {self._shape}")
        return values.astype(np.uint8) if values.dtype == bool else values


def _opened(name: Path) -> Any:
    try:
        from PIL import Image
    except ImportError as error:
        raise PackageMissing("images need pillow: pip install pillow") from error
    require_file(name)
    return Image.open(name)


def _in_order(path: Path) -> list[tuple[int, str]]:
    """Numbers in a name by their value."""
    return [(int(part), "") if part.isdigit() else (0, part) for part in re.split(r"(\d+)", path.name)]
