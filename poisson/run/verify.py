# SPDX-License-Identifier: MIT
"""Verification of a case: against the direct solution of the same discrete problem, and by the order of accuracy."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from poisson import backends
from poisson.backends.registry import AUTO
from poisson.case import Case, SolverSettings, regrid
from poisson.case.combinations import clashes
from poisson.discrete import reference
from poisson.discrete.balance import balanced
from poisson.discrete.discretisation import Discretisation, Operator
from poisson.discrete.share import agreed
from poisson.errors import CaseError, PoissonError
from poisson.mesh.axis import MIN_NODES
from poisson.output.record import Record
from poisson.output.table import Column, Report
from poisson.parallel.communicator import Communicator
from poisson.run import run
from poisson.run.conductors import Floating, held
from poisson.run.ranks import Ranks, communicator_of
from poisson.run.result_fields import Evaluation, error_of
from poisson.run.solution import Solution
from poisson.solvers import registry
from poisson.solvers.iteration import Method, Task
from poisson.solvers.open_space import NOISE
from poisson.solvers.status import Status
from poisson.solvers.stopping import SolveResult, Stopping

if TYPE_CHECKING:
    from poisson.problem.problem import Problem
    from poisson.solvers.surface import SurfaceOperations

ORDER = 2.0
ORDER_TOLERANCE = 0.1

SPECTRUM_UNKNOWNS = 20_000
"""A grid with so many unknowns shows the smallest eigenvalue of the continuous problem well enough."""

SPECTRUM_MARGIN = 0.9
"""The factor on an estimate of the smallest eigenvalue, which lies above it; that of a coarser grid also has a
discretisation error."""

ROUNDS = 2
"""How often the difference between both forms at surfaces is solved for: the second time removes the rounding of the
first."""

AGREES = "ok"
"""The verdict on what differs from the direct solution by no more than is allowed."""

log = logging.getLogger(__name__)


COMPARED = (
    Column("backend", "backend"),
    Column("method", "method"),
    Column("iterations", "iterations"),
    Column("max_difference", "max diff", ".3e"),
    Column("rms_difference", "rms diff", ".3e"),
    Column("allowed", "allowed", ".3e"),
    Column("error_rms", "rms error", ".3e"),
    Column("error_max", "max error", ".3e"),
    Column("verdict", "verdict"),
)
REFINED = (
    Column("shape", "nodes"),
    Column("spacing", "spacing", ".4g"),
    Column("iterations", "iterations"),
    Column("status", "status"),
    Column("error_rms", "rms error", ".4e"),
    Column("error_max", "max error", ".4e"),
    Column("order", "order", ".3f"),
)


@dataclass(frozen=True)
class Verification(Report):
    """A report with a verdict; its values have the units of the case."""

    passed: bool = False


def verify(case: Case, refine: int | None = None, *, comm: Any = None) -> Verification:
    """Verify a case.

    `case`: the case; its backend and loop do not matter, because all of them are compared. `refine`: instead of the
    comparison, solve on so many grids, the case's own last, and observe the order of accuracy. `comm`: the processes
    that solve together. The first has the direct solution, and the whole of what is compared with it; each has the
    report. Raises `PoissonError` if the grid is too large for the direct solution, or the case gives no exact solution
    to refine against.
    """
    communicator = communicator_of(comm)
    # A wrong number of processes is refused before the direct solution, which takes longest.
    Ranks(communicator, case.run.ranks)
    # Of a case that is solved again and again no solve is to be resumed.
    case = replace(case, output=replace(case.output, checkpoint_every=None))
    return _compare(case, communicator) if refine is None else _refine(case, refine, communicator)


def _compare(case: Case, communicator: Communicator) -> Verification:
    """Every available backend and every method or loop that stands for the case's, against scipy.sparse."""
    rows: list[Mapping[str, Any]] = []
    direct: _Direct | None = None
    # The factors take most of the memory, so that several processes of a host have no room for as many of them.
    with agreed(communicator):
        if communicator.rank == 0:
            direct = _Direct(case.problem, case.solver.stopping.rtol)
            rows += direct.rows()
    missing = []
    for info in backends.describe():
        if not info.available:
            missing.append(f"{info.name} not compared: {info.reason}")
            continue
        for name, settings in _variants(case):
            log.info("backend %s, %s", info.name, name)
            on_backend = replace(case, run=replace(case.run, backend=info.name), solver=settings)
            solution = run.go_on(on_backend, None, comm=communicator)
            u = solution.gather()
            if direct is not None and u is not None:
                rows.append({"backend": info.name, "method": name, **direct.beside(solution, u)})
    passed = all(row["verdict"] == AGREES for row in rows if "verdict" in row)
    notes = (
        "diff: difference from the direct solution of the same equations; allowed: what the residual and rounding "
        "explain, residual / smallest eigenvalue; error: difference from equation.exact",
        *missing,
    )
    title = f"{case.problem.title or 'case'}: comparison with scipy.sparse"
    report: Verification = communicator.broadcast(Verification(title, COMPARED, tuple(rows), notes, passed=passed))
    return report


class _Direct:
    """The direct solution of a problem, and what differs from it.

    `rtol`: the tolerance of what is compared with it. Raises `ResourceError` if the grid is too large.
    """

    status, iterations = Status.CONVERGED, 1

    def __init__(self, problem: Problem, rtol: float) -> None:
        self._rtol = rtol
        if any(body.floating for body in problem.bodies):
            at_zero = held(problem, {})
            settled = Floating(problem).settled(
                at_zero, _Direct(at_zero, rtol), lambda each: (_Direct(each, rtol), None)
            )
            problem = settled.problem
        reference.require_size(Discretisation(problem).laplacian)
        self._discretisation = balanced(Discretisation(problem), np)
        log.info("direct solution with scipy.sparse")
        factors = reference.Direct(self._discretisation)
        self._operator = factors.operator
        source, self._u = reference.assemble(self._discretisation)
        method: Method = _Factored(factors, self._surfaces)
        if problem.open_faces:
            from poisson.run.open_space import around

            operations = backends.create("numpy", np.float64).bind(self._operator)
            method = around(operations, method, self._discretisation, direct=True)
        if not method.solve(self._u, source, stopping=Stopping(rtol=1e-14)).status.success:
            raise PoissonError("the values on open faces did not settle by the direct solution")
        varies = self._operator.varies
        self._lowest = SPECTRUM_MARGIN * factors.lowest_eigenvalue() if varies else self._operator.eigenvalues()[0]

    @cached_property
    def _surfaces(self) -> SurfaceOperations | None:
        """The operations beside surfaces; None where no node is beside one."""
        from poisson.solvers.surface import SurfaceOperations

        surface, coefficients = self._discretisation.surface, self._operator.coefficients
        if not surface or not coefficients or not coefficients.beside:
            return None
        return SurfaceOperations.of(backends.create("numpy", np.float64).bind(self._operator), surface)

    @property
    def bodies(self) -> Mapping[str, Mapping[str, float]]:
        """The charges of the bodies with given potentials."""
        if self._surfaces is None:
            return {}
        source, _ = reference.assemble(self._discretisation)
        charges = self._surfaces.charges(self._u, source, self._discretisation.problem)
        return {name: {"charge": charge} for name, charge in charges.items()}

    def rows(self) -> list[Mapping[str, Any]]:
        """Its own row, if there is an exact solution."""
        if not self._discretisation.problem.exact:
            return []
        errors, _ = error_of(self._discretisation, self._u, Evaluation(np))
        return [{"backend": "scipy.sparse", "method": "direct", "error_rms": errors.rms, "error_max": errors.max}]

    def beside(self, solution: Solution, u: NDArray[Any]) -> dict[str, Any]:
        """The cells of a solution, the whole of whose u is given."""
        difference = u.reshape(self._u.shape) - self._u
        allowed = self._allowed(solution)
        agrees = _rms(difference) <= allowed
        return {
            "iterations": solution.iterations,
            "max_difference": float(np.abs(difference).max()),
            "rms_difference": _rms(difference),
            "allowed": allowed,
            "error_rms": solution.error.rms if solution.error else None,
            "error_max": solution.error.max if solution.error else None,
            "verdict": solution.status.value if not solution.status.success else AGREES if agrees else "OFF",
        }

    def _allowed(self, solution: Record) -> float:
        """A bound on the rms difference.

        Rounding: u carries eps of its size, and the direct solution eps times the condition number at the worst.
        """
        highest = self._operator.eigenvalues()[1]
        rounding = float(np.finfo(solution.host_u.dtype).eps) + float(np.finfo(np.float64).eps) * highest / self._lowest
        left_over = _left_over(self._operator, self._lowest, solution)
        # Values on open faces settle to so many times the tolerance.
        settled = NOISE * self._rtol if self._discretisation.problem.open_faces and self._operator.links else 0.0
        return left_over + (4.0 * rounding + settled) * float(np.abs(self._u).max())


class _Factored(Method):
    """A method: the direct solution with the values that u has at fixed nodes.

    `factors`: of the symmetric form at surfaces. `surfaces`: the operations of the form that is asked for, which the
    solution goes over to; None where no node is beside a surface.
    """

    def __init__(self, factors: reference.Direct, surfaces: SurfaceOperations | None) -> None:
        self._factors, self._surfaces = factors, surfaces

    def run(self, task: Task) -> SolveResult:
        task.u[...] = self._factors.solution(task.f, task.u)
        if self._surfaces and self._surfaces.corrects:
            self._correct(self._surfaces, task)
        return SolveResult(Status.CONVERGED, 1, task.u, None, 0.0, ())

    def _correct(self, operations: SurfaceOperations, task: Task) -> None:
        from scipy.sparse.linalg import LinearOperator, bicgstab

        operator, solve = self._factors.operator, self._factors.solve
        shape, free = task.u.shape, ~reference.fixed_nodes(operator)
        # Differences of residuals would do, but the values of the bodies cancel in them.
        rows = operations.backend.bind(operations.rows.of_product(operator.lattice))

        def on_nodes(values: NDArray[Any]) -> NDArray[Any]:
            u = np.zeros(shape)
            u[free] = values
            return u

        def times(values: NDArray[Any]) -> NDArray[Any]:
            u, au = on_nodes(values), np.empty(shape)
            operations.symmetric.residual(u, None, au)
            np.negative(au, out=au)
            rows.replace_rows(au, u, au)
            return au[free]

        size, r = np.count_nonzero(free), np.empty(shape)
        a, b = (LinearOperator((size, size), each, dtype=np.float64) for each in (times, solve))
        for _ in range(ROUNDS):
            operations.residual(task.u, task.f, r)
            missing, _ = bicgstab(a, r[free], rtol=1e-8, M=b, maxiter=100)
            task.u[...] += on_nodes(missing)


def _variants(case: Case) -> Iterator[tuple[str, SolverSettings]]:
    """The variants to compare, by name: for ``auto`` every method that it may choose and that fits."""
    # What stops at the discretisation error, or has another kernel, is not meant to agree with the direct solution.
    given = case.solver.having(stop="residual", kernel="lattice")
    if given.method != AUTO:
        yield from registry.method_of(given).variants(given).items()
        return
    for method, entry in registry.methods().items():
        settings = replace(given, method=method)
        if entry.offer and not any(clashes(settings, case.run, case.problem)):
            yield method, settings


def _left_over(operator: Operator, lowest: float, solution: Record) -> float:
    """A bound on the rms difference from the solution of the discrete equations that the residual explains.

    In the norm with the trapezoidal weights A is symmetric, so ‖e‖ ≤ ‖r‖ / λ_min there. The weights lie between 2^−d
    and 1.
    """
    weights = math.sqrt(2.0**operator.dimension)
    per_node = math.sqrt(operator.unknowns / math.prod(operator.shape)) if solution.norm == "rms" else 1.0
    return weights * per_node * solution.residual / lowest


def _rms(values: NDArray[np.floating]) -> float:
    return math.sqrt(float(np.mean(values.astype(np.float64) ** 2)))


def _refine(case: Case, grids: int, communicator: Communicator) -> Verification:
    """The error against the exact solution on a sequence of grids."""
    if case.problem.exact is None:
        raise CaseError("verify --refine needs equation.exact, the exact solution as an expression")
    case = replace(case, output=replace(case.output, fields=("u",)))
    shapes = refinement_shapes(case, grids)
    rows = []
    converged = True
    order: float | None = None
    before: tuple[float, float] | None = None
    for shape in shapes:
        log.info("grid %s", " x ".join(map(str, shape)))
        solution = run.go_on(regrid(case, shape), None, comm=communicator)
        assert solution.error is not None
        converged = converged and solution.status.success
        now = max(solution.problem.lattice.spacing), solution.error.rms
        order = None if before is None else _order(before, now)
        rows.append(
            {
                "shape": shape,
                "spacing": now[0],
                "iterations": solution.iterations,
                "status": solution.status.value,
                "error_rms": solution.error.rms,
                "error_max": solution.error.max,
                "order": order,
            }
        )
        before = now
    with agreed(communicator):
        lowest = _lowest(case, shapes) if communicator.rank == 0 else math.nan
    lowest = communicator.broadcast(lowest)
    left_over = _left_over(Discretisation(solution.problem).laplacian, lowest, solution)
    passed = False
    if not converged:
        note = "no verdict: a solve has not converged"
    elif order is None or now[1] <= left_over:
        note = (
            f"no verdict: the error is not above {left_over:.1e}, which the residual may leave; take a smaller "
            "solver.rtol, or another equation.exact if the discretisation is exact for this one"
        )
    else:
        passed = abs(order - ORDER) <= ORDER_TOLERANCE
        note = f"observed order on the finest grids: {order:.3f}; expected {ORDER:g} within {ORDER_TOLERANCE:g}"
    title = f"{case.problem.title or 'case'}: order of accuracy"
    return Verification(title, REFINED, tuple(rows), (note,), passed=passed)


def _lowest(case: Case, shapes: list[tuple[int, ...]]) -> float:
    """The smallest eigenvalue of a case on the last of the grids, or a little less.

    Where the coefficients vary it is that of the finest of the grids that is quick to factorise: the lowest mode is
    smooth, so that it hardly depends on the grid.
    """
    on_grids = [Discretisation(regrid(case, shape).problem) for shape in shapes]
    if not case.problem.varies:
        return on_grids[-1].operator.eigenvalues()[0]
    small = [grid for grid in on_grids if grid.laplacian.unknowns <= SPECTRUM_UNKNOWNS]
    return SPECTRUM_MARGIN * reference.Direct((small or on_grids)[-1 if small else 0]).lowest_eigenvalue()


def _order(before: tuple[float, float], now: tuple[float, float]) -> float | None:
    """The observed order from (spacing, error) on two grids; None where an error has no logarithm."""
    if not all(0.0 < error < math.inf for _, error in (before, now)):
        return None
    return math.log(before[1] / now[1]) / math.log(before[0] / now[0])


def refinement_shapes(case: Case, grids: int) -> list[tuple[int, ...]]:
    """The grids of an order study, coarse to fine: the case's own last, each with half the intervals of the next.

    Raises CaseError if the coarsest would have too few nodes.
    """
    if grids < 2:
        raise CaseError(f"verify --refine={grids}: at least 2 grids are needed")
    grid = case.problem.lattice

    def shape(level: int) -> tuple[int, ...]:
        intervals = (round(math.ldexp(count, -level)) for count in grid.intervals)
        return tuple(n + axis.nodes - axis.intervals for n, axis in zip(intervals, grid.axes, strict=True))

    if min(shape(grids - 1)) < MIN_NODES:
        raise CaseError(
            f"verify --refine={grids}: the coarsest grid would have {min(shape(grids - 1))} nodes along an axis; "
            "use fewer grids"
        )
    return [shape(level) for level in reversed(range(grids))]
