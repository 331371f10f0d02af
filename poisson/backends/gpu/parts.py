# SPDX-License-Identifier: MIT
"""The parts of a grid that open links join, found on a device."""

from typing import Any

import numpy as np

from poisson.backends.base import Array
from poisson.backends.gpu.launch import Launcher, blocks_for
from poisson.backends.gpu.marches import OperatorLauncher
from poisson.backends.gpu.shapes import WEIGHTS_SHAPE
from poisson.backends.gpu.tables import on_device
from poisson.discrete.mask import Parts
from poisson.discrete.operator import FIXED, Operator


def find(backend: Launcher, operator: Operator, c: Array) -> Parts:
    """The parts of an operator, as `Backend.parts` describes them: launches of the kernels in parts.hip."""
    shape, nodes = WEIGHTS_SHAPE, OperatorLauncher(backend, Operator(operator.lattice))
    nx, ny, nz, pitch = nodes.constants[:4]
    grid = blocks_for(int(nx), shape.block_x), blocks_for(int(ny), shape.block_y), int(nz)
    labels, joined = (backend.runtime.allocate(operator.lattice.nodes, np.dtype(np.int32)) for _ in range(2))
    ends = np.array([np.inf, np.inf, 0.0]).view(np.uint64)
    found = on_device(backend, np.concatenate([np.zeros(3, np.uint64), ends]))
    links = operator.links or ()

    def launch(name: str, *arguments: Any) -> None:
        backend.launch("parts", f"parts_{name}", shape, nodes.operator, grid, arguments)

    launch("begin", labels, joined, *links[:1], nx, ny, nz, pitch)
    launch("join", labels, found, *links, *links[-1:] * (3 - len(links)), nx, ny, nz, pitch)
    launch("settle", labels, joined, nx, ny, nz)
    launch("hold", labels, joined, c, nx, ny, nz, pitch)
    launch("mask", labels, joined, c, backend.real(FIXED), found, nx, ny, nz, pitch)
    counts = backend.runtime.download(found)
    alone, loose, held = map(int, counts[:3])
    link, least, most = map(float, counts[3:].view(np.float64))
    return Parts(alone, loose, held, link, (least, most))
