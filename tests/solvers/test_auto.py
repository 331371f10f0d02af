# SPDX-License-Identifier: MIT
"""``method = "auto"``: what it chooses, why, and what it says."""

import itertools
import logging
import math
import weakref
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from support.parts import Division

from poisson import backends
from poisson.backends.numpy import NumpyBackend, NumpyProbe
from poisson.backends.probe import CONVOLVED, Pace
from poisson.discrete.clusters import Clusters
from poisson.discrete.operator import Coefficients, Operator
from poisson.errors import BackendUnavailable, ResourceError
from poisson.mesh.boundary import Rule
from poisson.mesh.lattice import Lattice
from poisson.problem.problem import Problem
from poisson.run.sample import Sample
from poisson.run.solver import Solver
from poisson.solvers import choose as module
from poisson.solvers import registry
from poisson.solvers.choose import Choice, choose
from poisson.solvers.entries import MethodEntry
from poisson.solvers.expected import Offer, Outline, Question
from poisson.solvers.registry import arrays_of, describe
from poisson.solvers.settings import SolverSettings

WALLS = (Rule.FIXED,) * 4
AUTO = SolverSettings()
HOLE, HOLE_SAID = np.where(np.arange(33) == 16, 0.0, np.ones((33, 33))), "a is 0 at some nodes"


class Measured(NumpyBackend):
    """A backend on which a pass over 1 MB takes 1 ms, with other figures where a test says so."""

    def __init__(
        self, dtype: Any = np.float64, free: int = 1 << 40, cycle: float = 10.0, transforms: float = 20.0
    ) -> None:
        super().__init__(dtype)
        self._free = free
        self.pace = Pace(cycle, transforms, 1e-6, 1e9)
        self.counts: list[int] = []
        self.bytes = 0.0

    def memory(self) -> tuple[int, int]:
        return self._free, self._free

    def probe(self) -> "MeasuredProbe":
        return MeasuredProbe(self)

    def seconds(self, call: Any) -> float:
        return self.bytes / 1e9


class MeasuredProbe(NumpyProbe):
    backend: Measured

    def __init__(self, backend: Measured) -> None:
        super().__init__(backend)
        self.pace = backend.pace

    def stream(self, count: int) -> tuple[Any, float]:
        self.backend.counts.append(count)
        self.backend.bytes = 16.0 * count
        return (lambda: None), self.backend.bytes


def square(nodes: int, rules: tuple[Rule, ...] = WALLS, **changes: Any) -> Operator:
    return replace(Operator.uniform((nodes, nodes), (1 / nodes, 1 / nodes), 0.0, rules), **changes)


def varying(nodes: int, jump: float, spacing: tuple[float, float] | None = None, c: bool = False) -> Operator:
    ones = np.ones((nodes, nodes))
    links = None if c else (ones, ones)
    coefficients = Coefficients(links, ones if c else None, (1.0, jump), (0.0, float(c)))
    operator = square(nodes, coefficients=coefficients)
    return operator if spacing is None else replace(operator, lattice=Lattice.uniform(operator.shape, spacing, WALLS))


def chosen(operator: Operator, backend: Any = None, precision: str = "float64", **settings: Any) -> Choice:
    return choose((backend or Measured()).bind(operator), AUTO.having(**settings), precision)


def named(choice: Choice) -> tuple[str, str]:
    return choice.settings.method, choice.precision


@pytest.mark.parametrize(
    ("operator", "method", "reason"),
    [
        (square(65), "fft", "a and c are constant, and cycles would take "),
        (varying(65, 1.0, c=True), "multigrid", "a is constant and c varies"),
        (varying(65, 5.0), "multigrid", "a varies by a factor of 5 only"),
        (varying(65, 1e3), "cg", "a varies by a factor of 1e+03"),
        (varying(65, 5.0, (0.1, 0.5)), "cg", "a varies by a factor of 5 and the spacings by 5"),
        (varying(65, 1.5, (0.1, 0.5)), "multigrid", "a varies by a factor of 1.5 only"),
    ],
)
def test_the_coefficients_decide(operator: Operator, method: str, reason: str) -> None:
    choice = chosen(operator)
    assert choice.settings.method == method
    assert choice.reason.startswith(reason)
    if method == "cg":
        assert choice.settings.preconditioner == "multigrid"


def test_the_faster_of_two_that_fit_is_taken() -> None:
    slow = Measured(transforms=500.0)
    choice = chosen(square(1025), slow)
    assert named(choice) == ("multigrid", "mixed")
    assert choice.reason.startswith("transforms would take ")
    assert named(chosen(square(1025), Measured(cycle=500.0))) == ("fft", "float64")


def test_any_method_may_offer_to_solve_a_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    """The least time on a usual device counts, not that of the moment; who offers nothing is out of the question."""
    usual = {"jacobi": 0.0, "sor": 2e-9, "chebyshev": 1e9}

    def offering(name: str) -> MethodEntry:
        def offer(question: Question) -> Offer | None:
            settings = question.settings.having(method=name)
            seconds = 1.0 / (1.0 + usual[name])
            return Offer(settings, "float64", 1e-9 + usual[name], seconds, f"the sweeps of {name}", "nothing is easier")

        return replace(registry.methods()[name], offer=offer)

    entries = {**registry.methods(), **{name: offering(name) for name in usual}}
    monkeypatch.setattr(registry, "methods", lambda: entries)
    choice = chosen(square(65))
    assert named(choice) == ("jacobi", "float64")
    assert choice.reason == "nothing is easier, and the sweeps of sor would take 3.0 times as long"
    assert choice.seconds == 1.0
    del entries["jacobi"], entries["sor"]
    assert named(chosen(square(65))) == ("fft", "float64")
    assert arrays_of(AUTO, "float64", 2) == 3.0


def test_lengths_with_large_factors_take_longer_but_keep_the_method() -> None:
    """1024 intervals have no factor above 2; 1033, 2·509 and, where the axis wraps, 1033 have."""
    backend = Measured(transforms=10.0)
    smooth = chosen(square(1025), backend)
    for operator in (square(1034), square(1019), square(1033, (Rule.WRAP,) * 2 + WALLS[:2])):
        choice = chosen(operator, backend)
        assert smooth.settings.method == choice.settings.method == "fft"
        nodes = math.prod(operator.shape) / 1025**2
        assert choice.seconds == pytest.approx(CONVOLVED * nodes * smooth.seconds, rel=1e-3)


def test_what_does_not_fit_is_not_taken() -> None:
    needed = 3 * 1025**2 * 8
    assert chosen(square(1025), Measured(free=int(needed / 0.9) + 16)).settings.method == "fft"
    choice = chosen(square(1025), Measured(free=needed))
    assert (choice.settings.method, choice.reason) == ("multigrid", "transforms would need more memory than is free")


def test_stopping_at_the_discretisation_error_takes_the_levels() -> None:
    for operator in (square(65), varying(65, 1e6)):
        choice = chosen(operator, stop="discretisation")
        assert choice.settings.method == "multigrid"
        assert choice.reason == "solver.stop asks for the discretisation error"


@pytest.mark.parametrize(
    ("nodes", "precision", "rtol", "expected"),
    [
        (513, "float64", 1e-8, "mixed"),
        (257, "float64", 1e-8, "float64"),
        (513, "float64", 0.0, "float64"),
        (513, "float32", 1e-4, "float32"),
        (65, "mixed", 1e-8, "mixed"),
    ],
)
def test_cycles_in_float32_where_they_are_faster_and_safe(
    nodes: int, precision: str, rtol: float, expected: str
) -> None:
    assert chosen(varying(nodes, 2.0), precision=precision, rtol=rtol).precision == expected


@pytest.mark.parametrize(
    ("nodes", "jump", "rtol", "expected"),
    [
        (513, 1e3, 1e-8, "mixed"),
        (257, 1e3, 1e-8, "float64"),
        (513, 1e3, 1e-11, "float64"),
        (513, 1e6, 1e-8, "float64"),
        (513, 1e6, 1e-6, "float64"),
    ],
)
def test_the_range_of_a_limits_what_mixed_precision_is_trusted_with(
    nodes: int, jump: float, rtol: float, expected: str
) -> None:
    assert named(chosen(varying(nodes, jump), rtol=rtol)) == ("cg", expected)


FREE, OPEN = (Rule.MIRROR,) * 4, (Rule.MIRROR, Rule.MIRROR, Rule.FIXED, Rule.FIXED)


def box(shape: tuple[int, ...], rules: tuple[Rule, ...], c: float = 0.0, width: float = 1.0) -> Operator:
    """A grid on a box that is so wide along y, and of width 1 along the others."""
    spacing = [1.0 / (nodes - 1) for nodes in shape]
    spacing[1] *= width
    return Operator.uniform(shape, tuple(spacing), c, rules)


def jumping(operator: Operator, jump: float) -> Operator:
    """Only the range of a counts."""
    return replace(operator, coefficients=Coefficients((None,) * 3, None, (1.0, jump), (0.0, 0.0)))


@pytest.mark.parametrize(
    ("operator", "expected"),
    [
        (box((8193, 8193), WALLS), "mixed"),
        (box((1025, 1025, 1025), (Rule.FIXED,) * 6), "mixed"),
        (box((601, 601), WALLS, width=1e3), "mixed"),
        (box((601, 601), FREE), "mixed"),
        (jumping(box((257, 257, 257), (Rule.FIXED,) * 6), 1e3), "mixed"),
        (jumping(box((601, 601), WALLS), 1e3), "mixed"),
        (jumping(box((601, 601), WALLS, width=100.0), 1e4), "mixed"),
        (jumping(box((601, 601), WALLS), 1e5), "mixed"),
        # What follows takes up to twice the cycles of float64, or does not arrive at 1e-8 at all.
        (jumping(box((2049, 2049), WALLS), 1e5), "float64"),
        (box((513, 513), FREE, c=1e-10), "float64"),
        (box((513, 513), FREE, c=1e-4), "float64"),
        (box((601, 601), FREE, width=1e3), "float64"),
        (box((601, 601), OPEN, width=100.0), "float64"),
    ],
)
def test_what_rounding_in_float32_would_spoil_stays_in_float64(operator: Operator, expected: str) -> None:
    assert choose(Outline(Measured(transforms=500.0), operator), AUTO, "float64").precision == expected


def test_without_products_the_reason_is_what_has_no_equation() -> None:
    body = {"inside": "hypot(x - 0.5, y - 0.5) < 0.2", "dirichlet": 1.0}
    backend = NumpyBackend(np.float64)
    backend.bound = {subject: made for subject, made in backend.bound.items() if subject is not Clusters}
    for given, reason in (({"bodies": [body]}, "nodes in bodies have no equation"), ({"a": HOLE}, HOLE_SAID)):
        operator = Sample(Problem.on_box((33, 33), f=1.0, **given)).operator  # type: ignore[arg-type]
        assert Question(Outline(backend, operator), AUTO, "float64").hard == reason


@pytest.mark.parametrize(("alpha", "expected"), [(1e-6, "float64"), (1.0, "mixed"), (1e3, "mixed")])
def test_robin_faces_count_by_the_mean_of_c(alpha: float, expected: str) -> None:
    a = box((513, 513), FREE)
    c = np.zeros(a.array_shape)
    c[0] = c[-1] = 2.0 * alpha / a.spacing[0]
    c_range = (0.0, float(c.max()))
    assert chosen(replace(a, coefficients=Coefficients(None, c, (1.0, 1.0), c_range))).precision == expected


def test_weights_beyond_float32_stay_in_float64() -> None:
    assert chosen(varying(513, 2.0, spacing=(1e-18, 1e-18))).precision == "float64"
    assert chosen(varying(513, 2.0, spacing=(1e18, 1e18))).precision == "float64"
    # A constant a beside a c that varies is in the weights already.
    coefficients = Coefficients(None, np.ones((513, 513)), (1e-20, 1e-20), (1.0, 1.0))
    constant = replace(varying(513, 1.0, (1.0, 1.0), c=True), a=1e-20, coefficients=coefficients)
    assert chosen(constant).precision == "mixed"


def test_the_time_expected_grows_with_the_grid_and_the_tolerance() -> None:
    times = [chosen(varying(nodes, 2.0)).seconds for nodes in (1025, 2049, 4097)]
    assert all(3.5 < after / before < 4.2 for before, after in itertools.pairwise(times))
    sharp, blunt = (chosen(varying(1025, 2.0), rtol=rtol).seconds for rtol in (1e-11, 1e-5))
    assert sharp > 2.0 * blunt
    assert chosen(varying(1025, 1e3)).seconds > chosen(varying(1025, 2.0)).seconds


def test_the_time_expected_is_that_of_the_bandwidth_measured_but_no_better_than_the_pace_allows() -> None:
    """A pass over the array of 4097² nodes takes 268 ms at 1 GB/s: twenty of them, and the calls."""
    fast, slow = Measured(), Measured()
    assert math.isclose(chosen(square(4097), fast).seconds, 20 * 16e-9 * 4097**2 + 8e-6)
    slow.pace = replace(slow.pace, highest=1e8, probe=5000)
    assert math.isclose(chosen(square(4097), slow).seconds, 20 * 16e-8 * 4097**2 + 8e-6)
    assert (fast.counts, slow.counts) == ([1 << 21], [5000])


@pytest.mark.parametrize(
    ("seconds", "crowd", "line"),
    [
        ([1.0, 1.9, 1.9], False, "about 20 s expected"),
        ([1.0, 2.1, 2.1], False, "no time estimate: the machine is busy"),
        ([1.0, 1.0, 9.0], False, "about 20 s expected"),
        ([1.0, 1.0, 1.0], True, "no time estimate: the machine is busy"),
    ],
)
def test_a_time_that_others_spoil_is_not_told(
    seconds: list[float], crowd: bool, line: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend = Measured()
    times = iter(seconds)
    monkeypatch.setattr(backend, "seconds", lambda call: next(times))
    monkeypatch.setattr(backend, "on_host", True)
    monkeypatch.setattr("poisson.backends.probe.crowded", lambda: crowd)
    choice = chosen(square(1025), backend)
    assert math.isclose(choice.seconds, 20.0 * 1025**2 / min(1 << 21, 1025**2), rel_tol=1e-3)
    assert choice.line.endswith(line)


def test_on_the_host_the_pace_follows_the_threads() -> None:
    try:
        one, two = (backends.create("openmp", np.float64, threads).probe().pace for threads in (1, 2))
    except BackendUnavailable as error:
        pytest.skip(str(error))
    assert two.highest == 2.0 * one.highest < math.inf
    assert two.probe == 2 * one.probe


def test_it_says_so_in_one_line(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("poisson.solvers.expected.UNSTEADY", math.inf)
    monkeypatch.setattr("poisson.backends.probe.crowded", lambda: False)
    with caplog.at_level(logging.INFO, logger="poisson"):
        solver = Solver(Problem.on_box((17, 17), f=1.0), backend="numpy")
    [line] = [record.getMessage() for record in caplog.records if "method" in record.getMessage()]
    assert line.startswith("method fft, as a and c are constant, and cycles would take ")
    assert line.endswith(" expected")
    solution = solver.solve()
    assert solution.provenance["method"] == "fft"
    assert str(solution.provenance["reason"]).startswith("a and c are constant")
    asked = Solver(Problem.on_box((17, 17), f=1.0), "multigrid", "numpy").solve()
    assert asked.provenance["method"] == "multigrid (V(2,1), chebyshev)"
    assert asked.provenance["reason"] == "asked for"


def test_a_choice_needs_no_memory_to_measure_with() -> None:
    class FullProbe(MeasuredProbe):
        def stream(self, count: int) -> tuple[Any, float]:
            raise ResourceError("too little memory")

    class Full(Measured):
        def probe(self) -> "FullProbe":
            return FullProbe(self)

    assert named(chosen(varying(65, 1e3), Full())) == ("cg", "float64")


def test_names_for_people() -> None:
    assert describe(replace(AUTO, method="cg"), "mixed") == (
        "cg with preconditioner multigrid (V(2,1), chebyshev), mixed precision"
    )
    assert describe(replace(AUTO, method="cg", preconditioner="none"), "float64") == "cg"
    assert describe(replace(AUTO, method="sor"), "float32") == "sor"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(4.56e-5, "46 us"), (9.94e-3, "9.9 ms"), (0.0996, "100 ms"), (1.5, "1.5 s"), (99.4, "99 s"), (600.0, "10.0 min")],
)
def test_times_for_people(seconds: float, text: str) -> None:
    assert module.time_for_people(seconds) == text


def test_memory() -> None:
    def arrays(method: str, precision: str = "float64", dimension: int = 3, **settings: Any) -> float:
        return arrays_of(AUTO.having(method=method, **settings), precision, dimension)

    assert [arrays(method) for method in ("auto", "fft", "jacobi", "sor", "chebyshev")] == [3.0] * 5
    assert arrays("jacobi", loop="staged") == 4.0
    assert math.isclose(arrays("multigrid"), 4.0 + 4.25 / 7.0)
    assert math.isclose(arrays("multigrid", dimension=2), 4.0 + 4.25 / 3.0)
    assert math.isclose(arrays("multigrid", "mixed"), 3.0 + 1.0 / 8.0 + 0.5 * arrays("multigrid"))
    # In float32 the residual, the sum of steps, and four that take turns.
    assert math.isclose(arrays("cg", "mixed"), 3.0 + 0.5 * (6.0 + 4.25 / 7.0))
    assert arrays("cg", preconditioner="none") == 7.0 < arrays("cg")
    assert arrays_of(replace(AUTO, method="jacobi"), "float64", 2, varies=True) == 6.0


@pytest.mark.parametrize(
    ("method", "form"),
    [("cg", "shortley_weller"), ("cg", "symmetric"), ("chebyshev", "shortley_weller"), ("chebyshev", "")],
)
def test_memory_beside_bodies(method: Any, form: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """All arrays of the backend that live beside a solution, which has u."""
    made: list[weakref.ref[Any]] = []
    for name in ("empty", "from_host", "assemble"):
        make = getattr(NumpyBackend, name)

        def noted(*given: Any, make: Any = make, **more: Any) -> Any:
            array = make(*given, **more)
            if all(each() is not array for each in made):
                made.append(weakref.ref(array))
            return array

        monkeypatch.setattr(NumpyBackend, name, noted)
    kind = {"dirichlet": 1.0} if form else {"neumann": 0.0}
    bodies = [{"inside": "hypot(x - 0.5, y - 0.5) < 0.2", **kind}]
    problem = Problem.on_box((21, 19), f=1.0, bodies=bodies, surface=form or "shortley_weller")
    settings = {"preconditioner": "jacobi"} if method == "cg" else {}
    solver = Solver(problem, method, "numpy", **settings)  # type: ignore[arg-type]
    solution = solver.solve()
    live = [each for each in (ref() for ref in made) if each is not None and each.shape == solution.u.shape]
    whole = len({each.__array_interface__["data"][0] for each in live})
    assert whole == arrays_of(solver.settings, "float64", 2, varies=True, surface=form)


@pytest.mark.parametrize(("on_host", "expected"), [(True, "fft"), (False, "multigrid")])
def test_cells_on_several_gpus_have_no_direct_solution(on_host: bool, expected: str) -> None:
    """GPUs that divide an axis solve directly for equally spaced nodes alone; the part of a rank is asked for."""
    problem = Problem.on_box((64, 64), centring="cell")
    whole = Operator(problem.lattice, 0.0, 1.0)
    division = Division.of(whole, {1: (0, 32)}, 1)
    backend = Measured()
    backend.on_host = on_host
    choice = choose(Outline(backend, division.operator(division.parts[0])), AUTO, "float64")
    assert choice.settings.method == expected
    assert on_host or choice.reason == "direct solution on several GPUs needs equally spaced nodes"
