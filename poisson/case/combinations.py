# SPDX-License-Identifier: MIT
"""The settings that make sense together, and with a problem: rules for every method, and those of the entries."""

from collections.abc import Iterator

from poisson.backends.registry import AUTO
from poisson.mesh.boundary import Kind
from poisson.mesh.grid import AXES
from poisson.mesh.system import CARTESIAN
from poisson.problem.problem import CONSTANT_A, FORMS, MEANS, Problem, number
from poisson.solvers import registry
from poisson.solvers.entries import Clash, clash
from poisson.solvers.settings import RunSettings, SolverSettings

OPEN = "a face is open"


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
        if solver.stopping.stop == "discretisation" and problem.bodies:
            yield clash("stop", solver.stopping.stop, '"residual" with bodies')
        if problem.surface != FORMS[0] and not problem.bodies:
            yield Clash(("equation", "surface"), problem.surface, "only its default without bodies")
        if problem.mean != MEANS[0] and number(problem.a) is not None:
            yield Clash(("equation", "mean"), problem.mean, CONSTANT_A)
        if problem.open_faces:
            yield from _open(solver, run, problem)
        if entry:
            yield from entry.refused(solver, problem)


def _open(solver: SolverSettings, run: RunSettings, problem: Problem) -> Iterator[Clash]:
    """Settings and data that do not go with open faces."""
    if problem.lattice.system != CARTESIAN:
        reason = f"another condition, because system = {problem.lattice.system!r}"
        yield Clash(("boundary", problem.lattice.faces[problem.open_faces.index(True)]), Kind.OPEN.value, reason)
        return
    for place, (face, given) in enumerate(zip(problem.lattice.faces, problem.faces, strict=True)):
        if given.alpha is not None and problem.open_faces[place ^ 1]:
            yield Clash(("boundary", face), given.kind.value, "another condition, because the opposite face is open")
    if solver.stopping.stop == "discretisation":
        yield clash("stop", solver.stopping.stop, f'"residual", because {OPEN}')
    for axis, line in enumerate(problem.lattice.axes):
        if line.placement and not line.placement.even and any(problem.open_faces[2 * axis : 2 * axis + 2]):
            reason = f"equally spaced nodes or cells along {AXES[axis]}, because {OPEN}"
            yield Clash(("boundary", f"{AXES[axis]}_lower"), Kind.OPEN.value, reason)


def _blocks(blocks: tuple[int, ...], nodes: tuple[int, ...]) -> Iterator[Clash]:
    """Whether a grid can be divided into these blocks."""
    path, given = ("run", "ranks"), list(blocks)
    named = ", ".join(AXES[: len(nodes)])
    if len(blocks) != len(nodes):
        yield Clash(path, given, f"one number of blocks for each of {named}")
    elif any(count > most for count, most in zip(blocks, nodes, strict=True)):
        yield Clash(path, given, f"at most as many blocks as nodes along {named}: {', '.join(map(str, nodes))}")
