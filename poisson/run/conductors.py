# SPDX-License-Identifier: MIT
"""Conductors: the capacitances of bodies, and the potentials of those that float, by superposition."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from poisson.errors import CaseError
from poisson.problem.expressions import Expression
from poisson.problem.problem import Problem, number
from poisson.run.operator import unchanged
from poisson.solvers.status import Status
from poisson.words import article

if TYPE_CHECKING:
    from poisson.case import Case
    from poisson.problem.bodies import Body
    from poisson.run.solution import Solution
    from poisson.run.solver import Solver

FACES = "faces"
"""The name of all Dirichlet faces together, as a conductor."""

RTOL = 1e-10
"""The tolerance of the solves for capacitances, if none is given."""

SINGULAR = 1e-9
"""Influences whose inverse is larger by this than they are determine no potentials."""

UNHELD = "body: nothing but bodies that float; allowed: a body or a face with a potential beside them"

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Capacitance:
    """The Maxwell capacitance matrix of conductors.

    `names`: the conductors, bodies first; the Dirichlet faces are one together, the last, if no face is open.
    `matrix`: in units of ε₀ and of L, in 2D of ε₀ alone, per length: the charge on each conductor (row) where the
    potential of one of them (column) is 1, and 0 that of the others. `solutions`: for each body, where it has the
    potential 1.

    Examples
    --------
    >>> wire = poisson.Body("hypot(x - 0.5, y - 0.5) < 0.2", dirichlet=1.0, name="wire")
    >>> poisson.capacitance(poisson.Problem.on_box((33, 33), bodies=[wire])).names
    ('wire', 'faces')
    """

    names: tuple[str, ...]
    matrix: NDArray[np.float64]
    solutions: tuple[Solution, ...] = field(repr=False)

    @property
    def converged(self) -> bool:
        """Whether all solves did.

        Examples
        --------
        >>> wire = poisson.Body("hypot(x - 0.5, y - 0.5) < 0.2", dirichlet=1.0)
        >>> poisson.capacitance(poisson.Problem.on_box((33, 33), bodies=[wire])).converged
        True
        """
        return all(solution.status.success for solution in self.solutions)


def capacitance(problem: Problem, *, comm: Any = None, **options: Any) -> Capacitance:
    """The capacitance matrix of the bodies with given potentials or charges, and of the Dirichlet faces.

    The symmetric form is solved, once for each body; f and the potentials that are given play no part. The matrix is
    symmetric, and as no flow leaves the box otherwise its rows add up to zero. Beside open faces it has the bodies
    alone: what their charges lack is on the walls and infinitely far away, where the potential is 0, or in 2D with
    nothing but open faces −Q ln(r) / 2π for the charge Q.

    Parameters
    ----------
    problem : Problem
        With bodies that are ``dirichlet`` or ``floating``, beside any obstacles and dielectrics, and with c = 0.
    comm : communicator of mpi4py, optional
        The processes that solve together, each of which calls this and gets all.
    **options
        As `poisson.Solver` takes them; by default ``rtol=1e-10``.

    Returns
    -------
    Capacitance
        The names of the conductors and the matrix.

    Raises
    ------
    CaseError
        If there is no conductor, or c or α is not zero.

    Examples
    --------
    >>> disc = {"shape": "sphere", "center": (0.0, 0.0), "radius": 0.25}
    >>> bodies = [poisson.Body(disc, dirichlet=1.0, name="wire"), poisson.Body("hypot(x, y) > 0.9", dirichlet=0.0)]
    >>> coax = poisson.Problem.on_box((129, 129), lower=(-1, -1), upper=(1, 1), bodies=bodies)
    >>> found = poisson.capacitance(coax)
    >>> found.names, found.matrix[:2, :2].round(2).tolist()  # 2π / ln(0.9/0.25) = 4.91
    (('wire', 'body2', 'faces'), [[4.9, -4.9], [-4.9, 4.9]])
    """
    from poisson.run.solver import Solver

    if not isinstance(problem, Problem):
        raise CaseError(f"problem: {article(type(problem).__name__)}; allowed: a poisson.Problem")
    return _capacitance(problem, lambda unit: Solver(unit, comm=comm, **{"rtol": RTOL, **options}))


def capacitance_of(case: Case, comm: Any = None) -> Capacitance:
    """The same of a case, with its settings."""
    from poisson.run.request import Request
    from poisson.run.solver import Solver, of_request

    request = Request.of_case(case, comm)
    return _capacitance(case.problem, lambda unit: of_request(Solver, replace(request, problem=unit, kept=0)))


def _capacitance(problem: Problem, solver_of: Callable[[Problem], Solver]) -> Capacitance:
    conductors = [body for body in problem.bodies if body.kind in ("dirichlet", "floating")]
    if not conductors:
        raise CaseError("body: no conductor; allowed: bodies with dirichlet or floating = true")
    absorbs = any(face.absorbs for face in problem.faces) or any(body.kind == "robin" for body in problem.bodies)
    if number(problem.c) != 0.0 or absorbs:
        raise CaseError("equation.c: c or a robin condition; allowed for capacitances: c = 0, no alpha")
    units = [_unit(replace(problem, surface="symmetric"), body) for body in conductors]
    solver = solver_of(units[0])
    solutions, rows = [], []
    for unit in units:
        solution = solver.keep_on(None, None, lambda: False, bodies=unit.bodies)
        solutions.append(solution)
        rows.append([solution.bodies[each.name]["charge"] for each in conductors])
    matrix = np.array(rows)
    matrix = (matrix + matrix.T) / 2.0
    names = tuple(body.name for body in conductors)
    if any(face.kind.fixes for face in problem.faces) and not problem.open_faces:
        rest = -matrix.sum(axis=0)
        matrix = np.block([[matrix, rest[:, np.newaxis]], [rest[np.newaxis], np.array([[-rest.sum()]])]])
        names += (FACES,)
    return Capacitance(names, matrix, tuple(solutions))


class Charged(Protocol):
    """A solution, as far as the charges of its bodies go."""

    @property
    def status(self) -> Status: ...

    @property
    def iterations(self) -> int: ...

    @property
    def bodies(self) -> Mapping[str, Mapping[str, float]]: ...


@dataclass(frozen=True)
class Settled:
    """A problem whose bodies float at their potentials.

    `problem`: with these potentials. `potentials`: by the names of the bodies. `parts`: each potential with what is
    kept of u where its body is at 1 and all other data are zero: what u is more than with all bodies at 0.
    """

    problem: Problem
    potentials: Mapping[str, float]
    parts: tuple[tuple[float, Any], ...]


class Floating:
    """The bodies of a problem that float, whose potentials follow from their charges by superposition.

    With all of them at 0 each has some charge. With one of them at 1 and all other data zero it has its influence,
    which is found once for the coefficients and kept with u. Raises `CaseError` if nothing determines the potentials.
    """

    def __init__(self, problem: Problem) -> None:
        absorbs = number(problem.c) != 0.0 or any(face.kind.fixes or face.absorbs for face in problem.faces)
        if not absorbs and all(body.kind not in ("dirichlet", "robin") for body in problem.bodies):
            raise CaseError(UNHELD)
        self.problem = problem
        self._bodies = [body for body in problem.bodies if body.floating]
        self._influence: tuple[Problem, NDArray[np.float64], tuple[Any, ...]] | None = None

    def forget(self) -> None:
        """Let go of what was found for the coefficients."""
        self._influence = None

    def settled(self, problem: Problem, at_zero: Charged, solve: Callable[[Problem], tuple[Charged, Any]]) -> Settled:
        """A problem whose bodies float at 0, at their potentials; after an interrupted solve at 0 still.

        `at_zero`: its solution. `solve`: the solution of a problem that differs from it in data, and what is to be kept
        of its u. Raises `CaseError` as the class does.
        """

        def charges(found: Charged) -> list[float]:
            # A body that no node sees has none.
            return [found.bodies.get(body.name, {}).get("charge", 0.0) for body in self._bodies]

        ended = at_zero.status is Status.INTERRUPTED
        if not ended and (self._influence is None or unchanged(problem, self._influence[0]) != {"a", "c"}):
            self._influence = None
            floating = replace(problem, bodies=self.problem.bodies)
            units = [solve(_unit(floating, body)) for body in self._bodies]
            ended = any(found.status is Status.INTERRUPTED for found, _ in units)
            if not ended:
                matrix = np.array([charges(found) for found, _ in units]).T
                self._influence = problem, matrix, tuple(u for _, u in units)
                of_each = zip(self._bodies, units, strict=True)
                each = ", ".join(f"{found.iterations} for {body.name}" for body, (found, _) in of_each)
                log.info("solved with one body at 1 after the other, once for all calls; iterations: %s", each)
        if ended or self._influence is None:
            return Settled(problem, dict.fromkeys((body.name for body in self._bodies), 0.0), ())
        _, influence, solutions = self._influence
        missing = np.array([body.charge for body in self._bodies]) - charges(at_zero)
        for body, own in zip(self._bodies, np.diagonal(influence), strict=True):
            if own == 0.0:
                raise CaseError(f"body {body.name}: floating; allowed: bodies with a node beside their surface")
        values = np.linalg.eigvals(influence)
        if not np.abs(values).min() > SINGULAR * np.abs(values).max():
            raise CaseError(UNHELD)
        values = np.linalg.solve(influence, missing).tolist()
        found = dict(zip((body.name for body in self._bodies), values, strict=True))
        log.info("%s", ", ".join(f"{name} floats at {value:.6g}" for name, value in found.items()))
        settled = held(replace(problem, bodies=self.problem.bodies), found)
        return Settled(settled, found, tuple(zip(values, solutions, strict=True)))


def gone_on(first: Solution, then: Solution) -> Solution:
    """The solution of a solve that went on from where the first one ended, as that of both."""
    done = first.iterations
    return replace(
        then,
        iterations=done + then.iterations,
        history=(*first.history[:-1], *((done + number, norm) for number, norm in then.history)),
        times={name: first.times.get(name, 0.0) + seconds for name, seconds in then.times.items()},
    )


def held(problem: Problem, values: Mapping[str, float]) -> Problem:
    """The problem with the bodies that float at these potentials; at 0 those without one."""
    bodies = tuple(
        replace(body, floating=False, charge=None, dirichlet=Expression.constant(values.get(body.name, 0.0)))
        if body.floating
        else body
        for body in problem.bodies
    )
    return replace(problem, bodies=bodies)


def _unit(problem: Problem, at: Body) -> Problem:
    """The problem with one body at the potential 1, and all other data zero."""
    nothing = Expression.constant(0.0)
    bodies = []
    for body in problem.bodies:
        kind = "dirichlet" if body.floating else body.kind
        value = body.a if kind == "a" else Expression.constant(float(body is at))
        given: dict[str, Any] = {"floating": False, "charge": None, kind: value}
        bodies.append(replace(body, **given))
    faces = tuple(face if face.value is None else replace(face, value=nothing) for face in problem.faces)
    return replace(problem, bodies=tuple(bodies), faces=faces, f=nothing, initial=nothing, exact=None)
