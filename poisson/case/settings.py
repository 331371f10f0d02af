"""A validated case: the problem, and how to solve it, run it and write it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from poisson.problem import Problem

METHODS = ("multigrid", "cg", "fft", "jacobi", "chebyshev", "sor")
"""The methods that a case may name beside ``auto``."""


WITHOUT_VECTORS = "only its default without gradient or flux in {}, which it is the order of"


@dataclass(frozen=True)
class SolverSettings:
    """The table ``[solver]``.

    Parameters
    ----------
    method : str
        One of `METHODS`, or ``auto``: `poisson.solvers.choose` decides.
    omega : float or None
        Weight of ``jacobi``, 0 < ω ≤ 1, or of ``sor``, 0 < ω < 2. None: the solver chooses.
    loop : str
        Of ``jacobi``: ``blocked``, ``fused`` or ``staged``.
    rtol : float
        Tolerance on the residual norm, relative to the norm of f with its face terms, ≥ 0.
    atol : float
        Tolerance on the residual norm itself, in U/L², ≥ 0.
    norm : str
        ``rms`` or ``max``.
    max_iterations : int
        Limit on iterations (sweeps, cycles), ≥ 1.
    check_every : int
        Of ``jacobi``, ``chebyshev`` and ``sor``: sweeps between two reads of the norm; 0: the solver chooses.
    cycle : str
        Of multigrid: ``V``, ``W`` or ``F``.
    full : bool
        Whether multigrid starts on the coarsest grid (full multigrid) where there is no initial guess.
    smoother : str
        Of multigrid: ``chebyshev``, ``jacobi`` or ``red-black``.
    pre, post : int
        Sweeps of the smoother before and after the coarse correction, ≥ 0 and together ≥ 1.
    preconditioner : str
        Of ``cg``: ``none``, ``jacobi``, ``multigrid`` or ``fft``.
    stop : str
        ``residual``: at `rtol` or `atol`; ``discretisation``: when the algebraic error is below the discretisation
        error that the levels of multigrid let see.
    """

    method: str = "auto"
    omega: float | None = None
    loop: str = "blocked"
    rtol: float = 1e-8
    atol: float = 0.0
    norm: str = "rms"
    max_iterations: int = 200_000
    check_every: int = 0
    cycle: str = "V"
    full: bool = True
    smoother: str = "chebyshev"
    pre: int = 2
    post: int = 1
    preconditioner: str = "multigrid"
    stop: str = "residual"


@dataclass(frozen=True)
class RunSettings:
    """The table ``[run]``.

    Parameters
    ----------
    backend : str
        ``auto``, ``gpu``, ``openmp`` or ``numpy``.
    precision : str
        ``float64``, ``float32``, or ``mixed``: float32 inside, float64 outside.
    threads : int
        Threads of the CPU; 0: all of them.
    """

    backend: str = "auto"
    precision: str = "float64"
    threads: int = 0

    @property
    def threaded(self) -> bool:
        """Whether the backend runs on threads of the CPU, or may."""
        return self.backend in ("auto", "openmp")

    @property
    def dtype(self) -> str:
        """The type of u: that of the outer iteration."""
        return "float32" if self.precision == "float32" else "float64"


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
