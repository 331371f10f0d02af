# SPDX-License-Identifier: MIT
"""The commands `bench call` and `bench command`."""

from functools import partial
from pathlib import Path

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
      --method NAMES    of fft and multigrid, both by default; open, electrode, insulator, dielectric, stretched, cells,
                        cylinder and polar (as in 'bench solve') by the method that 'auto' takes, and projector
                        (velocities on as many cells, by fft)
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
    methods = some_of("method", method, call.METHODS) if method is not None else call.DEFAULT_METHODS
    one_of("backend", backend, backend_names())
    count, least = thread_count(threads, [backend]), whole_number("repeats", repeats)
    work = partial(call.bench, sizes, methods, name=backend, threads=count, repeats=least)
    return Measurement(work, json, csv, None, quiet=True)


def bench_command(
    *,
    n: str | None = None,
    fields: str | None = None,
    backend: str = "auto",
    folder: str = ".",
    repeats: str = "5",
    json: bool = False,
    csv: str | None = None,
) -> Measurement:
    """Time whole commands, from the start of the process to its end.

    Usage: python -m poisson bench command [--n SIZE,...] [--fields NAME,...] [--backend NAME] [--folder DIR] ...

      --n SIZES         grids, separated by commas: NXxNY or NXxNYxNZ nodes; by default 129x129, 1025x1025, 4097x4097
                        and 257x257x257
      --fields NAMES    the fields that are written, u and error by default
      --backend NAME    {backends}
      --folder DIR      where the results are written, by default here: the speed of that disk counts
      --repeats N       commands of each size after the first one, 5 by default; the median counts
      --json            print the rows as JSON and nothing else
      --csv FILE        write the rows as comma-separated values

    'poisson solve' of a sine on the unit square or cube, Dirichlet faces, float64. The parts are the start of Python
    with all imports, set-up, solve, finish (residual and fields), the file and the end of the process; beside them
    stands a plain write of as many bytes.

    Examples:
      python -m poisson bench command --backend=gpu --n=513x513x513 --fields=u
      python -m poisson bench command --n=129x129 --repeats=9

    Exit codes: 0 measured, 2 bad input or nothing to measure on, 130 interrupted."""
    from poisson.case.settings import FIELDS
    from poisson.perf.benchmark import command

    sizes = [grid_shape("n", text.strip(), 3) for text in n.split(",")] if n is not None else list(command.SIZES)
    names = some_of("fields", fields, FIELDS) if fields is not None else command.FIELDS
    one_of("backend", backend, backend_names())
    least = whole_number("repeats", repeats)
    return Measurement(lambda: command.bench(sizes, names, Path(folder), name=backend, repeats=least), json, csv, None)
