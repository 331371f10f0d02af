# SPDX-License-Identifier: MIT
"""Direct solution by fast transforms on several ranks against that of one.

Covers poisson.backends.slabs, poisson.backends.gpu.slabs and poisson.mesh.chain.
"""

import itertools
import math
from typing import Any

import numpy as np
import pytest
from conftest import BACKENDS
from numpy.typing import NDArray
from support.axes import Example, examples
from support.operators import AXIS_RULES, SPACING, name_of, random_array, rules_of
from support.parts import Division
from support.ranks import ThreadCommunicator, on_ranks

from poisson.backends.base import Backend
from poisson.backends.gpu import tridiagonal
from poisson.backends.ledger import counted
from poisson.backends.numpy import NumpyBackend
from poisson.backends.openmp.backend import OFFLOADED
from poisson.discrete.inverse import Inverse
from poisson.discrete.operator import Operator
from poisson.errors import GridError
from poisson.mesh.axis import Axis
from poisson.mesh.boundary import Rule
from poisson.mesh.lattice import Lattice
from poisson.parallel import fast
from poisson.parallel.communicator import Communicator
from poisson.parallel.fast import DistributedFastSolver

ROUNDING = {"float32": 3e-6, "float64": 1e-13}

BACKEND = NumpyBackend(np.float64)
ALL_BACKENDS: dict[str, Any] = {"numpy": NumpyBackend, **BACKENDS}


def cuts_of(nodes: int, size: int) -> tuple[int, ...]:
    """Where the parts of an axis begin; a first and a last one that are fixed nodes alone have no unknown."""
    return tuple(max(number, number * nodes // size) for number in range(size))


def solve(make: Any, dtype: Any, whole: Operator, cuts: tuple[int, ...], rounding: float = 1.0) -> None:
    """Compare with the undivided solution of random data in float64, to `rounding` times the digits of short axes."""
    f, u = (random_array(whole.array_shape, dtype, seed) for seed in (1, 2))
    expected = u.astype(np.float64)
    NumpyBackend(np.float64).bind(Inverse(whole)).solve(f.astype(np.float64), expected)
    found = solved(make, dtype, whole, cuts, f, u)
    scale = np.abs(expected).max()
    np.testing.assert_allclose(found, expected, rtol=0, atol=rounding * ROUNDING[np.dtype(dtype).name] * scale)


def solved(
    make: Any, dtype: Any, whole: Operator, cuts: tuple[int, ...], f: NDArray[Any], u: NDArray[Any]
) -> NDArray[Any]:
    """On as many ranks as there are cuts; what halos have at the start must not matter."""
    division = Division.of(whole, {whole.dimension - 1: cuts}, 1)

    def one(communicator: Communicator) -> NDArray[Any]:
        part = division.parts[communicator.rank]
        local = make(dtype)
        with np.errstate(divide="raise", invalid="raise"):
            solver = DistributedFastSolver(local, division.operator(part), communicator)
        arrays = []
        for values in (f, u):
            own = np.full(part.array_shape, np.nan, dtype=dtype)
            taken = np.ix_(*(axis.index[axis.owned] for axis in reversed(part.axes)))
            own[part.owned] = values[taken]
            arrays.append(local.from_host(own))
        with np.errstate(divide="raise", invalid="raise"):
            solver.solve(*arrays)
        return local.to_host(arrays[1])

    return division.gathered(on_ranks(len(cuts), one))


@pytest.fixture(
    params=["numpy", "openmp", "copies", "emulated", "emulated-long", pytest.param("gpu", marks=pytest.mark.gpu)]
)
def make(request: pytest.FixtureRequest, dtype: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Makes a backend; *long* are kernels for chains that fit no registers."""
    if request.param.startswith("emulated") and dtype == np.float32:
        pytest.skip("the kernels are compiled in either type elsewhere, and take as long here as all other cases")
    if request.param == "emulated-long":
        monkeypatch.setattr(tridiagonal, "MODES", ())
        return ALL_BACKENDS["emulated"]
    if request.param != "copies":
        return ALL_BACKENDS[request.param]

    def offloading(dtype: Any) -> Backend:
        backend: Any = BACKENDS["openmp"](dtype)
        backend.offloads, backend.bound = True, OFFLOADED
        return backend  # type: ignore[no-any-return]

    return offloading


@pytest.fixture(params=[True, False], ids=["gathered", "shared"])
def ways(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both ways to solve for the separators."""
    if not request.param:
        monkeypatch.setattr(fast, "GATHERED_BYTES", -1)


@pytest.mark.usefixtures("ways")
@pytest.mark.parametrize("rules", rules_of(2), ids=name_of)
def test_two_dimensions_on_ranks(rules: tuple[Rule, ...], dtype: Any) -> None:
    # What is done differently in float32 is done alike for every size.
    for c, size in itertools.product((0.0, 0.7), (2, 3, 5) if dtype == np.float64 else (3,)):
        solve(NumpyBackend, dtype, Operator.uniform((6, 13), SPACING[:2], c, rules), cuts_of(13, size))


@pytest.mark.parametrize("rules", AXIS_RULES, ids=name_of)
@pytest.mark.parametrize("beyond", [-1, 1 << 22], ids=["shared", "gathered"])
def test_planes_that_stay_on_the_device(rules: tuple[Rule, Rule], beyond: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is brought to the host and back."""
    monkeypatch.setattr(ThreadCommunicator, "on_device", True)
    monkeypatch.setattr(fast, "GATHERED_BYTES_ON_DEVICE", beyond)
    whole = Operator.uniform((37, 13), SPACING[:2], 0.0, (Rule.MIRROR, Rule.MIRROR, *rules))

    def without_copies(dtype: Any) -> Backend:
        backend = BACKENDS["emulated"](dtype)
        rows = 13 // 3
        take = backend.to_host

        def to_host(array: Any) -> Any:
            assert array.shape[0] >= rows, "a plane is brought to the host"
            return take(array)

        backend.to_host = to_host  # type: ignore[method-assign]
        return backend

    solve(without_copies, np.float64, whole, (0, 4, 9))


@pytest.mark.parametrize("rules", AXIS_RULES, ids=name_of)
def test_other_backends_on_ranks(make: Any, rules: tuple[Rule, Rule], dtype: Any) -> None:
    """Also where a plane has more columns than are taken together, and rows that no vector divides."""
    for first, c in ((Rule.MIRROR, 0.0), (Rule.FIXED, 0.0), (Rule.WRAP, 0.7)):
        solve(make, dtype, Operator.uniform((37, 13), SPACING[:2], c, (first, first, *rules)), (0, 2, 7))
    for faces in ((Rule.MIRROR,) * 2 + (Rule.WRAP,) * 2, (Rule.FIXED, Rule.MIRROR, Rule.FIXED, Rule.FIXED)):
        solve(make, dtype, Operator.uniform((5, 6, 11), SPACING, 0.0, (*faces, *rules)), (0, 3, 6, 9))


@pytest.mark.usefixtures("ways")
@pytest.mark.parametrize("last", AXIS_RULES, ids=name_of)
def test_three_dimensions_on_ranks(last: tuple[Rule, Rule], dtype: Any) -> None:
    for first, size in itertools.product(AXIS_RULES, (2, 4) if dtype == np.float64 else (4,)):
        rules = (*first, Rule.MIRROR, Rule.MIRROR, *last)
        solve(NumpyBackend, dtype, Operator.uniform((5, 6, 11), SPACING, 0.0, rules), cuts_of(11, size))


@pytest.mark.parametrize("rules", AXIS_RULES, ids=name_of)
def test_runs_of_one_plane_and_of_separators_alone(make: Any, rules: tuple[Rule, Rule], dtype: Any) -> None:
    """Two planes a rank are one inner node and a separator; one is a separator that is linked to its neighbours."""
    free = Rule.FIXED not in rules
    for c, cuts in (
        (0.0, (0, 2, 4, 6)),
        (0.7, (0, 2, 3, 4, 6)),
        (0.0, (0, 3)),
        *((c, range(8)) for c in (0.0, 0.7) if free),
    ):
        whole = Operator.uniform((6, 8), SPACING[:2], c, (Rule.MIRROR, Rule.MIRROR, *rules))
        solve(make, dtype, whole, tuple(cuts))


@pytest.mark.parametrize("rules", AXIS_RULES, ids=name_of)
@pytest.mark.parametrize("ratio", [1e-3, 1e3])
def test_weak_and_strong_couplings_keep_their_digits(
    make: Any, rules: tuple[Rule, Rule], ratio: float, dtype: Any
) -> None:
    """From Green's functions that are linear to ones that vanish from a node to the next, and those between."""
    for other, scale in zip((Rule.FIXED, Rule.MIRROR), (1.0, 3e-2)[:: 1 if ratio > 1 else -1], strict=True):
        whole = Operator.uniform((9, 131), (0.1, 0.1 * scale * ratio), 0.0, (other, other, *rules))
        # 131 planes have a condition of 131² / π²: which kernels NumPy's BLAS takes changes as many digits.
        solve(make, dtype, whole, (0, 40, 77), 4.0)


def test_what_is_far_from_a_separator_is_left_out_without_a_digit_less(make: Any, dtype: Any) -> None:
    """Every mode falls by more than e from a plane to the next, and the modes fill whole blocks of columns."""
    whole = Operator.uniform((41, 90), (0.1, 1.0), 5.0, (Rule.FIXED,) * 4)
    solve(make, dtype, whole, (0, 45))


def test_the_lowest_mode_of_many_planes_keeps_its_digits() -> None:
    nodes = 3001
    whole = Operator.uniform((4, nodes), (0.1, 1.0), 1e-4, (Rule.WRAP, Rule.WRAP, Rule.MIRROR, Rule.MIRROR))
    wave = np.cos(40.0 * math.pi / (nodes - 1) * np.arange(nodes))
    eigenvalue = whole.c + 4.0 * math.sin(20.0 * math.pi / (nodes - 1)) ** 2
    u = np.repeat(wave[:, np.newaxis], 4, axis=1)
    assert np.abs(solved(NumpyBackend, np.float64, whole, (0, 999, 2000), eigenvalue * u, 0 * u) - u).max() < 2e-13


def test_a_singular_source_loses_its_mean_on_every_rank(dtype: Any) -> None:
    for rules in ((Rule.MIRROR,) * 4, (Rule.WRAP,) * 4):
        whole = Operator.uniform((6, 9), SPACING[:2], 0.0, rules)
        ones = np.ones(whole.array_shape)
        found = solved(NumpyBackend, dtype, whole, (0, 2, 5), ones, random_array(whole.array_shape, dtype, 1))
        np.testing.assert_allclose(found, 0.0, atol=100 * np.finfo(dtype).eps)


@pytest.mark.parametrize("placed", examples(8), ids=lambda example: example.name)
@pytest.mark.parametrize("name", ["numpy", "openmp"])
def test_axes_with_other_nodes_are_eliminated_node_by_node(placed: Example, name: str) -> None:
    x = Axis.between(0.0, 1.0, 6, (Rule.MIRROR, Rule.MIRROR))
    for lines in ((x, placed.axis), (placed.axis, x), (placed.axis,) * 2):
        for c, cuts in ((0.0, (0, 2, 3, 5)), (0.7, (0, 3))):
            solve(ALL_BACKENDS[name], np.float64, Operator(Lattice(lines), c), cuts)


def test_what_is_no_slab_is_refused() -> None:
    whole = Operator.uniform((6, 8, 8), SPACING, 0.0, (Rule.FIXED,) * 6)
    division = Division.of(whole, {1: (0, 4), 2: (0,)}, 1)
    with pytest.raises(GridError, match=r"whole planes on every rank: divide z alone"):
        on_ranks(2, lambda ranks: DistributedFastSolver(BACKEND, division.operator(division.parts[ranks.rank]), ranks))
    division = Division.of(whole, {2: (0, 7)}, 1)
    with pytest.raises(GridError, match=r"at least one plane of unknowns on every rank: use fewer ranks than 2"):
        on_ranks(2, lambda ranks: DistributedFastSolver(BACKEND, division.operator(division.parts[ranks.rank]), ranks))


@pytest.mark.parametrize(("size", "planes"), [(2, 2.0), (3, 8 / 3), (4, 3.0)])
def test_only_planes_travel(size: int, planes: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """As many in a ring as the module says at most: shared by modes where that is less."""
    monkeypatch.setattr(fast, "GATHERED_BYTES", 0)
    whole = Operator.uniform((14, 16), SPACING[:2], 0.0, (Rule.FIXED,) * 2 + (Rule.WRAP,) * 2)
    division = Division.of(whole, {1: cuts_of(16, size)}, 1)

    def one(communicator: ThreadCommunicator) -> tuple[float, int]:
        part = division.operator(division.parts[communicator.rank])
        solver = DistributedFastSolver(BACKEND, part, communicator)
        solver.solve(np.zeros(part.array_shape), np.zeros(part.array_shape))
        return communicator.bytes / (8.0 * 12), communicator.exchanges

    for sent, exchanges in on_ranks(size, one):
        assert sent == pytest.approx(planes)
        assert exchanges == (1 if size == 2 else 2)


def test_both_halves_of_a_direct_solution_are_counted() -> None:
    whole = Operator.uniform((6, 9), SPACING[:2], 0.0, (Rule.FIXED,) * 4)
    division = Division.of(whole, {1: (0, 4)}, 1)

    def one(communicator: Communicator) -> dict[str, tuple[int, int]]:
        part = division.operator(division.parts[communicator.rank])
        local, ledger = counted(NumpyBackend(np.float64))
        solver = DistributedFastSolver(local, part, communicator)
        for _ in range(2):
            solver.solve(np.zeros(part.array_shape), np.zeros(part.array_shape))
        return {call.name: (count, call.nodes) for call, count in ledger.counts.items()}

    nodes = [math.prod(part.shape) for part in division.parts]
    assert on_ranks(2, one) == [{"slab_condense": (2, each), "slab_expand": (2, each)} for each in nodes]
