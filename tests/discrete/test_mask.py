# SPDX-License-Identifier: MIT
"""Nodes that keep their values inside the box, and links of zero: the specification against assembled matrices."""

import itertools
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from conftest import BACKENDS
from numpy.typing import NDArray
from support.axes import D, Example, N, P, dense, example, fixed_nodes, uniform
from support.multigrid import solver_of

from poisson.backends.numpy import NumpyBackend
from poisson.discrete.mask import labelled, masked
from poisson.discrete.operator import Coefficients, Operator
from poisson.discrete.transfer import Interpolation, Transfer
from poisson.mesh.axis import Axis
from poisson.mesh.lattice import Lattice
from poisson.mesh.placement import Cells, Nodes
from poisson.solvers.multigrid.hierarchy import coarser
from poisson.solvers.settings import SolverSettings
from poisson.solvers.status import Status
from poisson.solvers.stopping import Stopping

BACKEND = NumpyBackend(np.float64)
Array = NDArray[np.float64]

BOXES = {
    "1d": (uniform((D, N), 9), uniform((P, P), 1)),
    "walls": (uniform((D, D), 9), uniform((N, N), 8)),
    "periodic": (uniform((P, P), 8), uniform((N, D), 7)),
    "free": (uniform((N, N), 9), uniform((N, N), 6)),
    "cells": (example(Cells, (D, N), 8), example(Nodes, (N, D), 7)),
    "3d": (uniform((D, N), 7), uniform((P, P), 6), example(Cells, (N, N), 5)),
}


def operator_on(lines: tuple[Example, ...], seed: int, cut: float = 0.15) -> tuple[Operator, Array]:
    """An operator with random links, some of them zero, random c, zero in places, and nodes of a mask."""
    rng = np.random.default_rng(seed)
    axes = tuple(Axis.single() if line.axis.nodes == 1 else line.axis for line in lines)
    lattice = Lattice(axes)
    shape = lattice.array_shape
    links = []
    for axis, line in enumerate(axes):
        values = rng.uniform(0.5, 2.0, shape) * (rng.random(shape) > cut)
        if not line.wraps:
            along = np.moveaxis(values, lattice.array_axis(axis), 0)
            along[-1] = along[-2]
        links.append(values)
    c = rng.uniform(0.1, 1.0, shape)
    coefficients = Coefficients(tuple(links), c, (0.0, 2.0), (0.1, 1.0))
    fixed = rng.random(shape) < 0.2
    fixed[(slice(-5, -1),) * len(shape)] = True  # of which a coarser grid has a part
    operator = masked(Operator(lattice, coefficients=coefficients), fixed, np.asarray, np.array)
    return operator, c


def matrix_of(lines: tuple[Example, ...], operator: Operator, c: Array) -> Array:
    """A without the mask, assembled line by line."""
    assert operator.links is not None
    if operator.shape[-1] == 1:
        return np.asarray(dense(lines[:1], c[0], [operator.links[0][0]], 1.0))
    return np.asarray(dense(lines, c, operator.links, 1.0))


class Setting:
    """An operator with a mask, its matrix on the free nodes, and random arrays."""

    def __init__(self, name: str, seed: int) -> None:
        self.lines = BOXES[name]
        self.operator, c = operator_on(self.lines, seed)
        self.rng = np.random.default_rng(seed + 100)
        shape = self.operator.array_shape
        self.free = np.zeros(shape, dtype=bool)
        self.free[self.operator.lattice.free] = True
        self.free &= self.operator.reaction >= 0.0
        self.matrix = matrix_of(self.lines, self.operator, np.where(self.free, c, 0.0))
        self.operations = BACKEND.bind(self.operator)

    def random(self, *, on_free: bool = False) -> Array:
        values = self.rng.standard_normal(self.operator.array_shape)
        return values * self.free if on_free else values

    def times(self, u: Array) -> Array:
        return np.where(self.free, (self.matrix @ u.ravel()).reshape(u.shape), 0.0)

    @property
    def diagonal(self) -> Array:
        return np.where(self.free, np.diag(self.matrix).reshape(self.free.shape), 1.0)


def close(found: Any, expected: Any) -> None:
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12 * float(np.abs(expected).max()))


@pytest.fixture(params=[(name, seed) for name in BOXES for seed in (1, 2)], ids=str)
def given(request: pytest.FixtureRequest) -> Setting:
    return Setting(*request.param)


def test_there_is_a_mask(given: Setting) -> None:
    """Among it are nodes that nobody asked for: without it they would have no equation."""
    on_faces = np.ones(given.free.shape, dtype=bool)
    on_faces[given.operator.lattice.free] = False
    assert given.operator.fixed == np.count_nonzero(~given.free & ~on_faces) > 0
    assert given.operator.unknowns == np.count_nonzero(given.free)
    assert not given.operator.singular
    assert np.all(given.diagonal > 0.0)


def test_residuals_and_sweeps_leave_fixed_nodes(given: Setting) -> None:
    operations, u, f, r = given.operations, given.random(), given.random(on_free=True), given.random()
    norms = BACKEND.reduction()
    residual = np.where(given.free, f - given.times(u), 0.0)
    operations.residual(u, f, r, norms)
    close(r, residual)
    assert BACKEND.read(norms) == pytest.approx((np.sum(residual**2), np.abs(residual).max()))
    out = np.empty_like(u)
    operations.sweep(u, f, out, 0.7)
    close(out, u + 0.7 * residual / given.diagonal)
    au = np.full_like(u, np.nan)
    operations.laplacian(u, au)
    operations.boundary_conditions(u, au)
    close(au, given.times(u))
    swept, before = u.copy(), u.copy()
    operations.color_sweep(swept, f, 0, 1.1)
    assert np.array_equal(swept[~given.free], before[~given.free])
    v = u.copy()
    operations.update(f, au, r, v, 0.7)
    close(v, u + 0.7 * residual / given.diagonal)


def test_krylov_operations_write_zeros_at_fixed_nodes(given: Setting) -> None:
    operations, r, p = given.operations, given.random(on_free=True), given.random()
    z, out, q, norms = given.random(), given.random(), given.random(), BACKEND.reduction()
    operations.diagonal_solve(r, z, 0.9, norms)
    close(z, 0.9 * r / given.diagonal)
    operations.direction(given.random(), 0.5, p, out, q, norms)
    assert np.all(out[~given.free] == 0.0) and np.all(q[~given.free] == 0.0)
    close(q, given.times(out))
    x, y = given.random(on_free=True), given.random(on_free=True)
    ends = [BACKEND.reduction(), BACKEND.reduction()]
    operations.dot(given.times(x), y, ends[0])
    operations.dot(x, given.times(y), ends[1])
    assert BACKEND.read(ends[0])[0] == pytest.approx(BACKEND.read(ends[1])[0], rel=1e-10)  # A is symmetric


@pytest.mark.parametrize("name", ["walls", "periodic", "cells", "3d"])
def test_transfers_leave_fixed_nodes(name: str) -> None:
    given = Setting(name, 3)
    coarse = coarser(BACKEND, given.operator, [0, 1])
    transfer = BACKEND.bind(Transfer(given.operator, coarse))
    plain = BACKEND.bind(Transfer(Operator(given.operator.lattice), Operator(coarse.lattice)))
    mask = coarse.reaction < 0.0
    assert coarse.fixed > 0 and coarse.unknowns < Operator(coarse.lattice).unknowns
    u, e = given.random(), np.random.default_rng(5).standard_normal(coarse.array_shape)
    v, w = u.copy(), u.copy()
    transfer.prolong_add(e, v)
    plain.prolong_add(e, w)
    close(v, np.where(given.free, w, u))
    r, found, expected = given.random(on_free=True), np.empty_like(e), np.empty_like(e)
    transfer.restrict(r, found)
    plain.restrict(r, expected)
    close(found, np.where(mask, 0.0, expected))
    out, kept = given.random(), None
    kept = out.copy()
    BACKEND.bind(Interpolation(coarse, given.operator)).interpolate(e, out)
    assert np.array_equal(out[~given.free], kept[~given.free])
    assert not np.any(out[given.free] == kept[given.free])


@pytest.mark.parametrize("method", ["multigrid", "cg", "chebyshev", "jacobi"])
def test_methods_find_the_direct_solution(given: Setting, method: str) -> None:
    u, f = given.random(), given.random(on_free=True)
    inside, flat = given.free.ravel(), u.ravel()
    right = f.ravel()[inside] - given.matrix[np.ix_(inside, ~inside)] @ flat[~inside]
    expected = flat.copy()
    expected[inside] = np.linalg.solve(given.matrix[np.ix_(inside, inside)], right)
    settings = SolverSettings().having(method=method)
    result = solver_of(given.operations, settings).solve(u.copy(), f.copy(), stopping=Stopping(rtol=1e-10))
    assert result.status is Status.CONVERGED
    np.testing.assert_allclose(result.u.ravel(), expected, rtol=0, atol=1e-7 * np.abs(expected).max())
    assert np.array_equal(result.u[~given.free], u[~given.free])


@pytest.mark.parametrize(
    ("name", "method"),
    [
        *itertools.product(("numpy", "openmp"), ("multigrid", "cg", "jacobi")),
        *(("emulated", method) for method in ("multigrid", "cg")),
    ],
)
def test_a_box_of_many_nodes_with_a_body(method: str, name: str) -> None:
    """A disc that holds its value, with constant links: multigrid needs few cycles still."""
    nodes = 17 if name == "emulated" else 33 if method == "jacobi" else 65
    lattice = Lattice.box((0.0, 0.0), (1.0, 1.0), (nodes, nodes))
    x, y = np.meshgrid(lattice.coordinates(0), lattice.coordinates(1))
    body = (x - 0.4) ** 2 + (y - 0.55) ** 2 < 0.04
    backend = NumpyBackend(np.float64) if name == "numpy" else BACKENDS[name](np.float64)
    operator = masked(Operator(lattice), body, backend.to_host, backend.from_host)
    assert (operator.fixed, operator.singular) == (np.count_nonzero(body), False)
    u, f = backend.from_host(np.where(body, 3.0, 0.0)), backend.from_host(np.zeros(body.shape))
    settings = SolverSettings().having(method=method)
    result = solver_of(backend.bind(operator), settings).solve(u, f, stopping=Stopping(rtol=1e-8, boundary=1.0))
    assert result.status is Status.CONVERGED
    found = backend.to_host(result.u)
    np.testing.assert_allclose(found, 3.0, rtol=0, atol=1e-5)
    assert np.all(found[body] == 3.0)
    if method == "multigrid":
        assert result.iterations <= 30


def test_an_insulated_body_leaves_a_singular_problem() -> None:
    """Its links are cut; what is left has no value given anywhere, and its mean does not count the body."""
    lattice = Lattice.box((0.0, 0.0), (1.0, 1.0), (9, 9))
    body = np.zeros((9, 9), dtype=bool)
    body[3:6, 3:6] = True
    links = []
    for axis in range(2):
        place = 1 - axis
        values = (~body & ~np.roll(body, -1, axis=place)).astype(np.float64)
        along = np.moveaxis(values, place, 0)
        along[-1] = along[-2]
        links.append(values)
    plain = Operator(lattice, coefficients=Coefficients(tuple(links), None, (0.0, 1.0), (0.0, 0.0)))
    operator = masked(plain, np.zeros((9, 9), dtype=bool), np.asarray, np.array)  # nobody asks for the body
    assert (operator.fixed, operator.singular, operator.unknowns) == (9, True, 72)
    f = np.where(body, 0.0, np.random.default_rng(2).standard_normal((9, 9)))
    volumes = np.where(body, 0.0, np.broadcast_to(lattice.volumes(), f.shape))
    f -= np.where(body, 0.0, np.average(f, weights=volumes))
    u = np.where(body, 7.0, 0.0)
    result = solver_of(BACKEND.bind(operator), SolverSettings().having(method="cg")).solve(
        u, f, stopping=Stopping(rtol=1e-10)
    )
    assert result.status is Status.CONVERGED
    assert np.all(result.u[body] == 7.0)
    assert np.average(result.u, weights=volumes) == pytest.approx(0.0, abs=1e-9)


def test_a_part_that_nothing_holds_is_refused() -> None:
    lattice = Lattice.box((0.0,), (1.0,), (9,)).of_arrays
    links = np.ones((1, 9))
    links[0, 4] = 0.0
    plain = Operator(lattice, coefficients=Coefficients((links, links), None, (0.0, 1.0), (0.0, 0.0)))
    with pytest.raises(ValueError, match=r"^5 nodes, that of the numbers 0, 0 among them, are cut off from every"):
        masked(plain, np.zeros((1, 9), dtype=bool), np.asarray, np.array)
    fixed = np.zeros((1, 9), dtype=bool)
    fixed[0, [1, 7]] = True
    assert masked(plain, fixed, np.asarray, np.array).unknowns == 7
    divided = replace(plain, lattice=lattice.part(0, 2, 5, 1))
    with pytest.raises(ValueError, match="this is a part"):
        masked(divided, fixed, np.asarray, np.array)


def test_fixed_nodes_of_faces_are_not_counted_twice() -> None:
    lines = BOXES["walls"]
    operator, _ = operator_on(lines, 4)
    everything = masked(operator, np.ones(operator.array_shape, dtype=bool), np.asarray, np.array)
    assert everything.unknowns == 0 and everything.fixed == operator.lattice.unknowns
    assert sum(len(fixed_nodes(line.axis)) for line in lines) == 2


@pytest.mark.parametrize(("shape", "part"), [((40, 7, 9), 0.35), ((40, 7, 9), 0.02), ((61, 30), 0.6), ((200,), 0.7)])
def test_labels_in_threads_are_those_of_one(
    shape: tuple[int, ...], part: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An image of many slabs has parts that meet in several slabs and parts that reach through all."""
    free, wraps = np.random.default_rng(0).random(shape) < part, range(len(shape))
    labels, seams = labelled(free, wraps)
    monkeypatch.setattr("poisson.discrete.mask.SLAB_NODES", 3 * free[0].size)
    found, met = labelled(free, wraps, 2)
    assert found.dtype == labels.dtype and labels.max() > 1
    assert np.array_equal(found, labels)
    assert all(np.array_equal(one, other) for one, other in zip(seams, met, strict=True))
