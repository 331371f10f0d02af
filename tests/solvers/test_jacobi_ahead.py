# SPDX-License-Identifier: MIT
"""The Jacobi solver asks for the next sweeps before it reads the norm of the last: it shows nowhere in its results."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache, partial
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from support.intercepted import Intercepted
from support.operators import operator, random_array

from poisson.backends.base import Array
from poisson.backends.numpy import DEPTH, NumpyBackend
from poisson.backends.operations import OPERATIONS
from poisson.discrete.discretisation import Operator
from poisson.mesh.boundary import Rule
from poisson.solvers.jacobi import Jacobi
from poisson.solvers.loops import LOOPS
from poisson.solvers.status import Status
from poisson.solvers.stopping import SolveResult, Stopping

F, M = Rule.FIXED, Rule.MIRROR
WALLS = operator((9, 7), (F,) * 4)
# Here the norm alternates: a sweep can show convergence and leave an iterate that has not converged.
MIRRORS = Operator.uniform((9, 9), (0.125, 0.125), 0.0, (F, M, M, M))

Outcome = tuple[Status, int, bytes]
Interrupted = Callable[[], bool]


def source(a: Operator, seed: int) -> NDArray[np.float64]:
    """Random values, zero at the fixed nodes."""
    f, r = random_array(a.array_shape, np.float64, seed), np.empty(a.array_shape)
    NumpyBackend(np.float64).bind(a).residual(np.zeros(a.array_shape), f, r)
    return r


def solve(
    backend: NumpyBackend, a: Operator, loop: str, stopping: Stopping, seed: int = 3, interrupted: Interrupted = bool
) -> SolveResult:
    f = source(a, seed)
    method = Jacobi(backend.bind(a), 1.0, loop)
    return method.solve(np.zeros_like(f), f, stopping=stopping, interrupted=lambda iterate: interrupted())


def outcome(result: SolveResult) -> Outcome:
    return result.status, result.iterations, result.u.tobytes()


def one_by_one(
    a: Operator, stopping: Stopping, seed: int = 3, interrupted: Interrupted = bool
) -> tuple[Outcome, list[int]]:
    """The same solve, in which nothing is asked for before all that comes before it has been looked at.

    Returns
    -------
    Outcome, list of int
        How it ended, and after how many sweeps the last iterate did not confirm the convergence of the one before it.
    """
    backend = NumpyBackend(np.float64)
    f, norms, done = source(a, seed), backend.reduction(), 0
    unconfirmed: list[int] = []
    u, r = np.zeros_like(f), np.empty_like(f)
    backend.bind(a).norm(f, norms)
    target = stopping.target(stopping.measure(a, backend.read(norms)))
    while True:
        for _ in range(min(stopping.check_every, stopping.max_iterations - done)):
            backend.bind(a).sweep(u.copy(), f, u, 1.0, norms)
            done += 1
        if stopping.measure(a, backend.read(norms)) <= target:
            backend.bind(a).residual(u, f, r, norms)
            if stopping.measure(a, backend.read(norms)) <= target:
                return (Status.CONVERGED, done, u.tobytes()), unconfirmed
            unconfirmed.append(done)
        if interrupted():
            return (Status.INTERRUPTED, done, u.tobytes()), unconfirmed
        if done >= stopping.max_iterations:
            return (Status.MAX_ITERATIONS, done, u.tobytes()), unconfirmed


# ---- how a solve ends
@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("check_every", [1, 3, DEPTH, DEPTH + 3])
def test_the_limit_on_sweeps(loop: str, check_every: int) -> None:
    for limit in (1, 2, check_every, 2 * check_every + 1):
        stopping = Stopping(rtol=0.0, check_every=check_every, max_iterations=limit)
        expected, _ = one_by_one(WALLS, stopping)
        assert expected[:2] == (Status.MAX_ITERATIONS, limit)
        assert outcome(solve(NumpyBackend(np.float64), WALLS, loop, stopping)) == expected


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("check_every", [1, 3, DEPTH, DEPTH + 3])
def test_an_interrupt_drops_what_was_asked_for(loop: str, check_every: int) -> None:
    def at_the_third() -> Iterator[bool]:
        yield from (False, False, True)

    stopping = Stopping(rtol=0.0, check_every=check_every)
    expected, _ = one_by_one(WALLS, stopping, interrupted=at_the_third().__next__)
    assert expected[:2] == (Status.INTERRUPTED, 3 * check_every)
    result = solve(NumpyBackend(np.float64), WALLS, loop, stopping, interrupted=at_the_third().__next__)
    assert outcome(result) == expected


@cache
def unconfirmed_cases(check_every: int) -> list[tuple[int, Stopping, Outcome]]:
    """Seeds, when to stop, and how the solves end one by one: the same for all loops."""
    cases = []
    for seed in (18, 30):
        stopping = Stopping(rtol=1e-4, check_every=check_every)
        expected, unconfirmed = one_by_one(MIRRORS, stopping, seed)
        assert expected[0] is Status.CONVERGED
        cases.append((seed, stopping, expected))
        # With the limit there the solve ends with it; with the limit behind it, so many sweeps are still done.
        for limit in {sweeps + more for sweeps in unconfirmed for more in (0, 1)}:
            stopping = replace(stopping, max_iterations=limit)
            cases.append((seed, stopping, one_by_one(MIRRORS, stopping, seed)[0]))
    return cases


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("check_every", [1, 2, DEPTH + 3])
def test_convergence_that_the_last_iterate_does_not_confirm(loop: str, check_every: int) -> None:
    """The sweeps asked for have then lost their place to the residual of the last iterate, and are done again."""
    cases = unconfirmed_cases(check_every)
    assert Status.MAX_ITERATIONS in {status for _, _, (status, _, _) in cases}
    for seed, stopping, expected in cases:
        assert outcome(solve(NumpyBackend(np.float64), MIRRORS, loop, stopping, seed)) == expected


# ---- what is asked for, and when
class Recorder(Intercepted):
    """Writes down what a solver asks for, in order, with the place of a norm by its number."""

    def __init__(self) -> None:
        super().__init__()
        self.log: list[str] = []
        self.sources: list[Any] = []
        self._places: list[Array] = []

    def reduction(self) -> Array:
        self._places.append(super().reduction())
        return self._places[-1]

    def _place(self, result: Array) -> int:
        [number] = [n for n, place in enumerate(self._places) if place is result]
        return number

    def asked(self, name: str, operation: Callable[..., None], *arguments: Any, **named: Any) -> None:
        names = OPERATIONS[name].names
        values = dict(zip(names, arguments, strict=False)) | named
        if values.get("result") is not None or "result" not in names:
            place = f" {self._place(values['result'])}" if "result" in names else ""
            count = f" x{len(values['omegas'])}" if "omegas" in names else ""
            self.log.append(name + count + place)
        if "f" in names:
            self.sources.append(values["f"])
        operation(*arguments, **named)

    def mark(self, result: Array) -> None:
        self.log.append(f"mark {self._place(result)}")

    def read(self, result: Array) -> tuple[float, float]:
        self.log.append(f"read {self._place(result)}")
        return super().read(result)

    def of_the_loop(self) -> list[str]:
        """What comes behind the norms of the source and of the first residual."""
        return self.log[self.log.index("residual 0") + 2 :]


def logged(loop: str, check_every: int, reads: int) -> list[str]:
    backend = Recorder()
    solve(backend, WALLS, loop, Stopping(rtol=0.0, check_every=check_every, max_iterations=reads * check_every))
    return backend.of_the_loop()


@pytest.mark.parametrize(
    ("loop", "check_every", "sweeps"),
    [("fused", 1, "sweep {}"), ("blocked", 1, "sweeps x1 {}"), ("blocked", DEPTH, f"sweeps x{DEPTH} {{}}")],
)
def test_the_next_pass_is_asked_for_before_the_norm_of_the_last_is_read(
    loop: str, check_every: int, sweeps: str
) -> None:
    """Into another place, so that the norm is still there."""

    def pass_into(place: int) -> list[str]:
        return [sweeps.format(place), f"mark {place}"]

    assert logged(loop, check_every, 4) == [
        *pass_into(1),
        *(*pass_into(2), "read 1"),
        *(*pass_into(1), "read 2"),
        *(*pass_into(2), "read 1"),
        "read 2",
    ]


def test_more_sweeps_than_one_pass_are_not_asked_for_ahead() -> None:
    """A second pass would overwrite the iterate, which an interrupt must return."""
    passes = ["sweeps x1 {}", "mark {}", "read {}"]
    found = [item for item in logged("blocked", DEPTH + 1, 3) if item != f"sweeps x{DEPTH}"]
    assert found == [item.format(place) for place in (1, 2, 1) for item in passes]


def test_of_the_staged_loop_the_first_product_is_asked_for_ahead() -> None:
    product = ["laplacian", "boundary_conditions"]
    assert logged("staged", 1, 3) == [
        *product,
        *("update", "norm 1", "mark 1", *product, "read 1"),
        *("update", "norm 1", "mark 1", *product, "read 1"),
        *("update", "norm 1", "mark 1", "read 1"),
    ]


@pytest.mark.parametrize("loop", LOOPS)
def test_a_zero_source_is_given_to_no_operation(loop: str) -> None:
    for f in (np.zeros(MIRRORS.array_shape), source(MIRRORS, 1)):
        backend, u = Recorder(), random_array(MIRRORS.array_shape, np.float64, 2)
        stopping = Stopping(rtol=1e-3, check_every=2)
        result = Jacobi(backend.bind(MIRRORS), loop=loop).solve(u, f, stopping=stopping)
        assert result.status is Status.CONVERGED
        assert len(backend.sources) > 10
        assert {id(given) for given in backend.sources} == {id(f) if f.any() else id(None)}


# ---- a device that does nothing until somebody waits for it
class Lazy(Intercepted):
    """Operations wait in a queue; a read lets those before the mark of its result run, and no more."""

    def __init__(self) -> None:
        super().__init__()
        self.queue: list[Callable[[], None]] = []
        self.left_behind = 0
        self._marks: dict[int, int] = {}
        self._done = 0

    def asked(self, name: str, operation: Callable[..., None], *arguments: Any, **named: Any) -> None:
        self.queue.append(partial(operation, *arguments, **named))

    def mark(self, result: Array) -> None:
        self._marks[id(result)] = len(self.queue)

    def read(self, result: Array) -> tuple[float, float]:
        until = self._marks.pop(id(result), len(self.queue))
        self.left_behind += until < len(self.queue)
        self.run(until)
        return super().read(result)

    def run(self, until: int) -> None:
        for operation in self.queue[self._done : until]:
            operation()
        self._done = max(self._done, until)


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("check_every", [1, 3, DEPTH])
def test_a_read_needs_nothing_behind_its_mark(loop: str, check_every: int) -> None:
    for a, seed in ((WALLS, 3), (MIRRORS, 1)):
        stopping = Stopping(rtol=1e-4, check_every=check_every)
        expected = solve(NumpyBackend(np.float64), a, loop, stopping, seed)
        backend = Lazy()
        result = solve(backend, a, loop, stopping, seed)
        backend.run(len(backend.queue))
        assert outcome(result) == outcome(expected)
        assert result.history == expected.history
        ahead = loop == "staged" or check_every <= {"blocked": DEPTH, "fused": 1}[loop]
        reads = result.iterations // check_every
        assert backend.left_behind == (reads if ahead else 0)
