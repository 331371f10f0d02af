# SPDX-License-Identifier: MIT
"""The commands that measure: `bench`, `tune`, `roofline`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from poisson.backends.registry import NAMES, backend_names
from poisson.cli.terms import (
    EXIT_OK,
    UsageError,
    box,
    grid_shape,
    naming,
    one_of,
    positive,
    say,
    some_of,
    thread_count,
    whole_number,
)
from poisson.errors import FileChoice, PackageMissing, PoissonError

if TYPE_CHECKING:
    from poisson.output.table import Report

PRECISIONS = ("float64", "float32")


@dataclass(frozen=True)
class Measurement:
    """A measurement with what is to become of its report.

    `quiet`: whether it logs nothing: measurements of many solvers would say what each of them does.
    """

    work: Callable[[], Report]
    json: bool
    csv: str | None
    plot: str | None
    quiet: bool = False

    def execute(self) -> int:
        from poisson.cli.terminal import told
        from poisson.output.files import check_target

        for option, path in (("--csv", self.csv), ("--plot", self.plot)):
            if path:
                with naming(_place(option)):
                    check_target(Path(path))
        report = self.work()
        if self.csv:
            with naming(_place("--csv")):
                report.write_csv(self.csv)
        if self.plot:
            self._draw(report, self.plot)
        if self.json:
            say(report.json())
        else:
            say(told(report))
        return EXIT_OK

    def _draw(self, report: Report, path: str) -> None:
        if report.draw is None:
            raise PoissonError("this measurement has no figure: leave out --plot")
        try:
            with naming(_place("--plot")):
                report.write_plot(path)
        except PackageMissing:
            raise PackageMissing("--plot needs matplotlib: pip install matplotlib, or leave out --plot") from None


def _place(option: str) -> dict[FileChoice, str]:
    return {FileChoice.PLACE: f" with {option}"}


def bench_laplacian(
    *,
    n: str | None = None,
    sizes: str | None = None,
    study: bool = False,
    variant: str | None = None,
    backend: str = "auto",
    precision: str = "float64",
    profile: bool = False,
    once: bool = False,
    json: bool = False,
    csv: str | None = None,
    plot: str | None = None,
) -> Measurement:
    """Time every variant of the Laplacian in three dimensions, and a copy.

    Usage: python -m poisson bench laplacian [--n N] [--variant NAME,...] [--backend NAME] [--precision TYPE] ...

      --n N             nodes along each axis, 512 by default; or NXxNYxNZ
      --sizes N,N,...   several sizes, for the figure of bandwidth over size
      --study           the sizes from 256 to 1024 in which x, y and z grow by 256 in turn
      --variant NAMES   only these variants, separated by commas; a name also selects its variants with a suffix
      --backend NAME    {backends}; only gpu has variants besides the solver's own operation, called ours
      --precision TYPE  float64 or float32
      --profile         on a GPU: count the bytes to and from memory, with ncu (NVIDIA) or rocprofv3 (AMD)
      --once            launch each variant once and time nothing, for a profiler
      --json            print the rows as JSON and nothing else
      --csv FILE        write the rows as comma-separated values
      --plot FILE       draw the figure (PNG); needs matplotlib

    GB/s is effective bandwidth: every node except those on the edges of the box is read, and every inner node is
    written, once. docs/kernels.md explains the variants.

    Examples:
      python -m poisson bench laplacian --n=512
      python -m poisson bench laplacian --sizes=256,512,1024 --variant=baseline,ours --csv=sizes.csv --plot=sizes.png
      python -m poisson bench laplacian --variant=baseline,ours --profile

    Exit codes: 0 measured, 2 bad input or nothing to measure on, 130 interrupted."""
    given = [f"--{name}" for name, value in (("n", n), ("sizes", sizes), ("study", study or None)) if value is not None]
    if len(given) > 1:
        raise UsageError(f"{' and '.join(given)} both set the sizes: give only one of them")
    if once and profile:
        raise UsageError("--profile already implies --once: give only one of them")
    boxes = (
        [box("n", "512" if n is None else n, 3)]
        if sizes is None
        else [box("sizes", text, 3) for text in sizes.split(",")]
    )
    one_of("backend", backend, backend_names())
    one_of("precision", precision, PRECISIONS)
    wanted = tuple(name.strip() for name in variant.split(",")) if variant is not None else ()

    def work() -> Report:
        import numpy as np

        from poisson import backends
        from poisson.perf.benchmark import laplacian

        device = backends.create(backend, np.dtype(precision))
        chosen = laplacian.STUDY if study else boxes
        if once:
            return laplacian.launch_once(device, chosen, wanted)
        return laplacian.bench(device, chosen, wanted, counters=profile)

    return Measurement(work, json, csv, plot)


def bench_derivative(
    *,
    n: str = "64",
    order: str = "8",
    backend: str = "auto",
    precision: str = "float64",
    json: bool = False,
    csv: str | None = None,
    plot: str | None = None,
) -> Measurement:
    """Time every form of a first derivative along each axis, and show its error.

    Usage: python -m poisson bench derivative [--n N] [--order P] [--backend NAME] [--precision TYPE] ...

      --n N             nodes along each axis, 64 by default; or NXxNY, or NXxNYxNZ
      --order P         order of accuracy: 2, 4, 6 or 8, the default
      --backend NAME    {backends}; only gpu has more than one form
      --precision TYPE  float64 or float32
      --json            print the rows as JSON and nothing else
      --csv FILE        write the rows as comma-separated values
      --plot FILE       draw the figure (PNG); needs matplotlib

    The function is a sine along the axis of the derivative, one wave on a periodic unit interval. A derivative moves
    two values for each node, the gradient one more than there are axes. docs/kernels.md explains the forms.

    Examples:
      python -m poisson bench derivative --n=64 --precision=float32
      python -m poisson bench derivative --n=92x100x31 --order=4 --backend=openmp

    Exit codes: 0 measured, 2 bad input or nothing to measure on, 130 interrupted."""
    nodes = grid_shape("n", n, 3) if "x" in n else (whole_number("n", n, 3),) * 3
    accuracy = int(one_of("order", order, ("2", "4", "6", "8")))
    one_of("backend", backend, backend_names())
    one_of("precision", precision, PRECISIONS)

    def work() -> Report:
        import numpy as np

        from poisson import backends
        from poisson.perf.benchmark import derivative

        return derivative.bench(backends.create(backend, np.dtype(precision)), nodes, accuracy)

    return Measurement(work, json, csv, plot)


def bench_jacobi(
    *,
    problem: str = "heated_square",
    n: str | None = None,
    iterations: str = "1000",
    loop: str | None = None,
    check_every: str | None = None,
    backend: str | None = None,
    precision: str | None = None,
    threads: str = "0",
    json: bool = False,
    csv: str | None = None,
    plot: str | None = None,
) -> Measurement:
    """Time the Jacobi loops on a published problem, kernel by kernel and as a whole.

    Usage: python -m poisson bench jacobi [--n N] [--iterations N] [--loop NAME,...] [--backend NAME,...] ...

      --problem NAME    heated_square (AMD lab notes: n x n inner nodes, sin along each side), the default, or laplace
                        (NVIDIA's multi-gpu-programming-models: a mesh of n x n nodes, periodic in y); without a source
      --n N             the size, by default 4096 or 16384 as published
      --iterations N    iterations of a loop, 1000 by default; no loop stops earlier
      --loop NAMES      of staged, structured, fused and blocked, separated by commas; structured is the staged loop of
                        the openmp backend with its arrays mapped to the device at every region, for a hundredth of
                        the iterations
      --check-every N   iterations between two reads of the norm: 1 by default, in the blocked loop one block
      --backend NAMES   of {every backend}, separated by commas; by default all that are available,
                        numpy only for a short measurement
      --precision TYPE  float64 or float32; by default as published
      --threads N       threads of the openmp backend on a CPU; 0: OMP_NUM_THREADS or all
      --json            print the rows as JSON and nothing else
      --csv FILE        write the rows as comma-separated values
      --plot FILE       draw the time of an iteration (PNG); needs matplotlib

    A kernel's time is the median of its calls in a row, a loop's the median of three solves, or of one that is long.

    Examples:
      python -m poisson bench jacobi --n=4096 --iterations=1000
      python -m poisson bench jacobi --problem=laplace --loop=fused,blocked --backend=gpu
      python -m poisson bench jacobi --n=512 --backend=openmp --threads=1 --csv=jacobi.csv --plot=jacobi.png

    Exit codes: 0 measured, 2 bad input or nothing to measure on, 130 interrupted."""
    from poisson.perf.benchmark import jacobi
    from poisson.perf.benchmark.problems import PROBLEMS

    one_of("problem", problem, tuple(PROBLEMS))
    if precision:
        one_of("precision", precision, PRECISIONS)
    names = some_of("backend", backend, NAMES) if backend else ()
    options: dict[str, Any] = {
        "n": whole_number("n", n) if n else None,
        "iterations": whole_number("iterations", iterations),
        "loops": some_of("loop", loop, jacobi.ALL_LOOPS) if loop else jacobi.ALL_LOOPS,
        "check_every": whole_number("check-every", check_every) if check_every else None,
        "names": names,
        "precision": precision,
        "threads": thread_count(threads, names),
    }
    return Measurement(lambda: jacobi.bench(problem, **options), json, csv, plot)


def bench_operations(
    *,
    sizes: str = "4096x4096,400x400x400",
    backend: str = "auto",
    precision: str = "float64",
    threads: str = "0",
    stretched: bool = False,
    full: bool = False,
    json: bool = False,
    csv: str | None = None,
) -> Measurement:
    """Time every operation of a backend, and a copy of arrays.

    Usage: python -m poisson bench operations [--sizes SIZE,...] [--backend NAME] [--precision TYPE] ...

      --sizes SIZES     grids, separated by commas: NXxNY or NXxNYxNZ nodes, at least 9 along each axis; by default
                        4096x4096,400x400x400
      --backend NAME    {backends}
      --precision TYPE  float64 or float32
      --threads N       threads of the openmp backend on a CPU; 0: OMP_NUM_THREADS or all
      --stretched       nodes that are closer together near the faces, and not equally spaced
      --full            the operations of stencils of 9 and 27 points, of weights and of clusters
      --json            print the rows as JSON and nothing else
      --csv FILE        write the rows as comma-separated values

    The yardstick is a copy, which runs before every single measurement; a ratio is the median of seven such pairs.

    Examples:
      python -m poisson bench operations --sizes=4096x4096,512x512x512 --backend=gpu
      python -m poisson bench operations --precision=float32 --csv=operations.csv

    Exit codes: 0 measured, 2 bad input or nothing to measure on, 130 interrupted."""
    shapes = [grid_shape("sizes", text.strip(), 9) for text in sizes.split(",")]
    one_of("backend", backend, backend_names())
    one_of("precision", precision, PRECISIONS)
    count = thread_count(threads, [backend])

    def work() -> Report:
        from poisson.perf.benchmark import operations

        return operations.bench(
            shapes, name=backend, precision=precision, threads=count, tabulated=stretched, full=full
        )

    return Measurement(work, json, csv, None)


def bench_solve(
    *,
    n: str | None = None,
    jump: str | None = None,
    study: bool = False,
    method: str | None = None,
    backend: str = "auto",
    threads: str = "0",
    repeats: str = "5",
    json: bool = False,
    csv: str | None = None,
) -> Measurement:
    """Time whole solves by every method.

    Usage: python -m poisson bench solve [--n SIZE,...] [--jump J] [--method NAME,...] [--backend NAME] ...

      --n SIZES         grids, separated by commas: NXxNY or NXxNYxNZ nodes, at least 33 along each axis; by default
                        4097x4097, 8193x8193 and cubes of 513, 1025 and 257 nodes on a GPU, else 1025x1025, 4097x4097
                        and cubes of 129 and 257; the last cube once more with a that jumps
      --jump J          with --n: a is J times as large in a block in the middle
      --study           instead: how the time grows with the unknowns, multigrid on 513x513 to 8193x8193
      --method NAMES    of multigrid, mixed (multigrid in mixed precision), fft, fmg (full multigrid that stops at the
                        discretisation error), cg and cg-mixed (preconditioned by multigrid), and sine (a plain solver
                        with the transforms of scipy or CuPy, beside ours); by default all but cg, or cg alone with a
                        jump. Other problems, by the method that 'auto' takes: open (faces), electrode, insulator and
                        dielectric (a ball of radius 0.2), stretched (the last axis), cells, cylinder (r, z or r, phi,
                        z), polar (r, phi)
      --backend NAME    {backends}
      --threads N       threads on a CPU; 0: OMP_NUM_THREADS or all
      --repeats N       solves of each kind, 5 by default; the median counts
      --json            print the rows as JSON and nothing else
      --csv FILE        write the rows as comma-separated values

    The unit square or cube, Dirichlet faces, float64, a relative residual of 1e-8. The source is smooth with a random
    part a tenth as large. The time without the set-up begins and ends with arrays in the backend's memory.

    Examples:
      python -m poisson bench solve --backend=gpu --csv=solves.csv
      python -m poisson bench solve --n=1025x1025,129x129x129 --method=multigrid,fft --threads=2
      python -m poisson bench solve --study

    Exit codes: 0 measured, 2 bad input or nothing to measure on, 130 interrupted."""
    if study and n is not None:
        raise UsageError("--n and --study both set the sizes: give only one of them")
    if jump is not None and n is None:
        raise UsageError("--jump needs --n, which sets the grids")
    from poisson.perf.benchmark import solve

    ratio = 1.0 if jump is None else positive("jump", jump)
    sizes = [] if n is None else [grid_shape("n", text.strip(), 33) for text in n.split(",")]
    methods = some_of("method", method, solve.METHODS) if method else ()
    one_of("backend", backend, backend_names())
    options: dict[str, Any] = {
        "name": backend,
        # On the host the transforms of the plain solver have threads, whatever the backend has.
        "threads": thread_count(threads, [] if backend == "numpy" else [backend]),
        "repeats": whole_number("repeats", repeats),
    }
    tasks = solve.STUDY if study else tuple(solve.Box(nodes, ratio) for nodes in sizes)
    return Measurement(lambda: solve.bench(tasks, methods, **options), json, csv, None, quiet=True)


def tune(
    case: str | None = None,
    *,
    shape: str | None = None,
    backend: str | None = None,
    precision: str | None = None,
    json: bool = False,
    csv: str | None = None,
) -> Measurement:
    """Find the fastest block shapes of the kernels for this GPU, and store them.

    Usage: python -m poisson tune [CASE] [--shape SIZE] [--backend NAME] [--precision TYPE] [--json] [--csv FILE]

      CASE              a case file: its grid, faces, backend and precision (float64 for mixed)
      --shape SIZE      instead: nodes, NXxNY or NXxNYxNZ; without either, 4096x4096 and 512x512x512
      --backend NAME    {backends}; only gpu has something to tune
      --precision TYPE  float64 or float32
      --json            print one list of rows, times in seconds
      --csv FILE        write the rows

    The shapes are stored in your cache folder (POISSON_CACHE_DIR names another), for this device, driver and version of
    the kernels, and apply to grids of about this size, in this precision and dimension. docs/performance.md lists what
    is tried.

    Examples:
      python -m poisson tune
      python -m poisson tune cases/heated_square.toml --backend gpu
      python -m poisson tune --shape=256x256x256 --precision=float32

    Exit codes: 0 done, 2 bad input, 130 interrupted."""
    if case is not None and shape is not None:
        raise UsageError("--shape cannot be combined with a case file, which has its own shape")
    nodes = None if shape is None else grid_shape("shape", shape, 9)
    if backend is not None:
        one_of("backend", backend, backend_names())
    if precision is not None:
        one_of("precision", precision, PRECISIONS)

    def work() -> Report:
        from poisson.perf import autotune
        from poisson.perf.workload import box, laplacian_on

        if case is None:
            operators = None if nodes is None else [laplacian_on(box(nodes))]
            return autotune.tune(backend or "auto", precision or "float64", operators)
        from poisson.case import load
        from poisson.discrete.discretisation import Discretisation

        loaded = load(case, ())
        # The shapes of kernels depend on the grid and the faces, not on the coefficients.
        operator = Discretisation(loaded.problem).laplacian
        return autotune.tune(backend or loaded.run.backend, precision or loaded.run.dtype, [operator])

    return Measurement(work, json, csv, None)


def roofline(
    *,
    shape: str | None = None,
    backend: str = "auto",
    precision: str = "float64",
    json: bool = False,
    csv: str | None = None,
    plot: str | None = None,
) -> Measurement:
    """Measure every operation and compare with the limits of memory and arithmetic.

    Usage: python -m poisson roofline [--shape SIZE] [--backend NAME] [--precision TYPE] ...

      --shape SIZE      nodes, NXxNY or NXxNYxNZ; 4096x4096 by default, 1024x1024 for numpy
      --backend NAME    {backends}
      --precision TYPE  float64 or float32
      --json            print one list of rows, in SI units
      --csv FILE        write the rows
      --plot FILE       draw them (PNG); needs matplotlib

    Examples:
      python -m poisson roofline --plot=roofline.png --csv=roofline.csv
      python -m poisson roofline --backend=openmp --shape=400x400x400

    Exit codes: 0 done, 2 bad input, 130 interrupted."""
    nodes = None if shape is None else grid_shape("shape", shape, 9)
    one_of("backend", backend, backend_names())
    one_of("precision", precision, PRECISIONS)

    def work() -> Report:
        from poisson.perf.roofline import roofline as measure

        return measure(backend, precision, nodes)

    return Measurement(work, json, csv, plot)
