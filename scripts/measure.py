"""Measure the Jacobi loops against the copy bandwidth of the same device, in one run.

    python scripts/measure.py [--backend NAME] [--threads N] [--sizes 4096x4096,400x400x400] [--iterations N]

For each size and operation: the median time, its bytes (`poisson.perf.traffic`) over that time, and the ratio to the
copy (on a CPU: STREAM triad) bandwidth measured just before, with the spread. Then the problem of the heated square on
4096² inner nodes, with the norm read after every iteration: both loops, wall time of the whole loop.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from datetime import UTC, datetime
from types import ModuleType
from typing import Any

import fire
import numpy as np

from poisson import backends
from poisson.backends.base import Backend
from poisson.boundary import Rule
from poisson.discretisation import Operator
from poisson.perf.traffic import operation_bytes
from poisson.solvers.jacobi import LOOPS, jacobi
from poisson.solvers.stopping import Stopping

REPEATS = 7


def seconds_of(backend: Backend, call: Callable[[], Any]) -> Callable[[], float]:
    """A function that measures the time of one call, with enough calls to hide the cost of waiting."""
    call()
    backend.synchronize()
    start = time.perf_counter()
    call()
    backend.synchronize()
    calls = max(1, min(50, int(0.05 / max(time.perf_counter() - start, 1e-6))))

    def measure() -> float:
        start = time.perf_counter()
        for _ in range(calls):
            call()
        backend.synchronize()
        return (time.perf_counter() - start) / calls

    return measure


def operations(backend: Backend, operator: Operator) -> None:
    """Print the median time of each operation on random data, and its rate against the yardstick.

    The yardstick runs before every single measurement, because the bandwidth of a shared machine changes by the second:
    the ratio is the median of the ratios of such pairs.
    """
    shape = operator.array_shape
    nodes = int(np.prod(shape, dtype=np.int64))
    u, f = (backend.assemble(shape, _random(shape)) for _ in range(2))
    r, au, norms = backend.empty(shape), backend.empty(shape), backend.reduction()
    stream, streamed = backend.stream(1 << 27)
    yardstick = seconds_of(backend, stream)
    calls: dict[str, tuple[str, Callable[[], None]]] = {
        "sweep": ("sweep", lambda: backend.sweep(operator, u, f, r, 1.0)),
        "sweep with norm": ("sweep", lambda: backend.sweep(operator, u, f, r, 1.0, norms)),
        "residual": ("residual", lambda: backend.residual(operator, u, f, r)),
        "laplacian": ("laplacian", lambda: backend.laplacian(operator, u, au)),
        "boundary_conditions": ("", lambda: backend.boundary_conditions(operator, u, au)),
        "update": ("update", lambda: backend.update(operator, f, au, r, u, 0.0)),
        "norm": ("norm", lambda: backend.norm(operator, r, norms)),
        "axpby": ("axpby", lambda: backend.axpby(0.5, f, 0.5, u)),
        "dot": ("dot", lambda: backend.dot(operator, u, f, norms)),
    }
    for label, (name, call) in calls.items():
        measure = seconds_of(backend, call)
        pairs = [(streamed / yardstick(), measure()) for _ in range(REPEATS)]
        seconds = statistics.median(seconds for _, seconds in pairs)
        line = f"  {label:20} {1e3 * seconds:9.4f} ms"
        if name:
            moved = operation_bytes(name, nodes, backend.dtype.itemsize)
            ratios = sorted(moved / seconds / bandwidth for bandwidth, seconds in pairs)
            spread = f"{ratios[0]:.3f} to {ratios[-1]:.3f}"
            line += f"  {moved / seconds / 1e9:8.1f} GB/s  {statistics.median(ratios):6.3f}  ({spread})"
        print(line)
    bandwidth = statistics.median(streamed / yardstick() for _ in range(REPEATS))
    print(f"  the yardstick: {bandwidth / 1e9:.1f} GB/s ({'triad' if backend.name == 'openmp' else 'copy'})")


def _random(shape: tuple[int, ...]) -> Callable[[ModuleType, int, int], Any]:
    return lambda xp, start, stop: xp.random.random((stop - start, *shape[1:]))


def heated_square(backend: Backend, inner: int, iterations: int) -> None:
    """Print the wall time of the loops on the heated square: zero source, a half sine wave on each side."""
    nodes = inner + 2
    operator = Operator((nodes, nodes), (1.0 / (nodes - 1),) * 2, 0.0, (Rule.FIXED,) * 4)
    wave = np.sin(np.pi * np.linspace(0.0, 1.0, nodes))
    initial = np.zeros((nodes, nodes))
    initial[[0, -1], :] = wave
    initial[:, [0, -1]] = wave[:, np.newaxis]
    f = backend.from_host(np.zeros((nodes, nodes)))
    stopping = Stopping(rtol=0.0, max_iterations=iterations, check_every=1)
    for loop in LOOPS:
        times = []
        for _ in range(3):
            u = backend.from_host(initial)
            backend.synchronize()
            start = time.perf_counter()
            result = jacobi(backend, operator, u, f, omega=1.0, loop=loop, stopping=stopping)
            backend.synchronize()
            times.append(time.perf_counter() - start)
        print(
            f"  {loop:8} {result.iterations} iterations, norm after each: {statistics.median(times):.4f} s, "
            f"last norm {result.history[-1][1]:.6e}"
        )


def main(
    backend: str = "auto",
    threads: int = 0,
    sizes: str = "4096x4096,400x400x400",
    precision: str = "float64",
    inner: int = 4096,
    iterations: int = 1000,
) -> None:
    """See the top of this file."""
    device = backends.create(backend, np.dtype(precision), threads)
    print(f"{device.name}: {device.device}; {datetime.now(UTC):%Y-%m-%d}; {precision}")
    for size in sizes.split(","):
        shape = tuple(int(n) for n in size.split("x"))
        print(size)
        rules = (Rule.FIXED,) * (2 * len(shape))
        operations(device, Operator(shape, tuple(1.0 / (n - 1) for n in shape), 0.0, rules))
    if iterations:
        print(f"heated square, {inner}² inner nodes")
        heated_square(device, inner, iterations)


if __name__ == "__main__":
    fire.Fire(main)
