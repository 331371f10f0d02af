# SPDX-License-Identifier: MIT
"""Sources in the memory of the caller: what the library reads where it lies is what it reads of its own arrays.

Covers poisson.backends.callers.
"""

from typing import Any

import numpy as np
import pytest
from conftest import emulated

from poisson import backends
from poisson.backends.gpu import callers as on_gpu
from poisson.backends.openmp.backend import pitch_in
from poisson.discrete.discretisation import Discretisation
from poisson.problem.problem import Problem

pytest.importorskip("poisson.backends.openmp.library").load_library()

CASES: dict[str, dict[str, Any]] = {
    "one row": {"shape": (5,), "boundary": 0.0},
    "rows shorter than a pack": {"shape": (3, 4), "boundary": 0.0},
    "fixed": {"shape": (33, 21), "boundary": 0.0, "c": 2.0},
    "mirrors": {"shape": (19, 40), "boundary": {"x": "periodic", "all": {"neumann": 0.0}}},
    "mixed": {"shape": (18, 9, 7), "boundary": {"y": "periodic", "x_lower": {"neumann": 0.0}, "all": 0.0}},
    "more than a cache": {"shape": (97, 41, 35), "boundary": 0.0},
}


def of(name: str, dtype: Any = np.float64) -> tuple[Any, Any, tuple[int, ...]]:
    problem = Problem.on_box(**CASES[name])
    discretisation = Discretisation(problem)
    backend = backends.create("openmp", dtype, 2)
    return backend, backend.bind(discretisation.operator_on(backend)), discretisation.array_shape


def shifted(backend: Any, values: Any, shift: float) -> Any:
    given = backend.in_place(values, pytest.fail)
    given.shift = shift
    return given


def fixed_to_zero(operations: Any, values: np.ndarray) -> np.ndarray:
    inside = np.zeros_like(values)
    free = operations.operator.lattice.free
    inside[free] = values[free]
    return inside


@pytest.mark.parametrize("shift", [0.0, 0.5])
@pytest.mark.parametrize("name", CASES)
def test_the_residual_is_that_of_the_librarys_own_arrays(name: str, shift: float) -> None:
    """To the last bit: the certificate of a solve does not depend on where the source lies."""
    backend, operations, shape = of(name)
    rng = np.random.default_rng(2)
    f, u = rng.standard_normal(shape), backend.from_host(rng.standard_normal(shape))
    given, own = shifted(backend, f, shift), backend.from_host(fixed_to_zero(operations, f - shift))
    r, result = backend.empty(shape), backend.reduction()
    operations.residual(u, own, r, result)
    expected = backend.read(result)
    for source in (given, own, operations.settled(given)):
        backend.fill(r, 3.0)
        operations.certify(u, source, r, result)
        assert backend.read(result) == expected


def integrals(discretisation: Discretisation, values: np.ndarray) -> tuple[float, float]:
    w = discretisation.volumes(np, 0, discretisation.array_shape[0])
    return float((w * values).sum()), float((w * abs(values)).sum())


WITHOUT_FIXED: dict[str, dict[str, Any]] = {
    "a row of mirrors": {"shape": (7,), "boundary": {"all": {"neumann": 0.0}}},
    "a row that wraps": {"shape": (19,), "boundary": "periodic"},
    "mirrors": {"shape": (19, 40), "boundary": {"x": "periodic", "all": {"neumann": 0.0}}},
    "all mirrors": {"shape": (33, 5), "boundary": {"all": {"neumann": 0.0}}},
    "one that wraps": {"shape": (18, 9, 8), "boundary": {"z": "periodic", "all": {"neumann": 0.0}}},
    "walls": {"shape": (41, 23, 35), "boundary": {"all": {"neumann": 0.0}}},
}


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", ["openmp", "gpu"])
@pytest.mark.parametrize("case", WITHOUT_FIXED)
def test_the_integrals_of_a_source(case: str, name: str, dtype: Any) -> None:
    """In float64, whatever the type of the solve."""
    discretisation = Discretisation(Problem.on_box(**WITHOUT_FIXED[case]))
    shape = discretisation.array_shape
    backend: Any = emulated(dtype) if name == "gpu" else backends.create("openmp", dtype, 2)
    operations, result = backend.bind(discretisation.operator_on(backend)), backend.reduction()
    values = np.random.default_rng(4).standard_normal((*shape[:-1], shape[-1] + 3))[..., : shape[-1]] + 0.5
    out = backend.empty(shape)
    operations.norm(backend.from_host(values * 3.0), result)  # a place that has had another result
    given = backend.in_place(values, pytest.fail)
    if name == "gpu" and dtype == np.float32:
        # On its way there it would be rounded.
        assert not given.exact
    else:
        operations.integrate(given, out, result)
        assert backend.read(result) == pytest.approx(integrals(discretisation, values), rel=1e-13)
    own = backend.from_host(values)
    operations.integrate(own, None, result)
    typed = values.astype(dtype).astype(np.float64)
    assert backend.read(result) == pytest.approx(integrals(discretisation, typed), rel=1e-13)
    if name == "gpu":
        there = backend.runtime.allocate(values.size, np.float64).reshape(shape)
        there[...] = values
        operations.integrate(backend.in_place(there, pytest.fail), None, result)
        assert backend.read(result) == pytest.approx(integrals(discretisation, values), rel=1e-13)


@pytest.mark.parametrize("name", CASES)
def test_a_residual_in_double_of_a_solution_in_single(name: str) -> None:
    """To the last bit that of the same values as float64."""
    backend, operations, shape = of(name, np.float32)
    double, wide, _ = of(name)
    rng = np.random.default_rng(3)
    f, u = rng.standard_normal(shape), rng.standard_normal(shape).astype(np.float32)
    given, result, expected = backend.in_place(f, pytest.fail), backend.reduction(), double.reduction()
    given.shift = 0.5
    assert operations.widens
    operations.certify(backend.from_host(u), given, backend.empty(shape), result)
    wide.residual(double.from_host(u), double.from_host(f - 0.5), double.empty(shape), expected)
    assert backend.read(result) == double.read(expected)


def test_a_value_that_is_not_finite_is_told_wherever_it_is() -> None:
    backend, operations, shape = of("mixed")
    for place in np.ndindex(shape):
        if not any(index in (0, 1, nodes - 1) for index, nodes in zip(place, shape, strict=True)):
            continue
        for value in (np.nan, np.inf):
            values, told = np.ones(shape), []
            values[place] = value
            given = backend.in_place(values, lambda told=told: told.append(True))
            operations.take(given, backend.empty(shape), backend.reduction())
            assert told, (place, value)


def test_what_pitch_in() -> None:
    values = np.zeros((4, 5, 6))
    assert all(map(pitch_in, (values, values[:1], values[:, :, :3], values[1:], values[:, :1])))
    others = [values[::2], values[:, ::2], values[:, :, ::2], values[::-1], values.T, values.astype(np.float32)]
    others += [values.astype(">f8"), np.broadcast_to(values[0], values.shape), values[:, ::-1]]
    assert not any(map(pitch_in, others[2:])), [pitch_in(each) for each in others]
    # Every second plane is no row of one distance; every second row of all planes is, where their number is even.
    assert not pitch_in(others[0])
    assert not pitch_in(others[1])


# ---- on a device
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("given", [np.float64, np.float32])
@pytest.mark.parametrize("name", ["one row", "rows shorter than a pack", "mirrors", "mixed"])
def test_a_kernel_takes_a_source_however_it_lies(name: str, given: Any, dtype: Any) -> None:
    """Rows and planes at any distance, upwards or downwards, in either type; and what is on the host."""
    discretisation = Discretisation(Problem.on_box(**CASES[name]))
    backend: Any = emulated(dtype)
    operations, shape = backend.bind(discretisation.operator_on(backend)), discretisation.array_shape
    double = [2 * nodes for nodes in shape]
    room = backend.runtime.allocate(int(np.prod(double)), given).reshape(double)
    room[...] = np.random.default_rng(3).standard_normal(double)
    every_other = room[(*(slice(0, None, 2) for _ in shape[:-1]), slice(shape[-1]))]
    corner = room[tuple(map(slice, shape))]
    u, r = backend.from_host(np.random.default_rng(5).standard_normal(shape)), backend.empty(shape)
    for values in (every_other, corner, corner[::-1], corner.copy()):
        out, result = backend.empty(shape), backend.reduction()
        operations.take(shifted(backend, values, 0.25), out, result)
        expected = fixed_to_zero(operations, (values.astype(np.float64) - 0.25).astype(dtype))
        if not backend.runtime.holds(values):
            # It comes to the device in the type of the solve.
            expected = fixed_to_zero(operations, (values.astype(dtype).astype(np.float64) - 0.25).astype(dtype))
        np.testing.assert_array_equal(backend.to_host(out), expected)
        squares, largest = backend.read(result)
        assert squares == pytest.approx((expected.astype(np.float64) ** 2).sum(), rel=1e-13)
        assert largest == np.abs(expected).max()
        operations.certify(u, shifted(backend, values, 0.25), r, result)
        norms = backend.read(result)
        operations.residual(u, out, r, result)
        assert norms == backend.read(result)


def test_what_a_kernel_reads_where_it_lies() -> None:
    values = np.zeros((4, 5, 6))
    taken = (values, values[::2], values[:, ::-1], values[:, :, :3], values.astype(np.float32), values[:, :, ::7])
    assert all(map(on_gpu.lies_in_rows, taken))
    others = (values[:, :, ::2], values.T, values.astype(">f8"), values.astype(int), values[:0], values[..., ::-1])
    assert not any(map(on_gpu.lies_in_rows, others))
