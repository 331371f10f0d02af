# SPDX-License-Identifier: MIT
"""The launches for an operator, most of which march through its grid."""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cached_property
from typing import Any

import numpy as np

from poisson.backends.base import Array
from poisson.backends.gpu.launch import Launcher, Result, blocks_for, sizes
from poisson.backends.gpu.overlap import Cut, Grid
from poisson.backends.gpu.shapes import MAX_BLOCKS, REDUCTION_SHAPE, Shape
from poisson.backends.gpu.tables import Tables, tabulated
from poisson.discrete.operator import Operator


class Gathering(ABC):
    """Operations that have the residual at some nodes alone, too."""

    @abstractmethod
    def residual_at(self, nodes: Any, u: Array, f: Array | None, r: Array) -> None:
        """r = f − A u at nodes by their numbers in C order, an int32 array on the device; others keep their values."""


class OperatorLauncher:
    """The launches for an operator: what they have in common.

    `backend`: where the arrays are. `constants`: the arguments nx, ny, nz, pitch, the couplings and c of every kernel
    with an operator. `varying`: the options that tell a kernel which coefficients vary and which axes are tabulated.
    """

    def __init__(self, backend: Launcher, operator: Operator) -> None:
        self.backend = backend
        self.rebind(operator)

    def rebind(self, operator: Operator) -> None:
        """See `poisson.backends.base.Operations`."""
        self.operator, backend = operator, self.backend
        couplings = (*operator.couplings, 0.0)[:3]
        numbers = (backend.real(value) for value in (*couplings, operator.c))
        pitch = np.int64(backend.pitch_of(operator.shape[0]))
        self.constants = (*sizes(operator), pitch, *numbers)
        self.varying = varying(operator)
        self._marches: dict[Any, tuple[Shape, Grid]] = {}
        vars(self).pop("geometry", None)
        if "tables" in vars(self):
            self.tables.fill(operator)

    @cached_property
    def geometry(self) -> tuple[Any, ...]:
        """`constants` and the arrays of what varies: the arguments of every kernel with an operator."""
        operator = self.operator
        reaction = () if operator.reaction is None else (operator.reaction,)
        tables = (*self.tables.factors, *self.widths) if operator.lattice.tabulated else ()
        return (*self.constants, *(operator.links or ()), *reaction, *tables)

    @cached_property
    def tables(self) -> Tables:
        """The tables of the tabulated axes, made where they are needed."""
        return Tables(self.backend, self.operator)

    @property
    def widths(self) -> tuple[Any, ...]:
        """The control widths along tabulated axes, as arguments."""
        return self.tables.widths if self.operator.lattice.tabulated else ()

    def tuning(self) -> str:
        return self.backend.shapes.origin(self.operator)

    def march(
        self,
        source: str,
        name: str,
        arguments: tuple[Any, ...],
        result: Result | None,
        defines: tuple[str, ...] = (),
        kind: str | None = None,
        in_parts: bool = False,
    ) -> None:
        """Launch a kernel that marches through the grid of the operator, with the shape of a kind, or of a sweep.

        With `in_parts` it is one that can do them.
        """
        shape, grid = self.marched(kind or ("sweep" if result is None else "sweep_norm"))
        defines = (*defines, *self.varying)
        if in_parts:
            slowest = shape.march * (shape.block_y if self.operator.dimension == 2 else 1)
            self.reduce(source, name, shape, grid, arguments, result, defines, Cut(slowest, shape.block_y, 1))
        else:
            self.backend.reduce(source, name, shape, self.operator, grid, arguments, result, defines)

    def reduce(
        self,
        source: str,
        name: str,
        shape: Shape,
        grid: tuple[int, int, int],
        arguments: tuple[Any, ...],
        result: Result | None,
        defines: tuple[str, ...],
        cut: Cut,
        shared_bytes: int = 0,
    ) -> None:
        """Launch a pass through the grid of the operator: what it can do beside an exchange that is under way first."""

        def launch(blocks: Grid, which: tuple[Any, ...], options: tuple[str, ...]) -> None:
            given, options = (*arguments, *which), (*defines, *options)
            self.backend.reduce(source, name, shape, self.operator, blocks, given, result, options, grid, shared_bytes)

        self.backend.shared.overlap.launch(self.operator, grid, cut, launch)

    def reduce_rows(self, name: str, arguments: tuple[Any, ...], like: Array, result: Result) -> None:
        """Launch a kernel of vectors.hip that sums over all rows of arrays like this one, but for those in halos."""
        grid, rows = self.backend.row_grid(like, REDUCTION_SHAPE)
        divided = self.operator.lattice.divided
        arguments = (*arguments, *rows, *sizes(self.operator)[1:2] * divided)
        operator = self.operator if divided else None
        self.backend.reduce("vectors", name, REDUCTION_SHAPE, operator, grid, arguments, result)

    def step(self, omega: float) -> Any:
        """The argument of kernels that relax: omega / diag(A), or omega where they find the diagonal at each node."""
        operator = self.operator
        return self.backend.real(omega / operator.diagonal if operator.has_one_diagonal else omega)

    def marched(self, kind: str, width: int = 0) -> tuple[Shape, Grid]:
        """The shape of a kind of kernel on the grid of the operator, and its blocks (`march_grid`): chosen once."""
        key = kind, width, self.backend.shapes.trial
        if (found := self._marches.get(key)) is None:
            shape = self.backend.shapes.of(kind, self.operator)
            found = self._marches[key] = shape, self.march_grid(shape, width)
        return found

    def march_grid(self, shape: Shape, width: int = 0) -> tuple[int, int, int]:
        """The blocks of a march in which a thread has `width` nodes along x; 0: those of a pack."""
        columns = blocks_for(self.operator.shape[0], (width or self.backend.width) * shape.block_x)
        if self.operator.dimension == 2:
            return columns, blocks_for(self.operator.shape[1], shape.block_y * shape.march), 1
        return columns, *strips(self.operator, shape, shape.block_y, self.backend.dtype.itemsize)


def varying(operator: Operator) -> tuple[str, ...]:
    """The macros that tell a kernel which coefficients vary, and which axes are tabulated."""
    a, c = operator.links is not None, operator.reaction is not None
    return ("-DLINKS=1",) * a + (masked(operator) or ("-DREACTION=1",) * c) + tabulated(operator)


def masked(operator: Operator) -> tuple[str, ...]:
    """The macros that tell a kernel that the array of c has a mask."""
    return ("-DREACTION=1", "-DMASKED=1") if operator.fixed else ()


def mask_of(operator: Operator) -> tuple[Any, ...]:
    """The array with the mask, as an argument of kernels that write to the grid and need nothing else of c."""
    return (operator.reaction,) if operator.fixed else ()


def strips(operator: Operator, shape: Shape, lines: int, itemsize: int) -> tuple[int, int]:
    """Blocks of `lines` lines in a strip along y, and bands along z in all strips together."""
    needed = blocks_for(operator.shape[1], lines)
    line = operator.shape[0] * itemsize
    bands = blocks_for(operator.shape[2], shape.march)
    fewest = blocks_for(needed, max(1, MAX_BLOCKS // bands))
    in_strip = min(needed, max(fewest, shape.strip // (line * lines))) if shape.strip else needed
    return in_strip, bands * blocks_for(needed, in_strip)
