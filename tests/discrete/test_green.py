# SPDX-License-Identifier: MIT
"""Solutions where faces are open, against the operator on a larger grid, and the lattice Green's function.

Covers poisson.discrete.face_fields, poisson.discrete.face_products and poisson.backends.gpu.faces.
"""

import itertools
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse import linalg

import poisson
from poisson import backends
from poisson.discrete import face_products
from poisson.discrete.green import Times, heat_kernels, on_a_line
from poisson.discrete.operator import Operator
from poisson.mesh.boundary import FACE_NAMES, Rule

F, M, W, N, R = Rule.FIXED, Rule.MIRROR, Rule.WRAP, None, "robin"
ENDS = [(N, N), (F, N), (N, F), (M, N), (N, M), (F, F), (M, F), (F, M), (M, M), (W, W), (R, F)]
"""What may stand at the ends of an axis; nothing where it is open."""

ALPHA = 0.7
"""α of a Robin face over the coefficient a."""

BEYOND = 12
"""Nodes beyond an open face of a grid on which a field has decayed: to 1e-15 and less with these c and h."""


def _table(half: int, *weights: float, a: float = 1.0, c: float = 0.0) -> NDArray[np.float64]:
    """The Green's function at the distances from 0 on."""
    far = Operator.uniform((3,) * len(weights), tuple((a / w) ** 0.5 for w in weights), c, (F, F) * len(weights), a)
    times = Times.of([(half, weight) for weight in weights], far, c)
    kernels = [times.kernels(half, weight) for weight in weights]
    letters = "xyz"[: len(weights)]
    return np.einsum(f"t,{','.join('t' + axis for axis in letters)}->{letters}", times.weights, *kernels, optimize=True)


def _matrix(nodes: int, spacing: float, ends: tuple[Any, Any]) -> NDArray[np.float64]:
    """−δ²/h² along an axis; rows of fixed nodes are never used."""
    found = 2.0 * np.eye(nodes) - np.eye(nodes, k=1) - np.eye(nodes, k=-1)
    if ends[0] is W:
        found[0, -1] = found[-1, 0] = -1.0
    if ends[0] in (M, R):
        found[0, 1] = -2.0
        found[0, 0] += 2.0 * ALPHA * spacing if ends[0] is R else 0.0
    if ends[1] is M:
        found[-1, -2] = -2.0
    return found / spacing**2


def _on_a_larger_grid(
    ends: Any, spacing: Any, a: float, c: float, f: NDArray[np.float64], u: NDArray[np.float64]
) -> NDArray[np.float64]:
    """The solution with so many nodes more beyond each open face."""
    own, big, fixed = [], sparse.csr_array([[c]]), np.zeros((1,), dtype=bool)
    for nodes, h, pair in zip(f.shape[::-1], spacing, ends, strict=True):
        more = [BEYOND if end is N else 0 for end in pair]
        total = nodes + sum(more)
        own.append(slice(more[0], more[0] + nodes))
        here = np.zeros(total, dtype=bool)
        here[[0, -1]] = [end is F for end in pair]
        line = sparse.csr_array(a * _matrix(total, h, pair))
        big = sparse.kron(sparse.eye_array(total), big) + sparse.kron(line, sparse.eye_array(big.shape[0]))
        fixed = (here[:, np.newaxis] | fixed).ravel()
    shape = tuple(n + sum(BEYOND for end in pair if end is N) for n, pair in zip(f.shape[::-1], ends, strict=True))[
        ::-1
    ]
    source, found = np.zeros(shape), np.zeros(shape)
    source[tuple(own[::-1])] = f
    found[tuple(own[::-1])] = u
    found[~fixed.reshape(shape)] = 0.0
    big, free = sparse.csr_array(big), ~fixed
    right = source.ravel() - big @ found.ravel()
    found.ravel()[free] = linalg.spsolve(sparse.csc_array(big[free][:, free]), right[free])
    return found[tuple(own[::-1])]


@pytest.mark.usefixtures("backends_by_name")
@pytest.mark.parametrize("name", backends.NAMES)
@pytest.mark.parametrize("dimension", [2, 3])
def test_it_is_the_solution_on_a_larger_grid(dimension: int, name: str) -> None:
    """Every mix of ends in 2D, some in 3D, with charges on open faces and data on others."""
    rng, spacing, a, c = np.random.default_rng(5), (1.0, 0.8, 1.25)[:dimension], 1.5, 40.0
    mixes = list(itertools.product(ENDS, repeat=dimension))
    if name == "gpu":
        mixes = mixes[3::12]
    if dimension == 3:
        mixes = [((N, N), (M, N), (W, W)), ((N, F), (N, N), (N, N)), ((F, M), (N, N), (M, F))]
        mixes.append(((N, N), (R, F), (N, M)))
    for number, ends in enumerate(mixes):
        faces = [end for pair in ends for end in pair]
        if N not in faces:
            continue
        dtype = np.float32 if number % 5 == 4 else np.float64
        shape = (5, 4, 3)[-dimension:] if dimension == 3 else (6, 5)
        f, held, u = rng.standard_normal(shape), np.zeros(shape, dtype=bool), rng.standard_normal(shape)
        for face, end in enumerate(faces):
            if end is F:
                np.moveaxis(held, dimension - 1 - face // 2, 0)[-(face % 2)] = True
        f[held] = 0.0
        expected = _on_a_larger_grid(ends, spacing, a, c, f * _parts(ends, shape), u)
        boundary: dict[str, Any] = {}
        for face, end in enumerate(faces):
            along = np.moveaxis(u, dimension - 1 - face // 2, 0)[-(face % 2)]
            robin = {"robin": 0.0, "alpha": a * ALPHA}
            boundary[FACE_NAMES[face]] = {F: {"dirichlet": along}, M: {"neumann": 0.0}, N: "open", R: robin}.get(end)
            if end is W:
                boundary.pop(FACE_NAMES[face])
                boundary[FACE_NAMES[face][0]] = "periodic"
        upper = [h * (n if pair[0] is W else n - 1) for n, h, pair in zip(shape[::-1], spacing, ends, strict=True)]
        problem = poisson.Problem.on_box(shape[::-1], f=f, a=a, c=c, boundary=boundary, upper=upper)
        single = dtype == np.float32
        method: Any = "cg" if R in faces else "fft"
        solution = poisson.solve(
            problem, method, name, "float32" if single else "float64", rtol=1e-4 if single else 1e-12
        )
        assert solution.status.success, solution
        atol = 3e-6 if single else 1e-12
        np.testing.assert_allclose(solution.u, expected, rtol=0, atol=atol, err_msg=str(ends))


def _parts(ends: Any, shape: tuple[int, ...]) -> NDArray[np.float64]:
    """The part of the cell of each node that lies in the box, across open faces."""
    found = np.ones(shape)
    for axis, pair in enumerate(ends):
        for end in (0, -1):
            if pair[end] is N:
                np.moveaxis(found, len(shape) - 1 - axis, 0)[end] *= 0.5
    return found


def test_heat_kernels_are_scaled_bessel_functions() -> None:
    from scipy.special import ive

    z = np.exp(np.linspace(-20.0, 18.0, 60))
    np.testing.assert_allclose(heat_kernels(40, z), ive(np.arange(41.0), z[:, np.newaxis]), rtol=0, atol=5e-16)


def test_the_function_of_the_cubic_lattice() -> None:
    """At 0 that of G. N. Watson (1939), by the Gamma functions of M. L. Glasser and I. J. Zucker (1977); far away the
    expansion of P.-G. Martinsson and G. J. Rodin (2002)."""
    from scipy.special import gamma

    table = _table(30, 1.0, 1.0, 1.0)
    watson = np.sqrt(6.0) / (192.0 * np.pi**3) * np.prod(gamma(np.array([1.0, 5.0, 7.0, 11.0]) / 24.0))
    assert table[0, 0, 0] == pytest.approx(watson, rel=1e-14)
    assert 6.0 * (table[0, 0, 0] - table[1, 0, 0]) == pytest.approx(1.0, rel=1e-14)
    n, (x, y, z) = 26.0, np.array([24.0, 6.0, 8.0])
    quartic = (x**4 + y**4 + z**4) / n**4
    expansion = (1.0 + (5.0 * quartic - 3.0) / (8.0 * n**2)) / (4.0 * np.pi * n)
    assert table[24, 6, 8] == pytest.approx(expansion, rel=2.0 / n**4)


def test_the_function_of_the_square_lattice_tends_to_the_logarithm() -> None:
    table = _table(40, 1.0, 1.0)
    assert table[0, 0] == pytest.approx((np.euler_gamma + 1.5 * np.log(2.0)) / (2.0 * np.pi), rel=1e-13)
    assert table[0, 0] - table[1, 1] == pytest.approx(1.0 / np.pi, rel=1e-14)
    assert table[32, 24] == pytest.approx(-np.log(40.0) / (2.0 * np.pi), abs=0.05 / 40.0**2)
    # In other lengths it is the same function, whose logarithm is that of r in L.
    weight = 3.0 / 0.01**2
    other = weight * _table(40, weight, weight, a=3.0)
    np.testing.assert_allclose(other, table - np.log(0.01) / (2.0 * np.pi), rtol=0, atol=1e-12)


def test_the_function_of_a_line() -> None:
    root = np.exp(-2.0 * np.arcsinh(np.sqrt(0.3 / 4.0) / 2.0))
    for n in range(21):
        found = on_a_line(np.array([0.0, 0.3]), 4.0, n)
        np.testing.assert_allclose(found, [-n / 8.0, root**n / (8.0 * (1.0 - root) + 0.3)], rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize(("rows", "columns"), [(48, 73), (50, 96), (53, 70)])
def test_products_by_tiles_are_the_products(rows: int, columns: int) -> None:
    generator = np.random.default_rng(8)
    left, right = generator.random((1, 2, 1, rows, 200)), generator.random((2, 2, 2, 200, columns))
    assert rows * columns * 200 > 2 * face_products.ALONE > 2 * face_products.TILE**2 * 200
    out, turned = np.empty((2, 2, 2, rows, columns)), np.empty((2, 2, 2, columns, rows)).swapaxes(-1, -2)
    for each in (out, turned):
        face_products.multiply(left, right, each)
        np.testing.assert_allclose(each, left @ right, rtol=1e-13)
