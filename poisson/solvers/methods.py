"""The methods by their names in a case file: a name and settings give a solver with its set-up done."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from poisson.backends.base import Backend
from poisson.discrete.operator import Operator
from poisson.solvers.cg import ConjugateGradients, Diagonal
from poisson.solvers.chebyshev import Chebyshev
from poisson.solvers.constants import BalancedSolver
from poisson.solvers.fast import FastPreconditioner, FastTransform
from poisson.solvers.iteration import Preconditioner, Solver
from poisson.solvers.jacobi import Jacobi
from poisson.solvers.mixed import DefectCorrection, MixedConjugateGradients
from poisson.solvers.multigrid import CoarserProblems, Multigrid, MultigridSettings
from poisson.solvers.settings import METHODS
from poisson.solvers.sor import Sor
from poisson.solvers.spectrum import hardly_holds_constants, without_reaction

PRECONDITIONERS = ("none", "jacobi", "multigrid", "fft")


@dataclass(frozen=True)
class MethodSettings:
    """What `solver_of` needs beside the operator.

    Parameters
    ----------
    method : str
        One of `poisson.solvers.settings.METHODS`.
    multigrid : MultigridSettings
        The cycle of ``multigrid``, and of the preconditioner of that name.
    preconditioner : str
        Of ``cg``: one of `PRECONDITIONERS`.
    omega : float, optional
        Of ``jacobi`` and ``sor``; by default the best one known.
    loop : str
        Of ``jacobi``: one of `loops.LOOPS`.
    """

    method: str
    multigrid: MultigridSettings = field(default_factory=MultigridSettings)
    preconditioner: str = "multigrid"
    omega: float | None = None
    loop: str = "blocked"

    def __post_init__(self) -> None:
        if self.method not in METHODS:
            raise ValueError(f"method = {self.method!r}; it must be one of {METHODS}")
        if self.preconditioner not in PRECONDITIONERS:
            raise ValueError(f"preconditioner = {self.preconditioner!r}; it must be one of {PRECONDITIONERS}")


def solver_of(
    backend: Backend,
    operator: Operator,
    settings: MethodSettings,
    inner: Operator | None = None,
    coarser: CoarserProblems | None = None,
) -> Solver:
    """The solver of a method, with its set-up done.

    Parameters
    ----------
    backend : Backend
        Where the arrays of u and f are.
    operator : Operator
        A, with coefficients on that backend.
    settings : MethodSettings
        The method and its settings.
    inner : Operator, optional
        A with coefficients on ``backend.companion(float32)``: with it the cycles, or the directions of ``cg`` and their
        preconditioner, are made there (mixed precision).
    coarser : CoarserProblems, optional
        The problem on coarser grids, which ``multigrid`` needs to stop at the discretisation error.

    Raises
    ------
    PoissonError
        If the method cannot solve this problem.
    """
    if coarser is not None or not hardly_holds_constants(operator):
        return _method_of(backend, operator, settings, inner, coarser)
    method = _method_of(backend, without_reaction(operator), settings, inner, None)
    return BalancedSolver(backend, operator, method)


def _method_of(
    backend: Backend,
    operator: Operator,
    settings: MethodSettings,
    inner: Operator | None,
    coarser: CoarserProblems | None,
) -> Solver:
    if inner is not None:
        companion = backend.companion(np.float32)
        if settings.method == "multigrid":
            return DefectCorrection(backend, operator, companion, Multigrid(companion, inner, settings.multigrid))
        preconditioner = preconditioner_of(companion, inner, settings) if settings.method == "cg" else None
        if preconditioner is None:
            raise ValueError(f"method = {settings.method!r} with these settings has no mixed precision")
        return MixedConjugateGradients(backend, operator, companion, inner, preconditioner)
    match settings.method:
        case "multigrid":
            return Multigrid(backend, operator, settings.multigrid, coarser)
        case "cg":
            return ConjugateGradients(backend, operator, preconditioner_of(backend, operator, settings))
        case "fft":
            return FastTransform(backend, operator)
        case "jacobi":
            return Jacobi(backend, operator, settings.omega, settings.loop)
        case "chebyshev":
            return Chebyshev(backend, operator)
        case _:
            return Sor(backend, operator, settings.omega)


def preconditioner_of(backend: Backend, operator: Operator, settings: MethodSettings) -> Preconditioner | None:
    """The preconditioner of conjugate gradients."""
    match settings.preconditioner:
        case "jacobi":
            return Diagonal(backend, operator)
        case "multigrid":
            return Multigrid(backend, operator, self_adjoint(settings.multigrid))
        case "fft":
            return FastPreconditioner(backend, operator)
        case _:
            return None


def self_adjoint(settings: MultigridSettings) -> MultigridSettings:
    """The cycle with as many sweeps before the restriction as after the correction: the larger of both numbers."""
    sweeps = max(settings.pre, settings.post)
    return replace(settings, pre=sweeps, post=sweeps, symmetric=True, full=False)
