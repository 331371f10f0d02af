# SPDX-License-Identifier: MIT
"""Staggered grids: divergences, gradients and projections.

Covers poisson.problem.staggered, poisson.mesh.staggered, poisson.backends.gpu.staggered,
poisson.backends.openmp.staggered, poisson.parallel.staggered and poisson.run.in_place.
"""

from __future__ import annotations

import doctest
import math
import pickle
import runpy
from dataclasses import replace
from itertools import product
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
from scipy.interpolate import CubicSpline
from support.places import ROOT
from support.ranks import on_ranks

import poisson
from poisson import mac
from poisson.backends.base import Backend
from poisson.backends.gpu import staggered as gpu_staggered
from poisson.backends.gpu.backend import GpuBackend
from poisson.errors import PoissonError
from poisson.problem import staggered
from poisson.run.in_place import SourceOf

EPS = float(np.finfo(np.float64).eps)

PAIRS = [("periodic",), *product(("wall", "inflow", "outflow"), repeat=2)]
"""What the two faces of an axis may be."""

STRETCHED = np.cumsum([0.0, 1.0, 0.7, 0.5, 0.4, 0.6, 0.9])


def boundary(mix: tuple[tuple[str, ...], ...]) -> dict[str, Any]:
    names: dict[str, Any] = {}
    for axis, pair in zip("xyz", mix, strict=False):
        names |= {axis: "periodic"} if len(pair) == 1 else {f"{axis}_lower": pair[0], f"{axis}_upper": pair[1]}
    return names


def rough(grid: mac.Grid, seed: int, *, given: bool = True) -> tuple[Any, ...]:
    """A random velocity; without `given` its normal component is zero where a projection leaves it."""
    random = np.random.default_rng(seed)
    velocity = tuple(random.standard_normal(shape) for shape in grid.shapes)
    for face, side in enumerate(grid.sides):
        layer = np.moveaxis(velocity[face // 2], -1 - face // 2, 0)[-(face % 2), ...]
        if side == "wall" or (side == "inflow" and not given):
            layer[...] = 0.0
        elif side == "inflow" and "outflow" not in grid.sides:
            layer[...] = 1.0 if grid.sides[face ^ 1] == "inflow" else 0.0
    return velocity


def most(arrays: Any) -> float:
    return max(float(abs(array).max()) for array in arrays)


def on_device(backend: Any, values: Any) -> Any:
    """A copy in the memory of a device."""
    array = backend.runtime.allocate(values.size, values.dtype).reshape(values.shape)
    backend.runtime.upload(values, array)
    return array


def here(array: Any) -> Any:
    return array.get() if hasattr(array, "get") else np.copy(array)


def projected(projector: mac.Projector, velocity: Any, **data: Any) -> tuple[tuple[Any, ...], poisson.Solution]:
    """The velocity and the pressure, as arrays of NumPy, of a projection where the projector has its arrays."""
    backend = projector.solver.backend
    copies = tuple(on_device(backend, each) if isinstance(backend, GpuBackend) else np.copy(each) for each in velocity)
    solution = projector.project(copies, **data)
    return tuple(map(here, copies)), replace(solution, u=here(solution.u))


@pytest.mark.parametrize("pair", PAIRS, ids="-".join)
def test_a_projected_velocity_has_no_divergence_whatever_the_faces_are(pair: tuple[str, ...]) -> None:
    number = PAIRS.index(pair)
    for mix in ((pair,), *product([pair], PAIRS), (pair, PAIRS[number - 3], PAIRS[2 * number % len(PAIRS)])):
        require_no_divergence(mix)


def require_no_divergence(mix: tuple[tuple[str, ...], ...]) -> None:
    few = slice(len(mix))
    corners: Any = {"lower": (1.0, 0.0, 0.0)[few], "upper": (3.0, 1.0, 2.0)[few]}
    projector = mac.Projector((7, STRETCHED, 5)[few], boundary(mix), **corners)
    before, lines = rough(projector, 1), projector.problem.lattice.axes
    for density in (2.0, np.exp(np.random.default_rng(2).standard_normal(projector.shape))):
        velocity, solution = projected(projector, before, density=density, step=0.5)
        p, heaviest = solution.u, 0.5 / np.min(density)
        # The size of what is added up in a cell: flows, and differences of the pressure.
        scale = sum(
            most(before) / line.lengths.min() + heaviest * most([p]) * line.norm / line.spacing**2 for line in lines
        )
        assert most([projector.divergence(*velocity)]) <= 4 * EPS * scale
        again, _ = projected(projector, velocity, density=density, step=0.5)
        assert most(one - other for one, other in zip(again, velocity, strict=True)) <= EPS * scale
    # The gradient is minus the adjoint of the divergence, between velocities that vanish where they are given.
    flow, slopes = rough(projector, 4, given=False), projector.gradient(p)
    work = 0.0
    for axis, components in enumerate(zip(flow, slopes, strict=True)):
        sides = [np.concatenate([line.lengths[:1], line.lengths, line.lengths[-1:]]) for line in lines]
        if lines[axis].wraps:
            sides[axis][0], sides[axis] = sides[axis][-1], sides[axis][:-1]
        else:
            sides[axis][[0, -1]] = 0.0
        across = [(side[1:] + side[:-1]) / 2.0 if other == axis else side[1:-1] for other, side in enumerate(sides)]
        work += float((math.prod(np.ix_(*across[::-1])) * components[0] * components[1]).sum())
    volumes = projector.problem.lattice.volumes() * math.prod(projector.problem.lattice.spacing)
    power = volumes * projector.divergence(*flow) * p
    assert abs(work + power.sum()) <= 4 * EPS * abs(power).sum()


@pytest.mark.parametrize("axes", [2, 3])
def test_backends_pass_over_the_grid_as_numpy_does(
    backend: Backend, axes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("MOST_BLOCKS", "MAX_BLOCKS"):  # so that a block has more rows than threads
        monkeypatch.setattr(gpu_staggered, name, 2)
    dtype, random = backend.dtype, np.random.default_rng(axes)
    around = {np.dtype(np.float32): 1e-6, np.dtype(np.float64): 2e-15}[dtype]

    def there(values: Any) -> Any:
        """Cells in rows with gaps, or faces without, in memory that the backend passes over."""
        values = values.astype(dtype)
        return on_device(backend, values) if isinstance(backend, GpuBackend) else values

    def require_norms_of(values: Any) -> None:
        squares, largest = backend.read(norms)
        assert largest == abs(values).max()
        np.testing.assert_allclose(squares, np.square(values, dtype=np.float64).sum(), rtol=1e-13)

    for number, pair in enumerate(PAIRS):
        mix = (pair, PAIRS[number - 3], PAIRS[2 * number % len(PAIRS)])[:axes]
        projector = mac.Projector((37, STRETCHED, 5)[:axes], boundary(mix), backend="numpy")
        passes = backend.staggered(projector._staggered())
        if passes is None:
            pytest.skip("it takes those of NumPy")
        wide = (*projector.shape[:-1], projector.shape[-1] + 3)
        p, source, *links = (there(random.standard_normal(wide))[..., :-3] for _ in range(2 + axes))
        before = rough(projector, 1)
        velocity, expected = tuple(map(there, before)), tuple(each.astype(dtype) for each in before)
        norms = backend.reduction()
        assert passes.takes(source, velocity)
        assert not passes.takes(source.T, velocity) and not passes.takes(source.astype("f2"), velocity)
        passes.divergence(-1.5, velocity, source, 0, norms)
        require_norms_of(here(source))
        divergence = np.empty(projector.shape, dtype)
        projector._divide(expected, divergence, -1.5)
        np.testing.assert_allclose(here(source), divergence, rtol=0, atol=around * most([divergence]))
        for given in ((), links):
            passes.subtract_gradient(0.7, p, velocity, given, norms)
            projector._correct(expected, here(p), 0.7, [here(each) for each in given] or None)
            for one, other in zip(velocity, expected, strict=True):
                np.testing.assert_allclose(here(one), other, rtol=0, atol=around * most(expected))
            passes.divergence(-1.0 / 0.7, velocity, source, 0)
            require_norms_of(here(source))
        faces = [face for face, side in enumerate(projector.sides) if side != "periodic"]
        for walls in (projector._walls, *(1 << face for face in faces)):
            passes.divergence(-1.5, velocity, source, walls)
            projector._divide(expected, divergence, -1.5, walls)
            np.testing.assert_allclose(here(source), divergence, rtol=0, atol=around * most([divergence]))
        for one, other in zip(velocity, expected, strict=True):
            np.testing.assert_array_equal(here(one) == 0.0, other == 0.0)


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("shape", [(4, 40000), (7, 4, 5000), (5, 3)])
@pytest.mark.parametrize("sides", [("wall", "outflow"), ("periodic",)])
def test_what_a_gradient_leaves_is_certified_on_its_way(
    sides: tuple[str, ...], shape: tuple[int, ...], threads: int
) -> None:
    """By the norms of the divergence of the velocity, to the last bit on any number of threads."""
    mix = (("wall", "wall"),) * (len(shape) - 1) + (sides,)
    projector = mac.Projector(shape, boundary(mix), backend="openmp", threads=threads)
    backend, random = projector.solver.backend, np.random.default_rng(5)
    p, velocity, norms = random.standard_normal(projector.shape), rough(projector, 1), backend.reduction()
    expected = tuple(map(np.copy, velocity))
    projector._correct(expected, p, 0.25)
    projector._passes.subtract_gradient(0.25, p, velocity, (), norms)
    for one, other in zip(velocity, expected, strict=True):
        np.testing.assert_array_equal(one, other)
    left = -4.0 * projector.divergence(*velocity)
    squares, largest = backend.read(norms)
    assert largest == abs(left).max()
    np.testing.assert_allclose(squares, np.vdot(left, left), rtol=1e-13)


@pytest.fixture(params=["openmp", "emulated", pytest.param("gpu", marks=pytest.mark.gpu)])
def name(request: pytest.FixtureRequest) -> str:
    """The name of a backend whose passes certify a projection."""
    if request.param == "emulated":
        request.getfixturevalue("backends_by_name")
    elif request.param == "gpu":
        pytest.importorskip("cupy")
    return request.param.replace("emulated", "gpu")


@pytest.mark.parametrize("pair", PAIRS, ids="-".join)
def test_a_source_that_nothing_keeps_has_the_same_projection(pair: tuple[str, ...], name: Any) -> None:
    number = PAIRS.index(pair)
    for mix in ((pair, PAIRS[number - 3]), (pair, PAIRS[number - 3], PAIRS[2 * number % len(PAIRS)])):
        few = slice(len(mix))
        projector = mac.Projector((7, STRETCHED, 6)[few], boundary(mix), backend=name)
        before, data = rough(projector, 1), {"density": 2.0, "step": 0.5}
        walls = [
            np.moveaxis(before[face // 2], -1 - face // 2, 0)[-(face % 2), ...]
            for face, side in enumerate(projector.sides)
            if side == "wall"
        ]
        for layer in walls:
            layer[...] = 1.0
        velocity, solution = projected(projector, before, **data)
        assert isinstance(solution.problem.f, SourceOf)
        expected, other = projected(projector, before, initial=0.0, **data)
        assert not isinstance(other.problem.f, SourceOf)
        scale = most([other.u])
        assert most([solution.u - other.u]) <= 100 * EPS * scale
        assert most(a - b for a, b in zip(velocity, expected, strict=True)) <= 100 * EPS * scale
        if "outflow" not in projector.sides:
            volumes = projector.problem.lattice.volumes()
            assert abs((volumes * solution.u).sum()) <= 4 * EPS * scale * volumes.sum()
        np.testing.assert_allclose(solution.target, other.target, rtol=1e-12)
        squares = 16.0 * np.square(projector.divergence(*velocity)).sum()
        assert solution.residual == pytest.approx(math.sqrt(squares / solution.u.size), rel=1e-12)
        assert solution.residual <= 100 * other.residual and solution.status == other.status == "converged"
        # The solution has its source all the same, and goes to other processes.
        f, found = here(other.problem.f.values), here(solution.problem.f.values)
        assert most([found - f]) <= 100 * EPS * most([f])
        np.testing.assert_array_equal(here(pickle.loads(pickle.dumps(solution)).problem.f.values), found)
        if name == "gpu":
            # Arrays of NumPy, of any layout, go to the device and back.
            copies = tuple(map(np.asfortranarray, before))
            same = projector.project(copies, **data)
            assert {type(each) for each in (*copies, same.u, same.problem.f.values)} == {np.ndarray}
            for one, twin in zip((*copies, same.u), (*velocity, solution.u), strict=True):
                np.testing.assert_array_equal(one, twin)
            np.testing.assert_allclose(same.problem.f.values, found, rtol=0, atol=4 * EPS * most([found]))


@pytest.mark.usefixtures("backends_by_name")
def test_a_velocity_that_a_device_has_no_room_for_stays_on_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    projector, full = mac.Projector((9, 8), backend="gpu"), mac.Projector((9, 8), backend="gpu")
    monkeypatch.setattr(full._passes, "copies", Mock(side_effect=MemoryError))
    velocity, other = (tuple(map(np.copy, rough(projector, 1))) for _ in range(2))
    there, here = projector.project(velocity), full.project(other)
    assert isinstance(there.problem.f, SourceOf) and not isinstance(here.problem.f, SourceOf)
    for one, twin in zip((*velocity, there.u), (*other, here.u), strict=True):
        np.testing.assert_allclose(one, twin, rtol=0, atol=100 * EPS)


def test_a_velocity_of_rounding_is_certified_by_its_pressure(name: Any) -> None:
    """The divergence that is left is too large to certify; so the velocity gets its values back before."""
    projector = mac.Projector((24, 20), "periodic", backend=name)
    velocity, first = projected(projector, rough(projector, 1))
    again, second = projected(projector, velocity)
    assert isinstance(first.problem.f, SourceOf) and not isinstance(second.problem.f, SourceOf)
    assert most(a - b for a, b in zip(again, velocity, strict=True)) <= 16 * EPS
    kinds = [isinstance(projected(projector, rough(projector, 1))[1].problem.f, SourceOf) for _ in range(mac.PAUSE + 1)]
    assert kinds == [False] * mac.PAUSE + [True]
    strict = mac.Projector((24, 20), "periodic", backend=name, rtol=1e-20)
    velocity, third = projected(strict, rough(strict, 1))
    expected, other = projected(projector, rough(projector, 1))
    assert most([third.u - other.u]) <= 16 * EPS
    assert third.status == "at_rounding" and third.residual > third.target
    assert most(a - b for a, b in zip(velocity, expected, strict=True)) <= 16 * EPS


def test_what_is_subtracted_is_the_gradient_of_the_pressure_over_the_density() -> None:
    projector = mac.Projector((8, 6), {"x_lower": "inflow", "x_upper": "outflow", "all": "wall"})
    before = rough(projector, 1)
    velocity, solution = projected(projector, before, density=4.0, step=0.5)
    for old, new, slope in zip(before, velocity, projector.gradient(solution.u), strict=True):
        np.testing.assert_allclose(new, old - 0.125 * slope, rtol=0, atol=8 * EPS)
    density = np.where(np.arange(8) < 4, 1.0, 3.0) * np.ones((6, 1))
    velocity, solution = projected(projector, before, density=density, step=0.5)
    slope, weights = projector.gradient(solution.u)[0], 1.0 / np.array([1, 1, 1, 1, 2, 3, 3, 3, 3])
    np.testing.assert_allclose(velocity[0], before[0] - 0.5 * weights * slope, rtol=0, atol=8 * EPS)


def test_divergence_and_gradient_are_exact_where_they_should_be() -> None:
    """Components that are linear along their axis, on cells of any width; pressures that are linear, between cells."""
    grid = mac.Grid((STRETCHED, (0.0, 0.5, 2.0, 3.0), 4), upper=(1, 1, 2))
    faces = (STRETCHED, np.array([0.0, 0.5, 2.0, 3.0]), np.linspace(0.0, 2.0, 5))
    u, v, w = grid.velocity()
    u += 2.0 * faces[0]
    v -= faces[1][:, np.newaxis]
    w += 3.0 * faces[2][:, np.newaxis, np.newaxis]
    np.testing.assert_allclose(grid.divergence(u, v, w), 4.0, rtol=8 * EPS)
    x, y, z = (grid.problem.lattice.coordinates(axis) for axis in range(3))
    slopes = grid.gradient(x - 3.0 * y[:, np.newaxis] + 5.0 * z[:, np.newaxis, np.newaxis])
    for axis, (slope, wanted) in enumerate(zip(slopes, (1.0, -3.0, 5.0), strict=True)):
        along = np.moveaxis(slope, -1 - axis, 0)
        np.testing.assert_allclose(along[1:-1], wanted, rtol=32 * EPS)
        assert not along[[0, -1]].any()


def test_arrays_of_any_strides_and_of_float32_are_projected_in_place() -> None:
    projector = mac.Projector((12, 9), {"x": "periodic", "all": "wall"}, precision="float32")
    u, v = rough(projector, 3)
    single, turned = u.astype(np.float32), np.asfortranarray(v.astype(np.float32))
    pressure = projector.project((single, turned), out=np.empty(projector.shape, np.float32)).u
    assert pressure.dtype == np.float32 and not turned[[0, -1]].any()
    exact, _ = projected(mac.Projector((12, 9), {"x": "periodic", "all": "wall"}), (u, v))
    np.testing.assert_allclose(single, exact[0], rtol=0, atol=1e-5)
    np.testing.assert_allclose(turned, exact[1], rtol=0, atol=1e-5)


def test_cells_of_infinite_density_are_obstacles() -> None:
    projector = mac.Projector((16, 12), {"x_lower": "inflow", "x_upper": "outflow", "all": "wall"})
    density, (u, v) = np.ones(projector.shape), projector.velocity()
    density[4:7, 5:8] = np.inf
    u[...] = 1.0
    u[4:7, 5:9] = 0.0
    projector.project((u, v), density=density)
    assert not u[4:7, 5:9].any() and not v[4:8, 5:8].any()
    assert most([projector.divergence(u, v)]) <= 2000 * EPS
    np.testing.assert_allclose(u.sum(axis=0), 12.0, rtol=100 * EPS)


def test_a_divergence_of_rounding_is_no_contradiction() -> None:
    """Its mean is as large as itself, and the problem for the pressure is singular."""
    projector = mac.Projector((200, 200), "periodic")
    velocity, _ = projected(projector, rough(projector, 1))
    for number in range(3):
        _, solution = projected(projector, tuple(each * (1.0 + EPS * number) for each in velocity))
        assert most([solution.u]) < 1e-13


@pytest.mark.parametrize(
    "shape, blocks, varies",
    [
        ((7, STRETCHED), (1, 3), False),
        ((7, 64), (1, 2), True),
        ((4, 64, 4), (1, 2, 1), True),
        ((7, 12, 10), (1, 2, 2), False),
    ],
)
def test_processes_project_together(shape: Any, blocks: tuple[int, ...], varies: bool) -> None:
    """As one does, with the same bits on both sides of a face between them."""
    for number in (0, 3, 6):
        mix = (PAIRS[number - 3], PAIRS[number], PAIRS[2 * number % len(PAIRS)])[: len(shape)]
        alone = mac.Projector(shape, boundary(mix), backend="openmp")
        before, density = rough(alone, 1), 1.0 + varies * np.random.default_rng(2).random(alone.shape)
        expected, solution = projected(alone, before, density=density if varies else 1.0, step=0.5)

        def project(comm: Any, data: Any = (mix, before, density)) -> tuple[Any, Any, Any]:
            mix, before, density = data
            projector = mac.Projector(shape, boundary(mix), backend="openmp", comm=comm, ranks=blocks)
            rows = [np.arange(*ends) for ends in projector.ranges]
            places = []
            for values, wanted in zip(before, projector.shapes, strict=True):
                ends = zip(projector.ranges, wanted, values.shape, strict=True)
                places.append(np.ix_(*(np.arange(start, start + n) % whole for (start, _), n, whole in ends)))
            velocity = tuple(values[place] for values, place in zip(before, places, strict=True))
            given = density[np.ix_(*rows)] if varies else 1.0
            p = projector.project(velocity, density=given, step=0.5).u
            assert most([projector.divergence(*velocity)]) < 1e-11
            return places, velocity, (np.ix_(*rows), p)

        whole = tuple(np.full_like(values, np.nan) for values in expected)
        for places, velocity, (cells, p) in on_ranks(math.prod(blocks), project, delay=0.0):
            np.testing.assert_allclose(p, solution.u[cells], rtol=0, atol=1e-11 * max(1.0, most([solution.u])))
            for values, place, part in zip(whole, places, velocity, strict=True):
                known = np.isfinite(values[place])
                np.testing.assert_array_equal(part[known], values[place][known])
                values[place] = part
        for one, other in zip(whole, expected, strict=True):
            np.testing.assert_allclose(one, other, rtol=0, atol=1e-11 * most(expected))


def test_cupy_arrays_stay_on_the_device() -> None:
    cupy = pytest.importorskip("cupy")
    for shape in ((40, 32), (24, STRETCHED, 10)):
        rest = {"all": "wall"} if len(shape) == 3 else {}
        projector = mac.Projector(shape, {"x": "periodic", "y_lower": "inflow", "y_upper": "outflow", **rest})
        density = 1.0 + np.random.default_rng(1).random(projector.shape)
        for data in ({}, {"density": density}):
            host, _ = projected(projector, rough(projector, 1), **data)
            device = tuple(map(cupy.asarray, rough(projector, 1)))
            solution = projector.project(device, **{name: cupy.asarray(values) for name, values in data.items()})
            assert isinstance(solution.u, cupy.ndarray)
            for one, other in zip(device, host, strict=True):
                np.testing.assert_allclose(one.get(), other, rtol=0, atol=1e-11)


def test_the_examples_are_right() -> None:
    for module in (mac, staggered):
        assert doctest.testmod(module, extraglobs={"np": np}).failed == 0


def test_a_cavity_has_the_flow_that_others_have_published() -> None:
    """Profiles by Ghia, Ghia and Shin; extremes, and u in the middle, by two others, who differ by less than 1e-6.

    O. Botella, R. Peyret, Computers & Fluids 27, 1998; C. H. Marchi, R. Suero, L. K. Araki, J. Braz. Soc. Mech. Sci.
    Eng. 31, 2009, table 6, from which the first ones' v is up to 0.009 away.
    """
    program, extremes, fine = (
        runpy.run_path(str(ROOT / "cases" / "lid_driven_cavity.py")),
        [],
        np.linspace(0.0, 1.0, 2001),
    )
    for n in (16, 32):
        cavity = program["Cavity"](n, 100)
        cavity.run(until=20.0)
        places, u, v = cavity.lines()
        u, v = (CubicSpline(places, each)(fine) for each in (u, v))
        extremes.append(np.array([u.min(), v.max(), v.min(), u[1000]]))
    assert max(cavity.differences(100)) < 0.009
    coarse, fine = (abs(each - [-0.21404, 0.17957, -0.25380, -0.20915]) for each in extremes)
    np.testing.assert_allclose(np.log2(coarse / fine), 2.0, atol=0.15)
    np.testing.assert_allclose((4.0 * fine - coarse) / 3.0, 0.0, atol=6e-4)


def mistake(call: Any) -> str:
    with pytest.raises(PoissonError) as caught:
        call()
    return str(caught.value)


def test_mistakes_are_named_in_one_line() -> None:
    corners = "for each axis x(, y(, z)) a number of cells or their boundaries, and two ends"
    assert mistake(lambda: mac.Grid((4, 4), "wal")) == "boundary.all: 'wal'; allowed: wall, inflow, outflow, periodic"
    assert mistake(lambda: mac.Grid((4, 4.5))).endswith(corners)
    assert mistake(lambda: mac.Grid((4, 4), upper=(1.0,))).endswith(corners)
    assert "at least 3 are needed" in mistake(lambda: mac.Grid((4, 2)))
    assert mistake(lambda: mac.Projector((4, 4), ranks=2)).startswith("run.ranks: 2; allowed: the number of processes")
    projector = mac.Projector((4, 3), {"x": "periodic", "y_lower": "inflow", "y_upper": "wall"})
    u, v = projector.velocity()
    for velocity, data, line in [
        ((u,), {}, "velocity: arrays of the shapes ((3, 4),); allowed: ((3, 4), (4, 4))"),
        ((u, v.astype("f4")), {}, "velocity: values of float32, float64; allowed: one type of float for all"),
        ((u, v), {"density": np.ones(3)}, "density: an array of the shape (3,); allowed: (3, 4)"),
        ((u, v), {"step": 0}, "step: 0, density: 1.0; allowed: numbers above 0, or an array of densities"),
        ((u, v), {"density": -np.ones((3, 4))}, "1/density: -1.0 at x = 0.125, y = 0.166667; every value must be >= 0"),
        ((u, v + 1.0), {}, "velocity: 1 more flows in through inflow faces than out, and no face is an outflow; make "),
    ]:
        assert mistake(lambda: projector.project(velocity, **data)).startswith(line)  # noqa: B023
    v.setflags(write=False)
    assert mistake(lambda: projector.project((u, v))).startswith("velocity: a read-only array; allowed: ")
    assert mistake(lambda: projector.gradient(u.T)) == "p: an array of the shape (4, 3); allowed: (3, 4)"
