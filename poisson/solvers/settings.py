"""How to solve and where to run: the settings, with their defaults."""

from __future__ import annotations

from dataclasses import dataclass

from poisson.backends.registry import threaded

METHODS = ("multigrid", "cg", "fft", "jacobi", "chebyshev", "sor")
"""The methods that a case may name beside ``auto``."""


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
        return threaded(self.backend)

    @property
    def dtype(self) -> str:
        """The type of u: that of the outer iteration."""
        return "float32" if self.precision == "float32" else "float64"
