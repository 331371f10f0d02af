# SPDX-License-Identifier: MIT
"""Operations are counted, also within recordings, and the loop is the same as without."""

import weakref
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.emulation import EmulatedRuntime
from support.multigrid import PLAIN, solver_of
from support.operators import operator, random_array

from poisson.backends.base import Backend
from poisson.backends.gpu.backend import GpuBackend
from poisson.backends.ledger import Call, Ledger, counted
from poisson.backends.numpy import NumpyBackend
from poisson.mesh.boundary import Rule
from poisson.solvers.jacobi import Jacobi
from poisson.solvers.stopping import Stopping

OPERATOR = operator((9, 8), (Rule.FIXED,) * 4)


class Recorded(NumpyBackend):
    """NumPy with recordings that run their function once, as a graph does, and repeat what it asked for."""

    def __init__(self) -> None:
        super().__init__(np.float64)
        self.functions_run = 0

    def capture(self, function: Callable[[], None]) -> Callable[[], None]:
        def replay() -> None:
            self.functions_run += 1
            function()

        return replay


def relaxed(backend: Backend, loop: str, sweeps: int, every: int) -> Any:
    shape = OPERATOR.array_shape
    u, f = (backend.from_host(random_array(shape, backend.dtype, seed)) for seed in (1, 2))
    stopping = Stopping(rtol=0.0, max_iterations=sweeps, check_every=every)
    result = Jacobi(backend.bind(OPERATOR), 1.0, loop).solve(u, f, stopping=stopping)
    return backend.to_host(result.u), result.history


def by_label(ledger: Ledger) -> dict[str, int]:
    found: Counter[str] = Counter()
    for call, count in ledger.counts.items():
        found[call.label] += count
    return dict(found)


def make_emulated() -> Backend:
    return GpuBackend(np.float64, EmulatedRuntime())


@pytest.mark.parametrize("make", [lambda: NumpyBackend(np.float64), Recorded, make_emulated])
def test_the_operations_of_a_loop_are_counted(make: Callable[[], Backend]) -> None:
    backend, ledger = counted(make())
    relaxed(backend, "fused", 14, 4)
    # Reads after sweeps 4, 8, 12 and 14; before the loop the norms of the source and of the first residual.
    assert by_label(ledger) == {"norm": 1, "residual + norm": 1, "sweep": 10, "sweep + norm": 4}


def test_what_a_direction_and_a_smoothing_start_from_is_noted() -> None:
    """Without an old direction, or from zero, there is an array less to read."""
    backend, ledger = counted(NumpyBackend(np.float64))
    z, p, out, q = (np.ones(OPERATOR.array_shape) for _ in range(4))
    for beta in (0.0, 0.5, 0.5):
        backend.bind(OPERATOR).direction(z, beta, p, out, q, backend.reduction())
    assert {call.start: count for call, count in ledger.counts.items()} == {False: 1, True: 2}
    for u in (None, p):
        backend.bind(OPERATOR).smooth(u, z, out, q, (0.5, 0.6))
    assert by_label(ledger) == {"direction": 3, "smooth x2, from zero": 1, "smooth x2": 1}


def test_the_operations_of_the_staged_loop_are_counted() -> None:
    backend, ledger = counted(NumpyBackend(np.float64))
    relaxed(backend, "staged", 6, 3)
    assert by_label(ledger) == {
        "norm": 1 + 2,
        "residual + norm": 1,
        "laplacian": 6,
        "boundary_conditions": 6,
        "update": 6,
    }


@pytest.mark.parametrize("loop", ["fused", "staged"])
def test_counting_changes_nothing(loop: str) -> None:
    plain = relaxed(NumpyBackend(np.float64), loop, 9, 4)
    backend, _ = counted(NumpyBackend(np.float64))
    found = relaxed(backend, loop, 9, 4)
    assert np.array_equal(found[0], plain[0])
    assert found[1] == plain[1]


def test_a_recording_counts_when_it_is_replayed_and_not_when_it_is_made() -> None:
    inner = Recorded()
    backend, ledger = counted(inner)
    x = inner.from_host(np.zeros((3, 4)))
    replay = backend.capture(lambda: backend.axpby(2.0, x, 1.0, x))
    assert (inner.functions_run, by_label(ledger)) == (0, {"axpby": 0})
    x[...] = 1.0
    for _ in range(3):
        replay()
    assert (inner.functions_run, by_label(ledger)) == (3, {"axpby": 3})
    assert np.array_equal(x, np.full((3, 4), 27.0))


def test_calls_in_a_pause_do_not_count_but_recordings_made_there_do_later() -> None:
    inner = Recorded()
    backend, ledger = counted(inner)
    x = inner.from_host(np.zeros((3, 4)))
    with ledger.paused():
        replay = backend.capture(lambda: backend.axpby(2.0, x, 1.0, x))
        backend.fill(x, 1.0)
        replay()
    assert by_label(ledger) == {"axpby": 0}
    assert np.array_equal(x, np.full((3, 4), 3.0))
    replay()
    backend.fill(x, 2.0)
    assert by_label(ledger) == {"axpby": 1, "fill": 1}


def test_a_failed_recording_leaves_the_backend_as_it_was() -> None:
    backend, ledger = counted(NumpyBackend(np.float64))
    with pytest.raises(ZeroDivisionError):
        backend.capture(lambda: 1 // 0)  # type: ignore[arg-type, return-value]
    x = backend.from_host(np.zeros((3, 4)))
    backend.fill(x, 5.0)
    assert np.array_equal(backend.to_host(x), np.full((3, 4), 5.0))
    assert by_label(ledger) == {"fill": 1}


def test_a_call_knows_what_its_cost_depends_on() -> None:
    backend, ledger = counted(NumpyBackend(np.float32))
    shape = OPERATOR.array_shape
    u, f, r = (backend.from_host(random_array(shape, np.float32, seed)) for seed in range(3))
    norms = backend.reduction()
    backend.bind(OPERATOR).sweep(u, f, r, 1.0)
    backend.bind(OPERATOR).sweep(u, None, r, 1.0, result=norms)
    backend.bind(OPERATOR).sweeps(u, f=f, out=r, omegas=(1.0,) * 3)
    backend.bind(OPERATOR).dot(u, f, norms)
    backend.fill(u, 0.0)
    common = {"nodes": 72, "itemsize": 4}
    assert list(ledger.counts) == [
        Call("sweep", OPERATOR, **common),
        Call("sweep", OPERATOR, **common, source=False, norm=True),
        Call("sweeps", OPERATOR, **common, count=3),
        Call("dot", OPERATOR, **common),
        Call("fill", None, **common),
    ]
    assert [call.label for call in ledger.counts] == ["sweep", "sweep + norm, no source", "sweeps x3", "dot", "fill"]


def test_a_sample_makes_the_call_again() -> None:
    backend, ledger = counted(NumpyBackend(np.float64))
    x = backend.from_host(np.full((2, 3), 1.0))
    backend.axpby(0.0, x, 2.0, x)
    [(call, again)] = ledger.samples.items()
    again()
    assert np.array_equal(x, np.full((2, 3), 4.0))
    assert ledger.counts[call] == 1


@pytest.mark.parametrize("inner", [False, True], ids=["float64", "mixed"])
def test_what_counts_keeps_no_arrays_when_it_is_gone(inner: bool, numpy_arrays: list[weakref.ref[Any]]) -> None:
    """Not even until garbage is collected: a solver that comes next may need their memory."""
    grid = operator((65, 65), (Rule.FIXED,) * 4)
    f, u = np.ones(grid.array_shape), np.zeros(grid.array_shape)
    backend, ledger = counted(NumpyBackend(np.float64))
    settings = PLAIN.having(method="multigrid", full=True)
    method = solver_of(backend.bind(grid), settings, backend.companion(np.float32).bind(grid) if inner else None)
    result = method.solve(u, f, stopping=Stopping(rtol=1e-8))
    assert ledger.counts
    del backend, ledger, method, result
    assert numpy_arrays
    assert [array for array in numpy_arrays if array() is not None] == []
