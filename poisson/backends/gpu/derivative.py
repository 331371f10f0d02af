# SPDX-License-Identifier: MIT
"""How the gpu backend launches the kernels of first derivatives: forms, tiles and options."""

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np

from poisson.backends.gpu.launch import blocks_for
from poisson.backends.gpu.shapes import Shape
from poisson.mesh.differences import Differences

VARIANTS = ("march", "pencil", "wide pencil")
"""The forms of `derivative`; docs/kernels.md explains them."""
DEFAULTS = ("march", "wide pencil", "march")
"""The form that the operation takes along x, y and z."""

MARCH_ALONG_X = Shape(128, 1, 4, 4, 10)
MARCH = Shape(256, 1, 128, 3, 3)
GRADIENT = Shape(32, 4, 32, 1, 5)
LEAST_BLOCK_X = 32
"""Threads along x that a block has at least when its rows are short."""

PENCIL_NODES = 64
"""Nodes of a pencil, as in the tutorial that docs/kernels.md goes through."""
PENCILS = {"pencil": 4, "wide pencil": 32}
"""Pencils of a block, likewise."""
PENCIL_THREADS = 8
"""Threads of a block of wide pencils along the direction that they march in."""
PENCIL_LOADS = 8
"""Loads of a thread that the compiler takes together when a block fetches its pencils."""
PENCIL_RESIDENT = 8
"""Blocks of wide pencils across rows that a multiprocessor must be able to hold."""

FULL_DEVICE = 1 << 17
"""Threads below which a device is not full: a march is then shorter."""


@dataclass(frozen=True)
class Launch:
    """One launch: the kernel, how it is cut up, its arguments behind the arrays, and its further ``-D`` options."""

    kernel: str
    shape: Shape
    grid: tuple[int, int, int]
    arguments: tuple[Any, ...]
    defines: tuple[str, ...]


@lru_cache(maxsize=256)
def derivative(
    differences: Differences, axis: int, variant: str, pitch: int, dtype: np.dtype[Any], shape: Shape | None = None
) -> Launch:
    """The launch that takes the derivative along an axis.

    `differences`: of arrays whose rows are `pitch` values apart.
    `axis`: 0 is x.
    `variant`: one of `VARIANTS`.
    `pitch`: values from one row to the next.
    `dtype` (numpy dtype): of the arrays.
    `shape` (Shape, optional): how to cut up the kernel, in the place of the variant's own shape.
    """
    nx, ny, nz = (*differences.shape, 1)[:3]
    width = 16 // dtype.itemsize
    n, stride, others, other_stride = (
        (nx, 1, ny * nz, pitch),
        (ny, pitch, nz, pitch * ny),
        (nz, pitch * ny, ny, pitch),
    )[axis]
    stride = _stride(stride, n)
    marches = variant == "march"
    if shape is None:
        shape = _march(differences, axis, width) if marches else _pencil(variant, axis, width)
    tiles = blocks_for(nx, width * shape.block_x)
    pieces = shape.block_y * shape.march
    if axis == 0:
        blocks = tiles * blocks_for(others, pieces)
    elif marches:
        blocks = tiles * blocks_for(n, shape.march) * blocks_for(others, shape.block_y)
    else:
        blocks = tiles * blocks_for(n, pieces) * others
    return Launch(
        "derivative" if marches else "derivative_pencil",
        shape,
        (blocks, 1, 1),
        (
            *(np.int32(nx), np.int32(n), np.int64(stride), np.int64(others), np.int64(other_stride)),
            dtype.type(1.0 / differences.spacing[axis]),
        ),
        (
            *(f"-DALONG={min(axis, 1)}", f"-DWRAPS={int(differences.periodic[axis])}", f"-DPENCILS={int(not marches)}"),
            *_weights(differences, dtype),
            *("-DTABULATED=1",) * differences.tabulated[axis],
        ),
    )


@lru_cache(maxsize=256)
def gradient(differences: Differences, pitch: int, dtype: np.dtype[Any], shape: Shape = GRADIENT) -> Launch:
    """The launch that takes all derivatives in one pass; the arguments are those of `derivative`."""
    nx, ny, nz = (*differences.shape, 1)[:3]
    width = 16 // dtype.itemsize
    slowest = differences.shape[-1]
    shape = _filling(shape, math.prod(differences.shape) // width)
    tiles = blocks_for(nx, width * shape.block_x)
    if differences.dimension == 3:
        blocks = tiles * blocks_for(ny, shape.block_y) * blocks_for(slowest, shape.march)
    else:
        blocks = tiles * blocks_for(slowest, shape.block_y * shape.march)
    scales = [dtype.type(1.0 / h) for h in differences.spacing]
    wraps, tabulated = (
        sum(1 << axis for axis, flag in enumerate(flags) if flag)
        for flags in (differences.periodic, differences.tabulated)
    )
    tables = (f"-DTABULATED={tabulated}",) if tabulated else ()
    return Launch(
        "gradient",
        shape,
        (blocks, 1, 1),
        (np.int32(nx), np.int32(ny), np.int32(nz), np.int64(_stride(pitch, ny)), *(*scales, dtype.type(0.0))[:3]),
        (f"-DAXES={differences.dimension}", f"-DWRAPS={wraps}", *_weights(differences, dtype), *tables),
    )


def _stride(stride: int, nodes: int) -> int:
    """From node to node of an axis; a single node has itself for a neighbour, however often an index is wrapped."""
    return stride if nodes > 1 else 0


def _march(differences: Differences, axis: int, width: int) -> Shape:
    packs = blocks_for(differences.shape[0], width)
    if axis == 0:
        return _fitting(MARCH_ALONG_X, packs)
    return _filling(_fitting(MARCH, packs), math.prod(differences.shape) // width)


def _fitting(shape: Shape, packs: int) -> Shape:
    """A shape of as many threads with shorter blocks, where rows of so many packs then have fewer threads to spare."""
    lengths = [shape.block_x]
    while lengths[-1] > LEAST_BLOCK_X:
        lengths.append(lengths[-1] // 2)
    block_x = min(lengths, key=lambda length: blocks_for(packs, length) * length)
    return replace(shape, block_x=block_x, block_y=shape.block_y * shape.block_x // block_x)


def _filling(shape: Shape, packs: int) -> Shape:
    """A shape whose march leaves enough threads for so many packs of nodes; a power of two, as each is compiled."""
    longest = max(1, packs // FULL_DEVICE)
    return replace(shape, march=min(shape.march, 1 << (longest.bit_length() - 1)))


def _pencil(variant: str, axis: int, width: int) -> Shape:
    pencils = PENCILS[variant]
    along_x, across = (PENCIL_NODES, pencils) if axis == 0 else (pencils, PENCIL_NODES)
    threads = across if variant == "pencil" else PENCIL_THREADS
    shape = Shape(along_x // width, threads, across // threads, PENCIL_LOADS)
    return replace(shape, resident=PENCIL_RESIDENT) if variant != "pencil" and axis > 0 else shape


def _weights(differences: Differences, dtype: np.dtype[Any]) -> tuple[str, ...]:
    """The options with the weights, written so that the compiler reads the same numbers."""
    central = ",".join(repr(float(dtype.type(weight))) for weight in differences.central)
    closure = ",".join(repr(float(dtype.type(weight))) for weight in differences.closure.ravel())
    return f"-DREACH={differences.half}", f"-DCENTRAL={central}", f"-DCLOSURE={closure}"
