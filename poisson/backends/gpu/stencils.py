# SPDX-License-Identifier: MIT
"""The operations of the gpu backend with operators of 9 and 27 points, and between grids by weights of each node."""

import math
from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from poisson.backends.base import Array, Reduction
from poisson.backends.gpu.callers import TYPES
from poisson.backends.gpu.clusters import Links, apart, find, together
from poisson.backends.gpu.launch import Launcher, blocks_for, given, or_null, sizes
from poisson.backends.gpu.marches import Gathering, OperatorLauncher
from poisson.backends.gpu.shapes import SETUP_SHAPE, WEIGHTS_SHAPE, Shape
from poisson.backends.gpu.tables import on_device, tabulated, zeros
from poisson.backends.stencils import BALANCED, StencilOperations, StencilTransferOperations, Waiting, in_turns
from poisson.discrete.clusters import Clusters
from poisson.discrete.full_stencil import FullStencil, StarTables, StencilTransfer, offsets_of
from poisson.discrete.operator import Operator


def write_star(backend: Launcher, operator: Operator, out: Array) -> bool:
    """A launch of the kernel in star.hip (`poisson.backends.base.Backend.star`)."""
    shape, bare = WEIGHTS_SHAPE, Operator(operator.lattice)
    (nx, ny, nz), pitch = sizes(bare), np.int64(backend.pitch_of(operator.shape[0]))
    tables = [StarTables.of(operator, axis) for axis in range(operator.dimension)]
    rows = np.concatenate([part for each in tables for part in (each.flows, each.widths, each.walls)])
    numbers = [each.numbers.ravel() for each in tables if each.numbers is not None]
    bits = sum(1 << axis for axis, each in enumerate(tables) if each.numbers is not None)
    links = [or_null(None)] * 3 if operator.links is None else [*operator.links, operator.links[-1]][:3]
    arguments = (
        *(out, backend.pitch(out), *links, or_null(operator.reaction), np.float64(operator.c)),
        *(np.int32(operator.fixed > 0), on_device(backend, rows)),
        *(on_device(backend, np.concatenate([np.zeros(0, np.int32), *numbers])), np.int32(bits), nx, ny, nz, pitch),
    )
    grid = blocks_for(int(nx), shape.block_x), blocks_for(int(ny), shape.block_y), int(nz)
    backend.launch("star", "star", shape, bare, grid, arguments, (typed("COEFFICIENT", out),))
    return True


DIGITS = (52, 11), (41, 11), (30, 11), (19, 11), (8, 11), (0, 8)
"""The bit that each digit of a positive float64 number begins at, and its bits, from the highest to the lowest."""

OF_SINGLE = *DIGITS[:3], (29, 1)
"""The digits of a float32 number, as a float64 one."""

SELECTION = 4 + 2048
"""The size of a Selection of medians.hip, in numbers of eight bytes."""

MOST_BLOCKS = 352
"""The most blocks for a median: each has to count the digits that it met into those of all. Those of three medians are
as many as a device holds at once."""


class GpuStencil(StencilOperations, Gathering):
    """Launches of the kernels in full.hip."""

    backend: Launcher

    def __init__(self, backend: Launcher, stencil: FullStencil) -> None:
        super().__init__(backend, stencil)
        self._nodes = cast(OperatorLauncher, self._plain)
        coefficients = stencil.coefficients
        pitch = backend.pitch(coefficients)
        self._geometry = (*self._nodes.constants[:4], coefficients, pitch, *self._nodes.widths)
        offsets = f"-DOFFSETS={mask(stencil)}"
        self._defines = (typed("COEFFICIENT", coefficients), offsets, *tabulated(self._nodes.operator))

    def residual(self, u: Array, f: Array | None, r: Array, result: Reduction | None = None) -> None:
        self._march("stencil_residual", (u, or_null(f), r, *self._geometry), result, "_norm", given(f))

    def residual_at(self, nodes: Any, u: Array, f: Array | None, r: Array) -> None:
        shape, defines = WEIGHTS_SHAPE, (*given(f), *self._defines)
        grid = blocks_for(nodes.size, shape.block_x * shape.block_y), 1, 1
        arguments = (u, or_null(f), r, nodes, np.int32(nodes.size), *self._geometry)
        self.backend.launch("full", "stencil_residual_at", shape, self._nodes.operator, grid, arguments, defines)

    def sweep(self, u: Array, f: Array | None, out: Array, omega: float, result: Reduction | None = None) -> None:
        arguments = (u, or_null(f), out, *self._geometry, self.backend.real(omega))
        self._march("stencil_sweep", arguments, result, "_norm", given(f))

    def color_sweep(self, u: Array, f: Array | None, color: int, omega: float) -> None:
        shape, operator = WEIGHTS_SHAPE, self._nodes.operator
        nx, ny, nz = (blocks_for(int(n), 2) for n in sizes(operator))
        grid = (blocks_for(nx, shape.block_x), blocks_for(ny, shape.block_y), nz)
        arguments = (u, or_null(f), *self._geometry, self.backend.real(omega), np.int32(color))
        defines = (*given(f), *self._defines)
        self.backend.launch("full", "stencil_color_sweep", shape, operator, grid, arguments, defines)

    def diagonal_solve(self, r: Array, z: Array, omega: float, result: Reduction | None = None) -> None:
        self._march("stencil_diagonal_solve", (r, z, *self._geometry, self.backend.real(omega)), result, "_dot")

    def direction(self, z: Array, beta: float, p: Array, out: Array, q: Array, result: Reduction) -> None:
        before = p if beta else None
        arguments = (z, or_null(before), out, q, *self._geometry, self.backend.real(beta))
        self._march("stencil_direction", arguments, result, "", given(before))

    def mean_links(self, axes: Sequence[int]) -> list[float]:
        shape, defines = WEIGHTS_SHAPE, (self._defines[0], "-DSECOND_SUM=1")
        results, grid = [self.backend.reduction() for _ in axes], (self._blocks, 1, 1)
        for arrays, result in zip(self._along(axes), results, strict=True):
            arguments = (*self._links, np.int32(arrays))
            self.backend.reduce(
                "medians", "links_logarithms", shape, self._nodes.operator, grid, arguments, result, defines
            )
        return [math.exp(total / count) if count else 0.0 for total, count in self.backend.read_all(results)]

    def median_links(self, axes: Sequence[int]) -> list[float]:
        shape, operator, backend = WEIGHTS_SHAPE, self._nodes.operator, self.backend
        along, coefficients = self._along(axes), self.stencil.coefficients
        links = (*self._links, *map(np.int32, (*along, 0, 0)[:3]))
        grid = self._blocks, len(along), 1
        results = [backend.reduction() for _ in along]
        places = (*(result.argument for result in results), or_null(None), or_null(None))[:3]
        selections = zeros(backend, len(along) * SELECTION, np.uint64)
        single = (
            coefficients is not None
            and coefficients.dtype == np.float32
            and all(each.bit_count() == 1 for each in along)
        )
        digits = OF_SINGLE if single else DIGITS
        for digit in digits:
            arguments = (*links, *map(np.int32, (*digit, digits[-1][0])), selections, *places)
            backend.launch("medians", "links_median", shape, operator, grid, arguments, self._defines[:1])
        return [sum(values) / 2.0 for values in backend.read_all(results)]

    @property
    def _links(self) -> tuple[Any, ...]:
        """The arguments of kernels that read links one by one."""
        nx, ny, nz, _, *coefficients = self._geometry[:6]
        return nx, ny, nz, np.int32(mask(self.stencil)), *coefficients

    @property
    def _blocks(self) -> int:
        """The blocks of kernels that find typical links."""
        _, ny, nz = map(int, sizes(self._nodes.operator))
        return min(blocks_for(ny * nz, WEIGHTS_SHAPE.block_y), MOST_BLOCKS)

    def _along(self, axes: Sequence[int]) -> list[int]:
        """The arrays of the links that go along each of some axes, a bit each."""
        numbered = list(enumerate(self.stencil.offsets, start=1))
        return [sum(1 << number for number, offset in numbered if offset[axis]) for axis in axes]

    def clusters(self, threshold: float, part: float = 1.0) -> Clusters:
        return self.clusters_at((threshold,), part)[0]

    def search(self, thresholds: Sequence[float], part: float = 1.0, large: int = 0) -> Waiting[list[Clusters]]:
        return find(self.backend, self.stencil.lattice, self._read, thresholds, part, large=large)

    def contracted_clusters(self, threshold: float, part: float = 1.0) -> Clusters:
        search = find(self.backend, self.stencil.lattice, self._read, (threshold,), part, fewest=1)
        return self.together(in_turns([search])[0][0])

    def apart_together(self, clusters: Clusters, fewest: int) -> Clusters:
        return self.together(apart(self.backend, clusters, fewest))

    def together(self, clusters: Clusters) -> Clusters:
        return together(self.backend, clusters, self._read)

    @property
    def _read(self) -> Links:
        scales = dict(zip(self.stencil.offsets, self.stencil.scales, strict=False))
        slots = offsets_of(self.stencil.dimension)
        return Links(self._links, self._defines[0], tuple(scales.get(slot, 1.0) for slot in slots) if scales else ())

    def _march(
        self,
        name: str,
        arguments: tuple[Any, ...],
        result: Reduction | None,
        ending: str,
        defines: tuple[str, ...] = (),
    ) -> None:
        operator = self._nodes.operator
        shape, grid = self._nodes.marched("full" if result is None else "full_norm", width=1)
        name += "" if result is None else ending
        self.backend.reduce("full", name, shape, operator, grid, arguments, result, (*defines, *self._defines))


class GpuStencilTransfer(StencilTransferOperations):
    """Launches of the kernels in weights.hip, and of those in galerkin.hip that set a coarse grid up."""

    backend: Launcher

    def __init__(self, backend: Launcher, transfer: StencilTransfer) -> None:
        super().__init__(backend, transfer)
        self._fine, self._coarse = Operator(transfer.fine.lattice), Operator(transfer.coarse.lattice)
        self._nodes = OperatorLauncher(backend, self._fine)
        self._halved = sum(1 << axis for axis, halved in enumerate(transfer.halved) if halved)

    def restrict(self, fine: Array, coarse: Array) -> None:
        nx, ny, nz = map(int, sizes(self._coarse))
        arguments = (fine, coarse, *self._between, self.backend.real(self.transfer.scale), *self._nodes.widths)
        self._launch("stencil_restrict", (nx, ny, nz), arguments, tabulated(self._fine))

    def prolong_add(self, coarse: Array, fine: Array) -> None:
        halved = (*self.transfer.halved, False)[:3]
        nx, ny, nz = (blocks_for(int(n), 1 + each) for n, each in zip(sizes(self._fine), halved, strict=True))
        self._launch("stencil_prolong_add", (nx, ny, nz), (coarse, fine, *self._between))

    def interpolation(self, out: Array, spreads: bool) -> None:
        numbers = np.float64(BALANCED), np.int32(spreads)
        arguments = (out, *self._operator, *sizes(self._coarse), self.backend.pitch(out), *numbers)
        self._set_up("stencil_interpolation", arguments, typed("WEIGHT", out))

    def galerkin(self, out: Array) -> None:
        exact, pitch = self.backend.companion(np.float64), self.backend.pitch
        ones, sums = (exact.empty(each.array_shape) for each in (self._coarse, self._fine))
        exact.fill(ones, 1.0)
        exact.fill(sums, 0.0)
        exact.bind(self.transfer).prolong_add(ones, sums)
        weights = self.transfer.weights
        offsets, scale = np.int32(mask(self.transfer.coarse)), np.float64(self.transfer.scale)
        between = (weights, pitch(weights), sums, pitch(sums), pitch(out), offsets, scale)
        arguments = (out, *self._operator, *sizes(self._coarse), *between)
        self._set_up("stencil_galerkin", arguments, typed("WEIGHT", weights), typed("PRODUCT", out))

    @property
    def _between(self) -> tuple[Any, ...]:
        """The sizes and distances of both grids, and the weights."""
        weights, pitch_of = self.transfer.weights, self.backend.pitch_of
        pitches = (np.int64(pitch_of(operator.shape[0])) for operator in (self._fine, self._coarse))
        return (*sizes(self._fine), *pitches, *sizes(self._coarse), weights, self.backend.pitch(weights))

    @property
    def _operator(self) -> tuple[Any, ...]:
        """The fine nodes, the coefficients of their stencil, and the axes that are halved."""
        fine = self.transfer.fine
        coefficients = fine.coefficients, self.backend.pitch(fine.coefficients)
        return (*sizes(self._fine), np.int32(mask(fine)), *coefficients, np.int32(self._halved))

    def _launch(self, name: str, nodes: tuple[int, int, int], arguments: tuple[Any, ...], defines: Any = ()) -> None:
        defines = (typed("WEIGHT", self.transfer.weights), f"-DHALVED={self._halved}", *defines)
        self._over(WEIGHTS_SHAPE, nodes, "weights", name, arguments, defines)

    def _set_up(self, name: str, arguments: tuple[Any, ...], *defines: str) -> None:
        nx, ny, nz = map(int, sizes(self._coarse))
        defines = (typed("COEFFICIENT", self.transfer.fine.coefficients), *defines)
        self._over(SETUP_SHAPE, (nx, ny, nz), "galerkin", name, arguments, defines)

    def _over(
        self,
        shape: Shape,
        nodes: tuple[int, int, int],
        source: str,
        name: str,
        arguments: tuple[Any, ...],
        defines: tuple[str, ...],
    ) -> None:
        """A launch with a thread for each of some nodes."""
        grid = blocks_for(nodes[0], shape.block_x), blocks_for(nodes[1], shape.block_y), nodes[2]
        self.backend.launch(source, name, shape, self._fine, grid, arguments, defines)


def mask(stencil: FullStencil) -> int:
    """The slots with links, a bit each."""
    slots = offsets_of(stencil.dimension)
    return sum(1 << slots.index(offset) for offset in stencil.offsets)


def typed(name: str, array: Array) -> str:
    """The macro with the type of an array."""
    return f"-D{name}={TYPES[array.dtype]}"
