# SPDX-License-Identifier: MIT
"""The arguments of solvers: those that are keys of a case file, and checks of others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal, TypedDict

import numpy as np

from poisson.backends.base import Backend
from poisson.case.settings import FIELDS, VECTORS, WITHOUT_VECTORS, FieldName
from poisson.errors import CaseError
from poisson.mesh.differences import ORDERS
from poisson.problem.arrays import brought
from poisson.problem.fields import ArrayField
from poisson.problem.problem import Problem
from poisson.run.ranks import Ranks
from poisson.words import article

Method = Literal["auto", "multigrid", "cg", "fft", "jacobi", "chebyshev", "sor"]
BackendName = Literal["auto", "gpu", "openmp", "numpy"]
Precision = Literal["float64", "float32", "mixed"]
"""The names of the registries as type checkers know them; a test holds them equal."""


class Options(TypedDict, total=False):
    """The further keys of ``[solver]``, as `poisson.case.SolverSettings` describes them."""

    omega: float | None
    loop: Literal["blocked", "fused", "staged"]
    rtol: float
    atol: float
    norm: Literal["rms", "max"]
    max_iterations: int
    check_every: int
    cycle: Literal["V", "W", "F"]
    full: bool
    smoother: Literal["chebyshev", "jacobi", "red-black"]
    pre: int
    post: int
    preconditioner: Literal["none", "jacobi", "multigrid", "fft"]
    stop: Literal["residual", "discretisation"]


class Arguments(Options, total=False):
    """Beside these, what else `poisson.Solver` takes by name."""

    threads: int
    fields: Sequence[FieldName]
    order: Literal[2, 4, 6, 8]
    ranks: int | Sequence[int] | None


def checked_fields(fields: Sequence[str], order: int, problem: Problem) -> tuple[str, ...]:
    """The fields asked for but u, which a solution has in any case."""
    wrong = [fields] if isinstance(fields, str) else [name for name in fields if name not in FIELDS]
    if wrong:
        raise CaseError([f"fields: {wrong[0]!r}; allowed: a list of {', '.join(FIELDS)}"])
    if order not in ORDERS:
        raise CaseError([f"order: {order!r}; allowed: {', '.join(map(str, ORDERS))}"])
    if order != ORDERS[0] and not any(name in VECTORS for name in fields):
        raise CaseError([f"order: {order!r}; allowed: {WITHOUT_VECTORS.format('fields')}"])
    if "error" in fields and problem.exact is None:
        raise CaseError(["fields: 'error'; allowed: only if the exact solution is given"])
    return tuple(name for name in fields if name != "u")


def require_place(out: Any, ranks: Ranks, shape: tuple[int, ...], backend: Backend) -> None:
    """Refuse a place for u that does not fit.

    Raises
    ------
    CaseError
        With one line that says what is wrong.
    """
    if out is None:
        return
    held = ranks.held(shape)
    wanted = shape if held is None else tuple(stop - start for start, stop in held.ranges)
    on_device = not backend.on_host and not ranks.division and isinstance(out, backend.array_module.ndarray)
    if not (isinstance(out, np.ndarray) or on_device):
        found = article(type(out).__name__)
    elif out.shape != wanted or out.dtype != backend.dtype:
        found = f"an array of the shape {out.shape} and the type {out.dtype}"
    elif isinstance(out, np.ndarray) and not out.flags.writeable:
        found = "an array that is read-only"
    else:
        return
    kinds = "a NumPy array" if backend.on_host or ranks.division else "an array of NumPy, or on the device,"
    raise CaseError([f"out: {found}; allowed: {kinds} of the shape {wanted} and the type {backend.dtype}"])


def apart(problem: Problem, out: Any, backend: Backend) -> Problem:
    """The problem with a copy of a source that u is to overwrite: the residual of u is certified from both.

    Parameters
    ----------
    problem : Problem
        The problem.
    out : array, optional
        Where u is to be.
    backend : Backend
        Where it is solved.
    """
    f = problem.f
    if out is None or not isinstance(f, ArrayField) or (f.on_device and backend.on_host):
        return problem
    xp = backend.array_module
    values = brought(f.values, xp) if f.on_device else f.values
    if isinstance(values, np.ndarray) != isinstance(out, np.ndarray):
        return problem
    if not (np if isinstance(out, np.ndarray) else xp).may_share_memory(values, out):
        return problem
    return replace(problem, f=ArrayField(values.copy()))
