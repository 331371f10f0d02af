# SPDX-License-Identifier: MIT
"""The settings that make sense together, and with a problem: rules for every method, and those of the entries."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from poisson.backends.registry import AUTO
from poisson.case.mistakes import Mistakes, validate
from poisson.mesh.boundary import Kind
from poisson.mesh.grid import AXES
from poisson.mesh.system import ANGLE, CARTESIAN
from poisson.problem.fields import ArrayField, FieldFile
from poisson.problem.problem import CONSTANT_A, FORMS, MEANS, Problem, number
from poisson.solvers import registry
from poisson.solvers.entries import Clash, clash
from poisson.solvers.settings import RunSettings, SolverSettings

OPEN = "a face is open"


def checked_settings(
    solver: Mapping[str, Any], run: Mapping[str, Any], problem: Problem
) -> tuple[SolverSettings, RunSettings]:
    """The settings of ``[solver]`` and ``[run]`` with these keys, checked as those of a case file with a problem are.

    Keys that are left out have their defaults. Raises CaseError with one line for each mistake.
    """
    # Numbers of Python in the place of NumPy's.
    tables = {
        name: {key: item.item() if isinstance(item, np.generic) else item for key, item in given.items()}
        for name, given in (("solver", solver), ("run", run))
    }
    mistakes = Mistakes()
    settings = settings_of(validate(tables, mistakes))
    mistakes.disagree(clashes(*settings, problem))
    mistakes.refuse()
    return settings


def settings_of(tables: Mapping[str, Any]) -> tuple[SolverSettings, RunSettings]:
    """The settings in the tables of a case whose keys are each right by itself."""
    run = tables["run"]
    ranks = None if run["ranks"] == AUTO else tuple(run["ranks"]) if isinstance(run["ranks"], list) else run["ranks"]
    return SolverSettings().having(**tables["solver"]), RunSettings(
        run["backend"], run["precision"], run["threads"], ranks
    )


def clashes(solver: SolverSettings, run: RunSettings, problem: Problem | None) -> Iterator[Clash]:
    """The settings that make no sense with the method, with each other, or for the problem.

    A key that the method does not use may have its default only: no setting is accepted and then ignored.

    `solver`, `run`: each key right by itself. `problem`: without it only the settings are compared.
    """
    method = solver.method
    for name, value in solver.changed().items():
        if name not in registry.COMMON_KEYS and method not in registry.users_of(name):
            users = ", ".join(registry.users_of(name))
            yield clash(name, value, f'only its default with method "{method}"; the key belongs to {users}')
    entry = None if method == AUTO else registry.method_of(solver)
    if entry:
        yield from entry.wrong(solver, run.precision)
    if run.precision == "mixed":
        mixed = (AUTO, *(name for name, entry in registry.methods().items() if entry.mixed))
        if method not in mixed:
            reason = f'"float64" or "float32" with method "{method}"; "mixed" goes with {", ".join(mixed)}'
            yield Clash(("run", "precision"), "mixed", reason)
        elif solver.stopping.stop == "discretisation":
            reason = '"float64" or "float32" with solver.stop "discretisation"'
            yield Clash(("run", "precision"), "mixed", reason)
    if run.threads and not run.threaded:
        reason = f'only its default with backend "{run.backend}", which has no number of threads'
        yield Clash(("run", "threads"), run.threads, reason)
    if problem is not None:
        if run.blocks is not None:
            yield from _blocks(run.blocks, problem.lattice.array_shape[::-1])
        if solver.stopping.stop == "discretisation" and problem.guess:
            reason = '"residual" with an initial guess (run.initial), which full multigrid would not use'
            yield clash("stop", solver.stopping.stop, reason)
        if solver.stopping.stop == "discretisation" and (reason := _incomparable(problem)):
            yield clash("stop", solver.stopping.stop, f'"residual" with {reason}')
        if problem.surface != FORMS[0] and not problem.bodies:
            yield Clash(("equation", "surface"), problem.surface, "only its default without bodies")
        if problem.mean != MEANS[0] and number(problem.a) is not None:
            yield Clash(("equation", "mean"), problem.mean, CONSTANT_A)
        if problem.open_faces:
            yield from _open(solver, run, problem)
        if entry:
            yield from entry.refused(solver, problem)


def _incomparable(problem: Problem) -> str:
    """Why solutions beside bodies are not compared between grids; empty if they are, or without a body."""
    from poisson.solvers.multigrid.coarser import MOST

    if not problem.bodies:
        return ""
    if any(isinstance(body.inside.level, (ArrayField, FieldFile)) for body in problem.bodies):
        return "bodies from arrays or files"
    fine, coarse = problem.lattice, problem.lattice.coarser
    for _ in range(MOST):
        if coarse is None:
            break
        for one, other in zip(fine.axes, coarse.axes, strict=True):
            every = one.coordinates[::2]
            if every.shape != other.coordinates.shape or not np.allclose(every, other.coordinates, rtol=1e-12):
                return "bodies on other nodes than 4 k + 1 along each axis, or 4 k where it is periodic"
        fine, coarse = coarse, coarse.coarser
    return ""


def _open(solver: SolverSettings, run: RunSettings, problem: Problem) -> Iterator[Clash]:
    """Settings and data that do not go with open faces."""
    lattice, space = problem.lattice, problem.open_faces
    radial = lattice.system != CARTESIAN
    beside = ANGLE in lattice.names and any(space[2:])
    for reason, wrong in ((f"{ANGLE} is an axis", beside), ("space ends there", radial and space[0])):
        if wrong:
            face = lattice.faces[space.index(True, 2 if beside else 0)]
            yield Clash(("boundary", face), Kind.OPEN.value, f"another condition, because {reason}")
            return
    for place, (face, given) in enumerate(zip(lattice.faces, problem.faces, strict=True)):
        if given.alpha is not None and space[place ^ 1] and not (radial and place == 0):
            yield Clash(("boundary", face), given.kind.value, "another condition, because the opposite face is open")
        if given.alpha is not None and place // 2 == lattice.angle:
            yield Clash(("boundary", face), given.kind.value, f"another condition, because {OPEN}")
    if solver.stopping.stop == "discretisation":
        yield clash("stop", solver.stopping.stop, f'"residual", because {OPEN}')
    for axis, (name, line) in enumerate(zip(lattice.names, lattice.axes, strict=True)):
        placed, ends = line.placement, space[2 * axis : 2 * axis + 2]
        if placed and any(ends) and not (placed.regular if placed.power else placed.even):
            reason = f"equally spaced nodes or cells along {name}, because {OPEN}"
            yield Clash(("boundary", lattice.faces[2 * axis + (radial and ends[1])]), Kind.OPEN.value, reason)


def _blocks(blocks: tuple[int, ...], nodes: tuple[int, ...]) -> Iterator[Clash]:
    """Whether a grid can be divided into these blocks."""
    path, given = ("run", "ranks"), list(blocks)
    named = ", ".join(AXES[: len(nodes)])
    if len(blocks) != len(nodes):
        yield Clash(path, given, f"one number of blocks for each of {named}")
    elif any(count > most for count, most in zip(blocks, nodes, strict=True)):
        yield Clash(path, given, f"at most as many blocks as nodes along {named}: {', '.join(map(str, nodes))}")
