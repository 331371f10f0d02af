# SPDX-License-Identifier: MIT
"""Solve the same problems with other solvers and with this one, each as its users call it, and time the whole call.

    python scripts/peers.py [NAME,...] [--n 1025x1025,...] [--a spots] [--jump 1e6] [--repeats 3] [--json]

Without names, all of `PEERS` that this interpreter can import; others are left out with a line that says so. With PETSc
start it under mpirun for several processes; all others have the threads that they take by themselves, which
OMP_NUM_THREADS and its like may fix.

The problem is −∇·(a∇u) = f on the unit box, u = 0 on its sides, f smooth, to 1e-8 of the norm of f. With ``--a`` a is
one or all of `COEFFICIENTS`, of which ``--jump`` is the contrast, with the harmonic means between nodes that finite
volumes have; solvers of constant coefficients are left out then, and the right-hand side is random. A row is the first
call, with its set-up, and the least time of the later ones. Its residual is that of the same matrix, computed here.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import importlib.util
import itertools
import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

RTOL = 1e-8
Array = NDArray[np.float64]
Solve = Callable[[Array], Array]
"""From f at all nodes, zero on the sides, to u there."""


def source(shape: tuple[int, ...]) -> Array:
    """A smooth f of many modes at the nodes, zero on the sides; the slowest axis comes first."""
    axes = np.meshgrid(*(np.linspace(0.0, 1.0, n) for n in shape), indexing="ij", sparse=True)
    f = sum(x * (i + 1.0) for i, x in enumerate(axes)) * np.exp(-sum((x - 0.4) ** 2 for x in axes) / 0.05)
    for axis in range(len(shape)):
        np.moveaxis(f, axis, 0)[[0, -1]] = 0.0
    return np.ascontiguousarray(f)


def _box(index: Array, n: int, jump: float) -> Array:
    inside = np.logical_and.reduce([(n // 4 < i) & (i < 3 * n // 4) for i in index])
    return np.where(inside, jump, 1.0)


def _blobs(index: Array, jump: float, level: float = 0.0) -> Array:
    """Two phases of a voxel image: where Gaussian noise of a correlation length of two nodes is above a level."""
    from scipy.ndimage import gaussian_filter

    noise = gaussian_filter(np.random.default_rng(0).standard_normal(index.shape[1:]), 2.0)
    return np.where(noise > level * noise.std(), jump, 1.0)


def _spots(index: Array, jump: float, part: float) -> Array:
    return np.where(np.random.default_rng(0).random(index.shape[1:]) < part, jump, 1.0)


COEFFICIENTS: dict[str, Callable[[Array, float], Array]] = {
    "constant": lambda index, jump: np.ones(index.shape[1:]),
    "box": lambda index, jump: _box(index, index.shape[-1], jump),
    "spots": lambda index, jump: _spots(index, jump, 0.1),
    "halves": lambda index, jump: _spots(index, jump, 0.5),
    "checkers": lambda index, jump: np.where(index.sum(0) % 2 == 0, jump, 1.0),
    "checkers 3": lambda index, jump: np.where((index // 3).sum(0) % 2 == 0, jump, 1.0),
    "checkers 8": lambda index, jump: np.where((index // 8).sum(0) % 2 == 0, jump, 1.0),
    "lognormal": lambda index, jump: np.exp(4.0 * np.random.default_rng(0).standard_normal(index.shape[1:])),
    "network": lambda index, jump: np.where((index % 9 == 4).any(0), 1.0 / jump, 1.0),
    "voxels": lambda index, jump: _blobs(index, jump),
    "pores": lambda index, jump: _blobs(index, 1.0 / jump, 0.15),
}
"""By name: a from the indices of all nodes and the contrast."""


def links(a: Array) -> list[Array]:
    """The harmonic means between the nodes of each axis, over the square of its spacing."""
    found = []
    for axis, n in enumerate(a.shape):
        low, high = np.delete(a, -1, axis), np.delete(a, 0, axis)
        found.append(2.0 * low * high / (low + high) * (n - 1.0) ** 2)
    return found


def relative_residual(u: Array, f: Array, a: Array) -> float:
    """‖f − A u‖ / ‖f‖ over the inner nodes."""
    r = f.copy()
    for axis, link in enumerate(links(a)):
        flow = link * np.diff(u, axis=axis)
        np.moveaxis(r, axis, 0)[1:-1] += np.moveaxis(np.diff(flow, axis=axis), axis, 0)
    inner = (slice(1, -1),) * u.ndim
    return float(np.linalg.norm(r[inner]) / np.linalg.norm(f[inner]))


def matrix(a: Array) -> Any:
    """The matrix of the inner nodes, in compressed rows."""
    from scipy import sparse

    inner = tuple(n - 2 for n in a.shape)
    numbers = np.arange(int(np.prod(inner))).reshape(inner)
    diagonal, rows, columns, values = np.zeros(inner), [], [], []
    for axis, link in enumerate(links(a)):
        other = tuple(slice(None) if k == axis else slice(1, -1) for k in range(a.ndim))
        along = np.moveaxis(link[other], axis, 0)
        np.moveaxis(diagonal, axis, 0)[...] += along[:-1] + along[1:]
        ends = np.moveaxis(numbers, axis, 0)
        for here, there in ((ends[:-1], ends[1:]), (ends[1:], ends[:-1])):
            rows.append(here.ravel())
            columns.append(there.ravel())
            values.append(-along[1:-1].ravel())
    every = numbers.ravel()
    entries = np.concatenate([*values, diagonal.ravel()])
    places = np.concatenate([*rows, every]), np.concatenate([*columns, every])
    return sparse.csr_matrix((entries, places))


def padded(inner: Array) -> Array:
    return np.pad(inner, 1)


# ---- the solvers: each makes what it keeps for an operator, and returns what solves


def poisson_auto(shape: tuple[int, ...], a: Array | None) -> Solve:
    import poisson

    problem = poisson.Problem.on_box(shape[::-1], a=1.0 if a is None else a)
    solver = poisson.Solver(problem, rtol=RTOL)
    return lambda f: solver.solve(f=f).u


def poisson_multigrid(shape: tuple[int, ...], a: Array | None) -> Solve:
    import poisson

    problem = poisson.Problem.on_box(shape[::-1], a=1.0 if a is None else a)
    solver = poisson.Solver(problem, "multigrid", precision="mixed", rtol=RTOL)
    return lambda f: solver.solve(f=f).u


def scipy_fft(shape: tuple[int, ...], a: Array | None) -> Solve:
    from scipy import fft

    inner = (slice(1, -1),) * len(shape)
    modes = [4.0 * (n - 1.0) ** 2 * np.sin(np.pi * np.arange(1, n - 1) / (2 * (n - 1))) ** 2 for n in shape]
    grid = np.meshgrid(*modes, indexing="ij", sparse=True)
    inverse = 1.0 / sum(grid)
    return lambda f: padded(fft.idstn(fft.dstn(f[inner], type=1, workers=-1) * inverse, type=1, workers=-1))


def scipy_spsolve(shape: tuple[int, ...], a: Array | None) -> Solve:
    from scipy.sparse.linalg import splu

    inner = (slice(1, -1),) * len(shape)
    factors = splu(matrix(np.ones(shape) if a is None else a).tocsc())
    return lambda f: padded(factors.solve(f[inner].ravel()).reshape([n - 2 for n in shape]))


def _pyamg(kind: str, shape: tuple[int, ...], a: Array | None) -> Solve:
    import pyamg

    levels = getattr(pyamg, kind)(matrix(np.ones(shape) if a is None else a))
    inner, small = (slice(1, -1),) * len(shape), [n - 2 for n in shape]
    return lambda f: padded(levels.solve(f[inner].ravel(), tol=RTOL, accel="cg", maxiter=500).reshape(small))


def pyamg_ruge_stuben(shape: tuple[int, ...], a: Array | None) -> Solve:
    return _pyamg("ruge_stuben_solver", shape, a)


def pyamg_aggregation(shape: tuple[int, ...], a: Array | None) -> Solve:
    return _pyamg("smoothed_aggregation_solver", shape, a)


def py_pde(shape: tuple[int, ...], a: Array | None) -> Solve:
    """On cells and not on nodes: its u has no residual here."""
    import pde

    grid = pde.CartesianGrid([[0.0, 1.0]] * len(shape), [n - 1 for n in shape])

    def solve(f: Array) -> Array:
        middle = f
        for axis in range(f.ndim):
            middle = 0.5 * (np.delete(middle, -1, axis) + np.delete(middle, 0, axis))
        field = pde.ScalarField(grid, -middle)
        return np.asarray(pde.solve_poisson_equation(field, bc={"value": 0.0}).data)

    return solve


def fishpack(shape: tuple[int, ...], a: Array | None) -> Solve:
    from PyFishPack import invert_Poisson

    spacing = tuple(1.0 / (n - 1) for n in shape)
    inner = (slice(1, -1),) * 2
    return lambda f: padded(np.asarray(invert_Poisson(-f[inner], BCs=("fixed", "fixed"), spacing=spacing)))


def mkl(shape: tuple[int, ...], a: Array | None) -> Solve:
    """Intel's Poisson library; it works in the array that it is given, so f is copied."""
    library = ctypes.CDLL(_mkl_path())
    dimension = len(shape)
    name = f"HELMHOLTZ_{dimension}D"
    counts = [ctypes.c_int(n - 1) for n in reversed(shape)]
    ends = [ctypes.c_double(value) for _ in shape for value in (0.0, 1.0)]
    ints, status = (ctypes.c_int * 128)(), ctypes.c_int()
    doubles = np.zeros(13 * sum(shape) + 64)
    kinds, zero = ctypes.c_char_p(b"D" * (2 * dimension)), ctypes.c_double(0.0)
    box = [*(ctypes.byref(each) for each in (*ends, *counts)), kinds, ctypes.byref(zero)]
    handles = [ctypes.c_void_p() for _ in range(dimension - 1)]
    sides = [np.zeros(int(np.prod(shape)) // n) for n in reversed(shape) for _ in range(2)]
    tail = [*map(_address, sides), *map(ctypes.byref, handles)]
    place = [ints, _address(doubles), ctypes.byref(status)]

    def solve(f: Array) -> Array:
        u = f.copy()
        # What commits also scales the source, so a second one needs all of it again.
        getattr(library, f"D_INIT_{name}")(*box, *place)
        for step in ("D_COMMIT_", "D_"):
            getattr(library, step + name)(_address(u), *tail, *place)
            if status.value:
                raise RuntimeError(f"MKL ended with status {status.value}")
        getattr(library, f"FREE_{name}")(*map(ctypes.byref, handles), ints, ctypes.byref(status))
        return u

    return solve


def _mkl_path() -> str:
    places = [Path(sys.prefix) / "lib" / name for name in ("libmkl_rt.so.3", "libmkl_rt.so.2")]
    for path in places:
        if path.exists():
            return str(path)
    raise ImportError("no libmkl_rt in this environment: pip install mkl")


def _address(array: Array) -> Any:
    return array.ctypes.data_as(ctypes.c_void_p)


def _petsc(preconditioner: str, shape: tuple[int, ...], a: Array | None) -> Solve:
    """The rows are divided over the processes of MPI, and u comes back whole in the first."""
    import petsc4py

    petsc4py.init([])
    from petsc4py import PETSc

    rows = matrix(np.ones(shape) if a is None else a)
    processes, rank = PETSc.COMM_WORLD.getSize(), PETSc.COMM_WORLD.getRank()
    own = slice(rows.shape[0] * rank // processes, rows.shape[0] * (rank + 1) // processes)
    part = rows[own]
    operator = PETSc.Mat().createAIJ(
        ((own.stop - own.start, None), (own.stop - own.start, None)), csr=(part.indptr, part.indices, part.data)
    )
    ksp = PETSc.KSP().create()
    ksp.setOperators(operator)
    ksp.setType("cg")
    ksp.getPC().setType(preconditioner)
    ksp.setTolerances(rtol=RTOL)
    ksp.setNormType(PETSc.KSP.NormType.UNPRECONDITIONED)
    left, right = operator.createVecs()
    scatter, whole = PETSc.Scatter.toZero(left)
    inner = (slice(1, -1),) * len(shape)

    def solve(f: Array) -> Array:
        right.setArray(f[inner].ravel()[own])
        ksp.solve(right, left)
        scatter.scatter(left, whole)
        values = whole.getArray()
        return padded(values.reshape([n - 2 for n in shape])) if values.size else np.zeros(shape)

    return solve


def petsc_gamg(shape: tuple[int, ...], a: Array | None) -> Solve:
    return _petsc("gamg", shape, a)


def hypre_boomeramg(shape: tuple[int, ...], a: Array | None) -> Solve:
    return _petsc("hypre", shape, a)


def hypre_pfmg(shape: tuple[int, ...], a: Array | None) -> Solve:
    """CG with the multigrid of structured grids, through ctypes; the slowest axis is divided over the processes."""
    from mpi4py import MPI

    library = ctypes.CDLL(_hypre_path())
    comm = ctypes.c_void_p.from_address(MPI._addressof(MPI.COMM_WORLD))
    inner = [n - 2 for n in shape]
    ranks, rank = MPI.COMM_WORLD.size, MPI.COMM_WORLD.rank
    first, last = inner[0] * rank // ranks, inner[0] * (rank + 1) // ranks
    dimension, ints = len(shape), ctypes.c_int * len(shape)
    lower, upper = ints(*[0] * (dimension - 1), first), ints(*[n - 1 for n in inner[:0:-1]], last - 1)

    def made(kind: str, *arguments: Any) -> ctypes.c_void_p:
        handle = ctypes.c_void_p()
        getattr(library, f"HYPRE_Struct{kind}Create")(*arguments, ctypes.byref(handle))
        return handle

    def call(name: str, *arguments: Any) -> None:
        if getattr(library, f"HYPRE_Struct{name}")(*arguments):
            library.HYPRE_ClearAllErrors()  # a solve that stops at the most iterations is one too

    grid, stencil = made("Grid", comm, dimension), made("Stencil", dimension, dimension + 1)
    call("GridSetExtents", grid, lower, upper)
    call("GridAssemble", grid)
    for entry in range(dimension + 1):
        call("StencilSetElement", stencil, entry, ints(*[int(axis == entry - 1) for axis in range(dimension)]))
    operator = made("Matrix", comm, grid, stencil)
    call("MatrixSetSymmetric", operator, 1)
    call("MatrixInitialize", operator)
    flows = links(np.ones(shape) if a is None else a)
    middle = [np.moveaxis(flow[tuple(slice(None) if k == axis else slice(1, -1) for k in range(dimension))], axis, 0)
              for axis, flow in enumerate(flows)]  # fmt: skip
    entries = [sum(np.moveaxis(flow[1:] + flow[:-1], 0, axis) for axis, flow in enumerate(middle))]
    for axis in reversed(range(dimension)):
        ends = middle[axis][1:].copy()
        ends[-1] = 0.0
        entries.append(-np.moveaxis(ends, 0, axis))
    values = np.ascontiguousarray(np.stack(entries, axis=-1)[first:last])
    call("MatrixSetBoxValues", operator, lower, upper, dimension + 1, (ctypes.c_int * 4)(0, 1, 2, 3), _address(values))
    call("MatrixAssemble", operator)
    left, right = made("Vector", comm, grid), made("Vector", comm, grid)
    for vector in (left, right):
        call("VectorInitialize", vector)
        call("VectorAssemble", vector)
    cg, cycle = made("PCG", comm), made("PFMG", comm)
    for name, value in (("Tol", ctypes.c_double(RTOL)), ("TwoNorm", 1), ("MaxIter", 500)):
        call(f"PCGSet{name}", cg, value)
    for name, value in (("MaxIter", 1), ("Tol", ctypes.c_double(0.0))):
        call(f"PFMGSet{name}", cycle, value)
    call("PFMGSetZeroGuess", cycle)
    call("PCGSetPrecond", cg, library.HYPRE_StructPFMGSolve, library.HYPRE_StructPFMGSetup, cycle)
    call("PCGSetup", cg, operator, right, left)

    def solve(f: Array) -> Array:
        part = np.ascontiguousarray(f[(slice(1, -1),) * dimension][first:last])
        call("VectorSetBoxValues", right, lower, upper, _address(part))
        call("VectorSetBoxValues", left, lower, upper, _address(np.zeros_like(part)))
        call("PCGSolve", cg, operator, right, left)
        call("VectorGetBoxValues", left, lower, upper, _address(part))
        return padded(np.concatenate(MPI.COMM_WORLD.allgather(part)))

    return solve


def _hypre_path() -> str:
    found = ctypes.util.find_library("HYPRE")
    if found is None:
        raise ImportError("no libHYPRE on this machine: apt-get install libhypre-dev")
    return found


PEERS: dict[str, tuple[Callable[[tuple[int, ...], Array | None], Solve], str, bool, int, int]] = {
    "poisson": (poisson_auto, "poisson", True, 3, 10**9),
    "poisson multigrid": (poisson_multigrid, "poisson", True, 3, 10**9),
    "mkl": (mkl, "numpy", False, 3, 10**9),
    "scipy.fft": (scipy_fft, "scipy", False, 3, 10**9),
    "fishpack": (fishpack, "PyFishPack", False, 2, 10**8),
    "pyamg ruge-stuben": (pyamg_ruge_stuben, "pyamg", True, 3, 3 * 10**6),
    "pyamg aggregation": (pyamg_aggregation, "pyamg", True, 3, 20 * 10**6),
    "petsc gamg": (petsc_gamg, "petsc4py", True, 3, 3 * 10**6),
    "hypre boomeramg": (hypre_boomeramg, "petsc4py", True, 3, 3 * 10**6),
    "hypre pfmg": (hypre_pfmg, "mpi4py", True, 3, 10**8),
    "scipy.sparse": (scipy_spsolve, "scipy", True, 3, 3 * 10**5),
    "py-pde": (py_pde, "pde", False, 3, 3 * 10**5),
}
"""By name: what makes the solver, the module that it needs, whether a may vary, the highest dimension, and the most
nodes that it is tried with, as it takes minutes or more memory than a laptop has beyond."""


def timed(name: str, shape: tuple[int, ...], a: Array | None, repeats: int) -> dict[str, Any]:
    """A row: the first call with its set-up, the least of the later ones, and the residual."""
    f = source(shape)
    begin = time.perf_counter()
    solve = PEERS[name][0](shape, a)
    u = solve(f)
    first = time.perf_counter() - begin
    later = []
    for _ in range(repeats):
        begin = time.perf_counter()
        u = solve(f)
        later.append(time.perf_counter() - begin)
    residual = relative_residual(u, f, np.ones(shape) if a is None else a) if u.shape == shape else None
    row = {"solver": name, "nodes": "x".join(map(str, reversed(shape)))}
    return row | {"first_s": first, "later_s": min(later), "residual": residual}


def chosen(names: Sequence[str], shape: tuple[int, ...], constant: bool) -> list[str]:
    """The solvers that can be run here, with a line on standard error for each that cannot."""
    found = []
    for name in names:
        _, module, varies, dimension, most = PEERS[name]
        reason = ""
        if importlib.util.find_spec(module) is None:
            reason = f"no {module} in this environment"
        elif not constant and not varies:
            reason = "constant coefficients only"
        elif len(shape) > dimension:
            reason = f"{dimension} dimensions only"
        elif np.prod(shape) > most:
            reason = f"more than {most} nodes take too long"
        if reason:
            print(f"{name}: left out ({reason})", file=sys.stderr)
        else:
            found.append(name)
    return found


def main(words: Sequence[str]) -> int:
    options = dict(itertools.pairwise(words))
    names = words[0].split(",") if words and not words[0].startswith("--") else list(PEERS)
    if unknown := [name for name in names if name not in PEERS]:
        print(f"{unknown[0]!r}: there is no such solver; there is {', '.join(PEERS)}", file=sys.stderr)
        return 2
    shapes = [tuple(int(n) for n in reversed(each.split("x"))) for each in options.get("--n", "129x129").split(",")]
    coefficients = list(COEFFICIENTS) if options.get("--a") == "all" else options.get("--a", "").split(",")
    if unknown := [name for name in coefficients if name and name not in COEFFICIENTS]:
        print(f"--a {unknown[0]!r}: there is no such coefficient; there is {', '.join(COEFFICIENTS)}", file=sys.stderr)
        return 2
    jump = float(options.get("--jump", "1e6"))
    # Of several processes the first one speaks.
    speaks = os.environ.get("OMPI_COMM_WORLD_RANK", os.environ.get("PMI_RANK", "0")) == "0"
    for shape, coefficient in itertools.product(shapes, coefficients):
        a = COEFFICIENTS[coefficient](np.indices(shape), jump) if coefficient else None
        for name in chosen(names, shape, a is None):
            try:
                row = timed(name, shape, a, int(options.get("--repeats", "3"))) | {"a": coefficient or "1"}
            except ImportError as error:
                print(f"{name}: left out ({error})", file=sys.stderr)
                continue
            if not speaks:
                continue
            if "--json" in words:
                print(json.dumps(row), flush=True)
                continue
            residual = "-" if row["residual"] is None else f"{row['residual']:.1e}"
            nodes, first, later = row["nodes"], 1e3 * row["first_s"], 1e3 * row["later_s"]
            line = f"{name:20} {nodes:14} {row['a']:12} {first:10.2f} {later:10.2f} ms  residual {residual}"
            print(line, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
