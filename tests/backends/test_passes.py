# SPDX-License-Identifier: MIT
"""Direct solutions in few passes over memory: what they read, certify and leave.

That they solve for every kind of face is with the other backends in test_fast_transforms.
"""

import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from support.operators import AXIS_RULES, name_of, operator, random_array

from poisson import backends
from poisson.backends.inverses import CertifyingInverse
from poisson.discrete.inverse import Inverse
from poisson.discrete.operator import Operator
from poisson.discrete.reference import fixed_nodes
from poisson.mesh.boundary import Rule

pytest.importorskip("poisson.backends.openmp.library").load_library()

FIXED, _, _, MIRROR, WRAP = AXIS_RULES
SHIFT = 0.25


def zeroed(a: Operator, values: NDArray[Any]) -> NDArray[Any]:
    """Zeros at the nodes that are not fixed."""
    return np.where(fixed_nodes(a), values, 0.0)


def given(backend: Any, values: NDArray[Any], shift: float = SHIFT) -> Any:
    """In float64 in the caller's memory, with rows longer than those of the array; else in the backend's."""
    if backend.dtype == np.float32:
        return backend.from_host(values - np.float32(shift))
    kept = np.full((*values.shape[:-1], values.shape[-1] + 3), np.nan)
    kept[..., : values.shape[-1]] = values
    found = backend.in_place(kept[..., : values.shape[-1]], pytest.fail)
    found.shift = shift
    return found


def certified(backend: Any, a: Operator, f: Any, u: NDArray[Any]) -> tuple[NDArray[Any], Any]:
    solver, values = backend.bind(Inverse(a)), backend.from_host(zeroed(a, u))
    assert isinstance(solver, CertifyingInverse)
    norms = solver.solve_certified(f, values)
    if norms:
        # What was certified on the way is what is there in the end.
        result = backend.reduction()
        backend.bind(a).certify(values, f, backend.empty(a.array_shape), result)
        squares, largest = backend.read(result)
        assert norms[1] == (pytest.approx(squares, rel=1e-13), largest)
    return backend.to_host(values), norms


def check(a: Operator, dtype: Any, threads: int = 2) -> tuple[NDArray[Any], Any]:
    """Against the same steps one by one on NumPy; boundary values and the source at fixed nodes are not zero."""
    backend, other = backends.create("openmp", dtype, threads), backends.create("numpy", np.float64)
    f, u = (random_array(a.array_shape, dtype, seed) for seed in (1, 2))
    found, norms = certified(backend, a, given(backend, f), u)
    source = np.where(fixed_nodes(a), 0.0, (f - dtype(SHIFT)).astype(np.float64))
    expected, right = other.from_host(zeroed(a, u.astype(np.float64))), other.from_host(source)
    other.bind(Inverse(a)).solve(right, expected)
    eps = float(np.finfo(dtype).eps)
    np.testing.assert_allclose(found, expected, rtol=0, atol=300 * eps * np.abs(expected).max())
    assert norms[0] == pytest.approx(((source**2).sum(), np.abs(source).max()), rel=30 * eps)
    np.testing.assert_array_equal(found[fixed_nodes(a)], u[fixed_nodes(a)])
    return found, norms


@pytest.mark.parametrize("slowest", AXIS_RULES, ids=name_of)
@pytest.mark.parametrize("rules", AXIS_RULES, ids=name_of)
def test_a_solution_comes_with_its_norms(rules: tuple[Rule, Rule], slowest: tuple[Rule, Rule], dtype: Any) -> None:
    """Of lines next to each other there are more than are taken together, and rows that no vector divides."""
    x, y, z, last = (nodes - (pair is WRAP) for nodes, pair in ((21, rules), (37, slowest), (37, rules), (7, slowest)))
    check(operator((x, y), (*rules, *slowest)), dtype)
    check(operator((x, z, last), (*rules, *reversed(rules), *slowest)), dtype)


@pytest.mark.parametrize("shape", [(3, 2), (3, 3), (4, 3, 2), (4, 3, 3)], ids=str)
def test_grids_of_few_nodes(shape: tuple[int, ...], dtype: Any) -> None:
    """A node between two that are fixed, and one beside a fixed one that is a mirror."""
    rules = [FIXED if nodes > 2 else (Rule.FIXED, Rule.MIRROR) for nodes in shape]
    check(operator(shape, tuple(rule for pair in rules for rule in pair)), dtype)


@pytest.mark.parametrize("rules", AXIS_RULES, ids=name_of)
def test_a_single_row(rules: tuple[Rule, Rule], dtype: Any) -> None:
    check(Operator.uniform((41 - (rules is WRAP), 1), (0.1, math.inf), 0.7, (*rules, *WRAP)), dtype)


@pytest.mark.parametrize(
    ("shape", "rules"),
    [((401, 257), (*FIXED, *MIRROR)), ((257, 400), (*MIRROR, *WRAP)), ((97, 36, 33), (*FIXED, *WRAP, *FIXED))],
    ids=str,
)
def test_the_threads_leave_no_trace(shape: tuple[int, ...], rules: tuple[Rule, ...]) -> None:
    """To the last bit, also of the norms, whether a thread has planes of its own or parts of them."""
    a = operator(shape, rules)
    one, norms = check(a, np.float64, 1)
    for threads in (2, 3, 16):
        found, same = check(a, np.float64, threads)
        np.testing.assert_array_equal(found, one)
        assert same == norms


def test_a_source_of_zeros_is_left_to_others() -> None:
    a = operator((9, 12, 5), (*FIXED, *WRAP, Rule.MIRROR, Rule.FIXED))
    backend, u = backends.create("openmp", np.float64, 2), random_array(a.array_shape, np.float64, 3)
    values, norms = certified(backend, a, given(backend, np.full(a.array_shape, SHIFT)), u)
    assert norms is None
    np.testing.assert_array_equal(values, zeroed(a, u))


def test_lengths_of_odd_factors_and_convolutions() -> None:
    """131 and 2·139 intervals are convolutions, 7·11 are odd factors."""
    for rules in ((*FIXED, *WRAP, *FIXED), (*MIRROR, Rule.FIXED, Rule.MIRROR, *MIRROR)):
        for shape in ((132, 77, 5), (78, 279, 6)):
            check(operator(shape, rules), np.float64, 2)


@pytest.mark.parametrize("rules", [(*FIXED, *FIXED, *FIXED), (*WRAP, *MIRROR, Rule.FIXED, Rule.MIRROR)], ids=name_of)
def test_passes_tell_of_a_value_that_is_not_finite(rules: tuple[Rule, ...]) -> None:
    a, backend = operator((9, 21, 5), rules), backends.create("openmp", np.float64, 2)
    shape, solver = a.array_shape, backend.bind(Inverse(a))
    for place in np.ndindex(shape):
        if not any(index in (0, nodes - 1) for index, nodes in zip(place, shape, strict=True)):
            continue
        for value in (np.nan, np.inf):
            values, told = np.ones(shape), []
            values[place] = value
            f = backend.in_place(values, lambda told=told: told.append(True))
            solver.solve_certified(f, backend.from_host(np.zeros(shape)))
            assert told, (place, value)
