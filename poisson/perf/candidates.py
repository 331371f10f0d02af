# SPDX-License-Identifier: MIT
"""The shapes worth measuring: for each kind of kernel a few values of each number, tried one number after the other."""

from collections.abc import Iterator
from dataclasses import replace

from poisson.backends.gpu.shapes import LANES, Shape, fits

Values = tuple[dict[str, int], ...]
Coordinates = tuple[tuple[str, Values], ...]

DEEPEST_UNROLLED = 8
"""A march of at most so many nodes is unrolled whole when its length is tried."""


def _blocks(*sizes: tuple[int, int]) -> Values:
    return tuple({"block_x": x, "block_y": y} for x, y in sizes)


def _lines(*sizes: tuple[int, int]) -> Values:
    return tuple({"block_x": LANES, "block_y": y, "rows": rows} for y, rows in sizes)


def _each(name: str, *numbers: int) -> Values:
    return tuple({name: number} for number in numbers)


def _marches(*lengths: int) -> Values:
    return tuple({"march": n, "unroll": n if n <= DEEPEST_UNROLLED else 4} for n in lengths)


STRIPS = (0, 1 << 20, 2 << 20, 4 << 20)

_STENCIL: dict[int, Coordinates] = {
    2: (
        ("block", _blocks((32, 4), (64, 2), (64, 4), (128, 1), (128, 2), (256, 1))),
        ("march", _marches(1, 2, 4, 8, 16, 32, 64)),
        ("unroll", _each("unroll", 1, 2, 4, 8)),
        ("resident", _each("resident", 1, 2, 4, 5, 6, 8)),
    ),
    3: (
        ("block", _blocks((32, 4), (32, 8), (64, 2), (64, 4), (64, 8), (128, 2), (256, 1))),
        ("march", _marches(4, 8, 16, 32, 64)),
        ("unroll", _each("unroll", 1, 2, 4, 8)),
        ("strip", _each("strip", *STRIPS)),
        ("resident", _each("resident", 1, 2, 4, 5, 6, 8)),
    ),
}
_SWEEPS: dict[int, Coordinates] = {
    2: (
        ("depth", _each("depth", 4, 6, 8)),
        ("march", _each("march", 64, 128, 256, 512)),
        ("unroll", _each("unroll", 1, 2, 4)),
        ("block", _blocks((LANES, 1), (LANES, 2), (LANES, 4), (LANES, 8))),
    ),
    3: (
        ("depth", _each("depth", 2, 3)),
        ("lines", _lines((8, 1), (12, 1), (16, 1), (20, 1), (8, 2), (10, 2), (11, 2))),
        ("march", _each("march", 16, 32, 64, 128)),
        ("resident", _each("resident", 1, 2, 3)),
    ),
}


def coordinates(kind: str, dimension: int) -> Coordinates:
    """The numbers of a shape that are tried, in order, with their values."""
    return _SWEEPS[dimension] if kind == "sweeps" else _STENCIL[dimension]


def neighbours(shape: Shape, values: Values, kind: str, dimension: int, width: int) -> Iterator[Shape]:
    """The shapes that differ from one in the numbers of one coordinate and that a kernel can have.

    `kind` is one of `poisson.backends.gpu.shapes.KINDS`; `width` is the nodes that 16 bytes hold.
    """
    for numbers in values:
        candidate = replace(shape, **numbers)
        if candidate != shape and fits(candidate, kind, dimension, width):
            yield candidate
