# SPDX-License-Identifier: MIT
"""First derivatives: exact weights, the order everywhere, every backend against the specification.

Covers poisson.mesh.differences.
"""

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from conftest import emulated
from numpy.typing import NDArray
from support.agreement import PLACED
from support.operators import SPACING, random_array

from poisson.backends.base import Backend
from poisson.backends.gpu import derivative as gpu_derivative
from poisson.backends.gpu.shapes import Shape
from poisson.backends.numpy import NumpyBackend
from poisson.errors import GridError
from poisson.mesh.axis import plain_rules
from poisson.mesh.differences import ORDERS, Differences, derivative_weights
from poisson.mesh.lattice import Lattice

EVERY_ORDER = pytest.mark.parametrize("order", ORDERS)


# ---- weights
def test_the_weights_are_those_of_the_textbooks() -> None:
    def weights(first: int, last: int) -> list[str]:
        return [str(weight) for weight in derivative_weights(range(first, last + 1))]

    assert weights(-1, 1) == ["-1/2", "0", "1/2"]
    assert weights(-2, 2) == ["1/12", "-2/3", "0", "2/3", "-1/12"]
    assert weights(-4, 4) == ["1/280", "-4/105", "1/5", "-4/5", "0", "4/5", "-1/5", "4/105", "-1/280"]
    assert weights(0, 2) == ["-3/2", "2", "-1/2"]
    assert weights(0, 4) == ["-25/12", "4", "-3", "4/3", "-1/4"]
    assert weights(-1, 3) == ["-1/4", "-5/6", "3/2", "-1/2", "1/12"]


@EVERY_ORDER
def test_the_weights_differentiate_every_power_up_to_the_order_exactly(order: int) -> None:
    for first in range(-order, 1):
        offsets = range(first, first + order + 1)
        weights = derivative_weights(offsets)
        moments = [sum(w * Fraction(x) ** power for w, x in zip(weights, offsets, strict=True)) for power in range(11)]
        assert moments[: order + 1] == [int(power == 1) for power in range(order + 1)]
        assert moments[order + 1] != 0 or (first == -order // 2 and moments[order + 2] == 0)


@EVERY_ORDER
def test_the_tables_hold_the_weights_beside_and_behind_a_node(order: int) -> None:
    differences = Differences.uniform((20, 20), (1.0, 1.0), (True, False), order)
    half = differences.half
    whole = [float(weight) for weight in derivative_weights(range(-half, half + 1))]
    assert differences.central.tolist() == whole[half + 1 :] == [-w for w in whole[:half][::-1]]
    assert differences.closure.shape == (half, order + 1)
    assert differences.closure[0].tolist() == [float(weight) for weight in derivative_weights(range(order + 1))]


def test_wrong_differences_are_refused() -> None:
    with pytest.raises(ValueError, match=r"the order 3 is none of \(2, 4, 6, 8\)"):
        Differences.uniform((9, 9), (1.0, 1.0), (True, True), 3)
    with pytest.raises(ValueError, match="shorter than"):
        Differences.uniform((9, 9), (1.0,), (True, True), 2)
    line = r"^y: 8 nodes; a difference of order 8 needs at least 9: take a lower order or more nodes$"
    with pytest.raises(GridError, match=line):
        Differences.uniform((9, 8), (1.0, 1.0), (True, True), 8)


# ---- accuracy of the specification
def derivative_of(differences: Differences, axis: int, values: NDArray[Any]) -> NDArray[np.float64]:
    out = np.full(values.shape, np.nan)
    NumpyBackend(np.float64).bind(differences).derivative(axis, values, out)
    return out


def field_along(differences: Differences, axis: int, line: NDArray[Any]) -> NDArray[np.float64]:
    """An array that has the values of a line along an axis, and another factor on each line."""
    place = differences.dimension - 1 - axis
    rest = [1 if n == place else size for n, size in enumerate(differences.array_shape)]
    along = [-1 if n == place else 1 for n in range(differences.dimension)]
    factors = np.random.default_rng(4).integers(1, 8, rest).astype(np.float64)
    values: NDArray[np.float64] = factors * line.reshape(along)
    return values


@EVERY_ORDER
@pytest.mark.parametrize("shape", [(13, 11), (9, 12, 10)])
def test_polynomials_up_to_the_order_are_exact_at_every_node(order: int, shape: tuple[int, ...]) -> None:
    differences = Differences.uniform(shape, (0.5,) * len(shape), (False,) * len(shape), order)
    for axis, nodes in enumerate(shape):
        x = 0.5 * np.arange(nodes) - 2.0
        for power in range(order + 1):
            values = field_along(differences, axis, x**power)
            slope = field_along(differences, axis, power * x ** max(power - 1, 0))
            scale = float(np.abs(values).max())
            np.testing.assert_allclose(derivative_of(differences, axis, values), slope, rtol=0, atol=1e-13 * scale)
        # The next power is not exact at the closures: the order is not more than it says.
        wrong = derivative_of(differences, axis, field_along(differences, axis, x ** (order + 1)))
        right = field_along(differences, axis, (order + 1) * x**order)
        assert float(np.abs(np.moveaxis(wrong - right, len(shape) - 1 - axis, 0)[0]).min()) > 1e-4


def errors_on(nodes: int, order: int, periodic: bool) -> NDArray[np.float64]:
    """The error at each node of a line, for a smooth function on [0, 1]."""
    grid = Lattice.box((0.0, 0.0), (1.0, 1.0), (nodes, 9), plain_rules(periodic, True))
    x = grid.coordinates(0)
    if periodic:
        values, slope = np.exp(np.sin(2 * np.pi * x)), 2 * np.pi * np.cos(2 * np.pi * x) * np.exp(np.sin(2 * np.pi * x))
    else:
        values, slope = np.exp(4 * x), 4 * np.exp(4 * x)  # no derivative of it vanishes anywhere
    got = derivative_of(Differences(grid.of_arrays, order), 0, np.tile(values, (9, 1)))
    errors: NDArray[np.float64] = np.abs(got[0] - slope)
    return errors


@EVERY_ORDER
@pytest.mark.parametrize("periodic", [True, False], ids=["periodic", "closures"])
def test_the_observed_order_is_the_order(order: int, periodic: bool) -> None:
    intervals = {2: 512, 4: 128, 6: 64, 8: 48}[order]
    coarse, fine = (errors_on(n + (not periodic), order, periodic) for n in (intervals, 2 * intervals))
    assert np.log2(coarse.max() / fine.max()) == pytest.approx(order, abs=0.25)
    if not periodic:
        # Each node of the closures has the order, not only the worst of them.
        half = order // 2
        for nodes in (slice(half), slice(-half, None)):
            rates = np.log2(coarse[nodes] / fine[nodes])
            assert rates.min() > order - 0.4


def test_a_constant_has_no_derivative_at_all() -> None:
    for order in ORDERS:
        differences = Differences.uniform((11, 13), (0.1, 0.3), (True, False), order)
        for axis in range(2):
            assert not derivative_of(differences, axis, np.full((13, 11), 1 / 3)).any()


# ---- every backend

SHAPES = [(9, 10), (37, 18), (70, 41), (9, 11, 10), (35, 9, 38), (19, 37, 12)]
FEW_SHAPES = SHAPES[1::3]
"""For the kernels of the narrower stencils, as the emulation takes its time."""


def agree(backend: Backend, differences: Differences, units: float = 8.0) -> None:
    """Derivatives and the gradient are those of the specification to rounding of the largest difference."""
    values = random_array(differences.array_shape, backend.dtype, 3)
    specification = NumpyBackend(backend.dtype)
    expected = [np.empty_like(values) for _ in differences.shape]
    specification.bind(differences).gradient(values, expected)
    u = backend.from_host(values)
    outs = [backend.empty(values.shape) for _ in differences.shape]
    backend.bind(differences).gradient(u, outs)
    results = [("gradient", [backend.to_host(out) for out in outs])]
    bound = backend.bind(differences)
    for name, derivative in {"derivative": bound.derivative, **backend.probe().derivatives(bound)}.items():
        for axis, out in enumerate(outs):
            backend.fill(out, np.nan)
            derivative(axis, u, out)
        results.append((name, [backend.to_host(out) for out in outs]))
    eps = float(np.finfo(backend.dtype).eps)
    for name, slopes in results:
        for axis, (got, wanted) in enumerate(zip(slopes, expected, strict=True)):
            tolerance = units * eps * float(np.abs(wanted).max())
            np.testing.assert_allclose(got, wanted, rtol=0, atol=tolerance, err_msg=f"{name} along axis {axis}")


@EVERY_ORDER
@pytest.mark.parametrize("periodic", [0, 1, 2], ids=["closures", "wraps", "mixed"])
def test_derivatives_agree_with_the_specification(backend: Backend, order: int, periodic: int) -> None:
    shapes = SHAPES
    if backend.name == "gpu" and not (order == 8 and backend.dtype == np.float64):
        # Each is compiled for each dimension and axis: the widest alone has all kinds of ends, in one type.
        if (ORDERS.index(order) + (backend.dtype == np.float32)) % 3 != periodic:
            pytest.skip("all but the widest are compiled with one kind of ends for each type")
        shapes = FEW_SHAPES
    for shape in shapes:
        wraps = [(False,) * 3, (True,) * 3, (True, False, True)][periodic][: len(shape)]
        agree(backend, Differences.uniform(shape, SPACING[: len(shape)], wraps, order))


@pytest.mark.parametrize("order", [2, 8])
def test_tabulated_axes(backend: Backend, order: int) -> None:
    few = backend.name == "gpu"
    if few and order == 8 and backend.dtype == np.float32:
        pytest.skip("the widest is compiled in one type")
    for a in (PLACED[2][0], PLACED[2][2], PLACED[3][0]) if few else (*PLACED[2], *PLACED[3]):
        if min(a.shape) > order:
            agree(backend, Differences(a.lattice, order))


def test_the_smallest_grid_of_each_order(backend: Backend) -> None:
    for order in ORDERS if backend.name != "gpu" else (2, 8):
        for wraps in ((False, False), (True, True)):
            agree(backend, Differences.uniform((order + 1, order + 1), SPACING[:2], wraps, order))


def test_marches_and_pencils_of_any_length(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pieces that end inside a closure, at it, or have one node."""
    monkeypatch.setattr(gpu_derivative, "FULL_DEVICE", 1)
    for march, pencil in ((4, 16), (16, 24)):
        monkeypatch.setattr(gpu_derivative, "MARCH", Shape(4, 2, march))
        monkeypatch.setattr(gpu_derivative, "MARCH_ALONG_X", Shape(4, 2, march))
        monkeypatch.setattr(gpu_derivative, "PENCIL_NODES", pencil)
        gpu_derivative.derivative.cache_clear()
        for wraps in (False, True):
            agree(emulated(np.float64), Differences.uniform((25, 21, 17), SPACING, (wraps,) * 3, 8))
    gpu_derivative.derivative.cache_clear()


def test_many_short_marches(backend: Backend) -> None:
    """Order 2 on planes with more rows than a block has: CUDA 13.0 made the marches of the gradient too long."""
    for shape in ((33, 301), (100, 130)):
        agree(backend, Differences.uniform(shape, SPACING[:2], (False, False), 2))


def test_blocks_fit_the_rows() -> None:
    """As long as the longest where no thread is spared by a shorter one."""

    def block(nx: int, axis: int) -> tuple[int, int]:
        differences = Differences.uniform((nx, 400, 400), SPACING, (True,) * 3, 8)
        shape = gpu_derivative.derivative(differences, axis, "march", nx, np.dtype(np.float64)).shape
        return shape.block_x, shape.block_y

    sizes = (512, 1024, 300, 256, 64, 9)
    assert [block(nx, 0) for nx in sizes] == [*((128, 1),) * 2, (32, 4), (128, 1), (32, 4), (32, 4)]
    for axis in (1, 2):
        assert [block(nx, axis) for nx in sizes] == [*((256, 1),) * 2, (32, 8), (128, 2), (32, 8), (32, 8)]


def test_the_order_of_threads_does_not_change_a_derivative() -> None:
    from support.emulation import Order

    differences = Differences.uniform((70, 21, 19), SPACING, (False, True, False), 8)
    results = []
    for order in (Order.FORWARD, Order.REVERSED, Order.SHUFFLED):
        backend = emulated(np.float32, order)
        u = backend.from_host(random_array(differences.array_shape, np.float32, 1))
        out = backend.empty(differences.array_shape)
        for derivative in backend.probe().derivatives(backend.bind(differences)).values():
            for axis in range(3):
                derivative(axis, u, out)
                results.append(backend.to_host(out))
    third = len(results) // 3
    for n in range(third):
        np.testing.assert_array_equal(results[n], results[third + n])
        np.testing.assert_array_equal(results[n], results[2 * third + n])
