# SPDX-License-Identifier: MIT
"""Grids: where the nodes are, and how a grid is cut."""

import math
import threading
from typing import Any

import numpy as np
import pytest

from poisson.mesh.axis import plain_rules
from poisson.mesh.grid import over_slabs, slabs
from poisson.mesh.lattice import Lattice


def grid(*shape: int, periodic: tuple[bool, ...] | None = None) -> Lattice:
    axes = len(shape)
    return Lattice.box(
        (-1.0, 0.5, 0.0)[:axes], (2.0, 0.75, 0.3)[:axes], shape, plain_rules(*periodic or (False,) * axes)
    )


def test_nodes() -> None:
    a = grid(7, 5, 3, periodic=(True, False, False))
    assert (a.dimension, a.nodes, a.array_shape, a.intervals) == (3, 105, (3, 5, 7), (7, 4, 2))
    assert a.extent == (3.0, 0.25, 0.3)
    assert a.spacing == (3.0 / 7, 0.0625, 0.15)
    np.testing.assert_allclose(a.coordinates(0), [-1 + 3 * n / 7 for n in range(7)], rtol=1e-15)
    np.testing.assert_array_equal(a.coordinates(1), [0.5, 0.5625, 0.625, 0.6875, 0.75])
    np.testing.assert_array_equal(a.coordinates(2), [0.0, 0.15, 0.3])


def test_nodes_of_a_line() -> None:
    line = grid(5)
    assert (line.dimension, line.nodes, line.array_shape, line.spacing) == (1, 5, (5,), (0.75,))
    np.testing.assert_array_equal(line.coordinates(0), [-1.0, -0.25, 0.5, 1.25, 2.0])


@pytest.mark.parametrize(("shape", "tolerance"), [((65, 17), 10 / 16**2), ((17, 65), 10 / 16**2), ((65, 5), 0.1)])
def test_the_tolerance_of_an_integral_is_that_of_the_coarsest_axis(shape: tuple[int, ...], tolerance: float) -> None:
    assert grid(*shape).tolerance == tolerance


def test_the_ends_are_exact() -> None:
    for low, high in ((0.1, 0.7), (-1e-3, 1e9), (-1e9, 1e-3), (1 / 3, 2 / 3), (-0.3, 0.1)):
        for nodes in (3, 10, 97):
            along = Lattice.box((low, 0.0), (high, 1.0), (nodes, 3)).coordinates(0)
            assert (along[0], along[-1]) == (low, high)
            assert np.all(np.diff(along) > 0)


@pytest.mark.parametrize(
    ("lower", "upper", "shape", "periodic", "message"),
    [
        ((), (), (), (), "a grid has 1, 2 or 3 axes, not 0"),
        ((0.0,) * 4, (1.0,) * 4, (3,) * 4, (False,) * 4, "a grid has 1, 2 or 3 axes, not 4"),
        ((0.0, 0.0), (1.0,), (3, 3), (False, False), "lower, upper, shape and the pairs of rules differ in length"),
        ((0.0, 0.0), (1.0, 1.0), (3, 3), (False,), "lower, upper, shape and the pairs of rules differ in length"),
        ((0.0, 1.0), (1.0, 1.0), (3, 3), (False, False), "y: the interval [1.0, 1.0] is empty or not finite"),
        ((2.0, 0.0), (1.0, 1.0), (3, 3), (False, False), "x: the interval [2.0, 1.0] is empty or not finite"),
        ((0.0, 0.0), (math.inf, 1.0), (3, 3), (False, False), "x: the interval [0.0, inf] is empty or not finite"),
        ((math.nan, 0.0), (1.0, 1.0), (3, 3), (False, False), "x: the interval [nan, 1.0] is empty or not finite"),
        ((-1e308, 0.0), (1e308, 1.0), (3, 3), (False, False), "x: the interval [-1e+308, 1e+308] is empty or not"),
        ((0.0, 0.0), (1.0, 1.0), (3, 2), (False, False), "y: 2 nodes; at least 3 are needed"),
        ((0.0, 0.0), (1.0, 1.0), (2, 3), (True, False), "x: 2 nodes; at least 3 are needed"),
        (
            *((0.0, 0.0), (1.0, 1e160), (9, 9), (False, False)),
            "y: 9 nodes on [0.0, 1e+160]; allowed: a spacing of the nodes of more than 1e-150 and less than 1e+150",
        ),
        ((0.0,), (1e-160,), (9,), (True,), "x: 9 nodes on [0.0, 1e-160]; allowed: a spacing of the nodes of more"),
        (
            *((1.0,), (1.0000000000000004,), (9,), (False,)),
            "x: 9 nodes on [1.0, 1.0000000000000004]; allowed: nodes far enough apart to differ in float64",
        ),
        # At the end that is farther from zero nodes must differ too.
        (
            *((0.0,), (1.0,), (10**17,), (False,)),
            "x: 100000000000000000 nodes on [0.0, 1.0]; allowed: nodes far enough apart to differ in float64",
        ),
        (
            *((-1.0,), (0.0,), (10**17,), (False,)),
            "x: 100000000000000000 nodes on [-1.0, 0.0]; allowed: nodes far enough apart to differ in float64",
        ),
    ],
)
def test_wrong_grids(lower: Any, upper: Any, shape: Any, periodic: Any, message: str) -> None:
    with pytest.raises(ValueError) as caught:
        Lattice.box(lower, upper, shape, plain_rules(*periodic))
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize("shape", [(10, 7), (1, 3), (6, 5, 4)])
@pytest.mark.parametrize("limit", [1, 7, 20, 21, 10**6])
def test_slabs(shape: tuple[int, ...], limit: int) -> None:
    ranges = list(slabs(shape, limit))
    assert [row for start, stop in ranges for row in range(start, stop)] == list(range(shape[0]))
    plane = math.prod(shape[1:])
    for start, stop in ranges:
        assert stop - start == 1 or (stop - start) * plane <= limit
    assert len(ranges) == math.ceil(shape[0] / max(1, limit // plane))


def test_slabs_by_several_threads_come_in_order_with_the_first_error_and_the_settings_of_numpy() -> None:
    seen: set[int] = set()
    both = threading.Barrier(2)

    def work(start: int, stop: int) -> tuple[int, int]:
        if start < 2:
            both.wait(10)  # two threads are here at a time
        seen.add(threading.get_ident())
        assert np.geterr()["over"] == "raise"
        return start, stop

    with np.errstate(over="raise"):
        assert over_slabs((9, 5), work, 2, limit=5) == [(row, row + 1) for row in range(9)]
    assert len(seen) == 2 and threading.get_ident() not in seen

    def fail(start: int, stop: int) -> None:
        if start in (3, 6):
            raise ValueError(start)

    with pytest.raises(ValueError, match="3"):
        over_slabs((9, 5), fail, 2, limit=5)
    assert over_slabs((7, 5), lambda start, stop: threading.get_ident(), 2, limit=5) == [threading.get_ident()] * 7
