# SPDX-License-Identifier: MIT
"""The direct solution by fast transforms against the sparse reference, for every combination of faces.

Covers poisson.backends.transforms, poisson.discrete.inverse, poisson.backends.gpu.device_transforms,
poisson.backends.gpu.eigenvectors and poisson.backends.gpu.tridiagonal.
"""

import itertools
import math
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np
import pytest
from conftest import BACKENDS
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.linalg import splu
from support.agreement import PLACED, agree
from support.axes import D, N, P
from support.emulation import EmulatedRuntime
from support.operators import AXIS_RULES, name_of, operator, pairs_of_rules, random_array, rules_of

from poisson.backends.base import Backend
from poisson.backends.gpu.backend import GpuBackend
from poisson.backends.gpu.launch import Launcher
from poisson.backends.numpy import NumpyBackend
from poisson.backends.openmp.backend import OFFLOADED
from poisson.backends.openmp.library_transforms import LARGEST_ODD, TransformsOfCopies
from poisson.backends.spectra import Convolution, Line, factors_of, largest_prime_factor
from poisson.discrete.inverse import Inverse
from poisson.discrete.operator import Coefficients, Operator
from poisson.discrete.reference import fixed_nodes, matrix
from poisson.mesh.axis import Axis
from poisson.mesh.boundary import Kind, Rule
from poisson.mesh.lattice import Lattice
from poisson.mesh.placement import Cells, Nodes

ALL_BACKENDS: dict[str, Callable[[Any], Backend]] = {"numpy": NumpyBackend, **BACKENDS}
F, M = Rule.FIXED, Rule.MIRROR
ROUNDING = {"float32": 1e-5, "float64": 1e-13}


@pytest.fixture(params=["numpy", "openmp", "emulated", pytest.param("gpu", marks=pytest.mark.gpu)])
def any_backend(request: pytest.FixtureRequest, dtype: Any) -> Backend:
    """A backend in either precision."""
    return ALL_BACKENDS[request.param](dtype)


def line(nodes: int, rules: tuple[Rule, Rule], c: float) -> Operator:
    """An operator in one dimension."""
    return Operator.uniform((nodes, 1), (0.1, math.inf), c, (*rules, Rule.WRAP, Rule.WRAP))


def trapezoidal(a: Operator) -> NDArray[np.float64]:
    """The weights of the inner product in which A is symmetric."""
    if a.lattice.tabulated:
        return np.broadcast_to(a.lattice.volumes(), a.array_shape)
    weights = np.ones(a.array_shape)
    for face, rule in enumerate(a.rules):
        if rule is Rule.MIRROR:
            place = a.dimension - 1 - face // 2
            weights[(slice(None),) * place + (-1 if face % 2 else 0,)] *= 0.5
    return weights


def reference(a: Operator, f: NDArray[Any], u: NDArray[Any]) -> NDArray[np.float64]:
    """The solution with the values of u at fixed nodes, by a sparse factorisation in double precision."""
    full, free, inverse = factored(a.lattice, a.c) if a.coefficients is None else factors(a)
    right = (f.astype(np.float64).ravel() - full @ (u.astype(np.float64).ravel() * ~free))[free]
    solution = u.astype(np.float64).ravel()
    solution[free] = inverse(np.append(right, 0.0))[:-1] if a.singular else inverse(right)
    return solution.reshape(a.array_shape)


@lru_cache(maxsize=4000)
def factored(lattice: Lattice, c: float) -> tuple[Any, NDArray[Any], Callable[[NDArray[Any]], NDArray[Any]]]:
    """The factors, once for all backends and types."""
    return factors(Operator(lattice, c))


def factors(a: Operator) -> tuple[Any, NDArray[Any], Callable[[NDArray[Any]], NDArray[Any]]]:
    """The matrix, the nodes that are not fixed, and the inverse there, bordered where it is singular."""
    free = ~fixed_nodes(a).ravel()
    full = matrix(a)
    inner = sparse.csc_array(full[free][:, free])
    if a.singular:
        # One more unknown takes up the mean of f, one more equation gives u a mean of zero.
        weights = sparse.coo_array(trapezoidal(a).reshape(1, -1))
        ones = sparse.coo_array(np.ones((weights.shape[1], 1)))
        rows: list[list[Any]] = [[inner, ones], [weights, None]]
        inner = sparse.csc_array(sparse.block_array(rows))
    return full, free, splu(inner).solve


MADE_ONCE = [
    (Axis, "eigenvalues"),
    (Line, "spectrum"),
    (Line, "turns"),
    (Convolution, "padded"),
    (Convolution, "spectrum"),
    (Launcher, "table"),
    (Launcher, "empty"),
    (EmulatedRuntime, "compile"),
    (EmulatedRuntime, "allocate"),
    (EmulatedRuntime, "fourier"),
]


def must_not_be_called(*_: Any, **__: Any) -> None:
    raise AssertionError("a solution made something anew")


def solve(backend: Backend, a: Operator, f: NDArray[Any], u: NDArray[Any]) -> NDArray[Any]:
    source, result = backend.from_host(f), backend.from_host(u)
    backend.bind(Inverse(a)).solve(source, result)
    return backend.to_host(result)


def check(backend: Backend, a: Operator, seed: int = 1, rounding: float | None = None) -> None:
    """Compare with the reference; the source is not zero at fixed nodes, the boundary data is not zero anywhere."""
    f, u = (random_array(a.array_shape, backend.dtype, seed + n) for n in range(2))
    expected = reference(a, f, u)
    found = solve(backend, a, f, u)
    atol, what = (rounding or ROUNDING[backend.dtype.name]) * np.abs(expected).max(), f"{a.shape}, {name_of(a.rules)}"
    np.testing.assert_allclose(found, expected, rtol=0, atol=atol, err_msg=what)
    fixed = fixed_nodes(a)
    np.testing.assert_array_equal(found[fixed], u[fixed], what)


# A GPU kernel is compiled for each length and kind, which the emulation pays for: few sizes. The lengths 17 and 19 have
# no factors, and are convolutions there.


@pytest.mark.parametrize("rules", AXIS_RULES, ids=name_of)
def test_every_kind_of_axis_in_one_dimension(any_backend: Backend, rules: tuple[Rule, Rule]) -> None:
    # Of lengths with small factors, those in two dimensions are enough for the emulation in the second type.
    few = any_backend.name == "gpu" and any_backend.dtype == np.float32
    for nodes, c in ((18, 0.0), (13, 0.0), (3, 0.0), (12, 0.7), (19, 0.0))[: 1 if few else 5]:
        check(any_backend, line(nodes, rules, c))


CELL_ENDS = [(D, D), (D, N), (N, D), (N, N), (P, P)]


@pytest.mark.parametrize("ends", CELL_ENDS, ids=name_of)
def test_every_kind_of_cells(any_backend: Backend, ends: tuple[Kind, Kind]) -> None:
    """Types II and IV: odd, even and awkward numbers, along each axis, singular where the ends allow it."""
    rounding = 10.0 * ROUNDING[any_backend.dtype.name]
    gpu, single = any_backend.name == "gpu", any_backend.dtype == np.float32
    few = (3, 8) if single else (3, 8, 17, 140)
    for cells in few if gpu else (*range(3, 18, 5 if single else 1), 35, 64, 131, 140):
        check(any_backend, Operator(Lattice((equal(cells, ends), Axis.single())), 0.3), rounding=rounding)
    mirrors, held = (Axis.between(0.0, 1.0, 9, (Rule.MIRROR, rule)) for rule in (Rule.MIRROR, Rule.FIXED))
    # On a CPU more lines than are taken together.
    beside = Axis.between(0.0, 1.0, 19, (Rule.FIXED, Rule.MIRROR))
    many = ((equal(7, ends), beside), (beside, equal(9, ends)), (equal(9, ends), equal(6, ends), beside))
    lattices = [((equal(7, ends), held), 0.0), ((mirrors, equal(9, ends)), 0.0), ((equal(9, ends),) * 3, 0.7)]
    for axes, c in lattices + [(axes, 0.3) for axes in many] * (not gpu):
        check(any_backend, Operator(Lattice(axes), c), rounding=rounding)


@pytest.mark.parametrize("ends", CELL_ENDS, ids=name_of)
def test_lines_of_cells_that_are_too_long_for_shared_memory(
    ends: tuple[Kind, Kind], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(EmulatedRuntime, "shared_bytes", 1 << 10)
    for axes in ((equal(40, ends), equal(7, ends)), (equal(5, ends), equal(9, ends), equal(6, ends))):
        check(ALL_BACKENDS["emulated"](np.float64), Operator(Lattice(axes), 0.3), rounding=1e-12)


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("ends", [(D, N), (N, N)], ids=name_of)
def test_systems_along_a_stretched_axis_where_the_values_are(
    any_backend: Backend, axis: int, ends: tuple[Kind, Kind], monkeypatch: pytest.MonkeyPatch
) -> None:
    """More modes than a block has, and more rows than are read at a time, with nodes and cells beside the axis."""
    monkeypatch.setattr("poisson.backends.gpu.eigenvectors.LEAST_CHAINS", 1)
    stretched = Axis.placed(Nodes(np.linspace(0.1, 1.0, 38) ** 1.5, ends))
    for beside in ((equal(12, (N, N)), Axis.between(0.0, 1.0, 13, (Rule.MIRROR,) * 2)), (equal(12, (P, P)),)):
        axes = [*beside[:axis], stretched, *beside[axis:]]
        if axis <= len(beside):
            check(any_backend, Operator(Lattice(tuple(axes))), rounding=100.0 * ROUNDING[any_backend.dtype.name])


@pytest.mark.parametrize("rules", AXIS_RULES, ids=name_of)
def test_lines_that_are_too_long_for_shared_memory(rules: tuple[Rule, Rule], monkeypatch: pytest.MonkeyPatch) -> None:
    """On a GPU; the transforms of the vendor's library are NumPy's here."""
    monkeypatch.setattr(EmulatedRuntime, "shared_bytes", 1 << 10)
    for shape in ((13, 6), (12, 7, 5)):
        check(ALL_BACKENDS["emulated"](np.float64), operator(shape, (*rules, *AXIS_RULES[0], *rules)[: 2 * len(shape)]))


@pytest.mark.parametrize("rules", AXIS_RULES, ids=name_of)
def test_every_length_on_a_cpu(dtype: Any, rules: tuple[Rule, Rule]) -> None:
    """All ways to transform a line: by factors, odd numbers, both, and what is left of them through a convolution."""
    backend = BACKENDS["openmp"](dtype)
    lengths = [*range(2, 70), 77, 113, 127, 128, 131, 2 * 131, 3 * 139, 8 * 7 * 13, 7 * 73, 499, 1021]
    assert max(largest_prime_factor(length) for length in lengths) > LARGEST_ODD
    for length in lengths[:: 1 if dtype == np.float64 else 3]:
        nodes = length + (rules[0] is not Rule.WRAP)
        check(backend, operator((nodes, 3), (*rules, Rule.FIXED, Rule.MIRROR), 0.0))


def equal(cells: int, ends: tuple[Kind, Kind]) -> Axis:
    return Axis.placed(Cells(np.linspace(0.0, 0.1 * cells, cells + 1), ends))


def crowded(nodes: int, ends: tuple[Kind, Kind]) -> Axis:
    """Nodes that crowd at both ends so that even and odd modes have the same eigenvalue but for rounding."""
    return Axis.placed(Nodes(np.tanh(np.linspace(-5.0, 5.0, nodes)), ends))


@pytest.mark.parametrize(
    ("name", "c"), [("numpy", 0.4), ("openmp", 0.0), *(pytest.param("gpu", c, marks=pytest.mark.gpu) for c in (0, 0.4))]
)
def test_every_mixture_of_axes(name: str, c: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Transforms, tridiagonal systems along any axis and eigenvectors, singular or not."""
    monkeypatch.setattr("poisson.backends.gpu.eigenvectors.LEAST_CHAINS", 1)
    kinds: list[Callable[[int], Axis]] = [
        lambda n: equal(n, (N, N)),
        lambda n: crowded(n, (N, N)),
        lambda n: Axis.placed(Nodes(np.linspace(0.1, 1.0, n) ** 1.5, (D, N))),
        lambda n: Axis.between(0.0, 1.0, n, (Rule.WRAP, Rule.WRAP)),
    ]
    backend = ALL_BACKENDS[name](np.float64)
    for chosen in itertools.chain(*(itertools.product(kinds, repeat=dimension) for dimension in (2, 3))):
        lattice = Lattice(tuple(kind(n) for kind, n in zip(chosen, (19, 6, 5), strict=False)))
        # The chains of a GPU lie along the longest axis; eigenvectors of nodes that crowd cost digits.
        check(backend, Operator(lattice, c), rounding=1e-9 if name == "gpu" else 1e-11)


def test_tridiagonal_systems_go_along_the_longest_stretched_axis() -> None:
    """The products with eigenvectors, which grow with the square of an axis, are then those of the shorter axes."""
    for shape, multiplied in (((9, 33, 17), {0, 2}), ((9, 17, 33), {0, 1}), ((9, 9, 9), {0, 1})):
        lattice = Lattice(tuple(Axis.placed(Nodes(np.linspace(0.1, 1.0, nodes) ** 1.5, (D, N))) for nodes in shape))
        BACKENDS["openmp"](np.float64).bind(Inverse(Operator(lattice)))
        assert {axis for axis, line in enumerate(lattice.axes) if "eigenvectors" in vars(line)} == multiplied


def test_a_convolution_is_long_enough_and_a_product_of_two_factors() -> None:
    for length in (*range(5, 300), *range(301, 5000, 37)):
        found = Convolution(length)
        assert 2 * length - 1 <= found.padded == math.prod(found.factors) < 2.3 * length + 8
        assert len(found.factors) >= 2 and factors_of(found.padded) == (found.factors, 1)


def test_a_convolution_is_the_transform() -> None:
    """By its tables alone: the chirp, its spectrum, and the chirp again."""
    for length in (5, 17, 127, 1021):
        found = Convolution(length)
        values = random_array((2, length), np.float64, length) @ np.eye(length) + 0j
        chirp = found.chirp()
        spectrum = np.fft.fft(values * chirp, found.padded) * found.spectrum() * found.padded
        result = chirp * np.fft.ifft(spectrum)[:, :length]
        np.testing.assert_allclose(result, np.fft.fft(values), rtol=0, atol=1e-13 * length)


@pytest.mark.parametrize("first", AXIS_RULES, ids=name_of)
def test_every_combination_of_faces_is_solved(any_backend: Backend, first: tuple[Rule, Rule]) -> None:
    few = any_backend.name == "gpu" and any_backend.dtype == np.float32
    for rules in rules_of(2) + pairs_of_rules(3) * (not few):
        if rules[:2] == first:
            for c in (0.0, 0.7)[: 4 - len(rules) // 2]:
                check(any_backend, operator((5, 6, 7)[: len(rules) // 2], rules, c))


def test_lines_of_all_lengths(any_backend: Backend) -> None:
    """Cosines, whose odd coefficients are sums over the threads of a line, next to more lines than a block has.

    The emulation has all lengths in float64 and, as the types differ in the number of threads alone, four in float32.
    """
    rules = (Rule.MIRROR, Rule.MIRROR, Rule.FIXED, Rule.MIRROR)
    few = any_backend.name == "gpu" and any_backend.dtype == np.float32
    for nodes in (9, 16, 41, 49, 65, 301, 321, 1024, 92, 144)[:: 2 if few else 1]:
        check(any_backend, operator((nodes, 5), rules, 0.0))


@pytest.mark.parametrize("last", AXIS_RULES, ids=name_of)
def test_more_columns_than_are_taken_together(any_backend: Backend, last: tuple[Rule, Rule]) -> None:
    rules = (Rule.FIXED, Rule.MIRROR, Rule.WRAP, Rule.WRAP, *last)
    check(any_backend, operator((37, 20, 5), rules, 0.7))


@pytest.mark.parametrize("last", [(F, F), (F, M), (M, F)], ids=name_of)
@pytest.mark.parametrize("shape", [(5, 34), (6, 98), (5, 1100), (4, 3, 65)], ids=str)
def test_systems_of_many_rows(any_backend: Backend, shape: tuple[int, ...], last: tuple[Rule, Rule]) -> None:
    """Also where what a row does to its neighbours falls fast or hardly at all: by the ratio of the spacings."""
    for ratio, c, first in ((0.3, 0.0, (Rule.WRAP, Rule.WRAP)), (1e4, 0.0, (M, M)), (1e-4, 1e-3, (F, M))):
        spacing = (0.1,) * (len(shape) - 1) + (0.1 * ratio,)
        rules = (*first, *(M, M) * (len(shape) - 2), *last)
        a = Operator.uniform(shape, spacing, c, rules)
        f, u = (random_array(shape[::-1], any_backend.dtype, seed) for seed in (1, 2))
        expected = solve(NumpyBackend(np.float64), a, f, u)
        atol = 20.0 * ROUNDING[any_backend.dtype.name] * np.abs(expected).max()
        np.testing.assert_allclose(solve(any_backend, a, f, u), expected, rtol=0, atol=atol)


def test_fixed_nodes_without_values_are_not_read(any_backend: Backend) -> None:
    """The solution has the bits of one whose fixed nodes hold zeros; a GPU launches nothing for their sake."""
    a = operator((9, 6, 5), (F, F, M, F, F, M))
    f, zeros = any_backend.from_host(random_array(a.array_shape, any_backend.dtype, 1)), np.zeros(a.array_shape)
    found = []
    for held in (True, False):
        source, u = (
            any_backend.from_host(any_backend.to_host(f)),
            any_backend.from_host(zeros.astype(any_backend.dtype)),
        )
        inverse = any_backend.bind(Inverse(a, held))
        inverse.solve(source, u)
        found.append(any_backend.to_host(u))
        if isinstance(any_backend, Launcher):
            with any_backend.shared.without_launches() as wanted:
                inverse.solve(source, u)
            assert {key[1] for key in wanted} == {"transform", "tridiagonal", *("transform_boundary",) * held}
    np.testing.assert_array_equal(*found)


@pytest.mark.parametrize("dimension", [1, 2, 3])
@pytest.mark.parametrize("chains", [False, True])
def test_tabulated_axes_have_eigenvectors(
    any_backend: Backend, dimension: int, chains: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the specification has them, also beside axes of the backend's own transforms; singular and not.

    A GPU solves tridiagonal systems along one of them where there are many.
    """
    if chains and any_backend.on_host:
        pytest.skip("the host has one way to solve")
    monkeypatch.setattr("poisson.backends.gpu.eigenvectors.LEAST_CHAINS", int(not chains) * 10**9)
    specification = NumpyBackend(np.float64)
    from_zero = Axis.placed(Nodes(np.linspace(0.0, 1.0, 8) ** 1.5, (N, D)))
    others = (Axis.between(0.0, 1.0, 6, (F, M)), Axis.between(0.0, 1.0, 5, (F, M)))
    for a in (*PLACED[dimension], Operator(Lattice((from_zero, *(others[: dimension - 1] or [Axis.single()]))))):
        for c in (0.0, 0.7):
            given = replace(a, c=c)
            f, u = (random_array(a.array_shape, any_backend.dtype, seed) for seed in (1, 2))
            expected = solve(specification, given, f, u)
            atol = 50 * ROUNDING[any_backend.dtype.name] * np.abs(expected).max()
            np.testing.assert_allclose(solve(any_backend, given, f, u), expected, rtol=0, atol=atol)


def test_arrays_on_a_gpu_of_openmp_are_solved_as_copies(dtype: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """And their sources are integrated as copies, taken and certified by other operations."""
    backend = BACKENDS["openmp"](dtype)
    monkeypatch.setattr(backend, "offloads", True)
    monkeypatch.setattr(backend, "bound", OFFLOADED)
    a = operator((7, 6), (Rule.FIXED, Rule.MIRROR, Rule.FIXED, Rule.FIXED))
    assert agree(backend, a, ["take", "integrate", "certify"]) == 6
    assert isinstance(backend.bind(Inverse(a)), TransformsOfCopies)
    check(backend, a)


@pytest.mark.parametrize("name", ["emulated", pytest.param("gpu", marks=pytest.mark.gpu)])
@pytest.mark.parametrize("by_library", [False, True])
def test_a_source_is_read_where_it_lies(
    name: str, dtype: Any, by_library: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the bits of a copy, and the norms that `take` and `certify` find; the source keeps its values."""
    if by_library:
        monkeypatch.setattr(EmulatedRuntime, "shared_bytes", 1 << 9)
    monkeypatch.setattr("poisson.backends.gpu.eigenvectors.LEAST_CHAINS", 1)
    backend = ALL_BACKENDS[name](dtype)
    assert isinstance(backend, GpuBackend)
    sine, wraps = Axis.between(0.0, 1.0, 9, (F, F)), Axis.between(0.0, 1.0, 7, (Rule.WRAP,) * 2)
    stretched = Axis.placed(Nodes(np.linspace(0.1, 1.0, 6) ** 1.5, (D, N)))
    for axes in ((sine, Axis.single()), (equal(9, (D, N)), wraps), (sine, wraps, stretched), (stretched, stretched)):
        a = Operator(Lattice(axes), 0.3)
        room = backend.runtime.allocate(2 * math.prod(a.array_shape), np.float64).reshape(2, *a.array_shape)
        room[...] = backend.runtime.xp.asarray(random_array(room.shape, np.float64, 3))
        given = backend.in_place(room[1], pytest.fail)
        assert given is not None
        given.shift = 0.25
        u, work, r = (backend.empty(a.array_shape) for _ in range(3))
        norms, source, left = (backend.reduction() for _ in range(3))
        backend.fill(u, 0.0)
        inverse, operations = backend.bind(Inverse(a, held=False)), backend.bind(a)
        assert inverse.solve_from(given, work, u, source, left) == (axes != (stretched, stretched))
        if axes == (stretched, stretched):
            continue
        expected = backend.empty(a.array_shape)
        backend.fill(expected, 0.0)
        operations.take(given, work, norms)
        assert backend.read(norms) == pytest.approx(backend.read(source), rel=1e-14)
        inverse.solve(work, expected)
        np.testing.assert_array_equal(backend.to_host(u), backend.to_host(expected))
        operations.certify(u, given, r, norms)
        assert backend.read(norms) == backend.read(left)
        np.testing.assert_array_equal(backend.runtime.download(room), random_array(room.shape, np.float64, 3))


def test_large_sizes_keep_their_digits(any_backend: Backend) -> None:
    """The lowest mode of many nodes, whose eigenvalue is a millionth of the largest, comes back as it went in."""
    a = operator((1025, 6), (Rule.FIXED,) * 2 + (Rule.WRAP,) * 2, 0.0)
    shape = np.sin(math.pi * np.arange(1025) / 1024)
    u = np.zeros(a.array_shape)
    eigenvalue = 4 * a.couplings[0] * math.sin(math.pi / 2048) ** 2
    found = solve(any_backend, a, eigenvalue * np.broadcast_to(shape, u.shape), u)
    assert np.abs(found - shape).max() < 400 * np.finfo(any_backend.dtype).eps


@pytest.mark.parametrize("name", ["numpy", "openmp"])
@pytest.mark.parametrize("rules", AXIS_RULES[:4], ids=name_of)
def test_systems_of_many_rows_keep_their_digits(name: str, rules: tuple[Rule, Rule]) -> None:
    """Also where the pivots of the elimination settle slowly: they may only be taken over once they have."""
    backend, nodes = ALL_BACKENDS[name](np.float64), 3001
    waves, step = 39.5 if rules[0] is not rules[1] else 40.0, math.pi / (nodes - 1)
    a = Operator.uniform((4, nodes), (0.1, 1.0), 1e-4, (Rule.WRAP, Rule.WRAP, *rules))
    phase = math.pi / 2 if rules[0] is Rule.FIXED else 0.0
    wave = np.repeat(np.cos(waves * step * np.arange(nodes) - phase)[:, np.newaxis], 4, axis=1)
    eigenvalue = a.c + 4.0 * math.sin(waves * step / 2) ** 2
    found = solve(backend, a, eigenvalue * wave, np.zeros_like(wave))
    assert np.abs(found - wave).max() < 2e-13


def test_a_singular_problem_leaves_out_the_mean(any_backend: Backend) -> None:
    for rules in ((Rule.MIRROR,) * 4, (Rule.WRAP,) * 4, (Rule.MIRROR, Rule.MIRROR, Rule.WRAP, Rule.WRAP)):
        a = operator((5, 6), rules, 0.0)
        found = solve(any_backend, a, np.ones(a.array_shape), random_array(a.array_shape, np.float64, 3))
        np.testing.assert_allclose(found, 0.0, atol=100 * np.finfo(any_backend.dtype).eps)


def test_a_solution_makes_nothing_anew(any_backend: Backend, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables and plans are made with the solver, kernels by the first solution; all have the same bits."""
    a = operator((12, 6), (Rule.FIXED, Rule.FIXED, Rule.MIRROR, Rule.FIXED))
    f, u = (random_array(a.array_shape, np.float64, seed) for seed in (4, 5))
    solver = any_backend.bind(Inverse(a))
    arrays = [(any_backend.from_host(f), any_backend.from_host(u)) for _ in range(3)]
    answers: list[NDArray[Any]] = []
    for others in ({"compile"}, set[str](), set[str]()):
        for module, name in MADE_ONCE:
            if name not in others:
                monkeypatch.setattr(module, name, must_not_be_called)
        source, result = arrays.pop()
        solver.solve(source, result)
        answers.append(any_backend.to_host(result))
    np.testing.assert_array_equal(answers[1:], (answers[0],) * 2)


def test_every_backend_refuses_transforms_for_varying_coefficients(any_backend: Backend) -> None:
    ones = any_backend.from_host(np.ones((4, 5)))
    c = Coefficients(None, ones, (1, 1), (1, 1))
    a = Operator.uniform((5, 4), (0.1, 0.1), 0.0, (Rule.FIXED,) * 4, coefficients=c)
    with pytest.raises(ValueError, match="constant coefficients"):
        any_backend.bind(Inverse(a))
