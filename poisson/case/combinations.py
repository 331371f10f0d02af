"""Which settings make sense together, and for which problem."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields
from types import MappingProxyType
from typing import Any, NamedTuple

from poisson.mesh.boundary import Kind
from poisson.mesh.grid import AXES
from poisson.problem.problem import CONSTANT_A, MEANS, Problem, number
from poisson.solvers.settings import RunSettings, SolverSettings

_CYCLE = frozenset(("cycle", "smoother", "pre", "post"))

KEYS_OF_METHOD: Mapping[str, frozenset[str]] = MappingProxyType(
    {
        "auto": frozenset(("stop",)),
        "multigrid": _CYCLE | {"full", "stop"},
        "cg": _CYCLE | {"preconditioner"},
        "fft": frozenset(),
        "jacobi": frozenset(("omega", "loop", "check_every")),
        "chebyshev": frozenset(("check_every",)),
        "sor": frozenset(("omega", "check_every")),
    }
)
"""The keys of ``[solver]`` that mean something to each method, beside those that all have."""

COMMON_KEYS = frozenset(("method", "rtol", "atol", "norm", "max_iterations"))
MIXED_METHODS = ("auto", "multigrid", "cg")


class Clash(NamedTuple):
    """A value that does not go with the others: its key, the value, and what would."""

    path: tuple[str, str]
    item: Any
    allowed: str


def clashes(solver: SolverSettings, run: RunSettings, problem: Problem | None) -> Iterator[Clash]:
    """The settings that make no sense with the method, with each other, or for the problem.

    A key that the method does not use may have its default only: no setting is accepted and then ignored.

    Parameters
    ----------
    solver, run : SolverSettings, RunSettings
        Each key right by itself.
    problem : Problem, optional
        Without it only the settings are compared.
    """
    method = solver.method
    for field in fields(SolverSettings):
        value = getattr(solver, field.name)
        if value != field.default and field.name not in COMMON_KEYS | KEYS_OF_METHOD[method]:
            users = ", ".join(name for name, keys in KEYS_OF_METHOD.items() if field.name in keys)
            yield _clash(field.name, value, f'only its default with method "{method}"; it is a key of {users}')
    if method == "jacobi" and solver.omega is not None and solver.omega > 1.0:
        yield _clash("omega", solver.omega, 'a number > 0 and <= 1 with method "jacobi"; "sor" takes less than 2')
    if method == "cg" and solver.preconditioner != "multigrid":
        for name in sorted(_CYCLE):
            if getattr(solver, name) != getattr(SolverSettings, name):
                reason = f'only its default with preconditioner "{solver.preconditioner}"'
                yield _clash(name, getattr(solver, name), reason)
    if solver.pre + solver.post == 0:
        yield _clash("post", 0, "at least 1 where solver.pre is 0: a cycle needs a smoothing sweep")
    if solver.stop == "discretisation" and not solver.full:
        reason = 'true with solver.stop "discretisation", which compares the levels of full multigrid'
        yield _clash("full", False, reason)
    if run.precision == "mixed":
        if method not in MIXED_METHODS:
            reason = f'"float64" or "float32" with method "{method}"; "mixed" goes with {", ".join(MIXED_METHODS)}'
            yield Clash(("run", "precision"), "mixed", reason)
        elif method == "cg" and solver.preconditioner not in ("multigrid", "fft"):
            reason = f'"float64" or "float32" with preconditioner "{solver.preconditioner}"'
            yield Clash(("run", "precision"), "mixed", reason)
        elif solver.stop == "discretisation":
            reason = '"float64" or "float32" with solver.stop "discretisation", which a cycle or two reach'
            yield Clash(("run", "precision"), "mixed", reason)
    if run.threads and not run.threaded:
        reason = f'only its default with backend "{run.backend}", which has no threads to count'
        yield Clash(("run", "threads"), run.threads, reason)
    if problem is not None:
        yield from _of_problem(solver, problem)


def _of_problem(solver: SolverSettings, problem: Problem) -> Iterator[Clash]:
    if solver.stop == "discretisation" and problem.guess:
        reason = '"residual" with an initial guess (run.initial), which a start on the coarsest grid would not use'
        yield _clash("stop", solver.stop, reason)
    if problem.mean != MEANS[0] and number(problem.a) is not None:
        yield Clash(("equation", "mean"), problem.mean, CONSTANT_A)
    colored = "method" if solver.method == "sor" else "smoother" if solver.smoother == "red-black" else ""
    odd = [axis for axis, nodes in enumerate(problem.grid.shape) if problem.grid.periodic[axis] and nodes % 2]
    if colored and odd:
        axis = AXES[odd[0]]
        value = getattr(solver, colored)
        yield _clash(
            colored,
            value,
            f"another one, as red and black nodes alternate along a periodic axis only where its nodes are even in "
            f"number, and domain.shape has {problem.grid.shape[odd[0]]} along {axis}",
        )
    if solver.method == "fft":
        robin = any(face.kind is Kind.ROBIN for face in problem.faces)
        if problem.varies and not robin:
            reason = 'only with constant equation.a and equation.c; use "auto", or "cg" with preconditioner "fft"'
            yield _clash("method", "fft", reason)
        elif robin:
            yield _clash("method", "fft", 'only without robin faces; use "auto", or "cg" with preconditioner "fft"')
        elif problem.guess:
            reason = 'only without an initial guess (run.initial), which transforms do not use; "auto" takes one'
            yield _clash("method", "fft", reason)


def _clash(name: str, item: Any, allowed: str) -> Clash:
    return Clash(("solver", name), item, allowed)
