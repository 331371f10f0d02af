# SPDX-License-Identifier: MIT
"""Lattices: the axes in one order, and their places in an array."""

import numpy as np

from poisson.mesh.axis import Axis
from poisson.mesh.boundary import Kind, Rule
from poisson.mesh.lattice import Lattice
from poisson.mesh.placement import Cells

F, M, W = Rule.FIXED, Rule.MIRROR, Rule.WRAP
BOX = Lattice.uniform((7, 5, 4), (0.1, 0.2, 0.3), (F, M, W, W, M, M))


def test_axes_run_from_x_to_z_and_arrays_from_z_to_x() -> None:
    assert (BOX.dimension, BOX.shape, BOX.array_shape) == (3, (7, 5, 4), (4, 5, 7))
    assert (BOX.spacing, BOX.rules) == ((0.1, 0.2, 0.3), (F, M, W, W, M, M))
    assert [BOX.array_axis(axis) for axis in range(3)] == [2, 1, 0]
    numbers = np.arange(140).reshape(BOX.array_shape)
    np.testing.assert_array_equal(numbers[BOX.face(0)], numbers[:, :, 0])
    np.testing.assert_array_equal(numbers[BOX.face(3)], numbers[:, -1])
    np.testing.assert_array_equal(numbers[BOX.face(4)], numbers[0])
    assert BOX.along(1, np.arange(5.0)).shape == (5, 1)
    assert BOX.free == (slice(0, 4), slice(0, 5), slice(1, 7))


def test_volumes_are_products_of_those_of_the_axes() -> None:
    volumes = BOX.volumes()
    assert volumes.shape == BOX.array_shape
    assert (volumes[1, 2, 3], volumes[0, 2, 3], volumes[0, 0, 6], volumes[3, 4, 0]) == (1.0, 0.5, 0.25, 0.5)
    np.testing.assert_array_equal(BOX.volumes(1, 3), volumes[1:3])


def test_a_lattice_knows_what_is_true_of_its_axes() -> None:
    assert (BOX.unknowns, BOX.holds, BOX.tabulated, BOX.divided) == (6 * 5 * 4, True, False, False)
    cells = BOX.replaced(0, Axis.placed(Cells(np.arange(6.0), (Kind.NEUMANN, Kind.NEUMANN))))
    assert (cells.shape, cells.unknowns, cells.holds, cells.tabulated) == ((5, 5, 4), 100, False, True)
    assert BOX.whole is BOX


def test_a_part_keeps_the_whole() -> None:
    part = BOX.part(2, 1, 3, 1).part(0, 0, 3, 2)
    assert (part.shape, part.divided, part.whole) == ((5, 5, 4), True, BOX)
    assert part.owned == (slice(1, 3), slice(0, 5), slice(0, 3))
    assert part.equations == (slice(0, 4), slice(0, 5), slice(1, 4))
    assert part.unknowns == BOX.unknowns
    np.testing.assert_array_equal(part.volumes()[part.owned], BOX.volumes()[1:3, :, :3])
    assert part.volumes().sum() == BOX.volumes()[1:3, :, :3].sum()


def test_a_scaled_lattice() -> None:
    assert BOX.scaled(2.0).spacing == (0.2, 0.4, 0.6)
