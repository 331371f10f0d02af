"""A validated case: the problem, and how to solve it, run it and write it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from poisson.problem import Problem


@dataclass(frozen=True)
class SolverSettings:
    """The table ``[solver]``.

    Parameters
    ----------
    method : str
        ``jacobi``.
    omega : float or None
        Damping, 0 < ω ≤ 1. None: the solver chooses (1 where plain Jacobi converges, less where it does not).
    loop : str
        ``blocked``, ``fused`` or ``staged``.
    rtol : float
        Tolerance on the residual norm, relative to the norm of f with its face terms, ≥ 0.
    atol : float
        Tolerance on the residual norm itself, in U/L², ≥ 0.
    norm : str
        ``rms`` or ``max``.
    max_iterations : int
        Limit on sweeps, ≥ 1.
    check_every : int
        Sweeps between two reads of the norm; 0: the solver chooses.
    """

    method: str
    omega: float | None
    loop: str
    rtol: float
    atol: float
    norm: str
    max_iterations: int
    check_every: int


@dataclass(frozen=True)
class RunSettings:
    """The table ``[run]``.

    Parameters
    ----------
    backend : str
        ``auto``, ``gpu``, ``openmp`` or ``numpy``.
    precision : str
        ``float64`` or ``float32``.
    threads : int
        Threads of the CPU; 0: all of them.
    """

    backend: str
    precision: str
    threads: int


@dataclass(frozen=True)
class OutputSettings:
    """The table ``[output]``.

    Parameters
    ----------
    file : Path
        Relative to the current folder.
    fields : tuple of str
        What is written, with ``u`` among it.
    order : int
        Order of accuracy of the differences that ``gradient`` and ``flux`` are computed with.
    """

    file: Path
    fields: tuple[str, ...]
    order: int

    @property
    def vectors(self) -> tuple[str, ...]:
        """Those of the fields that are vectors."""
        return tuple(name for name in self.fields if name in ("gradient", "flux"))


@dataclass(frozen=True)
class Case:
    """A case file, validated.

    Parameters
    ----------
    problem : Problem
        The equation, the grid, the faces.
    solver, run, output : SolverSettings, RunSettings, OutputSettings
        The settings, with every default filled in.
    text : str
        The case as TOML with every default filled in and every override applied. Read again with the same folder for
        its field files, it gives an equal case.
    """

    problem: Problem
    solver: SolverSettings
    run: RunSettings
    output: OutputSettings
    text: str
