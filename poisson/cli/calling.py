# SPDX-License-Identifier: MIT
"""The command `bench call`."""

from __future__ import annotations

from poisson.backends.registry import backend_names
from poisson.cli.measuring import Measurement
from poisson.cli.terms import grid_shape, one_of, some_of, thread_count, whole_number


def bench_call(
    *,
    n: str | None = None,
    method: str | None = None,
    backend: str = "auto",
    threads: str = "0",
    repeats: str = "7",
    json: bool = False,
    csv: str | None = None,
) -> Measurement:
    """Time calls of a solver from arrays to arrays, and its loop alone.

    Usage: python -m poisson bench call [--n SIZE,...] [--method NAME,...] [--backend NAME] [--threads N] ...

      --n SIZES         grids, separated by commas: NXxNY or NXxNYxNZ nodes; by default 129x129, 1025x1025, 4097x4097
                        and 257x257x257
      --method NAMES    of fft and multigrid, both by default
      --backend NAME    {backends}
      --threads N       threads of the openmp backend on a CPU; 0: OMP_NUM_THREADS or all
      --repeats N       at least so many calls of each kind, 7 by default; the median counts
      --json            print the rows as JSON and nothing else
      --csv FILE        write the rows as comma-separated values

    The unit square or cube, Dirichlet faces, float64, a random source, a relative residual of 1e-8. docs/performance.md
    says what the rows are.

    Examples:
      python -m poisson bench call --threads=2
      python -m poisson bench call --n=129x129 --method=fft --json

    Exit codes: 0 measured, 2 bad input or nothing to measure on, 130 interrupted."""
    from poisson.perf.benchmark import call

    sizes = [grid_shape("n", text.strip(), 3) for text in n.split(",")] if n is not None else list(call.SIZES)
    methods = some_of("method", method, call.METHODS) if method is not None else call.METHODS
    one_of("backend", backend, backend_names())
    count, least = thread_count(threads, [backend]), whole_number("repeats", repeats)
    return Measurement(lambda: call.bench(sizes, methods, name=backend, threads=count, repeats=least), json, csv, None)
