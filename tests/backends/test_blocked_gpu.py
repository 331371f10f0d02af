# SPDX-License-Identifier: MIT
"""Several sweeps in one pass of the gpu backend, on the emulation: any faces, sizes, strips and orders of threads."""

from typing import Any

import numpy as np
import pytest
from support.agreement import FEW_RULES
from support.emulation import EmulatedRuntime, Order
from support.operators import AXIS_RULES, operator, random_array
from test_blocked import OMEGAS, agrees

from poisson.backends.gpu.backend import GpuBackend
from poisson.backends.gpu.marches import OperatorLauncher
from poisson.backends.gpu.shapes import Shape
from poisson.discrete.discretisation import Operator
from poisson.mesh.boundary import Rule

M, F, W = Rule.MIRROR, Rule.FIXED, Rule.WRAP
ROWS = (1, 2, 3, 1, 2)
"""Lines of a thread in 3D, for each of `FEW_RULES`."""
SIZES: dict[int, dict[Any, list[tuple[int, ...]]]] = {
    2: {np.float64: [(3, 3), (4, 5), (53, 8), (131, 19)], np.float32: [(3, 3), (6, 4), (113, 8), (259, 19)]},
    3: {np.float64: [(3, 3, 3), (5, 4, 6), (67, 21, 9)], np.float32: [(3, 3, 3), (6, 4, 5), (131, 21, 9)]},
}
"""One node inside; a little more than a group owns; more strips (in 3D: lines) than a block has, and three marches."""


def gpu(dtype: Any, order: Order = Order.FORWARD) -> tuple[GpuBackend, EmulatedRuntime]:
    runtime = EmulatedRuntime(order)
    return GpuBackend(dtype, runtime), runtime


def shape_of(dimension: int, depth: int, rows: int = 1, strip: int = 0) -> Shape:
    """In 3D with blocks of few lines, most of which are those of other blocks."""
    if dimension == 2:
        return Shape(32, 2, 7, unroll=2, depth=depth)
    return Shape(32, -(-(2 * depth + 4) // rows), 4, depth=depth, rows=rows, strip=strip)


@pytest.mark.parametrize("dimension", [2, 3])
@pytest.mark.parametrize("number", range(5))
def test_every_pair_of_faces_on_every_axis(dtype: Any, dimension: int, number: int) -> None:
    """Counts, lines and whether there is a source change with the faces and the type: each pair is compiled once."""
    backend, runtime = gpu(dtype)
    single = dtype is np.float32
    count = (6 - number if single else 2 + number) if dimension == 2 else 2 + (number + single) % 2
    shape = shape_of(dimension, count, ROWS[number])
    for nodes in SIZES[dimension][dtype]:
        a = operator(nodes, FEW_RULES[dimension][number])
        with backend.shapes.trying("sweeps", shape):
            assert backend.bind(a).depth() == count
            agrees(backend, a, {count}, sourceless=(number + single) % 2 == 1)
    runtime.check_guards()


def test_the_faces_hold_every_pair_with_a_source_and_without() -> None:
    """Over both types, as above."""
    for dimension in (2, 3):
        for axis in range(dimension):
            pairs = {(n + single) % 2: set() for n in range(5) for single in (0, 1)}
            for n in range(5):
                for single in (0, 1):
                    pairs[(n + single) % 2].add(FEW_RULES[dimension][n][2 * axis : 2 * axis + 2])
            assert pairs == {0: set(AXIS_RULES), 1: set(AXIS_RULES)}


@pytest.mark.parametrize("dimension", [2, 3])
def test_every_count_up_to_the_depth(dimension: int) -> None:
    """A count below the depth, as at the end of a block of sweeps, is one pass of fewer."""
    backend, runtime = gpu(np.float64)
    depth = 6 if dimension == 2 else 3
    a = operator((61, 17, 7)[:dimension], (M, F, F, M, W, W)[: 2 * dimension])
    with backend.shapes.trying("sweeps", shape_of(dimension, depth, 2)):
        assert backend.bind(a).depth() == depth
        agrees(backend, a, set(range(1, depth + 1)))
    runtime.check_guards()


def test_the_defaults() -> None:
    """With the shapes of a device that has not been tuned."""
    for nodes in ((70, 40), (66, 11, 19)):
        backend, runtime = gpu(np.float64)
        a = operator(nodes, (F,) * (2 * len(nodes)))
        agrees(backend, a, {backend.bind(a).depth()})
        runtime.check_guards()


# ---- strips of planes
def passes(backend: GpuBackend, a: Operator, strip: int) -> list[bytes]:
    """What a Laplacian, a sweep and a pass of two sweeps leave, with so many bytes of a plane in a strip."""
    u, f = (backend.from_host(random_array(a.array_shape, backend.dtype, seed)) for seed in (1, 2))
    out, norms = backend.from_host(np.zeros(a.array_shape)), backend.reduction()
    left = []
    with backend.shapes.trying("laplacian", Shape(16, 2, 3, strip=strip)):
        backend.bind(a).laplacian(u, out)
        left.append(backend.to_host(out).tobytes())
    with backend.shapes.trying("sweep_norm", Shape(16, 2, 4, strip=strip)):
        backend.bind(a).sweep(u, f, out, OMEGAS[0], norms)
        left += [backend.to_host(out).tobytes(), np.array(backend.read(norms)[1]).tobytes()]
        total = backend.read(norms)[0]
    with backend.shapes.trying("sweeps", shape_of(3, 2, 2, strip)):
        backend.bind(a).sweeps(u, f, out, OMEGAS[:2], norms)
        left.append(backend.to_host(out).tobytes())
        assert 0.0 < backend.read(norms)[0] < total
    return left


@pytest.mark.parametrize("nodes", [(37, 21, 9), (5, 23, 10)])
def test_strips_change_nothing(nodes: tuple[int, ...]) -> None:
    """Strips of one, two and three blocks of lines, that divide the plane or do not, and a plane in one strip."""
    backend, runtime = gpu(np.float64)
    a = operator(nodes, (M, F, W, W, F, M))
    line = 8 * nodes[0]
    whole = passes(backend, a, 0)
    for strip in (1, 2 * 2 * line, 3 * 2 * line, 5 * 2 * line, 1 << 20):
        assert passes(backend, a, strip) == whole
    runtime.check_guards()


def test_a_strip_holds_no_more_lines_than_its_bytes() -> None:
    backend, _ = gpu(np.float64)
    a = operator((10, 40, 12), (F,) * 6)
    launcher = OperatorLauncher(backend, a)
    grids = {strip: launcher.march_grid(Shape(16, 4, 3, strip=strip)) for strip in (0, 1, 3 * 4 * 80, 1 << 20)}
    # Ten blocks of four lines of 80 bytes, and four bands of planes.
    assert grids == {0: (1, 10, 4), 1: (1, 1, 40), 960: (1, 3, 16), 1 << 20: (1, 10, 4)}


# ---- threads
@pytest.mark.parametrize("dimension", [2, 3])
def test_the_order_of_threads_does_not_change_a_pass(dimension: int) -> None:
    """Groups of lanes share nothing, and the norms have the same bits whichever block comes last."""
    a = operator((131, 19) if dimension == 2 else (67, 21, 9), FEW_RULES[dimension][1])
    found = set()
    for order, seed in ((Order.FORWARD, 0), (Order.REVERSED, 0), (Order.SHUFFLED, 1), (Order.SHUFFLED, 2)):
        backend, runtime = gpu(np.float64, order)
        runtime.seed = seed
        u, f = (backend.from_host(random_array(a.array_shape, np.float64, seed)) for seed in (1, 2))
        out, norms = backend.empty(a.array_shape), backend.reduction()
        with backend.shapes.trying("sweeps", shape_of(dimension, 3 if dimension == 2 else 2, ROWS[1])):
            backend.bind(a).sweeps(u, f, out, OMEGAS[: backend.bind(a).depth()], norms)
        found.add((backend.to_host(out).tobytes(), backend.read(norms)))
    assert len(found) == 1
