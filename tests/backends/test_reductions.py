# SPDX-License-Identifier: MIT
"""Results of reductions of the gpu backend, on the emulation: exact, whichever block comes last; read behind a mark."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.emulation import EmulatedRuntime, Order
from support.emulation.runtime import EmulatedEvent
from support.operators import operator, random_array

import poisson
from poisson import backends
from poisson.backends.base import Array, Reduction
from poisson.backends.gpu.backend import GpuBackend
from poisson.backends.gpu.shapes import Shape
from poisson.backends.numpy import NumpyBackend
from poisson.discrete.discretisation import Operator
from poisson.mesh.boundary import Rule

ORDERS = [(Order.FORWARD, 0), (Order.REVERSED, 0), (Order.SHUFFLED, 1), (Order.SHUFFLED, 2), (Order.SHUFFLED, 3)]
RULES = (Rule.MIRROR, Rule.FIXED, Rule.FIXED, Rule.FIXED)
A = operator((150, 131), RULES)
"""More blocks than the 32 threads of one, for the sweeps below."""

SMALL = {"sweep_norm": Shape(32, 1, 2), "sweeps": Shape(32, 1, 5, depth=2)}

SWEEPS = ("sweep", "residual", "sweeps")

Reduce = Callable[[GpuBackend, Operator, Array, Array, Reduction], None]


def sweep(backend: GpuBackend, a: Operator, x: Array, y: Array, result: Reduction) -> None:
    with backend.shapes.trying("sweep_norm", SMALL["sweep_norm"]):
        backend.bind(a).sweep(x, y, backend.empty(a.array_shape), 0.8, result)


def residual(backend: GpuBackend, a: Operator, x: Array, y: Array, result: Reduction) -> None:
    with backend.shapes.trying("sweep_norm", SMALL["sweep_norm"]):
        backend.bind(a).residual(x, y, backend.empty(a.array_shape), result)


def sweeps(backend: GpuBackend, a: Operator, x: Array, y: Array, result: Reduction) -> None:
    with backend.shapes.trying("sweeps", SMALL["sweeps"]):
        backend.bind(a).sweeps(x, y, backend.empty(a.array_shape), [0.8, 0.8], result)


REDUCTIONS: dict[str, Reduce] = {
    "norm": lambda backend, a, x, y, result: backend.bind(a).norm(x, result),
    "dot": lambda backend, a, x, y, result: backend.bind(a).dot(x, y, result),
    "sweep": sweep,
    "residual": residual,
    "sweeps": sweeps,
}


def blocks_of(name: str, dtype: Any) -> int:
    """The blocks of a reduction of `A`."""
    backend = GpuBackend(dtype, EmulatedRuntime())
    launched: list[tuple[int, ...]] = []
    backend.shared.kernels.get = lambda *_: lambda grid, *_: launched.append(grid)  # type: ignore[assignment, method-assign]
    x, y = (backend.empty(A.array_shape) for _ in range(2))
    REDUCTIONS[name](backend, A, x, y, backend.reduction())
    [grid] = launched
    return math.prod(grid)


@pytest.mark.parametrize("name", REDUCTIONS)
def test_the_same_bits_in_every_order_of_blocks(name: str, dtype: Any) -> None:
    """On one device, so that each launch must leave the counter of blocks as it found it."""
    runtime = EmulatedRuntime()
    backend = GpuBackend(dtype, runtime)
    x, y = (backend.from_host(random_array(A.array_shape, dtype, seed)) for seed in (1, 2))
    found = set()
    for order, seed in ORDERS:
        runtime.order, runtime.seed = order, seed
        result = backend.reduction()
        REDUCTIONS[name](backend, A, x, y, result)
        found.add(backend.read(result))
    assert len(found) == 1
    assert blocks_of(name, dtype) > (32 if name in SWEEPS else 1)
    runtime.check_guards()


def test_sums_of_integers_are_exact() -> None:
    """Every node counts once: also after a reduction of fewer blocks, for which there was room already."""
    backend = GpuBackend(np.float64, EmulatedRuntime())
    numpy = NumpyBackend(np.float64)
    for nodes in ((150, 131), (3, 3), (65, 64), (400, 1100), (7, 5)):
        a = operator(nodes, (Rule.FIXED,) * 4)
        x, y = (np.random.default_rng(seed).integers(-9, 9, a.array_shape).astype(np.float64) for seed in (1, 2))
        for reduce in (REDUCTIONS["norm"], REDUCTIONS["dot"]):
            results = []
            for candidate in (numpy, backend):
                result = candidate.reduction()
                reduce(candidate, a, candidate.from_host(x), candidate.from_host(y), result)  # type: ignore[arg-type]
                results.append(candidate.read(result))
            assert results[0] == results[1]


# ---- reading behind a mark
class Logged(EmulatedRuntime):
    """A device that writes down who waits for what."""

    def __init__(self) -> None:
        super().__init__()
        self.log: list[str] = []
        self._events = 0

    def synchronize(self) -> None:
        self.log.append("synchronize")

    def event(self) -> EmulatedEvent:
        log, name = self.log, f"event {self._events}"
        self._events += 1

        class Event(EmulatedEvent):
            def record(self) -> None:
                super().record()
                log.append(f"record {name}")

            def wait(self) -> None:
                log.append(f"wait for {name}")

        return Event()


def test_a_read_waits_for_no_more_than_what_was_marked() -> None:
    runtime = Logged()
    backend = GpuBackend(np.float64, runtime)
    ones = backend.from_host(np.ones(A.array_shape))
    first, second = backend.reduction(), backend.reduction()
    backend.bind(A).norm(ones, first)
    runtime.log.clear()
    backend.mark(first)
    backend.bind(A).norm(ones, second)
    backend.mark(second)
    assert backend.read(first) == (150.0 * 131.0, 1.0)
    assert runtime.log == ["record event 0", "record event 1", "wait for event 0"]
    runtime.log.clear()
    # A mark holds for one read; without one, a read waits for all.
    backend.read(first)
    backend.read(second)
    backend.read(second)
    assert runtime.log == ["synchronize", "wait for event 1", "synchronize"]


def test_a_solve_waits_for_its_source_and_not_for_what_was_asked_for_since(monkeypatch: pytest.MonkeyPatch) -> None:
    runtime = Logged()
    monkeypatch.setattr(backends, "create", lambda name, dtype, threads=0: GpuBackend(dtype, runtime))
    solver = poisson.Solver(poisson.Problem.on_box((9, 9)), "multigrid", "gpu", stop="discretisation")
    for _ in range(2):
        runtime.log.clear()
        solver.solve(np.ones((9, 9)))
    recorded, waits, *others = runtime.log
    assert recorded.startswith("record event") and waits == recorded.replace("record", "wait for")
    assert set(others) == {"synchronize"}


# ---- time
def test_seconds_are_those_between_two_events(monkeypatch: pytest.MonkeyPatch) -> None:
    runtime = Logged()
    backend = GpuBackend(np.float64, runtime)
    runtime.log.clear()
    times = iter([2.0, 5.5])
    monkeypatch.setattr("time.perf_counter", lambda: next(times))
    assert backend.seconds(lambda: runtime.log.append("call")) == 3.5
    assert runtime.log == ["record event 0", "call", "record event 1", "wait for event 1"]


def test_without_events_seconds_are_those_of_the_wall(monkeypatch: pytest.MonkeyPatch) -> None:
    log: list[str] = []

    class Waiting(NumpyBackend):
        def synchronize(self) -> None:
            log.append("synchronize")

    times = iter([1.0, 1.75])
    monkeypatch.setattr("time.perf_counter", lambda: next(times))
    assert Waiting(np.float64).seconds(lambda: log.append("call")) == 0.75
    assert log == ["synchronize", "call", "synchronize"]
