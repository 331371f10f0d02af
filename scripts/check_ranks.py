# SPDX-License-Identifier: MIT
"""Solve cases on several processes and on one, and hold the results to each other.

    mpirun -n 2 python scripts/check_ranks.py [--backend NAME] [--large] [CASE ...]

Without cases all in cases/ are solved, and some that have what those have not (`FURTHER`); with --large also grids of
which several are divided. Prints a line for each, and ends with 1 if one is off. On GPUs start one process for each.
"""

import sys
import tempfile
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import poisson
from poisson.case import load
from poisson.parallel.mpi import load as load_mpi

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "scripts"))

SAME = {"float64": 1e-7, "mixed": 1e-7, "float32": 2e-3}
"""How far u may be off, over its largest value: the tolerances leave so much, and the order of sums decides where."""

NOISE = ("residual", "error")
"""Fields that are differences of what about agrees."""

FURTHER = (
    ("cube", ("solver.method='fft'", "domain.shape=[65, 66, 67]")),
    ("cube", ("solver.method='jacobi'", "solver.max_iterations=50", "domain.shape=[33, 66, 67]")),
    ("cube", ("solver.method='cg'", "equation.a='1 + 100*x*y'", "domain.shape=[33, 66, 67]")),
    ("unit_square", ("solver.method='jacobi'", "solver.loop='fused'", "solver.max_iterations=50")),
    ("unit_square", ("solver.method='chebyshev'", "solver.max_iterations=300")),
    ("unit_square", ("solver.method='sor'", "solver.max_iterations=300")),
    ("unit_square", ("run.precision='mixed'", "solver.method='multigrid'", "solver.smoother='red-black'")),
)
LARGE = (
    ("cube", ("domain.shape=[257, 257, 257]", "run.precision='mixed'", "solver.method='multigrid'")),
    ("cube", ("domain.shape=[257, 257, 257]", "solver.method='fft'")),
    ("cube", ("domain.shape=[129, 257, 257]", "solver.method='cg'", "equation.a='1 + 100*x*y'")),
    ("unit_square", ("domain.shape=[2049, 2049]", "solver.method='multigrid'")),
    ("unit_square", ("domain.shape=[2049, 2050]", "solver.method='fft'")),
)


@dataclass(frozen=True)
class Compared:
    """A case on several processes beside the same on one."""

    name: str
    line: str
    right: bool


def compared(comm: Any, path: Path, overrides: Sequence[str], backend: str) -> Compared | None:
    """Solve a case on all ranks, and on the first alone, which gets the comparison."""
    case = load(path, (*overrides, f"run.backend='{backend}'"))
    solution = poisson.solve(case, comm=comm)
    names = ("u", *solution.fields)
    wholes = {name: solution.gather(name) for name in names}
    if comm.Get_rank() > 0:
        return None
    alone = poisson.solve(case)
    off = {name: _off(wholes[name], alone.gather(name)) for name in names if name not in NOISE}
    most = max(off, key=lambda name: off[name])
    right = off[most] <= SAME[case.run.precision] and solution.status is alone.status
    counts = f"{solution.iterations} iterations, alone {alone.iterations}"
    blocks, method = solution.provenance.get("blocks", "1"), solution.provenance["method"]
    line = f"{method}, blocks {blocks}: {solution.status.value}, {counts}, {most} off by {off[most]:.1e}"
    return Compared(path.stem + "".join(f" {each}" for each in overrides), line, right)


def _off(found: Any, expected: Any) -> float:
    """The largest difference over the largest value."""
    return float(np.abs(found - expected).max()) / (float(np.abs(expected).max()) or 1.0)


def chosen(words: Sequence[str], folder: Path) -> list[tuple[Path, tuple[str, ...]]]:
    """The cases, with what is set besides."""
    from make_source import main as make_source

    names = [word for word in words if not word.startswith("-")]
    if names:
        return [(Path(name), ()) for name in names]
    make_source(folder)
    for path in (ROOT / "cases").glob("*.toml"):
        (folder / path.name).symlink_to(path)
    several = [*FURTHER, *(LARGE if "--large" in words else ())]
    usual = [(path.stem, ()) for path in sorted((ROOT / "cases").glob("*.toml"))]
    return [(folder / f"{name}.toml", overrides) for name, overrides in (*usual, *several)]


def main(words: Sequence[str]) -> int:
    comm = load_mpi().COMM_WORLD
    words = [part for word in words for part in word.split("=")]
    backend = words[words.index("--backend") + 1] if "--backend" in words else "auto"
    words = [word for word in words if word not in ("--backend", backend)]
    wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        for path, overrides in chosen(words, Path(folder)):
            found = compared(comm, path, overrides, backend)
            if found is not None:
                print(f"{'same' if found.right else 'OFF '}  {found.name}\n      {found.line}", flush=True)
                wrong += not found.right
    wrong = comm.bcast(wrong)
    if comm.Get_rank() == 0:
        print(f"{comm.Get_size()} processes: {wrong or 'none'} off")
    return int(wrong > 0)


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except Exception:
        traceback.print_exc()
        # Others may wait for this process.
        load_mpi().COMM_WORLD.Abort(2)
