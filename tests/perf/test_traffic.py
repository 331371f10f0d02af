# SPDX-License-Identifier: MIT
"""What each operation must move and compute."""

import math
from dataclasses import replace
from functools import partial
from typing import cast

import numpy as np
import pytest
from support.operators import operator

from poisson.backends.ledger import Call
from poisson.backends.numpy import NumpyBackend
from poisson.backends.operations import ALL, Role
from poisson.discrete.operator import Coefficients, Operator
from poisson.mesh.boundary import Rule
from poisson.perf import traffic
from poisson.perf.traffic import Cost, cost, operation_bytes
from poisson.perf.workload import MEASURED, every_operation, values_needed
from poisson.perf.workload import box as grid_of
from poisson.solvers import loops

FIXED, MIRROR, WRAP = Rule.FIXED, Rule.MIRROR, Rule.WRAP

# By the formulas: 4 flops and a sum for each axis, and c u, its sum taking the place of the first.
LAPLACIAN = {2: 11, 3: 16}

SMOOTHS = ("smooth x2, from zero, restricted", "smooth x1, corrected", "smooth x3 + norm, corrected, restricted")


def costs(shape: tuple[int, ...], dtype: str) -> dict[str, Cost]:
    """The costs of every operation on a grid, by label."""
    ledger = every_operation(NumpyBackend(np.dtype(dtype)), grid_of(shape))
    return {call.label: cost(call) for call in ledger.samples}


@pytest.mark.parametrize(("dtype", "itemsize"), [("float64", 8), ("float32", 4)])
@pytest.mark.parametrize("shape", [(17, 9), (11, 9, 10)])
def test_the_costs_of_operations_on_whole_arrays(shape: tuple[int, ...], dtype: str, itemsize: int) -> None:
    found, nodes, axes = costs(shape, dtype), math.prod(shape), len(shape)
    laplacian = LAPLACIAN[axes]
    expected = {
        "laplacian": (2, laplacian),
        "update": (5, 3),
        "norm": (1, 2),
        "sweep": (3, laplacian + 3),
        "sweep, no source": (2, laplacian + 3),
        "sweep + norm": (3, laplacian + 5),
        "sweeps x4": (3, 4 * (laplacian + 3)),
        "sweeps x4 + norm": (3, 4 * (laplacian + 3) + 2),
        "residual": (3, laplacian + 1),
        "residual + norm": (3, laplacian + 3),
        "fill": (1, 0),
        "axpby": (3, 3),
        "dot": (2, 2),
        "integrate": (1, 3),
        "take": (2, 2),
        "certify": (2, laplacian + 3),
        "derivative x": (2, 12),
        "derivative y": (2, 12),
        "gradient": (1 + axes, 12 * axes),
        # The lower and the upper neighbour are summed, weighted and added; the residual, its scaling and the sum.
        "color_sweep": (3, 2 + 3 * axes),
        "diagonal_solve": (2, 1),
        "diagonal_solve + norm": (2, 3),
        "direction": (4, laplacian + 4),
        "advance": (6, 6),
    }
    mixed = {"defect": (3, laplacian + 2), "defect + norm": (3, laplacian + 4), "correct": (3, 2)}
    for label, (arrays, flops) in expected.items():
        assert found[label] == Cost(float(arrays * nodes * itemsize), float(flops * nodes)), label
    for label, (arrays, flops) in mixed.items():
        narrow = (itemsize - 4) * nodes
        assert found[label] == Cost(float(arrays * nodes * itemsize - narrow), float(flops * nodes)), label
    for axis in "xyz"[:axes]:
        assert found[f"links {axis}"] == Cost(2.0 * nodes * itemsize, 4.0 * nodes)
    assert found["dense"] == Cost((400.0 * 400 + 800) * itemsize, 2.0 * 400 * 400)
    assert {*SMOOTHS, "boundary_conditions", "sweep, no source"} <= set(found)
    assert {label.split()[0].rstrip(",") for label in found} == MEASURED


MOVED = {Role.READ: 1, Role.GIVEN: 1, Role.MATRIX: 1, Role.WRITTEN: 1, Role.BOTH: 2}
ON_SOME_NODES = {"boundary_conditions", "smooth"}
"""Operations that do not go over all nodes of the arrays that they are given."""


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("shape", [(17, 9), (11, 9, 10)])
@pytest.mark.parametrize("name", sorted(MEASURED - ON_SOME_NODES))
def test_an_operation_moves_the_arrays_of_a_call(name: str, shape: tuple[int, ...], dtype: str) -> None:
    """The bytes follow from the entry and the grid; here they are those of the very arrays that it was called with."""
    ledger = every_operation(NumpyBackend(np.dtype(dtype)), grid_of(shape))
    calls = {call: invocation for call, invocation in ledger.samples.items() if call.name == name}
    assert calls
    for call, invocation in calls.items():
        given = cast("partial[None]", invocation).keywords
        moved = 0
        for argument in ALL[name].arguments:
            value = given[argument.name]
            if argument.role is Role.OUTPUTS:
                moved += sum(array.nbytes for array in value)
            elif argument.role in MOVED and value is not None:
                moved += MOVED[argument.role] * value.nbytes
        assert cost(call).bytes == moved > 0, call.label
        assert cost(call).flops >= 0


def test_every_loop_has_its_operations() -> None:
    assert set(loops.SWEEPS) == set(loops.LOOPS)
    assert all(traffic.operation_bytes(name, 1, 8) for names in loops.SWEEPS.values() for name in names)


def test_the_costs_between_grids() -> None:
    found = costs((17, 9), "float64")
    fine, coarse = 17 * 9, 9 * 5
    assert found["restrict"] == Cost(8.0 * (fine + coarse), 18.0 * coarse)
    assert found["prolong_add"] == Cost(8.0 * (2 * fine + coarse), 8.0 * fine)
    assert found["interpolate"] == Cost(8.0 * (fine + coarse), 32.0 * fine)
    assert found["coarsen_links x"] == found["coarsen_links y"] == Cost(8.0 * (fine + coarse), 18.0 * coarse)


def test_the_costs_of_half_a_level() -> None:
    """Sweeps of 14 flops, the residual of 12, corrections of 8 a fine node, restrictions of 18 a coarse one."""
    found = costs((17, 9), "float64")
    fine, coarse = 17 * 9, 9 * 5
    down, up, both = SMOOTHS
    assert found[down] == Cost(8.0 * (2 * fine + coarse), (2 * 14 + 12.0) * fine + 18 * coarse)
    assert found[up] == Cost(8.0 * (3 * fine + coarse), (14 + 8.0) * fine)
    assert found[both] == Cost(8.0 * (3 * fine + 2 * coarse), (3 * 14 + 12 + 2 + 8.0) * fine + 18 * coarse)


def test_varying_coefficients_are_read() -> None:
    a, b = np.ones((9, 17)), np.ones((9, 17))
    coefficients = Coefficients((a, a), b, (1.0, 1.0), (1.0, 1.0))
    varying = replace(Operator.uniform((17, 9), (0.1, 0.1), 0.0, (FIXED,) * 4), coefficients=coefficients)
    for name, arrays in {"laplacian": 5, "sweep": 6, "direction": 7, "smooth": 6, "norm": 1, "dot": 2}.items():
        assert cost(Call(name, varying, 153, 8)).bytes == 8.0 * arrays * 153, name


def test_an_array_that_is_not_there_is_not_read() -> None:
    a = Operator.uniform((17, 9), (0.1, 0.1), 0.0, (FIXED,) * 4)
    for name in ("direction", "smooth"):
        assert cost(Call(name, a, 153, 8)).bytes - cost(Call(name, a, 153, 8, start=False)).bytes == 8.0 * 153
    for name in ("sweep", "residual", "color_sweep", "defect"):
        assert cost(Call(name, a, 153, 8)).bytes - cost(Call(name, a, 153, 8, source=False)).bytes == 8.0 * 153


FACES = [
    # Of 5 x 4 nodes 14 lie on faces.
    ((5, 4), (MIRROR,) * 4, 14, 14),
    ((5, 4), (FIXED,) * 4, 14, 0),
    ((5, 4), (FIXED, FIXED, MIRROR, MIRROR), 14, 2 * 3),
    ((5, 4), (WRAP, WRAP, FIXED, MIRROR), 14, 14 - 5),
    ((4, 3, 5), (MIRROR,) * 6, 4 * 3 * 5 - 2 * 1 * 3, 54),
]


@pytest.mark.parametrize(("shape", "rules", "on_faces", "free"), FACES)
def test_the_cost_of_boundary_conditions(
    shape: tuple[int, ...], rules: tuple[Rule, ...], on_faces: int, free: int
) -> None:
    call = Call("boundary_conditions", operator(shape, rules), math.prod(shape), 8)
    assert cost(call) == Cost(8.0 * (on_faces + 2 * free), float(LAPLACIAN[len(shape)] * free))


def test_flops_for_each_byte() -> None:
    call = Call("sweep", Operator.uniform((9, 9), (0.1, 0.1), 0.0, (FIXED,) * 4), 81, 8)
    assert cost(call).intensity == 14 / 24


def test_the_bytes_of_an_operation_by_name() -> None:
    assert operation_bytes("sweep", 100, 8) == 2400.0
    assert operation_bytes("sweep", 100, 4, source=False) == 800.0


def test_the_arrays_of_the_workload_fit_in_what_it_asks_for() -> None:
    backend, grid = NumpyBackend(np.float64), grid_of((33, 33))
    made: list[int] = []
    original = backend.empty

    def empty(array_shape: tuple[int, ...]) -> np.ndarray:
        made.append(8 * math.prod(array_shape))
        return original(array_shape)

    backend.empty = empty  # type: ignore[method-assign]
    every_operation(backend, grid)
    needed = values_needed(grid) * backend.dtype.itemsize
    assert 0.5 * needed < sum(made) <= needed
