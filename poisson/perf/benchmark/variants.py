# SPDX-License-Identifier: MIT
"""The ways to compute a Laplacian in three dimensions that `python -m poisson bench laplacian` compares.

They are those of the three tutorials that the project began with: the finite-difference series of the AMD lab notes,
parts 1 to 4, whose kernels each add one idea to the one before, and a lecture on stencils after Hwu, Kirk and El Hajj.
docs/kernels.md explains each. The kernels are in ``poisson/kernels/studies/variants.hip``.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from poisson.backends.base import Array
from poisson.backends.gpu.backend import GpuBackend
from poisson.backends.gpu.marches import OperatorLauncher
from poisson.backends.gpu.runtime import Kernel
from poisson.backends.gpu.shapes import MAX_BLOCKS, Shape
from poisson.discrete.discretisation import Operator
from poisson.errors import ResourceError

ANY_BLOCK = 1024
"""Threads of the largest block, which HIP's compiler expects unless it is told a bound."""


@dataclass(frozen=True)
class Variant:
    """A way to compute the Laplacian.

    `name`: its name in the table and on the command line. `kernel`: the kernel in ``variants.hip``, without
    ``poisson_``. `block`: threads of a block along x, y and z. `tile`: nodes of a thread along y. `ascending`: whether
    a thread loads its nodes in the order of their addresses. `bound`: threads that the compiler expects in a block.
    `streaming`: whether stores are nontemporal. `order`: the axes in the order in which blocks advance along them, the
    fastest first. `parts`: parts along y that are launched one after the other. `march`: planes that a block marches
    over along z.
    """

    name: str
    kernel: str = "tiled"
    block: tuple[int, int, int] = (256, 1, 1)
    tile: int = 1
    ascending: bool = False
    bound: int = ANY_BLOCK
    streaming: bool = False
    order: str = "xyz"
    parts: int = 1
    march: int = 1

    @property
    def parameters(self) -> str:
        """The parameters that distinguish the variant, for the table."""
        words = [f"block {'x'.join(map(str, self.block))}"]
        if self.kernel == "tiled":
            words += [f"m {self.tile}"] if self.tile > 1 else []
            words += ["ascending"] if self.ascending else []
            words += [f"bound {self.bound}"] if self.bound < ANY_BLOCK else []
            words += ["nontemporal"] if self.streaming else []
            words += [f"blocks {self.order}"] if self.order != "xyz" else []
            words += [f"parts {self.parts}"] if self.parts > 1 else []
        return ", ".join([*words, f"planes {self.march}"] if self.march > 1 else words)

    def compiled(self, backend: GpuBackend, operator: Operator) -> Kernel:
        """Its kernel for the faces of an operator."""
        shape = Shape(self.block[0], self.block[1], self.march)
        values = {
            "BLOCK_Z": self.block[2],
            "BOUND": self.bound,
            "TILE": self.tile,
            "ASCENDING": int(self.ascending),
            "STREAMING": int(self.streaming),
            **{f"GRID_{axis.upper()}": "xyz"[self.order.index(axis)] for axis in "xyz"},
        }
        defines = tuple(f"-D{name}={value}" for name, value in values.items())
        return backend.kernel("variants", self.kernel, shape, operator, defines)

    def launcher(self, backend: GpuBackend, operator: Operator, u: Array, out: Array) -> Callable[[], None]:
        """A call that computes out = A u at the nodes on no face.

        `backend`: where it runs. `operator`: A, in three dimensions. `u`, `out` (Array, shape of the operator): the
        input and the result, whose nodes on the faces keep their values. Raises `ResourceError` if the device cannot
        number so many blocks.
        """
        kernel = self.compiled(backend, operator)
        arguments = (u, out, *OperatorLauncher(backend, operator).geometry)
        launches = [(self._grid(rows, operator), (*arguments, *more)) for rows, more in self._pieces(operator)]

        def launch() -> None:
            for grid, values in launches:
                kernel(grid, self.block, values)

        return launch

    def _pieces(self, operator: Operator) -> list[tuple[int, tuple[np.int32, ...]]]:
        """The launches: rows along y of each, and the arguments that tell them."""
        end = operator.shape[1] - 1
        if self.kernel != "tiled":
            return [(end - 1, ())]
        rows = _blocks(end - 1, self.parts)
        pieces = [(begin, min(begin + rows, end)) for begin in range(1, end, rows)]
        return [(stop - begin, (np.int32(begin), np.int32(stop))) for begin, stop in pieces]

    def _grid(self, rows: int, operator: Operator) -> tuple[int, int, int]:
        nx, _, nz = operator.shape
        x, y, z = self.block
        if self.kernel == "tiled":
            along = {"x": _blocks(nx - 1, x), "y": _blocks(rows, y * self.tile), "z": _blocks(nz - 2, z)}
        else:
            planes = z - 2 if self.kernel == "shared" else self.march
            along = {"x": _blocks(nx - 2, x - 2), "y": _blocks(rows, y - 2), "z": _blocks(nz - 2, planes)}
        first, second, third = (along[axis] for axis in self.order)
        if max(second, third) > MAX_BLOCKS:
            raise ResourceError(
                f"the variant {self.name} divides this grid into {second} x {third} blocks along y and z, and a device "
                f"takes {MAX_BLOCKS} each: choose others with --variant, or a grid that is longest along x"
            )
        return first, second, third


def _blocks(items: int, each: int) -> int:
    return -(-items // each)


def _variants() -> tuple[Variant, ...]:
    baseline = Variant("baseline")
    tiled = [replace(baseline, name=f"tiled-{m}", tile=m) for m in (2, 4, 8, 16)]
    reordered = replace(baseline, name="reordered", tile=8, ascending=True)
    bounded = replace(reordered, name="launch-bounds", bound=256)
    nontemporal = replace(bounded, name="nontemporal", streaming=True)
    blocks = [
        replace(nontemporal, name=f"block-{x}x{y}x{z}", block=(x, y, z), bound=x * y * z)
        for x, y, z in ((128, 1, 1), (128, 1, 8), (64, 4, 1), (64, 2, 2), (32, 8, 1))
    ]
    orders = [replace(nontemporal, name=f"grid-{order}", order=order) for order in ("yzx", "xzy", "zxy")]
    parts = [replace(nontemporal, name=f"subdomains-{n}", parts=n) for n in (2, 4, 8)]
    lecture = [
        Variant("basic", block=(8, 8, 8), bound=512),
        Variant("shared-8x8x8", "shared", (8, 8, 8), bound=512),
        Variant("shared-32x4x8", "shared", (32, 4, 8)),
        Variant("coarsened", "coarsened", (32, 32, 1), march=30),
        Variant("registers", "registers", (32, 32, 1), march=30),
    ]
    return (baseline, *tiled, reordered, bounded, nontemporal, *blocks, *orders, *parts, *lecture)


VARIANTS = _variants()
"""Every variant, in the order of the tutorials. The solver's own `laplacian` is compared with them."""
