# SPDX-License-Identifier: MIT
"""Several sweeps in one pass of the OpenMP library: any faces, sizes, tiles, counts and numbers of threads."""

from typing import Any

import numpy as np
import pytest
from conftest import BACKENDS
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from support.operators import AXIS_RULES, name_of, operator, pairs_of_rules, random_array, rules_of

from poisson import backends
from poisson.backends.base import Backend
from poisson.backends.numpy import NumpyBackend
from poisson.discrete.discretisation import Operator
from poisson.mesh.boundary import Rule

OMEGAS = (0.6, 0.95, 1.3) * 400
"""Of the sweeps in order: no two neighbours alike, and every three of them damp."""
SMALL = {2: [(3, 3), (7, 5), (37, 18), (70, 41)], 3: [(3, 3, 3), (5, 4, 3), (27, 9, 38), (19, 37, 6)]}
# More columns, rows and planes than one tile has, and none of them a multiple of it.
LARGE: dict[Any, list[tuple[int, ...]]] = {
    np.float64: [(601, 130), (300, 1231), (1030, 19, 9), (501, 70, 23), (21, 11, 530)],
    np.float32: [(1100, 130), (300, 1231), (2060, 19, 9), (1001, 70, 23), (21, 11, 530)],
}


def openmp(dtype: Any) -> Backend:
    return BACKENDS["openmp"](dtype)


def by_sweeps(
    a: Operator, u: NDArray[Any], f: NDArray[Any], counts: set[int]
) -> dict[int, tuple[NDArray[Any], tuple[float, float]]]:
    """The iterate after each of so many sweeps of the specification, with the norms that the last of them computes."""
    numpy = NumpyBackend(u.dtype)
    norms, results = numpy.reduction(), {}
    for count, omega in enumerate(OMEGAS[: max(counts)], start=1):
        out = np.empty_like(u)
        numpy.bind(a).sweep(u, f, out, omega, norms)
        u = out
        if count in counts:
            results[count] = (u, numpy.read(norms))
    return results


def agrees(backend: Backend, a: Operator, counts: set[int], sourceless: bool = False) -> None:
    """One pass gives what repeated sweeps give, to a few units of rounding for each sweep."""
    u = random_array(a.array_shape, backend.dtype, 1)
    f = np.zeros_like(u) if sourceless else random_array(a.array_shape, backend.dtype, 2)
    start, source = backend.from_host(u), None if sourceless else backend.from_host(f)
    norms = backend.reduction()
    eps = float(np.finfo(backend.dtype).eps)
    for count, (expected, (total, largest)) in by_sweeps(a, u, f, counts).items():
        for result in (None, norms):
            out = backend.from_host(np.full_like(u, np.nan))
            backend.bind(a).sweeps(start, source, out, OMEGAS[:count], result)
            np.testing.assert_allclose(backend.to_host(out), expected, rtol=0, atol=8 * count * eps)
        assert backend.read(norms) == pytest.approx((total, largest), rel=256 * count * eps)
    np.testing.assert_array_equal(backend.to_host(start), u)


@pytest.mark.parametrize("rules", rules_of(2) + pairs_of_rules(3), ids=name_of)
def test_every_face_on_small_grids(rules: tuple[Rule, ...]) -> None:
    dimension = len(rules) // 2
    backend = openmp(np.float64)
    for shape in SMALL[dimension]:
        a = operator(shape, rules)
        depth = backend.bind(a).depth()
        agrees(backend, a, {1, 2, depth - 1, depth})


@pytest.mark.parametrize("dimension", [2, 3])
def test_every_count(dtype: Any, dimension: int) -> None:
    backend = openmp(dtype)
    for rules in (rules_of(dimension)[0], rules_of(dimension)[-6], rules_of(dimension)[-1]):
        a = operator(SMALL[dimension][2], rules)
        agrees(backend, a, set(range(1, backend.bind(a).depth() + 1)))


@pytest.mark.parametrize("number", range(5))
def test_every_face_on_grids_of_several_tiles(dtype: Any, number: int) -> None:
    backend = openmp(dtype)
    for shape in LARGE[dtype][(number + (dtype is np.float32)) % 2 :: 2]:  # each with each number in one type
        axes = [AXIS_RULES[(number + axis * (axis + 1)) % 5] for axis in range(len(shape))]
        a = operator(shape, tuple(rule for axis in axes for rule in axis))
        agrees(backend, a, {1, backend.bind(a).depth()}, sourceless=number == 3)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(data=st.data())
def test_any_shape_faces_and_count(data: st.DataObject) -> None:
    backend = openmp(data.draw(st.sampled_from([np.float64, np.float32])))
    dimension = data.draw(st.sampled_from([2, 3]))
    shape = data.draw(st.tuples(*[st.integers(3, 300 if dimension == 2 else 50)] * dimension))
    a = operator(shape, data.draw(st.sampled_from(rules_of(dimension))), data.draw(st.sampled_from([0.0, 0.3, 50.0])))
    agrees(backend, a, {data.draw(st.integers(1, backend.bind(a).depth()))})


@pytest.mark.parametrize("dimension", [2, 3])
def test_passes_have_the_bits_of_single_sweeps(dtype: Any, dimension: int) -> None:
    backend = openmp(dtype)
    for number, shape in enumerate([*SMALL[dimension], *(s for s in LARGE[dtype] if len(s) == dimension)]):
        bound = backend.bind(operator(shape, rules_of(dimension)[7 * number % 5**dimension]))
        u, f, out, even, odd = (backend.from_host(random_array(shape[::-1], dtype, seed)) for seed in range(5))
        start = u
        for count, omega in enumerate(OMEGAS[: bound.depth()], start=1):
            single = odd if count % 2 else even
            bound.sweep(start, f, single, omega)
            start = single
            if count in (1, 2, 5, bound.depth()):
                bound.sweeps(u, f, out, OMEGAS[:count])
                np.testing.assert_array_equal(backend.to_host(out), backend.to_host(start), f"{shape}, {count} sweeps")


@pytest.mark.parametrize("shape", [(601, 1231), (301, 70, 200)])
def test_passes_give_the_same_bits_for_every_number_of_threads(shape: tuple[int, ...]) -> None:
    a = operator(shape, rules_of(len(shape))[6])
    values, results = set(), set()
    for threads in (1, 2, 3):
        backend = backends.create("openmp", np.float64, threads)
        u, f = (backend.from_host(random_array(a.array_shape, np.float64, seed)) for seed in (1, 2))
        out, norms = backend.empty(a.array_shape), backend.reduction()
        backend.bind(a).sweeps(u, f, out, OMEGAS[: backend.bind(a).depth()], norms)
        values.add(backend.to_host(out).tobytes())
        results.add(backend.read(norms))
    assert len(values) == len(results) == 1


def test_passes_write_nothing_beyond_the_rows() -> None:
    """The norm and the dot product of a later call may read whole rows, padding and all."""
    backend = openmp(np.float64)
    a = operator((37, 18), rules_of(2)[-1])
    u, out = (backend.from_host(random_array(a.array_shape, np.float64, seed)) for seed in (1, 2))
    backend.bind(a).sweeps(u, None, out, OMEGAS[: backend.bind(a).depth()])
    whole = backend.empty((18 * out.pitch,))
    whole.pointer, kept = out.pointer, whole.pointer
    padding = backend.to_host(whole).reshape(18, out.pitch)[:, 37:]
    whole.pointer = kept
    np.testing.assert_array_equal(padding, 0.0)


@pytest.mark.parametrize("count", [0, 1000])
def test_a_count_out_of_range_is_refused(count: int) -> None:
    backend = openmp(np.float64)
    a = operator((9, 9), rules_of(2)[0])
    u, out = backend.empty(a.array_shape), backend.empty(a.array_shape)
    with pytest.raises(RuntimeError, match="poisson_sweeps_f64 failed with status 3"):
        backend.bind(a).sweeps(u, None, out, OMEGAS[:count])
