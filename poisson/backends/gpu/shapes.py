# SPDX-License-Identifier: MIT
"""How the kernels are cut up: the built-in defaults of each architecture.

They hold where `python -m poisson tune` has not measured the device itself; `poisson.backends.gpu.tuned` has what it
found.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType


@dataclass(frozen=True)
class Shape:
    """How a kernel is cut up.

    `block_x`, `block_y`: threads of a block along x and y.
    `march`: nodes that a thread visits along the slowest axis.
    `unroll`: how many of them the compiler takes together.
    `resident`: blocks that a multiprocessor must be able to hold at once, which bounds the registers of a thread.
    `depth`: sweeps that a pass over memory makes.
    `rows`: neighbouring lines along y of a thread in 3D, in a pass of several stages.
    `strip`: in 3D, bytes of that part of a plane that is done from the first plane to the last before the next part is
    begun; 0: whole planes.
    """

    block_x: int
    block_y: int
    march: int
    unroll: int = 1
    resident: int = 1
    depth: int = 1
    rows: int = 1
    strip: int = 0


KINDS = ("laplacian", "sweep", "sweep_norm", "sweeps")
"""The kinds of kernels whose shapes can be chosen: a Laplacian; a sweep or residual, without a norm and with one;
several sweeps in a pass."""

VARYING = MappingProxyType(
    {
        **{"laplacian": "varying", "sweep": "varying", "direction": "varying_direction"},
        **{"sweep_norm": "varying_norm", "certify": "varying_norm"},
    }
)
"""The kinds that take the place of others where coefficients vary, and a thread reads more beside u."""

UNTUNED = (
    "certify",
    "direction",
    "full",
    "full_norm",
    "interpolate",
    "interpolate_half",
    "prolong_add",
    "restrict",
    *sorted(set(VARYING.values())),
)
"""The kinds that have built-in shapes alone."""

Shapes = Mapping[tuple[str, int], Shape]
"""Shapes by kind of kernel and dimension."""

_STRIP = 2 << 20
"""A few such planes of every array fit in the cache of the device."""

_HOPPER: Shapes = MappingProxyType(
    {
        ("laplacian", 2): Shape(64, 2, 4, 4),
        ("laplacian", 3): Shape(32, 8, 8, resident=6, strip=_STRIP),
        ("sweep", 2): Shape(64, 2, 4, 4),
        ("sweep", 3): Shape(32, 8, 8, resident=3, strip=_STRIP),
        ("sweep_norm", 2): Shape(256, 1, 64, unroll=2, resident=4),
        ("sweep_norm", 3): Shape(32, 8, 64, resident=3),
        ("certify", 2): Shape(256, 1, 64, unroll=2, resident=4),
        ("certify", 3): Shape(32, 8, 64, resident=4),
        ("sweeps", 2): Shape(32, 4, 128, unroll=2, depth=6),
        ("sweeps", 3): Shape(32, 8, 64, rows=2, resident=2, depth=2),
        ("varying", 2): Shape(128, 2, 4, 2),
        ("varying", 3): Shape(32, 4, 8, resident=5, strip=_STRIP),
        ("varying_norm", 2): Shape(256, 1, 64, unroll=2, resident=3),
        ("varying_norm", 3): Shape(32, 8, 64, resident=3),
        ("interpolate", 2): Shape(64, 2, 32),
        ("interpolate", 3): Shape(32, 4, 32, resident=3, rows=2, strip=_STRIP),
        ("interpolate_half", 2): Shape(64, 2, 32),
        ("interpolate_half", 3): Shape(32, 4, 32, resident=4, rows=2),
        ("prolong_add", 2): Shape(64, 2, 16),
        ("prolong_add", 3): Shape(32, 8, 16, resident=4, strip=_STRIP),
        ("restrict", 2): Shape(64, 2, 16),
        ("restrict", 3): Shape(32, 4, 16, resident=6, strip=_STRIP),
        ("direction", 2): Shape(256, 1, 32, resident=3),
        ("direction", 3): Shape(32, 8, 64, resident=3, strip=_STRIP),
        ("varying_direction", 2): Shape(256, 1, 32, resident=3),
        ("varying_direction", 3): Shape(32, 8, 64, resident=3),
        ("full", 2): Shape(64, 4, 8),
        ("full", 3): Shape(32, 8, 8, resident=3),
        ("full_norm", 2): Shape(64, 4, 32),
        ("full_norm", 3): Shape(32, 8, 8, resident=2),
    }
)
"""The fastest shapes found on an H200; docs/performance.md has the numbers."""


def _rows(threads: int, march: int) -> Shapes:
    """Blocks of one row of threads, as in the finite-difference series of the AMD lab notes, part 4.

    Its table has the fastest block and tiling factor of each GPU for a Laplacian at 512³ that marches along y; here
    they stand for every kernel and dimension until one is measured.
    """
    kinds = ("laplacian", "sweep", "sweep_norm", *UNTUNED)
    blocked = {("sweeps", n): _HOPPER["sweeps", n] for n in (2, 3)}
    return MappingProxyType(blocked | {(kind, n): Shape(threads, 1, march) for kind in kinds for n in (2, 3)})


DEFAULTS: Mapping[str, Shapes] = MappingProxyType(
    {
        "sm_90": _HOPPER,
        "sm_80": _HOPPER,  # those of sm_90: not measured on this architecture
        "gfx906": _rows(256, 4),  # MI50
        "gfx908": _rows(128, 4),  # MI100
        "gfx90a": _rows(256, 8),  # MI210, MI250, MI250X
        "gfx1030": _rows(256, 16),  # RX 6900 XT
        "gfx1100": _rows(256, 8),  # RX 7900 XTX
    }
)
"""The shapes for each architecture."""

SMOOTH_STAGES = 5
"""Stages of a pass of `smooth` in 2D at most."""

SMOOTH_SHAPES: Mapping[tuple[int, str], tuple[Shape, ...]] = MappingProxyType(
    {
        (2, "correction"): (Shape(32, 4, 64, unroll=2), Shape(32, 4, 128)),
        (2, "restriction"): (Shape(32, 4, 32), Shape(32, 4, 64)),
        (2, "zero"): (Shape(32, 4, 64, unroll=4), Shape(32, 4, 32, unroll=4)),
        (2, "single"): (Shape(32, 8, 64, unroll=2), Shape(32, 4, 128, unroll=4)),
        (2, "correct"): (Shape(32, 4, 64, unroll=2), Shape(32, 4, 64, unroll=4)),
        (2, "two"): (Shape(32, 4, 32, unroll=2), Shape(32, 4, 32, unroll=4)),
        (2, "sweeps"): (Shape(32, 4, 64, unroll=2), Shape(32, 4, 64, unroll=2)),
        (2, "several"): (Shape(32, 4, 64, unroll=2), Shape(32, 4, 64, unroll=2)),
        (3, "correction"): (Shape(32, 8, 32, resident=5), Shape(32, 16, 16, resident=3)),
        (3, "restriction"): (Shape(32, 9, 32, rows=2, resident=3), Shape(32, 5, 32, rows=2, resident=3)),
        (3, "zero"): (
            *(Shape(32, 12, 64, unroll=2, rows=2, resident=2), Shape(32, 9, 64, rows=2, resident=3)),
            *(Shape(32, 18, 32, resident=2), Shape(32, 9, 64, rows=2, resident=3)),
        ),
        (3, "single"): (
            *(Shape(32, 16, 64, rows=3), Shape(32, 12, 64, unroll=2, rows=2, resident=2)),
            *(Shape(32, 10, 32, rows=2, resident=2), Shape(32, 10, 64, rows=2, resident=2)),
        ),
        (3, "correct"): (
            *(Shape(32, 10, 64, unroll=2, rows=2, resident=2),) * 2,
            *(Shape(32, 14, 32, resident=2), Shape(32, 16, 64, resident=2)),
        ),
        (3, "two"): (*(Shape(32, 16, 128, unroll=2, rows=2),) * 2, *(Shape(32, 20, 32), Shape(32, 20, 64))),
        (3, "sweeps"): (Shape(32, 12, 128, rows=3), Shape(32, 16, 128, rows=2)),
        (3, "varying correct"): (
            *(Shape(32, 16, 32), Shape(32, 12, 32, rows=2)),
            *(Shape(32, 8, 32, resident=2), Shape(32, 8, 64, resident=2)),
        ),
        (3, "varying single"): (
            *(Shape(32, 12, 32, unroll=2, rows=2), Shape(32, 12, 32, rows=2)),
            *(Shape(32, 19, 32), Shape(32, 19, 64)),
        ),
    }
)
"""Shapes of a pass of `smooth`, by dimension and kind, in float32 and in float64, and further ones where nodes beyond a
face along x are images, which take registers: `poisson.backends.gpu.passes.Pass` has the kinds; only in 3D is there one
where coefficients vary. The quarters of a multiprocessor share out the warps of its blocks, each with a quarter of its
registers, so the number of warps decides in steps how many registers a thread may have."""

LANES = 32
"""Threads of a block come in multiples of this: a warp, or half a wavefront."""

VECTOR_SHAPE = Shape(32, 8, 8)
GATHER_SHAPE = Shape(32, 8, 1, resident=5)
"""The shape of interpolation from a finer grid, and of gradients: many threads wait for what they gather."""
WEIGHTS_SHAPE = Shape(32, 8, 1)
"""The shape of transfers by weights of each node, and of coloured sweeps: a thread for each node that is written."""
SETUP_SHAPE = Shape(32, 4, 1, resident=4)
"""The shape of what sets a coarse grid up: a thread for each coarse node, with its numbers in shared memory."""
DENSE_SHAPE = Shape(LANES, 4, 1, 8)
"""The shape of a product with a dense matrix: a group of lanes for each of its rows."""
REDUCTION_SHAPE = Shape(32, 8, 64, 4)
"""The shape of norm and dot: fewer blocks, because each pays for its part of the reduction."""
PEAK_SHAPE = Shape(256, 1, 512, 16)
"""The shape of the kernel that measures the peak of arithmetic; `march` is the length of its chains."""

MAX_BLOCKS = 65535
"""The most blocks that a launch may have along y and along z; along x it is 2³¹ - 1."""

SMALL_GRID = 1 << 20
"""With fewer unknowns a device would not be full: a thread then visits one node along the slowest axis."""

ENOUGH_BLOCKS = 8192
"""With fewer blocks the march of a Laplacian or a sweep is shortened …"""
SHORTEST_MARCH = 4
"""… but not below this."""

MOST_THREADS = 1024
MOST_SWEEPS = 8
"""Sweeps of a pass at most, as in kernels/multigrid/passes.h."""
MOST_SHARED = 96 << 10
"""Bytes of shared memory of a block in 3D at most: a multiprocessor has enough for two."""
SHARED_BY_NORMS = 1 << 10
"""Bytes that the reduction of a norm may take beside them."""
ROOMY_THREADS = 512
"""Threads of a multiprocessor that may have 128 registers each."""
TABLED_THREADS = {2: 768, 3: 1024}
"""Threads of a multiprocessor that sweeps on tabulated axes have registers for, by dimension …"""
MANY_REGISTERS_THREADS = 384
"""… and passes of several steps in 2D."""
MOST_RESIDENT = 2048
"""Threads that a multiprocessor holds at most."""


MULTIPROCESSORS = 132
"""Multiprocessors of an H200; other devices are taken to have as many, which costs them time alone."""
FEW_ROUNDS = 8
"""With more rounds of blocks the last one, which leaves much of the device idle, matters little."""


def march_in_rounds(
    shape: Shape, slowest: int, extra: int, blocks: Callable[[int], int], shortest: int, few: int = FEW_ROUNDS
) -> int:
    """The march of a kernel, an even one, with which the fewest steps follow one another on a multiprocessor.

    `slowest`: nodes along the slowest axis. `extra`: further steps of a march. `blocks`: how many there are, by the
    march. `shortest`: the least march. `few`: with more rounds of blocks the march stays that of the shape.
    """
    threads = shape.block_x * shape.block_y
    at_once = MULTIPROCESSORS * max(shape.resident, ROOMY_THREADS // threads)

    def rounds(march: int) -> int:
        return -(-blocks(march) // at_once)

    if rounds(shape.march) > few:
        return shape.march
    fewest, most = (-(-slowest // march) for march in (shape.march, shortest))
    marches = {2 * -(-slowest // (2 * bands)) for bands in range(fewest, most + 1)}
    return min(marches, key=lambda march: (rounds(march) * (march + extra), -march))


def owned_lines(shape: Shape, stages: int, halves: bool) -> int:
    """Lines that a block owns in a pass of so many stages in 3D, as in kernels/multigrid/planes.h.

    `halves`: whether something is restricted to a grid with every other line.
    """
    lines = shape.block_y * shape.rows - 2 * stages - halves
    return lines // 2 * 2 if halves else lines


def shared_bytes(shape: Shape, stages: int, restricted: Sequence[bool] | None = None) -> int:
    """Bytes of shared memory of a block in a pass of so many stages in 3D: its tile in planes.h.

    `restricted`: along x, y and z, whether the grid that something is restricted to has every other node; None: nothing
    is.
    """
    lines, pack = shape.block_y * shape.rows, 16 * LANES
    shown = 2 * pack * (min(shape.rows, 2) * shape.block_y * stages if stages else 1)
    gathered = pack // (2 if restricted and restricted[0] else 1) * (1 if restricted and restricted[2] else 2)
    return shown + gathered * (1 if restricted is None else lines)


def with_room(shape: Shape, stages: int, restricted: Sequence[bool] | None, most: int) -> Shape:
    """The shape, with fewer lines if a block of a device that has at most so many bytes would have no room for them: as
    for `shared_bytes`."""
    while shared_bytes(shape, stages, restricted) > min(MOST_SHARED, most - SHARED_BY_NORMS):
        shape = replace(shape, block_y=shape.block_y - 1)
    return shape


def fits(shape: Shape, kind: str, dimension: int, width: int) -> bool:
    """Whether a kernel can have this shape, as far as that shows without compiling it."""
    threads = shape.block_x * shape.block_y
    if threads > MOST_THREADS or threads % LANES or threads * shape.resident > MOST_RESIDENT:
        return False
    if kind != "sweeps":
        return shape.unroll <= shape.march
    halo = -(-shape.depth // width) * width
    if shape.block_x != LANES or LANES * width <= 2 * halo or shape.depth > MOST_SWEEPS:
        return False
    if dimension == 2:
        return True
    return owned_lines(shape, shape.depth, False) > 0 and shared_bytes(shape, shape.depth) <= MOST_SHARED


def with_registers(shape: Shape) -> Shape:
    """The shape with a line for each thread, and 128 registers: factors of tabulated axes, and masks, take some."""
    threads = ROOMY_THREADS // shape.block_x
    lines = min(shape.block_y * shape.rows, threads)
    return replace(shape, block_y=lines, rows=1, resident=max(1, min(shape.resident, threads // lines)))


def for_tables(shape: Shape, dimension: int) -> Shape:
    """The shape of a sweep on tabulated axes: so many blocks that a thread has 80 registers in 2D and 64 in 3D."""
    return replace(shape, resident=max(1, TABLED_THREADS[dimension] // (shape.block_x * shape.block_y)))


def for_passes(shape: Shape, dimension: int) -> Shape:
    """The shape of several steps in a pass on tabulated axes: in 2D line by line, with 160 registers."""
    shape = with_registers(shape)
    if dimension == 3:
        return shape
    return replace(shape, unroll=1, resident=max(1, MANY_REGISTERS_THREADS // (shape.block_x * shape.block_y)))


def nearest(architecture: str) -> str:
    """The architecture in `DEFAULTS` whose shapes a device of `architecture` takes: its own, or its vendor's."""
    if architecture in DEFAULTS:
        return architecture
    return "gfx90a" if architecture.startswith("gfx") else "sm_90"
