# SPDX-License-Identifier: MIT
"""The request to a solver: one record, which a case and the arguments of Python come to."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypedDict

from poisson.case import Case
from poisson.case.settings import FIELDS, VECTORS, WITHOUT_VECTORS, FieldName
from poisson.errors import CaseError
from poisson.mesh.differences import ORDERS
from poisson.problem.problem import Problem
from poisson.run.ranks import Ranks, communicator_of
from poisson.solvers.settings import RunSettings, SolverSettings

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
    coarse: Literal["auto", "geometric", "galerkin"]
    preconditioner: Literal["none", "jacobi", "multigrid", "fft"]
    stop: Literal["residual", "discretisation"]
    kernel: Literal["lattice", "hejlesen2", "hejlesen4", "hejlesen6", "hejlesen8", "spectral"]


class Arguments(Options, total=False):
    """Beside these, what else `poisson.Solver` takes by name."""

    threads: int
    fields: Sequence[FieldName]
    order: Literal[2, 4, 6, 8]
    ranks: int | Sequence[int] | None


@dataclass(frozen=True)
class Request:
    """A problem with all that is asked of its solver."""

    problem: Problem  # What to solve.
    # How, and where.
    settings: SolverSettings
    run: RunSettings
    fields: tuple[str, ...]  # What a solution is to hold beside u.
    order: int  # Order of accuracy of the differences of vectors.
    ranks: Ranks  # Which solve it together.
    count: bool = False  # Whether operations are counted.
    kept: int = 0  # Arrays beside those of a solve: the solution of each body that floats, and one for their sum.

    @classmethod
    def of_case(cls, case: Case, comm: Any = None, *, count: bool = False) -> "Request":
        """The request of a case."""
        fields = tuple(name for name in case.output.fields if name != "u")
        ranks = Ranks(communicator_of(comm), case.run.ranks)
        kept = kept_arrays(case.problem)
        return cls(case.problem, case.solver, case.run, fields, case.output.order, ranks, count, kept)

    @property
    def vectors(self) -> bool:
        """Whether a field is a vector."""
        return any(name in VECTORS for name in self.fields)


def kept_arrays(problem: Problem) -> int:
    """Arrays that are kept for bodies that float."""
    floating = sum(body.floating for body in problem.bodies)
    return floating + (floating > 0)


def checked_fields(fields: Sequence[str], order: int, *, exact: bool) -> tuple[str, ...]:
    """The fields asked for but u, which a solution has in any case."""
    wrong = [fields] if isinstance(fields, str) else [name for name in fields if name not in FIELDS]
    if wrong:
        raise CaseError(f"fields: {wrong[0]!r}; allowed: a list of {', '.join(FIELDS)}")
    if order not in ORDERS:
        raise CaseError(f"order: {order!r}; allowed: {', '.join(map(str, ORDERS))}")
    if order != ORDERS[0] and not any(name in VECTORS for name in fields):
        raise CaseError(f"order: {order!r}; allowed: {WITHOUT_VECTORS.format('fields')}")
    if "error" in fields and not exact:
        raise CaseError("fields: 'error'; allowed: only if the exact solution is given")
    return tuple(name for name in fields if name != "u")
