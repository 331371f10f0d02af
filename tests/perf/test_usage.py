# SPDX-License-Identifier: MIT
"""What the operations of a solve reached: counted, timed by a scripted clock, shown and written."""

import dataclasses
import logging
import re
from collections.abc import Callable
from pathlib import Path
from types import MappingProxyType
from typing import Any

import h5py
import numpy as np
import pytest
from support.operators import operator
from support.places import ROOT
from support.results import make_solution

import poisson
from poisson.backends.base import Backend
from poisson.backends.ledger import Ledger, counted
from poisson.backends.numpy import NumpyBackend, NumpyOperations, NumpyProbe
from poisson.case import Case, load
from poisson.cli.summary import operations
from poisson.discrete.operator import Operator
from poisson.errors import ResourceError
from poisson.mesh.boundary import Rule
from poisson.output import description, result
from poisson.output.record import AGAIN, OperationUse, Performance
from poisson.perf import timing, usage
from poisson.perf.usage import appraise, bandwidth_of
from poisson.run import run
from poisson.run.run import go_on
from poisson.run.solver import Solver

OPERATOR = operator((64, 32), (Rule.FIXED,) * 4)
NODES = 64 * 32


class TimedOperations(NumpyOperations):
    """Operations that move the clock of their backend."""

    def sweep(self, *arguments: Any, **named: Any) -> None:
        super().sweep(*arguments, **named)
        self.backend.now += 1e-3  # type: ignore[attr-defined]

    def norm(self, *arguments: Any, **named: Any) -> None:
        super().norm(*arguments, **named)
        self.backend.now += 1e-5  # type: ignore[attr-defined]


class Clock(NumpyBackend):
    """NumPy, where a sweep takes a millisecond, a norm takes 10 µs, and memory moves 50 GB/s or what is given."""

    bound = MappingProxyType({**NumpyBackend.bound, Operator: TimedOperations})

    def __init__(self, rate: float = 50e9) -> None:
        super().__init__(np.float64)
        self.rate = rate
        self.now = 0.0
        self.streamed: list[int] = []

    def probe(self) -> "ClockProbe":
        return ClockProbe(self)

    def seconds(self, call: Callable[[], None]) -> float:
        before = self.now
        call()
        return self.now - before


class ClockProbe(NumpyProbe):
    backend: Clock

    def stream(self, count: int) -> tuple[Callable[[], None], float]:
        self.backend.streamed.append(count)

        def copy() -> None:
            self.backend.now += 16.0 * count / self.backend.rate

        return copy, 16.0 * count


def used(backend: NumpyBackend, sweeps: int, norms: int) -> Ledger:
    stand_in, ledger = counted(backend)
    u, f, r = (backend.from_host(np.ones(OPERATOR.array_shape)) for _ in range(3))
    for _ in range(sweeps):
        stand_in.bind(OPERATOR).sweep(u, f, r, 1.0)
    for _ in range(norms):
        stand_in.bind(OPERATOR).norm(r, np.zeros(2))
    return ledger


def test_the_time_is_that_of_one_call_times_the_calls() -> None:
    backend = Clock()
    found = appraise(backend, used(backend, 40, 3), 0.05)
    assert found is not None
    assert [(use.operation, use.calls) for use in found.operations] == [("sweep", 40), ("norm", 3)]
    sweep, norm = found.operations
    assert (sweep.seconds, norm.seconds) == (pytest.approx(0.04), pytest.approx(3e-5))
    assert (sweep.bytes, norm.bytes) == (40 * 24 * NODES, 3 * 8 * NODES)
    assert (sweep.flops, norm.flops) == (40 * 14 * NODES, 3 * 2 * NODES)
    assert sweep.bandwidth == pytest.approx(24e3 * NODES)
    assert found.bandwidth == pytest.approx(50e9)
    # Those of the benchmarks, which no cache holds, though the solve had few nodes.
    assert found.array_bytes == 8 * timing.stream_values(backend)


def test_the_measurement_is_short() -> None:
    for rate in (50e9, 5e9):
        backend = Clock(rate)
        ledger = used(backend, 40, 3)
        before = backend.now
        appraise(backend, ledger, 0.05)
        assert backend.now - before < 1.5 * (usage.BUDGET_SECONDS + usage.COPY_SECONDS)


def test_few_slow_sweeps_are_not_timed_again(caplog: pytest.LogCaptureFixture) -> None:
    backend = Clock()
    with caplog.at_level(logging.INFO, "poisson"):
        assert appraise(backend, used(backend, 2, 1), 30.0) is None
    assert caplog.messages == ["the operations were not timed: a few calls of each would take longer than the solve"]


def test_nothing_ran() -> None:
    assert appraise(Clock(), Ledger(), 0.0) is None


def test_the_bandwidth_is_that_of_the_benchmarks_as_far_as_the_time_allows(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a GPU copies of 20 µs, of arrays that its L2 cache holds in part, told two thirds of what there is."""
    monkeypatch.setattr(usage, "stream_values", lambda backend: 1 << 27)
    quick = Clock(4000e9)
    assert bandwidth_of(quick) == (pytest.approx(4000e9), 8 << 27)
    assert quick.streamed == [usage.FIRST_STREAM, 1 << 27]
    assert timing.copy_bandwidth(quick) == pytest.approx(4000e9)
    usual = Clock(20e9)
    bandwidth, array_bytes = bandwidth_of(usual)
    assert bandwidth == pytest.approx(20e9) and 8 * usage.FIRST_STREAM < array_bytes < 8 << 27
    assert usual.now < 1.2 * usage.COPY_SECONDS
    slow = Clock(0.5e9)
    assert bandwidth_of(slow) == (pytest.approx(0.5e9), 8 * usage.FIRST_STREAM)
    monkeypatch.setattr(usage, "stream_values", lambda backend: 1 << 20)
    little_memory = Clock()
    assert bandwidth_of(little_memory) == (pytest.approx(50e9), 8 << 20)
    assert little_memory.streamed == [1 << 20]


class BrokenProbe(ClockProbe):
    def stream(self, count: int) -> tuple[Callable[[], None], float]:
        raise ResourceError("too little memory")


class Broken(Clock):
    def probe(self) -> BrokenProbe:
        return BrokenProbe(self)


CASE = ["domain.shape=[33, 17]", 'run.backend="numpy"', "solver.method=jacobi", "solver.max_iterations=50"]


def test_a_solve_without_memory_to_measure_with_keeps_its_result(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("poisson.backends.create", lambda name, dtype, threads=0: Broken())
    solution = go_on(load(ROOT / "cases/unit_square.toml", CASE), None, appraise=appraise)
    assert solution.iterations == 50
    assert solution.performance is None
    assert "the operations could not be timed: too little memory" in caplog.messages


@pytest.mark.usefixtures("short_measurements")
def test_measuring_leaves_the_result_as_it_is() -> None:
    case = load(ROOT / "cases/unit_square.toml", CASE)
    plain, measured = poisson.solve(case), go_on(case, None, appraise=appraise)
    assert np.array_equal(plain.u, measured.u)
    assert (plain.residual, plain.history, plain.error) == (measured.residual, measured.history, measured.error)
    assert plain.performance is None
    assert measured.performance is not None
    calls = {use.operation: use.calls for use in measured.performance.operations}
    sweeps = {name: re.match(r"sweeps x(\d+)", name) for name in calls}
    assert sum(calls[name] * int(match[1]) for name, match in sweeps.items() if match) == 50
    assert {"appraise", AGAIN} <= set(measured.times) and not {"appraise", AGAIN} & set(plain.times)


def test_the_loop_is_timed_again_without_being_counted() -> None:
    """What is compiled and recorded in the first is there in the second, whatever the method records."""
    for method, backend in (("jacobi", "numpy"), ("multigrid", "openmp"), ("fft", "openmp")):
        settings = [f"solver.method={method}", f"run.backend={backend}", "domain.shape=[33, 17]", "solver.rtol=1e-6"]
        case = load(ROOT / "cases/unit_square.toml", settings)
        once, twice = counts_of(case), counts_of(case, again=True)
        assert once and once == twice


def test_few_operations_of_a_loop_with_a_warm_up_are_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where kernels are compiled in the first loop, its time does not tell what a few calls of them take."""
    keep_on, found = Solver.keep_on, list[float]()

    def slow_at_first(solver: Solver, *given: Any, **more: Any) -> Any:
        solution = keep_on(solver, *given, **more)
        seconds = 0.125 if found else 8.0
        found.append(seconds)
        return dataclasses.replace(solution, times={**solution.times, "solve": seconds})

    monkeypatch.setattr(Solver, "keep_on", slow_at_first)
    told: list[float] = []
    solution = go_on(load(ROOT / "cases/unit_square.toml", CASE), None, appraise=lambda *given: told.append(given[2]))
    assert told == [0.125] and (solution.times["solve"], solution.times[AGAIN]) == (8.0, 0.125)


def counts_of(case: Case, *, again: bool = False) -> dict[str, int]:
    """The calls of a loop, with another solve after it or without."""
    found: list[dict[str, int]] = []

    def note(backend: Backend, ledger: Ledger, seconds: float) -> None:
        found.append({call.label: count for call, count in ledger.counts.items() if count})

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run, "MOST_AGAIN", 10.0 if again else -1.0)
        solution = go_on(case, None, appraise=note)
    assert (AGAIN in solution.times) is again
    return found[0]


def test_a_failure_of_the_second_solve_keeps_the_result(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    keep_on, made = Solver.keep_on, []

    def fails(solver: Solver, *given: Any, **more: Any) -> Any:
        made.append(solver)
        if len(made) > 1:
            raise ResourceError("too little memory")
        return keep_on(solver, *given, **more)

    monkeypatch.setattr(Solver, "keep_on", fails)
    solution = go_on(load(ROOT / "cases/unit_square.toml", CASE), None, appraise=appraise)
    assert solution.iterations == 50 and solution.performance is None and AGAIN not in solution.times
    assert "the operations could not be timed: too little memory" in caplog.messages


PERFORMANCE = Performance(
    (OperationUse("sweep", 20, 2.0, 6e9, 4e9, "65x33"), OperationUse("norm", 3, 0.0125, 1e7, 2e6)), 4e9, 33_600_000
)


def test_the_operations_are_shown_a_line_each() -> None:
    assert operations(PERFORMANCE, 2.5) == [
        "operation  calls  time s  GB/s  % of copy",
        "---------  -----  ------  ----  ---------",
        "sweep         20       2     3         75",
        "norm           3  0.0125   0.8         20",
        "total 2.01 s, from calls timed after the loop; the loop took 2.5 s",
        "copy of arrays of 33.6 MB: 4 GB/s",
    ]


def test_the_operations_are_written(tmp_path: Path) -> None:
    path, *_ = result.save(tmp_path / "result.h5", make_solution(2, performance=PERFORMANCE))
    with h5py.File(path) as file:
        found = {name: np.asarray(value).tolist() for name, value in file["performance"].attrs.items()}
    assert found == {
        "operations": ["sweep", "norm"],
        "grids": ["65x33", ""],
        "calls": [20, 3],
        "seconds": [2.0, 0.0125],
        "bytes": [6e9, 1e7],
        "flops": [4e9, 2e6],
        "bandwidth": 4e9,
        "array_bytes": 33_600_000,
    }
    described = [" ".join(line.split()) for line in description.describe(path).splitlines()]
    start = described.index("operations copy 4 GB/s")
    assert described[start + 1 : start + 3] == [
        "sweep 65x33: 20 calls, 2 s, 3 GB/s",
        "norm 3 calls, 0.0125 s, 0.8 GB/s",
    ]
    result.save(tmp_path / "plain.h5", dataclasses.replace(make_solution(2)))
    with h5py.File(tmp_path / "plain.h5") as file:
        assert "performance" not in file
